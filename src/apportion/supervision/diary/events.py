"""Events of sensors, each with a start and perhaps an end, as windows of equal length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np

from apportion._io.identifiers import factorize, is_missing, plain_names
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.exceptions import DiaryError, counted, name_some
from apportion.supervision.diary.clock import (
    SECOND,
    ends_to_absolute,
    shown_by,
    starts_to_absolute,
    zone_named,
)
from apportion.supervision.diary.recording import WINDOW_ROLES, participants_of, window_seconds
from apportion.supervision.diary.table import Table
from apportion.supervision.diary.times import read_times

EVENT_ROLES: dict[str, tuple[str, ...]] = {
    "participant": WINDOW_ROLES["participant"],
    "start": WINDOW_ROLES["start"],
    "end": WINDOW_ROLES["end"],
    "sensor": ("sensor", "sensor_id", "sensor_name", "device", "device_id", "location", "name"),
}
"""The names by which a table of events' columns are known; see `first_called`."""

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
        Says where a row of `events` stands, for messages.

    Returns
    -------
    EventWindows

    Examples
    --------
    >>> events = {
    ...     "start": ["2024-03-04 07:03", "2024-03-04 07:04", "2024-03-04 07:11"],
    ...     "end": ["2024-03-04 07:06", "2024-03-04 07:05", None],
    ...     "sensor": ["door", "door", "tap"],
    ... }
    >>> found = windows_of_events(events, "5 min")
    >>> found.sensors, found.seconds.tolist(), found.counts.tolist()
    (['door', 'tap'], [[120.0, 0.0], [60.0, 0.0], [0.0, 0.0]], [[2, 0], [0, 0], [0, 1]])
    """
    place = place or (lambda row: f"row {row} of the events")
    length = round(window_seconds(every) * SECOND)
    read = _read(Table(events), columns or {}, timezone, time_format, place)
    first, number = _windows_of(read, length)
    n_windows, n_sensors = int(number.sum()), len(read.sensors)
    if n_windows * n_sensors > _MOST_CELLS:
        raise DiaryError(
            "the windows",
            f"{n_windows:,} of {window_seconds(every):g} s from the first event to the last, with "
            f"{counted(n_sensors, 'sensor')} each",
            f"at most {_MOST_CELLS:,.0f} cells",
            "check the times of the first and the last event, or choose longer windows (--every)",
        )
    before = np.cumsum(number) - number
    people = np.repeat(np.arange(len(number)), number)
    starts = first[people] + (np.arange(n_windows) - before[people]) * length
    counts = np.zeros((n_windows, n_sensors), dtype=np.int64)
    window = before[read.who] + (read.starts - first[read.who]) // length
    np.add.at(counts, (window, read.sensor), 1)
    seconds = None
    if read.ends is not None:
        seconds = _seconds_on(_joined(read), before, first, length, counts.shape)
    names = np.array(read.names, dtype=object)
    return EventWindows(
        participants=None if read.names == (None,) else names[people],
        starts=starts,
        ends=starts + length,
        absolute=read.absolute,
        zone=read.zone,
        sensors=read.sensors,
        seconds=seconds,
        counts=counts,
        notes=read.notes,
    )


@dataclass(frozen=True)
class _Events:
    """Events as arrays; `ends` is None where no event has one."""

    who: IntArray
    names: tuple[str | None, ...]
    sensor: IntArray
    sensors: list[str]
    starts: IntArray
    ends: IntArray | None
    absolute: bool
    zone: str | None
    notes: tuple[str, ...]


def _read(
    table: Table,
    asked: Mapping[str, str | None],
    timezone: str | None,
    time_format: str | None,
    place: Callable[[int], str],
) -> _Events:
    column = {role: table.find(role, asked.get(role), usual) for role, usual in EVENT_ROLES.items()}
    start, sensor = column["start"], column["sensor"]
    for role, found in (("start", start), ("sensor", sensor)):
        if found is None:
            raise DiaryError(
                "the events",
                f"no column of the {role} among {name_some(map(repr, table.names), 12)}",
                f"a column {role!r}",
                f"add it, or say which column it is with --{role}",
            )
    assert start is not None
    assert sensor is not None
    who, names = participants_of(table, column["participant"], place)
    codes, sensors = _sensors(table, sensor, place)
    said = read_times(
        table.values(start), lambda i: f"{place(i)}, column {start!r}", time_format=time_format
    )
    zone = None if timezone is None else zone_named(timezone)
    starts = said.values
    if zone is not None and not said.absolute:
        starts = starts_to_absolute(starts, zone, who, place)
    ends, notes = None, ["no event has an end: events are counted as moments"]
    if column["end"] is not None:
        has_end, clock = _ends(table, column["end"], said.absolute, time_format, place)
        if zone is not None and not said.absolute:
            clock = ends_to_absolute(clock, zone, starts[has_end])
        if has_end.any():
            ends, notes = _closed(who, codes, starts, has_end, clock, place)
    name = timezone if timezone is not None else "UTC" if said.zone is not None else None
    found = f"{counted(len(who), 'event')} of {counted(len(sensors), 'sensor')}"
    notes = [f"{found}: {name_some(sensors, 12)}", *notes]
    absolute = said.absolute or zone is not None
    return _Events(who, names, codes, sensors, starts, ends, absolute, name, tuple(notes))


def _sensors(table: Table, column: str, place: Callable[[int], str]) -> tuple[IntArray, list[str]]:
    """Return each event's sensor, as a position in the sorted names, and these."""
    codes, found = factorize(table[column], "sensor")
    plain = plain_names(found, "sensor", f"column {column!r}")
    empty = np.array([not name for name in [*plain, ""]])[codes]
    if empty.any():
        raise DiaryError(
            f"{place(int(np.argmax(empty)))}, column {column!r}",
            "an empty cell",
            "a sensor in every row",
            "fill the cell or drop the row",
        )
    names = sorted(set(plain))
    position = {name: k for k, name in enumerate(names)}
    return np.array([position[name] for name in plain], dtype=np.intp)[codes], names


