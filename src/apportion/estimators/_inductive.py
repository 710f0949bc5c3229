"""The base classes of the estimators that learn a rule for rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn.utils import Tags

from apportion._core.projection import reconcile
from apportion._core.warn import warn_of_scales
from apportion._io.archive import LEAST_POSITIVE, Stored
from apportion._io.model_state import State, StateReader
from apportion._utils.groups import Groups
from apportion._utils.parameters import one_of, real
from apportion._utils.threads import with_reproducible_sums
from apportion._utils.typing import FloatArray, IntArray
from apportion.estimators._base import BagClassifier, all_or_nothing, seed_of, training_rows
from apportion.estimators._kernels import (
    KERNELS,
    Expansion,
    Kernel,
    KernelFeatures,
    center_of,
    centered,
    kernel_features,
    resolve_kernel,
)
from apportion.estimators._prepared import Prepared, back_from
from apportion.exceptions import SupervisionError
from apportion.graphs.precomputed import require_symmetric
from apportion.metrics import bag_deviances
from apportion.supervision.bags import Bags


class InductiveClassifier(BagClassifier):
    """A classifier that learns a rule; the fitted rows are labeled by the rule and their totals.

    `predict` without totals applies the rule alone. Rows and bags are sorted by their features
    before the rule is learned, so that the result does not depend on the order of the input.
    """

    random_state: Any
    start: Any = None

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, *, bags: Any = None, proportions: Any = None) -> Self:
        """Learn the rule, and label the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows; with a precomputed kernel, the similarities of all pairs of rows.
        y : array-like of shape (n_samples,), optional
            Labels of some rows, which are kept; None or NaN where unknown.
        bags : array-like of shape (n_samples,), optional
            Bag ids of any hashable type; missing for rows in no bag.
        proportions : Totals, dataframe, mapping or array, optional
            The totals of the bags; see `Totals`.

        Returns
        -------
        self
            The fitted estimator.
        """
        self._check_parameters()
        matched = self._matched(X, y, bags, proportions)
        rows = self._checked_rows(X, reset=True)
        if not self._sees_features:
            require_symmetric(rows, "A precomputed kernel", 1e-6)
        self._store_diagnosis(matched)
        seed = seed_of(self)
        start = None
        if not isinstance(self.start, str | None):
            start = self._reconciled_prior("start", X, y, bags, proportions, matched, seed)

        P = self.solve(self.prepare(rows), matched, start, seed)
        F = reconcile(P, matched)
        self._store(matched, F, self._quota(rows, F, matched))
        return self

    def prepare(self, X: FloatArray) -> Prepared:
        """Return rows for `solve`: what is computed of rows alone is then computed once.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            The rows, as numbers.

        Returns
        -------
        Prepared
            The rows.
        """
        return Prepared(X, features=self._sees_features)

    def solve(
        self, prepared: Prepared, bags: Bags, start: FloatArray | None = None, seed: int = 0
    ) -> FloatArray:
        """Learn the rule from the totals of prepared rows, and return its probabilities of them.

        This is `fit` without labels and reports: `predict_proba` knows the rule afterwards.

        Parameters
        ----------
        prepared : Prepared
            The rows.
        bags : Bags
            What is known of them.
        start : ndarray of shape (n_samples, n_classes), optional
            Soft labels to start from, for methods that do.
        seed : int
            The seed of random numbers.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The probabilities, by rules that did not see a row's bag if the method has such.
        """
        order, bags = prepared.in_order(bags)
        start = None if start is None else start[order]
        return back_from(order, self.solve_in_order(prepared, bags, start, seed))

    def solve_in_order(
        self, prepared: Prepared, bags: Bags, start: FloatArray | None = None, seed: int = 0
    ) -> FloatArray:
        """Do the same with bags, a start and probabilities in the order of the prepared rows.

        Parameters
        ----------
        prepared : Prepared
            The rows.
        bags : Bags
            What is known of them; see `Prepared.in_order`.
        start : ndarray of shape (n_samples, n_classes), optional
            Soft labels to start from, for methods that do.
        seed : int
            The seed of random numbers.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The probabilities.
        """
        P = self._learn(prepared, bags, start, seed)
        self.classes_ = bags.classes
        self.n_features_in_ = prepared.rows.shape[1]
        return self._soft_labels(prepared.rows) if P is None else P

    def _learn(
        self, prepared: Prepared, bags: Bags, start: FloatArray | None, seed: int
    ) -> FloatArray | None:
        """Learn the rule; return its probabilities of the rows, if it knows them already.

        Bags, and soft labels to start from, are in the order of the prepared rows.
        """
        raise NotImplementedError


class KernelClassifier(InductiveClassifier):
    """A rule f(x) = Σ_j k(x - m, x_j - m) β_j + b, with m the mean of the fitted rows.

    The rows are centered because the digits of large squares and products would be lost on what
    all rows have in common. Callable and precomputed kernels see the rows as they are.
    """

    _allowed: ClassVar = {
        **BagClassifier._allowed,
        "kernel": one_of(*KERNELS, kind=Callable),
        "gamma": real("scale", low=0, ends="()"),
        "degree": real(low=0),
        "coef0": real(low=-math.inf),
    }

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
        """The weights of the features, one row per function; linear kernel only."""
        if not self.expansion_.kernel.linear:
            raise AttributeError("coef_ is only available with kernel='linear'.")
        return self.expansion_.coefficients

    @property
    def intercept_(self) -> FloatArray:
        """The intercepts, one per function; with a linear kernel, those of `X @ coef_.T`."""
        f = self.expansion_
        if f.center is None or not f.kernel.linear:
            return f.intercept
        return np.asarray(f.intercept - f.coefficients @ f.center)

    def _learn(
        self, prepared: Prepared, bags: Bags, start: FloatArray | None, seed: int
    ) -> FloatArray | None:
        if self.kernel in ("rbf", "laplacian"):
            warn_of_scales(prepared.rows, getattr(self, "feature_names_in_", None))
        by_features = not callable(self.kernel) and self._sees_features
        key = id(self.kernel) if callable(self.kernel) else self.kernel  # it may not be hashable
        kernel, center, X = prepared.once(
            ("centered", by_features, key, self.gamma, self.degree, self.coef0),
            lambda: self._centered(prepared.rows, by_features),
        )
        expansion, P = self._fit_expansion(prepared, X, kernel, bags, seed)
        self.expansion_ = replace(expansion.compact(), center=center)
        return P

    def _centered(
        self, rows: FloatArray, by_features: bool
    ) -> tuple[Kernel, FloatArray | None, FloatArray]:
        """Return the kernel, the mean of the rows, and the rows without it, if it has no say."""
        center = center_of(rows) if by_features else None
        X = centered(rows, center)
        return resolve_kernel(self.kernel, self.gamma, self.degree, self.coef0, X), center, X

    def _fit_expansion(
        self, prepared: Prepared, X: FloatArray, kernel: Kernel, bags: Bags, seed: int
    ) -> tuple[Expansion, FloatArray | None]:
        """Fit the rule to centered rows; return it, and its probabilities of them if known."""
        raise NotImplementedError

    def _state(self) -> State:
        return self.expansion_.state()

    def _restore_state(self, state: StateReader) -> None:
        state.lengths["functions"] = len(self.classes_)
        self.expansion_ = Expansion.from_state(state)

    def _rows_in_state(self) -> dict[str, tuple[int, str]]:
        return training_rows(self.expansion_.n_training_rows)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = not self._sees_features
        return tags


def prepared_features(
    prepared: Prepared, kernel: Kernel, X: FloatArray, max_rank: int
) -> KernelFeatures:
    """Return the features of a kernel of prepared rows, centered if it sees them so, once."""
    key = "features", kernel.key, max_rank
    return prepared.once(key, lambda: kernel_features(kernel, X, max_rank))


class MarginClassifier(KernelClassifier):
    """A rule of one function for two classes, or of one function per class against the rest."""

    slope_: float

    @with_reproducible_sums
    def decision_function(self, X: Any) -> FloatArray:
        """Return the values of the functions, which are larger for more certain rows of a class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows; with a precomputed kernel, their similarities to the fitted rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            One value per class; for two classes a single one, positive for `classes_[1]`.
        """
        X = self._checked_new_rows(X)
        f = self.expansion_(X)
        return f if f.shape[1] > 1 else f.sum(axis=1)

    def _soft_labels(self, X: Any) -> FloatArray:
        return sigmoids(self.expansion_(X), self.slope_)

    def _state(self) -> State:
        state = super()._state()
        return replace(state, arrays={**state.arrays, "slope": np.array(self.slope_)})

    def _restore_state(self, state: StateReader) -> None:
        state.lengths["functions"] = len(one_vs_rest_classes(len(self.classes_)))
        self.expansion_ = Expansion.from_state(state)
        self.slope_ = float(state.array("slope", Stored((), least=LEAST_POSITIVE, most=1e3)))

    def _most_likely(self, X: Any) -> IntArray:
        f = self.expansion_(X)
        return np.argmax(f, axis=1) if f.shape[1] > 1 else (f.sum(axis=1) > 0).astype(np.intp)


@dataclass(frozen=True)
class KnownBags:
    """Bags with known totals, and every labeled row as a bag of its own.

    Bags without any known total are left out, and so are unlabeled rows in no bag.

    Attributes
    ----------
    groups : Groups
        The rows by bag.
    shares : ndarray of shape (n_bags, n_classes)
        Class shares; of intervals, the point nearest to the overall shares.
    certainty : ndarray of shape (n_bags, n_classes)
        1 where the total is exact, less by the width of its interval relative to the bag's size.
    """

    groups: Groups
    shares: FloatArray
    certainty: FloatArray

    @property
    def weights(self) -> FloatArray:
        """The number of rows in each bag, times its mean certainty."""
        return np.asarray(self.certainty.mean(axis=1) * self.groups.sizes)


def known_bags(bags: Bags) -> KnownBags:
    """Return the bags to learn from."""
    sizes = bags.open_groups.sizes[:, None]
    width = bags.open_upper - bags.open_lower
    certainty = np.where(sizes > 0, 1.0 - width / np.maximum(sizes, 1.0), 0.0)
    certainty[certainty <= 1e-9] = 0.0
    kept = certainty.any(axis=1)
    labeled = np.flatnonzero(bags.given >= 0)
    if not kept.any() and not labeled.size:
        raise SupervisionError(
            "the totals",
            "no bag of which any class's total is known",
            "at least one bag with known totals, or labels in `y`",
            "fill in the cells of some bags",
        )
    n_kept = int(kept.sum())
    codes = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)[bags.open_groups.codes]
    codes[labeled] = n_kept + np.arange(len(labeled))
    return KnownBags(
        Groups(codes, n_kept + len(labeled)),
        np.concatenate([bags.shares[kept], np.eye(bags.n_classes)[bags.given[labeled]]]),
        np.concatenate([certainty[kept], np.ones((len(labeled), bags.n_classes))]),
    )


def one_vs_rest_classes(n_classes: int) -> list[int]:
    """Return the classes that get a function: the second of two, all of more, none of one."""
    return list(range(n_classes)) if n_classes > 2 else list(range(1, n_classes))


def sigmoids(f: FloatArray, slope: float) -> FloatArray:
    """Return class probabilities σ(slope · f), normalized to sum to one."""
    if f.shape[1] == 0:
        return np.ones((len(f), 1))
    if f.shape[1] == 1:
        positive = expit(slope * f)
        return np.hstack([1.0 - positive, positive])
    # Relative to the largest of a row, so that no row sums to 0.
    logs = -np.logaddexp(0.0, -slope * f)
    relative = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(relative / relative.sum(axis=1, keepdims=True))


def calibrated_slope(f: FloatArray, bags: Bags) -> float:
    """Return the slope of the sigmoids whose bag shares have the least deviance from the totals.

    This takes no label, and changes no sign of f and therefore no label.
    """
    if not len(bags.ids):
        return 1.0

    def deviance(log_slope: float) -> float:
        return float(bag_deviances(sigmoids(f, float(np.exp(log_slope))), bags).sum())

    bounds = (np.log(0.1), np.log(30.0))
    return float(np.exp(minimize_scalar(deviance, bounds=bounds, method="bounded").x))
