"""What times cost: CPU seconds of `LPLLP.fit` with and without times, from 10⁵ to 10⁶ windows.

    python benchmarks/scale_in_time.py [--rows 100000 1000000] [--graphs knn anchor]

Overlapping clusters in 20 dimensions of `scale.py`, in an order of time in which a class lasts ten
windows on average; a recording has 10,000 windows, a bag 50 of them. The last column is the ratio
to the fit without times. It also says which weight was chosen, and how many labels are right.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

from apportion import LPLLP, Totals
from clusters import overlapping_clusters

LASTS, RECORDING, BAG = 10, 10_000, 50


def windows(n: int) -> tuple[Any, Any]:
    """Return rows of two classes and their classes, in the order of time."""
    X, y, _ = overlapping_clusters(n, bag_size=BAG)
    rng = np.random.default_rng(0)
    # Episodes take the rows of each class one after the other, as long as there are any.
    episode = rng.integers(0, 2, n)[np.cumsum(rng.random(n) < 1 / LASTS)]
    rows = [np.flatnonzero(y == name) for name in np.unique(y)]
    order = np.full(n, -1)
    for h, members in enumerate(rows):
        places = np.flatnonzero(episode == h)[: len(members)]
        order[places] = members[: len(places)]
    order[order < 0] = np.setdiff1d(np.arange(n), order)
    return X[order], y[order]


def measured(graph: str, X: Any, y: Any, *, in_time: bool) -> tuple[float, Any]:
    """Return the CPU seconds of a fit, and the model."""
    n = len(X)
    bags = np.arange(n) // BAG
    when = {"times": np.arange(n), "sequences": np.arange(n) // RECORDING} if in_time else {}
    totals = Totals.from_labels(y, bags)
    start = time.process_time()
    model = LPLLP(graph, random_state=0).fit(X, bags=bags, proportions=totals, **when)
    return time.process_time() - start, model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--graphs", nargs="+", default=["knn", "anchor"])
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    measured("knn", *windows(5000), in_time=True)  # loads the libraries
    print(f"{'':<8}{'windows':>11}{'':>10}{'CPU s':>9}{'weight':>8}{'right':>8}{'ratio':>8}")
    for graph in asked.graphs:
        for n in asked.rows:
            X, y = windows(n)
            without = None
            for in_time in (False, True):
                seconds, model = measured(graph, X, y, in_time=in_time)
                right = float((model.transduction_ == y).mean())
                without = without or seconds
                print(
                    f"{graph:<8}{n:>11,}{'with' if in_time else 'without':>10}{seconds:>9.1f}"
                    f"{model.time_weight_:>8.2f}{right:>8.3f}{seconds / without:>8.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
