"""How well labels fit the totals, without a look at the true labels."""

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


def bag_proportion_error(labels: Any, bags: Any, proportions: Any) -> float:
    """Return how far the labels' shares are from the given ones, as a mean over bags.

    The error of one bag is the smallest share of its rows that would have to change class to meet
    the totals: `½ Σ_h |share_h - given_h|` where totals are exact.

    Parameters
    ----------
    labels : array-like of shape (n_samples,) or (n_samples, n_classes)
        Labels, or soft labels in the sorted order of the totals' classes.
    bags : array-like of shape (n_samples,)
        Bag ids; rows in no bag do not count.
    proportions : Totals, dataframe, mapping or array
        The bags' totals.

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

    `2 Σ_k n_k Σ_h π_kh log(π_kh / q_kh) / Σ_k n_k`, with given shares π and soft labels' shares q:
    the multinomial deviance of the bags' counts, and their Poisson deviance too, as both tables
    have the same sums. Where totals are intervals, π is the allowed point nearest to q. Of a class
    that a bag does have, less than half a row counts as half a row, or one class forgotten would
    weigh infinitely.

    Parameters
    ----------
    soft_labels : array-like of shape (n_samples, n_classes) or (n_samples,)
        Soft labels in the sorted order of the totals' classes, or labels.
    bags, proportions
        As in `bag_proportion_error`.

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
    """Return the largest breach of a bag's class mass, relative to the bag's size.

    Parameters
    ----------
    soft_labels : ndarray of shape (n_samples, n_classes)
        Soft labels, classes in sorted order.
    bags, proportions
        As in `bag_proportion_error`.

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
    breach = np.abs(mass_difference(soft(soft_labels, matched.classes), matched))
    return float((breach / matched.groups.sizes[:, None]).max(initial=0.0))


def smoothness(labels: Any, graph: Graph) -> float:
    """Return (1/n) Σ_ij s_ij 1[y_i = y_j] on a fitted graph: 1 when all neighbors agree.

    For two classes this is an increasing function of the paper's f̄ᵀSf̄.

    Examples
    --------
    >>> import numpy as np
    >>> from apportion.graphs import (KNNGraph)
    >>> graph = KNNGraph(n_neighbors=1).fit(np.array([[0.0], [0.1], [5.0], [5.1]]))
    >>> smoothness(["a", "a", "b", "b"], graph)
    1.0
    """
    codes, found = factorize(labels, "label")
    return graph.smoothness(np.eye(len(found) + 1)[codes][:, : len(found)])


def bag_majority(bags: Any, proportions: Any) -> AnyArray:
    """Return the baseline that labels every row by its bag's most frequent class.

    Equal shares go to the first class; rows in no bag get the most frequent class of all.

    Examples
    --------
    >>> bag_majority(["a", "a", "b", None], {"a": {"x": 0.9, "y": 0.1}, "b": {"x": 0, "y": 1}})
    array(['x', 'x', 'y', 'x'], dtype='<U1')
    """
    matched = match_bags(len(bags), bags=bags, proportions=proportions)
    return np.asarray(matched.classes[np.argmax(matched.prior(), axis=1)])


def soft(labels: Any, classes: AnyArray) -> FloatArray:
    """Return labels as one-hot rows; soft labels pass as they are."""
    if np.ndim(labels) == 2:
        F = np.asarray(labels, dtype=np.float64)
        if F.shape[1] != len(classes):
            raise ValueError(
                f"Soft labels need one column for each of the {len(classes)} classes. "
                f"Got shape {F.shape}."
            )
        return F
    codes, found = factorize(labels, "label")
    known = {label: h for h, label in enumerate(classes.tolist())}
    for label in found:
        if label not in known:
            raise unknown_class(f"label {label!r}", list(known))
    places = np.array([known[label] for label in found] + [len(known)], dtype=np.intp)
    return np.eye(len(known) + 1)[places[codes]][:, : len(known)]


def mass_difference(F: FloatArray, bags: Bags) -> FloatArray:
    """Return, per bag and class, the soft labels' mass minus the nearest mass that is allowed."""
    sums = bags.groups.sum(F)
    return np.asarray(sums - np.clip(sums, bags.lower, bags.upper))


def bag_errors(F: FloatArray, bags: Bags) -> FloatArray:
    """Return the smallest share of each bag's rows that would have to change class."""
    return rows_to_change(mass_difference(F, bags)) / np.maximum(bags.groups.sizes, 1.0)


def bag_deviances(F: FloatArray, bags: Bags) -> FloatArray:
    """Return each bag's deviance, `2 n_k Σ_h π log(π/q) - π + q`."""
    sizes = np.maximum(bags.groups.sizes, 1.0)[:, None]
    found = bags.groups.sum(F)
    given = nearest_totals(found, bags.lower, bags.upper, found.sum(axis=1)) / sizes
    shares = np.where(given > 0, np.maximum(found, 0.5), found) / sizes
    return np.asarray(2.0 * sizes[:, 0] * kl_div(given, shares).sum(axis=1))


def rows_to_change(difference: FloatArray) -> FloatArray:
    """Return how many rows of each bag must change class: its excess or its lack, the larger."""
    excess = np.maximum(difference, 0.0).sum(axis=1)
    lack = np.maximum(-difference, 0.0).sum(axis=1)
    return np.asarray(np.maximum(excess, lack))
