"""The recordings that `diaries.py` labels: rows in the order of time, and the totals of bags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from candidates import Problem
from natural import WISDM_FILE, sphere_windows, wisdm_windows

GAP_SHARE = 0.2
GAP_MINUTES = (10, 180)
"""How much of the made-up week with gaps is not recorded, and how long a gap is."""


class Everyone(NamedTuple):
    """All rows of a set, of which "supervised" learns, and those that are in the problem."""

    X: Any
    y: Any
    groups: Any
    recordings: Any
    kept: Any


NOT_SEEN = ("window", "participant", "start", "end", "hour", "nonwear")
"""Columns of a made-up home that are no features."""


@dataclass(frozen=True)
class Diary(Problem):
    """A problem whose rows are in the order of time, recording after recording.

    Attributes
    ----------
    times, recordings : ndarray of shape (n_samples,)
        When each row was, and the recording that it belongs to.
    short : ndarray of bool of shape (n_samples,)
        The rows of true episodes that are short.
    everyone : Everyone
        All rows of the set, also beyond the limit.
    """

    times: Any = None
    recordings: Any = None
    short: Any = None
    everyone: Any = None

    @cached_property
    def codes(self) -> Any:
        """Return the number of each row's recording."""
        return np.unique(self.recordings, return_inverse=True)[1]

    def n_episodes(self, labels: Any) -> int:
        """Return the number of runs of one label within the recordings."""
        from apportion._utils.sequences import Sequences

        rows = Sequences.of(np.asarray(self.times).astype(float), self.codes)
        changes = rows.n_changes(np.unique(labels, return_inverse=True)[1])
        return changes + int(rows.begins.sum())


class Set(NamedTuple):
    """Where a set comes from, what is said of it, and how many seeds it has."""

    draw: Callable[[Path, int, int], Diary]
    bags: str
    short: str
    file: str = ""
    most_seeds: int = 10**6


def sphere(folder: Path, seed: int, most: int, *, bags: str) -> Diary:
    """Return seconds of a smart home; bags are some seconds, recordings, or everything.

    Of limited rows, whole recordings are taken. Where recordings are the bags, a stretch of each
    is, because three bags would say little.
    """
    from apportion import Totals
    from apportion.datasets import FIVE_GROUPS, make_bags

    windows, X = sphere_windows(folder / "sphere")
    who, start, shares = windows.participant, windows.start, windows.grouped(FIVE_GROUPS)
    names = list(FIVE_GROUPS)
    y = np.array(names)[shares.argmax(axis=1)]
    short = is_short(y, who, 15)
    kept = stretches(who, most, seed) if bags == "person" else whole(shuffled(who, seed), most)
    if bags == "person":
        bag = who
    elif bags == "all":
        bag = np.full(len(who), "all")
    else:
        period = float(bags.split()[0])
        clock = start + period * seed / 5
        bag, _ = make_bags(None, shares, strategy="time", time=clock, period=period, groups=who)
    ranked = np.sort(shares[kept], axis=1)
    return Diary(
        X[kept],
        y[kept],
        bag[kept],
        Totals.from_labels(shares[kept], bag[kept], classes=names),
        groups=who[kept],
        scored=ranked[:, -1] > ranked[:, -2] + 1e-9,
        times=start[kept],
        recordings=who[kept],
        short=short[kept],
        everyone=Everyone(X, y, who, who, kept),
    )


def wisdm(folder: Path, seed: int, most: int) -> Diary:
    """Return windows of a phone, users as bags, in the order of the file.

    `UNIQUE_ID` is not unique: it counts windows from 1 on, and begins anew nine times. A recording
    is a run of one user's windows along which it counts up by 1.
    """
    X, columns = wisdm_windows(folder / "wisdm")
    number, user, y = columns["UNIQUE_ID"].astype(float), columns["user"], columns["class"]
    begins = np.append(True, (np.diff(number) != 1) | (user[1:] != user[:-1]))
    recording = np.cumsum(begins)
    kept = whole(shuffled(user, seed), most)
    short = is_short(y, recording, 12)
    return exact(X, y, user, kept, user, 10 * number, recording, short)


