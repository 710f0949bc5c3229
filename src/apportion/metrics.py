"""Metrics of how well labels meet the totals; none of them needs true labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import kl_div

from apportion._io.class_tables import unknown_class
from apportion._io.identifiers import factorize
from apportion._utils.box_projection import nearest_totals
from apportion._utils.typing import AnyArray, FloatArray
from apportion.graphs import Graph
from apportion.supervision.bags import Bags, match_bags

__all__ = [
    "bag_majority",
    "bag_proportion_error",
    "constraint_residual",
    "proportion_deviance",
    "smoothness",
]


def bag_proportion_error(labels: Any, bags: Any, proportions: Any) -> float:
    """Return the mean over bags of how far the labels' shares are from the given ones.

    The error of a bag is the smallest share of its rows that would have to change class to meet
    the totals: `½ Σ_h |share_h - given_h|` if the totals are exact.

    Parameters
    ----------
    labels : array-like of shape (n_samples,) or (n_samples, n_classes)
        Labels, or soft labels in the sorted order of the totals' classes.
    bags : array-like of shape (n_samples,)
        Bag ids; rows in no bag do not count.
    proportions : Totals, dataframe, mapping or array
        The totals of the bags.

    Returns
    -------
    float
        The error, from 0 to 1.

    Examples
    --------
    >>> totals = {"mon": {"sit": 0.5, "walk": 0.5}}
    >>> bag_proportion_error(["sit", "sit", "sit", "walk"], ["mon"] * 4, totals)
    0.25
    """
    matched = match_bags(len(labels), bags=bags, proportions=proportions)
    return float(bag_errors(soft(labels, matched.classes), matched).mean())


def proportion_deviance(soft_labels: Any, bags: Any, proportions: Any) -> float:
    """Return the deviance of the soft labels' shares from the given ones, per row.

    `2 Σ_k n_k Σ_h π_kh log(π_kh / q_kh) / Σ_k n_k`, with given shares π and soft labels' shares q.
    This is the multinomial deviance of the bags' counts, and also their Poisson deviance, because
    both tables have the same sums. If totals are intervals, π is the allowed point nearest to q. A
    class that a bag has counts for at least half a row in q, because a missing class would have
    infinite deviance.

    Parameters
    ----------
    soft_labels : array-like of shape (n_samples, n_classes) or (n_samples,)
        Soft labels in the sorted order of the totals' classes, or labels.
    bags, proportions
        See `bag_proportion_error`.

    Returns
    -------
    float
        The deviance, at least 0.

    Examples
    --------
    >>> totals = {"mon": {"sit": 0.5, "walk": 0.5}}
    >>> round(proportion_deviance(["sit", "sit", "sit", "walk"], ["mon"] * 4, totals), 3)
    0.288
    """
    matched = match_bags(len(soft_labels), bags=bags, proportions=proportions)
    deviances = bag_deviances(soft(soft_labels, matched.classes), matched)
    return float(deviances.sum() / max(matched.groups.sizes.sum(), 1.0))


def constraint_residual(soft_labels: FloatArray, bags: Any, proportions: Any) -> float:
    """Return the largest violation of a bag's class total, relative to the bag's size.

    Parameters
    ----------
    soft_labels : ndarray of shape (n_samples, n_classes)
        Soft labels, classes in sorted order.
    bags, proportions
        See `bag_proportion_error`.

    Returns
    -------
    float
        The residual, 0 if all totals are met.

    Examples
    --------
    >>> import numpy as np
    >>> F = np.array([[1.0, 0.0], [0.6, 0.4]])
    >>> round(constraint_residual(F, [0, 0], np.array([[0.5, 0.5]])), 3)
    0.3
    """
    matched = match_bags(len(soft_labels), bags=bags, proportions=proportions)
    if np.ndim(soft_labels) != 2:
        raise ValueError("Soft labels need two dimensions, rows and classes.")
    violation = np.abs(mass_difference(soft(soft_labels, matched.classes), matched))
    return float((violation / matched.groups.sizes[:, None]).max(initial=0.0))


def smoothness(labels: Any, graph: Graph) -> float:
    """Return (1/n) Σ_ij s_ij 1[y_i = y_j] on a fitted graph, which is 1 if all neighbors agree.

    For two classes this is an increasing function of the paper's f̄ᵀSf̄.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        The labels of the fitted rows.
    graph : Graph
        The fitted graph.

    Returns
    -------
    float
        The smoothness, at most 1.

    Examples
    --------
    >>> import numpy as np
    >>> from apportion import KNNGraph
    >>> graph = KNNGraph(n_neighbors=1).fit(np.array([[0.0], [0.1], [5.0], [5.1]]))
    >>> smoothness(["a", "a", "b", "b"], graph)
    1.0
    """
    codes, classes = factorize(labels, "label")
    return graph.smoothness(np.eye(len(classes) + 1)[codes][:, : len(classes)])


def bag_majority(bags: Any, proportions: Any) -> AnyArray:
    """Label every row with the most frequent class of its bag, as a baseline.

    Among equal shares the first class is taken. Rows in no bag get the most frequent class overall.

    Parameters
    ----------
    bags, proportions
        See `bag_proportion_error`.

    Returns
    -------
    ndarray of shape (n_samples,)
        The labels.

    Examples
    --------
    >>> bag_majority(["a", "a", "b", None], {"a": {"x": 0.9, "y": 0.1}, "b": {"x": 0, "y": 1}})
    array(['x', 'x', 'y', 'x'], dtype='<U1')
    """
    matched = match_bags(len(bags), bags=bags, proportions=proportions)
    return np.asarray(matched.classes[np.argmax(matched.prior(), axis=1)])


def soft(labels: Any, classes: AnyArray) -> FloatArray:
    """Return labels as one-hot rows; soft labels are returned unchanged."""
    if np.ndim(labels) == 2:
        F = np.asarray(labels, dtype=np.float64)
        if F.shape[1] != len(classes):
            raise ValueError(
                f"Soft labels need one column for each of the {len(classes)} classes. "
                f"Got shape {F.shape}."
            )
        return F
    codes, labels_found = factorize(labels, "label")
    position = {label: h for h, label in enumerate(classes.tolist())}
    for label in labels_found:
        if label not in position:
            raise unknown_class(f"label {label!r}", list(position))
    c = len(position)
    positions = np.array([*(position[label] for label in labels_found), c], dtype=np.intp)
    return np.eye(c + 1)[positions[codes]][:, :c]


def mass_difference(F: FloatArray, bags: Bags) -> FloatArray:
    """Return the soft labels' mass minus the nearest allowed mass, per bag and class."""
    sums = bags.groups.sum(F)
    return np.asarray(sums - np.clip(sums, bags.lower, bags.upper))


def bag_errors(F: FloatArray, bags: Bags) -> FloatArray:
    """Return the smallest share of each bag's rows that would have to change class."""
    return rows_to_change(mass_difference(F, bags)) / np.maximum(bags.groups.sizes, 1.0)


def bag_deviances(F: FloatArray, bags: Bags) -> FloatArray:
    """Return each bag's deviance, `2 n_k Σ_h π log(π/q) - π + q`."""
    sizes = np.maximum(bags.groups.sizes, 1.0)[:, None]
    masses = bags.groups.sum(F)
    given = nearest_totals(masses, bags.lower, bags.upper, masses.sum(axis=1)) / sizes
    shares = np.where(given > 0, np.maximum(masses, 0.5), masses) / sizes
    return np.asarray(2.0 * sizes[:, 0] * kl_div(given, shares).sum(axis=1))


def rows_to_change(difference: FloatArray) -> FloatArray:
    """Return how many rows of each bag must change class: the larger of excess and lack."""
    excess = np.maximum(difference, 0.0).sum(axis=1)
    lack = np.maximum(-difference, 0.0).sum(axis=1)
    return np.asarray(np.maximum(excess, lack))
