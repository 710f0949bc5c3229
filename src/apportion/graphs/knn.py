"""The sparse graph: similarities of nearest neighbors, on a scale tuned to each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from apportion._io.archive import LEAST_POSITIVE, PLACES, Stored
from apportion._utils.arrays import beside, full, is_tensor, namespace, to_device, to_numpy
from apportion._utils.hashing import order_of, row_hashes
from apportion._utils.parameters import Allowed, check_parameters, integer, real
from apportion._utils.progress import report_progress
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray, UIntArray
from apportion.exceptions import counted
from apportion.graphs._device_search import search_bytes
from apportion.graphs._neighbors import SEARCHING, neighbor_search
from apportion.graphs._on_device import SparseProducts
from apportion.graphs._products import Affinity
from apportion.graphs.base import FAR, Graph

_ROWS_OUT_OF_CACHE = 200_000
"""From here on, sums over neighbors are faster if near rows are next to each other."""

_MOST_COPIES = 5
"""The graph may have this many times the edges of a graph without copies of rows."""

_ALLOWED: Mapping[str, Allowed] = {
    "n_neighbors": integer(1),
    "recall": real(low=0, high=1, ends="(]"),
}


class KNNGraph(Graph):
    """Self-tuned similarities `w_ij = exp(-d_ij² / (σ_i σ_j))` of nearest neighbors.

    σ_i is the distance of row i to its k-th neighbor (Zelnik-Manor and Perona, "Self-Tuning
    Spectral Clustering", NIPS 2004). Rows i and j are connected if either is among the other's k
    nearest. Rescaling all features by one factor changes nothing. All copies of a neighbor are
    neighbors, unless there are too many of them: then a hash of the features chooses among them.

    Parameters
    ----------
    n_neighbors : int, default=10
        The number of neighbors k; all other rows if there are fewer.
    recall : float, default=0.95
        The share of true neighbors to find if an exact search would be slow, which is with more
        than 6 features and more than 32,768 rows. With 1, every search is exact.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where neighbors are searched and soft labels are propagated. On a GPU (`"cuda"`), every
        search is exact. `"auto"` uses a GPU if there is one. Needs torch: install `apportion[gpu]`.

    Attributes
    ----------
    affinity_ : sparse array of shape (n_samples, n_samples)
        The similarities W.
    degrees_ : ndarray of shape (n_samples,)
        The row sums of W.
    scales_ : ndarray of shape (n_samples,)
        σ. If more than k rows are equal, their σ would be 0, and the smallest positive distance
        of any two neighbors takes its place.
    recall_ : float
        The share of true neighbors that was found: 1, or measured on a sample.
    search_ : str
        The search that was used.

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

    def __init__(self, n_neighbors: int = 10, *, recall: float = 0.95, device: str = "cpu") -> None:
        self.n_neighbors = n_neighbors
        self.recall = recall
        self.device = device

    def fit(self, X: Any) -> Self:
        """Compute the similarities of the rows.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        KNNGraph
            The fitted graph.
        """
        check_parameters(self, _ALLOWED)
        self._set_device()
        self.locality = None
        n = len(X)
        # In the order of the feature hashes, equal rows are next to each other, and the choice
        # among equally near neighbors does not depend on the order of the input.
        order = order_of(row_hashes(X))
        rows = X[order]
        first = np.append(True, np.any(rows[1:] != rows[:-1], axis=1))
        point = np.cumsum(first) - 1
        asked = self.n_neighbors, self.recall, self._device
        points = rows if first.all() else rows[first]
        lists = _NeighborLists(points, np.bincount(point), *asked)
        if lists.n_edges > _MOST_COPIES * n * self.n_neighbors:
            point = np.arange(n)
            lists = _NeighborLists(rows, np.ones(n, dtype=np.intp), *asked)
        self._lists = lists
        n_points = len(lists.points)
        point_of_row: IntArray = np.empty(n, dtype=np.int32)
        point_of_row[order] = point
        self._copies = _one_per_row(point_of_row, n_points)

        scales = lists.scales()
        self._smallest = lists.smallest_distance()
        self._crowded = (self._copies @ (scales == 0)) > 0 if n > 1 else np.zeros(n, dtype=bool)
        self._point_scales = np.where(scales > 0, scales, self._smallest)
        self.scales_ = self._copies @ self._point_scales
        weights = lists.similarities(self._point_scales)
        neighbors, kept = lists.taken()
        self.recall_, self.search_ = lists.search.recall, lists.search.how
        if is_tensor(weights) and n_points == n:
            return self._set_products(_either_on_device(weights, neighbors, order))

        weights, neighbors, kept = map(to_numpy, (weights, neighbors, kept))
        if n_points == n:
            W = _either_neighbor(weights, neighbors, kept, order)
        else:
            V = _either_neighbor(weights, neighbors, kept, np.arange(n_points))
            V = V + sparse.diags_array((lists.multiplicity > 1).astype(np.float64))
            W = sparse.csr_array(self._copies @ V @ self._copies.T)
            W.setdiag(0.0)
            W.eliminate_zeros()
        if lists.search.order is not None and n >= _ROWS_OUT_OF_CACHE:
            self.locality = order[np.argsort(np.argsort(lists.search.order)[point])]
        return self._set_affinity(W)

    def device_bytes(self, n_rows: int, n_features: int, n_classes: int) -> int:
        """Return about how many bytes of a device so many rows take."""
        lists = 100 * n_rows * self.n_neighbors
        soft_labels = super().device_bytes(n_rows, n_features, n_classes)
        return search_bytes(n_rows, n_features) + lists + soft_labels

    def _fetched(self) -> Affinity:
        return self._on_device.to_scipy()

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
        """Return the similarities of new rows to their k nearest fitted rows, and which are far."""
        lists = self._lists
        k = min(self.n_neighbors, len(lists.points))
        neighbors, distances = lists.search.measured(np.asarray(X), k)
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
        """Return the distinct points, the point of every row, and the scales."""
        return {
            "points": self._lists.points,
            "point_of_row": self._copies.indices,
            "point_scales": self._point_scales,
            "smallest_distance": np.array(self._smallest),
        }

    @classmethod
    def from_state(cls, parameters: Mapping[str, Any], state: Mapping[str, AnyArray]) -> Self:
        """Return a graph for new rows only, with the `affinities` of the stored graph.

        The search is built again. An approximate search is the same on the same processor and with
        the same version of faiss. Otherwise, k-means rounds differently, and a few rows in a
        hundred have other near neighbors.
        """
        graph = cls(**parameters)
        check_parameters(graph, _ALLOWED)
        points, point = state["points"], state["point_of_row"]
        n_points = len(points)
        multiplicity = np.bincount(point, minlength=n_points)
        if not multiplicity.all():
            raise ValueError("some points stand for no row")
        graph._copies = _one_per_row(point, n_points)
        graph._restore_device()
        asked = graph.n_neighbors, graph.recall, graph._device
        graph._lists = _Points(points, multiplicity, *asked)
        graph.recall_, graph.search_ = graph._lists.search.recall, graph._lists.search.how
        graph._point_scales = state["point_scales"]
        graph._smallest = float(state["smallest_distance"])
        return graph

    def rows_in_state(self) -> str:
        """Return the number of training rows, which are all in `state`."""
        return counted(self._copies.shape[0], "training row")


def _one_per_row(columns: IntArray, n_columns: int) -> Any:
    """Return a sparse array with a 1 in one column of every row."""
    n, ends = len(columns), np.arange(len(columns) + 1, dtype=columns.dtype)
    return sparse.csr_array((np.ones(n), columns, ends), shape=(n, n_columns))


class _Points:
    """Distinct points, the number of rows that equal each of them, and a search among them."""

    def __init__(
        self,
        points: FloatArray,
        multiplicity: IntArray,
        n_neighbors: int,
        recall: float,
        device: Any = None,
    ) -> None:
        self.points = points
        self.multiplicity = multiplicity
        self._k = n_neighbors
        self._n_rows = int(multiplicity.sum())
        report_progress(SEARCHING)
        self.search = neighbor_search(points, min(n_neighbors, len(points) - 1), recall, device)

    def needed(self, neighbors: IntArray, before: Any) -> BoolArray:
        """Return which neighboring points are needed to reach k rows, counting copies."""
        if len(self.multiplicity) == self._n_rows:
            return np.broadcast_to(np.arange(neighbors.shape[1]) < self._k, neighbors.shape)
        copies = self.multiplicity[neighbors]
        return np.asarray(before + np.cumsum(copies, axis=1) - copies < self._k)


class _NeighborLists(_Points):
    """Points with the lists of their nearest neighbors."""

    def __init__(
        self,
        points: FloatArray,
        multiplicity: IntArray,
        n_neighbors: int,
        recall: float,
        device: Any = None,
    ) -> None:
        super().__init__(points, multiplicity, n_neighbors, recall, device)
        self.neighbors, self.distances = self.search.lists(min(n_neighbors, len(points) - 1))
        self.kept = full(tuple(self.neighbors.shape), True, self.distances)
        if len(multiplicity) < self._n_rows:
            needed = self.needed(to_numpy(self.neighbors), (multiplicity - 1)[:, None])
            self.kept = beside(needed, self.distances)

    @property
    def n_edges(self) -> int:
        """The number of edges between rows."""
        if len(self.multiplicity) == self._n_rows:
            return self.neighbors.shape[0] * self.neighbors.shape[1]
        kept, neighbors = to_numpy(self.kept), to_numpy(self.neighbors)
        near = np.where(kept, self.multiplicity[neighbors], 0).sum(axis=1)
        return int((self.multiplicity * (self.multiplicity - 1 + near)).sum())

    def taken(self) -> tuple[IntArray, BoolArray]:
        """Return the lists, and which of the neighbors are kept; they are not held any longer."""
        taken = self.neighbors, self.kept
        del self.neighbors, self.kept, self.distances
        return taken

    def scales(self) -> FloatArray:
        """Return the distance of each point to the last neighbor that is kept, in memory."""
        if not self.distances.shape[1]:
            return np.zeros(len(self.points))
        xp = namespace(self.distances)
        return to_numpy(xp.max(xp.where(self.kept, self.distances, 0.0), axis=1))

    def smallest_distance(self) -> float:
        """Return the smallest positive distance of two neighbors; 1 if there is none."""
        xp = namespace(self.distances)
        if not self.distances.shape[1]:
            return 1.0
        smallest = float(xp.min(xp.where(self.distances > 0, self.distances, np.inf)))
        return smallest if np.isfinite(smallest) else 1.0

    def similarities(self, scales: FloatArray) -> FloatArray:
        """Return exp(-d_ij² / (σ_i σ_j)) for the neighbors j of every point i."""
        xp, scales = namespace(self.distances), beside(scales, self.distances)
        weights = self.distances**2
        weights /= scales[:, None]
        weights /= scales[self.neighbors]
        return xp.exp(xp.negative(weights, out=weights), out=weights)


def _either_on_device(weights: Any, neighbors: Any, names: IntArray) -> SparseProducts:
    """Return the same as `_either_neighbor` for neighbors on a device, all of which are kept.

    Every pair is written down both ways and sorted; of a pair that stands there twice, because each
    is a neighbor of the other, the larger similarity is taken.
    """
    import torch

    n, k = neighbors.shape
    row_of = to_device(names, weights.device)
    here, there = row_of.repeat_interleave(k), row_of[neighbors.flatten()]
    pairs, order = torch.concatenate([here * n + there, there * n + here]).sort()
    weights = weights.flatten().repeat(2)[order]
    again = pairs[1:] == pairs[:-1]
    weights[:-1][again] = weights[:-1][again].maximum(weights[1:][again])
    kept = weights > 0
    kept[1:] &= ~again
    pairs, weights = pairs[kept], weights[kept]
    rows = pairs.div(n, rounding_mode="floor")
    return SparseProducts(weights, pairs - rows * n, rows.bincount(minlength=n))


def _either_neighbor(
    weights: FloatArray, neighbors: IntArray, kept: BoolArray, names: IntArray
) -> Affinity:
    """Return the similarities of points of which either is a neighbor of the other.

    Point p is at position names[p] of the result.
    """
    n = len(neighbors)
    points = np.argsort(names)
    indices, data, kept = names.astype(np.int32)[neighbors[points]], weights[points], kept[points]
    ends = np.append(0, np.cumsum(kept.sum(axis=1)))
    indices, data = indices[kept], data[kept]
    V = sparse.csr_array((data, indices, ends.astype(np.int32)), shape=(n, n))
    V.eliminate_zeros()
    V.sort_indices()
    return sparse.csr_array(V.maximum(V.T.tocsr()))
