"""Laplacian mean map (Patrini et al. 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from apportion._utils.parameters import integer, real
from apportion._utils.typing import AnyArray, FloatArray
from apportion.estimators._inductive import KnownBags
from apportion.estimators.mean_map import MeanMap, class_means
from apportion.graphs.knn import KNNGraph

_HUB = 0.1
"""The tie of every bag to the common class means, in units of the mean tie to all similar bags. It
keeps bags together that no chain of similar bags connects."""

_TOLERANCE = 1e-10
"""Conjugate gradients stop when every feature's residual is below this share of its first one."""

_BLOCK_CELLS = 2**21
"""The class means of all bags are computed for so many features at a time, to bound memory."""


class LaplacianMeanMap(MeanMap):
    """Laplacian mean map: `MeanMap` with class means that vary smoothly between similar bags.

    The class means μ_kh of every bag k, and common ones μ_0h, are estimated from bag means m_k and
    proportions π_k: `argmin_μ Σ_k n_k ‖m_k - Σ_h π_kh μ_kh‖² + smoothing Σ_h (Σ_{k<l} s_kl ‖μ_kh -
    μ_lh‖² + 0.1 Σ_k ‖μ_kh - μ_0h‖²) + ridge Σ_h ‖μ_0h - m̄‖²`. The similarities s_kl of bag means
    are Gaussian, and sum to 1 for an average bag. The class means
    `μ_h = Σ_k n_k π_kh μ_kh / Σ_k n_k π_kh` then stand for the labels in multinomial logistic
    regression, as in `MeanMap`. The method assumes that a class has similar distributions in
    similar bags. Standardize the features.

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="linear"
        The kernel k(x, z) of two rows. A callable takes two arrays of rows and returns the
        similarities of all pairs.
    C : "auto" or float, default="auto"
        The inverse weight of ‖θ‖². `"auto"` grows with the number of labeled rows that the bags are
        worth; see `MeanMap`.
    ridge : float, default=1.0
        How strongly class means are drawn towards the overall mean, in rows of a pure bag.
    smoothing : float, default=100.0
        How strongly the class means of similar bags are drawn towards each other, in rows: a larger
        bag deviates from the bags around it. The larger, the closer to `MeanMap`. The default is
        the smallest of four values whose rule was on average as accurate on 15 tables in random
        bags.
    n_neighbors : int, default=10
        The number of most similar bags that a bag is tied to.
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
    G. Patrini, R. Nock, P. Rivera, T. Caetano, "(Almost) No Label No Cry", NIPS 2014.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    >>> totals = np.array([1 / 3, 2 / 3])
    >>> model = LaplacianMeanMap().fit(X, bags=[0, 0, 0, 1, 1, 1], proportions=totals)
    >>> model.predict([[-1.0], [6.0]]).tolist()
    [0, 1]
    """

    _allowed: ClassVar = {
        **MeanMap._allowed,
        "smoothing": real(low=0, ends="()"),
        "n_neighbors": integer(1),
    }

    def __init__(
        self,
        kernel: Any = "linear",
        C: Any = "auto",
        ridge: float = 1.0,
        smoothing: float = 100.0,
        *,
        n_neighbors: int = 10,
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        max_rank: int = 500,
        tol: float = 1e-8,
        max_iter: int = 5000,
        decode: str = "quota",
        random_state: Any = None,
    ) -> None:
        super().__init__(
            kernel,
            C,
            ridge,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            max_rank=max_rank,
            tol=tol,
            max_iter=max_iter,
            decode=decode,
            random_state=random_state,
        )
        self.smoothing = smoothing
        self.n_neighbors = n_neighbors

    def _estimated_class_means(self, Z: FloatArray, bags: KnownBags) -> FloatArray:
        ties = bag_ties(np.asarray(bags.groups.averages() @ Z), self.n_neighbors)
        means, n_iter, converged = smooth_class_means(
            Z, bags, ties, self.ridge, self.smoothing, self.max_iter
        )
        if not converged:
            self._warn_unconverged("smoothing of class means", n_iter)
        return means


def bag_ties(means: FloatArray, n_neighbors: int) -> AnyArray:
    """Return the sparse similarities of the bags and of the hub, which is the last row.

    Bags are tied to those with the nearest means, with Gaussian similarities that sum to 1 for an
    average bag, and all bags are tied to the hub.
    """
    K = len(means)
    hub = np.full((K, 1), _HUB)
    similar = sparse.csr_array((K, K))
    if K > 1:
        similar = KNNGraph(n_neighbors).fit(means).affinity_
        similar = similar * (K / max(float(similar.sum()), 1e-300))
    return sparse.block_array([[similar, hub], [hub.T, None]], format="csr")


class SmoothMeans(NamedTuple):
    """Class means, the number of iterations of conjugate gradients, and whether they converged."""

    means: FloatArray
    n_iter: int
    converged: bool


