"""Sums over groups of rows."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from heapq import heapreplace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import sparse

from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray


class Groups:
    """Which group each row is in (-1 = none), ready for sums over groups.

    Examples
    --------
    >>> groups = Groups(np.array([0, 1, 1, -1]), 2)
    >>> groups.sum(np.array([1.0, 2.0, 3.0, 4.0]))
    array([1., 5.])
    """

    def __init__(self, codes: IntArray, n_groups: int) -> None:
        self.codes = codes
        self.n_groups = n_groups
        inside = codes[codes >= 0]
        counts = np.bincount(inside, minlength=n_groups)
        self.sizes = counts.astype(np.float64)
        self.covers_all_rows = len(inside) == len(codes)
        self._ends = np.cumsum(counts)
        self._sorted = self.covers_all_rows and bool(np.all(codes[1:] >= codes[:-1]))

    @cached_property
    def _indicator(self) -> AnyArray:
        """The sparse (n_groups × n_samples) matrix that takes sums."""
        n_outside = len(self.codes) - int(self.sizes.sum())
        rows = (
            np.arange(len(self.codes))
            if self._sorted
            else np.argsort(self.codes, kind="stable")[n_outside:]
        )
        pointers = np.append(0, self._ends)
        return sparse.csr_array(
            (np.ones(len(rows)), rows.astype(np.int32), pointers.astype(np.int32)),
            shape=(self.n_groups, len(self.codes)),
        )

    def sum(self, values: FloatArray) -> FloatArray:
        """Return the sum of the values over each group."""
        return self._indicator @ values

    def least(self, values: FloatArray) -> FloatArray:
        """Return the smallest value of each group; inf where it has no row."""
        return self._over_groups(np.minimum, values, np.inf)

    def greatest(self, values: FloatArray) -> FloatArray:
        """Return the greatest value of each group; -inf where it has no row."""
        return self._over_groups(np.maximum, values, -np.inf)

    def _over_groups(self, join: np.ufunc, values: FloatArray, none: float) -> FloatArray:
        joined = np.full((self.n_groups, *values.shape[1:]), none)
        if self._sorted:
            present = np.flatnonzero(self.sizes)
            starts = (self._ends - self.sizes).astype(np.intp)[present]
            joined[present] = join.reduceat(values, starts, axis=0) if present.size else none
        else:
            inside = self.codes >= 0
            join.at(joined, self.codes[inside], values[inside])
        return joined

    def averages(self) -> AnyArray:
        """Return the sparse (n_groups × n_samples) matrix of means; no group may be empty."""
        return sparse.diags_array(1.0 / self.sizes) @ self._indicator

    def spread(self, per_group: FloatArray) -> FloatArray:
        """Return every row's group value; 0 for rows in no group."""
        if self.covers_all_rows:
            return per_group[self.codes]
        none = np.zeros((1, *per_group.shape[1:]))
        return np.concatenate([per_group, none])[self.codes]

    def only(self, keep: BoolArray) -> tuple[IntArray, Groups]:
        """Return the rows of some groups, and these groups alone."""
        if self.covers_all_rows and keep.all():
            return np.arange(len(self.codes)), self
        rows = np.flatnonzero(np.append(keep, False)[self.codes])
        renumbered = np.cumsum(keep) - 1
        return rows, Groups(renumbered[self.codes[rows]], int(keep.sum()))

    def blocks(self, most_rows: int) -> list[GroupBlock]:
        """Return the groups cut into blocks of about `most_rows` rows; no group is cut in two."""
        by_group = np.argsort(self.codes, kind="stable")
        by_group = by_group[len(self.codes) - int(self.sizes.sum()) :]
        quotient = (self._ends - 1) // max(most_rows, 1)
        firsts = np.flatnonzero(np.diff(quotient, prepend=-1))
        edges = [*firsts.tolist(), self.n_groups]
        blocks = []
        for first, last in pairwise(edges):
            begin = int(self._ends[first - 1]) if first else 0
            rows = by_group[begin : int(self._ends[last - 1])]
            blocks.append(
                GroupBlock(rows, Groups(self.codes[rows] - first, last - first), slice(first, last))
            )
        return [block for block in blocks if len(block.rows)]


def balanced_folds(sizes: AnyArray, n_folds: int, order: Iterable[int]) -> IntArray:
    """Return the fold of every group: in the given order, each joins the fold with the fewest rows.

    Examples
    --------
    >>> balanced_folds(np.array([1.0, 2.0, 3.0]), 2, order=[2, 1, 0])
    array([1, 1, 0])
    """
    folds = np.zeros(len(sizes), dtype=np.intp)
    filled = [(0.0, fold) for fold in range(n_folds)]  # a heap: the fold with the fewest rows first
    for group in order:
        n_rows, fold = filled[0]
        folds[group] = fold
        heapreplace(filled, (n_rows + float(sizes[group]), fold))
    return folds


class GroupBlock(NamedTuple):
    """Some groups that follow each other: their rows, sorted by group, and their numbers."""

    rows: IntArray
    groups: Groups
    span: slice
