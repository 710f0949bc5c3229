"""Labels from random starts in LPLLP: never, whenever they are smoother, where totals support them.

    python benchmarks/random_starts.py                               # tables, XOR and Half-Kernel
    python benchmarks/random_starts.py --tables pima --sizes 32 64 --seeds 5

Accuracy on all rows, no label seen. Tables have their features scaled, and random bags. A cell is
printed with its seeds' mean; "offered" counts the seeds in which random starts were smoother.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.preprocessing import scale

from apportion import LPLLP
from apportion._core import evidence
from apportion._core.evidence import Refinement
from apportion.datasets import make_bags, make_half_kernel, make_xor

TABLES = Path(__file__).resolve().parents[2] / "shared" / "data" / "tables"
NAMES = ["pima", "wdbc", "ionosphere", "german", "banana", "mammographic"]
DESIGNS = {"A": [0.6, 0.4, 0.5], "B": [0.85, 0.25, 0.4]}
MOST_ROWS = 1000


def table(folder: Path, name: str, size: int, seed: int) -> tuple[Any, ...]:
    """Return rows, labels (odd against even classes if there are several), bags and totals."""
    frame = pd.read_csv(folder / f"{name}.csv")
    y = pd.factorize(frame["class"], sort=True)[0] % 2
    X = scale(pd.get_dummies(frame.drop(columns="class")).to_numpy(float))
    rows = np.random.RandomState(0).permutation(len(y))[:MOST_ROWS]
    rows = np.random.RandomState(seed).permutation(rows)
    n_bags = max(2, round(len(rows) / size))
    return X[rows], y[rows], *make_bags(None, y[rows], n_bags, random_state=seed + 100)


def cells(args: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Yield the name of each cell, and a function from a seed to rows, labels, bags and totals."""
    for name in args.tables:
        for size in args.sizes:
            yield f"{name} {size}", lambda seed, n=name, s=size: table(args.folder, n, s, seed)
    for make, name in ((make_xor, "XOR"), (make_half_kernel, "Half-Kernel")):
        for n_samples in args.rows:
            for design, shares in DESIGNS.items():

                def draw(seed: int, make=make, n=n_samples, shares=shares) -> tuple[Any, ...]:
                    X, y = make(n, random_state=seed)
                    return X, y, *make_bags(None, y, proportions=shares, random_state=seed)

                yield f"{name} {n_samples}{design}", draw


def fit(problem: tuple[Any, ...], mode: str) -> tuple[float, bool, float]:
    """Return the accuracy, whether random starts were taken, and the seconds."""
    X, y, bags, totals = problem
    rules = ("reason_against", "_by_held_out_totals", "_against_drawn_totals")
    kept = {name: getattr(evidence, name) for name in rules}
    try:
        if mode == "never":
            evidence.reason_against = lambda graph, bags: "never"
        if mode == "smoother":
            for name in rules[1:]:
                setattr(evidence, name, lambda *given: Refinement(True, "smoother", given[-1]))
        begin = time.perf_counter()
        model = LPLLP(random_state=0).fit(X, bags=bags, proportions=totals)
        seconds = time.perf_counter() - begin
    finally:
        for name, rule in kept.items():
            setattr(evidence, name, rule)
    return float((model.transduction_ == y).mean()), model.refinement_.taken, seconds


def main() -> None:
    """Print one line per cell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=TABLES)
    parser.add_argument("--tables", nargs="*", default=NAMES)
    parser.add_argument("--sizes", nargs="*", type=int, default=[16, 32, 64])
    parser.add_argument("--rows", nargs="*", type=int, default=[120, 300, 600])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = ["never", "smoother", "supported"]
    names = "".join(f"{name:>11}" for name in [*columns, "offered", "taken", "seconds"])
    print(f"{'cell':18}{names}")
    for cell, draw in cells(args):
        seeds = range(args.first, args.first + args.seeds)
        runs = [[fit(draw(seed), mode) for mode in columns] for seed in seeds]
        accuracy, taken, seconds = (np.array(x, float) for x in np.moveaxis(runs, 2, 0))
        means = "".join(f"{value:>11.4f}" for value in accuracy.mean(axis=0))
        counts = f"{taken[:, 1].sum():>11.0f}{taken[:, 2].sum():>11.0f}"
        print(f"{cell:18}{means}{counts}{seconds[:, 2].mean():>11.2f}", flush=True)


if __name__ == "__main__":
    main()
