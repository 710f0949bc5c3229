"""The cells of a column as numbers, or as places among categories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from apportion._io.tables import is_missing, plain_name, respelled
from apportion._io.values import (
    LOCALIZED,
    NUMBER,
    points_are_unclear,
    with_points,
)
from apportion._utils.typing import FloatArray, IntArray
from apportion.exceptions import FileError

_LARGEST = 1e100

MISSING, UNSEEN = -1, -2
"""Codes of a cell that is empty, and of a category that is not known."""


def is_text(kind: Any) -> bool:
    """Return whether a type is text."""
    import pyarrow.types as kinds

    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def decoded(cells: Any) -> Any:
    """Return the values of a column whose cells are places in a dictionary."""
    import pyarrow.types as kinds

    return cells.cast(cells.type.value_type) if kinds.is_dictionary(cells.type) else cells


def can_be_feature(kind: Any) -> bool:
    """Return whether cells of a type are text, numbers, truth values or nothing."""
    import pyarrow.types as kinds

    if kinds.is_dictionary(kind):
        return can_be_feature(kind.value_type)
    plain = (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal, kinds.is_null)
    return is_text(kind) or any(one(kind) for one in plain)


def holds_numbers(cells: Any) -> bool:
    """Return whether cells are numbers, or text that is mostly numbers, and no categories.

    Numbers may be written in a way that `numbers_of` refuses, such as "1.234,56".
    """
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    if not is_text(cells.type):
        return not kinds.is_dictionary(cells.type)
    n_numbers = pc.sum(pc.match_substring_regex(cells, f"{NUMBER}|{LOCALIZED}")).as_py() or 0
    n_texts = pc.sum(pc.match_substring_regex(cells, r"\S")).as_py() or 0
    return bool(2 * n_numbers > n_texts)


def numbers_of(
    cells: Any,
    name: str,
    place: Callable[[int], str],
    or_else: str = "",
    delimiter: str | None = None,
) -> FloatArray:
    """Return a column's numbers, NaN where a cell is empty.

    A cell that is no number, or an infinite one or one too large to be squared, is an error.

    Parameters
    ----------
    cells : pyarrow.ChunkedArray
        The column.
    name : str
        What it is called.
    place : callable
        Says where a row stands, for messages.
    or_else : str
        What can be done where a cell is right although it is no number.
    delimiter : str, optional
        What separates the cells of the text file that the column is from.
    """
    import pyarrow as pa

    cells = decoded(cells)
    if is_text(cells.type):
        cells = _spelled_numbers(cells, delimiter, name, place, or_else)
    values = np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    bad = np.abs(values) > _LARGEST
    if bad.any():
        row = int(np.argmax(bad))
        raise FileError(
            f"{place(row)}, column {name!r}",
            f"{values[row]:g}",
            "numbers between -1e100 and 1e100",
            "correct the cell, or empty it for 'missing'",
        )
    return np.asarray(values)


def levels_of(cells: Any) -> tuple[str, ...]:
    """Return a column's categories, sorted."""
    return tuple(sorted({_level(value) for value in decoded(cells).unique().to_pylist()} - {""}))


def codes_of(cells: Any, levels: Sequence[str]) -> IntArray:
    """Return each cell's place among the categories, or `MISSING`, or `UNSEEN`.

    A number that no category spells in the same way is that category which is the same number.
    """
    encoded = decoded(cells).dictionary_encode()
    places = {level: h for h, level in enumerate(levels)} | {"": MISSING}
    texts = [_level(value) for value in encoded.chunk(0).dictionary.to_pylist()]
    alike = respelled(texts, levels)
    found = np.array([*(places.get(alike.get(text, text), UNSEEN) for text in texts), MISSING])
    return np.concatenate(
        [found[chunk.indices.fill_null(len(texts)).to_numpy()] for chunk in encoded.chunks]
    )


def _level(value: Any) -> str:
    return "" if is_missing(value) else plain_name(value)


def _spelled_numbers(
    cells: Any, delimiter: str | None, name: str, place: Callable[[int], str], or_else: str
) -> Any:
    """Return text with nothing but numbers that can be cast; any other cell is an error."""
    import pyarrow.compute as pc

    unclear = points_are_unclear(cells, delimiter)
    texts = cells if unclear else with_points(cells, delimiter)
    is_number = pc.match_substring_regex(texts, NUMBER)
    if unclear:
        is_number = pc.and_not(is_number, pc.match_substring(texts, "."))
    wrong = pc.and_not(pc.match_substring_regex(texts, r"\S"), is_number)
    if pc.any(wrong).as_py():
        row = pc.index(wrong, True).as_py()
        raise _no_number(cells[row].as_py(), unclear, f"{place(row)}, column {name!r}", or_else)
    return pc.ascii_trim_whitespace(pc.if_else(is_number, texts, None))


def _no_number(cell: str, unclear: bool, where: str, or_else: str) -> FileError:
    import pyarrow as pa
    import pyarrow.compute as pc

    if unclear or pc.match_substring_regex(pa.array([cell]), LOCALIZED)[0].as_py():
        return FileError(
            where,
            f"{cell!r}, which may be a number with a decimal comma, with thousands separators or "
            "with a percent sign",
            "plain numbers such as 1234.56, with a decimal comma only where semicolons or tabs "
            "separate the cells",
            f"export the column as plain numbers{or_else}",
        )
    return FileError(where, repr(cell), "numbers, or an empty cell", f"correct the cell{or_else}")
