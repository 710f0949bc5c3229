"""Dual prices of classes at which the counts of best classes are near given quotas."""

from __future__ import annotations

from apportion._core.dual import meet_totals
from apportion._core.evaluator import QuotaEvaluator
from apportion._utils.arrays import as_float, as_int, namespace
from apportion._utils.typing import BoolArray, FloatArray, IntArray

_WARMEST, _COOLING = 0.25, 4.0
"""The first temperature, at which softmax hardly tells soft labels apart, and the factor between
two temperatures."""

_SOFTMAX_STEPS, _SOFTMAX_TOLERANCE = 8, 1e-4
"""Newton steps at one temperature, and how exact they are: the next temperature goes on anyway."""

_MAX_STEP = 1e3
"""The longest Newton step, in units of the temperature."""

_LEAST_QUOTA = 1e-3
"""A class of quota 0 gets this share of a row, because softmax gives 0 to none."""

_FAR, _NEAR = 4, 2
"""Rows per class that counts may be off: above the first, prices are searched; below the second,
they are found. Moving so few rows one by one is cheaper."""


# The labels of largest total score with given counts are a transport problem. Its dual variables
# are one price per bag and class: at the right prices every row's best class fills the quotas, but
# for ties, and whatever rows take at some prices is optimal for the counts that result. The dual is
# piecewise linear; it is smoothed by a softmax at a temperature (entropic regularization: Cuturi,
# 2013), whose multipliers are found by Newton steps, and the temperature falls (annealing:
# Kosowsky & Yuille, 1994). Prices need not be exact: `transport` corrects the counts by moves that
# keep labels optimal.
def search_prices(
    evaluator: QuotaEvaluator,
    quotas: IntArray,
    first: IntArray,
    grain: float,
    *,
    coldest: float = 1e-8,
    few_rows: int = 0,
) -> tuple[IntArray, IntArray]:
    """Return prices at which the counts of best classes are near the quotas, and their surplus.

    Parameters
    ----------
    evaluator : QuotaEvaluator
        The rows.
    quotas : ndarray of int, of shape (n_bags, n_classes)
        The counts that are wanted.
    first : ndarray of int, of shape (n_bags, n_classes)
        Prices to try first.
    grain : float
        The value of one unit of scores and prices.
    coldest : float
        Temperatures are above this: softmax is there the best class of all but tied rows.
    few_rows : int
        Stop early when moves would have to be chosen among no more rows than this.

    Returns
    -------
    prices : ndarray of int, of shape (n_bags, n_classes)
        The prices, in units of scores.
    surplus : ndarray of int, of shape (n_bags, n_classes)
        How many rows each class has above its quota at these prices.
    """
    xp, c = namespace(quotas), quotas.shape[1]
    prices, counts = evaluator.counts(as_int(first))
    surplus = counts - quotas
    far: BoolArray = abs(surplus).sum(axis=1) > _FAR * c
    if not far.any() or _candidates(surplus) <= few_rows:
        return prices, surplus
    inner, wanted = evaluator.only(far), quotas[far]
    sizes = as_float(wanted.sum(axis=1))
    totals = xp.maximum(as_float(wanted), _LEAST_QUOTA)
    totals *= (sizes / totals.sum(axis=1))[:, None]
    multipliers: FloatArray = xp.zeros_like(totals)
    temperature = _WARMEST
    while temperature > coldest:
        multipliers, _ = meet_totals(
            inner.softmax(temperature),
            totals,
            totals,
            sizes,
            max_step=_MAX_STEP,
            start=multipliers,
            tol=_SOFTMAX_TOLERANCE,
            max_iter=_SOFTMAX_STEPS,
        )
        trial, counts = inner.counts(as_int(xp.rint(multipliers * temperature / grain)))
        off = counts - wanted
        better = abs(off).sum(axis=1) < abs(surplus[far]).sum(axis=1)
        bags = xp.flatnonzero(far)[better]
        prices[bags], surplus[bags] = trial[better], off[better]
        near = abs(surplus[far]).sum(axis=1) <= _NEAR * c
        if near.all() or _candidates(surplus) <= few_rows:
            break
        temperature /= _COOLING
        multipliers *= _COOLING
    return prices, surplus


def _candidates(surplus: IntArray) -> float:
    """Return among how many rows moves are chosen: one more than moves per pair of classes."""
    c = surplus.shape[1]
    moves = abs(surplus).sum(axis=1) / 2.0
    return float(c * (c - 1) * (moves[moves > 0] + 1.0).sum())
