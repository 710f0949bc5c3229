"""Totals: every form of table in, one clear error for every bad one."""

from __future__ import annotations

import pickle
from datetime import date, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from apportion import SupervisionError, Totals
from apportion.exceptions import compared
from apportion.supervision.bags import match_bags
from apportion.supervision.total_bounds import tighten
from apportion.supervision.totals import masses_for

SHARES = {"mon": {"sit": 0.25, "walk": 0.75}, "tue": {"sit": 1.0, "walk": 0.0}}
EXPECTED = np.array([[0.25, 0.75], [1.0, 0.0]])

FORMS = {
    "mapping": SHARES,
    "mapping with an absent class": {"mon": SHARES["mon"], "tue": {"sit": 1}},
    "pandas index": pd.DataFrame(SHARES).T,
    "mapping of series": {
        "mon": pd.Series({"walk": 0.75, "sit": 0.25}),
        "tue": pd.Series({"sit": 1.0}),
    },
    "pandas column, sorted": pd.DataFrame(
        {"bag": ["tue", "mon"], "walk": [0.0, 0.75], "sit": [1, 0.25]}
    ).sort_values("bag"),
    "pandas column": pd.DataFrame({"bag": ["mon", "tue"], "walk": [0.75, 0.0], "sit": [0.25, 1]}),
    "polars": pl.DataFrame({"bag": ["mon", "tue"], "walk": [0.75, 0.0], "sit": [0.25, 1.0]}),
    "polars lazy": pl.LazyFrame({"bag": ["mon", "tue"], "walk": [0.75, 0.0], "sit": [0.25, 1.0]}),
    "pyarrow": pl.DataFrame(
        {"bag": ["mon", "tue"], "walk": [0.75, 0.0], "sit": [0.25, 1.0]}
    ).to_arrow(),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_totals(form):
    totals = Totals.from_proportions(FORMS[form])
    assert totals.ids == ("mon", "tue")
    assert totals.classes.tolist() == ["sit", "walk"]
    np.testing.assert_array_equal(totals.lower, EXPECTED)
    np.testing.assert_array_equal(totals.upper, EXPECTED)


@pytest.mark.parametrize(
    "table",
    [
        [[0.25, 0.75], [1.0, 0.0]],
        np.array([0.75, 0.0]),
        [0.75, 0.0],
        {0: 0.75, 1: 0.0},
        {0: [0.25, 0.75], 1: (1, 0)},
        pd.Series([0.75, 0.0]),
        pl.Series([0.75, 0.0]),
    ],
)
def test_arrays_and_shares_of_the_second_class(table):
    totals = Totals.from_proportions(table)
    assert totals.ids == (0, 1)
    assert totals.classes.tolist() == [0, 1]
    np.testing.assert_allclose(totals.lower, EXPECTED)


def test_classes_name_array_columns_and_come_out_sorted():
    totals = Totals.from_proportions([[0.25, 0.75]], classes=["walk", "sit"])
    assert totals.classes.tolist() == ["sit", "walk"]
    np.testing.assert_array_equal(totals.lower, [[0.75, 0.25]])


def test_id_column_by_name():
    frame = pl.DataFrame({"day": [date(2026, 1, 1)], "sit": [0.5], "walk": [0.5]})
    assert Totals.from_proportions(frame, id_column="day").ids == (date(2026, 1, 1),)
    with pytest.raises(SupervisionError, match="no index and no column 'bag'"):
        Totals.from_proportions(frame)
    with pytest.raises(SupervisionError, match="pass id_column='day'"):
        Totals.from_proportions(pd.DataFrame({"day": ["mon"], "sit": [1.0]}))
    with pytest.raises(SupervisionError, match="no column 'night'"):
        Totals.from_proportions(frame, id_column="night")


def test_unknown_cells_mean_anything_that_the_others_leave():
    totals = Totals.from_proportions(
        {"one": {"a": 0.2, "b": 0.3, "c": None}, "two": {"a": 0.2, "b": np.nan, "c": None}}
    )
    np.testing.assert_allclose(totals.lower, [[0.2, 0.3, 0.5], [0.2, 0, 0]])
    np.testing.assert_allclose(totals.upper, [[0.2, 0.3, 0.5], [0.2, 0.8, 0.8]])


def test_polars_nulls_are_unknown():
    frame = pl.DataFrame(
        {"bag": ["x"], "a": [0.2], "b": [None]}, schema_overrides={"b": pl.Float64}
    )
    np.testing.assert_allclose(Totals.from_proportions(frame).lower, [[0.2, 0.8]])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"mon": {"a": -0.1, "b": 0.6, "c": 0.5}},
            r"bag 'mon', class 'a': found a negative share, -0.1",
        ),
        ({"mon": {"a": 1.4, "b": 0.0}}, r"class 'a': found a share of 1.4, above 1"),
        ({"mon": {"a": 60, "b": 40}}, r"looks like a percentage.*divide the percentages by 100"),
        ({"mon": {"a": 0.5, "b": 0.4}}, r"sum to 0.9, off by -0.1.*normalize=True"),
        ({"mon": {"a": 0.7, "b": 0.7, "c": None}}, r"known shares that sum to 1.4"),
        ({"mon": {"a": np.inf, "b": 0.0}}, r"bag 'mon', class 'a': found inf"),
        ({"mon": {"a": "half", "b": 0.5}}, r"bag 'mon', class 'a': found 'half'"),
        ({"mon": {"a": 1.0}, "tue": 0.5}, r"the same form for every bag"),
        ({"mon": [0.5, 0.5], "tue": [1.0]}, r"bag 'tue': found 1 totals"),
        ([20, 90], r"bag 0, class 1: found a share of 20, above 1, which looks like a percentage"),
        ({"mon": {"a": 20, "b": None}}, r"which looks like a percentage"),
        ({}, r"found 0 bags"),
        (np.zeros((2, 2, 2)), r"3 dimensions"),
        (0.5, r"0 dimensions"),
        (pd.DataFrame({"a": [0.5, 0.5], "b": [0.5, 0.5]}, index=["x", "x"]), r"bag 'x': found two"),
        (pd.DataFrame({"bag": ["x", None], "a": [1, 1]}), r"row 1 of the table.*no bag id"),
    ],
)
def test_bad_shares(table, message):
    with pytest.raises(SupervisionError, match=message):
        Totals.from_proportions(table)


