"""The base class of all graphs of similar rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator

from apportion._io.archive import Stored
from apportion._utils.arrays import to_device, to_numpy
from apportion._utils.device import (
    DEVICES,
    INSTEAD_OF_DEVICE,
    refuse_on_device,
    torch_device,
)
from apportion._utils.hashing import scramble
from apportion._utils.parameters import check_parameters
from apportion._utils.sequences import Sequences
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray, UIntArray
from apportion.graphs._on_device import (
    NEGLIGIBLE,
    DenseProducts,
    DeviceProducts,
    SparseProducts,
    TiedProducts,
)
from apportion.graphs._products import Affinity, AnchoredProducts, Products
from apportion.graphs._row_blocks import multiply

FAR = 50.0
"""A new row is far from a fitted one when their similarity is below exp(-50)."""

_EQUALLY_SMOOTH = 1e-9
"""Smoothness that differs by no more than this is equal, but for rounding."""

_TENTH = 0.1
"""The weight of edges in time counts neighbors of equal similarity, of which a row has ten."""


class Graph(Products, BaseEstimator, ABC):
    """Similarities `W` of rows: symmetric, nonnegative, with a zero diagonal.

    A graph never sees bags. New rows are compared with its prototypes, which are the fitted rows or
    the anchors.

    Attributes
    ----------
    affinity_ : ndarray or sparse array of shape (n_samples, n_samples)
        The similarities W; not for `AnchorGraph`. Those on a device are fetched when asked for.
    degrees_ : ndarray of shape (n_samples,)
        The row sums of W.
    locality : ndarray of shape (n_samples,), or None
        An order of the rows in which similar rows are near each other, if it speeds up products.
    """

    sees_features: ClassVar[bool] = True
    stored: ClassVar[Mapping[str, Stored]] = {}
    """The form of the arrays in `state`."""
    prototype_kind: ClassVar[str] = "rows"
    """What new rows are compared with: "rows" or "anchors"."""

    device: str = "cpu"
    """Where similarities are computed and multiplied; a parameter of the subclasses."""
    instead_of_device: ClassVar[str] = INSTEAD_OF_DEVICE
    """What to do about rows that do not fit on a device, as a hint."""

    degrees_: FloatArray
    locality: IntArray | None = None
    time_weight: float = 0.0
    """The weight of edges between rows that follow each other in time."""
    _untied: Graph | None = None
    _components: tuple[int, IntArray] | None = None
    _affinity: Affinity = None
    _device: Any = None
    """The torch device that similarities are on; None if they are in memory."""
    _edges: Affinity = None
    """The edges in time that were added to a graph on a device."""
    _on_device: Any = None
    """What multiplies soft labels there, once it was asked for."""

    @abstractmethod
    def fit(self, X: Any) -> Self:
        """Compute the similarities of the rows of X."""

    @abstractmethod
    def affinities(self, X: Any) -> tuple[Affinity, BoolArray]:
        """Return the similarities of new rows to the prototypes, and which new rows are isolated.

        Similarities are relative to the largest of their row. Only ratios matter for a weighted
        mean of neighbors, and relative similarities do not underflow, however far a row is. A row
        is isolated if its similarity to every fitted row is below exp(-50).

        Parameters
        ----------
        X : array-like of shape (n_new, n_features)
            The new rows.

        Returns
        -------
        similarities : ndarray or sparse array of shape (n_new, n_prototypes)
            The relative similarities.
        isolated : ndarray of bool, of shape (n_new,)
            The isolated rows.
        """

    def state(self) -> dict[str, AnyArray]:
        """Return the arrays that `affinities` needs, in the form that `stored` describes."""
        raise NotImplementedError(f"A {type(self).__name__} cannot be stored.")

    @classmethod
    def from_state(cls, parameters: Mapping[str, Any], state: Mapping[str, AnyArray]) -> Self:
        """Return a graph for new rows only, with the `affinities` of the stored graph."""
        raise NotImplementedError(f"A {cls.__name__} cannot be stored.")

    def rows_in_state(self) -> str:
        """Describe what `state` reveals of the fitted rows."""
        raise NotImplementedError(f"A {type(self).__name__} cannot be stored.")

    @property
    def n_candidates(self) -> int:
        """The number of graphs that `candidates` yields."""
        return 1

    def candidates(self, X: Any) -> Iterator[Graph]:
        """Yield the fitted graphs to choose from: only this one, unless a parameter is a grid."""
        graph = self.fit(X)
        if graph._device is None:  # as a graph of another package, whose `fit` knows no device
            graph._device = torch_device(graph.device, quiet=True)
        yield graph

    def arranged(self) -> Graph:
        """Return the same sparse graph with its rows in the order of `locality`."""
        rows = self.locality
        assert rows is not None, "only a graph with a locality is arranged"
        position = np.argsort(rows).astype(np.int32)
        W = self.affinity_[rows]
        number, labels = self.components()
        other = copy(self)
        other._affinity = sparse.csr_array((W.data, position[W.indices], W.indptr), shape=W.shape)
        other.degrees_ = self.degrees_[rows]
        other._components = number, labels[rows]
        other.locality = None
        return other

    def tied_in_time(self, sequences: Sequences, weight: float) -> Graph:
        """Return the same graph with edges between rows that follow each other in time.

        Parameters
        ----------
        sequences : Sequences
            Which rows follow each other, and how closely.
        weight : float
            The weight of such an edge at the usual step, in tenths of the mean degree: as much as
            that many of ten neighbors.

        Returns
        -------
        Graph
            A graph on which soft labels are propagated; new rows are compared as before.
        """
        other = copy(self)
        other.time_weight, other._untied = weight, self.untied
        if not weight:
            return other
        edges = self._edges_in_time(sequences, weight)
        if self._device is None:
            return other._set_affinity(_sum(self.affinity_, edges))
        other._edges, other._affinity, other._on_device = edges, None, None
        other.degrees_ = self.degrees_ + np.asarray(edges.sum(axis=1)).ravel()
        other._components = joined_components(*self.components(), edges)
        return other

    @property
    def untied(self) -> Graph:
        """The same graph without edges in time: which rows have similar features."""
        return self if self._untied is None else self._untied

    def _edges_in_time(self, sequences: Sequences, weight: float) -> Affinity:
        return sequences.edges() * (weight * _TENTH * self.degrees_.mean())

    @property
    def affinity_(self) -> Affinity:
        """The similarities W, in memory."""
        if not hasattr(self, "degrees_"):
            raise AttributeError(f"This {type(self).__name__} is not fitted to rows.")
        if self._affinity is None:
            self._affinity = (
                self._fetched() if self._edges is None else _sum(self.untied.affinity_, self._edges)
            )
        return self._affinity

    def _fetched(self) -> Affinity:
        """Return the similarities, without edges in time, from the device that holds them."""
        raise AttributeError("An anchor graph holds no similarities of single rows.")

    def products(self) -> Products:
        """Return what multiplies soft labels where they are worked on.

        Returns
        -------
        Products
            The graph itself; with a device, its similarities there.
        """
        if self._device is None:
            return self
        if self._on_device is None:
            self._on_device = self._sent()
        return self._on_device

    def _sent(self) -> Products:
        """Return the similarities on the device."""
        if self._edges is not None:
            edges = SparseProducts.from_scipy(self._edges, self._device)
            return TiedProducts(self.untied.products(), edges)
        W = self.affinity_
        if sparse.issparse(W):
            return SparseProducts.from_scipy(W, self._device)
        what, instead = f"A dense graph of {len(W):,} rows", self.instead_of_device
        refuse_on_device(what, len(W), lambda rows: 8 * rows**2, self._device, instead)
        return DenseProducts(to_device(W, self._device))

    @property
    def device_(self) -> Any:
        """The torch device on which soft labels are worked on; None if they are in memory."""
        return self._device

    def device_bytes(self, n_rows: int, n_features: int, n_classes: int) -> int:
        """Return about how many bytes of a device so many rows take, with their soft labels."""
        return n_rows * 150 * max(n_classes, 2)

    def in_memory(self) -> Graph:
        """Return the same graph with its similarities in memory."""
        if self._device is None:
            return self
        other = copy(self)
        if not isinstance(self, AnchoredProducts):
            other._affinity = self.affinity_
        other._device = other._on_device = other._edges = None
        return other

    def leave_device(self) -> None:
        """Free the memory of the device that holds nothing but copies."""
        is_copy = self._affinity is not None or self._edges is not None
        if is_copy or isinstance(self, AnchoredProducts):
            self._on_device = None
        if self._untied is not None:
            self._untied.leave_device()

    def _set_device(self) -> None:
        """Forget what was fitted before, and find the device that was asked for."""
        check_parameters(self, {"device": DEVICES})
        self._forget()
        self._device = torch_device(self.device)

    def _restore_device(self) -> None:
        """Find a device for a graph that was fitted on one; it is also used where there is none."""
        check_parameters(self, {"device": DEVICES})
        self._device = None if self.device == "cpu" else torch_device("auto")

    def _forget(self) -> None:
        """Forget what was fitted before."""
        self._affinity = self._on_device = self._device = self._components = None
        self._edges = self._untied = None
        self.time_weight = 0.0

    def _set_affinity(self, W: Affinity) -> Self:
        self._affinity, self._on_device = W, None
        self._components = None
        self.degrees_ = np.asarray(W.sum(axis=1)).ravel()
        return self

    def _set_products(self, products: Products) -> Self:
        self._affinity, self._on_device = None, products
        self._components = None
        self.degrees_ = to_numpy(products.degrees_)
        return self

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __getstate__(self) -> dict[str, Any]:
        # What is on a device does not travel: the graph is in memory where it is read.
        if self._on_device is not None and not isinstance(self._on_device, AnchoredProducts):
            self._affinity = self.affinity_
        return {**super().__getstate__(), "_on_device": None, "_device": None}

    def multiply(self, F: FloatArray) -> FloatArray:
        """Return W F."""
        if self._device is not None:
            return to_numpy(self.products().multiply(to_device(F, self._device)))
        return multiply(self.affinity_, F)

    def similar_rows(self, rows: IntArray) -> Affinity:
        """Return W[rows], the similarities of some rows to all rows."""
        return self.affinity_[rows]

    def features_of(self, rows: IntArray) -> FloatArray | None:
        """Return the features of fitted rows, or None if the graph does not keep any."""
        return None

    def hashes(self) -> UIntArray:
        """Return a hash of each row's features, or of its position if these are unknown."""
        return scramble(np.arange(self.n_samples_, dtype=np.uint64))

    def weak_rows(self, floor: float = 1e-2) -> IntArray:
        """Return the rows whose strength is at most `floor` times the mean."""
        return np.flatnonzero(self.strengths <= floor * self.strengths.mean())

    def prototype_labels(self, F: FloatArray) -> FloatArray:
        """Return the soft labels of the prototypes from those of the rows."""
        return F

    def crowded_rows(self) -> IntArray:
        """Return the rows that equal so many others that distances do not tell them apart."""
        return np.empty(0, dtype=np.intp)

    def components(self) -> tuple[int, IntArray]:
        """Return the number of connected components and each row's component.

        They are computed once. An edge weaker than 1e-8 times the smaller degree of its two rows
        does not connect them.
        """
        if self._components is None:
            products = self.products()
            self._components = (
                products.components()
                if isinstance(products, DeviceProducts)
                else _components(self.affinity_, NEGLIGIBLE * self.degrees_)
            )
        return self._components


