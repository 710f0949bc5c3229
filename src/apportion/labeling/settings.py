"""The settings of a labeling run: all that its answer depends on, as options and as a JSON file."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from apportion._io.atomic_write import Outputs
from apportion._io.file_kinds import require_file
from apportion._utils.method_names import AUTO
from apportion._utils.options import (
    REQUIRED,
    AnswerOptions,
    FeatureOptions,
    KnownOptions,
    MethodOptions,
    Option,
    options_of,
)
from apportion.exceptions import FileError, SettingsError, hint, name_some
from apportion.labeling._features import TableFeatures
from apportion.labeling._from_options import (
    check_known,
    check_method,
    chosen_method,
    estimator_of,
    read_features,
    read_supervised,
)
from apportion.labeling._given import looks_like_table
from apportion.labeling._supervised import SupervisedTable
from apportion.labeling.table import LabeledTable, label_supervised, require_times
from apportion.model_selection._candidates import memory_note

__all__ = ["LabelSettings", "read_settings", "settings_options", "write_settings"]

_VERSION = "apportion"
_GROUPS: dict[str, Any] = {
    "known": KnownOptions,
    "feature": FeatureOptions,
    "method": MethodOptions,
}
_TYPES: dict[str, Any] = {
    "path": str,
    "text": str,
    "choice": str,
    "flag": bool,
    "whole number": int,
    "number": (int, float),
    "texts": list,
}
_WORDS = {"path": "the path of a file", "text": "a text", "flag": "true or false"}


@dataclass(frozen=True)
class LabelSettings:
    """All that a run of `apportion label` depends on, other than where its files go.

    Parameters
    ----------
    known : KnownOptions
        The rows, and what is known of their labels.
    feature : FeatureOptions
        Which columns are features.
    method : MethodOptions
        How labels are found.
    abstain_below : float, optional
        Rows whose confidence is below this number from 0 to 1 get no label.
    all_columns : bool, default=False
        Whether the labeled table has all columns of the rows.

    Examples
    --------
    >>> options = {"readings": "rows.csv", "timezone": "UTC"}
    >>> settings = LabelSettings.from_json(options, Path("data"))
    >>> settings.known.readings.as_posix()
    'data/rows.csv'
    >>> settings.to_json(Path("data"))
    {'readings': 'rows.csv', 'timezone': 'UTC'}
    """

    known: KnownOptions
    feature: FeatureOptions
    method: MethodOptions
    abstain_below: float | None = None
    all_columns: bool = False

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are read."""
        return self.known.files

    def check(self) -> None:
        """Raise for values that are not allowed, and for options that do not go together."""
        check_abstain_below(self.abstain_below)
        check_method(self.method)
        check_known(self.known)

    def read(self) -> SupervisedTable:
        """Read the rows and what is known of their labels."""
        task = read_supervised(self.known, self.feature.id)
        if self.method.decode == "sequence":
            require_times(task.rows, task.row_times, "{decode:sequence}")
        return task

    def features(self, task: SupervisedTable) -> TableFeatures:
        """Choose the features of rows that were read.

        Parameters
        ----------
        task : SupervisedTable
            The rows and what is known of their labels.
        """
        return read_features(task, self.feature)

    def label(
        self, task: SupervisedTable, features: TableFeatures, command: str = ""
    ) -> LabeledTable:
        """Label rows that were read.

        Parameters
        ----------
        task : SupervisedTable
            The rows and what is known of their labels.
        features : TableFeatures
            Their features.
        command : str, optional
            The command that is running, for the summary.
        """
        return label_supervised(
            task,
            features,
            estimator_of(self.method),
            abstain_below=self.abstain_below,
            use_times=not self.method.no_time,
            all_columns=self.all_columns,
            command=command,
            method=chosen_method(self.method),
            choose_decode=self.method.decode == "auto",
        )

    def memory_note(self, task: SupervisedTable, features: TableFeatures) -> str:
        """Return how much memory labeling will take, in words; empty if it is not much.

        Parameters
        ----------
        task : SupervisedTable
            The rows and what is known of their labels.
        features : TableFeatures
            Their features.
        """
        if chosen_method(self.method) != AUTO:
            return ""
        groups = task.supervision.groups
        n_rows = task.rows.n_samples
        if groups is not None:
            n_rows = max(Counter(groups.tolist()).values())
        return memory_note(n_rows, features.recipe.width, len(task.all_classes))

    def values(self) -> dict[str, Any]:
        """Return the value of every option, by its name."""
        groups = (vars(getattr(self, name)) for name in _GROUPS)
        options = {name: value for group in groups for name, value in group.items()}
        return options | {item.name: getattr(self, item.name) for item in options_of(AnswerOptions)}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> LabelSettings:
        """Return settings from the values of options, by their names; others have their defaults.

        Parameters
        ----------
        values : mapping of str to object
            Options and their values.

        Raises
        ------
        SettingsError
            If an option that must be given is not.
        """
        for item in settings_options():
            if item.default is REQUIRED and item.name not in values:
                raise SettingsError(
                    "",
                    "nothing",
                    "the file of the rows",
                    hint("name it with {readings}"),
                    parameter=item.name,
                )
        groups = {name: _picked(group, values) for name, group in _GROUPS.items()}
        more = {i.name: values[i.name] for i in options_of(AnswerOptions) if i.name in values}
        return cls(**groups, **more)

    def to_json(self, folder: Path) -> dict[str, Any]:
        """Return the options that differ from their defaults, by name, as JSON can hold them.

        Parameters
        ----------
        folder : path
            The folder that paths are relative to.
        """
        values = self.values()
        return {
            item.name: _written(item, values[item.name], folder)
            for item in settings_options()
            if values[item.name] != item.default
        }

    @classmethod
    def from_json(cls, mapping: Mapping[str, Any], folder: Path) -> LabelSettings:
        """Return settings from options by name, as JSON holds them.

        Parameters
        ----------
        mapping : mapping of str to object
            Options and their values; null is the default.
        folder : path
            The folder that paths are relative to.

        Raises
        ------
        SettingsError
            If there is no such option, or if its value is not allowed.
        """
        return cls.from_values(values_from_json(mapping, folder))


