"""Install torch for the tests of devices, if the package index has a build without GPU libraries.

The usual build for Linux brings gigabytes of them, which the tests do not need: they let torch's
own CPU device stand for a GPU. Where there is only that build, nothing is installed, and the tests
skip.
"""

from __future__ import annotations

import json
import subprocess
import sys

VERSION = "torch==2.13.0"
"""A version without a range: of newer ones, an index may have only builds for GPUs."""

_PIP = [sys.executable, "-m", "pip", "install", "--quiet"]
_GPU_LIBRARIES = ("nvidia", "cuda", "triton")


def main() -> None:
    """Look at what would be installed, and install it if it is for processors alone."""
    plan = subprocess.run(
        [*_PIP, "--dry-run", "--report", "-", VERSION], capture_output=True, text=True, check=False
    )
    if plan.returncode:
        print(f"no {VERSION} here: the tests of devices skip")
        return
    names = [package["metadata"]["name"] for package in json.loads(plan.stdout)["install"]]
    heavy = [name for name in names if name.startswith(_GPU_LIBRARIES)]
    if heavy:
        print(f"{VERSION} would bring {len(heavy)} GPU libraries: the tests of devices skip")
        return
    if names:
        print(f"installing {VERSION}")
        subprocess.run([*_PIP, VERSION], check=True)


if __name__ == "__main__":
    main()
