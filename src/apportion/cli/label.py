"""`apportion label`: a label for every row of a file."""

from __future__ import annotations

import json as json_format
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import apportion
from apportion.cli.inputs import Inputs, id_column, learn_features, read_inputs, say
from apportion.cli.options import (
    FeatureOptions,
    KnownOptions,
    MethodOptions,
    OutputOptions,
    with_groups,
)
from apportion.cli.show import show_report, summary_of
from apportion.cli.talk import stages, talk, with_exit_codes
from apportion.estimators import LPLLP
from apportion.exceptions import OutputError, name_some
from apportion.features import Recipe
from apportion.files.labels import require_ending, write_table
from apportion.files.write import replacing, require_writable
from apportion.labelling import Labelled, label_rows
from apportion.progress import tell
from apportion.saved import contains_rows, save_model


@with_exit_codes
@with_groups
def label(
    readings: Annotated[
        Path,
        typer.Argument(help="The rows: a CSV, Parquet or ARFF file.", show_default=False),
    ],
    known: KnownOptions,
    feature: FeatureOptions,
    method: MethodOptions,
    out: OutputOptions,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Also save the fitted model here, for 'apportion predict'. It contains training "
            "rows.",
            metavar="FILE",
            rich_help_panel="Output",
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
) -> None:
    """Label every row of READINGS from its bags' totals or from a diary.

    Give --bags COLUMN and --proportions TABLE, or --diary DIARY. The answer has the rows' ids and
    times, a label, the mass of every class, the label's confidence and a reason code.
    """
    label_file(readings, known, feature, method, out, model, labels_only)


def label_file(
    readings: Path,
    known: KnownOptions,
    feature: FeatureOptions,
    method: MethodOptions,
    out: OutputOptions,
    model: Path | None = None,
    labels_only: bool = False,
) -> None:
    """Read rows, label them and write the answer."""
    check_outputs(readings, known, out, model, labels_only)
    with stages(out.quiet):
        tell("reading")
        inputs = read_inputs(readings, known)
        recipe, notes = learn_features(inputs, feature)
    say(inputs.rules, out.quiet, "rules, each an option:")
    say([*inputs.notes, *notes], out.quiet)
    done = run(inputs, recipe, method, out.quiet)
    say(done.notes, out.quiet)
    if not out.quiet:
        show_report(done.found)
    write(done, inputs, feature, out)
    if model is not None:
        save(done, inputs, feature, model, labels_only, out)
    if out.json:
        summary = summary_of(done.found, [*inputs.rules], [*inputs.notes, *notes, *done.notes])
        print(json_format.dumps(summary, indent=2, ensure_ascii=False))


@dataclass(frozen=True)
class Done:
    """Labelled rows, how their features were made, and what to say."""

    found: Labelled
    recipe: Recipe
    notes: list[str]


def run(inputs: Inputs, recipe: Recipe, method: MethodOptions, quiet: bool) -> Done:
    """Return the labelled rows."""
    estimator = LPLLP(method.graph, method.alpha, decode=method.decode, random_state=method.seed)
    with stages(quiet):
        tell("reading features")
        encoded = recipe.encode(inputs.table, inputs.place)
        known, notes = inputs.known, []
        marks = {"missing-features": encoded.lacking}
        if encoded.n_filled and recipe.missing == "median":
            notes.append(
                f"{encoded.n_filled:,} missing cells in {int(encoded.lacking.sum()):,} rows are "
                "filled with the column's median; --missing says otherwise"
            )
        if recipe.missing == "drop" and encoded.lacking.any():
            left_out = {**known.left_out, "missing-features": encoded.lacking}
            known = replace(known, left_out=left_out)
            notes.append(f"{int(encoded.lacking.sum()):,} rows with a missing cell are left out")
        found = label_rows(encoded.rows, known, estimator, marks)
    return Done(found, recipe, [*notes, *found.notes])


