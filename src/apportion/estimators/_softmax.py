"""The base class of the estimators whose rule is a softmax of kernel functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from apportion._utils.arrays import row_softmax
from apportion._utils.parameters import integer, real
from apportion._utils.typing import FloatArray
from apportion.estimators._inductive import (
    KernelClassifier,
    KnownBags,
    known_bags,
    prepared_features,
)
from apportion.estimators._kernels import Expansion, Kernel, KernelFeatures
from apportion.estimators._prepared import Prepared
from apportion.exceptions import Advice, users_level
from apportion.supervision.bags import Bags


class SoftmaxFit(NamedTuple):
    """Coefficients θ (n_classes × n_features), intercepts b, and how the minimization ended."""

    coefficients: FloatArray
    intercept: FloatArray
    n_iter: int
    converged: bool


class SoftmaxClassifier(KernelClassifier):
    """A rule softmax(θ·z(x) + b) on features z(x) of the kernel, or on x itself if it is linear."""

    _allowed: ClassVar = {
        **KernelClassifier._allowed,
        "C": real("auto", low=0, ends="()"),
        "max_rank": integer(1),
        "tol": real(low=0),
        "max_iter": integer(1),
    }

    C: Any
    max_rank: int
    tol: float
    max_iter: int

    def _fit_softmax(
        self, prepared: Prepared, features: KernelFeatures, known: KnownBags, shares: FloatArray
    ) -> SoftmaxFit:
        """Fit θ and b to the features Z of all rows; `shares` are the overall class shares."""
        raise NotImplementedError

    def _fit_expansion(
        self, prepared: Prepared, X: FloatArray, kernel: Kernel, bags: Bags, seed: int
    ) -> tuple[Expansion, FloatArray]:
        features = prepared_features(prepared, kernel, X, self.max_rank)
        self.unexplained_ = features.unexplained
        fit = self._fit_softmax(prepared, features, known_bags(bags), bags.overall)
        if not fit.converged:
            self._warn_unconverged("logistic regression", fit.n_iter)
        self.n_iter_ = max(fit.n_iter, 1)
        expansion = features.expansion(kernel, X, fit.coefficients.T, fit.intercept)
        return expansion, row_softmax(features.Z @ fit.coefficients.T + fit.intercept)

    def _warn_unconverged(self, part: str, n_iter: int) -> None:
        name = type(self).__name__
        facts = f"{name}'s {part} did not converge within {n_iter} iterations."
        message = Advice(facts, "{mean_map}")
        warnings.warn(message, ConvergenceWarning, stacklevel=users_level())

    def _soft_labels(self, X: Any) -> FloatArray:
        return np.asarray(row_softmax(self.expansion_(X)))


def minimized(
    loss: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    tol: float,
    max_iter: int,
) -> tuple[FloatArray, int, bool]:
    """Return where a loss with its gradient is least, the iterations of L-BFGS, and if it ended."""
    options = {"maxiter": max_iter, "maxfun": 2 * max_iter, "gtol": tol, "ftol": 0.0}
    minimum = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    # With ftol = 0, L-BFGS reports a failure when rounding hides any further decrease. A gradient
    # of up to 1000 tol then counts as converged.
    converged = minimum.success or float(np.abs(minimum.jac).max()) <= 1e3 * tol
    return minimum.x, int(minimum.nit), converged
