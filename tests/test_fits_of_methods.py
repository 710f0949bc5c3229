"""Progress of the fits of several methods, and Ctrl-C, which keeps what is done."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from apportion import AutoLLP, CountLogistic, MeanMap, Totals
from apportion._utils.progress import progress_callback
from apportion._utils.signals import Stopped
from apportion.exceptions import CandidateWarning
from apportion.labeling import rows
from apportion.labeling.rows import Supervision, fit_known, label_rows
from apportion.model_selection import _candidate_fits, _candidates, _weighing, _weights
from apportion.model_selection._candidate_fits import forecast
from apportion.model_selection._candidates import Candidate

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


class Stopping(MeanMap):
    """A method whose fit to all bags is interrupted, the first time or more often."""

    def __init__(self, times=1, C=1.0):
        super().__init__(C=C)
        self.times = times

    def solve(self, prepared, bags, start=None, seed=0):
        if (bags.codes >= 0).all() and Stopping.stops < self.times:
            Stopping.stops += 1
            raise KeyboardInterrupt
        return super().solve(prepared, bags, start, seed)


def test_ctrl_c_while_a_method_is_fitted_to_all_bags_keeps_those_that_are():
    X, _, known = some_bags()
    Stopping.stops = 0
    methods = {"whole": MeanMap(), "stopped": Stopping(), "late": MeanMap(C=0.5)}
    with pytest.warns(CandidateWarning, match="Interrupted: .* of whole, as no other"):
        model = AutoLLP(methods).fit(X, **known)
    assert Stopping.stops == 1
    assert model.weights_ == {"whole": 1.0}
    assert list(model.candidate_report_.left_out) == ["stopped", "late"]
    alone = AutoLLP({"whole": MeanMap()}).fit(X, **known)
    np.testing.assert_array_equal(model.transduction_, alone.transduction_)


def test_ctrl_c_before_any_method_is_fitted_to_all_bags_fits_the_likeliest():
    X, _, known = some_bags()
    Stopping.stops = 0
    with pytest.warns(CandidateWarning, match="Interrupted: the answer is that of "):
        model = AutoLLP({"stopped": Stopping(), "late": Stopping(C=0.5)}).fit(X, **known)
    (name,) = model.weights_
    likelihoods = AutoLLP({"stopped": MeanMap(), "late": MeanMap(C=0.5)}).fit(X, **known)
    found = likelihoods.held_out_log_likelihood_
    assert name == max(found, key=found.get)


def test_a_second_ctrl_c_ends_the_fit():
    X, _, known = some_bags()
    Stopping.stops = 0
    with pytest.warns(CandidateWarning, match="Interrupted"), pytest.raises(KeyboardInterrupt):
        AutoLLP({"whole": MeanMap(), "stopped": Stopping(), "late": Failing()}).fit(X, **known)
    Stopping.stops = 0
    with pytest.raises(KeyboardInterrupt):
        AutoLLP({"stopped": Stopping(2)}).fit(X, **known)


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("smoothed_on_graph", "no graph of similar rows was tried"),
        ("held_out_again", "one deal of the bags to folds only"),
    ],
)
def test_ctrl_c_after_the_methods_are_compared_keeps_the_answer(monkeypatch, place, says):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_weighing, place, stop)
    monkeypatch.setattr(_weights.Weighing, "is_close", place == "held_out_again")
    X, _, known = some_bags()
    with pytest.warns(CandidateWarning, match=says):
        model = AutoLLP(METHODS).fit(X, **known)
    assert set(model.weights_) == {"rule", "counts"}


@pytest.mark.filterwarnings("ignore:3 bags are too few")
def test_ctrl_c_with_few_bags_keeps_the_plain_average(monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(_weights, "_fitted", stop)
    X, _, known = some_bags(n_bags=3)
    with pytest.warns(CandidateWarning, match="of inv-cal, mean-map, not smoothed"):
        model = AutoLLP(["inv-cal", "lpllp", "mean-map"]).fit(X, **known)
    assert model.weights_ == pytest.approx({"inv-cal": 0.5, "mean-map": 0.5})


@pytest.mark.parametrize("late", [False, True])
def test_participants_after_ctrl_c_are_labeled_by_the_fast_methods(monkeypatch, late):
    """It comes once the first one has a method, or before the second one has any."""
    X, y, known = some_bags(300, 30)
    groups = np.array(["p", "q", "r"], dtype=object)[known["bags"] % 3]
    ids = np.array(known["bags"].tolist(), dtype=object)
    supervision = Supervision(ids, known["proportions"], None, groups, {})
    fits = []

    def fit(model, X, known):
        fits.append("fast" if model.candidates == "fast" else "all")
        if late and len(fits) == 2:
            raise KeyboardInterrupt
        return fit_known(model, X, known)

    monkeypatch.setattr(rows, "fit_known", fit)
    monkeypatch.setitem(_candidates.NAMED, "stopped", Candidate("stopped", Failing()))
    names = ("mean-map", "count") if late else ("mean-map", "stopped")
    monkeypatch.setattr(_candidates, "DEFAULT", names)
    found = label_rows(X, supervision, AutoLLP())
    assert fits == (["all", "all", "fast", "fast"] if late else ["all", "fast", "fast"])
    assert (found.labels == y).mean() > 0.8
    assert list(found.models) == ["p", "q", "r"]
    for who in "qr":
        assert f"{who}: Interrupted: only the fast methods were compared." in found.notes
    assert late or any(note.startswith("p: Interrupted: the answer") for note in found.notes)


def test_a_second_ctrl_c_ends_the_fast_methods_too(monkeypatch):
    X, _, known = some_bags(300, 30)
    groups = np.array(["p", "q"], dtype=object)[known["bags"] % 2]
    ids = np.array(known["bags"].tolist(), dtype=object)
    supervision = Supervision(ids, known["proportions"], None, groups, {})
    monkeypatch.setattr(_weighing, "smoothed_on_graph", lambda *_: None)
    monkeypatch.setitem(_candidates.NAMED, "gp-trees", Candidate("gp-trees", Failing()))
    with pytest.raises(KeyboardInterrupt):
        label_rows(X, supervision, AutoLLP({"rule": MeanMap(), "stopped": Failing()}))


def reports_of(work):
    reports = []
    with progress_callback(lambda *report: reports.append(report)):
        work()
    return reports


def shares_of(reports, stage="weighing methods"):
    return [done for name, done, _ in reports if name == stage and done is not None]


def test_fits_are_counted_when_they_are_done_and_the_share_rises_to_the_end():
    X, _, known = some_bags()
    reports = reports_of(lambda: AutoLLP(METHODS, random_state=0).fit(X, **known))
    details = [detail for stage, _, detail in reports if stage == "weighing methods"]
    assert details[0] == "fit 1 of 10, fitting rule"
    assert details[1] == "fit 2 of 10, fitting rule"
    assert details[-2] == "fit 10 of 10, fitting counts"
    shares = shares_of(reports)
    assert shares == sorted(shares)
    assert shares[0] == 0.0  # there is no forecast before a fit was measured
    assert 0.0 < shares[1] < 0.6
    assert shares[-1] == 1.0


def test_fits_that_fail_count_as_done():
    X, _, known = some_bags()
    methods = {"broken": Broken(), "rule": MeanMap()}
    with pytest.warns(CandidateWarning, match="broken could not be fitted"):
        reports = reports_of(lambda: AutoLLP(methods).fit(X, **known))
    shares = shares_of(reports)
    assert shares == sorted(shares)
    # The five fits that failed take no time, so that the others are all of it.
    np.testing.assert_allclose(shares[1:], [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.0], atol=0.35)
    assert shares[-1] == 1.0


def test_folds_of_a_second_deal_have_a_percentage_of_their_own(monkeypatch):
    monkeypatch.setattr("apportion.model_selection._weights.Weighing.is_close", True)
    X, _, known = some_bags()
    reports = reports_of(lambda: AutoLLP(METHODS, random_state=0).fit(X, **known))
    for stage in ("weighing methods", "weighing methods in other folds"):
        shares = shares_of(reports, stage)
        assert shares == sorted(shares)
        assert (shares[0], shares[-1]) == (0.0, 1.0)


def test_parts_that_were_measured_say_how_long_the_others_take():
    costs, nan = np.array([1.0, 4.0]), np.nan
    nothing = forecast(costs, np.full((2, 2), nan))
    assert nothing.tolist() == [[1.0, 1.0], [4.0, 4.0]]
    first = forecast(costs, np.array([[3.0, nan], [nan, nan]]))
    assert first.tolist() == [[3.0, 3.0], [12.0, 12.0]]
    own = forecast(costs, np.array([[3.0, 3.0], [2.0, nan]]))
    assert own.tolist() == [[3.0, 3.0], [2.0, 2.0]]
    left_out = forecast(costs, np.array([[3.0, 3.0], [2.0, 0.0]]))
    assert left_out.tolist() == [[3.0, 3.0], [2.0, 0.0]]


class Clock:
    """A clock that a method moves on."""

    now = 0.0

    def __call__(self):
        return self.now


class Slow(MeanMap):
    """A method whose fits take the seconds that a test says."""

    def __init__(self, seconds=(1.0,), fails=False):
        super().__init__()
        self.seconds, self.fails = seconds, fails

    def fit(self, X, y=None, *, bags=None, proportions=None):
        Slow.n_fits += 1
        Slow.clock.now += self.seconds[Slow.n_fits % len(self.seconds)]
        if self.fails:
            raise RuntimeError("no")
        return super().fit(X, y, bags=bags, proportions=proportions)


@given(
    st.lists(
        st.tuples(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=4), st.booleans()),
        min_size=1,
        max_size=4,
    )
)
def test_a_percentage_never_falls_nor_passes_100_and_ends_there(pieces):
    X, _, known = some_bags(60, 6)
    Slow.clock, Slow.n_fits = Clock(), 0
    methods = {f"m{k}": Slow(tuple(s), fails) for k, (s, fails) in enumerate(pieces)}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(_candidate_fits.time, "perf_counter", Slow.clock)
        methods["last"] = Slow((1.0,))
        reports = reports_of(lambda: AutoLLP(methods, cv=3).fit(X, **known))
    shares = shares_of(reports)
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert all(0.0 <= share <= 1.0 for share in shares)


def test_weighing_is_the_share_of_a_participant():
    X, _, known = some_bags()
    groups = np.array(["p", "q"], dtype=object)[known["bags"] % 2]
    ids = np.array(known["bags"].tolist(), dtype=object)
    supervision = Supervision(ids, known["proportions"], None, groups, {})
    reports = reports_of(lambda: label_rows(X, supervision, AutoLLP({"rule": MeanMap()})))
    shares = [done for stage, done, _ in reports if stage == "labeling"]
    assert shares == sorted(shares)
    assert 0.5 in shares
    assert max(shares) == 1.0
    said = [detail for stage, _, detail in reports if stage == "labeling"]
    assert "participant 2 of 2, weighing methods, fit 5 of 5, fitting rule" in said


def test_what_needs_a_method_that_cannot_be_fitted_is_left_out_with_it(monkeypatch):
    X, _, known = some_bags(600, 60)
    whole = _candidate_fits.Problem.whole

    def failing(problem, candidate, answer, *, in_full=False):
        if candidate.name == "gp":
            raise MemoryError("no room")
        return whole(problem, candidate, answer, in_full=in_full)

    monkeypatch.setattr(_candidate_fits.Problem, "whole", failing)
    model = AutoLLP(["gp", "lpllp-gp", "mean-map"], random_state=0)
    with pytest.warns(CandidateWarning, match="no room"):
        model.fit(X, **known)
    assert list(model.candidates_) == ["mean-map"]
    with pytest.raises(_candidate_fits.CandidateError, match="lpllp-gp could not be fitted"):
        AutoLLP(["gp", "lpllp-gp"], random_state=0).fit(X, **known)


def test_a_model_that_is_there_stays_there_after_a_second_deal():
    made = []

    def candidate(held_out):
        named = _candidates.NAMED["gp"]
        return _candidate_fits.FittedCandidate(named, held_out, lambda: made.append(1))

    one = candidate(np.zeros((2, 2)))
    one.make_whole()
    mean = one.averaged_with(candidate(np.ones((2, 2))))
    assert mean.is_whole
    assert mean.whole is one.whole
    assert len(made) == 1


def test_an_interrupt_keeps_no_method_without_weight(monkeypatch):
    """One that somebody else wrote is fitted to all bags at once, whatever its held-out totals."""
    X, _, known = some_bags(600, 60)

    class Contrary(MeanMap):
        def predict_proba(self, X, **more):
            return super().predict_proba(X, **more)[:, ::-1]

    whole, asked = _candidate_fits.Problem.whole, []

    def interrupted_once(problem, candidate, answer, *, in_full=False):
        if candidate.name == "gp" and not asked:
            asked.append(candidate.name)
            raise KeyboardInterrupt
        return whole(problem, candidate, answer, in_full=in_full)

    monkeypatch.setattr(_candidate_fits.Problem, "whole", interrupted_once)
    model = AutoLLP([Contrary(), "gp"], random_state=0)
    with pytest.warns(CandidateWarning, match="the answer is that of gp"):
        model.fit(X, **known)
    assert list(model.candidates_) == ["gp"]


def test_what_was_done_on_a_graph_is_noted(monkeypatch):
    X, _, known = some_bags()
    monkeypatch.setattr(
        _weighing, "smoothed_on_graph", lambda result, *_: (result.average, "it was smoothed")
    )
    ids = np.array(known["bags"].tolist(), dtype=object)
    supervision = Supervision(ids, known["proportions"], None, None, {})
    assert "graph: it was smoothed" in label_rows(X, supervision, AutoLLP(METHODS)).notes
    monkeypatch.setattr(_weighing, "smoothed_on_graph", lambda *_: None)
    notes = label_rows(X, supervision, AutoLLP(METHODS)).notes
    assert not any(note.startswith("graph: ") for note in notes)
