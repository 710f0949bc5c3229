"""Random rows and problems for LPLLP, to be the same on the processor and on a device.

A problem is a number. It draws rows in clouds, bags, totals that are exact, intervals or partly
unknown, given labels, rows in no bag, times, a graph and options. No two distances are equal:
which of several equally near rows is a neighbor is for each search to choose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion import LPLLP, KNNGraph, RBFGraph, Totals
from apportion.graphs._neighbors import PairSearch

KINDS = ("plain", "far from 0", "outliers", "single precision", "tiny", "nearly equal")
"""Rows whose distances are hard to tell apart in single precision."""

GRAPHS = ("knn", "knn", "anchor", "rbf", "precomputed", "precomputed sparse")


@dataclass(frozen=True)
class DeviceProblem:
    """Rows, what is known of them, and how they are to be labeled."""

    X: Any
    supervision: dict[str, Any]
    graph: Any
    options: dict[str, Any]
    words: str

    def fit(self, device: str) -> LPLLP:
        """Return LPLLP fitted with a device."""
        model = LPLLP(self.graph, random_state=0, device=device, **self.options)
        return model.fit(self.X, **self.supervision)


def draw_device_problem(seed: int) -> DeviceProblem:
    """Return the problem of this number."""
    rng = np.random.default_rng(seed)
    c, n = int(rng.integers(2, 6)), int(rng.integers(30, 80))
    d, n_bags = int(rng.integers(2, 9)), int(rng.integers(1, 12))
    y = np.concatenate([np.arange(c), rng.integers(0, c, n - c)])
    X: Any = rng.standard_normal((n, d)) + 2.5 * rng.standard_normal((c, d))[y]
    X = X.astype(rng.choice([np.float32, np.float64]))
    bags = np.concatenate([np.arange(n_bags), rng.integers(0, n_bags, n - n_bags)]).astype(object)
    if rng.random() < 0.3:
        bags[n_bags:][rng.random(n - n_bags) < 0.15] = None
    totals, known = _draw_totals(rng, y, bags, n_bags, c)
    supervision: dict[str, Any] = {"bags": bags, "proportions": totals}
    if rng.random() < 0.4:
        given = rng.random(n) < 0.1
        supervision["y"] = np.where(given, y.astype(object), None)
    options = _draw_options(rng, n, c)
    if rng.random() < 0.25:
        supervision["times"] = rng.permutation(n).astype(float)
        options["time_weight"] = float(rng.choice([0.0, 1.0, 3.0]))
    kind = str(rng.choice(GRAPHS))
    graph: Any = RBFGraph([0.05, 0.5]) if kind == "rbf" else kind.split()[0]
    if graph == "precomputed":
        W = KNNGraph(5).fit(X).affinity_
        X = W if "sparse" in kind else W.toarray()
    shown = {name: value for name, value in options.items() if name != "prior"}
    extra = ", ".join(sorted(set(supervision) - {"bags", "proportions"}))
    words = f"{seed}: {n} rows, {c} classes, {n_bags} bags, {known} totals, {kind} {shown} {extra}"
    return DeviceProblem(X, supervision, graph, options, words)


def _draw_totals(
    rng: np.random.Generator, y: Any, bags: Any, n_bags: int, c: int
) -> tuple[Totals, str]:
    counts = np.array([np.bincount(y[bags == k], minlength=c) for k in range(n_bags)], float)
    known = str(rng.choice(["exact", "interval", "unknown"]))
    width = np.zeros(counts.shape) if known == "exact" else rng.integers(0, 4, counts.shape)
    if known == "unknown":
        width = np.where(rng.random(counts.shape) < 0.2, len(y), width)
    least = np.maximum(counts - width, 0.0)
    most = np.minimum(counts + width, counts.sum(axis=1, keepdims=True))
    tables = ({k: dict(enumerate(row)) for k, row in enumerate(t.tolist())} for t in (least, most))
    return Totals.from_intervals(*tables, unit="count"), known


def _draw_options(rng: np.random.Generator, n: int, c: int) -> dict[str, Any]:
    if rng.random() < 0.05:
        return {"solver": "literal", "max_iter": 20}
    options: dict[str, Any] = {"max_iter": 200}
    if rng.random() < 0.2:
        options["decode"] = "threshold"
    if rng.random() < 0.15:
        options["solver"] = "plain"
    if rng.random() < 0.1:
        options["metric"] = "euclidean"
    if rng.random() < 0.1:
        options["order"] = 2
    if rng.random() < 0.1:
        options["stop"] = "settled"
    if rng.random() < 0.2:
        options |= {"prior": rng.random((n, c)), "prior_weight": 0.5}
    return options


def rows_of(kind: str, rng: np.random.Generator, n: int = 300, d: int = 5) -> Any:
    """Return random rows of one of the `KINDS`."""
    X: Any = rng.standard_normal((n, d))
    if kind == "far from 0":
        return X + 1e6
    if kind == "outliers":
        X[: n // 20] *= 1e8
    if kind == "single precision":
        return (X + 1e3).astype(np.float32)
    if kind == "tiny":
        return 1e-60 * X
    if kind == "nearly equal":
        return 1.0 + 1e-9 * X
    return X


def assert_nearest(X: Any, neighbors: Any) -> None:
    """Compare each row's neighbors, the nearest first, with those in double precision."""

    def distances(neighbors: Any) -> Any:
        away = X[:, None].astype(np.float64) - X[neighbors]
        return np.sqrt((away**2).sum(axis=2))

    truth = distances(PairSearch(X).lists(neighbors.shape[1])[0])
    assert (np.diff(distances(neighbors), axis=1) >= 0).all(), "the nearest first"
    assert (neighbors != np.arange(len(X))[:, None]).all()
    size = np.abs(X - np.median(X, axis=0)).max()
    np.testing.assert_allclose(distances(neighbors), truth, atol=1e-7 * size)
    assert (distances(neighbors)[:, -1] <= truth[:, -1] * (1 + 1e-12)).all()
