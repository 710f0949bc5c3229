"""MeanMap: class means estimated from bag means, then logistic regression that sees only these."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from apportion._utils.typing import FloatArray
from apportion.estimators._known_bags import KnownBags

_DISTRUST = 0.2


@dataclass(frozen=True)
class SoftmaxFit:
    """Coefficients θ (n_classes × n_features), intercepts b, and how the search for them ended."""

    coefficients: FloatArray
    intercept: FloatArray
    n_iter: int
    converged: bool


def class_means(X: FloatArray, bags: KnownBags, ridge: float) -> FloatArray:
    """Return argmin_μ Σ_k n_k ‖m_k - Σ_h π_kh μ_h‖² + ridge Σ_h ‖μ_h - m̄‖².

    Bag means m_k are mixtures of class means μ_h, where a class looks alike in every bag. The ridge
    draws class means towards the mean of all bags, m̄, as much as `ridge` rows of a pure bag
    would; where few or collinear bags leave directions open, it alone decides there.
    """
    means = bags.groups.averages() @ X
    weights = bags.weights
    overall = weights @ means / weights.sum()
    system = (bags.shares.T * weights) @ bags.shares
    system[np.diag_indices_from(system)] += ridge
    right = (bags.shares.T * weights) @ (means - overall)
    return np.asarray(overall + np.linalg.lstsq(system, right, rcond=1e-12)[0])


def distrustful_c(X: FloatArray, bags: KnownBags) -> float:
    """Return C with 1 / (n C) = 0.2 · (variance of X) / √I.

    Class means are known as well as if I rows were labeled, I = Σ_k n_k ‖π_k - π̄‖² / (1 - ‖π̄‖²):
    n for pure bags, about the number of bags for random ones. The less is known, the more must be
    distrusted. The variance, summed over features, makes it a matter of no unit.
    """
    weights = bags.weights
    overall = weights @ bags.shares / weights.sum()
    off = ((bags.shares - overall) ** 2).sum(axis=1)
    informative = weights @ off / max(1.0 - float(overall @ overall), 1e-12)
    variance = max(float(X.var(axis=0).sum()), 1e-300)
    return float(np.sqrt(max(informative, 1.0)) / (_DISTRUST * variance * len(X)))


def softmax_of_means(
    X: FloatArray, means: FloatArray, shares: FloatArray, C: float, *, tol: float, max_iter: int
) -> SoftmaxFit:
    """Return argmin_θ,b ‖θ‖² / 2C + Σ_i log Σ_h exp(θ_h·x_i + b_h) - n Σ_h p_h (θ_h·μ_h + b_h).

    This is multinomial logistic regression: its labels enter only through the class means μ and
    the class shares p, which are known here while the labels are not.
    """
    n, d = X.shape
    c = len(means)
    center = X.mean(axis=0)
    # In units in which loss and penalty together are about equally curved in every direction.
    unit = np.sqrt(X.var(axis=0) + 4.0 / (n * C))
    Z = (X - center) / unit
    pull = n * shares[:, None] * (means - center) / unit
    stiffness = 1.0 / (C * unit**2)

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        theta, b = flat[: c * d].reshape(c, d), flat[c * d :]
        logits = Z @ theta.T + b
        level = logsumexp(logits, axis=1, keepdims=True)
        P = np.exp(logits - level)
        value = 0.5 * (stiffness * theta**2).sum() + level.sum()
        value -= (pull * theta).sum() + n * shares @ b
        slope = stiffness * theta + P.T @ Z - pull
        return value / n, np.concatenate([slope.ravel(), P.sum(axis=0) - n * shares]) / n

    start = np.zeros(c * d + c)
    start[c * d :] = np.log(np.maximum(shares, 1e-12))
    found = minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter, "maxfun": 2 * max_iter, "gtol": tol, "ftol": 0.0},
    )
    theta = found.x[: c * d].reshape(c, d) / unit
    # With ftol = 0 the search may end because rounding hides any further fall: that is the end.
    converged = found.success or float(np.abs(found.jac).max()) <= 1e3 * tol
    return SoftmaxFit(theta, found.x[c * d :] - theta @ center, int(found.nit), converged)
