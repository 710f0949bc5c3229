"""Reading the SPHERE Challenge: people in a smart home, second by second."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from apportion._utils.typing import AnyArray, FloatArray
from apportion.datasets.sphere_features import (
    STATISTICS,
    motion_features,
    motion_in_context,
    regular_samples,
    room_statistics,
    window_statistics,
)
from apportion.exceptions import FileError, InputError, compared, name_some

_TRANSITIONS = "bend kneel_stand lie_sit sit_lie sit_stand stand_kneel stand_sit straighten turn"
ACTIVITIES = (
    *(f"a_{name}" for name in ("ascend", "descend", "jump", "loadwalk", "walk")),
    *(f"p_{name}" for name in ("bent", "kneel", "lie", "sit", "squat", "stand")),
    *(f"t_{name}" for name in _TRANSITIONS.split()),
)
"""The 20 classes: ambulation, posture, transition."""

AMBULATORY_OR_SEDENTARY: dict[str, tuple[str, ...]] = {
    "ambulatory": tuple(name for name in ACTIVITIES if name.startswith("a_")),
    "sedentary": ("p_sit", "p_lie"),
}
"""The paper's two classes."""

FIVE_GROUPS: dict[str, tuple[str, ...]] = {
    "walking": AMBULATORY_OR_SEDENTARY["ambulatory"],
    "standing": ("p_stand",),
    "sitting": ("p_sit",),
    "lying": ("p_lie",),
    "moving": ("p_bent", "p_kneel", "p_squat", *(a for a in ACTIVITIES if a.startswith("t_"))),
}
"""All 20 classes in five groups: low postures and transitions are `moving`."""

_AXES = ("x", "y", "z")
_RECEIVERS = ("Kitchen_AP", "Lounge_AP", "Upstairs_AP", "Study_AP")
_DETECTORS = ("bath", "bed1", "bed2", "hall", "kitchen", "living", "stairs", "study", "toilet")
_CAMERAS = ("living_room", "kitchen", "hallway")
_SIGHTS = (
    *("centre_2d_x", "centre_2d_y", "bb_2d_br_x", "bb_2d_br_y", "bb_2d_tl_x", "bb_2d_tl_y"),
    *("centre_3d_x", "centre_3d_y", "centre_3d_z", "bb_3d_brb_x", "bb_3d_brb_y", "bb_3d_brb_z"),
    *("bb_3d_flt_x", "bb_3d_flt_y", "bb_3d_flt_z"),
)
_SWAPPED_CAMERAS = ("kitchen", "living_room", "hallway")
_SWAPPED_RECORDINGS = ("00007", "00008", "00009", "00010")

BASELINE_COLUMNS = tuple(
    f"{signal}_{statistic}"
    for signal in (
        *(f"acceleration_{axis}" for axis in _AXES),
        *(f"rssi_{receiver}" for receiver in _RECEIVERS),
        *(f"pir_{room}" for room in _DETECTORS),
        *(f"video_{camera}_{sight}" for camera in _CAMERAS for sight in _SIGHTS),
    )
    for statistic in STATISTICS
)
"""The 305 columns of the baseline features."""

WHERE_SPHERE_IS = (
    "The SPHERE Challenge data are not part of apportion. Get them from data.bris.ac.uk, data set "
    "8gccwpx47rav19vk8x4xapcog, unpack them, and give the folder that has `train` in it. Cite "
    "Twomey et al. 2016, arXiv:1603.00797."
)
_GET_ANEW = "get the file anew"


