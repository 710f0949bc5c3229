"""`apportion report`: the report of labels that are in a file already."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from apportion._typing import AnyArray, FloatArray
from apportion.cli.answer import refuse_inputs
from apportion.cli.inputs import Features, Inputs, id_column, learn_features, read_inputs
from apportion.cli.known import given_labels
from apportion.cli.options import FeatureOptions, KnownOptions, with_groups
from apportion.cli.page import command_line, contents_of, require_page
from apportion.cli.summary import read_summary, summary_in
from apportion.cli.talk import say, stages, with_exit_codes
from apportion.exceptions import FileError, counted, name_some
from apportion.files.read import no_column, place_in, read_columns
from apportion.files.write import require_writable
from apportion.graph import choose_graph
from apportion.labelling import Answer, Judged, judge, places_among
from apportion.progress import tell
from apportion.report import write_contents
from apportion.report.contents import MOST_MAPS, maps_left_out, name_of, rows_a_map
from apportion.tables import plain_name
from apportion.views.rows_map import RowsMap, map_of_graph


@with_exit_codes
@with_groups
def report(
    readings: Annotated[
        Path,
        typer.Argument(
            help="The rows that were labelled: a CSV, Parquet or ARFF file.",
            metavar="READINGS",
            show_default=False,
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

    Nothing is labelled anew: given totals are compared with the labels as they are in the file, so
    that labels corrected by hand can be looked at too. Pass the options of bags and features that
    the labels were made with.
    """
    require_page(output)
    refuse_inputs(output, [readings, labels, summary, known.diary, known.proportions])
    require_writable(output, force=force)
    with stages(quiet):
        inputs = read_inputs(readings, known)
        features = learn_features(inputs, feature)
        saved = read_columns(labels, encoding=known.encoding)
        ids = id_column(inputs.table, feature.id)
        answer = _answer(saved, labels, inputs, ids, known.encoding)
        run = summary_in(saved, labels) if summary is None else read_summary(summary)
        judged = judge(answer.labels, inputs.known, run.decode)
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
            files=(readings, known.diary, known.proportions, labels),
            notes=[*inputs.notes, *features.notes, *run.notes],
        )
        write_contents(page, output, force=force)
    say([f"written: {output}, {counted(len(answer.labels), 'row')}"], quiet)


def _answer(
    saved: Any, path: Path, inputs: Inputs, ids: str | None, encoding: str | None
) -> Answer:
    """Return the labels of a file, in the order of the rows."""
    if "label" not in saved.column_names:
        raise no_column("label", saved.column_names, path.name)
    classes = inputs.known.totals.classes

    def place(row: int) -> str:
        return place_in(path, row, encoding=encoding)

    labels = given_labels(saved, "label", classes, place)
    masses = _masses(saved, labels, classes)
    reasons = np.full(len(labels), "", dtype=object)
    if "reason" in saved.column_names:
        reasons[:] = [one or "" for one in saved.column("reason").to_pylist()]
    order = _order(saved, path, inputs, ids)
    labels, masses, reasons = labels[order], masses[order], reasons[order]
    at = places_among(labels, classes)
    confidence = np.where(at >= 0, masses[np.arange(len(at)), at], np.nan)
    return Answer(classes, labels, masses, confidence, reasons)


def _masses(saved: Any, labels: AnyArray, classes: AnyArray) -> FloatArray:
    """Return the masses of the classes; where a file has none, all of it is the label's."""
    columns = [f"mass_{name}" for name in classes.tolist()]
    if set(columns) <= set(saved.column_names):
        cells = [saved.column(name).to_numpy(zero_copy_only=False) for name in columns]
        return np.column_stack(cells).astype(np.float64)
    at = places_among(labels, classes)
    return np.where((at >= 0)[:, None], np.eye(len(classes))[at], np.nan)


def _order(saved: Any, path: Path, inputs: Inputs, ids: str | None) -> AnyArray:
    """Return where each row's label stands in the file."""
    table, name = inputs.table, inputs.path.name
    if ids is not None and ids in saved.column_names:
        there = [plain_name(one) for one in saved.column(ids).to_pylist()]
        wanted = [plain_name(one) for one in table.column(ids).to_pylist()]
        if len(set(there)) == len(there) and len(set(wanted)) == len(wanted):
            place = {one: row for row, one in enumerate(there)}
            missing = [one for one in wanted if one not in place]
            if missing:
                raise FileError(
                    f"{path.name}, column {ids!r}",
                    f"no row {name_some(map(repr, missing), 3)}",
                    f"a label for each of the {len(wanted):,} rows of {name}",
                    "give the labels of these rows",
                )
            return np.array([place[one] for one in wanted], dtype=np.intp)
    if saved.num_rows != table.num_rows:
        raise FileError(
            path.name,
            counted(saved.num_rows, "row"),
            f"{table.num_rows:,}, as in {name}",
            "give the labels of these rows",
        )
    for column in set(inputs.roles) & set(saved.column_names):
        _require_same(column, saved, path, inputs)
    return np.arange(table.num_rows)


def _require_same(column: str, saved: Any, path: Path, inputs: Inputs) -> None:
    """Raise where a column of the labels' file is not that of the rows."""
    ours, theirs = inputs.table.column(column), saved.column(column)
    if ours.type != theirs.type or ours.equals(theirs):
        return
    pairs = zip(ours.to_pylist(), theirs.to_pylist(), strict=True)
    row, (one, other) = next((row, pair) for row, pair in enumerate(pairs) if pair[0] != pair[1])
    raise FileError(
        f"{path.name}, column {column!r}",
        f"{str(other)!r} where {inputs.place(row)} has {str(one)!r}",
        f"the rows of {inputs.path.name}, in their order",
        "give the labels of these rows, or name a column of ids with --id",
    )


def _maps(inputs: Inputs, features: Features, judged: Judged) -> tuple[dict[str, RowsMap], str]:
    """Return maps of the rows, on graphs like those that labels are found on."""
    tell("reading features")
    X = features.recipe.encode(inputs.table, inputs.place).rows
    groups = list(judged.rows.items())
    shown = groups[:MOST_MAPS]
    maps = {}
    for group, rows in shown:
        graph, _ = choose_graph(len(rows), X.shape[1])
        maps[name_of(group)] = map_of_graph(graph.fit(X[rows]), rows_a_map(len(shown))).among(rows)
    return maps, maps_left_out(len(groups))
