"""Labels over time: a lane for every day of every participant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from apportion._io.identifiers import as_vector, factorize
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.exceptions import InputError, counted, name_some
from apportion.plotting._palette import looks
from apportion.plotting._timeline_data import Timeline, Times, timeline_of
from apportion.plotting._timestamps import times_from
from apportion.plotting.drawing import (
    GRAY,
    PALE_GRAY,
    PLAIN,
    add_legend,
    axes_for,
    blank,
    fitted_labels,
    height_of_legend,
    paint,
    shown,
    tidy,
    width_beside,
)
from apportion.supervision.totals import sorted_classes

_MOST_LANES = 60
_MOST_A_LANE = 600

_THICKEST, _THINNEST = 0.8, 0.06
"""How much of a lane a bar fills whose label is certain, and at least."""

_HEADING = 0.8
"""How much room a participant's name takes, in lanes."""

_HOUR, _DAY = 3600.0, 24.0
_STEPS = (
    *(m * 10.0**k for k in range(-6, 0) for m in (1, 2, 5)),
    *(1.0, 2.0, 5.0, 10.0, 15.0, 30.0),
    *(60.0, 120.0, 300.0, 600.0, 900.0, 1800.0),
    *(3600.0, 7200.0, 10800.0, 21600.0, 43200.0),
)
"""Seconds between ticks."""


