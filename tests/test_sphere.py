"""Reading the SPHERE Challenge, from generated folders of the same form."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from apportion.datasets import AMBULATORY_OR_SEDENTARY, FIVE_GROUPS, load_sphere, make_bags
from apportion.datasets.sphere import ACTIVITIES, BASELINE_COLUMNS
from apportion.datasets.sphere_features import (
    motion_features,
    motion_in_context,
    regular_samples,
    room_statistics,
    window_statistics,
)
from sphere_folder import make_sphere_folder


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    return make_sphere_folder(tmp_path_factory.mktemp("with_columns"))


@pytest.fixture(scope="module")
def unshipped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("without_columns")
    return make_sphere_folder(folder, recordings=("00001", "00007"), columns=False, video=True)


def literal_statistics(time, values, n_windows):
    """The same, one window at a time."""
    table = np.full((n_windows, 5), np.nan)
    for k in range(n_windows):
        inside = [v for t, v in zip(time, values, strict=True) if k <= t < k + 1]
        there = [v for v in inside if not math.isnan(v)]
        if len(inside) <= 3 or not there:
            continue
        median = statistics.median(there) if len(there) == len(inside) else np.nan
        spread = statistics.pstdev(there)
        table[k] = statistics.fmean(there), spread, min(there), median, max(there)
    return table


@pytest.mark.parametrize("seed", range(3))
def test_window_statistics_are_those_of_a_loop(seed):
    rng = np.random.default_rng(seed)
    time = np.sort(rng.uniform(-0.5, 12, 90))
    values = np.where(rng.uniform(size=90) < 0.1, np.nan, rng.normal(size=90))
    time[40:50] = 6.0 + np.arange(10) / 10
    values[40:50] = np.nan
    time = np.concatenate([time[time < 3], 3 + np.arange(3) / 4, time[time >= 4]])
    values = np.resize(values, len(time))  # three samples in the fourth second
    np.testing.assert_allclose(
        window_statistics(time, values, 11), literal_statistics(time, values, 11), atol=1e-9
    )


def test_a_detector_is_on_for_every_second_it_touches():
    start, end = np.array([1.5, 3.0, 9.2]), np.array([2.5, 4.0, 99.0])
    rooms = np.array(["hall", "bath", "garden"])
    table = room_statistics(start, end, rooms, ["bath", "hall"], 6)
    assert table.shape == (6, 10)
    assert table[:, 5].tolist() == [0, 1, 1, 0, 0, 0]  # hall, mean
    assert table[:, 0].tolist() == [0, 0, 0, 1, 0, 0]  # bath, mean
    assert not table[:, [1, 6]].any()  # deviations


def test_both_releases_have_the_same_columns(shipped, unshipped):
    with_columns, without = load_sphere(shipped), load_sphere(unshipped)
    assert with_columns.feature_names == without.feature_names == BASELINE_COLUMNS
    assert with_columns.X.shape == without.X.shape == (240, 305)
    assert len(set(BASELINE_COLUMNS)) == 305
    assert 0.4 < np.isnan(with_columns.X).mean() < 0.6


def test_missing_features_are_computed_from_the_signals(unshipped):
    windows = load_sphere(unshipped).take(np.arange(120))
    column = {name: windows.X[:, k] for k, name in enumerate(windows.feature_names)}
    folder = unshipped / "public_data" / "train" / "00001"
    t, x, *_ = np.genfromtxt(folder / "acceleration.csv", delimiter=",", skip_header=1).T
    wanted = literal_statistics(t, x, 120)
    for k, name in enumerate(("mean", "std", "min", "median", "max")):
        np.testing.assert_allclose(column[f"acceleration_x_{name}"], wanted[:, k], atol=1e-9)
    assert np.isnan(wanted[51]).all()  # the gap
    assert set(column["pir_hall_mean"]) <= {0.0, 1.0}


def test_swapped_cameras_are_swapped_back(unshipped):
    """The kitchen's camera sees twice as long; in 00007 its file has the other one's name."""
    windows = load_sphere(unshipped)
    for participant, kitchen in (("00001", "kitchen"), ("00007", "living_room")):
        mine = windows.X[windows.participant == participant]
        seen = {
            camera: (~np.isnan(mine[:, BASELINE_COLUMNS.index(f"video_{camera}_centre_2d_x_mean")]))
            for camera in ("kitchen", "living_room", "hallway")
        }
        assert seen.pop(kitchen).sum() == 8
        assert all(camera.sum() == 4 for camera in seen.values())


def test_windows_keep_participant_time_and_shares(shipped):
    windows = load_sphere(shipped / "public_data")
    assert windows.participant.tolist() == ["00001"] * 120 + ["00002"] * 120
    assert windows.start.tolist() == [*range(120)] * 2
    assert windows.activities == ACTIVITIES
    known = windows.labeled()
    assert len(known.start) == 238
    np.testing.assert_allclose(known.shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(known.grouped(FIVE_GROUPS).sum(axis=1), 1.0)
    assert sorted(name for names in FIVE_GROUPS.values() for name in names) == sorted(ACTIVITIES)


def test_pure_windows_lie_in_one_group(shipped):
    windows = load_sphere(shipped / "public_data" / "train")
    pure, group = windows.pure(AMBULATORY_OR_SEDENTARY)
    shares = pure.grouped(AMBULATORY_OR_SEDENTARY)
    np.testing.assert_allclose(shares[np.arange(len(group)), (group == "sedentary").astype(int)], 1)
    assert not ((pure.start == 3) | (pure.start == 15)).any()  # unannotated, and of two minds


def test_annotators_shares_are_masses_of_bags(shipped):
    windows = load_sphere(shipped).labeled()
    shares = windows.grouped(FIVE_GROUPS)
    bags, totals = make_bags(
        None,
        shares,
        strategy="time",
        time=windows.start,
        period=60,
        groups=windows.participant,
        classes=list(FIVE_GROUPS),
    )
    assert len(totals.ids) == 4
    first = shares[bags == 0].sum(axis=0)
    order = np.argsort(list(FIVE_GROUPS))
    np.testing.assert_allclose(59 * totals.lower[0], first[order])
    assert (first % 1 == 0.25).any()


@pytest.mark.parametrize("context", [0, 2])
def test_walking_moves_more_than_sitting(shipped, context):
    windows, group = load_sphere(shipped, "raw", context=context).pure(AMBULATORY_OR_SEDENTARY)
    there = ~np.isnan(windows.X).any(axis=1)
    name = "mean_of_log_std_x" if context else "log_std"
    moving = windows.X[there, windows.feature_names.index(name)]
    walking = group[there] == "ambulatory"
    assert np.median(moving[walking]) > np.median(moving[~walking]) + 0.5


def test_gaps_of_the_signal_are_nan():
    time = np.concatenate([np.arange(0, 2, 0.05), np.arange(5, 8, 0.05)])
    samples = regular_samples(time, np.ones((len(time), 3)), 8)
    assert samples.shape == (8, 20, 3)
    lost = np.isnan(samples).all(axis=(1, 2))
    assert lost.tolist() == [False, False, True, True, True, False, False, False]
    assert np.isnan(motion_features(samples)[1][2]).all()
    assert not np.isnan(motion_features(samples)[1][0]).any()
    assert np.isnan(regular_samples(np.array([1.0]), np.ones((1, 3)), 2)).all()


def test_steps_are_regular_and_noise_is_not():
    time = np.arange(0, 20, 0.05)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(len(time), 3))
    steps = np.array([0, 0, 1.0]) + 0.3 * np.sin(2 * np.pi * 1.8 * time)[:, None]
    regular = motion_in_context(regular_samples(time, steps, 20), 5)[1][:, -1]
    irregular = motion_in_context(regular_samples(time, noise, 20), 5)[1][:, -1]
    assert np.nanmin(regular) > 0.8
    assert np.nanmax(irregular) < 0.4


def test_errors_say_where_to_get_the_data(tmp_path, shipped):
    with pytest.raises(FileNotFoundError, match=r"No recording was found in .*data\.bris\.ac\.uk"):
        load_sphere(tmp_path)
    with pytest.raises(ValueError, match="must be 'baseline' or 'raw'"):
        load_sphere(shipped, "video")
    with pytest.raises(ValueError, match="0 with the setting 'baseline'"):
        load_sphere(shipped, context=3)
    with pytest.raises(ValueError, match="whole number of seconds"):
        load_sphere(shipped, "raw", context=1.5)
    windows = load_sphere(shipped)
    with pytest.raises(ValueError, match="no activity 'sit'"):
        windows.pure({"sitting": ("sit",)})
    with pytest.raises(ValueError, match="'p_sit' is in two groups"):
        windows.pure({"sitting": ("p_sit",), "low": ("p_sit", "p_lie")})
    half = make_sphere_folder(tmp_path / "half", recordings=("00001",), columns=False)
    (half / "public_data" / "train" / "00001" / "pir.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"pir\.csv is missing"):
        load_sphere(half)
    assert load_sphere(half, "raw").X.shape == (120, 7)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("targets.csv", "5.0,6.0,0.0,0.0", "5.0,6.0,0.7,0.0", "line 7: found shares .* sum to 1.7"),
        ("targets.csv", "\n7.0,8.0", "\n77.0,78.0", "do not start at 0, 1, 2"),
        (
            "acceleration.csv",
            "t,x,y,z",
            "t,x,y,zz",
            r"acceleration.csv: found a table that",
        ),
        (
            "acceleration.csv",
            "\n0.",
            "\nzero.",
            r"acceleration.csv: found a table that",
        ),
    ],
)
def test_broken_files_are_named(tmp_path, file, old, new, message):
    root = make_sphere_folder(tmp_path, recordings=("00001",), columns=False)
    path = root / "public_data" / "train" / "00001" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        load_sphere(root, "raw")
