"""Exact transport: the labels of largest total score that keep every group's counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from apportion._core.dual import RowDual, SoftmaxResponse
from apportion._core.quota_prices import search_prices
from apportion._utils.arrays import (
    arange,
    as_float,
    as_int,
    copied,
    first_of_equals,
    full,
    is_tensor,
    namespace,
    zeros,
)
from apportion._utils.groups import Groups
from apportion._utils.hashing import scramble
from apportion._utils.typing import BoolArray, IntArray

NEVER = np.iinfo(np.int64).max // 4
"""The loss of a move that no row can make; a few of them can be added."""

_SHORTLIST = 100
"""Kinds per pair of classes that are looked at while many rows have to be moved."""

_FEW_MOVES = 32
"""Up to this surplus of a group, all kinds are looked at."""


def transport(
    scores: IntArray, groups: Groups, quotas: IntArray, grain: float
) -> tuple[IntArray, BoolArray]:
    """Return the labels of largest total score with exactly `quotas` rows per group and class.

    Rows of one group with equal scores are one kind, and how many rows of a kind go to a class is
    what is sought. Prices per group and class first bring the counts near the quotas: what is best
    at some prices is optimal for its own counts. Shortest chains of moves then correct the counts,
    which keeps it optimal. All groups are treated side by side.

    Parameters
    ----------
    scores : ndarray of int, of shape (n_samples, n_classes)
        What each row is worth in each class, in units of `grain`.
    groups : Groups
        The rows' groups; every row is in one.
    quotas : ndarray of int, of shape (n_groups, n_classes)
        How many rows of each group go to each class; a group's quotas sum to its size.
    grain : float
        The value of one unit.

    Returns
    -------
    labels : ndarray of shape (n_samples,)
        Each row's class; among equal rows the earlier ones get the earlier classes.
    tied : ndarray of bool, of shape (n_samples,)
        The rows that could swap labels with another of their group at no loss.
    """
    if (quotas.sum(axis=1) != as_int(groups.sizes)).any():
        raise ValueError("The quotas of a group must sum to its number of rows.")
    kind_of, kinds = _kinds_of(scores, groups.codes, quotas, grain)
    prices, _ = search_prices(kinds, quotas, namespace(quotas).zeros_like(quotas), grain)
    shares = _exchange(kinds, kinds.at(prices))
    labels = _labels_of(kind_of, shares)
    tied = _exchangeable(kinds, shares)
    return labels, tied[kind_of, labels]


def exchanged(
    scores: IntArray, codes: IntArray, labels: IntArray, surplus: IntArray, grain: float
) -> IntArray:
    """Return labels that are best for their counts, moved until no group has a surplus.

    Parameters
    ----------
    scores : ndarray of int, of shape (n_samples, n_classes)
        What each row is worth in each class, in units of `grain`.
    codes : ndarray of shape (n_samples,)
        The rows' groups, sorted; of every group at least the rows that would be moved.
    labels : ndarray of shape (n_samples,)
        The labels so far.
    surplus : ndarray of int, of shape (n_groups, n_classes)
        How many rows each group and class has too many.
    grain : float
        The value of one unit.
    """
    kind_of, kinds = _kinds_of(scores, codes, np.zeros_like(surplus), grain)
    shares = np.zeros_like(kinds.scores)
    np.add.at(shares, (kind_of, labels), 1)
    kinds = replace(kinds, quotas=kinds.summed(shares) - surplus)
    return _labels_of(kind_of, _exchange(kinds, shares))


def least_losses(
    scores: IntArray, codes: IntArray, labels: IntArray, n_groups: int, grain: float
) -> IntArray:
    """Return, per group and pair of classes, the least that a row loses by a move; rows sorted."""
    c = scores.shape[1]
    quotas = np.zeros((n_groups, c), dtype=np.int64)
    ones = np.ones(len(labels), dtype=np.int64)
    kinds = _Kinds(scores, codes, ones, quotas, grain)
    return _cheapest_moves(kinds, np.eye(c, dtype=np.int64)[labels])[0]


def _kinds_of(
    scores: IntArray, codes: IntArray, quotas: IntArray, grain: float
) -> tuple[IntArray, _Kinds]:
    """Return every row's kind, and the kinds."""
    key = scramble(_words(codes))
    for column in scores.T:
        key = scramble(key ^ _words(column))
    kind_rows, kind_of, sizes = first_of_equals(key)
    # Rows are sorted by group, and so are the first rows of the kinds.
    argsort = namespace(key).argsort
    by_group = argsort(kind_rows)
    kind_rows = kind_rows[by_group]
    kinds = _Kinds(scores[kind_rows], codes[kind_rows], sizes[by_group], quotas, grain)
    return argsort(by_group)[kind_of], kinds


def _words(numbers: Any) -> Any:
    """Return whole numbers as words to be scrambled; tensors have no unsigned ones."""
    return numbers if is_tensor(numbers) else numbers.astype(np.uint64)


