"""What a worker holds of one partition, and what it answers to the driver.

Everything here is a function of a partition and of something small that the driver sends: anchors,
one number an anchor and class, one multiplier a bag and class. So whatever a worker loses, another
one finds again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from apportion._typing import AnyArray, FloatArray, IntArray, UIntArray
from apportion.bags import Bags
from apportion.decode import Decoding, Quotas, bag_counts, grains
from apportion.graph.anchor import AnchorGraph, _from_others, _sparse_rows, _without_own
from apportion.graph.neighbours import FlatSearch
from apportion.hashing import ranks_of, row_hashes
from apportion.multipliers import Groups, SimplexResponse, group_hessian, onto_simplex
from apportion.project import MassProjection


class Rows(NamedTuple):
    """Rows as they were read: features, and the position of each row's bag, -1 = in none."""

    X: FloatArray
    codes: IntArray


class Sample(NamedTuple):
    """The rows of the lowest hashes, and of how many rows they are."""

    n_rows: int
    hashes: UIntArray
    X: FloatArray


def lowest(rows: Rows, most: int) -> Sample:
    """Return the rows of the lowest hashes."""
    return _lowest(Sample(len(rows.X), row_hashes(rows.X), np.asarray(rows.X)), most)


def merged(samples: list[Sample], most: int) -> Sample:
    """Return the rows of the lowest hashes of several samples."""
    hashes = np.concatenate([one.hashes for one in samples])
    X = np.concatenate([one.X for one in samples])
    return _lowest(Sample(sum(one.n_rows for one in samples), hashes, X), most)


def _lowest(sample: Sample, most: int) -> Sample:
    first = np.argsort(sample.hashes, kind="stable")[:most]
    return Sample(sample.n_rows, sample.hashes[first], sample.X[first])


class Tied(NamedTuple):
    """Rows tied to anchors: weights and anchors of each, hashes and bags."""

    weights: FloatArray
    nearest: IntArray
    hashes: UIntArray
    codes: IntArray


def tie(rows: Rows, anchors: FloatArray, n_nearest: int) -> Tied:
    """Return the rows tied to their nearest anchors."""
    weights, nearest, _, _ = AnchorGraph(n_nearest=n_nearest)._tied(rows.X, FlatSearch(anchors))
    return Tied(weights, nearest, row_hashes(rows.X), rows.codes)


class Census(NamedTuple):
    """What partitions add up to: rows, rows of each bag, mass of each anchor, what they share."""

    n_rows: int
    sizes: FloatArray
    anchor_rows: FloatArray
    masses: FloatArray
    shared: FloatArray


def census(tied: Tied, n_bags: int, n_anchors: int) -> Census:
    """Return what a partition counts."""
    Z = _sparse_rows(tied.weights, tied.nearest, n_anchors)
    return Census(
        len(tied.codes),
        np.bincount(tied.codes[tied.codes >= 0], minlength=n_bags).astype(np.float64),
        np.bincount(tied.nearest.ravel(), minlength=n_anchors).astype(np.float64),
        np.bincount(tied.nearest.ravel(), tied.weights.ravel(), n_anchors).astype(np.float64),
        np.asarray((sparse.csr_array(Z.T) @ Z).todense()),
    )


class Design(NamedTuple):
    """What every partition is told of anchors and bags.

    Attributes
    ----------
    masses : ndarray of shape (n_anchors,)
        Λ, of the anchors that are used.
    used : ndarray of shape (n_anchors before,)
        Where each anchor stands among those that are used.
    classes : ndarray of shape (n_classes,)
        The classes.
    lower, upper : ndarray of shape (n_bags, n_classes)
        The bags' masses.
    spanning : ndarray of shape (n_bags,)
        Where each bag stands among those that lie in several partitions; -1 = in one only.
    """

    masses: FloatArray
    used: IntArray
    classes: AnyArray
    lower: FloatArray
    upper: FloatArray
    spanning: IntArray

    @property
    def n_spanning(self) -> int:
        """The number of bags that lie in several partitions."""
        return int((self.spanning >= 0).sum())


