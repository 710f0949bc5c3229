"""Where a bag of two classes is cut, on a partition: at a row, by score, then hash, then place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion._core.decode import Decoding
from apportion._dask.bag_sums import OfBags
from apportion._dask.part import Part
from apportion._utils.typing import BoolArray, IntArray, UIntArray

SCORE_BITS = 31
HASH_BITS = 64


class Levels(NamedTuple):
    """Where bags of two classes are cut: the key of the last row of the second class.

    A row's key is its score, the highest first, then its hash, then where it stands.

    Attributes
    ----------
    keys : tuple of ndarray of shape (n_spanning,)
        The three parts of the key.
    divided : ndarray of bool, of shape (n_spanning,)
        Whether rows of one score went to both classes.
    """

    keys: tuple[UIntArray, UIntArray, UIntArray]
    divided: BoolArray


class Digit(NamedTuple):
    """A question about the next bits of the level's key.

    Attributes
    ----------
    known : tuple of ndarray of shape (n_spanning,)
        The parts of the key that are known; the last of them only above `shift + bits`.
    asked : ndarray of bool, of shape (n_spanning,)
        The bags that are asked about.
    shift, bits : int
        Which bits of the last part.
    """

    known: tuple[UIntArray, ...]
    asked: BoolArray
    shift: int
    bits: int


def binned(part: Part, scores: IntArray, digit: Digit) -> OfBags:
    """Return how many rows of each bag, of those that share what is known, have each digit next."""
    keys, codes = _keys(part, scores), part.spanning
    matches = digit.asked[codes]
    *whole, prefix = digit.known
    for key, known in zip(keys, whole, strict=False):
        matches &= key == known[codes]
    key, above = keys[len(whole)], digit.shift + digit.bits
    if above < HASH_BITS:
        matches &= (key >> np.uint64(above)) == prefix[codes]
    values = (key[matches] >> np.uint64(digit.shift)) & np.uint64(2**digit.bits - 1)
    cells = (part.groups.codes[matches] << digit.bits) + values.astype(np.intp)
    counts = np.bincount(cells, minlength=len(part.held) << digit.bits)
    return OfBags(part.held, (counts.reshape(-1, 2**digit.bits),))


def _keys(part: Part, scores: IntArray) -> tuple[UIntArray, UIntArray, UIntArray]:
    """Return the keys of rows across partitions: score, the highest first, hash, place."""
    highest = 2**SCORE_BITS - 1
    falling = highest - np.clip(scores[:, 1], 0, highest)
    places = (part.number << 40) + np.arange(len(scores))
    return falling.astype(np.uint64), part.hashes, places.astype(np.uint64)


def at_levels(part: Part, scores: IntArray, cut: Levels) -> Decoding:
    """Return the rows across partitions, the second class up to the level of their bag."""
    keys, codes = _keys(part, scores), part.spanning
    taken, equal = np.zeros(len(codes), dtype=bool), np.ones(len(codes), dtype=bool)
    for key, level in zip(keys, cut.keys, strict=True):
        taken |= equal & (key < level[codes])
        equal &= key == level[codes]
    tied = cut.divided[codes] & (keys[0] == cut.keys[0][codes])
    return Decoding((taken | equal).astype(np.intp), tied)
