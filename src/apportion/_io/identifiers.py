"""Ids, labels and names of many types: one value per row, missing values, spellings."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from apportion._utils.typing import AnyArray, IntArray
from apportion.exceptions import SupervisionError


def factorize(values: Any, what: str) -> tuple[IntArray, list[Hashable]]:
    """Return the code of each value and the distinct values; missing values have code -1.

    Any hashable object may be a value. None, NaN, NaT and NA are missing.

    Parameters
    ----------
    values : array, series or sequence of shape (n_samples,)
        One value per row.
    what : str
        What a value is, such as "bag id", for messages.
    """
    array = vector_of(values, what)
    if array.dtype.kind in "iub":
        distinct, codes = np.unique(array, return_inverse=True)
        return codes.astype(np.intp), distinct.tolist()
    items = array.tolist()
    try:
        code_of = dict.fromkeys(items, -1)
    except TypeError:
        row = next(i for i, item in enumerate(items) if not _is_hashable(item))
        raise SupervisionError(
            "",
            f"the {what} {items[row]!r}, which cannot be hashed",
            "numbers, text, dates, tuples",
            "use a tuple instead of a list",
            row=row,
        ) from None
    present = [item for item in code_of if not is_missing(item)]
    code_of.update((item, code) for code, item in enumerate(present))
    return np.fromiter(map(code_of.__getitem__, items), np.intp, len(items)), present


def vector_of(values: Any, what: str) -> AnyArray:
    """Return one value per row as a one-dimensional array, without looking into the values."""
    expected = f"One {what} per row is expected"
    if isinstance(values, Mapping) or hasattr(values, "columns"):
        raise ValueError(
            f"{expected}. Got a table, {type(values).__name__}: are `bags` and `proportions` "
            "exchanged?"
        )
    series = nw.from_native(values, pass_through=True, series_only=True, allow_series=True)
    if isinstance(series, nw.Series):
        dtype = getattr(values, "dtype", None)
        is_plain = isinstance(dtype, np.dtype) and dtype.kind in "iubf"
        values = values.to_numpy() if is_plain else series.to_list()
    if isinstance(values, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(values)
        values = values.data.astype(object)
        values[masked] = None
    if hasattr(values, "__array__"):
        values = np.asarray(values)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise ValueError(
                f"{expected}, in one dimension. Got an array of shape {values.shape}; tuples can "
                f"join several columns into one {what}."
            )
        return python_times(values) if values.dtype.kind in "mM" else values
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ValueError(f"{expected}, in one dimension. Got {values!r}.")
    return object_vector(list(values))


def as_vector(items: Sequence[Any]) -> AnyArray:
    """Return a one-dimensional array of the items, of dtype object unless all are of one kind.

    Text that ends in a zero character is of dtype object too, because NumPy's text drops it.
    """
    kinds = {type(item) for item in items}
    ends_in_zero = kinds == {str} and any(item.endswith("\0") for item in items)
    if len(kinds) == 1 and kinds <= {bool, int, float, str} and not ends_in_zero:
        return np.array(items)
    return object_vector(items)


def object_vector(items: Sequence[Any]) -> AnyArray:
    """Return a one-dimensional array of dtype object, also of items that are sequences."""
    vector = np.empty(len(items), dtype=object)
    vector[:] = items
    return vector


def python_times(values: AnyArray) -> AnyArray:
    """Return dates, datetimes or time deltas, which compare with those of pandas and polars."""
    kind = values.dtype.kind
    coarse = np.datetime_data(values.dtype)[0] in ("Y", "M", "W", "D")
    return values.astype(f"{kind}8[{'D' if coarse and kind == 'M' else 'us'}]").astype(object)


def is_duration(item: Any) -> bool:
    """Return whether the item is a time delta."""
    return isinstance(item, timedelta | np.timedelta64)


def seconds(item: Any) -> float:
    """Return the seconds of a time delta."""
    if isinstance(item, np.timedelta64):
        return float(item / np.timedelta64(1, "s"))
    if not isinstance(item, timedelta):
        raise TypeError("not a time delta")
    return item.total_seconds()


def is_missing(item: Any) -> bool:
    """Return whether the item is None, NaN, NaT or NA."""
    if item is None:
        return True
    try:
        return bool(item != item)
    except (TypeError, ValueError):
        return type(item).__name__ == "NAType"


def _is_hashable(item: Any) -> bool:
    try:
        hash(item)
    except TypeError:
        return False
    return True


def plain_name(item: Any) -> str:
    """Return an id as text that is the same for 7, 7.0 and " 7"."""
    if isinstance(item, float | np.floating) and float(item).is_integer():
        return str(int(item))
    return str(item).strip()


def plain_names(items: Sequence[Any], what: str, where: str) -> list[str]:
    """Return different ids as text; raise an error if two of them differ in blanks alone.

    Blanks around a name do not count, but two ids must not become one.
    """
    names = [plain_name(item) for item in items]
    first: dict[str, Any] = {}
    for name, item in zip(names, items, strict=True):
        if first.setdefault(name, item) != item:
            raise SupervisionError(
                where,
                f"the {what}s {first[name]!r} and {item!r}, which differ in blanks alone",
                f"one spelling of each {what}",
                "write both alike",
            )
    return names


def respelled(names: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Return which names are a known one in another spelling of the same number: "1.0" for "1".

    Examples
    --------
    >>> respelled(["1.0", "01", "2", "a"], ["1", "2", "A"])
    {'1.0': '1', '01': '1'}
    """
    exact = dict.fromkeys(known)
    known_by_number = {_as_decimal(name): name for name in reversed(exact)}
    known_by_number.pop(None, None)
    numbers = {name: _as_decimal(name) for name in names if name not in exact}
    return {
        name: known_by_number[number]
        for name, number in numbers.items()
        if number in known_by_number
    }


def _as_decimal(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def first_called(columns: Sequence[str], usual: Iterable[str]) -> str | None:
    """Return the column with the first of some usual names, see `folded_name`; None = none has."""
    column_of = {folded_name(name): name for name in reversed(columns)}
    return next((column_of[name] for name in map(folded_name, usual) if name in column_of), None)


def folded_name(name: str) -> str:
    """Return the name of a column in lower case, without blanks, underscores and hyphens.

    Examples
    --------
    >>> folded_name("Start time"), folded_name("start_time")
    ('starttime', 'starttime')
    """
    return re.sub(r"[\s_-]+", "", name).casefold()
