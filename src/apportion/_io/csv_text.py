"""Text files: their encoding and separator, and CSV as Arrow tables of text.

Every cell stays text, byte for byte; `values` reads numbers and times where they are used.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from apportion._io.file_kinds import (
    check_unpacked,
    empty_file,
    first_bytes,
    is_compressed,
    no_row,
    open_bytes,
    refuse_bad_names,
    unreadable,
    wrong_length,
)
from apportion._io.values import mark_as_text
from apportion.exceptions import FileError, hint

_SEPARATORS = ",;\t|"
_CHUNK = 2**22
"""Bytes that are decoded at a time."""

_LONGEST_LINE, _MOST_COLUMNS = 2**24, 100_000
"""Characters of a line, and columns: a file that is no table could else keep the parser busy with
its first line for very long."""

_START = 2**16
"""Characters from which the separator is guessed."""

_BLOCK = 2**20
_LARGEST_BLOCK = 2**31 - 1
"""Bytes that pyarrow parses at a time, at first and at most (the limit of a 32-bit int)."""


def encoding_of(path: Path, encoding: str | None = None) -> str:
    """Return the encoding of a text file, after all of it was decoded once.

    A byte order mark decides; without one, it is UTF-8 if all bytes are, else the named encoding.
    A byte that cannot be decoded is an error that names its line.
    """
    if encoding is not None:
        try:
            b"ab".decode(encoding, "ignore")  # fails too if the result is no text, as of "hex"
            codecs.getincrementaldecoder(encoding)
        except (LookupError, UnicodeError):
            allowed = "a name such as 'utf-8', 'latin-1' or 'cp1252'"
            error = FileError("", repr(encoding), allowed, "correct it", parameter="encoding")
            raise error from None
    marked = first_bytes(path).startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    likely = "utf-16" if marked else "utf-8-sig"
    try:
        _check_decodes(path, likely)
    except FileError:
        if encoding is None or marked:
            raise
        _check_decodes(path, encoding)
        return encoding
    return likely


def _check_decodes(path: Path, encoding: str) -> None:
    """Raise an error for the first byte of a file that is not of an encoding, or is zero.

    A file that unpacks to too much, or a line that is too long, is an error too.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    line, chunk, wrong, n_bytes, length = 1, b"begin", "", 0, 0
    with open_bytes(path) as file:
        while chunk:
            chunk = file.read(_CHUNK)
            n_bytes += len(chunk)
            if is_compressed(path):
                check_unpacked(path, n_bytes)
            try:
                text, zero, _ = decoder.decode(chunk, final=not chunk).partition("\0")
                length = _length_of_line(text, length, path, line)
                line += text.count("\n")
                wrong = zero and "a zero byte"
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                name = encoding.removesuffix("-sig").upper()
                wrong = f"the byte 0x{error.object[error.start]:02x}, which is not {name}"
            if wrong:
                raise FileError(
                    "",
                    wrong,
                    "text in one encoding, UTF-8 unless another is named",
                    hint(
                        "check that it is a text file; save it as UTF-8, or name its encoding, "
                        "e.g. {encoding:cp1252}"
                    ),
                    place=f"{path.name}, line {line}",
                )


def _length_of_line(text: str, before: int, path: Path, line: int) -> int:
    """Return the length of the line that goes on after a text; raise if one is too long.

    A line that begins and ends within the text is shorter than any limit.
    """
    ends = [place for sign in "\r\n" if (place := text.find(sign)) >= 0]
    if before + min(ends, default=len(text)) > _LONGEST_LINE:
        raise FileError(
            "",
            f"a line of more than {_LONGEST_LINE:,} characters",
            "a line for every row",
            "check that it is a table, and that its lines end in line breaks",
            place=f"{path.name}, line {line}",
        )
    return len(text) - 1 - max(map(text.rfind, "\r\n")) if ends else before + len(text)


def text_of(path: Path, encoding: str | None = None) -> str:
    """Return the whole text of a file."""
    with _open_text(path, encoding_of(path, encoding)) as text:
        return text.read()


@contextmanager
def _open_text(path: Path, encoding: str) -> Iterator[TextIO]:
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding, newline="") as text:
        yield text


def delimiter_of(text: str) -> str:
    """Return the separator that the first line has most of, outside quotation marks."""
    header = next((line for line in text[:_START].splitlines() if line.strip()), "")
    counts = Counter(re.sub(r'"[^"]*"', "", header))
    best = max(_SEPARATORS, key=lambda sign: counts[sign])
    return best if counts[best] else ","


