"""JSON and arrays in one zip file, without pickle; everything is checked when it is read.

Members are stored without compression, so that a small file cannot fill the memory.
"""

from __future__ import annotations

import json
import math
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, NoReturn, TypeAlias

import numpy as np
from numpy.lib import format as npy

from apportion._utils.memory import free_bytes, readable
from apportion._utils.typing import AnyArray
from apportion.exceptions import SavedModelError, compared

PathOrFile: TypeAlias = "str | os.PathLike[str] | IO[bytes]"

REALS = ("<f4", "<f8")
PLACES = ("<i4", "<i8")
INTEGERS = ("<i8",)
FLAGS = ("|b1",)
BYTES = ("|u1",)

LEAST_POSITIVE = 5e-324
"""The smallest float above 0, as the least value of what must be positive."""

_MOST_JSON = 2**24
"""Bytes of the document; more would be a mistake or an attack."""

_ROUNDING = 1e-6
"""How far soft labels in single precision may be from shares that sum to 1."""

_CHUNK = 2**20
_TAKE_COPY = "take a copy of the file that was not changed, or save the model again"


@dataclass(frozen=True)
class Stored:
    """What an array in a file must be.

    Attributes
    ----------
    shape : tuple of str
        What its lengths count, such as "rows": equal words in one file are equal lengths.
    dtypes : tuple of str
        The dtypes it may have.
    least, most : float
        The range of its values; infinite ones and NaN are never allowed.
    below : str, optional
        If values are positions in another array: the word for its length, which they are below.
    shares : bool
        Whether each row is shares of a whole: values from 0 to 1 that sum to 1, up to rounding.
    may_be_empty : bool
        Whether lengths may be 0.
    """

    shape: tuple[str, ...]
    dtypes: tuple[str, ...] = REALS
    least: float = -sys.float_info.max
    most: float = sys.float_info.max
    below: str | None = None
    shares: bool = False
    may_be_empty: bool = False


def numbers(*shape: str, size: float, may_be_empty: bool = False) -> Stored:
    """Return the form of an array of real numbers of at most this size."""
    return Stored(shape, least=-size, most=size, may_be_empty=may_be_empty)


