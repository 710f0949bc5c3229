"""Figures of one commit, kept in a small file, and a picture of all commits that have one.

    python benchmarks/track.py                      # measure, and write benchmarks/track/*.json
    python benchmarks/track.py --plot docs/images/track.svg
    PYTHONPATH=OTHER/src python benchmarks/track.py   # the commit that is checked out in OTHER

Accuracies are of bundled and made-up data, exact totals of random bags unless it is a diary.
Ratios of CPU time are against scikit-learn on the same rows in the same run, so that they can be
compared between machines; both take turns, and medians count. Memory is the peak of a process that
fits, above what it takes after the imports. A figure that a commit has no code for is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "track"
LIBRARIES = ("numpy", "scipy", "scikit-learn", "faiss-cpu")
TURNS = 3
SPEED_ROWS, MEMORY_ROWS = 5_000, 20_000
KINDS = {
    "accuracy": "share of labels that are right",
    "time_ratio": "CPU time, relative to scikit-learn",
    "memory_mb": "peak memory of a fit, MB",
}
"""The kinds of figures, in the order of the picture."""


def right(model: Any, X: Any, y: Any, n_bags: int, seed: int) -> float:
    """Return the accuracy of a model on the rows of random bags with exact totals."""
    from apportion.datasets import make_bags

    bags, totals = make_bags(None, y, n_bags, random_state=seed)
    fitted = model.fit(X, bags=bags, proportions=totals)
    return float((fitted.transduction_ == y).mean())


def wine() -> float:
    from sklearn.datasets import load_wine
    from sklearn.preprocessing import scale

    from apportion import LPLLP

    X, y = load_wine(return_X_y=True)
    return statistics.mean(right(LPLLP(random_state=s), scale(X), y, 12, s) for s in range(3))


def wine_auto() -> float:
    from sklearn.datasets import load_wine

    from apportion import AutoLLP

    X, y = load_wine(return_X_y=True)
    return right(AutoLLP(random_state=0), X, y, 12, 0)


def digits() -> float:
    from sklearn.datasets import load_digits

    from apportion import LPLLP

    X, y = load_digits(return_X_y=True)
    return right(LPLLP(graph="knn", random_state=0), X, y, 20, 0)


def xor() -> float:
    from apportion import LPLLP
    from apportion.datasets import make_xor

    X, y = make_xor(400, random_state=0)[:2]
    return right(LPLLP(random_state=0), X, y, 20, 0)


def week(**options: Any) -> float:
    """Return the accuracy on a made-up week of three people, labeled from their diaries."""
    from apportion import label_table
    from apportion.datasets import make_smart_home

    home = make_smart_home(7, 3, seed=0, minutes=15)
    with tempfile.TemporaryDirectory() as folder:
        files = home.write(folder)
        labels = np.asarray(
            label_table(files.windows, diary=files.diary, method="lpllp", **options).labels.labels
        )
    labeled = np.array([label is not None for label in labels.tolist()])
    return float((labels == home.reported)[labeled].mean())


def week_without_time() -> float:
    try:
        return week(use_times=False)
    except TypeError:  # a commit that knows no times
        return week()


def blobs(n: int) -> tuple[Any, Any]:
    """Return rows in 20 dimensions of two overlapping classes of 20 clusters each."""
    from sklearn.datasets import make_blobs

    X, cluster = make_blobs(n, 20, centers=40, cluster_std=4.0, random_state=0)
    return X.astype(np.float32), cluster % 2


def ratio(ours: Callable[[], Any], peer: Callable[[], Any]) -> float:
    """Return the median CPU time of one function relative to another's; they take turns."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(TURNS + 1):
        for function, column in zip((ours, peer), seconds, strict=True):
            start = time.process_time()
            function()
            if turn:  # the first turn loads libraries
                column.append(time.process_time() - start)
    return statistics.median(seconds[0]) / statistics.median(seconds[1])


