"""The rows around a row: their means and deviations, and methods that see them."""

from __future__ import annotations

import json
import warnings
from contextlib import chdir

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from apportion import AutoLLP, CandidateWarning, InputError, Totals
from apportion._utils.context import context_features
from apportion._utils.sequences import Sequences
from apportion.context import add_context
from apportion.exceptions import SavedModelError
from apportion.labeling import label_table
from apportion.model_selection import _candidates
from apportion.persistence import load_model, save_model
from command_line import KNOWN, done, refused, table, write

IN_CONTEXT = "count-rbf, context of ±3 rows"


@st.composite
def recordings(draw):
    n, d = draw(st.integers(1, 40)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    times = rng.permutation(np.cumsum(rng.choice([1.0, 1.0, 1.0, 2.0, 5.0, 50.0], n)))
    offset = draw(st.sampled_from([0.0, 1e6, -1e9]))
    return rng.normal(0, 1, (n, d)) + offset, times, rng.integers(0, 3, n)


@given(rows=recordings(), reach=st.integers(0, 8))
def test_context_is_that_of_a_literal_loop(rows, reach):
    X, times, sequence = rows
    found = add_context(X, times=times, sequences=sequence, reach=reach)
    expected = reference.context_of_rows(X, times, sequence, reach)
    d, eps = X.shape[1], np.finfo(float).eps
    assert (found[:, :d] == X).all()
    assert found[:, d:] == pytest.approx(expected[:, d:], rel=1e-9, abs=4 * eps * np.abs(X).max())


def test_an_offset_changes_no_deviation():
    X = np.random.default_rng(0).integers(0, 9, (200, 2)).astype(float)
    plain, far = (add_context(X + offset, times=np.arange(200)) for offset in (0.0, 1e6))
    assert far[:, 4:] == pytest.approx(plain[:, 4:], rel=1e-12)
    constant = add_context(np.full((50, 1), 0.1 + 1e6), times=np.arange(50))
    assert (constant[:, 1] == constant[:, 0]).all()
    assert (constant[:, 2] == 0).all()


def test_other_recordings_and_the_order_of_rows_change_no_bit():
    rng = np.random.default_rng(0)
    X, times = rng.normal(0, 1, (90, 2)), np.tile(np.arange(30.0), 3)
    who = np.repeat(["a", "b", "c"], 30)
    whole = add_context(X, times=times, sequences=who)
    order = rng.permutation(90)
    assert (add_context(X[order], times=times[order], sequences=who[order]) == whole[order]).all()
    alone = who == "b"
    assert (add_context(X[alone], times=times[alone]) == whole[alone]).all()
    far = np.where(alone[:, None], X, 1e9)
    assert (add_context(far, times=times, sequences=who)[alone] == whole[alone]).all()


def test_rows_of_one_time_have_an_order_of_their_own():
    X = np.random.default_rng(0).normal(0, 1, (40, 2))
    order = np.random.default_rng(1).permutation(40)
    times = np.arange(40) // 4
    assert (add_context(X[order], times=times[order]) == add_context(X, times=times)[order]).all()


def test_a_gap_beyond_the_reach_cuts():
    X, times = np.arange(6.0)[:, None], np.array([0, 1, 2, 4, 5, 6])
    assert add_context(X, times=times, reach=2)[2, 1] == 2.0
    assert add_context(X, times=times, reach=1)[2, 1] == 1.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"times": None}, "the time of every row"),
        ({"times": [0, 1]}, "2"),
        ({"times": [0, 1, 2], "reach": -1}, "'reach' parameter of add_context"),
        ({"times": [0, 1, 2], "reach": 1.5}, "'reach' parameter of add_context"),
        ({"times": [0, 1, np.nan]}, "finite"),
    ],
)
def test_what_cannot_be_used_is_named(given, message):
    with pytest.raises((InputError, ValueError), match=message):
        add_context(np.zeros((3, 1)), **given)
    with pytest.raises(InputError, match="squares"):
        add_context(np.full((3, 1), 1e200), times=[0, 1, 2])


