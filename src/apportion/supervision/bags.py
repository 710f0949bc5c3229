"""Rows matched with totals.

Whatever form the supervision has, `match_bags` turns it into lower and upper class masses of every
bag, and into labels that are given for single rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from apportion._io.identifiers import factorize
from apportion._utils.box_projection import nearest_totals
from apportion._utils.groups import Groups
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.exceptions import GivenLabelError, SupervisionError, compared, name_some
from apportion.supervision.total_bounds import contradicted, room_for, tighten
from apportion.supervision.totals import Totals, as_totals, masses_for, sorted_classes


@dataclass(eq=False)
class Bags:
    """The rows' bags, the bags' class masses and the rows' given labels.

    A row with a given label leaves its bag and takes its label out of the bag's masses; the rows
    that remain are the open ones.

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
    most_episodes : ndarray of shape (n_bags, n_classes), or None
        The most episodes of each class that begin in each bag, whatever labels are given; NaN =
        not known.
    groups, open_groups : Groups
        All rows, and the open rows, by bag.

    Examples
    --------
    >>> bags = match_bags(3, bags=["a", "a", "a"], proportions={"a": 1 / 3}, y=[1, None, None])
    >>> bags.lower, bags.open_lower
    (array([[2., 1.]]), array([[2., 0.]]))
    """

    ids: tuple[Any, ...]
    classes: AnyArray
    codes: IntArray
    lower: FloatArray
    upper: FloatArray
    given: IntArray
    most_episodes: FloatArray | None = None

    def __post_init__(self) -> None:
        self.groups = Groups(self.codes, len(self.ids))
        self.open_groups = Groups(np.where(self.given >= 0, -1, self.codes), len(self.ids))
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
        """The class shares of all rows, as far as the totals determine them.

        Bags are weighted by their size and by how narrow their widest interval is; given labels
        outside bags count in full. Where nothing is known, all classes are equally likely.
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
        position = np.append(np.argsort(bags), -1)
        ids = tuple(self.ids[k] for k in bags)
        codes, lower, upper = position[self.codes[rows]], self.lower[bags], self.upper[bags]
        most = _some_of(self.most_episodes, bags)
        return Bags(ids, self.classes, codes, lower, upper, self.given[rows], most)

    def only(self, bags: IntArray) -> Bags:
        """Return some of the bags; rows of the others are in no bag, and keep no given label."""
        position = np.full(len(self.ids) + 1, -1)
        position[bags] = np.arange(len(bags))
        codes = position[self.codes]
        given = np.where((self.codes >= 0) & (codes < 0), -1, self.given)
        ids = tuple(self.ids[k] for k in bags)
        lower, upper = self.lower[bags], self.upper[bags]
        most = _some_of(self.most_episodes, bags)
        return Bags(ids, self.classes, codes, lower, upper, given, most)

    def without(self, hidden: BoolArray) -> Bags:
        """Return what is known without the totals and labels of some rows, of whole bags."""
        codes, given = np.where(hidden, -1, self.codes), np.where(hidden, -1, self.given)
        kept = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(self.ids)))
        position = np.full(len(self.ids) + 1, -1)
        position[kept] = np.arange(len(kept))
        ids, most = tuple(self.ids[k] for k in kept), _some_of(self.most_episodes, kept)
        lower, upper = self.lower[kept], self.upper[kept]
        return Bags(ids, self.classes, position[codes], lower, upper, given, most)

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
        sizes = self.open_groups.sizes
        too_many, too_few = contradicted(self.lower, self.upper, taken, sizes)
        for k, h in zip(*np.nonzero(too_many), strict=True):
            row = rows[(self.codes[rows] == k) & (self.given[rows] == h)][-1]
            raise self._contradiction(int(row), k, h, taken[k, h])
        for k in np.flatnonzero(too_few):
            least = np.maximum(self.lower[k] - taken[k], 0.0).sum()
            n_left, low, high = compared(sizes[k], least, (self.upper[k] - taken[k]).sum())
            raise GivenLabelError(
                "",
                f"given labels that leave {n_left} rows without a label, of which the totals want "
                f"{low} to {high}",
                "given labels that leave room for every class's total",
                "correct the labels or the totals",
                row=int(rows[self.codes[rows] == k][-1]),
                bag=self.ids[k],
            )
        lower, upper = room_for(self.lower, self.upper, taken, sizes)
        return tighten(np.maximum(lower - taken, 0.0), upper - taken, sizes)

    def _contradiction(self, row: int, k: int, h: int, count: float) -> GivenLabelError:
        n_given, least, most = compared(count, self.lower[k, h], self.upper[k, h])
        exact = self.upper[k, h] - self.lower[k, h] <= 1e-9
        rows = "row" if count == 1 else "rows"
        return GivenLabelError(
            "",
            f"the label {self.classes.tolist()[h]!r}, given to {n_given} {rows} of it",
            f"{f'exactly {most}' if exact else f'from {least} to {most}'} of them",
            "correct the labels or the totals; rounded totals can be given as counts or intervals",
            row=row,
            bag=self.ids[k],
        )


