"""The folder of a studio: inputs, corrections, settings, the labels of the last run, and the state.

Files have fixed names, whatever the user's files were called: `readings.csv`, `labels.csv`. Every
change writes all files that it concerns as whole files, together with `state.json`, or none; one
that a killed process left half done is completed when the folder is opened again.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import stat
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from apportion._io.atomic_write import Outputs, complete
from apportion._io.file_kinds import PARQUET_ENDINGS, TEXT_ENDINGS, WORKBOOK_ENDINGS, ending_of
from apportion._io.read import FORMS
from apportion.exceptions import FileError, OutputError
from apportion.labeling.settings import LabelSettings

ROLES = ("readings", "diary", "proportions", "given")
"""What files are for."""

LABELS, EPISODES, REPORT = "labels.csv", "episodes.csv", "report.html"
SETTINGS, CORRECTIONS = "settings.json", "corrections.csv"
DOWNLOADS = (LABELS, EPISODES, REPORT, SETTINGS, CORRECTIONS)
"""The files that can be downloaded."""

EARLIER = {
    f"{Path(name).stem}-before-changes{Path(name).suffix}": name
    for name in (LABELS, EPISODES, REPORT)
}
"""What files of the last run in full are called if something has changed since."""

_STATE, _LOCK = "state.json", "studio.lock"
_JOURNAL, _OPENER = ".apportion-journal.json", ".apportion-open.html"
_FORM, _VERSION = "apportion_studio", 1
_LITTER = (".DS_Store", "Thumbs.db", "desktop.ini")
"""Files that desktops leave in every folder."""

_TABLES = (*PARQUET_ENDINGS, *WORKBOOK_ENDINGS, ".arff")
_TEXTS = tuple(ending for ending in TEXT_ENDINGS if ending)
_ENDINGS = (*_TEXTS, *(f"{ending}.gz" for ending in _TEXTS), *_TABLES)
_LARGEST_STATE = 64 * 2**20

# What state.json holds, as `_fits` reads it. Numbers are such as JavaScript and NumPy can hold.
_COUNT, _MOMENT = range(2**53), range(-(2**62), 2**62)
_FILE = {"name": str, "ending": _ENDINGS, "bytes": _COUNT, "number": _COUNT, "digest": (str, ...)}
_SAID = {"id": _COUNT, "label": str, "exclude": bool, "was": str, "words": str}
_NO_TIME = {"participant": None, "start": None, "end": None}
_WHEN = {"start": _MOMENT, "end": _MOMENT, "midnight": _MOMENT, "day": str}
_CORRECTION = (
    {**_SAID, **_WHEN, "participant": (str, None), "at": None},
    {**_SAID, **_NO_TIME, "at": [str], "by_id": True},
    {**_SAID, **_NO_TIME, "at": [_COUNT], "by_id": False},
)
_RUN = {
    **{"id": _COUNT, "kind": "full", "when": str, "seconds": float, "corrections": _COUNT},
    **{"notes": [str], "changed": None, "inputs": str},
    "estimated_accuracy": ({"value": float, "words": str}, None),
    "verdict": ({"level": str, "sentence": str, "concerns": [str]}, None, ...),
    "no_report": (str, ...),
}
_SHAPE = {
    **{"revision": _COUNT, "next_id": _COUNT, "settings": {}, "corrected": bool},
    "files": dict.fromkeys(ROLES, (_FILE, ...)),
    "corrections": [_CORRECTION],
    "run": (_RUN, None),
    "answers": {name: [[_COUNT]] for name in ("answered", "skipped", "unknown")},
}


@dataclass(frozen=True)
class StoredFile:
    """A file that the user gave.

    Attributes
    ----------
    name : str
        What the user calls it: text to show, and never part of a path.
    ending : str
        The ending of the stored file, one of a fixed list.
    bytes : int
        Its size.
    number : int
        Counts the files that were given.
    digest : str
        The SHA-256 of its content; empty if an earlier version took the file.
    """

    name: str
    ending: str
    bytes: int
    number: int
    digest: str = ""

    @property
    def key(self) -> str | int:
        """What distinguishes it from files of other content."""
        return f"{self.digest}{self.ending}" if self.digest else self.number

    def is_in(self, path: Path) -> bool:
        """Return whether a path still holds the file that was given."""
        if path.stat().st_size != self.bytes:
            return False
        return not self.digest or digest_of(path) == self.digest


@dataclass
class State:
    """What is kept beside the files.

    Attributes
    ----------
    revision : int
        Grows with every change, so that a page knows whether it shows the latest state.
    next_id : int
        The id of the next correction or job.
    files : dict of str to StoredFile
        The user's files by what they are for.
    settings : dict of str to object
        The settings that differ from their defaults, without files.
    corrections : list of dict
        What the user said about rows, in order; later ones win.
    corrected : bool
        Whether corrections.csv holds any line.
    run : dict or None
        The last run in full, as the page shows it.
    answers : dict of str to list
        Rows of questions that were skipped, or that the user does not know (positions), and the
        number of those answered.
    """

    revision: int = 0
    next_id: int = 1
    files: dict[str, StoredFile] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    corrections: list[dict[str, Any]] = field(default_factory=list)
    corrected: bool = False
    run: dict[str, Any] | None = None
    answers: dict[str, list[Any]] = field(
        default_factory=lambda: {"answered": [], "skipped": [], "unknown": []}
    )

    def new_id(self) -> int:
        """Return an id that was never given."""
        self.next_id += 1
        return self.next_id - 1

    def to_bytes(self) -> bytes:
        """Return the state as the bytes of its file."""
        document = {_FORM: _VERSION, **asdict(self)}
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
        return text.encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> State:
        """Return the state that a file holds; raise `ValueError` if it holds none."""
        document = json.loads(text)
        if not isinstance(document, dict) or document.pop(_FORM, None) != _VERSION:
            raise ValueError("no state of a studio")
        for name, value in document.items():
            if not _fits(value, _SHAPE.get(name)):
                raise ValueError(f"{name!r} is damaged")
        files = document.get("files", {})
        if not files.keys() <= set(ROLES):
            raise ValueError("'files' is damaged")
        stored = {
            role: StoredFile(**{name: file[name] for name in _FILE if name in file})
            for role, file in files.items()
        }
        state = cls(**{**document, "files": stored})
        _require_settings(state.settings)
        state.to_bytes()  # raises for infinite numbers, and for halves of characters
        return state


def _require_settings(settings: Mapping[str, Any]) -> None:
    """Raise if settings of a studio name files, or have values that are not allowed."""
    if files := settings.keys() & (set(ROLES) - {"given"}):
        raise ValueError(f"{min(files)!r} is no setting of the studio")
    LabelSettings.from_json({**settings, "readings": "readings.csv"}, Path())


def _fits(value: Any, shape: Any) -> bool:
    """Return whether JSON has a shape.

    A shape is a type, a range of whole numbers, a value, a list of one shape, a tuple of any of
    which one must fit, or a dict of keys that must be there; a key whose shape may be `...` need
    not be.
    """
    if isinstance(shape, tuple):
        return any(_fits(value, one) for one in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(one, shape[0]) for one in value)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            _fits(value.get(name, ...), inner) for name, inner in shape.items()
        )
    if isinstance(shape, range):
        return type(value) is int and value in shape
    if isinstance(shape, type):
        return type(value) is shape or (shape is float and type(value) is int)
    return type(value) is type(shape) and value == shape


class Workspace:
    """The folder, held by this process until it is closed.

    Parameters
    ----------
    folder : path
        The folder; it is made if it is not there. It must be new, empty, or made by a studio.

    Attributes
    ----------
    folder : Path
        The folder, without links on the way to it.
    state : State
        What is kept beside the files.
    """

    def __init__(self, folder: Path) -> None:
        _require_usable(folder)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"{folder} cannot be made a folder: {error.strerror}. Name another."
            ) from error
        self.folder = folder.resolve()
        self._lock = _held_lock(self.folder / _LOCK)
        self._writing = threading.RLock()
        self._closed = False
        try:
            self._complete()
            self.state = self._read_state()
            self._keep_others_out()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let a write that has begun end, allow no further one, and give the folder back."""
        with self._writing:
            if not self._closed:
                self._closed = True
                try:
                    with suppress(OSError):
                        (self.folder / _OPENER).unlink(missing_ok=True)
                finally:  # the file stays: removing it could take another one's lock
                    os.close(self._lock)

    def path(self, role: str) -> Path | None:
        """Return the stored file with a role; None if there is none."""
        file = self.state.files.get(role)
        return None if file is None else self.folder / f"{role}{file.ending}"

    def write_opener(self, address: str) -> Path:
        """Write a page that leads to an address, which only this user may know, and return it.

        A browser is started with the name of this page: command lines are for all users to see.
        """
        path, shown = self.folder / _OPENER, html.escape(address)
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(
                f'<!doctype html><meta charset="utf-8"><title>apportion studio</title>'
                f'<meta http-equiv="refresh" content="0; url={shown}"><a href="{shown}">{shown}</a>'
            )
        return path

    def require_own_files(self) -> None:
        """Raise if an input is gone, is a link, which could lead out of the folder, or another."""
        for role, file in self.state.files.items():
            path = self.path(role)
            assert path is not None
            if not _is_plain(path):
                found = "a link" if path.is_symlink() else "no such file"
            elif not file.is_in(path):
                found = "not the file that was given: its content is another"
            else:
                continue
            allowed = f"the file in {self.folder.name} as it was given"
            raise FileError(path.name, found, allowed, "give the file again")

    def open_download(self, name: str) -> BinaryIO | None:
        """Return an open file of `DOWNLOADS`; None if it is not there or is a link."""
        if name not in DOWNLOADS:
            return None
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        path = self.folder / name
        if not _is_plain(path):
            return None
        try:
            return os.fdopen(os.open(path, flags), "rb")
        except OSError:
            return None

    def is_there(self, name: str) -> bool:
        """Return whether one of our own files is there."""
        return _is_plain(self.folder / name)

    @contextmanager
    def changing(self) -> Iterator[Outputs]:
        """Yield outputs; at the end of the block they and the state are written, or nothing is.

        The revision grows. If the block fails, the state is what it was before.
        """
        with self._writing:
            if self._closed:
                raise OutputError("The studio was stopped.")
            if os.path.lexists(self.folder / _JOURNAL):
                raise OutputError(
                    "The last change could not be written whole. Stop the studio and start it "
                    "again: it then completes that change."
                )
            before = deepcopy(self.state)
            try:
                journal = self.folder / _JOURNAL
                with Outputs(force=True, journal=journal, private=True) as outputs:
                    yield outputs
                    self.state.revision += 1
                    with outputs.writing(self.folder / _STATE) as path:
                        path.write_bytes(self.state.to_bytes())
            except BaseException:
                self.state = before
                raise

    def new_name(self) -> Path:
        """Return a temporary name for a file that is being received; see `accept`."""
        return self.folder / f".apportion-{os.urandom(16).hex()}.tmp"

    def accept(self, outputs: Outputs, role: str, received: Path, file: StoredFile) -> None:
        """Take a received file as the one with a role, instead of the one before it."""
        self.drop(outputs, role, but=f"{role}{file.ending}")
        outputs.add(received, self.folder / f"{role}{file.ending}")
        self.state.files[role] = file

    def drop(self, outputs: Outputs, role: str, but: str = "") -> None:
        """Remove the file with a role, unless it has a name."""
        path = self.path(role)
        if path is not None and path.name != but and os.path.lexists(path):
            outputs.remove(path)
        self.state.files.pop(role, None)

    def remove(self, outputs: Outputs, name: str) -> None:
        """Remove one of our own files, if it is there."""
        if os.path.lexists(self.folder / name):
            outputs.remove(self.folder / name)

    def _complete(self) -> None:
        """Complete the change of a process that was killed, and remove its temporary files."""
        with self._refusing(self.folder / _JOURNAL):
            complete(self.folder / _JOURNAL)
        for name in os.listdir(self.folder):
            if name == _OPENER or (name.startswith(".apportion-") and name.endswith(".tmp")):
                with suppress(OSError):
                    os.unlink(self.folder / name)

    def _keep_others_out(self) -> None:
        """Let only this user read the folder and the files in it, which may be from before."""
        inputs = [path for role in ROLES if (path := self.path(role)) is not None]
        own = [self.folder / name for name in (_STATE, *DOWNLOADS)]
        with suppress(OSError):  # it is another user's, or the file system has no modes
            self.folder.chmod(0o700)
            for path in filter(_is_plain, [*inputs, *own]):
                path.chmod(0o600)

    def _read_state(self) -> State:
        path = self.folder / _STATE
        if not os.path.lexists(path):
            return State()
        state = State()
        with self._refusing(path):
            state = State.from_bytes(path.read_bytes())
        return state

    @contextmanager
    def _refusing(self, path: Path) -> Iterator[None]:
        """Refuse a folder in which one of our own files is not what the studio wrote."""
        try:
            if os.path.lexists(path) and (
                not _is_plain(path) or path.stat().st_size > _LARGEST_STATE
            ):
                raise ValueError("no file of ours")
            yield
        except OutputError:
            raise
        except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
            raise FileError(
                str(path),
                f"nothing that the studio wrote ({error})",
                "what `apportion studio` wrote",
                "name another folder, or put the file back from a copy",
            ) from None


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def ending_for(name: str) -> str:
    """Return the ending of the stored file for a file that the user calls so.

    Examples
    --------
    >>> ending_for("Week 1.CSV.gz"), ending_for("diary")
    ('.csv.gz', '.csv')
    """
    path = Path(name)
    ending, inner = path.suffix.lower(), ending_of(path)
    whole = inner if inner == ending or not inner else f"{inner}{ending}"
    if whole in _ENDINGS:
        return whole
    if not ending or (len(ending) > 5 and " " in ending):
        return ".csv"  # text without an ending, as elsewhere
    raise FileError("", f"a file whose name ends in {ending!r}", FORMS, "save the table as CSV")