class TimelineDisplay:
    """Labels over time, a lane for every day of every participant.

    Windows that follow each other and have one label are a bar, which is the thicker the more
    confident its labels are: as thick as the pale band behind it where they are certain.

    Create it by `from_estimator` or `from_labels`.

    Parameters
    ----------
    timeline : Timeline
        The segments of days; see `apportion.plotting._timeline_data`.
    classes : array-like of shape (n_classes,)
        The names of the classes.
    dated : bool, default=True
        Whether lanes are days of the calendar, not of the recording.
    confident : bool, default=True
        Whether the segments' confidence is known, and is shown.

    Attributes
    ----------
    bars_ : dict of int to PolyCollection
        The bars of each class, by its position; -1 = no label.
    legend_ : Legend
        The legend.
    ax_ : Axes
        The axes drawn on.
    figure_ : Figure
        The figure they belong to.

    Examples
    --------
    >>> from apportion.datasets import make_smart_home
    >>> home = make_smart_home(days=2, participants=1, minutes=15)
    >>> display = TimelineDisplay.from_labels(home.activities, home.windows["start"])
    >>> [tick.get_text() for tick in display.ax_.get_yticklabels()]
    ['Mon 2024-03-04', 'Tue 2024-03-05']
    """

    bars_: dict[int, Any]
    legend_: Any
    ax_: Any
    figure_: Any

    def __init__(
        self,
        timeline: Timeline,
        classes: Sequence[Any] | AnyArray,
        *,
        dated: bool = True,
        confident: bool = True,
    ) -> None:
        self.timeline = timeline
        self.classes = classes
        self.dated = dated
        self.confident = confident

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        start: Any,
        *,
        end: Any = None,
        window: Any = None,
        participants: Any = None,
        ax: Any = None,
    ) -> Self:
        """Plot the labels of a fitted model; a label's confidence is its mass.

        Parameters
        ----------
        model : estimator
            A fitted estimator; a pipeline or a search that ends in one.
        start, end, window, participants
            When the fitted rows were recorded, and of whom, as in `from_labels`.
        ax : Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        TimelineDisplay
        """
        classes, labels, F = fitted_labels(model)
        times = times_from(start, end, window, participants)
        _require_one_a_row("`start`", times, len(labels))
        sure = F[np.arange(len(F)), labels]
        timeline = timeline_of(times, labels, sure, most_a_lane=_MOST_A_LANE)
        return cls(timeline, classes, dated=times.dated).plot(ax)

    @classmethod
    def from_labels(
        cls,
        labels: Any,
        start: Any,
        *,
        end: Any = None,
        window: Any = None,
        participants: Any = None,
        confidence: Any = None,
        classes: Sequence[Any] | AnyArray | None = None,
        ax: Any = None,
    ) -> Self:
        """Plot labels, whoever gave them.

        Parameters
        ----------
        labels : array-like of shape (n_samples,)
            Labels; missing = no label, and so is -1 unless it is one of `classes`.
        start : array-like of shape (n_samples,)
            When windows began: date-times, ISO text, or seconds.
        end : array-like of shape (n_samples,), optional
            When windows ended, in the same form.
        window : number of seconds, timedelta or str, optional
            The length of every window, such as "1 min". By default, without ends, the usual time
            between two starts.
        participants : array-like of shape (n_samples,), optional
            Whose window it is.
        confidence : array-like of shape (n_samples,), optional
            How sure each label is, from 0 to 1. By default all bars are equally thick.
        classes : sequence, optional
            The classes, in the order of the legend; by default those found, sorted.
        ax : Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        TimelineDisplay
        """
        codes, names = _coded(labels, classes)
        times = times_from(start, end, window, participants)
        _require_one_a_row("`start`", times, len(codes))
        sure = np.ones(len(codes)) if confidence is None else _sure(confidence, codes >= 0)
        timeline = timeline_of(times, codes, sure, most_a_lane=_MOST_A_LANE)
        return cls(timeline, names, dated=times.dated, confident=confidence is not None).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the lanes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        TimelineDisplay
            This display.
        """
        line = self.timeline
        n_lanes = min(len(line.days), _MOST_LANES)
        groups = int(line.participant[n_lanes - 1]) + 1 if any(line.participants) else 0
        high = max(1.5 + 0.3 * (n_lanes + _HEADING * groups), height_of_legend(len(self.classes)))
        self.ax_ = axes_for(ax, 10.0, high)
        self.figure_ = self.ax_.figure
        center = np.arange(n_lanes, dtype=np.float64)
        if groups:
            center += _HEADING * (line.participant[:n_lanes] + 1.0)
        self._draw_bars(center)
        self._name_lanes(center, groups)
        self._say_what_is_left_out(n_lanes)
        has_none = -1 in self.bars_
        paints = [paint(look) for look in looks(len(self.classes))] + [blank()] * has_none
        names = [shown(name) for name in self.classes]
        title = "thickness: confidence" if self.confident else ""
        self.legend_ = add_legend(self.ax_, names + ["no label"] * has_none, paints, title)
        self._name_times()
        return self

    def _draw_bars(self, center: FloatArray) -> None:
        from matplotlib.collections import PolyCollection

        line, n_lanes = self.timeline, len(center)
        first, last = _recorded(line)
        lanes = _boxes(first[:n_lanes], last[:n_lanes], center, np.full(n_lanes, _THICKEST))
        self.ax_.add_collection(PolyCollection(lanes, facecolor=PALE_GRAY, linewidth=0))
        self.bars_ = {}
        for h, filling in enumerate([*map(paint, looks(len(self.classes))), blank()]):
            label = h if h < len(self.classes) else -1
            mine = (line.label == label) & (line.lane < n_lanes)
            if not mine.any():
                continue
            sure = np.nan_to_num(line.confidence[mine], nan=1.0) if label >= 0 else 1.0
            thick = np.maximum(_THICKEST * sure * np.ones(int(mine.sum())), _THINNEST)
            boxes = _boxes(line.start[mine], line.end[mine], center[line.lane[mine]], thick)
            self.bars_[label] = self.ax_.add_collection(PolyCollection(boxes, **filling))

    def _name_lanes(self, center: FloatArray, groups: int) -> None:
        line, n_lanes = self.timeline, len(center)
        self.ax_.set_yticks(center, line.days[:n_lanes])
        for k in range(groups):
            top = center[line.participant[:n_lanes] == k].min() - 0.5
            self.ax_.text(
                0.0,
                top - 0.08,
                shown(line.participants[k]),
                transform=self.ax_.get_yaxis_transform(),
                fontsize=9,
                fontweight="bold",
                verticalalignment="bottom",
                **PLAIN,
            )
        self.ax_.set_ylim(center[-1] + 0.6, center[0] - 0.6 - _HEADING * bool(groups))
        tidy(self.ax_)
        self.ax_.spines["left"].set_visible(False)
        self.ax_.tick_params(axis="y", length=0)

    def _name_times(self) -> None:
        low, high = _range(self.timeline)
        span, wide = (high - low) * _HOUR, width_beside(self.ax_, self.legend_)
        fits = (step for step in _STEPS if span / step < max(wide / _tick_width(step), 2.0))
        step = next(fits, _STEPS[-1])
        ticks = np.arange(np.ceil(low * _HOUR / step), np.floor(high * _HOUR / step) + 1) * step
        self.ax_.set_xticks(ticks / _HOUR, [_clock(tick, step) for tick in ticks])
        self.ax_.set_xlim(low, high)
        self.ax_.grid(axis="x", color="#DDDDDD", linewidth=0.6)
        self.ax_.set_axisbelow(True)
        self.ax_.set_xlabel("time of day" if self.dated else "time since the start", fontsize=9)

    def _say_what_is_left_out(self, n_lanes: int) -> None:
        words = []
        if n_lanes < len(self.timeline.days):
            words.append(f"the first {n_lanes} of {counted(len(self.timeline.days), 'day')}")
        longest = float(self.timeline.slot[:n_lanes].max())
        if longest:
            words.append(f"the most frequent label in slots of up to {longest:.3g} s")
        if words:
            self.ax_.set_title("; ".join(words), fontsize=9, color=GRAY, loc="left")


def _require_one_a_row(where: str, times: Times, n_samples: int) -> None:
    if len(times.starts) != n_samples:
        raise InputError(
            where,
            f"{counted(len(times.starts), 'time')} for {counted(n_samples, 'label')}",
            "one time a label",
            "pass the times of the rows that were labeled, in their order",
        )


def _coded(labels: Any, classes: Any) -> tuple[IntArray, AnyArray]:
    """Return labels as positions, -1 = none, and the classes."""
    codes, found = factorize(labels, "label")
    if classes is None:
        known = [label for label in found if not _says_none(label)]
        classes = sorted_classes(known)[0]
    classes = as_vector(list(classes))
    place = {label: h for h, label in enumerate(classes.tolist())}
    strange = [label for label in found if label not in place and not _says_none(label)]
    if strange:
        raise InputError(
            "`labels`",
            f"{name_some(map(repr, strange))}",
            f"the classes {name_some(map(repr, place))}",
            "add them to `classes`",
        )
    positions = np.array([*(place.get(label, -1) for label in found), -1], dtype=np.intp)
    return positions[codes], classes


def _says_none(label: Any) -> bool:
    return not isinstance(label, str) and bool(label == -1)


def _sure(confidence: Any, labeled: BoolArray) -> FloatArray:
    sure = np.asarray(confidence, dtype=np.float64)
    if sure.shape != labeled.shape:
        raise InputError(
            "`confidence`",
            f"an array of shape {sure.shape} for {counted(len(labeled), 'label')}",
            "one number a label",
            "pass the confidence of the same rows",
        )
    bad = labeled & ~((sure >= 0) & (sure <= 1 + 1e-9))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"`confidence`, row {row}", f"{sure[row]:g}", "numbers from 0 to 1", "correct it"
        )
    return np.asarray(np.where(labeled, sure, np.nan))


def _recorded(line: Timeline) -> tuple[FloatArray, FloatArray]:
    """Return the seconds at which each lane's first segment begins and its last one ends."""
    n_lanes = len(line.days)
    first, last = np.full(n_lanes, np.inf), np.full(n_lanes, -np.inf)
    np.minimum.at(first, line.lane, line.start)
    np.maximum.at(last, line.lane, line.end)
    return first, last


