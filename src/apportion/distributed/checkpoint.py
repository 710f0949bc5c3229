"""Where a run was, in a file: anchors, multipliers and reduced sums, never rows."""

from __future__ import annotations

import hashlib
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from apportion._typing import FloatArray
from apportion.distributed.loop import State
from apportion.distributed.part import Point
from apportion.exceptions import FileError
from apportion.files.write import replacing
from apportion.totals import Totals

_ARRAYS = ("here", "before")
_NUMBERS = ("t", "momentum", "size", "leap", "slack", "residual")
_NOT_ONE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    EOFError,
    zipfile.BadZipFile,
)


class Checkpoint:
    """A file that is written every few seconds, and read when a run begins again.

    Parameters
    ----------
    path : path
        The file.
    n_rows : int
        The rows of the run.
    anchors : ndarray of shape (n_anchors, n_features)
        The anchors of the run.
    run : str
        What the run is of: see `run_of`.
    seconds : float
        The least time between two writings.
    """

    def __init__(
        self, path: Path, n_rows: int, anchors: FloatArray, run: str, seconds: float = 5.0
    ) -> None:
        self._path, self._n_rows, self._anchors, self._run = path, n_rows, anchors, run
        self._seconds, self._last = seconds, -np.inf

    def __call__(self, state: State) -> None:
        """Write where the run is, if that was not done just now."""
        if time.monotonic() - self._last < self._seconds:
            return
        arrays: dict[str, Any] = {name: getattr(state, name) for name in _ARRAYS}
        arrays |= {name: np.array(getattr(state, name)) for name in _NUMBERS}
        for name, point in (("point", state.point), ("point_before", state.point_before)):
            arrays |= {f"{name}_B": point.B, f"{name}_multipliers": point.multipliers}
        arrays |= {"energies": np.array(state.energies), "anchors": self._anchors}
        arrays |= {"rows_digest": np.array(state.rows_digest), "run": np.array(self._run)}
        arrays["n_rows"] = np.array(self._n_rows)
        with replacing(self._path, force=True) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)
        self._last = time.monotonic()


def run_of(totals: Totals, n_partitions: int, **settings: Any) -> str:
    """Return a digest of what a run's state depends on, beside the rows."""
    told = hashlib.sha256(repr((totals.ids, totals.classes.tolist(), n_partitions)).encode())
    told.update(totals.lower.tobytes() + totals.upper.tobytes())
    told.update(repr((totals.unit, totals.normalize, sorted(settings.items()))).encode())
    return told.hexdigest()


def read_checkpoint(path: Path, run: str) -> tuple[int, FloatArray, State]:
    """Return the rows, the anchors and the state of an interrupted run."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        numbers: dict[str, Any] = {name: float(arrays[name]) for name in _NUMBERS}
        state = State(
            **{name: arrays[name] for name in _ARRAYS},
            **numbers,
            point=Point(arrays["point_B"], arrays["point_multipliers"]),
            point_before=Point(arrays["point_before_B"], arrays["point_before_multipliers"]),
            energies=arrays["energies"].tolist(),
            rows_digest=str(arrays["rows_digest"]),
        )
        n_rows, anchors = int(arrays["n_rows"]), arrays["anchors"]
        same = str(arrays["run"]) == run
    except _NOT_ONE as error:
        raise FileError(
            str(path),
            f"no checkpoint: {error}",
            "a checkpoint that an interrupted run left behind",
            "delete it to begin anew",
        ) from None
    if not same:
        raise FileError(
            str(path),
            "the checkpoint of another run",
            "one of the same rows, partitions, totals and settings",
            "delete it to begin anew, or name another file",
        )
    return n_rows, anchors, state
