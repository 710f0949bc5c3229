"""Nearest neighbors: exact where that is cheap, else approximate to a measured recall.

Points come in an order that depends on what they hold (see `hash_ranks`): whatever is sampled
here is the beginning of that order, so that it does not depend on how the input was sorted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors

from apportion._utils.progress import with_progress
from apportion._utils.threads import in_threads, n_threads, slices
from apportion._utils.typing import FloatArray, IntArray

TREE_FEATURES = 6
"""A k-d tree beats the other searches up to this many features."""

FLAT_POINTS = 32_768
"""Up to this many points, all pairs are compared."""

SEARCHING = "searching neighbors"

_FEW_POINTS = 4096
_LISTS = 2.0
_SHORTLISTS = (4, 8, 16)
_HARDLY = 0.002
_SAMPLE = 512
_COARSE = 1e-4
_FARTHEST = 1e15
_BLOCK_CELLS = 2**18
_BLOCK_ROWS = 2**17


class Search(ABC):
    """A search for the nearest of some points.

    Attributes
    ----------
    how : str
        What is searched, in words.
    recall : float
        The share of true neighbors that is found; measured on a sample where it is not 1.
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
        for part in with_progress(SEARCHING, slices(n, _BLOCK_ROWS)):
            rows = np.arange(part.start, part.stop) if self.order is None else self.order[part]
            found[rows] = _without_self(self.nearest(self.points[rows], k + 1), rows)
        return found


def neighbor_search(points: FloatArray, k: int, recall: float = 0.95) -> Search:
    """Return a search for the nearest k of some points, chosen by their number and features.

    Few features: a k-d tree. Few points, or a recall of 1: all pairs. Else inverted lists, of which
    every row looks into as many as it takes to find the share `recall` of its true neighbors.
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
        self._center = np.median(points[:_BLOCK_ROWS], axis=0).astype(np.float64)
        self._all = NearestNeighbors(algorithm="brute").fit(points - self._center)

    def nearest(self, X: FloatArray, k: int) -> IntArray:
        """Return the k nearest points of every row of X, the nearest first."""
        return np.asarray(self._all.kneighbors(X - self._center, k, return_distance=False))


class FlatSearch(Search):
    """Search among all pairs in single precision; rows for which that is too coarse, in double."""

    how = "exact, among all pairs"

    def __init__(self, points: FloatArray) -> None:
        super().__init__(points)
        import faiss

        self._singles = SinglePrecision(points[:_BLOCK_ROWS])
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
    """Search in inverted lists: points by their nearest center, rows look into the nearest lists.

    How many lists a row looks into is what finds the share `recall` of the true neighbors of a
    sample, with two standard errors to spare. Distances in the lists are first estimated from four
    bits a feature, and those of a shortlist computed, if a shortlist is found that hardly loses a
    neighbor of the sample; where features are skewed there is none, and all are computed.
    """

    def __init__(self, points: FloatArray, k: int, recall: float) -> None:
        super().__init__(points)
        import faiss

        n, d = points.shape
        self._singles = SinglePrecision(points[:_BLOCK_ROWS])
        self._n_lists = int(_LISTS * np.sqrt(n))
        self._centers = faiss.IndexFlatL2(d)
        self._lists: Any = faiss.IndexIVFFlat(self._centers, d, self._n_lists)
        self._lists.cp.niter = 10
        self._lists.cp.min_points_per_centroid = 1
        self._lists.train(self._singles(points[: 64 * self._n_lists]))
        self._fill(self._lists)
        self._index: Any = self._lists
        members = [self._members(number) for number in range(self._n_lists)]
        self.order = np.concatenate(members)
        list_of = np.empty(n, dtype=np.intp)
        list_of[self.order] = np.repeat(np.arange(self._n_lists), [len(one) for one in members])

        sample = np.arange(min(_SAMPLE, n))
        truth = _without_self(PairSearch(points).nearest(points[sample], k + 1), sample)
        self._lists.nprobe = self._probes(sample, list_of[truth], recall)
        self.recall = self._measure(sample, truth)
        while self.recall < recall and self._lists.nprobe < self._n_lists:
            self._lists.nprobe = min(2 * self._lists.nprobe, self._n_lists)
            self.recall = self._measure(sample, truth)
        self._try_shortlists(sample, truth)
        self.how = (
            f"approximate, in {self._lists.nprobe} of {self._n_lists} inverted lists, which finds "
            f"{self.recall:.1%} of the neighbors of a sample"
        )

    def nearest(self, X: FloatArray, k: int) -> IntArray:
        """Return k near points of every row of X, the nearest first."""
        Q = self._singles(X)
        found = np.asarray(self._index.search(Q, k)[1])
        short = np.flatnonzero(found[:, -1] < 0)
        if short.size:
            probes = self._lists.nprobe
            self._lists.nprobe = self._n_lists
            found[short] = self._index.search(Q[short], k)[1]
            self._lists.nprobe = probes
        return found

    def _fill(self, index: Any) -> None:
        for part in slices(len(self.points), _BLOCK_ROWS):
            index.add(self._singles(self.points[part]))

    def _members(self, number: int) -> IntArray:
        """Return the points of one list."""
        import faiss

        lists = self._lists.invlists
        size = lists.list_size(number)
        ids = faiss.rev_swig_ptr(lists.get_ids(number), size) if size else np.empty(0)
        return np.array(ids, dtype=np.intp)

    def _probes(self, sample: IntArray, lists: IntArray, recall: float) -> int:
        """Return how many lists to look into, if the sample's neighbors are in these lists."""
        rows = self._singles(self.points[sample])
        visited = self._centers.search(rows, self._n_lists)[1]
        turn = np.empty_like(visited)
        np.put_along_axis(turn, visited, np.arange(self._n_lists)[None, :], axis=1)
        turns = np.take_along_axis(turn, lists, axis=1)
        few, enough = 0, self._n_lists
        while enough - few > 1:
            middle = (few + enough) // 2
            found = (turns < middle).mean(axis=1)
            error = 2.0 * found.std() / np.sqrt(len(sample))
            few, enough = (few, middle) if found.mean() - error >= recall else (middle, enough)
        return enough

    def _measure(self, sample: IntArray, truth: IntArray) -> float:
        """Return the share of the sample's true neighbors that is found."""
        rows = self.points[sample]
        found = _without_self(self.nearest(rows, truth.shape[1] + 1), sample)
        farthest = distances_to(rows, self.points, truth).max(axis=1, keepdims=True)
        return float((distances_to(rows, self.points, found) <= farthest * (1 + 1e-9)).mean())

    def _try_shortlists(self, sample: IntArray, truth: IntArray) -> None:
        """Estimate distances before they are computed, if the sample allows."""
        import faiss

        d = self.points.shape[1]
        whole = self._lists, self._index, self.recall
        self._lists = faiss.IndexIVFPQFastScan(self._centers, d, self._n_lists, d, 4)
        self._lists.train(self._singles(self.points[:_BLOCK_ROWS]))
        self._lists.nprobe = whole[0].nprobe
        self._index = faiss.IndexRefineFlat(self._lists)
        self._fill(self._index)
        for factor in _SHORTLISTS:
            self._index.k_factor = factor
            self.recall = self._measure(sample, truth)
            if self.recall >= whole[2] - _HARDLY:
                return
        self._lists, self._index, self.recall = whole


