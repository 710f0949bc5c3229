"""The graph that grows with n: rows tied to each other through a few anchors."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from apportion._typing import BoolArray, FloatArray, IntArray
from apportion.graph.base import FAR, Affinity, Graph
from apportion.graph.neighbours import FlatSearch, SinglePrecision, distances_to
from apportion.hashing import hash_sample
from apportion.memory import refuse_if_too_large
from apportion.threads import in_threads, slices

_MOST_ANCHORS = 1000
_ROWS_PER_ANCHOR = 64
_BLOCK_ROWS = 2**16
_NEGLIGIBLE = 1e-12
_LEAST = 1e-3


class AnchorGraph(Graph):
    """Similarities `W = Z Λ⁻¹ Zᵀ` through anchors: linear in the number of rows.

    Every row is tied to its nearest anchors, the centres of k-means, by weights
    z_ia ∝ exp(-d_ia² / σ_i²) that sum to one, σ_i being the distance to the farthest of them;
    Λ = diag(Zᵀ1). Two rows are similar when they are tied to the same anchors. Every degree is 1.
    The diagonal of W is not 0, which changes nothing in propagation; where neighbours are heard, a
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
    ties_ : sparse array of shape (n_rows, n_anchors)
        Z: every row's weights on its anchors.
    masses_ : ndarray of shape (n_anchors,)
        The diagonal of Λ.
    degrees_ : ndarray of shape (n_rows,)
        One for every row.

    Examples
    --------
    >>> import numpy as np
    >>> graph = AnchorGraph(n_anchors=2, n_nearest=1).fit(np.array([[0.0], [1.0], [9.0]]))
    >>> np.sort(graph.anchors_.ravel()).round(3)
    array([0.5, 9. ])
    """

    anchors_: FloatArray
    ties_: Any
    masses_: FloatArray

    def __init__(self, n_anchors: str | int = "auto", n_nearest: int = 5) -> None:
        self.n_anchors = n_anchors
        self.n_nearest = n_nearest

    def fit(self, X: Any) -> Self:
        """Choose the anchors and tie the rows of X to them."""
        wanted = self._wanted_anchors(len(X))
        sample = X[hash_sample(X, _ROWS_PER_ANCHOR * wanted)]
        singles = SinglePrecision(sample)
        anchors = singles.back(_centres(singles(sample), wanted))
        Z, nearest, _, scales = self._tied(X, FlatSearch(anchors))

        used = np.unique(nearest)
        if len(used) < len(anchors):
            nearest = np.searchsorted(used, nearest).astype(np.int32)
        self.anchors_ = anchors[used]
        self._search = FlatSearch(self.anchors_)
        m = len(used)
        self.masses_ = np.bincount(nearest.ravel(), Z.ravel(), m).astype(np.float64)
        self.ties_ = _sparse_rows(Z, nearest, m)
        self.degrees_ = np.ones(len(X))
        self._own = np.einsum("is,is->i", Z, Z / self.masses_[nearest])
        self._components = None

        rows = np.maximum(np.bincount(nearest[:, 0], minlength=m), 1)
        usual = np.bincount(nearest[:, 0], scales, m) / rows
        self._usual_scales = np.maximum(usual, _LEAST * usual.mean())
        if m > 1:  # as far as the next anchor is not far, even where every row is an anchor
            apart = distances_to(self.anchors_, self.anchors_, self._search.lists(1))[:, 0]
            self._usual_scales = np.maximum(self._usual_scales, apart**2 / FAR)
        self._all_equal = all(bool((X[part] == X[0]).all()) for part in self._parts)
        return self

    def multiply(self, F: FloatArray) -> FloatArray:
        """Return W F."""
        return self.from_anchors(self.voices(F))

    def hear(self, F: FloatArray) -> FloatArray:
        """Return what each row hears from the others, 0 where there are none."""
        said = self.voices(F)
        heard = np.empty_like(F)

        def listen(part: slice) -> None:
            own = self._own[part, None]
            others = _without_own(own)
            from_others = self._ties(part) @ said - own * F[part]
            heard[part] = np.where(others > 0, from_others / np.maximum(others, 1e-12), 0.0)

        in_threads(listen, self._parts)
        return heard

    def voices(self, F: FloatArray) -> FloatArray:
        """Return Λ⁻¹ Zᵀ F: what the anchors say when a row asks."""
        return self.to_anchors(F) / self.masses_[:, None]

    @property
    def strengths(self) -> FloatArray:
        """How strongly each row is tied to others: 1 - w_ii."""
        return _without_own(self._own)

    def crowded_rows(self) -> IntArray:
        """Return all rows where all are equal, else none."""
        return np.arange(self.n_rows_ if self._all_equal and self.n_rows_ > 1 else 0)

    def components(self) -> tuple[int, IntArray]:
        """Return the number of connected components and each row's component; found once."""
        if self._components is None:
            number, labels = connected_components(self.shared_ties() > _NEGLIGIBLE, directed=False)
            first = self.ties_.indices[self.ties_.indptr[:-1]]
            self._components = int(number), labels[first].astype(np.intp)
        return self._components

    def affinities(self, X: Any) -> tuple[Affinity, BoolArray]:
        """Return the weights of new rows on the anchors, and which rows are far from them."""
        Z, nearest, squares, _ = self._tied(X, self._search)
        far = squares > FAR * self._usual_scales[nearest[:, 0]]
        return _sparse_rows(Z, nearest, len(self.anchors_)), far

    def to_anchors(self, F: FloatArray) -> FloatArray:
        """Return Zᵀ F: what the rows give to their anchors."""
        parts = in_threads(lambda part: self._ties(part).T @ F[part], self._parts)
        return np.asarray(sum(parts))

    def from_anchors(self, A: FloatArray) -> FloatArray:
        """Return Z A: what the rows receive from their anchors."""
        received = np.empty((self.n_rows_, A.shape[1]))

        def receive(part: slice) -> None:
            received[part] = self._ties(part) @ A

        in_threads(receive, self._parts)
        return received

    def shared_ties(self) -> FloatArray:
        """Return Zᵀ Z: how much any two anchors share."""
        m = len(self.masses_)
        refuse_if_too_large(f"AnchorGraph, with {m} anchors,", 3 * 8 * m * m, "fewer anchors")
        shared = np.zeros((m, m))
        for part in self._parts:
            Z = self._ties(part)
            shared += (Z.T @ Z).toarray()
        return shared

    @property
    def _parts(self) -> list[slice]:
        return slices(self.n_rows_, _BLOCK_ROWS)

    def _ties(self, part: slice) -> Any:
        """Return some rows of Z, without a copy."""
        s = int(self.ties_.indptr[1])
        cells = slice(part.start * s, part.stop * s)
        ends = np.arange(0, (part.stop - part.start) * s + 1, s, dtype=np.int32)
        return sparse.csr_array(
            (self.ties_.data[cells], self.ties_.indices[cells], ends),
            shape=(part.stop - part.start, self.ties_.shape[1]),
        )

    def _tied(
        self, X: Any, search: FlatSearch
    ) -> tuple[FloatArray, IntArray, FloatArray, FloatArray]:
        """Return rows' weights, their anchors, and the least and greatest squared distance."""
        s = min(self.n_nearest, len(search.points))
        Z: FloatArray = np.empty((len(X), s))
        nearest: IntArray = np.empty((len(X), s), dtype=np.int32)
        closest: FloatArray = np.empty(len(X))
        scales: FloatArray = np.empty(len(X))
        for part in slices(len(X), _BLOCK_ROWS):
            rows = np.asarray(X[part])
            nearest[part] = search.nearest(rows, s)
            squares = distances_to(rows, search.points, nearest[part]) ** 2
            farthest = squares.max(axis=1, keepdims=True)
            weights = np.exp(-squares / np.where(farthest > 0, farthest, 1.0))
            Z[part] = weights / weights.sum(axis=1, keepdims=True)
            closest[part], scales[part] = squares.min(axis=1), farthest[:, 0]
        return Z, nearest, closest, scales

    def _wanted_anchors(self, n: int) -> int:
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


def _without_own(own: FloatArray) -> FloatArray:
    return np.maximum(1.0 - own - 1e-12, 0.0)


def _sparse_rows(Z: FloatArray, nearest: IntArray, n_anchors: int) -> Any:
    """Return the weights of rows, equally many each, as a sparse array."""
    n, s = Z.shape
    ends = np.arange(0, n * s + 1, s, dtype=np.int32 if n * s < 2**31 else np.int64)
    return sparse.csr_array((Z.ravel(), nearest.ravel(), ends), shape=(n, n_anchors))


def _centres(sample: FloatArray, wanted: int) -> FloatArray:
    """Return the centres of k-means, or all different points where there are no more."""
    import faiss

    different, places = np.unique(sample, axis=0, return_index=True)
    if len(different) <= wanted:
        return np.ascontiguousarray(different)
    starts = np.ascontiguousarray(sample[np.sort(places)[:wanted]])
    means = faiss.Kmeans(sample.shape[1], wanted, niter=10)
    means.cp.min_points_per_centroid, means.cp.max_points_per_centroid = 1, len(sample)
    means.train(sample, init_centroids=starts)
    return np.asarray(means.centroids)
