"""The base class of estimators whose probabilities are calibrated by held-out totals."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import compress
from typing import Any, ClassVar, Self

import numpy as np

from apportion._core.decode import Decoding, Quotas, threshold
from apportion._core.persistence import flicker_of
from apportion._core.projection import reconcile
from apportion._core.refine import refine
from apportion._core.sequence_decode import decode_along_time
from apportion._core.warn import warn_of_episodes
from apportion._io.archive import Stored
from apportion._io.class_tables import columns_for
from apportion._io.model_state import State, StateReader
from apportion._utils.hashing import hash_ranks
from apportion._utils.parameters import integer
from apportion._utils.progress import INTERRUPTED, interrupted, keep_answer, keeping_answers
from apportion._utils.sequences import Sequences
from apportion._utils.threads import with_reproducible_sums
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.estimators._base import ALONG_TIME, REQUESTS, BagClassifier, all_or_nothing, seed_of
from apportion.estimators._feature_maps import Standardization
from apportion.estimators._prepared import Prepared
from apportion.estimators.lp_llp import LPLLP
from apportion.exceptions import CandidateWarning, counted, users_level
from apportion.graphs import Graph
from apportion.model_selection._accuracy import EstimatedAccuracy, estimate_accuracy, withheld
from apportion.model_selection._calibration import Calibration
from apportion.model_selection._candidate_fits import (
    CandidateError,
    FittedCandidate,
    Problem,
    bag_folds,
    fit_candidates,
    held_out_again,
    warn_of,
)
from apportion.model_selection._candidates import TAKES_MEMORY, Candidate, memory_note
from apportion.model_selection._forests import REFINES, TaughtTrees
from apportion.model_selection._in_time import InTime, learn_persistence
from apportion.model_selection._smoothing import smoothed_on_graph
from apportion.model_selection._weights import Weighing, by_held_out_totals, weigh_candidates
from apportion.model_selection.candidate_report import CandidateReport, WeighedCandidate
from apportion.supervision.bags import Bags, match_bags
from apportion.supervision.rows_in_time import rows_in_time

_FOLDS = 5

_REQUESTS = {**REQUESTS, "times": True, "sequences": True}

SEE_WARNINGS = "see the warnings"
"""Why a candidate was left out, if a warning says it."""


class WeighingClassifier(BagClassifier):
    """Candidates averaged with weights, and calibrated, by the likelihood of held-out totals."""

    __metadata_request__fit = _REQUESTS
    __metadata_request__predict = _REQUESTS
    __metadata_request__predict_proba = _REQUESTS

    _allowed: ClassVar = {
        **BagClassifier._allowed,
        "decode": ALONG_TIME,
        "cv": integer(2, "auto"),
    }

    _how_to_decode_along_time: ClassVar = "Pass `times` of these rows, or use decode='quota'."

    cv: int | str
    n_jobs: int | None
    random_state: Any

    candidates_: dict[str, Any]
    weights_: dict[str, float]
    held_out_log_likelihood_: dict[str, float]
    held_out_proba_: FloatArray
    candidate_report_: CandidateReport
    estimated_accuracy_: EstimatedAccuracy
    _in_time: InTime | None
    _teaching_graph: Graph | None = None

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        bags: Any = None,
        proportions: Any = None,
        times: Any = None,
        sequences: Any = None,
    ) -> Self:
        """Weigh the candidates, and label the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,), optional
            Labels of some rows, which are kept; None or NaN where unknown.
        bags : array-like of shape (n_samples,), optional
            Bag ids of any hashable type; missing for rows in no bag.
        proportions : Totals, dataframe, mapping or array, optional
            The totals of the bags; see `Totals`.
        times : array-like of shape (n_samples,), optional
            When each row was: numbers, date-times or ISO text. Rows that follow each other are then
            likely to be of one class, if labels flicker without that.
        sequences : array-like of shape (n_samples,), optional
            The recording of each row; used with `times`. By default, all rows are of one.

        Returns
        -------
        self
            The fitted estimator.
        """
        with keeping_answers():
            return self._fit(X, y, bags, proportions, times, sequences)

    def _fit(self, X: Any, y: Any, bags: Any, proportions: Any, times: Any, sequences: Any) -> Self:
        self._check_parameters()
        candidates = self._asked_candidates()
        matched = self._matched(X, y, bags, proportions)
        rows = self._checked_rows(X, reset=True)
        self._store_diagnosis(matched)
        seed = seed_of(self)
        # In the order of the features, so that the order of rows changes no rounding, and no hash.
        prepared = Prepared(rows)
        self._standardization = Standardization.of(prepared.rows)
        in_order = rows_in_time(times, sequences, hash_ranks(rows, len(rows)))
        self._require_times(in_order)
        problem = Problem(prepared, self._standardization(rows), matched, seed, in_order)
        deal = 0 if self.random_state is None else seed
        n_asked = _FOLDS if self.cv == "auto" else int(self.cv)
        folds, n_folds = bag_folds(problem, n_asked, deal)
        if not n_folds:
            candidates = self._asked_candidates(few_bags=True)
        usable = [c for c in candidates if c.most_rows >= matched.n_samples]
        left_out = {
            c.name: f"takes too long beyond {counted(int(c.most_rows), 'row')}"
            for c in candidates
            if c not in usable
        }
        if any(c.name in TAKES_MEMORY for c in usable):
            note = memory_note(len(rows), rows.shape[1], matched.n_classes)
            if note:
                warn_of(note)
        compared = fit_candidates(problem, usable, folds, n_folds, self.n_jobs)
        fitted = compared.fitted
        left_out |= compared.left_out
        fitted_names = {*left_out, *(one.candidate.name for one in fitted)}
        left_out |= {c.name: SEE_WARNINGS for c in usable if c.name not in fitted_names}
        if not fitted:
            raise ValueError("No candidate could be fitted; the warnings say why.")
        held_out = (folds >= 0) & (folds < n_folds)
        result, caught = _weighed(fitted, problem, held_out, left_out)
        if result.is_close and not interrupted():
            again, _ = bag_folds(problem, n_asked, deal + 1)
            try:
                fitted = held_out_again(result.fitted, problem, again, n_folds, self.n_jobs)
            except KeyboardInterrupt:
                _keep_or_raise("held-out totals are those of one deal of the bags to folds only")
            else:
                result, caught = _weighed(fitted, problem, held_out, left_out)
        for warning in caught:
            warnings.warn(warning, stacklevel=users_level())
        self._take(result, problem, folds, n_folds, compared.of_refinement, left_out)
        return self

    def _asked_candidates(self, *, few_bags: bool = False) -> list[Candidate]:
        raise NotImplementedError

    def _take(
        self,
        result: Weighing,
        problem: Problem,
        folds: IntArray,
        n_folds: int,
        of_refinement: float,
        left_out: dict[str, str],
    ) -> None:
        """Store what comes of the weighed candidates."""
        bags, in_order = problem.bags, problem.in_order
        pairs = list(zip(result.fitted, result.weights, result.calibrations, strict=True))
        P, final, about_time, about_graph = result.average, result.final, "", ""
        along_time = in_time = None
        if in_order is not None:
            try:
                in_time, about_time = _learned_in_time(result, in_order)
            except KeyboardInterrupt:
                _keep_or_raise("probabilities are not smoothed along time")
        helps = in_time is not None or bags.most_episodes is not None
        if self.decode == "sequence" and in_order is not None and helps:
            along_time = self._decoded_along_time(problem.X, final(P), bags, in_order, in_time)
        if in_time is not None and in_order is not None:
            P = in_time.smoothed(final(P), in_order)
            final = in_time.calibration
        self._in_time = in_time if in_time is not None and in_time.for_new_rows else None
        F = reconcile(final(P), bags)
        self.classes_ = bags.classes
        by_quota = result.own_labels or self._quota(problem.X, F, bags)
        # Estimated before a graph moves any label: it makes probabilities surer than they should
        # be (segment in bags of 256: .86, .91 and .92, .94 with it; .84 and .65 are right).
        self.estimated_accuracy_ = (
            withheld(result.untrusted)
            if result.untrusted
            else estimate_accuracy(final, P, (along_time or by_quota).labels, bags)
        )
        if in_order is None and not interrupted():
            try:
                F, by_quota, about_graph = self._on_graph(
                    F, by_quota, result, problem, folds, n_folds, of_refinement
                )
            except KeyboardInterrupt:
                _keep_or_raise("no graph of similar rows was tried")
        if self.decode == "sequence" and along_time is None:
            along_time = by_quota
        self._store(bags, F, by_quota, along_time)
        self.held_out_proba_ = np.full(F.shape, np.nan)
        if result.known is not None:
            self.held_out_proba_[result.known.rows] = final.held_out
        names = [one.candidate.name for one in result.fitted]
        self.weights_ = dict(zip(names, result.weights.tolist(), strict=True))
        log_likelihoods = [calibration.log_likelihood for calibration in result.calibrations]
        self.held_out_log_likelihood_ = dict(zip(names, log_likelihoods, strict=True))
        self._calibration = result.final
        self._shares = None if result.learned else bags.overall
        used = [(one, calibration) for one, weight, calibration in pairs if weight]
        self.candidates_ = {one.candidate.name: one.model for one, _ in used}
        self._calibrations = {one.candidate.name: calibration for one, calibration in used}
        self._standardized = {c.candidate.name for c, _ in used if c.candidate.standardized}
        # The graph that taught a candidate, or would have: it says which rows are similar.
        taught = [one.candidate for one in result.fitted if one.candidate.forests is TaughtTrees]
        self._teaching_graph = None
        if taught:
            self._teaching_graph = LPLLP()._graph_of(problem.prepared_for(taught[0]))[1]
        candidates = [
            WeighedCandidate(
                one.candidate.name,
                float(weight),
                calibration.log_likelihood,
                calibration.temperature,
                calibration.dispersion,
                one.seconds,
                one.whole.notes if one.is_whole else (),
            )
            for one, weight, calibration in sorted(pairs, key=lambda pair: -pair[1])
        ]
        self.candidate_report_ = CandidateReport(
            tuple(candidates),
            0 if result.known is None else result.known.n_known,
            result.reason,
            left_out,
            result.calibrated,
            about_time,
            about_graph,
        )

    def _on_graph(
        self,
        F: FloatArray,
        labels: Decoding,
        result: Weighing,
        problem: Problem,
        folds: IntArray,
        n_folds: int,
        of_refinement: float,
    ) -> tuple[FloatArray, Decoding, str]:
        """Return soft labels and labels, refined or smoothed on a graph if totals ask for it."""
        bags = problem.bags
        if of_refinement > REFINES and self.decode != "threshold":
            why = (
                "labels are refined on a graph of similar rows, because held-out totals are "
                f"likelier by {of_refinement:.0f} in the log-likelihood if a forest learns such "
                "labels; accuracies are estimated without that"
            )
            _, graph, ranks = LPLLP()._graph_of(problem.standardized_rows)
            return F, refine(graph, Quotas(bags, ranks), F, labels), why
        smoothed = smoothed_on_graph(result, problem, folds, n_folds)
        if smoothed is None:
            return F, labels, ""
        P, why = smoothed
        F = reconcile(P, bags)
        return F, self._quota(problem.X, F, bags), why

    @with_reproducible_sums
    def predict(
        self,
        X: Any,
        *,
        bags: Any = None,
        proportions: Any = None,
        times: Any = None,
        sequences: Any = None,
    ) -> AnyArray:
        """Predict a label for every new row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        bags : array-like of shape (n_samples,), optional
            Bag ids of the new rows.
        proportions : Totals, dataframe, mapping or array, optional
            Totals of their bags. With totals, the labels are decoded under these totals, as
            `decode` says. Without totals, every row takes its most likely class.
        times, sequences : array-like of shape (n_samples,), optional
            When each row was, and its recording, if the model was fitted with times; see `fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            The labels.
        """
        if times is None and sequences is None:
            return super().predict(X, bags=bags, proportions=proportions)
        rows = self._checked_new_rows(X)
        if self.decode == "sequence" and (bags is not None or proportions is not None):
            matched = match_bags(len(rows), None, bags, proportions, classes=self.classes_)
            in_order = self._in_order(rows, times, sequences)
            P = self._soft_labels(rows)
            decoding = self._decoded_along_time(rows, P, matched, in_order, self._in_time)
            return self.classes_[decoding.labels]
        P = self._along_time(rows, times, sequences)
        if bags is None and proportions is None:
            return np.asarray(self.classes_[threshold(P).labels])
        return self._decoded(rows, P, bags, proportions)

    @with_reproducible_sums
    def predict_proba(
        self,
        X: Any,
        *,
        bags: Any = None,
        proportions: Any = None,
        times: Any = None,
        sequences: Any = None,
    ) -> FloatArray:
        """Predict calibrated probabilities of new rows.

        Parameters
        ----------
        X, bags, proportions, times, sequences
            See `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The probabilities, with columns in the order of `classes_`.
        """
        if times is None and sequences is None:
            return super().predict_proba(X, bags=bags, proportions=proportions)
        P = self._along_time(self._checked_new_rows(X), times, sequences)
        return P if bags is None and proportions is None else self._kept_by(P, bags, proportions)

    def _in_order(self, X: Any, times: Any, sequences: Any) -> Sequences:
        """Return new rows in the order of time; sequences without times are refused."""
        in_order = rows_in_time(times, sequences, hash_ranks(X, len(X)))
        assert in_order is not None
        return in_order

    def _along_time(self, X: Any, times: Any, sequences: Any) -> FloatArray:
        """Return probabilities of new rows given all rows of their sequences."""
        in_order = self._in_order(X, times, sequences)
        if self._in_time is None or self._shares is not None:
            return self._soft_labels(X)
        return self._in_time(self._soft_labels(X), in_order)

    # The probabilities are those before smoothing, which would count the rows around a row twice.
    def _decoded_along_time(
        self,
        X: FloatArray,
        P: FloatArray,
        bags: Bags,
        in_order: Sequences,
        in_time: InTime | None,
    ) -> Decoding:
        """Return labels that keep the counts and pay for changes as often as activities last."""
        F = reconcile(P, bags)
        if in_time is not None:
            cost = in_time.persistence.cost
        else:
            cost = flicker_of(self._quota(X, F, bags).labels, in_order).cost
        ranks = hash_ranks(X, len(X))
        decoding = decode_along_time(F, bags, ranks, in_order, cost, bags.most_episodes)
        warn_of_episodes(decoding.labels, bags, in_order)
        return decoding

    def _soft_labels(self, X: Any) -> FloatArray:
        if self._shares is not None:
            return np.tile(self._shares, (len(X), 1))
        standardized = self._standardization(X)
        average = np.zeros((len(X), len(self.classes_)))
        for name in self._kept():
            model = self.candidates_[name]
            rows = standardized if name in self._standardized else X
            P = columns_for(
                self.classes_.tolist(), model.classes_.tolist(), model.predict_proba(rows)
            )
            average += self.weights_[name] * self._calibrations[name](P)
        return self._calibration(average)

    def _kept(self) -> list[str]:
        """Return the names of the candidates of nonzero weight."""
        return [name for name, weight in self.weights_.items() if weight]

    def _state(self) -> State:
        names = self._kept()
        standardized = [name in self._standardized for name in names]
        weights = np.array([self.weights_[name] for name in names])
        parts: dict[str, Any] = {"calibration": self._calibration.state()}
        for j, name in enumerate(names):
            parts[f"calibration{j}"] = self._calibrations[name].state()
            parts[f"candidate{j}"] = self.candidates_[name]
        fields: dict[str, Any] = {"candidates": names, "standardized": standardized}
        arrays = {**self._standardization.state(), "weights": weights}
        if self._shares is not None:
            arrays["shares"] = self._shares
        if self._in_time is not None:
            parts["time"] = self._in_time.state()
        fields |= {"learned": self._shares is None, "in_time": self._in_time is not None}
        return State(fields, arrays, parts)

    def _restore_state(self, state: StateReader) -> None:
        self._standardization = Standardization.from_state(state)
        weights = state.array("weights", Stored(("candidates",), shares=True))
        names = state.take_list("candidates", str)
        standardized = state.take_list("standardized", bool)
        if state.holds("reaches", list) and any(state.take("reaches", list)):
            state.refuse(
                "a candidate that sees the rows around, as earlier versions had",
                "candidates that see single rows",
                "fit AutoLLP to the rows of apportion.context.add_context, and save it again",
            )
        counts = {len(set(names)), len(names), len(standardized), len(weights)}
        if len(counts) > 1:
            state.refuse("candidates that do not fit together", f"{len(weights)} of each")
        self.weights_ = dict(zip(names, weights.tolist(), strict=True))
        learned = state.take("learned", bool)
        form = Stored(("classes",), shares=True)
        self._shares = None if learned else state.array("shares", form)
        self._standardized = set(compress(names, standardized))
        self._calibration = Calibration.from_state(state.part("calibration"))
        in_time = state.take("in_time", bool)
        self._in_time = InTime.from_state(state.part("time")) if in_time else None
        self._calibrations, self.candidates_ = {}, {}
        for j, name in enumerate(names):
            self._calibrations[name] = Calibration.from_state(state.part(f"calibration{j}"))
            model = state.model(f"candidate{j}")
            n_features = state.lengths["features"]
            if model.n_features_in_ != n_features:
                found = f"a candidate of {model.n_features_in_} features"
                state.refuse(found, f"{n_features}, as it is given")
            self.candidates_[name] = model

    def _rows_in_state(self) -> dict[str, tuple[int, str]]:
        """Return the largest numbers of any candidate: these have most rows in common."""
        most: dict[str, tuple[int, str]] = {}
        for name in self._kept():
            for kind, number in self.candidates_[name]._rows_in_state().items():
                most[kind] = max(most.get(kind, number), number)
        return most


def _weighed(
    fitted: Sequence[FittedCandidate],
    problem: Problem,
    held_out: BoolArray,
    left_out: dict[str, str],
) -> tuple[Weighing, list[Warning]]:
    """Return weighed candidates and what there is to warn of.

    One that has weight and cannot be fitted to all bags is left out, and the others are weighed.
    """
    failed: list[Warning] = []
    while True:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = weigh_candidates(fitted, problem, held_out)
                for one, weight in zip(result.fitted, result.weights, strict=True):
                    if weight:
                        one.make_whole()
            except KeyboardInterrupt:
                fitted, unfinished = _after_interrupt(fitted, problem, held_out)
                left_out |= unfinished
                failed.append(CandidateWarning(interrupted()))
                continue
            except CandidateError as failure:
                fitted = [one for one in fitted if one.candidate.name != failure.name]
                left_out[failure.name] = SEE_WARNINGS
                failed.append(CandidateWarning(str(failure)))
                if not fitted:
                    raise
                continue
        return result, [*failed, *(w.message for w in caught if isinstance(w.message, Warning))]


def _after_interrupt(
    fitted: Sequence[FittedCandidate], problem: Problem, held_out: BoolArray
) -> tuple[list[FittedCandidate], dict[str, str]]:
    """Return the candidates that an interrupt leaves, and why others are left out.

    These are the ones that have weight and are fitted to all bags; if there is none, the one whose
    held-out totals are likeliest is fitted after all. The interrupt goes on if it is the second, or
    if there is nothing to choose from.
    """
    if len(fitted) == 1:
        raise KeyboardInterrupt
    if held_out.any():
        why = "as no other method of some weight was fitted to all bags yet"
        found = by_held_out_totals(fitted, problem, held_out)
        kept = [one for one, w in zip(fitted, found.weights, strict=True) if w and one.is_whole]
        likelihoods = [calibration.log_likelihood for calibration in found.calibrations]
        kept = kept or [fitted[int(np.argmax(likelihoods))]]
    else:  # all are, and what goes on is LPLLP, with their average as prior
        why = "not smoothed on a graph"
        kept = [one for one in fitted if not isinstance(one.candidate.estimator, LPLLP)]
        if not kept:
            raise KeyboardInterrupt
    names = [one.candidate.name for one in kept]
    others = [one.candidate.name for one in fitted if one.candidate.name not in names]
    _keep_or_raise(f"the answer is that of {', '.join(names)}, {why}")
    return kept, dict.fromkeys(others, SEE_WARNINGS)


def _keep_or_raise(said: str) -> None:
    """Warn of what an interrupt leaves out, or let the interrupt go on if it is the second."""
    text = f"{INTERRUPTED}{said}."
    if not keep_answer(text):
        raise KeyboardInterrupt
    warn_of(text)


def _learned_in_time(result: Weighing, in_order: Sequences) -> tuple[InTime | None, str]:
    """Return how activities last, and why it is used or not."""
    if result.known is None:
        return None, f"{result.untrusted}, so that probabilities are not smoothed along time"
    P = result.final(result.average)
    found, why = learn_persistence(P, result.final, result.known, in_order)
    if found is not None and result.calibrated:
        found = found.with_shifts_for(P, in_order)
    return found, why
