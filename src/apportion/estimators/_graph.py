"""What the estimators that live on a graph of similar rows have in common."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags

from apportion._core.decode import Decoding
from apportion._core.descent import Solution
from apportion._core.projection import MassProjection
from apportion._core.uniqueness import unsupervised_rows
from apportion._utils.typing import AnyArray, FloatArray
from apportion.estimators._base import BagClassifier
from apportion.exceptions import (
    Advice,
    AmbiguousTotalsWarning,
    DuplicateRowsWarning,
    IsolatedRowsWarning,
    MissedNeighborsWarning,
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


class GraphClassifier(BagClassifier):
    """A classifier whose soft labels live on a graph; new rows ask their nearest fitted rows."""

    graph: str | Graph

    graph_: Graph
    graph_choice_: str

    @property
    def _sees_features(self) -> bool:
        return self.graph_.sees_features

    @property
    def _takes_sparse(self) -> bool:
        return not self.graph_.sees_features

    @property
    def _voices(self) -> FloatArray:
        """What the fitted rows say when a new row asks."""
        return self.label_distributions_

    def _soft_labels(self, X: Any) -> FloatArray:
        """Return the weighted mean of what each row's nearest fitted rows say.

        Rows too far from all fitted rows are reported by an `IsolatedRowsWarning`.
        """
        weights, isolated = self.graph_.affinities(X)
        if isolated.any():
            rows = np.flatnonzero(isolated).tolist()
            warnings.warn(
                IsolatedRowsWarning(
                    f"{len(rows)} of {len(isolated)} new rows have no similar fitted row "
                    f"(rows {name_some(rows)}): their answer is that of the "
                    "nearest rows, however far, or the class shares where there are none.",
                    rows,
                ),
                stacklevel=users_level(),
            )
        return weighted_neighbors(weights, self._prototype_labels, self._overall)

    def _under_totals(self, F: FloatArray, matched: Bags) -> FloatArray:
        project = MassProjection(matched, np.ones(len(F)))
        return project.from_columns(project(project.to_columns(F)))

    def _asked_graph(self) -> Graph | None:
        """Return the graph that was asked for, or None where it is to be chosen."""
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
        if asked is not None:
            self.graph_choice_ = f"{type(asked).__name__}: as asked for"
            return X, asked
        graph, self.graph_choice_ = choose_graph(*X.shape)
        _log.info("graph=%r is %s", self.graph, self.graph_choice_)
        return X, graph

    def _keep(self, matched: Bags, graph: Graph, F: FloatArray, by_quota: Decoding) -> None:
        """Keep the graph beside what every estimator keeps."""
        self._store(matched, F, by_quota)
        self.graph_ = graph
        self._prototype_labels = graph.prototype_labels(self._voices)
        self._overall = matched.overall

    def _answers(self) -> dict[str, FloatArray]:
        """Return what new rows are told: what those say whom they ask, and shares for the rest."""
        return {"voices": self._prototype_labels, "overall": self._overall}

    def _restore(self, classes: AnyArray, graph: Graph, answers: Mapping[str, FloatArray]) -> None:
        """Keep what `predict` needs, with a graph that knows new rows only."""
        self.classes_ = classes
        self.graph_ = graph
        self._prototype_labels, self._overall = answers["voices"], answers["overall"]
        if graph.prototypes_are == "rows":
            self.label_distributions_ = self._prototype_labels

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        precomputed = self.graph == "precomputed" or isinstance(self.graph, PrecomputedGraph)
        tags.input_tags.pairwise = precomputed
        tags.input_tags.sparse = precomputed
        return tags


def warn_of_graph(graph: Graph) -> None:
    """Warn of rows that are hardly tied to any other, and of rows that equal too many others."""
    if isinstance(graph, KNNGraph) and graph.recall_ < graph.recall:
        _warn(
            MissedNeighborsWarning,
            f"The search finds {graph.recall_:.1%} of the true neighbors of a sample, less than "
            f"the {graph.recall:.1%} asked for: groups of rows are too tight, for their distance "
            "from each other, for single precision.",
            "{exact_search}",
        )
    crowded = graph.crowded_rows()
    if crowded.size:
        _warn(
            DuplicateRowsWarning,
            f"{crowded.size} of {graph.n_samples_} rows equal all of their nearest neighbors (rows "
            f"{name_some(crowded)}): distances say little about them.",
            "Add measurements that tell them apart (the time of recording seldom does), or use "
            "more neighbors ({n_neighbors}).",
        )
    weak = graph.weak_rows()
    if weak.size and graph.n_samples_ > 1:
        alone = int((graph.strengths[weak] == 0).sum())
        _warn(
            IsolatedRowsWarning,
            f"{weak.size} of {graph.n_samples_} rows have almost no similar row, {alone} of them "
            f"none at all (rows {name_some(weak)}): they stay near the shares of their totals.",
            "Look for outliers and unscaled features, or use a graph with more neighbors "
            "({n_neighbors}).",
        )


def warn_of_unsupervised_rows(graph: Graph, bags: Bags) -> None:
    """Warn of rows that no label and no known total reaches."""
    unknown = np.flatnonzero(unsupervised_rows(graph, bags))
    if unknown.size:
        _warn(
            IsolatedRowsWarning,
            f"{unknown.size} of {bags.n_samples} rows are out of reach of any known total or label "
            f"(rows {name_some(unknown)}): they keep the overall class shares.",
            "Give totals for them, label a row among them, or use a graph with more neighbors "
            "({n_neighbors}).",
        )


def warn_of_solution(solution: Solution, tol: float) -> None:
    """Warn of a run that did not converge, and of totals that admit several answers."""
    if not solution.success:
        status = solution.status.value
        _warn(
            ConvergenceWarning,
            f"LP-LLP {status.facts}",
            f"{status.hint} (after {solution.n_iter} iterations: stationarity "
            f"{solution.stationarity:.1e}, constraint residual {solution.residual:.1e}, "
            f"tol {tol:g}).",
        )
    if solution.propagation_residual > 1e-6:
        _warn(
            ConvergenceWarning,
            f"Propagation was solved only to a relative residual of "
            f"{solution.propagation_residual:.1e}: soft labels are that inexact.",
            "Lower {alpha}.",
        )
    asked = solution.n_probes + solution.probes_left
    stopped = (
        f"the comparison stopped after {solution.n_probes} of {asked} random starts, because they "
        "took much longer than the first run"
    )
    if solution.unique is False:
        also = f" ({stopped})" if solution.probes_left else ""
        _warn(
            AmbiguousTotalsWarning,
            f"The totals admit several labelings: {solution.n_starts} starts ended in different "
            f"soft labels of equal energy, and the one with the smoothest labels was kept{also}.",
            "More totals, totals that differ more, {labels}, or a graph that ties "
            "separate groups of rows together (more neighbors: {n_neighbors}) would decide.",
        )
    elif solution.probes_left:
        _warn(
            AmbiguousTotalsWarning,
            f"Whether the totals admit several labelings is not known: {stopped}.",
            "Raise {n_probes} to let them take longer, or {tol} to let every run end sooner; with "
            "{n_probes} 0 nothing is compared.",
        )


def _warn(category: type[Warning], facts: str, hint: str) -> None:
    warnings.warn(Advice(facts, hint), category, stacklevel=users_level())
