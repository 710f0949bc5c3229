"""Fit candidates with and without folds of whole bags."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from apportion._io.class_tables import columns_for
from apportion._io.identifiers import object_vector
from apportion._utils.groups import balanced_folds
from apportion._utils.progress import (
    INTERRUPTED,
    WEIGHING,
    keep_answer,
    note_answer,
    report_progress,
    several_runs,
)
from apportion._utils.sequences import Sequences
from apportion._utils.threads import each_in_threads
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.estimators import EMLLP, LPLLP
from apportion.estimators._base import seed_of, seeded
from apportion.estimators._graph import GraphClassifier
from apportion.estimators._inductive import InductiveClassifier
from apportion.estimators._prepared import Prepared
from apportion.exceptions import CandidateWarning, ScaleWarning, message_of, users_level
from apportion.model_selection._calibration import KnownTotals, calibrate, known_totals
from apportion.model_selection._candidates import NAMED, Candidate
from apportion.model_selection._forests import TaughtTrees
from apportion.supervision.bags import Bags
from apportion.supervision.totals import Totals

LEAST_BAGS = 5
"""With fewer bags, holding some out says nothing, and all candidates have the same weight."""

_MANY_ROWS = 20_000
"""Beyond this many rows, no more folds are held out than needed."""

_FEW_FOLDS = 3
"""So many folds are held out then, or two if there are very many bags: `_ENOUGH_BAGS`."""

_ENOUGH_BAGS = 200
"""So many held-out bags tell candidates apart."""

_AGAIN = "weighing methods in other folds"
"""The stage of a second deal of the bags to folds."""

_COSTS = {"taught": 8.0, "trees": 6.0, "lpllp": 6.0, "lpllp-gp": 6.0, "em": 6.0, "prop-svm": 6.0}
_COSTS |= {"gp": 2.0, "gp-trees": 2.0, "count-rbf": 2.0}
"""What a fold takes, relative to methods that are not listed. On 2,000 to 100,000 rows these are
right within a factor of three or so: only what was not measured yet is forecast by them."""

_RACED = 2
"""After so many folds a candidate may be given up."""

_HOPELESS = 15.0
"""How far its log-likelihood must lie behind the best for that, if all folds were like these."""


@dataclass(frozen=True)
class Problem:
    """Rows and what is known of them, to be solved many times.

    Attributes
    ----------
    as_they_are : Prepared
        The rows.
    standardized : ndarray of shape (n_samples, n_features)
        The standardized rows.
    bags : Bags
        What is known of them.
    seed : int
        The seed of candidates without one.
    in_order : Sequences or None
        Which rows follow each other in time, if that is known.
    """

    as_they_are: Prepared
    standardized: FloatArray
    bags: Bags
    seed: int
    in_order: Sequences | None = None

    @cached_property
    def standardized_rows(self) -> Prepared:
        """The standardized rows, prepared."""
        return Prepared(self.standardized)

    @property
    def X(self) -> FloatArray:  # noqa: N802
        """The rows as they are."""
        return self.as_they_are.X

    def prepared_for(self, candidate: Candidate) -> Prepared:
        """Return the rows as a candidate gets them, prepared once for all that get the same."""
        return self.standardized_rows if candidate.standardized else self.as_they_are

    def model_of(self, candidate: Candidate, *, in_full: bool = False) -> Any:
        """Return the estimator of a candidate, not fitted; as rough as an average may have it."""
        rough = {} if in_full else candidate.rough
        return seeded(clone(candidate.estimator).set_params(**rough), self.seed)

    def solve(
        self,
        candidate: Candidate,
        hidden: BoolArray | None,
        answer: FloatArray | None,
        *,
        in_full: bool = False,
    ) -> tuple[Any, FloatArray]:
        """Return a model that knows all but the rows that are hidden, and its probabilities.

        These rows stay, as rows in no bag. In full, `LPLLP` also refines its labels.
        """
        model = self.model_of(candidate, in_full=in_full)
        known = self.bags if hidden is None else self.bags.without(hidden)
        if self.solves(model) and not (in_full and isinstance(model, LPLLP)):
            model._check_parameters()
            P = model.solve(self.prepared_for(candidate), known, answer, seed_of(model))
            return model, P
        if answer is not None:
            model.set_params(**{candidate.answer: answer})
        X = self.standardized if candidate.standardized else self.X
        y, bags, totals = as_given(known)
        when = {"times": self.in_order} if isinstance(model, LPLLP) else {}
        model.fit(X, y, bags=bags, proportions=totals, **when)
        return model, row_probabilities(model, X, self.bags.classes)

    def solves(self, model: Any) -> bool:
        """Return whether an estimator is solved on prepared rows, and not fitted.

        Edges in time, and graphs and settings of the user's own, are for `fit`.
        """
        if type(model) is LPLLP:
            ours = {"prior_weight": None, "random_state": None, "time_weight": "auto"}
            asked = clone(model).set_params(**ours)
            without_time = self.in_order is None or model.time_weight == 0.0
            return without_time and repr(asked) == repr(LPLLP())
        for method in ("fit", "predict_proba"):  # a subclass may have its own
            if getattr(type(model), method, None) is not getattr(InductiveClassifier, method):
                return False
        return model._sees_features and isinstance(model.start, str | None)

    def whole(
        self, candidate: Candidate, answer: FloatArray | None, *, in_full: bool = False
    ) -> CandidateFit:
        """Return the model of all that is known, and what it warns of."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # Features are standardized, or left in their units on purpose.
            warnings.simplefilter("ignore", ScaleWarning)
            model, P = self.solve(candidate, None, answer, in_full=in_full)
        notes = tuple(dict.fromkeys(message_of(warning.message) for warning in caught))
        return CandidateFit(model, P, notes)


