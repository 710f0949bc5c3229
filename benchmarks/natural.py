"""Every method on natural bags: SPHERE by the clock, WISDM by user, made-up weeks by day.

    python benchmarks/natural.py                                  # resumes
    python benchmarks/natural.py --sets weeks --seeds 1           # a quick look
    python benchmarks/natural.py --summary

- SPHERE: annotated seconds of ten people in five groups of activities, the features and bags of
  `experiments`: 60 or 300 s of one recording. Seeds move the clock at which bags change. Seconds
  whose annotators are of two minds count in the totals and are not scored.
- WISDM: 5,418 windows of a phone, six activities; the bags are its 36 users, so that there is one
  seed.
- weeks: made-up homes, 5-minute windows of a week of three people, eight activities; the bags are
  their days, the features what sensors see (`acc_*`, `pir_*`, `light`), not the hour. Seeds make
  up other people.

Of sets with more rows than the limit, a random choice of whole bags is taken, so that bags keep
their size. Totals are exact. "supervised" learns from the labels of other people (SPHERE, WISDM)
or other days (weeks), and knows no totals: it is no bound for methods that know a person's totals.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # for `experiments`, which is not installed

from candidates import Problem  # noqa: E402
from result_summary import draw_reliability, print_summary  # noqa: E402
from results import ResultFile, Task, add_options, chosen_methods, current, run  # noqa: E402

DATA = ROOT.parent / "shared" / "data"
SETS = {"SPHERE": ("60 s", "300 s"), "WISDM": ("user",), "weeks": ("day",)}
"""The bags of each data set."""

WISDM_FILE = "WISDM_ar_v1.1_transformed.arff"


def draw(folder: Path, data: str, bags: str, seed: int, most: int) -> Problem:
    """Return one cell."""
    if data == "SPHERE":
        return sphere(folder / "sphere", float(bags.split()[0]), seed, most)
    return wisdm(folder / "wisdm", most) if data == "WISDM" else week(seed, most)


def sphere(folder: Path, period: float, seed: int, most: int) -> Problem:
    """Return seconds of a smart home, in bags of one person's consecutive seconds."""
    from apportion import Totals
    from apportion.datasets import FIVE_GROUPS, make_bags

    windows, X = sphere_windows(folder)
    shares = windows.grouped(FIVE_GROUPS)
    bags, _ = make_bags(
        None,
        shares,
        strategy="time",
        time=windows.start + period * seed / 5,
        period=period,
        groups=windows.participant,
    )
    kept = whole_bags(bags, most, seed)
    shares, bags = shares[kept], bags[kept]
    names = list(FIVE_GROUPS)
    ranked = np.sort(shares, axis=1)
    return Problem(
        X[kept],
        np.array(names)[shares.argmax(axis=1)],
        bags,
        Totals.from_labels(shares, bags, classes=names),
        groups=windows.participant[kept],
        scored=ranked[:, -1] > ranked[:, -2] + 1e-9,
    )


@cache
def sphere_windows(folder: Path) -> tuple[Any, Any]:
    """Return the annotated seconds and their standardized features."""
    from apportion.datasets import load_sphere
    from experiments.sphere_recipes import day_recipe

    recorded = load_sphere(folder)
    return recorded.labeled(), day_recipe(recorded)


@cache
def wisdm(folder: Path, most: int) -> Problem:
    """Return windows of a phone in the pocket, users as bags."""
    X, columns = wisdm_windows(folder)
    users = columns["user"]
    kept = whole_bags(np.unique(users, return_inverse=True)[1], most, 0)
    return exact(X[kept], columns["class"][kept], users[kept])


def wisdm_windows(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Return the features of the windows, and the columns `UNIQUE_ID`, `user` and `class`."""
    from apportion._io.read import read_columns

    table = read_columns(folder / WISDM_FILE)
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    others = {name: np.array(columns.pop(name)) for name in ("UNIQUE_ID", "user", "class")}
    X = np.array(list(columns.values()), dtype=float).T
    return X, others | {"user": others["user"].astype(str)}


def week(seed: int, most: int) -> Problem:
    """Return a made-up week of three people, their days as bags."""
    from apportion.datasets import make_smart_home

    home = make_smart_home(7, 3, seed=seed, minutes=5)
    seen = [name for name in home.windows if name.startswith(("acc_", "pir_", "light"))]
    X = np.column_stack([home.windows[name] for name in seen]).astype(float)
    day = home.windows["start"].astype("M8[D]").astype(str)
    bags = np.char.add(np.char.add(home.windows["participant"], " "), day)
    kept = whole_bags(np.unique(bags, return_inverse=True)[1], most, seed)
    return exact(X[kept], home.activities[kept], bags[kept])


def exact(X: Any, y: Any, bags: Any) -> Problem:
    """Return standardized rows with the exact totals of their bags; no two folds share a bag."""
    from apportion import Totals
    from experiments.sphere_recipes import standardized

    return Problem(standardized(X), y, bags, Totals.from_labels(y, bags), groups=bags)


def whole_bags(bags: Any, most: int, seed: int) -> Any:
    """Return the rows of as many bags, drawn at random, as have at most so many rows together."""
    sizes = np.bincount(bags)
    order = np.random.RandomState(seed).permutation(len(sizes))
    chosen = order[np.cumsum(sizes[order]) <= most]
    return np.flatnonzero(np.isin(bags, chosen))


def tasks_of(given: argparse.Namespace, chosen: Sequence[str]) -> list[Task]:
    """Return the fits to do; name the data that are not there."""
    needed = {"SPHERE": given.data / "sphere", "WISDM": given.data / "wisdm" / WISDM_FILE}
    missing = [name for name in given.sets if name in needed and not needed[name].exists()]
    for name in missing:
        print(f"{name} is left out: there is no {needed[name]}")
    return [
        Task(name, bags, seed, given.rows, method)
        for seed in range(given.seeds)
        for name in given.sets
        for bags in SETS[name]
        for method in chosen
        if name not in missing and (seed == 0 or name != "WISDM")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    help_text = "a folder with `sphere` and `wisdm` in it"
    parser.add_argument("--data", type=Path, default=DATA, help=help_text)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    add_options(parser, "natural.jsonl", rows=6100, seeds=3)
    given = parser.parse_args()
    chosen = chosen_methods(given.methods)
    file = ResultFile(given.results)
    if not given.summary:
        run(tasks_of(given, chosen), partial(draw, given.data), file, given)
    rows = [row for row in current(file, given) if row["data"] in given.sets]
    print(f"\nnatural bags with exact totals; whole bags of at most {given.rows} rows together")
    print_summary(rows, group_of, chosen if given.methods else None, details=given.details)
    if given.save_picture:
        draw_reliability(rows, given.save_picture)


def group_of(row: dict[str, Any]) -> str:
    return f"{row['data']}, bags: {row['bags']}"


if __name__ == "__main__":
    main()
