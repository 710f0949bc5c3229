"""Result rows in a folder of Parquet files: added one by one, never lost, never twice."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from apportion.experiments.trials import VERSION, Trial, trial_of

_MOST_PARTS = 200


class ResultStore:
    """Result rows on disk.

    Every row is a small file of its own as soon as it is there, written under another name and
    then renamed, so that an interruption leaves whole rows only. Now and then the small files are
    gathered into `results.parquet`.

    Parameters
    ----------
    folder : path
        Made where it does not exist.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        for half_written in self.folder.glob("*.tmp"):
            half_written.unlink(missing_ok=True)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of this version of apportion, the newest one of each trial."""
        return [row for row in self._newest() if row["version"] == VERSION]

    def trials(self, *, failed: bool = True) -> set[Trial]:
        """Return the trials that have a result; with `failed=False`, those that succeeded."""
        return {trial_of(row) for row in self.rows() if failed or row["status"] == "done"}

    def add(self, row: dict[str, Any]) -> None:
        """Keep one row."""
        _write([row], self.folder / f"part-{uuid.uuid4().hex}.parquet")
        if len(list(self.folder.glob("part-*.parquet"))) >= _MOST_PARTS:
            self.gather()

    def gather(self) -> None:
        """Gather all rows into one file, then remove the small ones."""
        parts = sorted(self.folder.glob("part-*.parquet"))
        rows = self._newest()
        if rows:
            _write(rows, self.folder / "results.parquet")
        for part in parts:
            part.unlink()

    def _newest(self) -> list[dict[str, Any]]:
        newest: dict[tuple[str, Trial], dict[str, Any]] = {}
        for path in self._files():
            for row in _read(path):
                newest[row["version"], trial_of(row)] = row
        return list(newest.values())

    def _files(self) -> Iterable[Path]:
        gathered = self.folder / "results.parquet"
        parts = sorted(self.folder.glob("part-*.parquet"), key=lambda path: path.stat().st_mtime_ns)
        return [gathered, *parts] if gathered.exists() else parts


def _read(path: Path) -> list[dict[str, Any]]:
    parquet = _parquet()
    try:
        return list(parquet.read_table(path).to_pylist())
    except Exception as error:
        raise OSError(
            f"{path} cannot be read as a Parquet file ({error}). Remove it, and its trials will be "
            "run again."
        ) from error


def _write(rows: list[dict[str, Any]], path: Path) -> None:
    import pyarrow

    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    _parquet().write_table(pyarrow.Table.from_pylist(rows), temporary)
    os.replace(temporary, path)


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "The experiments keep their results in Parquet files, which needs pyarrow: install "
            "apportion[experiments]."
        ) from error
    return pyarrow.parquet
