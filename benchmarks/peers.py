"""Peers on the same rows, in one run: seconds, ratios and neighbors found.

    python benchmarks/peers.py                     # 10,000 and 100,000 rows, about 15 minutes
    python benchmarks/peers.py --sizes 10000       # a quick look
    python benchmarks/peers.py --llp-learn PYTHON  # a Python that has llp-learn, for its rows

Needs `pip install graphlearning annoy` for GraphLearning, which is left out where it is absent.
Overlapping clusters in 20 dimensions, float32, two classes, bags of 50 rows, k = 10 neighbors.
`LPLLP` sees the bags' totals and no label; LabelSpreading and GraphLearning, which propagate labels
and know no bags, are given the labels of 1 % of the rows. Accuracies are therefore of different
problems; times are of a complete fit. Every fit runs in a process of its own after a small one that
loads the libraries; times are medians of the repetitions, which take turns.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
K = 10
DENSE_ROWS = 20_000
METHODS = [
    "LPLLP(knn)",
    "LPLLP(anchor)",
    "LabelSpreading(knn)",
    "LabelSpreading(rbf)",
    "GraphLearning laplace",
    "GraphLearning poisson",
    "GraphLearning VolumeMBO",
]
LLP_LEARN = ["EM logistic", "alterSVM linear"]


def prepared(n: int) -> tuple[Any, Any, Any, Any]:
    """Return rows, labels, bags, and the rows whose labels the peers may see."""
    from clusters import overlapping_clusters

    X, y, bags = overlapping_clusters(n)
    return X, y, bags, np.random.default_rng(2).permutation(n)[: max(n // 100, 20)]


def fit_once(name: str, n: int) -> dict[str, float]:
    """Fit one method to n rows; return seconds, accuracy and the recall of its neighbors."""
    X, y, bags, seen = prepared(n)
    lists: Any = None
    start = time.perf_counter()
    if name.startswith("LPLLP"):
        from apportion import LPLLP, Totals

        totals = Totals.from_labels(y, bags)
        start = time.perf_counter()
        model = LPLLP(name[6:-1]).fit(X, bags=bags, proportions=totals)
        seconds = time.perf_counter() - start
        labels = model.transduction_
        if name == "LPLLP(knn)":
            found = model.graph_._lists
            order = np.lexsort(found.points.T)
            back = np.lexsort(X.T)
            lists = np.empty_like(found.neighbors)
            input_row = np.empty(n, dtype=np.intp)
            input_row[order] = back
            lists[input_row] = input_row[found.neighbors]
    elif name.startswith("LabelSpreading"):
        from sklearn.semi_supervised import LabelSpreading

        given = np.full(n, -1)
        given[seen] = y[seen]
        spread = LabelSpreading(kernel=name[15:-1], n_neighbors=K, gamma=0.05).fit(X, given)
        seconds = time.perf_counter() - start
        labels = spread.transduction_
    else:
        import graphlearning as gl

        knn = gl.weightmatrix.knnsearch(X, K + 1)
        W = gl.weightmatrix.knn(X, K, knn_data=knn)
        solver = {
            "laplace": lambda: gl.ssl.laplace(W),
            "poisson": lambda: gl.ssl.poisson(W),
            "VolumeMBO": lambda: gl.ssl.volume_mbo(W, class_priors=np.bincount(y) / n),
        }[name.split()[1]]()
        labels = solver.fit_predict(seen, y[seen])
        seconds = time.perf_counter() - start
        lists = knn[0]
    return {
        "seconds": seconds,
        "accuracy": float((labels == y).mean()),
        "recall": np.nan if lists is None else _recall(X, lists),
    }


def _recall(X: Any, lists: Any, n_sample: int = 1000) -> float:
    """Return the share of true neighbors on the lists of a sample."""
    from sklearn.neighbors import NearestNeighbors

    sample = np.random.default_rng(3).choice(len(X), min(n_sample, len(X)), replace=False)
    truth = NearestNeighbors(n_neighbors=K + 1, algorithm="brute").fit(X)
    near = truth.kneighbors(X[sample], return_distance=False)
    shares = [
        len(set(true[true != row][:K]) & set(lists[row])) / K
        for row, true in zip(sample, near, strict=True)
    ]
    return float(np.mean(shares))


def in_a_process(name: str, n: int, limit: float) -> dict[str, float] | None:
    """Fit once in a process of its own; None when it takes too long or fails."""
    command = [sys.executable, str(HERE / "peers.py"), "--worker", json.dumps([name, n])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=True)
    except subprocess.TimeoutExpired:
        return None
    except subprocess.CalledProcessError as error:
        print(f"{name}: {error.stderr.splitlines()[-1]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def llp_learn(python: str, name: str, n: int, limit: float) -> dict[str, float] | None:
    """Fit a method of llp-learn in its own environment."""
    X, y, bags, _ = prepared(n)
    shares = np.column_stack([np.bincount(bags, y == h) / np.bincount(bags) for h in (0, 1)])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.npz"
        np.savez(file, X=X.astype(np.float64), y=y, bags=bags, shares=shares)
        command = [python, str(HERE / "llp_learn_worker.py"), "--worker", name, str(file)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, check=True
            )
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
            return None
    line = json.loads(done.stdout.splitlines()[-1])
    return {"seconds": line["wall"], "accuracy": line["totals"], "recall": np.nan}


def print_table(n: int, results: dict[str, list[dict[str, float] | None]], limit: float) -> None:
    """Print medians, and ratios to LPLLP with nearest neighbors."""
    ours = np.median([run["seconds"] for run in results["LPLLP(knn)"] if run])
    print(f"\n{n:,} rows              seconds   / LPLLP(knn)   recall   accuracy")
    for name, runs in results.items():
        done = [run for run in runs if run]
        if not done:
            print(f"{name:25s} not within {limit:.0f} s")
            continue
        seconds = np.median([run["seconds"] for run in done])
        recall = "" if np.isnan(done[0]["recall"]) else f"{done[0]['recall']:.3f}"
        print(
            f"{name:25s} {seconds:7.2f} {seconds / ours:14.2f} {recall:>8s} "
            f"{done[0]['accuracy']:10.4f}"
        )


def print_claims(results: dict[int, dict[str, list[dict[str, float] | None]]]) -> None:
    """Print what must hold, and whether it does."""

    def seconds(n: int, name: str) -> float:
        runs = [run["seconds"] for run in results.get(n, {}).get(name, []) if run]
        return float(np.median(runs)) if runs else np.nan

    def recall(n: int, name: str) -> float:
        runs = [run["recall"] for run in results.get(n, {}).get(name, []) if run]
        return runs[0] if runs else np.nan

    small, large = 10_000, 100_000
    claims = [
        (
            "10k rows: LPLLP(knn) / LabelSpreading(knn)",
            seconds(small, "LPLLP(knn)") / seconds(small, "LabelSpreading(knn)"),
            2.0,
        ),
        (
            "100k rows: LPLLP(knn) / LabelSpreading(knn)",
            seconds(large, "LPLLP(knn)") / seconds(large, "LabelSpreading(knn)"),
            0.2,
        ),
        (
            "100k rows: LPLLP(knn) / GraphLearning laplace",
            seconds(large, "LPLLP(knn)") / seconds(large, "GraphLearning laplace"),
            1.0,
        ),
        (
            "100k rows: recall of GraphLearning - recall of LPLLP(knn)",
            recall(large, "GraphLearning laplace") - recall(large, "LPLLP(knn)"),
            0.0,
        ),
    ]
    print("\nwhat must hold                                                 found   at most")
    for what, found, most in claims:
        if not np.isnan(found):
            print(f"{what:58s} {found:9.3f} {most:9.3g}  {'yes' if found <= most else 'NO'}")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="*", type=int, default=[10_000, 100_000])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one fit")
    parser.add_argument("--llp-learn", metavar="PYTHON")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.worker:
        name, n = json.loads(options.worker)
        fit_once(name, 6_000)
        print(json.dumps(fit_once(name, n)))
        return
    names = METHODS
    if importlib.util.find_spec("graphlearning") is None:
        names = [name for name in names if not name.startswith("GraphLearning")]
    found: dict[int, dict[str, list[dict[str, float] | None]]] = {}
    for n in options.sizes:
        found[n] = {name: [] for name in names if n <= DENSE_ROWS or "rbf" not in name}
        for _ in range(options.repetitions):
            for name, runs in found[n].items():
                if not runs or runs[-1] is not None:
                    runs.append(in_a_process(name, n, options.limit))
        if options.llp_learn:
            for name in LLP_LEARN:
                run = llp_learn(options.llp_learn, name, n, options.limit)
                found[n][f"llp-learn {name}"] = [run]
        print_table(n, found[n], options.limit)
    print_claims(found)


if __name__ == "__main__":
    main()
