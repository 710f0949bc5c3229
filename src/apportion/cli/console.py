"""The console: messages on stderr, progress, and exit codes."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from shlex import quote
from typing import Any, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from apportion._io.atomic_write import UNCHANGED
from apportion._utils.progress import (
    ProgressCallback,
    answer_at_hand,
    duration,
    interrupted,
    progress_callback,
    time_left,
)
from apportion.exceptions import Advice, InputError, Names, OutputError, SettingsError, rendered

BAD_INPUT, BAD_COMMAND, BAD_OUTPUT, NO_MEMORY, NO_REPORT, CUT_SHORT = 1, 2, 3, 4, 5, 6
OUR_FAULT, INTERRUPTED = 70, 130
"""Exit codes beside 0, done."""

console = Console(stderr=True, highlight=False, markup=False, emoji=False)
console.soft_wrap = not console.is_terminal

Command = TypeVar("Command", bound=Callable[..., Any])


class CommandLineError(Exception):
    """Options that do not go together, or an option's value that is not allowed."""


def with_exit_codes(command: Command) -> Command:
    """Return a command whose failures are one paragraph on stderr and a documented exit code."""

    @wraps(command)
    def guarded_command(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            _end("interrupted; no file is left half written", INTERRUPTED)
        except Exception as error:
            message, code = _said_of(error)
            lists = f" 'apportion {command.__name__} -h' lists the options."
            _end(f"{message}{lists}" if code == BAD_COMMAND else message, code)

    return guarded_command  # type: ignore[return-value]


@contextmanager
def keeping_labels(report: Path) -> Iterator[None]:
    """End with a code of its own if a report of labels that are written already fails."""
    try:
        yield
    except Exception as error:
        message = _said_of(error)[0].removesuffix(UNCHANGED)  # but the labels were
        _end(f"the labels are written, but not the report {report}: {message}", NO_REPORT)


def _said_of(error: Exception) -> tuple[str, int]:
    """Return what is said of an error, and its exit code; raise a fault if we debug."""
    if isinstance(error, CommandLineError):
        return str(error), BAD_COMMAND
    if isinstance(error, SettingsError):
        # What a file of settings holds is an input; the rest was typed.
        return error.rendered(OPTIONS), BAD_COMMAND if error.place is None else BAD_INPUT
    if isinstance(error, OutputError):
        return in_options(error.args[0] if error.args else ""), BAD_OUTPUT
    if isinstance(error, MemoryError):
        # The arguments of NumPy's own error are the shape of an array: its words are its text.
        advice = error.args[0] if error.args and isinstance(error.args[0], Advice) else error
        return in_options(advice) or "not enough memory", NO_MEMORY
    if isinstance(error, OSError):
        name = f"{error.filename} cannot be used: " if error.filename else ""
        return f"{name}{_reason(error)}", BAD_INPUT
    if isinstance(error, InputError):
        return error.rendered(OPTIONS), BAD_INPUT
    if isinstance(error, ValueError | ModuleNotFoundError):
        return in_options(error.args[0] if error.args else ""), BAD_INPUT
    if os.environ.get("APPORTION_DEBUG"):
        raise error
    return (
        f"a fault of this program: {type(error).__name__}: {error}. Please report it; "
        "APPORTION_DEBUG=1 shows where it happened",
        OUR_FAULT,
    )


def _end(message: str, code: int) -> NoReturn:
    text = printable(" ".join(message.split()))
    console.print(f"apportion: {text}{'' if text.endswith(('.', '?')) else '.'}")
    raise typer.Exit(code)


def _reason(error: OSError) -> str:
    """Return why the operating system refused something, as part of a sentence."""
    reason = error.strerror or str(error)
    return f"{reason[:1].lower()}{reason[1:]}"


@contextmanager
def on_stdout() -> Iterator[None]:
    """Write to stdout, and flush it at the end of the block.

    It is no failure if the reader closes the pipe; a full disk is one.
    """
    if sys.stdout is None:
        raise OutputError("stdout is closed. Name a file with --output.")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered, and what else is written, goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise OutputError(f"stdout cannot be written: {_reason(error)}.") from error


def print_out(text: str) -> None:
    """Print data on stdout; messages about them go to stderr."""
    with on_stdout():
        print(text)


def print_notes(notes: Iterable[str], quiet: bool, title: str = "") -> None:
    """Print notes on stderr, one per line, with the options in place of parameters."""
    lines = [] if quiet else [printable(in_options(note)) for note in notes]
    if title and lines:
        console.print(title)
    for line in lines:
        console.print(f"  {line}" if title else line)


@contextmanager
def print_log(quiet: bool) -> Iterator[None]:
    """Print what the library logs until the end of the block."""

    class NoteHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            print_notes([record.getMessage()], quiet)

    log, handler = logging.getLogger("apportion"), NoteHandler()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def printable(text: str) -> str:
    r"""Return text with its control characters escaped, so that the terminal does not obey them.

    Examples
    --------
    >>> print(printable("tv\x1b[31m"))
    tv\x1b[31m
    """
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


class _Options(Names):
    """The options of the command line."""

    def __missing__(self, parameter: str) -> str:
        return f"--{parameter.replace('_', '-')}"

    def with_value(self, parameter: str, value: str) -> str:
        """Return an option with a value, as a shell takes it."""
        return f"{self[parameter]} {quote(value)}"

    def quoted(self, parameter: str) -> str:
        """Return an option as it stands at the head of a message."""
        return self[parameter]


OPTIONS = _Options(
    n_probes="--probes",
    n_neighbors="--neighbors",
    n_nearest="--nearest",
    n_anchors="--anchors",
    labels="some labels (--given)",
    meet_totals="Look for rows that are far from all others, and leave them out",
    exact_search="Scale the features alike (--scale).",
    shorter_walk="Lower --alpha.",
    fewer_steps="Lower --alpha, or use --graph anchor, which takes no steps.",
    mean_map="Scale the features alike (--scale), or take another --prior.",
)
"""The options of parameters, if they are not `--` and the name of the parameter."""


def in_options(note: object) -> str:
    """Return a text of the library with options in place of parameters."""
    return rendered(note, OPTIONS)


@contextmanager
def stages(quiet: bool = False) -> Iterator[None]:
    """Show the progress of long work: bars on a terminal, else lines."""
    if quiet:
        yield
    elif console.is_terminal:
        with _bars() as bars, progress_callback(_about_ctrl_c(_Bars(bars))):
            yield
    else:
        lines = _Lines()
        with lines.kept_up(), progress_callback(_about_ctrl_c(lines)):
            yield


_LONG = 30.0
"""Seconds after which it is said that Ctrl-C keeps an answer, once there is one."""


def _about_ctrl_c(show: ProgressCallback, clock: Callable[[], float] = time.monotonic) -> Any:
    """Return a callback that also says, once, that Ctrl-C keeps an answer, and that it did."""
    begun, to_say = clock(), ["hint", "heeded"]

    def report(stage: str, done: float | None, detail: str = "") -> None:
        if "hint" in to_say and answer_at_hand() and clock() - begun >= _LONG:
            to_say.remove("hint")
            console.print("Ctrl-C: stop here and keep the answer so far")
        if "heeded" in to_say and interrupted():
            to_say.remove("heeded")
            said = "interrupted: the answer so far is completed; Ctrl-C again stops without it"
            console.print(said)
        show(stage, done, detail)

    return report


def _bars() -> Progress:
    return Progress(
        TextColumn("{task.description:<22}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
        speed_estimate_period=3600.0,
    )


class _Bars:
    """Show a bar for the stage that is running."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._stage: str | None = None
        self._task: Any = None

    def __call__(self, stage: str, done: float | None, detail: str = "") -> None:
        """Show progress."""
        words = _joined(stage, detail)
        if stage != self._stage:
            if self._task is not None:
                self._bars.remove_task(self._task)
            self._stage, self._task = stage, self._bars.add_task(words, total=None)
        self._bars.update(self._task, description=words)
        if done is not None:
            self._bars.update(self._task, total=1.0, completed=done)


_AT_LEAST_EVERY = 30.0
"""Seconds after which a further line is printed, whether or not there was progress."""


class _Lines:
    """Print a line for each stage that begins a second or more after the first, and every 30 s.

    The lines every 30 s come from a thread of their own, because a stage may report nothing for
    long.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = self._stage_begun = self._printed = clock()
        self._now: tuple[str, float | None, str] = ("working", None, "")
        self._over = threading.Event()

    def __call__(self, stage: str, done: float | None, detail: str = "") -> None:
        """Show progress."""
        before, self._now = self._now[0], (stage, done, detail)
        if stage == before:
            return
        self._stage_begun = self._clock()
        if self._stage_begun - self._begun >= 1.0:
            self._print(_joined(stage, detail))

    @contextmanager
    def kept_up(self) -> Iterator[None]:
        """Print the running stage every 30 s, until the end of the block."""
        thread = threading.Thread(target=self._keep_up, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _keep_up(self) -> None:
        while not self._over.wait(max(self._printed + _AT_LEAST_EVERY - self._clock(), 0.0)):
            if self._clock() - self._printed >= _AT_LEAST_EVERY:
                self._print(self.state())

    def state(self) -> str:
        """Return the running stage, and how much of it is done, in words."""
        stage, done, detail = self._now
        words = _joined(stage, detail)
        if done is None:
            return words
        return f"{words}: {done:.0%}{_time_left(self._clock() - self._stage_begun, done)}"

    def _print(self, words: str) -> None:
        self._printed = self._clock()
        console.print(f"{self._printed - self._begun:7.1f} s  {printable(words)}")


def _joined(stage: str, detail: str) -> str:
    return f"{stage}, {detail}" if detail else stage


def _time_left(seconds: float, done: float) -> str:
    """Return how long the rest will take at the same speed, in words; empty if unknown.

    Examples
    --------
    >>> _time_left(60.0, 0.25)
    ', about 3 min left'
    """
    left = time_left(seconds, done)
    return "" if left is None else f", about {duration(left)} left"
