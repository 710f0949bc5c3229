"""Weights of candidates, by the likelihood of totals that were held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax
from sklearn.base import clone

from apportion._core.decode import Decoding
from apportion._utils.typing import BoolArray, FloatArray
from apportion.estimators import LPLLP
from apportion.exceptions import counted
from apportion.model_selection._calibration import (
    Calibration,
    KnownTotals,
    calibrate,
    known_totals,
    uncalibrated,
)
from apportion.model_selection._candidate_fits import (
    LEAST_BAGS,
    FittedCandidate,
    Problem,
    warn_of,
)
from apportion.model_selection._candidates import Candidate

_NOISE = 3.0
"""Log-likelihoods that differ by less say nothing about which candidate is better. Of 1 to 4, and
of weights that count log-likelihoods by K / (K + 60), 3 had the least mean regret on 15 tables of
up to 1,000 rows in bags of 16, 64 and 256, but all were within .002."""

_LEARNED = 4.0
"""How far the log-likelihood of the average must lie above that of the class shares alone. Below,
nothing shows that the methods know more, and chance alone reaches 2 or 3: accuracies are not
estimated, and, if bags are random, new rows get the class shares."""

_CLOSE = 4.0
"""A log-likelihood that is no further from `_LEARNED` is that of one deal of the bags to folds:
another deal might say otherwise. Near it, deals differ by a standard deviation of about 2 (wine,
iris and breast cancer in 8 and 12 bags, MeanMap and AggregateGP, 8 deals each)."""

_LEAST_TOTALS = 10
"""How many independent totals, of bags times classes but one, must be held out for an estimate."""

SMOOTHED_AVERAGE, UNSCALED = "lpllp-average", "lpllp-unscaled"
"""LPLLP with the average of all candidates as prior, and on the features as they are."""

_PLAIN = "the plain average"
_SMOOTHED = "the plain average, smoothed on LPLLP's graph"
"""What the answer is if there are too few bags to hold any out."""

_NEGLIGIBLE = 0.02
"""Candidates of less weight than this are left out of the average, and not fitted to all bags."""


@dataclass(frozen=True)
class Weighing:
    """Weights and calibrations of candidates.

    Attributes
    ----------
    fitted : sequence of FittedCandidate
        The candidates.
    weights : ndarray of shape (n_candidates,)
        Their weights.
    calibrations : list of Calibration
        The calibration of each candidate.
    final : Calibration
        The calibration of the average.
    reason : str
        How the weights came about, if not by held-out totals.
    untrusted : str
        Why accuracies cannot be estimated; empty if they can.
    calibrated : bool
        Whether held-out totals fixed the temperatures.
    learned : bool
        Whether nothing speaks against rules for new rows.
    known : KnownTotals or None
        What is known of the rows that were held out; None if there are none.
    """

    fitted: Sequence[FittedCandidate]
    weights: FloatArray
    calibrations: list[Calibration]
    final: Calibration
    reason: str = ""
    untrusted: str = ""
    calibrated: bool = False
    learned: bool = True
    known: KnownTotals | None = None

    @property
    def average(self) -> FloatArray:
        """The weighted mean of the candidates' calibrated probabilities of fitted rows."""
        weighed = zip(self.fitted, self.weights, self.calibrations, strict=True)
        return np.asarray(sum(w * c(one.probabilities) for one, w, c in weighed if w))

    @property
    def is_close(self) -> bool:
        """Whether one deal of the bags to folds decides if the candidates learned anything."""
        found = self.final.log_likelihood
        return self.known is not None and abs(found - _LEARNED) <= _CLOSE

    @property
    def own_labels(self) -> Decoding | None:
        """The labels of an LPLLP that answers alone: they are refined, beyond its soft labels."""
        if self.known is not None or self.weights.max() < 1.0:
            return None
        model = self.fitted[int(self.weights.argmax())].model
        if not isinstance(model, LPLLP) or model.decode != "quota":
            return None
        return Decoding(np.searchsorted(model.classes_, model.transduction_), model.tied_)

    def with_shifts_for(self, overall: FloatArray) -> Weighing:
        """Return the same weighing with class shifts for candidates fitted to all bags."""
        calibrations = [
            c.with_shifts_for(one.probabilities, overall) if weight else c
            for one, weight, c in zip(self.fitted, self.weights, self.calibrations, strict=True)
        ]
        shifted = replace(self, calibrations=calibrations)
        return replace(shifted, final=self.final.with_shifts_for(shifted.average, overall))


def weigh_candidates(
    fitted: Sequence[FittedCandidate], problem: Problem, held_out: BoolArray
) -> Weighing:
    """Weigh and calibrate candidates by the totals of the rows that were held out.

    Parameters
    ----------
    fitted : sequence of FittedCandidate
        The candidates.
    problem : Problem
        What they were fitted to.
    held_out : ndarray of bool, of shape (n_samples,)
        The rows that were held out; none if there are too few bags.
    """
    if not held_out.any():
        return _without_held_out_totals(fitted, problem)
    weighing = by_held_out_totals(fitted, problem, held_out)
    if not weighing.calibrated:
        return weighing
    return weighing.with_shifts_for(problem.bags.overall)


