"""Which entry of a diary each window belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np

from apportion._io.identifiers import factorize, plain_names, respelled
from apportion._utils.typing import IntArray
from apportion.exceptions import Advice, DiaryError, hint, name_some
from apportion.supervision.diary.column_roles import ColumnTable
from apportion.supervision.diary.entries import Entries
from apportion.supervision.diary.periods import clock_time
from apportion.supervision.diary.recording import Recording
from apportion.supervision.diary.time_zones import DAY, zone_named


def owners_of(entries: Entries, recording: Recording) -> IntArray:
    """Return each entry's participant, as a position in the recording's names; -1 = no window."""
    diarists = list(dict.fromkeys(entries.participants))
    if diarists == [None] and len(recording.names) > 1:
        names = f"{len(recording.names)}: {name_some(map(repr, recording.names))}"
        raise DiaryError(
            entries.source,
            f"no participant, while the windows are of {names}",
            "a column 'participant' in the diary",
            hint("add it, or say which column it is, e.g. {diary_column:participant=Patient}"),
        )
    if recording.names == (None,) and len(diarists) > 1:
        found = f"no participant, while the diary is of {len(diarists)}: "
        found += name_some(map(repr, diarists))
        advice = hint("add it, or say which column it is with {participant}")
        raise DiaryError("the windows", found, "a column 'participant' in the windows", advice)
    if diarists == [None] or recording.names == (None,):
        return np.zeros(len(entries.participants), dtype=np.intp)
    _refuse_respelled("participant", diarists, recording.names, entries.source)
    position = {who: k for k, who in enumerate(recording.names)}
    return np.array([position.get(who, -1) for who in entries.participants], dtype=np.intp)


def _refuse_respelled(
    role: str, in_diary: Iterable[str | None], in_windows: Iterable[str | None], source: str
) -> None:
    """Raise for a name in the diary that windows have as another spelling of the same number."""
    ours, theirs = (
        dict.fromkeys(one for one in names if one is not None) for names in (in_diary, in_windows)
    )
    alike = respelled(ours.keys() - theirs.keys(), theirs.keys() - ours.keys())
    for spelling, other in alike.items():
        found = f"the {role} {spelling!r}, which the windows have as {other!r}"
        allowed = "names that are written alike in both, because names are text"
        raise DiaryError(source, found, allowed, "write both alike")


def common_zone(
    timezone: Any, entries: Entries, recording: Recording
) -> tuple[ZoneInfo | None, list[str]]:
    """Return the zone of clock times, where it is known or must be assumed, and notes about it."""
    if timezone is not None:
        return zone_named(str(timezone)), []
    if entries.spans is None or recording.starts is None:
        return None, []
    if entries.spans.absolute and not recording.absolute:
        found = "times without a zone, while the diary's have one"
        allowed = "times of one kind, or the zone of the windows' clock"
        advice = hint("name it, e.g. {timezone:Europe/London}")
        raise DiaryError("the windows", found, allowed, advice)
    if entries.spans.absolute or not recording.absolute:
        return None, []
    zone = "UTC" if recording.zone not in available_timezones() else str(recording.zone)
    note = Advice(
        "the windows' times have a zone or are seconds since 1970, the diary's have none: its days "
        f"and times are read as {zone};",
        "another zone can be given with {timezone}",
    )
    return zone_named(zone), [note]


def entries_by_name(
    table: ColumnTable, column: str, entries: Entries, recording: Recording, owners: IntArray
) -> IntArray:
    """Return each window's entry, by the name of its period; -1 where there is none."""
    if column not in table.names:
        found = f"no column {column!r}, by which the diary names periods"
        allowed = f"a column called so beside {name_some(map(repr, table.names), 12)}"
        advice = "add it, or give the diary's periods as dates or times"
        raise DiaryError("the windows", found, allowed, advice)
    if np.isnan(recording.length) and not np.isnan(entries.seconds).all():
        found = "neither times nor a length, while the diary holds durations"
        allowed = "the length of a window, or shares in the diary"
        advice = hint("give the length of windows, e.g. {window:1 min}")
        raise DiaryError("the windows", found, allowed, advice)
    codes, cells = factorize(table[column], "period")
    names = plain_names(cells, "period", f"column {column!r}")
    _refuse_respelled("period", entries.names, names, entries.source)
    entry = {key: k for k, key in enumerate(zip(owners.tolist(), entries.names, strict=True))}
    pairs, pair = np.unique(recording.codes * (len(names) + 1) + codes + 1, return_inverse=True)
    named = [None, *names]
    keys = (divmod(number, len(named)) for number in pairs.tolist())
    return np.array([entry.get((who, named[k]), -1) for who, k in keys], dtype=np.intp)[pair]


def entries_by_time(
    entries: Entries, recording: Recording, owners: IntArray, spans: tuple[IntArray, IntArray]
) -> IntArray:
    """Return the entry in whose span each window's middle falls; -1 where there is none.

    Starts of spans and middles are sorted together: a middle may lie in the span that began last.
    """
    if recording.starts is None or recording.ends is None:
        allowed = "a column 'start' (or 'time', 'timestamp')"
        advice = hint("add it, or say which column it is with {start}")
        raise DiaryError("the windows", "no column of times", allowed, advice)
    first, last = spans
    _refuse_overlaps(first, last, entries)
    middle = recording.starts + (recording.ends - recording.starts) // 2
    n = len(first)
    who, when = np.concatenate([owners, recording.codes]), np.concatenate([first, middle])
    order = np.lexsort([np.arange(len(who)) >= n, when, who])
    began = np.maximum.accumulate(np.where(order < n, np.arange(len(order)), -1))
    latest = np.empty(len(order), dtype=np.intp)
    latest[order] = np.where(began < 0, -1, order[began])
    entry = latest[n:]
    inside = (owners[entry] == recording.codes) & (middle < last[entry])
    return np.where(inside, entry, -1)


def _refuse_overlaps(first: IntArray, last: IntArray, entries: Entries) -> None:
    people = factorize(["" if who is None else who for who in entries.participants], "name")[0]
    order = np.lexsort((first, people))
    same = people[order][1:] == people[order][:-1]
    overlap = np.flatnonzero(same & (first[order][1:] < last[order][:-1]))
    if overlap.size:
        k, other = sorted(order[overlap[0] : overlap[0] + 2].tolist())
        where = f"{entries.place(k)} and {entries.places[other]}"
        found = f"periods that overlap, {entries.title(k)} and {entries.title(other)}"
        allowed = "periods of a participant that follow each other"
        raise DiaryError(where, found, allowed, "correct the times, or drop one of the two")


def day_begin(text: Any) -> int:
    """Return when a diary's day begins, in microseconds after midnight."""
    begin = clock_time(text)
    if begin is None or begin >= DAY:
        allowed = "a clock time such as '04:00'"
        where = "the start of the day"
        raise DiaryError(where, repr(text), allowed, "correct it", parameter="day_start")
    return begin