@dataclass
class Part:
    """A partition, ready to answer.

    Bags that lie in this partition alone are projected and decoded here, from start to end; the
    multipliers they were left at are where the next projection begins. Of the others, the driver
    says the multipliers.
    """

    tied: Tied
    design: Design

    @cached_property
    def ties(self) -> Any:
        """Z: the rows' weights on the anchors."""
        nearest: AnyArray = self.design.used[self.tied.nearest].astype(np.int32)
        return _sparse_rows(self.tied.weights, nearest, len(self.design.masses))

    @cached_property
    def gives(self) -> Any:
        """Zᵀ."""
        return sparse.csr_array(self.ties.T)

    @cached_property
    def own(self) -> FloatArray:
        """How much each row is tied to itself."""
        weights = self.ties.data.reshape(self.tied.weights.shape)
        shares = self.design.masses[self.ties.indices.reshape(weights.shape)]
        return np.einsum("is,is->i", weights, weights / shares)[:, None]

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.tied.codes)

    @cached_property
    def ranks(self) -> IntArray:
        """The rows' places in the order of their hashes."""
        return ranks_of(self.tied.hashes)

    @cached_property
    def span_rows(self) -> IntArray:
        """The rows of bags that lie in several partitions, sorted by bag, then by hash."""
        spanning = np.append(self.design.spanning, -1)[self.tied.codes]
        rows = np.flatnonzero(spanning >= 0)
        return rows[np.lexsort([self.ranks[rows], spanning[rows]])]

    @cached_property
    def span_groups(self) -> Groups:
        """The bags of these rows."""
        spanning = np.append(self.design.spanning, -1)
        return Groups(spanning[self.tied.codes[self.span_rows]], self.design.n_spanning)

    @cached_property
    def own_rows(self) -> IntArray:
        """The other rows: of bags that lie in this partition alone, or in no bag."""
        return np.flatnonzero(np.append(self.design.spanning, -1)[self.tied.codes] < 0)

    @cached_property
    def bags(self) -> Bags:
        """The bags that lie in this partition alone, with their rows."""
        codes = self.tied.codes[self.own_rows]
        mine = np.unique(codes[codes >= 0])
        place = np.full(len(self.design.spanning) + 1, -1)
        place[mine] = np.arange(len(mine))
        return Bags(
            tuple(mine.tolist()),
            self.design.classes,
            place[codes],
            self.design.lower[mine],
            self.design.upper[mine],
            np.full(len(codes), -1),
        )

    @cached_property
    def projection(self) -> MassProjection:
        """Soft labels onto the masses of these bags."""
        return MassProjection(self.bags, np.ones(len(self.own_rows)))

    @cached_property
    def quotas(self) -> Quotas:
        """Labels that keep the counts of these bags."""
        ranks = np.argsort(np.argsort(self.ranks[self.own_rows]))
        return Quotas(self.bags, ranks)


def ready(tied: Tied, design: Design) -> Part:
    """Return a partition, ready to answer."""
    return Part(tied, design)


class Half(NamedTuple):
    """Half a step: soft labels, projected but for rows of spanning bags, and these as they came."""

    F: FloatArray
    open: FloatArray


def began(part: Part, shares: FloatArray) -> Half:
    """Return half of the first step, to the soft labels nearest to the bags' shares."""
    return _half(part, part.projection.to_columns(shares[part.tied.codes]))


def descended(part: Part, B: FloatArray) -> Half:
    """Return half of a step, Π(Z B)."""
    return _half(part, np.asarray(part.ties @ B))


def began_whole(part: Part, shares: FloatArray) -> FloatArray:
    """Return the first step, where there is no spanning bag."""
    return began(part, shares).F


def descended_whole(part: Part, B: FloatArray) -> FloatArray:
    """Return a step, where there is no spanning bag."""
    return descended(part, B).F


def _half(part: Part, f: FloatArray) -> Half:
    project = part.projection
    if len(part.own_rows) == part.n_rows:
        return Half(project(f), project.from_columns(f[:0]))
    if len(part.own_rows):
        f[part.own_rows] = project(f[part.own_rows])
    return Half(f, project.from_columns(f[part.span_rows]))


class SpanSums(NamedTuple):
    """What rows of spanning bags answer to multipliers, added up.

    Attributes
    ----------
    bags : ndarray of shape (n_spanning, n_classes)
        The sums of soft labels over the bags.
    value, magnitude : ndarray of shape (n_spanning,)
        What their rows' answers are worth, and the size of that.
    hessian : ndarray of shape (n_spanning, n_classes, n_classes)
        How the sums follow the multipliers.
    """

    bags: FloatArray
    value: FloatArray
    magnitude: FloatArray
    hessian: FloatArray


