"""Synthetic data and bag makers."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import LPLLP, SupervisionError, Totals
from apportion.datasets import make_bags, make_half_kernel, make_xor


def test_xor_has_two_halves_at_four_corners():
    X, y = make_xor(400, random_state=0)
    assert y.sum() == 200
    for corner, label in [((0, 0), 0), ((10, 10), 0), ((0, 10), 1), ((10, 0), 1)]:
        near = np.linalg.norm(X - corner, axis=1) < 4
        assert near.sum() >= 95
        assert (y[near] == label).all()
    np.testing.assert_array_equal(make_xor(40, random_state=3)[0], make_xor(40, random_state=3)[0])


def test_half_kernel_is_two_half_circles():
    X, y = make_half_kernel(2000, random_state=0)
    assert y.sum() == 1000
    radius = np.linalg.norm(X, axis=1)
    for label, wanted in ((0, 1.0), (1, 2.0)):
        assert radius[y == label].mean() == pytest.approx(wanted, abs=0.02)
        assert radius[y == label].std() == pytest.approx(0.1, abs=0.02)
    clean, _ = make_half_kernel(200, radii=(3, 4), noise=0, random_state=0)
    assert clean[:, 1].min() >= 0
    assert set(np.linalg.norm(clean, axis=1).round(9)) == {3.0, 4.0}


def test_bags_have_the_wanted_shares():
    X, y = make_xor(120, random_state=0)
    bags, totals = make_bags(X, y, proportions=[0.6, 0.4, 0.5], random_state=0)
    assert np.bincount(bags).tolist() == [40, 40, 40]
    np.testing.assert_allclose(totals.lower[:, 1], [0.6, 0.4, 0.5])
    np.testing.assert_allclose([y[bags == k].mean() for k in range(3)], [0.6, 0.4, 0.5])
    bags, _ = make_bags(X, y, proportions=[0.85, 0.25, 0.4, 0.5], sizes=[34, 33, 33, 20])
    counts = [(int((bags == k).sum()), int(y[bags == k].sum())) for k in range(4)]
    assert counts == [(34, 29), (33, 8), (33, 13), (20, 10)]  # 28.9, 8.25, 13.2 and 10


def test_shares_of_three_classes():
    y = np.repeat(["a", "b", "c"], [30, 20, 10])
    shares = [[0.7, 0.2, 0.1], [0.3, 7 / 15, 7 / 30]]
    bags, totals = make_bags(None, y, proportions=shares, random_state=0)
    np.testing.assert_allclose(totals.lower, shares, atol=1e-12)
    assert np.bincount(bags).tolist() == [30, 30]


@given(st.data())
def test_every_table_that_fits_is_rounded_up_or_down(data):
    """Proportions that leave fractions still use every row, and no cell moves by a whole row."""
    counts = np.array(
        data.draw(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=2))
    )
    counts[:, 0] += 1
    true_sizes = counts.sum(axis=1)
    y = np.repeat(np.arange(3), counts.sum(axis=0))
    order = np.random.default_rng(0).permutation(len(true_sizes))
    shares = counts / true_sizes[:, None]
    bags, _ = make_bags(None, y, proportions=shares, sizes=true_sizes, classes=[0, 1, 2])
    found = np.zeros_like(counts)
    np.add.at(found, (bags, y), 1)
    np.testing.assert_array_equal(found, counts)
    again, _ = make_bags(
        None, y, proportions=shares[order], sizes=true_sizes[order], classes=range(3)
    )
    assert np.bincount(again).tolist() == true_sizes[order].tolist()


def test_random_bags_are_of_equal_or_of_given_size():
    y = np.arange(120) % 2
    assert np.bincount(make_bags(None, y, 7, random_state=0)[0]).tolist() == [18] + [17] * 6
    bags, _ = make_bags(None, y, sizes=[100, 15, 5], random_state=0)
    assert np.bincount(bags).tolist() == [100, 15, 5]
    assert (np.diff(bags) < 0).any()


def test_bags_by_feature_depend_on_it():
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = (X[:, 1] > 0).astype(int)
    bags, totals = make_bags(X, y, 3, strategy="feature", feature=1)
    for k in range(2):
        assert X[bags == k, 1].max() <= X[bags == k + 1, 1].min()
    assert totals.lower[0, 1] == 0.0
    assert totals.lower[2, 1] == 1.0


def test_bags_by_cluster_are_the_clusters():
    X, y = make_xor(200, random_state=0)
    bags, totals = make_bags(X, y, 4, strategy="cluster", random_state=0)
    assert sorted(totals.lower[:, 1].tolist()) == [0.0, 0.0, 1.0, 1.0]
    assert len(set(zip(bags, y, strict=True))) == 4


def test_bags_by_time_are_consecutive():
    time = np.array([50.0, 10.0, 70.0, 30.0, 119.0, 121.0])
    y = [0, 1, 0, 1, 0, 1]
    assert make_bags(None, y, 2, strategy="time", time=time)[0].tolist() == [0, 0, 1, 0, 1, 1]
    bags, totals = make_bags(None, y, strategy="time", time=time, period=60)
    assert bags.tolist() == [0, 0, 1, 0, 1, 2]
    np.testing.assert_allclose(totals.lower[0], [1 / 3, 2 / 3])
    who = ["b", "a", "b", "a", "a", "b"]
    bags, _ = make_bags(None, y, strategy="time", time=time, period=60, groups=who)
    assert len(set(bags)) == 5
    assert len({(b, w) for b, w in zip(bags, who, strict=True)}) == 5


def test_dates_and_periods_in_words():
    time = np.datetime64("2026-11-15T08:00") + np.arange(4) * np.timedelta64(30, "s")
    y = [0, 1, 0, 1]
    for period in (60, timedelta(minutes=1)):
        assert make_bags(None, y, strategy="time", time=time, period=period)[0].tolist() == [
            0,
            0,
            1,
            1,
        ]


def test_columns_of_a_dataframe_are_classes():
    pd = pytest.importorskip("pandas")
    y = ["a"] * 6 + ["b"] * 4
    table = pd.DataFrame({"b": [0.2, 0.6], "a": [0.8, 0.4]})
    _, totals = make_bags(None, y, proportions=table, random_state=0)
    np.testing.assert_allclose(totals.lower, [[0.8, 0.2], [0.4, 0.6]])
    with pytest.raises(ValueError, match=r"of the classes \['c', 'a'\]; the data has"):
        make_bags(None, y, proportions=table.rename(columns={"b": "c"}))
    shares = pd.DataFrame({"walk": [0.5, 1], "sit": [0.5, 0]})
    totals = Totals.from_labels(shares, ["x", "x"])
    assert totals.classes.tolist() == ["sit", "walk"]
    np.testing.assert_allclose(totals.lower, [[0.25, 0.75]])


def test_tuples_are_labels_and_one_column_is_refused():
    totals = Totals.from_labels([("a", 1), ("b", 2)], ["x", "x"])
    assert [tuple(label) for label in totals.classes] == [("a", 1), ("b", 2)]
    with pytest.raises(ValueError, match="at least two classes"):
        Totals.from_labels(np.ones((3, 1)), [0, 0, 0])


def test_shares_of_rows_become_masses_of_bags():
    shares = np.array([[1, 0, 0], [0.5, 0.25, 0.25], [0, 0, 1], [0, 1, 0]])
    names = ["sit", "lie", "walk"]
    bags, totals = make_bags(None, shares, sizes=[2, 2], strategy="time", classes=names)
    assert totals.classes.tolist() == ["lie", "sit", "walk"]
    np.testing.assert_allclose(totals.lower, [[0.125, 0.75, 0.125], [0.5, 0, 0.5]])
    model = LPLLP().fit(np.arange(4.0)[:, None], bags=bags, proportions=totals)
    masses = [model.label_distributions_[bags == k].sum(axis=0) for k in range(2)]
    np.testing.assert_allclose(masses, 2 * totals.lower, atol=1e-6)
    with pytest.raises(SupervisionError, match=r"row 1 in bag 'x': found the shares"):
        Totals.from_labels([[1, 0], [0.5, 0.2]], ["x", "x"])
    with pytest.raises(ValueError, match="3 classes were given for 2 columns"):
        Totals.from_labels([[1, 0]], ["x"], classes=names)
    unbagged = Totals.from_labels([[1, 0], [np.nan, np.nan]], ["x", None])
    np.testing.assert_allclose(unbagged.lower, [[1, 0]])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "exactly one of n_bags, proportions, sizes and period. Got none"),
        ({"n_bags": 2, "sizes": [2, 2]}, "Got n_bags and sizes"),
        ({"n_bags": 2, "strategy": "color"}, "must be one of .*Got 'color'"),
        ({"n_bags": 2, "strategy": "proportions"}, "Give proportions with"),
        ({"n_bags": 0}, "a whole number from 1 on"),
        ({"n_bags": 2.5}, "a whole number from 1 on"),
        ({"n_bags": 2, "time": [1, 2, 3, 4]}, "'time' .* goes with strategy='time'"),
        ({"n_bags": 2, "feature": 1}, "'feature' .* goes with"),
        ({"n_bags": 2, "strategy": "time", "groups": "abab"}, "'groups' .* and a period"),
        ({"period": 3, "strategy": "time", "time": [1, 2, np.nan, 3]}, "Row 2 has no time"),
        ({"period": 3, "strategy": "time", "groups": ["a"]}, "'groups' .* each of the 4 rows"),
        ({"sizes": [2.5, 1.5]}, "whole numbers"),
        ({"sizes": [3, 2]}, "must sum to the 4 rows"),
        ({"sizes": [3, 1], "strategy": "cluster"}, "Clusters have the sizes they have"),
        ({"n_bags": 2, "strategy": "cluster"}, "looks at X"),
        ({"period": 3}, "goes with strategy='time'"),
        ({"period": -3, "strategy": "time"}, "must be positive"),
        ({"n_bags": 2, "strategy": "time", "time": [1, 2]}, "one value for each of the 4 rows"),
        ({"proportions": [0.0, 0.5]}, r"need \[3, 1\] rows .*; the data has \[2, 2\]"),
        ({"proportions": [1.2, 0.1]}, "between 0 and 1"),
        ({"proportions": [[0.5, 0.3, 0.2]]}, "need 3 classes. Got 2"),
    ],
)
def test_wrong_wishes_are_explained(wrong, message):
    with pytest.raises(ValueError, match=message):
        make_bags(None, [0, 1, 0, 1], **wrong)
