"""Ctrl-C and other signals that stop the command `apportion`; the library handles none.

This is the first module that `import apportion` loads, and it imports nothing slow. Therefore a
process that was started as the command ends quietly even if Ctrl-C arrives during the imports.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP


class Stopped(SystemExit):
    """A signal stopped the command; the exit code is 128 plus the number of the signal.

    It is a `SystemExit` because Python prints no traceback for that, and because Click, which
    exits with 1 after a `KeyboardInterrupt`, does not catch it.
    """


def end_at_once() -> None:
    """Let Ctrl-C end the process while there is nothing to clean up, during the imports."""
    _handle(("SIGINT",), _end)


def stop_cleanly() -> None:
    """Let signals raise `Stopped`, so that incomplete files are removed."""
    _handle(_NAMES, _stop)


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Let signals end the process within the block instead of raising `Stopped`.

    This is for imports, which may turn an exception into another one.
    """
    if signal.getsignal(signal.SIGINT) is not _stop:
        yield
        return
    _handle(_NAMES, _end)
    try:
        yield
    finally:
        stop_cleanly()


@contextmanager
def first_interrupt_keeps() -> Iterator[None]:
    """Let the first Ctrl-C in the block raise `KeyboardInterrupt`, and a second one `Stopped`.

    What of the work is complete may then be kept; an interrupt that nobody handles stops the
    command. Without `stop_cleanly`, nothing changes.
    """
    if signal.getsignal(signal.SIGINT) is not _stop:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        _stop(signal.SIGINT, None)
    finally:
        if signal.getsignal(signal.SIGINT) is _interrupt:
            signal.signal(signal.SIGINT, _stop)


def print_stopped(code: object) -> None:
    """Print to stderr why the command stops; a closed stderr is ignored."""
    why = "interrupted" if code == 128 + signal.SIGINT else "told to stop"
    with suppress(OSError):
        os.write(2, f"apportion: {why}; no file is left half written.\n".encode())


def leave(code: object) -> NoReturn:
    """End the process as Python does, but without taking the interpreter apart.

    Threads of other libraries, which a signal found at work, may still use it: they would crash.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
    finally:
        os._exit(code if isinstance(code, int) else 1)


def _handle(names: tuple[str, ...], handler: signal._HANDLER) -> None:
    for name in names:
        number = getattr(signal, name, None)
        # A signal that was ignored from the start, by nohup or in the background, stays ignored.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    print_stopped(128 + number)
    os._exit(128 + number)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, _stop)
    raise KeyboardInterrupt


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not disturb the cleanup
    raise Stopped(128 + number)


def _is_command() -> bool:
    """Return whether this process was started as `apportion` or `python -m apportion`."""
    words = getattr(sys, "argv", [])
    if not 0 < len(words) < len(sys.orig_argv):
        return False
    started = sys.orig_argv[-len(words)]
    name = os.path.splitext(os.path.basename(started))[0]
    return name == "apportion" and words[0] in ("-m", started)


if _is_command():
    end_at_once()
