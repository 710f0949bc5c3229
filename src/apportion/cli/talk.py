"""What the command line says on stderr, and how it ends."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from apportion.exceptions import OutputError
from apportion.progress import listening

BAD_INPUT, BAD_COMMAND, BAD_OUTPUT, NO_MEMORY, OUR_FAULT, INTERRUPTED = 1, 2, 3, 4, 70, 130
"""Exit codes beside 0, done."""

talk = Console(stderr=True, highlight=False, markup=False, emoji=False)
talk.soft_wrap = not talk.is_terminal

Command = TypeVar("Command", bound=Callable[..., Any])


class CommandLineError(Exception):
    """Options that do not go together, or an option's value that is not allowed."""


def with_exit_codes(command: Command) -> Command:
    """Return a command whose failures are one paragraph on stderr and a documented exit code."""

    @wraps(command)
    def careful(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            _end("interrupted; no file is left half written", INTERRUPTED)
        except CommandLineError as error:
            words = f"{error} 'apportion {command.__name__} -h' lists the options."
            _end(words, BAD_COMMAND)
        except OutputError as error:
            _end(str(error), BAD_OUTPUT)
        except MemoryError as error:
            _end(str(error) or "not enough memory", NO_MEMORY)
        except OSError as error:
            _end(_in_words(error), BAD_INPUT)
        except (ValueError, ModuleNotFoundError) as error:
            _end(str(error), BAD_INPUT)
        except Exception as error:
            if os.environ.get("APPORTION_DEBUG"):
                raise
            _end(
                f"a fault of this program: {type(error).__name__}: {error}. Please report it; "
                "APPORTION_DEBUG=1 shows where it happened",
                OUR_FAULT,
            )

    return careful  # type: ignore[return-value]


def _end(message: str, code: int) -> NoReturn:
    text = printable(" ".join(message.split()))
    talk.print(f"apportion: {text}{'' if text.endswith(('.', '?')) else '.'}")
    raise typer.Exit(code)


def _in_words(error: OSError) -> str:
    reason = error.strerror or str(error)
    if not error.filename:
        return reason
    return f"{error.filename} cannot be used: {reason[:1].lower()}{reason[1:]}"


@contextmanager
def on_stdout() -> Iterator[None]:
    """Write to stdout, to the end. A reader who has had enough is no failure, a full disk is."""
    if sys.stdout is None:
        raise OutputError("stdout is closed. Name a file with --output.")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered, and what else is written, goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"stdout cannot be written: {reason[:1].lower()}{reason[1:]}.") from error


def print_out(text: str) -> None:
    """Print data, as opposed to what is said about them."""
    with on_stdout():
        print(text)


def say(notes: Iterable[str], quiet: bool, title: str = "") -> None:
    """Say what was found, one thing a line."""
    lines = [] if quiet else list(notes)
    if title and lines:
        talk.print(title)
    for line in lines:
        talk.print(f"  {printable(line)}" if title else printable(line))


@contextmanager
def log_said(quiet: bool) -> Iterator[None]:
    """Say what the library logs."""

    class Saying(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            say([record.getMessage()], quiet)

    log, handler = logging.getLogger("apportion"), Saying()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def printable(text: str) -> str:
    r"""Return text with its control characters spelt out: they would command the terminal.

    Examples
    --------
    >>> print(printable("tv\x1b[31m"))
    tv\x1b[31m
    """
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


@contextmanager
def stages(quiet: bool = False) -> Iterator[None]:
    """Show the stages of long work: bars on a terminal, else a line for each."""
    if quiet:
        yield
    elif talk.is_terminal:
        with _bars() as bars, listening(_Bars(bars)):
            yield
    else:
        with listening(_Lines()):
            yield


def _bars() -> Progress:
    return Progress(
        TextColumn("{task.description:<22}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=talk,
        transient=True,
    )


class _Bars:
    """A bar for the stage that is under way."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._stage: str | None = None
        self._task: Any = None

    def __call__(self, stage: str, done: float | None) -> None:
        """Hear of progress."""
        if stage != self._stage:
            if self._task is not None:
                self._bars.remove_task(self._task)
            self._stage, self._task = stage, self._bars.add_task(stage, total=None)
        if done is not None:
            self._bars.update(self._task, total=1.0, completed=done)


class _Lines:
    """A line for every stage that begins later than a second after the first."""

    def __init__(self) -> None:
        self._stage: str | None = None
        self._since = time.monotonic()

    def __call__(self, stage: str, done: float | None) -> None:
        """Hear of progress."""
        seconds = time.monotonic() - self._since
        if stage != self._stage and seconds >= 1.0:
            talk.print(f"{seconds:7.1f} s  {stage}")
        self._stage = stage
