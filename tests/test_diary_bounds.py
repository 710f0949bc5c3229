"""What reported durations say about recorded time, against days that were drawn slot by slot."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from apportion.exceptions import DiaryError
from apportion.supervision.diary import DiaryRules
from apportion.supervision.diary.duration_bounds import (
    Durations,
    recorded_bounds,
    reported_durations,
    rounding_step,
)
from apportion.supervision.diary.entries import Entries
from apportion.supervision.diary.entry_totals import UNKNOWN, entry_totals

SLOT = 600.0
RULES = {
    "uncovered": ["unknown", "drop", "scale"],
    "blank": ["zero", "unknown"],
    "excess": ["error", "scale"],
    "part": ["auto", "bounds", "scale", "drop"],
    "tolerance": ["auto", 0, 7.5, 60],
}


@st.composite
def days(draw, n_classes=4):
    """Draw a day's classes slot by slot, the last class unsaid, and which slots were recorded."""
    n = draw(st.integers(2, 40))
    classes = np.array(draw(st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n)))
    share = draw(st.sampled_from([0.1, 0.5, 0.9, 0.97, 1.0]))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    recorded = random.random(n) < share
    recorded[draw(st.integers(0, n - 1))] = True
    return classes, recorded


def spent(classes, n_classes=4):
    return SLOT * np.bincount(classes, minlength=n_classes)


def bounds_of(seconds, length, recorded, tolerance=0.0, slack=0.0, shares=None, **rules):
    """Return the bounds of one period."""
    seconds = np.atleast_2d(np.asarray(seconds, dtype=float))
    shares = np.full_like(seconds, np.nan) if shares is None else np.atleast_2d(shares)
    chosen = DiaryRules(**rules)
    reports = reported_durations(seconds, shares, np.array([length]), tolerance, chosen)
    return recorded_bounds(
        reports, np.array([length]), np.array([recorded]), np.array([slack]), chosen
    )


def assert_within(truth, found):
    assert np.all(found.least[0] <= truth + 1e-3), (truth, found)
    assert np.all(truth <= found.most[0] + 1e-3), (truth, found)


@given(days(), st.sampled_from([0.0, 60.0, 900.0, 5000.0]), st.data())
def test_the_truth_lies_within_the_bounds(day, tolerance, data):
    """Time of the last class is reported by nobody; reports are off by up to the tolerance."""
    classes, recorded = day
    length, truth = SLOT * len(classes), spent(classes)
    off = data.draw(st.lists(st.floats(-1, 1), min_size=3, max_size=3))
    reported = np.maximum(truth[:3] + tolerance * np.array(off), 0.0)
    found = bounds_of(reported, length, SLOT * recorded.sum(), tolerance, part="bounds")
    assert not found.too_long.any()
    assert_within(spent(classes[recorded]), found)


@given(
    days(n_classes=3),
    st.sampled_from([0.0, 60.0, 900.0, 5000.0]),
    st.sampled_from(["scale", "drop"]),
    st.data(),
)
def test_what_the_tolerance_explains_is_not_scaled(day, tolerance, uncovered, data):
    """All time is reported, so that no rule about uncovered time has anything to do."""
    classes, recorded = day
    length, truth = SLOT * len(classes), spent(classes, 3)
    off = data.draw(st.lists(st.floats(-1, 1), min_size=3, max_size=3))
    reported = np.maximum(truth + tolerance * np.array(off), 0.0)
    assume(reported.sum() > 0)
    found = bounds_of(
        reported, length, SLOT * recorded.sum(), tolerance, part="bounds", uncovered=uncovered
    )
    assert not found.too_long.any()
    assert not found.uncovered.any()
    assert_within(np.append(spent(classes[recorded], 3), 0.0), found)


def test_the_truth_of_generous_reports_is_not_scaled_out_of_the_bounds():
    day, hour = 86400.0, 3600.0
    found = bounds_of(np.array([26, 2, 2]) * hour, day, day, 2 * hour, uncovered="scale")
    assert_within(np.array([day, 0.0, 0.0, 0.0]), found)


@given(days(), st.sampled_from([0.0, 900.0]), st.data())
def test_blank_cells_may_hide_anything(day, tolerance, data):
    classes, recorded = day
    length, truth = SLOT * len(classes), spent(classes)
    blank = np.array(data.draw(st.lists(st.booleans(), min_size=3, max_size=3)))
    reported = np.where(blank, np.nan, truth[:3])
    found = bounds_of(
        reported, length, SLOT * recorded.sum(), tolerance, part="bounds", blank="unknown"
    )
    assert_within(spent(classes[recorded]), found)


