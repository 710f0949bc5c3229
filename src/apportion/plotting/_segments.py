"""Labels over time: consecutive windows with the same label form one segment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.plotting._window_times import DAY, SECOND, Times

MOST_SEGMENTS = 60_000
"""Segments of a whole recording; more would make a report too large."""

MOST_PER_LANE = 2_000
"""Segments of one day; more cannot be seen."""

_FEWEST_PER_LANE = 12
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True)
class Segments:
    """Windows, or runs of windows with the same label, in lanes.

    Attributes
    ----------
    lane : ndarray of shape (n_segments,)
        The lane of each segment.
    start, end : ndarray of shape (n_segments,)
        When a segment starts and ends.
    label : ndarray of shape (n_segments,)
        Its class, as a position; -1 where its windows have no label.
    n_samples : ndarray of shape (n_segments,)
        The number of its windows.
    first : ndarray of shape (n_segments,)
        The window that it begins with, as a position among all windows.
    confidence, lowest : ndarray of shape (n_segments,)
        The mean and the smallest confidence of its windows; NaN without a label.
    """

    lane: IntArray
    start: AnyArray
    end: AnyArray
    label: IntArray
    n_samples: IntArray
    first: IntArray
    confidence: FloatArray
    lowest: FloatArray

    @property
    def n_segments(self) -> int:
        """The number of segments."""
        return len(self.lane)


@dataclass(frozen=True)
class Timeline(Segments):
    """Segments of days, in seconds after midnight; each lane is one day of one participant.

    Attributes
    ----------
    participants : list of str
        The participants; a single empty name where windows have none.
    days : list of str
        The name of the day of each lane.
    participant : ndarray of shape (n_lanes,)
        The participant of each lane, as a position in `participants`.
    midnight : ndarray of shape (n_lanes,)
        When the day of each lane began, in microseconds.
    lane_of_row : ndarray of shape (n_samples,)
        The lane of each window.
    slot : ndarray of shape (n_lanes,)
        The length, in seconds, of the slots that a lane with too many segments is cut into; 0 for
        the other lanes. Each slot shows the most frequent label of its windows.
    """

    participants: list[str]
    days: list[str]
    participant: IntArray
    midnight: IntArray
    lane_of_row: IntArray
    slot: FloatArray


@dataclass(frozen=True)
class Episodes(Segments):
    """Segments of participants, in microseconds as `Times.moments`; a lane per participant.

    Attributes
    ----------
    participant : list of str
        The participant of each episode; an empty name where windows have none.
    """

    participant: list[str]


def timeline_of(
    times: Times,
    labels: IntArray,
    confidence: FloatArray,
    *,
    most: int = MOST_SEGMENTS,
    most_per_lane: int = MOST_PER_LANE,
) -> Timeline:
    """Return the segments of the days of every participant.

    A segment ends where the label changes, where the day ends, and where more than half a window
    is missing. A window belongs to the day that contains its midpoint.

    Parameters
    ----------
    times : Times
        When the windows were recorded.
    labels : ndarray of shape (n_samples,)
        Classes, as positions; -1 = no label.
    confidence : ndarray of shape (n_samples,)
        The confidence of each window.
    most, most_per_lane : int
        The largest number of segments in all, and in one lane. A lane with more is cut into slots
        of equal length, and each shows the most frequent label of its windows.

    Returns
    -------
    Timeline

    Examples
    --------
    >>> hours = np.arange(4) * 3600 * SECOND
    >>> times = Times(hours, hours + 3600 * SECOND)
    >>> timeline = timeline_of(times, np.array([0, 0, 1, 0]), np.array([0.9, 0.7, 0.8, 1.0]))
    >>> timeline.label.tolist(), timeline.end.tolist(), timeline.confidence.tolist()
    ([0, 1, 0], [7200.0, 10800.0, 14400.0], [0.8, 0.8, 1.0])
    """
    participants, participant = participant_codes(times)
    day = (times.starts + (times.ends - times.starts) // 2 - times.day_start) // DAY
    lanes, lane = np.unique(np.stack([participant, day]), axis=1, return_inverse=True)
    lane, n_lanes, midnight = lane.ravel(), lanes.shape[1], lanes[1] * DAY
    start, end = ((column - midnight[lane]) / SECOND for column in (times.starts, times.ends))
    windows = _windows(lane, start, end, labels, confidence)
    segments = _runs(windows, gap=0.5)
    if segments.n_segments > most:
        most_per_lane = min(most_per_lane, max(most // n_lanes, _FEWEST_PER_LANE))
    crowded = np.bincount(segments.lane, minlength=n_lanes) > most_per_lane
    first, last = extents(lane, start, end, n_lanes)
    milliseconds = np.maximum(np.ceil((last - first) / most_per_lane * 1000.0), 1.0)
    slot = np.where(crowded, milliseconds / 1000.0, 0.0)
    if crowded.any():
        kept = vars(_take(segments, ~crowded[segments.lane]))
        thinned = vars(_slots(_take(windows, crowded[lane]), first, slot))
        both = Segments(**{name: np.append(kept[name], thinned[name]) for name in kept})
        segments = _take(both, np.lexsort([both.start, both.lane]))
    return Timeline(
        **vars(segments),
        participants=participants,
        days=[day_name(number, times.dated) for number in lanes[1].tolist()],
        participant=lanes[0].astype(np.intp),
        midnight=midnight,
        lane_of_row=lane,
        slot=slot,
    )


def episodes_of(times: Times, labels: IntArray, confidence: FloatArray) -> Episodes:
    """Return the episodes of all participants, which may extend over midnight.

    An episode ends where the label changes, and where more than one window is missing. Windows
    without a label are in no episode.

    Parameters
    ----------
    times, labels, confidence
        As in `timeline_of`.

    Returns
    -------
    Episodes

    Examples
    --------
    >>> hours = np.array([23, 24, 26, 29]) * 3600 * SECOND
    >>> times = Times(hours, hours + 3600 * SECOND)
    >>> episodes = episodes_of(times, np.zeros(4, dtype=int), np.array([0.9, 0.7, 0.8, 1.0]))
    >>> ((episodes.end - episodes.start) // (3600 * SECOND)).tolist(), episodes.n_samples.tolist()
    ([4, 1], [3, 1])
    """
    participants, lane = participant_codes(times)
    runs = _runs(_windows(lane, *times.moments, labels, confidence), gap=1.0)
    runs = _take(runs, runs.label >= 0)
    return Episodes(**vars(runs), participant=[participants[k] for k in runs.lane])


def episodes_per_bag(
    times: Times, labels: IntArray, bags: IntArray, shape: tuple[int, int]
) -> IntArray:
    """Return how many episodes of each class begin in each bag.

    An episode that extends over midnight belongs to one bag only, the one that it begins in.

    Parameters
    ----------
    times, labels
        As in `timeline_of`.
    bags : ndarray of shape (n_samples,)
        Bags, as positions; -1 = in no bag. Episodes that begin there are not counted.
    shape : tuple of int
        The number of bags and of classes.

    Returns
    -------
    ndarray of shape (n_bags, n_classes)

    Examples
    --------
    >>> hours = np.array([22, 23, 24, 25, 26]) * 3600 * SECOND
    >>> times = Times(hours, hours + 3600 * SECOND)
    >>> days, labels = np.array([0, 0, 1, 1, 1]), np.array([1, 0, 0, 1, 0])
    >>> episodes_per_bag(times, labels, days, (2, 2)).tolist()
    [[1, 1], [1, 1]]
    """
    episodes = episodes_of(times, labels, np.zeros(len(labels)))
    bag, label = bags[episodes.first], episodes.label
    counts = np.zeros(shape, dtype=np.intp)
    np.add.at(counts, (bag[bag >= 0], label[bag >= 0]), 1)
    return counts


def extents(
    group: IntArray, start: AnyArray, end: AnyArray, n_groups: int
) -> tuple[FloatArray, FloatArray]:
    """Return the earliest start and the latest end in each group."""
    first, last = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(first, group, start)
    np.maximum.at(last, group, end)
    return first, last


def participant_codes(times: Times) -> tuple[list[str], IntArray]:
    """Return the participants in order of appearance, and the position of each window's."""
    if times.participants is None:
        return [""], np.zeros(len(times.starts), dtype=np.int64)
    names = times.participants.tolist()
    positions = {name: k for k, name in enumerate(dict.fromkeys(names))}
    return list(map(str, positions)), np.array([positions[name] for name in names], dtype=np.int64)


def day_name(day: int, dated: bool) -> str:
    """Return the name of a day since 1970, or since the recording began."""
    if not dated:
        return f"day {day + 1}"
    return f"{_WEEKDAYS[(day + 3) % 7]} {np.datetime64(day, 'D')}"  # 1970 began on a Thursday


def _windows(
    lane: IntArray, start: AnyArray, end: AnyArray, labels: IntArray, confidence: FloatArray
) -> Segments:
    """Return every window as a segment of its own."""
    confidence = np.where(labels < 0, np.nan, confidence)
    ones = np.ones(len(lane), dtype=np.intp)
    rows = np.arange(len(lane))
    return Segments(lane, start, end, labels, ones, rows, confidence, confidence)


def _take(segments: Segments, which: AnyArray) -> Segments:
    return Segments(**{name: column[which] for name, column in vars(segments).items()})


def _runs(windows: Segments, gap: float) -> Segments:
    """Return runs of windows with one label, cut where more than `gap` usual windows are missing.

    Windows may overlap and contain each other, therefore a gap is measured from the latest end of
    all earlier windows in the lane. One running maximum finds these ends in all lanes: ends are
    replaced by their ranks, and each lane's ranks are shifted above those of the lane before.
    """
    keys = [windows.label, windows.end, windows.start, windows.lane]
    windows = _take(windows, np.lexsort(keys))
    ends, rank = np.unique(windows.end, return_inverse=True)
    shift = windows.lane * len(ends)
    latest = ends[np.maximum.accumulate(rank.ravel() + shift) - shift]
    missing = np.append(0.0, windows.start[1:] - latest[:-1])[: len(latest)]
    usual = np.median(windows.end - windows.start) if len(latest) else 0.0
    return _merged(windows, missing > gap * usual)


def _slots(windows: Segments, first: FloatArray, slot: FloatArray) -> Segments:
    """Return segments of slots, each with the most frequent label of its windows."""
    midpoint = (windows.start + windows.end) / 2 - first[windows.lane]
    number = np.floor(midpoint / slot[windows.lane]).astype(np.int64)
    slots, inverse = np.unique(np.stack([windows.lane, number]), axis=1, return_inverse=True)
    (lane, number), inverse = slots, inverse.ravel()
    counts = np.zeros((len(lane), windows.label.max() + 2), dtype=np.intp)
    np.add.at(counts, (inverse, windows.label + 1), 1)
    label = counts.argmax(axis=1) - 1
    order = np.argsort(inverse, kind="stable")
    order = order[windows.label[order] == label[inverse[order]]]
    confidence = windows.confidence[order]
    cuts = np.searchsorted(inverse[order], np.arange(len(lane)))
    start = first[lane] + number * slot[lane]
    parts = Segments(
        lane,
        start,
        start + slot[lane],
        label,
        counts.sum(axis=1),
        windows.first[order[cuts]],
        np.add.reduceat(confidence, cuts) / counts.max(axis=1),
        np.minimum.reduceat(confidence, cuts),
    )
    return _merged(parts, np.append(True, np.diff(number) > 1))


def _merged(parts: Segments, gaps: BoolArray) -> Segments:
    """Return sorted parts merged into segments, cut at gaps and where lane or label changes."""
    change = (parts.lane[1:] != parts.lane[:-1]) | (parts.label[1:] != parts.label[:-1])
    first = np.flatnonzero(gaps | np.append(True, change)[: len(gaps)])
    if not first.size:
        return parts
    n_samples = np.add.reduceat(parts.n_samples, first)
    return Segments(
        parts.lane[first],
        parts.start[first],
        np.maximum.reduceat(parts.end, first),
        parts.label[first],
        n_samples,
        parts.first[first],
        np.add.reduceat(parts.confidence * parts.n_samples, first) / n_samples,
        np.minimum.reduceat(parts.lowest, first),
    )
