"""The whole way on a local cluster: Parquet files, `apportion cluster`, labels beside them.

    python examples/cluster.py [FOLDER]

Makes up rows of three kinds in bags that lie across the files, labels them on two worker processes,
and holds the labels against the truth and against those that one machine finds.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from apportion import LPLLP, AnchorGraph, Totals

ROWS, FILES, BAG_ROWS = 200_000, 4, 1_000


def main(folder: Path) -> None:
    X, y, bags = made_up()
    rows = folder / "rows"
    rows.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(np.array_split(np.arange(ROWS), FILES)):
        columns = {f"x{j}": X[part, j] for j in range(X.shape[1])}
        table = pa.table({"row": part, "district": bags[part], **columns})
        pq.write_table(table, rows / f"part-{number}.parquet")
    write_totals(y, bags, folder / "totals.csv")
    totals = Totals.from_labels(y, bags)
    print(f"{ROWS:,} rows in {FILES} files, {len(totals.ids)} bags, most of them in several files")

    labels = folder / "labels"
    words = ["cluster", rows, "--bags", "district", "--proportions", folder / "totals.csv"]
    words += [f"--features=x{j}" for j in range(X.shape[1])]
    words += ["--keep", "row", "--workers", 2, "--output", labels, "--force"]
    command = ["apportion", *map(str, words)]
    print(f"$ {shlex.join(command)}\n", flush=True)
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", *command], check=True)
    print(f"\n{time.perf_counter() - started:.0f} s on the cluster")

    found = pq.read_table(labels)
    label = np.empty(ROWS, dtype=object)
    label[found["row"].to_numpy()] = found["label"].to_pylist()
    print(f"{np.mean(label == y):.1%} of the labels are right")
    started = time.perf_counter()
    alone = LPLLP(AnchorGraph(), random_state=0).fit(X, bags=bags, proportions=totals)
    seconds = time.perf_counter() - started
    differ = int((alone.transduction_ != label).sum())
    print(f"{differ} differ from those of one process ({seconds:.0f} s)")


def made_up() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of three overlapping kinds, the kinds, and bags that differ in their shares."""
    rng = np.random.default_rng(0)
    n_bags = ROWS // BAG_ROWS
    shares = rng.dirichlet([2.0, 2.0, 2.0], size=n_bags)
    bags = np.sort(rng.integers(n_bags, size=ROWS))
    bags = bags[np.argsort(np.arange(ROWS) + rng.normal(0, ROWS / 8, ROWS))]
    kinds = (rng.random(ROWS)[:, None] > np.cumsum(shares, axis=1)[bags]).sum(axis=1)
    centers = rng.normal(size=(3, 8)) * 1.6
    X = centers[np.minimum(kinds, 2)] + rng.normal(size=(ROWS, 8))
    return X, np.array(["a", "b", "c"], dtype=object)[np.minimum(kinds, 2)], bags


def write_totals(y: np.ndarray, bags: np.ndarray, path: Path) -> None:
    classes, labels = np.unique(y.astype(str), return_inverse=True)
    counts = np.zeros((bags.max() + 1, len(classes)), dtype=int)
    np.add.at(counts, (bags, labels), 1)
    lines = [",".join(["district", *classes])]
    lines += [",".join(map(str, [bag, *line])) for bag, line in enumerate(counts.tolist())]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
