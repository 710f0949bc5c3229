"""A table of bags' totals from a file: shares, percentages or counts, wide or long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from apportion._io.identifiers import first_called, is_missing, plain_name
from apportion._io.sheet import Sheet
from apportion._utils.typing import FloatArray
from apportion.exceptions import FileError, compared, name_some
from apportion.supervision.totals import SHARES_SUM_WITHIN, Totals

Unit = Literal["auto", "share", "percent", "count"]
Cells = dict[str, dict[str, float]]

_BAG = ("bag", "bags", "group", "id")
_CLASS = ("class", "label", "activity")
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
        One line a bag and one column a class; or a line for each bag and class, with columns such
        as `class` and `share`. Bags stand in the column that is called as in the rows, or `bag`,
        or in the first one. An empty cell is not known; a line left out of the long form is 0.
    bag_column : str
        The column of bag ids in the rows.
    unit : {"auto", "share", "percent", "count"}, default="auto"
        What the numbers are; a percent sign says so too. `"auto"`: shares or percentages where
        every bag sums to 1 or 100, counts where all are whole numbers.
    """
    ids = first_called(sheet.columns, (bag_column, *_BAG)) or sheet.columns[0]
    others = [name for name in sheet.columns if name != ids]
    label, amount = first_called(others, _CLASS), first_called(others, _AMOUNT)
    if label is not None and amount is not None:
        cells, places = _long(sheet, ids, label, amount)
        signed = _has_percent_signs(sheet, [amount])
        if unit == "auto" and amount.casefold() in ("share", "percent", "count"):
            unit = amount.casefold()  # type: ignore[assignment]
    else:
        cells, places = _wide(sheet, ids)
        signed = _has_percent_signs(sheet, others)
    if signed and unit == "count":
        raise FileError(
            sheet.name, "percentages", "counts, as --unit count says", "leave out --unit"
        )
    values = np.array([list(row.values()) for row in cells.values()])
    if np.isnan(values).all():
        raise FileError(sheet.name, "no number in any cell", "at least one", "fill the cells")
    found = (
        "percent" if signed else _unit(values, list(places.values())) if unit == "auto" else unit
    )
    if found == "count":
        return TotalsTable(Totals.from_counts(cells), found, places)
    whole = 100.0 if found == "percent" else 1.0
    _refuse_wrong_sums(cells, places, whole)
    shares = {bag: {h: x / whole for h, x in row.items()} for bag, row in cells.items()}
    return TotalsTable(Totals.from_proportions(shares, tolerance=SHARES_SUM_WITHIN), found, places)


def _wide(sheet: Sheet, ids: str) -> tuple[Cells, dict[str, str]]:
    classes = [name for name in sheet.columns if name != ids]
    if len(classes) < 2:
        raise FileError(
            sheet.name,
            f"beside the bags in {ids!r} only {name_some(map(repr, classes)) or 'nothing'}",
            "at least two columns of classes",
            "add a column for every class",
        )
    found: Cells = {}
    seen: dict[str, int] = {}
    columns = {name: sheet.amounts(name) for name in classes}
    for i, cell in enumerate(sheet.column(ids)):
        bag = _name(cell, sheet, i, ids)
        if bag in seen:
            raise _twice(sheet, seen[bag], i, f"the bag {bag!r}")
        seen[bag] = i
        found[bag] = {h: _number(columns[h][i], sheet.place(i, h)) for h in classes}
    return found, {bag: sheet.place(i) for bag, i in seen.items()}


def _long(sheet: Sheet, ids: str, label: str, amount: str) -> tuple[Cells, dict[str, str]]:
    found: Cells = {}
    seen: dict[tuple[str, str], int] = {}
    places: dict[str, str] = {}
    labels = [_name(cell, sheet, i, label) for i, cell in enumerate(sheet.column(label))]
    classes = dict.fromkeys(labels)
    if len(classes) < 2:
        raise FileError(
            f"{sheet.name}, column {label!r}",
            f"only one class, {labels[0]!r}",
            "at least two classes",
            "add lines for every class",
        )
    amounts = sheet.amounts(amount)
    for i, cell in enumerate(sheet.column(ids)):
        bag, one = _name(cell, sheet, i, ids), labels[i]
        if (bag, one) in seen:
            raise _twice(sheet, seen[bag, one], i, f"the class {one!r} of bag {bag!r}")
        seen[bag, one] = i
        places.setdefault(bag, sheet.place(i))
        row = found.setdefault(bag, dict.fromkeys(classes, 0.0))
        row[one] = _number(amounts[i], sheet.place(i, amount))
    return found, places