class SinglePrecision:
    """Points in single precision, centerd and scaled by a sample; what is very far is moved nearer.

    So single precision holds the squares of all of them.
    """

    def __init__(self, sample: FloatArray) -> None:
        self._center = np.median(sample, axis=0).astype(np.float64)
        sizes = np.abs(sample - self._center)
        usual = sizes[sizes > 0]
        self._scale = float(np.median(usual)) if usual.size else 1.0

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return rows in single precision."""
        scaled = (X - self._center) / self._scale
        return np.ascontiguousarray(np.clip(scaled, -_FARTHEST, _FARTHEST), dtype=np.float32)

    def back(self, points: FloatArray) -> FloatArray:
        """Return points in single precision where they came from."""
        return points.astype(np.float64) * self._scale + self._center


def distances_to(A: FloatArray, B: FloatArray, neighbors: IntArray) -> FloatArray:
    """Return ‖a_i - b_j‖ for j among i's neighbors: exact, so that equal rows are at 0."""
    n, k = neighbors.shape
    distances = np.empty((n, k))

    def measure(part: slice) -> None:
        difference = A[part, None, :].astype(np.float64) - B[neighbors[part]]
        distances[part] = np.sqrt(np.einsum("ikd,ikd->ik", difference, difference))

    in_threads(measure, slices(n, max(1, _BLOCK_CELLS // max(1, k * A.shape[1]))))
    return distances


def _without_self(found: IntArray, rows: IntArray) -> IntArray:
    """Return the neighbors without the row itself; without the last where it is not among them."""
    n, width = found.shape
    itself = found == rows[:, None]
    itself[:, -1] |= ~itself.any(axis=1)
    return np.asarray(found[~itself].reshape(n, width - 1))
