"""The size of numbers: features are squared and summed, which not every float survives."""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion._utils.arrays import is_tensor
from apportion.exceptions import InputError

LARGEST = 1e100
"""The largest absolute value of a feature: sums of squares of larger ones may overflow."""


def largest_size(values: Any) -> float:
    """Return the largest absolute value, or NaN if any value is NaN."""
    if is_tensor(values):
        return float(abs(values).max()) if values.numel() else 0.0
    return max(-float(values.min(initial=0.0)), float(values.max(initial=0.0)))


def wide_enough(X: Any, largest: float) -> Any:
    """Return features in a precision that holds the squares of values of this size."""
    if X.dtype == np.float32 and not 1e-15 < largest < 1e15:
        return X.astype(np.float64)
    return X


def require_squares(largest: float) -> None:
    """Raise an error if features of this size have squares that cannot be represented."""
    if largest > LARGEST or 0 < largest < 1.0 / LARGEST:
        raise InputError(
            "X",
            f"values of size {largest:.1e}, whose squares cannot be represented",
            "sizes from 1e-100 to 1e100",
            "rescale the features",
        )
