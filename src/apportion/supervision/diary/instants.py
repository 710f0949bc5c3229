"""Columns of times, in the forms people have them, as microseconds."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np

from apportion._utils.typing import AnyArray, BoolArray, IntArray
from apportion.exceptions import hint
from apportion.supervision.diary.column_roles import bad_cell, empty_cell
from apportion.supervision.diary.durations import is_blank
from apportion.supervision.diary.time_zones import SECOND

_EPOCH = datetime(1970, 1, 1)
_LATEST = 2e11
"""Seconds since 1970 of the year 8307: larger numbers are not seconds."""


class Instants(NamedTuple):
    """Times in microseconds, and whether they are points in time or only what a clock showed.

    A column of points in time may name the zone whose clocks it means.
    """

    values: IntArray
    absolute: bool
    zone: str | None = None


def read_times(
    values: Any,
    column: str | None = None,
    *,
    time_format: str | None = None,
    like: Instants | None = None,
) -> Instants:
    """Return the microseconds of a column of times.

    Parameters
    ----------
    values : series or sequence
        Dates and times, ISO text, or numbers, which are seconds.
    column : str, optional
        The name of the column, for error messages.
    time_format : str, optional
        How text is written, for `datetime.strptime`; by default ISO 8601.
    like : Instants, optional
        Other times, which must have a zone if and only if these have one.

    Returns
    -------
    Instants
    """
    instants = _instants_of(values, column, time_format)
    if like is not None and instants.absolute != like.absolute:
        found = f"times {'with' if instants.absolute else 'without'} a zone"
        raise bad_cell(0, column, found, "the same form as that of the starts", "write them alike")
    return instants


def _instants_of(values: Any, column: str | None, time_format: str | None) -> Instants:
    series = nw.from_native(values, pass_through=True, series_only=True, allow_series=True)
    if isinstance(series, nw.Series):
        if isinstance(series.dtype, nw.Datetime):
            _refuse_missing(np.asarray(series.is_null().to_numpy(), dtype=bool), column)
            stamps = np.asarray(series.dt.timestamp("us").to_numpy(), dtype=np.int64)
            zone = series.dtype.time_zone
            return Instants(stamps, absolute=zone is not None, zone=zone)
        if series.dtype.is_numeric():
            return _from_seconds(series.to_numpy(), column)
        values = series.to_list()
    elif isinstance(values, np.ndarray):
        if values.dtype.kind == "M":
            _refuse_missing(np.isnat(values), column)
            return Instants(values.astype("M8[us]").astype(np.int64), absolute=False)
        if values.dtype.kind in "iuf":
            return _from_seconds(values, column)
    return _from_cells(list(values), column, time_format)


def is_number(value: Any) -> bool:
    """Return whether a cell holds a number, not text or a time."""
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return False
        return True
    kinds = (int, float, np.integer, np.floating)
    return isinstance(value, kinds) and not isinstance(value, bool | np.timedelta64)


def parsed_time(text: str, form: str | None) -> datetime | None:
    """Return the time that a text in ISO 8601 or another form means; None where it means none."""
    try:
        if form is None:
            return datetime.fromisoformat(text.strip())
        return datetime.strptime(text.strip(), form)
    except (ValueError, re.error):
        return None


def _from_cells(cells: list[Any], column: str | None, time_format: str | None) -> Instants:
    _refuse_missing(np.array([is_blank(cell) for cell in cells], dtype=bool), column)
    if time_format is None and all(map(is_number, cells)):
        return _from_seconds(np.array(cells, dtype=np.float64), column)
    stamps = np.empty(len(cells), dtype=np.int64)
    aware = False
    for row, cell in enumerate(cells):
        moment = _moment(cell, row, column, time_format)
        offset = moment.utcoffset()
        if row > 0 and aware != (offset is not None):
            found = f"{cell!r}, which has {'no' if aware else 'a'} zone, unlike those before"
            allowed = "times that all have a zone, or none"
            raise bad_cell(row, column, found, allowed, "write them alike")
        aware = offset is not None
        since = moment.replace(tzinfo=None) - _EPOCH - (offset or timedelta())
        stamps[row] = since // timedelta(microseconds=1)
    return Instants(stamps, absolute=aware, zone="UTC" if aware else None)


def _moment(cell: Any, row: int, column: str | None, time_format: str | None) -> datetime:
    if isinstance(cell, datetime):
        return cell
    if isinstance(cell, date):
        return datetime(cell.year, cell.month, cell.day)
    moment = parsed_time(str(cell), time_format)
    if moment is None:
        allowed = "times such as '2024-03-04 07:30:00' or '2024-03-04T07:30:00Z', or seconds"
        if time_format:
            allowed = f"times written as {time_format!r}"
        advice = hint("correct the cell, or give the form of times: {time_format:%d/%m/%Y %H:%M}")
        raise bad_cell(row, column, repr(cell), allowed, advice)
    return moment


def _from_seconds(values: AnyArray, column: str | None) -> Instants:
    numbers = np.asarray(values, dtype=np.float64)
    _refuse_missing(np.isnan(numbers), column)
    bad = np.abs(numbers) > _LATEST
    if bad.any():
        row = int(np.argmax(bad))
        raise bad_cell(
            row,
            column,
            f"{numbers[row]:.17g}, too large for seconds",
            "seconds since 1970, or since any moment from which the diary counts too",
            "divide milliseconds by 1000, nanoseconds by 10⁹",
        )
    return Instants(np.rint(numbers * SECOND).astype(np.int64), absolute=True)


def _refuse_missing(missing: BoolArray, column: str | None) -> None:
    if missing.any():
        raise empty_cell(int(np.argmax(missing)), column, "time")