@given(days(), st.booleans())
def test_a_whole_recording_of_exact_reports_is_known_exactly(day, as_shares):
    classes, _ = day
    length, truth = SLOT * len(classes), spent(classes)
    nothing = np.full(3, np.nan)
    found = bounds_of(
        nothing if as_shares else truth[:3],
        length,
        length,
        shares=truth[:3] / length if as_shares else None,
    )
    np.testing.assert_allclose(found.least[0], truth, atol=1e-6 * length)
    np.testing.assert_allclose(found.most[0], truth, atol=1e-6 * length)


@given(days(), st.sampled_from(["zero", "unknown"]), st.sampled_from([0.0, 900.0]))
def test_a_part_that_is_like_the_whole_has_its_bounds_in_proportion(day, blank, tolerance):
    classes, recorded = day
    length, truth = SLOT * len(classes), spent(classes)
    reported = np.where(truth[:3] > 0, truth[:3], np.nan)
    ratio = recorded.mean()
    whole = bounds_of(reported, length, length, tolerance, blank=blank, part="scale")
    scaled = bounds_of(reported, length, length * ratio, tolerance, blank=blank, part="scale")
    np.testing.assert_allclose(scaled.least, whole.least * ratio, atol=1e-6)
    np.testing.assert_allclose(scaled.most, whole.most * ratio, atol=1e-6)
    within = bounds_of(reported, length, length * ratio, tolerance, blank=blank, part="bounds")
    assert np.all(within.least <= scaled.least + 1e-6)
    assert np.all(scaled.most <= within.most + 1e-6)
    auto = bounds_of(reported, length, length * ratio, tolerance, blank=blank, part="auto")
    like = scaled if ratio >= 0.95 else within
    np.testing.assert_array_equal(auto.least, like.least)
    np.testing.assert_array_equal(auto.most, like.most)
    dropped = bounds_of(reported, length, length * ratio, tolerance, blank=blank, part="drop")
    assert dropped.hardly_recorded[0] == (ratio < 0.95)


@given(
    st.lists(st.floats(0, 40), min_size=2, max_size=4),
    st.sampled_from([0.0, 1800.0]),
    st.sampled_from(["unknown", "drop", "scale"]),
)
@example([26.0, 2.0, 2.0], 7200.0, "scale")
def test_entries_that_miss_their_day_follow_the_rules(hours, tolerance, uncovered):
    day = 24.0 * 3600
    reported = 3600.0 * np.array(hours)
    found = bounds_of(reported, day, day, tolerance, uncovered=uncovered, excess="scale")
    total = reported.sum()
    assume(abs(np.maximum(reported - tolerance, 0).sum() - day) > 1)
    assume(abs((reported + tolerance).sum() - day) > 1)
    too_long = np.maximum(reported - tolerance, 0).sum() > day
    too_short = (reported + tolerance).sum() < day
    assert found.too_long[0] == too_long
    shares = found.least[0, :-1] <= reported * day / max(total, 1e-9) + 1e-3
    if too_long or (too_short and uncovered == "scale" and total > 1):
        assert shares.all()
        assert np.all(reported * day / total <= found.most[0, :-1] + 1e-3)
    if too_short and uncovered == "unknown":
        left = day - total
        assert found.least[0, -1] <= left <= found.most[0, -1]
        if tolerance == 0:
            np.testing.assert_allclose(found.least[0], np.append(reported, left))
    if uncovered != "unknown":
        assert found.most[0, -1] == 0
        nothing = total <= 1e-6 * day and too_short
        hardly = too_short and (reported + tolerance).sum() < 0.99 * day
        assert found.uncovered[0] == (nothing or (uncovered == "drop" and hardly))


@given(st.lists(st.floats(0.5, 12), min_size=2, max_size=6), st.floats(-1.5, 1.5))
def test_what_rounding_explains_is_scaled_away(hours, misses):
    reported = 3600.0 * np.array(hours)
    length = reported.sum() - 1800.0 * misses
    assume(length > 600)
    found = bounds_of(reported, length, length, slack=1800.0)
    explained = abs(misses) <= 1
    assert found.rounded[0] == (explained and misses != 0) or abs(misses) < 1e-3
    assert found.too_long[0] == (misses > 1)
    if explained:
        np.testing.assert_allclose(found.least[0, :-1], reported * length / reported.sum())
        np.testing.assert_allclose(found.most[0, -1], 0.0, atol=1e-6 * length)


@given(
    st.lists(st.sampled_from([5, 10, 15, 20, 30, 45, 60, 90, 120, 7]), max_size=8),
    st.sampled_from([30.0, 60.0, 600.0, 1800.0]),
)
def test_the_rounding_step_is_the_longest_usual_divisor(minutes, window):
    wanted = 0.0
    if len(minutes) >= 5:
        steps = [s for s in (60, 30, 15, 10, 5) if all(m % s == 0 for m in minutes)]
        wanted = max((60.0 * s for s in steps if 60.0 * s > window), default=0.0)
    assert rounding_step(60.0 * np.array([0, *minutes]), window) == wanted


