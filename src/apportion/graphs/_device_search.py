"""Exact nearest neighbors on a device, through torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion._utils.arrays import arange, full, to_device, to_numpy
from apportion._utils.device import (
    INSTEAD_OF_DEVICE,
    refuse_on_device,
    torch_device,
    triton_runs,
)
from apportion._utils.progress import with_progress
from apportion._utils.threads import slices
from apportion._utils.typing import FloatArray, IntArray
from apportion.graphs._neighbors import (
    BLOCK_ROWS,
    FARTHEST,
    SEARCHING,
    Search,
    itself_or_last,
    neighbor_search,
)

_SPARE = 8
"""Candidates beside the k nearest, so that rounding seldom decides which rows are candidates."""

_ERROR, _ERROR_PER_FEATURE, _ERROR_OF_TENSOR_CORES = 4e-6, 6e-8, 2e-3
"""Values in single precision, ‖y‖² - 2 x·y, are exact up to the first share of ‖x‖² + ‖y‖²; with
many features, up to the second for each; if torch may round factors to ten bits, up to the third.
"""

_MOST_IN_BINS = 256
"""Bins, of which there are 512, seldom lose a point among so many candidates."""

_BYTES_PER_FEATURE, _LEAST_FEATURES, _BYTES_PER_SEARCHED_ROW = 36, 16, 2**14
"""Bytes of the device per feature of a row, which it holds in both precisions, and in double
precision twice more while the proof fails for some rows; of at least so many features; and per row
of a block that is searched. With a tile, 3.7 and 6.4 GiB for 10⁶ rows of 20 and of 100 features,
where 1.9 and 5.3 GiB were measured."""

_TILE_ROWS, _TILE_POINTS = 2**12, 2**15
"""Rows and points of a tile that is written to memory."""

_CELLS = 2**24
"""Differences of features that are held at a time."""


def search_bytes(n_rows: int, n_features: int) -> int:
    """Return the most bytes of a device that a search among so many rows takes."""
    return (
        _BYTES_PER_FEATURE * n_rows * max(n_features, _LEAST_FEATURES)
        + _BYTES_PER_SEARCHED_ROW * min(n_rows, BLOCK_ROWS)
        + 8 * min(n_rows, _TILE_ROWS) * min(n_rows, _TILE_POINTS)
    )


# The k nearest points are found in three steps. In single precision, k and a few more candidates
# are chosen: by bins that hold two points each (`_bin_kernels`), or tile by tile. It is proved that
# no other point can be among the k nearest: its value would have to be below that of the k-th
# candidate plus twice the largest error. That may be so if the last candidate is, or if a bin may
# have lost a third point; such points are counted. Rows that fail the proof choose their candidates
# in double precision. The candidates are then ordered by distances from differences.
class DeviceSearch(Search):
    """Search among all pairs on a device; exact, as in double precision."""

    def __init__(self, points: FloatArray, device: Any) -> None:
        super().__init__(points)
        self._device = device
        n, d = points.shape
        refuse_on_device(
            f"The search for the neighbors of {n:,} rows",
            n,
            lambda rows: search_bytes(rows, d),
            device,
            INSTEAD_OF_DEVICE,
        )
        self.how = f"exact, among all pairs, on {device.type}"
        self._in_bins = False
        if triton_runs(device):
            from apportion.graphs import _bin_kernels as kernels

            self._kernels = kernels
            # Kernels count in 32 bits.
            self._in_bins = n * max(16, 2 * d) < 2**31 and kernels.tiles_fit(device, d)
        self._doubles = self._double(points)
        # Single precision holds rows that are centered and scaled: see `SinglePrecision`.
        sample = self._doubles[:BLOCK_ROWS]
        self._center = sample.median(0)[0]
        sizes = (sample - self._center).abs()
        usual = sizes[sizes > 0]
        self._scale = float(usual.median()) if len(usual) else 1.0
        self._points = self._single(self._doubles)
        self._norms = (self._points * self._points).sum(1)

    def __reduce__(self) -> Any:
        # Tensors do not travel: the search is built again where it is read.
        return _search_again, (self.points,)

    def nearest(self, X: FloatArray, k: int) -> IntArray:
        """Return the k nearest points of every row of X, the nearest first."""
        return self.measured(X, k)[0]

    def measured(self, X: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
        """Return the k nearest points of every row of X, the nearest first, and their distances."""
        neighbors = np.empty((len(X), k), dtype=np.int64)
        distances = np.empty((len(X), k))
        for block in slices(len(X), BLOCK_ROWS):
            D = self._double(X[block])
            nearest = self._nearest(self._single(D), D, k)
            neighbors[block], distances[block] = map(to_numpy, nearest)
        return neighbors, distances

    def lists(self, k: int) -> tuple[Any, Any]:
        """Return the k nearest other points of every point, and their distances, on the device."""
        n = len(self.points)
        neighbors = full((n, k), 0, self._doubles)
        distances = full((n, k), 0.0, self._doubles)
        for block in with_progress(SEARCHING, slices(n, BLOCK_ROWS)):
            rows = arange(block.stop - block.start, self._doubles) + block.start
            nearest = self._nearest(self._points[block], self._doubles[block], k + 1)
            others = ~itself_or_last(nearest[0], rows)
            neighbors[block], distances[block] = (part[others].reshape(-1, k) for part in nearest)
        return neighbors, distances

    def _nearest(self, Q: Any, D: Any, k: int) -> tuple[Any, Any]:
        """Return the k nearest points of rows, given in single and in double precision."""
        width = min(k + _SPARE, len(self.points))
        values, candidates, second = self._candidates(Q, width)
        limits = self._limits(Q, values, candidates, k, in_tiles=second is None)
        unproved = values[:, -1] <= limits if width < len(self.points) else limits < limits
        if second is not None:
            lost = (second <= limits[:, None]).any(1) & ~unproved
            rows = lost.nonzero()[:, 0]
            counts = self._kernels.count_up_to(Q[rows], self._points, self._norms, limits[rows])
            unproved[rows] = counts != (values[rows] <= limits[rows, None]).sum(1)
        rows = unproved.nonzero()[:, 0]
        if len(rows):
            centered = self._doubles - self._center
            norms = (centered * centered).sum(1)
            candidates[rows] = self._in_tiles(D[rows] - self._center, centered, norms, width)[1]
        return self._nearest_of(D, candidates, k)

    def _candidates(self, Q: Any, width: int) -> tuple[Any, Any, Any]:
        """Return values and points of candidates, and the second values of bins if there are."""
        if not self._in_bins or width > _MOST_IN_BINS:
            return (*self._in_tiles(Q, self._points, self._norms, width), None)
        values, points = self._kernels.least_in_bins(Q, self._points, self._norms)
        least, places = values.topk(width, largest=False, sorted=True)
        return least, points.gather(1, places).long(), values[:, values.shape[1] // 2 :]

    def _limits(self, Q: Any, values: Any, candidates: Any, k: int, in_tiles: bool) -> Any:
        """Return the values below which a point may be among the k nearest."""
        share = _ERROR
        if in_tiles:  # products of torch, of any number of features
            rounded = _ERROR_OF_TENSOR_CORES if _rounds_factors(Q) else 0.0
            share = max(_ERROR, _ERROR_PER_FEATURE * Q.shape[1], rounded)
        error = share * ((Q * Q).sum(1) + self._norms[candidates[:, :k]].amax(1))
        return values[:, k - 1] + 2.0 * error

    def _nearest_of(self, D: Any, candidates: Any, k: int) -> tuple[Any, Any]:
        """Return the k nearest of the candidates, of equally near ones the first, and distances."""
        candidates = candidates.sort(1)[0]
        distances = full(tuple(candidates.shape), 0.0, D)
        rows = max(1, _CELLS // (candidates.shape[1] * D.shape[1]))
        for first in range(0, len(D), rows):
            some = slice(first, first + rows)
            away = D[some, None, :] - self._doubles[candidates[some]]
            distances[some] = (away * away).sum(2).sqrt()
        distances, order = distances.sort(dim=1, stable=True)
        return candidates.gather(1, order[:, :k]), distances[:, :k]

    def _in_tiles(self, Q: Any, X: Any, norms: Any, width: int) -> tuple[Any, Any]:
        """Return the least values and their points: of each tile, then of those together."""
        import torch

        parts_of_rows = []
        for first in range(0, len(Q), _TILE_ROWS):
            q = Q[first : first + _TILE_ROWS]
            parts = []
            for start in range(0, len(X), _TILE_POINTS):
                x = X[start : start + _TILE_POINTS]
                tile = q @ x.T
                tile *= -2.0
                tile += norms[start : start + _TILE_POINTS]
                values, points = tile.topk(min(width, len(x)), largest=False)
                parts.append((values, points + start))
            values, points = (torch.cat(part, 1) for part in zip(*parts, strict=True))
            values, places = values.topk(width, largest=False, sorted=True)
            parts_of_rows.append((values, points.gather(1, places)))
        values, points = (torch.cat(part) for part in zip(*parts_of_rows, strict=True))
        return values, points

    def _double(self, X: FloatArray) -> Any:
        return to_device(np.asarray(X), self._device).double()

    def _single(self, D: Any) -> Any:
        scaled = (D - self._center) / self._scale
        singles = scaled.clip(-FARTHEST, FARTHEST).float()
        return self._kernels.padded(singles) if self._in_bins else singles


def _rounds_factors(Q: Any) -> bool:
    """Return whether torch may round the factors of products in single precision."""
    import torch

    if not Q.is_cuda:
        return False
    try:
        return torch.get_float32_matmul_precision() != "highest"
    except RuntimeError:  # the precision was set in another way, which this function does not read
        return True


def _search_again(points: FloatArray) -> Search:
    """Return an exact search among points: on a GPU if there is one."""
    return neighbor_search(points, 1, recall=1.0, device=torch_device("auto"))
