"""The periods that a diary's lines speak of: days, spans of time, or names."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from apportion._io.identifiers import is_missing, plain_name
from apportion._io.sheet import Sheet
from apportion._utils.typing import BoolArray, IntArray
from apportion.exceptions import DiaryError, name_some
from apportion.supervision.diary.clock import (
    DAY,
    SECOND,
    first_showing,
    refuse_never_shown,
    shown_at,
)
from apportion.supervision.diary.columns import Roles
from apportion.supervision.diary.times import is_number, parsed_time, read_times

_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d+)?))?")
_TIME_OF_DAY = re.compile("%[HIMSpcX]")


class Spans(NamedTuple):
    """When periods begin and end.

    Attributes
    ----------
    first, last : ndarray of shape (n_periods,)
        In microseconds.
    absolute : bool
        Whether these are points in time, not what a clock showed.
    in_days : ndarray of bool, of shape (n_periods,)
        Periods that are said as dates: they begin and end when a diary's day does.
    """

    first: IntArray
    last: IntArray
    absolute: bool
    in_days: BoolArray

    def take(self, chosen: IntArray) -> Spans:
        """Return some of the periods."""
        return Spans(self.first[chosen], self.last[chosen], self.absolute, self.in_days[chosen])

    def in_zone(
        self, zone: ZoneInfo | None, day_start: int, place: Callable[[int], str]
    ) -> tuple[IntArray, IntArray]:
        """Return when periods begin and end, as points in time where the zone is known."""
        shift = np.where(self.in_days, day_start, 0)
        first, last = self.first + shift, self.last + shift
        if self.absolute or zone is None:
            return first, last
        said = np.flatnonzero(~self.in_days)
        for clock, ends in ((first, False), (last, True)):
            refuse_never_shown(clock[said], zone, lambda i: place(int(said[i])), ends=ends)
        return first_showing(first, zone), first_showing(last, zone)


class Periods(NamedTuple):
    """What each line calls its period, when that is, and the roles of the columns that say so.

    Without spans the names are those that windows have too.
    """

    names: list[str]
    spans: Spans | None
    roles: frozenset[str]


def read_periods(
    sheet: Sheet, roles: Roles, date_format: str | None, time_format: str | None
) -> Periods:
    """Return the period of each line."""
    if "start" in roles.column and "end" in roles.column:
        clocks = [*sheet.column(roles.column["start"]), *sheet.column(roles.column["end"])]
        if any(_looks_like_clock(cell) for cell in clocks):
            return _clock_spans(sheet, roles, date_format)
        return _time_spans(sheet, roles, date_format, time_format)
    if "date" in roles.column:
        return _days(sheet, roles.column["date"], date_format)
    if "period" in roles.column:
        column = roles.column["period"]
        names = [
            name_in(cell, sheet.place(i, column)) for i, cell in enumerate(sheet.column(column))
        ]
        return Periods(names, None, frozenset(["period"]))
    raise DiaryError(
        sheet.name,
        f"no column that says when; its columns are {name_some(map(repr, sheet.columns))}",
        "a column 'date', or 'start' and 'end', or 'period' (a name that windows have too)",
        "name the column so, or say which one it is, e.g. --diary-column date=Tag",
    )


def name_in(cell: Any, where: str) -> str:
    """Return the name in a cell; an empty cell is an error."""
    if _is_empty(cell):
        raise DiaryError(where, "an empty cell", "a name in every line", "fill the cell")
    return plain_name(cell)


def clock_time(cell: Any) -> int | None:
    """Return the microseconds since midnight of a clock time up to 24:00; None = it is none.

    Examples
    --------
    >>> clock_time("8:30") // SECOND, clock_time("24:00") == DAY, clock_time("24:01")
    (30600, True, None)
    """
    if isinstance(cell, time):
        return ((cell.hour * 60 + cell.minute) * 60 + cell.second) * SECOND + cell.microsecond
    match = _CLOCK.fullmatch(cell.strip()) if isinstance(cell, str) else None
    if match is None:
        return None
    hours, minutes, seconds = int(match[1]), int(match[2]), float(match[3] or 0)
    moment = (hours * 60 + minutes) * 60 * SECOND + round(seconds * SECOND)
    return moment if minutes < 60 and seconds < 60 and moment <= DAY else None


def _looks_like_clock(cell: Any) -> bool:
    return isinstance(cell, time) or (
        isinstance(cell, str) and bool(_CLOCK.fullmatch(cell.strip()))
    )


def _days(sheet: Sheet, column: str, date_format: str | None) -> Periods:
    days = [
        _day(cell, sheet.place(i, column), date_format)
        for i, cell in enumerate(sheet.column(column))
    ]
    first = np.array([_microseconds(day) for day in days], dtype=np.int64)
    spans = Spans(first, first + DAY, False, np.ones(len(days), dtype=bool))
    return Periods([day.isoformat() for day in days], spans, frozenset(["date"]))


def _clock_spans(sheet: Sheet, roles: Roles, date_format: str | None) -> Periods:
    """Return spans between clock times of a date; those that end no later go over midnight."""
    if "date" not in roles.column:
        raise DiaryError(
            sheet.name,
            f"clock times in {roles.column['start']!r} and {roles.column['end']!r}, but no date",
            "a column 'date' beside clock times, or times such as '2024-03-04 07:30'",
            "add it, or say which column it is, e.g. --diary-column date=Tag",
        )
    first, last = [], []
    days, starts, ends = (sheet.column(roles.column[role]) for role in ("date", "start", "end"))
    for i, (cell, start, end) in enumerate(zip(days, starts, ends, strict=True)):
        day = _microseconds(_day(cell, sheet.place(i, roles.column["date"]), date_format))
        begin = _clock(start, sheet.place(i, roles.column["start"]), DAY - 1)
        stop = _clock(end, sheet.place(i, roles.column["end"]), DAY)
        first.append(day + begin)
        last.append(day + stop + (DAY if stop <= begin else 0))
    spans = Spans(np.array(first), np.array(last), False, np.zeros(len(first), dtype=bool))
    return Periods(_span_names(spans), spans, frozenset(["date", "start", "end"]))


def _time_spans(
    sheet: Sheet, roles: Roles, date_format: str | None, time_format: str | None
) -> Periods:
    """Return spans between times or dates; an end that is a date is the end of that day."""
    columns = [roles.column[role] for role in ("start", "end")]
    cells = [[_or_day(c, date_format, time_format) for c in sheet.amounts(one)] for one in columns]
    starts = read_times(cells[0], lambda i: sheet.place(i, columns[0]), time_format=time_format)
    ends = read_times(cells[1], lambda i: sheet.place(i, columns[1]), time_format=time_format)
    if starts.absolute != ends.absolute:
        raise DiaryError(
            f"{sheet.name}, columns {columns[0]!r} and {columns[1]!r}",
            "times of which only one column has a zone",
            "the same form in both",
            "write them alike",
        )
    from_day, to_day = (np.array([_is_day(cell) for cell in one]) for one in cells)
    spans = Spans(
        starts.values, ends.values + np.where(to_day, DAY, 0), starts.absolute, from_day & to_day
    )
    for i in np.flatnonzero(spans.last <= spans.first).tolist():
        raise DiaryError(
            sheet.place(i),
            f"a period that ends at {cells[1][i]} and begins at {cells[0][i]}",
            "periods that end after they begin",
            "exchange or correct the two",
        )
    numbers = all(is_number(cell) for one in cells for cell in one)
    names = (
        [f"{plain_name(a)}–{plain_name(b)}" for a, b in zip(*cells, strict=True)]
        if numbers
        else _span_names(spans)
    )
    return Periods(names, spans, frozenset(["start", "end"]))


def _span_names(spans: Spans) -> list[str]:
    """Return what spans are called: their dates, or their start and the clock at their end."""
    names = []
    zone = " UTC" if spans.absolute else ""
    for first, last, in_days in zip(spans.first, spans.last, spans.in_days, strict=True):
        begin, end = shown_at(int(first)), shown_at(int(last))
        if in_days:
            begin, end = begin[:10], shown_at(int(last) - DAY)[:10]
            names.append(begin if begin == end else f"{begin}–{end}")
        else:
            names.append(f"{begin}–{end[11:] if last - first <= DAY else end}{zone}")
    return names


def _clock(cell: Any, where: str, latest: int) -> int:
    if _is_empty(cell):
        raise DiaryError(where, "no time", "a time in every line", "fill the cell or drop the line")
    moment = clock_time(cell)
    if moment is None or moment > latest:
        raise DiaryError(
            where,
            repr(cell),
            "clock times such as '08:30'" + (", up to '24:00'" if latest == DAY else ""),
            "correct the cell",
        )
    return moment


def _day(cell: Any, where: str, date_format: str | None) -> date:
    if _is_empty(cell):
        raise DiaryError(where, "no date", "a date in every line", "fill the cell or drop the line")
    if isinstance(cell, date):
        return date(cell.year, cell.month, cell.day)
    moment = parsed_time(str(cell), date_format)
    if moment is None:
        raise DiaryError(
            where,
            repr(cell),
            f"dates written as {date_format!r}" if date_format else "dates such as '2024-03-04'",
            "correct the cell, or say how dates are written with --date-format (date_format), e.g. "
            "'%d/%m/%Y'",
        )
    return moment.date()


def _is_empty(cell: Any) -> bool:
    return is_missing(cell) or not str(cell).strip()


def _or_day(cell: Any, date_format: str | None, time_format: str | None) -> Any:
    """Return the date that a cell says without a time of day, else the cell."""
    if not isinstance(cell, str):
        return cell
    forms = [date_format, time_format, "%Y-%m-%d"]
    days = (parsed_time(cell, form) for form in forms if form and not _TIME_OF_DAY.search(form))
    return next((day.date() for day in days if day is not None), cell)


def _is_day(cell: Any) -> bool:
    return isinstance(cell, date) and not isinstance(cell, datetime)


def _microseconds(day: date) -> int:
    return (day - date(1970, 1, 1)).days * DAY
