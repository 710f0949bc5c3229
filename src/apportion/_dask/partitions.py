"""Partitions from what people have: Dask arrays, Dask dataframes, folders of Parquet files."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from apportion._dask.anchors import Rows
from apportion._dask.footers import (
    NOTHING,
    NUMBERS,
    kind_of,
    no_numbers,
    read_footers,
    reading,
    require_columns,
    unified,
)
from apportion._io.read import no_column
from apportion._io.tables import LARGEST, _vector, factorize, largest_size, plain_name, wide_enough
from apportion._utils.threads import slices
from apportion._utils.typing import FloatArray, IntArray
from apportion.exceptions import FileError, SupervisionError, name_some

_BLOCK_ROWS = 2**12

_ALLOWED = "a Dask array, a Dask dataframe, or the path of a folder of Parquet files"


@dataclass(frozen=True)
class Partitions:
    """Partitions that are read where they are worked on, as often as that is needed.

    Attributes
    ----------
    rows : list of Delayed
        The rows of each.
    n_features : int
        The number of features.
    n_samples : int or None
        The number of rows; None if it is not known before they are read.
    features : sequence of str, or None
        The columns that are used, where they have names.
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
        Bag ids of the rows; of a dataframe or folder, the column that holds them.
    ids : sequence
        The bags that have totals.
    features : sequence of str, optional
        Of a dataframe or folder: the columns to use; by default all numbers but the bags, of a
        folder in any of its files.
    """
    place = _place(ids)
    if isinstance(X, str | PathLike):
        return _of_folder(Path(X), bags, place, features)
    if hasattr(X, "to_delayed") and hasattr(X, "chunks"):
        return _of_array(X, bags, place)
    if hasattr(X, "to_delayed") and hasattr(X, "columns"):
        return _of_frame(X, bags, place, features)
    raise SupervisionError(
        "`X`",
        f"a {type(X).__name__}",
        _ALLOWED,
        "use apportion.LPLLP for rows in memory, or dask.array.from_array(X)",
    )


def _place(ids: Sequence[Hashable]) -> Any:
    """Return the places of the bags' ids, as a task that all partitions share."""
    import dask

    place = {bag: k for k, bag in enumerate(ids)}
    return dask.delayed(partial(dict, place), pure=False)()


def _of_array(X: Any, bags: Any, place: Any) -> Partitions:
    import dask
    import dask.array as da

    if X.ndim != 2:
        raise SupervisionError(
            "`X`", f"{X.ndim} dimensions", "rows and features", "reshape it to two dimensions"
        )
    X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    lengths = X.chunks[0]
    bags = bags.to_dask_array() if hasattr(bags, "to_dask_array") else bags
    if not isinstance(bags, da.Array):
        known = _vector(bags, "bag id")
        if np.isnan(sum(lengths)):
            raise SupervisionError(
                "`X`",
                "chunks of unknown length",
                "known ones, where bags are in memory",
                "call X.compute_chunk_sizes(), or give bags as a Dask array of the same chunks",
            )
        _require_length(len(known), sum(lengths))
        ends = np.cumsum(lengths).astype(int)
        cells = [known[end - n : end] for n, end in zip(map(int, lengths), ends, strict=True)]
    else:
        if not any(np.isnan([*map(float, lengths), *map(float, bags.chunks[0])])):
            _require_length(bags.shape[0], sum(lengths))
            bags = bags.rechunk((lengths,))
        cells = list(bags.to_delayed().ravel())
    blocks = X.to_delayed()[:, 0]
    if len(cells) != len(blocks):
        raise SupervisionError(
            "`bags`", f"{len(cells)} chunks", f"{len(blocks)}, as X has", "rechunk bags like X"
        )
    read = dask.delayed(_rows_of, pure=False)
    names = [f"partition {number}" for number in range(len(blocks))]
    rows = [read(*one, place, name) for *one, name in zip(blocks, cells, names, strict=True)]
    return Partitions(rows, X.shape[1], None if np.isnan(sum(lengths)) else int(sum(lengths)))


def _of_frame(X: Any, bags: Any, place: Any, features: Sequence[str] | None) -> Partitions:
    import dask

    blocks = X.to_delayed()
    if isinstance(bags, str):
        _require_column(bags, list(X.columns), "`bags`")
        cells: list[Any] = [bags] * len(blocks)
    elif not hasattr(bags, "to_delayed"):
        raise SupervisionError(
            "`bags`",
            f"a {type(bags).__name__}",
            "the name of a column of X, or a Dask series cut like X",
            "put the bags into a column of X, and name it",
        )
    else:
        cells = list(bags.to_delayed())
        if len(cells) != len(blocks):
            raise SupervisionError(
                "`bags`",
                f"{len(cells)} partitions",
                f"{len(blocks)}, as X has",
                "name a column of X, or cut both alike",
            )
    for name in features or ():
        _require_column(name, list(X.columns), "`features`")
    named = bags if isinstance(bags, str) else bags.name
    numbers = [one for one in X.select_dtypes("number").columns if one != named]
    chosen = numbers if features is None else list(features)
    _require_features(chosen, str(named), "`features`")
    read = dask.delayed(_rows_of_frame, pure=False)
    names = [f"partition {number}" for number in range(len(blocks))]
    return Partitions(
        [
            read(block, cell, place, name, chosen)
            for block, cell, name in zip(blocks, cells, names, strict=True)
        ],
        len(chosen),
        features=chosen,
    )


