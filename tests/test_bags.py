"""Bags: rows matched with totals."""

from __future__ import annotations

from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from apportion import SupervisionError, Totals
from apportion.supervision.bags import match_bags

TABLE = {"a": {"x": 0.5, "y": 0.5}, "b": {"x": 0.25, "y": 0.75}}

ID_FORMS = {
    "list": ["b", "a", None, "b", "a", "b", "b"],
    "object array": np.array(["b", "a", None, "b", "a", "b", "b"], dtype=object),
    "pandas": pd.Series(["b", "a", None, "b", "a", "b", "b"]),
    "categorical": pd.Series(["b", "a", None, "b", "a", "b", "b"]).astype("category"),
    "polars": pl.Series(["b", "a", None, "b", "a", "b", "b"]),
    "NaN among text": ["b", "a", float("nan"), "b", "a", "b", "b"],
    "NA among text": ["b", "a", pd.NA, "b", "a", "b", "b"],
}


@pytest.mark.parametrize("form", ID_FORMS)
def test_ids_of_every_form(form):
    bags = match_bags(7, bags=ID_FORMS[form], proportions=TABLE)
    assert bags.ids == ("a", "b")
    assert bags.codes.tolist() == [1, 0, -1, 1, 0, 1, 1]
    np.testing.assert_allclose(bags.lower, [[1, 1], [1, 3]])


@pytest.mark.parametrize(
    ("ids", "table"),
    [
        ([3, 3, 7], {3: 0.5, 7: 1.0}),
        (np.array([3.0, 3.0, np.nan]), {3: 0.5}),
        ([("p1", 1), ("p1", 1), ("p2", 1)], {("p1", 1): 0.5, ("p2", 1): 0.0}),
        ([True, False, True], {True: 0.5, False: 1.0}),
        (
            np.array(["2026-01-01", "2026-01-02", "NaT"], dtype="datetime64[ns]"),
            {datetime(2026, 1, 1): 0.5, datetime(2026, 1, 2): 0.5},
        ),
        (
            pd.Series(pd.to_datetime(["2026-01-01", "2026-01-02", None])),
            pd.DataFrame(
                {0: [0.5, 0.5], 1: [0.5, 0.5]}, index=pd.to_datetime(["2026-01-01", "2026-01-02"])
            ),
        ),
        (np.array(["a", "bb", "a"]), {"a": 0.5, "bb": 1.0}),
        (np.array(["2026-01-01"] * 3, dtype="datetime64[D]"), {date(2026, 1, 1): 0.5}),
        (np.ma.array([1, 2, 1], mask=[False, True, False]), {1: 0.5}),
        (pd.array([1, None, 1], dtype="Int64"), {1: 0.5}),
    ],
)
def test_ids_of_every_kind(ids, table):
    bags = match_bags(3, bags=ids, proportions=table)
    assert len(bags.ids) == len(set(bags.codes[bags.codes >= 0].tolist()))
    np.testing.assert_allclose(bags.lower.sum(axis=1), bags.groups.sizes)


def test_extra_bags_are_allowed_and_missing_ones_named():
    bags = match_bags(2, bags=["a", "a"], proportions=TABLE)
    assert bags.ids == ("a",)
    with pytest.raises(SupervisionError, match=r"row 1 in bag 'c': found rows, but no line"):
        match_bags(2, bags=["a", "c"], proportions=TABLE)


@pytest.mark.parametrize(
    ("bag", "other", "hint"),
    [
        ("1", 1, "table has 1 of type int, the rows have str"),
        ("Monday ", "monday", "the table has 'monday': write both alike"),
        (datetime(2026, 1, 1), date(2026, 1, 1), "of type date, the rows have datetime"),
        ("2026-01-01", datetime(2026, 1, 1), "of type datetime, the rows have str"),
        ("x", 7, "the table's ids are of type int, e.g. 7, the rows' of type str"),
        ("x", "y", "add a line for it"),
    ],
)
def test_ids_that_miss_their_mark_are_explained(bag, other, hint):
    with pytest.raises(SupervisionError, match=hint):
        match_bags(1, bags=[bag], proportions={other: 0.5})


def test_exchanged_arguments_are_noticed():
    with pytest.raises(ValueError, match="are `bags` and `proportions` exchanged"):
        match_bags(2, bags=pd.DataFrame(TABLE).T, proportions=["a", "b"])
    with pytest.raises(SupervisionError, match="if not as `y`: that is for known labels"):
        match_bags(2, y=["a", "b"], proportions=TABLE)


def test_arrays_need_integer_ids():
    with pytest.raises(SupervisionError, match=r"its row k is bag k.*mapping"):
        match_bags(2, bags=["a", "b"], proportions=np.array([0.5, 0.5]))
    with pytest.raises(SupervisionError, match="bag ids from 0 to 1"):
        match_bags(2, bags=[0, 2], proportions=np.array([0.5, 0.5]))


