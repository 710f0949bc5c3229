"""LP-LLP on anchors in reduced form: the loop's state is as large as the anchors, not the rows.

With `P = (1-α)(I + α Z (Λ - α ZᵀZ)⁻¹ Zᵀ)`, a step of length 1/α from Y down the energy's gradient
ends in `Z B` with `B = (1-α)(Λ - α ZᵀZ)⁻¹ Zᵀ Y`: of Y only ZᵀY is left. So the next soft labels,
Π(Z B), are a function of B and of the bags' multipliers, and the driver needs ZᵀF of them, a few
sums, and nothing else. The iterates are those of `descend_with_momentum`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from apportion._typing import FloatArray
from apportion.distributed.cluster import Cluster
from apportion.distributed.part import (
    SpanSums,
    Sums,
    answered,
    began,
    began_whole,
    closed,
    descended,
    descended_whole,
    measured,
)
from apportion.distributed.spanning import SpanningBags
from apportion.progress import tell
from apportion.solve import Status

_TIGHT, _LOOSE, _SHARE = 1e-12, 1e-6, 1e-3
"""How far spanning bags may be off their masses, relative to their size: a share of the square of
the last step, within bounds."""


class Point(NamedTuple):
    """What soft labels follow from: B, empty at the start, and the spanning bags' multipliers."""

    B: FloatArray
    multipliers: FloatArray


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
    masses : ndarray of shape (n_anchors,)
        Λ, which tells other rows from these.
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
    masses: FloatArray
    history: list[int] = field(default_factory=list)


class Loop:
    """The accelerated descent on partitions."""

    def __init__(
        self,
        cluster: Cluster,
        parts: list[Any],
        bags: SpanningBags,
        system: FloatArray,
        masses: FloatArray,
        alpha: float,
        n_classes: int,
    ) -> None:
        self.cluster, self.parts, self.bags = cluster, parts, bags
        self.alpha, self.masses = alpha, masses
        self.weight = 2.0 if n_classes == 2 else 1.0
        self._factor = linalg.cho_factor(
            np.diag(masses) - alpha * system, lower=True, check_finite=False
        )
        self.asked = 0
        self.bytes_per_request = 0
        self.bytes_per_question = 0

    def start(self, shares: FloatArray) -> tuple[State, list[Any]]:
        """Return the state at the soft labels nearest to the bags' shares, and these."""
        lam, F = self._moved(None, shares, np.zeros(self.bags.lower.shape))
        nowhere = [None] * len(self.parts)
        sums = self._measured(F, nowhere, nowhere, 0.0)
        size = math.sqrt(max(self._square(sums), 1e-300))
        point = Point(np.zeros((0, 0)), lam)
        A, energy = sums.anchors, self._energy(sums)
        return State(A, A, point, point, [energy], 1.0, 0.0, size, size, self.masses), F

    def goes_on(self, state: State) -> bool:
        """Return whether a state is one of these rows and bags."""
        same = state.masses.shape == self.masses.shape
        same = same and np.allclose(state.masses, self.masses, rtol=1e-6)
        return bool(same and state.point.multipliers.shape == self.bags.lower.shape)

    def soft(self, point: Point, shares: FloatArray) -> list[Any]:
        """Return the partitions' soft labels at a point that was passed before."""
        return self._moved(point.B if point.B.size else None, shares, point.multipliers)[1]

    def run(
        self,
        state: State,
        F: list[Any],
        F_before: list[Any],
        tol: float,
        max_iter: int,
        passed: Callable[[State], None],
    ) -> tuple[State, list[Any], Status]:
        """Return the state and the soft labels where the descent ends."""
        rounding = 1e-12 * state.size**2
        enough = tol * state.size
        if state.leap <= enough:
            return state, F, Status.CONVERGED
        while len(state.energies) <= max_iter:
            Y = state.here + state.momentum * (state.here - state.before)
            B = (1.0 - self.alpha) * linalg.cho_solve(self._factor, Y, check_finite=False)
            asked = self.asked
            tolerance = min(max(_SHARE * (state.leap / state.size) ** 2, _TIGHT), _LOOSE)
            lam, moved = self._moved(B, None, state.point.multipliers, tolerance)
            sums = self._measured(moved, F, F_before, state.momentum)
            self.bytes_per_request = B.nbytes + sum(np.asarray(one).nbytes for one in sums)
            state.history.append(self.asked - asked)
            energy = self._energy(sums)
            # What bags are off their masses may lower the energy, by no more than this.
            slack = 4.0 * tolerance * float(self.bags.sizes @ np.abs(lam).max(axis=1, initial=0.0))
            if energy > state.energies[-1] + rounding + slack:
                if state.momentum == 0.0:
                    return state, F, self._settled(state, enough)
                state.energies.append(state.energies[-1])
                state.momentum, state.t = 0.0, 1.0
                continue
            uphill = sums.onward < 0
            t_next = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.t**2))
            state.momentum = 0.0 if uphill else (state.t - 1.0) / t_next
            state.t = 1.0 if uphill else t_next
            state.before, state.here = state.here, sums.anchors
            state.point_before, state.point = state.point, Point(B, lam)
            state.energies.append(energy)
            state.leap = math.sqrt(self.weight * sums.leap)
            F_before, F = F, moved
            passed(state)
            self._tell(state.leap, state.size, tol)
            if state.leap <= enough:
                return state, F, Status.CONVERGED
        return state, F, Status.MAX_ITER

    def _moved(
        self,
        B: FloatArray | None,
        shares: FloatArray | None,
        lam: FloatArray,
        tolerance: float = _TIGHT,
    ) -> tuple[FloatArray, list[Any]]:
        """Return the soft labels that B, or the bags' shares, lead to, and their multipliers."""
        cluster, parts = self.cluster, self.parts
        self.asked += 1
        sent = cluster.send(shares if B is None else B)
        if not len(lam):
            work = began_whole if B is None else descended_whole
            return lam, cluster.on_each(work, parts, shared=(sent,))
        halves = cluster.on_each(began if B is None else descended, parts, shared=(sent,))

        def ask(trial: FloatArray) -> SpanSums:
            self.asked += 1
            answers = cluster.on_each(answered, parts, halves, shared=(cluster.send(trial),))
            sums: SpanSums = cluster.total(answers)
            self.bytes_per_question = trial.nbytes + sum(one.nbytes for one in sums)
            return sums

        lam = self.bags.met(ask, lam, tolerance)
        return lam, cluster.on_each(closed, parts, halves, shared=(cluster.send(lam),))

    def _measured(self, moved: list[Any], F: list[Any], before: list[Any], momentum: float) -> Sums:
        answers = self.cluster.on_each(measured, self.parts, moved, F, before, shared=(momentum,))
        sums: Sums = self.cluster.total(answers)
        return sums

    def _energy(self, sums: Sums) -> float:
        A = sums.anchors
        shared = np.vdot(A, linalg.cho_solve(self._factor, A, check_finite=False))
        alpha = self.alpha
        return 0.5 * self.weight * alpha * (sums.square - (1.0 - alpha) * float(shared))

    def _square(self, sums: Sums) -> float:
        return sums.square if self.weight == 1.0 else sums.square + sums.others

    def _settled(self, state: State, enough: float) -> Status:
        return Status.CONVERGED if state.leap <= 100 * enough else Status.STALLED

    def _tell(self, leap: float, size: float, tol: float) -> None:
        way = math.log(1.0 / max(tol, 1e-16))
        done = math.log(size / max(leap, tol * size, 1e-300)) / way
        tell("propagating", min(max(done, 0.0), 1.0))
