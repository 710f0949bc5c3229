"""Labels of bags that lie in several partitions: threshold search and quota prices.

Of two classes, a bag is divided at one row: the last that gets the second class, when rows are
ordered by score, ties by hash. Its key is found by a threshold search. Of more classes, dual prices
per bag and class bring the counts near the quotas, and shortest chains of moves correct them; the
driver looks at no more rows of each pair of classes than have to be moved.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from apportion._core.decode import SCORE_UNIT, Decoding
from apportion._core.dual import RowDual, SoftmaxResponse
from apportion._core.evaluator import DualSums
from apportion._core.quota_prices import search_prices
from apportion._core.transport import NEVER, cheapest_to_move, exchanged, least_losses
from apportion._dask.evaluator import PartitionDual
from apportion._dask.partition import Partition
from apportion._dask.sums import BagValues, dual_sums
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray, UIntArray

Request = Callable[..., Any]
"""Joins `work(partition, scores, *question)` of all partitions: see `QuotaSolver`."""

_SCORE_BITS, _HASH_BITS = 31, 64
"""Bits of a score in integer_scores, from 0 to 2, and of a hash or a row's position."""

_MOST_CELLS = 2**15
_LEAST_BITS, _MOST_BITS = 4, 11
"""Bits of a digit: as many as keep the counts of all bags within so many cells, within bounds."""

_COLDEST = 2e-9
"""Prices are annealed further than on one machine: every row that is still to be moved travels."""

_FEW_ROWS = 2**10
"""Rows that the driver looks at without searching better prices first: they travel in one task."""


# --- Two classes: where a bag is divided.


class Thresholds(NamedTuple):
    """The key of the last row of the second class, for each bag of two classes.

    A row's key is its score, the highest first, then its hash, then its position.

    Attributes
    ----------
    keys : tuple of ndarray of shape (n_spanning,)
        The three components of the key.
    divided : ndarray of bool, of shape (n_spanning,)
        Whether rows of one score went to both classes.
    """

    keys: tuple[UIntArray, ...]
    divided: BoolArray


class Digit(NamedTuple):
    """A question about the next bits of the threshold's key.

    Attributes
    ----------
    prefix : tuple of ndarray of shape (n_spanning,)
        The components found so far; the last of them only above `shift + bits`.
    undecided : ndarray of bool, of shape (n_spanning,)
        The bags that are searched.
    shift, bits : int
        Which bits of the last component.
    """

    prefix: tuple[UIntArray, ...]
    undecided: BoolArray
    shift: int
    bits: int


def digit_counts(partition: Partition, scores: IntArray, digit: Digit) -> BagValues:
    """Return how many rows of each bag that share the prefix have each digit next."""
    keys, codes = _keys(partition, scores), partition.spanning
    matches = digit.undecided[codes]
    *whole, last = digit.prefix
    for key, prefix in zip(keys, whole, strict=False):
        matches &= key == prefix[codes]
    key, above = keys[len(whole)], digit.shift + digit.bits
    if above < _HASH_BITS:
        matches &= (key >> np.uint64(above)) == last[codes]
    values = (key[matches] >> np.uint64(digit.shift)) & np.uint64(2**digit.bits - 1)
    cells = (partition.groups.codes[matches] << digit.bits) + values.astype(np.intp)
    counts = np.bincount(cells, minlength=len(partition.held) << digit.bits)
    return BagValues(partition.held, (counts.reshape(-1, 2**digit.bits),))


def _keys(partition: Partition, scores: IntArray) -> tuple[UIntArray, UIntArray, UIntArray]:
    """Return the keys of rows across partitions: score, the highest first, hash, position."""
    highest = 2**_SCORE_BITS - 1
    falling = highest - np.clip(scores[:, 1], 0, highest)
    positions = (partition.number << 40) + np.arange(len(scores))
    return falling.astype(np.uint64), partition.hashes, positions.astype(np.uint64)


