"""alter-∝SVM against brute force and against the printed algorithm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from apportion import PropSVM, Totals
from apportion._utils.groups import Groups
from apportion.datasets import make_bags, make_xor
from apportion.estimators._alternating_svm import PropSVMProblem
from apportion.estimators._alternating_svm import alternating_svm as annealed
from reference import (
    alternating_svm,
    best_labels,
    linear_svm,
    proportion_loss,
    svm_objective,
)
from test_inv_cal import clouds, opposite_clouds


def problem(X, bags, shares, C=1.0, C_p=1.0, fixed=None, width=0.0):
    sizes = np.bincount(bags[bags >= 0], minlength=len(shares)).astype(float)
    return PropSVMProblem(
        True,
        X,
        Groups(bags, len(shares)),
        np.maximum(sizes * (shares - width), 0.0),
        np.minimum(sizes * (shares + width), sizes),
        np.zeros(len(X)) if fixed is None else fixed,
        C,
        C_p,
    )


def label_loss(y, f, bags, shares, C, C_p):
    return C * np.maximum(0, 1 - y * f).sum() + C_p * proportion_loss(y, bags, shares)


@given(
    seed=st.integers(0, 10_000),
    n_bags=st.integers(1, 4),
    C=st.sampled_from([1e-5, 0.1, 1.0, 30.0]),
    C_p=st.sampled_from([0.0, 0.3, 1.0, 50.0]),
    grid=st.booleans(),
)
def test_the_label_step_is_the_best_of_all_labels(seed, n_bags, C, C_p, grid):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 14))
    bags = rng.integers(0, n_bags, n)
    f = rng.normal(size=n) * 2
    f = np.round(f) if grid else f
    shares = rng.random(n_bags)
    shares = np.round(2 * shares) / 2 if grid else shares
    y = problem(np.zeros((n, 1)), bags, shares, C, C_p).label(f, C)
    wanted = best_labels(f, bags, shares, C, C_p)
    assert set(np.unique(y)) <= {-1.0, 1.0}
    found = label_loss(y, f, bags, shares, C, C_p)
    assert found <= label_loss(wanted, f, bags, shares, C, C_p) + 1e-9 * (1 + C + C_p)


def test_the_label_step_where_both_losses_have_a_say():
    rng = np.random.default_rng(0)
    far_off = 0
    for case in range(150):
        f = rng.normal(2.0 * (-1) ** case, 2.0, 9)
        shares, C_p = rng.random(1), [0.3, 1.0, 2.0][case % 3]
        bags = np.zeros(9, int)
        y = problem(np.zeros((9, 1)), bags, shares, 1.0, C_p).label(f, 1.0)
        best = label_loss(best_labels(f, bags, shares, 1.0, C_p), f, bags, shares, 1.0, C_p)
        assert label_loss(y, f, bags, shares, 1.0, C_p) == pytest.approx(best)
        far_off += proportion_loss(y, bags, shares) > 1.5
    assert far_off > 20


def test_the_label_step_keeps_given_labels_and_intervals():
    f = np.array([3.0, 2.0, 1.0, -1.0, -2.0, 0.5])
    bags = np.array([0, 0, 0, 0, 0, -1])
    fixed = np.array([0.0, 0, 0, 0, 0, -1.0])
    loose = problem(np.zeros((6, 1)), bags, np.array([0.5]), C_p=100.0, fixed=fixed, width=0.2)
    np.testing.assert_array_equal(loose.label(f, 1.0), [1, 1, 1, -1, -1, -1])
    tight = problem(np.zeros((6, 1)), bags, np.array([0.2]), C_p=100.0, fixed=fixed, width=0.0)
    np.testing.assert_array_equal(tight.label(f, 1.0), [1, -1, -1, -1, -1, -1])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("C", "C_p"), [(1.0, 1.0), (0.1, 3.0)])
def test_the_svm_step_is_optimal_and_the_objective_is_recomputed(seed, C, C_p):
    X, y, bags, totals = clouds(seed, n=24, n_bags=3)
    shares = totals.lower[:, 1]
    signs = np.where(y == 1, 1.0, -1.0)
    it = problem(X, bags, shares, C, C_p)
    machine = it.fit(signs, C)
    w, b = linear_svm(X, signs, C)
    best = svm_objective(X, signs, w, b, C)
    ours = X.T @ machine.weights
    np.testing.assert_allclose(machine.f, X @ ours + machine.intercept)
    mine = svm_objective(X, signs, ours, machine.intercept, C)
    assert mine == pytest.approx(best, rel=2e-3)
    assert it.objective(machine, -signs, C) == pytest.approx(
        svm_objective(X, -signs, ours, machine.intercept, C)
        + C_p * proportion_loss(-signs, bags, shares)
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2])
def test_as_good_as_the_printed_algorithm_from_as_many_starts(seed):
    X, _, bags, totals = clouds(seed, n=18, n_bags=3)
    shares = totals.lower[:, 1]
    model = PropSVM("linear", C=1.0, C_p=1.0, n_starts=20, random_state=seed)
    model.fit(X, bags=bags, proportions=totals)
    it = problem(X, bags, shares)
    counts = np.rint(shares * 6).astype(int)
    rng = np.random.default_rng(seed)
    ends = [
        alternating_svm(X, bags, shares, it.random_start(counts, rng), 1.0, 1.0) for _ in range(4)
    ]
    _, w, b, objective = min(ends, key=lambda end: end[3])
    assert model.objective_[0] <= objective + 2e-3 * abs(objective)
    if model.objective_[0] == pytest.approx(objective, rel=2e-3):
        clear = np.abs(X @ w + b) > 0.05
        np.testing.assert_array_equal(model.predict(X)[clear], (X @ w + b > 0)[clear])


def test_finds_the_margin_that_bag_means_hide():
    """The toy of the ∝SVM paper in small: here InvCal has every label wrong."""
    X, y, bags, totals = opposite_clouds()
    model = PropSVM("linear", C=1.0, n_starts=20, random_state=0)
    assert model.fit(X, bags=bags, proportions=totals).score(X, y) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("design", "least"), [([0.6, 0.4, 0.5], 0.8), ([0.85, 0.25, 0.4], 0.98)])
def test_xor_with_defaults(design, least):
    accuracy = []
    for seed in range(3):
        X, y = make_xor(240, random_state=seed)
        bags, totals = make_bags(None, y, proportions=design, random_state=seed)
        model = PropSVM(random_state=seed).fit(X, bags=bags, proportions=totals)
        accuracy.append((model.transduction_ == y).mean())
    assert np.mean(accuracy) >= least


def test_starts_have_the_counts_and_the_given_labels():
    bags = np.array([0, 0, 0, 0, 1, 1, 1, -1])
    fixed = np.array([0.0, 0, 0, 0, 0, 0, 0, 1.0])
    it = problem(np.zeros((8, 1)), bags, np.array([0.5, 0.3]), fixed=fixed)
    seen = set()
    for seed in range(20):
        y = it.random_start(np.array([2, 1]), np.random.default_rng(seed))
        assert (y[:4] > 0).sum() == 2
        assert (y[4:7] > 0).sum() == 1
        assert y[7] == 1.0
        seen.add(tuple(y))
    assert len(seen) > 5


def test_starts_side_by_side_give_the_same_labels():
    X, _, bags, totals = clouds(5)
    alone = PropSVM(random_state=0, n_starts=5).fit(X, bags=bags, proportions=totals)
    both = PropSVM(random_state=0, n_starts=5, n_jobs=2).fit(X, bags=bags, proportions=totals)
    np.testing.assert_array_equal(both.objectives_, alone.objectives_)
    np.testing.assert_array_equal(both.decision_function(X), alone.decision_function(X))


def test_the_lowest_objective_is_kept():
    X, _, bags, totals = opposite_clouds(20)
    model = PropSVM("linear", C=1.0, n_starts=8, random_state=3).fit(
        X, bags=bags, proportions=totals
    )
    assert model.objectives_.shape == (1, 8)
    assert model.objective_[0] == model.objectives_.min() < model.objectives_[0, 0] - 1.0
    f = model.decision_function(X)
    y = np.where(f > 0, 1.0, -1.0)
    w = model.coef_[0]
    mine = svm_objective(X, y, w, model.intercept_[0], 1.0)
    mine += 10.0 * proportion_loss(y, bags, totals.lower[:, 1])
    assert mine == pytest.approx(model.objective_[0], rel=0.05)
    more = PropSVM("linear", C=1.0, n_starts=20, random_state=3).fit(
        X, bags=bags, proportions=totals
    )
    np.testing.assert_allclose(more.objectives_[0, :8], model.objectives_[0])


def test_given_labels_are_fixed_and_can_turn_all_labels():
    """Two equal bags leave it open which cluster is which class; one label decides."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-4, 1, (20, 2)), rng.normal(4, 1, (20, 2))])
    side = np.repeat([0, 1], 20)
    bags = np.arange(40) % 2
    totals = Totals.from_labels(side, bags)
    for label in (0, 1):
        y = np.full(40, np.nan)
        y[[0, 39]] = [label, 1 - label]
        model = PropSVM("linear", C=1.0, random_state=0)
        model.fit(X, y, bags=bags, proportions=totals)
        right = side if label == 0 else 1 - side
        np.testing.assert_array_equal(model.predict(X), right)
        assert model.transduction_[0] == label


