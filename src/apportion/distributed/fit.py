"""The fit, stage by stage, on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion._typing import FloatArray, IntArray
from apportion.bags import overall_shares, shares_near
from apportion.decode import round_to_counts
from apportion.distributed.cluster import Cluster
from apportion.distributed.decode import Cuts
from apportion.distributed.labels import Round, Tally, agreed, massed, tallied, voiced
from apportion.distributed.loop import Loop, State
from apportion.distributed.part import Design, Part
from apportion.distributed.sample import Head, Sample, head, joined, lowest, merged, up_to
from apportion.distributed.spanning import SpanningBags
from apportion.distributed.ties import Census, census, tie
from apportion.exceptions import FileError, SupervisionError
from apportion.graph.anchor import anchors_of, rows_for_anchors
from apportion.multipliers import nearest_totals
from apportion.progress import tell
from apportion.refine import MOST_ROUNDS
from apportion.solve import Status
from apportion.totals import Totals, masses_for


@dataclass
class Fitted:
    """What a fit leaves behind: partitions, what their labels follow from, what they add up to.

    Attributes
    ----------
    parts : list of futures
        The partitions.
    point : future
        What soft labels follow from.
    rounds : list of futures
        What labels follow from.
    lengths : list of int
        The rows of each partition.
    looked : int
        Rows that the driver looked at to cut bags across partitions.
    """

    anchors: FloatArray
    ids: tuple[Any, ...]
    sizes: FloatArray
    lower: FloatArray
    upper: FloatArray
    state: State
    status: Status
    parts: list[Any]
    point: Any
    rounds: list[Any]
    assigned: IntArray
    n_tied: int
    n_spanning: int
    looked: int
    n_rows: int
    lengths: list[int]
    bytes_per_request: int


def learn_anchors(
    cluster: Cluster, partitions: list[Any], most_anchors: int, wanted: Callable[[int], int]
) -> tuple[int, FloatArray]:
    """Return the number of rows, and the anchors: centres of the rows of the lowest hashes.

    Which rows these are depends on what rows hold, not on how they are cut into partitions.
    """
    tell("choosing anchors")
    most = rows_for_anchors(most_anchors)
    found = cluster.on_each_read(lowest, partitions, most)
    cluster.watch("choosing anchors", found)
    first: Head = cluster.total(cluster.on_each(head, found), merged, most)
    if not first.n_rows:
        raise SupervisionError("`X`", "no rows", "at least one", "check where they are read from")
    number = wanted(first.n_rows)
    hashes = first.hashes[: rows_for_anchors(number)]
    samples = cluster.on_each(up_to, found, int(hashes[-1]))
    sample: Sample = cluster.total(samples, joined)
    return first.n_rows, anchors_of(sample.X[: len(hashes)], number)


def fit(
    cluster: Cluster,
    partitions: list[Any],
    totals: Totals,
    anchors: FloatArray,
    *,
    n_nearest: int,
    alpha: float,
    tol: float,
    max_iter: int,
    refine: bool,
    resume: State | None = None,
    passed: Callable[[State], None] = lambda state: None,
) -> Fitted:
    """Return the labels of all partitions."""
    tell("tying rows")
    K = len(totals.ids)
    sent = cluster.send(anchors)
    tied = cluster.on_each_read(tie, partitions, sent, n_nearest)
    counted = cluster.on_each(census, tied, K, len(anchors))
    cluster.watch("tying rows", counted)
    total: Census = cluster.total(counted)
    del counted
    used = np.flatnonzero(total.anchor_rows > 0)
    place = np.zeros(len(anchors), dtype=np.intp)
    place[used] = np.arange(len(used))
    masses, shared = total.masses[used], total.shared[np.ix_(used, used)]

    there = total.sizes > 0
    if not there.any():
        raise SupervisionError(
            "`bags`",
            "no row that is in a bag, all ids being missing",
            "at least one bag with rows",
            "check the column of bag ids",
        )
    some = np.flatnonzero(there)
    lower, upper = np.zeros((K, len(totals.classes))), np.zeros((K, len(totals.classes)))
    lower[some], upper[some] = masses_for(totals, some, total.sizes[some])
    several = total.partitions > 1
    spanning = np.full(K, -1)
    spanning[several] = np.arange(int(several.sum()))
    shares = _shares(lower, upper, total.sizes)
    design = cluster.send(Design(masses, place, totals.classes, lower, upper, shares, spanning))
    parts = [cluster.on_one(Part, one, design, number) for number, one in enumerate(tied)]
    del tied
    lengths, across = zip(*cluster.gather(cluster.on_each(_extent, parts)), strict=True)
    cluster.settle(parts)
    bags = SpanningBags(lower[several], upper[several], total.sizes[several])

    tell("propagating", 0.0)
    loop = Loop(cluster, parts, across, bags, shared, masses, alpha, len(totals.classes))
    if resume is not None and not loop.goes_on(resume):
        raise FileError(
            "the checkpoint",
            "the sums of other rows",
            "the checkpoint of a run of these rows",
            "delete it to begin anew, or name another file",
        )
    state, status = loop.run(resume or loop.start(), tol, max_iter, passed)

    tell("decoding")
    point = cluster.send(state.point)
    cuts = Cuts(cluster, loop.holders, _counts(loop, point))
    rounds = [cluster.send(Round(None, cuts(point, [], None)))]
    if refine:
        rounds = _refined(cluster, parts, point, rounds, masses, total.n_rows, cuts)
    tally: Tally = cluster.total(cluster.on_each(tallied, parts, point, rounds))
    return Fitted(
        anchors=anchors[used],
        ids=tuple(one for one, has_rows in zip(totals.ids, there, strict=True) if has_rows),
        sizes=total.sizes[there],
        lower=lower[there],
        upper=upper[there],
        state=state,
        status=status,
        parts=parts,
        point=point,
        rounds=rounds,
        assigned=tally.assigned[there],
        n_tied=tally.n_tied,
        n_spanning=int(several.sum()),
        looked=cuts.looked,
        n_rows=total.n_rows,
        lengths=list(lengths),
        bytes_per_request=loop.bytes_per_request,
    )


def _extent(part: Part) -> tuple[int, bool]:
    """Return the rows of a partition, and whether some are of bags that lie in several."""
    return part.n_rows, part.across.start < part.n_rows


def _shares(lower: FloatArray, upper: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return the bags' shares to start from, and the overall ones for rows in no bag."""
    overall = overall_shares(lower, upper, sizes)
    return np.vstack([shares_near(overall, lower, upper, sizes), overall])


