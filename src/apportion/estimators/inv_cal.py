"""InvCal (Rüping 2010)."""

from __future__ import annotations

from typing import Any

from apportion._utils.typing import FloatArray
from apportion.estimators._inductive import MarginClassifier, tasks_of
from apportion.estimators._inverse_calibration import inverse_calibration
from apportion.estimators._kernels import Expansion, Kernel
from apportion.estimators._known_bags import known_bags
from apportion.supervision.bags import Bags


class InvCal(MarginClassifier):
    """Inverse calibration: each bag's mean is one example, its proportion the target.

    `argmin_{w,b} ½‖w‖² + C Σ_k |w·φ(m_k) + b - logit π_k|_ε` with bag means m_k and clipped
    proportions π_k: support vector regression with one example a bag. In the kernel's feature space
    the mean of a bag is the mean of its rows, so that the kernel of two bags is the mean over
    all pairs of rows. Several classes are learned one against the rest. Bags weigh alike, whatever
    their size; a row with a given label is a bag of its own; rows in no bag and bags of unknown
    totals are left out.

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="linear"
        The kernel k(x, z) of rows.
    C : "auto" or float, default="auto"
        The weight of the regression's loss; `"auto"` is 10 divided by the variance of the rows in
        the kernel's feature space, so that a change of unit or of kernel asks for no other C.
    gamma : "scale" or float, default="scale"
        γ of `"rbf"` and `"poly"`; `"scale"` is 1 / (sum of the features' variances).
    degree : float, default=3
        The degree of `"poly"`.
    coef0 : float, default=0.0
        The constant of `"poly"`.
    epsilon : float, default=0.0
        How far a bag may be off, in logits, at no loss.
    clip : float, default=0.01
        Proportions are clipped to [clip, 1 - clip], as 0 and 1 have no logit.
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
    C_ : float
        The weight of the regression's loss in use.
    expansion_ : Expansion
        The function f; its `coefficients` are `coef_` with a linear kernel.

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
        self.decode = decode
        self.random_state = random_state

    def _check_parameters(self) -> None:
        self._check_kernel()
        self._require_number("C", 0.0, open_=True, or_word="auto")
        self._require_number("epsilon", 0.0)
        self._require_number("clip", 0.0, 0.5, open_=True)

    def _expansion(self, X: FloatArray, kernel: Kernel, bags: Bags, seed: int) -> Expansion:
        self.slope_ = 1.0
        f, self.C_ = inverse_calibration(
            X,
            known_bags(bags),
            kernel,
            tasks_of(bags.n_classes),
            C=None if self.C == "auto" else float(self.C),
            epsilon=self.epsilon,
            clip=self.clip,
        )
        return f