def test_a_list_is_no_id():
    with pytest.raises(SupervisionError, match=r"row 1: found the bag id \['b'\]"):
        match_bags(2, bags=["a", ["b"]], proportions=TABLE)
    with pytest.raises(SupervisionError, match=r"row 0: found the bag id \('a', \[1\]\)"):
        match_bags(1, bags=[("a", [1])], proportions=TABLE)
    with pytest.raises(ValueError, match="One bag id per row is expected"):
        match_bags(1, bags=3, proportions=TABLE)


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="X has 3 rows, `bags` has 2 values"):
        match_bags(3, bags=["a", "b"], proportions=TABLE)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({}, "neither `bags` with `proportions` nor labels"),
        ({"bags": ["a"]}, "`bags` without `proportions`"),
        ({"proportions": TABLE}, "`proportions` without `bags`"),
        ({"y": [None]}, "no label at all"),
        ({"bags": [None], "proportions": TABLE}, "no row that is in a bag"),
    ],
)
def test_missing_supervision(keywords, message):
    with pytest.raises(SupervisionError, match=message):
        match_bags(1, **keywords)


def test_counts_must_sum_to_the_rows():
    counts = Totals.from_counts({"a": {"x": 2, "y": 2}})
    with pytest.raises(SupervisionError, match=r"bag 'a': found totals that sum to 4 for 3 rows"):
        match_bags(3, bags=["a"] * 3, proportions=counts)
    scaled = Totals.from_counts({"a": {"x": 2, "y": 2}}, normalize=True)
    np.testing.assert_allclose(
        match_bags(3, bags=["a"] * 3, proportions=scaled).lower, [[1.5, 1.5]]
    )


def test_unknown_counts_take_what_is_left():
    counts = Totals.from_counts({"a": {"x": 2, "y": None}, "b": {"x": None, "y": None}})
    bags = match_bags(6, bags=["a"] * 3 + ["b"] * 3, proportions=counts)
    np.testing.assert_allclose(bags.lower, [[2, 1], [0, 0]])
    np.testing.assert_allclose(bags.upper, [[2, 1], [3, 3]])
    with pytest.raises(SupervisionError, match="lower bounds that sum to 2, more than the whole"):
        match_bags(1, bags=["a"], proportions=counts)


def test_given_labels_leave_their_bag():
    bags = match_bags(4, y=["x", None, None, None], bags=["a"] * 4, proportions=TABLE)
    np.testing.assert_allclose(bags.open_lower, [[1, 2]])
    np.testing.assert_allclose(bags.lower, [[2, 2]])
    prior = bags.prior()
    np.testing.assert_allclose(prior[0], [1, 0])
    np.testing.assert_allclose(prior[1:], [[1 / 3, 2 / 3]] * 3)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (
            ["x", "x", None, "x"],
            r"row 3 in bag 'a': found the label 'x', given to 3 rows.*exactly 2 of them",
        ),
        (["y", "y", "y", None], r"row 2 in bag 'a': found the label 'y', given to 3 rows"),
        (["z", None, None, None], r"row 0: found the label 'z', which the totals do not know"),
    ],
)
def test_labels_that_contradict(y, message):
    with pytest.raises(SupervisionError, match=message):
        match_bags(4, y=y, bags=["a"] * 4, proportions=TABLE)


def test_given_labels_that_leave_no_room():
    totals = Totals.from_intervals({"a": [0.7, 0, 0]}, {"a": [1, 0.9, 0.9]}, classes=list("xyz"))
    with pytest.raises(
        SupervisionError, match=r"row 1 in bag 'a': found given labels that leave 1"
    ):
        match_bags(3, y=["y", "z", None], bags=["a"] * 3, proportions=totals)


def test_prior_of_intervals_is_nearest_to_the_overall_shares():
    totals = Totals.from_intervals(
        {"a": [0.7, 0.3], "b": [0.0, 0.0], "c": [0.0, 0.8]},
        {"a": [0.7, 0.3], "b": [1.0, 1.0], "c": [1.0, 1.0]},
    )
    bags = match_bags(6, bags=list("aabbcc"), proportions=totals)
    overall = bags.overall
    np.testing.assert_allclose(bags.shares[0], [0.7, 0.3])
    np.testing.assert_allclose(bags.shares[1], overall)
    np.testing.assert_allclose(bags.shares[2], [0.2, 0.8])


def test_rows_in_no_bag_start_at_the_overall_shares():
    bags = match_bags(5, bags=["a", "a", "b", "b", None], proportions={"a": 0.5, "b": 1.0})
    np.testing.assert_allclose(bags.prior()[4], [0.25, 0.75])


def test_nothing_known_is_uniform():
    bags = match_bags(2, bags=["a", "a"], proportions={"a": {"x": None, "y": None, "z": None}})
    np.testing.assert_allclose(bags.prior(), 1 / 3)


@pytest.mark.parametrize("labels", [np.arange(20) % 2, list("ab" * 10)])
def test_labels_of_rows_are_no_totals(labels):
    with pytest.raises(SupervisionError, match=r"one value per row \(20\), while there are 4 bags"):
        match_bags(20, bags=np.arange(20) % 4, proportions=labels)
    with pytest.raises(SupervisionError, match="known labels of rows are `y`"):
        match_bags(20, bags=np.arange(20) % 4, proportions=pd.Series(labels))


def test_a_table_may_have_as_many_bags_as_there_are_rows():
    shares = pd.Series(np.linspace(0, 1, 20), index=[f"day {k}" for k in range(20)])
    matched = match_bags(20, bags=[f"day {k % 4}" for k in range(20)], proportions=shares)
    assert len(matched.ids) == 4
