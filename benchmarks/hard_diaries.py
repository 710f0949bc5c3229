"""LP-LLP on two kinds of ordinary diaries that are hard for the solver, beside exact totals.

1. Days recorded in part. A diary has the hours of whole days, of which a part was recorded, so that
   the totals of the recording are bounds: a class of h hours in a day with g hours unrecorded took
   h - g to h hours in the recording. Either nearly the whole day was recorded (`--recorded 0.7`
   to 1, one of several widths), or some hours (`0.17` to `0.54`, the bounds are wide).
2. On/off sensors: windows of few distinct rows.

Printed are iterations, processor seconds of the solver (the graph left out) and its status.

    python benchmarks/hard_diaries.py
    python benchmarks/hard_diaries.py --rows 4000 --features 40 --bags 20
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import NamedTuple

import numpy as np

from apportion import KNNGraph
from apportion._core.descent import Settings
from apportion._core.solve import solve
from apportion.datasets import make_smart_home
from apportion.supervision.bags import Bags

SENSORS = ("acc_mean", "acc_std", "acc_peak", "acc_tilt", "light", "pir_bedroom", "pir_kitchen",
           "pir_living", "pir_bathroom", "pir_hall")  # fmt: skip
CLASSES = {
    "sleep": "sleep",
    "hygiene": "care",
    "meals": "care",
    "housework": "active",
    "walk": "active",
    "desk": "seated",
    "tv": "seated",
    "out": "out",
}
DAY = 24 * 60


class Problem(NamedTuple):
    """Rows with their days, the time of each class in the recording, and in the whole day."""

    X: np.ndarray
    day: np.ndarray
    recorded: np.ndarray
    whole: np.ndarray

    def exact(self) -> Bags:
        """Return the bags with the recorded time of each class."""
        return self._bags(self.recorded, self.recorded)

    def bounds(self) -> Bags:
        """Return the bags with what the whole day says about the recording."""
        windows = self.recorded.sum(axis=1, keepdims=True)
        gap = self.whole.sum(axis=1, keepdims=True) - windows
        return self._bags(np.maximum(self.whole - gap, 0.0), np.minimum(self.whole, windows))

    def _bags(self, lower: np.ndarray, upper: np.ndarray) -> Bags:
        classes = np.unique(list(CLASSES.values()))
        given = np.full(len(self.day), -1)
        return Bags(tuple(range(len(lower))), classes, self.day, lower, upper, given)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=22_000)
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--bags", type=int, default=46)
    parser.add_argument("--max-iter", type=int, default=2000)
    parser.add_argument("--cases", default="narrow,wide,on/off", help="some of these")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for case, parts in {"narrow": (0.7, 1.0), "wide": (0.17, 0.54)}.items():
        if case in given.cases.split(","):
            problem = part_recorded(given.rows, given.features, given.bags, parts, given.seed)
            report(f"recorded in part, {case} bounds", problem, given.max_iter)
    if "on/off" in given.cases.split(","):
        for days, people, minutes in ((3, 1, 1), (7, 2, 5)):
            problem = on_off(days, people, minutes, given.seed)
            report(f"on/off sensors, windows of {minutes} min", problem, given.max_iter)


def report(name: str, problem: Problem, max_iter: int) -> None:
    """Print how the solver does on exact totals and on bounds."""
    graph = KNNGraph().fit(problem.X)
    distinct = len(np.unique(problem.X, axis=0))
    n_rows, n_features = problem.X.shape
    print(
        f"{name}: {n_rows:,} windows ({distinct:,} distinct) of {n_features} features, "
        f"{len(problem.recorded)} bags, {graph.components()[0]} components"
    )
    for kind, bags in {"exact": problem.exact(), "bounds": problem.bounds()}.items():
        if kind == "bounds" and np.array_equal(bags.lower, bags.upper):
            continue
        before = time.process_time()
        solution = solve(graph, bags, Settings(max_iter=max_iter))
        seconds = time.process_time() - before
        print(
            f"  {kind:<7} {seconds:7.1f} s of processor time, {solution.n_iter:5d} iterations, "
            f"{solution.n_probes} probes, {solution.status.name}, energy "
            f"{solution.energies[-1]:.8g}, stationarity {solution.stationarity:.0e}, unique: "
            f"{solution.unique}",
            flush=True,
        )


def part_recorded(
    n_rows: int, n_features: int, n_bags: int, parts: tuple[float, float], seed: int
) -> Problem:
    """Draw days of which a part was recorded; every feature is a sensor with noise.

    Windows are as long as it takes for about this many rows.
    """
    expected = n_bags * DAY * sum(parts) / 2
    minutes = min((1, 2, 3, 4, 5, 6, 10, 12, 15), key=lambda m: abs(expected / m - n_rows))
    per_day, people = DAY // minutes, -(-n_bags // 7)
    home = make_smart_home(7, people, seed=seed, minutes=minutes)
    rng = np.random.default_rng(seed)
    length = rng.uniform(*parts, 7 * people) * per_day
    first = rng.uniform(0, per_day - length)
    window = np.arange(per_day)
    kept = (window >= first[:, None]) & (window < (first + length)[:, None])
    kept[n_bags:] = False
    kept &= ~home.windows["nonwear"].reshape(kept.shape)
    sensors = np.column_stack([home.windows[name].astype(float) for name in SENSORS])[kept.ravel()]
    sensors = (sensors - np.nanmean(sensors, axis=0)) / np.nanstd(sensors, axis=0)
    sensors = np.nan_to_num(sensors)[:, np.arange(n_features) % len(SENSORS)]
    X = sensors + 0.2 * rng.standard_normal(sensors.shape)
    return _problem(X, home.activities, kept, n_bags)


def on_off(days: int, people: int, minutes: int, seed: int) -> Problem:
    """Draw whole days of on/off sensors."""
    home = make_smart_home(days, people, seed=seed, minutes=minutes, sensors="on/off")
    X = np.column_stack([on for on in home.windows.values() if on.dtype == bool]).astype(float)
    kept = np.ones((days * people, DAY // minutes), dtype=bool)
    return _problem(X, home.activities, kept, days * people)


def _problem(X: np.ndarray, activities: np.ndarray, kept: np.ndarray, n_bags: int) -> Problem:
    classes, code = np.unique([CLASSES[name] for name in activities], return_inverse=True)
    code = code.reshape(kept.shape)
    whole, recorded = (
        np.column_stack([(inside & (code == h)).sum(axis=1) for h in range(len(classes))])
        for inside in (np.ones_like(kept), kept)
    )
    day = np.nonzero(kept)[0]
    return Problem(X, day, recorded[:n_bags].astype(float), whole[:n_bags].astype(float))


if __name__ == "__main__":
    main()
