"""Columns of CSV text, as Arrow tables of text, with the line of every row for messages."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from apportion._io.text import (
    delimiter_of,
    empty_file,
    encoding_of,
    is_compressed,
    open_bytes,
    refuse_bad_names,
    wrong_length,
)
from apportion._io.values import mark_as_text
from apportion.exceptions import FileError

_START = 2**16
_BLOCK = 2**20
_LARGEST_BLOCK = 2**31 - 1


class CsvText:
    """The text of a CSV file, or rows of another file in that form.

    Parameters
    ----------
    path : path
        The file.
    encoding : str, optional
        Its encoding, see `encoding_of`.
    rows : str, optional
        A header and rows that are separated by commas, where these are not the whole file.
    missing : sequence of str
        How a missing cell is spelled.
    """

    def __init__(
        self,
        path: Path,
        encoding: str | None = None,
        rows: str | None = None,
        missing: Sequence[str] = ("",),
    ) -> None:
        self.path = path
        self._rows = rows
        self._missing = list(missing)
        self._encoding = encoding_of(path, encoding) if rows is None else "utf-8"
        with self._text() as text:
            start = text.read(_START)
        if not start.strip():
            raise empty_file(path)
        self._delimiter = delimiter_of(start) if rows is None else ","
        self._block = _BLOCK
        self._long_cells = False  # whether a cell may hold several lines; slower, so tried second

    def columns(self) -> Any:
        """Return the columns as a `pyarrow.Table` of text; see `values_of` for numbers."""
        table = self._parsed()
        table = _without_empty_end(table.rename_columns([n.strip() for n in table.column_names]))
        refuse_bad_names(table.column_names, self.path.name)
        return mark_as_text(table, self._delimiter)

    def place(self, row: int) -> str:
        """Return where a row stands, in words."""
        try:
            with self._text() as text:
                line, _ = next(islice(self._records(text), row + 1, None))
        except (csv.Error, StopIteration):
            line = None
        return self._words(row, line)

    def _words(self, row: int, line: int | None) -> str:
        known = line is not None and self._rows is None
        return f"{self.path.name}, {f'line {line}' if known else f'row {row}'}"

    def _parsed(self) -> Any:
        """Return the columns, all of them as text."""
        import pyarrow as pa
        from pyarrow import csv as arrow

        while True:
            try:
                form = {"read_options": self._blocks(), "parse_options": self._form()}
                with arrow.open_csv(self._source(), **form) as header:
                    names = header.schema.names
                as_text = arrow.ConvertOptions(
                    strings_can_be_null=True,
                    null_values=self._missing,
                    column_types=dict.fromkeys(names, pa.string()),
                )
                return arrow.read_csv(self._source(), **form, convert_options=as_text)
            except pa.ArrowInvalid as error:
                if "straddl" in str(error) and self._block < _LARGEST_BLOCK:
                    self._block = min(16 * self._block, _LARGEST_BLOCK)
                elif not self._long_cells:
                    self._long_cells = True
                else:
                    raise self._no_csv(error) from None

    def _blocks(self) -> Any:
        import pyarrow as pa
        from pyarrow import csv as arrow

        # Before pyarrow 23, a read in threads that fails can hang the process (apache/arrow#48741).
        threads = int(pa.__version__.partition(".")[0]) >= 23
        return arrow.ReadOptions(block_size=self._block, use_threads=threads)

    def _form(self) -> Any:
        from pyarrow import csv as arrow

        return arrow.ParseOptions(delimiter=self._delimiter, newlines_in_values=self._long_cells)

    def _source(self) -> Any:
        """Return what pyarrow reads, in UTF-8."""
        as_it_is = self._rows is None and self._encoding == "utf-8-sig"
        if as_it_is and not is_compressed(self.path):
            return str(self.path)
        import pyarrow as pa

        with self._text() as text:
            return pa.BufferReader(text.read().encode("utf-8"))

    @contextmanager
    def _text(self) -> Iterator[TextIO]:
        if self._rows is not None:
            yield io.StringIO(self._rows, newline="")
            return
        with (
            open_bytes(self.path) as file,
            io.TextIOWrapper(file, self._encoding, newline="") as text,
        ):
            yield text

    def _records(self, text: TextIO) -> Iterator[tuple[int, list[str]]]:
        """Yield the header and the rows, each with the line where it begins."""
        reader = csv.reader(text, delimiter=self._delimiter)
        line = 1
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1

    def _no_csv(self, error: Exception) -> FileError:
        """Return the error for text that is no CSV, at its first line of another length."""
        try:
            with self._text() as text:
                records = self._records(text)
                width = len(next(records)[1])
                row = -1
                for row, (line, cells) in enumerate(records):
                    if len(cells) != width:
                        where = self._words(row, line)
                        return wrong_length(where, len(cells), width, self._delimiter)
                if row < 0:
                    return no_row(self.path)
        except csv.Error:
            pass
        return FileError(
            self.path.name,
            f"text that is no CSV ({first_sentence(error)})",
            "a header and lines of cells",
            "check that it is the right file",
        )


def no_row(path: Path) -> FileError:
    """Return the error for a file with a header and nothing below it."""
    return FileError(path.name, "no row", "at least one row", "check that it is the right file")


def first_sentence(error: Exception) -> str:
    """Return the first line of what an error says, in 200 characters at most."""
    text = str(error).strip().splitlines()
    return text[0].rstrip(".")[:200] if text else type(error).__name__


def _without_empty_end(table: Any) -> Any:
    """Return the table without nameless, empty columns at its end, as spreadsheets leave them."""
    while table.num_columns and not table.column_names[-1]:
        last = table.column(table.num_columns - 1)
        if last.null_count < len(last):
            break
        table = table.remove_column(table.num_columns - 1)
    return table
