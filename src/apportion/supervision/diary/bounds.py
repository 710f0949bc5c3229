"""What reported durations say about the time that was recorded."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion._utils.typing import BoolArray, FloatArray
from apportion.supervision.diary.rules import DiaryRules

_GRIDS = (60, 30, 15, 10, 5)
_FEWEST = 5
"""So many durations that are multiples of one step are no accident."""

_COVERED = 0.99
_RECORDED = 0.95
_EXACT = 1e-6
"""Durations that miss their period by so little of it are meant to fill it."""


class Durations(NamedTuple):
    """Seconds within which each activity of each period lay, and how long it took as reported.

    An open cell is one that nothing is known about.
    """

    reported: FloatArray
    least: FloatArray
    most: FloatArray
    open: BoolArray

    def scaled(self, factor: FloatArray) -> Durations:
        """Return the durations, those of each period times its factor."""
        by = factor[:, None]
        return Durations(self.reported * by, self.least * by, self.most * by, self.open)


class RecordedBounds(NamedTuple):
    """Bounds of each class in the recorded time, in seconds, and what was done with entries.

    Attributes
    ----------
    least, most : ndarray of shape (n_periods, n_classes + 1)
        The last column is the time that the diary does not cover.
    rounded, too_long : ndarray of bool, of shape (n_periods,)
        Entries that were scaled to their period: rounding explains what they miss; they exceed it.
    uncovered, hardly_recorded : ndarray of bool, of shape (n_periods,)
        Entries to leave out.
    within : ndarray of bool, of shape (n_periods,)
        Entries of which durations hold within bounds, because not all was recorded.
    """

    least: FloatArray
    most: FloatArray
    rounded: BoolArray
    too_long: BoolArray
    uncovered: BoolArray
    hardly_recorded: BoolArray
    within: BoolArray


def rounding_step(reported: FloatArray, window: float) -> float:
    """Return the longest usual step, in seconds, that all durations are multiples of; or 0.

    A step no longer than a window is no sign of rounding.

    Examples
    --------
    >>> rounding_step(np.array([1.5, 8.0, 0.5, 2.0, 1.0]) * 3600, window=60)
    1800.0
    """
    positive = reported[reported > 0]
    if positive.size < _FEWEST:
        return 0.0
    for minutes in _GRIDS:
        step = minutes * 60.0
        multiples = np.abs(positive / step - np.rint(positive / step)) <= 1e-6
        if step > window and multiples.all():
            return step
    return 0.0


def reported_durations(
    seconds: FloatArray, shares: FloatArray, length: FloatArray, tolerance: float, rules: DiaryRules
) -> Durations:
    """Return the durations of each period as they were reported, rounded or not.

    Shares are exact shares of the period; times are known within the tolerance, and so are blank
    cells beside them: these are 0 or, under `blank="unknown"`, open.
    """
    blank = np.isnan(seconds) & np.isnan(shares)
    timed = ~np.isnan(seconds)
    reported = np.where(timed, seconds, shares * length[:, None])
    reported = np.where(blank, 0.0, reported)
    off = np.where(timed | (blank & timed.any(axis=1, keepdims=True)), tolerance, 0.0)
    least, most = np.maximum(reported - off, 0.0), reported + off
    return Durations(reported, least, most, blank & (rules.blank == "unknown"))


def recorded_bounds(
    durations: Durations,
    length: FloatArray,
    recorded: FloatArray,
    slack: FloatArray,
    rules: DiaryRules,
) -> RecordedBounds:
    """Return within which bounds each class lies in the recorded time of each period.

    A class that lasted between a and b in a period of which `gap` seconds were not recorded lasted
    between a - gap and b in the recording. Time that nobody accounts for is a class of its own.

    Parameters
    ----------
    durations : Durations
        Of shape (n_periods, n_classes).
    length, recorded, slack : ndarray of shape (n_periods,)
        Seconds that a period has, that were recorded of it, and by which durations may miss it
        because they are rounded: these are scaled to it.
    rules : DiaryRules
        What to do with durations that are too long, too short, or recorded in part.
    """
    has_open = durations.open.any(axis=1)
    total, low, high = (part.sum(axis=1) for part in durations[:3])
    fits = (low <= length) & (has_open | (high >= length))
    some = total > _EXACT * length
    rounded = ~fits & some & (np.abs(total - length) <= slack + _EXACT * length)
    too_long = ~fits & ~rounded & (low > length)
    short = ~fits & ~rounded & ~too_long
    to_cover = short & (rules.uncovered != "unknown")
    uncovered = to_cover & (~some | ((high < _COVERED * length) & (rules.uncovered == "drop")))
    to_scale = (rounded | too_long | to_cover) & some
    durations = durations.scaled(np.where(to_scale, length / np.where(to_scale, total, 1.0), 1.0))

    rest = np.maximum(length - durations.least.sum(axis=1), 0.0)
    left = np.maximum(length - durations.most.sum(axis=1), 0.0)
    most = np.where(durations.open, rest[:, None], np.minimum(durations.most, length[:, None]))
    unsaid = rules.uncovered == "unknown"
    least = np.column_stack([durations.least, np.where(unsaid & ~has_open, left, 0.0)])
    most = np.column_stack([most, np.where(unsaid, rest, 0.0)])

    hardly = recorded < _RECORDED * length
    within = (rules.part == "bounds") | (hardly & (rules.part == "auto"))
    gap, ratio = np.maximum(length - recorded, 0.0)[:, None], (recorded / length)[:, None]
    return RecordedBounds(
        least=np.where(within[:, None], np.maximum(least - gap, 0.0), least * ratio),
        most=np.where(within[:, None], np.minimum(most, recorded[:, None]), most * ratio),
        rounded=rounded,
        too_long=too_long,
        uncovered=uncovered,
        hardly_recorded=hardly & (rules.part == "drop"),
        within=within,
    )
