"""Atomic writing: files are written under temporary names, then renamed together or not at all."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from apportion.exceptions import Advice, OutputError

_REMOVALS = 10
"""Attempts at removing a temporary folder."""

UNCHANGED = " Nothing was changed."
"""How the error of a file that cannot be written ends: it is all or nothing."""

_TEMPORARY = r"\.apportion-[0-9a-f]{32}\.tmp"
"""What temporary files are called."""


class Outputs:
    """The files of one piece of work: either all of them are written, or none.

    Every file is written under a temporary name beside its own. When the block ends without an
    exception, all are renamed. The files they replace are kept until the last rename, and are put
    back if one of them fails. When the block ends with an exception, also by Ctrl-C, temporary
    files are removed and everything is as it was.

    A new file has the mode, and if possible the owner and group, of the file that it replaces. It
    is never readable by more users than that one was.

    A process that is killed between two renames can put nothing back. With a journal, the renames
    are noted on the disk before the first one is made, and `complete` makes the rest of them.

    Parameters
    ----------
    force : bool, default=False
        Whether existing files may be replaced.
    journal : path, optional
        Where renames are noted. All files must be in its folder, and `place` is not for them.
    private : bool, default=False
        Whether only the user may read the files, whatever they replace.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with Outputs() as outputs:
    ...     for name in ("labels.csv", "model.zip"):
    ...         with outputs.writing(folder / name) as temporary:
    ...             _ = temporary.write_text(name)
    ...     print(any(file.suffix != ".tmp" for file in folder.iterdir()))
    False
    >>> sorted(file.name for file in folder.iterdir())
    ['labels.csv', 'model.zip']
    """

    def __init__(
        self, *, force: bool = False, journal: Path | None = None, private: bool = False
    ) -> None:
        self._force, self._journal, self._private = force, journal, private
        self._waiting: list[_Move] = []
        self._moved: list[_Move] = []
        self._temporary: list[Path] = []
        self._folders: list[Path] = []
        self._last: _Move | None = None
        self._committed = False

    @contextmanager
    def writing(
        self, path: str | os.PathLike[str], *, instead_of: Path | None = None
    ) -> Iterator[Path]:
        """Yield the temporary name under which to write a file; an `OSError` names the file.

        Parameters
        ----------
        path : str or path
            The file.
        instead_of : path, optional
            The file that this one will replace, and that errors name, if it is not `path`.
        """
        target = Path(path)
        final = target if instead_of is None else instead_of
        refuse_to_replace(target, force=self._force)
        temporary = _beside(target)
        self._temporary.append(temporary)
        with _naming(final):
            old = None
            with suppress(OSError):
                old = os.stat(final)
            # Until it has the mode of the file that it replaces, only its owner may read it.
            _create(temporary, 0o666 if old is None and not self._private else 0o600)
            yield temporary
            if old is not None and not self._private:
                _make_alike(temporary, old)
        self.add(temporary, target)

    def make_folder(self, folder: Path) -> None:
        """Make a folder and its parents; they are removed again if the block fails."""
        try:
            for level in reversed((folder, *folder.parents)):
                if not os.path.lexists(level):
                    self._folders.append(level)
                level.mkdir(exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"{folder} cannot be made a folder: {_reason(error)}. Name another."
            ) from error

    def temporary_folder(self, folder: Path) -> Path:
        """Return a temporary folder within a folder, for files that are added once complete."""
        temporary = _beside(folder / "name")
        self._temporary.append(temporary)
        with _naming(folder):
            temporary.mkdir()
        return temporary

    def add(self, temporary: Path, path: Path) -> None:
        """Rename a file of the same file system together with the others."""
        self._waiting.append(_Move(path, temporary, _beside(path)))

    def remove(self, path: Path) -> None:
        """Remove a file when the others are renamed."""
        self._waiting.insert(0, _Move(path, None, _beside(path)))

    def place(self) -> None:
        """Rename the files written so far; this is still undone if the block fails."""
        self._move_all(final=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._move_all(final=True)
                self._committed = True
            else:
                self._put_back()
        except BaseException:
            self._put_back()
            raise
        finally:
            self._committed, self._last = self._is_committed(), None
            try:
                self._clean()
            except BaseException:  # one more signal
                self._clean()
                raise

    def _move_all(self, *, final: bool) -> None:
        for move in self._waiting:
            refuse_to_replace(move.path, force=self._force)
        if self._journal is not None and self._waiting:
            assert final, "a journal lists all renames at once"
            with _naming(self._journal):
                self._note(self._journal)
        while self._waiting:
            move = self._waiting.pop(0)
            self._moved.append(move)
            # The last rename decides: before it all can be put back, after it all is done. It
            # needs no copy of the file that it replaces, so a single file is replaced in one step.
            is_last = final and not self._waiting
            self._last = move if is_last else None
            with _naming(move.path):
                move.make(keep=not is_last)

    def _note(self, journal: Path) -> None:
        """Write the journal: the temporary name of every file by its own; null = it is removed.

        From here on the renames can be completed, so that the contents must be on the disk, too.
        """
        assert all(move.path.parent == journal.parent for move in self._waiting)
        names = {move.path.name: move.temporary and move.temporary.name for move in self._waiting}
        draft = _beside(journal)
        self._temporary.append(draft)
        _create(draft, 0o600)
        draft.write_text(json.dumps(names), encoding="utf-8")
        for path in (*(move.temporary for move in self._waiting), draft):
            if path is not None:
                _flush(path)
        os.replace(draft, journal)
        if os.name == "posix":
            with suppress(OSError):  # not every file system can
                _flush(journal.parent)

    def _put_back(self) -> None:
        """Undo all renames. Whether one was made is read from the files, not from memory.

        A signal may arrive between a rename and the note that it was made.
        """
        if self._is_committed():
            return
        failures = []
        for move in reversed(self._moved):
            try:
                move.undo()
            except OSError as error:
                failures.append(
                    f"{move.path} could not be put back: {_reason(error)}. What was there is in "
                    f"{move.aside}."
                    if os.path.lexists(move.aside)
                    else f"{move.path} was written and could not be removed again: "
                    f"{_reason(error)}."
                )
        if failures:
            raise OutputError(" ".join(failures))
        self._moved.clear()

    def _is_committed(self) -> bool:
        return self._committed or (self._last is not None and not self._last.is_waiting())

    def _clean(self) -> None:
        """Remove temporary files, replaced files, and new folders that remained empty."""
        if self._journal is not None:
            if self._moved and not self._is_committed():
                return  # they could not be put back: the journal and its files complete them
            with suppress(OSError):
                self._journal.unlink(missing_ok=True)
            if os.path.lexists(self._journal) and not self._is_committed():
                return  # its files are needed as long as it is there
        asides = [move.aside for move in self._moved] if self._is_committed() else []
        for path in (*self._temporary, *asides):
            _remove(path)
        for folder in reversed(self._folders):
            with suppress(OSError):  # it is not empty
                folder.rmdir()


@dataclass(frozen=True)
class _Move:
    """A file that is renamed, or removed if it has no temporary name; `aside` keeps the old one."""

    path: Path
    temporary: Path | None
    aside: Path

    def is_waiting(self) -> bool:
        """Return whether the file is still under its temporary name."""
        return self.temporary is None or os.path.lexists(self.temporary)

    def make(self, *, keep: bool) -> None:
        """Rename the file, and keep the one that it replaces."""
        if self.temporary is None:
            os.rename(self.path, self.aside)
            return
        if keep and os.path.lexists(self.path):
            try:
                os.link(self.path, self.aside, follow_symlinks=False)
            except (OSError, NotImplementedError):  # a file system without hard links
                os.rename(self.path, self.aside)
        os.replace(self.temporary, self.path)

    def undo(self) -> None:
        """Restore the old state, whatever part of the rename was done."""
        if self.temporary is not None and not self.is_waiting():
            os.replace(self.path, self.temporary)
        if os.path.lexists(self.path):
            self.aside.unlink(missing_ok=True)
        elif os.path.lexists(self.aside):
            os.rename(self.aside, self.path)


@contextmanager
def replacing(
    path: str | os.PathLike[str], *, force: bool = False, instead_of: Path | None = None
) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it is renamed when the block ends without an exception.

    This is `Outputs` with a single file, and has the same parameters.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "labels.csv"
    >>> with replacing(path) as temporary:
    ...     _ = temporary.write_text("row,label")
    >>> path.read_text()
    'row,label'
    """
    with Outputs(force=force) as outputs, outputs.writing(path, instead_of=instead_of) as temporary:
        yield temporary


