"""`apportion report`: the report of labels that are in a file already."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from apportion._io.atomic_write import require_writable
from apportion._io.identifiers import plain_name
from apportion._io.read import place_in, read_columns
from apportion._io.spreadsheet_safe import guarded
from apportion._io.values import values_of
from apportion._utils.progress import report_progress
from apportion._utils.typing import AnyArray, FloatArray
from apportion.cli.answer import refuse_inputs, times_to_write
from apportion.cli.console import print_notes, stages, with_exit_codes
from apportion.cli.inputs import (
    Features,
    Inputs,
    id_column,
    learn_features,
    read_inputs,
    times_of,
    with_named,
)
from apportion.cli.known import given_labels
from apportion.cli.options import FeatureOptions, KnownOptions, with_groups
from apportion.cli.page import command_line, contents_of, require_page
from apportion.cli.summary import read_summary, summary_in
from apportion.exceptions import FileError, SupervisionError, counted, name_some
from apportion.graphs import Graph, choose_graph
from apportion.labeling.rows import Answer, Judged, judge, places_among
from apportion.report import write_page
from apportion.report._report_data import maps_of, name_of
from apportion.report._row_map import RowMap

_ROUNDING = 1e-6


@with_exit_codes
@with_groups
def report(
    readings: Annotated[
        Path,
        typer.Argument(
            help="The rows that were labeled: a CSV (also .csv.gz), Parquet, .xlsx or ARFF file.",
            metavar="READINGS",
            show_default=False,
            readable=False,
        ),
    ],
    labels: Annotated[
        Path,
        typer.Option(
            help="Their labels, as 'apportion label' wrote them, or corrected since: a CSV or "
            "Parquet file with a column 'label'.",
            metavar="FILE",
            show_default=False,
            rich_help_panel="Bags",
            readable=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="The report to write, an .html file.",
            metavar="FILE",
            show_default=False,
            rich_help_panel="Output",
            readable=False,
        ),
    ],
    known: KnownOptions,
    feature: FeatureOptions,
    summary: Annotated[
        Path | None,
        typer.Option(
            help="What 'apportion label --json' printed: convergence and settings of the run. "
            "Labels in Parquet have it inside.",
            metavar="FILE",
            rich_help_panel="Bags",
            readable=False,
        ),
    ] = None,
    title: Annotated[
        str, typer.Option(help="The report's heading.", rich_help_panel="Output")
    ] = "",
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace a file that is there.", rich_help_panel="Output"),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Say only what went wrong.", rich_help_panel="Output"),
    ] = False,
) -> None:
    """Write the report of labels that are in a file already.

    Nothing is labeled anew: given totals are compared with the labels as they are in the file, so
    that labels corrected by hand can be looked at too. Pass the options of bags and features that
    the labels were made with.
    """
    require_page(output)
    refuse_inputs(output, [labels, summary, *known.files(readings)])
    require_writable(output, force=force)
    with stages(quiet):
        inputs = read_inputs(readings, known, feature.id)
        features = learn_features(inputs, feature)
        saved = read_columns(labels, encoding=known.encoding)
        ids = id_column(inputs.table, feature.id)
        inputs, answer = _answer(_Saved(saved, labels, known.encoding), inputs, ids)
        run = summary_in(saved, labels) if summary is None else read_summary(summary)
        judged = _judged(answer, inputs, run.decode)
        maps, no_map = _maps(inputs, features, judged)
        page = contents_of(
            answer,
            judged.report,
            {name_of(group): one for group, one in judged.diagnoses.items()},
            run.runs,
            inputs,
            maps=maps,
            no_map=no_map,
            ids=ids,
            title=title,
            command=run.command or command_line(),
            files=(*known.files(readings), labels),
            notes=list(dict.fromkeys([*inputs.notes, *features.notes, *run.notes])),
        )
        write_page(page, output, force=force)
    more = saved.num_rows - len(answer.labels)
    if more > 0:
        print_notes(
            [f"{counted(more, 'label')} of {labels.name} of other rows are not used"], quiet
        )
    print_notes([f"written: {output}, {counted(len(answer.labels), 'row')}"], quiet)


@dataclass(frozen=True)
class _Saved:
    """A file of labels."""

    table: Any
    path: Path
    encoding: str | None

    def __contains__(self, column: str | None) -> bool:
        return column in self.table.column_names

    def cells(self, column: str) -> list[Any]:
        """Return what is in a column."""
        return list(self.table.column(column).to_pylist())

    def place(self, row: int) -> str:
        """Return where a row stands, in words."""
        return place_in(self.path, row, encoding=self.encoding)


def _judged(answer: Answer, inputs: Inputs, decode: str) -> Judged:
    try:
        return judge(_with_uncertain(answer), inputs.known, decode)
    except SupervisionError as error:
        raise error.placed(inputs.place) from None


def _answer(saved: _Saved, inputs: Inputs, ids: str | None) -> tuple[Inputs, Answer]:
    """Return the labels of a file, in the order of the rows, and inputs with all their classes."""
    if "label" not in saved:
        raise FileError(
            saved.path.name,
            f"no column 'label', only {name_some(map(repr, saved.table.column_names), 12)}",
            "labels as 'apportion label' writes them",
            "give that file, or call the column of labels 'label'",
        )
    totals = inputs.known.totals
    names = [*totals.classes.tolist(), *inputs.never]
    labels = given_labels(saved.table, "label", names, saved.place)
    totals = with_named(totals, inputs.never, labels)
    classes = totals.classes
    if all(one is None for one in labels.tolist()):
        raise FileError(
            f"{saved.path.name}, column 'label'",
            "no label",
            "a label for at least one row",
            "give the file that 'apportion label' wrote",
        )
    masses = _masses(saved, labels, classes)
    reasons = np.full(len(labels), "", dtype=object)
    if "reason" in saved:
        reasons[:] = ["" if one is None else str(one) for one in saved.cells("reason")]
    order = _order(saved, inputs, ids)
    labels, masses, reasons = labels[order], masses[order], reasons[order]
    at = places_among(labels, classes)
    confidence = np.where(at >= 0, masses[np.arange(len(at)), at], np.nan)
    if "confidence" in saved:
        uncertain = np.array(["uncertain" in one.split(";") for one in reasons.tolist()])
        uncertain &= (at < 0) & np.isfinite(masses).all(axis=1)
        confidence[uncertain] = _shares(saved, "confidence")[order][uncertain]
    inputs = replace(inputs, known=replace(inputs.known, totals=totals))
    return inputs, Answer(classes, labels, masses, confidence, reasons)


def _with_uncertain(answer: Answer) -> AnyArray:
    """Return the labels, and those that uncertain rows would have: of the mass that they name.

    Totals speak of all rows: the rows that keep a label are no fair part of their bag.
    """
    labels = answer.labels.copy()
    withheld = (places_among(labels, answer.classes) < 0) & np.isfinite(answer.confidence)
    off = np.abs(answer.masses[withheld] - answer.confidence[withheld, None])
    labels[withheld] = answer.classes[off.argmin(axis=1)]
    return labels


def _masses(saved: _Saved, labels: AnyArray, classes: AnyArray) -> FloatArray:
    """Return the masses of the classes; where a file has none, all of it is the label's."""
    columns = _mass_columns(classes)
    if all(name in saved for name in columns):
        return np.column_stack([_shares(saved, name) for name in columns])
    at = places_among(labels, classes)
    return np.where((at >= 0)[:, None], np.eye(len(classes))[at], np.nan)


