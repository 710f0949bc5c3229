"""Every method on the same rows and bags: accuracy, CPU seconds and memory; and how time grows.

    python benchmarks/methods.py                      # both tables
    python benchmarks/methods.py --seeds 2 --limit 60 # a quick look
    python benchmarks/methods.py --psvm FOLDER        # heart.mat of the ∝SVM authors' code
    python benchmarks/methods.py --llp-learn PYTHON   # a Python that has llp-learn, for its rows

Each cell runs in a process of its own, which is stopped at the limit. "under totals" are the labels
of the fitted rows when every bag gets its counts, "rule alone" what `predict` says without totals.
Memory is the peak above what the process had after its imports and the data.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from worker import measure

HERE = Path(__file__).parent
PSVM = HERE.parents[1] / "shared" / "data" / "psvm"
DESIGNS = {"A": [0.6, 0.4, 0.5], "B": [0.85, 0.25, 0.4]}
SIZES = [1_000, 5_000, 20_000, 100_000]
PEER = ["alterSVM", "alterSVM linear", "EM logistic"]


def methods(seed: int) -> dict[str, Any]:
    """Return every method with its defaults, and PropSVM with label-free selection."""
    from apportion import (
        EMLLP,
        LPLLP,
        AggregateGP,
        AutoLLP,
        InvCal,
        LaplacianMeanMap,
        MeanMap,
        PropSVM,
        WeightedKNN,
    )
    from apportion.model_selection import ProportionSearchCV

    return {
        "LPLLP": LPLLP(random_state=seed),
        "LPLLP, prior MeanMap": LPLLP(prior=MeanMap(), random_state=seed),
        "WeightedKNN": WeightedKNN(),
        "InvCal": InvCal(),
        "InvCal rbf": InvCal("rbf"),
        "PropSVM": PropSVM(random_state=seed),
        "PropSVM linear": PropSVM("linear", random_state=seed),
        "PropSVM, C selected": ProportionSearchCV(
            PropSVM(random_state=seed), {"C": [0.1, 0.3, 1.0]}
        ),
        "MeanMap": MeanMap(),
        "MeanMap rbf": MeanMap("rbf"),
        "LaplacianMeanMap": LaplacianMeanMap(),
        "AggregateGP": AggregateGP(random_state=seed),
        "AutoLLP": AutoLLP(random_state=seed),
        "EMLLP": EMLLP(random_state=seed),
    }


def fit_and_label(name: str, X: Any, bags: Any, shares: Any, seed: int) -> tuple[Any, Any]:
    """Return the labels of the rows under their totals, and by the rule alone."""
    from apportion import Totals

    warnings.simplefilter("ignore")
    totals = Totals.from_proportions(shares)
    model = methods(seed)[name].fit(X, bags=bags, proportions=totals)
    return model.transduction_, model.predict(X)


def tables(psvm: Path) -> dict[str, Any]:
    """Return, per data set, a function from a seed to rows, labels and bags."""
    from sklearn.datasets import load_breast_cancer, load_digits
    from sklearn.preprocessing import scale

    from apportion.datasets import make_bags, make_drifting_clouds, make_xor

    def xor(design: str) -> Any:
        def draw(seed: int) -> Any:
            X, y = make_xor(300, random_state=seed)
            return X, y, make_bags(X, y, proportions=DESIGNS[design], random_state=seed)[0]

        return draw

    def table(X: Any, y: Any, n_bags: int) -> Any:
        return lambda seed: (X, y, make_bags(X, y, n_bags, random_state=seed)[0])

    def bags_of_16(X: Any, y: Any) -> Any:
        places = np.arange(len(y)) // 16
        return lambda seed: (X, y, np.random.RandomState(seed).permutation(places))

    found = {"XOR 300A": xor("A"), "XOR 300B": xor("B")}
    if (psvm / "heart.mat").exists():
        X, y = heart(psvm)
        found["heart, bags of 16"] = bags_of_16(scale(X), y)
    X, y = load_breast_cancer(return_X_y=True)
    found["breast_cancer, 20 bags"] = table(scale(X), y, 20)
    X, y = load_digits(return_X_y=True)
    found["digits, 20 bags"] = table(X, y, 20)
    found["drifting clouds"] = lambda seed: make_drifting_clouds(600, 30, random_state=seed)
    return found


def heart(folder: Path) -> tuple[Any, Any]:
    """Return the rows and labels (1 = ill) of the ∝SVM authors' heart data."""
    from scipy.io import loadmat

    read = loadmat(folder / "heart.mat", squeeze_me=True, struct_as_record=False)
    y = np.zeros(len(read["data"]), dtype=int)
    y[read["split"].train_data_idx - 1] = read["split"].train_label > 0
    y[read["split"].test_data_idx - 1] = read["split"].test_label > 0
    return read["data"], y


