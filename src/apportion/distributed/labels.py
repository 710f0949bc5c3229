"""One label a row on a partition: round by round, as refinement hands the bags' counts out anew.

Bags that lie in the partition alone are decoded here. Of the others, the driver asks how rows are
worth what, and says where a bag is cut: at which score for two classes, at which prices for more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion._typing import AnyArray, BoolArray, FloatArray, IntArray, UIntArray
from apportion.decode import GRAIN, Decoding, bag_counts, grains
from apportion.distributed.bag_sums import BagSums, bag_sums
from apportion.distributed.part import Part, Point
from apportion.graph.anchor import _from_others, _without_own
from apportion.graph.row_parts import multiply, transposed
from apportion.multipliers import SoftmaxResponse
from apportion.refine import WEIGHT_OF_SOFT_LABELS
from apportion.threads import blockwise, total
from apportion.transport import _cheapest_moves, _Kinds

SCORE_BITS = 31
HASH_BITS = 64


class Levels(NamedTuple):
    """Where bags of two classes are cut: the key of the last row of the second class.

    A row's key is its score, the highest first, then its hash, then where it stands.

    Attributes
    ----------
    keys : tuple of ndarray of shape (n_spanning,)
        The three parts of the key.
    divided : ndarray of bool, of shape (n_spanning,)
        Whether rows of one score went to both classes.
    """

    keys: tuple[UIntArray, UIntArray, UIntArray]
    divided: AnyArray


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


class Round(NamedTuple):
    """A handing out of labels: what the anchors had said before, None at first, and the cut."""

    voices: FloatArray | None
    cut: Levels | Prices


class Heard(NamedTuple):
    """What rows hear of the others' labels, and how much of it is the label they have."""

    columns: FloatArray
    agreement: float


class Scored(NamedTuple):
    """A partition before its bags across partitions are cut.

    Attributes
    ----------
    labels, tied : ndarray of shape (n_rows alone,)
        Labels of the other rows, and which of them only a tie-break decided.
    scores : ndarray of int, of shape (n_rows across, n_classes)
        What rows are worth in each class, in grains.
    """

    labels: IntArray
    tied: AnyArray
    scores: IntArray


def said(part: Part, point: Point, rounds: list[Round]) -> Decoding:
    """Return the labels after some rounds, remembered or found again.

    Rows that were tied in the first round stay tied.
    """

    def decide() -> Decoding:
        *earlier, last = rounds
        one = scored(part, point, earlier, last.voices)
        if isinstance(last.cut, Levels):
            across = _at_levels(part, one.scores, last.cut)
        else:
            across = _at_prices(part, one.scores, last.cut)
        tied = np.concatenate([one.tied, across.tied])
        if earlier:
            tied |= part.remembered("first", 1, lambda: said(part, point, rounds[:1]).tied)
        return Decoding(np.concatenate([one.labels, across.labels]), tied)

    found = part.remembered("said", len(rounds), decide)
    if len(rounds) == 1:
        part.remembered("first", 1, lambda: found.tied)
    return found


def scored(part: Part, point: Point, rounds: list[Round], voices: FloatArray | None) -> Scored:
    """Return labels of the partition's own bags after one more round, and scores for the others.

    Scores are soft labels, or what rows hear of the others' labels with a little of their soft
    labels.
    """

    def score() -> Scored:
        soft = part.at(point).F
        if voices is None:
            scores = part.projection.from_columns(soft)
        else:
            columns = heard(part, point, rounds, voices).columns
            shape = np.empty((part.n_rows, part.n_classes))
            scores = blockwise(_with_soft_labels, columns, soft, part.own, out=shape)
        counts = part.remembered("counts", 0, lambda: _own_counts(part, soft))
        found = part.quotas(scores[part.alone], counts)
        return Scored(*found, grains(scores[part.across]))

    return part.remembered("scored", len(rounds), score)


def heard(part: Part, point: Point, rounds: list[Round], voices: FloatArray) -> Heard:
    """Return what each row hears of the others' labels, as they travel."""

    def hear() -> Heard:
        labels = said(part, point, rounds).labels
        columns = multiply(part.ties, voices)
        said_here = _one_hot(part, labels)
        columns = blockwise(_from_others, columns, said_here, part.own, out=columns)
        return Heard(columns, total(_agreement, columns, labels, part.own))

    return part.remembered("heard", len(rounds), hear)


