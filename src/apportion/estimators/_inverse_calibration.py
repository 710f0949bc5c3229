"""InvCal: support vector regression from bag means to inverse-calibrated proportions."""

from __future__ import annotations

import numpy as np
from sklearn.svm import SVR

from apportion._utils.typing import FloatArray
from apportion.estimators._kernels import LIBSVM_ITERATIONS, Expansion, Kernel, centerd
from apportion.estimators._known_bags import KnownBags

_REACH = 10.0


def inverse_calibration(
    X: FloatArray,
    bags: KnownBags,
    kernel: Kernel,
    tasks: list[int],
    *,
    C: float | None,
    epsilon: float,
    clip: float,
) -> tuple[Expansion, float]:
    """Return argmin ½‖w‖² + C Σ_k |w·φ(m_k) + b - logit π_k|_ε, one function a class of `tasks`.

    m_k is the mean of bag k, which in the kernel's feature space is Σ_{i in k} φ(x_i) / n_k; π_k is
    clipped to [clip, 1 - clip]; |·|_ε is 0 within ±ε. Bags known in part weigh less. Without C it
    is 10 divided by the variance of the rows in the kernel's feature space; it is returned too.

    libsvm sees bag means centerd and in units of that variance, which changes nothing but b and how
    well it does.
    """
    averages = bags.groups.averages()
    weights = bags.groups.sizes / bags.groups.sizes.sum()
    means = averages @ X if kernel.linear else kernel.between_means(X, averages)
    if kernel.linear:
        own = ((X - weights @ means) ** 2).sum(axis=1)
        offset = 0.0
    else:
        own = kernel.diagonal(X)
        offset = float(weights @ means @ weights)
    variance = float(weights @ (averages @ own)) - offset
    variance = variance if variance > 0 else 1.0
    means, level = centerd(means, kernel.linear, weights)
    C = _REACH / variance if C is None else C

    shares = np.clip(bags.shares[:, tasks], clip, 1.0 - clip)
    targets = np.log(shares / (1.0 - shares))
    duals, intercepts = np.zeros(targets.shape), np.zeros(len(tasks))
    for j, h in enumerate(tasks):
        some = np.flatnonzero(bags.known[:, h])
        if not some.size:
            intercepts[j] = targets[:, j].mean()
            continue
        machine = SVR(
            kernel="linear" if kernel.linear else "precomputed",
            C=C * variance,
            epsilon=epsilon,
            tol=1e-6,
            cache_size=500,
            max_iter=LIBSVM_ITERATIONS,
        )
        inputs = (
            means[some] / np.sqrt(variance)
            if kernel.linear
            else means[np.ix_(some, some)] / variance
        )
        machine.fit(inputs, targets[some, j], sample_weight=bags.known[some, h])
        duals[some[machine.support_], j] = machine.dual_coef_[0] / variance
        intercepts[j] = machine.intercept_[0] - level @ duals[:, j]
    return Expansion(kernel, X, np.asarray(averages.T @ duals), intercepts), C
