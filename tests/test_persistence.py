"""A saved model predicts what it did before, and everything in a file is checked."""

from __future__ import annotations

import io
import json
import pickle
import warnings
import zipfile
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from apportion import (
    EMLLP,
    LPLLP,
    AggregateGP,
    AnchorGraph,
    AutoLLP,
    CalibratedLLP,
    CountLogistic,
    InvCal,
    KNNGraph,
    LabelPropagation,
    LaplacianMeanMap,
    MeanMap,
    PrecomputedGraph,
    PropSVM,
    RBFGraph,
    Totals,
    WeightedKNN,
)
from apportion._io import archive
from apportion.datasets import make_bags
from apportion.estimators import aggregate_gp
from apportion.estimators._forest import Forest, ForestRegressor
from apportion.exceptions import OutputError, SavedModelError
from apportion.graphs import Graph
from apportion.persistence import SavedModel, contains_rows, load_model, save_model

GRAPHS = {
    "auto": "auto",
    "tree": KNNGraph(4),
    "pairs": KNNGraph(5, recall=1.0),
    "anchor": "anchor",
    "few anchors": AnchorGraph(12, 3),
    "rbf": "rbf",
    "rbf grid": RBFGraph((0.5, 2.0)),
    "rbf array": RBFGraph(np.array([0.5, 2.0])),
}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def rows(n=80, d=3, seed=0):
    X, y = make_blobs(n, d, centers=3, random_state=seed, cluster_std=2.0)
    bags, totals = make_bags(None, y, 5, random_state=seed)
    return X, y, bags, totals


def rough(graph="auto", **parameters):
    """Return a model that is soon fitted; how well does not matter here."""
    return LPLLP(graph, refine=False, n_probes=0, max_iter=10, **parameters)


def fitted(graph="auto", seed=0, d=3, **parameters):
    X, _, bags, totals = rows(d=d, seed=seed)
    graph = clone(graph) if isinstance(graph, Graph) else graph
    return rough(graph, random_state=0, **parameters).fit(X, bags=bags, proportions=totals)


def written(model, **options):
    file = io.BytesIO()
    save_model(file, model, **options)
    return file.getvalue()


def read(content):
    return load_model(io.BytesIO(content))


def again(model, **options):
    return read(written(model, **options)).model


def new_rows(d=3, n=200):
    return np.random.default_rng(9).normal(scale=8.0, size=(n, d))


def assert_predicts_alike(one, other, X):
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    assert one.predict(X).dtype == other.predict(X).dtype


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("d", [3, 9])
def test_a_loaded_model_predicts_what_the_saved_one_did(name, d):
    model = fitted(GRAPHS[name], d=d)
    loaded = again(model)
    X = np.vstack([new_rows(d), rows(d=d)[0], 1e4 + new_rows(d, 3)])
    assert_predicts_alike(loaded, model, X)
    assert_predicts_alike(loaded, model, X[:1])
    isolated = model.graph_.affinities(X)[1]
    assert isolated.any()
    np.testing.assert_array_equal(loaded.graph_.affinities(X)[1], isolated)
    assert loaded.n_features_in_ == d
    assert loaded.graph_choice_ == model.graph_choice_
    assert not hasattr(loaded, "feature_names_in_")
    assert not hasattr(loaded, "transduction_")
    assert type(loaded.graph_) is type(model.graph_)


def test_a_loaded_model_keeps_totals_of_new_rows():
    model = fitted(decode="quota")
    X, y, bags, _ = rows(60, seed=4)
    totals = Totals.from_labels(y, bags)
    np.testing.assert_array_equal(
        again(model).predict(X, bags=bags, proportions=totals),
        model.predict(X, bags=bags, proportions=totals),
    )


@pytest.mark.parametrize("graph", ["knn", "anchor", "rbf"])
@pytest.mark.parametrize("d", [2, 8])
def test_copies_and_single_precision(graph, d):
    X, y, bags, _ = rows(90, d)
    X = np.round(X).astype(np.float32)
    X[:30] = X[30:60]
    model = rough(graph).fit(X, bags=bags, proportions=Totals.from_labels(y, bags))
    loaded = again(model)
    for new in (X, new_rows(d), new_rows(d).astype(np.float32)):
        assert_predicts_alike(loaded, model, new)


def test_so_many_copies_that_they_are_searched_one_by_one():
    X = np.repeat(rows(3)[0], 100, axis=0)
    bags = np.arange(300) % 3
    model = rough("knn").fit(X, bags=bags, proportions=np.array([0.2, 0.5, 0.6]))
    assert len(model.graph_.state()["points"]) == 300
    assert_predicts_alike(again(model), model, X + 0.1)


def test_columns_first():
    X, _, bags, totals = rows()
    for graph in ("knn", "rbf"):
        model = rough(graph).fit(np.asfortranarray(X), bags=bags, proportions=totals)
        assert_predicts_alike(again(model), model, new_rows())


@pytest.mark.slow
def test_an_approximate_search_is_built_again_alike():
    n, d = 33_000, 8
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=n)
    X = (3.0 * rng.normal(size=(3, d))[y] + rng.normal(size=(n, d))).astype(np.float32)
    bags = np.arange(n) % 50
    model = rough().fit(X, bags=bags, proportions=Totals.from_labels(y, bags))
    assert model.graph_.search_.startswith("approximate")
    loaded = again(model)
    assert loaded.graph_.search_ == model.graph_.search_
    assert loaded.graph_.recall_ == model.graph_.recall_
    assert_predicts_alike(loaded, model, rng.normal(size=(3000, d)))


def with_classes(*classes):
    X, y, bags, _ = rows()
    labels = np.empty(len(y), dtype=object)
    labels[:] = [classes[h] for h in y % len(classes)]
    return rough().fit(X, bags=bags, proportions=Totals.from_labels(labels, bags))


