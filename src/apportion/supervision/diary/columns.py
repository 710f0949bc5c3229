"""Which column of a diary's table plays which role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from apportion._io.identifiers import first_called
from apportion._io.sheet import Sheet
from apportion.exceptions import DiaryError, name_some

ROLES: dict[str, tuple[str, ...]] = {
    "participant": (
        "participant", "participant_id", "person", "subject", "subject_id", "patient",
        "patient_id", "user", "user_id",
    ),
    "date": ("date", "day"),
    "start": ("start", "begin", "from", "start_time", "begin_time"),
    "end": ("end", "stop", "until", "to", "end_time", "stop_time"),
    "period": ("period", "bag"),
    "activity": ("activity", "label", "class"),
    "duration": ("duration", "amount", "hours", "minutes", "seconds", "share", "percent"),
    "note": ("note", "notes", "comment", "comments", "remark", "remarks"),
}  # fmt: skip
"""The names by which a diary's columns are known; any other column is an activity.

Capitals, blanks, underscores and hyphens do not count.
"""


class Roles(NamedTuple):
    """The column of each role that there is, and all columns that are notes."""

    column: dict[str, str]
    notes: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that plays a role."""
        return (*self.column.values(), *self.notes)


def find_roles(sheet: Sheet, given: Mapping[str, str | Sequence[str]] | None = None) -> Roles:
    """Return which column plays which role, by the names people use or as they say.

    Several columns may be notes.
    """
    column: dict[str, str] = {}
    notes: list[str] = []
    for role, said in (given or {}).items():
        names = [said] if isinstance(said, str) else list(said)
        _require_known(role, names, sheet)
        if role == "note":
            notes += names
        else:
            column[role] = names[0]
    free = [name for name in sheet.columns if name not in (*column.values(), *notes)]
    notes += [name for one in ROLES["note"] if (name := first_called(free, [one])) is not None]
    for role, usual in ROLES.items():
        name = first_called(free, usual)
        if name is not None and role != "note":
            column.setdefault(role, name)
    return Roles(column, tuple(notes))


def _require_known(role: str, names: list[str], sheet: Sheet) -> None:
    if role not in ROLES:
        raise DiaryError(
            "the diary's columns",
            f"the role {role!r}",
            f"the roles {', '.join(ROLES)}",
            "correct the role",
        )
    if len(names) != 1 and role != "note":
        raise DiaryError(
            "the diary's columns",
            f"{len(names)} columns for the {role}",
            f"one column for the {role}; only notes may be several",
            "name one",
        )
    for name in names:
        if name not in sheet.columns:
            raise DiaryError(
                sheet.name,
                f"no column {name!r}",
                f"one of its columns {name_some(map(repr, sheet.columns), 12)}",
                f"name the column that holds the {role}",
            )
