"""Parquet files: what their footers say of the columns, and their rows as numbers, in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from apportion._io.feature_columns import choose_columns
from apportion._io.file_kinds import (
    PARQUET_START,
    check_unpacked,
    first_bytes,
    refuse_bad_names,
)
from apportion._io.identifiers import plain_name
from apportion._io.read import no_column
from apportion._utils.typing import FloatArray
from apportion.exceptions import FileError, name_some

_BATCH_ROWS = 2**16


@contextmanager
def reading(file: str) -> Iterator[None]:
    """Raise an error that names the file where it cannot be read as Parquet."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise FileError(
            file,
            f"no whole Parquet file ({str(error).splitlines()[0].rstrip('.')})",
            "Parquet files that were written to their end",
            "copy or export the file again",
        ) from None


def read_parquet(file: Path, columns: Sequence[str] | None = None) -> Any:
    """Return columns of a Parquet file, by default all, as a `pyarrow.Table`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    first_bytes(file, PARQUET_START, "Parquet")
    with reading(file.name), pq.ParquetFile(file) as parquet:
        names = parquet.schema_arrow.names
        refuse_bad_names(names, file.name)
        for name in columns or ():
            _require_column(name, names, file.name)
        check_unpacked(file, _unpacked_bytes(parquet.metadata, columns))
        table = parquet.read(columns=columns)
    # Some functions of pyarrow do not know the type string_view.
    plain = [
        field.with_type(pa.large_string()) if str(field.type) == "string_view" else field
        for field in table.schema
    ]
    return table.cast(pa.schema(plain, table.schema.metadata))


def _unpacked_bytes(metadata: Any, columns: Sequence[str] | None) -> float:
    """Return how many bytes columns take at least, as the footer of their file tells.

    A cell is taken to have four bytes: repeated cells take next to none in the file.
    """
    n_bytes = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if columns is None or column.path_in_schema.partition(".")[0] in columns:
                n_bytes += max(column.total_uncompressed_size, 4 * column.num_values)
    return n_bytes


def column_names(file: Path) -> list[str]:
    """Return the names of the columns of a Parquet file."""
    import pyarrow.parquet as pq

    with reading(str(file)):
        return list(pq.read_schema(file).names)


def read_rows(
    path: str | PathLike[str], columns: Sequence[str] | None = None, *, dtype: Any = np.float32
) -> FloatArray:
    """Return the numeric columns of a Parquet file as one array of rows and features.

    Rows are read in blocks into the array, so that there is never a copy of all rows in another
    precision: ten million rows of 20 features take 0.8 GB.

    Parameters
    ----------
    path : str or path
        The file.
    columns : sequence of str, optional
        The features, in order; by default all columns that hold numbers.
    dtype : {float32, float64}, default=float32
        The precision of the array. Single precision holds 7 digits: enough for measurements, but
        not for time stamps or ids, which are not features.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        The rows, in the order of the files.

    Raises
    ------
    FileError
        If a column is missing or does not hold numbers, or if a cell is empty or too large.

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
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("read_rows needs pyarrow: install apportion[pyarrow].") from error
    if isinstance(columns, str) or (columns is not None and len(set(columns)) != len(columns)):
        raise ValueError(
            f"The 'columns' of read_rows must be different names in a list. Got {columns!r}."
        )
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"The 'dtype' of read_rows must be float32 or float64. Got {dtype!r}.")
    with pq.ParquetFile(path) as parquet:
        schema = parquet.schema_arrow
        numeric = [field.name for field in schema if holds_numbers(field.type)]
        names = numeric if columns is None else list(columns)
        if not names:
            raise FileError(
                str(path),
                "no numeric column to read",
                "features as numbers",
                f"encode the columns {name_some(map(repr, schema.names))}, or name some of "
                f"{name_some(map(repr, numeric)) or 'them'} in `columns`",
            )
        return rows_of(parquet, names, dtype, str(path))


def rows_of(parquet: Any, columns: Sequence[str], dtype: Any, file: str) -> FloatArray:
    """Return numeric columns of an open Parquet file, which errors call `file`, as one array."""
    import pyarrow as pa

    schema = parquet.schema_arrow
    for name in columns:
        _require_column(name, schema.names, file)
        kind = schema.field(name).type
        if not holds_numbers(kind) and not pa.types.is_null(kind):
            raise no_numbers(file, name, schema)
    rows = np.empty((parquet.metadata.num_rows, len(columns)), dtype=dtype)
    first = 0
    for batch in parquet.iter_batches(_BATCH_ROWS, columns=list(columns)):
        for j, name in enumerate(columns):
            cells = batch.column(name)
            column = rows[first : first + batch.num_rows, j]
            values = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            with np.errstate(over="ignore"):
                column[:] = values
            if cells.null_count:
                row = int(np.argmax(cells.is_null()))
                found = "an empty cell", "numbers", "fill the cell or drop the row"
            elif dtype != np.float64 and (lost := np.isinf(column) & np.isfinite(values)).any():
                row = int(np.argmax(lost))
                found = (
                    repr(float(values[row])),
                    "what single precision holds",
                    "read with dtype=numpy.float64, or rescale the column",
                )
            else:
                continue
            row += first
            raise FileError("", *found, row=row, column=name, place=f"{file}, row {row}")
        first += batch.num_rows
    return rows


def holds_numbers(kind: Any) -> bool:
    """Return whether a type is integers, floats, decimals or truth values."""
    import pyarrow.types as types

    tests = types.is_integer, types.is_floating, types.is_decimal, types.is_boolean
    return any(test(kind) for test in tests)


