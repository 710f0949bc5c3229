"""Forecast how long the fits of all candidates take, from fits to few rows."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from joblib import effective_n_jobs

from apportion._utils.progress import duration, report_progress, several_runs
from apportion._utils.typing import FloatArray, IntArray
from apportion.exceptions import counted
from apportion.model_selection._candidate_fits import Problem
from apportion.model_selection._candidates import Candidate
from apportion.supervision.bags import Bags

FORECAST = "apportion.forecast"
"""The logger of forecasts."""

_log = logging.getLogger(FORECAST)

_MANY_ROWS = 10_000
"""Up to here, timing would take more than a tenth of the time of all fits."""

_SAMPLE_ROWS = (1_000, 2_000)
"""The numbers of rows in two samples. Up to 1,000 rows, kernel methods get slower with every row;
beyond, they work with a fixed number of landmarks, and times grow by a constant for every row."""

_LEAST_BAGS = 20
"""A sample has rows of at least so many bags, if there are as many."""


@dataclass(frozen=True)
class Forecast:
    """How long the fits take.

    Attributes
    ----------
    seconds : float or None
        The time of all fits; None if it is not forecast.
    costs : tuple of float or None
        The time of one fit of each candidate.
    """

    seconds: float | None = None
    costs: tuple[float, ...] | None = None


def forecast_fits(
    problem: Problem, candidates: Sequence[Candidate], n_fits: int, n_jobs: int | None
) -> Forecast:
    """Forecast and log how long all fits will take; not for few rows, which are not timed.

    Every candidate is fitted to samples of about 1,000 and 2,000 rows, and its time is taken to
    grow along the line through these two points. Nothing of these fits is kept.

    Parameters
    ----------
    problem : Problem
        What is fitted.
    candidates : sequence of Candidate
        The candidates, each after the one that it needs.
    n_fits : int
        The number of fits of each.
    n_jobs : int or None
        The number of processes.
    """
    n = problem.bags.n_samples
    if n <= _MANY_ROWS:
        return Forecast()
    samples = [_sample(problem, n_rows) for n_rows in _SAMPLE_ROWS]
    with several_runs("timing methods", "method", 2 * len(candidates)) as next_run:
        few, more = (np.array(_times(sample, candidates, next_run)) for sample in samples)
    n_few, n_more = (sample.bags.n_samples for sample in samples)
    slope = np.maximum(more - few, 0.0) / max(n_more - n_few, 1)
    costs = more + slope * (n - n_more)
    seconds = math.ceil(n_fits / effective_n_jobs(n_jobs)) * float(costs.sum())
    methods = f"{counted(len(candidates), 'method')}, {counted(n_fits, 'fit')} each"
    _log.info("about %s: %s", duration(seconds), methods)
    return Forecast(seconds, tuple(costs.tolist()))


def _times(
    sample: Problem, candidates: Sequence[Candidate], next_run: Callable[[], None]
) -> list[float]:
    """Return the seconds of one fit of each candidate; 0 for one that cannot be fitted."""
    answers: dict[str, FloatArray] = {}
    times = []
    for candidate in candidates:
        next_run()
        report_progress(candidate.name)
        answer = None if candidate.first is None else answers.get(candidate.first)
        try:
            fit = sample.fit(candidate, None, answer)
        except Exception:  # it is fitted again, to all rows, and a failure is told then
            times.append(0.0)
            continue
        answers[candidate.name] = fit.probabilities
        times.append(fit.seconds)
    return times


def _sample(problem: Problem, n_rows: int) -> Problem:
    """Return about so many rows of some bags, with the bags' totals in proportion.

    Given labels are left out, because they may exceed such totals, unless there is no bag.
    """
    bags = problem.bags
    K = len(bags.ids)
    if not K:
        rows = _spread(np.flatnonzero(bags.given >= 0), n_rows)
        chosen = bags.take(rows, np.arange(0))
    else:
        n_bags = max(_LEAST_BAGS, round(n_rows * K / bags.n_samples))
        taken = _spread(np.arange(K), n_bags)
        position = np.full(K + 1, -1)
        position[taken] = np.arange(len(taken))
        codes = position[bags.codes]
        by_bag = np.argsort(codes, kind="stable")
        rows = _spread(by_bag[codes[by_bag] >= 0], n_rows)
        codes = codes[rows]
        sizes = np.bincount(codes, minlength=len(taken))
        share = (sizes / bags.groups.sizes[taken])[:, None]
        chosen = Bags(
            tuple(range(len(taken))),
            bags.classes,
            codes,
            bags.lower[taken] * share,
            bags.upper[taken] * share,
            np.full(len(rows), -1),
        )
    in_order = None if problem.in_order is None else problem.in_order.only(rows)
    X, standardized = problem.X[rows], problem.standardized[rows]
    return replace(problem, X=X, standardized=standardized, bags=chosen, in_order=in_order)


def _spread(items: IntArray, most: int) -> IntArray:
    """Return at most so many items, evenly spread."""
    if len(items) <= most:
        return items
    return items[np.linspace(0, len(items) - 1, most).astype(np.intp)]
