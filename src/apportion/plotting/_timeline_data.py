"""Labels over time: windows of one label that follow each other are a segment of a day."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray

SECOND = 1_000_000
DAY = 24 * 3600 * SECOND
MOST_SEGMENTS = 60_000
"""Segments of a whole recording: more would make a report too large."""

MOST_A_LANE = 2_000
"""Segments of a day: more cannot be seen."""

_GAP = 0.5
_FEW = 12


@dataclass(frozen=True)
class Times:
    """When windows were recorded, and of whom.

    Attributes
    ----------
    starts, ends : ndarray of shape (n_samples,)
        What a clock showed, in microseconds since 1970, or since the recording began.
    participants : ndarray of shape (n_samples,), or None
        Whose window it is.
    dated : bool
        Whether the clock showed dates, not only the time that had passed.
    day_start : int
        When a day begins, in microseconds after midnight.
    ahead : ndarray of shape (n_samples,), or None
        How far the clock was ahead of UTC at the starts, in microseconds; None = not known.
    zone : str or None
        The clock's zone, where it is known.
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
        """When windows began and ended: points in time where the zone is known, else by clock."""
        if self.zone is None or self.ahead is None:
            return self.starts, self.ends
        return self.starts - self.ahead, self.ends - self.ahead


@dataclass(frozen=True)
class Timeline:
    """Segments of days: windows that follow each other and have one label.

    Attributes
    ----------
    participants : list of str
        The participants; one empty name where windows name nobody.
    days : list of str
        The name of each lane, a day of a participant.
    participant : ndarray of shape (n_lanes,)
        Whose lane it is, as a position in `participants`.
    lane : ndarray of shape (n_segments,)
        Each segment's lane.
    start, end : ndarray of shape (n_segments,)
        When a segment begins and ends, in seconds after midnight of its lane's day.
    label : ndarray of shape (n_segments,)
        Its class, as a position; -1 where its windows have no label.
    n_samples : ndarray of shape (n_segments,)
        How many windows it has.
    confidence, lowest : ndarray of shape (n_segments,)
        Mean and least confidence of its windows; NaN without a label.
    midnight : ndarray of shape (n_lanes,)
        When each lane's day began, in microseconds.
    lane_of_row : ndarray of shape (n_samples,)
        Each window's lane.
    slot : ndarray of shape (n_lanes,)
        Where a lane has too many segments: the seconds of the slots of which each shows the label
        that most of its windows have; else 0.
    """

    participants: list[str]
    days: list[str]
    participant: IntArray
    lane: IntArray
    start: FloatArray
    end: FloatArray
    label: IntArray
    n_samples: IntArray
    confidence: FloatArray
    lowest: FloatArray
    midnight: IntArray
    lane_of_row: IntArray
    slot: FloatArray

    @property
    def n_segments(self) -> int:
        """The number of segments."""
        return len(self.lane)


