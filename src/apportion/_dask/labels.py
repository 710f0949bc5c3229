"""Labels of a partition, round by round, as refinement decodes anew with the same counts.

Bags that lie in the partition alone are decoded here. The labels of the others follow from their
scores and from what the driver sends: see `quota`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from apportion._core.decode import Decoding, bag_counts, integer_scores
from apportion._core.refine import with_soft_labels
from apportion._dask.partition import Partition, ReducedPoint
from apportion._dask.quota import Cut, divided
from apportion._dask.sums import BagValues
from apportion._utils.threads import blockwise
from apportion._utils.typing import FloatArray, IntArray
from apportion.graphs._products import agreement, from_others, means_of_both_classes
from apportion.graphs._row_blocks import multiply, transposed


class DecodingRound(NamedTuple):
    """One decoding: the labels of anchors it follows from, None in the first, and the cut."""

    prototypes: FloatArray | None
    cut: Cut


class Scored(NamedTuple):
    """A partition before its bags across partitions are divided.

    Attributes
    ----------
    alone : Decoding
        The labels of rows whose bag lies here alone, or in no bag.
    scores : ndarray of int, of shape (n_samples across, n_classes)
        The scores of the other rows in each class, as integers.
    """

    alone: Decoding
    scores: IntArray


Rounds = list[DecodingRound]


def decoded_labels(partition: Partition, point: ReducedPoint, rounds: Rounds) -> Decoding:
    """Return the labels after some rounds, remembered or computed again.

    Rows that were tied in the first round stay tied.
    """

    def decode() -> Decoding:
        *earlier, last = rounds
        alone, scores = scored(partition, point, earlier, last.prototypes)
        across = divided(partition, scores, last.cut)
        labels, tied = (np.concatenate(pair) for pair in zip(alone, across, strict=True))
        if earlier:
            tied |= partition.remembered(
                "first", 1, lambda: decoded_labels(partition, point, rounds[:1]).tied
            )
        return Decoding(labels, tied)

    labels = partition.remembered("decoded", len(rounds), decode)
    if len(rounds) == 1:
        partition.remembered("first", 1, lambda: labels.tied)
    return labels


def scored(
    partition: Partition, point: ReducedPoint, rounds: Rounds, prototypes: FloatArray | None
) -> Scored:
    """Return the labels of the partition's own bags in the next round, and scores for the others.

    Scores are soft labels in the first round, then the mean labels of neighbors with a little of
    the soft labels.
    """

    def score() -> Scored:
        soft = scores = partition.soft_labels(point)
        if prototypes is not None:
            means, _ = neighbor_means(partition, point, rounds, prototypes)
            scores = blockwise(with_soft_labels, _of_classes(partition, means), soft)
        alone = partition.alone
        counts = partition.remembered("counts", 0, lambda: bag_counts(soft[alone], partition.bags))
        return Scored(
            partition.quotas(scores[alone], counts), integer_scores(scores[partition.across])
        )

    return partition.remembered("scored", len(rounds), score)


def of_scores(
    partition: Partition,
    point: ReducedPoint,
    rounds: Rounds,
    prototypes: FloatArray | None,
    work: Callable[..., Any],
    question: tuple[Any, ...],
) -> Any:
    """Return `work(partition, scores, *question)` for rows across partitions after these rounds."""
    return work(partition, scored(partition, point, rounds, prototypes).scores, *question)


def neighbor_means(
    partition: Partition, point: ReducedPoint, rounds: Rounds, prototypes: FloatArray
) -> tuple[FloatArray, float]:
    """Return the mean labels of every row's neighbors, in columns, and how many agree with it."""

    def compute() -> tuple[FloatArray, float]:
        labels = decoded_labels(partition, point, rounds).labels
        means = multiply(partition.ties, prototypes)
        own = partition.own
        means = blockwise(from_others, means, _one_hot(partition, labels), own, out=means)
        return means, agreement(labels, _of_classes(partition, means))

    return partition.remembered("means", len(rounds), compute)


def _of_classes(partition: Partition, columns: FloatArray) -> FloatArray:
    """Return the means of every class, from the columns that travel."""
    if partition.n_classes != 2:
        return columns
    return means_of_both_classes(columns, partition.strengths)


def _one_hot(partition: Partition, labels: IntArray) -> FloatArray:
    """Return labels as they travel: of two classes, the second alone."""
    return partition.projection.to_columns(np.eye(partition.n_classes)[labels])


# --- What is added up.


def label_sums(partition: Partition, point: ReducedPoint, rounds: Rounds) -> FloatArray:
    """Return Zᵀ of the rows' labels: what they add to their anchors."""
    labels = _one_hot(partition, decoded_labels(partition, point, rounds).labels)
    return np.asarray(transposed(partition.ties) @ labels)


def agreement_sum(
    partition: Partition, point: ReducedPoint, rounds: Rounds, prototypes: FloatArray
) -> float:
    """Return how much of the neighbors' labels agrees with the rows' own, added up."""
    return neighbor_means(partition, point, rounds, prototypes)[1]


class Tally(NamedTuple):
    """Labels of every bag and class, and rows that only a tie-break decided."""

    assigned: IntArray
    n_tied: int


def tallied(partition: Partition, point: ReducedPoint, rounds: Rounds) -> Tally:
    """Return how many rows of each bag have each label."""
    c, n_bags = partition.n_classes, len(partition.design.spanning)
    labels, tied = decoded_labels(partition, point, rounds)
    inside = partition.codes >= 0
    assigned = np.bincount(partition.codes[inside] * c + labels[inside], minlength=n_bags * c)
    return Tally(assigned.reshape(n_bags, c), int(tied.sum()))


def bag_sums(partition: Partition, point: ReducedPoint) -> BagValues:
    """Return the sums of soft labels over bags that lie in several partitions."""
    soft = partition.soft_labels(point, partition.across)
    return BagValues(partition.held, (partition.groups.sum(soft),))
