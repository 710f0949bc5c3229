"""Moves of rows and of parts of episodes between classes, with their exact gains.

A *move* gives the rows of a segment another class. A segment is a part of a run, that is of
consecutive rows of one recording, bag and label: its beginning, its end, all of it, or rows within.
Gains are those of Σ scores - Σ costs of changes. They are exact as long as nothing beside the
segment changes at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from apportion._utils.typing import AnyArray, BoolArray, IntArray


class Moves(NamedTuple):
    """Segments `begin:end` of rows in the order of time that could go from a class to another."""

    bag: IntArray
    begin: IntArray
    end: IntArray
    source: IntArray
    target: IntArray
    gain: IntArray

    @property
    def size(self) -> IntArray:
        """The number of rows of each segment."""
        return self.end - self.begin

    def take(self, listed: AnyArray) -> Moves:
        """Return some of the moves."""
        return Moves(*(field[listed] for field in self))


NO_MOVES = Moves(*(np.zeros(0, dtype=np.intp) for _ in range(6)))


@dataclass(frozen=True)
class TimeLabels:
    """Labels of rows in the order of time, and what they are worth.

    Parameters
    ----------
    labels : ndarray of int, of shape (n_samples,)
        The labels; `applied` returns others.
    scores : ndarray of int, of shape (n_samples, n_classes)
        What each row is worth in each class.
    costs : ndarray of int, of shape (n_samples,)
        The cost if a row's label is not that of the row before it; 0 where a recording begins.
    begins : ndarray of bool, of shape (n_samples,)
        Where an episode begins in any case: where a recording does.
    bags : ndarray of int, of shape (n_samples,)
        The bag of each row that may be moved; -1 for all others.
    ranks : ndarray of int, of shape (n_samples,)
        An order of the rows to break ties by.
    starts : ndarray of int, of shape (n_samples, n_classes), optional
        The cost if an episode of a class begins at a row.
    """

    labels: IntArray
    scores: IntArray
    costs: IntArray
    begins: BoolArray
    bags: IntArray
    ranks: IntArray
    starts: IntArray | None = None

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return self.scores.shape[1]

    @property
    def begin_episodes(self) -> BoolArray:
        """Which rows begin an episode."""
        return self.begins | (self.labels != np.roll(self.labels, 1))

    def value(self) -> int:
        """Return Σ scores - Σ costs."""
        rows = np.arange(len(self.labels))
        total = int(self.scores[rows, self.labels].sum())
        begin = np.flatnonzero(self.begin_episodes)
        if self.starts is not None:
            total -= int(self.starts[begin, self.labels[begin]].sum())
        return total - int(self.costs[begin].sum())

    def counts(self, n_bags: int) -> IntArray:
        """Return the number of rows that may be moved, by bag and label."""
        inside = np.flatnonzero(self.bags >= 0)
        cells = self.bags[inside] * self.n_classes + self.labels[inside]
        return np.bincount(cells, minlength=n_bags * self.n_classes).reshape(n_bags, self.n_classes)

    def applied(self, moves: Moves) -> TimeLabels:
        """Return the labels after moves of segments that do not overlap."""
        labels = self.labels.copy()
        rows, owner = _rows_of(moves)
        labels[rows] = moves.target[owner]
        return replace(self, labels=labels)

    def single_gains(self) -> IntArray:
        """Return what is gained if a row alone gets another label (n_samples × n_classes)."""
        rows = np.arange(len(self.labels))
        left, right = _edges(self, rows)
        return self.scores - self.scores[rows, self.labels][:, None] + left + right

    def moves(self, rows: IntArray, most: IntArray, lengths: tuple[int, ...] = (1,)) -> Moves:
        """Return the moves of beginnings, ends and inner parts of runs.

        Parameters
        ----------
        rows : ndarray of int
            All rows of some bags, in the order of time.
        most : ndarray of int, of shape (n_bags, n_classes, n_classes)
            The most rows that may go from a class to another at once; 0 = none.
        lengths : tuple of int
            The lengths of segments within runs; 0 = as many rows as may go.
        """
        return _moves_of(self, rows, most, lengths)


def _rows_of(moves: Moves) -> tuple[IntArray, IntArray]:
    """Return all rows of the segments, and the number of the segment of each."""
    owner = np.repeat(np.arange(len(moves.begin)), moves.size)
    first = np.cumsum(moves.size) - moves.size
    return np.arange(len(owner)) - first[owner] + moves.begin[owner], owner


def _moves_of(state: TimeLabels, rows: IntArray, most: IntArray, lengths: tuple[int, ...]) -> Moves:
    c = state.n_classes
    y, bag = state.labels[rows], state.bags[rows]
    left, right = _edges(state, rows)
    gains = state.scores[rows] - state.scores[rows, y][:, None]
    sums = np.concatenate([np.zeros((1, c), dtype=np.int64), np.cumsum(gains, axis=0)])
    here, first, last = np.arange(len(rows)), *_runs(state, rows)
    cap = most[bag, y]
    segments = [(first, here + 1), (here, last)]
    parts = [
        _listed(left, right, sums, begin[:, None], end[:, None], cap) for begin, end in segments
    ]
    for length in lengths:
        end = here[:, None] + (cap if length == 0 else np.full((1, c), length))
        inside = (end < last[:, None]) & (here > first)[:, None]
        end = np.where(inside, end, here[:, None])
        parts.append(_listed(left, right, sums, here[:, None], end, cap))
    begin, end, target, gain = map(np.concatenate, zip(*parts, strict=True))
    return Moves(bag[begin], rows[begin], rows[end - 1] + 1, y[begin], target, gain)


def _runs(state: TimeLabels, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return where the run of each row begins, and where it ends, as positions in `rows`."""
    breaks = state.begins[rows]
    for values, step in ((rows, 1), (state.labels[rows], 0), (state.bags[rows], 0)):
        breaks[1:] |= np.diff(values) != step
    breaks[:1] = True
    starts, number = np.flatnonzero(breaks), np.cumsum(breaks) - 1
    return starts[number], np.append(starts, len(rows))[1:][number]


