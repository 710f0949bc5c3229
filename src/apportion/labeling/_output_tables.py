"""The tables that come out: labels beside the columns of the rows, episodes, windows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from apportion._io.feature_recipe import Recipe
from apportion._io.label_table import label_columns
from apportion._io.values import delimiter_in, values_of
from apportion._utils.typing import IntArray
from apportion.labeling._supervised import RowTimes
from apportion.labeling.rows import RowLabels, places_among
from apportion.plotting._segments import episodes_of
from apportion.plotting._window_times import SECOND, carries_dates, iso_of
from apportion.supervision.diary.event_windows import EventWindows


def time_cells(moments: IntArray, zone: str | None, *, dated: bool, typed: bool) -> Any:
    """Return times, in microseconds, as an Arrow array.

    Parameters
    ----------
    moments : ndarray of int
        Points in time if `zone` is given, else clock times.
    zone : str or None
        The time zone.
    dated : bool
        Whether the times have dates; without, they are seconds since the recording began.
    typed : bool
        Whether times are timestamps, as in Parquet, or ISO 8601 text.
    """
    import pyarrow as pa

    if not dated:
        return pa.array(moments / SECOND)
    if typed:
        return pa.array(moments, pa.timestamp("us", zone))
    return pa.array(iso_of(moments, zone), pa.string())


def written_times(
    table: Any, row_times: RowTimes, time_format: str | None, *, typed: bool
) -> dict[str, Any]:
    """Return the starts and ends that are written as times, although the table has no times there.

    These are columns of seconds, and of text in a format of its own. Seconds without a date stay as
    they are.
    """
    import pyarrow.types as kinds

    times = row_times.times
    if times is None or not times.dated:
        return {}
    columns = {}
    for role, moments in zip(("start", "end"), times.moments, strict=True):
        name = row_times.columns.get(role)
        if name is None:
            continue
        kind = values_of(table, name).type
        is_number = kinds.is_integer(kind) or kinds.is_floating(kind)
        if is_number or (time_format is not None and not kinds.is_temporal(kind)):
            columns[name] = time_cells(moments, times.zone, dated=True, typed=typed)
    return columns


def labeled_table(
    labels: RowLabels,
    table: Any,
    kept: Collection[str],
    recipe: Recipe,
    times: Mapping[str, Any],
    *,
    numbered: bool,
    typed: bool,
) -> Any:
    """Return some columns of the rows with the labels beside them.

    Columns of a text file are what they were, byte for byte, except for starts and ends that are
    not written in ISO 8601. If `typed`, features are numbers and times are times, and so is every
    other column whose cells are spelled as its values are printed.

    Parameters
    ----------
    labels : RowLabels
        The labels.
    table : pyarrow.Table
        The rows.
    kept : collection of str
        Columns of the rows to keep.
    recipe : Recipe
        Which columns are features.
    times : mapping of str to pyarrow.Array
        Columns that are written as times, see `written_times`.
    numbered : bool
        Whether rows get their number in a column `row`, because they have no ids.
    typed : bool
        Whether columns have types, as in Parquet, or are text, as in CSV.
    """
    import pyarrow as pa

    numbers = {feature.name for feature in recipe.features if feature.levels is None}
    names = [str(name) for name in labels.classes.tolist()]
    positions = places_among(labels.labels, labels.classes)
    added = label_columns(names, positions, labels.masses, labels.confidence, labels.reasons)
    columns = {"row": pa.array(np.arange(table.num_rows))} if numbered else {}
    for name in table.column_names:
        if name not in kept or name in added:
            continue
        if name in times and name not in recipe.names:
            columns[name] = times[name]
        else:
            columns[name] = _typed(table, name, name in numbers) if typed else table.column(name)
    return pa.table({**columns, **added})


def _typed(table: Any, name: str, is_feature: bool) -> Any:
    """Return a column as numbers or times; as text if that would change how it is spelled."""
    import pyarrow as pa

    cells, values = table.column(name), values_of(table, name)
    if is_feature or delimiter_in(table) is None or pa.types.is_temporal(values.type):
        return values
    return values if values.cast(pa.string()).equals(cells) else cells


def episodes_table(labels: RowLabels, row_times: RowTimes, *, typed: bool) -> Any:
    """Return the episodes of labeled rows, one row per episode.

    An episode is a run of windows of one participant that follow each other and have one label.

    Parameters
    ----------
    labels : RowLabels
        The labels.
    row_times : RowTimes
        When the rows were recorded; the times are known.
    typed : bool
        Whether times are timestamps, as in Parquet, or text.
    """
    import pyarrow as pa

    times = row_times.times
    assert times is not None
    episodes = episodes_of(times, places_among(labels.labels, labels.classes), labels.confidence)
    columns: dict[str, Any] = {}
    if "participant" in row_times.columns:
        participants = pa.array(episodes.participant, pa.string())
        columns[row_times.columns["participant"]] = participants
    for name, moments in (("start", episodes.start), ("end", episodes.end)):
        columns[name] = time_cells(moments, times.zone, dated=times.dated, typed=typed)
    names = [str(labels.classes[h]) for h in episodes.label]
    columns["label"] = pa.array(names, pa.string())
    columns["minutes"] = (episodes.end - episodes.start) / (60 * SECOND)
    columns["confidence"] = episodes.confidence
    return pa.table(columns)


def windows_table(windows: EventWindows, *, share: bool, typed: bool) -> Any:
    """Return windows of events as a table, one row per window.

    Parameters
    ----------
    windows : EventWindows
        The windows.
    share : bool
        Whether to return the share of a window in which a sensor was on, and not the seconds.
    typed : bool
        Whether times are timestamps, as in Parquet, or text.
    """
    import pyarrow as pa

    columns: dict[str, Any] = {}
    if windows.participants is not None:
        columns["participant"] = pa.array(windows.participants.tolist(), pa.string())
    dated = not windows.absolute or carries_dates(windows.starts)
    zone = windows.zone or ("UTC" if windows.absolute else None)
    for name, moments in (("start", windows.starts), ("end", windows.ends)):
        columns[name] = time_cells(moments, zone, dated=dated, typed=typed)
    length = (windows.ends - windows.starts)[:1] / SECOND if share else 1.0
    for k, sensor in enumerate(windows.sensors):
        if windows.seconds is not None:
            name = f"{sensor}_{'share' if share else 'seconds'}"
            columns[name] = np.asarray(windows.seconds[:, k] / length)
        columns[f"{sensor}_events"] = windows.counts[:, k]
    return pa.table(columns)
