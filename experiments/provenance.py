"""Where a result comes from: a short name of the code and of the data that made it."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import apportion
from apportion.datasets.sphere import find_recordings

_RESULT_FILES = ("sections.py", "sphere_recipes.py", "trials.py")
"""Files of this package that decide what a result is. The others run, keep and show results, and
each method counts for its own results alone."""


@lru_cache(maxsize=256)
def code_name(function: Callable[..., Any]) -> str:
    """Return a short hash of the library's sources and of a method's own function."""
    return _short(_library() + _source(function).encode())


def _source(thing: Any) -> str:
    """Return the source of a function, with what is bound to it; its type's where it has none."""
    if isinstance(thing, partial):
        bound = [_source(value) if callable(value) else repr(value) for value in thing.args]
        return "\n".join([_source(thing.func), *bound, repr(sorted(thing.keywords.items()))])
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        return f"{type(thing).__module__}.{type(thing).__qualname__}"


@lru_cache(maxsize=1)
def _library() -> bytes:
    library = sorted(Path(apportion.__file__).parent.rglob("*.py"))
    here = [Path(__file__).with_name(name) for name in _RESULT_FILES]
    return b"\0".join(path.read_bytes() for path in [*library, *here])


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