def _listed(
    left: IntArray, right: IntArray, sums: IntArray, begin: IntArray, end: IntArray, cap: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return begin, end, class and gain of the segments that are not empty nor too long."""
    begin, end = np.broadcast_arrays(begin, end)
    size = np.broadcast_to(end - begin, cap.shape)
    position, target = np.nonzero((size > 0) & (size <= cap))
    column = target if begin.shape[1] > 1 else np.zeros_like(target)
    first, last = begin[position, column], end[position, column]
    gain = sums[last, target] - sums[first, target] + left[first, target] + right[last - 1, target]
    return first, last, target, gain


def _edges(state: TimeLabels, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return what is gained at the two edges of a segment that begins, or ends, at a row."""
    n, c = len(state.labels), state.n_classes
    classes, y = np.arange(c), state.labels[rows]
    before = np.where(rows > 0, state.labels[rows - 1], -1)
    after = np.where(rows < n - 1, state.labels[(rows + 1) % n], -1)
    enter = np.append(state.costs, 0)
    left = enter[rows][:, None] * _saved(y, before, classes)
    leave = enter[rows + 1]
    if state.starts is not None:
        begins = state.begins[rows]
        now = np.where(begins | (y != before), state.starts[rows, y], 0)
        then = np.where(begins[:, None] | (classes != before[:, None]), state.starts[rows], 0)
        left = left + now[:, None] - then
        following = (rows + 1) % n
        leave = leave + np.where(state.begins[following], 0, state.starts[following, after])
    return left, leave[:, None] * _saved(y, after, classes)


def _saved(now: IntArray, beside: IntArray, classes: IntArray) -> IntArray:
    """Return how many changes are saved beside a neighbor if the label becomes each class."""
    return (now != beside)[:, None].astype(np.int64) - (classes != beside[:, None])
