"""Scale the features of all partitions to mean 0 and variance 1."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from apportion._dask.anchors import Rows
from apportion._dask.cluster import Cluster
from apportion._utils.progress import report_progress
from apportion._utils.typing import FloatArray

_STAGE = "measuring the scale of features"

_ROUNDING = 1e-12
"""Deviations below this share of the mean are rounding: the feature is constant."""


class Moments(NamedTuple):
    """The moments of the features of some rows; those of several partitions can be joined.

    Attributes
    ----------
    n_samples : int
        The number of rows.
    means : ndarray of shape (n_features,)
        The means.
    squares : ndarray of shape (n_features,)
        The sums of the squared deviations from the means.
    """

    n_samples: int
    means: FloatArray
    squares: FloatArray


def moments(rows: Rows) -> Moments:
    """Return the moments of the rows of a partition."""
    n_samples, n_features = rows.X.shape
    if not n_samples:
        return Moments(0, np.zeros(n_features), np.zeros(n_features))
    means = rows.X.mean(axis=0, dtype=np.float64)
    deviations = rows.X - means
    return Moments(n_samples, means, np.einsum("ij,ij->j", deviations, deviations))


# Chan, Golub & LeVeque, "Algorithms for computing the sample variance", 1983: nothing cancels, as
# it would in Σ x² - n x̄².
def joined_moments(parts: list[Moments]) -> Moments:
    """Return the moments of several partitions together.

    Examples
    --------
    >>> X = np.array([[1.0], [2.0], [6.0]])
    >>> parts = [moments(Rows(some, np.zeros(len(some)))) for some in (X[:1], X[1:])]
    >>> joined_moments(parts)
    Moments(n_samples=3, means=array([3.]), squares=array([14.]))
    """
    sizes, means, squares = (np.array(field) for field in zip(*parts, strict=True))
    n_samples = int(sizes.sum())
    mean = sizes @ means / max(n_samples, 1)
    return Moments(n_samples, mean, squares.sum(axis=0) + sizes @ (means - mean) ** 2)


def learn_scale(cluster: Cluster, partitions: list[Any]) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the deviation of every feature; 1 for that of a constant one.

    Rows are read for it, and not kept.
    """
    report_progress(_STAGE)
    answers = cluster.on_each_read(moments, partitions)
    cluster.watch(_STAGE, answers)
    total: Moments = cluster.total(answers, joined_moments)
    deviations = np.sqrt(total.squares / max(total.n_samples, 1))
    constant = deviations <= _ROUNDING * np.abs(total.means)
    return _rounded(total.means), _rounded(np.where(constant, 1.0, deviations))


def _rounded(numbers: FloatArray) -> FloatArray:
    """Return numbers of 32 bits.

    Sums differ in their last bits with the way in which rows are cut into partitions, and anchors
    are drawn by a hash of the scaled features, which must not.
    """
    mantissas, exponents = np.frexp(numbers)
    return np.ldexp(np.rint(np.ldexp(mantissas, 32)), exponents - 32)


def scaled(rows: Rows, means: FloatArray, deviations: FloatArray) -> Rows:
    """Return rows of scaled features, in the precision that they have."""
    return rows._replace(X=((rows.X - means) / deviations).astype(rows.X.dtype))
