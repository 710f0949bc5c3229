"""Random problems in random disguises: what must not change does not change.

A case is a number. It draws a problem (features, bags, totals), an estimator, and a disguise of the
problem that no label may depend on: moved or rescaled features; features, rows, bags or classes in
another order or under other names; more or fewer digits of the shares; another number of threads.
Features are multiples of 2⁻¹⁰, and offsets and scales are such that moved features are exact: what
differs afterwards is the estimator's own doing.

`make fuzz` runs cases until its time is over, each under a time limit, and prints those that
failed; `tests/test_fuzz.py` runs the first of them.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from apportion import (
    EMLLP,
    LPLLP,
    AggregateGP,
    AnchorGraph,
    AutoLLP,
    CalibratedLLP,
    CountLogistic,
    InvCal,
    KNNGraph,
    LaplacianMeanMap,
    MeanMap,
    PropSVM,
    RBFGraph,
    WeightedKNN,
)

KINDS = ("offset", "scale", "features", "rows", "bags", "classes", "digits", "threads")
OFFSETS = (1.0, -(2.0**10), 2.0**20, 2.0**23, 2.0**26, 1.7e9, -(2.0**40))
SCALES = (4.0, 2.0**-10, 2.0**20, 2.0**-30, 2.0**30)
DIGITS = (2, 4, 6, 9, 10, 11, 12, 15)
CLASS_NAMES = ("b", "a", "c", "10", "9", "", "é", "a ", "NA")

ESTIMATORS: dict[str, Any] = {
    "LPLLP": LPLLP(random_state=0),
    "LPLLP few neighbors": LPLLP(KNNGraph(3), random_state=0),
    "LPLLP rbf": LPLLP(RBFGraph(), random_state=0),
    "LPLLP anchor": LPLLP(AnchorGraph(), random_state=0),
    "LPLLP threshold": LPLLP(decode="threshold", random_state=0),
    "WeightedKNN": WeightedKNN(),
    "InvCal": InvCal(),
    "InvCal rbf": InvCal("rbf"),
    "MeanMap": MeanMap(),
    "MeanMap rbf": MeanMap("rbf"),
    "CountLogistic": CountLogistic(),
    "CountLogistic rbf": CountLogistic("rbf"),
    "AggregateGP": AggregateGP(n_estimators=10, random_state=0),
    "PropSVM": PropSVM(n_starts=2, random_state=0),
    "EMLLP": EMLLP(random_state=0),
    "EMLLP trees": EMLLP("trees", cross_fit=2, max_iter=1, random_state=0),
    "LaplacianMeanMap": LaplacianMeanMap(),
    "CalibratedLLP": CalibratedLLP(MeanMap(), random_state=0),
    "AutoLLP": AutoLLP(["gp", "count", "mean-map", "lpllp"], random_state=0),
}
KEEPS_TOTALS = [name for name in ESTIMATORS if name != "WeightedKNN"]
NOT_ASKED = {
    # The penalty of its logistic regression is of one size, whatever the size of the features.
    ("EMLLP", "scale"): "offset",
    # Its random starts follow the hashes of the features, and may end in another local optimum.
    ("PropSVM", "scale"): "rows",
    ("PropSVM", "offset"): "rows",
    ("PropSVM", "digits"): "bags",
}
"""What is asked instead of a disguise in which an estimator may give another answer."""


@dataclass(frozen=True)
class Problem:
    """Rows in bags, and the shares of the classes in each bag."""

    X: Any
    bags: Any
    shares: Any
    classes: tuple[Any, ...]

    @property
    def totals(self) -> dict[Any, dict[Any, float]]:
        """The shares by bag and class."""
        rows = enumerate(self.shares.tolist())
        return {k: dict(zip(self.classes, row, strict=True)) for k, row in rows}

    def fit(self, estimator: Any) -> Any:
        """Return a fitted clone of the estimator."""
        return clone(estimator).fit(self.X, bags=self.bags, proportions=self.totals)


@dataclass(frozen=True)
class Answer:
    """Labels and soft labels in the rows and classes of the first problem."""

    labels: Any
    soft: Any
    tied: Any


def draw_problem(rng: np.random.Generator, apart: float) -> Problem:
    """Return clouds of rows, so far apart, in random bags, which the totals tell apart."""
    c = int(rng.integers(2, 5))
    n_bags = int(rng.integers(c + 2, 9))
    n, d = int(rng.integers(12, 61)) + 3 * n_bags, int(rng.integers(1, 6))
    y = np.concatenate([np.arange(c), rng.integers(0, c, n - c)])
    centers = rng.permutation(c)[:, None] * apart + rng.normal(size=(c, d))
    X = np.round((centers[y] + rng.normal(size=(n, d))) * 1024) / 1024
    codes = np.concatenate([np.arange(n_bags), rng.integers(0, n_bags, n - n_bags)])
    counts = np.zeros((n_bags, c))
    np.add.at(counts, (codes, y), 1.0)
    return Problem(X, codes, counts / counts.sum(axis=1, keepdims=True), tuple(range(c)))


def draw_disguise(
    rng: np.random.Generator, kind: str, problem: Problem
) -> tuple[str, Problem, Callable[[Any], Answer], int]:
    """Return a disguise in words, the problem in it, how to look behind it, and the threads."""
    order, inverse = np.arange(len(problem.X)), np.arange(len(problem.X))
    columns = np.arange(len(problem.classes))
    threads, other, how = 2, problem, ""
    if kind == "offset":
        offset = np.where(rng.random(problem.X.shape[1]) < 0.5, rng.choice(OFFSETS), 0.0)
        other, how = replace(problem, X=problem.X + offset), f"{offset.tolist()}"
        assert (other.X - offset == problem.X).all(), "an offset that is not exact"
    elif kind == "scale":
        scale = float(rng.choice(SCALES))
        other, how = replace(problem, X=problem.X * scale), f"{scale:g}"
    elif kind == "features":
        names = rng.permutation(problem.X.shape[1])
        other, how = replace(problem, X=problem.X[:, names]), f"{names.tolist()}"
    elif kind == "rows":
        order = rng.permutation(len(order)) if rng.random() < 0.5 else order[::-1]
        inverse = np.argsort(order)
        other = replace(problem, X=problem.X[order], bags=problem.bags[order])
    elif kind == "bags":
        place = rng.permutation(len(problem.shares))
        other = replace(problem, bags=np.argsort(place)[problem.bags], shares=problem.shares[place])
    elif kind == "classes":
        names = rng.permutation(CLASS_NAMES)[: len(columns)].tolist()
        columns = np.argsort(np.argsort(names))
        other, how = replace(problem, classes=tuple(names)), f"{names}"
    elif kind == "digits":
        digits = int(rng.choice(DIGITS[1:]))
        shares = problem.shares.round(digits)
        shares[:, 0] += 1.0 - shares.sum(axis=1)
        other, how = replace(problem, shares=np.clip(shares, 0.0, 1.0)), f"{digits}"
    else:
        threads = 1

    def look_behind(model: Any) -> Answer:
        names = model.classes_.tolist()
        labels = np.array([other.classes.index(h) for h in model.transduction_.tolist()])
        soft = model.label_distributions_[:, [names.index(h) for h in other.classes]]
        return Answer(labels[inverse], soft[inverse], model.tied_[inverse])

    return f"{kind} {how}".strip(), other, look_behind, threads


@contextmanager
def on_threads(n: int) -> Iterator[None]:
    """Let the library and the libraries below it work in so many threads."""
    with mock.patch.dict(os.environ, OMP_NUM_THREADS=str(n)), threadpool_limits(n):
        yield


def check(case: int) -> str:
    """Run a case and return it in words; an AssertionError says what changed."""
    rng = np.random.default_rng(case)
    name = str(rng.choice(list(ESTIMATORS)))
    kind = str(rng.choice(KINDS))
    kind = NOT_ASKED.get((name, kind), kind)
    # Moved features have other hashes, and so other random starts: only a clear answer stays.
    apart = 12.0 if kind in ("offset", "scale", "digits") else float(rng.choice([2.0, 4.0, 12.0]))
    problem = draw_problem(rng, apart)
    how, disguised, look_behind, threads = draw_disguise(rng, kind, problem)
    words = f"{name}, {len(problem.X)} rows, {len(problem.classes)} classes: {how}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        plain = problem.fit(ESTIMATORS[name])
        with on_threads(threads):
            other = disguised.fit(ESTIMATORS[name])
    before = Answer(plain.transduction_, plain.label_distributions_, plain.tied_)
    after = look_behind(other)
    for model, posed in ((plain, problem), (other, disguised)):
        _assert_sound(model, posed, name, words)
    if how == "threads":
        assert (before.soft == after.soft).all(), f"{words}: soft labels differ"
    changed = (before.labels != after.labels) & ~before.tied & ~after.tied
    assert not changed.any(), f"{words}: labels of rows {np.flatnonzero(changed).tolist()} differ"
    return words


def _assert_sound(model: Any, problem: Problem, name: str, words: str) -> None:
    """Assert that soft labels are distributions and that bags keep their totals."""
    soft = model.label_distributions_
    assert np.isfinite(soft).all(), f"{words}: soft labels that are not finite"
    assert (soft >= 0).all(), f"{words}: negative soft labels"
    np.testing.assert_allclose(soft.sum(axis=1), 1.0, atol=1e-9, err_msg=words)
    if name not in KEEPS_TOTALS:
        return
    sizes = np.bincount(problem.bags)
    means = np.array([soft[problem.bags == k].mean(axis=0) for k in range(len(sizes))])
    columns = [problem.classes.index(h) for h in model.classes_.tolist()]
    np.testing.assert_allclose(means, problem.shares[:, columns], atol=1e-6, err_msg=words)
    report = model.bag_report_
    assert report.error("quota") < 1.0 / len(soft) or report.error("quota") < 0.05, words


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise a TimeoutError in work that takes longer."""

    def over(number: int, frame: Any) -> None:
        raise TimeoutError(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def main() -> int:
    """Run cases until the time is over; return how many failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0, help="how long to go on")
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument("--only", type=int, help="run this case alone, with its traceback")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds that a case may take")
    asked = parser.parse_args()
    if asked.only is not None:
        print(check(asked.only))
        return 0
    case, end, failed = asked.first, time.monotonic() + asked.seconds, []
    while time.monotonic() < end:
        try:
            with at_most(asked.limit):
                check(case)
        except Exception as error:
            failed.append(case)
            words = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
            print(f"\ncase {case}: {words}", flush=True)
        case += 1
        print(f"\r{case - asked.first} cases, {len(failed)} failed, {end - time.monotonic():.0f} s "
              "left ", end="", file=sys.stderr, flush=True)  # fmt: skip
    print(f"\n{case - asked.first} cases, {len(failed)} failed: {failed}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(min(main(), 100))