def write_zip(file: PathOrFile, document: Any, arrays: Mapping[str, AnyArray], name: str) -> None:
    """Write a document as the JSON member `name`, and arrays as members `*.npy`.

    Equal contents give equal bytes. Arrays are written in pieces, never copied as a whole.
    """
    try:
        text = json.dumps(document, indent=1, allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise SavedModelError(
            name,
            f"something that JSON cannot hold ({error})",
            "text, finite numbers, true, false, null, and lists and objects of these",
            "leave it out, or turn it into text",
        ) from error
    if len(text) > _MOST_JSON:
        found, allowed = readable(len(text)), f"at most {readable(_MOST_JSON)}"
        raise SavedModelError(name, found, allowed, "leave something out")
    with zipfile.ZipFile(file, "w") as archive:
        with archive.open(_entry(name), "w", force_zip64=True) as member:
            member.write(text)
        for key, array in arrays.items():
            with archive.open(_entry(f"{key}.npy"), "w", force_zip64=True) as member:
                npy.write_array(member, array, version=(1, 0), allow_pickle=False)


def _entry(name: str) -> zipfile.ZipInfo:
    """Return a member that does not reveal when and where it was written."""
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.create_system = 3
    entry.external_attr = 0o644 << 16
    return entry


@contextmanager
def open_zip(file: PathOrFile) -> Iterator[ZipReader]:
    """Yield a reader of a zip file, which is open until the block ends."""
    if isinstance(file, str | os.PathLike):
        with open(file, "rb") as stream:
            yield ZipReader(stream, os.fspath(file))
    else:
        yield ZipReader(file, str(getattr(file, "name", "the file")))


class ZipReader:
    """Reads JSON and arrays from a zip file; everything that is wrong is a `SavedModelError`."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self.name = name
        try:
            self._zip = zipfile.ZipFile(stream)
        except Exception as error:
            raise SavedModelError(
                name,
                f"no zip file, or only a part of one ({error})",
                "a file that save_model wrote",
                "name the right file, or copy it again",
            ) from error

    def refuse(self, member: str, found: str, allowed: str, hint: str = _TAKE_COPY) -> NoReturn:
        """Raise an error that names the file and the member."""
        raise SavedModelError(f"{self.name}, {member}", found, allowed, hint)

    def json(self, member: str) -> Any:
        """Return the contents of a JSON member."""

        def refuse_constant(word: str) -> NoReturn:
            raise ValueError(f"{word} is no number")

        info = self._info(member)
        if info.file_size > _MOST_JSON:
            self.refuse(member, readable(info.file_size), f"at most {readable(_MOST_JSON)}")
        with self._reading(member), self._zip.open(info) as stream:
            return json.loads(stream.read().decode("utf-8"), parse_constant=refuse_constant)

    def array(self, key: str, stored: Stored, lengths: dict[str, int]) -> AnyArray:
        """Return an array. It is read only if its header is right and it fits into memory.

        Known lengths are compared, unknown ones are added to `lengths`.
        """
        member = f"{key}.npy"
        info = self._info(member)
        with self._reading(member), self._zip.open(info) as stream:
            if npy.read_magic(stream) != (1, 0):
                raise ValueError("another version of the format of arrays")
            shape, column_first, dtype = npy.read_array_header_1_0(stream)
            if dtype.str not in stored.dtypes:
                allowed = " or ".join(str(np.dtype(name)) for name in stored.dtypes)
                self.refuse(member, f"values of dtype {dtype}", f"dtype {allowed}")
            self._check_shape(member, shape, stored, lengths)
            n_bytes, held = math.prod(shape) * dtype.itemsize, info.file_size - stream.tell()
            if held != n_bytes:
                self.refuse(member, f"{held:,} bytes for shape {shape}", f"{n_bytes:,} bytes")
            free = free_bytes()
            if free is not None and n_bytes > free:
                self.refuse(
                    member,
                    f"an array of {readable(n_bytes)}",
                    f"what fits into the {readable(free)} of memory that are free",
                    "free some memory, or use a larger machine",
                )
            flat = np.empty(math.prod(shape), dtype=dtype)
            # In pieces, because a read makes a copy of what it returns.
            for piece in np.split(flat.view(np.uint8), range(_CHUNK, n_bytes, _CHUNK)):
                if stream.readinto(piece) < len(piece):  # type: ignore[attr-defined]
                    raise EOFError("the data ends too early")
            array = flat.reshape(shape, order="F" if column_first else "C")
        self._check_values(member, array, stored, lengths)
        return array

    def _info(self, member: str) -> zipfile.ZipInfo:
        try:
            info = self._zip.getinfo(member)
        except KeyError:
            self.refuse("members", f"no {member}", "all members that save_model wrote")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            self.refuse(member, "compressed data", "members that are stored without compression")
        return info

    @contextmanager
    def _reading(self, member: str) -> Iterator[None]:
        """Turn every exception of zipfile, json and numpy about wrong bytes into one error."""
        try:
            yield
        except SavedModelError:
            raise
        except Exception as error:
            found = f"bytes that cannot be read ({error or type(error).__name__})"
            where = f"{self.name}, {member}"
            raise SavedModelError(where, found, "what save_model wrote", _TAKE_COPY) from error

    def _check_shape(
        self, member: str, shape: tuple[int, ...], stored: Stored, lengths: dict[str, int]
    ) -> None:
        """Raise an error unless a shape agrees with the known lengths; add the others to them."""
        names, least = stored.shape, 0 if stored.may_be_empty else 1
        known = [lengths.get(name) for name in names]
        agrees = len(shape) == len(known) and all(
            length >= least and expected in (None, length)
            for length, expected in zip(shape, known, strict=True)
        )
        if not agrees:
            words = [
                f"{'any number of' if expected is None else f'{expected:,}'} {name}"
                for name, expected in zip(names, known, strict=True)
            ]
            self.refuse(member, f"shape {shape}", " × ".join(words) or "a single number")
        lengths.update(zip(names, shape, strict=True))

    def _check_values(
        self, member: str, array: AnyArray, stored: Stored, lengths: dict[str, int]
    ) -> None:
        """Raise an error for values out of range, and for rows that are no shares of a whole."""
        least, most = stored.least, stored.most
        if not array.size:
            return
        if stored.below is not None:
            least, most = 0, lengths[stored.below] - 1
        numbers = array.view(np.uint8) if stored.dtypes == FLAGS else array
        for value in (numbers.min().item(), numbers.max().item()):
            if not least <= value <= most:
                allowed = f"finite numbers from {least:g} to {most:g}"
                self.refuse(member, f"the value {value}", allowed)
        if not stored.shares:
            return
        rows = np.atleast_2d(array)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = rows.sum(axis=1)
        wrong = (rows < -_ROUNDING).any(axis=1) | ~(np.abs(sums - 1.0) <= _ROUNDING)
        if wrong.any():
            row = int(np.argmax(wrong))
            self.refuse(
                member,
                f"row {row} with a least value of {rows[row].min():g} and a sum of "
                f"{compared(sums[row], 1.0)[0]}",
                "shares: numbers from 0 to 1 that sum to 1 in every row",
            )
