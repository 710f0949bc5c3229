"""The base class of all estimators that learn from totals."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_is_fitted, column_or_1d, validate_data

from apportion._core.decode import Decoding, quota, threshold
from apportion._core.projection import reconcile
from apportion._core.warn import warn_of_design, warn_of_missing_times
from apportion._io.class_tables import columns_for
from apportion._io.identifiers import factorize
from apportion._io.model_state import State, StateReader
from apportion._utils.hashing import hash_ranks
from apportion._utils.magnitude import largest_size, require_squares, wide_enough
from apportion._utils.parameters import Allowed, check_parameters, one_of, parameter_error
from apportion._utils.sequences import Sequences
from apportion._utils.threads import BLOCK_ROWS, reproducible_sums, slices, with_reproducible_sums
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.bag_report import BagReport, report_bags
from apportion.exceptions import InputError, SupervisionError, counted
from apportion.metrics import bag_errors, soft
from apportion.supervision.bags import Bags, match_bags
from apportion.supervision.diagnosis import Diagnosis, diagnose_bags

REQUESTS = {"bags": True, "proportions": True}
"""What methods request by default from scikit-learn's metadata routing."""

ALONG_TIME = one_of("quota", "threshold", "sequence")
"""The decodings of estimators that know time."""

Fit = TypeVar("Fit", bound=Callable[..., Any])


def all_or_nothing(fit: Fit) -> Fit:
    """Return a `fit` that leaves the estimator unchanged when it fails.

    Its results do not depend on the number of threads: see `reproducible_sums`.
    """

    @wraps(fit)
    def transactional_fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(self.__dict__)
        try:
            with reproducible_sums():
                return fit(self, *args, **kwargs)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    return cast(Fit, transactional_fit)


