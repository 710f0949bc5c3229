"""Labels over time, one lane per day and participant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from apportion._io.identifiers import as_vector, factorize
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.exceptions import InputError, counted, hint, name_some
from apportion.plotting._drawing import (
    GRAY,
    LITERAL,
    NO_LABEL_FILL,
    PALE_GRAY,
    Display,
    class_fills,
    fitted_labels,
    short_name,
)
from apportion.plotting._segments import Timeline, extents, timeline_of
from apportion.plotting._window_times import require_lengths, times_from
from apportion.supervision.totals import sorted_classes

_MOST_LANES = 60
_MOST_PER_LANE = 600

_THICKEST, _THINNEST = 0.8, 0.06
"""The height of a bar with confidence 1, and the smallest height, as shares of a lane."""

_HEADING = 0.8
"""The height of the name of a participant, in lanes."""

_HOUR, _DAY = 3600.0, 24.0
_STEPS = (
    *(m * 10.0**k for k in range(-6, 0) for m in (1, 2, 5)),
    *(1.0, 2.0, 5.0, 10.0, 15.0, 30.0),
    *(60.0, 120.0, 300.0, 600.0, 900.0, 1800.0),
    *(3600.0, 7200.0, 10800.0, 21600.0, 43200.0),
)
"""Seconds between ticks."""


class TimelineDisplay(Display):
    """Plot of labels over time, with one lane per day and participant.

    Consecutive windows with the same label form one bar. The thicker a bar, the higher the
    confidence of its labels; a bar with confidence 1 is as thick as the pale band behind it. It is
    recommended to use `from_estimator` or `from_labels` to create the display.

    Parameters
    ----------
    timeline : Timeline
        The segments of the days.
    classes : array-like of shape (n_classes,)
        The names of the classes.
    dated : bool, default=True
        Whether lanes are days of the calendar, instead of days since the recording began.
    confident : bool, default=True
        Whether the confidence of the segments is known and shown.

    Attributes
    ----------
    bars_ : dict of int to PolyCollection
        The bars of each class, by its position; -1 = no label.
    legend_ : Legend
        The legend.
    ax_ : Axes
        The axes with the plot.
    figure_ : Figure
        The figure that contains the axes.

    Examples
    --------
    >>> from apportion.datasets import make_smart_home
    >>> home = make_smart_home(days=2, participants=1, minutes=15)
    >>> display = TimelineDisplay.from_labels(home.activities, home.windows["start"])
    >>> [tick.get_text() for tick in display.ax_.get_yticklabels()]
    ['Mon 2024-03-04', 'Tue 2024-03-05']
    """

    bars_: dict[int, Any]

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
        """Plot the labels of a fitted model; the confidence of a label is its mass.

        Parameters
        ----------
        model : estimator
            A fitted estimator, or a pipeline or search that ends in one.
        start, end, window, participants
            When the fitted rows were recorded, and of which participants, as in `from_labels`.
        ax : Axes, optional
            The axes to draw on; by default those of a new figure.

        Returns
        -------
        TimelineDisplay
        """
        classes, codes, distributions = fitted_labels(model)
        require_lengths(len(codes), start=start, end=end, participants=participants)
        times = times_from(start, end, window, participants)
        confidence = distributions[np.arange(len(codes)), codes]
        timeline = timeline_of(times, codes, confidence, most_per_lane=_MOST_PER_LANE)
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
        """Plot labels of any origin.

        Parameters
        ----------
        labels : array-like of shape (n_samples,)
            Labels. A missing value means no label, and so does -1 unless it is one of `classes`.
        start : array-like of shape (n_samples,)
            When windows started: date-times, ISO text, or seconds.
        end : array-like of shape (n_samples,), optional
            When windows ended, in the same form.
        window : number of seconds, timedelta or str, optional
            The length of every window, such as "1 min". By default, if there is no `end`, the
            usual time between two starts.
        participants : array-like of shape (n_samples,), optional
            The participant of each window.
        confidence : array-like of shape (n_samples,), optional
            The confidence of each label, from 0 to 1. By default all bars have the same thickness.
        classes : sequence, optional
            The classes, in the order of the legend; by default all labels, sorted.
        ax : Axes, optional
            The axes to draw on; by default those of a new figure.

        Returns
        -------
        TimelineDisplay
        """
        codes, names = _encoded(labels, classes)
        given = {"start": start, "end": end, "participants": participants, "confidence": confidence}
        require_lengths(len(codes), **given)
        times, confident = times_from(start, end, window, participants), confidence is not None
        values = _checked_confidence(confidence if confident else np.ones(len(codes)), codes >= 0)
        timeline = timeline_of(times, codes, values, most_per_lane=_MOST_PER_LANE)
        return cls(timeline, names, dated=times.dated, confident=confident).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the lanes.

        Parameters
        ----------
        ax : Axes, optional
            The axes to draw on; by default those of a new figure.

        Returns
        -------
        TimelineDisplay
            This display.
        """
        timeline, n_classes = self.timeline, len(self.classes)
        n_lanes = min(len(timeline.days), _MOST_LANES)
        participant = timeline.participant[:n_lanes]
        n_headings = int(participant[-1]) + 1 if any(timeline.participants) else 0
        height = 1.5 + 0.3 * (n_lanes + _HEADING * n_headings)
        self._set_axes(ax, 10.0, height, n_classes, grid="x")
        center = np.arange(n_lanes) + _HEADING * (participant + 1.0) * bool(n_headings)
        names, fills = [*self.classes, "no label"], [*class_fills(n_classes), NO_LABEL_FILL]
        self._draw_bars(center, fills)
        self._name_lanes(center, n_headings)
        self._set_title(n_lanes)
        n_listed = n_classes + (-1 in self.bars_)
        title = "thickness: confidence" if self.confident else ""
        self._add_legend(names[:n_listed], fills[:n_listed], title)
        self._name_times()
        return self

    def _draw_bars(self, center: FloatArray, fills: list[dict[str, Any]]) -> None:
        from matplotlib.collections import PolyCollection

        timeline, n_lanes = self.timeline, len(center)
        spans = extents(timeline.lane, timeline.start, timeline.end, len(timeline.days))
        first, last = (moments[:n_lanes] for moments in spans)
        lanes = _boxes(first, last, center, _THICKEST)
        self.ax_.add_collection(PolyCollection(lanes, facecolor=PALE_GRAY, linewidth=0))
        self.bars_ = {}
        for label, fill in zip([*range(len(self.classes)), -1], fills, strict=True):
            mine = (timeline.label == label) & (timeline.lane < n_lanes)
            if mine.any():
                confidence = np.nan_to_num(timeline.confidence[mine], nan=1.0)
                thickness = np.maximum(_THICKEST * confidence, _THINNEST)
                lane = timeline.lane[mine]
                boxes = _boxes(timeline.start[mine], timeline.end[mine], center[lane], thickness)
                self.bars_[label] = self.ax_.add_collection(PolyCollection(boxes, **fill))

    def _name_lanes(self, center: FloatArray, n_headings: int) -> None:
        ax, timeline, n_lanes = self.ax_, self.timeline, len(center)
        ax.set_yticks(center, timeline.days[:n_lanes])
        for k in range(n_headings):
            ax.text(
                0.0,
                center[timeline.participant[:n_lanes] == k].min() - 0.58,
                short_name(timeline.participants[k]),
                transform=ax.get_yaxis_transform(),
                fontsize=9,
                fontweight="bold",
                verticalalignment="bottom",
                **LITERAL,
            )
        ax.set_ylim(center[-1] + 0.6, center[0] - 0.6 - _HEADING * bool(n_headings))
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)

    def _name_times(self) -> None:
        """Set ticks at round times, as many as fit beside the legend."""
        ax, (low, high) = self.ax_, _hours(self.timeline)
        width = ax.get_window_extent().width
        if self.figure_.get_layout_engine() is not None:  # the axes will make room for the legend
            width -= self.legend_.get_window_extent().width
        for step in _STEPS:
            inches = 0.75 if step >= 60.0 else 1.0 if step >= 1.0 else 1.4  # of a tick label
            if (high - low) * _HOUR / step < max(width / self.figure_.dpi / inches, 2.0):
                break
        ticks = np.arange(np.ceil(low * _HOUR / step), np.floor(high * _HOUR / step) + 1) * step
        ax.set_xticks(ticks / _HOUR, [_tick_label(tick, step) for tick in ticks])
        ax.set_xlim(low, high)
        ax.set_xlabel("time of day" if self.dated else "time since the start", fontsize=9)

    def _set_title(self, n_lanes: int) -> None:
        """Tell what is left out, if anything is."""
        clauses = []
        if n_lanes < len(self.timeline.days):
            clauses.append(f"the first {n_lanes} of {counted(len(self.timeline.days), 'day')}")
        if longest := float(self.timeline.slot[:n_lanes].max()):
            clauses.append(f"the most frequent label in slots of up to {longest:.3g} s")
        if clauses:
            self.ax_.set_title("; ".join(clauses), fontsize=9, color=GRAY, loc="left")


