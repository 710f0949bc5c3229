"""Fit candidates with and without folds of whole bags."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from apportion._io.class_tables import columns_for
from apportion._io.identifiers import object_vector
from apportion._utils.context import context_features
from apportion._utils.groups import balanced_folds
from apportion._utils.progress import WEIGHING, report_progress, several_runs
from apportion._utils.sequences import Sequences
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.estimators import EMLLP, LPLLP
from apportion.estimators._base import seeded
from apportion.estimators._graph import GraphClassifier
from apportion.estimators._inductive import feature_order
from apportion.exceptions import CandidateWarning, ScaleWarning, message_of, users_level
from apportion.model_selection._candidates import Candidate
from apportion.supervision.bags import Bags
from apportion.supervision.totals import Totals

LEAST_BAGS = 5
"""With fewer bags, holding some out says nothing, and all candidates have the same weight."""

_MANY_ROWS = 20_000
"""Beyond this many rows, no more folds are held out than needed."""

_FEW_FOLDS = 3
"""So many folds are held out then, or fewer if there are very many bags: `_ENOUGH_BAGS`."""

_ENOUGH_BAGS = 200
"""So many held-out bags tell candidates apart."""


@dataclass(frozen=True)
class Problem:
    """Rows and what is known of them, to be fitted many times.

    Attributes
    ----------
    X, standardized : ndarray of shape (n_samples, n_features)
        The rows, as they are and standardized.
    bags : Bags
        What is known of them.
    seed : int
        The seed of candidates without one.
    in_order : Sequences or None
        Which rows follow each other in time, if that is known.
    """

    X: FloatArray
    standardized: FloatArray
    bags: Bags
    seed: int
    in_order: Sequences | None = None

    def rows_for(self, candidate: Candidate) -> FloatArray:
        """Return the rows as a candidate gets them."""
        rows = self.standardized if candidate.standardized else self.X
        if not candidate.reach or self.in_order is None:
            return rows
        return context_features(rows, self.in_order, candidate.reach)

    def fit(
        self, candidate: Candidate, hidden: BoolArray | None, answer: FloatArray | None
    ) -> CandidateFit:
        """Fit a candidate without the totals and labels of the rows that are hidden.

        These rows stay, as rows in no bag, for methods that can use them.
        """
        started = time.perf_counter()
        X = self.rows_for(candidate)
        model = seeded(clone(candidate.estimator), self.seed)
        if answer is not None:
            model.set_params(**{candidate.answer: answer})
        y, bags, totals = known_without(self.bags, hidden)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # Features are standardized, or left in their units on purpose.
            warnings.simplefilter("ignore", ScaleWarning)
            when = {"times": self.in_order} if isinstance(model, LPLLP) else {}
            model.fit(X, y, bags=bags, proportions=totals, **when)
            P = row_probabilities(model, X, self.bags.classes)
        notes = tuple(dict.fromkeys(message_of(warning.message) for warning in caught))
        return CandidateFit(model, P, notes, time.perf_counter() - started)


@dataclass(frozen=True)
class CandidateFit:
    """A fitted candidate, its probabilities of all rows, its warnings, and the seconds it took."""

    model: Any
    probabilities: FloatArray
    notes: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class FittedCandidate:
    """A candidate fitted to all bags, and its probabilities for rows that were held out.

    Attributes
    ----------
    candidate : Candidate
        The candidate.
    model : estimator
        The estimator that was fitted to all bags.
    probabilities : ndarray of shape (n_samples, n_classes)
        Its probabilities of the fitted rows.
    held_out : ndarray of shape (n_samples, n_classes)
        Probabilities by estimators that did not see the totals of the row; NaN if there is none.
    notes : tuple of str
        What the estimator fitted to all bags warned of.
    seconds : float
        The time of all fits.
    """

    candidate: Candidate
    model: Any
    probabilities: FloatArray
    held_out: FloatArray
    notes: tuple[str, ...]
    seconds: float


def row_probabilities(model: Any, X: FloatArray, classes: AnyArray) -> FloatArray:
    """Return a fitted model's probabilities of the fitted rows, before or beside their totals."""
    if isinstance(model, GraphClassifier):
        P = model.label_distributions_
    elif isinstance(model, EMLLP) and model.held_out_proba_ is not None:
        P = model.held_out_proba_  # by rules that did not see the row's bag
    else:
        P = model.predict_proba(X)
    return columns_for(classes.tolist(), model.classes_.tolist(), P)


def known_without(bags: Bags, hidden: BoolArray | None) -> tuple[AnyArray | None, Any, Any]:
    """Return labels, bag ids and totals of the rows that are not hidden, as `fit` takes them."""
    hidden = np.zeros(bags.n_samples, dtype=bool) if hidden is None else hidden
    given = np.where(hidden, -1, bags.given)
    y = None
    if (given >= 0).any():
        y = object_vector([*bags.classes.tolist(), None])[given]
    if not len(bags.ids):
        return y, None, None
    ids = object_vector([*range(len(bags.ids)), None])
    codes = np.where(hidden, -1, bags.codes)
    totals = Totals._of(
        tuple(range(len(bags.ids))),
        bags.classes,
        bags.lower,
        bags.upper,
        "mass",
        most_episodes=bags.most_episodes,
    )
    return y, ids[codes], totals


