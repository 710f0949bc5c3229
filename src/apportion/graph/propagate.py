"""One step of propagation, `F ← P F`, factored once and applied often.

The metric M = diag(max(d, ε mean d)) serves everywhere: propagation solves
`(M + τ(D - W)) F = M Y` with τ = α/(1-α), which is `P = (1-α)(I - αS)⁻¹` when M = D. Raising a tiny
degree to the floor is the same as tying the row to itself, so nothing divides by zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
from scipy import linalg, sparse

from apportion._typing import FloatArray
from apportion.graph.base import Graph

Metric = Literal["degree", "euclidean"]


def metric_weights(graph: Graph, metric: Metric = "degree", floor: float = 1e-2) -> FloatArray:
    """Return the diagonal of M: the degrees raised to a floor, or the largest for all rows."""
    mean = graph.degrees_.mean() if graph.n_rows_ else 0.0
    if mean <= 0:
        return np.ones(graph.n_rows_)
    if metric == "euclidean":
        return np.full(graph.n_rows_, graph.degrees_.max())
    weights = np.maximum(graph.degrees_, floor * mean)
    return np.where(weights > 0, weights, mean)


class Propagator(ABC):
    """A linear operator P, self-adjoint in the norm of `weights`, whose rows sum to `scale`.

    Attributes
    ----------
    weights : ndarray of shape (n_rows,)
        The diagonal of the metric M.
    steepest : float
        The largest eigenvalue of I - P: the Lipschitz constant of the energy's gradient.
    residual : float
        The largest relative residual of a solve so far.
    """

    weights: FloatArray
    steepest: float
    residual: float = 0.0

    @abstractmethod
    def __call__(self, F: FloatArray) -> FloatArray:
        """Return P F."""


class _DensePropagator(Propagator):
    """P by one Cholesky factor of M + τ(D - W)."""

    def __init__(self, graph: Graph, weights: FloatArray, tau: float) -> None:
        self.weights = weights
        system = -tau * graph.affinity_
        system[np.diag_indices_from(system)] += weights + tau * graph.degrees_
        # Symmetric, so the transpose is the same matrix in the order that LAPACK overwrites.
        self._factor = linalg.cho_factor(system.T, lower=True, overwrite_a=True, check_finite=False)
        spread = 2.0 * tau * _ratio(graph, weights)
        self.steepest = spread / (1.0 + spread)

    def __call__(self, F: FloatArray) -> FloatArray:
        """Return P F."""
        right = self.weights[:, None] * F
        return np.asarray(linalg.cho_solve(self._factor, right, check_finite=False))


class _SparsePropagator(Propagator):
    """P by Chebyshev iteration on `F + τ M⁻¹(D - W) F = Y`, whose spectrum is known.

    The number of steps follows from the spectrum, so that P stays one fixed self-adjoint
    polynomial of the walk; the residual is checked after every solve.
    """

    def __init__(self, graph: Graph, weights: FloatArray, tau: float, tol: float = 1e-10) -> None:
        self.weights = weights
        self._tau = tau
        scaled = sparse.diags_array(1.0 / weights) @ sparse.csr_array(graph.affinity_)
        self._neighbours = sparse.csr_array(scaled)
        self._own = (graph.degrees_ / weights)[:, None]
        spread = 2.0 * tau * _ratio(graph, weights)
        self.steepest = spread / (1.0 + spread)
        self._middle, self._half = 1.0 + 0.5 * spread, 0.5 * spread
        ratio = self._middle / self._half if self._half > 0 else np.inf
        # The residual can exceed the error by the condition number, 1 + spread.
        error = tol / (1.0 + spread)
        steps = np.arccosh(2.0 / error) / np.arccosh(ratio) if np.isfinite(ratio) else 1.0
        self._steps = max(1, int(np.ceil(steps)))

    def __call__(self, F: FloatArray) -> FloatArray:
        """Return P F."""
        solution = F.copy()
        rest = -self._tau * self._pull(F)
        move = rest / self._middle
        if self._half == 0:
            return solution + move
        sigma = self._middle / self._half
        rho = 1.0 / sigma
        for _ in range(self._steps):
            solution += move
            rest -= move + self._tau * self._pull(move)
            rho, last = 1.0 / (2.0 * sigma - rho), rho
            move = rho * last * move + (2.0 * rho / self._half) * rest
        size = np.sqrt((self.weights[:, None] * F**2).sum())
        left = np.sqrt((self.weights[:, None] * rest**2).sum())
        self.residual = max(self.residual, float(left / size) if size > 0 else 0.0)
        return solution

    def _pull(self, F: FloatArray) -> FloatArray:
        """M⁻¹(D - W) F."""
        return self._own * F - self._neighbours @ F


class _TruncatedWalk(Propagator):
    """P = Σ_{j=1..r} α^j S^j / Σ α^j: where a walker lands within r steps; r = 1 is k-NN."""

    def __init__(self, graph: Graph, weights: FloatArray, alpha: float, order: int) -> None:
        self.weights = weights
        self._affinity = graph.affinity_
        self._own = (1.0 - graph.degrees_ / weights)[:, None]
        powers = alpha ** np.arange(1, order + 1)
        self._shares = powers / powers.sum()
        places = np.linspace(1.0 - 2.0 * _ratio(graph, weights), 1.0, 2001)
        polynomial = np.polyval(np.append(self._shares[::-1], 0.0), places)
        self.steepest = float(1.0 - polynomial.min())

    def __call__(self, F: FloatArray) -> FloatArray:
        """Return P F."""
        total = np.zeros_like(F)
        for share in self._shares:
            F = self._own * F + (self._affinity @ F) / self.weights[:, None]
            total += share * F
        return total


class _Rescaled(Propagator):
    """P divided by (1-α), as the paper's Algorithm 2 prints it; a row of degree 0 keeps its own."""

    def __init__(self, inner: Propagator, graph: Graph, alpha: float) -> None:
        self._inner = inner
        self._factor = np.where(graph.degrees_ > 0, 1.0 / (1.0 - alpha), 1.0)[:, None]
        self.weights = inner.weights
        self.steepest = inner.steepest

    def __call__(self, F: FloatArray) -> FloatArray:
        """Return (I - αS)⁻¹ F."""
        propagated = self._factor * self._inner(F)
        self.residual = self._inner.residual
        return np.asarray(propagated)


