"""Which columns of a table are features: no ids, no times, no labels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from apportion._io.features.cells import can_be_feature, decoded, holds_numbers, is_text
from apportion._io.features.timestamps import when_by_name, why_left_out
from apportion._io.read import no_column
from apportion._io.tables import plain_name
from apportion._io.values import values_of
from apportion.exceptions import FileError

_TIME_NAMES = re.compile(
    r"(start|end|begin|stop|date|day|time|timestamp|datetime|epoch|period|t|ts)"
    r"|.*_(time|timestamp|datetime|date|at)",
    re.IGNORECASE,
)
_ID_NAMES = re.compile(
    r"(?i:(id|uuid|guid|index|row|row_?number|name|window|participant|person|subject|patient|user"
    r"|unnamed: 0|__index_level_\d+__)|.*[_ -](id|uuid))|.*[a-z]I[dD]"
)
_DAY = r"(\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./]\d{2,4})"
_CLOCK = r"\d{1,2}:\d\d(:\d\d([.,]\d+)?)?( ?[AaPp][Mm])?"
_TIME = re.compile(rf"{_DAY}([ T]{_CLOCK}(Z|[+-]\d\d:?\d\d)?)?|{_CLOCK}")


class Choice(NamedTuple):
    """Columns that are features, why each other one is none, and which of these tell rows apart."""

    features: list[str]
    left_out: dict[str, str]
    ids_and_times: list[str]


def choose_columns(
    table: Any,
    *,
    features: Sequence[str] = (),
    exclude: Sequence[str] = (),
    roles: Mapping[str, str] | None = None,
    classes: Sequence[Any] = (),
) -> Choice:
    """Return the columns to use as features, and why each other column is none.

    Ids and times are recognized by name, type and content and are never features; neither is a
    column whose values are the classes, nor one that is called a weekday or an elapsed time.

    Parameters
    ----------
    table : pyarrow.Table
        The rows.
    features, exclude : sequences of str
        Names or patterns such as `acc_*` of columns to use, by default all, and not to use. A
        column that is named in full is used although its name is that of an id or time.
    roles : mapping of str to str, optional
        Columns that play another role, and which, such as "the bags".
    classes : sequence, optional
        The classes.
    """
    columns, roles, named = table.column_names, roles or {}, set(features)
    wanted = set(_matching(features, columns, "--features") if features else columns)
    refused = set(_matching(exclude, columns, "--exclude"))
    known = {_folded(label) for label in classes}
    choice = Choice([], {}, [])
    for name in columns:
        if name in roles and name in named:
            raise FileError(
                f"column {name!r}",
                f"a feature that is {roles[name]}",
                "features that play no other part",
                "leave it out of --features",
            )
        why = _no_feature(name, values_of(table, name), known, named=name in named)
        if why is not None and why.startswith(("an id", "a time")):
            choice.ids_and_times.append(name)
        if name in roles:
            why = roles[name]
        elif name in refused:
            why = "excluded"
        elif name not in wanted:
            why = "not asked for"
        if why is None:
            choice.features.append(name)
        else:
            choice.left_out[name] = why
    return choice


def _matching(patterns: Sequence[str], columns: Sequence[str], option: str) -> list[str]:
    found, known = [], set(columns)
    for pattern in patterns:
        hits = (
            [pattern]
            if pattern in known
            else [name for name in columns if fnmatchcase(name, pattern)]
        )
        if not hits:
            raise no_column(pattern, columns, option)
        found += hits
    return found


def _no_feature(name: str, cells: Any, classes: set[str], *, named: bool) -> str | None:
    """Return why a column is no feature, or None."""
    import pyarrow.types as kinds

    if kinds.is_temporal(cells.type):
        return "a time"
    if not can_be_feature(cells.type):
        return f"values of type {cells.type}"
    values = decoded(cells)
    if _are_classes(values, classes):
        return "its values are the classes; known labels are --given"
    if is_text(values.type):
        texts = values.drop_null().unique()
        if len(texts) and all(_TIME.fullmatch(text.strip()) for text in texts[:1000].to_pylist()):
            return "a time"
        if len(texts) == len(cells) > 20 and not holds_numbers(cells):
            return "an id: a different text in every row"
    if named:
        return None
    if _TIME_NAMES.fullmatch(name.strip()):
        return "a time, by its name"
    if _ID_NAMES.fullmatch(name.strip()):
        return "an id, by its name"
    if kinds.is_integer(cells.type) and _counts_rows(cells):
        return "an id: it counts the rows"
    return why_left_out(when_by_name(name))


def _are_classes(values: Any, classes: set[str]) -> bool:
    """Return whether text is classes only, or numbers are all the classes and nothing else."""
    if not classes or len(values[:1000].unique()) > 2 * len(classes) + 2:
        return False
    found = {_folded(value) for value in values.unique().to_pylist() if value is not None} - {""}
    if is_text(values.type):
        return bool(found) and found <= classes
    return len(classes) > 1 and found == classes


def _folded(value: Any) -> str:
    return plain_name(value).casefold()


def _counts_rows(cells: Any) -> bool:
    if cells.null_count or len(cells) < 20:
        return False
    return bool((np.diff(cells.to_numpy()) == 1).all())
