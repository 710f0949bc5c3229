"""Windows and diaries become bags and totals, against slow loops over rows and lines."""

from __future__ import annotations

import csv
import io
import re
from datetime import date, datetime, time, timedelta
from itertools import pairwise, product
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from apportion.datasets import make_smart_home
from apportion.datasets.smart_home import ACTIVITIES
from apportion.exceptions import DiaryError
from apportion.supervision.diary import UNKNOWN, DiaryRules, diary_bags

DAY = "2024-03-04"
START = datetime(2024, 3, 4, 6)
HOURS = np.arange("2024-03-04T00", "2024-03-05T00", dtype="M8[h]")
WINDOWS = {"start": HOURS}
"""A day of hours."""


def minutes(n, start=START):
    """Return n minutes from a start on."""
    return np.datetime64(start, "s") + np.arange(n).astype("m8[m]").astype("m8[s]")


def shares_of(found, bag):
    """Return a bag's bounds, class by class."""
    k = found.totals.ids.index(bag)
    lower, upper = found.totals.lower[k], found.totals.upper[k]
    return {
        h: (pytest.approx(a, abs=1e-9), pytest.approx(b, abs=1e-9))
        for h, a, b in zip(found.totals.classes.tolist(), lower, upper, strict=True)
    }


def exact_hours(found, bag):
    """Return a bag's hours, class by class, where they are exact."""
    k = found.totals.ids.index(bag)
    np.testing.assert_allclose(found.totals.lower[k], found.totals.upper[k], atol=1e-9)
    hours = found.recorded_hours[bag] * found.totals.lower[k]
    return {h: round(x, 6) for h, x in zip(found.totals.classes.tolist(), hours, strict=True)}


def assert_same(one, other):
    """Assert that two answers are equal, whatever the order of their bags."""
    assert set(one.totals.ids) == set(other.totals.ids)
    assert one.totals.classes.tolist() == other.totals.classes.tolist()
    rows = [one.totals.ids.index(bag) for bag in other.totals.ids]
    np.testing.assert_allclose(one.totals.lower[rows], other.totals.lower, atol=1e-12)
    np.testing.assert_allclose(one.totals.upper[rows], other.totals.upper, atol=1e-12)
    assert one.bags.tolist() == other.bags.tolist()
    assert one.left_out.tolist() == other.left_out.tolist()
    for ours, theirs in ((one.hours, other.hours), (one.recorded_hours, other.recorded_hours)):
        assert ours == pytest.approx(theirs)


# --- which window is in which entry --------------------------------------------------------------


@st.composite
def homes(draw, people=("p1", "7", "x y")):
    """Draw windows and periods of several people, in minutes, in any order."""
    periods, windows = [], []
    for who in people[: draw(st.integers(1, len(people)))]:
        cuts = sorted(draw(st.sets(st.integers(0, 300), min_size=2, max_size=8)))
        keep = draw(st.lists(st.booleans(), min_size=len(cuts) - 1, max_size=len(cuts) - 1))
        spans = zip(cuts, cuts[1:], keep, strict=False)
        periods += [(who, a, b) for a, b, kept in spans if kept]
        starts = draw(st.lists(st.integers(-20, 320), min_size=1, max_size=25))
        windows += [(who, a, a + draw(st.integers(1, 30)), draw(st.booleans())) for a in starts]
    assume(periods)
    return draw(st.permutations(windows)), draw(st.permutations(periods))


def slow_match(windows, periods):
    """Return each window's period and the minutes of each that were recorded, by loops."""
    of_row = []
    for who, start, end, off in windows:
        middle = (start + end) / 2
        held = [k for k, (whose, a, b) in enumerate(periods) if who == whose and a <= middle < b]
        of_row.append(held[0] if held and not off else None)
    recorded = []
    for k, (_, a, b) in enumerate(periods):
        covered = set()
        for (_, start, end, _), entry in zip(windows, of_row, strict=True):
            if entry == k:
                covered |= set(range(max(start, a), min(end, b)))
        recorded.append(len(covered))
    return of_row, recorded


def at(minute):
    return START + timedelta(minutes=minute)


def as_tables(windows, periods):
    rows = {
        "participant": [who for who, *_ in windows],
        "start": [at(start) for _, start, _, _ in windows],
        "end": [at(end) for _, _, end, _ in windows],
        "nonwear": [off for *_, off in windows],
    }
    lines = [
        {
            "participant": who,
            "start": at(a).isoformat(),
            "end": at(b).isoformat(),
            "sit": f"{10 + a % 80}%",
            "walk": f"{90 - a % 80}%",
        }
        for who, a, b in periods
    ]
    return rows, lines


