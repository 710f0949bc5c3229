"""The graph whose cost is linear in n: rows are tied to each other through a few anchors.

The functions at the end work on any part of the rows: `AnchorGraph.fit` calls them once for all
rows, a Dask cluster once per partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from apportion._io.archive import FLAGS, Stored
from apportion._utils.arrays import to_device
from apportion._utils.device import refuse_on_device
from apportion._utils.hashing import hash_sample, row_hashes, scramble
from apportion._utils.memory import refuse_if_too_large
from apportion._utils.progress import report_progress, with_progress
from apportion._utils.sequences import Sequences
from apportion._utils.threads import BLOCK_ROWS, in_threads, slices
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray, UIntArray
from apportion.exceptions import counted
from apportion.graphs._neighbors import FlatSearch, Search, SinglePrecision, faiss_library
from apportion.graphs._on_device import AnchorProducts, SparseProducts
from apportion.graphs._products import Affinity, AnchoredProducts
from apportion.graphs._row_blocks import multiply, some_rows, transposed
from apportion.graphs.base import FAR, Graph, joined_components

_MOST_ANCHORS = 1000
_ROWS_PER_ANCHOR = 64
"""k-means learns from this many rows per anchor; more rows hardly move the centers."""
_NEGLIGIBLE = 1e-12
"""Anchors that share less than this are not connected."""
_LEAST_SCALE = 1e-3
"""The least usual squared distance at an anchor, relative to the mean over all anchors."""
_ROUNDING = 1e-6
"""A row equals an anchor if their distance is below this share of the anchor's distance from the
center: centers of k-means are in single precision."""

_TYING = "tying rows to anchors"


class AnchorGraph(AnchoredProducts, Graph):
    """Similarities `W = Z Λ⁻¹ Zᵀ` through anchors: linear in the number of rows.

    Every row is tied to its nearest anchors, the centers of k-means, by weights
    z_ia ∝ exp(-d_ia² / σ_i²) that sum to one, σ_i being the distance to the farthest of them;
    Λ = diag(Zᵀ1). Two rows are similar when they are tied to the same anchors. Every degree is 1.
    The diagonal of W is not 0, which changes nothing in propagation; the mean over a row's
    neighbors leaves out the row itself. The graph is that of Liu, He and Chang, "Large Graph
    Construction for Scalable Semi-Supervised Learning", ICML 2010.

    Rows are read in blocks, in the precision they have, so that they may lie on disk
    (`numpy.load(..., mmap_mode="r")`).

    Parameters
    ----------
    n_anchors : "auto" or int, default="auto"
        The number of anchors m: `"auto"` is 10 √n and at most 1,000. There are never more anchors
        than different rows.
    n_nearest : int, default=5
        The number of anchors a row is tied to.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where rows are tied to anchors and soft labels are propagated; see `KNNGraph`. Rows are sent
        to a GPU in blocks, so that they need not fit there; their ties and soft labels must.

    Attributes
    ----------
    anchors_ : ndarray of shape (n_anchors, n_features)
        The anchors.
    ties_ : sparse array of shape (n_samples, n_anchors)
        Z: every row's weights on its anchors.
    masses_ : ndarray of shape (n_anchors,)
        The diagonal of Λ.
    degrees_ : ndarray of shape (n_samples,)
        One for every row, plus its edges in time.
    time_edges_ : sparse array of shape (n_samples, n_samples), or None
        Edges between rows that follow each other in time; see `tied_in_time`.

    Examples
    --------
    >>> import numpy as np
    >>> graph = AnchorGraph(n_anchors=2, n_nearest=1).fit(np.array([[0.0], [1.0], [9.0]]))
    >>> np.sort(graph.anchors_.ravel()).round(3)
    array([0.5, 9. ])
    """

    stored: ClassVar[Mapping[str, Stored]] = {
        "anchors": Stored(("anchors", "features"), least=-1e100, most=1e100),
        "usual_scales": Stored(("anchors",), least=0.0, most=1e300),
        "anchor_is_row": Stored(("anchors",), FLAGS, most=1.0),
    }
    prototype_kind: ClassVar[str] = "anchors"
    instead_of_device: ClassVar[str] = "Use {device:cpu} or fewer rows."

    anchors_: FloatArray
    ties_: Any
    masses_: FloatArray
    _shared: FloatArray | None = None
    time_edges_: Any = None

    def __init__(
        self, n_anchors: str | int = "auto", n_nearest: int = 5, *, device: str = "cpu"
    ) -> None:
        self.n_anchors = n_anchors
        self.n_nearest = n_nearest
        self.device = device

    def fit(self, X: Any) -> Self:
        """Choose the anchors and tie the rows of X to them.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        AnchorGraph
            The fitted graph.
        """
        self.check_parameters()
        self._set_device()
        n_anchors = self.anchors_for(len(X))
        report_progress("choosing anchors")
        anchors = anchors_of(X[hash_sample(X, rows_for_anchors(n_anchors))], n_anchors)
        report_progress(_TYING, 0.0)
        ties = tie_rows(X, self._search_among(anchors), self.n_nearest)
        census = anchor_census(ties, anchors)
        used, position = census.used_anchors()
        nearest = position[ties.nearest]
        census = census.of(used)
        self.anchors_ = anchors[used]
        self.masses_ = census.masses
        self.ties_ = sparse_rows(ties.weights, nearest, len(used))
        self.degrees_ = np.ones(len(X))
        self._own = own_weights(ties.weights, self.masses_[nearest])
        self._shared = self.time_edges_ = None
        self._search = self._search_among(self.anchors_)
        self._usual_scales = usual_scales(census, self._search)
        self._anchor_is_row = census.n_equal > 0
        self._all_equal = all(bool((X[block] == X[0]).all()) for block in self._blocks)
        return self

    def tied_in_time(self, sequences: Sequences, weight: float) -> AnchorGraph:
        """Return the same graph with edges in time beside the ties to anchors."""
        other = copy(self)
        other.time_weight, other._untied = weight, self.untied
        if weight:
            other.time_edges_ = self._edges_in_time(sequences, weight)
            other.degrees_ = 1.0 + np.asarray(other.time_edges_.sum(axis=1)).ravel()
            other._components = other._on_device = None
        return other

    def device_bytes(self, n_rows: int, n_features: int, n_classes: int) -> int:
        """Return about how many bytes of a device so many rows take."""
        return n_rows * 80 * self.n_nearest + super().device_bytes(n_rows, n_features, n_classes)

    def _search_among(self, anchors: FloatArray) -> Search:
        if self._device is None:
            return FlatSearch(anchors)
        from apportion.graphs._device_search import DeviceSearch

        return DeviceSearch(anchors, self._device)

    def _sent(self) -> AnchorProducts:
        n, s = self.n_samples_, self.ties_.nnz // max(self.n_samples_, 1)
        what, instead = f"An anchor graph of {n:,} rows", self.instead_of_device
        refuse_on_device(what, n, lambda rows: 40 * s * rows, self._device, instead)
        weights, nearest = self.ties_.data.reshape(n, s), self.ties_.indices.reshape(n, s)
        edges = self.time_edges_
        return AnchorProducts(
            to_device(weights, self._device),
            to_device(nearest.astype(np.int64), self._device),
            to_device(self.masses_, self._device),
            to_device(self._own, self._device),
            None if edges is None else SparseProducts.from_scipy(edges, self._device),
        )

    def similar_rows(self, rows: IntArray) -> Affinity:
        """Return W[rows] without the diagonal: how similar these rows are to others."""
        W = sparse.csr_array(self.ties_[rows] @ sparse.diags_array(1.0 / self.masses_))
        W = W @ self.ties_.T
        W = sparse.coo_array(W if self.time_edges_ is None else W + self.time_edges_[rows])
        others = rows[W.row] != W.col
        return sparse.csr_array(
            (W.data[others], (W.row[others], W.col[others])), shape=(len(rows), self.n_samples_)
        )

    def features_of(self, rows: IntArray) -> FloatArray:
        """Return the weighted means of fitted rows' anchors in place of their features."""
        return np.asarray(self.ties_[rows] @ self.anchors_)

    def hashes(self) -> UIntArray:
        """Return a hash of every row's ties."""
        weights, anchors = (
            row_hashes(values.reshape(self.n_samples_, -1))
            for values in (self.ties_.data, self.ties_.indices)
        )
        return scramble(weights ^ scramble(anchors))

    @property
    def only_anchors(self) -> bool:
        """Whether there are no edges in time."""
        return self.time_edges_ is None

    def _along_time(self, F: FloatArray) -> FloatArray:
        return multiply(self.time_edges_, F)

    def crowded_rows(self) -> IntArray:
        """Return all rows where all are equal, else none."""
        return np.arange(self.n_samples_ if self._all_equal and self.n_samples_ > 1 else 0)

    def components(self) -> tuple[int, IntArray]:
        """Return the number of connected components and each row's component; computed once."""
        if self._components is None:
            number, labels = anchor_components(self.shared_ties())
            first = self.ties_.indices[self.ties_.indptr[:-1]]
            labels = labels[first]
            if self.time_edges_ is not None:
                number, labels = joined_components(number, labels, self.time_edges_)
            self._components = number, labels
        return self._components

    def affinities(self, X: Any) -> tuple[Affinity, BoolArray]:
        """Return the weights of new rows on the anchors, and which rows are far from them."""
        ties = tie_rows(X, self._search, self.n_nearest)
        far = ties.closest > FAR * self._usual_scales[ties.nearest[:, 0]]
        return sparse_rows(ties.weights, ties.nearest, len(self.anchors_)), far

    def state(self) -> dict[str, AnyArray]:
        """Return the anchors, what is far from them, and which of them are single rows."""
        return {
            "anchors": self.anchors_,
            "usual_scales": self._usual_scales,
            "anchor_is_row": self._anchor_is_row,
        }

    @classmethod
    def from_state(cls, parameters: Mapping[str, Any], state: Mapping[str, AnyArray]) -> Self:
        """Return a graph for new rows only; `affinities` is that of the stored graph."""
        graph = cls(**parameters)
        graph.check_parameters()
        graph._restore_device()
        graph.anchors_ = state["anchors"]
        graph._search = graph._search_among(graph.anchors_)
        graph._usual_scales = state["usual_scales"]
        graph._anchor_is_row = state["anchor_is_row"]
        return graph

    def rows_in_state(self) -> str:
        """Return in words how many means of rows are in `state`, and how many of them equal a row.

        The mean of one row, or of equal rows, is that row to single precision.
        """
        n_equal = int(self._anchor_is_row.sum())
        means = f"{counted(len(self.anchors_), 'mean')} of training rows"
        return f"{means}, of which {n_equal:,} equal a training row" if n_equal else means

    def to_anchors(self, F: FloatArray) -> FloatArray:
        """Return Zᵀ F: the sums over the rows of each anchor."""

        def block_sum(block: slice) -> FloatArray:
            return transposed(some_rows(self.ties_, block)) @ F[block]

        return np.asarray(sum(in_threads(block_sum, self._blocks)))

    def from_anchors(self, A: FloatArray) -> FloatArray:
        """Return Z A: the weighted mean of A over each row's anchors."""
        return multiply(self.ties_, A)

    def shared_ties(self) -> FloatArray:
        """Return Zᵀ Z: how much any two anchors share; computed once."""
        if self._shared is None:
            m = len(self.masses_)
            refuse_if_too_large(f"AnchorGraph, with {m} anchors,", 3 * 8 * m * m, "fewer anchors")
            products = self.products()
            self._shared = (
                products.shared_ties()
                if isinstance(products, AnchorProducts)
                else shared_weights(self.ties_)
            )
        return self._shared

    def __getstate__(self) -> dict[str, Any]:
        # Zᵀ Z is large and easily computed again: it does not travel with the graph.
        return {**super().__getstate__(), "_shared": None}

    @property
    def _blocks(self) -> list[slice]:
        return slices(self.n_samples_, BLOCK_ROWS)

    @property
    def most_anchors(self) -> int:
        """The largest number of anchors, however many rows there are."""
        return _MOST_ANCHORS if self.n_anchors == "auto" else int(self.n_anchors)

    def anchors_for(self, n_samples: int) -> int:
        """Return the number of anchors for so many rows."""
        if self.n_anchors == "auto":
            return min(int(10 * np.sqrt(n_samples)), _MOST_ANCHORS)
        return int(self.n_anchors)

    def check_parameters(self) -> None:
        """Raise a ValueError for parameters that cannot be used."""
        for name, words in (("n_nearest", ()), ("n_anchors", ("auto",))):
            value = getattr(self, name)
            whole = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1
            if not whole and value not in words:
                allowed = " or ".join([*map(repr, words), "an int of at least 1"])
                raise ValueError(
                    f"The {name!r} parameter of AnchorGraph must be {allowed}. Got {value!r}."
                )


