"""Prepare once, solve often: the same answers, and held-out ones that know nothing they may not."""

from __future__ import annotations

import os
import pickle
import re
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from sklearn import gaussian_process
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_limits

from apportion import (
    EMLLP,
    LPLLP,
    AggregateGP,
    AutoLLP,
    CalibratedLLP,
    CandidateWarning,
    CountLogistic,
    InvCal,
    LaplacianMeanMap,
    MeanMap,
    Totals,
)
from apportion.datasets import make_bags
from apportion.estimators._feature_maps import Standardization
from apportion.estimators._prepared import Prepared
from apportion.model_selection import _candidate_fits as fits
from apportion.model_selection import _forests as forests
from apportion.model_selection import _smoothing as smoothing
from apportion.model_selection import _weighing as weighing
from apportion.model_selection._candidates import DEFAULT, resolve_candidates
from apportion.persistence import load_model, save_model
from apportion.supervision.bags import match_bags

SOLVED = {
    "AggregateGP": AggregateGP(n_estimators=10),
    "AggregateGP landmarks": AggregateGP("rbf", max_rank=20),
    "CountLogistic": CountLogistic(),
    "CountLogistic rbf": CountLogistic("rbf", max_rank=30),
    "InvCal": InvCal(),
    "InvCal rbf": InvCal("rbf", max_rank=30),
    "MeanMap": MeanMap(),
    "LaplacianMeanMap": LaplacianMeanMap(),
    "EMLLP trees": EMLLP("trees", cross_fit=2, max_iter=1),
    "LPLLP": LPLLP(),
}


def clusters(n=240, size=8, seed=0):
    X, y = make_classification(n, 6, n_informative=4, n_classes=3, random_state=seed)
    X = Standardization.of(X)(X)
    bags = np.random.default_rng(seed).permutation(n) // size
    return X, y, bags, Totals.from_labels(y, bags)


def seed_of(model):
    return np.random.RandomState(0).randint(2**31)


