"""Which entry of a diary each window belongs to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import numpy as np

from apportion._io.identifiers import factorize, plain_names, respelled
from apportion._utils.typing import FloatArray, IntArray
from apportion.exceptions import DiaryError, name_some
from apportion.supervision.diary.clock import DAY, SECOND, zone_named
from apportion.supervision.diary.entries import Entries
from apportion.supervision.diary.periods import clock_time
from apportion.supervision.diary.recording import Recording
from apportion.supervision.diary.table import Table


class Matched(NamedTuple):
    """Each window's entry, when entries begin and end where that is known, and the recording."""

    codes: IntArray
    periods: tuple[IntArray, IntArray] | None
    recording: Recording
    notes: tuple[str, ...]

    @property
    def lengths(self) -> FloatArray | None:
        """The seconds of the entries' periods; None where they are not known."""
        return None if self.periods is None else (self.periods[1] - self.periods[0]) / SECOND


def owners(entries: Entries, recording: Recording, name: str) -> IntArray:
    """Return each entry's participant, as a position in the recording's names; -1 = no window."""
    diarists = list(dict.fromkeys(entries.participants))
    nobody = np.zeros(len(entries.participants), dtype=np.intp)
    if diarists == [None]:
        if len(recording.names) > 1:
            raise DiaryError(
                name,
                f"no participant, while the windows are of {len(recording.names)}: "
                f"{name_some(map(repr, recording.names))}",
                "a column 'participant' in the diary",
                "add it, or say which column it is, e.g. --diary-column participant=Patient",
            )
        return nobody
    if recording.names == (None,):
        if len(diarists) > 1:
            raise DiaryError(
                "the windows",
                f"no participant, while the diary is of {len(diarists)}: "
                f"{name_some(map(repr, diarists))}",
                "a column 'participant' in the windows",
                "add it, or say which column it is with --participant",
            )
        return nobody
    _refuse_respelled("participant", diarists, recording.names, name)
    place = {who: k for k, who in enumerate(recording.names)}
    return np.array([place.get(who, -1) for who in entries.participants], dtype=np.intp)


def _refuse_respelled(
    what: str, told: Sequence[str | None], seen: Sequence[str | None], name: str
) -> None:
    """Raise for a name in the diary that windows have as another spelling of the same number."""
    ours, theirs = (
        dict.fromkeys(one for one in names if one is not None) for names in (told, seen)
    )
    alike = respelled(ours.keys() - theirs.keys(), theirs.keys() - ours.keys())
    if alike:
        one, other = next(iter(alike.items()))
        raise DiaryError(
            name,
            f"the {what} {one!r}, which the windows have as {other!r}",
            "names that are written alike in both, because names are text",
            "write both alike",
        )


def common_zone(
    timezone: Any, entries: Entries, recording: Recording
) -> tuple[ZoneInfo | None, list[str]]:
    """Return the zone of clock times, where it is known or must be, and what to say about it."""
    if timezone is not None:
        return zone_named(str(timezone)), []
    if entries.spans is None or recording.starts is None:
        return None, []
    if entries.spans.absolute and not recording.absolute:
        raise DiaryError(
            "the windows",
            "times without a zone, while the diary's have one",
            "times of one kind, or the zone of the windows' clock",
            "name it, e.g. --timezone Europe/London",
        )
    if recording.absolute and not entries.spans.absolute:
        zone = "UTC" if recording.zone not in available_timezones() else str(recording.zone)
        note = (
            "the windows' times have a zone or are seconds since 1970, the diary's have none: days "
            f"and times in it are read as {zone}; --timezone says otherwise"
        )
        return zone_named(zone), [note]
    return None, []


