"""Time-stamped windows: whose they are, when they began and ended, and whether they count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from apportion._io.identifiers import factorize
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.exceptions import Advice, DiaryError, hint
from apportion.supervision.diary.column_roles import WINDOW_ROLES, ColumnTable, bad_cell, find_roles
from apportion.supervision.diary.durations import read_amount
from apportion.supervision.diary.instants import read_times
from apportion.supervision.diary.time_zones import SECOND, ends_to_absolute, starts_to_absolute

_YES = frozenset(("1", "1.0", "true", "yes", "y", "x"))
_NO = frozenset(("", "0", "0.0", "false", "no", "n", "none", "nan"))
_SHORTEST, _LONGEST = 1e-6, 1e9
"""Seconds of a window."""


@dataclass(frozen=True)
class Recording:
    """The windows of a recording.

    Attributes
    ----------
    codes : ndarray of shape (n_samples,)
        Each window's participant, as a position in `names`.
    names : tuple of str or None
        The participants; one None where the windows name nobody.
    starts, ends : ndarray of shape (n_samples,), or None
        When windows began and ended, in microseconds; None where there is no column of times.
    absolute : bool
        Whether these are points in time, not what a clock showed.
    zone : str or None
        The zone that a column of points in time names.
    not_worn : ndarray of bool, of shape (n_samples,)
        Windows in which the sensor was not worn.
    length : float
        The usual seconds of a window; NaN where it is not known.
    notes : tuple of str
        What was found, in sentences.
    columns : dict of str to str
        Which columns these are, by role.
    """

    codes: IntArray
    names: tuple[str | None, ...]
    starts: IntArray | None
    ends: IntArray | None
    absolute: bool
    zone: str | None
    not_worn: BoolArray
    length: float
    notes: tuple[str, ...]
    columns: dict[str, str]

    @property
    def n_samples(self) -> int:
        """The number of windows."""
        return len(self.codes)

    @property
    def participants(self) -> AnyArray | None:
        """The name of each window's participant; None where windows name nobody."""
        if self.names == (None,):
            return None
        return np.array(self.names, dtype=object)[self.codes]

    def in_zone(self, zone: ZoneInfo | None) -> Recording:
        """Return the recording with starts and ends, as points in time where the zone is known."""
        if self.starts is None:
            return self
        starts, ends = self.starts, self.ends
        if zone is not None and not self.absolute:
            starts = starts_to_absolute(starts, zone, self.codes)
            ends = None if ends is None else ends_to_absolute(ends, zone, starts)
        if ends is None:
            ends = starts + round(self.length * SECOND)
        early = ends <= starts
        if early.any():
            found = "a window that does not end after its start"
            advice = "correct the times; where clocks were put back, name their zone ({timezone})"
            allowed = "windows that end after they start"
            raise bad_cell(int(np.argmax(early)), None, found, allowed, hint(advice))
        lengths = (ends - starts) / SECOND
        length, notes = float(np.median(lengths)), self.notes
        if np.ptp(lengths) > 0.01 * length:
            notes += (
                f"windows last from {lengths.min():g} to {lengths.max():g} s: totals count every "
                "window alike, so that durations hold only roughly",
            )
        known = self.absolute or zone is not None
        return replace(self, starts=starts, ends=ends, absolute=known, length=length, notes=notes)

    def covered(
        self, bags: IntArray, n_bags: int, within: tuple[IntArray, IntArray] | None = None
    ) -> FloatArray:
        """Return the seconds that the windows of each bag cover, with overlaps counted once.

        Parameters
        ----------
        bags : ndarray of shape (n_samples,)
            Each window's bag; -1 = in none.
        n_bags : int
            The number of bags.
        within : pair of ndarray of shape (n_bags,), optional
            When bags begin and end: what windows cover outside does not count.

        Returns
        -------
        ndarray of shape (n_bags,)
        """
        inside = np.flatnonzero(bags >= 0)
        bag = bags[inside]
        if self.starts is None or self.ends is None:
            return self.length * np.bincount(bag, minlength=n_bags).astype(np.float64)
        start, end = self.starts[inside], self.ends[inside]
        if within is not None:
            start, end = np.maximum(start, within[0][bag]), np.minimum(end, within[1][bag])
        # Starts count +1 and ends -1: where their running sum is positive, some window is open.
        moment, whose = np.concatenate([start, end]), np.concatenate([bag, bag])
        order = np.lexsort([moment, whose])
        is_open = np.cumsum(np.where(order < len(bag), 1, -1)) > 0
        moment = moment[order]
        seconds = np.diff(moment, append=moment[-1:]) / SECOND
        return np.bincount(whose[order], np.where(is_open, seconds, 0.0), n_bags).astype(np.float64)


