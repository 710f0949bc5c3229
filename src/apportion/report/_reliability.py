"""How right the labels are: estimates from held-out totals, and the methods that were weighed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apportion.exceptions import PARAMETERS, Names, counted, rendered
from apportion.model_selection import CandidateReport, Estimate, EstimatedAccuracy, WeighedCandidate
from apportion.model_selection._weighing import WeighingClassifier
from apportion.plotting._held_out import HeldOutTotals, held_out_totals

# A posterior mean of the temperature between 4/5 and 5/4 is read as "about as sure as it should
# be". Near 0, the probabilities of a method become the shares of the classes.
_SURE_ENOUGH = (0.8, 1.25)
_KNOWS_NOTHING = 0.1


@dataclass(frozen=True)
class Reliability:
    """What held-out totals say about the labels of a model.

    Attributes
    ----------
    method : str
        The name of the estimator.
    n_samples : int
        The number of rows that it labeled, without those whose label was given.
    n_bags : int
        The number of bags.
    accuracy : EstimatedAccuracy
        How many labels are right.
    methods : CandidateReport
        The methods that were weighed.
    totals : HeldOutTotals
        Predicted and given totals of the bags that were held out.
    names : tuple
        The names of these bags.
    notes : dict of str to str
        What methods warned of, and which methods.
    """

    method: str
    n_samples: int
    n_bags: int
    accuracy: EstimatedAccuracy
    methods: CandidateReport
    totals: HeldOutTotals
    names: tuple[Any, ...]
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def calibrated(self) -> bool:
        """Whether soft labels are probabilities: calibrated by totals that were held out."""
        return self.methods.calibrated

    def why_withheld(self, estimate: Estimate, bag: str) -> str:
        """Return why an estimate is withheld, with the word that is used for a bag."""
        if self.calibrated or self.totals.n_known:
            return estimate.reason
        return f"{counted(self.n_bags, bag)} are too few to hold any out"


def reliability_of(
    model: Any, n_given: int = 0, parameters: Names = PARAMETERS
) -> Reliability | None:
    """Return what held-out totals say about a fitted model; None if it never holds any out.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    n_given : int, default=0
        The number of its rows whose label was given.
    parameters : Names, optional
        What parameters are called in notes, if not as in Python.
    """
    if not isinstance(model, WeighingClassifier):
        return None
    report = model.bag_report_
    totals = held_out_totals(model.held_out_proba_, model.bag_codes_, report)
    return Reliability(
        type(model).__name__,
        len(model.transduction_) - n_given,
        len(report.ids),
        model.estimated_accuracy_,
        model.candidate_report_,
        totals,
        tuple(report.ids[k] for k in totals.bags),
        _notes_of(model, parameters),
    )


def _notes_of(model: WeighingClassifier, parameters: Names) -> dict[str, str]:
    """Return what methods warned of, once each, without the findings about all totals."""
    candidates = model.candidate_report_.candidates
    whose: dict[str, list[str]] = {}
    for candidate in candidates:
        for note in candidate.notes:
            if not note.startswith(tuple(model.diagnosis_.findings)):
                whose.setdefault(rendered(note, parameters), []).append(candidate.name)
    n = len(candidates)
    return {
        note: "all methods" if len(names) == n > 1 else ", ".join(names)
        for note, names in whose.items()
    }


def overall_estimate(parts: Mapping[str, Reliability]) -> tuple[Estimate | None, int]:
    """Return the estimated accuracy of all fitted rows, and the number of rows it is about.

    The ends of the interval are averaged as the estimates are, as if the estimates of all groups
    erred in the same direction. Groups whose estimate is withheld are left out.
    """
    estimates = [(r.accuracy.fitted_rows, r.n_samples) for r in parts.values()]
    told = [(e, n) for e, n in estimates if e.value is not None]
    n_rows = sum(n for _, n in told)
    if not told:
        return None, 0
    ends = np.array([[e.value, e.low, e.high] for e, _ in told], dtype=np.float64)
    value, low, high = np.average(ends, axis=0, weights=[n for _, n in told]).tolist()
    return Estimate(value, low, high), n_rows


def accuracy_in_words(parts: Mapping[str, Reliability], bag: str) -> str:
    """Return how many labels are right, or why this is not known; empty if nothing was weighed.

    Parameters
    ----------
    parts : mapping of str to Reliability
        What held-out totals say, by group.
    bag : {"bag", "entry"}
        What the bags are called.
    """
    if not parts:
        return ""
    estimate, n_rows = overall_estimate(parts)
    if estimate is None:
        why = {r.why_withheld(r.accuracy.fitted_rows, bag) for r in parts.values()}
        reason = why.pop() if len(why) == 1 else "the reasons are given by group below"
        return f"How many of the labels are right is not estimated: {reason}."
    n_all = sum(r.n_samples for r in parts.values())
    of_rows = "" if n_rows == n_all else f" of {n_rows:,} rows, for which this can be estimated,"
    return (
        f"About {estimate.value:.0%} of the labels{of_rows} are right ({interval_of(estimate)}), "
        "estimated from totals that were held out."
    )


def interval_of(estimate: Estimate) -> str:
    """Return the interval of an estimate in words."""
    return f"{100 * (estimate.low or 0.0):.0f} to {100 * (estimate.high or 0.0):.0f}%"


def estimate_in_words(reliability: Reliability, estimate: Estimate, bag: str) -> str:
    """Return an estimate with its interval, or why it is withheld."""
    if estimate.value is None:
        return f"not estimated: {reliability.why_withheld(estimate, bag)}"
    return f"{estimate.value:.0%} ({interval_of(estimate)})"


def method_in_words(candidate: WeighedCandidate, *, calibrated: bool = True) -> str:
    """Return what held-out totals say about a method, in words.

    Parameters
    ----------
    candidate : WeighedCandidate
        The method.
    calibrated : bool, default=True
        Whether held-out totals say how sure methods may be.

    Examples
    --------
    >>> method_in_words(WeighedCandidate("gp", 0.8, 12.5, 0.5, 0.0, 1.0))
    'too sure: flattened toward the shares of the classes'
    """
    if math.isnan(candidate.log_likelihood):
        return "nothing was held out to judge it by"
    if candidate.temperature < _KNOWS_NOTHING or candidate.log_likelihood <= 0:
        return "no better than the shares of the classes alone"
    if not candidate.weight:
        return "no part in the average: others predict the totals far better"
    if not calibrated:
        return "the totals do not tell how sure it may be"
    least, most = _SURE_ENOUGH
    if candidate.temperature < least:
        return "too sure: flattened toward the shares of the classes"
    if candidate.temperature > most:
        return "not sure enough: sharpened toward 0 and 1"
    return "about as sure as it should be"


def no_graph_in_words(model: Any) -> str:
    """Return that a model has no graph, of which a map could be drawn."""
    method = type(model).__name__
    if not isinstance(model, WeighingClassifier):
        return f"{method} keeps no graph of the rows"
    if len(model.candidates_) == 1:
        return f"The method that {method} fitted keeps no graph of the rows"
    return f"None of the methods to which {method} gave a weight keeps a graph of the rows"
