"""What totals and similarities leave open, said before labels are handed out."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from apportion._core.descent import Status
from apportion._core.uniqueness import constants_cancel, no_room
from apportion._dask.cluster import Cluster
from apportion._dask.layout import Layout
from apportion._dask.partition import Partition, ReducedPoint
from apportion._utils.groups import Groups
from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.exceptions import (
    Advice,
    AmbiguousTotalsWarning,
    BagDesignWarning,
    DuplicateRowsWarning,
    IsolatedRowsWarning,
    counted,
    users_level,
)
from apportion.graphs.anchor import anchor_components
from apportion.supervision.diagnosis import Diagnosis, diagnose_shares

_WEAK = 1e-2
_MOST_CELLS = 2**20


class Reach(NamedTuple):
    """How rows hang together.

    Attributes
    ----------
    weak, alone : int
        Rows that are hardly tied to any other, and rows that are tied to none.
    bagged : ndarray of shape (n_bags, n_components)
        The rows of each bag in each component.
    loose : ndarray of shape (n_components,)
        The rows in no bag.
    """

    weak: int
    alone: int
    bagged: IntArray
    loose: IntArray


class Hanging(NamedTuple):
    """How rows hang together: the anchors' components, whether they can be counted, the rows."""

    component: IntArray
    countable: bool
    reach: Reach


def reach(part: Partition, component: IntArray, n_components: int, floor: float) -> Reach:
    """Return how the rows of a partition hang together."""
    strengths = part.strengths
    first = part.components(component)
    codes, n_bags = part.codes, len(part.design.spanning)
    inside = codes >= 0
    cells = codes[inside] * n_components + first[inside]
    bagged = np.bincount(cells, minlength=n_bags * n_components)
    return Reach(
        int((strengths <= floor).sum()),
        int((strengths == 0).sum()),
        bagged.reshape(n_bags, n_components),
        np.bincount(first[~inside], minlength=n_components),
    )


def warn_of_design(layout: Layout) -> Diagnosis:
    """Return what the totals can tell apart, and warn of classes that they cannot."""
    there = layout.sizes > 0
    exact = bool((layout.upper - layout.lower <= 1e-9).all())
    diagnosis = diagnose_shares(
        layout.classes, layout.shares[there], layout.sizes[there], exact=exact
    )
    if diagnosis.findings:
        warnings.warn(
            f"{' '.join(diagnosis.findings)} Totals in other proportions would tell them apart.",
            BagDesignWarning,
            stacklevel=users_level(),
        )
    return diagnosis


def warn_of_rows(cluster: Cluster, layout: Layout) -> Hanging:
    """Return how rows hang together, and warn of rows that are equal, alone or out of reach."""
    number, component = anchor_components(layout.shared)
    countable = number * len(layout.sizes) <= _MOST_CELLS
    if not countable:
        number, component = 1, np.zeros_like(component)
    asked = cluster.send(component), number, _WEAK * layout.strength
    found: Reach = cluster.total(cluster.on_each(reach, layout.parts, *asked))
    n = layout.n_samples
    if len(layout.anchors) == 1 and n > 1:
        warnings.warn(
            Advice(
                f"All {n:,} rows are tied to one anchor: nothing tells them apart.",
                "Add features of the signal, not of the time, or raise {n_anchors}.",
            ),
            DuplicateRowsWarning,
            stacklevel=users_level(),
        )
    elif found.weak:
        warnings.warn(
            Advice(
                f"{found.weak:,} of {n:,} rows have almost no similar row, {found.alone:,} of them "
                "none at all: they stay near the shares of their totals.",
                "Look for outliers and unscaled features, or lower {n_anchors}.",
            ),
            IsolatedRowsWarning,
            stacklevel=users_level(),
        )
    unknown = int((found.bagged.sum(axis=0) + found.loose)[~_reached(layout, found)].sum())
    if unknown:
        warnings.warn(
            Advice(
                f"{unknown:,} of {n:,} rows are out of reach of any known total: they keep the "
                "overall class shares.",
                "Give totals for them, or tie rows to more anchors (raise {n_nearest}).",
            ),
            IsolatedRowsWarning,
            stacklevel=users_level(),
        )
    return Hanging(component, countable, found)


def warn_of_answers(
    cluster: Cluster, layout: Layout, hanging: Hanging, point: Any, status: Status
) -> bool | None:
    """Return whether the totals have one answer; None if that is not known, which is warned of."""
    found = hanging.reach
    if not hanging.countable:
        warnings.warn(
            Advice(
                "Whether the totals admit several labelings was not asked: similar rows form too "
                "many groups that no similarity ties together.",
                "Tie rows to more anchors (raise {n_nearest}).",
            ),
            AmbiguousTotalsWarning,
            stacklevel=users_level(),
        )
        return None
    reached = _reached(layout, found)
    exact = (layout.upper - layout.lower <= 1e-9).all(axis=1) & (layout.sizes > 0)
    counts = sparse.csr_array(found.bagged.astype(np.float64))
    if not constants_cancel(counts[exact][:, reached]):
        return True
    if status is not Status.CONVERGED:
        return None
    component = cluster.send(hanging.component)
    asked = cluster.on_each(room, layout.parts, component, len(reached), point)
    rooms: Room = cluster.total(asked, narrowest)
    above, below = rooms.sums - layout.lower, layout.upper - rooms.sums
    if no_room(rooms.least, ~reached, counts, above, below):
        return True
    warnings.warn(
        Advice(
            "The totals may admit several labelings: similar rows form "
            f"{counted(len(reached), 'group')} that the totals leave room to shift.",
            "More bags, or totals that differ more between bags, would decide; so would more ties "
            "between rows (raise {n_nearest}).",
        ),
        AmbiguousTotalsWarning,
        stacklevel=users_level(),
    )
    return None


def _reached(layout: Layout, found: Reach) -> BoolArray:
    """Return which components hold a row of a bag that something is known of."""
    known = (layout.upper - layout.lower).max(axis=1, initial=0.0) < layout.sizes
    reached: BoolArray = found.bagged[known].sum(axis=0) > 0
    return reached


class Room(NamedTuple):
    """The least soft labels of components, and the sums of those of bags."""

    least: FloatArray
    sums: FloatArray


def room(part: Partition, component: IntArray, n_components: int, point: ReducedPoint) -> Room:
    """Return what soft labels of a partition leave room for."""
    soft = part.soft_labels(point)
    n_bags = len(part.design.spanning)
    return Room(
        Groups(part.components(component), n_components).least(soft),
        Groups(part.codes, n_bags).sum(soft),
    )


def narrowest(rooms: list[Room]) -> Room:
    """Return what the soft labels of several partitions leave room for."""
    least = np.minimum.reduce([one.least for one in rooms])
    return Room(least, np.add.reduce([one.sums for one in rooms]))
