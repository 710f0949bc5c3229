"""Times in every form people have them, and clocks through their changes, against zoneinfo."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.exceptions import DiaryError
from apportion.supervision.diary import diary_bags
from apportion.supervision.diary.instants import read_times
from apportion.supervision.diary.time_zones import (
    ends_to_absolute,
    first_showing,
    refuse_skipped,
    shown_at,
    starts_to_absolute,
    zone_named,
)

MINUTE = timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = datetime(2024, 10, 27, 1)
"""An hour that clocks in London showed twice."""

CHANGES = {
    "Europe/London": ["2024-03-31T01:00", "2024-10-27T01:00"],
    "America/New_York": ["2024-03-10T07:00", "2024-11-03T06:00"],
    "Australia/Lord_Howe": ["2024-04-06T15:00", "2024-10-05T15:30"],
    "America/St_Johns": ["2010-03-14T03:31", "2010-11-07T02:31"],  # at one minute past midnight
    "America/Sao_Paulo": ["2018-02-18T02:00", "2018-11-04T03:00"],  # at midnight
    "America/Havana": ["2024-03-10T05:00", "2024-11-03T05:00"],  # midnight never, midnight twice
    "Asia/Kathmandu": ["2024-10-27T01:00"],  # none
    "UTC": ["2024-03-31T01:00"],
}
"""When clocks were changed, in UTC."""

BACK = {
    "Europe/London": "2024-10-27T01:00",
    "America/New_York": "2024-11-03T06:00",
    "Australia/Lord_Howe": "2024-04-06T15:00",
    "America/St_Johns": "2010-11-07T02:31",
    "America/Sao_Paulo": "2018-02-18T02:00",
    "America/Havana": "2024-11-03T05:00",
}
FORWARD = {
    "Europe/London": "2024-03-31T01:00",
    "America/New_York": "2024-03-10T07:00",
    "Australia/Lord_Howe": "2024-10-05T15:30",
    "America/St_Johns": "2010-03-14T03:31",
    "America/Sao_Paulo": "2018-11-04T03:00",
    "America/Havana": "2024-03-10T05:00",
}


def microseconds(moment: datetime) -> int:
    """Return microseconds since 1970 of a moment, or of what a clock shows."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)


def stamps(moments) -> np.ndarray:
    return np.array([microseconds(one) for one in moments], dtype=np.int64)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def shown(moments, zone: str) -> list[datetime]:
    """Return what clocks of the zone show."""
    return [one.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for one in moments]


def to_absolute(clock, zone, groups=None):
    groups = np.zeros(len(clock), dtype=np.intp) if groups is None else groups
    return starts_to_absolute(stamps(clock), ZoneInfo(zone), groups)


near_changes = st.sampled_from(sorted(CHANGES)).flatmap(
    lambda zone: st.tuples(st.just(zone), st.sampled_from(CHANGES[zone]))
)


def chronological(change, before, step, n):
    first = utc(change) - before * MINUTE
    return [first + i * step * MINUTE for i in range(n)]


@given(near_changes, st.integers(70, 3000), st.integers(1, 29), st.integers(1, 250))
def test_rows_in_order_of_time_give_back_when_they_were(zone_and_change, before, step, n):
    zone, change = zone_and_change
    moments = chronological(change, before, step, n)
    np.testing.assert_array_equal(to_absolute(shown(moments, zone), zone), stamps(moments))


