"""What entries account for: their periods, or only what was recorded of them."""

from __future__ import annotations

import numpy as np
import pytest

from apportion.exceptions import DiaryError
from apportion.supervision.diary import UNKNOWN, DiaryRules, diary_bags

MONDAY = np.datetime64("2024-03-04", "s")
BY_HAND = DiaryRules(covers="recording", excess="scale")


def recording(hours):
    """Return days of one-minute windows, so many hours of each from 8 o'clock on."""
    starts = [
        MONDAY + np.timedelta64(day, "D") + (480 + np.arange(round(60 * n))).astype("m8[m]")
        for day, n in enumerate(hours)
    ]
    return {"start": np.concatenate(starts)}


def diary(minutes, **more):
    """Return an entry for each day, of minutes of the activities."""
    return [
        {"date": str((MONDAY + np.timedelta64(day, "D")).astype("M8[D]"))}
        | {name: f"{n} min" for name, n in zip(("sit", "walk", "eat"), row, strict=False)}
        | more
        for day, row in enumerate(minutes)
    ]


def rule_of(matched):
    (line,) = (line for line in matched.rules if line.startswith("covers="))
    return line


PARTS = [[300, 97, 60], [200, 130, 31], [411, 20, 49], [100, 51, 90]]
HOURS = [sum(row) / 60 for row in PARTS]


def assert_same_totals(one, other):
    assert one.totals.classes.tolist() == other.totals.classes.tolist()
    np.testing.assert_allclose(one.totals.lower, other.totals.lower, atol=1e-9)
    np.testing.assert_allclose(one.totals.upper, other.totals.upper, atol=1e-9)


def test_entries_that_sum_to_the_recorded_time_account_for_it_by_default():
    found = diary_bags(recording(HOURS), diary(PARTS))
    assert_same_totals(found, diary_bags(recording(HOURS), diary(PARTS), rules=BY_HAND))
    np.testing.assert_array_equal(found.totals.lower, found.totals.upper)
    assert UNKNOWN not in found.totals.classes.tolist()
    assert "of 4 entries recorded in part, 4 sum to the recorded time within 2 %" in rule_of(found)
    assert "none to the period" in rule_of(found)
    assert any("together they report 25.6 h, of 25.6 h recorded" in note for note in found.notes)


def test_entries_that_sum_to_their_day_account_for_it_as_before():
    whole = [[900, 300, 240], [840, 360, 240], [1000, 240, 200], [1200, 200, 40]]
    for rules in (None, DiaryRules(covers="period")):
        found = diary_bags(recording(HOURS), diary(whole), rules=rules)
        assert_same_totals(
            found, diary_bags(recording(HOURS), diary(whole), rules=DiaryRules(covers="period"))
        )
        assert "found" not in rule_of(found)
    assert np.any(found.totals.lower < found.totals.upper)


@pytest.mark.parametrize("off", [-3, -1, 1, 3])
def test_minutes_too_many_or_too_few_are_scaled_away_where_the_recording_is_accounted_for(off):
    parts = [[row[0] + off, *row[1:]] for row in PARTS]
    found = diary_bags(recording(HOURS), diary(parts))
    np.testing.assert_array_equal(found.totals.lower, found.totals.upper)
    assert found.totals.classes.tolist() == ["eat", "sit", "walk"]
    wanted = np.array(parts)[:, [2, 0, 1]] / np.sum(parts, axis=1, keepdims=True)
    np.testing.assert_allclose(found.totals.lower, wanted, atol=1e-9)


def test_an_entry_of_more_than_was_recorded_is_of_its_period_and_named():
    parts = [*PARTS[:3], [700, 51, 90]]
    found = diary_bags(recording(HOURS), diary(parts))
    period = diary_bags(recording(HOURS), diary(parts), rules=DiaryRules(covers="period"))
    for bag in found.totals.ids:
        here, there = (dict(zip(m.totals.classes.tolist(), zip(
            m.totals.lower[m.totals.ids.index(bag)], m.totals.upper[m.totals.ids.index(bag)],
            strict=True), strict=True)) for m in (found, period))  # fmt: skip
        assert (here == there) == (bag == "2024-03-07")
    assert any("(1 of 4): 2024-03-07" in note and "period" in note for note in found.notes)


