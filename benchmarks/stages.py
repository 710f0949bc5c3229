"""Where the time of one fit goes, and how much of it memory traffic alone would take."""

from __future__ import annotations

import resource
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from apportion._core import propagation as propagate
from apportion._core import solve as solving
from apportion._core.decode import Quotas
from apportion._core.projection import MassProjection
from apportion.estimators import _base, lp_llp
from apportion.graphs import _device_search as device_search
from apportion.graphs import _neighbors as neighbors
from apportion.graphs import anchor, base, knn, rbf

SEARCH = "neighbor search"
GRAPH = "graph"
PROPAGATE = "propagation"
PROJECT = "projection"
DECODE = "quota decoding"
REST = "the rest"

_STAGES: list[tuple[Any, str, str]] = [
    (knn, "neighbor_search", SEARCH),
    (neighbors.Search, "lists", SEARCH),
    (device_search.DeviceSearch, "lists", SEARCH),
    (knn.KNNGraph, "fit", GRAPH),
    (anchor.AnchorGraph, "fit", GRAPH),
    (rbf.RBFGraph, "_fit_one", GRAPH),
    (rbf, "_squared_distances", GRAPH),
    (rbf._PairsOnDevice, "products", GRAPH),
    (base.Graph, "components", GRAPH),
    (base.Graph, "arranged", GRAPH),
    (anchor.AnchorGraph, "components", GRAPH),
    (solving, "propagator", PROPAGATE),
    (propagate._ChebyshevPropagator, "near", PROPAGATE),
    (propagate._ChebyshevPropagator, "_sharpen", PROPAGATE),
    (propagate._ChebyshevPropagator, "_solve", PROPAGATE),
    (propagate._AnchorPropagator, "__call__", PROPAGATE),
    (propagate._DensePropagator, "__call__", PROPAGATE),
    (MassProjection, "__init__", PROJECT),
    (MassProjection, "__call__", PROJECT),
    (Quotas, "__init__", DECODE),
    (Quotas, "__call__", DECODE),
    (solving, "solve", "loop"),
    (lp_llp, "solve", "loop"),
    (lp_llp, "refine", "refinement"),
    (lp_llp, "refine_from_random_starts", "random starts"),
    (_base.BagClassifier, "_checked_rows", "input"),
    (_base.BagClassifier, "_matched", "input"),
    (lp_llp, "hash_ranks", "input"),
]
"""Who works for which stage; work inside other work counts for the inner one."""


class Clock:
    """Seconds of each stage, of the main thread, and calls of each function.

    Parameters
    ----------
    wait : callable, optional
        Waits for the work of a device, which goes on after a function has returned.
    """

    def __init__(self, wait: Callable[[], Any] | None = None) -> None:
        self._wait = wait
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self.ends: dict[str, float] = {}
        self._inside: list[str] = []
        self._since = time.perf_counter()

    def _charge(self) -> None:
        if self._wait is not None:
            self._wait()
        now = time.perf_counter()
        if self._inside:
            self.seconds[self._inside[-1]] += now - self._since
        self._since = now

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its time charged to the stage."""

        def work(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return function(*args, **kwargs)
            self._charge()
            self.calls[function.__qualname__] += 1
            if function.__name__ == "_solve":
                self.calls["sparse products"] += args[3]
            self._inside.append(stage)
            try:
                return function(*args, **kwargs)
            finally:
                self._charge()
                self._inside.pop()
                self.ends[function.__qualname__] = time.perf_counter()

        return work


@contextmanager
def watched(wait: Callable[[], Any] | None = None) -> Iterator[Clock]:
    """Charge the time of everything inside to stages."""
    clock = Clock(wait)
    before = [(owner, name, owner.__dict__[name]) for owner, name, _ in _STAGES]
    for owner, name, stage in _STAGES:
        setattr(owner, name, clock.timed(stage, owner.__dict__[name]))
    try:
        yield clock
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def peak_bytes() -> int:
    """Return the most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def bandwidth() -> float:
    """Return bytes a second through memory: a sum of two large arrays, in threads."""
    from apportion._utils.threads import in_threads, slices

    n = 2**24
    a, b, c = np.ones(n), np.ones(n), np.zeros(n)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        in_threads(lambda part: np.add(a[part], b[part], out=c[part]), slices(n, n // 16))
        seconds.append(time.perf_counter() - start)
    return 3 * 8 * n / min(seconds)


def least_bytes(model: Any, X: Any, clock: Clock) -> dict[str, float]:
    """Return the bytes that each stage cannot but move, cold caches assumed.

    Propagation reads the sparse matrix once for every product and every soft label twice;
    projection reads soft labels, weights and bags and writes soft labels; decoding reads soft
    labels and bags and writes labels; the graph is written once and read once to be made symmetric.
    The search is bounded by arithmetic, not by memory, and is left out.
    """
    n, graph = len(X), model.graph_
    columns = 1 if len(model.classes_) == 2 else len(model.classes_)
    vector = 8 * n * columns
    matrix = getattr(graph, "ties_", None)
    matrix = graph.affinity_ if matrix is None else matrix
    stored = matrix.nbytes if isinstance(matrix, np.ndarray) else 12 * matrix.nnz
    products = {
        "KNNGraph": clock.calls.get("sparse products", 0),
        "AnchorGraph": 2 * clock.calls.get("_AnchorPropagator.__call__", 0),
        "RBFGraph": clock.calls.get("_DensePropagator.__call__", 0),
    }[type(graph).__name__]
    projections = clock.calls.get("MassProjection.__call__", 0)
    decodings = clock.calls.get("Quotas.__call__", 0)
    return {
        GRAPH: 2 * stored + X.nbytes,
        PROPAGATE: products * (stored + 2 * vector),
        PROJECT: projections * (2 * vector + 16 * n),
        DECODE: decodings * (8 * n * len(model.classes_) + 16 * n),
    }