@given(
    st.sampled_from(sorted(BACK)),
    st.sampled_from([1, 2, 5, 6, 10, 15, 30]),
    st.sampled_from(["sorted", "reversed", "shuffled"]),
    st.randoms(use_true_random=False),
)
def test_rows_in_another_order_show_each_time_once(zone, step, order, random):
    moments = chronological(BACK[zone], 120, step, 240 // step)
    if order == "sorted":
        moments.sort(key=lambda one: (shown([one], zone), one))
    elif order == "reversed":
        moments.reverse()
    else:
        random.shuffle(moments)
    found = to_absolute(shown(moments, zone), zone)
    if order == "sorted":
        np.testing.assert_array_equal(found, stamps(moments))
    else:
        np.testing.assert_array_equal(np.sort(found), np.sort(stamps(moments)))


def test_in_pairs_out_of_order_the_repeated_time_is_the_second():
    times = [START.replace(minute=minute) for minute in (30, 0, 0, 30)]
    found = to_absolute(times, "Europe/London")
    first, second = utc("2024-10-27T00:00"), utc("2024-10-27T01:00")
    half = 30 * MINUTE
    np.testing.assert_array_equal(found, stamps([first + half, first, second, second + half]))


@given(st.sampled_from(sorted(BACK)), st.integers(2, 4), st.randoms(use_true_random=False))
def test_each_participants_own_order_decides(zone, people, random):
    moments = chronological(BACK[zone], 90, 10, 18)
    left = {who: list(moments) for who in range(people)}
    rows = []
    while left:
        who = random.choice(sorted(left))
        rows.append((who, left[who].pop(0)))
        if not left[who]:
            del left[who]
    who, when = np.array([who for who, _ in rows]), [moment for _, moment in rows]
    np.testing.assert_array_equal(to_absolute(shown(when, zone), zone, who), stamps(when))


@given(st.sampled_from(sorted(BACK)), st.booleans())
def test_an_hour_that_was_recorded_once_is_the_first(zone, backwards):
    change = utc(BACK[zone])
    moments = [change - i * MINUTE for i in range(29, 0, -1)]
    ordered = moments[::-1] if backwards else moments
    np.testing.assert_array_equal(to_absolute(shown(ordered, zone), zone), stamps(ordered))


@given(st.sampled_from(sorted(FORWARD)), st.integers(0, 29), st.integers(0, 5), st.integers(0, 5))
def test_a_time_that_no_clock_showed_names_its_row(zone, into, before, after):
    change = utc(FORWARD[zone])
    last = shown([change - MINUTE], zone)[0]
    never = last + (1 + into) * MINUTE
    earlier, later = shown([change - MINUTE], zone) * before, shown([change], zone) * after
    with pytest.raises(DiaryError) as caught:
        to_absolute([*earlier, never, *later], zone)
    assert caught.value.row == before
    assert never.isoformat(" ", "minutes") in caught.value.found
    assert zone in caught.value.found
    to_absolute([*earlier, *later], zone)


@given(near_changes, st.integers(-4000, 4000))
def test_the_first_showing_is_that_of_zoneinfo(zone_and_change, minutes):
    zone, change = zone_and_change
    clock = datetime.fromisoformat(change) + minutes * MINUTE
    wanted = clock.replace(tzinfo=ZoneInfo(zone), fold=0).astimezone(UTC)
    assert first_showing(stamps([clock]), ZoneInfo(zone)).tolist() == [microseconds(wanted)]


@given(st.sampled_from(sorted(CHANGES)), st.lists(st.datetimes(), max_size=20))
def test_any_date_is_converted_as_by_zoneinfo(zone, clocks):
    clocks = [one.replace(fold=0) for one in clocks]
    clocks = [one for one in clocks if 1900 < one.year < 2037]
    wanted = [one.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) for one in clocks]
    np.testing.assert_array_equal(first_showing(stamps(clocks), ZoneInfo(zone)), stamps(wanted))


@pytest.mark.parametrize("year", ["0001-01-01", "9999-12-31"])
def test_the_ends_of_the_calendar_are_no_obstacle(year):
    found = first_showing(stamps([datetime.fromisoformat(year)]), ZoneInfo("Europe/London"))
    assert abs(found[0] - microseconds(datetime.fromisoformat(year))) < 3600 * 10**6


@given(near_changes, st.integers(-200, 200), st.integers(1, 30))
def test_a_window_ends_when_its_clock_first_shows_the_end(zone_and_change, minutes, length):
    zone, change = zone_and_change
    start = utc(change) + minutes * MINUTE
    end = start + length * MINUTE
    found = ends_to_absolute(stamps(shown([end], zone)), ZoneInfo(zone), stamps([start]))
    assert found.tolist() == [microseconds(end)]


