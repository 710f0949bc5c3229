"""LP-LLP on anchors in reduced form: the loop's state is as large as the anchors, not the rows.

With `P = (1-α)(I + α Z (Λ - α ZᵀZ)⁻¹ Zᵀ)`, a step of length 1/α from Y down the energy's gradient
ends in `Z B` with `B = (1-α)(Λ - α ZᵀZ)⁻¹ Zᵀ Y`: of Y only ZᵀY is left. So the next soft labels,
Π(Z B), are a function of B and of the bags' multipliers, and the driver needs ZᵀF of them, a few
sums, and nothing else. The iterates are those of `descend_with_momentum`, up to rounding; the loop
ends where a step is short enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from apportion._core.descent import Progress, Status
from apportion._core.dual import meet_totals
from apportion._core.evaluator import DualSums
from apportion._core.propagation import Cholesky
from apportion._dask.cluster import Cluster
from apportion._dask.layout import Layout
from apportion._dask.part import Point
from apportion._dask.spanning import PartitionDual
from apportion._dask.steps import Sums, added, answered
from apportion._utils.typing import FloatArray
from apportion.exceptions import InputError

_TIGHT, _LOOSE, _SHARE = 1e-12, 1e-6, 1e-3
"""How far bags across partitions may be off their masses, relative to their size: a share of the
square of the last step, within bounds."""

_KEPT = 1e-8


@dataclass
class State:
    """All that the loop knows beside the partitions' soft labels: what a checkpoint holds.

    Attributes
    ----------
    here, before : ndarray of shape (n_anchors, n_columns)
        Zᵀ F of the last two points.
    point, point_before : Point
        What these two points follow from.
    energies : list of float
        The energy at every point.
    t : float
        The momentum's clock.
    momentum : float
        How far the next step begins beyond the last point.
    size, leap : float
        ‖F‖ at the start, and the length of the last step.
    slack : float
        How much too low the last energy may be.
    residual : float
        How far the last point's bags are off their masses, relative to their size.
    rows_digest : str
        A digest of rows, bags and partitions, which tells others from these.
    history : list of int
        How often all partitions were asked, iteration by iteration.
    """

    here: FloatArray
    before: FloatArray
    point: Point
    point_before: Point
    energies: list[float]
    t: float
    momentum: float
    size: float
    leap: float
    slack: float
    residual: float
    rows_digest: str
    history: list[int] = field(default_factory=list)


class _Moved(NamedTuple):
    """Where a step led: the point, its future, what soft labels add up to, how far bags are off."""

    point: Point
    sent: Any
    sums: Sums
    residual: float


class Loop:
    """The accelerated descent on partitions.

    Parameters
    ----------
    cluster : Cluster
        Where the partitions are.
    layout : Layout
        The partitions.
    alpha : float
        How far labels travel.
    """

    def __init__(self, cluster: Cluster, layout: Layout, alpha: float) -> None:
        self.cluster, self.bags = cluster, layout.across
        self.holders, self.others = layout.holders, layout.others
        self.alpha, self.rows_digest = alpha, layout.rows_digest
        self.weight = 2.0 if len(layout.classes) == 2 else 1.0
        self._factor = Cholesky(np.diag(layout.masses) - alpha * layout.shared)
        self.asked = 0
        self.bytes_per_request = 0

    def start(self) -> State:
        """Return the state at the soft labels nearest to the bags' shares."""
        nowhere = np.zeros((0, 0))
        moved = self._moved(nowhere, np.zeros(self.bags.lower.shape), _TIGHT)
        size = math.sqrt(max(self._square(moved.sums), 1e-300))
        A, point = moved.sums.anchors, moved.point
        return State(
            here=A,
            before=A,
            point=point,
            point_before=point,
            energies=[self._energy(moved.sums)],
            t=1.0,
            momentum=0.0,
            size=size,
            leap=size,
            slack=0.0,
            residual=moved.residual,
            rows_digest=self.rows_digest,
        )

    def run(
        self, state: State, tol: float, max_iter: int, passed: Callable[[State], None]
    ) -> tuple[State, Status]:
        """Return the state where the descent ends."""
        rounding = 1e-12 * state.size**2
        enough = tol * state.size
        if state.leap <= enough:
            return state, self._converged(state)
        approach = Progress(tol)
        here, before = self.cluster.send(state.point), self.cluster.send(state.point_before)
        while len(state.energies) <= max_iter:
            Y = state.here + state.momentum * (state.here - state.before)
            B = (1.0 - self.alpha) * self._factor.solve(Y)
            asked = self.asked
            tolerance = min(max(_SHARE * (state.leap / state.size) ** 2, _TIGHT), _LOOSE)
            lam = state.point.multipliers
            lam = lam + state.momentum * (lam - state.point_before.multipliers)
            moved = self._moved(B, lam, tolerance, here, before, state.momentum)
            point, sums = moved.point, moved.sums
            state.history.append(self.asked - asked)
            energy, leap = self._energy(sums), math.sqrt(self.weight * sums.leap)
            # What bags are off their masses may lower the energy, by no more than this.
            largest = np.abs(point.multipliers).max(axis=1, initial=0.0)
            slack = 4.0 * tolerance * float(self.bags.sizes @ largest)
            if energy > state.energies[-1] + rounding + max(slack, state.slack):
                if state.momentum == 0.0:
                    # But for rounding, a plain step cannot raise the energy: this is its least.
                    return state, self._converged(state) if leap <= enough else Status.STALLED
                state.energies.append(state.energies[-1])
                state.momentum, state.t = 0.0, 1.0
                continue
            uphill = sums.onward < 0
            t_next = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.t**2))
            state.momentum = 0.0 if uphill else (state.t - 1.0) / t_next
            state.t = 1.0 if uphill else t_next
            state.before, state.here = state.here, sums.anchors
            state.point_before, state.point = state.point, point
            state.energies.append(energy)
            state.slack, state.leap, state.residual = slack, leap, moved.residual
            before, here = here, moved.sent
            passed(state)
            approach(state.leap / state.size)
            if state.leap <= enough:
                return state, self._converged(state)
        return state, Status.MAX_ITER

    def _converged(self, state: State) -> Status:
        return Status.CONVERGED if state.residual <= _KEPT else Status.INFEASIBLE

    def _moved(
        self,
        B: FloatArray,
        lam: FloatArray,
        tolerance: float,
        here: Any = None,
        before: Any = None,
        momentum: float = 0.0,
    ) -> _Moved:
        """Return the point that B leads to, and what soft labels there add up to.

        The first trial multipliers go to all partitions together with B; further ones only to those
        that hold rows of bags across partitions.
        """
        cluster = self.cluster
        rest: list[Any] | None = None
        sent: Any = None
        answer: Any = None
        last: FloatArray | None = None

        def ask(trial: FloatArray) -> DualSums:
            nonlocal rest, sent, answer, last
            if last is not None and np.array_equal(last, trial):
                return DualSums(*answer.bags.of_all(len(trial)))
            last = trial
            self.asked += 1
            sent = cluster.send(Point(B, trial))
            told = sent, here, before, momentum
            holders = cluster.joined(cluster.on_each(answered, self.holders, *told))
            if rest is None:
                rest = cluster.joined(cluster.on_each(answered, self.others, *told))
            answer = added(cluster.gather([*holders, *rest]))
            return DualSums(*answer.bags.of_all(len(trial)))

        lam, residual = meet_totals(
            PartitionDual(ask, lam), *self.bags, max_step=2.0, start=lam, tol=tolerance, max_iter=60
        )
        point = Point(B, lam)
        self.bytes_per_request = _bytes((point, answer.rows, answer.bags.values))
        return _Moved(point, sent, answer.rows, residual)

    def _energy(self, sums: Sums) -> float:
        A = sums.anchors
        shared = np.vdot(A, self._factor.solve(A))
        alpha = self.alpha
        energy = 0.5 * self.weight * alpha * (sums.square - (1.0 - alpha) * float(shared))
        if not math.isfinite(energy + sums.leap):
            raise InputError(
                "the soft labels",
                f"an energy of {energy:g} and a step of {sums.leap:g}",
                "finite numbers",
                "look for features or totals that are far too large, and rescale them",
            )
        return energy

    def _square(self, sums: Sums) -> float:
        return sums.square if self.weight == 1.0 else sums.square + sums.others


def _bytes(value: Any) -> int:
    """Return how many bytes the numbers of an answer take."""
    return sum(map(_bytes, value)) if isinstance(value, tuple) else np.asarray(value).nbytes
