"""Whether a diary's entries account for their periods, or only for the recorded part of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion._utils.typing import FloatArray
from apportion.exceptions import Advice, counted, name_some
from apportion.supervision.diary.diary_rules import DiaryRules
from apportion.supervision.diary.entries import Entries

_NEAR = 0.02
"""Durations that miss a time by this share of it are meant to fill it."""

_NOT_FAR = 0.1
"""Durations that miss the recorded time by this share of it may be meant to fill it."""

_MOST, _FEWEST = 0.75, 3
"""The share, and the number, of entries with one kind of sum that cannot be an accident."""


class AccountedTime(NamedTuple):
    """What entries account for.

    Attributes
    ----------
    length, slack : ndarray of shape (n_periods,)
        The seconds that each entry accounts for, and by which durations may miss them because they
        are rounded.
    finding : str or None
        What the entries were found to account for, in words, where their sums tell.
    notes : list of str
        The same with the sums that speak for it, or against it.
    """

    length: FloatArray
    slack: FloatArray
    finding: str | None
    notes: list[str]


def accounted_time(
    entries: Entries,
    period: FloatArray,
    recorded: FloatArray,
    rounding: float,
    slack: FloatArray,
    rules: DiaryRules,
) -> AccountedTime:
    """Return what entries account for; with `covers="auto"`, what most of them sum to.

    Only entries that were recorded in part can tell: where durations sum to about the recorded time
    and not to the period, the diary describes the recording. An entry that sums to more then still
    accounts for its period, so that no entry is refused that would be accepted otherwise.

    Parameters
    ----------
    entries : Entries
        Entries that have windows.
    period, recorded : ndarray of shape (n_periods,)
        The seconds of their periods, and the recorded ones among them.
    rounding : float
        How many seconds a reported duration may be off, to either side.
    slack : ndarray of shape (n_periods,)
        Seconds by which durations may miss what they account for.
    rules : DiaryRules
        `covers` and `blank`.

    Returns
    -------
    AccountedTime
    """
    if rules.covers != "auto":
        return AccountedTime(recorded if rules.covers == "recording" else period, slack, None, [])
    total = np.nansum(entries.seconds, axis=1)
    # The errors of rounded durations are independent and uniform on [-r, r], with variance r²/3:
    # the error of a sum of m of them has the standard deviation r √(m/3). Sums within two of these,
    # or within a few percent, count as equal. A time that is not recorded must be longer than twice
    # that, or else the sum could be near to both the recorded time and the period.
    near = 2.0 * rounding * np.sqrt((entries.seconds > 0).sum(axis=1) / 3.0)
    near = np.maximum(near, _NEAR * recorded)
    timed = np.isnan(entries.shares).all(axis=1) & (total > 0)
    if rules.blank == "unknown":
        timed &= ~entries.blank.any(axis=1)
    telling = timed & (period - recorded > 2.0 * near)
    off, off_period = np.abs(total - recorded), np.abs(total - period)
    to_recorded = telling & (off <= near)
    to_period = telling & (off_period <= np.maximum(near, _NEAR * period))
    n = int(telling.sum())
    n_recorded, n_period = (f"{x.sum():,}" if x.any() else "none" for x in (to_recorded, to_period))
    sums = (
        f"of {counted(n, 'entry')} recorded in part, {n_recorded} sum to the recorded time within "
        f"{100 * _NEAR:g} % or what rounding explains, {n_period} to the period"
    )
    hours = [f"{seconds[telling].sum() / 3600:,.1f} h" for seconds in (total, recorded, period)]
    together = "together they report {}, of {} recorded and {} in their periods".format(*hours)
    if to_recorded.sum() >= max(_FEWEST, _MOST * n):
        fits = total <= recorded + near
        finding = f"{rules.in_words('covers', 'recording')}: {sums}"
        notes = [f"{finding}; {together}"]
        longer = [entries.title(k) for k in np.flatnonzero(telling & ~fits).tolist()]
        if longer:
            notes.append(
                "entries that sum to more than was recorded account for their period "
                f"({len(longer)} of {n}): {name_some(longer, 3)}"
            )
        length = np.where(fits, recorded, period)
        slack = np.where(fits, np.maximum(slack, near), slack)
        return AccountedTime(length, slack, finding, notes)
    not_far = off <= np.maximum(near, _NOT_FAR * recorded)
    if 2 * (telling & not_far & (2.0 * off < off_period)).sum() < max(n, 1):
        return AccountedTime(period, slack, None, [])
    finding = f"{rules.in_words('covers', 'period')}, but this is in doubt: {sums}"
    advice = "use {covers:recording}"
    if (total > recorded + slack)[telling].any():
        advice += " and {excess:scale}"
    doubt = f"{finding}; {together}; if entries account only for what was recorded,"
    return AccountedTime(period, slack, finding, [Advice(doubt, advice)])
