"""`apportion label`: a label for every row of a file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import apportion
from apportion._io.atomic_write import Outputs, require_writable
from apportion._io.feature_recipe import Encoded, Recipe
from apportion._io.identifiers import plain_name
from apportion._io.spreadsheet_safe import require_ending, write_table
from apportion._utils.progress import report_progress
from apportion.cli.answer import (
    answer_table,
    episodes_table,
    kept_columns,
    refuse_inputs,
    require_share,
    times_to_write,
    write_answer,
)
from apportion.cli.console import (
    CommandLineError,
    in_options,
    print_notes,
    print_out,
    stages,
    with_exit_codes,
)
from apportion.cli.inputs import (
    Inputs,
    id_column,
    learn_features,
    read_inputs,
    require_ids,
    times_of,
)
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
from apportion.exceptions import FileError, GivenLabelError, SupervisionError, counted, name_some
from apportion.labeling.rows import Answer, Labeled, kept_and_uncertain, label_rows
from apportion.persistence import contains_rows, save_model
from apportion.report import page_bytes
from apportion.report._glossary import Explanations

_OFTEN = 0.05
"""Columns that are missing in a larger share of the rows than this are named."""

_MOST_NAMED = 8
_IN_NOTES = ("information index", "stationarity", "residual", "energy")


@with_exit_codes
@with_groups
def label(
    readings: Annotated[
        Path,
        typer.Argument(
            help="The rows: a CSV (also .csv.gz), Parquet, .xlsx or ARFF file.",
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
            "with the neighbors that made their labels.",
            metavar="FILE",
            rich_help_panel="Output",
            readable=False,
        ),
    ] = None,
    episodes: Annotated[
        Path | None,
        typer.Option(
            help="Also write episodes, .csv or .parquet: one line for windows of one label that "
            "follow each other, with start, end, minutes and mean confidence.",
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
    label_file(readings, known, feature, method, out, model, labels_only, report, episodes)


def label_file(
    readings: Path,
    known: KnownOptions,
    feature: FeatureOptions,
    method: MethodOptions,
    out: OutputOptions,
    model: Path | None = None,
    labels_only: bool = False,
    report: Path | None = None,
    episodes: Path | None = None,
    command: str | None = None,
) -> Labeled:
    """Read rows, label them, write the answer and return it.

    The report shows `command` as what was run; by default what the shell was asked for.
    """
    _check_options(known, method, out, model, labels_only)
    _check_outputs(readings, known, out, model, report, episodes)
    with stages(out.quiet):
        inputs = read_inputs(readings, known, feature.id)
        features = learn_features(inputs, feature)
    if model is not None and inputs.known.groups is not None:
        raise CommandLineError(
            "--model saves one model, and --graphs auto gives every participant a graph of their "
            "own here, which labels better. Pass --graphs one, or leave out --model."
        )
    times, columns, why = times_of(inputs.table, inputs.times, inputs.roles)
    if episodes is not None and times is None:
        raise _no_episodes(inputs, why)
    ids = id_column(inputs.table, feature.id)
    if labels_only:
        _require_row_ids(inputs, ids)
    explain = Explanations(inputs.bag_word)
    print_notes(explain.lines(inputs.bag_word), out.quiet)
    print_notes(inputs.rules, out.quiet, "rules, each an option:")
    print_notes([*inputs.notes, *features.notes], out.quiet)
    with stages(out.quiet):
        found, told = _label(inputs, features.recipe, method, out.abstain_below)
    print_notes(told, out.quiet)
    print_notes(explain.lines(*(term for term in _IN_NOTES if term in " ".join(told))), out.quiet)
    if not out.quiet:
        show_report(found, explain)
    wanted = {*inputs.roles, *features.ids_and_times, ids}
    kept = kept_columns(inputs.table, wanted, out.all_columns)
    answer, lost = answer_table(
        found,
        inputs.table,
        kept,
        features.recipe,
        out,
        numbered=ids is None,
        times=times_to_write(inputs.table, times, columns, known.time_format),
    )
    print_notes(lost, out.quiet)
    notes = [*inputs.notes, *features.notes, *told]
    command = command or command_line()
    summary = summary_of(found, inputs.rules, notes, command, out.abstain_below)
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
                    files=known.files(readings),
                    notes=notes,
                )
                page_as_written = page_bytes(page)
            with outputs.writing(report) as path:
                path.write_bytes(page_as_written)
            written.append(f"written: {report}, a report to open in a browser")
        if episodes is not None and times is not None:
            lines = episodes_table(found, times, columns, episodes.suffix.lower() == ".parquet")
            write_table(lines, episodes, outputs)
            written.append(f"written: {episodes}, {counted(lines.num_rows, 'episode')}")
        written = [*write_answer(answer, out, outputs), *written]
        if out.json:
            print_out(as_json(summary))
    print_notes(written, out.quiet)
    return found


def _no_episodes(inputs: Inputs, why: str) -> FileError:
    """Return the error for rows whose times are not known."""
    names = inputs.table.column_names
    return FileError(
        inputs.path.name,
        why or f"no column of times among {name_some(map(repr, names), 12)}",
        "times of the rows, which --episodes needs: a column 'start' (or 'time', 'timestamp')",
        "add it or, with a diary, say which column it is with --start; or leave out --episodes",
    )


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
    require_share(out.abstain_below)
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
    episodes: Path | None,
) -> None:
    """Raise, before any work, where the answer could not be written."""
    for path in (out.output, episodes):
        if path is not None:
            require_ending(path)
    if report is not None:
        require_page(report)
    written = [path for path in (out.output, model, report, episodes) if path is not None]
    if len({os.path.realpath(path) for path in written}) < len(written):
        raise CommandLineError(
            "Two of --output, --model, --report and --episodes name the same file."
        )
    for path in written:
        refuse_inputs(path, known.files(readings))
        require_writable(path, force=out.force)


def _label(
    inputs: Inputs, recipe: Recipe, method: MethodOptions, abstain_below: float | None
) -> tuple[Labeled, list[str]]:
    """Return the labeled rows, and what to say about them."""
    report_progress("reading features")
    encoded = recipe.encode(inputs.table, inputs.place)
    known, notes = inputs.known, missing_notes(recipe, encoded)
    marked = encoded.poor
    if recipe.missing == "drop":
        marked = encoded.lacking
        known = replace(known, left_out={**known.left_out, "missing-features": marked})
    estimator = estimator_of(method)
    try:
        marks = {"missing-features": marked}
        found = label_rows(encoded.rows, known, estimator, marks, abstain_below)
    except GivenLabelError as error:
        raise _contradiction(error, inputs) from None
    except SupervisionError as error:
        raise error.placed(inputs.place) from None
    uncertain = uncertain_notes(found, abstain_below)
    return found, [*notes, *map(in_options, found.notes), *uncertain]


def _contradiction(error: GivenLabelError, inputs: Inputs) -> SupervisionError:
    """Return the error of given labels that contradict a bag, or an entry of the diary."""
    hint = "correct the labels or the totals"
    if inputs.bag_word == "entry":
        hint = "correct the labels or the diary, or allow for rounded durations with --tolerance"
    where = f"{inputs.place(error.row or 0)} in {inputs.bag_word} {error.bag!r}"
    return SupervisionError(where, error.found, error.allowed, hint)


def uncertain_notes(found: Answer, abstain_below: float | None) -> list[str]:
    """Return how many rows keep their labels where uncertain ones have none."""
    if abstain_below is None:
        return []
    n_kept, n_uncertain = kept_and_uncertain(found)
    n = n_kept + n_uncertain
    return [
        f"{n_kept:,} of {counted(n, 'row')} keep a label ({n_kept / max(n, 1):.1%}); the others "
        f"have a confidence below {abstain_below:g} (--abstain-below)"
    ]


def missing_notes(recipe: Recipe, encoded: Encoded, why: str = "") -> list[str]:
    """Return how much of each column is missing, what became of it, and why: by the option."""
    why = why or f"--missing {recipe.missing}"
    shares = sorted(encoded.missing.items(), key=lambda item: -item[1])
    often = [f"{name} {share:.0%}" for name, share in shares if share >= _OFTEN]
    n_seldom = sum(0 < share < _OFTEN for _, share in shares)
    if not often and not n_seldom:
        return []
    seldom = [f"{counted(n_seldom, 'column')} below {_OFTEN:.0%}"] * bool(n_seldom)
    listed = ", ".join([name_some(often, _MOST_NAMED)] * bool(often) + seldom)
    what = f"filled with the column's median, or no category ({why})"
    if recipe.missing == "drop":
        rows = counted(int(encoded.lacking.sum()), "row")
        what = f"{rows} with such a cell not labeled ({why})"
    return [f"missing cells: {listed}; {what}"]


def _save(path: Path, found: Labeled, recipe: Recipe, inputs: Inputs, ids: str | None) -> str:
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
        cells = inputs.table.column(ids).take(found.rows[None])
        fitted_ids = [plain_name(one) for one in cells.to_pylist()]
        extra = {**extra, "id_column": ids}
        save_model(file, fitted, extra=extra, labels_only=True, ids=fitted_ids)
        return "no training rows, only ids and labels"
