"""Kernels, evaluated in blocks wherever the n × n matrix is not needed as a whole."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import linalg, sparse
from sklearn.metrics.pairwise import euclidean_distances, pairwise_kernels

from apportion._io.archive import numbers
from apportion._io.model_state import State, StateReader
from apportion._utils.memory import refuse_if_too_large
from apportion._utils.typing import FloatArray, IntArray
from apportion.exceptions import SavedModelError

KERNELS = ("linear", "rbf", "poly", "precomputed")

LIBSVM_ITERATIONS = 200_000
"""libsvm, which may not end otherwise, stops after this many steps, and scikit-learn warns."""

_SAVED_KERNELS = ("linear", "rbf", "laplacian", "poly")

_PIVOT_ROWS = 5000
"""Of more rows, this many are a sample among which pivots are chosen."""

_BLOCK_BYTES = 2**25
"""The largest block of a kernel that is held at a time."""


@dataclass(frozen=True)
class Kernel:
    """A similarity `k(x, z)` of rows.

    Attributes
    ----------
    name : {"linear", "rbf", "laplacian", "poly", "precomputed"} or callable
        `x·z`, `exp(-γ‖x - z‖²)`, `exp(-γ‖x - z‖)`, `(γ x·z + coef0)^degree`, X itself, or a
        function of two arrays of rows that returns the similarities of all pairs. The distance
        of `"laplacian"` is Euclidean; that of scikit-learn's kernel of this name is not.
    gamma, degree, coef0 : float
        The parameters of the kernel.
    """

    name: str | Callable[[Any, Any], Any]
    gamma: float = 1.0
    degree: float = 3.0
    coef0: float = 0.0

    def __call__(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        """Return k(x, z) for all pairs; with a precomputed kernel, X itself."""
        if self.name == "precomputed":
            return X
        if callable(self.name):
            values = np.asarray(self.name(X, Z), dtype=np.float64)
            if values.shape != (len(X), len(Z)):
                raise ValueError(
                    f"The kernel function must return an array of shape {(len(X), len(Z))}, one "
                    f"value per pair of rows. Got shape {values.shape}."
                )
        elif self.name == "laplacian":
            values = np.exp(-self.gamma * euclidean_distances(X, Z))
        else:
            parameters = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
            values = pairwise_kernels(X, Z, metric=self.name, filter_params=True, **parameters)
        if not np.isfinite(values).all():
            i, j = np.argwhere(~np.isfinite(values))[0]
            raise ValueError(
                f"The kernel {self.name!r} of two rows is {values[i, j]}. Allowed: finite numbers. "
                "Hint: rescale the features; a polynomial needs a whole degree."
            )
        return np.asarray(values)

    def diagonal(self, X: FloatArray) -> FloatArray:
        """Return k(x, x) of every row."""
        if self.name == "precomputed":
            return np.diagonal(X).copy()
        side = max(1, int(np.sqrt(_BLOCK_BYTES / 8)))
        blocks = [X[first : first + side] for first in range(0, len(X), side)]
        return np.concatenate([np.diagonal(self(block, block)) for block in blocks])

    @property
    def key(self) -> tuple[Hashable, ...]:
        """What tells it from other kernels; functions need not be hashable."""
        name = id(self.name) if callable(self.name) else self.name
        return name, self.gamma, self.degree, self.coef0

    @property
    def linear(self) -> bool:
        """Whether k(x, z) = x·z."""
        return self.name == "linear"

    def times(self, X: FloatArray, Z: FloatArray, weights: Any) -> FloatArray:
        """Return Σ_j k(x, z_j) weights_j for every row x, block by block."""
        if self.linear:
            return np.asarray(X @ np.asarray(Z.T @ weights))
        total = np.zeros((len(X), weights.shape[1]))
        if len(Z):
            for block in row_blocks(len(X), len(Z)):
                total[block] = self(X[block], Z) @ weights
        return total

    def gram(self, X: FloatArray, instead: str) -> FloatArray:
        """Return all n × n similarities; raise before anything is allocated if they do not fit."""
        if self.name == "precomputed":
            return X
        refuse_if_too_large(f"The kernel of {len(X)} rows", 3 * 8 * len(X) ** 2, instead)
        return self(X, X)


@dataclass(frozen=True)
class Expansion:
    """The functions f_h(x) = Σ_j k(x - m, z_j) β_jh + b_h.

    Attributes
    ----------
    kernel : Kernel
        k.
    rows : ndarray of shape (n_samples, n_features)
        The z_j.
    weights : ndarray of shape (n_samples, n_functions)
        β.
    intercept : ndarray of shape (n_functions,)
        b.
    center : ndarray of shape (n_features,), or None
        m; None where the kernel sees the rows as they are.
    """

    kernel: Kernel
    rows: Any
    weights: FloatArray
    intercept: FloatArray
    center: FloatArray | None = None

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the values of the functions, of shape (n_samples, n_functions)."""
        X = centered(X, self.center)
        return self.kernel.times(X, self.rows, self.weights) + self.intercept

    def compact(self) -> Expansion:
        """Return the same functions without rows of weight 0; linear ones by their coefficients."""
        if self.kernel.linear:
            return replace(self, rows=np.eye(self.rows.shape[1]), weights=self.coefficients.T)
        if self.kernel.name == "precomputed":
            return replace(self, rows=np.empty((len(self.weights), 0)))
        used = np.any(self.weights != 0, axis=1)
        return replace(self, rows=self.rows[used], weights=self.weights[used])

    @property
    def coefficients(self) -> FloatArray:
        """The weights of the features, of shape (n_functions, n_features), if k is linear."""
        return np.asarray((self.rows.T @ self.weights).T)

    @property
    def n_training_rows(self) -> int:
        """How many fitted rows are among the z_j: none if k is linear."""
        return 0 if self.kernel.linear else len(self.rows)

    def state(self) -> State:
        """Return the kernel and the arrays; linear functions by their coefficients, without rows.

        Functions and similarities that Python code defines cannot be saved.
        """
        kernel = self.kernel
        if kernel.name not in _SAVED_KERNELS:
            raise SavedModelError(
                "the model's kernel",
                "precomputed similarities" if kernel.name == "precomputed" else "a function",
                ", ".join(_SAVED_KERNELS),
                "fit the model on features with one of these kernels, or save labels only",
            )
        fields = {
            "kernel": kernel.name,
            "gamma": kernel.gamma,
            "degree": kernel.degree,
            "coef0": kernel.coef0,
            "centered": self.center is not None,
        }
        weights = np.ascontiguousarray(self.coefficients.T) if kernel.linear else self.weights
        arrays = {"weights": weights, "intercept": self.intercept}
        if not kernel.linear:
            arrays["rows"] = self.rows
        if self.center is not None:
            arrays["center"] = self.center
        return State(fields, arrays)

    @classmethod
    def from_state(cls, state: StateReader) -> Self:
        """Return the functions of a file."""
        name = state.take("kernel", str)
        if name not in _SAVED_KERNELS:
            state.refuse(f"the kernel {name[:60]!r}", " or ".join(_SAVED_KERNELS))
        gamma, degree = state.number("gamma", 0.0), state.number("degree", 0.0)
        kernel = Kernel(name, gamma, degree, state.number("coef0"))
        per_row = "features" if kernel.linear else "rows"
        rows: Any = None
        if not kernel.linear:
            form = numbers("rows", "features", size=1e101, may_be_empty=True)
            rows = state.array("rows", form)
        form = numbers(per_row, "functions", size=1e150, may_be_empty=True)
        weights = state.array("weights", form)
        intercept = state.array("intercept", numbers("functions", size=1e150, may_be_empty=True))
        center = None
        if state.take("centered", bool):
            center = state.array("center", numbers("features", size=1e100))
        if kernel.linear:
            rows = sparse.eye_array(len(weights), format="csr")
        return cls(kernel, rows, weights, intercept, center)


