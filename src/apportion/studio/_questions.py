"""Questions about the windows whose label would tell most, with the signals around them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from apportion._io.feature_columns import when_by_name
from apportion._io.identifiers import is_missing, plain_name
from apportion._io.values import delimiter_in, numbers_of
from apportion._utils.typing import FloatArray, IntArray
from apportion.labeling._features import TableFeatures
from apportion.labeling.suggest import suggest_bags_in_table, suggest_in_table
from apportion.plotting._window_times import SECOND
from apportion.report._plot_data import numbers
from apportion.studio._rows import RowIndex
from apportion.studio._views import Labels

MOST_QUESTIONS, MOST_BAGS = 10, 5
_AROUND = 30 * 60 * SECOND
"""A question is about windows of one label, this long before and after at most."""

_CONTEXT = 2 * 3600 * SECOND
"""Signals are shown this long before and after."""

_MOST_POINTS, _MOST_SERIES = 200, 3
_MOST_CELLS, _LONGEST = 24, 60
"""What is shown of a row without a time: this many cells, and the longest text."""


@dataclass(frozen=True)
class Question:
    """A question about some rows.

    Attributes
    ----------
    id : str
        What it is called.
    rows : ndarray of int
        The rows that it is about.
    place : dict
        Where they are, as a correction of them is asked for.
    content : dict
        The question as the page shows it.
    """

    id: str
    rows: IntArray
    place: dict[str, Any]
    content: dict[str, Any]


def ask(labels: Labels, features: TableFeatures, skip: IntArray) -> list[Question]:
    """Return questions, the one that tells most first.

    Parameters
    ----------
    labels : Labels
        The labels.
    features : TableFeatures
        The features that they were found from.
    skip : ndarray of int
        Rows that are not asked about.
    """
    found = suggest_in_table(labels.labeled, labels.task, features, MOST_QUESTIONS, skip)
    asked = np.zeros(labels.index.n_samples, dtype=bool)
    questions = []
    for k, row in enumerate(found.rows.tolist()):
        if asked[row]:  # it belongs to the episode of a question before
            continue
        rows = _episode(labels, row)
        rows = rows[~asked[rows]]
        asked[rows] = True
        likely = [
            {"label": labels.classes.index(str(label)), "probability": round(float(mass), 3)}
            for label, mass in zip(found.classes[k], found.probabilities[k], strict=True)
            if str(label) in labels.classes
        ]
        questions.append(_question(labels.index, features, row, rows, likely, found.gains[k]))
    return questions


def ask_bags(labels: Labels, features: TableFeatures) -> list[dict[str, Any]]:
    """Return the bags for which the totals of two parts would tell most."""
    found = suggest_bags_in_table(labels.labeled, labels.task, features, MOST_BAGS)
    times, answer = labels.index.times, []
    for k, bag in enumerate(found.bags):
        words = "give the totals of two halves of it"
        if times is not None and found.in_time:
            begin = labels.index.clock(int(times.starts[found.second_begins[k]]), with_day=True)
            words = f"split at {begin}: how long before, and how long from then on"
        answer.append({"bag": str(bag), "gain": round(float(found.gains[k]), 3), "words": words})
    return answer


def _question(
    index: RowIndex,
    features: TableFeatures,
    row: int,
    rows: IntArray,
    likely: list[dict[str, Any]],
    gain: float,
) -> Question:
    common: dict[str, Any] = {
        "id": f"r{row}",
        "likely": likely,
        "gain": round(float(gain), 3),
        "rows": [int(rows[0]), int(rows[-1])],
    }
    if index.times is None:
        name = str(row) if index.ids is None else index.ids[row]
        nowhere = dict.fromkeys(("participant", "day", "start", "end", "signal"))
        content = {**nowhere, **common, "words": f"row {name}", "cells": _cells(features, row)}
        return Question(common["id"], rows, {"rows": rows.tolist()}, content)
    participant = index.participants[index.participant[row]]
    start, end = index.extent(rows)
    day = index.day_of(start)
    place = {
        "participant": participant or None,
        "day": day.date,
        "start": (start - day.midnight) / SECOND,
        "end": (end - day.midnight) / SECOND,
    }
    signal = _signal(index, features, row, start, end, day.midnight)
    content = {**place, **common, "words": index.in_words(start, end), "signal": signal}
    return Question(common["id"], rows, place, content)


def _episode(labels: Labels, row: int) -> IntArray:
    """Return the windows of one label that follow each other around a row, in their order."""
    index, times = labels.index, labels.index.times
    if times is None:
        return np.array([row])
    near = index.rows_between(
        index.participants[index.participant[row]],
        int(times.starts[row]) - _AROUND,
        int(times.ends[row]) + _AROUND,
    )
    near = near[np.argsort(times.starts[near], kind="stable")]
    k = int(np.flatnonzero(near == row)[0])
    apart = times.starts[near[1:]] > times.ends[near[:-1]]
    ends = np.flatnonzero(apart | (labels.codes[near[1:]] != labels.codes[near[:-1]])) + 1
    first = int(ends[ends <= k].max(initial=0))
    last = int(ends[ends > k].min(initial=len(near)))
    return near[first:last]


def _signal(
    index: RowIndex, features: TableFeatures, row: int, start: int, end: int, midnight: int
) -> dict[str, Any]:
    """Return the features that differ most from their means there, over the time around.

    Those that tell the time come last: the page shows it anyway.
    """
    times = index.times
    assert times is not None
    name = index.participants[index.participant[row]]
    rows = index.rows_between(name, start - _CONTEXT, end + _CONTEXT)
    rows = rows[np.argsort(times.starts[rows], kind="stable")]
    if len(rows) > _MOST_POINTS:
        rows = rows[np.linspace(0, len(rows) - 1, _MOST_POINTS).round().astype(int)]
    here = (times.starts[rows] >= start) & (times.starts[rows] < end)
    series = [
        (_deviation(values[here], mean, scale), name, values)
        for name, mean, scale, values in _series(index, features, rows)
    ]
    series.sort(key=lambda item: (when_by_name(item[1]) is not None, -item[0]))
    return {
        "times": numbers((times.starts[rows] - midnight) / SECOND, 3),
        "series": [
            {"name": name, "values": numbers(values, 6)}
            for _, name, values in series[:_MOST_SERIES]
        ],
        "from": (start - midnight) / SECOND,
        "to": (end - midnight) / SECOND,
    }


def _cells(features: TableFeatures, row: int) -> list[dict[str, str]]:
    """Return what a row has in the columns of the first features."""
    cells = ((name, features.columns.column(name)[row].as_py()) for name in features.recipe.names)
    return [
        {"name": name, "value": "–" if is_missing(cell) else plain_name(cell)[:_LONGEST]}
        for name, cell in islice(cells, _MOST_CELLS)
    ]


def _series(
    index: RowIndex, features: TableFeatures, rows: IntArray
) -> Iterator[tuple[str, float, float, FloatArray]]:
    """Yield the features that are numbers: name, mean, scale, and their values in some rows."""
    import pyarrow as pa

    columns, chosen = features.columns, pa.array(rows)
    delimiter = delimiter_in(columns)
    for feature in features.recipe.features:
        if feature.levels is None:
            cells = columns.column(feature.name).take(chosen)
            values = numbers_of(cells, feature.name, index.task.rows.place, delimiter=delimiter)
            yield feature.name, feature.mean, feature.scale, values


def _deviation(values: FloatArray, mean: float, scale: float) -> float:
    """Return how far values are from the mean of their feature, in its own scale."""
    known = values[np.isfinite(values)]
    return float(np.abs(known - mean).mean() / scale) if known.size else 0.0
