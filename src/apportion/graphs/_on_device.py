"""Graphs on a device: what multiplies soft labels that are there.

A graph answers `products()` with one of these classes if its `device` is a GPU, or with itself if
soft labels are in memory. The algorithm asks nothing else of a graph while it iterates.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from apportion._utils.arrays import arange, full, namespace, to_device, to_numpy, zeros
from apportion._utils.device import free_on_device, triton_runs
from apportion._utils.typing import FloatArray, IntArray
from apportion.exceptions import Advice
from apportion.graphs._products import AnchoredProducts, Products

NEGLIGIBLE = 1e-8
"""An edge weaker than this share of both its rows' degrees does not connect them."""

_TILE = 8192
"""Rows and columns of a dense matrix that are computed at a time: half a gigabyte."""

_CELLS = 2**27
"""Similarities that are computed at a time where they are not held: a gigabyte."""

_LOST, _LOST_BY_SPARSIFIED = 1e-18, 0.1
"""The share of a row's degree that similarities left out of it may have together: in place of the
graph, and beside it, where they usually have less than a hundredth."""

_MOST_KEPT, _MOST_KEPT_OF_FEW, _SAMPLED = 1 / 16, 1 / 4, 512
"""The share of all similarities, or of those of a sparse graph, that may be left for another sparse
graph, whose products are then several times faster; and the rows by which it is estimated."""

_MOST_SIMILARITIES = 2**31 - 1
"""Similarities of a sparse graph on a device, which are counted in 32 bits."""


class DeviceProducts(Products):
    """Products with W on a device, and the connected components of W."""

    @abstractmethod
    def components(self) -> tuple[int, IntArray]:
        """Return the number of connected components and each row's component, in memory."""


class SparseProducts(DeviceProducts):
    """A sparse graph on a device.

    Parameters
    ----------
    data, columns : tensors of shape (n_similarities,)
        The similarities, row by row, and their columns.
    lengths : tensor of shape (n_samples,)
        How many similarities each row has.
    """

    def __init__(self, data: Any, columns: Any, lengths: Any) -> None:
        import torch

        from apportion._utils.tensors import Segments, ends_of

        if len(data) > _MOST_SIMILARITIES:
            facts = f"The graph has {len(data):,} similarities, and a device takes "
            raise MemoryError(Advice(f"{facts}{_MOST_SIMILARITIES:,}.", "Use {device:cpu}."))
        n, self._lengths = len(lengths), lengths
        with warnings.catch_warnings():
            # torch calls products with sparse tensors a beta; the product is all that is used.
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            self._matrix = torch.sparse_csr_tensor(
                ends_of(lengths).int(), columns.int(), data, (n, n), check_invariants=False
            )
        self.degrees_ = Segments(lengths).sum(data)

    @classmethod
    def from_scipy(cls, W: Any, device: Any) -> SparseProducts:
        """Return a sparse array on a device."""
        arrays = W.data, W.indices, np.diff(W.indptr).astype(np.int64)
        return cls(*(to_device(array, device) for array in arrays))

    def to_scipy(self) -> Any:
        """Return the similarities in memory."""
        W = self._matrix
        arrays = (to_numpy(part) for part in (W.values(), W.col_indices(), W.crow_indices()))
        return sparse.csr_array(tuple(arrays), shape=tuple(W.shape))

    def multiply(self, F: FloatArray) -> FloatArray:
        """Return W F."""
        return self._matrix @ F

    def components(self) -> tuple[int, IntArray]:
        """Return the number of connected components and each row's component, in memory."""
        rows, others, strong = self._above(NEGLIGIBLE)
        if not strong.all():
            rows, others = rows[strong], others[strong]
        return _components(self.n_samples_, rows, others.long())

    def _above(self, share: float) -> tuple[Any, Any, Any]:
        """Return rows, columns, and which similarities are above a share of either one's degree."""
        floors = share * self.degrees_
        rows = arange(len(floors), floors).repeat_interleave(self._lengths)
        values, others = self._matrix.values(), self._matrix.col_indices()
        strong = values > floors[rows]
        if not strong.all():
            strong |= values > floors[others]
        return rows, others, strong


