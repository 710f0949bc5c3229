"""∝SVM (Yu et al. 2013)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from apportion._core.decode import round_to_counts
from apportion._utils.groups import Groups
from apportion._utils.typing import FloatArray, IntArray
from apportion.estimators._alternating_svm import (
    PropSVMProblem,
    PropSVMSolution,
    alternating_svm,
)
from apportion.estimators._inductive import MarginClassifier, calibrated_slope, tasks_of
from apportion.estimators._kernels import Expansion, Kernel, centerd
from apportion.estimators._known_bags import known_bags
from apportion.exceptions import users_level
from apportion.supervision.bags import Bags

_HARDEST = 1e4
"""The most that C counts, in units in which the variance of the rows is 1: the margin is hard by
then, and libsvm would come to no end."""


class PropSVM(MarginClassifier):
    """∝SVM: an SVM and the rows' unknown labels that fit it and the bags' proportions best.

    `argmin_{w,b,y} ½‖w‖² + C Σ_i max(0, 1 - y_i f(x_i)) + C_p Σ_k n_k |p̃_k(y) - p_k|`, where
    p̃_k(y) is the share of rows of bag k with y = +1. The proportion loss is weighted by the
    bag's size n_k; where totals are intervals it is the distance from the interval.

    `method="alternating"` (alter-∝SVM) finds w for given y by libsvm and y for given w exactly, in
    turn, while C is raised in steps from 10⁻⁵ C; of several random starts the one of lowest
    objective is kept. Several classes are learned one against the rest. Rows with given labels
    keep them; rows in no bag and bags of unknown totals are left out.

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="rbf"
        The kernel k(x, z) of rows. All but the linear one need n × n numbers of memory.
    C : float, default=1.0
        The weight of the hinge loss. With a linear kernel it depends on the unit of X: standardize
        the features. More than 10⁴ divided by the variance of the rows in the kernel's feature
        space counts as that, and C_p is lowered alike.
    C_p : float, default=10.0
        The weight of the proportion loss: large, as totals are mostly known better than guessed.
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
        Alternation at one value of C ends when the objective falls by no more than this.
    max_iter : int, default=100
        The most alternations at one value of C.
    decode : {"quota", "threshold"}, default="quota"
        How the fitted rows are labeled: every bag exactly its counts, or every row its most likely
        class in its bag. `predict` without totals is not concerned.
    n_jobs : int, optional
        How many starts run side by side.
    random_state : int, RandomState or None, default=None
        Draws the starts.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        Soft labels of the fitted rows, reconciled with their bags' totals.
    transduction_ : ndarray of shape (n_samples,)
        A label for every fitted row.
    bag_report_ : BagReport
        Given against assigned per bag and class, for both decodings.
    diagnosis_ : Diagnosis
        What the totals can tell apart.
    objective_ : ndarray of shape (n_functions,)
        The lowest objective of each function, with the weights in use: one for two classes, else
        one a class; NaN where no bag tells anything of the class.
    objectives_ : ndarray of shape (n_functions, n_starts)
        The objectives that all starts ended in.
    n_iter_ : int
        The number of SVMs fitted, all starts together; of several functions the largest.
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

    def _check_parameters(self) -> None:
        self._check_kernel()
        self._require_number("C", 0.0, open_=True)
        self._require_number("C_p", 0.0)
        self._require_choice("method", ("alternating",))
        self._require_number("n_starts", 1, whole=True)
        self._require_number("tol", 0.0)
        self._require_number("max_iter", 1, whole=True)

    def _expansion(self, X: FloatArray, kernel: Kernel, bags: Bags, seed: int) -> Expansion:
        known = known_bags(bags)
        inner = X if kernel.linear else kernel.gram(X, "kernel='linear', LPLLP, MeanMap or EMLLP")
        inner, level, scale = _in_units_of_variance(inner, kernel.linear)
        unit = min(scale, _HARDEST / self.C)
        if unit < scale:
            warnings.warn(
                f"C={self.C:g} is too large for rows of variance {scale:.1e} in the kernel's "
                f"feature space: libsvm would come to no end. C={self.C * unit / scale:.1e} and "
                f"C_p={self.C_p * unit / scale:.1e} are used, with which the margin is as hard. "
                "Standardize the features, or lower both.",
                ConvergenceWarning,
                stacklevel=users_level(),
            )
        tasks = tasks_of(bags.n_classes)
        weights, intercept = np.zeros((len(X), len(tasks))), np.zeros(len(tasks))
        self.objective_ = np.full(len(tasks), np.nan)
        self.objectives_ = np.full((len(tasks), self.n_starts), np.nan)
        self.n_iter_, settled = 1, True
        for j, h in enumerate(tasks):
            informed = np.append(known.known[:, h] > 0, False)
            used = np.flatnonzero(informed[known.groups.codes])
            if not used.size:
                continue
            some = inner
            if len(used) < len(X):
                some = inner[used] if kernel.linear else inner[np.ix_(used, used)]
            solution, sign = self._one_against_rest(some, kernel.linear, unit, bags, used, h, seed)
            weights[used, j] = sign * solution.machine.weights / scale
            intercept[j] = sign * solution.machine.intercept - level @ weights[:, j]
            self.objective_[j] = solution.objective / scale
            self.objectives_[j] = solution.objectives / scale
            self.n_iter_ = max(self.n_iter_, solution.n_fits)
            settled &= solution.converged
        if not settled:
            warnings.warn(
                f"alter-∝SVM did not settle within {self.max_iter} alternations. Raise max_iter.",
                ConvergenceWarning,
                stacklevel=users_level(),
            )
        f = Expansion(kernel, X, weights, intercept)
        self.slope_ = calibrated_slope(f(X), bags) if tasks else 1.0
        return f

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
        """Return the solution for class h, or for the rest with sign -1.

        Which of the two is called positive must not depend on their names, or the same random
        numbers would draw other starts.
        """
        lower, upper, shares = bags.open_lower[:, h], bags.open_upper[:, h], bags.shares[:, h]
        sizes = bags.open_groups.sizes
        given = bags.given[used]
        fixed = np.where(given < 0, 0.0, np.where(given == h, 1.0, -1.0))
        places = np.random.default_rng(seed).random(len(sizes))
        lean = (places * sizes) @ (shares - 0.5) + (given == h).sum() - 0.5 * (given >= 0).sum()
        sign = 1.0 if lean >= 0 else -1.0
        if sign < 0:
            lower, upper, shares, fixed = sizes - upper, sizes - lower, 1.0 - shares, -fixed
        problem = PropSVMProblem(
            linear,
            X,
            Groups(bags.open_groups.codes[used], len(sizes)),
            lower,
            upper,
            fixed,
            unit * self.C,
            unit * self.C_p,
        )
        masses = np.column_stack([sizes * (1.0 - shares), sizes * shares])
        counts = round_to_counts(
            masses,
            sizes,
            np.column_stack([sizes - upper, lower]),
            np.column_stack([sizes - lower, upper]),
        )[:, 1]
        rng = np.random.default_rng(seed)
        starts = [problem.random_start(counts, rng) for _ in range(self.n_starts)]
        solution = alternating_svm(
            problem, starts, tol=unit * self.tol, max_iter=self.max_iter, n_jobs=self.n_jobs
        )
        return solution, sign


def _in_units_of_variance(inner: FloatArray, linear: bool) -> tuple[FloatArray, FloatArray, float]:
    """Return rows, or their similarities, centerd and divided by the variance in feature space.

    With them the rows' similarities to the center and the variance. With both weights multiplied
    by the variance the problem is the same, and libsvm does as well with every unit and offset.
    """
    moved, level = centerd(inner, linear, np.full(len(inner), 1.0 / len(inner)))
    own = (moved**2).sum(axis=1) if linear else np.diagonal(moved)
    scale = float(own.mean())
    scale = scale if scale > 0 else 1.0
    return moved / (np.sqrt(scale) if linear else scale), level, scale