def test_some_rows_of_sequences_keep_their_order():
    rows = Sequences.of(np.array([3.0, 1.0, 2.0, 5.0, 4.0]), np.array([1, 0, 1, 0, 1]))
    some = rows.only(np.array([4, 2, 3]))
    assert some.order.tolist() == [2, 1, 0]
    assert some.begins.tolist() == [True, True, False]
    alone = context_features(np.ones((3, 1)), Sequences.alone(3), 2)
    assert alone.tolist() == [[1.0, 1.0, 0.0]] * 3


# AutoLLP


@pytest.fixture(scope="module")
def week():
    """Two recordings of activities that differ in how much the features vary."""
    rng = np.random.default_rng(0)
    n = 400
    lasting = np.cumsum(rng.random(n) < 0.1)
    y = np.array(["rest", "walk"])[rng.integers(0, 2, n)[lasting]]
    X = rng.normal(0, 1, (n, 2)) * np.where(y == "walk", 1.0, 0.5)[:, None]
    bags = np.arange(n) // 20
    known = {"bags": bags, "proportions": Totals.from_labels(y, bags)}
    return X, y, known, {"times": np.arange(n), "sequences": np.repeat(["a", "b"], n // 2)}


@pytest.fixture(scope="module")
def in_context(week):
    X, _, known, when = week
    return AutoLLP(["count-rbf"], context=3, cv=3, random_state=0).fit(X, **known, **when)


def test_context_is_used_where_held_out_totals_support_it(week, in_context):
    X, y, known, when = week
    without = AutoLLP(["count-rbf"], context=0, cv=3, random_state=0).fit(X, **known, **when)
    assert {*in_context.weights_} == {*without.weights_, IN_CONTEXT}
    assert in_context.weights_[IN_CONTEXT] > 0.5
    assert IN_CONTEXT in str(in_context.candidate_report_)
    better = in_context.held_out_log_likelihood_
    assert better[IN_CONTEXT] > better["count-rbf"] + 3
    assert (in_context.transduction_ == y).mean() > (without.transduction_ == y).mean()
    assert in_context.candidates_[IN_CONTEXT].n_features_in_ == 3 * X.shape[1]
    assert in_context.n_features_in_ == X.shape[1]


def test_context_is_left_out_where_it_is_no_help(week):
    X, _, known, _ = week
    shuffled = {"times": np.random.default_rng(0).permutation(len(X))}
    models = [
        AutoLLP(["count-rbf"], context=context, cv=3, random_state=0).fit(X, **known, **shuffled)
        for context in (3, 0)
    ]
    left_out = models[0].candidate_report_.left_out
    assert "held-out totals are no likelier with it" in left_out[IN_CONTEXT]
    assert models[0].weights_ == models[1].weights_
    assert (models[0].label_distributions_ == models[1].label_distributions_).all()


def test_without_times_nothing_changes(week):
    X, _, known, _ = week
    models = [
        AutoLLP(["count-rbf"], context=context, cv=2, random_state=0).fit(X, **known)
        for context in (5, 0)
    ]
    assert models[0].weights_ == models[1].weights_
    assert (models[0].label_distributions_ == models[1].label_distributions_).all()
    assert list(models[0].candidate_report_.left_out.values()) == ["needs times"]


def test_the_order_of_rows_does_not_matter(week, in_context):
    X, _, known, when = week
    order = np.random.default_rng(0).permutation(len(X))
    other = AutoLLP(["count-rbf"], context=3, cv=3, random_state=0).fit(
        X[order],
        bags=known["bags"][order],
        proportions=known["proportions"],
        **{name: values[order] for name, values in when.items()},
    )
    assert other.label_distributions_ == pytest.approx(
        in_context.label_distributions_[order], abs=1e-6
    )


def test_new_rows_are_predicted_in_context_also_after_saving(week, in_context, tmp_path):
    X, y, _, when = week
    with warnings.catch_warnings():
        warnings.simplefilter("error", CandidateWarning)
        along = in_context.predict(X, **when)
    with pytest.warns(CandidateWarning, match="times of these rows are not known") as caught:
        alone = in_context.predict(X)
    assert len(caught) == 1
    assert (along == y).mean() > (alone == y).mean()
    save_model(tmp_path / "model", in_context)
    saved = load_model(tmp_path / "model").model
    assert saved.predict_proba(X, **when) == pytest.approx(in_context.predict_proba(X, **when))
    with pytest.warns(CandidateWarning, match="not known"):
        assert (saved.predict(X) == alone).all()


def test_files_with_another_reach_are_refused(week, in_context, tmp_path, monkeypatch):
    for reach, message in ((0, "a candidate of 6 features"), (-1, "reaches")):
        monkeypatch.setitem(in_context._reaches, IN_CONTEXT, reach)
        save_model(tmp_path / str(reach), in_context)
        with pytest.raises(SavedModelError, match=message):
            load_model(tmp_path / str(reach))


@pytest.mark.parametrize("context", [-1, 1.5, "often", True])
def test_a_context_that_is_none_is_refused(week, context):
    X, _, known, when = week
    with pytest.raises(ValueError, match="'context' parameter of AutoLLP"):
        AutoLLP(context=context).fit(X, **known, **when)


def test_single_methods_have_no_context():
    with pytest.raises(ValueError, match="`context` is for the method 'auto'"):
        label_table("rows.csv", method="lpllp", context=3)


# The command line


@pytest.fixture
def files(week, tmp_path, monkeypatch):
    """Write rows with start times and their totals; `auto` weighs one method, for speed."""
    X, y, known, _ = week
    monkeypatch.setattr(_candidates, "DEFAULT", ("count-rbf",))
    start = (np.datetime64("2024-03-04", "s") + 60 * np.arange(len(X))).tolist()
    columns = {"start": [t.isoformat() for t in start], "x": X[:, 0], "z": X[:, 1]}
    days = np.unique(known["bags"])
    walked = [int((y[known["bags"] == day] == "walk").sum()) for day in days]
    with chdir(tmp_path):
        write("rows.csv", table(**columns, day=known["bags"]))
        write("new.csv", table(**columns))
        write("alone.csv", table(x=X[:, 0], z=X[:, 1]))
        write("totals.csv", table(day=days, walk=walked, rest=[20 - k for k in walked]))
        yield


def candidates_of(*words):
    words = ("rows.csv", *KNOWN, "-o", "l.csv", "--force", "--json", "--method", "auto", *words)
    return {c["name"] for c in json.loads(done("label", *words).stdout)["candidates"]}


def test_the_command_line_fits_and_predicts_in_context(files):
    assert candidates_of("--context", 3, "--model", "model.zip") == {"count-rbf", IN_CONTEXT}
    said = done("predict", "model.zip", "new.csv", "-o", "p.csv").stderr
    assert "not known" not in said
    said = done("predict", "model.zip", "alone.csv", "-o", "q.csv").stderr
    assert "times of these rows are not known" in " ".join(said.split())
    assert candidates_of("--context", 0) == candidates_of("--no-time") == {"count-rbf"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("some", "--method", "auto"), "must be auto or an int in the range [0, 10000]"),
        (("-1", "--method", "auto"), "must be auto or an int"),
        (("3", "--method", "gp"), "is for --method auto, and --method is gp"),
        (("3", "--method", "auto", "--no-time"), "and --no-time contradict each other"),
    ],
)
def test_options_that_do_not_go_together(files, words, says):
    refused("label", "rows.csv", *KNOWN, "--context", *words, code=2, says=f"--context {says}")