def _of_folder(path: Path, bags: Any, place: Any, features: Sequence[str] | None) -> Partitions:
    import dask

    footers = read_footers(path)
    if not isinstance(bags, str):
        raise SupervisionError(
            "`bags`", f"a {type(bags).__name__}", "the name of a column", "name the column of bags"
        )
    chosen = list(features or ())
    if features is None:
        schema = unified(footers)
        chosen = [one.name for one in schema if one.name != bags and kind_of(one.type) == NUMBERS]
    _require_features(chosen, bags, str(path))
    require_columns(footers, bags, chosen)
    files = [footer.file for footer in footers]
    read = dask.delayed(read_part, pure=False)
    rows = [read(str(file), str(file.absolute()), bags, place, chosen) for file in files]
    n_samples = sum(footer.n_samples for footer in footers)
    return Partitions(rows, len(chosen), n_samples, chosen, files)


def read_part(
    file: str, path: str, bags: str, place: Mapping[Hashable, int], features: Sequence[str]
) -> Rows:
    """Return the rows of a Parquet file, which errors call `file` and which is at `path`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading(file):
        schema = pq.read_schema(path)
        for name in (bags, *features):
            _require_column(name, schema.names, file)
        table = pq.read_table(path, columns=[*features, bags])
    columns = []
    for name in features:
        cells = table.column(name)
        if kind_of(cells.type) not in (NUMBERS, NOTHING):
            raise no_numbers(file, name, cells.type)
        columns.append(cells.cast(pa.float64(), safe=False).to_numpy())
    encoded = table.column(bags).unify_dictionaries().combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    ids = Ids(encoded.dictionary.to_pylist(), codes)
    return _rows(side_by_side(columns, table.num_rows), ids, place, file, features)


class Ids(NamedTuple):
    """Bag ids: which there are, and the place of each row's among them, -1 = missing."""

    distinct: list[Any]
    codes: IntArray


def side_by_side(columns: Sequence[FloatArray], n_samples: int) -> FloatArray:
    """Return columns as one array, filled in blocks of rows that stay in cache.

    Examples
    --------
    >>> side_by_side([np.array([1.0, 2.0]), np.array([3.0, 4.0])], 2)
    array([[1., 3.],
           [2., 4.]])
    """
    X = np.empty((n_samples, len(columns)))
    for block in slices(n_samples, _BLOCK_ROWS):
        for j, column in enumerate(columns):
            X[block, j] = column[block]
    return X


def columns_of(file: str) -> list[str]:
    """Return the columns of a Parquet file."""
    import pyarrow.parquet as pq

    with reading(file):
        return list(pq.read_schema(file).names)


@contextmanager
def _numbers_of(name: str, column: str) -> Iterator[None]:
    """Name the column that holds no numbers."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise FileError(
            f"{name}, column {column!r}",
            f"cells that are no numbers ({error})",
            "numbers in the columns of features",
            "leave the column out, or turn it into numbers",
        ) from None


def _rows_of_frame(
    frame: Any, bags: Any, place: Mapping[Hashable, int], name: str, features: Sequence[str]
) -> Rows:
    cells = frame[bags] if isinstance(bags, str) else bags
    columns = []
    for column in features:
        with _numbers_of(name, column):
            if frame[column].dtype.kind in "mM":
                raise TypeError("times")
            columns.append(frame[column].to_numpy(dtype=np.float64, na_value=np.nan))
    return _rows(side_by_side(columns, len(frame)), cells, place, name, features)


def _rows_of(X: Any, bags: Any, place: Mapping[Hashable, int], name: str) -> Rows:
    return _rows(np.asarray(X), bags, place, name, None)


def _rows(X: FloatArray, bags: Any, place: Mapping[Hashable, int], name: str, columns: Any) -> Rows:
    """Return rows with their bags' positions; raise for what cannot be used, naming the place."""
    if X.dtype not in (np.float32, np.float64):
        if X.dtype.kind not in "biufO":
            raise FileError(name, f"values of type {X.dtype}", "numbers", "turn them into numbers")
        X = X.astype(np.float64)
    largest = largest_size(X)
    if not largest <= LARGEST:
        row, column = (int(one[0]) for one in np.nonzero(~(np.abs(X) <= LARGEST)))
        what = f"column {column}" if columns is None else f"column {columns[column]!r}"
        raise FileError(
            f"{name}, row {row}, {what}",
            repr(float(X[row, column])),
            "finite numbers between -1e100 and 1e100",
            "correct or fill the cell, drop the row, or rescale the column",
        )
    X = wide_enough(X, largest)
    if isinstance(bags, Ids):
        places, found = factorize(bags.distinct, "bag id")
        codes: IntArray = np.append(places, -1)[bags.codes]
    else:
        codes, found = factorize(bags, "bag id")
    _require_length(len(codes), len(X), f" of {name}")
    if all(isinstance(bag, str) for bag in place):  # as in a table from a CSV file
        found = [bag if bag in place else plain_name(bag) for bag in found]
    strange = [bag for bag in found if bag not in place]
    if strange:
        row = int(np.flatnonzero(codes == found.index(strange[0]))[0])
        raise SupervisionError(
            f"bag {strange[0]!r} ({name}, row {row})",
            "rows, but no line in the table of totals",
            f"the bags of the table: {name_some(map(repr, place))}",
            "add a line for it, or leave the row's bag missing",
        )
    where: IntArray = np.array([*(place[bag] for bag in found), -1], dtype=np.intp)
    return Rows(X, where[codes])


def _require_column(name: str, columns: Sequence[str], where: str) -> None:
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


def _require_length(found: int, n: int, where: str = "") -> None:
    if found != n:
        raise SupervisionError(
            f"`bags`{where}",
            f"{found:,} ids",
            f"{n:,}, one for every row of X",
            "give one id a row",
        )
