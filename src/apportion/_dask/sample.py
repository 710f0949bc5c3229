"""The rows that anchors are learned from: those of the lowest feature hashes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion._utils.hashing import hash_sample, row_hashes
from apportion._utils.magnitude import largest_size
from apportion._utils.typing import FloatArray, IntArray, UIntArray


class Rows(NamedTuple):
    """Rows as they were read: features, and the position of each row's bag, -1 = in none."""

    X: FloatArray
    codes: IntArray


class Sample(NamedTuple):
    """Rows of the lowest hashes, in their order."""

    hashes: UIntArray
    X: FloatArray


class Head(NamedTuple):
    """The lowest hashes, of how many rows, and the largest size of these rows' features."""

    n_samples: int
    largest: float
    hashes: UIntArray


class Lowest(NamedTuple):
    """The rows of the lowest hashes of a partition, which stay there; number and size of all."""

    n_samples: int
    largest: float
    sample: Sample


def lowest(rows: Rows, most: int) -> Lowest:
    """Return the rows of the lowest hashes."""
    first = hash_sample(rows.X, most)
    X = np.asarray(rows.X)[first]
    return Lowest(len(rows.X), largest_size(rows.X), Sample(row_hashes(X), X))


def head(found: Lowest) -> Head:
    """Return the hashes alone."""
    return Head(found.n_samples, found.largest, found.sample.hashes)


def merged(heads: list[Head], most: int) -> Head:
    """Return the lowest hashes of several partitions."""
    hashes = np.sort(np.concatenate([one.hashes for one in heads]))
    largest = max(one.largest for one in heads)
    return Head(sum(one.n_samples for one in heads), largest, hashes[:most])


def up_to(found: Lowest, highest: int) -> Sample:
    """Return the rows whose hashes are no higher than this."""
    hashes, X = found.sample
    n_samples = np.searchsorted(hashes, np.uint64(highest), side="right")
    return Sample(hashes[:n_samples], X[:n_samples])


def joined(samples: list[Sample], most: int) -> Sample:
    """Return the rows of the lowest hashes of several samples."""
    hashes = np.concatenate([one.hashes for one in samples])
    order = np.argsort(hashes, kind="stable")[:most]
    return Sample(hashes[order], np.concatenate([one.X for one in samples])[order])
