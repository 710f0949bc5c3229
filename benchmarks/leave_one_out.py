"""What each method adds to the average of `AutoLLP`: its accuracy without it, or with one more.

    python benchmarks/leave_one_out.py                                  # about half an hour
    python benchmarks/leave_one_out.py --sets tables --seeds 1          # a quick look
    python benchmarks/leave_one_out.py --add em lpllp --sets natural

Every method is fitted once per cell, to all bags and without each fold, and averages of subsets
are weighed anew, as `AutoLLP` weighs them. Labels are those of the average under the bags' totals,
before anything is smoothed or refined on a graph; on Adult (`published.py`), labels of new rows.
Printed are mean changes of accuracy, and the worst, of all cells of a set. "tables" are those of
`tables.py`, "natural" the bags of `natural.py`, "clusters" made by `make_classification`.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

import natural
import published
import tables
from candidates import Problem

CLUSTERS = ((1_000, 16), (3_000, 16), (3_000, 50), (10_000, 50))
"""Rows and bag sizes."""

Cell = tuple[str, str, tuple[Any, ...]]


def cells(sets: list[str], seeds: int, rows: int) -> Iterator[Cell]:
    """Return what to fit: a set, what it is counted under, and how it is drawn."""
    for seed in range(seeds):
        if "adult" in sets:
            for name in published.PUBLISHED:
                yield "adult", "adult", (name, published.SEEDS[seed])
        if "natural" in sets:
            for data, kinds in natural.SETS.items():
                for kind in kinds:
                    if seed == 0 or data != "WISDM":
                        yield "natural", "natural", (data, kind, seed, rows)
        if "clusters" in sets:
            for n, size in CLUSTERS:
                yield "clusters", "clusters", (n, size, seed)
        if "tables" in sets:
            for path in sorted(tables.TABLES.glob("*.csv")):
                for size in tables.SIZES:
                    yield "tables", f"bags of {size}", (path.stem, size, seed, rows)


def drawn(kind: str, how: tuple[Any, ...]) -> tuple[Problem, Any, Any]:
    """Return a problem, and new rows with their labels if it has some."""
    if kind == "adult":
        from apportion import Totals

        one = published.Adult(published.DATA).problem(*how)
        totals = Totals.from_labels(one.y, one.bags)
        return Problem(one.X, one.y, one.bags, totals), one.new_rows, one.new_y
    if kind == "natural":
        return natural.draw(natural.DATA, *how), None, None
    if kind == "tables":
        return tables.draw(tables.TABLES, *how), None, None
    return clusters(*how), None, None


def clusters(n: int, size: int, seed: int) -> Problem:
    """Return three classes of two clusters each, in random bags."""
    from sklearn.datasets import make_classification

    from apportion import Totals

    X, y = make_classification(n, 20, n_informative=10, n_classes=3, random_state=seed)
    bags = np.random.RandomState(seed).permutation(n) // size
    return Problem(X, y, bags, Totals.from_labels(y, bags))


def accuracies(cell: Cell, more: tuple[str, ...]) -> dict[str, float] | None:
    """Return the accuracy of the average, without each method, and with others."""
    from apportion import AutoLLP
    from apportion._core.decode import quota
    from apportion._core.projection import reconcile
    from apportion._utils.hashing import hash_ranks
    from apportion._utils.threads import reproducible_sums
    from apportion.estimators._feature_maps import Standardization
    from apportion.estimators._prepared import Prepared
    from apportion.model_selection import _candidate_fits as fits
    from apportion.model_selection._candidates import DEFAULT, NAMED
    from apportion.model_selection._weights import weigh_candidates

    warnings.simplefilter("ignore")
    kind, _, how = cell
    one, new_rows, new_y = drawn(kind, how)
    model = AutoLLP()
    with reproducible_sums():
        bags = model._matched(one.X, None, one.bags, one.totals)
        X = model._checked_rows(one.X, reset=True)
        standardization = Standardization.of(X)
        problem = fits.Problem(Prepared(X), standardization(X), bags, 0)
        folds, n_folds = fits.bag_folds(problem, 5)
        if not n_folds:
            return None
        asked = [NAMED[name] for name in (*DEFAULT, *more)]
        usable = [candidate for candidate in asked if candidate.most_rows >= len(X)]
        found = fits.fit_candidates(problem, usable, folds, n_folds, None).fitted
        held_out = (folds >= 0) & (folds < n_folds)

        def accuracy(names: set[str]) -> float:
            some = [fit for fit in found if fit.candidate.name in names]
            result = weigh_candidates(some, problem, held_out)
            if new_rows is None:
                F = reconcile(result.final(result.average), bags)
                labels = quota(F, bags, hash_ranks(X, len(X))).labels
                return one.accuracy(bags.classes[labels])
            rows = standardization(new_rows)
            weighed = zip(some, result.weights, result.calibrations, strict=True)
            average = sum(w * c(fit.model.predict_proba(rows)) for fit, w, c in weighed if w)
            P = result.final(average) if result.learned else np.tile(bags.overall, (len(rows), 1))
            return float((bags.classes[P.argmax(axis=1)] == new_y).mean())

        default = set(DEFAULT)
        result = {"": accuracy(default)}
        result |= {f"without {name}": accuracy(default - {name}) for name in DEFAULT}
        return result | {f"with {name}": accuracy(default | {name}) for name in more}


def print_table(found: dict[str, list[dict[str, float]]]) -> None:
    """Print mean and worst change for every group of cells."""
    groups = sorted(found)
    print(f"{'':28}" + "".join(f"{f'{group} ({len(found[group])})':>18}" for group in groups))
    for name in next(iter(found.values()))[0]:
        line = f"{name or 'AutoLLP, the average':28}"
        for group in groups:
            own = np.array([one[name] for one in found[group]])
            change = own - [one[""] for one in found[group]]
            cell = f"{change.mean():+.4f} ({change.min():+.3f})" if name else f"{own.mean():.4f}"
            line += f"{cell:>18}"
        print(line)


def main() -> None:
    """Fit all cells, one process per core, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = ["tables", "natural", "clusters", "adult"]
    parser.add_argument("--sets", nargs="+", choices=every, default=every)
    parser.add_argument("--seeds", type=int, default=1, choices=[1, 2, 3])
    parser.add_argument("--rows", type=int, default=2000, help="at most so many of every set")
    parser.add_argument("--add", nargs="+", default=[], help="methods that are no default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    asked = list(cells(given.sets, given.seeds, given.rows))
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        every_cell = pool.map(partial(accuracies, more=tuple(given.add)), asked)
        for number, (cell, one) in enumerate(zip(asked, every_cell, strict=True), 1):
            print(f"[{number}/{len(asked)}] {' '.join(map(str, cell[2]))}", flush=True)
            if one is not None:
                found[cell[1]].append(one)
    print_table(found)


if __name__ == "__main__":
    main()
