"""AggregateGP against Gaussian process regression with n × n matrices."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from sklearn.kernel_ridge import KernelRidge

from apportion import AggregateGP, Totals
from apportion._utils.groups import Groups
from apportion.estimators import _aggregate_regression as regression
from apportion.estimators import _feature_maps as maps
from apportion.estimators import _kernels as kernels
from apportion.estimators import aggregate_gp as module
from apportion.estimators._feature_maps import LandmarkMap, Standardization, TreeMap
from apportion.estimators._kernels import Kernel
from reference import aggregate_regression, averaged_regression, centered_kernel

SHARES = regression._SHARES


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def clouds(seed=0, n=90, n_bags=12, c=3):
    """Rows of classes in bags of different sizes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, n)
    X = rng.normal(size=(n, 4)) + 1.5 * np.eye(4)[y]
    bags = np.append(np.arange(n_bags), rng.integers(0, n_bags, n - n_bags))
    return X, y, bags, Totals.from_labels(y, bags)


def counts_of(y, bags):
    return np.array([np.bincount(y[bags == k], minlength=y.max() + 1) for k in np.unique(bags)])


def standardized(X):
    return np.clip((X - X.mean(axis=0)) / X.std(axis=0), -3, 3)


def literal_kernels(X):
    """The kernels of distances and the linear one, by their formulas."""
    Z = standardized(X)
    D, typical = cdist(Z, Z), np.median(pdist(Z))
    return {
        "linear": [Z @ Z.T],
        "rbf": [np.exp(-g * (D / typical) ** 2) for g in (0.25, 1, 4, 16)],
        "laplacian": [np.exp(-g * D / typical) for g in (1, 4)],
    }


@pytest.mark.parametrize("c", [2, 3])
@pytest.mark.parametrize("n_bags", [3, 12, 60])
@pytest.mark.parametrize("names", ["linear", "rbf", "laplacian", ("laplacian", "linear", "rbf")])
def test_agrees_with_dense_regression(names, n_bags, c):
    X, y, bags, totals = clouds(1, n_bags=n_bags, c=c)
    model = AggregateGP(names).fit(X, bags=bags, proportions=totals)
    order = ("linear", "rbf", "laplacian") if isinstance(names, tuple) else (names,)
    literal = [K for name in order for K in literal_kernels(X)[name]]
    P, weights, evidence = averaged_regression(literal, bags, counts_of(y, bags), SHARES, 0.5)
    np.testing.assert_allclose(list(model.kernel_weights_.values()), weights, rtol=1e-4)
    assert model.log_evidence_ == pytest.approx(evidence, abs=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), P, atol=2e-3)  # without tiny weights


