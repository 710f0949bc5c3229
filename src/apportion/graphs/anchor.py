"""The graph that grows with n: rows tied to each other through a few anchors."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from apportion._io.archive import FLAGS, Stored
from apportion._utils.hashing import hash_sample, row_hashes, scramble
from apportion._utils.memory import refuse_if_too_large
from apportion._utils.progress import report_progress, with_progress
from apportion._utils.threads import BLOCK_ROWS, blockwise, in_threads, slices
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray, UIntArray
from apportion.graphs._neighbors import FlatSearch, SinglePrecision, distances_to
from apportion.graphs._row_blocks import multiply, some_rows, transposed
from apportion.graphs.base import FAR, Affinity, Graph

_MOST_ANCHORS = 1000
_ROWS_PER_ANCHOR = 64
_NEGLIGIBLE = 1e-12
_LEAST = 1e-3
_ROUNDING = 1e-6

_TYING = "tying rows to anchors"


class AnchorGraph(Graph):
    """Similarities `W = Z Λ⁻¹ Zᵀ` through anchors: linear in the number of rows.

    Every row is tied to its nearest anchors, the centers of k-means, by weights
    z_ia ∝ exp(-d_ia² / σ_i²) that sum to one, σ_i being the distance to the farthest of them;
    Λ = diag(Zᵀ1). Two rows are similar when they are tied to the same anchors. Every degree is 1.
    The diagonal of W is not 0, which changes nothing in propagation; where neighbors are heard, a
    row does not hear itself.

    Rows are read in blocks, in the precision they have, so that they may lie on disk
    (`numpy.load(..., mmap_mode="r")`).

    Parameters
    ----------
    n_anchors : "auto" or int, default="auto"
        The number of anchors m: `"auto"` is 10 √n and at most 1,000. There are never more anchors
        than different rows.
    n_nearest : int, default=5
        The number of anchors a row is tied to.

    Attributes
    ----------
    anchors_ : ndarray of shape (n_anchors, n_features)
        The anchors.
    ties_ : sparse array of shape (n_samples, n_anchors)
        Z: every row's weights on its anchors.
    masses_ : ndarray of shape (n_anchors,)
        The diagonal of Λ.
    degrees_ : ndarray of shape (n_samples,)
        One for every row.

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

    anchors_: FloatArray
    ties_: Any
    masses_: FloatArray
    _shared: FloatArray | None = None

    def __init__(self, n_anchors: str | int = "auto", n_nearest: int = 5) -> None:
        self.n_anchors = n_anchors
        self.n_nearest = n_nearest

    def fit(self, X: Any) -> Self:
        """Choose the anchors and tie the rows of X to them."""
        wanted = self.wanted_anchors(len(X))
        report_progress("choosing anchors")
        sample = X[hash_sample(X, rows_for_anchors(wanted))]
        anchors, center = anchors_of(sample, wanted)
        report_progress(_TYING, 0.0)
        Z, nearest, closest, scales = self.ties_of(X, FlatSearch(anchors))

        used = np.unique(nearest)
        if len(used) < len(anchors):
            nearest = np.searchsorted(used, nearest).astype(np.int32)
        self.anchors_ = anchors[used]
        self._search = FlatSearch(self.anchors_)
        m = len(used)
        self.masses_ = np.bincount(nearest.ravel(), Z.ravel(), m).astype(np.float64)
        self.ties_ = sparse_rows(Z, nearest, m)
        self.degrees_ = np.ones(len(X))
        self._own = np.einsum("is,is->i", Z, Z / self.masses_[nearest])
        self._components = None
        self._shared = None

        near = nearness(self.anchors_, center, nearest[:, 0], closest, scales)
        self._usual_scales = usual_scales(near, self._search)
        self._anchor_is_row = near.same > 0
        self._all_equal = all(bool((X[part] == X[0]).all()) for part in self._parts)
        return self

    def multiply(self, F: FloatArray) -> FloatArray:
        """Return W F."""
        return self.from_anchors(self.prototype_labels(F))

    def similar_rows(self, rows: IntArray) -> Affinity:
        """Return W[rows], less what a row is to itself: how similar these rows are to others."""
        W = sparse.csr_array(self.ties_[rows] @ sparse.diags_array(1.0 / self.masses_))
        W = sparse.coo_array(W @ self.ties_.T)
        others = rows[W.row] != W.col
        return sparse.csr_array(
            (W.data[others], (W.row[others], W.col[others])), shape=(len(rows), self.n_samples_)
        )

    def features_of(self, rows: IntArray) -> FloatArray:
        """Return the means of fitted rows' anchors, which stand in for their features."""
        return np.asarray(self.ties_[rows] @ self.anchors_)

    def hashes(self) -> UIntArray:
        """Return a hash of every row's ties."""
        weights, anchors = (
            row_hashes(one.reshape(self.n_samples_, -1))
            for one in (self.ties_.data, self.ties_.indices)
        )
        return scramble(weights ^ scramble(anchors))

    def neighbor_mean(self, F: FloatArray) -> FloatArray:
        """Return what each row hears from the others, 0 where there are none."""
        from_all = self.multiply(F)
        return blockwise(from_others, from_all, F, self._own[:, None], out=from_all)

    def prototype_labels(self, F: FloatArray) -> FloatArray:
        """Return Λ⁻¹ Zᵀ F: what the anchors say when a row asks."""
        return self.to_anchors(F) / self.masses_[:, None]

    @property
    def strengths(self) -> FloatArray:
        """How strongly each row is tied to others: 1 - w_ii."""
        return without_own(self._own)

    def crowded_rows(self) -> IntArray:
        """Return all rows where all are equal, else none."""
        return np.arange(self.n_samples_ if self._all_equal and self.n_samples_ > 1 else 0)

    def components(self) -> tuple[int, IntArray]:
        """Return the number of connected components and each row's component; found once."""
        if self._components is None:
            number, labels = anchor_components(self.shared_ties())
            first = self.ties_.indices[self.ties_.indptr[:-1]]
            self._components = number, labels[first]
        return self._components

    def affinities(self, X: Any) -> tuple[Affinity, BoolArray]:
        """Return the weights of new rows on the anchors, and which rows are far from them."""
        Z, nearest, squares, _ = self.ties_of(X, self._search)
        far = squares > FAR * self._usual_scales[nearest[:, 0]]
        return sparse_rows(Z, nearest, len(self.anchors_)), far

    def state(self) -> dict[str, AnyArray]:
        """Return the anchors, what is far from them, and which of them are single rows."""
        return {
            "anchors": self.anchors_,
            "usual_scales": self._usual_scales,
            "anchor_is_row": self._anchor_is_row,
        }

    @classmethod
    def from_state(cls, parameters: Mapping[str, Any], state: Mapping[str, AnyArray]) -> Self:
        """Return a graph for new rows only: `affinities` answers as that of the graph stored."""
        graph = cls(**parameters)
        graph.wanted_anchors(1)
        graph.anchors_ = state["anchors"]
        graph._search = FlatSearch(graph.anchors_)
        graph._usual_scales = state["usual_scales"]
        graph._anchor_is_row = state["anchor_is_row"]
        return graph

    def rows_in_state(self) -> str:
        """Return how many means of rows are in `state`, and how many of these are rows.

        The mean of one row, or of equal rows, is that row, to single precision.
        """
        n, n_samples = len(self.anchors_), int(self._anchor_is_row.sum())
        means = f"{n:,} mean{'s' * (n != 1)} of training rows"
        return f"{means}, of which {n_samples:,} equal a training row" if n_samples else means

    def to_anchors(self, F: FloatArray) -> FloatArray:
        """Return Zᵀ F: what the rows give to their anchors."""

        def give(part: slice) -> FloatArray:
            return transposed(some_rows(self.ties_, part)) @ F[part]

        return np.asarray(sum(in_threads(give, self._parts)))

    def from_anchors(self, A: FloatArray) -> FloatArray:
        """Return Z A: what the rows receive from their anchors."""
        return multiply(self.ties_, A)

    def shared_ties(self) -> FloatArray:
        """Return Zᵀ Z: how much any two anchors share; found once."""
        if self._shared is None:
            m = len(self.masses_)
            refuse_if_too_large(f"AnchorGraph, with {m} anchors,", 3 * 8 * m * m, "fewer anchors")
            shared = np.zeros((m, m))
            for part in self._parts:
                Z = some_rows(self.ties_, part)
                shared += (transposed(Z) @ Z).toarray()
            self._shared = shared
        return self._shared

    def __getstate__(self) -> dict[str, Any]:
        # Where a graph goes, what its anchors share is found again by who needs it.
        return {**super().__getstate__(), "_shared": None}

    @property
    def _parts(self) -> list[slice]:
        return slices(self.n_samples_, BLOCK_ROWS)

    def ties_of(
        self, X: Any, search: FlatSearch
    ) -> tuple[FloatArray, IntArray, FloatArray, FloatArray]:
        """Return rows' weights, their anchors, and the least and greatest squared distance."""
        s = min(self.n_nearest, len(search.points))
        Z: FloatArray = np.empty((len(X), s))
        nearest: IntArray = np.empty((len(X), s), dtype=np.int32)
        closest: FloatArray = np.empty(len(X))
        scales: FloatArray = np.empty(len(X))
        for part in with_progress(_TYING, slices(len(X), BLOCK_ROWS)):
            rows = np.asarray(X[part])
            nearest[part] = search.nearest(rows, s)
            squares = distances_to(rows, search.points, nearest[part]) ** 2
            farthest = squares.max(axis=1, keepdims=True)
            weights = np.exp(-squares / np.where(farthest > 0, farthest, 1.0))
            Z[part] = weights / weights.sum(axis=1, keepdims=True)
            closest[part], scales[part] = squares.min(axis=1), farthest[:, 0]
        return Z, nearest, closest, scales

    def wanted_anchors(self, n: int) -> int:
        """Return how many anchors are wanted for n rows."""
        if not isinstance(self.n_nearest, Integral) or self.n_nearest < 1:
            raise ValueError(
                "The 'n_nearest' parameter of AnchorGraph must be an int of at least 1. "
                f"Got {self.n_nearest!r}."
            )
        if isinstance(self.n_anchors, str) and self.n_anchors == "auto":
            return min(int(10 * np.sqrt(n)), _MOST_ANCHORS)
        whole = isinstance(self.n_anchors, Integral) and not isinstance(self.n_anchors, bool)
        if not whole or int(self.n_anchors) < 1:
            raise ValueError(
                "The 'n_anchors' parameter of AnchorGraph must be 'auto' or an int of at least 1. "
                f"Got {self.n_anchors!r}."
            )
        return int(self.n_anchors)


