"""Making bags out of labelled data, for experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from apportion._typing import AnyArray, IntArray
from apportion.totals import Totals


def make_bags(
    y: Any,
    n_bags: int | None = None,
    *,
    proportions: Sequence[float] | None = None,
    random_state: Any = None,
) -> tuple[IntArray, Totals]:
    """Return bags of equal size over labelled rows, and their exact totals.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        True labels.
    n_bags : int, optional
        The number of bags; rows go to bags at random.
    proportions : sequence of float, optional
        For two classes, instead of `n_bags`: the share of the second class in each bag. Counts
        are rounded, and the rows of each class are dealt at random.
    random_state : int, RandomState or None, default=None
        Deals the rows.

    Returns
    -------
    bags : ndarray of shape (n_rows,)
        Each row's bag, 0 … n_bags - 1.
    totals : Totals
        The shares that the bags really have.

    Examples
    --------
    >>> bags, totals = make_bags([0, 0, 1, 1, 1, 0], proportions=[1 / 3, 2 / 3], random_state=0)
    >>> totals.lower.round(2)
    array([[0.67, 0.33],
           [0.33, 0.67]])
    """
    labels = np.asarray(y)
    rng = check_random_state(random_state)
    if n_bags is not None and proportions is None:
        bags = rng.permutation(np.arange(len(labels)) % n_bags)
    elif proportions is not None and n_bags is None:
        bags = _deal(labels, np.asarray(proportions, dtype=np.float64), rng)
    else:
        raise ValueError("Give either n_bags or proportions.")
    return bags.astype(np.intp), Totals.from_labels(labels, bags)


def _deal(labels: AnyArray, proportions: AnyArray, rng: np.random.RandomState) -> AnyArray:
    """Deal the rows of two classes to bags of equal size with the wanted shares."""
    classes = np.unique(labels)
    if len(classes) != 2:
        raise ValueError(f"proportions need two classes. Got {len(classes)}.")
    n_bags = len(proportions)
    sizes = np.bincount(np.arange(len(labels)) % n_bags, minlength=n_bags)
    second = np.rint(proportions * sizes).astype(np.intp)
    for label, counts in zip(classes, (sizes - second, second), strict=True):
        if counts.sum() != (labels == label).sum() or (counts < 0).any():
            raise ValueError(
                f"These proportions need {counts.sum()} rows of class {label!r}; the data has "
                f"{(labels == label).sum()}."
            )
    bags = np.empty(len(labels), dtype=np.intp)
    for label, counts in zip(classes, (sizes - second, second), strict=True):
        rows = rng.permutation(np.flatnonzero(labels == label))
        bags[rows] = np.repeat(np.arange(n_bags), counts)
    return bags
