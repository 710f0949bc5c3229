"""LaplacianMeanMap against a literal least-squares problem, and between its two limits."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from apportion import BagDesignWarning, LaplacianMeanMap, MeanMap, Totals
from apportion.estimators import laplacian_mean_map
from apportion.estimators._inductive import known_bags
from apportion.estimators.laplacian_mean_map import bag_ties, smooth_class_means
from apportion.estimators.mean_map import class_means
from apportion.supervision.bags import match_bags
from reference import tied_class_means


def drifting(seed, n=120, n_bags=12, c=3):
    """Classes whose means move along with their bags."""
    rng = np.random.default_rng(seed)
    bags = np.arange(n) % n_bags
    chances = rng.dirichlet(np.ones(c), n_bags)
    y = np.array([rng.choice(c, p=chances[k]) for k in bags])
    centers = rng.normal(size=(n_bags, 4))
    X = 2.0 * np.eye(c, 4)[y] + centers[bags] + 0.3 * rng.normal(size=(n, 4))
    return X, y, bags, Totals.from_labels(y, bags)


def known(X, bags, totals):
    return known_bags(match_bags(len(X), None, bags, totals))


@pytest.mark.parametrize("smoothing", [1e-3, 1.0, 100.0, 1e6])
@pytest.mark.parametrize("ridge", [0.01, 1.0])
@pytest.mark.parametrize("cells", [2**21, 1])
def test_class_means_are_the_literal_least_squares(smoothing, ridge, cells, monkeypatch):
    monkeypatch.setattr(laplacian_mean_map, "_BLOCK_CELLS", cells)
    X, y, bags, _ = drifting(0)
    kept = np.random.default_rng(0).random(120) < 0.6  # bags of different sizes
    X, bags = X[kept], bags[kept]
    found = known(X, bags, Totals.from_labels(y[kept], bags))
    means = found.groups.averages() @ X
    ties = bag_ties(means, 4)
    literal = tied_class_means(
        means, found.shares, found.weights, ties.toarray(), smoothing, ridge
    )[:-1]
    mass = found.groups.sizes[:, None] * found.shares
    expected = np.einsum("kh,khd->hd", mass, literal) / mass.sum(axis=0)[:, None]
    ours = smooth_class_means(X, found, ties, ridge, smoothing, 5000)
    assert ours.converged
    np.testing.assert_allclose(ours.means, expected, atol=1e-7)


@pytest.mark.parametrize("smoothing", [1e-6, 1.0, 1e6])
def test_few_steps_are_needed_however_strong_the_ties(smoothing):
    X, _, bags, totals = drifting(10, n=4000, n_bags=400)
    found = known(X, bags, totals)
    ties = bag_ties(found.groups.averages() @ X, 2)
    assert smooth_class_means(X, found, ties, 1.0, smoothing, 5000).n_iter < 60


def test_ties_are_symmetric_and_reach_every_bag():
    rng = np.random.default_rng(1)
    ties = bag_ties(np.concatenate([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 1e6]), 3)
    np.testing.assert_allclose(ties.toarray(), ties.toarray().T)
    assert ties[:-1, :-1].sum() == pytest.approx(40)
    assert (ties[[-1]].toarray()[0, :-1] == 0.1).all()
    assert bag_ties(np.zeros((1, 2)), 3).toarray().tolist() == [[0.0, 0.1], [0.1, 0.0]]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_with_strong_ties_it_is_mean_map(kernel):
    X, _, bags, totals = drifting(2)
    stiff = LaplacianMeanMap(kernel, smoothing=1e12).fit(X, bags=bags, proportions=totals)
    plain = MeanMap(kernel).fit(X, bags=bags, proportions=totals)
    np.testing.assert_allclose(stiff.class_means_, plain.class_means_, atol=1e-7)
    np.testing.assert_allclose(stiff.predict_proba(X), plain.predict_proba(X), atol=1e-5)
    loose = LaplacianMeanMap(kernel, smoothing=1.0).fit(X, bags=bags, proportions=totals)
    assert np.abs(loose.class_means_ - plain.class_means_).max() > 1e-3


def test_one_bag_of_all_rows_is_mean_map():
    X, y, _, _ = drifting(3)
    totals = Totals.from_labels(y, np.zeros(120, dtype=int))
    with pytest.warns(BagDesignWarning):
        ours = LaplacianMeanMap().fit(X, bags=np.zeros(120, dtype=int), proportions=totals)
    np.testing.assert_allclose(ours.class_means_, np.tile(X.mean(axis=0), (3, 1)), atol=1e-9)


def test_a_bag_per_row_is_nearly_logistic_regression():
    X, y, _, _ = drifting(4)
    theirs = LogisticRegression(C=0.7, tol=1e-10, max_iter=10_000).fit(X, y)
    totals = Totals.from_labels(y, np.arange(120))
    for fitted in (
        LaplacianMeanMap(C=0.7, ridge=0.0, smoothing=1e-4).fit(X, y),
        LaplacianMeanMap(C=0.7, ridge=0.0, smoothing=1e-4).fit(
            X, bags=np.arange(120), proportions=totals
        ),
    ):
        np.testing.assert_allclose(fitted.predict_proba(X), theirs.predict_proba(X), atol=2e-3)


def test_class_means_follow_bags_that_move():
    """MeanMap takes the drift of the bags for a difference of the classes."""
    rng = np.random.default_rng(5)
    bags = np.repeat(np.arange(40), 30)
    place = np.linspace(-4, 4, 40)
    y = (rng.random(1200) < (0.5 + 0.4 * np.sin(7 * place))[bags]).astype(int)
    X = np.column_stack([place[bags] + rng.normal(size=1200), y + 0.3 * rng.normal(size=1200)])
    true = np.array([X[y == h].mean(axis=0) for h in (0, 1)])
    found = known(X, bags, Totals.from_labels(y, bags))
    ties = bag_ties(found.groups.averages() @ X, 10)
    smooth = smooth_class_means(X, found, ties, 1.0, 10.0, 5000).means
    assert np.abs(smooth - true).max() < np.abs(class_means(X, found, 1.0) - true).max()


def test_a_class_in_no_bag_takes_the_common_mean():
    X, y, bags, _ = drifting(6)
    shares = np.column_stack([np.bincount(bags, y == 0) / 10, np.bincount(bags, y != 0) / 10])
    shares = np.column_stack([shares, np.zeros(12)])
    model = LaplacianMeanMap().fit(X, bags=bags, proportions=shares)
    assert np.isfinite(model.class_means_).all()
    assert np.isfinite(model.predict_proba(X)).all()


def test_a_bag_of_which_nothing_is_known_is_left_out():
    X, y, bags, _ = drifting(7)
    shares = np.column_stack([np.bincount(bags, y == h) / 10 for h in range(3)])
    least, most = shares.copy(), shares.copy()
    least[0], most[0] = 0.0, 1.0
    wide = Totals.from_intervals(least, most, unit="share")
    some = np.where(bags == 0, np.nan, bags)
    others = {k: {h: shares[k, h] for h in range(3)} for k in range(1, 12)}
    ours = LaplacianMeanMap().fit(X, bags=bags, proportions=wide)
    without = LaplacianMeanMap().fit(X, bags=some, proportions=others)
    np.testing.assert_allclose(ours.class_means_, without.class_means_, atol=1e-7)
    narrow = Totals.from_intervals(
        np.where((np.arange(12) == 0)[:, None], 0.8 * shares, shares),
        np.where((np.arange(12) == 0)[:, None], np.minimum(1.2 * shares, 1), shares),
        unit="share",
    )
    between = LaplacianMeanMap().fit(X, bags=bags, proportions=narrow).class_means_
    exact = LaplacianMeanMap().fit(X, bags=bags, proportions=shares).class_means_
    assert 0 < np.abs(between - exact).max() < np.abs(without.class_means_ - exact).max()


def test_too_few_iterations_are_reported():
    X, _, bags, totals = drifting(8)
    with pytest.warns(ConvergenceWarning) as caught:
        LaplacianMeanMap(max_iter=1).fit(X, bags=bags, proportions=totals)
    said = " ".join(str(one.message) for one in caught)
    assert "LaplacianMeanMap's smoothing of class means did not converge within 1" in said
    assert "LaplacianMeanMap's logistic regression did not converge within 1" in said


def test_collinear_bags_without_a_ridge_stay_finite():
    X, y, _, _ = drifting(9)
    bags = np.arange(120) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BagDesignWarning)
        model = LaplacianMeanMap(ridge=0.0).fit(
            X, bags=bags, proportions=Totals.from_labels(y, bags)
        )
    assert np.abs(model.class_means_).max() < 10 * np.abs(X).max()