@pytest.mark.parametrize("name", [name for name in SOLVED if name != "LPLLP"])
def test_fit_is_prepare_and_solve(name):
    X, _, bags, totals = clusters()
    fitted = clone(SOLVED[name]).set_params(random_state=0)
    fitted.fit(X, bags=bags, proportions=totals)
    solved = clone(SOLVED[name])
    matched = match_bags(len(X), None, bags, totals)
    solved.solve(solved.prepare(X), matched, None, seed_of(solved))
    np.testing.assert_array_equal(solved.predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize("name", SOLVED)
def test_what_was_prepared_for_others_changes_no_answer(name):
    """Whatever was solved before on the same rows, and however many folds are hidden."""
    X, _, bags, totals = clusters()
    matched = match_bags(len(X), None, bags, totals)
    some = matched.without(np.isin(matched.codes, [0, 3, 4]))
    alone = clone(SOLVED[name])
    expected = alone.solve(alone.prepare(X), some)
    prepared = alone.prepare(X)
    for other in (*SOLVED.values(), SOLVED[name]):
        clone(other).solve(prepared, matched)
    again = clone(SOLVED[name])
    np.testing.assert_array_equal(again.solve(prepared, some), expected)
    np.testing.assert_array_equal(again.predict_proba(X[:9]), alone.predict_proba(X[:9]))


def test_bags_without_rows_know_what_is_left():
    X, y, bags, totals = clusters()
    given = [label if k < 20 else None for k, label in enumerate(y.tolist())]
    matched = match_bags(len(X), given, np.where(bags == 7, None, bags), totals)
    hidden = np.isin(matched.codes, [0, 2]) | (matched.codes < 0)
    left = matched.without(hidden)
    kept = [k for k in range(len(matched.ids)) if k not in (0, 2)]
    assert left.ids == tuple(matched.ids[k] for k in kept)
    np.testing.assert_array_equal(left.lower, matched.lower[kept])
    np.testing.assert_array_equal(left.given, np.where(hidden, -1, matched.given))
    assert (left.codes[hidden] == -1).all()
    ids = np.array([*left.ids, -1])[left.codes[~hidden]]
    np.testing.assert_array_equal(ids, np.array(matched.ids)[matched.codes[~hidden]])


def test_prepared_rows_can_be_sent_to_other_processes():
    X, *_ = clusters()
    prepared = Prepared(X)
    prepared.once("made", lambda: 1)
    sent = pickle.loads(pickle.dumps(prepared))
    np.testing.assert_array_equal(sent.rows, prepared.rows)
    assert sent.once("made", lambda: 2) == 2


def problem_of(X, matched):
    return fits.Problem(Prepared(X), X, matched, 7)


def held_out_by(name, matched, X, folds):
    asked = resolve_candidates([name])
    found = fits.fit_candidates(problem_of(X, matched), asked, folds, 5, None)
    return next(one for one in found.fitted if one.candidate.name == name)


EVERY_NAME = sorted({*DEFAULT, "lpllp", "lpllp-gp"})


@pytest.mark.parametrize(
    ("name", "gain"), [*((name, -9.0) for name in EVERY_NAME), ("taught", 9.0)]
)
def test_the_totals_of_a_fold_change_nothing_that_is_said_of_its_rows(name, gain, monkeypatch):
    """Held-out probabilities know the totals of the other folds, and nothing else of any bag.

    But for one bit: all held-out totals together decide whether `taught` learns refined labels.
    """
    monkeypatch.setattr(forests.TaughtTrees, "_gained", lambda one: gain)
    monkeypatch.setattr(fits, "_HOPELESS", np.inf)
    X, y, bags, totals = clusters()
    matched = match_bags(len(X), None, bags, totals)
    folds = fits.fold_of_rows(Prepared(X), matched, 5)
    plain = held_out_by(name, matched, X, folds)
    for fold in (0, 3):
        other = np.where(folds == fold, (y + 1) % 3, y)
        changed = match_bags(len(X), None, bags, Totals.from_labels(other, bags))
        found = held_out_by(name, changed, X, folds)
        rows = folds == fold
        np.testing.assert_allclose(found.held_out[rows], plain.held_out[rows], atol=1e-9)
        assert np.abs(found.held_out[~rows] - plain.held_out[~rows]).max() > 1e-3


@pytest.mark.parametrize("name", ["taught", "trees"])
def test_forests_say_the_same_of_new_rows_and_can_be_saved(name, tmp_path):
    X, y, bags, totals = clusters()
    model = AutoLLP([name], random_state=0).fit(X, bags=bags, proportions=totals)
    assert (model.predict(X) == y).mean() > 0.5
    save_model(tmp_path / "model.zip", model)
    loaded = load_model(tmp_path / "model.zip").model
    np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(X), atol=1e-12)


def test_the_default_is_the_same_for_any_number_of_threads():
    X, _, bags, totals = clusters()
    answers = []
    for threads in ("1", "2"):
        with mock.patch.dict(os.environ, OMP_NUM_THREADS=threads), threadpool_limits(int(threads)):
            model = AutoLLP(random_state=0).fit(X, bags=bags, proportions=totals)
        answers.append((model.label_distributions_, model.weights_))
    np.testing.assert_array_equal(answers[0][0], answers[1][0])
    assert answers[0][1] == answers[1][1]


