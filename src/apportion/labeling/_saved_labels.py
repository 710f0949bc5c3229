"""Read labels that were found before, perhaps corrected since, and match them with their rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from apportion._io.identifiers import plain_name
from apportion._io.label_table import label_column_names
from apportion._io.spreadsheet_safe import guarded
from apportion._io.values import values_of
from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.exceptions import FileError, SupervisionError, counted, hint, name_some
from apportion.labeling._given import labels_in
from apportion.labeling._output_tables import written_times
from apportion.labeling._source import SourceTable
from apportion.labeling._supervised import SupervisedTable
from apportion.labeling.rows import (
    BagAssessment,
    RowLabels,
    assess_labels,
    confidence_of,
    is_known,
    places_among,
)

_ROUNDING = 1e-6


def match_labels(saved: SourceTable, task: SupervisedTable) -> tuple[SupervisedTable, RowLabels]:
    """Return the labels in a table, in the order of the rows, and the rows with all classes.

    Parameters
    ----------
    saved : SourceTable
        A table with a column `label`; columns of masses, confidence and reason are read too.
    task : SupervisedTable
        The rows that were labeled.
    """
    if "label" not in saved:
        raise FileError(
            saved.name,
            f"no column 'label', only {saved.listing}",
            "labels as they were written, in a column 'label'",
            "give that file, or call the column of labels 'label'",
        )
    labels = labels_in(saved, "label", task.all_classes)
    totals = task.totals_for(labels)
    if not is_known(labels).any():
        raise FileError(
            "",
            "no label",
            "a label for at least one row",
            "give the file that the labels were written to",
            place=saved.name,
            column="label",
        )
    masses = _masses(saved, labels, totals.classes)
    reasons = np.full(len(labels), "", dtype=object)
    if "reason" in saved:
        reasons[:] = ["" if cell is None else str(cell) for cell in saved.cells("reason")]
    order = _order(saved, task)
    labels, masses, reasons = labels[order], masses[order], reasons[order]
    confidence = confidence_of(labels, masses, totals.classes)
    if "confidence" in saved:
        uncertain = np.array(["uncertain" in codes.split(";") for codes in reasons.tolist()])
        uncertain &= ~is_known(labels) & np.isfinite(masses).all(axis=1)
        confidence[uncertain] = _shares(saved, "confidence")[order][uncertain]
    task = replace(task, supervision=replace(task.supervision, totals=totals))
    return task, RowLabels(totals.classes, labels, masses, confidence, reasons)


def assess_saved(labels: RowLabels, task: SupervisedTable, decode: str) -> BagAssessment:
    """Compare saved labels with the totals of their bags.

    Uncertain rows count with the label that they would have, which is the class whose mass is their
    confidence: totals are about all rows, and those that keep a label are no fair part of a bag.
    """
    all_labels = labels.labels.copy()
    withheld = ~is_known(labels.labels) & np.isfinite(labels.confidence)
    distance = np.abs(labels.masses[withheld] - labels.confidence[withheld, None])
    all_labels[withheld] = labels.classes[distance.argmin(axis=1)]
    try:
        return assess_labels(all_labels, task.supervision, decode)
    except SupervisionError as error:
        raise error.placed(task.rows.place) from None


def _masses(saved: SourceTable, labels: AnyArray, classes: AnyArray) -> FloatArray:
    """Return the masses of the classes; if a table has none, all of it is that of the label."""
    columns = label_column_names(classes)[1:-2]
    if all(name in saved for name in columns):
        return np.column_stack([_shares(saved, name) for name in columns])
    codes = places_among(labels, classes)
    return np.where((codes >= 0)[:, None], np.eye(len(classes))[codes], np.nan)


def _shares(saved: SourceTable, column: str) -> FloatArray:
    """Return the shares in a column, NaN for an empty cell."""
    import pyarrow as pa

    cells = values_of(saved.table, column)
    try:
        shares = cells.cast(pa.float64()).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        shares = np.array([_number(cell) for cell in cells.to_pylist()])
    wrong = (shares < -_ROUNDING) | (shares > 1.0 + _ROUNDING)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise FileError(
            "",
            repr(cells[row].as_py()),
            "a number from 0 to 1, or an empty cell",
            "correct the cell, or leave out all columns of masses",
            place=saved.place(row),
            column=column,
        )
    return np.asarray(shares)


def _number(cell: Any) -> float:
    """Return a cell as a number: NaN if it is empty, infinite if it is none."""
    try:
        return math.nan if cell is None else float(cell)
    except (TypeError, ValueError):
        return math.inf


def _order(saved: SourceTable, task: SupervisedTable) -> IntArray:
    """Return where the label of each row is in the table of labels."""
    rows, ids = task.rows, task.ids
    if ids is not None and ids in saved:
        saved_ids = [plain_name(cell) for cell in saved.cells(ids)]
        cells = rows.cells(ids)
        row_ids = [plain_name(cell) for cell in cells]
        if len(set(saved_ids)) == len(saved_ids) and len(set(row_ids)) == len(row_ids):
            return _by_id(saved, saved_ids, cells, row_ids, task)
    if saved.n_samples != rows.n_samples:
        raise FileError(
            saved.name,
            counted(saved.n_samples, "row"),
            f"{rows.n_samples:,}, as in {rows.name}",
            "give the labels of these rows",
        )
    order = np.arange(rows.n_samples)
    if ids is None and "row" in saved and "row" not in rows:
        numbers = values_of(saved.table, "row").to_pylist()
        if set(numbers) == set(order.tolist()):
            order = np.argsort(np.array(numbers, dtype=np.intp))
    times = written_times(rows.table, task.row_times, task.time_format, typed=True)
    added = label_column_names(task.totals.classes)
    for column in rows.table.column_names:
        if column in saved and column not in added and column in {*task.roles, ids}:
            _require_same(column, saved, order, rows, times.get(column))
    return order


def _by_id(
    saved: SourceTable,
    saved_ids: Sequence[str],
    cells: Sequence[Any],
    row_ids: Sequence[str],
    task: SupervisedTable,
) -> IntArray:
    """Return where the label of each row is, by ids that differ."""
    position = {name: row for row, name in enumerate(saved_ids)}
    order = [position.get(plain_name(cell), position.get(guarded(cell))) for cell in cells]
    missing = [name for name, row in zip(row_ids, order, strict=True) if row is None]
    if missing:
        raise FileError(
            "",
            f"no label of {name_some(map(repr, missing), 3)}",
            f"a label for each of the {len(row_ids):,} rows of {task.rows.name}",
            "give the labels of these rows",
            place=saved.name,
            column=task.ids,
        )
    return np.array(order, dtype=np.intp)


def _require_same(
    column: str, saved: SourceTable, order: IntArray, rows: SourceTable, times: Any
) -> None:
    """Raise if a column of the table of labels is not that of the rows, or as it is written."""
    import pyarrow as pa

    expected, actual = rows.table.column(column), saved.table.column(column).take(order)
    if expected.type == actual.type and expected.equals(actual):
        return
    expected = values_of(rows.table, column) if times is None else pa.chunked_array([times])
    actual = values_of(saved.table, column).take(order)
    try:
        actual = actual.cast(expected.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return  # written in another way, as spreadsheets do with times
    if expected.equals(actual):
        return
    cells = zip(expected.to_pylist(), actual.to_pylist(), strict=True)
    for row, (cell, saved_cell) in enumerate(cells):
        if plain_name(saved_cell) not in (plain_name(cell), guarded(cell)):
            raise FileError(
                "",
                f"{plain_name(saved_cell)!r}, where {rows.place(row)} has {plain_name(cell)!r}",
                f"the rows of {rows.name}, in their order",
                hint("give the labels of these rows, or name a column of ids with {id}"),
                place=saved.place(int(order[row])),
                column=column,
            )
