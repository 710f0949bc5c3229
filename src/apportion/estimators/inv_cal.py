"""InvCal (Rüping 2010)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.svm import SVR

from apportion._utils.parameters import integer, real
from apportion._utils.typing import FloatArray
from apportion.estimators._inductive import (
    MarginClassifier,
    known_bags,
    one_vs_rest_classes,
    prepared_features,
    sigmoids,
)
from apportion.estimators._kernels import LIBSVM_ITERATIONS, Expansion, Kernel
from apportion.estimators._prepared import Prepared
from apportion.supervision.bags import Bags

_AUTO_C = 10.0
"""C in units in which the variance of the rows is 1: large enough to follow the bags' logits."""


class InvCal(MarginClassifier):
    """Inverse calibration: support vector regression of bag proportions on bag means.

    `argmin_{w,b} ½‖w‖² + C Σ_k |w·φ(m_k) + b - logit π_k|_ε`, with one example per bag. φ(m_k) is
    the mean of the bag's rows in the kernel's feature space, so that the kernel of two bags is the
    mean over all pairs of their rows. π_k is the clipped proportion of the class, and `|·|_ε` is 0
    within ±ε. Several classes are learned one against the rest. All bags have the same weight,
    whatever their size, but a total known only within bounds counts less. A row with a given label
    is a bag of its own. Rows in no bag and bags without known totals are left out.

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="linear"
        The kernel k(x, z) of two rows. A callable takes two arrays of rows and returns the
        similarities of all pairs.
    C : "auto" or float, default="auto"
        The weight of the loss. `"auto"` is 10 divided by the variance of the rows in the kernel's
        feature space, so that the result does not depend on the unit of the features.
    gamma : "scale" or float, default="scale"
        γ of `"rbf"` and `"poly"`; `"scale"` is 1 / (sum of the features' variances).
    degree : float, default=3
        The degree of `"poly"`.
    coef0 : float, default=0.0
        The constant of `"poly"`.
    epsilon : float, default=0.0
        The error of a bag, in logits, that costs nothing.
    clip : float, default=0.01
        Proportions are clipped to [clip, 1 - clip], because 0 and 1 have no logit.
    max_rank : int, default=1000
        With more rows than this, a kernel that is not linear is replaced by its Nyström
        approximation on this many rows, each chosen as the one that is explained least by those
        before; see `unexplained_`.
    tol : float, default=1e-6
        The tolerance of the support vector regression, in units in which the variance of the rows
        is 1.
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
        The weight of the loss in use.
    expansion_ : Expansion
        The function f; its `coefficients` are `coef_` with a linear kernel.
    unexplained_ : float
        The share of the kernel's trace that its approximation leaves out; 0 if it is linear.

    References
    ----------
    S. Rüping, "SVM Classifier Estimation from Group Probabilities", ICML 2010.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    >>> model = InvCal().fit(X, bags=[0, 0, 0, 1, 1, 1], proportions=np.array([1 / 3, 2 / 3]))
    >>> model.predict([[-1.0], [6.0]]).tolist()
    [0, 1]
    """

    _allowed: ClassVar = {
        **MarginClassifier._allowed,
        "C": real("auto", low=0, ends="()"),
        "epsilon": real(low=0),
        "clip": real(low=0, high=0.5, ends="()"),
        "max_rank": integer(1),
        "tol": real(low=0, ends="()"),
    }

    def __init__(
        self,
        kernel: Any = "linear",
        C: Any = "auto",
        *,
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        epsilon: float = 0.0,
        clip: float = 0.01,
        max_rank: int = 1000,
        tol: float = 1e-6,
        decode: str = "quota",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.epsilon = epsilon
        self.clip = clip
        self.max_rank = max_rank
        self.tol = tol
        self.decode = decode
        self.random_state = random_state

    def _fit_expansion(
        self, prepared: Prepared, X: FloatArray, kernel: Kernel, bags: Bags, seed: int
    ) -> tuple[Expansion, FloatArray]:
        features = prepared_features(prepared, kernel, X, self.max_rank)
        Z, (known, classes) = features.Z, (known_bags(bags), one_vs_rest_classes(bags.n_classes))
        self.unexplained_ = features.unexplained
        averages = known.groups.averages()
        weights = known.groups.sizes / known.groups.sizes.sum()
        means = averages @ Z
        center = weights @ means
        squares = np.einsum("ij,ij->i", Z, Z) - 2.0 * (Z @ center) + center @ center
        spread = weights @ (averages @ squares)
        variance = float(spread) if spread > 0 else 1.0
        # libsvm sees bag means centered and in units of the variance, because its tolerance is
        # absolute. This changes only the intercept.
        means = (means - center) / np.sqrt(variance)
        similarity = means @ means.T
        self.C_ = _AUTO_C / variance if self.C == "auto" else float(self.C)
        self.slope_ = 1.0

        shares = np.clip(known.shares[:, classes], self.clip, 1.0 - self.clip)
        logits = np.log(shares / (1.0 - shares))
        duals, intercepts = np.zeros(logits.shape), np.zeros(len(classes))
        for j, h in enumerate(classes):
            used = np.flatnonzero(known.certainty[:, h])
            if not used.size:
                intercepts[j] = logits[:, j].mean()
                continue
            machine = SVR(
                kernel="precomputed",
                C=self.C_ * variance,
                epsilon=self.epsilon,
                tol=self.tol,
                cache_size=500,
                max_iter=LIBSVM_ITERATIONS,
            )
            certainty = known.certainty[used, h]
            machine.fit(similarity[np.ix_(used, used)], logits[used, j], sample_weight=certainty)
            duals[used[machine.support_], j] = machine.dual_coef_[0]
            intercepts[j] = machine.intercept_[0]
        coefficients = means.T @ duals / np.sqrt(variance)
        intercepts -= center @ coefficients
        f = features.expansion(kernel, X, coefficients, intercepts)
        return f, sigmoids(Z @ coefficients + intercepts, self.slope_)
