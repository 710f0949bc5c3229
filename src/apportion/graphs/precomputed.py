"""A graph given by the user."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from apportion._utils.typing import BoolArray
from apportion.exceptions import compared
from apportion.graphs._products import Affinity
from apportion.graphs.base import Graph


class PrecomputedGraph(Graph):
    """Similarities given as a square matrix, dense or sparse.

    `fit` takes the matrix in place of features; its diagonal is set to 0. For new rows, give the
    matrix of their similarities to the fitted rows.

    Parameters
    ----------
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where soft labels are propagated; see `KNNGraph`.

    Attributes
    ----------
    affinity_ : ndarray or sparse array of shape (n_samples, n_samples)
        The similarities W.
    degrees_ : ndarray of shape (n_samples,)
        The row sums of W.

    Examples
    --------
    >>> import numpy as np
    >>> PrecomputedGraph().fit(np.array([[1.0, 0.5], [0.5, 1.0]])).degrees_
    array([0.5, 0.5])
    """

    sees_features: ClassVar[bool] = False
    instead_of_device: ClassVar[str] = "Use {device:cpu} or fewer rows."

    def __init__(self, *, device: str = "cpu") -> None:
        self.device = device

    def fit(self, X: Any) -> Self:
        """Take the similarities of all pairs of rows.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_samples)
            The similarities: symmetric, finite and not negative.

        Returns
        -------
        PrecomputedGraph
            The fitted graph.
        """
        self._set_device()
        W = _checked(X)
        require_symmetric(W, "Precomputed similarities", 1e-8)
        if sparse.issparse(W):
            W = (W - sparse.diags_array(W.diagonal())).tocsr()
            W.eliminate_zeros()
        else:
            W = W.copy()
            np.fill_diagonal(W, 0.0)
        return self._set_affinity(W)

    def affinities(self, X: Any) -> tuple[Affinity, BoolArray]:
        """Return the similarities of new rows to the fitted ones, and which rows have none.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_new, n_samples)
            The similarities of the new rows to the fitted rows.

        Returns
        -------
        similarities : ndarray or sparse array of shape (n_new, n_samples)
            X.
        isolated : ndarray of bool, of shape (n_new,)
            The rows whose similarities are all 0.
        """
        W = _checked(X)
        return W, np.asarray(W.sum(axis=1)).ravel() <= 0


def require_symmetric(matrix: Affinity, name: str, tol: float) -> None:
    """Raise unless a matrix is square, and symmetric up to `tol` times its largest value."""
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"{name} must be a square matrix of all pairs of rows. Got shape {matrix.shape}."
        )
    gap = abs(matrix - matrix.T)
    if min(gap.shape) and float(gap.max()) > tol * float(abs(matrix).max()):
        i, j = np.unravel_index(int(gap.argmax()), gap.shape)
        one_way, other = compared(matrix[i, j], matrix[j, i])
        raise ValueError(
            f"{name} must be symmetric. Rows {i} and {j} have {one_way} one way and {other} the "
            "other; use (W + W.T) / 2."
        )


def _checked(X: Any) -> Affinity:
    W = sparse.csr_array(X, dtype=np.float64) if sparse.issparse(X) else np.asarray(X, np.float64)
    values = np.asarray(W.data if sparse.issparse(W) else W)
    if not np.isfinite(values).all() or np.any(values < 0):
        raise ValueError("Precomputed similarities must be finite and not negative.")
    return W
