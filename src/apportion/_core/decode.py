"""Decode soft labels into one label per row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from apportion._core.transport import transport
from apportion._utils.arrays import (
    arange,
    as_int,
    beside,
    full,
    namespace,
    to_device,
    to_numpy,
    zeros,
)
from apportion._utils.box_projection import nearest_totals
from apportion._utils.groups import GroupBlock, Groups
from apportion._utils.magnitude import largest_size
from apportion._utils.threads import block_rows, in_threads
from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.exceptions import InputError, name_some
from apportion.supervision.bags import Bags

SCORE_UNIT = 1e-9
"""Soft labels closer than this are tied: differences below it are rounding, not evidence."""

_LARGEST_SCORE = 1e8
"""Scores below this are exact as integers, and so are sums and differences of a few of them."""

_MOST_ROWS = 2**52
"""Counts below this are exact as floating-point numbers, also after 1 is added."""


class Decoding(NamedTuple):
    """Labels as positions in the classes, and which rows only a tie-break decided."""

    labels: IntArray
    tied: BoolArray


def threshold(F: FloatArray, bags: Bags | None = None) -> Decoding:
    """Return every row's most likely class; among equals the first in the order of the classes.

    For two classes this is the paper's sgn(f - 0.5). Bag counts are not kept.
    """
    xp, scores = namespace(F), integer_scores(F)
    labels = xp.argmax(scores, axis=1)
    best = xp.take_along_axis(scores, labels[:, None], axis=1)
    tied = (scores == best).sum(axis=1) > 1
    if bags is not None:
        labels, tied = _with_given(labels, tied, bags)
    return Decoding(labels, tied)


class Quotas:
    """The labels of largest total soft label among those that keep every bag's counts.

    Rows in no bag take their most likely class; given labels are kept. Bags are decoded in blocks,
    in threads, or all at once on a device.

    Parameters
    ----------
    bags : Bags
        The bags.
    ranks : ndarray of shape (n_samples,)
        An order of the rows to break exact ties by; see `hash_ranks`.
    device : torch.device, optional
        Where to decode; by default in memory.
    """

    def __init__(self, bags: Bags, ranks: IntArray, device: Any = None) -> None:
        self.bags = bags
        self.device = device
        ranks = to_device(ranks, device)
        self._groups = bags.open_groups.beside(ranks)
        xp = namespace(ranks)
        self._loose = xp.flatnonzero(self._groups.codes < 0)
        blocks = self._groups.blocks(block_rows(bags.n_samples, bags.n_classes))
        self._blocks = [
            block._replace(
                rows=block.rows[xp.argsort(block.groups.codes * len(ranks) + ranks[block.rows])]
            )
            for block in blocks
        ]

    def __call__(self, F: FloatArray, counts: IntArray | None = None) -> Decoding:
        """Return the labels.

        Parameters
        ----------
        F : ndarray of shape (n_samples, n_classes)
            Soft labels.
        counts : ndarray of shape (n_bags, n_classes), optional
            How many open rows of each bag get each class, by default the bag's masses rounded by
            largest remainder: `bag_counts(F, bags)`.
        """
        given_as, F = F, to_device(F, self.device)
        labels, tied = zeros(len(F), F, dtype=int), zeros(len(F), F, dtype=bool)
        labels[self._loose], tied[self._loose] = threshold(F[self._loose])
        quotas = beside(self.counts(F) if counts is None else counts, F)

        def decode(block: GroupBlock) -> None:
            rows, groups, span = block
            labels[rows], tied[rows] = (
                _take_top(integer_scores(F[rows, 1]), groups, quotas[span, 1])
                if F.shape[1] == 2
                else transport(integer_scores(F[rows]), groups, quotas[span], SCORE_UNIT)
            )

        in_threads(decode, self._blocks)
        labels, tied = _with_given(labels, tied, self.bags)
        return Decoding(beside(labels, given_as), beside(tied, given_as))

    def counts(self, F: FloatArray) -> IntArray:
        """Return how many open rows of each bag get each class, in memory: see `bag_counts`."""
        return _rounded(to_numpy(self._groups.sum(to_device(F, self.device))), self.bags)


def quota(F: FloatArray, bags: Bags, ranks: IntArray) -> Decoding:
    """Return the labels of largest total soft label that keep every bag's counts: see `Quotas`."""
    return Quotas(bags, ranks)(F)


def without(scores: FloatArray, excluded: BoolArray | None) -> FloatArray:
    """Return scores, above that of the first class, so low where excluded that others are chosen.

    To give a row another label, at most one row of each class must change its own, so that what is
    lost is at most the number of classes times the span of the scores.
    """
    if excluded is None:
        return scores
    lost = (scores.shape[1] + 1) * (float(np.ptp(scores)) + 1.0) if scores.size else 0.0
    low = np.where(excluded, scores - lost, scores)
    # With two classes, quotas look at the second column alone.
    return low - low[:, :1]


