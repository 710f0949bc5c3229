"""Large tables from CSV, Parquet, ARFF and spreadsheet files, as Arrow tables."""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apportion._io.csv_text import CsvText, text_of
from apportion._io.file_kinds import (
    PARQUET_ENDINGS,
    TEXT_ENDINGS,
    WORKBOOK_ENDINGS,
    ending_of,
    no_row,
    require_file,
)
from apportion._io.values import mark_as_text
from apportion._io.workbook import read_lines
from apportion.exceptions import FileError, name_some

FORMS = "CSV (.csv, .csv.gz), Parquet (.parquet), spreadsheet (.xlsx) or ARFF (.arff) files"
"""The files that can be read, in words."""

_SAVE_AS_CSV = "save the table as CSV"
_ATTRIBUTE = re.compile(
    r"""\s*@attribute\s+(?:["'](?P<quoted>[^"']+)["']|(?P<plain>\S+))""", re.IGNORECASE
)


def read_columns(
    path: str | Path, columns: Sequence[str] | None = None, *, encoding: str | None = None
) -> Any:
    """Return the columns of a file as a `pyarrow.Table`.

    Columns of CSV, ARFF and spreadsheet files are text, byte for byte if they were text, and an
    empty cell is missing, as is `?` in ARFF. `values_of` reads such a column as numbers or times.

    Parameters
    ----------
    path : str or path
        A `.csv` (also `.tsv`, `.txt`, and these as `.gz`), `.parquet`, `.xlsx` or `.arff` file.
    columns : sequence of str, optional
        The columns to return; by default all.
    encoding : str, optional
        Of a text file that is neither UTF-8 nor begins with a byte order mark.
    """
    require_pyarrow()
    file = Path(path)
    require_file(file)
    ending = ending_of(file)
    if ending in PARQUET_ENDINGS:
        from apportion._io.parquet import read_parquet  # which needs `no_column`

        table = read_parquet(file, columns)
    elif ending in WORKBOOK_ENDINGS:
        table = _read_workbook(file)
    elif ending == ".arff":
        table = _read_arff(file, encoding)
    elif ending in TEXT_ENDINGS:
        table = CsvText(file, encoding).columns()
    else:
        raise FileError(file.name, f"a {ending} file", FORMS, _SAVE_AS_CSV)
    if columns is not None:
        for name in columns:
            if name not in table.column_names:
                raise no_column(name, table.column_names, file.name)
        table = table.select(list(columns))
    if not table.num_rows:
        raise no_row(file)
    return table


def no_column(name: str, columns: Sequence[str], where: str) -> FileError:
    """Return the error for a column that is not there, with the most similar name."""
    folded = {column.casefold(): column for column in columns}
    near = [folded[word] for word in difflib.get_close_matches(name.casefold(), folded, n=1)]
    return FileError(
        where,
        f"no column {name!r}",
        f"the columns {name_some(map(repr, columns), 12)}",
        f"did you mean {near[0]!r}?" if near else "name one of these",
    )


def require_pyarrow() -> None:
    """Raise where pyarrow is not installed, and say how to get it."""
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Reading and writing files needs pyarrow: install apportion[cli]."
        ) from error


def place_in(path: str | Path, row: int, *, encoding: str | None = None) -> str:
    """Return the place of a row of a file in words; a text file is read for it."""
    file = Path(path)
    if ending_of(file) in (*PARQUET_ENDINGS, ".arff"):
        return f"{file.name}, row {row}"
    if ending_of(file) in WORKBOOK_ENDINGS:
        return f"{file.name}, line {read_lines(file, percent=False).numbers[row]}"
    return CsvText(file, encoding).place(row)


def _read_workbook(file: Path) -> Any:
    """Return the columns of a spreadsheet's first sheet, as text."""
    import pyarrow as pa

    lines = read_lines(file, percent=False)
    columns = zip(*lines.rows, strict=True) if lines.rows else [()] * len(lines.names)
    cells = [pa.array([cell or None for cell in column], pa.string()) for column in columns]
    return mark_as_text(pa.table(cells, lines.names), ",")


def _read_arff(file: Path, encoding: str | None) -> Any:
    """Return the columns of an ARFF file as text; the format spells a missing cell `?`."""
    text = text_of(file, encoding).replace("\r\n", "\n")
    lines = [line for line in text.split("\n") if line.strip() and line.strip()[0] != "%"]
    names = [match["quoted"] or match["plain"] for match in map(_ATTRIBUTE.match, lines) if match]
    data = next((i for i, line in enumerate(lines) if line.strip().lower() == "@data"), None)
    if data is None or not names:
        found = "no line @data" if names else "no line @attribute"
        raise FileError(file.name, found, "ARFF files with attributes and data", _SAVE_AS_CSV)
    rows = lines[data + 1 :]
    if not rows or rows[0].lstrip().startswith("{"):
        found = "sparse rows" if rows else "no row"
        raise FileError(file.name, found, "rows with a cell for every attribute", _SAVE_AS_CSV)
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(names)
    text = header.getvalue() + "\n".join(rows)
    return CsvText(file, rows=text, missing=("", "?")).columns()
