"""Where a bag of more classes is cut, on a partition: at prices of classes, but for a few rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion._typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.decode import GRAIN, Decoding
from apportion.distributed.bag_sums import BagSums, bag_sums
from apportion.distributed.part import Part
from apportion.multipliers import SoftmaxResponse
from apportion.transport import _cheapest_moves, _Kinds, cheapest_to_move


class Prices(NamedTuple):
    """Where bags of more classes are cut.

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


class Trial(NamedTuple):
    """Prices to try: multipliers times a temperature.

    Attributes
    ----------
    asked : ndarray of bool, of shape (n_spanning,)
        The bags that are asked about.
    multipliers : ndarray of shape (n_asked, n_classes)
        Their multipliers.
    temperature : float
        The temperature.
    """

    asked: BoolArray
    multipliers: FloatArray
    temperature: float


class Priced(NamedTuple):
    """What rows of some bags across partitions take at some prices.

    Attributes
    ----------
    soft : BagSums
        At a temperature, added up.
    counts : ndarray of shape (n_asked, n_classes)
        Rows whose best class is this.
    """

    soft: BagSums
    counts: FloatArray


def priced(part: Part, scores: IntArray, trial: Trial) -> Priced:
    """Return what rows of some bags take when prices are multipliers times a temperature."""
    asked, multipliers, temperature = trial
    rows, groups = part.groups.only(asked)
    scores = scores[rows]
    respond = SoftmaxResponse(scores * (GRAIN / temperature), np.ones(len(rows)))
    soft = bag_sums(respond, respond(groups.spread(multipliers)), groups)
    labels = np.argmax(scores + in_grains(multipliers * temperature)[groups.codes], axis=1)
    return Priced(soft, groups.sum(np.eye(part.n_classes)[labels]))


def in_grains(prices: FloatArray) -> IntArray:
    """Return prices in whole grains, as scores are."""
    return np.rint(prices / GRAIN).astype(np.int64)


def _best(part: Part, scores: IntArray, prices: IntArray) -> IntArray:
    """Return the best class of every row across partitions, at its bag's prices."""
    return np.argmax(scores + prices[part.groups.codes], axis=1)


class Candidates(NamedTuple):
    """Rows across partitions that the driver looks at: where they stand, scores and labels."""

    bag: AnyArray
    hash: AnyArray
    partition: AnyArray
    place: AnyArray
    scores: AnyArray
    label: AnyArray


def shortlisted(part: Part, scores: IntArray, prices: IntArray, most: IntArray) -> Candidates:
    """Return the rows that would lose least by a move, for every pair of classes of a bag."""
    codes, labels = part.groups.codes, _best(part, scores, prices)
    place = np.flatnonzero(_listed(scores, labels, codes, most))
    number = np.full(len(place), part.number)
    return Candidates(codes[place], part.hashes[place], number, place, scores[place], labels[place])


def cheapest(parts: list[Candidates], most: IntArray) -> Candidates:
    """Return candidates of several partitions that would still be listed if these were one."""
    every = Candidates(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))
    order = np.lexsort([every.place, every.partition, every.hash, every.bag])
    every = Candidates(*(field[order] for field in every))
    listed = _listed(every.scores, every.label, every.bag, most)
    return Candidates(*(field[listed] for field in every))


def _listed(scores: IntArray, labels: IntArray, codes: IntArray, most: IntArray) -> BoolArray:
    there = np.eye(scores.shape[1], dtype=bool)[labels] & (most[codes] > 0)[:, None]
    return cheapest_to_move(scores, there, codes, most)


class Losses(NamedTuple):
    """The least that a row of a bag loses by a move from one class to another."""

    least: IntArray


def lost(part: Part, scores: IntArray, cut: Prices) -> Losses:
    """Return the least that a row of each bag loses by a move from one class to another."""
    labels = at_prices(part, scores, cut).labels
    quotas = np.zeros((part.groups.n_groups, part.n_classes), dtype=np.int64)
    ones = np.ones(len(labels), dtype=np.int64)
    kinds = _Kinds(scores, part.groups.codes, ones, quotas, GRAIN)
    least, _ = _cheapest_moves(kinds, np.eye(part.n_classes, dtype=np.int64)[labels])
    return Losses(least)


def least(answers: list[Losses]) -> Losses:
    """Return the least losses of several partitions."""
    return Losses(np.minimum.reduce([one.least for one in answers]))


def at_prices(part: Part, scores: IntArray, cut: Prices) -> Decoding:
    """Return the rows across partitions at the prices of their bag, but for those moved."""
    labels = _best(part, scores, cut.prices)
    if cut.moved is not None:
        mine = cut.moved.partition == part.number
        labels[cut.moved.place[mine]] = cut.moved.label[mine]
    tied = np.zeros(len(labels), dtype=bool)
    if cut.losses is not None:
        every, codes = np.arange(len(labels)), part.groups.codes
        around = scores[every, labels][:, None] - scores + cut.losses[codes, :, labels]
        around[every, labels] = 1
        tied = (around == 0).any(axis=1)
    return Decoding(labels, tied)