class CsvText:
    """The text of a CSV file, or rows of another file in that form.

    Parameters
    ----------
    path : path
        The file.
    encoding : str, optional
        Its encoding, see `encoding_of`.
    rows : str, optional
        A header and rows, separated by commas, if they are not the whole file.
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
            header, end, _ = start.lstrip("\r\n").replace("\r", "\n").partition("\n")
            header += "" if end else text.readline()
        if not start.strip():
            raise empty_file(path)
        self._delimiter = delimiter_of(start) if rows is None else ","
        n_columns = header.count(self._delimiter) + 1
        if n_columns > _MOST_COLUMNS:
            found, allowed = f"about {n_columns:,} columns", f"up to {_MOST_COLUMNS:,} columns"
            raise FileError(path.name, found, allowed, "leave some out, or save it as Parquet")

    def columns(self) -> Any:
        """Return the columns as a `pyarrow.Table` of text; see `values_of` for numbers."""
        table = self._parsed()
        names = [name.strip() for name in table.column_names]
        while names and not names[-1] and table.column(len(names) - 1).null_count == len(table):
            names.pop()  # spreadsheets leave empty columns without a name at the end
        refuse_bad_names(names, self.path.name)
        table = table.select(list(range(len(names)))).rename_columns(names)
        return mark_as_text(table, self._delimiter)

    def place(self, row: int) -> str:
        """Return the place of a row in words."""
        try:
            with self._text() as text:
                line, _ = next(islice(self._records(text), row + 1, None))
        except (csv.Error, StopIteration):
            line = None
        return self._place(row, line)

    def _place(self, row: int, line: int | None) -> str:
        has_line = line is not None and self._rows is None
        return f"{self.path.name}, {f'line {line}' if has_line else f'row {row}'}"

    def _parsed(self) -> Any:
        """Return the columns, all of them as text."""
        import pyarrow as pa
        from pyarrow import csv as arrow

        # A cell of several lines makes parsing slower, and a block must hold the longest row:
        # both are provided for only after a first attempt has failed.
        block, long_cells = _BLOCK, False
        # Before pyarrow 23, a read in threads that fails can hang the process (apache/arrow#48741).
        threads = int(pa.__version__.partition(".")[0]) >= 23
        while True:
            form = {
                "read_options": arrow.ReadOptions(block_size=block, use_threads=threads),
                "parse_options": arrow.ParseOptions(
                    delimiter=self._delimiter, newlines_in_values=long_cells
                ),
            }
            try:
                with arrow.open_csv(self._source(), **form) as header:
                    names = header.schema.names
                as_text = arrow.ConvertOptions(
                    strings_can_be_null=True,
                    null_values=self._missing,
                    column_types=dict.fromkeys(names, pa.string()),
                )
                return arrow.read_csv(self._source(), **form, convert_options=as_text)
            except pa.ArrowInvalid as error:
                if "straddl" in str(error) and block < _LARGEST_BLOCK:
                    block = min(16 * block, _LARGEST_BLOCK)
                elif not long_cells:
                    long_cells = True
                else:
                    raise self._no_csv(error) from None

    def _source(self) -> Any:
        """Return what pyarrow reads: a path, or bytes in UTF-8."""
        import pyarrow as pa

        is_utf8 = self._rows is None and self._encoding == "utf-8-sig"
        if is_utf8 and not is_compressed(self.path):
            return str(self.path)
        with self._text() as text:
            return pa.BufferReader(text.read().encode("utf-8"))

    @contextmanager
    def _text(self) -> Iterator[TextIO]:
        if self._rows is not None:
            yield io.StringIO(self._rows, newline="")
        else:
            with _open_text(self.path, self._encoding) as text:
                yield text

    def _records(self, text: TextIO) -> Iterator[tuple[int, list[str]]]:
        """Yield the header and the rows, each with the line on which it begins."""
        reader = csv.reader(text, delimiter=self._delimiter)
        line = 1
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1

    def _no_csv(self, error: Exception) -> FileError:
        """Return the error for text that is no CSV, at its first line of another length."""
        row = -1
        with suppress(csv.Error), self._text() as text:
            records = self._records(text)
            width = len(next(records)[1])
            for row, (line, cells) in enumerate(records):
                if len(cells) != width:
                    place = self._place(row, line)
                    return wrong_length(place, len(cells), width, self._delimiter)
            if row < 0:
                return no_row(self.path)
        return unreadable(
            self.path,
            "text that is no CSV",
            error,
            "a header and lines of cells",
            "check that it is the right file",
        )
