"""How much memory a worker needs, said before it is needed."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from apportion.exceptions import counted
from apportion.graphs.anchor import rows_for_anchors

_log = logging.getLogger("apportion")

_SPARE = 1.3
_PROCESS = 300 * 2**20


class Extent(NamedTuple):
    """How much there is of everything."""

    n_samples: int
    n_features: int
    n_partitions: int
    n_classes: int
    n_anchors: int
    n_nearest: int


def bytes_a_row(n_classes: int, n_nearest: int) -> int:
    """Return the bytes that a worker holds of each of its rows.

    Ties to anchors, twice while they are put in order; hash, bag, places and orders; soft labels of
    three points and two in the making; what is heard, scored and decided while labels are handed
    out.
    """
    columns = 1 if n_classes == 2 else n_classes
    return 24 * n_nearest + 200 + 48 * n_classes + 80 * columns


def bytes_a_worker(extent: Extent, n_workers: int, n_threads: int) -> int:
    """Return the bytes that a worker needs.

    These are 1.3 times what it holds, its share of the rows and what anchors share, or before that
    the rows that anchors are learned from, and the features of partitions while they are read; and
    those of Python itself.
    """
    n, d, parts, c, m, s = extent
    in_each = n / max(parts, 1)
    held = n * bytes_a_row(c, s) / n_workers + 16 * m * m
    sample = -(-parts // n_workers) * min(rows_for_anchors(m), in_each) * 8 * d
    read = n_threads * 16 * d * in_each
    return int(_SPARE * (max(held, sample) + read)) + _PROCESS


def require_memory(client: Any, extent: Extent) -> None:
    """Log what every worker needs, and raise where its limit is lower."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    count = max(len(workers), 1)
    threads = max((one.get("nthreads", 1) for one in workers.values()), default=1)
    needed = bytes_a_worker(extent, count, threads)
    limits = [one["memory_limit"] for one in workers.values() if one.get("memory_limit")]
    partitions = counted(extent.n_partitions, "partition")
    _log.info(
        "%s in %s: a worker needs about %.2f GiB",
        counted(extent.n_samples, "row"),
        partitions,
        needed / 2**30,
    )
    if not limits or needed <= min(limits):
        return
    enough = (2**k for k in range(1, 21) if 2**k > count)
    more = next((k for k in enough if bytes_a_worker(extent, k, threads) <= min(limits)), None)
    hint = (
        f"Use {more:,} workers, or larger ones."
        if more is not None
        else "Cut the rows into more and smaller partitions, or use larger workers."
    )
    raise MemoryError(
        f"{extent.n_samples:,} rows of {extent.n_classes} classes in {partitions} need "
        f"{needed / 2**30:.1f} GiB on each of {counted(len(workers), 'worker')}; the smallest has "
        f"{min(limits) / 2**30:.1f} GiB. {hint}"
    )
