"""The sparse graph: every row and its nearest neighbours, on scales tuned to each row."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from apportion._typing import BoolArray, FloatArray, IntArray
from apportion.graph.base import FAR, Affinity, Graph
from apportion.hashing import hash_ranks

_BLOCK_CELLS = 2**24


class KNNGraph(Graph):
    """Self-tuned similarities `w_ij = exp(-d_ij² / (σ_i σ_j))` between nearest neighbours.

    σ_i is the distance of row i to its k-th neighbour; i and j are tied when either is among the
    other's k nearest. Rescaling all features by one factor changes nothing.

    Parameters
    ----------
    n_neighbors : int, default=10
        The number of neighbours k; all other rows when there are fewer.

    Attributes
    ----------
    affinity_ : sparse array of shape (n_rows, n_rows)
    degrees_ : ndarray of shape (n_rows,)
    scales_ : ndarray of shape (n_rows,)
        σ. Where more than k rows are equal, their σ would be 0 and the smallest positive
        distance found anywhere stands in for it.

    Examples
    --------
    >>> import numpy as np
    >>> graph = KNNGraph(n_neighbors=1).fit(np.array([[0.0], [1.0], [3.0]]))
    >>> graph.affinity_.toarray().round(3)
    array([[0.   , 0.368, 0.   ],
           [0.368, 0.   , 0.135],
           [0.   , 0.135, 0.   ]])
    """

    scales_: FloatArray
    _order: IntArray
    _X: FloatArray
    _search: NearestNeighbors
    _smallest: float
    _crowded: IntArray

    def __init__(self, n_neighbors: int = 10) -> None:
        self.n_neighbors = n_neighbors

    def fit(self, X: Any) -> Self:
        """Build the similarities of the rows of X."""
        if not isinstance(self.n_neighbors, Integral) or self.n_neighbors < 1:
            raise ValueError(
                "The 'n_neighbors' parameter of KNNGraph must be an int of at least 1. "
                f"Got {self.n_neighbors!r}."
            )
        n = len(X)
        # Searched in the order of the feature hashes, equally near neighbours are chosen alike
        # however the input is ordered.
        self._order = np.argsort(hash_ranks(X, n))
        self._X = X[self._order]
        k = min(self.n_neighbors, n - 1)
        if k == 0:
            self.scales_, self._crowded = np.ones(n), np.empty(0, dtype=np.intp)
            return self._set_affinity(sparse.csr_array((n, n)))
        self._search = NearestNeighbors(n_neighbors=k).fit(self._X)
        neighbours = self._search.kneighbors(return_distance=False)
        distances = _distances(self._X, self._X, neighbours)
        scales = distances.max(axis=1)
        positive = distances[distances > 0]
        self._smallest = float(positive.min()) if positive.size else 1.0
        self._crowded = np.sort(self._order[scales == 0])
        scales = np.where(scales > 0, scales, self._smallest)
        self.scales_ = np.empty(n)
        self.scales_[self._order] = scales

        weights = np.exp(-(distances**2) / (scales[:, None] * scales[neighbours]))
        rows = np.repeat(self._order, k)
        columns = self._order[neighbours.ravel()]
        W = sparse.csr_array((weights.ravel(), (rows, columns)), shape=(n, n))
        W = W.maximum(W.T).tocsr()
        W.eliminate_zeros()
        return self._set_affinity(W)

    def crowded_rows(self) -> IntArray:
        """Return the rows all of whose k nearest neighbours equal them."""
        return self._crowded

    def affinities(self, X: Any) -> tuple[Affinity, BoolArray]:
        """Return the similarities of new rows to their k nearest fitted rows, and who is far."""
        n, n_new = len(self._X), len(X)
        if n == 1:
            return sparse.csr_array(np.ones((n_new, 1))), np.zeros(n_new, dtype=bool)
        neighbours = self._search.kneighbors(X, return_distance=False)
        distances = _distances(np.asarray(X), self._X, neighbours)
        scales = distances.max(axis=1)
        scales = np.where(scales > 0, scales, self._smallest)[:, None]
        exponents = distances**2 / (scales * self.scales_[self._order][neighbours])
        nearest = exponents.min(axis=1, keepdims=True)
        weights = np.exp(nearest - exponents)
        rows = np.repeat(np.arange(n_new), neighbours.shape[1])
        columns = self._order[neighbours.ravel()]
        W = sparse.csr_array((weights.ravel(), (rows, columns)), shape=(n_new, n))
        return W, nearest[:, 0] > FAR


def _distances(A: FloatArray, B: FloatArray, neighbours: IntArray) -> FloatArray:
    """Return ‖a_i - b_j‖ for j among i's neighbours: exact, so that equal rows are at 0."""
    n, k = neighbours.shape
    distances = np.empty((n, k))
    block = max(1, _BLOCK_CELLS // max(1, k * A.shape[1]))
    for first in range(0, n, block):
        part = slice(first, first + block)
        difference = A[part, None, :].astype(np.float64) - B[neighbours[part]]
        distances[part] = np.sqrt(np.einsum("ikd,ikd->ik", difference, difference))
    return distances
