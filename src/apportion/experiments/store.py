"""Result rows in a folder of Parquet files: added one by one, never lost."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path
from typing import Any

from apportion.experiments.trials import VERSION, Trial, trial_of

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
        Made where it does not exist.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of this version of apportion, the newest one of each trial."""
        newest: dict[Trial, dict[str, Any]] = {}
        for row in sorted(self._all(), key=lambda row: row["finished"]):
            if row["version"] == VERSION:
                newest[trial_of(row)] = row
        return list(newest.values())

    def trials(self, *, failed: bool = True) -> set[Trial]:
        """Return the trials that have a result; with `failed=False`, those that succeeded."""
        return {trial_of(row) for row in self.rows() if failed or row["status"] == "done"}

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
        for remains in self.folder.glob("*.tmp"):
            if time.time() - remains.stat().st_mtime > _STALE:
                remains.unlink(missing_ok=True)

    def _all(self) -> list[dict[str, Any]]:
        """Return every row; larger files are read last, as small ones may move into them."""
        small = [row for path in self.folder.glob("part-*.parquet") for row in _read(path)]
        return small + [row for path in self.folder.glob("rows-*.parquet") for row in _read(path)]

    def _write(self, rows: list[dict[str, Any]], kind: str) -> None:
        parquet, table = _parquet()
        name = uuid.uuid4().hex
        temporary = self.folder / f"{name}.tmp"
        parquet.write_table(table.from_pylist(rows), temporary)
        os.replace(temporary, self.folder / f"{kind}-{name}.parquet")


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file; none of one that was gathered a moment ago."""
    parquet, _ = _parquet()
    try:
        return list(parquet.read_table(path).to_pylist())
    except FileNotFoundError:
        return []
    except Exception as error:
        raise OSError(
            f"{path} cannot be read as a Parquet file ({error}). Remove it, and its trials will be "
            "run again."
        ) from error


def _parquet() -> tuple[Any, Any]:
    try:
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "The experiments keep their results in Parquet files, which needs pyarrow: install "
            "apportion[experiments]."
        ) from error
    return pyarrow.parquet, pyarrow.Table
