"""Time zones: between points in time and what clocks showed, through changes of the clock.

All times are in microseconds.
"""

from __future__ import annotations

import difflib
from bisect import bisect
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import numpy as np

from apportion._utils.typing import BoolArray, IntArray
from apportion.exceptions import DiaryError

SECOND = 1_000_000
DAY = 24 * 3600 * SECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY = (datetime(1, 1, 3, tzinfo=UTC) - _EPOCH).days
_LAST_DAY = (datetime(9999, 12, 29, tzinfo=UTC) - _EPOCH).days
"""The days since 1970 that `datetime` can represent in every zone."""


@cache
def zone_named(name: str) -> ZoneInfo:
    """Return a time zone, or raise an error that names similar ones."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        known = sorted(available_timezones())
        short = {zone.rpartition("/")[2].casefold(): zone for zone in known}
        near = difflib.get_close_matches(name, known, n=3) or [
            short[word] for word in difflib.get_close_matches(name.casefold(), short, n=3)
        ]
        raise DiaryError(
            "the time zone",
            repr(name),
            "a name such as 'Europe/London' or 'UTC'",
            f"did you mean {' or '.join(map(repr, near))}" if near else "use one of these names",
        ) from None


def shown_at(moment: int) -> str:
    """Return the date and time of a number of microseconds since 1970, as text."""
    text = str(np.datetime64(moment, "us")).replace("T", " ")
    return text.removesuffix(".000000").removesuffix(":00")


def starts_to_absolute(clock: IntArray, zone: ZoneInfo, groups: IntArray) -> IntArray:
    """Return the points in time at which clocks of a zone showed these times.

    When the clock is put back, it shows an hour twice. The order of a group's rows decides which of
    the two is meant: the second one after the clock has gone back, or where a time is repeated. A
    time that no clock showed raises an error.
    """
    refuse_skipped(clock, zone)
    offsets = _offsets_at(clock, zone)
    offset = offsets.before.copy()
    twice = np.flatnonzero(offsets.before > offsets.after)
    if twice.size:
        blocks = np.stack([groups[twice], offsets.change[twice]])
        _, block = np.unique(blocks, axis=1, return_inverse=True)
        second = twice[_second_showing(clock[twice], block.ravel())]
        offset[second] = offsets.after[second]
    return clock - offset


def ends_to_absolute(clock: IntArray, zone: ZoneInfo, starts: IntArray) -> IntArray:
    """Return when clocks of a zone first showed these times after the starts."""
    offsets = _offsets_at(clock, zone)
    first = clock - offsets.before
    return np.where(first > starts, first, clock - offsets.after)


def first_showing(clock: IntArray, zone: ZoneInfo) -> IntArray:
    """Return when clocks of a zone first showed these times.

    A time that no clock showed is read as if the clock had not yet been put forward.
    """
    return clock - _offsets_at(clock, zone).before


def shown_by(moments: IntArray, zone: ZoneInfo) -> IntArray:
    """Return what clocks of a zone showed at these points in time."""
    changes, offsets = _clock_changes(moments, zone)
    return moments + offsets[np.searchsorted(changes, moments, side="right")]


def refuse_skipped(
    clock: IntArray, zone: ZoneInfo, *, among: BoolArray | bool = True, ends: bool = False
) -> None:
    """Raise for a time that no clock of a zone showed, because it was put forward.

    An end may be the moment at which the clock was put forward.
    """
    offsets = _offsets_at(clock, zone)
    skipped = (offsets.before < offsets.after) & among
    if ends:
        just_before = _offsets_at(clock - 1, zone)
        skipped &= just_before.before < just_before.after
    if skipped.any():
        row = int(np.argmax(skipped))
        raise DiaryError(
            "",
            f"{shown_at(int(clock[row]))}, which no clock in {zone.key} showed: it was put forward",
            "times that clocks of the zone have shown",
            "correct the time or the zone, or give times in UTC",
            row=row,
        )


class _Offsets(NamedTuple):
    """How far clocks were ahead of UTC when they showed some times.

    `before` and `after` differ where a change of the clock made it show the time twice (before >
    after) or never (before < after); `change` numbers the changes.
    """

    before: IntArray
    after: IntArray
    change: IntArray


def _offsets_at(clock: IntArray, zone: ZoneInfo) -> _Offsets:
    # A change at UTC time u from offset a to offset b concerns the clock times from u + min(a, b)
    # to u + max(a, b): they were shown twice (a > b) or never (a < b). Others were shown once.
    changes, offsets = _clock_changes(clock, zone)
    low = changes + np.minimum(offsets[:-1], offsets[1:])
    high = changes + np.maximum(offsets[:-1], offsets[1:])
    change = np.searchsorted(low, clock, side="right") - 1
    ambiguous = (change >= 0) & (clock < np.append(high, 0)[change])
    return _Offsets(offsets[change + 1 - ambiguous], offsets[change + 1], change)


def _clock_changes(clock: IntArray, zone: ZoneInfo) -> tuple[IntArray, IntArray]:
    """Return when clocks of a zone were changed near these times, and the offsets between."""
    near = np.unique(clock // DAY)[:, None] + np.arange(-1, 3)
    days = np.unique(np.clip(near, _FIRST_DAY, _LAST_DAY))
    offsets = np.array([_offset(day * DAY, zone) for day in days.tolist()], dtype=np.int64)
    before = np.flatnonzero(np.diff(offsets))
    changes = [_change_between(int(days[k]), int(days[k + 1]), zone) for k in before]
    return np.array(changes, dtype=np.int64), np.append(offsets[:1], offsets[before + 1])


def _change_between(early: int, late: int, zone: ZoneInfo) -> int:
    """Return the first second between two days at which the offset has changed, by bisection."""
    seconds = range(early * DAY // SECOND, late * DAY // SECOND + 1)
    old = _offset(early * DAY, zone)
    k = bisect(seconds, False, key=lambda second: _offset(second * SECOND, zone) != old)
    return seconds[k] * SECOND


def _offset(moment: int, zone: ZoneInfo) -> int:
    local = (_EPOCH + timedelta(microseconds=moment)).astimezone(zone)
    return (local.utcoffset() or timedelta()) // timedelta(microseconds=1)


def _second_showing(clock: IntArray, block: IntArray) -> BoolArray:
    """Return which rows belong to the second showing of an hour that was shown twice.

    In a block whose times rise, go back once and rise again, these are the rows after the step
    back. In any other block, as where rows are sorted by what the clock showed, these are the rows
    that repeat a time.
    """
    order = np.argsort(block, kind="stable")
    blocks, step = block[order], np.diff(clock[order], prepend=0)
    back, still = (_like_previous(blocks) & sign for sign in (step < 0, step == 0))
    rises = (np.bincount(blocks, back) == 1) & (np.bincount(blocks, still) == 0)
    steps_back = np.cumsum(back)
    after = steps_back > steps_back[np.searchsorted(blocks, blocks)]
    by_time = np.lexsort([clock, block])
    second = np.empty(len(clock), dtype=bool)
    second[by_time] = _like_previous(block[by_time]) & _like_previous(clock[by_time])
    second[order] = np.where(rises[blocks], after, second[order])
    return second


def _like_previous(values: IntArray) -> BoolArray:
    return np.append(False, values[1:] == values[:-1])
