"""LP-LLP on two worker processes against one process, on the same two cores.

    python benchmarks/cluster.py [--rows 2000100] [--workers 2] [--partitions 4] [--scattered]

Both read the same Parquet files: overlapping clusters of 20 features, bags of 1,000 rows that
follow each other, so that few lie in two files, or are scattered over all of them
(`--scattered`). Prints times, labels that differ, the most memory of any process, requests, and the
bytes that each moves. With `--against TREE`, a cluster of this source is compared with one of the
source of another tree instead; the two run in turn.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from clusters import FEATURES, overlapping_clusters

BAG_ROWS = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_100)
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--anchors", type=int, help="their number; by default by that of rows")
    parser.add_argument("--scattered", action="store_true", help="bags lie in all files")
    parser.add_argument("--give-back", action="store_true", help="memory, as Dask has it")
    parser.add_argument("--against", type=Path, metavar="TREE", help="compare with its src/")
    parser.add_argument("--repetitions", type=int, default=3, help="with --against: of each")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--side", choices=("alone", "cluster", "plain"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side == "alone":
        alone(given.folder, given.anchors or "auto")
    elif given.side == "cluster":
        if given.give_back:
            from apportion._dask.cluster import _KEEP_MEMORY

            _KEEP_MEMORY.clear()
        on_cluster(given.folder, given.workers, given.anchors or "auto")
    elif given.side == "plain":
        plain(given.folder, given.workers, given.anchors or "auto")
    else:
        with tempfile.TemporaryDirectory() as folder:
            (compare if given.against is None else compare_sources)(Path(folder), given)


def compare(folder: Path, given: argparse.Namespace) -> None:
    write_rows(folder, given)
    layout = "scattered over all files" if given.scattered else "of rows that follow each other"
    print(
        f"{given.rows:,} rows x {FEATURES}, {given.classes} classes, {given.partitions} files, "
        f"bags {layout}; {given.workers} workers"
    )
    seconds = {}
    for side in ("alone", "cluster"):
        words = ["--side", side, "--folder", str(folder), "--workers", str(given.workers)]
        words += ["--anchors", str(given.anchors)] if given.anchors else []
        words += ["--give-back"] if given.give_back else []
        child = subprocess.Popen(
            [sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True
        )
        watched = Watched(child.pid)
        out, _ = child.communicate()
        if child.returncode:
            sys.exit(f"{side}: failed")
        lines = out.strip().splitlines()
        seconds[side] = float(lines[-1])
        for line in lines[:-1]:
            print(f"  {side}: {line}")
        print(f"  {side}: fit {seconds[side]:.1f} s, no process above {watched.peak():.2f} GiB")
    labels = {side: np.load(folder / f"{side}.npy") for side in seconds}
    differ = int((labels["alone"] != labels["cluster"]).sum())
    truth = np.load(folder / "truth.npy")
    print(f"  ratio {seconds['cluster'] / seconds['alone']:.2f}; {differ} labels differ")
    print(f"  right: {np.mean(labels['cluster'] == truth):.1%}")


def compare_sources(folder: Path, given: argparse.Namespace) -> None:
    """Print seconds of a cluster of the other tree's source and of this one's, in turn."""
    write_rows(folder, given)
    sources = {"old": given.against / "src", "new": Path(__file__).parents[1] / "src"}
    words = ["--side", "plain", "--folder", str(folder), "--workers", str(given.workers)]
    words += ["--anchors", str(given.anchors)] if given.anchors else []
    seconds: dict[str, list[float]] = {name: [] for name in sources}
    labels = {}
    for _ in range(given.repetitions):
        for name, source in sources.items():
            done = subprocess.run(
                [sys.executable, __file__, *words],
                env={**os.environ, "PYTHONPATH": str(source.resolve())},
                check=True,
                stdout=subprocess.PIPE,
            )
            seconds[name].append(float(done.stdout.split()[-1]))
            labels[name] = np.load(folder / "plain.npy")
    old, new = (statistics.median(seconds[name]) for name in sources)
    differ = int((labels["old"] != labels["new"]).sum())
    print(
        f"{given.rows:,} rows, {given.workers} workers, median of {given.repetitions}: "
        f"old {old:.1f} s, new {new:.1f} s, ratio {new / old:.2f}; {differ} labels differ"
    )


def write_rows(folder: Path, given: argparse.Namespace) -> None:
    X, y, bags = overlapping_clusters(given.rows, n_classes=given.classes, bag_size=BAG_ROWS)
    order = np.arange(len(y)) if given.scattered else np.argsort(bags, kind="stable")
    X, y, bags = X[order], y[order], bags[order]
    np.save(folder / "truth.npy", y)
    counts = np.zeros((bags.max() + 1, given.classes))
    np.add.at(counts, (bags, y), 1)
    np.save(folder / "shares.npy", counts / counts.sum(axis=1, keepdims=True))
    (folder / "rows").mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(y)), given.partitions)):
        columns = {f"x{j:02d}": X[part, j] for j in range(X.shape[1])}
        table = pa.table({"bag": bags[part], **columns})
        pq.write_table(table, folder / "rows" / f"part-{number:03d}.parquet")


def alone(folder: Path, anchors: int | str) -> None:
    """Fit in one process, from reading to labels; the last line says how long that took."""
    from apportion import LPLLP, AnchorGraph, read_rows
    from apportion._utils.progress import progress_callback

    started = time.perf_counter()
    files = sorted((folder / "rows").glob("*.parquet"))
    bags = np.concatenate([pq.read_table(file, columns=["bag"])["bag"] for file in files])
    names = [f"x{j:02d}" for j in range(FEATURES)]
    X = np.concatenate([read_rows(file, names, dtype=np.float64) for file in files])
    model = LPLLP(AnchorGraph(anchors), random_state=0)
    stages = Stages()
    with progress_callback(stages):
        model.fit(X, bags=bags, proportions=np.load(folder / "shares.npy"))
    seconds = time.perf_counter() - started
    print(stages.summary())
    np.save(folder / "alone.npy", model.transduction_)
    print(f"{model.n_iter_} iterations, {model.tied_.sum()} rows tied")
    print(seconds)


def on_cluster(folder: Path, workers: int, anchors: int | str) -> None:
    """Fit on a local cluster, from reading to labels; the last line says how long that took."""
    from apportion._dask.cluster import started as cluster
    from apportion._utils.progress import progress_callback
    from apportion.distributed import LPLLP

    with cluster(None, workers) as (client, where):
        print(where)
        logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
        logging.getLogger("apportion").setLevel(logging.INFO)
        stages = Stages()
        started = time.perf_counter()
        with progress_callback(stages):
            model = LPLLP(anchors).fit(
                folder / "rows",
                bags="bag",
                proportions=np.load(folder / "shares.npy"),
                client=client,
            )
        labels = model.labels().compute()
        seconds = time.perf_counter() - started
        print(stages.summary())
        np.save(folder / "cluster.npy", labels)
        print(
            f"{model.n_iter_} iterations, {model.n_requests_} requests, {model.n_tasks_} tasks; "
            f"{model.n_spanning_} bags in several files"
        )
        print(
            f"a request moves at most {model.bytes_per_request_:,} bytes to and from a partition, "
            f"an iteration {model.bytes_per_request_ * model.n_requests_ // model.n_iter_:,}; "
            f"{model.n_gathered_:,} rows gathered"
        )
    print(seconds)


def plain(folder: Path, workers: int, anchors: int | str) -> None:
    """Fit on a local cluster with public names alone, which every version has."""
    from distributed import Client

    from apportion.distributed import LPLLP

    shares = np.load(folder / "shares.npy")
    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with Client(**options) as client:
        started = time.perf_counter()
        model = LPLLP(anchors).fit(folder / "rows", bags="bag", proportions=shares, client=client)
        labels = model.labels().compute()
        seconds = time.perf_counter() - started
        model.close()
    np.save(folder / "plain.npy", labels)
    print(seconds)


class Stages:
    """How long each stage of a fit took."""

    def __init__(self) -> None:
        self._begun: list[tuple[str, float]] = []

    def __call__(self, stage: str, done: float | None, detail: str = "") -> None:
        """Note when a stage begins."""
        if not self._begun or self._begun[-1][0] != stage:
            self._begun.append((stage, time.perf_counter()))

    def summary(self) -> str:
        """Return the stages and their seconds, in words."""
        ends = [begin for _, begin in self._begun[1:]] + [time.perf_counter()]
        parts = [
            f"{stage} {end - begin:.1f}"
            for (stage, begin), end in zip(self._begun, ends, strict=True)
        ]
        return f"seconds: {', '.join(parts)}"


class Watched:
    """The most memory that a process, or one that it started, held at any time."""

    def __init__(self, pid: int) -> None:
        self._peaks: dict[int, int] = {}
        self._pid = pid
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def peak(self) -> float:
        """Return the most, in GiB."""
        return max(self._peaks.values(), default=0) / 2**30

    def _watch(self) -> None:
        while os.path.exists(f"/proc/{self._pid}"):
            for pid in _family(self._pid):
                try:
                    status = Path(f"/proc/{pid}/status").read_text()
                except OSError:
                    continue
                for line in status.splitlines():
                    if line.startswith("VmHWM:"):
                        self._peaks[pid] = int(line.split()[1]) * 1024
            time.sleep(0.2)


def _family(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        for thread in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += [int(child) for child in thread.read_text().split()]
            except OSError:
                continue
    return found


if __name__ == "__main__":
    main()
