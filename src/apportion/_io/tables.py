"""Reading what people have: dataframes, mappings and arrays of totals, and one value a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np

from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.exceptions import SupervisionError, name_some

LARGEST = 1e100
"""The largest size of a feature's values: the squares of larger ones cannot be added up."""


class Cells(NamedTuple):
    """A table of totals as it was read; NaN = unknown."""

    ids: list[Hashable]
    classes: list[Any]
    values: FloatArray


def read_table(
    table: Any,
    classes: Sequence[Hashable] | None,
    id_column: str | None,
    *,
    second_class_only: bool = False,
    durations: bool = False,
) -> Cells:
    """Read a dataframe, a mapping or an array."""
    number = seconds if durations else _number
    if isinstance(table, Mapping):
        cells = _read_mapping(table, classes, second_class_only, number)
    else:
        frame = nw.from_native(table, pass_through=True, allow_series=True)
        if isinstance(frame, nw.Series):
            index = getattr(table, "index", None)
            if index is None:
                cells = _read_array(frame.to_list(), classes, second_class_only, number)
            else:
                refuse_duplicates(index.tolist())
                pairs = dict(zip(index.tolist(), frame.to_list(), strict=True))
                cells = _read_mapping(pairs, classes, second_class_only, number)
        elif isinstance(frame, nw.LazyFrame):
            cells = _read_frame(frame.collect(), classes, id_column, number)
        elif isinstance(frame, nw.DataFrame):
            cells = _read_frame(frame, classes, id_column, number)
        else:
            cells = _read_array(table, classes, second_class_only, number)
    if not cells.ids or not cells.classes:
        raise SupervisionError(
            "the table of totals",
            f"{len(cells.ids)} bags and {len(cells.classes)} classes",
            "at least one of each",
            "give one row a bag and one column a class",
        )
    return cells


class Shares(NamedTuple):
    """Rows of class shares as they were read."""

    classes: list[Any]
    values: FloatArray


def read_shares(table: Any) -> Shares | None:
    """Read a dataframe or array of class shares, a row each; None where it is something else.

    Tuples are labels, not rows of shares.
    """
    frame = nw.from_native(table, pass_through=True, eager_only=True)
    if isinstance(frame, nw.DataFrame):
        shares = Shares(list(table.columns), frame.to_numpy().astype(np.float64))
    else:
        rows_of_numbers = isinstance(table, np.ndarray) or (
            isinstance(table, Sequence) and len(table) > 0 and isinstance(table[0], list)
        )
        values: AnyArray = np.asarray(table) if rows_of_numbers else np.empty(0)
        if values.ndim != 2 or values.dtype.kind not in "biuf":
            return None
        shares = Shares(list(range(values.shape[1])), values.astype(np.float64))
    if len(shares.classes) < 2:
        raise ValueError(
            "Labels must be one value a row, or shares of at least two classes. Got one column: "
            "give it as a vector."
        )
    return shares


def _read_frame(
    frame: nw.DataFrame[Any],
    classes: Sequence[Hashable] | None,
    id_column: str | None,
    number: Callable[[Any], float],
) -> Cells:
    native = nw.to_native(frame)
    index = getattr(native, "index", None)
    numbered = index is None or (index.name is None and getattr(index.dtype, "kind", "") in "iu")
    if id_column is None and numbered and "bag" in frame.columns:
        id_column = "bag"
    if id_column is not None:
        if id_column not in frame.columns:
            raise SupervisionError(
                "the table of totals",
                f"no column {id_column!r}",
                f"one of its columns {name_some(map(repr, frame.columns))}",
                "name the column of bag ids in `id_column`",
            )
        ids = frame.get_column(id_column).to_list()
        names = [name for name in frame.columns if name != id_column]
    elif index is None:
        raise SupervisionError(
            "the table of totals",
            "no index and no column 'bag' to take bag ids from",
            "a column of bag ids",
            "pass id_column=... to a factory of Totals, or name the column 'bag'",
        )
    else:
        ids = index.tolist()
        names = list(frame.columns)
    for place, bag in enumerate(ids):
        if is_missing(bag):
            raise SupervisionError(
                f"line {place} of the table of totals",
                "no bag id",
                "an id in every line",
                "name the bag or drop the line",
            )
    refuse_missing_classes(names)
    if classes is not None:
        for name in names:
            if name not in classes:
                raise unknown_class(f"column {name!r} of the table of totals", classes)
    columns = [
        _column(
            series.to_list(),
            ids,
            series.name,
            number,
            f"correct this cell; if {series.name!r} holds the bag ids, pass "
            f"id_column={series.name!r}",
        )
        for series in frame.iter_columns()
        if series.name != id_column
    ]
    values = np.column_stack(columns) if columns else np.empty((len(ids), 0))
    return _with_absent_classes(Cells(ids, names, values), classes)


