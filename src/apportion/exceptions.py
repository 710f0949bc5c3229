"""What `apportion` raises and warns about, each kind with a name of its own to filter by."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

__all__ = [
    "Advice",
    "AmbiguousTotalsWarning",
    "BagDesignWarning",
    "CandidateWarning",
    "ClusterError",
    "DeviceWarning",
    "DiaryError",
    "DuplicateRowsWarning",
    "EpisodesWarning",
    "FileError",
    "GivenLabelError",
    "InputError",
    "IsolatedRowsWarning",
    "MissedNeighborsWarning",
    "OutputError",
    "SavedModelError",
    "ScaleWarning",
    "SettingsError",
    "SupervisionError",
]


class Names(dict[str, str]):
    """What the parameters of the library are called where a message is read.

    `{tol}` in a hint is the name of a parameter, `{unit:count}` a parameter with a value. By
    default these are `tol` and `unit='count'`; the command line has names of its own.
    """

    def __missing__(self, parameter: str) -> str:
        return parameter

    def with_value(self, parameter: str, value: str) -> str:
        """Return a parameter with a value, as it would be given."""
        return f"{self[parameter]}={value!r}"

    def quoted(self, parameter: str) -> str:
        """Return the name of a parameter as it stands at the head of a message."""
        return f"`{self[parameter]}`"


class _Field:
    """A parameter in a hint, formatted by whoever renders it."""

    def __init__(self, names: Names, parameter: str) -> None:
        self._names, self._parameter = names, parameter

    def __format__(self, value: str) -> str:
        names, parameter = self._names, self._parameter
        return names.with_value(parameter, value) if value else names[parameter]


class _Fields(dict[str, Any]):
    """The values of a hint, and its parameters."""

    def __init__(self, names: Names, values: Mapping[str, object]) -> None:
        super().__init__(values)
        self._names = names

    def __missing__(self, parameter: str) -> _Field:
        return _Field(self._names, parameter)


PARAMETERS = Names(
    n_neighbors="n_neighbors of KNNGraph",
    labels="some labels in `y`",
    meet_totals="Use projection='nearest', or metric='euclidean' if the rows' degrees differ by "
    "many orders of magnitude",
    mean_map="Standardize the features, raise max_iter or lower C.",
    exact_search="Use KNNGraph(recall=1), or rescale the features.",
    shorter_walk="Lower alpha, or end the walk after some steps (`order`).",
    fewer_steps="Lower alpha, or use graph='anchor', which takes no steps.",
)
"""Names of parameters in Python, where they are more than the parameter's own name."""


class Advice(str):
    """A message whose hint names parameters, for readers who have other names for them.

    As text it speaks of Python parameters; the command line renders it with its options.

    Parameters
    ----------
    facts : str
        What is the case.
    hint : str
        What to do about it, with parameters in braces: `{tol}`, or `{unit:count}` with a value.
    **values
        Further fields of the hint, such as text from a user, which is never read as a field, or
        other advice.

    Examples
    --------
    >>> message = Advice("The iterations ran out.", "Raise {max_iter}.")
    >>> print(message)
    The iterations ran out. Raise max_iter.
    >>> print(message.rendered(Names(max_iter="--max-iter")))
    The iterations ran out. Raise --max-iter.
    """

    facts: str
    hint: str
    values: dict[str, object]

    def __new__(cls, facts: str, hint: str, **values: object) -> Advice:
        """Return the text with the names of Python, and keep its parts."""
        self = super().__new__(cls, _rendered(facts, hint, values, PARAMETERS))
        self.facts, self.hint, self.values = facts, hint, values
        return self

    def __reduce__(self) -> Any:
        return _advice, (self.facts, self.hint, self.values)

    def rendered(self, names: Names) -> str:
        """Return the text with other names of parameters."""
        return _rendered(self.facts, self.hint, self.values, names)


def hint(text: str, **values: object) -> Advice:
    """Return a hint for an error, with parameters in braces.

    Examples
    --------
    >>> print(hint("say what the numbers are with {unit}, e.g. {unit:count}"))
    say what the numbers are with unit, e.g. unit='count'
    >>> print(hint("{diary_column:note={column}}", column="{}"))
    diary_column='note={}'
    """
    return Advice("", text, **values)


