"""The loop: the same answer as the slow oracles, reached faster, and honest about it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import apportion._core.solve as solve_module
import reference
from apportion import KNNGraph, PrecomputedGraph, RBFGraph, Totals
from apportion._core import descent, local, uniqueness
from apportion._core.decode import quota
from apportion._core.descent import Settings, Status, descend
from apportion._core.evaluator import DescentState
from apportion._core.local import LocalEvaluator, LocalPoint
from apportion._core.projection import MassProjection
from apportion._core.propagation import Propagated, propagator
from apportion._core.solve import solve
from apportion._core.uniqueness import may_be_ambiguous, only_minimizer, unsupervised_rows
from apportion.datasets import make_bags, make_smart_home, make_xor
from apportion.supervision.bags import match_bags


def small_problem(seed, n=18, shares=(0.5, 1 / 3, 5 / 6)):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    bag = rng.permutation(np.repeat(np.arange(3), n // 3))
    bags = match_bags(n, bags=bag, proportions=np.array(shares))
    return RBFGraph(0.3).fit(X), bags, bag, np.array(shares) * (n // 3)


@pytest.mark.parametrize("seed", range(8))
def test_literal_solver_is_algorithm_2(seed):
    graph, bags, bag, mass = small_problem(seed)
    settings = Settings(solver="literal", tol=1e-10, max_iter=60)
    expected = reference.algorithm_2(graph.affinity_, bag, mass, 0.5, tol=1e-10, max_iter=60)
    np.testing.assert_allclose(solve(graph, bags, settings).F[:, 1], expected, atol=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_plain_solver_with_alternating_projections_is_algorithm_2_with_its_factor(seed):
    graph, bags, bag, mass = small_problem(seed)
    settings = Settings(solver="plain", projection="alternating", tol=1e-10, max_iter=60)
    assert not graph.weak_rows().size, "the oracle knows no floor"
    expected = reference.algorithm_2(
        graph.affinity_, bag, mass, 0.5, literal=False, tol=1e-10, max_iter=60
    )
    np.testing.assert_allclose(solve(graph, bags, settings).F[:, 1], expected, atol=1e-8)


def random_bags(seed, n=30, c=3, intervals=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    codes = rng.integers(0, 4, n)
    labels = rng.integers(0, c, n)
    totals = Totals.from_labels(labels, codes)
    if intervals:
        ids = totals.ids
        totals = Totals.from_intervals(
            dict(zip(ids, np.maximum(totals.lower - 0.1, 0), strict=True)),
            dict(zip(ids, np.minimum(totals.upper + 0.1, 1), strict=True)),
        )
    return KNNGraph(5).fit(X), match_bags(n, bags=codes, proportions=totals)


@pytest.mark.slow
@given(seed=st.integers(0, 10**5), c=st.integers(2, 4), intervals=st.booleans())
def test_accelerated_and_plain_reach_the_same_energy(seed, c, intervals):
    graph, bags = random_bags(seed, n=20, c=c, intervals=intervals)
    fast = solve(graph, bags, Settings(tol=1e-8, max_iter=5000, n_probes=0))
    slow = solve(graph, bags, Settings(solver="plain", tol=1e-8, max_iter=20000, n_probes=0))
    assert fast.converged
    assert slow.converged
    start = max(fast.energies[0], 1e-12)
    assert abs(fast.energies[-1] - slow.energies[-1]) <= 1e-6 * start
    assert fast.residual < 1e-9


@pytest.mark.slow
@given(seed=st.integers(0, 10**5), c=st.integers(2, 4), mu=st.sampled_from([0.0, 0.3]))
def test_reported_numbers_are_the_recomputed_ones(seed, c, mu):
    graph, bags = random_bags(seed, c=c)
    settings = Settings(prior_weight=mu, n_probes=0)
    solution = solve(graph, bags, settings)
    P = propagator(graph, settings.alpha)
    project = MassProjection(bags, P.weights)
    F0 = bags.prior()
    columns, prior = project.to_columns(solution.F), project.to_columns(F0)
    PF = Propagated(P(columns))
    whole = solution.F
    energy = 0.5 * (P.weights[:, None] * whole * (whole - P(whole))).sum()
    energy += 0.5 * mu * (P.weights[:, None] * (whole - F0) ** 2).sum()
    assert solution.energies[-1] == pytest.approx(energy, rel=1e-6, abs=1e-9)
    point = LocalPoint(columns, PF)
    state = DescentState(point, point, [energy], 1.0)
    stationarity = LocalEvaluator(P, project, prior, mu).stationarity(state)
    assert solution.stationarity == pytest.approx(stationarity, rel=1e-3, abs=1e-8)
    sums = bags.groups.sum(solution.F)
    residual = (np.abs(sums - bags.lower) / bags.groups.sizes[:, None]).max()
    assert abs(solution.residual - residual) < 1e-9
    assert len(solution.energies) == solution.n_iter + 1


@pytest.mark.slow
@given(seed=st.integers(0, 10**5), solver=st.sampled_from(["plain", "accelerated"]))
def test_energy_never_rises(seed, solver):
    graph, bags = random_bags(seed, n=20)
    energies = solve(graph, bags, Settings(solver=solver, n_probes=0)).energies
    assert (np.diff(energies) <= 1e-9 * energies[0]).all()


@pytest.mark.parametrize("c", [2, 3])
def test_without_prior_weight_the_start_does_not_matter(c):
    graph, bags = random_bags(3, c=c)
    assert graph.components()[0] == 1
    settings = Settings(tol=1e-10, max_iter=20000)
    rng = np.random.default_rng(0)
    ends = [
        solve(graph, bags, settings, start=rng.dirichlet(np.ones(c), bags.n_samples)).F
        for _ in range(3)
    ]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-5)
    np.testing.assert_allclose(ends[0], ends[2], atol=1e-5)
    other_prior = rng.dirichlet(np.ones(c), bags.n_samples)
    same = solve(graph, bags, settings, prior=other_prior).F
    np.testing.assert_allclose(same, ends[0], atol=1e-5)
    pulled = solve(graph, bags, Settings(prior_weight=1.0), prior=other_prior).F
    assert np.abs(pulled - ends[0]).max() > 0.01


@pytest.mark.parametrize("metric", ["degree", "euclidean"])
@pytest.mark.parametrize("order", [None, 1, 2])
def test_every_metric_and_order_converges(metric, order):
    graph, bags = random_bags(5)
    settings = Settings(metric=metric, order=order, max_iter=20000, n_probes=0)
    solution = solve(graph, bags, settings)
    assert solution.converged
    assert solution.residual < 1e-9


def test_running_out_of_iterations_is_told():
    graph, bags = random_bags(0)
    solution = solve(graph, bags, Settings(max_iter=2))
    assert solution.status is Status.MAX_ITER
    assert "max_iter" in solution.status.value


def two_islands():
    """Two components in one bag: any share of the class may lie on either island."""
    W = np.zeros((8, 8))
    W[:4, :4] = W[4:, 4:] = 1.0
    graph = PrecomputedGraph().fit(W)
    bags = match_bags(8, bags=[0] * 8, proportions=np.array([0.5]))
    return graph, bags


def test_several_answers_are_noticed_and_the_smoothest_kept():
    graph, bags = two_islands()
    assert may_be_ambiguous(graph, bags)
    rng = np.random.default_rng(0)
    ranks = np.array([0, 4, 1, 5, 2, 6, 3, 7])
    solution = solve(graph, bags, Settings(), ranks=ranks, rng=rng)
    assert solution.unique is False
    assert solution.n_starts > 2
    labels = np.argmax(solution.F, axis=1)
    assert set(labels[:4].tolist()) != set(labels[4:].tolist())
    assert solve(graph, bags, Settings(n_probes=0)).unique is None


def counted_probes(monkeypatch, few, n_probes):
    """Return the solution of two uneven islands, and the iterations of every run."""
    W = np.random.default_rng(0).random((40, 40))
    W[:20, 20:] = W[20:, :20] = 0.0
    bags = match_bags(40, bags=np.arange(40) // 4 % 5, proportions=np.linspace(0.3, 0.7, 5))
    runs = []

    def counted(evaluator, state, *args, descend=descend):
        runs.append(state)
        return descend(evaluator, state, *args)

    monkeypatch.setattr(solve_module, "descend", counted)
    monkeypatch.setattr(uniqueness, "_CHEAP_CELLS", few * 2 * len(W))
    monkeypatch.setattr(uniqueness, "_LARGEST_PROGRAM", 0)
    graph = PrecomputedGraph().fit(W + W.T)
    solution = solve(graph, bags, Settings(n_probes=n_probes), rng=np.random.default_rng(0))
    return solution, [len(run.energies) - 1 for run in runs]


def test_probes_take_no_more_iterations_than_they_may(monkeypatch):
    whole, iterations = counted_probes(monkeypatch, 1000, n_probes=8)
    assert (whole.unique, whole.n_probes, whole.probes_left) == (False, 8, 0)
    assert len(iterations) == 9
    budget = max(3 * iterations[0], iterations[1] + iterations[2] + 2)
    assert budget < sum(iterations[1:])
    cut, fewer = counted_probes(monkeypatch, budget, n_probes=8)
    assert sum(fewer[1:]) == budget
    assert (cut.unique, cut.n_probes) == (False, len(fewer) - 2)
    assert cut.probes_left == 8 - cut.n_probes
    assert cut.n_starts == 1 + cut.n_probes


def test_where_no_probe_comes_to_an_end_uniqueness_is_not_known(monkeypatch):
    alone, _ = counted_probes(monkeypatch, 0, n_probes=0)
    monkeypatch.setattr(uniqueness, "_SHARE_OF_FIRST", -1.0)
    cut, iterations = counted_probes(monkeypatch, 3, n_probes=1)
    assert iterations[1:] == [3]
    assert (cut.unique, cut.n_starts, cut.n_probes, cut.probes_left) == (None, 1, 0, 1)
    np.testing.assert_array_equal(cut.F, alone.F)


def test_other_answers_are_found_without_a_descent(monkeypatch):
    """Minimizers differ by constants on components: all of them are feasible and as low."""
    graph, bags = two_islands()
    ends = []

    def compared(first, others, *args, keep=uniqueness._smoothest_end):
        ends.extend(others)
        return keep(first, others, *args)

    monkeypatch.setattr(uniqueness, "_smoothest_end", compared)
    runs = []
    monkeypatch.setattr(solve_module, "descend", lambda *args: runs.append(0) or descend(*args))
    solution = solve(graph, bags, Settings(), rng=np.random.default_rng(0))
    assert (solution.unique, solution.n_starts, len(runs)) == (False, 9, 1)
    assert len({end.F.round(6).tobytes() for end in ends}) > 5
    P = propagator(graph)
    for end in ends:
        assert MassProjection(bags, P.weights).residual(end.F[:, 1:]) < 1e-9
        assert np.vdot(P.weights[:, None] * end.F, end.F - P(end.F)) < 1e-9


def part_recorded(seed=0, n=600, c=4, n_bags=8):
    """Clusters that few ties join, and the totals of bags that are known within bounds."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, 12, n)
    X = rng.normal(size=(12, 3))[cluster] * 3 + 0.4 * rng.normal(size=(n, 3))
    labels, codes = cluster % c, rng.integers(0, n_bags, n)
    labels = np.where(rng.random(n) < 0.1, rng.integers(0, c, n), labels)
    counts = np.array([np.bincount(labels[codes == k], minlength=c) for k in range(n_bags)])
    unseen = rng.integers(0, 3, counts.shape)
    totals = Totals.from_intervals(
        np.maximum(counts - unseen, 0),
        np.minimum(counts + unseen, counts.sum(axis=1, keepdims=True)),
        unit="count",
        classes=range(c),
    )
    return KNNGraph(5).fit(X), match_bags(n, bags=codes, proportions=totals)