def answered(part: Part, half: Half, multipliers: FloatArray) -> SpanSums:
    """Return what the rows of spanning bags answer to multipliers."""
    groups = part.span_groups
    respond = SimplexResponse(half.open, np.ones(len(half.open)))
    answer = respond(groups.spread(multipliers))
    return SpanSums(
        groups.sum(answer.labels),
        groups.sum(answer.value),
        groups.sum(np.abs(answer.value)),
        group_hessian(respond, answer, groups),
    )


class Sums(NamedTuple):
    """What soft labels add up to.

    Attributes
    ----------
    anchors : ndarray of shape (n_anchors, n_columns)
        Zᵀ F.
    square, others : float
        ‖F‖², and that of the column that does not travel.
    leap, onward : float
        ‖F - Y‖² from the point Y where the step began, and ⟨F - Y, F - F before⟩.
    """

    anchors: FloatArray
    square: float
    others: float
    leap: float
    onward: float


def closed(part: Part, half: Half, multipliers: FloatArray) -> FloatArray:
    """Return the soft labels that a step leads to: rows of spanning bags answer the multipliers."""
    if not len(half.open):
        return half.F
    moved = half.F.copy()
    lam = part.span_groups.spread(multipliers)
    moved[part.span_rows] = part.projection.to_columns(onto_simplex(half.open + lam))
    return moved


def measured(
    part: Part,
    moved: FloatArray,
    F: FloatArray | None,
    before: FloatArray | None,
    momentum: float,
) -> Sums:
    """Return what soft labels add up to, and how they lie to two points passed before."""
    leap = onward = 0.0
    if F is not None and before is not None:
        ahead = moved - F
        away = ahead - momentum * (F - before) if momentum else ahead
        leap, onward = float(np.vdot(away, away)), float(np.vdot(away, ahead))
    others = float(((1.0 - moved) ** 2).sum()) if part.projection.one_column else 0.0
    square = float(np.vdot(moved, moved))
    return Sums(np.asarray(part.gives @ moved), square, others, leap, onward)


def added(parts: list[Any]) -> Any:
    """Return tuples of numbers and arrays added up, field by field."""
    first = parts[0]
    return type(first)(*(sum(fields[1:], fields[0]) for fields in zip(*parts, strict=True)))


class Scored(NamedTuple):
    """A partition before its spanning bags are decoded.

    Attributes
    ----------
    labels, tied : ndarray of shape (n_rows,)
        Labels of the rows in no spanning bag, and which of them only a tie-break decided.
    scores : ndarray of int, of shape (n_span_rows, n_classes)
        What the rows of spanning bags are worth in each class.
    """

    labels: IntArray
    tied: AnyArray
    scores: IntArray


def scored(part: Part, F: FloatArray, heard: FloatArray | None, weight: float) -> Scored:
    """Return labels of the partition's own bags, and scores for the others.

    Scores are soft labels, or what rows hear of the others' labels with a little of their soft
    labels.
    """
    soft = part.projection.from_columns(F)
    scores = soft if heard is None else heard + weight * soft
    labels, tied = np.zeros(part.n_rows, dtype=np.intp), np.zeros(part.n_rows, dtype=bool)
    own = part.own_rows
    if len(own) == part.n_rows:
        labels, tied = part.quotas(scores, bag_counts(soft, part.bags))
    elif len(own):
        labels[own], tied[own] = part.quotas(scores[own], bag_counts(soft[own], part.bags))
    return Scored(labels, tied, grains(scores[part.span_rows]))


class Voices(NamedTuple):
    """Zᵀ of labels; of two classes, of the second alone."""

    given: FloatArray


def voices(part: Part, said: Decoding) -> Voices:
    """Return what the rows' labels give to their anchors."""
    return Voices(np.asarray(part.gives @ _said(part, said)))


def listened(part: Part, said: Decoding, voices: FloatArray) -> FloatArray:
    """Return what each row hears of the others' labels."""
    heard = _from_others(np.asarray(part.ties @ voices), _said(part, said), part.own)
    if len(part.design.classes) > 2:
        return heard
    return np.hstack([np.where(_without_own(part.own) > 0, 1.0, 0.0) - heard, heard])


