"""When windows were recorded, from the arrays in which people have their times."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import available_timezones

import narwhals.stable.v1 as nw
import numpy as np

from apportion._utils.typing import IntArray
from apportion.exceptions import DiaryError
from apportion.plotting._timeline_data import SECOND, Times
from apportion.supervision.diary import DiaryBags
from apportion.supervision.diary.column_roles import ColumnTable
from apportion.supervision.diary.instants import read_times
from apportion.supervision.diary.periods import clock_time
from apportion.supervision.diary.recording import read_recording
from apportion.supervision.diary.time_zones import shown_by, zone_named

_TEN_YEARS = 10 * 365 * 24 * 3600 * SECOND
"""Numbers below this many seconds count from the beginning of a recording, not from 1970."""


def times_from(start: Any, end: Any = None, window: Any = None, participants: Any = None) -> Times:
    """Return when windows began and ended, as clocks showed it, and whose they are.

    Points in time are shown as by clocks of the zone that their column, or each of their
    date-times, names; those that name none, as text and numbers, by clocks of UTC. A window that
    runs through a change of the clock keeps its length.

    Parameters
    ----------
    start : array-like of shape (n_samples,)
        When windows began: date-times, ISO text, or seconds. Seconds that add up to less than ten
        years carry no date.
    end : array-like of shape (n_samples,), optional
        When windows ended, in the same form.
    window : number of seconds, timedelta or str, optional
        The length of every window, such as "1 min". By default, without ends, the usual time
        between two starts.
    participants : array-like of shape (n_samples,), optional
        Whose window it is.

    Returns
    -------
    Times

    Examples
    --------
    >>> times = times_from(["2024-03-04 07:00", "2024-03-04 07:30"])
    >>> (times.ends - times.starts).tolist(), times.dated
    ([1800000000, 1800000000], True)
    >>> times_from([0.0, 30.0, 60.0]).dated
    False
    """
    if end is not None and window is not None:
        raise DiaryError(
            "`end` and `window`",
            "both",
            "one of them: when windows ended, or how long all of them are",
            "leave one of them out",
        )
    given = {"start": start, "end": end, "participant": participants}
    columns = {name: _column(name, cells) for name, cells in given.items() if cells is not None}
    roles = {name: name for name in columns}
    recording = read_recording(ColumnTable(columns), roles, length=window).in_zone(None)
    starts, ends = np.asarray(recording.starts), np.asarray(recording.ends)
    shift = _on_the_wall(columns["start"], starts) - starts
    named = not recording.absolute or recording.zone is not None
    dated = named or carries_dates(starts)
    zone = recording.zone if recording.zone in available_timezones() else recording.zone and "UTC"
    ahead = shift if recording.absolute else None
    return Times(starts + shift, ends + shift, recording.participants, dated, 0, ahead, zone)


def times_of_diary(matched: DiaryBags, day_start: str = "00:00") -> Times | None:
    """Return when the windows of a diary were recorded; None where no column says so."""
    if matched.starts is None or matched.ends is None:
        return None
    dated = carries_dates(matched.starts)
    begin = clock_time(day_start) or 0
    return Times(
        matched.starts,
        matched.ends,
        matched.participants,
        dated,
        begin,
        matched.ahead,
        matched.zone,
    )


def carries_dates(moments: IntArray) -> bool:
    """Return whether times count from 1970, not from the beginning of a recording."""
    return bool(np.abs(moments).max(initial=0) >= _TEN_YEARS)


def iso_of(moments: IntArray, zone: str | None) -> list[str]:
    """Return ISO 8601 text of points in time as clocks of a zone show them, or of clock times.

    Examples
    --------
    >>> iso_of(np.array([1709535600 * SECOND]), "Europe/Paris")
    ['2024-03-04T08:00:00+01:00']
    >>> iso_of(np.array([1709535600 * SECOND]), None)
    ['2024-03-04T07:00:00']
    """
    shown = moments if zone is None else shown_by(moments, zone_named(zone))
    times = shown.astype("M8[us]")
    texts = (times if (shown % SECOND).any() else times.astype("M8[s]")).astype(str)
    if zone is None:
        return list(texts.tolist())
    minutes, which = np.unique((shown - moments) // (60 * SECOND), return_inverse=True)
    ends = np.array([f"{'-' if m < 0 else '+'}{abs(m) // 60:02}:{abs(m) % 60:02}" for m in minutes])
    return list(np.char.add(texts, ends[which.ravel()]).tolist())


def _column(name: str, cells: Any) -> Any:
    """Return one value a row; an index of pandas as a series, which knows its zone."""
    if isinstance(cells, str | bytes) or not hasattr(cells, "__len__"):
        raise DiaryError(
            f"`{name}`", repr(cells), "one value a row", "give an array, a series or a list"
        )
    shape = getattr(cells, "shape", (len(cells),))
    if len(shape) != 1:
        raise DiaryError(
            f"`{name}`", f"a table of shape {shape}", "one value a row", "give one of its columns"
        )
    return cells.to_series() if hasattr(cells, "to_series") else cells


def _on_the_wall(cells: Any, moments: IntArray) -> IntArray:
    """Return what clocks showed at these moments, in microseconds."""
    series = nw.from_native(cells, pass_through=True, series_only=True, allow_series=True)
    if isinstance(series, nw.Series) and isinstance(series.dtype, nw.Datetime):
        if series.dtype.time_zone is None:
            return moments
        clock = nw.to_native(series.dt.replace_time_zone(None))
        return read_times(clock).values
    listed = series.to_list() if isinstance(series, nw.Series) else list(cells)
    zones = {cell.tzinfo if isinstance(cell, datetime) else None for cell in listed}
    if len(zones) > 1 or None in zones:
        return moments
    return read_times([cell.replace(tzinfo=None) for cell in listed]).values
