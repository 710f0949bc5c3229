"""Labels that are known of single rows: from a column of the rows, or from a table of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from apportion._io.file_kinds import PARQUET_ENDINGS, WORKBOOK_ENDINGS, ending_of
from apportion._io.identifiers import first_called, is_missing, plain_name
from apportion._io.read import place_in, read_columns
from apportion._io.spreadsheet_safe import guarded
from apportion._io.values import values_of
from apportion._utils.typing import AnyArray, BoolArray, IntArray
from apportion.cli.known import given_labels, require_column
from apportion.exceptions import DiaryError, FileError, counted, name_some
from apportion.plotting._window_times import Times
from apportion.supervision.diary.column_roles import ColumnTable, located_rows
from apportion.supervision.diary.instants import Instants, read_times
from apportion.supervision.diary.recording import holds_marks, marks_of

MARKS = ("given", "corrected", "changed", "keep")
"""Columns of a table of labels that say which rows count, or hold the labels that do."""

_LABELS = ("label", "activity", "class")
_ENDINGS = (".csv", ".tsv", *PARQUET_ENDINGS, *WORKBOOK_ENDINGS)
_OURS = ("confidence", "reason")


@dataclass(frozen=True)
class Rows:
    """The rows that labels are given of.

    Attributes
    ----------
    table : pyarrow.Table
        The rows.
    path : path
        Their file.
    place : callable
        Says where a row stands.
    ids : str or None
        The column of their ids.
    times : Times or None
        When they were recorded.
    columns : dict of str to str
        Which columns are the `start` and the `participant`.
    time_format : str or None
        How their times are written, where that is not ISO 8601.
    """

    table: Any
    path: Path
    place: Callable[[int], str]
    ids: str | None
    times: Times | None
    columns: dict[str, str]
    time_format: str | None


def table_named(given: str, columns: Sequence[str]) -> Path | None:
    """Return the table that --given names; None where it names a column of the rows."""
    path = Path(given)
    if given in columns or not (ending_of(path) in _ENDINGS or path.is_file()):
        return None
    return path


def read_given(
    asked: Sequence[str],
    rows: Callable[[], Rows],
    table: Any,
    place: Callable[[int], str],
    classes: Sequence[Any],
    encoding: str | None,
) -> tuple[AnyArray, dict[str, str], list[str]]:
    """Return a label for each row that has one, the columns that say so, and what to say about it.

    Parameters
    ----------
    asked : sequence of str
        Columns of the rows, and files.
    rows : callable
        Returns the rows with their times, which only tables need.
    table : pyarrow.Table
        The rows' columns.
    place : callable
        Says where a row stands.
    classes : sequence
        The classes.
    encoding : str or None
        Of files that are not UTF-8.
    """
    labels = np.full(table.num_rows, None, dtype=object)
    roles, notes = {}, []
    for one in asked:
        path = table_named(one, table.column_names)
        if path is None:
            more = given_labels(table, one, classes, place)
            roles[one] = "the given labels"
        else:
            more = _from_table(path, rows(), classes, encoding)
        known = _known(more)
        twice = np.flatnonzero(known & _known(labels) & (labels != more))
        if twice.size:
            row = int(twice[0])
            raise FileError(
                place(row),
                f"the labels {labels[row]!r} and {more[row]!r}, each given with --given",
                "one label for each row",
                f"correct one of them, or leave out --given {one}",
            )
        labels = np.where(known, more, labels)
        notes.append(f"{counted(int(known.sum()), 'label')} given in {one!r}")
    return labels, roles, notes


def require_given_columns(asked: Sequence[str], table: Any, where: str) -> None:
    """Raise where --given names neither a table nor a column."""
    for one in asked:
        if table_named(one, table.column_names) is None:
            require_column(table, one, where)


def unused_notes(labels: AnyArray, left_out: Mapping[str, BoolArray]) -> list[str]:
    """Return how many labels are given of rows that are not labeled, by the reason for that."""
    counts = {code: int((_known(labels) & rows).sum()) for code, rows in left_out.items()}
    return [
        f"{counted(n, 'given label')} not used, because the row is not labeled ({code})"
        for code, n in counts.items()
        if n
    ]


def _known(labels: AnyArray) -> BoolArray:
    return np.array([one is not None for one in labels.tolist()], dtype=bool)


def _from_table(path: Path, rows: Rows, classes: Sequence[Any], encoding: str | None) -> AnyArray:
    """Return the labels that a table gives of the rows; None where it gives none."""
    table = read_columns(path, encoding=encoding)
    place = partial(place_in, path, encoding=encoding)
    column, counts = _label_column(table, path, place)
    lines = np.flatnonzero(counts & ~_empty(table.column(column)))
    labels = np.full(rows.table.num_rows, None, dtype=object)
    if not lines.size:
        raise FileError(
            f"{path.name}, column {column!r}",
            "no label that counts",
            "at least one",
            "fill in labels, or leave out --given",
        )
    some = table.take(lines)
    found = given_labels(some, column, classes, lambda i: place(int(lines[i])))
    matched = _matched(_Lines(some, path, lambda i: place(int(lines[i]))), rows)
    labels[matched] = found
    return labels


def _label_column(table: Any, path: Path, place: Callable[[int], str]) -> tuple[str, BoolArray]:
    """Return the column of labels, and which lines count."""
    names = table.column_names
    marks = first_called(names, MARKS)
    label = first_called(names, _LABELS)
    everything = np.ones(table.num_rows, dtype=bool)
    if marks is not None and (label is None or not holds_marks(ColumnTable(table), marks)):
        return marks, everything  # it holds the labels themselves
    if label is None:
        raise FileError(
            path.name,
            f"no column 'label' or 'given', only {name_some(map(repr, names), 12)}",
            "a column of labels",
            "call the column of labels 'label'",
        )
    if marks is not None:
        with located_rows(place):
            counts = marks_of(ColumnTable(table), marks)
        _require_labels(counts & _empty(table.column(label)), label, marks, place)
        return label, counts
    if all(name in names for name in _OURS):
        raise FileError(
            path.name,
            "labels as 'apportion label' writes them, and no column that says which of them were "
            "corrected: given labels are kept, so that no row would be labeled anew",
            f"a column {' or '.join(map(repr, MARKS))} that is 'yes' where a label is to be kept",
            "add a column 'given' with 'yes' in the lines of these labels",
        )
    return label, everything


def _require_labels(
    lacking: BoolArray, label: str, marks: str, place: Callable[[int], str]
) -> None:
    """Raise where a line is marked as one that counts, and has no label."""
    if lacking.any():
        raise FileError(
            f"{place(int(np.argmax(lacking)))}, column {label!r}",
            f"no label, in a line that is marked in column {marks!r}",
            "a label in every line that is marked",
            "fill in the label, or remove the mark",
        )


def _empty(cells: Any) -> BoolArray:
    return np.array([is_missing(one) or not str(one).strip() for one in cells.to_pylist()])


@dataclass(frozen=True)
class _Lines:
    """The lines of a table that give a label."""

    table: Any
    path: Path
    place: Callable[[int], str]


def _matched(lines: _Lines, rows: Rows) -> IntArray:
    """Return the row that each line speaks of: by id, by participant and start, or by number."""
    names = lines.table.column_names
    ids = None if rows.ids is None else first_called(names, [rows.ids])
    start = rows.columns.get("start")
    when = None if start is None else first_called(names, [start, "start"])
    who = rows.columns.get("participant")
    whose = None if who is None else first_called(names, [who, "participant"])
    if ids is not None and rows.ids is not None:
        said_ids = [_name(one) for one in lines.table.column(ids).to_pylist()]
        our_ids = [plain_name(one) for one in rows.table.column(rows.ids).to_pylist()]
        return _looked_up(said_ids, our_ids, lines, rows, f"column {ids!r}")
    if when is not None and rows.times is not None and (who is None or whose is not None):
        said, ours_at = _moments(lines, when, rows.times, rows.time_format)
        if whose is None or rows.times.participants is None:
            return _looked_up(said, ours_at, lines, rows, f"column {when!r}")
        people = [_name(one) for one in lines.table.column(whose).to_pylist()]
        names_of = [plain_name(one) for one in rows.times.participants.tolist()]
        keys = list(zip(people, said, strict=True))
        ours = list(zip(names_of, ours_at, strict=True))
        return _looked_up(keys, ours, lines, rows, f"columns {whose!r} and {when!r}")
    if "row" in names and "row" not in rows.table.column_names:
        numbers = values_of(lines.table, "row").to_pylist()
        return _looked_up(numbers, range(rows.table.num_rows), lines, rows, "column 'row'")
    wanted = [
        *([f"the ids ({rows.ids!r})"] if rows.ids is not None else []),
        *([f"the starts ({start!r}){f' and {who!r}' if who else ''}"] if start else []),
        "the numbers of rows from 0 ('row')",
    ]
    raise FileError(
        lines.path.name,
        f"no column that says which row a label is of, only {name_some(map(repr, names), 12)}",
        f"a column of {', or of '.join(wanted)} of {rows.path.name}",
        "add it",
    )


def _name(cell: Any) -> str:
    return "" if is_missing(cell) else plain_name(cell)


def _looked_up(
    keys: Sequence[Any], ours: Sequence[Any], lines: _Lines, rows: Rows, where: str
) -> IntArray:
    """Return the row that has each key; a key that no row or several have is an error."""
    row_of: dict[Any, int] = {}
    several: dict[Any, int] = {}
    for row, key in enumerate(ours):
        first = row_of.setdefault(key, row)
        if first != row:
            several.setdefault(key, row)
    guards = {_guarded_key(key): key for key in row_of}
    first_line: dict[int, int] = {}
    found = []
    for line, said in enumerate(keys):
        key = said if said in row_of else guards.get(said)
        if key not in row_of:
            raise FileError(
                f"{lines.place(line)}, {where}",
                f"a label of {_shown(lines, line, where)}, which no row of {rows.path.name} has",
                f"labels of rows of {rows.path.name}",
                "correct the line, or drop it",
            )
        row = row_of[key]
        if key in several:
            raise FileError(
                f"{lines.place(line)}, {where}",
                f"a label of {_shown(lines, line, where)}, which "
                f"{rows.place(row)} and {rows.place(several[key]).rpartition(', ')[2]} have",
                "labels of one row each",
                "give the rows ids that differ, in both files",
            )
        if first_line.setdefault(row, line) != line:
            raise FileError(
                f"{lines.place(first_line[row])} and "
                f"{lines.place(line).rpartition(', ')[2]}, {where}",
                f"two labels of {_shown(lines, line, where)}",
                "one line for each row",
                "drop one of the two lines",
            )
        found.append(row)
    return np.array(found, dtype=np.intp)


def _guarded_key(key: Any) -> Any:
    """Return a key as we write it, with apostrophes before what looks like a formula."""
    if isinstance(key, tuple):
        return tuple(map(_guarded_key, key))
    return guarded(key) if isinstance(key, str) else key


def _shown(lines: _Lines, line: int, where: str) -> str:
    """Return the cells by which a line names its row, as they are written."""
    names = [name for name in lines.table.column_names if repr(name) in where]
    return " ".join(repr(_name(lines.table.column(name)[line].as_py())) for name in names)


def _moments(
    lines: _Lines, column: str, times: Times, time_format: str | None
) -> tuple[list[int], list[int]]:
    """Return the starts that lines say, and those of the rows, in the same terms."""
    try:
        said = _instants(lines, column)
    except DiaryError:
        if time_format is None:
            raise
        said = _instants(lines, column, time_format)
    if not said.absolute:
        return said.values.tolist(), times.starts.tolist()
    if times.ahead is None:
        raise FileError(
            f"{lines.path.name}, column {column!r}",
            "times with a zone or in seconds, while those of the rows have none",
            "times that are written as in the rows",
            "write them alike",
        )
    return said.values.tolist(), (times.starts - times.ahead).tolist()


def _instants(lines: _Lines, column: str, time_format: str | None = None) -> Instants:
    with located_rows(lines.place):
        return read_times(ColumnTable(lines.table).values(column), column, time_format=time_format)
