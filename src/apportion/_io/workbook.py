"""The first sheet of a spreadsheet (.xlsx) as lines of text."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from apportion._io.text import empty_file, refuse_bad_names, require_file, wrong_length
from apportion.exceptions import FileError

WORKBOOK_ENDINGS = (".xlsx", ".xlsm")

_ZIP = b"PK\3\4"
_LOCKED_OR_OLD = b"\xd0\xcf\x11\xe0"
"""How files of Office begin that are encrypted, or older than .xlsx."""


class Lines(NamedTuple):
    """The header of a sheet, the cells of its lines as text (empty = missing), and line numbers."""

    names: list[str]
    rows: list[list[str]]
    numbers: list[int]


def read_lines(path: Path, *, percent: bool) -> Lines:
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
    _require_workbook(path)
    openpyxl = _openpyxl()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what openpyxl does not read, such as rules of input
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            try:
                sheet = book.worksheets[0]
                sheet.reset_dimensions()  # what the file says about its size is often wrong
                lines = list(_filled(sheet, percent))
            finally:
                book.close()
    except MemoryError:
        raise
    except Exception as error:  # openpyxl raises whatever a damaged file leads it into
        raise FileError(
            path.name,
            f"no whole spreadsheet ({str(error).strip()[:200] or type(error).__name__})",
            "a spreadsheet (.xlsx) whose first sheet is a table",
            "save it again, or save the table as CSV",
        ) from None
    if not lines:
        raise empty_file(path)
    names = [cell.strip() for cell in lines[0][1]]
    refuse_bad_names(names, path.name)
    _refuse_long_lines(lines, path)
    width = len(names)
    rows = [cells + [""] * (width - len(cells)) for _, cells in lines[1:]]
    return Lines(names, rows, [number for number, _ in lines[1:]])


def _filled(sheet: Any, percent: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of a sheet that hold anything, without empty cells at their end."""
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
    return _clock(value) if isinstance(value, timedelta) else str(value)


def _clock(span: timedelta) -> str:
    seconds = span.days * 86400 + span.seconds
    text = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{span.microseconds:06}" if span.microseconds else text


def _refuse_long_lines(lines: list[tuple[int, list[str]]], path: Path) -> None:
    (header, (*_, name)), width = lines[0], len(lines[0][1])
    for number, cells in lines[1:]:
        if len(cells) > width == 1:
            raise FileError(
                f"{path.name}, line {header}",
                f"one cell, {name!r}, above lines of {len(cells)}",
                "a name for every column in the first line, no title and no merged cells",
                "drop the lines above the header, and split merged cells",
            )
        if len(cells) > width:
            raise wrong_length(f"{path.name}, line {number}", len(cells), width)


def _require_workbook(path: Path) -> None:
    """Raise for a file that is no spreadsheet of the form that can be read."""
    require_file(path)
    with open(path, "rb") as file:
        start = file.read(4)
    if not start:
        raise empty_file(path)
    if start == _LOCKED_OR_OLD:
        raise FileError(
            path.name,
            "a spreadsheet that is encrypted, or of the older form .xls",
            "spreadsheets (.xlsx) without a password",
            "open it and save it without a password as .xlsx, or save the table as CSV",
        )
    if start != _ZIP:
        raise FileError(
            path.name,
            "what does not begin as a spreadsheet does",
            "a spreadsheet in a file of this name",
            "if it is text, call it .csv",
        )


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Reading .xlsx files needs openpyxl: install apportion[xlsx], or save the table as CSV."
        ) from error
    return openpyxl