@given(homes())
def test_windows_are_in_the_period_that_holds_their_middle(home):
    windows, periods = home
    rows, lines = as_tables(windows, periods)
    of_row, recorded = slow_match(windows, periods)
    used = [k for k in range(len(periods)) if k in of_row]
    if not used:
        with pytest.raises(DiaryError, match=r"no entry|none that lies in an entry"):
            diary_bags(rows, lines)
        return
    found = diary_bags(rows, lines, rules=DiaryRules(part="scale"))
    bag_of = dict(zip(used, found.totals.ids, strict=True))
    assert found.bags.tolist() == [bag_of.get(k) for k in of_row]
    assert found.left_out.tolist() == rows["nonwear"]
    assert found.participants.tolist() == rows["participant"]
    for k, bag in bag_of.items():
        who, a, b = periods[k]
        assert found.hours[bag] == pytest.approx((b - a) / 60)
        assert found.recorded_hours[bag] == pytest.approx(recorded[k] / 60)
        share = (10 + a % 80) / 100
        assert shares_of(found, bag) == {"sit": (share, share), "walk": (1 - share, 1 - share)}
        assert who in bag or len({periods[j][0] for j in used}) == 1
        assert f"{at(a):%Y-%m-%d %H:%M}" in bag


@given(homes(), st.randoms(use_true_random=False))
def test_another_order_of_rows_and_lines_is_another_order_of_the_answer(home, random):
    windows, periods = home
    assume(any(k is not None for k in slow_match(windows, periods)[0]))
    rows, lines = as_tables(windows, periods)
    found = diary_bags(rows, lines)
    order = list(range(len(windows)))
    random.shuffle(order)
    random.shuffle(lines)
    mixed = diary_bags({name: [column[i] for i in order] for name, column in rows.items()}, lines)
    back = np.argsort(order)
    assert mixed.bags[back].tolist() == found.bags.tolist()
    assert mixed.hours == found.hours
    assert mixed.recorded_hours == pytest.approx(found.recorded_hours)
    same = [mixed.totals.ids.index(bag) for bag in found.totals.ids]
    np.testing.assert_allclose(mixed.totals.lower[same], found.totals.lower)


@given(homes(), st.sampled_from(["Europe/London", "Asia/Kathmandu"]))
def test_points_in_time_and_a_zone_give_what_clock_times_give(home, zone):
    windows, periods = home
    assume(any(k is not None for k in slow_match(windows, periods)[0]))
    rows, lines = as_tables(windows, periods)
    plain = diary_bags(rows, lines)
    tz = ZoneInfo(zone)
    aware = {name: [one.replace(tzinfo=tz) for one in rows[name]] for name in ("start", "end")}
    seconds = {name: [one.timestamp() for one in aware[name]] for name in aware}
    for times in (aware, seconds, {}):
        assert_same(diary_bags({**rows, **times}, lines, timezone=zone), plain)


def test_a_window_in_the_middle_of_two_periods_is_in_the_later():
    diary = [
        {"start": "2024-03-04 00:00", "end": "2024-03-04 01:30", "a": "100%"},
        {"start": "2024-03-04 01:30", "end": "2024-03-04 03:00", "a": "100%"},
    ]
    bags = diary_bags({"start": HOURS[:3]}, diary).bags
    assert bags[0] != bags[1] == bags[2]


def test_huge_times_of_many_people_do_not_run_over():
    people = [f"p{k}" for k in range(200)]
    rows = {"participant": people * 2, "start": [0] * 200 + [1.9e11] * 200}
    lines = [{"participant": who, "start": 0, "end": 120, "a": "100%"} for who in people]
    found = diary_bags(rows, lines, window=60)
    assert found.bags[:200].tolist() == [f"{who} 0–120" for who in people]
    assert set(found.bags[200:]) == {None}
    assert list(found.recorded_hours.values()) == pytest.approx([1 / 60] * 200)


# --- what periods are -----------------------------------------------------------------------------


