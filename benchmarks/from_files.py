"""`apportion label` from files to labels: a made-up week, WISDM, SPHERE, a million windows.

Writes the files a data manager would have into a folder, runs the commands, and holds the labels
against the truth, which no command reads. Give the folders of the data:

    python benchmarks/from_files.py --demo --wisdm FOLDER --sphere FOLDER --million
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from apportion._io.read import read_columns
from apportion.datasets import load_sphere, make_smart_home
from apportion.datasets.sphere import FIVE_GROUPS
from clusters import overlapping_clusters


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demo", action="store_true", help="the demo's week")
    parser.add_argument("--wisdm", type=Path, help="folder of WISDM_ar_v1.1_transformed.arff")
    parser.add_argument("--sphere", type=Path, help="folder of the SPHERE Challenge")
    parser.add_argument("--million", action="store_true", help="a million made-up windows")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.demo:
            demo(Path(folder))
        if given.wisdm:
            wisdm(given.wisdm / "WISDM_ar_v1.1_transformed.arff", Path(folder))
        if given.sphere:
            sphere(given.sphere, Path(folder))
        if given.million:
            million(Path(folder))


def demo(folder: Path) -> None:
    """Take three weeks like the demo's, under the default rules and others."""
    homes = [make_smart_home(7, 3, seed=seed, minutes=5) for seed in range(3)]
    n_windows = len(homes[0].activities)
    print(f"the demo's week, seeds 0 to 2: {n_windows:,} windows of 5 minutes, 3 people each")
    for extra in ([], ["--tolerance", "7.5"], ["--part", "bounds"], ["--graphs", "one"]):
        right, seconds = [], []
        for home in homes:
            files = home.write(folder, force=True)
            answer = label(files.windows, ["--diary", str(files.diary), *extra], folder)
            there = answer["label"] != None  # noqa: E711
            right.append((answer["label"] == home.reported)[there].mean())
            seconds.append(answer["seconds"])
        each = ", ".join(f"{one:.3f}" for one in right)
        print(
            f"  {' '.join(extra) or '(as it is)':<38} right {np.mean(right):.3f} ({each}), "
            f"{np.mean(seconds):.0f} s"
        )


def wisdm(file: Path, folder: Path) -> None:
    """Take users as bags, with exact shares."""
    table = read_columns(file)
    users = table.column("user").to_pylist()
    truth = table.column("class").to_pylist()
    classes = sorted(set(truth))
    counts = Counter(zip(users, truth, strict=True))
    sizes = Counter(users)
    rows = [
        [user, *(f"{counts[user, label] / sizes[user]:.12f}" for label in classes)]
        for user in sorted(sizes)
    ]
    write(folder / "users.csv", ["user", *classes], rows)
    majority = {user: max(classes, key=lambda h: counts[user, h]) for user in sizes}
    by_majority = np.mean([majority[u] == h for u, h in zip(users, truth, strict=True)])
    print(f"WISDM: {len(users):,} windows, {len(sizes)} users, {len(classes)} activities")
    for extra in ([], ["--exclude", "class"], ["--decode", "threshold"]):
        words = ["--bags", "user", "--proportions", str(folder / "users.csv"), *extra]
        labels = label(file, words, folder)
        tell(" ".join(extra) or "(as it is)", labels, np.array(truth), by_majority)


def sphere(path: Path, folder: Path) -> None:
    """Label SPHERE from one diary line per participant and minute, in percentages."""
    truth, majority, annotated, n_minutes, n_people = sphere_files(load_sphere(path), folder)
    print(
        f"SPHERE: {len(truth):,} windows of a second, {n_people} recordings, {n_minutes} minutes, "
        f"{len(FIVE_GROUPS)} groups of activities; {annotated.sum():,} annotated"
    )
    by_majority = (majority == truth)[annotated].mean()
    for extra in ([], ["--decode", "threshold"], ["--graphs", "each"]):
        words = ["--diary", str(folder / "diary.csv"), *extra]
        labels = label(folder / "windows.csv", words, folder)
        tell(" ".join(extra) or "(as it is)", labels, truth, by_majority, annotated)


