"""How much memory a worker needs, said before it is needed."""

from __future__ import annotations

import logging
from typing import Any

_log = logging.getLogger("apportion")

_SPARE = 1.3


def bytes_a_row(n_classes: int, n_nearest: int) -> int:
    """Return the bytes that a worker holds of each of its rows.

    Ties to anchors, theirs to the rows, hash, bag and order; soft labels of three points and two in
    the making; scores and labels while they are decoded.
    """
    columns = 1 if n_classes == 2 else n_classes
    return 3 * n_nearest * 12 + 6 * 8 + 5 * columns * 8 + 3 * n_classes * 8 + 3 * 8


def require_memory(client: Any, n_rows: int, n_classes: int, n_nearest: int) -> None:
    """Log what every worker needs, and raise where its limit is lower."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    needed = _SPARE * n_rows * bytes_a_row(n_classes, n_nearest) / max(len(workers), 1)
    limits = [one["memory_limit"] for one in workers.values() if one.get("memory_limit")]
    _log.info(
        "%d workers need about %.2f GiB each for %d rows", len(workers), needed / 2**30, n_rows
    )
    if limits and needed > min(limits):
        raise MemoryError(
            f"{n_rows:,} rows of {n_classes} classes need {needed / 2**30:.1f} GiB on each of "
            f"{len(workers)} workers; the smallest has {min(limits) / 2**30:.1f} GiB. Use "
            f"{-(-int(needed) * len(workers) // min(limits))} workers or more, or larger ones."
        )