def anchor_components(shared: FloatArray) -> tuple[int, IntArray]:
    """Return the number of connected components and each anchor's component, from Zᵀ Z."""
    number, labels = connected_components(shared > _NEGLIGIBLE, directed=False)
    return int(number), labels.astype(np.intp)


def rows_for_anchors(wanted: int) -> int:
    """Return of how many rows so many anchors are the centers."""
    return _ROWS_PER_ANCHOR * wanted


def anchors_of(sample: FloatArray, wanted: int) -> tuple[FloatArray, FloatArray]:
    """Return the anchors of a sample of rows, in the order of their hashes, and its center."""
    singles = SinglePrecision(sample)
    anchors = singles.back(_centers(singles(sample), wanted))
    return anchors, singles.back(np.zeros(sample.shape[1]))


class Nearness(NamedTuple):
    """How near rows are to the anchor that is nearest to them, added up by anchors.

    Attributes
    ----------
    rows : ndarray of shape (n_anchors,)
        How many rows there are.
    scales : ndarray of shape (n_anchors,)
        Their squared distances to the farthest anchor they are tied to.
    same : ndarray of shape (n_anchors,)
        How many of them equal the anchor, up to rounding.
    """

    rows: FloatArray
    scales: FloatArray
    same: FloatArray


def nearness(
    anchors: FloatArray,
    center: FloatArray,
    first: IntArray,
    closest: FloatArray,
    scales: FloatArray,
) -> Nearness:
    """Return how near rows are to their nearest anchors.

    Parameters
    ----------
    anchors : ndarray of shape (n_anchors, n_features)
        The anchors.
    center : ndarray of shape (n_features,)
        Where numbers are small, and so is their rounding.
    first : ndarray of shape (n_samples,)
        Each row's nearest anchor.
    closest, scales : ndarray of shape (n_samples,)
        The squared distances to it, and to the farthest anchor that the row is tied to.
    """
    m = len(anchors)
    sizes = np.linalg.norm(anchors - center, axis=1)
    same = first[closest <= (_ROUNDING * sizes[first]) ** 2]
    return Nearness(
        np.bincount(first, minlength=m).astype(np.float64),
        np.bincount(first, scales, m).astype(np.float64),
        np.bincount(same, minlength=m).astype(np.float64),
    )


