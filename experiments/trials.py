"""Trials: one method, once, on one drawn problem; and what came of it."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.supervision.totals import Totals


@dataclass(frozen=True)
class Trial:
    """The description of one fit, from which everything else follows.

    All methods see the same rows in the same bags in the trials of one repetition.

    Attributes
    ----------
    section : str
        The table it belongs to, such as `"xor"`.
    n_samples : int
        The number of rows drawn; 0 = all there are.
    design : str
        The bags: `"A"` and `"B"` are the paper's three bags.
    protocol : str
        `"all rows"` or `"test bag"`: which rows are scored.
    method : str
        The method's key, such as `"lp-llp"`.
    repetition : int
        The seed of everything drawn.

    Examples
    --------
    >>> Trial("xor", 120, "A", "test bag", "lp-llp", 0).cell
    '120A'
    """

    section: str
    n_samples: int
    design: str
    protocol: str
    method: str
    repetition: int

    @property
    def cell(self) -> str:
        """The table's line, as the paper writes it."""
        return cell_name(self.n_samples, self.design)


def cell_name(n_samples: int, design: str) -> str:
    """Return the name of a table's line, such as `"120A"`."""
    return f"{n_samples or ''}{design}"


def trial_of(row: Mapping[str, Any]) -> Trial:
    """Return the trial that a result row belongs to."""
    return Trial(**{field.name: row[field.name] for field in fields(Trial)})


@dataclass(frozen=True)
class Problem:
    """Rows in bags, their true labels, and which rows count.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
    bags : ndarray of shape (n_samples,)
    totals : Totals
    y : ndarray of shape (n_samples,)
        The true labels, which only the score and the supervised method see.
    scored : ndarray of bool, of shape (n_samples,)
        The rows on which accuracy is measured.
    folds : ndarray of shape (n_samples,)
        For the supervised method, which labels a fold by a rule learned from all other rows; -1 is
        learned from only.
    """

    X: FloatArray
    bags: IntArray
    totals: Totals
    y: AnyArray
    scored: BoolArray
    folds: IntArray


@dataclass(frozen=True)
class Method:
    """A way to label a problem's rows.

    Attributes
    ----------
    title : str
        Its name in tables.
    label : callable
        From (X, bags, totals, seed) to labels; from (problem, seed) where `sees_labels`.
    sees_labels : bool
        Whether it sees the true labels: a bound to compare others with, no competitor.
    seconds : float
        About how long one fit of 200 rows takes, for the forecast of a run's length.
    """

    title: str
    label: Callable[..., AnyArray]
    sees_labels: bool = False
    seconds: float = 0.2

    @property
    def heading(self) -> str:
        """The title, marked where the method sees the labels."""
        return f"{self.title} (sees labels)" if self.sees_labels else self.title

    def __call__(self, problem: Problem, seed: int) -> AnyArray:
        """Return a label for every row; the true labels stay here unless the method is marked."""
        if self.sees_labels:
            return self.label(problem, seed)
        return self.label(problem.X, problem.bags, problem.totals, seed)


def run_trial(
    trial: Trial, pose: Callable[[Trial], Problem], methods: Mapping[str, Method]
) -> dict[str, Any]:
    """Return the result row of a trial: its description, the accuracy, and what was noticed.

    A failure is a result too: `status` is `"failed"` and `message` says how. Linear algebra runs
    on one thread, so that the figures do not depend on how many trials run side by side.
    """
    accuracy, n_scored, status = np.nan, 0, "failed"
    started = time.perf_counter()
    try:
        with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            problem = pose(trial)
            started = time.perf_counter()
            labels = np.asarray(methods[trial.method](problem, trial.repetition))
        _refuse_odd_labels(labels, problem)
        accuracy = float((labels == problem.y)[problem.scored].mean())
        n_scored, status = int(problem.scored.sum()), "done"
        message = "; ".join(sorted({warning.category.__name__ for warning in caught}))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
    return result_row(
        trial,
        accuracy=accuracy,
        n_scored=n_scored,
        status=status,
        message=message,
        seconds=time.perf_counter() - started,
    )


def result_row(trial: Trial, **result: Any) -> dict[str, Any]:
    """Return a trial and its result as one row, with the time and the version."""
    now = datetime.now(UTC).isoformat()
    return {**vars(trial), **result, "version": version("apportion"), "finished": now}


def _refuse_odd_labels(labels: AnyArray, problem: Problem) -> None:
    """Refuse an answer that would be scored as something else than it is."""
    if labels.shape != problem.y.shape:
        raise ValueError(
            f"A method must return one label for each of {len(problem.y)} rows. Got shape "
            f"{labels.shape}."
        )
    strange = set(labels.tolist()) - set(problem.totals.classes.tolist())
    if strange:
        raise ValueError(
            f"A method must return labels among {problem.totals.classes.tolist()}. Got "
            f"{sorted(strange, key=str)[:3]}."
        )
