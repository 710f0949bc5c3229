"""Refine labels: the same counts in every bag, more agreement between neighbors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion._core.decode import Decoding, Quotas
from apportion._core.evaluator import LabelEvaluator, Labels, Means
from apportion._utils.arrays import to_device, to_numpy
from apportion._utils.progress import report_progress
from apportion._utils.threads import blockwise
from apportion._utils.typing import FloatArray, IntArray
from apportion.graphs import Graph, smoothness_of
from apportion.graphs._products import Products

WEIGHT_OF_SOFT_LABELS = 0.1
"""Soft labels decide between classes that neighbors leave nearly equal."""

MOST_ROUNDS = 50
"""Rounds of refinement, which usually ends earlier."""

EQUAL_AGREEMENT = 1e-12
"""Agreements that differ by less are equal but for rounding."""


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
    for _ in range(MOST_ROUNDS):
        agreement, means = evaluator.agreement(labels)
        if agreement <= highest + EQUAL_AGREEMENT:
            break
        best, highest = labels, agreement
        labels = evaluator.decoded(labels, means)
    return best


@dataclass(frozen=True)
class GraphLabels:
    """Labels of the rows of a graph, in memory or on a device: see `LabelEvaluator`."""

    graph: Products
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
    counts = decode.counts(F)
    device = graph.device_ if decode.device is not None else None
    evaluator = GraphLabels(
        graph if device is None else graph.products(), decode, to_device(F, device), counts
    )
    start = Decoding(*(to_device(values, device) for values in labels))
    best = raise_agreement(evaluator, start)
    return Decoding(to_numpy(best.labels), to_numpy(best.tied) | labels.tied)


def with_soft_labels(means: FloatArray, F: FloatArray) -> FloatArray:
    """Return the mean labels of neighbors plus a little of the soft labels."""
    return means + WEIGHT_OF_SOFT_LABELS * F
