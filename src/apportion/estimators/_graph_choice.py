"""Choose a graph without labels: its parameter, and how strongly it ties rows in time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from apportion._core.decode import Decoding, Quotas
from apportion._core.descent import Settings, Solution
from apportion._core.persistence import flicker_of
from apportion._core.refine import refine
from apportion._core.uniqueness import unsupervised_rows
from apportion._utils.progress import PROPAGATING, report_progress, several_runs
from apportion._utils.sequences import Sequences
from apportion._utils.typing import FloatArray
from apportion.graphs import Graph

_log = logging.getLogger("apportion")

_ROUGH_TOL = 1e-8
"""Soft labels of this stationarity are enough to compare the graphs of a grid. At 1e-6 and 1e-7,
those on a graph of large γ differed with the order of the classes, and so did the choice."""

_COMPARED_TOL, _COMPARED_ITERATIONS = 1e-5, 400
"""Where to stop if only the labels are compared: their flicker, and the weights of ties in time."""

_PER_FLICKER, _STRONGEST, _NO_FLICKER = 2.0, 5.0, 0.02
"""The strongest weight of ties in time that is tried is twice the ratio of labels that flicker to
activities that change, at most 5, and 0 if hardly any label flickers. Chosen on chains of three
overlapping classes and on made-up weeks, where labels right without ties, with 1 and with 5 are
.86, .89, .95 (ratio 2.3) and .92, .98, .96 (ratio 0.6). Checked on SPHERE in bags of 60 s: .646,
.639, .641 (ratio 0.3), and of 300 s: .553, .576, .578 (ratio 0.2)."""

_WEAKER = (1 / 3, 1 / 10)
"""Parts of this weight that are compared with it. Ties that are too strong can exchange two of a
person's activities as a whole: then labels with weaker ties agree more, with the features and in
time. Of 15 made-up people, with all sensors and with on/off sensors only, one has .90 of the labels
right instead of .43 (.67 without ties), and the others .003 more in the mean, .003 fewer at most,
than with the strongest ties."""

_MANY_ROWS = 50_000
"""Beyond this many rows, only the strongest ties are tried, which takes less time."""

_EQUALLY_SMOOTH = 1e-9
"""Smoothness that differs by no more than this is equal."""


def rough_settings(settings: Settings, tol: float, max_iter: int) -> Settings:
    """Return settings for soft labels that are good enough to compare what comes of them."""
    return replace(
        settings,
        n_probes=0,
        stop="converged",
        tol=max(settings.tol, tol),
        max_iter=min(settings.max_iter, max_iter),
    )


class LabeledGraph(NamedTuple):
    """A graph, the soft labels on it, and their quota labels."""

    graph: Graph
    solution: Solution
    labels: Decoding


@dataclass(frozen=True)
class GraphChoice:
    """Solve on several graphs, and keep the one whose labels are smoothest.

    Attributes
    ----------
    run : callable
        From a graph, settings and options of `solve` to a solution.
    decode : Quotas
        The quota decoding.
    settings : Settings
        The settings of the exact solution.
    prior : ndarray of shape (n_samples, n_classes)
        The soft labels to start from.
    """

    run: Callable[..., Solution]
    decode: Quotas
    settings: Settings
    prior: FloatArray

    def of_grid(self, graph: Graph, X: Any) -> LabeledGraph:
        """Return the graph of a grid whose quota labels are smoothest on it, solved exactly.

        This is the paper's choice of γ by the highest f̄ᵀSf̄, which does not look at any label.
        """
        several = graph.n_candidates > 1
        tol = max(self.settings.tol, _ROUGH_TOL) if several else self.settings.tol
        goes_on = tol > self.settings.tol
        rough = replace(self.settings, tol=tol)
        n_runs = graph.n_candidates + goes_on
        with several_runs(PROPAGATING, "graph", n_runs, at_most=True) as next_run:
            best = self._smoothest(graph.candidates(X), rough, next_run)
            if not goes_on:
                return best
            next_run()
            return self._continued(best)

    def in_time(
        self, graph: Graph, X: Any, sequences: Sequences, weight: float | str
    ) -> LabeledGraph:
        """Return the same with ties between rows that follow each other, solved exactly.

        Parameters
        ----------
        graph : Graph
            The graph, not yet fitted; of a grid, the one that is best without ties is tied.
        X : array-like
            The rows.
        sequences : Sequences
            Which rows follow each other.
        weight : float or "auto"
            The weight of the ties. `"auto"` follows from how much labels flicker without ties; of
            this weight and parts of it, the one is taken whose labels are smoothest on the graph
            with the strongest ties.
        """
        if not isinstance(weight, str) and graph.n_candidates == 1:
            return self._exact(next(graph.candidates(X)).tied_in_time(sequences, weight))
        rough = rough_settings(self.settings, _COMPARED_TOL, _COMPARED_ITERATIONS)
        n_runs = graph.n_candidates + 1 + len(_WEAKER) + 1
        with several_runs(PROPAGATING, "graph", n_runs, at_most=True) as next_run:
            untied = self._smoothest(graph.candidates(X), rough, next_run)
            few = len(self.prior) <= _MANY_ROWS
            parts = _WEAKER if few and isinstance(weight, str) else ()
            if isinstance(weight, str):
                weight = self._weight_for(untied, sequences)
            if not weight:
                next_run()
                return self._continued(untied)
            strongest = untied.graph.tied_in_time(sequences, weight)
            weaker = (untied.graph.tied_in_time(sequences, weight * part) for part in parts)
            if not parts:
                next_run()
                return self._exact(strongest)
            best = self._smoothest(chain([strongest], weaker), rough, next_run, strongest)
            next_run()
            return self._continued(best)

    def _exact(self, graph: Graph) -> LabeledGraph:
        solution = self.run(graph, self.settings)
        report_progress("decoding")
        return LabeledGraph(graph, solution, self.decode(solution.F))

    def _smoothest(
        self,
        graphs: Iterator[Graph],
        settings: Settings,
        next_run: Callable[[], None],
        judge: Graph | None = None,
    ) -> LabeledGraph:
        """Return the graph whose labels are smoothest on it; refined labels on a judge if given.

        Among equally smooth graphs the first is taken. The search ends early at a smoothness of 1,
        the largest possible.
        """
        best: tuple[float, LabeledGraph] | None = None
        for graph in graphs:
            next_run()
            solution = self.run(graph, settings)
            report_progress("decoding")
            labels = self.decode(solution.F)
            compared = labels if judge is None else refine(graph, self.decode, solution.F, labels)
            n_classes = self.decode.bags.n_classes
            smoothness = (judge or graph).label_smoothness(compared.labels, n_classes)
            if best is None or smoothness > best[0] + _EQUALLY_SMOOTH:
                best = (smoothness, LabeledGraph(graph, solution, labels))
            if smoothness > 1.0 - _EQUALLY_SMOOTH:
                break
        assert best is not None, "there is at least one graph"
        return best[1]

    def _weight_for(self, untied: LabeledGraph, sequences: Sequences) -> float:
        """Return the strongest weight to try, by how much labels flicker without ties in time."""
        labels = refine(untied.graph, self.decode, untied.solution.F, untied.labels).labels
        flicker = flicker_of(labels, sequences)
        weight = 0.0
        if flicker.flicker >= _NO_FLICKER:
            weight = min(_PER_FLICKER * flicker.flicker / max(flicker.change, 1e-3), _STRONGEST)
        _log.info("time_weight='auto' is at most %.2g: without ties %s", weight, flicker)
        return weight

    def _continued(self, rough: LabeledGraph) -> LabeledGraph:
        """Return the exact solution, from a rough one if the result does not depend on the start.

        Rows that no total and no label reaches keep their start, which must be the prior.
        """
        settings = self.settings
        if settings.solver != "accelerated" or settings.projection != "nearest":
            return self._exact(rough.graph)
        alone = unsupervised_rows(rough.graph, self.decode.bags)
        start = np.where(alone[:, None], self.prior, rough.solution.F)
        left = max(settings.max_iter - rough.solution.n_iter, 1)
        exact = self.run(rough.graph, replace(settings, max_iter=left), start=start)
        energies = np.concatenate([rough.solution.energies, exact.energies[1:]])
        n_iter = rough.solution.n_iter + exact.n_iter
        report_progress("decoding")
        solution = replace(exact, n_iter=n_iter, energies=energies)
        return LabeledGraph(rough.graph, solution, self.decode(solution.F))
