"""What every estimator that learns from totals promises, whatever its method.

Add an estimator to ESTIMATORS, and it is held to the same contract.
"""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier
from sklearn.exceptions import NotFittedError

from apportion import (
    EMLLP,
    LPLLP,
    AggregateGP,
    AnchorGraph,
    AutoLLP,
    BagDesignWarning,
    CalibratedLLP,
    CountLogistic,
    InvCal,
    KNNGraph,
    LabelPropagation,
    LaplacianMeanMap,
    MeanMap,
    PropSVM,
    RBFGraph,
    SupervisionError,
    Totals,
    WeightedKNN,
)
from apportion.datasets import make_bags
from apportion.exceptions import ScaleWarning

pytestmark = pytest.mark.slow

ESTIMATORS = {
    "LPLLP": LPLLP(random_state=0),
    "LPLLP rbf": LPLLP(RBFGraph(1.0), random_state=0),
    "LPLLP anchor": LPLLP(AnchorGraph(), random_state=0),
    "LPLLP walk": LPLLP(order=2, random_state=0),
    "LPLLP prior": LPLLP(prior=LabelPropagation(), random_state=0),
    "LabelPropagation": LabelPropagation(),
    "WeightedKNN": WeightedKNN(),
    "InvCal": InvCal(),
    "InvCal rbf": InvCal("rbf", decode="threshold"),
    "PropSVM": PropSVM(n_starts=2, random_state=0),
    "MeanMap": MeanMap(),
    "MeanMap rbf": MeanMap("rbf"),
    "MeanMap poly": MeanMap("poly", coef0=1.0),
    "CountLogistic": CountLogistic(),
    "CountLogistic rbf": CountLogistic("rbf"),
    "LaplacianMeanMap": LaplacianMeanMap(),
    "LaplacianMeanMap rbf": LaplacianMeanMap("rbf", smoothing=10.0),
    "AggregateGP": AggregateGP(n_estimators=10, random_state=0),
    "AggregateGP laplacian": AggregateGP(("linear", "laplacian"), decode="threshold"),
    "EMLLP": EMLLP(tol=1e-2, random_state=0),
    "AutoLLP": AutoLLP(["mean-map", "inv-cal"], random_state=0),
    "CalibratedLLP": CalibratedLLP(MeanMap(), random_state=0),
    "EMLLP trees": EMLLP("trees", cross_fit=2, max_iter=1, random_state=0),
    "EMLLP forest": EMLLP(RandomForestClassifier(5), max_iter=3, random_state=0),
    "EMLLP cross-fitted": EMLLP(
        ExtraTreesRegressor(5, min_samples_leaf=5), start="debiased", max_iter=2, random_state=0
    ),
}
FORESTS = ["EMLLP forest", "EMLLP cross-fitted"]
KEEPS_COUNTS = [name for name in ESTIMATORS if ESTIMATORS[name].decode == "quota"]
KEEPS_TOTALS = [name for name in ESTIMATORS if name not in ("LabelPropagation", "WeightedKNN")]
INVENTS_CLUSTERS = ["PropSVM", *FORESTS]
IN_UNITS_OF_X = ["LPLLP rbf", *FORESTS]
"""γ of this graph and a forest's smallest split have the unit of X."""

every_estimator = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def blobs(seed=0, n=60, c=3, n_bags=4):
    X, y = make_blobs(n, centers=c, random_state=seed, cluster_std=1.5)
    bags, totals = make_bags(None, y, n_bags, random_state=seed)
    return X, y, bags, totals


@every_estimator
@pytest.mark.parametrize("c", [2, 3])
def test_shapes_and_names(name, c):
    X, _, bags, totals = blobs(c=c)
    model = clone(ESTIMATORS[name]).fit(X, bags=bags, proportions=totals)
    assert model.classes_.tolist() == list(range(c))
    assert model.transduction_.shape == (60,)
    assert model.label_distributions_.shape == (60, c)
    assert model.predict(X[:5]).shape == (5,)
    proba = model.predict_proba(X[:5])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.label_distributions_.sum(axis=1), 1.0)
    assert (proba >= 0).all()


@pytest.mark.parametrize("name", KEEPS_COUNTS)
@given(seed=st.integers(0, 1000), c=st.integers(2, 4), n_bags=st.integers(1, 12))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_quota_keeps_every_count(name, seed, c, n_bags):
    X, _, bags, totals = blobs(seed, n=40, c=c, n_bags=n_bags)
    model = clone(ESTIMATORS[name]).fit(X, bags=bags, proportions=totals)
    report = model.bag_report_
    assert report.error("quota") == 0
    np.testing.assert_array_equal(report.assigned["quota"], report.lower)
    if "prior" not in name:
        return
    assert model.solution_.residual < 1e-9


