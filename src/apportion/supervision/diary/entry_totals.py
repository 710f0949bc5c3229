"""The totals of bags, from the entries that have windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.exceptions import Advice, DiaryError, compared, counted, hint, name_some
from apportion.supervision.diary.diary_rules import DiaryRules
from apportion.supervision.diary.duration_bounds import (
    RECORDED,
    recorded_bounds,
    reported_durations,
    rounding_step,
)
from apportion.supervision.diary.entries import Entries
from apportion.supervision.totals import SHARES_SUM_WITHIN, Totals

UNKNOWN = "unknown"
"""The class of time that no activity accounts for."""

_NOTHING = 1e-9
_WHOLE = 0.999
"""A period of which this share was recorded does not count as recorded in part."""

_HIDDEN = 0.01
"""The largest share of a period that the length of windows may hide."""

_NEAR = 0.02
"""Durations that miss a time by this share of it are meant to fill it."""

_NOT_FAR = 0.1
"""Durations that miss the recorded time by this share of it may be meant to fill it."""

_MOST, _FEWEST = 0.75, 3
"""The share, and the number, of entries with one kind of sum that cannot be an accident."""


class EntryRemark(NamedTuple):
    """An entry that does not fit, and how to fix it.

    Attributes
    ----------
    entry : str
        The id of its bag, or what the entry is called if it is not used.
    place : str
        Where it stands, such as "diary.csv, line 5".
    problem : str
        What does not fit, and what was done about it.
    fix : str
        What to do; it may name parameters.
    """

    entry: str
    place: str
    problem: str
    fix: str


class EntryTotals(NamedTuple):
    """The entries that are used, with the ids and totals of their bags.

    Attributes
    ----------
    kept : ndarray of shape (n_bags,)
        The entries that are used.
    ids : list of str
        The ids of their bags.
    totals : Totals
        The totals of their bags, and how often each class happened.
    never : tuple of str
        Activities that take no time in any of them.
    finding : str or None
        What the entries were found to account for, in words.
    notes : list of str
        What was decided, in sentences.
    remarks : list of EntryRemark
        The entries that do not fit.
    """

    kept: IntArray
    ids: list[str]
    totals: Totals
    never: tuple[str, ...]
    finding: str | None
    notes: list[str]
    remarks: list[EntryRemark]


def entry_totals(
    entries: Entries,
    period: FloatArray,
    recorded: FloatArray,
    window: float,
    rules: DiaryRules,
    *,
    several: bool,
) -> EntryTotals:
    """Return the totals of the entries that the rules keep.

    Parameters
    ----------
    entries : Entries
        Entries that have windows.
    period, recorded : ndarray of shape (n_periods,)
        The seconds of their periods, and the recorded ones among them.
    window : float
        The usual seconds of a window.
    rules : DiaryRules
        What to do with what does not fit.
    several : bool
        Whether there are several participants, so that the ids of bags name them.

    Returns
    -------
    EntryTotals
    """
    step = tolerance = 0.0
    if rules.tolerance == "auto":
        step = rounding_step(entries.seconds[~np.isnan(entries.seconds)], window)
    else:
        tolerance = 60.0 * float(rules.tolerance)
    slack = _slack(entries, step, window, recorded, rules)
    rounding = max(0.5 * step, tolerance)
    accounted = _accounted_time(entries, period, recorded, rounding, slack, rules)
    length, slack, finding, notes = accounted
    slack = slack + np.where(np.isnan(entries.shares).all(axis=1), 0.0, SHARES_SUM_WITHIN * length)
    durations = reported_durations(entries.seconds, entries.shares, length, tolerance, rules)
    bounds = recorded_bounds(durations, length, recorded, slack, rules)
    total = durations.reported.sum(axis=1)
    if rules.excess == "error" and bounds.too_long.any():
        k = int(np.argmax(bounds.too_long))
        raise _too_long(k, entries, total[k], length[k], rules)

    silent = np.asarray(entries.blank.all(axis=1))
    left_out = silent | bounds.uncovered | bounds.hardly_recorded
    in_part = (recorded < _WHOLE * length) & ~left_out
    whole = "their period" if np.array_equal(length, period) else "the time they account for"
    multiples = f" (all durations are multiples of {step / 60:g} min)" if step else ""
    rounded = bounds.rounded & (np.abs(total - length) > 1.0)
    like_whole = "that were recorded in part: what was recorded is taken to be like the whole"
    explained = f"that miss {whole} by no more than rounding explains{multiples} are scaled to it"
    for mask, treatment in (
        (silent, "that say nothing are left out"),
        (rounded, explained),
        (bounds.too_long, f"that exceed {whole} are scaled down to it"),
        (bounds.uncovered & ~silent, f"that do not cover {whole} are left out"),
        (bounds.hardly_recorded, "that were recorded to less than 95 % are left out"),
        (in_part & bounds.within, "that were recorded in part are known within bounds"),
        (in_part & ~bounds.within, like_whole),
    ):
        if mask.any():
            notes.append(f"entries {treatment} {_some_titles(entries, mask, len(mask))}")
    if left_out.all():
        found = f"no entry that these rules keep: {'; '.join(notes)}"
        advice = hint("fill in the diary, or use other rules ({uncovered}, {part})")
        raise DiaryError(entries.source, found, "at least one entry that is used", advice)
    kept = np.flatnonzero(~left_out)
    ids = _ids(entries.take(kept), several)
    names = {k: entries.title(k) for k in range(len(left_out))}
    names |= dict(zip(kept.tolist(), ids, strict=True))
    remarks = _remarks(
        entries,
        names,
        (silent, "it says nothing and is left out", "fill it in, or drop its line"),
        (
            bounds.too_long,
            "its durations are longer than what it accounts for; they are scaled down",
            "correct the durations",
        ),
        (
            bounds.uncovered & ~silent,
            "its durations do not cover its period, and it is left out",
            hint("complete the durations, or choose another rule with {uncovered}"),
        ),
        (
            bounds.hardly_recorded,
            "less than 95 % of it was recorded, and it is left out",
            hint("choose another rule with {part}"),
        ),
        (
            in_part & (recorded < RECORDED * length),  # a few windows not worn need no look
            "it was recorded in part",
            hint("check that windows are complete; {part} says what is done with such entries"),
        ),
    )
    totals, never = _totals(
        ids, entries.classes, bounds.least[kept], bounds.most[kept], recorded[kept]
    )
    if never:
        notes.append(
            "activities that take no time in any entry that is used are no classes: "
            f"{name_some(map(repr, never), 12)}"
        )
    episodes = _of_classes(entries.episodes[kept], entries.classes, totals.classes.tolist())
    totals = totals.with_most_episodes(episodes)
    return EntryTotals(kept, ids, totals, never, finding, notes, remarks)


def _remarks(
    entries: Entries, names: Mapping[int, str], *cases: tuple[BoolArray, str, str]
) -> list[EntryRemark]:
    """Return the entries that masks select, each with what does not fit and how to fix it."""
    return [
        EntryRemark(names[k], entries.place(k), problem, fix)
        for mask, problem, fix in cases
        for k in np.flatnonzero(mask).tolist()
    ]


def _some_titles(entries: Entries, mask: BoolArray, n: int) -> str:
    """Return how many of n entries a mask selects, and the first few of them."""
    titles = [entries.title(k) for k in np.flatnonzero(mask).tolist()]
    return f"({len(titles)} of {n}): {name_some(titles, 3)}"


def _accounted_time(
    entries: Entries,
    period: FloatArray,
    recorded: FloatArray,
    rounding: float,
    slack: FloatArray,
    rules: DiaryRules,
) -> tuple[FloatArray, FloatArray, str | None, list[str]]:
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
    length, slack : ndarray of shape (n_periods,)
        The seconds that each entry accounts for, and by which rounded durations may miss them.
    finding : str or None
        What the entries were found to account for, in words, where their sums tell.
    notes : list of str
        The same with the sums that speak for it, or against it.
    """
    if rules.covers != "auto":
        return (recorded if rules.covers == "recording" else period), slack, None, []
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
        longer = telling & ~fits
        if longer.any():
            treatment = "entries that sum to more than was recorded account for their period"
            notes.append(f"{treatment} {_some_titles(entries, longer, n)}")
        length = np.where(fits, recorded, period)
        slack = np.where(fits, np.maximum(slack, near), slack)
        return length, slack, finding, notes
    not_far = off <= np.maximum(near, _NOT_FAR * recorded)
    if 2 * (telling & not_far & (2.0 * off < off_period)).sum() < max(n, 1):
        return period, slack, None, []
    finding = f"{rules.in_words('covers', 'period')}, but this is in doubt: {sums}"
    advice = "use {covers:recording}"
    if (total > recorded + slack)[telling].any():
        advice += " and {excess:scale}"
    doubt = f"{finding}; {together}; if entries account only for what was recorded,"
    return period, slack, finding, [Advice(doubt, advice)]


