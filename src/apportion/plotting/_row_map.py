"""A map of rows in two dimensions, and the rows that each of them is most similar to."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from apportion._utils.hashing import scramble
from apportion._utils.progress import report_progress
from apportion._utils.typing import AnyArray, FloatArray, IntArray, UIntArray
from apportion.graphs import Graph, KNNGraph

MOST_ROWS = 1500
"""Rows on a map: more take long to lay out and hide each other."""

N_NEIGHBORS = 5
_BLOCK_ROWS = 256
_PERPLEXITY = 30.0


@dataclass(frozen=True)
class RowsMap:
    """Rows on a map, and their neighbors.

    Attributes
    ----------
    rows : ndarray of shape (n_drawn,)
        The rows that are drawn.
    places : ndarray of shape (n_drawn, 2)
        Where each of them lies.
    neighbors : ndarray of shape (n_drawn, n_neighbors)
        The rows most similar to each, drawn or not; -1 where there are no more.
    similarity : ndarray of shape (n_drawn, n_neighbors)
        Which share each neighbor has in all that the row is similar to.
    how : str
        How places were found, in words.
    """

    rows: IntArray
    places: FloatArray
    neighbors: IntArray
    similarity: FloatArray
    how: str

    def among(self, rows: IntArray) -> RowsMap:
        """Return the map with rows numbered as they stand among others."""
        known = self.neighbors >= 0
        neighbors = np.where(known, rows[np.where(known, self.neighbors, 0)], -1)
        return RowsMap(rows[self.rows], self.places, neighbors, self.similarity, self.how)


def map_of_graph(graph: Graph, most: int = MOST_ROWS) -> RowsMap:
    """Return a map of the rows of a fitted graph.

    Rows are drawn in the order of the hash of their features. Where there are more than two
    features, t-SNE lays the rows out: near rows come to lie near each other.

    Examples
    --------
    >>> from apportion import KNNGraph
    >>> graph = KNNGraph(n_neighbors=1).fit(np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]]))
    >>> found = map_of_graph(graph)
    >>> found.neighbors[found.rows == 0, :2].tolist()
    [[1, -1]]
    """
    hashes = graph.hashes()
    rows = np.argsort(hashes, kind="stable")[:most]
    features = graph.features_of(rows)
    places, how = _laid_out_by_similarity(graph, rows) if features is None else _laid_out(features)
    neighbors, similarity = _most_similar(graph, rows, hashes)
    return RowsMap(rows, places, neighbors, similarity, how)


def map_of_features(X: FloatArray, most: int = MOST_ROWS) -> RowsMap:
    """Return a map of rows whose method has no graph; neighbors are the nearest rows."""
    return map_of_graph(KNNGraph().fit(X), most)


def _laid_out(features: FloatArray) -> tuple[FloatArray, str]:
    """Return places of rows by their features, and how they were found."""
    n, d = features.shape
    features = features.astype(np.float64)
    if d == 1:
        height = scramble(np.arange(n, dtype=np.uint64)) / 2.0**64
        return np.column_stack([features[:, 0], height]), (
            "from left to right the only feature; the height says nothing"
        )
    if d == 2:
        return features, "the two features"
    centerd = features - features.mean(axis=0)
    # Of one size, whatever the unit: t-SNE works in single precision.
    centerd /= max(float(np.abs(centerd).max()), 1e-300)
    spread = centerd.std(axis=0)
    if n < 5 or not spread.any():
        return features[:, np.argsort(-spread, kind="stable")[:2]], "two of the features"
    return _tsne(centerd, "euclidean"), "t-SNE of the features: near rows lie near each other"


def _laid_out_by_similarity(graph: Graph, rows: IntArray) -> tuple[FloatArray, str]:
    """Return places of rows by their similarities alone, and how they were found."""
    W = graph.similar_rows(rows)[:, rows]
    W = np.asarray(W.todense() if sparse.issparse(W) else W)
    apart = 1.0 - W / max(float(W.max(initial=0.0)), 1e-300)
    np.fill_diagonal(apart, 0.0)
    if len(rows) < 5 or not apart.any():
        return np.column_stack([np.arange(len(rows)), np.zeros(len(rows))]), "the order of rows"
    return _tsne(apart, "precomputed"), "t-SNE of the similarities: like rows lie near each other"


def _tsne(rows: FloatArray, metric: str) -> FloatArray:
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    report_progress("drawing the map")
    layout = TSNE(
        2,
        perplexity=min(_PERPLEXITY, (len(rows) - 1) / 3.0),
        max_iter=500,
        init="pca" if metric == "euclidean" else "random",
        metric=metric,
        random_state=0,
    )
    # Its threads wait for each other so often that on a busy machine one alone is faster.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        return np.asarray(layout.fit_transform(rows), dtype=np.float64)


def _most_similar(graph: Graph, rows: IntArray, hashes: UIntArray) -> tuple[IntArray, FloatArray]:
    """Return each row's most similar rows, and their share in all that it is similar to.

    Equally similar ones are chosen by their hash, and so alike in whatever order rows come.
    """
    neighbors = np.full((len(rows), N_NEIGHBORS), -1, dtype=np.intp)
    similarity = np.zeros((len(rows), N_NEIGHBORS))
    for first in range(0, len(rows), _BLOCK_ROWS):
        part = slice(first, first + _BLOCK_ROWS)
        W = graph.similar_rows(rows[part])
        for i, (columns, weights) in enumerate(_entries(W), start=first):
            total = weights.sum()
            if total <= 0:
                continue
            best = np.lexsort([columns, hashes[columns], -weights])[:N_NEIGHBORS]
            best = best[weights[best] > 0]
            neighbors[i, : len(best)] = columns[best]
            similarity[i, : len(best)] = weights[best] / total
    return neighbors, similarity


def _entries(W: Any) -> list[tuple[AnyArray, AnyArray]]:
    """Return the columns and weights of every row of a similarity matrix."""
    if not sparse.issparse(W):
        columns = np.arange(W.shape[1])
        return [(columns, weights) for weights in W]
    W = sparse.csr_array(W)
    return [(W.indices[a:b], W.data[a:b]) for a, b in pairwise(W.indptr)]
