"""Columns that are features, and columns that are not: ids, times, labels, clocks and calendars."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

import numpy as np

from apportion._io.identifiers import factorize, plain_name
from apportion._io.read import no_column
from apportion._io.values import decoded, holds_numbers, is_text, values_of
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.exceptions import Advice, FileError, hint

_TIME_NAMES = re.compile(
    r"(start|end|begin|stop|date|day|time|timestamp|datetime|epoch|period|t|ts)"
    r"|.*_(time|timestamp|datetime|date|at)",
    re.IGNORECASE,
)
_ID_NAMES = re.compile(
    r"(?i:(id|uuid|guid|index|row|row_?number|name|window|participant|person|subject|patient|user"
    r"|unnamed: 0|__index_level_\d+__)|.*[_ -](id|uuid))|.*[a-z]I[dD]"
)
_DATE = r"(\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./]\d{2,4})"
_CLOCK = r"\d{1,2}:\d\d(:\d\d([.,]\d+)?)?( ?[AaPp][Mm])?"
_TIME = re.compile(rf"{_DATE}([ T]{_CLOCK}(Z|[+-]\d\d:?\d\d)?)?|{_CLOCK}")

When = Literal["time of day", "weekday", "elapsed time"]

_LEFT_OUT: tuple[When, ...] = ("weekday", "elapsed time")
"""Columns that are features only if they are named. They draw the windows of a day to each other
and away from windows of other days, whose totals would tell the classes apart: on made-up weeks a
weekday costs 15 points of accuracy and the elapsed time 7; the hour adds 4
(`benchmarks/when_columns.py`)."""

_WHEN_NAMES: dict[When, re.Pattern[str]] = {
    "time of day": re.compile(
        r"(hour|hour[_ ]?of[_ ]?day|minute[_ ]?of[_ ]?(day|hour)|time[_ ]?of[_ ]?day|hod|tod)"
        r"([_ ](sin|cos))?|(sin|cos)[_ ](hour|tod|time[_ ]?of[_ ]?day)",
        re.IGNORECASE,
    ),
    "weekday": re.compile(
        r"(week[_ ]?day|day[_ ]?of[_ ]?week|dow)([_ ](sin|cos))?|(is[_ ]?)?week[_ ]?end",
        re.IGNORECASE,
    ),
    "elapsed time": re.compile(
        r"(elapsed|relative)[_ ]?(time|s|sec|seconds|min|minutes|h|hours|days)"
        r"|day[_ ]?of[_ ]?(month|year)|month|unix[_ ]?time|seconds[_ ]since[_ ]start",
        re.IGNORECASE,
    ),
}

_SECOND = 1_000_000
_DAY = 24 * 3600 * _SECOND
_BIN = 300 * _SECOND
"""In microseconds; windows that begin within the same 5 minutes have the same time of day."""

_FEWEST_DAYS, _FEWEST_ROWS = 3, 20
"""With fewer days or rows, a sensor may look like a clock by chance."""

_UNEXPLAINED_BY_CLOCK = 0.01
"""The largest share of the variance within a time of day; light that follows the sun has more."""

_UNEXPLAINED_BY_ELAPSED = 1e-6
"""The largest share of the variance around a straight line. Rounding leaves far more of a battery
level in percent, and so does a counter of steps: these are sensors, and stay features."""


class Choice(NamedTuple):
    """The columns that are features, the reason for each other one, and its ids and times."""

    features: list[str]
    left_out: dict[str, str]
    ids_and_times: list[str]


def choose_columns(
    table: Any,
    *,
    features: Sequence[str] = (),
    exclude: Sequence[str] = (),
    roles: Mapping[str, str] | None = None,
    classes: Sequence[Any] = (),
) -> Choice:
    """Return the columns to use as features, and the reason why each other column is none.

    Ids and times are recognized by name, type and content and are never features; neither is a
    column whose values are the classes, nor one that is called a weekday or an elapsed time.

    Parameters
    ----------
    table : pyarrow.Table
        The rows.
    features, exclude : sequences of str
        Names or patterns such as `acc_*` of columns to use, by default all, and not to use. A
        column that is named in full is used although its name is that of an id or time.
    roles : mapping of str to str, optional
        Columns that play another role, and which, such as "the bags".
    classes : sequence, optional
        The classes.
    """
    columns, roles, named = table.column_names, roles or {}, set(features)
    wanted = set(_matching(features, columns, "features") if features else columns)
    excluded = set(_matching(exclude, columns, "exclude"))
    class_names = {_folded(label) for label in classes}
    choice = Choice([], {}, [])
    for name in columns:
        if name in roles and name in named:
            raise FileError(
                "",
                f"a feature that is {roles[name]}",
                "features that play no other role",
                hint("leave it out of {features}"),
                column=name,
            )
        why = _no_feature(name, values_of(table, name), class_names, named=name in named)
        if why is not None and why.startswith(("an id", "a time")):
            choice.ids_and_times.append(name)
        if name in roles:
            why = roles[name]
        elif name in excluded:
            why = "excluded"
        elif name not in wanted:
            why = "not asked for"
        if why is None:
            choice.features.append(name)
        else:
            choice.left_out[name] = why
    return choice


def _matching(patterns: Sequence[str], columns: Sequence[str], parameter: str) -> list[str]:
    matching, names = [], set(columns)
    for pattern in patterns:
        is_name = pattern in names
        hits = [pattern] if is_name else [c for c in columns if fnmatchcase(c, pattern)]
        if not hits:
            raise no_column(pattern, columns, "").changed(parameter=parameter)
        matching += hits
    return matching


def _no_feature(name: str, cells: Any, classes: set[str], *, named: bool) -> str | None:
    """Return why a column is no feature, or None."""
    import pyarrow.types as kinds

    if kinds.is_temporal(cells.type):
        return "a time"
    kind = cells.type.value_type if kinds.is_dictionary(cells.type) else cells.type
    plain = (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal, kinds.is_null)
    if not is_text(kind) and not any(is_kind(kind) for is_kind in plain):
        return f"values of type {cells.type}"
    values = decoded(cells)
    if _are_classes(values, classes):
        return Advice("its values are the classes;", "known labels are {given}")
    if is_text(values.type):
        texts = values.drop_null().unique()
        if len(texts) and all(_TIME.fullmatch(text.strip()) for text in texts[:1000].to_pylist()):
            return "a time"
        if len(texts) == len(cells) > 20 and not holds_numbers(cells):
            return "an id: a different text in every row"
    if named:
        return None
    if _TIME_NAMES.fullmatch(name.strip()):
        return "a time, by its name"
    if _ID_NAMES.fullmatch(name.strip()):
        return "an id, by its name"
    counts_rows = kinds.is_integer(cells.type) and not cells.null_count and len(cells) >= 20
    if counts_rows and (np.diff(cells.to_numpy()) == 1).all():
        return "an id: it counts the rows"
    return why_left_out(when_by_name(name))


def _are_classes(values: Any, classes: set[str]) -> bool:
    """Return whether text is classes only, or numbers are all the classes and nothing else."""
    if not classes or len(values[:1000].unique()) > 2 * len(classes) + 2:
        return False
    folded = {_folded(value) for value in values.unique().to_pylist() if value is not None} - {""}
    if is_text(values.type):
        return bool(folded) and folded <= classes
    return len(classes) > 1 and folded == classes


def _folded(value: Any) -> str:
    return plain_name(value).casefold()


def when_by_name(name: str) -> When | None:
    """Return what a column says about the time, according to its name."""
    kinds = (kind for kind, names in _WHEN_NAMES.items() if names.fullmatch(name.strip()))
    return next(kinds, None)


def why_left_out(kind: When | None) -> str | None:
    """Return why a column that says when is no feature, or None if it may be one."""
    return f"it says when, not what: {kind}" if kind in _LEFT_OUT else None


class Clock:
    """Recognizes columns whose numbers are a function of the windows' times.

    Parameters
    ----------
    starts : ndarray of shape (n_samples,)
        When windows began by the clock, in microseconds.
    participants : ndarray of shape (n_samples,), or None
        Whose windows they are.
    dated : bool, default=True
        Whether the clock showed dates; if not, there is no time of day and no weekday.

    Examples
    --------
    >>> starts = np.arange(0, 5 * 24) * 3_600_000_000
    >>> clock = Clock(starts)
    >>> clock.when(np.arange(120) % 24.0), clock.when(np.arange(120) / 2), clock.when(starts % 7.0)
    ('time of day', 'elapsed time', None)
    """

    def __init__(
        self, starts: IntArray, participants: AnyArray | None = None, *, dated: bool = True
    ) -> None:
        self._starts = starts
        self._days = starts // _DAY
        self._dated = dated
        nobody = np.zeros(len(starts), dtype=np.intp)
        self._owner = nobody if participants is None else factorize(participants, "participant")[0]
        # Windows at the same time of day are compared in random order: in the order of their days,
        # a column that rises slowly over weeks would look the same from one day to the next.
        shuffle = np.random.default_rng(0).permutation(len(starts))
        slot = starts % _DAY // _BIN
        order = shuffle[np.argsort(slot[shuffle], kind="stable")]
        ahead, behind = order[:-1], order[1:]
        pairs = (slot[ahead] == slot[behind]) & (self._days[ahead] != self._days[behind])
        self._ahead, self._behind = ahead[pairs], behind[pairs]

    def when(self, values: FloatArray) -> When | None:
        """Return what numbers (NaN = missing) say about the time, or None if it is nothing."""
        present = ~np.isnan(values)
        numbers, days, owner = values[present], self._days[present], self._owner[present]
        if len(numbers) < _FEWEST_ROWS or np.ptp(numbers) == 0:
            return None
        many_days = len(np.unique(days)) >= _FEWEST_DAYS
        if self._dated and many_days:
            if _is_weekday(numbers, days):
                return "weekday"
            if self._repeats_daily(values, present):
                return "time of day"
        starts = self._starts[present]
        # The position of each window in time, those of a participant together.
        ranks = np.argsort(np.lexsort((starts, owner)), kind="stable")
        steps = [starts, ranks, *[days] * many_days]
        rises = any(_rises_evenly(numbers, step, owner) for step in steps)
        return "elapsed time" if rises else None

    def _repeats_daily(self, values: FloatArray, present: BoolArray) -> bool:
        """Return whether windows at one time of day, on different days, have the same number."""
        pairs = present[self._ahead] & present[self._behind]
        if 4 * pairs.sum() < present.sum():
            return False
        ahead, behind = values[self._ahead[pairs]], values[self._behind[pairs]]
        # Half the mean squared difference of two windows is the variance that remains within a
        # time of day.
        unexplained = np.mean((ahead - behind) ** 2) / 2
        return bool(unexplained <= _UNEXPLAINED_BY_CLOCK * np.var(ahead))


def _is_weekday(numbers: FloatArray, days: IntArray) -> bool:
    """Return whether numbers count the days of the week from any day on, or mark weekends."""
    weekday = (days + 3) % 7  # day 0, 1970-01-01, was a Thursday
    weekend = weekday >= 5
    if np.array_equal(numbers, weekend) and not weekend.all():
        return True
    whole = np.array_equal(numbers, np.round(numbers)) and numbers.min() >= 0
    return bool(whole and numbers.max() <= 7 and np.ptp((numbers - weekday) % 7) == 0)


def _rises_evenly(values: FloatArray, steps: IntArray, owner: IntArray) -> bool:
    """Return whether numbers rise evenly with steps, at one rate for every owner."""
    numbers = _centered(values, owner)
    even = _centered((steps - steps[0]).astype(np.float64), owner)
    spread, scale = float(numbers @ numbers), float(even @ even)
    if spread == 0 or scale == 0:
        return False
    residual = numbers - (even @ numbers) / scale * even
    return float(residual @ residual) <= _UNEXPLAINED_BY_ELAPSED * spread


def _centered(values: FloatArray, owner: IntArray) -> FloatArray:
    """Return numbers less the mean of their owner's."""
    sums, counts = np.bincount(owner, values), np.bincount(owner)
    return np.asarray(values - (sums / np.maximum(counts, 1))[owner])
