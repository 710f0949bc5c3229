"""Accuracy after answers: rows of `suggest_rows`, random rows, and the least confident rows.

    python benchmarks/active.py --sphere FOLDER --tables FOLDER   # resumes
    python benchmarks/active.py --sets digits --seeds 2           # a quick look
    python benchmarks/active.py --sets satimage --reach 0.5 0.8 0.9 0.97    # choose a constant
    python benchmarks/active.py --sets digits --method auto --seeds 3
    python benchmarks/active.py --speed                           # 20,000 rows, 10 classes
    python benchmarks/active.py --summary

A method labels rows from exact totals. Then 50 rows are asked about in batches of 10, their true
labels are given, and the method is fitted anew after each batch. Printed are the mean accuracy over
seeds and its standard error after 0, 10, 20 and 50 answers, on all rows and, after the bar, on rows
that were not asked about. "suggest - random" is the mean difference of the same seed, with its
standard error; "bags" and "classes" are how many of each the first ten questions are of.

- SPHERE: annotated seconds of ten people in five groups of activities, the features of
  `natural.py`; bags are 300 s of one recording, of which a random choice is taken. Totals are those
  of the likeliest activity; seconds whose annotators are of two minds are neither asked about nor
  scored.
- digits (scikit-learn), segment, satimage: tables in random bags, as in `tables.py`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from candidates import Problem
from natural import DATA, sphere
from results import CACHE, ResultFile, Row, Task, code
from tables import TABLES, random_bags, read_table, standardized

BATCH, ANSWERS = 10, 50
SHOWN = (0, 10, 20, 50)
SIZES = {"SPHERE": 300, "digits": 200, "segment": 256, "satimage": 256}
"""The seconds, or rows, of a bag: large enough that the first labels are far from right."""

SETS = ("SPHERE", "digits", "segment")
"""The sets that are measured; `satimage` is the one on which the constant was chosen."""

SPREAD = ("bags", "classes")

SUGGEST, RANDOM, LEAST = "suggest_rows", "random", "least confident"

Choose = Callable[[Any, Any, Any, int], Any]
"""From a model, which rows may be asked about, a generator and a number to rows."""


def draw(data: str, seed: int, given: argparse.Namespace) -> Problem:
    """Return rows, truth, bags and exact totals."""
    from apportion import Totals

    if data == "SPHERE":
        drawn = sphere(given.sphere, SIZES[data], seed, given.rows)
        return replace(drawn, totals=Totals.from_labels(drawn.y, drawn.bags))
    if data == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        X, y = standardized(X[: given.rows]), y[: given.rows].astype(str)
    else:
        X, y = read_table(given.tables / f"{data}.csv", given.rows)
    bags = random_bags(len(y), SIZES[data], seed)
    return Problem(X, y, bags, Totals.from_labels(y, bags))


def available(given: argparse.Namespace) -> list[str]:
    """Return the sets whose data are there; name the others."""
    needed = {data: given.tables / f"{data}.csv" for data in SIZES if data != "digits"}
    needed["SPHERE"] = given.sphere
    missing = [data for data in given.sets if data in needed and not needed[data].exists()]
    for data in missing:
        print(f"{data} is left out: there is no {needed[data]}")
    return [data for data in given.sets if data not in missing]


def suggested(reach: float | None = None) -> Choose:
    """Return the choice of `suggest_rows`, perhaps with another constant."""

    def choose(model: Any, free: Any, rng: Any, n: int) -> Any:
        from apportion import suggest_rows
        from apportion._core import error_field

        before = error_field.REACH
        error_field.REACH = before if reach is None else reach
        try:
            return suggest_rows(model, n_rows=n, skip=~free).rows
        finally:
            error_field.REACH = before

    return choose


def at_random(model: Any, free: Any, rng: Any, n: int) -> Any:
    return rng.choice(np.flatnonzero(free), n, replace=False)


def least_confident(model: Any, free: Any, rng: Any, n: int) -> Any:
    rows = rng.permutation(np.flatnonzero(free))
    return rows[np.argsort(model.label_distributions_[rows].max(axis=1), kind="stable")[:n]]


def estimator(method: str, seed: int) -> Any:
    from apportion import LPLLP, AutoLLP

    return LPLLP(random_state=seed) if method == "lpllp" else AutoLLP(random_state=seed)


def simulate(problem: Problem, choose: Choose, method: str, seed: int) -> Row:
    """Return the accuracies after each batch of answers."""
    rng, free = np.random.RandomState(seed), problem.is_scored.copy()
    answers = np.full(len(problem.y), None, dtype=object)
    row: Row = {"all": [], "others": [], "seconds": 0.0}
    while True:
        model = estimator(method, seed)
        model.fit(problem.X, answers, bags=problem.bags, proportions=problem.totals)
        right = model.transduction_ == problem.y
        row["all"].append(float(right[problem.is_scored].mean()))
        row["others"].append(float(right[free].mean()))
        if (~free & problem.is_scored).sum() >= ANSWERS:
            return row
        started = time.process_time()
        asked = choose(model, free, rng, BATCH)
        row["seconds"] += time.process_time() - started
        if len(row["all"]) == 1:
            row["bags_asked"] = len(np.unique(problem.bags[asked]))
            row["classes_asked"] = len(np.unique(problem.y[asked]))
        if not len(asked):  # no row is uncertain
            n_left = 1 + ANSWERS // BATCH - len(row["all"])
            return {**row, **{k: row[k] + row[k][-1:] * n_left for k in ("all", "others")}}
        answers[asked], free[asked] = problem.y[asked], False


def strategies(reach: Sequence[float] | None) -> dict[str, Choose]:
    """Return the ways to choose rows, by name."""
    if reach:
        return {f"{SUGGEST}, reach {alpha:g}": suggested(alpha) for alpha in reach}
    return {SUGGEST: suggested(), RANDOM: at_random, LEAST: least_confident}


def run(given: argparse.Namespace, file: ResultFile, chosen: dict[str, Choose]) -> None:
    """Simulate what is not in the file yet."""
    done = file.rows()
    for data in given.sets:
        for seed in range(given.seeds):
            problem = None
            for name, choose in chosen.items():
                task = (data, SIZES[data], seed, given.rows, name)
                if (*task, given.method) in done and not given.again:
                    continue
                problem = problem or draw(data, seed, given)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    row = simulate(problem, choose, given.method, seed)
                row |= Task(*task)._asdict() | {"settings": given.method, "code": code()}
                row |= {"n": len(problem.y), "n_bags": len(np.unique(problem.bags))}
                file.add(row)
                print(f"{data}, seed {seed}, {name}: {row['all'][-1]:.3f}", file=sys.stderr)


def summarize(given: argparse.Namespace, file: ResultFile, chosen: dict[str, Choose]) -> None:
    """Print the mean accuracies of each data set."""
    rows = [row for row in file.rows().values() if row["settings"] == given.method]
    rows = [row for row in rows if row["rows"] == given.rows and row["seed"] < given.seeds]
    for data in given.sets:
        of = {
            name: {r["seed"]: r for r in rows if r["data"] == data and r["method"] == name}
            for name in chosen
        }
        if not all(of.values()):
            continue
        some = next(iter(of.values()))
        first = next(iter(some.values()))
        unit = "s" if data == "SPHERE" else "rows"
        print(
            f"\n{data}: {first['n']} rows, {first['n_bags']} bags of {SIZES[data]} {unit}, method "
            f"{given.method}, {len(some)} seeds; after {SHOWN} answers, all rows | others"
        )
        for name, by_seed in of.items():
            cells = [mean_and_error([r[k] for r in by_seed.values()]) for k in ("all", "others")]
            spread = [
                np.mean([r[k] for r in by_seed.values()]) for k in ("bags_asked", "classes_asked")
            ]
            print(
                f"  {name:<26} {cells[0]} | {cells[1]}   bags {spread[0]:.1f}, classes "
                f"{spread[1]:.1f}"
            )
        for other in (RANDOM, LEAST):
            if SUGGEST in of and other in of:
                print(f"  {f'suggest - {other}':<26} {difference(of[SUGGEST], of[other])}")


def mean_and_error(curves: Sequence[Sequence[float]], sign: str = "") -> str:
    values = np.array(curves)[:, [k // BATCH for k in SHOWN]]
    errors = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0 * values[0]
    pairs = zip(values.mean(axis=0), errors, strict=True)
    return " ".join(f"{mean:{sign}.3f} ±{error:.3f}" for mean, error in pairs)


def difference(ours: dict[int, Row], others: dict[int, Row]) -> str:
    seeds = sorted(ours.keys() & others.keys())
    return mean_and_error(
        [np.subtract(ours[seed]["all"], others[seed]["all"]) for seed in seeds], "+"
    )


def speed() -> None:
    """Print how long suggestions take for 20,000 rows and 10 classes."""
    from sklearn.datasets import make_blobs

    from apportion import LPLLP, Totals, suggest_bags, suggest_rows

    X, y = make_blobs(20_000, 10, centers=10, cluster_std=6, random_state=0)
    bags = np.arange(len(y)) // 200
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LPLLP(tol=1e-3, max_iter=30, refine=False)
        model.fit(X, bags=bags, proportions=Totals.from_labels(y, bags))
    for name, ask in (
        ("suggest_rows", lambda: suggest_rows(model)),
        ("suggest_bags", lambda: suggest_bags(model, times=np.arange(len(y)))),
    ):
        wall, cpu = time.perf_counter(), time.process_time()
        ask()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(f"{name}: 20,000 rows, 10 classes, 100 bags: {wall:.1f} s, {cpu:.1f} CPU-seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sphere", type=Path, default=DATA / "sphere", help="folder of SPHERE")
    parser.add_argument("--tables", type=Path, default=TABLES, help="a folder of CSV files")
    parser.add_argument(
        "--sets", nargs="+", choices=list(SIZES), default=["SPHERE", "digits", "segment"]
    )
    parser.add_argument("--method", choices=["lpllp", "auto"], default="lpllp")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--reach", type=float, nargs="+", help="compare these constants instead")
    parser.add_argument("--again", action="store_true", help="compute what is there anew")
    parser.add_argument("--summary", action="store_true", help="print what is there")
    parser.add_argument("--speed", action="store_true", help="only time the suggestions")
    parser.add_argument("--results", type=Path, default=CACHE / "active.jsonl")
    given = parser.parse_args()
    if given.speed:
        speed()
        return
    file, chosen = ResultFile(given.results), strategies(given.reach)
    if not given.summary:
        given.sets = available(given)
        run(given, file, chosen)
    summarize(given, file, chosen)


if __name__ == "__main__":
    main()