def save(folder: Path, name: str, X: Any, y: Any, bags: Any) -> Path:
    classes = np.unique(y)
    sizes = np.bincount(bags)
    shares = np.column_stack([np.bincount(bags, y == label) / sizes for label in classes])
    path = folder / f"{name}.npz"
    np.savez(path, X=X, y=y, bags=bags, shares=shares)
    return path


def run(python: str, name: str, files: list[Path], limit: float) -> tuple[list[Any], str]:
    """Return what a worker process measured, a dict a fit, and in a word why it went no further."""
    script = "llp_learn_worker.py" if name in PEER else "methods.py"
    command = [python, str(HERE / script), "--worker", name, *map(str, files)]
    stopped = ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        printed = done.stdout
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            stopped = f"cannot: {lines[-1] if lines else f'exit status {done.returncode}'}"
    except subprocess.TimeoutExpired as error:
        printed = (error.stdout or b"").decode()
        stopped = f"stopped after {limit:g} s"
    return [json.loads(line) for line in printed.splitlines() if line.endswith("}")], stopped


def accuracy_tables(arguments: argparse.Namespace, folder: Path) -> None:
    seeds = range(arguments.seeds)
    for data, draw in tables(arguments.psvm).items():
        if arguments.data and not any(part in data for part in arguments.data):
            continue
        files = [save(folder, f"{data}-{seed}", *draw(seed)) for seed in seeds]
        several = len(np.load(files[0])["shares"][0]) > 2
        print(f"\n{data}: mean (std) of {arguments.seeds} seeds, per fit")
        print(f"{'':24}{'under totals':>16}{'rule alone':>16}{'CPU s':>9}{'peak MiB':>10}")
        for name, python in everyone(arguments):
            print(f"{name:24}", end="", flush=True)
            if several and name in PEER:
                print("  two classes only")
                continue
            got, stopped = run(python, name, files, arguments.limit * arguments.seeds)
            if got:
                column = {key: [one[key] for one in got] for key in got[0]}
                cells = [
                    f"{np.mean(column[key]):>8.3f} ({np.std(column[key]):.3f})"
                    for key in ("totals", "rule")
                ]
                cost = f"{np.mean(column['cpu']):>9.2f}{max(column['peak']):>10.0f}"
                print(f"{''.join(cells)}{cost}", end="")
            print(f"  {stopped}, {len(got)} fits done" if stopped else "", flush=True)


def growth_table(arguments: argparse.Namespace, folder: Path) -> None:
    from apportion.datasets import make_drifting_clouds

    n_features = arguments.features
    what = f"drifting clouds of {n_features} features, bags of 50"
    print(f"\nCPU seconds of one fit (and peak MiB): {what}")
    print(f"{'':24}" + "".join(f"{size:>18,}" for size in arguments.sizes))
    files = {
        size: save(
            folder,
            f"clouds-{size}",
            *make_drifting_clouds(size, size // 50, n_features=n_features, random_state=0),
        )
        for size in arguments.sizes
    }
    for name, python in everyone(arguments):
        print(f"{name:24}", end="", flush=True)
        for size in arguments.sizes:
            got, stopped = run(python, name, [files[size]], arguments.limit)
            if not got:
                print(f"  {stopped}", end="")
                break
            print(f"{got[0]['cpu']:>9.2f} ({got[0]['peak']:>6.0f})", end="", flush=True)
        print(flush=True)


def everyone(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    ours = [(name, sys.executable) for name in methods(0)]
    peer = [(name, arguments.llp_learn) for name in PEER if arguments.llp_learn]
    return [
        (name, python)
        for name, python in ours + peer
        if not arguments.methods or any(part in name for part in arguments.methods)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=120, help="seconds for one fit")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--features", type=int, default=10, help="features of the growing clouds")
    parser.add_argument("--psvm", type=Path, default=PSVM, help="a folder with heart.mat")
    parser.add_argument("--llp-learn", help="a Python in which llp-learn is installed")
    parser.add_argument("--only", choices=["accuracy", "growth"])
    parser.add_argument("--data", nargs="+", help="only data sets whose name has one of these")
    parser.add_argument("--methods", nargs="+", help="only methods whose name has one of these")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        name, *files = arguments.worker
        methods(0)
        measure(lambda X, bags, shares, seed: fit_and_label(name, X, bags, shares, seed), files)
        return
    with tempfile.TemporaryDirectory() as folder:
        if arguments.only != "growth":
            accuracy_tables(arguments, Path(folder))
        if arguments.only != "accuracy":
            growth_table(arguments, Path(folder))


if __name__ == "__main__":
    main()
