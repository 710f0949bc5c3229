"""Accuracy beside the published figures of a benchmark of learning with label proportions.

    python benchmarks/published.py                                     # all sets, methods and seeds
    python benchmarks/published.py --methods MeanMap InvCal --seeds 1  # a quick look
    python benchmarks/published.py --sets hard --limit 120             # fits of up to two minutes

The protocol is that of Franco et al. (repository gaabrielfranco/complex-llp-evaluation, CC0). The
rows are Adult; a quarter of them is held out at random. Features are scaled to [-1, 1] on the other
rows, whose bags' proportions are given. Accuracy and F1 are those of the rows held out, which are
labeled without totals. Every fit is appended to a file of results, and what is there already is not
measured again: stop it at any time with Ctrl-C, and start it again to go on.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data" / "llp-benchmark"
RESULTS = ROOT / ".cache" / "published.jsonl"
SEEDS = [189395, 962432364, 832061813]
"""The first three of the ten seeds of the published runs."""

PEERS = ["MM", "LMM", "AMM", "EM/LR", "DLLP", "LLP-VAT", "LLPFC", "MixBag"]
PUBLISHED = {
    "simple-massive": [0.849, 0.849, 0.748, 0.762, 0.761, 0.820, 0.831, 0.817],
    "hard-massive": [0.835, 0.836, 0.736, 0.759, 0.761, 0.820, 0.820, 0.814],
    "intermediate-massive": [0.761, 0.780, 0.743, 0.749, 0.822, 0.820, 0.761, 0.818],
    "naive-massive": [0.726, 0.732, 0.684, 0.635, 0.761, 0.761, 0.676, 0.761],
    "simple-large": [0.839, 0.838, 0.784, 0.691, 0.761, 0.788, 0.834, 0.782],
    "hard-large": [0.828, 0.818, 0.760, 0.690, 0.761, 0.782, 0.791, 0.785],
    "intermediate-large": [0.759, 0.763, 0.692, 0.680, 0.761, 0.760, 0.716, 0.759],
    "naive-large": [0.753, 0.754, 0.710, 0.633, 0.761, 0.761, 0.736, 0.761],
}
"""Accuracies of PEERS that Franco et al. published: means over their runs, with parameters selected
without labels ("abs"). `massive` sets have 30 bags, `large` ones fewer and equal ones."""

APPORTION = {
    "MeanMap": {},
    "LaplacianMeanMap": {},
    "InvCal": {},
    "CountLogistic": {},
    "EMLLP": {"random_state": 0},
    "LPLLP": {"random_state": 0},
    "AutoLLP": {"random_state": 0},
}
"""The estimators with their defaults; those that this version does not have are left out."""

Key = tuple[str, str, int]
Result = dict[str, Any]


class Problem(NamedTuple):
    """Rows and bags to learn from, and rows to label."""

    X: Any
    y: Any
    bags: Any
    new_rows: Any
    new_y: Any


def methods() -> dict[str, Callable[[Problem], Any]]:
    """Return, by name, functions that learn from a problem and label its new rows."""
    import apportion

    known = {name: APPORTION[name] for name in APPORTION if name in apportion.__all__}
    ours = {
        name: _from_totals(getattr(apportion, name)(**options)) for name, options in known.items()
    }
    return {**ours, "majority": _majority, "supervised": _supervised}


def _from_totals(model: Any) -> Callable[[Problem], Any]:
    def labels(problem: Problem) -> Any:
        from apportion import Totals

        totals = Totals.from_labels(problem.y, problem.bags)
        return model.fit(problem.X, bags=problem.bags, proportions=totals).predict(problem.new_rows)

    return labels


def _majority(problem: Problem) -> Any:
    return np.full(len(problem.new_y), np.bincount(problem.y).argmax())


def _supervised(problem: Problem) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=2000).fit(problem.X, problem.y).predict(problem.new_rows)


class Adult:
    """The rows, which all sets share, and the bags of every set."""

    def __init__(self, folder: Path) -> None:
        import pandas as pd

        if not (folder / "adult.parquet").exists():
            raise SystemExit(f"No adult.parquet in {folder}: give the folder by --data.")
        table = pd.read_parquet(folder / "adult.parquet")
        self.y = table.pop("y").to_numpy().astype(int)
        self.X = table.to_numpy(dtype=float)
        self._folder = folder
        self._read = pd.read_parquet

    def problem(self, name: str, seed: int) -> Problem:
        """Return a set, split by a seed."""
        from sklearn.model_selection import ShuffleSplit
        from sklearn.preprocessing import MinMaxScaler

        files = sorted(self._folder.glob(f"adult-{name}-*.parquet"))
        if len(files) != 1:
            raise SystemExit(f"Found {len(files)} files adult-{name}-*.parquet in {self._folder}.")
        bags = self._read(files[0])["bag"].to_numpy()
        split = ShuffleSplit(n_splits=1, test_size=0.25, random_state=seed)
        old, new = next(split.split(self.X))
        scaler = MinMaxScaler((-1, 1)).fit(self.X[old])
        return Problem(
            scaler.transform(self.X[old]),
            self.y[old],
            bags[old],
            scaler.transform(self.X[new]),
            self.y[new],
        )


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Raise a TimeoutError in the block when its time is up, where the system has such alarms."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"stopped after {seconds:g} s")

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def measure(labels_of: Callable[[Problem], Any], problem: Problem, limit: float) -> Result:
    """Return the scores and the cost of one fit, or why there are none."""
    from sklearn.metrics import f1_score

    wall, cpu = time.perf_counter(), time.process_time()
    result: Result = {}
    try:
        with stopped_after(limit):
            labels = labels_of(problem)
        result["accuracy"] = float(np.mean(labels == problem.new_y))
        result["f1"] = float(f1_score(problem.new_y, labels, zero_division=0))
    except TimeoutError as error:
        result |= {"stopped": str(error), "limit": limit}
    except Exception as error:  # one method that fails must not cost the others
        result["stopped"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    result["cpu"] = round(time.process_time() - cpu, 2)
    result["wall"] = round(time.perf_counter() - wall, 2)
    return result


def read_results(path: Path) -> dict[Key, Result]:
    """Return the results so far, of which the last of each fit counts."""
    results: dict[Key, Result] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            # The last line may be cut if the machine was switched off.
            with suppress(json.JSONDecodeError):
                result = json.loads(line)
                results[result["set"], result["method"], result["seed"]] = result
    return results


def run(arguments: argparse.Namespace, fits: list[Key]) -> dict[Key, Result]:
    """Return the results of all fits, after measuring those that are missing."""
    results = read_results(arguments.results)
    missing = [
        key for key in fits if arguments.again or not settled(results.get(key), arguments.limit)
    ]
    if not missing:
        return results
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    adult, everyone = Adult(arguments.data), methods()
    problem_of: tuple[Any, Any] = (None, None)
    with arguments.results.open("a") as file:
        for number, key in enumerate(missing):
            name, method, seed = key
            left = time_left(missing[number:], results, arguments.limit)
            where = f"[{number + 1}/{len(missing)}] {name} · {method} · seed {seed}"
            print(f"{where}, about {left / 60:.0f} min left", end="", flush=True)
            if problem_of[0] != (name, seed):
                problem_of = (name, seed), adult.problem(name, seed)
            result = measure(everyone[method], problem_of[1], arguments.limit)
            results[key] = {"set": name, "method": method, "seed": seed, **result}
            file.write(json.dumps(results[key]) + "\n")
            file.flush()
            print(f": {scores([result])}, {result['cpu']:.1f} s CPU", flush=True)
    return results


def settled(result: Result | None, limit: float) -> bool:
    """Return whether a fit is done, or was stopped at no less than this limit."""
    return result is not None and ("accuracy" in result or result.get("limit", 0.0) >= limit)


def time_left(missing: list[Key], results: dict[Key, Result], limit: float) -> float:
    """Return the seconds of the fits that are missing, each like those of its method so far."""
    walls: dict[str, list[float]] = {}
    for (_, method, _), result in results.items():
        walls.setdefault(method, []).append(result["wall"])
    usual = np.mean([np.mean(seen) for seen in walls.values()]) if walls else 10.0
    return float(sum(min(limit, np.mean(walls.get(key[1], [usual]))) for key in missing))


def scores(results: list[Result]) -> str:
    """Return mean accuracy | F1, or why there is none."""
    done = [result for result in results if "accuracy" in result]
    if not done:
        return str(results[0]["stopped"]) if results else ""
    return " | ".join(f"{np.mean([r[key] for r in done]):.3f}" for key in ("accuracy", "f1"))


def print_table(names: list[str], shown: list[str], seeds: list[int], results: Any) -> None:
    """Print the best published accuracy of every set, and accuracy | F1 of every method."""
    width = 2 + max(17, *map(len, shown))
    print(f"\nTest accuracy | F1, means of {len(seeds)} seeds or (fewer); published: the best of 8")
    print(f"{'':22}{'published':>18}" + "".join(f"{method:>{width}}" for method in shown))
    for name in names:
        best = max(PUBLISHED[name])
        peer = PEERS[PUBLISHED[name].index(best)]
        line = f"{name:22}{f'{peer} {best:.3f}':>18}"
        for method in shown:
            of_method = [results[k] for s in seeds if (k := (name, method, s)) in results]
            n_done = sum("accuracy" in result for result in of_method)
            some = f" ({n_done})" if 0 < n_done < len(seeds) else ""
            line += f"{scores(of_method)[: width - 2] + some:>{width}}"
        print(line)
    cpu = [[r["cpu"] for k, r in results.items() if k[1] == m and k[0] in names] for m in shown]
    cells = [f"{np.mean(seconds):.1f}" if seconds else "" for seconds in cpu]
    print(f"{'CPU s per fit':40}" + "".join(f"{cell:>{width}}" for cell in cells))


def print_verdict(names: list[str], seeds: list[int], results: Any) -> None:
    """Say where AutoLLP is at least as accurate as the best published method."""
    for name in names:
        got = [results.get((name, "AutoLLP", seed), {}).get("accuracy") for seed in seeds]
        if None in got:
            continue
        mean, best = float(np.mean(got)), max(PUBLISHED[name])
        word = "at least" if round(mean, 3) >= best else "BELOW"
        print(f"AutoLLP on {name}: {mean:.3f}, {word} the best published, {best:.3f}")


def named(wanted: list[str] | None, names: list[str], option: str) -> list[str]:
    """Return the names that contain one of those wanted, or are one of them; all by default."""
    if not wanted:
        return names
    unknown = [part for part in wanted if not any(part in name for name in names)]
    if unknown:
        raise SystemExit(f"{option}: {unknown[0]} is none of {', '.join(names)}.")
    exact = [part for part in wanted if part in names]
    parts = [part for part in wanted if part not in names]
    return [name for name in names if name in exact or any(part in name for part in parts)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", help="only sets whose name has one of these")
    parser.add_argument("--methods", nargs="+", help="only these methods, or parts of names")
    parser.add_argument("--seeds", type=int, default=3, choices=[1, 2, 3], help="how many seeds")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one fit")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of adult.parquet")
    parser.add_argument("--results", type=Path, default=RESULTS, help="a file to append to")
    parser.add_argument("--again", action="store_true", help="measure what is there already")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    names = named(arguments.sets, list(PUBLISHED), "--sets")
    shown = named(arguments.methods, list(methods()), "--methods")
    seeds = SEEDS[: arguments.seeds]
    fits = [(name, method, seed) for seed in seeds for name in names for method in shown]
    try:
        results = run(arguments, fits)
    except KeyboardInterrupt:
        print(f"\nStopped; what is done is in {arguments.results}. The same command goes on.")
        results = read_results(arguments.results)
    print_table(names, shown, seeds, results)
    print_verdict(names, seeds, results)


if __name__ == "__main__":
    main()