def _read_mapping(
    table: Mapping[Hashable, Any],
    classes: Sequence[Hashable] | None,
    second_class_only: bool,
    number: Callable[[Any], float],
) -> Cells:
    ids = list(table)
    rows = [dict(row.items()) if _has_labels(row) else row for row in table.values()]
    if all(isinstance(row, Mapping) for row in rows):
        labels = list(dict.fromkeys(label for row in rows for label in row))
        if classes is not None:
            for bag, row in zip(ids, rows, strict=True):
                for label in row:
                    if label not in classes:
                        raise unknown_class(f"bag {bag!r}, class {label!r}", classes)
        values = np.empty((len(ids), len(labels)))
        for h, label in enumerate(labels):
            values[:, h] = _column([row.get(label, 0) for row in rows], ids, label, number)
        return _with_absent_classes(Cells(ids, labels, values), classes)
    forms = {bag: _form(row) for bag, row in zip(ids, rows, strict=True)}
    if len(set(forms.values())) > 1:
        bag = next(bag for bag in ids if forms[bag] != forms[ids[0]])
        raise SupervisionError(
            f"bag {bag!r}",
            f"{forms[bag]}, while bag {ids[0]!r} has {forms[ids[0]]}",
            "the same form for every bag",
            "give every bag a mapping from class to total",
        )
    cells = _read_array(rows, classes, second_class_only, number, ids)
    return Cells(ids, cells.classes, cells.values)


def _read_array(
    table: Any,
    classes: Sequence[Hashable] | None,
    second_class_only: bool,
    number: Callable[[Any], float],
    ids: list[Hashable] | None = None,
) -> Cells:
    array = np.asarray(table)
    if array.dtype.kind == "m":
        array = _python_times(array)
    ids = list(range(len(array))) if ids is None and array.ndim else ids
    if ids is None or array.ndim not in (1, 2):
        raise SupervisionError(
            "the table of totals",
            f"{type(table).__name__} with {array.ndim} dimensions",
            "a dataframe, a mapping, or an array of shape (n_bags, n_classes) or (n_bags,)",
            "give one row a bag and one column a class",
        )
    if array.ndim == 1:
        if not second_class_only:
            raise SupervisionError(
                "the table of totals",
                "one number a bag",
                "one number for each bag and class",
                "give one column a class (only shares may be given for the second class alone)",
            )
        second = _column(array.tolist(), ids, "the second", number)
        values = np.column_stack([1.0 - second, second])
    else:
        columns = [_column(array[:, h].tolist(), ids, h, number) for h in range(array.shape[1])]
        values = np.column_stack(columns) if columns else np.empty((len(ids), 0))
    labels = list(range(values.shape[1])) if classes is None else list(classes)
    if len(set(labels)) != len(labels):
        raise SupervisionError(
            "`classes`",
            f"a class named twice: {name_some(map(repr, labels))}",
            "every class once",
            "give the columns different names",
        )
    if len(labels) != values.shape[1]:
        raise SupervisionError(
            "the table of totals",
            f"{values.shape[1]} columns for {len(labels)} classes",
            "one column a class",
            "let `classes` name every column, in order",
        )
    return Cells(ids, labels, values)


def _column(
    items: Sequence[Any],
    ids: Sequence[Hashable],
    label: Hashable,
    number: Callable[[Any], float],
    hint: str = "correct this cell",
) -> FloatArray:
    """Return one class's totals as numbers, NaN where unknown; infinite and other items raise."""
    column = np.empty(len(items))
    for k, item in enumerate(items):
        if is_missing(item):
            column[k] = np.nan
            continue
        try:
            column[k] = number(item)
        except (TypeError, ValueError):
            column[k] = np.inf
        if not np.isfinite(column[k]):
            raise SupervisionError(
                f"bag {ids[k]!r}, class {label!r}",
                repr(item),
                "time deltas, because the window is one, or a missing cell for 'not known'"
                if number is seconds
                else "finite numbers, or a missing cell for 'not known'",
                "give durations and window in the same form"
                if number is seconds or is_duration(item)
                else hint,
            )
    return column