def anchor_components(shared: FloatArray) -> tuple[int, IntArray]:
    """Return the number of connected components and each anchor's component, from Zᵀ Z."""
    number, labels = connected_components(shared > _NEGLIGIBLE, directed=False)
    return int(number), labels.astype(np.intp)


def rows_for_anchors(n_anchors: int) -> int:
    """Return how many rows so many anchors are learned from."""
    return _ROWS_PER_ANCHOR * n_anchors


def anchors_of(sample: FloatArray, n_anchors: int) -> FloatArray:
    """Return the anchors of a sample of rows in the order of their hashes: centers of k-means.

    Where the sample has no more different rows than that, these are the anchors.
    """
    faiss = faiss_library()
    singles = SinglePrecision(sample)
    points = singles(sample)
    different, first = np.unique(points, axis=0, return_index=True)
    if len(different) <= n_anchors:
        return singles.back(np.ascontiguousarray(different))
    # k-means begins at the first different rows in the order of the hashes: a random choice that
    # is the same however the input was sorted.
    starts = np.ascontiguousarray(points[np.sort(first)[:n_anchors]])
    means = faiss.Kmeans(points.shape[1], n_anchors, niter=10)
    means.cp.min_points_per_centroid, means.cp.max_points_per_centroid = 1, len(points)
    means.train(points, init_centroids=starts)
    return singles.back(np.asarray(means.centroids))


