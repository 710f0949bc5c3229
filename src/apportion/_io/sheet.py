"""Small tables, cell by cell, with the place of every row for messages: diaries and totals."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from apportion._io.csv_text import delimiter_of, text_of
from apportion._io.file_kinds import (
    PARQUET_ENDINGS,
    TEXT_ENDINGS,
    WORKBOOK_ENDINGS,
    ending_of,
    refuse_bad_names,
    require_file,
    wrong_length,
)
from apportion._io.identifiers import python_times
from apportion._io.workbook import read_lines
from apportion.exceptions import FileError, name_some

_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+(?:[eE][+-]?\d+)?\s*(?:%\s*)?")


@dataclass(frozen=True)
class Sheet:
    """The columns and rows of a table, and the place of each row.

    Attributes
    ----------
    name : str
        What the table is called in messages.
    columns : tuple of str
        The columns.
    rows : tuple of tuples
        The cells; text from a CSV file or a spreadsheet, else what the table held.
    places : tuple of str
        The place of each row, such as "line 3".
    delimiter : str
        The separator of the cells of a CSV file.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    places: tuple[str, ...]
    delimiter: str = ","

    def __post_init__(self) -> None:
        if not self.rows or not self.columns:
            header = f"no line below the header {name_some(self.columns)}"
            raise FileError(
                self.name,
                header if self.columns else "nothing in it",
                "a header and at least one line",
                "check that it is the right file",
            )

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.columns)}

    def column(self, name: str) -> list[Any]:
        """Return the cells of a column."""
        j = self._position[name]
        return [row[j] for row in self.rows]

    def amounts(self, name: str) -> list[Any]:
        """Return the cells of a column of numbers or durations, with points for decimal commas."""
        cells = self.column(name)
        if self.delimiter == ",":
            return cells
        return [
            cell.replace(",", ".")
            if isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(cell)
            else cell
            for cell in cells
        ]

    def place(self, row: int, column: str | None = None) -> str:
        """Return the place of a cell or a row in words."""
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
    columns = table if isinstance(table, Mapping) else frame_of(table, name)
    if columns is None:
        raise FileError(
            name,
            f"an object of type {type(table).__name__}",
            "a dataframe, a mapping of columns, a list of mappings, or the path of a CSV, "
            "Parquet or .xlsx file",
            "give one of these",
        )
    keys = list(columns.columns if isinstance(columns, nw.DataFrame) else columns)
    cells = {key: _cells(columns[key], name, key) for key in keys}
    lengths = {key: len(column) for key, column in cells.items()}
    if len(set(lengths.values())) > 1:
        few, many = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise FileError(
            name,
            f"columns of different lengths: {few!r} has {lengths[few]}, {many!r} {lengths[many]}",
            "columns of one length",
            "fill the shorter one; a missing cell is None",
        )
    return _sheet(name, list(cells), zip(*cells.values(), strict=True))


def frame_of(table: Any, name: str) -> nw.DataFrame[Any] | None:
    """Return a dataframe of pandas, polars or pyarrow, collected if lazy; None = no dataframe."""
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
        cells = (column.to_pylist() for column in table.columns)
        return _sheet(file.name, table.column_names, zip(*cells, strict=True))
    if ending in WORKBOOK_ENDINGS:
        lines = read_lines(file, percent=True)
        places = [f"line {number}" for number in lines.numbers]
        return Sheet(file.name, tuple(lines.names), tuple(map(tuple, lines.rows)), tuple(places))
    require_file(file)
    if ending not in TEXT_ENDINGS:
        raise FileError(
            file.name,
            f"a {ending} file",
            "CSV (.csv, .csv.gz), Parquet (.parquet) or spreadsheet (.xlsx) files",
            "save the table as CSV",
        )
    return _csv_sheet(file, text_of(file, encoding))


def _csv_sheet(file: Path, text: str) -> Sheet:
    delimiter = delimiter_of(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    names: list[str] = []
    rows, places = [], []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if not names:
                names = [cell.strip() for cell in cells]
                while not names[-1]:
                    names.pop()
                refuse_bad_names(names, file.name)
                continue
            if len(cells) < len(names) or any(cell.strip() for cell in cells[len(names) :]):
                place = f"{file.name}, line {reader.line_num}"
                raise wrong_length(place, len(cells), len(names), delimiter)
            rows.append(tuple(cells[: len(names)]))
            places.append(f"line {reader.line_num}")
    except csv.Error as error:
        raise FileError(
            "",
            f"text that is no CSV ({error})",
            "cells separated by commas, semicolons or tabs",
            "correct the line",
            place=f"{file.name}, line {reader.line_num}",
        ) from None
    return Sheet(file.name, tuple(names), tuple(rows), tuple(places), delimiter)


def _cells(column: Any, table: str, name: Any) -> list[Any]:
    series = nw.from_native(column, pass_through=True, series_only=True, allow_series=True)
    if isinstance(series, nw.Series):
        return series.to_list()
    if isinstance(column, str | bytes) or not isinstance(column, Iterable):
        allowed, advice = "a sequence of cells", "put the cell into a list"
        raise FileError("", repr(column), allowed, advice, place=table, column=str(name))
    return list(column)


def _sheet(name: str, columns: Sequence[Any], rows: Iterable[Iterable[Any]]) -> Sheet:
    names = [str(column).strip() for column in columns]
    refuse_bad_names(names, name)
    cells = [
        tuple(
            python_times(np.asarray(cell)).item() if isinstance(cell, np.datetime64) else cell
            for cell in row
        )
        for row in rows
    ]
    return Sheet(name, tuple(names), tuple(cells), tuple(f"row {i}" for i in range(len(cells))))
