"""What every estimator that learns from totals has in common."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, column_or_1d, validate_data

from apportion._typing import AnyArray
from apportion.bags import Bags, match_bags
from apportion.exceptions import SupervisionError
from apportion.metrics import bag_errors, soft
from apportion.tables import factorize


class BagClassifier(ClassifierMixin, BaseEstimator):
    """A classifier fitted by `fit(X, y=None, *, bags=None, proportions=None)`.

    Subclasses define `fit` and `predict`.
    """

    classes_: AnyArray

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
        X : array-like of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,), optional
            True labels.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows, with `y` only.
        bags, proportions
            Bag ids and totals, where there are no labels.
        """
        if y is None and (bags is None or proportions is None):
            raise SupervisionError(
                "score",
                "neither labels `y` nor `bags` with `proportions`",
                "one of the two",
                "pass them; in a grid search, set_score_request(bags=True, proportions=True)",
            )
        labels = self.predict(X)
        if y is not None:
            return float(accuracy_score(y, labels, sample_weight=sample_weight))
        matched = match_bags(len(labels), None, bags, proportions, classes=self.classes_)
        return -float(bag_errors(soft(labels, matched.classes), matched).mean())

    def predict(self, X: Any) -> AnyArray:
        """Return a label for every row."""
        raise NotImplementedError

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
        if not np.isfinite(values).all():
            if sparse.issparse(X):
                cells = X.tocoo()
                bad = np.flatnonzero(~np.isfinite(cells.data))[0]
                i, j, value = int(cells.row[bad]), int(cells.col[bad]), cells.data[bad]
            else:
                i, j = (int(place) for place in np.argwhere(~np.isfinite(X))[0])
                value = X[i, j]
            kind = "NaN" if np.isnan(value) else "inf"
            names = getattr(self, "feature_names_in_", None)
            column = f"column {j}" if names is None else f"column {names[j]!r}"
            raise ValueError(
                f"row {i}, {column}: found {kind}. Allowed: finite numbers. To mend: fill the cell "
                "(e.g. sklearn.impute.SimpleImputer) or drop the row."
            )
        largest = float(np.abs(values).max(initial=0.0))
        if largest > 1e100 or 0 < largest < 1e-100:
            raise ValueError(
                f"X: found values of size {largest:.1e}, whose squares cannot be represented. "
                "Allowed: sizes from 1e-100 to 1e100. To mend: rescale the features."
            )
        return X

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
    ) -> None:
        """Raise unless the parameter is a number in the range."""
        value = getattr(self, name)
        kind = Integral if whole else Real
        inside = isinstance(value, kind) and not isinstance(value, bool)
        inside = inside and (low < value < high if open_ else low <= value <= high)
        if not inside:
            left, right = ("(", ")") if open_ else ("[", "]")
            upper = f"{high:g}{right}" if math.isfinite(high) else "inf)"
            what = "an int" if whole else "a float"
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
