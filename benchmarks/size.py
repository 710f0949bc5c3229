"""Print how large the package is, and how many of its modules common tasks execute.

    python benchmarks/size.py [TREE]

Lines of code are lines that hold code: no docstrings, comments or blank lines. Private names begin
with an underscore; inner functions are not counted. A task visits a module if a frame of it is
executed: its top level, which an import executes, or a function. `TREE` is the folder of another
version, with `src/apportion` in it; by default this one.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import os
import subprocess
import sys
import tempfile
import threading
import tokenize
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ("modules", "lines", "code", "comments", "public", "private")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def measure(text: str) -> Counter[str]:
    """Return the sizes of one module, in the columns of the table."""
    tree = ast.parse(text)
    documented = (node for node in ast.walk(tree) if isinstance(node, (*_DEFINITIONS, ast.Module)))
    docstrings = {
        line
        for node in documented
        if ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    code: set[int] = set()
    n_comments = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        n_comments += token.type == tokenize.COMMENT and token.line.lstrip().startswith("#")
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    names = _names(tree)
    n_private = sum(name.startswith("_") and not name.endswith("__") for name in names)
    return Counter(
        modules=1,
        lines=len(text.splitlines()),
        code=len(code - docstrings),
        comments=n_comments,
        public=len(names) - n_private,
        private=n_private,
    )


def _names(node: ast.Module | ast.ClassDef) -> list[str]:
    """Return the names of functions and classes, and those of their methods."""
    names = []
    for child in node.body:
        if isinstance(child, _DEFINITIONS):
            names.append(child.name)
        if isinstance(child, ast.ClassDef):
            names += _names(child)
    return names


def print_sizes(package: Path) -> None:
    """Print one row per subpackage or module of the top level, and their sum."""
    sizes: dict[str, Counter[str]] = defaultdict(Counter)
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).parts[0]
        for row in (name, "in all"):
            sizes[row].update(measure(path.read_text(encoding="utf-8")))
    print(f"{'':<24}" + "".join(f"{name:>10}" for name in COLUMNS))
    for row in [*(row for row in sizes if row != "in all"), "in all"]:
        print(f"{row:<24}" + "".join(f"{sizes[row][name]:>10,}" for name in COLUMNS))


# --- Modules that a task visits -------------------------------------------------------------------


def fit() -> None:
    from apportion import LPLLP

    X, bags, shares = _small_problem()
    LPLLP().fit(X, bags=bags, proportions=shares)


def label() -> None:
    from apportion.__main__ import main

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            main()
        except SystemExit as stop:
            if stop.code:
                raise


def fit_dask() -> None:
    import dask.array as da
    from distributed import Client

    from apportion.distributed import LPLLP

    X, bags, shares = _small_problem()
    rows = da.from_array(X, chunks=(50, 2))
    with Client(processes=False, n_workers=1, dashboard_address=None) as client:
        LPLLP().fit(rows, bags=bags, proportions=shares, client=client).labels().compute()


def _small_problem() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    labels, bags = rng.integers(0, 2, 200), np.arange(200) % 5
    X = 4.0 * labels[:, None] + rng.normal(size=(200, 2))
    shares = np.array([np.bincount(labels[bags == k], minlength=2) for k in range(5)]) / 40
    return X, bags, shares


TASKS: dict[str, tuple[str, Callable[[], None]]] = {
    "fit": ("LPLLP().fit", fit),
    "label": ("apportion label", label),
    "dask": ("distributed.LPLLP().fit", fit_dask),
}


def visited(package: Path, task: Callable[[], None]) -> tuple[int, int]:
    """Return how many modules of the package a task visits, and in how many it calls a function."""
    files: set[str] = set()
    called: set[str] = set()

    def record(frame: FrameType, event: str, argument: Any) -> None:
        files.add(frame.f_code.co_filename)
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # no top level of a module or class
            called.add(frame.f_code.co_filename)

    threading.setprofile(record)
    sys.setprofile(record)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            task()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    inside = {file for file in files if Path(file).is_relative_to(package)}
    return len(inside), len(inside & called)


def print_visited(source: Path) -> None:
    """Run each task in a process of its own, and print how many modules it visits."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    with tempfile.TemporaryDirectory() as folder:
        demo = ["demo", "week", "--days", "2", "--participants", "1", "--minutes", "30"]
        subprocess.run(
            [sys.executable, "-m", "apportion", *demo],
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
        )
        print(f"\n{'modules of a task':<24}{'visited':>10}{'called':>10}")
        for key, (title, _) in TASKS.items():
            words = ["week/windows.csv", "--diary", "week/diary.csv", "--output", "labels.csv"]
            worker = [sys.executable, __file__, str(source.parent), "--task", key]
            done = subprocess.run(
                [*worker, "--words", *(["label", *words] if key == "label" else [])],
                cwd=folder,
                env=environment,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            n_visited, n_called = done.stdout.split()[-2:]
            print(f"{title:<24}{n_visited:>10}{n_called:>10}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", nargs="?", type=Path, default=ROOT, help="the folder of a version")
    parser.add_argument("--task", choices=list(TASKS), help=argparse.SUPPRESS)
    parser.add_argument("--words", nargs=argparse.REMAINDER, default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    source = options.tree.resolve() / "src"
    if options.task is None:
        print_sizes(source / "apportion")
        print_visited(source)
        return
    sys.argv = ["apportion", *options.words]
    print(*visited(source / "apportion", TASKS[options.task][1]))


if __name__ == "__main__":
    main()