def _boxes(start: FloatArray, end: FloatArray, center: FloatArray, thick: FloatArray) -> list[Any]:
    """Return the corners of bars, from seconds; the axes count hours."""
    left, right, low, high = start / _HOUR, end / _HOUR, center - thick / 2, center + thick / 2
    corners = [left, low, right, low, right, high, left, high]
    return list(np.stack(corners, axis=1).reshape(len(start), 4, 2))


def _range(line: Timeline) -> tuple[float, float]:
    """Return the hours to show: whole days, or what was recorded where that is clearly less."""
    low, high = float(line.start.min()) / _HOUR, float(line.end.max()) / _HOUR
    if high - low >= 0.8 * _DAY:
        return (min(low, 0.0), max(high, _DAY)) if high <= 1.1 * _DAY else (low, high)
    margin = 0.01 * (high - low)
    return low - margin, high + margin


def _tick_width(step: float) -> float:
    """Return how many inches apart ticks must be, by how finely they are written."""
    return 0.75 if step >= 60.0 else 1.0 if step >= 1.0 else 1.4


def _clock(seconds: float, step: float) -> str:
    """Return what a clock shows so many seconds after midnight, as finely as ticks are set."""
    whole = round(seconds * 1e6)
    minutes, rest = divmod(whole, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours if hours == 24 else hours % 24:02}:{minutes:02}"
    if step < 1.0:
        return f"{text}:{rest / 1e6:09.6f}".rstrip("0")
    return text if step >= 60.0 else f"{text}:{rest // 1_000_000:02}"