def by_name(
    table: Table, column: str, entries: Entries, recording: Recording, owners: IntArray
) -> Matched:
    """Return each window's entry, by the name of its period."""
    if column not in table.names:
        raise DiaryError(
            "the windows",
            f"no column {column!r}, by which the diary names periods",
            f"a column called so beside {name_some(map(repr, table.names), 12)}",
            "add it, or give the diary's periods as dates or times",
        )
    if np.isnan(recording.length):
        if not np.isnan(entries.seconds).all():
            raise DiaryError(
                "the windows",
                "neither times nor a length, while the diary tells durations",
                "the length of a window, or shares in the diary",
                "say how long windows are, e.g. --window '1 min'",
            )
        recording = replace(recording, length=1.0)
    codes, found = factorize(table[column], "period")
    named = plain_names(found, "period", f"column {column!r}")
    _refuse_respelled("period", entries.names, named, "the diary")
    number = {name: k for k, name in enumerate(dict.fromkeys(entries.names), start=1)}
    period = np.array([*(number.get(one, 0) for one in named), 0])[codes]
    ours = owners * len(number) + [number[name] for name in entries.names]
    asked = np.where(period > 0, recording.codes * len(number) + period, -len(ours))
    order = np.argsort(ours)
    place = order[np.minimum(np.searchsorted(ours, asked, sorter=order), len(ours) - 1)]
    return Matched(np.where(ours[place] == asked, place, -1), None, recording, ())


def by_time(
    entries: Entries,
    recording: Recording,
    owners: IntArray,
    zone: ZoneInfo | None,
    day_start: Any,
    place: Callable[[int], str],
) -> Matched:
    """Return each window's entry, by where its middle falls; `place` says where an entry stands."""
    if recording.starts is None or recording.ends is None:
        raise DiaryError(
            "the windows",
            "no column of times",
            "a column 'start' (or 'time', 'timestamp')",
            "add it, or say which column it is with --start",
        )
    assert entries.spans is not None, "named periods are matched by their names"
    first, last = entries.spans.in_zone(zone, _day_begin(day_start), place)
    _refuse_overlaps(first, last, entries, place)
    middle = recording.starts + (recording.ends - recording.starts) // 2
    codes = _holding(first, last, owners, middle, recording.codes)
    odd = np.flatnonzero(entries.spans.in_days & ((last - first) % DAY != 0)).tolist()
    changed = [f"{entries.names[k]} ({(last[k] - first[k]) / SECOND / 3600:g} h)" for k in odd]
    notes = (f"clocks were changed on {name_some(dict.fromkeys(changed))}",) if changed else ()
    return Matched(codes, (first, last), recording, notes)


def _holding(
    first: IntArray, last: IntArray, owners: IntArray, moments: IntArray, whose: IntArray
) -> IntArray:
    """Return which interval of its owner holds each moment; -1 where none does.

    Starts and moments are sorted together: a moment may lie in the interval that began last.
    """
    n = len(first)
    who, when = np.concatenate([owners, whose]), np.concatenate([first, moments])
    order = np.lexsort([np.arange(len(who)) >= n, when, who])
    began = np.maximum.accumulate(np.where(order < n, np.arange(len(order)), -1))
    latest = np.empty(len(order), dtype=np.intp)
    latest[order] = np.where(began < 0, -1, order[began])
    entry = latest[n:]
    inside = (owners[entry] == whose) & (moments < last[entry])
    return np.where(inside, entry, -1)


def _refuse_overlaps(
    first: IntArray, last: IntArray, entries: Entries, place: Callable[[int], str]
) -> None:
    people = factorize(["" if who is None else who for who in entries.participants], "name")[0]
    order = np.lexsort((first, people))
    same = people[order][1:] == people[order][:-1]
    overlap = np.flatnonzero(same & (first[order][1:] < last[order][:-1]))
    if overlap.size:
        one, other = sorted(order[overlap[0] : overlap[0] + 2].tolist())
        raise DiaryError(
            f"{place(one)} and {entries.places[other]}",
            f"periods that overlap, {entries.title(one)} and {entries.title(other)}",
            "periods of a participant that follow each other",
            "correct the times, or drop one of the two",
        )


def _day_begin(said: Any) -> int:
    begin = clock_time(said)
    if begin is None or begin >= DAY:
        raise DiaryError(
            "the start of the day", repr(said), "a clock time such as '04:00'", "correct it"
        )
    return begin
