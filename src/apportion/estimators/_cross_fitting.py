"""Rules fitted to soft labels, each asked about bags that it did not see."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple, Self

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_regressor
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from apportion._core.projection import reconcile
from apportion._utils.groups import balanced_folds
from apportion._utils.hashing import column_order
from apportion._utils.progress import report_progress
from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.estimators._inductive import KnownBags, known_bags
from apportion.supervision.bags import Bags

_FITTING = "fitting rules"
"""The stage of the rounds."""

_LEAST_WEIGHT = 1e-3
"""A soft label below this share of the largest of its class is not learned from."""

_SMALL_MOVE = 0.02
"""A round that moves less mass than this, and no less than three rounds before, is the last."""

_LEAST_PROBABILITY = 1e-3
"""The least probability of a regressor's prediction. A forest may answer 0, which no total of a
bag could raise, after a few hundred rows."""

_GRID = 2.0**-20
"""Regressors see targets as multiples of this, so that sums of them are exact: equally good splits
are then equal in any order of rows and classes. So are equal predictions, which are rounded too."""


class Rule:
    """A learner fitted to soft labels.

    A classifier sees every row once per class, weighted by its soft label; soft labels below a
    thousandth of the largest of their class are left out. A regressor is fitted to the soft labels
    themselves, of two classes to those of the second; its predictions are clipped and normalized.
    """

    def __init__(self, learner: Any, X: FloatArray, F: FloatArray) -> None:
        self.n_classes = F.shape[1]
        self.regresses = is_regressor(learner)
        self.learner = clone(learner)
        if self.regresses:
            self.learner = _for_outputs(self.learner, self.n_classes)
            self.learner.fit(X, _outputs(F))
        else:
            self._classify(X, F)

    @classmethod
    def fitted(cls, learner: Any, n_classes: int, present: IntArray | None = None) -> Self:
        """Return the rule of a learner that is fitted: a regressor, or of these classes."""
        rule = cls.__new__(cls)
        rule.learner, rule.n_classes, rule.regresses = learner, n_classes, present is None
        if present is not None:
            rule.present = present
        return rule

    def _classify(self, X: FloatArray, F: FloatArray) -> None:
        kept = (F > 0) & (_LEAST_WEIGHT * F.max(axis=0) <= F)
        kept |= F.max(axis=1, keepdims=True) == F
        rows, labels = np.nonzero(kept)
        self.present = np.unique(labels)
        if len(self.present) > 1:
            weighting = {_weight_parameter(self.learner): F[rows, labels]}
            with sklearn.config_context(enable_metadata_routing=False):
                self.learner.fit(X[rows], labels, **weighting)

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return class probabilities; of a classifier, 0 for classes that no fitted row had."""
        if self.regresses:
            P = _all_columns(self.learner.predict(X), self.n_classes)
            P = np.clip(P, _LEAST_PROBABILITY, 1.0)
            return np.asarray(P / P.sum(axis=1, keepdims=True))
        P = np.zeros((len(X), self.n_classes))
        if len(self.present) == 1:
            P[:, self.present] = 1.0
        else:
            P[:, self.learner.classes_] = self.learner.predict_proba(X)
        return P


class Folds(NamedTuple):
    """Folds of whole bags, each predicted by a rule that was fitted to the others.

    Attributes
    ----------
    of_row : ndarray of shape (n_samples,)
        The fold of every row; -1 for rows without known totals, which no rule is fitted to, and
        which take the mean of all rules.
    n_folds : int
        The number of folds; 1 = a single rule, fitted to all rows and asked about all rows.
    """

    of_row: IntArray
    n_folds: int

    def fitted_to(self, fold: int) -> BoolArray:
        """Return which rows the rule of a fold is fitted to."""
        if self.n_folds == 1:
            return np.ones(len(self.of_row), dtype=bool)
        return (self.of_row >= 0) & (self.of_row != fold)


