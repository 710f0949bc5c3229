"""Candidates that are forests: their inner folds are those that are held out, which saves forests.

A forest follows the rows that it was fitted to. What it says of a bag counts only if it has not
seen the bag, nor soft labels of other rows that were made with the bag's totals.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion._core.decode import Quotas
from apportion._core.projection import reconcile
from apportion._core.refine import refine
from apportion._utils.threads import in_threads
from apportion._utils.typing import FloatArray, IntArray
from apportion.estimators._base import seed_of, seeded
from apportion.estimators._cross_fitting import QuantileBins, Rule
from apportion.estimators._prepared import back_from
from apportion.estimators.em_llp import named_learner
from apportion.estimators.lp_llp import LPLLP
from apportion.model_selection._calibration import calibrate, known_totals
from apportion.supervision.bags import Bags

if TYPE_CHECKING:
    from apportion.model_selection._candidate_fits import Problem
    from apportion.model_selection._candidates import Candidate

_SHARPNESS = 2.0
"""The power of probabilities before they are learned from again, as in `EMLLP`."""

_TREES = 30
"""The number of trees for each fold; new rows get the mean of all. 50 took a fifth longer than all
methods with 30 take, and had the same mean accuracy on 15 tables and on 16 clusters (±.001)."""

REFINES = 4.0
"""How far the log-likelihood must rise for refined labels: see `TaughtTrees`. On 18 clusters of
1,000 to 10,000 rows it rises by more in 14, on 114 tables in random bags in 5, on natural bags in
none. Where it does, refined labels are right for 0 to .06 more of the rows of clusters, and for
-.01 to +.01 of those of tables; elsewhere, refinement costs .014, .003 and .004 in the mean of
tables in bags of 16, 64 and 256 rows. Any threshold from 4 to 6 decides the same."""


class FoldForests:
    """Forests on the rows of some folds.

    Parameters
    ----------
    problem : Problem
        The rows and what is known of them.
    candidate : Candidate
        The candidate; it sees these rows.
    folds : ndarray of shape (n_samples,)
        The fold of every row; -1 for rows of which nothing is known.
    """

    least_folds = 2

    def __init__(self, problem: Problem, candidate: Candidate, folds: IntArray) -> None:
        self.prepared = problem.prepared_for(candidate)
        rows = self.prepared.rows
        self._bins = self.prepared.once(("bins",), lambda: QuantileBins().fit(rows))
        self._seen = self.prepared.once(("in bins",), lambda: self._bins.transform(rows))
        learner = named_learner("trees", *rows.shape).set_params(n_estimators=_TREES)
        self._learner = seeded(learner, problem.seed)
        self.problem, self.candidate = problem, candidate
        self.order, self.bags = self.prepared.in_order(problem.bags)
        self.folds = folds[self.order]
        self.n_folds = int(folds.max()) + 1

    def held_out(self, some: Sequence[int]) -> FloatArray:
        """Return probabilities of rows by forests that know nothing of their fold.

        Parameters
        ----------
        some : sequence of int
            The folds that are held out now.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The probabilities of the rows of these folds and of those before; NaN for others.
        """
        raise NotImplementedError

    def targets(self, held_out: FloatArray) -> FloatArray:
        """Return the soft labels that forests learn if all is known.

        Parameters
        ----------
        held_out : ndarray of shape (n_samples, n_classes)
            What was said of rows that were held out; NaN for others.
        """
        raise NotImplementedError

    def whole(self, held_out: FloatArray) -> tuple[Any, FloatArray]:
        """Return a model of all that is known, and probabilities of the rows.

        A row's probabilities are by forests that have not seen its bag; new rows, and those in no
        bag, take the mean of all forests.

        Parameters
        ----------
        held_out : ndarray of shape (n_samples, n_classes)
            What was said of rows that were held out; NaN for others.
        """
        targets = self.targets(held_out[self.order])
        rules = in_threads(partial(self.rule, targets), list(range(self.n_folds)))
        first, *others = (rule.learner for rule in rules)
        rule = Rule.fitted(first.joined(others), self.bags.n_classes)
        P = np.empty((len(self.folds), self.bags.n_classes))
        for fold, one in enumerate(rules):
            P[self.folds == fold] = one(self.seen(fold))
        loose = self.folds < 0
        if loose.any():
            P[loose] = rule(self._seen[loose])
        model = self.problem.model_of(self.candidate)
        model.become(rule, self._bins, self.bags.classes)
        return model, back_from(self.order, P)

    def without(self, *hidden: int) -> Bags:
        """Return what is known but for some folds."""
        return self.bags.without(np.isin(self.folds, hidden))

    def rule(self, targets: FloatArray, *hidden: int) -> Rule:
        """Return a forest fitted to soft labels of the rows of all other folds."""
        rows = (self.folds >= 0) & ~np.isin(self.folds, hidden)
        return Rule(self._learner, self._seen[rows], targets[rows])

    def unknown(self) -> FloatArray:
        """Return an array for probabilities of all rows, of which nothing is said yet."""
        return np.full((len(self.folds), self.bags.n_classes), np.nan)

    def seen(self, fold: int) -> Any:
        """Return the rows of a fold as forests see them."""
        return self._seen[self.folds == fold]


class HonestTrees(FoldForests):
    """The first two rounds of `EMLLP("trees")`.

    A forest of the first round has seen neither fold j nor fold k: it says what fold j is if k is
    held out, and the other way round. It starts from `AggregateGP` without both. A forest of the
    second round is fitted to what the first ones say of all folds but k, under their totals.
    """

    least_folds = 3

    def __init__(self, problem: Problem, candidate: Candidate, folds: IntArray) -> None:
        super().__init__(problem, candidate, folds)
        self._pairs: dict[frozenset[int], dict[int, FloatArray]] = {}
        self._held_out = self.unknown()

    def held_out(self, some: Sequence[int]) -> FloatArray:
        wanted = {frozenset({j, k}) for k in some for j in range(self.n_folds) if j != k}
        new = sorted(wanted - set(self._pairs), key=sorted)
        self._pairs |= zip(new, in_threads(self._first_round, new), strict=True)
        for k, P in zip(some, in_threads(self._second_round, list(some)), strict=True):
            self._held_out[self.folds == k] = P
        return back_from(self.order, self._held_out)

    def _first_round(self, pair: frozenset[int]) -> dict[int, FloatArray]:
        """Return what a forest that has seen neither of two folds says of them."""
        from apportion.model_selection._candidates import NAMED

        bags = self.without(*pair)
        model = self.problem.model_of(NAMED["gp"])
        P = model.solve_in_order(self.prepared, bags, None, seed_of(model))
        rule = self.rule(reconcile(P, bags), *pair)
        return {fold: rule(self.seen(fold)) for fold in pair}

    def _second_round(self, k: int) -> FloatArray:
        Q = np.tile(self.bags.overall, (len(self.folds), 1))
        for j in range(self.n_folds):
            if j != k:
                Q[self.folds == j] = self._pairs[frozenset({j, k})][j]
        F = reconcile(Q**_SHARPNESS, self.without(k))
        return self.rule(F, k)(self.seen(k))

    def targets(self, held_out: FloatArray) -> FloatArray:
        Q = np.where(np.isnan(held_out), self.bags.overall, held_out)
        for fold in range(1, self.n_folds):  # not all folds are held out; the first one is
            rows = self.folds == fold
            if np.isnan(held_out[rows]).any():
                Q[rows] = self._pairs[frozenset({0, fold})][fold]
        return reconcile(Q**_SHARPNESS, self.bags)


class TaughtTrees(FoldForests):
    """A forest that learns the labels of LP-LLP.

    What LP-LLP gains from the totals of a bag cannot be seen where the bag is held out. A forest
    taught by it is a rule like any other.

    Where rows form clusters, LP-LLP refines its labels until they agree with their neighbors, and
    most of what it knows comes from that; elsewhere it makes labels worse. Which it is, is seen by
    the held-out totals of two forests: one learns labels that are refined, the other labels that
    are not. The refined ones are taken if they are clearly better.

    Attributes
    ----------
    gain : float
        How much likelier held-out totals are if labels are refined, as log-likelihood of all folds.
    """

    def __init__(self, problem: Problem, candidate: Candidate, folds: IntArray) -> None:
        super().__init__(problem, candidate, folds)
        self._plain, self._refined = self.unknown(), self.unknown()
        self.gain = 0.0

    @property
    def refines(self) -> bool:
        """Whether the forest learns refined labels."""
        return self.gain > REFINES

    def held_out(self, some: Sequence[int]) -> FloatArray:
        tries = self.gain > 0.0 or not some[0]  # not again if it was no help in the first folds

        def taught(k: int) -> list[FloatArray]:
            lessons = self._lessons(self.without(k), *([False, True] if tries else [False]))
            return [self.rule(lesson, k)(self.seen(k)) for lesson in lessons]

        for k, said in zip(some, in_threads(taught, list(some)), strict=True):
            for P, of_fold in zip((self._plain, self._refined), said, strict=False):
                P[self.folds == k] = of_fold
        if tries:
            self.gain = self._gained()
        return back_from(self.order, self._refined if self.refines else self._plain)

    def _gained(self) -> float:
        rows = ~np.isnan(self._plain[:, 0])
        known = known_totals(self.bags, rows, self.prepared.rows)
        plain, refined = (
            calibrate(P[known.rows], known).log_likelihood for P in (self._plain, self._refined)
        )
        n_held_out = len(np.unique(self.folds[rows]))
        return (refined - plain) * self.n_folds / n_held_out

    def targets(self, held_out: FloatArray) -> FloatArray:
        return self._lessons(self.bags, self.refines)[0]

    def _lessons(self, bags: Bags, *refined: bool) -> list[FloatArray]:
        """Return the labels that LP-LLP finds, refined or not, as soft labels, in `order`."""
        known = bags.take(np.argsort(self.order), np.arange(len(bags.ids)))
        F = LPLLP().solve(self.prepared, known)
        _, graph, ranks = LPLLP()._graph_of(self.prepared)
        decode = Quotas(known, ranks)
        plain = decode(F)
        found = [refine(graph, decode, F, plain) if it else plain for it in refined]
        return [np.eye(bags.n_classes)[one.labels[self.order]] for one in found]
