"""Newton's method for soft labels: a few projections, where the descent takes dozens.

With `A = P⁻¹`, the energy of soft labels F is the least of `½‖F - G‖² + ½⟨G, (A - I)G⟩` over G,
which is reached at G = P F. Minimized over F in C first, the same function is

    φ(G) = ½‖G - Π_C(G)‖² + ½⟨G, (A - I)G⟩,    ∇φ(G) = A G - Π_C(G):

convex, differentiable, without constraints, and never below the energy of Π_C(G). All norms are
those of the metric M.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from apportion._core.projection import Face, MassProjection
from apportion._core.propagation import Propagated, Propagator
from apportion._utils.arrays import copied, namespace
from apportion._utils.typing import BoolArray, FloatArray

_NEWTON_STEPS = 40
"""Steps of one run; descent goes on after them."""

_CG_STEPS = 100
"""Products with A per Newton step: no more than cost about as much as ten steps of the descent."""

_HALVINGS = 6
"""Halvings of a step before it is taken anew with more damping."""

_FIRST_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-3, 1e-5, 1.0
"""What is added to the eigenvalues of the Hessian, which lie between 0 and the largest of A: a
tenth of the last one after a whole step, ten times as much after less than half a step. At 1,
Newton's step is hardly better than one of the descent."""

_FORCING = 0.1
"""Newton's system is solved up to this share of the gradient, and more accurately near the end."""

_SUFFICIENT_DECREASE = 1e-4
"""The share of the predicted decrease that a step must achieve (Armijo's rule)."""

_ROUNDING = 1e-13
"""Changes of φ below this share of ‖F‖² are rounding."""


@dataclass(frozen=True)
class Refined:
    """Where Newton's method ended.

    Attributes
    ----------
    F : ndarray of shape (n_samples, n_columns)
        Soft labels Π_C(G).
    PF : Propagated
        G and F - A G: something near P F.
    n_projections : int
        Projections that it took.
    converged : bool
        Whether the gradient of φ is as small as was asked.
    """

    F: FloatArray
    PF: Propagated
    n_projections: int
    converged: bool


@dataclass(frozen=True)
class _State:
    """G with all that φ and its gradient follow from."""

    G: FloatArray
    AG: FloatArray
    F: FloatArray
    held: BoolArray
    value: float
    gradient: FloatArray
    steepness: float


# Semismooth Newton for φ (Qi & Sun, 1993), damped as by Levenberg and Marquardt. The derivative of
# the projection is the projection N onto the face of C on which Π_C(G) lies, so that Newton's
# system is (A - N + ε) d = -∇φ. Conjugate gradients take one product with A and N per step.
#
# Why not descent alone? Soft labels that many rows share, such as those of a cluster that few ties
# leave, change by little in a step of the descent, and all the less the fewer totals are exact.
# Newton's steps do not depend on how flat the energy is. And a product with A and N costs far less
# than a step of the descent, whose projection itself takes several Newton steps per bag.
#
# Where a dense graph has few strong similarities, A of these alone takes the place of A in Newton's
# system, whose products then cost next to nothing. φ and its gradient are those of the whole graph,
# so that the end is the same: an approximate Hessian makes steps worse, not wrong.
#
# φ has a kink wherever a soft label reaches 0. Equal rows reach it together, and beyond it the
# model of φ is poor: then damping grows, and the steps become shorter.
class NewtonMethod:
    """Newton's method on φ for a propagation with a known inverse.

    Parameters
    ----------
    P : Propagator
        The propagation; `P.inverse` is A.
    project : MassProjection
        The projection onto C, the nearest one.
    inner : callable
        ⟨·, ·⟩_M.
    """

    def __init__(
        self,
        P: Propagator,
        project: MassProjection,
        inner: Callable[[FloatArray, FloatArray], float],
    ) -> None:
        self._inverse, self._project, self._inner = P.inverse, project, inner
        model = P.sparsified()
        self._model = self._inverse if model is None else model.inverse

    def __call__(self, G: FloatArray, accuracy: float, size: float, most: int) -> Refined:
        """Lower φ from G = P F on, until its gradient is no longer than the accuracy.

        Parameters
        ----------
        G : ndarray of shape (n_samples, n_columns)
            Propagated soft labels.
        accuracy : float
            The length of the gradient at which to stop.
        size : float
            ‖F‖.
        most : int
            The most projections.
        """
        state = self._at(G, self._inverse(G))
        n_projections, damping = 1, _FIRST_DAMPING
        for _ in range(_NEWTON_STEPS):
            if state.steepness <= accuracy or n_projections >= most or damping > _MOST_DAMPING:
                break
            step = self._direction(state, damping, size)
            searched, length, trials = self._searched(state, step, _ROUNDING * size**2)
            n_projections += trials
            state = searched or state
            factor = 0.1 if length == 1.0 else 1.0 if length == 0.5 else 10.0
            damping = max(damping * factor, _LEAST_DAMPING)
        PF = Propagated(state.G, -state.gradient)
        return Refined(state.F, PF, n_projections, state.steepness <= accuracy)

    def _at(self, G: FloatArray, AG: FloatArray) -> _State:
        F = self._project(G)
        away, gradient = G - F, AG - F
        value = self._inner(away, away) + self._inner(G, AG) - self._inner(G, G)
        steepness = math.sqrt(self._inner(gradient, gradient))
        return _State(G, AG, F, self._project.held(), 0.5 * value, gradient, steepness)

    def _direction(self, state: _State, damping: float, size: float) -> FloatArray:
        """Return Newton's step by conjugate gradients."""
        face = Face(self._project, state.F, state.held)
        forcing = min(_FORCING, math.sqrt(state.steepness / size))
        step = namespace(state.G).zeros_like(state.G)
        residual = -state.gradient
        along, square = copied(residual), state.steepness**2
        for _ in range(_CG_STEPS):
            product = self._model(along)
            product -= face(along)
            product += damping * along
            length = square / self._inner(along, product)
            step += length * along
            residual -= length * product
            before, square = square, self._inner(residual, residual)
            if square <= (forcing * state.steepness) ** 2:
                break
            along *= square / before
            along += residual
        return step

    def _searched(
        self, state: _State, step: FloatArray, rounding: float
    ) -> tuple[_State | None, float, int]:
        """Return the state after a step, or None, its length, and how many lengths were tried.

        Near the end, rounding hides the decrease of φ but not that of its gradient.
        """
        product, slope = self._inverse(step), self._inner(state.gradient, step)
        length = 1.0
        for trial in range(1, _HALVINGS + 1):
            tried = self._at(state.G + length * step, state.AG + length * product)
            lower = tried.value <= state.value + _SUFFICIENT_DECREASE * length * slope
            level = tried.value <= state.value + rounding
            if lower or (level and tried.steepness <= 0.5 * state.steepness):
                return tried, length, trial
            length *= 0.5
        return None, length, _HALVINGS
