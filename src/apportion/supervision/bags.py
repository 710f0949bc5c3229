"""Rows matched with totals: the one door through which supervision enters.

Whatever form the supervision had, behind this door it is lower and upper class masses per bag, and
labels that are given for single rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from apportion._io.tables import factorize
from apportion._utils.box_projection import nearest_totals
from apportion._utils.groups import Groups
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.exceptions import GivenLabelError, SupervisionError, compared, name_some
from apportion.supervision.totals import Totals, as_totals, masses_for, sorted_classes, tighten


class Bags:
    """The rows' bags, the bags' class masses and the rows' given labels.

    A row with a given label leaves its bag and takes its label out of the bag's masses; the rows
    that stay are the open ones.

    Attributes
    ----------
    ids : tuple
        Ids of the bags that have rows, in the order of the table.
    classes : ndarray of shape (n_classes,)
        The classes, sorted.
    codes : ndarray of shape (n_samples,)
        Each row's bag, as a position in `ids`; -1 = in no bag.
    given : ndarray of shape (n_samples,)
        Each row's given label, as a position in `classes`; -1 = none.
    lower, upper : ndarray of shape (n_bags, n_classes)
        Bounds of the class masses of all rows of a bag.
    open_lower, open_upper : ndarray of shape (n_bags, n_classes)
        Bounds of the class masses of its open rows.
    groups, open_groups : Groups
        All rows, and the open rows, by bag.
    """

    def __init__(
        self,
        ids: tuple[Any, ...],
        classes: AnyArray,
        codes: IntArray,
        lower: FloatArray,
        upper: FloatArray,
        given: IntArray,
    ) -> None:
        self.ids = ids
        self.classes = classes
        self.codes = codes
        self.lower = lower
        self.upper = upper
        self.given = given
        self.groups = Groups(codes, len(ids))
        self.open_groups = Groups(np.where(given >= 0, -1, codes), len(ids))
        self.open_lower, self.open_upper = self._open_masses()

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return len(self.codes)

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.classes)

    @cached_property
    def exact(self) -> BoolArray:
        """Which bags have exact totals for all classes."""
        return np.all(self.upper - self.lower <= 1e-9, axis=1)

    @cached_property
    def overall(self) -> FloatArray:
        """The class shares of all rows, as far as the totals tell.

        Bags count by their size and by how narrow their widest interval is; given labels in no
        bag count in full. Where nothing is known, all classes are equally likely.
        """
        loose = self.given[(self.given >= 0) & (self.codes < 0)]
        labeled = np.bincount(loose, minlength=self.n_classes)
        return overall_shares(self.lower, self.upper, self.groups.sizes, labeled)

    @cached_property
    def shares(self) -> FloatArray:
        """The shares of each bag's open rows: exact ones as given, else nearest to `overall`.

        This is `argmin_p ‖p - overall‖` over the shares that a bag's bounds allow.
        """
        sizes = self.open_groups.sizes
        return shares_near(self.overall, self.open_lower, self.open_upper, sizes)

    def prior(self) -> FloatArray:
        """Return the soft labels F⁰ to start from: every row has its bag's shares.

        A row in no bag has the overall shares, a row with a given label that label.
        """
        F = np.concatenate([self.shares, self.overall[None]])[self.open_groups.codes]
        return self.with_given(F)

    def take(self, rows: IntArray, bags: IntArray) -> Bags:
        """Return the same supervision with rows, and bags, in another order."""
        place = np.empty(len(bags) + 1, dtype=np.intp)
        place[bags], place[-1] = np.arange(len(bags)), -1
        return Bags(
            tuple(self.ids[k] for k in bags),
            self.classes,
            place[self.codes[rows]],
            self.lower[bags],
            self.upper[bags],
            self.given[rows],
        )

    def with_given(self, F: FloatArray) -> FloatArray:
        """Return the soft labels with the given rows at their labels; changes F."""
        rows = np.flatnonzero(self.given >= 0)
        F[rows] = 0.0
        F[rows, self.given[rows]] = 1.0
        return F

    def _open_masses(self) -> tuple[FloatArray, FloatArray]:
        rows = np.flatnonzero((self.given >= 0) & (self.codes >= 0))
        if not rows.size:
            return self.lower, self.upper
        taken = np.zeros(self.lower.shape)
        np.add.at(taken, (self.codes[rows], self.given[rows]), 1.0)
        lower = np.maximum(self.lower - taken, 0.0)
        upper = self.upper - taken
        for k, h in zip(*np.nonzero(upper < -1e-9), strict=True):
            row = rows[(self.codes[rows] == k) & (self.given[rows] == h)][-1]
            raise self._contradiction(row, k, h, taken[k, h])
        upper = np.maximum(upper, 0.0)
        sizes = self.open_groups.sizes
        for k in np.flatnonzero(
            (lower.sum(axis=1) > sizes + 1e-9) | (upper.sum(axis=1) < sizes - 1e-9)
        ):
            last = int(rows[self.codes[rows] == k][-1])
            left, least, most = compared(sizes[k], lower[k].sum(), upper[k].sum())
            raise GivenLabelError(
                "",
                f"given labels that leave {left} rows without a label, of which the totals want "
                f"{least} to {most}",
                "given labels that leave room for every class's total",
                "correct the labels or the totals",
                row=last,
                bag=self.ids[k],
            )
        return tighten(lower, upper, sizes)

    def _contradiction(self, row: int, k: int, h: int, count: float) -> GivenLabelError:
        label = self.classes.tolist()[h]
        exact = self.upper[k, h] - self.lower[k, h] <= 1e-9
        given, least, most = compared(count, self.lower[k, h], self.upper[k, h])
        allowed = f"exactly {most}" if exact else f"from {least} to {most}"
        rows = "row" if count == 1 else "rows"
        return GivenLabelError(
            "",
            f"the label {label!r}, given to {given} {rows} of it",
            f"{allowed} of them",
            "correct the labels or the totals; rounded totals can be given as counts or intervals",
            row=int(row),
            bag=self.ids[k],
        )


def overall_shares(
    lower: FloatArray, upper: FloatArray, sizes: FloatArray, labeled: AnyArray | int = 0
) -> FloatArray:
    """Return the class shares of all rows, from bags' masses and counts of labels in no bag."""
    size = np.maximum(sizes, 1.0)[:, None]
    middle = 0.5 * (lower + upper) / size
    middle /= np.maximum(middle.sum(axis=1, keepdims=True), 1e-300)
    known = sizes * (1.0 - ((upper - lower) / size).max(axis=1))
    mass = known @ middle + labeled
    if mass.sum() <= 0:
        return np.full(len(mass), 1.0 / len(mass))
    return np.asarray(mass / mass.sum())


