"""Tables with one row per bag and one column per class, from dataframes, mappings and arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np

from apportion._io.identifiers import is_duration, is_missing, python_times, seconds
from apportion._utils.typing import AnyArray, FloatArray
from apportion.exceptions import SupervisionError, hint, name_some

_TABLE = "the table of totals"
_ONE_ROW_PER_BAG = "give one row per bag and one column per class"


class Cells(NamedTuple):
    """A table of totals as it was read; NaN = unknown."""

    ids: list[Hashable]
    classes: list[Any]
    values: FloatArray


class Shares(NamedTuple):
    """Rows of class shares as they were read."""

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
    """Read a dataframe, a mapping or an array of totals.

    Parameters
    ----------
    table : dataframe, series, mapping or array
        The totals.
    classes : sequence, or None
        The classes; those without a column have no mass.
    id_column : str, or None
        The column of bag ids of a dataframe.
    second_class_only : bool, default=False
        Whether one number per bag is allowed, which is the share of the second of two classes.
    durations : bool, default=False
        Whether the totals are time deltas; they are returned in seconds.
    """
    frame = table
    if not isinstance(table, Mapping):
        frame = nw.from_native(table, pass_through=True, allow_series=True)
    if isinstance(frame, nw.Series):
        index = getattr(table, "index", None)
        if index is not None:
            refuse_duplicates(index.tolist())
            frame = dict(zip(index.tolist(), frame.to_list(), strict=True))
        else:
            frame = frame.to_list()
    elif isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, Mapping):
        cells = _read_mapping(frame, classes, second_class_only, durations)
    elif isinstance(frame, nw.DataFrame):
        cells = _read_frame(frame, classes, id_column, durations)
    else:
        cells = _read_array(frame, classes, second_class_only, durations)
    present = set(cells.classes)
    absent = [] if classes is None else [label for label in classes if label not in present]
    wanted = cells.classes + absent
    if not cells.ids or not wanted:
        found = f"{len(cells.ids)} bags and {len(wanted)} classes"
        raise SupervisionError(_TABLE, found, "at least one of each", _ONE_ROW_PER_BAG)
    return Cells(cells.ids, wanted, columns_for(wanted, cells.classes, cells.values))


def read_shares(table: Any) -> Shares | None:
    """Read a dataframe or array with one row of class shares per sample; None if it is no such.

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
            "Labels must be one value per row, or shares of at least two classes. Got one column: "
            "give it as a vector."
        )
    return shares


def _read_frame(
    frame: nw.DataFrame[Any],
    classes: Sequence[Hashable] | None,
    id_column: str | None,
    durations: bool,
) -> Cells:
    index: Any = getattr(nw.to_native(frame), "index", None)
    numbered = index is None or (index.name is None and getattr(index.dtype, "kind", "") in "iu")
    if id_column is None and numbered and "bag" in frame.columns:
        id_column = "bag"
    if id_column is not None and id_column not in frame.columns:
        raise SupervisionError(
            _TABLE,
            f"no column {id_column!r}",
            f"one of its columns {name_some(map(repr, frame.columns))}",
            hint("name the column of bag ids in {id_column}"),
        )
    if id_column is None and index is None:
        raise SupervisionError(
            _TABLE,
            "no index and no column 'bag' to take bag ids from",
            "a column of bag ids",
            hint("pass {id_column} to a factory of Totals, or name the column 'bag'"),
        )
    ids = index.tolist() if id_column is None else frame.get_column(id_column).to_list()
    for row, bag in enumerate(ids):
        if is_missing(bag):
            where, allowed = f"row {row} of {_TABLE}", "an id in every row"
            raise SupervisionError(where, "no bag id", allowed, "name the bag or drop the row")
    names = [name for name in frame.columns if id_column is None or name != id_column]
    refuse_missing_classes(names)
    for name in names:
        if classes is not None and name not in classes:
            raise unknown_class(f"column {name!r} of {_TABLE}", classes)
    columns = []
    for name in names:
        advice = hint(
            "correct this cell; if {name!r} holds the bag ids, pass {id_column:{name}}", name=name
        )
        columns.append(_column(frame.get_column(name).to_list(), ids, name, durations, advice))
    return Cells(ids, names, _stacked(columns, ids))


def _read_mapping(
    table: Mapping[Hashable, Any],
    classes: Sequence[Hashable] | None,
    second_class_only: bool,
    durations: bool,
) -> Cells:
    ids = list(table)
    rows = [_as_mapping(row) for row in table.values()]
    if all(isinstance(row, Mapping) for row in rows):
        labels = list(dict.fromkeys(label for row in rows for label in row))
        for label in labels:
            if classes is not None and label not in classes:
                bag = next(bag for bag, row in zip(ids, rows, strict=True) if label in row)
                raise unknown_class(f"class {label!r}", classes, bag=bag)
        columns = [
            _column([row.get(label, 0) for row in rows], ids, label, durations) for label in labels
        ]
        return Cells(ids, labels, _stacked(columns, ids))
    forms = [_form(row) for row in rows]
    for bag, form in zip(ids, forms, strict=True):
        if form != forms[0]:
            raise SupervisionError(
                "",
                f"{form}, while bag {ids[0]!r} has {forms[0]}",
                "the same form for every bag",
                "give every bag a mapping from class to total",
                bag=bag,
            )
    return _read_array(rows, classes, second_class_only, durations, ids)


def _as_mapping(row: Any) -> Any:
    """Return the totals of a bag, as a mapping if they are a pandas Series."""
    has_labels = hasattr(row, "index") and hasattr(row, "items") and not isinstance(row, Mapping)
    return dict(row.items()) if has_labels else row


