"""Leave-one-table-out for the constants behind AutoLLP's weights.

    python benchmarks/constants.py                     # fits what is not kept yet, then compares
    python benchmarks/constants.py --bag-sizes 64      # a quicker look

All candidates are fitted once per cell, and kept; averaging them with other constants takes no new
fit. Cells are those of `tables.py` with at least five bags, but in a draw of bags of its own. A
constant's values are compared by the mean accuracy over all tables. Then every table in turn is
left out, the value that is best on the others is taken, and its accuracy on the table left out
shows what choosing the value on these tables is worth on another one.
"""

from __future__ import annotations

import argparse
import pickle
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from apportion import AutoLLP
from apportion._core.projection import reconcile
from apportion.model_selection import _candidates, _weighing, _weights
from results import CACHE
from tables import SIZES, TABLES, draw, n_bags, read_table

SEED = 100
"""The draw of the bags."""

NOISE = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0)
LINEAR = (0.03, 0.1, 0.3, 1.0)


def kept_fits(folder: Path, data: Path, table: str, size: int, rows: int) -> dict[str, Any]:
    """Return the candidates of one cell, fitted now or before."""
    path = folder / f"{table}-{size}-{rows}.pickle"
    if path.exists():
        return pickle.loads(path.read_bytes())
    found: dict[str, Any] = {}
    weigh = _weights.weigh_candidates

    def keep(fitted: Any, problem: Any, held_out: Any) -> Any:
        without_models = [replace(one, model=None) for one in fitted]
        found.update(fitted=without_models, problem=problem, held_out=held_out)
        return weigh(fitted, problem, held_out)

    cell = draw(data, table, size, SEED, rows)
    with patch.object(_weighing, "weigh_candidates", keep):
        AutoLLP(random_state=0).fit(cell.X, bags=cell.bags, proportions=cell.totals)
    found.update(table=table, size=size, y=cell.y)
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(found))
    return found


def accuracy(cell: dict[str, Any], without: str | None = None) -> float:
    """Return the accuracy of a cell's labels under the constants of the moment."""
    problem = cell["problem"]
    fitted = [one for one in cell["fitted"] if one.candidate.name != without]
    weighing = _weights.weigh_candidates(fitted, problem, cell["held_out"])
    F = reconcile(weighing.final(weighing.average), problem.bags)
    labels = AutoLLP()._quota(problem.X, F, problem.bags).labels
    return float((problem.bags.classes[labels] == cell["y"]).mean())


def compare(
    title: str, cells: list[dict[str, Any]], values: dict[str, Callable[[Any], float]], ours: str
) -> None:
    """Print the accuracy of each value, and that of values chosen without the table."""
    found = {name: np.array([measure(cell) for cell in cells]) for name, measure in values.items()}
    tables = np.array([cell["table"] for cell in cells])
    print(f"\n{title}")
    for name, column in found.items():
        print(f"  {name:>24} {column.mean():.4f}{'  (ours)' if name == ours else ''}")
    chosen = np.empty(len(cells))
    for table in np.unique(tables):
        left = tables == table
        best = max(found, key=lambda name: found[name][~left].mean())
        chosen[left] = found[best][left]
    print(f"  {'chosen without the table':>24} {chosen.mean():.4f}")


def under(module: Any, name: str, value: float) -> Callable[[dict[str, Any]], float]:
    def measure(cell: dict[str, Any]) -> float:
        with patch.object(module, name, value):
            return accuracy(cell)

    return measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=TABLES, help="a folder of CSV files")
    parser.add_argument("--bag-sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--rows", type=int, default=1000, help="at most so many rows of a table")
    parser.add_argument("--kept", type=Path, default=CACHE / "constants", help="a folder for fits")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    names = [
        (path.stem, size)
        for path in sorted(given.data.glob("*.csv"))
        for size in given.bag_sizes
        if n_bags(len(read_table(path, given.rows)[1]), size) >= 5
    ]
    cells = []
    for number, (table, size) in enumerate(names, start=1):
        print(f"\r\033[K{number}/{len(names)} {table}, bags of {size}", end="", flush=True)
        cells.append(kept_fits(given.kept, given.data, table, size, given.rows))
    print(f"\n{len(cells)} cells, at most {given.rows} rows, bags of {given.bag_sizes}")
    noise = {f"{value:g}": under(_weights, "_NOISE", value) for value in NOISE}
    compare("log-likelihoods that are noise", cells, noise, f"{_weights._NOISE:g}")
    linear = {f"{value:g}": under(_candidates, "_LINEAR", value) for value in LINEAR}
    compare("prior weight of linear rules", cells, linear, f"{_candidates._LINEAR:g}")
    left_out = {"none": accuracy} | {
        one: lambda cell, one=one: accuracy(cell, without=one) for one in _candidates.DEFAULT
    }
    compare("candidate left out", cells, left_out, "none")


if __name__ == "__main__":
    main()