@pytest.mark.slow
def test_probabilities_keep_the_sign_and_fit_the_bags():
    X, _, bags, totals = clouds(7, n=200, n_bags=10)
    model = PropSVM(random_state=0).fit(X, bags=bags, proportions=totals)
    f = model.decision_function(X)
    P = model.predict_proba(X)
    np.testing.assert_array_equal(P[:, 1] > 0.5, f > 0)
    np.testing.assert_allclose(P[:, 1], 1 / (1 + np.exp(-model.slope_ * f)))


@pytest.mark.slow
def test_too_few_alternations_are_reported(monkeypatch):
    X, _, bags, totals = clouds(8)
    it = problem(X, bags, totals.lower[:, 1])
    start = it.random_start(np.full(8, 5), np.random.default_rng(0))
    _, _, n_fits, settled = it.alternate(start, 1.0, 0.0, 1)
    assert n_fits == 2
    assert not settled
    y, machine, _, settled = it.alternate(start, 1.0, 0.0, 100)
    assert settled
    np.testing.assert_array_equal(it.label(machine.f, 1.0), y)

    monkeypatch.setattr(
        PropSVMProblem, "alternate", lambda self, y, C, *_: (y, self.fit(y, C), 1, False)
    )
    with pytest.warns(ConvergenceWarning, match="did not settle within 7 alternations"):
        PropSVM("linear", max_iter=7).fit(X, bags=bags, proportions=totals)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9])