@every_estimator
def test_permuting_rows_permutes_the_labels(name):
    X, _, bags, totals = blobs(1)
    order = np.random.default_rng(0).permutation(len(X))
    whole = clone(ESTIMATORS[name]).fit(X, bags=bags, proportions=totals)
    shuffled = clone(ESTIMATORS[name]).fit(X[order], bags=bags[order], proportions=totals)
    np.testing.assert_allclose(
        shuffled.label_distributions_, whole.label_distributions_[order], atol=1e-4
    )
    np.testing.assert_array_equal(shuffled.transduction_, whole.transduction_[order])


@every_estimator
def test_permuting_rows_with_many_copies(name):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 4, (120, 2)).astype(float)
    bags = np.arange(120) % 5
    totals = Totals.from_labels((X.sum(axis=1) + rng.normal(size=120) > 3).astype(int), bags)
    order = rng.permutation(120)
    whole = clone(ESTIMATORS[name]).fit(X, bags=bags, proportions=totals)
    shuffled = clone(ESTIMATORS[name]).fit(X[order], bags=bags[order], proportions=totals)
    np.testing.assert_allclose(
        shuffled.label_distributions_, whole.label_distributions_[order], atol=1e-3
    )


@every_estimator
def test_permuting_rows_and_bags_where_many_bags_hold_the_same_rows(name):
    if name in ("EMLLP cross-fitted", "EMLLP trees"):
        pytest.skip("equal bags may be in other folds, and change places")
    rng = np.random.default_rng(2)
    X = rng.integers(0, 2, (60, 2)).astype(float)
    bags = np.repeat(np.arange(30), 2)
    totals = Totals.from_labels((rng.random(60) < 0.2 + 0.6 * X[:, 0]).astype(int), bags)
    order = rng.permutation(60)
    table = {k: totals.lower[k, 1] for k in rng.permutation(30).tolist()}
    whole = clone(ESTIMATORS[name]).fit(X, bags=bags, proportions=totals)
    shuffled = clone(ESTIMATORS[name]).fit(X[order], bags=bags[order], proportions=table)
    np.testing.assert_allclose(
        shuffled.label_distributions_, whole.label_distributions_[order], atol=1e-3
    )


@every_estimator
@pytest.mark.parametrize(
    "offset", [2.0**24, 1.7e9, [1.7e9, 0.0]], ids=["2**24", "epoch", "one column"]
)
def test_translation_changes_no_label(name, offset):
    X, new, bags, totals = groups_apart(3)
    model = clone(ESTIMATORS[name]).fit(X, bags=bags, proportions=totals)
    moved = clone(ESTIMATORS[name]).fit(X + offset, bags=bags, proportions=totals)
    assert_same_predictions(moved, new + offset, model, new)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name not in IN_UNITS_OF_X])
@pytest.mark.parametrize(("scale", "offset"), [(2.0**-30, 0.0), (2.0**30, 0.0), (2.0**-10, 1.7e9)])
def test_scaling_changes_no_label(name, scale, offset):
    X, new, bags, totals = groups_apart(2)
    model = clone(ESTIMATORS[name]).fit(X, bags=bags, proportions=totals)
    scaled = clone(ESTIMATORS[name]).fit((X + offset) * scale, bags=bags, proportions=totals)
    assert_same_predictions(scaled, (new + offset) * scale, model, new)


@every_estimator
def test_the_order_of_features_changes_nothing(name):
    if name in FORESTS:
        pytest.skip("scikit-learn's forests draw features by their position")
    rng = np.random.default_rng(4)
    X, new = rng.normal(size=(90, 5)) * [1, 2, 3, 1, 1], rng.normal(size=(20, 5))
    y = (X[:, 0] * X[:, 1] + X[:, 3] > 0).astype(int)
    bags, totals = make_bags(None, y, 10, random_state=0)
    order = [3, 0, 4, 1, 2]
    model = clone(ESTIMATORS[name]).fit(X, bags=bags, proportions=totals)
    other = clone(ESTIMATORS[name]).fit(X[:, order], bags=bags, proportions=totals)
    np.testing.assert_allclose(
        other.predict_proba(new[:, order]), model.predict_proba(new), atol=1e-3
    )
    np.testing.assert_allclose(other.label_distributions_, model.label_distributions_, atol=1e-3)


