"""The methods that `tables.py` and `natural.py` compare, and what is measured of one fit."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import sklearn

MAJORITY, SUPERVISED = "bag majority", "supervised"
BASELINES = (MAJORITY, SUPERVISED)
"""What is known to be worse and better than a method that learns from totals."""

N_BINS = 10
"""Bins of confidence, of equal width, of the reliability table."""

Factory = Callable[[int], Any]


@dataclass(frozen=True)
class Problem:
    """Rows, their bags and totals, and the truth, which no method sees but "supervised".

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
    y, bags : ndarray of shape (n_samples,)
    totals : Totals
    groups : ndarray of shape (n_samples,), optional
        Rows of one person or day, which "supervised" has all in one fold; None = rows are
        independent.
    scored : ndarray of bool of shape (n_samples,), optional
        The rows whose label is known to be the truth; None = all.
    """

    X: Any
    y: Any
    bags: Any
    totals: Any
    groups: Any = None
    scored: Any = None

    def accuracy(self, labels: Any) -> float:
        """Return the share of scored rows whose label is right."""
        return float((labels == self.y)[self.is_scored].mean())

    @property
    def is_scored(self) -> Any:
        """Return which rows are scored."""
        return np.ones(len(self.y), dtype=bool) if self.scored is None else self.scored


def every_method() -> dict[str, Factory]:
    """Return a function from a seed to the estimator, one per name; some may not exist yet."""
    import apportion as ap

    return {
        "LPLLP": lambda seed: ap.LPLLP(random_state=seed),
        "LPLLP, prior InvCal rbf": lambda seed: ap.LPLLP(
            prior=ap.InvCal("rbf"), prior_weight=1.0, random_state=seed
        ),
        "LPLLP, prior AggregateGP": lambda seed: ap.LPLLP(
            prior=ap.AggregateGP(), prior_weight=1.0, random_state=seed
        ),
        "AggregateGP": lambda seed: ap.AggregateGP(random_state=seed),
        "MeanMap": lambda seed: ap.MeanMap(),
        "MeanMap rbf": lambda seed: ap.MeanMap("rbf"),
        "LaplacianMeanMap": lambda seed: ap.LaplacianMeanMap(),
        "InvCal": lambda seed: ap.InvCal(),
        "InvCal rbf": lambda seed: ap.InvCal("rbf"),
        "CountLogistic": lambda seed: ap.CountLogistic(),
        "CountLogistic rbf": lambda seed: ap.CountLogistic("rbf"),
        "EMLLP": lambda seed: ap.EMLLP(random_state=seed),
        "EMLLP trees": lambda seed: ap.EMLLP("trees", random_state=seed),
        "AutoLLP": lambda seed: seeded(ap.AutoLLP(), seed),
        "AutoLLP fast": lambda seed: seeded(ap.AutoLLP("fast"), seed),
    }


def seeded(estimator: Any, seed: int) -> Any:
    """Return the estimator with this seed, if it takes one."""
    return (
        estimator.set_params(random_state=seed) if "random_state" in vars(estimator) else estimator
    )


@cache
def methods() -> dict[str, Factory]:
    """Return the methods that this version of the library has."""
    return {name: make for name, make in every_method().items() if not lacking(make)}


def lacking(make: Factory) -> str:
    """Return why an estimator cannot be made in this version of the library; empty if it can."""
    try:
        make(0)
    except (AttributeError, TypeError, ValueError) as error:
        return str(error)
    return ""


def is_single(name: str) -> bool:
    """Return whether a method counts among those that the best of each cell is taken from."""
    return name not in BASELINES and not name.startswith("AutoLLP")


def settings(name: str, seed: int) -> str:
    """Return a short hash of a method's parameters, defaults included."""
    return "baseline" if name in BASELINES else parameter_hash(methods()[name](seed))


def parameter_hash(estimator: Any) -> str:
    """Return a short hash of an estimator's parameters, defaults included."""
    with sklearn.config_context(print_changed_only=False):
        text = estimator.__repr__(N_CHAR_MAX=10**6)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def warm_up() -> None:
    """Fit some rows, so that no measured fit has to load the libraries."""
    from apportion import Totals

    X, bags = np.random.RandomState(0).randn(64, 2), np.arange(64) % 8
    y = np.where(X[:, 0] > 0, "a", "b")
    problem = Problem(X, y, bags, Totals.from_labels(y, bags))
    for name in (*BASELINES, "LPLLP", "InvCal rbf", "EMLLP"):
        with suppress(Exception):  # a method that fails is reported with its own fits
            measured(problem, name, 0)


