"""The base class of estimators whose probabilities are calibrated by held-out totals."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.estimators import LPLLP
from apportion.estimators._base import BagClassifier, all_or_nothing
from apportion.estimators._feature_maps import Standardization
from apportion.estimators._inductive import feature_order
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
from apportion.model_selection._forecast import forecast_fits
from apportion.model_selection.candidate_report import CandidateReport, WeighedCandidate

_FOLDS = 5

_LEAST_BAGS = 5
"""With fewer bags, holding some out says nothing, and all candidates have the same weight."""

_NOISE = 3.0
"""Log-likelihoods that differ by less say nothing about which candidate is better. Of 1 to 4, and
of weights that count log-likelihoods by K / (K + 60), 3 had the least mean regret on 15 tables of
up to 1,000 rows in bags of 16, 64 and 256, but all were within .002."""

_LEARNED = 4.0
"""How far the log-likelihood of the average must lie above that of the class shares alone. Below,
nothing shows that the methods know more, and chance alone reaches 2 or 3: accuracies are not
estimated, and, if bags are random, new rows get the class shares."""

_LEAST_TOTALS = 10
"""How many independent totals, of bags times classes but one, must be held out for an estimate."""

_NEGLIGIBLE = 0.005
"""Candidates of less weight than this are left out of the average."""

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
        n_units = len(matched.ids) + int(((matched.codes < 0) & (matched.given >= 0)).sum())
        n_folds = 0
        if n_units >= _LEAST_BAGS:
            n_folds = min(_FOLDS if self.cv == "auto" else int(self.cv), n_units)
        folds = fold_of_rows(problem.X, matched, max(n_folds, 1))
        n_folds = n_evaluated(folds, matched, n_folds) if n_folds else 0
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
        weighed = _by_held_out_totals if held_out.any() else _without_held_out_totals
        result = weighed(fitted, problem, held_out)
        if result.calibrated:
            result = result.with_shifts_for(fitted, bags.overall)
        pairs = list(zip(fitted, result.weights, result.calibrations, strict=True))
        P = result.average(fitted)
        F = reconcile(result.final(P), bags)
        self.classes_ = bags.classes
        by_quota = self._quota(problem.X, F, bags)
        self._store(bags, F, by_quota)
        self.held_out_proba_ = np.full(F.shape, np.nan)
        self.held_out_proba_[result.rows] = result.final.held_out
        self.estimated_accuracy_ = (
            withheld(result.untrusted)
            if result.untrusted
            else estimate_accuracy(result.final, P, by_quota.labels, bags)
        )
        names = [one.candidate.name for one in fitted]
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


@dataclass(frozen=True)
class _Weighing:
    """Weights and calibrations of candidates.

    Attributes
    ----------
    weights : ndarray of shape (n_candidates,)
        The weights.
    calibrations : list of Calibration
        The calibration of each candidate.
    final : Calibration
        The calibration of the average.
    rows : ndarray of int
        The rows that were held out.
    n_known : int
        The number of bags, and labeled rows, that were held out.
    reason : str
        How the weights came about, if not by held-out totals.
    untrusted : str
        Why accuracies cannot be estimated; empty if they can.
    calibrated : bool
        Whether held-out totals fixed the temperatures.
    learned : bool
        Whether nothing speaks against rules for new rows.
    """

    weights: FloatArray
    calibrations: list[Calibration]
    final: Calibration
    rows: IntArray
    n_known: int = 0
    reason: str = ""
    untrusted: str = ""
    calibrated: bool = False
    learned: bool = True

    def average(self, fitted: Sequence[FittedCandidate]) -> FloatArray:
        """Return the weighted mean of the candidates' calibrated probabilities of fitted rows."""
        weighed = zip(fitted, self.weights, self.calibrations, strict=True)
        return np.asarray(sum(w * c(one.probabilities) for one, w, c in weighed if w))

    def with_shifts_for(self, fitted: Sequence[FittedCandidate], overall: FloatArray) -> _Weighing:
        """Return the same weighing with class shifts for the candidates fitted to all bags."""
        pairs = zip(fitted, self.calibrations, strict=True)
        calibrations = [c.with_shifts_for(one.probabilities, overall) for one, c in pairs]
        shifted = replace(self, calibrations=calibrations)
        final = self.final.with_shifts_for(shifted.average(fitted), overall)
        return replace(shifted, final=final)


