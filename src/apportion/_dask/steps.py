"""What a partition answers in a step of the loop: sums, as large as anchors and bags."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from apportion._dask.bag_sums import OfBags
from apportion._dask.cluster import added
from apportion._dask.part import Part, Point
from apportion._utils.threads import BLOCK_ROWS, in_threads, slices
from apportion._utils.typing import FloatArray
from apportion.graphs._row_blocks import some_rows, transposed


class Sums(NamedTuple):
    """What soft labels add up to.

    Attributes
    ----------
    anchors : ndarray of shape (n_anchors, n_columns)
        Zᵀ F.
    square, others : float
        ‖F‖², and that of the column that does not travel.
    leap, onward : float
        ‖F - Y‖² from the point Y where the step began, and ⟨F - Y, F - F before⟩.
    """

    anchors: FloatArray
    square: float
    others: float
    leap: float
    onward: float


class Answer(NamedTuple):
    """What a partition answers to a trial: sums over all rows, and over bags across partitions."""

    rows: Sums
    bags: OfBags


def answered(
    part: Part, trial: Point, here: Point | None, before: Point | None, momentum: float
) -> Answer:
    """Return what the soft labels at a trial add up to, and how they lie to two points passed.

    Rows that do not depend on the multipliers are measured once for every B.
    """
    F = None if here is None else part.at(here).F
    F_before = None if before is None else part.at(before).F
    stand = part.at(trial)
    passed = F, F_before, momentum
    began = here, before, momentum
    if stand.measured is None or not _same(stand.measured[0], began):
        stand.measured = began, _measured(part, part.alone, stand.F, *passed)
    rows = added([stand.measured[1], _measured(part, part.across, stand.F, *passed)])
    return Answer(rows, OfBags(part.held, tuple(one.copy() for one in stand.bags)))


def _same(one: Any, other: Any) -> bool:
    """Return whether two points, or tuples of points and numbers, are equal."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return all(map(_same, one, other))
    return bool(np.array_equal(one, other))


def _measured(
    part: Part,
    rows: slice,
    moved: FloatArray,
    F: FloatArray | None,
    before: FloatArray | None,
    momentum: float,
) -> Sums:
    one_column = part.projection.one_column

    def measure(block: slice) -> Sums:
        here = moved[block]
        leap = onward = 0.0
        if F is not None and before is not None:
            ahead = here - F[block]
            away = ahead - momentum * (F[block] - before[block]) if momentum else ahead
            leap, onward = float(np.vdot(away, away)), float(np.vdot(away, ahead))
        others = float(((1.0 - here) ** 2).sum()) if one_column else 0.0
        given = np.asarray(transposed(some_rows(part.ties, block)) @ here)
        return Sums(given, float(np.vdot(here, here)), others, leap, onward)

    nothing = Sums(np.zeros((part.ties.shape[1], moved.shape[1])), 0.0, 0.0, 0.0, 0.0)
    blocks = [
        slice(rows.start + one.start, rows.start + one.stop)
        for one in slices(rows.stop - rows.start, BLOCK_ROWS)
    ]
    return added([nothing, *in_threads(measure, blocks)])