def folds_of(bags: Bags, n_folds: int) -> Folds:
    """Return folds of whole bags, of about equal numbers of rows.

    A row whose label is given counts as a bag of its own. There are no more folds than bags.
    """
    if n_folds > 1:
        groups = known_bags(bags).groups
        n_folds = min(n_folds, int((groups.sizes > 0).sum()))
    if n_folds <= 1:
        return Folds(np.zeros(bags.n_samples, dtype=np.intp), 1)
    order = np.argsort(-groups.sizes, kind="stable")
    folds = np.append(balanced_folds(groups.sizes, n_folds, order), -1)
    return Folds(folds[groups.codes], n_folds)


def _held_out(rules: list[Any], X: FloatArray, folds: Folds) -> FloatArray:
    """Return every row's prediction by the rule of its fold, or the mean of all rules."""
    P, loose = None, folds.of_row < 0
    for fold, rule in enumerate(rules):
        asked = np.flatnonzero(loose | (folds.of_row == fold))
        answer = rule(X[asked]) if len(asked) else np.zeros((0, 0))
        if P is None:
            P = np.zeros((len(X), *answer.shape[1:]))
        if len(asked):
            P[asked] += answer / np.where(loose[asked], len(rules), 1)[:, None]
    assert P is not None
    return P


class EMSolution(NamedTuple):
    """What the rounds ended with.

    Attributes
    ----------
    rule : Rule
        A rule fitted to the soft labels of all rows.
    F : ndarray of shape (n_samples, n_classes)
        The soft labels that it was fitted to.
    held_out : ndarray of shape (n_samples, n_classes)
        The probabilities of the rows by rules that did not see their bags; with a single fold, by
        the rule.
    moves : tuple of float
        The share of the soft labels' mass that each round moved.
    converged : bool
        Whether the soft labels settled.
    """

    rule: Rule
    F: FloatArray
    held_out: FloatArray
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
    folds: Folds | None = None,
    sharpness: float = 1.0,
) -> EMSolution:
    """Minimize Σ_i KL(f_i ‖ p(x_i)), in turn over rules p and over soft labels F under the totals.

    M-step: the rules are fitted to F, each without its fold. E-step: their probabilities of the
    rows that they did not see, to the power of `sharpness`, are reconciled with every bag. The
    rounds end when they move at most `tol` of the mass, or little and no less than before, because
    trees never converge completely.
    """
    folds = folds_of(bags, 1) if folds is None else folds
    F, moves = start, []
    parts = [folds.fitted_to(fold) for fold in range(folds.n_folds)]
    for number in range(1, max_iter + 1):
        rules = [Rule(learner, X[rows], F[rows]) for rows in parts]
        P = _held_out(rules, X, folds)
        reconciled = reconcile(P**sharpness, bags)
        moves.append(0.5 * float(np.abs(reconciled - F).sum(axis=1).mean()))
        report_progress(_FITTING, number / max_iter)
        jitters = len(moves) > 3 and moves[-1] <= _SMALL_MOVE and moves[-1] >= moves[-4]
        converged = moves[-1] <= tol or jitters
        if converged and folds.n_folds == 1:
            return EMSolution(rules[0], F, P, tuple(moves), True)
        F = reconciled
        if converged:
            break
    rule = Rule(learner, X, F)
    P = rule(X) if folds.n_folds == 1 else P
    return EMSolution(rule, F, P, tuple(moves), converged)


def debiased_start(X: FloatArray, bags: Bags, learner: Any, folds: Folds) -> FloatArray:
    """Return soft labels by a regression of debiased targets, reconciled with the bags.

    `argmin_f Σ_i (w_i - f(x_i))² / k_i`, with k_i the size of the row's bag and w_i from
    `debiased_targets`. Rows are predicted by the rule that did not see their bag. Such predictions
    are far too noisy to be probabilities: how far they are from the overall shares, in standard
    deviations, is taken as a difference of logits.
    """
    known, shares = known_bags(bags), bags.overall
    W = debiased_targets(known, shares)
    precision = known.groups.spread(known.certainty.mean(axis=1) / known.groups.sizes)
    rules = []
    for fold in range(folds.n_folds):
        rows = folds.fitted_to(fold) & (known.groups.codes >= 0)
        rules.append(_regressor(learner, X[rows], W[rows], precision[rows]))
    scores = _held_out(rules, X, folds) - shares
    logits = scores / np.maximum(scores.std(axis=0), 1e-12)
    return reconcile(shares * np.exp(logits - logits.max(axis=1, keepdims=True)), bags)


