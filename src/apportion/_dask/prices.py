"""Where a bag of more classes is cut, on a partition: at prices of classes, but for a few rows."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np

from apportion._core.decode import GRAIN, Decoding, grains
from apportion._core.dual import RowDual, SoftmaxResponse
from apportion._core.transport import NEVER, cheapest_to_move, least_losses
from apportion._dask.bag_sums import OfBags, dual_sums
from apportion._dask.part import Part
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray


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
    multipliers : ndarray of shape (n_spanning, n_classes)
        The bags' multipliers.
    temperature : float
        The temperature.
    """

    asked: BoolArray
    multipliers: FloatArray
    temperature: float


def priced(part: Part, scores: IntArray, trial: Trial) -> OfBags:
    """Return what rows of some bags take when prices are multipliers times a temperature.

    These are the sums of softmax, and how many rows have which best class.
    """
    asked = trial.asked[part.held]
    rows, groups = part.groups.only(asked)
    multipliers, scores = trial.multipliers[part.held[asked]], scores[rows]
    respond = SoftmaxResponse(scores * (GRAIN / trial.temperature), np.ones(len(rows)))
    soft = dual_sums(RowDual(respond, groups).at(multipliers))
    prices = grains(multipliers * trial.temperature)
    labels = np.argmax(scores + prices[groups.codes], axis=1)
    counts = groups.sum(np.eye(part.n_classes)[labels])
    return OfBags(part.held[asked], (*soft, counts))


def _best(part: Part, scores: IntArray, prices: IntArray) -> IntArray:
    """Return the best class of every row across partitions, at its bag's prices."""
    return np.argmax(scores + prices[part.spanning], axis=1)


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
    codes, labels = part.spanning, _best(part, scores, prices)
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


def lost(part: Part, scores: IntArray, cut: Prices) -> OfBags:
    """Return the least that a row of each bag loses by a move from one class to another."""
    labels = at_prices(part, scores, cut).labels
    held = part.held
    return OfBags(held, (least_losses(scores, part.groups.codes, labels, len(held), GRAIN),))


def least(answers: list[OfBags]) -> OfBags:
    """Return the least losses of several partitions."""
    return reduce(lambda one, other: one.joined(other, np.minimum, NEVER), answers)


def at_prices(part: Part, scores: IntArray, cut: Prices) -> Decoding:
    """Return the rows across partitions at the prices of their bag, but for those moved."""
    labels = _best(part, scores, cut.prices)
    if cut.moved is not None:
        mine = cut.moved.partition == part.number
        labels[cut.moved.place[mine]] = cut.moved.label[mine]
    tied = np.zeros(len(labels), dtype=bool)
    if cut.losses is not None:
        every, codes = np.arange(len(labels)), part.spanning
        around = scores[every, labels][:, None] - scores + cut.losses[codes, :, labels]
        around[every, labels] = 1
        tied = (around == 0).any(axis=1)
    return Decoding(labels, tied)