def _with_absent_classes(cells: Cells, classes: Sequence[Hashable] | None) -> Cells:
    absent = [] if classes is None else [label for label in classes if label not in cells.classes]
    zeros = np.zeros((len(cells.ids), len(absent)))
    return Cells(cells.ids, cells.classes + absent, np.hstack([cells.values, zeros]))


def columns_for(wanted: list[Any], classes: list[Any], values: FloatArray) -> FloatArray:
    """Return the columns of the wanted classes, in their order; 0 for a class without a column."""
    place = {label: h for h, label in enumerate(classes)}
    with_nothing = np.hstack([values, np.zeros((len(values), 1))])
    return with_nothing[:, [place.get(label, -1) for label in wanted]]


def aligned(table: Cells, like: Cells) -> Cells:
    """Return the table's lines and columns in the order of another."""
    for what, ours, theirs in (
        ("bag", table.ids, like.ids),
        ("class", table.classes, like.classes),
    ):
        in_both = set(ours) & set(theirs)
        for item in (item for item in [*theirs, *ours] if item not in in_both):
            missing = "lower" if item in ours else "upper"
            raise SupervisionError(
                f"{what} {item!r}",
                f"nothing about it in the {missing} bounds",
                "the same bags and classes in both tables",
                "add it, with a missing cell where there is no bound",
            )
    place = {bag: k for k, bag in enumerate(table.ids)}
    rows = [place[bag] for bag in like.ids]
    columns = [table.classes.index(label) for label in like.classes]
    return Cells(like.ids, like.classes, table.values[np.ix_(rows, columns)])


def largest_size(values: AnyArray) -> float:
    """Return the largest absolute value of features, NaN where one is NaN."""
    return max(-float(values.min(initial=0.0)), float(values.max(initial=0.0)))


def wide_enough(X: Any, largest: float) -> Any:
    """Return features in a precision that holds the squares of values of this size."""
    if X.dtype == np.float32 and not 1e-15 < largest < 1e15:
        return X.astype(np.float64)
    return X


def require_squares(largest: float) -> None:
    """Raise where features of this size have squares that cannot be represented."""
    if largest > LARGEST or 0 < largest < 1.0 / LARGEST:
        raise ValueError(
            f"X: found values of size {largest:.1e}, whose squares cannot be represented. "
            "Allowed: sizes from 1e-100 to 1e100. Hint: rescale the features."
        )


def factorize(values: Any, what: str) -> tuple[IntArray, list[Hashable]]:
    """Return the code of each value and the distinct values; missing values have code -1.

    Anything hashable may be a value. None, NaN, NaT and NA are missing.
    """
    array = _vector(values, what)
    if array.dtype.kind in "iub":
        distinct, codes = np.unique(array, return_inverse=True)
        return codes.astype(np.intp), distinct.tolist()
    listed = array.tolist()
    try:
        seen = dict.fromkeys(listed)
    except TypeError:
        row = next(i for i, value in enumerate(listed) if not _is_hashable(value))
        raise SupervisionError(
            "",
            f"the {what} {listed[row]!r}, which cannot be hashed",
            "numbers, text, dates, tuples",
            "use a tuple instead of a list",
            row=row,
        ) from None
    distinct_values: list[Hashable] = []
    for value in seen:
        if is_missing(value):
            seen[value] = -1
        else:
            seen[value] = len(distinct_values)
            distinct_values.append(value)
    return np.fromiter(map(seen.__getitem__, listed), np.intp, len(listed)), distinct_values


def as_vector(items: Sequence[Any]) -> AnyArray:
    """Return a one-dimensional array of the items, of dtype object unless all are of one kind.

    Text that ends in a zero character is of dtype object too: NumPy's own text drops it.
    """
    kinds = {type(item) for item in items}
    if kinds == {str} and any(item.endswith("\0") for item in items):
        return _object_vector(items)
    if len(kinds) == 1 and kinds <= {bool, int, float, str}:
        return np.array(items)
    return _object_vector(items)


def _object_vector(items: Sequence[Any]) -> AnyArray:
    vector = np.empty(len(items), dtype=object)
    vector[:] = items
    return vector