def test_too_few_entries_leave_the_period_with_a_note_that_names_the_option():
    few = diary_bags(recording(HOURS[:2]), diary(PARTS[:2]))
    assert_same_totals(
        few, diary_bags(recording(HOURS[:2]), diary(PARTS[:2]), rules=DiaryRules(covers="period"))
    )
    assert "in doubt" in rule_of(few)
    (note,) = (note for note in few.notes if "in doubt" in note)
    assert note.endswith("use covers='recording'")
    assert "2 sum to the recorded time" in note
    assert "together they report 13.6 h, of 13.6 h recorded and 48.0 h in their periods" in note


def test_sums_that_are_only_roughly_of_the_recording_are_in_doubt_and_need_the_excess_rule():
    rough = [[row[0] + 30, *row[1:]] for row in PARTS]
    found = diary_bags(recording(HOURS), diary(rough))
    (note,) = (note for note in found.notes if "in doubt" in note)
    assert note.endswith("use covers='recording' and excess='scale'")
    with pytest.raises(DiaryError, match="as long as its windows last"):
        diary_bags(recording(HOURS), diary(rough), rules=DiaryRules(covers="recording"))


def test_a_sum_between_the_recorded_time_and_the_day_is_no_sign():
    found = diary_bags({"start": MONDAY + np.arange(22 * 60).astype("m8[m]")}, diary([[1380]]))
    assert "found" not in rule_of(found)


def test_whole_recordings_and_shares_and_open_cells_say_nothing():
    spans = [
        {"start": str(MONDAY + np.timedelta64(24 * day + 8, "h")), "end": str(
            MONDAY + np.timedelta64(24 * day + 24, "h")), "sit": "10h", "walk": "5h"}
        for day in range(4)
    ]  # fmt: skip
    for table, windows, rules in (
        (spans, recording([16] * 4), None),
        ([{**row, "eat": "10%"} for row in diary(PARTS)], recording(HOURS), None),
        (diary(PARTS, tv=""), recording(HOURS), DiaryRules(blank="unknown")),
    ):
        assert "found" not in rule_of(diary_bags(windows, table, rules=rules))


def test_rounded_entries_are_seen_through():
    rounded = [[30 * round(n / 30) for n in row] for row in PARTS]
    found = diary_bags(recording(HOURS), diary(rounded))
    assert "found: an entry accounts only" in rule_of(found)
    np.testing.assert_array_equal(found.totals.lower, found.totals.upper)


# --- classes out of nothing -----------------------------------------------------------------------


def test_a_minute_that_windows_hide_makes_no_class_but_an_hour_does():
    windows = {"start": MONDAY + np.arange(1440).astype("m8[m]")}
    for minutes, unknown in ((1439, False), (1437, True), (1380, True)):
        found = diary_bags(windows, [{"date": "2024-03-04", "sit": f"{minutes} min"}])
        assert (UNKNOWN in found.totals.classes.tolist()) == unknown
    exact = DiaryRules(tolerance=0)
    found = diary_bags(windows, [{"date": "2024-03-04", "sit": "1439 min"}], rules=exact)
    assert UNKNOWN in found.totals.classes.tolist()


def test_an_activity_that_never_happens_is_no_class_and_is_named():
    windows = {"start": MONDAY + np.arange(24).astype("m8[h]")}
    row = {"date": "2024-03-04", "sit": "20h", "walk": "4h", "swim": "0h", "ski": ""}
    found = diary_bags(windows, [row])
    assert found.totals.classes.tolist() == ["sit", "walk"]
    assert found.never == ("swim", "ski")
    assert any(note.endswith("are no classes: 'swim', 'ski'") for note in found.notes)
    opened = diary_bags(windows, [row | {"sit": "19h"}], rules=DiaryRules(blank="unknown"))
    assert opened.never == ("swim",)
    assert diary_bags(windows, [row], rules=DiaryRules(tolerance=5)).never == ()


# --- messages -------------------------------------------------------------------------------------


def test_a_second_too_many_is_seen_in_the_message():
    windows = {"start": MONDAY + np.arange(4).astype("m8[h]")}
    row = {"start": "2024-03-04", "end": "2024-03-04 04:00:00", "sit": "3h", "walk": "3601 s"}
    with pytest.raises(DiaryError) as caught:
        diary_bags(windows, [row | {"start": "2024-03-04 00:00:00"}], rules=DiaryRules(tolerance=0))
    assert caught.value.found == "durations that sum to 4.0003 h"
    assert caught.value.allowed == "at most the 4 h of its period"
    assert diary_bags(windows, [row | {"start": "2024-03-04 00:00:00"}]).totals.ids
