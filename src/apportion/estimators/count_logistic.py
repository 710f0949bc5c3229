"""Logistic regression by the likelihood of the bags' counts."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from apportion._core.count_likelihood import CountLikelihood
from apportion._utils.arrays import row_softmax
from apportion._utils.groups import Groups
from apportion._utils.parameters import real
from apportion._utils.typing import FloatArray, IntArray
from apportion.estimators._inductive import KnownBags
from apportion.estimators._kernels import KernelFeatures
from apportion.estimators._prepared import Prepared
from apportion.estimators._softmax import SoftmaxClassifier, SoftmaxFit, minimized

_AUTO_LOGIT = 1.5
"""How certain a typical row is by default: its logit of a class against the rest, a probability of
.82. Chosen on random bags of 16 and 64 rows of pima, spambase, phoneme, wdbc and segment, and on
Adult in 30 clusters. Accuracies hardly depend on it: 1.4 to 4 differ by .01 on ten other
tables."""


_LEAST_VARIANCE = 1e-12
"""Directions of less than this share of the variance are rounding."""


class CountLogistic(SoftmaxClassifier):
    """CountLogistic: logistic regression whose loss is the likelihood of the bags' counts.

    It solves `argmin_θ,b ‖θ‖² / 2C - Σ_k log P(counts_k | p_i, i in bag k)`, where p_i are the
    softmax probabilities of a row: rows are independent given their features, and only the sums of
    their labels are known. The method makes no assumption about how bags are drawn, as long as the
    features explain the classes: it is the one for bags that depend on the features, such as
    districts or clusters. Standardize the features.

    The count of a class in a bag of up to 64 rows has its exact, Poisson binomial, probability; in
    a larger bag that of a normal distribution with the same mean and variance. With several
    classes, every class is counted against the rest, and the sum of the logarithms is scaled by
    (c - 1) / c, because the counts of c classes are c - 1 facts. Bags of one class are exact.

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="linear"
        The kernel k(x, z) of two rows. A callable takes two arrays of rows and returns the
        similarities of all pairs.
    C : "auto" or float, default="auto"
        The inverse weight of ‖θ‖². `"auto"` is (1.5 + log(c - 1))² / (variance of the rows), with c
        classes and the rows in the kernel's feature space: a typical row is then certain to .82.
    overdispersion : float, default=0.002
        The variance ρ between bags that the features do not explain. It adds ρ n² m (1 - m) to the
        variance of a count in a large bag, with n rows and the mean probability m; otherwise, the
        counts of thousands of rows would be fitted as if the model were true to the last digit.
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
    tol : float, default=1e-6
        The minimization stops when the largest gradient, per bag, is below this.
    max_iter : int, default=1000
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
    C_ : float
        The inverse weight of ‖θ‖² in use.
    expansion_ : Expansion
        The logits; their `coefficients` are `coef_` with a linear kernel.
    unexplained_ : float
        The share of the kernel's trace that its approximation leaves out; 0 if it is linear.
    n_iter_ : int
        The number of iterations.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    >>> model = CountLogistic().fit(X, bags=[0, 0, 0, 1, 1, 1], proportions=[1 / 3, 2 / 3])
    >>> model.predict([[-1.0], [6.0]]).tolist()
    [0, 1]
    """

    _allowed: ClassVar = {**SoftmaxClassifier._allowed, "overdispersion": real(low=0)}

    def __init__(
        self,
        kernel: Any = "linear",
        C: Any = "auto",
        overdispersion: float = 0.002,
        *,
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        max_rank: int = 500,
        tol: float = 1e-6,
        max_iter: int = 1000,
        decode: str = "quota",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.overdispersion = overdispersion
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.max_rank = max_rank
        self.tol = tol
        self.max_iter = max_iter
        self.decode = decode
        self.random_state = random_state

    def _fit_softmax(
        self, prepared: Prepared, features: KernelFeatures, known: KnownBags, shares: FloatArray
    ) -> SoftmaxFit:
        rows = prepared.once(("principal axes", id(features)), lambda: PrincipalAxes.of(features.Z))
        self.C_ = prior_variance(rows.variance, len(shares)) if self.C == "auto" else float(self.C)
        inside = np.flatnonzero(known.groups.codes >= 0)
        counts = class_counts(known, self.overdispersion)
        return softmax_of_counts(
            rows, inside, counts, shares, self.C_, tol=self.tol, max_iter=self.max_iter
        )


class PrincipalAxes(NamedTuple):
    """Rows in the directions of their principal components.

    Attributes
    ----------
    coordinates : ndarray of shape (n_samples, rank)
        The rows in these directions, centered.
    center : ndarray of shape (n_features,)
        Their mean.
    axes : ndarray of shape (n_features, rank)
        The directions.
    eigenvalues : ndarray of shape (rank,)
        The variances in these directions.
    """

    coordinates: FloatArray
    center: FloatArray
    axes: FloatArray
    eigenvalues: FloatArray

    @classmethod
    def of(cls, Z: FloatArray) -> PrincipalAxes:
        """Return rows in their principal directions; those without any variance are left out."""
        center, d = Z.mean(axis=0), Z.shape[1]
        eigenvalues, axes = np.linalg.eigh(np.cov(Z, rowvar=False, bias=True).reshape(d, d))
        kept = eigenvalues > _LEAST_VARIANCE * max(float(eigenvalues.sum()), 1e-300)
        axes = axes[:, kept]
        return cls((Z - center) @ axes, center, axes, eigenvalues[kept])

    @property
    def variance(self) -> float:
        """The sum of the variances."""
        return float(self.eigenvalues.sum())


def prior_variance(variance: float, n_classes: int) -> float:
    """Return C at which θ ~ N(0, C) gives logits of standard deviation 1.5 + log(c - 1).

    The loss is a likelihood, unlike that of `MeanMap`, so that C is the variance of a prior and
    need not depend on the number of rows or bags. A class whose logit is larger by
    1.5 + log(c - 1) than those of all others has a probability of .82, for any number of classes c.
    """
    size = _AUTO_LOGIT + np.log(max(n_classes - 1, 1))
    return float(size**2 / max(variance, 1e-300))


class TwoClassCounts:
    """Σ_k w_k log P(count_k) of the second of two classes, as a function of its logits.

    There is one row of logits per row in a bag, and one column.
    """

    n_columns = 1

    def __init__(
        self, groups: Groups, counts: FloatArray, weights: FloatArray, overdispersion: float
    ) -> None:
        self.n_bags = groups.n_groups
        self._likelihood = CountLikelihood(groups, counts[:, 1], between=overdispersion)
        self._weights = weights[:, 1]
        self._row_weights = groups.spread(self._weights)

    def __call__(self, logits: FloatArray) -> tuple[float, FloatArray]:
        """Return the log-likelihood and its gradient."""
        fit = self._likelihood(logits[:, 0])
        gradient = self._row_weights * fit.gradient
        return float(self._weights @ fit.log_likelihood), gradient[:, None]


class SeveralClassCounts:
    """(c - 1) / c Σ_kh w_kh log P(count_kh), each class against the rest, as a function of logits.

    There is one column of logits per class. A bag of one class has the likelihood of its labels,
    Π_i p_ih, instead.
    """

    def __init__(
        self, groups: Groups, counts: FloatArray, weights: FloatArray, overdispersion: float
    ) -> None:
        self.n_bags, self.n_columns = counts.shape
        c = self.n_columns
        pure = (counts >= groups.sizes[:, None] - 1e-9) & (weights > 0)
        in_pure = np.asarray(pure.any(axis=1))[groups.codes]
        self._pure_rows = np.flatnonzero(in_pure)
        pure_codes = groups.codes[self._pure_rows]
        self._pure_labels = pure[pure_codes].astype(np.float64)
        self._pure_weights = weights.mean(axis=1)[pure_codes, None]
        # Every class of every bag is a bag of its own: the cell of row i and class h is i c + h.
        cells = groups.codes[:, None] * c + np.arange(c)
        cell_groups = Groups(np.where(in_pure[:, None], -1, cells).ravel(), counts.size)
        self._likelihood = CountLikelihood(cell_groups, counts.ravel(), between=overdispersion)
        self._weights = weights.ravel() * (c - 1) / c
        self._cell_weights = cell_groups.spread(self._weights)

    def __call__(self, logits: FloatArray) -> tuple[float, FloatArray]:
        """Return the log-likelihood and its gradient."""
        P = row_softmax(logits)
        # Sums over the other classes, not 1 - p, which has no digits left where p is nearly 1.
        others = 1.0 - np.eye(self.n_columns)
        rest = np.maximum(P @ others, 1e-300)
        P = np.maximum(P, 1e-300)
        fit = self._likelihood((np.log(P) - np.log(rest)).ravel())
        by_cell = (self._cell_weights * fit.gradient).reshape(P.shape)
        # ∂ logit(p_h) / ∂ logit_j = 1 for j = h, else -p_j / (1 - p_h)
        gradient = by_cell - P * ((by_cell / rest) @ others)
        Q = P[self._pure_rows]
        gradient[self._pure_rows] = self._pure_weights * (self._pure_labels - Q)
        pure = (self._pure_weights * self._pure_labels * np.log(Q)).sum()
        return float(self._weights @ fit.log_likelihood + pure), gradient


Counts = TwoClassCounts | SeveralClassCounts


def class_counts(known: KnownBags, overdispersion: float) -> Counts:
    """Return the likelihood of the bags' counts, weighted by their certainty."""
    _, groups = known.groups.only(np.ones(known.groups.n_groups, dtype=bool))
    counts = known.shares * groups.sizes[:, None]
    form = TwoClassCounts if counts.shape[1] == 2 else SeveralClassCounts
    return form(groups, counts, known.certainty, overdispersion)


