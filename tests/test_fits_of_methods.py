"""Progress of the fits of several methods, and Ctrl-C, which keeps what is done."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from apportion import AutoLLP, CountLogistic, MeanMap, Totals
from apportion._utils.progress import progress_callback
from apportion._utils.signals import Stopped
from apportion.exceptions import CandidateWarning
from apportion.labeling.rows import Supervision, label_rows

METHODS = {"rule": MeanMap(), "counts": CountLogistic()}


def some_bags(n=200, n_bags=10, seed=0):
    rng = np.random.default_rng(seed)
    bags = np.arange(n) % n_bags
    y = (rng.uniform(size=n) < rng.uniform(0.1, 0.9, n_bags)[bags]).astype(int)
    X = rng.normal(size=(n, 3)) + 2.0 * np.eye(2, 3)[y]
    return X, y, {"bags": bags, "proportions": Totals.from_labels(y, bags)}


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
        f"fit {k + 1} of 10, fitting {'rule' if k < 5 else 'counts'}" for k in range(10)
    ]
    np.testing.assert_allclose([done for done, _ in weighing], np.arange(10) / 10)


def test_fits_that_fail_count_as_done():
    X, _, known = some_bags()
    methods = {"broken": Broken(), "rule": MeanMap()}
    with pytest.warns(CandidateWarning, match="broken could not be fitted"):
        reports = reports_of(lambda: AutoLLP(methods).fit(X, **known))
    shares = [done for stage, done, _ in reports if stage == "weighing methods"]
    np.testing.assert_allclose(shares, np.arange(10) / 10)


def test_weighing_is_the_share_of_a_participant():
    X, _, known = some_bags()
    groups = np.array(["p", "q"], dtype=object)[known["bags"] % 2]
    ids = np.array(known["bags"].tolist(), dtype=object)
    supervision = Supervision(ids, known["proportions"], None, groups, {})
    reports = reports_of(lambda: label_rows(X, supervision, AutoLLP({"rule": MeanMap()})))
    shares = [done for stage, done, _ in reports if stage == "labeling"]
    assert shares == sorted(shares)
    assert 0.2 in shares
    assert max(shares) > 0.9 - 1 / 10
    said = [detail for stage, _, detail in reports if stage == "labeling"]
    assert "participant 2 of 2, weighing methods, fit 5 of 5, fitting rule" in said
