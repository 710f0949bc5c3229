"""What a worker process of `methods.py` does; needs numpy and nothing else."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np


def measure(fit_and_label, files) -> None:
    """Fit each file; print accuracy, seconds and peak memory (MiB), one JSON line per fit."""
    data = [np.load(path) for path in files]
    read = [(one["X"], one["y"], one["bags"], one["shares"]) for one in data]
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = peak_mib()
    for seed, (X, y, bags, shares) in enumerate(read):
        started, clock = time.process_time(), time.perf_counter()
        totals, rule = fit_and_label(X, bags, shares, seed)
        line = {
            "totals": float((totals == y).mean()),
            "rule": float((rule == y).mean()),
            "cpu": time.process_time() - started,
            "wall": time.perf_counter() - clock,
            "peak": peak_mib() - before,
        }
        print(json.dumps(line), flush=True)


def peak_mib() -> float:
    """Return the largest resident memory so far; Linux only."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("the system does not tell the peak of memory")