@dataclass(frozen=True)
class CandidateFit:
    """A model of all that is known, its probabilities of all rows, and what it warned of."""

    model: Any
    probabilities: FloatArray
    notes: tuple[str, ...] = ()


class CandidateError(RuntimeError):
    """A candidate that has weight could not be fitted to all bags."""

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(f"{name} could not be fitted and was left out: {error}")
        self.name = name


class FittedCandidate:
    """A candidate and its probabilities of rows whose totals it did not see.

    Parameters
    ----------
    candidate : Candidate
        The candidate.
    held_out : ndarray of shape (n_samples, n_classes)
        Probabilities by models that did not see the totals of the row; NaN if there is none.
    make : callable
        Returns the model of all that is known. It is called once, if the candidate has any weight.
    seconds : float
        The time of its fits.
    """

    def __init__(
        self,
        candidate: Candidate,
        held_out: FloatArray,
        make: Callable[[], CandidateFit],
        seconds: float = 0.0,
    ) -> None:
        self.candidate, self.held_out = candidate, held_out
        self._make, self.seconds = make, seconds

    @cached_property
    def whole(self) -> CandidateFit:
        """The model of all that is known."""
        report_progress(f"fitting {self.candidate.name}")
        started = time.perf_counter()
        try:
            fit = self._make()
        except Exception as error:  # also that the candidate whose answer it needs cannot be fitted
            raise CandidateError(self.candidate.name, error) from error
        self.seconds += time.perf_counter() - started
        return fit

    @property
    def model(self) -> Any:
        """The estimator that knows all bags."""
        return self.whole.model

    @property
    def probabilities(self) -> FloatArray:
        """Its probabilities of the fitted rows."""
        return self.whole.probabilities

    def make_whole(self) -> None:
        """Fit the model of all that is known, if that was not done yet."""
        _ = self.whole

    @property
    def is_whole(self) -> bool:
        """Whether the model of all that is known is there."""
        return "whole" in self.__dict__

    def averaged_with(self, other: FittedCandidate) -> FittedCandidate:
        """Return the same candidate with the mean of both probabilities of held-out rows."""
        mean = (self.held_out + other.held_out) / 2.0
        held_out = np.where(np.isnan(mean), self.held_out, mean)  # if not all folds are held out
        mean_of_both = FittedCandidate(
            self.candidate, held_out, self._make, self.seconds + other.seconds
        )
        if self.is_whole:
            vars(mean_of_both)["whole"] = self.whole
        return mean_of_both