def timeline_of(
    times: Times,
    labels: IntArray,
    confidence: FloatArray,
    *,
    most: int = MOST_SEGMENTS,
    most_a_lane: int = MOST_A_LANE,
) -> Timeline:
    """Return the segments of every participant's days.

    A segment ends where the label changes, where the day ends, and where more than half a window
    is missing. A window belongs to the day that holds its middle.

    Parameters
    ----------
    times : Times
        When the windows were recorded.
    labels : ndarray of shape (n_samples,)
        Classes, as positions; -1 = no label.
    confidence : ndarray of shape (n_samples,)
        The windows' confidence.
    most, most_a_lane : int
        The most segments in all, and in a lane. A lane with more is cut into slots of equal
        length, and each shows the label that most of its windows have.

    Examples
    --------
    >>> hours = np.arange(4) * 3600 * SECOND
    >>> times = Times(hours, hours + 3600 * SECOND)
    >>> shown = timeline_of(times, np.array([0, 0, 1, 0]), np.array([0.9, 0.7, 0.8, 1.0]))
    >>> shown.label.tolist(), shown.end.tolist(), shown.confidence.tolist()
    ([0, 1, 0], [7200.0, 10800.0, 14400.0], [0.8, 0.8, 1.0])
    """
    windows = _Windows(times, labels, np.where(labels < 0, np.nan, confidence))
    found = _segments(windows)
    n_lanes = len(windows.days)
    if len(found.lane) > most:
        most_a_lane = min(most_a_lane, max(most // max(n_lanes, 1), _FEW))
    crowded = np.bincount(found.lane, minlength=n_lanes) > most_a_lane
    first, last = windows.spans()
    thousandths = np.maximum(np.ceil((last - first) / most_a_lane * 1000.0), 1.0)
    slot = np.where(crowded, thousandths / 1000.0, 0.0)
    if crowded.any():
        kept, cut = ~crowded[found.lane], crowded[windows.lane]
        found = _sorted(found.take(kept), _slots(windows.take(cut), first, slot))
    return Timeline(
        participants=windows.names,
        days=windows.days,
        participant=windows.participant,
        midnight=windows.midnight,
        lane_of_row=windows.lane,
        slot=slot,
        **found._asdict(),
    )


@dataclass(frozen=True)
class Episodes:
    """Windows of one participant and label that follow each other.

    Attributes
    ----------
    participant : list of str
        Whose episode it is; an empty name where windows name nobody.
    start, end : ndarray of shape (n_episodes,)
        When it begins and ends, in microseconds, as `Times.moments`.
    label : ndarray of shape (n_episodes,)
        Its class, as a position.
    n_samples : ndarray of shape (n_episodes,)
        How many windows it has.
    confidence : ndarray of shape (n_episodes,)
        The mean confidence of its windows.
    """

    participant: list[str]
    start: IntArray
    end: IntArray
    label: IntArray
    n_samples: IntArray
    confidence: FloatArray


def episodes_of(times: Times, labels: IntArray, confidence: FloatArray) -> Episodes:
    """Return the episodes of all participants, also those that go over midnight.

    An episode ends where the label changes, and where more than a window is missing. Windows
    without a label are in no episode.

    Parameters
    ----------
    times : Times
        When the windows were recorded.
    labels : ndarray of shape (n_samples,)
        Classes, as positions; -1 = no label.
    confidence : ndarray of shape (n_samples,)
        The windows' confidence.

    Examples
    --------
    >>> hours = np.array([23, 24, 26, 29]) * 3600 * SECOND
    >>> times = Times(hours, hours + 3600 * SECOND)
    >>> found = episodes_of(times, np.zeros(4, dtype=int), np.array([0.9, 0.7, 0.8, 1.0]))
    >>> ((found.end - found.start) // (3600 * SECOND)).tolist(), found.n_samples.tolist()
    ([4, 1], [3, 1])
    """
    windows = _Windows(times, labels, confidence)
    windows.in_one_lane_each(times)
    found = _segments(windows, gap=1.0)
    found = found.take(found.label >= 0)
    start, end = (np.rint(one * SECOND).astype(np.int64) for one in (found.start, found.end))
    names = [windows.names[lane] for lane in found.lane.tolist()]
    return Episodes(names, start, end, found.label, found.n_samples, found.confidence)


class _Segments(NamedTuple):
    """Segments: see `Timeline`."""

    lane: AnyArray
    start: AnyArray
    end: AnyArray
    label: AnyArray
    n_samples: AnyArray
    confidence: AnyArray
    lowest: AnyArray

    def take(self, which: AnyArray) -> _Segments:
        """Return some of the segments."""
        return _Segments(*(column[which] for column in self))


class _Windows:
    """Windows in the lanes of their days, in seconds after midnight."""

    def __init__(self, times: Times, labels: IntArray, confidence: FloatArray) -> None:
        self.names, whose = _participants(times.participants, len(times.starts))
        middle = times.starts + (times.ends - times.starts) // 2
        day = (middle - times.day_start) // DAY
        lanes, self.lane = np.unique(np.stack([whose, day]), axis=1, return_inverse=True)
        self.lane = self.lane.ravel()
        self.participant = lanes[0].astype(np.intp)
        self.days = [_day_name(int(one), times.dated) for one in lanes[1]]
        self.midnight = lanes[1] * DAY
        self.start = (times.starts - self.midnight[self.lane]) / SECOND
        self.end = (times.ends - self.midnight[self.lane]) / SECOND
        self.label, self.confidence = labels, confidence
        self._whose = whose

    def in_one_lane_each(self, times: Times) -> None:
        """Put all windows of a participant into one lane, in seconds since 1970."""
        self.lane = self._whose
        self.start, self.end = (one / SECOND for one in times.moments)

    def take(self, which: AnyArray) -> _Windows:
        """Return some of the windows."""
        some = copy(self)
        for name in ("lane", "start", "end", "label", "confidence"):
            setattr(some, name, getattr(self, name)[which])
        return some

    def spans(self) -> tuple[FloatArray, FloatArray]:
        """Return when a lane's first window begins and its last one ends."""
        first, last = np.full(len(self.days), np.inf), np.full(len(self.days), -np.inf)
        np.minimum.at(first, self.lane, self.start)
        np.maximum.at(last, self.lane, self.end)
        return first, last


def _participants(participants: AnyArray | None, n: int) -> tuple[list[str], IntArray]:
    if participants is None:
        return [""], np.zeros(n, dtype=np.int64)
    names = list(dict.fromkeys(participants.tolist()))
    place = {name: k for k, name in enumerate(names)}
    codes = np.array([place[name] for name in participants.tolist()], dtype=np.int64)
    return [str(name) for name in names], codes


def _day_name(day: int, dated: bool) -> str:
    if not dated:
        return f"day {day + 1}"
    weekday = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[(day + 3) % 7]
    return f"{weekday} {np.datetime64(day, 'D')}"


def _segments(windows: _Windows, gap: float = _GAP) -> _Segments:
    """Return the runs of windows with one label and no gap of more windows, lane by lane."""
    order = np.lexsort([windows.label, windows.end, windows.start, windows.lane])
    lane, label = windows.lane[order], windows.label[order]
    start, end = windows.start[order], windows.end[order]
    missing = np.append(0.0, start[1:] - _reached(end, lane)[:-1])[: len(order)]
    usual = float(np.median(end - start)) if len(order) else 0.0
    new = (missing > gap * usual) | _changes(lane) | _changes(label)
    ones = np.ones(len(order), dtype=np.intp)
    return _joined(new, _Segments(lane, start, end, label, ones, *2 * [windows.confidence[order]]))


def _reached(end: FloatArray, lane: IntArray) -> FloatArray:
    """Return up to when the windows of a lane last that have begun, this one among them."""
    moments, rank = np.unique(end, return_inverse=True)
    before = lane * len(moments)
    return moments[np.maximum.accumulate(rank + before) - before]


def _slots(windows: _Windows, first: FloatArray, slot: FloatArray) -> _Segments:
    """Return segments of slots, each with the label that most of its windows have."""
    middle = (windows.start + windows.end) / 2 - first[windows.lane]
    place = np.floor(middle / slot[windows.lane]).astype(np.int64)
    (lane, place), of_row = np.unique(np.stack([windows.lane, place]), axis=1, return_inverse=True)
    of_row, n_slots, c = of_row.ravel(), len(lane), int(windows.label.max(initial=-1)) + 2
    counts = np.bincount(of_row * c + windows.label + 1, minlength=n_slots * c)
    counts = counts.reshape(n_slots, c)
    label = counts.argmax(axis=1) - 1
    mine = windows.label == label[of_row]
    sure = np.bincount(of_row[mine], windows.confidence[mine], n_slots) / counts.max(axis=1)
    known = mine & np.isfinite(windows.confidence)
    lowest = np.full(n_slots, np.inf)
    np.minimum.at(lowest, of_row[known], windows.confidence[known])
    lowest[np.isinf(lowest)] = np.nan
    begin = first[lane] + place * slot[lane]
    new = np.append(True, np.diff(place) > 1) | _changes(lane) | _changes(label)
    parts = _Segments(lane, begin, begin + slot[lane], label, counts.sum(axis=1), sure, lowest)
    return _joined(new, parts)


def _changes(values: IntArray) -> BoolArray:
    return np.append(True, values[1:] != values[:-1])[: len(values)]


def _joined(new: BoolArray, parts: _Segments) -> _Segments:
    """Return parts joined up to where a new segment begins."""
    first = np.flatnonzero(new)
    if not first.size:
        return parts
    n_samples = np.add.reduceat(parts.n_samples, first)
    return _Segments(
        parts.lane[first],
        parts.start[first],
        np.maximum.reduceat(parts.end, first),
        parts.label[first],
        n_samples,
        np.add.reduceat(parts.confidence * parts.n_samples, first) / n_samples,
        np.minimum.reduceat(parts.lowest, first),
    )


def _sorted(one: _Segments, other: _Segments) -> _Segments:
    """Return the segments of both, lane by lane, from early to late."""
    both = _Segments(*(np.concatenate(pair) for pair in zip(one, other, strict=True)))
    return both.take(np.lexsort([both.start, both.lane]))
