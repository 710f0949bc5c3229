"""The graph of similar rows in a fitted model."""

from __future__ import annotations

from typing import Any

from apportion.estimators._graph import GraphClassifier
from apportion.graphs import Graph, KNNGraph
from apportion.model_selection._weighing import WeighingClassifier


def graph_in(model: Any) -> Graph | None:
    """Return the graph of a fitted model, or of the weightiest of its methods that has one.

    An average without such a method has the graph that taught its trees.
    """
    if isinstance(model, GraphClassifier):
        return model.graph_
    if not isinstance(model, WeighingClassifier):
        return None
    # Weights decide, and of equal ones the order in which the methods were asked for.
    names = sorted(model.candidates_, key=lambda name: -model.weights_[name])
    graphs = (graph_in(model.candidates_[name]) for name in names)
    return next((graph for graph in graphs if graph is not None), model._teaching_graph)


def graph_of(model: Any, X: Any) -> Graph:
    """Return a graph of nearest neighbors of the fitted rows, for a model that has none.

    Features are standardized if the model standardizes them.
    """
    standardized = isinstance(model, WeighingClassifier)
    return KNNGraph().fit(model._standardization(X) if standardized else X)
