"""The totals of bags: the share, count or duration of each class in every bag.

`Totals` does not know the rows. It is the same object whatever their number, and it has neither a
length nor a shape, so that a grid search never mistakes it for one value per row.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from apportion._io.class_tables import (
    Cells,
    aligned,
    columns_for,
    read_shares,
    read_table,
    refuse_duplicates,
    refuse_missing_classes,
    unknown_class,
)
from apportion._io.identifiers import as_vector, factorize, is_duration, seconds
from apportion._utils.html_table import SHOWN_ROWS, HTMLTable, class_columns
from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.exceptions import SupervisionError, compared, counted, name_some
from apportion.supervision.episode_limits import read_episodes
from apportion.supervision.total_bounds import (
    refuse_infeasible,
    scaled_totals,
    tighten,
    without_rounding_errors,
)

SHARES_SUM_WITHIN = 0.011
"""Shares that are printed with two digits sum to 1 within this."""


def unit_of_sums(sums: FloatArray) -> Literal["share", "percent"] | None:
    """Return the unit of numbers by their sums: shares sum to 1, percentages to 100."""
    if sums.size and np.all(np.abs(sums - 1.0) <= SHARES_SUM_WITHIN):
        return "share"
    if sums.size and np.all(np.abs(sums - 100.0) <= 100.0 * SHARES_SUM_WITHIN):
        return "percent"
    return None


@dataclass(frozen=True, eq=False, repr=False, slots=True, init=False)
class Totals:
    """Lower and upper class totals of every bag, as shares of the bag or as masses (row counts).

    Make one with a factory: `from_proportions`, `from_counts`, `from_durations`,
    `from_intervals` or `from_labels`. Classes are kept in sorted order, as scikit-learn does.

    Attributes
    ----------
    ids : tuple
        The bags' ids, in the order of the table.
    classes : ndarray of shape (n_classes,)
        The classes, sorted.
    lower, upper : ndarray of shape (n_bags, n_classes)
        Bounds on each class in each bag; equal where the total is exact.
    unit : {"share", "mass"}
        Whether the bounds are shares of a bag or numbers of rows.
    normalize : bool
        Whether masses are rescaled to the number of rows that a bag turns out to have.
    most_episodes : ndarray of shape (n_bags, n_classes), or None
        The most episodes of each class that begin in each bag, NaN where that is not known; None if
        it is known of none. See `with_most_episodes`.

    Examples
    --------
    >>> totals = Totals.from_proportions(
    ...     {"mon": {"sleep": 0.4, "tv": 0.6}, "tue": {"sleep": 0.5, "tv": 0.5}}
    ... )
    >>> totals
    Totals(2 bags, 2 classes: 'sleep', 'tv'; shares)
    """

    ids: tuple[Hashable, ...]
    classes: AnyArray
    lower: FloatArray
    upper: FloatArray
    unit: Literal["share", "mass"]
    normalize: bool = False
    most_episodes: FloatArray | None = None

    def __init__(self) -> None:
        raise TypeError(
            "Totals has no constructor of its own: use Totals.from_proportions, from_counts, "
            "from_durations, from_intervals or from_labels."
        )

    @classmethod
    def _make(
        cls,
        cells: Cells,
        lower: FloatArray,
        upper: FloatArray,
        unit: Literal["share", "mass"],
        normalize: bool = False,
    ) -> Totals:
        """Return totals with bounds for the bags and classes of a table."""
        refuse_duplicates(cells.ids)
        classes, order = sorted_classes(cells.classes)
        return cls._of(tuple(cells.ids), classes, lower[:, order], upper[:, order], unit, normalize)

    @classmethod
    def _of(
        cls,
        ids: tuple[Hashable, ...],
        classes: AnyArray,
        lower: FloatArray,
        upper: FloatArray,
        unit: Literal["share", "mass"],
        normalize: bool = False,
        most_episodes: FloatArray | None = None,
    ) -> Totals:
        """Return totals with these attributes; their tables of numbers are frozen."""
        totals = cls.__new__(cls)
        tables = (None if x is None else _frozen(x) for x in (lower, upper, most_episodes))
        low, high, most = tables
        values = (ids, classes, low, high, unit, normalize, most)
        for field, value in zip(fields(cls), values, strict=True):
            object.__setattr__(totals, field.name, value)
        return totals

    def _replace(self, **changes: Any) -> Totals:
        """Return the totals with other values of some attributes."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return self._of(**{**values, **changes})

    @classmethod
    def _from_masses(cls, cells: Cells, masses: FloatArray, normalize: bool) -> Totals:
        unknown = np.isnan(masses)
        lower, upper = np.where(unknown, 0.0, masses), np.where(unknown, np.inf, masses)
        return cls._make(cells, lower, upper, "mass", normalize)

    @classmethod
    def from_proportions(
        cls,
        table: Any,
        *,
        classes: Sequence[Hashable] | None = None,
        id_column: str | None = None,
        normalize: bool = False,
        tolerance: float = 1e-6,
    ) -> Totals:
        """Return totals given as shares of each bag.

        Parameters
        ----------
        table : dataframe, mapping or array
            A dataframe with one row per bag and one column per class; a mapping from bag to a
            mapping from class to share, to a sequence of shares, or to the share of the second
            class; or an array of shape (n_bags, n_classes), or (n_bags,) with the share of the
            second class, whose row k is bag k. Missing cells are unknown: anything is allowed
            there. A class left out of an inner mapping has share 0.
        classes : sequence, optional
            The classes in the order of the array's columns; by default 0, 1, … For a dataframe or
            mapping: the classes that are allowed.
        id_column : str, optional
            The dataframe's column of bag ids. By default a pandas index, or a column named `bag`.
        normalize : bool, default=False
            Divide each bag's shares by their sum instead of refusing sums that differ from 1. Bags
            with an unknown cell stay as they are.
        tolerance : float, default=1e-6
            How far from 1 a bag's shares may sum.

        Returns
        -------
        Totals

        Examples
        --------
        >>> Totals.from_proportions([0.2, 0.9], classes=["sit", "walk"]).upper
        array([[0.8, 0.2],
               [0.1, 0.9]])
        """
        cells = read_table(table, classes, id_column, second_class_only=True)
        unknown = np.isnan(cells.values)
        complete = np.all(~unknown, axis=1)
        if normalize:
            values = _nonnegative(cells, "share")
            ids = [cells.ids[k] for k in np.flatnonzero(complete)]
            values[complete] = scaled_totals(values[complete], np.ones(len(ids)), ids)
            cells = cells._replace(values=values)
        _refuse_shares_above_one(cells, tolerance)
        values = _nonnegative(cells, "share")
        _refuse_wrong_sums(cells, tolerance)
        known_sum = np.nansum(values, axis=1, keepdims=True)
        off = complete[:, None] | (known_sum > 1.0)
        values = np.where(off, values / np.where(off, known_sum, 1.0), values)
        lower, upper = np.where(unknown, 0.0, values), np.where(unknown, 1.0, values)
        return cls._make(cells, *tighten(lower, upper, np.ones(len(values))), "share")

    @classmethod
    def from_counts(
        cls,
        table: Any,
        *,
        classes: Sequence[Hashable] | None = None,
        id_column: str | None = None,
        normalize: bool = False,
    ) -> Totals:
        """Return totals given as numbers of rows of each class.

        The counts of a bag must sum to its number of rows, which is checked when rows are known.

        Parameters
        ----------
        table : dataframe, mapping or array
            Counts, in the forms of `from_proportions`.
        classes, id_column
            As in `from_proportions`.
        normalize : bool, default=False
            Rescale the counts of a bag to its number of rows, where no cell is unknown.

        Returns
        -------
        Totals

        Examples
        --------
        >>> Totals.from_counts({"mon": {"sit": 3, "walk": 1}})
        Totals(1 bag, 2 classes: 'sit', 'walk'; masses)
        """
        cells = read_table(table, classes, id_column)
        return cls._from_masses(cells, _nonnegative(cells, "count"), normalize)

    @classmethod
    def from_durations(
        cls,
        table: Any,
        *,
        window: float | timedelta,
        classes: Sequence[Hashable] | None = None,
        id_column: str | None = None,
        normalize: bool = False,
    ) -> Totals:
        """Return totals given as time spent in each class.

        Parameters
        ----------
        table : dataframe, mapping or array
            Durations, as numbers or as time deltas, in the forms of `from_proportions`.
        window : number or timedelta
            The time that one row covers, in the unit of the durations.
        classes, id_column, normalize
            As in `from_counts`.

        Returns
        -------
        Totals

        Examples
        --------
        >>> hours = {"mon": {"sleep": 8, "tv": 2}}
        >>> Totals.from_durations(hours, window=0.5).lower
        array([[16.,  4.]])
        """
        try:
            length = seconds(window) if is_duration(window) else float(window)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            length = 0.0
        if not (np.isfinite(length) and length > 0):
            raise ValueError(
                f"The 'window' parameter must be a positive number or timedelta. Got {window!r}."
            )
        cells = read_table(table, classes, id_column, durations=is_duration(window))
        return cls._from_masses(cells, _nonnegative(cells, "duration") / length, normalize)

    @classmethod
    def from_intervals(
        cls,
        lower: Any,
        upper: Any,
        *,
        unit: Literal["share", "count"] = "share",
        classes: Sequence[Hashable] | None = None,
        id_column: str | None = None,
    ) -> Totals:
        """Return totals known only within bounds.

        Parameters
        ----------
        lower, upper : dataframe, mapping or array
            Two tables of one form with the same bags and classes. A missing cell is no bound.
        unit : {"share", "count"}, default="share"
            Whether the bounds are shares of a bag or numbers of rows.
        classes, id_column
            As in `from_proportions`.

        Returns
        -------
        Totals

        Examples
        --------
        >>> least, most = {"mon": {"a": 0.1, "b": 0.5}}, {"mon": {"a": 0.5, "b": 1}}
        >>> totals = Totals.from_intervals(least, most)
        >>> totals.lower, totals.upper
        (array([[0.1, 0.5]]), array([[0.5, 0.9]]))
        """
        if unit not in ("share", "count"):
            raise ValueError(f"The 'unit' parameter must be 'share' or 'count'. Got {unit!r}.")
        low = read_table(lower, classes, id_column)
        high = aligned(read_table(upper, classes, id_column), low)
        if unit == "share":
            _refuse_shares_above_one(low, 1e-6)
            _refuse_shares_above_one(high, 1e-6)
        low_values, high_values = _nonnegative(low, unit), _nonnegative(high, unit)
        no_bound = 1.0 if unit == "share" else np.inf
        low_values = np.where(np.isnan(low_values), 0.0, low_values)
        high_values = np.where(np.isnan(high_values), no_bound, high_values)
        for k, h in zip(*np.nonzero(low_values > high_values), strict=True):
            least, most = compared(low_values[k, h], high_values[k, h])
            found = f"a lower bound of {least} above its upper bound of {most}"
            allowed, advice = "lower bounds up to the upper bound", "exchange or correct the two"
            where = f"class {low.classes[h]!r}"
            raise SupervisionError(where, found, allowed, advice, bag=low.ids[k])
        if unit == "count":
            return cls._make(low, low_values, high_values, "mass")
        size = np.ones(len(low_values))
        refuse_infeasible(low.ids, low_values, high_values, size)
        return cls._make(low, *tighten(low_values, high_values, size), "share")

    @classmethod
    def from_labels(
        cls, labels: Any, bags: Any, *, classes: Sequence[Hashable] | None = None
    ) -> Totals:
        """Return the exact shares of each class in each bag, counted from known labels.

        Parameters
        ----------
        labels : array-like of shape (n_samples,) or (n_samples, n_classes)
            A label for every row that is in a bag, or the shares of its classes, which sum to 1.
        bags : array-like of shape (n_samples,)
            A bag id for every row; missing = in no bag.
        classes : sequence, optional
            All classes, where some may be absent from `labels`. For shares, the names of the
            columns; by default those of a dataframe, or 0, 1, …

        Returns
        -------
        Totals

        Examples
        --------
        >>> Totals.from_labels(["a", "b", "b", "b"], [1, 1, 2, 2]).lower
        array([[0.5, 0.5],
               [0. , 1. ]])
        >>> Totals.from_labels([[1, 0], [0.5, 0.5]], [1, 1], classes=["sit", "walk"]).lower
        array([[0.75, 0.25]])
        """
        codes, ids = factorize(bags, "bag id")
        table = read_shares(labels)
        if table is None:
            label_codes, distinct = factorize(labels, "label")
            names = list(distinct if classes is None else classes)
            for label in distinct:
                if label not in names:
                    raise unknown_class(f"label {label!r}", names)
            valid = label_codes >= 0
        else:
            names = list(table.classes if classes is None else classes)
            n_columns = table.values.shape[1]
            if len(names) != n_columns:
                raise ValueError(f"{len(names)} classes were given for {n_columns} columns.")
            sums = table.values.sum(axis=1)
            valid = (table.values >= 0).all(axis=1) & (np.abs(sums - 1.0) <= 1e-6)
        if len(valid) != len(codes):
            raise ValueError(f"{len(valid)} labels were given for {len(codes)} bag ids.")
        inside = codes >= 0
        for row in np.flatnonzero(inside & ~valid).tolist():
            found = "no label" if table is None else f"the shares {table.values[row].tolist()}"
            allowed = "a label, or shares that sum to 1, for every row that is in a bag"
            advice, bag = "correct the row, or give it no bag id", ids[codes[row]]
            raise SupervisionError("", found, allowed, advice, row=row, bag=bag)
        masses = np.zeros((len(ids), len(names)))
        if table is None:
            columns = np.array([names.index(label) for label in distinct], dtype=np.intp)
            np.add.at(masses, (codes[inside], columns[label_codes[inside]]), 1.0)
        else:
            np.add.at(masses, codes[inside], table.values[inside])
        shares = masses / masses.sum(axis=1, keepdims=True)
        return cls._make(Cells(ids, names, shares), shares, shares, "share")

    def with_classes(self, classes: AnyArray) -> Totals:
        """Return the same totals for other classes, in their order.

        Parameters
        ----------
        classes : ndarray of shape (n_classes,)
            Classes with all those of the totals among them; the others have mass 0.

        Returns
        -------
        Totals
            One column per class of `classes`.
        """
        wanted, present = classes.tolist(), self.classes.tolist()
        for label in present:
            if label not in wanted:
                raise unknown_class(f"class {label!r} of the totals", wanted)
        lower, upper = (columns_for(wanted, present, x) for x in (self.lower, self.upper))
        most = self.most_episodes
        if most is not None:
            most = columns_for(wanted, present, most, absent=np.nan)
        return self._replace(classes=classes, lower=lower, upper=upper, most_episodes=most)

    def with_most_episodes(self, table: Any, *, id_column: str | None = None) -> Totals:
        """Return the same totals, and how often each class happened at most.

        An episode is a run of rows of one class that follow each other in time. Estimators that
        decode along time (`decode="sequence"`) let no more episodes of a class begin in a bag, as
        far as the totals allow it; other estimators and decodings do not use the numbers.

        Parameters
        ----------
        table : dataframe, mapping or array
            Whole numbers, in the forms of `from_counts`, for some or all bags and classes of the
            totals. A missing cell, class or bag is not known. The rows of an array are the bags in
            the order of `ids`, its columns the classes in the order of `classes`.
        id_column : str, optional
            As in `from_proportions`.

        Returns
        -------
        Totals
            Numbers that were known before are replaced.

        Examples
        --------
        >>> totals = Totals.from_counts({"mon": {"sleep": 90, "tea": 6}, "tue": {"sleep": 96}})
        >>> totals.with_most_episodes({"mon": {"tea": 2}}).most_episodes
        array([[nan,  2.],
               [nan, nan]])
        """
        most = read_episodes(table, self.ids, self.classes, self.lower, id_column)
        return self._replace(most_episodes=most)

    def __repr__(self) -> str:
        names = name_some(map(repr, self.classes.tolist()))
        kind = {"share": "shares", "mass": "masses"}[self.unit]
        bags = counted(len(self.ids), "bag").replace(",", "")
        return f"Totals({bags}, {len(self.classes)} classes: {names}; {kind})"

    def _repr_html_(self) -> str:
        """Return a table for notebooks, one row per bag and one column per class."""
        names, n_shown = class_columns(self.classes.tolist())
        more = ["…"] * (len(self.classes) > n_shown)
        bounds = zip(self.lower[:SHOWN_ROWS], self.upper[:SHOWN_ROWS], strict=True)
        cells = [_rounded(low[:n_shown], high[:n_shown]) for low, high in bounds]
        kind = {"share": "shares of a bag", "mass": "rows"}[self.unit]
        table = HTMLTable(
            f"Totals of {counted(len(self.ids), 'bag')}, in {kind}",
            ["bag", *names],
            [[bag, *row, *more] for bag, row in zip(self.ids, cells, strict=False)],
            n_left=max(len(self.ids) - SHOWN_ROWS, 0),
            row_word="bags",
        )
        return str(table)


