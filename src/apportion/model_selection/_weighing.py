"""The base class of estimators whose probabilities are calibrated by held-out totals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state

from apportion._core.projection import reconcile
from apportion._io.archive import Stored
from apportion._io.class_tables import columns_for
from apportion._io.model_state import State, StateReader
from apportion._utils.parameters import integer
from apportion._utils.typing import BoolArray, FloatArray
from apportion.estimators._base import BagClassifier, all_or_nothing
from apportion.estimators._feature_maps import Standardization
from apportion.estimators._inductive import feature_order
from apportion.exceptions import counted
from apportion.model_selection._accuracy import EstimatedAccuracy, estimate_accuracy, withheld
from apportion.model_selection._calibration import Calibration
from apportion.model_selection._candidate_fits import (
    FittedCandidate,
    Problem,
    bag_folds,
    fit_candidates,
)
from apportion.model_selection._candidates import Candidate
from apportion.model_selection._forecast import forecast_fits
from apportion.model_selection._weights import weigh_candidates
from apportion.model_selection.candidate_report import CandidateReport, WeighedCandidate

_FOLDS = 5

SEE_WARNINGS = "see the warnings"
"""Why a candidate was left out, if a warning says it."""


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
        # In the order of the features, so that the order of rows changes no rounding, and no hash.
        row_order, _ = feature_order(rows, matched)
        self._standardization = Standardization.of(rows[row_order])
        problem = Problem(rows, self._standardization(rows), matched, seed)

        usable = [c for c in candidates if c.most_rows >= matched.n_samples]
        left_out = {
            c.name: f"takes too long beyond {counted(int(c.most_rows), 'row')}"
            for c in candidates
            if c not in usable
        }
        folds, n_folds = bag_folds(problem, _FOLDS if self.cv == "auto" else int(self.cv))
        forecast = forecast_fits(problem, usable, 1 + n_folds, self.n_jobs)
        fitted = fit_candidates(problem, usable, folds, n_folds, self.n_jobs, forecast.costs)
        fitted_names = {one.candidate.name for one in fitted}
        left_out |= {c.name: SEE_WARNINGS for c in usable if c.name not in fitted_names}
        if not fitted:
            raise ValueError("No candidate could be fitted; the warnings say why.")
        held_out = (folds >= 0) & (folds < n_folds)
        self._weigh(fitted, problem, held_out, left_out, forecast.seconds)
        return self

    def _asked_candidates(self) -> list[Candidate]:
        raise NotImplementedError

    def _weigh(
        self,
        fitted: Sequence[FittedCandidate],
        problem: Problem,
        held_out: BoolArray,
        left_out: dict[str, str],
        forecast_seconds: float | None,
    ) -> None:
        """Calibrate and average the candidates, and store what comes of it."""
        bags = problem.bags
        result = weigh_candidates(fitted, problem, held_out)
        pairs = list(zip(result.fitted, result.weights, result.calibrations, strict=True))
        P = result.average
        F = reconcile(result.final(P), bags)
        self.classes_ = bags.classes
        by_quota = result.own_labels or self._quota(problem.X, F, bags)
        self._store(bags, F, by_quota)
        self.held_out_proba_ = np.full(F.shape, np.nan)
        self.held_out_proba_[result.rows] = result.final.held_out
        self.estimated_accuracy_ = (
            withheld(result.untrusted)
            if result.untrusted
            else estimate_accuracy(result.final, P, by_quota.labels, bags)
        )
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
        candidates = [
            WeighedCandidate(
                one.candidate.name,
                float(weight),
                calibration.log_likelihood,
                calibration.temperature,
                calibration.dispersion,
                one.seconds,
                one.notes,
            )
            for one, weight, calibration in sorted(pairs, key=lambda pair: -pair[1])
        ]
        self.candidate_report_ = CandidateReport(
            tuple(candidates),
            result.n_known,
            result.reason,
            left_out,
            result.calibrated,
            forecast_seconds,
        )

    def _soft_labels(self, X: Any) -> FloatArray:
        if self._shares is not None:
            return np.tile(self._shares, (len(X), 1))
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
        arrays = {**self._standardization.state(), "weights": weights}
        if self._shares is not None:
            arrays["shares"] = self._shares
        return State({**fields, "learned": self._shares is None}, arrays, parts)

    def _restore_state(self, state: StateReader) -> None:
        self._standardization = Standardization.from_state(state)
        weights = state.array("weights", Stored(("candidates",), shares=True))
        names = state.take_list("candidates", str)
        standardized = state.take_list("standardized", bool)
        if not len(set(names)) == len(names) == len(standardized) == len(weights):
            state.refuse("candidates that do not fit together", f"{len(weights)} of each")
        self.weights_ = dict(zip(names, weights.tolist(), strict=True))
        learned = state.take("learned", bool)
        form = Stored(("classes",), shares=True)
        self._shares = None if learned else state.array("shares", form)
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
