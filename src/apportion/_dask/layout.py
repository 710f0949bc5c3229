"""The rows of all partitions, tied to anchors, and their bags: what a run begins with."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from apportion._dask.anchors import Census, census, tie
from apportion._dask.cluster import Cluster
from apportion._dask.partition import Design, Partition
from apportion._utils.memory import refuse_if_too_large
from apportion._utils.progress import report_progress
from apportion._utils.typing import AnyArray, BoolArray, FloatArray
from apportion.graphs.anchor import AnchorCensus
from apportion.supervision.bags import no_row_in_a_bag, overall_shares, shares_near
from apportion.supervision.totals import Totals, masses_for

_TYING = "tying rows"


@dataclass(frozen=True)
class Layout:
    """Partitions that are ready to answer, and sums over them.

    Attributes
    ----------
    parts : list of futures
        The partitions.
    lengths : tuple of int
        The rows of each.
    holds : tuple of bool
        Which of them hold rows of bags that lie in several.
    strength : float
        How strongly rows are tied to others, on average.
    anchors : ndarray of shape (n_anchors, n_features)
        The anchors that rows are tied to.
    masses, shared : ndarray
        Λ and ZᵀZ.
    census : AnchorCensus
        Sums over rows for every anchor.
    overall : ndarray of shape (n_classes,)
        The class shares of all rows, as far as the totals tell.
    classes : ndarray of shape (n_classes,)
        The classes.
    sizes : ndarray of shape (n_bags,)
        The rows of each bag.
    lower, upper, shares : ndarray of shape (n_bags, n_classes)
        The bags' masses, and the shares to start from.
    several : ndarray of bool, of shape (n_bags,)
        Which bags lie in several partitions.
    rows_digest : str
        A digest of all rows, their bags, and how they are cut into partitions.
    """

    parts: list[Any]
    lengths: tuple[int, ...]
    holds: tuple[bool, ...]
    strength: float
    anchors: FloatArray
    masses: FloatArray
    shared: FloatArray
    census: AnchorCensus
    overall: FloatArray
    classes: AnyArray
    sizes: FloatArray
    lower: FloatArray
    upper: FloatArray
    shares: FloatArray
    several: BoolArray
    rows_digest: str

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return sum(self.lengths)

    @property
    def spanning(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Lower and upper masses and sizes of the bags that lie in several partitions."""
        some = self.several
        return self.lower[some], self.upper[some], self.sizes[some]

    @property
    def holders(self) -> list[Any]:
        """The partitions that hold rows of bags that lie in several."""
        return [part for part, holds in zip(self.parts, self.holds, strict=True) if holds]

    @property
    def others(self) -> list[Any]:
        """The other partitions."""
        return [part for part, holds in zip(self.parts, self.holds, strict=True) if not holds]


def lay_out(
    cluster: Cluster,
    partitions: list[Any],
    totals: Totals,
    anchors: FloatArray,
    n_nearest: int,
) -> Layout:
    """Tie the rows of all partitions to the anchors; rows are read for that and not kept.

    Parameters
    ----------
    cluster : Cluster
        Where the work is done.
    partitions : list of Delayed
        The rows.
    totals : Totals
        The bags' totals.
    anchors : ndarray of shape (n_anchors, n_features)
        The anchors.
    n_nearest : int
        How many of them a row is tied to.
    """
    report_progress(_TYING)
    m = len(anchors)
    refuse_if_too_large(f"A fit with {m} anchors", 3 * 8 * m * m, "fewer anchors")
    tied = cluster.on_each_read(tie, partitions, cluster.send(anchors), n_nearest)
    counted = cluster.on_each(census, tied, len(totals.ids), len(anchors))
    cluster.watch(_TYING, counted)
    total: Census = cluster.total(counted)
    used, position = total.anchors.used_anchors()
    of_anchors = total.anchors.of(used)
    lower, upper = _bag_masses(totals, total.sizes)
    overall = overall_shares(lower, upper, total.sizes)
    shares = shares_near(overall, lower, upper, total.sizes)
    several = total.partitions > 1
    design = Design(
        masses=of_anchors.masses,
        used=position,
        classes=totals.classes,
        lower=lower,
        upper=upper,
        shares=np.vstack([shares, overall]),
        spanning=np.where(several, np.cumsum(several) - 1, -1),
    )
    sent = cluster.send(design)
    parts = [cluster.on_one(Partition, rows, sent, number) for number, rows in enumerate(tied)]
    summaries = cluster.gather(cluster.on_each(_summarized, parts))
    cluster.settle(parts)
    lengths, holds, strengths, digests = zip(*summaries, strict=True)
    return Layout(
        parts=parts,
        lengths=lengths,
        holds=holds,
        strength=sum(strengths) / max(sum(lengths), 1),
        anchors=anchors[used],
        masses=design.masses,
        shared=total.shared[np.ix_(used, used)],
        census=of_anchors,
        overall=overall,
        classes=totals.classes,
        sizes=total.sizes,
        lower=lower,
        upper=upper,
        shares=shares,
        several=several,
        rows_digest=sha256(repr((lengths, digests)).encode()).hexdigest(),
    )


def _bag_masses(totals: Totals, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the masses of all bags; of those without rows, 0."""
    present = np.flatnonzero(sizes > 0)
    if not present.size:
        raise no_row_in_a_bag()
    shape = len(sizes), len(totals.classes)
    lower, upper = np.zeros(shape), np.zeros(shape)
    lower[present], upper[present] = masses_for(totals, present, sizes[present])
    return lower, upper


class _Summary(NamedTuple):
    """A partition's rows, whether some are of bags in several, and how strongly all are tied."""

    n_samples: int
    holds: bool
    strength: float
    digest: int


def _summarized(part: Partition) -> _Summary:
    return _Summary(part.n_samples, len(part.held) > 0, float(part.strengths.sum()), part.digest)