def propagator(
    graph: Graph,
    alpha: float = 0.5,
    *,
    order: int | None = None,
    metric: Metric = "degree",
    floor: float = 1e-2,
    literal: bool = False,
) -> Propagator:
    """Return the operator P of a fitted graph, ready to be applied many times.

    Parameters
    ----------
    graph : Graph
        A fitted graph.
    alpha : float in (0, 1)
        How much comes from the neighbours.
    order : int, optional
        Stop the walk after this many steps instead of solving for its limit.
    metric : {"degree", "euclidean"}
        The norm in which P is self-adjoint.
    floor : float
        The smallest weight of a row, relative to the mean degree.
    literal : bool
        Leave out the factor (1-α), as the paper's Algorithm 2 does.

    Examples
    --------
    >>> import numpy as np
    >>> from apportion.graph import PrecomputedGraph
    >>> P = propagator(PrecomputedGraph().fit(np.array([[0.0, 1.0], [1.0, 0.0]])), alpha=0.5)
    >>> P(np.array([[1.0], [0.0]])).round(3)
    array([[0.667],
           [0.333]])
    """
    weights = metric_weights(graph, metric, floor)
    tau = alpha / (1.0 - alpha)
    inner: Propagator
    if order is not None:
        inner = _TruncatedWalk(graph, weights, alpha, order)
    elif sparse.issparse(graph.affinity_):
        inner = _SparsePropagator(graph, weights, tau)
    else:
        inner = _DensePropagator(graph, weights, tau)
    return _Rescaled(inner, graph, alpha) if literal else inner


def _ratio(graph: Graph, weights: FloatArray) -> float:
    """Return max d_i / m_i, which bounds the spectrum of M⁻¹(D - W) by twice itself."""
    return float((graph.degrees_ / weights).max(initial=0.0))