def _vector(values: Any, what: str) -> AnyArray:
    """Return one value a row as a one-dimensional array, without looking into the values."""
    if isinstance(values, Mapping) or hasattr(values, "columns"):
        raise ValueError(
            f"One {what} a row is expected. Got a table, {type(values).__name__}: are `bags` and "
            "`proportions` exchanged?"
        )
    series = nw.from_native(values, pass_through=True, series_only=True, allow_series=True)
    if isinstance(series, nw.Series):
        native_dtype = getattr(values, "dtype", None)
        values = values.to_numpy() if _is_plain_dtype(native_dtype) else series.to_list()
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
                f"One {what} a row is expected, in one dimension. Got an array of shape "
                f"{values.shape}; tuples can join several columns into one {what}."
            )
        if values.dtype.kind in "mM":
            return _python_times(values)
        return values
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ValueError(f"One {what} a row is expected, in one dimension. Got {values!r}.")
    return _object_vector(list(values))


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _python_times(values: AnyArray) -> AnyArray:
    """Return dates, date-times or time deltas, which compare with those of pandas and polars."""
    coarse = np.datetime_data(values.dtype)[0] in ("Y", "M", "W", "D")
    unit = "D" if coarse and values.dtype.kind == "M" else "us"
    return values.astype(f"{values.dtype.kind}8[{unit}]").astype(object)


def _is_plain_dtype(dtype: object) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "iubf"


def _has_labels(row: Any) -> bool:
    """Return whether a bag's totals are a pandas Series, whose index names the classes."""
    return hasattr(row, "index") and hasattr(row, "items") and not isinstance(row, Mapping)


def _form(row: Any) -> str:
    if isinstance(row, Mapping):
        return "a mapping"
    return "one number" if np.ndim(row) == 0 else f"{len(row)} totals"


def _number(item: Any) -> float:
    if isinstance(item, str | bytes):
        raise TypeError("text is not a number")
    return float(item)


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


def plain_name(item: Any) -> str:
    """Return an id as text that is the same for 7, 7.0 and " 7"."""
    if isinstance(item, float | np.floating) and float(item).is_integer():
        return str(int(item))
    return str(item).strip()


def plain_names(items: Sequence[Any], what: str, where: str) -> list[str]:
    """Return different ids as text; raise where two of them differ in the blanks around them alone.

    Blanks around a name do not count, but ids that only they tell apart must not become one.
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
    by_value: dict[Decimal, str] = {}
    for name in exact:
        value = _as_decimal(name)
        if value is not None:
            by_value.setdefault(value, name)
    values = {name: _as_decimal(name) for name in names if name not in exact}
    return {name: by_value[value] for name, value in values.items() if value in by_value}


def _as_decimal(text: str) -> Decimal | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() else None


def first_called(columns: Sequence[str], usual: Iterable[str]) -> str | None:
    """Return the column with the first of some usual names, see `folded_name`; None = none has."""
    folded = {folded_name(name): name for name in reversed(columns)}
    found = (folded.get(folded_name(name)) for name in usual)
    return next((name for name in found if name is not None), None)


def folded_name(name: str) -> str:
    """Return a column's name without capitals, blanks, underscores and hyphens.

    Examples
    --------
    >>> folded_name("Start time"), folded_name("start_time")
    ('starttime', 'starttime')
    """
    return re.sub(r"[\s_-]+", "", name).casefold()


def refuse_duplicates(ids: Iterable[Hashable]) -> None:
    """Raise for a bag that has two lines in the table of totals."""
    seen: dict[Hashable, int] = {}
    for place, bag in enumerate(ids):
        if bag in seen:
            raise SupervisionError(
                f"bag {bag!r}",
                f"two lines in the table of totals, {seen[bag]} and {place}",
                "one line a bag",
                "drop one of them, or give the bags different ids",
            )
        seen[bag] = place


def refuse_missing_classes(classes: Iterable[Any]) -> None:
    """Raise for a class that is None, NaN, NaT or NA, which everywhere else means 'not known'."""
    for place, label in enumerate(classes):
        if is_missing(label):
            raise SupervisionError(
                f"class {place} of the classes",
                f"{label!r}, which stands for a label that is not known",
                "numbers, text or other values that are not missing",
                "name the class, or leave it out",
            )


def unknown_class(where: str, classes: Sequence[Hashable]) -> SupervisionError:
    """Return the error for a class that is not among the known ones."""
    return SupervisionError(
        where,
        "a class that is not known",
        f"the classes {name_some(map(repr, classes))}",
        "correct the name, or add the class to `classes`",
    )
