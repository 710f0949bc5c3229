"""Propagation: one operator, three ways to apply it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import reference
from apportion._core import propagation as propagate
from apportion._core.propagation import Propagated, metric_weights, propagator
from apportion.graphs import AnchorGraph, KNNGraph, PrecomputedGraph, RBFGraph
from apportion.graphs import _row_blocks as row_parts


def random_graph(n, seed, density=1.0):
    rng = np.random.default_rng(seed)
    W = rng.random((n, n)) * (rng.random((n, n)) < density)
    W = np.triu(W, 1)
    return W + W.T


def both_forms(W):
    return PrecomputedGraph().fit(W), PrecomputedGraph().fit(sparse.csr_array(W))


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9, 0.99])
def test_limit_of_algorithm_1(alpha):
    W = random_graph(12, 0)
    Y = np.eye(3)[np.arange(12) % 3]
    expected = reference.algorithm_1(W, Y, alpha, n_steps=20000)
    for graph in both_forms(W):
        P = propagator(graph, alpha, floor=0.0)
        np.testing.assert_allclose(P(Y), expected, atol=1e-9)


def test_literal_form_leaves_out_the_factor():
    W = random_graph(8, 1)
    Y = np.random.default_rng(0).random((8, 2))
    for graph in both_forms(W):
        np.testing.assert_allclose(
            propagator(graph, 0.5, literal=True)(Y), 2.0 * propagator(graph, 0.5)(Y)
        )


@given(
    seed=st.integers(0, 50),
    density=st.floats(0, 1),
    metric=st.sampled_from(["degree", "euclidean"]),
)
def test_self_adjoint_rows_sum_to_one_spectrum_bounded(seed, density, metric):
    """On any graph, isolated rows and tiny degrees included."""
    W = random_graph(9, seed, density) * 10.0 ** np.random.default_rng(seed).integers(-6, 2)
    for order in (None, 1, 3):
        for graph in both_forms(W):
            P = propagator(graph, 0.7, metric=metric, order=order)
            matrix = P(np.eye(9))
            assert np.isfinite(matrix).all()
            np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-8)
            weighted = P.weights[:, None] * matrix
            np.testing.assert_allclose(weighted, weighted.T, atol=1e-8 * P.weights.max())
            root = np.sqrt(P.weights)
            values = np.linalg.eigvalsh(root[:, None] * matrix / root[None, :])
            assert 1 - values.min() <= P.lipschitz + 1e-7
            assert values.max() <= 1 + 1e-8


def test_a_row_without_neighbors_keeps_its_own():
    W = random_graph(6, 2)
    W[0] = W[:, 0] = 0.0
    Y = np.random.default_rng(0).random((6, 2))
    for graph in both_forms(W):
        for order in (None, 1, 4):
            np.testing.assert_allclose(propagator(graph, 0.5, order=order)(Y)[0], Y[0])


def test_order_1_is_weighted_knn():
    W = random_graph(7, 3)
    Y = np.random.default_rng(0).random((7, 2))
    for graph in both_forms(W):
        walked = propagator(graph, 0.5, order=1, floor=0.0)(Y)
        np.testing.assert_allclose(walked, reference.walk_matrix(W) @ Y)


def test_truncated_walk_approaches_the_limit():
    """Σ_{j≥1} α^j S^j is the limit without its first term."""
    W = random_graph(7, 4)
    Y = np.random.default_rng(0).random((7, 2))
    graph = PrecomputedGraph().fit(W)
    limit = (propagator(graph, 0.5, floor=0.0)(Y) - 0.5 * Y) / 0.5
    np.testing.assert_allclose(propagator(graph, 0.5, order=60, floor=0.0)(Y), limit, atol=1e-12)


def test_sparse_residual_is_checked_and_small():
    W = random_graph(50, 5, 0.2)
    P = propagator(PrecomputedGraph().fit(sparse.csr_array(W)), 0.95)
    Y = np.random.default_rng(0).random((50, 3))
    F = P(Y)
    tau = 0.95 / 0.05
    left = P.weights[:, None] * F + tau * (np.diag(W.sum(axis=1)) - W) @ F
    rest = (left - P.weights[:, None] * Y) / np.sqrt(P.weights[:, None])
    relative = np.linalg.norm(rest) / np.linalg.norm(np.sqrt(P.weights[:, None]) * Y)
    assert P.residual == pytest.approx(relative, rel=1e-2, abs=1e-12)
    assert P.residual < 1e-9


@pytest.mark.parametrize("alpha", [0.999, 0.99999])
def test_sparse_residual_is_small_even_for_long_walks(alpha, monkeypatch):
    monkeypatch.setattr(propagate, "_FACTORED_ROWS", 0)
    W = random_graph(50, 5, 0.2)
    P = propagator(PrecomputedGraph().fit(sparse.csr_array(W)), alpha)
    P(np.random.default_rng(0).random((50, 3)))
    assert 0 < P.residual < 1e-8


@pytest.mark.parametrize("alpha", [0.99999, 1 - 1e-9])
def test_a_walk_without_end_takes_no_more_steps(alpha, monkeypatch):
    """Its limit is the mean of every island, weighted by the degrees."""

    def step(*_):
        raise AssertionError("a step was taken")

    monkeypatch.setattr(propagate._SparsePropagator, "_solve", step)
    W = np.zeros((40, 40))
    W[:20, :20], W[20:, 20:] = random_graph(20, 1), random_graph(20, 2)
    P = propagator(PrecomputedGraph().fit(sparse.csr_array(W)), alpha, floor=0.0)
    Y = np.random.default_rng(0).random((40, 2))
    degrees = W.sum(axis=1)[:, None]
    for island in (slice(0, 20), slice(20, 40)):
        mean = (degrees * Y)[island].sum(axis=0) / degrees[island].sum()
        np.testing.assert_allclose(P(Y)[island], np.tile(mean, (20, 1)), atol=1e-4)


@pytest.mark.parametrize("form", [0, 1], ids=["dense", "sparse"])
def test_alpha_of_which_rounding_leaves_nothing_is_refused(form):
    graph = both_forms(random_graph(20, 1))[form]
    with pytest.raises(ValueError, match="so near to 1 that rounding would decide"):
        propagator(graph, 1 - 2**-53)
    propagator(graph, 1 - 2**-53, order=2)


def test_too_long_a_walk_among_many_rows_is_refused(monkeypatch):
    monkeypatch.setattr(propagate, "_FACTORED_ROWS", 10)
    graph = PrecomputedGraph().fit(sparse.csr_array(random_graph(50, 5, 0.2)))
    propagator(graph, 0.99999)
    with pytest.raises(ValueError, match=r"alpha=0.9999999 .* 50 rows: .* \d\d,\d\d\d steps"):
        propagator(graph, 0.9999999)


def test_metric_is_the_degrees_above_a_floor():
    W = random_graph(5, 6)
    W[0] *= 1e-9
    W[:, 0] *= 1e-9
    graph = PrecomputedGraph().fit(W)
    weights = metric_weights(graph)
    mean = graph.degrees_.mean()
    assert weights[0] == pytest.approx(0.01 * mean)
    np.testing.assert_allclose(weights[1:], graph.degrees_[1:])
    np.testing.assert_allclose(metric_weights(graph, "euclidean"), graph.degrees_.max())


def test_without_bags_the_papers_problem_is_one_propagation():
    W = random_graph(8, 7)
    f0 = np.random.default_rng(0).random(8)
    P = propagator(PrecomputedGraph().fit(W), 0.5, floor=0.0)
    found = reference.paper_problem(W, f0, np.full(8, -1), [], tau=1.0)
    np.testing.assert_allclose(P(f0[:, None])[:, 0], found, atol=1e-5)


@given(
    seed=st.integers(0, 1000),
    alpha=st.sampled_from([0.1, 0.5, 0.9, 0.99]),
    share=st.sampled_from([0.5, 0.05, 1e-3]),
)
def test_near_is_as_near_as_asked(seed, alpha, share):
    """Steps of any length from any point: the error is within the bound, and the rest is true."""
    rng = np.random.default_rng(seed)
    graph = PrecomputedGraph().fit(sparse.csr_array(random_graph(30, seed, 0.2)))
    P = propagator(graph, alpha)

    def length(F):
        return np.sqrt((P.weights[:, None] * F**2).sum())

    F = rng.random((30, 2))
    propagated = Propagated(P(F))
    for _ in range(5):
        step = rng.normal(size=F.shape) * 10.0 ** rng.integers(-6, 1)
        before, F = propagated, F + step
        propagated = P.near(F, step, before, share * length(step))
        error = length(P(F) - propagated.value)
        assert error <= share * length(step) * (1 + 1e-6) + 1e-9
        assert error <= length(propagated.rest) * (1 + 1e-6) + 1e-9
        further = propagated.extrapolated(before, 0.7)
        np.testing.assert_allclose(
            further.value, propagated.value + 0.7 * (propagated.value - before.value)
        )
    sharp = P.sharpened(F, propagated)
    assert sharp.rest is None
    np.testing.assert_allclose(sharp.value, P(F), atol=1e-8)


def test_parts_of_the_rows_do_not_change_the_answer(monkeypatch):
    W = sparse.csr_array(random_graph(60, 3, 0.3))
    F = np.random.default_rng(0).random((60, 2))
    whole = propagator(PrecomputedGraph().fit(W))(F)
    monkeypatch.setattr(row_parts, "_PART_NUMBERS", 10)
    monkeypatch.setattr(row_parts, "_FEW_NUMBERS", 10)
    P = propagator(PrecomputedGraph().fit(W))
    assert len(P._parts) > 5
    np.testing.assert_array_equal(P(F), whole)
    np.testing.assert_array_equal(row_parts.multiply(W, F), W @ F)


@pytest.mark.parametrize("rows", [slice(0, 60), slice(0, 10), slice(17, 18), slice(30, 30)])
def test_some_rows_are_these_rows_and_no_copy(rows):
    W = sparse.csr_array(random_graph(60, 3, 0.3))
    part = row_parts.some_rows(W, rows)
    np.testing.assert_array_equal(part.toarray(), W.toarray()[rows])
    turned = row_parts.transposed(part)
    np.testing.assert_array_equal(turned.toarray(), W.toarray()[rows].T)
    F = np.random.default_rng(0).random((60, 2))
    np.testing.assert_allclose(turned @ F[rows], W.toarray()[rows].T @ F[rows])
    for matrix in (part, turned) if rows.stop > rows.start else ():
        assert np.shares_memory(matrix.data, W.data)
        assert np.shares_memory(matrix.indices, W.indices)


def test_rows_without_ties_stay_where_they_are():
    P = propagator(PrecomputedGraph().fit(sparse.csr_array((4, 4))))
    F = np.random.default_rng(0).random((4, 2))
    np.testing.assert_array_equal(P(F), F)
    near = P.near(F + 1.0, np.ones_like(F), Propagated(F), 1e-3)
    np.testing.assert_array_equal(near.value, F + 1.0)
    np.testing.assert_array_equal(near.rest, 0.0)


def test_what_is_left_over_is_never_forgotten():
    """P of a point beyond a sharp and a rough one: the rest of the rough one goes with it."""
    F = np.ones((2, 1))
    rough, sharp = Propagated(F, 0.1 * F), Propagated(F)
    np.testing.assert_allclose(rough.extrapolated(sharp, 0.5).rest, 0.15 * F)
    np.testing.assert_allclose(sharp.extrapolated(rough, 0.5).rest, -0.05 * F)
    assert sharp.extrapolated(sharp, 0.5).rest is None
    assert rough.extrapolated(sharp, 0.0) is rough


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("graph", [KNNGraph(4), RBFGraph(1.0), AnchorGraph(15, 3)])
def test_the_inverse_undoes_propagation(graph, alpha):
    rng = np.random.default_rng(0)
    P = propagator(graph.fit(rng.normal(size=(60, 2))), alpha)
    F = rng.random((60, 3))
    assert P.invertible
    np.testing.assert_allclose(P.inverse(P(F)), F, atol=1e-8)
    np.testing.assert_allclose(P(P.inverse(F)), F, atol=1e-8)


def test_a_walk_of_few_steps_has_no_inverse():
    graph = KNNGraph(4).fit(np.random.default_rng(0).normal(size=(60, 2)))
    P = propagator(graph, order=2)
    assert not P.invertible
    with pytest.raises(NotImplementedError):
        P.inverse(np.ones((60, 1)))