def on_off_sensors():
    """A few days of on/off sensors: many equal rows, which few ties join to others."""
    home = make_smart_home(3, 1, minutes=5, sensors="on/off")
    X = np.column_stack([on for on in home.windows.values() if on.dtype == bool]).astype(float)
    day = np.arange(len(X)) // 288
    totals = Totals.from_labels(home.activities, day)
    return KNNGraph().fit(X), match_bags(len(X), bags=day, proportions=totals)


@pytest.mark.parametrize("problem", [part_recorded, on_off_sensors])
def test_a_slow_descent_is_cut_short_by_newton(problem, monkeypatch):
    """The same minimum, in a fraction of the iterations that the descent takes alone."""
    graph, bags = problem()
    fast = solve(graph, bags, Settings(n_probes=0))
    monkeypatch.setattr(descent, "_FIRST_LEAP", np.inf)
    slow = solve(graph, bags, Settings(n_probes=0, max_iter=20_000))
    assert fast.converged
    assert slow.converged
    assert fast.n_iter < 0.5 * slow.n_iter
    assert (np.diff(fast.energies) <= 1e-9).all()
    assert len(fast.energies) == fast.n_iter + 1
    np.testing.assert_allclose(fast.energies[-1], slow.energies[-1], rtol=1e-6, atol=1e-9)
    assert fast.residual < 1e-10
    if fast.unique:
        np.testing.assert_allclose(fast.F, slow.F, atol=2e-3)


