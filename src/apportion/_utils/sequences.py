"""Rows that follow each other in time, recording by recording."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from apportion._utils.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Sequences:
    """Rows in the order of time, one sequence after the other.

    Attributes
    ----------
    order : ndarray of int, of shape (n_samples,)
        The rows, by sequence, then by time.
    closeness : ndarray of shape (n_samples,)
        How close each row of `order` is to the one before it: 1 at the usual step of the sequence
        or less, step / gap beyond, and 0 for the first row of a sequence.

    Examples
    --------
    >>> rows = Sequences.of(np.array([2.0, 0.0, 1.0, 9.0, 5.0]), np.array([0, 0, 0, 1, 0]))
    >>> rows.order
    array([1, 2, 0, 4, 3])
    >>> rows.closeness.round(2)
    array([0.  , 1.  , 1.  , 0.33, 0.  ])
    """

    order: IntArray
    closeness: FloatArray

    @classmethod
    def of(cls, times: FloatArray, sequence: IntArray, ties: IntArray | None = None) -> Sequences:
        """Return the rows in the order of time.

        Parameters
        ----------
        times : ndarray of shape (n_samples,)
            When each row was.
        sequence : ndarray of int, of shape (n_samples,)
            The sequence of each row.
        ties : ndarray of int, of shape (n_samples,), optional
            The order of rows of one sequence and time; by default that of the rows.
        """
        ties = np.arange(len(times)) if ties is None else ties
        order = np.lexsort((ties, times, sequence)).astype(np.intp)
        begins = np.append(True, np.diff(sequence[order]) != 0)[: len(order)]
        gaps = np.append(0.0, np.diff(times[order]))[: len(order)]
        step = _usual_gaps(gaps, begins)
        closeness = np.where(gaps > step, step / np.where(gaps > 0, gaps, 1.0), 1.0)
        return cls(order, np.where(begins, 0.0, closeness))

    @cached_property
    def begins(self) -> BoolArray:
        """Which rows of `order` begin a sequence."""
        return self.closeness == 0.0

    @cached_property
    def breaks(self) -> BoolArray:
        """Which rows of `order` begin a sequence, or follow a gap of more than one missing row."""
        return self.closeness < 0.5

    @cached_property
    def before(self) -> IntArray:
        """The row before each row, in the numbers of the rows; -1 for the first of a sequence."""
        before = np.empty_like(self.order)
        before[self.order] = np.where(self.begins, -1, np.roll(self.order, 1))
        return before

    def edges(self) -> Any:
        """Return the closeness of rows that follow each other, as a sparse symmetric array."""
        later = np.flatnonzero(~self.begins)
        n, weights = len(self.order), self.closeness[later]
        ends = self.order[later], self.order[later - 1]
        forward = sparse.csr_array((weights, ends), shape=(n, n))
        return sparse.csr_array(forward + forward.T)

    def n_changes(self, labels: IntArray) -> int:
        """Return how often the label changes within the sequences."""
        along = labels[self.order]
        return int(((along != np.roll(along, 1)) & ~self.begins).sum())


def _usual_gaps(gaps: FloatArray, begins: BoolArray) -> FloatArray:
    """Return the median positive gap of each row's sequence; inf if it has none."""
    sequence = np.cumsum(begins) - 1
    inner = np.flatnonzero(~begins & (gaps > 0))
    n_sequences = int(begins.sum())
    ranked = inner[np.lexsort((gaps[inner], sequence[inner]))]
    counts = np.bincount(sequence[inner], minlength=n_sequences)
    middle = np.cumsum(counts) - counts + (counts - 1) // 2
    medians = np.full(n_sequences, np.inf)
    medians[counts > 0] = gaps[ranked[middle[counts > 0]]]
    return medians[sequence]