@pytest.mark.parametrize(
    "classes",
    [
        (0, 1, 2),
        (-5, 2**40, 3),
        (2**63, 1, 2),
        (2**70, 1, 2),
        ("sit", "walk", "läuft\n\ud800"),
        (False, True),
        (0.5, -1.25, 1e-300),
        (1, "1", 2.5),
        ("", "a"),
    ],
)
def test_classes_come_back_as_they_were(classes):
    model = with_classes(*classes)
    loaded = again(model)
    assert loaded.classes_.dtype == model.classes_.dtype
    found, wanted = loaded.classes_.tolist(), model.classes_.tolist()
    assert found == wanted
    assert [type(label) for label in found] == [type(label) for label in wanted]
    assert_predicts_alike(loaded, model, new_rows())
    saved = read(written(model, labels_only=True, ids=range(80)))
    np.testing.assert_array_equal(saved.labels, model.transduction_)
    assert saved.labels.dtype == model.transduction_.dtype


@pytest.mark.parametrize("odd", [pd.Timestamp("2024-01-01"), ("a", 1), np.inf, b"a"])
def test_other_classes_are_refused(odd):
    with pytest.raises(SavedModelError, match=r"class .*: found a class of type .* Hint: name"):
        written(with_classes(odd, odd * 2 if isinstance(odd, bytes) else "b"))


def test_names_of_features():
    X, _, bags, totals = rows()
    frame = pd.DataFrame(X, columns=["a", "b", "ü"])
    model = LPLLP().fit(frame, bags=bags, proportions=totals)
    loaded = again(model)
    assert loaded.feature_names_in_.tolist() == ["a", "b", "ü"]
    assert loaded.feature_names_in_.dtype == object
    assert_predicts_alike(loaded, model, frame)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["b", "a", "ü"]])


def test_parameters_come_back_or_are_left_out():
    model = fitted(AnchorGraph(np.int64(20), 4), alpha=np.float64(0.3), decode="threshold")
    loaded = again(model)
    assert repr(loaded.graph) == repr(AnchorGraph(20, 4))
    assert (loaded.alpha, loaded.decode, loaded.random_state) == (0.3, "threshold", 0)
    assert type(loaded.alpha) is float
    assert again(fitted("rbf")).graph == "rbf"
    assert again(fitted(RBFGraph((0.5, 2.0)))).graph.gamma == [0.5, 2.0]

    prior = fitted(prior=LabelPropagation())
    prior.set_params(random_state=np.random.RandomState(3))
    content = written(prior)
    assert document(content)["model"]["left_out"] == ["prior", "random_state"]
    assert read(content).model.prior is None
    assert_predicts_alike(read(content).model, prior, new_rows())


def test_a_loaded_model_is_fitted_and_can_be_fitted_again():
    loaded = again(fitted())
    X, _, bags, totals = rows()
    np.testing.assert_array_equal(
        loaded.fit(X, bags=bags, proportions=totals).transduction_, fitted().transduction_
    )
    with pytest.raises(NotFittedError):
        clone(loaded).predict(X)


@pytest.mark.parametrize("name", GRAPHS)
def test_saving_a_loaded_model_gives_the_same_bytes(name):
    model = fitted(GRAPHS[name])
    content = written(model, extra={"b": 1, "a": [None, "ü", {"x": 0.1}]})
    assert content == written(deepcopy(model), extra={"b": 1, "a": [None, "ü", {"x": 0.1}]})
    saved = read(content)
    assert list(saved.extra) == ["b", "a"]
    if name not in ("rbf grid", "rbf array"):
        assert written(saved.model, extra=saved.extra) == content


def test_a_model_that_cannot_be_saved_leaves_the_one_that_is_there(monkeypatch, tmp_path):
    model = fitted("knn")
    save_model(tmp_path / "model", model)
    before = (tmp_path / "model").read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("apportion._io.archive.npy.write_array", full)
    with pytest.raises(OutputError, match=r"model cannot be written: no space left on device"):
        save_model(tmp_path / "model", model)
    assert (tmp_path / "model").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_equal_fits_give_equal_files(tmp_path):
    for name in ("one", "other"):
        save_model(tmp_path / name, fitted("knn"))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert_predicts_alike(load_model(str(tmp_path / "one")).model, fitted("knn"), new_rows())
    with zipfile.ZipFile(tmp_path / "one") as file:
        assert {info.date_time for info in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def members(content):
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name) for name in file.namelist()}


def document(content):
    return json.loads(members(content)["model.json"])


def test_what_is_in_the_file():
    X = rows()[0]
    model = fitted("knn")
    content = written(model)
    assert document(content)["contents"] == contains_rows(model) == "80 training rows"
    assert read(content).contents == "80 training rows"
    assert contains_rows(fitted("rbf")) == "80 training rows"
    assert contains_rows(model, labels_only=True) == "no training rows"
    points = np.load(io.BytesIO(members(content)["points.npy"]))
    assert {tuple(row) for row in points} == {tuple(row) for row in X}


def test_a_file_of_anchors_is_small_and_holds_no_row():
    n, d = 20_000, 6
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    bags = np.arange(n) % 20
    model = rough(AnchorGraph(100)).fit(
        X, bags=bags, proportions=Totals.from_labels(X[:, 0] > 0, bags)
    )
    content = written(model)
    assert len(content) < 20_000
    assert read(content).contents == "100 means of training rows"
    assert_predicts_alike(read(content).model, model, X[:500])
    stored = members(content)
    assert not any(row.tobytes() in part for row in X[:2000] for part in stored.values())
    arrays = {
        name: np.load(io.BytesIO(part)) for name, part in stored.items() if name.endswith(".npy")
    }
    assert max(len(np.atleast_1d(array)) for array in arrays.values()) == 100
    closest = np.sqrt(((X[:, None, :1] - arrays["anchors.npy"][None, :, :1]) ** 2).sum(axis=2))
    assert closest.min() > 0
    assert not hasattr(read(content).model, "label_distributions_")


def test_anchors_that_are_rows_are_counted():
    assert contains_rows(fitted("anchor")) == (
        "80 means of training rows, of which 80 equal a training row"
    )
    X, y, bags, totals = rows(400, 2)
    X = np.vstack([X, [[1e3, 1e3]]])
    totals = Totals.from_labels(np.append(y, 0), np.append(bags, bags[0]))
    model = rough(AnchorGraph(20)).fit(X, bags=np.append(bags, bags[0]), proportions=totals)
    assert contains_rows(model) == "20 means of training rows, of which 1 equal a training row"
    assert contains_rows(again(model)) == contains_rows(model)


