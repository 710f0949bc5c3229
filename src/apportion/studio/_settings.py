"""The settings of the studio: those of `apportion label`, with the files of the folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apportion._utils.options import Option
from apportion.exceptions import rendered
from apportion.labeling._given import looks_like_table
from apportion.labeling.settings import LabelSettings, settings_options
from apportion.studio._problems import PAGE_NAMES, ProblemError
from apportion.studio._workspace import CORRECTIONS, ROLES, Workspace

DEFAULTS = {"conflict": "given"}
"""Defaults that differ from the command line: corrections win over totals, and stop no run."""

_FILES = tuple(role for role in ROLES if role != "given")
_KINDS = {
    "flag": "flag",
    "choice": "choice",
    "number": "number",
    "whole number": "number",
    "texts": "columns",
}


def label_settings(workspace: Workspace, *, corrected: bool) -> LabelSettings:
    """Return the settings of a run.

    Parameters
    ----------
    workspace : Workspace
        The folder; it has readings.
    corrected : bool
        Whether corrections are among the given labels.
    """
    state, folder = workspace.state, workspace.folder
    values: dict[str, Any] = {**DEFAULTS, **state.settings}
    for role in _FILES:
        path = workspace.path(role)
        if path is not None:
            values[role] = path.name
    given = list(values.pop("given", None) or ())
    path = workspace.path("given")
    given += [] if path is None else [path.name]
    given += [CORRECTIONS] * corrected
    settings = LabelSettings.from_json({**values, "given": given or None}, folder)
    _require_own(settings, workspace)
    return settings


def _require_own(settings: LabelSettings, workspace: Workspace) -> None:
    """Raise if settings would read a file that is not the studio's.

    The name of a column can be that of a file, and state.json may have been changed by hand.
    """
    own = {workspace.path(role) for role in ROLES} | {workspace.folder / CORRECTIONS}
    known = settings.known
    asked = [(role, getattr(known, role)) for role in _FILES]
    # What is no column is looked for where the studio was started, too.
    places = (workspace.folder, Path())
    asked += [
        ("given", Path(text))
        for text in known.given or ()
        if any(looks_like_table(text, place) for place in places)
    ]
    for name, path in asked:
        if path is not None and path not in own:
            raise ProblemError(
                f"{path.name!r} would be read as a file, and it is not one that was given to the "
                "studio. Give it as a file, or rename the column that is called so.",
                name,
            )


def changed_settings(
    before: Mapping[str, Any], changes: Any, columns: list[str], folder: Path
) -> dict[str, Any]:
    """Return settings after a change that the page asks for.

    Parameters
    ----------
    before : mapping of str to object
        The settings that differ from their defaults.
    changes : mapping of str to object
        New values; None is the default.
    columns : list of str
        The columns of the readings.
    folder : path
        The folder of the studio.
    """
    if not isinstance(changes, dict):
        raise ProblemError("Settings are an object of names and values.", status=400)
    for name in changes:
        if name in _FILES:
            raise ProblemError("Files are given as files, not as settings.", name)
    values = {**before, **changes}
    kept = {name: value for name, value in values.items() if value is not None}
    placeholder = {"readings": "readings.csv"}
    settings = LabelSettings.from_json({**DEFAULTS, **kept, **placeholder}, folder)
    # A name that is no column would be taken for the path of a table.
    for name in changes.get("given") or ():
        if name not in columns or looks_like_table(name, folder):
            raise ProblemError(
                f"{name!r} is no column of the windows, or is called like a file.", "given"
            )
    checked = settings.to_json(folder)
    return {
        name: value
        for name, value in kept.items()
        if name in DEFAULTS or checked.get(name) == value
    }


def options_json() -> list[dict[str, Any]]:
    """Return the settings that the page offers."""
    return [_option(item) for item in settings_options() if item.name not in _FILES]


def _option(item: Option) -> dict[str, Any]:
    choices = item.choices or item.facts.choices
    kind = _KINDS.get(item.kind, "text")
    if item.kind == "text" and choices:
        kind = "choice"
    elif item.facts.metavar == "COLUMN" and kind == "text":
        kind = "column"
    return {
        "name": item.name,
        "panel": item.facts.panel,
        "help": rendered(item.facts.help, PAGE_NAMES),
        "kind": kind,
        "choices": list(choices) or None,
        "default": DEFAULTS.get(item.name, item.default),
    }