class Ties(NamedTuple):
    """Rows tied to their nearest anchors.

    Attributes
    ----------
    weights : ndarray of shape (n_samples, n_nearest)
        The weights of each row; they sum to 1.
    nearest : ndarray of int, of shape (n_samples, n_nearest)
        The anchors of each row, the nearest first.
    closest, scales : ndarray of shape (n_samples,)
        The squared distances to the nearest and to the farthest of them.
    """

    weights: FloatArray
    nearest: IntArray
    closest: FloatArray
    scales: FloatArray


def tie_rows(X: Any, search: Search, n_nearest: int) -> Ties:
    """Return rows tied to the nearest of the anchors that are searched."""
    s = min(n_nearest, len(search.points))
    ties = Ties(
        np.empty((len(X), s)),
        np.empty((len(X), s), dtype=np.int32),
        np.empty(len(X)),
        np.empty(len(X)),
    )
    for block in with_progress(_TYING, slices(len(X), BLOCK_ROWS)):
        rows = np.asarray(X[block])
        ties.nearest[block], distances = search.measured(rows, s)
        squares = distances**2
        farthest = squares.max(axis=1, keepdims=True)
        weights = np.exp(-squares / np.where(farthest > 0, farthest, 1.0))
        ties.weights[block] = weights / weights.sum(axis=1, keepdims=True)
        ties.closest[block], ties.scales[block] = squares.min(axis=1), farthest[:, 0]
    return ties


