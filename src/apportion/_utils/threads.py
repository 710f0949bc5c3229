"""Threads for work on large arrays, which NumPy and SciPy do without holding the interpreter.

No answer depends on the number of threads: arrays are cut into blocks of fixed size, each block is
worked on by one thread, and BLAS gets no threads of its own (`reproducible_sums`).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, wraps
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np

from apportion._utils.typing import AnyArray

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = TypeVar("Work", bound=Callable[..., Any])

BLOCK_ROWS = 2**16
"""Rows to work on at a time where every row has a few numbers."""

_LEAST_CELLS = 2**17
_MOST_CELLS = 2**19

_inside = threading.local()
_pool: ThreadPoolExecutor | None = None
_forked = False


class _Limited:
    """How many calls of `reproducible_sums` are under way, and how to end the limit they share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.calls = 0
        self.limit: Any = None


_limited = _Limited()


def n_threads() -> int:
    """Return how many threads to use: the cores of this process, or fewer by OMP_NUM_THREADS."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores or 1, int(wanted) if wanted.isdecimal() else cores or 1))


def in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return the work's results for all items, in their order.

    Work that itself asks for threads is done in the thread that asks.

    Examples
    --------
    >>> in_threads(lambda block: sum(block), [[1, 2], [3]])
    [3, 3]
    """
    if len(items) < 2 or n_threads() < 2 or getattr(_inside, "a_worker", False):
        return [work(item) for item in items]
    return list(_the_pool().map(work, items))


def block_rows(n_samples: int, n_columns: int) -> int:
    """Return how many rows to work on at a time: all threads busy, and the work within cache."""
    cells = n_samples * n_columns // (2 * n_threads())
    return max(1, min(max(cells, _LEAST_CELLS), _MOST_CELLS) // n_columns)


def slices(length: int, most: int) -> list[slice]:
    """Return slices of at most `most` items, of about equal length, that cover `length` items.

    Examples
    --------
    >>> slices(5, 2)
    [slice(0, 1, None), slice(1, 3, None), slice(3, 5, None)]
    """
    n_parts = -(-length // max(most, 1))
    edges = [length * part // max(n_parts, 1) for part in range(n_parts + 1)]
    return [slice(first, last) for first, last in pairwise(edges)]


def blockwise(
    work: Callable[..., AnyArray], *arrays: AnyArray, out: AnyArray | None = None
) -> AnyArray:
    """Return work(*arrays), of the first array's shape, in blocks of rows, in threads.

    Temporaries then stay in cache. The work should not be one that BLAS does in threads of its own.
    Large arrays are dear to allocate; one that is no longer needed may be given as `out`.

    Examples
    --------
    >>> blockwise(lambda a, b: a + 2.0 * b, np.ones(2), np.arange(2.0))
    array([1., 3.])
    """
    parts = slices(len(arrays[0]), BLOCK_ROWS)
    if len(parts) < 2:
        return work(*arrays)
    result = np.empty_like(arrays[0]) if out is None else out

    def fill(part: slice) -> None:
        result[part] = work(*(array[part] for array in arrays))

    in_threads(fill, parts)
    return result


def total(work: Callable[..., float], *arrays: AnyArray) -> float:
    """Return the sum of the numbers that the work makes of each block of rows.

    Examples
    --------
    >>> total(lambda a, b: (a * b).sum(), np.ones(3), np.arange(3.0))
    3.0
    """
    parts = slices(len(arrays[0]), BLOCK_ROWS)
    return sum(in_threads(lambda part: float(work(*(one[part] for one in arrays))), parts))


@contextmanager
def reproducible_sums() -> Iterator[None]:
    """Run BLAS in one thread meanwhile, so that the order of its sums is always the same.

    With several threads, BLAS and LAPACK cut matrices differently, and the last digits differ with
    the number of cores. In a forked process, OpenMP gets one thread as well: libgomp would wait
    forever for the threads that it had in the parent. Limits hold for the whole process, therefore
    calls from several threads share one limit, which ends with the last of them.
    """
    with _limited.lock:
        if not _limited.calls:
            # Set by hand, and not by `with`: the call that ends last need not be the first.
            api = None if _forked else "blas"
            _limited.limit = _controller("faiss" in sys.modules).limit(limits=1, user_api=api)
        _limited.calls += 1
    try:
        yield
    finally:
        with _limited.lock:
            _limited.calls -= 1
            if not _limited.calls:
                _limited.limit.restore_original_limits()


def with_reproducible_sums(work: Work) -> Work:
    """Return a function that runs with `reproducible_sums`."""

    @wraps(work)
    def reproducible(*args: Any, **kwargs: Any) -> Any:
        with reproducible_sums():
            return work(*args, **kwargs)

    return cast(Work, reproducible)


@cache
def _controller(with_faiss: bool) -> Any:
    """Return the handle of all thread pools; faiss, which is imported late, brings its own."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _the_pool() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(n_threads(), "apportion", initializer=_mark)
    return _pool


def _mark() -> None:
    _inside.a_worker = True


def _forget() -> None:
    """Drop the pool in a child process: its threads stayed with the parent."""
    global _pool, _forked, _limited
    _pool, _forked, _limited = None, True, _Limited()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
