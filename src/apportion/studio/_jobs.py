"""The long work of the studio: one job at a time, in a thread, with progress and a cancel."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from apportion._utils.progress import progress_callback, time_left

Kind = Literal["full", "quick"]


class Cancelled(BaseException):
    """The job was cancelled.

    It is no `Exception`, because methods that are weighed are left out if they raise one.
    """


class Job:
    """A piece of work in a thread of its own.

    The thread is a daemon: Ctrl-C stops the server at once, also while a job runs.

    Parameters
    ----------
    number : int
        The id of the job.
    kind : {"full", "quick"}
        What it does.
    work : callable
        The work. It is called with the job. Before it keeps anything it calls `require_running`,
        and `finish` after that, while nobody can cancel.
    describe : callable
        Returns what an exception says to the user of the page.
    after : Job, optional
        A job that was cancelled, whose thread must have ended before the work begins.
    """

    def __init__(
        self,
        number: int,
        kind: Kind,
        work: Callable[[Job], None],
        describe: Callable[[BaseException], str],
        after: Job | None = None,
    ) -> None:
        self.number, self.kind = number, kind
        self.state: Literal["running", "done", "failed", "cancelled"] = "running"
        self.problem: str | None = None
        self._work, self._describe, self._after = work, describe, after
        self._stage, self._detail = "starting", ""
        self._done: float | None = None
        self._begun = self._stage_begun = time.monotonic()
        self._seconds: float | None = None
        self._over = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"studio-{kind}", daemon=True)

    def start(self) -> None:
        """Begin the work."""
        self._thread.start()

    def cancel(self) -> None:
        """Let the job count as cancelled; its thread ends when it next reports progress."""
        self._end("cancelled")

    def finish(self) -> None:
        """Let the job count as done; what it found was kept."""
        self._end("done")

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the thread has ended."""
        self._thread.join(seconds)

    @property
    def seconds(self) -> float:
        """How long the job has taken."""
        return time.monotonic() - self._begun if self._seconds is None else self._seconds

    def require_running(self) -> None:
        """Raise if the job was cancelled."""
        if self.state != "running":
            raise Cancelled

    def report(self, stage: str, done: float | None, detail: str = "") -> None:
        """Note progress; this is the callback of the work."""
        self.require_running()
        if stage != self._stage:
            self._stage_begun = time.monotonic()
        self._stage, self._done, self._detail = stage, done, detail

    def to_json(self) -> dict[str, Any]:
        """Return the job as the page shows it."""
        done = 1.0 if self.state == "done" else self._done
        left = None
        if self.state == "running" and done is not None:
            left = time_left(time.monotonic() - self._stage_begun, done)
        return {
            "id": self.number,
            "kind": self.kind,
            "state": self.state,
            "stage": self._stage,
            "detail": self._detail,
            "done": done,
            "seconds": round(self.seconds, 1),
            "left": None if left is None else round(left, 1),
            "problem": self.problem,
        }

    def _run(self) -> None:
        try:
            if self._after is not None:
                self.report("waiting for the cancelled run to stop", None)
                self._after.wait()
                self._after = None
            with progress_callback(self.report):
                self._work(self)
            self._end("done")
        except Cancelled:
            self._end("cancelled")
        except BaseException as error:
            self._end("failed", self._describe(error))

    def _end(
        self, state: Literal["done", "failed", "cancelled"], problem: str | None = None
    ) -> None:
        """Let the job be over, unless it is already."""
        with self._over:
            if self.state == "running":
                self._seconds, self.problem, self.state = self.seconds, problem, state
