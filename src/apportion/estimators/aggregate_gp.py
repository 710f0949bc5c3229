"""Gaussian process regression of bag totals, averaged over kernels by their evidence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import logsumexp, softmax

from apportion._io.archive import Stored
from apportion._io.model_state import State, StateReader
from apportion._utils.groups import Groups
from apportion._utils.parameters import integer, parameter_error
from apportion._utils.typing import FloatArray
from apportion.estimators._base import training_rows
from apportion.estimators._feature_maps import (
    FeatureMap,
    Function,
    Standardization,
    feature_maps,
    function_state,
    restored_function,
)
from apportion.estimators._inductive import InductiveClassifier, known_bags
from apportion.estimators._kernels import Expansion, row_blocks
from apportion.supervision.bags import Bags

_NAMES = ("linear", "rbf", "laplacian", "trees")

_SHARES = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
"""The grid of θ, the share of the labels' variance that the rows explain."""

_TEMPERED = 0.5
"""The power of a kernel's evidence in its weight: labels are not normal, so that the evidence is
too sure of itself."""

_LEAST_WEIGHT = 1e-3
"""A kernel of smaller weight is left out."""

_LEAST_PROBABILITY = 1e-3
"""The smallest probability before normalization; a regression may leave [0, 1]."""

_MANY_ROWS = 5000
_RANKS = (1000, 300)
"""The landmarks of a kernel up to so many rows, and of more rows."""

_MOST_DIRECTIONS = 1000
"""The largest eigenproblem; if there are both more bags and more features, landmarks replace the
features."""


