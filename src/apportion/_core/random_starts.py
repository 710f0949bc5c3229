"""Labels of two classes, refined from many random starts at once."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.stats import rankdata

from apportion._core.decode import SCORE_UNIT, bag_counts
from apportion._core.refine import EQUAL_AGREEMENT, MOST_ROUNDS, WEIGHT_OF_SOFT_LABELS
from apportion._utils.threads import in_threads, slices
from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.graphs import Graph
from apportion.supervision.bags import Bags

_ORDERS, _AVERAGINGS = 32, 100
"""Random orders that are tried, and averagings over neighbors that make each of them smooth."""

_TOGETHER = 16
"""Starts that are refined at once, in one thread; fixed, so that no digit depends on threads."""

_START_UNIT = 1e-8
"""Starts are multiples of this. With their weight of 0.1 they are multiples of SCORE_UNIT, so that
rounding to it does not depend on the last digit of what is added to them."""

_MOST_ROWS = 5_000
"""Random starts are tried with no more rows than this: 1.5 seconds on one core, and 2.5 to weigh
what they find."""

_MOST_SIMILARITIES = 1_500_000
"""They are not tried on a graph of more similarities either: a dense one of 1,200 rows."""


def reason_against(graph: Graph, bags: Bags) -> str:
    """Return why no random start is tried on these bags; empty if they are tried.

    A row in no bag is smooth in the class of its neighbors, whatever that is, and so is a bag whose
    totals are not exact. Of one bag alone, no other bag's total can say whether labels are right.
    """
    n_free = int((bags.codes < 0).sum())
    n_inexact = int((~bags.exact).sum())
    if bags.n_classes != 2:
        return f"there are {bags.n_classes} classes; random starts are for two"
    if len(bags.ids) < 2:
        return f"there are {len(bags.ids)} bags; random starts need at least two"
    if n_free:
        return f"{n_free} rows are in no bag; random starts need all rows in bags"
    if n_inexact:
        return f"{n_inexact} bags have inexact totals; random starts need exact ones"
    if bags.n_samples > _MOST_ROWS:
        return f"there are {bags.n_samples:,} rows; random starts are for at most {_MOST_ROWS:,}"
    W = getattr(graph, "affinity_", None)
    n_similarities = 0 if W is None else W.nnz if sparse.issparse(W) else W.size
    if n_similarities > _MOST_SIMILARITIES:
        most = f"at most {_MOST_SIMILARITIES:,}"
        return f"the graph holds {n_similarities:,} similarities; random starts are for {most}"
    return ""


def random_starts(graph: Graph, ranks: IntArray) -> FloatArray:
    """Return soft labels of the second class that rise, and that fall, along random smooth orders.

    Random numbers are averaged over neighbors until they order the rows by similarity. The numbers
    belong to the rows by `ranks`, so that they depend neither on the order of rows nor on a seed.

    Parameters
    ----------
    graph : Graph
        A fitted graph.
    ranks : ndarray of shape (n_samples,)
        An order of the rows; see `hash_ranks`.

    Returns
    -------
    ndarray of shape (n_samples, n_starts)
        One start per column; first those that rise.
    """
    n = len(ranks)
    Z = np.random.default_rng(0).standard_normal((n, _ORDERS))[ranks]

    def smooth(columns: slice) -> FloatArray:
        z = np.ascontiguousarray(Z[:, columns])
        for _ in range(_AVERAGINGS):
            z = 0.5 * (z + graph.neighbor_mean(z))
            z -= (graph.degrees_ @ z) / max(graph.degrees_.sum(), 1e-300)
            z /= np.maximum(np.abs(z).max(axis=0), 1e-300)
        return np.column_stack([_ranks_beyond_rounding(column) for column in z.T])

    orders = np.hstack(in_threads(smooth, slices(_ORDERS, _TOGETHER)))
    rising = np.rint((orders - 0.5) / n / _START_UNIT) * _START_UNIT
    return np.hstack([rising, 1.0 - rising])


def _ranks_beyond_rounding(values: FloatArray) -> FloatArray:
    """Return the values' ranks from 1 on; values that only rounding tells apart share their rank.

    Within a connected component, averaging over neighbors makes all numbers equal, and the digits
    that are left depend on the order of the rows.
    """
    order = np.argsort(values)
    apart = np.diff(values[order], prepend=-np.inf) > SCORE_UNIT * np.abs(values).max()
    levels = np.empty(len(values))
    levels[order] = np.cumsum(apart)
    return rankdata(levels)


class ManyQuotas:
    """The labels of many columns of scores of the second class, as `Quotas` gives them.

    Parameters
    ----------
    bags : Bags
        Bags of two classes, of exact totals.
    ranks : ndarray of shape (n_samples,)
        An order of the rows to break exact ties by; see `hash_ranks`.
    """

    def __init__(self, bags: Bags, ranks: IntArray) -> None:
        codes = bags.open_groups.codes
        self.bags = bags
        self.counts = bag_counts(bags.prior(), bags)[:, 1]
        self._given = np.flatnonzero(bags.given >= 0)
        self._rows = np.lexsort((ranks, codes))[np.count_nonzero(codes < 0) :]
        self._codes = codes[self._rows]
        self._set_last()

    def with_counts(self, counts: IntArray) -> ManyQuotas:
        """Return the same for other counts of the second class among the open rows of each bag."""
        other = copy(self)
        other.counts = counts
        other._set_last()
        return other

    def _set_last(self) -> None:
        """Set the position of the last row that its bag's count admits, for every row."""
        sizes = self.bags.open_groups.sizes.astype(np.intp)
        self._some = (self.counts > 0)[self._codes]
        last = (np.cumsum(sizes) - sizes + self.counts - 1)[self._codes]
        self._last = np.where(self._some, last, 0)

    # A row's key is an integer that sorts by bag, then from the highest score down, then by the
    # order that breaks ties. No two keys are equal, so that sorted keys, which are several times
    # faster than a stable order, tell all: the rows of class 1 are those whose key is at most
    # that of the last one that their bag's count admits. With n rows keys stay below 1.1e9 n².
    def __call__(self, scores: FloatArray) -> BoolArray:
        """Return whether each row has the second class, column by column.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, n_columns)
            Scores of the second class.
        """
        labels = np.empty(scores.shape, dtype=bool)
        labels[self._given] = (self.bags.given[self._given] == 1)[:, None]
        if self._rows.size:
            units = np.rint(scores[self._rows].T / SCORE_UNIT).astype(np.int64)
            highest, n = units.max(), len(self._rows)
            keys = self._codes * (highest - units.min() + 1) + (highest - units)
            keys = keys * n + np.arange(n)
            last = np.sort(keys, axis=1)[:, self._last]
            labels[self._rows] = ((keys <= last) & self._some).T
        return labels


