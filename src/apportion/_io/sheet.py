"""Small tables, cell by cell, with the place of every line for messages: diaries and totals."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from apportion._io.text import (
    PARQUET_ENDINGS,
    TEXT_ENDINGS,
    decimal_text,
    delimiter_of,
    ending_of,
    refuse_bad_names,
    require_file,
    text_of,
    wrong_length,
)
from apportion._io.workbook import WORKBOOK_ENDINGS, read_lines
from apportion.exceptions import FileError, name_some


@dataclass(frozen=True)
class Sheet:
    """A table's columns and rows, with where each row stands.

    Attributes
    ----------
    name : str
        What the table is called in messages.
    columns : tuple of str
        The columns.
    rows : tuple of tuples
        The cells; text from a CSV file or a spreadsheet, else what the table held.
    places : tuple of str
        Where each row stands, such as "line 3".
    delimiter : str
        What separates the cells of a CSV file.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    places: tuple[str, ...]
    delimiter: str = ","

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.columns)}

    def column(self, name: str) -> list[Any]:
        """Return the cells of a column."""
        j = self._position[name]
        return [row[j] for row in self.rows]

    def amounts(self, name: str) -> list[Any]:
        """Return the cells of a column of numbers or durations, with points for decimal commas."""
        return [
            decimal_text(cell, self.delimiter) if isinstance(cell, str) else cell
            for cell in self.column(name)
        ]

    def place(self, row: int, column: str | None = None) -> str:
        """Return where a cell, or a row, stands, in words."""
        where = f"{self.name}, {self.places[row]}"
        return where if column is None else f"{where}, column {column!r}"


def sheet_of(table: Any, name: str) -> Sheet:
    """Return a dataframe, a mapping of columns, a sequence of mappings or a file as a sheet."""
    if isinstance(table, Sheet):
        return table
    if isinstance(table, str | Path):
        return read_sheet(table)
    if isinstance(table, Sequence) and all(isinstance(row, Mapping) for row in table):
        keys = list(dict.fromkeys(key for row in table for key in row))
        return _sheet(name, keys, [[row.get(key) for key in keys] for row in table])
    columns = table if isinstance(table, Mapping) else _columns_of(table, name)
    cells = {key: _cells(column, f"{name}, column {key!r}") for key, column in columns.items()}
    lengths = {key: len(column) for key, column in cells.items()}
    if len(set(lengths.values())) > 1:
        few, many = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise FileError(
            name,
            f"columns of different lengths: {few!r} has {lengths[few]}, {many!r} {lengths[many]}",
            "columns of one length",
            "fill the shorter one; a missing cell is None",
        )
    return _sheet(name, list(cells), [list(row) for row in zip(*cells.values(), strict=True)])


def frame_of(table: Any, name: str) -> nw.DataFrame[Any] | None:
    """Return a dataframe of pandas, polars or pyarrow, also a lazy one; None = it is none."""
    try:
        frame = nw.from_native(table, pass_through=True)
    except DuplicateError:
        refuse_bad_names([str(column) for column in table.columns], name)
        raise
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    return frame if isinstance(frame, nw.DataFrame) else None


def read_sheet(path: str | Path, *, encoding: str | None = None) -> Sheet:
    """Return a small table from a CSV or Parquet file or a spreadsheet."""
    file = Path(path)
    ending = ending_of(file)
    if ending in PARQUET_ENDINGS:
        from apportion._io.read import read_columns

        table = read_columns(file)
        rows = [list(row) for row in zip(*(c.to_pylist() for c in table.columns), strict=True)]
        return _sheet(file.name, table.column_names, rows)
    if ending in WORKBOOK_ENDINGS:
        return _workbook_sheet(file)
    require_file(file)
    if ending not in TEXT_ENDINGS:
        raise FileError(
            file.name,
            f"a {ending} file",
            "CSV (.csv, .csv.gz), Parquet (.parquet) or spreadsheet (.xlsx) files",
            "save the table as CSV",
        )
    text = text_of(file, encoding)
    delimiter = delimiter_of(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    names: list[str] | None = None
    rows, places = [], []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if names is None:
                names = [cell.strip() for cell in cells]
                while names and not names[-1]:
                    names.pop()
                refuse_bad_names(names, file.name)
                continue
            if len(cells) < len(names) or any(cell.strip() for cell in cells[len(names) :]):
                where = f"{file.name}, line {reader.line_num}"
                raise wrong_length(where, len(cells), len(names), delimiter)
            rows.append(cells[: len(names)])
            places.append(f"line {reader.line_num}")
    except csv.Error as error:
        raise FileError(
            f"{file.name}, line {reader.line_num}",
            f"text that is no CSV ({error})",
            "cells separated by commas, semicolons or tabs",
            "correct the line",
        ) from None
    if names is None or not rows:
        raise _empty(file.name, names)
    return Sheet(file.name, tuple(names), tuple(map(tuple, rows)), tuple(places), delimiter)


def _workbook_sheet(file: Path) -> Sheet:
    lines = read_lines(file, percent=True)
    if not lines.rows:
        raise _empty(file.name, lines.names)
    places = tuple(f"line {number}" for number in lines.numbers)
    return Sheet(file.name, tuple(lines.names), tuple(map(tuple, lines.rows)), places)


def _columns_of(table: Any, name: str) -> dict[str, Any]:
    frame = frame_of(table, name)
    if frame is None:
        raise FileError(
            name,
            f"an object of type {type(table).__name__}",
            "a dataframe, a mapping of columns, a list of mappings, or the path of a CSV, "
            "Parquet or .xlsx file",
            "give one of these",
        )
    return {column: frame.get_column(column) for column in frame.columns}


def _cells(column: Any, where: str) -> list[Any]:
    series = nw.from_native(column, pass_through=True, series_only=True, allow_series=True)
    if isinstance(series, nw.Series):
        return series.to_list()
    if isinstance(column, str | bytes) or not isinstance(column, Iterable):
        raise FileError(where, repr(column), "a sequence of cells", "put the cell into a list")
    return list(column)


def _plain(cell: Any) -> Any:
    """Return a cell as Python has it, where numpy has a date or time of its own."""
    if not isinstance(cell, np.datetime64):
        return cell
    in_days = np.datetime_data(cell.dtype)[0] in ("Y", "M", "W", "D")
    return cell.astype("M8[D]" if in_days else "M8[us]").item()


def _sheet(name: str, columns: Sequence[Any], rows: list[list[Any]]) -> Sheet:
    if not rows or not columns:
        raise _empty(name, columns)
    names = [str(column).strip() for column in columns]
    refuse_bad_names(names, name)
    cells = tuple(tuple(map(_plain, row)) for row in rows)
    return Sheet(name, tuple(names), cells, tuple(f"row {i}" for i in range(len(rows))))


def _empty(name: str, columns: Sequence[Any] | None) -> FileError:
    header = f"no line below the header {name_some(columns)}" if columns else "nothing in it"
    return FileError(
        name, header, "a header and at least one line", "check that it is the right file"
    )