@given(
    first=st.dates(date(2024, 2, 20), date(2024, 11, 20)),
    lengths=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    day_start=st.sampled_from(["00:00", "4:00", "04:00", "23:30", time(4)]),
    zone=st.sampled_from([None, "Europe/London"]),
)
def test_date_ranges_are_the_days_in_them(first, lengths, day_start, zone):
    days = [first + timedelta(days=i) for i in range(sum(lengths) + 2)]
    start = datetime.combine(days[0], time(5))
    rows = {"start": [start + timedelta(hours=i) for i in range(24 * len(days))]}
    rows["start"] = [one for one in rows["start"] if one.hour not in (0, 1, 2)]  # no changes
    options = {"timezone": zone, "day_start": day_start, "window": "1 h"}
    by_day = diary_bags(rows, [{"date": day, "a": "50%", "b": "50%"} for day in days], **options)
    edges = np.cumsum([0, *lengths])
    for form in (str, lambda day: day, lambda day: f"{day:%d.%m.%Y}"):
        lines = [
            {"start": form(days[a]), "end": form(days[b - 1]), "a": "50%", "b": "50%"}
            for a, b in pairwise(edges)
        ]
        found = diary_bags(rows, lines, date_format="%d.%m.%Y", **options)
        names = [
            str(days[a]) if b == a + 1 else f"{days[a]}–{days[b - 1]}" for a, b in pairwise(edges)
        ]
        assert found.totals.ids == tuple(names)
        for name, a, b in zip(names, edges, edges[1:], strict=False):
            inside = [str(day) for day in days[a:b]]
            assert found.hours[name] == pytest.approx(sum(by_day.hours[day] for day in inside))
            assert [bag == name for bag in found.bags] == [bag in inside for bag in by_day.bags]


@given(st.integers(0, 23), st.integers(1, 24))
def test_clock_times_of_a_date_may_go_over_midnight(hour, length):
    rows = {"start": np.arange("2024-03-04T00", "2024-03-06T00", dtype="M8[h]")}
    stop = (hour + length) % 24
    for start, end in (
        (f"{hour:02}:00", f"{stop:02}:00"),
        (f"{hour}:00:00", f"{stop}:00:00"),
        (time(hour), time(stop)),
    ):
        diary = [{"date": DAY, "start": start, "end": end, "activity": "sleep"}]
        found = diary_bags(rows, diary)
        inside = [hour <= i < hour + length for i in range(48)]
        assert [bag is not None for bag in found.bags] == inside
        assert list(found.hours.values()) == [length]
        assert found.totals.ids == (f"{DAY} {hour:02}:00–{stop:02}:00",)


def test_the_start_of_the_day_moves_days_but_no_times():
    lines = [
        {"start": DAY, "end": DAY, "a": "5h"},
        {"start": "2024-03-05 04:00", "end": "2024-03-05 08:00", "a": "1h"},
    ]
    rows = {"start": np.concatenate([HOURS, HOURS + 24])}
    bags = diary_bags(rows, lines, day_start="04:00").bags
    assert [bag is not None for bag in bags] == [4 <= i < 32 for i in range(48)]
    assert bags[27] == DAY != bags[28]


def test_dates_of_numpy_are_whole_days():
    lines = [{"start": np.datetime64(DAY), "end": np.datetime64("2024-03-05"), "a": "5h"}]
    assert diary_bags(WINDOWS, lines).hours == {f"{DAY}–2024-03-05": 48.0}


def test_without_a_zone_days_of_points_in_time_are_those_of_utc():
    seconds = {"start": HOURS.astype("M8[s]").astype(np.int64)}
    aware = {"start": pd.Series(HOURS.astype("M8[s]")).dt.tz_localize("UTC")}
    fixed = {"start": aware["start"].dt.tz_convert("+05:45")}
    for rows in (seconds, aware, fixed):
        found = diary_bags(rows, [{"date": DAY, "a": "5h"}])
        assert set(found.bags) == {DAY}
        assert any("read as UTC" in note for note in found.notes)
        there = diary_bags(rows, [{"date": DAY, "a": "5h"}], timezone="Asia/Kathmandu")
        assert there.recorded_hours == {DAY: 18.0}
        assert not any("read as UTC" in note for note in there.notes)


def test_a_zone_that_a_column_names_is_the_diarys_too():
    start = pd.Series(HOURS.astype("M8[s]")).dt.tz_localize("UTC").dt.tz_convert("Asia/Kathmandu")
    found = diary_bags({"start": start}, [{"date": DAY, "a": "5h"}])
    assert found.recorded_hours == {DAY: 18.0}
    assert any("read as Asia/Kathmandu" in note for note in found.notes)