def debiased_targets(bags: KnownBags, overall: FloatArray) -> FloatArray:
    """Return w_i = k (π_b - π̄) + π̄, for rows of bags of k rows with shares π_b.

    If bags were drawn at random, E[w | x] = P(y | x): a row moves the share of its bag by 1 / k,
    and the other k - 1 rows add nothing but noise, of a variance of about k - 1. If bags depend on
    x, w is biased.
    """
    sizes = bags.groups.sizes[:, None]
    return bags.groups.spread(sizes * (bags.shares - overall) + overall)


def _regressor(learner: Any, X: FloatArray, W: FloatArray, weights: FloatArray) -> Any:
    """Return a function from rows to targets, fitted with weights where the learner takes them."""
    regressor = _for_outputs(clone(learner), W.shape[1])
    # Powers of two, near enough to the weights, keep weighted sums exact: see `_GRID`.
    near = 2.0 ** np.round(np.log2(np.maximum(weights, 1e-300)))
    weighting = {_weight_parameter(regressor): near} if takes_weights(regressor) else {}
    with sklearn.config_context(enable_metadata_routing=False):
        regressor.fit(X, _outputs(W), **weighting)
    return lambda rows: _all_columns(regressor.predict(rows), W.shape[1])


def _outputs(F: FloatArray) -> FloatArray:
    """Return what a regressor is fitted to: of two classes, the column of the second."""
    rounded = np.round(F / _GRID) * _GRID
    return np.ascontiguousarray(rounded[:, 1]) if F.shape[1] == 2 else rounded


def _all_columns(predictions: FloatArray, n_classes: int) -> FloatArray:
    """Return one column per class from what a regressor predicts."""
    P = np.round(predictions.reshape(len(predictions), -1) / _GRID) * _GRID
    return np.hstack([1.0 - P, P]) if n_classes == 2 else P


def _for_outputs(regressor: Any, n_classes: int) -> Any:
    """Return a regressor that can be fitted to the soft labels of all classes at once."""
    if n_classes == 2 or get_tags(regressor).target_tags.multi_output:
        return regressor
    return MultiOutputRegressor(regressor)


class QuantileBins(TransformerMixin, BaseEstimator):
    """Replace every feature by the number of its bin, among at most 255 bins of equal mass.

    Trees on bins do not depend on the units of features, and outliers do not draw the random
    thresholds of extremely randomized trees to empty ranges. Gradient boosting bins its features
    itself, by weighted quantiles in some versions of scikit-learn, which takes longer than all
    trees. Features that are bins already are left alone. The bins are in an order of their own
    (`column_order`), so that random trees do not depend on that of the features.
    """

    def fit(self, X: FloatArray, y: Any = None) -> Self:
        """Compute the edges of the bins of each feature."""
        levels = np.linspace(0.0, 1.0, 256)[1:-1]
        self.edges_ = [np.unique(edges) for edges in np.quantile(X, levels, axis=0).T]
        self.order_ = column_order(X)
        return self

    def transform(self, X: FloatArray) -> FloatArray:
        """Return the numbers of the bins, in the precision that trees work in."""
        numbers = np.empty(X.shape, dtype=np.float32)
        for place, j in enumerate(self.order_):
            numbers[:, place] = np.searchsorted(self.edges_[j], X[:, j])
        return numbers


def takes_weights(learner: Any) -> bool:
    """Return whether the `fit` of a learner, or of a pipeline's last step, takes weights."""
    last = learner.steps[-1][1] if isinstance(learner, Pipeline) else learner
    return hasattr(last, "fit") and "sample_weight" in inspect.signature(last.fit).parameters


def _weight_parameter(learner: Any) -> str:
    """Return the parameter of `fit` that takes weights; in a pipeline, that of the last step."""
    last = f"{learner.steps[-1][0]}__" if isinstance(learner, Pipeline) else ""
    return f"{last}sample_weight"
