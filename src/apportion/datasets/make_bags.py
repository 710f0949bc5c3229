"""Making bags out of labeled data, for experiments."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from datetime import timedelta
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from apportion._io.class_tables import read_shares
from apportion._io.identifiers import as_vector, factorize, is_duration, seconds
from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.supervision.totals import Totals, sorted_classes

STRATEGIES = ("random", "proportions", "feature", "cluster", "time")


def make_bags(
    X: Any,
    y: Any,
    n_bags: int | None = None,
    *,
    proportions: Any = None,
    sizes: Sequence[int] | None = None,
    strategy: str | None = None,
    feature: int | None = None,
    time: Any = None,
    period: float | timedelta | None = None,
    groups: Any = None,
    classes: Sequence[Hashable] | None = None,
    random_state: Any = None,
) -> tuple[IntArray, Totals]:
    """Return bags over labeled rows, and their exact totals.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features) or None
        Rows; only the strategies `"feature"` and `"cluster"` look at them.
    y : array-like of shape (n_samples,) or (n_samples, n_classes)
        True labels; or each row's shares of the classes, whose sums are the bags' masses.
    n_bags : int, optional
        The number of bags. Bags of `"random"`, `"feature"` and `"time"` are of equal size.
    proportions : array-like of shape (n_bags,) or (n_bags, n_classes), optional
        The shares of the classes in each bag, or that of the second of two classes. The columns
        of a dataframe are classes, those of an array are the classes in sorted order.
    sizes : sequence of int, optional
        The bags' numbers of rows, instead of equal ones.
    strategy : {"random", "proportions", "feature", "cluster", "time"}, optional
        How rows come to their bags; by default `"proportions"` where these are given, otherwise
        `"random"`.

        - `"random"`: dealt at random.
        - `"proportions"`: dealt at random within each class, so that bag k gets the share
          `proportions[k]` of its rows, rounded up or down such that no row is left over.
        - `"feature"`: rows in the order of one feature, cut into bags: what a bag holds depends
          on X.
        - `"cluster"`: the clusters of k-means.
        - `"time"`: consecutive rows, cut into bags of equal size, of `sizes`, or of `period`.
    feature : int, optional
        The column of X for `"feature"`; by default the first.
    time : array-like of shape (n_samples,), optional
        When each row was recorded, for `"time"`; by default rows are in the order of time.
    period : float or timedelta, optional
        For `"time"`, instead of `n_bags`: the time a bag covers, in the unit of `time`, counted
        from 0; in seconds where `time` holds dates.
    groups : array-like of shape (n_samples,), optional
        For `"time"` with a `period`: whose rows they are; no bag holds rows of two groups.
    classes : sequence, optional
        The classes: all, where some may be absent from `y`; the columns' names, where `y` holds
        shares.
    random_state : int, RandomState or None, default=None
        Deals the rows and starts the clusters.

    Returns
    -------
    bags : ndarray of shape (n_samples,)
        Each row's bag, 0 … n_bags - 1.
    totals : Totals
        The shares that the bags really have.

    Examples
    --------
    >>> y = [0, 0, 1, 1, 1, 0]
    >>> bags, totals = make_bags(None, y, proportions=[1 / 3, 2 / 3], random_state=0)
    >>> totals.lower.round(2)
    array([[0.67, 0.33],
           [0.33, 0.67]])
    >>> make_bags(None, y, strategy="time", time=[0, 20, 40, 60, 80, 100], period=60)[0]
    array([0, 0, 0, 1, 1, 1])
    """
    strategy = _strategy(strategy, n_bags, proportions, sizes, period)
    _refuse_unused(strategy, feature=feature, time=time, groups=groups, period=period)
    n_samples = len(y)
    rng = check_random_state(random_state)
    if strategy == "cluster":
        bags = KMeans(n_bags, n_init=10, random_state=rng).fit_predict(_rows(X, n_samples))
    elif period is not None:
        bags = _periods(time, period, groups, n_samples)
    elif strategy == "proportions":
        counts = _sizes(n_samples, len(proportions), sizes)
        bags = _deal(y, proportions, counts, classes, rng)
    elif strategy == "random":
        in_turn = None if n_bags is None else np.arange(n_samples) % n_bags
        bags = rng.permutation(_in_a_row(n_samples, n_bags, sizes) if in_turn is None else in_turn)
    else:
        along = _rows(X, n_samples)[:, feature or 0] if strategy == "feature" else time
        bags = np.empty(n_samples, dtype=np.intp)
        order = np.argsort(_moments(along, strategy, n_samples), kind="stable")
        bags[order] = _in_a_row(n_samples, n_bags, sizes)
    bags = bags.astype(np.intp)
    return bags, Totals.from_labels(y, bags, classes=classes)


def _strategy(
    strategy: str | None, n_bags: int | None, proportions: Any, sizes: Any, period: Any
) -> str:
    """Return the strategy that is meant, or say which parameters do not go together."""
    if strategy is None:
        strategy = "random" if proportions is None else "proportions"
    if strategy not in STRATEGIES:
        raise ValueError(
            f"The 'strategy' parameter of make_bags must be one of {STRATEGIES}. Got {strategy!r}."
        )
    if (strategy == "proportions") != (proportions is not None):
        raise ValueError(
            "Give proportions with strategy='proportions', and with no other. "
            f"Got strategy={strategy!r} and proportions={proportions!r}."
        )
    if strategy == "cluster" and sizes is not None:
        raise ValueError("Clusters have the sizes they have: leave out sizes.")
    if period is not None and strategy != "time":
        raise ValueError(f"A period goes with strategy='time'. Got strategy={strategy!r}.")
    counts = {"n_bags": n_bags, "proportions": proportions, "period": period}
    if strategy != "proportions":
        counts["sizes"] = sizes
    given = [name for name, value in counts.items() if value is not None]
    if len(given) != 1:
        raise ValueError(
            "The number of bags follows from exactly one of n_bags, proportions, sizes and period. "
            f"Got {' and '.join(given) or 'none'}."
        )
    if n_bags is not None and not (isinstance(n_bags, Integral) and n_bags >= 1):
        raise ValueError(
            f"The 'n_bags' parameter of make_bags must be a whole number from 1 on. Got {n_bags}."
        )
    return strategy


def _refuse_unused(
    strategy: str, *, feature: int | None, time: Any, groups: Any, period: Any
) -> None:
    """Refuse a parameter that the strategy would not look at."""
    for name, value, useful, what in (
        ("feature", feature, strategy == "feature", "strategy='feature'"),
        ("time", time, strategy == "time", "strategy='time'"),
        ("groups", groups, period is not None, "strategy='time' and a period"),
    ):
        if value is not None and not useful:
            raise ValueError(f"The '{name}' parameter of make_bags goes with {what}.")


def _rows(X: Any, n_samples: int) -> FloatArray:
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or len(X) != n_samples:
        raise ValueError(
            f"This strategy looks at X, which must have {n_samples} rows and some columns. "
            f"Got shape {X.shape}."
        )
    return X


def _per_row(values: Any, name: str, n_samples: int) -> AnyArray:
    values = np.asarray(values)
    if values.shape != (n_samples,):
        raise ValueError(
            f"The '{name}' parameter must have one value for each of the {n_samples} rows. "
            f"Got shape {values.shape}."
        )
    return values


def _moments(time: Any, name: str, n_samples: int) -> FloatArray:
    """Return one number per row, seconds where dates are given; by default the row's position."""
    values = _per_row(np.arange(n_samples) if time is None else time, name, n_samples)
    if values.dtype.kind == "M":
        values = np.where(np.isnat(values), np.nan, values.astype("datetime64[ns]").astype(float))
        values = values / 1e9
    moments = values.astype(np.float64)
    missing = np.flatnonzero(np.isnan(moments))
    if missing.size:
        raise ValueError(f"Row {missing[0]} has no {name}. Allowed: a value for every row.")
    return moments