def settings_options() -> tuple[Option, ...]:
    """Return all options that settings hold, in the order of the help."""
    groups = (*_GROUPS.values(), AnswerOptions)
    return tuple(item for group in groups for item in options_of(group))


def values_from_json(mapping: Mapping[str, Any], folder: Path, place: str | None = None) -> Any:
    """Return the values of options that JSON holds, checked one by one.

    Parameters
    ----------
    mapping : mapping of str to object
        Options and their values; those that are null are left out.
    folder : path
        The folder that paths are relative to.
    place : str, optional
        The file they are from, for errors.
    """
    options = {item.name: item for item in settings_options()}
    values = {}
    for name, value in mapping.items():
        if name not in options:
            alike = name.replace("-", "_").strip("_")
            raise SettingsError(
                "" if place else "the settings",
                f"the option {name!r}, which there is not",
                f"options such as {name_some(map(repr, options), 6)}",
                f"call it {alike!r}" if alike in options else "correct the name, or leave it out",
                place=place,
            )
        if value is not None:
            _require_allowed(options[name], value, place)
            values[name] = _read(options[name], value, folder)
    return values


def read_settings(path: str | os.PathLike[str]) -> LabelSettings:
    """Return the settings in a file; its paths are relative to its folder.

    Parameters
    ----------
    path : str or path
        A JSON file, as `write_settings` writes it.
    """
    return LabelSettings.from_values(values_in(path))


