"""What every estimator that learns from totals has in common."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import wraps
from numbers import Integral, Real
from typing import Any, TypeVar, cast

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _num_samples,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from apportion._core.decode import Decoding, quota, threshold
from apportion._core.projection import reconcile
from apportion._core.warn import warn_of_design
from apportion._io.tables import (
    columns_for,
    factorize,
    largest_size,
    require_squares,
    wide_enough,
)
from apportion._utils.hashing import hash_ranks
from apportion._utils.threads import BLOCK_ROWS, reproducible_sums, slices, with_reproducible_sums
from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.bag_report import BagReport, report_bags
from apportion.exceptions import SupervisionError
from apportion.metrics import bag_errors, soft
from apportion.supervision.bags import Bags, match_bags
from apportion.supervision.diagnosis import Diagnosis, diagnose_bags

Fit = TypeVar("Fit", bound=Callable[..., Any])


def all_or_nothing(fit: Fit) -> Fit:
    """Return a `fit` that leaves the estimator as it was when it fails halfway.

    What it computes does not depend on the number of threads: see `reproducible_sums`.
    """

    @wraps(fit)
    def careful_fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(self.__dict__)
        try:
            with reproducible_sums():
                return fit(self, *args, **kwargs)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    return cast(Fit, careful_fit)


class BagClassifier(ClassifierMixin, BaseEstimator):
    """A classifier fitted by `fit(X, y=None, *, bags=None, proportions=None)`.

    Subclasses define `fit`, which ends in `_store`, and `_soft_labels` of new rows. With metadata
    routing, bags and totals go to every method that takes them; no request has to be set.
    """

    __metadata_request__fit = {"bags": True, "proportions": True}  # noqa: RUF012
    __metadata_request__predict = {"bags": True, "proportions": True}  # noqa: RUF012
    __metadata_request__predict_proba = {"bags": True, "proportions": True}  # noqa: RUF012
    __metadata_request__score = {"bags": True, "proportions": True}  # noqa: RUF012

    decode: str

    classes_: AnyArray
    label_distributions_: FloatArray
    transduction_: AnyArray
    tied_: AnyArray
    bag_codes_: IntArray
    bag_report_: BagReport
    diagnosis_: Diagnosis

    @with_reproducible_sums
    def predict(self, X: Any, *, bags: Any = None, proportions: Any = None) -> AnyArray:
        """Return a label for every new row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows; where similarities are precomputed, those to the fitted rows.
        bags, proportions : optional
            Bag ids and totals of the new rows, where these are known: labels then follow `decode`
            under these totals. Without totals, every row takes its most likely class.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        X = self._checked_new_rows(X)
        if bags is None and proportions is None:
            return np.asarray(self.classes_[self._most_likely(X)])
        matched = match_bags(_num_samples(X), None, bags, proportions, classes=self.classes_)
        F = self._under_totals(self._soft_labels(X), matched)
        decoded = (
            threshold(F, matched) if self.decode == "threshold" else self._quota(X, F, matched)
        )
        return np.asarray(self.classes_[decoded.labels])

    @with_reproducible_sums
    def predict_proba(self, X: Any, *, bags: Any = None, proportions: Any = None) -> FloatArray:
        """Return soft labels of new rows.

        With totals of the new rows' bags, the nearest soft labels that keep these totals.

        Parameters
        ----------
        X, bags, proportions
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of `classes_`.
        """
        F = self._soft_labels(self._checked_new_rows(X))
        if bags is None and proportions is None:
            return F
        matched = match_bags(len(F), None, bags, proportions, classes=self.classes_)
        return self._under_totals(F, matched)

    def score(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        bags: Any = None,
        proportions: Any = None,
    ) -> float:
        """Return the accuracy where labels are given, else minus the mean bag-proportion error.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,), optional
            True labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows, with `y` only.
        bags, proportions
            Bag ids and totals, where there are no labels.
        """
        if y is None and (bags is None or proportions is None):
            raise SupervisionError(
                "score",
                "neither labels `y` nor `bags` with `proportions`",
                "one of the two",
                "pass them; in a grid search, sklearn.set_config(enable_metadata_routing=True)",
            )
        labels = self.predict(X)
        if y is not None:
            return float(accuracy_score(y, labels, sample_weight=sample_weight))
        matched = match_bags(len(labels), None, bags, proportions, classes=self.classes_)
        return -float(bag_errors(soft(labels, matched.classes), matched).mean())

    @property
    def _sees_features(self) -> bool:
        """Whether X holds features, not similarities."""
        return True

    @property
    def _takes_sparse(self) -> bool:
        """Whether new rows may be sparse."""
        return False

    def _soft_labels(self, X: Any) -> FloatArray:
        """Return soft labels of new rows, which have been checked."""
        raise NotImplementedError

    def _most_likely(self, X: Any) -> IntArray:
        """Return the most likely classes of new rows, as positions in `classes_`."""
        return threshold(self._soft_labels(X)).labels

    def _under_totals(self, F: FloatArray, matched: Bags) -> FloatArray:
        """Return the soft labels nearest to F that keep the totals."""
        return reconcile(F, matched)

    def _quota(self, X: Any, F: FloatArray, matched: Bags) -> Decoding:
        ranks = hash_ranks(X if self._sees_features else None, len(F))
        return quota(F, matched, ranks)

    def _store(self, matched: Bags, F: FloatArray, by_quota: Decoding) -> None:
        """Keep soft labels, labels by both decodings, and the report."""
        decodings = {"quota": by_quota, "threshold": threshold(F, matched)}
        labels, tied = decodings[self.decode]
        self.classes_ = matched.classes
        self.label_distributions_ = F
        self.transduction_ = matched.classes[labels]
        self.tied_ = tied
        self.bag_codes_ = matched.codes
        self.bag_report_ = report_bags(matched, decodings, self.decode)

    def _warn_of_design(self, matched: Bags) -> None:
        self.diagnosis_ = diagnose_bags(matched)
        warn_of_design(self.diagnosis_.findings)

    def _reconciled_prior(
        self, name: str, X: Any, y: Any, bags: Any, proportions: Any, matched: Bags, seed: int
    ) -> FloatArray:
        """Return soft labels, or those of an estimator fitted first, reconciled with the bags."""
        prior = getattr(self, name)
        expected = (matched.n_samples, matched.n_classes)
        allowed = (
            f"The {name!r} parameter of {type(self).__name__} must be None, an estimator with "
            "fit(X, y, bags=, proportions=) and predict_proba, or finite soft labels of 0 and "
            f"more, of shape {expected}. Got "
        )
        if hasattr(prior, "fit"):
            takes = inspect.signature(prior.fit).parameters
            if not (hasattr(prior, "predict_proba") and {"bags", "proportions"} <= set(takes)):
                raise ValueError(f"{allowed}{prior!r}.")
            other = seeded(clone(prior), seed).fit(X, y, bags=bags, proportions=proportions)
            found = other.predict_proba(X)
            F = columns_for(matched.classes.tolist(), other.classes_.tolist(), found)
        else:
            try:
                F = np.asarray(prior, dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{allowed}{prior!r}.") from error
        if F.shape != expected or not np.isfinite(F).all() or (F < 0).any():
            raise ValueError(
                f"{allowed}an array of shape {F.shape} with smallest value "
                f"{np.nanmin(F, initial=np.inf):g}."
            )
        return reconcile(F, matched)

    def _checked_new_rows(self, X: Any) -> Any:
        """Return new rows as numbers, once the estimator is fitted."""
        check_is_fitted(self, "classes_")
        return self._checked_rows(X, reset=False, sparse_too=self._takes_sparse)

    def _checked_rows(self, X: Any, *, reset: bool, sparse_too: bool = False) -> Any:
        """Return X as numbers, or raise an error that names the row that is not finite."""
        try:
            X = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr" if sparse_too else False,
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
            )
        except ValueError as error:
            if "could not convert" in str(error) and hasattr(X, "columns"):
                raise ValueError(f"{_text_column(X)}: {error}. Drop or encode it.") from error
            raise
        values = X.data if sparse.issparse(X) else X
        largest = largest_size(values)
        if not math.isfinite(largest):
            if sparse.issparse(X):
                cells = X.tocoo()
                bad = np.flatnonzero(~np.isfinite(cells.data))[0]
                i, j, value = int(cells.row[bad]), int(cells.col[bad]), cells.data[bad]
            else:
                i = next(
                    part.start + int(np.argmax(bad))
                    for part in slices(len(X), BLOCK_ROWS)
                    if (bad := ~np.isfinite(X[part]).all(axis=1)).any()
                )
                j = int(np.argmax(~np.isfinite(X[i])))
                value = X[i, j]
            kind = "NaN" if np.isnan(value) else "inf"
            names = getattr(self, "feature_names_in_", None)
            column = f"column {j}" if names is None else f"column {names[j]!r}"
            raise ValueError(
                f"row {i}, {column}: found {kind}. Allowed: finite numbers. Hint: fill the cell "
                "(e.g. sklearn.impute.SimpleImputer) or drop the row."
            )
        require_squares(largest)
        return wide_enough(X, largest)

    def _matched(self, X: Any, y: Any, bags: Any, proportions: Any) -> Bags:
        """Return rows matched with supervision, after scikit-learn's checks of labels."""
        _refuse_shuffled_index(X, y, "y")
        _refuse_shuffled_index(X, bags, "bags")
        if y is not None:
            y = _checked_labels(y)
        return match_bags(_num_samples(X), y, bags, proportions)

    def _require_number(
        self,
        name: str,
        low: float,
        high: float = math.inf,
        *,
        whole: bool = False,
        open_: bool = False,
        or_word: str | None = None,
    ) -> None:
        """Raise unless the parameter is a number in the range, or the word."""
        value = getattr(self, name)
        if or_word is not None and isinstance(value, str) and value == or_word:
            return
        kind = Integral if whole else Real
        inside = isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value)
        inside = inside and (low < value < high if open_ else low <= value <= high)
        if not inside:
            left, right = ("(", ")") if open_ else ("[", "]")
            upper = f"{high:g}{right}" if math.isfinite(high) else "inf)"
            what = "an int" if whole else "a float"
            what = what if or_word is None else f"{or_word!r} or {what}"
            raise ValueError(
                f"The {name!r} parameter of {type(self).__name__} must be {what} in the range "
                f"{left}{low:g}, {upper}. Got {value!r} instead."
            )

    def _require_choice(self, name: str, choices: tuple[str, ...]) -> None:
        """Raise unless the parameter is one of the choices."""
        value = getattr(self, name)
        if not (isinstance(value, str) and value in choices):
            listed = ", ".join(repr(choice) for choice in choices)
            raise ValueError(
                f"The {name!r} parameter of {type(self).__name__} must be one of {listed}. "
                f"Got {value!r} instead."
            )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


