"""The settings of the studio: those of `apportion label`, with the files of the folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apportion._utils.options import Option
from apportion.exceptions import rendered
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
    return LabelSettings.from_json({**values, "given": given or None}, folder)


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
    # A name that is no column would be taken for the path of a table.
    for name in changes.get("given") or ():
        if name not in columns:
            raise ProblemError(f"The windows have no column {name!r}.", "given")
    values = {**before, **changes}
    kept = {name: value for name, value in values.items() if value is not None}
    placeholder = {"readings": "readings.csv"}
    settings = LabelSettings.from_json({**DEFAULTS, **kept, **placeholder}, folder)
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
