"""What the estimators that learn a rule for rows have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn.utils import Tags, check_random_state

from apportion._core.projection import reconcile
from apportion._utils.hashing import row_hashes, scramble
from apportion._utils.threads import with_reproducible_sums
from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.estimators._base import BagClassifier, all_or_nothing
from apportion.estimators._kernels import (
    KERNELS,
    Expansion,
    Kernel,
    center_of,
    moved,
    resolve_kernel,
)
from apportion.exceptions import compared
from apportion.metrics import bag_deviances
from apportion.supervision.bags import Bags


class InductiveClassifier(BagClassifier):
    """A rule learned from bags; labels of the fitted rows come from the rule and the bags' totals.

    `predict` without totals is the rule alone. Rows and bags are learned from in an order that
    their features fix, so that no answer depends on the order of the input.
    """

    random_state: Any

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, *, bags: Any = None, proportions: Any = None) -> Self:
        """Learn the rule, and label the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; similarities of all pairs with a precomputed kernel.
        y : array-like of shape (n_samples,), optional
            Labels of some rows; None or NaN = not known. They are kept.
        bags : array-like of shape (n_samples,), optional
            Bag ids, anything hashable; missing = in no bag.
        proportions : Totals, dataframe, mapping or array, optional
            The bags' totals: see `Totals`.

        Returns
        -------
        self
            The fitted estimator.
        """
        self._check_parameters()
        self._require_choice("decode", ("quota", "threshold"))
        matched = self._matched(X, y, bags, proportions)
        checked = self._checked_rows(X, reset=True)
        if not self._sees_features:
            _refuse_unless_symmetric(checked)
        self._warn_of_design(matched)
        seed = check_random_state(self.random_state).randint(2**31)
        start = self._start(X, y, bags, proportions, matched, seed)

        rows, order = feature_order(checked if self._sees_features else None, matched)
        self._learn(
            checked[rows],
            matched.take(rows, order),
            None if start is None else start[rows],
            seed,
        )
        self.classes_ = matched.classes
        F = reconcile(self._soft_labels(checked), matched)
        self._store(matched, F, self._quota(checked, F, matched))
        return self

    def _check_parameters(self) -> None:
        """Raise where a parameter is not what it may be."""
        raise NotImplementedError

    def _start(
        self, X: Any, y: Any, bags: Any, proportions: Any, matched: Bags, seed: int
    ) -> FloatArray | None:
        """Return soft labels to start from, for methods that have a start."""
        return None

    def _learn(self, X: FloatArray, bags: Bags, start: FloatArray | None, seed: int) -> None:
        """Learn the rule from rows and bags in feature order."""
        raise NotImplementedError


class KernelClassifier(InductiveClassifier):
    """A rule f(x) = Σ_j k(x - m, x_j - m) β_j + b, with m the mean of the fitted rows.

    Sums of squares and products of rows far from 0 would hold what rows have in common, and
    lose what tells them apart. A kernel of the user's, and a precomputed one, see no center.
    """

    kernel: Any
    gamma: Any
    degree: float
    coef0: float

    expansion_: Expansion

    @property
    def _sees_features(self) -> bool:
        return not (isinstance(self.kernel, str) and self.kernel == "precomputed")

    @property
    def coef_(self) -> FloatArray:
        """The weights of the features, one row a function; linear kernel only."""
        if not self.expansion_.kernel.linear:
            raise AttributeError("coef_ is only there with kernel='linear'.")
        return self.expansion_.coefficients

    @property
    def intercept_(self) -> FloatArray:
        """The intercepts, one a function; with a linear kernel, of `X @ coef_.T`."""
        f = self.expansion_
        return f.constant if f.kernel.linear else f.intercept

    def _check_kernel(self) -> None:
        if not callable(self.kernel):
            self._require_choice("kernel", KERNELS)
        self._require_number("gamma", 0.0, open_=True, or_word="scale")
        self._require_number("degree", 0.0)
        self._require_number("coef0", -np.inf)

    def _learn(self, X: FloatArray, bags: Bags, start: FloatArray | None, seed: int) -> None:
        as_they_are = callable(self.kernel) or not self._sees_features
        center = None if as_they_are else center_of(X)
        X = moved(X, center)
        kernel = resolve_kernel(self.kernel, self.gamma, self.degree, self.coef0, X)
        f = self._expansion(X, kernel, bags, seed)
        self.expansion_ = replace(f.compact(), center=center)

    def _expansion(self, X: FloatArray, kernel: Kernel, bags: Bags, seed: int) -> Expansion:
        """Return the rule for rows that are centerd, as X is."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = not self._sees_features
        return tags