def _sizes(n_samples: int, n_bags: int | None, sizes: Sequence[int] | None) -> IntArray:
    """Return the wanted numbers of rows, as equal as possible by default."""
    if sizes is None:
        assert n_bags is not None
        return np.bincount(np.arange(n_samples) % n_bags, minlength=n_bags)
    wanted = np.asarray(sizes)
    if wanted.dtype.kind not in "iu":
        raise ValueError(f"The sizes of bags must be whole numbers. Got {wanted.tolist()}.")
    if wanted.sum() != n_samples or (wanted < 0).any() or n_bags not in (None, len(wanted)):
        raise ValueError(
            f"The sizes of {'the' if n_bags is None else n_bags} bags must sum to the {n_samples} "
            f"rows. Got {wanted.tolist()}, which sum to {wanted.sum()}."
        )
    return wanted.astype(np.intp)


def _in_a_row(n_samples: int, n_bags: int | None, sizes: Sequence[int] | None) -> IntArray:
    counts = _sizes(n_samples, n_bags, sizes)
    return np.repeat(np.arange(len(counts)), counts)


def _periods(time: Any, period: Any, groups: Any, n_samples: int) -> IntArray:
    """Return the number of each row's period of time, counted over all groups."""
    length = seconds(period) if is_duration(period) else float(period)
    if not length > 0:
        raise ValueError(f"The 'period' parameter of make_bags must be positive. Got {period!r}.")
    block = np.floor(_moments(time, "time", n_samples) / length)
    whose = np.zeros(n_samples) if groups is None else factorize(groups, "group")[0]
    _per_row(whose, "groups", n_samples)
    return np.unique(np.column_stack([whose, block]), axis=0, return_inverse=True)[1].ravel()


