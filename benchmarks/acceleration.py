"""Outer iterations of the accelerated loop against the paper's plain one, to the same energy.

Both loops run to their tolerance; the lower of their last energies is the mark. Counted are the
iterations each needs to come within 1e-6 of the mark, relative to the energy at the start.
"""

from __future__ import annotations

from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.preprocessing import scale

from apportion import KNNGraph, Totals
from apportion._core.descent import Settings
from apportion._core.solve import solve
from apportion.datasets import make_bags, make_xor
from apportion.graphs import Graph
from apportion.supervision.bags import match_bags

DESIGNS = {"A": [0.6, 0.4, 0.5], "B": [0.85, 0.25, 0.4]}
GAP = 1e-6


def count(graph: Graph, bags: object, totals: Totals) -> tuple[int, int, float]:
    """Return accelerated and plain iterations to the gap, and how far apart the ends are."""
    matched = match_bags(graph.n_samples_, bags=bags, proportions=totals)
    runs = {
        solver: solve(
            graph, matched, Settings(solver=solver, n_probes=0, tol=tol, max_iter=200_000)
        )
        for solver, tol in (("accelerated", 1e-8), ("plain", 1e-7))
    }
    start = runs["plain"].energies[0]
    lowest = min(run.energies[-1] for run in runs.values())
    fast, slow = (int((run.energies > lowest + GAP * start).sum()) for run in runs.values())
    ends = abs(runs["accelerated"].energies[-1] - runs["plain"].energies[-1]) / start
    return fast, slow, ends


def main() -> None:
    print(f"iterations to within {GAP:g} of the lowest energy, relative to the start (kNN, k=10)")
    print(f"{'problem':>22}{'accelerated':>13}{'plain':>9}{'ratio':>8}{'gap of ends':>13}")
    fast_total = slow_total = 0
    for n_samples in (120, 180, 300, 600):
        for design, proportions in DESIGNS.items():
            fast = slow = 0
            worst = 0.0
            for seed in range(25):
                X, y = make_xor(n_samples, random_state=seed)
                bags, totals = make_bags(None, y, proportions=proportions, random_state=seed)
                f, s, gap = count(KNNGraph().fit(X), bags, totals)
                fast, slow, worst = fast + f, slow + s, max(worst, gap)
            fast_total, slow_total = fast_total + fast, slow_total + slow
            name = f"XOR {n_samples}{design} × 25"
            print(f"{name:>22}{fast:>13}{slow:>9}{slow / fast:>8.1f}{worst:>13.1e}")
    print(f"{'XOR, all':>22}{fast_total:>13}{slow_total:>9}{slow_total / fast_total:>8.1f}")
    for name, load in (("breast_cancer", load_breast_cancer), ("wine", load_wine)):
        X, y = load(return_X_y=True)
        bags, totals = make_bags(None, y, 20, random_state=0)
        fast, slow, gap = count(KNNGraph().fit(scale(X)), bags, totals)
        print(f"{name:>22}{fast:>13}{slow:>9}{slow / fast:>8.1f}{gap:>13.1e}")


if __name__ == "__main__":
    main()
