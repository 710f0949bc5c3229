"""Search among moves: settle the counts, then improve labels that keep them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from apportion._core.episode_moves import NO_MOVES, Moves, TimeLabels
from apportion._utils.typing import BoolArray, IntArray

_BLOCK_CELLS = 500_000
"""Bags are looked at in blocks of about so many rows × classes, for memory."""

MOST_ROUNDS = 60
"""Rounds of cycles; each makes at most one in every bag, and few rounds find any."""

_PATIENT_ROUNDS = 50
"""Rounds of one move per bag before many rows are moved at once. The days of three made-up
weeks needed 3 to 7."""

_LONGEST = 64
"""The longest segments in cycles of moves."""

_TRIED_IN_SWAPS, _TRIED_IN_ROTATIONS = 4, 2
"""How many of the best moves of a kind are tried with each other: some lie side by side."""

_WITHIN = (1, 2, 3, 4, 6, 8)
"""The lengths of segments within runs in cycles of moves."""


def settle(state: TimeLabels, quotas: IntArray) -> TimeLabels:
    """Return the labels after moves that bring the counts of every bag to its quotas.

    In every round each bag whose counts are off makes the move that loses least per row, among
    those from a class with too many rows to one with too few. Where that takes too many rounds,
    because rows of several bags alternate and runs are short, many rows move at once.
    """
    left, rounds = -1, 0
    while (surplus := state.counts(len(quotas)) - quotas).any():
        if np.abs(surplus).sum() == left:
            raise ValueError("The quotas of a bag must sum to the number of its rows.")
        left, rounds = np.abs(surplus).sum(), rounds + 1
        over, under = np.maximum(surplus, 0), np.maximum(-surplus, 0)
        share = (
            over[:, :, None] * under[:, None, :] // np.maximum(over.sum(axis=1), 1)[:, None, None]
        )
        if rounds > _PATIENT_ROUNDS and share.any():
            state = state.applied(_many_rows(state, share))
            continue
        most = np.minimum(over[:, :, None], under[:, None, :])
        blocks = _in_blocks(state, np.any(surplus != 0, axis=1), most, (0, 1))
        moves = _joined(_best_per_bag(block, state.ranks, len(quotas)) for block in blocks)
        state = state.applied(moves.take(_apart(moves, moves.gain, state.ranks)))
    return state


def _many_rows(state: TimeLabels, share: IntArray) -> Moves:
    """Return moves of single rows: for every bag and pair of classes the best, `share` of them.

    Gains are not exact where rows side by side move, and no row moves twice.
    """
    blocks = _in_blocks(state, np.any(share > 0, axis=(1, 2)), np.minimum(share, 1), (1,))
    moves = _joined(blocks)
    moves = moves.take(np.lexsort((moves.target, -moves.gain, moves.begin)))
    moves = moves.take(np.append(True, np.diff(moves.begin) > 0))
    kinds = _kind(moves, moves.source, moves.target, state.n_classes)
    order = np.lexsort((state.ranks[moves.begin], -moves.gain, kinds))
    moves, kinds = moves.take(order), kinds[order]
    place = np.arange(len(kinds)) - np.searchsorted(kinds, kinds)
    return moves.take(place < share[moves.bag, moves.source, moves.target])


def improve(
    state: TimeLabels, n_bags: int, active: BoolArray | None = None, rounds: int = MOST_ROUNDS
) -> TimeLabels:
    """Return labels of the same counts after cycles of moves that raise the value.

    A cycle is two or three moves of the same length in a bag: from a class to another and back, or
    from a class to another, on to a third and back. In every round each active bag makes its best
    one.
    """
    c = state.n_classes
    most = np.tile(_LONGEST * (1 - np.eye(c, dtype=np.int64)), (n_bags, 1, 1))
    active = np.ones(n_bags, dtype=bool) if active is None else active
    for _ in range(rounds):
        blocks = _in_blocks(state, active, most, _WITHIN)
        moves, gain = _joined_cycles(_best_cycles(block, state, n_bags) for block in blocks)
        if not len(moves.bag):
            break
        state = state.applied(moves.take(_apart(moves, gain, state.ranks)))
        active = np.isin(np.arange(n_bags), moves.bag)
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


def _joined_cycles(found: Iterable[tuple[Moves, IntArray]]) -> tuple[Moves, IntArray]:
    blocks = [(NO_MOVES, NO_MOVES.gain), *found]
    return _joined(moves for moves, _ in blocks), np.concatenate([gain for _, gain in blocks])


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
    first = np.full(int(moves.bag.max(initial=0)) + 1, len(ranks))
    np.minimum.at(first, moves.bag, ranks[moves.begin])
    sooner = first[moves.bag[ahead]] < first[moves.bag[behind]]
    better = (gain[ahead] > gain[behind]) | ((gain[ahead] == gain[behind]) & sooner)
    return ~np.isin(moves.bag, moves.bag[np.where(better, behind, ahead)])


def _best_cycles(moves: Moves, state: TimeLabels, n_bags: int) -> tuple[Moves, IntArray]:
    """Return the moves of every bag's best cycle, and what the cycle of each move gains."""
    top = np.zeros(n_bags, dtype=np.int64)
    np.maximum.at(top, moves.bag, moves.gain)
    # In a cycle that gains, no move loses as much as the two best others of its bag could gain.
    listed = _MovesByKind.of(moves.take(moves.gain > -2 * top[moves.bag]), state)
    cycles = listed.cycles()
    gain = listed.total_gain(cycles, state)
    cycles, gain = cycles[gain > 0], gain[gain > 0]
    moves, leader = listed.moves, cycles[:, 0]
    order = np.lexsort((state.ranks[moves.begin[leader]], -gain, moves.bag[leader]))
    best = order[np.append(True, np.diff(moves.bag[leader[order]]) > 0)[: len(order)]]
    inside = cycles[best] >= 0
    return moves.take(cycles[best][inside]), np.repeat(gain[best], inside.sum(axis=1))


