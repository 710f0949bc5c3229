"""Windows of equal length from the events of sensors, which have a start and perhaps an end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.exceptions import DiaryError, counted, hint, name_some
from apportion.supervision.diary.column_roles import (
    EVENT_ROLES,
    ColumnTable,
    bad_cell,
    find_roles,
    located_rows,
)
from apportion.supervision.diary.durations import is_blank
from apportion.supervision.diary.instants import Instants, read_times
from apportion.supervision.diary.recording import window_seconds
from apportion.supervision.diary.time_zones import (
    SECOND,
    ends_to_absolute,
    shown_by,
    starts_to_absolute,
    zone_named,
)

_MOST_CELLS = 2e8


@dataclass(frozen=True)
class EventWindows:
    """Windows of equal length, and what every sensor did in each.

    Attributes
    ----------
    participants : ndarray of shape (n_windows,), or None
        Whose window it is.
    starts, ends : ndarray of shape (n_windows,)
        When windows begin and end, in microseconds.
    absolute : bool
        Whether these are points in time, or seconds since any moment.
    zone : str or None
        The zone of the clock.
    sensors : list of str
        The sensors.
    seconds : ndarray of shape (n_windows, n_sensors), or None
        How long each sensor was on in each window; None where no event has an end.
    counts : ndarray of shape (n_windows, n_sensors)
        How many events of each sensor began in each window.
    notes : tuple of str
        What was found and decided, in sentences.
    """

    participants: AnyArray | None
    starts: IntArray
    ends: IntArray
    absolute: bool
    zone: str | None
    sensors: list[str]
    seconds: FloatArray | None
    counts: IntArray
    notes: tuple[str, ...]


def windows_of_events(
    events: Any,
    every: Any,
    *,
    columns: Mapping[str, str | None] | None = None,
    timezone: str | None = None,
    time_format: str | None = None,
    place: Callable[[int], str] | None = None,
) -> EventWindows:
    """Return windows from each participant's first event to the last, and what sensors did in them.

    Windows begin at multiples of their length: those of 5 minutes at 0:00, 0:05, and so on. Where
    events of a sensor overlap, their time counts once. An event without an end lasts until the next
    one of its sensor begins, or until the participant's last event; where no event has an end,
    events are moments.

    Parameters
    ----------
    events : dataframe or mapping of columns
        One row per event: when it starts and ends, of which sensor and participant it is.
    every : number of seconds, timedelta or str
        The length of a window, such as "5 min".
    columns : mapping of str to str, optional
        Which columns are the `participant`, `start`, `end` and `sensor`; by default the usual
        names.
    timezone : str, optional
        The zone of clock times, and of midnight where times are points in time.
    time_format : str, optional
        How times are written, for `datetime.strptime`; by default ISO 8601, or seconds.
    place : callable, optional
        Returns where a row of `events` stands, for error messages.

    Returns
    -------
    EventWindows
        One row per participant and window, one column per sensor.

    Examples
    --------
    >>> events = {
    ...     "start": ["2024-03-04 07:03", "2024-03-04 07:04", "2024-03-04 07:11"],
    ...     "end": ["2024-03-04 07:06", "2024-03-04 07:05", None],
    ...     "sensor": ["door", "door", "tap"],
    ... }
    >>> windows = windows_of_events(events, "5 min")
    >>> windows.sensors, windows.seconds.tolist(), windows.counts.tolist()
    (['door', 'tap'], [[120.0, 0.0], [60.0, 0.0], [0.0, 0.0]], [[2, 0], [0, 0], [0, 1]])
    """
    length = round(window_seconds(every) * SECOND)
    with located_rows(place or (lambda row: f"row {row} of the events")):
        read = _read_events(ColumnTable(events), columns or {}, timezone, time_format)
    first, number = _window_grid(read, length)
    n_windows, n_sensors = int(number.sum()), len(read.sensors)
    if n_windows * n_sensors > _MOST_CELLS:
        raise DiaryError(
            "the windows",
            f"{n_windows:,} of {length / SECOND:g} s from the first event to the last, with "
            f"{counted(n_sensors, 'sensor')} each",
            f"at most {_MOST_CELLS:,.0f} cells",
            hint("check the times of the first and last event, or choose longer windows ({every})"),
        )
    offset = np.cumsum(number) - number  # each participant's first window
    who = np.repeat(np.arange(len(number)), number)
    starts = first[who] + (np.arange(n_windows) - offset[who]) * length
    counts = np.zeros((n_windows, n_sensors), dtype=np.int64)
    window = offset[read.who] + (read.starts - first[read.who]) // length
    np.add.at(counts, (window, read.sensor), 1)
    return EventWindows(
        participants=None if read.names is None else np.array(read.names, dtype=object)[who],
        starts=starts,
        ends=starts + length,
        absolute=read.absolute,
        zone=read.zone,
        sensors=read.sensors,
        seconds=None if read.ends is None else _seconds_on(read, offset, first, length, n_windows),
        counts=counts,
        notes=read.notes,
    )


@dataclass(frozen=True)
class _Events:
    """Events as arrays; `names` is None where nobody is named, `ends` where no event has one."""

    who: IntArray
    names: list[str] | None
    sensor: IntArray
    sensors: list[str]
    starts: IntArray
    ends: IntArray | None
    absolute: bool
    zone: str | None
    notes: tuple[str, ...]


def _read_events(
    table: ColumnTable,
    columns: Mapping[str, str | None],
    timezone: str | None,
    time_format: str | None,
) -> _Events:
    column = find_roles(table.names, EVENT_ROLES, columns, "the events").column
    for role in ("start", "sensor"):
        if role not in column:
            found = f"no column of the {role} among {name_some(map(repr, table.names), 12)}"
            advice = hint(f"add it, or say which column it is with {{{role}}}")
            raise DiaryError("the events", found, f"a column {role!r}", advice)
    who, names = np.zeros(table.n_samples, dtype=np.intp), None
    if "participant" in column:
        who, names = table.named_codes(column["participant"], "participant")
    sensor, sensors = table.named_codes(column["sensor"], "sensor", sorted)
    clock = read_times(table.values(column["start"]), column["start"], time_format=time_format)
    zone = None if timezone is None or clock.absolute else zone_named(timezone)
    starts = clock.values if zone is None else starts_to_absolute(clock.values, zone, who)
    ends, notes = None, ["no event has an end: events are counted as moments"]
    if "end" in column:
        has_end, ends = _read_ends(table, column["end"], clock, time_format)
        if ends is not None:
            ends = ends if zone is None else ends_to_absolute(ends, zone, starts)
            ends, notes = _closed(who, sensor, starts, has_end, ends)
    n_events, n_sensors = counted(len(who), "event"), counted(len(sensors), "sensor")
    notes = [f"{n_events} of {n_sensors}: {name_some(sensors, 12)}", *notes]
    absolute = clock.absolute or timezone is not None
    zone_name = timezone if timezone is not None else clock.zone and "UTC"
    return _Events(who, names, sensor, sensors, starts, ends, absolute, zone_name, tuple(notes))


def _read_ends(
    table: ColumnTable, column: str, starts: Instants, time_format: str | None
) -> tuple[BoolArray, IntArray | None]:
    """Return which events have an end, and the ends; None where no event has one."""
    values = table.values(column)
    series = nw.from_native(values, pass_through=True, series_only=True, allow_series=True)
    cells = series.to_list() if isinstance(series, nw.Series) else list(values)
    has_end = np.array([not is_blank(cell) for cell in cells], dtype=bool)
    if not has_end.any():
        return has_end, None
    # An empty cell takes any end, which is replaced later, so that rows keep their numbers.
    if not has_end.all():
        any_end = cells[int(np.argmax(has_end))]
        values = [cell if given else any_end for cell, given in zip(cells, has_end, strict=True)]
    return has_end, read_times(values, column, time_format=time_format, like=starts).values


def _closed(
    who: IntArray, sensor: IntArray, starts: IntArray, has_end: BoolArray, ends: IntArray
) -> tuple[IntArray, list[str]]:
    """Return the ends of all events: open ones last until the sensor's next event, or the last."""
    ends = np.where(has_end, ends, starts)
    early = ends < starts
    if early.any():
        found = "an event that ends before it starts"
        advice = "correct the times; where clocks were put back, name their zone ({timezone})"
        allowed = "events that end when they start, or later"
        raise bad_cell(int(np.argmax(early)), None, found, allowed, hint(advice))
    n_open = int((~has_end).sum())
    if not n_open:
        return ends, []
    latest = np.full(int(who.max()) + 1, np.iinfo(np.int64).min)
    np.maximum.at(latest, who, ends)
    order = np.lexsort([starts, sensor, who])
    following = np.append(starts[order][1:], 0)
    same = np.append(~_lane_changes(who[order], sensor[order]), False)
    until = np.empty_like(starts)
    until[order] = np.where(same, following, latest[who[order]])
    note = (
        f"{counted(n_open, 'event')} without an end: each lasts until the next event of its "
        "sensor, or until the participant's last event"
    )
    return np.where(has_end, ends, until), [note]