def measured(problem: Problem, name: str, seed: int) -> dict[str, Any]:
    """Return accuracy under totals and CPU seconds, and what the model itself says of it."""
    warnings.simplefilter("ignore")
    if name == SUPERVISED:
        return supervised(problem)
    started, model = time.process_time(), None
    if name == MAJORITY:
        from apportion.metrics import bag_majority

        labels = bag_majority(problem.bags, problem.totals)
    else:
        model = methods()[name](seed)
        model.fit(problem.X, bags=problem.bags, proportions=problem.totals)
        labels = model.transduction_
    cpu = time.process_time() - started
    return {"accuracy": problem.accuracy(labels), "cpu": cpu, **own_account(model, problem)}


def own_account(model: Any, problem: Problem) -> dict[str, Any]:
    """Return what `AutoLLP` says of its accuracy and weights, and what is true of it.

    Other methods say nothing. The names of `AutoLLP`'s attributes are here, in `PARTS` and in
    `estimate`, and nowhere else.
    """
    if not hasattr(model, "estimated_accuracy_"):
        return {}
    estimated = model.estimated_accuracy_
    account: dict[str, Any] = {
        "estimated": {part: estimate(getattr(estimated, part, None)) for part in PARTS},
        "weights": plain(getattr(model, "weights_", None)),
        "reliability": {"fitted_rows": reliability(model.label_distributions_, model, problem)},
    }
    held_out = getattr(model, "held_out_proba_", None)
    if held_out is not None:
        bins = reliability(held_out, model, problem)
        account["reliability"]["new_rows"] = bins
        n = account["held_out_rows"] = sum(bins["count"])
        account["held_out_accuracy"] = sum(bins["right"]) / n if n else None
    return account


PARTS = {"new_rows": "held-out rows", "fitted_rows": "fitted rows"}
"""The parts of `estimated_accuracy_`, and what the summary calls them."""


def estimate(part: Any) -> dict[str, Any]:
    """Return an estimated accuracy with its interval, or why there is none."""
    values = {key: getattr(part, key, None) for key in ("value", "low", "high")}
    numbers = {
        key: None if value is None or np.isnan(value) else float(value)
        for key, value in values.items()
    }
    return {**numbers, "reason": str(getattr(part, "reason", None) or "")}


def plain(weights: Any) -> Any:
    """Return weights as JSON can hold them."""
    if isinstance(weights, Mapping):
        return {str(name): float(weight) for name, weight in weights.items()}
    return None if weights is None else np.asarray(weights, dtype=float).tolist()


def reliability(probabilities: Any, model: Any, problem: Problem) -> dict[str, list[float]]:
    """Return, per bin of confidence, its sum, how many rows are right, and how many there are.

    Confidence is the largest probability of a row. Rows that were never held out are NaN.
    """
    P = np.asarray(probabilities)
    rows = problem.is_scored & ~np.isnan(P).any(axis=1)
    confidence = P[rows].max(axis=1)
    right = np.asarray(model.classes_)[P[rows].argmax(axis=1)] == problem.y[rows]
    bins = np.clip((confidence * N_BINS).astype(int), 0, N_BINS - 1)
    columns = {"confidence": confidence, "right": right, "count": np.ones(len(bins))}
    return {key: np.bincount(bins, w, N_BINS).tolist() for key, w in columns.items()}


_supervised: dict[str, dict[str, Any]] = {}


def supervised(problem: Problem) -> dict[str, Any]:
    """Return the cross-validated accuracy of the better of two classifiers that see all labels.

    They know no totals, therefore they are fitted once for all bags of the same rows.
    """
    arrays = (problem.X, problem.y, "" if problem.groups is None else problem.groups)
    key = hashlib.sha256(b"".join(np.asarray(array).tobytes() for array in arrays)).hexdigest()
    if key not in _supervised:
        started = time.process_time()
        accuracy = max(map(problem.accuracy, predictions(problem)))
        _supervised[key] = {"accuracy": accuracy, "cpu": time.process_time() - started}
    return _supervised[key]


def predictions(problem: Problem) -> list[Any]:
    """Return the labels of every row from five folds, by trees and by logistic regression."""
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold, StratifiedKFold, cross_val_predict

    folds: Any = StratifiedKFold(5, shuffle=True, random_state=0)
    if problem.groups is not None:
        folds = GroupKFold(min(5, len(np.unique(problem.groups))))
    return [
        cross_val_predict(classifier, problem.X, problem.y, groups=problem.groups, cv=folds)
        for classifier in (
            ExtraTreesClassifier(200, random_state=0),
            LogisticRegression(max_iter=2000),
        )
    ]
