"""Rows, and what methods compute of them before they see any total."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

from apportion._utils.hashing import (
    feature_keys,
    random_order,
    rounded_keys,
    row_hashes,
    scramble,
)
from apportion._utils.typing import FloatArray, IntArray
from apportion.supervision.bags import Bags

Made = TypeVar("Made")


class Prepared:
    """Rows in a random order of their own, and what was computed of them, once.

    The order depends on what the features say (`feature_keys`), neither on the order of the input
    nor on units or offsets. Equal rows follow each other. Similarities of all pairs of rows, which
    are no features, stay in their order.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    features : bool, default=True
        Whether X holds features.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows as they came.
    rows : ndarray of shape (n_samples, n_features)
        The rows in their order.
    order : ndarray of shape (n_samples,)
        Their positions in X.
    """

    def __init__(self, X: FloatArray, *, features: bool = True) -> None:
        n = len(X)
        self.order, self._keys, self._copies = np.arange(n), None, None
        self.X = self.rows = X
        if features:
            keys, hashes = feature_keys(X), row_hashes(X)
            positions = scramble(np.arange(n, dtype=np.uint64))
            self.order = np.lexsort((positions, hashes, random_order(keys)))
            self.rows, self._keys = X[self.order], keys
            again = np.all(self.rows[1:] == self.rows[:-1], axis=1)
            if again.any():
                self._copies = np.append(0, np.cumsum(~again))
        self._forget()

    def _forget(self) -> None:
        self._made: dict[Hashable, Any] = {}
        self._locks: defaultdict[Hashable, Any] = defaultdict(threading.RLock)
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        kept = ("X", "rows", "order", "_keys", "_copies")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def like(self, rows: FloatArray) -> Prepared:
        """Return other rows in the same order, of which nothing was computed."""
        other = Prepared(rows, features=False)
        other.order, other._keys, other._copies = self.order, self._keys, self._copies
        return other

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what a function computes; for the same key, what it did the first time.

        Threads that ask for what is being computed wait for it.
        """
        with self._lock:
            lock = self._locks[key]
        with lock:
            if key not in self._made:
                self._made[key] = make()
        made: Made = self._made[key]
        return made

    def in_order(self, bags: Bags) -> tuple[IntArray, Bags]:
        """Return the positions of the rows in X, and what is known of them in this order.

        They are in the order of `rows`, and equal rows in that of their bags.
        """
        by_rows, order = self.order_of_bags(bags), self.order
        if self._copies is not None:
            rank = np.append(np.argsort(by_rows), -1)[bags.codes[order]]
            order = order[np.lexsort((bags.given[order] >= 0, rank, self._copies))]
        return order, bags.take(order, by_rows)

    def order_of_bags(self, bags: Bags) -> IntArray:
        """Return an order of the bags that does not depend on the order of the input.

        Bags are sorted by what their rows say, bags of equal rows by their totals: first without
        regard to the order of classes.
        """
        if self._keys is None:
            return np.arange(len(bags.ids))
        contents = np.zeros(len(bags.ids) + 1)
        np.add.at(contents, bags.codes, np.sin(3.0 * self._keys))
        totals = np.hstack([bags.lower, bags.upper])
        sorted_totals = np.hstack([np.sort(bags.lower, axis=1), np.sort(bags.upper, axis=1)])
        by_rows = random_order(rounded_keys(contents[:-1]))
        return np.lexsort((row_hashes(totals), row_hashes(sorted_totals), by_rows))


def back_from(order: IntArray, values: FloatArray) -> FloatArray:
    """Return values of rows that were taken in an order, as they were before."""
    back = np.empty_like(values)
    back[order] = values
    return back