def _deal(
    labels: Any,
    table: Any,
    sizes: IntArray,
    classes: Sequence[Hashable] | None,
    rng: np.random.RandomState,
) -> AnyArray:
    """Deal the rows of each class to bags with the wanted shares, in rounded counts."""
    if read_shares(labels) is not None:
        raise ValueError("Proportions need one label per row. Got shares of the classes.")
    codes, present = factorize(labels, "label")
    if (codes < 0).any():
        raise ValueError(f"Proportions need a label in every row. Row {np.argmin(codes)} has none.")
    known = sorted_classes(present)[0] if classes is None else as_vector(list(classes))
    named = read_shares(table) if hasattr(table, "columns") else None
    if named is not None and set(named.classes) == set(known.tolist()):
        proportions = named.values[:, [named.classes.index(label) for label in known.tolist()]]
    elif named is not None:
        raise ValueError(
            f"These proportions are of the classes {named.classes}; the data has {known.tolist()}."
        )
    else:
        proportions = np.asarray(table, dtype=np.float64)
    if proportions.ndim == 1:
        proportions = np.column_stack([1.0 - proportions, proportions])
    if len(known) != proportions.shape[1]:
        raise ValueError(
            f"These proportions need {proportions.shape[1]} classes. Got {len(known)}."
        )
    if (proportions < 0).any() or not np.allclose(proportions.sum(axis=1), 1.0):
        raise ValueError(
            "The proportions of a bag must be between 0 and 1 and sum to 1. "
            f"Got {proportions.tolist()}."
        )
    code_of = {label: code for code, label in enumerate(present)}
    members = [np.flatnonzero(codes == code_of.get(label, -1)) for label in known.tolist()]
    counts = _rounded(proportions * sizes[:, None], sizes, np.array([len(m) for m in members]))
    if counts is None:
        needed = np.rint((proportions * sizes[:, None]).sum(axis=0)).astype(int).tolist()
        raise ValueError(
            f"These proportions need {needed} rows of the classes {known.tolist()}; the data has "
            f"{[len(rows) for rows in members]}."
        )
    bags = np.empty(len(codes), dtype=np.intp)
    for rows, wanted in zip(members, counts.T, strict=True):
        bags[rng.permutation(rows)] = np.repeat(np.arange(len(sizes)), wanted)
    return bags


def _rounded(masses: FloatArray, sizes: IntArray, members: IntArray) -> IntArray | None:
    """Round a table of masses up or down so that rows sum to `sizes` and columns to `members`.

    Among all such roundings the one that rounds up the largest fractions: a transport problem,
    whose vertices are whole. None where there is no such rounding.
    """
    n_bags, n_classes = masses.shape
    down = np.floor(masses + 1e-9)
    fraction = np.maximum(masses - down, 0.0)
    by_bag = sparse.kron(sparse.eye_array(n_bags), np.ones((1, n_classes)))
    by_class = sparse.kron(np.ones((1, n_bags)), sparse.eye_array(n_classes))
    rounding = linprog(
        -fraction.ravel(),
        A_eq=sparse.vstack([by_bag, by_class]),
        b_eq=np.concatenate([sizes - down.sum(axis=1), members - down.sum(axis=0)]),
        bounds=np.column_stack([np.zeros(masses.size), (fraction > 1e-9).ravel()]),
    )
    if not rounding.success:
        return None
    return np.asarray(down + np.rint(rounding.x).reshape(masses.shape), dtype=np.intp)
