"""What was understood of the user's files: columns and their roles, rules, entries, problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from apportion._io.identifiers import is_missing, plain_name
from apportion._utils.typing import FloatArray
from apportion.exceptions import rendered
from apportion.labeling._features import TableFeatures
from apportion.labeling._source import source_table
from apportion.labeling._supervised import NONWEAR, SupervisedTable
from apportion.labeling.rows import is_known
from apportion.labeling.settings import LabelSettings
from apportion.plotting._palette import class_styles
from apportion.report._page import interval
from apportion.report._plot_data import window_hours
from apportion.studio._problems import PAGE_NAMES, ProblemError, field_of, in_words
from apportion.studio._rows import RowIndex
from apportion.supervision.diary import UNKNOWN

MOST_ROWS = 1_000_000
"""Rows that the studio takes; the command line has no such limit."""

_MOST_ENTRIES = 1000
_EXAMPLES, _CELLS, _LENGTH = 3, 100, 60
"""Examples of a column: how many, of how many first cells, and their longest text."""

_ROLES = {
    "the start": ("start", "the start of the window"),
    "the end": ("end", "the end of the window"),
    "the participant": ("participant", "the participant"),
    NONWEAR: ("nonwear", "marks windows in which the sensor was not worn"),
    "the bags": ("bag", "the bag of the row"),
    "the period": ("bag", "the period, which an entry has too"),
    "the given labels": ("given", "a label that is known"),
    "the id": ("id", "the id of the row"),
}


@dataclass(frozen=True)
class Reading:
    """The user's files, read.

    Attributes
    ----------
    settings : LabelSettings
        How they were read.
    task : SupervisedTable
        The rows and what is known of them.
    features : TableFeatures
        Their features.
    """

    settings: LabelSettings
    task: SupervisedTable
    features: TableFeatures

    @cached_property
    def index(self) -> RowIndex:
        """The rows as the page addresses them."""
        return RowIndex(self.task)

    @cached_property
    def classes(self) -> list[str]:
        """The classes that a row can be given, those that no entry has too.

        Time that entries do not cover is no activity to choose where there is none of it.
        """
        given = self.task.supervision.given
        known = set() if given is None else {str(label) for label in given[is_known(given)]}
        names = [str(label) for label in self.task.all_classes]
        absent = {str(label) for label in self.task.absent_classes} - known
        return [name for name in names if name not in absent or name.casefold() != UNKNOWN]


def read_inputs(settings: LabelSettings) -> Reading:
    """Read the user's files; raise if they cannot be used."""
    task = settings.read()
    if task.rows.n_samples > MOST_ROWS:
        raise ProblemError(
            f"The windows have {task.rows.n_samples:,} rows, and the studio takes at most "
            f"{MOST_ROWS:,}. Use the command `apportion label`, or longer windows.",
            "readings",
        )
    return Reading(settings, task, settings.features(task))


def understood(reading: Reading) -> dict[str, Any]:
    """Return what was understood, for the page."""
    task, features = reading.task, reading.features
    notes = [rendered(note, PAGE_NAMES) for note in (*task.notes, *features.notes)]
    problem = task.row_times.problem
    return {
        "ok": True,
        "problem": None,
        "field": None,
        "columns": _columns(reading),
        "rules": [rendered(rule, PAGE_NAMES) for rule in task.rules],
        "notes": notes + [problem] * bool(problem),
        "rows": task.rows.n_samples,
        "bags": len(task.totals.ids),
        "bag_word": task.bag_word,
        "classes": classes_json(reading.classes),
        "participants": _participants(reading.index),
        "entries": _entries(reading),
    }


def not_understood(
    error: BaseException, settings: LabelSettings | None, stored: Mapping[str, str]
) -> dict[str, Any]:
    """Return why files cannot be used, with the columns of the readings if these can be read.

    Parameters
    ----------
    error : exception
        Why they cannot be used.
    settings : LabelSettings or None
        How they were read; None if there are no readings.
    stored : mapping of str to str
        The names of the stored files, by role.
    """
    field = field_of(error, dict(stored))
    empty: dict[str, Any] = {
        **{
            name: [] for name in ("columns", "rules", "notes", "classes", "participants", "entries")
        },
        **{"rows": 0, "bags": 0, "bag_word": "bag"},
    }
    if settings is not None:
        try:
            rows = source_table(settings.known.readings, encoding=settings.known.encoding)
            asked = _asked_roles(settings)
            empty["columns"] = [
                {"name": name, **asked.get(name, {"role": "unused", "words": ""})}
                | {"examples": _examples(rows.table.column(name))}
                for name in rows.table.column_names
            ]
            empty["rows"] = rows.n_samples
        except Exception as own:  # then this is what to show
            error, field = own, field_of(own, dict(stored)) or "readings"
    return {**empty, "ok": False, "problem": in_words(error), "field": field}


