"""Time-stamped windows: whose they are, when they began and ended, and whether they count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from apportion._io.identifiers import factorize, plain_names
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.exceptions import DiaryError
from apportion.supervision.diary.clock import SECOND, ends_to_absolute, starts_to_absolute
from apportion.supervision.diary.columns import ROLES
from apportion.supervision.diary.durations import read_amount
from apportion.supervision.diary.table import Table
from apportion.supervision.diary.times import Instants, read_times

WINDOW_ROLES: dict[str, tuple[str, ...]] = {
    "participant": ROLES["participant"],
    "start": (
        "start", "begin", "time", "timestamp", "datetime", "t", "start_time", "begin_time",
    ),
    "end": ("end", "stop", "end_time", "stop_time"),
    "nonwear": ("nonwear", "not_worn"),
}  # fmt: skip
"""The names by which a recording's columns are known; see `first_called`."""

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
        When windows began and ended, in microseconds; None where no column says so.
    absolute : bool
        Whether these are points in time, not what a clock showed.
    zone : str or None
        The zone that a column of points in time names.
    off : ndarray of bool, of shape (n_samples,)
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
    off: BoolArray
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

    def in_zone(self, zone: ZoneInfo | None, place: Callable[[int], str]) -> Recording:
        """Return the recording with starts and ends, as points in time where the zone is known."""
        if self.starts is None:
            return self
        starts, ends = self.starts, self.ends
        if zone is not None and not self.absolute:
            starts = starts_to_absolute(starts, zone, self.codes, place)
            ends = None if ends is None else ends_to_absolute(ends, zone, starts)
        if ends is None:
            ends = starts + round(self.length * SECOND)
        early = ends <= starts
        if early.any():
            raise DiaryError(
                place(int(np.argmax(early))),
                "a window that does not end after its start",
                "windows that end after they start",
                "correct the times; where clocks were put back, name their zone (--timezone)",
            )
        spans = (ends - starts) / SECOND
        length, notes = float(np.median(spans)), self.notes
        if np.ptp(spans) > 0.01 * length:
            notes = (
                *notes,
                f"windows last from {spans.min():g} to {spans.max():g} s: totals count every "
                "window alike, so that durations hold only roughly",
            )
        known = self.absolute or zone is not None
        return replace(self, starts=starts, ends=ends, absolute=known, length=length, notes=notes)

    def covered(
        self, bags: IntArray, n_bags: int, within: tuple[IntArray, IntArray] | None = None
    ) -> FloatArray:
        """Return the seconds that the windows of each bag cover, overlaps counted once.

        Parameters
        ----------
        bags : ndarray of shape (n_samples,)
            Each window's bag; -1 = in none.
        n_bags : int
            The number of bags.
        within : pair of ndarray of shape (n_bags,), optional
            When bags begin and end: what windows cover outside does not count.
        """
        inside = np.flatnonzero(bags >= 0)
        bag = bags[inside]
        if self.starts is None or self.ends is None:
            return self.length * np.bincount(bag, minlength=n_bags).astype(np.float64)
        start, end = self.starts[inside], self.ends[inside]
        if within is not None:
            start, end = np.maximum(start, within[0][bag]), np.minimum(end, within[1][bag])
        moment, whose = np.concatenate([start, end]), np.concatenate([bag, bag])
        order = np.lexsort([moment, whose])
        running = np.cumsum(np.where(order < len(bag), 1, -1)) > 0
        moment = moment[order]
        lasts = np.diff(moment, append=moment[-1:]) / SECOND
        covered = np.bincount(whose[order], np.where(running, lasts, 0.0), n_bags)
        return covered.astype(np.float64)


