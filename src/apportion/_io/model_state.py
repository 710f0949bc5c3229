"""The state of a fitted model, as it is written to a file and read again.

Each estimator and graph defines what it needs to predict new rows. What is read is not trusted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from apportion._io.archive import Stored, ZipReader
from apportion._utils.typing import AnyArray
from apportion.exceptions import SavedModelError

DOCUMENT = "model.json"
"""The member that holds all fields."""

SCALARS = {kind.__name__: kind for kind in (bool, int, float, str)}

_DEEPEST = 8
"""The most levels of parts within parts; more would be a mistake or an attack."""

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class State:
    """What a model needs to predict new rows.

    Attributes
    ----------
    fields : mapping
        Values that JSON can hold.
    arrays : mapping of str to ndarray
        Arrays of numbers.
    parts : mapping of str to State or estimator
        States within this one; their arrays are named after them. An estimator stands for its own
        state.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, AnyArray] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)

    def flat(self, prefix: str = "") -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """Return one document, with parts as objects, and all arrays by their whole names."""
        if prefix.count("/") > _DEEPEST:
            found, advice = "models within models within models", "take out some of them"
            raise SavedModelError("the model", found, f"at most {_DEEPEST} levels", advice)
        document = dict(self.fields)
        arrays = {f"{prefix}{key}": array for key, array in self.arrays.items()}
        for name, part in self.parts.items():
            document[name], of_part = part.flat(f"{prefix}{name}/")
            arrays |= of_part
        return document, arrays


class StateReader:
    """The fields of a JSON object in a file, and the arrays that belong to it.

    Attributes
    ----------
    lengths : dict of str to int
        The lengths of arrays that are known so far, by the words of `Stored.shape`.
    """

    def __init__(
        self,
        file: ZipReader,
        document: Any,
        build: Callable[[StateReader], Any],
        prefix: str = "",
        lengths: Mapping[str, int] | None = None,
    ) -> None:
        self._file, self._build, self._prefix = file, build, prefix
        self.lengths = dict(lengths or {})
        if not isinstance(document, dict):
            self.refuse(f"{type(document).__name__} {short(document)}", "an object")
        if prefix.count("/") > _DEEPEST:
            self.refuse("models within models within models", f"at most {_DEEPEST} levels")
        self._document: dict[str, Any] = document

    def take(self, name: str, kind: type[Kind]) -> Kind:
        """Return a field of one kind, and no other."""
        if name not in self._document:
            self.refuse(f"no {name!r}", f"{name!r} as save_model writes it")
        value = self._document[name]
        if type(value) is not kind:
            self.refuse(f"{name!r}: {short(value)}", f"{name!r} of type {kind.__name__}")
        return value

    def take_list(self, name: str, kind: type[Kind]) -> list[Kind]:
        """Return a list of values of one kind."""
        values = self.take(name, list)
        if not all(type(value) is kind for value in values):
            self.refuse(f"{name!r}: {short(values)}", f"a list of {kind.__name__}")
        return values

    def number(self, name: str, least: float = -math.inf) -> float:
        """Return a finite number of at least `least`."""
        value = self.take(name, float)
        if not (math.isfinite(value) and value >= least):
            self.refuse(f"{name!r}: {value}", f"a finite number from {least:g} on")
        return value

    def holds(self, name: str, kind: type[Any]) -> bool:
        """Return whether there is such a field, of this kind."""
        return type(self._document.get(name)) is kind

    def array(self, key: str, stored: Stored) -> AnyArray:
        """Return an array; its lengths must agree with those of the arrays before."""
        return self._file.array(f"{self._prefix}{key}", stored, self.lengths)

    def arrays(self, stored: Mapping[str, Stored]) -> dict[str, AnyArray]:
        """Return arrays by their keys."""
        return {key: self.array(key, form) for key, form in stored.items()}

    def within(self, name: str) -> StateReader:
        """Return the fields of an object in a field; its arrays are those of this state."""
        return StateReader(
            self._file, self.take(name, dict), self._build, self._prefix, self.lengths
        )

    def part(self, name: str) -> StateReader:
        """Return a state within this one; it knows the lengths that are known so far."""
        prefix = f"{self._prefix}{name}/"
        return StateReader(self._file, self.take(name, dict), self._build, prefix, self.lengths)

    def model(self, name: str) -> Any:
        """Return the model whose state is within this one."""
        part = self.part(name)
        part.lengths.clear()
        return self._build(part)

    def refuse(self, found: str, allowed: str, *hint: str) -> NoReturn:
        """Raise an error about the document."""
        self._file.refuse(DOCUMENT, found, allowed, *hint)

    def refuse_array(self, key: str, found: str, allowed: str) -> NoReturn:
        """Raise an error about an array."""
        self._file.refuse(f"{self._prefix}{key}.npy", found, allowed)


def described(
    estimator: BaseEstimator, kinds: Mapping[str, type[Any]] | None = None
) -> dict[str, Any]:
    """Return the class of an estimator and those of its parameters that JSON can hold.

    A parameter of one of the `kinds`, a graph, is described in the same way.
    """
    parameters, left_out = {}, []
    for name, value in estimator.get_params(deep=False).items():
        try:
            parameters[name] = _json_value(value, kinds or {})
        except TypeError:
            left_out.append(name)
    return {"class": type(estimator).__name__, "parameters": parameters, "left_out": left_out}


def _json_value(value: Any, kinds: Mapping[str, type[Any]]) -> Any:
    """Return a number, text, None, a list of these, or an estimator of some kinds, for JSON."""
    if type(value) in kinds.values():
        return described(value)
    if isinstance(value, np.ndarray | list | tuple):
        return [_json_scalar(item) for item in value]
    return _json_scalar(value)


def _json_scalar(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is not None and type(value) not in SCALARS.values():
        raise TypeError("not for JSON")
    return value


def built(
    reader: StateReader,
    kinds: Mapping[str, type[Kind]],
    *,
    without: Collection[str] = (),
    **instead: Any,
) -> Kind:
    """Return the estimator that is described, without parameters that it does not have any more.

    `instead` replaces some of the others.
    """
    kind, parameters = description(reader, kinds)
    kept = {name: value for name, value in parameters.items() if name not in without}
    try:
        return kind(**{**kept, **instead})
    except TypeError as error:
        reader.refuse(
            f"parameters of another version ({error})",
            f"those of {kind.__name__}",
            "install the apportion that wrote the file",
        )


def description(
    reader: StateReader, kinds: Mapping[str, type[Kind]]
) -> tuple[type[Kind], dict[str, Any]]:
    """Return the class and the parameters of an estimator that is described."""
    name = reader.take("class", str)
    if name not in kinds:
        reader.refuse(f"the class {short(name)}", " or ".join(kinds))
    return kinds[name], reader.take("parameters", dict)


def short(value: object) -> str:
    """Return the beginning of a value's repr."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
