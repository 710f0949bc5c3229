"""Completion in a shell, and the help that a terminal shows."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import apportion
from apportion.model_selection._candidates import NAMED
from command_line import run
from test_startup import SLOW, imported_by

pytestmark = pytest.mark.slow

BASH = shutil.which("bash")
ASK = """
source <(_APPORTION_COMPLETE=source_bash apportion)
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_apportion_completion apportion
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def bash(tmp_path):
    """Return a function that asks bash what completes words, with `apportion` on its path."""
    program = tmp_path / "apportion"
    program.write_text(f'#!{BASH}\nexec "{sys.executable}" -m apportion "$@"\n')
    program.chmod(0o755)
    source = str(Path(apportion.__file__).parents[1])
    env = {
        **os.environ,
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": source,
        "HOME": str(tmp_path),
    }

    def ask(*words, script=ASK):
        command = [BASH, "--norc", "-c", script, "bash", *words]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return ask


@pytest.mark.skipif(BASH is None, reason="no bash")
def test_bash_completes_commands_options_and_values(bash):
    assert bash("apportion", "d") == ["diagnose", "demo"]
    assert bash("apportion", "label", "--prop") == ["--proportions"]
    assert bash("apportion", "label", "--method", "mean") == ["mean-map", "mean-map-rbf"]
    assert bash("apportion", "cluster", "--unit", "") == ["auto", "share", "percent", "count"]
    assert bash("apportion", "label", "rows") == []  # so that bash completes the names of files


@pytest.mark.skipif(BASH is None, reason="no bash")
def test_completion_is_installed_and_shown_by_an_option(bash, tmp_path):
    assert "complete" in bash(script="apportion --show-completion; true")
    bash(script="apportion --install-completion; true")
    scripts = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "apportion"]
    assert any("_apportion_completion" in path.read_text() for path in scripts)


def test_completion_imports_nothing_slow():
    asked = {
        "_APPORTION_COMPLETE": "complete_bash",
        "COMP_WORDS": "apportion label --",
        "COMP_CWORD": "2",
    }
    code = (
        f"import os; os.environ.update({asked!r}); sys.argv = ['apportion']\n"
        "from apportion.__main__ import main\nmain()"
    )
    assert not imported_by(code) & SLOW


def test_no_options_of_a_command_import_anything_slow():
    code = (
        "from apportion.cli.app import COMMANDS, _imported\n"
        "assert all(_imported(name).params for name in COMMANDS)"
    )
    assert not imported_by(code) & SLOW


def test_names_of_methods_are_those_of_the_candidates():
    from apportion._utils.method_names import METHODS

    # A forest that is taught has no answer without `AutoLLP`, which has the teacher.
    assert METHODS[1:] == tuple(name for name in NAMED if name != "taught")


def test_the_list_of_commands_fits_one_screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    lines = run("--help").stdout.splitlines()
    assert len(lines) <= 24  # the prompt takes the place of the first, which is empty
    assert max(map(len, lines)) <= 80
    assert sum("─ Label rows ─" in line or "─ Before and after ─" in line for line in lines) == 2
    assert "Exit codes: 0 done" in run("label", "--help").stdout
