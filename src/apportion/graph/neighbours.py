"""Nearest neighbours: exact where that is cheap, else approximate to a measured recall.

Points come in an order that depends on what they hold (see `hash_ranks`): whatever is sampled
here is the beginning of that order, so that it does not depend on how the input was sorted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors

from apportion._typing import FloatArray, IntArray
from apportion.threads import in_threads, n_threads, slices

TREE_FEATURES = 6
"""A k-d tree beats the other searches up to this many features."""

FLAT_POINTS = 32_768
"""Up to this many points, all pairs are compared."""

_FEW_POINTS = 4096
_LISTS = 4.0
_SAMPLE = 512
_COARSE = 1e-4
_BLOCK_CELLS = 2**18
_BLOCK_ROWS = 2**17


class Search(ABC):
    """A search for the nearest of some points.

    Attributes
    ----------
    how : str
        What is searched, in words.
    recall : float
        The share of true neighbours that is found; measured on a sample where it is not 1.
    order : ndarray of shape (n_points,), or None
        An order of the points in which near ones stand together, where the search knows one.
    """

    how: str
    recall: float = 1.0
    order: IntArray | None = None

    def __init__(self, points: FloatArray) -> None:
        self.points = points

    @abstractmethod
    def nearest(self, X: FloatArray, k: int) -> IntArray:
        """Return the k nearest points of every row of X, the nearest first."""

    def lists(self, k: int) -> IntArray:
        """Return the k nearest other points of every point, the nearest first."""
        n = len(self.points)
        found: IntArray = np.empty((n, k), dtype=np.int32)
        for part in slices(n, _BLOCK_ROWS):
            rows = np.arange(part.start, part.stop) if self.order is None else self.order[part]
            found[rows] = _without_self(self.nearest(self.points[rows], k + 1), rows)
        return found


def neighbour_search(points: FloatArray, k: int, recall: float = 0.95) -> Search:
    """Return a search for the nearest k of some points, chosen by their number and features.

    Few features: a k-d tree. Few points, or a recall of 1: all pairs. Else inverted lists, of which
    every row looks into as many as it takes to find the share `recall` of its true neighbours.
    """
    n, d = points.shape
    if d <= TREE_FEATURES:
        return TreeSearch(points)
    if n <= _FEW_POINTS:
        return PairSearch(points)
    if n <= FLAT_POINTS or recall == 1.0:
        return FlatSearch(points)
    return ListSearch(points, k, recall)


class TreeSearch(Search):
    """Exact search in a k-d tree."""

    how = "exact, in a k-d tree"

    def __init__(self, points: FloatArray) -> None:
        super().__init__(points)
        self._tree = cKDTree(points)

    def nearest(self, X: FloatArray, k: int) -> IntArray:
        """Return the k nearest points of every row of X, the nearest first."""
        return np.asarray(self._tree.query(X, np.arange(1, k + 1), workers=n_threads())[1])


class PairSearch(Search):
    """Exact search among all pairs, in double precision."""

    how = "exact, among all pairs"

    def __init__(self, points: FloatArray) -> None:
        super().__init__(points)
        # x·y is subtracted from squares: what all points share would only cost digits.
        self._centre = np.median(points[:_BLOCK_ROWS], axis=0).astype(points.dtype)
        self._all = NearestNeighbors(algorithm="brute").fit(points - self._centre)

    def nearest(self, X: FloatArray, k: int) -> IntArray:
        """Return the k nearest points of every row of X, the nearest first."""
        return np.asarray(self._all.kneighbors(X - self._centre, k, return_distance=False))


class FlatSearch(Search):
    """Search among all pairs in single precision; rows for which that is too coarse, in double."""

    how = "exact, among all pairs"

    def __init__(self, points: FloatArray) -> None:
        super().__init__(points)
        import faiss

        self._singles = SinglePrecision(points, points[:_BLOCK_ROWS])
        self._index = faiss.IndexFlatL2(points.shape[1])
        self._index.add(self._singles(points))
        self._pairs = PairSearch(points)

    def nearest(self, X: FloatArray, k: int) -> IntArray:
        """Return the k nearest points of every row of X, the nearest first."""
        Q = self._singles(X)
        squares, found = self._index.search(Q, k)
        # ‖x‖² + ‖y‖² - 2 x·y is off by some 1e-7 ‖x‖², of which squared distances must be free.
        coarse = squares[:, -1] <= _COARSE * np.einsum("id,id->i", Q, Q)
        if coarse.any():
            found[coarse] = self._pairs.nearest(X[coarse], k)
        return np.asarray(found)


class ListSearch(Search):
    """Search in inverted lists: points by their nearest centre, rows look into the nearest lists.

    How many lists a row looks into is what finds the share `recall` of the true neighbours of a
    sample, with one standard error to spare.
    """

    def __init__(self, points: FloatArray, k: int, recall: float) -> None:
        super().__init__(points)
        import faiss

        n, d = points.shape
        self._singles = SinglePrecision(points, points[:_BLOCK_ROWS])
        self._n_lists = int(_LISTS * np.sqrt(n))
        self._index = faiss.IndexIVFFlat(faiss.IndexFlatL2(d), d, self._n_lists)
        self._index.cp.niter = 10
        self._index.cp.min_points_per_centroid = 1
        self._index.train(self._singles(points[: 64 * self._n_lists]))
        for part in slices(n, _BLOCK_ROWS):
            self._index.add(self._singles(points[part]))
        members = [self._members(number) for number in range(self._n_lists)]
        self.order = np.concatenate(members)
        list_of = np.empty(n, dtype=np.intp)
        list_of[self.order] = np.repeat(np.arange(self._n_lists), [len(one) for one in members])
        self._tune(k, recall, list_of)
        self.how = (
            f"approximate, in {self._index.nprobe} of {self._n_lists} inverted lists, which finds "
            f"{self.recall:.1%} of the neighbours of a sample"
        )

    def nearest(self, X: FloatArray, k: int) -> IntArray:
        """Return k near points of every row of X, the nearest first."""
        import faiss

        Q = self._singles(X)
        found = self._index.search(Q, k)[1]
        short = np.flatnonzero(found[:, -1] < 0)
        if short.size:
            everywhere = faiss.SearchParametersIVF()
            everywhere.nprobe = self._n_lists
            found[short] = self._index.search(Q[short], k, params=everywhere)[1]
        return np.asarray(found)

    def _members(self, number: int) -> IntArray:
        import faiss

        lists: Any = self._index.invlists
        size = lists.list_size(number)
        ids = faiss.rev_swig_ptr(lists.get_ids(number), size) if size else np.empty(0)
        return np.array(ids, dtype=np.intp)

    def _tune(self, k: int, recall: float, list_of: IntArray) -> None:
        """Set the number of lists to look into, and measure what it finds."""
        sample = np.arange(min(_SAMPLE, len(self.points)))
        rows = self.points[sample]
        truth = _without_self(PairSearch(self.points).nearest(rows, k + 1), sample)
        visited = self._index.quantizer.search(self._singles(rows), self._n_lists)[1]
        turn = np.empty_like(visited)
        np.put_along_axis(turn, visited, np.arange(self._n_lists)[None, :], axis=1)
        turns = np.take_along_axis(turn, list_of[truth], axis=1)
        few, enough = 0, self._n_lists
        while enough - few > 1:
            middle = (few + enough) // 2
            found = (turns < middle).mean(axis=1)
            error = found.std() / np.sqrt(len(sample))
            few, enough = (few, middle) if found.mean() - error >= recall else (middle, enough)
        self._index.nprobe = enough
        found = _without_self(self.nearest(rows, k + 1), sample)
        self.recall = float((found[:, :, None] == truth[:, None, :]).any(axis=1).mean())


class SinglePrecision:
    """Points in single precision, centred and scaled so that it holds their squares."""

    def __init__(self, points: FloatArray, sample: FloatArray) -> None:
        self._centre = np.median(sample, axis=0).astype(np.float64)
        largest = max(
            float(np.abs(points[part] - self._centre).max(initial=0.0))
            for part in slices(len(points), _BLOCK_ROWS)
        )
        self._scale = largest if largest > 0 else 1.0

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return rows in single precision."""
        return np.ascontiguousarray((X - self._centre) / self._scale, dtype=np.float32)

    def back(self, points: FloatArray) -> FloatArray:
        """Return points in single precision where they came from."""
        return points.astype(np.float64) * self._scale + self._centre


def distances_to(A: FloatArray, B: FloatArray, neighbours: IntArray) -> FloatArray:
    """Return ‖a_i - b_j‖ for j among i's neighbours: exact, so that equal rows are at 0."""
    n, k = neighbours.shape
    distances = np.empty((n, k))

    def measure(part: slice) -> None:
        difference = A[part, None, :].astype(np.float64) - B[neighbours[part]]
        distances[part] = np.sqrt(np.einsum("ikd,ikd->ik", difference, difference))

    in_threads(measure, slices(n, max(1, _BLOCK_CELLS // max(1, k * A.shape[1]))))
    return distances


def _without_self(found: IntArray, rows: IntArray) -> IntArray:
    """Return the neighbours without the row itself; without the last where it is not among them."""
    n, width = found.shape
    itself = found == rows[:, None]
    itself[:, -1] |= ~itself.any(axis=1)
    return np.asarray(found[~itself].reshape(n, width - 1))
