"""One step of propagation, `F ← P F`, factored once and applied often.

The metric M = diag(max(d, ε mean d)) serves everywhere: propagation solves
`(M + τ(D - W)) F = M Y` with τ = α/(1-α), which is `P = (1-α)(I - αS)⁻¹` when M = D. Raising a tiny
degree to the floor is the same as tying the row to itself, so that nothing divides by zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Literal

import numpy as np
from scipy import linalg, sparse

from apportion._utils.arrays import copied, full, is_tensor, namespace, to_device, to_numpy
from apportion._utils.threads import blockwise, in_threads, total
from apportion._utils.typing import FloatArray
from apportion.exceptions import Advice
from apportion.graphs._products import Affinity, AnchoredProducts, Products
from apportion.graphs._row_blocks import RowPart, row_parts, some_rows
from apportion.graphs.anchor import AnchorGraph
from apportion.graphs.base import Graph

Metric = Literal["degree", "euclidean"]

_TILE = 256
"""Rows and columns of a tile: large enough for BLAS, small enough for the cache of one core."""

_NEAREST_TO_1 = 1e-10
"""A system of condition 2 / (1-α) leaves six digits of P F at this 1-α."""

_FEW_STEPS = 1000
"""Steps that are taken without weighing a dense factor: alpha up to 0.9995."""

_MOST_STEPS = 10_000
"""Steps of one propagation that are still taken: alpha up to 0.99999."""

_FACTORED_ROWS = 4096
"""Up to this many rows, a dense factor is cheaper than more than a few steps."""


def refuse_nearly_1(alpha: float) -> None:
    """Raise for an alpha of which rounding leaves too little of 1 - alpha."""
    if 1.0 - alpha < _NEAREST_TO_1:
        raise ValueError(
            Advice(
                f"alpha={alpha!r} is so near to 1 that rounding would decide. Allowed: alpha up to "
                f"1 - {_NEAREST_TO_1:g}.",
                "{shorter_walk}",
            )
        )


def metric_weights(graph: Products, metric: Metric = "degree", floor: float = 1e-2) -> FloatArray:
    """Return the diagonal of M: the degrees raised to a floor, or the largest for all rows."""
    return _raised(graph.degrees_, metric, floor)


def _raised(degrees: FloatArray, metric: Metric, floor: float) -> FloatArray:
    mean = float(degrees.mean()) if len(degrees) else 0.0
    if mean <= 0:
        return full(len(degrees), 1.0, degrees)
    if metric == "euclidean":
        return full(len(degrees), float(degrees.max()), degrees)
    xp = namespace(degrees)
    weights = xp.maximum(degrees, floor * mean)
    return xp.where(weights > 0, weights, mean)


@dataclass(frozen=True)
class Propagated:
    """P F, or something near it.

    Attributes
    ----------
    value : ndarray of shape (n_samples, n_columns)
        P F, but for an error of at most ‖rest‖ in the norm of the metric.
    rest : ndarray of shape (n_samples, n_columns), or None
        The residual of the system `A value = F`, with P = A⁻¹; None where it is solved.
    """

    value: FloatArray
    rest: FloatArray | None = None

    def extrapolated(self, before: Propagated, momentum: float) -> Propagated:
        """Return P(F + momentum (F - F before)): P is linear, so that nothing is solved."""
        if momentum == 0.0:
            return self
        value = extrapolated(self.value, before.value, momentum)
        if self.rest is None and before.rest is None:
            return Propagated(value)
        none = namespace(value).zeros_like
        rest, rest_before = (none(value) if P.rest is None else P.rest for P in (self, before))
        return Propagated(value, extrapolated(rest, rest_before, momentum))


def extrapolated(F: FloatArray, before: FloatArray, momentum: float) -> FloatArray:
    """Return F + momentum (F - before)."""
    if momentum == 0.0:
        return F
    return blockwise(lambda f, b: f + momentum * (f - b), F, before)


class Propagator(ABC):
    """A linear operator P, self-adjoint in the norm of `weights`; the literal form is a multiple.

    Attributes
    ----------
    weights : ndarray of shape (n_samples,)
        The diagonal of the metric M.
    lipschitz : float
        The largest eigenvalue of I - P: the Lipschitz constant of the energy's gradient.
    residual : float
        The largest relative residual of a solve to full accuracy so far.
    """

    weights: FloatArray
    lipschitz: float
    residual: float = 0.0

    @abstractmethod
    def __call__(self, F: FloatArray) -> FloatArray:
        """Return P F."""

    @property
    def invertible(self) -> bool:
        """Whether `inverse` exists, and no eigenvalue of P is below 0."""
        return type(self).inverse is not Propagator.inverse

    def inverse(self, F: FloatArray) -> FloatArray:
        """Return P⁻¹ F, a new array."""
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def sparsified(self) -> Propagator | None:
        """Return a P whose inverse is nearly the same and costs far less; None if none is known."""
        return None

    def near(
        self, F: FloatArray, step: FloatArray, before: Propagated, accuracy: float
    ) -> Propagated:
        """Return P F up to an error, from P of the point where a step to F began."""
        return Propagated(self(F))

    def sharpened(self, F: FloatArray, propagated: Propagated) -> Propagated:
        """Return P F to full accuracy, from something near it."""
        return propagated if propagated.rest is None else Propagated(self(F))


class Cholesky:
    """`A = L Lᵀ` for a symmetric positive definite A, factored once; A is overwritten.

    The factor is found tile by tile, in threads: the tiles of a column follow from the one on the
    diagonal, and what lies to their right from them. A tile's size and the order of its sums are
    fixed, so that L does not depend on the number of threads, as it does where LAPACK has several.

    Examples
    --------
    >>> import numpy as np
    >>> Cholesky(np.array([[4.0, 2.0], [2.0, 2.0]])).solve(np.array([[2.0], [0.0]]))
    array([[ 1.],
           [-1.]])
    """

    def __init__(self, A: FloatArray) -> None:
        n = len(A)
        for first in range(0, n, _TILE):
            last = min(first + _TILE, n)
            column = slice(first, last)
            A[column, column] = linalg.cholesky(A[column, column], lower=True, check_finite=False)
            below = [slice(i, min(i + _TILE, n)) for i in range(last, n, _TILE)]
            in_threads(partial(_divide_tile, A, column), below)
            in_threads(partial(_update_tiles, A, column), below)
        self._lower = A
        self._on_device: FloatArray | None = None

    def solve(self, B: FloatArray) -> FloatArray:
        """Return A⁻¹ B, where B is: in memory, or on a device."""
        if is_tensor(B):
            if self._on_device is None:
                self._on_device = to_device(np.tril(self._lower), B.device)
            return namespace(B).cholesky_solve(B, self._on_device)
        # The transpose is the upper factor in the order of LAPACK, which needs no copy of it.
        return np.asarray(linalg.cho_solve((self._lower.T, False), B, check_finite=False))


def _divide_tile(A: FloatArray, column: slice, rows: slice) -> None:
    """Finish a tile below the diagonal: L_ij = A_ij L_jj⁻ᵀ."""
    diagonal = A[column, column]
    tile = linalg.solve_triangular(diagonal, A[rows, column].T, lower=True, check_finite=False)
    A[rows, column] = tile.T


def _update_tiles(A: FloatArray, column: slice, rows: slice) -> None:
    """Subtract L_ij L_kjᵀ from the tiles of a row that lie right of a finished column."""
    right = slice(column.stop, rows.stop)
    A[rows, right] -= A[rows, column] @ A[right, column].T


class _DensePropagator(Propagator):
    """P by one Cholesky factor of M + τ(D - W)."""

    def __init__(self, graph: Graph, weights: FloatArray, tau: float) -> None:
        self.weights = weights
        W = graph.affinity_
        system = -tau * (W.toarray() if sparse.issparse(W) else W)
        system[np.diag_indices_from(system)] += weights + tau * graph.degrees_
        self._factor = Cholesky(system)
        self._graph, self._share = graph, (tau / weights)[:, None]
        self.lipschitz = _lipschitz(2.0 * tau * _ratio(graph, weights))

    def __call__(self, F: FloatArray) -> FloatArray:
        """Return P F."""
        return self._factor.solve(self.weights[:, None] * F)

    def inverse(self, F: FloatArray) -> FloatArray:
        """Return P⁻¹ F = F + τ M⁻¹(D - W) F."""
        difference = self._graph.degrees_[:, None] * F - self._graph.affinity_ @ F
        return np.asarray(F + self._share * difference)


# Chebyshev iteration for A x = F with `A = I + τ M⁻¹(D - W)` (Golub & Varga, 1961; Saad, Iterative
# Methods for Sparse Linear Systems, 12.3). The eigenvalues of M⁻¹(D - W) lie between 0 and
# 2 max d_i / m_i (Gershgorin), those of A therefore in [1, 1 + spread] with
# spread = 2 τ max d_i / m_i; `_middle` and `_half` are the center and half-width of this interval.
# k steps shrink the residual of any F by 1 / T_k(middle / half), with the Chebyshev polynomial T_k.
# Three things follow. The number of steps is known from the accuracy, so that no inner
# product has to be taken, as conjugate gradients would. The residual bounds the error of P F,
# because no eigenvalue of A is below 1. And the residual exceeds the error by no more than the
# condition number 1 + spread, by which the tolerance is divided.
class _ChebyshevPropagator(Propagator, ABC):
    """P = A⁻¹ by Chebyshev iteration on `A = I + τ M⁻¹(D - W)`, in parts of the rows."""

    _parts: Sequence[RowPart]

    def __init__(self, graph: Products, weights: FloatArray, tau: float, tol: float) -> None:
        self.weights = weights
        self._diagonal = (1.0 + tau * graph.degrees_ / weights)[:, None]
        spread = 2.0 * tau * _ratio(graph, weights)
        self.lipschitz = _lipschitz(spread)
        self._middle, self._half = 1.0 + 0.5 * spread, 0.5 * spread
        self._tol = tol / (1.0 + spread)

    def __call__(self, F: FloatArray) -> FloatArray:
        """Return P F."""
        return self._sharpen(F, copied(F))

    def inverse(self, F: FloatArray) -> FloatArray:
        """Return P⁻¹ F = A F."""
        xp = namespace(F)
        product, shared = xp.zeros_like(F), self._shared(F)
        in_threads(lambda part: self._subtract_product(part, F, shared, product), self._parts)
        return xp.negative(product, out=product)

    @property
    def most_steps(self) -> int:
        """How many steps P F may take at full accuracy."""
        return self._steps(self._tol)

    def sharpened(self, F: FloatArray, propagated: Propagated) -> Propagated:
        """Return P F to full accuracy, from something near it."""
        if propagated.rest is None:
            return propagated
        return Propagated(self._sharpen(F, copied(propagated.value)))

    def _sharpen(self, F: FloatArray, value: FloatArray) -> FloatArray:
        """Return P F to full accuracy, from a value that is changed into it."""
        rest, shared = copied(F), self._shared(value)
        in_threads(lambda part: self._subtract_product(part, value, shared, rest), self._parts)
        size, left = self._length(F), self._length(rest)
        if left > 0:
            self._solve(value, rest, self._steps(self._tol * size / left))
            self.residual = max(self.residual, self._length(rest) / size if size > 0 else 0.0)
        return value

    def near(
        self, F: FloatArray, step: FloatArray, before: Propagated, accuracy: float
    ) -> Propagated:
        """Return P F up to an error, from P of the point where a step to F began."""
        rest = copied(step) if before.rest is None else blockwise(add, step, before.rest)
        size = self._length(rest)
        if size <= accuracy:
            return Propagated(before.value, rest)
        return self._solve(copied(before.value), rest, self._steps(accuracy / size))

    def _steps(self, shrink: float) -> int:
        """Return how many steps shrink the residual to this share of it."""
        if self._half == 0:
            return 1
        rate = np.arccosh(self._middle / self._half)
        return int(np.ceil(np.arccosh(1.0 / min(max(shrink, 1e-17), 1.0)) / rate))

    def _solve(self, value: FloatArray, rest: FloatArray, steps: int) -> Propagated:
        """Take Chebyshev steps from a value and its residual; both are changed."""
        if self._half == 0:  # A = I: no row is tied to another
            value += rest
            rest[:] = 0.0
            return Propagated(value, rest)
        xp = namespace(rest)

        def advance(
            move: FloatArray,
            shared: FloatArray | None,
            following: FloatArray,
            keep: float,
            forward: float,
            part: RowPart,
        ) -> None:
            rows = part.rows
            value[rows] += move[rows]
            self._subtract_product(part, move, shared, rest)
            xp.multiply(rest[rows], forward, out=following[rows])
            following[rows] += keep * move[rows]

        move = blockwise(lambda r: r / self._middle, rest)
        following = xp.empty_like(rest)
        sigma = self._middle / self._half
        rho = 1.0 / sigma
        for _ in range(steps):
            rho, last = 1.0 / (2.0 * sigma - rho), rho
            forward = 2.0 * rho / self._half
            shared = self._shared(move)
            step = partial(advance, move, shared, following, rho * last, forward)
            in_threads(step, self._parts)
            move, following = following, move
        return Propagated(value, rest)

    def _shared(self, F: FloatArray) -> FloatArray | None:
        """Return what all parts of the rows need of F; nothing if rows are tied one by one."""
        return None

    def _subtract_product(
        self, part: RowPart, F: FloatArray, shared: FloatArray | None, rest: FloatArray
    ) -> None:
        """Subtract A F from the residual, in one part of the rows."""
        rest[part.rows] -= self._diagonal[part.rows] * F[part.rows]
        rest[part.rows] += self._scaled_product(part, F)

    @abstractmethod
    def _scaled_product(self, part: RowPart, F: FloatArray) -> FloatArray:
        """Return τ M⁻¹ W F in one part of the rows."""

    def _length(self, F: FloatArray) -> float:
        square = total(lambda w, f: (w[:, None] * f * f).sum(), self.weights, F)
        return float(np.sqrt(square))


class _SparsePropagator(_ChebyshevPropagator):
    """The same for a sparse graph in memory; parts are blocks of rows, in threads."""

    def __init__(self, graph: Graph, weights: FloatArray, tau: float, tol: float = 1e-10) -> None:
        super().__init__(graph, weights, tau, tol)
        W = sparse.csr_array(self._edges(graph))
        scaled = sparse.csr_array(
            (np.repeat(tau / weights, np.diff(W.indptr)) * W.data, W.indices, W.indptr), W.shape
        )
        self._parts = row_parts(scaled)

    def _edges(self, graph: Graph) -> Affinity:
        """Return the edges between single rows."""
        return graph.affinity_

    def _scaled_product(self, part: RowPart, F: FloatArray) -> FloatArray:
        return part.matrix @ F


class _ProductPropagator(_ChebyshevPropagator):
    """The same for any products with W, all rows at once: the way of a device."""

    def __init__(
        self, graph: Products, weights: FloatArray, tau: float, tol: float = 1e-10
    ) -> None:
        super().__init__(graph, weights, tau, tol)
        self._graph, self._tau = graph, tau
        self._scale = (tau / weights)[:, None]
        self._parts = [RowPart(slice(None), graph)]

    def sparsified(self) -> Propagator | None:
        """Return P on the strongest similarities, in the same metric."""
        graph = self._graph.sparsified()
        return None if graph is None else _ProductPropagator(graph, self.weights, self._tau)

    def _scaled_product(self, part: RowPart, F: FloatArray) -> FloatArray:
        return self._scale * part.matrix.multiply(F)


class _AnchorsInTime(_SparsePropagator):
    """The same where W = Z Λ⁻¹ Zᵀ + edges in time, if any: rows also meet at their anchors."""

    def __init__(
        self, graph: AnchorGraph, weights: FloatArray, tau: float, tol: float = 1e-10
    ) -> None:
        super().__init__(graph, weights, tau, tol)
        self._graph = graph
        self._scale = (tau / weights)[:, None]

    def _edges(self, graph: Graph) -> Affinity:
        assert isinstance(graph, AnchorGraph)
        n = graph.n_samples_
        return sparse.csr_array((n, n)) if graph.time_edges_ is None else graph.time_edges_

    def _shared(self, F: FloatArray) -> FloatArray:
        return self._graph.prototype_labels(F)

    def _subtract_product(
        self, part: RowPart, F: FloatArray, shared: FloatArray | None, rest: FloatArray
    ) -> None:
        super()._subtract_product(part, F, shared, rest)
        through_anchors = some_rows(self._graph.ties_, part.rows) @ shared
        rest[part.rows] += self._scale[part.rows] * through_anchors


class _AnchorPropagator(Propagator):
    """P Y = (1-α)(Y + α Z (Λ - α ZᵀZ)⁻¹ Zᵀ Y), by one Cholesky factor as large as the anchors."""

    def __init__(self, graph: AnchoredProducts, weights: FloatArray, alpha: float) -> None:
        self.weights = weights
        self._graph = graph
        self._alpha = alpha
        system = np.diag(to_numpy(graph.masses_)) - alpha * graph.shared_ties()
        self._factor = Cholesky(system)
        # S = Z Λ⁻¹ Zᵀ has eigenvalues from 0 to 1, and P (1-α) / (1-α s).
        self.lipschitz = alpha

    def __call__(self, F: FloatArray) -> FloatArray:
        """Return P F."""
        solved = self._factor.solve(self._graph.to_anchors(F))
        received = self._graph.from_anchors(self._alpha * solved)
        received += F
        received *= 1.0 - self._alpha
        return received

    def inverse(self, F: FloatArray) -> FloatArray:
        """Return P⁻¹ F = (F - α S F) / (1-α), with S = Z Λ⁻¹ Zᵀ."""
        held = self._graph.prototype_labels(F)
        difference = F - self._alpha * self._graph.from_anchors(held)
        difference /= 1.0 - self._alpha
        return difference


class _TruncatedWalk(Propagator):
    """P = Σ_{j=1..r} α^j S^j / Σ α^j: where a walker lands within r steps; r = 1 is k-NN.

    No step leads from a row to itself, except where its degree is raised to the metric's floor.
    """

    def __init__(self, graph: Products, weights: FloatArray, alpha: float, order: int) -> None:
        self.weights = weights
        self._graph = graph
        self._others = (graph.strengths / weights)[:, None]
        powers = alpha ** np.arange(1, order + 1)
        self._shares = powers / powers.sum()
        # The eigenvalues of S are in this interval; the least of the polynomial on a grid of them.
        eigenvalues = np.linspace(1.0 - 2.0 * _largest(self._others), 1.0, 2001)
        polynomial = np.polyval(np.append(self._shares[::-1], 0.0), eigenvalues)
        self.lipschitz = float(1.0 - polynomial.min())

    def __call__(self, F: FloatArray) -> FloatArray:
        """Return P F."""
        mean = namespace(F).zeros_like(F)
        for share in self._shares:
            F = F + self._others * (self._graph.neighbor_mean(F) - F)
            mean += share * F
        return mean


class _Rescaled(Propagator):
    """P divided by (1-α), as the paper's Algorithm 2 prints it; a row of degree 0 keeps its own."""

    def __init__(self, inner: Propagator, graph: Products, alpha: float) -> None:
        self._inner = inner
        where = namespace(graph.degrees_).where
        self._factor = where(graph.degrees_ > 0, 1.0 / (1.0 - alpha), 1.0)[:, None]
        self.weights = inner.weights
        self.lipschitz = inner.lipschitz

    def __call__(self, F: FloatArray) -> FloatArray:
        """Return (I - αS)⁻¹ F."""
        propagated: FloatArray = self._factor * self._inner(F)
        self.residual = self._inner.residual
        return propagated