def classes_json(classes: Sequence[str]) -> list[dict[str, str]]:
    """Return classes with their colors and patterns."""
    return [
        {"name": name, "color": style.color, "pattern": style.pattern}
        for name, style in zip(classes, class_styles(len(classes)), strict=True)
    ]


def _asked_roles(settings: LabelSettings) -> dict[str, dict[str, str]]:
    """Return the roles that settings give to columns, before anything is known of them."""
    asked = {
        settings.known.start: "the start",
        settings.known.end: "the end",
        settings.known.participant: "the participant",
        settings.known.nonwear: NONWEAR,
        settings.known.bags: "the bags",
        settings.feature.id: "the id",
    }
    return {
        column: dict(zip(("role", "words"), _ROLES[role], strict=True))
        for column, role in asked.items()
        if column is not None
    }


def _columns(reading: Reading) -> list[dict[str, Any]]:
    """Return the columns of the readings, what each is for, and some of its cells."""
    task, features = reading.task, reading.features
    roles = {name: _ROLES.get(role, ("unused", role)) for name, role in task.roles.items()}
    for role, name in task.row_times.columns.items():
        roles.setdefault(name, _ROLES[f"the {role}"])
    if task.ids is not None:
        roles.setdefault(task.ids, _ROLES["the id"])
    for name in features.recipe.names:
        roles[name] = ("feature", "a feature")
    columns = []
    for name in task.rows.table.column_names:
        why = rendered(features.left_out.get(name, ""), PAGE_NAMES)
        role, words = roles.get(name, ("unused", f"not used: {why}" if why else "not used"))
        cells = _examples(task.rows.table.column(name))
        columns.append({"name": name, "role": role, "words": words, "examples": cells})
    return columns


def _examples(column: Any) -> list[str]:
    """Return some different cells of a column, as short text."""
    cells = column.slice(0, _CELLS).to_pylist()
    texts = dict.fromkeys(plain_name(cell)[:_LENGTH] for cell in cells if not is_missing(cell))
    return [text for text in texts if text][:_EXAMPLES]


def _participants(index: RowIndex) -> list[dict[str, Any]]:
    if index.times is None:
        return []
    windows = np.bincount(index.participant, minlength=len(index.participants))
    lanes = np.unique(np.stack([index.participant, index.day]), axis=1)
    days = np.bincount(lanes[0], minlength=len(index.participants))
    return [
        {"name": name, "windows": int(windows[k]), "days": int(days[k])}
        for k, name in enumerate(index.participants)
    ]


def _entries(reading: Reading) -> list[dict[str, Any]]:
    """Return the bags with their totals, and those that do not fit."""
    task = reading.task
    totals, sizes = task.totals, Counter(task.supervision.bags.tolist())
    problems = {remark.entry: remark for remark in reversed(task.remarks)}
    hours = window_hours(task.row_times.times) if task.bag_word == "entry" else None
    names = [str(name) for name in totals.classes.tolist()]
    entries: list[dict[str, Any]] = []
    for k, bag in enumerate(totals.ids):
        n = sizes[bag]
        remark = problems.pop(str(bag), None)
        problem, fix = ("", "") if remark is None else (remark.problem, remark.fix)
        if not n:
            problem, fix = "no row is in it", "check how the bag is written in both files"
        if len(entries) < _MOST_ENTRIES or problem:
            entries.append(
                {
                    "name": str(bag),
                    "rows": n,
                    "totals": _totals_words(totals, k, n, hours, names),
                    "problem": problem,
                    "fix": rendered(fix, PAGE_NAMES),
                }
            )
    return entries + [
        {
            "name": remark.entry,
            "rows": 0,
            "totals": {},
            "problem": f"{remark.problem} ({remark.place})",
            "fix": rendered(remark.fix, PAGE_NAMES),
        }
        for remark in problems.values()
    ]


def _totals_words(
    totals: Any, k: int, n_rows: int, hours: float | None, names: Sequence[str]
) -> dict[str, str]:
    """Return the totals of a bag in words: hours of a diary's entry, else rows or percentages."""
    lower, upper = totals.lower[k], totals.upper[k]
    if hours is not None:
        factor, unit = n_rows * hours if totals.unit == "share" else hours, "h"
    else:
        factor, unit = (100.0, "%") if totals.unit == "share" else (1.0, "rows")
    return _in_unit(lower * factor, upper * factor, unit, names)


def _in_unit(
    lower: FloatArray, upper: FloatArray, unit: str, names: Sequence[str]
) -> dict[str, str]:
    lower, upper = np.round(lower, 2), np.round(upper, 2)
    return {
        name: f"{interval(float(lower[h]), float(upper[h]))} {unit}"
        for h, name in enumerate(names)
        if upper[h] > 0
    }