@pytest.mark.parametrize("theta", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("leaf_size", [5, 20])
def test_trees_agree_with_dense_regression(monkeypatch, theta, leaf_size):
    X, y, bags, totals = clouds(2)
    monkeypatch.setattr(regression, "_SHARES", np.array([theta]))
    monkeypatch.setattr(maps, "_LEAF_SIZES", (leaf_size,))
    model = AggregateGP("trees", n_estimators=20, random_state=0)
    model.fit(X, bags=bags, proportions=totals)
    trees = model._terms[0][1].features
    leaves = trees.forest.apply(standardized(X)[:, trees.columns])
    K = (leaves[:, None] == leaves[None]).mean(axis=2)
    counts = counts_of(y, bags)
    mean, evidence = aggregate_regression(centered_kernel(K), bags, counts, theta)
    null = aggregate_regression(np.eye(len(X)), bags, counts, 0.0)[1]
    assert model.log_evidence_ == pytest.approx(evidence - null, abs=1e-6)
    P = np.maximum(mean, 1e-3)
    np.testing.assert_allclose(model.predict_proba(X), P / P.sum(axis=1, keepdims=True), atol=1e-8)


def test_one_row_per_bag_is_regression_of_labels(monkeypatch):
    X, y, _, _ = clouds(3, c=2)
    monkeypatch.setattr(regression, "_SHARES", np.array([0.3]))
    model = AggregateGP("linear").fit(X, y)
    K, share = centered_kernel(literal_kernels(X)["linear"][0]), y.mean()
    ridge = KernelRidge(alpha=0.7 / 0.3, kernel="precomputed").fit(K, y - share)
    P = np.clip(share + ridge.predict(K), 1e-3, None)
    inside = (P > 1e-3) & (P < 1 - 1e-3)
    np.testing.assert_allclose(model.predict_proba(X)[inside, 1], P[inside], atol=1e-8)
    in_bags = AggregateGP("linear").fit(X, bags=np.arange(90), proportions=y.astype(float))
    np.testing.assert_allclose(in_bags.predict_proba(X), model.predict_proba(X), atol=1e-10)


@pytest.mark.parametrize("n_bags", [3, 12, 40])
@pytest.mark.parametrize("name", ["linear", "rbf", "laplacian"])
def test_both_forms_of_the_spectrum_agree(name, n_bags):
    X, _, bags, totals = clouds(4, n_bags=n_bags)
    groups = Groups(bags, n_bags)
    residuals = regression.centered_totals(
        groups.sizes, totals.lower, np.ones(totals.lower.shape), np.full(3, 1 / 3)
    )
    Z = standardized(X)
    (features, *_) = maps.feature_maps(
        Z, (name,), max_rank=20, max_directions=np.inf, n_estimators=1, seed=0
    ).values()
    sums = regression.bag_sums(maps.MappedRows(features, Z), groups)
    by_bags = regression.spectrum_of_bags(sums, groups.sizes, residuals)
    by_features = regression.spectrum_of_features(sums, groups.sizes, residuals)
    np.testing.assert_allclose(
        regression.log_evidences(by_bags, residuals, SHARES),
        regression.log_evidences(by_features, residuals, SHARES),
        atol=1e-8,
    )

    def weights(spectrum):
        return spectrum.weights_of(spectrum.coordinates / (1 + spectrum.eigenvalues[:, None]))

    np.testing.assert_allclose(weights(by_bags), weights(by_features), atol=1e-7)


def test_many_bags_and_features_are_replaced_by_landmarks(monkeypatch):
    """With all rows as landmarks, the kernels of trees and of many features stay exact."""
    X, _, bags, totals = clouds(5, n_bags=30)
    settings = {"n_estimators": 20, "random_state": 0}
    for name in ("linear", "trees"):
        exact = AggregateGP(name, **settings).fit(X, bags=bags, proportions=totals)
        with monkeypatch.context() as patch:
            patch.setattr(module, "_MAX_DIRECTIONS", 3)
            model = AggregateGP(name, **settings).fit(X, bags=bags, proportions=totals)
        assert model.log_evidence_ == pytest.approx(exact.log_evidence_, abs=1e-4)
        np.testing.assert_allclose(model.predict_proba(X), exact.predict_proba(X), atol=1e-5)


def test_blocks_are_sums_over_all_rows(monkeypatch):
    X, _, bags, totals = clouds(6)
    whole = AggregateGP(n_estimators=10, random_state=0).fit(X, bags=bags, proportions=totals)
    monkeypatch.setattr(kernels, "_BLOCK_BYTES", 8 * 90 * 7)
    model = AggregateGP(n_estimators=10, random_state=0).fit(X, bags=bags, proportions=totals)
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), atol=1e-7)


@pytest.mark.parametrize("kernel", [Kernel("rbf", 0.02), Kernel("rbf", 5.0), Kernel("laplacian")])
def test_landmark_features_are_exact_for_the_landmarks(kernel):
    X = np.random.default_rng(0).normal(size=(60, 3))
    X = np.concatenate([X, X[:5]])
    features = LandmarkMap.of(kernel, X)
    assert features.cells <= 60
    Z = features.finish(features.raw(X))
    np.testing.assert_allclose(Z @ Z.T, kernel(X, X), atol=1e-5)
    errors = []
    for rank in (5, 20, 60):
        few = LandmarkMap.of(kernel, X[:rank])
        Z = few.finish(few.raw(X))
        errors.append(np.abs(kernel(X, X) - Z @ Z.T).sum())
    assert errors == sorted(errors, reverse=True)