def values_in(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the values of the options that a settings file holds."""
    file = Path(path)
    require_file(file)
    try:
        options = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise _no_settings(file, f"no JSON: {error}") from None
    if not isinstance(options, dict):
        raise _no_settings(file, "no JSON object")
    options.pop(_VERSION, None)
    found: dict[str, Any] = values_from_json(options, file.parent, file.name)
    return found


def write_settings(
    settings: LabelSettings, path: str | os.PathLike[str], *, outputs: Outputs | None = None
) -> None:
    """Write settings to a JSON file, with paths relative to its folder; a file there is replaced.

    Parameters
    ----------
    settings : LabelSettings
        The settings.
    path : str or path
        The file.
    outputs : Outputs, optional
        Files that are put in place together with this one.
    """
    if outputs is None:
        with Outputs(force=True) as only:
            write_settings(settings, path, outputs=only)
        return
    content = {_VERSION: version("apportion"), **settings.to_json(Path(path).parent)}
    text = json.dumps(content, indent=2, ensure_ascii=False)
    with outputs.writing(path) as temporary:
        # A path that is not UTF-8 has halves of characters, which JSON escapes.
        temporary.write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace", newline="\n")


def check_abstain_below(value: float | None) -> None:
    """Raise if a threshold of confidence is not from 0 to 1."""
    if value is not None and not 0 <= value <= 1:
        message = hint(f"{{abstain_below}} must be from 0 to 1. Got {value:g}.")
        raise SettingsError.about("abstain_below", message)


def _picked(group: Any, values: Mapping[str, Any]) -> Any:
    return group(**{i.name: values[i.name] for i in options_of(group) if i.name in values})


def _no_settings(file: Path, found: str) -> FileError:
    return FileError(
        file.name,
        found,
        "settings: a JSON object of options and their values",
        "name a file that was written as settings, or correct it",
    )


def _require_allowed(item: Option, value: Any, place: str | None) -> None:
    """Raise if JSON holds a value that an option does not allow."""
    low, high = item.facts.low, item.facts.high
    right = isinstance(value, _TYPES[item.kind])
    if item.kind != "flag":
        right = right and not isinstance(value, bool)
    if item.kind == "texts":
        right = right and all(isinstance(text, str) for text in value)
    right = right and (not item.choices or value in item.choices)
    right = right and (low is None or value >= low) and (high is None or value <= high)
    if not (right and _is_usable(item, value)):
        raise SettingsError(
            "",
            _shown(value),
            _allowed(item),
            "correct it, or leave it out",
            parameter=item.name,
            place=place,
        )


def _is_usable(item: Option, value: Any) -> bool:
    """Return whether numbers are finite, and texts made of whole characters, as UTF-8 needs them.

    The bytes of a path need not be UTF-8.
    """
    if item.kind in ("number", "whole number"):
        return abs(value) <= sys.float_info.max
    try:
        return item.kind == "path" or bool(json.dumps(value, ensure_ascii=False).encode())
    except UnicodeEncodeError:
        return False


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 80 else f"{text[:80]} …"


def _allowed(item: Option) -> str:
    """Return what an option allows, in words."""
    if item.choices:
        return f"one of {', '.join(map(repr, item.choices))}"
    low, high = item.facts.low, item.facts.high
    if item.kind in ("number", "whole number"):
        least = "" if low is None else f" of {low:g} or more"
        return f"a {item.kind}{least}{'' if high is None else f' and at most {high:.0f}'}"
    return _WORDS.get(item.kind, "a list of texts")


def _read(item: Option, value: Any, folder: Path) -> Any:
    """Return the value of an option that JSON holds."""
    if item.kind == "path":
        return folder / value
    if item.name == "given":  # columns of the rows, and paths
        return [str(folder / text) if looks_like_table(text, folder) else text for text in value]
    return value


def _written(item: Option, value: Any, folder: Path) -> Any:
    """Return the value of an option as JSON holds it."""
    if item.kind == "path":
        return _relative(value, folder)
    if item.name == "given":
        return [_relative(text, folder) if looks_like_table(text) else text for text in value]
    return value


def _relative(path: str | Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # on another drive
        return Path(path).absolute().as_posix()
