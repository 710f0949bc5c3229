"""Windows matched with a diary: a bag for every window, totals for every bag."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from apportion._io.sheet import sheet_of
from apportion._utils.typing import AnyArray, BoolArray, IntArray
from apportion.exceptions import DiaryError, counted, name_some
from apportion.supervision.diary.assign import Matched, by_name, by_time, common_zone, owners
from apportion.supervision.diary.clock import shown_at, shown_by
from apportion.supervision.diary.columns import find_roles
from apportion.supervision.diary.entries import Entries, read_entries
from apportion.supervision.diary.fit import fit_entries
from apportion.supervision.diary.recording import Recording, read_recording
from apportion.supervision.diary.rules import DiaryRules
from apportion.supervision.diary.table import Table
from apportion.supervision.totals import Totals


@dataclass(frozen=True)
class DiaryBags:
    """Windows matched with a diary: what `fit(X, bags=, proportions=)` takes.

    Attributes
    ----------
    bags : ndarray of shape (n_samples,)
        The id of each window's bag, participant and period; None = in no bag.
    totals : Totals
        Within which shares the classes lie in each bag.
    left_out : ndarray of bool, of shape (n_samples,)
        Windows that are not to be labeled: the sensor was not worn.
    participants : ndarray of shape (n_samples,), or None
        Whose window it is.
    starts, ends : ndarray of shape (n_samples,), or None
        What clocks showed when windows began, in microseconds since 1970 or since the moment that
        seconds count from, and as much more as they lasted; None where no column says so.
    ahead : ndarray of shape (n_samples,), or None
        How far these clocks were ahead of UTC when windows began, in microseconds; 0 where times
        are seconds, and None where no zone is known.
    zone : str or None
        The zone of these clocks, where it is known.
    hours, recorded_hours : dict of str to float
        How long each bag's period was, and how much of it was recorded.
    columns : dict of str to str
        Which columns of the windows are the `participant`, `start`, `end`, `nonwear`, `period`.
    never : tuple of str
        Activities of the diary that take no time in any bag; they are no classes.
    rules : tuple of str
        The rules that were used, in words, one for each option.
    notes : tuple of str
        What was found and decided, in sentences.
    """

    bags: AnyArray
    totals: Totals
    left_out: BoolArray
    participants: AnyArray | None
    starts: IntArray | None
    ends: IntArray | None
    ahead: IntArray | None
    zone: str | None
    hours: dict[str, float]
    recorded_hours: dict[str, float]
    columns: dict[str, str]
    never: tuple[str, ...]
    rules: tuple[str, ...]
    notes: tuple[str, ...]


def diary_bags(
    windows: Any,
    diary: Any,
    *,
    rules: DiaryRules | None = None,
    participant: str | None = None,
    start: str | None = None,
    end: str | None = None,
    nonwear: str | None = None,
    window: Any = None,
    timezone: str | None = None,
    day_start: str = "00:00",
    diary_columns: Mapping[str, str | Sequence[str]] | None = None,
    date_format: str | None = None,
    time_format: str | None = None,
    place: Callable[[int], str] | None = None,
) -> DiaryBags:
    """Return a bag for every window, and the bags' totals as a diary tells them.

    Bags are participant × period. A window belongs to the period that its middle falls into;
    windows of a period without an entry are in no bag.

    Parameters
    ----------
    windows : dataframe or mapping of columns
        One row a window: when it starts, when it ends or how long all are, and whose it is.
    diary : dataframe, sequence of mappings, or path of a CSV or Parquet file
        Periods (`date`, or `start` and `end`, or `period`, a name that windows have in a column
        called so too), `participant` where there are several, and durations or shares of the
        activities: one column an activity (wide), or a line for each with columns `activity` and
        `duration` (long). Long lines with `start` and `end` and no duration say that the activity
        filled that time.
    rules : DiaryRules, optional
        What to do where the two do not fit together.
    participant, start, end, nonwear : str, optional
        Columns of `windows`; by default the usual names. Windows whose `nonwear` is true are not
        labeled, and their time counts as not recorded.
    window : number of seconds, timedelta or str, optional
        The length of every window, such as "1 min". By default from start to end, or the usual
        distance between starts.
    timezone : str, optional
        The zone of clock times, such as "Europe/London": days have 23 or 25 hours when its clocks
        change. By default clock times are taken as they are, and days have 24 hours.
    day_start : str, default="00:00"
        When a diary's day begins.
    diary_columns : mapping of str to str, optional
        Which of the diary's columns is the `participant`, `date`, `start`, `end`, `period`,
        `activity`, `duration` or `note`, where it has another name. Of notes, which are not used,
        there may be a list.
    date_format, time_format : str, optional
        How dates and times are written, for `datetime.strptime`; by default ISO 8601.
    place : callable, optional
        Says where a row of `windows` stands, for messages.

    Returns
    -------
    DiaryBags

    Examples
    --------
    >>> import numpy as np
    >>> hours = np.arange("2024-03-04T00", "2024-03-05T00", dtype="M8[h]")
    >>> diary = [{"date": "2024-03-04", "sleep": "8h", "tv": "2h30"}]
    >>> matched = diary_bags({"start": hours}, diary)
    >>> matched.bags[0], matched.totals.classes.tolist()
    ('2024-03-04', ['sleep', 'tv', 'unknown'])
    >>> (24 * matched.totals.lower).round(3)
    array([[ 8. ,  2.5, 13.5]])
    """
    rules = DiaryRules() if rules is None else rules
    place = place or (lambda row: f"row {row} of the windows")
    sheet = sheet_of(diary, "the diary")
    roles = find_roles(sheet, diary_columns)
    entries = read_entries(
        sheet, roles, unit=rules.unit, date_format=date_format, time_format=time_format
    )
    table = Table(windows)
    columns = {"participant": participant, "start": start, "end": end, "nonwear": nonwear}
    recording = read_recording(table, columns, length=window, time_format=time_format, place=place)
    period = roles.column.get("period")
    if period in table.names:
        recording = replace(recording, columns={**recording.columns, "period": str(period)})
    whose = owners(entries, recording, sheet.name)
    zone, zone_notes = common_zone(timezone, entries, recording)
    recording = recording.in_zone(zone, place)
    if entries.spans is None:
        matched = by_name(table, roles.column["period"], entries, recording, whose)
    else:
        matched = by_time(
            entries,
            recording,
            whose,
            zone,
            day_start,
            lambda k: f"{sheet.name}, {entries.places[k]}",
        )
    return _bags(entries, matched, rules, sheet.name, zone, zone_notes)


def _bags(
    entries: Entries,
    matched: Matched,
    rules: DiaryRules,
    name: str,
    zone: ZoneInfo | None,
    notes: list[str],
) -> DiaryBags:
    recording, n_entries = matched.recording, len(entries.names)
    worn = np.where(recording.off, -1, matched.codes)
    has_rows = np.bincount(worn[worn >= 0], minlength=n_entries) > 0
    if not has_rows.any():
        raise _nothing_fits(name, entries, matched)
    recorded = recording.covered(worn, n_entries, matched.periods)
    period = recorded if matched.lengths is None else matched.lengths

    used = np.flatnonzero(has_rows)
    fitted = fit_entries(
        entries.take(used),
        period[used],
        recorded[used],
        recording.length,
        rules,
        name,
        several=max(len(set(entries.participants)), len(recording.names)) > 1,
    )
    kept = used[fitted.kept]
    bag_of = np.full(n_entries + 1, -1)
    bag_of[kept] = np.arange(len(kept))
    bags = bag_of[worn]
    starts, ends, ahead = _shown(recording, zone)
    zone_name = recording.zone and "UTC" if zone is None else zone.key
    return DiaryBags(
        bags=np.array([*fitted.ids, None], dtype=object)[bags],
        totals=fitted.totals,
        left_out=recording.off,
        participants=recording.participants,
        starts=starts,
        ends=ends,
        ahead=ahead,
        zone=zone_name,
        hours=dict(zip(fitted.ids, (period[kept] / 3600.0).tolist(), strict=True)),
        recorded_hours=dict(zip(fitted.ids, (recorded[kept] / 3600.0).tolist(), strict=True)),
        columns=recording.columns,
        never=fitted.never,
        rules=tuple(rules.describe(covers=fitted.covers)),
        notes=(
            *_read_as(name, entries),
            *recording.notes,
            *notes,
            *matched.notes,
            *fitted.notes,
            *_left_over(bags, has_rows, entries, recording),
        ),
    )


def _shown(
    recording: Recording, zone: ZoneInfo | None
) -> tuple[IntArray | None, IntArray | None, IntArray | None]:
    """Return what clocks showed when windows began, as much more as they lasted, and `ahead`."""
    starts, ends = recording.starts, recording.ends
    if starts is None or ends is None:
        return None, None, None
    if zone is None:
        return starts, ends, np.zeros_like(starts) if recording.absolute else None
    shown = shown_by(starts, zone)
    return shown, shown + (ends - starts), shown - starts


def _read_as(name: str, entries: Entries) -> list[str]:
    """Return what a diary was read as, in sentences."""
    n_people = len({who for who in entries.participants if who is not None})
    whose = f" of {n_people} participants" if n_people > 1 else ""
    text = (
        f"{name}: {counted(len(entries.names), 'entry')}{whose}, {entries.form} form, "
        f"{counted(len(entries.classes), 'activity')}: "
        f"{name_some(entries.classes, 12)}"
    )
    if entries.bare_unit is not None:
        unit = {"share": "shares", "percent": "percentages"}.get(entries.bare_unit)
        text += f"; numbers without a unit are read as {unit or entries.bare_unit}"
    if not entries.unused:
        return [text]
    return [text, f"columns of {name} that are not used: {name_some(entries.unused, 12)}"]


def _left_over(
    bags: IntArray, has_rows: BoolArray, entries: Entries, recording: Recording
) -> list[str]:
    """Return what matches nothing, in sentences."""
    notes = _strangers(entries, recording)
    alone = [entries.title(k) for k in np.flatnonzero(~has_rows).tolist()]
    if alone:
        notes.append(
            f"entries that have no window are not used ({len(alone)} of {len(has_rows)}): "
            f"{name_some(alone, 3)}"
        )
    n_loose = int(np.sum((bags < 0) & ~recording.off))
    if n_loose:
        notes.append(
            f"{n_loose:,} of {recording.n_samples:,} windows belong to no entry that is used: "
            "similar windows alone decide their labels"
        )
    return notes


def _strangers(entries: Entries, recording: Recording) -> list[str]:
    """Return which participants only one of the two knows, in a sentence."""
    told, seen = set(entries.participants) - {None}, set(recording.names) - {None}
    if not told or not seen:
        return []
    only_told, only_seen = sorted(map(repr, told - seen)), sorted(map(repr, seen - told))
    words = [
        f"{who} {name_some(names, 3)} {what}"
        for who, names, what in (
            ("participants of the diary", only_told, "have no window"),
            ("participants of the windows", only_seen, "have no entry"),
        )
        if names
    ]
    return [f"{'; '.join(words)}: are their names written alike?"] if words else []


def _nothing_fits(name: str, entries: Entries, matched: Matched) -> DiaryError:
    recording = matched.recording
    if (matched.codes >= 0).any():
        return DiaryError(
            "the windows",
            "none in which the sensor was worn and that an entry holds",
            "at least one",
            "check the marks of non-wear, or name another column (--nonwear)",
        )
    whose = when = ""
    if recording.names != (None,):
        whose = f" of the participants {name_some(map(repr, recording.names), 3)}"
    if recording.starts is not None and recording.ends is not None:
        utc = " UTC" if recording.absolute else ""
        first, last = shown_at(int(recording.starts.min())), shown_at(int(recording.ends.max()))
        when = f", which last from {first} to {last}{utc}"
    return DiaryError(
        name,
        f"no entry that any window falls into; its first is {entries.title(0)!r}",
        f"entries for the windows{whose}{when}",
        "check dates, time zone and the names of participants and periods",
    )
