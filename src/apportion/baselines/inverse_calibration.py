"""InvCal: support vector regression from bag means to inverse-calibrated proportions."""

from __future__ import annotations

import numpy as np
from sklearn.svm import SVR

from apportion._typing import FloatArray
from apportion.baselines.kernels import Expansion, Kernel
from apportion.baselines.known_bags import KnownBags

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
    """
    averages = bags.averages()
    between, own = kernel.between_means(X, averages)
    if C is None:
        weights = bags.groups.sizes / bags.groups.sizes.sum()
        variance = float(weights @ own - weights @ between @ weights)
        C = _REACH / variance if variance > 1e-12 * float(weights @ own) else 1.0
    shares = np.clip(bags.shares[:, tasks], clip, 1.0 - clip)
    targets = np.log(shares / (1.0 - shares))
    duals, intercepts = np.zeros(targets.shape), np.zeros(len(tasks))
    for j in range(len(tasks)):
        machine = SVR(kernel="precomputed", C=C, epsilon=epsilon, tol=1e-6, cache_size=500)
        machine.fit(between, targets[:, j], sample_weight=bags.known)
        duals[machine.support_, j] = machine.dual_coef_[0]
        intercepts[j] = machine.intercept_[0]
    return Expansion(kernel, X, np.asarray(averages.T @ duals), intercepts), C