class BagClassifier(ClassifierMixin, BaseEstimator):
    """A classifier fitted by `fit(X, y=None, *, bags=None, proportions=None)`.

    Subclasses define `fit`, which ends with `_store`, and `_soft_labels`. With metadata routing,
    bags and totals are requested by default by every method that takes them.
    """

    __metadata_request__fit = REQUESTS
    __metadata_request__predict = REQUESTS
    __metadata_request__predict_proba = REQUESTS
    __metadata_request__score = REQUESTS

    _allowed: ClassVar[Mapping[str, Allowed]] = {"decode": one_of("quota", "threshold")}
    """The values that parameters may have."""

    _how_to_decode_along_time: ClassVar[str] = (
        "This method decodes only the rows it is fitted to along time: fit them, or use "
        "decode='quota'."
    )
    """What to do if labels of new rows are to be decoded along time, for a warning."""

    decode: str

    classes_: AnyArray
    label_distributions_: FloatArray
    transduction_: AnyArray
    tied_: AnyArray
    bag_codes_: IntArray
    _given_rows: BoolArray
    bag_report_: BagReport
    diagnosis_: Diagnosis

    @with_reproducible_sums
    def predict(self, X: Any, *, bags: Any = None, proportions: Any = None) -> AnyArray:
        """Predict a label for every new row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows; if similarities are precomputed, their similarities to the fitted rows.
        bags : array-like of shape (n_samples,), optional
            Bag ids of the new rows.
        proportions : Totals, dataframe, mapping or array, optional
            Totals of their bags. With totals, the labels are decoded under these totals, as
            `decode` says. Without totals, every row takes its most likely class.

        Returns
        -------
        ndarray of shape (n_samples,)
            The labels.
        """
        X = self._checked_new_rows(X)
        if bags is None and proportions is None:
            return np.asarray(self.classes_[self._most_likely(X)])
        return self._decoded(X, self._soft_labels(X), bags, proportions)

    @with_reproducible_sums
    def predict_proba(self, X: Any, *, bags: Any = None, proportions: Any = None) -> FloatArray:
        """Predict soft labels of new rows.

        With totals of the new rows' bags, these are the nearest soft labels that keep the totals.

        Parameters
        ----------
        X, bags, proportions
            See `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The soft labels, with columns in the order of `classes_`.
        """
        F = self._soft_labels(self._checked_new_rows(X))
        return F if bags is None and proportions is None else self._kept_by(F, bags, proportions)

    def _decoded(self, X: Any, F: FloatArray, bags: Any, proportions: Any) -> AnyArray:
        """Return labels of new rows under the totals of their bags, from their soft labels."""
        if self.decode == "sequence":
            warn_of_missing_times(self._how_to_decode_along_time)
        matched = match_bags(len(F), None, bags, proportions, classes=self.classes_)
        F = self._under_totals(F, matched)
        decoded = (
            threshold(F, matched) if self.decode == "threshold" else self._quota(X, F, matched)
        )
        return np.asarray(self.classes_[decoded.labels])

    def _kept_by(self, F: FloatArray, bags: Any, proportions: Any) -> FloatArray:
        """Return the soft labels nearest to those of new rows that keep their bags' totals."""
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
        """Return the accuracy if labels are given, else minus the mean bag-proportion error.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,), optional
            True labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows; used with `y` only.
        bags, proportions : optional
            Bag ids and totals of the rows; used without `y` only.

        Returns
        -------
        float
            The score; higher is better.
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
        """Return soft labels of new rows that have been checked."""
        raise NotImplementedError

    def _most_likely(self, X: Any) -> IntArray:
        """Return the most likely classes of new rows, as positions in `classes_`."""
        return threshold(self._soft_labels(X)).labels

    def _under_totals(self, F: FloatArray, matched: Bags) -> FloatArray:
        """Return the soft labels nearest to F that keep the totals."""
        return reconcile(F, matched)

    def _quota(self, X: Any, F: FloatArray, matched: Bags) -> Decoding:
        """Return the labels of largest total soft label that keep the bags' counts."""
        return quota(F, matched, hash_ranks(X if self._sees_features else None, len(F)))

    def _store(
        self,
        matched: Bags,
        F: FloatArray,
        by_quota: Decoding,
        along_time: Decoding | None = None,
    ) -> None:
        """Store soft labels, the labels of all decodings, and the report."""
        decodings = {"quota": by_quota, "threshold": threshold(F, matched)}
        if along_time is not None:
            decodings["sequence"] = along_time
        self._store_labels(matched, F, decodings)

    def _store_labels(self, matched: Bags, F: FloatArray, decodings: dict[str, Decoding]) -> None:
        """Store soft labels, the labels of these decodings, and the report."""
        labels, self.tied_ = decodings[self.decode]
        self.classes_ = matched.classes
        self.label_distributions_ = F
        self.transduction_ = matched.classes[labels]
        self.bag_codes_ = matched.codes
        self._given_rows = matched.given >= 0
        self.bag_report_ = report_bags(matched, decodings, self.decode)

    def _store_diagnosis(self, matched: Bags) -> None:
        """Store the diagnosis of the bags, and warn of classes that they cannot tell apart."""
        self.diagnosis_ = diagnose_bags(matched)
        warn_of_design(self.diagnosis_.findings)

    def _reconciled_prior(
        self, name: str, X: Any, y: Any, bags: Any, proportions: Any, matched: Bags, seed: int
    ) -> FloatArray:
        """Return given soft labels, or those of an estimator fitted first, under the totals."""
        prior, shape = getattr(self, name), (matched.n_samples, matched.n_classes)
        F: FloatArray | None = None
        if not hasattr(prior, "fit"):
            with suppress(TypeError, ValueError):  # F stays None, which is refused below
                F = np.asarray(prior, dtype=np.float64)
        elif learns_from_totals(prior):
            model = seeded(clone(prior), seed).fit(X, y, bags=bags, proportions=proportions)
            probabilities = model.predict_proba(X)
            F = columns_for(matched.classes.tolist(), model.classes_.tolist(), probabilities)
        if F is None or F.shape != shape or not np.isfinite(F).all() or (F < 0).any():
            allowed = (
                "None, an estimator with fit(X, y, bags=, proportions=) and predict_proba, or "
                f"finite soft labels of at least 0, of shape {shape}"
            )
            got = None
            if F is not None:
                least = np.nanmin(F, initial=np.inf)
                got = f"an array of shape {F.shape}, with the least value {least:g},"
            raise parameter_error(self, name, allowed, got)
        return reconcile(F, matched)

    def _checked_new_rows(self, X: Any) -> Any:
        """Return new rows as numbers; the estimator must be fitted."""
        check_is_fitted(self, "classes_")
        return self._checked_rows(X, reset=False, sparse_too=self._takes_sparse)

    def _checked_rows(self, X: Any, *, reset: bool, sparse_too: bool = False) -> Any:
        """Return X as numbers, or raise an error that names the cell that is not finite."""
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
        largest = largest_size(X.data if sparse.issparse(X) else X)
        if not math.isfinite(largest):
            i, j, value = _first_infinite_cell(X)
            names = getattr(self, "feature_names_in_", None)
            raise InputError(
                f"column {j}" if names is None else "",
                "NaN" if np.isnan(value) else "inf",
                "finite numbers",
                "fill the cell (e.g. sklearn.impute.SimpleImputer) or drop the row",
                row=i,
                column=None if names is None else names[j],
            )
        require_squares(largest)
        return wide_enough(X, largest)

    def _require_times(self, in_time: Sequences | None) -> None:
        """Raise if labels are to be decoded along time, and no times are given."""
        if self.decode == "sequence" and in_time is None:
            raise SupervisionError(
                "decode='sequence'",
                "no times",
                "times of the rows, along which labels are decoded",
                "pass `times`, or use decode='quota'",
            )

    def _matched(self, X: Any, y: Any, bags: Any, proportions: Any) -> Bags:
        """Return rows matched with supervision, after scikit-learn's checks of labels."""
        _refuse_shuffled_index(X, y, "y")
        _refuse_shuffled_index(X, bags, "bags")
        y = None if y is None else _checked_labels(y)
        return match_bags(_num_samples(X), y, bags, proportions)

    def _state(self) -> State:
        """Return what `predict` needs beside the classes, to be saved."""
        raise NotImplementedError

    def _restore_state(self, state: StateReader) -> None:
        """Store what `predict` needs, from a file; `classes_` is known."""
        raise NotImplementedError

    def _rows_in_state(self) -> dict[str, tuple[int, str]]:
        """Return how many "rows" or "anchors" (means of rows) `_state` contains, and in words."""
        return {}

    def _check_parameters(self) -> None:
        """Raise if a parameter has a value that is not allowed."""
        check_parameters(self, self._allowed)

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


