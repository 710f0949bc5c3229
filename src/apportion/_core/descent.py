"""Projected gradient descent with momentum, restart and one stop rule.

`F ← Π_C(P F)` is projected gradient descent with step 1 on the convex energy
`e(F) = ½⟨F, (I - P)F⟩_M` over the soft labels C that keep every bag's masses. `descend` takes
steps of length 1/L with momentum. A `DescentEvaluator` knows where
soft labels are and how a step is evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import numpy as np

from apportion._core.decode import Quotas
from apportion._core.evaluator import DescentEvaluator, DescentState, Extrapolated, Leap, Point
from apportion._core.projection import Method
from apportion._core.propagation import Metric
from apportion._utils.progress import PROPAGATING, report_progress
from apportion._utils.typing import FloatArray, IntArray
from apportion.exceptions import Advice

_ROUNDING = 1e-11
"""Projections leave 1e-12 over: no step is exact beyond about this share of the soft labels."""

_ENERGY_ROUNDING = 1e-12
"""Energies that differ by less than this share of ‖F‖² are equal."""

_FEASIBLE = 1e-8
"""Totals that are missed by no more than this share of their bag are met."""

_LOOK_EVERY, _QUIET_LOOKS, _HARDLY_ANY = 5, 2, 1e-4
"""Labels have settled when, in two looks in a row, five iterations apart, no more than one label
in 10,000 has changed."""

_FIRST_LEAP, _NEXT_LEAP = 3, 25
"""Iterations before Newton's method is first tried, and between two trials; after trials that lower
the energy less than the iterations before them, twice as many pass. It takes about five projections
to the minimum where the descent takes 40 to 130 iterations. The first was chosen on clusters of
1,000 to 30,000 rows, and on 15 tables in bags of 16 and 64, totals exact and within bounds: from 1
to 5 it makes no difference, 10 costs a tenth more, 100 half as much again to three times."""

_LEAST_STATIONARITY = 1e-12
"""Progress is measured up to here where the tolerance is 0."""


Solver = Literal["accelerated", "plain", "literal"]
Stop = Literal["converged", "settled"]


class Status(Enum):
    """How a run ended; the value says what to do about it."""

    CONVERGED = "converged: a further step changes nothing and all totals are kept"
    SETTLED = "stopped early, as asked: the labels have settled, the soft labels not converged"
    MAX_ITER = Advice(
        "not converged: the iterations ran out.",
        "Raise {max_iter}, or {tol} if the labels are good enough",
    )
    INFEASIBLE = Advice("not converged: the projection does not meet all totals.", "{meet_totals}")
    STALLED = Advice(
        "not converged: rounding stops the descent before the tolerance is reached.",
        "Raise {tol}, or look for rows of very different degree",
    )

    def checked(self, residual: float) -> Status:
        """Return the status of a run whose totals are missed by a residual."""
        success = self in (Status.CONVERGED, Status.SETTLED)
        return Status.INFEASIBLE if success and residual > _FEASIBLE else self


@dataclass(frozen=True)
class Solution:
    """Soft labels and how they were reached.

    Attributes
    ----------
    F : ndarray of shape (n_samples, n_classes)
        Soft labels.
    status : Status
        Whether the run converged, and what to try if not.
    n_iter : int
        Outer iterations: propagations followed by a projection.
    energies : ndarray of shape (n_iter + 1,)
        The energy at the start and after every iteration.
    stationarity : float
        ‖F - Π_C(PF)‖_M / ‖F‖_M, 0 at a minimizer.
    residual : float
        The largest breach of a bag's mass (relative to its size) or of a row's simplex.
    propagation_residual : float
        The largest relative residual of a propagation that was solved iteratively.
    unique : bool or None
        Whether the minimizer is unique; None when this was not tested.
    n_starts : int
        Converged runs that were compared.
    n_probes : int
        Random starts that were tried.
    probes_left : int
        Random starts that were not tried to the end, because the first ones took too long.
    """

    F: FloatArray
    status: Status
    n_iter: int
    energies: FloatArray
    stationarity: float
    residual: float
    propagation_residual: float = 0.0
    unique: bool | None = None
    n_starts: int = 1
    n_probes: int = 0
    probes_left: int = 0

    @property
    def converged(self) -> bool:
        """Whether the run reached its tolerance."""
        return self.status is Status.CONVERGED

    @property
    def success(self) -> bool:
        """Whether the run ended where it was asked to end."""
        return self.status in (Status.CONVERGED, Status.SETTLED)


@dataclass(frozen=True)
class Settings:
    """What to solve and how; see `LPLLP` for the meaning of each."""

    alpha: float = 0.5
    solver: Solver = "accelerated"
    order: int | None = None
    metric: Metric = "degree"
    projection: Method = "nearest"
    prior_weight: float = 0.0
    n_probes: int = 8
    stop: Stop = "converged"
    tol: float = 1e-8
    max_iter: int = 2000


class Progress:
    """Reports how far a run is on its way to the stationarity at which it stops.

    The way is measured in digits, from the first stationarity on; a step back does not count.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = max(threshold, _LEAST_STATIONARITY)
        self._first = 0.0
        self._done = 0.0
        report_progress(PROPAGATING, self._done)

    def __call__(self, stationarity: float) -> None:
        """Report how far the run is that has come to this stationarity."""
        reached = max(stationarity, self._threshold)
        self._first = self._first or reached
        digits = math.log(self._first / self._threshold)
        share = math.log(self._first / reached) / digits if digits > 0 else 1.0
        self._done = max(share, self._done)
        report_progress(PROPAGATING, self._done)


