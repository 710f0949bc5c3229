"""MeanMap (Quadrianto et al. 2009)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from apportion._utils.typing import FloatArray
from apportion.estimators._inductive import KernelClassifier
from apportion.estimators._kernels import Expansion, Kernel, KernelFeatures, kernel_features
from apportion.estimators._known_bags import known_bags
from apportion.estimators._mean_operator import class_means, distrustful_c, softmax_of_means
from apportion.exceptions import Advice, users_level
from apportion.supervision.bags import Bags


class MeanMap(KernelClassifier):
    """MeanMap: logistic regression whose labels enter only through estimated class means.

    First class means, `argmin_μ Σ_k n_k ‖m_k - Σ_h π_kh μ_h‖² + ridge Σ_h ‖μ_h - m̄‖²`, from bag
    means m_k and proportions π_k, where m̄ is the mean of all rows in bags: the ridge settles what
    few or collinear bags leave open. Then multinomial logistic regression,
    `argmin_θ ‖θ‖² / 2C + Σ_i log Σ_h exp(θ_h·x_i + b_h) - n Σ_h p_h (θ_h·μ_h + b_h)`, with class
    shares p. It is right where a class looks alike in every bag. Rows are best standardized.

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="linear"
        The kernel k(x, z) of rows.
    C : "auto" or float, default="auto"
        The inverse weight of ‖θ‖². `"auto"` grows with the square root of how many labeled rows
        the bags are worth: estimated class means are noisy, and a C that suits known labels
        would fit the noise.
    ridge : float, default=1.0
        How strongly class means are drawn to the overall mean, in rows of a pure bag.
    gamma : "scale" or float, default="scale"
        γ of `"rbf"` and `"poly"`; `"scale"` is 1 / (sum of the features' variances).
    degree : float, default=3
        The degree of `"poly"`.
    coef0 : float, default=0.0
        The constant of `"poly"`.
    max_rank : int, default=500
        From more rows than this, a kernel that is not linear is replaced by its Nyström
        approximation on so many rows, each the one that those before explain least; see
        `unexplained_`.
    tol : float, default=1e-8
        The largest slope, per row, at which the search for θ ends.
    max_iter : int, default=5000
        The most iterations of that search.
    decode : {"quota", "threshold"}, default="quota"
        How the fitted rows are labeled: every bag exactly its counts, or every row its most likely
        class in its bag. `predict` without totals is not concerned.
    random_state : int, RandomState or None, default=None
        Not used: nothing is drawn at random.

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
    class_means_ : ndarray of shape (n_classes, n_features)
        The estimated class means; with another than a linear kernel, in its feature space.
    C_ : float
        The inverse weight of ‖θ‖² in use.
    expansion_ : Expansion
        The logits; their `coefficients` are `coef_` with a linear kernel.
    unexplained_ : float
        The share of the kernel's trace that its approximation leaves out; 0 for a linear one.
    n_iter_ : int
        Iterations of the search for θ.

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

    def _check_parameters(self) -> None:
        self._check_kernel()
        self._require_number("C", 0.0, open_=True, or_word="auto")
        self._require_number("ridge", 0.0)
        self._require_number("max_rank", 1, whole=True)
        self._require_number("tol", 0.0)
        self._require_number("max_iter", 1, whole=True)

    def _learn(self, X: FloatArray, bags: Bags, start: FloatArray | None, seed: int) -> None:
        super()._learn(X, bags, start, seed)
        kernel, center = self.expansion_.kernel, self.expansion_.center
        if kernel.linear and center is not None:
            self.class_means_ = self.class_means_ + center

    def _expansion(self, X: FloatArray, kernel: Kernel, bags: Bags, seed: int) -> Expansion:
        known = known_bags(bags)
        d = X.shape[1]
        Z, pivots, V, self.unexplained_ = (
            KernelFeatures(X, np.arange(d), np.eye(d), 0.0)
            if kernel.linear
            else kernel_features(kernel, X, self.max_rank)
        )
        self.class_means_ = class_means(Z, known, self.ridge)
        self.C_ = distrustful_c(Z, known) if self.C == "auto" else float(self.C)
        fit = softmax_of_means(
            Z, self.class_means_, bags.overall, self.C_, tol=self.tol, max_iter=self.max_iter
        )
        if not fit.converged:
            warnings.warn(
                Advice(
                    f"MeanMap's logistic regression did not converge within {fit.n_iter} "
                    "iterations.",
                    "{mean_map}",
                ),
                ConvergenceWarning,
                stacklevel=users_level(),
            )
        self.n_iter_ = max(fit.n_iter, 1)
        rows = np.eye(d) if kernel.linear else X
        weights = np.zeros((len(rows), bags.n_classes))
        weights[pivots] = V @ fit.coefficients.T
        return Expansion(kernel, rows, weights, fit.intercept)

    def _soft_labels(self, X: Any) -> FloatArray:
        """Return the softmax of the logits."""
        return np.asarray(softmax(self.expansion_(X), axis=1))