def test_the_rank_is_bounded():
    X, _, bags, totals = clouds(7)
    model = AggregateGP("laplacian", max_rank=10).fit(X, bags=bags, proportions=totals)
    assert all(len(f.rows) <= 10 for _, f in model._terms)
    exact = AggregateGP("laplacian", max_rank=90).fit(X, bags=bags, proportions=totals)
    default = AggregateGP("laplacian").fit(X, bags=bags, proportions=totals)
    np.testing.assert_array_equal(default.predict_proba(X), exact.predict_proba(X))
    one = AggregateGP("rbf", max_rank=1).fit(X, bags=bags, proportions=totals)
    assert np.isfinite(one.predict_proba(X)).all()


def test_what_landmarks_leave_out_is_noise(monkeypatch):
    X, y, bags, totals = clouds(7)
    monkeypatch.setattr(regression, "_SHARES", np.array([0.6]))
    monkeypatch.setattr(maps, "_LAPLACIAN_SCALES", (1.0,))
    model = AggregateGP("laplacian", max_rank=10).fit(X, bags=bags, proportions=totals)
    rows, kernel = model._terms[0][1].rows, model._terms[0][1].kernel
    Z = standardized(X)
    near = kernel(Z, rows)
    K = near @ np.linalg.inv(kernel(rows, rows)) @ near.T
    share = 0.6 * (np.trace(K) / 90 - K.mean()) / (1 - K.mean())
    mean, evidence = aggregate_regression(centered_kernel(K), bags, counts_of(y, bags), share)
    null = aggregate_regression(np.eye(90), bags, counts_of(y, bags), 0.0)[1]
    assert model.explained_share_ == pytest.approx(share)
    assert model.log_evidence_ == pytest.approx(evidence - null, abs=1e-5)
    P = np.maximum(mean, 1e-3)
    np.testing.assert_allclose(model.predict_proba(X), P / P.sum(axis=1, keepdims=True), atol=1e-6)


def test_units_and_offsets_do_not_matter():
    X, _, bags, totals = clouds(8)
    other = X * [1e-6, 1.0, 1e3, 40.0] + [0.0, 1e6, 5.0, -3.0]
    model = AggregateGP(n_estimators=20, random_state=0).fit(X, bags=bags, proportions=totals)
    moved = AggregateGP(n_estimators=20, random_state=0).fit(other, bags=bags, proportions=totals)
    np.testing.assert_allclose(moved.predict_proba(other), model.predict_proba(X), atol=1e-4)


def test_permuting_rows_bags_and_classes_permutes_the_probabilities():
    X, y, bags, totals = clouds(9)
    rng = np.random.default_rng(0)
    rows, renamed, classes = rng.permutation(90), rng.permutation(12), np.array([2, 0, 1])
    model = AggregateGP(n_estimators=10, random_state=0).fit(X, bags=bags, proportions=totals)
    other = AggregateGP(n_estimators=10, random_state=0).fit(
        X[rows], bags=renamed[bags[rows]], proportions=Totals.from_labels(classes[y], renamed[bags])
    )
    np.testing.assert_allclose(
        other.predict_proba(X)[:, classes], model.predict_proba(X), atol=1e-8
    )
    assert other.log_evidence_ == pytest.approx(model.log_evidence_)


def test_fitted_rows_are_like_new_rows():
    X, _, bags, totals = clouds(10)
    model = AggregateGP(n_estimators=10, random_state=0).fit(X, bags=bags, proportions=totals)
    singly = np.concatenate([model.predict_proba(X[[i]]) for i in range(5)])
    np.testing.assert_allclose(singly, model.predict_proba(X)[:5], atol=1e-7)
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.predict_proba(X), model.predict_proba(X))


def test_rows_of_which_nothing_is_known_only_say_what_rows_look_like():
    X, _, bags, totals = clouds(11)
    some = bags != 3
    shares = totals.lower.copy()
    shares[3] = np.nan
    known = {k: shares[k] for k in range(12) if k != 3}
    model = AggregateGP(n_estimators=10, random_state=0)
    unknown = model.fit(X, bags=bags, proportions=shares).predict_proba(X)
    in_no_bag = np.where(some, bags, -1).astype(object)
    in_no_bag[~some] = None
    outside = model.fit(X, bags=in_no_bag, proportions=known).predict_proba(X)
    np.testing.assert_allclose(outside, unknown, atol=1e-8)
    # They are standardized with the others, and may be landmarks, but have no totals.
    without = model.fit(X[some], bags=bags[some], proportions=known).predict_proba(X)
    assert (outside.argmax(axis=1) == without.argmax(axis=1)).mean() > 0.95