def check_outputs(
    readings: Path, known: KnownOptions, out: OutputOptions, model: Path | None, labels_only: bool
) -> None:
    """Raise, before any work, where the answer could not be written."""
    if out.json and out.output is None:
        raise typer.BadParameter("--json prints a summary on stdout: name a file with --output.")
    if labels_only and model is None:
        raise typer.BadParameter("--labels-only says how --model FILE is saved: name the file.")
    if model is not None and known.graphs == "each":
        raise typer.BadParameter("--model saves one model: use --graphs one.")
    if model is not None and known.graphs == "auto":
        known.graphs = "one"
    inputs = [path for path in (readings, known.diary, known.proportions) if path is not None]
    written = [path for path in (out.output, model) if path is not None]
    if len(written) == 2 and written[0].resolve() == written[1].resolve():
        raise typer.BadParameter("--output and --model name the same file.")
    if out.output is not None:
        require_ending(out.output)
    for path in written:
        if path.resolve() in [source.resolve() for source in inputs]:
            raise OutputError(f"{path} is an input of this command. Name another file.")
        require_writable(path, force=out.force)


def answer_table(found: Labelled | Any, table: Any, kept: list[str]) -> tuple[Any, list[str]]:
    """Return the kept columns with the answer's beside them, and the columns that gave way."""
    import pyarrow as pa

    labelled = np.array([one is not None for one in found.labels.tolist()], dtype=bool)
    answer = {"label": pa.array(found.labels.tolist())}
    for h, name in enumerate(found.classes.tolist()):
        answer[f"mass_{name}"] = pa.array(found.masses[:, h], mask=~labelled)
    answer["confidence"] = pa.array(found.confidence, mask=~labelled)
    answer["reason"] = pa.array(found.reasons.tolist(), pa.string())
    lost = [name for name in kept if name in answer]
    columns = {name: table.column(name) for name in kept if name not in answer}
    return pa.table({**columns, **answer}), lost


def write(done: Done, inputs: Inputs, feature: FeatureOptions, out: OutputOptions) -> None:
    """Write the answer, and say where."""
    table = inputs.table
    ids = id_column(table, feature.id)
    keep = [
        name
        for name in table.column_names
        if out.all_columns or name == ids or name in inputs.roles
    ]
    answer, lost = answer_table(done.found, table, keep)
    if not ids and not out.all_columns:
        import pyarrow as pa

        answer = answer.add_column(0, "row", pa.array(np.arange(table.num_rows)))
    if lost:
        say(
            [f"not carried over, as the answer has columns called so: {name_some(lost)}"], out.quiet
        )
    changed = write_table(answer, out.output, force=out.force)
    if changed:
        say(
            [f"{changed:,} texts that a spreadsheet would take for formulas begin with an "
             "apostrophe now; Parquet output keeps them as they are"],
            out.quiet,
        )  # fmt: skip
    if out.output is not None:
        say([f"written: {out.output}, {answer.num_rows:,} rows"], out.quiet)


def save(
    done: Done,
    inputs: Inputs,
    feature: FeatureOptions,
    path: Path,
    labels_only: bool,
    out: OutputOptions,
) -> None:
    """Save the fitted model, and say what is in it."""
    fitted = done.found.models[None]
    extra = {"recipe": done.recipe.to_json(), "apportion": apportion.__version__}
    ids = None
    if labels_only:
        name = id_column(inputs.table, feature.id)
        if name is None:
            raise typer.BadParameter("--labels-only needs row ids: name their column with --id.")
        extra["id_column"] = name
        ids = inputs.table.column(name).to_pylist()
    with replacing(path, force=out.force) as temporary:
        save_model(temporary, fitted, extra=extra, labels_only=labels_only, ids=ids)
    contents = "no training rows, only ids and labels" if labels_only else contains_rows(fitted)
    talk.print(f"written: {path}, a model with {contents}. Share it as carefully as the data.")
