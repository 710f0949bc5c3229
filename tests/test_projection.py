"""Projection: nearest in the degree norm, for any bags and masses."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import reference
from apportion import Totals
from apportion._core import dual
from apportion._core.dual import RowDual, SimplexResponse, meet_totals
from apportion._core.projection import Face, MassProjection, reconcile
from apportion._utils.groups import Groups
from apportion.supervision.bags import match_bags


def random_problem(seed, *, intervals=False, spread=1.0, given_labels=False):
    """Random bags with totals that some labels meet: bags of one, pure bags, zero mass, no bag."""
    rng = np.random.default_rng(seed)
    n, c, K = rng.integers(1, 25), rng.integers(1, 6), rng.integers(1, 5)
    codes = rng.integers(-1, K, n)
    codes[0] = 0
    labels = rng.integers(0, c, n)
    ids = [None if k < 0 else int(k) for k in codes]
    totals = Totals.from_labels(labels, ids, classes=list(range(c)))
    if intervals:
        slack = rng.random(totals.lower.shape) * rng.integers(0, 2, totals.lower.shape) * 0.3
        totals = Totals.from_intervals(
            dict(zip(totals.ids, np.maximum(totals.lower - slack, 0), strict=True)),
            dict(zip(totals.ids, np.minimum(totals.upper + slack, 1), strict=True)),
            classes=list(range(c)),
        )
    y = np.where(rng.random(n) < 0.3, labels, np.nan) if given_labels else None
    y = None if y is None or np.isnan(y).all() else y
    bags = match_bags(n, y=y, bags=ids, proportions=totals)
    F = rng.normal(size=(n, c)) * spread
    if c == 2:
        F[:, 0] = 1 - F[:, 1]
    return bags, F, np.exp(rng.normal(size=n))


def projected(bags, F, weights, method="nearest", **keywords):
    project = MassProjection(bags, weights, method, **keywords)
    return project, project.from_columns(project(project.to_columns(F)))


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), intervals=st.booleans())
def test_nearest_agrees_with_dykstra(seed, intervals):
    bags, F, weights = random_problem(seed, intervals=intervals)
    expected = reference.dykstra(F, bags.codes, bags.lower, bags.upper, weights, max_sweeps=400)
    project, G = projected(bags, F, weights)
    assert project.residual(project.to_columns(G)) < 1e-10
    if expected is not None:
        np.testing.assert_allclose(G, expected, atol=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_no_point_is_nearer_by_a_linear_program(seed):
    rng = np.random.default_rng(seed)
    codes = np.repeat([0, 1, 2], 4)
    labels = rng.integers(0, 3, 12)
    bags = match_bags(
        12, bags=codes, proportions=Totals.from_labels(labels, codes, classes=[0, 1, 2])
    )
    F, weights = rng.normal(size=(12, 3)), np.exp(rng.normal(size=12))
    project, G = projected(bags, F, weights)
    assert project.residual(project.to_columns(G)) < 1e-10
    assert reference.distance_to_nearest(G, F, codes, bags.lower, weights) < 1e-5
    _, elsewhere = projected(bags, F, weights, "alternating")
    assert reference.distance_to_nearest(elsewhere, F, codes, bags.lower, weights) > 1e-2


@given(
    seed=st.integers(0, 10**6),
    intervals=st.booleans(),
    spread=st.sampled_from([0.0, 0.1, 1.0, 30.0]),
    given_labels=st.booleans(),
)
def test_feasible_and_optimal(seed, intervals, spread, given_labels):
    """Feasible, and no feasible direction improves: ⟨F - G, H - G⟩ ≤ 0 for other points H of C."""
    bags, F, weights = random_problem(
        seed, intervals=intervals, spread=spread, given_labels=given_labels
    )
    project, G = projected(bags, F, weights)
    assert project.residual(project.to_columns(G)) < 1e-9
    np.testing.assert_allclose(G.sum(axis=1), 1, atol=1e-9)
    assert (G >= 0).all()
    rng = np.random.default_rng(seed)
    for _ in range(3):
        _, H = projected(bags, rng.normal(size=F.shape), np.ones(len(F)))
        if bags.n_classes == 2:
            _, H = projected(bags, np.column_stack([1 - H[:, 1], H[:, 1]]), np.ones(len(F)))
        free = bags.given < 0
        slope = (weights[free, None] * (F - G)[free] * (H - G)[free]).sum()
        assert slope <= 1e-7 * max(1.0, np.abs(F).max()) * weights.sum()


@given(seed=st.integers(0, 10**6), intervals=st.booleans(), given_labels=st.booleans())
def test_unchanged_when_already_feasible(seed, intervals, given_labels):
    bags, F, weights = random_problem(seed, intervals=intervals, given_labels=given_labels)
    project, G = projected(bags, F, weights)
    again = project.from_columns(project(project.to_columns(G)))
    np.testing.assert_allclose(again, G, atol=1e-9)


@given(seed=st.integers(0, 10**6), intervals=st.booleans())
def test_alternating_finds_a_feasible_point(seed, intervals):
    bags, F, weights = random_problem(seed, intervals=intervals, spread=0.3)
    project, G = projected(bags, F, weights, "alternating", tol=1e-8, max_sweeps=20000)
    assert project.residual(project.to_columns(G)) < 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_alternating_is_the_papers_one_column(seed):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat([0, 1, 2], 5))
    shares = np.array([0.6, 0.2, 0.4])
    bags = match_bags(15, bags=codes, proportions=shares)
    f = rng.normal(size=15)
    expected = reference.alternating_projections(f, codes, 5 * shares)
    project = MassProjection(bags, np.ones(15), "alternating")
    np.testing.assert_allclose(project(f[:, None])[:, 0], expected, atol=1e-10)


def test_hundreds_of_bags_of_different_size():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 60, 400)
    codes = np.repeat(np.arange(400), sizes)
    for c in (2, 5):
        labels = rng.integers(0, c, len(codes))
        bags = match_bags(len(codes), bags=codes, proportions=Totals.from_labels(labels, codes))
        F = rng.dirichlet(np.ones(c), len(codes))
        project, G = projected(bags, F, np.exp(rng.normal(size=len(codes))))
        assert project.residual(project.to_columns(G)) < 1e-10


def test_pure_bags_are_exact():
    codes = [0, 0, 1, 1, 1]
    for c in (2, 3):
        bags = match_bags(5, bags=codes, proportions=np.eye(c)[:2])
        _, G = projected(bags, np.full((5, c), 1 / c), np.ones(5))
        np.testing.assert_allclose(G, np.eye(c)[codes], atol=1e-12)


@given(seed=st.integers(0, 10**6), given_labels=st.booleans(), intervals=st.booleans())
def test_reconcile_meets_the_masses_and_keeps_the_order(seed, given_labels, intervals):
    bags, F, _ = random_problem(seed, given_labels=given_labels, intervals=intervals)
    p = np.exp(F) / np.exp(F).sum(axis=1, keepdims=True)
    G = reconcile(p, bags)
    np.testing.assert_allclose(G.sum(axis=1), 1.0)
    sums = bags.groups.sum(G)
    size = np.maximum(bags.groups.sizes, 1)[:, None]
    assert (np.maximum(bags.lower - sums, sums - bags.upper) / size).max() < 1e-8
    zero = bags.groups.spread((bags.upper <= 0).astype(float)) > 0
    assert (G[zero] == 0).all()


def test_reconcile_is_a_shift_of_logits():
    p = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    bags = match_bags(3, bags=[0, 0, 0], proportions=np.array([0.5]))
    G = reconcile(p, bags)
    shift = np.log(G[:, 1] / G[:, 0]) - np.log(p[:, 1] / p[:, 0])
    np.testing.assert_allclose(shift, shift[0])
    assert G[:, 1].sum() == pytest.approx(1.5)


def test_a_bag_that_is_solved_stays_solved(monkeypatch):
    """Pure bags among mixed ones: a handful of Newton steps, not a bisection to the last digit."""
    rng = np.random.default_rng(0)
    codes = np.arange(5000) % 100
    labels = np.where(codes < 30, codes % 2, rng.integers(0, 2, 5000))
    bags = match_bags(5000, bags=codes, proportions=Totals.from_labels(labels, codes))
    project = MassProjection(bags, rng.uniform(1, 3, 5000))
    F = np.clip(0.4 * labels + rng.normal(size=5000) * 0.3 + 0.3, 0, 1)[:, None]
    sums = []
    whole = Groups.sum
    monkeypatch.setattr(Groups, "sum", lambda self, values: sums.append(1) or whole(self, values))
    projected = project(F)
    assert project.residual(projected) < 1e-12
    assert len(sums) <= 40


@pytest.mark.parametrize("c", [2, 4])
def test_twenty_thousand_bags(c):
    rng = np.random.default_rng(c)
    n = 100_000
    codes, labels = rng.integers(0, 20_000, n), rng.integers(0, c, n)
    totals = Totals.from_labels(labels, codes, classes=list(range(c)))
    bags = match_bags(n, bags=codes, proportions=totals)
    F = rng.dirichlet(np.ones(c), n)
    project = MassProjection(bags, rng.uniform(1, 3, n))
    projected = project(project.to_columns(F))
    assert project.residual(projected) < 1e-9


@given(st.integers(0, 10**6))
def test_reconcile_meets_tiny_shares(seed):
    """A share of 3.7e-10 in a bag of one row is met like any other."""
    rng = np.random.default_rng(seed)
    c, K = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    codes = np.repeat(np.arange(K), rng.integers(1, 5, K))
    shares = rng.dirichlet(np.ones(c), K)
    shares[np.arange(K), rng.integers(0, c, K)] = 10.0 ** rng.uniform(-12, -3, K)
    shares /= shares.sum(axis=1, keepdims=True)
    bags = match_bags(len(codes), bags=codes, proportions=shares)
    p = rng.dirichlet(np.full(c, 10.0 ** rng.uniform(-2, 1)), len(codes))
    G = reconcile(p, bags)
    np.testing.assert_allclose(bags.groups.sum(G), bags.lower, rtol=0, atol=1e-9)
    np.testing.assert_allclose(bags.lower, shares * bags.groups.sizes[:, None], rtol=0, atol=1e-8)


def test_reconcile_reports_totals_that_it_misses(monkeypatch):
    bags = match_bags(4, bags=["a", "a", "b", "b"], proportions={"a": 0.9, "b": 0.5})
    p = np.full((4, 2), 0.5)
    early = partial(meet_totals, max_iter=0)
    monkeypatch.setattr("apportion._core.projection.meet_totals", early)
    with pytest.warns(ConvergenceWarning, match=r"1 bag of 2 could not be .* them 'a': .* class 0"):
        reconcile(p, bags)


class Counting(SimplexResponse):
    """Rows that count how often they are asked."""

    asked = 0

    def __call__(self, lam):
        Counting.asked += 1
        return super().__call__(lam)


@pytest.mark.parametrize("off", [1e-9, 1e-10, 1e-11])
def test_totals_that_no_labels_meet_are_given_up_early(off):
    """Masses that miss the bag's size by rounding: no step helps, and few are tried."""
    rng = np.random.default_rng(0)
    groups = Groups(np.repeat(np.arange(3), 12), 3)
    masses = np.array([[4.0, 5.0, 3.0], [2.5, 3.5, 6.0], [1.0, 1.0, 10.0]])
    masses[:, 0] += off
    Counting.asked = 0
    rows = Counting(rng.random((36, 3)), rng.uniform(0.5, 1.5, 36))
    labels = np.empty((36, 3))
    dual = RowDual(rows, groups, labels)
    _, residual = meet_totals(dual, masses, masses, groups.sizes, max_step=4.0)
    assert residual <= off
    assert np.abs(groups.sum(labels) - masses).max() <= off
    assert Counting.asked <= 40