def seed_of(estimator: Any) -> int:
    """Return the seed that follows from the random state of an estimator."""
    return int(check_random_state(estimator.random_state).randint(2**31))


def training_rows(n: int) -> dict[str, tuple[int, str]]:
    """Return what `_rows_in_state` does, for a state that contains so many rows."""
    return {"rows": (n, counted(n, "training row"))} if n else {}


def learns_from_totals(estimator: Any) -> bool:
    """Return whether an estimator is fitted to bags and predicts probabilities."""
    parameters = inspect.signature(estimator.fit).parameters
    return hasattr(estimator, "predict_proba") and {"bags", "proportions"} <= set(parameters)


def _text_column(X: Any) -> str:
    """Return the name of the first column of a dataframe that does not hold numbers."""
    for name in X.columns:
        try:
            np.asarray(X[name]).astype(np.float64)
        except (TypeError, ValueError):
            return f"column {name!r}"
    return "X"


def _first_infinite_cell(X: Any) -> tuple[int, int, float]:
    """Return row, column and value of the first cell that is infinite or NaN."""
    for part in slices(X.shape[0], BLOCK_ROWS):
        cells = sparse.coo_array(X[part])
        infinite = np.flatnonzero(~np.isfinite(cells.data))
        if infinite.size:
            first = infinite[0]
            return part.start + int(cells.row[first]), int(cells.col[first]), cells.data[first]
    raise AssertionError("called for rows that are not finite")


def _refuse_shuffled_index(X: Any, values: Any, name: str) -> None:
    """Raise if pandas objects have the same index in another order: rows go by position."""
    ours: Any = getattr(X, "index", None)
    theirs: Any = getattr(values, "index", None)
    if not (hasattr(ours, "equals") and hasattr(theirs, "equals")) or ours.equals(theirs):
        return
    try:
        same_rows = ours.sort_values().equals(theirs.sort_values())
    except TypeError:  # an index that cannot be sorted
        return
    if same_rows:
        raise SupervisionError(
            "",
            "the index of X in another order, while rows are matched by position",
            "the same order",
            f"pass {name}.loc[X.index]",
            parameter=name,
        )


def _checked_labels(y: Any) -> Any:
    """Return labels in one dimension; raise for a target that is not a class label."""
    if getattr(y, "ndim", 1) == 2:
        y = column_or_1d(y, warn=True)
    labels = factorize(y, "label")[1]
    if labels and all(isinstance(label, float) for label in labels):
        check_classification_targets(np.array(labels))
    return y
