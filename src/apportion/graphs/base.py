"""What every graph of similar rows can do."""

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
from apportion._utils.hashing import scramble
from apportion._utils.threads import total
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray, UIntArray
from apportion.graphs._row_blocks import multiply

FAR = 50.0
"""A new row is far from a fitted one when their similarity is below exp(-50)."""

_NEGLIGIBLE = 1e-8

_ROUNDING = 1e-9
"""Smoothness that differs by less than this is equal."""

Affinity = Any
"""A similarity matrix: a dense array or a SciPy sparse array."""


class Graph(BaseEstimator, ABC):
    """Similarities `W` between rows: symmetric, nonnegative, with a zero diagonal.

    A graph never sees bags. Fitted attributes: `degrees_` (W·1) and, but for `AnchorGraph`,
    `affinity_` (W). `locality` is an order of the rows in which similar ones stand together, where
    a graph knows one and it pays to work in it.
    """

    sees_features: ClassVar[bool] = True
    stored: ClassVar[Mapping[str, Stored]] = {}
    """What the arrays of `state` must be."""
    prototype_kind: ClassVar[str] = "rows"
    """Whose similarity to new rows `affinities` tells."""

    affinity_: Affinity
    degrees_: FloatArray
    locality: IntArray | None = None

    @abstractmethod
    def fit(self, X: Any) -> Self:
        """Build the similarities of the rows of X."""

    @abstractmethod
    def affinities(self, X: Any) -> tuple[Affinity, BoolArray]:
        """Return how similar new rows are to the fitted ones, and which rows are isolated.

        Similarities are scaled by the largest of their row: only ratios matter for a weighted
        mean of neighbors, and scaled they do not underflow, however far a row is. A row is
        isolated when it is far from every fitted row: similarity below exp(-50).
        """

    def state(self) -> dict[str, AnyArray]:
        """Return all that `affinities` needs, as the arrays that `stored` describes."""
        raise NotImplementedError(f"A {type(self).__name__} cannot be stored.")

    @classmethod
    def from_state(cls, parameters: Mapping[str, Any], state: Mapping[str, AnyArray]) -> Self:
        """Return a graph for new rows only: `affinities` answers as that of the graph stored."""
        raise NotImplementedError(f"A {cls.__name__} cannot be stored.")

    def rows_in_state(self) -> str:
        """Return what of the fitted rows is in `state`, in words."""
        raise NotImplementedError(f"A {type(self).__name__} cannot be stored.")

    @property
    def n_candidates(self) -> int:
        """The number of graphs to choose from: see `candidates`."""
        return 1

    @property
    def has_grid(self) -> bool:
        """Whether there are several graphs to choose from."""
        return self.n_candidates > 1

    def candidates(self, X: Any) -> Iterator[Graph]:
        """Yield the fitted graphs to choose from: this one, unless a parameter is a grid."""
        yield self.fit(X)

    def arranged(self) -> Graph:
        """Return the same graph, sparse, with its rows in the order of `locality`."""
        rows = self.locality
        assert rows is not None, "only a graph with a locality is arranged"
        place = np.empty(len(rows), dtype=np.int32)
        place[rows] = np.arange(len(rows), dtype=np.int32)
        W = self.affinity_[rows]
        number, labels = self.components()
        other = copy(self)
        other.affinity_ = sparse.csr_array((W.data, place[W.indices], W.indptr), shape=W.shape)
        other.degrees_ = self.degrees_[rows]
        other._components = number, labels[rows]
        other.locality = None
        return other

    def _set_affinity(self, W: Affinity) -> Self:
        self.affinity_ = W
        self._components: tuple[int, IntArray] | None = None
        self.degrees_ = np.asarray(W.sum(axis=1)).ravel()
        return self

    @property
    def n_samples_(self) -> int:
        """The number of fitted rows."""
        return len(self.degrees_)

    def multiply(self, F: FloatArray) -> FloatArray:
        """Return W F."""
        return multiply(self.affinity_, F)

    def similar_rows(self, rows: IntArray) -> Affinity:
        """Return W[rows]: how similar these rows are to all rows."""
        return self.affinity_[rows]

    def features_of(self, rows: IntArray) -> FloatArray | None:
        """Return the features of fitted rows as far as the graph keeps them, None if not at all."""
        return None

    def hashes(self) -> UIntArray:
        """Return a hash of what the graph knows of each row; of its position if that is nothing."""
        return scramble(np.arange(self.n_samples_, dtype=np.uint64))

    def neighbor_mean(self, F: FloatArray) -> FloatArray:
        """Return S F: what each row hears from its neighbors, 0 where it has none."""
        return self.multiply(F) / np.where(self.degrees_ > 0, self.degrees_, 1.0)[:, None]

    def neighbor_label_means(self, labels: IntArray, n_classes: int) -> FloatArray:
        """Return S F of one label a row, given as positions in the classes."""
        if n_classes != 2:
            return self.neighbor_mean(np.eye(n_classes)[labels])
        second = self.neighbor_mean((labels == 1).astype(np.float64)[:, None])
        return means_of_both_classes(second, self.strengths)

    def smoothness(self, labels: FloatArray) -> float:
        """Return (1/n) Σ_ij s_ij y_i·y_j: the share of a row's similarity to rows of its label.

        For one-hot labels of two classes this is an increasing function of the paper's f̄ᵀSf̄.
        Rows without a neighbor count as 0.
        """
        return float(np.vdot(labels, self.neighbor_mean(labels)) / max(len(labels), 1))

    def label_smoothness(self, labels: IntArray, n_classes: int) -> float:
        """Return the smoothness of one label a row, given as positions in the classes."""
        return smoothness_of(labels, self.neighbor_label_means(labels, n_classes))

    @property
    def strengths(self) -> FloatArray:
        """How strongly each row is tied to others."""
        return self.degrees_

    def weak_rows(self, floor: float = 1e-2) -> IntArray:
        """Return the rows that are tied less than `floor` times as strongly as the mean row."""
        strengths = self.strengths
        return np.flatnonzero(strengths <= floor * strengths.mean())

    def prototype_labels(self, F: FloatArray) -> FloatArray:
        """Return what those say whose similarity to new rows `affinities` tells: the rows."""
        return F

    def crowded_rows(self) -> IntArray:
        """Return the rows that equal so many others that distances say nothing about them."""
        return np.empty(0, dtype=np.intp)

    def components(self) -> tuple[int, IntArray]:
        """Return the number of connected components and each row's component; found once.

        A tie weaker than 1e-8 times the smaller degree of its two rows does not connect.
        """
        if self._components is None:
            self._components = _components(self.affinity_, _NEGLIGIBLE * self.degrees_)
        return self._components


