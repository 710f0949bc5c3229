"""AutoLLP and CalibratedLLP: weights, calibration and accuracy from held-out totals alone."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine

from apportion import AutoLLP, CalibratedLLP, CandidateWarning, InvCal, MeanMap, Totals
from apportion._utils.groups import Groups
from apportion.datasets import make_bags, make_half_kernel, make_xor
from apportion.estimators._inductive import InductiveClassifier
from apportion.estimators._prepared import Prepared
from apportion.model_selection import _calibration as calibration
from apportion.model_selection import _candidates
from apportion.model_selection import _weighing as weighing
from apportion.model_selection._candidate_fits import as_given, bag_folds, fold_of_rows
from apportion.model_selection._candidates import NAMED, memory_note, resolve_candidates
from apportion.model_selection._graph_of_model import graph_in
from apportion.model_selection._weights import candidate_weights
from apportion.supervision.bags import match_bags

FAST = ("mean-map", "inv-cal", "lpllp")


def wine(n_bags=12, seed=0):
    X, y = load_wine(return_X_y=True)
    bags, totals = make_bags(X, y, n_bags, random_state=seed)
    return X, y, bags, totals


def fitted(candidates=FAST, **options):
    X, _, bags, totals = wine()
    return AutoLLP(candidates, random_state=0, **options).fit(X, bags=bags, proportions=totals)


@pytest.fixture(scope="module")
def model():
    return fitted()


def random_problem(rng, n_bags=60, size=16, n_classes=2, sharpness=2.0):
    """Rows with known probabilities, and labels drawn from them, in random bags."""
    P = softmax(sharpness * rng.standard_normal((n_bags * size, n_classes)), axis=1)
    y = (P.cumsum(axis=1) < rng.random((len(P), 1))).sum(axis=1)
    bags = np.arange(len(P)) % n_bags
    classes = list(range(n_classes))
    matched = match_bags(len(P), None, bags, Totals.from_labels(y, bags, classes=classes))
    return P, y, matched


def known(matched, X=None):
    X = np.zeros((matched.n_samples, 1)) if X is None else X
    return calibration.known_totals(matched, np.ones(matched.n_samples, dtype=bool), X)


# Likelihood of totals


@pytest.mark.parametrize("dispersion", [0.0, 0.03])
def test_likelihood_is_that_of_a_normal_count_within_half_a_row(dispersion):
    rng = np.random.default_rng(0)
    P, y, matched = random_problem(rng, 4, 9, 3)
    likelihoods = calibration.bag_log_likelihoods(P, known(matched), dispersion)
    for k in range(4):
        rows, expected = matched.codes == k, 0.0
        n = rows.sum()
        for h in range(3):
            count, mean = (y[rows] == h).sum(), P[rows, h].sum()
            variance = (P[rows, h] * (1 - P[rows, h])).sum()
            variance += dispersion * n * (n - 1) * mean / n * (1 - mean / n)
            within = norm(mean, np.sqrt(variance))
            expected += np.log(within.cdf(count + 0.5) - within.cdf(count - 0.5))
        assert likelihoods[k] == pytest.approx(2 / 3 * expected, rel=1e-4)


def test_unknown_cells_say_nothing_and_wider_intervals_less():
    rng = np.random.default_rng(1)
    P, y, _ = random_problem(rng, 5, 10)
    bags = np.arange(len(P)) % 5
    exact = Totals.from_labels(y, bags)
    unknown = Totals.from_proportions({k: [None, None] for k in range(5)})
    wide = Totals.from_intervals(np.clip(exact.lower - 0.2, 0, 1), np.clip(exact.upper + 0.2, 0, 1))
    of = {}
    for name, totals in {"exact": exact, "wide": wide, "unknown": unknown}.items():
        matched = match_bags(len(P), None, bags, totals)
        of[name] = calibration.bag_log_likelihoods(P, known(matched), 0.0)
    assert (of["exact"] < of["wide"]).all()
    assert (of["wide"] < of["unknown"]).all()
    assert of["unknown"] == pytest.approx(0.0, abs=0.01)


def test_the_tails_of_the_likelihood_are_finite_and_exact():
    low, high = np.array([-60.0, 40.0, -0.5]), np.array([-59.0, 41.0, 0.5])
    logs = calibration._log_normal_between(low, high)
    assert np.isfinite(logs).all()
    assert logs[0] == pytest.approx(norm.logcdf(-59.0), rel=1e-6)
    assert logs[1] == pytest.approx(norm.logsf(40.0), rel=1e-6)
    assert np.exp(logs[2]) == pytest.approx(norm.cdf(0.5) - norm.cdf(-0.5))


# Calibration


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("power", [0.4, 1.0, 2.5])
def test_temperature_undoes_a_power_of_the_true_probabilities(power, n_classes):
    P, _, matched = random_problem(np.random.default_rng(2), 300, 16, n_classes)
    distorted = P**power / (P**power).sum(axis=1, keepdims=True)
    found = calibration.calibrate(distorted, known(matched))
    assert found.temperature == pytest.approx(1 / power, rel=0.3)
    assert np.abs(found.held_out - P).mean() < 0.05


def test_a_model_that_knows_nothing_gains_nothing():
    rng = np.random.default_rng(3)
    P, _, matched = random_problem(rng, 100)
    found = calibration.calibrate(P[rng.permutation(len(P))], known(matched))
    assert found.log_likelihood < 1.0
    assert found.temperature < 0.5


def test_calibrated_probabilities_have_the_overall_shares_and_the_true_accuracy():
    P, y, matched = random_problem(np.random.default_rng(4), 200, 16, 3)
    wrong = P**3 / (P**3).sum(axis=1, keepdims=True)
    found = calibration.calibrate(wrong, known(matched))
    assert found.held_out.mean(axis=0) == pytest.approx(matched.overall, abs=1e-6)
    accuracy = (found.held_out.argmax(axis=1) == y).mean()
    assert found.held_out.max(axis=1).mean() == pytest.approx(accuracy, abs=0.05)
    assert wrong.max(axis=1).mean() > accuracy + 0.08


def test_rows_of_a_bag_that_err_together_are_found_if_bags_are_not_random():
    rng = np.random.default_rng(5)
    X = np.repeat(rng.standard_normal((80, 4)), 20, axis=0)
    P = softmax(np.column_stack([X[:, 0], -X[:, 0]]) + rng.standard_normal((1600, 2)), axis=1)
    bags = np.repeat(np.arange(80), 20)
    shift = np.repeat(rng.standard_normal(80), 20)
    truth = softmax(np.log(P) + np.column_stack([shift, -shift]), axis=1)
    y = (rng.random(1600) < truth[:, 1]).astype(int)
    matched = match_bags(1600, None, bags, Totals.from_labels(y, bags))
    found = calibration.calibrate(P, known(matched, X))
    assert not known(matched, X).random_bags
    assert found.dispersion > 0.01
    independent = calibration.calibrate(P, known(matched))
    assert independent.dispersion == 0.0
    # Taken for independent, such errors look like lack of knowledge.
    assert found.temperature > independent.temperature


@pytest.mark.parametrize("seed", range(5))
def test_random_bags_are_taken_for_random_and_others_are_not(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((600, 5)) @ rng.standard_normal((5, 5))
    codes = rng.permutation(600) % 30
    assert calibration.random_bags(X, Groups(codes, 30))
    by_feature = np.empty(600, dtype=int)
    by_feature[np.argsort(X[:, 0])] = np.arange(600) // 20
    assert not calibration.random_bags(X, Groups(by_feature, 30))


def test_given_labels_count_in_the_likelihood():
    P, y, _ = random_problem(np.random.default_rng(6), 1, 400)
    matched = match_bags(len(P), y.astype(object))
    right = calibration.calibrate(P, known(matched))
    wrong = calibration.calibrate(P[:, ::-1], known(matched))
    assert right.log_likelihood > 20 > wrong.log_likelihood


# Weights


def test_candidates_within_the_noise_are_equal_and_bad_ones_are_left_out():
    weights = candidate_weights(np.array([50.0, 47.5, 45.0, 10.0]), np.ones(4))
    assert weights[0] == weights[1] > weights[2] > 0
    assert weights[3] == 0
    assert weights.sum() == pytest.approx(1)
    prior = candidate_weights(np.zeros(2), np.array([1.0, 0.1]))
    assert prior[0] / prior[1] == pytest.approx(10)


class Oracle(InductiveClassifier):
    """A rule for tests that knows one feature, or nothing."""

    def __init__(self, column=0, slope=5.0, decode="quota", random_state=None):
        self.column = column
        self.slope = slope
        self.decode = decode
        self.random_state = random_state

    def _learn(self, X, bags, start, seed):
        self.n_seen_ = len(bags.ids)

    def _soft_labels(self, X):
        z = self.slope * X[:, self.column]
        return softmax(np.column_stack([-z, z]), axis=1)


def columns(n=400, size=16, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = (X[:, 0] + 0.3 * rng.standard_normal(n) > 0).astype(int)
    bags = rng.permutation(n) // size
    return X, y, bags, Totals.from_labels(y, bags)


def test_the_method_that_foretells_held_out_totals_gets_the_weight():
    X, y, bags, totals = columns()
    right, wrong = Oracle(0), Oracle(1)
    model = AutoLLP({"right": right, "wrong": wrong}).fit(X, bags=bags, proportions=totals)
    assert model.weights_["right"] > 0.99
    assert set(model.candidates_) == {"right"}
    assert model.held_out_log_likelihood_["wrong"] < 1
    assert (model.transduction_ == y).mean() > 0.9
    report = model.candidate_report_
    assert [one.name for one in report.candidates] == ["right", "wrong"]
    assert report.n_held_out == 25


def test_no_candidate_sees_the_totals_of_rows_that_it_predicts_held_out():
    X, _, bags, totals = columns()
    matched = match_bags(len(X), None, bags, totals)
    folds = fold_of_rows(Prepared(X), matched, 5)
    assert sorted(set(folds)) == [0, 1, 2, 3, 4]
    for fold in range(5):
        known = matched.without(folds == fold)
        _, left, _ = as_given(known)
        hidden = {matched.ids[k] for k in np.unique(matched.codes[folds == fold])}
        seen = {known.ids[k] for k in left if k is not None}
        assert not hidden & seen
        assert hidden | seen == set(matched.ids)


def test_estimated_accuracy_is_close_to_the_truth():
    X, y, bags, totals = columns(1600)
    model = AutoLLP([Oracle(0, 1.0), Oracle(2)]).fit(X, bags=bags, proportions=totals)
    estimated = model.estimated_accuracy_
    held_out = (model.held_out_proba_.argmax(axis=1) == y).mean()
    assert estimated.new_rows.value == pytest.approx(held_out, abs=0.05)
    assert estimated.new_rows.low <= held_out <= estimated.new_rows.high
    assert estimated.fitted_rows.value == pytest.approx((model.transduction_ == y).mean(), abs=0.05)
    assert "new rows: 0." in str(estimated)


def test_the_estimate_is_withheld_if_nothing_was_learned():
    rng = np.random.default_rng(7)
    X, _, bags, totals = columns()
    noise = rng.standard_normal(X.shape)
    model = AutoLLP([Oracle(0), Oracle(1)]).fit(noise, bags=bags, proportions=totals)
    for estimate in (model.estimated_accuracy_.new_rows, model.estimated_accuracy_.fitted_rows):
        assert estimate.value is estimate.low is estimate.high is None
        assert "class shares alone" in estimate.reason


# Few bags


def test_few_bags_are_averaged_and_this_is_said():
    X, _, bags, totals = wine(3)
    with pytest.warns(CandidateWarning, match="3 bags are too few to hold any out; the answer is"):
        model = AutoLLP(["mean-map", "inv-cal"]).fit(X, bags=bags, proportions=totals)
    assert model.weights_ == {"mean-map": 0.5, "inv-cal": 0.5}
    assert "too few" in model.estimated_accuracy_.fitted_rows.reason
    assert np.isnan(model.held_out_proba_).all()
    assert "plain average" in str(model.candidate_report_)


def test_few_bags_have_the_average_smoothed_on_the_graph():
    X, _, bags, totals = wine(3)
    with pytest.warns(CandidateWarning, match="smoothed on LPLLP's graph"):
        model = AutoLLP(FAST, random_state=0).fit(X, bags=bags, proportions=totals)
    assert {name for name, weight in model.weights_.items() if weight} == {"lpllp-average"}
    smoothed = model.candidates_["lpllp-average"]
    assert (model.transduction_ == smoothed.transduction_).all()
    assert model.bag_report_.error("quota") == 0
    Z = model._standardization(X)
    rules = (MeanMap(), InvCal(), clone(smoothed).set_params(prior=None, prior_weight=None))
    fits = [rule.fit(Z, bags=bags, proportions=totals) for rule in rules]
    answers = [*(rule.predict_proba(Z) for rule in fits[:2]), fits[2].label_distributions_]
    prior = np.average(answers, axis=0, weights=[0.3, 0.3, 1.0])
    alike = clone(smoothed).set_params(prior=prior).fit(Z, bags=bags, proportions=totals)
    assert (alike.transduction_ == model.transduction_).all()


def test_few_bags_leave_the_answer_to_lpllp_where_its_labels_are_much_smoother():
    X, y = make_xor(120, random_state=0)
    bags, totals = make_bags(X, y, proportions=[0.6, 0.4, 0.5], random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CandidateWarning)
        model = AutoLLP(FAST, random_state=0).fit(X, bags=bags, proportions=totals)
    (alone,) = model.candidates_
    assert alone in ("lpllp", "lpllp-unscaled")
    assert (model.transduction_ == model.candidates_[alone].transduction_).all()
    assert (model.transduction_ == y).all()
    assert "answers alone" in model.candidate_report_.reason


def test_few_bags_try_the_features_as_they_are():
    X, y = make_half_kernel(120, random_state=3)
    bags, totals = make_bags(X, y, proportions=[0.6, 0.4, 0.5], random_state=3)
    model = AutoLLP(FAST, random_state=0).fit(X, bags=bags, proportions=totals)
    assert model.weights_["lpllp-unscaled"] == 1
    assert (model.transduction_ == y).mean() > 0.99
    assert (model.predict(X) == y).mean() > 0.9


# Contract


def test_probabilities_and_labels_keep_the_totals(model):
    report = model.bag_report_
    assert report.error("quota") == 0
    sums = Groups(model.bag_codes_, len(report.ids)).sum(model.label_distributions_)
    assert sums == pytest.approx(report.lower, abs=1e-6)


def test_predict_proba_is_the_weighted_calibrated_average(model):
    X = load_wine(return_X_y=True)[0][:20]
    standardized = model._standardization(X)
    average = sum(
        weight * model._calibrations[name](model.candidates_[name].predict_proba(standardized))
        for name, weight in model.weights_.items()
        if weight
    )
    assert model.predict_proba(X) == pytest.approx(model._calibration(average), abs=1e-12)
    assert (model.predict(X) == model.classes_[model.predict_proba(X).argmax(axis=1)]).all()


def test_order_of_rows_bags_and_candidates_does_not_matter(model):
    X, _, bags, totals = wine()
    order = np.random.default_rng(0).permutation(len(X))
    shuffled = AutoLLP(FAST[::-1], random_state=0)
    shuffled.fit(X[order], bags=bags[order], proportions=totals)
    assert shuffled.label_distributions_ == pytest.approx(
        model.label_distributions_[order], abs=1e-6
    )
    for name in FAST:
        assert shuffled.weights_[name] == pytest.approx(model.weights_[name], abs=1e-6)


def test_several_jobs_give_the_same_answer(model):
    parallel = fitted(n_jobs=2)
    assert (parallel.label_distributions_ == model.label_distributions_).all()
    assert parallel.weights_ == model.weights_


def test_intervals_given_labels_and_rows_in_no_bag():
    X, y = load_iris(return_X_y=True)
    bags = np.arange(150) // 15
    bags = np.random.default_rng(0).permutation(bags).astype(object)
    exact = Totals.from_labels(y, bags)
    totals = Totals.from_intervals(
        dict(zip(exact.ids, np.clip(exact.lower - 0.1, 0, 1).tolist(), strict=True)),
        dict(zip(exact.ids, np.clip(exact.upper + 0.1, 0, 1).tolist(), strict=True)),
    )
    labels = np.full(150, None, dtype=object)
    labels[::7] = y[::7]
    bags[::10] = None
    model = AutoLLP(("mean-map", "inv-cal"), random_state=0)
    model.fit(X, labels, bags=bags, proportions=totals)
    assert (model.transduction_[::7] == y[::7]).all()
    assert (model.transduction_ == y).mean() > 0.85
    unknown = np.array([bag is None for bag in bags]) & np.array([one is None for one in labels])
    assert np.isnan(model.held_out_proba_[unknown]).all()
    assert not np.isnan(model.held_out_proba_[~unknown]).any()


def test_labels_alone_are_enough():
    X, y = load_iris(return_X_y=True)
    labels = np.full(150, None, dtype=object)
    labels[::3] = y[::3]
    model = AutoLLP(("lpllp", "mean-map"), random_state=0).fit(X, labels)
    assert (model.transduction_ == y).mean() > 0.8
    assert model.estimated_accuracy_.new_rows.value > 0.7


# Candidates


def test_names_estimators_and_mappings_are_candidates():
    named = resolve_candidates(["mean-map", InvCal(), InvCal("rbf")])
    assert [one.name for one in named] == ["mean-map", "InvCal", "InvCal-2"]
    assert [one.name for one in resolve_candidates({"mine": MeanMap()})] == ["mine"]
    assert [one.name for one in resolve_candidates(["lpllp-gp"])] == ["gp", "lpllp-gp"]
    last = resolve_candidates("fast")[-1]
    assert (last.name, last.races, last.rough) == ("lpllp", True, {"time_weight": 0.0})
    assert not resolve_candidates("fast", few_bags=True)[-1].rough
    assert set(resolve_candidates("auto")[0].__dict__) >= {"name", "estimator"}


@pytest.mark.parametrize("bad", ["lpllp", [], ["lp-llp"], [MeanMap], [3], 7])
def test_what_is_no_candidate_is_refused_by_name(bad):
    X, _, bags, totals = wine()
    with pytest.raises(ValueError, match="The 'candidates' parameter of AutoLLP must be 'auto'"):
        AutoLLP(bad).fit(X, bags=bags, proportions=totals)


class Failing(Oracle):
    error: type[BaseException] = RuntimeError

    def _learn(self, X, bags, start, seed):
        raise self.error("broken")


class Interrupted(Failing):
    error = KeyboardInterrupt


def test_a_candidate_that_fails_is_left_out_and_named():
    X, _, bags, totals = columns()
    with pytest.warns(CandidateWarning, match="bad could not be fitted and was left out: broken"):
        model = AutoLLP({"bad": Failing(), "good": Oracle()}).fit(X, bags=bags, proportions=totals)
    assert model.weights_ == {"good": 1.0}
    assert model.candidate_report_.left_out == {"bad": "see the warnings"}
    with pytest.warns(CandidateWarning), pytest.raises(ValueError, match="No candidate could be"):
        AutoLLP([Failing()]).fit(X, bags=bags, proportions=totals)


def test_an_interrupt_keeps_the_complete_candidates():
    X, _, bags, totals = columns()
    asked = {"good": Oracle(), "late": Interrupted(), "never": Oracle(1)}
    with pytest.warns(CandidateWarning, match="Interrupted: .* without late, never"):
        model = AutoLLP(asked).fit(X, bags=bags, proportions=totals)
    assert model.weights_ == {"good": 1.0}
    with pytest.raises(KeyboardInterrupt):
        AutoLLP({"late": Interrupted(), "good": Oracle()}).fit(X, bags=bags, proportions=totals)


def test_memory_is_said_before_it_is_taken_and_grows_with_the_rows(monkeypatch):
    X, _, bags, totals = wine()
    monkeypatch.setattr(_candidates, "free_bytes", lambda: 3_000_000)
    with pytest.warns(CandidateWarning, match="Memory: comparing methods on 178 rows of 13 feat"):
        AutoLLP(["gp"]).fit(X, bags=bags, proportions=totals)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AutoLLP(["mean-map"]).fit(X, bags=bags, proportions=totals)
    assert not memory_note(70, 13, 3)
    assert "3.3 MiB, and 2.9 MiB are free. Use method='lpllp'" in memory_note(185, 13, 3)
    assert "6.6 MiB" in memory_note(370, 13, 3)


def test_methods_that_cannot_scale_are_left_out_and_named(monkeypatch):
    monkeypatch.setitem(NAMED, "mean-map", replace(NAMED["mean-map"], most_rows=100))
    model = fitted(("mean-map", "inv-cal"))
    assert "takes too long beyond 100 rows" in model.candidate_report_.left_out["mean-map"]
    assert set(model.weights_) == {"inv-cal"}
    assert "left out: mean-map" in str(model.candidate_report_)


def test_report_has_a_row_per_method(model):
    frame = model.candidate_report_.to_frame()
    assert list(frame["method"]) == [one.name for one in model.candidate_report_.candidates]
    assert frame["weight"].sum() == pytest.approx(1)
    assert str(model.candidate_report_).startswith("method") or "weight" in str(
        model.candidate_report_
    )


# CalibratedLLP


def test_calibrated_llp_is_autollp_with_one_method():
    X, y, bags, totals = columns(1600)
    model = CalibratedLLP(Oracle(0, 20.0)).fit(X, bags=bags, proportions=totals)
    P = model.predict_proba(X)
    assert P.max(axis=1).mean() == pytest.approx((P.argmax(axis=1) == y).mean(), abs=0.05)
    assert model.estimator_.predict_proba(X).max(axis=1).mean() > P.max(axis=1).mean() + 0.02
    assert model.weights_ == {"Oracle": 1.0}
    with pytest.raises(ValueError, match="The 'estimator' parameter of CalibratedLLP"):
        CalibratedLLP("lpllp").fit(X, bags=bags, proportions=totals)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 12))
def test_hostile_probabilities_stay_probabilities(seed, n_classes, n_bags):
    rng = np.random.default_rng(seed)
    P, _, matched = random_problem(rng, n_bags, 7, n_classes)
    P[rng.random(len(P)) < 0.3] = np.eye(n_classes)[rng.integers(n_classes)]
    P[0] = 0.0
    found = calibration.calibrate(P, known(matched))
    for calibrated in (found.held_out, found(P)):
        assert np.isfinite(calibrated).all()
        assert calibrated.sum(axis=1) == pytest.approx(np.ones(len(P)))
        assert (calibrated >= 0).all()


def test_label_shift_is_told_from_random_bags_and_from_drift():
    rng = np.random.default_rng(0)
    shares = np.repeat(rng.uniform(0.1, 0.9, 30), 40)
    y = (rng.random(1200) < shares).astype(int)
    bags = np.repeat(np.arange(30), 40)
    matched = match_bags(1200, None, bags, Totals.from_labels(y, bags))
    X = rng.standard_normal((1200, 4)) + 1.5 * y[:, None]

    def label_shift(X, matched):
        return calibration.known_totals(matched, np.ones(len(X), dtype=bool), X).label_shift

    assert label_shift(X, matched)
    drift = np.repeat(rng.standard_normal((30, 4)), 40, axis=0)
    assert not label_shift(X + drift, matched)
    dealt = match_bags(1200, None, bags, Totals.from_labels(y[rng.permutation(1200)], bags))
    assert not label_shift(rng.standard_normal((1200, 4)), dealt)
    model = AutoLLP(("mean-map", "gp"), random_state=0)
    model.fit(X, bags=bags, proportions=Totals.from_labels(y, bags))
    assert model.weights_["mean-map"] > 0.8
    assert "class shares beyond" in model.estimated_accuracy_.new_rows.reason
    assert not model.candidate_report_.calibrated


def test_new_rows_get_the_class_shares_if_nothing_was_learned():
    rng = np.random.default_rng(7)
    X, _, bags, totals = columns()
    with pytest.warns(CandidateWarning, match="cannot tell the methods from the class shares"):
        model = AutoLLP([Oracle(0), Oracle(1)]).fit(
            rng.standard_normal(X.shape), bags=bags, proportions=totals
        )
    P = model.predict_proba(X)
    assert (P[0] == P).all()
    assert model.bag_report_.error("quota") == 0


@pytest.mark.parametrize("model", [CalibratedLLP(MeanMap()), AutoLLP(["mean-map", "gp"])])
def test_moved_and_reordered_features_change_nothing(model):
    """The bags are dealt to folds by what the rows say, not by the digits they are written in.

    Wine in a dozen bags: its log-likelihoods lie where one deal says "learned", another "nothing".
    """
    X, _, bags, totals = wine()
    plain = clone(model).set_params(random_state=0).fit(X, bags=bags, proportions=totals)
    for other in (X + 1.0, X + 4.0, X[:, ::-1], 3.0 * X):
        moved = clone(model).set_params(random_state=0).fit(other, bags=bags, proportions=totals)
        for name, expected in plain.held_out_log_likelihood_.items():
            assert moved.held_out_log_likelihood_[name] == pytest.approx(expected, abs=1e-6)
        np.testing.assert_allclose(
            moved.label_distributions_, plain.label_distributions_, atol=1e-6
        )
        np.testing.assert_array_equal(moved.predict(other), plain.predict(X))


def test_another_random_state_deals_other_folds():
    X, _, bags, totals = wine()
    found = set()
    for seed in (0, 1, 2, 2, None, None):
        model = CalibratedLLP(MeanMap(), random_state=seed)
        model.fit(X, bags=bags, proportions=totals)
        found |= set(model.held_out_log_likelihood_.values())
    assert len(found) == 4


def test_where_one_deal_decides_two_are_averaged(monkeypatch):
    """Only if the log-likelihood is near the one from which something counts as learned."""
    deals = []

    def dealt(problem, n_asked, deal):
        deals.append(deal)
        return bag_folds(problem, n_asked, deal)

    monkeypatch.setattr(weighing, "bag_folds", dealt)
    for n_bags, expected in ((12, [0, 1]), (60, [0])):
        deals.clear()
        X, _, bags, totals = wine(n_bags)
        model = CalibratedLLP(MeanMap()).fit(X, bags=bags, proportions=totals)
        assert deals == expected
        np.testing.assert_allclose(model.held_out_proba_.sum(axis=1), 1.0)


def test_the_graph_that_taught_the_trees_is_that_of_the_average():
    X, _, bags, totals = wine(30)
    model = AutoLLP(["taught", "mean-map"], random_state=0).fit(X, bags=bags, proportions=totals)
    graph = graph_in(model)
    assert graph.n_samples_ == len(X)
    np.testing.assert_allclose(graph.features_of(np.arange(9)), model._standardization(X)[:9])
    without = AutoLLP(["mean-map"], random_state=0).fit(X, bags=bags, proportions=totals)
    assert graph_in(without) is None
