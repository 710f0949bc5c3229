"""Install torch and Triton for the tests of devices and kernels, without a GPU.

The usual build of torch for Linux brings gigabytes of libraries for GPUs, which the tests do not
need: they pretend a GPU, and kernels run in Triton's interpreter. Where the package index has only
that build, nothing is installed, and the tests skip. Triton is for Linux; elsewhere, the tests of
kernels skip.
"""

from __future__ import annotations

import json
import subprocess
import sys

VERSION, KERNELS = "torch==2.13.0", "triton==3.9.0"
"""Versions without a range. Of newer ones of torch, an index may have only builds for GPUs; newer
ones of Triton may compile kernels in another way."""

_PIP = [sys.executable, "-m", "pip", "install", "--quiet"]
_GPU_LIBRARIES = ("nvidia", "cuda", "triton")


def main() -> None:
    """Install what has no libraries for GPUs, as far as the package index has it."""
    packages = _packages_for(VERSION)
    if packages is None:
        print(f"no {VERSION} here: the tests of devices and kernels skip")
        return
    heavy = [name for name in packages if name.startswith(_GPU_LIBRARIES)]
    if heavy:
        print(f"{VERSION} would bring {len(heavy)} GPU libraries: those tests skip")
        return
    _install(VERSION, packages)
    kernels = _packages_for(KERNELS)
    if kernels is None:
        print(f"no {KERNELS} here: the tests of kernels skip")
        return
    _install(KERNELS, kernels)


def _packages_for(requirement: str) -> list[str] | None:
    """Return the packages that pip would install; None if it cannot."""
    plan = subprocess.run(
        [*_PIP, "--dry-run", "--report", "-", requirement],
        capture_output=True,
        text=True,
        check=False,
    )
    if plan.returncode:
        return None
    return [package["metadata"]["name"] for package in json.loads(plan.stdout)["install"]]


def _install(requirement: str, packages: list[str]) -> None:
    """Install a requirement that needs packages which are not there yet."""
    if packages:
        print(f"installing {requirement}")
        subprocess.run([*_PIP, requirement], check=True)


if __name__ == "__main__":
    main()
