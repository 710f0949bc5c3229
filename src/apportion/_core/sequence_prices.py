"""Dual prices of classes at which the best paths along time have counts near given quotas."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from apportion._core.chain import Chain
from apportion._utils.groups import Groups
from apportion._utils.typing import FloatArray, IntArray

_SCHEDULE = ((1.0, 20), (0.5, 10))
"""Temperatures, and steps of L-BFGS at each. At temperature 1 the classes have the probabilities of
the Markov chain. Lower temperatures bring the dual nearer to that of the best path, and its counts
nearer to the quotas, but after moves and swaps the labels of a made-up week were no better."""

_TOLERANCE = 0.05
"""The gradient at which steps end: counts that are off by 5 % of their square root. That is one row
of 400, much less than what the best path at these prices is off."""

_LEAST_WEIGHT = 1e-200
_LEAST_CHANGE = 1e-90
"""Weights below these are as good as 0, and products of a few of them are still above 0."""


# The best labels with given counts are bounded by a Lagrangian dual: with one price per bag and
# class, added to the scores, the best path is free to have any counts (Everett, 1963). The dual is
# piecewise linear; as in `quota_prices` it is smoothed by a temperature, here by the average over
# all paths instead of the best one (forward and backward pass), and the temperature falls.
@dataclass(frozen=True)
class PathDual:
    """The dual of labels along time with quotas per bag and class.

    Parameters
    ----------
    chain : Chain
        The rows.
    scores : ndarray of shape (n_samples, n_classes)
        What each row is worth in each class, in the order of time.
    costs : ndarray of shape (n_samples,)
        What a change of class costs before each row.
    groups : Groups
        The bags of the rows, in the order of time.
    quotas : ndarray of int, of shape (n_bags, n_classes)
        The counts that are wanted; cells of 0 have no price.
    unit : float
        The value of one unit of integer scores.
    """

    chain: Chain
    scores: FloatArray
    costs: FloatArray
    groups: Groups
    quotas: IntArray
    unit: float

    def raised(self, prices: FloatArray) -> IntArray:
        """Return the scores with prices, as integers."""
        raised = self.scores + self.groups.spread(prices)
        return np.rint(raised / self.unit).astype(np.int64)

    def integer_costs(self) -> IntArray:
        """Return the costs as integers."""
        return np.rint(self.costs / self.unit).astype(np.int64)

    def surplus(self, prices: FloatArray) -> FloatArray:
        """Return how many rows of each class are above the quotas on the best path."""
        path = self.chain.best_path(self.raised(prices), self.integer_costs())
        return self.groups.sum(np.eye(self.quotas.shape[1])[path]) - self.quotas

    def smooth(self, prices: FloatArray, temperature: float) -> tuple[float, FloatArray]:
        """Return the dual at a temperature, and its gradient: counts above the quotas."""
        c = self.quotas.shape[1]
        weights = (self.scores + self.groups.spread(prices)) / temperature
        top = weights.max(axis=1, keepdims=True)
        weights = np.maximum(np.exp(weights - top), _LEAST_WEIGHT)
        change = np.maximum(np.exp(-self.costs / temperature), _LEAST_CHANGE)
        soft = self.chain.posterior(weights, 1.0 - change, c * change, np.full(c, 1.0 / c))
        value = temperature * (soft.log_likelihood + float(top.sum()))
        gradient = self.groups.sum(soft.classes) - self.quotas
        return value - float((prices * self.quotas).sum()), np.where(self.quotas > 0, gradient, 0.0)


def search_path_prices(dual: PathDual) -> FloatArray:
    """Return prices per bag and class at which the best path has counts near the quotas.

    Of the prices of all temperatures, each bag keeps those at which its counts are nearest.
    """
    shape = dual.quotas.shape
    # Counts of independent rows have about the variance of the quota: steps are of equal weight.
    scale = 1.0 / np.sqrt(np.maximum(dual.quotas, 1.0))

    def scaled(x: FloatArray, temperature: float) -> tuple[float, FloatArray]:
        value, gradient = dual.smooth(x.reshape(shape) * scale, temperature)
        return value, (gradient * scale).ravel()

    prices: FloatArray = np.zeros(shape)
    best, least = prices, np.abs(dual.surplus(prices)).sum(axis=1)
    for temperature, steps in _SCHEDULE:
        if not least.any():
            break
        options = {"maxiter": steps, "maxfun": 2 * steps, "gtol": _TOLERANCE}
        start = (prices / scale).ravel()
        solved = minimize(
            scaled, start, args=(temperature,), jac=True, method="L-BFGS-B", options=options
        )
        prices = solved.x.reshape(shape) * scale
        off = np.abs(dual.surplus(prices)).sum(axis=1)
        best = np.where((off < least)[:, None], prices, best)
        least = np.minimum(off, least)
    return best