def test_newton_takes_no_more_iterations_than_are_left():
    graph, bags = on_off_sensors()
    for max_iter in (4, 8):
        solution = solve(graph, bags, Settings(n_probes=0, max_iter=max_iter, tol=1e-10))
        assert solution.n_iter <= max_iter


def test_one_answer_needs_no_probe():
    graph, bags = random_bags(1)
    assert not may_be_ambiguous(graph, bags)
    solution = solve(graph, bags)
    assert solution.unique is True
    assert solution.n_starts == 1


@pytest.mark.slow
@settings(max_examples=60)
@given(seed=st.integers(0, 10**6))
def test_what_stands_alone_leaves_no_room_for_constants(seed):
    """Against a linear program: the constants that keep all masses are all 0."""
    rng = np.random.default_rng(seed)
    n, c, pieces = 12, 3, int(rng.integers(1, 3))
    piece = rng.integers(0, pieces, n)
    graph = PrecomputedGraph().fit((piece[:, None] == piece).astype(float))
    pieces, piece = graph.components()
    F = rng.dirichlet(np.full(c, 0.4), n)
    F = np.where(rng.random((n, c)) < rng.choice([0.0, 0.3]), 0.0, F) + 1e-300
    F /= F.sum(axis=1, keepdims=True)
    codes = rng.integers(0, 3, n)
    codes[:3] = [0, 1, 2]
    mean = np.array([F[codes == k].mean(axis=0) for k in range(3)])
    slack = rng.choice([0.0, 0.1], size=(2, 3, c))
    low, high = np.maximum(mean - slack[0], 0.0), np.minimum(mean + slack[1], 1.0)
    totals = Totals.from_intervals(dict(enumerate(low.tolist())), dict(enumerate(high.tolist())))
    bags = match_bags(n, bags=codes.tolist(), proportions=totals)
    room = 0.0
    counts = np.array([[(piece[codes == k] == j).sum() for j in range(pieces)] for k in range(3)])
    sums = bags.groups.sum(F)
    whole = np.kron(np.eye(pieces), np.ones((1, c)))
    lines = np.kron(counts, np.eye(c))
    for axis in np.vstack([np.eye(pieces * c), -np.eye(pieces * c)]):
        found = linprog(
            -axis,
            A_ub=np.vstack([lines, -lines]),
            b_ub=np.maximum(
                np.concatenate([(bags.upper - sums).ravel(), (sums - bags.lower).ravel()]), 0.0
            ),
            A_eq=whole,
            b_eq=np.zeros(pieces),
            bounds=[(-F[piece == j, h].min(), 1.0) for j in range(pieces) for h in range(c)],
        )
        room = max(room, -found.fun)
    if not unsupervised_rows(graph, bags).any():
        assert only_minimizer(F, graph, bags) == (room < 1e-4)


