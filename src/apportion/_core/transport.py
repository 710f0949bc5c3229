"""Exact transport: the labels of largest total score that keep every group's counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion._core.dual import RowDual, SoftmaxResponse, meet_totals
from apportion._utils.groups import Groups
from apportion._utils.hashing import scramble
from apportion._utils.typing import BoolArray, FloatArray, IntArray

NEVER = np.iinfo(np.int64).max // 4
_SHORTLIST = 100


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
    shares = _exchange(kinds, _first_shares(kinds))
    labels = _handed_out(kind_of, shares)
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
    kinds = kinds._replace(quotas=kinds.surplus(shares) - surplus)
    return _handed_out(kind_of, _exchange(kinds, shares))


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


def _handed_out(kind_of: IntArray, shares: IntArray) -> IntArray:
    """Return labels by the kinds' shares: among equal rows, earlier ones get earlier classes."""
    n_kinds, c = shares.shape
    labels = np.empty(len(kind_of), dtype=np.intp)
    row_order = np.argsort(kind_of, kind="stable")
    labels[row_order] = np.repeat(np.tile(np.arange(c), n_kinds), shares.ravel())
    return labels


class _Kinds(NamedTuple):
    """Rows of equal scores and group, counted; sorted by group."""

    scores: IntArray
    codes: IntArray
    sizes: IntArray
    quotas: IntArray
    grain: float

    def only(self, keep: BoolArray) -> tuple[IntArray, _Kinds]:
        """Return the kinds of some groups, and these alone."""
        rows = np.flatnonzero(keep[self.codes])
        renumbered = np.cumsum(keep) - 1
        return rows, self._replace(
            scores=self.scores[rows],
            codes=renumbered[self.codes[rows]],
            sizes=self.sizes[rows],
            quotas=self.quotas[keep],
        )

    def take(self, listed: IntArray, surplus: IntArray, shares: IntArray) -> _Kinds:
        """Return some kinds, with the quotas that leave the surplus of their groups as it is."""
        codes = self.codes[listed]
        counts = _sum_sorted(codes, shares[listed], len(self.quotas))
        return self._replace(
            scores=self.scores[listed],
            codes=codes,
            sizes=self.sizes[listed],
            quotas=counts - surplus,
        )

    def at(self, prices: FloatArray) -> IntArray:
        """Return the shares (kinds × classes) when every kind goes to its best class."""
        priced = self.scores + np.rint(prices / self.grain).astype(np.int64)[self.codes]
        shares = np.zeros_like(self.scores)
        shares[np.arange(len(shares)), np.argmax(priced, axis=1)] = self.sizes
        return shares

    def surplus(self, shares: IntArray) -> IntArray:
        """Return how many rows each group and class has above its quota."""
        return _sum_sorted(self.codes, shares, len(self.quotas)) - self.quotas


def _sum_sorted(codes: IntArray, values: IntArray, n_groups: int) -> IntArray:
    """Return the sums over groups of rows that are sorted by group."""
    sums = np.zeros((n_groups, values.shape[1]), dtype=values.dtype)
    if len(codes):
        present, starts = np.unique(codes, return_index=True)
        sums[present] = np.add.reduceat(values, starts, axis=0)
    return sums


def _first_shares(kinds: _Kinds) -> IntArray:
    """Return shares that are optimal for their own counts, and these near the quotas."""
    c = kinds.scores.shape[1]
    shares = kinds.at(np.zeros(kinds.quotas.shape))
    many = np.abs(kinds.surplus(shares)).sum(axis=1) > 4 * c
    if many.any():
        rows, some = kinds.only(many)
        shares[rows] = some.at(_prices(some))
    return shares