def test_the_day_ends_at_24_hours():
    diary = [{"date": DAY, "start": "22:00", "end": "24:00", "activity": "sleep"}]
    assert diary_bags(WINDOWS, diary).hours == {f"{DAY} 22:00–00:00": 2.0}


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from("abc")), min_size=1, max_size=6))
def test_lines_that_an_activity_filled_are_pure_bags(parts):
    lines, when, truth = [], 0, []
    for length, activity in parts:
        lines.append({"start": at(60 * when), "end": at(60 * (when + length)), "what": activity})
        truth += [activity] * length
        when += length
    rows = {"start": minutes(60 * when)}
    found = diary_bags(rows, lines, diary_columns={"activity": "what"})
    assert len(found.totals.ids) == len(parts)
    for bag, activity in zip(found.bags, np.repeat(truth, 60), strict=True):
        k = found.totals.ids.index(bag)
        pure = found.totals.classes == activity
        np.testing.assert_array_equal(found.totals.lower[k], pure)
        np.testing.assert_array_equal(found.totals.upper[k], pure)
    tolerant = diary_bags(
        rows, lines, diary_columns={"activity": "what"}, rules=DiaryRules(tolerance=20)
    )
    assert_same(tolerant, found)


def test_named_periods_need_no_times():
    rows = {"period": ["night", "day", "day", None, "noon", "night"]}
    diary = [
        {"period": "day", "sit": 75, "walk": 25},
        {"period": "night", "sit": 0, "walk": 100},
        {"period": "weekend", "sit": 50, "walk": 50},
    ]
    found = diary_bags(rows, diary)
    assert found.bags.tolist() == ["night", "day", "day", None, None, "night"]
    assert shares_of(found, "day") == {"sit": (0.75, 0.75), "walk": (0.25, 0.25)}
    assert any("weekend" in note for note in found.notes)
    assert any("2 of 6 windows belong to no entry" in note for note in found.notes)


@given(
    st.lists(st.sampled_from(list(product(["a", "b", 7], ["x", 1.0, None]))), min_size=1),
    st.sets(st.sampled_from(list(product(["a", "b", "7", "c"], ["x", "1", "y"])))),
)
def test_named_periods_are_matched_by_participant_and_name(pairs, lines):
    assume(len({who for who, _ in lines}) > 1)
    rows = {"participant": [who for who, _ in pairs], "period": [what for _, what in pairs]}
    plain = [
        (str(who), None if what is None else str(what).removesuffix(".0")) for who, what in pairs
    ]
    diary = [{"participant": w, "period": p, "s": "20%", "t": "80%"} for w, p in sorted(lines)]
    if not lines & set(plain):
        with pytest.raises(DiaryError, match="no entry that any window falls into"):
            diary_bags(rows, diary)
        return
    found = diary_bags(rows, diary)
    wanted = [f"{who} {what}" if (who, what) in lines else None for who, what in plain]
    assert found.bags.tolist() == wanted


@given(st.integers(1, 50), st.integers(1, 120))
def test_named_periods_with_a_length_hold_durations(n, length):
    half = timedelta(seconds=n * length / 2)
    diary = [{"period": "p", "sit": half, "walk": half}]
    found = diary_bags({"period": ["p"] * n}, diary, window=length)
    assert shares_of(found, "p") == {"sit": (0.5, 0.5), "walk": (0.5, 0.5)}
    assert found.hours == found.recorded_hours == {"p": pytest.approx(n * length / 3600)}


def test_ids_that_would_be_the_same_are_told_apart():
    rows = {"participant": ["a b", "a"], "period": ["c", "b c"]}
    diary = [
        {"participant": "a b", "period": "c", "s": "50%", "t": "50%"},
        {"participant": "a", "period": "b c", "s": "100%", "t": "0%"},
    ]
    found = diary_bags(rows, diary)
    assert len(set(found.bags)) == len(found.totals.ids) == 2


# --- what a diary says ----------------------------------------------------------------------------

SPELL = [
    lambda m: f"{m // 60}h{m % 60:02}",
    lambda m: f"{m // 60:02}:{m % 60:02}",
    lambda m: f"{m} min",
    lambda m: timedelta(minutes=m),
    lambda m: f"{m / 14.4:.12f} %",
    lambda m: None if m == 0 else f"{m}'",
]


