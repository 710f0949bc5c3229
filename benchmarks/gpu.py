"""Fits with neighbors searched on a GPU, beside fits on the processor of the same machine.

    python benchmarks/gpu.py                 # 10⁵ and 10⁶ rows of 20 features, two classes
    python benchmarks/gpu.py --wide          # also the search among 10⁶ rows of 100 features
    python benchmarks/gpu.py --exact         # also exact neighbors on the processor, which is slow

Needs a GPU and `apportion[gpu]`. Overlapping clusters in 20 dimensions, float32, bags of 50 rows
(`clusters.py`). Seconds are of the wall clock, after a fit that loads libraries and kernels.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from typing import Any

import numpy as np

from apportion import LPLLP, KNNGraph, Totals
from clusters import overlapping_clusters
from stages import watched


def fit(graph: KNNGraph, data: tuple[Any, Any, Any]) -> tuple[Any, float, dict[str, float]]:
    """Return labels, the seconds of a fit and those of its stages."""
    X, y, bags = data
    totals = Totals.from_labels(y, bags)
    model = LPLLP(graph, random_state=0)
    with watched() as clock:
        start = time.perf_counter()
        model.fit(X, bags=bags, proportions=totals)
        seconds = time.perf_counter() - start
    stages = dict(clock.seconds) | {"the rest": seconds - sum(clock.seconds.values())}
    return model.transduction_, seconds, stages


def compare(n: int, exact: bool) -> None:
    data = overlapping_clusters(n)
    graphs = {"GPU, exact": KNNGraph(device="cuda"), "processor, recall .95": KNNGraph()}
    if exact:
        graphs["processor, exact"] = KNNGraph(recall=1.0)
    found = {}
    print(f"\n{n:,} rows of {data[0].shape[1]} features")
    for name, graph in graphs.items():
        labels, seconds, stages = fit(graph, data)
        found[name] = labels, seconds
        share = ", ".join(f"{stage} {s:.2f}" for stage, s in stages.items() if s >= 0.005)
        right = (labels == data[1]).mean()
        print(f"  {name:22} {seconds:7.2f} s, {right:.4f} right: {share}", flush=True)
    ours, least = found.pop("GPU, exact")
    for name, (labels, seconds) in found.items():
        print(
            f"  {name}: {seconds / least:.1f} times as long, "
            f"{int((labels != ours).sum()):,} labels differ"
        )


def search_wide(n: int, d: int) -> None:
    import torch

    from apportion.graphs._device_search import DeviceSearch

    X = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    start = time.perf_counter()
    DeviceSearch(X, torch.device("cuda")).lists(10)
    seconds, gib = time.perf_counter() - start, torch.cuda.max_memory_allocated() / 2**30
    print(f"\nsearch among {n:,} rows of {d} features: {seconds:.2f} s, {gib:.1f} GiB on the GPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--exact", action="store_true")
    options = parser.parse_args()
    import torch

    warnings.simplefilter("ignore")
    cores = len(os.sched_getaffinity(0))
    print(f"{torch.cuda.get_device_name()}, {cores} cores, torch {torch.__version__}")
    fit(KNNGraph(device="cuda"), overlapping_clusters(20_000))
    for n in options.rows:
        compare(n, options.exact)
    if options.wide:
        search_wide(1_000_000, 100)


if __name__ == "__main__":
    main()