def test_an_answer_with_rows_of_no_mass_stands_alone():
    """Intervals leave room for constants, but none can be taken from a row that has nothing."""
    W = np.zeros((8, 8))
    W[:4, :4] = W[4:, 4:] = 1.0
    W[3, 4] = W[4, 3] = 0.01
    graph = PrecomputedGraph().fit(W)
    totals = Totals.from_intervals({0: [0.6, 0.1], 1: [0.1, 0.6]}, {0: [0.9, 0.4], 1: [0.4, 0.9]})
    bags = match_bags(8, bags=[0, 0, 0, 1, 0, 1, 1, 1], proportions=totals)
    assert may_be_ambiguous(graph, bags)
    first = solve(graph, bags, Settings(n_probes=0))
    assert first.unique is (True if only_minimizer(first.F, graph, bags) else None)
    pure = np.repeat(np.eye(2), 4, axis=0)
    assert only_minimizer(pure, graph, bags)
    assert not only_minimizer(0.5 * (pure + 0.5), graph, bags)
    assert not only_minimizer(pure, *two_islands())


def test_given_labels_and_different_bags_decide_between_islands():
    graph, _ = two_islands()
    labeled = match_bags(8, y=[1] + [None] * 7, bags=[0] * 8, proportions=np.array([0.5]))
    assert not may_be_ambiguous(graph, labeled)
    two_bags = match_bags(8, bags=[0, 0, 0, 1, 0, 1, 1, 1], proportions=np.array([0.75, 0.25]))
    assert not may_be_ambiguous(graph, two_bags)
    solution = solve(graph, two_bags)
    assert np.argmax(solution.F, axis=1).tolist() == [1] * 4 + [0] * 4