def _ends(
    table: Table,
    column: str,
    absolute: bool,
    time_format: str | None,
    place: Callable[[int], str],
) -> tuple[BoolArray, IntArray]:
    """Return which events have an end, and these ends."""
    values = table.values(column)
    series = nw.from_native(values, pass_through=True, series_only=True, allow_series=True)
    listed = series.to_list() if isinstance(series, nw.Series) else list(values)
    has_end = np.array(
        [not (is_missing(one) or (isinstance(one, str) and not one.strip())) for one in listed],
        dtype=bool,
    )
    rows = np.flatnonzero(has_end)
    if not rows.size:
        return has_end, np.empty(0, dtype=np.int64)
    some = series.filter(has_end.tolist()) if isinstance(series, nw.Series) else None
    cells = [listed[i] for i in rows] if some is None else nw.to_native(some)
    said = read_times(
        cells, lambda i: f"{place(int(rows[i]))}, column {column!r}", time_format=time_format
    )
    if said.absolute != absolute:
        raise DiaryError(
            f"column {column!r} of the events",
            "times with a zone" if said.absolute else "times without a zone",
            "the same form as that of the starts",
            "write them alike",
        )
    return has_end, said.values


def _closed(
    who: IntArray,
    sensor: IntArray,
    starts: IntArray,
    has_end: BoolArray,
    known: IntArray,
    place: Callable[[int], str],
) -> tuple[IntArray, list[str]]:
    """Return the ends of all events: open ones last until the sensor's next event, or the last."""
    ends = starts.copy()
    ends[has_end] = known
    early = ends < starts
    if early.any():
        raise DiaryError(
            place(int(np.argmax(early))),
            "an event that ends before it starts",
            "events that end when they start, or later",
            "exchange or correct the two; where clocks were put back, name their zone (--timezone)",
        )
    n_open = int((~has_end).sum())
    if not n_open:
        return ends, []
    latest = np.full(int(who.max()) + 1, np.iinfo(np.int64).min)
    np.maximum.at(latest, who, ends)
    order = np.lexsort([starts, sensor, who])
    following = np.append(starts[order][1:], 0)
    same = np.append(_same(who[order]) & _same(sensor[order]), False)
    until = np.empty_like(starts)
    until[order] = np.where(same, following, latest[who[order]])
    note = (
        f"{counted(n_open, 'event')} without an end: each lasts until the next event of its "
        "sensor, or until the participant's last event"
    )
    return np.where(has_end, ends, until), [note]


def _same(values: IntArray) -> BoolArray:
    return values[1:] == values[:-1]


def _windows_of(events: _Events, length: int) -> tuple[IntArray, IntArray]:
    """Return when each participant's first window begins, and how many windows they have."""
    n = len(events.names)
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


class _Spans(NamedTuple):
    """Times without overlaps in which a sensor of a participant was on."""

    who: IntArray
    sensor: IntArray
    start: IntArray
    end: IntArray


def _joined(events: _Events) -> _Spans:
    """Return when sensors were on, with overlapping events of a sensor joined."""
    assert events.ends is not None
    order = np.lexsort([events.starts, events.sensor, events.who])
    who, sensor = events.who[order], events.sensor[order]
    start, end = events.starts[order], events.ends[order]
    lane = np.cumsum(np.append(0, ~(_same(who) & _same(sensor))))
    # The latest end so far within a lane: ranks rise from lane to lane, so that one running
    # maximum over all of them does it.
    moments, rank = np.unique(end, return_inverse=True)
    before = lane * len(moments)
    reached = moments[np.maximum.accumulate(rank.ravel() + before) - before]
    new = np.append(True, (start[1:] > reached[:-1]) | (np.diff(lane) > 0))
    begin = np.flatnonzero(new)
    until = np.append(begin[1:], len(start)) - 1
    return _Spans(who[begin], sensor[begin], start[begin], reached[until])


def _seconds_on(
    spans: _Spans, before: IntArray, first: IntArray, length: int, shape: tuple[int, ...]
) -> FloatArray:
    """Return the seconds of each window and sensor that spans cover.

    A span covers all of the windows between its first and its last one: a sum of differences adds
    these, and the two at its ends are added by themselves.
    """
    who, sensor, start, end = spans
    some = end > start
    who, sensor, start, end = who[some], sensor[some], start[some], end[some]
    low = before[who] + (start - first[who]) // length
    high = before[who] + (end - 1 - first[who]) // length  # the last window that it reaches into
    into_low = (start - first[who]) % length
    of_high = (end - 1 - first[who]) % length + 1
    change = np.zeros((shape[0] + 1, shape[1]), dtype=np.int64)
    np.add.at(change, (low, sensor), length)
    np.add.at(change, (high + 1, sensor), -length)
    covered = np.cumsum(change, axis=0)[:-1]
    np.add.at(covered, (low, sensor), -into_low)
    np.add.at(covered, (high, sensor), of_high - length)
    return np.asarray(covered / SECOND)
