"""Estimate the accuracy of labels without labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion._core.projection import reconcile
from apportion._utils.typing import FloatArray, IntArray
from apportion.model_selection._calibration import Calibration
from apportion.supervision.bags import Bags

_WIDEST = 0.3
"""An interval that is wider says too little: the estimate is withheld."""


@dataclass(frozen=True)
class Estimate:
    """An estimate with an interval, or the reason why there is none.

    Attributes
    ----------
    value : float or None
        The estimate; None if it is withheld.
    low, high : float or None
        The interval that holds 90 % of the posterior.
    reason : str
        Why the estimate is withheld; empty if it is not.
    """

    value: float | None
    low: float | None
    high: float | None
    reason: str = ""

    def __str__(self) -> str:
        if self.value is None:
            return f"not estimated: {self.reason}"
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class EstimatedAccuracy:
    """How many labels are right, estimated from totals that were held out.

    Attributes
    ----------
    new_rows : Estimate
        The accuracy of `predict` on new rows, drawn like the fitted ones, without their totals.
    fitted_rows : Estimate
        The accuracy of `transduction_`, the labels of the fitted rows under their totals.

    Examples
    --------
    >>> print(EstimatedAccuracy(Estimate(0.91, 0.88, 0.93), Estimate(None, None, None, "3 bags")))
    new rows: 0.91 (0.88 to 0.93); fitted rows: not estimated: 3 bags
    """

    new_rows: Estimate
    fitted_rows: Estimate

    def __str__(self) -> str:
        return f"new rows: {self.new_rows}; fitted rows: {self.fitted_rows}"


def withheld(reason: str) -> EstimatedAccuracy:
    """Return estimates that are withheld for a reason."""
    estimate = Estimate(None, None, None, reason)
    return EstimatedAccuracy(estimate, estimate)


def estimate_accuracy(
    calibration: Calibration, probabilities: FloatArray, labels: IntArray, bags: Bags
) -> EstimatedAccuracy:
    """Estimate accuracies from calibrated probabilities.

    Parameters
    ----------
    calibration : Calibration
        The calibration of the probabilities by totals that were held out.
    probabilities : ndarray of shape (n_samples, n_classes)
        Probabilities of the fitted rows, before calibration.
    labels : ndarray of shape (n_samples,)
        The labels of the fitted rows under their totals, as positions.
    bags : Bags
        What is known of the fitted rows.
    """
    weights = calibration.weights.sum(axis=1)[calibration.likely]
    weights = weights / weights.sum()
    open_rows = np.flatnonzero(bags.given < 0)
    of_new_rows = _estimate(calibration.accuracies[calibration.likely], weights, len(probabilities))
    if not open_rows.size:
        reason = "the labels of all rows are given"
        return EstimatedAccuracy(of_new_rows, Estimate(None, None, None, reason))
    under_totals = (reconcile(P, bags) for P in calibration.tempered(probabilities))
    fitted = [P[open_rows, labels[open_rows]].mean() for P in under_totals]
    return EstimatedAccuracy(of_new_rows, _estimate(np.array(fitted), weights, len(open_rows)))


def _estimate(accuracies: FloatArray, weights: FloatArray, n_rows: int) -> Estimate:
    """Return mean and interval of a posterior of accuracies, with the sampling error of rows."""
    order = np.argsort(accuracies)
    below = np.cumsum(weights[order]) - weights[order] / 2.0
    low, high = np.interp([0.05, 0.95], below, accuracies[order])
    value = float(weights @ accuracies)
    sampling = 1.64 * np.sqrt(max(value * (1.0 - value), 0.0) / max(n_rows, 1))
    low, high = max(min(low, value) - sampling, 0.0), min(max(high, value) + sampling, 1.0)
    if high - low > _WIDEST:
        reason = f"the totals leave it open between {low:.2f} and {high:.2f}"
        return Estimate(None, None, None, reason)
    return Estimate(value, float(low), float(high))
