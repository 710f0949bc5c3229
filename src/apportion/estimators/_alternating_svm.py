"""alter-∝SVM: an SVM and the rows' unknown labels, found in turn."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sklearn
from sklearn.svm import SVC
from sklearn.utils.parallel import Parallel, delayed

from apportion._utils.groups import Groups
from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.estimators._kernels import LIBSVM_ITERATIONS

_FIRST_SHARE = 1e-5
_GROWTH = 1.5


@dataclass(frozen=True)
class Machine:
    """An SVM fitted to labels: the dual weights β, the intercept b, f on all rows and ½‖w‖²."""

    weights: FloatArray
    intercept: float
    f: FloatArray
    energy: float


@dataclass(frozen=True)
class PropSVMProblem:
    """argmin_{w,b,y} ½‖w‖² + C Σ_i max(0, 1 - y_i f_i) + C_p Σ_k distance(n_k⁺, [l_k, u_k]).

    f = w·φ(x) + b, y is +1 or -1, and n_k⁺ counts the rows of bag k with y = +1, so that the last
    term is the proportion loss of a bag times its size. Rows of `fixed` ≠ 0 keep that label.

    Attributes
    ----------
    linear : bool
        Whether X holds features, with φ(x) = x, and not similarities.
    X : ndarray of shape (n_samples, n_features) or (n_samples, n_samples)
        Rows, or the similarities φ(x)·φ(z) of all pairs.
    groups : Groups
        The open rows by bag.
    lower, upper : ndarray of shape (n_bags,)
        Bounds of the number of positive rows.
    fixed : ndarray of shape (n_samples,)
        Given labels, 0 = none.
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
        """Return the SVM of the labels y, by libsvm; of labels all alike, w = 0 and b = y."""
        n = len(y)
        if (y == y[0]).all():
            return Machine(np.zeros(n), float(y[0]), y.copy(), 0.0)
        how = "linear" if self.linear else "precomputed"
        with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
            svm = SVC(kernel=how, C=C, cache_size=500, max_iter=LIBSVM_ITERATIONS).fit(self.X, y)
        weights = np.zeros(n)
        weights[svm.support_] = svm.dual_coef_[0]
        b = float(svm.intercept_[0])
        rows = self.X[svm.support_]
        alpha = weights[svm.support_]
        f = self.X @ (rows.T @ alpha) if self.linear else rows.T @ alpha
        return Machine(weights, b, f + b, 0.5 * float(weights @ f))

    def label(self, f: FloatArray, C: float) -> FloatArray:
        """Return the labels of least loss for these f, exactly, all bags at once."""
        rows, codes = self._by_bag(-f)
        gain = C * (_hinge(-f[rows]) - _hinge(f[rows]))
        counts = _best_counts(gain, codes, self.lower, self.upper, self.C_p)
        return self._first_positive(rows, codes, counts)

    def random_start(self, counts: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return random labels with `counts` positive rows in each bag."""
        return self._first_positive(*self._by_bag(rng.random(len(self.fixed))), counts)

    def _by_bag(self, keys: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the open rows bag by bag, within a bag by rising key, and their bags."""
        rows = np.flatnonzero(self.groups.codes >= 0)
        rows = rows[np.lexsort((keys[rows], self.groups.codes[rows]))]
        return rows, self.groups.codes[rows]

    def _first_positive(self, rows: IntArray, codes: IntArray, counts: IntArray) -> FloatArray:
        """Return the labels by which the first `counts` rows of each bag are positive."""
        sizes = self.groups.sizes.astype(np.intp)
        place = np.arange(len(rows)) - (np.cumsum(sizes) - sizes)[codes]
        y = np.where(self.fixed != 0, self.fixed, -1.0)
        y[rows] = np.where(place < counts[codes], 1.0, -1.0)
        return y

    def objective(self, machine: Machine, y: FloatArray, C: float) -> float:
        """Return what is minimized."""
        positive = self.groups.sum((y > 0).astype(np.float64))
        off = np.maximum(np.maximum(self.lower - positive, positive - self.upper), 0.0)
        return machine.energy + C * float(_hinge(y * machine.f).sum()) + self.C_p * float(off.sum())

    def alternate(
        self, y: FloatArray, C: float, tol: float, max_iter: int
    ) -> tuple[FloatArray, Machine, int, bool]:
        """Return labels, their SVM, the number of SVMs fitted, and whether it came to an end.

        The end is when labels stay, or the objective falls by no more than `tol`.
        """
        last = np.inf
        machine = self.fit(y, C)
        for done in range(1, max_iter + 1):
            better = self.label(machine.f, C)
            if (better == y).all():
                return y, machine, done, True
            objective = self.objective(machine, better, C)
            y, machine = better, self.fit(better, C)
            if last - objective <= tol:
                return y, machine, done + 1, True
            last = objective
        return y, machine, max_iter + 1, False


@dataclass(frozen=True)
class PropSVMSolution:
    """The SVM of lowest objective, and the objectives that the starts ended in."""

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
    """Return the best end of alternation from several starts, with C annealed from 10⁻⁵ C to C.

    All starts go through the annealing side by side; where two have the same labels they go on
    as one.
    """
    states = list(starts)
    which = np.arange(len(states))
    C, ended, n_fits = _FIRST_SHARE * problem.C, [], 0
    while C < problem.C:
        # The least normal number stands in for a share of C that is rounded to 0.
        C = min(max(_GROWTH * C, sys.float_info.min), problem.C)
        states, which = _distinct(states, which)
        ended = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(problem.alternate)(y, C, tol, max_iter) for y in states
        )
        states = [y for y, _, _, _ in ended]
        n_fits += sum(fits for _, _, fits, _ in ended)
    objectives = np.array([problem.objective(m, y, problem.C) for y, m, _, _ in ended])
    best = int(np.argmin(objectives))
    _, machine, _, converged = ended[best]
    return PropSVMSolution(machine, objectives[best], objectives[which], n_fits, converged)


