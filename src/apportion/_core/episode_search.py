"""Search among moves: settle the counts, then improve labels that keep them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from apportion._core.episode_moves import NO_MOVES, Moves, TimeLabels
from apportion._utils.typing import BoolArray, IntArray

_BLOCK_CELLS = 2_000_000
"""Bags are looked at in blocks of about so many rows × classes, for memory."""

_MOST_ROUNDS = 60
"""Rounds of swaps; each makes at most one in every bag, and few rounds find any."""

_LONGEST = 64
"""The longest segments that are swapped."""

_TRIED = 4
"""How many of the best moves of a kind are tried with each other: some lie side by side."""

_WITHIN = (1, 2, 3, 4, 6, 8)
"""The lengths of segments within runs that are swapped."""


def settle(state: TimeLabels, quotas: IntArray) -> TimeLabels:
    """Return the labels after moves that bring the counts of every bag to its quotas.

    In every round each bag whose counts are off makes the move that loses least per row, among
    those from a class with too many rows to one with too few.
    """
    left = -1
    while (surplus := state.counts(len(quotas)) - quotas).any():
        if np.abs(surplus).sum() == left:
            raise ValueError("The quotas of a bag must sum to the number of its rows.")
        left = np.abs(surplus).sum()
        over, under = np.maximum(surplus, 0), np.maximum(-surplus, 0)
        most = np.minimum(over[:, :, None], under[:, None, :])
        blocks = _in_blocks(state, surplus.any(axis=1), most, (0, 1))
        moves = _joined(_best_per_bag(block, state.ranks, len(quotas)) for block in blocks)
        state = state.applied(moves.take(_apart(moves, moves.gain, state.ranks)))
    return state


def improve(state: TimeLabels, n_bags: int, active: BoolArray | None = None) -> TimeLabels:
    """Return labels of the same counts after swaps that raise the value.

    A swap is two moves of the same length in a bag, one from a class to another and one back. In
    every round each active bag makes its best one.
    """
    c = state.n_classes
    most = np.full((n_bags, c, c), _LONGEST)
    active = np.ones(n_bags, dtype=bool) if active is None else active
    for _ in range(_MOST_ROUNDS):
        blocks = _in_blocks(state, active, most, _WITHIN)
        pairs = [_swaps(block, state) for block in blocks]
        there, back = _joined(pair[0] for pair in pairs), _joined(pair[1] for pair in pairs)
        if not len(there.bag):
            break
        moves = _joined([there, back])
        gain = np.tile(there.gain + back.gain, 2)
        state = state.applied(moves.take(_apart(moves, gain, state.ranks)))
        active = np.isin(np.arange(n_bags), there.bag)
    return state


def swappable(state: TimeLabels, n_bags: int) -> BoolArray:
    """Return which rows could swap labels with a row of their bag, or change it, at no loss.

    Rows in no bag could change their label alone. Rows side by side are looked at one by one.
    """
    c = state.n_classes
    gains = state.single_gains()
    best = np.full((n_bags + 1, c, c), np.iinfo(np.int64).min // 4)
    np.maximum.at(best, (state.bags, state.labels), gains)
    best[-1] = 0  # no row in no bag has to change in return
    around = gains + np.swapaxes(best, 1, 2)[state.bags, state.labels]
    around[np.arange(len(gains)), state.labels] = -1
    return np.asarray((around >= 0).any(axis=1))


def _joined(moves: Iterable[Moves]) -> Moves:
    return Moves(*map(np.concatenate, zip(NO_MOVES, *moves, strict=True)))


def _in_blocks(
    state: TimeLabels, active: BoolArray, most: IntArray, lengths: tuple[int, ...]
) -> Iterator[Moves]:
    """Return the moves of the active bags, block by block."""
    rows = np.flatnonzero(np.append(active, False)[state.bags])
    sizes = np.bincount(state.bags[rows], minlength=len(active))
    block = np.cumsum(sizes) * state.n_classes // _BLOCK_CELLS
    for number in np.unique(block[active]):
        yield state.moves(rows[block[state.bags[rows]] == number], most, lengths)


def _best_per_bag(moves: Moves, ranks: IntArray, n_bags: int) -> Moves:
    """Return every bag's move of largest gain per row; of equals the longest, the first in rank."""
    worth = moves.gain / moves.size
    top = np.full(n_bags, -np.inf)
    np.maximum.at(top, moves.bag, worth)
    best = moves.take(np.flatnonzero(worth == top[moves.bag]))
    order = np.lexsort((best.target, ranks[best.begin], -best.size, best.bag))
    return best.take(order[np.append(True, np.diff(best.bag[order]) > 0)[: len(order)]])


