"""The quick start from end to end: label, look, correct 20 windows, label again.

Makes up a week like the demo's and runs the commands of the quick start. The person who corrects
is played by the truth: the windows with the lowest confidence get the label that is right.

    python benchmarks/quick_start.py [--seed 0] [--windows 20]

With --episodes, the diary also says how often each activity happened, and nothing is corrected:
labels by quota, along time, and along time with these numbers are compared.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from apportion._io.read import read_columns
from apportion._utils.typing import AnyArray, BoolArray
from apportion.datasets import make_smart_home
from apportion.datasets.smart_home import ACTIVITIES, SmartHome


def main() -> None:
    """Print the commands, and how many labels are right before and after the corrections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the made-up week")
    parser.add_argument("--windows", type=int, default=20, help="how many are corrected")
    parser.add_argument("--method", default="lpllp", help="of the labels; auto takes longer")
    parser.add_argument("--episodes", action="store_true", help="compare decodings instead")
    asked = parser.parse_args()
    if asked.episodes:
        compare_decodings(asked.method, asked.seed)
        return
    label = f"label windows.csv --diary diary.csv --method {asked.method}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = make_smart_home(7, 3, seed=asked.seed, minutes=5)
        home.write(folder)
        apportion(folder, f"{label} --output labels.csv")
        labels, confidence = answer(folder / "labels.csv")
        labeled = np.isfinite(confidence)
        shown("before", labels == home.reported, labeled)

        # A rounded diary may say 0 of a short activity; such a correction would contradict it.
        who, day = home.windows["participant"], home.windows["start"].astype("M8[D]").astype(str)
        in_diary = set(zip(who, day, labels, strict=True))
        allowed = [one in in_diary for one in zip(who, day, home.reported, strict=True)]
        doubt = np.where(allowed, confidence, np.nan)
        corrected = np.argsort(doubt, kind="stable")[: asked.windows]  # NaN comes last
        wrong = int((labels != home.reported)[corrected].sum())
        print(
            f"# the {asked.windows} windows of lowest confidence are looked at: {wrong} are wrong"
        )
        write_corrections(folder, corrected, home.reported)
        apportion(folder, f"{label} --given corrected.csv --output labels-2.csv")
        after, _ = answer(folder / "labels-2.csv")
        others = labeled.copy()
        others[corrected] = False
        shown("after", after == home.reported, labeled)
        shown("before, windows that were not corrected", labels == home.reported, others)
        shown("after, windows that were not corrected", after == home.reported, others)


def compare_decodings(method: str, seed: int) -> None:
    """Print how many labels are right, and how many episodes there are, by decoding."""
    label = f"label windows.csv --method {method}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = make_smart_home(7, 3, seed=seed, minutes=5)
        home.write(folder)
        pa.csv.write_csv(pa.Table.from_pylist(diary_with_times(home)), folder / "diary-times.csv")
        for k, options in enumerate(
            (
                "--diary diary.csv --decode quota",
                "--diary diary.csv --decode sequence",
                "--diary diary-times.csv --decode sequence",
            )
        ):
            apportion(folder, f"{label} {options} --output labels-{k}.csv")
            labels, confidence = answer(folder / f"labels-{k}.csv")
            labeled = np.isfinite(confidence)
            shown("labels", labels == home.reported, labeled)
            found, true = (
                begins_episode(y[labeled], home.windows["participant"][labeled])
                for y in (labels, home.reported)
            )
            print(f"episodes: {found.sum()} found, {true.sum()} true")
            recall = {
                name: (labels == name)[labeled & (home.reported == name)].mean()
                for name in ACTIVITIES
                if (labeled & (home.reported == name)).any()
            }
            print("recall: " + ", ".join(f"{name} {value:.2f}" for name, value in recall.items()))


def diary_with_times(home: SmartHome) -> list[dict[str, str]]:
    """Return the diary with columns that say how often each activity began, where it is told."""
    who, day = home.windows["participant"], home.windows["start"].astype("M8[D]").astype(str)
    begins = begins_episode(home.activities, who)
    counts = Counter(zip(who[begins], day[begins], home.activities[begins], strict=True))
    diary = []
    for entry in home.diary:
        told = [name for name in ACTIVITIES if entry[name]]
        times = {name: counts[entry["participant"], entry["date"], name] for name in told}
        diary.append(
            entry | {f"{name} (times)": str(times.get(name, 0) or "") for name in ACTIVITIES}
        )
    return diary


def begins_episode(labels: AnyArray, who: AnyArray) -> BoolArray:
    """Return which rows begin an episode."""
    changes = (labels[1:] != labels[:-1]) | (who[1:] != who[:-1])
    return np.append(True, changes)


def apportion(folder: Path, words: str) -> None:
    """Show a command, and run it in a folder."""
    print(f"$ apportion {words}", flush=True)
    command = [sys.executable, "-m", "apportion", *shlex.split(words), "--quiet"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)


def answer(path: Path) -> tuple[AnyArray, AnyArray]:
    """Return the labels in a file, and how confident they are, NaN where there is no label."""
    table = read_columns(path, ["label", "confidence"])
    labels = [one or None for one in table.column("label").to_pylist()]
    confidence = [float(one or "nan") for one in table.column("confidence").to_pylist()]
    return np.array(labels, dtype=object), np.array(confidence)


def write_corrections(folder: Path, rows: AnyArray, truth: AnyArray) -> None:
    """Write the labels again, some of them corrected and marked in a column `given`."""
    table = read_columns(folder / "labels.csv")
    labels = np.array(table.column("label").to_pylist(), dtype=object)
    given = np.full(len(labels), "", dtype=object)
    labels[rows], given[rows] = truth[rows], "yes"
    position = table.column_names.index("label")
    table = table.set_column(position, "label", pa.array(labels.tolist()))
    table = table.append_column("given", pa.array(given.tolist()))
    pa.csv.write_csv(table, folder / "corrected.csv")


def shown(when: str, right: BoolArray, among: BoolArray) -> None:
    """Print how many labels are right."""
    print(f"{when}: {right[among].mean():.1%} of {among.sum():,} labels are right")


if __name__ == "__main__":
    main()