class AggregateGP(InductiveClassifier):
    """Gaussian process regression of totals, averaged over kernels by their marginal likelihood.

    The label of row i is `y_ih = π̄_h + g_h(x_i) + ε_ih`, 0 or 1, with the overall share π̄_h of
    class h, `g_h ~ GP(0, θ v_h k)`, noise of variance `(1 - θ) v_h`, and `v_h = π̄_h (1 - π̄_h)`.
    The kernel k is centered and has mean 1 on the diagonal over the fitted rows, so that θ is the
    share of the labels' variance that the rows explain. A bag's counts are sums of labels. They
    have mean `n_b π̄_h` and covariance `v_h S`, `S = θ A k Aᵀ + (1 - θ) diag(n_b)`, where A sums
    over the rows of a bag. Given the counts c_h, the posterior mean of g_h is
    `argmin_g ‖g‖²_k / θ + Σ_b (c_bh - n_b π̄_h - Σ_{i in b} g(x_i))² / (n_b (1 - θ))`, that is,
    `θ k Aᵀ S⁻¹ (c_h - n π̄_h)`. The evidence `-½ Σ_h ((c_h - n π̄_h)ᵀ S⁻¹ (c_h - n π̄_h) / v_h +
    log |v_h S|)`, times (c - 1) / c because shares sum to one, weighs θ and the kernels: all
    posterior means are averaged, and nothing has to be chosen by the user or by held-out bags.
    The method assumes that rows are in bags regardless of their labels, given their features.

    Features are standardized and clipped at 3 standard deviations first, so that neither units nor
    outliers matter.

    Parameters
    ----------
    kernel : "auto", name or sequence of names, default="auto"
        Among `"linear"`, `"rbf"` (`exp(-γ‖x - z‖²)`), `"laplacian"` (`exp(-γ‖x - z‖)`), each with
        several γ, and `"trees"`, the share of totally random trees in which two rows have a leaf
        in common, for several sizes of leaves. `"auto"` is all of them.
    max_rank : "auto" or int, default="auto"
        With more rows than this, kernels of distances are replaced by their Nyström approximation
        on a sample of this many rows; the other kernels only if there are more than 1,000
        bags and features. `"auto"` is 1,000 up to 5,000 rows, else 300.
    n_estimators : int, default=200
        The number of trees of each of the kernels of trees.
    decode : {"quota", "threshold"}, default="quota"
        Label the fitted rows with exactly the counts of every bag, or every row with its most
        likely class under the totals of its bag. `predict` without totals does not use it.
    random_state : int, RandomState or None, default=None
        The seed of the trees.

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
    kernel_weights_ : dict
        The weight of each kernel, by name and scale: γ in units of the median distance, or the
        smallest size of a leaf. Kernels for which all rows are equal are left out.
    explained_share_ : float
        The posterior mean of θ; 0 if no row differs from another.
    log_evidence_ : float
        The logarithm of the marginal likelihood, averaged over kernels and θ, minus that of labels
        that do not depend on the rows.

    References
    ----------
    H. C. L. Law, D. Sejdinovic, E. Cameron, T. Lucas, S. Flaxman, K. Battle, K. Fukumizu,
    "Variational Learning on Aggregate Outputs with Gaussian Processes", NeurIPS 2018.

    J. Yang et al., "Common SNPs explain a large proportion of the heritability for human height",
    Nature Genetics 42, 2010, for the share of variance that a kernel explains.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    >>> model = AggregateGP("rbf").fit(X, bags=[0, 0, 0, 1, 1, 1], proportions=[1 / 3, 2 / 3])
    >>> model.predict([[-1.0], [6.0]]).tolist()
    [0, 1]
    """

    _allowed: ClassVar = {
        **InductiveClassifier._allowed,
        "max_rank": integer(1, "auto"),
        "n_estimators": integer(1),
    }

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        max_rank: Any = "auto",
        n_estimators: int = 200,
        decode: str = "quota",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.max_rank = max_rank
        self.n_estimators = n_estimators
        self.decode = decode
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        names = self._names
        if not names or not set(names) <= set(_NAMES):
            allowed = f"'auto', or one or several of {', '.join(map(repr, _NAMES))}"
            raise parameter_error(self, "kernel", allowed)

    @property
    def _names(self) -> tuple[Any, ...]:
        """The names of the kernels; without any if they are not names."""
        if isinstance(self.kernel, str):
            return _NAMES if self.kernel == "auto" else (self.kernel,)
        try:
            names = tuple(self.kernel)
        except TypeError:
            return ()
        return names if all(isinstance(name, str) for name in names) else ()

    def _learn(self, X: FloatArray, bags: Bags, start: FloatArray | None, seed: int) -> None:
        known = known_bags(bags)
        rows = np.flatnonzero(known.groups.codes >= 0)
        groups = Groups(known.groups.codes[rows], known.groups.n_groups)
        self._standardize = Standardization.of(X[rows])
        self._overall = bags.overall
        totals = centered_totals(groups.sizes, known.shares, known.certainty, bags.overall)
        X = self._standardize(X[rows])
        maps = feature_maps(
            X,
            self._names,
            max_rank=_RANKS[len(X) > _MANY_ROWS] if self.max_rank == "auto" else self.max_rank,
            max_directions=_MOST_DIRECTIONS if groups.n_groups > _MOST_DIRECTIONS else math.inf,
            n_estimators=self.n_estimators,
            seed=seed,
        )
        posteriors = {
            name: posterior
            for name, features in maps.items()
            if (posterior := regress(features, X, groups, totals)) is not None
        }
        self._average(posteriors)

    def _average(self, posteriors: dict[str, Posterior]) -> None:
        """Average the posterior means by their evidence; 0 without any."""
        evidence = np.array([p.log_evidence for p in posteriors.values()] or [0.0])
        shares = np.array([p.explained_share for p in posteriors.values()] or [0.0])
        weights = softmax(_TEMPERED * evidence)
        self.log_evidence_ = float(logsumexp(evidence) - np.log(len(evidence)))
        self.explained_share_ = float(weights @ shares)
        self.kernel_weights_ = dict(zip(posteriors, weights.tolist(), strict=False))
        kept = {k: w for k, w in self.kernel_weights_.items() if w >= _LEAST_WEIGHT}
        self._terms = [(w / sum(kept.values()), posteriors[k].function) for k, w in kept.items()]

    def _soft_labels(self, X: Any) -> FloatArray:
        X = self._standardize(np.asarray(X))
        P = np.tile(self._overall, (len(X), 1))
        for block in row_blocks(len(X), 1000):
            for weight, function in self._terms:
                P[block] += weight * function(X[block])
        P = np.maximum(P, _LEAST_PROBABILITY)
        return np.asarray(P / P.sum(axis=1, keepdims=True))

    def _state(self) -> State:
        arrays = {**self._standardize.state(), "overall": self._overall}
        arrays["term_weights"] = np.array([weight for weight, _ in self._terms])
        parts = {f"term{j}": function_state(term) for j, (_, term) in enumerate(self._terms)}
        return State({}, arrays, parts)

    def _restore_state(self, state: StateReader) -> None:
        state.lengths["functions"] = len(self.classes_)
        self._standardize = Standardization.from_state(state)
        self._overall = state.array("overall", Stored(("classes",), shares=True))
        form = Stored(("terms",), least=0.0, most=1.0, may_be_empty=True)
        weights = state.array("term_weights", form).tolist()
        functions = [restored_function(state.part(f"term{j}")) for j in range(len(weights))]
        self._terms = list(zip(weights, functions, strict=True))

    def _rows_in_state(self) -> dict[str, tuple[int, str]]:
        held = [term.n_training_rows for _, term in self._terms if isinstance(term, Expansion)]
        return training_rows(max(held, default=0))


