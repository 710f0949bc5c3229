"""Neighbor search: exact where it says so, its recall measured where not."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from apportion import (
    LPLLP,
    AnchorGraph,
    IsolatedRowsWarning,
    KNNGraph,
    MissedNeighborsWarning,
    Totals,
)
from apportion._utils.hashing import hash_ranks
from apportion.graphs import _neighbors as neighbors
from apportion.graphs import knn
from apportion.graphs._neighbors import (
    FlatSearch,
    ListSearch,
    PairSearch,
    SinglePrecision,
    TreeSearch,
    distances_to,
    neighbor_search,
)


def true_lists(X, k):
    squares = ((X[:, None].astype(np.float64) - X[None].astype(np.float64)) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    return np.argsort(squares, axis=1)[:, :k]


def found_share(found, truth):
    return np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, truth, strict=True)])


@pytest.fixture(scope="module")
def many():
    """Overlapping clusters, more than enough for inverted lists."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 12)) + 2.0 * rng.normal(size=(15, 12))[rng.integers(0, 15, 6000)]
    return X[np.argsort(hash_ranks(X, len(X)))]


@pytest.mark.parametrize("kind", [TreeSearch, PairSearch, FlatSearch])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_searches_find_the_true_neighbors(kind, dtype):
    X = np.random.default_rng(0).normal(size=(300, 5)).astype(dtype)
    np.testing.assert_array_equal(kind(X).lists(7)[0], true_lists(X, 7))
    assert kind(X).recall == 1.0
    new = np.random.default_rng(1).normal(size=(20, 5)).astype(dtype)
    nearest = kind(X).nearest(new, 3)
    assert all(
        set(row) == set(np.argsort(((X - x) ** 2).sum(axis=1))[:3])
        for row, x in zip(nearest, new, strict=True)
    )


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("scale", [1e-90, 1.0, 1e90])
def test_single_precision_is_not_felt(offset, scale):
    """Tight groups far apart: squared distances drown in the rounding of single precision."""
    rng = np.random.default_rng(0)
    X = scale * (1e3 * rng.normal(size=(20, 8))[np.arange(200) % 20] + offset)
    X += scale * 1e-3 * rng.normal(size=X.shape)
    truth = true_lists(X / scale, 5)
    np.testing.assert_array_equal(np.sort(FlatSearch(X).lists(5)[0]), np.sort(truth))


@pytest.mark.slow
def test_lists_reach_the_requested_recall(many):
    many = many[:3000]
    truth = true_lists(many, 10)
    shares, probes = [], []
    for recall in (0.5, 0.8, 0.95, 0.99):
        search = ListSearch(many, 10, recall)
        share = found_share(search.lists(10)[0], truth)
        assert share >= recall - 0.005
        assert share == pytest.approx(search.recall, abs=0.02)
        assert f"{search.recall:.1%}" in search.how
        shares.append(share)
        probes.append(search._lists.nprobe)
    assert shares == sorted(shares)
    assert probes == sorted(probes)
    assert probes[0] < probes[-1] < search._n_lists


def test_lists_are_whole_and_without_the_row_itself(many):
    search = ListSearch(many, 10, 0.6)
    lists = search.lists(10)[0]
    assert (lists >= 0).all()
    assert (lists != np.arange(len(many))[:, None]).all()
    assert all(len(set(row)) == 10 for row in lists)
    np.testing.assert_array_equal(np.sort(search.order), np.arange(len(many)))
    distances = distances_to(many, many, lists)
    assert (np.diff(distances, axis=1) >= -1e-6 * distances[:, :-1]).all()


def test_a_list_too_short_is_filled_from_the_others(many):
    """One probe of small lists cannot hold 200 neighbors."""
    search = ListSearch(many[:500], 3, 0.1)
    search._lists.nprobe = 1
    found = search.nearest(many[:50], 200)
    assert (found >= 0).all()
    assert all(len(set(row)) == 200 for row in found)


