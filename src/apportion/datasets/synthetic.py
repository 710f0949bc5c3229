"""The paper's synthetic data."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from apportion._utils.typing import FloatArray, IntArray


def make_xor(
    n_samples: int = 120, *, side: float = 10.0, random_state: Any = None
) -> tuple[FloatArray, IntArray]:
    """Return four Gaussians of unit covariance at the corners of a square, opposite ones alike.

    Parameters
    ----------
    n_samples : int, default=120
        The number of rows, shared as equally as possible among the corners.
    side : float, default=10
        The side of the square.
    random_state : int, RandomState or None, default=None
        Draws the rows.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        The rows.
    y : ndarray of shape (n_samples,)
        The true labels, 0 and 1, half of the rows each when `n_samples` is a multiple of 4.

    Examples
    --------
    >>> X, y = make_xor(120, random_state=0)
    >>> X.shape, int(y.sum())
    ((120, 2), 60)
    """
    rng = check_random_state(random_state)
    corners = side * np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    corner = np.arange(n_samples) % 4
    X = corners[corner] + rng.standard_normal((n_samples, 2))
    return X, (corner % 2).astype(np.intp)


def make_half_kernel(
    n_samples: int = 120,
    *,
    radii: tuple[float, float] = (1.0, 2.0),
    noise: float = 0.1,
    random_state: Any = None,
) -> tuple[FloatArray, IntArray]:
    """Return two half circles with a common center, one around the other, with noise.

    A row of class h is `radii[h] · (cos t, sin t)`, t uniform between 0 and π, plus Gaussian noise.
    The paper says that its Half-Kernel is a combination of sine and cosine with noise and gives no
    constants; these are ours.

    Parameters
    ----------
    n_samples : int, default=120
        The number of rows, shared as equally as possible between the two.
    radii : tuple of float, default=(1, 2)
        The radii of class 0 and class 1.
    noise : float, default=0.1
        The standard deviation of the noise in each of the two directions.
    random_state : int, RandomState or None, default=None
        Draws the rows.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        The rows.
    y : ndarray of shape (n_samples,)
        The true labels, 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = make_half_kernel(120, noise=0.0, random_state=0)
    >>> np.unique(np.linalg.norm(X, axis=1).round(6)), int(y.sum())
    (array([1., 2.]), 60)
    """
    rng = check_random_state(random_state)
    y = np.arange(n_samples) % 2
    angle = rng.uniform(0.0, np.pi, n_samples)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    X = np.asarray(radii, dtype=np.float64)[y, None] * circle
    return X + noise * rng.standard_normal((n_samples, 2)), y.astype(np.intp)


def make_drifting_clouds(
    n_samples: int = 600,
    n_bags: int = 30,
    *,
    n_features: int = 2,
    distance: float = 4.0,
    drift: float = 1.0,
    random_state: Any = None,
) -> tuple[FloatArray, IntArray, IntArray]:
    """Return two Gaussian clouds of unit covariance whose centers differ from bag to bag.

    The two centers of a bag are `distance` apart along the first feature, and moved together by
    `drift` times a standard Gaussian of the bag's own. A class then does not look alike in every
    bag, which methods that compare bag means rely on. Shares of the second class are uniform
    between .1 and .9.

    Parameters
    ----------
    n_samples : int, default=600
        The number of rows.
    n_bags : int, default=30
        The number of bags, of about equal size.
    n_features : int, default=2
        The number of features.
    distance : float, default=4
        Between the centers of the two classes.
    drift : float, default=1
        How far bags are moved.
    random_state : int, RandomState or None, default=None
        Draws all of it.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    y : ndarray of shape (n_samples,)
        The true labels, 0 and 1.
    bags : ndarray of shape (n_samples,)
        Bags, 0 … n_bags - 1.

    Examples
    --------
    >>> X, y, bags = make_drifting_clouds(60, 5, random_state=0)
    >>> X.shape, len(set(bags))
    ((60, 2), 5)
    """
    rng = check_random_state(random_state)
    bags = rng.permutation(np.arange(n_samples) % n_bags)
    y = (rng.uniform(size=n_samples) < rng.uniform(0.1, 0.9, n_bags)[bags]).astype(np.intp)
    X = rng.standard_normal((n_samples, n_features))
    X += drift * rng.standard_normal((n_bags, n_features))[bags]
    X[:, 0] += distance * (y - 0.5)
    return X, y, bags