def test_weakly_tied_islands_are_ambiguous_too():
    W = np.full((8, 8), 1e-20)
    W[:4, :4] = W[4:, 4:] = 1.0
    _, bags = two_islands()
    solution = solve(PrecomputedGraph().fit(W), bags, rng=np.random.default_rng(0))
    assert solution.unique is False


def test_bags_that_cut_both_islands_alike_do_not_decide():
    """As many bags as islands, but each holds the same part of both."""
    graph, _ = two_islands()
    bags = match_bags(8, bags=[0, 0, 1, 1, 0, 0, 1, 1], proportions=np.array([0.5, 0.5]))
    assert may_be_ambiguous(graph, bags)


def test_probes_leave_rows_alone_that_nothing_reaches():
    """Two ambiguous islands and one that is unknown: the last keeps the overall shares."""
    W = np.zeros((12, 12))
    W[:4, :4] = W[4:8, 4:8] = W[8:, 8:] = 1.0
    totals = Totals.from_proportions({0: [0.5, 0.5], 1: [None, None]})
    bags = match_bags(12, bags=[0] * 8 + [1] * 4, proportions=totals)
    for seed in range(3):
        solution = solve(PrecomputedGraph().fit(W), bags, rng=np.random.default_rng(seed))
        assert solution.unique is False
        np.testing.assert_allclose(solution.F[8:], 0.5, atol=1e-6)


def test_rows_that_nothing_reaches_keep_the_overall_shares():
    """An island whose bag is unknown must not be given a label by lot."""
    W = np.zeros((12, 12))
    W[:8, :8] = W[8:, 8:] = 1.0
    W[:4, 4:8] = W[4:8, :4] = 0.0
    totals = Totals.from_proportions({0: [0.75, 0.25], 1: [0.25, 0.75], 2: [None, None]})
    bags = match_bags(12, bags=[0, 0, 0, 1, 0, 1, 1, 1, 2, 2, 2, 2], proportions=totals)
    graph = PrecomputedGraph().fit(W)
    assert unsupervised_rows(graph, bags).tolist() == [False] * 8 + [True] * 4
    for seed in range(3):
        F = solve(graph, bags, rng=np.random.default_rng(seed)).F
        np.testing.assert_allclose(F[8:], 0.5, atol=1e-6)


def test_a_heavy_prior_does_not_make_the_plain_loop_diverge():
    graph, bags = random_bags(0)
    slow = solve(graph, bags, Settings(solver="plain", prior_weight=5.0))
    fast = solve(graph, bags, Settings(prior_weight=5.0))
    assert slow.converged
    np.testing.assert_allclose(slow.F, fast.F, atol=1e-5)


def test_a_flat_energy_is_not_taken_for_an_end():
    graph, bags = random_bags(0)
    solution = solve(graph, bags, Settings(alpha=1e-6))
    assert solution.n_iter > 5
    nearly = solve(graph, bags, Settings(alpha=1e-3))
    np.testing.assert_allclose(solution.F, nearly.F, atol=1e-2)


