"""When rows were recorded, and the columns of times that are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from apportion._io.values import values_of
from apportion._utils.typing import IntArray
from apportion.exceptions import InputError
from apportion.plotting._timeline_data import SECOND, Times
from apportion.plotting._timestamps import iso_of, times_from
from apportion.supervision.diary.recording import WINDOW_ROLES
from apportion.supervision.diary.table import Table

_ROLES = ("start", "end", "participant")


class RowTimes(NamedTuple):
    """When rows were recorded.

    Attributes
    ----------
    times : Times or None
        The times, if they are known.
    columns : dict of str to str
        The columns of `start`, `end` and `participant`.
    problem : str
        Why times cannot be read; empty if they can, or if there is no column of them.
    """

    times: Times | None
    columns: dict[str, str]
    problem: str = ""


def row_times(table: Any) -> RowTimes:
    """Return when the rows of a table were recorded, from columns with the usual names."""
    columns = Table(table)
    by_name = {role: columns.find(role, None, WINDOW_ROLES[role]) for role in _ROLES}
    names = {role: name for role, name in by_name.items() if name is not None}
    if "start" not in names:
        return RowTimes(None, names)
    start, end = (columns.values(names[role]) if role in names else None for role in _ROLES[:2])
    try:
        participants = columns[names["participant"]] if "participant" in names else None
        return RowTimes(times_from(start, end, participants=participants), names)
    except InputError as error:
        return RowTimes(None, names, f"no days are shown, as times cannot be read: {error}")


def times_of_roles(times: Times, roles: Mapping[str, str]) -> RowTimes:
    """Return times that are known already, with the columns that have these roles."""
    by_role = {role: column for column, role in roles.items()}
    return RowTimes(
        times, {role: by_role[f"the {role}"] for role in _ROLES if f"the {role}" in by_role}
    )


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