@given(
    table=st.lists(st.lists(st.integers(0, 288), min_size=3, max_size=3), min_size=1, max_size=3),
    spell=st.lists(st.sampled_from(range(len(SPELL))), min_size=9, max_size=9),
    random=st.randoms(use_true_random=False),
)
def test_wide_and_long_diaries_say_the_same(table, spell, random):
    assume(all(sum(row) for row in table))
    days = [date(2024, 3, 4) + timedelta(days=k) for k in range(len(table))]
    rows = {"start": np.datetime64(days[0], "m") + 20 * np.arange(72 * len(days)).astype("m8[m]")}
    cells = [
        (day, name, SPELL[spell[3 * k + h]](table[k][h]))
        for k, day in enumerate(days)
        for h, name in enumerate("abc")
    ]
    wide = [{"date": day, **{n: x for d, n, x in cells if d == day}} for day in days]
    long = [{"date": str(d), "activity": n, "duration": x} for d, n, x in cells]
    random.shuffle(long)
    rules = DiaryRules(tolerance=0)
    found = diary_bags(rows, wide, rules=rules)
    assert_same(diary_bags(rows, long, rules=rules), found)
    for k, day in enumerate(days):
        hours = {name: round(table[k][h] / 60, 6) for h, name in enumerate("abc")}
        hours[UNKNOWN] = round(24 - sum(table[k]) / 60, 6)
        assert all(hours.pop(name) == 0 for name in found.never)
        assert exact_hours(found, str(day)) == pytest.approx(hours, abs=1e-5)


@pytest.mark.parametrize(
    ("unit", "worth"), [("hours", 1.0), ("minutes", 1 / 60), ("seconds", 1 / 3600),
                        ("percent", 0.24), ("share", 24.0)],
)  # fmt: skip
def test_the_unit_of_bare_numbers_is_a_rule_or_in_a_columns_name(unit, worth):
    number = 6.0 / worth
    short = {"hours": "h", "minutes": "min", "seconds": "s", "percent": "%", "share": "share"}
    for diary, rules in (
        ([{"date": DAY, "sit": number, "walk": number}], DiaryRules(unit=unit)),
        ([{"date": DAY, f"sit ({short[unit]})": number, "walk": "6h"}], None),
        ([{"date": DAY, "activity": a, unit: number} for a in ("sit", "walk")], None),
        (
            [{"date": DAY, "activity": a, f"T [{short[unit]}]": number} for a in ("sit", "walk")],
            None,
        ),
    ):
        columns = {"duration": f"T [{short[unit]}]"} if f"T [{short[unit]}]" in diary[0] else None
        found = diary_bags(WINDOWS, diary, rules=rules, diary_columns=columns)
        assert exact_hours(found, DAY) == {"sit": 6.0, "walk": 6.0, UNKNOWN: 12.0}


@pytest.mark.parametrize(
    ("numbers", "hours", "unit"),
    [
        ((0.25, 0.75), (6, 18), "shares"),
        ((0.33, 0.33, 0.33), (8, 8, 8), "shares"),
        ((25, 75), (6, 18), "percentages"),
        ((33.3, 33.3, 33.3), (8, 8, 8), "percentages"),
        ((33, 34, 34), (24 * 33 / 101, 24 * 34 / 101, 24 * 34 / 101), "percentages"),
        ((6, 18), (6, 18), "hours"),
        ((6, 10), (6, 10), "hours"),
    ],
)
def test_bare_numbers_are_shares_where_they_sum_to_1_or_100(numbers, hours, unit):
    diary = [{"date": DAY, **{f"a{h}": x for h, x in enumerate(numbers)}}]
    found = diary_bags(WINDOWS, diary)
    wanted = {f"a{h}": round(x, 6) for h, x in enumerate(hours)}
    if sum(hours) < 24 - 1e-6:
        wanted[UNKNOWN] = 24.0 - sum(hours)
    assert exact_hours(found, DAY) == wanted
    assert any(f"read as {unit}" in note for note in found.notes)


def test_only_entries_of_bare_numbers_alone_tell_their_unit():
    rows = {"start": np.concatenate([HOURS, HOURS + 24])}
    diary = [{"date": DAY, "a": 0.25, "b": 0.75}, {"date": "2024-03-05", "a": "6h", "b": 0.5}]
    found = diary_bags(rows, diary, rules=DiaryRules(tolerance=0))
    assert exact_hours(found, "2024-03-05") == {"a": 6.0, "b": 12.0, UNKNOWN: 6.0}


def test_an_activity_called_unknown_takes_what_nobody_accounts_for():
    for name in ("unknown", "Unknown"):
        found = diary_bags(WINDOWS, [{"date": DAY, "sleep": "8h", name: "4h"}])
        assert exact_hours(found, DAY) == {"sleep": 8.0, name: 16.0}


def test_columns_that_are_not_used_are_noted():
    diary = [
        {"date": DAY, "period": "x", "start": "late", "hours": 3, "Notes": "hm", "remark": "ha",
         "mood": "fine", "sleep": "8h"}
    ]  # fmt: skip
    found = diary_bags(WINDOWS, diary, diary_columns={"note": ["mood"]})
    unused = next(note for note in found.notes if "not used" in note)
    assert all(name in unused for name in ("period", "start", "hours", "Notes", "remark", "mood"))
    assert found.totals.classes.tolist() == ["sleep", UNKNOWN]


