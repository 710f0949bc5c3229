"""MeanMap (Quadrianto et al. 2009)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from apportion._utils.parameters import real
from apportion._utils.typing import FloatArray
from apportion.estimators._inductive import KnownBags
from apportion.estimators._kernels import KernelFeatures
from apportion.estimators._prepared import Prepared
from apportion.estimators._softmax import SoftmaxClassifier, SoftmaxFit, minimized
from apportion.supervision.bags import Bags

_AUTO_PENALTY = 0.3
"""The penalty of ‖θ‖² by default, in units in which the variance of the rows is 1, if the class
means are known as well as by one labeled row. Of .03 to .5, the best on each half of 15 public
tables in random bags of 16, 64 and 256 rows (.2 to .5 differ by less than .002); of .1 to 1 also
with an RBF kernel. Both halves were looked at together. That the penalty falls as 1 / I and not as
1 / √I was suggested by Adult in 10 and 30 bags, one split of `benchmarks/published.py`, so that
its figures are no independent check."""


class MeanMap(SoftmaxClassifier):
    """MeanMap: logistic regression in which estimated class means stand for the labels.

    First, the class means are estimated from bag means m_k and proportions π_k,
    `argmin_μ Σ_k n_k ‖m_k - Σ_h π_kh μ_h‖² + ridge Σ_h ‖μ_h - m̄‖²`, where m̄ is the mean of all rows
    in bags; the ridge decides what few or collinear bags leave open. Then the rule is multinomial
    logistic regression,
    `argmin_θ ‖θ‖² / 2C + Σ_i log Σ_h exp(θ_h·x_i + b_h) - n Σ_h p_h (θ_h·μ_h + b_h)`, with class
    shares p. The method assumes that a class has the same distribution in every bag. Standardize
    the features.

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="linear"
        The kernel k(x, z) of two rows. A callable takes two arrays of rows and returns the
        similarities of all pairs.
    C : "auto" or float, default="auto"
        The inverse weight of ‖θ‖². `"auto"` grows with the number of labeled rows that the bags are
        worth, because estimated class means are noisy, and a C chosen for known labels would fit
        the noise.
    ridge : float, default=1.0
        How strongly class means are drawn towards the overall mean, in rows of a pure bag.
    gamma : "scale" or float, default="scale"
        γ of `"rbf"` and `"poly"`; `"scale"` is 1 / (sum of the features' variances).
    degree : float, default=3
        The degree of `"poly"`.
    coef0 : float, default=0.0
        The constant of `"poly"`.
    max_rank : int, default=500
        With more rows than this, a kernel that is not linear is replaced by its Nyström
        approximation on this many rows, each chosen as the one that is explained least by those
        before; see `unexplained_`.
    tol : float, default=1e-8
        The minimization over θ stops when the largest gradient, per row, is below this.
    max_iter : int, default=5000
        The largest number of iterations.
    decode : {"quota", "threshold"}, default="quota"
        Label the fitted rows with exactly the counts of every bag, or every row with its most
        likely class under the totals of its bag. `predict` without totals does not use it.
    random_state : int, RandomState or None, default=None
        Not used; accepted so that estimators can be exchanged.

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
    class_means_ : ndarray of shape (n_classes, n_features)
        The estimated class means; in the kernel's feature space if it is not linear.
    C_ : float
        The inverse weight of ‖θ‖² in use.
    expansion_ : Expansion
        The logits; their `coefficients` are `coef_` with a linear kernel.
    unexplained_ : float
        The share of the kernel's trace that its approximation leaves out; 0 if it is linear.
    n_iter_ : int
        The number of iterations of the minimization over θ.

    References
    ----------
    N. Quadrianto, A. J. Smola, T. S. Caetano, Q. V. Le, "Estimating Labels from Label
    Proportions", JMLR 10, 2009.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    >>> model = MeanMap().fit(X, bags=[0, 0, 0, 1, 1, 1], proportions=np.array([1 / 3, 2 / 3]))
    >>> model.predict([[-1.0], [6.0]]).tolist()
    [0, 1]
    """

    class_means_: FloatArray

    _allowed: ClassVar = {**SoftmaxClassifier._allowed, "ridge": real(low=0)}

    def __init__(
        self,
        kernel: Any = "linear",
        C: Any = "auto",
        ridge: float = 1.0,
        *,
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        max_rank: int = 500,
        tol: float = 1e-8,
        max_iter: int = 5000,
        decode: str = "quota",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.ridge = ridge
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.max_rank = max_rank
        self.tol = tol
        self.max_iter = max_iter
        self.decode = decode
        self.random_state = random_state

    def _learn(
        self, prepared: Prepared, bags: Bags, start: FloatArray | None, seed: int
    ) -> FloatArray | None:
        P = super()._learn(prepared, bags, start, seed)
        kernel, center = self.expansion_.kernel, self.expansion_.center
        if kernel.linear and center is not None:
            self.class_means_ = self.class_means_ + center
        return P

    def _fit_softmax(
        self, prepared: Prepared, features: KernelFeatures, known: KnownBags, shares: FloatArray
    ) -> SoftmaxFit:
        Z = features.Z
        self.class_means_ = self._estimated_class_means(Z, known)
        self.C_ = default_c(Z, known) if self.C == "auto" else float(self.C)
        return softmax_of_means(
            Z, self.class_means_, shares, self.C_, tol=self.tol, max_iter=self.max_iter
        )

    def _estimated_class_means(self, Z: FloatArray, bags: KnownBags) -> FloatArray:
        """Return the class means of the features Z, one row per class."""
        return class_means(Z, bags, self.ridge)


def class_means(X: FloatArray, bags: KnownBags, ridge: float) -> FloatArray:
    """Return argmin_μ Σ_k n_k ‖m_k - Σ_h π_kh μ_h‖² + ridge Σ_h ‖μ_h - m̄‖².

    The bag means m_k are mixtures of the class means μ_h if a class has the same distribution in
    every bag. The ridge draws the class means towards the mean of all bags, m̄, as strongly as
    `ridge` rows of a pure bag. It alone decides where few or collinear bags leave a direction open.
    """
    means = bags.groups.averages() @ X
    weights = bags.weights
    overall = weights @ means / weights.sum()
    system = (bags.shares.T * weights) @ bags.shares
    system[np.diag_indices_from(system)] += ridge
    right = (bags.shares.T * weights) @ (means - overall)
    return np.asarray(overall + np.linalg.lstsq(system, right, rcond=1e-12)[0])


def default_c(X: FloatArray, bags: KnownBags) -> float:
    """Return C with 1 / (n C) = 0.3 · (variance of X) / I.

    The class means are known as well as by I labeled rows, I = Σ_k n_k ‖π_k - π̄‖² / (1 - ‖π̄‖²): all
    n for pure bags, about the number of bags for random ones. The squared error of the means, and
    with it the best penalty, falls as 1 / I. The variance, summed over features, makes C
    independent of their unit.
    """
    weights = bags.weights
    overall = weights @ bags.shares / weights.sum()
    deviations = ((bags.shares - overall) ** 2).sum(axis=1)
    labeled_rows = weights @ deviations / max(1.0 - float(overall @ overall), 1e-12)
    variance = max(float(X.var(axis=0).sum()), 1e-300)
    return float(max(labeled_rows, 1.0) / (_AUTO_PENALTY * variance * len(X)))


def softmax_of_means(
    X: FloatArray, means: FloatArray, shares: FloatArray, C: float, *, tol: float, max_iter: int
) -> SoftmaxFit:
    """Return argmin_θ,b ‖θ‖² / 2C + Σ_i log Σ_h exp(θ_h·x_i + b_h) - n Σ_h p_h (θ_h·μ_h + b_h).

    This is multinomial logistic regression. The labels enter only through the class means μ and the
    class shares p, which can be estimated without labels.
    """
    n, d = X.shape
    c = len(means)
    center = X.mean(axis=0)
    # In these units, the loss and the penalty together have about the same curvature in every
    # direction, so that L-BFGS needs few iterations.
    unit = np.sqrt(X.var(axis=0) + 4.0 / (n * C))
    Z = (X - center) / unit
    class_sums = n * shares[:, None] * (means - center) / unit
    penalty = 1.0 / (C * unit**2)

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        theta, b = flat[: c * d].reshape(c, d), flat[c * d :]
        # Classes in rows: NumPy reduces short rows slowly.
        logits = theta @ Z.T + b[:, None]
        top = logits.max(axis=0)
        P = np.exp(logits - top)
        sums = P.sum(axis=0)
        P /= sums
        log_sums = top + np.log(sums)
        value = 0.5 * (penalty * theta**2).sum() + log_sums.sum()
        value -= (class_sums * theta).sum() + n * shares @ b
        gradient = penalty * theta + P @ Z - class_sums
        return value / n, np.concatenate([gradient.ravel(), P.sum(axis=1) - n * shares]) / n

    start = np.zeros(c * d + c)
    start[c * d :] = np.log(np.maximum(shares, 1e-12))
    flat, n_iter, converged = minimized(loss, start, tol, max_iter)
    theta = flat[: c * d].reshape(c, d) / unit
    return SoftmaxFit(theta, flat[c * d :] - theta @ center, n_iter, converged)