def test_a_candidate_that_lags_far_behind_is_given_up(monkeypatch):
    X, _, bags, totals = clusters(480)
    asked = ["count", "count-rbf", "taught"]
    matched = match_bags(len(X), None, bags, totals)
    folds = fits.fold_of_rows(Prepared(X), matched, 5)
    monkeypatch.setattr(fits, "_HOPELESS", -np.inf)
    solved = []
    solve = fits._Fits.solved
    monkeypatch.setattr(
        fits._Fits, "solved", lambda one, some: (solved.append(list(some)), solve(one, some))[1]
    )
    found = fits.fit_candidates(problem_of(X, matched), resolve_candidates(asked), folds, 5, None)
    assert [one.candidate.name for one in found.fitted] == ["count"]
    why = found.left_out["count-rbf"]
    assert "given up after 2 of 5 folds, in which count is likelier" in why
    assert solved == [[0, 1, 2, 3, 4], [0, 1], [0, 1]]


def test_only_candidates_of_some_weight_are_fitted_to_all_bags():
    X, _, bags, totals = clusters(480)
    model = AutoLLP(random_state=0).fit(X, bags=bags, proportions=totals)
    used = {name for name, weight in model.weights_.items() if weight}
    assert set(model.candidates_) == used
    assert used < set(model.weights_)


def test_the_average_is_smoothed_only_if_held_out_totals_ask_for_it(monkeypatch):
    X, y, bags, totals = clusters(480)
    smoothed = AutoLLP(["count"], random_state=0).fit(X, bags=bags, proportions=totals)
    rise = int(re.search(r"likelier by (\d+)", smoothed.candidate_report_.about_graph)[1])
    assert rise > smoothing._CLEARLY
    monkeypatch.setattr(smoothing, "_CLEARLY", rise + 1.0)
    plain = AutoLLP(["count"], random_state=0).fit(X, bags=bags, proportions=totals)
    assert not plain.candidate_report_.about_graph
    assert (smoothed.transduction_ == y).mean() > (plain.transduction_ == y).mean()
    np.testing.assert_array_equal(smoothed.predict_proba(X), plain.predict_proba(X))


def test_labels_are_refined_if_a_forest_that_learns_such_labels_foretells_more(monkeypatch):
    X, y = make_classification(1000, 20, n_informative=10, n_classes=3, random_state=0)
    bags = np.random.default_rng(0).permutation(1000) // 10
    totals = Totals.from_labels(y, bags)
    asked = ["count-rbf", "taught"]
    refined = AutoLLP(asked, random_state=0).fit(X, bags=bags, proportions=totals)
    assert "labels are refined" in refined.candidate_report_.about_graph
    np.testing.assert_array_equal(pd.crosstab(bags, refined.transduction_), pd.crosstab(bags, y))
    for module in (forests, weighing):
        monkeypatch.setattr(module, "REFINES", np.inf)
    plain = AutoLLP(asked, random_state=0).fit(X, bags=bags, proportions=totals)
    assert "labels are refined" not in plain.candidate_report_.about_graph
    assert (refined.transduction_ == y).mean() > (plain.transduction_ == y).mean()


