"""Results in a file of JSON lines: what `tables.py` and others keep, resume and run."""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from candidates import (
    BASELINES,
    Problem,
    every_method,
    lacking,
    measured,
    methods,
    settings,
    warm_up,
)

CACHE = Path(__file__).parents[1] / ".cache"
Row = dict[str, Any]
Draw = Callable[[str, Any, int, int], Problem]
Measure = Callable[[Any, str, int], Row]


class Task(NamedTuple):
    """One fit: a data set, how its bags are made, a seed, the row limit, a method."""

    data: str
    bags: Any
    seed: int
    rows: int
    method: str

    @property
    def key(self) -> tuple[Any, ...]:
        """Return what a stored result must agree in to count for this task."""
        return (*self, settings(self.method, self.seed))


class ResultFile:
    """Results, one JSON line per fit, written as soon as they are there.

    The last line of a key counts. A line that an interruption cut short is left out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self) -> dict[tuple[Any, ...], Row]:
        """Return the newest result of every key."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        found = (parsed(line) for line in lines)
        return {(*task_of(row), row["settings"]): row for row in found if row}

    def add(self, row: Row) -> None:
        """Keep one result."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")
            file.write(json.dumps(row).encode() + b"\n")


def parsed(line: str) -> Row | None:
    try:
        return json.loads(line)
    except ValueError:
        return None


def task_of(row: Row) -> Task:
    return Task(*(row[name] for name in Task._fields))


def add_options(parser: argparse.ArgumentParser, name: str, rows: int, seeds: int) -> None:
    """Add the options that these scripts have."""
    parser.add_argument("--seeds", type=int, default=seeds, help=f"how many (default {seeds})")
    text = f"at most this many rows of a data set (default {rows})"
    parser.add_argument("--rows", type=int, default=rows, help=text)
    parser.add_argument("--methods", nargs="+", help="only these, by name or a part of one")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--limit", type=float, default=900, help="seconds for one fit")
    parser.add_argument("--again", action="store_true", help="compute what is there anew")
    parser.add_argument("--summary", action="store_true", help="print what is there, fit nothing")
    parser.add_argument("--details", action="store_true", help="print more: every cell, or class")
    parser.add_argument("--results", type=Path, default=CACHE / name, help="the file of results")
    parser.add_argument("--save-picture", type=Path, help="draw the reliability diagram here")


def chosen_methods(parts: Sequence[str] | None) -> list[str]:
    """Return the methods with one of these names, or whose name has one of them as a part."""
    names = [*BASELINES, *methods()]
    for name, make in every_method().items():
        if name not in names:
            print(f"{name} is left out: {lacking(make)}")
    return named(parts, names)


def named(parts: Sequence[str] | None, names: Sequence[str]) -> list[str]:
    """Return the names that are asked for, whole or by a part; by default all."""
    chosen = set()
    for part in parts or names:
        found = [part] if part in names else [name for name in names if part in name]
        if not found:
            sys.exit(f"no name has {part!r} in it; there are {', '.join(names)}")
        chosen.update(found)
    return [name for name in names if name in chosen]


def run(
    tasks: Sequence[Task],
    draw: Draw,
    file: ResultFile,
    given: argparse.Namespace,
    measure: Measure = measured,
) -> None:
    """Fit what is not in the file yet, in processes, with progress; keep every result.

    Failures are kept with their error, and tried again in the next run; a fit that was stopped at
    the limit only if the limit is larger now.
    """
    stored = file.rows()
    pending = [task for task in tasks if given.again or is_open(stored.get(task.key), given.limit)]
    print(f"{len(tasks)} fits, {len(tasks) - len(pending)} of them done before")
    if not pending:
        return
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # read by the processes, which start anew
    seconds = [(row["method"], row["wall"]) for row in stored.values() if "accuracy" in row]
    progress = Progress(pending, given.jobs, seconds)
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(given.jobs, mp_context=spawn, initializer=prepare)
    try:
        futures = [pool.submit(work, draw, task, given.limit, measure) for task in pending]
        for future in as_completed(futures):
            row = future.result()
            file.add(row)
            progress.report(row)
    except KeyboardInterrupt:
        print(f"\nstopped; {progress.done} results are kept, run again to go on", file=sys.stderr)
    except BrokenProcessPool:
        sys.exit("\na process died, perhaps for lack of memory; run again with fewer --jobs")
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()


def is_open(row: Row | None, limit: float) -> bool:
    """Return whether a task still has to be done, given its stored result."""
    return row is None or ("error" in row and row.get("stopped_after", 0) < limit)


def prepare() -> None:
    """Leave Ctrl-C to the main process, which ends the others; load the libraries."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warm_up()


