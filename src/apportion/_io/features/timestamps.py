"""Columns that say when a window was recorded, and not what happened in it."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np

from apportion._io.tables import factorize
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray

When = Literal["time of day", "weekday", "elapsed time"]

LEFT_OUT: tuple[When, ...] = ("weekday", "elapsed time")
"""What is no feature unless it is named. It draws the windows of a day to each other, and away from
windows of other days, whose totals would tell the classes apart: on made-up weeks a weekday costs
15 points of accuracy and the elapsed time 7; the hour adds 4 (`benchmarks/when_columns.py`)."""

_NAMES: dict[When, re.Pattern[str]] = {
    "time of day": re.compile(
        r"(hour|hour[_ ]?of[_ ]?day|minute[_ ]?of[_ ]?(day|hour)|time[_ ]?of[_ ]?day|hod|tod)"
        r"([_ ](sin|cos))?|(sin|cos)[_ ](hour|tod|time[_ ]?of[_ ]?day)",
        re.IGNORECASE,
    ),
    "weekday": re.compile(
        r"(week[_ ]?day|day[_ ]?of[_ ]?week|dow)([_ ](sin|cos))?|(is[_ ]?)?week[_ ]?end",
        re.IGNORECASE,
    ),
    "elapsed time": re.compile(
        r"(elapsed|relative)[_ ]?(time|s|sec|seconds|min|minutes|h|hours|days)"
        r"|day[_ ]?of[_ ]?(month|year)|month|unix[_ ]?time|seconds[_ ]since[_ ]start",
        re.IGNORECASE,
    ),
}

_SECOND = 1_000_000
_DAY = 24 * 3600 * _SECOND
_BIN = 300 * _SECOND
_FEWEST_DAYS, _FEWEST_ROWS = 3, 20
_UNEXPLAINED_BY_CLOCK = 0.01
_UNEXPLAINED_BY_ELAPSED = 1e-6
"""Far less than rounding leaves of a battery level in percent, even if it falls on a straight
line, and of a counter of steps: these are sensors, and stay features."""


def when_by_name(name: str) -> When | None:
    """Return what a column says about the time, according to its name."""
    kinds = (kind for kind, names in _NAMES.items() if names.fullmatch(name.strip()))
    return next(kinds, None)


def why_left_out(kind: When | None) -> str | None:
    """Return why a column that says when is no feature, or None where it may be one."""
    return f"it says when, not what: {kind}" if kind in LEFT_OUT else None


class Clock:
    """Recognizes columns whose numbers are a function of the windows' times.

    Parameters
    ----------
    starts : ndarray of shape (n_samples,)
        When windows began by the clock, in microseconds.
    participants : ndarray of shape (n_samples,), or None
        Whose windows they are.
    dated : bool, default=True
        Whether the clock showed dates; without, there is no time of day and no weekday.

    Examples
    --------
    >>> starts = np.arange(0, 5 * 24) * 3_600_000_000
    >>> clock = Clock(starts)
    >>> clock.when(np.arange(120) % 24.0), clock.when(np.arange(120) / 2), clock.when(starts % 7.0)
    ('time of day', 'elapsed time', None)
    """

    def __init__(
        self, starts: IntArray, participants: AnyArray | None = None, *, dated: bool = True
    ) -> None:
        self._starts = starts
        self._days = starts // _DAY
        self._dated = dated
        self._owner = _codes(participants, len(starts))
        # Windows at the same time of day are compared in random order: in that of their days, a
        # column that rises slowly over weeks would look the same from one day to the next.
        shuffle = np.random.default_rng(0).permutation(len(starts))
        slot = starts % _DAY // _BIN
        self._order = shuffle[np.argsort(slot[shuffle], kind="stable")]
        ahead, behind = self._order[:-1], self._order[1:]
        self._pairs = (slot[ahead] == slot[behind]) & (self._days[ahead] != self._days[behind])

    def when(self, values: FloatArray) -> When | None:
        """Return what numbers, NaN where missing, say about the time; None for anything else."""
        known = ~np.isnan(values)
        if known.sum() < _FEWEST_ROWS or np.ptp(values[known]) == 0:
            return None
        many_days = len(np.unique(self._days[known])) >= _FEWEST_DAYS
        if self._dated and many_days:
            if self._is_weekday(values, known):
                return "weekday"
            if self._repeats_daily(values, known):
                return "time of day"
        steps = [self._starts[known], self._ranks(known), *[self._days[known]] * many_days]
        rises = any(_is_even(values[known], step, self._owner[known]) for step in steps)
        return "elapsed time" if rises else None

    def _repeats_daily(self, values: FloatArray, known: BoolArray) -> bool:
        """Return whether windows at one time of day, on different days, have the same number."""
        ahead, behind = self._order[:-1], self._order[1:]
        pairs = self._pairs & known[ahead] & known[behind]
        if 4 * pairs.sum() < known.sum():
            return False
        ahead, behind = ahead[pairs], behind[pairs]
        differing = np.mean((values[ahead] - values[behind]) ** 2) / 2
        return bool(differing <= _UNEXPLAINED_BY_CLOCK * np.var(values[ahead]))

    def _is_weekday(self, values: FloatArray, known: BoolArray) -> bool:
        """Return whether numbers count the days of the week from any day on, or mark weekends."""
        weekday = (self._days[known] + 3) % 7  # day 0, 1970-01-01, was a Thursday
        numbers = values[known]
        weekend = weekday >= 5
        if np.array_equal(numbers, weekend) and not weekend.all():
            return True
        whole = np.array_equal(numbers, np.round(numbers)) and numbers.min() >= 0
        return bool(whole and numbers.max() <= 7 and np.ptp((numbers - weekday) % 7) == 0)

    def _ranks(self, known: BoolArray) -> IntArray:
        """Return the position of each window in time, those of a participant together."""
        order = np.lexsort((self._starts[known], self._owner[known]))
        return np.argsort(order, kind="stable")


def _is_even(values: FloatArray, steps: IntArray, owner: IntArray) -> bool:
    """Return whether numbers rise evenly with steps, at one rate for every owner."""
    numbers = _centered(values, owner)
    even = _centered((steps - steps[0]).astype(np.float64), owner)
    spread, scale = float(numbers @ numbers), float(even @ even)
    if spread == 0 or scale == 0:
        return False
    rest = numbers - (even @ numbers) / scale * even
    return float(rest @ rest) <= _UNEXPLAINED_BY_ELAPSED * spread


def _codes(participants: AnyArray | None, n: int) -> IntArray:
    if participants is None:
        return np.zeros(n, dtype=np.intp)
    return factorize(participants, "participant")[0]


def _centered(values: FloatArray, owner: IntArray) -> FloatArray:
    """Return numbers less the mean of their owner's."""
    sums, counts = np.bincount(owner, values), np.bincount(owner)
    return np.asarray(values - (sums / np.maximum(counts, 1))[owner])
