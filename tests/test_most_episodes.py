"""How often activities happened: from a table or a diary to labels that keep to it."""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import reference
from apportion import LPLLP, AutoLLP, MeanMap, SupervisionError, Totals
from apportion._core.decode import bag_counts
from apportion._core.sequence_decode import decode_along_time
from apportion._utils.hashing import hash_ranks
from apportion._utils.sequences import Sequences
from apportion.exceptions import EpisodesWarning
from apportion.labeling.rows import Supervision
from apportion.labeling.table import label_table
from apportion.model_selection import CalibratedLLP
from apportion.supervision.bags import Bags, match_bags
from apportion.supervision.diary import DiaryRules, diary_bags
from apportion.supervision.episode_limits import episodes_begun
from command_line import done, refused, run

COUNTS = {"mon": {"sleep": 6, "tea": 2}, "tue": {"sleep": 5, "tea": 3}, "wed": {"sleep": 8}}
TOTALS = Totals.from_counts(COUNTS)
NAN = np.nan
EXPECTED = [[NAN, 2], [1, NAN], [NAN, NAN]]

FORMS = {
    "mapping": {"mon": {"tea": 2}, "tue": {"sleep": 1}},
    "mapping with missing cells": {
        "mon": {"tea": 2, "sleep": None},
        "tue": {"sleep": 1.0, "tea": NAN},
        "wed": {},
    },
    "mapping of sequences": {"tue": [1, None], "mon": [None, 2]},
    "pandas": pd.DataFrame({"tea": [NAN, 2], "sleep": [1, NAN]}, index=["tue", "mon"]),
    "polars": pl.DataFrame({"bag": ["mon", "tue"], "sleep": [None, 1], "tea": [2, None]}),
    "array": np.array(EXPECTED),
    "list": [[None, 2], [1, None], [None, None]],
}


# --- in totals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_numbers(form):
    totals = TOTALS.with_most_episodes(FORMS[form])
    np.testing.assert_array_equal(totals.most_episodes, EXPECTED)
    np.testing.assert_array_equal(totals.lower, TOTALS.lower)
    assert (totals.ids, totals.unit, totals.normalize) == (TOTALS.ids, "mass", False)
    assert TOTALS.most_episodes is None
    with pytest.raises(ValueError, match="read-only"):
        totals.most_episodes[0, 0] = 1.0


@pytest.mark.parametrize("table", [{"mon": {"tea": None}}, np.full((3, 2), NAN)])
def test_nothing_known_is_none(table):
    known = TOTALS.with_most_episodes({"mon": {"tea": 2}})
    assert known.with_most_episodes(table).most_episodes is None


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"mon": {"tea": -1}}, "bag 'mon', class 'tea': found -1 episodes. Allowed: whole"),
        ({"mon": {"tea": 1.5}}, "found 1.5 episodes"),
        ({"mon": {"tea": np.inf}}, "finite numbers"),
        ({"mon": {"tea": "2"}}, "finite numbers"),
        ({"mon": {"coffee": 1}}, "'coffee'.*a class that is not known"),
        ({"sun": {"tea": 1}}, "bag 'sun': found episodes, but no totals. Allowed: the bags of"),
        ({"mon": {"tea": 0}}, "found 0 episodes, and a total of at least 2"),
        ([[1, 2]], "the table of episodes: found 1 rows. Allowed: 3, one per bag"),
        (pd.DataFrame({"bag": ["mon", "mon"], "tea": [1, 1]}), "bag 'mon': found two rows"),
    ],
)
def test_impossible_numbers_are_refused(table, message):
    with pytest.raises(SupervisionError, match=message):
        TOTALS.with_most_episodes(table)


def test_no_episode_of_a_class_without_a_total_is_allowed():
    totals = TOTALS.with_most_episodes({"wed": {"tea": 0}})
    assert totals.most_episodes[2, 1] == 0


