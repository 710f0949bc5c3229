"""Threads for work on large arrays, during which NumPy and SciPy release the interpreter lock.

No result depends on the number of threads: arrays are cut into blocks of fixed size, each block is
processed by one thread, and BLAS gets no threads of its own (`reproducible_sums`).
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

from apportion._utils.arrays import is_tensor
from apportion._utils.typing import AnyArray

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = TypeVar("Work", bound=Callable[..., Any])

BLOCK_ROWS = 2**16
"""Rows per block if a row has only a few numbers."""

_LEAST_CELLS = 2**17
_MOST_CELLS = 2**19
"""Numbers per block, 1 to 4 MB: enough to be worth a task, and few enough to stay in cache."""

_inside = threading.local()
_forked = False


class _Limited:
    """The number of active calls of `reproducible_sums`, and the limit that they share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.calls = 0
        self.limit: Any = None


_limited = _Limited()


def n_threads() -> int:
    """Return the number of threads: the cores of this process, or fewer with OMP_NUM_THREADS."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores or 1, int(wanted) if wanted.isdecimal() else cores or 1))


def in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return the results of a function for all items, in their order, computed in threads.

    Nested calls are computed in the thread that makes them.

    Examples
    --------
    >>> in_threads(lambda block: sum(block), [[1, 2], [3]])
    [3, 3]
    """
    return list(each_in_threads(work, items))


def each_in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield the results of a function for all items, each as soon as it and those before are there.

    An exception, such as an interrupt, cancels the items that were not begun.
    """
    if len(items) < 2 or n_threads() < 2 or getattr(_inside, "a_worker", False):
        return map(work, items)
    return _pool().map(work, items)


def block_rows(n_samples: int, n_columns: int) -> int:
    """Return the number of rows per block: all threads have work, and a block fits into cache."""
    cells = n_samples * n_columns // (2 * n_threads())
    return max(1, min(max(cells, _LEAST_CELLS), _MOST_CELLS) // n_columns)


def slices(length: int, most: int) -> list[slice]:
    """Return slices of at most `most` items, of about equal length, that cover `length` items.

    Examples
    --------
    >>> slices(5, 2)
    [slice(0, 1, None), slice(1, 3, None), slice(3, 5, None)]
    """
    n_slices = -(-length // max(most, 1))
    edges = [length * k // max(n_slices, 1) for k in range(n_slices + 1)]
    return [slice(first, last) for first, last in pairwise(edges)]


def blockwise(
    work: Callable[..., AnyArray], *arrays: AnyArray, out: AnyArray | None = None
) -> AnyArray:
    """Return work(*arrays), of the shape of the first array, in blocks of rows, in threads.

    Temporary arrays then stay in cache. The work should not be one for which BLAS uses threads.
    Allocating large arrays is expensive; one that is no longer needed may be passed as `out`.
    Arrays on a device are worked on as a whole.

    Examples
    --------
    >>> blockwise(lambda a, b: a + 2.0 * b, np.ones(2), np.arange(2.0))
    array([1., 3.])
    """
    blocks = slices(len(arrays[0]), BLOCK_ROWS)
    if len(blocks) < 2 or is_tensor(arrays[0]):
        return work(*arrays)
    result = np.empty_like(arrays[0]) if out is None else out

    def fill(block: slice) -> None:
        result[block] = work(*(array[block] for array in arrays))

    in_threads(fill, blocks)
    return result


def total(work: Callable[..., float], *arrays: AnyArray) -> float:
    """Return the sum of work(*arrays) over blocks of rows, computed in threads.

    Arrays on a device are worked on as a whole.

    Examples
    --------
    >>> total(lambda a, b: (a * b).sum(), np.ones(3), np.arange(3.0))
    3.0
    """
    if is_tensor(arrays[0]):
        return float(work(*arrays))
    blocks = slices(len(arrays[0]), BLOCK_ROWS)
    return sum(in_threads(lambda block: float(work(*(array[block] for array in arrays))), blocks))


@contextmanager
def reproducible_sums() -> Iterator[None]:
    """Run BLAS in one thread within the block, so that its sums always have the same order.

    With several threads, BLAS and LAPACK cut matrices differently, and the last digits depend on
    the number of cores. In a forked process, OpenMP gets one thread as well, because libgomp would
    wait forever for the threads that it had in the parent. Limits hold for the whole process;
    therefore calls from several threads share one limit, which ends with the last of them.
    """
    with _limited.lock:
        if not _limited.calls:
            _set_limit()
        _limited.calls += 1
    try:
        yield
    finally:
        with _limited.lock:
            _limited.calls -= 1
            if not _limited.calls:
                _limited.limit.restore_original_limits()


def _set_limit() -> None:
    # Not a `with` statement, because the call that ends last need not be the first.
    api = None if _forked else "blas"
    _limited.limit = _controller("faiss" in sys.modules).limit(limits=1, user_api=api)


def limit_late_libraries() -> None:
    """Let the limit of `reproducible_sums`, if it holds, hold for what was just imported, too.

    The BLAS of faiss would otherwise wait in a busy loop: the first search of a process among
    10,000 to 30,000 rows took two to four times as long on cores that others use, too.
    """
    with _limited.lock:
        if _limited.calls:
            _limited.limit.restore_original_limits()
            _set_limit()


def with_reproducible_sums(work: Work) -> Work:
    """Return a function that runs with `reproducible_sums`."""

    @wraps(work)
    def reproducible(*args: Any, **kwargs: Any) -> Any:
        with reproducible_sums():
            return work(*args, **kwargs)

    return cast(Work, reproducible)


@cache
def _controller(with_faiss: bool) -> Any:
    """Return the controller of all thread pools; faiss is imported late and adds its own."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@cache
def _pool() -> ThreadPoolExecutor:
    mark = (_inside, "a_worker", True)
    return ThreadPoolExecutor(n_threads(), "apportion", initializer=setattr, initargs=mark)


def _forget() -> None:
    """Drop the pool in a child process, because its threads stayed with the parent."""
    global _forked, _limited
    _pool.cache_clear()
    _forked, _limited = True, _Limited()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
