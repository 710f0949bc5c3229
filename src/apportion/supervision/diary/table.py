"""The columns of windows, whatever table they come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v1 as nw

from apportion._io.identifiers import first_called
from apportion._io.sheet import frame_of
from apportion._io.values import delimiter_in, values_of
from apportion.exceptions import DiaryError, name_some


class Table:
    """The columns of windows, a dataframe or a mapping, by name."""

    def __init__(self, windows: Any) -> None:
        frame = None if isinstance(windows, Mapping) else frame_of(windows, "the windows")
        if frame is None and not isinstance(windows, Mapping):
            raise DiaryError(
                "the windows",
                f"an object of type {type(windows).__name__}",
                "a dataframe, or a mapping of columns",
                "give a table with one row for each window",
            )
        keys = windows if frame is None else frame.columns
        self._native = None if frame is None else nw.to_native(frame)
        self._keys = {str(key): key for key in keys}
        self._column = windows.__getitem__ if frame is None else frame.get_column
        first = next(iter(keys), None)
        self.n_samples = 0 if first is None else _length(self._column(first))
        if self.n_samples <= 0:
            raise DiaryError(
                "the windows", "no window", "at least one row", "check that they are the right ones"
            )

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return list(self._keys)

    def __getitem__(self, name: str) -> Any:
        column = self._column(self._keys[name])
        if _length(column) != self.n_samples:
            raise DiaryError(
                f"the windows, column {name!r}",
                f"one cell, {column!r}" if _length(column) < 0 else f"{_length(column):,} cells",
                f"{self.n_samples:,}, as in the column {self.names[0]!r}",
                "give every column one cell for each window",
            )
        return nw.to_native(column) if isinstance(column, nw.Series) else column

    def values(self, name: str) -> Any:
        """Return a column as the numbers, truth values or times that a text file spells."""
        in_text = delimiter_in(self._native) is not None
        return values_of(self._native, name) if in_text else self[name]

    def find(self, role: str, asked: str | None, usual: Sequence[str]) -> str | None:
        """Return the column of a role: the one asked for, or the first with a usual name."""
        if asked is not None:
            if asked not in self._keys:
                raise DiaryError(
                    "the windows",
                    f"no column {asked!r}",
                    f"one of the columns {name_some(map(repr, self.names), 12)}",
                    f"name the column that holds the {role}",
                )
            return asked
        return first_called(self.names, usual)


def _length(column: Any) -> int:
    """Return the number of cells; -1 where it is one cell."""
    return len(column) if hasattr(column, "__len__") and not isinstance(column, str) else -1
