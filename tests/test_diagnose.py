"""Diagnosis: what the bags can tell apart."""

from __future__ import annotations

import numpy as np
import pytest

from apportion import Totals, diagnose


def index_of(shares, size=40):
    bags = np.repeat(np.arange(len(shares)), size)
    return diagnose(bags, np.array(shares)).index


def test_the_papers_designs():
    assert index_of([0.6, 0.4, 0.5]) == pytest.approx(0.027, abs=5e-4)
    assert index_of([0.85, 0.25, 0.4]) == pytest.approx(0.26, abs=5e-3)


def test_the_two_extremes():
    assert index_of([0.3, 0.3, 0.3]) == pytest.approx(0)
    assert index_of([1.0, 0.0, 1.0]) == pytest.approx(1)


def test_binary_index_is_the_share_of_variance_between_bags():
    rng = np.random.default_rng(0)
    y, bags = rng.integers(0, 2, 90), rng.integers(0, 5, 90)
    between = sum((bags == k).sum() * (y[bags == k].mean() - y.mean()) ** 2 for k in range(5))
    expected = between / (90 * y.mean() * (1 - y.mean()))
    found = diagnose(bags, Totals.from_labels(y, bags))
    assert found.index == pytest.approx(expected)
    assert found.pairwise[0, 1] == pytest.approx(expected)


def test_pairs_that_no_bag_tells_apart_are_named():
    table = {
        "mon": {"sit": 0.2, "stand": 0.2, "walk": 0.6},
        "tue": {"sit": 0.4, "stand": 0.4, "walk": 0.2},
    }
    found = diagnose(["mon"] * 5 + ["tue"] * 5, table)
    assert len(found.findings) == 1
    start = "The totals do not tell 'sit' from 'stand' apart: they have equal"
    assert found.findings[0].startswith(start)
    assert found.uninformative
    assert found.rank == 2
    assert found.smallest_singular_value == pytest.approx(0, abs=1e-12)
    assert np.isnan(np.diag(found.pairwise)).all()
    text = str(found)
    assert "hardest pair: 'sit' and 'stand', index 0.000" in text
    assert "rank 2 of 3" in text


def test_a_fixed_ratio_leaves_only_group_size():
    table = {"a": {"x": 0.6, "y": 0.2, "z": 0.2}, "b": {"x": 0.3, "y": 0.1, "z": 0.6}}
    (finding,) = diagnose(["a"] * 10 + ["b"] * 10, table).findings
    assert "they stand 0.75 to 0.25 everywhere" in finding


def test_given_labels_inform():
    bags = np.zeros(10, int)
    assert diagnose(bags, np.array([0.5])).uninformative
    labeled = diagnose(bags, np.array([0.5]), y=[0, 1] + [None] * 8)
    assert not labeled.uninformative
    assert labeled.index > 0


def test_several_classes_are_named_together():
    (finding,) = diagnose([0] * 3 + [1] * 3, np.full((2, 3), 1 / 3)).findings
    assert finding.startswith("The totals do not tell 0, 1 and 2 apart: they have equal shares")


def test_bags_that_hardly_differ_are_named_but_not_called_uninformative():
    bags = np.repeat([0, 1], 500)
    found = diagnose(bags, np.array([0.5, 0.51]))
    assert not found.uninformative
    start = "The totals hardly tell 0 from 1 apart: they stand in almost"
    assert found.findings[0].startswith(start)
    assert not diagnose(np.repeat(np.arange(3), 40), np.array([0.6, 0.4, 0.5])).findings


def test_a_class_without_mass_is_no_finding():
    found = diagnose([0, 0, 1, 1], np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]))
    assert not found.uninformative
    assert np.isnan(found.pairwise[0, 2])


def test_a_class_without_mass_counts_neither_in_the_rank_nor_in_the_singular_values():
    shares = np.array([[0.5, 0.5], [1.0, 0.0], [0.2, 0.8]])
    bags = np.repeat([0, 1, 2], 4)
    found, alone = diagnose(bags, np.insert(shares, 1, 0.0, axis=1)), diagnose(bags, shares)
    assert found.absent == (1,)
    assert alone.absent == ()
    assert found.rank == alone.rank == 2
    assert found.smallest_singular_value == pytest.approx(alone.smallest_singular_value)
    assert "rank 2 of 2 classes" in str(found)
    assert "not counted, because every total of it is 0: 1" in str(found)


def test_unknown_totals_say_nothing():
    assert diagnose(["a"] * 4, {"a": {"x": None, "y": None}}).uninformative