@dataclass(frozen=True)
class SphereWindows:
    """One-second windows of people at home.

    Attributes
    ----------
    X : ndarray of shape (n_windows, n_features)
        Features; NaN = not recorded.
    feature_names : tuple of str
    shares : ndarray of shape (n_windows, 20)
        The share of each activity, over the second and over the people who annotated it; rows sum
        to 1, or are NaN where nobody annotated.
    activities : tuple of str
        The classes of `shares`.
    participant : ndarray of shape (n_windows,)
        Whose recording it is, such as `"00001"`.
    start : ndarray of shape (n_windows,)
        When the window starts, in seconds of the recording.
    """

    X: FloatArray
    feature_names: tuple[str, ...]
    shares: FloatArray
    activities: tuple[str, ...]
    participant: AnyArray
    start: FloatArray

    def take(self, rows: AnyArray) -> SphereWindows:
        """Return some of the windows.

        Parameters
        ----------
        rows : ndarray
            Their positions, or a mask.
        """
        columns = ("X", "shares", "participant", "start")
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})

    def labeled(self) -> SphereWindows:
        """Return the windows that somebody annotated."""
        return self.take(np.flatnonzero(~np.isnan(self.shares).any(axis=1)))

    def grouped(self, groups: Mapping[str, Sequence[str]]) -> FloatArray:
        """Return each window's share of every group of activities; NaN where nobody annotated.

        Parameters
        ----------
        groups : mapping of str to sequence of str
            The activities of every group, by its name.
        """
        unknown = {name for names in groups.values() for name in names} - set(self.activities)
        if unknown:
            raise InputError(
                "groups",
                f"no activity {min(unknown)!r} in the data",
                ", ".join(self.activities),
                "correct the name",
            )
        columns = [[self.activities.index(name) for name in names] for names in groups.values()]
        return np.column_stack([self.shares[:, names].sum(axis=1) for names in columns])

    def pure(self, groups: Mapping[str, Sequence[str]]) -> tuple[SphereWindows, AnyArray]:
        """Return the windows that lie wholly in one group, and which one.

        Parameters
        ----------
        groups : mapping of str to sequence of str
            The activities of every group, by its name.
        """
        names = [name for group in groups.values() for name in group]
        repeated = [name for name in names if names.count(name) > 1]
        if repeated:
            raise InputError(
                "groups",
                f"that {repeated[0]!r} is in two groups",
                "every activity in at most one group",
                "drop one of the two",
            )
        shares = self.grouped(groups)
        rows, group = np.nonzero(shares >= 1.0 - 1e-9)
        return self.take(rows), np.array(list(groups))[group]


def load_sphere(
    path: str | os.PathLike[str], setting: str = "baseline", *, context: int = 0
) -> SphereWindows:
    """Return the windows of the SPHERE Challenge's annotated recordings.

    Both releases are read: where `columns.csv` is missing, its features are computed from the
    signals. Cells that were not recorded are NaN; nothing is filled in.

    Parameters
    ----------
    path : path
        The folder that has `train` in it, the one above, or `train` itself.
    setting : {"baseline", "raw"}, default="baseline"
        The data set's 305 baseline features: mean, deviation, minimum, median and maximum of the
        accelerometer, its signal strengths, the motion detectors and the cameras. Or features of
        the raw 20 Hz accelerometer: mean, deviation, jerk and spectral power of its magnitude.
    context : int, default=0
        With `"raw"`, features of this many seconds before and after each window instead: how much
        each axis moves, how that varies, and how regular the movement is.

    Returns
    -------
    SphereWindows
        One row per second that is annotated.

    Notes
    -----
    In the release without `columns.csv` the videos of kitchen and living room are swapped in the
    recordings 00007 to 00010; they are swapped back.
    """
    if setting not in ("baseline", "raw"):
        raise ValueError(
            f"The 'setting' parameter of load_sphere must be 'baseline' or 'raw'. Got {setting!r}."
        )
    whole = isinstance(context, Integral) and context >= 0
    if not whole or (context and setting == "baseline"):
        raise ValueError(
            "The 'context' parameter of load_sphere must be a whole number of seconds, 0 with the "
            f"setting 'baseline'. Got {context!r} with {setting!r}."
        )
    recordings = [_recording(folder, setting, context) for folder in find_recordings(path)]
    return SphereWindows(
        X=np.vstack([recording.X for recording in recordings]),
        feature_names=recordings[0].feature_names,
        shares=np.vstack([recording.shares for recording in recordings]),
        activities=ACTIVITIES,
        participant=np.concatenate([recording.participant for recording in recordings]),
        start=np.concatenate([recording.start for recording in recordings]),
    )


def find_recordings(path: str | os.PathLike[str]) -> list[Path]:
    """Return the folders of the annotated recordings, or say where to get them."""
    path = Path(path)
    for root in (path, path / "train", path / "public_data" / "train"):
        found = sorted(targets.parent for targets in root.glob("*/targets.csv"))
        if found:
            return found
    raise FileNotFoundError(
        f"No recording was found in {os.fspath(path)!r}: looked for train/*/targets.csv. "
        f"{WHERE_SPHERE_IS}"
    )


