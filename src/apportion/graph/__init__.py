"""Graphs of similar rows, and propagation on them."""

from apportion.graph.anchor import AnchorGraph
from apportion.graph.base import Graph, smoothest, smoothness_of, weighted_neighbours
from apportion.graph.choice import choose_graph
from apportion.graph.knn import KNNGraph
from apportion.graph.precomputed import PrecomputedGraph
from apportion.graph.propagate import Propagated, Propagator, metric_weights, propagator
from apportion.graph.rbf import RBFGraph

__all__ = [
    "AnchorGraph",
    "Graph",
    "KNNGraph",
    "PrecomputedGraph",
    "Propagated",
    "Propagator",
    "RBFGraph",
    "choose_graph",
    "metric_weights",
    "propagator",
    "smoothest",
    "smoothness_of",
    "weighted_neighbours",
]
