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
from apportion._utils.threads import in_threads
from apportion._utils.typing import FloatArray, IntArray
from apportion.estimators._base import seed_of, seeded
from apportion.estimators._cross_fitting import QuantileBins, Rule
from apportion.estimators._prepared import back_from
from apportion.estimators.em_llp import named_learner
from apportion.estimators.lp_llp import LPLLP
from apportion.supervision.bags import Bags

if TYPE_CHECKING:
    from apportion.model_selection._candidate_fits import Problem
    from apportion.model_selection._candidates import Candidate

_SHARPNESS = 2.0
"""The power of probabilities before they are learned from again, as in `EMLLP`."""


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
        self._learner = seeded(named_learner("trees", *rows.shape), problem.seed)
        self.problem, self.candidate = problem, candidate
        self.order, self.bags = self.prepared.in_order(problem.bags)
        self.folds = folds[self.order]
        self.n_folds = int(folds.max()) + 1

    def held_out(self, some: Sequence[int]) -> list[FloatArray]:
        """Return probabilities of the rows of some folds, by forests that know nothing of them."""
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

    def asked(self, rule: Rule, fold: int) -> FloatArray:
        """Return what a rule says of the rows of a fold, in the order of the input."""
        P = np.full((len(self.folds), self.bags.n_classes), np.nan)
        P[self.folds == fold] = rule(self.seen(fold))
        return back_from(self.order, P)

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

    def held_out(self, some: Sequence[int]) -> list[FloatArray]:
        wanted = {frozenset({j, k}) for k in some for j in range(self.n_folds) if j != k}
        new = sorted(wanted - set(self._pairs), key=sorted)
        self._pairs |= zip(new, in_threads(self._first_round, new), strict=True)
        return in_threads(self._second_round, list(some))

    def _first_round(self, pair: frozenset[int]) -> dict[int, FloatArray]:
        """Return what a forest that has seen neither of two folds says of them."""
        bags = self.without(*pair)
        model = self.problem.model_of(self._first)
        P = model.solve_in_order(self.prepared, bags, None, seed_of(model))
        rule = self.rule(reconcile(P, bags), *pair)
        return {fold: rule(self.seen(fold)) for fold in pair}

    @property
    def _first(self) -> Candidate:
        from apportion.model_selection._candidates import NAMED

        return NAMED["gp"]()

    def _second_round(self, k: int) -> FloatArray:
        Q = np.tile(self.bags.overall, (len(self.folds), 1))
        for j in range(self.n_folds):
            if j != k:
                Q[self.folds == j] = self._pairs[frozenset({j, k})][j]
        F = reconcile(Q**_SHARPNESS, self.without(k))
        return self.asked(self.rule(F, k), k)

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
    """

    def held_out(self, some: Sequence[int]) -> list[FloatArray]:
        def taught(k: int) -> FloatArray:
            return self.asked(self.rule(self._lesson(self.without(k)), k), k)

        return in_threads(taught, list(some))

    def targets(self, held_out: FloatArray) -> FloatArray:
        return self._lesson(self.bags)

    def _lesson(self, bags: Bags) -> FloatArray:
        """Return the labels that LP-LLP finds, as soft labels, in the order of the bags' rows."""
        known = bags.take(np.argsort(self.order), np.arange(len(bags.ids)))
        F = LPLLP().solve(self.prepared, known)[self.order]
        return np.eye(bags.n_classes)[Quotas(bags, np.arange(len(F)))(F).labels]
