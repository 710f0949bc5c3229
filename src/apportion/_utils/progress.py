"""Progress of long work: the job under way, which share of it is done, and what is done now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

Item = TypeVar("Item")


class ProgressCallback(Protocol):
    """A progress callback."""

    def __call__(self, stage: str, done: float | None, detail: str = "", /) -> None:
        """Take note of the stage, the share of it that is done if known, and details in words."""


PROPAGATING = "propagating"
"""The stage that takes most of the time of a fit."""

_listener: ContextVar[ProgressCallback | None] = ContextVar("listener", default=None)
_job: ContextVar[_Job | None] = ContextVar("job", default=None)


def report_progress(stage: str, done: float | None = None) -> None:
    """Report that work is in `stage`, and which share of it is done; None where it is not known.

    Within a job of several runs the job is reported in place of the stage: see `several_runs`.
    Where nobody listens, nothing happens.
    """
    listener = _listener.get()
    if listener is None:
        return
    detail, job = "", _job.get()
    while job is not None:
        stage, done, detail = job.around(stage, done, detail)
        job = job.outer
    listener(stage, done, detail)


def with_progress(stage: str, items: Sequence[Item]) -> Iterator[Item]:
    """Yield the items that a stage works on, and report after each which share of them is done."""
    for number, item in enumerate(items, start=1):
        yield item
        report_progress(stage, number / len(items))


@contextmanager
def progress_callback(listener: ProgressCallback) -> Iterator[None]:
    """Let `listener`, and no other, get every report of progress until the end of the block.

    It gets those of the thread that entered the block, and no others: it is called in that thread,
    and two fits side by side are not mixed up. What it raises goes through the work that reported.

    Examples
    --------
    >>> with progress_callback(lambda stage, done, detail: print(stage, done)):
    ...     for part in with_progress("counting", ["a", "b"]):
    ...         report_progress("reading " + part)
    reading a None
    counting 0.5
    reading b None
    counting 1.0
    """
    before, job_before = _listener.set(listener), _job.set(None)
    try:
        yield
    finally:
        _job.reset(job_before)
        _listener.reset(before)


@contextmanager
def several_runs(
    stage: str, run: str = "", expected: int = 1, *, at_most: bool = False
) -> Iterator[Callable[[], None]]:
    """Report several runs as one job whose share never falls; yields what begins a further run.

    The share is (runs done + share of this one) / runs expected, where the share of a run is that
    of its propagation, as other stages are short beside it. Jobs may be nested. A job of one run
    is reported as that run; where runs have no name, its propagation is called `stage`.

    Parameters
    ----------
    stage : str
        What the job is called; reported in place of the stages of its runs.
    run : str
        What one run is called.
    expected : int
        How many runs there will be.
    at_most : bool
        Whether there may be fewer.

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
    job = _Job(stage, run, expected, at_most, _job.get())
    before = _job.set(job)
    try:
        yield job.next_run
    finally:
        _job.reset(before)


class _Job:
    """A job of several runs, and how far it is."""

    def __init__(
        self, stage: str, run: str, expected: int, at_most: bool, outer: _Job | None
    ) -> None:
        self.outer = outer
        self._stage, self._run, self._expected = stage, run, expected
        self._of = f"of at most {expected}" if at_most else f"of {expected}"
        self._number = 0
        self._done = 0.0

    def next_run(self) -> None:
        """Begin the next run: those before are done."""
        self._number += 1
        self._advance(0.0)

    def around(self, stage: str, done: float | None, detail: str) -> tuple[str, float | None, str]:
        """Return what is reported of the job when a run reports this."""
        if self._expected == 1 and (self._run or stage != PROPAGATING):
            return stage, done, detail
        if stage == PROPAGATING and done is not None:
            self._advance(done)
        if self._expected == 1:
            return self._stage, self._done, detail
        inner = "" if stage == self._stage else stage
        number = f"{self._run} {self._number} {self._of}"
        return self._stage, self._done, ", ".join(filter(None, [number, inner, detail]))

    def _advance(self, share: float) -> None:
        done = (max(self._number, 1) - 1 + share) / self._expected
        self._done = min(max(done, self._done), 1.0)
