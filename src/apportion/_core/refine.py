"""Labels that keep every bag's counts, exchanged until neighbors agree."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.stats import rankdata

from apportion._core.decode import GRAIN, Decoding, Quotas, bag_counts
from apportion._utils.progress import report_progress
from apportion._utils.threads import blockwise
from apportion._utils.typing import FloatArray, IntArray
from apportion.graphs import Graph, smoothest, smoothness_of

_WEIGHT_OF_SOFT_LABELS = 0.1
MOST_ROUNDS = 50
_STARTS = 32
_AVERAGINGS = 100
_CLEARLY = 0.01
_MOST_ROWS = 1000

_CONVERGED = 1e-4
"""Soft labels of converged runs differ by less than this."""


def refine(graph: Graph, decode: Quotas, F: FloatArray, labels: Decoding) -> Decoding:
    """Return labels with the same counts in every bag and a higher smoothness on the graph.

    Soft labels are blurred where two classes meet, and the labels taken from them with them. Here
    every row hears the labels of its neighbors, its own left out, and a little of its soft label;
    the bags' counts are handed out anew by what was heard. Repeated while the smoothness
    (1/n) Σ s_ij 1[y_i = y_j] rises; no true label is looked at. Rows that were tied stay tied: what
    they got began with a tie-break.
    """
    report_progress("refining")
    bags = decode.bags
    counts = bag_counts(F, bags)
    best, smoothness, changed = labels, -np.inf, labels
    for _ in range(MOST_ROUNDS):
        heard = graph.neighbor_label_means(changed.labels, bags.n_classes)
        risen = smoothness_of(changed.labels, heard)
        if risen <= smoothness + 1e-12:
            break
        best, smoothness = changed, risen
        changed = decode(blockwise(with_soft_labels, heard, F), counts)
    return Decoding(best.labels, best.tied | labels.tied)


def with_soft_labels(heard: FloatArray, F: FloatArray) -> FloatArray:
    """Return what rows hear with a little of their soft labels."""
    return heard + _WEIGHT_OF_SOFT_LABELS * F


def clearly_smoother(
    graph: Graph, decode: Quotas, F: FloatArray, labels: IntArray, ranks: IntArray
) -> Decoding | None:
    """Return labels found from random smooth starts, if they are clearly smoother than `labels`.

    The convex problem has one answer. Where its soft labels are blurred, as few bags of much the
    same proportions leave them, the labels taken from it can be far from the smoothest ones of the
    same counts. Here random numbers are averaged over neighbors until they order the rows by
    likeness; every bag's counts are handed out along that order, one way round and the other, and
    refined. The numbers belong to the rows by `ranks`, so the result depends neither on the order
    of rows nor on a seed. Of equally smooth labels, those nearest to the soft labels F are taken.

    Looked for only with two classes, where it is cheap, and where every row lies in a bag of exact
    totals: a free row is smooth in the class of its neighbors, whatever that is.
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
    apart = np.diff(values[order], prepend=-np.inf) > GRAIN * np.abs(values).max()
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
