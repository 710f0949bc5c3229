"""The likelihood of counts against enumeration, and the logistic regression by it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from apportion import BagDesignWarning, CountLogistic, MeanMap, Totals
from apportion._core.count_likelihood import CountLikelihood, count_posterior
from apportion._utils.groups import Groups
from apportion.estimators._inductive import known_bags
from apportion.estimators.count_logistic import SeveralClassCounts, class_counts
from apportion.supervision.bags import match_bags
from reference import posterior_given_count
from test_mean_map import three


def some_bags(seed, n=60, n_bags=9, scale=3.0):
    rng = np.random.default_rng(seed)
    groups = Groups(rng.integers(-1, n_bags, n), n_bags)
    counts = np.floor(rng.random(n_bags) * (groups.sizes + 1.0))
    return groups, counts, scale * rng.normal(size=n)


@given(logits=st.lists(st.floats(-1000, 1000), min_size=1, max_size=7), data=st.data())
@settings(max_examples=30)
def test_it_is_the_sum_over_all_labelings(logits, data):
    """In logarithms, so that no extreme logit is too much for the enumeration."""
    count = data.draw(st.integers(0, len(logits)))
    log_probability, posterior = posterior_given_count(np.array(logits), count)
    groups = Groups(np.zeros(len(logits), dtype=np.intp), 1)
    fit = CountLikelihood(groups, np.array([float(count)]))(np.array(logits))
    np.testing.assert_allclose(fit.log_likelihood, log_probability, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(fit.gradient, posterior - expit(np.array(logits)), atol=1e-9)


def test_all_bags_at_once_are_convolutions_bag_by_bag():
    groups, counts, logits = some_bags(0, n=300)
    fit = CountLikelihood(groups, counts)(logits)
    for k in range(groups.n_groups):
        pmf = np.ones(1)
        for p in expit(logits[groups.codes == k]):
            pmf = np.convolve(pmf, [1.0 - p, p])
        assert fit.log_likelihood[k] == pytest.approx(np.log(pmf[int(counts[k])]), abs=1e-8)
    assert (fit.gradient[groups.codes < 0] == 0).all()


@pytest.mark.parametrize("exact_rows", [64, 3])
@pytest.mark.parametrize("part", [0.0, 0.3])
def test_the_gradient_is_that_of_finite_differences(exact_rows, part):
    groups, counts, logits = some_bags(1)
    counts = np.clip(counts - part, 0.0, None)
    likelihood = CountLikelihood(groups, counts, exact_rows=exact_rows, between=0.05)
    steps = 1e-5 * np.eye(len(logits))
    differences = [
        (likelihood(logits + h).log_likelihood - likelihood(logits - h).log_likelihood).sum() / 2e-5
        for h in steps
    ]
    np.testing.assert_allclose(likelihood(logits).gradient, differences, atol=1e-7)


def test_large_bags_are_nearly_exact():
    groups, counts, logits = some_bags(2, n=500, n_bags=4, scale=1.0)
    counts = np.round(groups.sum(expit(logits))) + np.array([0.0, 4.0, -4.0, 8.0])
    exact = CountLikelihood(groups, counts, exact_rows=1000)(logits)
    normal = CountLikelihood(groups, counts, exact_rows=1)(logits)
    np.testing.assert_allclose(normal.log_likelihood, exact.log_likelihood, atol=0.05)
    np.testing.assert_allclose(normal.gradient, exact.gradient, atol=0.02)
    p = expit(logits)
    near = count_posterior(p, groups, counts, exact_rows=1)
    np.testing.assert_allclose(near, count_posterior(p, groups, counts), atol=0.01)


@given(seed=st.integers(0, 1000), scale=st.sampled_from([0.1, 3.0, 100.0]))
@settings(max_examples=20)
def test_posteriors_sum_to_the_counts(seed, scale):
    groups, counts, logits = some_bags(seed, scale=scale)
    p = expit(logits)
    for exact_rows in (64, 5):
        posterior = count_posterior(p, groups, counts, exact_rows=exact_rows)
        np.testing.assert_allclose(groups.sum(posterior), counts, atol=1e-8)
        np.testing.assert_array_equal(posterior[groups.codes < 0], p[groups.codes < 0])
        assert ((posterior >= 0) & (posterior <= 1)).all()


@pytest.mark.parametrize("n_bags", [3, 30])
def test_the_gradient_for_several_classes_is_that_of_finite_differences(n_bags):
    X, y = three(0)
    bags = np.random.default_rng(0).integers(0, n_bags, 90)
    loss = class_counts(known_bags(match_bags(90, None, bags, Totals.from_labels(y, bags))), 0.01)
    gradient = loss(X[:, :3])[1]
    for i, h in [(0, 0), (5, 1), (17, 2), (80, 1)]:
        step = np.zeros((90, 3))
        step[i, h] = 1e-5
        difference = (loss(X[:, :3] + step)[0] - loss(X[:, :3] - step)[0]) / 2e-5
        assert gradient[i, h] == pytest.approx(difference, abs=1e-6)


def test_one_row_per_bag_is_logistic_regression():
    X, y = three(0)
    for labels, C in ((y, 0.7), (y > 0, 1.4)):
        theirs = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(X, labels)
        totals = Totals.from_labels(labels, np.arange(90))
        for known in ({"y": labels}, {"bags": np.arange(90), "proportions": totals}):
            ours = CountLogistic(C=0.7).fit(X, **known)
            # Two rows of θ, each half as long as the one that scikit-learn has for two classes.
            np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


def test_two_classes_are_two_of_several():
    """The scaled sum over classes, each against the rest, is the one count of two classes."""
    X, y = three(1)
    bags = np.arange(90) % 9
    known = known_bags(match_bags(90, None, bags, Totals.from_labels(y > 0, bags)))
    value, gradient = class_counts(known, 0.01)(X[:, :1])
    counts = known.shares * known.groups.sizes[:, None]
    both = SeveralClassCounts(known.groups, counts, known.certainty, 0.01)
    logits = np.hstack([np.zeros((90, 1)), X[:, :1]])
    assert both(logits)[0] == pytest.approx(value)
    np.testing.assert_allclose(both(logits)[1][:, 1:], gradient, atol=1e-12)


@pytest.mark.parametrize("c", [2, 3])
def test_a_bag_counts_by_its_certainty(c):
    X, y = three(2)
    bags = np.arange(90) % 9
    known = known_bags(match_bags(90, None, bags, Totals.from_labels(y % c, bags)))
    certainty = np.tile(np.linspace(0.1, 1.0, 9)[:, None], (1, c))
    logits = X[:, : 1 if c == 2 else c]
    value, gradient = class_counts(replace(known, certainty=certainty), 0.01)(logits)
    by_row = class_counts(known, 0.01)(logits)[1]
    np.testing.assert_allclose(gradient, certainty[bags, :1] * by_row)
    alone = [np.tile(np.eye(9)[:, [k]], (1, c)) for k in range(9)]
    parts = [class_counts(replace(known, certainty=only), 0.01)(logits)[0] for only in alone]
    assert value == pytest.approx(certainty[:, 0] @ parts)


def test_bags_that_depend_on_the_features_do_not_mislead():
    """A class looks different in every bag, so that its mean over bags means nothing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2)) * [3.0, 1.0]
    y = rng.random(2000) < expit(1.5 * X[:, 1] + 0.1 * X[:, 0] ** 2 - 1.0)
    bags = np.clip(np.floor(2 * X[:, 0] + X[:, 1]), -8, 8).astype(int)
    known = {"bags": bags, "proportions": Totals.from_labels(y, bags)}
    Z = np.column_stack([X, X[:, 0] ** 2])
    ours = CountLogistic().fit(Z, **known).predict(Z)
    assert np.mean(ours == y) > np.mean(MeanMap().fit(Z, **known).predict(Z) == y) + 0.02


