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
_CORRECT_CELL = "correct this cell"
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
    absent: float = 0.0,
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
    absent : float, default=0.0
        The number of a class that is left out of an inner mapping, or has no column.
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
    what, advice = "class", _CORRECT_CELL
    bag_with: dict[Any, Hashable] = {}
    if isinstance(frame, nw.DataFrame):
        ids, columns = _frame_columns(frame, id_column)
        what = "column"
        advice += "; if {label!r} holds the bag ids, pass {id_column:{label}}"
    elif isinstance(frame, Mapping) and all(map(_has_labels, frame.values())):
        ids, rows = list(frame), [dict(row.items()) for row in frame.values()]
        for bag, row in zip(ids, rows, strict=True):
            bag_with |= {label: bag for label in row if label not in bag_with}
        columns = {label: [row.get(label, absent) for row in rows] for label in bag_with}
    else:
        ids, columns = _array_columns(frame, classes, second_class_only)
    refuse_missing_classes(columns)
    for label in columns:
        if classes is not None and label not in classes:
            raise unknown_class(f"{what} {label!r} of {_TABLE}", classes, bag_with.get(label))
    others = [] if classes is None else [label for label in classes if label not in columns]
    labels = [*columns, *others]
    if not ids or not labels:
        found = f"{len(ids)} bags and {len(labels)} classes"
        raise SupervisionError(_TABLE, found, "at least one of each", _ONE_ROW_PER_BAG)
    values = np.full((len(ids), len(labels)), absent)
    for h, (label, items) in enumerate(columns.items()):
        values[:, h] = _column(items, ids, label, durations, hint(advice, label=label))
    return Cells(ids, labels, values)


def read_shares(table: Any) -> Shares | None:
    """Read a dataframe or array with one row of class shares per sample; None = something else.

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


def _frame_columns(
    frame: nw.DataFrame[Any], id_column: str | None
) -> tuple[list[Hashable], dict[Any, list[Any]]]:
    """Return the bag ids and the items of each class of a dataframe."""
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
    names = list(frame.columns)
    if id_column is None:
        ids = index.tolist()
    else:
        ids = frame.get_column(id_column).to_list()
        names.remove(id_column)
    for row, bag in enumerate(ids):
        if is_missing(bag):
            where, allowed = f"row {row} of {_TABLE}", "an id in every row"
            raise SupervisionError(where, "no bag id", allowed, "name the bag or drop the row")
    return ids, {name: frame.get_column(name).to_list() for name in names}


def _has_labels(row: Any) -> bool:
    """Return whether the totals of a bag are a mapping, or a pandas Series."""
    return isinstance(row, Mapping) or (hasattr(row, "index") and hasattr(row, "items"))


def _array_columns(
    table: Any, classes: Sequence[Hashable] | None, second_class_only: bool
) -> tuple[list[Hashable], dict[Any, list[Any]]]:
    """Return the bag ids and the items of each class of an array, or a mapping to its rows."""
    ids: list[Hashable] | None = None
    if isinstance(table, Mapping):
        ids, table = list(table), list(table.values())
        forms = [_form(row) for row in table]
        for bag, form in zip(ids, forms, strict=True):
            if form != forms[0]:
                raise SupervisionError(
                    "",
                    f"{form}, while bag {ids[0]!r} has {forms[0]}",
                    "the same form for every bag",
                    "give every bag a mapping from class to total",
                    bag=bag,
                )
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
    if array.ndim == 1 and not second_class_only:
        raise SupervisionError(
            _TABLE,
            "one number per bag",
            "one number for each bag and class",
            "give one column per class (only shares may be given for the second class alone)",
        )
    n_classes = 2 if array.ndim == 1 else array.shape[1]
    labels = list(range(n_classes)) if classes is None else list(classes)
    if len(set(labels)) != len(labels):
        found = f"a class named twice: {name_some(map(repr, labels))}"
        advice = "give the columns different names"
        raise SupervisionError("", found, "every class once", advice, parameter="classes")
    if len(labels) != n_classes:
        found = f"{n_classes} columns for {len(labels)} classes"
        advice = hint("let {classes} name every column, in order")
        raise SupervisionError(_TABLE, found, "one column per class", advice)
    ids = list(range(len(array))) if ids is None else ids
    if array.ndim == 1:
        second = _column(array.tolist(), ids, labels[1])
        array = np.column_stack([1.0 - second, second])
    return ids, {label: column.tolist() for label, column in zip(labels, array.T, strict=True)}


def _form(row: Any) -> str:
    if _has_labels(row):
        return "a mapping"
    return "one number" if np.ndim(row) == 0 else f"{len(row)} totals"


def _column(
    items: Sequence[Any],
    ids: Sequence[Hashable],
    label: Hashable,
    durations: bool = False,
    advice: str = _CORRECT_CELL,
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


def columns_for(
    wanted: list[Any], classes: list[Any], values: FloatArray, absent: float = 0.0
) -> FloatArray:
    """Return the columns of the wanted classes, in their order; a class may have no column."""
    position = {label: h for h, label in enumerate(classes)}
    with_absent = np.hstack([values, np.full((len(values), 1), absent)])
    return with_absent[:, [position.get(label, -1) for label in wanted]]


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
