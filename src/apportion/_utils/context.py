"""What the rows around a row look like."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from apportion._utils.parameters import Allowed
from apportion._utils.sequences import Sequences
from apportion._utils.typing import FloatArray, IntArray

ROWS_AROUND = Allowed(kind=Integral, low=0, high=10_000)
"""The reaches that are allowed. Every row before and after costs a pass over all rows."""


# Sums are of differences to the row itself, not of the values: an offset of a feature is gone
# before anything is squared. As the row is one of the m rows that it is compared with, the variance
# is at least 1 / m of the mean square, so that the subtraction below loses few digits. No sum goes
# beyond a stretch, as running sums over all rows would: other recordings change no bit.
def context_features(X: FloatArray, sequences: Sequences, reach: int) -> FloatArray:
    """Return the features, and their means and deviations over the rows around.

    The rows around row i are i itself and up to `reach` rows before and after it in its sequence.
    They end with the sequence, and where more than `reach` usual steps are missing: nothing beyond
    such a gap was near in time.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    sequences : Sequences
        Which rows follow each other.
    reach : int
        The number of rows before and after; with 0, every row is its own context.

    Returns
    -------
    ndarray of shape (n_samples, 3 n_features)
        The features, their means, and their deviations.

    Examples
    --------
    >>> rows = Sequences.of(np.arange(4.0), np.array([0, 0, 0, 1]))
    >>> context_features(np.array([[1.0], [3.0], [8.0], [5.0]]), rows, 1).round(2)
    array([[1.  , 2.  , 1.  ],
           [3.  , 4.  , 2.94],
           [8.  , 5.5 , 2.5 ],
           [5.  , 5.  , 0.  ]])
    """
    Z, stretch = X[sequences.order], _stretches(sequences, reach)
    sums, squares, count = np.zeros_like(Z), np.zeros_like(Z), np.ones((len(Z), 1))
    for step in range(1, min(reach, len(Z) - 1) + 1):
        together = (stretch[step:] == stretch[:-step])[:, None]
        difference = np.where(together, Z[step:] - Z[:-step], 0.0)
        for rows, sign in ((slice(None, -step), 1.0), (slice(step, None), -1.0)):
            sums[rows] += sign * difference
            squares[rows] += difference**2
            count[rows] += together
    sums /= count
    deviations = np.sqrt(np.maximum(squares / count - sums**2, 0.0))
    around = np.empty((len(X), 3 * X.shape[1]))
    around[sequences.order] = np.hstack([Z, Z + sums, deviations])
    return around


def _stretches(sequences: Sequences, reach: int) -> IntArray:
    """Return the stretch of each row of `order`: sequences, cut at gaps of more than the reach."""
    return np.cumsum(sequences.closeness * max(reach, 1) < 1.0 - 1e-9)
