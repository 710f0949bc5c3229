"""Products with the paper's dense graph that a fit on a GPU takes, per γ; counted without a GPU.

    python benchmarks/dense_products.py                     # 6,000 rows of overlapping clusters
    python benchmarks/dense_products.py --rows 20000        # 20 GiB of memory, half an hour
    python benchmarks/dense_products.py --data digits

On a GPU, a product with all similarities takes most of the time: 8 n² bytes are read, or all
similarities computed anew. Products are counted on torch's CPU device, once as they are, and once
without the sparsified graph that Newton's method is given where few similarities are strong.

Needs `apportion[gpu]`, any build of torch.
"""

from __future__ import annotations

import argparse
import warnings
from contextlib import ExitStack
from typing import Any
from unittest import mock

import numpy as np
import torch
from sklearn.datasets import load_digits

from apportion import LPLLP, RBFGraph, Totals
from apportion._utils import device
from apportion.graphs import _on_device
from clusters import overlapping_clusters

GRID = 2.0 ** np.arange(-4, 7)


def digits(n_rows: int) -> tuple[Any, Any, Any]:
    X, y = load_digits(return_X_y=True)
    return X, y, np.random.default_rng(0).permutation(np.arange(len(X)) % 60)


DATA = {
    "clusters": overlapping_clusters,
    "classes": lambda n_rows: overlapping_clusters(n_rows, n_classes=5),
    "digits": digits,
}


def counted(kind: Any) -> Any:
    """Return a context in which products of a kind are counted."""
    return mock.patch.object(kind, "multiply", autospec=True, side_effect=kind.multiply)


def fitted(data: tuple[Any, Any, Any], gamma: float, tol: float, sparsified: bool) -> str:
    """Fit with one γ, and return what it took."""
    X, y, bags = data
    graph = _on_device.DenseProducts
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(device, "_gpu", return_value=torch.device("cpu")))
        dense = stack.enter_context(counted(graph))
        sparse = stack.enter_context(counted(_on_device.SparseProducts))
        for kind in () if sparsified else (graph, _on_device.SparseProducts):
            stack.enter_context(mock.patch.object(kind, "sparsified", return_value=None))
        model = LPLLP(RBFGraph(gamma), device="cuda", tol=tol, refine=False)
        model.fit(X, bags=bags, proportions=Totals.from_labels(y, bags))
    solution, right = model.solution_, float((model.transduction_ == y).mean())
    ended = "" if solution.converged else ", not converged"
    return (
        f"{dense.call_count:5} dense and {sparse.call_count:5} sparse products, "
        f"energy {solution.energies[-1]:.6g}, {right:.4f} right{ended}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--data", choices=DATA, default="clusters")
    parser.add_argument("--tol", type=float, default=1e-6, help="1e-6 is that of the grid")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    data = DATA[options.data](options.rows)
    with mock.patch.object(device, "_gpu", return_value=torch.device("cpu")):
        middle = RBFGraph(device="cuda").fit(data[0]).gamma_
    print(f"{options.data}: {data[0].shape[0]:,} rows of {data[0].shape[1]} features")
    for factor in GRID[GRID >= 2]:
        for sparsified in (False, True):
            words = "sparsified" if sparsified else "not       "
            took = fitted(data, factor * middle / 2.0, options.tol, sparsified)
            print(f"  γ of factor {factor:4g}, {words}: {took}", flush=True)


if __name__ == "__main__":
    main()