def overall_shares(
    lower: FloatArray, upper: FloatArray, sizes: FloatArray, labeled: AnyArray | int = 0
) -> FloatArray:
    """Return the class shares of all rows, from the bags' masses and counts of other labels."""
    size = np.maximum(sizes, 1.0)[:, None]
    middle = 0.5 * (lower + upper) / size
    middle /= np.maximum(middle.sum(axis=1, keepdims=True), 1e-300)
    weights = sizes * (1.0 - ((upper - lower) / size).max(axis=1))
    mass = weights @ middle + labeled
    if mass.sum() <= 0:
        return np.full(len(mass), 1.0 / len(mass))
    return np.asarray(mass / mass.sum())


def shares_near(
    overall: FloatArray, lower: FloatArray, upper: FloatArray, sizes: FloatArray
) -> FloatArray:
    """Return the shares of each bag that its masses allow, nearest to the overall ones."""
    size = np.maximum(sizes, 1.0)[:, None]
    low, high = lower / size, upper / size
    whole = np.where(sizes > 0, 1.0, low.sum(axis=1))
    return nearest_totals(np.tile(overall, (len(sizes), 1)), low, high, whole)


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

    Returns
    -------
    Bags
        The bag of every row, and bounds on the rows of every class in every bag.

    Examples
    --------
    >>> bags = match_bags(4, bags=["a", "a", "b", "b"], proportions={"a": 0.5, "b": 1.0})
    >>> bags.lower
    array([[1., 1.],
           [0., 2.]])
    """
    if (bags is None) != (proportions is None):
        present, absent = ("bags", "proportions")[:: 1 if proportions is None else -1]
        advice = f"pass `{absent}` too"
        advice += "" if y is None else ", if not as `y`: that is for known labels"
        allowed = "both, or neither and labels `y` alone"
        raise SupervisionError(
            "the supervision", f"`{present}` without `{absent}`", allowed, advice
        )
    if bags is None and y is None:
        found = "neither `bags` with `proportions` nor labels `y`"
        allowed = "`bags` and `proportions`, or `y`, or all three"
        advice = "give the totals of bags, e.g. fit(X, bags=day, proportions=table)"
        raise SupervisionError("the supervision", found, allowed, advice)
    label_codes, labels = (np.full(n_samples, -1), []) if y is None else factorize(y, "label")
    refuse_other_length("y", label_codes, n_samples)
    if bags is None:
        if not labels:
            raise SupervisionError(
                "y", "no label at all", "at least one label", "label a row, or give bags and totals"
            )
        classes = sorted_classes(labels)[0]
        none = np.zeros((0, len(classes)))
        given = _given_codes(label_codes, labels, classes)
        return Bags((), classes, np.full(n_samples, -1), none, none, given)

    row_codes, ids = factorize(bags, "bag id")
    refuse_other_length("bags", row_codes, n_samples)
    _refuse_labels_as_totals(proportions, ids, n_samples)
    totals = as_totals(proportions)
    if classes is not None:
        totals = totals.with_classes(classes)
    if not ids and not labels:
        raise no_row_in_a_bag()
    line = {bag: k for k, bag in enumerate(totals.ids)}
    for code, bag in enumerate(ids):
        if bag not in line:
            row = int(np.flatnonzero(row_codes == code)[0])
            if _has_no_ids(proportions, totals):
                found = "no totals: an array of proportions has no bag ids, its row k is bag k"
                allowed = f"bag ids from 0 to {len(line) - 1}, or a mapping from bag id to shares"
                advice = "pass a mapping or a dataframe with the bag ids"
                raise SupervisionError("", found, allowed, advice, row=row, bag=bag)
            raise bag_without_totals(bag, row, totals.ids)
    used, order = np.unique([line[bag] for bag in ids], return_inverse=True)
    codes = np.append(order, -1)[row_codes]
    sizes = np.bincount(codes[codes >= 0], minlength=len(used)).astype(np.float64)
    lower, upper = masses_for(totals, used.astype(np.intp), sizes)
    given = _given_codes(label_codes, labels, totals.classes)
    ids_used = tuple(totals.ids[k] for k in used)
    most = _some_of(totals.most_episodes, used)
    return Bags(ids_used, totals.classes, codes, lower, upper, given, most)


def _some_of(most_episodes: FloatArray | None, bags: IntArray) -> FloatArray | None:
    return None if most_episodes is None else most_episodes[bags]


def _given_codes(codes: IntArray, labels: list[Any], classes: AnyArray) -> IntArray:
    position = {label: h for h, label in enumerate(classes.tolist())}
    for code, label in enumerate(labels):
        if label not in position:
            row = int(np.flatnonzero(codes == code)[0])
            found = f"the label {label!r}, which the totals do not know"
            allowed = f"the totals' classes, {name_some(map(repr, position))}, or None if not known"
            advice = "correct the label, or name the class in the totals"
            raise SupervisionError("", found, allowed, advice, row=row)
    return np.array([*(position[label] for label in labels), -1], dtype=np.intp)[codes]


def refuse_other_length(name: str, codes: AnyArray, n_samples: int) -> None:
    """Raise if there is not one value per row."""
    if len(codes) != n_samples:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {n_samples} rows, "
            f"`{name}` has {len(codes)} values. Give one value per row."
        )


def _refuse_labels_as_totals(proportions: Any, ids: list[Any], n_samples: int) -> None:
    """Raise where `proportions` looks like the labels of the rows."""
    if isinstance(proportions, Totals | Mapping) or np.ndim(proportions) != 1:
        return
    index: Any = getattr(proportions, "index", None)
    names = set() if index is None or callable(index) else set(index)
    by_id = set(ids) <= names and names != set(range(n_samples))
    if len(proportions) == n_samples > len(ids) and not by_id:
        found = f"one value per row ({n_samples}), while there are {len(ids)} bags"
        advice = "give the bags' totals here; known labels of rows are `y`"
        raise SupervisionError("", found, "one row per bag", advice, parameter="proportions")


def no_row_in_a_bag() -> SupervisionError:
    """Return the error for rows of which none is in a bag."""
    found = "no row that is in a bag, because all ids are missing"
    allowed, advice = "at least one bag with rows", "check the column of bag ids"
    return SupervisionError("", found, allowed, advice, parameter="bags")


def bag_without_totals(
    bag: Any, row: int, ids: Collection[Any], place: str | None = None
) -> SupervisionError:
    """Return the error for a bag that has rows but no totals among those of these ids."""
    found = "rows, but no line in the table of totals"
    allowed, advice = f"the bags of the table: {name_some(map(repr, ids))}", _hint_for(bag, ids)
    return SupervisionError("", found, allowed, advice, row=row, bag=bag, place=place)


def _has_no_ids(proportions: Any, totals: Totals) -> bool:
    """Return whether totals are from an array, whose row k is bag k."""
    named = isinstance(proportions, Totals) or np.ndim(proportions) not in (1, 2)
    named = named or hasattr(proportions, "columns") or hasattr(proportions, "index")
    return not named and totals.ids == tuple(range(len(totals.ids)))


def _hint_for(bag: Any, ids: Collection[Any]) -> str:
    """Return what an id that the table does not have may mean."""
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
        first = next(iter(ids))
        return (
            f"the table's ids are of type {type(first).__name__}, e.g. {first!r}, the rows' of "
            f"type {type(bag).__name__}: make the types equal"
        )
    return "correct the id, add a line for it (missing cells for 'not known'), or leave it missing"
