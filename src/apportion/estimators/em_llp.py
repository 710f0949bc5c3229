"""Expectation–maximization around any classifier: soft labels and a rule, in turn."""

from __future__ import annotations

import inspect
import warnings
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from apportion._core.projection import reconcile
from apportion._utils.parameters import integer, parameter_error, real
from apportion._utils.typing import FloatArray, IntArray
from apportion.estimators._base import seeded
from apportion.estimators._inductive import InductiveClassifier
from apportion.estimators._kernels import center_of, centered
from apportion.estimators.mean_map import MeanMap
from apportion.exceptions import users_level
from apportion.supervision.bags import Bags

_MANY_ROWS = 2000
"""From here on, gradient boosting is the default classifier."""

_FAR = 1e3
"""A feature whose mean is this many standard deviations from 0 is centered."""

_LEAST_WEIGHT = 1e-3
"""A soft label below this share of the largest of its class is not learned from."""

_SMALL_MOVE = 0.02
"""A round that moves less mass than this, and no less than three rounds before, is the last."""


class EMLLP(InductiveClassifier):
    """Expectation–maximization: any classifier with `predict_proba`, fitted to soft labels.

    `argmin_{p,F} Σ_i KL(f_i ‖ p(x_i))`, in turn over rules p and over soft labels F that keep the
    totals of every bag. E-step: the rule's probabilities are reconciled with each bag by a shift of
    their logits; in a bag of proportion 0 or 1, soft labels are exactly 0 and 1. M-step: the rule
    is fitted to all rows, once per class, weighted by the soft labels. The result depends on the
    start. Starting from the bags' own proportions, the soft labels would hardly move; therefore,
    the default start is `MeanMap`.

    Parameters
    ----------
    estimator : classifier, optional
        A scikit-learn classifier with `predict_proba` whose `fit` takes `sample_weight`, or a
        pipeline that ends with one. By default, logistic regression on standardized features below
        2,000 rows, else `HistGradientBoostingClassifier`. Features whose mean is more than 1,000
        standard deviations from 0 are centered, because trees work in single precision; a
        pipeline sees all features as they are.
    start : None, array of shape (n_samples, n_classes) or estimator, default=None
        Soft labels to start from, or an estimator with `fit(X, y, bags=, proportions=)` and
        `predict_proba`. They are reconciled with the bags. By default, `MeanMap()` on standardized
        features.
    max_iter : int, default=200
        The largest number of rounds.
    tol : float, default=1e-4
        Stop when a round moves at most this share of the soft labels' mass to other classes; or at
        most 2 % and no less than three rounds before, because trees do not converge further.
    decode : {"quota", "threshold"}, default="quota"
        Label the fitted rows with exactly the counts of every bag, or every row with its most
        likely class under the totals of its bag. `predict` without totals does not use it.
    random_state : int, RandomState or None, default=None
        The seed of the classifier, if it takes one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        Soft labels of the fitted rows, reconciled with their bags' totals.
    transduction_ : ndarray of shape (n_samples,)
        A label for every fitted row.
    bag_report_ : BagReport
        Given and assigned totals per bag and class, for both decodings.
    diagnosis_ : Diagnosis
        Which classes the totals can tell apart.
    estimator_ : classifier
        The fitted classifier; its labels are positions in `classes_`.
    moves_ : tuple of float
        The share of the soft labels' mass that each round moved.
    n_iter_ : int
        The number of rounds.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    >>> model = EMLLP().fit(X, bags=[0, 0, 0, 1, 1, 1], proportions=np.array([1 / 3, 2 / 3]))
    >>> model.predict([[-1.0], [6.0]]).tolist()
    [0, 1]
    """

    _allowed: ClassVar = {
        **InductiveClassifier._allowed,
        "max_iter": integer(1),
        "tol": real(low=0),
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        start: Any = None,
        max_iter: int = 200,
        tol: float = 1e-4,
        decode: str = "quota",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.start = start
        self.max_iter = max_iter
        self.tol = tol
        self.decode = decode
        self.random_state = random_state

    @property
    def estimator_(self) -> Any:
        """The fitted classifier."""
        return self._rule.learner

    def _check_parameters(self) -> None:
        super()._check_parameters()
        estimator, allowed = self.estimator, None
        if isinstance(estimator, type):
            allowed = f"an estimator, not a class: write {estimator.__name__}()"
        elif estimator is not None and not hasattr(estimator, "predict_proba"):
            allowed = (
                "None or a classifier with fit and predict_proba, e.g. LogisticRegression() or a "
                "CalibratedClassifierCV around another classifier"
            )
        elif estimator is not None and not _takes_weights(estimator):
            allowed = (
                "a classifier whose fit takes sample_weight, because soft labels enter as weights, "
                "e.g. LogisticRegression, RandomForestClassifier or HistGradientBoostingClassifier"
            )
        if allowed is not None:
            raise parameter_error(self, "estimator", allowed)

    def _learn(self, X: FloatArray, bags: Bags, start: FloatArray | None, seed: int) -> None:
        self._center = None if isinstance(self.estimator, Pipeline) else _far_center(X)
        X = centered(X, self._center)
        if start is None:
            first = MeanMap()
            scaled = StandardScaler().fit_transform(centered(X, center_of(X)))
            first._learn(scaled, bags, None, seed)
            start = reconcile(first._soft_labels(scaled), bags)
        solution = expectation_maximization(
            X, bags, self._learner(len(X), seed), start, tol=self.tol, max_iter=self.max_iter
        )
        if not solution.converged:
            warnings.warn(
                f"EMLLP did not settle within {self.max_iter} rounds: the last round moved "
                f"{solution.moves[-1]:.1e} of the soft labels' mass, tol is {self.tol:g}. Raise "
                "max_iter, or use a classifier that fits less closely.",
                ConvergenceWarning,
                stacklevel=users_level(),
            )
        self._rule = solution.rule
        self.moves_ = solution.moves
        self.n_iter_ = len(solution.moves)

    def _learner(self, n_samples: int, seed: int) -> Any:
        if self.estimator is not None:
            learner = clone(self.estimator)
        elif n_samples < _MANY_ROWS:
            learner = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        else:
            trees = HistGradientBoostingClassifier(early_stopping=False)
            learner = make_pipeline(QuantileBins(), trees)
        return seeded(learner, seed)

    def _soft_labels(self, X: Any) -> FloatArray:
        return self._rule(centered(np.asarray(X), self._center))


class Rule:
    """A classifier fitted to soft labels: every row enters once per class, weighted by its label.

    Soft labels below a thousandth of the largest of their class are left out.
    """

    def __init__(self, learner: Any, X: FloatArray, F: FloatArray) -> None:
        self.n_classes = F.shape[1]
        kept = (F > 0) & (_LEAST_WEIGHT * F.max(axis=0) <= F)
        kept |= F.max(axis=1, keepdims=True) == F
        rows, labels = np.nonzero(kept)
        self.present = np.unique(labels)
        self.learner = clone(learner)
        if len(self.present) > 1:
            weighting = {_weight_parameter(self.learner): F[rows, labels]}
            with sklearn.config_context(enable_metadata_routing=False):
                self.learner.fit(X[rows], labels, **weighting)

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return class probabilities; 0 for classes that no fitted row had."""
        P = np.zeros((len(X), self.n_classes))
        if len(self.present) == 1:
            P[:, self.present] = 1.0
        else:
            P[:, self.learner.classes_] = self.learner.predict_proba(X)
        return P


class QuantileBins(TransformerMixin, BaseEstimator):
    """Replace every feature by the number of its bin, among at most 255 bins of equal mass.

    Gradient boosting bins its features itself, by weighted quantiles in some versions of
    scikit-learn, which takes longer than all trees. Features that are bins already are left alone.
    """

    def fit(self, X: FloatArray, y: Any = None) -> Self:
        """Compute the edges of the bins."""
        levels = np.linspace(0.0, 1.0, 256)[1:-1]
        self.edges_ = [np.unique(edges) for edges in np.quantile(X, levels, axis=0).T]
        return self

    def transform(self, X: FloatArray) -> IntArray:
        """Return the numbers of the bins."""
        columns = [np.searchsorted(e, x) for e, x in zip(self.edges_, X.T, strict=True)]
        return np.column_stack(columns)


class EMSolution(NamedTuple):
    """The last rule, the soft labels it was fitted to, and the mass that each round moved."""

    rule: Rule
    F: FloatArray
    moves: tuple[float, ...]
    converged: bool


def expectation_maximization(
    X: FloatArray,
    bags: Bags,
    learner: Any,
    start: FloatArray,
    *,
    tol: float,
    max_iter: int,
) -> EMSolution:
    """Minimize Σ_i KL(f_i ‖ p(x_i)), in turn over rules p and over soft labels F under the totals.

    M-step: the rule is fitted to F. E-step: its probabilities are reconciled with every bag. The
    rounds end when they move at most `tol` of the mass, or little and no less than before, because
    trees never converge completely.
    """
    F, moves = start, []
    for _ in range(max_iter):
        rule = Rule(learner, X, F)
        reconciled = reconcile(rule(X), bags)
        moves.append(0.5 * float(np.abs(reconciled - F).sum(axis=1).mean()))
        jitters = len(moves) > 3 and moves[-1] <= _SMALL_MOVE and moves[-1] >= moves[-4]
        if moves[-1] <= tol or jitters:
            return EMSolution(rule, F, tuple(moves), True)
        F = reconciled
    return EMSolution(Rule(learner, X, F), F, tuple(moves), False)


def _weight_parameter(learner: Any) -> str:
    """Return the parameter of `fit` that takes weights; in a pipeline, that of the last step."""
    last = f"{learner.steps[-1][0]}__" if isinstance(learner, Pipeline) else ""
    return f"{last}sample_weight"


def _takes_weights(learner: Any) -> bool:
    """Return whether the `fit` of a classifier, or of a pipeline's last step, takes weights."""
    last = learner.steps[-1][1] if isinstance(learner, Pipeline) else learner
    return hasattr(last, "fit") and "sample_weight" in inspect.signature(last.fit).parameters


def _far_center(X: FloatArray) -> FloatArray | None:
    """Return the means of the features that are far from 0, and 0 for other features."""
    center = center_of(X)
    far = np.abs(center) > _FAR * (X - center).std(axis=0)
    return np.where(far, center, 0.0) if far.any() else None
