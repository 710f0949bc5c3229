"""A Gaussian model of the errors of soft labels, and what a measurement would tell about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from apportion._core.propagation import metric_weights, propagator
from apportion._utils.groups import Groups
from apportion._utils.threads import in_threads, slices
from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.graphs import Graph

REACH = 0.9
"""α of the field: how far rows share their errors.

Chosen on the table `satimage` (`benchmarks/active.py --sets satimage --rows 1000 --seeds 6 --reach
0.5 0.8 0.9 0.97`): from 0.8 to 0.97 answers are worth the same; at 0.5, the first ten are worth
less."""

_ACCURACY = 0.1
"""The error of the solve, relative to the smallest eigenvalue of K.

The steps of the solve are a polynomial of the graph, so that what they compute is itself a
covariance if it is this near to K."""

_COLUMNS = 16
"""Measurements that are solved for at a time, so that they stay in cache."""

_HELD = 1e6
"""The weight of a row that is known, relative to the mean: the field is 0 there."""

_EQUAL = 1e-9
"""Gains that differ by no more than this share are equal, but for rounding."""

_NOTHING = 1e-9
"""A measurement of less than this share of the largest variance tells nothing."""


class ErrorField:
    """The errors of soft labels as a Gaussian field with covariance `C = Π D K D Πᵀ`.

    `K = M^½ (M + τ(D_W - W) + Λ)⁻¹ M^½`, with `τ = α / (1-α)`, is the kernel of the graph: rows
    that are alike share their errors. Λ is large at rows whose label is known. D holds the
    deviations of the rows, and Π takes from each bag what its known total rules out, in proportion
    to the variances of its rows: `(Πe)_i = e_i - γ (v_i / Σ_b v_j) Σ_b e_j`.

    Parameters
    ----------
    graph : Graph
        A fitted graph.
    variances : ndarray of shape (n_samples,)
        The variance v of each row; 0 where the label is known.
    held : ndarray of bool, of shape (n_samples,)
        The rows whose label is known.
    bags : Groups
        The bag of each row.
    known : ndarray of shape (n_bags,)
        γ: 1 if a bag's totals are exact, 0 if nothing is known of them.
    """

    def __init__(
        self,
        graph: Graph,
        variances: FloatArray,
        held: BoolArray,
        bags: Groups,
        known: FloatArray,
    ) -> None:
        weights = metric_weights(graph)
        deviations = np.sqrt(weights * variances)[:, None]
        weights = np.where(held, _HELD * weights.mean(), weights) if held.any() else weights
        self._propagate = propagator(graph, REACH, accuracy=_ACCURACY, weights=weights)
        # (M + Λ + τ(D - W))⁻¹ = P (M + Λ)⁻¹, where M + Λ is the metric of P.
        self._before, self._after = deviations / weights[:, None], deviations
        self._bags = bags
        sums = bags.sum(variances)
        shares = np.divide(known, sums, out=np.zeros_like(sums), where=sums > 0)
        self._shares = (variances * bags.spread(shares))[:, None]

    def __call__(self, V: Any) -> FloatArray:
        """Return C V for a sparse V."""
        product = np.empty(V.shape)

        def solve(columns: slice) -> None:
            product[:, columns] = self._times(V[:, columns].toarray())

        in_threads(solve, slices(V.shape[1], _COLUMNS))
        return product

    def _times(self, V: FloatArray) -> FloatArray:
        V = V - self._bags.spread(self._bags.sum(self._shares * V))
        Z = self._propagate(self._before * V)
        Z *= self._after
        return Z - self._shares * self._bags.spread(self._bags.sum(Z))


@dataclass(frozen=True)
class Measurements:
    """The measurements that tell most, best first.

    Attributes
    ----------
    chosen : ndarray of int
        Their positions.
    gains : ndarray of float
        By how much each reduces the sum of all variances, after those before it.
    """

    chosen: IntArray
    gains: FloatArray


def most_informative(field: ErrorField, V: Any, n_chosen: int, ranks: IntArray) -> Measurements:
    """Choose measurements that reduce the sum of all variances most, one after the other.

    Measuring `vᵀe` exactly reduces `tr C` by `‖Cv‖² / vᵀCv` and leaves
    `C - Cv vᵀC / vᵀCv`. After the first product C V, only the small matrices
    `H = VᵀCV` and `Q = (CV)ᵀ(CV)` are needed.

    Parameters
    ----------
    field : ErrorField
        The field.
    V : sparse array of shape (n_samples, n_measurements)
        The measurements, one per column.
    n_chosen : int
        The largest number to choose.
    ranks : ndarray of int, of shape (n_measurements,)
        Which of equally good measurements goes first: the one of lowest rank.
    """
    response = field(V)
    H: FloatArray = V.T @ response
    Q: FloatArray = response.T @ response
    least = _NOTHING * H.diagonal().max(initial=0.0)
    chosen: list[int] = []
    gains: list[float] = []
    while len(chosen) < n_chosen:
        gain = _gains(H, Q, least)
        gain[chosen] = 0.0
        best = gain.max(initial=0.0)
        if best <= 0:
            break
        equal = np.flatnonzero(gain >= (1.0 - _EQUAL) * best)
        k = int(equal[np.argmin(ranks[equal])])
        chosen.append(k)
        gains.append(float(gain[k]))
        H, Q = _after(H, Q, k)
    return Measurements(np.array(chosen, dtype=np.intp), np.array(gains))


def _gains(H: FloatArray, Q: FloatArray, least: float) -> FloatArray:
    """Return `‖Cv‖² / vᵀCv` of each measurement; 0 where it tells nothing."""
    tells = H.diagonal() > least
    return np.where(tells, Q.diagonal() / np.where(tells, H.diagonal(), 1.0), 0.0)


def _after(H: FloatArray, Q: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
    """Return H and Q after measurement k."""
    taken, both = H[k] / H[k, k], Q[k]
    cross = np.outer(both, taken)
    change = cross + cross.T - both[k] * np.outer(taken, taken)
    return np.asarray(H - np.outer(H[k], taken)), np.asarray(Q - change)


def single_rows(rows: IntArray, n_samples: int) -> Any:
    """Return measurements of single rows."""
    cells = np.ones(len(rows)), (rows, np.arange(len(rows)))
    return sparse.csc_array(cells, shape=(n_samples, len(rows)))