@pytest.mark.slow
@pytest.mark.parametrize(
    "ids",
    [
        [f"row {i}" for i in range(80)],
        ["", "ä\n", "\0", *map(str, range(77))],
        list(range(100, 180)),
        np.arange(80) - 40,
        np.array([f"{i}" for i in range(80)]),
        pd.Series(range(80)),
    ],
)
def test_labels_only(ids):
    model = fitted("rbf")
    content = written(model, labels_only=True, ids=ids, extra={"a": 1})
    saved = read(content)
    assert saved.model is None
    assert saved.labels_only
    assert saved.contents == "no training rows"
    assert saved.extra == {"a": 1}
    assert saved.ids.tolist() == list(ids)
    np.testing.assert_array_equal(saved.labels, model.transduction_)
    np.testing.assert_array_equal(saved.label_distributions, model.label_distributions_)
    order = np.random.default_rng(0).permutation(80)
    asked = [list(ids)[i] for i in order]
    np.testing.assert_array_equal(saved.lookup([*asked, "who", 10**9, None]), [*order, -1, -1, -1])
    assert not {"rows.npy", "points.npy", "anchors.npy"} & set(members(content))
    X = rows()[0]
    assert not any(row.tobytes() in part for row in X for part in members(content).values())


def test_labels_only_of_a_precomputed_graph():
    W = np.exp(-np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0))))
    model = LPLLP("precomputed").fit(W, bags=[0, 0, 0, 1, 1, 1], proportions=np.array([0.0, 1.0]))
    assert read(written(model, labels_only=True, ids=range(6))).labels.tolist() == [0] * 3 + [1] * 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels_only": True}, "`ids`: found none"),
        ({"ids": range(80)}, "beside a whole model"),
        ({"labels_only": True, "ids": range(79)}, "found 79 ids. Allowed: 80"),
        ({"labels_only": True, "ids": [*range(79), 5]}, "found 5 twice"),
        ({"labels_only": True, "ids": [*range(79), "5"]}, "ids of type int, str"),
        ({"labels_only": True, "ids": [*range(79), True]}, "ids of type bool, int"),
        ({"labels_only": True, "ids": [*range(79), 2**63]}, "ints of 64 bits"),
        ({"labels_only": True, "ids": [*map(str, range(79)), "\ud800"]}, "UTF-8"),
        ({"labels_only": True, "ids": [[i] for i in range(80)]}, "ids of type list"),
        ({"extra": [1]}, "`extra`: found list"),
        ({"extra": {"a": np.nan}}, "JSON cannot hold"),
        ({"extra": {"a": object()}}, "JSON cannot hold"),
        ({"extra": {"a": "x" * 2**25}}, "found 32.0 MiB. Allowed: at most 16.0 MiB"),
    ],
)
def test_what_cannot_be_saved_is_refused_before_a_file_is_there(options, message, tmp_path):
    with pytest.raises(SavedModelError, match=message):
        save_model(tmp_path / "model", fitted(), **options)
    assert not list(tmp_path.iterdir())


def test_files_of_version_1_are_read():
    """A file as the first version of the format has it, written without `save_model`."""
    contents = {
        "format": "apportion model",
        "version": 1,
        "apportion": "0.2.0",
        "contents": "3 training rows",
        "labels_only": False,
        "classes": [["str", "sleep"], ["str", "tv"]],
        "n_features": 1,
        "feature_names": ["x"],
        "graph_choice": "RBFGraph: as asked for",
        "model": {"class": "LPLLP", "parameters": {"alpha": 0.3}, "left_out": ["random_state"]},
        "graph": {"class": "RBFGraph", "parameters": {"gamma": "auto"}, "left_out": []},
        "extra": {"unit": "hours"},
    }
    fitted_rows = np.array([[0.0], [1.0], [3.0]])
    soft_labels = np.array([[1.0, 0.0], [0.5, 0.5], [0.2, 0.8]])
    arrays = {
        "rows": fitted_rows,
        "gamma": np.array(0.5),
        "voices": soft_labels,
        "overall": np.array([0.5, 0.5]),
    }
    file = io.BytesIO()
    archive.write_zip(file, contents, arrays, "model.json")
    saved = load_model(file)
    weights = np.exp(-0.5 * (2.0 - fitted_rows[:, 0]) ** 2)
    expected = weights @ soft_labels / weights.sum()
    new = pd.DataFrame({"x": [2.0]})
    np.testing.assert_allclose(saved.model.predict_proba(new), [expected], rtol=1e-12)
    assert (saved.model.alpha, saved.extra) == (0.3, {"unit": "hours"})


@pytest.mark.parametrize("labels_only", [False, True])
def test_earlier_versions_can_read_an_lpllp(labels_only):
    options = {"labels_only": True, "ids": range(80)} if labels_only else {}
    assert document(written(fitted(), **options))["version"] == 1


def test_models_that_cannot_be_saved():
    X, _, bags, totals = rows()
    with pytest.raises(SavedModelError, match=r"the model: found LogisticRegression.*LPLLP, "):
        written(LogisticRegression().fit(X, bags))
    with pytest.raises(NotFittedError):
        written(LPLLP())
    precomputed = LPLLP(PrecomputedGraph()).fit(
        np.exp(-((X[:, None] - X) ** 2).sum(axis=2)), bags=bags, proportions=totals
    )
    with pytest.raises(SavedModelError, match="the model's graph: found PrecomputedGraph"):
        written(precomputed)
    with pytest.raises(SavedModelError, match="no labels of its rows"):
        written(again(fitted()), labels_only=True, ids=range(80))
    with pytest.raises(SavedModelError, match="a model without ids"):
        read(written(fitted())).lookup([1])


