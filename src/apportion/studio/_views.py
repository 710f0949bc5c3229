"""The labels as the page shows them: days, rows, participants, and the run that found them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.exceptions import rendered
from apportion.labeling._methods import accuracy_of
from apportion.labeling._supervised import SupervisedTable
from apportion.labeling.rows import positions
from apportion.labeling.table import LabeledTable
from apportion.plotting._segments import timeline_of
from apportion.plotting._window_times import SECOND, Times
from apportion.report._plot_data import numbers
from apportion.studio._problems import PAGE_NAMES, ProblemError
from apportion.studio._rows import RowIndex

MOST_LISTED = 200
"""Rows of a table without times in one answer."""

_DOUBTFUL = 0.6
"""The estimated accuracy, or the mean confidence, below which a participant needs a look."""

_UNCERTAIN, _MANY = 0.5, 0.25
"""Rows whose confidence is below the first are uncertain; a larger share of them is many."""


@dataclass(frozen=True)
class Labels:
    """The labels that the page shows.

    Attributes
    ----------
    labeled : LabeledTable
        What a run found.
    task : SupervisedTable
        What it was found from, corrections included.
    index : RowIndex
        The rows as the page addresses them.
    classes : list of str
        The classes as the page lists them.
    """

    labeled: LabeledTable
    task: SupervisedTable
    index: RowIndex
    classes: list[str]

    @cached_property
    def codes(self) -> IntArray:
        """The label of each row, as a position among the page's classes; -1 = none."""
        names = [str(label) for label in self.labeled.labels.classes.tolist()]
        place = {name: k for k, name in enumerate(self.classes)}
        # Time that entries do not cover may be a class that no row has, and the page has not.
        to_page = np.array([*(place.get(name, -1) for name in names), -1])
        return to_page[positions(self.labeled.labels.labels, self.labeled.labels.classes.tolist())]

    @property
    def confidence(self) -> FloatArray:
        """The confidence of each row."""
        return self.labeled.labels.confidence

    @cached_property
    def with_reason(self) -> dict[str, BoolArray]:
        """Which rows have each reason code."""
        texts, inverse = np.unique(self.labeled.labels.reasons.astype(str), return_inverse=True)
        codes = {code for text in texts.tolist() for code in text.split(";") if code}
        return {
            code: np.array([code in text.split(";") for text in texts.tolist()])[inverse.ravel()]
            for code in codes
        }


