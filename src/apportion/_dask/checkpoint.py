"""The state of a run in a file: anchors, multipliers and reduced sums, never rows."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from apportion._dask.evaluator import DaskPoint, DaskState, Extrapolation
from apportion._dask.layout import Layout
from apportion._dask.partition import ReducedPoint
from apportion._io.archive import Stored, open_zip, write_zip
from apportion._io.atomic_write import replacing
from apportion._utils.typing import AnyArray, FloatArray
from apportion.exceptions import FileError, InputError
from apportion.supervision.totals import Totals

_DOCUMENT = "checkpoint.json"
_NUMBERS = {"t": 1.0, "size": sys.float_info.min} | dict.fromkeys(
    ("momentum", "gap", "slack", "residual"), 0.0
)
"""The numbers of a state, and the least value of each."""

_POINTS = ("point", "point_before")
_ARRAYS = {"anchors": ("anchors", "features"), "energies": ("points",)}
_ARRAYS |= dict.fromkeys(("here", "before", "point_B", "point_before_B"), ("used", "columns"))
_ARRAYS |= {f"{name}_multipliers": ("spanning bags", "classes") for name in _POINTS}
"""The arrays, and what their lengths count."""


class Checkpoint:
    """A file that is written every few seconds, and read when a run begins again.

    Parameters
    ----------
    path : path
        The file.
    n_samples : int
        The number of rows of the run.
    anchors : ndarray of shape (n_anchors, n_features)
        The anchors of the run.
    run : str
        What the run depends on, see `run_of`.
    seconds : float
        The least time between two writings.
    """

    def __init__(
        self, path: Path, n_samples: int, anchors: FloatArray, run: str, seconds: float = 5.0
    ) -> None:
        self._path, self._n_samples, self._anchors, self._run = path, n_samples, anchors, run
        self._seconds, self._last = seconds, -np.inf

    def __call__(self, state: DaskState) -> None:
        """Write the state, unless that was done just now."""
        if time.monotonic() - self._last < self._seconds:
            return
        here, before, momentum = state.ahead
        numbers = (state.t, state.size, momentum, state.gap, state.slack, here.residual)
        document: dict[str, Any] = dict(zip(_NUMBERS, map(float, numbers), strict=True))
        document |= {"run": self._run, "rows_digest": state.rows_digest}
        document["n_samples"] = self._n_samples
        arrays = {"anchors": self._anchors, "energies": np.array(state.energies)}
        arrays |= {"here": here.anchors, "before": before.anchors}
        for name, point in zip(_POINTS, (here, before), strict=True):
            fields = point.reduced._asdict()
            arrays |= {f"{name}_{field}": array for field, array in fields.items()}
        with replacing(self._path, force=True) as temporary:
            write_checkpoint(temporary, document, arrays)
        self._last = time.monotonic()


def write_checkpoint(path: Path, document: Mapping[str, Any], arrays: dict[str, AnyArray]) -> None:
    """Write numbers and arrays, sealed with a digest of all of them."""
    # An archive holds no empty arrays: their shapes are among the numbers.
    empty = {name: array.shape for name, array in arrays.items() if not array.size}
    document = {**document, "empty": empty}
    document["digest"] = _digest(document, arrays)
    stored = {name: array for name, array in arrays.items() if array.size}
    write_zip(path, document, stored, _DOCUMENT)


def _digest(document: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> str:
    """Return a digest of all that a checkpoint holds."""
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(repr((name, array.dtype.str, array.shape)).encode() + array.tobytes())
    return digest.hexdigest()


def run_of(totals: Totals, n_partitions: int, **settings: Any) -> str:
    """Return a digest of what the state of a run depends on, beside the rows."""
    digest = hashlib.sha256(repr((totals.ids, totals.classes.tolist(), n_partitions)).encode())
    digest.update(totals.lower.tobytes() + totals.upper.tobytes())
    digest.update(repr((totals.unit, totals.normalize, sorted(settings.items()))).encode())
    return digest.hexdigest()


def read_checkpoint(path: Path, run: str, n_features: int) -> tuple[int, FloatArray, DaskState]:
    """Return the number of rows, the anchors and the state of an interrupted run.

    Everything is checked: a file that was changed, or whose numbers no run could have left behind,
    is refused.
    """
    try:
        document, arrays = _read(path, n_features)
        n_samples, same_run = document["n_samples"], document["run"] == run
        here, before = (
            DaskPoint(
                ReducedPoint(arrays[f"{name}_B"], arrays[f"{name}_multipliers"]),
                arrays[sums],
                document["residual"],
            )
            for name, sums in zip(_POINTS, ("here", "before"), strict=True)
        )
        state = DaskState(
            here=here,
            ahead=Extrapolation(here, before, document["momentum"]),
            energies=arrays["energies"].tolist(),
            rows_digest=document["rows_digest"],
            **{name: document[name] for name in ("t", "size", "gap", "slack")},
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        why = error.found if isinstance(error, InputError) else error
        raise _refused(path, f"no checkpoint that can be used: {why}") from None
    if not same_run:
        raise _refused(path, "the checkpoint of another run")
    return n_samples, arrays["anchors"], state


def _read(path: Path, n_features: int) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Return the numbers and arrays of a file; raise an error for what no run leaves behind."""
    lengths = {"features": n_features}
    with open_zip(path) as file:
        document = file.json(_DOCUMENT)
        digest = document.pop("digest")
        arrays = {
            name: np.empty(document["empty"][name])
            if 0 in document["empty"].get(name, ())
            else file.array(name, Stored(words, ("<f8",)), lengths)
            for name, words in _ARRAYS.items()
        }
    if digest != _digest(document, arrays):
        raise ValueError("its contents were changed after they were written")
    for name, least in {**_NUMBERS, "n_samples": 1}.items():
        number = document[name]
        if type(number) not in (int, float) or not least <= number < np.inf:
            raise ValueError(f"{name!r} is {number!r}")
    if document["momentum"] >= 1.0 or not arrays["energies"].size or not arrays["anchors"].size:
        raise ValueError("a momentum, energies or anchors that no run has")
    return document, arrays


def require_fitting(path: Path, state: DaskState, layout: Layout) -> None:
    """Raise unless the state of a checkpoint is one of these rows, bags and partitions."""
    n_classes = len(layout.classes)
    shape = len(layout.masses), 1 if n_classes == 2 else n_classes
    spanning = int(layout.several.sum()), n_classes
    fits = state.rows_digest == layout.rows_digest
    for point in (state.here, state.ahead.before):
        fits &= point.anchors.shape == shape and point.reduced.B.shape in ((0, 0), shape)
        fits &= point.reduced.multipliers.shape == spanning
    if not fits:
        raise _refused(path, "the checkpoint of other rows, bags or partitions")


def _refused(path: Path, found: str) -> FileError:
    return FileError(
        str(path),
        found,
        "the checkpoint of an interrupted run of the same rows, partitions, totals and settings",
        "delete it to begin anew, or name another file",
    )