MODELS = {
    "label propagation": LabelPropagation(),
    "label propagation on anchors": LabelPropagation(AnchorGraph(12, 3)),
    "weighted knn": WeightedKNN(),
    "weighted knn, dense": WeightedKNN(RBFGraph(0.5)),
    "mean map": MeanMap(),
    "mean map, rbf": MeanMap("rbf", max_rank=20),
    "laplacian mean map": LaplacianMeanMap(),
    "count": CountLogistic(),
    "count, poly": CountLogistic("poly", degree=2, coef0=1.0, max_rank=20),
    "inv cal": InvCal(),
    "inv cal, rbf": InvCal("rbf"),
    "prop svm": PropSVM(n_starts=1, random_state=0),
    "prop svm, linear": PropSVM("linear", n_starts=1, random_state=0),
    "gp": AggregateGP(("linear", "rbf", "laplacian")),
    "gp, trees": AggregateGP("trees", n_estimators=20, random_state=0),
    "em": EMLLP(),
    "em, trees": EMLLP("trees", cross_fit=2, max_iter=1, random_state=0),
    "auto": AutoLLP(
        {
            "gp": AggregateGP(n_estimators=10),
            "knn": WeightedKNN(AnchorGraph(20)),
            "trees": EMLLP("trees", cross_fit=0, max_iter=1),
            "mean map": MeanMap(),
        },
        cv=2,
        random_state=0,
    ),
    "auto, by name": AutoLLP(["gp", "lpllp", "count-rbf"], cv=2, random_state=0),
    "calibrated": CalibratedLLP(cv=2),
    "gp, both": AggregateGP(("linear", "rbf", "trees"), n_estimators=2, random_state=0),
    "em, one round": EMLLP(max_iter=1),
    "auto, small": AutoLLP([MeanMap(), WeightedKNN()], cv=2),
}
CONTAINS = {
    "label propagation": "80 training rows",
    "label propagation on anchors": "12 means of training rows",
    "mean map, rbf": "20 training rows",
    "gp": "80 training rows",
    "auto": "80 training rows and 20 means of training rows, of which 3 equal a training row",
    "auto, by name": "80 training rows",
    "calibrated": "80 training rows",
} | dict.fromkeys(
    [
        "mean map",
        "laplacian mean map",
        "count",
        "inv cal",
        "prop svm, linear",
        "gp, trees",
        "em",
        "em, trees",
    ],
    "no training rows",
)


def fitted_as(name, n_classes=3, d=3):
    X, y, bags, _ = rows(d=d)
    totals = Totals.from_labels(y % n_classes, bags)
    return clone(MODELS[name]).fit(X, bags=bags, proportions=totals)


def assert_predicts_nearly_alike(one, other, d=3):
    """Compare new rows, far rows and single precision, without and with totals."""
    X, y, bags, _ = rows(60, d, seed=4)
    known = {"bags": bags, "proportions": Totals.from_labels(y % len(other.classes_), bags)}
    for new in (X, new_rows(d), 1e4 + new_rows(d, 3), X[:1], X.astype(np.float32)):
        for kwargs in [{}, known][: 1 + (new is X)]:
            np.testing.assert_allclose(
                one.predict_proba(new, **kwargs), other.predict_proba(new, **kwargs), atol=1e-12
            )
            np.testing.assert_array_equal(one.predict(new, **kwargs), other.predict(new, **kwargs))


@pytest.mark.parametrize("name", MODELS)
def test_every_estimator_predicts_what_it_did(name):
    model = fitted_as(name)
    content = written(model)
    saved = read(content)
    assert_predicts_nearly_alike(saved.model, model)
    assert type(saved.model) is type(model)
    assert document(content)["version"] == 2
    assert not hasattr(saved.model, "transduction_")
    assert saved.contents == contains_rows(model) == contains_rows(saved.model)
    assert saved.contents == CONTAINS.get(name, saved.contents)
    if "candidates" not in document(content)["model"]["left_out"]:
        assert written(saved.model) == content
    assert written(model, labels_only=True, ids=range(80))
    X = rows()[0]
    if saved.contents == "no training rows":
        assert not any(row.tobytes() in content for row in (*X, *(X - X.mean(axis=0))))


@pytest.mark.parametrize("n_classes", [1, 2])
@pytest.mark.parametrize(
    "name",
    ["weighted knn", "mean map", "count", "inv cal", "inv cal, rbf", "gp", "em", "em, trees"],
)
def test_one_class_and_two(name, n_classes):
    model = fitted_as(name, n_classes)
    assert len(model.classes_) == n_classes
    assert_predicts_nearly_alike(again(model), model)


def test_functions_and_coefficients_come_back():
    for name in ("mean map", "inv cal", "prop svm, linear"):
        model = fitted_as(name)
        loaded = again(model)
        np.testing.assert_allclose(loaded.coef_, model.coef_, atol=1e-12)
        np.testing.assert_allclose(loaded.intercept_, model.intercept_, atol=1e-12)
    for name in ("inv cal, rbf", "prop svm"):
        model = fitted_as(name)
        functions = model.decision_function(new_rows())
        np.testing.assert_allclose(again(model).decision_function(new_rows()), functions)
    loaded = again(fitted_as("calibrated"))
    assert isinstance(loaded.estimator_, LPLLP)
    assert loaded.weights_ == {"LPLLP": 1.0}


def test_features_that_are_far_from_0_or_constant():
    X, _, bags, totals = rows()
    X = np.column_stack([X[:, :2] + 1e6, np.full(80, 5.0)])
    for model in (MeanMap(), EMLLP(), AggregateGP("rbf"), AutoLLP(["mean-map"], cv=2)):
        model.fit(X, bags=bags, proportions=totals)
        np.testing.assert_allclose(
            again(model).predict_proba(X + 0.1), model.predict_proba(X + 0.1), atol=1e-12
        )


