"""Compare the answers of an old commit with those of this tree; exit with 1 where they differ.

    python benchmarks/old_and_new.py COMMIT [--problems 200]

Three things are compared. Estimators, on random problems: labels and predictions must be equal,
soft labels equal to 1e-9, and errors and warnings of the same classes. `apportion label`, on the
demo and on the cases of `label_cases.py`: exit codes and the bytes of the tables must be equal.
`apportion.distributed.LPLLP`, on bags across partitions: labels must be equal, soft labels equal
to 1e-9. 200 problems take about eight minutes of CPU time for each source.

Each source runs in a process of its own, which is this script with `--answers FILE`. That part
imports only public names, which both versions have.
"""

from __future__ import annotations

import argparse
import io
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from label_cases import CASES

ROOT = Path(__file__).resolve().parents[1]
ATOL = 1e-9
"""Soft labels may differ by this: sums in another order are not the same to the last bit."""

DEMO = ("--days", "3", "--participants", "2", "--minutes", "10")
DEMO_FILES = ("windows.csv", "diary.csv", "truth.csv", "labels.csv")

Answer = dict[str, Any]
"""What came out of one fit or command: arrays of floats are compared to `ATOL`."""


# --- Random problems ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Rows, and what is known of their labels; `X_new` are rows to predict."""

    X: Any
    X_new: Any
    y: Any
    bags: Any
    proportions: Any

    def similarities(self) -> Any:
        """Return an RBF kernel of all pairs of rows, for precomputed graphs."""
        squared = ((self.X[:, None] - self.X[None]) ** 2).sum(axis=2)
        return np.exp(-squared / np.median(squared[squared > 0]))


def draw_problem(seed: int) -> Problem:
    """Return clouds of rows in random bags with totals of a random kind."""
    from apportion import Totals

    rng = np.random.default_rng(seed)
    n_classes, n_bags = int(rng.integers(2, 7)), int(rng.integers(3, 9))
    n, d = int(rng.integers(8, 40)) + 4 * n_bags, int(rng.integers(1, 6))
    labels = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)])
    centers = rng.normal(size=(n_classes, d)) * rng.choice([0.5, 2.0, 6.0])
    X = centers[labels] + rng.normal(size=(n, d))
    if rng.random() < 0.2:
        X[-5:] = X[:5]  # duplicate rows
    codes = np.concatenate([np.arange(n_bags), rng.integers(0, n_bags, n - n_bags)])
    counts = np.zeros((n_bags, n_classes))
    np.add.at(counts, (codes, labels), 1.0)
    kind = ("counts", "shares", "intervals", "unknown")[seed % 4]
    if kind == "counts":
        totals = Totals.from_counts(counts)
    elif kind == "shares":
        totals = Totals.from_proportions(counts / counts.sum(axis=1, keepdims=True))
    elif kind == "intervals":
        shares, width = counts / counts.sum(axis=1, keepdims=True), rng.random(counts.shape) / 5
        totals = Totals.from_intervals(np.maximum(shares - width, 0), np.minimum(shares + width, 1))
    else:
        totals = Totals.from_counts(np.where(rng.random(counts.shape) < 0.3, np.nan, counts))
    bags: list[Any] = codes.tolist()
    if kind != "counts" and rng.random() < 0.3:  # rows in no bag
        bags = [None if u < 0.1 else bag for bag, u in zip(bags, rng.random(n), strict=True)]
    y = None
    if rng.random() < 0.4:  # labels of some rows
        y = [h if u < 0.15 else None for h, u in zip(labels.tolist(), rng.random(n), strict=True)]
    return Problem(X, X[:7] + rng.normal(size=(7, d)) / 4, y, bags, totals)


