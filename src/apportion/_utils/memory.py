"""Free memory, which is checked before something large is allocated."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def free_bytes() -> int | None:
    """Return the memory that a process may still allocate, or None if the system does not say."""
    bounds = [bound for bound in (_system_free(), _container_free()) if bound is not None]
    return min(bounds, default=None)


def refuse_if_too_large(what: str, needed: int, instead: str) -> None:
    """Raise a MemoryError, before anything is allocated, if `needed` bytes are not free.

    Parameters
    ----------
    what : str
        What needs the memory.
    needed : int
        How many bytes it needs.
    instead : str
        What to use instead.
    """
    free = free_bytes()
    if free is not None and needed > free:
        raise MemoryError(
            f"{what} needs {readable(needed)} and {readable(free)} are free; "
            f"nothing was allocated. Use {instead}."
        )


def _system_free() -> int | None:
    with suppress(OSError), open("/proc/meminfo") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(AttributeError, OSError, ValueError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _container_free() -> int | None:
    """Return what the limit of the cgroup leaves; inactive file cache can be reclaimed."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return max(limit - used + int(statistics.get("inactive_file", 0)), 0)
    except (OSError, ValueError):
        return None


def readable(n_bytes: int) -> str:
    """Return a number of bytes in MiB or GiB, as text."""
    return f"{n_bytes / 2**30:.2f} GiB" if n_bytes >= 2**27 else f"{n_bytes / 2**20:.1f} MiB"
