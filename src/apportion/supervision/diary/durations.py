"""Durations as people write them: "8h30", "08:30", 8.5, "90 min", "35 %"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import time, timedelta
from typing import Any, Literal, NamedTuple

import numpy as np

from apportion._io.identifiers import is_missing, seconds

Kind = Literal["seconds", "share", "bare"]

UNITS = {"hours": 3600.0, "minutes": 60.0, "seconds": 1.0, "percent": 0.01, "share": 1.0}
"""What the number 1 means in each unit, in seconds or as a share of the period."""

_MOST = 1e12
_NUMBER = r"(\d+(?:[.,]\d*)?|[.,]\d+)"
_HOURS = r"(?:h|hr|hrs|hour|hours)"
_MINUTES = r"(?:m|min|mins|minute|minutes|')"
_SECONDS = r"(?:s|sec|secs|second|seconds)"
_BARE = re.compile(rf"\+?{_NUMBER}(?:e[+-]?\d+)?", re.IGNORECASE)
_PERCENT = re.compile(rf"{_NUMBER}\s*%")
_CLOCK = re.compile(r"(\d+):(\d\d)(?::(\d\d(?:[.,]\d+)?))?")
_HOURS_AND = re.compile(rf"{_NUMBER}\s*{_HOURS}\s*{_NUMBER}", re.IGNORECASE)
_WORDS = re.compile(
    rf"(?:{_NUMBER}\s*{_HOURS})?\s*(?:{_NUMBER}\s*{_MINUTES})?\s*(?:{_NUMBER}\s*{_SECONDS})?",
    re.IGNORECASE,
)
_THOUSANDS = re.compile(r"\+?[1-9]\d{0,2},\d{3}")
"""A comma that may separate thousands as well as decimals."""

_UNIT_AT_END = re.compile(
    rf"[(\[]\s*(?:(?P<hours>{_HOURS})|(?P<minutes>{_MINUTES})"
    rf"|(?P<seconds>{_SECONDS})|(?P<percent>%|percent)|(?P<share>share))\.?\s*[)\]]\Z",
    re.IGNORECASE,
)


class Amount(NamedTuple):
    """A duration in seconds, a share of a period, or a bare number, whose unit is not known yet."""

    kind: Kind
    value: float


def is_blank(cell: Any) -> bool:
    """Return whether a cell is missing, or text without a visible character."""
    return is_missing(cell) or (isinstance(cell, str) and not cell.strip())


def read_amount(cell: Any) -> Amount | None:
    """Return the amount in a cell, None where it is blank; anything else raises a ValueError.

    Examples
    --------
    >>> read_amount("8h30"), read_amount("08:30"), read_amount("90 min")
    (Amount(kind='seconds', value=30600.0), Amount(kind='seconds', value=30600.0),
     Amount(kind='seconds', value=5400.0))
    >>> read_amount("35 %"), read_amount("8,5")
    (Amount(kind='share', value=0.35), Amount(kind='bare', value=8.5))
    """
    if is_blank(cell):
        return None
    try:
        amount = _read_text(" ".join(cell.split())) if isinstance(cell, str) else _read_value(cell)
    except (TypeError, ValueError, OverflowError):
        amount = None
    if amount is None or not 0 <= amount.value <= _MOST:
        raise ValueError(f"no amount: {cell!r}")
    return amount


def unit_in_name(name: str) -> tuple[str, str | None]:
    """Return the name of a column without the unit in brackets at its end, and the unit.

    Examples
    --------
    >>> unit_in_name("watching tv (min)"), unit_in_name("sleep")
    (('watching tv', 'minutes'), ('sleep', None))
    """
    text = name.strip()
    match = _UNIT_AT_END.search(text)
    plain = text[: match.start()].rstrip() if match else ""
    if not match or not plain:
        return text, None
    return plain, next(unit for unit in UNITS if match[unit])


def _read_value(cell: Any) -> Amount:
    if isinstance(cell, bool | np.bool_):
        raise ValueError("true and false are not amounts")
    if isinstance(cell, timedelta | np.timedelta64):
        return Amount("seconds", seconds(cell))
    if isinstance(cell, time):
        since = timedelta(0, cell.second, cell.microsecond, 0, cell.minute, cell.hour)
        return Amount("seconds", seconds(since))
    return Amount("bare", float(cell))


def _read_text(text: str) -> Amount | None:
    if _BARE.fullmatch(text):
        return Amount("bare", _decimal(text))
    if match := _PERCENT.fullmatch(text):
        return Amount("share", _decimal(match[1]) / 100.0)
    if match := _CLOCK.fullmatch(text) or _WORDS.fullmatch(text):
        return _of_parts(match.groups())
    if match := _HOURS_AND.fullmatch(text):
        return _of_parts((*match.groups(), None))
    return None


def _of_parts(texts: Sequence[str | None]) -> Amount | None:
    """Return hours, minutes and seconds together; only the last one given may be a fraction."""
    units = (3600, 60, 1)
    parts = [(_decimal(text), unit) for text, unit in zip(texts, units, strict=True) if text]
    whole = all(number.is_integer() for number, _ in parts[:-1])
    if not whole or any(number >= 60 for number, _ in parts[1:]):
        return None
    return Amount("seconds", sum(number * unit for number, unit in parts))


def _decimal(text: str) -> float:
    if _THOUSANDS.fullmatch(text):
        raise ValueError("a comma that may separate thousands or decimals")
    return float(text.replace(",", "."))
