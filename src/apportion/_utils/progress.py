"""Progress of long work: the current stage, and the share of it that is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

Item = TypeVar("Item")


class ProgressCallback(Protocol):
    """A function that is called with every report of progress."""

    def __call__(self, stage: str, done: float | None, detail: str = "", /) -> None:
        """Receive the stage, the share of it that is done if known, and details in words."""


PROPAGATING = "propagating"
"""The stage that takes most of the time of a fit."""

WEIGHING = "weighing methods"
"""The stage that takes most of the time of a fit of several methods."""

_LONG = (PROPAGATING, WEIGHING)
"""The stages whose share is the share of the run that they belong to."""

_callback: ContextVar[ProgressCallback | None] = ContextVar("callback", default=None)
_job: ContextVar[_Job | None] = ContextVar("job", default=None)
_kept: ContextVar[list[str] | None] = ContextVar("kept", default=None)


def report_progress(stage: str, done: float | None = None) -> None:
    """Report the current stage, and the share of it that is done; None = not known.

    Within a job of several runs the job is reported instead of the stage; see `several_runs`.
    Without a callback, nothing happens.
    """
    callback = _callback.get()
    if callback is None:
        return
    detail, job = "", _job.get()
    while job is not None:
        stage, done, detail = job.around(stage, done, detail)
        job = job.outer
    callback(stage, done, detail)


INTERRUPTED = "Interrupted: "
"""How warnings begin that say what an answer is without."""


@contextmanager
def keeping_answers() -> Iterator[None]:
    """Let the first interrupt (Ctrl-C) in the block keep what is complete, and a second one end it.

    A block within a block is part of it.
    """
    if _kept.get() is not None:
        yield
        return
    before = _kept.set([])
    try:
        yield
    finally:
        _kept.reset(before)


def note_answer() -> None:
    """Note that from now on an answer is at hand, if the work is interrupted."""
    said = _kept.get()
    if said is not None and not said:
        said.append("")


def answer_at_hand() -> bool:
    """Return whether an interrupt would keep an answer; no second one does."""
    return _kept.get() == [""]


def keep_answer(without: str) -> bool:
    """Note what the answer is without, and return True, if this is the first interrupt."""
    said = _kept.get()
    if said is None or any(said):
        return False
    said.append(without)
    return True


def interrupted() -> str:
    """Return what the answer is without after an interrupt; empty if there was none."""
    return " ".join(filter(None, _kept.get() or ()))


def duration(seconds: float) -> str:
    """Return a time in words.

    Examples
    --------
    >>> duration(0.2), duration(180), duration(9000)
    ('1 s', '3 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def time_left(seconds: float, done: float) -> float | None:
    """Return how many seconds the rest will take at the same speed; None if that is not known.

    Parameters
    ----------
    seconds : float
        How long it took so far.
    done : float
        The share that is done.

    Examples
    --------
    >>> time_left(60.0, 0.25)
    180.0
    """
    return seconds * (1.0 - done) / done if 0.0 < done < 1.0 else None


def with_progress(stage: str, items: Sequence[Item]) -> Iterator[Item]:
    """Yield the items of a stage, and report after each of them the share that is done."""
    for number, item in enumerate(items, start=1):
        yield item
        report_progress(stage, number / len(items))


@contextmanager
def progress_callback(callback: ProgressCallback) -> Iterator[None]:
    """Send every report of progress to `callback`, and to no other, until the end of the block.

    Only reports of the thread that entered the block are sent, so that two fits in two threads do
    not mix. The callback is called in that thread; an exception that it raises ends the work.

    Parameters
    ----------
    callback : callable
        Called with the stage, the share of it that is done or None, and details in words.

    Examples
    --------
    >>> with progress_callback(lambda stage, done, detail: print(stage, done)):
    ...     for name in with_progress("counting", ["a", "b"]):
    ...         report_progress("reading " + name)
    reading a None
    counting 0.5
    reading b None
    counting 1.0
    """
    callback_before, job_before = _callback.set(callback), _job.set(None)
    try:
        yield
    finally:
        _job.reset(job_before)
        _callback.reset(callback_before)


@contextmanager
def several_runs(
    stage: str,
    run: str = "",
    expected: int = 1,
    *,
    at_most: bool = False,
    costs: Sequence[float] | None = None,
) -> Iterator[Callable[..., None]]:
    """Report several runs as one job whose share never falls; yield a function that starts a run.

    The share is (finished runs + share of the current one) / expected runs, each counted with its
    cost. The share of a run is that of its propagation, or of its weighing of methods, because its
    other stages are short. Jobs may be nested. A job of one run is reported as that run; if runs
    have no name, its propagation is called `stage`. The function takes the number of the run, by
    default the next; with the number after the last, all are finished.

    Parameters
    ----------
    stage : str
        The name of the job; it is reported instead of the stages of its runs.
    run : str
        The name of one run.
    expected : int
        The number of runs.
    at_most : bool
        Whether there may be fewer runs.
    costs : sequence of float, optional
        How long each run takes, relative to others; they may change while runs are measured.

    Examples
    --------
    >>> with progress_callback(lambda stage, done, detail: print(f"{stage}, {detail}: {done:.0%}")):
    ...     with several_runs("labeling", "participant", 2) as next_run:
    ...         for _ in range(2):
    ...             next_run()
    ...             report_progress("propagating", 0.5)
    labeling, participant 1 of 2, propagating: 25%
    labeling, participant 2 of 2, propagating: 75%
    """
    job = _Job(stage, run, [1.0] * expected if costs is None else costs, at_most, _job.get())
    before = _job.set(job)
    try:
        yield job.next_run
    finally:
        _job.reset(before)


class _Job:
    """A job of several runs, and the share of it that is done."""

    def __init__(
        self,
        stage: str,
        run: str,
        costs: Sequence[float],
        at_most: bool,
        outer: _Job | None,
    ) -> None:
        self.outer = outer
        self._stage, self._run, self._costs, self._expected = stage, run, costs, len(costs)
        self._of = f"of at most {len(costs)}" if at_most else f"of {len(costs)}"
        self._number = 0
        self._done = 0.0

    def next_run(self, number: int | None = None) -> None:
        """Start a run, by default the next; the runs before it are finished."""
        self._number = min(self._number + 1, self._expected) if number is None else number
        self._advance(0.0)

    def around(self, stage: str, done: float | None, detail: str) -> tuple[str, float | None, str]:
        """Return what the job reports when one of its runs reports this."""
        if self._expected == 1 and (self._run or stage != PROPAGATING):
            return stage, done, detail
        if stage in _LONG and done is not None:
            self._advance(done)
        if self._expected == 1:
            return self._stage, self._done, detail
        inner = "" if stage == self._stage else stage
        number = f"{self._run} {min(self._number, self._expected)} {self._of}"
        return self._stage, self._done, ", ".join(filter(None, [number, inner, detail]))

    def _advance(self, share: float) -> None:
        number = max(self._number, 1)
        costs = self._costs
        spent = sum(costs[: number - 1]) + share * sum(costs[number - 1 : number])
        done = spent / (sum(costs) or 1.0) if number <= self._expected else 1.0
        self._done = min(max(done, self._done), 1.0)
