"""Products with the paper's dense graph that a fit on a GPU takes, per γ; counted without a GPU.

    python benchmarks/dense_products.py                     # 6,000 rows of overlapping clusters
    python benchmarks/dense_products.py --rows 20000        # 8 GiB of memory, an hour or more
    python benchmarks/dense_products.py --data digits

On a GPU, products with the graph take most of the time: each reads 8 n² bytes, or computes all
similarities anew. They are counted on torch's CPU device, once with the whole graph in the systems
of Newton's method, and once with the strongest similarities alone, where these are few. A large γ
leaves only few similarities above rounding, so that the graph is itself sparse.

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

LARGE = (4.0, 8.0, 16.0, 32.0, 64.0)
"""The upper end of the grid of γ."""


def digits(n_rows: int) -> tuple[Any, Any, Any]:
    X, y = load_digits(return_X_y=True)
    return X, y, np.random.default_rng(0).permutation(np.arange(len(X)) % 60)


DATA = {
    "clusters": overlapping_clusters,
    "classes": lambda n_rows: overlapping_clusters(n_rows, n_classes=5),
    "digits": digits,
}


class Counts:
    """Counts products with the graph, and with the strongest of its similarities.

    Parameters
    ----------
    sparsified : bool
        Whether Newton's method is given the strongest similarities.
    """

    def __init__(self, sparsified: bool) -> None:
        self.whole = self.strongest = 0
        self._sparsified = sparsified
        self._few: list[Any] = []

    def __enter__(self) -> Counts:
        self._stack = ExitStack()
        for kind in (_on_device.DenseProducts, _on_device.SparseProducts):
            self._patch(kind, "multiply", self._counted(kind.multiply))
        for kind in (_on_device.DenseProducts, _on_device._Strongest):
            self._patch(kind, "sparsified", self._kept(kind.sparsified))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _patch(self, kind: type, name: str, method: Any) -> None:
        self._stack.enter_context(mock.patch.object(kind, name, method))

    def _counted(self, multiply: Any) -> Any:
        def counted(graph: Any, F: Any) -> Any:
            few = any(graph is strongest for strongest in self._few)
            self.strongest, self.whole = self.strongest + few, self.whole + (not few)
            return multiply(graph, F)

        return counted

    def _kept(self, sparsified: Any) -> Any:
        def kept(graph: Any) -> Any:
            self._few.append(sparsified(graph) if self._sparsified else None)
            return self._few[-1]

        return kept


def fitted(data: tuple[Any, Any, Any], gamma: float, tol: float, sparsified: bool) -> str:
    """Fit with one γ, and return what it took."""
    X, y, bags = data
    with on_torch(), Counts(sparsified) as n:
        model = LPLLP(RBFGraph(gamma), device="cuda", tol=tol, refine=False)
        model.fit(X, bags=bags, proportions=Totals.from_labels(y, bags))
    solution, right = model.solution_, float((model.transduction_ == y).mean())
    ended = "" if solution.converged else ", not converged"
    return (
        f"{n.whole:6,} with the graph, {n.strongest:6,} with its strongest similarities; "
        f"energy {solution.energies[-1]:.6g}, {right:.4f} right{ended}"
    )


def on_torch() -> Any:
    """Let torch's CPU device stand for a GPU."""
    return mock.patch.object(device, "_gpu", return_value=torch.device("cpu"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--data", choices=DATA, default="clusters")
    parser.add_argument("--tol", type=float, default=1e-6, help="1e-6 is that of the grid")
    parser.add_argument("--factors", type=float, nargs="+", default=LARGE, help="γ of the grid")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    data = DATA[options.data](options.rows)
    with on_torch():
        middle = RBFGraph(device="cuda").fit(data[0]).gamma_
    print(f"{options.data}: {data[0].shape[0]:,} rows of {data[0].shape[1]} features; products")
    for factor in options.factors:
        for sparsified in (False, True):
            way = "sparsified" if sparsified else "whole"
            took = fitted(data, factor * middle / 2.0, options.tol, sparsified)
            print(f"  γ of factor {factor:2g}, {way:10}: {took}", flush=True)


if __name__ == "__main__":
    main()
