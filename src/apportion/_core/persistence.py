"""Class probabilities that know that activities last."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion._core.chain import Chain
from apportion._utils.sequences import Sequences
from apportion._utils.typing import FloatArray, IntArray

_LEAST = 1e-9
"""No probability is taken to be smaller, so that no row forbids a class to those around it."""


_LEAST_CHANGE = 1e-3
"""No activity is taken to change less often."""

_LEAST_STEPS = 30
"""With fewer pairs of steps, it is not known how often labels change."""

_LEAST_FLICKER = 0.5
"""Labels are smoothed along time if at least so many flicker for each change in earnest. Short
episodes look like flicker, too, and smoothing loses them. Chosen on SPHERE, where the ratio is .1
to .4 and every smoothing that was tried makes labels worse, and on made-up weeks, where it is above
.6 and all make them better. On WISDM, which the exponent of `AutoLLP` was chosen on, it is 1.6 and
they become better."""


class Persistence(NamedTuple):
    """How activities last.

    Attributes
    ----------
    change : float
        The probability that the activity changes between two rows at the usual step.
    trust : float
        The exponent of a row's own probabilities: below 1 if rows that follow each other are
        misjudged alike, so that each says less than it seems to.
    """

    change: float
    trust: float = 1.0

    @property
    def cost(self) -> float:
        """The cost of a change, in units of the logarithms of a row's own probabilities."""
        change = min(max(self.change, _LEAST_CHANGE), 1.0 - _LEAST_CHANGE)
        return max(float(np.log((1.0 - change) / change)), 0.0) / self.trust


class Flicker(NamedTuple):
    """How often labels change from step to step, in earnest and by mistake.

    Attributes
    ----------
    change : float
        The estimated share of steps at which the activity changes; NaN if there are too few steps.
    flicker : float
        The estimated share of labels that are wrong independently of those around them.
    """

    change: float
    flicker: float

    @property
    def is_clear(self) -> bool:
        """Whether so many labels flicker that smoothing them does more good than harm."""
        return self.flicker >= _LEAST_FLICKER * self.change and self.flicker > 0

    @property
    def cost(self) -> float:
        """The cost of a change along time: the log-odds of staying; 0 if few labels flicker."""
        return Persistence(self.change).cost if self.is_clear else 0.0

    def __str__(self) -> str:
        if np.isnan(self.change):
            return "there are too few steps to see how often activities change"
        if self == _WITHOUT_ORDER:
            return "labels do not last from step to step, or are all the same"
        return (
            f"activities change at {self.change:.1%} of the steps, and {self.flicker:.1%} of the "
            "labels flicker"
        )


_WITHOUT_ORDER = Flicker(1.0, 0.0)
"""Labels that agree at two steps no more often than by chance."""


# If an activity stays with probability 1 - c from step to step, and a share e of the labels is
# wrong, each for itself, two labels k steps apart agree more often than by chance by (1-e)² (1-c)^k
# times the most that is possible. The agreement at one step and at two tells c and e apart, without
# a label. Errors that last as long as activities do are no flicker, and no tie corrects them.
def flicker_of(labels: IntArray, sequences: Sequences) -> Flicker:
    """Return how often labels change, and flicker, along their sequences.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        The labels, as positions in the classes.
    sequences : Sequences
        Which rows follow each other; only usual steps count.
    """
    along, near = labels[sequences.order], sequences.closeness == 1.0
    second = np.flatnonzero(near)
    third = np.flatnonzero(near[2:] & near[1:-1]) + 2
    if len(third) < _LEAST_STEPS:
        return Flicker(np.nan, 0.0)
    chance = float(((np.bincount(along) / len(along)) ** 2).sum())
    one = (along[second] == along[second - 1]).mean() - chance
    two = (along[third] == along[third - 2]).mean() - chance
    by_chance = np.sqrt(chance * (1.0 - chance) / len(third))
    if two <= 3.0 * by_chance:  # labels that do not last, or are all the same
        return _WITHOUT_ORDER
    change = 1.0 - two / one
    wrong = 1.0 - np.sqrt(one * one / two / (1.0 - chance))
    return Flicker(float(np.clip(change, 0.0, 1.0)), float(np.clip(wrong, 0.0, 1.0)))


def smooth_along_time(
    P: FloatArray, sequences: Sequences, shares: FloatArray, persistence: Persistence
) -> FloatArray:
    """Return the probability of each row's class, given the probabilities of its whole sequence.

    The classes of a sequence are a Markov chain: from one row to the next the class stays, or is
    drawn anew from the overall shares. A row says of its class what its probability is relative to
    the share. Forward and backward passes give the exact posterior (Rabiner, "A Tutorial on Hidden
    Markov Models", Proceedings of the IEEE 77, 1989). A gap of several steps is as many chances to
    change.

    Parameters
    ----------
    P : ndarray of shape (n_samples, n_classes)
        The probability of each row's class, from its own features.
    sequences : Sequences
        Which rows follow each other.
    shares : ndarray of shape (n_classes,)
        The overall class shares.
    persistence : Persistence
        How activities last.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        The posterior probabilities.
    """
    shares = np.maximum(shares, _LEAST)
    shares = shares / shares.sum()
    order, closeness = sequences.order, sequences.closeness
    evidence = (np.maximum(P[order], _LEAST) / shares) ** persistence.trust
    evidence /= evidence.max(axis=1, keepdims=True)
    steps = 1.0 / np.where(sequences.begins, 1.0, closeness)
    change = max(persistence.change, _LEAST_CHANGE)  # 0 would give a whole recording one class
    stay = np.where(sequences.begins, 0.0, (1.0 - change) ** steps)
    smoothed = np.empty_like(evidence)
    smoothed[order] = Chain(len(P)).posterior(evidence, stay, 1.0 - stay, shares).classes
    return smoothed