def row_probabilities(model: Any, X: FloatArray, classes: AnyArray) -> FloatArray:
    """Return a fitted model's probabilities of the fitted rows, before or beside their totals."""
    if isinstance(model, GraphClassifier):
        P = model.label_distributions_
    elif isinstance(model, EMLLP) and model.held_out_proba_ is not None:
        P = model.held_out_proba_  # by rules that did not see the row's bag
    else:
        P = model.predict_proba(X)
    return columns_for(classes.tolist(), model.classes_.tolist(), P)


def as_given(bags: Bags) -> tuple[AnyArray | None, Any, Any]:
    """Return labels, bag ids and totals, as `fit` takes them."""
    y = None
    if (bags.given >= 0).any():
        y = object_vector([*bags.classes.tolist(), None])[bags.given]
    if not len(bags.ids):
        return y, None, None
    ids = object_vector([*range(len(bags.ids)), None])
    totals = Totals._of(
        tuple(range(len(bags.ids))),
        bags.classes,
        bags.lower,
        bags.upper,
        "mass",
        most_episodes=bags.most_episodes,
    )
    return y, ids[bags.codes], totals


def fold_of_rows(prepared: Prepared, bags: Bags, n_folds: int, deal: int = 0) -> IntArray:
    """Return the fold in which each row is held out, -1 for rows of which nothing is known.

    Whole bags, and labeled rows in no bag, are dealt to the folds in an order that depends on their
    features and on the number of the deal, the largest first.
    """
    row_order, bag_order = prepared.order, prepared.order_of_bags(bags)
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
    folds = fold_of_rows(problem.as_they_are, bags, max(n_folds, 1), deal)
    if bags.n_samples > _MANY_ROWS:
        n_enough = -(-_ENOUGH_BAGS * n_folds // max(n_units, 1))
        n_folds = min(n_folds, _FEW_FOLDS, max(n_enough, _RACED))
    return folds, n_folds


class Compared(NamedTuple):
    """Candidates that were fitted in folds.

    Attributes
    ----------
    fitted : list of FittedCandidate
        Those that are complete.
    left_out : dict of str to str
        Why others were given up.
    of_refinement : float
        How much likelier held-out totals are by a forest taught refined labels; see `TaughtTrees`.
        Whether neighbors agree is seen even if the forest was given up beside better methods.
    """

    fitted: list[FittedCandidate]
    left_out: dict[str, str]
    of_refinement: float


def fit_candidates(
    problem: Problem,
    candidates: Sequence[Candidate],
    folds: IntArray,
    n_folds: int,
    n_jobs: int | None,
    *,
    held_out_only: bool = False,
) -> Compared:
    """Return candidates with their probabilities of held-out rows, and why others are left out.

    The folds of a candidate are solved side by side. One that lags far behind after two folds is
    given up. One that fails is left out with a warning. After an interrupt (Ctrl-C), the candidates
    that are complete are returned, with a warning; the interrupt goes on if there is none, if it is
    the second, or if only held-out rows are asked for. Estimators of somebody else are fitted to
    all bags at once, unless only held-out rows are asked for, others when that is needed.
    """
    complete: dict[str, FittedCandidate] = {}
    left_out: dict[str, str] = {}
    answers: dict[str, Sequence[FloatArray]] = {}
    needed = {candidate.first for candidate in candidates}
    of_refinement = 0.0
    race = _Race(problem, folds, n_folds)
    declared = np.array([_COSTS.get(candidate.name, 1.0) for candidate in candidates])
    seconds = np.full((len(candidates), max(n_folds, 1)), np.nan)
    costs = forecast(declared, seconds).ravel().tolist()
    stage = _AGAIN if held_out_only else WEIGHING
    with several_runs(stage, "fit", len(costs), costs=costs) as next_run:

        def done(number: int, n_done: int, started: float) -> None:
            """Count the fits of a candidate that are done, and forecast the others anew."""
            if n_done:
                seconds[number, :n_done] = (time.perf_counter() - started) / n_done
            costs[:] = forecast(declared, seconds).ravel().tolist()
            next_run(number * seconds.shape[1] + n_done + 1)
            report_progress(f"fitting {candidates[number].name}")

        for number, candidate in enumerate(candidates):
            first = candidate.first
            if first is not None and first not in complete:
                why = left_out.get(first, "")
                left_out[candidate.name] = f"needs {first}, which was left out as well"
                seconds[number] = 0.0
                if not why:
                    warn_of(f"{candidate.name} was left out, because {first} was.")
                continue
            started, lag, n_done = time.perf_counter(), "", 0
            try:
                done(number, 0, started)
                fits = _Fits(
                    problem,
                    candidate,
                    folds,
                    n_folds,
                    n_jobs,
                    complete,
                    answers,
                    needed=candidate.name in needed,
                )
                one = FittedCandidate(candidate, fits.held_out, fits.whole)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # those of the model of all bags are noted
                    for some in _batches(n_folds, candidate.races):
                        for _ in fits.solved(some):
                            n_done += 1
                            done(number, n_done, started)
                        lag = race.lag(fits, some) if candidate.races else ""
                        if lag:
                            break
                one.seconds = time.perf_counter() - started
                if not n_folds or not (fits.lazy or held_out_only):
                    one.make_whole()
                if not lag:
                    race.enter(fits)
            except KeyboardInterrupt:
                left = ", ".join(c.name for c in candidates[number:])
                said = f"{INTERRUPTED}the answer is that of the methods so far, without {left}."
                if not complete or held_out_only or not keep_answer(said):
                    raise
                warn_of(said)
                break
            except Exception as error:  # one method must not cost the answers of the others
                cause = error.__cause__ if isinstance(error, CandidateError) else error
                warn_of(f"{candidate.name} could not be fitted and was left out: {cause}")
                seconds[number, n_done:] = 0.0
                continue
            of_refinement = max(of_refinement, fits.of_refinement)
            seconds[number, n_done:] = 0.0 if n_folds else one.seconds
            if lag:
                left_out[candidate.name] = lag
                continue
            if candidate.name in needed:
                answers[candidate.name] = fits.of_all_rows
            complete[candidate.name] = one
            note_answer()
        next_run(len(costs) + 1)
        report_progress(stage)
    return Compared(list(complete.values()), left_out, of_refinement)


def forecast(costs: FloatArray, seconds: FloatArray) -> FloatArray:
    """Return the seconds of all parts of several pieces of work, those that are not measured too.

    A part takes as long as the measured parts of its piece, or as its cost says if none is.

    Parameters
    ----------
    costs : ndarray of shape (n_pieces,)
        How long a part of each piece takes, relative to others.
    seconds : ndarray of shape (n_pieces, n_parts)
        How long parts took; NaN where that is not measured, 0 where they are left out.

    Examples
    --------
    >>> forecast(np.array([1.0, 3.0]), np.array([[2.0, np.nan], [np.nan, np.nan]])).tolist()
    [[2.0, 2.0], [6.0, 6.0]]
    """
    measured = seconds > 0  # NaN is not
    n_measured = measured.sum(axis=1)
    spent = np.where(measured, seconds, 0.0).sum(axis=1)
    pace = spent.sum() / max(costs @ n_measured, 1e-9) if measured.any() else 1.0
    each = np.where(n_measured > 0, spent / np.maximum(n_measured, 1), costs * pace)
    return np.where(np.isnan(seconds), each[:, None], seconds)


def _batches(n_folds: int, races: bool) -> list[list[int]]:
    """Return the folds that are solved side by side: the first two first, if that may be enough."""
    every = list(range(n_folds))
    if not races or n_folds <= _RACED:
        return [every] if every else []
    return [every[:_RACED], every[_RACED:]]


class _Race:
    """Which candidates lag too far behind after some folds to have any weight in the end."""

    def __init__(self, problem: Problem, folds: IntArray, n_folds: int) -> None:
        self._problem, self._folds, self._n_folds = problem, folds, n_folds
        self._best: tuple[float, str] = (-np.inf, "")

    @cached_property
    def _known(self) -> KnownTotals:
        rows = (self._folds >= 0) & (self._folds < _RACED)
        return known_totals(self._problem.bags, rows, self._problem.standardized)

    def enter(self, fits: _Fits) -> None:
        """Let a candidate that is complete set the pace."""
        if self._n_folds > _RACED:
            found = calibrate(fits.held_out[self._known.rows], self._known).log_likelihood
            self._best = max(self._best, (found, fits.candidate.name))

    def lag(self, fits: _Fits, some: Sequence[int]) -> str:
        """Return why a candidate is given up after the first folds; empty if it is not."""
        best, name = self._best
        if len(some) != _RACED or some[0] or self._n_folds <= _RACED or not name:
            return ""
        found = calibrate(fits.held_out[self._known.rows], self._known).log_likelihood
        lag = (best - found) * self._n_folds / _RACED
        if lag <= _HOPELESS:
            return ""
        return (
            f"was given up after {_RACED} of {self._n_folds} folds, in which {name} is likelier by "
            f"{best - found:.0f} in the log-likelihood"
        )


class _Fits:
    """The fits of one candidate: without each fold, and of all that is known."""

    def __init__(
        self,
        problem: Problem,
        candidate: Candidate,
        folds: IntArray,
        n_folds: int,
        n_jobs: int | None,
        complete: dict[str, FittedCandidate],
        answers: dict[str, Sequence[FloatArray]],
        *,
        needed: bool,
    ) -> None:
        self.candidate, self._problem, self._needed = candidate, problem, needed
        self._folds, self._n_folds, self._n_jobs = folds, n_folds, n_jobs
        self._first = complete.get(candidate.first or "")
        self._answers = answers.get(candidate.first or "")
        self.held_out = np.full((problem.bags.n_samples, problem.bags.n_classes), np.nan)
        self.of_all_rows: list[FloatArray] = []
        self._forests = None
        forests = candidate.forests
        if forests is not None and n_folds and folds.max() + 1 >= forests.least_folds:
            self._forests = forests(problem, candidate, folds)
        self.lazy = self._forests is not None or problem.solves(problem.model_of(candidate))
        if self.lazy:
            problem.prepared_for(candidate)  # before the threads of the folds would, each its own

    @property
    def of_refinement(self) -> float:
        """How much likelier held-out totals are by a forest taught refined labels."""
        return self._forests.gain if isinstance(self._forests, TaughtTrees) else 0.0

    def solved(self, some: Sequence[int]) -> Iterator[int]:
        """Find the probabilities of the rows of some folds, and yield each fold that is done."""
        if self._forests is not None:
            self.held_out[:] = self._forests.held_out(some)
            yield from some
            return
        for fold, P in zip(some, self._solved(some), strict=True):
            rows = self._folds == fold
            self.held_out[rows] = P[rows]
            if self._needed:
                self.of_all_rows.append(P)
            yield fold

    def _solved(self, some: Sequence[int]) -> Iterable[FloatArray]:
        if self.lazy:
            return each_in_threads(self._without, list(some))
        tasks = (delayed(self._without)(fold) for fold in some)
        found: Iterable[FloatArray] = Parallel(self._n_jobs, return_as="generator")(tasks)
        return found

    def _without(self, fold: int) -> FloatArray:
        answer = None if self._answers is None else self._answers[fold]
        return self._problem.solve(self.candidate, self._folds == fold, answer)[1]

    def whole(self) -> CandidateFit:
        """Return the model of all that is known."""
        if self._forests is not None:
            return CandidateFit(*self._forests.whole(self.held_out))
        answer = None if self._first is None else self._first.probabilities
        if self.candidate.forests is TaughtTrees:
            answer = self._problem.solve(NAMED["lpllp"], None, None)[1]
        return self._problem.whole(self.candidate, answer, in_full=not self._n_folds)


def held_out_again(
    fitted: Sequence[FittedCandidate],
    problem: Problem,
    folds: IntArray,
    n_folds: int,
    n_jobs: int | None,
) -> list[FittedCandidate]:
    """Return candidates with the mean of their held-out probabilities and those in other folds."""
    candidates = [one.candidate for one in fitted]
    others = fit_candidates(problem, candidates, folds, n_folds, n_jobs, held_out_only=True)
    again = {other.candidate.name: other for other in others.fitted}
    return [
        one.averaged_with(again[one.candidate.name]) if one.candidate.name in again else one
        for one in fitted
    ]


def warn_of(text: str) -> None:
    """Warn of what concerns the candidates."""
    warnings.warn(text, CandidateWarning, stacklevel=users_level())