def week(
    folder: Path,
    seed: int,
    most: int,
    *,
    minutes: int = 5,
    gaps: bool = False,
    on_off: bool = False,
) -> Diary:
    """Return a made-up week of three people, their days as bags; recordings go through midnight."""
    from apportion.datasets import make_smart_home

    sensors = "on/off" if on_off else "all"
    home = make_smart_home(7, 3, seed=seed, minutes=minutes, sensors=sensors)
    who, start, y = home.windows["participant"], home.windows["start"], home.activities
    seen = [name for name in home.windows if name not in NOT_SEEN]
    X = np.column_stack([home.windows[name] for name in seen]).astype(float)
    day = start.astype("M8[D]")
    bags = np.char.add(np.char.add(who, " "), day.astype(str))
    short = is_short(y, who, 15 // minutes)
    order = 7 * shuffled(who, seed) + (day - day[0]).astype(int)
    if gaps:
        there = outside_gaps(len(y), minutes, seed)
        columns = (X, y, bags, start, who, short, order)
        X, y, bags, start, who, short, order = (values[there] for values in columns)
    # Of fewer than five bags AutoLLP holds none out: a week of minutes, 10,080 rows, is the least.
    kept = whole(order, max(most, 7 * 1440 // minutes))
    return exact(X, y, bags, kept, bags, start, who, short)


def outside_gaps(n: int, minutes: int, seed: int) -> Any:
    """Return the rows that are left when blocks at random places are not recorded."""
    rng = np.random.default_rng(seed)
    there = np.ones(n, dtype=bool)
    while there.mean() > 1 - GAP_SHARE:
        first, length = rng.integers(n), rng.integers(GAP_MINUTES[0], GAP_MINUTES[1] + 1) // minutes
        there[first : first + length] = False
    return np.flatnonzero(there)


def exact(
    X: Any, y: Any, bags: Any, kept: Any, groups: Any, times: Any, recordings: Any, short: Any
) -> Diary:
    """Return some of the rows, standardized, with the exact totals of what is left of the bags."""
    from apportion import Totals
    from experiments.sphere_recipes import standardized

    return Diary(
        standardized(X[kept]),
        y[kept],
        bags[kept],
        Totals.from_labels(y[kept], bags[kept]),
        groups=groups[kept],
        times=times[kept],
        recordings=recordings[kept],
        short=short[kept],
        everyone=Everyone(standardized(X), y, groups, recordings, kept),
    )


def is_short(y: Any, recordings: Any, n: int) -> Any:
    """Return which rows are of episodes of fewer than n windows; rows are in the order of time."""
    begins = np.append(True, (y[1:] != y[:-1]) | (recordings[1:] != recordings[:-1]))
    episode = np.cumsum(begins) - 1
    return np.bincount(episode)[episode] < n


def shuffled(names: Any, seed: int) -> Any:
    """Return a number per row, the same for rows of one name, in a random order of the names."""
    _, code = np.unique(names, return_inverse=True)
    return np.random.RandomState(seed).permutation(code.max() + 1)[code]


def whole(unit: Any, most: int) -> Any:
    """Return the rows of the first units that have at most so many rows together; at least one."""
    sizes = np.bincount(unit)
    fits = np.cumsum(sizes) <= most
    fits[np.flatnonzero(sizes)[0]] = True
    return np.flatnonzero(fits[unit])


def stretches(recordings: Any, most: int, seed: int) -> Any:
    """Return consecutive rows of every recording, from a random one on, equally many."""
    _, first, code, sizes = np.unique(
        recordings, return_index=True, return_inverse=True, return_counts=True
    )
    length = most // len(sizes)
    spare = np.maximum(sizes - length, 0)
    begin = (np.random.RandomState(seed).random(len(sizes)) * (spare + 1)).astype(int)
    place = np.arange(len(code)) - first[code] - begin[code]
    return np.flatnonzero((place >= 0) & (place < length))


_SPHERE = {"short": "15 s", "file": "sphere"}
_WEEK = {"bags": "person-days", "short": "15 min"}

SETS = {
    "sphere-60s": Set(partial(sphere, bags="60 s"), "60 s of a recording", **_SPHERE),
    "sphere-300s": Set(partial(sphere, bags="300 s"), "300 s of a recording", **_SPHERE),
    "sphere-person": Set(partial(sphere, bags="person"), "a person's recording", **_SPHERE),
    "sphere-all": Set(partial(sphere, bags="all"), "all recordings in one", **_SPHERE),
    "wisdm-user": Set(wisdm, "users", "2 min", f"wisdm/{WISDM_FILE}", most_seeds=1),
    "weeks-5min": Set(week, **_WEEK),
    "weeks-1min": Set(partial(week, minutes=1), **_WEEK),
    "weeks-gaps": Set(partial(week, gaps=True), **_WEEK),
    "weeks-onoff": Set(partial(week, on_off=True), **_WEEK),
}
"""The sets, by name. A seed moves the clock and the choice of recordings, or makes up people."""
