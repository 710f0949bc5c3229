"""Metrics and the bag report, against counts made by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from apportion import LPLLP, KNNGraph, SupervisionError, Totals
from apportion.datasets import make_bags, make_xor
from apportion.metrics import bag_majority, bag_proportion_error, constraint_residual, smoothness

BAGS = ["a", "a", "a", "a", "b", "b", None]
TABLE = {"a": {"x": 0.5, "y": 0.5}, "b": {"x": 1.0, "y": 0.0}}


def test_bag_proportion_error():
    assert bag_proportion_error(["x", "x", "y", "y", "x", "x", "y"], BAGS, TABLE) == 0
    assert (
        bag_proportion_error(["x", "x", "x", "y", "x", "y", "y"], BAGS, TABLE) == (0.25 + 0.5) / 2
    )
    soft = np.array([[0.5, 0.5]] * 4 + [[1, 0]] * 2 + [[0, 1]])
    assert bag_proportion_error(soft, BAGS, TABLE) == 0
    with pytest.raises(SupervisionError, match="label 'z'"):
        bag_proportion_error(["z"] * 7, BAGS, TABLE)


def test_intervals_count_from_their_nearer_end():
    totals = Totals.from_intervals({"a": [0.2, 0.2]}, {"a": [0.8, 0.8]})
    assert bag_proportion_error([0, 0, 1, 1], ["a"] * 4, totals) == 0
    assert bag_proportion_error([0, 0, 0, 0], ["a"] * 4, totals) == pytest.approx(0.2)
    upper_only = Totals.from_intervals({"q": [0, 0, 0]}, {"q": [0.5, None, None]})
    assert bag_proportion_error([0] * 10, ["q"] * 10, upper_only) == pytest.approx(0.5)


def test_constraint_residual():
    F = np.array([[0.5, 0.5]] * 4 + [[0.7, 0.3]] * 2 + [[0, 1]])
    assert constraint_residual(F, BAGS, TABLE) == pytest.approx(0.3)


def test_smoothness_orders_like_the_papers_score():
    """f̄ᵀSf̄ with f̄ = ±1 is 2·smoothness - 1, up to the factor n."""
    X, y = make_xor(60, random_state=0)
    graph = KNNGraph(5).fit(X)
    signs = 2.0 * y - 1.0
    S = graph.affinity_.toarray() / graph.degrees_[:, None]
    assert smoothness(y, graph) == pytest.approx(0.5 * (signs @ S @ signs / 60 + 1))
    assert smoothness(np.random.default_rng(0).permutation(y), graph) < smoothness(y, graph)


def test_soft_labels_need_a_column_for_every_class():
    with pytest.raises(ValueError, match="one column for each of the 2 classes"):
        bag_proportion_error(np.ones((7, 3)), BAGS, TABLE)
    with pytest.raises(ValueError, match="two dimensions"):
        constraint_residual(np.ones(7), BAGS, TABLE)


def test_bag_majority():
    assert bag_majority(BAGS, TABLE).tolist() == ["x"] * 7
    assert bag_majority([0, 1, 1], np.array([0.2, 0.9])).tolist() == [0, 1, 1]


def test_bag_report_counts_and_reads():
    X, y = make_xor(60, random_state=0)
    bags, totals = make_bags(None, y, proportions=[0.8, 0.2], random_state=0)
    model = LPLLP(random_state=0).fit(X, bags=bags, proportions=totals)
    report = model.bag_report_
    counted = np.array([np.bincount(model.transduction_[bags == k], minlength=2) for k in (0, 1)])
    np.testing.assert_array_equal(report.assigned["quota"], counted)
    np.testing.assert_array_equal(report.difference(), 0)
    assert set(report.assigned) == {"quota", "threshold"}
    lines = str(report).splitlines()
    assert lines[0].split() == ["bag", "rows", "0", "1"]
    assert lines[1].split("  ")[-1] == "24 → 24"
    assert "quota: 0.0% of the rows off" in str(report)


def test_bag_report_shows_intervals_and_shortens():
    totals = Totals.from_intervals(
        {k: [0.2, 0.2] for k in range(20)}, {k: [0.8, 0.8] for k in range(20)}
    )
    X = np.random.default_rng(0).normal(size=(100, 2))
    model = LPLLP(random_state=0, n_probes=0)
    with pytest.warns(UserWarning, match="The totals do not tell 0 from 1 apart"):
        model.fit(X, bags=np.arange(100) % 20, proportions=totals)
    text = str(model.bag_report_)
    assert "1…4 → " in text
    assert "… and 8 more bags" in text


@pytest.mark.parametrize(("backend", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_bag_report_as_a_frame(backend, kind):
    X, y = make_xor(60, random_state=0)
    bags, totals = make_bags(None, y, proportions=[0.8, 0.2], random_state=0)
    report = LPLLP(random_state=0).fit(X, bags=bags, proportions=totals).bag_report_
    frame = report.to_frame(backend)
    assert isinstance(frame, kind)
    assert list(frame["assigned_quota"]) == report.assigned["quota"].ravel().tolist()
    assert frame.shape == (4, 9)
