"""Windows matched with a diary: a bag for every window, totals for every bag."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from apportion._io.sheet import sheet_of
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.exceptions import DiaryError, counted, hint, name_some
from apportion.supervision.diary.column_roles import (
    DIARY_ROLES,
    ColumnTable,
    find_roles,
    located_rows,
)
from apportion.supervision.diary.diary_rules import DiaryRules
from apportion.supervision.diary.entries import Entries, read_entries, refuse_contradictions
from apportion.supervision.diary.entry_of_window import (
    common_zone,
    day_begin,
    entries_by_name,
    entries_by_time,
    owners_of,
)
from apportion.supervision.diary.entry_totals import EntryRemark, entry_totals
from apportion.supervision.diary.recording import Recording, read_recording
from apportion.supervision.diary.time_zones import DAY, SECOND, shown_at, shown_by
from apportion.supervision.totals import Totals


@dataclass(frozen=True)
class DiaryBags:
    """Windows matched with a diary: what `fit(X, bags=, proportions=)` takes.

    Attributes
    ----------
    bags : ndarray of shape (n_samples,)
        The id of each window's bag, participant and period; None = in no bag.
    totals : Totals
        Bounds on the shares of the classes in each bag, and in `most_episodes` how often each class
        happened, where the diary says it. It is the most, because a period may be recorded in part
        (`recorded_hours` below `hours`).
    left_out : ndarray of bool, of shape (n_samples,)
        Windows that are not to be labeled, because the sensor was not worn.
    participants : ndarray of shape (n_samples,), or None
        Whose window it is.
    starts, ends : ndarray of shape (n_samples,), or None
        What clocks showed when windows began, in microseconds since 1970 or since the moment from
        which seconds count, and the same plus their length; None where there is no column of times.
    ahead : ndarray of shape (n_samples,), or None
        How far these clocks were ahead of UTC when windows began, in microseconds; 0 where times
        are seconds, and None where no zone is known.
    zone : str or None
        The zone of these clocks, where it is known.
    hours, recorded_hours : dict of str to float
        The length of each bag's period, and of the recorded part of it.
    columns : dict of str to str
        Which columns of the windows are the `participant`, `start`, `end`, `nonwear`, `period`.
    never : tuple of str
        Activities of the diary that take no time in any bag; they are not classes.
    rules : tuple of str
        The rules that were used, in words, one text per rule.
    notes : tuple of str
        What was found and decided, in sentences.
    remarks : tuple of EntryRemark
        The entries that do not fit, and how to fix each.
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
    remarks: tuple[EntryRemark, ...] = ()

    @property
    def episodes(self) -> FloatArray:
        """How often each class happened in each bag; NaN where the diary does not say."""
        most = self.totals.most_episodes
        return np.full(self.totals.lower.shape, np.nan) if most is None else most


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
    """Return a bag for every window, and the bags' totals according to a diary.

    Bags are participant × period. A window belongs to the period that its middle falls into;
    windows of a period without an entry are in no bag.

    Parameters
    ----------
    windows : dataframe or mapping of columns
        One row per window: when it starts, when it ends or how long all are, and whose it is.
    diary : dataframe, sequence of mappings, or path of a CSV or Parquet file
        Periods (`date`, or `start` and `end`, or `period`, a name that windows have in a column
        called so too), `participant` where there are several, and durations or shares of the
        activities: one column per activity (wide), or one line per activity with columns `activity`
        and `duration` (long). In long lines with `start` and `end` and no duration, the activity
        filled that time. How often an activity happened may be given as "3 × 10 min", in a column
        such as `toilet_times` or, in the long form, in a column `times`.
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
        `activity`, `duration`, `episodes` (how often) or `note`, where it has another name. Notes
        are not used, and there may be a list of them.
    date_format, time_format : str, optional
        How dates and times are written, for `datetime.strptime`; by default ISO 8601.
    place : callable, optional
        Returns where a row of `windows` stands, for error messages.

    Returns
    -------
    DiaryBags
        The bag of every window and the totals of every bag, with notes on what was done.

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
    roles = find_roles(sheet.columns, DIARY_ROLES, diary_columns or {}, sheet.name)
    with located_rows(sheet.place):
        entries = read_entries(
            sheet, roles, unit=rules.unit, date_format=date_format, time_format=time_format
        )
    refuse_contradictions(entries, rules)
    table = ColumnTable(windows)
    columns = {"participant": participant, "start": start, "end": end, "nonwear": nonwear}
    with located_rows(place):
        recording = read_recording(table, columns, length=window, time_format=time_format)
        owners = owners_of(entries, recording)
        zone, zone_notes = common_zone(timezone, entries, recording)
        recording = recording.in_zone(zone)
    notes = [*_read_as(entries), *recording.notes, *zone_notes]
    period = roles.column.get("period")
    if period in table.names:
        recording = replace(recording, columns={**recording.columns, "period": str(period)})
    if entries.spans is None:
        spans = None
        codes = entries_by_name(table, str(period), entries, recording, owners)
        if np.isnan(recording.length):
            recording = replace(recording, length=1.0)
    else:
        with located_rows(entries.place):
            spans = entries.spans.in_zone(zone, day_begin(day_start))
        codes = entries_by_time(entries, recording, owners, spans)
        notes += _changed_days(entries, *spans)
    return _matched_bags(entries, recording, codes, spans, rules, zone, notes)


def _matched_bags(
    entries: Entries,
    recording: Recording,
    codes: IntArray,
    spans: tuple[IntArray, IntArray] | None,
    rules: DiaryRules,
    zone: ZoneInfo | None,
    notes: list[str],
) -> DiaryBags:
    """Return the bags of windows whose entries, and when these begin and end, are known."""
    n_entries = len(entries.names)
    worn = np.where(recording.not_worn, -1, codes)
    has_windows = np.bincount(worn[worn >= 0], minlength=n_entries) > 0
    if not has_windows.any():
        raise _nothing_fits(entries, recording, codes)
    recorded = recording.covered(worn, n_entries, spans)
    period = recorded if spans is None else (spans[1] - spans[0]) / SECOND

    used = np.flatnonzero(has_windows)
    several = max(len(set(entries.participants)), len(recording.names)) > 1
    result = entry_totals(
        entries.take(used), period[used], recorded[used], recording.length, rules, several=several
    )
    kept = used[result.kept]
    bag_of = np.full(n_entries + 1, -1)
    bag_of[kept] = np.arange(len(kept))
    bags = bag_of[worn]
    starts, ends, ahead = _shown_times(recording, zone)
    return DiaryBags(
        bags=np.array([*result.ids, None], dtype=object)[bags],
        totals=result.totals,
        left_out=recording.not_worn,
        participants=recording.participants,
        starts=starts,
        ends=ends,
        ahead=ahead,
        zone=recording.zone and "UTC" if zone is None else zone.key,
        hours=dict(zip(result.ids, (period[kept] / 3600.0).tolist(), strict=True)),
        recorded_hours=dict(zip(result.ids, (recorded[kept] / 3600.0).tolist(), strict=True)),
        columns=recording.columns,
        never=result.never,
        rules=tuple(rules.describe(covers=result.finding)),
        notes=(*notes, *result.notes, *_unmatched(bags, has_windows, entries, recording)),
        remarks=(*result.remarks, *_without_windows(entries, has_windows)),
    )


def _shown_times(
    recording: Recording, zone: ZoneInfo | None
) -> tuple[IntArray | None, IntArray | None, IntArray | None]:
    """Return `starts`, `ends` and `ahead` as clocks showed them."""
    starts, ends = recording.starts, recording.ends
    if starts is None or ends is None:
        return None, None, None
    if zone is None:
        return starts, ends, np.zeros_like(starts) if recording.absolute else None
    shown = shown_by(starts, zone)
    return shown, shown + (ends - starts), shown - starts


def _read_as(entries: Entries) -> list[str]:
    """Return how a diary was read, in sentences."""
    n_people = len({who for who in entries.participants if who is not None})
    whose = f" of {n_people} participants" if n_people > 1 else ""
    text = (
        f"{entries.source}: {counted(len(entries.names), 'entry')}{whose}, {entries.form} form, "
        f"{counted(len(entries.classes), 'activity')}: {name_some(entries.classes, 12)}"
    )
    if entries.bare_unit is not None:
        unit = {"share": "shares", "percent": "percentages"}.get(entries.bare_unit)
        text += f"; numbers without a unit are read as {unit or entries.bare_unit}"
    notes = [text]
    said = np.flatnonzero(np.isfinite(entries.episodes).any(axis=0)).tolist()
    if said:
        names = name_some((entries.classes[h] for h in said), 12)
        columns = name_some(map(repr, entries.counting), 12)
        where = f" (in {columns}, beside total durations)" if columns else ""
        notes.append(
            f"{entries.source} also says how often, for {counted(len(said), 'activity')}: "
            f"{names}{where}"
        )
    if entries.unused:
        unused = name_some(entries.unused, 12)
        notes.append(f"columns of {entries.source} that are not used: {unused}")
    return notes


def _changed_days(entries: Entries, first: IntArray, last: IntArray) -> list[str]:
    """Return which days have more or less than 24 hours, in a sentence."""
    in_days = entries.spans is not None and entries.spans.in_days
    changed = np.flatnonzero(in_days & ((last - first) % DAY != 0)).tolist()
    days = [f"{entries.names[k]} ({(last[k] - first[k]) / SECOND / 3600:g} h)" for k in changed]
    return [f"clocks were changed on {name_some(dict.fromkeys(days))}"] if days else []


def _unmatched(
    bags: IntArray, has_windows: BoolArray, entries: Entries, recording: Recording
) -> list[str]:
    """Return which participants, entries and windows match nothing, in sentences."""
    notes = []
    diarists, wearers = set(entries.participants) - {None}, set(recording.names) - {None}
    strangers = [
        f"participants of {table} {name_some(sorted(map(repr, names)), 3)} have no {missing}"
        for table, names, missing in (
            ("the diary", diarists - wearers, "window"),
            ("the windows", wearers - diarists, "entry"),
        )
        if names
    ]
    if strangers and diarists and wearers:
        notes.append(f"{'; '.join(strangers)}: are their names written alike?")
    alone = [entries.title(k) for k in np.flatnonzero(~has_windows).tolist()]
    if alone:
        notes.append(
            f"entries that have no window are not used ({len(alone)} of {len(has_windows)}): "
            f"{name_some(alone, 3)}"
        )
    n_loose = int(np.sum((bags < 0) & ~recording.not_worn))
    if n_loose:
        notes.append(
            f"{n_loose:,} of {recording.n_samples:,} windows belong to no entry that is used: "
            "similar windows alone decide their labels"
        )
    return notes


def _without_windows(entries: Entries, has_windows: BoolArray) -> list[EntryRemark]:
    """Return the entries that no window falls into, and how to fix each."""
    problem = "no window falls into it, and it is not used"
    fix = "check its date, and how the participant is written in both files"
    return [
        EntryRemark(entries.title(k), entries.place(k), problem, fix)
        for k in np.flatnonzero(~has_windows).tolist()
    ]


def _nothing_fits(entries: Entries, recording: Recording, codes: IntArray) -> DiaryError:
    if (codes >= 0).any():
        found = "none that lies in an entry and in which the sensor was worn"
        advice = hint("check the marks of non-wear, or name another column ({nonwear})")
        return DiaryError("the windows", found, "at least one", advice)
    whose = when = ""
    if recording.names != (None,):
        whose = f" of the participants {name_some(map(repr, recording.names), 3)}"
    if recording.starts is not None and recording.ends is not None:
        utc = " UTC" if recording.absolute else ""
        first, last = shown_at(int(recording.starts.min())), shown_at(int(recording.ends.max()))
        when = f", which last from {first} to {last}{utc}"
    return DiaryError(
        entries.source,
        f"no entry that any window falls into; its first is {entries.title(0)!r}",
        f"entries for the windows{whose}{when}",
        "check dates, time zone and the names of participants and periods",
    )
