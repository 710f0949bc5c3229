"""Files that are whole or not there: written under another name, then renamed together."""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from apportion.exceptions import OutputError

_REMOVALS = 10


class Outputs:
    """The files of one piece of work: all of them take their places, or none does.

    Every file is written under a temporary name beside its own. When the block ends well, all are
    renamed. What they replace is kept until the last one is in its place, and put back if one of
    them cannot be renamed. When the block does not end well, also by Ctrl-C, temporary files are
    removed and everything is as it was.

    A file that is replaced passes on its mode, and where possible its owner and group; what is
    written for it is never readable by more users than it was.

    Parameters
    ----------
    force : bool, default=False
        Whether files that are there already may be replaced.

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

    def __init__(self, *, force: bool = False) -> None:
        self._force = force
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
        """Yield the temporary name under which a file is written; an `OSError` names the file.

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
        temporary = self._temporary_beside(target)
        with _naming(final):
            old = _regular(final)
            _create(temporary, old)
            yield temporary
            if old is not None:
                _make_alike(temporary, old)
        self.add(temporary, target)

    def make_folder(self, folder: Path) -> None:
        """Make a folder, and those above it; if the block fails, they are removed again."""
        try:
            for one in reversed((folder, *folder.parents)):
                if not os.path.lexists(one):
                    self._folders.append(one)
                one.mkdir(exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"{folder} cannot be made a folder: {_reason(error)}. Name another."
            ) from error

    def temporary_folder(self, folder: Path) -> Path:
        """Return a temporary folder in a folder, for files that are added when they are whole."""
        temporary = self._temporary_beside(folder / "name")
        with _naming(folder):
            temporary.mkdir()
        return temporary

    def add(self, temporary: Path, path: Path) -> None:
        """Let a file that is written elsewhere in the same file system take its place, too."""
        self._waiting.append(_Move(path, temporary, _beside(path)))

    def remove(self, path: Path) -> None:
        """Let a file go when the others take their places."""
        self._waiting.insert(0, _Move(path, None, _beside(path)))

    def place(self) -> None:
        """Let what is written so far take its place; it is still put back if the block fails."""
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
        while self._waiting:
            move = self._waiting.pop(0)
            self._moved.append(move)
            # The last rename decides: before it all can be put back, after it all is done. It
            # needs no copy of what it replaces, so that a single file is replaced in one step.
            is_last = final and not self._waiting
            self._last = move if is_last else None
            with _naming(move.path):
                move.make(keep=not is_last)

    def _put_back(self) -> None:
        """Undo what was done, as far as the files themselves show that it was done."""
        if self._is_committed():
            return
        stuck = []
        for move in reversed(self._moved):
            try:
                move.undo()
            except OSError as error:
                stuck.append(move.left_behind(error))
        if stuck:
            raise OutputError(" ".join(stuck))

    def _is_committed(self) -> bool:
        last = self._last
        return self._committed or (last is not None and not last.is_waiting())

    def _clean(self) -> None:
        """Remove temporary files, what was replaced, and folders that were made for nothing."""
        asides = [move.aside for move in self._moved] if self._is_committed() else []
        for path in (*self._temporary, *asides):
            _remove(path)
        for folder in reversed(self._folders):
            with suppress(OSError):  # it holds something
                folder.rmdir()

    def _temporary_beside(self, path: Path) -> Path:
        self._temporary.append(_beside(path))
        return self._temporary[-1]


@dataclass(frozen=True)
class _Move:
    """A file that takes its place, or goes where there is no other; `aside` keeps the old one."""

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
        """Put things back, from whatever state they are in."""
        if self.temporary is not None and not self.is_waiting():
            os.replace(self.path, self.temporary)
        if os.path.lexists(self.path):
            self.aside.unlink(missing_ok=True)
        elif os.path.lexists(self.aside):
            os.rename(self.aside, self.path)

    def left_behind(self, error: OSError) -> str:
        """Return what became of a file that could not be put back."""
        if os.path.lexists(self.aside):
            return (
                f"{self.path} could not be put back: {_reason(error)}. What was there is in "
                f"{self.aside}."
            )
        return f"{self.path} was written and could not be removed again: {_reason(error)}."


@contextmanager
def replacing(
    path: str | os.PathLike[str], *, force: bool = False, instead_of: Path | None = None
) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which takes its place when the block ends well.

    It is the one file of `Outputs`, whose parameters these are.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "labels.csv"
    >>> with replacing(path) as temporary:
    ...     _ = temporary.write_text("row,label")
    >>> path.read_text()
    'row,label'
    """
    with (
        Outputs(force=force) as outputs,
        outputs.writing(path, instead_of=instead_of) as temporary,
    ):
        yield temporary


def refuse_to_replace(path: Path, *, force: bool) -> None:
    """Raise where a file, or something that is no file, is in the way."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except OSError:  # nothing, or a link that leads to nothing
        kind = stat.S_IFREG
    if kind == stat.S_IFDIR:
        raise OutputError(f"{path} is a folder. Name a file in it.")
    if kind != stat.S_IFREG or os.path.realpath(path.parent) == "/dev":
        raise OutputError(f"{path} is a device or a pipe, which is never replaced. Name a file.")
    if not force and os.path.lexists(path):
        raise OutputError(f"{path} is there already. Name another file, or pass --force.")


def require_writable(path: Path, *, force: bool) -> None:
    """Raise, before long work begins, where a file could not be written at its end."""
    refuse_to_replace(path, force=force)
    with _naming(path):
        with suppress(FileNotFoundError):
            os.lstat(path)  # a name that is too long, or a file where a folder should be
        if not path.parent.exists():
            raise OutputError(
                f"{path} cannot be written: there is no folder {path.parent}. Make it, or name "
                "another."
            )
        _probe(path.parent)


def require_folder_writable(folder: Path) -> None:
    """Raise, before long work begins, where no file could be written to a folder at its end."""
    with Outputs() as outputs:
        outputs.make_folder(folder)  # it is removed again, as nothing is written to it
        with _naming(folder):
            _probe(folder)


def _probe(folder: Path) -> None:
    """Make a file in a folder, and remove it."""
    probe = _beside(folder / "name")
    try:
        _create(probe, None)
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
        raise OutputError(
            f"{path} cannot be written: {_reason(error)}. Nothing was changed."
        ) from error


def _reason(error: OSError) -> str:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"{reason[:1].lower()}{reason[1:]}"


def _beside(path: Path) -> Path:
    """Return a new name beside a path; it is short, as the path's own may be as long as allowed."""
    return path.with_name(f".apportion-{uuid.uuid4().hex}.tmp")


def _regular(path: Path) -> os.stat_result | None:
    """Return what is known of a file, or None where there is none."""
    try:
        return os.stat(path)
    except OSError:
        return None


def _create(path: Path, old: os.stat_result | None) -> None:
    """Make an empty file: only its owner may read it until it is like the one it replaces."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if old is None else 0o600))


def _make_alike(path: Path, old: os.stat_result) -> None:
    """Give a file the mode, and where possible the owner and group, of the one it replaces."""
    mode = stat.S_IMODE(old.st_mode) & 0o777
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(path, -1, old.st_gid)
        with suppress(OSError):
            os.chown(path, old.st_uid, -1)
        if os.stat(path).st_gid != old.st_gid:
            mode &= 0o707  # another group must not get what the old one was allowed
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