def test_a_class_named_twice():
    with pytest.raises(SupervisionError, match="a class named twice"):
        Totals.from_proportions([[0.5, 0.5]], classes=["a", "a"])


def test_unknown_classes():
    with pytest.raises(SupervisionError, match=r"class 'c'.*the classes 'a', 'b'"):
        Totals.from_proportions({"mon": {"a": 0.5, "c": 0.5}}, classes=["a", "b"])
    with pytest.raises(SupervisionError, match="column 'c'"):
        Totals.from_proportions(pd.DataFrame({"a": [0.5], "c": [0.5]}), classes=["a", "b"])


def test_every_error_has_one_form():
    with pytest.raises(SupervisionError) as caught:
        Totals.from_proportions({"mon": {"a": 0.5, "b": 0.4}})
    text = str(caught.value)
    assert text.startswith("bag 'mon': found ")
    assert ". Allowed: " in text
    assert ". Hint: " in text
    assert str(pickle.loads(pickle.dumps(caught.value))) == text


def test_normalize_divides_by_the_sum():
    totals = Totals.from_proportions({"mon": {"a": 60, "b": 40}}, normalize=True)
    np.testing.assert_allclose(totals.lower, [[0.6, 0.4]])
    with pytest.raises(SupervisionError, match="all 0"):
        Totals.from_proportions({"mon": {"a": 0, "b": 0}}, normalize=True)
    partly = Totals.from_proportions(
        {"mon": {"a": 3, "b": 1}, "tue": {"a": 0.3, "b": None}}, normalize=True
    )
    np.testing.assert_allclose(partly.lower, [[0.75, 0.25], [0.3, 0.7]])
    counts = Totals.from_counts(
        {"mon": {"a": 3, "b": 1}, "tue": {"a": 1, "b": None}}, normalize=True
    )
    bags = match_bags(5, bags=["mon"] * 2 + ["tue"] * 3, proportions=counts)
    np.testing.assert_allclose(bags.lower, [[1.5, 0.5], [1, 2]])


