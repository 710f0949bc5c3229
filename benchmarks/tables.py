"""Every method on public tables in random bags: accuracy, regret, rank, CPU seconds.

    python benchmarks/tables.py                                   # resumes; hours for everything
    python benchmarks/tables.py --tables pima wdbc --bag-sizes 16 --seeds 1    # a quick look
    python benchmarks/tables.py --methods AutoLLP --again         # after a change of its code
    python benchmarks/tables.py --summary --save-picture docs/images/reliability.png

Tables are CSV files with the class in the last column. Text is one-hot encoded, all columns are
standardized, and of larger tables a fixed random subset of the rows is taken. A cell is a table, a
bag size and a seed, which permutes the rows before they are cut into bags of that size; a remainder
of less than half a bag joins the bag before. Methods know the bags' exact totals, and accuracy is
that of the rows' labels under these totals. Regret is against the best single method of the cell;
"supervised" sees all labels and is cross-validated.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from candidates import Problem
from result_summary import draw_reliability, print_summary
from results import ResultFile, Task, add_options, chosen_methods, current, run

TABLES = Path(__file__).parents[2] / "shared" / "data" / "tables"
SIZES = (16, 64, 256)
LEAST_BAGS = 3
"""Cells with fewer bags are left out."""


@cache
def read_table(path: Path, most: int) -> tuple[Any, Any]:
    """Return standardized features and classes of at most so many rows, always the same."""
    with path.open(newline="") as file:
        _, *lines = csv.reader(file)
    cells = np.array(lines)
    rows = np.sort(np.random.RandomState(0).permutation(len(cells))[:most])
    features = np.hstack([encoded(column) for column in cells[rows, :-1].T])
    return standardized(features), cells[rows, -1]


def encoded(column: Any) -> Any:
    """Return a column of numbers as it is, and text as one column per word."""
    try:
        return column.astype(float)[:, None]
    except ValueError:
        return (column[:, None] == np.unique(column)).astype(float)


def standardized(X: Any) -> Any:
    """Return the columns that vary, with mean 0 and deviation 1."""
    X = X[:, np.ptp(X, axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0)


def random_bags(n: int, size: int, seed: int) -> Any:
    """Return each row's bag; a remainder of less than half a bag joins the bag before."""
    bags = np.minimum(np.arange(n) // size, n_bags(n, size) - 1)
    return bags[np.random.RandomState(seed).permutation(n)]


def n_bags(n: int, size: int) -> int:
    whole, rest = divmod(n, size)
    return max(whole + (2 * rest >= size), 1)


def draw(folder: Path, data: str, size: int, seed: int, most: int) -> Problem:
    """Return one cell."""
    from apportion import Totals

    X, y = read_table(folder / f"{data}.csv", most)
    bags = random_bags(len(y), size, seed)
    return Problem(X, y, bags, Totals.from_labels(y, bags))


def tasks_of(given: argparse.Namespace, chosen: Sequence[str]) -> list[Task]:
    """Return the fits to do, seed after seed; name the cells that are left out."""
    rows = {
        name: len(read_table(given.data / f"{name}.csv", given.rows)[1]) for name in given.tables
    }
    cells = list(product(given.tables, given.bag_sizes))
    left_out = [(name, size) for name, size in cells if n_bags(rows[name], size) < LEAST_BAGS]
    if left_out:
        names = ", ".join(f"{name} {size}" for name, size in left_out)
        print(f"left out, fewer than {LEAST_BAGS} bags: {names}")
    return [
        Task(name, size, seed, given.rows, method)
        for seed in range(given.seeds)
        for name, size in cells
        if (name, size) not in left_out
        for method in chosen
    ]


def tables_of(given: argparse.Namespace, parser: argparse.ArgumentParser) -> list[str]:
    """Return the tables that are asked for, by default all of the folder."""
    found = sorted(path.stem for path in given.data.glob("*.csv"))
    unknown = sorted(set(given.tables or []) - set(found))
    if unknown or not found:
        parser.error(f"no table {', '.join(unknown)} in {given.data}; it has {', '.join(found)}")
    return given.tables or found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=TABLES, help="a folder of CSV files")
    parser.add_argument("--tables", nargs="+", help="only these, by name")
    parser.add_argument("--bag-sizes", type=int, nargs="+", default=SIZES)
    add_options(parser, "tables.jsonl", rows=2000, seeds=3)
    given = parser.parse_args()
    chosen = chosen_methods(given.methods)
    file = ResultFile(given.results)
    if not given.summary:
        given.tables = tables_of(given, parser)
        run(tasks_of(given, chosen), partial(draw, given.data), file, given)
    rows = [
        row
        for row in current(file, given)
        if row["bags"] in given.bag_sizes and (not given.tables or row["data"] in given.tables)
    ]
    print(f"\ntables of at most {given.rows} rows, random bags, exact totals")
    print_summary(
        rows,
        lambda row: f"bags of {row['bags']}",
        chosen if given.methods else None,
        details=given.details,
    )
    if given.save_picture:
        draw_reliability(rows, given.save_picture)


if __name__ == "__main__":
    main()