def _advice(facts: str, hint: str, values: dict[str, object]) -> Advice:
    return Advice(facts, hint, **values)


def _rendered(facts: str, hint: str, values: Mapping[str, object], names: Names) -> str:
    fields = {
        name: value.rendered(names) if isinstance(value, Advice) else value
        for name, value in values.items()
    }
    return " ".join(filter(None, [facts, hint.format_map(_Fields(names, fields))]))


def rendered(text: object, names: Names) -> str:
    """Return a text with other names of parameters, where it names any."""
    return text.rendered(names) if isinstance(text, Advice) else str(text)


def message_of(warning: Warning | str, prefix: str = "") -> str:
    """Return what a warning says, after a prefix; advice remains advice."""
    text = warning.args[0] if isinstance(warning, Warning) and warning.args else warning
    if isinstance(text, Advice):
        return Advice(f"{prefix}{text.facts}", text.hint, **text.values)
    return f"{prefix}{text}"


class InputError(ValueError):
    """Something given that cannot be used as it is.

    Every message has one form: where, what was found, what is allowed, how to fix it.

    Parameters
    ----------
    where : str
        Where it is, beside the row and the bag; may be empty if these say it.
    found : str
        What was found.
    allowed : str
        What is allowed.
    hint : str
        How to fix it: `hint("use {tol}")` where it names parameters.
    row : int, optional
        The row it is about.
    bag : object, optional
        The bag it is about.
    column : str, optional
        The column it is about.
    parameter : str, optional
        The parameter that was given.
    place : str, optional
        Where the row stands, if that says more than its number: "rows.csv, line 5".

    Examples
    --------
    >>> error = InputError("", "no label", "a label", "label it", row=3, bag="monday")
    >>> print(error)
    row 3 in bag 'monday': found no label. Allowed: a label. Hint: label it.
    >>> error.row, error.bag
    (3, 'monday')
    """

    def __init__(
        self,
        where: str,
        found: str,
        allowed: str,
        hint: str,
        *,
        row: int | None = None,
        bag: Any = None,
        column: str | None = None,
        parameter: str | None = None,
        place: str | None = None,
    ) -> None:
        self.where, self.found, self.allowed, self.hint = where, found, allowed, hint
        self.row, self.bag, self.column = row, bag, column
        self.parameter, self.place = parameter, place
        super().__init__(self.rendered())

    def rendered(self, names: Names = PARAMETERS) -> str:
        """Return the message with other names of parameters."""
        row = self.place or ("" if self.row is None else f"row {self.row}")
        bag = "" if self.bag is None else f"bag {self.bag!r}"
        column = "" if self.column is None else f"column {self.column!r}"
        parameter = "" if self.parameter is None else names.quoted(self.parameter)
        places = [parameter, " in ".join(filter(None, [row, bag])), column, self.where]
        where = ", ".join(filter(None, places))
        allowed, advice = (rendered(text, names) for text in (self.allowed, self.hint))
        stop = "" if advice.endswith("?") else "."
        return f"{where}: found {self.found}. Allowed: {allowed}. Hint: {advice}{stop}"

    def changed(self, **fields: Any) -> InputError:
        """Return the same error with other fields, such as the row's number among more rows."""
        kept = {**self._fields(), **fields}
        return type(self)(**kept)

    def placed(self, place: Callable[[int], str]) -> InputError:
        """Return the same error with the place of its row, such as "rows.csv, line 5"."""
        return self if self.row is None else self.changed(place=place(self.row))

    def _fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _FIELDS}

    def __reduce__(self) -> Any:
        return _input_error, (type(self), self._fields())


_FIELDS = ("where", "found", "allowed", "hint", "row", "bag", "column", "parameter", "place")


def _input_error(kind: type[InputError], fields: dict[str, Any]) -> InputError:
    return kind(**fields)


class SupervisionError(InputError):
    """Bags, totals or labels that cannot be used as they are."""