def _mass_columns(classes: AnyArray) -> list[str]:
    return [f"mass_{name}" for name in classes.tolist()]


def _shares(saved: _Saved, column: str) -> FloatArray:
    """Return the shares in a column, NaN for an empty cell."""
    import pyarrow as pa

    cells = values_of(saved.table, column)
    try:
        found = cells.cast(pa.float64()).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        found = np.array([_number(cell) for cell in cells.to_pylist()])
    wrong = (found < -_ROUNDING) | (found > 1.0 + _ROUNDING)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise FileError(
            f"{saved.place(row)}, column {column!r}",
            repr(cells[row].as_py()),
            "a number from 0 to 1, or an empty cell",
            "correct the cell, or leave out all columns of masses",
        )
    return np.asarray(found)


def _number(cell: Any) -> float:
    """Return a cell as a number: NaN where it is empty, infinite where it is none."""
    try:
        return math.nan if cell is None else float(cell)
    except (TypeError, ValueError):
        return math.inf


def _order(saved: _Saved, inputs: Inputs, ids: str | None) -> AnyArray:
    """Return where each row's label stands in the file."""
    table, name = inputs.table, inputs.path.name
    if ids is not None and ids in saved:
        there = [plain_name(one) for one in saved.cells(ids)]
        cells = table.column(ids).to_pylist()
        wanted = [plain_name(one) for one in cells]
        if len(set(there)) == len(there) and len(set(wanted)) == len(wanted):
            place = {one: row for row, one in enumerate(there)}
            found = [place.get(plain_name(one), place.get(guarded(one))) for one in cells]
            missing = [one for one, row in zip(wanted, found, strict=True) if row is None]
            if missing:
                raise FileError(
                    f"{saved.path.name}, column {ids!r}",
                    f"no label of {name_some(map(repr, missing), 3)}",
                    f"a label for each of the {len(wanted):,} rows of {name}",
                    "give the labels of these rows",
                )
            return np.array(found, dtype=np.intp)
    if saved.table.num_rows != table.num_rows:
        raise FileError(
            saved.path.name,
            counted(saved.table.num_rows, "row"),
            f"{table.num_rows:,}, as in {name}",
            "give the labels of these rows",
        )
    order = np.arange(table.num_rows)
    if ids is None and "row" in saved and "row" not in table.column_names:
        numbers = values_of(saved.table, "row").to_pylist()
        if set(numbers) == set(order.tolist()):
            order = np.argsort(np.array(numbers, dtype=np.intp))
    times, columns, _ = times_of(table, inputs.times, inputs.roles)
    as_times = times_to_write(table, times, columns, inputs.time_format)
    ours = {"label", "confidence", "reason", *_mass_columns(inputs.known.totals.classes)}
    for column in table.column_names:
        if column in saved and column not in ours and column in {*inputs.roles, ids}:
            written = as_times[column].cells(True) if column in as_times else None
            _require_same(column, saved, order, inputs, written)
    return order