def test_landmarks_of_trees(monkeypatch):
    """With very many bags, landmarks replace the leaves of the trees."""
    monkeypatch.setattr(aggregate_gp, "_MAX_DIRECTIONS", 4)
    model = fitted_as("gp, trees")
    assert contains_rows(model) == "no training rows"
    assert_predicts_nearly_alike(again(model), model)
    assert written(again(model)) == written(model)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_trees_as_arrays_are_those_of_scikit_learn(n_outputs):
    rng = np.random.default_rng(0)
    X = rng.integers(12, size=(300, 4)).astype(np.float32)
    Y = rng.uniform(size=(300, n_outputs))
    grown = ExtraTreesRegressor(7, min_samples_leaf=2, random_state=0).fit(X, Y)
    # In single precision, 1e-12 above a threshold is at the threshold.
    thresholds = grown.estimators_[0].tree_.threshold
    thresholds[0] = np.float32(thresholds[0])
    near = np.full((2, 4), thresholds[0])
    near[1] += 1e-12
    new = np.vstack([X, rng.uniform(-1, 13, size=(500, 4)), near])
    np.testing.assert_array_equal(Forest.of(grown).apply(new), grown.apply(new))
    predicted = grown.predict(new).reshape(len(new), -1)
    np.testing.assert_array_equal(ForestRegressor.of(grown).predict(new), predicted)


def test_parts_that_cannot_be_saved():
    X, _, bags, totals = rows()
    known = {"bags": bags, "proportions": totals}

    def linear(A, B):
        return A @ B.T

    other = EMLLP(LogisticRegression(), max_iter=1)
    boosted = EMLLP("boosting", cross_fit=0, max_iter=1)
    for model in (boosted, other, CalibratedLLP(other, cv=2)):
        with pytest.raises(SavedModelError, match="EMLLP with 'logistic' or 'trees'"):
            written(model.fit(X, **known))
    with pytest.raises(SavedModelError, match="the model's kernel: found a function"):
        written(MeanMap(linear).fit(X, **known))
    with pytest.raises(SavedModelError, match="the model's kernel: found precomputed"):
        written(MeanMap("precomputed").fit(X @ X.T, **known))

    class Mine(MeanMap):
        pass

    with pytest.raises(SavedModelError, match=r"candidate0: found Mine\. Allowed: LPLLP"):
        written(CalibratedLLP(Mine(), cv=2).fit(X, **known))


def test_models_within_models():
    inner = fitted_as("calibrated")
    for level in range(10):
        outer = deepcopy(inner)
        outer.candidates_ = {"LPLLP": inner}
        inner = outer
        if level == 2:
            assert_predicts_nearly_alike(again(outer), outer)
    with pytest.raises(SavedModelError, match="at most 8 levels"):
        written(outer)


