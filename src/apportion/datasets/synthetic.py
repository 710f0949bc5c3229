"""The paper's synthetic data."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from apportion._typing import FloatArray, IntArray


def make_xor(
    n_rows: int = 120, *, side: float = 10.0, random_state: Any = None
) -> tuple[FloatArray, IntArray]:
    """Return four Gaussians of unit covariance at the corners of a square, opposite ones alike.

    Parameters
    ----------
    n_rows : int, default=120
        The number of rows, shared as equally as possible among the corners.
    side : float, default=10
        The side of the square.
    random_state : int, RandomState or None, default=None
        Draws the rows.

    Returns
    -------
    X : ndarray of shape (n_rows, 2)
    y : ndarray of shape (n_rows,)
        The true labels, 0 and 1, half of the rows each when `n_rows` is a multiple of 4.

    Examples
    --------
    >>> X, y = make_xor(120, random_state=0)
    >>> X.shape, int(y.sum())
    ((120, 2), 60)
    """
    rng = check_random_state(random_state)
    corners = side * np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    corner = np.arange(n_rows) % 4
    X = corners[corner] + rng.standard_normal((n_rows, 2))
    return X, (corner % 2).astype(np.intp)