def fold_of_rows(X: FloatArray, bags: Bags, n_folds: int, deal: int = 0) -> IntArray:
    """Return the fold in which each row is held out, -1 for rows of which nothing is known.

    Whole bags, and labeled rows in no bag, are dealt to the folds in an order that depends on their
    features and on the number of the deal, the largest first.
    """
    row_order, bag_order = feature_order(X, bags)
    K = len(bags.ids)
    loose = row_order[((bags.codes < 0) & (bags.given >= 0))[row_order]]
    units = bags.codes.copy()
    units[loose] = K + np.arange(len(loose))
    sizes = np.concatenate([bags.groups.sizes, np.ones(len(loose))])
    order = np.concatenate([bag_order, K + np.arange(len(loose))]).astype(np.intp)
    order = order[np.random.RandomState(deal).permutation(len(order))]
    folds = balanced_folds(sizes, n_folds, order[np.argsort(-sizes[order], kind="stable")])
    return np.append(folds, -1)[units]


def bag_folds(problem: Problem, n_asked: int, deal: int = 0) -> tuple[IntArray, int]:
    """Return the fold of every row, and how many of the folds are held out.

    None is held out if there are too few bags, and not all if rows and bags are very many.
    """
    bags = problem.bags
    n_units = len(bags.ids) + int(((bags.codes < 0) & (bags.given >= 0)).sum())
    n_folds = min(n_asked, n_units) if n_units >= LEAST_BAGS else 0
    folds = fold_of_rows(problem.X, bags, max(n_folds, 1), deal)
    if bags.n_samples > _MANY_ROWS:
        n_enough = -(-_ENOUGH_BAGS * n_folds // max(n_units, 1))
        n_folds = min(n_folds, _FEW_FOLDS, n_enough)
    return folds, n_folds


def fit_candidates(
    problem: Problem,
    candidates: Sequence[Candidate],
    folds: IntArray,
    n_folds: int,
    n_jobs: int | None,
    costs: Sequence[float] | None = None,
    *,
    whole: bool = True,
) -> list[FittedCandidate]:
    """Fit every candidate to all bags, unless they need not be, and once without each fold.

    A candidate that fails is left out with a warning. After an interrupt (Ctrl-C), the candidates
    that are complete are returned, with a warning; the interrupt goes on if there is none. The
    costs, one per candidate, say how long a fit takes, for reports of progress.
    """
    complete: list[FittedCandidate] = []
    answers: dict[str, list[FloatArray]] = {}
    needed = {candidate.first for candidate in candidates}
    hidden = [*([None] if whole else []), *(folds == fold for fold in range(n_folds))]
    n_runs = len(candidates) * len(hidden)
    run_costs = None if costs is None else np.repeat(costs, len(hidden)).tolist()
    with several_runs(WEIGHING, "fit", n_runs, costs=run_costs) as next_run:
        for number, candidate in enumerate(candidates):
            first = candidate.first
            if first is not None and first not in answers:
                _warn_of(f"{candidate.name} was left out, because {first} was.")
                for _ in hidden:
                    next_run()
                continue
            answer = [None] * len(hidden) if first is None else answers[first]
            running = _fits(problem, candidate, hidden, answer, n_jobs)
            fits = []
            try:
                for _ in hidden:
                    next_run()
                    report_progress(f"fitting {candidate.name}")
                    fits.append(next(running))
            except KeyboardInterrupt:
                if not complete:
                    raise
                left = ", ".join(c.name for c in candidates[number:])
                _warn_of(f"Interrupted: the answer is that of the methods so far, without {left}.")
                break
            except Exception as error:  # one method must not cost the answers of the others
                _warn_of(f"{candidate.name} could not be fitted and was left out: {error}")
                for _ in hidden[len(fits) + 1 :]:
                    next_run()
                continue
            if candidate.name in needed:
                answers[candidate.name] = [fit.probabilities for fit in fits]
            complete.append(_joined(candidate, fits, hidden))
    return complete


def held_out_again(
    fitted: Sequence[FittedCandidate],
    problem: Problem,
    folds: IntArray,
    n_folds: int,
    n_jobs: int | None,
) -> list[FittedCandidate]:
    """Return candidates with the mean of their held-out probabilities and those in other folds."""
    candidates = [one.candidate for one in fitted]
    others = fit_candidates(problem, candidates, folds, n_folds, n_jobs, whole=False)
    again = {other.candidate.name: other for other in others}
    return [_averaged(one, again.get(one.candidate.name, one)) for one in fitted]


def _averaged(one: FittedCandidate, other: FittedCandidate) -> FittedCandidate:
    mean = (one.held_out + other.held_out) / 2.0
    held_out = np.where(np.isnan(mean), one.held_out, mean)  # if not all folds are held out
    return replace(one, held_out=held_out, seconds=one.seconds + other.seconds)


def _fits(
    problem: Problem,
    candidate: Candidate,
    hidden: Sequence[BoolArray | None],
    answer: Sequence[FloatArray | None],
    n_jobs: int | None,
) -> Iterator[CandidateFit]:
    tasks = (delayed(problem.fit)(candidate, *known) for known in zip(hidden, answer, strict=True))
    yield from Parallel(n_jobs, return_as="generator")(tasks)


def _joined(
    candidate: Candidate, fits: Sequence[CandidateFit], hidden: Sequence[BoolArray | None]
) -> FittedCandidate:
    held_out = np.full(fits[0].probabilities.shape, np.nan)
    for fit, rows in zip(fits, hidden, strict=True):
        if rows is not None:
            held_out[rows] = fit.probabilities[rows]
    whole = fits[0]
    seconds = sum(fit.seconds for fit in fits)
    return FittedCandidate(
        candidate, whole.model, whole.probabilities, held_out, whole.notes, seconds
    )


def _warn_of(text: str) -> None:
    warnings.warn(text, CandidateWarning, stacklevel=users_level())