def resolve_kernel(kernel: Any, gamma: Any, degree: float, coef0: float, X: FloatArray) -> Kernel:
    """Return the kernel with its γ: `"scale"` is 1 / (sum of the features' variances)."""
    if gamma == "scale":
        variance = float(X.var(axis=0).sum()) if X.size else 0.0
        gamma = 1.0 / variance if variance > 0 else 1.0
    return Kernel(kernel, float(gamma), float(degree), float(coef0))


def center_of(X: FloatArray) -> FloatArray:
    """Return the mean of the rows, accurate even if they are far from 0.

    The first mean has the rounding errors of a sum of n large numbers. It is corrected by the mean
    of the residuals, which are small.

    Examples
    --------
    >>> (center_of(np.array([[1.0], [2.0], [6.0]]) + 2.0**40) - 2.0**40).tolist()
    [3.0]
    """
    rough = X.mean(axis=0, dtype=np.float64)
    return np.asarray(rough + (X - rough).mean(axis=0))


def centered(X: FloatArray, center: FloatArray | None) -> FloatArray:
    """Return X minus the center, in double precision; X itself without a center."""
    return X if center is None else np.asarray(X - center)


class KernelFeatures(NamedTuple):
    """Features Z of the rows with Z Zᵀ ≈ K, from a few pivot rows: Z = k(X, X_pivots) V.

    `unexplained` is the share of the kernel's trace that is left out.
    """

    Z: FloatArray
    pivots: IntArray
    V: FloatArray
    unexplained: float

    def expansion(
        self, kernel: Kernel, X: FloatArray, weights: FloatArray, intercept: FloatArray
    ) -> Expansion:
        """Return the functions z(x)·weights + intercept; X are the rows."""
        rows = np.eye(X.shape[1]) if kernel.linear else X
        of_rows = np.zeros((len(rows), weights.shape[1]))
        of_rows[self.pivots] = self.V @ weights
        return Expansion(kernel, rows, of_rows, intercept)


