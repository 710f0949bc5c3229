"""What the estimators on a graph of similar rows have in common."""

from __future__ import annotations

import logging
import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils import Tags

from apportion._core.decode import Decoding
from apportion._core.projection import MassProjection
from apportion._core.warn import warn_of_scales
from apportion._io.archive import Stored
from apportion._io.model_state import State, StateReader, described, description
from apportion._utils.typing import AnyArray, FloatArray
from apportion.estimators._base import BagClassifier
from apportion.exceptions import (
    IsolatedRowsWarning,
    SavedModelError,
    name_some,
    users_level,
)
from apportion.graphs import (
    AnchorGraph,
    Graph,
    KNNGraph,
    PrecomputedGraph,
    RBFGraph,
    choose_graph,
    weighted_neighbors,
)
from apportion.supervision.bags import Bags

_log = logging.getLogger("apportion")

_NAMED_GRAPHS: dict[str, type[Graph]] = {
    "knn": KNNGraph,
    "anchor": AnchorGraph,
    "rbf": RBFGraph,
    "precomputed": PrecomputedGraph,
}

SAVED_GRAPHS: dict[str, type[Graph]] = {
    graph.__name__: graph for graph in (KNNGraph, AnchorGraph, RBFGraph)
}
"""The graphs that can be saved."""


class GraphClassifier(BagClassifier):
    """A classifier on a graph; new rows take the weighted mean of their nearest fitted rows."""

    graph: str | Graph

    _averages_soft_labels: ClassVar[bool] = True
    """Whether new rows average the soft labels of the fitted rows, and nothing else."""

    graph_: Graph
    graph_choice_: str

    @property
    def _sees_features(self) -> bool:
        return self.graph_.sees_features

    @property
    def _takes_sparse(self) -> bool:
        return not self.graph_.sees_features

    def _soft_labels(self, X: Any) -> FloatArray:
        """Return the weighted mean of the soft labels of each row's nearest fitted rows.

        An `IsolatedRowsWarning` names the rows that are far from all fitted rows.
        """
        weights, isolated = self.graph_.affinities(X)
        if isolated.any():
            rows = np.flatnonzero(isolated).tolist()
            warnings.warn(
                IsolatedRowsWarning(
                    f"{len(rows)} of {len(isolated)} new rows have no similar fitted row "
                    f"(rows {name_some(rows)}): they take the labels of the nearest rows, however "
                    "far, or the class shares if there are none.",
                    rows,
                ),
                stacklevel=users_level(),
            )
        return weighted_neighbors(weights, self._prototype_labels, self._overall)

    def _under_totals(self, F: FloatArray, matched: Bags) -> FloatArray:
        project = MassProjection(matched, np.ones(len(F)))
        return project.from_columns(project(project.to_columns(F)))

    def _asked_graph(self) -> Graph | None:
        """Return the graph that was asked for, or None if it is to be chosen."""
        if isinstance(self.graph, Graph):
            return clone(self.graph)
        if isinstance(self.graph, str) and self.graph in _NAMED_GRAPHS:
            return _NAMED_GRAPHS[self.graph]()
        if isinstance(self.graph, str) and self.graph == "auto":
            return None
        raise ValueError(
            f"The 'graph' parameter of {type(self).__name__} must be one of 'auto', "
            f"{', '.join(map(repr, _NAMED_GRAPHS))} or a graph object such as KNNGraph(). "
            f"Got {self.graph!r} instead."
        )

    def _rows_and_graph(self, X: Any, asked: Graph | None) -> tuple[Any, Graph]:
        """Return X as numbers, and the graph that was asked for or one chosen for X."""
        sparse_too = asked is not None and not asked.sees_features
        X = self._checked_rows(X, reset=True, sparse_too=sparse_too)
        if asked is None or asked.sees_features:
            warn_of_scales(X, getattr(self, "feature_names_in_", None))
        if asked is not None:
            self.graph_choice_ = f"{type(asked).__name__}: as asked for"
            return X, asked
        return X, self._chosen_graph(X, getattr(self, "device", "cpu"))

    def _chosen_graph(self, X: Any, device: str) -> Graph:
        """Return the graph that suits the number of rows and features."""
        graph, self.graph_choice_ = choose_graph(*X.shape, device=device)
        _log.info("graph=%r is %s", self.graph, self.graph_choice_)
        return graph

    def _keep(
        self,
        matched: Bags,
        graph: Graph,
        F: FloatArray,
        by_quota: Decoding,
        averaged: FloatArray | None = None,
        along_time: Decoding | None = None,
    ) -> None:
        """Store the graph beside what every estimator stores.

        New rows average the soft labels `averaged` of their neighbors, by default F.
        """
        self._store(matched, F, by_quota, along_time)
        self.graph_ = graph
        self._prototype_labels = graph.prototype_labels(F if averaged is None else averaged)
        self._overall = matched.overall
        graph.leave_device()

    def _restore(
        self, classes: AnyArray, graph: Graph, prototype_labels: FloatArray, overall: FloatArray
    ) -> None:
        """Store what `predict` needs, with a graph for new rows only."""
        self.classes_ = classes
        self.graph_ = graph
        self._prototype_labels, self._overall = prototype_labels, overall
        if graph.prototype_kind == "rows" and self._averages_soft_labels:
            self.label_distributions_ = self._prototype_labels

    def _state(self) -> State:
        graph = self._storable_graph
        return State(
            {"graph_choice": self.graph_choice_, "graph": described(graph)},
            {**graph.state(), "voices": self._prototype_labels, "overall": self._overall},
        )

    def _restore_state(self, state: StateReader) -> None:
        kind, parameters = description(state.within("graph"), SAVED_GRAPHS)
        arrays = state.arrays(kind.stored)
        # Files call the labels of the prototypes "voices", as the first version of the format did.
        form = Stored((kind.prototype_kind, "classes"), shares=True)
        prototype_labels = state.array("voices", form)
        overall = state.array("overall", Stored(("classes",), shares=True))
        self._asked_graph()
        graph = kind.from_state(parameters, arrays)
        self._restore(self.classes_, graph, prototype_labels, overall)
        self.graph_choice_ = state.take("graph_choice", str)

    def _rows_in_state(self) -> dict[str, tuple[int, str]]:
        graph = self._storable_graph
        return {graph.prototype_kind: (len(self._prototype_labels), graph.rows_in_state())}

    @property
    def _storable_graph(self) -> Graph:
        if type(self.graph_) not in SAVED_GRAPHS.values():
            raise SavedModelError(
                "the model's graph",
                type(self.graph_).__name__,
                ", ".join(SAVED_GRAPHS),
                "fit the model on features with one of these graphs, or save labels only",
            )
        return self.graph_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        precomputed = self.graph == "precomputed" or isinstance(self.graph, PrecomputedGraph)
        tags.input_tags.pairwise = precomputed
        tags.input_tags.sparse = precomputed
        return tags