def shown_name(name: str) -> str:
    """Return what a file is called, without folders, as one line of at most 200 characters."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    return " ".join("".join(char if char.isprintable() else " " for char in last).split())[:200]


def _is_plain(path: Path) -> bool:
    """Return whether a path is a file, and neither a link nor anything else."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _require_usable(folder: Path) -> None:
    """Raise unless a folder is new, empty, or made by a studio."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise FileError(str(folder), "no folder", "a folder", "name another")
    there = set(os.listdir(folder))
    names = {name for name in there - {*_LITTER, _LOCK} if not name.startswith(".apportion-")}
    if names and not there & {_STATE, _JOURNAL}:
        raise FileError(
            str(folder),
            f"a folder with other files in it, such as {min(names)!r}",
            "a new or empty folder, or one that the studio made",
            "name another folder",
        )


def _held_lock(path: Path) -> int:
    """Return an open lock file that no other process holds; raise if one does.

    The lock belongs to the open file, so that it ends with the process, however that ends. The
    number of the process in it is for people.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    file = os.open(path, flags, 0o600)
    try:
        _lock_file(file)
    except OSError:
        os.lseek(file, 0, os.SEEK_SET)
        holder = os.read(file, 32).decode("ascii", "replace").strip()
        os.close(file)
        raise FileError(
            str(path.parent),
            f"a folder that another studio has open (process {holder or 'unknown'})",
            "one studio per folder",
            "use the page of that one, stop it with Ctrl-C, or name another folder",
        ) from None
    os.ftruncate(file, 0)
    os.lseek(file, 0, os.SEEK_SET)
    os.write(file, f"{os.getpid()}\n".encode())
    return file


def _lock_file(file: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(file, 4096, os.SEEK_SET)  # not the number, which others read
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
