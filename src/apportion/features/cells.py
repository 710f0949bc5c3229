"""The cells of a column as numbers, or as places among categories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from apportion._typing import FloatArray, IntArray
from apportion.exceptions import FileError
from apportion.tables import is_missing, plain_name

_NUMBER = r"^\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|(?i:inf|infinity|nan))\s*$"
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
    """Return whether cells are numbers, or text that is mostly numbers, and no categories."""
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    if not is_text(cells.type):
        return not kinds.is_dictionary(cells.type)
    n_numbers = pc.sum(pc.match_substring_regex(cells, _NUMBER)).as_py() or 0
    n_texts = pc.sum(pc.match_substring_regex(cells, r"\S")).as_py() or 0
    return bool(2 * n_numbers > n_texts)


def numbers_of(cells: Any, name: str, place: Callable[[int], str], or_else: str = "") -> FloatArray:
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
    """
    import pyarrow as pa

    cells = decoded(cells)
    if is_text(cells.type):
        texts = cells.to_pylist()
        values = np.array([_number(text) for text in texts], dtype=object)
        wrong = np.array([value is None for value in values.tolist()], dtype=bool)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise FileError(
                f"{place(row)}, column {name!r}",
                repr(texts[row]),
                "numbers, or an empty cell",
                f"correct the cell{or_else}",
            )
        values = values.astype(np.float64)
    else:
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
    """Return each cell's place among the categories, or `MISSING`, or `UNSEEN`."""
    encoded = decoded(cells).dictionary_encode()
    places = {level: h for h, level in enumerate(levels)} | {"": MISSING}
    values = encoded.chunk(0).dictionary.to_pylist()
    found = np.array([*(places.get(_level(value), UNSEEN) for value in values), MISSING])
    return np.concatenate(
        [found[chunk.indices.fill_null(len(values)).to_numpy()] for chunk in encoded.chunks]
    )


def _level(value: Any) -> str:
    return "" if is_missing(value) else plain_name(value)


def _number(text: str | None) -> float | None:
    if text is None or not text.strip():
        return np.nan
    try:
        return float(text)
    except ValueError:
        return None