def round_to_counts(
    masses: FloatArray, sizes: FloatArray, lower: FloatArray, upper: FloatArray
) -> IntArray:
    """Return whole numbers near the masses that sum to the sizes, by largest remainder.

    They stay within the bounds where whole numbers can; where a bound is no whole number and
    leaves none, within one of it. Equal remainders go to the first class.

    Examples
    --------
    >>> masses = np.array([[1.5, 1.5, 2.0], [0.2, 0.4, 2.4]])
    >>> round_to_counts(masses, np.array([5.0, 3.0]), masses, masses)
    array([[2, 1, 2],
           [0, 1, 2]])
    """
    least, most = _whole_bounds(sizes, lower, upper)
    counts = np.clip(np.floor(masses + SCORE_UNIT), least, most)
    # A count of NaN, or one so large that adding 1 changes nothing, would never be right.
    wrong = ~(np.maximum(np.abs(counts).sum(axis=1), sizes) < _MOST_ROWS)
    if wrong.any():
        bag = int(np.argmax(wrong))
        raise InputError(
            f"bag number {bag}",
            f"soft labels that add up to {name_some(masses[bag])} for {sizes[bag]:g} rows",
            "finite numbers",
            "look for features, weights or totals that are far too large, and rescale them",
        )
    rows = np.arange(len(masses))
    while (missing := np.rint(sizes - counts.sum(axis=1))).any():
        behind = np.rint((masses - counts) / SCORE_UNIT)
        up = np.argmax(np.where(counts < most, behind, -np.inf), axis=1)
        down = np.argmin(np.where(counts > least, behind, np.inf), axis=1)
        counts[rows, np.where(missing > 0, up, down)] += np.sign(missing)
    return counts.astype(np.intp)


def _whole_bounds(
    sizes: FloatArray, lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the whole numbers within the bounds; just outside where there are none."""
    least, most = np.ceil(lower - SCORE_UNIT), np.floor(upper + SCORE_UNIT)
    outside_least, outside_most = np.floor(lower + SCORE_UNIT), np.ceil(upper - SCORE_UNIT)
    none = least > most
    least, most = np.where(none, outside_least, least), np.where(none, outside_most, most)
    stuck = (least.sum(axis=1) > sizes) | (most.sum(axis=1) < sizes)
    return (
        np.where(stuck[:, None], outside_least, least),
        np.where(stuck[:, None], outside_most, most),
    )


def bag_counts(F: FloatArray, bags: Bags) -> IntArray:
    """Return how many open rows of each bag get each class.

    These are the bag's masses where they are exact, else the allowed masses nearest to the sums
    of the soft labels, rounded.
    """
    return _rounded(bags.open_groups.sum(F), bags)


def _rounded(sums: FloatArray, bags: Bags) -> IntArray:
    lower, upper, sizes = bags.open_lower, bags.open_upper, bags.open_groups.sizes
    return round_to_counts(nearest_totals(sums, lower, upper, sizes), sizes, lower, upper)


def integer_scores(F: FloatArray) -> IntArray:
    """Return scores in units of `SCORE_UNIT`; raise if they are NaN or too large for that."""
    largest = largest_size(F)
    if not largest < _LARGEST_SCORE:
        raise InputError(
            "the soft labels",
            f"a size of {largest:g}",
            "finite numbers near 0 and 1",
            "look for features or weights that are far too large, and rescale them",
        )
    return as_int(namespace(F).rint(F / SCORE_UNIT))


def _take_top(scores: IntArray, groups: Groups, counts: IntArray) -> tuple[IntArray, BoolArray]:
    """Label the `counts` highest rows of each group 1 and the others 0.

    Rows come sorted by group, and in a group by the order that breaks ties. They are tied when
    they score like the last that was taken and the first that was not.
    """
    xp = namespace(scores)
    highest, lowest = scores.max(), scores.min()
    order = xp.argsort(groups.codes * (highest - lowest + 1) + (highest - scores), kind="stable")
    sizes = as_int(groups.sizes)
    starts = sizes.cumsum(0) - sizes
    position = xp.empty_like(order)
    position[order] = arange(len(scores), scores) - starts[groups.codes[order]]
    labels = as_int(position < counts[groups.codes])

    divided = xp.flatnonzero((counts > 0) & (counts < sizes))
    last = order[starts[divided] + counts[divided] - 1]
    first_not = order[starts[divided] + counts[divided]]
    threshold = full(groups.n_groups, int(np.iinfo(np.int64).min), scores)
    equal = scores[last] == scores[first_not]
    threshold[divided[equal]] = scores[last[equal]]
    return labels, scores == threshold[groups.codes]


def _with_given(labels: IntArray, tied: BoolArray, bags: Bags) -> tuple[IntArray, BoolArray]:
    given = beside(bags.given, labels)
    known = given >= 0
    return namespace(labels).where(known, given, labels), tied & ~known
