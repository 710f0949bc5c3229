"""A made-up week of people in a smart home, and the diaries they might have kept."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from apportion._io.atomic_write import Outputs
from apportion._utils.typing import AnyArray, BoolArray, IntArray

ACTIVITIES = ("sleep", "hygiene", "meals", "housework", "desk", "tv", "walk", "out")
"""The classes; `out` is at work or at the shops, `walk` is on foot out of doors."""

ROOMS = ("bedroom", "kitchen", "living", "bathroom", "hall")
"""The rooms with a motion detector (PIR)."""

UNKNOWN = "unknown"
"""What `reported` calls an activity that a diary never covers."""

FIRST_DAY = np.datetime64("2024-03-04", "D")
"""A Monday."""

_ACCELERATION = ("acc_mean", "acc_std", "acc_peak", "acc_tilt")

_DAY = 24 * 60
_SLEEP, _HYGIENE, _DESK, _TV = map(ACTIVITIES.index, ("sleep", "hygiene", "desk", "tv"))

_FORGETS = (1, 2)
"""The participant, from 1 on, who forgets a day, and that day, from 0 on."""

_WITHOUT_NIGHTS = 2
"""The participant who never reports the night."""

_LOST = 0.01
"""The share of accelerometer cells that never arrive."""


class _Pattern(NamedTuple):
    """What the sensors see of one minute of an activity."""

    motion: float  # of the wrist, in thousandths of g
    unevenness: float  # the standard deviation of that motion, as a share of it
    tilt: float  # of the forearm, in degrees
    sway: float  # of the tilt
    lamp: float  # log10 lux in the dark
    daylight: float  # how much a bright day adds to that
    interrupted: float  # how often the person is up and about instead
    rooms: tuple[float, float, float, float, float]  # how often each detector fires


_PATTERNS = {
    "sleep": _Pattern(6, 0.6, 5, 25, 0.3, 0.4, 0.01, (0.2, 0, 0, 0, 0)),
    "hygiene": _Pattern(75, 1.0, -20, 18, 2.3, 0.2, 0.06, (0.2, 0, 0, 2.6, 0.3)),
    "meals": _Pattern(48, 1.1, -12, 14, 2.2, 0.4, 0.06, (0, 2.2, 0.2, 0, 0.1)),
    "housework": _Pattern(95, 0.9, -26, 16, 2.2, 0.4, 0.06, (0.4, 2.0, 0.8, 0.2, 0.5)),
    "desk": _Pattern(21, 0.8, -1, 10, 2.4, 0.4, 0.06, (0, 0, 1.4, 0, 0)),
    "tv": _Pattern(14, 1.1, 9, 14, 1.7, 0.5, 0.06, (0, 0.1, 1.3, 0, 0.1)),
    "walk": _Pattern(240, 0.5, -48, 10, 1.0, 3.0, 0, (0, 0, 0, 0, 0.1)),
    "out": _Pattern(55, 1.1, -18, 20, 2.5, 0.7, 0, (0, 0, 0, 0, 0)),
    "up and about": _Pattern(80, 1.0, -28, 16, 2.0, 0.4, 0, (0.3, 0.6, 0.6, 0.5, 1.2)),
}
"""In the order of `ACTIVITIES`; the last is what an interrupted activity looks like."""


Sensors = Literal["all", "on/off"]
"""The sensors of a home: a wrist band, detectors and a light sensor, or on/off sensors alone."""

_SWITCHES = {
    "door_front": (0, 0, 0, 0.01, 0, 0, 0.03, 0, 0.02),
    "door_fridge": (0, 0, 0.10, 0.04, 0, 0, 0, 0, 0.06),
    "stove": (0, 0, 0.25, 0.02, 0, 0, 0, 0, 0),
    "water": (0, 0.40, 0.06, 0.10, 0, 0, 0, 0, 0.04),
    "tv_on": (0, 0, 0.03, 0.02, 0, 0.70, 0, 0, 0.04),
    "computer_on": (0, 0, 0, 0, 0.60, 0.01, 0, 0, 0.04),
}
"""How likely a contact or an appliance is on in a minute of each activity of `_PATTERNS`."""

_ROUTINES = {
    "morning": "hygiene 1 10-26, meals 1 12-28",
    "at work": "walk 1 6-20, out 1 400-510, walk 0.8 6-20, out 0.3 30-90",
    "working at home": "desk 1 150-230, meals 1 25-50, walk 0.7 10-45, desk 1 150-240, "
    "out 0.6 25-110",
    "free": "housework 0.9 40-120, out 0.7 50-150, meals 1 30-60, tv 0.5 30-90, walk 0.8 30-110, "
    "desk 0.6 30-120, out 0.6 60-180",
    "evening": "housework 0.8 8-60, meals 1 25-60, desk 0.6 20-90, walk 0.3 10-35",
}
"""Parts of a day: each activity, how likely it is, and how many minutes it takes."""


class SmartHomeFiles(NamedTuple):
    """The files that `SmartHome.write` wrote."""

    windows: Path
    diary: Path
    truth: Path


@dataclass(frozen=True)
class SmartHome:
    """Sensor windows of people at home, what these people did, and their diaries.

    Attributes
    ----------
    windows : dict of str to ndarray of shape (n_windows,)
        One array per column:

        - `window`: a name such as `"p1-00042"`; `participant`: `"p1"`, `"p2"`, …
        - `start`, `end`: local clock times, datetime64[s].
        - `acc_mean`, `acc_std`, `acc_peak`: how much the wrist moves, in thousandths of g;
          `acc_tilt`: of the forearm, in degrees. NaN where packets were lost.
        - `pir_bedroom` … `pir_hall`: how often each room's detector fired.
        - `light`: log10 lux. `hour`: the time of day at the start, from 0 to 24.
        - `nonwear`: whether the wrist band was off, and its signal flat.

        With `sensors="on/off"`, the first four columns are followed by booleans alone:
        `motion_bedroom` … `motion_hall`, `door_front`, `door_fridge`, `stove`, `water`, `tv_on`
        and `computer_on`. Many windows are equal.
    activities : ndarray of shape (n_windows,)
        The truth: what was done in the middle of each window.
    diary : list of dict of str to str
        One row per participant and day: `participant`, `date`, and how long each activity took, in
        the participant's own spelling; empty where nothing is reported.
    reported : ndarray of shape (n_windows,)
        The truth in the diary's words: `"unknown"` in nights that the diary never covers.
    """

    windows: dict[str, AnyArray]
    activities: AnyArray
    diary: list[dict[str, str]]
    reported: AnyArray

    def write(self, folder: str | os.PathLike[str], *, force: bool = False) -> SmartHomeFiles:
        """Write `windows.csv`, `diary.csv` and `truth.csv`, and return where they are.

        Parameters
        ----------
        folder : str or path
            Where to; made where it does not exist.
        force : bool, default=False
            Whether files of these names may be replaced.

        Returns
        -------
        SmartHomeFiles
            The paths `windows`, `diary` and `truth`. Times are in ISO format, a missing value is an
            empty cell; `truth.csv` has the columns `window`, `activity` and `reported`.
        """
        with Outputs(force=force) as outputs:
            return self.write_with(outputs, Path(folder))

    def write_with(self, outputs: Outputs, folder: Path) -> SmartHomeFiles:
        """Write the files that `write` writes, which take their places with other outputs."""
        outputs.make_folder(folder)
        files = SmartHomeFiles(folder / "windows.csv", folder / "diary.csv", folder / "truth.csv")
        cells = [_cells(values) for values in self.windows.values()]
        _write_csv(outputs, files.windows, list(self.windows), zip(*cells, strict=True))
        columns = ["participant", "date", *ACTIVITIES]
        entries = ([row[name] for name in columns] for row in self.diary)
        _write_csv(outputs, files.diary, columns, entries)
        names = [_cells(one) for one in (self.windows["window"], self.activities, self.reported)]
        columns = ["window", "activity", "reported"]
        _write_csv(outputs, files.truth, columns, zip(*names, strict=True))
        return files


def make_smart_home(
    days: int = 7,
    participants: int = 3,
    *,
    seed: int = 0,
    minutes: int = 1,
    sensors: Sensors = "all",
) -> SmartHome:
    """Return made-up sensor windows of people at home, what they did, and their diaries.

    Each participant lives through days of a plausible routine, at hours of their own, from Monday
    2024-03-04 on. A window's features are drawn from what its activity looks like; participants
    differ a little in their sensors. A day's diary has the minutes of each activity, rounded to
    half an hour (p1, p3, …) or a quarter (p2, p4, …), so that short ones get lost. Where they then
    sum to more than 24 hours, the longest is shortened.

    Diaries have gaps: p1 forgets the third day, and p2 never reports the night.

    Parameters
    ----------
    days : int, default=7
        The number of days. More days leave the first ones as they are.
    participants : int, default=3
        The number of people. More people leave the first ones as they are.
    seed : int, default=0
        Draws all of it; the same seed gives the same data.
    minutes : int, default=1
        The length of a window, a divisor of 60. The days and diaries do not depend on it.
    sensors : {"all", "on/off"}, default="all"
        `"on/off"` leaves the band and the light sensor out: motion detectors, doors and appliances
        were on in a window or not, and few windows differ. The days and diaries are the same.

    Returns
    -------
    SmartHome
        The windows, the diaries, and what was done in every window.

    Examples
    --------
    >>> home = make_smart_home(days=2, participants=2)
    >>> len(home.windows["start"]), str(home.windows["start"][0])
    (5760, '2024-03-04T00:00:00')
    >>> [(row["participant"], row["date"]) for row in home.diary]
    [('p1', '2024-03-04'), ('p1', '2024-03-05'), ('p2', '2024-03-04'), ('p2', '2024-03-05')]
    >>> home.diary[0]["sleep"], home.diary[2]["sleep"]
    ('...h...', '')

    >>> home = make_smart_home(days=2, participants=2, minutes=5, sensors="on/off")
    >>> bool(home.windows["door_front"].any()), "light" in home.windows
    (True, False)
    """
    whole = {"days": (days, 1), "participants": (participants, 1), "seed": (seed, 0)}
    for name, (value, smallest) in {**whole, "minutes": (minutes, 1)}.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < smallest:
            raise ValueError(
                f"The '{name}' parameter of make_smart_home must be a whole number from {smallest} "
                f"on. Got {value!r}."
            )
    if 60 % minutes:
        raise ValueError(
            "The 'minutes' parameter of make_smart_home must be a divisor of 60, such as 1, 5 or "
            f"15. Got {minutes}."
        )
    if sensors not in get_args(Sensors):
        raise ValueError(
            "The 'sensors' parameter of make_smart_home must be 'all' or 'on/off'. "
            f"Got {sensors!r}."
        )
    middle = np.arange(minutes // 2, _DAY, minutes)
    columns: list[dict[str, AnyArray]] = []
    done: list[AnyArray] = []
    diary: list[dict[str, str]] = []
    for participant in range(1, participants + 1):
        person = _person(np.random.default_rng([seed, participant, 0]))
        for day in range(days):
            rng = np.random.default_rng([seed, participant, day + 1])
            routine = _routine(person, day, rng)
            if sensors == "on/off":
                # Numbers of its own, so that the days are those of all sensors.
                rng = np.random.default_rng([seed, participant, day + 1, 1])
                features = _switches(routine, middle, minutes, person, rng)
            else:
                features = _features(routine, middle, minutes, person, rng)
            columns.append(_names_and_times(participant, day, minutes) | features)
            done.append(routine.activity[middle])
            if (participant, day) != _FORGETS:
                diary.append(_diary_row(participant, day, routine.activity))
    windows = {name: np.concatenate([part[name] for part in columns]) for name in columns[0]}
    activities = np.array(ACTIVITIES)[np.concatenate(done)]
    uncovered = (windows["participant"] == f"p{_WITHOUT_NIGHTS}") & (activities == "sleep")
    return SmartHome(windows, activities, diary, np.where(uncovered, UNKNOWN, activities))


class _Person(NamedTuple):
    """A participant's habits and sensors."""

    wakes: float  # minutes after midnight
    goes_to_bed: float
    at_work: float  # the chance of a working day that is not at home
    gain: float
    offset: float
    tilt: float
    detectors: float
    lamps: float


