"""Sums over all rows, weighted by Gaussian similarities that are nowhere held, in Triton."""

# Parameters of kernels are pointers and numbers, which have no types of Python.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

_ROWS, _COLUMNS, _WARPS = 32, 64, 4
"""Rows and columns of a tile, and the warps that work on it."""

_TOGETHER = 4
"""Columns of soft labels that are summed while a similarity is known."""


@triton.jit(do_not_specialize=["n"])  # type: ignore[untyped-decorator]
def _sums(
    X, F, out, n,
    D: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write Σ_j exp(-‖x_i - x_j‖²) f_j of some rows, for up to four columns of F."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * 4
    inside = rows < n
    a = tl.zeros((ROWS, COLUMNS), tl.float64)
    b, c, d = a, a, a
    for first in range(0, n, COLUMNS):
        others = first + tl.arange(0, COLUMNS)
        some = others < n
        square = tl.zeros((ROWS, COLUMNS), tl.float32)
        for k in range(0, D):
            x = tl.load(X + k * n + rows, mask=inside, other=0.0)
            y = tl.load(X + k * n + others, mask=some, other=0.0)
            away = x[:, None] - y[None, :]
            square += away * away
        apart = (rows[:, None] != others[None, :]) & some[None, :]
        weight = tl.where(apart, tl.exp(-square), 0.0).to(tl.float64)
        at = F + others.to(tl.int64) * C + column
        a += weight * tl.load(at, mask=some, other=0.0)[None, :]
        if C > 1:
            b += weight * tl.load(at + 1, mask=some & (column + 1 < C), other=0.0)[None, :]
            c += weight * tl.load(at + 2, mask=some & (column + 2 < C), other=0.0)[None, :]
            d += weight * tl.load(at + 3, mask=some & (column + 3 < C), other=0.0)[None, :]
    at = out + rows.to(tl.int64) * C + column
    tl.store(at, tl.sum(a, axis=1), mask=inside)
    if C > 1:
        tl.store(at + 1, tl.sum(b, axis=1), mask=inside & (column + 1 < C))
        tl.store(at + 2, tl.sum(c, axis=1), mask=inside & (column + 2 < C))
        tl.store(at + 3, tl.sum(d, axis=1), mask=inside & (column + 3 < C))


def kernel_sums(X: Any, F: Any) -> Any:
    """Return Σ_j exp(-‖x_i - x_j‖²) f_j over the other rows j.

    Parameters
    ----------
    X : tensor of shape (n_features, n_samples)
        The features, in single precision.
    F : tensor of shape (n_samples, n_columns)
        Soft labels, in double precision.
    """
    d, n = X.shape
    F = F.contiguous()
    out = torch.empty_like(F)
    columns = F.shape[1]
    grid = (triton.cdiv(n, _ROWS), triton.cdiv(columns, _TOGETHER))
    sizes = {"D": d, "C": columns, "ROWS": _ROWS, "COLUMNS": _COLUMNS}
    _sums[grid](X, F, out, n, **sizes, num_warps=_WARPS)
    return out
