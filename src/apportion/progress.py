"""What long work tells whoever listens: the stage it is in, and how much of it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")
Listener = Callable[[str, float | None], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def tell(stage: str, done: float | None = None) -> None:
    """Say that work is in `stage`, and which share of it is done; None where that is not known.

    Within a stage the share does not fall, unless the stage begins again: another start of a loop,
    another graph of a grid. Where nobody listens, nothing happens.
    """
    listener = _listener.get()
    if listener is not None:
        listener(stage, done)


def told(stage: str, items: Sequence[Item]) -> Iterator[Item]:
    """Yield the items that a stage works on, and tell after each which share of them is done."""
    for number, item in enumerate(items, start=1):
        yield item
        tell(stage, number / len(items))


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Let `listener` hear every `tell`, and no other listener, until the end of the block.

    It hears the thread that entered the block, and no other: it is called in that thread, and two
    fits side by side are not mixed up. What it raises goes through the work that told.

    Examples
    --------
    >>> with listening(lambda stage, done: print(stage, done)):
    ...     for part in told("counting", ["a", "b"]):
    ...         tell("reading " + part)
    reading a None
    counting 0.5
    reading b None
    counting 1.0
    """
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)
