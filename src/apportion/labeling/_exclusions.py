"""Labels that rows do not have: kept by every method, after it was fitted."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from apportion._core.decode import Decoding, Quotas, bag_counts, threshold, without
from apportion._core.projection import reconcile
from apportion._core.sequence_decode import decode_along_time
from apportion._utils.sequences import Sequences
from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.exceptions import GivenLabelError, counted, name_some
from apportion.supervision.bags import Bags

_NO_NOTES: tuple[str, ...] = ()


class InTime(NamedTuple):
    """Rows in the order of time, and what a change of label costs."""

    sequences: Sequences
    cost: float


class Exclusions:
    """The labels that open rows of matched bags may have.

    Parameters
    ----------
    bags : Bags
        The rows matched with totals and given labels.
    excluded : ndarray of bool, of shape (n_samples, n_classes), or None
        Labels that rows do not have.
    give_way : bool, default=False
        Whether totals that leave no room for the exclusions give way, or are an error.

    Attributes
    ----------
    bags : Bags
        The same, with bounds that leave room for the exclusions.
    notes : tuple of str
        Which totals gave way.

    Examples
    --------
    >>> from apportion.supervision.bags import match_bags
    >>> bags = match_bags(3, bags=["a"] * 3, proportions={"a": 1 / 3})
    >>> rules = Exclusions(bags, np.array([[0, 1], [0, 0], [0, 1]], dtype=bool))
    >>> F = rules.soft_labels(np.array([[0.2, 0.8], [0.9, 0.1], [0.5, 0.5]]))
    >>> F[:, 1].round(6).tolist()
    [0.0, 1.0, 0.0]
    >>> rules.decode(F, "quota", np.arange(3))["quota"].labels.tolist()
    [0, 1, 0]
    """

    def __init__(self, bags: Bags, excluded: BoolArray | None, *, give_way: bool = False) -> None:
        self.bags, self.notes = bags, _NO_NOTES
        self.excluded = None
        if excluded is not None and excluded.any():
            self.excluded = excluded & (bags.given < 0)[:, None]
            self.bags, self.notes = self._with_room(give_way)

    def soft_labels(self, F: FloatArray) -> FloatArray:
        """Return the soft labels nearest to F that keep the totals and have no excluded label."""
        if self.excluded is None:
            return reconcile(F, self.bags)
        return reconcile(np.where(self.excluded, 0.0, F), self.bags, excluded=self.excluded)

    def decode(
        self,
        F: FloatArray,
        decode: str,
        ranks: IntArray,
        in_time: InTime | None = None,
        scores: FloatArray | None = None,
    ) -> dict[str, Decoding]:
        """Return labels by quota, by threshold and, if asked for, along time.

        Parameters
        ----------
        F : ndarray of shape (n_samples, n_classes)
            Soft labels, as `soft_labels` returns them.
        decode : {"quota", "threshold", "sequence"}
            What is asked for.
        ranks : ndarray of int, of shape (n_samples,)
            An order of the rows to break exact ties by.
        in_time : InTime, optional
            When the rows were.
        scores : ndarray of shape (n_samples, n_classes), optional
            What quota labels and labels along time are chosen by, if not F; it decides the counts.
        """
        counts = self._counts(F)
        scores = F if scores is None else scores
        by_quota = Quotas(self.bags, ranks)(without(scores, self.excluded), counts)
        decodings = {"quota": by_quota, "threshold": threshold(F, self.bags)}
        if decode == "sequence":
            decodings["sequence"] = by_quota
            if in_time is not None:
                decodings["sequence"] = self._along_time(scores, ranks, in_time, counts, by_quota)
        return decodings

    def _along_time(
        self, F: FloatArray, ranks: IntArray, in_time: InTime, counts: IntArray, quota: Decoding
    ) -> Decoding:
        labels, tied = decode_along_time(
            F,
            self.bags,
            ranks,
            *in_time,
            self.bags.most_episodes,
            counts=counts,
            excluded=self.excluded,
        )
        if self.excluded is None:
            return Decoding(labels, tied)
        # The search along time avoids excluded labels, and does not promise it. Quota labels of a
        # bag have the same counts, and have none of them.
        broken = self.excluded[np.arange(len(labels)), labels]
        bags = np.zeros(len(self.bags.ids) + 1, dtype=bool)
        bags[self.bags.open_groups.codes[broken]] = True
        bags[-1] = False
        swapped = broken | bags[self.bags.open_groups.codes]
        return Decoding(
            np.where(swapped, quota.labels, labels), np.where(swapped, quota.tied, tied)
        )

    def _counts(self, F: FloatArray) -> IntArray:
        """Return how many open rows of each bag get each class, so that all may have theirs."""
        counts = bag_counts(F, self.bags)
        if self.excluded is None:
            return counts
        sums = self.bags.open_groups.sum(F)
        for bag in self._bags():
            k = bag.number
            if bag.needed(counts[k], counts[k]).any():
                counts[k] = bag.whole(sums[k])
        return counts

    def _with_room(self, give_way: bool) -> tuple[Bags, tuple[str, ...]]:
        bags, notes = copy(self.bags), []
        bags.open_lower, bags.open_upper = bags.open_lower.copy(), bags.open_upper.copy()
        for bag in self._bags():
            k = bag.number
            lower, upper = bags.open_lower[k], bags.open_upper[k]
            change = bag.needed(lower, upper)
            if not change.any():
                continue
            whole = bag.needed(np.floor(lower + 1e-9), np.ceil(upper - 1e-9))
            if whole.any() and not give_way:
                raise self._no_room(bag, whole)
            if whole.any():
                notes.append(f"{bags.ids[k]!r}: {self._found(bag, whole)}; the totals give way")
            lower -= np.maximum(change, 0.0)
            upper += np.maximum(-change, 0.0)
        return bags, tuple(notes)

    def _no_room(self, bag: _Bag, change: FloatArray) -> GivenLabelError:
        return GivenLabelError(
            "",
            self._found(bag, change),
            "labels that leave room for every class's total",
            "correct the labels or the totals",
            row=bag.row,
            bag=self.bags.ids[bag.number],
        )

    def _found(self, bag: _Bag, change: FloatArray) -> str:
        names = [repr(self.bags.classes.tolist()[h]) for h in np.flatnonzero(change)]
        rows = counted(bag.n_excluded, "row")
        return f"labels excluded for {rows}, with no room left for the total of {name_some(names)}"

    def _bags(self) -> Iterator[_Bag]:
        """Yield the bags that have exclusions, with their open rows by what these may be."""
        assert self.excluded is not None
        codes = self.bags.open_groups.codes
        some: BoolArray = np.asarray(self.excluded.any(axis=1))
        for k in np.unique(codes[some & (codes >= 0)]).tolist():
            rows = np.flatnonzero(codes == k)
            allowed, sizes = np.unique(~self.excluded[rows], axis=0, return_counts=True)
            last = int(rows[some[rows]][-1])
            yield _Bag(k, last, int(some[rows].sum()), allowed, sizes.astype(np.float64))


class _Bag(NamedTuple):
    """A bag with exclusions: its open rows by the labels that they may have."""

    number: int
    row: int
    n_excluded: int
    allowed: BoolArray
    sizes: FloatArray

    def needed(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """Return by how much bounds must change at least; > 0: lower falls, < 0: upper rises.

        This is a transport of rows, by kind, to classes, with slack at the bounds.
        """
        p, c = self.allowed.shape
        to_class = np.tile(np.eye(c), (1, p))
        eye, zero = np.eye(c), np.zeros((c, c))
        bounds = [(0.0, None if one else 0.0) for one in self.allowed.ravel()]
        answer = linprog(
            np.r_[np.zeros(p * c), np.ones(2 * c)],
            A_ub=np.r_[np.c_[-to_class, -eye, zero], np.c_[to_class, zero, -eye]],
            b_ub=np.r_[-np.asarray(lower, float), upper],
            A_eq=np.c_[np.repeat(np.eye(p), c, axis=1), np.zeros((p, 2 * c))],
            b_eq=self.sizes,
            bounds=[*bounds, *[(0.0, None)] * (2 * c)],
        )
        slack = np.where(answer.x[-2 * c :] > 1e-7, answer.x[-2 * c :], 0.0)
        return slack[:c] - slack[c:]

    def whole(self, sums: FloatArray) -> IntArray:
        """Return counts next to sums of soft labels that rows of these kinds can have.

        A transport with whole bounds has whole solutions at its corners.
        """
        p, c = self.allowed.shape
        low, high = np.floor(sums + 1e-6), np.ceil(sums - 1e-6)
        to_class = np.tile(np.eye(c), (1, p))
        answer = linprog(
            np.tile(low - sums, p),
            A_ub=np.r_[-to_class, to_class],
            b_ub=np.r_[-low, high],
            A_eq=np.repeat(np.eye(p), c, axis=1),
            b_eq=self.sizes,
            bounds=[(0.0, None if one else 0.0) for one in self.allowed.ravel()],
            method="highs-ds",
        )
        counts: IntArray = np.rint(answer.x.reshape(p, c).sum(axis=0)).astype(np.intp)
        return counts
