"""A diary's table, wide or long, as periods and what each says about every activity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any, Literal, NamedTuple

import numpy as np

from apportion._io.sheet import Sheet
from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.exceptions import DiaryError, name_some
from apportion.supervision.diary.columns import Roles
from apportion.supervision.diary.durations import UNITS, Amount, read_amount, unit_in_name
from apportion.supervision.diary.periods import Spans, name_in, read_periods
from apportion.supervision.totals import SHARES_SUM_WITHIN


@dataclass(frozen=True)
class Entries:
    """What a diary says, one line a period.

    Attributes
    ----------
    form : {"wide", "long"}
        The form of the table.
    participants : tuple of str or None
        Whose period it is; None where the diary names nobody.
    names : tuple of str
        What the periods are called in bag ids.
    spans : Spans or None
        When they are; None where names are all that is known, which windows have too.
    places : tuple of str
        Where each stands in the table.
    classes : tuple of str
        The activities.
    seconds, shares : ndarray of shape (n_periods, n_classes)
        What is said in units of time, and as shares of the period; NaN = not said so.
    bare_unit : str or None
        What numbers without a unit were read as; None where there are none.
    unused : tuple of str
        Columns that are notes, or that say when or how long once more.
    """

    form: Literal["wide", "long"]
    participants: tuple[str | None, ...]
    names: tuple[str, ...]
    spans: Spans | None
    places: tuple[str, ...]
    classes: tuple[str, ...]
    seconds: FloatArray
    shares: FloatArray
    bare_unit: str | None
    unused: tuple[str, ...]

    @property
    def blank(self) -> BoolArray:
        """Which cells are empty."""
        return np.isnan(self.seconds) & np.isnan(self.shares)

    def title(self, k: int) -> str:
        """Return what an entry is called: its participant, where there is one, and period."""
        who = self.participants[k]
        return self.names[k] if who is None else f"{who} {self.names[k]}"

    def take(self, chosen: IntArray) -> Entries:
        """Return some of the periods."""
        rows = chosen.tolist()
        return replace(
            self,
            participants=tuple(self.participants[k] for k in rows),
            names=tuple(self.names[k] for k in rows),
            spans=self.spans and self.spans.take(chosen),
            places=tuple(self.places[k] for k in rows),
            seconds=self.seconds[chosen],
            shares=self.shares[chosen],
        )


def read_entries(
    sheet: Sheet,
    roles: Roles,
    *,
    unit: str = "auto",
    date_format: str | None = None,
    time_format: str | None = None,
) -> Entries:
    """Return what a diary's table says, line by line put together into periods."""
    periods = read_periods(sheet, roles, date_format, time_format)
    lines: _Lines = {}
    for i, key in enumerate(zip(_participants(sheet, roles), periods.names, strict=True)):
        lines.setdefault(key, []).append(i)
    if "activity" in roles.column:
        said = _read_long(sheet, roles, lines, in_spans="start" in periods.roles)
    else:
        said = _read_wide(sheet, roles, lines)
    seconds, shares, bare_unit = _in_units(said, len(lines), unit)
    first = np.array([group[0] for group in lines.values()])
    used = {"participant", *periods.roles, *said.roles}
    return Entries(
        form=said.form,
        participants=tuple(who for who, _ in lines),
        names=tuple(name for _, name in lines),
        spans=periods.spans and periods.spans.take(first),
        places=tuple(_places(sheet, group) for group in lines.values()),
        classes=said.classes,
        seconds=seconds,
        shares=shares,
        bare_unit=bare_unit,
        unused=(*(c for role, c in roles.column.items() if role not in used), *roles.notes),
    )


_Key = tuple[str | None, str]
_Lines = dict[_Key, list[int]]
"""The lines of each participant and period."""


class _Said(NamedTuple):
    """The amounts of some periods and classes, and which roles of columns say them."""

    form: Literal["wide", "long"]
    classes: tuple[str, ...]
    amounts: dict[tuple[int, int], Amount]
    roles: tuple[str, ...]


def _read_wide(sheet: Sheet, roles: Roles, lines: _Lines) -> _Said:
    columns = [name for name in sheet.columns if name not in roles.columns]
    if not columns:
        raise DiaryError(
            sheet.name,
            f"no column of an activity; its columns are {name_some(map(repr, sheet.columns))}",
            "one column an activity, or columns 'activity' and 'duration'",
            "add them, or rename a column that is an activity",
        )
    named = [unit_in_name(name) for name in columns]
    classes = tuple(name for name, _ in named)
    _refuse_alike(classes, [f"column {name!r}" for name in columns], sheet.name)
    _refuse_twice(sheet, lines)
    amounts = {}
    for h, (column, (_, unit)) in enumerate(zip(columns, named, strict=True)):
        hint = (
            f"correct the cell; if {column!r} is no activity, leave it out with --diary-column "
            f"{quote(f'note={column}')}; if it holds the activities' names, use --diary-column "
            f"{quote(f'activity={column}')}"
        )
        for i, cell in enumerate(sheet.amounts(column)):
            amount = _amount(cell, unit, sheet.place(i, column), hint)
            if amount is not None:
                amounts[i, h] = amount
    return _Said("wide", classes, amounts, ())


