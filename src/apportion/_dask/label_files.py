"""Labels of partitions, computed and written by the workers that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from apportion._dask.checks import WEAK
from apportion._dask.cluster import Cluster
from apportion._dask.fit import DaskFit
from apportion._dask.labels import DecodingRound, decoded_labels
from apportion._dask.partition import Partition, ReducedPoint
from apportion._dask.partitions import Partitions
from apportion._io.atomic_write import (
    Outputs,
    refuse_to_replace,
    replacing,
    require_folder_writable,
)
from apportion._io.label_table import joined_codes, label_column_names, label_columns
from apportion._io.parquet import column_names
from apportion._io.read import no_column
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
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
        The folder for the labels.
    names : sequence of str
        The names of the files.
    read : sequence of path, or None
        The files that are read.
    keep : sequence of str
        Columns of these to put beside the labels.
    classes : sequence
        The classes.
    force : bool
        Whether existing files may be replaced.
    """
    if keep and read is None:
        raise OutputError(
            f"{name_some(map(repr, keep))}: columns can be kept of Parquet files only. "
            "Leave out `keep`; labels are in the order of the rows."
        )
    for name in {*keep}.intersection(label_column_names(classes)):
        raise OutputError(
            f"{name!r} cannot be kept: the labels have a column of that name. Leave it out, or "
            "rename it in the files."
        )
    if read and folder.resolve() == read[0].parent.resolve():
        raise OutputError(f"{folder} is the folder that is read. Name another.")
    for file in (read or ()) if keep else ():
        columns = column_names(file)
        for name in keep:
            if name not in columns:
                raise no_column(name, columns, str(file))
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is not a folder. Name another.")
    for name in names:
        refuse_to_replace(folder / name, force=force)
    require_folder_writable(folder)


def soft_labels(part: Partition, point: ReducedPoint) -> FloatArray:
    """Return the soft labels of a partition, in the order in which its rows were read."""
    return part.as_read(part.soft_labels(point))


def named_labels(
    part: Partition, point: ReducedPoint, rounds: list[DecodingRound], classes: AnyArray
) -> AnyArray:
    """Return the labels of a partition, in the order in which its rows were read."""
    return np.asarray(classes[part.as_read(decoded_labels(part, point, rounds).labels)])


def tied_rows(part: Partition, point: ReducedPoint, rounds: list[DecodingRound]) -> BoolArray:
    """Return the rows of a partition whose label only a tie-break decided."""
    return np.asarray(part.as_read(decoded_labels(part, point, rounds).tied))


def bag_codes(part: Partition, used: BoolArray) -> IntArray:
    """Return the bags of a partition's rows, as positions among the bags that have rows."""
    return np.asarray(part.as_read(np.append(np.cumsum(used) - 1, -1)[part.codes]))


class LabelTable(NamedTuple):
    """What the tables of labels of all partitions have in common.

    Attributes
    ----------
    classes : list
        The classes.
    keep : tuple of str
        Columns of the files that were read to put beside the labels.
    outside : ndarray of bool, of shape (n_bags + 1, n_classes)
        Which labels of a bag more or fewer rows have than its totals allow; the last row is for
        rows in no bag.
    weakest : float
        Rows that are tied to others no more strongly than this are isolated.
    """

    classes: list[Any]
    keep: tuple[str, ...]
    outside: BoolArray
    weakest: float


def write_part(
    part: Partition,
    point: ReducedPoint,
    rounds: list[DecodingRound],
    table: LabelTable,
    source: str | None,
    file: str,
    final: str,
) -> str:
    """Write a partition's labels beside columns of the file it came from; return the file.

    It is written to `file`, and takes the place of `final` when all partitions are written. An
    existing file is replaced: it may have been written before a worker was lost.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    labels, tied = decoded_labels(part, point, rounds)
    reasons = {
        "tie": tied,
        "isolated": part.strengths <= table.weakest,
        "unbagged": part.codes < 0,
        "outside-interval": table.outside[part.codes, labels],
    }
    labels, codes = part.as_read(labels), part.as_read(joined_codes(reasons))
    masses = soft_labels(part, point)
    confidence = masses[np.arange(len(masses)), labels]
    kept = pq.read_table(source, columns=list(table.keep)) if source and table.keep else None
    columns = {} if kept is None else {name: kept.column(name) for name in table.keep}
    columns |= label_columns(table.classes, labels, masses, confidence, codes)
    with (
        replacing(Path(file), force=True, instead_of=Path(final)) as temporary,
        temporary.open("wb") as stream,
    ):
        pq.write_table(pa.table(columns), stream)
    return file


def write_labels(
    cluster: Cluster,
    fitted: DaskFit,
    source: Partitions,
    folder: Path,
    keep: Sequence[str],
    force: bool,
) -> list[Path]:
    """Write the labels of all partitions to a folder, all or none; return the files."""
    layout = fitted.layout
    names = [file.name for file in source.files or ()]
    names = names or [f"part-{number:05d}.parquet" for number in range(len(source.rows))]
    classes = layout.classes.tolist()
    refuse_output(folder, names, source.files, keep, classes, force)
    sources = [str(file.absolute()) for file in source.files or ()]
    off = fitted.assigned - np.clip(fitted.assigned, layout.lower, layout.upper)
    outside = np.vstack([np.abs(off) >= 1.0, np.zeros((1, len(classes)), dtype=bool)])
    table = cluster.send(LabelTable(classes, tuple(keep), outside, WEAK * layout.strength))
    with Outputs(force=force) as outputs:
        outputs.make_folder(folder)
        drafts = outputs.temporary_folder(folder).absolute()
        writing = []
        for number, (part, name) in enumerate(zip(layout.parts, names, strict=True)):
            read = sources[number] if sources else None
            paths = str(drafts / name), str((folder / name).absolute())
            state = fitted.point, fitted.rounds, table
            writing.append(cluster.on_one(write_part, part, *state, read, *paths))
        cluster.gather(writing)
        for name in names:
            outputs.add(drafts / name, folder / name)
        for file in folder.glob("*.parquet") if force else ():
            if file.name not in names and _holds_labels(file):
                outputs.remove(file)
    return [folder / name for name in names]


def _holds_labels(file: Path) -> bool:
    """Return whether a file has the columns of labels: an earlier run left it."""
    try:
        return {"label", "confidence"} <= {*column_names(file)}
    except FileError:
        return False