def groups_apart(c):
    """Return rows in groups far apart, new rows, and bags; offsets take no digit from any row."""
    centers = [[0.0, 0.0], [16.0, 4.0], [4.0, 16.0]][:c]
    X, y = make_blobs(60, centers=centers, random_state=0)
    X = np.round(X * 1024) / 1024
    bags, totals = make_bags(None, y, 10, random_state=0)
    return X, X[::4] + 1 / 16, bags, totals


def assert_same_predictions(one, one_new, other, other_new):
    np.testing.assert_array_equal(one.transduction_, other.transduction_)
    np.testing.assert_array_equal(one.predict(one_new), other.predict(other_new))
    np.testing.assert_allclose(
        one.predict_proba(one_new), other.predict_proba(other_new), atol=1e-3
    )


@every_estimator
def test_renaming_bags_and_reordering_the_table_changes_nothing(name):
    X, _, bags, totals = blobs(2)
    table = {f"day {k}": dict(enumerate(totals.lower[k])) for k in reversed(range(4))}
    named = [f"day {k}" for k in bags]
    whole = clone(ESTIMATORS[name]).fit(X, bags=bags, proportions=totals)
    renamed = clone(ESTIMATORS[name]).fit(X, bags=named, proportions=table)
    np.testing.assert_allclose(renamed.label_distributions_, whole.label_distributions_, atol=1e-9)
    np.testing.assert_array_equal(renamed.transduction_, whole.transduction_)


@every_estimator
@pytest.mark.parametrize("c", [2, 3])
def test_permuting_classes_permutes_the_labels(name, c):
    if name == "EMLLP forest":
        pytest.skip("a forest's random draws depend on the order of the classes")
    X, y, bags, totals = blobs(3, c=c)
    new = np.array([2, 0, 1])[:c] if c == 3 else np.array([1, 0])
    whole = clone(ESTIMATORS[name]).fit(X, bags=bags, proportions=totals)
    swapped = clone(ESTIMATORS[name]).fit(
        X, bags=bags, proportions=Totals.from_labels(new[y], bags)
    )
    np.testing.assert_allclose(
        swapped.label_distributions_[:, new], whole.label_distributions_, atol=1e-4
    )
    if name not in FORESTS:  # whose rows in the same leaves are tied
        np.testing.assert_array_equal(swapped.transduction_, new[whole.transduction_])


@every_estimator
def test_same_seed_same_labels_and_nothing_is_changed(name):
    X, _, bags, totals = blobs(4)
    X_before, bags_before = X.copy(), bags.copy()
    model = clone(ESTIMATORS[name])
    parameters = repr(model.get_params())
    first = model.fit(X, bags=bags, proportions=totals).label_distributions_
    again = model.fit(X, bags=bags, proportions=totals).label_distributions_
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(X, X_before)
    np.testing.assert_array_equal(bags, bags_before)
    assert repr(model.get_params()) == parameters


@every_estimator
def test_pure_bags_are_exact(name):
    X, y, _, _ = blobs(5)
    model = clone(ESTIMATORS[name]).fit(X, bags=y, proportions=np.eye(3))
    if name in KEEPS_TOTALS:
        np.testing.assert_array_equal(model.transduction_, y)


@every_estimator
def test_one_bag_per_row_returns_the_labels(name):
    X, y, _, _ = blobs(6)
    rows = np.arange(len(X))
    model = clone(ESTIMATORS[name]).fit(X, bags=rows, proportions=Totals.from_labels(y, rows))
    if name in KEEPS_TOTALS:
        np.testing.assert_array_equal(model.transduction_, y)
        np.testing.assert_allclose(model.label_distributions_, np.eye(3)[y], atol=1e-9)


@every_estimator
def test_one_bag_of_all_rows_is_the_class_priors(name):
    """The paper's other extreme: on a connected graph, every row has the class shares."""
    if name in INVENTS_CLUSTERS:
        pytest.skip("a method that divides rows even where the totals say nothing")
    X = np.random.default_rng(0).normal(size=(50, 2))
    model = clone(ESTIMATORS[name])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, bags=np.zeros(50, int), proportions=np.array([[0.5, 0.3, 0.2]]))
    assert any(issubclass(w.category, BagDesignWarning) for w in caught)
    np.testing.assert_allclose(model.label_distributions_, [[0.5, 0.3, 0.2]] * 50, atol=1e-3)


