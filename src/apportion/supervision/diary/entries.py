"""The entries of a diary: periods, and the amount of every activity in each."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from apportion._io.sheet import Sheet
from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.exceptions import DiaryError, counted, hint, name_some
from apportion.supervision.diary.column_roles import Roles, bad_cell
from apportion.supervision.diary.diary_rules import DiaryRules
from apportion.supervision.diary.durations import UNITS, Amount, read_amount, unit_in_name
from apportion.supervision.diary.episode_counts import agreed_count, counting_columns, times_in
from apportion.supervision.diary.periods import Spans, names_in, read_periods
from apportion.supervision.totals import unit_of_sums


@dataclass(frozen=True)
class Entries:
    """What a diary reports, one entry per participant and period.

    Attributes
    ----------
    source : str
        The name of the diary, for messages.
    form : {"wide", "long"}
        The form of the table.
    participants : tuple of str or None
        Whose period it is; None where the diary names nobody.
    names : tuple of str
        The names of the periods, as in bag ids.
    spans : Spans or None
        When they are; None where there are only names, which windows have too.
    places : tuple of str
        Where each entry stands in the table.
    classes : tuple of str
        The activities.
    seconds, shares : ndarray of shape (n_periods, n_classes)
        Amounts in units of time, and as shares of the period; NaN = not given in this form.
    episodes : ndarray of shape (n_periods, n_classes)
        How often each activity happened; NaN = not given.
    bare_unit : str or None
        What numbers without a unit were read as; None where there are none.
    unused : tuple of str
        Columns that are notes, or that repeat when or how long.
    counting : tuple of str
        Columns that say how often.
    """

    source: str
    form: Literal["wide", "long"]
    participants: tuple[str | None, ...]
    names: tuple[str, ...]
    spans: Spans | None
    places: tuple[str, ...]
    classes: tuple[str, ...]
    seconds: FloatArray
    shares: FloatArray
    episodes: FloatArray
    bare_unit: str | None
    unused: tuple[str, ...]
    counting: tuple[str, ...] = ()

    @property
    def blank(self) -> BoolArray:
        """Which cells are empty."""
        return np.isnan(self.seconds) & np.isnan(self.shares)

    def title(self, k: int) -> str:
        """Return what an entry is called: its participant, where there is one, and period."""
        who = self.participants[k]
        return self.names[k] if who is None else f"{who} {self.names[k]}"

    def place(self, k: int) -> str:
        """Return where an entry stands, as in "diary.csv, line 5"."""
        return f"{self.source}, {self.places[k]}"

    def take(self, chosen: IntArray) -> Entries:
        """Return some of the entries."""
        rows = chosen.tolist()
        return replace(
            self,
            participants=tuple(self.participants[k] for k in rows),
            names=tuple(self.names[k] for k in rows),
            spans=self.spans and self.spans.take(chosen),
            places=tuple(self.places[k] for k in rows),
            seconds=self.seconds[chosen],
            shares=self.shares[chosen],
            episodes=self.episodes[chosen],
        )


_Amounts = dict[tuple[int, int], Amount | None]
"""The amounts of a table, by line and class."""


class _Reported(NamedTuple):
    """The activities of a table, their amounts and how often they happened, and from where."""

    classes: list[str]
    amounts: _Amounts
    times: dict[tuple[int, int], int | None]
    counting: tuple[str, ...]


def read_entries(
    sheet: Sheet,
    roles: Roles,
    *,
    unit: str = "auto",
    date_format: str | None = None,
    time_format: str | None = None,
) -> Entries:
    """Return the entries of a diary's table; errors about a line carry its number as the row."""
    periods = read_periods(sheet, roles, date_format, time_format)
    participants: Sequence[str | None] = [None] * len(sheet.rows)
    if "participant" in roles.column:
        participants = names_in(sheet, roles.column["participant"], "participant")
    keys = list(zip(participants, periods.names, strict=True))
    used = {"participant", *periods.roles}
    activity, duration, often = (
        roles.column.get(role) for role in ("activity", "duration", "episodes")
    )
    if activity is None:
        _refuse_repeated(keys, sheet)
        reported = _wide_amounts(sheet, roles)
    else:
        activities = names_in(sheet, activity, "activity")
        used |= {"activity", "duration", "episodes"} if duration else {"activity"}
        if duration is None and "start" not in periods.roles:
            found = f"activities in {activity!r} without durations"
            allowed = "a column 'duration', 'hours' or 'share', or 'start' and 'end' of each one"
            advice = (
                "add one, or say which column it is, e.g. {diary_column:duration=Dauer}; if "
                "{column!r} is itself an activity, rename it"
            )
            raise DiaryError(sheet.name, found, allowed, hint(advice, column=activity))
        with_activity = [(*key, name) for key, name in zip(keys, activities, strict=True)]
        _refuse_repeated(with_activity if duration else keys, sheet)
        reported = _long_amounts(sheet, activities, duration, often)
    lines: dict[tuple[str | None, str], list[int]] = {}
    for i, key in enumerate(keys):
        lines.setdefault(key, []).append(i)
    number = {key: k for k, key in enumerate(lines)}
    shape = len(lines), len(reported.classes)
    seconds, shares, bare_unit = _in_units(
        {(number[keys[i]], h): amount for (i, h), amount in reported.amounts.items()}, shape, unit
    )
    episodes = np.full(shape, np.nan)
    for (i, h), n_times in reported.times.items():
        if n_times is not None:
            episodes[number[keys[i]], h] = n_times
    return Entries(
        source=sheet.name,
        form="wide" if activity is None else "long",
        participants=tuple(who for who, _ in lines),
        names=tuple(name for _, name in lines),
        spans=periods.spans and periods.spans.take(np.array([i[0] for i in lines.values()])),
        places=tuple(_places(sheet, group) for group in lines.values()),
        classes=tuple(reported.classes),
        seconds=seconds,
        shares=shares,
        episodes=episodes,
        bare_unit=bare_unit,
        unused=(*(c for role, c in roles.column.items() if role not in used), *roles.notes),
        counting=reported.counting,
    )