def _person(rng: np.random.Generator) -> _Person:
    return _Person(
        wakes=rng.uniform(375, 435),
        goes_to_bed=rng.uniform(1340, 1385),
        at_work=rng.uniform(0.2, 0.8),
        gain=rng.uniform(0.9, 1.1),
        offset=rng.uniform(0, 4),
        tilt=rng.normal(0, 3),
        detectors=rng.uniform(0.85, 1.15),
        lamps=rng.normal(0, 0.1),
    )


class _Routine(NamedTuple):
    """A day, minute by minute: the activity, the episode of it, and whether the band is off."""

    activity: IntArray
    episode: IntArray
    off: BoolArray


def _routine(person: _Person, day: int, rng: np.random.Generator) -> _Routine:
    """Draw a day: asleep, morning, what is between, evening, television until bedtime, asleep."""
    weekend = day % 7 >= 5
    kind = "free" if weekend else "working at home"
    if not weekend and rng.random() < person.at_work:
        kind = "at work"
    wakes = round(person.wakes + (70 if weekend else 0) + rng.normal(0, 15))
    to_bed = round(person.goes_to_bed + (15 if weekend else 0) + rng.normal(0, 12))
    parts = []
    for text in ", ".join(_ROUTINES[part] for part in ("morning", kind, "evening")).split(", "):
        activity, chance, minutes = text.split()
        if rng.random() < float(chance):
            shortest, longest = map(int, minutes.split("-"))
            parts.append((activity, int(rng.integers(shortest, longest + 1))))
    brushing = int(rng.integers(4, 13))
    awake = sum(length for _, length in parts)
    television = max(20, to_bed - brushing - wakes - awake)
    parts = [("sleep", wakes), *parts, ("tv", television), ("hygiene", brushing), ("sleep", _DAY)]
    codes = np.array([ACTIVITIES.index(activity) for activity, _ in parts])
    lengths = np.array([length for _, length in parts])
    episode = np.repeat(np.arange(len(parts)), lengths)[:_DAY]
    return _Routine(codes[episode], episode, _band_off(codes, lengths, rng))


