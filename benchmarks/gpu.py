"""LP-LLP on a GPU, beside the processor of the same machine.

    python benchmarks/gpu.py                          # all parts but the slow ones
    python benchmarks/gpu.py --parts neighbors        # some parts
    python benchmarks/gpu.py --parts exact matrix-free

| part | what is measured |
|---|---|
| neighbors | fits of 10⁵ and 10⁶ rows of 20 features, stage by stage, and bytes moved |
| classes | 10⁶ rows in 20 classes |
| wide | exact neighbors of 10⁶ rows of 100 features |
| dense | the paper's dense graph: 20,000 rows beside the processor, 10⁵ rows held by the GPU |
| matrix-free | the same of 10⁶ rows, of which nothing is held: a product, and a fit with one γ |
| anchors | 10⁶ and 10⁷ rows tied to anchors |
| equal | 50 random problems: labels that differ between processor and GPU |
| exact | exact neighbors on the processor, projected from a part of the rows |

Needs a GPU and `apportion[gpu]`. Overlapping clusters in 20 dimensions, float32, bags of 50 rows
(`clusters.py`). Seconds are of the wall clock, after a fit that loads libraries and kernels.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from apportion import LPLLP, AnchorGraph, KNNGraph, RBFGraph, Totals
from apportion.graphs._device_search import DeviceSearch
from apportion.graphs._neighbors import BLOCK_ROWS, FlatSearch
from clusters import overlapping_clusters
from stages import PROJECT, PROPAGATE, least_bytes, watched

sys.path.append(str(Path(__file__).parents[1] / "tests"))

GIB = 2**30


class Timed:
    """A fit, its seconds, the most memory of the GPU that it took, and whether it repeats.

    Attributes
    ----------
    change : float
        The largest change of a soft label between fits of the same rows.
    """

    def __init__(
        self, graph: Any, data: tuple[Any, Any, Any], device: str, times: int = 3, **options: Any
    ) -> None:
        X, y, bags = data
        totals = Totals.from_labels(y, bags)
        self.seconds, self.change, before = np.inf, 0.0, None
        for _ in range(times if device == "cuda" else 1):
            torch.cuda.reset_peak_memory_stats()
            start = time.perf_counter()
            self.model = LPLLP(graph, random_state=0, device=device, **options)
            self.model.fit(X, bags=bags, proportions=totals)
            self.seconds = min(self.seconds, time.perf_counter() - start)
            F = self.model.label_distributions_
            if before is not None:
                self.change = max(self.change, float(abs(F - before).max()))
            before = F
        self.gib = torch.cuda.max_memory_allocated() / GIB
        self.right = float((self.model.transduction_ == y).mean())

    def __str__(self) -> str:
        n_iter, graph = self.model.n_iter_, type(self.model.graph_).__name__
        memory = f", {self.gib:.1f} GiB" if self.model.device == "cuda" else ""
        change = f", fits differ by {self.change:.0e}" if self.change else ""
        reached = f"{self.right:.4f} right, {n_iter} iterations"
        return f"{self.seconds:8.2f} s, {reached}{memory}{change} {graph}"


def show_stages(data: tuple[Any, Any, Any], bandwidth: float) -> None:
    """Print the seconds of each stage on the GPU, and how near to its bandwidth two of them are."""
    X, y, bags = data
    model = LPLLP("knn", random_state=0, device="cuda")
    with watched(torch.cuda.synchronize) as clock:
        start = time.perf_counter()
        model.fit(X, bags=bags, proportions=Totals.from_labels(y, bags))
        seconds = time.perf_counter() - start
    stages = dict(clock.seconds) | {"the rest": seconds - sum(clock.seconds.values())}
    shown = sorted(stages.items(), key=lambda item: -item[1])
    print("    stages: " + ", ".join(f"{name} {s:.3f}" for name, s in shown if s >= 0.002))
    moved = least_bytes(model, X, clock)
    for stage in (PROPAGATE, PROJECT):
        rate = moved[stage] / clock.seconds[stage]
        print(
            f"    {stage}: at least {moved[stage] / 1e9:.1f} GB in {clock.seconds[stage]:.3f} s, "
            f"{rate / bandwidth:.0%} of the GPU's {bandwidth / 1e12:.1f} TB/s"
        )


def copy_bandwidth() -> float:
    """Return bytes a second that a copy on the GPU reads and writes."""
    a = torch.ones(2**28, dtype=torch.float64, device="cuda")
    b = torch.empty_like(a)
    b.copy_(a)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(10):
        b.copy_(a)
    torch.cuda.synchronize()
    return 10 * 16 * len(a) / (time.perf_counter() - start)


def differing(one: Timed, other: Timed) -> str:
    labels = one.model.transduction_ != other.model.transduction_
    tied = one.model.tied_ | other.model.tied_
    return f"{int(labels.sum()):,} labels differ, {int((labels & tied).sum()):,} of them ties"


def neighbors() -> None:
    bandwidth = copy_bandwidth()
    for n in (100_000, 1_000_000):
        data = overlapping_clusters(n)
        print(f"\n{n:,} rows of {data[0].shape[1]} features, two classes")
        gpu = Timed("knn", data, "cuda")
        print(f"  GPU, exact neighbors  {gpu}")
        show_stages(data, bandwidth)
        cpu = Timed("knn", data, "cpu")
        print(f"  processor, recall .95 {cpu}: {cpu.seconds / gpu.seconds:.1f} times as long")
        print(f"    {differing(gpu, cpu)}")
        if n == 100_000:
            exact = Timed(KNNGraph(recall=1.0), data, "cpu")
            print(
                f"  processor, exact      {exact}: {exact.seconds / gpu.seconds:.1f} times as long"
            )
            print(f"    {differing(gpu, exact)}")


def classes() -> None:
    data = overlapping_clusters(1_000_000, n_classes=20)
    print("\n1,000,000 rows in 20 classes")
    gpu = Timed("knn", data, "cuda")
    print(f"  GPU, exact neighbors  {gpu}")
    cpu = Timed("knn", data, "cpu")
    print(f"  processor, recall .95 {cpu}: {cpu.seconds / gpu.seconds:.1f} times as long")
    print(f"    {differing(gpu, cpu)}")


def wide() -> None:
    for n, d in ((1_000_000, 20), (1_000_000, 100)):
        X = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
        torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        DeviceSearch(X, torch.device("cuda")).lists(10)
        torch.cuda.synchronize()
        seconds, gib = time.perf_counter() - start, torch.cuda.max_memory_allocated() / GIB
        print(f"\nexact neighbors of {n:,} × {d}: {seconds:.2f} s, {gib:.1f} GiB")


def dense() -> None:
    small = overlapping_clusters(20_000)
    gamma = RBFGraph(device="cuda").fit(small[0]).gamma_
    print("\nthe dense graph, one γ")
    gpu = Timed(RBFGraph(gamma), small, "cuda")
    print(f"  20,000 rows, GPU       {gpu}")
    cpu = Timed(RBFGraph(gamma), small, "cpu")
    print(f"  20,000 rows, processor {cpu}: {cpu.seconds / gpu.seconds:.1f} times as long")
    print(f"    {differing(gpu, cpu)}")
    X, y, bags = large = overlapping_clusters(100_000)
    middle = RBFGraph(device="cuda").fit(X).gamma_
    print(f"  100,000 rows, GPU      {Timed(RBFGraph(middle), large, 'cuda')}")
    print("  100,000 rows, the γ of the grid, to the tolerance of the grid:")
    for factor in 2.0 ** np.arange(-4, 7):
        start = time.perf_counter()
        model = LPLLP(RBFGraph(factor * middle / 2.0), device="cuda", tol=1e-6, refine=False)
        model.fit(X, bags=bags, proportions=Totals.from_labels(y, bags))
        seconds, right = time.perf_counter() - start, (model.transduction_ == y).mean()
        print(
            f"    {factor:7.4f}: {seconds:6.2f} s, {model.n_iter_:4} iterations, {right:.4f} right"
        )


def matrix_free() -> None:
    from apportion.graphs._on_device import KernelProducts

    data = overlapping_clusters(1_000_000)
    graph = RBFGraph(device="cuda").fit(data[0])
    products = graph.products()
    assert isinstance(products, KernelProducts)
    for columns in (1, 4):
        F = torch.rand((len(data[0]), columns), dtype=torch.float64, device="cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        products.multiply(F)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        print(f"\nthe dense graph of 1,000,000 rows × {columns} columns: {seconds:.2f} s a product")
    fitted = Timed(RBFGraph(graph.gamma_), data, "cuda", times=1, tol=1e-4, refine=False)
    print(f"  a fit with one γ, tol 1e-4, not refined {fitted}")


def anchors() -> None:
    for n in (1_000_000, 10_000_000):
        data = overlapping_clusters(n)
        print(f"\n{n:,} rows tied to anchors")
        gpu = Timed(AnchorGraph(), data, "cuda")
        print(f"  GPU       {gpu}")
        cpu = Timed(AnchorGraph(), data, "cpu")
        print(f"  processor {cpu}: {cpu.seconds / gpu.seconds:.1f} times as long")
        print(f"    {differing(gpu, cpu)}")


def equal() -> None:
    from device_problems import draw_device_problem

    rows = differ = ambiguous = 0
    for seed in range(50):
        problem = draw_device_problem(seed)
        cpu, gpu = problem.fit("cpu"), problem.fit("cuda")
        wrong = int((cpu.transduction_ != gpu.transduction_).sum())
        rows += len(cpu.transduction_)
        several = cpu.solution_.unique is False
        ambiguous += wrong * several
        differ += wrong * (not several)
        if wrong:
            note = ", whose totals admit several labelings" if several else ""
            print(f"  {problem.words}: {wrong} labels differ{note}")
    print(
        f"\n50 random problems, {rows:,} rows: {differ} labels differ where the totals have one "
        f"answer, {ambiguous} where they have several",
        flush=True,
    )


def exact() -> None:
    X = overlapping_clusters(1_000_000)[0]
    search = FlatSearch(X)
    start = time.perf_counter()
    search.nearest(X[: BLOCK_ROWS // 2], 11)
    seconds = (time.perf_counter() - start) * len(X) / (BLOCK_ROWS // 2)
    print(f"\nexact neighbors of 1,000,000 rows on the processor: {seconds:.0f} s (projected)")


PARTS = {
    part.__name__.replace("_", "-"): part
    for part in (neighbors, classes, wide, dense, anchors, equal, exact, matrix_free)
}
SLOW = ("exact", "matrix-free")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=sorted({*PARTS} - {*SLOW}))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.stdout.reconfigure(line_buffering=True)  # what was measured stays if time runs out
    cores = len(os.sched_getaffinity(0))
    print(f"{torch.cuda.get_device_name()}, {cores} cores, torch {torch.__version__}")
    for n_classes in (2, 20):
        Timed("knn", overlapping_clusters(20_000, n_classes=n_classes), "cuda")
    failed = []
    for part in PARTS:
        if part in options.parts:
            try:
                PARTS[part]()
            except Exception:  # the other parts are still measured
                traceback.print_exc()
                failed.append(part)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
