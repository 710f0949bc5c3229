"""A table of rows together with what is known of their labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from apportion._io.identifiers import first_called
from apportion._utils.typing import AnyArray
from apportion.exceptions import InputError
from apportion.labeling._source import SourceTable
from apportion.labeling.rows import RowsInTime, Supervision
from apportion.plotting._window_times import Times, times_from
from apportion.supervision.diary.column_roles import WINDOW_ROLES, ColumnTable
from apportion.supervision.diary.entry_totals import EntryRemark
from apportion.supervision.totals import Totals, sorted_classes

NONWEAR = "the marks of non-wear"
"""The role of the column that marks windows in which the sensor was not worn."""

_TIME_ROLES = ("start", "end", "participant")


class RowTimes(NamedTuple):
    """When rows were recorded, and which columns say so.

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

    @property
    def in_order(self) -> RowsInTime | None:
        """The moments at which rows begin, and their recordings, if times are known."""
        if self.times is None:
            return None
        return RowsInTime(self.times.moments[0], self.times.participants)


def row_times(table: Any) -> RowTimes:
    """Return when the rows of a table were recorded, from columns with the usual names."""
    columns = ColumnTable(table)
    by_name = {role: first_called(columns.names, WINDOW_ROLES[role]) for role in _TIME_ROLES}
    names = {role: name for role, name in by_name.items() if name is not None}
    if "start" not in names:
        return RowTimes(None, names)
    start, end = (
        columns.values(names[role]) if role in names else None for role in _TIME_ROLES[:2]
    )
    try:
        participants = columns[names["participant"]] if "participant" in names else None
        return RowTimes(times_from(start, end, participants=participants), names)
    except InputError as error:
        return RowTimes(None, names, f"no days are shown, as times cannot be read: {error}")


def times_of_roles(times: Times, roles: Mapping[str, str]) -> RowTimes:
    """Return times that are known already, with the columns that have these roles."""
    by_role = {role: column for column, role in roles.items()}
    return RowTimes(
        times, {role: by_role[f"the {role}"] for role in _TIME_ROLES if f"the {role}" in by_role}
    )


@dataclass(frozen=True)
class SupervisedTable:
    """A table of rows and what is known of their labels.

    Attributes
    ----------
    rows : SourceTable
        The rows.
    supervision : Supervision
        Bags, totals and given labels.
    roles : dict of str to str
        The columns that are no features because they have another role, and that role.
    rules : tuple of str
        The rules that were used, one per parameter.
    notes : tuple of str
        What was found and decided.
    times : Times or None
        When the rows were recorded, if a diary was matched with them.
    bag_word : {"bag", "entry"}
        What the bags are called: those of a diary are its entries.
    absent_classes : tuple of str
        Activities that take no time in any bag: no classes, unless a row has such a label.
    time_format : str or None
        How times are written, if not in ISO 8601.
    id : str or None
        The column of row ids that was asked for.
    remarks : tuple of EntryRemark
        The entries of a diary that do not fit, and how to fix each.
    """

    rows: SourceTable
    supervision: Supervision
    roles: dict[str, str]
    notes: tuple[str, ...]
    rules: tuple[str, ...] = ()
    times: Times | None = None
    bag_word: str = "bag"
    absent_classes: tuple[str, ...] = ()
    time_format: str | None = None
    id: str | None = None
    remarks: tuple[EntryRemark, ...] = ()

    @property
    def totals(self) -> Totals:
        """The totals of the bags."""
        return self.supervision.totals

    @property
    def all_classes(self) -> list[Any]:
        """The classes, and those that no bag has, which are among the former if a row has one."""
        return list(dict.fromkeys([*self.totals.classes.tolist(), *self.absent_classes]))

    @property
    def ids(self) -> str | None:
        """The column of row ids: the one asked for, or one with a usual name."""
        return self.id or self.rows.usual_ids

    @cached_property
    def row_times(self) -> RowTimes:
        """When the rows were recorded: from the diary, or from columns with the usual names."""
        if self.times is None:
            return row_times(self.rows.table)
        return times_of_roles(self.times, self.roles)

    def totals_for(self, labels: AnyArray) -> Totals:
        """Return the totals, with the absent classes if a label is one of them."""
        if not set(self.absent_classes) & set(labels.tolist()):
            return self.totals
        return self.totals.with_classes(sorted_classes(self.all_classes)[0])