def bags_within(n, c, seed):
    """Rows in three bags with intervals and one bag of exact totals."""
    rng = np.random.default_rng(seed)
    codes, labels = rng.integers(0, 4, n), rng.integers(0, c, n)
    counts = np.array([np.bincount(labels[codes == k], minlength=c) for k in range(4)])
    room = np.array([[0], [1], [2], [8]])
    totals = Totals.from_intervals(
        np.maximum(counts - room, 0),
        np.minimum(counts + room, counts.sum(axis=1, keepdims=True)),
        unit="count",
        classes=range(c),
    )
    return match_bags(n, bags=codes, proportions=totals), rng


@pytest.mark.parametrize("c", [2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_the_face_is_the_derivative_of_the_projection(c, seed):
    n = 40
    bags, rng = bags_within(n, c, seed)
    project = MassProjection(bags, rng.uniform(0.5, 2.0, n))
    G = project.to_columns(rng.dirichlet(np.full(c, 0.7), n) + 0.2 * rng.normal(size=(n, c)))
    F = project(G)
    face = Face(project, F, project.held())
    v = rng.normal(size=F.shape)
    derivative = (project(G + 1e-6 * v) - project(G - 1e-6 * v)) / 2e-6
    np.testing.assert_allclose(face(v), derivative, atol=1e-5)
    np.testing.assert_allclose(face(face(v)), face(v), atol=1e-12)


def test_bounds_cost_no_evaluation_for_a_common_shift(monkeypatch):
    """A common shift of a bag's multipliers changes no soft label: one trial per Newton step."""
    n, c = 200, 4
    bags, rng = bags_within(n, c, 0)
    evaluations, steps = [], []
    at, step = RowDual.at, dual.newton_step
    monkeypatch.setattr(RowDual, "at", lambda *args: evaluations.append(0) or at(*args))
    monkeypatch.setattr(dual, "newton_step", lambda *args: steps.append(0) or step(*args))
    project = MassProjection(bags, rng.uniform(0.5, 2.0, n))
    F = rng.dirichlet(np.full(c, 0.7), n)
    for _ in range(20):
        F = F + 0.01 * rng.normal(size=F.shape)
        project(F)
    assert len(evaluations) <= 20 + 1.2 * len(steps)


def test_a_residual_that_is_not_a_number_is_not_taken_for_none():
    bags = match_bags(4, bags=["a", "a", "b", "b"], proportions={"a": 0.5, "b": 1.0})
    project = MassProjection(bags, np.ones(4))
    assert project.residual(project(np.full((4, 1), 0.5))) < 1e-12
    assert np.isnan(project.residual(np.full((4, 1), np.nan)))
