"""What the cells of a text file spell: numbers, truth values, times.

A text file is read as text, byte for byte, because ids and names are text: "1.1" and "1.10" are two
bags. Only what is used as a number or a time, such as a feature, is read as one, and it is here.
"""

from __future__ import annotations

import re
from typing import Any

MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None")
"""How a missing number or category is spelled; of ids and names only the empty cell is missing."""

NUMBER = r"^\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|(?i:inf|infinity|nan))\s*$"
LOCALIZED = (
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


def texts_of(table: Any, name: str) -> Any:
    """Return a column with its missing cells empty, for use as categories."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = table.column(name)
    if delimiter_in(table) is None or cells.type != pa.string():
        return cells
    missing = pc.is_in(cells, pa.array(MISSING))
    return pc.if_else(missing, None, cells) if pc.any(missing).as_py() else cells


def values_of(table: Any, name: str) -> Any:
    """Return a column of a text file as numbers, truth values or times where all its cells are.

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
    if points_are_unclear(cells, delimiter):
        return cells
    texts = with_points(cells, delimiter)
    values = _cast(texts)
    if values is None:
        trimmed = pc.ascii_trim_whitespace(texts)
        values = None if trimmed.equals(texts) else _cast(trimmed)
    return cells if values is None else values


def delimiter_in(table: Any) -> str | None:
    """Return the separator of the cells of the text file that a table is from; None = no such."""
    marks = getattr(getattr(table, "schema", None), "metadata", None) or {}
    return marks[_DELIMITER].decode() if _DELIMITER in marks else None


def with_points(cells: Any, delimiter: str | None) -> Any:
    """Return text with points for decimal commas, where commas separate no cells."""
    import pyarrow.compute as pc

    if delimiter in (None, ",") or not pc.any(pc.match_substring(cells, ",")).as_py():
        return cells
    return pc.replace_substring_regex(cells, _DECIMAL_COMMA, r"\1.\2")


def points_are_unclear(cells: Any, delimiter: str | None) -> bool:
    """Return whether points in numbers may separate thousands.

    They may in "1.234" beside "1,5" and, in a file with semicolons, beside "999".
    """
    if delimiter in (None, ",") or not _count(cells, _THOUSANDS):
        return False
    if _count(cells, _DECIMAL_COMMA):
        return True
    only_thousands = _count(cells, _WITH_POINT) == _count(cells, _THOUSANDS)
    return delimiter == ";" and only_thousands and _count(cells, _BELOW_THOUSAND) > 0


def _cast(texts: Any) -> Any:
    """Return text as the first type that all of its cells are; None where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    times = (pa.date32(), pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("ns", "UTC"))
    first = texts[pc.index(pc.is_valid(texts), True).as_py()].as_py()
    others = (pa.float64(),) if re.match(NUMBER, first) else (pa.bool_(), *times)
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
