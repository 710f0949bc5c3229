"""A graph the user brings along."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from apportion._utils.typing import BoolArray
from apportion.exceptions import compared
from apportion.graphs.base import Affinity, Graph


class PrecomputedGraph(Graph):
    """Similarities given as a square matrix, dense or sparse.

    `fit` takes the matrix in the place of features; its diagonal is set to 0. For new rows, give
    the matrix of their similarities to the fitted rows.

    Examples
    --------
    >>> import numpy as np
    >>> PrecomputedGraph().fit(np.array([[1.0, 0.5], [0.5, 1.0]])).degrees_
    array([0.5, 0.5])
    """

    sees_features: ClassVar[bool] = False

    def fit(self, X: Any) -> Self:
        """Take the similarities X of all pairs of rows."""
        W = _checked(X)
        if W.shape[0] != W.shape[1]:
            raise ValueError(
                f"Precomputed similarities must be a square matrix. Got shape {W.shape}."
            )
        gap = abs(W - W.T)
        largest = float(gap.max()) if min(gap.shape) else 0.0
        if largest > 1e-8 * max(float(abs(W).max()), 1e-300):
            i, j = _place_of_largest(gap)
            one_way, other = compared(W[i, j], W[j, i])
            raise ValueError(
                f"Precomputed similarities must be symmetric. Rows {i} and {j} have "
                f"{one_way} one way and {other} the other; use (W + W.T) / 2."
            )
        if sparse.issparse(W):
            W = W - sparse.diags_array(W.diagonal())
            W = W.tocsr()
            W.eliminate_zeros()
        else:
            W = W.copy()
            np.fill_diagonal(W, 0.0)
        return self._set_affinity(W)

    def affinities(self, X: Any) -> tuple[Affinity, BoolArray]:
        """Return the similarities of new rows to the fitted ones, and which rows have none."""
        W = _checked(X)
        return W, np.asarray(W.sum(axis=1)).ravel() <= 0


def _checked(X: Any) -> Affinity:
    W = sparse.csr_array(X, dtype=np.float64) if sparse.issparse(X) else np.asarray(X, np.float64)
    values = np.asarray(W.data if sparse.issparse(W) else W)
    if not np.isfinite(values).all() or np.any(values < 0):
        raise ValueError("Precomputed similarities must be finite and not negative.")
    return W


def _place_of_largest(gap: Affinity) -> tuple[int, int]:
    if sparse.issparse(gap):
        cells = gap.tocoo()
        largest = int(np.argmax(cells.data))
        return int(cells.row[largest]), int(cells.col[largest])
    i, j = np.unravel_index(int(np.argmax(gap)), gap.shape)
    return int(i), int(j)
