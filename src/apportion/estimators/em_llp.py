"""Expectation–maximization around any learner: soft labels and a rule, in turn."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from apportion._core.projection import reconcile
from apportion._io.archive import numbers
from apportion._io.model_state import State, StateReader
from apportion._utils.parameters import integer, parameter_error, real
from apportion._utils.typing import AnyArray, FloatArray
from apportion.estimators._base import seeded
from apportion.estimators._cross_fitting import (
    Folds,
    QuantileBins,
    Rule,
    debiased_start,
    expectation_maximization,
    folds_of,
    takes_weights,
)
from apportion.estimators._forest import ExtraTrees
from apportion.estimators._inductive import InductiveClassifier
from apportion.estimators._kernels import center_of, centered
from apportion.estimators._prepared import Prepared
from apportion.estimators._rule_state import restored_rule, rule_state
from apportion.estimators.mean_map import MeanMap
from apportion.exceptions import users_level
from apportion.supervision.bags import Bags

_MANY_ROWS = 2000
"""From here on, trees are the default learner."""

_FAR = 1e3
"""A feature whose mean is this many standard deviations from 0 is centered."""

_FOLDS = 8
"""The number of folds of whole bags; with 4, each rule lacks a quarter of the bags, which costs
about .01 of the accuracy. Folds and rounds were chosen on five public tables (spambase, pima,
segment, banana, phoneme) and looked at again on vowel, german, wdbc and magic."""

_ROUNDS = 3
"""The number of rounds with cross-fitting. Each round sharpens the soft labels; where classes
overlap, more rounds only make wrong labels surer."""

_LEAF = 5
"""The least number of rows in a leaf; 2 and 10 were no better on spambase and pima."""

_TREES = 40
"""The number of trees of every rule; 80 were no better on spambase, pima and segment."""

_ROWS_PER_TREE = 4000
"""Of more rows, each tree sees as many, drawn at random, so that the time of a tree is limited."""

_LEARNERS = ("logistic", "boosting", "trees")
_STARTS = ("mean_map", "debiased")


class EMLLP(InductiveClassifier):
    """Expectation–maximization: any classifier or regressor, fitted to soft labels.

    `argmin_{p,F} Σ_i KL(f_i ‖ p(x_i))`, in turn over rules p and over soft labels F that keep the
    totals of every bag. E-step: the rule's probabilities are reconciled with each bag by a shift of
    their logits; in a bag of proportion 0 or 1, soft labels are exactly 0 and 1. M-step: the rule
    is fitted to the soft labels of all rows. The result depends on the start. Starting from the
    bags' own proportions, the soft labels would hardly move.

    With cross-fitting, the soft labels of a bag come from a rule that was fitted to other bags, and
    are sharpened before the next round. Rules that follow their rows closely, such as trees, need
    it; otherwise, they return the soft labels that they were given.

    Parameters
    ----------
    estimator : {"logistic", "trees", "boosting"}, classifier or regressor, optional
        The learner. A classifier has `predict_proba`, its `fit` takes `sample_weight`, and every
        row enters once per class, weighted by its soft label. A regressor is fitted to the soft
        labels themselves, and its predictions are clipped and normalized. Either may be the last
        step of a pipeline. `"logistic"` is logistic regression on standardized features, `"trees"`
        are extremely randomized trees, `"boosting"` is `HistGradientBoostingClassifier`; both see
        every feature in at most 255 bins of equal mass. By default, `"logistic"` below 2,000 rows,
        else `"trees"`. Features whose mean is more than 1,000 standard deviations from 0 are
        centered, because trees work in single precision; a pipeline sees all features as they are.
    cross_fit : int, optional
        The number of folds of whole bags, each predicted by a rule that was fitted to the others;
        0 = one rule for all. By default, 8 for `"trees"`, `"boosting"` and regressors, else 0.
        There are no more folds than bags. A row whose label is given counts as a bag of its own.
        Rows without known totals are not learned from, and take the mean of all rules.
    start : {"mean_map", "debiased"}, array of shape (n_samples, n_classes), estimator or None
        Soft labels to start from, or an estimator with `fit(X, y, bags=, proportions=)` and
        `predict_proba`. They are reconciled with the bags. `"mean_map"` is `MeanMap()` on
        standardized features. `"debiased"` regresses, for rows of bags of k rows with shares π_b,
        `w = k (π_b - π̄) + π̄`, by trees or by the regressor given as `estimator`: in random bags
        w is right on average, whatever the shape of the classes; where bags depend on the features,
        it is not. None is `"mean_map"`.
    sharpness : float, optional
        The power of the probabilities before they are reconciled for the next round. By default, 2
        with cross-fitting, else 1.
    max_iter : int, optional
        The largest number of rounds. By default, 3 with cross-fitting, else 200.
    tol : float, default=1e-4
        Stop when a round moves at most this share of the soft labels' mass to other classes; or at
        most 2 % and no less than three rounds before, because trees do not converge further.
    decode : {"quota", "threshold"}, default="quota"
        Label the fitted rows with exactly the counts of every bag, or every row with its most
        likely class under the totals of its bag. `predict` without totals does not use it.
    random_state : int, RandomState or None, default=None
        The seed of the learner, if it takes one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        Soft labels of the fitted rows, reconciled with their bags' totals. With cross-fitting, by
        rules that were not fitted to the row's bag.
    transduction_ : ndarray of shape (n_samples,)
        A label for every fitted row.
    bag_report_ : BagReport
        Given and assigned totals per bag and class, for both decodings.
    diagnosis_ : Diagnosis
        Which classes the totals can tell apart.
    held_out_proba_ : ndarray of shape (n_samples, n_classes) or None
        The class probabilities of the fitted rows, by rules that were not fitted to the row's bag,
        before they are reconciled. None without cross-fitting. From the second round on, the
        totals of a bag still have some influence, by way of the soft labels of other bags.
    estimator_ : classifier or regressor
        The learner, fitted to the last soft labels of all rows. A classifier's labels are positions
        in `classes_`; a regressor predicts all classes, of two only the second.
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
        "cross_fit": integer(0, None),
        "sharpness": real(None, low=0, ends="()"),
        "max_iter": integer(1, None),
        "tol": real(low=0),
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        cross_fit: int | None = None,
        start: Any = None,
        sharpness: float | None = None,
        max_iter: int | None = None,
        tol: float = 1e-4,
        decode: str = "quota",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.cross_fit = cross_fit
        self.start = start
        self.sharpness = sharpness
        self.max_iter = max_iter
        self.tol = tol
        self.decode = decode
        self.random_state = random_state

    @property
    def estimator_(self) -> Any:
        """The fitted learner."""
        return self._rule.learner

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.start, str) and self.start not in _STARTS:
            names = ", ".join(map(repr, _STARTS))
            starts = f"None, one of {names}, an estimator, or soft labels of shape (rows, classes)"
            raise parameter_error(self, "start", starts)
        learners = _allowed_learners(self.estimator)
        if learners is not None:
            raise parameter_error(self, "estimator", learners)

    def _learn(
        self, prepared: Prepared, bags: Bags, start: FloatArray | None, seed: int
    ) -> FloatArray | None:
        X = prepared.rows
        learner = self.estimator
        if learner is None:
            learner = "logistic" if len(X) < _MANY_ROWS else "trees"
        in_bins = isinstance(learner, str) and learner != "logistic"
        self._bins = prepared.once(("bins",), lambda: QuantileBins().fit(X)) if in_bins else None
        self._center = None if in_bins or isinstance(learner, Pipeline) else _far_center(X)
        learner = seeded(named_learner(learner, *X.shape), seed)
        n_folds = self.cross_fit
        if n_folds is None:
            n_folds = _FOLDS if in_bins or is_regressor(learner) else 0
        folds = folds_of(bags, n_folds)
        Z = prepared.once(("in bins",), lambda: self._prepared(X)) if in_bins else self._prepared(X)
        if start is None:
            start = self._first_labels(prepared, Z, bags, learner, folds, seed)
        crossed = folds.n_folds > 1
        max_iter = self.max_iter or (_ROUNDS if crossed else 200)
        sharpness = self.sharpness or (2.0 if crossed else 1.0)
        solution = expectation_maximization(
            Z,
            bags,
            learner,
            start,
            tol=self.tol,
            max_iter=max_iter,
            folds=folds,
            sharpness=sharpness,
        )
        if not (solution.converged or crossed):
            warnings.warn(
                f"EMLLP did not settle within {max_iter} rounds: the last round moved "
                f"{solution.moves[-1]:.1e} of the soft labels' mass, tol is {self.tol:g}. Raise "
                "max_iter, or use a learner that fits less closely.",
                ConvergenceWarning,
                stacklevel=users_level(),
            )
        self._rule = solution.rule
        self.held_out_proba_ = solution.held_out if crossed else None
        self.moves_ = solution.moves
        self.n_iter_ = len(solution.moves)
        return self.held_out_proba_

    def _first_labels(
        self,
        prepared: Prepared,
        Z: FloatArray,
        bags: Bags,
        learner: Any,
        folds: Folds,
        seed: int,
    ) -> FloatArray:
        """Return the soft labels to start from, if none were given."""
        X = prepared.rows
        if self.start == "debiased":
            if self.estimator == "trees" or not is_regressor(learner):
                bag_size = int(np.median(bags.groups.sizes)) if len(bags.ids) else 1
                learner = seeded(_trees(len(X), X.shape[1], max(_LEAF, bag_size // 2)), seed)
            return debiased_start(Z, bags, learner, folds)
        first = MeanMap()
        scaled = StandardScaler().fit_transform(centered(X, center_of(X)))
        P = first._learn(prepared.like(scaled), bags, None, seed)
        assert P is not None
        return reconcile(P, bags)

    def become(self, rule: Rule, bins: QuantileBins, classes: AnyArray) -> None:
        """Take a rule on bins that was fitted elsewhere.

        Parameters
        ----------
        rule : Rule
            The rule.
        bins : QuantileBins
            The bins of the features that it sees.
        classes : ndarray of shape (n_classes,)
            The classes, sorted.
        """
        self._rule, self._bins, self._center = rule, bins, None
        self.classes_, self.n_features_in_ = classes, len(bins.edges_)

    def _prepared(self, X: FloatArray) -> FloatArray:
        """Return rows as the learner sees them."""
        return centered(X, self._center) if self._bins is None else self._bins.transform(X)

    def _soft_labels(self, X: Any) -> FloatArray:
        return self._rule(self._prepared(np.asarray(X)))

    def solve(  # noqa: D102
        self, prepared: Prepared, bags: Bags, start: FloatArray | None = None, seed: int = 0
    ) -> FloatArray:
        P = super().solve(prepared, bags, start, seed)
        if self.held_out_proba_ is not None:
            self.held_out_proba_ = P
        return P

    def _state(self) -> State:
        state = rule_state(self.estimator, self._rule, self._bins)
        center = {} if self._center is None else {"center": self._center}
        fields = {**state.fields, "centered": self._center is not None}
        return replace(state, fields=fields, arrays={**state.arrays, **center})

    def _restore_state(self, state: StateReader) -> None:
        self._rule, self._bins = restored_rule(state, len(self.classes_))
        self._center = None
        if state.take("centered", bool):
            self._center = state.array("center", numbers("features", size=1e100))


def named_learner(estimator: Any, n_samples: int, n_features: int) -> Any:
    """Return a learner that is not fitted, from itself or its name."""
    if estimator == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    if estimator == "boosting":
        return HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=15, early_stopping=False)
    if estimator == "trees":
        return _trees(n_samples, n_features)
    return clone(estimator)


def _trees(n_samples: int, n_features: int, leaf: int = _LEAF) -> Any:
    """Return extremely randomized trees, with leaves of at least so many rows.

    A split is the best of a third of the features, of two at least: a split among one is drawn
    without regard to the soft labels.
    """
    drawn = {"bootstrap": True, "max_samples": _ROWS_PER_TREE / n_samples}
    return ExtraTrees(
        _TREES,
        min_samples_leaf=leaf,
        max_features=min(max(1 / 3, 2 / n_features), 1.0),
        **(drawn if n_samples > _ROWS_PER_TREE else {}),
    )


def _allowed_learners(estimator: Any) -> str | None:
    """Return which learners are allowed, if this one is not."""
    names = ", ".join(map(repr, _LEARNERS))
    if isinstance(estimator, type):
        return f"an estimator, not a class: write {estimator.__name__}()"
    if estimator is None or (isinstance(estimator, str) and estimator in _LEARNERS):
        return None
    classifies = hasattr(estimator, "predict_proba")
    if not classifies and hasattr(estimator, "fit") and is_regressor(estimator):
        return None
    if not classifies:
        return (
            f"None, {names}, a regressor, or a classifier with fit and predict_proba, e.g. "
            "LogisticRegression() or a CalibratedClassifierCV around another classifier"
        )
    if not takes_weights(estimator):
        return (
            "a classifier whose fit takes sample_weight, because soft labels enter as weights, "
            "e.g. LogisticRegression, RandomForestClassifier or HistGradientBoostingClassifier; or "
            "a regressor"
        )
    return None


def _far_center(X: FloatArray) -> FloatArray | None:
    """Return the means of the features that are far from 0, and 0 for other features."""
    center = center_of(X)
    far = np.abs(center) > _FAR * (X - center).std(axis=0)
    return np.where(far, center, 0.0) if far.any() else None