def _counts(loop: Loop, point: Any) -> IntArray:
    """Return how many rows of each bag across partitions get each class."""
    bags = loop.bags
    if not len(bags.sizes):
        return np.zeros(bags.lower.shape, dtype=np.intp)
    sums = loop.cluster.total(loop.cluster.on_each(massed, loop.holders, point)).masses
    masses = nearest_totals(sums, bags.lower, bags.upper, bags.sizes)
    return round_to_counts(masses, bags.sizes, bags.lower, bags.upper)


def _refined(
    cluster: Cluster,
    parts: list[Any],
    point: Any,
    rounds: list[Any],
    masses: FloatArray,
    n_rows: int,
    cuts: Cuts,
) -> list[Any]:
    """Return rounds to labels of the same counts that agree more with neighbours: see `refine`."""
    tell("refining")
    smoothness = -np.inf
    for _ in range(MOST_ROUNDS):
        given = cluster.total(cluster.on_each(voiced, parts, point, rounds)).given
        voices = given / masses[:, None]
        sent = cluster.send(voices)
        own = cluster.total(cluster.on_each(agreed, parts, point, rounds, sent)).own
        risen = own / max(n_rows, 1)
        if risen <= smoothness + 1e-12:
            return rounds[:-1]
        smoothness = risen
        rounds = [*rounds, cluster.send(Round(voices, cuts(point, rounds, sent)))]
    return rounds[:-1]