@every_estimator
def test_strings_frames_missing_ids_and_partial_labels(name):
    X, y, bags, _ = blobs(7)
    names = np.array(["run", "sit", "walk"])
    ids = [None if i % 10 == 0 else f"bag {k}" for i, k in enumerate(bags)]
    inside = [i for i in range(60) if ids[i] is not None]
    table = Totals.from_labels(names[y[inside]], [ids[i] for i in inside])
    partial = np.array([None] * 60, dtype=object)
    partial[[0, 1, 2]] = names[y[[0, 1, 2]]]
    plain = clone(ESTIMATORS[name]).fit(X, partial, bags=ids, proportions=table)
    assert plain.classes_.tolist() == names.tolist()
    assert plain.transduction_[:3].tolist() == partial[:3].tolist()
    for frame in (pd.DataFrame(X, columns=["a", "b"]), pl.DataFrame(X, schema=["a", "b"])):
        framed = clone(ESTIMATORS[name]).fit(
            frame, pd.Series(partial), bags=pd.Series(ids), proportions=table
        )
        assert framed.feature_names_in_.tolist() == ["a", "b"]
        np.testing.assert_array_equal(framed.transduction_, plain.transduction_)
        np.testing.assert_array_equal(framed.predict(frame), plain.predict(X))


@every_estimator
def test_new_bags_with_known_totals(name):
    X, y, bags, totals = blobs(8, n=120)
    model = clone(ESTIMATORS[name]).fit(X[:80], bags=bags[:80], proportions=totals)
    new = np.zeros(40, int)
    table = Totals.from_labels(y[80:], new)
    soft = model.predict_proba(X[80:], bags=new, proportions=table)
    np.testing.assert_allclose(soft.mean(axis=0), table.lower[0], atol=1e-9)
    labels = model.predict(X[80:], bags=new, proportions=table)
    if model.decode == "quota":
        np.testing.assert_array_equal(np.bincount(labels, minlength=3), 40 * table.lower[0])


@every_estimator
def test_score(name):
    X, y, bags, totals = blobs(9)
    model = clone(ESTIMATORS[name]).fit(X, bags=bags, proportions=totals)
    assert model.score(X, y) == (model.predict(X) == y).mean()
    error = -model.score(X, bags=bags, proportions=totals)
    shares = np.array([np.bincount(model.predict(X)[bags == k], minlength=3) for k in range(4)])
    expected = 0.5 * np.abs(shares / 15 - totals.lower).sum(axis=1).mean()
    assert error == pytest.approx(expected)


@every_estimator
def test_pickle(name):
    X, _, bags, totals = blobs(10)
    model = clone(ESTIMATORS[name]).fit(X, bags=bags, proportions=totals)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@every_estimator
@pytest.mark.parametrize(
    "X",
    [
        np.zeros((30, 2)),
        np.repeat(np.random.default_rng(0).normal(size=(3, 2)), 10, axis=0),
        np.column_stack([np.ones(30), np.random.default_rng(0).normal(size=30)]),
        np.vstack([np.random.default_rng(0).normal(size=(29, 2)), [[1e9, -1e9]]]),
        np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32),
    ],
    ids=["all equal", "duplicates", "constant feature", "outlier", "float32"],
)
@pytest.mark.parametrize("c", [2, 3])
def test_degenerate_rows_never_give_nan(name, X, c):
    labels = np.arange(30) % c
    bags = np.arange(30) % 4
    totals = Totals.from_labels(labels, bags)
    model = clone(ESTIMATORS[name]).fit(X, bags=bags, proportions=totals)
    assert np.isfinite(model.label_distributions_).all()
    assert np.isfinite(model.predict_proba(X)).all()
    np.testing.assert_allclose(model.label_distributions_.sum(axis=1), 1.0)


@every_estimator
def test_bad_rows_are_named(name):
    X, _, bags, totals = blobs(11)
    X[17, 1] = np.nan
    with pytest.raises(ValueError, match="row 17, column 1: found NaN"):
        clone(ESTIMATORS[name]).fit(X, bags=bags, proportions=totals)
    frame = pd.DataFrame(X, columns=["heart", "steps"])
    with pytest.raises(ValueError, match="row 17, column 'steps': found NaN"):
        clone(ESTIMATORS[name]).fit(frame, bags=bags, proportions=totals)