def _rounded(lower: FloatArray, upper: FloatArray) -> list[str]:
    return list(map(interval, lower.round(4), upper.round(4)))


def interval(lower: float, upper: float) -> str:
    """Return a total as text: one number, or both ends of an interval."""
    low, high = (f"{x:,.0f}" if float(x).is_integer() else f"{x:,.6g}" for x in (lower, upper))
    return high if upper - lower <= 1e-9 else f"{low}…{high}"


def _frozen(values: FloatArray) -> FloatArray:
    frozen = np.array(values, dtype=np.float64)
    frozen.flags.writeable = False
    return frozen


def as_totals(proportions: Any) -> Totals:
    """Return totals as they are; anything else is read by `Totals.from_proportions`."""
    return proportions if isinstance(proportions, Totals) else Totals.from_proportions(proportions)


def sorted_classes(labels: Sequence[Hashable]) -> tuple[AnyArray, IntArray]:
    """Return the labels sorted, and the position that each sorted label had.

    Labels of kinds that cannot be compared are sorted by kind, then by how they print. A missing
    label raises an error.
    """
    refuse_missing_classes(labels)
    plain: list[Any] = [
        label.item() if isinstance(label, np.generic) else label for label in labels
    ]
    try:
        order = sorted(range(len(plain)), key=plain.__getitem__)
        if any(not plain[a] < plain[b] for a, b in pairwise(order)):
            raise TypeError("not a total order")
    except TypeError:
        order = sorted(range(len(plain)), key=lambda h: (type(plain[h]).__name__, repr(plain[h])))
    return as_vector([plain[h] for h in order]), np.array(order, dtype=np.intp)