def read_recording(
    table: Table,
    columns: Mapping[str, str | None],
    *,
    length: Any = None,
    time_format: str | None = None,
    place: Callable[[int], str],
) -> Recording:
    """Return the windows of a table.

    Parameters
    ----------
    table : Table
        One row a window.
    columns : mapping of str to str or None
        Which column is the `participant`, `start`, `end`, `nonwear`; None = by the usual names.
    length : number of seconds, timedelta or str, optional
        The length of every window.
    time_format : str, optional
        How times are written; by default ISO 8601.
    place : callable
        Says where a row stands.
    """
    chosen = {
        role: table.find(role, columns.get(role), usual) for role, usual in WINDOW_ROLES.items()
    }
    codes, names = participants_of(table, chosen["participant"], place)
    notes = []
    starts = ends = None
    absolute, zone = False, None
    seconds = np.nan if length is None else window_seconds(length)
    if chosen["start"] is not None:
        starts, absolute, zone = _times(table, chosen["start"], time_format, place)
        if length is None and chosen["end"] is not None:
            ends, with_zone, _ = _times(table, chosen["end"], time_format, place)
            _require_alike(chosen["end"], with_zone, absolute)
        elif length is None:
            seconds = _usual_step(starts, codes)
            notes.append(
                f"windows are taken to last {seconds:g} s, the usual time between two starts; "
                "--window says otherwise"
            )
    off = np.zeros(len(codes), dtype=bool)
    if chosen["nonwear"] is not None:
        off = marks_of(table, chosen["nonwear"], place)
        notes.append(
            f"{int(off.sum()):,} of {len(off):,} windows are marked as not worn in "
            f"{chosen['nonwear']!r}: they are not labeled, and their time counts as not recorded"
        )
    used = {role: column for role, column in chosen.items() if column is not None}
    return Recording(codes, names, starts, ends, absolute, zone, off, seconds, tuple(notes), used)


def window_seconds(length: Any) -> float:
    """Return the seconds of a window that is given as a number, a time delta or text."""
    try:
        amount = read_amount(length)
    except ValueError:
        amount = None
    if amount is None or amount.kind == "share" or not _SHORTEST <= amount.value <= _LONGEST:
        raise DiaryError(
            "the length of a window",
            repr(length),
            "a time such as 30 (seconds), '30s' or '1 min'",
            "correct it",
        )
    return amount.value


def participants_of(
    table: Table, column: str | None, place: Callable[[int], str]
) -> tuple[IntArray, tuple[str | None, ...]]:
    """Return each row's participant, as a position in the names, and these; None = nobody named."""
    if column is None:
        return np.zeros(table.n_samples, dtype=np.intp), (None,)
    codes, found = factorize(table[column], "participant")
    plain = plain_names(found, "participant", f"column {column!r}")
    names = {name: k for k, name in enumerate(dict.fromkeys(plain))}
    empty = np.array([not name for name in [*plain, ""]])[codes]
    if empty.any():
        raise DiaryError(
            f"{place(int(np.argmax(empty)))}, column {column!r}",
            "an empty cell",
            "a participant in every row",
            "fill the cell or drop the row",
        )
    return np.array([names[name] for name in plain])[codes], tuple(names)


def _times(
    table: Table, column: str, time_format: str | None, place: Callable[[int], str]
) -> Instants:
    return read_times(
        table.values(column), lambda i: f"{place(i)}, column {column!r}", time_format=time_format
    )


def _require_alike(column: str, with_zone: bool, as_starts: bool) -> None:
    if with_zone != as_starts:
        raise DiaryError(
            f"column {column!r} of the windows",
            "times with a zone" if with_zone else "times without a zone",
            "the same form as that of the starts",
            "write them alike",
        )


def _usual_step(starts: IntArray, codes: IntArray) -> float:
    order = np.lexsort([starts, codes])
    steps = np.diff(starts[order])[np.diff(codes[order]) == 0]
    steps = steps[steps > 0]
    if not steps.size:
        raise DiaryError(
            "the windows",
            "neither an end nor two starts to tell how long a window is",
            "a column of ends, or a length",
            "say how long windows are, e.g. --window '1 min'",
        )
    return float(np.median(steps)) / SECOND


def marks_of(table: Table, column: str, place: Callable[[int], str]) -> BoolArray:
    """Return which rows a column marks, as by 'yes', 1 or 'x'; an empty cell is no mark."""
    codes, values = factorize(table.values(column), "mark")
    words = [_word(value) for value in values]
    for code, word in enumerate(words):
        if word not in _YES and word not in _NO:
            row = int(np.argmax(codes == code))
            raise DiaryError(
                f"{place(row)}, column {column!r}",
                repr(values[code]),
                "true or false, yes or no, 1 or 0",
                "correct the cell; if the column says something else, rename it",
            )
    return np.array([*(word in _YES for word in words), False])[codes]


def says_yes_or_no(table: Table, column: str) -> bool:
    """Return whether all that a column holds are marks."""
    values = factorize(table.values(column), "mark")[1]
    return all(_word(value) in _YES | _NO for value in values)


def _word(value: Any) -> str:
    return str(value).strip().casefold()
