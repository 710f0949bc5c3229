"""Running trials side by side, going on where an earlier run stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, cpu_count, delayed, parallel_config
from threadpoolctl import threadpool_limits

from apportion.datasets import make_bags, make_xor
from apportion.estimators import LPLLP
from apportion.experiments.methods import METHODS
from apportion.experiments.sections import DESIGNS
from apportion.experiments.store import ResultStore
from apportion.experiments.trials import Method, Problem, Trial, run_trial

_ALL_ROWS = 16_000
_NOMINAL_FITS = 0.2
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
        What to run. Those with a result in `store` are left out.
    pose : callable
        From a trial to its problem.
    store : ResultStore
        Where rows are kept, each before the next one is waited for.
    methods : mapping from str to Method, optional
        The methods by their keys.
    n_jobs : int, optional
        How many trials run side by side; by default one for each processor.
    retry_failed : bool, default=False
        Run trials that failed before once more.
    """
    waiting = remaining(trials, store, retry_failed=retry_failed)
    with parallel_config(backend="loky", inner_max_num_threads=1):
        rows = Parallel(n_jobs=n_processes(n_jobs), return_as="generator_unordered")(
            delayed(run_trial)(trial, pose, methods) for trial in waiting
        )
        for row in rows:
            store.add(row)
            yield row
    store.gather()


def remaining(
    trials: Iterable[Trial], store: ResultStore, *, retry_failed: bool = False
) -> list[Trial]:
    """Return the trials without a result, in an order that mixes short and long ones."""
    done = store.trials(failed=not retry_failed)
    waiting = [trial for trial in dict.fromkeys(trials) if trial not in done]
    return [waiting[i] for i in np.random.default_rng(0).permutation(len(waiting))]


def n_processes(n_jobs: int | None) -> int:
    """Return how many trials run side by side."""
    return int(cpu_count() if n_jobs is None else n_jobs)


def nominal_seconds(trial: Trial, methods: Mapping[str, Method] = METHODS) -> float:
    """Return about how long a trial takes on one core of the machine our figures come from."""
    return methods[trial.method].seconds * max((trial.n_rows or _ALL_ROWS) / 200, 0.5)


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
