"""The totals of bags: which share, count or duration of each class every bag holds.

`Totals` knows no rows. It is the same object whatever the number of rows, and it has neither a
length nor a shape, so that a grid search never mistakes it for one value per row.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
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
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.exceptions import SupervisionError, compared, name_some

Unit = Literal["share", "mass"]

SHARES_SUM_WITHIN = 0.011
"""Shares that are printed with two digits sum to 1 within this."""


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
        Bounds of each class in each bag; equal where the total is exact.
    unit : {"share", "mass"}
        Whether the bounds are shares of a bag or numbers of rows.
    normalize : bool
        Whether masses are rescaled to the number of rows that a bag turns out to have.

    Examples
    --------
    >>> totals = Totals.from_proportions(
    ...     {"mon": {"sleep": 0.4, "tv": 0.6}, "tue": {"sleep": 0.5, "tv": 0.5}}
    ... )
    >>> totals
    Totals(2 bags, 2 classes: 'sleep', 'tv'; shares)
    """

    __slots__ = ("classes", "ids", "lower", "normalize", "unit", "upper")

    ids: tuple[Hashable, ...]
    classes: AnyArray
    lower: FloatArray
    upper: FloatArray
    unit: Unit
    normalize: bool

    def __init__(self) -> None:
        raise TypeError(
            "Totals has no constructor of its own: use Totals.from_proportions, from_counts, "
            "from_durations, from_intervals or from_labels."
        )

    @classmethod
    def _make(
        cls,
        ids: Sequence[Hashable],
        classes: AnyArray,
        lower: FloatArray,
        upper: FloatArray,
        unit: Unit,
        normalize: bool,
    ) -> Totals:
        self = object.__new__(cls)
        self.ids = tuple(ids)
        self.classes = classes
        self.lower = _frozen(lower)
        self.upper = _frozen(upper)
        self.unit = unit
        self.normalize = normalize
        return self

    @classmethod
    def _sorted(
        cls,
        ids: Sequence[Hashable],
        labels: Sequence[Hashable],
        lower: FloatArray,
        upper: FloatArray,
        unit: Unit,
        normalize: bool = False,
    ) -> Totals:
        refuse_duplicates(ids)
        classes, order = sorted_classes(labels)
        return cls._make(ids, classes, lower[:, order], upper[:, order], unit, normalize)

    @classmethod
    def _from_masses(cls, cells: Cells, values: FloatArray, normalize: bool) -> Totals:
        unknown = np.isnan(values)
        lower, upper = np.where(unknown, 0.0, values), np.where(unknown, np.inf, values)
        return cls._sorted(cells.ids, cells.classes, lower, upper, "mass", normalize)

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
            A dataframe with one row a bag and one column a class; a mapping from bag to a mapping
            from class to share, to a sequence of shares, or to the share of the second class; or
            an array of shape (n_bags, n_classes), or (n_bags,) holding the share of the second
            class, whose row k is bag k. Missing cells are unknown: anything is allowed there. A
            class left out of an inner mapping has share 0.
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

        Examples
        --------
        >>> Totals.from_proportions([0.2, 0.9], classes=["sit", "walk"]).upper
        array([[0.8, 0.2],
               [0.1, 0.9]])
        """
        cells = read_table(table, classes, id_column, second_class_only=True)
        unknown = np.isnan(cells.values)
        complete = ~np.any(unknown, axis=1)
        if normalize:
            values = _nonnegative(cells, "share")
            one = np.ones(int(complete.sum()))
            ids = [bag for bag, known in zip(cells.ids, complete, strict=True) if known]
            values[complete] = _scaled_rows(values[complete], one, ids)
            cells = cells._replace(values=values)
        _refuse_shares_above_one(cells, tolerance)
        values = _nonnegative(cells, "share")
        _refuse_wrong_sums(cells, values, unknown, tolerance)
        known_sum = np.where(unknown, 0.0, values).sum(axis=1, keepdims=True)
        off = complete[:, None] | (known_sum > 1.0)
        values = np.where(off, values / np.where(off, known_sum, 1.0), values)
        lower, upper = np.where(unknown, 0.0, values), np.where(unknown, 1.0, values)
        lower, upper = tighten(lower, upper, np.ones(len(values)))
        return cls._sorted(cells.ids, cells.classes, lower, upper, "share")

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

        The counts of a bag must sum to its number of rows, which is checked when rows are known;
        `normalize=True` rescales them instead, where no cell is unknown. Other parameters as in
        `from_proportions`.

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
            Durations, as numbers or as time deltas; the forms of `from_proportions`.
        window : number or timedelta
            The time that one row covers, in the unit of the durations.
        classes, id_column, normalize
            As in `from_counts`.

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
        low_values = np.where(np.isnan(low_values), 0.0, low_values)
        no_bound = 1.0 if unit == "share" else np.inf
        high_values = np.where(np.isnan(high_values), no_bound, high_values)
        for k, h in zip(*np.nonzero(low_values > high_values), strict=True):
            least, most = compared(low_values[k, h], high_values[k, h])
            raise SupervisionError(
                f"bag {low.ids[k]!r}, class {low.classes[h]!r}",
                f"a lower bound of {least} above its upper bound of {most}",
                "lower bounds up to the upper bound",
                "exchange or correct the two",
            )
        if unit == "share":
            size = np.ones(len(low_values))
            refuse_infeasible(low.ids, low_values, high_values, size)
            low_values, high_values = tighten(low_values, high_values, size)
        kept: Unit = "share" if unit == "share" else "mass"
        return cls._sorted(low.ids, low.classes, low_values, high_values, kept)

    @classmethod
    def from_labels(
        cls, labels: Any, bags: Any, *, classes: Sequence[Hashable] | None = None
    ) -> Totals:
        """Return the exact shares of each class in each bag, counted from known labels.

        Parameters
        ----------
        labels : array-like of shape (n_samples,) or (n_samples, n_classes)
            A label for every row that is in a bag; or its shares of the classes, which sum to 1.
        bags : array-like of shape (n_samples,)
            A bag id for every row; missing = in no bag.
        classes : sequence, optional
            All classes, where some may be absent from `labels`; of shares, the columns' names,
            by default those of a dataframe, or 0, 1, …

        Examples
        --------
        >>> Totals.from_labels(["a", "b", "b", "b"], [1, 1, 2, 2]).lower
        array([[0.5, 0.5],
               [0. , 1. ]])
        >>> Totals.from_labels([[1, 0], [0.5, 0.5]], [1, 1], classes=["sit", "walk"]).lower
        array([[0.75, 0.25]])
        """
        shares = read_shares(labels)
        if shares is not None:
            names = shares.classes if classes is None else classes
            return cls._from_shares(shares.values, bags, names)
        label_codes, found = factorize(labels, "label")
        bag_codes, ids = factorize(bags, "bag id")
        if len(label_codes) != len(bag_codes):
            raise ValueError(f"{len(label_codes)} labels were given for {len(bag_codes)} bag ids.")
        unlabeled = np.flatnonzero((bag_codes >= 0) & (label_codes < 0))
        if unlabeled.size:
            raise SupervisionError(
                "",
                "no label",
                "a label for every row that is in a bag",
                "label it, or give it no bag id",
                row=int(unlabeled[0]),
                bag=ids[bag_codes[unlabeled[0]]],
            )
        known = list(found if classes is None else classes)
        place = {label: h for h, label in enumerate(known)}
        for label in found:
            if label not in place:
                raise unknown_class(f"label {label!r}", known)
        columns = np.array([place[label] for label in found], dtype=np.intp)
        inside = bag_codes >= 0
        counts = np.zeros((len(ids), len(known)))
        np.add.at(counts, (bag_codes[inside], columns[label_codes[inside]]), 1.0)
        shares = counts / counts.sum(axis=1, keepdims=True)
        return cls._sorted(ids, known, shares, shares, "share")

    @classmethod
    def _from_shares(cls, shares: FloatArray, bags: Any, classes: Sequence[Hashable]) -> Totals:
        """Return the mean shares of the rows of each bag."""
        codes, ids = factorize(bags, "bag id")
        if len(shares) != len(codes):
            raise ValueError(f"{len(shares)} rows of shares were given for {len(codes)} bag ids.")
        names = list(classes)
        if len(names) != shares.shape[1]:
            raise ValueError(f"{len(names)} classes were given for {shares.shape[1]} columns.")
        inside = codes >= 0
        whole = (shares >= 0).all(axis=1) & (np.abs(shares.sum(axis=1) - 1.0) <= 1e-6)
        off = np.flatnonzero(inside & ~whole)
        if off.size:
            raise SupervisionError(
                "",
                f"the shares {shares[off[0]].tolist()}",
                "shares between 0 and 1 that sum to 1, for every row that is in a bag",
                "correct them, or give the row no bag id",
                row=int(off[0]),
                bag=ids[codes[off[0]]],
            )
        masses = np.zeros((len(ids), shares.shape[1]))
        np.add.at(masses, codes[inside], shares[inside])
        means = masses / masses.sum(axis=1, keepdims=True)
        return cls._sorted(ids, names, means, means, "share")

    def with_classes(self, classes: AnyArray) -> Totals:
        """Return the same totals over other classes, in their order; absent ones have mass 0."""
        known, mine = classes.tolist(), self.classes.tolist()
        for label in mine:
            if label not in known:
                raise unknown_class(f"class {label!r} of the totals", known)
        lower, upper = (columns_for(known, mine, bound) for bound in (self.lower, self.upper))
        return self._make(self.ids, classes, lower, upper, self.unit, self.normalize)

    def __repr__(self) -> str:
        bags = f"{len(self.ids)} bag{'s' * (len(self.ids) != 1)}"
        names = name_some(map(repr, self.classes.tolist()))
        kind = {"share": "shares", "mass": "masses"}[self.unit]
        return f"Totals({bags}, {len(self.classes)} classes: {names}; {kind})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)


def as_totals(proportions: Any) -> Totals:
    """Return totals as they are; anything else is read by `Totals.from_proportions`."""
    return proportions if isinstance(proportions, Totals) else Totals.from_proportions(proportions)


def sorted_classes(labels: Sequence[Hashable]) -> tuple[AnyArray, IntArray]:
    """Return the labels sorted, and where each sorted label stood.

    Labels of kinds that cannot be compared are sorted by kind, then by how they print. A label that
    is missing is an error.
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