class _MovesByKind(NamedTuple):
    """Moves sorted by their kind, which is bag, length and classes; of a kind the best first."""

    moves: Moves
    kinds: IntArray
    n_classes: int

    @classmethod
    def of(cls, moves: Moves, state: TimeLabels) -> _MovesByKind:
        """Sort the moves."""
        kinds = _kind(moves, moves.source, moves.target, state.n_classes)
        order = np.lexsort((state.ranks[moves.begin], -moves.gain, kinds))
        return cls(moves.take(order), kinds[order], state.n_classes)

    def cycles(self) -> IntArray:
        """Return cycles of two or three moves (-1 = no third), of the best of each kind.

        The first move gains: one move of a cycle that gains does.
        """
        place = np.arange(len(self.kinds)) - np.searchsorted(self.kinds, self.kinds)
        first = np.flatnonzero((self.moves.gain > 0) & (place < _TRIED_IN_SWAPS))
        source, target = self.moves.source[first], self.moves.target[first]
        none = np.full(len(first), -1)
        cycles = []
        for k in range(_TRIED_IN_SWAPS):
            back = self._nth(first, target, source, k)
            cycles.append(np.column_stack([first, back, none])[back >= 0])
        for middle in range(self.n_classes):
            via = np.full(len(first), middle)
            for i, j in product(range(_TRIED_IN_ROTATIONS), repeat=2):
                on, back = self._nth(first, target, via, i), self._nth(first, via, source, j)
                cycles.append(np.column_stack([first, on, back])[(on >= 0) & (back >= 0)])
        return np.concatenate(cycles)

    def total_gain(self, cycles: IntArray, state: TimeLabels) -> IntArray:
        """Return the gains of cycles as a whole."""
        gain = np.append(self.moves.gain, 0)[cycles].sum(axis=1)
        for i, j in ((0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)):
            one, other = self.moves.take(cycles[:, i]), self.moves.take(cycles[:, j])
            both = (cycles[:, i] >= 0) & (cycles[:, j] >= 0)
            gain = gain - np.where(both, _counted_too_much(one, other, state), 0)
        return gain

    def _nth(self, like: IntArray, source: IntArray, target: IntArray, place: int) -> IntArray:
        """Return the n-th best moves between classes, of the bag and length of others, or -1."""
        kind = _kind(self.moves.take(like), source, target, self.n_classes)
        position = np.minimum(np.searchsorted(self.kinds, kind) + place, len(self.kinds) - 1)
        return np.where(self.kinds[position] == kind, position, -1)


def _kind(moves: Moves, source: IntArray, target: IntArray, c: int) -> IntArray:
    return ((moves.bag * (_LONGEST + 1) + moves.size) * c + source) * c + target


def _counted_too_much(one: Moves, other: Moves, state: TimeLabels) -> IntArray:
    """Return by how much two gains together are too large where `other` follows `one` at once.

    Each gain takes the label beside its segment for what it was.
    """
    counted = (one.source != other.source) * 2 - (one.target != other.source) * 1
    counted = counted - (other.target != one.source)
    really = (one.source != other.source) * 1 - (one.target != other.target)
    cost = np.append(state.costs, 0)[one.end]
    if state.starts is not None:  # not worth counting: such segments begin an episode more
        return np.where(one.end == other.begin, np.iinfo(np.int64).max // 16, 0)
    return np.where(one.end == other.begin, cost * (counted - really), 0)
