"""Refine labels: the same counts in every bag, more agreement between neighbors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from apportion._core.decode import SCORE_UNIT, Decoding, Quotas, bag_counts
from apportion._core.evaluator import LabelEvaluator, Labels, Means
from apportion._utils.progress import report_progress
from apportion._utils.threads import blockwise
from apportion._utils.typing import FloatArray, IntArray
from apportion.graphs import Graph, smoothest, smoothness_of

_WEIGHT_OF_SOFT_LABELS = 0.1
"""Soft labels decide between classes that neighbors leave nearly equal."""

_MOST_ROUNDS = 50

_EQUAL = 1e-12
"""Agreements that differ by less are equal but for rounding."""

_STARTS, _AVERAGINGS = 32, 100
"""Random orders that are tried, and averagings over neighbors that make each of them smooth."""

_CLEARLY = 0.01
"""How much smoother labels from a random order must be to be taken."""

_MOST_ROWS = 1000
"""Random orders are tried for no more rows than this, which takes about a second."""

_CONVERGED = 1e-4
"""Soft labels of converged runs differ by less than this."""


# Soft labels are blurred where two classes meet, and so are the labels taken from them. Refinement
# decodes anew from the mean labels of every row's neighbors, its own left out, plus a little of its
# soft labels, with the same counts in every bag. This is coordinate ascent on the agreement of
# neighbors, (1/n) Σ s_ij 1[y_i = y_j], in which all rows move at once (compare balanced label
# propagation: Ugander & Backstrom, 2013). Moving at once may lower the agreement; the rounds end
# there. No true label is looked at.
def raise_agreement(evaluator: LabelEvaluator[Labels, Means], labels: Labels) -> Labels:
    """Return labels of the same counts that agree more with those of their neighbors.

    Parameters
    ----------
    evaluator : LabelEvaluator
        Compares labels with those of neighbors, and decodes.
    labels : object
        The labels to begin with; opaque.
    """
    report_progress("refining")
    best, highest = labels, -np.inf
    for _ in range(_MOST_ROUNDS):
        agreement, means = evaluator.agreement(labels)
        if agreement <= highest + _EQUAL:
            break
        best, highest = labels, agreement
        labels = evaluator.decoded(labels, means)
    return best


@dataclass(frozen=True)
class GraphLabels:
    """Labels of the rows of a graph in memory: see `LabelEvaluator`."""

    graph: Graph
    decode: Quotas
    F: FloatArray
    counts: IntArray

    def agreement(self, labels: Decoding) -> tuple[float, FloatArray]:
        """Return the smoothness of labels, and the mean labels of every row's neighbors."""
        means = self.graph.neighbor_label_means(labels.labels, self.decode.bags.n_classes)
        return smoothness_of(labels.labels, means), means

    def decoded(self, labels: Decoding, means: FloatArray) -> Decoding:
        """Return the labels that follow from the means of neighbors."""
        return self.decode(blockwise(with_soft_labels, means, self.F), self.counts)


def refine(graph: Graph, decode: Quotas, F: FloatArray, labels: Decoding) -> Decoding:
    """Return labels with the same counts in every bag and a higher smoothness on the graph.

    Rows that were tied stay tied: their label began with a tie-break.
    """
    evaluator = GraphLabels(graph, decode, F, bag_counts(F, decode.bags))
    best = raise_agreement(evaluator, labels)
    return Decoding(best.labels, best.tied | labels.tied)


def with_soft_labels(means: FloatArray, F: FloatArray) -> FloatArray:
    """Return the mean labels of neighbors plus a little of the soft labels."""
    return means + _WEIGHT_OF_SOFT_LABELS * F


def clearly_smoother(
    graph: Graph, decode: Quotas, F: FloatArray, labels: IntArray, ranks: IntArray
) -> Decoding | None:
    """Return labels found from random smooth starts, if they are clearly smoother than `labels`.

    The convex problem has one answer. Where its soft labels are blurred, as few bags of much the
    same proportions leave them, the labels taken from it can be far from the smoothest ones of the
    same counts. Here random numbers are averaged over neighbors until they order the rows by
    similarity; labels with every bag's counts are taken along that order, in both directions, and
    refined. The numbers belong to the rows by `ranks`, so the result depends neither on the order
    of rows nor on a seed. Of equally smooth labels, those nearest to the soft labels F are taken.

    This is done only with two classes, where it is cheap, and where every row lies in a bag of
    exact totals: a free row is smooth in the class of its neighbors, whatever that is.
    """
    bags = decode.bags
    exact = np.allclose(bags.lower, bags.upper) and (bags.codes >= 0).all()
    if bags.n_classes != 2 or bags.n_samples > _MOST_ROWS or not exact:
        return None
    starts = _random_orders(graph, ranks)
    refined = [refine(graph, decode, start, decode(start)) for start in starts]
    smoothness = np.array([graph.label_smoothness(end.labels, 2) for end in refined])
    if smoothness.max() <= graph.label_smoothness(labels, 2) + _CLEARLY:
        return None
    ends = [refined[i] for i in smoothest(smoothness)]
    nearness = np.array([F[np.arange(len(F)), end.labels].mean() for end in ends])
    return ends[int(np.flatnonzero(nearness >= nearness.max() - _CONVERGED)[0])]


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


def _random_orders(graph: Graph, ranks: IntArray) -> Iterator[FloatArray]:
    """Yield soft labels that rise, and that fall, along random smooth orders of the rows."""
    n = len(ranks)
    Z = np.random.default_rng(0).standard_normal((n, _STARTS))[ranks]
    for _ in range(_AVERAGINGS):
        Z = 0.5 * (Z + graph.neighbor_mean(Z))
        Z -= (graph.degrees_ @ Z) / max(graph.degrees_.sum(), 1e-300)
        Z /= np.maximum(np.abs(Z).max(axis=0), 1e-300)
    for z in Z.T:
        rising = (_ranks_beyond_rounding(z) - 0.5) / n
        yield np.column_stack([1.0 - rising, rising])
        yield np.column_stack([rising, 1.0 - rising])