def _agreement(columns: FloatArray, labels: IntArray, own: FloatArray) -> float:
    return float(_of_classes(columns, own)[np.arange(len(labels)), labels].sum())


def _with_soft_labels(columns: FloatArray, soft: FloatArray, own: FloatArray) -> FloatArray:
    F = np.hstack([1.0 - soft, soft]) if soft.shape[1] == 1 else soft
    return _of_classes(columns, own) + WEIGHT_OF_SOFT_LABELS * F


def _of_classes(columns: FloatArray, own: FloatArray) -> FloatArray:
    """Return what is heard of every class, from the columns that travel."""
    if columns.shape[1] > 1:
        return columns
    return np.hstack([np.where(_without_own(own) > 0, 1.0, 0.0) - columns, columns])


def _own_counts(part: Part, soft: FloatArray) -> IntArray:
    return bag_counts(part.projection.from_columns(soft[part.alone]), part.bags)


def _one_hot(part: Part, labels: IntArray) -> FloatArray:
    """Return labels as they travel: of two classes, the second alone."""
    if part.n_classes == 2:
        return (labels == 1).astype(np.float64)[:, None]
    return np.asarray(np.eye(part.n_classes)[labels])


# --- What is added up.


class Voices(NamedTuple):
    """Zᵀ of labels; of two classes, of the second alone."""

    given: FloatArray


def voiced(part: Part, point: Point, rounds: list[Round]) -> Voices:
    """Return what the rows' labels give to their anchors."""
    labels = _one_hot(part, said(part, point, rounds).labels)
    return Voices(np.asarray(transposed(part.ties) @ labels))


class Agreement(NamedTuple):
    """How much of what rows hear is their own label."""

    own: float


def agreed(part: Part, point: Point, rounds: list[Round], voices: FloatArray) -> Agreement:
    """Return how much of what the rows hear is their own label."""
    return Agreement(heard(part, point, rounds, voices).agreement)


class Tally(NamedTuple):
    """Labels of every bag and class, and rows that only a tie-break decided."""

    assigned: IntArray
    n_tied: int


def tallied(part: Part, point: Point, rounds: list[Round]) -> Tally:
    """Return how many rows of each bag have each label."""
    c, n_bags = part.n_classes, len(part.design.spanning)
    labels, tied = said(part, point, rounds)
    inside = part.codes >= 0
    assigned = np.bincount(part.codes[inside] * c + labels[inside], minlength=n_bags * c)
    return Tally(assigned.reshape(n_bags, c), int(tied.sum()))


class Masses(NamedTuple):
    """The sums of soft labels over bags that lie in several partitions."""

    masses: FloatArray


def massed(part: Part, point: Point) -> Masses:
    """Return the sums of soft labels over bags that lie in several partitions."""
    soft = part.projection.from_columns(part.at(point).F[part.across])
    return Masses(part.groups.sum(soft))


# --- Two classes: the bags' levels, digit by digit.


class Digit(NamedTuple):
    """A question about the next bits of the level's key.

    Attributes
    ----------
    known : tuple of ndarray of shape (n_spanning,)
        The parts of the key that are known; the last of them only above `shift + bits`.
    asked : ndarray of bool, of shape (n_spanning,)
        The bags that are asked about.
    shift, bits : int
        Which bits of the last part.
    """

    known: tuple[UIntArray, ...]
    asked: AnyArray
    shift: int
    bits: int


class Histogram(NamedTuple):
    """How many rows of each bag have each value of some bits of their key."""

    counts: IntArray


def binned(
    part: Part,
    point: Point,
    rounds: list[Round],
    voices: FloatArray | None,
    digit: Digit,
) -> Histogram:
    """Return how the rows of a bag that share what is known of its level go on."""
    keys = _keys(part, scored(part, point, rounds, voices).scores)
    codes = part.groups.codes
    matches = digit.asked[codes]
    *whole, prefix = digit.known
    for key, known in zip(keys, whole, strict=False):
        matches &= key == known[codes]
    key, above = keys[len(whole)], digit.shift + digit.bits
    if above < HASH_BITS:
        matches &= (key >> np.uint64(above)) == prefix[codes]
    values = (key[matches] >> np.uint64(digit.shift)) & np.uint64(2**digit.bits - 1)
    cells = (codes[matches] << digit.bits) + values.astype(np.intp)
    n_cells = part.groups.n_groups << digit.bits
    return Histogram(np.bincount(cells, minlength=n_cells).reshape(-1, 2**digit.bits))