def test_durations_are_counts_of_windows():
    numbers = Totals.from_durations({"mon": {"sleep": 8, "tv": 2}}, window=0.5)
    deltas = Totals.from_durations(
        {"mon": {"sleep": timedelta(hours=8), "tv": timedelta(hours=2)}},
        window=timedelta(minutes=30),
    )
    frame = pd.DataFrame(
        {"sleep": [pd.Timedelta(hours=8)], "tv": [pd.Timedelta(hours=2)]}, index=["mon"]
    )
    for totals in (numbers, deltas, Totals.from_durations(frame, window=timedelta(minutes=30))):
        np.testing.assert_allclose(totals.lower, [[16, 4]])
        assert totals.unit == "mass"
    array = np.array([[8, 2]], dtype="timedelta64[h]").astype("timedelta64[ns]")
    totals = Totals.from_durations(array, window=timedelta(minutes=30))
    np.testing.assert_allclose(totals.lower, [[16, 4]])
    for window in (0, "30min", np.nan):
        with pytest.raises(ValueError, match="positive number or timedelta"):
            Totals.from_durations({"mon": {"sleep": 8}}, window=window)
    with pytest.raises(SupervisionError, match="durations and window in the same form"):
        Totals.from_durations({"mon": {"sleep": 8}}, window=timedelta(hours=1))
    with pytest.raises(SupervisionError, match="durations and window in the same form"):
        Totals.from_durations({"mon": {"sleep": timedelta(hours=1)}}, window=1)
    with pytest.raises(SupervisionError, match="negative duration"):
        Totals.from_durations({"mon": {"sleep": -8}}, window=1)


def test_counts_need_a_number_for_every_class():
    with pytest.raises(SupervisionError, match="one number per bag"):
        Totals.from_counts([3, 4])


def test_intervals_are_tightened():
    totals = Totals.from_intervals([[0.1, 0.5]], [[0.9, 0.6]])
    np.testing.assert_allclose(totals.lower, [[0.4, 0.5]])
    np.testing.assert_allclose(totals.upper, [[0.5, 0.6]])


def test_interval_tables_are_matched_by_name():
    lower = pd.DataFrame({"a": [0.1, 0.2], "b": [0.0, 0.0]}, index=["x", "y"])
    upper = pd.DataFrame({"b": [0.7, 0.9], "a": [0.6, 0.5]}, index=["y", "x"])
    totals = Totals.from_intervals(lower, upper)
    np.testing.assert_allclose(totals.upper, [[0.5, 0.9], [0.6, 0.7]])
    with pytest.raises(SupervisionError, match="bag 'y': found nothing about it in the upper"):
        Totals.from_intervals(lower, upper.loc[["x"]])


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        ([[0.6, 0.6]], [[0.7, 0.7]], "lower bounds that sum to 1.2, more than the whole of 1"),
        ([[0.1, 0.1]], [[0.2, 0.3]], "upper bounds that sum to 0.5, less than the whole of 1"),
        ([[0.6, 0.0]], [[0.5, 1.0]], "a lower bound of 0.6 above its upper bound of 0.5"),
        ([[0, 0]], [[30, 90]], "a share of 90, above 1"),
    ],
)
def test_infeasible_intervals(lower, upper, message):
    with pytest.raises(SupervisionError, match=message):
        Totals.from_intervals(lower, upper)


def test_from_labels_counts():
    totals = Totals.from_labels(
        ["b", "a", "b", None], ["x", "x", "y", None], classes=["a", "b", "c"]
    )
    assert totals.ids == ("x", "y")
    np.testing.assert_allclose(totals.lower, [[0.5, 0.5, 0], [0, 1, 0]])
    with pytest.raises(SupervisionError, match=r"row 1 in bag 'x': found no label"):
        Totals.from_labels(["a", None], ["x", "x"])


@pytest.mark.parametrize(
    "labels", [[2, 10, 1], ["b", "a"], [True, False], [1.5, 0.5], [("b", 1), ("a", 2)], ["a", 1]]
)
def test_classes_are_sorted_whatever_their_kind(labels):
    row = {label: 1 / len(labels) for label in labels}
    first = Totals.from_proportions({"x": row}).classes.tolist()
    again = Totals.from_proportions({"x": dict(reversed(row.items()))}).classes.tolist()
    assert first == again
    if len({type(label) for label in labels}) == 1:
        assert first == sorted(labels)