def tighten(
    lower: FloatArray, upper: FloatArray, size: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the tightest bounds that allow the same rows of totals `t`, Σ_h t_h = size.

    A class can hold at most what the others' lower bounds leave, and must hold at least what the
    others' upper bounds cannot take.
    """
    size = size[:, None]
    most = size - (lower.sum(axis=1, keepdims=True) - lower)
    with np.errstate(invalid="ignore"):
        least = size - (upper.sum(axis=1, keepdims=True) - upper)
    unbounded = ~np.isfinite(upper)
    others_unbounded = (unbounded.sum(axis=1, keepdims=True) - unbounded) > 0
    least = np.where(others_unbounded, 0.0, np.where(unbounded, _finite_rest(size, upper), least))
    tight_lower = np.maximum(lower, np.minimum(least, upper))
    tight_upper = np.maximum(np.minimum(upper, most), tight_lower)
    return tight_lower, tight_upper


def _finite_rest(size: FloatArray, upper: FloatArray) -> FloatArray:
    finite = np.where(np.isfinite(upper), upper, 0.0)
    return size - finite.sum(axis=1, keepdims=True)


def refuse_infeasible(
    ids: Sequence[Hashable], lower: FloatArray, upper: FloatArray, size: FloatArray
) -> None:
    """Raise when some bag's bounds cannot sum to its size."""
    slack = 1e-9 * np.maximum(size, 1.0)
    least, most = lower.sum(axis=1), upper.sum(axis=1)
    for k in np.flatnonzero((least > size + slack) | (most < size - slack)).tolist():
        too_high = least[k] > size[k]
        total, whole = compared(least[k] if too_high else most[k], size[k])
        raise SupervisionError(
            f"bag {ids[k]!r}",
            f"lower bounds that sum to {total}, more than the whole of {whole}"
            if too_high
            else f"upper bounds that sum to {total}, less than the whole of {whole}",
            f"lower bounds that sum to at most {whole}, upper bounds to at least {whole}",
            f"{'lower the lower' if too_high else 'raise the upper'} bounds of this bag",
        )


def _nonnegative(cells: Cells, what: str) -> FloatArray:
    for k, h in zip(*np.nonzero(cells.values < 0), strict=True):
        raise SupervisionError(
            f"bag {cells.ids[k]!r}, class {cells.classes[h]!r}",
            f"a negative {what}, {cells.values[k, h]:g}",
            f"{what}s of 0 and more",
            "correct it, or leave the cell missing if it is not known",
        )
    return cells.values.copy()


def _refuse_shares_above_one(cells: Cells, tolerance: float) -> None:
    """Raise for shares above 1, and say so where they look like percentages."""
    values = np.nan_to_num(cells.values)
    sums = np.maximum(values, 0.0).sum(axis=1)
    for k in np.flatnonzero((values > 1 + tolerance).any(axis=1)).tolist():
        h = int(np.argmax(values[k]))
        unclear = np.isnan(cells.values[k]).any() or (values[k] < 0).any()
        percentages = 98.0 <= sums[k] <= 102.0 or (bool(unclear) and 2.0 <= values[k, h] <= 100.0)
        raise SupervisionError(
            f"bag {cells.ids[k]!r}, class {cells.classes[h]!r}",
            f"a share of {compared(values[k, h], 1.0)[0]}, above 1"
            + (", which looks like a percentage" if percentages else ""),
            "shares from 0 to 1",
            "divide the percentages by 100"
            if percentages
            else "use Totals.from_counts for counts, Totals.from_durations for durations, or "
            "normalize=True to divide by the bag's sum",
        )


def _refuse_wrong_sums(
    cells: Cells, values: FloatArray, unknown: BoolArray, tolerance: float
) -> None:
    """Raise for shares that do not sum to 1, or leave no room for the unknown ones."""
    sums = np.where(unknown, 0.0, values).sum(axis=1)
    complete = ~np.any(unknown, axis=1)
    off = np.where(complete, np.abs(sums - 1.0), sums - 1.0)
    for k in np.flatnonzero(off > tolerance).tolist():
        which = "shares" if complete[k] else "known shares"
        raise SupervisionError(
            f"bag {cells.ids[k]!r}",
            f"{which} that sum to {compared(sums[k], 1.0)[0]}, off by {sums[k] - 1.0:+.2g}",
            f"a sum of 1 within {tolerance:g}"
            if complete[k]
            else "known shares that leave room for the unknown ones",
            "correct the shares, or use Totals.from_proportions(table, normalize=True), or "
            "tolerance=0.01 for rounded shares"
            if complete[k]
            else "lower the known shares",
        )


def _scaled_rows(values: FloatArray, size: FloatArray, ids: Sequence[Hashable]) -> FloatArray:
    """Return complete totals scaled to sum to the sizes."""
    sums = values.sum(axis=1)
    for k in np.flatnonzero(sums <= 0).tolist():
        raise SupervisionError(
            f"bag {ids[k]!r}",
            "totals that are all 0",
            "totals with a positive sum where they are to be normalized",
            "correct them, or leave the cells missing if they are not known",
        )
    return values * (size / sums)[:, None]


def masses_for(totals: Totals, bags: IntArray, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper class masses of the named bags, given their numbers of rows."""
    lower, upper = totals.lower[bags], totals.upper[bags]
    if totals.unit == "share":
        return _without_rounding_errors(lower * sizes[:, None], upper * sizes[:, None], sizes)
    ids = [totals.ids[k] for k in bags]
    exact = np.all(lower == upper, axis=1)
    if totals.normalize:
        known = [bag for bag, complete in zip(ids, exact, strict=True) if complete]
        scaled = _scaled_rows(lower[exact], sizes[exact], known)
        lower, upper = lower.copy(), upper.copy()
        lower[exact] = upper[exact] = scaled
    sums = np.where(exact, lower.sum(axis=1), sizes)
    for k in np.flatnonzero(np.abs(sums - sizes) > 1e-6 * np.maximum(sizes, 1.0)):
        total, n_samples = compared(sums[k], sizes[k])
        raise SupervisionError(
            f"bag {ids[k]!r}",
            f"totals that sum to {total} for {n_samples} rows, off by {sums[k] - sizes[k]:+.6g}",
            "totals that sum to the bag's number of rows",
            "correct them (of durations, check `window`), or rescale them with normalize=True; in "
            "cross-validation keep whole bags together, e.g. with GroupKFold",
        )
    scale = np.divide(sizes, sums, out=np.ones_like(sums), where=sums > 0)[:, None]
    lower, upper = lower * scale, upper * scale
    refuse_infeasible(ids, lower, upper, sizes)
    return _without_rounding_errors(*tighten(lower, upper, sizes), sizes)


def _without_rounding_errors(
    lower: FloatArray, upper: FloatArray, sizes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds with masses a rounding error away from a whole number made whole.

    The bounds of a bag still allow masses that sum to its size. Rounding alone would not keep
    that: 0.3 + 0.6999999999 + 2.0000000001 rows are 3, but 0.3 + 0.6999999999 + 2 are not, and no
    projection could ever meet such masses.
    """
    low, high = _rounded(lower), _rounded(upper)
    exact = np.all(low == high, axis=1)
    low = _summing_to(sizes, low, exact | (low.sum(axis=1) > sizes))
    high = np.where(exact[:, None], low, _summing_to(sizes, high, high.sum(axis=1) < sizes))
    return low, np.maximum(low, high)


def _rounded(masses: FloatArray) -> FloatArray:
    """Return the masses with those a rounding error away from a whole number made whole."""
    whole = np.rint(masses)
    return np.where(np.abs(masses - whole) <= 1e-9 * np.maximum(whole, 1.0), whole, masses)


def _summing_to(sizes: FloatArray, masses: FloatArray, bags: BoolArray) -> FloatArray:
    """Return the masses with the fractional ones of some bags scaled, so that all sum to a size."""
    fractional = (masses != np.rint(masses)) & bags[:, None]
    some = fractional.any(axis=1)
    part = np.where(fractional, masses, 0.0).sum(axis=1)
    left = sizes - np.where(fractional, 0.0, masses).sum(axis=1)
    scale = np.divide(left, part, out=np.ones_like(left), where=some)
    return np.where(fractional, masses * scale[:, None], masses)


def _frozen(array: FloatArray) -> FloatArray:
    array = np.array(array, dtype=np.float64)
    array.flags.writeable = False
    return array