def _nonnegative(cells: Cells, noun: str) -> FloatArray:
    """Return a copy of the values of a table; raise for a negative one."""
    for k, h in zip(*np.nonzero(cells.values < 0), strict=True):
        where, found = f"class {cells.classes[h]!r}", f"a negative {noun}, {cells.values[k, h]:g}"
        advice = "correct it, or leave the cell missing if it is not known"
        raise SupervisionError(where, found, f"{noun}s of 0 and more", advice, bag=cells.ids[k])
    return cells.values.copy()


def _refuse_shares_above_one(cells: Cells, tolerance: float) -> None:
    """Raise for shares above 1; the message tells where they look like percentages."""
    values = np.nan_to_num(cells.values)
    for k in np.flatnonzero((values > 1 + tolerance).any(axis=1)).tolist():
        h = int(np.argmax(values[k]))
        share = values[k, h]
        positive = np.maximum(values[k], 0.0).sum()
        unclear = bool((np.isnan(cells.values[k]) | (values[k] < 0)).any())
        in_percent = 98.0 <= positive <= 102.0 or (unclear and 2.0 <= share <= 100.0)
        where = f"class {cells.classes[h]!r}"
        found = f"a share of {compared(share, 1.0)[0]}, above 1"
        advice = (
            "use Totals.from_counts for counts, Totals.from_durations for durations, or "
            "normalize=True to divide by the bag's sum"
        )
        if in_percent:
            found += ", which looks like a percentage"
            advice = "divide the percentages by 100"
        raise SupervisionError(where, found, "shares from 0 to 1", advice, bag=cells.ids[k])