class AnchorCensus(NamedTuple):
    """Sums over rows for every anchor; the sums of parts of the rows add up to those of all.

    Attributes
    ----------
    n_tied : ndarray of shape (n_anchors,)
        How many rows are tied to the anchor.
    masses : ndarray of shape (n_anchors,)
        The sums of their weights, the diagonal of Λ.
    n_nearest : ndarray of shape (n_anchors,)
        How many rows have it as their nearest anchor.
    scales : ndarray of shape (n_anchors,)
        The sums of their squared distances to the farthest anchor they are tied to.
    n_equal : ndarray of shape (n_anchors,)
        How many of them equal the anchor, up to rounding.
    """

    n_tied: FloatArray
    masses: FloatArray
    n_nearest: FloatArray
    scales: FloatArray
    n_equal: FloatArray

    def used_anchors(self) -> tuple[IntArray, IntArray]:
        """Return the anchors that rows are tied to, and every anchor's position among them."""
        used = self.n_tied > 0
        position: IntArray = np.cumsum(used, dtype=np.int32)
        return np.flatnonzero(used), position - 1

    def of(self, anchors: IntArray) -> AnchorCensus:
        """Return the census of some anchors."""
        return AnchorCensus(*(field[anchors] for field in self))


def anchor_census(ties: Ties, anchors: FloatArray) -> AnchorCensus:
    """Return the census of tied rows."""
    first, every, m = ties.nearest[:, 0], ties.nearest.ravel(), len(anchors)
    # Anchors are rounded relative to their distance from the center of the rows. Medians stand for
    # center and usual distance, because a single anchor that is very far away does not move them.
    sizes = np.linalg.norm(anchors - np.median(anchors, axis=0), axis=1)
    sizes = np.maximum(sizes, np.median(sizes))
    equal = first[ties.closest <= (_ROUNDING * sizes[first]) ** 2]
    counts = (
        np.bincount(every, minlength=m),
        np.bincount(every, ties.weights.ravel(), m),
        np.bincount(first, minlength=m),
        np.bincount(first, ties.scales, m),
        np.bincount(equal, minlength=m),
    )
    return AnchorCensus(*(count.astype(np.float64) for count in counts))


