"""Quota decoding of 100,000 rows in 10 classes: how long the exact transport takes.

Ratios are to one `argsort` of every column of the same soft labels, timed beside it.
"""

from __future__ import annotations

import time

import numpy as np

from apportion import Totals
from apportion._core.decode import quota
from apportion._utils.hashing import hash_ranks
from apportion.supervision.bags import match_bags

ROWS, CLASSES = 100_000, 10


def soft_labels(kind: str, rng: np.random.Generator) -> np.ndarray:
    interior = rng.dirichlet(np.full(CLASSES, 0.3), ROWS)
    if kind == "interior":
        return interior
    if kind == "equal":
        return np.full((ROWS, CLASSES), 1 / CLASSES)
    decided = np.eye(CLASSES)[rng.integers(0, CLASSES, ROWS)]
    return np.where(rng.random((ROWS, 1)) < 0.8, decided, interior)


def main() -> None:
    print(f"{ROWS} rows, {CLASSES} classes")
    print(f"{'soft labels':>14}{'bags':>8}{'seconds':>9}{'× argsort':>11}{'tied rows':>11}")
    for kind in ("mostly decided", "interior", "equal"):
        for n_bags in (1, 100, 10_000):
            rng = np.random.default_rng(0)
            F = soft_labels(kind, rng)
            codes = np.arange(ROWS) % n_bags
            labels = rng.choice(CLASSES, ROWS, p=rng.dirichlet(np.full(CLASSES, 3.0)))
            totals = Totals.from_labels(labels, codes, classes=list(range(CLASSES)))
            bags = match_bags(ROWS, bags=codes, proportions=totals)
            ranks = hash_ranks(None, ROWS)
            started = time.perf_counter()
            np.argsort(F, axis=0)
            sorting = time.perf_counter() - started
            started = time.perf_counter()
            decoded = quota(F, bags, ranks)
            seconds = time.perf_counter() - started
            counts = bags.groups.sum(np.eye(CLASSES)[decoded.labels])
            assert (counts == bags.lower).all(), "every bag must have exactly its counts"
            ratio, tied = seconds / sorting, decoded.tied.sum()
            print(f"{kind:>14}{n_bags:>8}{seconds:>9.2f}{ratio:>11.0f}{tied:>11}")


if __name__ == "__main__":
    main()