def _refuse_wrong_sums(cells: Cells, tolerance: float) -> None:
    """Raise for shares that do not sum to 1, or leave no room for the unknown ones."""
    sums = np.nansum(cells.values, axis=1)
    complete = np.all(~np.isnan(cells.values), axis=1)
    off = np.where(complete, np.abs(sums - 1.0), sums - 1.0)
    for k in np.flatnonzero(off > tolerance).tolist():
        found = f"shares that sum to {compared(sums[k], 1.0)[0]}, off by {sums[k] - 1.0:+.2g}"
        allowed = f"a sum of 1 within {tolerance:g}"
        advice = (
            "correct the shares, or use Totals.from_proportions(table, normalize=True), or "
            "tolerance=0.01 for rounded shares"
        )
        if not complete[k]:
            allowed = "known shares that leave room for the unknown ones"
            found, advice = f"known {found}", "lower the known shares"
        raise SupervisionError("", found, allowed, advice, bag=cells.ids[k])


def masses_for(totals: Totals, bags: IntArray, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper class masses of some bags, given their numbers of rows."""
    lower, upper = totals.lower[bags], totals.upper[bags]
    if totals.unit == "share":
        return without_rounding_errors(lower * sizes[:, None], upper * sizes[:, None], sizes)
    ids = [totals.ids[k] for k in bags]
    exact = np.all(lower == upper, axis=1)
    if totals.normalize:
        known = [ids[k] for k in np.flatnonzero(exact)]
        lower[exact] = upper[exact] = scaled_totals(lower[exact], sizes[exact], known)
    sums = np.where(exact, lower.sum(axis=1), sizes)
    for k in np.flatnonzero(np.abs(sums - sizes) > 1e-6 * np.maximum(sizes, 1.0)):
        total, n_samples = compared(sums[k], sizes[k])
        raise SupervisionError(
            "",
            f"totals that sum to {total} for {n_samples} rows, off by {sums[k] - sizes[k]:+.6g}",
            "totals that sum to the bag's number of rows",
            "correct them (of durations, check `window`), or rescale them with normalize=True; in "
            "cross-validation keep whole bags together, e.g. with GroupKFold",
            bag=ids[k],
        )
    scale = np.divide(sizes, sums, out=np.ones_like(sums), where=sums > 0)[:, None]
    lower, upper = lower * scale, upper * scale
    refuse_infeasible(ids, lower, upper, sizes)
    return without_rounding_errors(*tighten(lower, upper, sizes), sizes)
