"""What the footers of Parquet files say of their columns: which are features, and that all agree.

Nothing but footers is read: rows are the workers' affair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from apportion._io.feature_columns import choose_columns
from apportion._io.file_kinds import refuse_bad_names
from apportion._io.identifiers import plain_name
from apportion._io.read import no_column
from apportion.exceptions import FileError

NUMBERS, NOTHING = "numbers", "nothing"
"""What a column holds, unless it is something else."""


class Footer(NamedTuple):
    """What the end of a Parquet file says of it: columns, rows, and the ranges of columns."""

    file: Path
    schema: Any
    metadata: Any

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return int(self.metadata.num_rows)


def read_footers(folder: Path) -> list[Footer]:
    """Return the footers of a folder's Parquet files, in the order of their names."""
    import pyarrow.parquet as pq

    footers = []
    for file in sorted(folder.glob("*.parquet")):
        with reading(str(file)):
            metadata = pq.read_metadata(file)
            footers.append(Footer(file, metadata.schema.to_arrow_schema(), metadata))
        refuse_bad_names(footers[-1].schema.names, str(file))
    if not footers:
        raise FileError(
            str(folder), "no Parquet file", "a folder of .parquet files", "check the path"
        )
    return footers


def kind_of(kind: Any) -> str:
    """Return `NUMBERS` for integers, floats, decimals and truth values; else the type in words."""
    import pyarrow.types as kinds

    numbers = kinds.is_integer, kinds.is_floating, kinds.is_decimal, kinds.is_boolean
    if any(one(kind) for one in numbers):
        return NUMBERS
    return NOTHING if kinds.is_null(kind) else f"values of type {kind}"


def unified(footers: Sequence[Footer]) -> Any:
    """Return one schema of all columns that some file has.

    A column that is numbers in any file is float64; one without values in some file is what it is
    in the others.
    """
    import pyarrow as pa

    found: dict[str, Any] = {}
    for footer in footers:
        for field in footer.schema:
            kind = kind_of(field.type)
            if kind == NUMBERS:
                found[field.name] = pa.float64()
            elif kind_of(found.get(field.name, pa.null())) == NOTHING:
                found[field.name] = field.type
    return pa.schema(found)


def require_columns(footers: Sequence[Footer], bags: str, features: Sequence[str]) -> None:
    """Raise unless every file has the bags and, as numbers, the features."""
    for footer in footers:
        if bags not in footer.schema.names:
            raise no_column(bags, footer.schema.names, str(footer.file))
    for name in features:
        having = [footer for footer in footers if name in footer.schema.names]
        if not having:
            raise no_column(name, footers[0].schema.names, str(footers[0].file))
        for footer in footers:
            if name not in footer.schema.names:
                raise FileError(
                    str(footer.file),
                    f"no column {name!r}, which {having[0].file} has",
                    "every feature in every file",
                    "add the column, or leave it out of the features",
                )
        kinds = {kind_of(one.schema.field(name).type): one for one in reversed(having)}
        others = [footer for kind, footer in kinds.items() if kind not in (NUMBERS, NOTHING)]
        if others and NUMBERS not in kinds:
            raise no_numbers(str(others[-1].file), name, others[-1].schema.field(name).type)
        if others:
            one, other = kinds[NUMBERS], others[-1]
            raise FileError(
                f"{one.file} and {other.file}, column {name!r}",
                f"the type {one.schema.field(name).type} in the first and "
                f"{other.schema.field(name).type} in the second",
                "numbers in all files (integers, floats, decimals and booleans may be mixed)",
                "write the column alike in all files, or leave it out of the features",
            )


def choose_features(
    footers: Sequence[Footer],
    bags: str,
    classes: Sequence[Any],
    features: Sequence[str],
    exclude: Sequence[str],
) -> tuple[list[str], dict[str, str]]:
    """Return the columns to use as features, and why others are none: as `label` chooses them.

    Of the cells, only what footers tell is known. Text is no feature here, as numbers of the
    files are used as they stand.
    """
    schema = unified(footers)
    roles = {bags: "the bags"}
    choice = choose_columns(
        schema.empty_table(), features=features, exclude=exclude, roles=roles, classes=classes
    )
    n_samples = sum(footer.n_samples for footer in footers)
    names = {plain_name(label).casefold() for label in classes}
    chosen = []
    for name in choice.features:
        kind, ends = kind_of(schema.field(name).type), _range_of(footers, name)
        first, last = ends or (0, -1)
        if name in features:
            chosen.append(name)
        elif kind != NUMBERS:
            choice.left_out[name] = "empty" if kind == NOTHING else kind
        elif n_samples >= 20 and last - first == n_samples - 1:
            choice.left_out[name] = "an id: it counts the rows"
        elif 1 < len(names) == last - first + 1 and names == set(map(str, range(first, last + 1))):
            choice.left_out[name] = "its values are the classes"
        else:
            chosen.append(name)
    return chosen, choice.left_out


def _range_of(footers: Sequence[Footer], name: str) -> tuple[int, int] | None:
    """Return the least and greatest cell of a column of integers, as the footers tell.

    None where a footer does not tell it, or a cell is empty.
    """
    import pyarrow.types as kinds

    ends: list[int] = []
    for _, schema, metadata in footers:
        place = schema.get_field_index(name)
        flat = metadata.num_columns == len(schema.names)
        if not flat or place < 0 or not kinds.is_integer(schema.field(place).type):
            return None
        for number in range(metadata.num_row_groups):
            told = metadata.row_group(number).column(place).statistics
            if told is None or not told.has_min_max or told.null_count != 0:
                return None
            ends += [told.min, told.max]
    return (min(ends), max(ends)) if ends else None


def no_numbers(file: str, column: str, kind: Any) -> FileError:
    """Return the error for a feature of a file that is no numbers."""
    return FileError(
        f"{file}, column {column!r}",
        f"values of type {kind}",
        "numbers in the columns of features",
        "leave the column out, or turn it into numbers",
    )


@contextmanager
def reading(file: str) -> Iterator[None]:
    """Name the file that cannot be read."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise FileError(
            file,
            f"what cannot be read as Parquet: {str(error).splitlines()[0].rstrip('.')}",
            "a whole Parquet file that every worker can reach",
            "restore the file, or take it out of the folder",
        ) from None