def test_the_same_search_twice_and_through_a_pickle(many):
    one, other = ListSearch(many, 10, 0.9), ListSearch(many, 10, 0.9)
    np.testing.assert_array_equal(one.lists(10)[0], other.lists(10)[0])
    again = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(again.nearest(many[:100], 5), one.nearest(many[:100], 5))


@pytest.mark.parametrize(
    ("n", "d", "recall", "kind"),
    [
        (50, 3, 0.95, TreeSearch),
        (50, 7, 0.95, PairSearch),
        (5000, 7, 0.95, FlatSearch),
        (9000, 7, 0.95, ListSearch),
        (9000, 7, 1.0, FlatSearch),
        (9000, 6, 0.95, TreeSearch),
    ],
)
def test_the_search_follows_rows_and_features(monkeypatch, n, d, recall, kind):
    monkeypatch.setattr(neighbors, "FLAT_POINTS", 8000)
    points = np.random.default_rng(0).normal(size=(n, d))
    assert type(neighbor_search(points, 5, recall)) is kind


@pytest.mark.slow
def test_graph_by_lists_is_that_of_the_rows_in_any_order(monkeypatch, many):
    monkeypatch.setattr(neighbors, "FLAT_POINTS", 1000)
    graph = KNNGraph(8).fit(many)
    assert 0.94 < graph.recall_ < 1
    order = np.random.default_rng(1).permutation(len(many))
    shuffled = KNNGraph(8).fit(many[order])
    difference = graph.affinity_[order][:, order] - shuffled.affinity_
    assert abs(difference).max() < 1e-9
    exact = KNNGraph(8, recall=1.0).fit(many)
    assert exact.recall_ == 1.0
    assert graph.affinity_.nnz == pytest.approx(exact.affinity_.nnz, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("recall", [0.0, 1.5, "all", None])
def test_an_impossible_recall_is_refused(recall):
    with pytest.raises(ValueError, match=r"The 'recall' parameter of KNNGraph must be a float in"):
        KNNGraph(recall=recall).fit(np.zeros((3, 1)))


def test_single_precision_comes_back():
    X = np.random.default_rng(0).normal(size=(50, 3)) * 1e50 + 1e50
    singles = SinglePrecision(X[:10])
    assert singles(X).dtype == np.float32
    assert np.isfinite(singles(1e40 * X) ** 2).all()
    np.testing.assert_allclose(singles.back(singles(X)), X, atol=1e44)


@pytest.mark.slow
def test_the_graph_knows_where_near_rows_stand_together(monkeypatch, many):
    """Copies included: the answer of LP-LLP does not feel the order it is worked out in."""
    monkeypatch.setattr(neighbors, "FLAT_POINTS", 1000)
    X = np.vstack([many[:5000], many[:200]])
    plain = KNNGraph(8).fit(X)
    assert plain.locality is None
    monkeypatch.setattr(knn, "_ROWS_OUT_OF_CACHE", 1000)
    graph = KNNGraph(8).fit(X)
    np.testing.assert_array_equal(np.sort(graph.locality), np.arange(len(X)))
    place = np.argsort(graph.locality)
    cells = plain.affinity_.tocoo()
    apart = np.abs(place[cells.row] - place[cells.col]).mean()
    assert apart < 0.8 * np.abs(cells.row - cells.col).mean()
    y = (X[:, 0] > 0).astype(int)
    bags = np.random.default_rng(0).integers(0, 60, len(X))
    totals = Totals.from_labels(y, bags)
    soft = LPLLP(KNNGraph(8)).fit(X, bags=bags, proportions=totals).label_distributions_
    monkeypatch.setattr(knn, "_ROWS_OUT_OF_CACHE", 10**9)
    expected = LPLLP(KNNGraph(8)).fit(X, bags=bags, proportions=totals).label_distributions_
    np.testing.assert_allclose(soft, expected, atol=1e-5)


@pytest.mark.slow
def test_a_missed_recall_is_reported(monkeypatch):
    """Groups a hundred million times tighter than they are apart: one point in single precision."""
    monkeypatch.setattr(neighbors, "FLAT_POINTS", 4500)
    rng = np.random.default_rng(0)
    X = 1e8 * rng.normal(size=(10, 7))[np.arange(6000) % 10] + rng.normal(size=(6000, 7))
    bags = np.arange(6000) % 50
    totals = Totals.from_labels((X[:, 0] > 0).astype(int), bags)
    with pytest.warns(MissedNeighborsWarning, match=r"less than the 95.0% asked for"):
        LPLLP("knn", n_probes=0).fit(X, bags=bags, proportions=totals)


def test_a_graph_may_be_fitted_again(monkeypatch, many):
    monkeypatch.setattr(neighbors, "FLAT_POINTS", 1000)
    monkeypatch.setattr(knn, "_ROWS_OUT_OF_CACHE", 1000)
    graph = KNNGraph(5).fit(many)
    assert graph.locality is not None
    assert graph.fit(many[:100]).locality is None


@pytest.mark.parametrize("graph", [KNNGraph(5), AnchorGraph(20)])
def test_rows_however_far_are_labeled(monkeypatch, graph, many):
    monkeypatch.setattr(neighbors, "FLAT_POINTS", 1000)
    y, bags = (many[:, 0] > 0).astype(int), np.arange(len(many)) % 50
    model = LPLLP(graph).fit(many, bags=bags, proportions=Totals.from_labels(y, bags))
    new = np.array([1.0, 1e10, 1e20, 1e90])[:, None] * np.ones(many.shape[1])
    with pytest.warns(IsolatedRowsWarning):
        soft = model.predict_proba(new)
    np.testing.assert_allclose(soft.sum(axis=1), 1.0)
    assert (soft >= 0).all()


@pytest.mark.parametrize("kind", [PairSearch, FlatSearch])
@pytest.mark.parametrize(
    ("n_values", "n_features", "n_points"), [(2, 8, 30), (3, 8, 700), (17, 64, 900)]
)
def test_of_equally_near_points_the_first_are_taken_whatever_the_threads(
    kind, n_values, n_features, n_points
):
    """Points of a lattice have many equal distances, more than there are spare candidates."""
    rng = np.random.default_rng(0)
    X = np.unique(rng.integers(0, n_values, (n_points, n_features)), axis=0) / 10.0
    X = X[rng.permutation(len(X))]
    every = np.broadcast_to(np.arange(len(X)), (len(X), len(X)))
    truth = np.argsort(neighbors.distances_to(X, X, every), axis=1, kind="stable")[:, :6]
    for threads in (1, 2):
        with threadpool_limits(threads):
            np.testing.assert_array_equal(kind(X).nearest(X, 6), truth)


def test_points_far_from_the_center_are_searched_in_double_precision():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8)) + 1e5 * rng.integers(0, 2, 400)[:, None]
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    truth = np.argsort(squares, axis=1, kind="stable")[:, :6]
    np.testing.assert_array_equal(FlatSearch(X).nearest(X, 6), truth)


def test_signals_are_left_alone_by_faiss():
    """An exception of a handler would be thrown across its threads, which kills the process."""
    FlatSearch(np.random.default_rng(0).normal(size=(50, 8)))
    callback = neighbors.faiss_library().InterruptCallback
    assert callback.get_period_hint(1) == 2**30  # what faiss returns without a callback


@pytest.mark.parametrize("search", [FlatSearch, lambda points: ListSearch(points, 5, 0.9)])
def test_a_search_in_several_calls_finds_the_same(monkeypatch, search):
    points = np.random.default_rng(0).normal(size=(1000, 8))
    found = search(points)
    whole = found.nearest(points, 5)
    monkeypatch.setattr(neighbors, "_CALL_ROWS", 100)
    np.testing.assert_array_equal(found.nearest(points, 5), whole)
    assert found.nearest(points[:0], 5).shape == (0, 5)
