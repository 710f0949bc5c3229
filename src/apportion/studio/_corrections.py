"""Corrections: what the user says about rows, as records, and as a table of given labels.

A record names a participant and a range of time, or rows where there are no times, and a label
that these rows have, or do not have. Where records speak of the same row, the later one wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion._utils.typing import BoolArray, IntArray
from apportion.exceptions import counted
from apportion.plotting._window_times import SECOND, iso_of
from apportion.studio._problems import ProblemError
from apportion.studio._rows import RowIndex, microseconds

YES, NOT = "yes", "not"
"""What the column `given` says: the row has the label, or it does not have it."""


@dataclass(frozen=True)
class Corrected:
    """What corrections say about each row.

    Attributes
    ----------
    label : ndarray of shape (n_samples,)
        The label that a row has, as a position among the classes; -1 = none.
    excluded : ndarray of bool, of shape (n_samples, n_classes)
        The labels that it does not have.
    """

    label: IntArray
    excluded: BoolArray

    @property
    def rows(self) -> BoolArray:
        """Which rows something is said about."""
        return np.asarray((self.label >= 0) | self.excluded.any(axis=1))


def new_record(
    request: Mapping[str, Any], index: RowIndex, classes: Sequence[str], shown: IntArray
) -> dict[str, Any]:
    """Return the record of a correction that the page asks for, without its id.

    Parameters
    ----------
    request : mapping
        What the page sent.
    index : RowIndex
        The rows.
    classes : sequence of str
        The classes.
    shown : ndarray of shape (n_samples,)
        The labels that the page shows, as positions; -1 = none.
    """
    exclude = request.get("exclude", False)
    if not isinstance(exclude, bool):
        raise ProblemError("'exclude' must be true or false.", "exclude")
    place: dict[str, Any] = {"participant": None, "start": None, "end": None, "at": None}
    if request.get("rows") is not None:
        place |= _place_of_rows(request["rows"], index)
    else:
        place |= _place_in_time(request, index)
    rows = rows_of(place, index)
    if not rows.size:
        raise ProblemError(f"There is no window from {place['words']}.", "start")
    counts = np.bincount(shown[rows] + 1, minlength=len(classes) + 1)
    most = int(counts.argmax()) - 1
    return {
        **place,
        "label": label_named(request.get("label"), classes),
        "exclude": exclude,
        "was": "" if most < 0 else classes[most],
    }


def label_named(label: Any, classes: Sequence[str]) -> str:
    """Return a class by its name or its position."""
    if isinstance(label, int) and not isinstance(label, bool) and 0 <= label < len(classes):
        return classes[label]
    if isinstance(label, str) and label in classes:
        return label
    raise ProblemError(f"There is no class {label!r}. Classes: {', '.join(classes)}.", "label")


def _place_of_rows(rows: Any, index: RowIndex) -> dict[str, Any]:
    """Return rows by their ids, or by their positions where they have no ids."""
    whole = isinstance(rows, list) and all(
        isinstance(row, int) and not isinstance(row, bool) for row in rows
    )
    if not whole or not rows or not all(0 <= row < index.n_samples for row in rows):
        most = f"from 0 to {index.n_samples - 1}"
        raise ProblemError(f"'rows' must be a list of positions {most}.", "rows")
    at = sorted(set(rows))
    if index.ids is not None:
        names = index.ids[at].tolist()
        return {"at": names, "by_id": True, "words": _some("row", names)}
    return {"at": at, "by_id": False, "words": _some("row", at)}


def _some(word: str, names: Sequence[Any]) -> str:
    if len(names) == 1:
        return f"{word} {names[0]}"
    return f"{counted(len(names), word)}, from {names[0]} to {names[-1]}"


def _place_in_time(request: Mapping[str, Any], index: RowIndex) -> dict[str, Any]:
    """Return a range of clock times; `start` and `end` count from the midnight of `day`."""
    participant = index.participants[index.code_of(request.get("participant"))] or None
    midnight = 0
    if request.get("day") is not None:
        midnight = index.day_called(participant, request["day"]).midnight
    start, end = (midnight + microseconds(request.get(name), name) for name in ("start", "end"))
    if end <= start:
        raise ProblemError("The end of a correction must be after its start.", "end")
    day = index.day_of(start)
    return {
        "participant": participant,
        "start": start,
        "end": end,
        "day": day.date,
        "midnight": day.midnight,
        "words": index.in_words(start, end),
    }


def rows_of(record: Mapping[str, Any], index: RowIndex) -> IntArray:
    """Return the rows that a record is about; none if the readings no longer have them."""
    none = np.empty(0, dtype=np.intp)
    if record["at"] is not None and record.get("by_id"):
        if index.ids is None:
            return none
        return np.flatnonzero(np.isin(index.ids.astype(str), record["at"]))
    if record["at"] is not None:
        at = np.array(record["at"], dtype=np.intp)
        return at[at < index.n_samples]
    try:
        return index.rows_between(record["participant"], record["start"], record["end"])
    except ProblemError:  # other readings, without this participant or without times
        return none


def expand(
    records: Iterable[Mapping[str, Any]], index: RowIndex, classes: Sequence[str]
) -> Corrected:
    """Return what records say about each row.

    A label wins over all that was said before. "Not this one" takes back the same label, and
    leaves another label in place.
    """
    label = np.full(index.n_samples, -1, dtype=np.intp)
    excluded = np.zeros((index.n_samples, len(classes)), dtype=bool)
    for record in records:
        if record["label"] not in classes:
            continue
        rows, code = rows_of(record, index), classes.index(record["label"])
        if record["exclude"]:
            label[rows[label[rows] == code]] = -1
            excluded[rows[label[rows] < 0], code] = True
        else:
            label[rows], excluded[rows] = code, False
    return Corrected(label, excluded)


def require_possible(corrected: Corrected) -> None:
    """Raise if every class is excluded for a row."""
    if corrected.excluded.size and corrected.excluded.all(axis=1).any():
        raise ProblemError(
            "That would leave no class for some of these windows. Say which one it is instead.",
            "label",
        )


def given_table(corrected: Corrected, index: RowIndex, classes: Sequence[str]) -> Any:
    """Return corrections as a table of given labels, one line per row and label.

    Rows are named by their ids or, without ids, by their numbers; if a column of the readings is
    called `row`, by participant and start. Columns `whose` and `when` are for people.
    """
    import pyarrow as pa

    labeled = np.flatnonzero(corrected.label >= 0)
    without, codes = np.nonzero(corrected.excluded)
    rows = np.append(labeled, without)
    code = np.append(corrected.label[labeled], codes)
    given = np.repeat([YES, NOT], [len(labeled), len(without)])
    order = np.lexsort([code, rows])
    rows, code, given = rows[order], code[order], given[order]
    names = np.array(classes, dtype=object)
    columns = _keys(rows, index)
    if index.times is not None:
        if index.participants != [""]:
            whose = np.array(index.participants, dtype=object)[index.participant[rows]]
            columns["whose"] = pa.array(whose.tolist(), pa.string())
        if index.times.dated:
            columns["when"] = pa.array(iso_of(index.times.starts[rows], None), pa.string())
    columns["label"] = pa.array(names[code].tolist(), pa.string())
    columns["given"] = pa.array(given.tolist(), pa.string())
    return pa.table(columns)


def _keys(rows: IntArray, index: RowIndex) -> dict[str, Any]:
    """Return the columns that say which row a line is about."""
    import pyarrow as pa

    task = index.task
    if index.ids is not None and task.ids is not None:
        return {task.ids: pa.array(index.ids[rows].tolist(), pa.string())}
    if "row" not in task.rows:
        return {"row": pa.array(rows)}
    columns = task.row_times.columns
    kept = [columns[role] for role in ("participant", "start") if role in columns]
    if "start" not in columns:
        raise ProblemError(
            "The readings have a column 'row', and neither ids nor times: name a column of row "
            "ids, so that corrections can say which row they are about.",
            "id",
        )
    return {name: task.rows.table.column(name).take(pa.array(rows)) for name in kept}


def to_json(record: Mapping[str, Any], n_rows: int) -> dict[str, Any]:
    """Return a record as the page shows it: times count from the midnight of its day."""
    start, end = record["start"], record["end"]
    if start is not None:
        start, end = ((moment - record["midnight"]) / SECOND for moment in (start, end))
    return {
        "id": record["id"],
        "participant": record["participant"],
        "start": start,
        "end": end,
        "day": record.get("day"),
        "words": record["words"],
        "label": record["label"],
        "exclude": record["exclude"],
        "rows": n_rows,
        "was": record["was"],
    }
