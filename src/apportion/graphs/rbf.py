"""The paper's dense graph: Gaussian similarities of all pairs of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Self

import numpy as np

from apportion._io.archive import LEAST_POSITIVE, Stored
from apportion._utils.arrays import to_numpy
from apportion._utils.hashing import row_hashes
from apportion._utils.memory import refuse_if_too_large
from apportion._utils.parameters import parameter_error
from apportion._utils.threads import in_threads, slices
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray, UIntArray
from apportion.exceptions import counted
from apportion.graphs._on_device import gaussian_products
from apportion.graphs._products import Affinity, Products
from apportion.graphs.base import FAR, Graph

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
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where similarities are computed and soft labels are propagated; see `KNNGraph`. A GPU holds
        the similarities if they fit, and else computes them anew in every product, in single
        precision: only the features must fit.

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

    _pairs: _PairsOnDevice | None = None

    def __init__(
        self, gamma: str | float | Sequence[float] = "auto", *, device: str = "cpu"
    ) -> None:
        self.gamma = gamma
        self.device = device

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
        pairs = self._pairs_of(X)
        grid = self._grid(pairs)
        return self._fit_one(X, pairs, float(grid[len(grid) // 2]))

    @property
    def n_candidates(self) -> int:
        """The number of γ in the grid."""
        return len(_GRID) if isinstance(self.gamma, str) else np.size(self.gamma)

    def candidates(self, X: Any) -> Iterator[Graph]:
        """Yield one fitted graph per γ of the grid; distances are computed once."""
        pairs = self._pairs_of(X)
        for gamma in self._grid(pairs):
            yield RBFGraph(self.gamma, device=self.device)._fit_one(X, pairs, float(gamma))

    def _pairs_of(self, X: Any) -> _Pairs | _PairsOnDevice:
        self._set_device()
        return _Pairs(X) if self._device is None else _PairsOnDevice(X, self._device)

    def products(self) -> Products:
        """Return what multiplies soft labels where they are worked on."""
        if self._device is None or self._pairs is None or self._edges is not None:
            return super().products()
        return self._pairs.products(self.gamma_)

    def leave_device(self) -> None:
        """Free the memory of the device: similarities are computed again if they are needed."""
        super().leave_device()
        if self._pairs is not None:
            self._pairs.forget()

    def device_bytes(self, n_rows: int, n_features: int, n_classes: int) -> int:
        """Return about how many bytes of a device so many rows take, if nothing else is held."""
        return n_rows * 20 * n_features + super().device_bytes(n_rows, n_features, n_classes)

    def multiply(self, F: FloatArray) -> FloatArray:
        """Return W F; a device holds W no longer than before."""
        held = self._pairs is None or self._pairs.holds(self.gamma_)
        product = super().multiply(F)
        if not held:
            self.leave_device()
        return product

    def similar_rows(self, rows: IntArray) -> Affinity:
        """Return W[rows], the similarities of some rows to all rows."""
        if self._affinity is not None or self._edges is not None:
            return super().similar_rows(rows)
        W = np.exp(-self.gamma_ * np.maximum(self._squares_to(self._X[rows]), 0.0))
        W[np.arange(len(rows)), rows] = 0.0
        return W

    def _fetched(self) -> Affinity:
        return _Pairs(self._X).similarities(self.gamma_)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_pairs": None}

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
        exponents = self._squares_to(X)
        exponents *= self.gamma_
        nearest = exponents.min(axis=1, keepdims=True)
        return np.exp(nearest - exponents), nearest[:, 0] > FAR

    def _squares_to(self, X: FloatArray) -> FloatArray:
        """Return ‖x - x_j‖² for rows x and all fitted rows; rounding may take it below 0."""
        new, fitted = X - self._center, self._X - self._center
        squares = (new**2).sum(axis=1)[:, None] + (fitted**2).sum(axis=1)
        squares -= 2.0 * (new @ fitted.T)
        return np.asarray(squares)

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

    def _fit_one(self, X: Any, pairs: _Pairs | _PairsOnDevice, gamma: float) -> Self:
        self._forget()
        self._set_rows(X, gamma)
        if isinstance(pairs, _Pairs):
            self._pairs = None
            return self._set_affinity(pairs.similarities(gamma))
        self._device, self._pairs = pairs.device, pairs
        self.degrees_ = to_numpy(self.products().degrees_)
        return self

    def _grid(self, pairs: _Pairs | _PairsOnDevice) -> FloatArray:
        if isinstance(self.gamma, str) and self.gamma == "auto":
            return _GRID / pairs.typical_square()
        grid = np.array([])
        with suppress(TypeError, ValueError):
            gamma: Any = [] if isinstance(self.gamma, str) else self.gamma
            grid = np.atleast_1d(np.array(gamma, dtype=np.float64))
        if grid.ndim != 1 or not grid.size or not (np.isfinite(grid) & (grid > 0)).all():
            allowed = "'auto', a positive number or a sequence of positive numbers"
            raise parameter_error(self, "gamma", allowed)
        return grid


class _Pairs:
    """All pairs of rows in memory: their squared distances, and similarities from them."""

    def __init__(self, X: FloatArray) -> None:
        self._squares = _squared_distances(X)

    def similarities(self, gamma: float) -> FloatArray:
        """Return the similarities for one γ."""
        squared = self._squares
        W = np.empty_like(squared)

        def fill(block: slice) -> None:
            np.exp(np.multiply(squared[block], -gamma, out=W[block]), out=W[block])

        in_threads(fill, slices(len(W), _BLOCK_ROWS))
        np.fill_diagonal(W, 0.0)
        return W

    def typical_square(self) -> float:
        """Return the median squared distance to the 10th neighbor; if it is 0, a positive one."""
        squared = self._squares
        k = min(_NEIGHBOR, len(squared) - 1)
        median = float(np.median(np.partition(squared, k, axis=1)[:, k]))
        if median > 0:
            return median
        positive = squared[squared > 0]
        return float(positive.min()) if positive.size else 1.0


class _PairsOnDevice:
    """All pairs of rows on a device, which holds the similarities of one γ at a time."""

    def __init__(self, X: FloatArray, device: Any) -> None:
        self._X, self.device = X, device
        self._held: tuple[float, Products] | None = None

    def products(self, gamma: float) -> Products:
        """Return the similarities for one γ; those for another γ are dropped."""
        if self._held is None or self._held[0] != gamma:
            self.forget()
            self._held = gamma, gaussian_products(self._X, gamma, self.device)
        return self._held[1]

    def holds(self, gamma: float) -> bool:
        """Return whether the similarities for a γ are held."""
        return self._held is not None and self._held[0] == gamma

    def forget(self) -> None:
        """Drop the similarities that are held."""
        self._held = None

    def typical_square(self) -> float:
        """Return the median squared distance to the 10th neighbor; if it is 0, a positive one."""
        from apportion.graphs._device_search import DeviceSearch

        k = min(_NEIGHBOR, len(self._X) - 1)
        if not k:
            return 1.0
        distances = to_numpy(DeviceSearch(self._X, self.device).lists(k)[1][:, -1])
        median = float(np.median(distances**2))
        if median > 0:
            return median
        different = np.unique(self._X, axis=0)
        if len(different) == 1:
            return 1.0
        return float(to_numpy(DeviceSearch(different, self.device).lists(1)[1]).min()) ** 2


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
