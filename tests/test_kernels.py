"""Kernels in blocks against kernels as a whole."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel

from apportion import CountLogistic, InvCal, MeanMap, PropSVM, Totals
from apportion.estimators import _kernels as kernels
from apportion.estimators._kernels import (
    Expansion,
    Kernel,
    center_of,
    kernel_features,
    resolve_kernel,
)

X = np.random.default_rng(0).normal(size=(50, 3))
Z = np.random.default_rng(1).normal(size=(40, 3))
WHOLE = {
    "linear": (Kernel("linear"), X @ Z.T),
    "rbf": (Kernel("rbf", gamma=0.3), rbf_kernel(X, Z, gamma=0.3)),
    "laplacian": (Kernel("laplacian", gamma=0.3), np.exp(-0.3 * cdist(X, Z))),
    "poly": (Kernel("poly", 0.5, 2, 1.0), polynomial_kernel(X, Z, degree=2, gamma=0.5, coef0=1.0)),
    "callable": (Kernel(laplacian_kernel), laplacian_kernel(X, Z)),
}


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(kernels, "_BLOCK_BYTES", 8 * 7 * 40)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.usefixtures("small_blocks")
def test_sums_in_blocks_are_sums_over_the_whole(name):
    kernel, whole = WHOLE[name]
    weights = np.random.default_rng(2).normal(size=(40, 2))
    np.testing.assert_allclose(kernel(X, Z), whole)
    np.testing.assert_allclose(kernel.times(X, Z, weights), whole @ weights)


def test_pivots_of_many_rows_are_chosen_among_some(monkeypatch):
    kernel, _ = WHOLE["rbf"]
    whole = kernel_features(kernel, X, 50)
    monkeypatch.setattr(kernels, "_PIVOT_ROWS", 30)
    some = kernel_features(kernel, X, 50)
    assert some.pivots.max() < 30
    np.testing.assert_allclose(some.Z, kernel(X, X[some.pivots]) @ some.V)
    np.testing.assert_allclose(
        some.Z[:30] @ some.Z[:30].T, (whole.Z @ whole.Z.T)[:30, :30], atol=1e-6
    )


@pytest.mark.parametrize("name", WHOLE)
def test_compact_expansions_are_the_same_functions(name):
    kernel, whole = WHOLE[name]
    weights = np.random.default_rng(2).normal(size=(40, 2))
    weights[::3] = 0.0
    expansion = Expansion(kernel, Z, weights, np.array([1.0, -2.0]))
    np.testing.assert_allclose(expansion(X), whole @ weights + [1.0, -2.0])
    np.testing.assert_allclose(expansion.compact()(X), expansion(X))
    assert len(expansion.compact().rows) == (3 if name == "linear" else 26)


def test_an_expansion_without_rows_is_its_intercept():
    kernel = Kernel("rbf")
    none = Expansion(kernel, X, np.zeros((50, 1)), np.array([2.0])).compact()
    np.testing.assert_array_equal(none(Z), np.full((40, 1), 2.0))


@pytest.mark.parametrize("name", WHOLE)
def test_kernel_features_have_the_kernel_as_inner_product(name):
    kernel, _ = WHOLE[name]
    whole = kernel(X, X)
    for given, rows in ((kernel, X), (Kernel("precomputed"), whole)):
        Z, pivots, V, unexplained = kernel_features(given, rows, 50)
        np.testing.assert_allclose(Z @ Z.T, whole, atol=1e-6)
        similarities = rows if given.linear else whole[:, pivots]
        np.testing.assert_allclose(similarities @ V, Z, atol=1e-6)
        assert unexplained < 1e-8
        assert len(pivots) <= {"linear": 3, "poly": 10}.get(name, 50)


def test_fewer_kernel_features_are_the_nystroem_approximation():
    kernel, _ = WHOLE["rbf"]
    whole = kernel(X, X)
    Z, pivots, _, unexplained = kernel_features(kernel, X, 8)
    some = whole[:, pivots]
    wanted = some @ np.linalg.solve(whole[np.ix_(pivots, pivots)], some.T)
    np.testing.assert_allclose(Z @ Z.T, wanted, atol=1e-8)
    assert unexplained == pytest.approx(1 - np.trace(wanted) / np.trace(whole))
    assert 0 < unexplained < 0.5


def test_gamma_scale_is_that_of_scikit_learn_for_centered_features():
    centered = X - X.mean(axis=0)
    for rows in (centered, X + np.array([1.7e9, 0.0, 5.0])):
        gamma = resolve_kernel("rbf", "scale", 3, 0.0, rows).gamma
        assert gamma == pytest.approx(1 / (3 * centered.var()))
    assert resolve_kernel("rbf", "scale", 3, 0.0, np.zeros((4, 2))).gamma == 1.0
    assert resolve_kernel("rbf", 0.7, 3, 0.0, X).gamma == 0.7


def test_a_kernel_that_does_not_fit_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr("apportion._utils.memory.free_bytes", lambda: 1000)
    with pytest.raises(MemoryError, match=r"kernel of 50 rows needs .* Use kernel='linear'"):
        PropSVM().fit(X, bags=np.arange(50) % 2, proportions=np.array([0.4, 0.6]))
    for model in (InvCal("rbf"), MeanMap("rbf")):
        with pytest.raises(MemoryError, match=r"50 kernel features of 50 rows needs .* max_rank"):
            model.fit(X, np.arange(50) % 2)
    InvCal().fit(X, np.arange(50) % 2)


def fitted(model, rows=X):
    totals = Totals.from_labels((X[:, 0] > 0).astype(int), np.arange(50) % 5)
    return model.fit(rows, bags=np.arange(50) % 5, proportions=totals)


@pytest.mark.parametrize("estimator", [CountLogistic, InvCal, MeanMap, PropSVM])
def test_precomputed_and_callable_kernels_are_the_named_ones(estimator):
    extra = {"n_starts": 3} if estimator is PropSVM else {}
    named = fitted(estimator("rbf", C=1.0, gamma=0.2, random_state=0, **extra))
    called = fitted(
        estimator(lambda a, b: rbf_kernel(a, b, gamma=0.2), C=1.0, random_state=0, **extra)
    )
    np.testing.assert_allclose(called.predict_proba(Z), named.predict_proba(Z), atol=1e-8)
    whole = rbf_kernel(X, X, gamma=0.2)
    extra = {"n_starts": 10} if estimator is PropSVM else {}
    named = fitted(estimator("rbf", C=1.0, gamma=0.2, random_state=0, **extra))
    given = fitted(estimator("precomputed", C=1.0, random_state=0, **extra), whole)
    np.testing.assert_allclose(
        given.predict_proba(rbf_kernel(Z, X, gamma=0.2)), named.predict_proba(Z), atol=1e-3
    )
    assert given.__sklearn_tags__().input_tags.pairwise
    with pytest.raises(ValueError, match=r"square matrix of all pairs of rows. Got shape \(50, 3"):
        fitted(estimator("precomputed", **extra))


@pytest.mark.parametrize("estimator", [CountLogistic, InvCal, MeanMap, PropSVM])
def test_coefficients_of_a_linear_kernel(estimator):
    model = fitted(estimator("linear", random_state=0))
    f = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(f, model.expansion_(X))
    with pytest.raises(AttributeError, match="kernel='linear'"):
        fitted(estimator("rbf", random_state=0)).coef_  # noqa: B018


@pytest.mark.parametrize("estimator", [CountLogistic, InvCal, MeanMap, PropSVM])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "cubic"}, "'kernel' parameter of .* must be one of 'linear', 'rbf', 'poly'"),
        ({"gamma": 0.0}, r"'gamma' parameter of .* must be 'scale' or a float in the range \(0"),
        ({"gamma": "auto"}, "'gamma' parameter of .* must be 'scale' or a float"),
        ({"C": -1.0}, "'C' parameter of .* must be .*a float in the range"),
        ({"degree": "two"}, "'degree' parameter"),
        ({"decode": "argmax"}, "'decode' parameter"),
        ({"kernel": lambda a, b: np.ones((2, 2))}, r"must return an array of shape"),
    ],
)
def test_bad_parameters_are_named(estimator, parameters, message):
    with pytest.raises(ValueError, match=message):
        fitted(estimator(**parameters))


@pytest.mark.parametrize("estimator", [InvCal, PropSVM])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(("offset", "unit"), [(1e3, 1.0), (1e5, 1.0), (0.0, 1e4), (0.0, 1e-6)])
def test_neither_offset_nor_unit_changes_the_decision_function(estimator, kernel, offset, unit):
    """libsvm, which has an absolute tolerance, must not see them: it would not end."""
    power = 2 if kernel == "linear" else 0
    # With labels PropSVM is an SVM. Without them other features mean other random starts.
    y = (X[:, 0] > 0).astype(int) if estimator is PropSVM else None

    def f(rows, C):
        model = estimator(kernel, C=C, random_state=0)
        if y is not None:
            return model.fit(rows, y).decision_function(rows)
        return fitted(model, rows).decision_function(rows)

    np.testing.assert_allclose(f(unit * X + offset, 1.0 / unit**power), f(X, 1.0), atol=1e-2)


def test_fit_to_unscaled_features_ends():
    from sklearn.datasets import load_wine

    rows, y = load_wine(return_X_y=True)
    bags = np.arange(178) % 10
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        PropSVM("linear", n_starts=1, random_state=0).fit(
            rows, bags=bags, proportions=Totals.from_labels(y, bags)
        )


def test_kernels_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"kernel 'poly' of two rows is nan.*whole degree"):
        fitted(InvCal("poly", degree=2.5))
    with pytest.raises(ValueError, match=r"must be symmetric. Rows \d+ and \d+ have"):
        fitted(PropSVM("precomputed"), np.random.default_rng(0).random((50, 50)))
    far = -np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    with pytest.raises(ValueError, match="no positive k"):
        fitted(MeanMap("precomputed"), far)
    with pytest.raises(ValueError, match="not positive semidefinite"):
        fitted(MeanMap("precomputed"), far + 0.1)


def test_no_block_is_larger_than_the_limit(monkeypatch):
    """Not even for the diagonal, and whatever the number of rows."""
    monkeypatch.setattr(kernels, "_BLOCK_BYTES", 8 * 400)
    largest = 0

    def watched(a, b):
        nonlocal largest
        largest = max(largest, len(a) * len(b))
        return rbf_kernel(a, b, gamma=0.3)

    fitted(MeanMap(watched))
    fitted(InvCal(watched))
    assert largest <= 400


@pytest.mark.parametrize("estimator", [CountLogistic, InvCal, MeanMap, PropSVM])
def test_a_precomputed_kernel_is_not_kept(estimator):
    whole = rbf_kernel(X, gamma=0.2)
    model = fitted(estimator("precomputed", random_state=0), whole)
    assert len(pickle.dumps(model.expansion_)) < 8 * 50 * 10
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        model.predict(sparse.csr_array(whole[:3]))


def test_the_center_is_exact_however_far_rows_lie():
    rows = np.round(np.random.default_rng(3).normal(size=(4096, 2)) * 1024) / 1024
    center = center_of(rows + 2.0**40)
    np.testing.assert_allclose(center - 2.0**40, rows.mean(axis=0), atol=2.0**-12)
    np.testing.assert_array_equal(center, center_of(rows[::-1] + 2.0**40))


@pytest.mark.parametrize("gamma", [1.0, 1e6])
@pytest.mark.parametrize("width", [1e-5, 1e-6])
def test_rounding_does_not_make_a_kernel_indefinite(gamma, width):
    """Groups so tight, for their distance, that k(x, z) within a group is 1 but for rounding."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(6), 6)[:, None] * 100.0
    for d in (1, 3):
        rows = width * rng.normal(size=(36, d)) + group
        Z, _, V, _ = kernel_features(Kernel("rbf", gamma), rows, 36)
        np.testing.assert_allclose(Z @ Z.T, rbf_kernel(rows, gamma=gamma), atol=1e-3)
        assert np.isfinite(V).all()
        labels = np.arange(36) % 5
        totals = Totals.from_labels(labels, np.arange(36) % 4)
        model = MeanMap("rbf", gamma=gamma).fit(
            rows + 1e4, bags=np.arange(36) % 4, proportions=totals
        )
        assert np.isfinite(model.label_distributions_).all()


def test_a_kernel_of_the_users_sees_the_rows_as_they_are():
    def counts(a, b):
        assert min(a.min(), b.min()) >= 0
        return np.sqrt(a) @ np.sqrt(b).T

    rows = np.random.default_rng(0).integers(0, 9, (50, 3)).astype(float)
    for estimator in (CountLogistic, InvCal, MeanMap, PropSVM):
        fitted(estimator(counts, random_state=0), rows).predict(rows)


@pytest.mark.parametrize("estimator", [CountLogistic, InvCal, MeanMap, PropSVM])
def test_linear_coefficients_are_those_of_the_rows_as_they_are(estimator):
    model = fitted(estimator("linear", random_state=0), X + 100.0)
    np.testing.assert_allclose(
        (X + 100.0) @ model.coef_.T + model.intercept_, model.expansion_(X + 100.0), atol=1e-9
    )
    if estimator is MeanMap:
        here = fitted(MeanMap(), X).class_means_
        np.testing.assert_allclose(model.class_means_, here + 100.0)
