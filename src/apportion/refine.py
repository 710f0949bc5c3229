"""Labels that keep every bag's counts, exchanged until neighbours agree."""

from __future__ import annotations

import numpy as np

from apportion._typing import FloatArray, IntArray
from apportion.bags import Bags
from apportion.decode import Decoding, bag_counts, quota
from apportion.graph import Graph

_WEIGHT_OF_SOFT_LABELS = 0.1
_MOST_ROUNDS = 50


def refine(graph: Graph, bags: Bags, F: FloatArray, labels: Decoding, ranks: IntArray) -> Decoding:
    """Return labels with the same counts in every bag and a higher smoothness on the graph.

    Soft labels are blurred where two classes meet, and the labels taken from them with them. Here
    every row hears the labels of its neighbours, its own left out, and a little of its soft label;
    the bags' counts are handed out anew by what was heard. Repeated while the smoothness
    (1/n) Σ s_ij 1[y_i = y_j] rises; no true label is looked at. Rows that were tied stay tied: what
    they got began with a tie-break.
    """
    counts = bag_counts(F, bags)
    best, smoothness = labels, graph.label_smoothness(labels.labels, bags.n_classes)
    degrees = np.where(graph.degrees_ > 0, graph.degrees_, 1.0)[:, None]
    for _ in range(_MOST_ROUNDS):
        heard = (graph.affinity_ @ np.eye(bags.n_classes)[best.labels]) / degrees
        heard += _WEIGHT_OF_SOFT_LABELS * F
        changed = quota(heard, bags, ranks, counts)
        risen = graph.label_smoothness(changed.labels, bags.n_classes)
        if risen <= smoothness + 1e-12:
            break
        best, smoothness = changed, risen
    return Decoding(best.labels, best.tied | labels.tied)
