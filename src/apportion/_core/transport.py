"""Exact transport: the labels of largest total score that keep every group's counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from apportion._core.dual import RowDual, SoftmaxResponse
from apportion._core.quota_prices import search_prices
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
    if (quotas.sum(axis=1) != groups.sizes).any():
        raise ValueError("The quotas of a group must sum to its number of rows.")
    kind_of, kinds = _kinds_of(scores, groups.codes, quotas, grain)
    prices, _ = search_prices(kinds, quotas, np.zeros_like(quotas), grain)
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
    key = scramble(codes.astype(np.uint64))
    for column in scores.T:
        key = scramble(key ^ column.astype(np.uint64))
    _, kind_rows, kind_of, sizes = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    by_group = np.lexsort((kind_rows, codes[kind_rows]))
    kind_rows = kind_rows[by_group]
    kinds = _Kinds(scores[kind_rows], codes[kind_rows], sizes[by_group], quotas, grain)
    return np.argsort(by_group)[kind_of], kinds


def _labels_of(kind_of: IntArray, shares: IntArray) -> IntArray:
    """Return labels by the kinds' shares: among equal rows, earlier ones get earlier classes."""
    n_kinds, c = shares.shape
    labels = np.empty(len(kind_of), dtype=np.intp)
    row_order = np.argsort(kind_of, kind="stable")
    labels[row_order] = np.repeat(np.tile(np.arange(c), n_kinds), shares.ravel())
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
        kept = self.take(np.flatnonzero(keep[self.codes]), self.quotas[keep])
        return replace(kept, codes=(np.cumsum(keep) - 1)[kept.codes])

    def take(self, listed: IntArray, quotas: IntArray) -> _Kinds:
        """Return some kinds, with quotas of theirs."""
        fields = self.scores[listed], self.codes[listed], self.sizes[listed]
        return _Kinds(*fields, quotas, self.grain)

    def at(self, prices: IntArray) -> IntArray:
        """Return the shares (kinds × classes) when every kind goes to its best class."""
        shares = np.zeros_like(self.scores)
        best = np.argmax(self.scores + prices[self.codes], axis=1)
        shares[np.arange(len(shares)), best] = self.sizes
        return shares

    def counts(self, prices: IntArray) -> tuple[IntArray, IntArray]:
        """Return the prices, and how many rows of each group take each class at them."""
        return prices, self.summed(self.at(prices))

    def softmax(self, temperature: float) -> RowDual:
        """Return the dual of the softmax of scores."""
        logits = self.scores * self.grain / temperature
        return RowDual(SoftmaxResponse(logits, self.sizes.astype(np.float64)), self._groups)

    @cached_property
    def _groups(self) -> Groups:
        return Groups(self.codes, len(self.quotas))

    def summed(self, shares: IntArray) -> IntArray:
        """Return the counts of each group and class."""
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
    left = np.inf
    while (surplus := kinds.surplus(shares)).any():
        if np.abs(surplus).sum() >= left:
            raise ValueError(
                "No move brings the counts nearer to the quotas. Scores must be whole numbers "
                f"between -{NEVER // 4} and {NEVER // 4}, and quotas must sum to the number of "
                "rows of their group."
            )
        left = np.abs(surplus).sum()
        unmet = np.any(surplus != 0, axis=1)
        rows, some = np.flatnonzero(unmet[kinds.codes]), kinds.only(unmet)
        rounds = 4
        if np.abs(surplus).sum(axis=1).max() > _FEW_MOVES:
            most = np.full(len(some.quotas), _SHORTLIST)
            present = shares[rows] > 0
            listed = np.flatnonzero(cheapest_to_move(some.scores, present, some.codes, most))
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
    c = kinds.scores.shape[1]
    surplus = kinds.surplus(shares)
    unmet = np.flatnonzero(surplus.any(axis=1))
    if not unmet.size:
        return False
    loss, mover = _cheapest_moves(kinds, shares)
    distance, following = _shortest_chains(loss)
    ends = (surplus > 0)[:, :, None] & (surplus < 0)[:, None, :]
    flat = np.where(ends, distance, NEVER).reshape(len(surplus), -1)[unmet]
    source, sink = np.divmod(np.argmin(flat, axis=1), c)
    amount = np.minimum(surplus[unmet, source], -surplus[unmet, sink])
    chain = []
    reached = source
    for _ in range(c):
        going = np.flatnonzero(reached != sink)
        start = reached[going]
        to = following[unmet[going], start, sink[going]]
        kind = mover[unmet[going], start, to]
        amount[going] = np.minimum(amount[going], shares[kind, start])
        chain.append((going, kind, start, to))
        reached = reached.copy()
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
    listed = np.zeros(len(codes), dtype=bool)
    c = scores.shape[1]
    for a in range(c):
        kinds = np.flatnonzero(present[:, a])
        groups = codes[kinds]
        number = np.arange(len(kinds)) - np.searchsorted(groups, np.arange(len(most)))[groups]
        for b in range(c):
            if b != a:
                order = np.lexsort((scores[kinds, a] - scores[kinds, b], groups))
                listed[kinds[order[number < most[groups]]]] = True
    return listed


def _cheapest_moves(kinds: _Kinds, shares: IntArray) -> tuple[IntArray, IntArray]:
    """Return, per group and pair of classes, the least loss of moving a row, and its kind."""
    c = kinds.scores.shape[1]
    loss = np.full((len(kinds.quotas), c, c), NEVER)
    mover = np.zeros(loss.shape, dtype=np.intp)
    for a in range(c):
        some = np.flatnonzero(shares[:, a] > 0)
        if not some.size:
            continue
        groups, starts = np.unique(kinds.codes[some], return_index=True)
        losses = kinds.scores[some][:, [a]] - kinds.scores[some]
        least = np.minimum.reduceat(losses, starts, axis=0)
        lengths = np.diff(np.append(starts, len(some)))
        is_least = losses == np.repeat(least, lengths, axis=0)
        position = np.where(is_least, np.arange(len(some))[:, None], len(some))
        loss[groups, a] = least
        mover[groups, a] = some[np.minimum.reduceat(position, starts, axis=0)]
        loss[:, a, a] = 0
    return loss, mover


def _shortest_chains(loss: IntArray) -> tuple[IntArray, IntArray]:
    """Return the least loss between all pairs of classes, and the next class on the way."""
    c = loss.shape[1]
    distance = loss.copy()
    following = np.broadcast_to(np.arange(c), loss.shape).copy()
    for via in range(c):
        detour = distance[:, :, via, None] + distance[:, None, via, :]
        shorter = detour < distance
        distance = np.where(shorter, detour, distance)
        following = np.where(shorter, following[:, :, via, None], following)
    return distance, following


def _exchangeable(kinds: _Kinds, shares: IntArray) -> BoolArray:
    """Return which kinds, in which class, could swap with a row of their group at no loss."""
    loss, _ = _cheapest_moves(kinds, shares)
    tied = np.zeros(shares.shape, dtype=bool)
    for a in range(shares.shape[1]):
        around = kinds.scores[:, [a]] - kinds.scores + loss[kinds.codes, :, a]
        around[:, a] = NEVER
        tied[:, a] = (shares[:, a] > 0) & (around == 0).any(axis=1)
    return tied