def test_zeros_and_blanks_beside_times_are_within_the_tolerance_but_shares_are_exact():
    day = 86400.0
    reports = np.array([[3600.0, 0.0, np.nan, np.nan]])
    shares = np.array([[np.nan, np.nan, np.nan, 0.5]])
    found = reported_durations(reports, shares, np.array([day]), 600.0, DiaryRules())
    np.testing.assert_array_equal(found.most - found.reported, [[600, 600, 600, 0]])
    np.testing.assert_array_equal(found.reported - found.least, [[600, 0, 0, 0]])
    only_shares = reported_durations(reports * np.nan, shares, np.array([day]), 600.0, DiaryRules())
    np.testing.assert_array_equal(only_shares.least, only_shares.most)


# --- every rule together ------------------------------------------------------------------------

rules = st.fixed_dictionaries({name: st.sampled_from(choices) for name, choices in RULES.items()})


@st.composite
def entries(draw):
    """Draw what a diary of garbage says: times, shares and blanks, whatever they sum to."""
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    amount = st.one_of(
        st.sampled_from([0.0, 0.5, 1.0, 8.0, 24.0]), st.floats(0, 30), st.floats(0, 1e-7)
    )
    seconds, shares = np.full((n, m), np.nan), np.full((n, m), np.nan)
    for k in range(n):
        for h in range(m):
            kind = draw(st.sampled_from(["blank", "time", "time", "share"]))
            if kind == "time":
                seconds[k, h] = 3600.0 * draw(amount)
            elif kind == "share":
                shares[k, h] = draw(st.sampled_from([0.0, 0.25, 1 / 3, 0.333333, 0.5, 1.0]))
    classes = draw(st.permutations(["a", "b", "c", UNKNOWN]))[:m]
    return Entries(
        source="diary.csv",
        form="wide",
        participants=(None,) * n,
        names=tuple(f"day {k}" for k in range(n)),
        spans=None,
        places=tuple(f"line {k + 2}" for k in range(n)),
        classes=tuple(classes),
        seconds=seconds,
        shares=shares,
        episodes=np.full(shares.shape, np.nan),
        bare_unit=None,
        unused=(),
    )


@given(entries(), rules, st.data())
def test_whatever_a_diary_says_gives_totals_or_names_a_line(reports, chosen, data):
    n = len(reports.names)
    length = 3600.0 * np.array(data.draw(st.lists(st.floats(0.01, 25), min_size=n, max_size=n)))
    part = np.array(data.draw(st.lists(st.floats(1e-3, 1), min_size=n, max_size=n)))
    recorded = length * np.where(part > 0.9, 1.0, part)
    try:
        found = entry_totals(reports, length, recorded, 60.0, DiaryRules(**chosen), several=False)
    except DiaryError as caught:
        error = caught
    else:
        error = None
    if error is not None:
        assert "diary.csv" in str(error)
        assert error.row is not None or "no entry that these rules keep" in error.found
        return
    totals = found.totals
    assert totals.ids == tuple(found.ids) == tuple(reports.names[k] for k in found.kept)
    assert np.all(totals.lower <= totals.upper)
    assert np.all(totals.lower.sum(axis=1) <= 1 + 1e-9)
    assert np.all(totals.upper.sum(axis=1) >= 1 - 1e-9)
    assert not set(found.never) & set(totals.classes.tolist())
    assert (
        {*reports.classes}
        <= {*totals.classes.tolist(), *found.never}
        <= {*reports.classes, UNKNOWN}
    )
    assert np.all(totals.upper.max(axis=0) > 0)


def test_durations_are_scaled_period_by_period():
    ones = np.ones((2, 3))
    found = Durations(ones, ones, ones, ones > 1).scaled(np.array([2.0, 3.0]))
    np.testing.assert_array_equal(found.most, [[2, 2, 2], [3, 3, 3]])


@pytest.mark.parametrize(
    "given_rules",
    [
        {"tolerance": -1}, {"tolerance": float("nan")}, {"tolerance": float("inf")},
        {"tolerance": True}, {"tolerance": "15"}, {"uncovered": "zero"}, {"blank": None},
        {"excess": "drop"}, {"part": "whole"}, {"covers": "day"}, {"unit": "days"},
    ],
    ids=repr,
)  # fmt: skip
def test_a_rule_that_is_not_known_is_named(given_rules):
    with pytest.raises(ValueError, match=repr(next(iter(given_rules)))):
        DiaryRules(**given_rules)


def test_every_rule_is_described_by_its_option():
    for name, choices in RULES.items():
        for choice in choices:
            lines = DiaryRules(**{name: choice}).describe()
            assert any(line.startswith(f"{name}='{choice}': ") for line in lines)