@pytest.mark.parametrize("named", [7, "7", 7.0, " 7 ", np.int64(7), np.float64(7)])
def test_participants_are_the_same_however_they_are_written(named):
    for rows in (
        {"participant": [named, "8"], "start": [START, START]},
        pl.DataFrame({"participant": pl.Series([named, 8], strict=False), "start": [START, START]}),
        pd.DataFrame({"participant": [named, type(named)(8)], "start": [START, START]}),
    ):
        for other in (7, "7", 7.0, " 7"):
            diary = [{"participant": other, "date": DAY, "a": "5h"}]
            found = diary_bags(rows, diary, window=60)
            assert found.bags.tolist() == [f"7 {DAY}", None]
            assert any("participants of the windows '8' have no entry" in n for n in found.notes)


def test_a_diary_of_one_needs_no_participant_on_either_side():
    for rows in (WINDOWS, {**WINDOWS, "participant": ["p1"] * 24}):
        for who in ({}, {"participant": "p1"}):
            assert set(diary_bags(rows, [{"date": DAY, **who, "a": "5h"}]).bags) == {DAY}


# --- tables of every maker ------------------------------------------------------------------------

LINES = [
    {"participant": "p1", "date": "2024-03-04", "sleep": 8.5, "tv": 2.0, "work": 1.25},
    {"participant": "p1", "date": "2024-03-05", "sleep": 7.0, "tv": None, "work": 9.0},
    {"participant": "p2", "date": "2024-03-04", "sleep": 6.5, "tv": 0.0, "work": None},
]
NAMES = list(LINES[0])


def write_csv(path, delimiter, comma=False, encoding="utf-8"):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow([f" {name} " for name in NAMES])
    for line in LINES:
        cells = ["" if line[name] is None else str(line[name]) for name in NAMES]
        writer.writerow([cell.replace(".", ",") if comma else cell for cell in cells])
        writer.writerow([])
    path.write_text(text.getvalue(), encoding=encoding)
    return path


def columns_of(lines):
    return {name: [line[name] for line in lines] for name in NAMES}


def with_dates(lines):
    return [{**line, "date": date.fromisoformat(line["date"])} for line in lines]


DIARIES = {
    "list": lambda folder: LINES,
    "tuple": lambda folder: tuple(LINES),
    "dates": lambda folder: with_dates(LINES),
    "numpy dates": lambda folder: [
        {**line, "date": np.datetime64(line["date"])} for line in LINES
    ],
    "mapping": lambda folder: columns_of(LINES),
    "mapping of arrays": lambda folder: {
        "participant": np.array(columns_of(LINES)["participant"]),
        "date": np.array(columns_of(LINES)["date"], dtype="M8[D]").astype("M8[ns]"),
        **{n: np.array(columns_of(LINES)[n], dtype=float) for n in ("sleep", "tv", "work")},
    },
    "mapping of arrow": lambda folder: {
        n: pa.chunked_array([c]) for n, c in columns_of(LINES).items()
    },
    "pandas": lambda folder: pd.DataFrame(LINES),
    "pandas dates": lambda folder: pd.DataFrame(LINES).assign(
        date=lambda table: pd.to_datetime(table["date"])
    ),
    "pandas times": lambda folder: pd.DataFrame(LINES).assign(
        **{n: pd.to_timedelta(pd.DataFrame(LINES)[n], unit="h") for n in ("sleep", "tv", "work")}
    ),
    "polars": lambda folder: pl.DataFrame(LINES),
    "polars dates": lambda folder: pl.DataFrame(with_dates(LINES)),
    "polars lazy": lambda folder: pl.LazyFrame(LINES),
    "polars times": lambda folder: pl.DataFrame(LINES).with_columns(
        [pl.duration(minutes=60 * pl.col(n)).alias(n) for n in ("sleep", "tv", "work")]
    ),
    "pyarrow": lambda folder: pa.Table.from_pylist(LINES),
    "pyarrow dates": lambda folder: pa.Table.from_pylist(with_dates(LINES)),
    "csv": lambda folder: write_csv(folder / "d.csv", ","),
    "csv as text": lambda folder: str(write_csv(folder / "d.csv", ",")),
    "german csv": lambda folder: write_csv(folder / "d.csv", ";", comma=True),
    "csv with a mark": lambda folder: write_csv(folder / "d.csv", ";", encoding="utf-8-sig"),
    "tabs": lambda folder: write_csv(folder / "d.tsv", "\t"),
    "parquet": lambda folder: _parquet(folder / "d.parquet"),
}  # fmt: skip


