"""How much memory a worker needs, said before it is needed."""

from __future__ import annotations

import logging
from typing import Any

from apportion.exceptions import counted

_log = logging.getLogger("apportion")

_SPARE = 1.3
_PROCESS = 300 * 2**20


def bytes_a_row(n_classes: int, n_nearest: int) -> int:
    """Return the bytes that a worker holds of each of its rows.

    Ties to anchors, twice while they are put in order; hash, bag, places and orders; soft labels of
    three points and two in the making; what is heard, scored and decided while labels are handed
    out.
    """
    columns = 1 if n_classes == 2 else n_classes
    return 24 * n_nearest + 200 + 48 * n_classes + 80 * columns


def require_memory(
    client: Any,
    n_rows: int,
    n_features: int,
    n_partitions: int,
    n_classes: int,
    n_nearest: int,
) -> None:
    """Log what every worker needs, and raise where its limit is lower.

    That is, with a third to spare, the bytes that its share of the rows takes, those of the
    features of partitions while they are read, and of Python itself.
    """
    workers = client.scheduler_info(n_workers=-1)["workers"]
    count = max(len(workers), 1)
    at_once = max((one.get("nthreads", 1) for one in workers.values()), default=1)
    held = n_rows * bytes_a_row(n_classes, n_nearest) / count
    read = at_once * 16 * n_features * n_rows / max(n_partitions, 1)
    needed = _SPARE * (held + read) + _PROCESS
    limits = [one["memory_limit"] for one in workers.values() if one.get("memory_limit")]
    _log.info(
        "%s in %s: a worker needs about %.2f GiB",
        counted(n_rows, "row"),
        counted(n_partitions, "partition"),
        needed / 2**30,
    )
    if limits and needed > min(limits):
        room = min(limits) - _SPARE * read - _PROCESS
        mend = (
            f"Use {-(-int(_SPARE * held * count) // int(room)):,} workers or more, or larger ones."
            if room > 0
            else "Cut the rows into more and smaller partitions, or use larger workers."
        )
        raise MemoryError(
            f"{n_rows:,} rows of {n_classes} classes in {counted(n_partitions, 'partition')} need "
            f"{needed / 2**30:.1f} GiB on each of {counted(len(workers), 'worker')}; the smallest "
            f"has {min(limits) / 2**30:.1f} GiB. {mend}"
        )