def changed(content, compression=zipfile.ZIP_STORED, **instead):
    """Return the zip with members changed (None: taken away), their checksums right."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as whole:
        for name, part in members(content).items():
            part = instead.get(name.split(".")[0], part)
            if part is not None:
                whole.writestr(name, part)
    return file.getvalue()


def as_npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def array_in(content, key):
    return np.load(io.BytesIO(members(content)[f"{key}.npy"]))


def refused(content, match):
    with pytest.raises(SavedModelError, match=match) as caught:
        read(content)
    assert ". Allowed: " in str(caught.value)
    assert ". Hint: " in str(caught.value)
    return caught.value


with warnings.catch_warnings(action="ignore"):
    KNN, ANCHOR, RBF = (written(fitted(name)) for name in ("knn", "anchor", "rbf"))
    LABELS = written(fitted("knn"), labels_only=True, ids=[f"row {i}" for i in range(80)])
    TREES, GP, EXPANSION, LOGISTIC, AUTO = (
        written(fitted_as(name))
        for name in ("em, trees", "gp, both", "inv cal, rbf", "em, one round", "auto, small")
    )
CONTENTS = {
    "knn": KNN,
    "anchor": ANCHOR,
    "rbf": RBF,
    "labels": LABELS,
    "trees": TREES,
    "gp": GP,
    "expansion": EXPANSION,
    "logistic": LOGISTIC,
    "auto": AUTO,
}
every_content = pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
any_content = st.sampled_from(list(CONTENTS.values()))


def test_errors_name_file_and_member(tmp_path):
    path = tmp_path / "home.model"
    path.write_bytes(changed(KNN, points=as_npy(np.ones((2, 2)))))
    with pytest.raises(SavedModelError) as caught:
        load_model(path)
    assert str(caught.value) == (
        f"{path}, points.npy: found shape (2, 2). Allowed: any number of points × 3 features. "
        "Hint: take a copy of the file that was not changed, or save the model again."
    )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "no such file")


def test_what_is_no_zip():
    for content in (b"", b"PK", b"no zip at all" * 100, pickle.dumps(fitted("rbf"))):
        refused(content, "no zip file, or only a part of one")
    for length in range(0, len(KNN), 97):
        refused(KNN[:length], "no zip file, or only a part of one")
    refused(as_npy(np.ones(3)), "no zip file")


@every_content
def test_every_member_is_needed_and_checked(content):
    names = [name.split(".")[0] for name in members(content)]
    assert isinstance(read(changed(content)), SavedModel)
    for name in names:
        refused(changed(content, **{name: None}), f"no {name}")
        refused(changed(content, **{name: b""}), f"{name}.*bytes that cannot be read")
        refused(changed(content, **{name: b"\x93NUMPY\x01"}), f"{name}.*bytes that cannot be read")
        whole = members(content)
        part = whole.get(f"{name}.npy", whole["model.json"])
        refused(changed(content, **{name: part[:-1]}), name)
        refused(changed(content, **{name: part + b"x"}), name)


class Mine:
    def __reduce__(self):
        return pytest.fail, ("a pickle was read",)


@every_content
def test_no_pickle_is_read(content):
    odd = np.empty(80, dtype=object)
    odd[:] = [Mine() for _ in range(80)]
    for name in members(content):
        if name.endswith(".npy"):
            refused(changed(content, **{name[:-4]: as_npy(odd)}), r"found values of dtype object")
    refused(changed(content, model=pickle.dumps(odd)), "model.json: found bytes")


def of(content, key, change):
    return changed(content, **{key: as_npy(change(array_in(content, key)))})


def with_value(value):
    def change(array):
        array = array.copy()
        array[(0,) * array.ndim] = value
        return array

    return change


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (KNN, "points"),
        (KNN, "point_scales"),
        (KNN, "smallest_distance"),
        (KNN, "voices"),
        (KNN, "overall"),
        (ANCHOR, "anchors"),
        (ANCHOR, "usual_scales"),
        (ANCHOR, "voices"),
        (RBF, "rows"),
        (RBF, "gamma"),
        (LABELS, "label_distributions"),
        (TREES, "threshold"),
        (TREES, "values"),
        (GP, "overall"),
        (GP, "unit"),
        (GP, "term0/weights"),
        (EXPANSION, "rows"),
        (EXPANSION, "weights"),
        (EXPANSION, "intercept"),
        (EXPANSION, "center"),
        (EXPANSION, "slope"),
        (LOGISTIC, "coef"),
        (LOGISTIC, "scale"),
        (AUTO, "weights"),
        (AUTO, "center"),
        (AUTO, "calibration/shifts"),
        (AUTO, "calibration0/weights"),
        (AUTO, "candidate0/weights"),
        (AUTO, "candidate1/voices"),
    ],
)
def test_arrays_of_wrong_values_and_shapes(content, key):
    for value in (np.nan, np.inf, -np.inf):
        refused(of(content, key, with_value(value)), f"{key}.npy: found the value (nan|-?inf)")
    for dtype in (np.int64, np.complex128, ">f8", np.float16, "U5", "V8", "M8[s]"):
        refused(of(content, key, lambda a, to=dtype: np.zeros(a.shape, to)), "values of dtype")
    refused(of(content, key, lambda a: a[..., None]), "found shape")
    refused(of(content, key, lambda a: np.stack([a, a])), "found shape")
    if array_in(content, key).ndim:
        refused(of(content, key, lambda a: a[:0]), "found shape")
        refused(of(content, key, lambda a: a[:-1]), "found shape|found the value 79|and a sum of")


@pytest.mark.parametrize(
    ("content", "key", "change", "message"),
    [
        (KNN, "points", with_value(1e101), "the value 1e.101"),
        (KNN, "point_of_row", with_value(80), "the value 80. Allowed: finite numbers from 0 to 79"),
        (KNN, "point_of_row", with_value(-1), "the value -1"),
        (KNN, "point_of_row", lambda a: np.minimum(a, 5), "some points stand for no row"),
        (KNN, "point_of_row", lambda a: a[:-1], r"voices.npy: found shape \(80, 3\)"),
        (KNN, "point_scales", with_value(0.0), "the value 0.0"),
        (KNN, "smallest_distance", with_value(-1.0), "the value -1.0"),
        (RBF, "gamma", with_value(0.0), "the value 0.0"),
        (RBF, "rows", lambda a: a[:-1], r"voices.npy: found shape \(80, 3\)"),
        (ANCHOR, "usual_scales", with_value(-1.0), "the value -1.0"),
        (LABELS, "labels", with_value(3), "the value 3"),
        (LABELS, "ids_ends", with_value(9), "ends that do not fit"),
        (LABELS, "ids_ends", lambda a: a + 1, "ends that do not fit"),
        (LABELS, "ids_ends", with_value(0), "the value 0"),
        (LABELS, "ids_text", with_value(255), "not UTF-8"),
        (LABELS, "ids_text", lambda a: np.where(a == ord("1"), ord("2"), a), "same id twice"),
        (TREES, "left", with_value(-1), "the value -1"),
        (TREES, "left", with_value(10**6), "the value 1000000"),
        (TREES, "left", with_value(0), "right.npy: found a node with one child"),
        (TREES, "left", lambda a: np.minimum(a, 5), "left.npy: found a child before its parent"),
        (TREES, "right", lambda a: np.minimum(a, 5), "right.npy: found a child before its"),
        (TREES, "feature", with_value(3), "the value 3. Allowed: finite numbers from 0 to 2"),
        (TREES, "roots", with_value(1), "trees in disorder"),
        (TREES, "roots", lambda a: a[::-1].copy(), "trees in disorder"),
        (TREES, "roots", with_value(-1), "the value -1"),
        (TREES, "values", lambda a: a[:, :-1], "found shape"),
        (TREES, "edges", lambda a: a[:-1], "as n_edges says"),
        (TREES, "n_edges", with_value(255), "the value 255"),
        (TREES, "n_edges", with_value(0), "the value 0"),
        (TREES, "n_edges", with_value(200), "as n_edges says"),
        (LOGISTIC, "present", with_value(1), "classes in disorder"),
        (LOGISTIC, "present", with_value(3), "the value 3"),
        (LOGISTIC, "present", lambda a: a[:2], "coef.npy: found shape"),
        (LOGISTIC, "scale", with_value(0.0), "the value 0.0"),
        (EXPANSION, "rows", lambda a: a[:-1], "weights.npy: found shape"),
        (EXPANSION, "slope", with_value(-1.0), "the value -1.0"),
        (GP, "term_weights", with_value(2.0), "the value 2.0"),
        (GP, "term_weights", lambda a: np.append(a, 0.1), "no 'term"),
        (AUTO, "weights", with_value(0.9), "sum of"),
        (AUTO, "weights", lambda a: np.ones(1), "candidates that do not fit"),
        (AUTO, "calibration/weights", lambda a: a / 2, "a sum of 0.5"),
        (AUTO, "calibration/temperatures", lambda a: a[:-1], "weights.npy: found shape"),
    ],
)
def test_values_that_do_not_fit_together(content, key, change, message):
    refused(of(content, key, change), message)


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (KNN, "voices"),
        (ANCHOR, "voices"),
        (RBF, "voices"),
        (KNN, "overall"),
        (LABELS, "label_distributions"),
    ],
)
def test_soft_labels_that_are_no_shares_are_refused(content, key):
    """Negative or huge ones, and rows that do not sum to 1; rounding is let pass."""
    for value in (-5.0, 1e300, 1.7e308, 1.5, -1e-4):
        refused(of(content, key, with_value(value)), f"{key}.npy: found row 0 with a least value")
    refused(of(content, key, lambda a: 0.5 * a), "sum of 0.5")
    refused(of(content, key, lambda a: np.full_like(a, 1.7e308)), "sum of inf")
    refused(of(content, key, lambda a: a - a[..., :1] - 1.0), "least value of -")
    read(of(content, key, lambda a: a * (1.0 + 1e-9) - 1e-12))
    read(of(content, key, lambda a: a.astype(np.float32)))


@pytest.mark.parametrize(
    ("content", "key"),
    [(KNN, "point_scales"), (KNN, "smallest_distance"), (ANCHOR, "usual_scales")],
)
def test_distances_that_rows_cannot_have_are_refused(content, key):
    refused(of(content, key, with_value(1e301)), f"{key}.npy: found the value 1e.301")


def test_flags_are_flags():
    part = members(ANCHOR)["anchor_is_row.npy"]
    refused(changed(ANCHOR, anchor_is_row=part[:-1] + b"\x07"), "the value 7")


def edited(content, **fields):
    whole = document(content)
    for name, value in fields.items():
        if value is ...:
            del whole[name]
        else:
            whole[name] = value
    return changed(content, model=json.dumps(whole))


def infinite(content, field):
    """Return a document in which a number is too large for a float."""
    return json.dumps({**document(content), field: "huge"}).replace('"huge"', "1e999")


def narrow(content):
    return {**document(content)["candidate1"], "n_features": 2}


def model_with(**parameters):
    described = deepcopy(document(KNN)["model"])
    described["parameters"] |= parameters
    return described


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (edited(KNN, format="another"), "found the format 'another'"),
        (edited(KNN, format=1), "'format' of type str"),
        (edited(KNN, format=...), "no 'format'"),
        (edited(KNN, version=3, apportion="7.1"), r"version 3 .* apportion 7.1.*install that"),
        (edited(KNN, version=True), "'version': True"),
        (edited(KNN, classes=[]), "at least one"),
        (edited(KNN, classes=[["int", 0], ["int", 0], ["int", 1]]), "different classes"),
        (edited(KNN, classes=[["int", 1], ["int", 0], ["int", 2]]), "sorted"),
        (edited(KNN, classes=[["int", 0], ["int", 1]]), "voices.npy: found shape"),
        (edited(KNN, classes=[["int", 0], ["int", 1.0], ["int", 2]]), r"the class \['int', 1.0\]"),
        (edited(KNN, classes=[0, 1, 2]), "the class 0"),
        (edited(KNN, classes=[["object", None]]), "the class"),
        (edited(KNN, classes=[[["int"], 1]]), "the class"),
        (edited(KNN, n_features=4), "points.npy: found shape"),
        (edited(KNN, n_features=-1), "points.npy: found shape"),
        (edited(KNN, feature_names=["a"]), "1 names of features"),
        (edited(KNN, feature_names=["a", "b", 3]), "names of features"),
        (edited(KNN, extra=[]), "'extra' of type dict"),
        (edited(KNN, labels_only=True), "no labels.npy"),
        (edited(LABELS, labels_only=False), "no 'n_features'"),
        (edited(LABELS, ids="int"), "no ids.npy"),
        (edited(KNN, graph=document(RBF)["graph"]), "no rows.npy"),
        (edited(KNN, graph={"class": "PrecomputedGraph", "parameters": {}}), "the class 'Precom"),
        (edited(KNN, graph={"class": "KNNGraph", "parameters": {"k": 3}}), "makes no model"),
        (
            edited(KNN, graph={"class": "KNNGraph", "parameters": {"n_neighbors": 0}}),
            "'n_neighbors' parameter of KNNGraph must be",
        ),
        (
            edited(ANCHOR, graph={"class": "AnchorGraph", "parameters": {"n_nearest": "x"}}),
            "'n_nearest' parameter of AnchorGraph must be",
        ),
        (edited(KNN, model=model_with(alpha=2.0)), "'alpha' parameter of LPLLP"),
        (edited(KNN, model=model_with(max_iter=10**400)), "makes no model"),
        (edited(KNN, model=model_with(alpha=[[]])), "'alpha' parameter of LPLLP"),
        (edited(KNN, model=model_with(magic=2.0)), "parameters of another version.*magic"),
        (edited(KNN, model=model_with(graph="none")), "'graph' parameter of LPLLP"),
        (edited(KNN, model=model_with(graph={"class": "LPLLP", "parameters": {}})), "class 'LPL"),
        (edited(KNN, model={"class": "os.system", "parameters": {}}), "the class 'os.system'"),
        (edited(KNN, model={"class": "WeighingClassifier", "parameters": {}}), "the class 'Weigh"),
        (edited(KNN, model={"class": "MeanMap", "parameters": {}}), "no 'kernel'"),
        (edited(TREES, rule="forest"), "the rule 'forest'"),
        (edited(TREES, rule="logistic"), "no present.npy"),
        (edited(TREES, n_features=2), "n_edges.npy: found shape"),
        (edited(LOGISTIC, rule="trees"), "no n_edges.npy"),
        (edited(EXPANSION, kernel="precomputed"), "the kernel 'precomputed'"),
        (edited(EXPANSION, kernel="trees"), "the kernel 'trees'"),
        (edited(EXPANSION, kernel="linear"), "weights.npy: found shape"),
        (edited(EXPANSION, gamma=-1.0), "'gamma': -1.0"),
        (edited(EXPANSION, gamma=1), "'gamma' of type float"),
        (edited(EXPANSION, centered=None), "'centered' of type bool"),
        (changed(EXPANSION, model=infinite(EXPANSION, "coef0")), "'coef0': inf"),
        (edited(GP, term0={"function": "exec"}), "the function 'exec'"),
        (edited(AUTO, candidates=["a", "a"]), "candidates that do not fit"),
        (edited(AUTO, candidates=["a"]), "candidates that do not fit"),
        (edited(AUTO, candidates=["a", 1]), "a list of str"),
        (edited(AUTO, standardized=[True, 1]), "a list of bool"),
        (edited(AUTO, candidate0=document(KNN)), "candidate0/points.npy"),
        (edited(AUTO, reaches=[0, 5]), "a candidate that sees the rows around.*add_context"),
        (edited(AUTO, candidate0=document(AUTO)), "candidate0/unit.npy|no candidate0/"),
        (edited(AUTO, candidate1=narrow(AUTO)), "candidate1/points.npy: found shape"),
        (changed(KNN, model="[1]"), "list .* Allowed: an object"),
        (changed(KNN, model="{"), "model.json: found bytes that cannot be read"),
        (changed(KNN, model=b"\xff\xfe"), "model.json: found bytes that cannot be read"),
        (changed(KNN, model="[" * 100_000), "model.json: found bytes that cannot be read"),
        (changed(KNN, model='{"a": NaN}'), "NaN is no number"),
        (changed(KNN, model=f'{{"a": {"1" * 5000}}}'), "model.json: found bytes that"),
        (changed(KNN, model=" " * (2**24 + 1)), "found 16.0 MiB. Allowed"),
    ],
)
def test_documents_that_are_not_ours(content, message):
    refused(content, message)


def test_models_of_versions_with_a_context_are_read_if_no_candidate_sees_any():
    described = document(AUTO)["model"]
    described["parameters"]["context"] = 0
    for reaches in ({}, {"reaches": [0, 0]}):
        old = read(edited(AUTO, model=described, **reaches)).model
        assert (old.predict_proba(new_rows()) == read(AUTO).model.predict_proba(new_rows())).all()
    described["parameters"]["horizon"] = 0
    refused(edited(AUTO, model=described), "parameters of another version.*horizon")


def test_candidates_of_other_features_are_refused():
    model, other = fitted_as("auto, small"), fitted_as("mean map", d=6)
    model.candidates_[next(iter(model.candidates_))] = other
    refused(written(model), "a candidate of 6 features. Allowed: 3")


def header(shape, descr="<f8", version=1):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (header((10**12, 3)) + b"x" * 48, "48 bytes for shape .*1000000000000, 3"),
        (header((2**62, 3)) + b"x" * 48, "48 bytes for shape"),
        (header((-1, 3)) + b"x" * 48, "found shape"),
        (header((True, 3)) + b"x" * 24, None),
        (header("('a', 3)") + b"x" * 48, "bytes that cannot be read"),
        (header("exit()") + b"x" * 48, "bytes that cannot be read"),
        (header("(" * 5000) + b"x" * 48, "bytes that cannot be read"),
        (header("-" * 9000 + "1") + b"x" * 48, "bytes that cannot be read"),
        (header((2, 3), version=2) + b"x" * 48, "another version of the format of arrays"),
        (header((2, 3), version=9) + b"x" * 48, "bytes that cannot be read"),
        (header((2, 3), descr="|O") + b"x" * 48, "dtype object"),
        (header((2, 3), descr="f8,f8") + b"x" * 96, "cannot be read|values of dtype"),
        (header((2, 3)) + b"x" * 47, "47 bytes for shape"),
    ],
)
def test_headers_that_promise_what_is_not_there(part, message):
    refused(changed(KNN, points=part), message or "points.npy|makes no model|voices")


def test_a_zip_bomb_is_refused_before_anything_is_allocated(monkeypatch):
    refused(changed(KNN, zipfile.ZIP_DEFLATED), "model.json: found compressed data")
    bomb = changed(KNN, points=header((10**6, 3)) + bytes(24 * 10**6))
    assert refused(bomb, "point_of_row|point_scales")
    monkeypatch.setattr(archive, "free_bytes", lambda: 1000)
    refused(bomb, r"points.npy: found an array of 22.9 MiB.*0.0 MiB of memory that are free")


@pytest.mark.slow
def test_large_arrays_are_neither_written_nor_read_twice(tmp_path):
    import tracemalloc

    n = 1_000_000
    graph = RBFGraph.from_state({}, {"rows": np.ones((n, 10)), "gamma": np.array(1.0)})
    model = fitted("rbf")
    model._restore(model.classes_, graph, np.ones((n, 2)), np.ones(2) / 2)
    held = sum(array.nbytes for array in model._state().arrays.values())
    tracemalloc.start()
    save_model(tmp_path / "model", model)
    assert tracemalloc.get_traced_memory()[1] < 40e6 < held / 2
    tracemalloc.stop()
    assert (tmp_path / "model").stat().st_size < held + 10_000
    tracemalloc.start()
    with archive.open_zip(tmp_path / "model") as file:
        X = file.array("rows", RBFGraph.stored["rows"], {})
    assert tracemalloc.get_traced_memory()[1] < X.nbytes + 5e6
    tracemalloc.stop()


def believed(content):
    """Return whether a file is read; whatever else happens is an error."""
    try:
        saved = read(content)
    except SavedModelError:
        return False
    if saved.model is not None:
        proba = saved.model.predict_proba(rows()[0])
        assert proba.shape == (80, len(saved.classes))
        assert np.isfinite(proba).all()
    return True


@given(data=st.data(), content=any_content)
def test_flipped_bytes_are_noticed(data, content):
    spoiled = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3))):
        spoiled[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    believed(bytes(spoiled))


@pytest.mark.slow
def test_every_flipped_byte_of_the_data_is_noticed_and_every_other_survived():
    """The beginning and the end are where the zip's own fields are."""
    model_json = KNN.index(b'{\n "format"')
    for place in range(0, len(KNN), 7):
        spoiled = bytearray(KNN)
        spoiled[place] ^= 0x21
        if believed(bytes(spoiled)):
            assert members(bytes(spoiled)) == members(KNN)
    spoiled = bytearray(KNN)
    spoiled[model_json + 50] ^= 1
    refused(bytes(spoiled), "model.json: found bytes that cannot be read .*CRC")


@given(data=st.data(), content=any_content)
def test_any_document_is_refused_or_read(data, content):
    whole = document(content)
    place, key = whole, data.draw(st.sampled_from(sorted(whole)))
    while place[key] and isinstance(place[key], dict | list) and data.draw(st.booleans()):
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else [0]))
    scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
    place[key] = data.draw(
        st.recursive(scalars, lambda s: st.lists(s) | st.dictionaries(st.text(), s), max_leaves=5)
    )
    believed(changed(content, model=json.dumps(whole)))


@given(data=st.data(), content=any_content)
def test_any_bytes_for_an_array_are_refused_or_read(data, content):
    name = data.draw(st.sampled_from(sorted(members(content))[1:]))
    part = bytearray(members(content)[name])
    for _ in range(data.draw(st.integers(1, 3))):
        part[data.draw(st.integers(0, min(len(part), 128) - 1))] = data.draw(st.integers(0, 255))
    believed(changed(content, **{name.split(".")[0]: bytes(part)}))