@given(st.sampled_from(sorted(FORWARD)), st.integers(-40, 40))
def test_an_end_may_be_the_moment_of_change(zone, minutes):
    zone_info = ZoneInfo(zone)
    last = shown([utc(FORWARD[zone]) - MINUTE], zone)[0] + MINUTE
    clock = last + minutes * MINUTE
    back = clock.replace(tzinfo=zone_info).astimezone(UTC).astimezone(zone_info)
    missing = back.replace(tzinfo=None) != clock
    for ends in (False, True):
        if missing and not (ends and minutes == 0):
            with pytest.raises(DiaryError, match=r"row 0.*put forward"):
                refuse_skipped(stamps([clock]), zone_info, ends=ends)
        else:
            refuse_skipped(stamps([clock]), zone_info, ends=ends)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Europe/Lodnon", "Europe/London"),
        ("london", "Europe/London"),
        ("europe/london", "Europe/London"),
        ("New York", "America/New_York"),
        ("Kathmandu", "Asia/Kathmandu"),
    ],
)
def test_an_unknown_zone_names_a_near_one(name, near):
    with pytest.raises(DiaryError) as caught:
        zone_named(name)
    assert near in caught.value.hint


@pytest.mark.parametrize("name", ["", "Nowhere at all", "../etc/passwd", "Europe", "a\0b", "🙂"])
def test_any_other_name_is_a_clean_error(name):
    with pytest.raises(DiaryError, match="the time zone"):
        zone_named(name)


def test_what_a_clock_shows_is_said_briefly():
    start = datetime(2024, 3, 4, 7, 30)
    assert shown_at(microseconds(start)) == "2024-03-04 07:30"
    assert shown_at(microseconds(start) + 5 * 10**6) == "2024-03-04 07:30:05"
    assert shown_at(microseconds(start) + 1) == "2024-03-04 07:30:00.000001"


# --- columns of times ---------------------------------------------------------------------------

clock_times = st.lists(
    st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)).map(
        lambda one: one.replace(microsecond=0)
    ),
    min_size=1,
    max_size=6,
)

NAIVE = {
    "datetime": list,
    "text": lambda times: [one.isoformat() for one in times],
    "text with spaces": lambda times: [f" {one.isoformat(' ')} " for one in times],
    "numpy s": lambda times: np.array(times, dtype="M8[s]"),
    "numpy ms": lambda times: np.array(times, dtype="M8[ms]"),
    "numpy ns": lambda times: np.array(times, dtype="M8[s]").astype("M8[ns]"),
    "numpy scalars": lambda times: list(np.array(times, dtype="M8[s]").astype("M8[ns]")),
    "pandas": lambda times: pd.Series(times),
    "pandas ns": lambda times: pd.Series(np.array(times, dtype="M8[s]").astype("M8[ns]")),
    "pandas object": lambda times: pd.Series([pd.Timestamp(one) for one in times], dtype=object),
    "pandas text": lambda times: pd.Series([str(one) for one in times]),
    "pandas index": lambda times: pd.DatetimeIndex(times),
    "polars": lambda times: pl.Series(times),
    "polars ms": lambda times: pl.Series(times, dtype=pl.Datetime("ms")),
    "polars text": lambda times: pl.Series([str(one) for one in times]),
    "pyarrow": lambda times: pa.chunked_array([pa.array(times, pa.timestamp("s"))]),
    "pyarrow array": lambda times: pa.array(times, pa.timestamp("us")),
    "pyarrow text": lambda times: pa.chunked_array([[str(one) for one in times]]),
}


@pytest.mark.parametrize("form", sorted(NAIVE))
@given(times=clock_times)
def test_clock_times_of_every_form_agree(form, times):
    found = read_times(NAIVE[form](times))
    np.testing.assert_array_equal(found.values, stamps(times))
    assert not found.absolute


def in_zone(name):
    return lambda times: [one.replace(tzinfo=UTC).astimezone(ZoneInfo(name)) for one in times]


