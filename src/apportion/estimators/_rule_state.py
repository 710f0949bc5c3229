"""The rules of `EMLLP` that can be saved: logistic regression, and trees on bins."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from apportion._io.archive import LEAST_POSITIVE, PLACES, Stored, numbers
from apportion._io.model_state import State, StateReader
from apportion._utils.typing import AnyArray
from apportion.estimators._cross_fitting import QuantileBins, Rule
from apportion.estimators._forest import Forest, ForestRegressor
from apportion.exceptions import SavedModelError

_MOST_EDGES = 254
"""The edges of 255 bins."""


def rule_state(estimator: Any, rule: Rule, bins: QuantileBins | None) -> State:
    """Return the state of a fitted rule.

    Parameters
    ----------
    estimator : object
        What `EMLLP` was asked for.
    rule : Rule
        The fitted rule.
    bins : QuantileBins or None
        The bins that the rule sees instead of the features.
    """
    named = estimator is None or isinstance(estimator, str)
    if named and bins is not None and isinstance(rule.learner, ExtraTreesRegressor):
        return _trees_state(ForestRegressor.of(rule.learner), bins)
    if named and bins is not None and isinstance(rule.learner, ForestRegressor):
        return _trees_state(rule.learner, bins)
    if named and isinstance(rule.learner, Pipeline):
        return _logistic_state(rule)
    raise SavedModelError(
        "the model's estimator",
        repr(estimator) if named else type(estimator).__name__,
        "EMLLP with 'logistic' or 'trees'",
        "fit it with one of these, or save labels only",
    )


def restored_rule(state: StateReader, n_classes: int) -> tuple[Rule, QuantileBins | None]:
    """Return the rule of a file, and its bins."""
    match state.take("rule", str):
        case "trees":
            bins = _restored_bins(state)
            return Rule.fitted(_restored_trees(state, n_classes), n_classes), bins
        case "logistic":
            return _restored_logistic(state, n_classes), None
        case other:
            state.refuse(f"the rule {other[:60]!r}", "'logistic' or 'trees'")


def _trees_state(trees: ForestRegressor, bins: QuantileBins) -> State:
    n_edges = np.array([len(edges) for edges in bins.edges_], dtype=np.int32)
    arrays = {"n_edges": n_edges, "edges": np.concatenate(bins.edges_), "values": trees.values}
    forest = trees.forest.in_columns(bins.order_)
    return State({"rule": "trees"}, {**forest.state(), **arrays})


def _restored_trees(state: StateReader, n_classes: int) -> ForestRegressor:
    state.lengths["outputs"] = 1 if n_classes == 2 else n_classes
    forest = Forest.from_state(state)
    return ForestRegressor(forest, state.array("values", numbers("nodes", "outputs", size=1e9)))


def _restored_bins(state: StateReader) -> QuantileBins:
    form = Stored(("features",), PLACES, least=1, most=_MOST_EDGES)
    ends = np.cumsum(state.array("n_edges", form), dtype=np.int64)
    edges = state.array("edges", Stored(("edges",)))
    if ends[-1] != len(edges):
        state.refuse_array("edges", f"{len(edges):,} edges", f"{ends[-1]:,}, as n_edges says")
    bins = QuantileBins()
    bins.edges_ = np.split(edges, ends[:-1])
    bins.order_ = np.arange(len(bins.edges_))
    return bins


def _logistic_state(rule: Rule) -> State:
    arrays: dict[str, AnyArray] = {"present": rule.present.astype(np.int32)}
    if len(rule.present) > 1:
        scaler, regression = (step for _, step in rule.learner.steps)
        arrays |= {"mean": scaler.mean_, "scale": scaler.scale_}
        arrays |= {"coef": regression.coef_, "intercept": regression.intercept_}
    return State({"rule": "logistic"}, arrays)


def _restored_logistic(state: StateReader, n_classes: int) -> Rule:
    """Return logistic regression on standardized features; of a single class, this class."""
    present = state.array("present", Stored(("present",), PLACES, below="classes"))
    if np.any(np.diff(present) <= 0):
        state.refuse_array("present", "classes in disorder", "every class once, sorted")
    learner = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    if len(present) > 1:
        state.lengths["functions"] = 1 if len(present) == 2 else len(present)
        scaler, regression = (step for _, step in learner.steps)
        scaler.mean_ = state.array("mean", numbers("features", size=1e100))
        scaler.scale_ = state.array("scale", Stored(("features",), least=LEAST_POSITIVE))
        scaler.var_ = scaler.scale_**2
        regression.coef_ = state.array("coef", numbers("functions", "features", size=1e150))
        regression.intercept_ = state.array("intercept", numbers("functions", size=1e150))
        regression.classes_ = present.astype(np.intp)
        scaler.n_features_in_ = regression.n_features_in_ = len(scaler.mean_)
    return Rule.fitted(learner, n_classes, present.astype(np.intp))
