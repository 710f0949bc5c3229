"""alter-∝SVM: minimize in turn over an SVM and over the unknown labels of the rows."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import sklearn
from sklearn.svm import SVC
from sklearn.utils.parallel import Parallel, delayed

from apportion._utils.groups import Groups
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.estimators._kernels import LIBSVM_ITERATIONS

_FIRST_SHARE = 1e-5
_GROWTH = 1.5
"""C is annealed from 10⁻⁵ C to C in steps of this factor: Yu et al. (2013), Algorithm 1."""


class Machine(NamedTuple):
    """An SVM fitted to labels: the dual weights β, the intercept b, f of all rows, and ½‖w‖²."""

    weights: FloatArray
    intercept: float
    f: FloatArray
    energy: float


@dataclass(frozen=True)
class PropSVMProblem:
    """argmin_{w,b,y} ½‖w‖² + C Σ_i max(0, 1 - y_i f_i) + C_p Σ_k distance(n_k⁺, [l_k, u_k]).

    f = w·φ(x) + b, y is +1 or -1, and n_k⁺ is the number of rows of bag k with y = +1, so that the
    last term is the proportion loss of a bag times its size.

    Attributes
    ----------
    linear : bool
        Whether X holds features, with φ(x) = x, and not similarities.
    X : ndarray of shape (n_samples, n_features) or (n_samples, n_samples)
        The rows, or the similarities φ(x)·φ(z) of all pairs.
    groups : Groups
        The bags of the rows without a given label.
    lower, upper : ndarray of shape (n_bags,)
        Bounds on the number of positive rows.
    fixed : ndarray of shape (n_samples,)
        Given labels; 0 where unknown.
    C, C_p : float
        Weights of the hinge loss and of the proportion loss.
    """

    linear: bool
    X: FloatArray
    groups: Groups
    lower: FloatArray
    upper: FloatArray
    fixed: FloatArray
    C: float
    C_p: float

    def fit(self, y: FloatArray, C: float) -> Machine:
        """Return the SVM of the labels y, fitted by libsvm; w = 0 and b = y if all y are equal."""
        weights = np.zeros(len(y))
        if (y == y[0]).all():
            return Machine(weights, float(y[0]), y.copy(), 0.0)
        kernel = "linear" if self.linear else "precomputed"
        with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
            svm = SVC(kernel=kernel, C=C, cache_size=500, max_iter=LIBSVM_ITERATIONS).fit(self.X, y)
        b, duals = float(svm.intercept_[0]), svm.dual_coef_[0]
        weights[svm.support_] = duals
        w = self.X[svm.support_].T @ duals
        f = self.X @ w if self.linear else w
        return Machine(weights, b, f + b, 0.5 * float(weights @ f))

    def label(self, f: FloatArray, C: float) -> FloatArray:
        """Return the labels of least loss for these f, exactly, for all bags at once.

        In each bag, the rows of largest gain are positive. Their number r minimizes
        C_p distance(r, [l, u]) - (sum of the r largest gains); among equal minima it is the least.
        """
        rows, codes, rank = self._sorted_by_bag(-f)
        sums = np.cumsum(C * (_hinge(-f[rows]) - _hinge(f[rows])))
        before = np.append(0.0, sums)[np.arange(len(rows)) - rank]
        r, bags = rank + 1.0, Groups(codes, len(self.lower))
        cost = self.C_p * _distance(r, self.lower[codes], self.upper[codes]) - (sums - before)
        least = bags.least(cost)
        counts = bags.least(np.where(cost <= least[codes], r, np.inf))
        none_is_best = self.C_p * np.maximum(self.lower, 0.0) <= least
        return self._labels(rows, rank < np.where(none_is_best, 0.0, counts)[codes])

    def random_start(self, counts: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return random labels with `counts` positive rows in each bag."""
        rows, codes, rank = self._sorted_by_bag(rng.random(len(self.fixed)))
        return self._labels(rows, rank < counts[codes])

    def _sorted_by_bag(self, keys: FloatArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return the open rows sorted by bag and key, their bags, and their ranks within these."""
        rows = np.flatnonzero(self.groups.codes >= 0)
        rows = rows[np.lexsort((keys[rows], self.groups.codes[rows]))]
        codes, sizes = self.groups.codes[rows], self.groups.sizes.astype(np.intp)
        return rows, codes, np.arange(len(rows)) - (np.cumsum(sizes) - sizes)[codes]

    def _labels(self, rows: IntArray, positive: BoolArray) -> FloatArray:
        """Return the labels of all rows, given which of the open rows are positive."""
        y = np.where(self.fixed != 0, self.fixed, -1.0)
        y[rows] = np.where(positive, 1.0, -1.0)
        return y

    def objective(self, machine: Machine, y: FloatArray, C: float) -> float:
        """Return the value that is minimized."""
        positive = self.groups.sum((y > 0).astype(np.float64))
        missed = _distance(positive, self.lower, self.upper)
        hinge = _hinge(y * machine.f)
        return machine.energy + C * float(hinge.sum()) + self.C_p * float(missed.sum())

    def alternate(
        self, y: FloatArray, C: float, tol: float, max_iter: int
    ) -> tuple[FloatArray, Machine, int, bool]:
        """Return labels, their SVM, the number of SVMs fitted, and whether this converged.

        It has converged when no label changes, or the objective falls by no more than `tol`.
        """
        last_objective = np.inf
        machine = self.fit(y, C)
        for n_fits in range(1, max_iter + 1):
            better = self.label(machine.f, C)
            if (better == y).all():
                return y, machine, n_fits, True
            objective = self.objective(machine, better, C)
            y, machine = better, self.fit(better, C)
            if last_objective - objective <= tol:
                return y, machine, n_fits + 1, True
            last_objective = objective
        return y, machine, max_iter + 1, False


class PropSVMSolution(NamedTuple):
    """The SVM of lowest objective, and the final objectives of all starts."""

    machine: Machine
    objective: float
    objectives: FloatArray
    n_fits: int
    converged: bool


def alternating_svm(
    problem: PropSVMProblem,
    starts: Sequence[FloatArray],
    *,
    tol: float,
    max_iter: int,
    n_jobs: int | None = None,
) -> PropSVMSolution:
    """Return the best result of several starts, with C annealed from 10⁻⁵ C to C.

    All starts are annealed side by side. Starts that reach the same labels continue as one.
    """
    labelings, labeling_of = list(starts), np.arange(len(starts))
    C, results, n_fits = _FIRST_SHARE * problem.C, [], 0
    while C < problem.C:
        # The smallest normal number stands in for a share of C that is rounded to 0.
        C = min(max(_GROWTH * C, sys.float_info.min), problem.C)
        labelings, labeling_of = _distinct(labelings, labeling_of)
        results = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(problem.alternate)(y, C, tol, max_iter) for y in labelings
        )
        labelings = [y for y, _, _, _ in results]
        n_fits += sum(fits for _, _, fits, _ in results)
    objectives = np.array([problem.objective(m, y, problem.C) for y, m, _, _ in results])
    best = int(np.argmin(objectives))
    _, machine, _, converged = results[best]
    return PropSVMSolution(machine, objectives[best], objectives[labeling_of], n_fits, converged)


def _distinct(
    labelings: list[FloatArray], labeling_of: IntArray
) -> tuple[list[FloatArray], IntArray]:
    """Return the labelings without repetitions, in their order, and the one of each start."""
    numbers: dict[bytes, int] = {}
    renumbered: AnyArray = np.array(
        [numbers.setdefault(y.tobytes(), len(numbers)) for y in labelings]
    )
    firsts = np.unique(renumbered, return_index=True)[1]
    return [labelings[i] for i in firsts], renumbered[labeling_of]


def _hinge(margin: FloatArray) -> FloatArray:
    return np.maximum(0.0, 1.0 - margin)


def _distance(count: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the distance of counts from their intervals."""
    return np.maximum(np.maximum(lower - count, count - upper), 0.0)