def _keys(part: Part, scores: IntArray) -> tuple[UIntArray, UIntArray, UIntArray]:
    """Return the keys of rows across partitions: score, the highest first, hash, place."""
    highest = 2**SCORE_BITS - 1
    falling = highest - np.clip(scores[:, 1], 0, highest)
    places = (part.number << 40) + np.arange(len(scores))
    return falling.astype(np.uint64), part.hashes, places.astype(np.uint64)


def _at_levels(part: Part, scores: IntArray, cut: Levels) -> Decoding:
    """Return the rows across partitions, the second class up to the level of their bag."""
    codes = part.groups.codes
    taken, equal = np.zeros(len(codes), dtype=bool), np.ones(len(codes), dtype=bool)
    for key, level in zip(_keys(part, scores), cut.keys, strict=True):
        taken |= equal & (key < level[codes])
        equal &= key == level[codes]
    tied = cut.divided[codes] & (_keys(part, scores)[0] == cut.keys[0][codes])
    return Decoding((taken | equal).astype(np.intp), tied)


# --- More classes: prices of classes, then the rows that would lose least by a move.


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


def priced(
    part: Part,
    point: Point,
    rounds: list[Round],
    voices: FloatArray | None,
    question: Trial,
) -> Priced:
    """Return what rows of some bags take when prices are multipliers times a temperature."""
    asked, multipliers, temperature = question
    rows, groups = part.groups.only(asked)
    scores = scored(part, point, rounds, voices).scores[rows]
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


def shortlisted(
    part: Part,
    point: Point,
    rounds: list[Round],
    voices: FloatArray | None,
    prices: IntArray,
    most: IntArray,
) -> Candidates:
    """Return the rows that would lose least by a move, for every pair of classes of a bag."""
    scores, codes = scored(part, point, rounds, voices).scores, part.groups.codes
    labels = _best(part, scores, prices)
    place = np.flatnonzero(_cheapest(scores, labels, codes, most))
    number = np.full(len(place), part.number)
    return Candidates(codes[place], part.hashes[place], number, place, scores[place], labels[place])


def cheapest(parts: list[Candidates], most: IntArray) -> Candidates:
    """Return candidates of several partitions that would still be listed if these were one."""
    every = Candidates(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))
    order = np.lexsort([every.place, every.partition, every.hash, every.bag])
    every = Candidates(*(field[order] for field in every))
    listed = _cheapest(every.scores, every.label, every.bag, most)
    return Candidates(*(field[listed] for field in every))


def _cheapest(scores: IntArray, labels: IntArray, codes: IntArray, most: IntArray) -> AnyArray:
    """Return which rows are, for some pair of classes, among the `most` of their bag to lose least.

    Rows come sorted by bag.
    """
    listed = np.zeros(len(codes), dtype=bool)
    c = scores.shape[1]
    for a in range(c):
        here = np.flatnonzero((labels == a) & (most[codes] > 0))
        starts = np.searchsorted(codes[here], np.arange(len(most)))
        for b in range(c):
            if a == b:
                continue
            loss = scores[here, a] - scores[here, b]
            order = np.lexsort([loss, codes[here]])
            place = np.arange(len(here)) - starts[codes[here]]
            listed[here[order[place < most[codes[here]]]]] = True
    return listed


class Losses(NamedTuple):
    """The least that a row of a bag loses by a move from one class to another."""

    least: IntArray


def lost(
    part: Part, point: Point, rounds: list[Round], voices: FloatArray | None, cut: Prices
) -> Losses:
    """Return the least that a row of each bag loses by a move from one class to another."""
    scores = scored(part, point, rounds, voices).scores
    labels = _at_prices(part, scores, cut).labels
    quotas = np.zeros((part.groups.n_groups, part.n_classes), dtype=np.int64)
    ones = np.ones(len(labels), dtype=np.int64)
    kinds = _Kinds(scores, part.groups.codes, ones, quotas, GRAIN)
    least, _ = _cheapest_moves(kinds, np.eye(part.n_classes, dtype=np.int64)[labels])
    return Losses(least)


def least(answers: list[Losses]) -> Losses:
    """Return the least losses of several partitions."""
    return Losses(np.minimum.reduce([one.least for one in answers]))


def _at_prices(part: Part, scores: IntArray, cut: Prices) -> Decoding:
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