def _labels_of(kind_of: IntArray, shares: IntArray) -> IntArray:
    """Return labels by the kinds' shares: among equal rows, earlier ones get earlier classes."""
    xp, c = namespace(shares), shares.shape[1]
    labels = zeros(len(kind_of), shares, dtype=int)
    row_order = xp.argsort(kind_of, kind="stable")
    every = xp.zeros_like(shares) + arange(c, shares)
    labels[row_order] = xp.repeat(every.reshape(-1), shares.reshape(-1))
    return labels


@dataclass(frozen=True)
class _Kinds:
    """Rows of equal scores and group, counted; sorted by group. See `QuotaEvaluator`."""

    scores: IntArray
    codes: IntArray
    sizes: IntArray
    quotas: IntArray
    grain: float

    def only(self, keep: BoolArray) -> _Kinds:
        """Return the kinds of some groups, which are numbered anew."""
        listed = namespace(self.scores).flatnonzero(keep[self.codes])
        kept = self.take(listed, self.quotas[keep])
        return replace(kept, codes=(keep.cumsum(0) - 1)[kept.codes])

    def take(self, listed: IntArray, quotas: IntArray) -> _Kinds:
        """Return some kinds, with quotas of theirs."""
        fields = self.scores[listed], self.codes[listed], self.sizes[listed]
        return _Kinds(*fields, quotas, self.grain)

    def at(self, prices: IntArray) -> IntArray:
        """Return the shares (kinds × classes) when every kind goes to its best class."""
        xp = namespace(self.scores)
        shares = xp.zeros_like(self.scores)
        best = xp.argmax(self.scores + prices[self.codes], axis=1)
        shares[arange(len(shares), shares), best] = self.sizes
        return shares

    def counts(self, prices: IntArray) -> tuple[IntArray, IntArray]:
        """Return the prices, and how many rows of each group take each class at them."""
        return prices, self.summed(self.at(prices))

    def softmax(self, temperature: float) -> RowDual:
        """Return the dual of the softmax of scores."""
        logits = self.scores * self.grain / temperature
        return RowDual(SoftmaxResponse(logits, as_float(self.sizes)), self.groups)

    @cached_property
    def groups(self) -> Groups:
        """The kinds' groups."""
        return Groups(self.codes, len(self.quotas))

    def summed(self, shares: IntArray) -> IntArray:
        """Return the counts of each group and class."""
        if is_tensor(shares):
            return as_int(self.groups.sum(as_float(shares)))
        return _sum_sorted(self.codes, shares, len(self.quotas))

    def surplus(self, shares: IntArray) -> IntArray:
        """Return how many rows each group and class has above its quota."""
        return self.summed(shares) - self.quotas


def _sum_sorted(codes: IntArray, values: IntArray, n_groups: int) -> IntArray:
    """Return the sums over groups of rows that are sorted by group."""
    sums = np.zeros((n_groups, values.shape[1]), dtype=values.dtype)
    if len(codes):
        present, starts = np.unique(codes, return_index=True)
        sums[present] = np.add.reduceat(values, starts, axis=0)
    return sums


def _exchange(kinds: _Kinds, shares: IntArray) -> IntArray:
    """Move rows along shortest chains of classes until every group's counts are its quotas.

    Of every pair of classes only the cheapest `_SHORTLIST` kinds are looked at while fewer rows
    than that have moved: a chain exhausts at most one of them, so that the cheapest is among them.
    """
    flatnonzero = namespace(shares).flatnonzero
    left: float = np.inf
    while (surplus := kinds.surplus(shares)).any():
        if int(abs(surplus).sum()) >= left:
            raise ValueError(
                "No move brings the counts nearer to the quotas. Scores must be whole numbers "
                f"between -{NEVER // 4} and {NEVER // 4}, and quotas must sum to the number of "
                "rows of their group."
            )
        left = int(abs(surplus).sum())
        unmet = (surplus != 0).any(axis=1)
        rows, some = flatnonzero(unmet[kinds.codes]), kinds.only(unmet)
        rounds = 4
        if int(abs(surplus).sum(axis=1).max()) > _FEW_MOVES:
            most = full(len(some.quotas), _SHORTLIST, surplus)
            present = shares[rows] > 0
            listed = flatnonzero(cheapest_to_move(some.scores, present, some.codes, most))
            some, rows = some.take(listed, some.quotas), rows[listed]
            some = replace(some, quotas=some.summed(shares[rows]) - surplus[unmet])
            rounds = _SHORTLIST - 1
        moved = shares[rows]
        for _ in range(rounds):
            if not _move_once(some, moved):
                break
        shares[rows] = moved
    return shares


