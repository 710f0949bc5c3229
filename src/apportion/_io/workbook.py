"""The first sheet of a spreadsheet (.xlsx) as lines of text."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from apportion._io.file_kinds import (
    ZIP_START,
    empty_file,
    first_bytes,
    refuse_bad_names,
    require_file,
    unreadable,
    wrong_length,
)
from apportion.exceptions import FileError


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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what openpyxl skips, such as validation rules
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            try:
                sheet = book.worksheets[0]
                sheet.reset_dimensions()  # the size that the file states is often wrong
                lines = list(_filled(sheet, percent))
            finally:
                book.close()
    except MemoryError:
        raise
    except Exception as error:  # a damaged file may lead openpyxl into any exception
        raise unreadable(
            path,
            "no whole spreadsheet",
            error,
            "a spreadsheet (.xlsx) whose first sheet is a table",
            "save it again, or save the table as CSV",
        ) from None
    if not lines:
        raise empty_file(path)
    (header, cells), *rest = lines
    names = [cell.strip() for cell in cells]
    refuse_bad_names(names, path.name)
    width = len(names)
    for number, cells in rest:
        if len(cells) > width == 1:
            raise FileError(
                "",
                f"one cell, {names[0]!r}, above lines of {len(cells)}",
                "a name for every column in the first line, no title and no merged cells",
                "drop the lines above the header, and split merged cells",
                place=f"{path.name}, line {header}",
            )
        if len(cells) > width:
            raise wrong_length(f"{path.name}, line {number}", len(cells), width)
    rows = [cells + [""] * (width - len(cells)) for _, cells in rest]
    return WorkbookLines(names, rows, [number for number, _ in rest])


def _filled(sheet: Any, percent: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of a sheet that are not empty, without empty cells at their end."""
    for number, row in enumerate(sheet.iter_rows(), start=1):
        cells = [_text(cell, percent) for cell in row]
        while cells and not cells[-1].strip():
            cells.pop()
        if cells:
            yield number, cells


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