def _lane_changes(who: IntArray, sensor: IntArray) -> BoolArray:
    """Return between which sorted events the participant or the sensor changes."""
    return (np.diff(who) != 0) | (np.diff(sensor) != 0)


def _window_grid(events: _Events, length: int) -> tuple[IntArray, IntArray]:
    """Return when each participant's first window begins, and how many windows they have."""
    n = int(events.who.max()) + 1
    first, last = np.full(n, np.iinfo(np.int64).max), np.full(n, np.iinfo(np.int64).min)
    np.minimum.at(first, events.who, events.starts)
    np.maximum.at(last, events.who, events.starts + 1)  # the window in which an event begins
    if events.ends is not None:
        np.maximum.at(last, events.who, events.ends)
    ahead = np.zeros_like(first)
    if events.zone is not None:
        ahead = shown_by(first, zone_named(events.zone)) - first
    first = (first + ahead) // length * length - ahead
    return first, -((first - last) // length)


def _joined_events(events: _Events) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return participants, sensors, starts and ends, with overlapping events of a sensor joined."""
    assert events.ends is not None
    order = np.lexsort([events.starts, events.sensor, events.who])
    who, sensor = events.who[order], events.sensor[order]
    start, end = events.starts[order], events.ends[order]
    lane = np.cumsum(np.append(0, _lane_changes(who, sensor)))
    # The latest end so far within a lane: ranks rise from lane to lane, so that one running
    # maximum over all lanes suffices.
    moments, rank = np.unique(end, return_inverse=True)
    shift = lane * len(moments)
    latest = moments[np.maximum.accumulate(rank.ravel() + shift) - shift]
    new = np.append(True, (start[1:] > latest[:-1]) | (np.diff(lane) > 0))
    begin = np.flatnonzero(new)
    until = np.append(begin[1:], len(start)) - 1
    return who[begin], sensor[begin], start[begin], latest[until]


def _seconds_on(
    events: _Events, offset: IntArray, first: IntArray, length: int, n_windows: int
) -> FloatArray:
    """Return the seconds in each window during which each sensor was on.

    A joined event covers all windows from its first to its last one: differences that are summed
    up add these, and what it does not cover of the two is subtracted.
    """
    who, sensor, start, end = _joined_events(events)
    lasting = end > start
    who, sensor, start, end = who[lasting], sensor[lasting], start[lasting], end[lasting]
    low, uncovered_low = np.divmod(start - first[who], length)
    high, covered_high = np.divmod(end - 1 - first[who], length)  # the last window it reaches
    low, high = low + offset[who], high + offset[who]
    change = np.zeros((n_windows + 1, len(events.sensors)), dtype=np.int64)
    np.add.at(change, (low, sensor), length)
    np.add.at(change, (high + 1, sensor), -length)
    covered = np.cumsum(change, axis=0)[:-1]
    np.add.at(covered, (low, sensor), -uncovered_low)
    np.add.at(covered, (high, sensor), covered_high + 1 - length)
    return np.asarray(covered / SECOND)