def test_a_margin_that_is_hard_enough_is_made_no_harder(size, monkeypatch):
    weights = []

    def watched(self, y, C, *, fit=PropSVMProblem.fit):
        weights.append(C)
        return fit(self, y, C)

    monkeypatch.setattr(PropSVMProblem, "fit", watched)
    X, _, bags, totals = clouds(0)
    model = PropSVM("linear", n_starts=2, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"C=1 is too large for rows of variance"):
        model.fit(size * X, bags=bags, proportions=totals)
    assert max(weights) <= 1.001e4
    assert np.isfinite(model.decision_function(size * X)).all()


def test_other_methods_are_still_to_come():
    with pytest.raises(ValueError, match="'method' parameter of PropSVM must be one of"):
        PropSVM(method="convex").fit(np.eye(3), [0, 1, 1])


@pytest.mark.parametrize("seed", range(4))
def test_the_names_of_two_classes_do_not_choose_the_starts(seed):
    X, y, bags, totals = clouds(seed)
    model = PropSVM("linear", n_starts=1, random_state=seed)
    f = model.fit(X, bags=bags, proportions=totals).decision_function(X)
    swapped = Totals.from_labels(1 - y, bags)
    g = model.fit(X, bags=bags, proportions=swapped).decision_function(X)
    np.testing.assert_allclose(g, -f, atol=1e-9)


@pytest.mark.parametrize("C", [5e-324, 1e-320, 1e-310, 1.0])
def test_annealing_ends_however_small_c_is(C):
    """A hundred-thousandth of C may be rounded to 0, from where no growth leads to C."""
    asked = []

    class Counted:
        def alternate(self, y, now, tol, max_iter):
            asked.append(now)
            assert len(asked) < 40
            return y, None, 1, True

        def objective(self, machine, y, now):
            return 0.0

    Counted.C = C
    annealed(Counted(), [np.ones(3)], tol=1e-3, max_iter=5)
    assert asked[-1] == C
    assert (np.diff(asked) > 0).all()