@every_estimator
def test_a_shuffled_index_is_refused(name):
    X, _, bags, totals = blobs(13)
    frame, column = pd.DataFrame(X), pd.Series(bags)
    with pytest.raises(SupervisionError, match=r"`bags`: found the index of X in another order"):
        clone(ESTIMATORS[name]).fit(
            frame, bags=column.sample(frac=1, random_state=0), proportions=totals
        )
    column.index = column.index + 1000
    clone(ESTIMATORS[name]).fit(frame, bags=column, proportions=totals)


@every_estimator
def test_a_failed_fit_leaves_no_model(name):
    X, _, bags, totals = blobs(14)
    model = clone(ESTIMATORS[name])
    with pytest.raises(SupervisionError):
        model.fit(X, bags=bags + 100, proportions=totals)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, bags=bags, proportions=totals)
    with pytest.raises(SupervisionError):
        model.fit(X[:, :1], bags=bags + 100, proportions=totals)
    with pytest.raises(ValueError, match="found NaN"):
        model.fit(np.full((60, 1), np.nan), bags=bags, proportions=totals)
    assert model.predict(X).shape == (60,)


@every_estimator
def test_warnings_point_at_the_user(name):
    X, _, bags, _ = blobs(17)
    model = clone(ESTIMATORS[name])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, bags=bags, proportions=np.full((4, 3), 1 / 3))
        model.predict(np.full((1, 2), 1e6))
        model.predict_proba(np.full((1, 2), 1e6))
    ours = [w for w in caught if w.category.__module__.startswith("apportion")]
    assert ours
    assert {w.filename for w in ours} == {__file__}


@pytest.mark.parametrize(
    "name", ["LPLLP", "WeightedKNN", "InvCal", "PropSVM", "MeanMap", "AggregateGP", "EMLLP"]
)
@pytest.mark.parametrize("size", [1e20, 1e-20])
def test_large_and_small_float32(name, size):
    X, _, bags, totals = blobs(18)
    model = clone(ESTIMATORS[name]).fit(
        (X * size).astype(np.float32), bags=bags, proportions=totals
    )
    assert np.isfinite(model.label_distributions_).all()


@every_estimator
def test_infinite_parameters_are_refused(name):
    X, _, bags, totals = blobs(19)
    for parameter in ("C_p", "ridge", "smoothing", "epsilon", "degree", "coef0", "tol", "alpha"):
        if parameter in ESTIMATORS[name].get_params():
            model = clone(ESTIMATORS[name]).set_params(**{parameter: np.inf})
            with pytest.raises(ValueError, match=f"The '{parameter}' parameter of"):
                model.fit(X, bags=bags, proportions=totals)


@every_estimator
def test_a_text_column_is_named(name):
    X, _, bags, totals = blobs(15)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(when="noon")
    with pytest.raises(ValueError, match="column 'when': could not convert"):
        clone(ESTIMATORS[name]).fit(frame, bags=bags, proportions=totals)


def test_score_without_labels_or_totals_is_an_error():
    X, y, _, _ = blobs(16)
    with pytest.raises(SupervisionError, match="enable_metadata_routing"):
        LPLLP().fit(X, y).score(X)


def test_graph_parameters_can_be_set_and_searched():
    model = LPLLP(KNNGraph(7))
    assert model.get_params()["graph__n_neighbors"] == 7
    model.set_params(graph__n_neighbors=3)
    X, _, bags, totals = blobs(12)
    model.fit(X, bags=bags, proportions=totals)
    assert model.graph_ is not model.graph
    assert model.graph_.n_neighbors == 3
    assert not hasattr(model.graph, "affinity_")


@pytest.mark.parametrize(
    "name", ["LPLLP", "LabelPropagation", "WeightedKNN", "InvCal rbf", "MeanMap rbf"]
)
def test_units_that_decide_about_distances_are_told(name):
    X, _, bags, totals = blobs(0)
    frame = pd.DataFrame({"steps": 100.0 * X[:, 0], "heart": X[:, 1], "zero": 0.0})
    with pytest.warns(ScaleWarning, match="'steps' has .* and 'heart' has .*StandardScaler"):
        clone(ESTIMATORS[name]).fit(frame, bags=bags, proportions=totals)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScaleWarning)
        scaled = frame / [10.0, 1.0, 1.0]
        clone(ESTIMATORS[name]).fit(scaled, bags=bags, proportions=totals)
        AutoLLP(["lpllp", "mean-map-rbf"]).fit(frame, bags=bags, proportions=totals)
