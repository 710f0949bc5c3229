"""A map of the rows in two dimensions, and the most similar rows of each."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from apportion._utils.hashing import scramble
from apportion._utils.progress import report_progress
from apportion._utils.typing import FloatArray, IntArray, UIntArray
from apportion.graphs import Graph

MOST_ROWS = 1500
"""Rows on a map; more take long to lay out and hide each other."""

N_NEIGHBORS = 5
_BLOCK_ROWS = 256


@dataclass(frozen=True)
class RowMap:
    """Rows on a map, and their most similar rows.

    Attributes
    ----------
    rows : ndarray of shape (n_drawn,)
        The rows on the map.
    coordinates : ndarray of shape (n_drawn, 2)
        Their positions on the map.
    neighbors : ndarray of shape (n_drawn, n_neighbors)
        The rows most similar to each, on the map or not; -1 where there are no more.
    similarity : ndarray of shape (n_drawn, n_neighbors)
        The share of each neighbor in the sum of all similarities of the row.
    layout : str
        How the coordinates were found, in words.
    """

    rows: IntArray
    coordinates: FloatArray
    neighbors: IntArray
    similarity: FloatArray
    layout: str


def map_of_graph(graph: Graph, rows: IntArray | None = None, most: int = MOST_ROWS) -> RowMap:
    """Return a map of the rows of a fitted graph.

    The hash of their features decides which rows are drawn. If there are more than two features,
    t-SNE computes the coordinates, so that similar rows lie close together.

    Parameters
    ----------
    graph : Graph
        A fitted graph.
    rows : ndarray of shape (n_samples,), optional
        The numbers of the graph's rows in a larger table; by default 0, 1, ….
    most : int
        The largest number of rows on the map.

    Returns
    -------
    RowMap

    Examples
    --------
    >>> from apportion import KNNGraph
    >>> graph = KNNGraph(n_neighbors=1).fit(np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]]))
    >>> row_map = map_of_graph(graph)
    >>> row_map.neighbors[row_map.rows == 0, :2].tolist()
    [[1, -1]]
    """
    graph = graph.untied  # neighbors are rows of similar features
    hashes = graph.hashes()
    drawn = np.argsort(hashes, kind="stable")[:most]
    features = graph.features_of(drawn)
    layout = _layout_of_similarities(graph, drawn) if features is None else _layout_of(features)
    neighbors, similarity = _most_similar(graph, drawn, hashes)
    if rows is not None:
        drawn, neighbors = rows[drawn], np.where(neighbors < 0, -1, rows[neighbors])
    return RowMap(drawn, layout[0], neighbors, similarity, layout[1])


def _layout_of(features: FloatArray) -> tuple[FloatArray, str]:
    """Return coordinates from features, and how they were found."""
    n, d = features.shape
    features = features.astype(np.float64)
    if d == 1:
        height = scramble(np.arange(n, dtype=np.uint64)) / 2.0**64
        return np.column_stack([features, height]), (
            "from left to right the only feature; the height says nothing"
        )
    if d == 2:
        return features, "the two features"
    # t-SNE works in single precision: without a common scale, large or tiny features would
    # overflow or collapse.
    centered = features - features.mean(axis=0)
    centered /= max(float(np.abs(centered).max()), 1e-300)
    spread = centered.std(axis=0)
    different, copies = _different(centered.astype(np.float32))
    if len(different) < 5:
        return features[:, np.argsort(-spread, kind="stable")[:2]], "two of the features"
    layout = _tsne(centered[different], "euclidean")
    return layout[copies], "t-SNE of the features: near rows lie near each other"


def _layout_of_similarities(graph: Graph, rows: IntArray) -> tuple[FloatArray, str]:
    """Return coordinates from similarities alone, and how they were found."""
    W = sparse.csr_array(graph.similar_rows(rows))[:, rows].toarray()
    distance = 1.0 - W / max(float(W.max(initial=0.0)), 1e-300)
    np.fill_diagonal(distance, 0.0)
    different, copies = _different(distance)
    if len(different) < 5:
        return np.column_stack([copies, np.zeros(len(rows))]), "rows of equal similarities together"
    layout = _tsne(distance[np.ix_(different, different)], "precomputed")
    return layout[copies], "t-SNE of the similarities: near rows are similar"


def _different(rows: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the first of all equal rows, and for every row the position of its equal there."""
    _, first, equal = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[equal.ravel()]


def _tsne(rows: FloatArray, metric: str) -> FloatArray:
    """Return the coordinates of different rows.

    Equal rows would begin and stay in one place, where nothing holds them against the forces
    between places; scikit-learn 1.9 then moves them out of the range of numbers, and ends
    the process.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    report_progress("drawing the map")
    layout = TSNE(
        2,
        perplexity=min(30.0, (len(rows) - 1) / 3.0),  # 30 is the usual choice
        max_iter=500,
        init="pca" if metric == "euclidean" else "random",
        metric=metric,
        random_state=0,
    )
    # Its threads wait for each other so often that one alone is faster on a busy machine.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        return np.asarray(layout.fit_transform(rows), dtype=np.float64)


def _most_similar(graph: Graph, rows: IntArray, hashes: UIntArray) -> tuple[IntArray, FloatArray]:
    """Return the most similar rows of each row, and their shares in all its similarities.

    Of equally similar rows, those with the smallest hash are taken, so that the choice does not
    depend on the order of the rows.
    """
    neighbors = np.full((len(rows), N_NEIGHBORS), -1, dtype=np.intp)
    similarity = np.zeros((len(rows), N_NEIGHBORS))
    for start in range(0, len(rows), _BLOCK_ROWS):
        W = sparse.csr_array(graph.similar_rows(rows[start : start + _BLOCK_ROWS]))
        for i in range(W.shape[0]):
            entries = slice(W.indptr[i], W.indptr[i + 1])
            columns, weights = W.indices[entries], W.data[entries]
            best = np.lexsort([columns, hashes[columns], -weights])[:N_NEIGHBORS]
            best = best[weights[best] > 0]
            neighbors[start + i, : len(best)] = columns[best]
            similarity[start + i, : len(best)] = weights[best] / weights.sum()
    return neighbors, similarity
