"""The periods of a diary's lines: days, spans of time, or names."""

from __future__ import annotations

import re
from datetime import date, datetime, time
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from apportion._io.identifiers import plain_name
from apportion._io.sheet import Sheet
from apportion._utils.typing import BoolArray, IntArray
from apportion.exceptions import DiaryError, hint, name_some
from apportion.supervision.diary.column_roles import Roles, bad_cell, empty_cell
from apportion.supervision.diary.durations import is_blank
from apportion.supervision.diary.instants import is_number, parsed_time, read_times
from apportion.supervision.diary.time_zones import (
    DAY,
    SECOND,
    first_showing,
    refuse_skipped,
    shown_at,
)

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
        Periods that are given as dates: they begin and end when a diary's day does.
    """

    first: IntArray
    last: IntArray
    absolute: bool
    in_days: BoolArray

    def take(self, periods: IntArray) -> Spans:
        """Return some of the periods."""
        return Spans(self.first[periods], self.last[periods], self.absolute, self.in_days[periods])

    def in_zone(self, zone: ZoneInfo | None, day_start: int) -> tuple[IntArray, IntArray]:
        """Return when periods begin and end, as points in time where the zone is known."""
        shift = np.where(self.in_days, day_start, 0)
        first, last = self.first + shift, self.last + shift
        if self.absolute or zone is None:
            return first, last
        # A day begins at its first moment, whatever the clock shows then.
        refuse_skipped(first, zone, among=~self.in_days)
        refuse_skipped(last, zone, among=~self.in_days, ends=True)
        return first_showing(first, zone), first_showing(last, zone)


class Periods(NamedTuple):
    """The name of each line's period, its span, and the roles of the columns that were read.

    Without spans, the names are also those in a column of the windows.
    """

    names: list[str]
    spans: Spans | None
    roles: tuple[str, ...]


def read_periods(
    sheet: Sheet, roles: Roles, date_format: str | None, time_format: str | None
) -> Periods:
    """Return the period of each line."""
    column = roles.column
    if "start" in column and "end" in column:
        cells = [*sheet.column(column["start"]), *sheet.column(column["end"])]
        if any(map(_looks_like_clock, cells)):
            spans = _clock_spans(sheet, column, date_format)
            return Periods(_span_names(spans), spans, ("date", "start", "end"))
        return _time_spans(sheet, column, date_format, time_format)
    if "date" in column:
        first = _days(sheet, column["date"], date_format)
        spans = Spans(first, first + DAY, False, np.ones(len(first), dtype=bool))
        return Periods(_span_names(spans), spans, ("date",))
    if "period" in column:
        return Periods(names_in(sheet, column["period"], "period"), None, ("period",))
    raise DiaryError(
        sheet.name,
        f"no column that says when; its columns are {name_some(map(repr, sheet.columns))}",
        "a column 'date', or 'start' and 'end', or 'period' (a name that windows have too)",
        hint("name the column so, or say which one it is, e.g. {diary_column:date=Tag}"),
    )


def names_in(sheet: Sheet, column: str, role: str) -> list[str]:
    """Return the names in a column; an empty cell raises an error."""
    cells = sheet.column(column)
    _refuse_empty(cells, column, role)
    return [plain_name(cell) for cell in cells]


def clock_time(cell: Any) -> int | None:
    """Return the microseconds since midnight of a clock time up to 24:00; None if it is none.

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
    in_text = isinstance(cell, str) and _CLOCK.fullmatch(cell.strip()) is not None
    return in_text or isinstance(cell, time)


def _refuse_empty(cells: list[Any], column: str, role: str) -> None:
    for row, cell in enumerate(cells):
        if is_blank(cell):
            raise empty_cell(row, column, role)


def _clock_spans(sheet: Sheet, column: dict[str, str], date_format: str | None) -> Spans:
    """Return spans between clock times of a date; those that end no later go over midnight."""
    if "date" not in column:
        raise DiaryError(
            sheet.name,
            f"clock times in {column['start']!r} and {column['end']!r}, but no date",
            "a column 'date' beside clock times, or times such as '2024-03-04 07:30'",
            hint("add it, or say which column it is, e.g. {diary_column:date=Tag}"),
        )
    day = _days(sheet, column["date"], date_format)
    begin = _clock_times(sheet, column["start"], DAY - 1)
    end = _clock_times(sheet, column["end"], DAY)
    last = day + end + np.where(end <= begin, DAY, 0)
    return Spans(day + begin, last, False, np.zeros(len(day), dtype=bool))


def _time_spans(
    sheet: Sheet, column: dict[str, str], date_format: str | None, time_format: str | None
) -> Periods:
    """Return spans between times or dates; an end that is a date is the end of that day."""
    start, end = (
        [_as_day(cell, date_format, time_format) for cell in sheet.amounts(column[role])]
        for role in ("start", "end")
    )
    starts = read_times(start, column["start"], time_format=time_format)
    ends = read_times(end, column["end"], time_format=time_format, like=starts)
    from_day, to_day = (np.array([_is_day(cell) for cell in cells]) for cells in (start, end))
    last = ends.values + np.where(to_day, DAY, 0)
    spans = Spans(starts.values, last, starts.absolute, from_day & to_day)
    for row in np.flatnonzero(spans.last <= spans.first).tolist():
        found = f"a period that ends at {end[row]} and begins at {start[row]}"
        allowed = "periods that end after they begin"
        raise bad_cell(row, None, found, allowed, "exchange or correct the two")
    names = _span_names(spans)
    if all(map(is_number, [*start, *end])):
        names = [f"{plain_name(a)}–{plain_name(b)}" for a, b in zip(start, end, strict=True)]
    return Periods(names, spans, ("start", "end"))


def _span_names(spans: Spans) -> list[str]:
    """Return the names of spans: their dates, or their start and the clock at their end."""
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


def _clock_times(sheet: Sheet, column: str, latest: int) -> IntArray:
    cells = sheet.column(column)
    _refuse_empty(cells, column, "time")
    moments = []
    for row, cell in enumerate(cells):
        moment = clock_time(cell)
        if moment is None or moment > latest:
            allowed = f"clock times such as '08:30'{', up to 24:00' * (latest == DAY)}"
            raise bad_cell(row, column, repr(cell), allowed, "correct the cell")
        moments.append(moment)
    return np.array(moments, dtype=np.int64)


def _days(sheet: Sheet, column: str, date_format: str | None) -> IntArray:
    """Return when the dates of a column begin, in microseconds."""
    cells = sheet.column(column)
    _refuse_empty(cells, column, "date")
    days = []
    for row, cell in enumerate(cells):
        day = cell if isinstance(cell, date) else parsed_time(str(cell), date_format)
        if day is None:
            form = f"written as {date_format!r}" if date_format else "such as '2024-03-04'"
            advice = hint("correct the cell, or give the form of dates: {date_format:%d/%m/%Y}")
            raise bad_cell(row, column, repr(cell), f"dates {form}", advice)
        days.append((date(day.year, day.month, day.day) - date(1970, 1, 1)).days * DAY)
    return np.array(days, dtype=np.int64)


def _as_day(cell: Any, date_format: str | None, time_format: str | None) -> Any:
    """Return the date that a cell holds without a time of day, or else the cell."""
    if not isinstance(cell, str):
        return cell
    forms = [date_format, time_format, "%Y-%m-%d"]
    days = (parsed_time(cell, form) for form in forms if form and not _TIME_OF_DAY.search(form))
    return next((day.date() for day in days if day is not None), cell)


def _is_day(cell: Any) -> bool:
    return isinstance(cell, date) and not isinstance(cell, datetime)
