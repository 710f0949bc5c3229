"""Which classes the totals of bags can tell apart, before anything is fitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from apportion._utils.html_table import SHOWN_ROWS, HTMLTable, Marked, class_columns
from apportion._utils.typing import AnyArray, FloatArray
from apportion.exceptions import counted, name_some
from apportion.supervision.bags import Bags, match_bags

_NOTHING = 1e-9
_WEAK = 0.5
"""The index times the number of rows, below which a pair of classes is hardly told apart.

Bags drawn at random have an index of about (bags - 1) / rows, far above this.
"""

_FEW = 3.0
"""A class with fewer rows than this is hard to place: one or two rows show nothing in common.

Of classes cut down to 1 or 2 rows among 400 (LPLLP, seven random bags; segment, satimage, vowel and
phoneme), 4 to 8 % of the rows were found, of 3 or 4 rows 12 %, of 6 or 8 rows 19 %.
"""

_ONE = 0.95
"""Totals count as a row from here on: diaries take a period to be whole of which 95 % was recorded,
so that a duration of one window may be a total of slightly less."""

_LISTED = 3
"""So many classes that are hard to place have a sentence each; more share one."""


class HardToPlace(NamedTuple):
    """A class that takes so few rows that its labels are likely to be wrong.

    Attributes
    ----------
    label : object
        The class.
    total : float
        The most rows that it takes in all.
    exact : bool
        Whether it takes exactly that many.
    bags : tuple
        The ids of the bags in which it takes some, but less than one row.
    n_bags : int
        The number of bags in which it takes some.
    """

    label: Any
    total: float
    exact: bool
    bags: tuple[Any, ...]
    n_bags: int

    @property
    def amount(self) -> str:
        """How few rows it takes, in words."""
        if self.total < _FEW * _ONE:
            number = f"{self.total:.2g}"
            rows = "row" if number == "1" else "rows"
            return f"{'' if self.exact else 'at most '}{number} {rows} in all"
        share = "each" if len(self.bags) == self.n_bags else str(len(self.bags))
        return f"less than one row in {share} of its {self.n_bags} totals"


@dataclass(frozen=True)
class Diagnosis:
    """How much the totals tell about the classes.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        The classes.
    index : float
        The information index `Σ n_k ‖π_k - π̄‖² / (n (1 - ‖π̄‖²))`: 0 when all bags have the same
        proportions, 1 when every bag is pure. For two classes: the share of the label's variance
        that lies between bags.
    pairwise : ndarray of shape (n_classes, n_classes)
        The same index for every pair of classes alone; NaN where a class has no mass.
    rank : int
        The rank of the table of proportions; less than the number of classes that have mass when
        some mixture of them looks the same in every bag.
    smallest_singular_value : float
        The smallest singular value of the table of proportions, with bags weighted by size and
        without the classes that have no mass. Near 0, small errors in the totals have large
        effects.
    findings : tuple of str
        Which classes cannot, or hardly, be told apart, in sentences; empty if there are none.
    absent : tuple
        Classes without mass, because every total of them is 0: no row gets their label.
    hard_to_place : tuple of HardToPlace
        Classes with fewer than 3 rows in all, or with less than one row in at least half of the
        bags that have them; 95 % of a row count as one.

    Examples
    --------
    >>> diagnosis = diagnose(["mon", "mon", "tue", "tue"], {"mon": 0.5, "tue": 1.0})
    >>> round(diagnosis.index, 3), diagnosis.rank, diagnosis.uninformative
    (0.333, 2, False)
    """

    classes: AnyArray
    index: float
    pairwise: FloatArray
    rank: int
    smallest_singular_value: float
    findings: tuple[str, ...]
    absent: tuple[Any, ...] = ()
    hard_to_place: tuple[HardToPlace, ...] = ()

    @property
    def uninformative(self) -> bool:
        """Whether some pair of classes cannot be told apart by any bag."""
        return bool((self.pairwise <= _NOTHING).any())

    @property
    def hardest_pair(self) -> tuple[float, Any, Any] | None:
        """The smallest index of a pair of classes, and that pair; None where there is no pair."""
        labels = self.classes.tolist()
        pairs = [
            (float(self.pairwise[g, h]), labels[g], labels[h])
            for g, h in combinations(range(len(labels)), 2)
            if np.isfinite(self.pairwise[g, h])
        ]
        return min(pairs, key=lambda pair: pair[0], default=None)

    def __str__(self) -> str:
        n_present = len(self.classes) - len(self.absent)
        lines = [
            f"information index {self.index:.3f} (0: equal proportions in every bag, 1: pure bags)",
            f"rank {self.rank} of {counted(n_present, 'class')}, "
            f"smallest singular value {self.smallest_singular_value:.3g}",
        ]
        if self.absent:
            names = name_some(map(repr, self.absent), 12)
            lines.append(f"not counted, because every total of it is 0: {names}")
        if len(self.classes) > 2 and self.hardest_pair is not None:
            index, *pair = self.hardest_pair
            lines.append("hardest pair: {!r} and {!r}, index {:.3f}".format(*pair, index))
        return "\n".join([*lines, *self._sentences()])

    def _sentences(self) -> list[str]:
        return [*self.findings, *placing_sentences({"": self.hard_to_place})]

    def _repr_html_(self) -> str:
        """Return the information index of every pair of classes, as a table for notebooks."""
        labels = self.classes.tolist()
        names, n_shown = class_columns(labels)
        more = ["…"] * (len(labels) > n_shown)
        shown = min(n_shown, SHOWN_ROWS)
        figures = str(self).splitlines()[: -len(self._sentences()) or None]
        table = HTMLTable(
            "Information index of pairs of classes",
            ["class", *names],
            [
                [label, *map(_index_cell, row[:n_shown]), *more]
                for label, row in zip(labels[:shown], self.pairwise, strict=False)
            ],
            n_left=max(len(labels) - shown, 0),
            row_word="classes",
            notes=[*figures, *self._sentences()],
        )
        return str(table)


def _index_cell(index: float) -> Any:
    """Return the index of a pair, bold if nothing tells the two classes apart."""
    if np.isnan(index):
        return "–"
    return Marked(f"{index:.3f}") if index <= _NOTHING else f"{index:.3f}"


def diagnose(bags: Any = None, proportions: Any = None, *, y: Any = None) -> Diagnosis:
    """Return which classes the totals can tell apart.

    Parameters
    ----------
    bags : array-like of shape (n_samples,)
        One bag id per row.
    proportions : Totals, dataframe, mapping or array
        The bags' totals.
    y : array-like of shape (n_samples,), optional
        Given labels; each counts as a pure bag of one row.

    Returns
    -------
    Diagnosis
        What the totals tell apart; printed, it is a text.

    Examples
    --------
    >>> same = {"mon": {"sit": 0.5, "stand": 0.5}, "tue": {"sit": 0.5, "stand": 0.5}}
    >>> print(diagnose(["mon", "mon", "tue", "tue"], same).findings[0])
    The totals do not tell 'sit' from 'stand' apart: they have equal shares everywhere, and
    exchanging them changes nothing that the totals say.
    """
    rows = bags if bags is not None else y
    n_samples = 0 if rows is None else len(rows)
    return diagnose_bags(match_bags(n_samples, y, bags, proportions))


def diagnose_bags(bags: Bags) -> Diagnosis:
    """Return which classes matched bags can tell apart; see `diagnose`.

    The given labels of a class are a pure bag of their own.
    """
    given = np.bincount(bags.given[bags.given >= 0], minlength=bags.n_classes).astype(np.float64)
    shares = np.vstack([bags.shares, np.eye(bags.n_classes)])
    sizes = np.concatenate([bags.open_groups.sizes, given])
    some = sizes > 0
    exact = bool(bags.exact.all())
    diagnosis = diagnose_shares(bags.classes, shares[some], sizes[some], exact=exact)
    loose = bags.given[(bags.given >= 0) & (bags.codes < 0)]
    n_loose = np.bincount(loose, minlength=bags.n_classes)
    found = hard_to_place(bags.ids, bags.classes, bags.lower, bags.upper, n_loose)
    # A class all of whose rows have given labels is placed.
    n_open = dict(zip(bags.classes.tolist(), bags.open_upper.sum(axis=0).tolist(), strict=True))
    found = tuple(few for few in found if n_open[few.label] > _NOTHING)
    return replace(diagnosis, hard_to_place=found)


def diagnose_shares(
    classes: AnyArray, shares: FloatArray, sizes: FloatArray, *, exact: bool
) -> Diagnosis:
    """Return which classes bags of these shares and sizes can tell apart; see `diagnose`."""
    n = max(sizes.sum(), 1.0)
    mean = sizes @ shares / n
    spread = float(sizes @ ((shares - mean) ** 2).sum(axis=1) / n)
    whole = 1.0 - float((mean**2).sum())
    pairwise = _pairwise_index(shares, sizes)
    present = mean > 0
    table = np.sqrt(sizes / n)[:, None] * shares[:, present]
    singular = np.linalg.svd(table, compute_uv=False)
    c = int(present.sum())
    values = np.pad(singular, (0, max(0, c - len(singular))))[:c]
    return Diagnosis(
        classes=classes,
        index=spread / whole if whole > _NOTHING else 1.0,
        pairwise=pairwise,
        rank=int((values > 1e-9 * max(float(values.max(initial=0.0)), 1e-300)).sum()),
        smallest_singular_value=float(values.min(initial=np.inf)),
        findings=_findings(classes.tolist(), exact, mean, pairwise, n * (mean[:, None] + mean)),
        absent=tuple(np.asarray(classes)[~present].tolist()),
    )


def hard_to_place(
    ids: Sequence[Any],
    classes: AnyArray,
    lower: FloatArray,
    upper: FloatArray,
    n_loose: AnyArray | int = 0,
) -> tuple[HardToPlace, ...]:
    """Return the classes that are hard to place, see `Diagnosis`.

    Parameters
    ----------
    ids : sequence
        The ids of the bags.
    classes : ndarray of shape (n_classes,)
        The classes.
    lower, upper : ndarray of shape (n_bags, n_classes)
        Bounds of the class masses of each bag.
    n_loose : ndarray of shape (n_classes,), optional
        The number of given labels of each class outside the bags.
    """
    has = upper > _NOTHING
    below = has & (upper < _ONE)
    total, n_bags, n_below = upper.sum(axis=0) + n_loose, has.sum(axis=0), below.sum(axis=0)
    few = has.any(axis=0) & ((total < _FEW * _ONE) | (2 * n_below >= n_bags))
    exact = np.all(upper - lower <= _NOTHING, axis=0)
    return tuple(
        HardToPlace(
            classes.tolist()[h],
            float(total[h]),
            bool(exact[h]),
            tuple(ids[k] for k in np.flatnonzero(below[:, h]).tolist()),
            int(n_bags[h]),
        )
        for h in np.flatnonzero(few).tolist()
    )


def placing_sentences(found: Mapping[str, Sequence[HardToPlace]]) -> list[str]:
    """Return which classes are hard to place, by group, in sentences: one each, or one for all.

    No sentence uses the word "bag", because people who keep diaries read them, too.

    Examples
    --------
    >>> placing_sentences({"": [HardToPlace("toilet", 2.0, True, (), 2)]})
    ["'toilet' takes 2 rows in all: hard to place"]
    """
    named = [
        (f"{group}: {few.label!r}" if group else repr(few.label), few.amount)
        for group, some in found.items()
        for few in some
    ]
    if len(named) <= _LISTED:
        return [f"{name} takes {amount}: hard to place" for name, amount in named]
    return [f"hard to place: {name_some(f'{name} ({amount})' for name, amount in named)}"]


def _pairwise_index(shares: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return, for classes g and h alone, the share of the variance of g that lies between bags."""
    c = shares.shape[1]
    index = np.full((c, c), np.nan)
    for g, h in combinations(range(c), 2):
        both = shares[:, g] + shares[:, h]
        weight = sizes * both
        ratio = np.divide(shares[:, g], both, out=np.zeros_like(both), where=both > 0)
        total = weight.sum()
        mean = weight @ ratio / total if total > 0 else 0.0
        within = mean * (1.0 - mean)
        if within > _NOTHING:
            index[g, h] = index[h, g] = weight @ (ratio - mean) ** 2 / (total * within)
    return index