AWARE = {
    "datetime": in_zone("Europe/London"),
    "text +": lambda times: [one.isoformat() for one in in_zone("Asia/Kathmandu")(times)],
    "text Z": lambda times: [f"{one.isoformat()}Z" for one in times],
    "pandas": lambda times: pd.Series(in_zone("America/New_York")(times)),
    "pandas object": lambda times: pd.Series(in_zone("America/New_York")(times), dtype=object),
    "polars": lambda times: pl.Series(in_zone("UTC")(times)).dt.convert_time_zone("Asia/Tokyo"),
    "pyarrow": lambda times: pa.chunked_array(
        [pa.array(in_zone("UTC")(times), pa.timestamp("ms", "Europe/London"))]
    ),
    "seconds": lambda times: [(one - datetime(1970, 1, 1)).total_seconds() for one in times],
    "seconds as text": lambda times: [str(microseconds(one) // 10**6) for one in times],
    "numpy seconds": lambda times: stamps(times) // 10**6,
    "numpy float seconds": lambda times: stamps(times) / 1e6,
    "pandas seconds": lambda times: pd.Series(stamps(times) / 1e6),
    "pandas nullable": lambda times: pd.Series(stamps(times) // 10**6, dtype="Int64"),
    "polars seconds": lambda times: pl.Series(stamps(times) // 10**6),
    "pyarrow seconds": lambda times: pa.chunked_array([stamps(times) // 10**6]),
}


@pytest.mark.parametrize("form", sorted(AWARE))
@given(times=clock_times)
def test_points_in_time_of_every_form_agree(form, times):
    found = read_times(AWARE[form](times))
    np.testing.assert_array_equal(found.values, stamps(times))
    assert found.absolute


@given(clock_times)
def test_dates_are_their_midnights(times):
    days = [one.date() for one in times]
    wanted = stamps([datetime.combine(day, datetime.min.time()) for day in days])
    for column in (days, pl.Series(days), pa.chunked_array([days]), np.array(days, dtype="M8[D]")):
        np.testing.assert_array_equal(read_times(column).values, wanted)


@given(clock_times)
def test_another_form_of_text_is_read_by_its_format(times):
    form = "%d.%m.%Y um %H:%M:%S"
    found = read_times([one.strftime(form) for one in times], time_format=form)
    np.testing.assert_array_equal(found.values, stamps(times))


FIRST = datetime(2024, 3, 4, 7, 30)
MISSING = {
    "list": [FIRST, None],
    "text": ["2024-03-04", ""],
    "blank text": ["2024-03-04", "  "],
    "numpy": np.array([FIRST, "NaT"], dtype="M8[s]"),
    "numpy scalars": [np.datetime64(FIRST), np.datetime64("NaT")],
    "pandas": pd.Series([FIRST, None]),
    "pandas aware": pd.Series([FIRST.replace(tzinfo=UTC), None]),
    "pandas object": pd.Series([FIRST, pd.NaT], dtype=object),
    "polars": pl.Series([FIRST, None]),
    "pyarrow": pa.chunked_array([[FIRST, None]]),
    "seconds": [0, None],
    "numpy seconds": np.array([0, np.nan]),
    "pandas seconds": pd.Series([0, None], dtype="Int64"),
    "polars seconds": pl.Series([0, None]),
    "pyarrow seconds": pa.chunked_array([[0, None]]),
    "nan as text": ["0", "nan"],
}


@pytest.mark.parametrize("form", sorted(MISSING))
def test_a_missing_time_names_its_row(form):
    with pytest.raises(DiaryError) as caught:
        read_times(MISSING[form])
    assert (caught.value.row, caught.value.found) == (1, "no time")


@pytest.mark.parametrize(
    "cells",
    [
        ["2024-03-04", "noon"],
        ["2024-03-04", "04/03/2024"],
        ["2024-03-04", "2024-02-30"],
        ["2024-03-04", 5],
        [FIRST, True],
        [FIRST, "2024-03-04 07:30+01:00"],
        [FIRST, FIRST.replace(tzinfo=UTC)],
        ["2024-03-04T00:00Z", "2024-03-04T00:00"],
        [FIRST, timedelta(1)],
        [0, 1_709_537_400_000],
        [0, float("inf")],
        [0, -1e300],
        np.array([0, 1_709_537_400_000_000_000]),
        pl.Series([0, 1_709_537_400_000]),
    ],
    ids=repr,
)
def test_what_is_no_time_names_its_row(cells):
    with pytest.raises(DiaryError) as caught:
        read_times(cells)
    assert caught.value.row == 1


@pytest.mark.parametrize(
    "column",
    [
        np.arange(3).astype("m8[ns]"),
        np.arange(3).astype("m8[s]"),
        pd.Series([timedelta(1)]),
        pl.Series([timedelta(1)]),
        np.array([True, False]),
        [object()],
        [[]],
    ],
    ids=lambda column: type(column).__name__,
)
def test_durations_and_the_like_are_no_times(column):
    with pytest.raises(DiaryError, match="row 0"):
        read_times(column)


def test_milliseconds_are_recognized():
    with pytest.raises(DiaryError, match="divide milliseconds by 1000"):
        read_times([1_709_537_400_000])


@pytest.mark.parametrize("form", ["%Q", "%d %d", "%", "%d/%m/%Y"])
def test_a_bad_time_format_is_a_clean_error(form):
    with pytest.raises(DiaryError, match="time_format"):
        read_times(["2024-03-04"], time_format=form)


# --- days of a diary ----------------------------------------------------------------------------


@given(
    near_changes,
    st.integers(-3, 2),
    st.sampled_from(["00:00", "04:00", "12:30", "23:59"]),
    st.sampled_from([5, 10, 15]),
)
def test_days_have_the_hours_that_their_clocks_had(zone_and_change, shift, day_start, step):
    zone, change = zone_and_change
    tz = ZoneInfo(zone)
    middle = date.fromisoformat(change[:10])
    days = [middle + timedelta(days=shift + i) for i in range(3)]
    begin = datetime.strptime(day_start, "%H:%M").time()
    edges = [
        datetime.combine(day, begin).replace(tzinfo=tz).astimezone(UTC)
        for day in [*days, days[-1] + timedelta(days=1)]
    ]
    first = edges[0] - timedelta(hours=3)
    n = int((edges[-1] - edges[0]) / MINUTE) // step + 6 * 60 // step
    moments = [first + i * step * MINUTE for i in range(n)]
    diary = [{"date": str(day), "sleep": "50%", "tv": "50%"} for day in days]
    found = diary_bags(
        {"start": np.array(shown(moments, zone), dtype="M8[us]")},
        diary,
        timezone=zone,
        day_start=day_start,
        window=f"{step} min",
    )
    for k, day in enumerate(days):
        hours = (edges[k + 1] - edges[k]) / timedelta(hours=1)
        assert found.hours[str(day)] == pytest.approx(hours)
        assert found.recorded_hours[str(day)] == pytest.approx(hours, abs=step / 60)
    wanted = [
        next(
            (
                str(day)
                for k, day in enumerate(days)
                if edges[k] <= moment + step * MINUTE / 2 < edges[k + 1]
            ),
            None,
        )
        for moment in moments
    ]
    assert found.bags.tolist() == wanted
    odd = any((edges[k + 1] - edges[k]) != timedelta(days=1) for k in range(3))
    assert any("clocks were changed" in note for note in found.notes) == odd


def test_a_fixed_length_is_a_length_of_time_not_of_what_the_clock_shows():
    first = utc("2024-10-27T00:00")
    moments = [first + i * MINUTE for i in range(60)]  # only the first showing of one o'clock
    found = diary_bags(
        {"start": np.array(shown(moments, "Europe/London"), dtype="M8[s]")},
        [{"date": "2024-10-27", "sleep": "25h"}],
        timezone="Europe/London",
        window=60,
    )
    assert found.recorded_hours == {"2024-10-27": pytest.approx(1.0)}
    assert not any("windows last from" in note for note in found.notes)
