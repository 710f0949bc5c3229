"""Anchors of the rows of all partitions, and the rows tied to them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from apportion._dask.cluster import Cluster
from apportion._utils.hashing import hash_sample, row_hashes
from apportion._utils.magnitude import largest_size, require_squares
from apportion._utils.progress import report_progress
from apportion._utils.typing import FloatArray, IntArray, UIntArray
from apportion.exceptions import SupervisionError
from apportion.graphs._neighbors import FlatSearch
from apportion.graphs.anchor import (
    AnchorCensus,
    AnchorGraph,
    anchor_census,
    anchors_of,
    rows_for_anchors,
    shared_weights,
    sparse_rows,
    tie_rows,
)


class Rows(NamedTuple):
    """Rows as they were read: features, and the position of each row's bag, -1 = in no bag."""

    X: FloatArray
    codes: IntArray


class HashSample(NamedTuple):
    """The rows with the lowest feature hashes, in the order of the hashes.

    Attributes
    ----------
    n_samples : int
        How many rows the sample is drawn from.
    largest : float
        The largest absolute value of their features.
    hashes : ndarray of shape (n_sample,)
        The lowest hashes.
    X : ndarray of shape (n_sample, n_features), or None
        The rows that have them; None where only the hashes are sent.
    """

    n_samples: int
    largest: float
    hashes: UIntArray
    X: FloatArray | None = None


def learn_anchors(
    cluster: Cluster, partitions: list[Any], graph: AnchorGraph
) -> tuple[int, FloatArray]:
    """Return the number of rows, and the anchors: those that `graph` would learn from all rows."""
    # The rows of the lowest hashes are a bottom-k sketch (Cohen and Kaplan, "Summarizing data using
    # bottom-k sketches", PODC 2007): a random sample that depends on the rows alone, not on how
    # they are cut into partitions, and the sketch of all rows follows from those of the partitions.
    # The hashes come first, 8 bytes each. They tell which rows have to follow: 64 per anchor of all
    # partitions together, where every partition holds up to as many.
    report_progress("choosing anchors")
    most = rows_for_anchors(graph.most_anchors)
    samples = cluster.on_each_read(lowest_hashes, partitions, most)
    cluster.watch("choosing anchors", samples)
    lowest: HashSample = cluster.total(cluster.on_each(without_rows, samples), merged, most)
    if not lowest.n_samples:
        raise SupervisionError(
            "", "no rows", "at least one", "check where they are read from", parameter="X"
        )
    require_squares(lowest.largest)
    n_anchors = graph.anchors_for(lowest.n_samples)
    hashes = lowest.hashes[: rows_for_anchors(n_anchors)]
    samples = cluster.on_each(up_to, samples, int(hashes[-1]))
    sample: HashSample = cluster.total(samples, merged, len(hashes))
    assert sample.X is not None
    return lowest.n_samples, anchors_of(sample.X, n_anchors)


def lowest_hashes(rows: Rows, most: int) -> HashSample:
    """Return the sample of a partition."""
    X = np.asarray(rows.X)[hash_sample(rows.X, most)]
    return HashSample(len(rows.X), largest_size(rows.X), row_hashes(X), X)


def without_rows(sample: HashSample) -> HashSample:
    """Return the hashes alone."""
    return sample._replace(X=None)


def up_to(sample: HashSample, highest: int) -> HashSample:
    """Return the rows whose hashes are no higher than this."""
    assert sample.X is not None
    end = np.searchsorted(sample.hashes, np.uint64(highest), side="right")
    return sample._replace(hashes=sample.hashes[:end], X=sample.X[:end])


def merged(samples: list[HashSample], most: int) -> HashSample:
    """Return the lowest hashes of several samples, with their rows if these are there."""
    n_samples, largest, hashes, rows = zip(*samples, strict=True)
    order = np.argsort(np.concatenate(hashes), kind="stable")[:most]
    X = None if rows[0] is None else np.concatenate(rows)[order]
    return HashSample(sum(n_samples), max(largest), np.concatenate(hashes)[order], X)


class Tied(NamedTuple):
    """Rows tied to anchors: weights and anchors of each row, hashes and bags; their census."""

    weights: FloatArray
    nearest: IntArray
    hashes: UIntArray
    codes: IntArray
    census: AnchorCensus


def tie(rows: Rows, anchors: FloatArray, n_nearest: int) -> Tied:
    """Return the rows tied to their nearest anchors."""
    ties = tie_rows(rows.X, FlatSearch(anchors), n_nearest)
    census = anchor_census(ties, anchors)
    return Tied(ties.weights, ties.nearest, row_hashes(rows.X), rows.codes, census)


class Census(NamedTuple):
    """Sums over rows that partitions add up.

    Attributes
    ----------
    sizes, partitions : ndarray of shape (n_bags,)
        The rows of each bag, and the partitions that it lies in.
    anchors : AnchorCensus
        The sums for every anchor.
    shared : ndarray of shape (n_anchors, n_anchors)
        ZᵀZ: how much any two anchors share.
    """

    sizes: FloatArray
    partitions: IntArray
    anchors: AnchorCensus
    shared: FloatArray


def census(tied: Tied, n_bags: int, n_anchors: int) -> Census:
    """Return the sums over a partition's rows."""
    sizes = np.bincount(tied.codes[tied.codes >= 0], minlength=n_bags)
    Z = sparse_rows(tied.weights, tied.nearest, n_anchors)
    bags = sizes.astype(np.float64), (sizes > 0).astype(np.intp)
    return Census(*bags, tied.census, shared_weights(Z))
