"""The rows that anchors are learned from: those of the lowest feature hashes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion._typing import FloatArray, IntArray, UIntArray
from apportion.hashing import row_hashes


class Rows(NamedTuple):
    """Rows as they were read: features, and the position of each row's bag, -1 = in none."""

    X: FloatArray
    codes: IntArray


class Sample(NamedTuple):
    """The rows of the lowest hashes, and of how many rows they are."""

    n_rows: int
    hashes: UIntArray
    X: FloatArray


def lowest(rows: Rows, most: int) -> Sample:
    """Return the rows of the lowest hashes."""
    return _lowest(Sample(len(rows.X), row_hashes(rows.X), np.asarray(rows.X)), most)


def merged(samples: list[Sample], most: int) -> Sample:
    """Return the rows of the lowest hashes of several samples."""
    hashes = np.concatenate([one.hashes for one in samples])
    X = np.concatenate([one.X for one in samples])
    return _lowest(Sample(sum(one.n_rows for one in samples), hashes, X), most)


def _lowest(sample: Sample, most: int) -> Sample:
    first = np.argsort(sample.hashes, kind="stable")[:most]
    return Sample(sample.n_rows, sample.hashes[first], sample.X[first])
