"""Columns that say when a window was recorded, not what happened in it."""

import numpy as np
import pytest

from apportion._io.feature_columns import Clock, when_by_name
from apportion.datasets import make_smart_home
from command_line import done, write

DAY = np.timedelta64(1, "D")


def recording(days=7, participants=3, minutes=10, jitter=0):
    """Return when windows began, and whose they are, the clocks being late by some seconds."""
    n = days * 24 * 60 // minutes
    start = np.datetime64("2024-03-04", "s") + np.arange(n) * np.timedelta64(60 * minutes, "s")
    rng = np.random.default_rng(1)
    start = np.tile(start, participants) + rng.integers(0, jitter + 1, n * participants)
    return start, np.repeat([f"p{k}" for k in range(participants)], n)


def clock_of(start, who):
    return Clock(start.astype("M8[us]").astype(np.int64), who)


def columns_that_say_when(start, who):
    hour = (start - start.astype("M8[D]")) / np.timedelta64(1, "h")
    day = start.astype("M8[D]").astype(int)
    elapsed = (start - start.min()) / np.timedelta64(1, "m")
    weekday = (day + 3) % 7
    counts = [np.arange((who == one).sum()) for one in np.unique(who)]
    clock = [hour, hour.round(2), hour // 1, np.sin(hour * np.pi / 12), -3 * hour + 7]
    return {
        "time of day": [*clock, (hour >= 18) * 1.0, (hour * 60 % 60) // 10 * 10.0],
        "weekday": [weekday + 0.0, weekday + 1.0, (weekday + 1) % 7 + 0.0, (weekday > 4) * 1.0],
        "elapsed time": [elapsed, 1e9 + 60 * elapsed, -elapsed, day + 0.0, 1.0 * np.hstack(counts)],
    }


def sensors(start, who):
    """Return what sensors see that repeats daily, rises with time, or seldom says anything."""
    rng = np.random.default_rng(0)
    n = len(start)
    hour = (start - start.astype("M8[D]")) / np.timedelta64(1, "h")
    elapsed = (start - start.min()) / DAY
    daily = np.sin(hour * np.pi / 12)
    rare = np.zeros(n)
    rare[rng.integers(0, n, 3)] = 1
    episode = np.zeros(n)
    episode[100:112] = 1
    own = {one: 0.8 + 0.2 * k for k, one in enumerate(np.unique(who))}
    wears = np.array([own[one] for one in who.tolist()])
    steps = rng.poisson(np.where((hour > 7) & (hour < 22), 40, 1))
    totals = np.concatenate([np.cumsum(steps[who == one]) for one in np.unique(who)])
    return {
        "light that follows the sun": daily + 0.25 * rng.standard_normal(n),
        "a rare event": rare,
        "one episode": episode,
        "a battery that falls evenly": np.round(100 - 90 * elapsed / elapsed.max()),
        "batteries that fall at their own rate": 100 - 12 * wears * elapsed,
        "a counter of steps": totals + 0.0,
        "a drift over weeks": elapsed + 0.3 * np.sin(20 * elapsed),
        "a temperature per day": np.floor(elapsed) * 3.1 % 5,
        "noise": rng.standard_normal(n),
        "a switch": (rng.random(n) < 0.3) * 1.0,
    }


@pytest.mark.parametrize("jitter", [0, 50])
def test_functions_of_the_time_are_recognized_by_their_numbers(jitter):
    start, who = recording(jitter=jitter)
    clock = clock_of(start, who)
    rng = np.random.default_rng(0)
    for kind, columns in columns_that_say_when(start, who).items():
        for k, values in enumerate(columns):
            assert clock.when(values) == kind, (kind, k)
            gaps = np.where(rng.random(len(values)) < 0.2, np.nan, values)
            if (kind, k) != ("elapsed time", 4):  # a counter has no gaps
                assert clock.when(gaps) == kind, (kind, k, "with gaps")


@pytest.mark.parametrize("days", [1, 2, 3, 7, 30])
def test_no_sensor_is_taken_for_a_clock(days):
    start, who = recording(days, minutes=30 if days == 30 else 10)
    clock = clock_of(start, who)
    for name, values in sensors(start, who).items():
        assert clock.when(values) is None, name


def test_order_of_rows_and_unit_of_numbers_do_not_matter():
    start, who = recording(9)
    order = np.random.default_rng(2).permutation(len(start))
    clock = clock_of(start[order], who[order])
    for kind, columns in columns_that_say_when(start, who).items():
        for values in columns:
            assert clock.when(values[order]) == kind
    assert clock.when(np.full(len(start), 3.0)) is None
    assert clock.when(np.full(len(start), np.nan)) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("hour", "time of day"),
        ("Hour_of_Day", "time of day"),
        ("hour_sin", "time of day"),
        ("weekday", "weekday"),
        ("day_of_week", "weekday"),
        ("is_weekend", "weekday"),
        ("elapsed_time", "elapsed time"),
        ("month", "elapsed time"),
        ("acc_hour", None),
        ("elapsed_since_motion", None),
        ("minutes", None),
        ("battery", None),
    ],
)
def test_names(name, kind):
    assert when_by_name(name) == kind


@pytest.fixture
def week(tmp_path, monkeypatch):
    """Write days of windows with columns that say when, under names that do not."""
    monkeypatch.chdir(tmp_path)
    home = make_smart_home(3, 1, minutes=30)
    start = home.windows["start"]
    day = start.astype("M8[D]").astype(int)
    home.windows["a"] = (day + 3) % 7
    home.windows["b"] = (start - start.min()) // np.timedelta64(1, "s")
    home.windows["day_of_week"] = np.array(["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"])[
        (day + 3) % 7
    ]
    home.windows["battery"] = 100 - (start - start.min()) // np.timedelta64(1, "h")
    return home.write(tmp_path)


@pytest.mark.slow
def test_label_leaves_weekday_and_elapsed_time_out_and_names_the_hour(week):
    words = ["label", "windows.csv", "--diary", "diary.csv"]
    result = done(*words)
    said = result.stderr
    assert "144 rows, 12 features: acc_mean" in said
    assert "not used: day_of_week, a, b; they keep windows of different days apart" in said
    assert "a (it says when, not what: weekday), b (it says when, not what: elapsed time)" in said
    assert "are used: hour (time of day); they help only where" in said
    assert "compare with --exclude hour" in said
    without = done(*words, *(word for name in ("a", "b", "d*") for word in ("--exclude", name)))
    assert without.stdout == result.stdout
    assert "say when, not what, are used" not in done(*words, "--exclude", "hour").stderr


@pytest.mark.slow
def test_features_puts_columns_back_that_say_when(week):
    named = ["--features", "a", "--features", "b", "--features", "light"]
    said = done("label", "windows.csv", "--diary", "diary.csv", *named).stderr
    assert "3 features: light, a, b" in said
    assert "are used: a (weekday), b (elapsed time)" in said


def test_without_times_only_names_count(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).standard_normal(40)
    lines = [f"{'ab'[i % 2]},{x[i]:.4f},{i % 24},{i % 7},{i % 7}" for i in range(40)]
    write("rows.csv", "\n".join(["bag,x,hour,weekday,seven", *lines]) + "\n")
    write("totals.csv", "bag,one,two\na,0.2,0.8\nb,0.7,0.3\n")
    said = done("label", "rows.csv", "--bags", "bag", "--proportions", "totals.csv").stderr
    assert "3 features: x, hour, seven" in said
    assert "not used: weekday" in said
    assert "are used: hour (time of day)" in said
