"""Nearest neighbors: exact where that is cheap, else approximate to a measured recall.

Points come in the order of their hashes (see `hash_ranks`). A sample is always the beginning of
that order, so that it does not depend on the order of the input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache, cached_property
from importlib import import_module
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from apportion._utils.progress import with_progress
from apportion._utils.threads import in_threads, limit_late_libraries, n_threads, slices
from apportion._utils.typing import BoolArray, FloatArray, IntArray

TREE_FEATURES = 6
"""Up to this many features, a k-d tree is the fastest search."""

FLAT_POINTS = 32_768
"""Up to this many points, all pairs are compared."""

SEARCHING = "searching neighbors"

_FEW_POINTS = 4096
"""Up to this many points, all pairs are compared in double precision."""

_LISTS = 2.0
"""There are 2 √n inverted lists."""

_SHORTLISTS = (4, 8, 16)
"""A shortlist holds this many times k points."""

_RECALL_LOSS = 0.002
"""A shortlist may lose this share of the neighbors."""

_SAMPLE = 512
"""The number of points on which the recall is measured."""

_SPARE = 4
"""Candidates beside the k nearest."""

FARTHEST = 1e15
"""Scaled coordinates are clipped to this, so that single precision holds their squares."""

_CALL_ROWS = 2**14
"""Rows that faiss searches for in one call: a second or two among a million points."""

_PAIRS = 2**20
_PART_POINTS = 2**13
_BLOCK_CELLS = 2**18
BLOCK_ROWS = 2**17
"""The size of blocks that are worked on at a time."""


class Search(ABC):
    """A search for the nearest of some points.

    Attributes
    ----------
    how : str
        A description of the search.
    recall : float
        The share of true neighbors that is found: 1, or measured on a sample.
    order : ndarray of shape (n_points,), or None
        An order of the points in which near points follow each other, if the search has one.
    """

    how: str
    recall: float = 1.0
    order: IntArray | None = None

    def __init__(self, points: FloatArray) -> None:
        self.points = points

    @abstractmethod
    def nearest(self, X: FloatArray, k: int) -> IntArray:
        """Return the k nearest points of every row of X, the nearest first."""

    def measured(self, X: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
        """Return the k nearest points of every row of X, the nearest first, and their distances."""
        neighbors = self.nearest(X, k)
        return neighbors, distances_to(X, self.points, neighbors)

    def lists(self, k: int) -> tuple[IntArray, FloatArray]:
        """Return the k nearest other points of every point, and their distances.

        The nearest is the first. They are where the search is done: in memory, or on a device.
        """
        n = len(self.points)
        neighbors: IntArray = np.empty((n, k), dtype=np.int32)
        distances = np.empty((n, k))
        order = np.arange(n) if self.order is None else self.order
        for block in with_progress(SEARCHING, slices(n, BLOCK_ROWS)):
            rows = order[block]
            found, apart = self.measured(self.points[rows], k + 1)
            others = ~itself_or_last(found, rows)
            neighbors[rows] = found[others].reshape(len(rows), k)
            distances[rows] = apart[others].reshape(len(rows), k)
        return neighbors, distances


def neighbor_search(points: FloatArray, k: int, recall: float = 0.95, device: Any = None) -> Search:
    """Return a search for the k nearest of some points, chosen by their number and features.

    On a torch device, all pairs are compared. On the processor it depends:

    With few features, a k-d tree is searched. With few points, or a recall of 1, all pairs are
    compared. Otherwise, inverted lists are searched: as many of them as are needed to find the
    share `recall` of the true neighbors.
    """
    n, d = points.shape
    if device is not None and n > 1:
        from apportion.graphs._device_search import DeviceSearch

        return DeviceSearch(points, device)
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
    """Exact search among all pairs, in double precision.

    A search by matrix products cannot order points that are nearly equally near: which of them it
    takes depends on rounding, and that on the number of threads. Therefore a few more points than
    k are asked for, and ordered by distances from differences, of equally near points the first.
    Where even the last of them may be as near as the k-th, all points are compared.
    """

    how = "exact, among all pairs"

    _rounding = 1e-13
    """The share of ‖x‖² + ‖y‖² that is rounding in the squared distances of `_candidates`."""

    def __init__(self, points: FloatArray) -> None:
        super().__init__(points)
        # Distances are differences of squares and x·y, so that an offset would only cost digits.
        self._center = np.median(points[:BLOCK_ROWS], axis=0).astype(np.float64)

    @cached_property
    def _centered(self) -> FloatArray:
        return np.asarray(self.points - self._center)

    @cached_property
    def _squared_sizes(self) -> FloatArray:
        return np.asarray((self._centered**2).sum(axis=1))

    def nearest(self, X: FloatArray, k: int) -> IntArray:
        """Return the k nearest points of every row of X, of equally near ones the first."""
        return self.measured(X, k)[0]

    def measured(self, X: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
        """Return the k nearest points, of equally near ones the first, and their distances."""
        n = len(self.points)
        width = min(k + _SPARE, n)
        candidates = np.sort(self._candidates(X, width), axis=1)
        distances = distances_to(X, self.points, candidates)
        order = np.argsort(distances, axis=1, kind="stable")
        neighbors = np.take_along_axis(candidates, order[:, :k], 1)
        distances = np.take_along_axis(distances, order, 1)
        if width < n:
            kth, last = distances[:, [k - 1, -1]].T ** 2
            unsure = np.flatnonzero(last <= kth + self._doubt(X, kth, self._rounding))

            def compare(block: slice) -> None:
                rows = unsure[block]
                neighbors[rows] = self._among_all(X[rows], k)
                distances[rows, :k] = distances_to(X[rows], self.points, neighbors[rows])

            in_threads(compare, slices(len(unsure), max(1, _PAIRS // n)))
        return neighbors, distances[:, :k]

    # Not by the search of scikit-learn, whose threads wait for each other in a busy loop: on two
    # cores that others use, too, 1,000 rows take it between 5 and 140 ms of the processor.
    def _candidates(self, X: FloatArray, width: int) -> IntArray:
        """Return the nearest points, but for rounding, in any order."""
        rows = 2.0 * (X - self._center)
        found = np.empty((len(X), width), dtype=np.intp)
        parts = slices(len(self.points), _PART_POINTS)

        def search(block: slice) -> None:
            nearest, relative = [], []
            for part in parts:
                squares = self._squared_sizes[part] - rows[block] @ self._centered[part].T
                few = min(width, squares.shape[1])
                points = np.argpartition(squares, few - 1, axis=1)[:, :few]
                nearest.append(points + part.start)
                relative.append(np.take_along_axis(squares, points, axis=1))
            best = np.argpartition(np.hstack(relative), width - 1, axis=1)[:, :width]
            found[block] = np.take_along_axis(np.hstack(nearest), best, axis=1)

        longest = min(len(self.points), _PART_POINTS)
        in_threads(search, slices(len(X), max(1, _BLOCK_CELLS // longest)))
        return found

    def _doubt(self, X: FloatArray, squares: FloatArray, rounding: float) -> FloatArray:
        """Return the rounding error of squared distances up to these from rows of X."""
        # Within a distance d of x, ‖y‖² is at most 2 ‖x‖² + 2 d².
        return rounding * (3.0 * ((X - self._center) ** 2).sum(axis=1) + 2.0 * squares)

    def _among_all(self, X: FloatArray, k: int) -> IntArray:
        """Return the k nearest of all points.

        Products only say which points are too far. All others are ordered by differences.
        """
        rows = X - self._center
        squares = self._squared_sizes - 2.0 * (rows @ self._centered.T)
        squares += (rows**2).sum(axis=1)[:, None]
        kth = np.partition(squares, k - 1, axis=1)[:, k - 1]
        reach = kth + 2.0 * self._doubt(X, kth, PairSearch._rounding)
        row, point = np.nonzero(squares <= reach[:, None])
        difference = X[row].astype(np.float64) - self.points[point]
        exact = np.einsum("id,id->i", difference, difference)
        by_distance = point[np.lexsort((point, exact, row))]
        first = np.searchsorted(row, np.arange(len(X)))
        return np.asarray(by_distance[first[:, None] + np.arange(k)])


class FlatSearch(PairSearch):
    """Exact search among all pairs, in single precision where that is enough."""

    _rounding = 1e-6
    """The same in single precision, whose unit is 6e-8."""

    def __init__(self, points: FloatArray) -> None:
        super().__init__(points)
        faiss = faiss_library()
        self._singles = SinglePrecision(points[:BLOCK_ROWS])
        self._index = faiss.IndexFlatL2(points.shape[1])
        self._index.add(self._singles(points))

    def _candidates(self, X: FloatArray, width: int) -> IntArray:
        return _searched(self._index, self._singles(X), width)[1]


class ListSearch(Search):
    """Approximate search in inverted lists: each list holds the points nearest to one center.

    Rows are searched in the lists of their nearest centers (Sivic and Zisserman, "Video Google",
    ICCV 2003; Johnson, Douze and Jégou, "Billion-Scale Similarity Search with GPUs", 2017). The
    number of lists is the least that finds the share `recall` of the true neighbors of a sample,
    with two standard errors to spare. Distances are first estimated from four bits per feature, and
    only those of a shortlist are computed, if some shortlist loses hardly any neighbor of the
    sample. With skewed features there may be none; then all distances are computed.
    """

    def __init__(self, points: FloatArray, k: int, recall: float) -> None:
        super().__init__(points)
        faiss = faiss_library()

        n, d = points.shape
        self._singles = SinglePrecision(points[:BLOCK_ROWS])
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
        list_of[self.order] = np.repeat(np.arange(self._n_lists), list(map(len, members)))

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
        neighbors = _searched(self._index, Q, k)[1]
        incomplete = np.flatnonzero(neighbors[:, -1] < 0)
        if incomplete.size:
            probes = self._lists.nprobe
            self._lists.nprobe = self._n_lists
            neighbors[incomplete] = _searched(self._index, Q[incomplete], k)[1]
            self._lists.nprobe = probes
        return neighbors

    def _fill(self, index: Any) -> None:
        for block in slices(len(self.points), BLOCK_ROWS):
            index.add(self._singles(self.points[block]))

    def _members(self, number: int) -> IntArray:
        """Return the points of one list."""
        faiss = faiss_library()

        lists = self._lists.invlists
        size = lists.list_size(number)
        ids = faiss.rev_swig_ptr(lists.get_ids(number), size) if size else np.empty(0)
        return np.array(ids, dtype=np.intp)

    def _probes(self, sample: IntArray, lists: IntArray, recall: float) -> int:
        """Return how many lists to search, given the lists of the sample's true neighbors."""
        rows = self._singles(self.points[sample])
        rank_of_list = np.argsort(self._centers.search(rows, self._n_lists)[1], axis=1)
        ranks = np.take_along_axis(rank_of_list, lists, axis=1)
        few, enough = 0, self._n_lists
        while enough - few > 1:
            middle = (few + enough) // 2
            recalls = (ranks < middle).mean(axis=1)
            error = 2.0 * recalls.std() / np.sqrt(len(sample))
            few, enough = (few, middle) if recalls.mean() - error >= recall else (middle, enough)
        return enough

    def _measure(self, sample: IntArray, truth: IntArray) -> float:
        """Return the share of the sample's true neighbors that is found."""
        rows = self.points[sample]
        neighbors = _without_self(self.nearest(rows, truth.shape[1] + 1), sample)
        farthest = distances_to(rows, self.points, truth).max(axis=1, keepdims=True)
        return float((distances_to(rows, self.points, neighbors) <= farthest * (1 + 1e-9)).mean())

    def _try_shortlists(self, sample: IntArray, truth: IntArray) -> None:
        """Use shortlists from estimated distances, if they lose hardly any neighbor."""
        faiss = faiss_library()

        d = self.points.shape[1]
        without = self._lists, self._index, self.recall
        self._lists = faiss.IndexIVFPQFastScan(self._centers, d, self._n_lists, d, 4)
        self._lists.train(self._singles(self.points[:BLOCK_ROWS]))
        self._lists.nprobe = without[0].nprobe
        self._index = faiss.IndexRefineFlat(self._lists)
        self._fill(self._index)
        for factor in _SHORTLISTS:
            self._index.k_factor = factor
            self.recall = self._measure(sample, truth)
            if self.recall >= without[2] - _RECALL_LOSS:
                return
        self._lists, self._index, self.recall = without