@given(
    most=hnp.arrays(np.float64, (3, 2), elements=st.sampled_from([NAN, 1.0, 2.0, 9.0])),
    classes=st.permutations(["sleep", "tea", "walk"]),
    rows=st.lists(st.sampled_from(["mon", "tue", "wed"]), min_size=1, max_size=6),
)
def test_numbers_stay_with_their_bags_and_classes(most, classes, rows):
    totals = pickle.loads(pickle.dumps(TOTALS.with_most_episodes(most)))
    wider = totals.with_classes(np.array(classes))
    expected = {
        (bag, name): most[k, h]
        for k, bag in enumerate(TOTALS.ids)
        for h, name in enumerate(["sleep", "tea"])
    }
    shares = Totals.from_proportions({bag: [0.5, 0.5] for bag in COUNTS}, classes=["sleep", "tea"])
    bags = match_bags(
        len(rows), None, rows, shares.with_most_episodes(most), classes=np.array(classes)
    )
    some = [bags.take(np.arange(len(rows)), np.arange(len(bags.ids))[::-1]), bags.only([0]), bags]
    for table in (wider, *some):
        if np.isnan(most).all():
            assert table.most_episodes is None
            continue
        wanted = [[expected.get((bag, name), NAN) for name in classes] for bag in table.ids]
        np.testing.assert_array_equal(table.most_episodes, wanted)


def test_given_labels_and_left_out_rows_leave_the_numbers_as_they_are():
    totals = TOTALS.with_most_episodes(EXPECTED)
    rows = np.repeat(["mon", "tue", "wed"], 8).astype(object)
    y = np.full(24, None, dtype=object)
    y[0], y[-1] = "tea", "sleep"
    np.testing.assert_array_equal(match_bags(24, y, rows, totals).most_episodes, EXPECTED)
    chosen = np.arange(24) % 8 > 0
    [(_, _, known)] = Supervision(rows, totals, None, None, {}).by_group(chosen)
    assert known.totals.unit == "share"
    np.testing.assert_array_equal(known.totals.most_episodes, EXPECTED)


# --- in decoding ---------------------------------------------------------------------------------


