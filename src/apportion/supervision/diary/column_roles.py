"""Columns of tables and the roles that they play: in diaries, windows and events of sensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np

from apportion._io.identifiers import factorize, first_called, plain_names
from apportion._io.sheet import frame_of
from apportion._io.values import delimiter_in, values_of
from apportion._utils.typing import IntArray
from apportion.exceptions import DiaryError, InputError, name_some

DIARY_ROLES: dict[str, tuple[str, ...]] = {
    "participant": (
        "participant", "participant_id", "person", "subject", "subject_id", "patient",
        "patient_id", "user", "user_id",
    ),
    "date": ("date", "day"),
    "start": ("start", "begin", "from", "start_time", "begin_time"),
    "end": ("end", "stop", "until", "to", "end_time", "stop_time"),
    "period": ("period", "bag"),
    "activity": ("activity", "label", "class"),
    "duration": ("duration", "amount", "hours", "minutes", "seconds", "share", "percent"),
    "episodes": ("episodes", "times", "count", "how_often"),
    "note": ("note", "notes", "comment", "comments", "remark", "remarks"),
}  # fmt: skip
"""The usual names of a diary's columns; any other column is an activity.

Capitals, blanks, underscores and hyphens do not count.
"""

WINDOW_ROLES: dict[str, tuple[str, ...]] = {
    "participant": DIARY_ROLES["participant"],
    "start": (
        "start", "begin", "time", "timestamp", "datetime", "t", "start_time", "begin_time",
    ),
    "end": ("end", "stop", "end_time", "stop_time"),
    "nonwear": ("nonwear", "not_worn"),
}  # fmt: skip
"""The usual names of the columns of windows."""

EVENT_ROLES: dict[str, tuple[str, ...]] = {
    **{role: WINDOW_ROLES[role] for role in ("participant", "start", "end")},
    "sensor": ("sensor", "sensor_id", "sensor_name", "device", "device_id", "location", "name"),
}
"""The usual names of the columns of events."""


class Roles(NamedTuple):
    """The column of each role, and all columns that are notes."""

    column: dict[str, str]
    notes: tuple[str, ...]


def find_roles(
    columns: Sequence[str],
    usual: Mapping[str, Sequence[str]],
    chosen: Mapping[str, str | Sequence[str] | None],
    where: str,
) -> Roles:
    """Return the column of each role: the chosen one, or else the first with a usual name.

    Several columns may be notes.
    """
    column: dict[str, str] = {}
    notes: list[str] = []
    for role, choice in chosen.items():
        if choice is None:
            continue
        names = [choice] if isinstance(choice, str) else list(choice)
        if role not in usual:
            allowed = f"the roles {', '.join(usual)}"
            raise DiaryError(f"the columns of {where}", f"the role {role!r}", allowed, "correct it")
        if len(names) != 1 and role != "note":
            found = f"{len(names)} for the {role}"
            raise DiaryError(f"the columns of {where}", found, "one column", "name one")
        for name in names:
            if name not in columns:
                allowed = f"one of the columns {name_some(map(repr, columns), 12)}"
                advice = f"name the column that holds the {role}"
                raise DiaryError(where, f"no column {name!r}", allowed, advice)
        if role == "note":
            notes += names
        else:
            column[role] = names[0]
    free = [name for name in columns if name not in (*column.values(), *notes)]
    notes += filter(None, (first_called(free, [name]) for name in usual.get("note", ())))
    choices = {role: column.get(role) or first_called(free, usual[role]) for role in usual}
    choices.pop("note", None)
    return Roles({role: name for role, name in choices.items() if name}, tuple(notes))


class ColumnTable:
    """The columns of a dataframe or a mapping, by name.

    Attributes
    ----------
    names : list of str
        The names of the columns.
    n_samples : int
        The number of rows.
    """

    def __init__(self, table: Any) -> None:
        frame = frame_of(table, "the windows")
        if frame is None and not isinstance(table, Mapping):
            raise DiaryError(
                "the windows",
                f"an object of type {type(table).__name__}",
                "a dataframe, or a mapping of columns",
                "give a table with one row per window",
            )
        self._native = None if frame is None else nw.to_native(frame)
        self._column = table.__getitem__ if frame is None else frame.get_column
        self._keys = {str(key): key for key in (table if frame is None else frame.columns)}
        self.names = list(self._keys)
        first = next(iter(self._keys.values()), None)
        self.n_samples = 0 if first is None else _length(self._column(first))
        if self.n_samples <= 0:
            raise DiaryError("the windows", "no window", "at least one row", "check the table")

    def __getitem__(self, name: str) -> Any:
        column = self._column(self._keys[name])
        length = _length(column)
        if length != self.n_samples:
            raise DiaryError(
                "in the windows",
                f"one cell, {column!r}" if length < 0 else f"{length:,} cells",
                f"{self.n_samples:,}, as in the column {self.names[0]!r}",
                "give every column one cell per window",
                column=name,
            )
        return nw.to_native(column) if isinstance(column, nw.Series) else column

    def values(self, name: str) -> Any:
        """Return a column, with numbers, truth values or times in place of text from a file."""
        in_text = delimiter_in(self._native) is not None
        return values_of(self._native, name) if in_text else self[name]

    def named_codes(
        self, column: str, role: str, order: Callable[[Iterable[str]], list[str]] = list
    ) -> tuple[IntArray, list[str]]:
        """Return the position of each row's name among the distinct names, and these names."""
        codes, cells = factorize(self[column], role)
        names = plain_names(cells, role, f"column {column!r}")
        empty = np.array([not name for name in [*names, ""]])[codes]
        if empty.any():
            raise empty_cell(int(np.argmax(empty)), column, role)
        distinct = order(dict.fromkeys(names))
        position = {name: k for k, name in enumerate(distinct)}
        return np.array([position[name] for name in names], dtype=np.intp)[codes], distinct


def _length(column: Any) -> int:
    """Return the number of cells; -1 where it is a single cell."""
    return len(column) if hasattr(column, "__len__") and not isinstance(column, str) else -1


def bad_cell(row: int, column: str | None, found: str, allowed: str, advice: str) -> DiaryError:
    """Return the error for a cell that cannot be used."""
    return DiaryError("", found, allowed, advice, row=row, column=column)


def empty_cell(row: int, column: str | None, role: str) -> DiaryError:
    """Return the error for a cell that must not be empty."""
    allowed, advice = f"a {role} in every row", "fill the cell or drop the row"
    return bad_cell(row, column, f"no {role}", allowed, advice)


@contextmanager
def located_rows(place: Callable[[int], str]) -> Iterator[None]:
    """Let errors about a row say where the row stands, such as "diary.csv, line 5"."""
    try:
        yield
    except InputError as error:
        raise error.placed(place) from None