def _wide_amounts(sheet: Sheet, roles: Roles) -> _Reported:
    """Return the activities, one per column, with their amounts and how often they happened."""
    in_roles = {*roles.column.values(), *roles.notes}
    columns = [name for name in sheet.columns if name not in in_roles]
    if not columns:
        raise DiaryError(
            sheet.name,
            f"no column of an activity; its columns are {name_some(map(repr, sheet.columns))}",
            "one column per activity, or columns 'activity' and 'duration'",
            "add them, or rename a column that is an activity",
        )
    counting = counting_columns(columns, sheet.name)
    columns = [name for name in columns if name not in counting]
    classes = [unit_in_name(name)[0] for name in columns]
    _refuse_similar(classes, [f"column {name!r}" for name in columns], sheet.name)
    advice = (
        "correct the cell; if {column!r} is not an activity, leave it out with "
        "{diary_column:note={column}}; if it holds the names of activities, use "
        "{diary_column:activity={column}}"
    )
    amounts: _Amounts = {}
    times: dict[tuple[int, int], int | None] = {}
    for h, column in enumerate(columns):
        unit, fix = unit_in_name(column)[1], hint(advice, column=column)
        for i, cell in enumerate(sheet.amounts(column)):
            amounts[i, h], times[i, h] = _amount(cell, unit, i, column, fix)
    for often, column in counting.items():
        h = columns.index(column)
        for i, cell in enumerate(sheet.amounts(often)):
            times[i, h] = agreed_count(cell, times[i, h], i, often, classes[h])
    return _Reported(classes, amounts, times, tuple(counting))


def _long_amounts(
    sheet: Sheet, activities: list[str], duration: str | None, often: str | None
) -> _Reported:
    """Return the activities, one per line, and their amounts; without a duration they fill it."""
    first_line = {name: i for i, name in reversed(list(enumerate(activities)))}
    classes = list(dict.fromkeys(activities))
    position = {name: h for h, name in enumerate(classes)}
    _refuse_similar(classes, [sheet.places[first_line[name]] for name in classes], sheet.name)
    cells = [(i, position[name]) for i, name in enumerate(activities)]
    if duration is None:
        return _Reported(classes, dict.fromkeys(cells, Amount("share", 1.0)), {}, ())
    plain, unit = unit_in_name(duration)
    unit = unit or (plain.casefold() if plain.casefold() in UNITS else None)
    amounts: _Amounts = {}
    times: dict[tuple[int, int], int | None] = {}
    for cell, text in zip(cells, sheet.amounts(duration), strict=True):
        amounts[cell], times[cell] = _amount(text, unit, cell[0], duration, "correct the cell")
    if often is None:
        return _Reported(classes, amounts, times, ())
    for (i, h), text in zip(cells, sheet.amounts(often), strict=True):
        times[i, h] = agreed_count(text, times[i, h], i, often, classes[h])
    return _Reported(classes, amounts, times, (often,))


