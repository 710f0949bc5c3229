"""What clocks showed and when: time zones and the changes of the clock, in microseconds."""

from __future__ import annotations

import difflib
from collections.abc import Callable
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
"""The days that `datetime` knows in every zone, counted from 1970."""


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
    """Return what a clock shows, in words, so many microseconds after 1970."""
    text = str(np.datetime64(moment, "us")).replace("T", " ")
    return text.removesuffix(".000000").removesuffix(":00")


def starts_to_absolute(
    clock: IntArray, zone: ZoneInfo, groups: IntArray, place: Callable[[int], str]
) -> IntArray:
    """Return the points in time at which clocks of a zone showed these times.

    An hour that the clock showed twice is told apart by the order of a group's rows: it is the
    second time once the clock has gone back, or where a time is repeated. A time that no clock
    showed is an error at its `place`.
    """
    ahead = _ahead(clock, zone)
    _refuse_never(ahead.before < ahead.after, clock, zone, place)
    offset = ahead.before.copy()
    twice = np.flatnonzero(ahead.before > ahead.after)
    if twice.size:
        blocks = np.stack([groups[twice], ahead.change[twice]])
        _, block = np.unique(blocks, axis=1, return_inverse=True)
        second = twice[_second_showing(clock[twice], block.ravel())]
        offset[second] = ahead.after[second]
    return clock - offset


def ends_to_absolute(clock: IntArray, zone: ZoneInfo, starts: IntArray) -> IntArray:
    """Return when clocks of a zone first showed these times after the starts."""
    ahead = _ahead(clock, zone)
    first = clock - ahead.before
    return np.where(first > starts, first, clock - ahead.after)


def first_showing(clock: IntArray, zone: ZoneInfo) -> IntArray:
    """Return when clocks of a zone first showed these times.

    A time that no clock showed is taken as if the clock had not yet been put forward.
    """
    return clock - _ahead(clock, zone).before


def shown_by(moments: IntArray, zone: ZoneInfo) -> IntArray:
    """Return what clocks of a zone showed at these points in time."""
    changes, offsets = _changes(moments, zone)
    return moments + offsets[np.searchsorted(changes, moments, side="right")]


def refuse_never_shown(
    clock: IntArray, zone: ZoneInfo, place: Callable[[int], str], *, ends: bool = False
) -> None:
    """Raise for a time that no clock of a zone showed; an end may be when it was put forward."""
    ahead = _ahead(clock, zone)
    never = ahead.before < ahead.after
    if ends:
        just_before = _ahead(clock - 1, zone)
        never &= just_before.before < just_before.after
    _refuse_never(never, clock, zone, place)


def _refuse_never(
    never: BoolArray, clock: IntArray, zone: ZoneInfo, place: Callable[[int], str]
) -> None:
    if never.any():
        row = int(np.argmax(never))
        raise DiaryError(
            place(row),
            f"{shown_at(int(clock[row]))}, which no clock in {zone.key} showed: it was put forward",
            "times that clocks of the zone have shown",
            "correct the time or the zone, or give times in UTC",
        )


class _Ahead(NamedTuple):
    """How far clocks were ahead of UTC when they showed some times.

    `before` and `after` differ where a change of the clock made it show the time twice (before >
    after) or never (before < after); `change` numbers the changes.
    """

    before: IntArray
    after: IntArray
    change: IntArray


def _ahead(clock: IntArray, zone: ZoneInfo) -> _Ahead:
    changes, offsets = _changes(clock, zone)
    low = changes + np.minimum(offsets[:-1], offsets[1:])
    high = changes + np.maximum(offsets[:-1], offsets[1:])
    change = np.searchsorted(low, clock, side="right") - 1
    torn = (change >= 0) & (clock < np.append(high, 0)[change])
    return _Ahead(offsets[change + 1 - torn], offsets[change + 1], change)


def _changes(clock: IntArray, zone: ZoneInfo) -> tuple[IntArray, IntArray]:
    """Return when clocks of a zone were changed near these times, and their offsets between."""
    near = np.unique(clock // DAY)[:, None] + np.arange(-1, 3)
    days = np.unique(np.clip(near, _FIRST_DAY, _LAST_DAY))
    offsets = np.array([_offset(day * DAY, zone) for day in days.tolist()], dtype=np.int64)
    before = np.flatnonzero(np.diff(offsets))
    changes = [_change_between(days[k] * DAY, days[k + 1] * DAY, zone) for k in before]
    between = np.append(offsets[:1], offsets[before + 1])
    return np.array(changes, dtype=np.int64), between


def _change_between(early: int, late: int, zone: ZoneInfo) -> int:
    """Return the first second at which the offset is no longer what it was, by bisection."""
    low, high = int(early) // SECOND, int(late) // SECOND
    old = _offset(low * SECOND, zone)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(middle * SECOND, zone) == old:
            low = middle
        else:
            high = middle
    return high * SECOND


def _offset(moment: int, zone: ZoneInfo) -> int:
    local = (_EPOCH + timedelta(microseconds=moment)).astimezone(zone)
    return (local.utcoffset() or timedelta()) // timedelta(microseconds=1)


def _second_showing(clock: IntArray, block: IntArray) -> BoolArray:
    """Return which rows of a doubled hour stand behind the clock's going back.

    In a block whose times rise, go back once and rise again these are the rows behind; else those
    whose time stood there before, as where rows are sorted by what the clock showed.
    """
    order = np.argsort(block, kind="stable")
    blocks, step = block[order], np.diff(clock[order], prepend=0)
    back, still = (_like_previous(blocks) & sign for sign in (step < 0, step == 0))
    rises = (np.bincount(blocks, back) == 1) & (np.bincount(blocks, still) == 0)
    passed = np.cumsum(back)
    behind = passed > passed[np.searchsorted(blocks, blocks)]
    by_time = np.lexsort([clock, block])
    second = np.empty(len(clock), dtype=bool)
    second[by_time] = _like_previous(block[by_time]) & _like_previous(clock[by_time])
    second[order] = np.where(rises[blocks], behind, second[order])
    return second


def _like_previous(values: IntArray) -> BoolArray:
    return np.append(False, values[1:] == values[:-1])
