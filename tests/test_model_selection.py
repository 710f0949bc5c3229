"""Folds of whole bags, scorers that see totals, and searches that see no label."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone, is_classifier
from sklearn.datasets import make_blobs
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.metrics import mean_poisson_deviance
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from apportion import EMLLP, LPLLP, InvCal, KNNGraph, MeanMap, SupervisionError, Totals
from apportion.datasets import make_bags
from apportion.metrics import bag_proportion_error, proportion_deviance, smoothness
from apportion.model_selection import METRICS, BagKFold, ProportionScorer, ProportionSearchCV


def blobs(seed=0, n=120, c=3, n_bags=12):
    X, y = make_blobs(n, centers=c, random_state=seed, cluster_std=2.5)
    bags, totals = make_bags(None, y, n_bags, random_state=seed)
    return X, y, bags, totals


@given(
    seed=st.integers(0, 1000),
    n_bags=st.integers(2, 15),
    n_splits=st.integers(2, 15),
    shuffle=st.booleans(),
)
def test_folds_hold_out_whole_bags_once(seed, n_bags, n_splits, shuffle):
    rng = np.random.default_rng(seed)
    bags = np.concatenate([np.arange(n_bags), rng.integers(0, n_bags, 40)]).astype(object)
    bags[rng.random(len(bags)) < 0.1] = None
    n_there = len({bag for bag in bags if bag is not None})
    folds = BagKFold(n_splits, shuffle=shuffle, random_state=seed)
    if n_splits > n_there:
        with pytest.raises(ValueError, match=f"from 2 to the number of bags, {n_there}"):
            list(folds.split(bags, bags=bags))
        return
    out = np.zeros(len(bags), int)
    for train, test in folds.split(np.zeros((len(bags), 1)), bags=bags):
        assert len(test) > 0
        assert not set(bags[test]) & set(bags[train])
        np.testing.assert_array_equal(np.sort(np.append(train, test)), np.arange(len(bags)))
        out[test] += 1
    np.testing.assert_array_equal(out, [0 if bag is None else 1 for bag in bags])


def test_folds_are_balanced_and_do_not_depend_on_the_order_of_rows():
    bags = np.repeat(np.arange(10), np.arange(1, 11))
    sizes = [len(test) for _, test in BagKFold(5).split(bags, bags=bags)]
    assert max(sizes) - min(sizes) <= 1
    order = np.random.default_rng(0).permutation(len(bags))
    for one, two in zip(
        BagKFold(3).split(bags, groups=bags),
        BagKFold(3).split(bags, bags=bags[order]),
        strict=True,
    ):
        assert set(bags[one[1]]) == set(bags[order][two[1]])
    with pytest.raises(SupervisionError, match=r"no bag ids.*enable_metadata_routing"):
        list(BagKFold().split(bags))
    dealt = {
        tuple(np.concatenate([test for _, test in folds.split(bags, bags=bags)]).tolist())
        for folds in (BagKFold(3, shuffle=True, random_state=seed) for seed in range(10))
    }
    assert len(dealt) > 5
    with pytest.raises(ValueError, match="5 values for 3 rows"):
        list(BagKFold().split(np.zeros(3), bags=np.arange(5)))
    assert BagKFold(4).get_n_splits() == 4


def test_scores_are_the_metrics_bag_by_bag():
    X, _, bags, totals = blobs()
    model = MeanMap().fit(X, bags=bags, proportions=totals)
    known = {"bags": bags, "proportions": totals}
    P = model.predict_proba(X)
    error = ProportionScorer("absolute_error")(model, X, **known)
    assert error == pytest.approx(-bag_proportion_error(model.predict(X), bags, totals))
    deviance = ProportionScorer("deviance")(model, X, **known)
    assert deviance == pytest.approx(-proportion_deviance(P, bags, totals))
    smooth = ProportionScorer("smoothness")(model, X, **known)
    labels = model.predict(X, **known)
    assert smooth == pytest.approx(smoothness(labels, KNNGraph().fit(X)))
    near = ProportionScorer("smoothness", graph=KNNGraph(3))(model, X, **known)
    assert near == pytest.approx(smoothness(labels, KNNGraph(3).fit(X)))


def test_deviance_is_that_of_poisson_counts():
    X, y, bags, totals = blobs(1)
    P = MeanMap().fit(X, bags=bags, proportions=totals).predict_proba(X)
    given = np.array([[((y == h) & (bags == k)).sum() for h in range(3)] for k in range(12)])
    found = np.array([P[bags == k].sum(axis=0) for k in range(12)])
    wanted = mean_poisson_deviance(given.ravel(), found.ravel()) * given.size / len(X)
    assert proportion_deviance(P, bags, totals) == pytest.approx(wanted)
    assert proportion_deviance(np.eye(3)[y], bags, totals) == pytest.approx(0.0, abs=1e-12)
    wide = Totals.from_intervals(
        {k: dict.fromkeys(range(3), 0.0) for k in range(12)},
        {k: dict.fromkeys(range(3), 1.0) for k in range(12)},
    )
    assert proportion_deviance(P, bags, wide) == pytest.approx(0.0, abs=1e-12)


def test_perfect_labels_have_no_deviance():
    assert proportion_deviance(np.eye(2), [0, 1], np.eye(2)) == 0.0
    pure = np.tile([1.0, 0.0], (20, 1))
    assert proportion_deviance(pure, np.zeros(20, int), np.array([[1.0, 0.0]])) == 0.0
    inside = Totals.from_intervals({0: {"a": 0.5, "b": 0.0}}, {0: {"a": 1.0, "b": 0.5}})
    assert proportion_deviance(pure[:4], np.zeros(4, int), inside) == 0.0
    assert proportion_deviance(pure[:2], [0, 0], np.array([[0.5, 0.5]])) > 0.1


def test_scorers_say_what_they_need():
    X, _, bags, totals = blobs()
    model = MeanMap().fit(X, bags=bags, proportions=totals)
    with pytest.raises(SupervisionError, match="enable_metadata_routing"):
        ProportionScorer()(model, X)
    with pytest.raises(ValueError, match="one of 'absolute_error', 'deviance', 'smoothness'"):
        ProportionScorer("accuracy")(model, X, bags=bags, proportions=totals)
    for scoring in ("accuracy", None, {"a": ProportionScorer()}, 5):
        with pytest.raises(ValueError, match="'scoring' parameter of ProportionSearchCV"):
            ProportionSearchCV(model, {}, scoring=scoring).fit(X, bags=bags, proportions=totals)
    kernel = rbf_kernel(X)
    model = InvCal("precomputed").fit(kernel, bags=bags, proportions=totals)
    with pytest.raises(ValueError, match="holds no features in which to find neighbors"):
        ProportionScorer("smoothness")(model, kernel, bags=bags, proportions=totals)
    with pytest.raises(SupervisionError, match="two bags or more"):
        ProportionSearchCV(model, {}).fit(X, bags=np.zeros(120), proportions={0: {0: 0.5, 1: 0.5}})


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_both_searches_agree(metric):
    """Ours needs no set-up; scikit-learn's finds the same with routing on."""
    X, _, bags, totals = blobs(2)
    grid = {"C": [1e-4, 1e-2, 1.0], "kernel": ["linear", "rbf"]}
    ours = ProportionSearchCV(InvCal(), grid, scoring=metric, cv=4)
    ours.fit(X, bags=bags, proportions=totals)
    assert not sklearn.get_config()["enable_metadata_routing"]
    with sklearn.config_context(enable_metadata_routing=True):
        theirs = GridSearchCV(
            InvCal(), grid, scoring=ProportionScorer(metric), cv=BagKFold(4), error_score="raise"
        ).fit(X, bags=bags, proportions=totals)
    assert ours.best_params_ == theirs.best_params_
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
    )
    assert ours.best_score_ == theirs.best_score_ == ours.cv_results_["mean_test_score"].max()
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_array_equal(ours.predict_proba(X), ours.best_estimator_.predict_proba(X))
    np.testing.assert_array_equal(ours.decision_function(X), theirs.decision_function(X))


