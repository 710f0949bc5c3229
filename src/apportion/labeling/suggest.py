"""Suggest rows and bags of a labeled table to ask about: `apportion.active` for every model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from apportion._utils.typing import FloatArray, IntArray
from apportion.active import (
    BagSuggestions,
    RowSuggestions,
    row_positions,
    suggest_bags,
    suggest_rows,
)
from apportion.labeling._features import TableFeatures
from apportion.labeling._supervised import SupervisedTable
from apportion.labeling.table import LabeledTable
from apportion.model_selection._graph_of_model import graph_in


def suggest_in_table(
    labeled: LabeledTable,
    task: SupervisedTable,
    features: TableFeatures,
    n_rows: int = 10,
    skip: Any = None,
) -> RowSuggestions:
    """Suggest the rows of a table whose label would reduce uncertainty most.

    Models of several participants are asked one by one, and the rows of largest gain are taken.

    Parameters
    ----------
    labeled : LabeledTable
        The labeled table.
    task : SupervisedTable
        The rows and what is known of them.
    features : TableFeatures
        Their features.
    n_rows : int, default=10
        The largest number of rows to suggest.
    skip : array-like, optional
        Rows that are not to be suggested, as positions in the table.

    Returns
    -------
    RowSuggestions
        The rows, best first, as positions in the table.
    """
    skipped = np.zeros(task.rows.n_samples, dtype=bool)
    skipped[row_positions(skip, len(skipped))] = True
    parts = []
    for group, rows, X in _fitted_rows(labeled, task, features):
        found = suggest_rows(labeled.models[group], X, n_rows=n_rows, skip=skipped[rows])
        parts.append((rows[found.rows], found))
    order = _best([found.gains for _, found in parts], n_rows)
    found_bags = [bag for _, found in parts for bag in found.bags]
    return RowSuggestions(
        np.concatenate([rows for rows, _ in parts])[order],
        np.concatenate([found.gains for _, found in parts])[order],
        tuple(found_bags[k] for k in order),
        np.concatenate([found.classes for _, found in parts])[order],
        np.concatenate([found.probabilities for _, found in parts])[order],
    )


def suggest_bags_in_table(
    labeled: LabeledTable, task: SupervisedTable, features: TableFeatures, n_bags: int = 5
) -> BagSuggestions:
    """Suggest the bags of a table for which the totals of two halves would tell most.

    Bags are split at their median time if the rows have times, else at random.

    Parameters
    ----------
    labeled, task, features
        See `suggest_in_table`.
    n_bags : int, default=5
        The largest number of bags to suggest.

    Returns
    -------
    BagSuggestions
        The bags, best first, with their rows as positions in the table.
    """
    in_time = task.row_times.in_order
    parts = []
    for group, rows, X in _fitted_rows(labeled, task, features):
        times = None if in_time is None else in_time.of(rows).times
        parts.append((rows, suggest_bags(labeled.models[group], X, n_bags=n_bags, times=times)))
    order = _best([found.gains for _, found in parts], n_bags)

    def joined(values: Callable[[IntArray, BagSuggestions], Sequence[Any]]) -> list[Any]:
        together = [value for rows, found in parts for value in values(rows, found)]
        return [together[k] for k in order]

    return BagSuggestions(
        tuple(joined(lambda _, found: found.bags)),
        np.concatenate([found.gains for _, found in parts])[order],
        np.array(joined(lambda _, found: found.sizes.tolist()), dtype=np.intp),
        tuple(joined(lambda rows, found: [rows[half] for half in found.first_halves])),
        np.array(joined(lambda rows, found: rows[found.second_begins].tolist()), dtype=np.intp),
        in_time is not None,
    )


def _fitted_rows(
    labeled: LabeledTable, task: SupervisedTable, features: TableFeatures
) -> Iterator[tuple[Any, IntArray, FloatArray | None]]:
    """Yield each group, its fitted rows, and their features if its model has no graph of them."""
    encoded = None
    for group, model in labeled.models.items():
        rows, X = labeled.labels.rows[group], None
        if graph_in(model) is None:
            encoded = features.encode(task.rows).rows if encoded is None else encoded
            X = encoded[rows]
        yield group, rows, X


def _best(gains: Sequence[FloatArray], n_best: int) -> IntArray:
    """Return the positions of the largest gains of all models; of equal ones the first."""
    return np.argsort(-np.concatenate(list(gains)), kind="stable")[:n_best]