class Settling:
    """Watches the labels that soft labels decode to, every few iterations."""

    def __init__(self, decode: Quotas, soft_labels: Callable[[Any], FloatArray]) -> None:
        self._decode = decode
        self._soft_labels = soft_labels
        self._iteration = 0
        self._quiet = 0
        self._labels: IntArray | None = None

    def __call__(self, state: DescentState[Any, Any]) -> bool:
        """Return whether hardly a label changed between the last looks."""
        self._iteration += 1
        if self._iteration % _LOOK_EVERY:
            return False
        labels = self._decode(self._soft_labels(state.here)).labels
        before, self._labels = self._labels, labels
        if before is None:
            return False
        quiet = np.count_nonzero(labels != before) <= _HARDLY_ANY * len(labels)
        self._quiet = self._quiet + 1 if quiet else 0
        return self._quiet >= _QUIET_LOOKS


def never(state: DescentState[Any, Any]) -> bool:
    """Return that a run has not settled, without a look."""
    return False


def stationarity_threshold(tol: float, lipschitz: float) -> float:
    """Return the stationarity at which to stop: a flat energy moves little in a step.

    Where it is so flat that rounding moves soft labels farther, rounding is where to stop.
    """
    return max(tol * min(lipschitz, 1.0), min(tol, _ROUNDING))


class _Leaps:
    """When to try Newton's method, by how much it has lowered the energy so far."""

    def __init__(self) -> None:
        self._at: float = _FIRST_LEAP
        self._wait = _NEXT_LEAP
        self._last: int | None = None

    def due(self, energies: list[float]) -> bool:
        """Return whether it is to be tried now."""
        return len(energies) - 1 >= self._at

    def lowered(
        self, energies: list[float], leap: Leap[Any] | None, most: int, rounding: float
    ) -> bool:
        """Add the iterations of a trial to the energies, and return whether the energy fell."""
        if leap is None:
            self._at = math.inf
            return False
        here = energies[-1]
        last = len(energies) - 1 - _NEXT_LEAP if self._last is None else self._last
        fell = leap.energy < here or (leap.converged and leap.energy <= here + rounding)
        # The first iterations lower the energy by more than any that follow.
        useful = last < 0 or here - leap.energy >= energies[last] - here
        n_iter = min(leap.n_iter, most)
        energies += [here] * (n_iter - 1) + [min(leap.energy, here)]
        self._wait = _NEXT_LEAP if useful else 2 * self._wait
        self._last = len(energies) - 1
        self._at = len(energies) + self._wait
        return fell


