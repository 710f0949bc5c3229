"""Smoothing of the average on a graph of similar rows, if held-out totals ask for it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion._utils.threads import in_threads
from apportion._utils.typing import FloatArray, IntArray
from apportion.estimators.lp_llp import LPLLP
from apportion.model_selection._calibration import Calibration, calibrate
from apportion.model_selection._candidate_fits import Problem
from apportion.model_selection._weights import Weighing

_PRIOR_WEIGHT = 0.1
"""The prior weight of the average. On clusters of 1,000 to 10,000 rows, .1 had likelier held-out
totals than .01, .03, .5 and 3, and labels right for .008 to .025 more of the rows."""

_CLEARLY = 12.0
"""How far the log-likelihood must rise. On 15 tables in bags of 16 and 64 rows it rises by at most
5.3, and the labels of as many become worse as better; on clusters of 3,000 rows and more in bags of
16, and of 10,000 rows, it rises by 18 to 41, and all become better. None of this was looked at for
anything else."""


class Smoothed(NamedTuple):
    """Smoothed probabilities of the fitted rows, their calibration, and why they are taken."""

    probabilities: FloatArray
    calibration: Calibration
    why: str


def smoothed_on_graph(
    result: Weighing, problem: Problem, folds: IntArray, n_folds: int
) -> Smoothed | None:
    """Return the average, smoothed by LP-LLP with the average as its prior, if that is better.

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
    known_enough = result.final.log_likelihood >= 2.0 * _CLEARLY  # else it cannot rise so far
    if result.known is None or not (result.calibrated and result.learned and known_enough):
        return None
    if n_folds <= folds.max():
        return None
    average = result.final(result.average)
    prior = average.copy()
    prior[result.rows] = result.final.held_out
    prepared = problem.standardized_rows

    def without(fold: int) -> FloatArray:
        rows = folds == fold
        model = LPLLP(prior_weight=_PRIOR_WEIGHT)
        return model.solve(prepared, problem.bags.without(rows), prior)[rows]

    held_out = np.full(average.shape, np.nan)
    for fold, P in enumerate(in_threads(without, list(range(n_folds)))):
        held_out[folds == fold] = P
    calibration = calibrate(held_out[result.rows], result.known)
    rise = calibration.log_likelihood - result.final.log_likelihood
    if rise < _CLEARLY:
        return None
    F = LPLLP(prior_weight=_PRIOR_WEIGHT).solve(prepared, problem.bags, average)
    why = (
        "the average is smoothed on a graph of similar rows, because held-out totals are likelier "
        f"by {rise:.0f} in the log-likelihood"
    )
    return Smoothed(F, calibration.with_shifts_for(F, problem.bags.overall), why)
