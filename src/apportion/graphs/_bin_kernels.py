"""Kernels that find near points on a GPU, in Triton.

A block of rows is compared with all points, tile by tile, and no distance is written to memory:
each column of a tile is a bin, which keeps its two least distances (Chern et al., "TPU-KNN",
NeurIPS 2022, who keep one). Points are split among several programs, each with bins of its own.
"""

# Parameters of kernels are pointers and numbers, which have no types of Python.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

_ROWS, _COLUMNS, _SPLITS = 64, 64, 8
"""Rows and bins of a program, and programs that share the points: the fastest of those tried on an
H200 with 20 features."""

MOST_FEATURES = 128
"""The shared memory of no GPU holds the tiles of more features; that of many holds fewer."""


# Kernels are compiled once, not anew for numbers of rows that are multiples of 16.
@triton.jit(do_not_specialize=["n_rows", "n_points", "per_split"])  # type: ignore[untyped-decorator]
def _bins(
    Q, X, norms, values, points, n_rows, n_points, per_split,
    D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Write the two least values of each bin, and the points that have them."""
    split = tl.program_id(1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns, features = tl.arange(0, COLUMNS), tl.arange(0, D)
    inside = rows[:, None] < n_rows
    q = tl.load(Q + rows[:, None] * D + features[None, :], mask=inside, other=0.0)
    least = tl.full((ROWS, COLUMNS), float("inf"), tl.float32)
    second = least
    least_point = tl.zeros((ROWS, COLUMNS), tl.int32)
    second_point = least_point
    last = tl.minimum((split + 1) * per_split, n_points)
    for first in range(split * per_split, last, COLUMNS):
        p = first + columns
        some = p[None, :] < last
        x = tl.load(X + p[None, :] * D + features[:, None], mask=some, other=0.0)
        norm = tl.load(norms + p, mask=p < last, other=float("inf"))
        # Three products of tensor cores are as exact as one in single precision.
        value = norm[None, :] - 2.0 * tl.dot(q, x, input_precision="tf32x3")
        point = tl.broadcast_to(p[None, :], (ROWS, COLUMNS))
        first_now, second_now = value < least, value < second
        second = tl.where(first_now, least, tl.where(second_now, value, second))
        second_point = tl.where(first_now, least_point, tl.where(second_now, point, second_point))
        least = tl.where(first_now, value, least)
        least_point = tl.where(first_now, point, least_point)
    place = rows[:, None].to(tl.int64) * (2 * COLUMNS * SPLITS) + split * COLUMNS + columns[None, :]
    after = COLUMNS * SPLITS
    tl.store(values + place, least, mask=inside)
    tl.store(values + place + after, second, mask=inside)
    tl.store(points + place, least_point, mask=inside)
    tl.store(points + place + after, second_point, mask=inside)


@triton.jit(do_not_specialize=["n_rows", "n_points"])  # type: ignore[untyped-decorator]
def _counts(
    Q, X, norms, limits, counts, n_rows, n_points,
    D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write how many points have a value no larger than the limit of a row."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns, features = tl.arange(0, COLUMNS), tl.arange(0, D)
    inside = rows[:, None] < n_rows
    q = tl.load(Q + rows[:, None] * D + features[None, :], mask=inside, other=0.0)
    limit = tl.load(limits + rows, mask=rows < n_rows, other=float("-inf"))
    count = tl.zeros((ROWS,), tl.int32)
    for first in range(0, n_points, COLUMNS):
        p = first + columns
        some = p[None, :] < n_points
        x = tl.load(X + p[None, :] * D + features[:, None], mask=some, other=0.0)
        norm = tl.load(norms + p, mask=p < n_points, other=float("inf"))
        value = norm[None, :] - 2.0 * tl.dot(q, x, input_precision="tf32x3")
        count += tl.sum((value <= limit[:, None]).to(tl.int32), axis=1)
    tl.store(counts + rows, count, mask=rows < n_rows)


def tiles_fit(device: Any, n_features: int) -> bool:
    """Return whether the shared memory of a GPU holds the tiles of so many features."""
    if n_features > MOST_FEATURES:
        return False
    row = padded(torch.zeros((1, n_features), device=device))
    try:
        least_in_bins(row, row, row[:, 0])
    except triton.OutOfResources:
        return False
    return True


def padded(X: Any) -> Any:
    """Return rows with features of 0 added, up to a power of two that tiles can have."""
    width = max(16, triton.next_power_of_2(X.shape[1]))
    return torch.nn.functional.pad(X, (0, width - X.shape[1])).contiguous()


def least_in_bins(Q: Any, X: Any, norms: Any) -> tuple[Any, Any]:
    """Return the values of all bins, the least of each before the second ones, and their points."""
    n_rows, n_points = len(Q), len(X)
    per_split = triton.cdiv(triton.cdiv(n_points, _SPLITS), _COLUMNS) * _COLUMNS
    values = torch.empty((n_rows, 2 * _COLUMNS * _SPLITS), device=Q.device)
    points = torch.empty_like(values, dtype=torch.int32)
    sizes = {"D": Q.shape[1], "ROWS": _ROWS, "COLUMNS": _COLUMNS, "SPLITS": _SPLITS}
    grid = (triton.cdiv(n_rows, _ROWS), _SPLITS)
    with torch.cuda.device_of(Q):  # Triton takes torch's current GPU, which may be another one
        _bins[grid](Q, X, norms, values, points, n_rows, n_points, per_split, **sizes, num_warps=4)
    return values, points


def count_up_to(Q: Any, X: Any, norms: Any, limits: Any) -> Any:
    """Return how many points have a value no larger than the limit of each row."""
    counts = torch.empty(len(Q), dtype=torch.int32, device=Q.device)
    sizes = {"D": Q.shape[1], "ROWS": _ROWS, "COLUMNS": _COLUMNS}
    grid = (triton.cdiv(len(Q), _ROWS),)
    with torch.cuda.device_of(Q):
        _counts[grid](Q, X, norms, limits, counts, len(Q), len(X), **sizes, num_warps=4)
    return counts