def _band_off(codes: IntArray, lengths: IntArray, rng: np.random.Generator) -> BoolArray:
    """Take the band off in the morning's shower, and on most days to charge it while sitting."""
    starts = np.cumsum(lengths) - lengths
    off = np.zeros(_DAY, dtype=bool)
    shower = starts[np.flatnonzero(codes == _HYGIENE)[0]] + 2
    off[shower : shower + rng.integers(5, 9)] = True
    if rng.random() < 0.6:
        seated = rng.choice(np.flatnonzero((codes == _DESK) | (codes == _TV)))
        charging = min(lengths[seated], rng.integers(20, 46))
        begins = starts[seated] + rng.integers(0, lengths[seated] - charging + 1)
        off[begins : begins + charging] = True
    return off


def _names_and_times(participant: int, day: int, minutes: int) -> dict[str, AnyArray]:
    n_windows = _DAY // minutes
    number = day * n_windows + np.arange(n_windows)
    start = FIRST_DAY + np.timedelta64(day, "D") + np.arange(0, _DAY, minutes).astype("m8[m]")
    return {
        "window": np.char.add(f"p{participant}-", np.char.zfill(number.astype(str), 5)),
        "participant": np.full(n_windows, f"p{participant}"),
        "start": start.astype("M8[s]"),
        "end": (start + np.timedelta64(minutes, "m")).astype("M8[s]"),
    }


