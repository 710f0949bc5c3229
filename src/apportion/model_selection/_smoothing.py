"""Smoothing of the average on a graph of similar rows, if held-out totals ask for it."""

from __future__ import annotations

import numpy as np

from apportion._utils.threads import in_threads
from apportion._utils.typing import FloatArray, IntArray
from apportion.estimators.lp_llp import LPLLP
from apportion.model_selection._calibration import Calibration, calibrate
from apportion.model_selection._candidate_fits import Problem
from apportion.model_selection._weights import Weighing

_PRIOR_WEIGHTS = (0.3, 0.1, 1.0)
"""The prior weights of the average that are tried; the others only if the first is any help."""

_CLEARLY = 4.0
"""How far the log-likelihood must rise. With the prior weight that lets it rise most, labels of 18
clusters are right for .016 more of the rows in the mean, for less in none of them; labels of 114
tables for .0006 more, at worst .011 less; labels of natural bags (SPHERE, WISDM, synthetic weeks)
for 0 to .019 more. Looked at for this: clusters and tables; 3 to 5 would do as well. Natural bags
were looked at afterwards."""


def smoothed_on_graph(
    result: Weighing, problem: Problem, folds: IntArray, n_folds: int
) -> tuple[FloatArray, str] | None:
    """Return the average, smoothed by LP-LLP with itself as the prior, and why, if that is better.

    Whether it is, is seen in folds whose totals are held out from LP-LLP. Its prior is what was
    said of each row without its own fold, but with the totals of the others, so that neighbors may
    know a little of a fold's totals: one more reason to ask for a clear rise. If not all folds were
    held out, more would leak, and nothing is smoothed. What LP-LLP gains within a bag from the
    bag's own totals is seen by no fold.

    Parameters
    ----------
    result : Weighing
        The weighed candidates.
    problem : Problem
        What they were fitted to.
    folds : ndarray of shape (n_samples,)
        The fold of every row.
    n_folds : int
        The number of folds that were held out.
    """
    known = result.known
    if known is None or not (result.calibrated and result.learned):
        return None
    if n_folds <= folds.max():
        return None
    average = result.final(result.average)
    prior = average.copy()
    prior[known.rows] = result.final.held_out
    prepared = problem.standardized_rows

    def held_out(prior_weight: float) -> Calibration:
        def without(fold: int) -> FloatArray:
            rows = folds == fold
            model = LPLLP(prior_weight=prior_weight)
            return model.solve(prepared, problem.bags.without(rows), prior)[rows]

        smoothed = np.full(average.shape, np.nan)
        for fold, P in enumerate(in_threads(without, list(range(n_folds)))):
            smoothed[folds == fold] = P
        return calibrate(smoothed[known.rows], known)

    first, *others = _PRIOR_WEIGHTS
    found = {first: held_out(first)}
    if found[first].log_likelihood > result.final.log_likelihood:
        found |= {weight: held_out(weight) for weight in others}
    weight, calibration = max(found.items(), key=lambda one: one[1].log_likelihood)
    rise = calibration.log_likelihood - result.final.log_likelihood
    if rise < _CLEARLY:
        return None
    F = LPLLP(prior_weight=weight).solve(prepared, problem.bags, average)
    why = (
        "the average is smoothed on a graph of similar rows, because held-out totals are likelier "
        f"by {rise:.0f} in the log-likelihood; accuracies are estimated without that"
    )
    return calibration.with_shifts_for(F, problem.bags.overall)(F), why
