"""The answer of a command: labels beside the rows' own columns, into a file or onto stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from apportion._io.atomic_write import Outputs
from apportion._io.feature_recipe import Recipe
from apportion._io.label_table import label_columns
from apportion._io.spreadsheet_safe import write_csv, write_table
from apportion._io.values import delimiter_in, values_of
from apportion._utils.typing import IntArray
from apportion.cli.console import CommandLineError, on_stdout
from apportion.cli.options import OutputOptions
from apportion.exceptions import OutputError, counted, name_some
from apportion.labeling.rows import Answer, places_among
from apportion.plotting._segments import episodes_of
from apportion.plotting._window_times import SECOND, Times, iso_of


def refuse_inputs(path: Path, inputs: Iterable[Path | None]) -> None:
    """Raise where a file to write is one that is read."""
    real = os.path.realpath  # survives links in a circle
    if real(path) in [real(source) for source in inputs if source is not None]:
        raise OutputError(f"{path} is an input of this command. Name another file.")


@dataclass(frozen=True)
class TimeColumn:
    """A column of times, in microseconds: points in time where `zone` names their zone."""

    moments: IntArray
    zone: str | None

    def cells(self, in_parquet: bool) -> Any:
        """Return the times as Parquet has them, or as ISO 8601 text."""
        import pyarrow as pa

        if in_parquet:
            return pa.array(self.moments, pa.timestamp("us", self.zone))
        return pa.array(iso_of(self.moments, self.zone), pa.string())


def times_to_write(
    table: Any, times: Times | None, columns: Mapping[str, str | None], time_format: str | None
) -> dict[str, TimeColumn]:
    """Return the starts and ends that are not written as times: they are seconds, or of a format.

    Parameters
    ----------
    table : pyarrow.Table
        The rows.
    times : Times or None
        When they were recorded. Seconds that carry no date stay as they are.
    columns : mapping of str to str or None
        Which columns are the `start` and the `end`.
    time_format : str or None
        How times are written, where that is not ISO 8601.
    """
    import pyarrow.types as kinds

    if times is None or not times.dated:
        return {}
    found = {}
    for role, values in zip(("start", "end"), times.moments, strict=True):
        name = columns.get(role)
        if name is None:
            continue
        kind = values_of(table, name).type
        numbers = kinds.is_integer(kind) or kinds.is_floating(kind)
        if numbers or (time_format is not None and not kinds.is_temporal(kind)):
            found[name] = TimeColumn(values, times.zone)
    return found


def require_share(abstain_below: float | None) -> None:
    """Raise where --abstain-below is no number from 0 to 1."""
    if abstain_below is not None and not 0 <= abstain_below <= 1:
        raise CommandLineError(f"--abstain-below must be from 0 to 1. Got {abstain_below:g}.")


def kept_columns(table: Any, wanted: Collection[str | None], everything: bool) -> list[str]:
    """Return the rows' columns that the answer keeps."""
    return [name for name in table.column_names if everything or name in wanted]


def answer_table(
    found: Answer,
    table: Any,
    kept: list[str],
    recipe: Recipe,
    out: OutputOptions,
    *,
    numbered: bool,
    times: Mapping[str, TimeColumn],
) -> tuple[Any, list[str]]:
    """Return the kept columns with the answer's beside them, and what to say about it.

    Columns of a text file are what they were, byte for byte, but for starts and ends that are not
    written in ISO 8601. In Parquet, features are numbers and times are times, and so is every other
    column whose cells are spelled as its values print.

    Parameters
    ----------
    found : Answer
        The labels.
    table : pyarrow.Table
        The rows.
    kept : list of str
        Columns of the rows to keep.
    recipe : Recipe
        Which columns are features.
    out : OutputOptions
        Where the answer goes.
    numbered : bool
        Whether rows without an id get their number in a column `row`.
    times : mapping of str to TimeColumn
        Columns of times that come out as times, see `times_to_write`.
    """
    import pyarrow as pa

    answer = label_columns(
        [str(label) for label in found.classes.tolist()],
        places_among(found.labels, found.classes),
        found.masses,
        found.confidence,
        found.reasons,
    )
    rows = {"row": pa.array(np.arange(table.num_rows))} if numbered else {}
    in_parquet = out.output is not None and out.output.suffix.lower() == ".parquet"
    numbers = {feature.name for feature in recipe.features if feature.levels is None}
    columns = {
        name: times[name].cells(in_parquet)
        if name in times and name not in recipe.names
        else _typed(table, name, name in numbers)
        if in_parquet
        else table.column(name)
        for name in kept
        if name not in answer
    }
    lost = [name for name in kept if name in answer]
    notes = [f"not kept, as the answer has columns called so: {name_some(lost)}"] * bool(lost)
    return pa.table({**rows, **columns, **answer}), notes


def episodes_table(found: Answer, times: Times, columns: Mapping[str, str], parquet: bool) -> Any:
    """Return the episodes of labeled rows, one line each.

    Parameters
    ----------
    found : Answer
        The labels.
    times : Times
        When the rows were recorded.
    columns : mapping of str to str
        What the rows' columns of start, end and participant are called.
    parquet : bool
        Whether the table goes into a Parquet file, where times are times.
    """
    import pyarrow as pa

    labels = places_among(found.labels, found.classes)
    episodes = episodes_of(times, labels, found.confidence)
    minutes = (episodes.end - episodes.start) / (60 * SECOND)
    start, end = (
        TimeColumn(one, times.zone).cells(parquet)
        if times.dated
        else pa.array(one / SECOND)  # seconds since the recording began
        for one in (episodes.start, episodes.end)
    )
    who = {columns["participant"]: episodes.participant} if "participant" in columns else {}
    return pa.table(
        {
            **{name: pa.array(names, pa.string()) for name, names in who.items()},
            "start": start,
            "end": end,
            "label": pa.array([str(found.classes[h]) for h in episodes.label], pa.string()),
            "minutes": minutes,
            "confidence": episodes.confidence,
        }
    )


def _typed(table: Any, name: str, is_feature: bool) -> Any:
    """Return a column as numbers or times; as text where that would change how it is spelled."""
    import pyarrow as pa

    cells, values = table.column(name), values_of(table, name)
    if is_feature or delimiter_in(table) is None or pa.types.is_temporal(values.type):
        return values
    return values if values.cast(pa.string()).equals(cells) else cells


def write_answer(answer: Any, out: OutputOptions, outputs: Outputs) -> list[str]:
    """Write the answer, and return what to say about it once it is in its place.

    Call it last: what is on stdout cannot be taken back.
    """
    changed, written = 0, []
    if out.output is None:
        with on_stdout():
            changed = write_csv(answer, sys.stdout.buffer)
    else:
        changed = write_table(answer, out.output, outputs)
        written = [f"written: {out.output}, {counted(answer.num_rows, 'row')}"]
    note = (
        f"{counted(changed, 'text')} that a spreadsheet would take for formulas got an "
        "apostrophe before them; Parquet output keeps them as they are"
    )
    return [note] * bool(changed) + written
