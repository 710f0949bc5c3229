"""Sums over bags that lie in several partitions: every partition answers of those that it holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion._core.dual import RowDual
from apportion._core.evaluator import DualSums
from apportion._utils.typing import AnyArray, IntArray


@dataclass(frozen=True)
class OfBags:
    """Something of some bags; the same of others can be added.

    Attributes
    ----------
    bags : ndarray of shape (n_held,)
        Which bags, as ascending positions among those that lie in several partitions.
    values : tuple of ndarray of shape (n_held, ...)
        Something of each.

    Examples
    --------
    >>> one = OfBags(np.array([0, 2]), (np.array([1.0, 2.0]),))
    >>> other = OfBags(np.array([2, 3]), (np.array([10.0, 20.0]),))
    >>> (one + other).of_all(5)
    (array([ 1.,  0., 12., 20.,  0.]),)
    """

    bags: IntArray
    values: tuple[AnyArray, ...]

    def __add__(self, other: OfBags) -> OfBags:
        return self.joined(other, np.add, 0)

    def joined(self, other: OfBags, join: np.ufunc, nothing: int) -> OfBags:
        """Return both together; values of bags that both hold are joined."""
        bags = np.union1d(self.bags, other.bags)
        mine, yours = (np.searchsorted(bags, one.bags) for one in (self, other))
        values = []
        for a, b in zip(self.values, other.values, strict=True):
            both = np.full((len(bags), *a.shape[1:]), nothing, dtype=a.dtype)
            both[mine] = a
            both[yours] = join(both[yours], b)
            values.append(both)
        return OfBags(bags, tuple(values))

    def of_all(self, n_bags: int) -> tuple[AnyArray, ...]:
        """Return the values of all bags, 0 of those that nobody holds."""
        spread = tuple(np.zeros((n_bags, *one.shape[1:]), dtype=one.dtype) for one in self.values)
        for whole, some in zip(spread, self.values, strict=True):
            whole[self.bags] = some
        return spread


def dual_sums(point: RowDual) -> DualSums:
    """Return all sums of a dual point, to be added to those of other partitions."""
    return DualSums(point.sums, point.value, point.magnitude, point.hessian())


def no_sums(n_bags: int, n_classes: int) -> DualSums:
    """Return the sums of no rows."""
    return DualSums(
        np.zeros((n_bags, n_classes)),
        np.zeros(n_bags),
        np.zeros(n_bags),
        np.zeros((n_bags, n_classes, n_classes)),
    )
