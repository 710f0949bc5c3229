"""Where bags that lie in several partitions are cut into classes, found by asking all partitions.

Of two classes, a bag is cut at one row: the last that gets the second class, when rows are ordered
by score, ties by hash. Its key is found digit by digit, from how many rows have each digit. Of
more, prices per bag and class bring the counts near the quotas: what is best at some prices is
optimal for its own counts. Shortest chains of moves, which keep it optimal, correct the counts; the
driver looks at no more rows of each pair of classes than have to be moved.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from apportion._core.decode import GRAIN, grains
from apportion._core.dual import meet_totals
from apportion._core.evaluator import DualSums
from apportion._core.transport import exchanged
from apportion._dask.bag_sums import OfBags
from apportion._dask.cluster import Cluster
from apportion._dask.labels import of_scores
from apportion._dask.levels import HASH_BITS, SCORE_BITS, Digit, Levels, binned
from apportion._dask.prices import (
    Candidates,
    Prices,
    Trial,
    cheapest,
    least,
    lost,
    priced,
    shortlisted,
)
from apportion._dask.spanning import PartitionDual
from apportion._utils.typing import BoolArray, FloatArray, IntArray, UIntArray

_MOST_CELLS = 2**15
_LEAST_BITS, _MOST_BITS = 4, 11
_FEW_ROWS = 2**10
_WARMEST, _COLDEST = 0.25, 1e-8


class Cuts:
    """Cuts that keep the counts of bags across partitions, one round after the other.

    Parameters
    ----------
    cluster : Cluster
        Where the partitions are.
    parts : list of futures
        Those that hold rows of such bags.
    quotas : ndarray of int, of shape (n_spanning, n_classes)
        How many rows of each bag get each class.

    Attributes
    ----------
    n_gathered : int
        How many rows the driver has looked at.
    """

    def __init__(self, cluster: Cluster, parts: list[Any], quotas: IntArray) -> None:
        self._cluster, self._parts, self._quotas = cluster, parts, quotas
        self._last = np.zeros(quotas.shape, dtype=np.int64)
        self.n_gathered = 0

    def __call__(self, *asked: Any) -> Levels | Prices:
        """Return the next cut, after a point, rounds and voices, which are given as futures."""
        n_bags, c = self._quotas.shape
        if c == 2:
            return self._levels(asked)
        if not n_bags:
            return Prices(np.zeros((0, c), dtype=np.int64))
        return self._prices(asked)

    def _levels(self, asked: tuple[Any, ...]) -> Levels:
        """Return the keys of the last rows that get the second class."""
        need = self._quotas[:, 1]
        undecided: BoolArray = need > 0
        # No row is before the least key, all are before the greatest.
        unless = np.where(undecided, np.iinfo(np.uint64).max, np.uint64(0))
        keys: list[UIntArray] = []
        divided: list[BoolArray] = []
        for bits in (SCORE_BITS, HASH_BITS, HASH_BITS):
            key, need, there = self._selected(asked, keys, undecided, need, bits)
            keys.append(np.where(undecided, key, unless))
            undecided = undecided & (need < there)
            divided.append(undecided)
        return Levels((keys[0], keys[1], keys[2]), divided[0])

    def _selected(
        self,
        asked: tuple[Any, ...],
        known: list[UIntArray],
        undecided: BoolArray,
        need: IntArray,
        n_bits: int,
    ) -> tuple[UIntArray, IntArray, IntArray]:
        """Return the next part of the key of each bag's `need`-th row.

        With it come how many rows that share all that is known are needed, and how many there are.
        """
        prefix: UIntArray = np.zeros(len(need), dtype=np.uint64)
        there = np.zeros_like(need)
        every = np.arange(len(need))
        shift = n_bits if undecided.any() else 0
        while shift:
            bits = min(self._bits, shift)
            shift -= bits
            digit = Digit((*known, prefix), undecided, shift, bits)
            found: OfBags = self._cluster.total(self._answers(asked, binned, digit))
            (counts,) = found.of_all(len(need))
            up_to = np.cumsum(counts, axis=1)
            value = np.argmax(up_to >= need[:, None], axis=1)
            there = counts[every, value]
            need = need - (up_to[every, value] - there)
            prefix = (prefix << np.uint64(bits)) | value.astype(np.uint64)
        return prefix, need, there

    @property
    def _bits(self) -> int:
        """How many bits to ask about at a time: more, the fewer bags there are."""
        most = (_MOST_CELLS // max(len(self._quotas), 1)).bit_length() - 1
        return min(max(most, _LEAST_BITS), _MOST_BITS)

    def _prices(self, asked: tuple[Any, ...]) -> Prices:
        """Return prices that fill the quotas, nearly, and the rows to move."""
        prices, surplus = self._near(asked)
        moves = np.maximum(surplus, 0).sum(axis=1)
        cut = Prices(prices)
        cluster = self._cluster
        if moves.any():
            most = np.where(moves > 0, moves + 1, 0)
            lists = self._answers(asked, shortlisted, prices, most)
            listed: Candidates = cluster.total(lists, cheapest, most)
            self.n_gathered += len(listed.bag)
            cut = cut._replace(moved=_moved(listed, surplus))
        losses = self._answers(asked, lost, cut)
        (least_loss,) = cluster.total(losses, least).of_all(len(prices))
        return cut._replace(losses=least_loss)

    def _near(self, asked: tuple[Any, ...]) -> tuple[IntArray, IntArray]:
        """Return prices whose counts are near the quotas, and what the counts are above them.

        A softmax of falling temperature stands in for the best class, as in `transport`; here every
        Newton step asks all partitions. The prices of the round before are tried first.
        """
        quotas = self._quotas
        best = _Best(quotas)
        every = np.ones(len(quotas), dtype=bool)
        self._try(asked, best, every, self._last * (GRAIN / _COLDEST), _COLDEST)
        multipliers: FloatArray = np.zeros(quotas.shape)
        temperature = 4.0 * _WARMEST
        while not best.near and temperature > _COLDEST:
            temperature /= 4.0
            multipliers *= 4.0
            off = best.off
            sizes = quotas[off].sum(axis=1).astype(np.float64)
            totals = np.clip(quotas[off], 1e-3, None).astype(np.float64)
            totals *= (sizes / totals.sum(axis=1))[:, None]
            ask = partial(self._try, asked, best, off, temperature=temperature)
            start = multipliers[off]
            multipliers[off], _ = meet_totals(
                PartitionDual(ask, start),
                totals,
                totals,
                sizes,
                max_step=1e3,
                start=start,
                tol=1e-4,
                max_iter=8,
            )
        self._last = best.prices
        return best.prices, best.surplus

    def _try(
        self,
        asked: tuple[Any, ...],
        best: _Best,
        bags: BoolArray,
        multipliers: FloatArray,
        temperature: float,
    ) -> DualSums:
        """Return what rows of some bags answer to prices, and let `best` hear of them."""
        every = np.zeros(self._quotas.shape)
        every[bags] = multipliers
        trial = Trial(bags, every, temperature)
        found: OfBags = self._cluster.total(self._answers(asked, priced, trial))
        *soft, counts = (one[bags] for one in found.of_all(len(every)))
        best.neighbor_mean(bags, grains(multipliers * temperature), counts)
        return DualSums(*soft)

    def _answers(
        self, asked: tuple[Any, ...], answer: Callable[..., Any], *question: Any
    ) -> list[Any]:
        sent = [self._cluster.send(one) for one in question]
        return self._cluster.on_each(of_scores, self._parts, *asked, answer, *sent)


class _Best:
    """The prices of each bag at which the counts were nearest to the quotas."""

    def __init__(self, quotas: IntArray) -> None:
        self._quotas = quotas
        self.prices = np.zeros(quotas.shape, dtype=np.int64)
        self.surplus = np.zeros(quotas.shape, dtype=np.int64)
        self._wrong = np.full(len(quotas), np.iinfo(np.int64).max)

    def neighbor_mean(self, bags: BoolArray, prices: IntArray, counts: FloatArray) -> None:
        """Keep what is better, of some bags, than what was heard before."""
        surplus = np.rint(counts).astype(np.int64) - self._quotas[bags]
        wrong = np.abs(surplus).sum(axis=1)
        better = wrong < self._wrong[bags]
        which = np.flatnonzero(bags)[better]
        self.prices[which], self.surplus[which] = prices[better], surplus[better]
        self._wrong[which] = wrong[better]

    @property
    def off(self) -> BoolArray:
        """The bags whose counts are not near their quotas."""
        return np.asarray(self._wrong > 2 * self._quotas.shape[1])

    @property
    def near(self) -> bool:
        """Whether only few rows would have to be looked at."""
        if not self.off.any():
            return True
        c = self._quotas.shape[1]
        moves = self._wrong[self._wrong > 0] / 2.0
        return bool(c * (c - 1) * (moves + 1).sum() <= _FEW_ROWS)


def _moved(listed: Candidates, surplus: IntArray) -> Candidates:
    """Return the rows that get another label, with that label."""
    after = exchanged(listed.scores, listed.bag, listed.label, surplus, GRAIN)
    changed = after != listed.label
    return Candidates(*(field[changed] for field in listed._replace(label=after)))
