"""A table of rows together with what is known of their labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from apportion._io.tables import first_called
from apportion._utils.typing import AnyArray
from apportion.exceptions import FileError, hint
from apportion.labeling.row_times import RowTimes, row_times, times_of_roles
from apportion.labeling.rows import Supervision
from apportion.labeling.source import SourceTable
from apportion.plotting._timeline_data import Times
from apportion.supervision.totals import Totals, sorted_classes

NONWEAR = "the marks of non-wear"
"""The role of the column that marks windows in which the sensor was not worn."""

_USUAL_IDS = ("id", "row_id", "window_id", "window", "unique_id", "uuid")


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

    @property
    def totals(self) -> Totals:
        """The totals of the bags."""
        return self.supervision.totals

    @property
    def all_classes(self) -> list[Any]:
        """The classes, and those that no bag has."""
        return [*self.totals.classes.tolist(), *self.absent_classes]

    @property
    def ids(self) -> str | None:
        """The column of row ids: the one asked for, or one with a usual name."""
        return self.id or usual_ids(self.rows)

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


def usual_ids(rows: SourceTable) -> str | None:
    """Return the column with a usual name of row ids."""
    return first_called(rows.table.column_names, _USUAL_IDS)


def require_ids(rows: SourceTable, column: str) -> None:
    """Raise if there is no such column, or if two rows have the same id in it, or one has none."""
    rows.require(column)
    first: dict[str, int] = {}
    for row, name in enumerate(rows.names(column)):
        if name and first.setdefault(name, row) == row:
            continue
        raise FileError(
            "",
            f"the id {name!r}, which {rows.line(first[name])} has too" if name else "no id",
            "a different id in every row",
            hint("correct the ids, or name another column with {id}"),
            row=row,
            place=rows.place(row),
            column=column,
        )