def _unit(values: FloatArray, places: Sequence[str]) -> Unit:
    """Return what numbers must be, by what they sum to."""
    complete = np.flatnonzero(~np.isnan(values).any(axis=1))
    if not complete.size and np.nanmax(values) <= 1.0:
        return "share"
    if not complete.size:
        raise FileError(
            places[0],
            "a total that is not known, as in every other bag, so that no sum tells the unit",
            "shares up to 1, percentages or counts of rows",
            "say what the numbers are with --unit",
        )
    sums = values[complete].sum(axis=1)
    shares = np.abs(sums - 1.0) <= SHARES_SUM_WITHIN
    percentages = np.abs(sums - 100.0) <= 100 * SHARES_SUM_WITHIN
    if shares.all():
        return "share"
    if percentages.all():
        return "percent"
    if np.all(values[complete] == np.rint(values[complete])):
        return "count"
    odd = int(np.argmin(shares if shares.sum() >= percentages.sum() else percentages))
    raise FileError(
        places[complete[odd]],
        f"totals that sum to {compared(sums[odd], 1.0, 100.0)[0]}",
        "shares that sum to 1, percentages that sum to 100, or counts of rows",
        "correct the line, or say what the numbers are with --unit",
    )


def _refuse_wrong_sums(cells: Cells, places: dict[str, str], whole: float) -> None:
    for bag, row in cells.items():
        values = np.array(list(row.values()))
        total, most = float(np.nansum(values)), "at most " * bool(np.isnan(values).any())
        short = not most and total < whole * (1.0 - SHARES_SUM_WITHIN)
        if short or total > whole * (1.0 + SHARES_SUM_WITHIN):
            raise FileError(
                f"{places[bag]} (bag {bag!r})",
                f"{'shares' if whole == 1.0 else 'percentages'} that sum to "
                f"{compared(total, whole)[0]}",
                f"a sum of {most}{whole:g}",
                "correct the line, or say what the numbers are with --unit",
            )


def _has_percent_signs(sheet: Sheet, columns: Sequence[str]) -> bool:
    """Return whether numbers have the percent sign; either all of them or none, zeros aside."""
    signed, bare = False, None
    for column in columns:
        for i, cell in enumerate(sheet.amounts(column)):
            if isinstance(cell, str) and cell.strip().endswith("%"):
                signed = True
            elif bare is None and _number(cell, "") > 0:
                bare = sheet.place(i, column)
    if signed and bare is not None:
        raise FileError(
            bare,
            "a number without a percent sign, where others have it",
            "the sign in all cells, or in none",
            "add it where it is missing",
        )
    return signed


def _name(cell: Any, sheet: Sheet, i: int, column: str) -> str:
    if is_missing(cell) or not str(cell).strip():
        raise FileError(
            sheet.place(i, column), "an empty cell", "a name in every line", "fill the cell"
        )
    return plain_name(cell)


def _number(cell: Any, where: str) -> float:
    """Return a share, percentage or count; NaN where the cell is empty."""
    if is_missing(cell) or (isinstance(cell, str) and not cell.strip()):
        return np.nan
    try:
        number = float(cell.strip().removesuffix("%")) if isinstance(cell, str) else float(cell)
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and number >= 0):
        raise FileError(
            where,
            repr(cell),
            "shares, percentages or counts of 0 and more, or an empty cell for 'not known'",
            "correct the cell; durations are for a diary (--diary)",
        )
    return number


def _twice(sheet: Sheet, one: int, other: int, what: str) -> FileError:
    return FileError(
        f"{sheet.name}, {sheet.places[one]} and {sheet.places[other]}",
        f"{what} twice",
        "one line for each",
        "drop one of the two lines",
    )
