"""The fit, stage by stage, on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion._core.decode import round_to_counts
from apportion._core.descent import Status
from apportion._core.refine import _MOST_ROUNDS as MOST_ROUNDS
from apportion._dask.bag_sums import OfBags
from apportion._dask.cluster import Cluster
from apportion._dask.decode import Cuts
from apportion._dask.labels import Round, Tally, agreed, massed, tallied, voiced
from apportion._dask.layout import Layout
from apportion._dask.loop import Loop, State
from apportion._dask.sample import Head, Sample, head, joined, lowest, merged, up_to
from apportion._dask.warn import warn_of_answers, warn_of_design, warn_of_rows
from apportion._io.tables import require_squares
from apportion._utils.box_projection import nearest_totals
from apportion._utils.progress import report_progress
from apportion._utils.typing import FloatArray, IntArray
from apportion.exceptions import SupervisionError
from apportion.graphs.anchor import anchors_of, rows_for_anchors
from apportion.supervision.diagnosis import Diagnosis


@dataclass(frozen=True)
class Fitted:
    """What a fit leaves behind: what labels follow from, and what they add up to.

    Attributes
    ----------
    layout : Layout
        The partitions.
    state : State
        Where the loop ended.
    status : Status
        How it ended.
    unique : bool or None
        Whether the totals have one answer; None if that is not known.
    diagnosis : Diagnosis
        What the totals can tell apart.
    point : future
        What soft labels follow from.
    rounds : list of futures
        What labels follow from.
    assigned : ndarray of shape (n_bags, n_classes)
        Rows by bag and label.
    n_tied : int
        Rows that only a tie-break decided.
    n_gathered : int
        Rows that the driver looked at to cut bags across partitions.
    bytes_per_request : int
        What a request sends to a partition and brings back.
    """

    layout: Layout
    state: State
    status: Status
    unique: bool | None
    diagnosis: Diagnosis
    point: Any
    rounds: list[Any]
    assigned: IntArray
    n_tied: int
    n_gathered: int
    bytes_per_request: int


def learn_anchors(
    cluster: Cluster, partitions: list[Any], most_anchors: int, wanted: Callable[[int], int]
) -> tuple[int, FloatArray]:
    """Return the number of rows, and the anchors: centers of the rows of the lowest hashes.

    Which rows these are depends on what rows hold, not on how they are cut into partitions.
    """
    report_progress("choosing anchors")
    most = rows_for_anchors(most_anchors)
    found = cluster.on_each_read(lowest, partitions, most)
    cluster.watch("choosing anchors", found)
    first: Head = cluster.total(cluster.on_each(head, found), merged, most)
    if not first.n_samples:
        raise SupervisionError("`X`", "no rows", "at least one", "check where they are read from")
    require_squares(first.largest)
    number = wanted(first.n_samples)
    hashes = first.hashes[: rows_for_anchors(number)]
    samples = cluster.on_each(up_to, found, int(hashes[-1]))
    sample: Sample = cluster.total(samples, joined, len(hashes))
    anchors, _ = anchors_of(sample.X, number)
    return first.n_samples, anchors


def fit(
    cluster: Cluster,
    layout: Layout,
    *,
    alpha: float,
    tol: float,
    max_iter: int,
    refine: bool,
    resume: State | None = None,
    passed: Callable[[State], None] = lambda state: None,
) -> Fitted:
    """Return the labels of all partitions."""
    loop = Loop(cluster, layout, alpha)
    diagnosis = warn_of_design(layout)
    hanging = warn_of_rows(cluster, layout)
    report_progress("propagating", 0.0)
    state, status = loop.run(resume or loop.start(), tol, max_iter, passed)

    report_progress("decoding")
    point = cluster.send(state.point)
    unique = warn_of_answers(cluster, layout, hanging, point, status)
    cuts = Cuts(cluster, layout.holders, _counts(cluster, layout, point))
    rounds = [cluster.send(Round(None, cuts(point, [], None)))]
    if refine:
        rounds = _refined(cluster, layout, point, rounds, cuts)
    tally: Tally = cluster.total(cluster.on_each(tallied, layout.parts, point, rounds))
    return Fitted(
        layout=layout,
        state=state,
        status=status,
        unique=unique,
        diagnosis=diagnosis,
        point=point,
        rounds=rounds,
        assigned=tally.assigned,
        n_tied=tally.n_tied,
        n_gathered=cuts.n_gathered,
        bytes_per_request=loop.bytes_per_request,
    )


def _counts(cluster: Cluster, layout: Layout, point: Any) -> IntArray:
    """Return how many rows of each bag across partitions get each class."""
    bags = layout.across
    if not len(bags.sizes):
        return np.zeros(bags.lower.shape, dtype=np.intp)
    found: OfBags = cluster.total(cluster.on_each(massed, layout.holders, point))
    (sums,) = found.of_all(len(bags.sizes))
    masses = nearest_totals(sums, bags.lower, bags.upper, bags.sizes)
    return round_to_counts(masses, bags.sizes, bags.lower, bags.upper)


def _refined(
    cluster: Cluster, layout: Layout, point: Any, rounds: list[Any], cuts: Cuts
) -> list[Any]:
    """Return rounds to labels of the same counts that agree more with neighbors: see `refine`."""
    report_progress("refining")
    parts, smoothness = layout.parts, -np.inf
    for _ in range(MOST_ROUNDS):
        given = cluster.total(cluster.on_each(voiced, parts, point, rounds))
        voices = given / layout.masses[:, None]
        sent = cluster.send(voices)
        own = cluster.total(cluster.on_each(agreed, parts, point, rounds, sent))
        risen = own / max(layout.n_samples, 1)
        if risen <= smoothness + 1e-12:
            return rounds[:-1]
        smoothness = risen
        rounds = [*rounds, cluster.send(Round(voices, cuts(point, rounds, sent)))]
    return rounds[:-1]
