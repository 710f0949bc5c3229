"""The methods that label a table: their names, and what their answers mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from apportion._utils.method_names import AUTO, LP_LLP, METHODS
from apportion._utils.typing import IntArray
from apportion.estimators import LPLLP
from apportion.estimators._base import BagClassifier, seeded
from apportion.exceptions import counted, name_some
from apportion.model_selection import AutoLLP, Estimate, EstimatedAccuracy
from apportion.model_selection._candidates import FAST, NAMED
from apportion.model_selection._weighing import WeighingClassifier
from apportion.model_selection.candidate_report import WeighedCandidate

DEFAULT_METHOD = AUTO
"""The method of tables and of the command line, unless another one is asked for.

Chosen by `benchmarks/natural.py`: windows of WISDM by user, .75 of the labels are right with `auto`
and .65 with `lpllp`; made-up weeks, .95 and .88."""


def method_named(
    name: str,
    *,
    decode: str = "quota",
    fast: bool = False,
    random_state: Any = 0,
) -> BagClassifier:
    """Return the estimator of a name, not fitted.

    A method that starts from another one's answer, such as `lpllp-gp`, gets that method as an
    estimator that is fitted first.

    Parameters
    ----------
    name : str
        One of `METHODS`.
    decode : {"quota", "threshold", "sequence"}, default="quota"
        How soft labels become labels.
    fast : bool, default=False
        Whether `auto` weighs its fast methods only.
    random_state : int, default=0
        The seed.

    Examples
    --------
    >>> method_named("mean-map")
    MeanMap(random_state=0)
    """
    if name == AUTO:
        candidates = FAST if fast else "auto"
        return AutoLLP(candidates, decode=decode, random_state=random_state)
    if name not in NAMED:
        raise ValueError(
            f"The method must be one of {name_some(map(repr, METHODS), len(METHODS))}, or an "
            f"estimator of apportion. Got {name!r}."
        )
    candidate = NAMED[name]
    estimator = clone(candidate.estimator).set_params(decode=decode)
    if candidate.first is not None:
        estimator.set_params(**{candidate.answer: clone(NAMED[candidate.first].estimator)})
    found: BagClassifier = seeded(estimator, random_state)
    return found


def resolved_method(method: Any, fast: bool = False) -> BagClassifier:
    """Return an estimator from a name, an estimator of this library, or None for the default."""
    if fast and method not in (None, AUTO):
        raise ValueError(
            f"`fast` is for the method {AUTO!r}, and the method is {method!r}. Leave it out, or "
            f"pass method=AutoLLP({FAST!r})."
        )
    if method is None or isinstance(method, str):
        name = DEFAULT_METHOD if method is None else method
        return method_named(name, fast=fast)
    if not isinstance(method, BagClassifier):
        raise ValueError(
            f"The method must be one of {name_some(map(repr, METHODS), len(METHODS))}, or an "
            f"estimator of apportion, such as LPLLP(). Got {method!r}."
        )
    return method


def name_of_method(method: Any) -> str:
    """Return what a method is called in summaries: its name, or the class of the estimator."""
    if method is None or isinstance(method, str):
        return method or DEFAULT_METHOD
    names = {AutoLLP: AUTO, LPLLP: LP_LLP}
    return names.get(type(method), type(method).__name__)


def is_calibrated(model: Any) -> bool:
    """Return whether a fitted model's soft labels are probabilities, calibrated by held-out bags.

    With too few bags to hold any out, or bags that differ in their class shares only, not even
    those of `AutoLLP` are.
    """
    report = getattr(model, "candidate_report_", None)
    return report is not None and report.calibrated


def candidates_in(model: BagClassifier) -> tuple[WeighedCandidate, ...]:
    """Return the methods that a fitted model weighed; none if it weighs none."""
    return model.candidate_report_.candidates if isinstance(model, WeighingClassifier) else ()


def accuracy_of(model: BagClassifier) -> EstimatedAccuracy:
    """Return the accuracy that a fitted model estimates; withheld if it estimates none."""
    if isinstance(model, WeighingClassifier):
        return model.estimated_accuracy_
    name = name_of_method(model)
    none = Estimate(None, None, None, f"{name} does not estimate it, {AUTO} does")
    return EstimatedAccuracy(none, none)


def mean_accuracy(models: Mapping[Any, BagClassifier], n_rows: Mapping[Any, int]) -> Any:
    """Return the estimated accuracy over the rows of several models.

    It is withheld if it is withheld for one of them, because the others say nothing about it.

    Parameters
    ----------
    models : mapping
        The fitted models, by group.
    n_rows : mapping
        The number of rows of each group.
    """
    accuracies = {group: accuracy_of(model) for group, model in models.items()}
    if len(accuracies) == 1:
        return next(iter(accuracies.values()))
    weights = np.array([n_rows[group] for group in accuracies])
    return EstimatedAccuracy(
        *(
            _mean_estimate({g: getattr(a, kind) for g, a in accuracies.items()}, weights)
            for kind in ("new_rows", "fitted_rows")
        )
    )


def _mean_estimate(estimates: Mapping[Any, Estimate], n_rows: IntArray) -> Estimate:
    """Return the mean over rows of estimates and of the ends of their intervals.

    Such an interval is wide enough even if the errors of all groups point in one direction.
    """
    reasons = {g: e.reason for g, e in estimates.items() if e.value is None}
    if len(set(reasons.values())) == 1 and len(reasons) == len(estimates):
        return Estimate(None, None, None, next(iter(reasons.values())))
    if reasons:
        of = f"{len(reasons)} of {counted(len(estimates), 'participant')}"
        reason = f"it is not estimated for {of}: {name_some(reasons)}"
        return Estimate(None, None, None, reason)
    weights = n_rows / max(n_rows.sum(), 1)
    values = np.array([[e.value, e.low, e.high] for e in estimates.values()], dtype=np.float64)
    return Estimate(*(weights @ values).tolist())


def mean_candidates(
    models: Mapping[Any, BagClassifier], n_rows: Mapping[Any, int]
) -> list[WeighedCandidate]:
    """Return the methods that models weighed, best first.

    Weights, temperatures and dispersions are means over rows; log-likelihoods and times are sums.
    """
    weighed = {group: candidates_in(model) for group, model in models.items()}
    if len(weighed) == 1:
        return list(next(iter(weighed.values())))
    total = max(sum(n_rows.values()), 1)
    names = dict.fromkeys(c.name for found in weighed.values() for c in found)
    joined = []
    for name in names:
        rows = {g: n_rows[g] for g, found in weighed.items() if any(c.name == name for c in found)}
        those = [next(c for c in weighed[g] if c.name == name) for g in rows]
        numbers = np.array([[c.weight, c.temperature, c.dispersion] for c in those])
        shares = np.array(list(rows.values())) / max(sum(rows.values()), 1)
        weight, temperature, dispersion = (shares @ numbers).tolist()
        joined.append(
            WeighedCandidate(
                name,
                weight * sum(rows.values()) / total,
                float(sum(c.log_likelihood for c in those)),
                temperature,
                dispersion,
                sum(c.seconds for c in those),
            )
        )
    return sorted(joined, key=lambda c: -c.weight)