def _by_held_out_totals(
    fitted: Sequence[FittedCandidate], problem: Problem, held_out: BoolArray
) -> _Weighing:
    known = known_totals(problem.bags, held_out, problem.standardized)
    calibrations = [calibrate(one.held_out[known.rows], known) for one in fitted]
    log_likelihoods = np.array([c.log_likelihood for c in calibrations])
    prior = [one.candidate.prior_weight_under(known.label_shift) for one in fitted]
    weights = candidate_weights(log_likelihoods, np.array(prior))
    if known.label_shift:
        calibrations = [
            c.without_temperature(one.held_out[known.rows])
            for c, one in zip(calibrations, fitted, strict=True)
        ]
    average = np.tensordot(weights, [c.held_out for c in calibrations], axes=1)
    final = calibrate(average, known)
    untrusted, n_bags = "", counted(known.n_known, "held-out bag")
    told = final.log_likelihood >= _LEARNED
    # Random bags have nothing but their totals to learn from. Others differ in their features, and
    # a few of them may have taught more than those held out can confirm.
    learned = told or not known.random_bags
    if not told:
        untrusted = f"{n_bags} cannot tell the methods from the class shares alone"
    if not learned:
        _warn_of_nothing_learned(untrusted)
    if known.label_shift:
        final = final.without_temperature(average)
        untrusted = untrusted or (
            "the bags differ in their class shares beyond what the features tell, so that their "
            "totals do not tell how sure the methods may be"
        )
    if known.n_known * (problem.bags.n_classes - 1) < _LEAST_TOTALS:
        untrusted = untrusted or f"{n_bags} are too few to tell how sure the methods may be"
    return _Weighing(
        weights,
        calibrations,
        final,
        known.rows,
        known.n_known,
        "",
        untrusted,
        calibrated=not known.label_shift,
        learned=learned,
    )


# Three bags are too few to hold one out, but they can still say whether the graph knows the
# classes: if labels that keep the totals are much smoother than labels that keep totals drawn at
# random, the smoothness is that of the classes. `LPLLP` then answers alone.
def _without_held_out_totals(
    fitted: Sequence[FittedCandidate], problem: Problem, held_out: BoolArray
) -> _Weighing:
    n_bags = counted(len(problem.bags.ids), "bag")
    smooth = [
        isinstance(one.model, LPLLP) and one.model.refinement_.much_smoother for one in fitted
    ]
    weights = np.array(smooth if any(smooth) else [one.candidate.prior_weight for one in fitted])
    weights = weights / weights.sum()
    if len(fitted) == 1:
        reason = ""
    elif any(smooth):
        reason = (
            f"{n_bags} are too few to hold any out; LPLLP answers alone, because its labels are "
            "much smoother than labels under totals drawn at random"
        )
    else:
        reason = f"{n_bags} are too few to hold any out; the answer is the plain average"
        _warn_of_few_bags(n_bags, len(fitted))
    same = uncalibrated(problem.bags.n_classes)
    untrusted = f"{n_bags} are too few to hold any out"
    none = np.zeros(0, dtype=np.intp)
    return _Weighing(weights, [same] * len(fitted), same, none, 0, reason, untrusted)


def _warn_of_nothing_learned(reason: str) -> None:
    warnings.warn(
        f"{reason}: new rows get the class shares, and the labels of the fitted rows rest on their "
        "totals and on what the methods assume. Give more or smaller bags, or some labels.",
        CandidateWarning,
        stacklevel=users_level(),
    )


def _warn_of_few_bags(n_bags: str, n_methods: int) -> None:
    warnings.warn(
        f"{n_bags} are too few to hold any out: the answer is the plain average of "
        f"{counted(n_methods, 'method')}, and its probabilities are not calibrated. Give at least "
        f"{_LEAST_BAGS} bags, or choose one method.",
        CandidateWarning,
        stacklevel=users_level(),
    )


# Differences of log-likelihoods between good candidates are mostly noise: with a few dozen bags,
# choosing by them is worse than a plain average. Candidates within `_NOISE` of the best therefore
# keep their prior weights; beyond, weights fall as the likelihood does.
def candidate_weights(log_likelihoods: FloatArray, prior_weights: FloatArray) -> FloatArray:
    """Return the weights of candidates, which sum to 1; negligible ones are 0.

    Examples
    --------
    >>> candidate_weights(np.array([20.0, 18.0, 2.0]), np.ones(3))
    array([0.5, 0.5, 0. ])
    """
    lag = np.maximum(log_likelihoods.max() - log_likelihoods - _NOISE, 0.0)
    weights = np.asarray(softmax(np.log(prior_weights) - lag))
    weights[weights < _NEGLIGIBLE] = 0.0
    return weights / weights.sum()