def propagator(
    graph: Products,
    alpha: float = 0.5,
    *,
    order: int | None = None,
    metric: Metric = "degree",
    floor: float = 1e-2,
    literal: bool = False,
    accuracy: float = 1e-10,
    weights: FloatArray | None = None,
) -> Propagator:
    """Return the operator P of a fitted graph, ready to be applied many times.

    Parameters
    ----------
    graph : Graph, or its products on a device
        A fitted graph.
    alpha : float in (0, 1)
        How much comes from the neighbors.
    order : int, optional
        Stop the walk after this many steps instead of solving for its limit.
    metric : {"degree", "euclidean"}
        The norm in which P is self-adjoint.
    floor : float
        The smallest weight of a row, relative to the mean degree.
    literal : bool
        Leave out the factor (1-α), as the paper's Algorithm 2 does.
    accuracy : float
        The relative residual of an iterative solve.
    weights : ndarray of shape (n_samples,), optional
        The diagonal of M, in place of that of the metric and the floor; not with `order`.

    Examples
    --------
    >>> import numpy as np
    >>> from apportion.graphs import PrecomputedGraph
    >>> P = propagator(PrecomputedGraph().fit(np.array([[0.0, 1.0], [1.0, 0.0]])), alpha=0.5)
    >>> P(np.array([[1.0], [0.0]])).round(3)
    array([[0.667],
           [0.333]])
    """
    if order is None:
        refuse_nearly_1(alpha)
    own_weights = weights is not None
    weights = metric_weights(graph, metric, floor) if weights is None else weights
    tau = alpha / (1.0 - alpha)
    inner: Propagator
    if order is not None:
        inner = _TruncatedWalk(graph, _raised(graph.strengths, metric, floor), alpha, order)
    elif isinstance(graph, AnchoredProducts) and not own_weights and graph.only_anchors:
        inner = _AnchorPropagator(graph, weights, alpha)
    elif isinstance(graph, AnchorGraph):
        inner = _AnchorsInTime(graph, weights, tau, max(accuracy, 1e-15))
    elif not isinstance(graph, Graph):
        inner = _ProductPropagator(graph, weights, tau, max(accuracy, 1e-15))
        _refuse_many_steps(inner, graph, alpha)
    elif sparse.issparse(graph.affinity_):
        inner = _for_sparse(graph, weights, alpha, max(accuracy, 1e-15))
    else:
        inner = _DensePropagator(graph, weights, tau)
    return _Rescaled(inner, graph, alpha) if literal else inner


