"""The rows that the speed benchmarks are run on: overlapping clusters in 20 dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

FEATURES = 20
_CLUSTERS = 20
_SPREAD = 0.9
_BLOCK = 1_000_000


def overlapping_clusters(
    n: int, *, n_classes: int = 2, bag_size: int = 50, seed: int = 0
) -> tuple[Any, Any, Any]:
    """Return rows (float32), labels and bags.

    Twenty Gaussians of unit covariance, whose centers are drawn from a Gaussian of standard
    deviation 0.9, belong to the classes in turn. Bags are of about equal size; a bag's class shares
    are drawn uniformly from the simplex. With a million labeled rows, a nearest-neighbor
    classifier is right on about 95 % of others.
    """
    rng = np.random.default_rng(seed)
    centers = _SPREAD * rng.standard_normal((_CLUSTERS, FEATURES)).astype(np.float32)
    n_bags = max(n // bag_size, 2)
    bags = rng.permutation(np.arange(n) % n_bags)
    ceilings = np.cumsum(rng.dirichlet(np.ones(n_classes), n_bags), axis=1)[:, :-1]
    y = np.zeros(n, dtype=np.intp)
    draws = rng.random(n)
    for h in range(n_classes - 1):
        y += draws > ceilings[bags, h]
    X = np.empty((n, FEATURES), dtype=np.float32)
    for first in range(0, n, _BLOCK):
        part = slice(first, min(first + _BLOCK, n))
        size = part.stop - part.start
        cluster = rng.integers(0, _CLUSTERS // n_classes, size) * n_classes + y[part]
        rng.standard_normal((size, FEATURES), dtype=np.float32, out=X[part])
        X[part] += centers[cluster]
    return X, y, bags
