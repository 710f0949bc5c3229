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
from apportion.exceptions import compared

ACTIVITIES = (
    *(f"a_{name}" for name in ("ascend", "descend", "jump", "loadwalk", "walk")),
    *(f"p_{name}" for name in ("bent", "kneel", "lie", "sit", "squat", "stand")),
    *(
        f"t_{name}"
        for name in [
            "bend",
            "kneel_stand",
            "lie_sit",
            "sit_lie",
            "sit_stand",
            "stand_kneel",
            "stand_sit",
            "straighten",
            "turn",
        ]
    ),
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
    "moving": (
        "p_bent",
        "p_kneel",
        "p_squat",
        *(name for name in ACTIVITIES if name.startswith("t_")),
    ),
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
_SWAPPED_CAMERAS = {"kitchen": "living_room", "living_room": "kitchen", "hallway": "hallway"}
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
        """Return some of the windows."""
        return replace(
            self,
            X=self.X[rows],
            shares=self.shares[rows],
            participant=self.participant[rows],
            start=self.start[rows],
        )

    def labeled(self) -> SphereWindows:
        """Return the windows that somebody annotated."""
        return self.take(np.flatnonzero(~np.isnan(self.shares).any(axis=1)))

    def grouped(self, groups: Mapping[str, Sequence[str]]) -> FloatArray:
        """Return each window's share of every group of activities; NaN where nobody annotated."""
        place = {name: k for k, name in enumerate(self.activities)}
        unknown = [name for names in groups.values() for name in names if name not in place]
        if unknown:
            raise ValueError(
                f"There is no activity {unknown[0]!r}. Allowed: {', '.join(self.activities)}."
            )
        return np.column_stack(
            [
                self.shares[:, [place[name] for name in names]].sum(axis=1)
                for names in groups.values()
            ]
        )

    def pure(self, groups: Mapping[str, Sequence[str]]) -> tuple[SphereWindows, AnyArray]:
        """Return the windows that lie wholly in one group, and which one."""
        names = [name for group in groups.values() for name in group]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"The activity {twice[0]!r} is in two groups. Allowed: in one.")
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
    sizes = [len(one["shares"]) for one in recordings]
    return SphereWindows(
        X=np.vstack([one["X"] for one in recordings]),
        feature_names=recordings[0]["names"],
        shares=np.vstack([one["shares"] for one in recordings]),
        activities=ACTIVITIES,
        participant=np.repeat([one["participant"] for one in recordings], sizes),
        start=np.concatenate([one["start"] for one in recordings]),
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


def _recording(folder: Path, setting: str, context: int) -> dict[str, Any]:
    targets = _read(folder / "targets.csv", ("start", *ACTIVITIES))
    start = targets["start"]
    shares = np.column_stack([targets[name] for name in ACTIVITIES])
    known = ~np.isnan(shares).all(axis=1)
    off = np.flatnonzero(known & ~(np.abs(np.nansum(shares, axis=1) - 1.0) <= 1e-6))
    if off.size:
        total, _ = compared(np.nansum(shares[off[0]]), 1.0)
        raise ValueError(
            f"{folder / 'targets.csv'}, line {off[0] + 2}: the shares of the activities sum to "
            f"{total}. Allowed: 1, or a blank line. Hint: get the file anew."
        )
    shares[known] = np.nan_to_num(shares[known])
    if not np.array_equal(start, np.arange(len(start))):
        raise ValueError(
            f"{folder / 'targets.csv'}: the windows do not start at 0, 1, 2, … seconds. Allowed: "
            "every second once, in order. Hint: get the file anew."
        )
    names, X = (
        (BASELINE_COLUMNS, _baseline(folder, len(start)))
        if setting == "baseline"
        else _raw(folder, len(start), context)
    )
    return {"X": X, "names": names, "shares": shares, "start": start, "participant": folder.name}


def _raw(folder: Path, n_windows: int, context: int) -> tuple[tuple[str, ...], FloatArray]:
    sensed = _read(folder / "acceleration.csv", ("t", *_AXES))
    samples = regular_samples(
        sensed["t"], np.column_stack([sensed[axis] for axis in _AXES]), n_windows
    )
    return motion_in_context(samples, context) if context else motion_features(samples)


def _baseline(folder: Path, n_windows: int) -> FloatArray:
    shipped = folder / "columns.csv"
    if shipped.exists():
        read = _read(shipped, BASELINE_COLUMNS)
        X = np.column_stack([read[name] for name in BASELINE_COLUMNS])
        if len(X) != n_windows:
            raise ValueError(
                f"{shipped} has {len(X)} rows and targets.csv has {n_windows}. Allowed: as many. "
                "Hint: get both files anew."
            )
        return X
    return baseline_features(folder, n_windows)


def baseline_features(folder: Path, n_windows: int) -> FloatArray:
    """Return the 305 baseline features of a recording, computed from its signals.

    Of a camera whose video is not there all columns are NaN.
    """
    sensed = _read(folder / "acceleration.csv", ("t", *_AXES, *_RECEIVERS))
    worn = [
        window_statistics(sensed["t"], sensed[name], n_windows) for name in (*_AXES, *_RECEIVERS)
    ]
    seen = _read(folder / "pir.csv", ("start", "end"), text=("name",))
    rooms = room_statistics(seen["start"], seen["end"], seen["name"], _DETECTORS, n_windows)
    swap = folder.name in _SWAPPED_RECORDINGS
    cameras = [
        _camera(folder, _SWAPPED_CAMERAS[camera] if swap else camera, n_windows)
        for camera in _CAMERAS
    ]
    return np.hstack([*worn, rooms, *cameras])


def _camera(folder: Path, camera: str, n_windows: int) -> FloatArray:
    video = folder / f"video_{camera}.csv"
    if not video.exists():
        return np.full((n_windows, len(_SIGHTS) * len(STATISTICS)), np.nan)
    sight = _read(video, ("t", *_SIGHTS))
    return np.hstack([window_statistics(sight["t"], sight[name], n_windows) for name in _SIGHTS])


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
        raise ValueError(
            f"{path} is not as expected: {error}. Allowed: a table with the columns "
            f"{', '.join(list(wanted)[:6])}{' …' if len(wanted) > 6 else ''}, numbers or blanks. "
            "Hint: get the file anew."
        ) from error
    columns = {name: table[name].to_numpy() for name in wanted}
    return {name: np.array(column) for name, column in columns.items()}