def fit_ratio() -> float:
    from sklearn.semi_supervised import LabelSpreading

    from apportion import LPLLP
    from apportion.datasets import make_bags

    X, y = blobs(SPEED_ROWS)
    bags, totals = make_bags(None, y, SPEED_ROWS // 50, random_state=0)
    few = np.where(np.arange(len(y)) % 100 == 0, y, -1)
    return ratio(
        lambda: LPLLP(graph="knn", random_state=0).fit(X, bags=bags, proportions=totals),
        lambda: LabelSpreading(kernel="knn", n_neighbors=10).fit(X, few),
    )


def graph_ratio() -> float:
    from sklearn.neighbors import NearestNeighbors

    from apportion import KNNGraph

    X = blobs(SPEED_ROWS)[0]
    return ratio(
        lambda: KNNGraph(10).fit(X),
        lambda: NearestNeighbors(n_neighbors=10).fit(X).kneighbors_graph(mode="distance"),
    )


def memory() -> float:
    """Return the peak memory of a fit in a process of its own, in MB."""
    command = [sys.executable, str(Path(__file__).resolve()), "--memory"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def fit_and_print_memory() -> None:
    from apportion import LPLLP
    from apportion.datasets import make_bags

    warnings.simplefilter("ignore")
    X, y = blobs(MEMORY_ROWS)
    bags, totals = make_bags(None, y, MEMORY_ROWS // 50, random_state=0)
    LPLLP(graph="knn", random_state=0).fit(X[:200], bags=np.zeros(200), proportions={0: 0.5})
    before = peak_mb()
    LPLLP(graph="knn", random_state=0).fit(X, bags=bags, proportions=totals)
    print(peak_mb() - before)


def peak_mb() -> float:
    """Return the most memory that this process has had.

    On Linux `ru_maxrss` counts what the parent had when it started this process, too.
    """
    status = Path("/proc/self/status")
    for line in status.read_text().splitlines() if status.exists() else ():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024 / (1024 if sys.platform == "darwin" else 1)  # bytes there


FIGURES: dict[str, dict[str, Callable[[], float]]] = {
    "accuracy": {
        "wine, LPLLP": wine,
        "wine, AutoLLP": wine_auto,
        "digits, LPLLP": digits,
        "XOR, LPLLP": xor,
        "week, LPLLP without time": week_without_time,
        "week, LPLLP with time": lambda: week(use_times=True),
    },
    "time_ratio": {
        "LPLLP / LabelSpreading(kernel='knn')": fit_ratio,
        "KNNGraph / NearestNeighbors": graph_ratio,
    },
    "memory_mb": {f"LPLLP(graph='knn'), {MEMORY_ROWS:,} rows": memory},
}


def measured() -> dict[str, dict[str, float]]:
    """Return the figures of the code that is imported, and print them as they come."""
    warnings.simplefilter("ignore")
    found: dict[str, dict[str, float]] = {}
    for kind, functions in FIGURES.items():
        found[kind] = {}
        for name, function in functions.items():
            start = time.perf_counter()
            try:
                found[kind][name] = round(function(), 4)
            except (ImportError, TypeError, AttributeError, subprocess.CalledProcessError) as error:
                print(f"{name:42} left out: {error}", flush=True)
                continue
            seconds = time.perf_counter() - start
            print(f"{name:42} {found[kind][name]:9.3f} {seconds:7.1f} s", flush=True)
    return found


def git(*words: str) -> str:
    """Return what git says about the checkout of the code that is imported."""
    import apportion

    command = ["git", "-C", str(Path(apportion.__file__).parent), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def facts(dirty: bool) -> dict[str, Any]:
    """Return what the figures belong to: commit, versions and machine, without its name."""
    return {
        "commit": git("rev-parse", "HEAD"),
        "date": git("log", "-1", "--format=%cI"),
        "dirty": dirty,
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in LIBRARIES},
        },
        "machine": {
            "system": platform.system(),
            "architecture": platform.machine(),
            "cores": os.cpu_count(),
            "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        },
    }


def file_of(record: dict[str, Any], folder: Path = FOLDER) -> Path:
    """Return the file of a commit: the day it was made, and its short hash."""
    end = "-dirty" if record["dirty"] else ""
    return folder / f"{record['date'][:10]}-{record['commit'][:10]}{end}.json"


def records_in(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Return the records of a folder by the time of their commits."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    return sorted(records, key=lambda r: (datetime.fromisoformat(r["date"]), r["dirty"]))


def plot(records: Sequence[dict[str, Any]], path: Path) -> Any:
    """Draw every figure over the commits, and return the figure."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "apportion", "svg.fonttype": "none"}):
        picture = Figure(figsize=(8, 9), layout="constrained")
        axes = picture.subplots(len(KINDS), 1, sharex=True)
        for axis, (kind, title) in zip(axes, KINDS.items(), strict=True):
            _draw(axis, kind, records)
            axis.set_title(title, loc="left")
        names = [f"{r['date'][:10]}\n{r['commit'][:7]}{' +' * r['dirty']}" for r in records]
        axes[-1].set_xticks(range(len(names)), names, fontsize="small")
        picture.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return picture


def _draw(axis: Any, kind: str, records: Sequence[dict[str, Any]]) -> None:
    names = dict.fromkeys(name for record in records for name in record["figures"][kind])
    for name, marker in zip(names, "osD^vP*X" * len(names), strict=False):
        values = [record["figures"][kind].get(name, np.nan) for record in records]
        axis.plot(range(len(records)), values, marker=marker, label=name)
    if kind != "accuracy":
        axis.set_ylim(0, 1.1 * axis.dataLim.y1 if names else None)
    axis.grid(alpha=0.3)
    if names:
        axis.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plot", type=Path, help="draw all files instead of measuring")
    parser.add_argument("--dirty", action="store_true", help="measure uncommitted changes too")
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.memory:
        return fit_and_print_memory()
    if asked.plot is not None:
        plot(records_in(), asked.plot)
        return print(f"written: {asked.plot}")
    changed = git("status", "--porcelain", "--untracked-files=no")
    if changed and not asked.dirty:
        sys.exit(f"These changes belong to no commit; commit them, or add --dirty:\n{changed}")
    record = facts(bool(changed)) | {"figures": measured()}
    FOLDER.mkdir(exist_ok=True)
    path = file_of(record)
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"written: {path.relative_to(Path(__file__).parents[1])}")


if __name__ == "__main__":
    main()
