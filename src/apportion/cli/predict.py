"""`apportion predict`: labels for new rows from a saved model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from apportion._typing import AnyArray, BoolArray, FloatArray
from apportion.cli.inputs import id_column, say
from apportion.cli.label import answer_table
from apportion.cli.options import OutputOptions, with_groups
from apportion.cli.talk import stages, with_exit_codes
from apportion.exceptions import FileError, OutputError
from apportion.features import Recipe
from apportion.files.labels import require_ending, write_table
from apportion.files.read import no_column, place_in, read_columns
from apportion.files.write import require_writable
from apportion.labelling import joined_codes
from apportion.progress import tell
from apportion.saved import SavedModel, load_model


@dataclass(frozen=True)
class Predicted:
    """Labels of new rows, as `Labelled` has them."""

    classes: AnyArray
    labels: AnyArray
    masses: FloatArray
    confidence: FloatArray
    reasons: AnyArray


@with_exit_codes
@with_groups
def predict(
    model: Annotated[
        Path, typer.Argument(help="A model saved by 'apportion label --model'.", show_default=False)
    ],
    readings: Annotated[
        Path, typer.Argument(help="New rows: a CSV, Parquet or ARFF file.", show_default=False)
    ],
    out: OutputOptions,
    id: Annotated[str | None, typer.Option(help="Column of row ids.", metavar="COLUMN")] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of text files. UTF-8 if not given.", metavar="NAME")
    ] = None,
) -> None:
    """Label the new rows of READINGS by the fitted rows of MODEL that resemble them.

    New rows have no totals: every one takes its most likely class. A model that was saved with
    --labels-only knows its own rows again, by their ids, and no others.
    """
    if out.json:
        raise typer.BadParameter("predict has no summary: leave out --json.")
    if out.output is not None:
        require_ending(out.output)
        if out.output.resolve() in (model.resolve(), readings.resolve()):
            raise OutputError(f"{out.output} is an input of this command. Name another file.")
        require_writable(out.output, force=out.force)
    with stages(out.quiet):
        tell("reading")
        saved = load_model(model)
        table = read_columns(readings, encoding=encoding)
        names = id_column(table, id)
        found, notes = (
            _known_again(saved, table, id, readings)
            if saved.labels_only
            else _predicted(saved, table, readings)
        )
    say(notes, out.quiet)
    recipe = Recipe.from_json(saved.extra["recipe"])
    keep = [
        name
        for name in table.column_names
        if out.all_columns or name == names or name not in recipe.names
    ]
    answer, _ = answer_table(found, table, keep)
    write_table(answer, out.output, force=out.force)
    if out.output is not None:
        say([f"written: {out.output}, {answer.num_rows:,} rows"], out.quiet)


def _predicted(saved: SavedModel, table: Any, path: Path) -> tuple[Predicted, list[str]]:
    recipe = Recipe.from_json(saved.extra["recipe"])
    encoded = recipe.encode(table, lambda row: place_in(path, row))
    tell("predicting")
    assert saved.model is not None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        masses = saved.model.predict_proba(encoded.rows)
    out = encoded.lacking if recipe.missing == "drop" else np.zeros(len(masses), dtype=bool)
    best = masses.argmax(axis=1)
    reasons = {"missing-features": encoded.lacking, "unseen-category": encoded.unseen}
    return _answer(saved, masses, best, out, reasons), [str(one.message) for one in caught]


def _known_again(
    saved: SavedModel, table: Any, asked: str | None, path: Path
) -> tuple[Predicted, list[str]]:
    name = asked or saved.extra["id_column"]
    if name not in table.column_names:
        raise no_column(name, table.column_names, path.name)
    rows = saved.lookup(table.column(name).to_pylist())
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
    place = {label: h for h, label in enumerate(saved.classes.tolist())}
    best = np.array([place[one] for one in saved.labels.tolist()])[rows]
    notes = [f"{int(new.sum()):,} rows are not among those that the model knows"] * bool(new.any())
    return _answer(saved, saved.label_distributions[rows], best, new, {"unknown-row": new}), notes


def _answer(
    saved: SavedModel, masses: FloatArray, best: AnyArray, out: BoolArray, marks: Any
) -> Predicted:
    labels = saved.classes[best].astype(object)
    labels[out] = None
    confidence = masses[np.arange(len(masses)), best]
    return Predicted(saved.classes, labels, masses, confidence, joined_codes(marks))
