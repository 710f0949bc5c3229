"""Partitions of Dask arrays, Dask dataframes and folders of Parquet files."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from apportion._dask.anchors import Rows
from apportion._io.identifiers import factorize, plain_name, vector_of
from apportion._io.parquet import (
    holds_numbers,
    read_footers,
    reading,
    require_columns,
    rows_of,
    unified,
)
from apportion._io.read import no_column
from apportion._utils.magnitude import LARGEST, largest_size, wide_enough
from apportion._utils.typing import FloatArray, IntArray
from apportion.exceptions import FileError, SupervisionError
from apportion.supervision.bags import bag_without_totals


@dataclass(frozen=True)
class Partitions:
    """Partitions that are read where they are worked on, as often as they are needed.

    Attributes
    ----------
    rows : list of Delayed
        The rows of each partition.
    n_features : int
        The number of features.
    n_samples : int or None
        The number of rows; None if it is not known before they are read.
    features : sequence of str, or None
        The columns that are used, if they have names.
    files : list of path, or None
        The files they come from.
    """

    rows: list[Any]
    n_features: int
    n_samples: int | None = None
    features: Sequence[str] | None = None
    files: list[Path] | None = None


def partitions_of(
    X: Any, bags: Any, ids: Sequence[Hashable], features: Sequence[str] | None
) -> Partitions:
    """Return the partitions of X, with each row's bag as a position among the ids.

    Parameters
    ----------
    X : Dask array, Dask dataframe, or path
        The rows.
    bags : Dask array or series, array-like, or str
        Bag ids of the rows; for a dataframe or folder, the column that holds them.
    ids : sequence
        The bags that have totals.
    features : sequence of str, optional
        For a dataframe or folder, the columns to use; by default all numbers but the bags, for a
        folder in any of its files.
    """
    import dask

    # One task holds the mapping, and all partitions share it.
    known = {bag: position for position, bag in enumerate(ids)}
    positions = dask.delayed(partial(dict, known), pure=False)()
    if isinstance(X, str | PathLike):
        return _of_folder(Path(X), bags, positions, features)
    if hasattr(X, "to_delayed") and hasattr(X, "chunks"):
        return _of_array(X, bags, positions)
    if hasattr(X, "to_delayed") and hasattr(X, "columns"):
        return _of_frame(X, bags, positions, features)
    raise _misfit(
        "X",
        f"a {type(X).__name__}",
        "a Dask array, a Dask dataframe, or the path of a folder of Parquet files",
        "use apportion.LPLLP for rows in memory, or dask.array.from_array(X)",
    )


def _of_array(X: Any, bags: Any, positions: Any) -> Partitions:
    import dask.array as da

    if X.ndim != 2:
        hint = "reshape it to two dimensions"
        raise _misfit("X", f"{X.ndim} dimensions", "rows and features", hint)
    X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    lengths = X.chunks[0]
    n_samples = None if np.isnan(sum(lengths)) else int(sum(lengths))
    bags = bags.to_dask_array() if hasattr(bags, "to_dask_array") else bags
    if not isinstance(bags, da.Array):
        bags = vector_of(bags, "bag id")
        if n_samples is None:
            raise _misfit(
                "X",
                "chunks of unknown length",
                "chunks of known length if bags are in memory",
                "call X.compute_chunk_sizes(), or give bags as a Dask array of the same chunks",
            )
        _require_length(len(bags), n_samples)
        bags = da.from_array(bags, chunks=(lengths,), name=False)
    elif n_samples is not None and not np.isnan(bags.shape[0]):
        _require_length(bags.shape[0], n_samples)
        bags = bags.rechunk((lengths,))
    rows = _read_blocks(X.to_delayed()[:, 0], bags.to_delayed(), positions)
    return Partitions(rows, X.shape[1], n_samples)


def _of_frame(X: Any, bags: Any, positions: Any, features: Sequence[str] | None) -> Partitions:
    blocks = X.to_delayed()
    if isinstance(bags, str):
        _require_columns([bags], X.columns, "`bags`")
        cells: Sequence[Any] = [bags] * len(blocks)
    elif hasattr(bags, "to_delayed"):
        cells = bags.to_delayed()
    else:
        raise _misfit(
            "bags",
            f"a {type(bags).__name__}",
            "the name of a column of X, or a Dask series cut like X",
            "put the bags into a column of X, and name it",
        )
    _require_columns(features or (), X.columns, "`features`")
    column = bags if isinstance(bags, str) else bags.name
    numbers = [name for name in X.select_dtypes("number").columns if name != column]
    chosen = numbers if features is None else list(features)
    _require_features(chosen, str(column), "`features`")
    rows = _read_blocks(blocks, cells, positions, chosen)
    return Partitions(rows, len(chosen), features=chosen)


def _read_blocks(
    blocks: Sequence[Any], cells: Sequence[Any], positions: Any, features: Any = None
) -> list[Any]:
    """Return the rows of blocks of an array or dataframe, with the blocks of their bags."""
    import dask

    if len(cells) != len(blocks):
        hint = "cut bags like X, or name a column of a dataframe"
        raise _misfit("bags", f"{len(cells)} partitions", f"{len(blocks)}, as X has", hint)
    read = dask.delayed(read_block, pure=False)
    return [
        read(block, bags, positions, f"partition {number}", features)
        for number, (block, bags) in enumerate(zip(blocks, cells, strict=True))
    ]


def _of_folder(path: Path, bags: Any, positions: Any, features: Sequence[str] | None) -> Partitions:
    import dask

    footers = read_footers(path)
    if not isinstance(bags, str):
        hint = "name the column of bags"
        raise _misfit("bags", f"a {type(bags).__name__}", "the name of a column", hint)
    numbers = [field.name for field in unified(footers) if holds_numbers(field.type)]
    chosen = [name for name in numbers if name != bags] if features is None else list(features)
    _require_features(chosen, bags, str(path))
    require_columns(footers, bags, chosen)
    files = [footer.file for footer in footers]
    read = dask.delayed(read_file, pure=False)
    rows = [read(str(file), str(file.absolute()), bags, positions, chosen) for file in files]
    n_samples = sum(footer.n_samples for footer in footers)
    return Partitions(rows, len(chosen), n_samples, chosen, files)


def read_file(
    file: str, path: str, bags: str, positions: Mapping[Hashable, int], features: Sequence[str]
) -> Rows:
    """Return the rows of a Parquet file, which errors call `file` and which is at `path`."""
    import pyarrow.parquet as pq

    with reading(file), pq.ParquetFile(path) as parquet:
        X = rows_of(parquet, features, np.float64, file)
        _require_columns([bags], parquet.schema_arrow.names, file)
        cells = parquet.read([bags]).column(bags)
    encoded = cells.unify_dictionaries().combine_chunks().dictionary_encode()
    codes, ids = factorize(encoded.dictionary.to_pylist(), "bag id")
    row_codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return _rows(X, np.append(codes, -1)[row_codes], ids, positions, file, features)


def read_block(
    block: Any, bags: Any, positions: Mapping[Hashable, int], name: str, features: Any
) -> Rows:
    """Return the rows of a block of an array, or of a dataframe that has the features."""
    if features is None:
        return _rows(np.asarray(block), *factorize(bags, "bag id"), positions, name, None)
    bags = block[bags] if isinstance(bags, str) else bags
    X = np.empty((len(block), len(features)))
    for j, column in enumerate(features):
        try:
            if block[column].dtype.kind in "mM":
                raise TypeError("times")
            X[:, j] = block[column].to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise FileError(
                "",
                f"cells that are not numbers ({error})",
                "numbers in the columns of features",
                "leave the column out, or turn it into numbers",
                column=column,
                place=name,
            ) from None
    return _rows(X, *factorize(bags, "bag id"), positions, name, features)


def _rows(
    X: FloatArray,
    codes: IntArray,
    ids: list[Hashable],
    positions: Mapping[Hashable, int],
    name: str,
    features: Any,
) -> Rows:
    """Return rows with their bags' positions; raise for what cannot be used, naming the place."""
    if X.dtype not in (np.float32, np.float64):
        if X.dtype.kind not in "biufO":
            raise FileError(name, f"values of type {X.dtype}", "numbers", "turn them into numbers")
        X = X.astype(np.float64)
    largest = largest_size(X)
    if not largest <= LARGEST:
        row, column = (int(cells[0]) for cells in np.nonzero(~(np.abs(X) <= LARGEST)))
        names: Any = range(X.shape[1]) if features is None else features
        raise FileError(
            "",
            repr(float(X[row, column])),
            "finite numbers between -1e100 and 1e100",
            "correct or fill the cell, drop the row, or rescale the column",
            row=row,
            column=names[column],
            place=f"{name}, row {row}",
        )
    _require_length(len(codes), len(X), name)
    if all(isinstance(bag, str) for bag in positions):  # as in a table from a CSV file
        ids = [bag if bag in positions else plain_name(bag) for bag in ids]
    for code, bag in enumerate(ids):
        if bag not in positions:
            row = int(np.flatnonzero(codes == code)[0])
            raise bag_without_totals(bag, row, tuple(positions), place=f"{name}, row {row}")
    of_code: IntArray = np.array([*(positions[bag] for bag in ids), -1], dtype=np.intp)
    return Rows(wide_enough(X, largest), of_code[codes])


def _require_columns(names: Sequence[str], columns: Sequence[str], where: str) -> None:
    for name in names:
        if name not in columns:
            raise no_column(name, list(columns), where)


def _require_features(features: Sequence[str], bags: str, where: str) -> None:
    if not features:
        raise FileError(
            where, "no column of numbers", "at least one beside the bags", "name the features"
        )
    if bags in features:
        raise FileError(
            where,
            f"the bags' column {bags!r} among the features",
            "columns of numbers beside the bags",
            "leave it out",
        )


def _require_length(n_ids: int, n_samples: int, where: str = "") -> None:
    if n_ids != n_samples:
        allowed = f"{n_samples:,}, one for every row of X"
        raise _misfit("bags", f"{n_ids:,} ids", allowed, "give one id per row", where)


def _misfit(
    parameter: str, found: str, allowed: str, hint: str, where: str = ""
) -> SupervisionError:
    return SupervisionError(where, found, allowed, hint, parameter=parameter)