class CenteredTotals(NamedTuple):
    """The bags' counts minus what the overall shares predict.

    Attributes
    ----------
    noise : ndarray of shape (n_bags,)
        The variance N_b of a count if the rows explain nothing, in units of v_h: n_b for an exact
        total.
    residuals : ndarray of shape (n_bags, n_classes)
        `(c_bh - n_b π̄_h) / √(N_b v_h)`, which have variance 1 if the rows explain nothing.
    units : ndarray of shape (n_classes,)
        The √v_h.
    """

    noise: FloatArray
    residuals: FloatArray
    units: FloatArray


def centered_totals(
    sizes: FloatArray, shares: FloatArray, certainty: FloatArray, overall: FloatArray
) -> CenteredTotals:
    """Return the counts minus their means, in units of their noise.

    A count that is known to lie in an interval of width w has an error of variance w² / 12, that of
    a uniform distribution. Bags have one noise for all classes, so that one decomposition serves
    all of them.
    """
    variances = overall * (1.0 - overall)
    units = np.sqrt(variances)
    widths = (1.0 - certainty) * sizes[:, None]
    noise = sizes + (widths**2).sum(axis=1) / max(12.0 * variances.sum(), 1e-12)
    with np.errstate(divide="ignore"):
        scale = np.where(units > 0, 1.0 / units, 0.0)
    residuals = (sizes / np.sqrt(noise))[:, None] * (shares - overall) * scale
    return CenteredTotals(noise, residuals, units)


class BagSums(NamedTuple):
    """Sums of features over bags, their mean over rows, and the sum of their variances."""

    sums: Any
    mean: FloatArray
    variance: float


def bag_sums(features: FeatureMap, X: FloatArray, groups: Groups) -> BagSums:
    """Return the sums over all rows, block by block."""
    sums: Any = None
    square = 0.0
    for block in row_blocks(len(X), min(features.width, 1000)):
        values = features(X[block])
        part = Groups(groups.codes[block], groups.n_groups).sum(values)
        sums = part if sums is None else sums + part
        cells = values.data if sparse.issparse(values) else values.ravel()
        square += float(cells @ cells)
    mean = np.asarray(sums.sum(axis=0)).ravel() / len(X)
    return BagSums(sums, mean, square / len(X) - float(mean @ mean))


class Spectrum(NamedTuple):
    """The eigenvectors u_j of the bags' kernel `B = N^-½ A k Aᵀ N^-½` with eigenvalues λ_j > 0.

    Attributes
    ----------
    eigenvalues : ndarray of shape (rank,)
        The λ_j.
    coordinates : ndarray of shape (rank, n_classes)
        The residuals in these directions.
    weights_of : callable
        Maps `Σ_j u_j t_j`, given as t, to the weights of the features, `Φᵀ Aᵀ N^-½ Σ_j u_j t_j`.
    """

    eigenvalues: FloatArray
    coordinates: FloatArray
    weights_of: Callable[[FloatArray], FloatArray]