def _prices(kinds: _Kinds) -> FloatArray:
    """Return prices at which the kinds' best classes fill the quotas, nearly.

    A softmax of falling temperature stands in for the best class; its prices follow from the
    totals. The temperature falls until hardly a row is undecided.
    """
    c = kinds.scores.shape[1]
    F = kinds.scores * kinds.grain
    groups = Groups(kinds.codes, len(kinds.quotas))
    totals = np.clip(kinds.quotas, 1e-3, None).astype(np.float64)
    sizes = kinds.quotas.sum(axis=1)
    totals *= (sizes / totals.sum(axis=1))[:, None]
    multipliers: FloatArray = np.zeros(totals.shape)
    best = np.zeros(totals.shape)
    fewest = np.full(len(sizes), np.inf)
    temperature = 0.25
    while temperature > 1e-8:
        respond = SoftmaxResponse(F / temperature, kinds.sizes.astype(np.float64))
        multipliers, _ = meet_totals(
            RowDual(respond, groups),
            totals,
            totals,
            groups.sizes,
            max_step=1e3,
            start=multipliers,
            tol=1e-4,
            max_iter=8,
        )
        prices = multipliers * temperature
        off = np.abs(kinds.surplus(kinds.at(prices))).sum(axis=1)
        better = off < fewest
        best[better], fewest[better] = prices[better], off[better]
        if (fewest <= 2 * c).all():
            break
        temperature /= 4.0
        multipliers *= 4.0
    return best


def _exchange(kinds: _Kinds, shares: IntArray) -> IntArray:
    """Move rows along shortest chains of classes until every group's counts are its quotas.

    Of every pair of classes only the cheapest `_SHORTLIST` kinds are looked at while fewer rows
    than that have moved: one chain takes at most one of them away, so the cheapest is among them.
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
        rows, some = kinds.only(unmet)
        rounds = 4
        if np.abs(surplus).sum(axis=1).max() > 32:
            most = np.full(len(some.quotas), _SHORTLIST)
            there = shares[rows] > 0
            listed = np.flatnonzero(cheapest_to_move(some.scores, there, some.codes, most))
            rows, some = rows[listed], some.take(listed, surplus[unmet], shares[rows])
            rounds = _SHORTLIST - 1
        part = shares[rows]
        for _ in range(rounds):
            if not _move_once(some, part):
                break
        shares[rows] = part
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
    here = source
    for _ in range(c):
        going = np.flatnonzero(here != sink)
        start = here[going]
        to = following[unmet[going], start, sink[going]]
        kind = mover[unmet[going], start, to]
        amount[going] = np.minimum(amount[going], shares[kind, start])
        chain.append((going, kind, start, to))
        here = here.copy()
        here[going] = to
    for going, kind, start, to in chain:
        shares[kind, start] -= amount[going]
        shares[kind, to] += amount[going]
    return True


def cheapest_to_move(
    scores: IntArray, there: BoolArray, codes: IntArray, most: IntArray
) -> BoolArray:
    """Return which kinds are among the cheapest to move between some pair of classes.

    Parameters
    ----------
    scores : ndarray of int, of shape (n_kinds, n_classes)
        What each kind is worth in each class.
    there : ndarray of bool, of shape (n_kinds, n_classes)
        Which kinds have rows in which class.
    codes : ndarray of shape (n_kinds,)
        Their groups, sorted.
    most : ndarray of shape (n_groups,)
        How many kinds of a group to name for every pair of classes.
    """
    listed = np.zeros(len(codes), dtype=bool)
    c = scores.shape[1]
    for a in range(c):
        here = np.flatnonzero(there[:, a])
        groups = codes[here]
        first = np.arange(len(here)) - np.searchsorted(groups, np.arange(len(most)))[groups]
        for b in range(c):
            if b != a:
                order = np.lexsort((scores[here, a] - scores[here, b], groups))
                listed[here[order[first < most[groups]]]] = True
    return listed


def _cheapest_moves(kinds: _Kinds, shares: IntArray) -> tuple[IntArray, IntArray]:
    """Return, per group and pair of classes, the least loss of moving a row, and its kind."""
    c = kinds.scores.shape[1]
    loss = np.full((len(kinds.quotas), c, c), NEVER)
    mover = np.zeros(loss.shape, dtype=np.intp)
    for a in range(c):
        here = np.flatnonzero(shares[:, a] > 0)
        if not here.size:
            continue
        groups, starts = np.unique(kinds.codes[here], return_index=True)
        losses = kinds.scores[here][:, [a]] - kinds.scores[here]
        least = np.minimum.reduceat(losses, starts, axis=0)
        lengths = np.diff(np.append(starts, len(here)))
        is_least = losses == np.repeat(least, lengths, axis=0)
        place = np.where(is_least, np.arange(len(here))[:, None], len(here))
        loss[groups, a] = least
        mover[groups, a] = here[np.minimum.reduceat(place, starts, axis=0)]
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
