"""Features from Parquet files, row group by row group, in the precision they are used in."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from apportion._utils.typing import FloatArray
from apportion.exceptions import name_some


def read_rows(
    path: str | PathLike[str], columns: Sequence[str] | None = None, *, dtype: Any = np.float32
) -> FloatArray:
    """Return the numeric columns of a Parquet file as one array of rows and features.

    Row groups are read one after the other into the array, so that no copy in another precision
    ever exists: ten million rows of 20 features take 0.8 GB.

    Parameters
    ----------
    path : str or path
        The file.
    columns : sequence of str, optional
        The features, in order; by default all columns that hold numbers.
    dtype : {float32, float64}, default=float32
        The precision of the array. Single precision holds 7 digits: enough for measurements, not
        for time stamps or ids, which are no features.

    Returns
    -------
    ndarray of shape (n_samples, n_features)

    Examples
    --------
    >>> import pyarrow, pyarrow.parquet, tempfile, os
    >>> file = os.path.join(tempfile.mkdtemp(), "windows.parquet")
    >>> table = pyarrow.table({"day": ["mon", "tue"], "mean": [0.5, 2.0]})
    >>> pyarrow.parquet.write_table(table, file)
    >>> read_rows(file)
    array([[0.5],
           [2. ]], dtype=float32)
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("read_rows needs pyarrow: install apportion[pyarrow].") from error
    if isinstance(columns, str) or (columns is not None and not len(set(columns)) == len(columns)):
        raise ValueError(
            f"The 'columns' of read_rows must be different names in a list. Got {columns!r}."
        )
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"The 'dtype' of read_rows must be float32 or float64. Got {dtype!r}.")
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        numeric = [field.name for field in schema if _holds_numbers(field.type, pa)]
        names = numeric if columns is None else list(columns)
        for name in names:
            if name not in numeric:
                known = name in schema.names
                found = f"values of type {schema.field(name).type}" if known else "no such column"
                raise ValueError(
                    f"column {name!r} of {path}: found {found}. Allowed: the numeric columns "
                    f"{name_some(map(repr, numeric))}. Hint: name these in `columns`."
                )
        if not names:
            raise ValueError(
                f"{path}: found no numeric column to read. Allowed: features as numbers. Hint: "
                f"encode the columns {name_some(map(repr, schema.names))}, or name some of "
                f"{name_some(map(repr, numeric)) or 'them'} in `columns`."
            )
        rows = np.empty((file.metadata.num_rows, len(names)), dtype=dtype)
        first = 0
        for batch in file.iter_batches(columns=names, batch_size=2**16):
            last = first + batch.num_rows
            for place, name in enumerate(names):
                cells = batch.column(name)
                if cells.null_count:
                    row = first + int(np.flatnonzero(cells.is_null())[0])
                    raise ValueError(
                        f"row {row}, column {name!r} of {path}: found an empty cell. Allowed: "
                        "numbers. Hint: fill the cell or drop the row."
                    )
                values = cells.to_numpy(zero_copy_only=False)
                with np.errstate(over="ignore"):
                    rows[first:last, place] = values
                lost = np.isinf(rows[first:last, place]) & np.isfinite(values.astype(np.float64))
                if lost.any():
                    row = int(np.argmax(lost))
                    raise ValueError(
                        f"row {first + row}, column {name!r} of {path}: found {values[row]!r}. "
                        "Allowed: what single precision holds. Hint: read with "
                        "dtype=numpy.float64, or rescale the column."
                    )
            first = last
    return rows


def _holds_numbers(kind: Any, pa: Any) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )
