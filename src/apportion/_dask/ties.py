"""Rows tied to anchors, and what partitions of them count."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion._dask.sample import Rows
from apportion._utils.hashing import row_hashes
from apportion._utils.threads import BLOCK_ROWS, slices
from apportion._utils.typing import FloatArray, IntArray, UIntArray
from apportion.graphs._neighbors import FlatSearch
from apportion.graphs._row_blocks import some_rows, transposed
from apportion.graphs.anchor import AnchorGraph, Nearness, nearness, sparse_rows


class Tied(NamedTuple):
    """Rows tied to anchors: weights and anchors of each, hashes and bags; how near they are."""

    weights: FloatArray
    nearest: IntArray
    hashes: UIntArray
    codes: IntArray
    near: Nearness


def tie(rows: Rows, anchors: FloatArray, n_nearest: int) -> Tied:
    """Return the rows tied to their nearest anchors."""
    weights, nearest, *distances = AnchorGraph(n_nearest=n_nearest).ties_of(
        rows.X, FlatSearch(anchors)
    )
    near = nearness(anchors, anchors.mean(axis=0), nearest[:, 0], *distances)
    return Tied(weights, nearest, row_hashes(rows.X), rows.codes, near)


class Census(NamedTuple):
    """What partitions add up to.

    Attributes
    ----------
    sizes, partitions : ndarray of shape (n_bags,)
        The rows of each bag, and the partitions that it lies in.
    anchor_rows, masses : ndarray of shape (n_anchors,)
        The rows tied to each anchor, and Λ.
    shared : ndarray of shape (n_anchors, n_anchors)
        ZᵀZ: how much any two anchors share.
    near : Nearness
        How near rows are to their nearest anchors.
    """

    sizes: FloatArray
    partitions: IntArray
    anchor_rows: FloatArray
    masses: FloatArray
    shared: FloatArray
    near: Nearness


def census(tied: Tied, n_bags: int, n_anchors: int) -> Census:
    """Return what a partition counts."""
    Z = sparse_rows(tied.weights, tied.nearest, n_anchors)
    shared = np.zeros((n_anchors, n_anchors))
    for block in slices(len(tied.codes), BLOCK_ROWS):
        part = some_rows(Z, block)
        shared += (transposed(part) @ part).toarray()
    sizes = np.bincount(tied.codes[tied.codes >= 0], minlength=n_bags)
    anchors = tied.nearest.ravel()
    return Census(
        sizes.astype(np.float64),
        (sizes > 0).astype(np.intp),
        np.bincount(anchors, minlength=n_anchors).astype(np.float64),
        np.bincount(anchors, tied.weights.ravel(), n_anchors).astype(np.float64),
        shared,
        tied.near,
    )
