"""What the choices inside the loop are worth, one by one.

    python benchmarks/loop.py                # about 10 minutes on two cores
    python benchmarks/loop.py --rows 100000  # a quick look

Overlapping clusters in 20 dimensions, two classes, bags of 50 rows, k = 10. The order of the rows,
the precision, the number of threads and (where it is installed) numba are compared on the product
that propagation consists of; inexact propagation on whole solutions; single precision by the labels
that it changes; projection and decoding alone up to ten million rows and 20 classes.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

import apportion._core.local as stepping
from apportion import LPLLP, AnchorGraph, KNNGraph, Totals
from apportion._core import propagation as propagate
from apportion._core.decode import Quotas
from apportion._core.descent import Settings
from apportion._core.projection import MassProjection
from apportion._core.solve import solve
from apportion._utils.threads import in_threads, n_threads
from apportion.graphs._row_blocks import row_parts
from apportion.supervision.bags import match_bags
from clusters import overlapping_clusters


def least_seconds(work: Callable[[], Any], repetitions: int = 7) -> float:
    """Return the shortest time of several."""
    work()
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def compare_products(graph: Any) -> None:
    """Print milliseconds of W F, for rows as they come and arranged."""
    rows = graph.locality
    orders = {"as they come": graph.affinity_}
    if rows is not None:
        orders["arranged"] = graph.arranged().affinity_
    F = np.random.default_rng(0).random((graph.n_samples_, 1))
    print(f"\none product, {graph.n_samples_:,} rows, {graph.affinity_.nnz:,} ties: milliseconds")
    print("rows           float64   threads   float32   threads")
    for name, W in orders.items():
        cells = []
        for dtype in (np.float64, np.float32):
            matrix = sparse.csr_array((W.data.astype(dtype), W.indices, W.indptr), shape=W.shape)
            vector = F.astype(dtype)
            parts = [part.matrix for part in row_parts(matrix)]
            cells.append(least_seconds(partial(matrix.__matmul__, vector)))
            times = partial(_times, vector)
            cells.append(least_seconds(partial(in_threads, times, parts)))
        print(f"{name:14s}" + " ".join(f"{1e3 * one:8.1f} " for one in cells))
    if importlib.util.find_spec("numba") is not None:
        W = orders.get("arranged", graph.affinity_)
        product = _numba_product()
        out = np.empty(len(F))
        seconds = least_seconds(lambda: product(W.indptr, W.indices, W.data, F[:, 0], out))
        print(f"numba, {n_threads()} threads, float64, {list(orders)[-1]}: {1e3 * seconds:.1f}")


def _times(vector: Any, part: Any) -> Any:
    return part @ vector


def _numba_product() -> Callable[..., None]:
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def product(ends, indices, data, F, out):
        for i in numba.prange(len(ends) - 1):
            total = 0.0
            for j in range(ends[i], ends[i + 1]):
                total += data[j] * F[indices[j]]
            out[i] = total

    return product


def compare_accuracies_of_propagation(graph: Any, bags: Any) -> None:
    """Print iterations and products for every share of a step that P may be off by."""
    products = [0]
    solve_steps = propagate._SparsePropagator._solve

    def counted(self: Any, value: Any, rest: Any, steps: int) -> Any:
        products[0] += steps
        return solve_steps(self, value, rest, steps)

    propagate._SparsePropagator._solve = counted
    usual = stepping._INEXACT
    exact = None
    print("\ninexact propagation   iterations   products   seconds   largest change")
    for share in (1e-9, 0.01, 0.05, 0.1, 0.2, 0.3):
        stepping._INEXACT, products[0] = share, 0
        start = time.perf_counter()
        solution = solve(graph, bags, Settings(n_probes=0))
        seconds = time.perf_counter() - start
        exact = solution.F if exact is None else exact
        name = f"{share:g}{' (in use)' if share == usual else ''}"
        change = np.abs(solution.F - exact).max()
        print(f"{name:20s} {solution.n_iter:11d} {products[0]:10d} {seconds:9.2f} {change:14.1e}")
    stepping._INEXACT = usual
    propagate._SparsePropagator._solve = solve_steps


def compare_precisions(n: int) -> None:
    """Print the share of labels that change with the digits that single precision cuts off."""
    X, y, bags = overlapping_clusters(n)
    totals = Totals.from_labels(y, bags)
    print(f"\nlabels that differ between rows in single and in double precision, {n:,} rows")
    noise = 3e-8 * np.random.default_rng(0).standard_normal(X.shape)
    for graph in (KNNGraph(recall=1.0), AnchorGraph()):
        labels = [
            LPLLP(graph).fit(rows, bags=bags, proportions=totals).transduction_
            for rows in (X, X.astype(np.float64) + noise)
        ]
        print(f"{type(graph).__name__:14s} {(labels[0] != labels[1]).mean():.1e}")


def time_bags_alone(cases: list[tuple[int, int]]) -> None:
    """Print seconds of one projection and one decoding, without a graph."""
    print("\n      rows classes      bags   projection    again   quota decoding   GB of labels")
    for n, c in cases:
        rng = np.random.default_rng(0)
        codes = rng.permutation(np.arange(n) % (n // 100))
        labels = rng.integers(0, c, n)
        totals = Totals.from_labels(labels, codes, classes=list(range(c)))
        bags = match_bags(n, bags=codes, proportions=totals)
        F = bags.prior()
        F *= 0.6
        F[np.arange(n), labels] += 0.4
        F += 0.1 * rng.standard_normal((n, c), dtype=np.float32)
        project = MassProjection(bags, np.ones(n))
        columns = project.to_columns(F)
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            projected = project(columns)
            seconds.append(time.perf_counter() - start)
            columns = columns + 1e-3 * rng.standard_normal(columns.shape, dtype=np.float32)
        soft = project.from_columns(projected)
        del columns, projected
        start = time.perf_counter()
        decoded = Quotas(bags, rng.permutation(n))(soft).labels
        decoding = time.perf_counter() - start
        assert (np.bincount(codes * c + decoded) == np.bincount(codes * c + labels)).all()
        print(
            f"{n:10,} {c:7d} {len(bags.ids):9,} {seconds[0]:12.2f} {seconds[1]:8.2f} "
            f"{decoding:16.2f} {soft.nbytes / 1e9:14.2f}"
        )


def main() -> None:
    """Run the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10**6, help="of the large comparisons")
    parser.add_argument(
        "--bags", nargs=2, type=int, metavar=("ROWS", "CLASSES"), help="these alone"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.bags:
        time_bags_alone([tuple(options.bags)])
        return
    X, y, bags = overlapping_clusters(options.rows)
    graph = KNNGraph().fit(X)
    compare_products(graph)
    totals = Totals.from_labels(y, bags)
    compare_accuracies_of_propagation(graph, match_bags(len(X), bags=bags, proportions=totals))
    compare_precisions(20_000)
    sizes = [n for n in (10**5, 10**6, 10**7) if n <= 10 * options.rows]
    time_bags_alone([(n, c) for n in sizes for c in (2, 20)])


if __name__ == "__main__":
    main()
