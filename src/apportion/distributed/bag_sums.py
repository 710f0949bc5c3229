"""What rows of bags that lie in several partitions answer to the bags' multipliers, added up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion._typing import FloatArray
from apportion.multipliers import Groups, Response, SimplexResponse, SoftmaxResponse, group_hessian


class BagSums(NamedTuple):
    """What rows answer to multipliers, added up.

    Attributes
    ----------
    masses : ndarray of shape (n_spanning, n_classes)
        The sums of soft labels.
    value, magnitude : ndarray of shape (n_spanning,)
        What the rows' answers are worth, and the size of that.
    hessian : ndarray of shape (n_spanning, n_classes, n_classes)
        How the sums follow the multipliers.
    """

    masses: FloatArray
    value: FloatArray
    magnitude: FloatArray
    hessian: FloatArray


def bag_sums(
    respond: SimplexResponse | SoftmaxResponse, answer: Response, groups: Groups
) -> BagSums:
    """Return what rows answered to the multipliers of their bags, added up."""
    return BagSums(
        groups.sum(answer.labels),
        groups.sum(answer.value),
        groups.sum(np.abs(answer.value)),
        group_hessian(respond, answer, groups),
    )


def no_sums(n_bags: int, n_classes: int) -> BagSums:
    """Return the sums of no rows."""
    return BagSums(
        np.zeros((n_bags, n_classes)),
        np.zeros(n_bags),
        np.zeros(n_bags),
        np.zeros((n_bags, n_classes, n_classes)),
    )
