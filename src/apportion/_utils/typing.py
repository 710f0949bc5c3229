"""Short names for the arrays that travel through the package."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.intp]
UIntArray = NDArray[np.uint64]
BoolArray = NDArray[np.bool_]
AnyArray = NDArray[Any]
