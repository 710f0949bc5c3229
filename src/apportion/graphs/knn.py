"""The sparse graph: every row and its nearest neighbors, on scales tuned to each row."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from apportion._io.archive import LEAST_POSITIVE, PLACES, Stored
from apportion._utils.hashing import hash_ranks, row_hashes
from apportion._utils.progress import report_progress
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray, UIntArray
from apportion.exceptions import counted
from apportion.graphs._neighbors import SEARCHING, distances_to, neighbor_search
from apportion.graphs.base import FAR, Affinity, Graph

_ROWS_OUT_OF_CACHE = 200_000
"""From here on, sums over neighbors are faster when near rows stand together."""

_MOST_COPIES = 5
"""Ties between copies of rows may be this many times those of rows that all differ."""


class KNNGraph(Graph):
    """Self-tuned similarities `w_ij = exp(-d_ij² / (σ_i σ_j))` between nearest neighbors.

    σ_i is the distance of row i to its k-th neighbor; i and j are tied when either is among the
    other's k nearest. Rescaling all features by one factor changes nothing. Equal rows are
    neighbors of the same rows: where a copy of a row is taken, all its copies are, unless there
    are so many that neighbors among them must be drawn by lot.

    Parameters
    ----------
    n_neighbors : int, default=10
        The number of neighbors k; all other rows when there are fewer.
    recall : float, default=0.95
        The share of true neighbors to find where an exact search would be slow: with more than
        6 features and more than 32,768 rows. 1 makes every search exact.

    Attributes
    ----------
    affinity_ : sparse array of shape (n_samples, n_samples)
    degrees_ : ndarray of shape (n_samples,)
    scales_ : ndarray of shape (n_samples,)
        σ. Where more than k rows are equal, their σ would be 0 and the smallest positive
        distance found anywhere stands in for it.
    recall_ : float
        The share of true neighbors that was found: 1, or measured on a sample.
    search_ : str
        How neighbors were searched.

    Examples
    --------
    >>> import numpy as np
    >>> graph = KNNGraph(n_neighbors=1).fit(np.array([[0.0], [1.0], [3.0]]))
    >>> graph.affinity_.toarray().round(3)
    array([[0.   , 0.368, 0.   ],
           [0.368, 0.   , 0.135],
           [0.   , 0.135, 0.   ]])
    """

    stored: ClassVar[Mapping[str, Stored]] = {
        "points": Stored(("points", "features"), least=-1e100, most=1e100),
        "point_of_row": Stored(("rows",), PLACES, below="points"),
        "point_scales": Stored(("points",), least=LEAST_POSITIVE, most=1e150),
        "smallest_distance": Stored((), least=LEAST_POSITIVE, most=1e150),
    }

    scales_: FloatArray
    recall_: float
    search_: str
    _lists: _Points
    _copies: Any
    _point_scales: FloatArray
    _smallest: float
    _crowded: BoolArray

    def __init__(self, n_neighbors: int = 10, *, recall: float = 0.95) -> None:
        self.n_neighbors = n_neighbors
        self.recall = recall

    def fit(self, X: Any) -> Self:
        """Build the similarities of the rows of X."""
        self._check_parameters()
        self.locality = None
        n = len(X)
        # In the order of the feature hashes, equal rows stand together, and equally near
        # neighbors are chosen alike however the input is ordered.
        order = np.argsort(hash_ranks(X, n))
        rows = X[order]
        first = np.append(True, np.any(rows[1:] != rows[:-1], axis=1))
        point = np.cumsum(first) - 1
        lists = _Lists(rows[first], np.bincount(point), self.n_neighbors, self.recall)
        if lists.n_ties > _MOST_COPIES * n * self.n_neighbors:
            point = np.arange(n)
            lists = _Lists(rows, np.ones(n, dtype=np.intp), self.n_neighbors, self.recall)
        self._lists = lists
        n_points = len(lists.points)
        self._copies = sparse.csr_array((np.ones(n), (order, point)), shape=(n, n_points))

        distances, neighbors, kept = lists.distances, lists.neighbors, lists.kept
        all_kept = bool(kept.all())
        scales = (distances if all_kept else np.where(kept, distances, 0.0)).max(axis=1, initial=0)
        smallest = float(distances.min(initial=np.inf, where=distances > 0))
        self._smallest = smallest if np.isfinite(smallest) else 1.0
        self._crowded = (self._copies @ (scales == 0)) > 0 if n > 1 else np.zeros(n, dtype=bool)
        self._point_scales = np.where(scales > 0, scales, self._smallest)
        self.scales_ = self._copies @ self._point_scales

        weights = distances**2
        weights /= self._point_scales[:, None]
        weights /= self._point_scales[neighbors]
        np.exp(np.negative(weights, out=weights), out=weights)
        if n_points == n:
            W = _either_way(weights, neighbors, kept, order)
        else:
            V = _either_way(weights, neighbors, kept, np.arange(n_points))
            V = V + sparse.diags_array((lists.multiplicity > 1).astype(np.float64))
            W = sparse.csr_array(self._copies @ V @ self._copies.T)
            W.setdiag(0.0)
            W.eliminate_zeros()
        self.recall_, self.search_ = lists.search.recall, lists.search.how
        if lists.search.order is not None and n >= _ROWS_OUT_OF_CACHE:
            self.locality = order[np.argsort(np.argsort(lists.search.order)[point])]
        return self._set_affinity(W)

    def crowded_rows(self) -> IntArray:
        """Return the rows all of whose k nearest neighbors equal them."""
        return np.flatnonzero(self._crowded)

    def features_of(self, rows: IntArray) -> FloatArray:
        """Return the features of fitted rows."""
        return self._lists.points[self._copies.indices[rows]]

    def hashes(self) -> UIntArray:
        """Return a hash of every row's features."""
        return row_hashes(self._lists.points)[self._copies.indices]

    def affinities(self, X: Any) -> tuple[Affinity, BoolArray]:
        """Return the similarities of new rows to their k nearest fitted rows, and who is far."""
        lists = self._lists
        k = min(self.n_neighbors, len(lists.points))
        neighbors = lists.search.nearest(np.asarray(X), k)
        distances = distances_to(np.asarray(X), lists.points, neighbors)
        kept = lists.needed(neighbors, 0)
        scales = np.where(kept, distances, 0.0).max(axis=1)
        scales = np.where(scales > 0, scales, self._smallest)[:, None]
        exponents = distances**2 / (scales * self._point_scales[neighbors])
        nearest = exponents.min(axis=1, keepdims=True)
        weights = np.exp(nearest - exponents)
        V = sparse.csr_array(
            (weights[kept], (np.nonzero(kept)[0], neighbors[kept])),
            shape=(len(neighbors), len(lists.points)),
        )
        return sparse.csr_array(V @ self._copies.T), nearest[:, 0] > FAR

    def state(self) -> dict[str, AnyArray]:
        """Return the points, which row is which of them, and the scales."""
        return {
            "points": self._lists.points,
            "point_of_row": self._copies.indices,
            "point_scales": self._point_scales,
            "smallest_distance": np.array(self._smallest),
        }

    @classmethod
    def from_state(cls, parameters: Mapping[str, Any], state: Mapping[str, AnyArray]) -> Self:
        """Return a graph for new rows only: `affinities` answers as that of the graph stored.

        The search is built again. An approximate one comes out the same on the same processor and
        version of faiss; on others, k-means rounds differently, lists are cut elsewhere, and a
        few rows in a hundred have other near neighbors.
        """
        graph = cls(**parameters)
        graph._check_parameters()
        points, point = state["points"], state["point_of_row"]
        n, n_points = len(point), len(points)
        multiplicity = np.bincount(point, minlength=n_points)
        if not multiplicity.all():
            raise ValueError("some points stand for no row")
        ends = np.arange(n + 1, dtype=point.dtype)
        graph._copies = sparse.csr_array((np.ones(n), point, ends), shape=(n, n_points))
        graph._lists = _Points(points, multiplicity, graph.n_neighbors, graph.recall)
        graph.recall_, graph.search_ = graph._lists.search.recall, graph._lists.search.how
        graph._point_scales = state["point_scales"]
        graph._smallest = float(state["smallest_distance"])
        return graph

    def rows_in_state(self) -> str:
        """Return how many rows are in `state`: all."""
        return counted(self._copies.shape[0], "training row")

    def _check_parameters(self) -> None:
        if not isinstance(self.n_neighbors, Integral) or self.n_neighbors < 1:
            raise ValueError(
                "The 'n_neighbors' parameter of KNNGraph must be an int of at least 1. "
                f"Got {self.n_neighbors!r}."
            )
        if not isinstance(self.recall, Real) or not 0.0 < self.recall <= 1.0:
            raise ValueError(
                "The 'recall' parameter of KNNGraph must be a float in the range (0, 1]. "
                f"Got {self.recall!r}."
            )