def _encoded(labels: Any, classes: Any) -> tuple[IntArray, AnyArray]:
    """Return labels as positions among the classes, -1 = none, and the classes."""
    codes, distinct = factorize(labels, "label")
    named = [label for label in distinct if label != -1]
    classes = as_vector(list(sorted_classes(named)[0] if classes is None else classes))
    positions = {label: h for h, label in enumerate(classes.tolist())}
    unknown = [label for label in named if label not in positions]
    if unknown:
        raise InputError(
            "",
            name_some(map(repr, unknown)),
            f"the classes {name_some(map(repr, positions))}",
            hint("add them to {classes}"),
            parameter="labels",
        )
    return np.array([*(positions.get(label, -1) for label in distinct), -1])[codes], classes


def _checked_confidence(confidence: Any, labeled: BoolArray) -> FloatArray:
    """Return the confidence of labeled rows, NaN for the others."""
    values = np.asarray(confidence, dtype=np.float64)
    invalid = labeled & ~((values >= 0) & (values <= 1 + 1e-9))
    if invalid.any():
        row = int(np.argmax(invalid))
        found = f"{values[row]:g}"
        raise InputError(
            "", found, "numbers from 0 to 1", "correct it", row=row, parameter="confidence"
        )
    return np.asarray(np.where(labeled, values, np.nan))


