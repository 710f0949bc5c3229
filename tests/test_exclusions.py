"""Labels that rows do not have: kept by every method, and against all labelings of tiny bags."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

import pyarrow as pa

from apportion import Totals
from apportion._core.decode import Decoding, Quotas, without
from apportion._utils.sequences import Sequences
from apportion.exceptions import FileError, GivenLabelError, SupervisionError
from apportion.labeling import _exclusions, label_table
from apportion.labeling._exclusions import Exclusions, InTime
from apportion.labeling.rows import RowsInTime, Supervision, label_rows
from apportion.supervision.bags import match_bags


@st.composite
def tiny_bags(draw):
    """Draw a few rows in a bag or in none, bounds of its totals, labels and exclusions."""
    n, c = draw(st.integers(1, 5)), draw(st.integers(2, 3))
    cells = st.lists(st.booleans(), min_size=n * c, max_size=n * c)
    excluded = np.array(draw(cells)).reshape(n, c)
    excluded[excluded.all(axis=1), 0] = False
    bags = draw(st.lists(st.sampled_from(["a", "a", "a", None]), min_size=n, max_size=n))
    bags[0] = "a"
    size = bags.count("a")
    share = np.array(draw(st.lists(st.integers(0, 4), min_size=c, max_size=c)), dtype=float) + 1e-3
    share /= share.sum()
    width = draw(st.sampled_from([0.0, 0.2]))
    lower = np.maximum(np.round(share * size) / size if draw(st.booleans()) else share, 0) - width
    lower = np.clip(lower, 0.0, None)
    lower /= max(lower.sum(), 1.0)
    upper = np.ones(c) if width else lower + (1 - lower.sum()) * (np.arange(c) == 0)
    if not width:
        lower = upper
    totals = Totals.from_intervals({"a": lower.tolist()}, {"a": upper.tolist()}, classes=range(c))
    seed = draw(st.integers(0, 1000))
    F = np.random.default_rng(seed).dirichlet(np.ones(c), n)
    matched = match_bags(n, None, np.array(bags, dtype=object), totals)
    return matched, excluded, F


def labelings(bags, excluded, low, high):
    """Yield all labelings without excluded labels whose counts are within bounds."""
    for labels in product(range(bags.n_classes), repeat=bags.n_samples):
        if any(excluded[i, h] for i, h in enumerate(labels)):
            continue
        counts = np.bincount(
            [h for i, h in enumerate(labels) if bags.codes[i] >= 0], minlength=bags.n_classes
        )
        if (counts >= low - 1e-9).all() and (counts <= high + 1e-9).all():
            yield np.array(labels)


@settings(max_examples=60, deadline=None)
@given(tiny_bags(), st.sampled_from([0.0, 1.0]))
def test_labels_are_the_best_of_all_that_keep_counts_and_exclusions(problem, cost):
    bags, excluded, F = problem
    low, high = np.floor(bags.lower[0] + 1e-9), np.ceil(bags.upper[0] - 1e-9)
    possible = next(labelings(bags, excluded, low, high), None) is not None
    if not possible:
        with pytest.raises(GivenLabelError, match="bag 'a'") as error:
            Exclusions(bags, excluded)
        assert excluded[error.value.row].any()
    rules = Exclusions(bags, excluded, give_way=not possible)
    assert bool(rules.notes) is not possible
    with np.errstate(all="ignore"):
        soft = rules.soft_labels(F)
    assert (soft[excluded] == 0).all()
    np.testing.assert_allclose(soft.sum(axis=1), 1.0)
    sums = rules.bags.open_groups.sum(soft)
    assert (sums >= rules.bags.open_lower - 1e-6).all()
    assert (sums <= rules.bags.open_upper + 1e-6).all()
    in_time = InTime(Sequences.of(np.arange(len(F)), np.zeros(len(F), dtype=int)), cost)
    decoded = rules.decode(soft, "sequence", np.arange(len(F)), in_time)
    every = np.arange(len(F))
    for name, (labels, _) in decoded.items():
        assert not excluded[every, labels].any(), name
    inside = bags.codes >= 0
    of = {
        name: np.bincount(labels[inside], minlength=bags.n_classes)
        for name, (labels, _) in decoded.items()
    }
    assert of["quota"].tolist() == of["sequence"].tolist()
    best = max(
        soft[every, labels].sum() for labels in labelings(bags, excluded, of["quota"], of["quota"])
    )
    assert soft[every, decoded["quota"].labels].sum() == pytest.approx(best, abs=1e-6)
    if possible:
        assert (of["quota"] >= low).all()
        assert (of["quota"] <= high).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 5))
def test_quotas_avoid_excluded_labels_whatever_they_score(seed, c, n):
    rng = np.random.default_rng(seed)
    allowed = rng.integers(0, c, n)
    excluded = rng.random((n, c)) < 0.5
    excluded[np.arange(n), allowed] = False
    F = rng.random((n, c)) + 5 * excluded  # the excluded labels score best
    counts = np.bincount(allowed, minlength=c)
    totals = Totals.from_counts({"a": dict(enumerate(counts.tolist()))})
    bags = match_bags(n, None, ["a"] * n, totals)
    labels = Quotas(bags, np.arange(n))(without(F, excluded)).labels
    value = F[np.arange(n), labels].sum()
    best = max(F[np.arange(n), x].sum() for x in labelings(bags, excluded, counts, counts))
    assert not excluded[np.arange(n), labels].any()
    assert value == pytest.approx(best, abs=1e-6)


def test_a_bag_whose_labels_along_time_are_excluded_has_quota_labels(monkeypatch):
    n = 6
    totals = Totals.from_counts({"a": {0: 2, 1: 1}, "b": {0: 1, 1: 1}})
    bags = match_bags(n, None, np.array(["a", "b", "a", "b", "a", None], dtype=object), totals)
    excluded = np.zeros((n, 2), dtype=bool)
    excluded[0, 0] = excluded[5, 1] = True
    along_time = np.array([0, 1, 1, 0, 0, 1])  # not for rows 0 and 5
    found = Decoding(along_time, np.zeros(n, dtype=bool))
    monkeypatch.setattr(_exclusions, "decode_along_time", lambda *_, **__: found)
    rules = Exclusions(bags, excluded)
    F = rules.soft_labels(np.full((n, 2), 0.5))
    in_time = InTime(Sequences.of(np.arange(n), np.zeros(n, dtype=int)), 1.0)
    labels = rules.decode(F, "sequence", np.arange(n), in_time)["sequence"].labels
    assert labels.tolist() == [1, 1, 0, 0, 0, 0]  # bag b keeps its labels along time


def made_up(seed=0, n_days=6, n=12):
    """Return rows of three classes in days, with totals and true labels."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n_days * n)
    X = rng.normal(size=(n_days * n, 2)) + 3 * np.eye(3)[truth][:, :2]
    bags = np.repeat([f"d{k}" for k in range(n_days)], n).astype(object)
    counts = {
        bag: dict(zip("abc", np.bincount(truth[bags == bag], minlength=3).tolist(), strict=True))
        for bag in dict.fromkeys(bags)
    }
    return X, bags, Totals.from_counts(counts), np.array(list("abc"))[truth]