def test_totals_have_no_length_and_no_shape_and_cannot_be_changed():
    totals = Totals.from_proportions(SHARES)
    for name in ("__len__", "shape", "__array__", "__getitem__", "__iter__"):
        assert not hasattr(totals, name)
    with pytest.raises(ValueError, match="read-only"):
        totals.lower[0, 0] = 1.0
    with pytest.raises(TypeError, match="from_proportions"):
        Totals()


def test_totals_pickle():
    totals = Totals.from_proportions(SHARES)
    again = pickle.loads(pickle.dumps(totals))
    assert again.ids == totals.ids
    np.testing.assert_array_equal(again.lower, totals.lower)


@given(
    hnp.arrays(np.float64, (3, 4), elements=st.floats(0, 1)),
    hnp.arrays(np.float64, (3, 4), elements=st.floats(0, 1)),
)
def test_tightening_keeps_what_is_allowed(a, b):
    """A point within the bounds that sums to the size is within the tightened ones, and these lie
    within the old ones."""
    lower, upper = np.minimum(a, b), np.maximum(a, b)
    point = lower + 0.5 * (upper - lower)
    size = point.sum(axis=1)
    tight_lower, tight_upper = tighten(lower, upper, size)
    assert (tight_lower >= lower - 1e-12).all()
    assert (tight_upper <= upper + 1e-12).all()
    assert (tight_lower <= point + 1e-9).all()
    assert (tight_upper >= point - 1e-9).all()


@given(
    st.integers(0, 10**6),
    st.sampled_from([2, 4, 6, 8, 9, 10, 11, 12, 15]),
    st.booleans(),
)
def test_masses_of_a_bag_sum_to_its_size(seed, digits, intervals):
    """However many digits shares have, and however many masses rounding made whole."""
    rng = np.random.default_rng(seed)
    K, c = int(rng.integers(1, 5)), int(rng.integers(2, 6))
    sizes = rng.integers(1, 10 ** rng.integers(1, 7), K).astype(float)
    counts = rng.multinomial(12, np.full(c, 1 / c), K) / 12
    shares = np.where(rng.random((K, 1)) < 0.5, counts, rng.dirichlet(np.ones(c), K))
    shares = shares.round(digits)
    totals = Totals.from_proportions(shares, tolerance=0.1)
    if intervals:
        slack = 10.0 ** -rng.integers(1, 13, (K, c))
        low, high = np.maximum(shares - slack, 0.0), np.minimum(shares + slack, 1.0)
        high[:, -1] = 1.0
        totals = Totals.from_intervals(low / np.maximum(low.sum(axis=1, keepdims=True), 1.0), high)
    lower, upper = masses_for(totals, np.arange(K), sizes)
    rounding = 1e-14 * sizes
    assert (lower <= upper).all()
    assert (lower >= 0).all()
    if intervals:
        assert (lower.sum(axis=1) <= sizes + rounding).all()
        assert (upper.sum(axis=1) >= sizes - rounding).all()
    else:
        np.testing.assert_array_equal(lower, upper)
        assert (np.abs(lower.sum(axis=1) - sizes) <= rounding).all()
    np.testing.assert_allclose(
        lower, totals.lower * sizes[:, None], rtol=0, atol=1e-8 * sizes.max()
    )


def test_sums_that_differ_by_little_are_seen_to_differ():
    with pytest.raises(SupervisionError, match=r"sum to 1\.0000002, more than the whole of 1\."):
        Totals.from_intervals({"a": [0.5, 0.5000002]}, {"a": [0.6, 0.6]})
    with pytest.raises(SupervisionError, match="totals that sum to 1000002 for 1000000 rows"):
        masses_for(Totals.from_counts({"a": [1, 1000001]}), np.array([0]), np.array([1e6]))
    numbers = [0.1, 0.1 + 1e-9, 7.0, 1234567.0, float("inf")]
    texts = compared(*numbers)
    assert len(set(texts)) == 5
    assert [float(text) for text in texts] == pytest.approx(numbers, rel=1e-9)
    assert compared(0.1 + 0.2, 0.3, 1 / 3) == ["0.3", "0.3", "0.333333"]
