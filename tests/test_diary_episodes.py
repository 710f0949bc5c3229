"""How often: "3 × 10 min" and columns of numbers, next to the totals."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.exceptions import DiaryError
from apportion.supervision.diary import DiaryRules, diary_bags
from apportion.supervision.diary.episode_counts import counting_columns, times_in

DAY = "2024-03-04"
HOURS = np.arange("2024-03-04T00", "2024-03-05T00", dtype="M8[h]")
WINDOWS = {"start": HOURS}


def read(*lines, windows=WINDOWS, **options):
    """Return a diary matched with windows; lines without a date are of the same day."""
    return diary_bags(windows, [{"date": DAY, **line} for line in lines], **options)


def hours_and_times(found, name, bag=DAY):
    """Return the hours, and the number of episodes, of a class in a bag."""
    k, h = found.totals.ids.index(bag), found.totals.classes.tolist().index(name)
    return round(found.recorded_hours[bag] * found.totals.lower[k, h], 6), found.episodes[k, h]


# --- in the cell of a duration -------------------------------------------------------------------


@given(
    times=st.integers(1, 20),
    minutes=st.integers(1, 60),
    sign=st.sampled_from(["×", "x", "X", "*", " × ", " x ", " * ", "\u00a0×\u00a0", "  x"]),
    each=st.sampled_from(["{} min", "{}min", "0:{:02}:00", "{}'"]),
)
def test_a_product_is_its_duration_and_its_number(times, minutes, sign, each):
    minutes = min(minutes, 59)
    found = read({"sleep": "1h", "toilet": f"{times}{sign}{each.format(minutes)}"})
    hours, n_times = hours_and_times(found, "toilet")
    assert hours == pytest.approx(times * minutes / 60, abs=1e-5)
    assert n_times == times
    assert np.isnan(found.episodes[0, found.totals.classes == "sleep"]).all()
    assert found.episodes.shape == found.totals.lower.shape


@pytest.mark.parametrize(
    ("column", "cell", "hours"),
    [
        ("tea", "2 × 0.5", 1.0),
        ("tea", "2 × 0,5 h", 1.0),
        ("tea (min)", "2 × 30", 1.0),
        ("tea (min)", "2 × 1h30", 3.0),
        ("tea", "2 × 25 %", 12.0),
        ("tea", "2 × 1 h 30 min", 3.0),
    ],
)
def test_a_product_has_the_unit_that_a_duration_has(column, cell, hours):
    assert hours_and_times(read({"sleep": "1h", column: cell}), "tea") == (hours, 2)


@pytest.mark.parametrize(
    "cell",
    ["10 min × 3", "2.5 × 10 min", "-3 × 10 min", "3 × -10 min", "3 ×", "× 10 min", "3 × 4 × 5 min",
     "3 ×× 10 min", "3 × toilet, 10 min", "three × 10 min", "3 + 10 min", "9999999999 × 1 s"],
)  # fmt: skip
def test_other_products_are_refused(cell):
    with pytest.raises(DiaryError) as caught:
        read({"sleep": "1h", "toilet": cell})
    assert caught.value.column == "toilet"
    assert caught.value.found == repr(cell)
    assert "'3 × 10 min'" in str(caught.value)


@given(st.text(st.sampled_from("0123456789 ×x*.,hmin%")))
def test_any_text_is_a_product_or_stays(text):
    n_times, each = times_in(text)
    assert n_times is None or (n_times >= 0 and each.strip())
    assert n_times is not None or each is text


# --- in a column of its own ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "column",
    ["toilet_times", "toilet times", "Toilet N", "toilet-count", "toilet_episodes",
     "toilet (times)", "toilet [n]", "toilet how often", "TOILET (Episodes)"],
)  # fmt: skip
@pytest.mark.parametrize("activity", ["toilet", "Toilet (min)"])
@pytest.mark.parametrize("first", [True, False])
def test_a_column_says_how_often(column, activity, first):
    line = {"sleep": "8h", activity: "30 min", column: "3"}
    found = read(dict(reversed(line.items())) if first else line)
    name = activity.removesuffix(" (min)")
    assert sorted(found.totals.classes.tolist()) == sorted(["sleep", name, "unknown"])
    assert hours_and_times(found, name) == (0.5, 3)
    note = f"also says how often, for 1 activity: {name} (in {column!r}, beside total durations)"
    assert any(note in text for text in found.notes)


def test_cells_are_read_line_by_line_and_blank_ones_say_nothing():
    windows = {"start": np.arange("2024-03-04T00", "2024-03-07T00", dtype="M8[h]")}
    lines = [
        {"date": "2024-03-06", "tea": "2 × 1h", "tea_times": None, "tv": "1h"},
        {"date": "2024-03-04", "tea": "2h", "tea_times": 3.0, "tv": "2 × 2h"},
        {"date": "2024-03-05", "tea": "2h", "tea_times": "", "tv": "0"},
    ]
    found = diary_bags(windows, lines)
    order = [found.totals.ids.index(day) for day in ("2024-03-04", "2024-03-05", "2024-03-06")]
    assert found.totals.classes.tolist() == ["tea", "tv", "unknown"]
    wanted = [[3, 2, np.nan], [np.nan] * 3, [2, np.nan, np.nan]]
    np.testing.assert_array_equal(found.episodes[order], wanted)


def test_a_name_with_such_an_ending_is_an_activity_where_the_rest_is_none():
    found = read({"tea times": "1h", "sleep": "8h"})
    assert hours_and_times(found, "tea times")[0] == 1.0
    assert counting_columns(["tea times", "tea times n"], "d") == {"tea times n": "tea times"}
    assert counting_columns(["tea", "teatimes", "n", "times"], "d") == {}


def test_the_long_form_has_a_column():
    for column, options in (
        ("times", {}),
        ("Episodes", {}),
        ("Count", {}),
        ("how often", {}),
        ("Anzahl", {"diary_columns": {"episodes": "Anzahl"}}),
    ):
        found = read(
            {"activity": "toilet", "minutes": 30, column: 3},
            {"activity": "sleep", "minutes": 480, column: None},
            **options,
        )
        assert hours_and_times(found, "toilet") == (0.5, 3)
        assert np.isnan(hours_and_times(found, "sleep")[1])
    found = read({"activity": "toilet", "duration": "3 × 10 min"})
    assert hours_and_times(found, "toilet") == (0.5, 3)


def test_an_activity_that_filled_its_time_has_no_number():
    line = {"start": f"{DAY} 08:00", "end": f"{DAY} 12:00", "activity": "tv", "count": 2}
    found = diary_bags(WINDOWS, [line])
    assert np.isnan(found.episodes).all()
    assert any(note.endswith("that are not used: count") for note in found.notes)


def test_a_diary_that_does_not_say_has_no_numbers_and_no_note():
    found = read({"sleep": "8h", "tv": "2h"})
    assert np.isnan(found.episodes).all()
    assert not any("how often" in note for note in found.notes)


def test_numbers_stay_where_a_period_was_recorded_in_part():
    found = read({"tea": "3 × 20 min", "sleep": "8h"}, windows={"start": HOURS[:12]})
    k, h = 0, found.totals.classes.tolist().index("tea")
    assert found.totals.lower[k, h] < found.totals.upper[k, h]
    assert found.episodes[k, h] == 3
    assert found.recorded_hours[DAY] < found.hours[DAY]


def test_entries_and_activities_that_are_left_out_have_no_number():
    lines = [
        {"date": "2024-03-03", "tea": "5 × 1h", "nap": "0", "tv": ""},
        {"date": DAY, "tea": "2 × 1h", "nap": "0", "tv": "1 × 1h"},
    ]
    found = diary_bags(WINDOWS, lines)
    assert found.totals.ids == (DAY,)
    assert found.never == ("nap",)
    assert found.totals.classes.tolist() == ["tea", "tv", "unknown"]
    np.testing.assert_array_equal(found.episodes, [[2, 1, np.nan]])


def test_a_number_without_a_duration_needs_open_cells():
    line = {"sleep": "8h", "tea": "", "tea_times": 2}
    found = read(line, rules=DiaryRules(blank="unknown"))
    assert hours_and_times(found, "tea")[1] == 2
    assert found.totals.upper[0, found.totals.classes == "tea"] > 0.5


CASES = {
    "two columns": (
        {"tea": "1h", "tea_times": 1, "tea n": 1},
        "the diary: found columns 'tea_times' and 'tea n', which both say how often 'tea' happened",
        "note=tea n",
    ),
    "no durations": (
        {"sleep": "8h", "tea (times)": 2},
        "found column 'tea (times)', which says how often 'tea' happened, but not how long it took",
        "note=tea (times)",
    ),
    "half a time": (
        {"tea": "1h", "tea_times": 2.5},
        "row 0, column 'tea_times': found 2.5. Allowed: how often 'tea' happened: a whole number",
        "note=tea_times",
    ),
    "a duration": ({"tea": "1h", "tea_times": "1h"}, "column 'tea_times': found '1h'", "rename it"),
    "below 0": ({"tea": "1h", "tea_times": -1}, "column 'tea_times': found -1", "correct the cell"),
    "true": ({"tea": "1h", "tea_times": True}, "column 'tea_times': found True", "correct"),
    "another number": (
        {"tea": "3 × 1h", "tea_times": 2},
        "column 'tea_times': found 2, where the duration of 'tea' says '3 ×'",
        "correct one of them",
    ),
    "time, and never": (
        {"tea": "1h", "tea_times": 0},
        "row 0, entry '2024-03-04': found 0 episodes of 'tea' and a duration above 0",
        "correct the number or the duration",
    ),
    "a share, and never": (
        {"tea": "5%", "tea_times": 0},
        "found 0 episodes of 'tea' and a duration above 0",
        "both 0, or both above 0",
    ),
    "no time": (
        {"sleep": "8h", "tea": "3 × 0 min"},
        "entry '2024-03-04': found 3 episodes of 'tea' and a duration of 0",
        "correct the number or the duration",
    ),
    "a blank": (
        {"sleep": "8h", "tea": "", "tea_times": 1},
        "entry '2024-03-04': found 1 episode of 'tea' and no duration",
        "blank='unknown'",
    ),
    "clock times, in the long form": (
        {"activity": "tea", "duration": "1h", "times": "08:00-09:00"},
        "column 'times': found '08:00-09:00'",
        "note=times",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_contradicts_itself_is_refused(case):
    line, found, advice = CASES[case]
    with pytest.raises(DiaryError, match=re.escape(found)) as caught:
        read(line)
    assert advice in str(caught.value)


def test_zero_times_is_never():
    found = read({"sleep": "8h", "tea": "0 × 10 min"}, {"date": "2024-03-05", "tea": "1h"})
    assert found.never == ("tea",)