class _Points:
    """Points that stand for one or more equal rows each, and a search among them."""

    def __init__(
        self, points: FloatArray, multiplicity: IntArray, n_neighbors: int, recall: float
    ) -> None:
        self.points = points
        self.multiplicity = multiplicity
        self._k = n_neighbors
        self._n_rows = int(multiplicity.sum())
        k = min(n_neighbors, len(points) - 1)
        report_progress(SEARCHING)
        self.search = neighbor_search(points, k, recall)

    def needed(self, neighbors: IntArray, before: Any) -> BoolArray:
        """Return which neighboring points it takes until k rows are reached, copies counted."""
        if len(self.multiplicity) == self._n_rows:
            return np.broadcast_to(np.arange(neighbors.shape[1]) < self._k, neighbors.shape)
        copies = self.multiplicity[neighbors]
        return np.asarray(before + np.cumsum(copies, axis=1) - copies < self._k)


class _Lists(_Points):
    """The nearest neighbors of the points."""

    def __init__(
        self, points: FloatArray, multiplicity: IntArray, n_neighbors: int, recall: float
    ) -> None:
        super().__init__(points, multiplicity, n_neighbors, recall)
        self.neighbors = self.search.lists(min(n_neighbors, len(points) - 1))
        self.distances = distances_to(points, points, self.neighbors)
        self.kept = self.needed(self.neighbors, (multiplicity - 1)[:, None])

    @property
    def n_ties(self) -> int:
        """How many ties between rows the lists make."""
        if len(self.multiplicity) == self._n_rows:
            return self.neighbors.size
        near = np.where(self.kept, self.multiplicity[self.neighbors], 0).sum(axis=1)
        return int((self.multiplicity * (self.multiplicity - 1 + near)).sum())


def _either_way(
    weights: FloatArray, neighbors: IntArray, kept: BoolArray, names: IntArray
) -> Affinity:
    """Return the similarities of points that are on each other's list, or one on the other's.

    Point p is called names[p], a permutation.
    """
    n = len(neighbors)
    place = np.empty(n, dtype=np.intp)
    place[names] = np.arange(n)
    indices, data = names.astype(np.int32)[neighbors[place]], weights[place]
    if kept.all():
        ends = np.arange(n + 1) * neighbors.shape[1]
        indices, data = indices.ravel(), data.ravel()
    else:
        kept = kept[place]
        ends = np.append(0, np.cumsum(kept.sum(axis=1)))
        indices, data = indices[kept], data[kept]
    V = sparse.csr_array((data, indices, ends.astype(np.int32)), shape=(n, n))
    V.eliminate_zeros()
    V.sort_indices()
    return sparse.csr_array(V.maximum(V.T.tocsr()))