def read_recording(
    table: ColumnTable,
    columns: Mapping[str, str | None],
    *,
    length: Any = None,
    time_format: str | None = None,
) -> Recording:
    """Return the windows of a table; errors about a window carry its row.

    Parameters
    ----------
    table : ColumnTable
        One row per window.
    columns : mapping of str to str or None
        Which column is the `participant`, `start`, `end`, `nonwear`; None = by the usual names.
    length : number of seconds, timedelta or str, optional
        The length of every window.
    time_format : str, optional
        How times are written; by default ISO 8601.

    Returns
    -------
    Recording
    """
    column = find_roles(table.names, WINDOW_ROLES, columns, "the windows").column
    codes, names = np.zeros(table.n_samples, dtype=np.intp), [None]
    if "participant" in column:
        codes, names = table.named_codes(column["participant"], "participant")  # type: ignore[assignment]
    notes: list[str] = []
    starts = ends = None
    seconds = np.nan if length is None else window_seconds(length)
    if "start" in column:
        starts = read_times(table.values(column["start"]), column["start"], time_format=time_format)
        if length is None and "end" in column:
            cells = table.values(column["end"])
            ends = read_times(cells, column["end"], time_format=time_format, like=starts)
        elif length is None:
            seconds = _usual_step(starts.values, codes)
            notes.append(
                Advice(
                    f"windows are taken to last {seconds:g} s, the usual time between two starts;",
                    "another length can be given with {window}",
                )
            )
    not_worn = np.zeros(len(codes), dtype=bool)
    if "nonwear" in column:
        not_worn = marks_of(table, column["nonwear"])
        notes.append(
            f"{int(not_worn.sum()):,} of {len(not_worn):,} windows are marked as not worn in "
            f"{column['nonwear']!r}: they are not labeled, and their time counts as not recorded"
        )
    first, absolute, zone = (None, False, None) if starts is None else starts
    last = None if ends is None else ends.values
    return Recording(
        codes, tuple(names), first, last, absolute, zone, not_worn, seconds, tuple(notes), column
    )


def window_seconds(length: Any) -> float:
    """Return the seconds of a window that is given as a number, a time delta or text."""
    try:
        amount = read_amount(length)
    except ValueError:
        amount = None
    if amount is None or amount.kind == "share" or not _SHORTEST <= amount.value <= _LONGEST:
        allowed = "a time such as 30 (seconds), '30s' or '1 min'"
        raise DiaryError("the length of a window", repr(length), allowed, "correct it")
    return amount.value


def _usual_step(starts: IntArray, codes: IntArray) -> float:
    """Return the median number of seconds between two starts of a participant."""
    order = np.lexsort([starts, codes])
    steps = np.diff(starts[order])[np.diff(codes[order]) == 0]
    steps = steps[steps > 0]
    if not steps.size:
        found = "neither an end nor two starts to tell how long a window is"
        advice = hint("give the length of windows, e.g. {window:1 min}")
        raise DiaryError("the windows", found, "a column of ends, or a length", advice)
    return float(np.median(steps)) / SECOND


def marks_of(table: ColumnTable, column: str) -> BoolArray:
    """Return which rows a column marks, as by 'yes', 1 or 'x'; an empty cell is no mark."""
    codes, values = factorize(table.values(column), "mark")
    words = [str(value).strip().casefold() for value in values]
    for code, word in enumerate(words):
        if word not in _YES | _NO:
            allowed = "true or false, yes or no, 1 or 0"
            advice = "correct the cell; if the column means something else, rename it"
            row = int(np.argmax(codes == code))
            raise bad_cell(row, column, repr(values[code]), allowed, advice)
    return np.array([*(word in _YES for word in words), False])[codes]


def holds_marks(table: ColumnTable, column: str) -> bool:
    """Return whether every cell of a column is a mark."""
    values = factorize(table.values(column), "mark")[1]
    return all(str(value).strip().casefold() in _YES | _NO for value in values)
