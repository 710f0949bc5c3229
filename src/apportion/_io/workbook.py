"""The first sheet of a spreadsheet (.xlsx) as lines of text."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers import expat

from apportion._io.file_kinds import (
    ZIP_START,
    check_unpacked,
    empty_file,
    first_bytes,
    refuse_bad_names,
    require_file,
    unreadable,
    wrong_length,
)
from apportion.exceptions import FileError

MOST_CELLS = 20_000_000
"""Cells of a sheet: openpyxl takes minutes for so many, and gigabytes of memory."""

_MOST_ROWS, _MOST_COLUMNS = 1_048_576, 16_384
"""The size of a sheet in Excel 2007 and later."""

_CHUNK = 2**20
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_ROW, _CELL = f"{_SHEET} row", f"{_SHEET} c"


class WorkbookLines(NamedTuple):
    """The header of a sheet, the cells of its lines as text (empty = missing), and line numbers."""

    names: list[str]
    rows: list[list[str]]
    numbers: list[int]


def read_lines(path: Path, *, percent: bool) -> WorkbookLines:
    """Return the first sheet of a spreadsheet; lines without any cell are left out.

    Cells are what the spreadsheet last computed, as text: 5 and 5.0 are "5", dates and times are
    ISO 8601, durations are hours, minutes and seconds.

    Parameters
    ----------
    path : path
        A file that ends in `.xlsx`.
    percent : bool
        Whether a number that the spreadsheet shows as a percentage is written as one, "35%".
    """
    require_file(path)
    first_bytes(path, ZIP_START, "a spreadsheet")
    try:
        import openpyxl
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Reading .xlsx files needs openpyxl: install apportion[xlsx], or save the table as CSV."
        ) from error
    try:
        with zipfile.ZipFile(path) as archive:  # which never unpacks more than it states
            check_unpacked(path, sum(member.file_size for member in archive.infolist()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what openpyxl skips, such as validation rules
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            try:
                sheet = book.worksheets[0]
                _check_size(sheet, path)
                return _table(path, _filled(sheet, percent))
            finally:
                book.close()
    except (MemoryError, FileError):
        raise
    except Exception as error:  # a damaged file may lead openpyxl into any exception
        raise unreadable(
            path,
            "no whole spreadsheet",
            error,
            "a spreadsheet (.xlsx) whose first sheet is a table",
            "save it again, or save the table as CSV",
        ) from None


def _table(path: Path, lines: Iterator[tuple[int, dict[int, str]]]) -> WorkbookLines:
    """Return the header, and the lines below it with a cell for every column."""
    header, first = next(lines, (0, {}))
    if not first:
        raise empty_file(path)
    width = max(first) + 1
    names = [first.get(place, "").strip() for place in range(width)]
    refuse_bad_names(names, path.name)
    rows: list[list[str]] = []
    numbers: list[int] = []
    for number, cells in lines:
        n_cells = max(cells) + 1
        if n_cells > width == 1:
            raise FileError(
                "",
                f"one cell, {names[0]!r}, above lines of {n_cells}",
                "a name for every column in the first line, no title and no merged cells",
                "drop the lines above the header, and split merged cells",
                place=f"{path.name}, line {header}",
            )
        if n_cells > width:
            raise wrong_length(f"{path.name}, line {number}", n_cells, width)
        if width * len(rows) >= MOST_CELLS:
            raise _too_large(path, f"more than {len(rows):,} lines of {width:,} columns")
        rows.append([cells.get(place, "") for place in range(width)])
        numbers.append(number)
    return WorkbookLines(names, rows, numbers)


def _check_size(sheet: Any, path: Path) -> None:
    """Raise if a sheet has a row or column that no sheet has, or too many cells.

    This reads the numbers of rows and cells alone; openpyxl holds a whole row, and fills the gaps.
    """
    row = column = n_cells = 0

    def begin(tag: str, values: dict[str, str]) -> None:
        nonlocal row, column, n_cells
        if tag == _ROW:
            row, column = int(float(values.get("r", row + 1))), 0  # as openpyxl reads it
            if row > _MOST_ROWS:
                raise _beyond(path, f"a row numbered {row:,}")
        elif tag == _CELL:
            n_cells += 1
            name = values.get("r", "").rstrip("0123456789").strip("$").upper()
            column = _column_number(name) if name else column + 1
            if column > _MOST_COLUMNS:
                raise _beyond(path, f"a cell in column {name or column}")
            if n_cells > MOST_CELLS:
                raise _too_large(path, f"more than {MOST_CELLS:,} cells")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = begin
    with sheet._get_source() as source:
        while chunk := source.read(_CHUNK):
            parser.Parse(chunk)


def _column_number(name: str) -> int:
    """Return the number of a column from its letters.

    Examples
    --------
    >>> _column_number("A"), _column_number("AB"), _column_number("XFD")
    (1, 28, 16384)
    """
    number = 0
    for letter in name[:4]:  # four are too many
        number = 26 * number + ord(letter) - ord("A") + 1
    return number


def _beyond(path: Path, found: str) -> FileError:
    return FileError(
        path.name,
        found,
        f"{_MOST_ROWS:,} rows and {_MOST_COLUMNS:,} columns, the most of a sheet",
        "the file is damaged: save it again, or save the table as CSV",
    )


def _too_large(path: Path, found: str) -> FileError:
    return FileError(
        path.name,
        found,
        f"up to {MOST_CELLS:,} cells in a spreadsheet",
        "save the table as CSV or Parquet",
    )


def _filled(sheet: Any, percent: bool) -> Iterator[tuple[int, dict[int, str]]]:
    """Yield the lines of a sheet that are not empty: their numbers, and cells by their places."""
    from openpyxl.cell.read_only import ReadOnlyCell
    from openpyxl.worksheet._reader import WorkSheetParser

    book, last = sheet.parent, 0
    with sheet._get_source() as source:
        # Not `sheet.iter_rows`, which makes up all the rows and cells that the file leaves out.
        parser = WorkSheetParser(
            source,
            sheet._shared_strings,
            data_only=book.data_only,
            epoch=book.epoch,
            date_formats=book._date_formats,
            timedelta_formats=book._timedelta_formats,
        )
        for number, row in parser.parse():
            texts = {
                cell["column"] - 1: _text(ReadOnlyCell(sheet, **cell), percent) for cell in row
            }
            filled = [place for place, text in texts.items() if text.strip()]
            if filled and number > last:
                last, end = number, max(filled)
                yield number, {place: text for place, text in texts.items() if place <= end}


def _text(cell: Any, percent: bool) -> str:
    value, form = cell.value, str(getattr(cell, "number_format", "") or "")
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        if percent and form.rstrip().endswith("%"):
            return f"{100 * value:.15g}%"
        whole = isinstance(value, int) or value.is_integer()
        return str(int(value)) if whole else repr(value)
    if isinstance(value, datetime):
        in_days = value.time() == time() and "h" not in form.casefold()
        return value.date().isoformat() if in_days else value.isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        minutes, seconds = divmod(value.days * 86400 + value.seconds, 60)
        text = f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
        return f"{text}.{value.microseconds:06}" if value.microseconds else text
    return str(value)