def days_json(labels: Labels, before: Labels | None, fixed: BoolArray, name: Any) -> dict[str, Any]:
    """Return the days of a participant.

    Parameters
    ----------
    labels, before : Labels
        The labels, and those before the last relabeling.
    fixed : ndarray of bool, of shape (n_samples,)
        Rows whose label was given, or corrected since.
    name : str or None
        The participant.
    """
    index = labels.index
    days = index.days_of(name)
    earlier = None if before is None else _segments(before, np.zeros_like(fixed), name)
    return {
        "days": [{"name": day.name, "start": day.midnight // SECOND} for day in days],
        "segments": _segments(labels, fixed, name),
        "before": earlier,
    }


def _segments(labels: Labels, fixed: BoolArray, name: Any) -> dict[str, Any]:
    """Return windows of one label that follow each other; given ones are apart from others."""
    index, rows = labels.index, labels.index.rows_of(name)
    times = index.times
    assert times is not None
    own = Times(times.starts[rows], times.ends[rows], dated=times.dated, day_start=times.day_start)
    codes, given = labels.codes[rows], fixed[rows]
    # A class and whether it was given are one code, so that a segment ends where either changes.
    timeline = timeline_of(own, np.where(codes < 0, -1, 2 * codes + given), labels.confidence[rows])
    order = np.lexsort([own.ends, own.starts, timeline.lane_of_row])
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    last = order[np.append(place[timeline.first][1:], len(order)) - 1]
    return {
        "day": timeline.lane.tolist(),
        "start": numbers(timeline.start, 3),
        "end": numbers(timeline.end, 3),
        "label": np.where(timeline.label < 0, -1, timeline.label // 2).tolist(),
        "confidence": numbers(timeline.confidence, 3),
        "row_first": rows[timeline.first].tolist(),
        "row_last": rows[last].tolist(),
        "given": ((timeline.label >= 0) & (timeline.label % 2 == 1)).tolist(),
    }


def rows_json(labels: Labels, offset: int, bag: str | None) -> dict[str, Any]:
    """Return some rows of a table without times, of one bag if it is named."""
    index = labels.index
    rows = np.arange(index.n_samples) if bag is None else np.flatnonzero(index.bags == bag)
    if bag is not None and not rows.size:
        raise ProblemError(f"There is no row in a bag {bag!r}.", "bag")
    shown = rows[offset : offset + MOST_LISTED]
    ids = shown.astype(str) if index.ids is None else index.ids[shown]
    cells = zip(
        shown.tolist(),
        ids.tolist(),
        index.bags[shown].tolist(),
        labels.codes[shown].tolist(),
        numbers(labels.confidence[shown], 3),
        strict=True,
    )
    names = ("row", "id", "bag", "label", "confidence")
    return {"rows": [dict(zip(names, cell, strict=True)) for cell in cells], "total": len(rows)}


def run_json(labels: Labels, number: int, seconds: float, when: str, n: int) -> dict[str, Any]:
    """Return a run as the page shows it, without the files that it left.

    Parameters
    ----------
    labels : Labels
        The labels that it found.
    number : int
        Its id.
    seconds : float
        How long it took.
    when : str
        When it ended.
    n : int
        The number of corrections that it knows.
    """
    summary = labels.labeled.summary
    quick = bool(summary.get("quick"))
    return {
        "id": number,
        "kind": "quick" if quick else "full",
        "when": when,
        "seconds": round(seconds, 1),
        "corrections": n,
        "notes": [rendered(note, PAGE_NAMES) for note in labels.labeled.notes],
        "estimated_accuracy": None if quick else _accuracy(summary),
        "changed": None,
    }


def _accuracy(summary: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the estimated accuracy of the labels; None if it is withheld, as a note says."""
    found = (summary.get("estimated_accuracy") or {}).get("fitted_rows")
    if not found or found["value"] is None:
        return None
    words = "about {:.0%} of the labels are right ({:.0%} to {:.0%})"
    return {
        "value": round(found["value"], 4),
        "words": words.format(found["value"], found["low"], found["high"]),
    }


def changes(labels: Labels, before: Labels, corrected: BoolArray) -> dict[str, int]:
    """Return how many labels changed: in all, of corrected rows, and of those beside them."""
    changed = labels.codes != before.codes
    return {
        "rows": int(changed.sum()),
        "corrected": int((changed & corrected).sum()),
        "beside": int((changed & ~corrected).sum()),
    }


def participants_json(
    labels: Labels | None,
    index: RowIndex,
    n_questions: Mapping[str, int],
    n_corrections: Mapping[str, int],
) -> list[dict[str, Any]]:
    """Return the participants with their state, and why they need a look if they do."""
    n_people = len(index.participants)
    windows = np.bincount(index.participant, minlength=n_people)
    people: list[dict[str, Any]] = []
    facts = None if labels is None else _Facts(labels)
    for k, name in enumerate(index.participants):
        state, why, accuracy = "not labeled", "", None
        if facts is not None:
            state, why, accuracy = facts.about(k, name)
        people.append(
            {
                "name": name,
                "windows": int(windows[k]),
                "state": state,
                "why": why,
                "estimated_accuracy": accuracy,
                "questions": n_questions.get(name, 0),
                "corrections": n_corrections.get(name, 0),
            }
        )
    return people


class _Facts:
    """What labels say about each participant."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        whose, n = labels.index.participant, len(labels.index.participants)
        has_label = labels.codes >= 0
        sure = np.where(has_label, labels.confidence, 0.0)
        self._n_labeled = np.bincount(whose[has_label], minlength=n)
        self._mean = np.bincount(whose, sure, minlength=n) / np.maximum(self._n_labeled, 1)
        uncertain = has_label & (labels.confidence < _UNCERTAIN)
        self._n_uncertain = np.bincount(whose[uncertain], minlength=n)
        self._off = self._with_reason("outside-interval", n)
        self._misfits = self._entries_that_do_not_fit(n)

    def about(self, k: int, name: str) -> tuple[str, str, float | None]:
        """Return the state of a participant, why, and the estimated accuracy."""
        n = int(self._n_labeled[k])
        if not n:
            return "not labeled", "No entry or total is about this participant.", None
        accuracy, words = self._accuracy(k, name)
        why = [words] * (accuracy is not None and accuracy < _DOUBTFUL)
        if self._off[k]:
            why.append(f"windows off the totals: {self._off[k]:,}")
        if self._n_uncertain[k] > _MANY * n:
            share = self._n_uncertain[k] / n
            why.append(f"{share:.0%} of the windows are uncertain")
        if self._misfits[k]:
            why.append(f"entries that do not fit: {self._misfits[k]:,}")
        return "needs a look" if why else "labeled", "; ".join(why), accuracy

    def _accuracy(self, k: int, name: str) -> tuple[float | None, str]:
        """Return the estimated accuracy: of the participant's own model, else by confidence."""
        labeled = self._labels.labeled
        quick = bool(labeled.summary.get("quick"))
        own = next((model for key, model in labeled.models.items() if str(key) == name), None)
        if own is not None and not quick:
            value = accuracy_of(own).fitted_rows.value
            if value is not None:
                return round(value, 4), f"the estimated accuracy is {value:.0%}"
        if not labeled.labels.calibrated or quick:
            return None, ""
        mean = float(self._mean[k])
        return round(mean, 4), f"the mean confidence is {mean:.0%}"

    def _with_reason(self, code: str, n: int) -> IntArray:
        rows = self._labels.with_reason.get(code)
        whose = self._labels.index.participant
        return np.bincount(whose[:0] if rows is None else whose[rows], minlength=n)

    def _entries_that_do_not_fit(self, n: int) -> IntArray:
        """Return how many entries of each participant are remarked on."""
        names = self._labels.index.participants
        counts = np.zeros(n, dtype=np.intp)
        for remark in self._labels.task.remarks:
            mine = [name for name in names if n == 1 or remark.entry.startswith(f"{name} ")]
            if mine:
                counts[names.index(max(mine, key=len))] += 1
        return counts
