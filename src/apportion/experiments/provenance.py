"""Where a result comes from: a short name of the code and of the data that made it."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from apportion.datasets.sphere import find_recordings

_PRESENTATION = (
    *("cli.py", "__main__.py"),
    *(f"{name}.py" for name in ("figures", "printed", "reproduce", "summary", "tables")),
    *("runner.py", "store.py", "provenance.py"),
)
"""Files that decide how results are run, kept and shown, not what they are."""


@lru_cache(maxsize=256)
def code_name(function: Callable[..., Any]) -> str:
    """Return a short hash of the library's sources and of a method's own function."""
    try:
        own = inspect.getsource(function)
    except (OSError, TypeError):
        own = repr(function)
    return _short(_library() + own.encode())


@lru_cache(maxsize=1)
def _library() -> bytes:
    package = Path(__file__).parents[1]
    files = sorted(path for path in package.rglob("*.py") if path.name not in _PRESENTATION)
    return b"\0".join(path.read_bytes() for path in files)


@lru_cache(maxsize=8)
def sphere_name(path: str) -> str:
    """Return a short hash of the names and sizes of the files of a SPHERE folder."""
    files = [
        f"{folder.name}/{file.name} {file.stat().st_size}"
        for folder in find_recordings(path)
        for file in sorted(folder.glob("*.csv"))
    ]
    return _short("\n".join(files).encode())


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
