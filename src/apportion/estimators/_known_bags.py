"""The bags that a method may learn from, in one list."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion._utils.groups import Groups
from apportion._utils.typing import FloatArray
from apportion.exceptions import SupervisionError
from apportion.supervision.bags import Bags


@dataclass(frozen=True)
class KnownBags:
    """Bags with known totals, and every labeled row as a bag of its own.

    Bags of which nothing is known are left out, as are rows in no bag.

    Attributes
    ----------
    groups : Groups
        The rows by bag.
    shares : ndarray of shape (n_bags, n_classes)
        Class shares; of intervals the point nearest to the overall shares.
    known : ndarray of shape (n_bags, n_classes)
        How much is known of a class in a bag: 1 where its total is exact, less by its interval.
    """

    groups: Groups
    shares: FloatArray
    known: FloatArray

    @property
    def weights(self) -> FloatArray:
        """How many rows' worth is known of each bag, all classes together."""
        return np.asarray(self.known.mean(axis=1) * self.groups.sizes)


def known_bags(bags: Bags) -> KnownBags:
    """Return the bags to learn from."""
    sizes = bags.open_groups.sizes[:, None]
    width = bags.open_upper - bags.open_lower
    known = np.where(sizes > 0, 1.0 - width / np.maximum(sizes, 1.0), 0.0)
    known[known <= 1e-9] = 0.0
    kept = known.any(axis=1)
    labeled = np.flatnonzero(bags.given >= 0)
    if not kept.any() and not labeled.size:
        raise SupervisionError(
            "the totals",
            "no bag of which any class's total is known",
            "at least one bag with known totals, or labels in `y`",
            "fill in the cells of some bags",
        )
    renumbered = np.where(kept, np.cumsum(kept) - 1, -1)
    codes = np.append(renumbered, -1)[bags.open_groups.codes]
    n_kept = int(kept.sum())
    codes[labeled] = n_kept + np.arange(len(labeled))
    return KnownBags(
        Groups(codes, n_kept + len(labeled)),
        np.concatenate([bags.shares[kept], np.eye(bags.n_classes)[bags.given[labeled]]]),
        np.concatenate([known[kept], np.ones((len(labeled), bags.n_classes))]),
    )
