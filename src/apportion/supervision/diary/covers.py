"""Whether a diary's entries account for their periods, or only for what was recorded of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion._utils.typing import BoolArray, FloatArray
from apportion.exceptions import counted, name_some
from apportion.supervision.diary.entries import Entries
from apportion.supervision.diary.rules import DiaryRules

_NEAR = 0.02
"""Durations that miss a time by so little of it are meant to fill it."""

_NOT_FAR = 0.1
"""Durations that miss the recorded time by so little of it may be meant to fill it."""

_MOST = 0.75
_FEWEST = 3
"""So large a share of the entries, and so many of them, that sum to one time are no accident."""


class Coverage(NamedTuple):
    """What entries account for.

    Attributes
    ----------
    length, slack : ndarray of shape (n_periods,)
        The seconds that each entry accounts for, and by which durations may miss them because they
        are rounded.
    found : str or None
        What the entries were found to account for, in words, where they say so.
    notes : list of str
        The same with the sums that speak for it, or against.
    """

    length: FloatArray
    slack: FloatArray
    found: str | None
    notes: list[str]


class _Sums(NamedTuple):
    """What the entries recorded in part sum to, in seconds, and which times that is near to."""

    total: FloatArray
    recorded: FloatArray
    period: FloatArray
    near: FloatArray

    @property
    def to_recorded(self) -> BoolArray:
        return np.abs(self.total - self.recorded) <= self.near

    @property
    def to_period(self) -> BoolArray:
        return np.abs(self.total - self.period) <= np.maximum(self.near, _NEAR * self.period)

    @property
    def perhaps_to_recorded(self) -> BoolArray:
        off = np.abs(self.total - self.recorded)
        nearer = 2.0 * off < np.abs(self.total - self.period)
        return nearer & (off <= np.maximum(self.near, _NOT_FAR * self.recorded))

    def in_words(self) -> str:
        """Return how many entries sum to the recorded time, and how many to their period."""
        near = [int(which.sum()) for which in (self.to_recorded, self.to_period)]
        n_recorded, n_period = (f"{n:,}" if n else "none" for n in near)
        return (
            f"of {counted(len(self.total), 'entry')} recorded in part, {n_recorded} sum to the "
            f"recorded time within {100 * _NEAR:g} % or what rounding explains, {n_period} to the "
            "period"
        )

    def in_hours(self) -> str:
        """Return what all of them sum to together."""
        total, recorded, period = (f"{times.sum() / 3600:,.1f} h" for times in self[:3])
        return f"together they report {total}, of {recorded} recorded and {period} in their periods"


def coverage(
    entries: Entries,
    period: FloatArray,
    recorded: FloatArray,
    off: float,
    slack: FloatArray,
    rules: DiaryRules,
) -> Coverage:
    """Return what entries account for, under `covers="auto"` by what most of them sum to.

    Only entries that were recorded in part can say: where durations sum to about the recorded time
    and not to the period, the diary is one of the recording. An entry that sums to more then still
    accounts for its period, so that nothing is refused that would do otherwise.

    Parameters
    ----------
    entries : Entries
        Entries that have windows.
    period, recorded : ndarray of shape (n_periods,)
        Seconds that their periods have, and that were recorded of them.
    off : float
        How many seconds a reported duration may be off, to either side.
    slack : ndarray of shape (n_periods,)
        Seconds by which durations may miss what they account for.
    rules : DiaryRules
        `covers` and `blank`.
    """
    if rules.covers != "auto":
        return Coverage(recorded if rules.covers == "recording" else period, slack, None, [])
    total = np.nansum(entries.seconds, axis=1)
    # Errors of rounding add up like the steps of a random walk: twice their standard deviation.
    near = 2.0 * off * np.sqrt((entries.seconds > 0).sum(axis=1) / 3.0)
    near = np.maximum(near, _NEAR * recorded)
    timed = np.isnan(entries.shares).all(axis=1) & (total > 0)
    if rules.blank == "unknown":
        timed &= ~entries.blank.any(axis=1)
    decide = timed & (period - recorded > 2.0 * near)
    sums = _Sums(total[decide], recorded[decide], period[decide], near[decide])
    n, n_near = int(decide.sum()), int(sums.to_recorded.sum())
    if n_near >= max(_FEWEST, _MOST * n):
        own = total <= recorded + near
        found = f"{rules.in_words('covers', 'recording')}: {sums.in_words()}"
        notes = [f"{found}; {sums.in_hours()}"]
        longer = np.flatnonzero(~own & decide).tolist()
        if longer:
            which = name_some([entries.title(k) for k in longer], 3)
            notes.append(
                "entries that sum to more than was recorded account for their period "
                f"({len(longer)} of {n}): {which}"
            )
        length = np.where(own, recorded, period)
        return Coverage(length, np.where(own, np.maximum(slack, near), slack), found, notes)
    if 2 * sums.perhaps_to_recorded.sum() < max(n, 1):
        return Coverage(period, slack, None, [])
    found = f"{rules.in_words('covers', 'period')}, but this is in doubt: {sums.in_words()}"
    option = "--covers recording"
    if (sums.total > sums.recorded + slack[decide]).any():
        option += " --excess scale"
    notes = [
        f"{found}; {sums.in_hours()}; if entries account only for what was recorded, use {option}"
    ]
    return Coverage(period, slack, found, notes)
