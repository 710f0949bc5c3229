"""The time of all fits is forecast, their progress is reported, and Ctrl-C keeps what is done."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from apportion import LPLLP, AutoLLP, CountLogistic, MeanMap, Totals
from apportion._utils.progress import progress_callback, report_progress, several_runs
from apportion._utils.signals import Stopped
from apportion.estimators._feature_maps import Standardization
from apportion.exceptions import CandidateWarning
from apportion.labeling.rows import Supervision, label_rows
from apportion.model_selection import _forecast
from apportion.model_selection._candidate_fits import Problem
from apportion.supervision.bags import match_bags

METHODS = {"rule": MeanMap(), "counts": CountLogistic()}


def some_bags(n=200, n_bags=10, seed=0):
    rng = np.random.default_rng(seed)
    bags = np.arange(n) % n_bags
    y = (rng.uniform(size=n) < rng.uniform(0.1, 0.9, n_bags)[bags]).astype(int)
    X = rng.normal(size=(n, 3)) + 2.0 * np.eye(2, 3)[y]
    return X, y, {"bags": bags, "proportions": Totals.from_labels(y, bags)}


def problem_of(X, matched):
    return Problem(X, Standardization.of(X)(X), matched, 0)


class Failing(MeanMap):
    """A method whose fits raise."""

    error = KeyboardInterrupt

    def fit(self, X, y=None, *, bags=None, proportions=None):
        raise self.error("stop")


class Broken(Failing):
    """A method that cannot be fitted."""

    error = RuntimeError


def test_ctrl_c_keeps_the_methods_that_are_complete():
    X, _, known = some_bags()
    methods = {"rule": MeanMap(), "stopped": Failing(), "late": CountLogistic()}
    with pytest.warns(CandidateWarning, match="Interrupted.*without stopped, late"):
        model = AutoLLP(methods).fit(X, **known)
    assert model.weights_ == {"rule": 1.0}
    assert list(model.candidate_report_.left_out) == ["stopped", "late"]
    alone = AutoLLP({"rule": MeanMap()}).fit(X, **known)
    np.testing.assert_array_equal(model.transduction_, alone.transduction_)


def test_ctrl_c_before_any_method_is_complete_ends_the_fit():
    X, _, known = some_bags()
    model = AutoLLP({"stopped": Failing(), "late": CountLogistic()})
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, **known)
    with pytest.raises(NotFittedError):
        check_is_fitted(model, "classes_")


def test_a_signal_that_stops_the_command_is_no_ctrl_c():
    class Stopping(Failing):
        error = Stopped

    X, _, known = some_bags()
    with pytest.raises(Stopped):
        AutoLLP({"rule": MeanMap(), "stopped": Stopping()}).fit(X, **known)


def reports_of(work):
    reports = []
    with progress_callback(lambda *report: reports.append(report)):
        work()
    return reports


def test_fits_are_counted_as_they_begin_and_the_share_rises_to_the_last():
    X, _, known = some_bags()
    reports = reports_of(lambda: AutoLLP(METHODS, random_state=0).fit(X, **known))
    weighing = [(done, detail) for stage, done, detail in reports if stage == "weighing methods"]
    assert [detail for _, detail in weighing] == [
        f"fit {k + 1} of 12, fitting {'rule' if k < 6 else 'counts'}" for k in range(12)
    ]
    np.testing.assert_allclose([done for done, _ in weighing], np.arange(12) / 12)


def test_fits_that_fail_count_as_done():
    X, _, known = some_bags()
    methods = {"broken": Broken(), "rule": MeanMap()}
    with pytest.warns(CandidateWarning, match="broken could not be fitted"):
        reports = reports_of(lambda: AutoLLP(methods).fit(X, **known))
    shares = [done for stage, done, _ in reports if stage == "weighing methods"]
    np.testing.assert_allclose(shares, [0, *np.arange(6, 12) / 12])


def test_weighing_is_the_share_of_a_participant():
    X, _, known = some_bags()
    groups = np.array(["p", "q"], dtype=object)[known["bags"] % 2]
    ids = np.array(known["bags"].tolist(), dtype=object)
    supervision = Supervision(ids, known["proportions"], None, groups, {})
    reports = reports_of(lambda: label_rows(X, supervision, AutoLLP({"rule": MeanMap()})))
    shares = [done for stage, done, _ in reports if stage == "labeling"]
    assert shares == sorted(shares)
    assert 0.25 in shares
    assert max(shares) > 0.9 - 1 / 12
    said = [detail for stage, _, detail in reports if stage == "labeling"]
    assert "participant 2 of 2, weighing methods, fit 6 of 6, fitting rule" in said


def test_runs_that_take_longer_have_a_larger_share():
    def work():
        with several_runs("working", "run", 3, costs=[1.0, 2.0, 5.0]) as next_run:
            for _ in range(3):
                next_run()
                report_progress("propagating", 0.5)

    np.testing.assert_allclose([done for _, done, _ in reports_of(work)], [1 / 16, 2 / 8, 5.5 / 8])


@pytest.fixture
def small(monkeypatch):
    """Let few rows be many."""
    monkeypatch.setattr(_forecast, "_MANY_ROWS", 100)
    monkeypatch.setattr(_forecast, "_SAMPLE_ROWS", (60, 90))


def test_a_forecast_changes_no_result(small, caplog, monkeypatch):
    X, _, known = some_bags()
    methods = ["lpllp", "mean-map"]
    with caplog.at_level(logging.INFO, _forecast.FORECAST):
        told = AutoLLP(methods, random_state=0).fit(X, **known)
    assert "2 methods, 6 fits each" in caplog.text
    assert told.candidate_report_.forecast_seconds > 0
    monkeypatch.setattr(_forecast, "_MANY_ROWS", 1000)
    caplog.clear()
    plain = AutoLLP(methods, random_state=0).fit(X, **known)
    assert plain.candidate_report_.forecast_seconds is None
    assert not caplog.text
    np.testing.assert_array_equal(told.label_distributions_, plain.label_distributions_)
    assert told.weights_ == plain.weights_


def test_a_method_that_fails_is_told_once_and_does_not_end_the_forecast(small):
    X, _, known = some_bags()
    with pytest.warns(CandidateWarning) as caught:
        model = AutoLLP({"broken": Broken(), "rule": MeanMap()}).fit(X, **known)
    assert sum("broken" in str(warning.message) for warning in caught) == 1
    assert model.candidate_report_.forecast_seconds > 0


@pytest.mark.parametrize("n_bags", [3, 40, 150])
def test_a_sample_has_totals_in_proportion(small, n_bags):
    X, y, known = some_bags(n=600, n_bags=n_bags)
    labels = np.where(np.arange(600) < 5, y, -1)
    given = [None if label < 0 else label for label in labels.tolist()]
    sample = _forecast._sample(problem_of(X, match_bags(600, given, **known)), 60)
    bags = sample.bags
    assert len(sample.X) == len(sample.standardized) == bags.n_samples
    assert 20 <= bags.n_samples <= 80
    assert len(bags.ids) == min(n_bags, 20)
    np.testing.assert_allclose(bags.lower.sum(axis=1), bags.groups.sizes)
    assert (bags.given < 0).all()
    LPLLP().fit(sample.X, bags=bags.codes, proportions=bags.lower / bags.groups.sizes[:, None])


def test_labels_without_bags_are_sampled_too(small):
    X, y, _ = some_bags(n=400)
    sample = _forecast._sample(problem_of(X, match_bags(400, y, None, None)), 60)
    assert sample.bags.n_samples == 60
    assert (sample.bags.given >= 0).all()