def shares_near(
    overall: FloatArray, lower: FloatArray, upper: FloatArray, sizes: FloatArray
) -> FloatArray:
    """Return the shares of each bag that its masses allow, nearest to the overall ones."""
    size = np.maximum(sizes, 1.0)[:, None]
    low, high = lower / size, upper / size
    one = np.where(sizes > 0, 1.0, low.sum(axis=1))
    return nearest_totals(np.tile(overall, (len(sizes), 1)), low, high, one)


def match_bags(
    n_samples: int,
    y: Any = None,
    bags: Any = None,
    proportions: Any = None,
    *,
    classes: AnyArray | None = None,
) -> Bags:
    """Return the rows matched with their bags' totals and given labels.

    Parameters
    ----------
    n_samples : int
        The number of rows.
    y : array-like of shape (n_samples,), optional
        Given labels; missing = not known.
    bags : array-like of shape (n_samples,), optional
        Bag ids, anything hashable; missing = in no bag.
    proportions : Totals, dataframe, mapping or array, optional
        The bags' totals; anything but a `Totals` is read by `Totals.from_proportions`.
    classes : ndarray of shape (n_classes,), optional
        The classes, where they are known beforehand: others are an error, absent ones have mass 0.

    Examples
    --------
    >>> bags = match_bags(4, bags=["a", "a", "b", "b"], proportions={"a": 0.5, "b": 1.0})
    >>> bags.lower
    array([[1., 1.],
           [0., 2.]])
    """
    if (bags is None) != (proportions is None):
        here, absent = ("bags", "proportions") if proportions is None else ("proportions", "bags")
        raise SupervisionError(
            "the supervision",
            f"`{here}` without `{absent}`",
            "both, or neither and labels `y` alone",
            f"pass `{absent}` too"
            + (", if not as `y`: that is for known labels" if y is not None else ""),
        )
    if bags is None and y is None:
        raise SupervisionError(
            "the supervision",
            "neither `bags` with `proportions` nor labels `y`",
            "`bags` and `proportions`, or `y`, or all three",
            "say how the classes are shared out, e.g. fit(X, bags=day, proportions=table)",
        )
    label_codes, labels = (np.full(n_samples, -1), []) if y is None else factorize(y, "label")
    _refuse_other_length("y", label_codes, n_samples)
    if bags is None:
        if not labels:
            raise SupervisionError(
                "y", "no label at all", "at least one label", "label a row, or give bags and totals"
            )
        classes, order = sorted_classes(labels)
        place = np.argsort(order)
        none = np.zeros((0, len(classes)))
        given = np.append(place, -1)[label_codes]
        return Bags((), classes, np.full(n_samples, -1), none, none, given)

    row_codes, ids = factorize(bags, "bag id")
    _refuse_other_length("bags", row_codes, n_samples)
    _refuse_one_value_a_row(proportions, ids, n_samples)
    totals = as_totals(proportions)
    if classes is not None:
        totals = totals.with_classes(classes)
    if not ids and not labels:
        raise no_bagged_rows()
    position = {bag: k for k, bag in enumerate(totals.ids)}
    for code, bag in enumerate(ids):
        if bag not in position:
            raise _no_totals(bag, int(np.flatnonzero(row_codes == code)[0]), totals, proportions)
    used = sorted(position[bag] for bag in ids)
    new_place = {old: new for new, old in enumerate(used)}
    to_new = np.array([new_place[position[bag]] for bag in ids] + [-1], dtype=np.intp)
    codes = to_new[row_codes]
    sizes = np.bincount(codes[codes >= 0], minlength=len(used)).astype(np.float64)
    lower, upper = masses_for(totals, np.array(used, dtype=np.intp), sizes)
    given = _given_codes(label_codes, labels, totals.classes)
    return Bags(tuple(totals.ids[k] for k in used), totals.classes, codes, lower, upper, given)