def _at_thresholds(partition: Partition, scores: IntArray, cut: Thresholds) -> Decoding:
    keys, codes = _keys(partition, scores), partition.spanning
    taken, equal = np.zeros(len(codes), dtype=bool), np.ones(len(codes), dtype=bool)
    for key, threshold in zip(keys, cut.keys, strict=True):
        taken |= equal & (key < threshold[codes])
        equal &= key == threshold[codes]
    tied = cut.divided[codes] & (keys[0] == cut.keys[0][codes])
    return Decoding((taken | equal).astype(np.intp), tied)


# --- More classes: prices, and the rows that are moved.


class Candidates(NamedTuple):
    """Rows across partitions that the driver looks at: their position, scores and labels."""

    bag: AnyArray
    hash: AnyArray
    partition: AnyArray
    position: AnyArray
    scores: AnyArray
    label: AnyArray

    def take(self, rows: AnyArray) -> Candidates:
        """Return some of them, in the order given."""
        return Candidates(*(field[rows] for field in self))


class Prices(NamedTuple):
    """The labels of bags of more than two classes.

    Attributes
    ----------
    prices : ndarray of int, of shape (n_spanning, n_classes)
        What is added to the scores: every row takes the class that is then best,
    moved : Candidates, optional
        but for these rows.
    losses : ndarray of int, of shape (n_spanning, n_classes, n_classes), optional
        The least that a row loses by a move from one class to another, which tells ties.
    """

    prices: IntArray
    moved: Candidates | None = None
    losses: IntArray | None = None


def priced_counts(
    partition: Partition,
    scores: IntArray,
    bags: IntArray,
    prices: IntArray,
    multipliers: FloatArray | None,
    temperature: float,
) -> BagValues:
    """Return how many rows of some bags take each class at prices, and sums of their softmax."""
    mine = np.isin(partition.held, bags)
    rows, groups = partition.groups.only(mine)
    held, scores = partition.held[mine], scores[rows]
    which = np.searchsorted(bags, held)
    best = np.argmax(scores + prices[which][groups.codes], axis=1)
    counts = groups.sum(np.eye(partition.n_classes)[best])
    if multipliers is None:
        return BagValues(held, (counts,))
    respond = SoftmaxResponse(scores * SCORE_UNIT / temperature, np.ones(len(rows)))
    sums = dual_sums(RowDual(respond, groups).at(multipliers[which]))
    return BagValues(held, (counts, *sums))


