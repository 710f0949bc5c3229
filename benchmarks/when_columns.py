"""What columns that only say when (hour of day, day of week, elapsed time) do to the labels.

Makes up weeks like the demo's, adds such columns or leaves them out, runs `apportion label`, and
compares the labels with the truth, which the command does not read:

    python benchmarks/when_columns.py
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from apportion.datasets import SmartHome, make_smart_home
from from_files import label

SEEDS = range(5)
CASES = {
    "no column that says when": [],
    "hour": ["hour"],
    "hour as sine and cosine": ["hour_sin", "hour_cos"],
    "weekday": ["weekday"],
    "elapsed_h": ["elapsed_h"],
    "hour, weekday, elapsed_h": ["hour", "weekday", "elapsed_h"],
}


def main() -> None:
    """Print accuracies, one line per set of columns."""
    homes = [with_times(make_smart_home(7, 3, seed=seed, minutes=5)) for seed in SEEDS]
    print(f"weeks like the demo's, seeds 0 to {SEEDS[-1]}; labels that are right")
    for words, names in CASES.items():
        right = [accuracy(home, names) for home in homes]
        each = " ".join(f"{one:.3f}" for one in right)
        print(f"{words:<28} {np.mean(right):.3f} ({each})", flush=True)


def with_times(home: SmartHome) -> SmartHome:
    """Return a home with more columns that say when."""
    hour = home.windows["hour"]
    start = home.windows["start"]
    elapsed = (start - start.min()) / np.timedelta64(1, "h")
    more = {
        "hour_sin": np.sin(np.pi * hour / 12).round(4),
        "hour_cos": np.cos(np.pi * hour / 12).round(4),
        "weekday": (elapsed // 24 % 7).astype(int),
        "elapsed_h": elapsed.round(4),
    }
    return replace(home, windows={**home.windows, **more})


def accuracy(home: SmartHome, names: list[str]) -> float:
    """Return the share of labels that are right with these columns and the sensors' as features."""
    with tempfile.TemporaryDirectory() as folder:
        files = home.write(folder)
        features = [*names, "acc_*", "pir_*", "light"]
        chosen = [word for name in features for word in ("--features", name)]
        answer = label(files.windows, ["--diary", str(files.diary), *chosen], Path(folder))
    labeled = np.array([one is not None for one in answer["label"].tolist()])
    return float((answer["label"] == home.reported)[labeled].mean())


if __name__ == "__main__":
    main()
