"""How often an activity happened, where a diary says it: "3 × 10 min", or a column of numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from apportion._io.identifiers import folded_name
from apportion.exceptions import DiaryError, hint
from apportion.supervision.diary.column_roles import bad_cell
from apportion.supervision.diary.durations import is_blank, read_amount, unit_in_name

_TIMES = re.compile(r"(\d{1,9}) ?[×x*] ?(.+)", re.IGNORECASE)
_WORDS = r"(?:times|episodes|count|how often|n)"
_IN_BRACKETS = re.compile(rf"(.+?)\s*[(\[]\s*{_WORDS}\s*[)\]]", re.IGNORECASE)
_AT_END = re.compile(rf"(.+?)[\s_-]+{_WORDS}", re.IGNORECASE)


def times_in(cell: Any) -> tuple[int | None, Any]:
    """Return how often an activity happened, and how long each time; or None, and the cell.

    The number comes first, is whole and has no unit.

    Examples
    --------
    >>> times_in("3 × 10 min"), times_in("2x0,5"), times_in("10 min")
    ((3, '10 min'), (2, '0,5'), (None, '10 min'))
    """
    match = _TIMES.fullmatch(" ".join(cell.split())) if isinstance(cell, str) else None
    return (int(match[1]), match[2]) if match else (None, cell)


def counting_columns(columns: Sequence[str], where: str) -> dict[str, str]:
    """Return the columns that say how often an activity happened, and the activity's column.

    Such a column has the name of the activity and `times`, `episodes`, `count`, `how often` or `n`:
    in brackets, or after a blank, an underscore or a hyphen. Without brackets it is an activity
    unless there is a column with the rest of its name ("tea times" without "tea").

    Examples
    --------
    >>> counting_columns(["toilet (min)", "toilet_times", "tea times"], "the diary")
    {'toilet_times': 'toilet (min)'}
    """
    rest = {column: match[1] for column in columns if (match := _ending(column))}
    named = {folded_name(unit_in_name(column)[0]) for column in columns}
    activities = {
        folded_name(unit_in_name(column)[0]): column
        for column in columns
        if folded_name(rest.get(column, "")) not in named
    }
    of: dict[str, str] = {}
    for column, name in rest.items():
        activity = activities.get(folded_name(name))
        if activity is None and _IN_BRACKETS.fullmatch(column.strip()):
            raise _without_durations(column, name, where)
        if activity is not None and activity in of.values():
            other = next(key for key, value in of.items() if value == activity)
            raise _twice(other, column, unit_in_name(activity)[0], where)
        if activity is not None:
            of[column] = activity
    return of


def agreed_count(
    cell: Any, in_duration: int | None, row: int, column: str, activity: str
) -> int | None:
    """Return how often an activity happened, from a cell that says it or from its duration.

    None where neither does; an error where they differ.

    Examples
    --------
    >>> agreed_count("3", None, 0, "times", "toilet"), agreed_count("", 2, 0, "times", "toilet")
    (3, 2)
    """
    if is_blank(cell):
        return in_duration
    n_times = _whole_number(cell)
    if n_times is None:
        allowed = f"how often {activity!r} happened: a whole number such as 3, or an empty cell"
        advice = hint(
            "correct the cell; if the column does not say how often, rename it, or leave it out "
            "with {diary_column:note={column}}",
            column=column,
        )
        raise bad_cell(row, column, repr(cell), allowed, advice)
    if in_duration is not None and in_duration != n_times:
        found = f"{n_times}, where the duration of {activity!r} says '{in_duration} ×'"
        raise bad_cell(row, column, found, "the same number in both", "correct one of them")
    return n_times


def _whole_number(cell: Any) -> int | None:
    with suppress(ValueError):
        amount = read_amount(cell)
        if amount is not None and amount.kind == "bare" and amount.value.is_integer():
            return int(amount.value)
    return None


def _ending(column: str) -> re.Match[str] | None:
    return _IN_BRACKETS.fullmatch(column.strip()) or _AT_END.fullmatch(column.strip())


def _without_durations(column: str, activity: str, where: str) -> DiaryError:
    advice = hint(
        "add it, or leave this column out with {diary_column:note={column}}", column=column
    )
    return DiaryError(
        where,
        f"column {column!r}, which says how often {activity!r} happened, but not how long it took",
        f"a column {activity!r} with its durations beside it",
        advice,
    )


def _twice(column: str, other: str, activity: str, where: str) -> DiaryError:
    advice = hint("leave one of them out, e.g. with {diary_column:note={column}}", column=other)
    found = f"columns {column!r} and {other!r}, which both say how often {activity!r} happened"
    return DiaryError(where, found, "one column that says it", advice)