def _read_long(sheet: Sheet, roles: Roles, lines: _Lines, *, in_spans: bool) -> _Said:
    column = roles.column["activity"]
    names = [name_in(cell, sheet.place(i, column)) for i, cell in enumerate(sheet.column(column))]
    line_of = {name: i for i, name in reversed(list(enumerate(names)))}
    classes = tuple(dict.fromkeys(names))
    place = {name: h for h, name in enumerate(classes)}
    _refuse_alike(classes, [sheet.places[line_of[name]] for name in classes], sheet.name)
    if "duration" not in roles.column:
        if not in_spans:
            raise _no_durations(sheet, column)
        _refuse_twice(sheet, lines)
        filled = {(i, place[name]): Amount("share", 1.0) for i, name in enumerate(names)}
        return _Said("long", classes, filled, ("activity",))
    duration = roles.column["duration"]
    cells, unit = sheet.amounts(duration), _unit_of_column(duration)
    amounts = {}
    for k, (key, group) in enumerate(lines.items()):
        first: dict[str, int] = {}
        for i in group:
            if first.setdefault(names[i], i) != i:
                raise _twice(sheet, first[names[i]], i, f"{names[i]!r} of {_title(key)}")
            amount = _amount(cells[i], unit, sheet.place(i, duration), "correct the cell")
            if amount is not None:
                amounts[k, place[names[i]]] = amount
    return _Said("long", classes, amounts, ("activity", "duration"))


def _no_durations(sheet: Sheet, column: str) -> DiaryError:
    return DiaryError(
        sheet.name,
        f"activities in {column!r} without durations",
        "a column 'duration' (or 'hours', 'minutes', 'share', 'percent'), or 'start' and 'end' of "
        "every activity",
        "add one, or say which column it is, e.g. --diary-column duration=Dauer; if "
        f"{column!r} is itself an activity, rename it",
    )


def _amount(cell: Any, unit: str | None, where: str, hint: str) -> Amount | None:
    """Return what a cell says, a bare number in the unit that its column's name says."""
    try:
        amount = read_amount(cell)
    except ValueError:
        raise DiaryError(
            where,
            repr(cell),
            "durations of 0 and more such as 8.5, '8h30', '08:30' or '90 min', percentages such as "
            "'35%', or an empty cell",
            hint,
        ) from None
    if amount is None or amount.kind != "bare" or unit is None:
        return amount
    return Amount("share" if _is_share(unit) else "seconds", amount.value * UNITS[unit])


def _in_units(said: _Said, n_periods: int, unit: str) -> tuple[FloatArray, FloatArray, str | None]:
    """Return amounts in seconds, amounts as shares, and the unit of bare numbers."""
    shape = (n_periods, len(said.classes))
    tables = {kind: np.full(shape, np.nan) for kind in ("seconds", "share", "bare")}
    for cell, amount in said.amounts.items():
        tables[amount.kind][cell] = amount.value
    seconds, shares, bare = tables.values()
    is_bare = ~np.isnan(bare)
    if not is_bare.any():
        return seconds, shares, None
    if unit == "auto":
        with_unit = ~np.isnan(seconds) | ~np.isnan(shares)
        unit = _usual_unit(bare[is_bare.any(axis=1) & ~with_unit.any(axis=1)])
    into = shares if _is_share(unit) else seconds
    into[is_bare] = bare[is_bare] * UNITS[unit]
    return seconds, shares, unit


def _usual_unit(bare: FloatArray) -> str:
    """Return what numbers without a unit must be, by what entries of nothing else sum to."""
    sums = np.nansum(bare, axis=1)
    if sums.size and np.all(np.abs(sums - 1.0) <= SHARES_SUM_WITHIN):
        return "share"
    if sums.size and np.all(np.abs(sums - 100.0) <= 100.0 * SHARES_SUM_WITHIN):
        return "percent"
    return "hours"


def _is_share(unit: str) -> bool:
    return unit in ("share", "percent")


def _unit_of_column(name: str) -> str | None:
    plain, unit = unit_in_name(name)
    return unit or (plain.casefold() if plain.casefold() in UNITS else None)


def _participants(sheet: Sheet, roles: Roles) -> Sequence[str | None]:
    column = roles.column.get("participant")
    if column is None:
        return [None] * len(sheet.rows)
    return [name_in(cell, sheet.place(i, column)) for i, cell in enumerate(sheet.column(column))]


def _refuse_alike(names: Sequence[str], places: Sequence[str], where: str) -> None:
    """Raise for activities whose names differ in nothing but capitals."""
    first: dict[str, int] = {}
    for h, name in enumerate(names):
        g = first.setdefault(name.casefold(), h)
        if g != h:
            raise DiaryError(
                f"{where}, {places[g]} and {places[h]}",
                f"the activity {name!r} twice"
                if name == names[g]
                else f"activities that differ only in capitals, {names[g]!r} and {name!r}",
                "one name an activity",
                "rename or join them",
            )


def _refuse_twice(sheet: Sheet, lines: _Lines) -> None:
    for key, group in lines.items():
        if len(group) > 1:
            raise _twice(sheet, group[0], group[1], _title(key))


def _twice(sheet: Sheet, one: int, other: int, what: str) -> DiaryError:
    return DiaryError(
        f"{sheet.name}, {sheet.places[one]} and {sheet.places[other]}",
        f"two entries for {what}",
        "one entry for each",
        "drop one of the two lines, or join them into one",
    )


def _title(key: _Key) -> str:
    who, name = key
    return repr(name) if who is None else f"{name!r} of participant {who!r}"


def _places(sheet: Sheet, group: list[int]) -> str:
    if len(group) == 1:
        return sheet.places[group[0]]
    word = sheet.places[group[0]].partition(" ")[0]
    return f"{word}s {name_some(sheet.places[i].rpartition(' ')[2] for i in group)}"