class MarginClassifier(KernelClassifier):
    """A rule of one function for two classes, or one a class against the rest."""

    slope_: float

    @with_reproducible_sums
    def decision_function(self, X: Any) -> FloatArray:
        """Return the functions' values: the larger, the surer of the class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows; with a precomputed kernel, their similarities to the fitted rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one value, positive for `classes_[1]`.
        """
        X = self._checked_new_rows(X)
        f = self.expansion_(X)
        return f if f.shape[1] > 1 else f.sum(axis=1)

    def _soft_labels(self, X: Any) -> FloatArray:
        """Return sigmoids of the functions, made to sum to one."""
        return sigmoids(self.expansion_(X), self.slope_)

    def _most_likely(self, X: Any) -> IntArray:
        f = self.expansion_(X)
        return np.argmax(f, axis=1) if f.shape[1] > 1 else (f.sum(axis=1) > 0).astype(np.intp)


def tasks_of(n_classes: int) -> list[int]:
    """Return the classes that one-vs-rest learns: the second of two, else each; none of one."""
    return list(range(n_classes)) if n_classes > 2 else list(range(1, n_classes))


def sigmoids(f: FloatArray, slope: float) -> FloatArray:
    """Return class probabilities σ(slope · f), made to sum to one."""
    if f.shape[1] == 0:
        return np.ones((len(f), 1))
    if f.shape[1] == 1:
        positive = expit(slope * f)
        return np.hstack([1.0 - positive, positive])
    # Divided by the row's largest, no row sums to 0.
    logs = -np.logaddexp(0.0, -slope * f)
    relative = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(relative / relative.sum(axis=1, keepdims=True))


def calibrated_slope(f: FloatArray, bags: Bags) -> float:
    """Return the slope of the sigmoids whose bag shares have the least deviance from the totals.

    No label is needed for it. The sign of f, and so every label, stays.
    """
    if not len(bags.ids):
        return 1.0

    def deviance(log_slope: float) -> float:
        return float(bag_deviances(sigmoids(f, float(np.exp(log_slope))), bags).sum())

    found = minimize_scalar(deviance, bounds=(np.log(0.1), np.log(30.0)), method="bounded")
    return float(np.exp(found.x))


def feature_order(X: FloatArray | None, bags: Bags) -> tuple[IntArray, IntArray]:
    """Return an order of the rows, and of the bags, that does not depend on where they stand.

    Rows go by their features, equal rows by their bags; bags go by the features of their rows,
    equal ones by their totals. Without features rows and bags stay.
    """
    if X is None:
        return np.arange(bags.n_samples), np.arange(len(bags.ids))
    hashes = row_hashes(X)
    contents: AnyArray = np.zeros(len(bags.ids) + 1, dtype=np.uint64)
    np.add.at(contents, bags.codes, scramble(hashes))
    totals = np.hstack([bags.lower, bags.upper])
    nameless = np.hstack([np.sort(bags.lower, axis=1), np.sort(bags.upper, axis=1)])
    order = np.lexsort((row_hashes(totals), row_hashes(nameless), contents[:-1]))
    place = np.append(np.argsort(order), -1)
    positions = scramble(np.arange(len(hashes), dtype=np.uint64))
    return np.lexsort((positions, bags.given >= 0, place[bags.codes], hashes)), order


def _refuse_unless_symmetric(gram: FloatArray) -> None:
    if gram.shape[0] != gram.shape[1]:
        raise ValueError(
            f"A precomputed kernel must be a square matrix of all pairs of rows. "
            f"Got shape {gram.shape}."
        )
    off = np.abs(gram - gram.T)
    i, j = np.unravel_index(np.argmax(off), off.shape)
    if off[i, j] > 1e-6 * np.abs(gram).max():
        one_way, other = compared(gram[i, j], gram[j, i])
        raise ValueError(
            f"A precomputed kernel must be symmetric. Rows {i} and {j} have {one_way} one way "
            f"and {other} the other. Hint: K = (K + K.T) / 2."
        )
