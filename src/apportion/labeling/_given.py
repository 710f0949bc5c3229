"""Labels of single rows: from a column of the rows, or from a table of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from apportion._io.file_kinds import PARQUET_ENDINGS, WORKBOOK_ENDINGS, ending_of
from apportion._io.identifiers import factorize, first_called, plain_name, respelled
from apportion._io.spreadsheet_safe import guarded
from apportion._io.values import values_of
from apportion._utils.typing import AnyArray, BoolArray, IntArray
from apportion.exceptions import DiaryError, FileError, counted, hint, name_some
from apportion.labeling._source import SourceTable, source_table
from apportion.labeling._supervised import SupervisedTable
from apportion.labeling.rows import is_known
from apportion.plotting._window_times import Times
from apportion.supervision.diary.column_roles import ColumnTable, located_rows
from apportion.supervision.diary.instants import read_times
from apportion.supervision.diary.recording import holds_marks, marks_of

MARKS = ("given", "corrected", "changed", "keep")
"""Columns of a table of labels that mark the rows that count, or hold the labels that do."""

NOT = "not"
"""What stands in such a column of a line whose label the row does not have."""

_LABELS = ("label", "activity", "class")
_ENDINGS = (".csv", ".tsv", *PARQUET_ENDINGS, *WORKBOOK_ENDINGS)


def is_column(given: Any, rows: SourceTable) -> bool:
    """Return whether given labels are a column of the rows, and not a table of their own."""
    return isinstance(given, str) and (given in rows or not looks_like_table(given))


def looks_like_table(given: str, folder: Path = Path()) -> bool:
    """Return whether given labels, if they are no column, are a file of a folder."""
    path = folder / given
    return ending_of(path) in _ENDINGS or path.is_file()


class GivenLabels(NamedTuple):
    """Labels of single rows.

    Attributes
    ----------
    labels : ndarray of shape (n_samples,)
        The given label of each row; None where there is none.
    excluded : list of (int, object)
        Rows and labels that they do not have.
    notes : list of str
        How many labels were given, and where.
    """

    labels: AnyArray
    excluded: list[tuple[int, Any]]
    notes: list[str]


def read_given(
    given: Iterable[Any], task: SupervisedTable, encoding: str | None = None
) -> GivenLabels:
    """Return the given labels of rows, and labels that they do not have.

    Parameters
    ----------
    given : iterable
        Columns of the rows, and paths or dataframes of labels.
    task : SupervisedTable
        The rows and their totals.
    encoding : str, optional
        The encoding of files that are not UTF-8.
    """
    rows, classes = task.rows, task.all_classes
    labels = np.full(rows.n_samples, None, dtype=object)
    notes: list[str] = []
    excluded: list[tuple[int, Any]] = []
    for source in given:
        if is_column(source, rows):
            more, name = labels_in(rows, source, classes), source
        else:
            table = source_table(source, "the given labels", encoding)
            more = np.full(rows.n_samples, None, dtype=object)
            name = str(source) if table.like is None else table.name
            table, nots = _told_apart(table, classes)
            if nots is not None:
                found = labels_in(nots, _label_column(nots), classes).tolist()
                which = _row_of_lines(nots, task, several=True).tolist()
                excluded += [pair for pair in zip(which, found, strict=True) if pair[1] is not None]
                notes.append(f"{counted(len(found), 'label')} excluded in {name!r}")
            if nots is not None and not table.n_samples:
                continue
            lines, column = _lines_that_count(table)
            more[_row_of_lines(lines, task)] = labels_in(lines, column, classes)
        known = is_known(more)
        conflict = known & is_known(labels) & (labels != more)
        if conflict.any():
            row = int(np.argmax(conflict))
            raise FileError(
                "",
                f"the labels {labels[row]!r} and {more[row]!r}, both given",
                "one label for each row",
                hint("correct one of them, or leave out {given:{name}}", name=name),
                row=row,
                place=rows.place(row),
            )
        labels = np.where(known, more, labels)
        notes.append(f"{counted(int(known.sum()), 'label')} given in {name!r}")
    return GivenLabels(labels, excluded, notes)


def with_exclusions(found: GivenLabels, classes: AnyArray, rows: SourceTable) -> Any:
    """Return given labels and, as a mask, labels that rows do not have; None if there are none.

    A row of which all labels but one are excluded has that label.

    Parameters
    ----------
    found : GivenLabels
        The labels.
    classes : ndarray of shape (n_classes,)
        The classes.
    rows : SourceTable
        The rows.
    """
    position = {label: h for h, label in enumerate(classes.tolist())}
    pairs = [(row, position[label]) for row, label in found.excluded if label in position]
    if not pairs:
        return found.labels, None
    excluded = np.zeros((rows.n_samples, len(classes)), dtype=bool)
    excluded[tuple(np.array(pairs).T)] = True
    labels = found.labels.copy()
    left = len(classes) - excluded.sum(axis=1)
    for row in np.flatnonzero(excluded.any(axis=1)).tolist():
        if (labels[row] is not None and excluded[row, position[labels[row]]]) or not left[row]:
            raise FileError(
                "",
                "all labels excluded"
                if not left[row]
                else f"the label {labels[row]!r} both given and excluded",
                "labels that leave one for each row",
                "correct one of the lines",
                row=row,
                place=rows.place(row),
            )
        if left[row] == 1:
            labels[row] = classes.tolist()[int(np.argmin(excluded[row]))]
    return labels, excluded


def labels_in(source: SourceTable, column: str, classes: Sequence[Any]) -> AnyArray:
    """Return the labels in a column; None where a cell is empty.

    A label that a spreadsheet would take for a formula may have the apostrophe that is written
    before it.
    """
    codes, cells = factorize(source.table.column(column), "label")
    known = {plain_name(label): label for label in classes}
    written = {f"'{name}": label for name, label in known.items()} | known
    labels = [meaning(cell, written) for cell in cells]
    for code, (cell, label) in enumerate(zip(cells, labels, strict=True)):
        name = plain_name(cell)
        if label is None and name:
            alike = respelled([name], known)
            raise FileError(
                "",
                f"the label {cell!r}",
                f"the classes {name_some(map(repr, known), 12)}, or an empty cell",
                f"write it as the class {alike[name]!r}" if alike else "correct the cell",
                place=source.place(int(np.argmax(codes == code))),
                column=column,
            )
    return np.array([*labels, None], dtype=object)[codes]


def meaning(cell: Any, known: Mapping[str, Any]) -> Any:
    """Return what a cell names, None if nothing; a truth value may be spelled in another way."""
    if isinstance(cell, bool):
        folded = {name.casefold(): what for name, what in known.items()}
        return folded.get(str(cell).casefold())
    return known.get(plain_name(cell))


def unused_notes(labels: AnyArray, left_out: Mapping[str, BoolArray]) -> list[str]:
    """Return how many labels are given of rows that are not labeled, by the reason for that."""
    counts = {code: int((is_known(labels) & rows).sum()) for code, rows in left_out.items()}
    return [
        f"{counted(n, 'given label')} not used, because the row is not labeled ({code})"
        for code, n in counts.items()
        if n
    ]


def _label_column(lines: SourceTable) -> str:
    column = first_called(lines.table.column_names, _LABELS)
    assert column is not None
    return column


def _told_apart(
    lines: SourceTable, classes: Sequence[Any]
) -> tuple[SourceTable, SourceTable | None]:
    """Return lines that give a label, and those that exclude one, if there are any."""
    marks = first_called(lines.table.column_names, MARKS)
    label = first_called(lines.table.column_names, _LABELS)
    if marks is None or label is None or NOT in map(plain_name, classes):
        return lines, None
    nots = np.array([plain_name(cell).strip().casefold() == NOT for cell in lines.cells(marks)])
    if not nots.any():
        return lines, None
    return lines.take(np.flatnonzero(~nots)), lines.take(np.flatnonzero(nots))


def _lines_that_count(lines: SourceTable) -> tuple[SourceTable, str]:
    """Return the lines of a table that give a label, and the column of labels."""
    marks = first_called(lines.table.column_names, MARKS)
    label = first_called(lines.table.column_names, _LABELS)
    counts = np.ones(lines.n_samples, dtype=bool)
    if marks is not None and (label is None or not holds_marks(ColumnTable(lines.table), marks)):
        label = marks  # this column holds the labels themselves
    elif label is None:
        raise FileError(
            lines.name,
            f"no column 'label' or 'given', only {lines.listing}",
            "a column of labels",
            "call the column of labels 'label'",
        )
    elif marks is not None:
        with located_rows(lines.place):
            counts = marks_of(ColumnTable(lines.table), marks)
        lacking = counts & lines.empty(label)
        if lacking.any():
            raise FileError(
                "",
                f"no label, in a line that is marked in column {marks!r}",
                "a label in every line that is marked",
                "fill in the label, or remove the mark",
                place=lines.place(int(np.argmax(lacking))),
                column=label,
            )
    elif "confidence" in lines and "reason" in lines:
        raise FileError(
            lines.name,
            "labels of an earlier run, and no column that says which were corrected: given "
            "labels are kept, so that no row would be labeled anew",
            f"a column {' or '.join(map(repr, MARKS))} that is 'yes' where a label is to be kept",
            "add a column 'given' with 'yes' in the lines of these labels",
        )
    which = np.flatnonzero(counts & ~lines.empty(label))
    if not which.size:
        raise FileError(
            "",
            "no label that counts",
            "at least one",
            hint("fill in labels, or leave out {given}"),
            place=lines.name,
            column=label,
        )
    return lines.take(which), label


def _row_of_lines(lines: SourceTable, task: SupervisedTable, *, several: bool = False) -> IntArray:
    """Return the row of each line: by id, by participant and start, or by number."""
    names, rows, ids = lines.table.column_names, task.rows, task.ids
    times, columns, _ = task.row_times
    start, participant = columns.get("start"), columns.get("participant")
    line_ids = None if ids is None else first_called(names, [ids])
    line_start = None if start is None else first_called(names, [start, "start"])
    line_participant = (
        None if participant is None else first_called(names, [participant, "participant"])
    )
    if ids is not None and line_ids is not None:
        row_ids = [plain_name(cell) for cell in rows.cells(ids)]
        return _looked_up(lines.names(line_ids), row_ids, lines, rows, [line_ids], several)
    if line_start and times is not None and (participant is None or line_participant is not None):
        starts, row_starts = _starts(lines, line_start, times, task.time_format)
        if line_participant is None or times.participants is None:
            return _looked_up(starts, row_starts, lines, rows, [line_start], several)
        people = [plain_name(name) for name in times.participants.tolist()]
        keys = list(zip(lines.names(line_participant), starts, strict=True))
        row_keys = list(zip(people, row_starts, strict=True))
        return _looked_up(keys, row_keys, lines, rows, [line_participant, line_start], several)
    if "row" in lines and "row" not in rows:
        numbers = values_of(lines.table, "row").to_pylist()
        return _looked_up(numbers, range(rows.n_samples), lines, rows, ["row"], several)
    wanted = [
        *([f"the ids ({ids!r})"] if ids is not None else []),
        *(
            [f"the starts ({start!r}){f' and {participant!r}' if participant else ''}"]
            if start
            else []
        ),
        "the numbers of rows from 0 ('row')",
    ]
    raise FileError(
        lines.name,
        f"no column that says which row a label is of, only {lines.listing}",
        f"a column of {', or of '.join(wanted)} of {rows.name}",
        "add it",
    )


def _looked_up(
    keys: Sequence[Any],
    row_keys: Sequence[Any],
    lines: SourceTable,
    rows: SourceTable,
    columns: Sequence[str],
    several: bool,
) -> IntArray:
    """Return the row that has each key; a key of no row or of several rows is an error.

    So are two lines of one row, unless it may have several.
    """
    row_of: dict[Any, int] = {}
    second_row: dict[Any, int] = {}
    for k, key in enumerate(row_keys):
        if row_of.setdefault(key, k) != k:
            second_row.setdefault(key, k)
    # A table of labels may be one that was written for a spreadsheet: ids that look like formulas
    # have an apostrophe there, which the rows do not have. Ids that are equal as they are go first.
    guards = {_guarded_key(key): key for key in row_of}
    line_of: dict[int, int] = {}
    found_rows: list[int] = []
    for line, key in enumerate(keys):
        row_key = key if key in row_of else guards.get(key)
        row = row_of.get(row_key)
        if row is not None and row_key not in second_row and (several or row not in line_of):
            line_of[row] = line
            found_rows.append(row)
            continue
        cells = " ".join(repr(lines.names(name)[line]) for name in columns)
        where = f"column{'s' * (len(columns) > 1)} {' and '.join(map(repr, columns))}"
        place = lines.place(line)
        if row is None:
            found = f"a label of {cells}, which no row of {rows.name} has"
            allowed, advice = f"labels of rows of {rows.name}", "correct the line, or drop it"
        elif row_key in second_row:
            both = f"{rows.place(row)} and {rows.line(second_row[row_key])}"
            found, allowed = f"a label of {cells}, which {both} have", "labels of one row each"
            advice = "give the rows ids that differ, in both files"
        else:
            place = f"{lines.place(line_of[row])} and {lines.line(line)}"
            found, allowed = f"two labels of {cells}", "one line for each row"
            advice = "drop one of the two lines"
        raise FileError(where, found, allowed, advice, place=place)
    return np.array(found_rows, dtype=np.intp)


def _guarded_key(key: Any) -> Any:
    """Return a key as it is written, with apostrophes before what looks like a formula."""
    if isinstance(key, tuple):
        return tuple(map(_guarded_key, key))
    return guarded(key) if isinstance(key, str) else key


def _starts(
    lines: SourceTable, column: str, times: Times, time_format: str | None
) -> tuple[list[int], list[int]]:
    """Return the starts in the lines and those of the rows, in the same terms.

    Times that are not in ISO 8601 are read in the format of the rows.
    """
    cells = ColumnTable(lines.table).values(column)
    with located_rows(lines.place):
        try:
            starts = read_times(cells, column)
        except DiaryError:
            if time_format is None:
                raise
            starts = read_times(cells, column, time_format=time_format)
    if not starts.absolute:
        return starts.values.tolist(), times.starts.tolist()
    if times.ahead is None:
        raise FileError(
            "",
            "times with a zone or in seconds, while those of the rows have none",
            "times that are written as in the rows",
            "write them alike",
            place=lines.name,
            column=column,
        )
    return starts.values.tolist(), (times.starts - times.ahead).tolist()
