"""Run trials side by side, continuing where an earlier run stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import numpy as np
from joblib import Parallel, cpu_count, delayed, parallel_config
from threadpoolctl import threadpool_limits

from apportion.datasets import make_bags, make_xor
from apportion.estimators import LPLLP
from experiments.methods import METHODS
from experiments.provenance import code_name
from experiments.sections import DESIGNS
from experiments.store import ResultStore
from experiments.trials import Method, Problem, Trial, result_row, run_trial, trial_of

_ALL_ROWS = 16_000
_NOMINAL_FITS = 1.3
"""Seconds of the three fits that `forecast` makes, on the machine our figures come from."""

Pose = Callable[[Trial], Problem]


def run(
    trials: Iterable[Trial],
    pose: Pose,
    store: ResultStore,
    *,
    methods: Mapping[str, Method] = METHODS,
    n_jobs: int | None = None,
    retry_failed: bool = False,
) -> Iterator[dict[str, Any]]:
    """Run the trials that have no result yet, and yield their rows as they are kept.

    Parameters
    ----------
    trials : iterable of Trial
        What to run. Those with a result in `store`, by the same code on the same data, are left
        out.
    pose : callable
        From a trial to its problem. Where it has a `data` attribute, a function from a section to
        a name of the data, results on other data do not count.
    store : ResultStore
        Where rows are kept, each before the next one is waited for.
    methods : mapping from str to Method, optional
        The methods by their keys.
    n_jobs : int, optional
        How many trials run side by side; by default one for each processor.
    retry_failed : bool, default=False
        Run trials that failed before once more.

    Notes
    -----
    A trial whose process dies, for example for lack of memory, is a failure like any other. The
    trials that were running are run once more, each alone, to find out which it was.
    """
    waiting = remaining(trials, pose, store, methods=methods, retry_failed=retry_failed)
    origin = {trial: _origin(trial, pose, methods) for trial in waiting}
    jobs = n_processes(n_jobs)
    while waiting:
        finished: set[Trial] = set()
        try:
            for row in _side_by_side(waiting, pose, methods, jobs):
                finished.add(trial_of(row))
                yield _kept(row, origin, store)
        except BrokenProcessPool:
            suspects = [trial for trial in waiting if trial not in finished][: 4 * jobs]
            for trial in suspects:
                finished.add(trial)
                yield _kept(_alone(trial, pose, methods), origin, store)
        waiting = [trial for trial in waiting if trial not in finished]
    store.gather()


def remaining(
    trials: Iterable[Trial],
    pose: Pose,
    store: ResultStore,
    *,
    methods: Mapping[str, Method] = METHODS,
    retry_failed: bool = False,
) -> list[Trial]:
    """Return the trials without a result, in an order that mixes short and long ones."""
    done = {
        (trial_of(row), row["code"], row["data"])
        for row in store.rows()
        if row["status"] == "done" or not retry_failed
    }
    waiting = [
        trial
        for trial in dict.fromkeys(trials)
        if (trial, *_origin(trial, pose, methods)) not in done
    ]
    return [waiting[i] for i in np.random.default_rng(0).permutation(len(waiting))]


def current(
    rows: Iterable[Mapping[str, Any]], methods: Mapping[str, Method] = METHODS
) -> list[Mapping[str, Any]]:
    """Return the rows that the present code made, of each section those on the newest data."""
    codes = {key: code_name(method.label) for key, method in methods.items()}
    made = [row for row in rows if row["method"] in codes and row["code"] == codes[row["method"]]]
    newest: dict[str, Mapping[str, Any]] = {}
    for row in made:
        if row["finished"] > newest.get(row["section"], {"finished": ""})["finished"]:
            newest[row["section"]] = row
    return [row for row in made if row["data"] == newest[row["section"]]["data"]]


def _side_by_side(
    trials: Sequence[Trial], pose: Pose, methods: Mapping[str, Method], jobs: int
) -> Iterator[dict[str, Any]]:
    with parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        rows = parallel(delayed(run_trial)(trial, pose, methods) for trial in trials)
    yield from rows


def _alone(trial: Trial, pose: Pose, methods: Mapping[str, Method]) -> dict[str, Any]:
    """Run a trial in a process of its own, and survive its death."""
    try:
        return next(_side_by_side([trial], pose, methods, 2))
    except BrokenProcessPool:
        message = "the process died, perhaps for lack of memory"
        return result_row(
            trial, accuracy=np.nan, n_scored=0, status="failed", message=message, seconds=np.nan
        )


def _kept(
    row: dict[str, Any], origin: Mapping[Trial, tuple[str, str]], store: ResultStore
) -> dict[str, Any]:
    code, data = origin[trial_of(row)]
    row = {**row, "code": code, "data": data}
    store.add(row)
    return row


def _origin(trial: Trial, pose: Pose, methods: Mapping[str, Method]) -> tuple[str, str]:
    """Return the names of the code and of the data that a trial's result will come from."""
    data = getattr(pose, "data", None)
    return code_name(methods[trial.method].label), "" if data is None else data(trial.section)


def n_processes(n_jobs: int | None) -> int:
    """Return how many trials run side by side."""
    return int(cpu_count() if n_jobs is None else n_jobs)


def nominal_seconds(trial: Trial, methods: Mapping[str, Method] = METHODS) -> float:
    """Return about how long a trial takes on one core of the machine our figures come from."""
    return methods[trial.method].seconds * max((trial.n_samples or _ALL_ROWS) / 200, 0.5)


def forecast(
    trials: Sequence[Trial], n_jobs: int, methods: Mapping[str, Method] = METHODS
) -> float:
    """Return about how many seconds trials will take here.

    Nominal times, multiplied by how this machine compares on three small fits.
    """
    X, y = make_xor(300, random_state=0)
    bags, totals = make_bags(X, y, proportions=DESIGNS["B"], random_state=0)
    with threadpool_limits(1):
        started = time.perf_counter()
        for seed in range(3):
            LPLLP(random_state=seed).fit(X, bags=bags, proportions=totals)
    factor = (time.perf_counter() - started) / _NOMINAL_FITS
    return factor * sum(nominal_seconds(trial, methods) for trial in trials) / n_jobs
