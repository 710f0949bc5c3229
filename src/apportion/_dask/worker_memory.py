"""The memory that a worker needs, compared with its limit before the work begins."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from apportion.exceptions import counted
from apportion.graphs.anchor import rows_for_anchors

_log = logging.getLogger("apportion")

_SPARE = 1.3
"""Allocators and temporary arrays take up to this times what is held."""
_PROCESS = 300 * 2**20
"""The bytes of Python and its libraries."""
_MOST_WORKERS = 2**20


class Extent(NamedTuple):
    """The size of a problem."""

    n_samples: int
    n_features: int
    n_partitions: int
    n_classes: int
    n_anchors: int
    n_nearest: int


def bytes_per_row(n_classes: int, n_nearest: int) -> int:
    """Return the bytes that a worker holds of each of its rows.

    They are ties to anchors, twice while they are sorted; hash, bag, positions and orders; soft
    labels of three points and two temporary ones; means, scores and labels while these are decoded.
    """
    columns = 1 if n_classes == 2 else n_classes
    return 24 * n_nearest + 200 + 48 * n_classes + 80 * columns


def bytes_per_worker(extent: Extent, n_workers: int, n_threads: int) -> int:
    """Return the bytes that a worker needs.

    They are 1.3 times what it holds, and those of Python itself. It holds its share of the rows and
    what anchors share, or before that the rows that anchors are learned from; and the features of
    partitions while they are read.
    """
    n, d, n_partitions, c, m, s = extent
    rows_in_each = n / max(n_partitions, 1)
    held = n * bytes_per_row(c, s) / n_workers + 16 * m * m
    sample = -(-n_partitions // n_workers) * min(rows_for_anchors(m), rows_in_each) * 8 * d
    read = n_threads * 16 * d * rows_in_each
    return int(_SPARE * (max(held, sample) + read)) + _PROCESS


def require_memory(client: Any, extent: Extent) -> None:
    """Log what every worker needs, and raise where its limit is lower."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    n_workers = max(len(workers), 1)
    n_threads = max((worker.get("nthreads", 1) for worker in workers), default=1)
    needed = bytes_per_worker(extent, n_workers, n_threads)
    limits = [worker["memory_limit"] for worker in workers if worker.get("memory_limit")]
    rows = f"{counted(extent.n_samples, 'row')} in {counted(extent.n_partitions, 'partition')}"
    _log.info("%s: a worker needs about %.2f GiB", rows, needed / 2**30)
    if not limits or needed <= min(limits):
        return
    more = 2
    while more < _MOST_WORKERS and (
        more <= n_workers or bytes_per_worker(extent, more, n_threads) > min(limits)
    ):
        more *= 2
    raise MemoryError(
        f"{rows} with {counted(extent.n_classes, 'class')} need {needed / 2**30:.1f} GiB on each "
        f"of {counted(len(workers), 'worker')}; the smallest has {min(limits) / 2**30:.1f} GiB. "
        + (
            f"Use {more:,} workers, or larger ones."
            if more < _MOST_WORKERS
            else "Cut the rows into more and smaller partitions, or use larger workers."
        )
    )