def test_equal_bags_say_nothing():
    X, _ = three(3)
    with pytest.warns(BagDesignWarning):
        model = CountLogistic().fit(X, bags=np.arange(90) % 3, proportions=np.full((3, 3), 1 / 3))
    np.testing.assert_allclose(model.predict_proba(X), 1 / 3, atol=1e-6)


@pytest.mark.parametrize("c", [2, 3])
def test_the_order_of_rows_bags_and_classes_does_not_matter(c):
    X, y = three(4)
    y, bags = y % c, np.arange(90) % 11
    model = CountLogistic().fit(X, bags=bags, proportions=Totals.from_labels(y, bags))
    order = np.random.default_rng(0).permutation(90)
    names = np.random.default_rng(1).permutation(11)[bags]
    turned = CountLogistic().fit(
        X[order], bags=names[order], proportions=Totals.from_labels(c - 1 - y[order], names[order])
    )
    expected = model.predict_proba(X)[:, ::-1]
    np.testing.assert_allclose(turned.predict_proba(X), expected, atol=1e-5)


def test_unknown_totals_and_rows_in_no_bag_say_nothing():
    X, y = three(5)
    bags = np.arange(90) % 10
    known = bags < 8
    shares = np.array([[(y[bags == k] == h).mean() for h in range(3)] for k in range(10)])
    shares[8:] = np.nan
    fewer = Totals.from_proportions(shares)
    C = 0.5
    whole = CountLogistic(C=C).fit(X, bags=bags, proportions=fewer)
    part = CountLogistic(C=C).fit(
        X[known], bags=bags[known], proportions=Totals.from_labels(y[known], bags[known])
    )
    np.testing.assert_allclose(whole.predict_proba(X), part.predict_proba(X), atol=1e-4)


def test_the_unit_of_the_features_does_not_matter():
    X, y = three(6)
    bags = np.arange(90) % 15
    totals = Totals.from_labels(y, bags)
    for kernel in ("linear", "rbf"):
        plain = CountLogistic(kernel).fit(X, bags=bags, proportions=totals)
        scaled = CountLogistic(kernel).fit(100 * X, bags=bags, proportions=totals)
        np.testing.assert_allclose(scaled.predict_proba(100 * X), plain.predict_proba(X), atol=1e-4)


def test_too_few_iterations_are_reported():
    X, y = three(7)
    bags = np.arange(90) % 15
    with pytest.warns(ConvergenceWarning, match="within 1 iterations"):
        CountLogistic(max_iter=1).fit(X, bags=bags, proportions=Totals.from_labels(y, bags))