def kernel_features(kernel: Kernel, X: FloatArray, max_rank: int) -> KernelFeatures:
    """Return features of rows in random order; those of the linear kernel are the rows themselves.

    The pivots are chosen among the first 5,000 rows, by a pivoted Cholesky factorization.
    """
    n, d = X.shape
    if kernel.linear:
        return KernelFeatures(X, np.arange(d), np.eye(d), 0.0)
    if n <= _PIVOT_ROWS or kernel.name == "precomputed":
        return _pivoted(kernel, X, max_rank)
    sample = _pivoted(kernel, X[:_PIVOT_ROWS], max_rank)
    rank = len(sample.pivots)
    refuse_if_too_large(
        f"{rank} kernel features of {n} rows",
        8 * rank * n,
        "a smaller max_rank, or kernel='linear'",
    )
    Z = np.empty((n, rank))
    for block in row_blocks(n, rank):
        Z[block] = kernel(X[block], X[sample.pivots]) @ sample.V
    return sample._replace(Z=Z)


def _pivoted(kernel: Kernel, X: FloatArray, max_rank: int) -> KernelFeatures:
    """Return features from a pivoted Cholesky factorization, K ≈ L Lᵀ and Z = L.

    Each step takes the row that is explained least so far, until all rows are explained or
    `max_rank` is reached; then this is the Nyström approximation on the pivot rows. Only their
    columns of K are evaluated. See S. Fine and K. Scheinberg, "Efficient SVM Training Using
    Low-Rank Kernel Representations", JMLR 2, 2001.
    """
    own = kernel.diagonal(X)
    largest = float(own.max(initial=0.0))
    if largest <= 0:
        raise ValueError(
            f"The kernel {kernel.name!r} has no positive k(x, x), so it is not an inner product. "
            "Give a positive semidefinite kernel: a similarity, not a distance."
        )
    rank = min(len(X), max_rank)
    refuse_if_too_large(
        f"{rank} kernel features of {len(X)} rows",
        4 * 8 * rank * len(X),
        "a smaller max_rank, or kernel='linear'",
    )
    residual = own.copy()
    L = np.zeros((len(X), rank))
    pivots: list[int] = []
    for step in range(rank):
        pivot = int(np.argmax(residual))
        # A residual k(x, x) is negative only by rounding. A pivot no larger than the most negative
        # residual is rounding, too, and dividing by it would only amplify that.
        if residual[pivot] <= max(1e-10 * largest, -float(residual.min())):
            break
        column = X[:, pivot] if kernel.name == "precomputed" else kernel(X, X[[pivot]])[:, 0]
        rest = column - L[:, :step] @ L[pivot, :step]
        rest[pivots], rest[pivot] = 0.0, residual[pivot]  # by definition, but for rounding of K
        L[:, step] = rest / np.sqrt(residual[pivot])
        residual -= L[:, step] ** 2
        residual[pivot] = 0.0
        pivots.append(pivot)
    if residual.min() < -1e-3 * largest:
        raise ValueError(
            f"The kernel {kernel.name!r} is not positive semidefinite: a residual k(x, x) is "
            f"{residual.min():.3g}, the largest k(x, x) {largest:.3g}. Give a kernel that is an "
            "inner product in some space, such as 'rbf'. If it is one, rounding hides it: subtract "
            "the features' means before the kernel sees them."
        )
    Z = L[:, : len(pivots)]
    V = linalg.solve_triangular(Z[pivots], np.eye(len(pivots)), lower=True).T
    unexplained = max(float(residual.sum() / own.sum()), 0.0)
    return KernelFeatures(Z, np.array(pivots, dtype=np.intp), V, unexplained)


def row_blocks(n_samples: int, width: int) -> Iterator[slice]:
    """Yield slices of the rows such that a block of `width` columns is not too large."""
    step = max(1, _BLOCK_BYTES // (8 * max(width, 1)))
    for first in range(0, n_samples, step):
        yield slice(first, first + step)
