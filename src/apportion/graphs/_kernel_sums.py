"""Sums over all rows, weighted by Gaussian similarities that are nowhere held, in Triton."""

# Parameters of kernels are pointers and numbers, which have no types of Python.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

_ROWS, _COLUMNS, _WARPS = 128, 16, 4
"""Rows and columns of a tile, and the warps that work on it: the fastest of those tried on an H200
with 20 features."""

_TOGETHER = 4
"""Columns of soft labels that are summed while a similarity is known, and features between two
tests of a loop. Features, and columns if there are several, are padded to a multiple of this."""

_BLOCK = 128
"""Rows are padded to a multiple of this. With both, no load needs a mask."""

_TO_BASE_2 = 1.4426950408889634**0.5


@triton.jit(do_not_specialize=["n_blocks"])  # type: ignore[untyped-decorator]
def _sums(
    X, F, out, n_blocks,
    D: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write Σ_j 2^(-‖x_i - x_j‖²) f_j of some rows, for one column of F or for four of several."""
    n = n_blocks * 128
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * 4
    a = tl.zeros((ROWS, COLUMNS), tl.float64)
    b, c, d = a, a, a
    for first in range(0, n, COLUMNS):
        others = first + tl.arange(0, COLUMNS)
        square = tl.zeros((ROWS, COLUMNS), tl.float32)
        for start in range(0, D, 4):
            for k in tl.static_range(4):
                x = tl.load(X + (start + k) * n + rows)
                y = tl.load(X + (start + k) * n + others)
                away = x[:, None] - y[None, :]
                square += away * away
        weight = tl.where(rows[:, None] != others[None, :], tl.exp2(-square), 0.0).to(tl.float64)
        at = F + others.to(tl.int64) * C + column
        a += weight * tl.load(at)[None, :]
        if C > 1:
            b += weight * tl.load(at + 1)[None, :]
            c += weight * tl.load(at + 2)[None, :]
            d += weight * tl.load(at + 3)[None, :]
    at = out + rows.to(tl.int64) * C + column
    tl.store(at, tl.sum(a, axis=1))
    if C > 1:
        tl.store(at + 1, tl.sum(b, axis=1))
        tl.store(at + 2, tl.sum(c, axis=1))
        tl.store(at + 3, tl.sum(d, axis=1))


def in_columns(X: Any) -> Any:
    """Return features in the form that `kernel_sums` reads: one row per feature, padded."""
    n, d = X.shape
    scaled = (_TO_BASE_2 * X).float().T
    return torch.nn.functional.pad(scaled, (0, -n % _BLOCK, 0, -d % _TOGETHER)).contiguous()


def kernel_sums(columns: Any, F: Any) -> Any:
    """Return Σ_j exp(-‖x_i - x_j‖²) f_j over the other rows j.

    Parameters
    ----------
    columns : tensor
        The features, from `in_columns`.
    F : tensor of shape (n_samples, n_columns)
        Soft labels, in double precision.
    """
    (d, n), (n_rows, n_columns) = columns.shape, F.shape
    more = -n_columns % _TOGETHER if n_columns > 1 else 0
    padded = torch.nn.functional.pad(F, (0, more, 0, n - n_rows)).contiguous()
    out, width = torch.empty_like(padded), n_columns + more
    grid = (n // _ROWS, triton.cdiv(width, _TOGETHER))
    sizes = {"D": d, "C": width, "ROWS": _ROWS, "COLUMNS": _COLUMNS}
    with torch.cuda.device_of(F):  # Triton takes torch's current GPU, which may be another one
        _sums[grid](columns, padded, out, n // _BLOCK, **sizes, num_warps=_WARPS)
    return out[:n_rows, :n_columns]