@cache
def faiss_library() -> Any:
    """Import faiss, and let it leave signals alone.

    On its own it runs Python's handlers while it searches, and where one of them raises an
    exception, as for Ctrl-C, it may throw that across threads of OpenMP, which kills the process.
    So handlers run once a call has returned.
    """
    faiss = import_module("faiss")
    faiss.InterruptCallback.clear_instance()
    limit_late_libraries()
    return faiss


def _searched(index: Any, Q: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
    """Return the k nearest points of rows in an index of faiss, and their squared distances.

    Signals are heeded between the calls.
    """
    blocks = slices(max(len(Q), 1), _CALL_ROWS)
    found = [index.search(Q[block], k) for block in blocks]
    return np.concatenate([one[0] for one in found]), np.concatenate([one[1] for one in found])


class SinglePrecision:
    """Conversion of points to single precision, centered and scaled by a sample.

    Points that are very far are moved nearer, so that single precision holds their squares.
    """

    def __init__(self, sample: FloatArray) -> None:
        self._center = np.median(sample, axis=0).astype(np.float64)
        sizes = np.abs(sample - self._center)
        usual = sizes[sizes > 0]
        self._scale = float(np.median(usual)) if usual.size else 1.0

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return rows in single precision."""
        scaled = (X - self._center) / self._scale
        return np.ascontiguousarray(np.clip(scaled, -FARTHEST, FARTHEST), dtype=np.float32)

    def back(self, points: FloatArray) -> FloatArray:
        """Return points in single precision in their original units."""
        return points.astype(np.float64) * self._scale + self._center


def distances_to(A: FloatArray, B: FloatArray, neighbors: IntArray) -> FloatArray:
    """Return ‖a_i - b_j‖ for the neighbors j of i, from differences, so that equal rows have 0."""
    n, k = neighbors.shape
    distances = np.empty((n, k))

    def measure(block: slice) -> None:
        difference = A[block, None, :].astype(np.float64) - B[neighbors[block]]
        distances[block] = np.sqrt(np.einsum("ikd,ikd->ik", difference, difference))

    in_threads(measure, slices(n, max(1, _BLOCK_CELLS // max(1, k * A.shape[1]))))
    return distances


def _without_self(neighbors: IntArray, rows: IntArray) -> IntArray:
    """Return the neighbors without the row itself; without the last if it is not among them."""
    n, width = neighbors.shape
    return np.asarray(neighbors[~itself_or_last(neighbors, rows)].reshape(n, width - 1))


def itself_or_last(neighbors: IntArray, rows: IntArray) -> BoolArray:
    """Return where the row itself is among its neighbors; the last place if it is not."""
    itself: BoolArray = neighbors == rows[:, None]
    itself[:, -1] |= ~itself.any(axis=1)
    return itself