def _given_codes(codes: IntArray, labels: list[Any], classes: AnyArray) -> IntArray:
    known = {label: h for h, label in enumerate(classes.tolist())}
    for code, label in enumerate(labels):
        if label not in known:
            row = int(np.flatnonzero(codes == code)[0])
            raise SupervisionError(
                "",
                f"the label {label!r}, which the totals do not know",
                f"the totals' classes, {name_some(map(repr, known))}, or None for 'not known'",
                "correct the label, or name the class in the totals",
                row=row,
            )
    return np.array([known[label] for label in labels] + [-1], dtype=np.intp)[codes]


def _refuse_other_length(name: str, codes: IntArray, n_samples: int) -> None:
    if len(codes) != n_samples:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {n_samples} rows, "
            f"`{name}` has {len(codes)} values. Give one value a row."
        )


def _refuse_one_value_a_row(proportions: Any, ids: list[Any], n_samples: int) -> None:
    """Raise where `proportions` looks like the labels of the rows."""
    if isinstance(proportions, Totals | Mapping) or np.ndim(proportions) != 1:
        return
    index: Any = getattr(proportions, "index", None)
    names = set() if index is None or callable(index) else set(index)
    by_id = set(ids) <= names and names != set(range(n_samples))
    if len(proportions) == n_samples > len(ids) and not by_id:
        raise SupervisionError(
            "`proportions`",
            f"one value a row ({n_samples}), while there are {len(ids)} bags",
            "one line a bag",
            "give the bags' totals here; known labels of rows are `y`",
        )


def _no_totals(bag: Any, row: int, totals: Totals, source: Any) -> SupervisionError:
    """Return the error for a bag that has rows but no line in the table."""
    from_array = not isinstance(source, Totals) and np.ndim(source) in (1, 2)
    from_array = from_array and totals.ids == tuple(range(len(totals.ids)))
    if from_array and not hasattr(source, "columns") and not hasattr(source, "index"):
        return SupervisionError(
            "",
            "no totals: an array of proportions has no bag ids, its row k is bag k",
            f"bag ids from 0 to {len(totals.ids) - 1}, or a mapping from bag id to shares",
            "pass a mapping or a dataframe with the bag ids",
            row=row,
            bag=bag,
        )
    return no_totals_for(bag, row, totals.ids)


def no_totals_for(
    bag: Any, row: int, ids: tuple[Any, ...], place: str | None = None
) -> SupervisionError:
    """Return the error for a bag that has a row but no totals."""
    return SupervisionError(
        "",
        "rows, but no line in the table of totals",
        f"the bags of the table: {name_some(map(repr, ids))}",
        _hint_for(bag, ids),
        row=row,
        bag=bag,
        place=place,
    )


def no_bagged_rows() -> SupervisionError:
    """Return the error for rows that are all in no bag."""
    return SupervisionError(
        "",
        "no row that is in a bag, all ids being missing",
        "at least one bag with rows",
        "check the column of bag ids",
        parameter="bags",
    )


def _hint_for(bag: Any, ids: tuple[Any, ...]) -> str:
    """Return what may be meant by an id that the table does not have."""
    words = str(bag).strip().casefold()
    for other in ids:
        text = str(other).strip().casefold()
        if text == words and type(other) is type(bag):
            return f"the table has {other!r}: write both alike"
        if text == words or text.startswith(f"{words} ") or words.startswith(f"{text} "):
            return (
                f"the table has {other!r} of type {type(other).__name__}, the rows have "
                f"{type(bag).__name__}: make the types equal"
            )
    if all(type(other) is not type(bag) for other in ids):
        return (
            f"the table's ids are of type {type(ids[0]).__name__}, e.g. {ids[0]!r}, the rows' of "
            f"type {type(bag).__name__}: make the types equal"
        )
    return "correct the id, add a line for it (missing cells for 'not known'), or leave it missing"