def estimators() -> dict[str, Any]:
    """Return every estimator, LPLLP with every graph, solver and decoding."""
    import apportion as a

    graphs: dict[str, Any] = {
        "auto": "auto",
        "knn": a.KNNGraph(3),
        "rbf": a.RBFGraph([0.1, 1.0]),
        "anchor": a.AnchorGraph(12, 3),
        "precomputed": "precomputed",
    }
    # Slow solvers stop early: what they have reached by then is compared.
    models: dict[str, Any] = {
        f"LPLLP {name}, {solver}": a.LPLLP(graph, solver=solver, max_iter=limit, random_state=0)
        for name, graph in graphs.items()
        for solver, limit in (("accelerated", 200), ("plain", 60), ("literal", 8))
    }
    fixed: dict[str, Any] = {"random_state": 0}
    models |= {
        "LPLLP threshold, not refined": a.LPLLP(decode="threshold", refine=False, **fixed),
        "LPLLP settled, order 3": a.LPLLP(stop="settled", order=3, **fixed),
        "LPLLP euclidean, alpha 0.9": a.LPLLP(metric="euclidean", alpha=0.9, **fixed),
        "LPLLP alternating": a.LPLLP(
            projection="alternating", solver="plain", max_iter=20, **fixed
        ),
        "LPLLP with a prior": a.LPLLP(prior=a.MeanMap(random_state=0), **fixed),
        "LabelPropagation knn": a.LabelPropagation(a.KNNGraph(5)),
        "LabelPropagation rbf, quota": a.LabelPropagation("rbf", decode="quota", order=4),
        "WeightedKNN": a.WeightedKNN(**fixed),
        "WeightedKNN precomputed": a.WeightedKNN("precomputed", **fixed),
        "InvCal linear": a.InvCal(**fixed),
        "InvCal rbf": a.InvCal("rbf", C=2.0, **fixed),
        "PropSVM rbf": a.PropSVM(n_starts=2, **fixed),
        "PropSVM linear": a.PropSVM("linear", n_starts=1, **fixed),
        "MeanMap linear": a.MeanMap(**fixed),
        "MeanMap rbf": a.MeanMap("rbf", **fixed),
        "EMLLP": a.EMLLP(**fixed),
    }
    return models


def fit_answer(problem: Problem, estimator: Any) -> Answer:
    """Fit a clone; return labels, soft labels and predictions, or the class of the error."""
    from sklearn.base import clone

    precomputed = getattr(estimator, "graph", None) == "precomputed"
    X = problem.similarities() if precomputed else problem.X
    known = {"bags": problem.bags, "proportions": problem.proportions}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = clone(estimator).fit(X, problem.y, **known)
        except (ValueError, TypeError, NotImplementedError) as error:
            return {"error": type(error).__name__}
        answer = {
            "labels": model.transduction_.tolist(),
            "soft": model.label_distributions_,
            "tied": model.tied_.tolist(),
            "assigned": {name: a.tolist() for name, a in model.bag_report_.assigned.items()},
        }
        if not precomputed:
            answer["predict"] = model.predict(problem.X_new).tolist()
            answer["predict_proba"] = model.predict_proba(problem.X_new)
    return answer | {"warnings": sorted({warning.category.__name__ for warning in caught})}


# --- The command line -----------------------------------------------------------------------------


def command_answer(words: tuple[str, ...], files: tuple[str, ...]) -> Answer:
    """Run a command in this process; return its exit code and the bytes of these files."""
    from apportion.__main__ import main

    sys.argv, code = ["apportion", *words], 0
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    paths = [Path(name) for name in files]
    return {"code": code} | {p.name: p.read_bytes() if p.exists() else None for p in paths}


def label_answers() -> Iterator[tuple[str, Answer]]:
    """Label the demo's week and every case, each in a folder of its own."""
    for name, (texts, words) in {"demo": ({}, ()), **CASES}.items():
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            for file, text in texts.items():
                Path(file).write_text(text)
            if name == "demo":
                made = tuple(f"week/{file}" for file in DEMO_FILES)
                yield name, command_answer(("demo", "week", *DEMO), made)
            else:
                answer = command_answer(
                    ("label", *words, "--output", "labels.csv"), ("labels.csv",)
                )
                yield name, answer


# --- Dask -----------------------------------------------------------------------------------------


def dask_answers() -> Iterator[tuple[str, Answer]]:
    """Fit problems of two to four classes, with bags across partitions, in this process."""
    import dask.array as da
    from distributed import Client

    from apportion.distributed import LPLLP

    with Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None
    ) as client:
        for seed in range(4):
            rng = np.random.default_rng(seed)
            n, n_classes, n_bags = 600, 2 + seed % 3, 12
            labels = rng.integers(0, n_classes, n)
            X = 4 * rng.normal(size=(n_classes, 3))[labels] + rng.normal(size=(n, 3))
            # All bags of even seeds lie in several partitions, those of odd seeds only at borders.
            bags = np.sort(rng.integers(0, n_bags, n)) if seed % 2 else rng.integers(0, n_bags, n)
            counts = np.zeros((n_bags, n_classes))
            np.add.at(counts, (bags, labels), 1.0)
            rows = da.from_array(X, chunks=(150, 3))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model = LPLLP(n_anchors=40, tol=1e-6).fit(
                    rows,
                    bags=bags,
                    proportions=counts / counts.sum(axis=1, keepdims=True),
                    client=client,
                )
            yield (
                f"{n_classes} classes, seed {seed}",
                {
                    "labels": model.labels().compute().tolist(),
                    "soft": model.label_distributions().compute(),
                    "spanning": model.n_spanning_,
                    "unique": model.unique_,
                    "warnings": sorted({warning.category.__name__ for warning in caught}),
                },
            )
            model.close()


