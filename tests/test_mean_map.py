"""MeanMap against logistic regression, which it is where all labels are known."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from apportion import BagDesignWarning, MeanMap, Totals
from apportion.estimators._inductive import known_bags
from apportion.estimators.mean_map import class_means, default_c
from apportion.supervision.bags import match_bags
from test_inv_cal import clouds


def three(seed, n=90):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return rng.normal(size=(n, 4)) + 1.3 * np.eye(3, 4)[y], y


def test_with_all_labels_it_is_logistic_regression():
    X, y = three(0)
    ours = MeanMap(C=0.7, ridge=0.0).fit(X, y)
    theirs = LogisticRegression(C=0.7, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    two = y > 0
    ours = MeanMap(C=0.7, ridge=0.0).fit(X, two)
    # Two rows of θ, each half as long as the one that scikit-learn has for two classes.
    theirs = LogisticRegression(C=1.4, tol=1e-10, max_iter=10_000).fit(X, two)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


def test_a_linear_kernel_by_another_name_is_the_linear_one():
    X, y = three(1)
    bags = np.arange(90) % 9
    totals = Totals.from_labels(y, bags)
    linear = MeanMap(C=0.5).fit(X, bags=bags, proportions=totals)
    poly = MeanMap("poly", C=0.5, degree=1, gamma=1.0).fit(X, bags=bags, proportions=totals)
    np.testing.assert_allclose(poly.predict_proba(X), linear.predict_proba(X), atol=1e-5)


def test_class_means_are_the_normal_equations_bag_by_bag():
    X, y = three(2)
    bags = np.sort(np.arange(90) % 7)
    known = known_bags(match_bags(90, None, bags, Totals.from_labels(y, bags)))
    A = np.array([[(y[bags == k] == h).mean() for h in range(3)] for k in range(7)])
    m = np.array([X[bags == k].mean(axis=0) for k in range(7)])
    n = np.bincount(bags)
    center = X.mean(axis=0)
    left, right = 0.5 * np.eye(3), np.zeros((3, 4))
    for k in range(7):
        left += n[k] * np.outer(A[k], A[k])
        right += n[k] * np.outer(A[k], m[k] - center)
    np.testing.assert_allclose(class_means(X, known, 0.5), center + np.linalg.solve(left, right))


def test_exact_mixtures_give_back_the_class_means():
    """Where every bag's mean is exactly the mixture, a small ridge finds the class means."""
    centers = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    y = np.array([0, 0, 1, 2, 0, 1, 1, 2, 0, 1, 2, 2])
    bags = np.repeat([0, 1, 2], 4)
    X = centers[y]
    known = known_bags(match_bags(12, None, bags, Totals.from_labels(y, bags)))
    np.testing.assert_allclose(class_means(X, known, 1e-9), centers, atol=1e-6)


def test_collinear_bags_fall_back_to_the_overall_mean():
    X, _ = three(3)
    with pytest.warns(BagDesignWarning):
        model = MeanMap().fit(X, bags=np.arange(90) % 3, proportions=np.full((3, 3), 1 / 3))
    np.testing.assert_allclose(model.class_means_, np.tile(X.mean(axis=0), (3, 1)), atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X), 1 / 3, atol=1e-6)


def test_fewer_bags_than_classes_never_explode():
    X, y = three(4)
    bags = np.arange(90) % 2
    model = MeanMap(ridge=0.0).fit(X, bags=bags, proportions=Totals.from_labels(y, bags))
    assert np.isfinite(model.class_means_).all()
    assert np.abs(model.class_means_).max() < 10 * np.abs(X).max()


def test_the_automatic_c_grows_with_what_is_known():
    X, y, bags, totals = clouds(0)
    mixed = known_bags(match_bags(80, None, bags, totals))
    single = known_bags(match_bags(80, y))
    variance = X.var(axis=0).sum()
    assert default_c(X, single) == pytest.approx(80 / (0.3 * variance * 80))
    assert default_c(X, mixed) < default_c(X, single)
    for kernel in ("linear", "rbf"):
        plain = MeanMap(kernel).fit(X, bags=bags, proportions=totals)
        scaled = MeanMap(kernel).fit(100 * X, bags=bags, proportions=totals)
        np.testing.assert_allclose(scaled.predict_proba(100 * X), plain.predict_proba(X), atol=1e-5)


def test_too_few_iterations_are_reported():
    X, _, bags, totals = clouds(1)
    with pytest.warns(ConvergenceWarning, match="within 1 iterations"):
        MeanMap(max_iter=1).fit(X, bags=bags, proportions=totals)