def _boxes(
    start: FloatArray, end: FloatArray, center: FloatArray, thickness: FloatArray | float
) -> Any:
    """Return the corners of bars, with times in seconds; the axis counts hours."""
    left, right = start / _HOUR, end / _HOUR
    low, high = center - thickness / 2, center + thickness / 2
    corners = [left, low, right, low, right, high, left, high]
    return np.stack(corners, axis=1).reshape(len(start), 4, 2)


def _hours(timeline: Timeline) -> tuple[float, float]:
    """Return the range of hours: whole days, or the recorded time if it is clearly shorter."""
    low, high = float(timeline.start.min()) / _HOUR, float(timeline.end.max()) / _HOUR
    if high - low >= 0.8 * _DAY:
        return (min(low, 0.0), max(high, _DAY)) if high <= 1.1 * _DAY else (low, high)
    margin = 0.01 * (high - low)
    return low - margin, high + margin


def _tick_label(seconds: float, step: float) -> str:
    """Return a clock time, given in seconds after midnight, with the digits that ticks need."""
    minutes, rest = divmod(round(seconds * 1e6), 60_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours if hours == 24 else hours % 24:02}:{minutes:02}"
    if step < 1.0:
        return f"{text}:{rest / 1e6:09.6f}".rstrip("0")
    return text if step >= 60.0 else f"{text}:{rest // 1_000_000:02}"
