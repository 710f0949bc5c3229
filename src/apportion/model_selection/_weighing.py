"""The base class of estimators whose probabilities are calibrated by held-out totals."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import compress
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import softmax
from sklearn.utils import check_random_state

from apportion._core.projection import reconcile
from apportion._io.archive import Stored
from apportion._io.class_tables import columns_for
from apportion._io.model_state import State, StateReader
from apportion._utils.parameters import integer
from apportion._utils.typing import FloatArray
from apportion.estimators._base import BagClassifier, all_or_nothing
from apportion.estimators._feature_maps import Standardization
from apportion.exceptions import CandidateWarning, counted, users_level
from apportion.model_selection._accuracy import EstimatedAccuracy, estimate_accuracy, withheld
from apportion.model_selection._calibration import (
    Calibration,
    calibrate,
    known_totals,
    uncalibrated,
)
from apportion.model_selection._candidate_fits import (
    FittedCandidate,
    Problem,
    fit_candidates,
    fold_of_rows,
    n_evaluated,
)
from apportion.model_selection._candidates import Candidate
from apportion.model_selection.candidate_report import CandidateReport, WeighedCandidate

_FOLDS = 5

_LEAST_BAGS = 5
"""With fewer bags, holding some out says nothing, and all candidates have the same weight."""

_SHRINKAGE = 60.0
"""The number of bags at which the log-likelihoods count by half: see `candidate_weights`."""

_NEGLIGIBLE = 0.005
"""Candidates of less weight than this are left out of the average."""


class WeighingClassifier(BagClassifier):
    """Candidates averaged with weights, and calibrated, by the likelihood of held-out totals."""

    _allowed: ClassVar = {**BagClassifier._allowed, "cv": integer(2, "auto")}

    cv: int | str
    n_jobs: int | None
    random_state: Any

    candidates_: dict[str, Any]
    weights_: dict[str, float]
    held_out_log_likelihood_: dict[str, float]
    held_out_proba_: FloatArray
    candidate_report_: CandidateReport
    estimated_accuracy_: EstimatedAccuracy

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, *, bags: Any = None, proportions: Any = None) -> Self:
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

        Returns
        -------
        self
            The fitted estimator.
        """
        self._check_parameters()
        candidates = self._asked_candidates()
        matched = self._matched(X, y, bags, proportions)
        rows = self._checked_rows(X, reset=True)
        self._store_diagnosis(matched)
        seed = check_random_state(self.random_state).randint(2**31)
        self._standardization = Standardization.of(rows)
        problem = Problem(rows, self._standardization(rows), matched, seed)

        usable = [c for c in candidates if c.most_rows >= matched.n_samples]
        left_out = {
            c.name: f"takes too long beyond {counted(int(c.most_rows), 'row')}"
            for c in candidates
            if c not in usable
        }
        n_units = len(matched.ids) + int(((matched.codes < 0) & (matched.given >= 0)).sum())
        n_folds = 0
        if n_units >= _LEAST_BAGS:
            n_folds = min(_FOLDS if self.cv == "auto" else int(self.cv), n_units)
        folds = fold_of_rows(problem.standardized, matched, max(n_folds, 1))
        n_folds = n_evaluated(folds, matched, n_folds) if n_folds else 0
        fitted = fit_candidates(problem, usable, folds, n_folds, self.n_jobs)
        fitted_names = {one.candidate.name for one in fitted}
        left_out |= {c.name: "see the warnings" for c in usable if c.name not in fitted_names}
        if not fitted:
            raise ValueError("No candidate could be fitted; the warnings say why.")
        held_out = (folds >= 0) & (folds < n_folds)
        self._weigh(fitted, problem, held_out, left_out)
        return self

    def _asked_candidates(self) -> list[Candidate]:
        raise NotImplementedError

    def _weigh(
        self,
        fitted: Sequence[FittedCandidate],
        problem: Problem,
        held_out: Any,
        left_out: dict[str, str],
    ) -> None:
        """Calibrate and average the candidates, and store what comes of it."""
        bags, names = problem.bags, [one.candidate.name for one in fitted]
        if held_out.any():
            known = known_totals(bags, held_out, problem.standardized)
            calibrations = [calibrate(one.held_out[known.rows], known) for one in fitted]
            likelihoods = np.array([c.log_likelihood for c in calibrations])
            weights, n_known = candidate_weights(likelihoods, known.n_known), known.n_known
            average = np.tensordot(weights, [c.held_out for c in calibrations], axes=1)
            final = calibrate(average, known)
        else:
            n_known = 0
            calibrations = [uncalibrated(bags.n_classes)] * len(fitted)
            likelihoods = np.full(len(fitted), np.nan)
            weights = np.full(len(fitted), 1.0 / len(fitted))
            final = calibrations[0]
            if len(fitted) > 1:
                warnings.warn(
                    f"{counted(len(bags.ids), 'bag')} are too few to hold any out: the answer is "
                    f"the plain average of {counted(len(fitted), 'method')}, and its probabilities "
                    f"are not calibrated. Give at least {_LEAST_BAGS} bags, or one method.",
                    CandidateWarning,
                    stacklevel=users_level(),
                )
        probabilities = sum(
            weight * calibration(one.probabilities)
            for weight, calibration, one in zip(weights, calibrations, fitted, strict=True)
            if weight
        )
        F = reconcile(final(probabilities), bags)
        self.classes_ = bags.classes
        by_quota = self._quota(problem.X, F, bags)
        self._store(bags, F, by_quota)
        self.held_out_proba_ = np.full(F.shape, np.nan)
        if n_known:
            self.held_out_proba_[known.rows] = final.held_out
            self.estimated_accuracy_ = estimate_accuracy(
                final, probabilities, by_quota.labels, bags
            )
        else:
            self.estimated_accuracy_ = withheld(
                f"{counted(len(bags.ids), 'bag')} are too few to hold any out"
            )
        self.weights_ = dict(zip(names, weights.tolist(), strict=True))
        self.held_out_log_likelihood_ = dict(zip(names, likelihoods.tolist(), strict=True))
        self._calibration = final
        self._calibrations = dict(zip(names, calibrations, strict=True))
        self.candidates_ = {one.candidate.name: one.model for one in fitted}
        self._standardized = {c.candidate.name for c in fitted if c.candidate.standardized}
        order = np.argsort(-weights, kind="stable")
        self.candidate_report_ = CandidateReport(
            tuple(
                WeighedCandidate(
                    names[j],
                    float(weights[j]),
                    float(likelihoods[j]),
                    calibrations[j].temperature,
                    calibrations[j].dispersion,
                    fitted[j].seconds,
                    fitted[j].notes,
                )
                for j in order
            ),
            n_known,
            left_out,
        )

    def _soft_labels(self, X: Any) -> FloatArray:
        standardized = self._standardization(X)
        average = np.zeros((len(X), len(self.classes_)))
        for name, weight in self.weights_.items():
            if weight:
                model = self.candidates_[name]
                P = model.predict_proba(standardized if name in self._standardized else X)
                P = columns_for(self.classes_.tolist(), model.classes_.tolist(), P)
                average += weight * self._calibrations[name](P)
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
        fields = {"candidates": names, "standardized": standardized}
        return State(fields, {**self._standardization.state(), "weights": weights}, parts)

    def _restore_state(self, state: StateReader) -> None:
        self._standardization = Standardization.from_state(state)
        weights = state.array("weights", Stored(("candidates",), shares=True))
        names = state.take_list("candidates", str)
        standardized = state.take_list("standardized", bool)
        if not len(set(names)) == len(names) == len(standardized) == len(weights):
            state.refuse("candidates that do not fit together", f"{len(weights)} of each")
        self.weights_ = dict(zip(names, weights.tolist(), strict=True))
        self._standardized = set(compress(names, standardized))
        self._calibration = Calibration.from_state(state.part("calibration"))
        self._calibrations, self.candidates_ = {}, {}
        for j, name in enumerate(names):
            self._calibrations[name] = Calibration.from_state(state.part(f"calibration{j}"))
            model = state.model(f"candidate{j}")
            if model.n_features_in_ != state.lengths["features"]:
                found = f"a candidate of {model.n_features_in_} features"
                state.refuse(found, f"{state.lengths['features']}, as all have")
            self.candidates_[name] = model

    def _rows_in_state(self) -> dict[str, tuple[int, str]]:
        """Return the largest numbers of any candidate: these have most rows in common."""
        most: dict[str, tuple[int, str]] = {}
        for name in self._kept():
            for kind, number in self.candidates_[name]._rows_in_state().items():
                most[kind] = max(most.get(kind, number), number)
        return most


# Log-likelihoods of K bags are noisy by about √K, and rows of a bag are not quite independent.
# Weights ∝ exp(K / (K + 60) · log-likelihood) are close to those of the likelihood if there are
# hundreds of bags, and close to equal if there are few.
def candidate_weights(log_likelihoods: FloatArray, n_known: int) -> FloatArray:
    """Return the weights of candidates: softmax of shrunken log-likelihoods, small ones 0."""
    trust = n_known / (n_known + _SHRINKAGE)
    weights = np.asarray(softmax(trust * log_likelihoods))
    weights[weights < _NEGLIGIBLE] = 0.0
    return weights / weights.sum()
