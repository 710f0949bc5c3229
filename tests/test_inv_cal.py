"""InvCal against the printed quadratic program."""

from __future__ import annotations

import numpy as np
import pytest

from apportion import InvCal, MeanMap, PropSVM, Totals
from apportion.datasets import make_bags
from apportion.estimators._inductive import known_bags
from apportion.supervision.bags import match_bags
from reference import bag_mean_regression


def clouds(seed, n=80, n_bags=8):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3)) + 1.5 * y[:, None] * [1.0, 0.5, 0.0]
    bags, totals = make_bags(None, y, n_bags, random_state=seed)
    return X, y, bags, totals


def opposite_clouds(n=100):
    """Class 1 lies higher within each bag, but the bag with more of it lies lower as a whole."""
    rng = np.random.default_rng(0)
    bags = np.repeat([0, 1], n)
    y = np.concatenate([np.arange(n) < 0.6 * n, np.arange(n) < 0.4 * n]).astype(int)
    level = np.where(y == 1, 2.0, -2.0) + np.where(bags == 0, -1.0, 1.0)
    X = np.column_stack([0.1 * rng.normal(size=2 * n), level + 0.1 * rng.normal(size=2 * n)])
    return X, y, bags, Totals.from_labels(y, bags)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("C", "epsilon"), [(1.0, 0.0), (10.0, 0.1), (0.05, 0.0)])
def test_agrees_with_the_quadratic_program(seed, C, epsilon):
    X, _, bags, totals = clouds(seed)
    model = InvCal(C=C, epsilon=epsilon).fit(X, bags=bags, proportions=totals)
    w, b = bag_mean_regression(X, bags, totals.lower[:, 1], C, epsilon)
    np.testing.assert_allclose(model.coef_[0], w, atol=2e-4)

    means = np.array([X[bags == k].mean(axis=0) for k in range(8)])
    p = np.clip(totals.lower[:, 1], 0.01, 0.99)

    def objective(w, b):
        off = np.abs(means @ w + b - np.log(p / (1 - p)))
        return 0.5 * w @ w + C * np.maximum(off - epsilon, 0).sum()

    # With as many bags above as below, any b between two of them is as good.
    assert objective(model.coef_[0], model.intercept_[0]) == pytest.approx(objective(w, b), 1e-5)
    f = X @ w + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), f, atol=1e-3)
    clear = np.abs(f) > 1e-2
    np.testing.assert_array_equal(model.predict(X)[clear], (f > 0)[clear].astype(int))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-f)), atol=1e-3)


def test_is_misled_where_bag_means_point_the_other_way():
    """The toy of the ∝SVM paper in small: every single label comes out wrong."""
    X, y, bags, totals = opposite_clouds()
    assert InvCal().fit(X, bags=bags, proportions=totals).score(X, y) == 0.0


def test_pure_bags_are_clipped_not_infinite():
    X, y, _, _ = clouds(0)
    model = InvCal(C=100.0, clip=0.05).fit(X, bags=y, proportions=np.array([0.0, 1.0]))
    means = np.array([X[y == h].mean(axis=0) for h in range(2)])
    np.testing.assert_allclose(
        model.decision_function(means), np.log([0.05 / 0.95, 0.95 / 0.05]), atol=1e-3
    )


def test_the_automatic_c_is_a_matter_of_no_unit():
    X, _, bags, totals = clouds(1)
    for kernel in ("linear", "rbf"):
        model = InvCal(kernel).fit(X, bags=bags, proportions=totals)
        scaled = InvCal(kernel).fit(1000 * X, bags=bags, proportions=totals)
        np.testing.assert_allclose(
            scaled.predict_proba(1000 * X), model.predict_proba(X), atol=1e-3
        )
    assert (
        pytest.approx(10 / X.var(axis=0).sum()) == InvCal().fit(X, bags=bags, proportions=totals).C_
    )


def test_unknown_bags_are_left_out():
    X, _, bags, totals = clouds(2)
    shares = totals.lower[:, 1].copy()
    shares[3] = np.nan
    some = bags != 3
    whole = InvCal(C=1.0).fit(X, bags=bags, proportions=shares)
    without = InvCal(C=1.0).fit(
        X[some], bags=bags[some], proportions={k: shares[k] for k in range(8) if k != 3}
    )
    np.testing.assert_allclose(whole.coef_, without.coef_, atol=1e-5)


def test_a_class_against_the_rest():
    X, y, bags, _ = clouds(3)
    y = y + 2 * (X[:, 2] > 0.7)
    totals = Totals.from_labels(y, bags)
    model = InvCal(C=1.0).fit(X, bags=bags, proportions=totals)
    for h, label in enumerate(model.classes_):
        two = InvCal(C=1.0).fit(
            X, bags=bags, proportions=Totals.from_labels((y == label).astype(int), bags)
        )
        np.testing.assert_allclose(
            model.decision_function(X)[:, h], two.decision_function(X), atol=1e-4
        )
    np.testing.assert_array_equal(
        model.predict(X), model.classes_[model.decision_function(X).argmax(axis=1)]
    )


@pytest.mark.parametrize("estimator", [InvCal, MeanMap, PropSVM])
def test_a_class_known_alone_is_learned_from(estimator):
    """Of some bags only one class's total is known: they still tell that class from the rest."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = rng.normal(size=(300, 3)) + 3 * np.eye(3)[y]
    bags = np.arange(300) % 15
    shares = Totals.from_labels(y, bags).lower.copy()
    shares[:, 1:] = np.nan
    model = estimator(random_state=0).fit(X, bags=bags, proportions=shares)
    if estimator is not MeanMap:
        first = model.decision_function(X)[:, 0] > 0
        assert ((y == 0) == first).mean() > 0.8
    assert np.isfinite(model.label_distributions_).all()


def test_a_labeled_row_is_a_bag_of_its_own():
    y = np.array([None, "a", None, "b", None, None], dtype=object)
    bags = [0, 0, 0, None, 1, 1]
    matched = match_bags(6, y, bags, {0: {"a": 2 / 3, "b": 1 / 3}, 1: {"a": None, "b": None}})
    known = known_bags(matched)
    np.testing.assert_array_equal(known.groups.codes, [0, 1, 0, 2, -1, -1])
    np.testing.assert_allclose(known.shares, [[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(known.certainty, 1.0)
    np.testing.assert_allclose(known.weights, [2.0, 1.0, 1.0])
    np.testing.assert_allclose((known.groups.averages() @ np.arange(6.0)), [1.0, 1.0, 3.0])
