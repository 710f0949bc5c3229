"""What a design of bags can tell apart, and what it cannot, before anything is fitted."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from apportion._utils.typing import AnyArray, FloatArray
from apportion.exceptions import counted, name_some
from apportion.supervision.bags import Bags, match_bags

_NOTHING = 1e-9
_WEAK = 0.5
"""Bags drawn at random have an index of about (bags - 1) / rows; this is far below that."""


@dataclass(frozen=True)
class Diagnosis:
    """How much the totals say.

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
        Of the table of proportions with bags weighted by size, classes without mass aside: near 0,
        small errors in the totals are large errors in what they say.
    findings : tuple of str
        What cannot, or hardly, be told apart, in words; empty when there is nothing to say.
    absent : tuple
        Classes without mass, because every total of them is 0: no row gets their label.
    """

    classes: AnyArray
    index: float
    pairwise: FloatArray
    rank: int
    smallest_singular_value: float
    findings: tuple[str, ...]
    absent: tuple[Any, ...] = ()

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
            index, one, other = self.hardest_pair
            lines.append(f"hardest pair: {one!r} and {other!r}, index {index:.3f}")
        return "\n".join([*lines, *self.findings])


def diagnose(bags: Any = None, proportions: Any = None, *, y: Any = None) -> Diagnosis:
    """Return what the totals can tell apart.

    Parameters
    ----------
    bags : array-like of shape (n_samples,)
        One bag id a row.
    proportions : Totals, dataframe, mapping or array
        The bags' totals.
    y : array-like of shape (n_samples,), optional
        Given labels; each counts as a pure bag of one row.

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
    """Return what matched bags can tell apart; see `diagnose`."""
    return diagnose_shares(bags.classes, *_design(bags), exact=bool(bags.exact.all()))


def diagnose_shares(
    classes: AnyArray, shares: FloatArray, sizes: FloatArray, *, exact: bool
) -> Diagnosis:
    """Return what bags of these shares and sizes can tell apart; see `diagnose`."""
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


def _design(bags: Bags) -> tuple[FloatArray, FloatArray]:
    """Return shares and sizes of the bags; a class's given labels are a pure bag of their own."""
    given = np.bincount(bags.given[bags.given >= 0], minlength=bags.n_classes).astype(np.float64)
    labeled = np.flatnonzero(given)
    shares = np.vstack([bags.shares, np.eye(bags.n_classes)[labeled]])
    sizes = np.concatenate([bags.open_groups.sizes, given[labeled]])
    return shares[sizes > 0], sizes[sizes > 0]


def _pairwise_index(shares: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return, for classes g and h, how much of the variance of 'g, not h' lies between bags."""
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
    """Return, in words, which classes the totals do not tell apart, and which ones they hardly do.

    No sentence says "bag": the same ones are read by people who keep diaries.
    """
    alike = pairwise <= _NOTHING
    known = "" if exact else "as far as the totals are known, "
    sentences = []
    for group in _groups(alike):
        names = _listed([classes[h] for h in group])
        start = f"The totals do not tell {names} apart: {known}they "
        shares = mean[group] / mean[group].sum()
        if np.ptp(shares) <= _NOTHING:
            sentences.append(
                f"{start}have equal shares everywhere, and exchanging them changes nothing that "
                "the totals say."
            )
        else:
            ratio = " to ".join(f"{share:.3g}" for share in shares)
            sentences.append(
                f"{start}stand {ratio} everywhere, and only the size of groups of similar rows "
                "is left to go by."
            )
    for group in _groups(~alike & (pairwise * weight < _WEAK)):
        names = _listed([classes[h] for h in group])
        weakest = np.nanmin(pairwise[np.ix_(group, group)])
        sentences.append(
            f"The totals hardly tell {names} apart: they stand in almost the same ratio everywhere "
            f"(information index {weakest:.1e}), and their labels may come out exchanged."
        )
    return tuple(sentences)


def _groups(related: AnyArray) -> list[list[int]]:
    """Return the sets of classes that are related, directly or through others."""
    _, label = connected_components(np.nan_to_num(related), directed=False)
    groups = [np.flatnonzero(label == g).tolist() for g in range(label.max(initial=-1) + 1)]
    return [group for group in groups if len(group) > 1]


def _listed(items: list[Any]) -> str:
    names = [repr(item) for item in items]
    if len(names) == 2:
        return f"{names[0]} from {names[1]}"
    return f"{', '.join(names[:-1])} and {names[-1]}"