def _parquet(path):
    pq.write_table(pa.Table.from_pylist(LINES), path)
    return path


PEOPLE = {
    "participant": ["p1"] * 48 + ["p2"] * 24,
    "start": np.concatenate([HOURS, HOURS + 24, HOURS]).astype("M8[ms]"),
    "steps": np.arange(72),
}
TABLES = {
    "mapping": lambda rows: rows,
    "mapping of lists": lambda rows: {name: column.tolist() for name, column in rows.items()},
    "mapping of arrow": lambda rows: {n: pa.chunked_array([column]) for n, column in rows.items()},
    "pandas": pd.DataFrame,
    "pandas categories": lambda rows: pd.DataFrame(rows).astype({"participant": "category"}),
    "pandas, numbered columns": lambda rows: pd.DataFrame({0: rows["steps"], **rows}),
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
    "pyarrow": pa.table,
}  # fmt: skip


@pytest.mark.parametrize("form", sorted(DIARIES))
def test_a_diary_of_every_maker_says_the_same(form, tmp_path):
    rows = {name: np.array(column) for name, column in PEOPLE.items()}
    wanted = diary_bags(rows, LINES)
    assert wanted.totals.ids == ("p1 2024-03-04", "p1 2024-03-05", "p2 2024-03-04")
    assert exact_hours(wanted, "p1 2024-03-05") == {"sleep": 7, "tv": 0, "work": 9, UNKNOWN: 8}
    assert_same(diary_bags(rows, DIARIES[form](tmp_path)), wanted)


@pytest.mark.parametrize("form", sorted(TABLES))
def test_windows_of_every_maker_give_the_same(form):
    rows = {name: np.array(column) for name, column in PEOPLE.items()}
    assert_same(diary_bags(TABLES[form](rows), LINES), diary_bags(rows, LINES))


def test_times_of_every_maker_give_the_same_names():
    spans = [(at(0), at(90)), (at(90), at(200))]
    forms = [
        [{"start": a, "end": b, "s": "100%"} for a, b in spans],
        [{"start": a.isoformat(), "end": str(b), "s": "100%"} for a, b in spans],
        pd.DataFrame([{"start": a, "end": b, "s": "100%"} for a, b in spans]),
        pl.DataFrame([{"start": a, "end": b, "s": "100%"} for a, b in spans]),
        {"start": np.array([a for a, _ in spans], dtype="M8[s]"), "end": [b for _, b in spans],
         "s": ["100%", "100%"]},
    ]  # fmt: skip
    for form in forms:
        assert diary_bags({"start": minutes(200)}, form).totals.ids == (
            "2024-03-04 06:00–07:30",
            "2024-03-04 07:30–09:20",
        )


# --- rules, end to end ----------------------------------------------------------------------------


def test_rules_decide_what_becomes_of_an_entry():
    half_day = {"start": HOURS[:12]}
    diary = [{"date": DAY, "sleep": "16h", "tv": "6h"}]
    bounds = diary_bags(half_day, diary)
    assert shares_of(bounds, DAY) == {"sleep": (4 / 12, 1), "tv": (0, 0.5), UNKNOWN: (0, 2 / 12)}
    like = diary_bags(half_day, diary, rules=DiaryRules(part="scale"))
    assert exact_hours(like, DAY) == {"sleep": 8.0, "tv": 3.0, UNKNOWN: 1.0}
    filled = diary_bags(half_day, diary, rules=DiaryRules(part="scale", uncovered="scale"))
    assert exact_hours(filled, DAY) == {"sleep": round(96 / 11, 6), "tv": round(36 / 11, 6)}
    with pytest.raises(DiaryError, match="as long as its windows last"):
        diary_bags(half_day, diary, rules=DiaryRules(covers="recording"))
    shrunk = diary_bags(half_day, diary, rules=DiaryRules(covers="recording", excess="scale"))
    assert exact_hours(shrunk, DAY) == exact_hours(filled, DAY)
    assert shrunk.hours == {DAY: 24.0}
    assert shrunk.recorded_hours == {DAY: 12.0}
    for rules in (DiaryRules(part="drop"), DiaryRules(uncovered="drop")):
        with pytest.raises(DiaryError, match="no entry that these rules keep"):
            diary_bags(half_day, diary, rules=rules)


