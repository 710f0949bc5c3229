"""The tables: which cells each has, and how a trial's rows and bags are drawn."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.datasets import (
    AMBULATORY_OR_SEDENTARY,
    FIVE_GROUPS,
    SphereWindows,
    load_sphere,
    make_bags,
    make_half_kernel,
    make_xor,
)
from experiments.sphere_recipes import day_recipe, home_recipe, motion_recipe
from experiments.trials import Problem, Trial

DESIGNS = {"A": (0.60, 0.40, 0.50), "B": (0.85, 0.25, 0.40)}
"""The share of class 1 in the paper's three bags."""

PROTOCOLS = ("test bag", "all rows")
"""Which rows are scored: the sixth of the rows in a fourth bag, half of each class, whose rows are
labeled with all others; or all rows, in three bags. The first is the one to compare with the
paper."""

PAPER_METHODS = (
    *("lp-llp", "auto", "lp-llp-literal", "prop-svm", "inv-cal", "mean-map", "em"),
    *("majority", "supervised"),
)
"""The methods of the paper's tables, and some more."""

_BOUNDS = ("lp-llp", "majority", "supervised")
"""LP-LLP, and what is known to be worse and better."""

Draw = Callable[[int, np.random.RandomState], tuple[FloatArray, AnyArray]]


@dataclass(frozen=True)
class Section:
    """One table of the reproduction.

    Attributes
    ----------
    key : str
        The `section` of its trials.
    title : str
        What stands above it.
    about : str
        A sentence on the data.
    cells : tuple of (int, str)
        Numbers of rows and designs.
    pose : callable
        From a trial, and the folder of the SPHERE data, to its problem.
    protocols : tuple of str
        Which rows are scored, among `PROTOCOLS`.
    needs_sphere : bool
        Whether that folder is needed.
    methods : tuple of str or None
        The methods that are compared; None = all.
    repetitions : int or None
        How often at most; None = as often as asked for.
    scored : str or None
        A sentence on which rows are scored, where the protocol does not say it.
    """

    key: str
    title: str
    about: str
    cells: tuple[tuple[int, str], ...]
    pose: Callable[[Trial, Any], Problem]
    protocols: tuple[str, ...] = PROTOCOLS
    needs_sphere: bool = False
    methods: tuple[str, ...] | None = None
    repetitions: int | None = None
    scored: str | None = None

    def trials(
        self, methods: Sequence[str], repetitions: int, protocols: Sequence[str] = PROTOCOLS
    ) -> Iterator[Trial]:
        """Yield the trials of the table, repetition by repetition."""
        for repetition, (n_samples, design), protocol, method in product(
            range(min(repetitions, self.repetitions or repetitions)),
            self.cells,
            [protocol for protocol in self.protocols if protocol in protocols],
            [method for method in methods if self.methods is None or method in self.methods],
        ):
            yield Trial(self.key, n_samples, design, protocol, method, repetition)


def three_bags(draw: Draw, trial: Trial) -> Problem:
    """Return drawn rows in the paper's three bags, and in a test bag where that is scored."""
    rng = check_random_state(trial.repetition)
    X, y = draw(trial.n_samples, rng)
    order = rng.permutation(len(y))  # no trace of the classes in the order of rows
    X, y = X[order], y[order]
    shares = list(DESIGNS[trial.design])
    n_test = trial.n_samples // 6 if trial.protocol == "test bag" else 0
    if trial.protocol == "test bag" and not n_test:
        raise ValueError(f"A test bag needs at least 6 rows in all. Got {trial.n_samples}.")
    sizes = np.bincount(np.arange(trial.n_samples - n_test) % len(shares), minlength=len(shares))
    if n_test:
        shares, sizes = [*shares, 0.5], np.append(sizes, n_test)
    bags, totals = make_bags(X, y, proportions=shares, sizes=sizes.tolist(), random_state=rng)
    if not n_test:
        return Problem(X, bags, totals, y, np.ones(len(y), dtype=bool), _folds(y, rng))
    scored = bags == len(shares) - 1
    return Problem(X, bags, totals, y, scored, np.where(scored, 0, -1))


def _folds(y: AnyArray, rng: np.random.RandomState, n_folds: int = 5) -> IntArray:
    """Deal the rows of each class to folds at random."""
    folds = np.empty(len(y), dtype=np.intp)
    for label in np.unique(y):
        mine = np.flatnonzero(y == label)
        folds[rng.permutation(mine)] = np.arange(len(mine)) % n_folds
    return folds


def _synthetic(make: Callable[..., Any], trial: Trial, sphere: Any) -> Problem:
    return three_bags(lambda n_samples, rng: make(n_samples, random_state=rng), trial)


@lru_cache(maxsize=4)
def _windows(sphere: str, setting: str, context: int = 0) -> SphereWindows:
    return load_sphere(sphere, setting, context=context)


@lru_cache(maxsize=4)
def _recorded_windows(sphere: str, setting: str, context: int) -> SphereWindows:
    """Return the windows that have at least one feature."""
    windows = _windows(sphere, setting, context)
    return windows.take(np.flatnonzero(~np.isnan(windows.X).all(axis=1)))