def by_held_out_totals(
    fitted: Sequence[FittedCandidate], problem: Problem, held_out: BoolArray
) -> Weighing:
    """Return weights and calibrations, without shifts for candidates fitted to all bags."""
    known = known_totals(problem.bags, held_out, problem.standardized)
    calibrations = [calibrate(one.held_out[known.rows], known) for one in fitted]
    log_likelihoods = np.array([c.log_likelihood for c in calibrations])
    design = {"random_bags": known.random_bags, "label_shift": known.label_shift}
    prior = np.array([one.candidate.prior_weight(**design) for one in fitted])
    weights = candidate_weights(log_likelihoods, prior)
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
        warn_of(
            f"{untrusted}: new rows get the class shares, and the labels of the fitted rows rest "
            "on their totals and on what the methods assume. Give more or smaller bags, or some "
            "labels."
        )
    if known.label_shift:
        final = final.without_temperature(average)
        untrusted = untrusted or (
            "the bags differ in their class shares beyond what the features tell, so that their "
            "totals do not tell how sure the methods may be"
        )
    if known.n_known * (problem.bags.n_classes - 1) < _LEAST_TOTALS:
        untrusted = untrusted or f"{n_bags} are too few to tell how sure the methods may be"
    return Weighing(
        fitted,
        weights,
        calibrations,
        final,
        untrusted=untrusted,
        calibrated=not known.label_shift,
        learned=learned,
        known=known,
    )


# Three bags are too few to hold one out, but they can still say whether the graph knows the
# classes: if labels that keep the totals are much smoother than labels that keep totals drawn at
# random, the smoothness is that of the classes, and `LPLLP` answers alone. It is also tried on the
# features as they are, whose scales may have a meaning (the paper's Half-Kernel of 120 rows: .91
# right if standardized, 1.00 if not). Else its graph smooths the plain average of all methods:
# better than the average in all cells of the paper's SPHERE 2 (20 repetitions; by .005 to .06), and
# as good on tables in three or four random bags.
def _without_held_out_totals(fitted: Sequence[FittedCandidate], problem: Problem) -> Weighing:
    n_bags = len(problem.bags.ids)
    verb = "is" if n_bags == 1 else "are"
    too_few = f"{counted(n_bags, 'bag')} {verb} too few to hold any out"
    prior = np.array([one.candidate.prior_weight(random_bags=True) for one in fitted])
    weights, reason = prior / prior.sum(), ""
    on_graphs = [one for one in fitted if isinstance(one.model, LPLLP)]
    if on_graphs and len(fitted) > 1:
        fitted, weights, answer = _on_graphs(on_graphs, fitted, weights, problem)
        reason = f"{too_few}; {answer}"
    elif len(fitted) > 1:
        reason = f"{too_few}; the answer is {_PLAIN}"
    if reason.endswith((_SMOOTHED, _PLAIN)):
        warn_of(
            f"{reason}, and its probabilities are not calibrated. Give at least {LEAST_BAGS} bags, "
            "or choose one method."
        )
    same = uncalibrated(problem.bags.n_classes)
    return Weighing(fitted, weights, [same] * len(fitted), same, reason, too_few)


def _on_graphs(
    on_graphs: Sequence[FittedCandidate],
    fitted: Sequence[FittedCandidate],
    weights: FloatArray,
    problem: Problem,
) -> tuple[list[FittedCandidate], FloatArray, str]:
    """Return candidates, of which the last answers alone, their weights, and what it is."""
    found = list(on_graphs)
    asked = on_graphs[0].candidate
    if asked.standardized and asked.first is None:
        found.append(_fitted(replace(asked, name=UNSCALED, standardized=False), problem, None))
    smoothest = max(found, key=lambda one: one.model.refinement_.gain)
    if smoothest.model.refinement_.much_smoother:
        answer = (
            f"{smoothest.candidate.name} answers alone, because its labels are much smoother than "
            "labels under totals drawn at random"
        )
        others = [one for one in fitted if one is not smoothest]
    else:
        average = np.tensordot(weights, [one.probabilities for one in fitted], axes=1)
        estimator = clone(asked.estimator).set_params(prior_weight=1.0)
        candidate = replace(
            asked,
            name=SMOOTHED_AVERAGE,
            estimator=estimator,
            answer="prior",
            standardized=smoothest.candidate.standardized,
        )
        smoothest, others = _fitted(candidate, problem, average), list(fitted)
        answer = f"the answer is {_SMOOTHED}"
    return [*others, smoothest], np.append(np.zeros(len(others)), 1.0), answer


def _fitted(candidate: Candidate, problem: Problem, answer: FloatArray | None) -> FittedCandidate:
    """Return a candidate fitted to all bags."""
    unknown = np.full((problem.bags.n_samples, problem.bags.n_classes), np.nan)
    return FittedCandidate(
        candidate, unknown, lambda: problem.whole(candidate, answer, in_full=True)
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
