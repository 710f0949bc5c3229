"""NumPy's functions for torch tensors, under NumPy's names: those that work on rows needs.

`arrays.namespace` answers with NumPy or with this module, so that one piece of code works on rows
in memory and on rows on a device. A library for the array API standard would do the same, but it
turns every Python number into a tensor, which is a copy to the device each time.
"""

from __future__ import annotations

from numbers import Number
from typing import Any

import torch
from torch import (  # noqa: F401
    abs,
    argmax,
    argmin,
    bincount,
    cholesky_solve,
    concatenate,
    cumsum,
    einsum,
    empty_like,
    exp,
    hstack,
    linalg,
    log,
    multiply,
    negative,
    searchsorted,
    sign,
    zeros_like,
)
from torch import round as rint  # noqa: F401

_CHUNK = 128
"""Rows that one thread of a device adds up: longer runs are added in chunks, then these."""


def where(condition: Any, a: Any, b: Any) -> Any:
    """Choose between arrays or numbers; two numbers make an array of double precision."""
    if isinstance(a, float) and isinstance(b, float):
        a = torch.full((), a, dtype=torch.float64, device=condition.device)
    return torch.where(condition, a, b)


def maximum(a: Any, b: Any) -> Any:
    """Return the larger of an array and an array or number."""
    return torch.clip(a, min=b) if isinstance(b, Number) else torch.maximum(a, b)


def minimum(a: Any, b: Any) -> Any:
    """Return the smaller of an array and an array or number."""
    return torch.clip(a, max=b) if isinstance(b, Number) else torch.minimum(a, b)


def clip(a: Any, low: Any, high: Any, out: Any = None) -> Any:
    """Return values within bounds, which may be arrays."""
    if isinstance(low, Number) == isinstance(high, Number):
        return torch.clip(a, low, high, out=out)
    return minimum(maximum(a, low), high)


def max(a: Any, axis: int | None = None) -> Any:
    """Return the largest value, or the largest along an axis."""
    return torch.amax(a, () if axis is None else axis)


def min(a: Any, axis: int | None = None) -> Any:
    """Return the smallest value, or the smallest along an axis."""
    return torch.amin(a, () if axis is None else axis)


def sort(a: Any, axis: int = -1) -> Any:
    """Return sorted values."""
    return torch.sort(a, dim=axis)[0]


def argsort(a: Any, axis: int = -1, kind: str | None = None) -> Any:
    """Return the order of values; it is always stable."""
    return torch.sort(a, dim=axis, stable=True)[1]


def flatnonzero(a: Any) -> Any:
    """Return the positions of values that are not 0."""
    return a.nonzero()[:, 0]


def take_along_axis(a: Any, indices: Any, axis: int) -> Any:
    """Return values at positions along an axis."""
    return torch.gather(a, axis, indices)


def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """Return values, each repeated so many times."""
    return torch.repeat_interleave(a, repeats, dim=axis)


class Segments:
    """Runs of consecutive rows, ready for sums over them.

    Sums are taken in chunks of fixed size, so that they are the same in every run, and long runs do
    not wait for one thread of the device.

    Parameters
    ----------
    lengths : tensor of int, of shape (n_runs,)
        How many rows each run has.
    """

    def __init__(self, lengths: Any) -> None:
        self.lengths = lengths
        self._levels = []
        while True:
            chunks = (lengths + (_CHUNK - 1)) // _CHUNK
            if not (chunks > 1).any():
                break
            whole = torch.full((int(chunks.sum()),), _CHUNK, device=lengths.device)
            some = chunks > 0
            whole[(chunks.cumsum(0) - 1)[some]] = (lengths - (chunks - 1) * _CHUNK)[some]
            self._levels.append(ends_of(whole))
            lengths = chunks
        self._levels.append(ends_of(lengths))

    def sum(self, values: Any) -> Any:
        """Return the sum of the rows of each run; 0 where it has none."""
        return self._over_runs("sum", values)

    def least(self, values: Any) -> Any:
        """Return the least of the rows of each run; inf where it has none."""
        return self._over_runs("min", values)

    def greatest(self, values: Any) -> Any:
        """Return the greatest of the rows of each run; -inf where it has none."""
        return self._over_runs("max", values)

    def _over_runs(self, join: str, values: Any) -> Any:
        # Whole numbers are joined in double precision, which is exact below 2**53.
        joined = values.contiguous() if values.is_floating_point() else values.double()
        for ends in self._levels:
            joined = torch.segment_reduce(joined, join, offsets=ends, axis=0, unsafe=True)
        return joined.to(values.dtype)


def runs_of(codes: Any) -> tuple[Any, Segments]:
    """Return the values that occur among sorted ones, and the runs of rows that have them."""
    values, lengths = torch.unique_consecutive(codes, return_counts=True)
    return values, Segments(lengths)


def ends_of(lengths: Any) -> Any:
    """Return where runs of so many rows begin, and where the last one ends."""
    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
