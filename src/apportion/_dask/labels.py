"""One label a row on a partition: round by round, as refinement hands the bags' counts out anew.

Bags that lie in the partition alone are decoded here. Of the others, the driver asks what rows
are worth in each class, and says where a bag is cut: at which score for two classes, at which
prices for more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from apportion._core.decode import Decoding, bag_counts, grains
from apportion._core.refine import with_soft_labels
from apportion._dask.bag_sums import OfBags
from apportion._dask.levels import Levels, at_levels
from apportion._dask.part import Part, Point
from apportion._dask.prices import Prices, at_prices
from apportion._utils.threads import blockwise
from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.graphs._row_blocks import multiply, transposed
from apportion.graphs.anchor import from_others
from apportion.graphs.base import agreement, means_of_both_classes


class Round(NamedTuple):
    """A handing out of labels: what the anchors had said before, None at first, and the cut."""

    voices: FloatArray | None
    cut: Levels | Prices


class Heard(NamedTuple):
    """What rows hear of the others' labels, and how much of it is the label they have."""

    columns: FloatArray
    agreement: float


class Scored(NamedTuple):
    """A partition before its bags across partitions are cut.

    Attributes
    ----------
    labels, tied : ndarray of shape (n_samples alone,)
        Labels of the other rows, and which of them only a tie-break decided.
    scores : ndarray of int, of shape (n_samples across, n_classes)
        What rows are worth in each class, in grains.
    """

    labels: IntArray
    tied: AnyArray
    scores: IntArray


def said(part: Part, point: Point, rounds: list[Round]) -> Decoding:
    """Return the labels after some rounds, remembered or found again.

    Rows that were tied in the first round stay tied.
    """

    def decide() -> Decoding:
        *earlier, last = rounds
        one = scored(part, point, earlier, last.voices)
        if isinstance(last.cut, Levels):
            across = at_levels(part, one.scores, last.cut)
        else:
            across = at_prices(part, one.scores, last.cut)
        tied = np.concatenate([one.tied, across.tied])
        if earlier:
            tied |= part.remembered("first", 1, lambda: said(part, point, rounds[:1]).tied)
        return Decoding(np.concatenate([one.labels, across.labels]), tied)

    found = part.remembered("said", len(rounds), decide)
    if len(rounds) == 1:
        part.remembered("first", 1, lambda: found.tied)
    return found


def scored(part: Part, point: Point, rounds: list[Round], voices: FloatArray | None) -> Scored:
    """Return labels of the partition's own bags after one more round, and scores for the others.

    Scores are soft labels, or what rows hear of the others' labels with a little of their soft
    labels.
    """

    def score() -> Scored:
        soft = part.at(point).F
        if voices is None:
            scores = part.projection.from_columns(soft)
        else:
            columns = heard(part, point, rounds, voices).columns
            scores = _of_classes(part, columns)
            scores = blockwise(with_soft_labels, scores, part.projection.from_columns(soft))
        counts = part.remembered("counts", 0, lambda: _own_counts(part, soft))
        found = part.quotas(scores[part.alone], counts)
        return Scored(*found, grains(scores[part.across]))

    return part.remembered("scored", len(rounds), score)


def of_scores(
    part: Part,
    point: Point,
    rounds: list[Round],
    voices: FloatArray | None,
    answer: Callable[..., Any],
    *question: Any,
) -> Any:
    """Return `answer(part, scores, *question)`, of rows across partitions after these rounds."""
    return answer(part, scored(part, point, rounds, voices).scores, *question)


def heard(part: Part, point: Point, rounds: list[Round], voices: FloatArray) -> Heard:
    """Return what each row hears of the others' labels, as they travel."""

    def neighbor_mean() -> Heard:
        labels = said(part, point, rounds).labels
        columns = multiply(part.ties, voices)
        said_here = _one_hot(part, labels)
        columns = blockwise(from_others, columns, said_here, part.own, out=columns)
        return Heard(columns, agreement(labels, _of_classes(part, columns)))

    return part.remembered("heard", len(rounds), neighbor_mean)


def _of_classes(part: Part, columns: FloatArray) -> FloatArray:
    """Return what is heard of every class, from the columns that travel."""
    if part.n_classes != 2:
        return columns
    return means_of_both_classes(columns, part.strengths)


def _own_counts(part: Part, soft: FloatArray) -> IntArray:
    return bag_counts(part.projection.from_columns(soft[part.alone]), part.bags)


def _one_hot(part: Part, labels: IntArray) -> FloatArray:
    """Return labels as they travel: of two classes, the second alone."""
    if part.n_classes == 2:
        return (labels == 1).astype(np.float64)[:, None]
    return np.asarray(np.eye(part.n_classes)[labels])


# --- What is added up.


def voiced(part: Part, point: Point, rounds: list[Round]) -> FloatArray:
    """Return what the rows' labels give to their anchors."""
    labels = _one_hot(part, said(part, point, rounds).labels)
    return np.asarray(transposed(part.ties) @ labels)


def agreed(part: Part, point: Point, rounds: list[Round], voices: FloatArray) -> float:
    """Return how much of what the rows hear is their own label."""
    return heard(part, point, rounds, voices).agreement


class Tally(NamedTuple):
    """Labels of every bag and class, and rows that only a tie-break decided."""

    assigned: IntArray
    n_tied: int


def tallied(part: Part, point: Point, rounds: list[Round]) -> Tally:
    """Return how many rows of each bag have each label."""
    c, n_bags = part.n_classes, len(part.design.spanning)
    labels, tied = said(part, point, rounds)
    inside = part.codes >= 0
    assigned = np.bincount(part.codes[inside] * c + labels[inside], minlength=n_bags * c)
    return Tally(assigned.reshape(n_bags, c), int(tied.sum()))


def massed(part: Part, point: Point) -> OfBags:
    """Return the sums of soft labels over bags that lie in several partitions."""
    soft = part.projection.from_columns(part.at(point).F[part.across])
    return OfBags(part.held, (part.groups.sum(soft),))
