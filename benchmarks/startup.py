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


COMPLETION = {
    "_APPORTION_COMPLETE": "complete_bash",
    "COMP_WORDS": "apportion label --",
    "COMP_CWORD": "2",
}
"""What bash asks when Tab is pressed after `apportion label --`."""


def cpu_seconds(words: tuple[str, ...], **variables: str) -> float:
    """Return the user and system time of a Python process and its children."""
    before = os.times()
    env = {**os.environ, **variables}
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, env=env, check=True)
    after = os.times()
    return (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )


def main() -> None:
    print(f"CPU-seconds, median of {RUNS} runs; the goal for commands is {GOAL}")
    asked = {name: {} for name in CASES} | {"apportion label --[Tab]": COMPLETION}
    for name, variables in asked.items():
        words = CASES.get(name, ("-m", "apportion"))
        cpu_seconds(words, **variables)  # the first run compiles modules, reads them from disk
        seconds = statistics.median(cpu_seconds(words, **variables) for _ in range(RUNS))
        print(f"{name:<28} {seconds:5.2f}")


if __name__ == "__main__":
    main()
