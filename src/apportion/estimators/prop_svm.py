"""∝SVM (Yu et al. 2013)."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from apportion._core.decode import round_to_counts
from apportion._utils.groups import Groups
from apportion._utils.parameters import integer, one_of, real
from apportion._utils.typing import FloatArray, IntArray
from apportion.estimators._alternating_svm import PropSVMProblem, PropSVMSolution, alternating_svm
from apportion.estimators._inductive import (
    MarginClassifier,
    calibrated_slope,
    known_bags,
    one_vs_rest_classes,
)
from apportion.estimators._kernels import Expansion, Kernel
from apportion.estimators._prepared import Prepared
from apportion.exceptions import users_level
from apportion.supervision.bags import Bags

_LARGEST_C = 1e4
"""The largest C in use, in units in which the variance of the rows is 1. The margin is hard by
then, and with a larger C libsvm would not end."""


class PropSVM(MarginClassifier):
    """∝SVM: an SVM together with the unknown labels that fit it and the bags' proportions best.

    `argmin_{w,b,y} ½‖w‖² + C Σ_i max(0, 1 - y_i f(x_i)) + C_p Σ_k n_k |p̃_k(y) - p_k|`, where
    p̃_k(y) is the share of rows of bag k with y = +1. The proportion loss is weighted by the
    bag's size n_k. If a total is an interval, it is the distance from the interval.

    `method="alternating"` (alter-∝SVM) minimizes in turn over w, with libsvm, and over y, exactly,
    while C is raised in steps from 10⁻⁵ C. Of several random starts, the one with the lowest
    objective is kept. Several classes are learned one against the rest. Rows with given labels
    keep them. Rows in no bag and bags without known totals are left out.

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="rbf"
        The kernel k(x, z) of two rows. A callable takes two arrays of rows and returns the
        similarities of all pairs. All kernels but the linear one need memory for n × n numbers.
    C : float, default=1.0
        The weight of the hinge loss. With a linear kernel it depends on the unit of X: standardize
        the features. C is at most 10⁴ divided by the variance of the rows in the kernel's feature
        space; a larger C is lowered to that, and C_p by the same factor.
    C_p : float, default=10.0
        The weight of the proportion loss. It is large because totals are mostly exact.
    method : {"alternating"}, default="alternating"
        How the objective is minimized.
    gamma : "scale" or float, default="scale"
        γ of `"rbf"` and `"poly"`; `"scale"` is 1 / (sum of the features' variances).
    degree : float, default=3
        The degree of `"poly"`.
    coef0 : float, default=0.0
        The constant of `"poly"`.
    n_starts : int, default=20
        The number of random starts.
    tol : float, default=1e-4
        The alternation at one value of C stops when the objective falls by no more than this.
    max_iter : int, default=100
        The largest number of alternations at one value of C.
    decode : {"quota", "threshold"}, default="quota"
        Label the fitted rows with exactly the counts of every bag, or every row with its most
        likely class under the totals of its bag. `predict` without totals does not use it.
    n_jobs : int, optional
        The number of starts that run side by side.
    random_state : int, RandomState or None, default=None
        The seed of the random starts.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        Soft labels of the fitted rows, reconciled with their bags' totals.
    transduction_ : ndarray of shape (n_samples,)
        A label for every fitted row.
    bag_report_ : BagReport
        Given and assigned totals per bag and class, for both decodings.
    diagnosis_ : Diagnosis
        Which classes the totals can tell apart.
    objective_ : ndarray of shape (n_functions,)
        The lowest objective of each function, with the weights in use. There is one function for
        two classes, else one per class; NaN if no total of the class is known.
    objectives_ : ndarray of shape (n_functions, n_starts)
        The final objectives of all starts.
    n_iter_ : int
        The number of SVMs fitted in all starts; the largest of several functions.
    slope_ : float
        `predict_proba` is σ(slope · f), with the slope whose bag shares fit the totals best.
    expansion_ : Expansion
        The function f; its `coefficients` are `coef_` with a linear kernel.

    References
    ----------
    F. X. Yu, D. Liu, S. Kumar, T. Jebara, S.-F. Chang, "∝SVM for Learning with Label Proportions",
    ICML 2013.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    >>> model = PropSVM("linear", C=1.0, random_state=0)
    >>> model = model.fit(X, bags=[0, 0, 0, 1, 1, 1], proportions=np.array([1 / 3, 2 / 3]))
    >>> model.predict([[-1.0], [6.0]]).tolist()
    [0, 1]
    """

    _allowed: ClassVar = {
        **MarginClassifier._allowed,
        "C": real(low=0, ends="()"),
        "C_p": real(low=0),
        "method": one_of("alternating"),
        "n_starts": integer(1),
        "tol": real(low=0),
        "max_iter": integer(1),
    }

    def __init__(
        self,
        kernel: Any = "rbf",
        C: float = 1.0,
        C_p: float = 10.0,
        *,
        method: str = "alternating",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        n_starts: int = 20,
        tol: float = 1e-4,
        max_iter: int = 100,
        decode: str = "quota",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.C_p = C_p
        self.method = method
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_starts = n_starts
        self.tol = tol
        self.max_iter = max_iter
        self.decode = decode
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit_expansion(
        self, prepared: Prepared, X: FloatArray, kernel: Kernel, bags: Bags, seed: int
    ) -> tuple[Expansion, None]:
        known = known_bags(bags)
        inner = X if kernel.linear else kernel.gram(X, "kernel='linear', LPLLP, MeanMap or EMLLP")
        inner, level, scale = _in_units_of_variance(inner, kernel.linear)
        unit = min(scale, _LARGEST_C / self.C)
        if unit < scale:
            warnings.warn(
                f"C={self.C:g} is too large for rows of variance {scale:.1e} in the kernel's "
                f"feature space: libsvm would not end. C={self.C * unit / scale:.1e} and "
                f"C_p={self.C_p * unit / scale:.1e} are used, which make the margin as hard. "
                "Standardize the features, or lower both.",
                ConvergenceWarning,
                stacklevel=users_level(),
            )
        classes = one_vs_rest_classes(bags.n_classes)
        weights, intercept = np.zeros((len(X), len(classes))), np.zeros(len(classes))
        self.objective_ = np.full(len(classes), np.nan)
        self.objectives_ = np.full((len(classes), self.n_starts), np.nan)
        self.n_iter_, converged = 1, True
        for j, h in enumerate(classes):
            used = np.flatnonzero(np.append(known.certainty[:, h] > 0, False)[known.groups.codes])
            if not used.size:
                continue
            rows = inner
            if len(used) < len(X):
                rows = inner[used] if kernel.linear else inner[np.ix_(used, used)]
            solution, sign = self._one_against_rest(rows, kernel.linear, unit, bags, used, h, seed)
            weights[used, j] = sign * solution.machine.weights / scale
            intercept[j] = sign * solution.machine.intercept - level @ weights[:, j]
            self.objective_[j] = solution.objective / scale
            self.objectives_[j] = solution.objectives / scale
            self.n_iter_ = max(self.n_iter_, solution.n_fits)
            converged &= solution.converged
        if not converged:
            warnings.warn(
                f"alter-∝SVM did not settle within {self.max_iter} alternations. Raise max_iter.",
                ConvergenceWarning,
                stacklevel=users_level(),
            )
        f = Expansion(kernel, X, weights, intercept)
        self.slope_ = calibrated_slope(f(X), bags) if classes else 1.0
        return f, None

    def _one_against_rest(
        self,
        X: FloatArray,
        linear: bool,
        unit: float,
        bags: Bags,
        used: IntArray,
        h: int,
        seed: int,
    ) -> tuple[PropSVMSolution, float]:
        """Return the solution for class h with sign 1, or for the rest with sign -1.

        Which of the two is positive must not depend on the names of the classes; otherwise, the
        same seed would draw other starts. It follows from random weights of the bags' shares.
        """
        lower, upper, shares = bags.open_lower[:, h], bags.open_upper[:, h], bags.shares[:, h]
        sizes = bags.open_groups.sizes
        given = bags.given[used]
        fixed = np.where(given < 0, 0.0, np.where(given == h, 1.0, -1.0))
        bag_weights = np.random.default_rng(seed).random(len(sizes)) * sizes
        excess = bag_weights @ (shares - 0.5) + (given == h).sum() - 0.5 * (given >= 0).sum()
        sign = 1.0 if excess >= 0 else -1.0
        if sign < 0:
            lower, upper, shares, fixed = sizes - upper, sizes - lower, 1.0 - shares, -fixed
        groups = Groups(bags.open_groups.codes[used], len(sizes))
        C, C_p = unit * self.C, unit * self.C_p
        problem = PropSVMProblem(linear, X, groups, lower, upper, fixed, C, C_p)
        masses = np.column_stack([sizes * (1.0 - shares), sizes * shares])
        least = np.column_stack([sizes - upper, lower])
        most = np.column_stack([sizes - lower, upper])
        counts = round_to_counts(masses, sizes, least, most)[:, 1]
        rng = np.random.default_rng(seed)
        starts = [problem.random_start(counts, rng) for _ in range(self.n_starts)]
        solution = alternating_svm(
            problem, starts, tol=unit * self.tol, max_iter=self.max_iter, n_jobs=self.n_jobs
        )
        return solution, sign


def _in_units_of_variance(inner: FloatArray, linear: bool) -> tuple[FloatArray, FloatArray, float]:
    """Return centered rows, or their similarities, in units of the variance in feature space.

    Also return the rows' similarities s to the center, and the variance. With C and C_p multiplied
    by the variance, the problem is the same, and libsvm, whose tolerance is absolute, sees neither
    the unit nor the offset. A machine with dual weights β, Σ β = 0, is the same function of the
    centered rows as of the rows, but for an intercept that is smaller by s·β.
    """
    each = np.full(len(inner), 1.0 / len(inner))
    level: FloatArray = each @ inner
    if linear:
        inner = inner - level
        level, variance = inner @ level, float((inner**2).sum(axis=1).mean())
    else:
        inner = inner - level - level[:, None] + level @ each
        variance = float(np.diagonal(inner).mean())
    variance = variance if variance > 0 else 1.0
    return inner / (np.sqrt(variance) if linear else variance), level, variance