class PartitionQuotas:
    """Rows on partitions that choose their best class at prices: see `QuotaEvaluator`.

    Every request counts, so that the prices nearest to the quotas are kept bag by bag.

    Parameters
    ----------
    request : callable
        See `QuotaSolver`.
    quotas : ndarray of int, of shape (n_spanning, n_classes)
        How many rows of each bag get each class.
    bags : ndarray of shape (n_some,)
        The bags that are evaluated.
    """

    def __init__(self, request: Request, quotas: IntArray, bags: IntArray) -> None:
        self._request, self._quotas, self._bags = request, quotas, bags
        self._last: IntArray | None = None
        self._prices = np.zeros((len(bags), quotas.shape[1]), dtype=np.int64)
        self._counts = np.full(self._prices.shape, np.iinfo(np.int64).max // 4)

    def counts(self, prices: IntArray) -> tuple[IntArray, IntArray]:
        """Return the prices that were nearest to the quotas so far, and their counts."""
        if self._last is None or not np.array_equal(self._last, prices):
            self._evaluate(prices)
        return self._prices.copy(), self._counts.copy()

    def softmax(self, temperature: float) -> PartitionDual:
        """Return the dual of the softmax of scores."""

        def request(multipliers: FloatArray) -> DualSums:
            prices = np.rint(multipliers * temperature / SCORE_UNIT).astype(np.int64)
            return DualSums(*self._evaluate(prices, multipliers, temperature))

        return PartitionDual(request, np.zeros(self._prices.shape))

    def only(self, keep: BoolArray) -> PartitionQuotas:
        """Return the same for some bags."""
        return PartitionQuotas(self._request, self._quotas, self._bags[keep])

    def _evaluate(
        self, prices: IntArray, multipliers: FloatArray | None = None, temperature: float = 0.0
    ) -> list[AnyArray]:
        """Return sums of softmax at multipliers; keep counts at prices where they are nearer."""
        total = self._request(priced_counts, self._bags, prices, multipliers, temperature)
        counts, *sums = (values[self._bags] for values in total.of_all(len(self._quotas)))
        wanted, counts = self._quotas[self._bags], np.rint(counts).astype(np.int64)
        off, least_off = (np.abs(n - wanted).sum(axis=1) for n in (counts, self._counts))
        nearer = off < least_off
        self._prices[nearer], self._counts[nearer] = prices[nearer], counts[nearer]
        self._last = prices
        return sums


def shortlisted(
    partition: Partition, scores: IntArray, prices: IntArray, most: IntArray
) -> Candidates:
    """Return the rows that would lose least by a move, for every pair of classes of a bag."""
    codes = partition.spanning
    labels = np.argmax(scores + prices[codes], axis=1)
    every = np.arange(len(codes))
    number = np.full(len(codes), partition.number)
    rows = Candidates(codes, partition.hashes, number, every, scores, labels)
    return rows.take(_cheapest_rows(rows, most))


def cheapest(lists: list[Candidates], most: IntArray) -> Candidates:
    """Return candidates of several partitions that would still be listed if these were one."""
    rows = Candidates(*(np.concatenate(fields) for fields in zip(*lists, strict=True)))
    rows = rows.take(np.lexsort([rows.position, rows.partition, rows.hash, rows.bag]))
    return rows.take(_cheapest_rows(rows, most))


def _cheapest_rows(rows: Candidates, most: IntArray) -> BoolArray:
    present = np.eye(rows.scores.shape[1], dtype=bool)[rows.label] & (most[rows.bag] > 0)[:, None]
    return cheapest_to_move(rows.scores, present, rows.bag, most)


def move_losses(partition: Partition, scores: IntArray, cut: Prices) -> BagValues:
    """Return the least that a row of each bag loses by a move from one class to another."""
    labels, held = _at_prices(partition, scores, cut).labels, partition.held
    losses = least_losses(scores, partition.groups.codes, labels, len(held), SCORE_UNIT)
    return BagValues(held, (losses,))


def least(answers: list[BagValues]) -> BagValues:
    """Return the least losses of several partitions."""
    return reduce(lambda one, other: one.joined(other, np.minimum, NEVER), answers)


def _at_prices(partition: Partition, scores: IntArray, cut: Prices) -> Decoding:
    codes = partition.spanning
    labels = np.argmax(scores + cut.prices[codes], axis=1)
    if cut.moved is not None:
        mine = cut.moved.partition == partition.number
        labels[cut.moved.position[mine]] = cut.moved.label[mine]
    tied = np.zeros(len(labels), dtype=bool)
    if cut.losses is not None:
        every = np.arange(len(labels))
        around = scores[every, labels][:, None] - scores + cut.losses[codes, :, labels]
        around[every, labels] = 1
        tied = (around == 0).any(axis=1)
    return Decoding(labels, tied)


Cut = Thresholds | Prices


def divided(partition: Partition, scores: IntArray, cut: Cut) -> Decoding:
    """Return the labels of rows across partitions, and which only a tie-break decided."""
    if isinstance(cut, Thresholds):
        return _at_thresholds(partition, scores, cut)
    return _at_prices(partition, scores, cut)


# --- The driver.


class QuotaSolver:
    """Finds labels that keep the counts of bags across partitions, one round after the other.

    Parameters
    ----------
    quotas : ndarray of int, of shape (n_spanning, n_classes)
        How many rows of each bag get each class.

    Attributes
    ----------
    n_gathered : int
        How many rows the driver has looked at.
    """

    def __init__(self, quotas: IntArray) -> None:
        self._quotas = quotas
        self._prices = np.zeros(quotas.shape, dtype=np.int64)
        self.n_gathered = 0

    def __call__(self, request: Request) -> Cut:
        """Return thresholds of two classes, or prices of more.

        Parameters
        ----------
        request : callable
            `request(work, *question, join=added)` returns what partitions answer, joined.
        """
        if self._quotas.shape[1] == 2:
            return self._thresholds(request)
        if not len(self._quotas):
            return Prices(self._prices)
        return self._priced(request)

    # Radix selection across partitions. The key of the `need`-th row of a bag is found from its
    # most significant digit on: partitions count the rows of each digit among those that share the
    # prefix found so far, and the digit in which the count reaches `need` is appended. A key has
    # three components, so that equal scores are told apart by hash and equal hashes by position.
    # No row leaves its partition, and the number of requests follows from the bits of a key alone
    # (compare Knuth, The Art of Computer Programming 3, 5.2.5).
    def _thresholds(self, request: Request) -> Thresholds:
        """Return the keys of the last rows that get the second class."""
        need, every = self._quotas[:, 1], np.arange(len(self._quotas))
        undecided: BoolArray = need > 0
        # No row is before the least key, all are before the greatest.
        decided = np.where(undecided, np.iinfo(np.uint64).max, np.uint64(0))
        keys: tuple[UIntArray, ...] = ()
        tied: list[BoolArray] = []
        for n_bits in (_SCORE_BITS, _HASH_BITS, _HASH_BITS):
            key: UIntArray = np.zeros(len(need), dtype=np.uint64)
            present: AnyArray = np.zeros_like(need)
            shift = n_bits if undecided.any() else 0
            while shift:
                bits = min(self._bits, shift)
                shift -= bits
                digit = Digit((*keys, key), undecided, shift, bits)
                (counts,) = request(digit_counts, digit).of_all(len(need))
                up_to = np.cumsum(counts, axis=1)
                value = np.argmax(up_to >= need[:, None], axis=1)
                present = counts[every, value]
                need = need - (up_to[every, value] - present)
                key = (key << np.uint64(bits)) | value.astype(np.uint64)
            keys = (*keys, np.where(undecided, key, decided))
            undecided = undecided & (need < present)
            tied.append(undecided)
        return Thresholds(keys, tied[0])

    @property
    def _bits(self) -> int:
        """How many bits a digit has: more, the fewer bags there are."""
        most = (_MOST_CELLS // max(len(self._quotas), 1)).bit_length() - 1
        return min(max(most, _LEAST_BITS), _MOST_BITS)

    def _priced(self, request: Request) -> Prices:
        """Return prices that fill the quotas, nearly, and the rows to move.

        The prices of the round before are tried first.
        """
        rows = PartitionQuotas(request, self._quotas, np.arange(len(self._quotas)))
        self._prices, surplus = search_prices(
            rows, self._quotas, self._prices, SCORE_UNIT, coldest=_COLDEST, few_rows=_FEW_ROWS
        )
        moves = np.maximum(surplus, 0).sum(axis=1)
        cut = Prices(self._prices)
        if moves.any():
            most = np.where(moves > 0, moves + 1, 0)
            listed = request(shortlisted, cut.prices, most, join=partial(cheapest, most=most))
            self.n_gathered += len(listed.bag)
            after = exchanged(listed.scores, listed.bag, listed.label, surplus, SCORE_UNIT)
            moved = listed._replace(label=after).take(after != listed.label)
            cut = cut._replace(moved=moved)
        (losses,) = request(move_losses, cut, join=least).of_all(len(moves))
        return cut._replace(losses=losses)
