"""Sums of what partitions answer, over all rows or over bags that lie in several partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion._core.dual import RowDual
from apportion._core.evaluator import DualSums
from apportion._utils.typing import AnyArray, IntArray


@dataclass(frozen=True)
class BagValues:
    """Values of the bags that a partition holds; those of several partitions can be added.

    A partition answers for the bags it holds and no others. What travels therefore grows with the
    number of partitions, and not with the product of partitions and bags.

    Attributes
    ----------
    bags : ndarray of shape (n_held,)
        The bags, as ascending positions among those that lie in several partitions.
    values : tuple of ndarray of shape (n_held, ...)
        Values of each.

    Examples
    --------
    >>> one = BagValues(np.array([0, 2]), (np.array([1.0, 2.0]),))
    >>> other = BagValues(np.array([2, 3]), (np.array([10.0, 20.0]),))
    >>> (one + other).of_all(5)
    (array([ 1.,  0., 12., 20.,  0.]),)
    """

    bags: IntArray
    values: tuple[AnyArray, ...]

    def __add__(self, other: BagValues) -> BagValues:
        return self.joined(other, np.add, 0)

    def joined(self, other: BagValues, join: np.ufunc, neutral: int) -> BagValues:
        """Return both together; values of bags that both hold are joined."""
        bags = np.union1d(self.bags, other.bags)
        mine, theirs = (np.searchsorted(bags, held.bags) for held in (self, other))
        values = []
        for a, b in zip(self.values, other.values, strict=True):
            both = np.full((len(bags), *a.shape[1:]), neutral, dtype=a.dtype)
            both[mine] = a
            both[theirs] = join(both[theirs], b)
            values.append(both)
        return BagValues(bags, tuple(values))

    def of_all(self, n_bags: int) -> tuple[AnyArray, ...]:
        """Return the values of all bags, 0 for those that no partition holds."""
        every = tuple(np.zeros((n_bags, *a.shape[1:]), dtype=a.dtype) for a in self.values)
        for whole, some in zip(every, self.values, strict=True):
            whole[self.bags] = some
        return every


def dual_sums(point: RowDual) -> DualSums:
    """Return all sums of a dual point, to be added to those of other partitions."""
    return DualSums(point.sums, point.value, point.magnitude, point.hessian())


def added(answers: list[Any]) -> Any:
    """Return tuples of numbers, arrays and such tuples added up, field by field.

    Examples
    --------
    >>> added([(1, (2.0, np.array([1, 2]))), (10, (20.0, np.array([10, 20])))])
    (11, (22.0, array([11, 22])))
    """
    first = answers[0]
    if not isinstance(first, tuple):
        return sum(answers[1:], first)
    fields = [added(list(field)) for field in zip(*answers, strict=True)]
    return type(first)(*fields) if hasattr(first, "_fields") else tuple(fields)
