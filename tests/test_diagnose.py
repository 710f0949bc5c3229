"""Diagnosis: what the bags can tell apart."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import LPLLP, Totals, diagnose
from apportion.labeling import label_table
from apportion.supervision.diagnosis import HardToPlace, hard_to_place, placing_sentences


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


# --- classes that are hard to place --------------------------------------------------------------


def counts_of(table, **options):
    """Return the diagnosis of bags with these counts, each as large as its counts sum to."""
    bags = [bag for bag, counts in table.items() for _ in range(round(sum(counts.values())))]
    return diagnose(bags, Totals.from_counts(table), **options)


WEEK = {
    "mon": {"sleep": 9, "toilet": 1, "tv": 2},
    "tue": {"sleep": 2, "toilet": 1, "tv": 9},
    "wed": {"sleep": 5, "toilet": 0, "tv": 7},
}


def test_a_class_of_one_or_two_rows_is_hard_to_place():
    found = counts_of(WEEK)
    assert found.hard_to_place == (HardToPlace("toilet", 2.0, True, (), 2),)
    assert str(found).endswith("\n'toilet' takes 2 rows in all: hard to place")
    assert not any("place" in finding for finding in found.findings)
    three = {**WEEK, "wed": {"sleep": 5, "toilet": 1, "tv": 6}}
    assert counts_of(three).hard_to_place == ()
    one = {**WEEK, "mon": {"sleep": 9, "toilet": 0, "tv": 3}}
    assert str(counts_of(one)).endswith("'toilet' takes 1 row in all: hard to place")


def test_a_class_of_less_than_one_row_a_day_is_hard_to_place():
    bags = np.repeat(np.arange(8), 10)
    tea = np.array([0.05] * 4 + [0.3] * 3 + [0.0])
    (few,) = diagnose(bags, np.column_stack([1 - tea, tea])).hard_to_place
    assert few == (1, pytest.approx(11.0), True, (0, 1, 2, 3), 7)
    assert few.amount == "less than one row in 4 of its 7 totals"
    tea[:] = 0.05
    (few,) = diagnose(bags, np.column_stack([1 - tea, tea])).hard_to_place
    assert few.amount == "less than one row in each of its 8 totals"
    tea[3:] = 0.096
    assert diagnose(bags, np.column_stack([1 - tea, tea])).hard_to_place == ()


def test_bounds_count_by_the_most_that_they_allow():
    bags = np.repeat(["a", "b"], 10)
    low = {"a": {"tv": 0.9, "tea": 0.0}, "b": {"tv": 0.9, "tea": 0.0}}
    high = {"a": {"tv": 1.0, "tea": 0.1}, "b": {"tv": 1.0, "tea": 0.1}}
    (few,) = diagnose(bags, Totals.from_intervals(low, high)).hard_to_place
    assert (few.label, few.amount) == ("tea", "at most 2 rows in all")
    unknown = {"a": {"tv": None, "tea": None}, "b": {"tv": None, "tea": None}}
    assert diagnose(bags, unknown).hard_to_place == ()


def test_given_labels_are_placed():
    labels = [None] * 36
    labels[0] = "toilet"
    assert counts_of(WEEK, y=labels).hard_to_place[0].label == "toilet"
    labels[12] = "toilet"
    assert counts_of(WEEK, y=labels).hard_to_place == ()
    bags = [bag for bag, counts in WEEK.items() for _ in range(sum(counts.values()))]
    found = diagnose([*bags, None], Totals.from_counts(WEEK), y=[None] * 36 + ["toilet"])
    assert found.hard_to_place == ()


@given(st.data())
def test_who_is_hard_to_place_agrees_with_a_loop(data):
    n, c = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    cell = st.sampled_from([0.0, 0.25, 0.9, 0.96, 1.0, 2.0, 7.0])
    rows = st.lists(st.lists(cell, min_size=c, max_size=c), min_size=n, max_size=n)
    upper = np.array(data.draw(rows))
    lower = upper * data.draw(st.sampled_from([0.0, 1.0]))
    expected = []
    for h in range(c):
        some = [k for k in range(n) if upper[k, h] > 0]
        below = tuple(k for k in some if upper[k, h] < 0.95)
        total = pytest.approx(sum(upper[k, h] for k in some))
        if some and (total.expected < 2.85 or len(below) >= len(some) / 2):
            exact = all(lower[k, h] == upper[k, h] for k in range(n))
            expected.append((h, total, exact, below, len(some)))
    assert list(hard_to_place(range(n), np.arange(c), lower, upper)) == expected


def test_many_classes_share_a_sentence():
    few = [HardToPlace(f"c{h}", 2.0, True, (), 1) for h in range(7)]
    assert len(placing_sentences({"": few[:3]})) == 3
    assert placing_sentences({"p1": few[:1], "p2": ()}) == [
        "p1: 'c0' takes 2 rows in all: hard to place"
    ]
    (sentence,) = placing_sentences({"": few})
    assert sentence.startswith("hard to place: 'c0' (2 rows in all), 'c1' (2 rows in all), ")
    assert sentence.endswith("'c4' (2 rows in all) and 2 more")
    assert placing_sentences({"": ()}) == []


def test_what_is_hard_to_place_is_a_note_and_no_warning():
    y = [name for counts in WEEK.values() for name, k in counts.items() for _ in range(k)]
    bags = [bag for bag, counts in WEEK.items() for _ in range(sum(counts.values()))]
    x = [{"sleep": 0.0, "tv": 5.0, "toilet": 9.0}[name] + k / 100 for k, name in enumerate(y)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LPLLP(random_state=0).fit(
            np.array(x)[:, None], bags=bags, proportions=Totals.from_counts(WEEK)
        )
    assert [few.label for few in model.diagnosis_.hard_to_place] == ["toilet"]
    totals = [{"day": bag, **counts} for bag, counts in WEEK.items()]
    labeled = label_table(pa.table({"day": bags, "x": x}), bags="day", proportions=totals)
    assert "'toilet' takes 2 rows in all: hard to place" in labeled.notes
    assert "'toilet' takes 2 rows in all: hard to place" in labeled.summary["notes"]