def test_refinement_is_not_asked_for_again_if_it_was_no_help(monkeypatch):
    """Rows at random: neighbors know nothing."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(240, 4)), rng.integers(0, 2, 240)
    bags, totals = make_bags(None, y, 24, random_state=0)
    asked = []
    lessons = forests.TaughtTrees._lessons
    monkeypatch.setattr(
        forests.TaughtTrees,
        "_lessons",
        lambda one, known, *refined: (asked.append(refined), lessons(one, known, *refined))[1],
    )
    monkeypatch.setattr(forests.TaughtTrees, "_gained", lambda one: -1.0)
    AutoLLP(["taught"], random_state=0).fit(X, bags=bags, proportions=totals)
    assert asked == [(False, True)] * 2 + [(False,)] * 4


def test_an_estimator_of_somebody_else_is_fitted_without_each_fold():
    class Counted(MeanMap):
        fitted: list[int] = []  # noqa: RUF012

        def fit(self, X, y=None, *, bags=None, proportions=None):
            self.fitted.append(sum(bag is not None for bag in bags))
            return super().fit(X, y, bags=bags, proportions=proportions)

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    bags, totals = make_bags(None, y, 10, random_state=0)
    AutoLLP({"mine": Counted()}, random_state=0).fit(X, bags=bags, proportions=totals)
    assert sorted(Counted.fitted)[-1] == 60
    assert len(Counted.fitted) >= 6


def test_a_candidate_that_fails_on_all_bags_costs_no_answers(monkeypatch):
    X, _, bags, totals = clusters(480)
    whole = fits._Fits.whole

    def failing(one):
        if one.candidate.name == "count-rbf":
            raise MemoryError("no room")
        return whole(one)

    monkeypatch.setattr(fits._Fits, "whole", failing)
    model = AutoLLP(["count", "count-rbf"], random_state=0)
    with pytest.warns(CandidateWarning, match="count-rbf could not be fitted and was left out: no"):
        model.fit(X, bags=bags, proportions=totals)
    assert model.weights_ == {"count": 1.0}
    assert "count-rbf" in model.candidate_report_.left_out


def test_accuracies_are_estimated_without_the_graph(monkeypatch):
    X, _, bags, totals = clusters(480)
    smoothed = AutoLLP(["count"], random_state=0).fit(X, bags=bags, proportions=totals)
    assert smoothed.candidate_report_.about_graph
    monkeypatch.setattr(smoothing, "_CLEARLY", np.inf)
    plain = AutoLLP(["count"], random_state=0).fit(X, bags=bags, proportions=totals)
    assert smoothed.estimated_accuracy_ == plain.estimated_accuracy_
    assert (smoothed.label_distributions_ != plain.label_distributions_).any()


@pytest.mark.parametrize(
    "model", [CountLogistic("precomputed"), MeanMap("precomputed"), InvCal("precomputed")]
)
def test_similarities_are_calibrated_in_their_order(model):
    X, _, bags, totals = clusters()
    K = rbf_kernel(X, X)
    found = CalibratedLLP(model, random_state=0).fit(K, bags=bags, proportions=totals)
    named = clone(model).set_params(kernel="rbf", gamma=1 / X.shape[1])
    expected = CalibratedLLP(named, random_state=0).fit(X, bags=bags, proportions=totals)
    assert (found.transduction_ == expected.transduction_).mean() > 0.85


def test_parameters_of_candidates_are_checked():
    X, _, bags, totals = clusters()
    with (
        pytest.warns(CandidateWarning, match="'C' parameter of CountLogistic"),
        pytest.raises(ValueError, match="No candidate could be fitted"),
    ):
        CalibratedLLP(CountLogistic(C=-5.0)).fit(X, bags=bags, proportions=totals)


def test_kernels_that_cannot_be_hashed():
    X, _, bags, totals = clusters()
    kernel = gaussian_process.kernels.RBF(2.0)
    model = CountLogistic(kernel).fit(X, bags=bags, proportions=totals)
    named = CountLogistic("rbf", gamma=1 / 8).fit(X, bags=bags, proportions=totals)
    np.testing.assert_allclose(model.predict_proba(X), named.predict_proba(X), atol=1e-2)


@pytest.mark.parametrize("names", [["trees"], ["taught"], ["lpllp"]])
def test_two_folds_and_few_bags(names):
    X, y, bags, totals = clusters()
    found = AutoLLP(names, cv=2, random_state=0).fit(X, bags=bags, proportions=totals)
    assert names[0] in found.weights_
    few = np.arange(len(X)) % 3
    found = AutoLLP(names).fit(X, bags=few, proportions=Totals.from_labels(y, few))
    assert names[0] in found.weights_


def test_edges_in_time_are_for_fit():
    X, _, bags, totals = clusters()
    likelihoods = {
        CalibratedLLP(LPLLP(time_weight=weight), random_state=0)
        .fit(X, bags=bags, proportions=totals, times=np.arange(len(X)))
        .held_out_log_likelihood_["LPLLP"]
        for weight in (0.0, 50.0)
    }
    assert len(likelihoods) == 2
