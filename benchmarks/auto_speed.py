"""How long `AutoLLP` takes, of an old commit and now: CPU and wall seconds, memory, accuracy.

    python benchmarks/auto_speed.py COMMIT                         # about ten minutes
    python benchmarks/auto_speed.py COMMIT --rows 1000 10000 --repeat 3
    python benchmarks/auto_speed.py COMMIT --lpllp                 # LPLLP beside LabelSpreading
    python benchmarks/auto_speed.py COMMIT --standardized          # units tell nothing

The rows are three clustered classes (`make_classification`, 20 features, 10 of them informative) in
random bags of 16 rows up to 1,000 rows, else of 50. Every fit runs in a process of its own, which
has fitted a few rows before, so that imports do not count; old and new take turns, and the fastest
of several is printed. The measure is the ratio to one `LPLLP` fit of the old commit in the same
run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from old_and_new import extract

ROOT = Path(__file__).resolve().parents[1]
ROWS = (1_000, 10_000, 50_000)
SPREADING_ROWS = (1_000, 3_000, 10_000, 30_000, 100_000)

WORKER = """
import json, resource, sys, time, warnings
import numpy as np
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading
from apportion import LPLLP, AutoLLP, Totals
warnings.simplefilter("ignore")

def fitted(method, n):
    size = 16 if n <= 1000 else 50
    X, y = make_classification(n, 20, n_informative=10, n_classes=3, random_state=0)
    if standardized:
        X = StandardScaler().fit_transform(X)
    bags = np.random.default_rng(0).permutation(n) // size
    totals = Totals.from_labels(y, bags)
    started, clock = time.process_time(), time.perf_counter()
    if method == "LabelSpreading":
        known = np.where(np.arange(n) % 20 == 0, y, -1)
        labels = LabelSpreading("knn", n_neighbors=10).fit(X, known).transduction_
    else:
        model = {"LPLLP": LPLLP, "AutoLLP": AutoLLP}[method](random_state=0)
        labels = model.fit(X, bags=bags, proportions=totals).transduction_
    return {
        "cpu": time.process_time() - started,
        "wall": time.perf_counter() - clock,
        "accuracy": float((labels == y).mean()),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }

method, n, standardized = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "True"
fitted("LPLLP", 200)
fitted(method, 200)
print(json.dumps(fitted(method, n)))
"""


def measured(source: Path, method: str, n_rows: int, standardized: bool) -> dict[str, Any]:
    """Return what one fit of the code in a folder took."""
    answer = subprocess.run(
        [sys.executable, "-c", WORKER, method, str(n_rows), str(standardized)],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise SystemExit(answer.stderr)
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def compare(
    what: list[tuple[str, Path, str]], rows: list[int], asked: argparse.Namespace, unit: str
) -> None:
    """Print a line for each method and number of rows; ratios are to the one called `unit`."""
    print(f"{'rows':>8} {'':24} {'CPU s':>8} {'wall s':>8} {'× ' + unit:>16} {'accuracy':>9} MiB")
    for n_rows in rows:
        best: dict[str, dict[str, Any]] = {}
        for _ in range(asked.repeat):
            for name, source, method in what:
                found = measured(source, method, n_rows, asked.standardized)
                if name not in best or found["cpu"] < best[name]["cpu"]:
                    best[name] = found
        for name, found in best.items():
            ratio = found["cpu"] / best[unit]["cpu"]
            print(
                f"{n_rows:>8,} {name:24} {found['cpu']:8.2f} {found['wall']:8.2f} {ratio:16.1f} "
                f"{found['accuracy']:9.3f} {found['peak']:,.0f}",
                flush=True,
            )


def main() -> None:
    """Compare an old commit with this tree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="the old commit")
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--lpllp", action="store_true", help="LPLLP beside LabelSpreading(knn)")
    parser.add_argument("--without-old", action="store_true", help="leave out the old AutoLLP")
    parser.add_argument("--standardized", action="store_true", help="features of variance 1")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        old = extract(asked.commit, Path(folder))
        if asked.lpllp:
            what = [
                ("LabelSpreading", ROOT / "src", "LabelSpreading"),
                ("LPLLP, old", old, "LPLLP"),
                ("LPLLP", ROOT / "src", "LPLLP"),
            ]
            compare(what, asked.rows or list(SPREADING_ROWS), asked, "LabelSpreading")
            return
        what = [
            ("LPLLP, old", old, "LPLLP"),
            ("AutoLLP, old", old, "AutoLLP"),
            ("LPLLP", ROOT / "src", "LPLLP"),
            ("AutoLLP", ROOT / "src", "AutoLLP"),
        ]
        if asked.without_old:
            del what[1]
        compare(what, asked.rows or list(ROWS), asked, "LPLLP, old")


if __name__ == "__main__":
    main()