def _slack(
    entries: Entries, step: float, window: float, recorded: FloatArray, rules: DiaryRules
) -> FloatArray:
    """Return the seconds by which durations may miss their period because they are rounded.

    Each duration may be off by half a step. Labels are no finer than windows either: half a window
    for each activity, and for the time left over, means nothing unless it is a large share.
    """
    n_named = (entries.seconds > 0).sum(axis=1)
    if rules.tolerance != "auto":
        return np.zeros(len(n_named))
    hidden = np.minimum(0.5 * window * (n_named + 1), _HIDDEN * recorded)
    return np.maximum(0.5 * step * n_named, np.where(n_named > 0, hidden, 0.0))


def _ids(entries: Entries, several: bool) -> list[str]:
    """Return the ids of bags, all different."""
    if not several:
        return list(entries.names)
    ids = [entries.title(k) for k in range(len(entries.names))]
    if len(set(ids)) == len(ids):
        return ids
    pairs = zip(entries.participants, entries.names, strict=True)
    return [f"{who!r} {name}" for who, name in pairs]


def _totals(
    ids: list[str], classes: tuple[str, ...], least: FloatArray, most: FloatArray, size: FloatArray
) -> tuple[Totals, tuple[str, ...]]:
    """Return bounds in seconds as totals in shares, and the activities that take no time at all.

    These are not classes; the time that no activity accounts for is one.
    """
    low, high = least / size[:, None], most / size[:, None]
    names = list(classes)
    reported = [h for h, name in enumerate(names) if name.casefold() == UNKNOWN]
    if reported:
        low[:, reported[0]] += low[:, -1]
        high[:, reported[0]] += high[:, -1]
    else:
        names.append(UNKNOWN)
    least_share = [_NOTHING if name.casefold() == UNKNOWN else 0.0 for name in names]
    some = np.flatnonzero((high[:, : len(names)] > least_share).any(axis=0)).tolist()
    low, high = (np.clip(bound[:, some], 0.0, 1.0) for bound in (low, high))
    totals = Totals.from_intervals(
        dict(zip(ids, low.tolist(), strict=True)),
        dict(zip(ids, high.tolist(), strict=True)),
        classes=[names[h] for h in some],
    )
    return totals, tuple(name for h, name in enumerate(classes) if h not in some)