def usual_scales(near: Nearness, search: FlatSearch) -> FloatArray:
    """Return the squared distance that is usual among the rows nearest to each anchor."""
    usual = near.scales / np.maximum(near.rows, 1.0)
    usual = np.maximum(usual, _LEAST * usual.mean())
    anchors = search.points
    if len(anchors) == 1:
        return usual
    # As far as the next anchor is not far, even where every row is an anchor.
    apart = distances_to(anchors, anchors, search.nearest(anchors, 2)).max(axis=1)
    return np.maximum(usual, apart**2 / FAR)


def without_own(own: FloatArray) -> FloatArray:
    """Return how strongly rows are tied to others, from how strongly they are to themselves."""
    return np.maximum(1.0 - own - 1e-12, 0.0)


def from_others(from_all: FloatArray, F: FloatArray, own: FloatArray) -> FloatArray:
    """Return what rows hear, less what they say themselves, over the weight of the others."""
    others = without_own(own)
    return np.where(others > 0, (from_all - own * F) / np.maximum(others, 1e-12), 0.0)


def sparse_rows(Z: FloatArray, nearest: IntArray, n_anchors: int) -> Any:
    """Return the weights of rows, equally many each, as a sparse array."""
    n, s = Z.shape
    ends = np.arange(0, n * s + 1, s, dtype=np.int32 if n * s < 2**31 else np.int64)
    return sparse.csr_array((Z.ravel(), nearest.ravel(), ends), shape=(n, n_anchors))


def _centers(sample: FloatArray, wanted: int) -> FloatArray:
    """Return the centers of k-means, or all different points where there are no more."""
    import faiss

    different, places = np.unique(sample, axis=0, return_index=True)
    if len(different) <= wanted:
        return np.ascontiguousarray(different)
    starts = np.ascontiguousarray(sample[np.sort(places)[:wanted]])
    means = faiss.Kmeans(sample.shape[1], wanted, niter=10)
    means.cp.min_points_per_centroid, means.cp.max_points_per_centroid = 1, len(sample)
    means.train(sample, init_centroids=starts)
    return np.asarray(means.centroids)
