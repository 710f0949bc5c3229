"""Expectation–maximization around a classifier of the user's choice."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from apportion._core.projection import reconcile
from apportion._utils.typing import FloatArray
from apportion.estimators._base import seeded
from apportion.estimators._expectation import (
    QuantileBins,
    Rule,
    expectation_maximization,
    takes_weights,
)
from apportion.estimators._inductive import InductiveClassifier
from apportion.estimators._kernels import center_of, moved
from apportion.estimators.mean_map import MeanMap
from apportion.exceptions import users_level
from apportion.supervision.bags import Bags

_MANY_ROWS = 2000

_FAR = 1e3
"""A feature whose mean is this many standard deviations from 0 is centerd."""


class EMLLP(InductiveClassifier):
    """Expectation–maximization: any classifier with `predict_proba`, fitted to soft labels.

    `argmin_{p,F} Σ_i KL(f_i ‖ p(x_i))` over rules p and over soft labels F that keep every bag's
    masses, in turn. E-step: the rule's probabilities are reconciled with each bag, by a shift of
    their logits; in a bag of proportion 0 or 1 soft labels are exactly 0 and 1. M-step: the rule is
    fitted to all rows once a class, weighted by the soft labels. The result depends on where it
    starts: from the bags' own proportions it would stay there, so it starts from `MeanMap`.

    Parameters
    ----------
    estimator : classifier, optional
        A scikit-learn classifier with `predict_proba`, whose `fit` takes `sample_weight`; or a
        pipeline that ends in one. By default logistic regression on standardized features below
        2,000 rows, else `HistGradientBoostingClassifier`. Features whose mean is more than 1,000
        standard deviations from 0 are centerd, because trees work in single precision; a
        pipeline sees all features as they are.
    start : None, array of shape (n_samples, n_classes) or estimator, default=None
        Soft labels to start from, or an estimator with `fit(X, y, bags=, proportions=)` and
        `predict_proba`; reconciled with the bags. By default `MeanMap()` on standardized features.
    max_iter : int, default=200
        The most rounds.
    tol : float, default=1e-4
        It ends when the mean row moves no more than this share of its mass to other classes, or
        at most 2 % of it and no less than three rounds before, as trees do.
    decode : {"quota", "threshold"}, default="quota"
        How the fitted rows are labeled: every bag exactly its counts, or every row its most likely
        class in its bag. `predict` without totals is not concerned.
    random_state : int, RandomState or None, default=None
        Given to the classifier, where that takes one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        Soft labels of the fitted rows, reconciled with their bags' totals.
    transduction_ : ndarray of shape (n_samples,)
        A label for every fitted row.
    bag_report_ : BagReport
        Given against assigned per bag and class, for both decodings.
    diagnosis_ : Diagnosis
        What the totals can tell apart.
    estimator_ : classifier
        The fitted classifier; its labels are positions in `classes_`.
    moves_ : tuple of float
        How far the mean row moved in each round.
    n_iter_ : int
        Rounds.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    >>> model = EMLLP().fit(X, bags=[0, 0, 0, 1, 1, 1], proportions=np.array([1 / 3, 2 / 3]))
    >>> model.predict([[-1.0], [6.0]]).tolist()
    [0, 1]
    """

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
        self._require_number("max_iter", 1, whole=True)
        self._require_number("tol", 0.0)
        if self.estimator is None:
            return
        if isinstance(self.estimator, type):
            raise ValueError(
                f"The 'estimator' parameter of EMLLP must be an estimator, not a class: write "
                f"{self.estimator.__name__}()."
            )
        if not (hasattr(self.estimator, "fit") and hasattr(self.estimator, "predict_proba")):
            raise ValueError(
                "The 'estimator' parameter of EMLLP must be None or a classifier with fit and "
                f"predict_proba. {self.estimator!r} has not both: use e.g. LogisticRegression(), "
                "or CalibratedClassifierCV around it."
            )
        if not takes_weights(self.estimator):
            raise ValueError(
                "The 'estimator' parameter of EMLLP must take sample_weight in fit, because soft "
                f"labels enter as weights. {type(self.estimator).__name__} does not: use e.g. "
                "LogisticRegression, RandomForestClassifier or HistGradientBoostingClassifier."
            )

    def _start(
        self, X: Any, y: Any, bags: Any, proportions: Any, matched: Bags, seed: int
    ) -> FloatArray | None:
        if self.start is None:
            return None
        return self._reconciled_prior("start", X, y, bags, proportions, matched, seed)

    def _learn(self, X: FloatArray, bags: Bags, start: FloatArray | None, seed: int) -> None:
        self._center = None if isinstance(self.estimator, Pipeline) else _far_center(X)
        X = moved(X, self._center)
        if start is None:
            first = MeanMap()
            scaled = StandardScaler().fit_transform(moved(X, center_of(X)))
            first._learn(scaled, bags, None, seed)
            start = reconcile(first._soft_labels(scaled), bags)
        solution = expectation_maximization(
            X, bags, self._learner(len(X), seed), start, tol=self.tol, max_iter=self.max_iter
        )
        if not solution.converged:
            warnings.warn(
                f"EMLLP did not settle within {self.max_iter} rounds: the mean row still moves "
                f"{solution.moves[-1]:.1e} of its mass, tol is {self.tol:g}. Raise max_iter, or "
                "use a classifier that fits less closely.",
                ConvergenceWarning,
                stacklevel=users_level(),
            )
        self._rule: Rule = solution.rule
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
        return self._rule(moved(np.asarray(X), self._center))


def _far_center(X: FloatArray) -> FloatArray | None:
    """Return the means of the features that are far from 0, and 0 for the others."""
    center = center_of(X)
    far = np.abs(center) > _FAR * (X - center).std(axis=0)
    return np.where(far, center, 0.0) if far.any() else None