class GivenLabelError(SupervisionError):
    """Labels of single rows that contradict the totals of their bag."""


class FileError(InputError):
    """A file that cannot be read, or whose cells cannot be used as they are."""


class DiaryError(InputError):
    """A diary, or times of windows, that cannot be used as they are."""


class SavedModelError(InputError):
    """A saved model that cannot be read, or a model that cannot be saved."""


class SettingsError(InputError):
    """Settings of a run that are not allowed, or that do not go together.

    `parameter` is the setting that it is about.

    Examples
    --------
    >>> print(SettingsError.about("fast", hint("{fast} is for {method:auto}.")))
    fast is for method='auto'.
    """

    @classmethod
    def about(cls, parameter: str, message: str) -> SettingsError:
        """Return an error about a setting whose message is a sentence of its own."""
        return cls("", "", "", message, parameter=parameter)

    def rendered(self, names: Names = PARAMETERS) -> str:
        """Return the message with other names of parameters."""
        return super().rendered(names) if self.found else rendered(self.hint, names)


class ClusterError(InputError):
    """A cluster that cannot do the work."""


class OutputError(OSError):
    """A file that cannot be written; nothing was changed."""


class BagDesignWarning(UserWarning):
    """The totals cannot tell some classes apart."""


class AmbiguousTotalsWarning(UserWarning):
    """The totals admit several equally smooth labelings."""


class RowsWarning(UserWarning):
    """A warning about some rows; `rows` are their positions, empty where these are not known."""

    def __init__(self, message: str, rows: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.rows = tuple(rows)


class IsolatedRowsWarning(RowsWarning):
    """Some rows have no, or almost no, similar rows to learn from."""


class MissedNeighborsWarning(UserWarning):
    """An approximate search finds fewer of the true neighbors than was asked for."""


class DuplicateRowsWarning(RowsWarning):
    """So many rows are equal that the graph cannot tell their neighborhoods apart."""


class ScaleWarning(UserWarning):
    """The units of a few features decide how far rows are from each other."""


class EpisodesWarning(UserWarning):
    """Some classes have more episodes than their bag's number of them allows."""


class DeviceWarning(UserWarning):
    """The device that was asked for is not there."""


class CandidateWarning(UserWarning):
    """`AutoLLP` could not weigh all methods that it was asked to, or not use all they know."""


def users_level() -> int:
    """Return the `stacklevel` at which a warning points to the first line outside this package."""
    package = f"{Path(__file__).parent}{os.sep}"
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    return level


def name_some(items: Iterable[object], most: int = 5) -> str:
    """Return the first few items as text, and how many were left out."""
    listed = list(items)
    text = ", ".join(str(item) for item in listed[:most])
    return text if len(listed) <= most else f"{text} and {len(listed) - most} more"


def counted(n: int, word: str) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "class"), counted(2, "entry")
    ('1 row', '1,200 classes', '2 entries')
    """
    return f"1 {word}" if n == 1 else f"{n:,} {plural(word)}"


def plural(word: str) -> str:
    """Return the plural of a word."""
    if word.endswith(("ry", "ty")):
        return f"{word[:-1]}ies"
    return f"{word}{'es' if word.endswith('s') else 's'}"


def compared(*numbers: float, digits: int = 6) -> list[str]:
    """Return numbers as text, with as many digits as it takes to see which of them differ.

    Whole numbers are written in full.

    Examples
    --------
    >>> compared(4.0, 4.0 + 1 / 3600, digits=4)
    ['4', '4.0003']
    >>> compared(1234567, 1 / 3)
    ['1234567', '0.3333333']
    """
    digits = max(digits, *(len(f"{abs(number):.0f}") for number in numbers))
    while digits < 17:
        texts = [f"{number:.{digits}g}" for number in numbers]
        same = (math.isclose(a, b, rel_tol=1e-12) for a, b in pairwise(sorted(numbers)))
        if len(set(texts)) >= len(numbers) - sum(same):
            return texts
        digits += 1
    return [f"{number:.17g}" for number in numbers]