def _for_sparse(graph: Graph, weights: FloatArray, alpha: float, accuracy: float) -> Propagator:
    """Return P of a sparse graph: by steps, or by a factor where these would be too many.

    The number of steps grows as 1 / √(1-α), without bound.
    """
    tau = alpha / (1.0 - alpha)
    by_steps = _SparsePropagator(graph, weights, tau, accuracy)
    if by_steps.most_steps <= _FEW_STEPS:
        return by_steps
    if graph.n_samples_ <= _FACTORED_ROWS:
        return _DensePropagator(graph, weights, tau)
    _refuse_many_steps(by_steps, graph, alpha)
    return by_steps


def _refuse_many_steps(inner: _ChebyshevPropagator, graph: Products, alpha: float) -> None:
    """Raise for an alpha at which one propagation takes too many steps."""
    if inner.most_steps > _MOST_STEPS:
        in_memory = isinstance(graph, Graph)
        where = "for a sparse graph of" if in_memory else "on a device, with"
        raise ValueError(
            Advice(
                f"alpha={alpha!r} is too near to 1 {where} {graph.n_samples_:,} rows: one "
                f"propagation would take {inner.most_steps:,} steps. Allowed: "
                f"{_MOST_STEPS:,} steps, which is alpha up to about 0.99999.",
                "{fewer_steps}" if in_memory else "Lower {alpha}, or use {device:cpu}.",
            )
        )


def _lipschitz(spread: float) -> float:
    """Return the largest eigenvalue of I - A⁻¹ for an A with eigenvalues up to 1 + spread."""
    return spread / (1.0 + spread)


def _ratio(graph: Products, weights: FloatArray) -> float:
    """Return max d_i / m_i, which bounds the spectrum of M⁻¹(D - W) by twice itself."""
    return _largest(graph.degrees_ / weights)


def _largest(values: FloatArray) -> float:
    return float(values.max()) if len(values) else 0.0
