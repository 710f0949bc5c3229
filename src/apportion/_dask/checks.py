"""What totals and similarities leave open, counted over partitions and warned of."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from apportion._core.descent import Status
from apportion._core.uniqueness import constants_cancel, no_room
from apportion._core.warn import (
    CLUSTER,
    warn_of_design,
    warn_of_equal_rows,
    warn_of_isolated_rows,
    warn_of_several_answers,
    warn_of_unknown_uniqueness,
    warn_of_unreached_rows,
)
from apportion._dask.cluster import Cluster
from apportion._dask.layout import Layout
from apportion._dask.partition import Partition, ReducedPoint
from apportion._utils.groups import Groups
from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.exceptions import counted
from apportion.graphs.anchor import anchor_components
from apportion.supervision.diagnosis import Diagnosis, diagnose_shares

WEAK = 1e-2
"""A row is isolated if it is tied less than this times as strongly as the mean row."""

_MOST_CELLS = 2**20
"""The largest table of bags and connected components that partitions count."""


class Reach(NamedTuple):
    """Rows by connected component, added up over partitions.

    Attributes
    ----------
    n_isolated, n_alone : int
        Rows that are hardly tied to any other, and rows that are tied to none.
    bagged : ndarray of shape (n_bags, n_components)
        The rows of each bag in each component.
    loose : ndarray of shape (n_components,)
        The rows in no bag.
    """

    n_isolated: int
    n_alone: int
    bagged: IntArray
    loose: IntArray


class Connected(NamedTuple):
    """Each anchor's connected component, or None if there are too many; the rows of each."""

    component: IntArray | None
    reach: Reach


def reach(part: Partition, component: IntArray, n_components: int, floor: float) -> Reach:
    """Return the rows of a partition by connected component."""
    strengths, codes, n_bags = part.strengths, part.codes, len(part.design.spanning)
    cells = codes * n_components + part.components(component)
    bagged = np.bincount(cells[codes >= 0], minlength=n_bags * n_components)
    loose = np.bincount(cells[codes < 0] + n_components, minlength=n_components)
    return Reach(
        int((strengths <= floor).sum()),
        int((strengths == 0).sum()),
        bagged.reshape(n_bags, n_components),
        loose,
    )


def check_design(layout: Layout) -> Diagnosis:
    """Return what the totals can tell apart, and warn of classes that they cannot."""
    used = layout.sizes > 0
    exact = bool((layout.upper - layout.lower <= 1e-9).all())
    diagnosis = diagnose_shares(
        layout.classes, layout.shares[used], layout.sizes[used], exact=exact
    )
    warn_of_design(diagnosis.findings, CLUSTER)
    return diagnosis


def check_rows(cluster: Cluster, layout: Layout) -> Connected:
    """Return the rows by connected component; warn of rows that are equal, alone or unreached."""
    number, component = anchor_components(layout.shared)
    countable = number * len(layout.sizes) <= _MOST_CELLS
    if not countable:
        number, component = 1, np.zeros_like(component)
    question = cluster.send(component), number, WEAK * layout.strength
    rows: Reach = cluster.total(cluster.on_each(reach, layout.parts, *question))
    n = layout.n_samples
    if len(layout.anchors) == 1 and n > 1:
        warn_of_equal_rows(
            f"All {n:,} rows are tied to one anchor: nothing tells them apart.", CLUSTER
        )
    else:
        warn_of_isolated_rows(rows.n_isolated, rows.n_alone, n, CLUSTER)
    unreached = (rows.bagged.sum(axis=0) + rows.loose)[~_reached(layout, rows)]
    warn_of_unreached_rows(int(unreached.sum()), n, CLUSTER)
    return Connected(component if countable else None, rows)


def check_uniqueness(
    cluster: Cluster, layout: Layout, rows: Connected, point: Any, status: Status
) -> bool | None:
    """Return whether the totals have one answer; None if that is not known, which is warned of."""
    if rows.component is None:
        warn_of_unknown_uniqueness(
            "similar rows form too many groups that no similarity ties together",
            "Tie rows to more anchors (raise {n_nearest}).",
        )
        return None
    # Two minimizers of the energy differ by a constant on every connected component, and the
    # constants must cancel in every exact bag (see `may_be_ambiguous`). If the table of bags and
    # components does not exclude that, the soft labels are asked how far they could be shifted.
    reached = _reached(layout, rows.reach)
    exact = (layout.upper - layout.lower <= 1e-9).all(axis=1) & (layout.sizes > 0)
    counts = sparse.csr_array(rows.reach.bagged.astype(np.float64))
    if not constants_cancel(counts[exact][:, reached]):
        return True
    if status is not Status.CONVERGED:
        return None
    component = cluster.send(rows.component)
    answers = cluster.on_each(room, layout.parts, component, len(reached), point)
    total: Room = cluster.total(answers, narrowest)
    above, below = total.sums - layout.lower, layout.upper - total.sums
    if no_room(total.least, ~reached, counts, above, below):
        return True
    warn_of_several_answers(
        "The totals may admit several labelings: similar rows form "
        f"{counted(len(reached), 'group')} that the totals leave room to shift.",
        CLUSTER,
    )
    return None


def _reached(layout: Layout, rows: Reach) -> BoolArray:
    """Return which components hold a row of a bag that something is known of."""
    known = (layout.upper - layout.lower).max(axis=1, initial=0.0) < layout.sizes
    reached: BoolArray = rows.bagged[known].sum(axis=0) > 0
    return reached


class Room(NamedTuple):
    """The least soft labels of components, and the sums of soft labels over bags."""

    least: FloatArray
    sums: FloatArray


def room(part: Partition, component: IntArray, n_components: int, point: ReducedPoint) -> Room:
    """Return how far the soft labels of a partition can be shifted."""
    soft = part.soft_labels(point)
    n_bags = len(part.design.spanning)
    return Room(
        Groups(part.components(component), n_components).least(soft),
        Groups(part.codes, n_bags).sum(soft),
    )


def narrowest(rooms: list[Room]) -> Room:
    """Return how far the soft labels of several partitions can be shifted."""
    least, sums = zip(*rooms, strict=True)
    return Room(np.minimum.reduce(least), np.add.reduce(sums))
