"""`apportion label` on days recorded in part, whose diaries speak of the recorded time.

Six people live through a week, and of every day some hours are recorded: about 20,000 windows of a
minute, 200 features of 10 sensors, each of which is silent in half of the half hours. The commands
never read the truth.

    python benchmarks/part_recorded.py
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from pathlib import Path

import numpy as np

from apportion.datasets import make_smart_home
from apportion.datasets.smart_home import ACTIVITIES
from from_files import label, write

SENSORS = ("acc_mean", "acc_std", "acc_peak", "acc_tilt", "light", "pir_bedroom", "pir_kitchen",
           "pir_living", "pir_bathroom", "pir_hall")  # fmt: skip
LIMIT = 120
"""Seconds after which a command is stopped."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--features", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        truth, by_majority = part_recorded(folder, given.seed, given.features)
        print(
            f"{len(truth):,} windows of a minute, {given.features} features; "
            f"bag majority {by_majority:.3f}"
        )
        for words in ("", "--covers recording --excess scale", "--covers period"):
            known = ["--diary", str(folder / "diary.csv"), *words.split()]
            before = processor_seconds()
            answer = label(folder / "windows.csv", known, folder, limit=LIMIT)
            if answer is None:
                print(f"  {words or '(defaults)':<36} no result in {LIMIT} s")
                continue
            right = (answer["label"] == truth).mean()
            unknown = (answer["label"] == "unknown").mean()
            print(
                f"  {words or '(defaults)':<36} right {right:.3f}, unknown {unknown:.3f}, "
                f"{answer['seconds']:.0f} s, {processor_seconds() - before:.0f} s of processor time"
            )


def processor_seconds() -> float:
    """Return the processor time of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def part_recorded(folder: Path, seed: int, n_features: int) -> tuple[np.ndarray, float]:
    """Write windows.csv and diary.csv; return the truth, and how much of it is its bag's majority.

    Of each person's day, 4 to 13 hours are recorded, from a random minute on. A diary has the hours
    of each activity in that time with two decimals, so that the sum is off by seconds.
    """
    home = make_smart_home(7, 6, seed=seed, minutes=1)
    rng = np.random.default_rng(seed)
    who, start = home.windows["participant"], home.windows["start"]
    days = len(who) // 1440
    length = rng.integers(240, 781, days)
    first = rng.integers(0, 1440 - length + 1)
    minute = np.arange(1440)
    kept = ((minute >= first[:, None]) & (minute < (first + length)[:, None])).ravel()
    kept &= ~home.windows["nonwear"]
    day, truth, rows = np.repeat(np.arange(days), 1440)[kept], home.activities[kept], kept.sum()

    spent = np.array([[np.sum(truth[day == k] == a) for a in ACTIVITIES] for k in range(days)])
    lines = [
        [who[1440 * k], start[1440 * k].astype("M8[D]"), *(f"{n / 60:.2f}" for n in spent[k])]
        for k in range(days)
    ]
    write(folder / "diary.csv", ["participant", "date", *ACTIVITIES], lines)

    sensors = np.column_stack([home.windows[name][kept].astype(float) for name in SENSORS])
    sensors = (sensors - np.nanmean(sensors, axis=0)) / np.nanstd(sensors, axis=0)
    sensor = np.arange(n_features) % len(SENSORS)
    X = sensors[:, sensor] + rng.standard_normal((rows, n_features))
    half_hour = np.flatnonzero(kept) // 30
    silent = rng.random((48 * days, len(SENSORS))) < 0.5
    X[silent[half_hour][:, sensor]] = np.nan
    cells = np.where(np.isnan(X), "", X.round(3).astype(str))
    names = [f"{SENSORS[j % len(SENSORS)]}_{j // len(SENSORS)}" for j in range(n_features)]
    table = [[w, s, *row] for w, s, row in zip(who[kept], start[kept], cells.tolist(), strict=True)]
    write(folder / "windows.csv", ["participant", "start", *names], table)
    return truth, spent.max(axis=1).sum() / rows


if __name__ == "__main__":
    main()
