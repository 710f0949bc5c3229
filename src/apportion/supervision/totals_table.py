"""A table of bags' totals from a file: shares, percentages or counts, wide or long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from apportion._io.identifiers import first_called, is_missing, plain_name
from apportion._io.sheet import Sheet
from apportion._utils.typing import FloatArray
from apportion.exceptions import FileError, compared, hint
from apportion.supervision.totals import SHARES_SUM_WITHIN, Totals, unit_of_sums

Unit = Literal["auto", "share", "percent", "count"]

_BAG = ("bag", "bags", "group", "id")
_CLASS = ("class", "label", "activity")
_OTHER_UNIT = hint("correct the line, or give the unit of the numbers with {unit}")
_AMOUNT = ("share", "percent", "count", "amount", "total", "value", "proportion")


@dataclass(frozen=True)
class TotalsTable:
    """A table of bags' totals.

    Attributes
    ----------
    totals : Totals
        The totals.
    unit : {"share", "percent", "count"}
        What the numbers were read as.
    places : dict of str to str
        Where each bag stands, in words.
    """

    totals: Totals
    unit: Unit
    places: dict[str, str]


def read_totals(sheet: Sheet, bag_column: str, unit: Unit = "auto") -> TotalsTable:
    """Return the totals of a table.

    Parameters
    ----------
    sheet : Sheet
        One line per bag and one column per class; or one line per bag and class, with columns such
        as `class` and `share`. Bags stand in the column that has the same name as in the rows, or
        is called `bag`, or in the first one. An empty cell is not known; a line left out of the
        long form is 0.
    bag_column : str
        The column of bag ids in the rows.
    unit : {"auto", "share", "percent", "count"}, default="auto"
        What the numbers are; a percent sign decides, too. `"auto"`: shares or percentages where
        every bag sums to 1 or 100, counts where all are whole numbers.

    Returns
    -------
    TotalsTable
    """
    ids = first_called(sheet.columns, (bag_column, *_BAG)) or sheet.columns[0]
    others = [name for name in sheet.columns if name != ids]
    label, amount = first_called(others, _CLASS), first_called(others, _AMOUNT)
    lines = range(len(sheet.rows))
    if label is not None and amount is not None:
        labels = _names_in_column(sheet, label)
        cells = [(i, labels[i], amount) for i in lines]
        absent, repeated = 0.0, "class {!r} of bag {!r}"
        if unit == "auto" and amount.casefold() in ("share", "percent", "count"):
            unit = amount.casefold()  # type: ignore[assignment]
    else:
        cells = [(i, name, name) for name in others for i in lines]
        absent, repeated = np.nan, "bag {1!r}"
    bags = _names_in_column(sheet, ids)
    row, h = _numbered(bags), _numbered(name for _, name, _ in cells)
    if len(h) < 2:
        found = f"only one class, {next(iter(h))!r}" if h else "no class"
        allowed = "at least two columns of classes, or lines of at least two"
        raise FileError(sheet.name, found, allowed, "add a column, or lines, for every class")
    values = np.full((len(row), len(h)), absent)
    first: dict[tuple[str, str], int] = {}
    signed, bare = False, None
    amounts = {column: sheet.amounts(column) for column in dict.fromkeys(c for *_, c in cells)}
    for i, name, column in cells:
        j = first.setdefault((bags[i], name), i)
        if j != i:
            where = f"{sheet.name}, {sheet.places[j]} and {sheet.places[i]}"
            found = f"the {repeated.format(name, bags[i])} twice"
            raise FileError(where, found, "one line for each", "drop one of the two lines")
        number, in_percent = _cell_number(amounts[column][i], sheet, i, column)
        values[row[bags[i]], h[name]] = number
        signed |= in_percent
        if bare is None and number > 0 and not in_percent:
            bare = i, column
    if signed and bare is not None:
        found = "a number without a percent sign, where others have it"
        allowed = "the sign in all cells, or in none"
        raise _bad_cell(sheet, *bare, found, allowed, "add the sign where it is missing")
    if signed and unit == "count":
        allowed = hint("counts, as {unit:count} says")
        raise FileError(sheet.name, "percentages", allowed, hint("leave out {unit}"))
    if np.isnan(values).all():
        raise FileError(sheet.name, "no number in any cell", "at least one", "fill the cells")
    line = dict(zip(reversed(bags), reversed(lines), strict=True))
    places = {bag: sheet.place(line[bag]) for bag in row}
    if signed or unit == "auto":
        unit = "percent" if signed else _unit_by_sums(values, list(places.values()))
    if unit != "count":
        whole = 100.0 if unit == "percent" else 1.0
        _refuse_other_sums(values, places, whole)
        values = values / whole
    table = {bag: dict(zip(h, values[k].tolist(), strict=True)) for bag, k in row.items()}
    if unit == "count":
        return TotalsTable(Totals.from_counts(table), unit, places)
    return TotalsTable(Totals.from_proportions(table, tolerance=SHARES_SUM_WITHIN), unit, places)


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: k for k, name in enumerate(dict.fromkeys(names))}


def _unit_by_sums(values: FloatArray, places: Sequence[str]) -> Unit:
    """Return what numbers must be, by their sums."""
    complete = np.flatnonzero(~np.isnan(values).any(axis=1))
    if not complete.size and np.nanmax(values) <= 1.0:
        return "share"
    if not complete.size:
        found = "a total that is not known, as in every other bag, so that no sum tells the unit"
        allowed = "shares up to 1, percentages or counts of rows"
        advice = hint("give the unit of the numbers with {unit}")
        raise FileError("", found, allowed, advice, place=places[0])
    sums = values[complete].sum(axis=1)
    unit = unit_of_sums(sums)
    if unit is not None:
        return unit
    if np.all(values[complete] == np.rint(values[complete])):
        return "count"
    shares, percentages = (np.abs(sums / x - 1.0) <= SHARES_SUM_WITHIN for x in (1.0, 100.0))
    odd = int(np.argmin(shares if shares.sum() >= percentages.sum() else percentages))
    found = f"totals that sum to {compared(sums[odd], 1.0, 100.0)[0]}"
    allowed = "shares that sum to 1, percentages that sum to 100, or counts of rows"
    raise FileError("", found, allowed, _OTHER_UNIT, place=places[complete[odd]])


def _refuse_other_sums(values: FloatArray, places: dict[str, str], whole: float) -> None:
    sums, unknown = np.nansum(values, axis=1), ~np.all(~np.isnan(values), axis=1)
    short = ~unknown & (sums < whole * (1.0 - SHARES_SUM_WITHIN))
    for k in np.flatnonzero(short | (sums > whole * (1.0 + SHARES_SUM_WITHIN))).tolist():
        bag, place = list(places.items())[k]
        noun = "shares" if whole == 1.0 else "percentages"
        found = f"{noun} that sum to {compared(sums[k], whole)[0]}"
        allowed = f"a sum of {'at most ' * bool(unknown[k])}{whole:g}"
        raise FileError("", found, allowed, _OTHER_UNIT, place=f"{place} (bag {bag!r})")


def _names_in_column(sheet: Sheet, column: str) -> list[str]:
    cells = sheet.column(column)
    for i, cell in enumerate(cells):
        if _is_blank(cell):
            allowed = "a name in every line"
            raise _bad_cell(sheet, i, column, "an empty cell", allowed, "fill the cell")
    return [plain_name(cell) for cell in cells]


def _cell_number(cell: Any, sheet: Sheet, i: int, column: str) -> tuple[float, bool]:
    """Return the number in a cell, NaN where it is empty, and whether it has a percent sign."""
    if _is_blank(cell):
        return np.nan, False
    text = cell.strip() if isinstance(cell, str) else cell
    in_percent = isinstance(cell, str) and text.endswith("%")
    try:
        number = float(text[:-1] if in_percent else text)
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and number >= 0):
        allowed = "shares, percentages or counts of 0 and more, or an empty cell for 'not known'"
        advice = hint("correct the cell; durations are for a diary ({diary})")
        raise _bad_cell(sheet, i, column, repr(cell), allowed, advice)
    return number, in_percent


def _bad_cell(
    sheet: Sheet, i: int, column: str, found: str, allowed: str, advice: str
) -> FileError:
    return FileError("", found, allowed, advice, place=sheet.place(i), column=column)


def _is_blank(cell: Any) -> bool:
    return is_missing(cell) or not str(cell).strip()