def _said(part: Part, said: Decoding) -> FloatArray:
    c = len(part.design.classes)
    if c == 2:
        return (said.labels == 1).astype(np.float64)[:, None]
    return np.asarray(np.eye(c)[said.labels])


class Agreement(NamedTuple):
    """How much of what rows hear is their own label, added up."""

    own: float


def agreement(heard: FloatArray, said: Decoding) -> Agreement:
    """Return how much of what the rows hear is their own label."""
    return Agreement(float(heard[np.arange(len(heard)), said.labels].sum()))


class Priced(NamedTuple):
    """How many rows of each spanning bag take each class at some prices."""

    counts: FloatArray


def at_prices(one: Scored, prices: IntArray, part: Part) -> IntArray:
    """Return the best class of every row of a spanning bag, at the bag's prices."""
    return np.argmax(one.scores + prices[part.span_groups.codes], axis=1)


def priced(part: Part, one: Scored, prices: IntArray) -> Priced:
    """Return how many rows take each class at some prices."""
    c = len(part.design.classes)
    return Priced(part.span_groups.sum(np.eye(c)[at_prices(one, prices, part)]))


class Candidates(NamedTuple):
    """Rows of spanning bags that the driver looks at: where they stand, scores and labels."""

    bag: AnyArray
    hash: AnyArray
    partition: AnyArray
    place: AnyArray
    scores: AnyArray
    label: AnyArray


def probe(part: Part, one: Scored, number: int, most: IntArray) -> Candidates:
    """Return the first rows, by hash, of every spanning bag."""
    codes = part.span_groups.codes
    starts = np.searchsorted(codes, np.arange(part.span_groups.n_groups))
    return _candidates(part, one, number, np.arange(len(codes)) - starts[codes] < most[codes])


def shortlists(
    part: Part, one: Scored, number: int, prices: IntArray, most: IntArray
) -> Candidates:
    """Return the rows that would lose least by a move, for every pair of classes of a bag."""
    labels, codes = at_prices(one, prices, part), part.span_groups.codes
    return _candidates(part, one, number, _cheapest(one.scores, labels, codes, most), labels)


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


def _candidates(
    part: Part, one: Scored, number: int, which: AnyArray, labels: IntArray | None = None
) -> Candidates:
    place = np.flatnonzero(which)
    return Candidates(
        part.span_groups.codes[place],
        part.tied.hashes[part.span_rows[place]],
        np.full(len(place), number),
        place,
        one.scores[place],
        np.zeros(len(place), dtype=np.intp) if labels is None else labels[place],
    )


def joined(parts: list[Candidates]) -> Candidates:
    """Return candidates of several partitions."""
    return Candidates(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))


def cheapest(parts: list[Candidates], most: IntArray) -> Candidates:
    """Return candidates of several partitions that would still be listed if these were one."""
    every = joined(parts)
    order = np.lexsort([every.place, every.partition, every.hash, every.bag])
    every = Candidates(*(field[order] for field in every))
    listed = _cheapest(every.scores, every.label, every.bag, most)
    return Candidates(*(field[listed] for field in every))


def decided(
    part: Part, one: Scored, prices: IntArray, place: IntArray, label: IntArray
) -> Decoding:
    """Return the partition's labels: at the prices, but for rows that were moved."""
    labels, tied = one.labels.copy(), one.tied.copy()
    chosen = at_prices(one, prices, part)
    chosen[place] = label
    labels[part.span_rows] = chosen
    tied[part.span_rows] = False
    return Decoding(labels, tied)


class Tally(NamedTuple):
    """Labels of every bag and class, and rows that only a tie-break decided."""

    assigned: FloatArray
    n_tied: int


def tally(part: Part, said: Decoding) -> Tally:
    """Return how many rows of each bag have each label."""
    c, n_bags = len(part.design.classes), len(part.design.spanning)
    inside = part.tied.codes >= 0
    keys = part.tied.codes[inside] * c + said.labels[inside]
    assigned = np.bincount(keys, minlength=n_bags * c).reshape(n_bags, c)
    return Tally(assigned.astype(np.float64), int(said.tied.sum()))


def span_sums(part: Part, F: FloatArray) -> Priced:
    """Return the sums of soft labels over spanning bags."""
    return Priced(part.span_groups.sum(part.projection.from_columns(F)[part.span_rows]))