def _amount(
    cell: Any, unit: str | None, row: int, column: str, advice: str
) -> tuple[Amount | None, int | None]:
    """Return the amount in a cell, and how often; the name of its column may have the unit."""
    n_times, each = times_in(cell)
    try:
        amount = read_amount(each)
    except ValueError:
        allowed = (
            "durations of 0 and more such as 8.5, '8h30', '08:30', '90 min' or '3 × 10 min', "
            "percentages such as '35%', or an empty cell"
        )
        raise bad_cell(row, column, repr(cell), allowed, advice) from None
    if amount is None:
        return None, None
    kind, value = amount.kind, amount.value * (1 if n_times is None else n_times)
    if kind == "bare" and unit is not None:
        kind, value = "share" if _is_share(unit) else "seconds", value * UNITS[unit]
    return Amount(kind, value), n_times


def _in_units(
    amounts: _Amounts, shape: tuple[int, int], unit: str
) -> tuple[FloatArray, FloatArray, str | None]:
    """Return amounts in seconds, amounts as shares, and the unit of bare numbers."""
    tables = {kind: np.full(shape, np.nan) for kind in ("seconds", "share", "bare")}
    for cell, amount in amounts.items():
        if amount is not None:
            tables[amount.kind][cell] = amount.value
    seconds, shares, bare = tables.values()
    is_bare = ~np.isnan(bare)
    if not is_bare.any():
        return seconds, shares, None
    if unit == "auto":
        with_unit = ~np.isnan(seconds) | ~np.isnan(shares)
        only_bare = is_bare.any(axis=1) & ~with_unit.any(axis=1)
        unit = unit_of_sums(np.nansum(bare[only_bare], axis=1)) or "hours"
    table = shares if _is_share(unit) else seconds
    table[is_bare] = bare[is_bare] * UNITS[unit]
    return seconds, shares, unit


def _is_share(unit: str) -> bool:
    return unit in ("share", "percent")


def refuse_contradictions(entries: Entries, rules: DiaryRules) -> None:
    """Raise for an activity that happened and took no time, or took time and never happened."""
    amount = np.where(np.isnan(entries.seconds), entries.shares, entries.seconds)
    blank, never = entries.blank, entries.episodes == 0
    took_none = (amount == 0) | (blank & (rules.blank == "zero"))
    wrong = (never & (amount > 0)) | ((entries.episodes > 0) & took_none)
    if not wrong.any():
        return
    k, h = (int(index[0]) for index in np.nonzero(wrong))
    name, n_times = entries.classes[h], int(entries.episodes[k, h])
    took, advice = "a duration of 0", "correct the number or the duration"
    if never[k, h]:
        took = "a duration above 0"
    elif blank[k, h]:
        took = "no duration"
        advice = hint("fill in the duration; if empty cells are not known, use {blank:unknown}")
    raise DiaryError(
        f"entry {entries.title(k)!r}",
        f"{counted(n_times, 'episode')} of {name!r} and {took}",
        "a number and a duration that are both 0, or both above 0",
        advice,
        row=k,
        place=entries.place(k),
    )


def _refuse_similar(names: Sequence[str], places: Sequence[str], where: str) -> None:
    """Raise for activities whose names differ in nothing but capitals."""
    first: dict[str, int] = {}
    for h, name in enumerate(names):
        g = first.setdefault(name.casefold(), h)
        if g != h:
            found = f"activities that differ only in capitals, {names[g]!r} and {name!r}"
            found = f"the activity {name!r} twice" if name == names[g] else found
            where = f"{where}, {places[g]} and {places[h]}"
            raise DiaryError(where, found, "one name per activity", "rename or join them")


def _refuse_repeated(keys: Sequence[tuple[Hashable, ...]], sheet: Sheet) -> None:
    """Raise for two lines of one participant and period, and of one activity where it is given."""
    first: dict[tuple[Hashable, ...], int] = {}
    for i, key in enumerate(keys):
        j = first.setdefault(key, i)
        if j != i:
            who, name, *activity = key
            title = " of ".join(map(repr, [*activity, name]))
            title += "" if who is None else f" of participant {who!r}"
            where = f"{sheet.name}, {sheet.places[j]} and {sheet.places[i]}"
            advice = "drop one of the two lines, or join them into one"
            raise DiaryError(where, f"two entries for {title}", "one entry for each", advice)


def _places(sheet: Sheet, group: list[int]) -> str:
    if len(group) == 1:
        return sheet.places[group[0]]
    word = sheet.places[group[0]].partition(" ")[0]
    return f"{word}s {name_some(sheet.places[i].rpartition(' ')[2] for i in group)}"
