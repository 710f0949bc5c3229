"""Rows that follow each other in time: sequences, smoothing, AutoLLP with times."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components
from sklearn.base import clone

import reference
from apportion import LPLLP, AnchorGraph, AutoLLP, KNNGraph, MeanMap, RBFGraph, Totals
from apportion._core.persistence import Flicker, Persistence, flicker_of, smooth_along_time
from apportion._core.propagation import propagator
from apportion._utils.sequences import Sequences
from apportion.exceptions import InputError
from apportion.model_selection._calibration import calibrate, known_totals
from apportion.model_selection._in_time import learn_persistence
from apportion.persistence import load_model, save_model
from apportion.supervision.bags import match_bags
from apportion.supervision.rows_in_time import rows_in_time

# Sequences


def test_the_order_is_by_sequence_then_by_time():
    times = np.array([3.0, 1.0, 2.0, 5.0, 4.0])
    rows = Sequences.of(times, np.array([1, 0, 1, 0, 1]))
    assert rows.order.tolist() == [1, 3, 2, 0, 4]
    assert rows.begins.tolist() == [True, False, True, False, False]
    assert rows.before.tolist() == [2, -1, -1, 1, 0]


def test_a_gap_weakens_what_follows_and_sequences_are_never_tied():
    rows = Sequences.of(np.array([0.0, 1, 2, 6, 7, 0, 10]), np.array([0, 0, 0, 0, 0, 1, 1]))
    assert rows.closeness.tolist() == [0, 1, 1, 0.25, 1, 0, 1]


def test_rows_of_one_time_are_close():
    rows = Sequences.of(np.zeros(3), np.zeros(3, dtype=int))
    assert rows.closeness.tolist() == [0, 1, 1]


def test_changes_are_counted_within_sequences():
    rows = Sequences.of(np.arange(6.0), np.array([0, 0, 0, 1, 1, 1]))
    assert rows.n_changes(np.array([0, 0, 1, 0, 0, 0])) == 1
    assert Sequences.of(np.empty(0), np.empty(0, dtype=int)).n_changes(np.empty(0, dtype=int)) == 0


def test_times_of_every_kind_are_one_order():
    noon = datetime(2024, 3, 4, 12, tzinfo=UTC)
    aware = [noon + timedelta(minutes=k) for k in (3, 0, 1, 9)]
    kinds = [
        [3, 0, 1, 9],
        np.array([3.0, 0.0, 1.0, 9.0]),
        np.datetime64("2024-03-04", "m") + np.array([3, 0, 1, 9]),
        aware,
        [time.isoformat() for time in aware],
    ]
    for times in kinds:
        found = rows_in_time(times, None, np.arange(4))
        assert found.order.tolist() == [1, 2, 0, 3]
        assert found.closeness.round(3).tolist() == [0, 1, 1, round(1 / 3, 3)]


def test_a_row_of_no_recording_follows_none():
    found = rows_in_time([0, 1, 2, 3], ["a", None, "a", None], np.arange(4))
    assert found.before.tolist() == [-1, -1, 0, -1]


@pytest.mark.parametrize(
    ("times", "sequences", "message"),
    [
        ([0, 1], None, "`times` has 2 values"),
        ([0, 1, 2], ["a"], "`sequences` has 1 values"),
        (None, ["a", "a", "a"], "sequences: found no times"),
        ([0, np.nan, 2], None, "row 1, times: found nan"),
        (["noon", "1", "2"], None, "row 0, column 'times': found 'noon'"),
    ],
)
def test_times_that_cannot_be_used_are_named(times, sequences, message):
    with pytest.raises((InputError, ValueError), match=message):
        rows_in_time(times, sequences, np.arange(3))


# Smoothing


@st.composite
def chains(draw):
    n, c = draw(st.integers(1, 40)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    times = rng.permutation(np.cumsum(rng.choice([1.0, 1.0, 1.0, 5.0], n)))
    P = rng.dirichlet(np.full(c, 0.5), n) * 0.99 + 0.01 / c
    return P, times, rng.integers(0, 3, n), rng.dirichlet(np.full(c, 5.0))


@given(chain=chains(), change=st.floats(0.01, 1.0), trust=st.floats(0.1, 1.0))
def test_smoothing_is_the_posterior_of_a_chain(chain, change, trust):
    P, times, sequence, shares = chain
    found = smooth_along_time(P, Sequences.of(times, sequence), shares, Persistence(change, trust))
    expected = reference.smoothed_along_time(P, times, sequence, shares, change, trust)
    assert found == pytest.approx(expected, abs=1e-9)


def test_rows_that_always_change_keep_their_probabilities():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 50)
    rows = Sequences.of(np.arange(50.0), np.zeros(50, dtype=int))
    assert smooth_along_time(P, rows, np.ones(3) / 3, Persistence(1.0)) == pytest.approx(P)


def test_no_row_forbids_a_class_and_none_are_fine():
    P = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    rows = Sequences.of(np.arange(3.0), np.zeros(3, dtype=int))
    smoothed = smooth_along_time(P, rows, np.array([0.5, 0.5]), Persistence(1e-12, 0.2))
    assert np.isfinite(smoothed).all()
    assert smoothed[1, 0] > 0.5
    none = Sequences.of(np.empty(0), np.empty(0, dtype=int))
    assert smooth_along_time(np.empty((0, 2)), none, np.ones(2) / 2, Persistence(0.1)).shape == (
        0,
        2,
    )


# AutoLLP


@pytest.fixture(scope="module")
def week():
    """Two recordings of activities that last about ten rows, in bags of 30 rows."""
    rng = np.random.default_rng(0)
    n = 600
    lasting = np.cumsum(rng.random(n) < 0.1)
    y = np.array(["eat", "rest", "walk"])[rng.integers(0, 3, n)[lasting]]
    X = np.eye(3)[np.unique(y, return_inverse=True)[1]] + rng.normal(0, 0.7, (n, 3))
    bags = np.arange(n) // 30
    known = {"bags": bags, "proportions": Totals.from_labels(y, bags)}
    start = np.datetime64("2024-03-04", "m") + np.arange(n)
    return X, y, known, {"times": start, "sequences": np.repeat(["a", "b"], n // 2)}


@pytest.fixture(scope="module")
def in_time(week):
    X, _, known, when = week
    return AutoLLP(["mean-map"]).fit(X, **known, **when)


def test_time_is_used_where_labels_flicker(week, in_time):
    X, y, known, when = week
    without = AutoLLP(["mean-map"]).fit(X, **known)
    rows = rows_in_time(**when, ranks=np.arange(len(X)))
    code = np.unique(y, return_inverse=True)[1]
    changes = [
        rows.n_changes(np.searchsorted(model.classes_, model.transduction_))
        for model in (without, in_time)
    ]
    assert "probabilities are smoothed along time" in str(in_time.candidate_report_)
    assert (in_time.transduction_ == y).mean() >= (without.transduction_ == y).mean()
    assert changes[1] == pytest.approx(rows.n_changes(code), rel=0.2)
    assert changes[1] < changes[0] / 2
    assert in_time.bag_report_.error("quota") == 0
    assert "time" not in str(without.candidate_report_).splitlines()[-1].split(":")


def test_time_is_not_used_where_rows_do_not_follow_each_other(week):
    X, _, known, _ = week
    shuffled = np.random.default_rng(0).permutation(len(X))
    without = AutoLLP(["mean-map"]).fit(X, **known)
    model = AutoLLP(["mean-map"]).fit(X, **known, times=shuffled)
    assert "not smoothed along time" in model.candidate_report_.about_time
    assert (model.transduction_ == without.transduction_).all()
    assert model.predict(X, times=shuffled).tolist() == without.predict(X).tolist()


def test_the_order_of_rows_does_not_matter(week, in_time):
    X, _, known, when = week
    order = np.random.default_rng(0).permutation(len(X))
    other = AutoLLP(["mean-map"]).fit(
        X[order],
        bags=known["bags"][order],
        proportions=known["proportions"],
        **{name: values[order] for name, values in when.items()},
    )
    assert other.label_distributions_ == pytest.approx(
        in_time.label_distributions_[order], abs=1e-6
    )


def test_new_rows_are_predicted_in_time_also_after_saving(week, in_time, tmp_path):
    X, y, known, when = week
    alone, along = (in_time.predict(X, **given) for given in ({}, when))
    assert (along == y).mean() > (alone == y).mean()
    save_model(tmp_path / "model", in_time)
    saved = load_model(tmp_path / "model").model
    assert (saved.predict(X, **when) == along).all()
    assert saved.predict_proba(X, **when) == pytest.approx(in_time.predict_proba(X, **when))
    totals = saved.predict_proba(X, **known, **when)
    for bag in np.unique(known["bags"])[:2]:
        rows = known["bags"] == bag
        shares = [(y[rows] == name).sum() for name in saved.classes_]
        assert totals[rows].sum(axis=0) == pytest.approx(shares, abs=1e-5)
    labels = saved.predict(X, **known, **when)
    assert all((labels == name).sum() == (y == name).sum() for name in saved.classes_)


def test_few_bags_do_not_tell_how_activities_last(week):
    X, _, _, when = week
    bags = np.repeat([0, 1, 2], -(-len(X) // 3))[: len(X)]
    totals = Totals.from_labels(np.arange(len(X)) % 2, bags)
    model = AutoLLP({"rule": MeanMap()}).fit(X, bags=bags, proportions=totals, **when)
    assert "too few" in model.candidate_report_.about_time


# Ties in time


def some_sequences(n, rng):
    return Sequences.of(np.cumsum(rng.choice([1.0, 1.0, 4.0], n)), rng.integers(0, 2, n))


def test_flicker_is_told_from_change():
    rng = np.random.default_rng(0)
    n, change, wrong = 40_000, 0.1, 0.15
    y = rng.integers(0, 4, n)[np.cumsum(rng.random(n) < change)]
    noisy = np.where(rng.random(n) < wrong, rng.integers(0, 4, n), y)
    rows = Sequences.of(np.arange(n, dtype=float), np.zeros(n, dtype=int))
    assert flicker_of(y, rows) == pytest.approx((change, 0), abs=0.01)
    assert flicker_of(noisy, rows) == pytest.approx((change, wrong), abs=0.02)
    assert flicker_of(np.zeros(n, dtype=int), rows).flicker == 0
    assert flicker_of(rng.permutation(y), rows) == (1.0, 0.0)
    assert flicker_of(y[:20], Sequences.of(np.arange(20.0), np.zeros(20, dtype=int))).flicker == 0


def test_labels_are_smoothed_only_where_flicker_outweighs_change():
    assert Flicker(0.1, 0.06).is_clear
    assert not Flicker(0.1, 0.04).is_clear
    assert not Flicker(0.0, 0.0).is_clear
    assert Flicker(0.1, 0.06).cost == pytest.approx(np.log(9))
    assert Flicker(0.1, 0.04).cost == 0


@pytest.mark.parametrize("graph", [KNNGraph(4), RBFGraph(0.5), AnchorGraph(12)], ids=str)
def test_ties_in_time_are_edges_of_the_graph(graph):
    rng = np.random.default_rng(0)
    X, V = rng.normal(size=(40, 2)), rng.normal(size=(40, 3))
    graph = graph.fit(X)
    rows = some_sequences(40, rng)
    tied = graph.tied_in_time(rows, 3.0)
    edges = np.zeros((40, 40))
    for place in range(1, 40):
        pair = rows.order[place - 1], rows.order[place]
        edges[pair] = edges[pair[::-1]] = rows.closeness[place]
    W = graph.multiply(np.eye(40)) + 0.3 * graph.degrees_.mean() * edges
    assert tied.degrees_ == pytest.approx(W.sum(axis=1))
    assert tied.multiply(V) == pytest.approx(W @ V)
    P = propagator(tied, 0.7)
    A = np.eye(40) + 0.7 / 0.3 * (np.diag(W.sum(axis=1)) - W) / P.weights[:, None]
    assert P(V) == pytest.approx(np.linalg.solve(A, V), abs=1e-7)
    assert P.inverse(V) == pytest.approx(A @ V)
    np.fill_diagonal(W, 0.0)
    assert tied.neighbor_mean(V) == pytest.approx(W @ V / W.sum(axis=1)[:, None])
    assert tied.strengths == pytest.approx(W.sum(axis=1))
    joined = connected_components(W > 1e-12)
    assert tied.components()[0] == joined[0]
    assert graph.time_weight == 0
    assert graph.tied_in_time(rows, 0.0).multiply(V) == pytest.approx(graph.multiply(V))


def test_edges_join_components():
    X = np.array([[0.0], [0.1], [0.2], [50.0], [50.1], [50.2]])
    rows = Sequences.of(np.arange(6.0), np.zeros(6, dtype=int))
    for graph in (KNNGraph(2).fit(X), AnchorGraph(2, n_nearest=1).fit(X)):
        assert graph.components()[0] == 2
        assert graph.tied_in_time(rows, 1.0).components()[0] == 1


def test_lpllp_ties_rows_that_follow_each_other(week):
    X, y, known, when = week
    without = LPLLP(random_state=0).fit(X, **known)
    tied = LPLLP(random_state=0).fit(X, **known, **when)
    assert without.time_weight_ == 0 < tied.time_weight_
    assert (tied.transduction_ == y).mean() > (without.transduction_ == y).mean()
    assert LPLLP(time_weight=2.5, random_state=0).fit(X, **known, **when).time_weight_ == 2.5
    untied = LPLLP(time_weight=0, random_state=0).fit(X, **known, **when)
    assert (untied.transduction_ == without.transduction_).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_weight_is_that_of_the_labels_that_agree_most(seed):
    """Compare the chosen weight with the others by labels that are found with each of them."""
    rng = np.random.default_rng(seed)
    n = 200
    y = rng.integers(0, 3, n)[np.cumsum(rng.random(n) < 0.15)]
    X, bags = np.eye(3)[y] + rng.normal(0, 0.9, (n, 3)), np.arange(n) // 40
    known = {"bags": bags, "proportions": Totals.from_labels(y, bags), "times": np.arange(n)}
    rows = rows_in_time(known["times"], None, np.arange(n))
    weight = {}
    untied = LPLLP(time_weight=0, random_state=0).fit(X, **known)
    found = flicker_of(untied.transduction_, rows)
    strongest = min(2 * found.flicker / max(found.change, 1e-3), 5.0)
    judge = untied.graph_.tied_in_time(rows, strongest)
    for part in (1, 1 / 3, 1 / 10):
        model = LPLLP(time_weight=strongest * part, random_state=0).fit(X, **known)
        weight[strongest * part] = judge.label_smoothness(model.transduction_, 3)
    auto = LPLLP(random_state=0).fit(X, **known)
    assert auto.time_weight_ == pytest.approx(max(weight, key=weight.get), rel=1e-3)


def test_lpllp_does_not_tie_rows_that_do_not_follow_each_other(week):
    X, _, known, _ = week
    shuffled = np.random.default_rng(0).permutation(len(X))
    assert LPLLP(random_state=0).fit(X, **known, times=shuffled).time_weight_ == 0


def test_lpllp_in_time_does_not_depend_on_the_order_of_rows(week):
    X, _, known, when = week
    order = np.random.default_rng(1).permutation(len(X))
    whole = LPLLP(time_weight=1, random_state=0).fit(X, **known, **when)
    other = LPLLP(time_weight=1, random_state=0).fit(
        X[order],
        bags=known["bags"][order],
        proportions=known["proportions"],
        **{name: values[order] for name, values in when.items()},
    )
    assert other.label_distributions_ == pytest.approx(whole.label_distributions_[order], abs=1e-5)


def test_a_weight_that_is_none_is_refused(week):
    X, _, known, when = week
    with pytest.raises(ValueError, match="time_weight"):
        LPLLP(time_weight=-1).fit(X, **known, **when)


# Decoding along time


@pytest.mark.parametrize("model", [AutoLLP(["mean-map"]), LPLLP(random_state=0)], ids=type)
def test_labels_along_time_keep_the_counts_and_change_less(week, model):
    X, y, known, when = week
    labels = {}
    for decode in ("quota", "sequence"):
        fitted = clone(model).set_params(decode=decode).fit(X, **known, **when)
        assert fitted.bag_report_.error(decode) == 0
        labels[decode] = fitted.transduction_
    rows = rows_in_time(**when, ranks=np.arange(len(X)))
    changes = {
        decode: rows.n_changes(np.searchsorted(fitted.classes_, found))
        for decode, found in labels.items()
    }
    assert changes["sequence"] < changes["quota"]
    assert (labels["sequence"] == y).mean() > (labels["quota"] == y).mean() - 0.01
    with pytest.raises(InputError, match="decode='sequence': found no times"):
        clone(fitted).fit(X, **known)


def test_new_rows_are_decoded_along_time_under_their_totals(week):
    X, _, known, when = week
    model = AutoLLP(["mean-map"], decode="sequence").fit(X, **known, **when)
    assert (model.predict(X, **known, **when) == model.transduction_).mean() > 0.9
    with pytest.raises(InputError, match="found no times"):
        model.predict(X, **known, sequences=when["sequences"])


def test_others_do_not_decode_along_time(week):
    X, _, known, _ = week
    with pytest.raises(ValueError, match="'decode' parameter of MeanMap"):
        MeanMap(decode="sequence").fit(X, **known)


@pytest.mark.parametrize("seed", range(6))
def test_long_episodes_are_not_smoothed_away(seed):
    """A rate of change that is estimated as 0 must not give all rows one class."""
    rng = np.random.default_rng(seed)
    y = np.repeat(rng.permutation(np.arange(6) % 3), 100)
    labels = np.where(rng.random(600) < 0.1, rng.integers(0, 3, 600), y)
    rows = Sequences.of(np.arange(600.0), np.zeros(600, dtype=int))
    P = 0.8 * np.eye(3)[labels] + 0.2 / 3
    found = flicker_of(labels, rows)
    smoothed = smooth_along_time(P, rows, np.ones(3) / 3, Persistence(found.change, 0.5))
    assert found.is_clear
    assert (smoothed.argmax(axis=1) == y).mean() > 0.98
    none = smooth_along_time(P, rows, np.ones(3) / 3, Persistence(0.0))
    assert (none.argmax(axis=1) == y).mean() > 0.98


def test_what_is_not_known_of_flicker_is_said():
    short, long = (Sequences.of(np.arange(float(n)), np.zeros(n, dtype=int)) for n in (10, 400))
    assert "too few steps" in str(flicker_of(np.arange(10) % 2, short))
    assert "all the same" in str(flicker_of(np.zeros(400, dtype=int), long))
    assert "change at" in str(flicker_of(np.arange(400) // 20 % 2, long))


def test_iterations_are_limited_with_times_too(week):
    X, _, known, when = week
    with pytest.warns(UserWarning, match="max_iter"):
        model = LPLLP(max_iter=10, random_state=0).fit(X, **known, **when)
    assert model.n_iter_ <= 11


def test_new_rows_are_smoothed_only_if_held_out_totals_are_likelier(week):
    X, y, known, when = week
    bags = match_bags(len(X), None, known["bags"], known["proportions"])
    held_out = known_totals(bags, np.ones(len(X), dtype=bool), X)
    rng = np.random.default_rng(0)
    noisy = np.where(
        rng.random(len(y)) < 0.15, rng.integers(0, 3, len(y)), np.unique(y, return_inverse=True)[1]
    )
    P = 0.75 * np.eye(3)[noisy] + 0.25 / 3
    rows = rows_in_time(**when, ranks=np.arange(len(X)))
    final = calibrate(P, held_out)
    learned, why = learn_persistence(final(P), final, held_out, rows)
    assert learned.for_new_rows
    assert learned.calibration.log_likelihood > final.log_likelihood
    likelier = replace(final, log_likelihood=1e9)
    learned, why = learn_persistence(final(P), likelier, held_out, rows)
    assert not learned.for_new_rows
    assert "of these rows only" in why
    assert learned.calibration.temperature == pytest.approx(1.0)
    assert (learned.calibration.accuracies == final.accuracies).all()


def test_labels_along_time_are_quota_labels_where_too_few_flicker(week):
    X, _, known, _ = week
    shuffled = np.random.default_rng(0).permutation(len(X))
    quota, along = (
        AutoLLP(["mean-map"], decode=decode).fit(X, **known, times=shuffled)
        for decode in ("quota", "sequence")
    )
    assert (quota.transduction_ == along.transduction_).all()
