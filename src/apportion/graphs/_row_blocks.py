"""Products with a matrix, in blocks of its rows, in threads."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from apportion._utils.threads import in_threads, n_threads, slices
from apportion._utils.typing import FloatArray

_PART_NUMBERS = 2**20
"""Rows with this many numbers are worked on at a time, so that their soft labels stay in cache."""

_FEW_NUMBERS = 2**19
"""Rows with fewer numbers than this are not worth a thread."""

_DENSE_ROWS = 256
"""The rows of a dense matrix that are worked on at a time."""


class RowPart(NamedTuple):
    """A block of rows of a matrix: their positions, and the rows."""

    rows: slice
    matrix: Any


def row_parts(matrix: Any) -> list[RowPart]:
    """Divide a sparse matrix into blocks of rows of about equally many numbers, without a copy.

    Examples
    --------
    >>> [part.rows for part in row_parts(sparse.csr_array(np.eye(3)))]
    [slice(0, 3, None)]
    """
    few = min(n_threads(), -(-matrix.nnz // _FEW_NUMBERS))
    n_parts = max(1, few, matrix.nnz // _PART_NUMBERS)
    edges = np.searchsorted(matrix.indptr, matrix.nnz * np.arange(n_parts + 1) / n_parts)
    edges[0], edges[-1] = 0, matrix.shape[0]
    parts = [slice(int(first), int(last)) for first, last in pairwise(edges) if last > first]
    return [RowPart(rows, some_rows(matrix, rows)) for rows in parts]


def multiply(matrix: Any, F: FloatArray) -> FloatArray:
    """Return the product of a sparse or dense matrix and some columns."""
    product = np.empty((matrix.shape[0], *F.shape[1:]))

    def times(part: RowPart) -> None:
        product[part.rows] = part.matrix @ F

    if sparse.issparse(matrix):
        parts = row_parts(matrix)
    else:
        parts = [RowPart(rows, matrix[rows]) for rows in slices(len(matrix), _DENSE_ROWS)]
    in_threads(times, parts)
    return product


def some_rows(matrix: Any, rows: slice) -> Any:
    """Return some rows of a sparse matrix, without a copy of their numbers."""
    ends = matrix.indptr[rows.start : rows.stop + 1]
    cells = slice(int(ends[0]), int(ends[-1]))
    return _uncopied(
        sparse.csr_array,
        (rows.stop - rows.start, matrix.shape[1]),
        (matrix.data[cells], matrix.indices[cells], ends - ends[0]),
    )


def transposed(matrix: Any) -> Any:
    """Return the transpose of some rows of a sparse matrix, without a copy of their numbers."""
    arrays = matrix.data, matrix.indices, matrix.indptr
    return _uncopied(sparse.csc_array, matrix.shape[::-1], arrays)


def _uncopied(form: Any, shape: tuple[int, int], arrays: tuple[Any, Any, Any]) -> Any:
    """Return the sparse matrix that holds these arrays themselves.

    SciPy's constructor would copy arrays that are less than half of a larger array.
    """
    matrix = form(shape, dtype=arrays[0].dtype)
    matrix.data, matrix.indices, matrix.indptr = arrays
    return matrix