def smoothest(smoothness: Sequence[float] | FloatArray) -> IntArray:
    """Return the positions of the largest values; values that differ by rounding are equal.

    Parameters
    ----------
    smoothness : sequence of float
        The smoothness of some labelings.

    Returns
    -------
    ndarray of int
        The positions of the smoothest labelings.
    """
    values = np.asarray(smoothness)
    return np.flatnonzero(values >= values.max() - _EQUALLY_SMOOTH)


def _sum(W: Affinity, edges: Affinity) -> Affinity:
    return sparse.csr_array(W + edges) if sparse.issparse(W) else W + edges


def joined_components(number: int, labels: IntArray, edges: Affinity) -> tuple[int, IntArray]:
    """Return the components of rows if those of some are joined by edges."""
    ends = sparse.coo_array(edges)
    joins = sparse.csr_array(
        (np.ones(ends.nnz), (labels[ends.row], labels[ends.col])), shape=(number, number)
    )
    number, joined = connected_components(joins, directed=False)
    return int(number), joined[labels].astype(np.intp)


def _components(W: Affinity, floors: FloatArray) -> tuple[int, IntArray]:
    """Return the components connected by edges above the lower floor of their two rows."""
    if not sparse.issparse(W):
        return _dense_components(W, floors)
    strong = W.data > np.repeat(floors, np.diff(W.indptr))
    if not strong.all():
        strong |= W.data > floors[W.indices]
        ends = np.append(0, np.cumsum(strong))[W.indptr]
        W = sparse.csr_array((W.data[strong], W.indices[strong], ends), shape=W.shape)
    # W is symmetric, so that its components are its strong ones, which need no transposed copy.
    number, labels = connected_components(W, connection="strong")
    return int(number), labels.astype(np.intp)


