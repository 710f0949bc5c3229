"""The values that cells of a text file spell: numbers, truth values, times and categories.

A text file is read as text, byte for byte, because ids and names are text: "1.1" and "1.10" are two
bags. Only what is used as a number or a time, such as a feature, is read as one, by this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from apportion._io.identifiers import is_missing, plain_name, respelled
from apportion._utils.magnitude import LARGEST
from apportion._utils.typing import FloatArray, IntArray
from apportion.exceptions import FileError, hint

MISSING, UNSEEN = -1, -2
"""Codes of an empty cell, and of a category that is not known."""

_SPELLED_MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None")
"""How a missing number or category is spelled; of ids and names only the empty cell is missing."""

_NUMBER = r"^\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|(?i:inf|infinity|nan))\s*$"
_LOCALIZED = (
    r"^\s*[+-]?(\d+,\d+([eE][+-]?\d+)?|\d{1,3}([., '’\x{a0}\x{202f}]\d{3})+([.,]\d+)?|"
    r"\d+([.,]\d+)?\s*%)\s*$"
)
"""Numbers with a decimal comma, separators of thousands or a percent sign."""

_DELIMITER = b"apportion.delimiter"
_DECIMAL_COMMA = r"^(\s*[+-]?\d+),(\d+(?:[eE][+-]?\d+)?\s*)$"
_WITH_POINT = r"\d\.\d"
_THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2}(\.\d{3})+\s*$"
_BELOW_THOUSAND = r"^\s*[+-]?\d{1,3}\s*$"


def mark_as_text(table: Any, delimiter: str) -> Any:
    """Return a table that remembers that it was read as text, with this separator of cells."""
    return table.replace_schema_metadata({_DELIMITER: delimiter})


def delimiter_in(table: Any) -> str | None:
    """Return the separator of cells of the text file that a table was read from; None = no such."""
    marks = getattr(getattr(table, "schema", None), "metadata", None) or {}
    return marks[_DELIMITER].decode() if _DELIMITER in marks else None


def texts_of(table: Any, name: str) -> Any:
    """Return a column with its missing cells empty, for use as categories."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = table.column(name)
    if delimiter_in(table) is None or cells.type != pa.string():
        return cells
    missing = pc.is_in(cells, pa.array(_SPELLED_MISSING))
    return pc.if_else(missing, None, cells) if pc.any(missing).as_py() else cells


