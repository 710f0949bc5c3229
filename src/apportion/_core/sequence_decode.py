"""Decode soft labels along time: labels that keep the counts and do not flicker."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from apportion._core.chain import Chain
from apportion._core.decode import (
    SCORE_UNIT,
    Decoding,
    Quotas,
    bag_counts,
    integer_scores,
    without,
)
from apportion._core.episode_moves import TimeLabels
from apportion._core.episode_search import MOST_ROUNDS, improve, settle, swappable
from apportion._core.sequence_prices import PathDual, search_path_prices
from apportion._utils.groups import Groups
from apportion._utils.sequences import Sequences
from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.exceptions import InputError
from apportion.supervision.bags import Bags
from apportion.supervision.episode_limits import count_begun

_DOUBT = 1e-3
"""Added to every soft label before its logarithm. Soft labels are projections onto the simplex, and
their zeros are no proof: with this, one row has at most log(1/_DOUBT) = 6.9 to say, and the rows on
both sides overrule it at costs above half of that. On three made-up weeks, accuracies at 1e-2, 1e-4
and 1e-6 differ from this by less than .005 at costs 1 and 2, and by up to .016 at cost 4, where
labels of nearly equal value differ."""

_EXACT_BELOW = 2.0**56
"""Integer values of all rows together stay below this, far from the largest integer."""

_SMALL = 20_000
"""Up to so many rows × classes, swaps also start from quota labels. That is best for one in some
hundred problems of a few rows; on three made-up weeks it never was."""


def decode_along_time(
    F: FloatArray,
    bags: Bags,
    ranks: IntArray,
    sequences: Sequences,
    cost: float,
    most_episodes: FloatArray | None = None,
    *,
    counts: IntArray | None = None,
    excluded: BoolArray | None = None,
) -> Decoding:
    """Return labels that keep every bag's counts and pay for every change along a recording.

    They are sought as the labels y of largest

        Σ_i log F[i, y_i] - cost · Σ_k closeness_k · 1[y changes between row k and the one before]

    among those with the counts of quota decoding. Soft labels are probabilities, so that this is
    the log-probability of a path of a Markov chain, up to a constant: `cost` are the log-odds of
    staying, which are less after a gap. Bags do not matter for changes: an episode can go on past
    midnight.

    Prices per bag and class bring the best path near the counts, moves of parts of episodes settle
    the rest, and swaps improve on it. The counts are always exact. The value is the best for cost
    0, mostly the best where there are few rows, and without `most_episodes` never below that of
    quota labels by log F. Bags whose rows alternate in time are harder: segments of two bags never
    move together.

    Parameters
    ----------
    F : ndarray of shape (n_samples, n_classes)
        Soft labels.
    bags : Bags
        The bags. Given labels are kept; rows in no bag take what is best.
    ranks : ndarray of int, of shape (n_samples,)
        An order of the rows to break exact ties by; see `hash_ranks`.
    sequences : Sequences
        The rows in the order of time.
    cost : float
        The cost of a change at a usual step; see `Flicker.cost`. 0 gives quota labels by log F.
    most_episodes : ndarray of shape (n_bags, n_classes), optional
        The most episodes of a class that begin in a bag; NaN or inf = not known. Where there are
        more, short episodes are merged with others or moved beside them as long as swaps within the
        bag can do it. The limits may be exceeded afterwards, the counts are kept.
    counts : ndarray of shape (n_bags, n_classes), optional
        How many open rows of each bag get each class; by default `bag_counts(F, bags)`.
    excluded : ndarray of bool, of shape (n_samples, n_classes), optional
        Labels that rows do not have. They are avoided where the search finds a way; see
        `apportion.labeling._exclusions`.

    Returns
    -------
    Decoding
        The labels, and which rows could swap their label with another row of the bag at no loss.
    """
    if not cost >= 0:
        raise InputError(
            "the cost per change", f"{cost:g}", "a number from 0 on", "take 0 for quota labels"
        )
    counts = bag_counts(F, bags) if counts is None else counts
    scores = _log_scores(F)
    quota = Quotas(bags, ranks)(_against_first(without(scores, excluded)), counts)
    if F.shape[1] < 2 or not (cost > 0 or most_episodes is not None) or not len(F):
        return quota
    problem = _Problem.of(scores, bags, ranks, sequences, float(cost), counts, excluded)
    state = problem.solved(quota.labels[sequences.order])
    if most_episodes is not None:
        state = problem.trimmed(state, most_episodes)
    labels, tied = np.empty(len(F), dtype=np.intp), np.empty(len(F), dtype=bool)
    labels[sequences.order] = state.labels
    tied[sequences.order] = swappable(state, len(problem.dual.quotas)) & (problem.given < 0)
    return Decoding(labels, tied)


def _log_scores(F: FloatArray) -> FloatArray:
    integer_scores(F)  # refuses what is no number
    shares = np.maximum(F, 0.0) + _DOUBT
    return np.log(shares / shares.sum(axis=1, keepdims=True))


def _against_first(scores: FloatArray) -> FloatArray:
    """Return the scores above that of the first class: with two classes, only the second counts."""
    return scores - scores[:, :1]


@dataclass(frozen=True)
class _Problem:
    """The rows in the order of time, and bags numbered by their first row in it.

    Results therefore do not depend on the order of rows or bags. Cells (row, class) that the counts
    or a given label exclude have a score of `-never`.
    """

    dual: PathDual
    sequences: Sequences
    ranks: IntArray
    given: IntArray
    all_codes: IntArray
    numbers: IntArray
    never: float

    @classmethod
    def of(
        cls,
        scores: FloatArray,
        bags: Bags,
        ranks: IntArray,
        sequences: Sequences,
        cost: float,
        counts: IntArray,
        excluded: BoolArray | None = None,
    ) -> _Problem:
        """Return the problem."""
        order, (n, c) = sequences.order, scores.shape
        scores = scores[order]
        span = float(scores.max() - scores.min())
        # A cost above the span of all scores leaves the fewest changes, as does any higher one.
        cost = min(cost, 2.0 * n * (span + 1.0))
        never = 16.0 * (span + cost + 1.0)
        given, codes = bags.given[order], bags.open_groups.codes[order]
        present, first = np.unique(codes[codes >= 0], return_index=True)
        numbers = present[np.argsort(first)]
        renumbered = np.full(len(counts) + 1, -1)
        renumbered[numbers] = np.arange(len(numbers))
        allowed = np.concatenate([counts > 0, np.ones((1, c), dtype=bool)])[codes]
        if excluded is not None:
            allowed &= ~excluded[order]
        allowed[given >= 0] = np.eye(c, dtype=bool)[given[given >= 0]]
        dual = PathDual(
            Chain(n),
            np.where(allowed, scores, -never),
            cost * sequences.closeness,
            Groups(renumbered[codes], len(numbers)),
            counts[numbers],
            max(SCORE_UNIT, n * never / _EXACT_BELOW),
        )
        all_codes = renumbered[bags.codes[order]]
        return cls(dual, sequences, ranks[order], given, all_codes, numbers, never)

    def solved(self, quota_labels: IntArray) -> TimeLabels:
        """Return the best labels found from the best path at prices, or from quota labels."""
        dual = self.dual
        prices = search_path_prices(dual)
        raised, costs = dual.raised(prices), dual.integer_costs()
        path = self._with_given(dual.chain.best_path(raised, costs))
        state = TimeLabels(
            path, raised, costs, self.sequences.begins, dual.groups.codes, self.ranks
        )
        quota = replace(state, labels=quota_labels)
        starts = [settle(state, dual.quotas), *([quota] if raised.size <= _SMALL else [])]
        improved = [self._with_loose(improve(start, len(dual.quotas))) for start in starts]
        return max([*improved, quota], key=TimeLabels.value)

    def trimmed(self, state: TimeLabels, most_episodes: FloatArray) -> TimeLabels:
        """Return labels with fewer episodes where there are more than the limits."""
        state = replace(state, begins=self.sequences.breaks)  # a gap begins an episode, too
        n_bags = len(self.numbers)
        limits = np.nan_to_num(np.asarray(most_episodes, float)[self.numbers], nan=np.inf)
        for _ in range(MOST_ROUNDS):
            excess = self._episodes(state) - limits
            if not (excess > 0).any():
                break
            fine = np.concatenate([excess > 0, np.zeros((1, state.n_classes), dtype=bool)])
            starts = np.rint(fine[self.all_codes] * self.never / self.dual.unit).astype(np.int64)
            trial = improve(replace(state, starts=starts), n_bags, (excess > 0).any(axis=1), 1)
            trial = replace(trial, starts=None)
            left = np.maximum(self._episodes(trial) - limits, 0.0).sum()
            if left >= np.maximum(excess, 0.0).sum():
                break
            state = trial
        return state

    def _episodes(self, state: TimeLabels) -> IntArray:
        """Return how many episodes of each class begin in each bag."""
        shape = len(self.numbers), state.n_classes
        return count_begun(state.begin_episodes, state.labels, self.all_codes, shape)

    def _with_given(self, labels: IntArray) -> IntArray:
        return np.where(self.given >= 0, self.given, labels)

    def _with_loose(self, state: TimeLabels) -> TimeLabels:
        """Return the labels with those of rows in no bag as the others make best."""
        loose = (state.bags < 0) & (self.given < 0)
        if not loose.any():
            return state
        others = np.arange(state.n_classes) != state.labels[:, None]
        never = -np.int64(self.never / self.dual.unit)
        scores = np.where(others & ~loose[:, None], never, state.scores)
        path = self.dual.chain.best_path(scores, state.costs)
        return replace(state, labels=np.where(loose, path, state.labels))
