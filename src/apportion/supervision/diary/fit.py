"""What the entries that have windows say about them: a bag's id and totals for each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.exceptions import DiaryError, compared, name_some
from apportion.supervision.diary.bounds import (
    RecordedBounds,
    recorded_bounds,
    reported_durations,
    rounding_step,
)
from apportion.supervision.diary.covers import coverage
from apportion.supervision.diary.entries import Entries
from apportion.supervision.diary.rules import DiaryRules
from apportion.supervision.totals import SHARES_SUM_WITHIN, Totals

UNKNOWN = "unknown"
_NOTHING = 1e-9
_WHOLE = 0.999
_HIDDEN = 0.01
"""The largest share of a period that the length of windows may hide."""


class Fitted(NamedTuple):
    """Which entries are used, the ids and totals of their bags, and what was decided.

    `never` are activities that take no time in any of them, `covers` says what the entries were
    found to account for.
    """

    kept: IntArray
    ids: list[str]
    totals: Totals
    never: tuple[str, ...]
    covers: str | None
    notes: list[str]


def fit_entries(
    entries: Entries,
    period: FloatArray,
    recorded: FloatArray,
    window: float,
    rules: DiaryRules,
    name: str,
    *,
    several: bool,
) -> Fitted:
    """Return the totals of the entries that the rules leave.

    Parameters
    ----------
    entries : Entries
        Entries that have windows.
    period, recorded : ndarray of shape (n_periods,)
        Seconds that their periods have, and that were recorded of them.
    window : float
        The usual seconds of a window.
    rules : DiaryRules
        What to do with what does not fit.
    name : str
        What the diary is called.
    several : bool
        Whether bags are of several participants, and are called by them too.
    """
    step, tolerance = _rounding(entries, window, rules)
    slack = _slack(entries, step, window, recorded, rules)
    covered = coverage(entries, period, recorded, max(0.5 * step, tolerance), slack, rules)
    length, slack = covered.length, covered.slack
    slack = slack + np.where(np.isnan(entries.shares).all(axis=1), 0.0, SHARES_SUM_WITHIN * length)
    durations = reported_durations(entries.seconds, entries.shares, length, tolerance, rules)
    found = recorded_bounds(durations, length, recorded, slack, rules)
    total = durations.reported.sum(axis=1)
    if rules.excess == "error" and found.too_long.any():
        k = int(np.argmax(found.too_long))
        raise _too_long(f"{name}, {entries.places[k]}", k, entries, total, length, rules)
    silent = np.asarray(entries.blank.all(axis=1))
    part = recorded < _WHOLE * length
    scaled = found.rounded & (np.abs(total - length) > 1.0)
    whole = "their period" if np.array_equal(length, period) else "the time they account for"
    notes = [
        *covered.notes,
        *_told(entries, found._replace(rounded=scaled), silent, part, step, whole),
    ]
    kept = np.flatnonzero(~(silent | found.uncovered | found.hardly_recorded))
    if not kept.size:
        raise DiaryError(
            name,
            f"no entry that these rules leave: {'; '.join(notes)}",
            "at least one entry that is used",
            "fill in the diary, or use other rules (--uncovered, --part)",
        )
    ids = _ids(entries.take(kept)) if several else [entries.names[k] for k in kept.tolist()]
    totals, never = _totals(
        ids, entries.classes, found.least[kept], found.most[kept], recorded[kept]
    )
    if never:
        notes.append(
            "activities that take no time in any entry that is used are no classes: "
            f"{name_some(map(repr, never), 12)}"
        )
    return Fitted(kept, ids, totals, never, covered.found, notes)


def _rounding(entries: Entries, window: float, rules: DiaryRules) -> tuple[float, float]:
    """Return the step to which durations are rounded, and how far each may be off, in seconds."""
    if rules.tolerance == "auto":
        return rounding_step(entries.seconds[~np.isnan(entries.seconds)], window), 0.0
    return 0.0, 60.0 * float(rules.tolerance)


def _slack(
    entries: Entries, step: float, window: float, recorded: FloatArray, rules: DiaryRules
) -> FloatArray:
    """Return the seconds by which durations may miss their period because they are rounded.

    Each duration may be off by half a step. No label is finer than a window, either: half a window
    for each activity, and for the time left over, says nothing unless it is a large share.
    """
    named = (entries.seconds > 0).sum(axis=1)
    if rules.tolerance != "auto":
        return np.zeros(len(named))
    hidden = np.minimum(0.5 * window * (named + 1), _HIDDEN * recorded)
    return np.maximum(0.5 * step * named, np.where(named > 0, hidden, 0.0))


def _ids(entries: Entries) -> list[str]:
    """Return what bags of several participants are called, all different."""
    ids = [entries.title(k) for k in range(len(entries.names))]
    if len(set(ids)) == len(ids):
        return ids
    return [
        f"{who!r} {name}" for who, name in zip(entries.participants, entries.names, strict=True)
    ]


def _totals(
    ids: list[str], classes: tuple[str, ...], least: FloatArray, most: FloatArray, size: FloatArray
) -> tuple[Totals, tuple[str, ...]]:
    """Return bounds in seconds as totals in shares, and the activities that take no time at all.

    These are no classes; what nobody accounts for is one.
    """
    low, high = least / size[:, None], most / size[:, None]
    names = list(classes)
    said = [h for h, name in enumerate(names) if name.casefold() == UNKNOWN]
    if said:
        low[:, said[0]] += low[:, -1]
        high[:, said[0]] += high[:, -1]
    else:
        names.append(UNKNOWN)
    least_share = [0.0] * len(classes) + [_NOTHING] * (len(names) - len(classes))
    some = np.flatnonzero((high[:, : len(names)] > least_share).any(axis=0)).tolist()
    low, high = (np.clip(bound[:, some], 0.0, 1.0) for bound in (low, high))
    totals = Totals.from_intervals(
        dict(zip(ids, low.tolist(), strict=True)),
        dict(zip(ids, high.tolist(), strict=True)),
        classes=[names[h] for h in some],
    )
    return totals, tuple(name for h, name in enumerate(classes) if h not in some)


def _told(
    entries: Entries,
    found: RecordedBounds,
    silent: BoolArray,
    part: BoolArray,
    step: float,
    whole: str,
) -> list[str]:
    """Return what was done with which entries, in sentences."""
    multiples = f" (all durations are multiples of {step / 60:g} min)" if step else ""
    part = part & ~(silent | found.uncovered | found.hardly_recorded)
    notes = []
    for mask, words in (
        (silent, "that say nothing are left out"),
        (
            found.rounded,
            f"that miss {whole} by no more than rounding explains{multiples} are scaled to it",
        ),
        (found.too_long, f"that exceed {whole} are scaled down to it"),
        (found.uncovered & ~silent, f"that do not cover {whole} are left out"),
        (found.hardly_recorded, "that were recorded to less than 95 % are left out"),
        (part & found.within, "that were recorded in part are known within bounds"),
        (
            part & ~found.within,
            "that were recorded in part: what was recorded is taken to be like the whole",
        ),
    ):
        if mask.any():
            which = [entries.title(k) for k in np.flatnonzero(mask).tolist()]
            notes.append(f"entries {words} ({len(which)} of {len(mask)}): {name_some(which, 3)}")
    return notes


def _too_long(
    where: str,
    k: int,
    entries: Entries,
    total: FloatArray,
    length: FloatArray,
    rules: DiaryRules,
) -> DiaryError:
    found, allowed = _spelled(total[k], length[k])
    if entries.spans is None or rules.covers == "recording":
        most = f"{allowed}, as long as its windows last"
    else:
        most = f"the {allowed} of its period"
        if entries.spans.in_days[k] and length[k] % 86400.0:
            most += ", in which clocks were changed"
    hints = ["correct the entry"]
    if entries.bare_unit is not None:
        hints.append(f"if its numbers are no {entries.bare_unit}, say what they are with --unit")
    if rules.covers == "recording":
        hints.append("if it tells more than was recorded, use --covers period")
    hints.append("to scale such entries down use --excess scale")
    return DiaryError(
        f"{where} ({entries.title(k)})",
        f"durations that sum to {found}",
        f"at most {most}",
        "; ".join(hints),
    )


def _spelled(*seconds: float) -> list[str]:
    """Return durations that are compared, in hours or minutes."""
    worth, unit = (3600.0, "h") if min(seconds) >= 3600 else (60.0, "min")
    return [f"{text} {unit}" for text in compared(*(s / worth for s in seconds), digits=4)]
