"""Kinds of files: how their names end, how their bytes begin, and what every reader refuses."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from apportion.exceptions import FileError, counted

TEXT_ENDINGS = (".csv", ".tsv", ".txt", "")
PARQUET_ENDINGS = (".parquet", ".pq")
WORKBOOK_ENDINGS = (".xlsx", ".xlsm")

PARQUET_START = b"PAR1"
ZIP_START = b"PK\3\4"
_KIND_BY_START = {
    PARQUET_START: ("a Parquet file", "call it .parquet"),
    ZIP_START: (
        "a zip file, as spreadsheets are",
        "call a spreadsheet .xlsx, or save the table as CSV",
    ),
    b"\x1f\x8b": ("a compressed file", "call it .csv.gz, or unpack it"),
    b"\xd0\xcf\x11\xe0": (
        "a spreadsheet that is encrypted, or of the older form .xls",
        "open it and save it without a password as .xlsx, or save the table as CSV",
    ),
}
"""The first bytes of files that are not text, what these files are, and what to do."""

_RIGHT_FILE = "check that it is the right file"

MAX_UNPACKED = "APPORTION_MAX_UNPACKED"
"""The environment variable that says how much a file may unpack to, such as "8 GB"."""

_UNPACKED, _RATIO = 2e9, 20
"""Every file may unpack to so many bytes, and to so many times its size: tables of measurements
shrink by gzip to a third or a tenth, those with many equal columns a little further."""

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kMGT]?)B?\s*", re.IGNORECASE)
_UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def require_file(path: Path) -> None:
    """Raise an error unless the path is that of a file."""
    if not path.exists():
        raise FileError(str(path), "no such file", "a file that can be read", "correct the path")
    if path.is_dir():
        raise FileError(str(path), "a folder", "a file", "name one of the files in it")


def ending_of(path: Path) -> str:
    """Return the ending of a file name in lower case, for text in a `.gz` file without `.gz`.

    Examples
    --------
    >>> ending_of(Path("rows.CSV")), ending_of(Path("rows.csv.gz")), ending_of(Path("rows.pq.gz"))
    ('.csv', '.csv', '.gz')
    """
    ending = path.suffix.lower()
    inner = path.with_suffix("").suffix.lower()
    return inner if ending == ".gz" and inner in TEXT_ENDINGS else ending


def is_compressed(path: Path) -> bool:
    """Return whether a text file is compressed, judged by its name."""
    return path.suffix.lower() == ".gz"


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to read its bytes, decompressed if its name ends in `.gz`."""
    try:
        with gzip.open(path, "rb") if is_compressed(path) else open(path, "rb") as file:
            yield file  # type: ignore[misc]
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FileError(
            path.name,
            f"no whole gzip file ({error})",
            "text that was compressed with gzip, to its end",
            "copy or compress the file again; if it is not compressed, call it .csv",
        ) from None


def first_bytes(path: Path, expected: bytes | None = None, kind: str = "") -> bytes:
    """Return the first four bytes of a file; raise an error if they show another kind of file.

    Parameters
    ----------
    path : path
        The file.
    expected : bytes, optional
        How the file must begin; by default it must be text, not one of the known other kinds.
    kind : str
        What such a file is, in words.
    """
    with open_bytes(path) as file:
        start = file.read(4)
    if not start:
        raise empty_file(path)
    kinds = (about for first, about in _KIND_BY_START.items() if start.startswith(first))
    if expected is None:
        for found, advice in kinds:
            raise FileError(path.name, found, "text, such as CSV", advice)
    elif start != expected:
        unknown = (f"what does not begin as {kind} does", "if it is text, call it .csv")
        found, advice = next(kinds, unknown)
        raise FileError(path.name, found, f"{kind} in a file of this name", advice)
    return start


def most_unpacked(path: Path) -> float:
    """Return the most bytes that a file may unpack to."""
    wanted = os.environ.get(MAX_UNPACKED, "")
    if not wanted:
        return max(_UNPACKED, _RATIO * path.stat().st_size)
    size = _SIZE.fullmatch(wanted)
    if size is None:
        allowed, advice = "a size such as '8 GB' or '500 MB'", "correct or unset the variable"
        raise FileError(f"the environment variable {MAX_UNPACKED}", repr(wanted), allowed, advice)
    return float(size[1]) * _UNITS[size[2].upper()]


def check_unpacked(path: Path, n_bytes: float) -> None:
    """Raise an error if a compressed file unpacks to more bytes than it may."""
    most = most_unpacked(path)
    if n_bytes > most:
        raise FileError(
            path.name,
            f"more than {most / 1e9:,.3g} GB once it is unpacked",
            f"up to {_UNPACKED / 1e9:g} GB, or {_RATIO} times the size of the file",
            f"{_RIGHT_FILE}; if it is, set the environment variable {MAX_UNPACKED} to a larger "
            "size, such as '50 GB'",
        )


def empty_file(path: Path) -> FileError:
    """Return the error for a file with nothing in it."""
    return FileError(path.name, "an empty file", "a header and at least one line", _RIGHT_FILE)


def no_row(path: Path) -> FileError:
    """Return the error for a file with a header and nothing below it."""
    return FileError(path.name, "no row", "at least one row", _RIGHT_FILE)


def unreadable(path: Path, what: str, error: Exception, allowed: str, hint: str) -> FileError:
    """Return the error for a file that another library cannot read, with the reason it gives."""
    reasons = str(error).strip().splitlines() or [type(error).__name__]
    return FileError(path.name, f"{what} ({reasons[0].rstrip('.')[:200]})", allowed, hint)


def wrong_length(place: str, n_cells: int, n_names: int, delimiter: str | None = None) -> FileError:
    """Return the error for a line with more or fewer cells than the header."""
    quoted = f"; put cells that contain the separator {delimiter!r} into quotation marks"
    found, allowed = counted(n_cells, "cell"), f"{n_names}, as in the header"
    advice = f"correct the line{quoted if delimiter else ''}"
    return FileError("", found, allowed, advice, place=place)


def refuse_bad_names(names: Sequence[str], where: str) -> None:
    """Raise an error for columns without a name or with the same name."""
    first: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        if not name:
            raise FileError(
                f"{where}, column {number}",
                "no name in the header",
                "a name for every column",
                "write a header line with one name per column",
            )
        if first.setdefault(name, number) != number:
            raise FileError(
                f"{where}, columns {first[name]} and {number}",
                f"the same name, {name!r}",
                "different names",
                "rename one of them",
            )
