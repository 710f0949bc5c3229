"""Totals and bags through scikit-learn's own machinery, also when bags are as many as rows."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from apportion import LPLLP, KNNGraph, Totals
from apportion.datasets import make_bags

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def router(**parameters):
    return (
        LPLLP(KNNGraph(5), random_state=0, **parameters)
        .set_fit_request(bags=True, proportions=True)
        .set_score_request(bags=True, proportions=True)
    )


def data(n_bags):
    X, y = make_blobs(40, centers=3, random_state=0)
    bags, totals = make_bags(None, y, n_bags, random_state=0)
    return X, y, bags, totals


@pytest.mark.parametrize("n_bags", [5, 40])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_grid_search_over_rows(n_bags):
    """With as many bags as rows, anything that has a length would be cut with the rows."""
    X, _, bags, totals = data(n_bags)
    search = GridSearchCV(
        router(),
        {"graph__n_neighbors": [3, 6], "alpha": [0.3, 0.6]},
        cv=KFold(3),
        error_score="raise",
    )
    search.fit(X, bags=bags, proportions=totals)
    assert search.best_score_ <= 0
    assert len(search.best_estimator_.bag_report_.ids) == n_bags
    np.testing.assert_array_equal(
        search.best_estimator_.bag_report_.assigned["quota"],
        search.best_estimator_.bag_report_.lower,
    )


@pytest.mark.parametrize("n_bags", [5, 40])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_pipeline_in_a_search_over_bags(n_bags):
    X, _, bags, totals = data(n_bags)
    pipeline = make_pipeline(StandardScaler(), router())
    search = GridSearchCV(
        pipeline,
        {"lpllp__graph__n_neighbors": [3, 6]},
        cv=GroupKFold(4).set_split_request(groups=True),
        error_score="raise",
    )
    search.fit(X, bags=bags, proportions=totals, groups=bags)
    assert search.best_params_["lpllp__graph__n_neighbors"] in (3, 6)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_counts_survive_folds_of_whole_bags():
    X, y, bags, _ = data(5)
    table = {
        k: dict(zip(*np.unique(y[bags == k], return_counts=True), strict=True)) for k in range(5)
    }
    counts = Totals.from_counts(table)
    result = cross_validate(
        router(),
        X,
        params={"bags": bags, "proportions": counts, "groups": bags},
        cv=GroupKFold(3).set_split_request(groups=True),
        error_score="raise",
    )
    assert (result["test_score"] <= 0).all()


def test_a_plain_pipeline():
    X, y, bags, totals = data(5)
    pipeline = make_pipeline(StandardScaler(), router())
    pipeline.fit(X, bags=bags, proportions=totals)
    assert (pipeline[-1].transduction_ == y).mean() > 0.9
    assert (pipeline.predict(X) == y).mean() > 0.9
