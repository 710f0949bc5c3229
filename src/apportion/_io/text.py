"""What a text file is written in: encoding, separator, decimal sign."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from apportion.exceptions import FileError, counted

TEXT_ENDINGS = (".csv", ".tsv", ".txt", "")
PARQUET_ENDINGS = (".parquet", ".pq")

_SEPARATORS = ",;\t|"
_CHUNK = 2**22
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+(?:[eE][+-]?\d+)?\s*(?:%\s*)?")
_NO_TEXT = {
    b"PAR1": ("a Parquet file", "call it .parquet"),
    b"PK\3\4": (
        "a zip file, as spreadsheets are",
        "call a spreadsheet .xlsx, or save the table as CSV",
    ),
    b"\x1f\x8b": ("a compressed file", "call it .csv.gz, or unpack it"),
}
"""How files begin that are no text, what they are and what to do."""


def require_file(path: Path) -> None:
    """Raise for a path that is no file."""
    if not path.exists():
        raise FileError(str(path), "no such file", "a file that can be read", "correct the path")
    if path.is_dir():
        raise FileError(str(path), "a folder", "a file", "name one of the files in it")


def ending_of(path: Path) -> str:
    """Return the ending of a file's name in small letters; that of the text in a .gz file.

    Examples
    --------
    >>> ending_of(Path("rows.CSV")), ending_of(Path("rows.csv.gz")), ending_of(Path("rows.pq.gz"))
    ('.csv', '.csv', '.gz')
    """
    ending = path.suffix.lower()
    inner = path.with_suffix("").suffix.lower() if ending == ".gz" else ""
    return inner if ending == ".gz" and inner in TEXT_ENDINGS else ending


def is_compressed(path: Path) -> bool:
    """Return whether a text file is compressed, by its name."""
    return path.suffix.lower() == ".gz"


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a text file to read its bytes, unpacked where it is compressed."""
    if not is_compressed(path):
        with open(path, "rb") as file:
            yield file
        return
    try:
        with gzip.open(path, "rb") as unpacked:
            yield unpacked  # type: ignore[misc]
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FileError(
            path.name,
            f"no whole gzip file ({error})",
            "text that was compressed with gzip, to its end",
            "copy or compress the file again; if it is not compressed, call it .csv",
        ) from None


def encoding_of(path: Path, encoding: str | None = None) -> str:
    """Return the encoding of a text file, after a look at all of it.

    It is what a byte order mark says, or UTF-8 if all bytes are, else the one that is named. Bytes
    that are none of the encoding are an error that names their line.
    """
    if encoding is not None:
        _require_encoding(encoding)
    with open_bytes(path) as file:
        start = file.read(4)
    if not start:
        raise empty_file(path)
    for mark, (what, hint) in _NO_TEXT.items():
        if start.startswith(mark):
            raise FileError(path.name, what, "text, such as CSV", hint)
    marked = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    likely = "utf-16" if marked else "utf-8-sig"
    try:
        _refuse_other_bytes(path, likely)
    except FileError:
        if encoding is None or marked:
            raise
        _refuse_other_bytes(path, encoding)
        return encoding
    return likely


def _require_encoding(encoding: str) -> None:
    try:
        b"ab".decode(encoding, "ignore")  # also refuses what gives no text, such as "hex"
        codecs.getincrementaldecoder(encoding)
    except (LookupError, UnicodeError):
        raise FileError(
            "the encoding",
            repr(encoding),
            "a name such as 'utf-8', 'latin-1' or 'cp1252'",
            "correct it",
        ) from None


def _refuse_other_bytes(path: Path, encoding: str) -> None:
    """Raise for the first byte of a file that is none of an encoding, or is zero."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    with open_bytes(path) as file:
        while True:
            chunk = file.read(_CHUNK)
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                found = error.object[error.start : error.start + 1].hex()
                raise FileError(
                    f"{path.name}, line {line}",
                    f"the byte 0x{found}, which is not {encoding.removesuffix('-sig').upper()}",
                    "text in one encoding, UTF-8 unless another is named",
                    "save the file as UTF-8, or name its encoding, e.g. --encoding cp1252",
                ) from None
            if "\0" in text:
                line += text[: text.index("\0")].count("\n")
                raise FileError(
                    f"{path.name}, line {line}",
                    "a zero byte",
                    "text, in UTF-8 unless another encoding is named",
                    "check that it is a text file; if it is, name its encoding, e.g. --encoding "
                    "utf-16-le",
                )
            if not chunk:
                return
            line += text.count("\n")


def empty_file(path: Path) -> FileError:
    """Return the error for a file with nothing in it."""
    return FileError(
        path.name,
        "an empty file",
        "a header and at least one line",
        "check that it is the right file",
    )


def wrong_length(where: str, found: int, wanted: int, delimiter: str | None = None) -> FileError:
    """Return the error for a line with more or fewer cells than the header."""
    quoted = f"; put cells that contain the separator {delimiter!r} into quotation marks"
    return FileError(
        where,
        counted(found, "cell"),
        f"{wanted}, as in the header",
        f"correct the line{quoted if delimiter else ''}",
    )


def text_of(path: Path, encoding: str | None = None) -> str:
    """Return a whole text file."""
    found = encoding_of(path, encoding)
    with open_bytes(path) as file, io.TextIOWrapper(file, found, newline="") as text:
        return text.read()


def delimiter_of(text: str) -> str:
    """Return the separator that the first line has most of, outside quotation marks."""
    header = next((line for line in text.splitlines() if line.strip()), "")
    counts = Counter(re.sub(r'"[^"]*"', "", header))
    best = max(_SEPARATORS, key=lambda sign: counts[sign])
    return best if counts[best] else ","


def decimal_text(cell: str, delimiter: str) -> str:
    """Return a cell with its decimal comma made a point, where commas separate no cells."""
    if delimiter != "," and _DECIMAL_COMMA.fullmatch(cell):
        return cell.replace(",", ".")
    return cell


def refuse_bad_names(names: Sequence[str], where: str) -> None:
    """Raise for columns without a name or with the same name."""
    first: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if not name:
            raise FileError(
                f"{where}, column {place}",
                "no name in the header",
                "a name for every column",
                "write a header line with one name per column",
            )
        if first.setdefault(name, place) != place:
            raise FileError(
                f"{where}, columns {first[name]} and {place}",
                f"the same name, {name!r}",
                "different names",
                "rename one of them",
            )
