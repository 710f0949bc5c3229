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
_MOST_COPIES = 5
"""Ties between copies of rows may be this many times those of rows that all differ."""


class KNNGraph(Graph):
    """Self-tuned similarities `w_ij = exp(-d_ij² / (σ_i σ_j))` between nearest neighbours.

    σ_i is the distance of row i to its k-th neighbour; i and j are tied when either is among the
    other's k nearest. Rescaling all features by one factor changes nothing. Equal rows are
    neighbours of the same rows: where a copy of a row is taken, all its copies are, unless there
    are so many that neighbours among them must be drawn by lot.

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
    _lists: _Lists
    _copies: Any
    _point_scales: FloatArray
    _smallest: float
    _crowded: BoolArray

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
        # In the order of the feature hashes, equal rows stand together, and equally near
        # neighbours are chosen alike however the input is ordered.
        order = np.argsort(hash_ranks(X, n))
        rows = X[order]
        first = np.append(True, np.any(rows[1:] != rows[:-1], axis=1))
        point = np.cumsum(first) - 1
        lists = _Lists(rows[first], np.bincount(point), self.n_neighbors)
        if lists.n_ties > _MOST_COPIES * n * self.n_neighbors:
            point = np.arange(n)
            lists = _Lists(rows, np.ones(n, dtype=np.intp), self.n_neighbors)
        self._lists = lists
        n_points = len(lists.points)
        self._copies = sparse.csr_array((np.ones(n), (order, point)), shape=(n, n_points))

        distances, neighbours, kept = lists.distances, lists.neighbours, lists.kept
        scales = np.where(kept, distances, 0.0).max(axis=1, initial=0.0)
        positive = distances[distances > 0]
        self._smallest = float(positive.min()) if positive.size else 1.0
        self._crowded = (self._copies @ (scales == 0)) > 0 if n > 1 else np.zeros(n, dtype=bool)
        self._point_scales = np.where(scales > 0, scales, self._smallest)
        self.scales_ = self._copies @ self._point_scales

        squares = self._point_scales[:, None] * self._point_scales[neighbours]
        weights = np.exp(-(distances**2) / squares)
        V = sparse.csr_array(
            (weights[kept], (np.nonzero(kept)[0], neighbours[kept])), shape=(n_points, n_points)
        )
        V = V.maximum(V.T) + sparse.diags_array((lists.multiplicity > 1).astype(np.float64))
        W = sparse.csr_array(self._copies @ V @ self._copies.T)
        W.setdiag(0.0)
        W.eliminate_zeros()
        return self._set_affinity(W)

    def crowded_rows(self) -> IntArray:
        """Return the rows all of whose k nearest neighbours equal them."""
        return np.flatnonzero(self._crowded)

    def affinities(self, X: Any) -> tuple[Affinity, BoolArray]:
        """Return the similarities of new rows to their k nearest fitted rows, and who is far."""
        lists = self._lists
        k = min(self.n_neighbors, len(lists.points))
        neighbours = lists.search.kneighbors(X, n_neighbors=k, return_distance=False)
        distances = _distances(np.asarray(X), lists.points, neighbours)
        kept = lists.needed(neighbours, 0)
        scales = np.where(kept, distances, 0.0).max(axis=1)
        scales = np.where(scales > 0, scales, self._smallest)[:, None]
        exponents = distances**2 / (scales * self._point_scales[neighbours])
        nearest = exponents.min(axis=1, keepdims=True)
        weights = np.exp(nearest - exponents)
        V = sparse.csr_array(
            (weights[kept], (np.nonzero(kept)[0], neighbours[kept])),
            shape=(len(neighbours), len(lists.points)),
        )
        return sparse.csr_array(V @ self._copies.T), nearest[:, 0] > FAR


class _Lists:
    """The nearest neighbours of points that stand for one or more equal rows each."""

    def __init__(self, points: FloatArray, multiplicity: IntArray, n_neighbors: int) -> None:
        self.points = points
        self.multiplicity = multiplicity
        self._k = n_neighbors
        k = min(n_neighbors, len(points) - 1)
        self.search = NearestNeighbors(n_neighbors=max(k, 1)).fit(points)
        self.neighbours = np.empty((len(points), 0), dtype=np.intp)
        if k > 0:
            self.neighbours = self.search.kneighbors(return_distance=False)
        self.distances = _distances(points, points, self.neighbours)
        self.kept = self.needed(self.neighbours, (multiplicity - 1)[:, None])

    @property
    def n_ties(self) -> int:
        """How many ties between rows the lists make."""
        near = np.where(self.kept, self.multiplicity[self.neighbours], 0).sum(axis=1)
        return int((self.multiplicity * (self.multiplicity - 1 + near)).sum())

    def needed(self, neighbours: IntArray, before: Any) -> BoolArray:
        """Return which neighbouring points it takes until k rows are reached, copies counted."""
        copies = self.multiplicity[neighbours]
        return np.asarray(before + np.cumsum(copies, axis=1) - copies < self._k)


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