def test_what_is_left_out_is_noted():
    rows = {"start": np.concatenate([HOURS, HOURS[:6] + 24, HOURS + 48, HOURS + 72])}
    diary = [
        {"date": "2024-03-04", "sleep": "8h", "tv": "16h"},
        {"date": "2024-03-05", "sleep": "8h", "tv": "16h"},
        {"date": "2024-03-06", "sleep": "", "tv": None},
        {"date": "2024-03-07", "sleep": "1h", "tv": "2h"},
        {"date": "2024-03-09", "sleep": "1h", "tv": "2h"},
    ]
    found = diary_bags(rows, diary, rules=DiaryRules(part="drop", uncovered="drop"))
    assert found.totals.ids == ("2024-03-04",)
    for day, words in (
        ("2024-03-05", "less than 95 %"),
        ("2024-03-06", "say nothing"),
        ("2024-03-07", "do not cover"),
        ("2024-03-09", "no window"),
    ):
        assert any(day in note and words in note for note in found.notes)
    assert any("54 of 78 windows belong to no entry" in note for note in found.notes)


def test_a_day_of_rounded_hours_is_scaled_to_the_day():
    rows = {"start": minutes(1440, datetime(2024, 3, 4))}
    diary = [{"date": DAY, "sleep": "8h", "tv": "2h", "work": "8h", "walk": "1h", "meals": "4h"}]
    found = diary_bags(rows, diary)
    np.testing.assert_allclose(found.totals.lower[0] * 23, [4, 8, 2, 1, 8])
    assert any("multiples of 60 min" in note and DAY in note for note in found.notes)
    exact = diary_bags(rows, diary, rules=DiaryRules(tolerance=0))
    assert exact_hours(exact, DAY)[UNKNOWN] == 1.0


def test_zeros_do_not_count_as_rounded():
    zeros = dict.fromkeys("bcde", "0 min")
    diary = [
        {"start": at(0), "end": at(60), "a": "30 min", **zeros},
        *({"start": at(d), "end": at(d + 60), "a": "60 min", **zeros} for d in range(60, 360, 60)),
    ]
    found = diary_bags({"start": minutes(360)}, diary)
    assert exact_hours(found, found.totals.ids[0])[UNKNOWN] == 0.5


def test_windows_that_stick_out_of_a_period_count_only_in_it():
    rows = {"start": HOURS - np.timedelta64(20, "m")}
    found = diary_bags(rows, [{"date": DAY, "a": "10h"}])
    assert found.recorded_hours == {DAY: pytest.approx(24 - 20 / 60)}


# --- a made-up week -------------------------------------------------------------------------------


def test_the_truth_of_a_smart_home_lies_within_the_totals_of_its_diary(tmp_path):
    home = make_smart_home(days=4, participants=3, seed=1)
    who, day = home.windows["participant"], home.windows["start"].astype("M8[D]").astype(str)
    reported = home.reported
    off_by = max(
        abs(60 * _hours_in(line[name]) - np.sum(here & (reported == name)))
        for line in home.diary
        for here in [(who == line["participant"]) & (day == line["date"])]
        for name in ACTIVITIES
    )
    rules = DiaryRules(tolerance=off_by, part="bounds")
    found = diary_bags(home.windows, home.diary, rules=rules)
    assert found.totals.ids == tuple(f"{x['participant']} {x['date']}" for x in home.diary)
    assert found.left_out.tolist() == home.windows["nonwear"].tolist()
    for k, bag in enumerate(found.totals.ids):
        inside = found.bags == bag
        worn = (who == bag.split()[0]) & (day == bag.split()[1]) & ~home.windows["nonwear"]
        assert inside.tolist() == worn.tolist()
        truth = [np.mean(reported[inside] == name) for name in found.totals.classes]
        assert np.all(found.totals.lower[k] <= np.array(truth) + 1e-9)
        assert np.all(truth <= found.totals.upper[k] + 1e-9)
    files = home.write(tmp_path)
    assert_same(diary_bags(home.windows, files.diary, rules=rules), found)


def _hours_in(text):
    if not text:
        return 0.0
    parts = re.split("[h:]", text)
    return float(parts[0]) + (float(parts[1]) / 60 if len(parts) > 1 else 0.0)


def test_the_defaults_make_a_bag_of_every_line_of_a_smart_home():
    home = make_smart_home(days=4, participants=3)
    found = diary_bags(home.windows, home.diary)
    assert len(found.totals.ids) == len(home.diary)
    assert UNKNOWN in found.totals.classes
    assert all(hours == 24 for hours in found.hours.values())
    forgotten = (home.windows["participant"] == "p1") & (
        home.windows["start"].astype("M8[D]") == np.datetime64("2024-03-06")
    )
    assert set(found.bags[forgotten]) == {None}
