"""Label the new rows of a table with a saved model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from apportion._io.feature_recipe import Recipe
from apportion._io.file_kinds import require_file
from apportion._io.label_table import joined_codes
from apportion._utils.progress import report_progress
from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.exceptions import FileError, SavedModelError, counted, hint
from apportion.labeling._features import missing_notes
from apportion.labeling._source import SourceTable, source_table
from apportion.labeling._summary import PROBABILITY, labels_summary, uncertain_notes
from apportion.labeling._supervised import row_times
from apportion.labeling.rows import RowLabels, places_among, uncertain_rows
from apportion.labeling.table import PredictedTable
from apportion.model_selection._weighing import WeighingClassifier
from apportion.persistence import SavedModel, load_model
from apportion.supervision.diary.column_roles import ColumnTable, located_rows
from apportion.supervision.diary.recording import marks_of


def predict_table(
    model: str | Path | IO[bytes],
    rows: Any,
    *,
    id: str | None = None,
    abstain_below: float | None = None,
    all_columns: bool = False,
    encoding: str | None = None,
) -> PredictedTable:
    """Label new rows by the fitted rows of a saved model that resemble them.

    New rows have no totals: each takes its most likely class. A model that was saved with labels
    only knows its own rows again, by their ids, and no others.

    Parameters
    ----------
    model : path or binary file
        A model that was saved with the recipe of its features, as by `LabeledTable.save`.
    rows : path, or dataframe of pandas, polars or pyarrow
        The new rows.
    id : str, optional
        The column of row ids.
    abstain_below : float, optional
        Rows whose confidence is below this number from 0 to 1 get no label.
    all_columns : bool, default=False
        Whether the labeled table has all columns of the rows, and not only those that are no
        features.
    encoding : str, optional
        The encoding of a text file that is not UTF-8.

    Returns
    -------
    PredictedTable
        The labels, as a table and to be written to files, and the summary of the run.

    Examples
    --------
    >>> import io
    >>> import pyarrow as pa
    >>> from apportion.labeling import label_table
    >>> low, high = [k / 10 for k in range(12)], [5 + k / 10 for k in range(12)]
    >>> x = [*low[:8], *high[:4], *low[8:], *high[4:]]
    >>> rows = pa.table({"day": ["mon"] * 12 + ["tue"] * 12, "x": x})
    >>> totals = {"day": ["mon", "tue"], "sleep": [8, 4], "tv": [4, 8]}
    >>> model = io.BytesIO()
    >>> label_table(rows, bags="day", proportions=totals).save(model)
    '24 training rows: share it as carefully as the data'
    >>> predicted = predict_table(model, pa.table({"x": [0.3, 5.2]}))
    >>> predicted.table.column("label").to_pylist()
    ['sleep', 'tv']
    """
    report_progress("reading")
    if isinstance(model, str | Path):
        require_file(Path(model))
    saved = load_model(model)
    recipe = Recipe.from_json(saved.extra.get("recipe"))
    source = source_table(rows, encoding=encoding)
    if id is not None:
        source.require(id)
    predict = _recognized if saved.labels_only else _predicted
    labels, notes = predict(saved, recipe, source, id, abstain_below)
    calibrated = saved.extra.get("confidence") == PROBABILITY
    notes += uncertain_notes(labels, abstain_below, calibrated=calibrated)
    ids = id or source.usual_ids
    others = {*source.table.column_names} - ({*recipe.names} - {ids})
    return PredictedTable(
        labels,
        labels_summary(labels, notes, abstain_below, calibrated=calibrated),
        tuple(notes),
        source,
        recipe,
        frozenset(source.table.column_names if all_columns else others),
        ids,
        row_times(source.table),
    )


def _predicted(
    saved: SavedModel, recipe: Recipe, rows: SourceTable, id: str | None, threshold: float | None
) -> tuple[RowLabels, list[str]]:
    """Return the labels of new rows, and notes."""
    assert saved.model is not None
    if recipe.width != saved.model.n_features_in_:
        raise SavedModelError(
            "the model",
            f"a recipe for {recipe.width} numbers a row",
            f"{saved.model.n_features_in_}, as the model was fitted to",
            "save the model again",
        )
    encoded = recipe.encode(rows.table, rows.place)
    report_progress("predicting")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        knows_time = isinstance(saved.model, WeighingClassifier)
        in_time = row_times(rows.table).in_order if knows_time else None
        when = {} if in_time is None else in_time.arguments()
        masses = saved.model.predict_proba(encoded.rows, **when)
    isolated, off = np.zeros((2, len(masses)), dtype=bool)
    for warning in caught:
        isolated[list(getattr(warning.message, "rows", ()))] = True
    nonwear = saved.extra.get("nonwear")
    if nonwear in rows:
        with located_rows(rows.place):
            off = marks_of(ColumnTable(rows.table), str(nonwear))
    dropped = recipe.missing == "drop"
    notes = missing_notes(recipe, encoded, "as in the rows that the model was fitted to")
    notes += [str(warning.message) for warning in caught]
    if encoded.unseen.any():
        n_unseen = counted(int(encoded.unseen.sum()), "row")
        notes.append(f"{n_unseen} with a category that no fitted row has; it counts as none")
    marks = {
        "isolated": isolated,
        "missing-features": encoded.lacking if dropped else encoded.poor,
        "unseen-category": encoded.unseen,
        "non-wear": off,
    }
    left_out = off | (encoded.lacking & dropped)
    return _row_labels(saved, masses, masses.argmax(axis=1), left_out, marks, threshold), notes


def _recognized(
    saved: SavedModel, recipe: Recipe, rows: SourceTable, id: str | None, threshold: float | None
) -> tuple[RowLabels, list[str]]:
    """Return the labels of rows that a model knows by their ids, and notes."""
    column = id or str(saved.extra.get("id_column"))
    rows.require(column)
    fitted = saved.lookup(rows.names(column))
    new = fitted < 0
    if new.all():
        raise FileError(
            "",
            "no id that the model knows",
            hint("ids of the rows that it was fitted to: it was saved with {labels_only}"),
            hint("save a model without {labels_only} to label new rows"),
            place=rows.name,
            column=column,
        )
    assert saved.label_distributions is not None
    assert saved.labels is not None
    codes = places_among(saved.labels, saved.classes)[fitted]
    n_new = int(new.sum())
    notes = [f"{counted(n_new, 'row')} that the model does not know"] * bool(n_new)
    masses, marks = saved.label_distributions[fitted], {"unknown-row": new}
    return _row_labels(saved, masses, codes, new, marks, threshold), notes


def _row_labels(
    saved: SavedModel,
    masses: FloatArray,
    codes: IntArray,
    left_out: BoolArray,
    marks: Mapping[str, BoolArray],
    threshold: float | None,
) -> RowLabels:
    labels = saved.classes[codes].astype(object)
    confidence = np.where(left_out, np.nan, masses[np.arange(len(masses)), codes])
    uncertain = uncertain_rows(confidence, threshold)
    labels[left_out | uncertain] = None
    reasons = joined_codes({**marks, "uncertain": uncertain})
    return RowLabels(saved.classes, labels, masses, confidence, reasons)
