"""The state of one partition on a worker: its rows, and soft labels at any point of the run.

Everything here is a function of a partition and of something small that the driver sends: one
number per anchor and class, one multiplier per bag and class.
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
from apportion._dask.anchors import Tied
from apportion._dask.sums import BagValues, added, dual_sums
from apportion._utils.groups import Groups
from apportion._utils.hashing import ranks_of, scramble
from apportion._utils.threads import BLOCK_ROWS, in_threads, slices
from apportion._utils.typing import AnyArray, FloatArray, IntArray, UIntArray
from apportion.graphs._products import without_own
from apportion.graphs._row_blocks import multiply, some_rows, transposed
from apportion.graphs.anchor import sparse_rows
from apportion.supervision.bags import Bags

Result = TypeVar("Result")

_POINTS = 3
"""Points whose soft labels are remembered: the trial, and the two that momentum needs."""

_ROUNDS = 2
"""Rounds of decoding that are remembered: the last labels, and those they follow from."""


class Design(NamedTuple):
    """What every partition knows of anchors and bags.

    Attributes
    ----------
    masses : ndarray of shape (n_anchors,)
        Λ, of the anchors that are used.
    used : ndarray of shape (n_anchors before,)
        The position of each anchor among those that are used.
    classes : ndarray of shape (n_classes,)
        The classes.
    lower, upper : ndarray of shape (n_bags, n_classes)
        The bags' masses.
    shares : ndarray of shape (n_bags + 1, n_classes)
        The soft labels to start from, for every bag; last, those of rows in no bag.
    spanning : ndarray of shape (n_bags,)
        The position of each bag among those that lie in several partitions; -1 = in one only.
    """

    masses: FloatArray
    used: IntArray
    classes: AnyArray
    lower: FloatArray
    upper: FloatArray
    shares: FloatArray
    spanning: IntArray


class ReducedPoint(NamedTuple):
    """The small arrays that soft labels follow from: F = Π(Z B).

    Attributes
    ----------
    B : ndarray of shape (n_anchors, n_columns)
        The numbers of the anchors; empty at the start, which follows from the bags' shares.
    multipliers : ndarray of shape (n_spanning, n_classes)
        The multipliers of the bags that lie in several partitions.
    """

    B: FloatArray
    multipliers: FloatArray


@dataclass
class PartitionState:
    """The soft labels of a partition at a point.

    Attributes
    ----------
    B, multipliers : ndarray
        The point; multipliers of the bags that are held here.
    F : ndarray of shape (n_samples, n_columns)
        The soft labels.
    open : SimplexResponse
        Rows of bags that lie in several partitions, which respond to the multipliers.
    dual : DualSums
        Sums of their responses.
    measured : tuple, optional
        Where a step began, and the sums over the other rows that belong to it.
    """

    B: FloatArray
    multipliers: FloatArray
    F: FloatArray
    open: SimplexResponse
    dual: DualSums
    measured: Any = None


# The memory of a partition. A request names a point (or a number of rounds) and asks for sums over
# rows. Soft labels of the last few points, and labels of the last few rounds, are remembered, so
# that a request costs one product with Z, or only the bags whose multipliers have changed. Nothing
# depends on what is remembered: every request carries the small arrays from which all of it
# follows, and a worker that has lost a partition, or received it from another one, computes it
# anew. Memory is therefore not pickled, and no worker holds what cannot be lost.
class Partition:
    """A partition, ready to answer.

    Bags that lie in this partition alone are projected and decoded here, from start to end; the
    multipliers they were left at are where the next projection begins. The multipliers of the
    others come from the driver. Their rows stand last, sorted by bag, then by hash.

    Parameters
    ----------
    tied : Tied
        The rows.
    design : Design
        What is known of anchors and bags.
    number : int
        The partition's position among all.

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
        self._forget()

    def _forget(self) -> None:
        self._states: list[PartitionState] = []
        self._rounds: dict[str, dict[int, Any]] = {}
        self._lock = RLock()

    def __getstate__(self) -> dict[str, Any]:
        derived = {"own", "bags", "projection", "quotas", "_lock", "_states", "_rounds"}
        return {name: value for name, value in vars(self).copy().items() if name not in derived}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget()

    def __sizeof__(self) -> int:
        # Dask asks how much would have to travel.
        arrays = self.ties.data, self.ties.indices, self.ties.indptr, self.codes, self.ranks
        return sum(array.nbytes for array in arrays)

    def as_read(self, values: AnyArray) -> AnyArray:
        """Return values of every row in the order in which rows were read."""
        ordered = np.empty_like(values)
        ordered[self.order] = values
        return ordered

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
        ids = np.unique(codes[codes >= 0])
        position = np.full(len(self.design.spanning) + 1, -1)
        position[ids] = np.arange(len(ids))
        return Bags(
            tuple(ids.tolist()),
            self.design.classes,
            position[codes],
            self.design.lower[ids],
            self.design.upper[ids],
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

    def soft_labels(self, point: ReducedPoint, rows: slice = slice(None)) -> FloatArray:
        """Return soft labels at a point, one column per class."""
        return self.projection.from_columns(self.at(point).F[rows])

    def at(self, point: ReducedPoint) -> PartitionState:
        """Return the state at a point, remembered or computed again."""
        with self._lock:
            same = [state for state in self._states if np.array_equal(state.B, point.B)]
            state = same[0] if same else self._state_at(point.B)
            others = [other for other in self._states if other is not state]
            self._states = [*others[-(_POINTS - 1) :], state]
            self._respond(state, point.multipliers[self.held])
            return state

    def _state_at(self, B: FloatArray) -> PartitionState:
        """Return the state at anchor numbers B; rows across partitions have not yet responded."""
        project, n_held, c = self.projection, len(self.held), self.n_classes
        shares = self.design.shares
        F = multiply(self.ties, B) if B.size else project.to_columns(shares[self.codes])
        across = project.from_columns(F[self.across].copy())
        if self.n_samples:
            F[self.alone] = project(F[self.alone])
        dual = DualSums(*(np.zeros((n_held, *shape)) for shape in ((c,), (), (), (c, c))))
        respond = SimplexResponse(across, np.ones(len(across)))
        return PartitionState(B, np.full((n_held, c), np.nan), F, respond, dual)

    def _respond(self, state: PartitionState, multipliers: FloatArray) -> None:
        """Let the rows of bags whose multipliers have changed respond to the new ones."""
        changed = (state.multipliers != multipliers).any(axis=1)
        if not changed.any():
            return
        rows, groups = self.groups.only(changed)
        dual = RowDual(state.open.take(rows), groups).at(multipliers[changed])
        state.F[self.across.start + rows] = self.projection.to_columns(dual.response.labels)
        for field, some in zip(state.dual, dual_sums(dual), strict=True):
            field[changed] = some
        state.multipliers = multipliers

    def remembered(self, name: str, number: int, compute: Callable[[], Result]) -> Result:
        """Return the result of a round, remembered or computed."""
        with self._lock:
            rounds = self._rounds.setdefault(name, {})
            if number not in rounds:
                result = compute()
                for old in sorted(rounds)[: max(len(rounds) - _ROUNDS + 1, 0)]:
                    del rounds[old]
                rounds[number] = result
            remembered: Result = rounds[number]
            return remembered


class StepSums(NamedTuple):
    """Sums over rows that a descent needs of a step.

    Attributes
    ----------
    anchors : ndarray of shape (n_anchors, n_columns)
        Zᵀ F.
    square : float
        ‖F‖².
    gap, onward : float
        ‖F - Y‖² from the point Y where the step began, and ⟨F - Y, F - F before⟩.
    """

    anchors: FloatArray
    square: float
    gap: float
    onward: float


class StepAnswer(NamedTuple):
    """What a partition answers to a trial: sums over all rows, and over bags across partitions."""

    rows: StepSums
    bags: BagValues


def step_sums(
    partition: Partition,
    trial: ReducedPoint,
    here: ReducedPoint | None,
    before: ReducedPoint | None,
    momentum: float,
) -> StepAnswer:
    """Return the sums over rows at a trial, of a step from here + momentum (here - before).

    Rows that do not depend on the multipliers are summed once for every B.
    """
    F = None if here is None else partition.at(here).F
    F_before = None if before is None else partition.at(before).F
    state = partition.at(trial)
    began = here, before, momentum
    if state.measured is None or not _equal(state.measured[0], began):
        alone = _sums(partition, partition.alone, state.F, F, F_before, momentum)
        state.measured = began, alone
    across = _sums(partition, partition.across, state.F, F, F_before, momentum)
    bags = BagValues(partition.held, tuple(field.copy() for field in state.dual))
    return StepAnswer(added([state.measured[1], across]), bags)


def _equal(one: Any, other: Any) -> bool:
    """Return whether two points, or tuples of points and numbers, are equal."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return all(map(_equal, one, other))
    return bool(np.array_equal(one, other))


def _sums(
    partition: Partition,
    rows: slice,
    moved: FloatArray,
    F: FloatArray | None,
    before: FloatArray | None,
    momentum: float,
) -> StepSums:
    def block_sums(block: slice) -> StepSums:
        end, gap, onward = moved[block], 0.0, 0.0
        if F is not None and before is not None:
            ahead = end - F[block]
            away = ahead - momentum * (F[block] - before[block]) if momentum else ahead
            gap, onward = float(np.vdot(away, away)), float(np.vdot(away, ahead))
        anchors = np.asarray(transposed(some_rows(partition.ties, block)) @ end)
        return StepSums(anchors, float(np.vdot(end, end)), gap, onward)

    none = StepSums(np.zeros((partition.ties.shape[1], moved.shape[1])), 0.0, 0.0, 0.0)
    blocks = [
        slice(rows.start + block.start, rows.start + block.stop)
        for block in slices(rows.stop - rows.start, BLOCK_ROWS)
    ]
    return added([none, *in_threads(block_sums, blocks)])
