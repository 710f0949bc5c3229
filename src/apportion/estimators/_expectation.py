"""Expectation–maximization around any classifier: soft labels and a rule, found in turn."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.pipeline import Pipeline

from apportion._core.projection import reconcile
from apportion._utils.typing import FloatArray, IntArray
from apportion.supervision.bags import Bags

_LEAST_WEIGHT = 1e-3
_LITTLE = 0.02


@dataclass(frozen=True)
class EMSolution:
    """The last rule, the soft labels it was fitted to, and how far they moved each time."""

    rule: Rule
    F: FloatArray
    moves: tuple[float, ...]
    converged: bool


class Rule:
    """A classifier fitted to soft labels: each row counts for every class by its soft label.

    Soft labels below a thousandth of the class's largest are left out.
    """

    def __init__(self, learner: Any, X: FloatArray, F: FloatArray) -> None:
        self.n_classes = F.shape[1]
        kept = (F > 0) & (_LEAST_WEIGHT * F.max(axis=0) <= F)
        kept |= F.max(axis=1, keepdims=True) == F
        rows, labels = np.nonzero(kept)
        weights = F[rows, labels]
        self.present = np.unique(labels)
        self.learner = clone(learner)
        if len(self.present) > 1:
            fit_with_weights(self.learner, X[rows], labels, weights)

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return class probabilities; 0 for classes that no row had."""
        P = np.zeros((len(X), self.n_classes))
        if len(self.present) == 1:
            P[:, self.present] = 1.0
        else:
            P[:, self.learner.classes_] = self.learner.predict_proba(X)
        return P


class QuantileBins(TransformerMixin, BaseEstimator):
    """Features replaced by the number of their bin, among at most 255 bins of equal mass.

    A gradient-boosting classifier bins its features anyway; of bins there is nothing left to do.
    Binning by weighted quantiles, which some versions of scikit-learn do, is slower than all trees.
    """

    def fit(self, X: FloatArray, y: Any = None) -> Self:
        """Find the bins."""
        levels = np.linspace(0.0, 1.0, 256)[1:-1]
        self.edges_ = [np.unique(edges) for edges in np.quantile(X, levels, axis=0).T]
        return self

    def transform(self, X: FloatArray) -> IntArray:
        """Return the bins' numbers."""
        columns = [np.searchsorted(e, x) for e, x in zip(self.edges_, X.T, strict=True)]
        return np.column_stack(columns)


def expectation_maximization(
    X: FloatArray,
    bags: Bags,
    learner: Any,
    start: FloatArray,
    *,
    tol: float,
    max_iter: int,
) -> EMSolution:
    """Return the minimum of Σ_i KL(f_i ‖ p(x_i)) over rules p and over soft labels F in C, in turn.

    C are the soft labels that keep the bags' masses. M-step: the rule is fitted to F. E-step: its
    probabilities are reconciled with every bag (a shift of the logits; exactly 0 or 1 in a pure
    bag). It ends when the mean row moves by no more than `tol`, or by little and no longer less:
    trees never come to rest wholly.
    """
    F, moves = start, []
    for _ in range(max_iter):
        rule = Rule(learner, X, F)
        moved = reconcile(rule(X), bags)
        moves.append(0.5 * float(np.abs(moved - F).sum(axis=1).mean()))
        if _settled(moves, tol):
            return EMSolution(rule, F, tuple(moves), True)
        F = moved
    return EMSolution(Rule(learner, X, F), F, tuple(moves), False)


def _settled(moves: list[float], tol: float) -> bool:
    still = moves[-1] <= tol
    jitters = len(moves) > 3 and moves[-1] <= _LITTLE and moves[-1] >= moves[-4]
    return still or jitters


def fit_with_weights(learner: Any, X: FloatArray, labels: IntArray, weights: FloatArray) -> None:
    """Fit with row weights; in a pipeline they go to the last step."""
    name = "sample_weight"
    if isinstance(learner, Pipeline):
        name = f"{learner.steps[-1][0]}__sample_weight"
    with sklearn.config_context(enable_metadata_routing=False):
        learner.fit(X, labels, **{name: weights})


def takes_weights(learner: Any) -> bool:
    """Return whether a classifier's fit knows `sample_weight`."""
    last = learner.steps[-1][1] if isinstance(learner, Pipeline) else learner
    return "sample_weight" in inspect.signature(last.fit).parameters
