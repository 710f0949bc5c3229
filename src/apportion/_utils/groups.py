"""Sums over groups of rows."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from heapq import heapreplace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from apportion._utils.arrays import arange, as_float, beside, full, is_tensor, namespace, zeros
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray


class Groups:
    """Which group each row is in (-1 = none), ready for sums over groups.

    Codes on a device take sums of values there: see `arrays`.

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
        self._counts = namespace(codes).bincount(inside, minlength=n_groups)
        self.sizes = as_float(self._counts)
        self.covers_all_rows = len(inside) == len(codes)
        self._ends = self._counts.cumsum(0)
        self._sorted = self.covers_all_rows and bool((codes[1:] >= codes[:-1]).all())

    @cached_property
    def _indicator(self) -> AnyArray:
        """The sparse (n_groups × n_samples) matrix that takes sums."""
        rows = arange(len(self.codes), self.codes) if self._sorted else self._by_group
        pointers = np.append(0, self._ends)
        return sparse.csr_array(
            (np.ones(len(rows)), rows.astype(np.int32), pointers.astype(np.int32)),
            shape=(self.n_groups, len(self.codes)),
        )

    @cached_property
    def _by_group(self) -> IntArray:
        """The rows that are in groups, sorted by group."""
        n_inside = int(self._counts.sum())
        order = namespace(self.codes).argsort(self.codes, kind="stable")
        return order[len(self.codes) - n_inside :]

    @cached_property
    def _segments(self) -> Any:
        """The groups as runs of rows on a device, which takes sums there."""
        from apportion._utils.tensors import Segments

        return Segments(self._counts)

    def _in_order(self, values: FloatArray) -> FloatArray:
        return values if self._sorted else values[self._by_group]

    def sum(self, values: FloatArray) -> FloatArray:
        """Return the sum of the values over each group."""
        if is_tensor(values):
            return self._segments.sum(self._in_order(values))
        return self._indicator @ values

    def least(self, values: FloatArray) -> FloatArray:
        """Return the smallest value of each group; inf where it has no row."""
        if is_tensor(values):
            return self._segments.least(self._in_order(values))
        return self._over_groups(np.minimum, values, np.inf)

    def greatest(self, values: FloatArray) -> FloatArray:
        """Return the greatest value of each group; -inf where it has no row."""
        if is_tensor(values):
            return self._segments.greatest(self._in_order(values))
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

    def beside(self, array: AnyArray) -> Groups:
        """Return the same groups where an array is: in memory, or on its device."""
        return Groups(beside(self.codes, array), self.n_groups) if is_tensor(array) else self

    def averages(self) -> AnyArray:
        """Return the sparse (n_groups × n_samples) matrix of means; no group may be empty."""
        return sparse.diags_array(1.0 / self.sizes) @ self._indicator

    def spread(self, per_group: FloatArray) -> FloatArray:
        """Return every row's group value; 0 for rows in no group."""
        if self.covers_all_rows:
            return per_group[self.codes]
        none = zeros((1, *per_group.shape[1:]), like=per_group)
        return namespace(per_group).concatenate([per_group, none])[self.codes]

    def only(self, keep: BoolArray) -> tuple[IntArray, Groups]:
        """Return the rows of some groups, and these groups alone."""
        if self.covers_all_rows and keep.all():
            return arange(len(self.codes), self.codes), self
        xp = namespace(keep)
        rows = xp.flatnonzero(xp.concatenate([keep, full(1, False, keep)])[self.codes])
        renumbered = keep.cumsum(0) - 1
        return rows, Groups(renumbered[self.codes[rows]], int(keep.sum()))

    def blocks(self, most_rows: int) -> list[GroupBlock]:
        """Return the groups cut into blocks of about `most_rows` rows; no group is cut in two.

        On a device, all groups are one block.
        """
        if is_tensor(self.codes):
            rows = self._by_group
            whole = Groups(self.codes[rows], self.n_groups)
            return [GroupBlock(rows, whole, slice(0, self.n_groups))] if len(rows) else []
        by_group = self._by_group
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
