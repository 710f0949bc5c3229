"""From result rows to means, standard deviations and their difference to what was printed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import ttest_ind_from_stats

from experiments.printed import PRINTED, REPETITIONS, Printed
from experiments.trials import trial_of

SIGNIFICANT = 0.01
"""The level at which a difference to a printed mean is marked."""

Key = tuple[str, str, str, str]
"""Section, protocol, cell and method."""


@dataclass(frozen=True)
class Score:
    """Mean and standard deviation of the repetitions of one cell.

    Attributes
    ----------
    mean, std : float
        Of the accuracies of the trials that succeeded; NaN where too few did.
    n : int
        How many that are.
    failed : int
        How many trials failed.
    seconds : float
        The mean time of a trial.
    """

    mean: float
    std: float
    n: int
    failed: int
    seconds: float


def summarize(rows: Iterable[Mapping[str, Any]]) -> dict[Key, Score]:
    """Return the score of every cell and method that the result rows hold."""
    gathered: dict[Key, list[Mapping[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["repetition"]):
        trial = trial_of(row)
        gathered[trial.section, trial.protocol, trial.cell, trial.method].append(row)
    return {key: _score(members) for key, members in sorted(gathered.items())}


def _score(rows: list[Mapping[str, Any]]) -> Score:
    done = [row for row in rows if row["status"] == "done"]
    accuracy = np.array([row["accuracy"] for row in done])
    return Score(
        mean=float(accuracy.mean()) if len(done) else np.nan,
        std=float(accuracy.std(ddof=1)) if len(done) > 1 else np.nan,
        n=len(done),
        failed=len(rows) - len(done),
        seconds=float(np.mean([row["seconds"] for row in done])) if done else np.nan,
    )


def printed_for(section: str, cell: str, method: str) -> Printed | None:
    """Return what the paper prints for a cell and method; the literal LP-LLP is LP-LLP there."""
    column = "lp-llp" if method == "lp-llp-literal" else method
    return PRINTED.get(section, {}).get(cell, {}).get(column)


def p_value(ours: Score, printed: Printed) -> float:
    """Return the p-value of Welch's test that two means of repetitions are the same.

    Printed means are rounded to two decimals: the difference counts only as far as it goes beyond
    what rounding may hide. NaN of a single repetition.
    """
    if ours.n < 2:
        return np.nan
    difference = max(abs(ours.mean - printed.mean) - 0.005 - 1e-9, 0.0)
    if ours.std == 0.0 and printed.std == 0.0:
        return float(difference == 0.0)
    return float(
        ttest_ind_from_stats(
            difference, ours.std, ours.n, 0.0, printed.std, REPETITIONS, equal_var=False
        ).pvalue
    )


def direction(ours: Score, printed: Printed) -> int:
    """Return +1 or -1 where ours is significantly above or below the printed mean, else 0."""
    p = p_value(ours, printed)
    return int(np.sign(ours.mean - printed.mean)) if p < SIGNIFICANT else 0