@dataclass(frozen=True)
class Raised:
    """Labels of many starts: whether a row has the second class, and the columns' smoothness."""

    labels: BoolArray
    smoothness: FloatArray


def raise_together(
    graph: Graph, decode: ManyQuotas, starts: FloatArray, seen: BoolArray | None = None
) -> Raised:
    """Return what `refine` finds from each start, all starts at once.

    Parameters
    ----------
    graph : Graph
        A fitted graph.
    decode : ManyQuotas
        Decodes scores.
    starts : ndarray of shape (n_samples, n_starts)
        Soft labels of the second class, one start per column.
    seen : ndarray of bool, of shape (n_samples,), optional
        The rows whose labels count for their neighbors and for the smoothness; by default all.
    """
    weights = np.ones(len(starts)) if seen is None else seen.astype(np.float64)

    def work(columns: slice) -> Raised:
        return _raise(graph, decode, np.ascontiguousarray(starts[:, columns]), weights[:, None])

    parts = in_threads(work, slices(starts.shape[1], _TOGETHER))
    return Raised(
        np.hstack([part.labels for part in parts]),
        np.concatenate([part.smoothness for part in parts]),
    )


def _raise(graph: Graph, decode: ManyQuotas, starts: FloatArray, weights: FloatArray) -> Raised:
    """Repeat the rounds of `refine` in the columns whose agreement still rises."""
    connected = np.where(graph.strengths > 0, 0.5, 0.0)[:, None]
    best = decode(starts)
    highest = np.full(starts.shape[1], -np.inf)
    rising, labels = np.arange(starts.shape[1]), best
    for _ in range(MOST_ROUNDS):
        centered = weights * (labels - 0.5)
        means = graph.neighbor_mean(centered)
        agreement = (weights * connected + 2.0 * centered * means).mean(axis=0)
        higher = agreement > highest[rising] + EQUAL_AGREEMENT
        rising = rising[higher]
        highest[rising] = agreement[higher]
        best[:, rising] = labels[:, higher]
        if not rising.size:
            break
        means = means[:, higher] + connected
        labels = decode(means + WEIGHT_OF_SOFT_LABELS * starts[:, rising])
    return Raised(best, highest)
