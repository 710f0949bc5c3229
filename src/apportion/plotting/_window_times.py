"""When windows were recorded, from the arrays in which users have their times."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import available_timezones

import narwhals.stable.v1 as nw
import numpy as np

from apportion._utils.typing import AnyArray, IntArray
from apportion.exceptions import DiaryError, SupervisionError
from apportion.supervision.diary import DiaryBags
from apportion.supervision.diary.column_roles import ColumnTable
from apportion.supervision.diary.instants import read_times
from apportion.supervision.diary.periods import clock_time
from apportion.supervision.diary.recording import read_recording
from apportion.supervision.diary.time_zones import shown_by, zone_named

SECOND = 1_000_000
DAY = 24 * 3600 * SECOND

_TEN_YEARS = 10 * 365 * DAY
"""Smaller numbers count from the beginning of a recording, not from 1970."""


@dataclass(frozen=True)
class Times:
    """When windows were recorded, and of which participants.

    Attributes
    ----------
    starts, ends : ndarray of shape (n_samples,)
        Clock times in microseconds since 1970, or since the recording began.
    participants : ndarray of shape (n_samples,), or None
        The participant of each window.
    dated : bool
        Whether the times have dates, instead of counting from the beginning of a recording.
    day_start : int
        When a day begins, in microseconds after midnight.
    ahead : ndarray of shape (n_samples,), or None
        How far the clock was ahead of UTC at the starts, in microseconds; None = not known.
    zone : str or None
        The time zone of the clock, if known.
    """

    starts: IntArray
    ends: IntArray
    participants: AnyArray | None = None
    dated: bool = True
    day_start: int = 0
    ahead: IntArray | None = None
    zone: str | None = None

    @property
    def moments(self) -> tuple[IntArray, IntArray]:
        """Starts and ends as points in time if the zone is known, else as clock times."""
        if self.zone is None or self.ahead is None:
            return self.starts, self.ends
        return self.starts - self.ahead, self.ends - self.ahead


def times_from(start: Any, end: Any = None, window: Any = None, participants: Any = None) -> Times:
    """Return when windows started and ended, in clock time, and their participants.

    Points in time are converted to the time zone that their column, or each of their date-times,
    names. Those without a zone, such as text and numbers, are taken as UTC. A window that extends
    over a change of the clock keeps its length.

    Parameters
    ----------
    start : array-like of shape (n_samples,)
        When windows started: date-times, ISO text, or seconds. Seconds that amount to less than
        ten years have no date.
    end : array-like of shape (n_samples,), optional
        When windows ended, in the same form.
    window : number of seconds, timedelta or str, optional
        The length of every window, such as "1 min". By default, if there is no `end`, the usual
        time between two starts.
    participants : array-like of shape (n_samples,), optional
        The participant of each window.

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
            "",
            "both `end` and `window`",
            "one of them: when windows ended, or how long all of them are",
            "leave one of them out",
            parameter="window",
        )
    given = {"start": start, "end": end, "participant": participants}
    # An index of pandas becomes a series, because narwhals reads the zone of a series.
    columns = {
        role: cells.to_series() if hasattr(cells, "to_series") else cells
        for role, cells in given.items()
        if cells is not None
    }
    roles = {role: role for role in columns}
    recording = read_recording(ColumnTable(columns), roles, length=window).in_zone(None)
    starts, ends = np.asarray(recording.starts), np.asarray(recording.ends)
    ahead = _clock_times(columns["start"], starts) - starts
    has_zone = recording.zone is not None
    return Times(
        starts + ahead,
        ends + ahead,
        recording.participants,
        dated=not recording.absolute or has_zone or carries_dates(starts),
        ahead=ahead if recording.absolute else None,
        zone="UTC" if has_zone and recording.zone not in available_timezones() else recording.zone,
    )


def times_of_diary(matched: DiaryBags, day_start: str = "00:00") -> Times | None:
    """Return when the windows of a diary were recorded; None if no column contains times."""
    if matched.starts is None or matched.ends is None:
        return None
    return Times(
        matched.starts,
        matched.ends,
        matched.participants,
        dated=carries_dates(matched.starts),
        day_start=clock_time(day_start) or 0,
        ahead=matched.ahead,
        zone=matched.zone,
    )


def require_lengths(n_samples: int, **arrays: Any) -> None:
    """Raise unless every array that is not None has one value, or one row of `X`, per row.

    Parameters
    ----------
    n_samples : int
        The number of rows.
    **arrays
        What was passed, by the name of the parameter.

    Raises
    ------
    SupervisionError
        For the first array with another length or too many dimensions.
    """
    for parameter, values in arrays.items():
        sized = hasattr(values, "__len__") and not isinstance(values, str | bytes)
        shape = values.shape if hasattr(values, "shape") else (len(values),) if sized else ()
        too_wide = len(shape) > 1 and parameter not in ("X", "names")
        if values is not None and (shape[:1] != (n_samples,) or too_wide):
            found = f"the {type(values).__name__} {values!r}"
            if shape:
                found = f"an array of shape {shape}" if shape[1:] else f"{shape[0]:,} values"
            raise SupervisionError(
                "",
                found,
                f"{n_samples:,} values, one for every row",
                "pass them in the order of the labeled rows",
                parameter=parameter,
            )


def carries_dates(moments: IntArray) -> bool:
    """Return whether times count from 1970, not from the beginning of a recording."""
    return bool(np.abs(moments).max(initial=0) >= _TEN_YEARS)


def iso_of(moments: IntArray, zone: str | None) -> list[str]:
    """Return times as ISO 8601 text: points in time in a zone, or clock times without one.

    Examples
    --------
    >>> iso_of(np.array([1709535600 * SECOND]), "Europe/Paris")
    ['2024-03-04T08:00:00+01:00']
    >>> iso_of(np.array([1709535600 * SECOND]), None)
    ['2024-03-04T07:00:00']
    """
    clock = moments if zone is None else shown_by(moments, zone_named(zone))
    unit = "us" if (clock % SECOND).any() else "s"
    texts = clock.astype("M8[us]").astype(f"M8[{unit}]").astype(str)
    if zone is None:
        return list(texts.tolist())
    minutes, inverse = np.unique((clock - moments) // (60 * SECOND), return_inverse=True)
    offsets = [f"{'-' if m < 0 else '+'}{abs(m) // 60:02}:{abs(m) % 60:02}" for m in minutes]
    return list(np.char.add(texts, np.array(offsets)[inverse.ravel()]).tolist())


def _clock_times(cells: Any, moments: IntArray) -> IntArray:
    """Return what clocks showed at these moments, in microseconds."""
    series = nw.from_native(cells, pass_through=True, series_only=True, allow_series=True)
    if isinstance(series, nw.Series) and isinstance(series.dtype, nw.Datetime):
        if series.dtype.time_zone is None:
            return moments
        return read_times(nw.to_native(series.dt.replace_time_zone(None))).values
    listed = series.to_list() if isinstance(series, nw.Series) else list(cells)
    zones = {cell.tzinfo if isinstance(cell, datetime) else None for cell in listed}
    if len(zones) > 1 or None in zones:
        return moments
    return read_times([cell.replace(tzinfo=None) for cell in listed]).values