def _best_counts(
    gain: FloatArray, codes: IntArray, lower: FloatArray, upper: FloatArray, C_p: float
) -> IntArray:
    """Return, per bag, the r that minimizes C_p distance(r, [l, u]) - (sum of its r largest gains).

    Gains come bag by bag, falling within a bag.
    """
    K = len(lower)
    sizes = np.bincount(codes, minlength=K)
    first = np.cumsum(sizes) - sizes
    total = np.cumsum(gain)
    before = np.concatenate([[0.0], total])[first]
    r = np.arange(len(gain)) - first[codes] + 1
    off = np.maximum(np.maximum(lower[codes] - r, r - upper[codes]), 0.0)
    cost = C_p * off - (total - before[codes])
    best, counts = C_p * np.maximum(lower, 0.0), np.zeros(K, dtype=np.intp)
    full = np.flatnonzero(sizes > 0)
    if not full.size:
        return counts
    least = np.minimum.reduceat(cost, first[full])
    reached = np.where(cost <= np.repeat(least, sizes[full]), r, np.iinfo(np.intp).max)
    counts[full] = np.where(
        least < best[full], np.minimum.reduceat(reached, first[full]), counts[full]
    )
    return counts


def _distinct(states: list[FloatArray], which: IntArray) -> tuple[list[FloatArray], IntArray]:
    """Return the states without repetitions, in their order, and where each start has gone."""
    found: dict[bytes, int] = {}
    to_new: AnyArray = np.array([found.setdefault(y.tobytes(), len(found)) for y in states])
    firsts = np.unique(to_new, return_index=True)[1]
    return [states[i] for i in firsts], to_new[which]


def _hinge(margin: FloatArray) -> FloatArray:
    return np.maximum(0.0, 1.0 - margin)