def _ambulatory_or(
    group: str,
    activities: Sequence[str],
    setting: str,
    context: int,
    pick: Callable[[IntArray, int, np.random.RandomState], IntArray],
    trial: Trial,
    sphere: Any,
) -> Problem:
    """Draw as many ambulatory windows as of another group, all wholly the one or the other.

    Windows without any feature, in which nothing was received of the sensor, are not drawn.
    """
    groups = {"ambulatory": AMBULATORY_OR_SEDENTARY["ambulatory"], group: activities}
    windows, labels = _recorded_windows(os.fspath(sphere), setting, context).pure(groups)
    y = (labels == "ambulatory").astype(np.intp)
    recipe = home_recipe if setting == "baseline" else motion_recipe

    def draw(n_samples: int, rng: np.random.RandomState) -> tuple[FloatArray, AnyArray]:
        rows = np.concatenate([pick(np.flatnonzero(y == h), n_samples // 2, rng) for h in (0, 1)])
        return recipe(windows.take(rows)), y[rows]

    return three_bags(draw, trial)


def _scattered(rows: IntArray, count: int, rng: np.random.RandomState) -> IntArray:
    return rng.choice(rows, count, replace=False)


def _successive(rows: IntArray, count: int, rng: np.random.RandomState) -> IntArray:
    first = rng.randint(len(rows) - count + 1)
    return rows[first : first + count]


_sedentary = partial(_ambulatory_or, "sedentary", AMBULATORY_OR_SEDENTARY["sedentary"])
_lying = partial(_ambulatory_or, "lying", ("p_lie",))


def _natural_bags(trial: Trial, sphere: Any) -> Problem:
    """All annotated windows, in bags of one participant's consecutive seconds.

    Repetitions move the clock at which bags change. Windows whose annotators are of two minds
    count in the totals and are not scored.
    """
    recorded = _windows(os.fspath(sphere), "baseline")
    windows = recorded.labeled()
    shares = windows.grouped(FIVE_GROUPS)
    period = float(trial.design.split()[0])
    bags, totals = make_bags(
        None,
        shares,
        strategy="time",
        time=windows.start + period * trial.repetition / 5,
        period=period,
        groups=windows.participant,
        classes=list(FIVE_GROUPS),
    )
    ranked = np.sort(shares, axis=1)
    y = np.array(list(FIVE_GROUPS))[shares.argmax(axis=1)]
    scored = ranked[:, -1] > ranked[:, -2] + 1e-9
    folds = np.unique(windows.participant, return_inverse=True)[1]
    return Problem(day_recipe(recorded), bags, totals, y, scored, folds)


_SYNTHETIC_CELLS = tuple(product((120, 180, 300, 600), DESIGNS))
_SPHERE_CELLS = tuple(product((60, 120, 180, 240), DESIGNS))

SECTIONS: dict[str, Section] = {
    section.key: section
    for section in (
        Section(
            "xor",
            "Table 1: XOR",
            "Four Gaussians of unit covariance at the corners of a square of side 10.",
            _SYNTHETIC_CELLS,
            partial(_synthetic, make_xor),
            methods=PAPER_METHODS,
        ),
        *(
            Section(
                f"half-kernel{key}",
                title,
                f"Half circles of radius 1 and 2 around one center, noise {noise:g}.",
                _SYNTHETIC_CELLS,
                partial(_synthetic, partial(make_half_kernel, noise=noise)),
                methods=methods,
            )
            for noise, key, title, methods in (
                (0.1, "", "Table 2: Half-Kernel", PAPER_METHODS),
                (0.2, "-0.2", "Half-Kernel with noise 0.2", _BOUNDS),
                (0.3, "-0.3", "Half-Kernel with noise 0.3", _BOUNDS),
            )
        ),
        Section(
            "sphere-1",
            "Table 3: Sphere 1 (raw)",
            "Ambulatory against sedentary seconds in which the accelerometer was received; seven "
            "features of its raw signal in the same second.",
            _SPHERE_CELLS,
            partial(_sedentary, "raw", 0, _scattered),
            needs_sphere=True,
            methods=PAPER_METHODS,
        ),
        Section(
            "sphere-1-context",
            "Sphere 1 with ±5 s of context",
            "Ambulatory against sedentary seconds; seven features of the raw accelerometer within "
            "five seconds before and after, received for some of them.",
            _SPHERE_CELLS,
            partial(_sedentary, "raw", 5, _scattered),
            needs_sphere=True,
            methods=("lp-llp", "em", "majority", "supervised"),
        ),
        Section(
            "sphere-1-runs",
            "Sphere 1, runs of seconds",
            "The kindest choice of windows that we found: ambulatory against lying, successive "
            "seconds of each in the order of the recordings, features within five seconds before "
            "and after.",
            _SPHERE_CELLS,
            partial(_lying, "raw", 5, _successive),
            needs_sphere=True,
            methods=("lp-llp", "lp-llp-literal", "majority", "supervised"),
        ),
        Section(
            "sphere-2",
            "Table 4: Sphere 2 (baseline)",
            "Ambulatory against sedentary seconds; 67 values made of the data set's 305 baseline "
            "features.",
            _SPHERE_CELLS,
            partial(_sedentary, "baseline", 0, _scattered),
            needs_sphere=True,
            methods=PAPER_METHODS,
        ),
        Section(
            "sphere-activities",
            "SPHERE, five groups of activities in natural bags",
            "Every annotated second of ten people: walking, standing, sitting, lying, moving; "
            "baseline features of the second and means over five seconds before and after. Bags "
            "are 60 or 300 seconds of one person.",
            ((0, "60 s"), (0, "300 s")),
            _natural_bags,
            ("all rows",),
            needs_sphere=True,
            methods=("lp-llp", "lp-llp-threshold", "em", "majority", "supervised"),
            repetitions=5,
            scored="Accuracy on all seconds about which the annotators agree for the most part; "
            "repetitions move the clock at which bags change. The supervised method learns from "
            "all other people's labels and knows no totals, so it is the same for both lengths, "
            "and no bound for methods that know a person's totals.",
        ),
    )
}