def _findings(
    classes: list[Any], exact: bool, mean: FloatArray, pairwise: FloatArray, weight: FloatArray
) -> tuple[str, ...]:
    """Return, in sentences, which classes the totals do not or hardly tell apart.

    No sentence uses the word "bag", because people who keep diaries read them, too.
    """
    alike = pairwise <= _NOTHING
    limit = "" if exact else "as far as the totals are known, "
    sentences = []
    for group, names in _related_groups(alike, classes):
        shares = mean[group] / mean[group].sum()
        ratio = (
            "have equal shares everywhere, and exchanging them changes nothing that the totals say"
            if np.ptp(shares) <= _NOTHING
            else f"stand {' to '.join(f'{share:.3g}' for share in shares)} everywhere, and only "
            "the size of groups of similar rows is left to go by"
        )
        sentences.append(f"The totals do not tell {names} apart: {limit}they {ratio}.")
    for group, names in _related_groups(~alike & (pairwise * weight < _WEAK), classes):
        weakest = np.nanmin(pairwise[np.ix_(group, group)])
        sentences.append(
            f"The totals hardly tell {names} apart: they stand in almost the same ratio everywhere "
            f"(information index {weakest:.1e}), and their labels may come out exchanged."
        )
    return tuple(sentences)


def _related_groups(related: AnyArray, classes: list[Any]) -> Iterator[tuple[list[int], str]]:
    """Yield the sets of classes that are related, directly or through others, and their names."""
    _, label = connected_components(np.nan_to_num(related), directed=False)
    for g in range(label.max(initial=-1) + 1):
        group = np.flatnonzero(label == g).tolist()
        *names, last = (repr(classes[h]) for h in group)
        if names:
            yield group, f"{', '.join(names)} {'from' if len(names) == 1 else 'and'} {last}"
