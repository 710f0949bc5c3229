"""`apportion predict`: labels for new rows from a saved model."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import apportion
from apportion._io.atomic_write import Outputs, require_writable
from apportion._io.feature_recipe import Recipe
from apportion._io.file_kinds import require_file
from apportion._io.identifiers import is_missing, plain_name
from apportion._io.read import place_in, read_columns
from apportion._io.spreadsheet_safe import require_ending
from apportion._utils.progress import report_progress
from apportion._utils.typing import AnyArray, BoolArray, FloatArray
from apportion.cli.answer import (
    answer_table,
    kept_columns,
    refuse_inputs,
    require_share,
    times_to_write,
    write_answer,
)
from apportion.cli.console import CommandLineError, print_notes, print_out, stages, with_exit_codes
from apportion.cli.inputs import id_column, times_of
from apportion.cli.known import require_column
from apportion.cli.label import missing_notes, uncertain_notes
from apportion.cli.options import OutputOptions, with_groups
from apportion.cli.summary import as_json, labelled_share
from apportion.exceptions import FileError, SavedModelError, counted
from apportion.labeling.rows import Answer, joined_codes, places_among, reasons_of, uncertain_rows
from apportion.persistence import SavedModel, load_model
from apportion.supervision.diary.column_roles import ColumnTable, located_rows
from apportion.supervision.diary.recording import marks_of


@with_exit_codes
@with_groups
def predict(
    model: Annotated[
        Path,
        typer.Argument(
            help="A model saved by 'apportion label --model'.",
            metavar="MODEL",
            show_default=False,
            readable=False,
        ),
    ],
    readings: Annotated[
        Path,
        typer.Argument(
            help="New rows: a CSV (also .csv.gz), Parquet, .xlsx or ARFF file.",
            metavar="READINGS",
            show_default=False,
            readable=False,
        ),
    ],
    out: OutputOptions,
    id: Annotated[str | None, typer.Option(help="Column of row ids.", metavar="COLUMN")] = None,
    encoding: Annotated[
        str | None,
        typer.Option(help="Encoding of a text file that is not UTF-8.", metavar="NAME"),
    ] = None,
) -> None:
    """Label the new rows of READINGS by the fitted rows of MODEL that resemble them.

    New rows have no totals: every one takes its most likely class. A model that was saved with
    --labels-only knows its own rows again, by their ids, and no others.
    """
    require_share(out.abstain_below)
    if out.json and out.output is None:
        raise CommandLineError("--json prints a summary on stdout: name a file with --output.")
    if out.output is not None:
        require_ending(out.output)
        refuse_inputs(out.output, [model, readings])
        require_writable(out.output, force=out.force)
    with stages(out.quiet):
        report_progress("reading")
        require_file(model)
        saved = load_model(model)
        recipe = Recipe.from_json(saved.extra.get("recipe"))
        table = read_columns(readings, encoding=encoding)
        if id is not None:
            require_column(table, id, readings.name)
        found, notes = (
            _known_again(saved, table, id, readings, out.abstain_below)
            if saved.labels_only
            else _predicted(
                saved,
                recipe,
                table,
                partial(place_in, readings, encoding=encoding),
                out.abstain_below,
            )
        )
    notes += uncertain_notes(found, out.abstain_below)
    print_notes(notes, out.quiet)
    ids = id_column(table, id)
    others = {*table.column_names} - {*recipe.names}
    kept = kept_columns(table, {*others, ids}, out.all_columns)
    times, columns, _ = times_of(table)
    written_times = times_to_write(table, times, columns, None)
    answer, more = answer_table(
        found, table, kept, recipe, out, numbered=ids is None, times=written_times
    )
    print_notes(more, out.quiet)
    with Outputs(force=out.force) as outputs:
        written = write_answer(answer, out, outputs)
        if out.json:
            print_out(as_json(_summary(found, notes, out.abstain_below)))
    print_notes(written, out.quiet)


def _predicted(
    saved: SavedModel,
    recipe: Recipe,
    table: Any,
    place: Callable[[int], str],
    abstain_below: float | None,
) -> tuple[Answer, list[str]]:
    assert saved.model is not None
    if recipe.width != saved.model.n_features_in_:
        raise SavedModelError(
            "the model",
            f"a recipe for {recipe.width} numbers a row",
            f"{saved.model.n_features_in_}, as the model was fitted to",
            "save the model again",
        )
    encoded = recipe.encode(table, place)
    report_progress("predicting")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        masses = saved.model.predict_proba(encoded.rows)
    isolated, off = np.zeros((2, len(masses)), dtype=bool)
    for one in caught:
        isolated[list(getattr(one.message, "rows", ()))] = True
    nonwear = saved.extra.get("nonwear")
    if nonwear in table.column_names:
        with located_rows(place):
            off = marks_of(ColumnTable(table), str(nonwear))
    dropped = recipe.missing == "drop"
    out = off | (encoded.lacking & dropped)
    missing = missing_notes(recipe, encoded, "as in the rows that the model was fitted to")
    notes = [*missing, *(str(one.message) for one in caught)]
    if encoded.unseen.any():
        rows = counted(int(encoded.unseen.sum()), "row")
        notes.append(f"{rows} with a category that no fitted row has; it counts as none")
    marks = {
        "isolated": isolated,
        "missing-features": encoded.lacking if dropped else encoded.poor,
        "unseen-category": encoded.unseen,
        "non-wear": off,
    }
    return _answer(saved, masses, masses.argmax(axis=1), out, marks, abstain_below), notes


def _known_again(
    saved: SavedModel, table: Any, asked: str | None, path: Path, abstain_below: float | None
) -> tuple[Answer, list[str]]:
    name = asked or str(saved.extra.get("id_column"))
    require_column(table, name, path.name)
    cells = table.column(name).to_pylist()
    rows = saved.lookup("" if is_missing(cell) else plain_name(cell) for cell in cells)
    new = rows < 0
    if new.all():
        raise FileError(
            f"{path.name}, column {name!r}",
            "no id that the model knows",
            "ids of the rows that it was fitted to: it was saved with --labels-only",
            "save a model without --labels-only to label new rows",
        )
    assert saved.label_distributions is not None
    assert saved.labels is not None
    best = places_among(saved.labels, saved.classes)[rows]
    n_new = int(new.sum())
    notes = [f"{counted(n_new, 'row')} that the model does not know"] * bool(n_new)
    masses, marks = saved.label_distributions[rows], {"unknown-row": new}
    return _answer(saved, masses, best, new, marks, abstain_below), notes


def _answer(
    saved: SavedModel,
    masses: FloatArray,
    best: AnyArray,
    out: BoolArray,
    marks: Mapping[str, BoolArray],
    abstain_below: float | None,
) -> Answer:
    labels = saved.classes[best].astype(object)
    confidence = np.where(out, np.nan, masses[np.arange(len(masses)), best])
    uncertain = uncertain_rows(confidence, abstain_below)
    labels[out | uncertain] = None
    codes = joined_codes({**marks, "uncertain": uncertain})
    return Answer(saved.classes, labels, masses, confidence, codes)


def _summary(found: Answer, notes: list[str], abstain_below: float | None) -> dict[str, Any]:
    labels = [str(one) for one in found.labels.tolist() if one is not None]
    return {
        "apportion": apportion.__version__,
        "rows": len(found.labels),
        "classes": [str(label) for label in found.classes.tolist()],
        "assigned": dict(Counter(labels)),
        **labelled_share(found, abstain_below),
        "reasons": reasons_of(found),
        "notes": notes,
    }
