"""The paper's graph: Gaussian similarities between all pairs of rows, dense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from apportion._io.archive import LEAST_POSITIVE, Stored
from apportion._utils.hashing import row_hashes
from apportion._utils.memory import refuse_if_too_large
from apportion._utils.threads import in_threads, slices
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray, UIntArray
from apportion.exceptions import counted
from apportion.graphs.base import FAR, Affinity, Graph

_GRID = 2.0 ** np.arange(-4, 7)
_NEIGHBOR = 10
_BLOCK_ROWS = 64


class RBFGraph(Graph):
    """Gaussian similarities `w_ij = exp(-γ ‖x_i - x_j‖²)` between all rows.

    Parameters
    ----------
    gamma : "auto", float or sequence of float, default="auto"
        The width γ. A sequence is a grid to choose from: an estimator takes the γ whose labels
        are smoothest. `"auto"` is the grid 2⁻⁴ … 2⁶ divided by the median squared distance to the
        10th neighbor. Fitted on its own, a graph with a grid takes its middle value.

    Attributes
    ----------
    gamma_ : float
        The γ in use.
    affinity_ : ndarray of shape (n_samples, n_samples)
    degrees_ : ndarray of shape (n_samples,)

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
        """Build the similarities of the rows of X."""
        self._refuse_too_many_rows(len(X))
        squared = _squared_distances(X)
        grid = self._grid(squared)
        return self._fit_one(X, squared, float(grid[len(grid) // 2]))

    @property
    def n_candidates(self) -> int:
        """The number of γ to choose from."""
        return len(_GRID) if isinstance(self.gamma, str) else np.size(self.gamma)

    def candidates(self, X: Any) -> Iterator[Graph]:
        """Yield one fitted graph for each γ of the grid; distances are computed once."""
        self._refuse_too_many_rows(len(X))
        squared = _squared_distances(X)
        for gamma in self._grid(squared):
            yield RBFGraph(self.gamma)._fit_one(X, squared, float(gamma))

    def crowded_rows(self) -> IntArray:
        """Return all rows where all are equal, else none: the γ of the grid copes with the rest."""
        all_equal = len(self._X) > 1 and bool((self._X[0] == self._X).all())
        return np.arange(len(self._X)) if all_equal else np.empty(0, dtype=np.intp)

    def features_of(self, rows: IntArray) -> FloatArray:
        """Return the features of fitted rows."""
        return np.asarray(self._X[rows])

    def hashes(self) -> UIntArray:
        """Return a hash of every row's features."""
        return row_hashes(self._X)

    def affinities(self, X: Any) -> tuple[Affinity, BoolArray]:
        """Return exp(-γ (‖x - x_j‖² - min_j ‖x - x_j‖²)) for new rows x, and the isolated rows."""
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
        """Return a graph for new rows only: `affinities` answers as that of the graph stored."""
        graph = cls(**parameters)
        graph._hold(state["rows"], float(state["gamma"]))
        return graph

    def rows_in_state(self) -> str:
        """Return how many rows are in `state`: all."""
        return counted(len(self._X), "training row")

    def _hold(self, X: Any, gamma: float) -> None:
        """Keep what new rows are compared with."""
        self.gamma_ = gamma
        self._X = X
        self._center = np.median(X, axis=0).astype(np.float64)

    def _fit_one(self, X: Any, squared: FloatArray, gamma: float) -> Self:
        self._hold(X, gamma)
        W = np.empty_like(squared)

        def similar(part: slice) -> None:
            np.exp(np.multiply(squared[part], -gamma, out=W[part]), out=W[part])

        in_threads(similar, slices(len(X), _BLOCK_ROWS))
        np.fill_diagonal(W, 0.0)
        return self._set_affinity(W)

    def _grid(self, squared: FloatArray) -> FloatArray:
        if isinstance(self.gamma, str):
            if self.gamma != "auto":
                raise ValueError(self._message())
            return _GRID / _typical_squared_distance(squared)
        values = [self.gamma] if isinstance(self.gamma, Real) else list(self.gamma)  # type: ignore[arg-type]
        grid = np.array(values, dtype=np.float64)
        if grid.ndim != 1 or not grid.size or not (np.isfinite(grid) & (grid > 0)).all():
            raise ValueError(self._message())
        return grid

    def _message(self) -> str:
        return (
            "The 'gamma' parameter of RBFGraph must be 'auto', a positive number or a sequence of "
            f"positive numbers. Got {self.gamma!r}."
        )

    def _refuse_too_many_rows(self, n_samples: int) -> None:
        refuse_if_too_large(
            f"RBFGraph, a dense graph of {n_samples} rows,",
            5
            * 8
            * n_samples
            * n_samples,  # distances, the best W, another W, its factor, a temporary
            'graph="knn", whose memory grows with n and not with n²',
        )


def _squared_distances(X: FloatArray) -> FloatArray:
    """Return ‖x_i - x_j‖² for all pairs, exactly symmetric."""
    centerd = X.astype(np.float64) - np.median(X, axis=0)
    squared = centerd @ centerd.T
    norms = np.diag(squared).copy()

    def from_inner_products(part: slice) -> None:
        sums = norms[part, None] + norms
        sums -= 2.0 * squared[part]
        np.maximum(sums, 0.0, out=squared[part])

    in_threads(from_inner_products, slices(len(X), _BLOCK_ROWS))
    np.fill_diagonal(squared, 0.0)
    return np.asarray(squared)


def _typical_squared_distance(squared: FloatArray) -> float:
    """Return the median squared distance to the 10th neighbor, or a positive stand-in."""
    k = min(_NEIGHBOR, len(squared) - 1)
    tenth = np.partition(squared, k, axis=1)[:, k]
    median = float(np.median(tenth))
    if median > 0:
        return median
    positive = squared[squared > 0]
    return float(positive.min()) if positive.size else 1.0
