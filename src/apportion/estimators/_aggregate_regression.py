"""Gaussian process regression of counts, which are sums of labels over bags, for one kernel.

The model is that of `AggregateGP`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import logsumexp, softmax

from apportion._utils.groups import Groups
from apportion._utils.memory import refuse_if_too_large
from apportion._utils.typing import FloatArray
from apportion.estimators._feature_maps import MappedRows

MANY_ROWS = 5000
"""Of more rows, a sample of about this size tells the variance of the features."""

_SHARES = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
"""The grid of θ, the share of the labels' variance that the rows explain."""


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
    """Sums of features over bags.

    Attributes
    ----------
    sums : array of shape (n_bags, n_features)
        The sums, dense or sparse.
    mean : ndarray of shape (n_features,)
        The mean over all rows.
    variance : float
        The sum of the features' variances.
    explained : float
        This variance as a share of that of the kernel: less than 1 for Nyström features.
    """

    sums: Any
    mean: FloatArray
    variance: float
    explained: float


def bag_sums(rows: MappedRows, groups: Groups) -> BagSums:
    """Return the sums over the rows in bags; the variances from a sample of many rows."""
    refuse_if_too_large(
        f"The sums of {rows.map.cells} features over {groups.n_groups} bags",
        3 * 8 * rows.map.cells * groups.n_groups,
        "a smaller max_rank or n_estimators",
    )
    sums = rows.sums(groups)
    inside = np.flatnonzero(groups.codes >= 0)
    mean = np.asarray(sums.sum(axis=0)).ravel() / len(inside)
    sample = inside[:: -(-len(inside) // MANY_ROWS)]
    values = rows.of(sample)
    cells = values.data if sparse.issparse(values) else values.ravel()
    variance = float(cells @ cells) / len(sample) - float(mean @ mean)
    whole = rows.map.mean_square(rows.X[sample]) - float(mean @ mean)
    return BagSums(sums, mean, variance, min(variance / whole, 1.0) if whole > 0 else 0.0)


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
    """What one kernel says: the posterior mean of g, the log evidence and the mean of θ.

    The posterior mean is φ(x)·weights + intercept.
    """

    weights: FloatArray
    intercept: FloatArray
    log_evidence: float
    explained_share: float


def regress(rows: MappedRows, groups: Groups, totals: CenteredTotals) -> Posterior | None:
    """Return the posterior for one kernel, averaged over θ; None if it sees no difference of rows.

    In the eigenvectors of B, `θ B + (1 - θ) I` is diagonal, so that one decomposition serves all θ.
    What Nyström features leave out of a kernel counts as noise, as in E. Snelson, Z. Ghahramani,
    "Sparse Gaussian Processes using Pseudo-inputs", 2006, but with its mean over rows.
    """
    sums = bag_sums(rows, groups)
    if sums.variance <= 1e-10 * (sums.variance + float(sums.mean @ sums.mean)):
        return None
    in_bags = sparse.issparse(sums.sums) or groups.n_groups <= len(sums.mean)
    spectrum = (spectrum_of_bags if in_bags else spectrum_of_features)(sums, groups.sizes, totals)
    shares = sums.explained * _SHARES
    evidence = log_evidences(spectrum, totals, shares)
    weights = softmax(evidence)
    shrinkage = shares / (np.multiply.outer(spectrum.eigenvalues, shares) + 1.0 - shares)
    t = (shrinkage @ weights)[:, None] * spectrum.coordinates * totals.units
    w = spectrum.weights_of(t)
    return Posterior(
        w,
        -sums.mean @ w,
        float(logsumexp(evidence) - np.log(len(evidence))),
        float(weights @ shares),
    )


def log_evidences(spectrum: Spectrum, totals: CenteredTotals, shares: FloatArray) -> FloatArray:
    """Return the log evidence of every share θ, minus that of θ = 0."""
    n_classes, residuals = int((totals.units > 0).sum()), totals.residuals
    explained = (spectrum.coordinates**2).sum(axis=1)
    rest = float((residuals**2).sum()) - float(explained.sum())
    variances = np.multiply.outer(shares, spectrum.eigenvalues) + (1.0 - shares)[:, None]
    gain = ((1.0 - 1.0 / variances) * explained).sum(axis=1) + (1.0 - 1.0 / (1.0 - shares)) * rest
    n_others = len(residuals) - len(explained)
    volume = np.log(variances).sum(axis=1) + n_others * np.log1p(-shares)
    return np.asarray(0.5 * (gain / max(n_classes, 1) - volume) * max(n_classes - 1, 0))