def usual_scales(census: AnchorCensus, search: Search) -> FloatArray:
    """Return the squared distance that is usual among the rows nearest to each anchor."""
    usual = census.scales / np.maximum(census.n_nearest, 1.0)
    usual = np.maximum(usual, _LEAST_SCALE * usual.mean())
    anchors = search.points
    if len(anchors) == 1:
        return usual
    # A row at the distance of the next anchor is not far, even where every row is an anchor.
    apart = search.measured(anchors, 2)[1].max(axis=1)
    return np.maximum(usual, apart**2 / FAR)


def shared_weights(Z: Any) -> FloatArray:
    """Return Zᵀ Z: how much any two anchors share."""
    n_samples, m = Z.shape
    shared = np.zeros((m, m))
    for block in slices(n_samples, BLOCK_ROWS):
        rows = some_rows(Z, block)
        shared += (transposed(rows) @ rows).toarray()
    return shared


def own_weights(weights: FloatArray, masses: FloatArray) -> FloatArray:
    """Return w_ii, how similar each row is to itself, from weights and masses of its anchors."""
    return np.einsum("is,is->i", weights, weights / masses)


def sparse_rows(weights: FloatArray, nearest: IntArray, n_anchors: int) -> Any:
    """Return Z, the weights of rows on their anchors, as a sparse array."""
    n, s = weights.shape
    ends = np.arange(0, n * s + 1, s, dtype=np.int32 if n * s < 2**31 else np.int64)
    return sparse.csr_array((weights.ravel(), nearest.ravel(), ends), shape=(n, n_anchors))