# Every row takes the least number among its neighbors, so does the row that its number names, and
# numbers are followed until they lead no further (Shiloach & Vishkin, 1982; Zhang, Azad & Buluç,
# "Parallel algorithms for finding connected components using linear algebra", 2020). The least
# number of a component spreads through it in about as many rounds as its size has digits.
def _components(n: int, rows: Any, others: Any) -> tuple[int, IntArray]:
    """Return the components of a symmetric graph, given by the two ends of every edge."""
    import torch

    least = torch.arange(n, device=rows.device)
    while True:
        before = least
        near = least.scatter_reduce(0, rows, least[others], "amin")
        least = near.scatter_reduce(0, before, near, "amin")
        while not torch.equal(followed := least[least], least):
            least = followed
        if torch.equal(least, before):
            break
    names, component = torch.unique(least, return_inverse=True)
    return len(names), np.asarray(to_numpy(component), dtype=np.intp)


class _AllPairs(DeviceProducts):
    """A dense graph on a device; subclasses hold its rows or compute them."""

    @abstractmethod
    def rows(self, rows: Any) -> Any:
        """Return W[rows]."""

    def sparsified(self) -> SparseProducts | None:
        """Return the strongest similarities if they are few."""
        return _strongest(self, _LOST_BY_SPARSIFIED)

    def components(self) -> tuple[int, IntArray]:
        """Return the number of connected components and each row's component, in memory."""
        n = self.n_samples_
        floors = NEGLIGIBLE * self.degrees_
        component = full(n, -1, floors)
        number, some = 0, max(1, _CELLS // n)
        while (component < 0).any():
            frontier = (component < 0).nonzero()[:1, 0]
            component[frontier] = number
            # A block of rows usually reaches all others: the search ends as soon as none is left.
            while len(frontier) and (component < 0).any():
                block, frontier = frontier[:some], frontier[some:]
                near = self.rows(block) > namespace(floors).minimum(floors, floors[block][:, None])
                fresh = (near.any(0) & (component < 0)).nonzero()[:, 0]
                component[fresh] = number
                frontier = namespace(floors).concatenate([frontier, fresh])
            number += 1
        return number, np.asarray(to_numpy(component), dtype=np.intp)


class DenseProducts(_AllPairs):
    """A dense graph that a device holds.

    Parameters
    ----------
    W : tensor of shape (n_samples, n_samples)
        The similarities.
    """

    def __init__(self, W: Any) -> None:
        self.W = W
        self.degrees_ = W.sum(1)

    def multiply(self, F: FloatArray) -> FloatArray:
        """Return W F."""
        return self.W @ F

    def rows(self, rows: Any) -> Any:
        """Return W[rows]."""
        return self.W[rows]


def gaussian_products(X: FloatArray, gamma: float, device: Any) -> DeviceProducts:
    """Return `w_ij = exp(-γ ‖x_i - x_j‖²)` on a device.

    They are held if they fit there, else computed anew in every product. If few of them are above
    rounding, only these are held.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    gamma : float
        γ.
    device : torch.device
        The device.
    """
    free, n = free_on_device(device), len(X)
    beside = 64 * min(n, _TILE) ** 2 + 2000 * n  # tiles, and soft labels
    held = free is None or 8 * n**2 + beside <= free
    scaled = np.sqrt(gamma) * (X.astype(np.float64) - np.median(X, axis=0))
    rows = to_device(scaled, device)
    pairs = DenseProducts(_gaussian(rows)) if held else KernelProducts(rows)
    return _strongest(pairs, _LOST) or pairs


class _Strongest(SparseProducts):
    """The strongest similarities of a dense graph."""

    def sparsified(self) -> SparseProducts | None:
        """Return the strongest of them if they are few, and if there is memory to find them."""
        values, n = self._matrix.values(), self.n_samples_
        if not _room_to_choose(len(values), values.device):
            return None
        rows, others, strong = self._above(_LOST_BY_SPARSIFIED / n)
        if int(strong.sum()) > _MOST_KEPT_OF_FEW * len(values):
            return None
        return SparseProducts(values[strong], others[strong], rows[strong].bincount(minlength=n))


def _strongest(pairs: _AllPairs, lost: float) -> _Strongest | None:
    """Return the strongest similarities of a dense graph if they are few.

    All those left out of a row together have less than a share of its degree. With a large γ,
    nearly all similarities are so small that this is below rounding.
    """
    n, degrees = pairs.n_samples_, pairs.degrees_
    least, some = lost / n * degrees, min(n, max(1, _CELLS // n))

    def above(rows: Any) -> tuple[Any, Any]:
        W = pairs.rows(rows)
        return W, (least < W) | (least[rows][:, None] < W)

    sampled = min(some, _SAMPLED)
    kept = float(above(arange(sampled, degrees) * n // sampled)[1].double().mean()) * n * n
    if kept > min(_MOST_KEPT * n * n, 2**30) or not _room_to_choose(kept, degrees.device):
        return None
    data, columns, counts = [], [], []
    for first in range(0, n, some):
        W, large = above(arange(min(some, n - first), degrees) + first)
        places = large.nonzero(as_tuple=True)
        data.append(W[places])
        columns.append(places[1].int())
        counts.append(large.sum(1))
    return _Strongest(*map(namespace(degrees).concatenate, (data, columns, counts)))


def _room_to_choose(n_similarities: float, device: Any) -> bool:
    """Return whether a device has the memory to choose among so many similarities."""
    free = free_on_device(device)
    return free is None or 48 * n_similarities <= free


def _gaussian(X: Any) -> Any:
    """Return exp(-‖x_i - x_j‖²) of all pairs, exactly symmetric, and 0 on the diagonal."""
    import torch

    W = torch.empty((len(X), len(X)), dtype=X.dtype, device=X.device)
    edges = [*range(0, len(X), _TILE), len(X)]
    blocks = [slice(*ends) for ends in pairwise(edges)]
    for number, block in enumerate(blocks):
        for other in blocks[number:]:
            tile = _similarities(X[block], X[other])
            if other is block:
                tile = tile.triu(1)
                tile += tile.T.clone()
            W[block, other] = tile
            W[other, block] = tile.T
    return W


def _similarities(A: Any, B: Any) -> Any:
    """Return exp(-‖a_i - b_j‖²)."""
    squares = A @ B.T
    squares *= -2.0
    squares += (A * A).sum(1)[:, None]
    squares += (B * B).sum(1)
    return squares.clamp_(min=0.0).neg_().exp_()


_MOST_IN_KERNELS = 2**30
"""Features of all rows together that kernels take, which count in 32 bits."""


class KernelProducts(_AllPairs):
    """The dense graph `exp(-‖x_i - x_j‖²)`, of which nothing is held: it is computed in products.

    On a GPU, similarities have single precision and sums double precision. They follow from
    differences, so that w_ij and w_ji are equal to the last bit.

    Parameters
    ----------
    X : tensor of shape (n_samples, n_features)
        The rows.
    """

    def __init__(self, X: Any) -> None:
        self._X = X
        self._columns = None
        if triton_runs(X.device) and X.numel() < _MOST_IN_KERNELS:
            from apportion.graphs import _kernel_sums

            self._sums = _kernel_sums.kernel_sums
            self._columns = _kernel_sums.in_columns(X)
        self.degrees_ = self.multiply(X.new_ones((len(X), 1)))[:, 0]

    def multiply(self, F: FloatArray) -> FloatArray:
        """Return W F."""
        if self._columns is not None:
            return self._sums(self._columns, F)
        product = namespace(F).empty_like(F)
        some = max(1, _CELLS // len(F))
        for first in range(0, len(F), some):
            block = slice(first, min(first + some, len(F)))
            product[block] = self.rows(arange(block.stop - first, F) + first) @ F
        return product

    def rows(self, rows: Any) -> Any:
        """Return W[rows]."""
        W = _similarities(self._X[rows], self._X)
        W[arange(len(rows), rows), rows] = 0.0
        return W


class TiedProducts(Products):
    """A graph on a device, with edges between rows that follow each other in time.

    Parameters
    ----------
    inner : Products
        The graph.
    edges : SparseProducts
        The edges in time.
    """

    def __init__(self, inner: Products, edges: SparseProducts) -> None:
        self._inner, self._edges = inner, edges
        self.degrees_ = inner.degrees_ + edges.degrees_

    def multiply(self, F: FloatArray) -> FloatArray:
        """Return W F."""
        return self._inner.multiply(F) + self._edges.multiply(F)

    def sparsified(self) -> Products | None:
        """Return the strongest similarities if they are few, with all edges in time."""
        inner = self._inner.sparsified()
        return None if inner is None else TiedProducts(inner, self._edges)


class AnchorProducts(AnchoredProducts):
    """An anchor graph on a device.

    Parameters
    ----------
    weights, nearest : tensors of shape (n_samples, n_nearest)
        Each row's weights on its anchors, and these anchors.
    masses : tensor of shape (n_anchors,)
        The diagonal of Λ.
    own : tensor of shape (n_samples,)
        The similarity of each row to itself.
    edges : SparseProducts, optional
        Edges in time.
    """

    def __init__(
        self,
        weights: Any,
        nearest: Any,
        masses: Any,
        own: Any,
        edges: SparseProducts | None = None,
    ) -> None:
        from apportion._utils.tensors import Segments

        self._weights, self._nearest = weights, nearest
        self.masses_, self._own, self._edges = masses, own, edges
        self._shared: FloatArray | None = None
        # Rows in the order of their anchors, so that the sums of an anchor are those of a run.
        order = nearest.flatten().argsort(stable=True)
        self._rows_by_anchor = order // nearest.shape[1]
        self._weights_by_anchor = weights.flatten()[order]
        counts = nearest.flatten().bincount(minlength=len(masses))
        self._anchors = Segments(counts)
        self.degrees_ = full(len(own), 1.0, own)
        if edges is not None:
            self.degrees_ += edges.degrees_

    @property
    def only_anchors(self) -> bool:
        """Whether there are no edges in time."""
        return self._edges is None

    def to_anchors(self, F: FloatArray) -> FloatArray:
        """Return Zᵀ F: the sums over the rows of each anchor."""
        weights, rows = self._weights_by_anchor[:, None], self._rows_by_anchor
        some = max(1, _CELLS // len(rows))
        parts = [
            self._anchors.sum(weights * F[:, first : first + some][rows])
            for first in range(0, F.shape[1], some)
        ]
        return parts[0] if len(parts) == 1 else namespace(F).hstack(parts)

    def from_anchors(self, A: FloatArray) -> FloatArray:
        """Return Z A: the weighted mean of A over each row's anchors."""
        product = self._weights[:, :1] * A[self._nearest[:, 0]]
        for s in range(1, self._nearest.shape[1]):
            product += self._weights[:, s : s + 1] * A[self._nearest[:, s]]
        return product

    def shared_ties(self) -> FloatArray:
        """Return Zᵀ Z, in memory."""
        if self._shared is not None:
            return self._shared
        m = len(self.masses_)
        shared = zeros((m, m), self.masses_)
        some = max(1, _CELLS // m)
        for first in range(0, len(self._nearest), some):
            block = slice(first, first + some)
            Z = zeros((len(self._nearest[block]), m), self.masses_)
            Z.scatter_(1, self._nearest[block], self._weights[block])
            shared += Z.T @ Z
        self._shared = np.asarray(to_numpy(shared))
        return self._shared

    def _along_time(self, F: FloatArray) -> FloatArray:
        assert self._edges is not None, "only asked for where there are edges in time"
        return self._edges.multiply(F)