# --- Both sources ---------------------------------------------------------------------------------


def answers(n_problems: int) -> Iterator[tuple[tuple[str, str], Answer]]:
    """Yield the group, the name and the answer of everything that is compared."""
    models = estimators()
    for seed in range(n_problems):
        problem = draw_problem(seed)
        if seed % 20 == 0:
            print(f"problem {seed} of {n_problems}", file=sys.stderr, flush=True)
        for name, model in models.items():
            yield (name, f"problem {seed}"), fit_answer(problem, model)
    for group, pairs in (("apportion label", label_answers()), ("Dask LPLLP", dask_answers())):
        for name, answer in pairs:
            yield (group, name), answer


def run(source: Path, n_problems: int, file: Path) -> subprocess.Popen[bytes]:
    """Start a process that writes the answers of the package in a folder to a file."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, __file__, "--answers", str(file), "--problems", str(n_problems)]
    return subprocess.Popen([*words, "--source", str(source)], env=environment)


def run_both(old: Path, new: Path, n_problems: int) -> list[dict[tuple[str, str], Answer]]:
    """Return the answers of two sources, which run side by side."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("old.pickle", "new.pickle")]
        started = [
            run(source, n_problems, file) for source, file in zip((old, new), files, strict=True)
        ]
        try:
            if any(process.wait() for process in started):
                raise SystemExit("one of the two sources failed: see above")
        finally:
            for process in started:
                process.kill()
        return [pickle.loads(file.read_bytes()) for file in files]


def difference(old: Any, new: Any) -> str:
    """Return in what two answers differ, or an empty text."""
    if old is None or new is None:
        return "missing"
    for key in [*old, *(key for key in new if key not in old)]:
        a, b = old.get(key), new.get(key)
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            if a.shape != b.shape or not np.allclose(a, b, rtol=0, atol=ATOL):
                off = np.abs(a - b).max() if a.shape == b.shape else "shape"
                return f"{key}: off by {off}"
        elif a != b or type(a) is not type(b):
            short = isinstance(a, bytes | list) or isinstance(b, bytes | list)
            return key if short else f"{key}: {a!r} → {b!r}"
    return ""


def extract(commit: str, folder: Path) -> Path:
    """Write the source of a commit below a folder, and return where it is; a tree stays there."""
    if Path(commit, "src").is_dir():
        return Path(commit, "src").resolve()
    archive = subprocess.run(
        ["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return folder / "src"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("commit", nargs="?", help="the old commit, or the folder of its tree")
    parser.add_argument("--problems", type=int, default=200, help="random problems (default: 200)")
    parser.add_argument("--answers", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--source", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answers is not None:
        import apportion

        assert Path(apportion.__file__).is_relative_to(options.source), apportion.__file__
        options.answers.write_bytes(pickle.dumps(dict(answers(options.problems))))
        return 0
    if options.commit is None:
        parser.error("name the old commit")
    with tempfile.TemporaryDirectory() as folder:
        source = extract(options.commit, Path(folder))
        old, new = run_both(source, ROOT / "src", options.problems)
    keys = list(dict.fromkeys([*old, *new]))
    differences = {key: difference(old.get(key), new.get(key)) for key in keys}
    print(f"{'':<36} {'compared':>8} {'errors':>8} {'differ':>8}")
    for group in dict.fromkeys(group for group, _ in keys):
        of_group = [key for key in keys if key[0] == group]
        n_errors = sum(
            "error" in old.get(key, {}) or bool(old.get(key, {}).get("code")) for key in of_group
        )
        n_differ = sum(bool(differences[key]) for key in of_group)
        print(f"{group:<36} {len(of_group):>8} {n_errors:>8} {n_differ:>8}")
    for (group, name), text in differences.items():
        if text:
            print(f"{group}, {name}: {text}")
    n_differ = sum(map(bool, differences.values()))
    print(f"{len(keys)} compared, {n_differ} differ")
    return int(n_differ > 0)


if __name__ == "__main__":
    sys.exit(main())
