"""From the SPHERE features to rows that distances can be taken between; no label is looked at."""

from __future__ import annotations

import numpy as np

from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.datasets import SphereWindows

_OUT_OF_REACH = -105.0
"""dBm, the weakest signal that was received anywhere: used where a receiver got nothing."""


def standardized(X: FloatArray) -> FloatArray:
    """Return columns of mean 0 and deviation 1 over these rows, clipped at 3 deviations.

    What was not recorded is 0, the mean. Rows of which nothing was recorded would all be equal:
    leave them out. A column without two different values is 0.
    """
    there = ~np.isnan(X)
    count = np.maximum(there.sum(axis=0), 1)
    mean = np.where(there, X, 0.0).sum(axis=0) / count
    centered = np.where(there, X - mean, 0.0)
    deviation = np.sqrt((centered**2).sum(axis=0) / count)
    scaled = np.divide(centered, deviation, out=np.zeros_like(X), where=deviation > 1e-12)
    return np.clip(scaled, -3.0, 3.0)


def motion_recipe(windows: SphereWindows) -> FloatArray:
    """Return the accelerometer's features, standardized."""
    return standardized(windows.X)


def home_signals(windows: SphereWindows) -> FloatArray:
    """Return one value per signal of the baseline features, and what is missing as a value.

    Of the five statistics of every signal the mean is kept, and of the accelerometer the logarithm
    of the deviation too: the others repeat them. Whether a camera sees the person is a column of
    its own. A receiver that gets nothing is as far as the farthest.
    """
    names = np.array(windows.feature_names)
    X = windows.X

    def columns(prefix: str, statistic: str) -> FloatArray:
        mine = np.char.startswith(names, prefix) & np.char.endswith(names, f"_{statistic}")
        return X[:, mine]

    cameras = ("video_living_room", "video_kitchen", "video_hallway")
    seen = [~np.isnan(columns(camera, "mean")).all(axis=1) for camera in cameras]
    return np.column_stack(
        [
            columns("acceleration", "mean"),
            np.log(columns("acceleration", "std") + 0.005),
            np.nan_to_num(columns("rssi", "mean"), nan=_OUT_OF_REACH),
            columns("pir", "mean"),
            columns("video", "mean"),
            *seen,
        ]
    )


def mean_around(values: FloatArray, participant: AnyArray, seconds: int) -> FloatArray:
    """Return the mean over some seconds before and after every second of a recording.

    Rows of a participant are consecutive seconds. What was not recorded is left out; where nothing
    was, the mean is NaN.
    """
    first, last = _reach(participant, seconds)
    there = ~np.isnan(values)
    start = np.zeros((1, values.shape[1]))
    sums = np.vstack([start, np.cumsum(np.where(there, values, 0.0), axis=0)])
    counts = np.vstack([start, np.cumsum(there, axis=0)])
    count = counts[last + 1] - counts[first]
    nothing = np.full_like(values, np.nan)
    return np.divide(sums[last + 1] - sums[first], count, out=nothing, where=count > 0)


def _reach(participant: AnyArray, seconds: int) -> tuple[IntArray, IntArray]:
    """Return the first and the last row within some seconds of each row of a recording."""
    place = np.arange(len(participant))
    change = np.flatnonzero(np.append(True, participant[1:] != participant[:-1]))
    recording = np.searchsorted(change, place, side="right") - 1
    ends = np.append(change[1:], len(participant)) - 1
    first = np.maximum(place - seconds, change[recording])
    return first, np.minimum(place + seconds, ends[recording])


def day_recipe(windows: SphereWindows) -> FloatArray:
    """Return the annotated windows' home signals and their means over ±5 s, standardized."""
    signals = home_signals(windows)
    around = mean_around(signals, windows.participant, 5)
    annotated = ~np.isnan(windows.shares).any(axis=1)
    return standardized(np.hstack([signals, around])[annotated])


def home_recipe(windows: SphereWindows) -> FloatArray:
    """Return the baseline features as `home_signals`, standardized."""
    return standardized(home_signals(windows))
