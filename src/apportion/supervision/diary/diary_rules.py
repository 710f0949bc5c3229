"""What to do where a diary and a recording do not fit together: rules, each with a default."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from numbers import Real
from typing import Literal

from apportion.exceptions import Advice, hint

_MEANINGS = {
    "unit": {
        "auto": "numbers without a unit are shares or percentages where every entry sums to 1 or "
        "100, else hours",
        "hours": "numbers without a unit are hours",
        "minutes": "numbers without a unit are minutes",
        "seconds": "numbers without a unit are seconds",
        "percent": "numbers without a unit are percentages of the period",
        "share": "numbers without a unit are shares of the period",
    },
    "uncovered": {
        "unknown": "time that an entry does not cover is a class of its own, 'unknown'",
        "drop": "an entry that does not cover its period is left out; similar windows alone decide "
        "the labels of its windows",
        "scale": "durations are scaled up to cover their period",
    },
    "blank": {
        "zero": "an empty cell means that the activity did not happen",
        "unknown": "an empty cell means nothing: any duration is allowed",
    },
    "excess": {
        "error": "durations that exceed their period are an error",
        "scale": "durations that exceed their period are scaled down to it",
    },
    "part": {
        "auto": "a period that was recorded to 95 % or more is taken to be recorded whole; of one "
        "that was not, durations are known within bounds",
        "bounds": "where a period was recorded in part, a duration is known within bounds: the "
        "rest of it may have fallen into the time that was not recorded",
        "scale": "where a period was recorded in part, that part is taken to be like the whole",
        "drop": "an entry whose period was recorded to less than 95 % is left out; similar windows "
        "alone decide the labels of its windows",
    },
    "covers": {
        "auto": "an entry accounts for its whole day or period; where most entries recorded in "
        "part sum to the recorded time instead, only for that",
        "period": "an entry accounts for its whole day or period",
        "recording": "an entry accounts only for the time that was recorded",
    },
}


@dataclass(frozen=True)
class DiaryRules:
    """The rules by which a diary becomes totals.

    Parameters
    ----------
    unit : {"auto", "hours", "minutes", "seconds", "percent", "share"}, default="auto"
        What numbers without a unit are. `"auto"`: shares or percentages where every entry sums to
        1 or 100, else hours.
    uncovered : {"unknown", "drop", "scale"}, default="unknown"
        Time that an entry does not cover: a class `unknown` of its own; the entry is left out; or
        durations are scaled up.
    blank : {"zero", "unknown"}, default="zero"
        Whether an empty cell means that an activity did not happen, or that nothing is known.
    tolerance : "auto" or float, default="auto"
        How many minutes a reported duration may be off, to either side: it is known within an
        interval. So is an empty cell beside durations, which is 0; shares are exact. `"auto"`:
        durations are taken as reported; where all are multiples of an hour, half hour, quarter, ten
        or five minutes, and an entry misses its period by no more than half of that for each
        activity it names, it is scaled to its period. So is one that misses it by no more than 1 %
        and half a window for each activity and for the time left over.
    excess : {"error", "scale"}, default="error"
        Durations that together exceed their period.
    part : {"auto", "bounds", "scale", "drop"}, default="auto"
        A period that was not recorded to its full length: durations hold within bounds, because
        the rest may have fallen into the time that was not recorded; the recorded part is like the
        whole; or periods recorded to less than 95 % are left out. `"auto"`: like the whole from
        95 % on, within bounds below.
    covers : {"auto", "period", "recording"}, default="auto"
        Whether an entry accounts for its whole period or only for what was recorded of it.
        `"auto"`: only for what was recorded where at least three quarters of the entries recorded
        in part, and three or more, sum to the recorded time within 2 % or what rounding explains:
        these are scaled to it, and an entry that sums to more is of its period; else for the whole
        period.

    Examples
    --------
    >>> for line in DiaryRules(uncovered="scale").describe()[1:3]:
    ...     print(line)
    uncovered='scale': durations are scaled up to cover their period
    blank='zero': an empty cell means that the activity did not happen
    """

    unit: Literal["auto", "hours", "minutes", "seconds", "percent", "share"] = "auto"
    uncovered: Literal["unknown", "drop", "scale"] = "unknown"
    blank: Literal["zero", "unknown"] = "zero"
    tolerance: float | Literal["auto"] = "auto"
    excess: Literal["error", "scale"] = "error"
    part: Literal["auto", "bounds", "scale", "drop"] = "auto"
    covers: Literal["auto", "period", "recording"] = "auto"

    def __post_init__(self) -> None:
        for name, meanings in _MEANINGS.items():
            if getattr(self, name) not in [*meanings]:
                raise ValueError(
                    f"The {name!r} rule of a diary must be one of "
                    f"{', '.join(map(repr, meanings))}. Got {getattr(self, name)!r}."
                )
        number = isinstance(self.tolerance, Real) and not isinstance(self.tolerance, bool)
        if self.tolerance != "auto" and not (number and 0 <= self.tolerance < math.inf):
            raise ValueError(
                "The 'tolerance' rule of a diary must be 'auto' or minutes of at least 0. "
                f"Got {self.tolerance!r}."
            )

    def describe(self, *, covers: str | None = None) -> list[Advice]:
        """Return the rules in words, one text per rule.

        Parameters
        ----------
        covers : str, optional
            What the entries were found to account for, in words.

        Returns
        -------
        list of Advice
            Texts that name the rule as a parameter; the command line renders it as an option.
        """
        lines = []
        for name in (field.name for field in fields(self)):
            words = self.in_words(name)
            if name == "covers" and covers is not None:
                words += f"; found: {covers}"
            lines.append(
                hint(f"{{{name}:{{value}}}}: {{words}}", value=getattr(self, name), words=words)
            )
        return lines

    def in_words(self, name: str, value: str | None = None) -> str:
        """Return what a rule means, with its own value or another one.

        Parameters
        ----------
        name : str
            The rule, such as `"blank"`.
        value : str, optional
            Another value of it.
        """
        value = getattr(self, name) if value is None else value
        if name != "tolerance":
            return _MEANINGS[name][value]
        if value == "auto":
            return "durations are taken as reported; what rounding explains is scaled away"
        return f"a duration may be off by {value:g} minutes to either side"
