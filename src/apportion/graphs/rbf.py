"""The paper's dense graph: Gaussian similarities of all pairs of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Self

import numpy as np

from apportion._io.archive import LEAST_POSITIVE, Stored
from apportion._utils.hashing import row_hashes
from apportion._utils.memory import refuse_if_too_large
from apportion._utils.parameters import parameter_error
from apportion._utils.threads import in_threads, slices
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray, UIntArray
from apportion.exceptions import counted
from apportion.graphs.base import FAR, Affinity, Graph

_GRID = 2.0 ** np.arange(-4, 7)
"""The grid of γ, in units of 1 / (squared distance to the 10th neighbor)."""

_NEIGHBOR = 10
_BLOCK_ROWS = 64
"""Rows that a thread works on at a time: 64 rows of a few thousand numbers stay in cache."""


class RBFGraph(Graph):
    """Gaussian similarities `w_ij = exp(-γ ‖x_i - x_j‖²)` between all rows.

    Parameters
    ----------
    gamma : "auto", float or sequence of float, default="auto"
        The inverse width γ. A sequence is a grid: an estimator takes the γ with the smoothest
        labels. `"auto"` is the grid 2⁻⁴ … 2⁶, divided by the median squared distance to the 10th
        neighbor. A graph that is fitted on its own takes the middle value of the grid.

    Attributes
    ----------
    gamma_ : float
        The γ in use.
    affinity_ : ndarray of shape (n_samples, n_samples)
        The similarities W.
    degrees_ : ndarray of shape (n_samples,)
        The row sums of W.

    Examples
    --------
    >>> import numpy as np
    >>> graph = RBFGraph(gamma=1.0).fit(np.array([[0.0], [1.0], [3.0]]))
    >>> graph.affinity_.round(3)
    array([[0.   , 0.368, 0.   ],
           [0.368, 0.   , 0.018],
           [0.   , 0.018, 0.   ]])
    """

    stored: ClassVar[Mapping[str, Stored]] = {
        "rows": Stored(("rows", "features"), least=-1e100, most=1e100),
        "gamma": Stored((), least=LEAST_POSITIVE),
    }

    def __init__(self, gamma: str | float | Sequence[float] = "auto") -> None:
        self.gamma = gamma

    def fit(self, X: Any) -> Self:
        """Compute the similarities of the rows.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        RBFGraph
            The fitted graph.
        """
        squared = _squared_distances(X)
        grid = self._grid(squared)
        return self._fit_one(X, squared, float(grid[len(grid) // 2]))

    @property
    def n_candidates(self) -> int:
        """The number of γ in the grid."""
        return len(_GRID) if isinstance(self.gamma, str) else np.size(self.gamma)

    def candidates(self, X: Any) -> Iterator[Graph]:
        """Yield one fitted graph per γ of the grid; distances are computed once."""
        squared = _squared_distances(X)
        for gamma in self._grid(squared):
            yield RBFGraph(self.gamma)._fit_one(X, squared, float(gamma))

    def crowded_rows(self) -> IntArray:
        """Return all rows if all are equal, else none: γ adapts to any other distances."""
        all_equal = len(self._X) > 1 and bool((self._X[0] == self._X).all())
        return np.arange(len(self._X)) if all_equal else np.empty(0, dtype=np.intp)

    def features_of(self, rows: IntArray) -> FloatArray:
        """Return the features of fitted rows."""
        return np.asarray(self._X[rows])

    def hashes(self) -> UIntArray:
        """Return a hash of every row's features."""
        return row_hashes(self._X)

    def affinities(self, X: Any) -> tuple[Affinity, BoolArray]:
        """Return exp(-γ (‖x - x_j‖² - min_j ‖x - x_j‖²)) for new rows x, and which are isolated."""
        refuse_if_too_large(
            f"RBFGraph, for {len(X)} new and {len(self._X)} fitted rows,",
            2 * 8 * len(X) * len(self._X),
            "fewer new rows at a time",
        )
        new, fitted = X - self._center, self._X - self._center
        exponents = (new**2).sum(axis=1)[:, None] + (fitted**2).sum(axis=1)
        exponents -= 2.0 * (new @ fitted.T)
        exponents *= self.gamma_
        nearest = exponents.min(axis=1, keepdims=True)
        return np.exp(nearest - exponents), nearest[:, 0] > FAR

    def state(self) -> dict[str, AnyArray]:
        """Return the rows and γ."""
        return {"rows": self._X, "gamma": np.array(self.gamma_)}

    @classmethod
    def from_state(cls, parameters: Mapping[str, Any], state: Mapping[str, AnyArray]) -> Self:
        """Return a graph for new rows only, with the `affinities` of the stored graph."""
        graph = cls(**parameters)
        graph._set_rows(state["rows"], float(state["gamma"]))
        return graph

    def rows_in_state(self) -> str:
        """Return the number of training rows, which are all in `state`."""
        return counted(len(self._X), "training row")

    def _set_rows(self, X: Any, gamma: float) -> None:
        """Store the rows that new rows are compared with."""
        self.gamma_ = gamma
        self._X = X
        self._center = np.median(X, axis=0).astype(np.float64)

    def _fit_one(self, X: Any, squared: FloatArray, gamma: float) -> Self:
        self._set_rows(X, gamma)
        W = np.empty_like(squared)

        def fill(block: slice) -> None:
            np.exp(np.multiply(squared[block], -gamma, out=W[block]), out=W[block])

        in_threads(fill, slices(len(X), _BLOCK_ROWS))
        np.fill_diagonal(W, 0.0)
        return self._set_affinity(W)

    def _grid(self, squared: FloatArray) -> FloatArray:
        if isinstance(self.gamma, str) and self.gamma == "auto":
            return _GRID / _typical_squared_distance(squared)
        grid = np.array([])
        with suppress(TypeError, ValueError):
            gamma: Any = [] if isinstance(self.gamma, str) else self.gamma
            grid = np.atleast_1d(np.array(gamma, dtype=np.float64))
        if grid.ndim != 1 or not grid.size or not (np.isfinite(grid) & (grid > 0)).all():
            allowed = "'auto', a positive number or a sequence of positive numbers"
            raise parameter_error(self, "gamma", allowed)
        return grid


def _squared_distances(X: FloatArray) -> FloatArray:
    """Return ‖x_i - x_j‖² for all pairs, exactly symmetric; raise if they do not fit in memory."""
    n_arrays = 5  # distances, the best W, another W, its factor, a temporary
    refuse_if_too_large(
        f"RBFGraph, a dense graph of {len(X)} rows,",
        n_arrays * 8 * len(X) ** 2,
        'graph="knn", whose memory grows with n and not with n²',
    )
    # Inner products of centered rows lose fewer digits to what all rows have in common.
    centered = X.astype(np.float64) - np.median(X, axis=0)
    squared = centered @ centered.T
    norms = np.diag(squared).copy()

    def from_inner_products(block: slice) -> None:
        sums = norms[block, None] + norms
        sums -= 2.0 * squared[block]
        np.maximum(sums, 0.0, out=squared[block])

    in_threads(from_inner_products, slices(len(X), _BLOCK_ROWS))
    np.fill_diagonal(squared, 0.0)
    return np.asarray(squared)


def _typical_squared_distance(squared: FloatArray) -> float:
    """Return the median squared distance to the 10th neighbor; if it is 0, a positive distance."""
    k = min(_NEIGHBOR, len(squared) - 1)
    tenth = np.partition(squared, k, axis=1)[:, k]
    median = float(np.median(tenth))
    if median > 0:
        return median
    positive = squared[squared > 0]
    return float(positive.min()) if positive.size else 1.0
