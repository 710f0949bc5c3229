"""Build the wheel and the sdist, install the wheel in fresh environments, and use it.

`make release-check` runs this with every Python that the package supports and that is found. It
needs only Python and pip. Builds are isolated, and the wheel is built from the sdist, so that
nothing from this folder can take the place of what is missing in them.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]

WITHOUT_EXTRAS = """
from importlib.util import find_spec
import apportion
present = [name for name in ("pandas", "polars", "pyarrow", "typer", "plotly") if find_spec(name)]
assert not present, f"installed without being asked for: {present}"
for name in apportion.__all__:
    getattr(apportion, name)
X = [[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]]
model = apportion.LPLLP().fit(X, bags=[0, 0, 0, 1, 1, 1], proportions={0: 1 / 3, 1: 2 / 3})
assert model.transduction_.tolist() == [0, 0, 1, 0, 1, 1], model.transduction_
print("apportion", apportion.__version__, "from", apportion.__file__)
"""
"""Imports every public name and fits a model, with nothing but the required packages."""

SHORT = ("--participants", "1", "--minutes", "30")
"""A demo that takes seconds; `make demo` runs the whole one."""


def main() -> None:
    """Check the release with each Python; exit with 1 if there is none to check with."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pythons", nargs="*", help="interpreters; by default all that are found")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where to build")
    options = parser.parse_args()
    pythons = options.pythons or installed_pythons()
    if not pythons:
        sys.exit(f"none of Python {', '.join(supported())} is installed; name an interpreter")
    wheel = build(options.dist.resolve())
    list_contents(wheel)
    for python in pythons:
        check(wheel, python)
    print(f"{wheel.name} works with {', '.join(map(str, map(version_of, pythons)))}")


def supported() -> list[str]:
    """Return the versions of Python in the classifiers of the package, such as "3.11"."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        classifiers = tomllib.load(file)["project"]["classifiers"]
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", x) for x in classifiers)
    return [match[1] for match in found if match]


def installed_pythons() -> list[str]:
    """Return one interpreter of each supported version, from the path or from pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    pythons = []
    for version in supported():
        candidates = [f"python{version}", *map(str, pyenv.glob(f"{version}.*/bin/python"))]
        pythons += [python for python in candidates if version_of(python) == version][:1]
    return pythons


def version_of(python: str) -> str | None:
    """Return the version of an interpreter, or None if it cannot be run."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    command = [python, "-c", code]
    try:
        return subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL).strip()
    except (OSError, subprocess.CalledProcessError):  # a shim of pyenv may have nothing behind it
        return None


def build(dist: Path) -> Path:
    """Build the sdist, and the wheel from it, in place of earlier ones; return the wheel."""
    for earlier in [*dist.glob("apportion-*.whl"), *dist.glob("apportion-*.tar.gz")]:
        earlier.unlink()
    with tempfile.TemporaryDirectory() as folder:
        python = environment(sys.executable, Path(folder))
        run(python, "-m", "pip", "install", "--quiet", "build")
        run(python, "-m", "build", "--outdir", dist, ROOT)
    (wheel,) = dist.glob("*.whl")
    return wheel


def list_contents(wheel: Path) -> None:
    """Print the number and size of the files in each folder of a wheel."""
    sizes: dict[str, list[int]] = {}
    with zipfile.ZipFile(wheel) as archive:
        for item in archive.infolist():
            sizes.setdefault(item.filename.rpartition("/")[0], []).append(item.file_size)
    for folder, of_files in sorted(sizes.items()):
        print(f"{len(of_files):4} files {sum(of_files):9,} bytes  {folder}")
    total = sum(map(len, sizes.values()))
    print(f"{total:4} files {wheel.stat().st_size:9,} bytes compressed  {wheel.name}")


def check(wheel: Path, python: str) -> None:
    """Install a wheel without and with the command line, and use both."""
    print(f"-- {python}: Python {version_of(python)}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inside = environment(python, folder / "venv")
        run(inside, "-m", "pip", "install", "--quiet", wheel, cwd=folder)
        run(inside, "-c", WITHOUT_EXTRAS, cwd=folder)
        run(inside, "-m", "pip", "install", "--quiet", f"{wheel}[cli]", cwd=folder)
        run(inside, "-m", "pip", "check", cwd=folder)
        run(inside.parent / "apportion", "demo", "week", *SHORT, cwd=folder)
        written = {path.name for path in (folder / "week").iterdir()}
        if missing := {"labels.csv", "report.html"} - written:
            sys.exit(f"the demo wrote no {', '.join(sorted(missing))}")


def environment(python: str, folder: Path) -> Path:
    """Make a virtual environment, and return its interpreter."""
    run(python, "-m", "venv", folder)
    windows = os.name == "nt"
    return folder / ("Scripts" if windows else "bin") / ("python.exe" if windows else "python")


def run(*words: object, cwd: Path | None = None) -> None:
    """Run a command that sees no other copy of the package; exit if it fails."""
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=variables, check=False)
    if done.returncode:
        sys.exit(f"exit status {done.returncode}: {' '.join(map(str, words))[:200]}")


if __name__ == "__main__":
    main()