def seeded(estimator: Any, seed: int) -> Any:
    """Return the estimator with every `random_state` that is None set to the seed."""
    unset = {
        name: seed
        for name, value in estimator.get_params().items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    }
    return estimator.set_params(**unset)


def _text_column(X: Any) -> str:
    """Return the name of the first column of a dataframe that holds no numbers."""
    for name in X.columns:
        try:
            np.asarray(X[name]).astype(np.float64)
        except (TypeError, ValueError):
            return f"column {name!r}"
    return "X"


def _refuse_shuffled_index(X: Any, values: Any, name: str) -> None:
    """Raise where pandas objects have the same index in another order: rows go by position."""
    ours: Any = getattr(X, "index", None)
    theirs: Any = getattr(values, "index", None)
    if not (hasattr(ours, "equals") and hasattr(theirs, "equals")) or ours.equals(theirs):
        return
    try:
        same = ours.sort_values().equals(theirs.sort_values())
    except TypeError:
        return
    if same:
        raise SupervisionError(
            f"`{name}`",
            "the index of X in another order, while rows are matched by position",
            "the same order",
            f"pass {name}.loc[X.index]",
        )


def _checked_labels(y: Any) -> Any:
    """Return labels in one dimension; raise for a target that is no class label."""
    if getattr(y, "ndim", 1) == 2:
        y = column_or_1d(y, warn=True)
    found = factorize(y, "label")[1]
    if found and all(isinstance(label, float) for label in found):
        check_classification_targets(np.array(found))
    return y
