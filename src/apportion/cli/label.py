"""`apportion label`: a label for every row of a file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import apportion
from apportion.cli.answer import answer_table, kept_columns, refuse_inputs, write_answer
from apportion.cli.inputs import Inputs, id_column, learn_features, read_inputs, require_ids
from apportion.cli.known import NONWEAR
from apportion.cli.method import check_method, estimator_of
from apportion.cli.options import (
    FeatureOptions,
    KnownOptions,
    MethodOptions,
    OutputOptions,
    with_groups,
)
from apportion.cli.page import command_line, contents_of_fit, require_page
from apportion.cli.show import show_report
from apportion.cli.summary import as_json, summary_of, with_summary
from apportion.cli.talk import (
    CommandLineError,
    in_options,
    print_out,
    say,
    stages,
    with_exit_codes,
)
from apportion.exceptions import SupervisionError, counted
from apportion.features import Encoded, Recipe
from apportion.files.labels import require_ending
from apportion.files.write import Outputs, require_writable
from apportion.labelling import Labelled, label_rows, renumbered
from apportion.progress import tell
from apportion.report import page_bytes
from apportion.saved import contains_rows, save_model
from apportion.tables import plain_name


@with_exit_codes
@with_groups
def label(
    readings: Annotated[
        Path,
        typer.Argument(
            help="The rows: a CSV, Parquet or ARFF file.",
            metavar="READINGS",
            show_default=False,
            readable=False,
        ),
    ],
    known: KnownOptions,
    feature: FeatureOptions,
    method: MethodOptions,
    out: OutputOptions,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Also save the fitted model here, for 'apportion predict'. It contains training "
            "rows; it needs one graph of all participants (--graphs one).",
            metavar="FILE",
            rich_help_panel="Output",
            readable=False,
        ),
    ] = None,
    labels_only: Annotated[
        bool,
        typer.Option(
            "--labels-only",
            help="Save no rows in the model, only ids and labels: it knows these rows again, and "
            "no others.",
            rich_help_panel="Output",
        ),
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Also write a report to look at, one HTML file: days, totals, a map of the rows "
            "with the neighbours that made their labels.",
            metavar="FILE",
            rich_help_panel="Output",
            readable=False,
        ),
    ] = None,
) -> None:
    """Label every row of READINGS from its bags' totals or from a diary.

    Give --bags COLUMN and --proportions TABLE, or --diary DIARY. The answer has the rows' ids and
    times, a label, the mass of every class, the label's confidence and a reason code.
    """
    label_file(readings, known, feature, method, out, model, labels_only, report)


def label_file(
    readings: Path,
    known: KnownOptions,
    feature: FeatureOptions,
    method: MethodOptions,
    out: OutputOptions,
    model: Path | None = None,
    labels_only: bool = False,
    report: Path | None = None,
    command: str | None = None,
) -> Labelled:
    """Read rows, label them, write the answer and return it.

    The report shows `command` as what was run; by default what the shell was asked for.
    """
    _check_options(known, method, out, model, labels_only)
    _check_outputs(readings, known, out, model, report)
    with stages(out.quiet):
        inputs = read_inputs(readings, known)
        features = learn_features(inputs, feature)
    if model is not None and inputs.known.groups is not None:
        raise CommandLineError(
            "--model saves one model, and --graphs auto gives every participant a graph of their "
            "own here, which labels better. Pass --graphs one, or leave out --model."
        )
    ids = id_column(inputs.table, feature.id)
    if labels_only:
        _require_row_ids(inputs, ids)
    say(inputs.rules, out.quiet, "rules, each an option:")
    say([*inputs.notes, *features.notes], out.quiet)
    with stages(out.quiet):
        found, told = _label(inputs, features.recipe, method)
    say(told, out.quiet)
    if not out.quiet:
        show_report(found)
    wanted = {*inputs.roles, *features.ids_and_times, ids}
    kept = kept_columns(inputs.table, wanted, out.all_columns)
    answer, lost = answer_table(
        found, inputs.table, kept, features.recipe, out, numbered=ids is None
    )
    say(lost, out.quiet)
    notes = [*inputs.notes, *features.notes, *told]
    command = command or command_line()
    summary = summary_of(found, inputs.rules, notes, command)
    answer = with_summary(answer, summary)
    written = []
    with Outputs(force=out.force) as outputs:
        if model is not None:
            with outputs.writing(model) as path:
                contents = _save(path, found, features.recipe, inputs, ids if labels_only else None)
            written.append(f"written: {model}, a model with {contents}")
        if report is not None:
            with stages(out.quiet):
                page = contents_of_fit(
                    found,
                    inputs,
                    ids=ids,
                    command=command,
                    files=(readings, known.diary, known.proportions),
                    notes=notes,
                )
                page_as_written = page_bytes(page)
            with outputs.writing(report) as path:
                path.write_bytes(page_as_written)
            written.append(f"written: {report}, a report to open in a browser")
        written = [*write_answer(answer, out, outputs), *written]
        if out.json:
            print_out(as_json(summary))
    say(written, out.quiet)
    return found


def _require_row_ids(inputs: Inputs, ids: str | None) -> None:
    """Raise where rows have no ids by which they could be known again."""
    if ids is None:
        raise CommandLineError("--labels-only needs row ids: name their column with --id.")
    require_ids(inputs.table, ids, inputs.path.name, inputs.place)


def _check_options(
    known: KnownOptions,
    method: MethodOptions,
    out: OutputOptions,
    model: Path | None,
    labels_only: bool,
) -> None:
    """Raise for options that do not go together."""
    if out.json and out.output is None:
        raise CommandLineError("--json prints a summary on stdout: name a file with --output.")
    if labels_only and model is None:
        raise CommandLineError("--labels-only says how --model FILE is saved: name the file.")
    if model is not None and known.graphs == "each":
        raise CommandLineError("--model saves one model: use --graphs one.")
    check_method(method)


def _check_outputs(
    readings: Path,
    known: KnownOptions,
    out: OutputOptions,
    model: Path | None,
    report: Path | None,
) -> None:
    """Raise, before any work, where the answer could not be written."""
    if out.output is not None:
        require_ending(out.output)
    if report is not None:
        require_page(report)
    written = [path for path in (out.output, model, report) if path is not None]
    if len({os.path.realpath(path) for path in written}) < len(written):
        raise CommandLineError("Two of --output, --model and --report name the same file.")
    for path in written:
        refuse_inputs(path, [readings, known.diary, known.proportions])
        require_writable(path, force=out.force)


def _label(inputs: Inputs, recipe: Recipe, method: MethodOptions) -> tuple[Labelled, list[str]]:
    """Return the labelled rows, and what to say about them."""
    tell("reading features")
    encoded = recipe.encode(inputs.table, inputs.place)
    known, notes = inputs.known, missing_notes(recipe, encoded)
    if recipe.missing == "drop":
        known = replace(known, left_out={**known.left_out, "missing-features": encoded.lacking})
    estimator = estimator_of(method)
    try:
        found = label_rows(encoded.rows, known, estimator, {"missing-features": encoded.lacking})
    except SupervisionError as error:
        raise renumbered(error, inputs.place) from None
    return found, [*notes, *map(in_options, found.notes)]


def missing_notes(recipe: Recipe, encoded: Encoded) -> list[str]:
    """Return what became of missing cells."""
    if not encoded.n_filled:
        return []
    rows = counted(int(encoded.lacking.sum()), "row")
    if recipe.missing == "drop":
        return [f"{rows} with a missing cell left out, as --missing drop says"]
    cells = counted(encoded.n_filled, "missing cell")
    return [f"{cells} in {rows} filled with the column's median, or no category (--missing median)"]


def _save(path: Path, found: Labelled, recipe: Recipe, inputs: Inputs, ids: str | None) -> str:
    """Save the fitted model, or the labels of the rows by these ids, and return what is in it."""
    fitted = found.models[None]
    nonwear = [name for name, role in inputs.roles.items() if role == NONWEAR]
    extra = {
        "recipe": recipe.to_json(),
        "apportion": apportion.__version__,
        "nonwear": nonwear[0] if nonwear else None,
    }
    with path.open("wb") as file:
        if ids is None:
            save_model(file, fitted, extra=extra)
            return f"{contains_rows(fitted)}: share it as carefully as the data"
        labels = found.labels.tolist()
        every = [plain_name(one) for one in inputs.table.column(ids).to_pylist()]
        fitted_ids = [one for one, label in zip(every, labels, strict=True) if label is not None]
        extra = {**extra, "id_column": ids}
        save_model(file, fitted, extra=extra, labels_only=True, ids=fitted_ids)
        return "no training rows, only ids and labels"
