"""Time and memory of `LPLLP.fit`, stage by stage, from a hundred rows to ten million.

    python benchmarks/scale.py                  # all sizes: about 20 minutes on two cores
    python benchmarks/scale.py --most 100000    # up to this many rows
    python benchmarks/scale.py --plot FILE.png  # draw it, too
    python benchmarks/scale.py --save FILE.json # keep the figures
    python benchmarks/scale.py --against TREE   # this source and that of another tree, in turn

Overlapping clusters in 20 dimensions, float32, two classes, bags of 50 rows. Every fit runs in a
process of its own, after a small one that loads the libraries. Seconds are of the wall clock.
Memory is the peak above the process with the data loaded. At the end stands what must hold, with
the ratio that was found.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
SIZES = {
    "knn": [100, 1_000, 10_000, 100_000, 1_000_000],
    "anchor": [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000],
    "rbf": [100, 1_000, 5_000],
}
STAGES = [
    "input",
    "neighbor search",
    "graph",
    "propagation",
    "projection",
    "quota decoding",
    "loop",
    "refinement",
    "random starts",
    "the rest",
]


def fit_once(case: dict[str, Any]) -> dict[str, Any]:
    """Fit one case in this process and return what was measured."""
    from apportion import LPLLP, RBFGraph, Totals
    from clusters import overlapping_clusters
    from stages import bandwidth, least_bytes, watched
    from worker import peak_mib

    warnings.simplefilter("ignore")

    def graph(X: Any) -> Any:
        return RBFGraph(_gamma(X)) if case["graph"] == "rbf" else case["graph"]

    small = overlapping_clusters(6_000)
    LPLLP(graph(small[0][:500])).fit(
        small[0], bags=small[2], proportions=Totals.from_labels(small[1], small[2])
    )
    speed = bandwidth()
    X, y, bags = overlapping_clusters(
        case["n"], n_classes=case.get("classes", 2), bag_size=case["bag_size"]
    )
    totals = Totals.from_labels(y, bags)
    model = LPLLP(graph(X), stop=case.get("stop", "converged"))
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_mib()
    with watched() as clock:
        start = time.perf_counter()
        model.fit(X, bags=bags, proportions=totals)
        seconds = time.perf_counter() - start
    known = sum(clock.seconds.values())
    bytes_moved = least_bytes(model, X, clock)
    return case | {
        "seconds": seconds,
        "stages": dict(clock.seconds) | {"the rest": seconds - known},
        "bound": {stage: moved / speed for stage, moved in bytes_moved.items()},
        "bandwidth": speed,
        "peak": (peak_mib() - before) / 1024,
        "whole": peak_mib() / 1024,
        "accuracy": float((model.transduction_ == y).mean()),
        "iterations": model.n_iter_,
        "recall": _recall(model, X) if case["graph"] == "knn" else None,
        "status": model.solution_.status.name,
        "after": 1.0 - (clock.ends.get("Search.lists", start) - start) / seconds,
    }


def _gamma(X: Any) -> float:
    """Return γ for a dense graph: four over the median squared distance to the 10th neighbor."""
    rows = X[:2000].astype(np.float64)
    squares = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    return float(4.0 / np.median(np.partition(squares, 10, axis=1)[:, 10]))


def _recall(model: Any, X: Any, n_sample: int = 500) -> float:
    """Return the share of true neighbors on the lists of a sample that the search never saw."""
    from sklearn.neighbors import NearestNeighbors

    lists = model.graph_._lists
    sample = np.random.default_rng(1).choice(len(lists.points), min(n_sample, len(X)), False)
    k = min(model.graph_.n_neighbors, len(lists.points) - 1) + 1
    exact = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(lists.points)
    truth = exact.kneighbors(lists.points[sample], return_distance=False)
    found = lists.search.nearest(lists.points[sample], k)
    shares = [
        len({*near[near != row]} & {*ours[ours != row]}) / (k - 1)
        for row, near, ours in zip(sample, truth, found, strict=True)
    ]
    return float(np.mean(shares))


def in_a_process(case: dict[str, Any]) -> dict[str, Any]:
    """Fit one case in a process of its own."""
    command = [sys.executable, str(HERE / "scale.py"), "--worker", json.dumps(case)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def seconds_of_fit(case: dict[str, Any]) -> float:
    """Fit one case with public names alone, which every version has, and return the seconds."""
    from apportion import LPLLP, Totals
    from clusters import overlapping_clusters

    warnings.simplefilter("ignore")
    X, y, bags = overlapping_clusters(case["n"])
    totals = Totals.from_labels(y, bags)
    LPLLP(case["graph"]).fit(X[:500], bags=bags[:500], proportions=totals)  # loads the libraries
    start = time.perf_counter()
    LPLLP(case["graph"]).fit(X, bags=bags, proportions=totals)
    return time.perf_counter() - start


def compare(tree: Path, most: int, repetitions: int) -> None:
    """Print seconds of the source of another tree and of this one, which run in turn."""
    sources = {"old": tree / "src", "new": HERE.parent / "src"}
    print(
        f"median seconds of {repetitions} fits\n{'':<8}{'rows':>12}{'old':>9}{'new':>9}{'ratio':>9}"
    )
    for graph, wanted in (("knn", 100_000), ("anchor", 1_000_000)):
        case = {"n": min(wanted, most), "graph": graph}
        words = [sys.executable, __file__, "--fit", json.dumps(case)]
        seconds: dict[str, list[float]] = {name: [] for name in sources}
        for _ in range(repetitions):
            for name, source in sources.items():
                paths = {**os.environ, "PYTHONPATH": str(source.resolve())}
                done = subprocess.run(words, env=paths, check=True, stdout=subprocess.PIPE)
                seconds[name].append(float(done.stdout.split()[-1]))
        old, new = (statistics.median(seconds[name]) for name in sources)
        print(f"{graph:<8}{case['n']:>12,}{old:>9.2f}{new:>9.2f}{new / old:>9.2f}")


def dense_floor(n: int) -> float:
    """Return the seconds of a kernel matrix and one Cholesky factor: least of three."""
    from scipy import linalg
    from sklearn.metrics.pairwise import rbf_kernel

    from clusters import overlapping_clusters

    X = overlapping_clusters(n)[0].astype(np.float64)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        K = rbf_kernel(X, gamma=_gamma(X[:1000]))
        seconds.append(time.perf_counter() - start)
        K[np.diag_indices_from(K)] += n
        start = time.perf_counter()
        linalg.cho_factor(K, lower=True, overwrite_a=True, check_finite=False)
        seconds[-1] += time.perf_counter() - start
    return min(seconds)


def grid_against_fits(n: int) -> tuple[float, float]:
    """Return the seconds of a grid of nine γ, and of nine fits of one γ each."""
    from apportion import LPLLP, RBFGraph, Totals
    from clusters import overlapping_clusters

    X, y, bags = overlapping_clusters(n)
    totals = Totals.from_labels(y, bags)
    grid = [_gamma(X) * 2.0**power for power in range(-4, 5)]

    def seconds(gamma: Any) -> float:
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            LPLLP(RBFGraph(gamma)).fit(X, bags=bags, proportions=totals)
        return time.perf_counter() - start

    return seconds(grid), sum(seconds(gamma) for gamma in grid)


def print_table(graph: str, found: list[dict[str, Any]]) -> None:
    """Print seconds by stage, and how they grow."""
    used = [stage for stage in STAGES if any(stage in one["stages"] for one in found)]
    print(f"\n{graph}: seconds by stage")
    print("      rows   total " + " ".join(f"{stage:>16}" for stage in used) + "    GiB  accuracy")
    for one in found:
        cells = " ".join(f"{one['stages'].get(stage, 0.0):16.3f}" for stage in used)
        print(
            f"{one['n']:10,} {one['seconds']:7.2f} {cells} {one['peak']:6.2f} "
            f"{one['accuracy']:9.4f}"
        )
    print("grows as n to the power of")
    for a, b in pairwise(found):
        steps = np.log(b["n"] / a["n"])
        cells = " ".join(
            f"{np.log(b['stages'][stage] / a['stages'][stage]) / steps:16.2f}"
            if a["stages"].get(stage, 0) > 1e-3 and b["stages"].get(stage, 0) > 1e-3
            else " " * 16
            for stage in used
        )
        print(f"{b['n']:10,} {np.log(b['seconds'] / a['seconds']) / steps:7.2f} {cells}")
    last = found[-1]
    print(
        f"at {last['n']:,} rows, times the bound of {last['bandwidth'] / 1e9:.1f} GB/s: "
        + ", ".join(
            f"{stage} {last['stages'][stage] / bound:.1f}"
            for stage, bound in last["bound"].items()
            if stage in last["stages"]
        )
    )


def print_claims(results: dict[str, list[dict[str, Any]]]) -> None:
    """Print what must hold, and whether it does."""
    by_size = {graph: {one["n"]: one for one in results.get(graph, [])} for graph in SIZES}
    knn, anchor = by_size.get("knn", {}).get(10**6), by_size.get("anchor", {}).get(10**6)
    claims: list[tuple[str, float, float]] = []
    if knn:
        claims.append(("1M rows, knn: share of the fit after the search", knn["after"], 0.25))
        claims.append(("1M rows, knn: neighbors missed (1 - recall)", 1 - knn["recall"], 0.05))
        claims.append(("1M rows, knn: GiB above the data", knn["peak"], 3.0))
    if knn and anchor:
        claims.append(("1M rows, anchor / knn", anchor["seconds"] / knn["seconds"], 0.25))
        lost = knn["accuracy"] - anchor["accuracy"]
        claims.append(("1M rows, accuracy lost by anchors", lost, 0.01))
    many = by_size.get("anchor", {}).get(10**7)
    if many and anchor:
        claims.append(("10M rows, anchor: GiB in all", many["whole"], 16.0))
        claims.append(("10M / 1M rows, anchor", many["seconds"] / anchor["seconds"], 12.0))
    for one in results.get("bags", []):
        share = (one["stages"]["projection"] + one["stages"]["quota decoding"]) / one["seconds"]
        name = f"1M rows, 100k bags, {one['graph']}: share of projection and decoding"
        claims.append((name, share, 0.10 if one["graph"] == "knn" else np.nan))
    claims += [(one["what"], one["ratio"], one["most"]) for one in results.get("dense", [])]
    print("\nwhat must hold                                                        found   at most")
    for what, found, most in claims:
        verdict = "" if np.isnan(most) else "yes" if found <= most else "NO"
        limit = "" if np.isnan(most) else f"{most:9.3g}"
        print(f"{what:66s} {found:8.3f} {limit:>9s}  {verdict}")


def draw(results: dict[str, list[dict[str, Any]]], path: str) -> None:
    """Draw seconds and memory against rows."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    colors = {"knn": "#1f5fa8", "anchor": "#c8501e", "rbf": "#4a8a3c"}
    names = {"knn": "nearest neighbors", "anchor": "anchors", "rbf": "dense"}
    for graph in SIZES:
        found = results.get(graph, [])
        rows = [one["n"] for one in found]
        style = {"color": colors[graph], "marker": "o", "label": names[graph]}
        left.loglog(rows, [one["seconds"] for one in found], **style)
        right.loglog(rows, [max(one["peak"], 1e-3) for one in found], **style)
        if graph == "knn":
            searched = [one["stages"].get("neighbor search", np.nan) for one in found]
            left.loglog(
                rows, searched, color=colors[graph], linestyle=":", label="of it: the search"
            )
    left.set(xlabel="rows", ylabel="seconds", title="Time of a whole fit")
    right.set(xlabel="rows", ylabel="GiB above the data", title="Peak memory")
    left.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=10**7, help="the largest number of rows")
    parser.add_argument("--graphs", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--plot", help="draw a picture to this file")
    parser.add_argument("--save", help="keep the figures in this file")
    parser.add_argument("--against", type=Path, metavar="TREE", help="compare with its src/")
    parser.add_argument("--repetitions", type=int, default=3, help="with --against: of each")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        print(seconds_of_fit(json.loads(options.fit)))
        return
    if options.against:
        compare(options.against, options.most, options.repetitions)
        return
    if options.worker:
        print(json.dumps(fit_once(json.loads(options.worker))))
        return
    results: dict[str, list[dict[str, Any]]] = {}
    for graph in options.graphs:
        sizes = [n for n in SIZES[graph] if n <= options.most]
        results[graph] = [in_a_process({"n": n, "graph": graph, "bag_size": 50}) for n in sizes]
        print_table(graph, results[graph])
    if options.most >= 10**6:
        cases = [{"n": 10**6, "graph": graph, "bag_size": 10} for graph in options.graphs[:2]]
        results["bags"] = [in_a_process(case) for case in cases if case["graph"] != "rbf"]
    if "rbf" in options.graphs and options.most >= 5_000:
        fit = next(one["seconds"] for one in results["rbf"] if one["n"] == 5_000)
        grid, fits = grid_against_fits(2_000)
        results["dense"] = [
            {
                "what": "5,000 rows, dense: fit / (kernel matrix + Cholesky factor)",
                "ratio": fit / dense_floor(5_000),
                "most": 2.5,
            },
            {"what": "2,000 rows, dense: grid of 9 / 9 fits", "ratio": grid / fits, "most": 1.0},
        ]
    if options.most >= 10**5 and "knn" in options.graphs:
        early = in_a_process({"n": 10**5, "graph": "knn", "bag_size": 50, "stop": "settled"})
        whole = next(one for one in results["knn"] if one["n"] == 10**5)
        print(
            f"\n100,000 rows, knn, until labels have settled: {early['iterations']} iterations "
            f"instead of {whole['iterations']}, accuracy {early['accuracy']:.4f} instead of "
            f"{whole['accuracy']:.4f}"
        )
    print_claims(results)
    if options.save:
        Path(options.save).write_text(json.dumps(results, indent=1))
    if options.plot:
        draw(results, options.plot)


if __name__ == "__main__":
    main()
