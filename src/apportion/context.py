"""Features of the rows around a row, for recordings in time."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array

from apportion._utils.context import ROWS_AROUND, context_features
from apportion._utils.hashing import hash_ranks
from apportion._utils.magnitude import largest_size, require_squares
from apportion._utils.typing import FloatArray
from apportion.exceptions import SupervisionError
from apportion.supervision.rows_in_time import rows_in_time

__all__ = ["add_context"]


def add_context(X: Any, *, times: Any, sequences: Any = None, reach: int = 5) -> FloatArray:
    """Append the means and deviations of each feature over the rows around.

    For any estimator: it then knows what came shortly before and after a row. The rows around are
    the row itself and up to `reach` rows before and after it, in the order of time. They end with
    the recording, and at gaps of more than `reach` usual steps; the usual step of a recording is
    the median gap between its rows. The order in which rows are given does not matter.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The rows.
    times : array-like of shape (n_samples,)
        When each row was: numbers, date-times or ISO text.
    sequences : array-like of shape (n_samples,), optional
        The recording of each row. By default, all rows are of one.
    reach : int, default=5
        The number of rows before and after.

    Returns
    -------
    ndarray of shape (n_samples, 3 * n_features)
        The features, their means, and their deviations.

    Examples
    --------
    >>> steps = [[0.0], [0.0], [6.0], [6.0], [1.0]]
    >>> who = ["ann", "ann", "ann", "ann", "bob"]
    >>> add_context(steps, times=[0, 1, 2, 3, 0], sequences=who, reach=1).round(1)
    array([[0. , 0. , 0. ],
           [0. , 2. , 2.8],
           [6. , 4. , 2.8],
           [6. , 6. , 0. ],
           [1. , 1. , 0. ]])
    """
    if reach not in ROWS_AROUND:
        raise ValueError(
            f"The 'reach' parameter of add_context must be {ROWS_AROUND}. Got {reach!r} instead."
        )
    X = check_array(X, dtype=np.float64)
    require_squares(largest_size(X))
    in_order = rows_in_time(times, sequences, hash_ranks(X, len(X)))
    if in_order is None:
        raise SupervisionError("times", "None", "the time of every row", "pass `times`")
    return context_features(X, in_order, int(reach))
