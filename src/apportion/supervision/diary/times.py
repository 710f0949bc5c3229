"""Columns of times, in the forms people have them, as microseconds."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np

from apportion._io.identifiers import is_missing
from apportion._utils.typing import AnyArray, BoolArray, IntArray
from apportion.exceptions import DiaryError
from apportion.supervision.diary.clock import SECOND

_EPOCH = datetime(1970, 1, 1)
_LATEST = 2e11
"""Seconds since 1970 of the year 8307: larger numbers are not seconds."""


class Instants(NamedTuple):
    """Times as microseconds, and whether they are points in time or only what a clock showed.

    Of points in time, a column may name the zone whose clocks it means.
    """

    values: IntArray
    absolute: bool
    zone: str | None = None


def read_times(
    values: Any, place: Callable[[int], str], *, time_format: str | None = None
) -> Instants:
    """Return the microseconds of a column of times: of dates and times, ISO text, or seconds.

    Parameters
    ----------
    values : series or sequence
        Times; numbers are seconds.
    place : callable
        Says, for the error message, where the value of a row stands.
    time_format : str, optional
        How text is written, for `datetime.strptime`; by default ISO 8601.
    """
    series = nw.from_native(values, pass_through=True, series_only=True, allow_series=True)
    if isinstance(series, nw.Series):
        if isinstance(series.dtype, nw.Datetime):
            _refuse_missing(np.asarray(series.is_null().to_numpy(), dtype=bool), place)
            stamps = np.asarray(series.dt.timestamp("us").to_numpy(), dtype=np.int64)
            zone = series.dtype.time_zone
            return Instants(stamps, absolute=zone is not None, zone=zone)
        if series.dtype.is_numeric():
            return Instants(_from_seconds(series.to_numpy(), place), absolute=True)
        values = series.to_list()
    elif isinstance(values, np.ndarray):
        if values.dtype.kind == "M":
            _refuse_missing(np.isnat(values), place)
            return Instants(values.astype("M8[us]").astype(np.int64), absolute=False)
        if values.dtype.kind in "iuf":
            return Instants(_from_seconds(values, place), absolute=True)
    return _from_cells(list(values), place, time_format)


def is_number(value: Any) -> bool:
    """Return whether a cell holds a number, not text or a time."""
    if isinstance(value, bool | np.bool_ | timedelta | np.timedelta64):
        return False
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return False
        return True
    return isinstance(value, int | float | np.integer | np.floating)


def parsed_time(text: str, form: str | None) -> datetime | None:
    """Return the time that a text says in ISO 8601 or in another form; None where it does not."""
    try:
        if form is None:
            return datetime.fromisoformat(text.strip())
        return datetime.strptime(text.strip(), form)
    except (ValueError, re.error):
        return None


def _from_cells(cells: list[Any], place: Callable[[int], str], time_format: str | None) -> Instants:
    empty = [is_missing(c) or (isinstance(c, str) and not c.strip()) for c in cells]
    _refuse_missing(np.array(empty, dtype=bool), place)
    if time_format is None and all(map(is_number, cells)):
        return Instants(_from_seconds(np.array(cells, dtype=np.float64), place), absolute=True)
    stamps = np.empty(len(cells), dtype=np.int64)
    aware: bool | None = None
    for row, cell in enumerate(cells):
        moment = _moment(cell, row, place, time_format)
        if aware is None:
            aware = moment.tzinfo is not None
        elif aware != (moment.tzinfo is not None):
            raise DiaryError(
                place(row),
                f"{cell!r}, which {'has no' if aware else 'has a'} zone, unlike those before",
                "times that all have a zone, or none",
                "write them alike",
            )
        stamps[row] = _microseconds(moment)
    return Instants(stamps, absolute=bool(aware), zone="UTC" if aware else None)


def _microseconds(moment: datetime) -> int:
    away = moment.utcoffset() or timedelta()
    return (moment.replace(tzinfo=None) - _EPOCH - away) // timedelta(microseconds=1)


def _moment(cell: Any, row: int, place: Callable[[int], str], time_format: str | None) -> datetime:
    if isinstance(cell, datetime):
        return cell
    if isinstance(cell, date):
        return datetime(cell.year, cell.month, cell.day)
    moment = parsed_time(str(cell), time_format)
    if moment is None:
        raise DiaryError(
            place(row),
            repr(cell),
            f"times written as {time_format!r}"
            if time_format
            else "times such as '2024-03-04 07:30:00' or '2024-03-04T07:30:00Z', or seconds",
            "correct the cell, or say how times are written with --time-format (time_format), e.g. "
            "'%d/%m/%Y %H:%M'",
        )
    return moment


def _from_seconds(values: AnyArray, place: Callable[[int], str]) -> IntArray:
    numbers = np.asarray(values, dtype=np.float64)
    _refuse_missing(np.isnan(numbers), place)
    bad = np.abs(numbers) > _LATEST
    if bad.any():
        row = int(np.argmax(bad))
        raise DiaryError(
            place(row),
            f"{numbers[row]:.17g}, too large for seconds",
            "seconds since 1970, or since any moment from which the diary counts too",
            "divide milliseconds by 1000, nanoseconds by 10⁹",
        )
    return np.rint(numbers * SECOND).astype(np.int64)


def _refuse_missing(missing: BoolArray, place: Callable[[int], str]) -> None:
    if missing.any():
        raise DiaryError(
            place(int(np.argmax(missing))),
            "no time",
            "a time in every row",
            "fill the cell or drop the row",
        )
