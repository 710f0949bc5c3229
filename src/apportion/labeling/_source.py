"""A table of rows as it came, from a file or a dataframe, with a name for every row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from apportion._io.identifiers import first_called, is_missing, plain_name
from apportion._io.read import no_column, place_in, read_columns, require_pyarrow
from apportion._io.sheet import frame_of
from apportion._utils.typing import BoolArray, IntArray
from apportion.exceptions import FileError, hint, name_some

_USUAL_IDS = ("id", "row_id", "window_id", "window", "unique_id", "uuid")


@dataclass(frozen=True)
class SourceTable:
    """A table with the place of every row, for messages.

    Attributes
    ----------
    table : pyarrow.Table
        The columns.
    name : str
        What the table is called: the name of its file.
    place : callable
        Returns where a row is, such as "rows.csv, line 5".
    like : object
        The dataframe that the table was made from; None if it was read from a file.
    """

    table: Any
    name: str
    place: Callable[[int], str]
    like: Any = None

    def __contains__(self, column: object) -> bool:
        return column in self.table.column_names

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    @property
    def listing(self) -> str:
        """The names of the columns, the first of them if there are many."""
        return name_some(map(repr, self.table.column_names), 12)

    def require(self, column: str) -> None:
        """Raise if there is no such column."""
        if column not in self:
            raise no_column(column, self.table.column_names, self.name)

    def cells(self, column: str) -> list[Any]:
        """Return the cells of a column."""
        return list(self.table.column(column).to_pylist())

    def names(self, column: str) -> list[str]:
        """Return the cells of a column as ids; an empty text where a cell is missing."""
        return ["" if is_missing(cell) else plain_name(cell) for cell in self.cells(column)]

    def empty(self, column: str) -> BoolArray:
        """Return which cells of a column are missing or blank."""
        return np.array([not name for name in self.names(column)], dtype=bool)

    def line(self, row: int) -> str:
        """Return the place of a row without the name of the table, such as "line 5"."""
        return self.place(row).rpartition(", ")[2]

    @property
    def usual_ids(self) -> str | None:
        """The column with a usual name of row ids."""
        return first_called(self.table.column_names, _USUAL_IDS)

    def require_ids(self, column: str) -> None:
        """Raise if there is no such column, or if a row has no id in it, or one of another row."""
        self.require(column)
        first: dict[str, int] = {}
        for row, name in enumerate(self.names(column)):
            if name and first.setdefault(name, row) == row:
                continue
            raise FileError(
                "",
                f"the id {name!r}, which {self.line(first[name])} has too" if name else "no id",
                "a different id in every row",
                hint("correct the ids, or name another column with {id}"),
                row=row,
                place=self.place(row),
                column=column,
            )

    def take(self, rows: IntArray) -> SourceTable:
        """Return some of the rows."""
        return SourceTable(
            self.table.take(rows), self.name, lambda row: self.place(int(rows[row])), self.like
        )

    def like_source(self, table: Any) -> Any:
        """Return an Arrow table of as many rows as a dataframe of the kind that came in."""
        if self.like is None:
            return table
        frame = nw.from_native(self.like)
        native = nw.to_native(nw.from_arrow(table, backend=frame.implementation))
        if hasattr(self.like, "index"):
            native.index = self.like.index
        return native


def source_table(rows: Any, name: str = "the rows", encoding: str | None = None) -> SourceTable:
    """Return the rows of a file or a dataframe.

    Parameters
    ----------
    rows : path, or dataframe of pandas, polars or pyarrow
        A CSV (also `.csv.gz`), Parquet, `.xlsx` or ARFF file, or a dataframe.
    name : str, default="the rows"
        What a dataframe is called in messages.
    encoding : str, optional
        The encoding of a text file that is not UTF-8.
    """
    if isinstance(rows, str | Path):
        path = Path(rows)
        table = read_columns(path, encoding=encoding)
        return SourceTable(table, path.name, partial(place_in, path, encoding=encoding))
    require_pyarrow()
    import pyarrow as pa

    frame = frame_of(rows, name)
    if frame is None or not len(frame):
        raise FileError(
            name,
            "no row" if frame is not None else f"an object of type {type(rows).__name__}",
            "a dataframe of pandas, polars or pyarrow with at least one row, or the path of a file",
            "give one of these",
        )
    try:
        table = frame.to_arrow().select([str(name) for name in frame.columns])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise FileError(
            name,
            f"a column whose cells are of several types ({error.args[0]})",
            "columns of one type each",
            "convert the column to text or to numbers",
        ) from None
    plain = [
        field.with_type(pa.large_string()) if str(field.type) == "string_view" else field
        for field in table.schema
    ]
    place = partial("{}, row {}".format, name)
    return SourceTable(table.cast(pa.schema(plain)), name, place, nw.to_native(frame))
