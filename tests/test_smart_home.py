"""The made-up smart home: its windows, its diaries, and the gaps in them."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest

from apportion.datasets import make_smart_home
from apportion.datasets.smart_home import ACTIVITIES, ROOMS

ACCELERATION = ["acc_mean", "acc_std", "acc_peak", "acc_tilt"]
COLUMNS = [
    *("window", "participant", "start", "end"),
    *ACCELERATION,
    *(f"pir_{room}" for room in ROOMS),
    *("light", "hour", "nonwear"),
]


@pytest.fixture(scope="module")
def home():
    return make_smart_home()


@pytest.fixture(scope="module")
def many_diaries():
    """Homes whose windows are short enough to count minutes with."""
    return [make_smart_home(7, 6, seed=seed) for seed in range(4)]


def minutes_in(text):
    """Return the minutes of 8h30, 08:30, 8.5 or nothing."""
    if not text:
        return 0
    if found := re.fullmatch(r"(\d+)[h:](\d\d)", text):
        return 60 * int(found[1]) + int(found[2])
    return round(60 * float(text))


def days_of(windows):
    """Return each window's date, as text."""
    return np.datetime_as_string(windows["start"], unit="D")


def minutes_spent(home, participant, date):
    """Count the minutes of each activity on a day; windows are a minute long."""
    same_day = home.windows["start"].astype("M8[D]") == np.datetime64(date)
    here = same_day & (home.windows["participant"] == participant)
    assert here.sum() == 1440
    return {name: int((home.activities[here] == name).sum()) for name in ACTIVITIES}


def assert_same_columns(found, wanted):
    assert list(found) == list(wanted)
    for name in wanted:
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)


def test_every_window_has_every_column(home):
    windows = home.windows
    assert list(windows) == COLUMNS
    n_windows = 3 * 7 * 24 * 60
    for values in (*windows.values(), home.activities, home.reported):
        assert values.shape == (n_windows,)
    assert windows["start"].dtype == windows["end"].dtype == np.dtype("M8[s]")
    assert windows["nonwear"].dtype == bool
    assert len(np.unique(windows["window"])) == n_windows
    assert windows["window"][42] == "p1-00042"
    assert set(home.activities) == set(ACTIVITIES)
    for room in ROOMS:
        assert windows[f"pir_{room}"].dtype.kind == "i"
        assert windows[f"pir_{room}"].min() == 0 < windows[f"pir_{room}"].max()
    midnight = windows["start"].astype("M8[D]")
    hour = (windows["start"] - midnight) / np.timedelta64(1, "h")
    np.testing.assert_allclose(windows["hour"], hour, atol=1e-4)


@pytest.mark.parametrize("minutes", [1, 5, 60])
def test_windows_follow_each_other_from_monday_to_sunday(minutes):
    windows = make_smart_home(minutes=minutes).windows
    for participant in ("p1", "p2", "p3"):
        mine = windows["participant"] == participant
        start, end = windows["start"][mine], windows["end"][mine]
        assert start[0] == np.datetime64("2024-03-04T00:00:00")
        assert end[-1] == np.datetime64("2024-03-11T00:00:00")
        assert (start[1:] == end[:-1]).all()
        assert (end - start == np.timedelta64(minutes, "m")).all()
        assert all(window.startswith(f"{participant}-") for window in windows["window"][mine])


def test_the_same_seed_gives_the_same_home_and_another_does_not(home):
    again, other = make_smart_home(), make_smart_home(seed=1)
    assert_same_columns(again.windows, home.windows)
    np.testing.assert_array_equal(again.activities, home.activities)
    np.testing.assert_array_equal(again.reported, home.reported)
    assert again.diary == home.diary
    assert (other.activities != home.activities).any()
    assert other.diary != home.diary