def test_wide_intervals_say_little():
    sizes, shares = np.array([10.0, 10.0]), np.array([[0.9, 0.1], [0.1, 0.9]])
    certainty = np.array([[1.0, 1.0], [0.4, 0.4]])
    totals = regression.centered_totals(sizes, shares, certainty, np.array([0.5, 0.5]))
    # Two intervals of width 6, of variance 3 each, over a variance of labels of 1/4 each.
    np.testing.assert_allclose(totals.noise, [10.0, 10.0 + 2 * 3.0 / 0.5])
    np.testing.assert_allclose(totals.residuals[0], [4.0 / np.sqrt(2.5), -4.0 / np.sqrt(2.5)])
    assert abs(totals.residuals[1, 0]) < abs(totals.residuals[0, 0])


def test_noise_explains_nothing_and_signal_much():
    rng = np.random.default_rng(0)
    X, bags = rng.normal(size=(800, 3)), np.arange(800) // 8
    signal = (X[:, 0] > 0).astype(int)
    share = {}
    for name, y in {"signal": signal, "noise": rng.permutation(signal)}.items():
        model = AggregateGP(("linear", "rbf")).fit(
            X, bags=bags, proportions=Totals.from_labels(y, bags)
        )
        share[name] = model.explained_share_
        assert (model.log_evidence_ > 1) == (name == "signal")
    assert share["noise"] < 0.2 < 0.5 < share["signal"]


def test_the_evidence_knows_a_line_from_a_circle():
    rng = np.random.default_rng(1)
    X, bags = rng.normal(size=(900, 2)), np.arange(900) // 6
    linear = rng.uniform(size=900) < 0.5 + 0.25 * X[:, 0]
    circle = (X**2).sum(axis=1) > 1.4
    weight = {}
    for name, y in {"linear": linear.astype(int), "circle": circle.astype(int)}.items():
        model = AggregateGP(("linear", "rbf"))
        model.fit(X, bags=bags, proportions=Totals.from_labels(y, bags))
        weight[name] = model.kernel_weights_["linear"]
    assert weight["circle"] < 0.001 < 0.3 < weight["linear"]
    assert model.score(X, y) > 0.85


@pytest.mark.parametrize("proportions", [[0.3, 0.7], [0.0, 1.0], [1.0, 1.0]])
def test_equal_rows_have_the_overall_shares(proportions):
    model = AggregateGP(n_estimators=5).fit(
        np.ones((20, 2)), bags=np.arange(20) % 2, proportions=np.array(proportions)
    )
    positive = model.predict_proba(np.ones((1, 2)))[0, -1]
    assert positive == pytest.approx(np.mean(proportions), abs=2e-3)
    assert model.kernel_weights_ == {}
    assert model.explained_share_ == model.log_evidence_ == 0.0


def test_standardization_of_constant_features_and_outliers():
    X = np.column_stack([np.full(50, 1e9 + 0.1), np.append(np.zeros(49), 1e6)])
    Z = Standardization.of(X)(X)
    assert (Z[:, 0] == 0).all()
    assert np.abs(Z).max() == 3.0


def test_the_forest_does_not_see_the_order_of_rows():
    X = np.random.default_rng(0).normal(size=(100, 3))
    one, other = (TreeMap.of(Z, 5, 10, 0) for Z in (X, X[::-1]))
    np.testing.assert_array_equal(one.forest.apply(X), other.forest.apply(X))


@pytest.mark.parametrize("kernel", ["poly", "", None, 3, (), ("rbf", "poly"), ("rbf", 1)])
def test_unknown_kernels_are_named(kernel):
    X, _, bags, totals = clouds()
    with pytest.raises(ValueError, match=r"'kernel' parameter of AggregateGP must be 'auto', or"):
        AggregateGP(kernel).fit(X, bags=bags, proportions=totals)