# Accelerated projected gradient descent (FISTA: Beck & Teboulle, 2009), with adaptive restart
# (O'Donoghue & Candès, 2015). Momentum follows from Nesterov's sequence t. It is dropped, t = 1,
# - when it points uphill: ⟨F - Y, F - F before⟩ < 0, the gradient scheme of restart;
# - when the energy rises: the step is then discarded and taken anew without momentum.
# A step without momentum cannot raise the energy but by rounding, or because the point it began at
# was not evaluated to full accuracy. In the latter case the point is sharpened and the step
# repeated; in the former the energy is as low as it gets, and the run has converged or stalled.
#
# Momentum needs dozens of steps, and hundreds where many rows share soft labels and few totals bind
# them, because the energy is flat there. From `_FIRST_LEAP` iterations on, Newton's method is tried
# in between, where the back end has it (see `newton`). It leads to a point of lower energy, from
# which the descent goes on; mostly, this is the minimum.
#
# The run stops where L ‖F - Y‖, the length of the gradient mapping, is small, and where the
# stationarity of F itself, evaluated to full accuracy, confirms it.
def descend(
    evaluator: DescentEvaluator[Point, Extrapolated],
    state: DescentState[Point, Extrapolated],
    tol: float,
    max_iter: int,
    accepted: Callable[[Any], bool | None] = never,
) -> Status:
    """Minimize the energy from a state on; the state is changed into where the descent ends.

    Parameters
    ----------
    evaluator : DescentEvaluator
        The energy and the set of feasible soft labels.
    state : DescentState
        The start, or where an interrupted run was.
    tol : float
        The relative length of a step at which to stop.
    max_iter : int
        The most iterations, those before an interruption included.
    accepted : callable
        Gets the state after every step that is accepted, and returns whether the labels have
        settled.

    Returns
    -------
    Status
        Why the descent ended; whether all totals are met is not looked at.
    """
    threshold = stationarity_threshold(tol, evaluator.lipschitz)
    rounding = _ENERGY_ROUNDING * state.size**2
    progress = Progress(threshold)

    def stationary() -> bool:
        if evaluator.lipschitz * state.gap > threshold * state.size:
            return False
        state.here = evaluator.sharpened(state.here)
        return evaluator.stationarity(state) <= threshold

    leaps = _Leaps()
    if stationary():
        return Status.CONVERGED
    while len(state.energies) <= max_iter:
        if leaps.due(state.energies):
            most = max_iter + 1 - len(state.energies)
            leap = evaluator.leap(state, threshold, most)
            if leaps.lowered(state.energies, leap, most, rounding) and leap is not None:
                state.here, state.t, state.slack = leap.point, 1.0, 0.0
                state.ahead = evaluator.extrapolated(leap.point, leap.point, 0.0)
                settled = accepted(state)
                if leap.converged:
                    reached = evaluator.stationarity(state)
                    progress(reached)
                    if reached <= threshold:
                        return Status.CONVERGED
                if settled:
                    return Status.SETTLED
            continue
        step = evaluator.step(state)
        state.gap = step.gap
        progress(evaluator.lipschitz * step.gap / state.size)
        slack = max(step.slack, state.slack)
        if step.energy > state.energies[-1] + rounding + slack:
            if state.t == 1.0:
                sharper = evaluator.sharpened(state.here)
                if sharper is state.here:
                    converged = evaluator.stationarity(state) <= threshold
                    return Status.CONVERGED if converged else Status.STALLED
                state.here = sharper
            state.energies.append(state.energies[-1])
            state.ahead = evaluator.extrapolated(state.here, state.here, 0.0)
            state.t = 1.0
            continue
        uphill = step.onward < 0
        t_next = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.t**2))
        momentum = 0.0 if uphill else (state.t - 1.0) / t_next
        before, state.here, state.slack = state.here, step.point, step.slack
        state.ahead = evaluator.extrapolated(state.here, before, momentum)
        state.t = 1.0 if uphill else t_next
        state.energies.append(step.energy)
        settled = accepted(state)
        if stationary():
            return Status.CONVERGED
        if settled:
            return Status.SETTLED
    return Status.MAX_ITER
