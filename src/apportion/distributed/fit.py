"""The fit, stage by stage, on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion._typing import FloatArray, IntArray
from apportion.bags import overall_shares, shares_near
from apportion.decode import round_to_counts
from apportion.distributed import part as on_part
from apportion.distributed.cluster import Cluster
from apportion.distributed.decode import decode
from apportion.distributed.loop import Loop, State
from apportion.distributed.spanning import SpanningBags
from apportion.exceptions import FileError, SupervisionError
from apportion.graph.anchor import anchors_of, rows_for_anchors
from apportion.multipliers import nearest_totals
from apportion.progress import tell
from apportion.refine import MOST_ROUNDS, WEIGHT_OF_SOFT_LABELS
from apportion.solve import Status
from apportion.totals import Totals, masses_for


@dataclass
class Fitted:
    """What a fit leaves behind: futures of partitions, and what they add up to."""

    anchors: FloatArray
    ids: tuple[Any, ...]
    sizes: FloatArray
    lower: FloatArray
    upper: FloatArray
    state: State
    status: Status
    parts: list[Any]
    soft: list[Any]
    labels: list[Any]
    assigned: IntArray
    n_tied: int
    n_spanning: int
    looked: int
    n_rows: int
    lengths: list[int]
    bytes_per_request: int
    bytes_per_question: int


def learn_anchors(
    cluster: Cluster, partitions: list[Any], most_anchors: int, wanted: Callable[[int], int]
) -> tuple[int, FloatArray]:
    """Return the number of rows, and the anchors: centres of the rows of the lowest hashes.

    Which rows these are depends on what rows hold, not on how they are cut into partitions.
    """
    tell("choosing anchors")
    most = rows_for_anchors(most_anchors)
    samples = cluster.on_each_read(on_part.lowest, partitions, most)
    sample: on_part.Sample = cluster.total(samples, on_part.merged, most)
    if not sample.n_rows:
        raise SupervisionError("`X`", "no rows", "at least one", "check where they are read from")
    number = wanted(sample.n_rows)
    return sample.n_rows, anchors_of(sample.X[: rows_for_anchors(number)], number)


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
    tied = cluster.on_each_read(on_part.tie, partitions, sent, n_nearest)
    counted = cluster.on_each(on_part.census, tied, shared=(K, len(anchors)))
    told = cluster.client.gather(cluster.on_each(_sizes, counted))
    sizes_of_parts, lengths = np.stack([one for one, _ in told]), [n for _, n in told]
    total: on_part.Census = cluster.total(counted)
    del counted
    used = np.flatnonzero(total.anchor_rows > 0)
    place = np.zeros(len(anchors), dtype=np.intp)
    place[used] = np.arange(len(used))
    masses, shared = total.masses[used], total.shared[np.ix_(used, used)]

    some = np.flatnonzero(total.sizes > 0)
    if not some.size:
        raise SupervisionError(
            "`bags`",
            "no row that is in a bag, all ids being missing",
            "at least one bag with rows",
            "check the column of bag ids",
        )
    lower, upper = np.zeros((K, len(totals.classes))), np.zeros((K, len(totals.classes)))
    lower[some], upper[some] = masses_for(totals, some, total.sizes[some])
    several = (sizes_of_parts > 0).sum(axis=0) > 1
    spanning = np.full(K, -1)
    spanning[several] = np.arange(int(several.sum()))
    design = on_part.Design(masses, place, totals.classes, lower, upper, spanning)
    parts = cluster.on_each(on_part.ready, tied, shared=(cluster.send(design),))
    bags = SpanningBags(lower[several], upper[several], total.sizes[several])

    tell("propagating", 0.0)
    loop = Loop(cluster, parts, bags, shared, masses, alpha, len(totals.classes))
    shares = _shares(lower, upper, total.sizes)
    if resume is None:
        state, F = loop.start(shares)
        F_before = F
    else:
        if not loop.goes_on(resume):
            raise FileError(
                "the checkpoint",
                "the sums of other rows",
                "the checkpoint of a run of these rows",
                "delete it to begin anew, or name another file",
            )
        state = resume
        F, F_before = loop.soft(state.point, shares), loop.soft(state.point_before, shares)
    state, F, status = loop.run(state, F, F_before, tol, max_iter, passed)

    tell("decoding")
    quotas = _counts(loop, F, bags)
    scored = cluster.on_each(on_part.scored, parts, F, shared=(None, 0.0))
    labels, looked = decode(cluster, parts, scored, quotas)
    if refine:
        labels = _refined(cluster, parts, F, labels, masses, total.n_rows, quotas)
    tally: on_part.Tally = cluster.total(cluster.on_each(on_part.tally, parts, labels))
    keep = total.sizes > 0
    return Fitted(
        anchors=anchors[used],
        ids=tuple(one for one, there in zip(totals.ids, keep, strict=True) if there),
        sizes=total.sizes[keep],
        lower=lower[keep],
        upper=upper[keep],
        state=state,
        status=status,
        parts=parts,
        soft=F,
        labels=labels,
        assigned=np.rint(tally.assigned[keep]).astype(np.intp),
        n_tied=tally.n_tied,
        n_spanning=int(several.sum()),
        looked=looked,
        n_rows=total.n_rows,
        lengths=lengths,
        bytes_per_request=loop.bytes_per_request,
        bytes_per_question=loop.bytes_per_question,
    )


def _sizes(counted: on_part.Census) -> tuple[FloatArray, int]:
    return counted.sizes, counted.n_rows


def _shares(lower: FloatArray, upper: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return the bags' shares to start from, and the overall ones for rows in no bag."""
    overall = overall_shares(lower, upper, sizes)
    return np.vstack([shares_near(overall, lower, upper, sizes), overall])


def _counts(loop: Loop, F: list[Any], bags: SpanningBags) -> IntArray:
    """Return how many rows of each spanning bag get each class."""
    if not len(bags.sizes):
        return np.zeros(bags.lower.shape, dtype=np.intp)
    sums = loop.cluster.total(loop.cluster.on_each(on_part.span_sums, loop.parts, F)).counts
    masses = nearest_totals(sums, bags.lower, bags.upper, bags.sizes)
    return round_to_counts(masses, bags.sizes, bags.lower, bags.upper)


def _refined(
    cluster: Cluster,
    parts: list[Any],
    F: list[Any],
    labels: list[Any],
    masses: FloatArray,
    n_rows: int,
    quotas: IntArray,
) -> list[Any]:
    """Return labels of the same counts that agree more with their neighbours: see `refine`."""
    tell("refining")
    best, smoothness, changed = labels, -np.inf, labels
    for _ in range(MOST_ROUNDS):
        given = cluster.total(cluster.on_each(on_part.voices, parts, changed)).given
        voices = cluster.send(given / masses[:, None])
        heard = cluster.on_each(on_part.listened, parts, changed, shared=(voices,))
        own = cluster.total(cluster.on_each(on_part.agreement, heard, changed)).own
        risen = own / max(n_rows, 1)
        if risen <= smoothness + 1e-12:
            break
        best, smoothness = changed, risen
        shared = (WEIGHT_OF_SOFT_LABELS,)
        scored = cluster.on_each(on_part.scored, parts, F, heard, shared=shared)
        changed, _ = decode(cluster, parts, scored, quotas)
    return best