def _of_classes(table: FloatArray, names: Sequence[str], classes: Sequence[str]) -> FloatArray:
    """Return the columns of some classes; NaN for a class that has none."""
    position = {name: h for h, name in enumerate(names)}
    with_none = np.column_stack([table, np.full(len(table), np.nan)])
    return with_none[:, [position.get(name, -1) for name in classes]]


def _too_long(
    k: int, entries: Entries, total: float, length: float, rules: DiaryRules
) -> DiaryError:
    worth, unit = (3600.0, "h") if min(total, length) >= 3600 else (60.0, "min")
    found, most = (f"{x} {unit}" for x in compared(total / worth, length / worth, digits=4))
    if entries.spans is None or rules.covers == "recording":
        allowed = f"{most}, as long as its windows last"
    else:
        allowed = f"the {most} of its period"
        if entries.spans.in_days[k] and length % 86400.0:
            allowed += ", in which clocks were changed"
    advice = ["correct the entry"]
    if entries.bare_unit is not None:
        advice.append(f"if its numbers are not {entries.bare_unit}, give their unit with {{unit}}")
    if rules.covers == "recording":
        advice.append("if it reports more than was recorded, use {covers:period}")
    advice.append("to scale such entries down, use {excess:scale}")
    return DiaryError(
        f"entry {entries.title(k)!r}",
        f"durations that sum to {found}",
        f"at most {allowed}",
        hint("; ".join(advice)),
        row=k,
        place=entries.place(k),
    )