class Overtime(BaseException):
    """The time of a fit is over; no method may catch this as an error of its own."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise Overtime

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def work(draw: Draw, task: Task, limit: float, measure: Measure = measured) -> Row:
    """Return the result of one fit, or its error."""
    row: Row = {**task._asdict(), "settings": task.key[-1], "code": code()}
    problem = draw(*task[:-1])
    row |= {"n": len(problem.y), "n_bags": len(np.unique(problem.bags))}
    started = time.perf_counter()
    try:
        with time_limit(limit):
            row |= measure(problem, task.method, task.seed)
    except Overtime:
        row |= {"error": f"stopped after {limit:g} s", "stopped_after": limit}
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {error}"
    return {**row, "wall": time.perf_counter() - started}


@cache
def code() -> str:
    """Return a short hash of the library's sources."""
    import apportion

    files = sorted(Path(apportion.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:12]


class Progress:
    """Fits done and the time left, from the mean seconds of each method so far."""

    def __init__(
        self, pending: Sequence[Task], jobs: int, seconds: Sequence[tuple[str, float]]
    ) -> None:
        self.left = [task.method for task in pending]
        self.n_tasks, self.jobs, self.seconds = len(pending), jobs, list(seconds)
        self.printed = -np.inf

    @property
    def done(self) -> int:
        """Return how many fits are done."""
        return self.n_tasks - len(self.left)

    def report(self, row: Row) -> None:
        """Count one result; print a line, every ten seconds where nobody watches a terminal."""
        self.left.remove(row["method"])
        self.seconds.append((row["method"], row["wall"]))
        name = f"{row['data']}, {row['bags']}, seed {row['seed']}, {row['method']}"
        if "error" in row:
            print(f"\n{name}: {row['error']}", file=sys.stderr)
        now = time.monotonic()
        terminal = sys.stderr.isatty()
        if terminal or now - self.printed > 10 or not self.left:
            self.printed = now
            text = f"{self.done}/{self.n_tasks} fits, about {self.time_left()} left; {name}"
            begin, end = ("\r\033[K", "" if self.left else "\n") if terminal else ("", "\n")
            print(begin + text[:110], end=end, file=sys.stderr, flush=True)

    def time_left(self) -> str:
        """Return the time left, in words; a method not seen yet takes as long as all on average."""
        by_method: dict[str, list[float]] = {}
        for method, seconds in self.seconds:
            by_method.setdefault(method, []).append(seconds)
        overall = float(np.mean([seconds for _, seconds in self.seconds]))
        means = {method: float(np.mean(values)) for method, values in by_method.items()}
        left = sum(means.get(method, overall) for method in self.left) / self.jobs
        return f"{left:.0f} s" if left < 120 else f"{left / 60:.0f} min"


def current(
    file: ResultFile,
    given: argparse.Namespace,
    known: Sequence[str] | None = None,
    kind: type[Task] = Task,
) -> list[Row]:
    """Return the stored results with today's parameters; say how many others there are.

    Of a method that this version does not have, all are taken.
    """
    rows = [row for row in file.rows().values() if row["rows"] == given.rows]
    names = {*BASELINES, *methods()} if known is None else set(known)

    def is_current(row: Row) -> bool:
        return row["method"] not in names or kind(*task_of(row)).key[-1] == row["settings"]

    kept = [row for row in rows if row["seed"] < given.seeds and is_current(row)]
    codes = {row["code"] for row in kept}
    if len(codes) > 1:
        print(f"the results are of {len(codes)} versions of the code; --again computes them anew")
    outdated = sum(not is_current(row) for row in rows)
    if outdated:
        print(f"{outdated} results of other parameters are left out")
    return kept