def _move_once(kinds: _Kinds, shares: IntArray) -> bool:
    """Move rows along one shortest chain in each group; False when all quotas are met."""
    xp, c = namespace(shares), kinds.scores.shape[1]
    surplus = kinds.surplus(shares)
    unmet = xp.flatnonzero((surplus != 0).any(axis=1))
    if not len(unmet):
        return False
    loss, mover = _cheapest_moves(kinds, shares)
    distance, following = _shortest_chains(loss)
    ends = (surplus > 0)[:, :, None] & (surplus < 0)[:, None, :]
    flat = xp.where(ends, distance, NEVER).reshape(len(surplus), -1)[unmet]
    best = xp.argmin(flat, axis=1)
    source, sink = best // c, best % c
    amount = xp.minimum(surplus[unmet, source], -surplus[unmet, sink])
    chain = []
    reached = source
    for _ in range(c):
        going = xp.flatnonzero(reached != sink)
        start = reached[going]
        to = following[unmet[going], start, sink[going]]
        kind = mover[unmet[going], start, to]
        amount[going] = xp.minimum(amount[going], shares[kind, start])
        chain.append((going, kind, start, to))
        reached = copied(reached)
        reached[going] = to
    for going, kind, start, to in chain:
        shares[kind, start] -= amount[going]
        shares[kind, to] += amount[going]
    return True


def cheapest_to_move(
    scores: IntArray, present: BoolArray, codes: IntArray, most: IntArray
) -> BoolArray:
    """Return which kinds are among the cheapest to move between some pair of classes.

    Parameters
    ----------
    scores : ndarray of int, of shape (n_kinds, n_classes)
        What each kind is worth in each class.
    present : ndarray of bool, of shape (n_kinds, n_classes)
        Which kinds have rows in which class.
    codes : ndarray of shape (n_kinds,)
        Their groups, sorted.
    most : ndarray of shape (n_groups,)
        How many kinds of a group to name for every pair of classes.
    """
    xp, c = namespace(scores), scores.shape[1]
    listed = zeros(len(codes), scores, dtype=bool)
    for a in range(c):
        kinds = xp.flatnonzero(present[:, a])
        groups = codes[kinds]
        firsts = xp.searchsorted(groups, arange(len(most), groups))
        number = arange(len(kinds), groups) - firsts[groups]
        for b in range(c):
            if b != a:
                losses = scores[kinds, a] - scores[kinds, b]
                order = xp.argsort(losses, kind="stable")
                order = order[xp.argsort(groups[order], kind="stable")]
                listed[kinds[order[number < most[groups]]]] = True
    return listed


def _cheapest_moves(kinds: _Kinds, shares: IntArray) -> tuple[IntArray, IntArray]:
    """Return, per group and pair of classes, the least loss of moving a row, and its kind."""
    xp, c = namespace(shares), kinds.scores.shape[1]
    loss = full((len(kinds.quotas), c, c), NEVER, shares)
    mover = xp.zeros_like(loss)
    for a in range(c):
        some = xp.flatnonzero(shares[:, a] > 0)
        if not len(some):
            continue
        groups, runs = _runs_of(kinds.codes[some])
        losses = kinds.scores[some][:, a : a + 1] - kinds.scores[some]
        least = runs.least(losses)
        is_least = losses == xp.repeat(least, runs.lengths, axis=0)
        position = xp.where(is_least, arange(len(some), some)[:, None], len(some))
        loss[groups, a] = least
        mover[groups, a] = some[runs.least(position)]
        loss[:, a, a] = 0
    return loss, mover


class _Runs(NamedTuple):
    """Rows that are sorted by group, as runs in memory."""

    starts: IntArray
    lengths: IntArray

    def least(self, values: IntArray) -> IntArray:
        """Return the least value of each run, column by column."""
        return np.minimum.reduceat(values, self.starts, axis=0)


def _runs_of(codes: IntArray) -> tuple[IntArray, Any]:
    """Return the groups that occur among sorted codes, and the runs of their rows."""
    if is_tensor(codes):
        from apportion._utils.tensors import runs_of

        return runs_of(codes)
    groups, starts, lengths = np.unique(codes, return_index=True, return_counts=True)
    return groups, _Runs(starts, lengths)


def _shortest_chains(loss: IntArray) -> tuple[IntArray, IntArray]:
    """Return the least loss between all pairs of classes, and the next class on the way."""
    xp, c = namespace(loss), loss.shape[1]
    distance = copied(loss)
    following = xp.zeros_like(loss) + arange(c, loss)
    for via in range(c):
        detour = distance[:, :, via, None] + distance[:, None, via, :]
        shorter = detour < distance
        distance = xp.where(shorter, detour, distance)
        following = xp.where(shorter, following[:, :, via, None], following)
    return distance, following


def _exchangeable(kinds: _Kinds, shares: IntArray) -> BoolArray:
    """Return which kinds, in which class, could swap with a row of their group at no loss."""
    loss, _ = _cheapest_moves(kinds, shares)
    tied = zeros(tuple(shares.shape), shares, dtype=bool)
    for a in range(shares.shape[1]):
        around = kinds.scores[:, a : a + 1] - kinds.scores + loss[kinds.codes, :, a]
        around[:, a] = NEVER
        tied[:, a] = (shares[:, a] > 0) & (around == 0).any(axis=1)
    return tied
