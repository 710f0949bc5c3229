"""Foretell the totals of bags that are held out, from labels that are found without them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from apportion._core.random_starts import ManyQuotas, raise_together
from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.graphs import Graph, smoothest
from apportion.supervision.bags import Bags

_FOLDS = 5
"""Folds of whole bags."""

_TRUST = np.array([0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1])
"""How far a row's probability goes from the class share to the mean label of its neighbors."""

_SPREAD = np.array([0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3])
"""Correlations of the errors of two rows of one bag."""

_LEAST_VARIANCE = 0.25
"""No count is foretold more exactly than to half a row."""


class HeldOut:
    """Folds of whole bags whose totals are foretold from the labels of the other bags.

    Parameters
    ----------
    graph : Graph
        A fitted graph.
    decode : ManyQuotas
        Decodes scores under the totals.
    ranks : ndarray of shape (n_samples,)
        An order of the rows, from which the folds follow.
    """

    def __init__(self, graph: Graph, decode: ManyQuotas, ranks: IntArray) -> None:
        self.graph, self.decode, self.bags = graph, decode, decode.bags
        groups = self.bags.open_groups
        order = np.lexsort((self.bags.groups.least(ranks.astype(np.float64)), -groups.sizes))
        self.folds = np.empty(len(order), dtype=np.intp)
        self.folds[order] = np.arange(len(order)) % _FOLDS
        self.n_folds = min(len(order), _FOLDS)
        self.row_folds = np.where(groups.codes >= 0, self.folds[groups.codes], -1)
        counts, sizes = (np.bincount(self.folds, x) for x in (decode.counts, groups.sizes))
        n_others = np.maximum(sizes.sum() - sizes, 1.0)
        self.shares = ((counts.sum() - counts) / n_others)[self.row_folds]

    def others(self, fold: int) -> Bags:
        """Return the bags without those of a fold, whose rows are then in no bag."""
        return self.bags.only(np.flatnonzero(self.folds != fold))

    def means_of(self, starts: Callable[[int], FloatArray]) -> FloatArray:
        """Return every row's mean label of neighbors outside its fold, found without the fold.

        The labels of a fold are refined from its starts, and the smoothest are taken; their mean
        if several are equally smooth. Held-out rows have no say.
        """
        means = self.shares.copy()
        for fold in range(self.n_folds):
            seen = self.row_folds != fold
            raised = raise_together(self.graph, self.decode, starts(fold), seen)
            mean = self._neighbors(raised.labels[:, smoothest(raised.smoothness)], seen)
            known = ~seen & np.isfinite(mean)
            means[known] = mean[known]
        return means

    def _neighbors(self, labels: BoolArray, seen: BoolArray) -> FloatArray:
        """Return the mean label of each row's neighbors that are seen; NaN without any."""
        sums = np.column_stack([seen * labels.mean(axis=1), seen])
        second, weight = self.graph.neighbor_mean(sums).T
        return np.where(weight > 0, second, np.nan) / np.where(weight > 0, weight, 1.0)

    def log_likelihood(self, means: FloatArray) -> float:
        """Return the highest log-likelihood of the bags' counts, up to a constant.

        Rows have the class with probability p = share + t (mean - share). A bag's count is normal,
        with mean Σp and variance Σp(1-p) + ρ s(s-1) m(1-m) + ¼ for s rows of mean m: rows of one
        bag err together. t and ρ are those of highest likelihood.
        """
        groups, counts = self.bags.open_groups, self.decode.counts[:, None]
        P = self.shares[:, None] + (means - self.shares)[:, None] * _TRUST
        size = np.maximum(groups.sizes, 1.0)[:, None]
        expected, variance = groups.sum(P), groups.sum(P * (1.0 - P)) + _LEAST_VARIANCE
        common = (size - 1.0) * expected * (1.0 - expected / size)
        V = variance[..., None] + common[..., None] * _SPREAD
        missed = (counts - expected)[..., None] ** 2
        return float((-0.5 * (missed / V + np.log(V))).sum(axis=0).max())