def no_numbers(file: str, column: str, schema: Any) -> FileError:
    """Return the error for a feature that does not hold numbers."""
    numeric = [repr(field.name) for field in schema if holds_numbers(field.type)]
    return FileError(
        "",
        f"values of type {schema.field(column).type}",
        f"features from the numeric columns, {name_some(numeric) or 'of which there is none'}",
        "leave the column out, or turn it into numbers",
        column=column,
        place=file,
    )


def _require_column(name: str, columns: Sequence[str], where: str) -> None:
    if name not in columns:
        raise no_column(name, columns, where)


class Footer(NamedTuple):
    """The end of a Parquet file: its columns, and the number of rows and ranges of columns."""

    file: Path
    schema: Any
    metadata: Any

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return int(self.metadata.num_rows)

    def kind(self, column: str) -> Any:
        """Return the type of a column."""
        return self.schema.field(column).type


def read_footers(folder: Path) -> list[Footer]:
    """Return the footers of a folder's Parquet files, in the order of their names."""
    import pyarrow.parquet as pq

    footers = []
    for file in sorted(folder.glob("*.parquet")):
        with reading(str(file)):
            metadata = pq.read_metadata(file)
            footers.append(Footer(file, metadata.schema.to_arrow_schema(), metadata))
        refuse_bad_names(footers[-1].schema.names, str(file))
    if not footers:
        raise FileError(
            str(folder), "no Parquet file", "a folder of .parquet files", "check the path"
        )
    return footers


def unified(footers: Sequence[Footer]) -> Any:
    """Return one schema of all columns that some file has.

    A column that holds numbers in any file is float64; one that is empty in some files has its type
    from the others.
    """
    import pyarrow as pa

    kinds: dict[str, Any] = {}
    for footer in footers:
        for field in footer.schema:
            if holds_numbers(field.type):
                kinds[field.name] = pa.float64()
            elif pa.types.is_null(kinds.get(field.name, pa.null())):
                kinds[field.name] = field.type
    return pa.schema(kinds)


def require_columns(footers: Sequence[Footer], bags: str, features: Sequence[str]) -> None:
    """Raise unless every file has the bags and, as numbers, the features."""
    import pyarrow.types as types

    for footer in footers:
        _require_column(bags, footer.schema.names, str(footer.file))
    for name in features:
        having = [footer for footer in footers if name in footer.schema.names]
        if not having:
            raise no_column(name, footers[0].schema.names, str(footers[0].file))
        for footer in footers:
            if name not in footer.schema.names:
                raise FileError(
                    str(footer.file),
                    f"no column {name!r}, which {having[0].file} has",
                    "every feature in every file",
                    "add the column, or leave it out of the features",
                )
        numbers = [footer for footer in footers if holds_numbers(footer.kind(name))]
        others = [
            footer
            for footer in footers
            if footer not in numbers and not types.is_null(footer.kind(name))
        ]
        if others and not numbers:
            raise no_numbers(str(others[0].file), name, others[0].schema)
        if others:
            raise FileError(
                "",
                f"the type {numbers[0].kind(name)} in the first and {others[0].kind(name)} in the "
                "second",
                "numbers in all files (integers, floats, decimals and booleans may be mixed)",
                "write the column alike in all files, or leave it out of the features",
                column=name,
                place=f"{numbers[0].file} and {others[0].file}",
            )


def choose_features(
    footers: Sequence[Footer],
    bags: str,
    classes: Sequence[Any],
    features: Sequence[str],
    exclude: Sequence[str],
) -> tuple[list[str], dict[str, str]]:
    """Return the columns to use as features, and why the others are not, as for a single table.

    Nothing is known of the cells but what footers tell. Text is not a feature here, because the
    numbers of the files are used as they are.
    """
    import pyarrow.types as types

    schema = unified(footers)
    choice = choose_columns(
        schema.empty_table(),
        features=features,
        exclude=exclude,
        roles={bags: "the bags"},
        classes=classes,
    )
    n_samples = sum(footer.n_samples for footer in footers)
    names = {plain_name(label).casefold() for label in classes}
    for name in [name for name in choice.features if name not in features]:
        kind, (first, last) = schema.field(name).type, _range_of(footers, name) or (0, -1)
        if not holds_numbers(kind):
            why = "empty" if types.is_null(kind) else f"values of type {kind}"
        elif n_samples >= 20 and last - first == n_samples - 1:
            why = "an id: it counts the rows"
        elif 1 < len(names) == last - first + 1 and names == set(map(str, range(first, last + 1))):
            why = "its values are the classes"
        else:
            continue
        choice.left_out[name] = why
    return [name for name in choice.features if name not in choice.left_out], choice.left_out


def _range_of(footers: Sequence[Footer], name: str) -> tuple[int, int] | None:
    """Return the least and greatest cell of a column of integers, as the footers tell.

    It is None where a footer does not tell, or where a cell is empty.
    """
    import pyarrow.types as types

    ends: list[int] = []
    for _, schema, metadata in footers:
        position = schema.get_field_index(name)
        flat = metadata.num_columns == len(schema.names)
        if not flat or position < 0 or not types.is_integer(schema.field(position).type):
            return None
        for group in range(metadata.num_row_groups):
            statistics = metadata.row_group(group).column(position).statistics
            if statistics is None or not statistics.has_min_max or statistics.null_count != 0:
                return None
            ends += [statistics.min, statistics.max]
    return (min(ends), max(ends)) if ends else None