def _tiny(seed):
    """Few rows of two bags and two recordings, with limits that some labels keep."""
    rng = np.random.default_rng(seed)
    n, c = int(rng.integers(4, 8)), int(rng.integers(2, 4))
    codes, truth = np.sort(rng.integers(0, 2, n)), np.sort(rng.integers(0, c, n))
    rng.shuffle(truth[: n // 2])
    totals = Totals.from_labels(truth, codes, classes=list(range(c)))
    sequences = Sequences.of(np.arange(n, dtype=float), (np.arange(n) > 4).astype(int))
    bags = match_bags(n, bags=codes.tolist(), proportions=totals)
    most = reference.episodes_begun(
        truth, bags.codes, sequences.order, sequences.begins, bags.lower.shape
    )
    most[rng.random(most.shape) < 0.3] = NAN
    F = rng.dirichlet(np.full(c, 0.7), n)
    return F, bags, sequences, most


def test_limits_are_kept_in_most_problems_that_allow_it():
    n_kept = n_best = n_problems = n_broken = 0
    for seed in range(60):
        F, bags, sequences, most = _tiny(seed)
        cost = (0.0, 0.3, 1.0)[seed % 3]
        ranks, order, close = hash_ranks(None, len(F)), sequences.order, sequences.closeness
        free = decode_along_time(F, bags, ranks, sequences, cost).labels
        labels = decode_along_time(F, bags, ranks, sequences, cost, most).labels
        counts = bag_counts(F, bags)
        np.testing.assert_array_equal(bags.groups.sum(np.eye(F.shape[1])[labels]), counts)
        scores = np.log((F + 1e-3) / (F + 1e-3).sum(axis=1, keepdims=True))
        best = reference.best_along_time(
            scores, bags.codes, bags.given, counts, order, close, cost, most
        )
        assert np.isfinite(best)
        shape = bags.lower.shape
        begun = [episodes_begun(y, bags.codes, sequences, shape) for y in (free, labels)]
        slow = reference.episodes_begun(labels, bags.codes, order, sequences.begins, shape)
        np.testing.assert_array_equal(begun[1], slow)
        above = [np.maximum(x - np.nan_to_num(most, nan=np.inf), 0).sum() for x in begun]
        assert above[1] <= above[0]
        if not above[0]:
            np.testing.assert_array_equal(labels, free)
        value = reference.value_along_time(scores, labels, order, close, cost)
        n_problems, n_broken = n_problems + 1, n_broken + (above[0] > 0)
        n_kept += above[1] == 0
        if above[1] == 0:
            assert value <= best + 1e-6
            n_best += value >= best - 1e-6
    # Bags of two or three rows have few swaps: some limits cannot be reached by any.
    assert n_broken > 15
    assert n_problems - n_kept <= n_broken / 2
    assert n_best >= 0.75 * n_problems, n_best


@pytest.mark.parametrize("seed", range(4))
def test_permuting_rows_bags_and_classes_permutes_the_labels(seed):
    rng = np.random.default_rng(seed)
    n, c = 120, 3
    truth = np.repeat(rng.integers(0, c, 15), 8)
    codes = np.repeat(np.arange(4), 30)
    bags = match_bags(n, bags=codes, proportions=Totals.from_labels(truth, codes))
    bags.most_episodes = rng.integers(1, 3, (4, c)).astype(float)
    F = 0.4 * np.eye(c)[truth] + 0.6 * rng.dirichlet(np.ones(c), n)
    ranks, week = hash_ranks(F, n), Sequences.of(np.arange(float(n)), np.zeros(n, dtype=int))
    labels, tied = decode_along_time(F, bags, ranks, week, 0.0, bags.most_episodes)
    assert (labels != decode_along_time(F, bags, ranks, week, 0.0).labels).any()
    rows, ids, classes = rng.permutation(n), rng.permutation(4), rng.permutation(c)
    moved = Sequences(np.argsort(rows)[week.order], week.closeness)
    other = bags.take(rows, ids)
    again = decode_along_time(F[rows], other, ranks[rows], moved, 0.0, other.most_episodes)
    np.testing.assert_array_equal(again.labels, labels[rows])
    np.testing.assert_array_equal(again.tied, tied[rows])
    tables = (table[:, classes] for table in (bags.lower, bags.upper))
    most = bags.most_episodes[:, classes]
    other = Bags(bags.ids, bags.classes[classes], bags.codes, *tables, bags.given, most)
    again = decode_along_time(F[:, classes], other, ranks, week, 0.0, most)
    np.testing.assert_array_equal(classes[again.labels], labels)


# --- in estimators -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def days():
    """Hours of six days with two teas each, and how many features say so."""
    rng = np.random.default_rng(3)
    day = np.array(["nap", "nap", "tea", "tea", "walk", "walk", "tea", "tea", "nap", "walk"])
    y = np.concatenate([np.repeat(np.roll(day, -2 * k), 3)[: 30 - 3 * (k % 2)] for k in range(8)])
    bags = np.concatenate([np.full(30 - 3 * (k % 2), k) for k in range(8)])
    X = np.eye(3)[np.unique(y, return_inverse=True)[1]] + rng.normal(0, 0.6, (len(y), 3))
    totals = Totals.from_labels(y, bags)
    return X, {"bags": bags, "proportions": totals}, {"times": np.arange(len(y))}


def _above(model, labels, known, when, most):
    codes = np.searchsorted(model.classes_, labels)
    along = Sequences.of(when["times"].astype(float), np.zeros(len(codes), dtype=int))
    return (episodes_begun(codes, known["bags"], along, most.shape) > most).sum()


@pytest.mark.parametrize(
    "model",
    [
        LPLLP(decode="sequence", random_state=0),
        AutoLLP(["mean-map"], decode="sequence", random_state=0),
        CalibratedLLP(MeanMap(), decode="sequence", random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_estimators_keep_to_how_often(days, model):
    X, known, when = days
    free = model.fit(X, **known, **when).transduction_
    most = np.full(known["proportions"].lower.shape, NAN)
    most[:, 1] = 1.0
    bound = {**known, "proportions": known["proportions"].with_most_episodes(most)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        labels = model.fit(X, **bound, **when).transduction_
        above = _above(model, labels, known, when, most)
        told = [str(w.message) for w in caught if w.category is EpisodesWarning]
        assert len(told) == (above > 0)
    assert above < _above(model, free, known, when, most)
    assert model.bag_report_.error("sequence") == 0
    if isinstance(model, LPLLP):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EpisodesWarning)
        predicted = model.predict(X, **bound, **when)
    unbound = model.predict(X, **known, **when)
    assert _above(model, predicted, known, when, most) < _above(model, unbound, known, when, most)


def test_the_warning_names_bags_classes_and_numbers():
    """A label that is given apart from the others makes a second episode."""
    X, y = np.array([[0.0], [1], [1], [0], [1], [0]] * 2), ["b", *[None] * 3, "b", None] * 2
    bags = np.repeat(["mon", "tue"], 6)
    totals = Totals.from_counts({bag: {"a": 4, "b": 2} for bag in ("mon", "tue")})
    model = LPLLP("rbf", decode="sequence", random_state=0)
    text = (
        "No labels were found that keep all given numbers of episodes and the totals, which come "
        "first: bag 'mon' has 2 episodes of 'b' (at most 1 given), bag 'tue' has 2 episodes of 'b' "
        "(at most 1 given). "
        "Check these numbers and the totals of these bags."
    )
    for table, told in (({"mon": {"b": 1}, "tue": {"b": 1}}, [text]), ({"mon": {"b": 2}}, [])):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            limited = totals.with_most_episodes(table)
            model.fit(X, y, bags=bags, proportions=limited, times=np.arange(12))
        assert [str(w.message) for w in caught if w.category is EpisodesWarning] == told


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        (AutoLLP(["mean-map"], decode="sequence"), "Pass `times` of these rows"),
        (LPLLP(decode="sequence", random_state=0), "only the rows it is fitted to"),
    ],
    ids=["auto", "lpllp"],
)
def test_new_rows_without_times_are_not_decoded_along_time_silently(days, model, hint):
    X, known, when = days
    model.fit(X, **known, **when)
    with pytest.warns(UserWarning, match=f"decode='sequence' needs times: .*{hint}"):
        model.predict(X, **known)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X)


# --- from a diary --------------------------------------------------------------------------------


def _write_week(times):
    """Write hourly windows of a week, and a diary that says how often tea was had."""
    rng = np.random.default_rng(0)
    start = np.arange("2024-03-04T00", "2024-03-11T00", dtype="M8[h]")
    hour = np.arange(len(start)) % 24
    tea = (hour == 9) | (hour == 15) | ((hour == 20) & (np.arange(len(start)) // 24 % 2 > 0))
    y = np.where(hour < 8, "sleep", np.where(tea, "tea", "desk"))
    level = {"sleep": 0.0, "desk": 1.5, "tea": 3.0}
    lines = ["start,a,b"]
    for when, label in zip(start, y, strict=True):
        a, b = level[str(label)] + rng.normal(0, 0.7, 2)
        lines.append(f"{when}:00,{a:.3f},{b:.3f}")
    Path("windows.csv").write_text("\n".join(lines))
    diary = ["date,sleep,desk,tea" + ",tea_times" * times]
    for k in range(7):
        n_teas = 2 + k % 2
        counted = ",1" * times
        diary.append(f"2024-03-{4 + k:02},8h,{16 - n_teas}h,{n_teas}h{counted}")
    Path("diary.csv").write_text("\n".join(diary))


def _label(*more):
    result = done("label", "windows.csv", "--diary", "diary.csv", "-o", "l.csv", "--json", *more)
    return json.loads(result.stdout), " ".join(result.stderr.split())


@pytest.fixture
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


WHY = "decode: along time, and the diary says how often for 'tea'"


@pytest.mark.usefixtures("_folder")
def test_a_diary_that_says_how_often_binds_the_labels():
    _write_week(times=True)
    force = ("--method", "lpllp", "--force")
    by_quota, said = _label(*force, "--decode", "quota")
    assert by_quota["decode"] == "quota"
    assert "decode: " not in said
    assert by_quota["episodes"]["tea"] > 7
    summary, said = _label(*force, "--decode", "sequence")
    assert summary["decode"] == "sequence"
    assert summary["episodes_given"] == {"tea": 7}
    assert summary["episodes_where_given"]["tea"] == 7
    assert summary["assigned"] == by_quota["assigned"]
    by_default, said = _label(*force)
    assert by_default["decode"] == "quota"
    assert "decode: by quota, though the diary says how often for 'tea': lpllp does not" in said
    assert by_default["episodes"] == by_quota["episodes"]


@pytest.mark.usefixtures("_folder")
def test_the_default_method_decodes_along_time_if_the_diary_says_how_often(monkeypatch):
    _write_week(times=True)
    few = lambda: AutoLLP(["mean-map"], random_state=0)  # noqa: E731
    monkeypatch.setattr("apportion.labeling.table.resolved_method", lambda *_: few())
    table = label_table("windows.csv", diary="diary.csv", method="auto")
    assert table.summary["decode"] == "sequence"
    assert WHY in " ".join(table.summary["notes"])
    assert table.summary["episodes_where_given"]["tea"] == 7
    by_estimator = label_table("windows.csv", diary="diary.csv", method=few())
    assert by_estimator.summary["decode"] == "quota"


@pytest.mark.usefixtures("_folder")
def test_other_methods_and_labels_without_time_decode_by_quota_and_say_so():
    _write_week(times=True)
    summary, said = _label("--method", "mean-map")
    assert summary["decode"] == "quota"
    assert "decode: by quota, though the diary says how often for 'tea': MeanMap does not" in said
    assert summary["episodes_given"] == {"tea": 7}
    summary, said = _label("--method", "lpllp", "--no-time", "--force")
    assert summary["decode"] == "quota"
    assert "'tea': no times are used" in said
    _write_week(times=False)
    summary, said = _label("--method", "lpllp", "--force")
    assert summary["decode"] == "quota"
    assert "decode: " not in said


@pytest.mark.usefixtures("_folder")
def test_zero_times_and_a_duration_is_refused():
    _write_week(times=True)
    path = Path("diary.csv")
    path.write_text(path.read_text().replace("2h,1", "2h,0", 1))
    refused(
        *("label", "windows.csv", "--diary", "diary.csv", "-o", "l.csv"),
        says=["0 episodes of 'tea' and a duration above 0"],
    )


def test_a_blank_duration_that_never_happened_is_no_contradiction():
    windows = {"start": np.arange("2024-03-04T00", "2024-03-05T00", dtype="M8[h]")}
    diary = [{"date": "2024-03-04", "sleep": "8h", "tea": "", "tea_times": 0}]
    matched = diary_bags(windows, diary, rules=DiaryRules(blank="unknown"))
    np.testing.assert_array_equal(matched.episodes, matched.totals.most_episodes)


@pytest.mark.usefixtures("_folder")
def test_a_saved_model_does_not_depend_on_how_often():
    _write_week(times=True)
    _label("--method", "lpllp", "--model", "model.zip")
    result = run("predict", "model.zip", "windows.csv", "-o", "new.csv")
    assert result.exit_code == 0, result.stderr
