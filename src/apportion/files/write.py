"""Files that are whole or not there: written under another name, then renamed."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from apportion.exceptions import OutputError


@contextmanager
def replacing(path: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which takes its place when the block ends well.

    When the block does not end well, also by Ctrl-C, the temporary file is removed and `path` is
    as it was.

    Parameters
    ----------
    path : str or path
        The file to write.
    force : bool, default=False
        Whether a file that is there already may be replaced.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "labels.csv"
    >>> with replacing(path) as temporary:
    ...     _ = temporary.write_text("row,label")
    >>> path.read_text()
    'row,label'
    """
    target = Path(path)
    refuse_to_replace(target, force=force)
    temporary = target.with_name(f".{target.name[:100]}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        refuse_to_replace(target, force=force)
        os.replace(temporary, target)
    except OSError as error:
        raise _cannot_write(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def refuse_to_replace(path: Path, *, force: bool) -> None:
    """Raise where a file, or something that is no file, is in the way."""
    if path.is_dir():
        raise OutputError(f"{path} is a folder. Name a file in it.")
    if not force and os.path.lexists(path):
        raise OutputError(f"{path} is there already. Name another file, or pass --force.")


def require_writable(path: Path, *, force: bool) -> None:
    """Raise, before long work begins, where a file could not be written at its end."""
    refuse_to_replace(path, force=force)
    if not path.parent.exists():
        raise OutputError(
            f"{path} cannot be written: there is no folder {path.parent}. Make it, or name another."
        )
    probe = path.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        probe.touch(exist_ok=False)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


def _cannot_write(path: Path, error: OSError) -> OutputError:
    if isinstance(error, OutputError):
        return error
    reason = os.strerror(error.errno) if error.errno else str(error)
    return OutputError(
        f"{path} cannot be written: {reason[:1].lower()}{reason[1:]}. Nothing was changed."
    )
