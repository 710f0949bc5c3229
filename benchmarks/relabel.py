"""The quick answer to corrections against a full run with the same labels.

Some rows get their true label: rows at random, or those of lowest confidence. Printed are how many
of the other labels are right before, after the quick answer and after a full run, how many other
labels the quick answer changes, and the seconds of both. Data: made-up weeks of three people, and
scikit-learn's digits in bags of 50.

    python benchmarks/relabel.py [--method lpllp] [--seeds 3] [--answers 10 20 50] [--speed]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_digits

from apportion._utils.typing import AnyArray, IntArray
from apportion.datasets import make_smart_home
from apportion.labeling._features import TableFeatures, learn_features
from apportion.labeling._methods import method_named
from apportion.labeling._supervised import SupervisedTable
from apportion.labeling._supervision import supervised_table
from apportion.labeling.relabel import relabel
from apportion.labeling.rows import is_known
from apportion.labeling.table import LabeledTable, label_supervised


def main() -> None:
    """Print accuracies, or only the time of 20,000 windows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", default="lpllp", help="of the full runs")
    parser.add_argument("--seeds", type=int, default=3, help="how many draws of data and rows")
    parser.add_argument("--answers", type=int, nargs="+", default=[10, 20, 50])
    parser.add_argument("--speed", action="store_true", help="time 20,000 windows only")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.speed:
        print_speed(asked.method)
        return
    print("data    rows    answers  before  quick   full    changed  s quick  s full")
    for name, make in (("week", a_week), ("digits", digits)):
        for how in ("random", "doubt"):
            for k in asked.answers:
                print_means(name, make, how, k, asked.method, asked.seeds)


def print_means(
    name: str,
    make: Callable[[int], tuple[SupervisedTable, AnyArray]],
    how: str,
    k: int,
    method: str,
    n_seeds: int,
) -> None:
    """Print a line of means over draws."""
    found = np.mean([compared(make, how, k, method, seed) for seed in range(n_seeds)], axis=0)
    before, quick, full, changed, quick_s, full_s = found
    print(
        f"{name:7} {how:7} {k:7}  {before:.4f}  {quick:.4f}  {full:.4f}  {changed:7.1f}  "
        f"{quick_s:7.2f}  {full_s:6.2f}",
        flush=True,
    )


_RUNS: dict[Any, Any] = {}


def first_run(
    make: Callable[[int], tuple[SupervisedTable, AnyArray]], method: str, seed: int
) -> tuple[SupervisedTable, AnyArray, TableFeatures, LabeledTable]:
    """Return a task, the truth, its features and the labels of a full run; kept for later."""
    key = make.__name__, method, seed
    if key not in _RUNS:
        task, truth = make(seed)
        features = learn_features(task)
        _RUNS[key] = task, truth, features, full_run(task, features, method)
    found: tuple[SupervisedTable, AnyArray, TableFeatures, LabeledTable] = _RUNS[key]
    return found


def full_run(task: SupervisedTable, features: TableFeatures, method: str) -> LabeledTable:
    """Return the labels of a full run, as the command line finds them."""
    return label_supervised(task, features, method_named(method), method=method, choose_decode=True)


def compared(
    make: Callable[[int], tuple[SupervisedTable, AnyArray]],
    how: str,
    k: int,
    method: str,
    seed: int,
) -> list[float]:
    """Return accuracies before, quick and full, labels changed, and seconds."""
    task, truth, features, before = first_run(make, method, seed)
    rows = asked_rows(before, truth, how, k, seed)
    corrected = with_given(task, rows, truth)
    relabel(before, task, features)  # builds the graph, if the model has none
    start = time.perf_counter()
    quick = relabel(before, corrected, features)
    middle = time.perf_counter()
    full = full_run(corrected, features, method)
    end = time.perf_counter()
    others = is_known(before.labels.labels)
    others[rows] = False
    right = [np.mean((x.labels.labels == truth)[others]) for x in (before, quick, full)]
    changed = float(((quick.labels.labels != before.labels.labels) & others).sum())
    return [*map(float, right), changed, middle - start, end - middle]


def asked_rows(before: LabeledTable, truth: AnyArray, how: str, k: int, seed: int) -> IntArray:
    """Return the rows whose label is given: at random, or those of lowest confidence."""
    known = np.flatnonzero(is_known(before.labels.labels) & is_known(truth))
    if how == "random":
        return np.random.default_rng(seed).choice(known, k, replace=False)
    return known[np.argsort(before.labels.confidence[known], kind="stable")[:k]]


def with_given(task: SupervisedTable, rows: IntArray, truth: AnyArray) -> SupervisedTable:
    """Return the task with the true labels of some rows; totals give way to them."""
    labels = np.full(len(truth), None, dtype=object)
    labels[rows] = truth[rows]
    totals = task.totals_for(labels)
    supervision = replace(task.supervision, given=labels, totals=totals, conflict="given")
    return replace(task, supervision=supervision)


def a_week(seed: int, days: int = 7, minutes: int = 10) -> tuple[SupervisedTable, AnyArray]:
    """Return made-up weeks of three people with their diaries, and the truth."""
    home = make_smart_home(days, 3, seed=seed, minutes=minutes)
    task = supervised_table(pa.table(home.windows), diary=home.diary)
    truth = home.reported.astype(object)
    classes = set(task.totals.classes.tolist())
    truth[[label not in classes for label in truth.tolist()]] = None
    return task, truth


def digits(seed: int) -> tuple[SupervisedTable, AnyArray]:
    """Return the digits in bags of 50 with their counts, and the truth."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    X, truth = X[order], np.array([f"d{label}" for label in y[order]], dtype=object)
    bags = np.array([f"b{i // 50}" for i in range(len(y))])
    names = sorted(set(truth.tolist()))
    counts = [
        {"bag": bag, **{name: int((truth[bags == bag] == name).sum()) for name in names}}
        for bag in dict.fromkeys(bags.tolist())
    ]
    rows = pa.table({"bag": bags, **{f"x{j}": X[:, j] for j in range(X.shape[1])}})
    return supervised_table(rows, bags="bag", proportions=counts), truth


def print_speed(method: str) -> None:
    """Print the seconds that the quick answer takes for 20,000 windows.

    The rows that are corrected have a wrong label: a label that was right changes nothing and
    costs nothing. With lpllp, labels along time are timed too.
    """
    task, truth = a_week(0, days=24, minutes=5)
    features = learn_features(task)
    for decode in ("quota", "sequence") if method == "lpllp" else ("quota",):
        start = time.perf_counter()
        before = label_supervised(task, features, method_named(method, decode=decode))
        seconds = time.perf_counter() - start
        print(f"{task.rows.n_samples:,} windows, {decode}; full run {seconds:.1f} s", flush=True)
        labels = before.labels.labels
        wrong = np.flatnonzero(is_known(labels) & is_known(truth) & (labels != truth))
        for k in (0, 1, 20, 50, 200):
            rows = np.random.default_rng(0).choice(wrong, k, replace=False)
            corrected = with_given(task, rows, truth)
            start = time.perf_counter()
            after = relabel(before, corrected, features)
            seconds = time.perf_counter() - start
            changed = int((after.labels.labels != labels).sum())
            print(f"{k:3} corrections: {seconds:.2f} s, {changed} labels changed", flush=True)


if __name__ == "__main__":
    main()
