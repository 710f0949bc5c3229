"""An order of the rows that depends on their features, never on their positions.

Ties are broken and random numbers are drawn in this order, so that shuffling the rows shuffles the
labels and changes nothing else. Rows with equal features are ordered by a scrambled position, which
does not depend on how the input was sorted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion._utils.arrays import is_tensor
from apportion._utils.threads import BLOCK_ROWS, in_threads, slices
from apportion._utils.typing import FloatArray, IntArray, UIntArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2**64 divided by the golden ratio: the increment of SplitMix64."""

_ROUNDS, _LAST_SHIFT = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)), 31
"""The shifts and factors of its mixing function, and the shift at the end."""

_KEY_UNIT = 2.0**-30
"""The digits of keys, which are near 1: far above rounding, and far below what differs."""

_LEAST_SPREAD = 1e-300
"""The spread of a constant feature, so that nothing is divided by zero."""


def scramble(words: Any) -> Any:
    """Return the output of SplitMix64 for the words, a bijection of 64-bit words.

    The generator is that of Steele, Lea and Flood, "Fast splittable pseudorandom number
    generators" (OOPSLA 2014); shifts and factors are variant 13 of Stafford's mixing function.
    """
    if is_tensor(words):
        return _scrambled_tensor(words)
    with np.errstate(over="ignore"):
        words = words + _GOLDEN
        for shift, factor in _ROUNDS:
            words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
        return words ^ (words >> np.uint64(_LAST_SHIFT))


def _scrambled_tensor(words: Any) -> Any:
    """Return the same bits for signed words: products wrap around, shifts drop the sign."""

    def mixed(words: Any, shift: int) -> Any:
        return words ^ ((words >> shift) & ((1 << (64 - shift)) - 1))

    words = words + int(_GOLDEN.astype(np.int64))
    for shift, factor in _ROUNDS:
        words = mixed(words, shift) * int(np.uint64(factor).astype(np.int64))
    return mixed(words, _LAST_SHIFT)


def row_hashes(X: FloatArray) -> UIntArray:
    """Return a 64-bit hash of every row's features.

    Examples
    --------
    >>> import numpy as np
    >>> a, b, c = row_hashes(np.array([[1.0, -0.0], [2.0, 0.0], [1.0, 0.0]]))
    >>> bool(a == c), bool(a == b)
    (True, False)
    """
    X = np.asarray(X)
    hashes = np.zeros(X.shape[0], dtype=np.uint64)

    def digest(block: slice) -> None:
        for column in X[block].T:
            positive_zero = column.astype(np.float64) + 0.0  # -0.0 and 0.0 are equal
            hashes[block] = scramble(hashes[block] ^ positive_zero.view(np.uint64))

    in_threads(digest, slices(len(X), BLOCK_ROWS))
    return hashes


def feature_keys(X: FloatArray) -> FloatArray:
    """Return a number for every row, `Σ_j sin(z_ij)`, z_ij its standardized features.

    Moving, rescaling or reordering features changes keys by rounding only. An order by keys then
    stays, or swaps neighbors, where a hash of moved features would have nothing in common with that
    before. Equal rows have equal keys.

    Examples
    --------
    >>> X = np.array([[0.5, 2.0], [1.5, 3.0], [4.0, 1.0]])
    >>> bool((feature_keys(X) == feature_keys(8.0 * X[:, ::-1] + 1e6)).all())
    True
    """
    keys = np.zeros(len(X))
    for column in np.asarray(X).T:
        # From the least value on, so that moved features have the same digits, if they could.
        steps = column.astype(np.float64) - column.min(initial=np.inf)
        spread = float(steps.max(initial=0.0))
        if spread > 0.0:
            steps /= spread
            keys += np.sin((steps - steps.mean()) / steps.std())
    return rounded_keys(keys)


def rounded_keys(keys: FloatArray) -> FloatArray:
    """Return keys without the digits that depend on the order of sums."""
    return np.asarray(np.round(keys / _KEY_UNIT) * _KEY_UNIT)


def random_order(keys: FloatArray) -> UIntArray:
    """Return numbers in a random order that depends on the order of the keys alone.

    Examples
    --------
    >>> a, b = random_order(np.array([0.3, 0.1, 0.2, 0.3])), random_order(np.array([9, 7, 8, 9]))
    >>> bool((a == b).all()), bool(a[0] == a[3])
    (True, True)
    """
    places = np.unique(keys, return_inverse=True)[1].reshape(-1)
    return np.asarray(scramble(places.astype(np.uint64)))


def column_order(X: FloatArray) -> IntArray:
    """Return an order of the features that does not depend on the order of columns or rows.

    Random trees draw features by their position: those of ordered columns depend on the rows only.
    """
    weights = np.sin(3.0 * feature_keys(X))
    low = X.min(axis=0)
    spread = np.maximum(X.max(axis=0) - low, _LEAST_SPREAD)
    return np.argsort(rounded_keys(weights @ ((X - low) / spread) / len(X)), kind="stable")


def hash_sample(X: FloatArray, n_sample: int) -> IntArray:
    """Return the first `n_sample` rows in the order of the feature hashes, or all if fewer.

    It is not specified which of several equal rows are taken.
    """
    hashes = row_hashes(X)
    if n_sample < len(hashes):
        first = np.argpartition(hashes, n_sample)[:n_sample]
        return first[np.argsort(hashes[first])]
    return np.argsort(hashes)


def hash_ranks(X: FloatArray | None, n_samples: int) -> IntArray:
    """Return the rank of every row in the order of the feature hashes.

    Without features (`X=None`, a precomputed graph) the order is that of the scrambled positions.
    """
    return ranks_of(scramble(np.arange(n_samples, dtype=np.uint64)) if X is None else row_hashes(X))


def ranks_of(hashes: UIntArray) -> IntArray:
    """Return the rank of every row in the order of hashes; ties go by a scrambled position."""
    ranks = np.empty(len(hashes), dtype=np.intp)
    ranks[order_of(hashes)] = np.arange(len(hashes))
    return ranks


def order_of(hashes: UIntArray) -> IntArray:
    """Return the rows in the order of hashes; ties go by a scrambled position."""
    order = np.argsort(hashes)
    in_order = hashes[order]
    if np.any(in_order[1:] == in_order[:-1]):
        return np.lexsort((scramble(np.arange(len(hashes), dtype=np.uint64)), hashes))
    return order
