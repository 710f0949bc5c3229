"""Graphs: right on ordinary data, never NaN on hostile data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.base import clone

import reference
from apportion._utils import memory
from apportion.graphs import KNNGraph, PrecomputedGraph, RBFGraph, weighted_neighbors

hostile = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 25), st.integers(1, 3)),
    elements=st.one_of(
        st.sampled_from([0.0, -0.0, 1.0, 1.0 + 1e-12, 1e6, -1e6]),
        st.floats(-1e3, 1e3, allow_nan=False),
    ),
)


def dense(W):
    return W.toarray() if sparse.issparse(W) else W


def test_rbf_is_the_papers():
    X = np.random.default_rng(0).normal(size=(15, 3))
    np.testing.assert_allclose(
        RBFGraph(gamma=0.7).fit(X).affinity_, reference.rbf_similarities(X, 0.7), rtol=1e-10
    )


@pytest.mark.parametrize("k", [1, 3, 10, 50])
def test_knn_is_self_tuned(k):
    X = np.random.default_rng(1).normal(size=(20, 3))
    np.testing.assert_allclose(
        dense(KNNGraph(k).fit(X).affinity_), reference.knn_similarities(X, k), rtol=1e-10
    )


@pytest.mark.parametrize("graph", [KNNGraph(3), RBFGraph(), RBFGraph(2.0)])
@given(X=hostile)
def test_hostile_rows_never_give_nan(graph, X):
    """Duplicates, constant features, outliers, one row: finite, symmetric, zero diagonal."""
    for fitted in clone(graph).candidates(X):
        W = dense(fitted.affinity_)
        assert np.isfinite(W).all()
        assert (W >= 0).all()
        assert (W <= 1).all()
        np.testing.assert_array_equal(W, W.T)
        np.testing.assert_array_equal(np.diag(W), 0)
        np.testing.assert_allclose(fitted.degrees_, W.sum(axis=1), rtol=1e-12)
        weights, _ = fitted.affinities(X + 0.5)
        F = np.eye(2)[np.arange(len(X)) % 2]
        mean = weighted_neighbors(weights, F, np.array([0.5, 0.5]))
        np.testing.assert_allclose(mean.sum(axis=1), 1.0)


def test_more_than_k_duplicates_keep_a_positive_scale():
    X = np.vstack([np.zeros((8, 2)), np.random.default_rng(0).normal(size=(8, 2))])
    graph = KNNGraph(3).fit(X)
    assert (graph.scales_ > 0).all()
    assert (graph.degrees_[:8] > 0).all()


def test_rescaling_all_features_changes_nothing():
    X = np.random.default_rng(2).normal(size=(40, 3))
    np.testing.assert_allclose(
        dense(KNNGraph(5).fit(X).affinity_), dense(KNNGraph(5).fit(1000.0 * X).affinity_), rtol=1e-9
    )


@pytest.mark.parametrize("graph", [KNNGraph(3), RBFGraph(1.0)])
def test_permuting_rows_permutes_the_graph(graph):
    """Also where many distances are equal: rows on a grid of integers, all different."""
    rng = np.random.default_rng(3)
    X = np.array([[i, j] for i in range(6) for j in range(6)], dtype=float)
    order = rng.permutation(len(X))
    W = dense(clone(graph).fit(X).affinity_)
    shuffled = dense(clone(graph).fit(X[order]).affinity_)
    np.testing.assert_allclose(shuffled, W[np.ix_(order, order)], rtol=1e-12)


def test_equal_rows_have_equal_neighbors_however_the_input_is_ordered():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (200, 3)).astype(float)
    order = rng.permutation(200)
    graph = KNNGraph(10).fit(X)
    W = dense(graph.affinity_)
    np.testing.assert_allclose(
        dense(KNNGraph(10).fit(X[order]).affinity_), W[np.ix_(order, order)], rtol=1e-12
    )
    _, point = np.unique(X, axis=0, return_inverse=True)
    for a in range(point.max() + 1):
        copies = np.flatnonzero(point == a)
        with_itself = W[copies] + (len(copies) > 1) * np.eye(200)[copies]
        np.testing.assert_allclose(with_itself, with_itself[[0]].repeat(len(copies), axis=0))
    weights, _ = graph.affinities(X[:5])
    np.testing.assert_allclose(dense(weights)[:, point == point[0]].std(axis=1), 0, atol=1e-12)


def test_too_many_copies_are_drawn_by_lot_and_stay_sparse():
    X = np.zeros((2000, 2))
    graph = KNNGraph(5).fit(X)
    assert graph.affinity_.nnz <= 2 * 5 * 2000
    assert len(graph.crowded_rows()) == 2000


def test_gamma_grid_gives_one_graph_each():
    X = np.random.default_rng(0).normal(size=(30, 2))
    gammas = [graph.gamma_ for graph in RBFGraph([0.1, 1.0, 3.0]).candidates(X)]
    assert gammas == [0.1, 1.0, 3.0]
    automatic = [graph.gamma_ for graph in RBFGraph().candidates(X)]
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    tenth = np.median(np.sort(squared, axis=1)[:, 10])
    np.testing.assert_allclose(automatic, 2.0 ** np.arange(-4, 7) / tenth)


@pytest.mark.parametrize("gamma", ["wide", -1.0, 0.0, [1.0, -1.0], [], float("nan")])
def test_bad_gamma(gamma):
    with pytest.raises(ValueError, match="'gamma' parameter of RBFGraph"):
        RBFGraph(gamma).fit(np.zeros((3, 1)))


@pytest.mark.parametrize("k", [0, 2.5, "many"])
def test_bad_neighbors(k):
    with pytest.raises(ValueError, match="'n_neighbors' parameter of KNNGraph"):
        KNNGraph(k).fit(np.zeros((3, 1)))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.coo_matrix])
def test_precomputed(form):
    W = reference.rbf_similarities(np.random.default_rng(0).normal(size=(6, 2)), 1.0)
    graph = PrecomputedGraph().fit(form(W + np.eye(6)))
    np.testing.assert_allclose(dense(graph.affinity_), W)
    lopsided = W.copy()
    lopsided[1, 4] += 1
    with pytest.raises(ValueError, match=r"symmetric. Rows (1 and 4|4 and 1)"):
        PrecomputedGraph().fit(form(lopsided))
    with pytest.raises(ValueError, match="square"):
        PrecomputedGraph().fit(form(W[:4]))
    with pytest.raises(ValueError, match="finite and not negative"):
        PrecomputedGraph().fit(form(-W))


def test_dense_graph_is_refused_before_it_is_allocated(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: 10**6)
    with pytest.raises(MemoryError, match=r"needs 38.1 MiB and 1.0 MiB are free.*graph=\"knn\""):
        RBFGraph(1.0).fit(np.zeros((1000, 2)))


def test_free_memory_is_known():
    free = memory.free_bytes()
    assert free is None or free > 2**20


def test_smoothness_counts_lonely_rows_as_nothing():
    W = np.zeros((3, 3))
    W[0, 1] = W[1, 0] = 1.0
    graph = PrecomputedGraph().fit(W)
    assert graph.smoothness(np.eye(2)[[0, 0, 1]]) == pytest.approx(2 / 3)
    assert graph.weak_rows().tolist() == [2]
    assert graph.components()[0] == 2


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_ties_too_weak_to_matter_do_not_connect(form):
    W = np.zeros((6, 6))
    W[:3, :3] = W[3:, 3:] = 1.0
    W[0, 5] = W[5, 0] = 1e-30
    number, component = PrecomputedGraph().fit(form(W)).components()
    assert number == 2
    assert component.tolist() == [component[0]] * 3 + [component[3]] * 3
    W[0, 5] = W[5, 0] = 1e-3
    assert PrecomputedGraph().fit(form(W)).components()[0] == 1


def test_far_new_rows_are_isolated_but_labeled():
    X = np.random.default_rng(0).normal(size=(20, 2))
    for graph in (RBFGraph(1.0).fit(X), KNNGraph(3).fit(X)):
        weights, isolated = graph.affinities(np.array([[0.0, 0.0], [100.0, 0.0]]))
        assert isolated.tolist() == [False, True]
        assert (np.asarray(weights.sum(axis=1)).ravel() > 0).all()
