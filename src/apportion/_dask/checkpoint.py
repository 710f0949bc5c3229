"""Where a run was, in a file: anchors, multipliers and reduced sums, never rows."""

from __future__ import annotations

import hashlib
import sys
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from apportion._dask.evaluator import DaskPoint, DaskState, Extrapolation
from apportion._dask.layout import Layout
from apportion._dask.partition import ReducedPoint
from apportion._io.write import replacing
from apportion._utils.typing import AnyArray, FloatArray
from apportion.exceptions import FileError
from apportion.supervision.totals import Totals

_NUMBERS = ("t", "momentum", "size", "leap", "slack", "residual")
_KINDS = {"rows_digest": "U", "run": "U", "n_rows": "i"}
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
    n_samples : int
        The rows of the run.
    anchors : ndarray of shape (n_anchors, n_features)
        The anchors of the run.
    run : str
        What the run is of: see `run_of`.
    seconds : float
        The least time between two writings.
    """

    def __init__(
        self, path: Path, n_samples: int, anchors: FloatArray, run: str, seconds: float = 5.0
    ) -> None:
        self._path, self._n_rows, self._anchors, self._run = path, n_samples, anchors, run
        self._seconds, self._last = seconds, -np.inf

    def __call__(self, state: DaskState) -> None:
        """Write where the run is, if that was not done just now."""
        if time.monotonic() - self._last < self._seconds:
            return
        here, before, momentum = state.ahead
        numbers = state.t, momentum, state.size, state.gap, state.slack, here.residual
        arrays: dict[str, Any] = dict(zip(_NUMBERS, map(np.array, numbers), strict=True))
        arrays |= {"here": here.anchors, "before": before.anchors}
        for name, point in (("point", here.reduced), ("point_before", before.reduced)):
            arrays |= {f"{name}_B": point.B, f"{name}_multipliers": point.multipliers}
        arrays |= {"energies": np.array(state.energies), "anchors": self._anchors}
        arrays |= {"rows_digest": np.array(state.rows_digest), "run": np.array(self._run)}
        arrays["n_rows"] = np.array(self._n_rows)
        arrays["digest"] = np.array(_digest(arrays))
        with replacing(self._path, force=True) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)
        self._last = time.monotonic()


def run_of(totals: Totals, n_partitions: int, **settings: Any) -> str:
    """Return a digest of what a run's state depends on, beside the rows."""
    told = hashlib.sha256(repr((totals.ids, totals.classes.tolist(), n_partitions)).encode())
    told.update(totals.lower.tobytes() + totals.upper.tobytes())
    told.update(repr((totals.unit, totals.normalize, sorted(settings.items()))).encode())
    return told.hexdigest()


def _digest(arrays: Mapping[str, AnyArray]) -> str:
    """Return a digest of all that a checkpoint holds."""
    whole = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        whole.update(repr((name, array.dtype.str, array.shape)).encode() + array.tobytes())
    return whole.hexdigest()


def read_checkpoint(path: Path, run: str, n_features: int) -> tuple[int, FloatArray, DaskState]:
    """Return the rows, the anchors and the state of an interrupted run.

    Nothing is believed unchecked: a file that was changed, or whose numbers no run could have
    left behind, is refused.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        if str(arrays.pop("digest")) != _digest(arrays):
            raise ValueError("its contents were changed after they were written")
        _require_numbers(arrays, n_features)
        t, momentum, size, gap, slack, residual = (float(arrays[name]) for name in _NUMBERS)
        here, before = (
            DaskPoint(
                ReducedPoint(arrays[f"{point}_B"], arrays[f"{point}_multipliers"]),
                arrays[name],
                residual,
            )
            for name, point in (("here", "point"), ("before", "point_before"))
        )
        state = DaskState(
            here=here,
            ahead=Extrapolation(here, before, momentum),
            energies=arrays["energies"].tolist(),
            size=size,
            t=t,
            gap=gap,
            slack=slack,
            rows_digest=str(arrays["rows_digest"]),
        )
        n_samples, anchors = int(arrays["n_rows"]), arrays["anchors"]
        same = str(arrays["run"]) == run
    except _NOT_ONE as error:
        raise FileError(
            str(path),
            f"no checkpoint that can be used: {error}",
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
    return n_samples, anchors, state


def _require_numbers(arrays: Mapping[str, AnyArray], n_features: int) -> None:
    """Raise a ValueError for numbers that no run leaves behind."""
    for name, array in arrays.items():
        kind = _KINDS.get(name, "f")
        if array.dtype.kind != kind or (kind == "f" and not np.isfinite(array).all()):
            raise ValueError(f"{name!r} holds something other than finite numbers or text")
    anchors = arrays["anchors"]
    if anchors.ndim != 2 or not len(anchors) or anchors.shape[1] != n_features:
        raise ValueError(f"anchors of shape {anchors.shape} for {n_features} features")
    least = {"t": 1.0, "size": sys.float_info.min, "n_rows": 1}
    for name in (*_NUMBERS, "n_rows"):
        if float(arrays[name]) < least.get(name, 0.0):
            raise ValueError(f"{name!r} is {float(arrays[name]):g}")
    if not arrays["momentum"] < 1.0 or arrays["energies"].ndim != 1 or not arrays["energies"].size:
        raise ValueError("a momentum or energies that no run has")


def require_fitting(path: Path, state: DaskState, layout: Layout) -> None:
    """Raise unless a checkpoint's state is one of these rows, bags and partitions."""
    n_classes = len(layout.classes)
    shape = len(layout.masses), 1 if n_classes == 2 else n_classes
    spanning = int(layout.several.sum()), n_classes
    points = state.here, state.ahead.before
    fits = state.rows_digest == layout.rows_digest
    fits &= all(point.anchors.shape == shape for point in points)
    fits &= all(point.reduced.B.shape in ((0, 0), shape) for point in points)
    fits &= all(point.reduced.multipliers.shape == spanning for point in points)
    if not fits:
        raise FileError(
            str(path),
            "the checkpoint of other rows, bags or partitions",
            "that of a run of these",
            "delete it to begin anew, or name another file",
        )
