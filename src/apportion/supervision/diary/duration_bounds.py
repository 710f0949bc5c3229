"""Bounds on the recorded time of each class, from reported durations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion._utils.typing import BoolArray, FloatArray
from apportion.supervision.diary.diary_rules import DiaryRules

_STEPS = (60, 30, 15, 10, 5)
"""Minutes to which people round durations."""

_FEWEST = 5
"""Fewer durations may be multiples of one step by accident."""

_COVERED = 0.99
"""`uncovered="drop"` keeps entries that report this share of their period."""

RECORDED = 0.95
"""A period of which this share was recorded is taken to be recorded whole."""

_EXACT = 1e-6
"""Durations that miss their period by this share of it are meant to fill it."""


class Durations(NamedTuple):
    """Reported seconds of each activity in each period, with their bounds.

    Nothing is known about an open cell.
    """

    reported: FloatArray
    least: FloatArray
    most: FloatArray
    open: BoolArray

    def scaled(self, factor: FloatArray) -> Durations:
        """Return the durations of each period multiplied by its factor."""
        reported, least, most = (table * factor[:, None] for table in self[:3])
        return Durations(reported, least, most, self.open)


class RecordedBounds(NamedTuple):
    """Bounds of each class in the recorded time, in seconds, and how entries were treated.

    Attributes
    ----------
    least, most : ndarray of shape (n_periods, n_classes + 1)
        The last column is the time that the diary does not cover.
    rounded, too_long : ndarray of bool, of shape (n_periods,)
        Entries that were scaled to their period, because rounding explains the difference, or
        because they exceed it.
    uncovered, hardly_recorded : ndarray of bool, of shape (n_periods,)
        Entries to leave out.
    within : ndarray of bool, of shape (n_periods,)
        Entries whose durations hold within bounds, because their period was recorded in part.
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

    A step that is no longer than a window is not a sign of rounding.

    Examples
    --------
    >>> rounding_step(np.array([1.5, 8.0, 0.5, 2.0, 1.0]) * 3600, window=60)
    1800.0
    """
    positive = reported[reported > 0]
    if positive.size < _FEWEST:
        return 0.0
    for minutes in _STEPS:
        step = minutes * 60.0
        multiples = np.abs(positive / step - np.rint(positive / step)) <= 1e-6
        if step > window and multiples.all():
            return step
    return 0.0


def reported_durations(
    seconds: FloatArray, shares: FloatArray, length: FloatArray, tolerance: float, rules: DiaryRules
) -> Durations:
    """Return the durations of each period as they were reported, with their tolerance.

    Shares are exact shares of the period; times are known within the tolerance. Blank cells beside
    times are 0 within the tolerance or, with `blank="unknown"`, open.
    """
    blank = np.isnan(seconds) & np.isnan(shares)
    timed = ~np.isnan(seconds)
    reported = np.where(blank, 0.0, np.where(timed, seconds, shares * length[:, None]))
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
    """Return bounds on the recorded time of each class in each period.

    A class that lasted between a and b seconds in a period of which `gap` seconds were not recorded
    lasted between a - gap and b seconds in the recording. Time that no activity accounts for is a
    class of its own.

    Parameters
    ----------
    durations : Durations
        Of shape (n_periods, n_classes).
    length, recorded, slack : ndarray of shape (n_periods,)
        The seconds of a period, the recorded ones among them, and those by which rounded durations
        may miss the period: such durations are scaled to it.
    rules : DiaryRules
        What to do with durations that are too long, too short, or recorded in part.

    Returns
    -------
    RecordedBounds
    """
    has_open = durations.open.any(axis=1)
    total, low, high = (table.sum(axis=1) for table in durations[:3])
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
    as_class = rules.uncovered == "unknown"
    least = np.column_stack([durations.least, np.where(as_class & ~has_open, left, 0.0)])
    most = np.column_stack([most, np.where(as_class, rest, 0.0)])

    hardly = recorded < RECORDED * length
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
