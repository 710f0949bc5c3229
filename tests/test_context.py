"""The rows around a row: their means and deviations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from apportion import InputError
from apportion.context import add_context


@st.composite
def recordings(draw):
    n, d = draw(st.integers(1, 40)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    times = rng.permutation(np.cumsum(rng.choice([1.0, 1.0, 1.0, 2.0, 5.0, 50.0], n)))
    offset = draw(st.sampled_from([0.0, 1e6, -1e9]))
    return rng.normal(0, 1, (n, d)) + offset, times, rng.integers(0, 3, n)


@given(rows=recordings(), reach=st.integers(0, 8))
def test_context_is_that_of_a_literal_loop(rows, reach):
    X, times, sequence = rows
    found = add_context(X, times=times, sequences=sequence, reach=reach)
    expected = reference.context_of_rows(X, times, sequence, reach)
    d, eps = X.shape[1], np.finfo(float).eps
    assert (found[:, :d] == X).all()
    assert found[:, d:] == pytest.approx(expected[:, d:], rel=1e-9, abs=4 * eps * np.abs(X).max())


def test_an_offset_changes_no_deviation():
    X = np.random.default_rng(0).integers(0, 9, (200, 2)).astype(float)
    plain, far = (add_context(X + offset, times=np.arange(200)) for offset in (0.0, 1e6))
    assert far[:, 4:] == pytest.approx(plain[:, 4:], rel=1e-12)
    constant = add_context(np.full((50, 1), 0.1 + 1e6), times=np.arange(50))
    assert (constant[:, 1] == constant[:, 0]).all()
    assert (constant[:, 2] == 0).all()


def test_other_recordings_and_the_order_of_rows_change_no_bit():
    rng = np.random.default_rng(0)
    X, times = rng.normal(0, 1, (90, 2)), np.tile(np.arange(30.0), 3)
    who = np.repeat(["a", "b", "c"], 30)
    whole = add_context(X, times=times, sequences=who)
    order = rng.permutation(90)
    assert (add_context(X[order], times=times[order], sequences=who[order]) == whole[order]).all()
    alone = who == "b"
    assert (add_context(X[alone], times=times[alone]) == whole[alone]).all()
    far = np.where(alone[:, None], X, 1e9)
    assert (add_context(far, times=times, sequences=who)[alone] == whole[alone]).all()


def test_rows_of_one_time_have_an_order_of_their_own():
    X = np.random.default_rng(0).normal(0, 1, (40, 2))
    order = np.random.default_rng(1).permutation(40)
    times = np.arange(40) // 4
    assert (add_context(X[order], times=times[order]) == add_context(X, times=times)[order]).all()


def test_a_gap_beyond_the_reach_cuts():
    X, times = np.arange(6.0)[:, None], np.array([0, 1, 2, 4, 5, 6])
    assert add_context(X, times=times, reach=2)[2, 1] == 2.0
    assert add_context(X, times=times, reach=1)[2, 1] == 1.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"times": None}, "the time of every row"),
        ({"times": [0, 1]}, "2"),
        ({"times": [0, 1, 2], "reach": -1}, "'reach' parameter of add_context"),
        ({"times": [0, 1, 2], "reach": 1.5}, "'reach' parameter of add_context"),
        ({"times": [0, 1, np.nan]}, "finite"),
    ],
)
def test_what_cannot_be_used_is_named(given, message):
    with pytest.raises((InputError, ValueError), match=message):
        add_context(np.zeros((3, 1)), **given)
    with pytest.raises(InputError, match="squares"):
        add_context(np.full((3, 1), 1e200), times=[0, 1, 2])


def test_rows_of_recordings_of_their_own_are_their_own_context():
    alone = add_context(np.ones((3, 1)), times=[0, 0, 0], sequences=["a", "b", "c"], reach=2)
    assert alone.tolist() == [[1.0, 1.0, 0.0]] * 3
