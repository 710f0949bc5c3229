"""The quick answer to corrections: what must change changes, all else stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from sklearn.datasets import make_blobs

from apportion.datasets import make_smart_home
from apportion.exceptions import InputError
from apportion.labeling._features import learn_features
from apportion.labeling._methods import method_named
from apportion.labeling._supervision import supervised_table
from apportion.labeling.relabel import relabel
from apportion.labeling.rows import is_known
from apportion.labeling.table import label_supervised


@pytest.fixture(scope="module", params=["lpllp", "mean-map", "sequence"])
def first(request):
    """Return a task, its features and labels of a full run, also by a method without a graph."""
    home = make_smart_home(3, 2, seed=0, minutes=30)
    task = supervised_table(pa.table(home.windows), diary=home.diary)
    features = learn_features(task)
    name = "lpllp" if request.param == "sequence" else request.param
    decode = "sequence" if request.param == "sequence" else "quota"
    estimator = method_named(name, decode=decode)
    return task, features, label_supervised(task, features, estimator, method=name)


def corrected(task, labels=(), excluded=()):
    """Return the task with labels, and labels that rows do not have, as pairs with rows."""
    given = np.full(task.rows.n_samples, None, dtype=object)
    for row, label in labels:
        given[row] = label
    classes = task.totals.classes.tolist()
    mask = np.zeros((task.rows.n_samples, len(classes)), dtype=bool)
    for row, label in excluded:
        mask[row, classes.index(label)] = True
    changes = {"given": given, "excluded": mask, "conflict": "given"}
    return replace(task, supervision=replace(task.supervision, **changes))


def test_without_a_correction_nothing_changes(first):
    task, features, before = first
    after = relabel(before, corrected(task), features)
    assert after.labels.labels.tolist() == before.labels.labels.tolist()
    np.testing.assert_array_equal(after.labels.masses, before.labels.masses)
    assert after.summary["quick"] is True
    assert after.summary["estimated_accuracy"]["fitted_rows"]["value"] is None


def test_a_label_that_was_right_changes_no_other(first):
    task, features, before = first
    row = int(np.nanargmin(before.labels.confidence))
    after = relabel(before, corrected(task, [(row, before.labels.labels[row])]), features)
    others = np.arange(len(before.labels.labels)) != row
    same = (after.labels.labels == before.labels.labels)[others & is_known(before.labels.labels)]
    assert same.mean() > 0.98
    assert "given" in after.labels.reasons[row]


def test_corrections_and_exclusions_are_kept_with_the_totals(first):
    task, features, before = first
    labels, classes = before.labels.labels, task.totals.classes.tolist()
    rows = np.flatnonzero(is_known(labels))
    one, other = rows[5], rows[-5]
    # A label that the row's bag has: another one of its rows has it.
    bag = task.supervision.bags
    new = next(x for x in labels[(bag == bag[one]) & is_known(labels)] if x != labels[one])
    now = corrected(task, [(one, new)], [(other, labels[other])])
    after = relabel(before, now, features)
    assert after.labels.labels[one] == new
    assert after.labels.labels[other] != labels[other]
    assert after.labels.masses[other, classes.index(labels[other])] == 0
    np.testing.assert_allclose(after.labels.masses[is_known(labels)].sum(axis=1), 1.0)
    # The diary's totals are bounds: counts may differ from those before, and stay within them.
    for entry in after.summary["bags"]:
        for label, n in entry["assigned"].items():
            low, high = entry["given"][label]
            assert np.floor(low + 1e-9) <= n <= np.ceil(high - 1e-9)
    # The full run is as it was, and answers the same again.
    assert before.labels.labels is labels
    assert relabel(before, now, features).labels.labels.tolist() == after.labels.labels.tolist()
    assert "quick" not in before.summary


def test_bags_that_no_correction_reaches_keep_their_labels(first, monkeypatch):
    task, features, before = first
    monkeypatch.setattr("apportion.labeling.relabel._REACHED", 2.0)  # the row itself, no other
    rows = np.flatnonzero(is_known(before.labels.labels))
    bag = task.supervision.bags
    row = rows[5]
    now = corrected(task, (), [(row, before.labels.labels[row])])
    after = relabel(before, now, features)
    changed = after.labels.labels != before.labels.labels
    assert changed[row]
    assert set(bag[changed]) == {bag[row]}


def test_rows_that_were_not_corrected_learn_from_corrections():
    """Random bags of 150 rows tell little; twenty labels tell more, also of other rows."""
    gained = []
    for seed in range(3):
        X, y = make_blobs(600, 5, centers=9, cluster_std=2.5, random_state=seed)
        truth = np.array(["a", "b", "c"], dtype=object)[y % 3]
        bags = np.array([f"b{k}" for k in np.random.default_rng(seed).permutation(600) // 150])
        counts = [
            {"bag": bag, **{name: int((truth[bags == bag] == name).sum()) for name in "abc"}}
            for bag in sorted(set(bags.tolist()))
        ]
        rows = pa.table({"bag": bags, **{f"x{j}": X[:, j] for j in range(5)}})
        task = supervised_table(rows, bags="bag", proportions=counts)
        features = learn_features(task)
        before = label_supervised(task, features, method_named("lpllp"), method="lpllp")
        asked = np.random.default_rng(seed).choice(600, 20, replace=False)
        after = relabel(before, corrected(task, [(row, truth[row]) for row in asked]), features)
        others = np.setdiff1d(np.arange(600), asked)
        right = [(x.labels.labels == truth)[others].mean() for x in (before, after)]
        gained.append(right[1] - right[0])
    assert np.mean(gained) > 0.05, gained


def test_other_rows_are_refused(first):
    task, features, before = first
    some = replace(
        task.supervision,
        left_out={"non-wear": np.arange(task.rows.n_samples) % 7 == 0},
    )
    with pytest.raises(InputError, match="the rows of the full run"):
        relabel(before, replace(task, supervision=some), features)
