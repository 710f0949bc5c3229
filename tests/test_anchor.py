"""The anchor graph: a dense formula, without ever holding the dense matrix."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import load_digits

from apportion import LPLLP, AnchorGraph, IsolatedRowsWarning, Totals
from apportion._core.propagation import propagator
from apportion.datasets import make_bags
from apportion.graphs import KNNGraph, anchor, choose_graph
from apportion.graphs import _choice as choice


def dense(graph):
    Z = graph.ties_.toarray()
    return Z @ np.diag(1.0 / Z.sum(axis=0)) @ Z.T


def some_rows(n=80, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.99])
def test_woodbury_is_the_dense_solve(alpha):
    graph = AnchorGraph(n_anchors=12, n_nearest=3).fit(some_rows())
    W, Y = dense(graph), np.random.default_rng(1).random((80, 3))
    np.testing.assert_allclose(W.sum(axis=1), 1.0)
    P = propagator(graph, alpha)
    expected = (1 - alpha) * np.linalg.solve(np.eye(80) - alpha * W, Y)
    np.testing.assert_allclose(P(Y), expected, atol=1e-10)
    spectrum = np.linalg.eigvalsh(np.eye(80) - P(np.eye(80)))
    assert spectrum.max() <= P.lipschitz + 1e-10
    np.fill_diagonal(W, 0.0)
    S = W / W.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        propagator(graph, alpha, order=2)(Y), (S @ Y + alpha * S @ S @ Y) / (1 + alpha), atol=1e-9
    )


def test_ties_go_to_the_nearest_anchors():
    X = some_rows()
    graph = AnchorGraph(n_anchors=10, n_nearest=4).fit(X)
    squares = ((X[:, None] - graph.anchors_[None]) ** 2).sum(axis=2)
    farthest = np.sort(squares, axis=1)[:, 3:4]
    expected = np.where(squares <= farthest * (1 + 1e-6), np.exp(-squares / farthest), 0.0)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(graph.ties_.toarray(), expected, atol=1e-5)
    np.testing.assert_allclose(graph.masses_, graph.ties_.toarray().sum(axis=0))


def test_a_row_does_not_hear_itself():
    graph = AnchorGraph(n_anchors=10, n_nearest=3).fit(some_rows())
    W = dense(graph)
    F = np.random.default_rng(0).random((80, 2))
    np.testing.assert_allclose(graph.multiply(F), W @ F)
    np.fill_diagonal(W, 0.0)
    np.testing.assert_allclose(graph.strengths, W.sum(axis=1), atol=1e-11)
    np.testing.assert_allclose(graph.neighbor_mean(F), W @ F / W.sum(axis=1)[:, None], atol=1e-9)
    labels = np.eye(2)[np.arange(80) % 2]
    assert graph.smoothness(labels) == pytest.approx(
        (labels * (W / W.sum(axis=1)[:, None] @ labels)).sum() / 80
    )


def test_components_are_those_of_the_dense_graph():
    X = some_rows() + 100.0 * (np.arange(80) % 3)[:, None]
    graph = AnchorGraph(n_anchors=20, n_nearest=3).fit(X)
    number, labels = connected_components(dense(graph) > 1e-12, directed=False)
    found, component = graph.components()
    assert found == number == 3
    assert len(set(zip(labels.tolist(), component.tolist(), strict=True))) == 3


def test_new_rows_hear_the_anchors():
    X = some_rows(200)
    graph = AnchorGraph(n_anchors=30).fit(X)
    weights, far = graph.affinities(X)
    np.testing.assert_allclose(weights.toarray(), graph.ties_.toarray(), atol=1e-12)
    assert not far.any()
    F = np.random.default_rng(0).random((200, 2))
    np.testing.assert_allclose(weights @ graph.prototype_labels(F), dense(graph) @ F, atol=1e-12)
    assert graph.affinities(X + 1000.0)[1].all()


def test_rows_in_blocks_are_the_same_rows(monkeypatch):
    X, F = some_rows(), np.random.default_rng(0).random((80, 2))
    whole = AnchorGraph(n_anchors=10).fit(X)
    monkeypatch.setattr(anchor, "BLOCK_ROWS", 7)
    parts = AnchorGraph(n_anchors=10).fit(X)
    np.testing.assert_allclose(parts.ties_.toarray(), whole.ties_.toarray(), atol=1e-6)
    np.testing.assert_allclose(propagator(parts)(F), propagator(whole)(F), atol=1e-6)


def test_what_anchors_share_is_found_once_for_every_fit():
    graph = AnchorGraph(n_anchors=10).fit(some_rows())
    shared = graph.shared_ties()
    Z = graph.ties_.toarray()
    np.testing.assert_allclose(shared, Z.T @ Z)
    graph.components()
    assert graph.shared_ties() is shared
    assert pickle.loads(pickle.dumps(graph))._shared is None
    Z = graph.fit(some_rows(seed=1)).ties_.toarray()
    np.testing.assert_allclose(graph.shared_ties(), Z.T @ Z)


@pytest.mark.slow
@given(seed=st.integers(0, 1000))
def test_any_order_of_rows(seed):
    X = some_rows(60, seed=seed)
    order = np.random.default_rng(seed).permutation(60)
    one, other = AnchorGraph(8).fit(X), AnchorGraph(8).fit(X[order])
    np.testing.assert_allclose(other.ties_.toarray(), one.ties_.toarray()[order], atol=1e-12)


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((9, 2)),
        np.zeros((1, 3)),
        np.arange(5.0)[:, None],
        np.repeat(some_rows(3), 40, axis=0),
        1e80 * some_rows(50),
        1e-80 * some_rows(50) + 1e-70,
        np.vstack([some_rows(50), [[1e6, 1e6, 1e6]]]),
    ],
    ids=["equal", "one", "few", "copies", "huge", "tiny", "outlier"],
)
def test_hostile_rows(X):
    graph = AnchorGraph().fit(X)
    np.testing.assert_allclose(graph.ties_.sum(axis=1), 1.0)
    assert len(graph.anchors_) <= len(np.unique(X, axis=0))
    assert (graph.masses_ > 0).all()
    F = np.random.default_rng(0).random((len(X), 2))
    F /= F.sum(axis=1, keepdims=True)
    for soft in (propagator(graph)(F), graph.multiply(F)):
        np.testing.assert_allclose(soft.sum(axis=1), 1.0)
        assert (soft >= -1e-9).all()
    assert np.isfinite(graph.neighbor_mean(F)).all()


def test_a_lonely_row_is_reported():
    X = np.vstack([some_rows(100), [[500.0, 500.0, 500.0]]])
    bags = np.arange(101) % 5
    totals = Totals.from_labels((X[:, 0] > 0).astype(int), bags)
    graph = AnchorGraph(n_anchors=30, n_nearest=1)
    with pytest.warns(IsolatedRowsWarning, match=r"100"):
        LPLLP(graph).fit(X, bags=bags, proportions=totals)


@pytest.mark.slow
def test_digits_are_about_as_good_as_with_neighbors():
    X, y = load_digits(return_X_y=True)
    bags, totals = make_bags(X, y, n_bags=20, random_state=0)
    found = {
        name: (LPLLP(name).fit(X, bags=bags, proportions=totals).transduction_ == y).mean()
        for name in ("anchor", "knn")
    }
    assert found["anchor"] > 0.96
    assert found["anchor"] > found["knn"] - 0.02


@pytest.mark.slow
def test_rows_on_disk_are_not_copied_whole(tmp_path):
    import tracemalloc

    n, d = 200_000, 20
    rng = np.random.default_rng(0)
    np.save(tmp_path / "rows.npy", rng.normal(size=(n, d)).astype(np.float32))
    X = np.load(tmp_path / "rows.npy", mmap_mode="r")
    tracemalloc.start()
    graph = AnchorGraph(n_anchors=50).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    held = graph.ties_.data.nbytes + graph.ties_.indices.nbytes
    assert peak < 4 * held + 40e6
    assert graph.ties_.shape == (n, 50)
    bags = np.arange(n) % 1000
    model = LPLLP(AnchorGraph(n_anchors=50), max_iter=3, refine=False, stop="settled")
    y = (np.asarray(X[:, 0]) > 0).astype(int)
    with pytest.warns():
        model.fit(X, bags=bags, proportions=Totals.from_labels(y, bags))
    assert model.n_features_in_ == d


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (AnchorGraph(0), "'n_anchors' parameter of AnchorGraph must be 'auto' or an int"),
        (AnchorGraph("many"), "'n_anchors' parameter of AnchorGraph must be 'auto' or an int"),
        (AnchorGraph(5, 0), "'n_nearest' parameter of AnchorGraph must be an int of at least 1"),
    ],
)
def test_impossible_parameters_are_refused(graph, message):
    with pytest.raises(ValueError, match=message):
        graph.fit(some_rows())


def test_too_many_anchors_are_refused_before_they_are_allocated(monkeypatch):
    from apportion._utils import memory

    graph = AnchorGraph(n_anchors=50).fit(some_rows())
    monkeypatch.setattr(memory, "free_bytes", lambda: 1000)
    with pytest.raises(MemoryError, match=r"with 50 anchors, needs .* Use fewer anchors"):
        propagator(graph)


def test_auto_chooses_by_rows_features_and_memory(monkeypatch):
    def chosen(*size):
        graph, why = choose_graph(*size)
        assert why.startswith(type(graph).__name__)
        return type(graph)

    assert chosen(100, 20) is KNNGraph
    assert chosen(1_000_000, 20) is KNNGraph
    assert chosen(1_000_001, 20) is AnchorGraph
    assert chosen(4_000_000, 3) is KNNGraph
    monkeypatch.setattr(choice, "free_bytes", lambda: 2**20)
    assert chosen(100, 20) is KNNGraph
    assert chosen(10_000, 20) is AnchorGraph
    assert "1.0 MiB are free" in choose_graph(10_000, 20)[1]


def test_the_choice_is_told(caplog):
    X, bags = some_rows(), np.arange(80) % 4
    totals = Totals.from_labels((X[:, 0] > 0).astype(int), bags)
    with caplog.at_level("INFO", "apportion"):
        model = LPLLP().fit(X, bags=bags, proportions=totals)
    assert model.graph_choice_.startswith("KNNGraph: 80 rows of 3 features")
    assert model.graph_choice_ in caplog.text
    asked = LPLLP("anchor").fit(X, bags=bags, proportions=totals)
    assert asked.graph_choice_ == "AnchorGraph: as asked for"


@pytest.mark.parametrize("apart", [1.0, 1e3, 1e6])
def test_a_row_alone_is_tied_as_in_a_batch(apart):
    """Many rows at once are worth a product of matrices, which single precision would spoil."""
    rng = np.random.default_rng(0)
    X = apart * rng.normal(size=(20, 20))[np.arange(12_000) % 20] + rng.normal(size=(12_000, 20))
    graph = AnchorGraph(n_anchors=200).fit(X)
    for row in range(0, 12_000, 1500):
        alone = graph.affinities(X[row : row + 1])[0].toarray()[0]
        np.testing.assert_allclose(alone, graph.ties_[[row]].toarray()[0], atol=1e-9)
        squares = ((graph.anchors_ - X[row]) ** 2).sum(axis=1)
        assert set(np.flatnonzero(alone)) == set(np.argsort(squares)[:5])


def test_one_anchor_and_an_anchor_for_every_row():
    X = some_rows(50)
    assert AnchorGraph(1).fit(X).crowded_rows().size == 0
    assert AnchorGraph(1).fit(np.ones((50, 2))).crowded_rows().size == 50
    alone = AnchorGraph(50, 1).fit(X)
    assert not alone.affinities(X + 1e-6)[1].any()
    assert alone.affinities(X + 1e6)[1].all()


def test_an_outlier_does_not_swallow_the_others():
    X = np.vstack([some_rows(300, 8), np.full((1, 8), 1e30)])
    assert len(AnchorGraph(40).fit(X).anchors_) > 30