def values_of(table: Any, name: str) -> Any:
    """Return a column of a text file as numbers, truth values or times if all its cells are.

    Codes such as 007, and columns that are no single kind, stay text. Columns that have a type
    already, of other files or of a table whose columns were read before, stay as they are.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    cells, delimiter = texts_of(table, name), delimiter_in(table)
    if delimiter is None or cells.type != pa.string():
        return cells
    if cells.null_count == len(cells):
        return pa.chunked_array([pa.nulls(len(cells))])
    if _points_are_unclear(cells, delimiter):
        return cells
    texts = _with_points(cells, delimiter)
    values = _cast(texts)
    if values is None:
        trimmed = pc.ascii_trim_whitespace(texts)
        values = None if trimmed.equals(texts) else _cast(trimmed)
    return cells if values is None else values


def numbers_of(
    cells: Any,
    name: str,
    place: Callable[[int], str],
    delimiter: str | None = None,
    *,
    or_categories: bool = False,
) -> FloatArray:
    """Return the numbers of a column, NaN for an empty cell.

    A cell that is no number, or an infinite one or one too large to be squared, is an error.

    Parameters
    ----------
    cells : pyarrow.ChunkedArray
        The column.
    name : str
        Its name.
    place : callable
        Returns the place of a row in words, for messages.
    delimiter : str, optional
        The separator of cells of the text file that the column was read from.
    or_categories : bool, default=False
        Whether the caller could declare the column as one of categories.
    """
    import pyarrow as pa

    cells = decoded(cells)
    if is_text(cells.type):
        cells = _spelled_numbers(cells, name, place, delimiter, or_categories)
    values = np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    bad = np.abs(values) > LARGEST
    if bad.any():
        row = int(np.argmax(bad))
        raise FileError(
            "",
            f"{values[row]:g}",
            "numbers from -1e100 to 1e100",
            "correct the cell, or empty it for 'missing'",
            row=row,
            place=place(row),
            column=name,
        )
    return values


def holds_numbers(cells: Any) -> bool:
    """Return whether cells are numbers, or text that is mostly numbers, and no categories.

    Numbers may be written in a way that `numbers_of` refuses, such as "1.234,56".
    """
    import pyarrow.types as kinds

    if not is_text(cells.type):
        return not kinds.is_dictionary(cells.type)
    return 2 * _count(cells, f"{_NUMBER}|{_LOCALIZED}") > _count(cells, r"\S")


def levels_of(cells: Any) -> tuple[str, ...]:
    """Return the categories of a column, sorted."""
    return tuple(sorted({_level(value) for value in decoded(cells).unique().to_pylist()} - {""}))


def codes_of(cells: Any, levels: Sequence[str]) -> IntArray:
    """Return the position of each cell among the categories, or `MISSING`, or `UNSEEN`.

    A number that no category spells in the same way is the category that is the same number.
    """
    encoded = decoded(cells).dictionary_encode()
    positions = {level: h for h, level in enumerate(levels)} | {"": MISSING}
    texts = [_level(value) for value in encoded.chunk(0).dictionary.to_pylist()]
    alike = respelled(texts, levels)
    codes = np.array([*(positions.get(alike.get(text, text), UNSEEN) for text in texts), MISSING])
    return np.concatenate(
        [codes[chunk.indices.fill_null(len(texts)).to_numpy()] for chunk in encoded.chunks]
    )


def is_text(kind: Any) -> bool:
    """Return whether a type is text."""
    import pyarrow.types as kinds

    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def decoded(cells: Any) -> Any:
    """Return the values of a column whose cells are positions in a dictionary."""
    import pyarrow.types as kinds

    return cells.cast(cells.type.value_type) if kinds.is_dictionary(cells.type) else cells


def _level(value: Any) -> str:
    return "" if is_missing(value) else plain_name(value)


def _with_points(cells: Any, delimiter: str | None) -> Any:
    """Return text with points for decimal commas, unless commas separate cells."""
    import pyarrow.compute as pc

    if delimiter in (None, ",") or not pc.any(pc.match_substring(cells, ",")).as_py():
        return cells
    return pc.replace_substring_regex(cells, _DECIMAL_COMMA, r"\1.\2")


def _points_are_unclear(cells: Any, delimiter: str | None) -> bool:
    """Return whether points in numbers may separate thousands.

    They may in "1.234" beside "1,5" and, in a file with semicolons, beside "999".
    """
    if delimiter in (None, ",") or not _count(cells, _THOUSANDS):
        return False
    if _count(cells, _DECIMAL_COMMA):
        return True
    only_thousands = _count(cells, _WITH_POINT) == _count(cells, _THOUSANDS)
    return delimiter == ";" and only_thousands and _count(cells, _BELOW_THOUSAND) > 0


def _spelled_numbers(
    cells: Any, name: str, place: Callable[[int], str], delimiter: str | None, or_categories: bool
) -> Any:
    """Return text with nothing but numbers that can be cast; any other cell is an error."""
    import pyarrow.compute as pc

    unclear = _points_are_unclear(cells, delimiter)
    texts = cells if unclear else _with_points(cells, delimiter)
    is_number = pc.match_substring_regex(texts, _NUMBER)
    if unclear:
        is_number = pc.and_not(is_number, pc.match_substring(texts, "."))
    wrong = pc.and_not(pc.match_substring_regex(texts, r"\S"), is_number)
    if not pc.any(wrong).as_py():
        return pc.ascii_trim_whitespace(pc.if_else(is_number, texts, None))
    row = pc.index(wrong, True).as_py()
    cell = repr(cells[row].as_py())
    allowed, advice = "numbers, or an empty cell", "correct the cell"
    if unclear or _count(cells.slice(row, 1), _LOCALIZED):
        cell += (
            ", which may be a number with a decimal comma, with thousands separators or with a "
            "percent sign"
        )
        allowed = (
            "plain numbers such as 1234.56, with a decimal comma only where semicolons or tabs "
            "separate the cells"
        )
        advice = "export the column as plain numbers"
    if or_categories:
        advice += "; if the column holds categories, pass {categorical:{name}}"
    advice = hint(advice, name=name)
    raise FileError("", cell, allowed, advice, row=row, place=place(row), column=name)


def _cast(texts: Any) -> Any:
    """Return text as the first type that all of its cells are; None = there is no such type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    times = (pa.date32(), pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("ns", "UTC"))
    first = texts[pc.index(pc.is_valid(texts), True).as_py()].as_py()
    others = (pa.float64(),) if re.match(_NUMBER, first) else (pa.bool_(), *times)
    for kind in (pa.int64(), *others):
        try:
            values = texts.cast(kind)
        except pa.ArrowInvalid:
            continue
        is_code = kind == pa.int64() and _count(texts, r"^\s*0\d")
        return None if is_code else values
    return None


def _count(cells: Any, pattern: str) -> int:
    import pyarrow.compute as pc

    return pc.sum(pc.match_substring_regex(cells, pattern)).as_py() or 0