def _apart(moves: Moves, gain: IntArray, ranks: IntArray) -> BoolArray:
    """Return which moves can be made at once: gains of neighbors that move together are wrong.

    Of two bags with segments side by side, the one that gains less waits. The best never does.
    """
    order = np.argsort(moves.begin)
    ahead, behind = order[:-1], order[1:]
    touch = (moves.end[ahead] == moves.begin[behind]) & (moves.bag[ahead] != moves.bag[behind])
    ahead, behind = ahead[touch], behind[touch]
    first = np.full(int(moves.bag.max()) + 1, len(ranks))
    np.minimum.at(first, moves.bag, ranks[moves.begin])
    sooner = first[moves.bag[ahead]] < first[moves.bag[behind]]
    better = (gain[ahead] > gain[behind]) | ((gain[ahead] == gain[behind]) & sooner)
    return ~np.isin(moves.bag, moves.bag[np.where(better, behind, ahead)])


def _swaps(moves: Moves, state: TimeLabels) -> tuple[Moves, Moves]:
    """Return the best swap of every bag that gains by one, as two lists of moves."""
    c, span = state.n_classes, _LONGEST + 1
    there = ((moves.bag * c + moves.source) * c + moves.target) * span + moves.size
    back = ((moves.bag * c + moves.target) * c + moves.source) * span + moves.size
    gains = moves.gain > 0  # at least one of the two moves
    keep = np.flatnonzero(gains | np.isin(there, np.unique(back[gains])))
    order = keep[np.lexsort((state.ranks[moves.begin[keep]], -moves.gain[keep], there[keep]))]
    moves, there, back = moves.take(order), there[order], back[order]
    one, other = _pairs(there, back, moves.gain > 0)
    total = (
        moves.gain[one] + moves.gain[other] - _overlap(moves.take(one), moves.take(other), state)
    )
    one, other, total = one[total > 0], other[total > 0], total[total > 0]
    order = np.lexsort((state.ranks[moves.begin[one]], -total, moves.bag[one]))
    best = order[np.append(True, np.diff(moves.bag[one[order]]) > 0)[: len(order)]]
    return moves.take(one[best]), moves.take(other[best])


def _pairs(there: IntArray, back: IntArray, leads: BoolArray) -> tuple[IntArray, IntArray]:
    """Return pairs of a leading move and one back, of the best few of both; sorted by `there`."""
    place = np.arange(len(there)) - np.searchsorted(there, there)
    leaders = np.flatnonzero(leads & (place < _TRIED))
    partner = np.searchsorted(there, back[leaders])[:, None] + np.arange(_TRIED)
    exists = np.append(there, -1)[np.minimum(partner, len(there))] == back[leaders][:, None]
    return np.repeat(leaders, _TRIED)[exists.ravel()], partner[exists]


def _overlap(one: Moves, other: Moves, state: TimeLabels) -> IntArray:
    """Return what both moves of a swap count as saved where they are side by side.

    Their labels differ before and after; each move alone would have made them equal.
    """
    meeting = np.where(one.end == other.begin, one.end, other.end)
    touch = (one.end == other.begin) | (other.end == one.begin)
    if state.starts is not None:  # not worth counting: such a swap starts an episode more
        return np.where(touch, np.iinfo(np.int64).max // 2, 0)
    return np.where(touch, 2 * np.append(state.costs, 0)[meeting], 0)