def complete(journal: Path) -> None:
    """Make the renames of a journal that a process left when it was killed, if there is one.

    Those that were made already are left out, so that this may be killed, too.

    Parameters
    ----------
    journal : path
        The journal of `Outputs`.

    Raises
    ------
    ValueError
        If it is no such journal.
    """
    if not os.path.lexists(journal):
        return
    names = json.loads(journal.read_bytes())
    if not (isinstance(names, dict) and all(map(_is_plain_name, names))):
        raise ValueError("no list of renames")
    for temporary in names.values():
        if temporary is not None and not re.fullmatch(_TEMPORARY, str(temporary)):
            raise ValueError(f"{temporary!r} is no temporary file")
    for name, temporary in names.items():
        path = journal.with_name(name)
        with _naming(path):
            if temporary is None:
                path.unlink(missing_ok=True)
            elif os.path.lexists(journal.with_name(temporary)):
                os.replace(journal.with_name(temporary), path)
    journal.unlink()


def refuse_to_replace(path: Path, *, force: bool) -> None:
    """Raise an error if a file, or something that is no file, is in the way."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except OSError:  # there is nothing, or a broken link
        kind = stat.S_IFREG
    if kind == stat.S_IFDIR:
        raise OutputError(f"{path} is a folder. Name a file in it.")
    if kind != stat.S_IFREG or os.path.realpath(path.parent) == "/dev":
        raise OutputError(f"{path} is a device or a pipe, which is never replaced. Name a file.")
    if not force and os.path.lexists(path):
        raise OutputError(
            Advice(f"{path} is there already.", "Name another file, or pass {force}.")
        )


def require_writable(path: Path, *, force: bool) -> None:
    """Raise an error, before long work begins, if a file could not be written at its end."""
    refuse_to_replace(path, force=force)
    with _naming(path):
        with suppress(FileNotFoundError):
            os.lstat(path)  # fails if the name is too long, or a parent is a file
        if not path.parent.exists():
            raise OutputError(
                f"{path} cannot be written: there is no folder {path.parent}. Make it, or name "
                "another."
            )
        _probe(path.parent)


def require_folder_writable(folder: Path) -> None:
    """Raise an error, before long work begins, if no file could be written to a folder."""
    with Outputs() as outputs:
        outputs.make_folder(folder)  # it is removed again because nothing is written to it
        with _naming(folder):
            _probe(folder)


def _probe(folder: Path) -> None:
    """Create a file in a folder, and remove it."""
    probe = _beside(folder / "name")
    try:
        _create(probe, 0o666)
    finally:
        _remove(probe)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file that cannot be written."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {_reason(error)}.{UNCHANGED}") from error


def _reason(error: OSError) -> str:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"{reason[:1].lower()}{reason[1:]}"


def _beside(path: Path) -> Path:
    """Return a new name beside a path; it is short, as the path's own may be as long as allowed."""
    return path.with_name(f".apportion-{uuid.uuid4().hex}.tmp")


def _is_plain_name(name: str) -> bool:
    return name not in ("", ".", "..") and Path(name).name == name


def _create(path: Path, mode: int) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))


def _flush(path: Path) -> None:
    """Wait until a file is on the disk."""
    file = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _make_alike(path: Path, old: os.stat_result) -> None:
    """Give a file the mode, and if possible the owner and group, of the one that it replaces."""
    mode = stat.S_IMODE(old.st_mode) & 0o777
    if hasattr(os, "chown"):
        # One by one: the group can often be changed by those who cannot change the owner.
        for owner, group in ((-1, old.st_gid), (old.st_uid, -1)):
            with suppress(OSError):
                os.chown(path, owner, group)
        if os.stat(path).st_gid != old.st_gid:
            mode &= 0o707  # another group must not get the permissions of the old one
    os.chmod(path, mode)


def _remove(path: Path) -> None:
    """Remove a temporary file or folder, also while a worker may still write to the folder."""
    for _ in range(_REMOVALS):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        if not os.path.lexists(path):
            return
