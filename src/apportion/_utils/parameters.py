"""Check parameters of estimators and graphs, with the messages of scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

_Bool = bool | np.bool_

_KINDS = {_Bool: "a bool", Callable: "a callable", Integral: "an int", Real: "a float"}


@dataclass(frozen=True)
class Allowed:
    """The values that a parameter may have: some constants, values of one kind, or both.

    Attributes
    ----------
    values : tuple
        The constants: text or None.
    kind : {bool, Callable, Integral, Real}, optional
        The kind of the other values. A bool is not a number.
    low, high : float
        The range of a number, which is finite.
    ends : {"[]", "()", "(]", "[)"}
        Whether the ends belong to the range.
    """

    values: tuple[str | None, ...] = ()
    kind: Any = None
    low: float = -math.inf
    high: float = math.inf
    ends: str = "[]"

    def __contains__(self, value: object) -> bool:
        if isinstance(value, str | None):
            return value in self.values
        if self.kind is None or not isinstance(value, self.kind):
            return False
        if not isinstance(value, Real):
            return True
        if isinstance(value, bool) or not math.isfinite(value):
            return self.kind is _Bool
        number = float(value)
        above = self.low < number if self.ends[0] == "(" else self.low <= number
        return above and (number < self.high if self.ends[1] == ")" else number <= self.high)

    def __str__(self) -> str:
        texts = []
        if self.values:
            one_of = "one of " if len(self.values) > 1 or self.kind is None else ""
            texts.append(one_of + ", ".join(map(repr, self.values)))
        if self.kind is not None:
            texts.append(_KINDS[self.kind])
        if self.kind in (Integral, Real):
            right = f"{self.high:g}{self.ends[1]}" if math.isfinite(self.high) else "inf)"
            texts[-1] += f" in the range {self.ends[0]}{self.low:g}, {right}"
        return " or ".join(texts)


BOOL = Allowed(kind=_Bool)


def one_of(*values: str, kind: Any = None) -> Allowed:
    """Allow some constants, and values of some kind."""
    return Allowed(values, kind)


def integer(low: int, *values: str | None) -> Allowed:
    """Allow the integers from `low` on, and some constants."""
    return Allowed(values, Integral, low)


def real(*values: str | None, low: float, high: float = math.inf, ends: str = "[]") -> Allowed:
    """Allow the finite numbers of a range, and some constants."""
    return Allowed(values, Real, low, high, ends)


def check_parameters(owner: object, allowed: Mapping[str, Allowed]) -> None:
    """Raise a ValueError that names the first parameter whose value is not allowed.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> check_parameters(SimpleNamespace(alpha=2), {"alpha": real(low=0, high=1, ends="()")})
    Traceback (most recent call last):
    ValueError: The 'alpha' parameter of SimpleNamespace must be a float in the range (0, 1).
    Got 2 instead.
    """
    for name, values in allowed.items():
        if getattr(owner, name) not in values:
            raise parameter_error(owner, name, str(values))


def parameter_error(owner: object, name: str, allowed: str, got: str | None = None) -> ValueError:
    """Return the error of a parameter that is not what it may be."""
    got = repr(getattr(owner, name)) if got is None else got
    return ValueError(
        f"The {name!r} parameter of {type(owner).__name__} must be {allowed}. Got {got} instead."
    )
