"""What is imported: nothing slow for help and the version, everything for those who use it."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import apportion

pytestmark = pytest.mark.slow

SLOW = {"numpy", "scipy", "sklearn", "pyarrow", "faiss", "pandas", "matplotlib"}


def imported_by(code):
    """Return the top-level modules that a fresh interpreter has imported after some code."""
    listing = (
        "import atexit, sys\n"
        "names = lambda: print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)\n"
        f"atexit.register(names)\n{code}"
    )
    done = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["version"]], ids=" ".join)
def test_help_and_version_import_nothing_slow(words):
    pytest.importorskip("typer")
    code = f"sys.argv = {['apportion', *words]}\nfrom apportion.__main__ import main\nmain()"
    assert not imported_by(code) & SLOW


def test_importing_the_package_imports_nothing_slow():
    assert not imported_by("import apportion") & SLOW


def test_every_public_name_is_there():
    assert set(apportion.__all__) == {*apportion._MODULE_OF, "__version__"}
    assert set(apportion.__all__) <= set(dir(apportion))
    for name in apportion.__all__:
        assert getattr(apportion, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = apportion.nothing


def test_no_module_takes_the_place_of_a_public_name():
    """Importing a submodule sets the attribute of the package that is called like it."""
    modules = {path.stem for path in Path(apportion.__file__).parent.iterdir()}
    assert not modules & set(apportion.__all__)


def test_the_list_of_commands_says_what_their_help_says():
    cli = pytest.importorskip("apportion.cli.app")
    for name, first_line in cli.COMMANDS.items():
        command = getattr(import_module(f"apportion.cli.{name}"), name)
        assert cli._help(command).split("\n\n")[0] == first_line
