"""Result rows in a folder of Parquet files: added one by one, never lost."""

from __future__ import annotations

import os
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from apportion._io.atomic_write import replacing
from experiments.trials import trial_of

_COLUMNS = {
    **dict.fromkeys(("section", "design", "protocol", "method"), "string"),
    **dict.fromkeys(("n_samples", "repetition", "n_scored"), "int64"),
    **dict.fromkeys(("accuracy", "seconds"), "float64"),
    **dict.fromkeys(("status", "message", "version", "code", "data", "finished"), "string"),
}
_MOST_PARTS = 200
_STALE = 3600.0
"""Seconds after which a file that was never finished is taken for the remains of a crash."""


class ResultStore:
    """Result rows on disk, in a folder that any Parquet reader can read as one table.

    Every row is a small file of its own as soon as it is there, written under another name and
    then renamed, so that an interruption leaves whole rows only. Now and then small files are
    gathered into a larger one, which is there before they are removed: a row may be found twice,
    also when two runs share a folder, and then counts once.

    Parameters
    ----------
    folder : path
        Made when the first row is added.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows, the newest one of each trial, code and data; in a fixed order."""
        newest: dict[Any, dict[str, Any]] = {}
        for row in sorted(self._all(), key=lambda row: row["finished"] or ""):
            newest[trial_of(row), row["code"], row["data"]] = row
        return sorted(newest.values(), key=lambda row: str([row[name] for name in _COLUMNS]))

    def add(self, row: dict[str, Any]) -> None:
        """Keep one row."""
        self._write([row], "part")
        if len(list(self.folder.glob("part-*.parquet"))) >= _MOST_PARTS:
            self.gather()

    def gather(self) -> None:
        """Gather the small files into one, then remove them."""
        parts = list(self.folder.glob("part-*.parquet"))
        rows = [row for part in parts for row in _read(part)]
        if rows:
            self._write(rows, "rows")
        for part in parts:
            part.unlink(missing_ok=True)
        for leftover in self.folder.glob("*.tmp"):
            with suppress(FileNotFoundError):  # another run has just finished it
                if time.time() - leftover.stat().st_mtime > _STALE:
                    leftover.unlink()

    def _all(self) -> list[dict[str, Any]]:
        """Return every row; larger files are read last, as small ones may move into them."""
        small = [row for path in self.folder.glob("part-*.parquet") for row in _read(path)]
        return small + [row for path in self.folder.glob("rows-*.parquet") for row in _read(path)]

    def _write(self, rows: list[dict[str, Any]], kind: str) -> None:
        import pyarrow.parquet

        self.folder.mkdir(parents=True, exist_ok=True)
        table = pyarrow.Table.from_pylist(rows, schema=pyarrow.schema(list(_COLUMNS.items())))
        with replacing(self.folder / f"{kind}-{uuid.uuid4().hex}.parquet") as temporary:
            pyarrow.parquet.write_table(table, temporary)


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file; none of one that was gathered a moment ago."""
    import pyarrow.parquet

    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except FileNotFoundError:
        return []
    except Exception as error:
        raise OSError(
            f"{path} cannot be read as a Parquet file ({error}). Remove it, and its trials will be "
            "run again."
        ) from error
    return [{name: row.get(name) for name in _COLUMNS} for row in rows]