@pytest.mark.parametrize(
    ("gamma", "alpha", "solver"),
    [
        *((0.3, alpha, "accelerated") for alpha in (1e-300, 1e-12, 1e-9, 1e-7)),
        *((1e12, 0.5, solver) for solver in ("accelerated", "plain")),
    ],
)
def test_an_energy_flatter_than_rounding_soon_comes_to_its_end(gamma, alpha, solver, monkeypatch):
    """The last graph has no ties at all: every feasible answer is as good."""
    projections = []

    def counted(self, F, *, project=MassProjection.__call__):
        projections.append(self)
        return project(self, F)

    monkeypatch.setattr(MassProjection, "__call__", counted)
    rng = np.random.default_rng(0)
    bags = match_bags(60, bags=np.arange(60) % 6, proportions=rng.dirichlet(np.ones(3), 6))
    graph = RBFGraph(gamma).fit(rng.normal(size=(60, 2)))
    found = solve(graph, bags, Settings(alpha=alpha, solver=solver, n_probes=2))
    assert found.status is Status.CONVERGED
    assert found.residual < 1e-9
    assert len(projections) < 500


@pytest.mark.slow
def test_xor_needs_far_fewer_accelerated_iterations():
    fast = slow = 0
    for seed in range(2):
        X, y = make_xor(120, random_state=seed)
        bag, totals = make_bags(None, y, proportions=[0.6, 0.4, 0.5], random_state=seed)
        graph = KNNGraph().fit(X)
        bags = match_bags(120, bags=bag, proportions=totals)
        fast += solve(graph, bags, Settings(n_probes=0, max_iter=20000)).n_iter
        slow += solve(graph, bags, Settings(solver="plain", n_probes=0, max_iter=20000)).n_iter
    assert 3 * fast <= slow


@pytest.mark.slow
@given(seed=st.integers(0, 10**5), c=st.integers(2, 4))
def test_inexact_propagation_ends_where_exact_propagation_does(seed, c):
    graph, bags = random_bags(seed, n=40, c=c)
    loose = solve(graph, bags, Settings(n_probes=0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "_INEXACT", 1e-9)
        exact = solve(graph, bags, Settings(n_probes=0))
    assert loose.converged
    assert loose.propagation_residual <= 1e-9
    assert loose.energies[-1] == pytest.approx(exact.energies[-1], rel=1e-6, abs=1e-9)
    if may_be_ambiguous(graph, bags):
        return
    np.testing.assert_allclose(loose.F, exact.F, atol=1e-4)


@pytest.mark.parametrize("c", [2, 3])
@pytest.mark.parametrize("n_probes", [0, 8])
def test_rows_arranged_for_locality_get_the_same_answer(c, n_probes):
    graph, bags = random_bags(7, n=80, c=c)
    settings = Settings(n_probes=n_probes)
    expected = solve(graph, bags, settings)
    graph.locality = np.random.default_rng(0).permutation(80)
    found = solve(graph, bags, settings)
    np.testing.assert_allclose(found.F, expected.F, atol=1e-6)
    assert found.unique == expected.unique
    assert (
        graph.arranged().affinity_ != graph.affinity_[graph.locality][:, graph.locality]
    ).nnz == 0


@pytest.mark.parametrize("solver", ["accelerated", "plain"])
def test_settled_labels_are_those_of_convergence(solver):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = rng.normal(size=(400, 2)) + 3.0 * y[:, None]
    bags = match_bags(
        400, bags=np.arange(400) % 20, proportions=Totals.from_labels(y, np.arange(400) % 20)
    )
    graph, ranks = KNNGraph(10).fit(X), np.arange(400)
    settings = Settings(solver=solver, n_probes=0, max_iter=20000)
    whole = solve(graph, bags, settings, ranks=ranks)
    early = solve(graph, bags, replace(settings, stop="settled"), ranks=ranks)
    assert whole.status is Status.CONVERGED
    # The plain descent is slow enough to be looked at; Newton's method converges before.
    assert early.status is (Status.SETTLED if solver == "plain" else Status.CONVERGED)
    assert early.success
    assert early.n_iter <= whole.n_iter
    assert early.residual < 1e-9
    labels = [quota(solution.F, bags, ranks).labels for solution in (whole, early)]
    assert (labels[0] != labels[1]).mean() <= 0.01