@pytest.mark.parametrize(("days", "participants"), [(1, 1), (2, 3), (3, 2), (7, 1), (10, 4)])
def test_more_days_and_people_leave_the_first_ones_alone(home, days, participants):
    one, other = home, make_smart_home(days, participants)
    people = [f"p{k + 1}" for k in range(min(3, participants))]
    dates = set(days_of(home.windows)[: 1440 * min(7, days)])

    def common(some):
        kept = np.isin(some.windows["participant"], people)
        return kept & np.isin(days_of(some.windows), list(dates))

    assert common(one).sum() == 1440 * len(people) * len(dates)
    assert_same_columns(
        {name: values[common(other)] for name, values in other.windows.items()},
        {name: values[common(one)] for name, values in one.windows.items()},
    )
    np.testing.assert_array_equal(other.activities[common(other)], one.activities[common(one)])
    np.testing.assert_array_equal(other.reported[common(other)], one.reported[common(one)])
    lines = [
        [row for row in some.diary if row["participant"] in people and row["date"] in dates]
        for some in (one, other)
    ]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("minutes", [5, 15, 60])
def test_longer_windows_are_of_the_same_days(home, minutes):
    """A window has the activity and the band of its middle minute; diaries stay as they are."""
    longer = make_smart_home(minutes=minutes)
    assert longer.diary == home.diary
    middle = slice(minutes // 2, None, minutes)
    np.testing.assert_array_equal(longer.activities, home.activities[middle])
    np.testing.assert_array_equal(longer.windows["nonwear"], home.windows["nonwear"][middle])
    fired = [sum(some.windows[f"pir_{room}"].sum() for room in ROOMS) for some in (home, longer)]
    assert fired[1] == pytest.approx(fired[0], rel=0.1)


def test_a_line_tells_the_day_but_for_its_rounding(many_diaries):
    """A cell is off by half a step at most; the longest of a full day may be shorter."""
    lost = shortened = 0
    for home in many_diaries:
        for row in home.diary:
            number = int(row["participant"][1:])
            step = 30 if number % 2 else 15
            names = [name for name in ACTIVITIES if number != 2 or name != "sleep"]
            told = np.array([minutes_in(row[name]) for name in names])
            spent = minutes_spent(home, row["participant"], row["date"])
            spent = np.array([spent[name] for name in names])
            assert (told % step == 0).all()
            (off,) = np.nonzero(np.abs(told - spent) > step / 2)
            if off.size:
                assert told.sum() == 1440
                assert off.size == 1
                assert told[off] < spent[off]
                assert spent[off] >= spent.max() - step
            lost += ((told == 0) & (spent > 0)).sum()
            shortened += off.size
    assert lost > 0
    assert shortened > 0


def test_no_day_has_more_than_24_hours(many_diaries):
    for home in many_diaries:
        for row in home.diary:
            assert sum(minutes_in(row[name]) for name in ACTIVITIES) <= 1440


def test_everybody_spells_durations_in_their_own_way(many_diaries):
    spellings = [r"\d+\.?\d*", r"\d+h\d\d", r"\d\d:\d\d"]
    for home in many_diaries:
        for row in home.diary:
            assert list(row) == ["participant", "date", *ACTIVITIES]
            spelling = spellings[int(row["participant"][1:]) % 3]
            for name in ACTIVITIES:
                assert row[name] == "" or re.fullmatch(spelling, row[name])
                assert row[name] == "" or minutes_in(row[name]) > 0


@pytest.mark.parametrize("participants", [1, 2, 5])
@pytest.mark.parametrize("days", [1, 2, 3, 8])
def test_one_day_is_forgotten_when_there_are_enough(days, participants):
    home = make_smart_home(days, participants, minutes=60)
    lines = [(row["participant"], row["date"]) for row in home.diary]
    mine = zip(home.windows["participant"].tolist(), days_of(home.windows).tolist(), strict=True)
    without_line = set(mine) - set(lines)
    assert without_line == ({("p1", "2024-03-06")} if days > 2 else set())
    assert len(set(lines)) == len(lines)


def test_a_forgotten_day_keeps_its_activities(home):
    forgotten = (home.windows["participant"] == "p1") & (days_of(home.windows) == "2024-03-06")
    assert forgotten.sum() == 1440
    np.testing.assert_array_equal(home.reported[forgotten], home.activities[forgotten])


def test_one_diary_never_covers_the_night(home):
    for row in home.diary:
        assert (row["sleep"] == "") == (row["participant"] == "p2")
    night = (home.windows["participant"] == "p2") & (home.activities == "sleep")
    assert 0.2 < night.sum() / (7 * 1440) < 0.5
    assert (home.reported[night] == "unknown").all()
    np.testing.assert_array_equal(home.reported[~night], home.activities[~night])
    alone = make_smart_home(participants=1)
    np.testing.assert_array_equal(alone.reported, alone.activities)


def test_the_band_is_off_for_a_while_and_then_lies_still(home):
    windows, off = home.windows, home.windows["nonwear"]
    assert 0.005 < off.mean() < 0.05
    assert set(home.activities[off]) <= {"hygiene", "desk", "tv"}
    spread = windows["acc_std"]
    assert np.nanmax(spread[off]) < np.nanmin(spread[~off])
    for participant in ("p1", "p2", "p3"):
        mine = off & (windows["participant"] == participant)
        assert set(days_of(windows)[mine]) == set(days_of(windows))
        for name in ("acc_mean", "acc_tilt"):
            flat = windows[name][mine]
            assert np.unique(flat[~np.isnan(flat)]).size == 1


def test_only_accelerometer_cells_are_lost_and_few_of_them(home):
    for name, values in home.windows.items():
        if name in ACCELERATION:
            assert 0.005 < np.isnan(values).mean() < 0.02
        elif values.dtype.kind == "f":
            assert not np.isnan(values).any()


def test_sensors_see_what_is_done(home):
    """Rooms light up where an activity is at home, walks move the wrist most, nights are dark."""
    windows, done = home.windows, home.activities

    def mean(name, activity):
        return np.nanmean(windows[name][(done == activity) & ~windows["nonwear"]])

    for room, activities in {
        "bedroom": {"sleep"},
        "bathroom": {"hygiene"},
        "kitchen": {"meals", "housework"},
        "living": {"desk", "tv"},
    }.items():
        for activity in activities:
            rates = {other: mean(f"pir_{other}", activity) for other in ROOMS}
            assert max(rates, key=rates.get) == room
    assert max(ACTIVITIES, key=lambda name: mean("acc_mean", name)) == "walk"
    for name in ("acc_mean", "light"):
        assert min(ACTIVITIES, key=lambda activity, name=name: mean(name, activity)) == "sleep"
    assert mean("light", "tv") < mean("light", "desk")


def test_weekends_begin_later():
    homes = [make_smart_home(seed=seed, participants=2) for seed in range(5)]
    risen = [
        (home.activities.reshape(-1, 1440) == "sleep").argmin(axis=1).reshape(-1, 7)
        for home in homes
    ]
    risen = np.concatenate(risen)
    assert risen[:, 5:].mean() > risen[:, :5].mean() + 30
    assert np.unique(risen).size > 30


def test_files_hold_what_the_home_holds(home, tmp_path):
    folder = tmp_path / "new" / "home"
    files = home.write(folder)
    assert files == (folder / "windows.csv", folder / "diary.csv", folder / "truth.csv")
    windows, diary, truth = (read(path) for path in files)
    for name, values in home.windows.items():
        cells = np.array([row[name] for row in windows])
        if values.dtype.kind == "f":
            np.testing.assert_array_equal(cells == "", np.isnan(values))
            found = np.array([float(cell) if cell else np.nan for cell in cells])
            np.testing.assert_array_equal(found, values)
        elif values.dtype.kind == "b":
            np.testing.assert_array_equal(cells, np.where(values, "true", "false"))
        else:
            np.testing.assert_array_equal(cells.astype(values.dtype), values)
    assert windows[0]["end"] == "2024-03-04T00:01:00"
    assert diary == home.diary
    assert [row["window"] for row in truth] == home.windows["window"].tolist()
    assert [row["activity"] for row in truth] == home.activities.tolist()


def test_writing_again_replaces_and_leaves_nothing_else(tmp_path):
    first, second = make_smart_home(1, 1, minutes=60), make_smart_home(1, 1, seed=1, minutes=60)
    before = [path.read_bytes() for path in first.write(tmp_path)]
    files = second.write(str(tmp_path), force=True)
    assert all(path.read_bytes() != old for path, old in zip(files, before, strict=True))
    assert sorted(tmp_path.iterdir()) == sorted(files)


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", ["days", "participants", "minutes"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "2", None, True])
def test_numbers_that_are_none_are_refused(name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of make_smart_home must be .* Got"):
        make_smart_home(**{name: value})


@pytest.mark.parametrize("minutes", [7, 25, 45, 120])
def test_windows_must_divide_an_hour(minutes):
    with pytest.raises(ValueError, match=f"divisor of 60, such as 1, 5 or 15. Got {minutes}"):
        make_smart_home(minutes=minutes)


def test_seeds_are_whole_numbers_from_0_on():
    with pytest.raises(ValueError, match=r"'seed' parameter of make_smart_home .* Got -1"):
        make_smart_home(seed=-1)


SWITCHES = ["door_front", "door_fridge", "stove", "water", "tv_on", "computer_on"]


@pytest.fixture(scope="module")
def switches():
    return make_smart_home(7, 2, minutes=5, sensors="on/off")


def test_on_off_sensors_alone_see_the_same_days(switches):
    everything = make_smart_home(7, 2, minutes=5)
    np.testing.assert_array_equal(switches.activities, everything.activities)
    np.testing.assert_array_equal(switches.reported, everything.reported)
    assert switches.diary == everything.diary
    motion = [f"motion_{room}" for room in ROOMS]
    assert list(switches.windows) == [*COLUMNS[:4], *motion, *SWITCHES]
    for name in COLUMNS[:4]:
        np.testing.assert_array_equal(switches.windows[name], everything.windows[name])
    for name in (*motion, *SWITCHES):
        on = switches.windows[name]
        assert on.dtype == bool
        assert 0 < on.mean() < 1


def test_on_off_sensors_make_few_distinct_windows(switches):
    rows = np.column_stack([switches.windows[name] for name in list(switches.windows)[4:]])
    assert len(np.unique(rows, axis=0)) < 0.1 * len(rows)


def test_on_off_sensors_see_what_is_done(switches):
    windows, done = switches.windows, switches.activities
    for name, activity in {
        "motion_bathroom": "hygiene",
        "water": "hygiene",
        "stove": "meals",
        "tv_on": "tv",
        "computer_on": "desk",
        "door_front": "walk",
    }.items():
        on = {other: windows[name][done == other].mean() for other in ACTIVITIES}
        assert max(on, key=on.get) == activity


def test_more_people_and_days_leave_on_off_windows_as_they_are(switches):
    fewer = make_smart_home(3, 1, minutes=5, sensors="on/off")
    for name, values in fewer.windows.items():
        np.testing.assert_array_equal(values, switches.windows[name][: len(values)])


def test_on_off_windows_are_written(tmp_path):
    home = make_smart_home(1, 1, minutes=60, sensors="on/off")
    rows = read(home.write(tmp_path).windows)
    assert [row["tv_on"] == "true" for row in rows] == home.windows["tv_on"].tolist()


@pytest.mark.parametrize("sensors", ["on", "On/Off", None, 1, True])
def test_other_sensors_are_refused(sensors):
    with pytest.raises(ValueError, match=r"'sensors' parameter .* 'all' or 'on/off'. Got"):
        make_smart_home(1, 1, sensors=sensors)