def spectrum_of_bags(sums: BagSums, sizes: FloatArray, totals: CenteredTotals) -> Spectrum:
    """Return the spectrum from the n_bags × n_bags matrix B; the sums may be sparse."""
    roots = np.sqrt(totals.noise)
    features, mean = sums.sums, sums.mean
    # (F - n mᵀ)(F - n mᵀ)ᵀ without the difference, which would not be sparse.
    cross = np.outer(features @ mean, sizes)
    gram = features @ features.T
    gram = gram.toarray() if sparse.issparse(gram) else gram
    gram = gram - cross - cross.T + (mean @ mean) * np.outer(sizes, sizes)
    eigenvalues, U = np.linalg.eigh(gram / sums.variance / np.outer(roots, roots))

    def weights_of(t: FloatArray) -> FloatArray:
        by_bag = U @ t / roots[:, None]
        return np.asarray(features.T @ by_bag - np.outer(mean, sizes @ by_bag)) / sums.variance

    return Spectrum(np.maximum(eigenvalues, 0.0), U.T @ totals.residuals, weights_of)


def spectrum_of_features(sums: BagSums, sizes: FloatArray, totals: CenteredTotals) -> Spectrum:
    """Return the same spectrum from the n_features × n_features matrix that has it, too."""
    F = (sums.sums - np.outer(sizes, sums.mean)) / np.sqrt(totals.noise * sums.variance)[:, None]
    eigenvalues, V = np.linalg.eigh(F.T @ F)
    used = eigenvalues > 1e-12 * eigenvalues.max(initial=0.0)
    roots, V = np.sqrt(eigenvalues[used]), V[:, used]

    def weights_of(t: FloatArray) -> FloatArray:
        return np.asarray(V @ (roots[:, None] * t)) / np.sqrt(sums.variance)

    coordinates = (V.T @ (F.T @ totals.residuals)) / roots[:, None]
    return Spectrum(eigenvalues[used], coordinates, weights_of)


class Posterior(NamedTuple):
    """What one kernel says: the posterior mean of g, the log evidence and the mean of θ."""

    function: Function
    log_evidence: float
    explained_share: float


def regress(
    features: FeatureMap, X: FloatArray, groups: Groups, totals: CenteredTotals
) -> Posterior | None:
    """Return the posterior for one kernel, averaged over θ; None if it sees no difference of rows.

    In the eigenvectors of B, `θ B + (1 - θ) I` is diagonal, so that one decomposition serves all θ.
    """
    sums = bag_sums(features, X, groups)
    if sums.variance <= 1e-10 * (sums.variance + float(sums.mean @ sums.mean)):
        return None
    in_bags = sparse.issparse(sums.sums) or groups.n_groups <= features.width
    spectrum = (spectrum_of_bags if in_bags else spectrum_of_features)(sums, groups.sizes, totals)
    evidence = log_evidences(spectrum, totals.residuals)
    weights = softmax(evidence)
    shrinkage = _SHARES / (np.multiply.outer(spectrum.eigenvalues, _SHARES) + 1.0 - _SHARES)
    t = (shrinkage @ weights)[:, None] * spectrum.coordinates * totals.units
    w = spectrum.weights_of(t)
    return Posterior(
        features.function(w, -sums.mean @ w),
        float(logsumexp(evidence) - np.log(len(evidence))),
        float(weights @ _SHARES),
    )


def log_evidences(spectrum: Spectrum, residuals: FloatArray) -> FloatArray:
    """Return the log evidence of every θ of the grid, minus that of θ = 0."""
    n_classes = int(np.any(residuals != 0, axis=0).sum())
    explained = (spectrum.coordinates**2).sum(axis=1)
    rest = float((residuals**2).sum()) - float(explained.sum())
    variances = np.multiply.outer(_SHARES, spectrum.eigenvalues) + (1.0 - _SHARES)[:, None]
    gain = ((1.0 - 1.0 / variances) * explained).sum(axis=1) + (1.0 - 1.0 / (1.0 - _SHARES)) * rest
    n_others = len(residuals) - len(explained)
    volume = np.log(variances).sum(axis=1) + n_others * np.log1p(-_SHARES)
    return np.asarray(0.5 * (gain / max(n_classes, 1) - volume) * max(n_classes - 1, 0))
