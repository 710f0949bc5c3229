"""What every graph of similar rows can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator

from apportion._typing import BoolArray, FloatArray, IntArray

UNDERFLOW = 745.0
"""exp(-x) is 0 beyond this."""

Affinity = Any
"""A similarity matrix: a dense array or a SciPy sparse array."""


class Graph(BaseEstimator, ABC):
    """Similarities `W` between rows: symmetric, nonnegative, with a zero diagonal.

    A graph never sees bags. Fitted attributes: `affinity_` (W), `degrees_` (W·1).
    """

    sees_features: ClassVar[bool] = True

    affinity_: Affinity
    degrees_: FloatArray

    @abstractmethod
    def fit(self, X: Any) -> Self:
        """Build the similarities of the rows of X."""

    @abstractmethod
    def affinities(self, X: Any) -> tuple[Affinity, BoolArray]:
        """Return how similar new rows are to the fitted ones, and which rows are isolated.

        Similarities are scaled by the largest of their row: only ratios matter for a weighted
        mean of neighbours, and scaled they do not underflow, however far a row is. A row is
        isolated when its similarity to every fitted row underflows to 0.
        """

    def candidates(self, X: Any) -> Iterator[Graph]:
        """Yield the fitted graphs to choose from: this one, unless a parameter is a grid."""
        yield self.fit(X)

    def _set_affinity(self, W: Affinity) -> Self:
        self.affinity_ = W
        self.degrees_ = np.asarray(W.sum(axis=1)).ravel()
        return self

    @property
    def n_rows_(self) -> int:
        """The number of fitted rows."""
        return len(self.degrees_)

    def smoothness(self, labels: FloatArray) -> float:
        """Return (1/n) Σ_ij s_ij y_i·y_j: the share of a row's similarity to rows of its label.

        For one-hot labels of two classes this is an increasing function of the paper's f̄ᵀSf̄.
        Rows without a neighbour count as 0.
        """
        degrees = np.where(self.degrees_ > 0, self.degrees_, 1.0)
        alike = (labels * (self.affinity_ @ labels)).sum(axis=1)
        return float((alike / degrees).sum() / max(len(labels), 1))

    def weak_rows(self, floor: float = 1e-2) -> IntArray:
        """Return the rows whose degree is below `floor` times the mean degree."""
        return np.flatnonzero(self.degrees_ <= floor * self.degrees_.mean())

    def components(self) -> tuple[int, IntArray]:
        """Return the number of connected components and each row's component."""
        number, labels = connected_components(sparse.csr_array(self.affinity_), directed=False)
        return int(number), labels.astype(np.intp)


def weighted_neighbours(weights: Affinity, F: FloatArray, otherwise: FloatArray) -> FloatArray:
    """Return each row's weighted mean of the neighbours' soft labels, `otherwise` without any."""
    total = np.asarray(weights.sum(axis=1)).ravel()[:, None]
    mean = np.asarray(weights @ F) / np.where(total > 0, total, 1.0)
    return np.where(total > 0, mean, otherwise)
