"""CPU-seconds that short commands take: the median of five runs, in processes of their own."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

RUNS = 5
GOAL = 0.5
CASES = {
    "apportion --help": ("-m", "apportion", "--help"),
    "apportion version": ("-m", "apportion", "version"),
    "apportion label --help": ("-m", "apportion", "label", "--help"),
    "import apportion": ("-c", "import apportion"),
    "from apportion import LPLLP": ("-c", "from apportion import LPLLP"),
}


def cpu_seconds(words: tuple[str, ...]) -> float:
    """Return the user and system time of a Python process and its children."""
    before = os.times()
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )


def main() -> None:
    print(f"CPU-seconds, median of {RUNS} runs; the goal for help and version is {GOAL}")
    for name, words in CASES.items():
        cpu_seconds(words)  # the first run compiles modules and reads them from disk
        seconds = statistics.median(cpu_seconds(words) for _ in range(RUNS))
        print(f"{name:<28} {seconds:5.2f}")


if __name__ == "__main__":
    main()