def test_scores_are_those_of_a_loop_by_hand():
    X, _, bags, totals = blobs(3)
    search = ProportionSearchCV(MeanMap(), {"C": [1e-3, 1.0]}, cv=3)
    search.fit(X, bags=bags, proportions=totals)
    for i, C in enumerate([1e-3, 1.0]):
        scores = []
        for train, test in BagKFold(3).split(X, bags=bags):
            model = MeanMap(C=C).fit(X[train], bags=bags[train], proportions=totals)
            scores.append(-bag_proportion_error(model.predict(X[test]), bags[test], totals))
        assert search.cv_results_["mean_test_score"][i] == pytest.approx(np.mean(scores))


def test_no_label_is_looked_at_to_score():
    """Labels in y serve to fit; scores of held-out bags do not change with them."""
    X, y, bags, totals = blobs(4)

    class Blind(MeanMap):
        def fit(self, X, y=None, *, bags=None, proportions=None):
            return super().fit(X, None, bags=bags, proportions=proportions)

    without = ProportionSearchCV(Blind(), {"C": [0.01, 1.0]}).fit(X, bags=bags, proportions=totals)
    given = ProportionSearchCV(Blind(), {"C": [0.01, 1.0]}).fit(X, y, bags=bags, proportions=totals)
    np.testing.assert_array_equal(
        given.cv_results_["mean_test_score"], without.cv_results_["mean_test_score"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("n_bags", [12, 120])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_form_of_input_goes_through(n_bags):
    """With as many bags as rows, too, where an array of totals would be cut with the rows."""
    X, y, bags, totals = blobs(5, n_bags=n_bags)
    grid = {"meanmap__C": [0.01, 1.0]}
    pipeline = make_pipeline(StandardScaler(), MeanMap())
    table = pd.DataFrame(totals.lower, index=[f"day {k}" for k in range(n_bags)])
    days = pd.Series([f"day {k}" for k in bags])
    for rows, ids, shares in [
        (X, bags, totals),
        (X, bags, totals.lower),
        (pd.DataFrame(X, columns=["a", "b"]), days, table),
    ]:
        search = ProportionSearchCV(pipeline, grid, n_jobs=1).fit(
            rows, bags=ids, proportions=shares
        )
        assert search.best_estimator_[-1].transduction_.shape == (120,)
        assert search.score(rows, bags=ids, proportions=shares) > -0.4
        assert search.n_features_in_ == 2
        under = search.predict(rows, bags=ids, proportions=shares)
        np.testing.assert_array_equal(under, search.best_estimator_[-1].transduction_)
        if rows is not X:
            assert search.feature_names_in_.tolist() == ["a", "b"]
        assert search.classes_.tolist() == [0, 1, 2]
        assert (search.predict(rows) == y).mean() > 0.5


def test_rows_in_no_bag_and_few_labels_and_precomputed_kernels():
    X, y, bags, _ = blobs(6)
    ids = bags.astype(object)
    ids[::10] = None
    inside = [i for i in range(120) if ids[i] is not None]
    totals = Totals.from_labels(y[inside], bags[inside])
    some = np.full(120, np.nan)
    some[:5] = y[:5]
    kernel = rbf_kernel(X, gamma=0.05)
    search = ProportionSearchCV(InvCal("precomputed"), {"C": [0.1, 10.0]})
    search.fit(kernel, some, bags=ids, proportions=totals)
    np.testing.assert_array_equal(search.best_estimator_.transduction_[:5], y[:5])
    assert search.n_splits_ == 5
    three = np.isin(bags, [0, 1, 2])
    few = ProportionSearchCV(MeanMap(), {"C": [0.1, 10.0]}).fit(
        X[three], bags=ids[three], proportions=totals
    )
    assert few.n_splits_ == 3


def test_errors_are_raised_unless_a_score_is_wanted():
    X, _, bags, totals = blobs(7)
    grid = {"C": [0.1, -1.0]}
    with pytest.raises(ValueError, match="'C' parameter of MeanMap"):
        ProportionSearchCV(MeanMap(), grid).fit(X, bags=bags, proportions=totals)
    search = ProportionSearchCV(MeanMap(), grid, error_score=-9.0)
    with pytest.warns(FitFailedWarning, match="5 fits failed"):
        search.fit(X, bags=bags, proportions=totals)
    assert search.best_params_ == {"C": 0.1}
    assert search.cv_results_["mean_test_score"][1] == -9.0


def test_the_face_of_a_search(capsys):
    X, _, bags, totals = blobs(8)
    search = ProportionSearchCV(
        MeanMap(), {"C": [0.01, 0.1]}, verbose=2, return_train_score=True, n_jobs=2
    )
    assert is_classifier(search)
    with pytest.raises(NotFittedError):
        search.predict(X)
    search = clone(search).set_params(n_jobs=None).fit(X, bags=bags, proportions=totals)
    printed = capsys.readouterr().out
    assert "Fitting 5 folds for each of 2 candidates, totalling 10 fits" in printed
    assert printed.count("[CV] END") == 10
    assert {"params", "mean_test_score", "rank_test_score", "mean_train_score"} <= set(
        search.cv_results_
    )
    assert search.refit_time_ > 0
    assert not hasattr(search, "decision_function")
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    bare = ProportionSearchCV(MeanMap(), {"C": [0.01, 0.1]}, refit=False)
    bare.fit(X, bags=bags, proportions=totals)
    assert bare.best_params_ == search.best_params_
    with pytest.raises(AttributeError, match="refit=False"):
        bare.predict(X)


@pytest.mark.slow
def test_side_by_side_gives_the_same():
    X, _, bags, totals = blobs(9)
    alone = ProportionSearchCV(MeanMap(), {"C": [0.01, 0.1]}).fit(X, bags=bags, proportions=totals)
    both = ProportionSearchCV(MeanMap(), {"C": [0.01, 0.1]}, n_jobs=2).fit(
        X, bags=bags, proportions=totals
    )
    np.testing.assert_array_equal(
        both.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"]
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learns_cross_validation_and_prediction_with_totals():
    X, _, bags, totals = blobs(10)
    with sklearn.config_context(enable_metadata_routing=True):
        params = {"bags": bags, "proportions": totals}
        scores = cross_val_score(
            LPLLP(random_state=0), X, cv=BagKFold(3), scoring=ProportionScorer(), params=params
        )
        assert scores.shape == (3,)
        assert (scores <= 0).all()
        several = cross_validate(
            make_pipeline(StandardScaler(), EMLLP()),
            X,
            cv=BagKFold(3),
            scoring={metric: ProportionScorer(metric) for metric in METRICS},
            params=params,
        )
        assert (several["test_smoothness"] <= 1).all()
        pipeline = make_pipeline(StandardScaler(), MeanMap()).fit(X, **params)
        labels = pipeline.predict(X, **params)
    np.testing.assert_array_equal(labels, pipeline[-1].transduction_)


def test_selection_finds_the_kernel_that_xor_needs():
    from apportion.datasets import make_xor

    X, y = make_xor(300, random_state=0)
    bags, totals = make_bags(None, y, 30, random_state=0)
    search = ProportionSearchCV(MeanMap(), {"kernel": ["linear", "rbf"]}, scoring="deviance")
    search.fit(X, bags=bags, proportions=totals)
    assert search.best_params_ == {"kernel": "rbf"}
    assert (search.best_estimator_.transduction_ == y).mean() > 0.95


def test_folds_that_cut_bags_are_refused():
    X, _, bags, totals = blobs(13)
    known = {"bags": bags, "proportions": totals}
    with pytest.raises(SupervisionError, match=r"divides the bag of row \d+.*BagKFold\(5\)"):
        ProportionSearchCV(MeanMap(), {"C": [0.1]}, cv=KFold(3)).fit(X, **known)
    whole = ProportionSearchCV(MeanMap(), {"C": [0.1]}, cv=GroupKFold(3)).fit(X, **known)
    assert whole.n_splits_ == 3
    np.testing.assert_array_equal(whole.transduction_, whole.best_estimator_.transduction_)
    assert whole.bag_report_.error() == 0
    assert whole.label_distributions_.shape == (120, 3)
    with pytest.raises(ValueError, match=r"'cv' parameter of ProportionSearchCV .* 12, or a"):
        ProportionSearchCV(MeanMap(), {"C": [0.1]}, cv=20).fit(X, **known)
    with pytest.raises(SupervisionError, match="found no bags"):
        ProportionSearchCV(MeanMap(), {"C": [0.1]}).fit(X, np.arange(120) % 2)


def test_a_function_can_score():
    X, _, bags, totals = blobs(11)

    def largest_bag_error(estimator, X, y=None, *, bags, proportions):
        labels = estimator.predict(X)
        return -max(
            bag_proportion_error(labels[bags == k], bags[bags == k], proportions)
            for k in np.unique(bags)
        )

    search = ProportionSearchCV(MeanMap(), {"C": [1e-3, 1.0]}, scoring=largest_bag_error)
    search.fit(X, bags=bags, proportions=totals)
    mean = ProportionSearchCV(MeanMap(), {"C": [1e-3, 1.0]}).fit(X, bags=bags, proportions=totals)
    assert search.best_score_ < mean.best_score_
    assert search.score(X, bags=bags, proportions=totals) <= 0


def test_totals_reach_a_search_inside_a_pipeline():
    X, _, bags, totals = blobs(12)
    known = {"bags": bags, "proportions": totals}
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), ProportionSearchCV(MeanMap(), {"C": [0.1, 1.0]}))
        pipeline.fit(X, **known)
        labels = pipeline.predict(X, **known)
    np.testing.assert_array_equal(labels, pipeline[-1].best_estimator_.transduction_)