def means_of_both_classes(second: FloatArray, strengths: FloatArray) -> FloatArray:
    """Return what rows hear of two classes, from what they hear of the second."""
    return np.hstack([np.where(strengths > 0, 1.0, 0.0)[:, None] - second, second])


def agreement(labels: IntArray, heard: FloatArray) -> float:
    """Return how much of what the rows hear, class by class, is their own label, added up."""
    return total(lambda h, label: h[np.arange(len(h)), label].sum(), heard, labels)


def smoothness_of(labels: IntArray, heard: FloatArray) -> float:
    """Return how much of what the rows hear, class by class, is their own label."""
    return agreement(labels, heard) / max(len(labels), 1)


def smoothest(smoothness: Sequence[float] | FloatArray) -> IntArray:
    """Return which labelings are the smoothest; rounding does not choose between equal ones."""
    values = np.asarray(smoothness)
    return np.flatnonzero(values >= values.max() - _ROUNDING)


def _components(W: Affinity, floors: FloatArray) -> tuple[int, IntArray]:
    """Return the components of the ties above the lower floor of their two rows."""
    if not sparse.issparse(W):
        return _dense_components(W, floors)
    strong = W.data > np.repeat(floors, np.diff(W.indptr))
    if not strong.all():
        strong |= W.data > floors[W.indices]
        ends = np.append(0, np.cumsum(strong))[W.indptr]
        W = sparse.csr_array((W.data[strong], W.indices[strong], ends), shape=W.shape)
    # Every tie goes both ways, so that what is connected at all is strongly connected.
    number, labels = connected_components(W, connection="strong")
    return int(number), labels.astype(np.intp)


def _dense_components(W: FloatArray, floors: FloatArray) -> tuple[int, IntArray]:
    """Return the components of a dense graph, walking outwards, without a copy of it."""
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
    """Return each row's weighted mean of the neighbors' soft labels, `otherwise` without any."""
    total = np.asarray(weights.sum(axis=1)).ravel()[:, None]
    mean = np.asarray(weights @ F) / np.where(total > 0, total, 1.0)
    return np.where(total > 0, mean, otherwise)