def softmax_of_counts(
    rows: PrincipalAxes,
    inside: IntArray,
    counts: Counts,
    shares: FloatArray,
    C: float,
    *,
    tol: float,
    max_iter: int,
) -> SoftmaxFit:
    """Return argmin_θ,b ‖θ‖² / 2C - log-likelihood(X θ + b), from θ = 0 and the overall shares.

    The loss is not convex. With two classes, all starts that were tried (`MeanMap`'s answer, random
    ones) reached the same minimum; with many classes, this start was among the best. If all bags
    have equal shares, it is stationary, and the answer is these shares.
    """
    d, k = len(rows.eigenvalues), counts.n_columns
    two = len(shares) == 2
    X = rows.coordinates
    X = X if len(inside) == len(X) else X[inside]
    # In these units, the loss and the penalty together have about the same curvature in every
    # direction (a bag says about as much of a direction as one labeled row). The directions are the
    # principal ones, so that the path does not depend on a rotation of the features.
    unit = np.sqrt(rows.eigenvalues + 4.0 / (counts.n_bags * C))
    # Two opposite rows of θ, ±δ/2, are one column of logits: ‖θ‖² = ‖δ‖² / 2.
    penalty = (0.5 if two else 1.0) / (C * unit**2)

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        theta, b = flat[: k * d].reshape(k, d), flat[k * d :]
        log_likelihood, by_logit = counts(X @ (theta / unit).T + b)
        value = 0.5 * (penalty * theta**2).sum() - log_likelihood
        gradient = penalty * theta - (by_logit.T @ X) / unit
        return value / counts.n_bags, np.append(gradient, -by_logit.sum(axis=0)) / counts.n_bags

    logs = np.log(np.maximum(shares, 1e-12))
    start = np.append(np.zeros(k * d), logs[1:] - logs[:1] if two else logs)
    flat, n_iter, converged = minimized(loss, start, tol, max_iter)
    theta = (flat[: k * d].reshape(k, d) / unit) @ rows.axes.T
    b = flat[k * d :] - theta @ rows.center
    if two:
        theta, b = np.vstack([-theta, theta]) / 2.0, np.append(-b, b) / 2.0
    return SoftmaxFit(theta, b, n_iter, converged)