def _features(
    routine: _Routine,
    middle: IntArray,
    minutes: int,
    person: _Person,
    rng: np.random.Generator,
) -> dict[str, AnyArray]:
    """Draw what the sensors see of each window; an episode has a mood, a minute has noise."""
    n_windows = len(middle)
    activity, episode, off = (values[middle] for values in routine)
    hour = (middle - minutes // 2) / 60
    rows = zip(*_PATTERNS.values(), strict=True)
    patterns = {name: np.array(row) for name, row in zip(_Pattern._fields, rows, strict=True)}
    interrupted = rng.random(n_windows) < patterns["interrupted"][activity]
    seen = np.where(interrupted, len(ACTIVITIES), activity)
    pattern = {name: values[seen] for name, values in patterns.items()}
    mood = rng.standard_normal((3, routine.episode[-1] + 1))[:, episode]
    noise = rng.standard_normal((4, n_windows))

    motion = person.gain * pattern["motion"] * np.exp(0.15 * mood[0] + 0.3 * noise[0])
    uneven = motion * pattern["unevenness"] * np.exp(0.2 * noise[1])
    tilt = pattern["tilt"] + pattern["sway"] * (0.4 * mood[1] + 0.6 * noise[2])
    motion = np.where(off, 1.0, motion)
    uneven = np.where(off, 0.3 + 0.05 * noise[1], uneven)
    tilt = np.where(off, 85.0, tilt)
    mean = person.offset + motion
    peak = mean + uneven * (2.0 + rng.gamma(4.0, 0.25, n_windows))
    acceleration = np.array([mean, uneven, peak, tilt + person.tilt])
    acceleration[rng.random(acceleration.shape) < _LOST] = np.nan

    fired = rng.poisson((0.01 + person.detectors * pattern["rooms"]) * minutes)
    sun = np.maximum(0.0, np.sin(np.pi * (hour - 6.5) / 12.0))
    light = pattern["lamp"] + pattern["daylight"] * sun + person.lamps
    light = np.maximum(0.0, light + 0.15 * mood[2] + 0.2 * noise[3])
    return {
        **dict(zip(_ACCELERATION, acceleration.round(2), strict=True)),
        **{f"pir_{room}": fired[:, k] for k, room in enumerate(ROOMS)},
        "light": light.round(2),
        "hour": hour.round(4),
        "nonwear": off,
    }


def _switches(
    routine: _Routine,
    middle: IntArray,
    minutes: int,
    person: _Person,
    rng: np.random.Generator,
) -> dict[str, AnyArray]:
    """Draw which detectors, doors and appliances were on at least once in each window."""
    patterns = list(_PATTERNS.values())
    activity = routine.activity[middle]
    often = np.array([pattern.interrupted for pattern in patterns])[activity]
    seen = np.where(rng.random(len(middle)) < often, len(ACTIVITIES), activity)
    rooms = person.detectors * np.array([pattern.rooms for pattern in patterns])
    silent = np.column_stack([np.exp(-rooms), 1.0 - np.array(list(_SWITCHES.values())).T])
    on = rng.random((len(middle), silent.shape[1])) >= silent[seen] ** minutes
    names = [*(f"motion_{room}" for room in ROOMS), *_SWITCHES]
    return {name: on[:, k] for k, name in enumerate(names)}


def _diary_row(participant: int, day: int, activity: IntArray) -> dict[str, str]:
    """Write down a day as this participant would."""
    step = 30 if participant % 2 else 15
    spent = np.bincount(activity, minlength=len(ACTIVITIES))
    rounded = (spent + step // 2) // step * step
    if participant == _WITHOUT_NIGHTS:
        rounded[_SLEEP] = 0
    rounded[rounded.argmax()] -= max(0, rounded.sum() - _DAY)
    return {
        "participant": f"p{participant}",
        "date": str(FIRST_DAY + np.timedelta64(day, "D")),
        **{
            name: _spelled(int(duration), participant) if duration else ""
            for name, duration in zip(ACTIVITIES, rounded, strict=True)
        },
    }


def _spelled(duration: int, participant: int) -> str:
    """Spell a duration in minutes as this participant does: 8h30, 08:30 or 8.5."""
    hours, rest = divmod(duration, 60)
    return (f"{duration / 60:g}", f"{hours}h{rest:02}", f"{hours:02}:{rest:02}")[participant % 3]


def _cells(values: AnyArray) -> list[Any]:
    """Return the cells of a column of a CSV file."""
    if values.dtype.kind == "M":
        return np.datetime_as_string(values, unit="s").tolist()
    if values.dtype.kind == "b":
        return np.where(values, "true", "false").tolist()
    if values.dtype.kind == "f":
        return np.where(np.isnan(values), "", values.astype(str)).tolist()
    return values.tolist()


def _write_csv(
    outputs: Outputs, path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    with (
        outputs.writing(path) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