def sphere_files(windows, folder: Path, only=None):
    """Write windows.csv and diary.csv, of one participant or all.

    Returns the windows' groups of activities, those that their minute has most of, which windows
    are annotated, and how many minutes and participants there are.
    """
    chosen = (
        np.ones(len(windows.start), dtype=bool) if only is None else windows.participant == only
    )
    shares, who, start = (
        windows.grouped(FIVE_GROUPS)[chosen],
        windows.participant[chosen],
        windows.start[chosen],
    )
    X = windows.X[chosen]
    names = list(FIVE_GROUPS)
    minute = np.floor(start / 60).astype(int)
    annotated = ~np.isnan(shares).any(axis=1)
    lines, majority = [], np.empty(len(minute), dtype=object)
    for one, k in sorted(set(zip(who.tolist(), minute.tolist(), strict=True))):
        mine = (who == one) & (minute == k)
        known = shares[mine & annotated]
        if not len(known):
            continue
        part = known.sum(axis=0) / mine.sum()
        percent = (f"{100 * share:.6f}%" for share in part)
        lines.append([one, 60 * k, start[mine].max() + 1, *percent])
        majority[mine] = names[int(np.argmax(part))]
    write(folder / "diary.csv", ["participant", "start", "end", *names], lines)
    cells = [
        [one, at, at + 1, *("" if np.isnan(x) else repr(float(x)) for x in row)]
        for one, at, row in zip(who, start, X, strict=True)
    ]
    write(folder / "windows.csv", ["participant", "start", "end", *windows.feature_names], cells)
    truth = np.array(names, dtype=object)[np.nan_to_num(shares).argmax(axis=1)]
    truth[~annotated] = "unknown"
    return truth, majority, annotated, len(lines), len(set(who.tolist()))


def million(folder: Path) -> None:
    """Label a million made-up windows of a minute, from the diaries of 100 people for a week."""
    people, minutes = 100, 10_000
    X, y, _ = overlapping_clusters(people * minutes, n_classes=4, bag_size=1440)
    names = np.array(["sleep", "sit", "walk", "work"])
    who = np.repeat(np.arange(people), minutes)
    start = np.datetime64("2024-03-04", "s") + np.tile(np.arange(minutes), people) * 60
    day = start.astype("M8[D]")
    # A day's shares differ from day to day: rows are given to days by their labels, in runs.
    order = np.lexsort((drift(y, who), who))
    X, y = X[order], y[order]
    truth = names[y]
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    table = pa.table({"participant": who, "start": start, **columns})
    pq.write_table(table, folder / "million.parquet")
    lines, by_majority = [], 0.0
    for person, date in sorted(set(zip(who.tolist(), day.tolist(), strict=True))):
        mine = (who == person) & (day == np.datetime64(date))
        last = start[mine].max() + np.timedelta64(60, "s")
        counts = [int((truth[mine] == name).sum()) for name in names]
        by_majority += max(counts) / len(y)
        lines.append([person, start[mine].min(), last, *(f"{count}min" for count in counts)])
    write(folder / "days.csv", ["participant", "start", "end", *names], lines)
    print(f"{len(y):,} made-up windows of 20 features, {len(lines)} days of {people} people")
    answer = label(folder / "million.parquet", ["--diary", str(folder / "days.csv")], folder)
    tell("(as it is)", answer, truth, by_majority)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"  peak memory {peak:.2f} GiB\n{answer['talk']}")


def drift(y: np.ndarray, who: np.ndarray) -> np.ndarray:
    """Return a key that lets later days hold more of the later classes."""
    rng = np.random.default_rng(0)
    return rng.random(len(y)) + 0.15 * y * rng.standard_normal(who.max() + 1)[who]


def label(readings: Path, words: list[str], folder: Path, limit: float | None = None):
    """Run the command; return its labels and how long it took, or None beyond the time limit."""
    out = folder / "labels.parquet"
    command = [sys.executable, "-m", "apportion", "label", str(readings), *words]
    command += ["--method", "lpllp"]
    begun = time.perf_counter()
    command += ["--output", str(out), "--force", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        sys.exit(done.stderr)
    table = read_columns(out, ["label", "reason"])
    return {
        "label": np.array(table.column("label").to_pylist(), dtype=object),
        "seconds": time.perf_counter() - begun,
        "error": json.loads(done.stdout)["bag_error"],
        "talk": done.stderr,
    }


def tell(words, answer, truth, by_majority, rows=None) -> None:
    rows = np.ones(len(truth), dtype=bool) if rows is None else rows
    right = (answer["label"] == truth)[rows]
    recall = np.mean([right[truth[rows] == h].mean() for h in sorted(set(truth[rows].tolist()))])
    print(
        f"  {words:<38} right {right.mean():.3f}, mean over classes {recall:.3f}, "
        f"bag majority {by_majority:.3f}, off totals {answer['error']:.1%}, "
        f"{answer['seconds']:.0f} s"
    )


def write(path: Path, columns: list[str], rows: list[list[object]]) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


if __name__ == "__main__":
    main()
