"""Decoding: exact counts, the best labels among them, fair ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import reference
from apportion import Totals
from apportion._core.decode import quota, round_to_counts, threshold
from apportion._core.transport import exchanged, transport
from apportion._utils.groups import Groups
from apportion._utils.hashing import hash_ranks
from apportion.exceptions import InputError
from apportion.supervision.bags import match_bags


@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["smooth", "rounded", "constant", "vertices"]),
    n=st.integers(1, 60),
    c=st.integers(1, 5),
)
def test_quota_is_the_best_labeling_with_the_counts(seed, kind, n, c):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, rng.integers(1, 4), n)
    labels = rng.integers(0, c, n)
    bags = match_bags(
        n, bags=codes, proportions=Totals.from_labels(labels, codes, classes=list(range(c)))
    )
    F = rng.dirichlet(np.ones(c), n)
    if kind == "rounded":
        F = np.round(F, 1)
    elif kind == "constant":
        F[:] = 1 / c
    elif kind == "vertices":
        F = np.where(rng.random((n, 1)) < 0.7, np.eye(c)[rng.integers(0, c, n)], F)
    found, _ = quota(F, bags, hash_ranks(None, n))
    np.testing.assert_array_equal(bags.groups.sum(np.eye(c)[found]), bags.lower)
    best = reference.best_assignment_value(F, bags.codes, bags.lower.astype(int))
    assert F[np.arange(n), found].sum() == pytest.approx(best, abs=1e-7 * n)


@pytest.mark.slow
def test_one_large_bag_of_many_classes_is_exact():
    """Large enough for prices, shortlists and chains to be needed."""
    rng = np.random.default_rng(0)
    n, c = 2000, 6
    F = rng.dirichlet(np.full(c, 0.3), n)
    labels = rng.choice(c, n, p=[0.5, 0.2, 0.1, 0.1, 0.07, 0.03])
    bags = match_bags(n, bags=np.zeros(n, int), proportions=Totals.from_labels(labels, np.zeros(n)))
    found, tied = quota(F, bags, np.arange(n))
    assert not tied.any()
    np.testing.assert_array_equal(np.bincount(found, minlength=c), bags.lower[0])
    best = reference.best_assignment_value(F, bags.codes, bags.lower.astype(int))
    assert F[np.arange(n), found].sum() == pytest.approx(best, abs=1e-5)


@given(
    hnp.arrays(np.float64, (4, 3), elements=st.floats(0.01, 1)),
    st.lists(st.integers(0, 50), min_size=4, max_size=4),
)
def test_largest_remainder(weights, sizes):
    sizes = np.array(sizes, dtype=float)
    masses = weights / weights.sum(axis=1, keepdims=True) * sizes[:, None]
    counts = round_to_counts(masses, sizes, masses, masses)
    np.testing.assert_array_equal(counts.sum(axis=1), sizes)
    assert (np.abs(counts - masses) < 1).all()


def test_equal_remainders_go_to_the_first_class():
    masses = np.array([[0.5, 0.5, 2.0]])
    np.testing.assert_array_equal(
        round_to_counts(masses, np.array([3.0]), masses, masses), [[1, 0, 2]]
    )


def test_rounding_stays_within_the_bounds_where_it_can():
    masses, size = np.array([[2.6, 2.7, 4.7]]), np.array([10.0])
    lower, upper = np.array([[2.6, 0.0, 0.0]]), np.array([[3.4, 10.0, 10.0]])
    np.testing.assert_array_equal(round_to_counts(masses, size, lower, upper), [[3, 3, 4]])


@given(seed=st.integers(0, 10**6))
def test_interval_counts_sum_to_the_size_and_keep_the_bounds(seed):
    """Also for soft labels that are far outside the bounds, and exact beside unknown cells."""
    rng = np.random.default_rng(seed)
    n, c = 30, int(rng.integers(2, 5))
    codes, labels = rng.integers(0, 3, n), rng.integers(0, c, n)
    exact = Totals.from_labels(labels, codes, classes=list(range(c)))
    slack = rng.integers(0, 4, exact.lower.shape) * rng.integers(0, 2, exact.lower.shape) / 10
    totals = Totals.from_intervals(
        dict(zip(exact.ids, np.maximum(exact.lower - slack, 0), strict=True)),
        dict(zip(exact.ids, np.minimum(exact.upper + slack, 1), strict=True)),
        classes=list(range(c)),
    )
    bags = match_bags(n, bags=codes, proportions=totals)
    found, _ = quota(rng.dirichlet(np.full(c, 0.2), n), bags, np.arange(n))
    counts = bags.groups.sum(np.eye(c)[found])
    assert (counts >= np.floor(bags.lower + 1e-9)).all()
    assert (counts <= np.ceil(bags.upper - 1e-9)).all()


def test_quotas_must_fit_their_groups():
    with pytest.raises(ValueError, match="must sum to its number of rows"):
        transport(np.zeros((2, 3), int), Groups(np.zeros(2, int), 1), np.array([[1, 0, 0]]), 1.0)


def test_interval_quotas_follow_the_soft_labels_within_the_bounds():
    totals = Totals.from_intervals({"a": [0.0, 0.0]}, {"a": [0.5, 1.0]})
    bags = match_bags(4, bags=["a"] * 4, proportions=totals)
    F = np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.2, 0.8]])
    assert quota(F, bags, np.arange(4)).labels.tolist() == [0, 0, 1, 1]


def test_unbagged_and_given_rows():
    bags = match_bags(
        4, y=[None, None, None, 1], bags=["a", "a", None, None], proportions={"a": 0.5}
    )
    F = np.array([[0.6, 0.4], [0.7, 0.3], [0.1, 0.9], [0.0, 1.0]])
    labels, _ = quota(F, bags, np.arange(4))
    assert labels.tolist() == [1, 0, 1, 1]


def test_threshold_takes_the_most_likely_class_and_tells_ties():
    labels, tied = threshold(np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]]))
    assert labels.tolist() == [1, 0, 0]
    assert tied.tolist() == [False, True, False]


@pytest.mark.parametrize("c", [2, 3])
def test_ties_are_told(c):
    F = np.zeros((5, c))
    F[:, 0], F[:, 1] = [0.9, 0.5, 0.5, 0.5, 0.1], [0.1, 0.5, 0.5, 0.5, 0.9]
    proportions = np.zeros((1, c))
    proportions[0, :2] = [0.4, 0.6]
    bags = match_bags(5, bags=[0] * 5, proportions=proportions)
    labels, tied = quota(F, bags, np.arange(5))
    assert labels[[0, 4]].tolist() == [0, 1]
    assert tied.tolist() == [False, True, True, True, False]


@pytest.mark.parametrize("c", [2, 3])
def test_tied_scores_do_not_leak_the_order_of_the_input(c):
    """Rows sorted by their true label, soft labels all equal: the labels must know nothing."""
    n = 3000
    truth = np.repeat(np.arange(c), n // c)
    X = np.random.default_rng(0).normal(size=(n, 2))
    bags = match_bags(n, bags=np.zeros(n, int), proportions=np.full((1, c), 1 / c))
    F = np.full((n, c), 1 / c) + 1e-15 * np.arange(n)[:, None]
    for features in (X, np.zeros((n, 2)), None):
        labels, tied = quota(F, bags, hash_ranks(features, n))
        assert tied.all()
        assert abs((labels == truth).mean() - 1 / c) < 0.04


@pytest.mark.parametrize("c", [2, 4])
def test_ties_move_with_the_rows(c):
    rng = np.random.default_rng(1)
    n = 200
    X = rng.normal(size=(n, 3))
    codes = rng.integers(0, 3, n)
    labels = rng.integers(0, c, n)
    totals = Totals.from_labels(labels, codes)
    F = np.round(rng.dirichlet(np.ones(c), n), 1)
    order = rng.permutation(n)
    whole, _ = quota(F, match_bags(n, bags=codes, proportions=totals), hash_ranks(X, n))
    shuffled, _ = quota(
        F[order], match_bags(n, bags=codes[order], proportions=totals), hash_ranks(X[order], n)
    )
    np.testing.assert_array_equal(shuffled, whole[order])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_nothing_loops_on_what_is_no_number(value):
    """Counts and scores of NaN or infinity are refused: no step could ever make them right."""
    masses, sizes = np.array([[1.0, 2.0, 3.0], [2.0, 0.0, 1.0]]), np.array([6.0, 3.0])
    low, high = np.zeros_like(masses), np.repeat(sizes[:, None], 3, axis=1)
    wrong = masses.copy()
    wrong[1, 2] = value
    spoiled = {
        "masses": (wrong, sizes, np.minimum(low, wrong), np.maximum(high, wrong)),
        "bounds": (masses, sizes, wrong, wrong),
        "sizes": (masses, np.array([6.0, value]), low, high),
    }
    for name, given_ in spoiled.items():
        if name == "sizes" and value == -np.inf:
            continue
        with pytest.raises(InputError, match="bag number 1: found soft labels that add up to"):
            round_to_counts(*given_)
    F = np.full((9, 3), 1 / 3)
    F[4, 1] = value
    bags = match_bags(9, bags=np.zeros(9, int), proportions=np.array([[1 / 3, 1 / 3, 1 / 3]]))
    for decode in (threshold, lambda F: quota(F, bags, np.arange(9))):
        with pytest.raises(InputError, match=r"found (soft labels that add up to|a size of)"):
            decode(F)


def test_an_exchange_that_leads_nowhere_ends():
    scores = np.zeros((4, 3), dtype=np.int64)
    codes, labels = np.zeros(4, dtype=np.intp), np.array([0, 0, 1, 2])
    with pytest.raises(ValueError, match="No move brings the counts nearer to the quotas"):
        exchanged(scores, codes, labels, np.array([[2, 0, 0]]), 1e-9)