def _dense_components(W: FloatArray, floors: FloatArray) -> tuple[int, IntArray]:
    """Return the components of a dense graph by breadth-first search, without a copy of it."""
    component = np.full(len(W), -1, dtype=np.intp)
    number = 0
    while (component < 0).any():
        frontier = np.flatnonzero(component < 0)[:1]
        component[frontier] = number
        while frontier.size and (component < 0).any():
            reached = np.zeros(len(W), dtype=bool)
            for first in range(0, len(frontier), 256):
                rows = frontier[first : first + 256]
                reached |= (W[rows] > np.minimum(floors[rows][:, None], floors)).any(axis=0)
            frontier = np.flatnonzero(reached & (component < 0))
            component[frontier] = number
        number += 1
    return number, component


def weighted_neighbors(weights: Affinity, F: FloatArray, otherwise: FloatArray) -> FloatArray:
    """Return the weighted mean of the neighbors' soft labels of each new row.

    Parameters
    ----------
    weights : ndarray or sparse array of shape (n_new, n_prototypes)
        Similarities to the prototypes.
    F : ndarray of shape (n_prototypes, n_classes)
        The soft labels of the prototypes.
    otherwise : ndarray of shape (n_classes,)
        The soft label of a row without neighbors.

    Returns
    -------
    ndarray of shape (n_new, n_classes)
        The means.
    """
    total = np.asarray(weights.sum(axis=1)).ravel()[:, None]
    mean = np.asarray(weights @ F) / np.where(total > 0, total, 1.0)
    return np.where(total > 0, mean, otherwise)