def smooth_class_means(
    X: FloatArray,
    bags: KnownBags,
    ties: AnyArray,
    ridge: float,
    smoothing: float,
    max_iter: int,
) -> SmoothMeans:
    """Return the averages μ_h = Σ_k n_k π_kh μ_kh / Σ_k n_k π_kh of smooth class means μ_kh.

    They are argmin_μ Σ_k w_k ‖m_k - Σ_h π_kh μ_kh‖² + smoothing Σ_{k<l} s_kl Σ_h ‖μ_kh - μ_lh‖² +
    ridge Σ_h ‖μ_0h - m̄‖², where the sum over k < l includes the hub, 0, whose class means are those
    of a class that no bag has.
    """
    system = _System(bags.shares, bags.weights, ties, ridge, smoothing)
    deviations = bags.groups.averages() @ X
    overall = bags.weights @ deviations / bags.weights.sum()
    deviations -= overall
    common = class_means(X, bags, ridge) - overall
    parts = bags.groups.sizes[:, None] * bags.shares
    parts = np.vstack([parts, np.where(parts.sum(axis=0) > 0, 0.0, 1.0)])
    parts /= parts.sum(axis=0)

    means, n_iter, converged = np.empty_like(common), 0, True
    width = max(1, _BLOCK_CELLS // parts.size)
    for first in range(0, X.shape[1], width):
        block = slice(first, first + width)
        change, steps, done = system.solve(deviations[:, block], common[:, block], max_iter)
        means[:, block] = common[:, block] + np.einsum("kh,khd->hd", parts, change)
        n_iter, converged = max(n_iter, steps), converged and done
    return SmoothMeans(overall + means, n_iter, converged)


@dataclass
class _System:
    """The normal equations of the class means of all bags and of the hub, for every feature.

    Unknowns have the shape (n_bags + 1, n_classes, n_features).
    """

    shares: FloatArray
    weights: FloatArray
    ties: AnyArray
    ridge: float
    smoothing: float

    def __post_init__(self) -> None:
        c = self.shares.shape[1]
        weighted = self.shares * self.weights[:, None]
        # A row without data for the hub, so that it can be treated like a bag.
        self._shares = np.vstack([self.shares, np.zeros(c)])[:, :, None]
        self._weighted = np.vstack([weighted, np.zeros(c)])[:, :, None]
        self._degrees = self.smoothing * self.ties.sum(axis=1)[:, None, None]
        self._diagonal = self._degrees.copy()
        self._diagonal[-1] += self.ridge
        self._gains = (self._weighted * self._shares).sum(axis=1, keepdims=True) + self._diagonal
        self._common = np.linalg.pinv(
            weighted.T @ self.shares + self.ridge * np.eye(c), rcond=1e-12, hermitian=True
        )

    def times(self, V: FloatArray) -> FloatArray:
        """Return the product of the matrix with V."""
        mixtures = (self._shares * V).sum(axis=1, keepdims=True)
        tied = (self.ties @ V.reshape(len(V), -1)).reshape(V.shape)
        return np.asarray(self._weighted * mixtures + self._diagonal * V - self.smoothing * tied)

    def preconditioned(self, R: FloatArray) -> FloatArray:
        """Return an approximate solution, by bag and for all bags together.

        The first part inverts every bag's block, a multiple of the identity plus w_k π_k π_kᵀ. The
        second solves for one change of the class means that is common to all bags, with the matrix
        of MeanMap; without it, strong ties would let changes creep from bag to bag.
        """
        mixtures = (self._shares * R).sum(axis=1, keepdims=True)
        alone = (R - self._weighted * (mixtures / self._gains)) / self._diagonal
        return np.asarray(alone + self._common @ R.sum(axis=0))

    def solve(
        self, deviations: FloatArray, common: FloatArray, max_iter: int
    ) -> tuple[FloatArray, int, bool]:
        """Return the changes of the common class means, by conjugate gradients.

        All features have the same matrix; each has step sizes of its own.
        """
        R = np.empty((len(self._shares), *common.shape))
        R[:-1] = self._weighted[:-1] * (deviations - self.shares @ common)[:, None, :]
        R[-1] = -self.ridge * common
        V, P, size = np.zeros_like(R), np.zeros_like(R), np.ones(common.shape[1])
        goal = np.zeros(common.shape[1])
        for step in range(max_iter + 1):
            Q = self.preconditioned(R)
            last, size = size, (R * Q).sum(axis=(0, 1))
            if step == 0:
                goal = _TOLERANCE**2 * size
            if (size <= goal).all():
                return V, step, True
            P = Q + np.divide(size, last, out=np.zeros_like(size), where=last > 0) * P
            product = self.times(P)
            curvature = (P * product).sum(axis=(0, 1))
            # A feature that is solved already has neither a residual nor a direction.
            alpha = np.divide(size, curvature, out=np.zeros_like(size), where=curvature > 0)
            V += alpha * P
            R -= alpha * product
        return V, max_iter, False
