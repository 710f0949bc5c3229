"""The dual of bags that lie in several partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from apportion._core.evaluator import DualSums
from apportion._utils.typing import BoolArray, FloatArray, IntArray

_NO_SUMS = DualSums(*[np.empty(0)] * 4)


class SpanningBags(NamedTuple):
    """The masses and sizes of the bags that lie in several partitions."""

    lower: FloatArray
    upper: FloatArray
    sizes: FloatArray


@dataclass(frozen=True)
class PartitionDual:
    """The dual of bags whose rows are on partitions; a `DualPoint` once it was evaluated.

    Every evaluation is one request for all bags at once: bags that are left alone are sent with the
    multipliers of their last evaluation.

    Parameters
    ----------
    request : callable
        Returns the sums of all bags at their multipliers.
    multipliers : ndarray of shape (n_bags, n_classes)
        The multipliers of all bags.
    bags : ndarray, optional
        The bags that this is the dual of; by default all.
    answer : DualSums, optional
        What the request returned.
    """

    request: Callable[[FloatArray], DualSums]
    multipliers: FloatArray
    bags: IntArray | None = None
    answer: DualSums = _NO_SUMS

    def at(self, multipliers: FloatArray) -> PartitionDual:
        """Return the dual at other multipliers."""
        every = self.multipliers.copy()
        every[self._every] = multipliers
        return replace(self, multipliers=every, answer=self.request(every))

    def only(self, keep: BoolArray) -> PartitionDual:
        """Return the dual of some bags."""
        return replace(self, bags=self._every[keep])

    @property
    def _every(self) -> IntArray:
        return np.arange(len(self.multipliers)) if self.bags is None else self.bags

    @property
    def sums(self) -> FloatArray:
        """Sums of the soft labels of each bag."""
        return self.answer.sums[self._every]

    @property
    def value(self) -> FloatArray:
        """Sums of the rows' values."""
        return self.answer.value[self._every]

    @property
    def magnitude(self) -> FloatArray:
        """Sums of the rows' absolute values."""
        return self.answer.magnitude[self._every]

    def hessian(self) -> FloatArray:
        """Return the derivatives of the sums."""
        return self.answer.hessian[self._every]
