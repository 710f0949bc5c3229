"""Features of one-second windows, computed from the signals of the SPHERE Challenge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apportion._utils.typing import AnyArray, FloatArray, IntArray

STATISTICS = ("mean", "std", "min", "median", "max")
RATE = 20
"""Samples a second of the wrist accelerometer."""


def window_statistics(time: FloatArray, values: FloatArray, n_windows: int) -> FloatArray:
    """Return mean, deviation, minimum, median and maximum of a signal in every second.

    Window k is [k, k + 1). As in the published columns, three samples or fewer give blanks, the
    deviation divides by the number of samples, and lost samples (NaN) are left out of all but the
    median, which they make blank.

    Parameters
    ----------
    time : ndarray of shape (n_samples,)
        Seconds.
    values : ndarray of shape (n_samples,)
        The signal; NaN = lost.
    n_windows : int
        The number of seconds.

    Returns
    -------
    ndarray of shape (n_windows, 5)

    Examples
    --------
    >>> import numpy as np
    >>> window_statistics(np.arange(8) / 8, np.arange(8.0), 2).round(3)
    array([[3.5  , 2.291, 0.   , 3.5  , 7.   ],
           [  nan,   nan,   nan,   nan,   nan]])
    """
    window = np.floor(time).astype(np.intp)
    inside = (window >= 0) & (window < n_windows)
    window, values = window[inside], values[inside]
    sampled = np.bincount(window, minlength=n_windows)
    there = ~np.isnan(values)
    order = np.lexsort((values[there], window[there]))
    ordered, owner = values[there][order], window[there][order]
    count = np.bincount(owner, minlength=n_windows)
    table = np.full((n_windows, len(STATISTICS)), np.nan)
    filled = np.flatnonzero(count)
    n, last = count[filled], np.cumsum(count)[filled] - 1
    first = last - n + 1
    mean = np.bincount(owner, ordered, n_windows)[filled] / n
    centered = ordered - np.repeat(mean, n)
    table[filled, 0] = mean
    table[filled, 1] = np.sqrt(np.bincount(owner, centered**2, n_windows)[filled] / n)
    table[filled, 2] = ordered[first]
    table[filled, 3] = (ordered[first + (n - 1) // 2] + ordered[first + n // 2]) / 2
    table[filled, 4] = ordered[last]
    table[sampled <= 3] = np.nan
    table[count < sampled, STATISTICS.index("median")] = np.nan
    return table


def room_statistics(
    start: FloatArray, end: FloatArray, room: AnyArray, rooms: Sequence[str], n_windows: int
) -> FloatArray:
    """Return the five statistics of each room's motion detector, on for every second it touched.

    Returns
    -------
    ndarray of shape (n_windows, 5 × n_rooms)

    Examples
    --------
    >>> import numpy as np
    >>> room_statistics(np.array([1.5]), np.array([2.5]), np.array(["hall"]), ["hall"], 4)[:, 0]
    array([0., 1., 1., 0.])
    """
    known = np.isin(room, list(rooms))
    column = np.array([rooms.index(name) for name in room[known]], dtype=np.intp)
    change = np.zeros((n_windows + 1, len(rooms)))
    first = np.clip(np.floor(start[known]), 0, n_windows).astype(np.intp)
    past = np.clip(np.ceil(end[known]), 0, n_windows).astype(np.intp)
    np.add.at(change, (first, column), 1.0)
    np.add.at(change, (past, column), -1.0)
    on = (np.cumsum(change[:-1], axis=0) > 0).astype(np.float64)
    table = np.repeat(on[:, :, None], len(STATISTICS), axis=2)
    table[:, :, STATISTICS.index("std")] = 0.0
    return table.reshape(n_windows, -1)


def regular_samples(time: FloatArray, signal: FloatArray, n_windows: int) -> FloatArray:
    """Return a signal interpolated at 20 equal steps of every second; NaN across gaps of ½ s.

    Parameters
    ----------
    time : ndarray of shape (n_samples,)
        Seconds, ascending.
    signal : ndarray of shape (n_samples, n_axes)
    n_windows : int

    Returns
    -------
    ndarray of shape (n_windows, 20, n_axes)
    """
    whole = ~np.isnan(signal).any(axis=1)
    time, signal = time[whole], signal[whole]
    grid = (np.arange(n_windows * RATE) + 0.5) / RATE
    if len(time) < 2:
        return np.full((n_windows, RATE, signal.shape[1]), np.nan)
    samples = np.column_stack([np.interp(grid, time, axis) for axis in signal.T])
    after: IntArray = np.clip(np.searchsorted(time, grid), 1, len(time) - 1)
    samples[time[after] - time[after - 1] > 0.5] = np.nan
    samples[(grid < time[0] - 0.5) | (grid > time[-1] + 0.5)] = np.nan
    return samples.reshape(n_windows, RATE, -1)


def motion_features(samples: FloatArray) -> tuple[tuple[str, ...], FloatArray]:
    """Return how the magnitude of the acceleration moves within every second.

    Its mean, and on a logarithmic scale its deviation, that of its differences (jerk), and its
    power in four bands of frequency.

    Parameters
    ----------
    samples : ndarray of shape (n_windows, 20, 3)
        The signal in g at 20 Hz; NaN = lost. A window with fewer than ten samples is NaN
        throughout.

    Returns
    -------
    names : tuple of str
    features : ndarray of shape (n_windows, 7)
    """
    magnitude = np.linalg.norm(samples, axis=2)
    mean, deviation = _mean_and_std(magnitude)
    jerk = _mean_and_std(np.diff(magnitude, axis=1))[1]
    swing = np.nan_to_num(magnitude - mean[:, None]) * np.hanning(RATE + 2)[1:-1]
    power = np.abs(np.fft.rfft(swing, axis=1)) ** 2
    bands = [power[:, low:high].sum(axis=1) for low, high in ((1, 2), (2, 4), (4, 7), (7, 11))]
    features = np.column_stack(
        [mean, _log(deviation), _log(jerk), *(np.log(band + 1e-3) for band in bands)]
    )
    features[(~np.isnan(magnitude)).sum(axis=1) < RATE // 2] = np.nan
    names = ("mean", "log_std", "log_jerk", *(f"log_power_{band}" for band in _BANDS))
    return names, features


def motion_in_context(samples: FloatArray, seconds: int) -> tuple[tuple[str, ...], FloatArray]:
    """Return how the acceleration moves within some seconds before and after every second.

    Mean and deviation, over these seconds, of the logarithm of each axis's deviation within a
    second; and how regular the movement is: the largest autocorrelation of the magnitude at a lag
    of 0.35 to 1.2 seconds, which walking makes large.

    Parameters
    ----------
    samples : ndarray of shape (n_windows, 20, 3)
        One recording.
    seconds : int
        How many before, and how many after.

    Returns
    -------
    names : tuple of str
    features : ndarray of shape (n_windows, 7)
    """
    moving = _log(_mean_and_std(samples)[1])
    moving[(~np.isnan(samples).any(axis=2)).sum(axis=1) < RATE // 2] = np.nan
    around = _around(moving, seconds)
    mean, deviation = _mean_and_std(np.moveaxis(around, -1, 1))
    magnitude = _around(np.linalg.norm(samples, axis=2), seconds)
    long_windows = np.moveaxis(magnitude, -1, 1).reshape(len(samples), -1)
    names = (
        *(f"mean_of_log_std_{axis}" for axis in "xyz"),
        *(f"std_of_log_std_{axis}" for axis in "xyz"),
        "regularity",
    )
    return names, np.column_stack([mean, deviation, _regularity(long_windows)])


_BANDS = ("1_hz", "2_3_hz", "4_6_hz", "7_10_hz")
_STEPS = range(7, 25)
"""Lags of 0.35 to 1.2 seconds, in samples."""


def _mean_and_std(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and deviation along the second axis, lost values left out; NaN of nothing."""
    there = ~np.isnan(values)
    count = np.maximum(there.sum(axis=1), 1)
    mean = np.where(there, values, 0.0).sum(axis=1) / count
    centered = np.where(there, values - np.expand_dims(mean, 1), 0.0)
    deviation = np.sqrt((centered**2).sum(axis=1) / count)
    nothing = ~there.any(axis=1)
    return np.where(nothing, np.nan, mean), np.where(nothing, np.nan, deviation)


def _around(values: FloatArray, seconds: int) -> FloatArray:
    """Return, with one axis more, the values of the seconds around each; NaN beyond the ends."""
    ends = ((seconds, seconds), *(((0, 0),) * (values.ndim - 1)))
    padded = np.pad(values, ends, constant_values=np.nan)
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * seconds + 1, axis=0)


def _regularity(signal: FloatArray) -> FloatArray:
    """Return the largest autocorrelation at the lags of a step; NaN where half is lost."""
    mean, deviation = _mean_and_std(signal)
    there = ~np.isnan(signal)
    swing = np.where(there, signal - mean[:, None], 0.0)
    correlations = [
        (swing[:, lag:] * swing[:, :-lag]).sum(axis=1)
        / np.maximum((there[:, lag:] & there[:, :-lag]).sum(axis=1), 1)
        for lag in _STEPS
    ]
    largest = np.max(correlations, axis=0) / (deviation**2 + 1e-4)
    return np.where(2 * there.sum(axis=1) < signal.shape[1], np.nan, largest)


def _log(values: FloatArray) -> FloatArray:
    return np.asarray(np.log(values + 0.01))
