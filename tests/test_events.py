"""Events of sensors to windows: as a slow count of seconds has it, and ready to be labeled."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apportion.exceptions import DiaryError
from apportion.supervision.diary import windows_of_events
from command_line import cells_of, done, refused, table, write

FIRST = datetime(2024, 3, 4)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def slow_windows(events, every):
    """Return what sensors did in windows, second by second.

    Keys are participant, window and sensor; values are the seconds a sensor was on, and how many
    of its events began. Open events are closed first.
    """
    people = {who for who, *_ in events}
    latest = {
        who: max(
            max(start, start if end is None else end) for w, start, end, _ in events if w == who
        )
        for who in people
    }
    on, counts, reach = {}, {}, {}
    for k, (who, start, end, sensor) in enumerate(events):
        if end is None:
            later = [
                (s, j) for j, (w, s, _, x) in enumerate(events)
                if (w, x) == (who, sensor) and (s, j) > (start, k)
            ]  # fmt: skip
            end = min(later)[0] if later else latest[who]
        for second in range(start, end):
            on.setdefault((who, second // every, sensor), set()).add(second)
        key = (who, start // every, sensor)
        counts[key] = counts.get(key, 0) + 1
        low, high = reach.get(who, (start // every, 0))
        reach[who] = min(low, start // every), max(high, start // every, -(-end // every) - 1)
    return on, counts, reach


EVENT = st.tuples(
    st.sampled_from(["p", "q"]), st.integers(0, 40), st.none() | st.integers(0, 30),
    st.sampled_from(["door", "tap"]),
)  # fmt: skip
NESTED = [("p", 0, 30, "tap"), ("p", 5, 1, "tap"), ("p", 7, 2, "tap"), ("p", 8, None, "tap")]


@example(NESTED, 10)
@given(st.lists(EVENT, min_size=1, max_size=12), st.sampled_from([1, 7, 10, 60]))
def test_windows_are_those_of_a_slow_count(drawn, every):
    events = [(w, s, None if d is None else s + d, x) for w, s, d, x in drawn]
    shown = {
        "participant": [w for w, *_ in events],
        "start": [FIRST + timedelta(seconds=s) for _, s, *_ in events],
        "end": [None if e is None else FIRST + timedelta(seconds=e) for _, _, e, _ in events],
        "sensor": [x for *_, x in events],
    }
    found = windows_of_events(shown, every)
    if all(e is None for _, _, e, _ in events):
        assert found.seconds is None
        events = [(w, s, s, x) for w, s, _, x in events]
    # Multiples of 7 s after midnight are counted from 1970, so that the oracle is shifted.
    origin = int((FIRST - datetime(1970, 1, 1)).total_seconds()) % every
    moved = [(w, s + origin, None if e is None else e + origin, x) for w, s, e, x in events]
    on, counts, reach = slow_windows(moved, every)
    begin = found.starts // 1_000_000 - int((FIRST - datetime(1970, 1, 1)).total_seconds())
    window = (begin + origin) // every
    keys = set(zip(found.participants.tolist(), window.tolist(), strict=True))
    assert keys == {(who, k) for who, (a, b) in reach.items() for k in range(a, b + 1)}
    assert len(keys) == len(window)
    for row, (who, k) in enumerate(zip(found.participants, window.tolist(), strict=True)):
        for column, sensor in enumerate(found.sensors):
            assert found.counts[row, column] == counts.get((who, k, sensor), 0)
            if found.seconds is not None:
                assert found.seconds[row, column] == len(on.get((who, k, sensor), ()))


def home_events(days=2, seed=0):
    """Return a bed at night and a tap by day, events as CSV columns."""
    generator = np.random.default_rng(seed)
    start, end, sensor = [], [], []
    for day in range(days):
        midnight = FIRST + timedelta(days=day)
        night = 8 - 2 * (day % 2)
        start.append(midnight + timedelta(minutes=1))
        end.append(midnight + timedelta(hours=night))
        sensor.append("bed")
        for hour in range(night, 24):
            begin = midnight + timedelta(hours=hour, minutes=int(generator.integers(5, 25)))
            start.append(begin)
            end.append(begin + timedelta(minutes=int(generator.integers(20, 35))))
            sensor.append("tap")
    return {"start": start, "end": end, "sensor": sensor}


def write_events(form=datetime.isoformat, **more):
    events = home_events()
    for name in ("start", "end"):
        events[name] = [form(one) for one in events[name]]
    write("events.csv", table(**events, **more))


def test_windows_of_events_can_be_labeled():
    write_events()
    done("windows", "events.csv", "--every", "30min", "-o", "windows.csv")
    rows = cells_of(Path("windows.csv").read_text())
    names = ["start", "end", "bed_seconds", "bed_events", "tap_seconds", "tap_events"]
    assert list(rows[0]) == names
    assert rows[0]["start"] == "2024-03-04T00:00:00"
    assert (rows[0]["bed_seconds"], rows[0]["bed_events"]) == ("1740", "1")
    assert len(rows) == 96
    write("diary.csv", "date,sleep,out\n2024-03-04,8,16\n2024-03-05,6,18\n")
    words = ("windows.csv", "--diary", "diary.csv", "-o", "labels.csv")
    assert "4 features" in done("label", *words).stderr
    for row in cells_of(Path("labels.csv").read_text()):
        start = datetime.fromisoformat(row["start"])
        night = 8 - 2 * (start.day % 2 == 1)
        assert row["label"] == ("sleep" if start.hour < night else "out")


def test_zones_seconds_and_forms_of_events():
    write_events()
    expected = cells_of(done("windows", "events.csv", "--every", "1h", "-q").stdout)

    def seconds(one):
        return int((one - timedelta(hours=1) - datetime(1970, 1, 1)).total_seconds())

    write_events(seconds)
    zone = ("--timezone", "Europe/Paris")
    answer = cells_of(done("windows", "events.csv", "--every", "1h", *zone, "-q").stdout)
    assert [row["start"] for row in answer] == [f"{row['start']}+01:00" for row in expected]
    assert [row["bed_seconds"] for row in answer] == [row["bed_seconds"] for row in expected]
    utc = cells_of(done("windows", "events.csv", "--every", "1h", "-q").stdout)
    assert utc[0]["start"] == "2024-03-03T23:00:00+00:00"
    write_events(lambda one: one.strftime("%d.%m.%Y %H:%M"))
    form = ("--time-format", "%d.%m.%Y %H:%M")
    assert cells_of(done("windows", "events.csv", "--every", "1h", *form, "-q").stdout) == expected
    done("windows", "events.csv", "--every", "1h", *form, "-o", "w.parquet", "-q")
    assert pq.read_table("w.parquet").column("start").type == pa.timestamp("us")


def test_shares_and_seconds_since_a_recording_began():
    write("events.csv", "start,end,sensor\n0,90,a\n30,40,a\n60,,b\n")
    result = done("windows", "events.csv", "--every", "60s", "--share")
    rows = cells_of(result.stdout)
    assert [(row["start"], row["a_share"], row["b_share"]) for row in rows] == [
        ("0", "1", "0"),
        ("60", "0.5", "0.5"),
    ]
    assert "1 event without an end: each lasts until the next event of its sensor" in result.stderr


def test_events_without_ends_are_counted():
    write("events.csv", "time,sensor\n2024-03-04 07:00,a\n2024-03-04 07:01,a\n2024-03-04 07:06,b\n")
    result = done("windows", "events.csv", "--every", "5min")
    assert [row["a_events"] for row in cells_of(result.stdout)] == ["2", "0"]
    assert "a_seconds" not in result.stdout
    assert "events are counted as moments" in result.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("start,sensor\n", "no row"),
        ("begin,what\n1,2\n", "no column of the sensor"),
        ("sensor,what\n1,2\n", "no column of the start"),
        ("start,sensor\n2024-03-04,a\nsoon,b\n", "events.csv, line 3, column 'start'"),
        ("start,sensor\n2024-03-04,a\n,b\n", "line 3, column 'start': found no time"),
        ("start,sensor\n2024-03-04,a\n2024-03-04,\n", "line 3, column 'sensor'"),
        ("start,end,sensor\n2,1,a\n", "line 2: found an event that ends before it starts"),
        ("start,end,sensor\n1,x,a\n", "line 2, column 'end'"),
        ("start,end,sensor\n2024-03-04,2024-03-05T00:00Z,a\n", "times with a zone"),
        ("start,end,sensor\n0,1e11,a\n", "choose longer windows (--every)"),
    ],
)
def test_events_that_cannot_be_used(text, says):
    write("events.csv", text)
    refused("windows", "events.csv", "--every", "1min", "-o", "w.csv", says=says)


def test_options_of_windows_that_cannot_be_used():
    write_events()
    refused("windows", "events.csv", "--every", "often", says="the length of a window")
    refused("windows", "events.csv", "--every", "0", says="the length of a window")
    words = ("windows", "events.csv", "--every", "1h")
    refused(*words, "-o", "w.xlsx", code=3, says="only .csv and .parquet files can")
    refused(*words, "-o", "events.csv", "--force", code=3, says="is an input of this command")
    refused(*words, "--sensor", "none", says="no column 'none'")
    refused(*words, "--timezone", "Paris", says="Europe/Paris")
    with pytest.raises(DiaryError, match="no column of the sensor"):
        windows_of_events({"start": [FIRST]}, 60)
