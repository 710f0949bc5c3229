"""Graphs of similar rows."""

from apportion.graphs._choice import choose_graph
from apportion.graphs._products import smoothness_of
from apportion.graphs.anchor import AnchorGraph
from apportion.graphs.base import Graph, smoothest, weighted_neighbors
from apportion.graphs.knn import KNNGraph
from apportion.graphs.precomputed import PrecomputedGraph
from apportion.graphs.rbf import RBFGraph

__all__ = [
    "AnchorGraph",
    "Graph",
    "KNNGraph",
    "PrecomputedGraph",
    "RBFGraph",
    "choose_graph",
    "smoothest",
    "smoothness_of",
    "weighted_neighbors",
]
