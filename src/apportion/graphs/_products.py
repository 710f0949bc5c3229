"""Products of similarities with soft labels, and what follows from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from apportion._utils.arrays import arange, as_float, namespace, one_hot
from apportion._utils.threads import blockwise, total
from apportion._utils.typing import FloatArray, IntArray

Affinity = Any
"""A similarity matrix: a dense array or a SciPy sparse array."""


class Products(ABC):
    """Similarities `W` that multiply soft labels, in memory or on a device.

    Attributes
    ----------
    degrees_ : ndarray of shape (n_samples,)
        The row sums of W.
    """

    degrees_: FloatArray

    @abstractmethod
    def multiply(self, F: FloatArray) -> FloatArray:
        """Return W F."""

    def sparsified(self) -> Products | None:
        """Return products that are nearly the same and cost far less; None where none are known.

        Every row keeps nearly all of its degree, in far fewer similarities.
        """
        return None

    @property
    def n_samples_(self) -> int:
        """The number of fitted rows."""
        return len(self.degrees_)

    @property
    def strengths(self) -> FloatArray:
        """How strongly each row is connected to others."""
        return self.degrees_

    def neighbor_mean(self, F: FloatArray) -> FloatArray:
        """Return S F, the weighted mean of each row's neighbors; 0 for a row without neighbors."""
        where = namespace(F).where
        return self.multiply(F) / where(self.degrees_ > 0, self.degrees_, 1.0)[:, None]

    def neighbor_label_means(self, labels: IntArray, n_classes: int) -> FloatArray:
        """Return S F of one label per row, given as positions in the classes."""
        if n_classes != 2:
            return self.neighbor_mean(one_hot(labels, n_classes))
        second = self.neighbor_mean(as_float(labels == 1)[:, None])
        return means_of_both_classes(second, self.strengths)

    def smoothness(self, labels: FloatArray) -> float:
        """Return (1/n) Σ_ij s_ij y_i·y_j, the mean share of neighbors with the label of a row.

        For one-hot labels of two classes this is an increasing function of the paper's f̄ᵀSf̄.
        Rows without a neighbor count as 0.
        """
        return float((labels * self.neighbor_mean(labels)).sum() / max(len(labels), 1))

    def label_smoothness(self, labels: IntArray, n_classes: int) -> float:
        """Return the smoothness of one label per row, given as positions in the classes."""
        return smoothness_of(labels, self.neighbor_label_means(labels, n_classes))


class AnchoredProducts(Products):
    """Products with `W = Z Λ⁻¹ Zᵀ`, plus edges in time if there are any.

    The diagonal of W is not 0; the mean over a row's neighbors leaves out the row itself.

    Attributes
    ----------
    masses_ : ndarray of shape (n_anchors,)
        The diagonal of Λ.
    """

    masses_: FloatArray
    _own: FloatArray

    @property
    @abstractmethod
    def only_anchors(self) -> bool:
        """Whether there are no edges in time."""

    @abstractmethod
    def to_anchors(self, F: FloatArray) -> FloatArray:
        """Return Zᵀ F: the sums over the rows of each anchor."""

    @abstractmethod
    def from_anchors(self, A: FloatArray) -> FloatArray:
        """Return Z A: the weighted mean of A over each row's anchors."""

    @abstractmethod
    def shared_ties(self) -> FloatArray:
        """Return Zᵀ Z, in memory: how much any two anchors share."""

    @abstractmethod
    def _along_time(self, F: FloatArray) -> FloatArray:
        """Return the product of the edges in time with F."""

    def multiply(self, F: FloatArray) -> FloatArray:
        """Return W F."""
        product = self.from_anchors(self.prototype_labels(F))
        return product if self.only_anchors else product + self._along_time(F)

    def neighbor_mean(self, F: FloatArray) -> FloatArray:
        """Return the weighted mean of F over each row's neighbors, 0 where there are none."""
        mean = self.multiply(F)
        if not self.only_anchors:
            mean /= self.degrees_[:, None]
        return blockwise(from_others, mean, F, self._own_share[:, None], out=mean)

    def prototype_labels(self, F: FloatArray) -> FloatArray:
        """Return Λ⁻¹ Zᵀ F: the mean of F over the rows of each anchor."""
        return self.to_anchors(F) / self.masses_[:, None]

    @property
    def strengths(self) -> FloatArray:
        """How strongly each row is tied to other rows: its degree less w_ii."""
        return self.degrees_ * without_own(self._own_share)

    @property
    def _own_share(self) -> FloatArray:
        """The share of a row's degree that is its similarity to itself."""
        return self._own if self.only_anchors else self._own / self.degrees_


def without_own(own: FloatArray) -> FloatArray:
    """Return how strongly rows are tied to other rows: 1 - w_ii, up to rounding."""
    return namespace(own).maximum(1.0 - own - 1e-12, 0.0)


def from_others(mean: FloatArray, F: FloatArray, own: FloatArray) -> FloatArray:
    """Return the mean of F over each row's neighbors, from the mean that includes the row."""
    xp, others = namespace(mean), without_own(own)
    return xp.where(others > 0, (mean - own * F) / xp.maximum(others, 1e-12), 0.0)


def means_of_both_classes(second: FloatArray, strengths: FloatArray) -> FloatArray:
    """Return the neighbor means of two classes from those of the second class."""
    xp = namespace(second)
    return xp.hstack([xp.where(strengths > 0, 1.0, 0.0)[:, None] - second, second])


def agreement(labels: IntArray, neighbor_means: FloatArray) -> float:
    """Return the sum over rows of the neighbor mean of the row's own label."""
    return total(lambda F, h: F[arange(len(F), F), h].sum(), neighbor_means, labels)


def smoothness_of(labels: IntArray, neighbor_means: FloatArray) -> float:
    """Return the mean over rows of the neighbor mean of the row's own label.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        The labels, as positions in the classes.
    neighbor_means : ndarray of shape (n_samples, n_classes)
        See `Graph.neighbor_label_means`.

    Returns
    -------
    float
        The smoothness, at most 1.
    """
    return agreement(labels, neighbor_means) / max(len(labels), 1)