@pytest.mark.parametrize("method", ["lpllp", "mean-map", "count", "gp"])
def test_every_method_keeps_exclusions_and_totals(method):
    X, bags, totals, truth = made_up()
    before = label_rows(X, Supervision(bags, totals, None, None, {}), method)
    # A wrong label of four rows is excluded, and of two others one that they do not have.
    wrong = np.flatnonzero(before.labels != truth)
    rows = np.r_[wrong[:4], np.flatnonzero(before.labels == truth)[:2]]
    excluded = np.zeros((len(X), 3), dtype=bool)
    for row in rows:
        label = before.labels[row] if row in wrong else "abc".replace(truth[row], "")[0]
        excluded[row, "abc".index(label)] = True
    known = Supervision(bags, totals, None, None, {}, excluded=excluded)
    after = label_rows(X, known, method)
    codes = np.array(["abc".index(label) for label in after.labels])
    assert not excluded[np.arange(len(X)), codes].any()
    assert (after.masses[excluded] == 0).all()
    for bag in dict.fromkeys(bags):
        said = Counter(truth[bags == bag].tolist())
        assert Counter(after.labels[bags == bag].tolist()) == said
    assert after.models[None].transduction_.tolist() == after.labels.tolist()


def test_exclusions_along_time_and_in_groups():
    X, bags, totals, _ = made_up()
    excluded = np.zeros((len(X), 3), dtype=bool)
    excluded[::7, 0] = True
    groups = np.repeat(["p", "q"], len(X) // 2)
    times = RowsInTime(np.arange(len(X)), groups)
    known = Supervision(bags, totals, None, groups, {}, times, excluded=excluded)
    from apportion import LPLLP

    labeled = label_rows(X, known, LPLLP(decode="sequence"))
    assert "a" not in labeled.labels[::7]
    assert (labeled.masses[::7, 0] == 0).all()


def test_no_exclusion_changes_nothing():
    X, bags, totals, _ = made_up()
    none = np.zeros((len(X), 3), dtype=bool)
    one = label_rows(X, Supervision(bags, totals, None, None, {}), "lpllp")
    other = label_rows(X, Supervision(bags, totals, None, None, {}, excluded=none), "lpllp")
    assert one.labels.tolist() == other.labels.tolist()
    np.testing.assert_array_equal(one.masses, other.masses)


ROWS = {
    "id": [f"r{i}" for i in range(8)],
    "day": ["mon"] * 4 + ["tue"] * 4,
    "x": [0.0, 0.1, 5.0, 5.1, 0.05, 0.15, 0.2, 5.2],
}
TOTALS = {"day": ["mon", "tue"], "sleep": [2, 3], "tv": [2, 1]}


def label(lines, totals=TOTALS, **more):
    """Return the labels of rows with a table of given labels, and the notes."""
    table = pa.Table.from_pylist(
        [dict(zip(("id", "label", "given"), line, strict=True)) for line in lines]
    )
    known = {"bags": "day", "proportions": totals, "method": "lpllp", "id": "id"}
    labeled = label_table(pa.table(ROWS), given=table, features=["x"], **known, **more)
    return dict(zip(ROWS["id"], labeled.labels.labels.tolist(), strict=True)), labeled


def test_a_table_of_labels_may_exclude_some():
    labels, labeled = label([("r0", "sleep", "not"), ("r4", "sleep", "yes"), ("r5", "tv", "")])
    assert labels["r0"] == "tv"  # of two labels, one is left: it is given
    assert Counter([labels[f"r{i}"] for i in range(4)]) == {"sleep": 2, "tv": 2}
    assert "1 label excluded in 'the given labels'" in labeled.notes
    assert labeled.labels.reasons[0] == "given"
    three = {**TOTALS, "sleep": [1, 2], "meal": [1, 1]}
    labels, labeled = label([("r0", "sleep", "NOT"), ("r3", "tv", "not")], three)
    assert labels["r0"] != "sleep"
    assert labels["r3"] != "tv"
    masses = dict(zip(labeled.labels.classes.tolist(), labeled.labels.masses.T, strict=True))
    assert masses["sleep"][0] == 0
    assert masses["tv"][3] == 0


def test_a_row_may_have_several_lines_that_exclude():
    three = {**TOTALS, "sleep": [1, 2], "meal": [1, 1]}
    lines = [("r0", "sleep", "not"), ("r0", "tv", "not"), ("r1", "tv", "not")]
    labels, labeled = label(lines, three)
    assert labels["r0"] == "meal"
    assert labels["r1"] == "sleep"
    assert labeled.labels.reasons[0] == "given"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([("r0", "sleep", "not"), ("r0", "tv", "not")], "row 0.*all labels excluded"),
        ([("r0", "tv", "not"), ("r0", "tv", "yes")], "row 0.*'tv' both given and excluded"),
        ([("r9", "tv", "not")], "which no row of"),
        ([("r0", "tea", "not")], "the label 'tea'"),
    ],
)
def test_exclusions_that_contradict_are_refused(lines, says):
    with pytest.raises(FileError, match=says):
        label(lines)


def test_exclusions_that_leave_no_room():
    three = {"day": ["mon", "tue"], "sleep": [3, 2], "tv": [1, 1], "meal": [0, 1]}
    lines = [("r0", "sleep", "not"), ("r1", "sleep", "not")]
    says = r"bag 'mon': found labels excluded for 2 rows, with no room left for the total of"
    with pytest.raises(SupervisionError, match=says) as error:
        label(lines, three)
    assert "'sleep'" in str(error.value)
    assert "conflict='given'" in str(error.value)
    labels, labeled = label(lines, three, conflict="given")
    assert labels["r0"] != "sleep"
    assert labels["r1"] != "sleep"
    assert any(note.startswith("'mon': labels excluded") for note in labeled.notes)
