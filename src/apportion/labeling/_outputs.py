"""The files of a labeled table, written the same way by every front end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apportion._io.atomic_write import Outputs
from apportion._io.spreadsheet_safe import write_table
from apportion.exceptions import PARAMETERS, Names, counted, name_some
from apportion.labeling._summary import with_summary
from apportion.labeling.table import LabeledTable, PredictedTable


def write_labeled(
    labeled: PredictedTable, path: Path, outputs: Outputs, names: Names = PARAMETERS
) -> list[str]:
    """Write a labeled table, with the summary of a run inside if it is Parquet.

    Parameters
    ----------
    labeled : PredictedTable or LabeledTable
        The table.
    path : path
        A `.csv` or `.parquet` file.
    outputs : Outputs
        The files of the run, which are put in place together.
    names : Names, optional
        What parameters are called in the summary.

    Returns
    -------
    list of str
        What to say once the file is in its place.
    """
    table = labeled.to_arrow(typed=is_parquet(path))
    if isinstance(labeled, LabeledTable):
        table = with_summary(table, labeled.summary, names)
    return [*covered_notes(labeled), *write_output(table, path, outputs)]


def write_output(table: Any, path: Path, outputs: Outputs) -> list[str]:
    """Write a table to a file, and return what to say once it is in its place."""
    n_changed = write_table(table, path, outputs)
    return [*changed_notes(n_changed), f"written: {path}, {counted(table.num_rows, 'row')}"]


def write_episodes(labeled: LabeledTable, path: Path, outputs: Outputs) -> list[str]:
    """Write the episodes of a labeled table, and return what to say once they are there."""
    episodes = labeled.episodes(typed=is_parquet(path))
    write_table(episodes, path, outputs)
    return [f"written: {path}, {counted(episodes.num_rows, 'episode')}"]


def is_parquet(path: Path | None) -> bool:
    """Return whether a table goes into a Parquet file, where columns have types."""
    return path is not None and path.suffix.lower() == ".parquet"


def covered_notes(labeled: PredictedTable) -> list[str]:
    """Return which columns of the rows are not written, in words."""
    covered = name_some(labeled.covered_columns)
    return [f"not kept, as the answer has columns called so: {covered}"] * bool(covered)


def changed_notes(n_changed: int) -> list[str]:
    """Return how many texts were neutralized for spreadsheets, in words."""
    note = (
        f"{counted(n_changed, 'text')} that a spreadsheet would take for formulas got an "
        "apostrophe before them; Parquet output keeps them as they are"
    )
    return [note] * bool(n_changed)
