"""Labels of a partition, written by the worker that holds it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from apportion._dask.labels import DecodingRound, decoded_labels
from apportion._dask.partition import Partition, ReducedPoint
from apportion._dask.partitions import columns_of
from apportion._io.read import no_column
from apportion._io.write import refuse_to_replace, replacing, require_folder_writable
from apportion._utils.typing import AnyArray, FloatArray
from apportion.exceptions import FileError, OutputError, name_some


def refuse_output(
    folder: Path,
    names: Sequence[str],
    read: Sequence[Path] | None,
    keep: Sequence[str],
    classes: Sequence[Any],
    force: bool,
) -> None:
    """Raise, before long work begins, where labels could not be written at its end.

    Parameters
    ----------
    folder : path
        Where they go.
    names : sequence of str
        The names of the files.
    read : sequence of path, or None
        The files that are read.
    keep : sequence of str
        Columns of these to put beside the labels.
    classes : sequence
        The classes.
    force : bool
        Whether files that are there may be replaced.
    """
    if keep and read is None:
        raise OutputError(
            f"{name_some(map(repr, keep))}: columns can be kept of Parquet files only. "
            "Leave out `keep`; labels are in the order of the rows."
        )
    ours = ["label", *(f"mass_{name}" for name in classes), "confidence"]
    for name in keep:
        if name in ours:
            raise OutputError(
                f"{name!r} cannot be kept: the labels have a column of that name. Leave it out, or "
                "rename it in the files."
            )
    if read and folder.resolve() == read[0].parent.resolve():
        raise OutputError(f"{folder} is the folder that is read. Name another.")
    for file in (read or ()) if keep else ():
        there = columns_of(str(file))
        for name in keep:
            if name not in there:
                raise no_column(name, there, str(file))
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is no folder. Name another.")
    for name in names:
        refuse_to_replace(folder / name, force=force)
    require_folder_writable(folder)


def other_parts(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the labels in a folder that have none of the names: an earlier run left them."""
    return [
        file
        for file in sorted(folder.glob("*.parquet"))
        if file.name not in names and _holds_labels(file)
    ]


def _holds_labels(file: Path) -> bool:
    """Return whether a file has the columns that `write_part` writes."""
    try:
        return {"label", "confidence"} <= {*columns_of(str(file))}
    except FileError:
        return False


def soft_labels(part: Partition, point: ReducedPoint) -> FloatArray:
    """Return the soft labels of a partition, in the order in which its rows were read."""
    return part.as_read(part.soft_labels(point))


def named_labels(
    part: Partition, point: ReducedPoint, rounds: list[DecodingRound], classes: AnyArray
) -> AnyArray:
    """Return the labels of a partition, in the order in which its rows were read."""
    return np.asarray(classes[part.as_read(decoded_labels(part, point, rounds).labels)])


def write_part(
    part: Partition,
    point: ReducedPoint,
    rounds: list[DecodingRound],
    file: str,
    final: str,
    source: str | None,
    classes: list[Any],
    keep: tuple[str, ...],
) -> str:
    """Write a partition's labels beside columns of the file it came from; return the file.

    It is written to `file`, and takes the place of `final` when all partitions are written. A
    file that is there is replaced: it may have been written before a worker was lost.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    soft = soft_labels(part, point)
    labels = part.as_read(decoded_labels(part, point, rounds).labels)
    kept = pq.read_table(source, columns=list(keep)) if source is not None and keep else None
    columns = {} if kept is None else {name: kept.column(name) for name in keep}
    columns["label"] = pa.array(classes).take(pa.array(labels))
    for h, name in enumerate(classes):
        columns[f"mass_{name}"] = pa.array(soft[:, h])
    columns["confidence"] = pa.array(soft[np.arange(len(soft)), labels])
    with (
        replacing(Path(file), force=True, instead_of=Path(final)) as temporary,
        temporary.open("wb") as stream,
    ):
        pq.write_table(pa.table(columns), stream)
    return file
