"""The energy of LP-LLP on rows of one machine, in memory or on a device, for `descend`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from operator import sub
from typing import NamedTuple

import numpy as np

from apportion._core.descent import Progress, Solution, Status, never, stationarity_threshold
from apportion._core.evaluator import DescentState, Leap, Step
from apportion._core.newton import NewtonMethod
from apportion._core.projection import MassProjection
from apportion._core.propagation import Propagated, Propagator, extrapolated
from apportion._utils.threads import blockwise, total
from apportion._utils.typing import FloatArray

_DRIFT = 1e-12
"""Residuals of P that are passed on from step to step are exact up to this share of ‖F‖."""

_INEXACT = 0.1
"""P of a step's end is computed up to this share of the gradient that the step follows."""

_SHARPER = 0.9
"""Newton's method ends at this share of the stationarity at which the descent does: with the
gradient g of φ at G, ‖F - Π_C(PF)‖ ≤ ‖G - PF‖ = ‖Pg‖ ≤ ‖g‖ for F = Π_C(G)."""


class LocalPoint(NamedTuple):
    """Soft labels, in columns, and what propagation makes of them."""

    F: FloatArray
    PF: Propagated


LocalState = DescentState[LocalPoint, LocalPoint]


class LocalEvaluator:
    """The energy `e(F) = ½⟨F, (I - P)F⟩_M + μ/2 ‖F - F⁰‖²_M` and the set C it is minimized over.

    Soft labels are given as columns: see `MassProjection`. They are in memory, and worked on in
    blocks and threads, or they are on a device, as propagation and projection are.

    Parameters
    ----------
    P : Propagator
        The propagation.
    project : MassProjection
        The projection onto C.
    prior : ndarray of shape (n_samples, n_columns)
        F⁰.
    prior_weight : float
        μ.
    """

    def __init__(
        self, P: Propagator, project: MassProjection, prior: FloatArray, prior_weight: float = 0.0
    ) -> None:
        self.P = P
        self.project = project
        self.prior = prior
        self.mu = prior_weight
        # One column is worked on in place of two whose differences are equal: it counts twice.
        self.weights = P.weights[:, None] * (2.0 if project.one_column else 1.0)
        self.lipschitz = max(P.lipschitz + prior_weight, 1e-12)
        self._advance: FloatArray | None = None
        self._measured: tuple[LocalPoint | None, float] = None, 0.0

    def start(self, F: FloatArray) -> LocalState:
        """Return the state at the projection of soft labels, given as columns."""
        F = self.project(F)
        point = LocalPoint(F, Propagated(self.P(F)))
        return DescentState(point, point, [self.energy(point)], self.norm(F))

    def extrapolated(self, point: LocalPoint, before: LocalPoint, momentum: float) -> LocalPoint:
        """Return point + momentum (point - before); P is linear, so that nothing is solved."""
        PY = point.PF.extrapolated(before.PF, momentum)
        return LocalPoint(extrapolated(point.F, before.F, momentum), PY)

    # Inexact propagation. Exact solves of A PF = F would dominate the time of a step. P of the
    # step's end is found from P of its beginning, whose residual is known without a product, and
    # only up to `_INEXACT` of the length of the gradient mapping: inexact accelerated descent keeps
    # its rate while errors fall with the gradient (Schmidt, Le Roux & Bach, 2011), and the restart
    # of `descend` discards steps that an error leads uphill. A point is sharpened before a run is
    # called converged. What is left over is passed on from step to step, up to rounding; steps
    # below `_DRIFT` therefore begin anew.
    def step(self, state: LocalState) -> Step[LocalPoint]:
        """Return the projected gradient step from `state.ahead`."""
        Y, PY = state.ahead
        F = self.project(self.descended(state.ahead, 1.0 / self.lipschitz))
        self._advance = advance = blockwise(sub, F, Y, out=self._advance)
        gap = self.length(advance)
        accuracy = _INEXACT * self.lipschitz * gap
        if accuracy > _DRIFT * state.size:
            PF = self.P.near(F, advance, PY, accuracy)
        else:
            PF = self.P.sharpened(F, Propagated(PY.value, advance))
        point = LocalPoint(F, PF)
        onward = total(
            lambda w, a, f, b: (w * a * (f - b)).sum(), self.weights, advance, F, state.here.F
        )
        return Step(point, self.energy(point), gap, onward)

    @cached_property
    def _newton(self) -> NewtonMethod | None:
        if not self.P.invertible or self.mu > 0:
            return None
        # Not `self.inner`: in a cycle, the graph would stay on a device that it may fill.
        return NewtonMethod(self.P, self.project, partial(_inner, self.weights))

    def leap(self, state: LocalState, threshold: float, most: int) -> Leap[LocalPoint] | None:
        """Return where Newton's method leads from `state.here`, if P has an inverse.

        A prior makes the energy curved enough for the descent.
        """
        if self._newton is None:
            return None
        start = self.sharpened(state.here).PF.value
        end = self._newton(start, _SHARPER * threshold * state.size, state.size, most)
        point = self.sharpened(LocalPoint(end.F, end.PF))
        return Leap(point, self.energy(point), end.n_projections, end.converged)

    def sharpened(self, point: LocalPoint) -> LocalPoint:
        """Return the point with P F to full accuracy."""
        PF = self.P.sharpened(*point)
        return point if PF is point.PF else LocalPoint(point.F, PF)

    def stationarity(self, state: LocalState) -> float:
        """Return ‖F - Π_C(F - ∇e(F))‖_M / ‖F‖_M, which is 0 at a minimizer and only there."""
        if self._measured[0] is not state.here:  # it is asked for again where a run has converged
            F = state.here.F
            gap = self.length(F - self.project(self.descended(state.here, 1.0)))
            self._measured = state.here, gap / self.norm(F)
        return self._measured[1]

    def descended(self, point: LocalPoint, step: float) -> FloatArray:
        """Return F after a step down the gradient of e in the norm of M, before the projection."""
        F, PF = point.F, point.PF.value
        if self.mu > 0:
            return F - step * (F - PF + self.mu * (F - self.prior))
        return blockwise(lambda f, p: f - step * (f - p), F, PF)

    def energy(self, point: LocalPoint) -> float:
        """Return e(F), but for half the square of what PF leaves over."""
        F, PF = point
        energy = total(lambda w, f, p: (w * f * (f - p)).sum(), self.weights, F, PF.value)
        if PF.rest is not None:
            energy -= self.inner(PF.value, PF.rest)
        if self.mu > 0:
            energy += self.mu * self.length(F - self.prior) ** 2
        return 0.5 * energy

    def inner(self, A: FloatArray, B: FloatArray) -> float:
        """Return ⟨A, B⟩_M of differences between soft labels."""
        return _inner(self.weights, A, B)

    def length(self, step: FloatArray) -> float:
        """Return ‖step‖_M of a difference between soft labels."""
        return float(np.sqrt(self.inner(step, step)))

    def norm(self, F: FloatArray) -> float:
        """Return ‖F‖_M of soft labels, all columns counted."""
        square = self.inner(F, F)
        if self.project.one_column:
            square = 0.5 * (square + self.inner(1.0 - F, 1.0 - F))
        return max(float(np.sqrt(square)), 1e-300)

    def soft_labels(self, point: LocalPoint) -> FloatArray:
        """Return the soft labels of a point, one column per class."""
        return self.project.from_columns(point.F)

    def solution(self, state: LocalState, status: Status) -> Solution:
        """Return the soft labels with everything measured at them."""
        state.here = self.sharpened(state.here)
        residual = self.project.residual(state.here.F)
        return Solution(
            F=self.soft_labels(state.here),
            status=status.checked(residual),
            n_iter=len(state.energies) - 1,
            energies=np.array(state.energies),
            stationarity=self.stationarity(state),
            residual=residual,
            propagation_residual=self.P.residual,
        )


def _inner(weights: FloatArray, A: FloatArray, B: FloatArray) -> float:
    return total(lambda w, a, b: (w * a * b).sum(), weights, A, B)


def descend_plainly(
    evaluator: LocalEvaluator,
    state: LocalState,
    tol: float,
    max_iter: int,
    accepted: Callable[[LocalState], bool] = never,
) -> Status:
    """Repeat the paper's two steps, propagate and project, until nothing changes.

    The step is 1, and shorter only where the energy is too steep for it: with a heavy prior.
    """
    step = 1.0 if evaluator.lipschitz < 2.0 else 1.0 / evaluator.lipschitz
    threshold = stationarity_threshold(tol, evaluator.lipschitz)
    progress = Progress(threshold)
    for _ in range(max_iter):
        F = evaluator.project(evaluator.descended(state.here, step))
        gap, size = evaluator.length(F - state.here.F), evaluator.norm(state.here.F)
        progress(gap / (step * size))
        if gap <= threshold * step * size:
            return Status.CONVERGED
        state.here = LocalPoint(F, Propagated(evaluator.P(F)))
        state.energies.append(evaluator.energy(state.here))
        if accepted(state):
            return Status.SETTLED
    return Status.MAX_ITER
