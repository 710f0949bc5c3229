"""What a worker holds of one partition, and its soft labels at any point of the run.

Everything here is a function of a partition and of something small that the driver sends: one
number an anchor and class, one multiplier a bag and class. What was found last is remembered, so
that it need not be found again; what a worker loses, another one finds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import Any, NamedTuple, TypeVar

import numpy as np

from apportion._core.decode import Quotas
from apportion._core.dual import RowDual, SimplexResponse
from apportion._core.evaluator import DualSums
from apportion._core.projection import MassProjection
from apportion._dask.bag_sums import dual_sums, no_sums
from apportion._dask.ties import Tied
from apportion._utils.groups import Groups
from apportion._utils.hashing import ranks_of, scramble
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray, UIntArray
from apportion.graphs._row_blocks import multiply
from apportion.graphs.anchor import sparse_rows, without_own
from apportion.supervision.bags import Bags

Found = TypeVar("Found")

_POINTS = 3
_ROUNDS = 2


class Design(NamedTuple):
    """What every partition is told of anchors and bags.

    Attributes
    ----------
    masses : ndarray of shape (n_anchors,)
        Λ, of the anchors that are used.
    used : ndarray of shape (n_anchors before,)
        Where each anchor stands among those that are used.
    classes : ndarray of shape (n_classes,)
        The classes.
    lower, upper : ndarray of shape (n_bags, n_classes)
        The bags' masses.
    shares : ndarray of shape (n_bags + 1, n_classes)
        The soft labels to start from, of every bag; last, those of rows in no bag.
    spanning : ndarray of shape (n_bags,)
        Where each bag stands among those that lie in several partitions; -1 = in one only.
    """

    masses: FloatArray
    used: IntArray
    classes: AnyArray
    lower: FloatArray
    upper: FloatArray
    shares: FloatArray
    spanning: IntArray


class Point(NamedTuple):
    """What soft labels follow from: F = Π(Z B).

    Attributes
    ----------
    B : ndarray of shape (n_anchors, n_columns)
        What the anchors say; empty at the start, which follows from the bags' shares.
    multipliers : ndarray of shape (n_spanning, n_classes)
        The multipliers of the bags that lie in several partitions.
    """

    B: FloatArray
    multipliers: FloatArray


@dataclass
class Stand:
    """The soft labels at a point.

    Attributes
    ----------
    B, multipliers : ndarray
        The point; multipliers of the bags that are held here.
    F : ndarray of shape (n_samples, n_columns)
        The soft labels.
    open : SimplexResponse
        Rows of bags that lie in several partitions, which answer the multipliers.
    bags : DualSums
        What these rows answer, added up.
    measured : tuple, optional
        Where a step began, and what the other rows then add up to.
    """

    B: FloatArray
    multipliers: FloatArray
    F: FloatArray
    open: SimplexResponse
    bags: DualSums
    measured: Any = None


class Part:
    """A partition, ready to answer.

    Bags that lie in this partition alone are projected and decoded here, from start to end; the
    multipliers they were left at are where the next projection begins. Of the others, the driver
    says the multipliers. Their rows stand last, sorted by bag, then by hash.

    Parameters
    ----------
    tied : Tied
        The rows.
    design : Design
        What is known of anchors and bags.
    number : int
        The partition's place among all.

    Attributes
    ----------
    order : ndarray of shape (n_samples,), or slice
        The rows as they were read, in the order in which they stand here.
    alone, across : slice
        Rows of bags that lie here alone, or in no bag; and the others.
    held : ndarray of shape (n_held,)
        The bags of these, as positions among all that lie in several partitions.
    spanning : ndarray of shape (n_samples across,)
        Each row's bag, as such a position.
    groups : Groups
        The same as positions in `held`.
    digest : int
        A digest of the rows and their bags, in whatever order.
    ties : sparse array of shape (n_samples, n_anchors)
        Z: the rows' weights on the anchors.
    """

    def __init__(self, tied: Tied, design: Design, number: int) -> None:
        self.design, self.number = design, number
        spanning = np.append(design.spanning, -1)[tied.codes]
        ranks = ranks_of(tied.hashes)
        across = np.flatnonzero(spanning >= 0)
        across = across[np.lexsort([ranks[across], spanning[across]])]
        self.n_samples, self.n_nearest = tied.weights.shape
        n_alone = self.n_samples - len(across)
        self.alone, self.across = slice(0, n_alone), slice(n_alone, self.n_samples)
        self.order: IntArray | slice = slice(None)
        if len(across):
            self.order = np.concatenate([np.flatnonzero(spanning < 0), across])
        self.codes = tied.codes[self.order]
        self.spanning: IntArray = spanning[across]
        self.held, local = np.unique(self.spanning, return_inverse=True)
        self.groups = Groups(local, len(self.held))
        self.hashes: UIntArray = tied.hashes[across]
        self.digest = int(scramble(tied.hashes ^ scramble(tied.codes.astype(np.uint64))).sum())
        self.ranks = ranks_of(ranks[self.order][self.alone].astype(np.uint64))
        nearest: AnyArray = design.used[tied.nearest[self.order]].astype(np.int32)
        self.ties = sparse_rows(tied.weights[self.order], nearest, len(design.masses))
        self._stands: list[Stand] = []
        self._rounds: dict[str, dict[int, Any]] = {}
        self._lock = RLock()

    def __getstate__(self) -> dict[str, Any]:
        found = {"own", "bags", "projection", "quotas", "_lock"}
        kept = {name: one for name, one in vars(self).copy().items() if name not in found}
        return {**kept, "_stands": [], "_rounds": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = RLock()

    def __sizeof__(self) -> int:
        # Dask asks how much would have to travel.
        arrays = self.ties.data, self.ties.indices, self.ties.indptr, self.codes, self.ranks
        return sum(one.nbytes for one in arrays)

    def back(self, values: AnyArray) -> AnyArray:
        """Return something of every row in the order in which rows were read."""
        placed = np.empty_like(values)
        placed[self.order] = values
        return placed

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.design.classes)

    @cached_property
    def own(self) -> FloatArray:
        """How much each row is tied to itself."""
        shape = self.n_samples, self.n_nearest
        weights = self.ties.data.reshape(shape)
        shares = self.design.masses[self.ties.indices.reshape(shape)]
        return np.einsum("is,is->i", weights, weights / shares)[:, None]

    @property
    def strengths(self) -> FloatArray:
        """How strongly each row is tied to others."""
        return without_own(self.own)[:, 0]

    def components(self, of_anchors: IntArray) -> IntArray:
        """Return each row's connected component, from those of the anchors."""
        return of_anchors[self.ties.indices[self.ties.indptr[:-1]]]

    @cached_property
    def bags(self) -> Bags:
        """The bags that lie in this partition alone, with their rows."""
        codes = self.codes[self.alone]
        mine = np.unique(codes[codes >= 0])
        place = np.full(len(self.design.spanning) + 1, -1)
        place[mine] = np.arange(len(mine))
        return Bags(
            tuple(mine.tolist()),
            self.design.classes,
            place[codes],
            self.design.lower[mine],
            self.design.upper[mine],
            np.full(len(codes), -1),
        )

    @cached_property
    def projection(self) -> MassProjection:
        """Soft labels onto the masses of these bags."""
        return MassProjection(self.bags, np.ones(len(self.bags.codes)))

    @cached_property
    def quotas(self) -> Quotas:
        """Labels that keep the counts of these bags."""
        return Quotas(self.bags, self.ranks)

    def at(self, point: Point) -> Stand:
        """Return the soft labels at a point, remembered or found again."""
        with self._lock:
            return self._at(point)

    def _at(self, point: Point) -> Stand:
        known = [one for one in self._stands if np.array_equal(one.B, point.B)]
        stand = known[0] if known else self._reached(point.B)
        others = [one for one in self._stands if one is not stand]
        self._stands = [*others[-(_POINTS - 1) :], stand]
        multipliers = point.multipliers[self.held]
        changed = (stand.multipliers != multipliers).any(axis=1)
        if changed.any():
            self._answer(stand, multipliers, changed)
        return stand

    def _answer(self, stand: Stand, multipliers: FloatArray, changed: BoolArray) -> None:
        """Let the rows of some bags across partitions answer other multipliers."""
        rows, groups = self.groups.only(changed)
        dual = RowDual(stand.open.take(rows), groups).at(multipliers[changed])
        labels = self.projection.to_columns(dual.response.labels)
        stand.F[self.across.start + rows] = labels
        for field, some in zip(stand.bags, dual_sums(dual), strict=True):
            field[changed] = some
        stand.multipliers = multipliers

    def _reached(self, B: FloatArray) -> Stand:
        project, alone = self.projection, self.alone
        start = self.design.shares
        f = multiply(self.ties, B) if B.size else project.to_columns(start[self.codes])
        came = project.from_columns(f[self.across].copy())
        if self.n_samples:
            f[alone] = project(f[alone])
        n_held, c = len(self.held), self.n_classes
        unknown = np.full((n_held, c), np.nan)
        respond = SimplexResponse(came, np.ones(len(came)))
        return Stand(B, unknown, f, respond, no_sums(n_held, c))

    def remembered(self, what: str, number: int, find: Callable[[], Found]) -> Found:
        """Return what was found in a round before, or find it; the last rounds are remembered."""
        with self._lock:
            rounds = self._rounds.setdefault(what, {})
            if number not in rounds:
                found = find()
                for old in sorted(rounds)[: max(len(rounds) - _ROUNDS + 1, 0)]:
                    del rounds[old]
                rounds[number] = found
            result: Found = rounds[number]
            return result