def _recording(folder: Path, setting: str, context: int) -> SphereWindows:
    """Return the windows of one recording."""
    path = folder / "targets.csv"
    targets = _read(path, ("start", *ACTIVITIES))
    start = targets["start"]
    shares = np.column_stack([targets[name] for name in ACTIVITIES])
    annotated = ~np.isnan(shares).all(axis=1)
    sums = np.nansum(shares, axis=1)
    off = np.flatnonzero(annotated & ~(np.abs(sums - 1.0) <= 1e-6))
    if off.size:
        total, _ = compared(sums[off[0]], 1.0)
        found = f"shares of the activities that sum to {total}"
        raise FileError(f"{path}, line {off[0] + 2}", found, "1, or a blank line", _GET_ANEW)
    if not np.array_equal(start, np.arange(len(start))):
        found = "windows that do not start at 0, 1, 2, … seconds"
        raise FileError(f"{path}", found, "every second once, in order", _GET_ANEW)
    shares[annotated] = np.nan_to_num(shares[annotated])
    names = BASELINE_COLUMNS
    if setting == "baseline":
        X = _baseline(folder, len(start))
    else:
        sensed = _read(folder / "acceleration.csv", ("t", *_AXES))
        signal = np.column_stack([sensed[axis] for axis in _AXES])
        samples = regular_samples(sensed["t"], signal, len(start))
        names, X = motion_in_context(samples, context) if context else motion_features(samples)
    participant = np.full(len(start), folder.name)
    return SphereWindows(X, names, shares, ACTIVITIES, participant, start)


def _baseline(folder: Path, n_windows: int) -> FloatArray:
    """Return the baseline features that were published, or computed where they were not."""
    path = folder / "columns.csv"
    if not path.exists():
        return baseline_features(folder, n_windows)
    published = _read(path, BASELINE_COLUMNS)
    X = np.column_stack([published[name] for name in BASELINE_COLUMNS])
    if len(X) != n_windows:
        allowed = f"{n_windows}, as many as targets.csv has"
        raise FileError(f"{path}", f"{len(X)} rows", allowed, "get both files anew")
    return X


def baseline_features(folder: Path, n_windows: int) -> FloatArray:
    """Return the 305 baseline features of a recording, computed from its signals.

    Of a camera whose video is not there all columns are NaN.
    """
    worn = _statistics(folder / "acceleration.csv", (*_AXES, *_RECEIVERS), n_windows)
    motion = _read(folder / "pir.csv", ("start", "end"), text=("name",))
    rooms = room_statistics(motion["start"], motion["end"], motion["name"], _DETECTORS, n_windows)
    cameras = _SWAPPED_CAMERAS if folder.name in _SWAPPED_RECORDINGS else _CAMERAS
    videos = [folder / f"video_{camera}.csv" for camera in cameras]
    blank = np.full((n_windows, len(_SIGHTS) * len(STATISTICS)), np.nan)
    seen = [_statistics(v, _SIGHTS, n_windows) if v.exists() else blank for v in videos]
    return np.hstack([worn, rooms, *seen])


def _statistics(path: Path, names: Sequence[str], n_windows: int) -> FloatArray:
    """Return the five statistics of each signal of a file in every second."""
    signals = _read(path, ("t", *names))
    return np.hstack([window_statistics(signals["t"], signals[name], n_windows) for name in names])


def _read(path: Path, numbers: Sequence[str], text: Sequence[str] = ()) -> dict[str, Any]:
    """Return columns of a CSV file; blanks of number columns are NaN."""
    try:
        from pyarrow import ArrowInvalid, csv, float64, string
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "load_sphere needs pyarrow: install apportion[pyarrow]."
        ) from error
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing. {WHERE_SPHERE_IS}")
    wanted = {**dict.fromkeys(numbers, float64()), **dict.fromkeys(text, string())}
    try:
        table = csv.read_csv(
            path,
            convert_options=csv.ConvertOptions(
                column_types=wanted, include_columns=list(wanted), strings_can_be_null=True
            ),
        )
    except (ArrowInvalid, KeyError) as error:
        raise FileError(
            f"{path}",
            f"a table that cannot be read: {error}",
            f"a table with the columns {name_some(wanted, 6)}, numbers or blanks",
            _GET_ANEW,
        ) from error
    return {name: np.array(table[name].to_numpy()) for name in wanted}