def _form(row: Any) -> str:
    if isinstance(row, Mapping):
        return "a mapping"
    return "one number" if np.ndim(row) == 0 else f"{len(row)} totals"


def _read_array(
    table: Any,
    classes: Sequence[Hashable] | None,
    second_class_only: bool,
    durations: bool,
    ids: list[Hashable] | None = None,
) -> Cells:
    array = np.asarray(table)
    if array.dtype.kind == "m":
        array = python_times(array)
    if array.ndim not in (1, 2):
        raise SupervisionError(
            _TABLE,
            f"{type(table).__name__} with {array.ndim} dimensions",
            "a dataframe, a mapping, or an array of shape (n_bags, n_classes) or (n_bags,)",
            _ONE_ROW_PER_BAG,
        )
    ids = list(range(len(array))) if ids is None else ids
    if array.ndim == 2:
        columns = [_column(column.tolist(), ids, h, durations) for h, column in enumerate(array.T)]
    elif second_class_only:
        second = _column(array.tolist(), ids, "the second", durations)
        columns = [1.0 - second, second]
    else:
        raise SupervisionError(
            _TABLE,
            "one number per bag",
            "one number for each bag and class",
            "give one column per class (only shares may be given for the second class alone)",
        )
    labels = list(range(len(columns))) if classes is None else list(classes)
    if len(set(labels)) != len(labels):
        found = f"a class named twice: {name_some(map(repr, labels))}"
        advice = "give the columns different names"
        raise SupervisionError("", found, "every class once", advice, parameter="classes")
    if len(labels) != len(columns):
        found = f"{len(columns)} columns for {len(labels)} classes"
        advice = hint("let {classes} name every column, in order")
        raise SupervisionError(_TABLE, found, "one column per class", advice)
    return Cells(ids, labels, _stacked(columns, ids))


def _stacked(columns: list[FloatArray], ids: Sequence[Hashable]) -> FloatArray:
    return np.column_stack(columns) if columns else np.empty((len(ids), 0))


def _column(
    items: Sequence[Any],
    ids: Sequence[Hashable],
    label: Hashable,
    durations: bool,
    advice: str = "correct this cell",
) -> FloatArray:
    """Return the totals of one class as numbers, NaN = unknown; any other item is an error."""
    column = np.full(len(items), np.nan)
    for k, item in enumerate(items):
        if is_missing(item):
            continue
        try:
            column[k] = seconds(item) if durations else _number(item)
        except (TypeError, ValueError):
            column[k] = np.inf
        if not np.isfinite(column[k]):
            numbers = "time deltas, because the window is one," if durations else "finite numbers,"
            if durations or is_duration(item):
                advice = "give durations and window in the same form"
            raise SupervisionError(
                f"class {label!r}",
                repr(item),
                f"{numbers} or a missing cell for 'not known'",
                advice,
                bag=ids[k],
            )
    return column


def _number(item: Any) -> float:
    if isinstance(item, str | bytes):
        raise TypeError("text is not a number")
    return float(item)


def columns_for(wanted: list[Any], classes: list[Any], values: FloatArray) -> FloatArray:
    """Return the columns of the wanted classes, in their order; 0 for a class without a column."""
    position = {label: h for h, label in enumerate(classes)}
    with_zeros = np.hstack([values, np.zeros((len(values), 1))])
    return with_zeros[:, [position.get(label, -1) for label in wanted]]


def aligned(table: Cells, like: Cells) -> Cells:
    """Return the upper bounds with the bags and classes in the order of the lower bounds."""
    for what, upper, lower in (
        ("bag", table.ids, like.ids),
        ("class", table.classes, like.classes),
    ):
        in_both = set(upper) & set(lower)
        for item in (item for item in [*lower, *upper] if item not in in_both):
            missing = "lower" if item in upper else "upper"
            raise SupervisionError(
                f"{what} {item!r}",
                f"nothing about it in the {missing} bounds",
                "the same bags and classes in both tables",
                "add it, with a missing cell where there is no bound",
            )
    position = {bag: k for k, bag in enumerate(table.ids)}
    rows = table.values[[position[bag] for bag in like.ids]]
    return Cells(like.ids, like.classes, columns_for(like.classes, table.classes, rows))


def refuse_duplicates(ids: Iterable[Hashable]) -> None:
    """Raise an error for a bag that has two rows in the table of totals."""
    first: dict[Hashable, int] = {}
    for row, bag in enumerate(ids):
        if first.setdefault(bag, row) != row:
            raise SupervisionError(
                "",
                f"two rows in {_TABLE}, {first[bag]} and {row}",
                "one row per bag",
                "drop one of them, or give the bags different ids",
                bag=bag,
            )


def refuse_missing_classes(classes: Iterable[Any]) -> None:
    """Raise an error for a class that is None, NaN, NaT or NA: these mean 'not known'."""
    for position, label in enumerate(classes):
        if is_missing(label):
            raise SupervisionError(
                f"class {position} of the classes",
                f"{label!r}, which stands for a label that is not known",
                "numbers, text or other values that are not missing",
                "name the class, or leave it out",
            )


def unknown_class(where: str, classes: Sequence[Hashable], bag: Any = None) -> SupervisionError:
    """Return the error for a class that is not among the known ones."""
    return SupervisionError(
        where,
        "a class that is not known",
        f"the classes {name_some(map(repr, classes))}",
        hint("correct the name, or add the class to {classes}"),
        bag=bag,
    )