def _require_same(
    column: str, saved: _Saved, order: AnyArray, inputs: Inputs, written: Any
) -> None:
    """Raise where a column of the labels' file is not that of the rows, or what we write for it."""
    import pyarrow as pa

    ours, theirs = inputs.table.column(column), saved.table.column(column).take(order)
    if ours.type == theirs.type and ours.equals(theirs):
        return
    ours = values_of(inputs.table, column) if written is None else pa.chunked_array([written])
    theirs = values_of(saved.table, column).take(order)
    try:
        theirs = theirs.cast(ours.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return  # written in another way, as spreadsheets do with times
    if ours.equals(theirs):
        return
    cells = zip(ours.to_pylist(), theirs.to_pylist(), strict=True)
    for row, (one, other) in enumerate(cells):
        if plain_name(other) not in (plain_name(one), guarded(one)):
            raise FileError(
                f"{saved.place(int(order[row]))}, column {column!r}",
                f"{plain_name(other)!r}, where {inputs.place(row)} has {plain_name(one)!r}",
                f"the rows of {inputs.path.name}, in their order",
                "give the labels of these rows, or name a column of ids with --id",
            )


def _maps(inputs: Inputs, features: Features, judged: Judged) -> tuple[dict[str, RowMap], str]:
    """Return maps of the rows, on graphs like those that labels are found on."""
    report_progress("reading features")
    X = features.recipe.encode(inputs.table, inputs.place).rows

    def graph_of(group: Any) -> Graph:
        rows = judged.rows[group]
        return choose_graph(len(rows), X.shape[1])[0].fit(X[rows])

    return maps_of(judged.rows, graph_of)
