"""Write tables as CSV and Parquet, safe to open in a spreadsheet."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from apportion._io.atomic_write import Outputs
from apportion._io.identifiers import plain_name
from apportion.exceptions import OutputError

_STARTS_A_FORMULA = r"^[=+\-@\t\r\n＝＋－＠]"
_IS_A_NUMBER = r"^[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?$"


def require_ending(path: Path) -> None:
    """Raise if the ending of a file is not one of a form that can be written."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise OutputError(
            f"{path} cannot be written: only .csv and .parquet files can. Give it such an ending."
        )


def write_table(table: Any, path: Path, outputs: Outputs) -> int:
    """Write a table to a file, and return how many cells were neutralized, as `write_csv` does.

    Parameters
    ----------
    table : pyarrow.Table
        The table.
    path : path
        A `.csv` or `.parquet` file.
    outputs : Outputs
        The files of the command, which are put in place together.
    """
    import pyarrow.parquet as pq

    # A file that is open already, because pyarrow cannot open one whose name is not UTF-8.
    with outputs.writing(path) as temporary, temporary.open("wb") as file:
        if path.suffix.lower() != ".parquet":
            return write_csv(table, file)
        pq.write_table(table, file)
        return 0


def write_csv(table: Any, file: IO[bytes]) -> int:
    """Write a table as CSV, and return how many cells were neutralized.

    Text that a spreadsheet would take for a formula gets an apostrophe before it; numbers stay as
    they are.
    """
    from pyarrow import csv

    table, changed = neutralized(table)
    csv.write_csv(table, file)
    return changed


def neutralized(table: Any) -> tuple[Any, int]:
    """Return a table with an apostrophe before text that looks like a formula, and their number.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"note": ["=1+1", "-5", "fine"], "x": [-1.5, 2.0, 3.0]})
    >>> neutralized(table)[0].to_pydict()
    {'note': ["'=1+1", '-5', 'fine'], 'x': [-1.5, 2.0, 3.0]}
    """
    import pyarrow as pa

    names, changed = _safe(pa.chunked_array([pa.array(table.column_names, pa.string())]))
    columns = []
    for cells in table.columns:
        safe, count = _safe(_as_csv_holds(cells))
        columns.append(safe)
        changed += count
    return pa.table(columns, names.to_pylist()), changed


def guarded(cell: Any) -> str:
    """Return a name with the apostrophe that is written before what looks like a formula."""
    return plain_name(f"'{cell}")


def _safe(cells: Any) -> tuple[Any, int]:
    """Return cells with an apostrophe before formulas, and the number of formulas."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    if not (kinds.is_string(cells.type) or kinds.is_large_string(cells.type)):
        return cells, 0
    formula = pc.and_(
        pc.match_substring_regex(cells, _STARTS_A_FORMULA),
        pc.invert(pc.match_substring_regex(cells, _IS_A_NUMBER)),
    )
    count = pc.sum(formula).as_py() or 0
    mark, nothing = pa.scalar("'", cells.type), pa.scalar("", cells.type)
    marked = pc.binary_join_element_wise(mark, cells, nothing)
    return pc.if_else(formula, marked, cells), count


def _as_csv_holds(cells: Any) -> Any:
    """Return cells as plain numbers, times or text; bytes as hexadecimal digits."""
    import pyarrow as pa
    import pyarrow.types as kinds

    kind = cells.type
    if kinds.is_dictionary(kind):
        return cells.cast(kind.value_type)
    if kinds.is_nested(kind):
        printed = [None if cell is None else str(cell) for cell in cells.to_pylist()]
    elif "binary" in str(kind):
        printed = [None if cell is None else cell.hex() for cell in cells.to_pylist()]
    else:
        return cells
    return pa.chunked_array([pa.array(printed, pa.string())])
