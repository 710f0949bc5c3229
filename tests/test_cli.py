"""The command line, end to end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import apportion
from command_line import run
from experiments.__main__ import app as experiments_app

pytestmark = pytest.mark.slow

SMALL = ["--section", "xor", "--method", "majority", "--method", "lp-llp", "--repetitions", "1"]


CLEAN = ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "APPORTION_SPHERE")


def reproduce(*words, cwd, **variables):
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return command(*words, cwd=cwd, module="experiments", PYTHONPATH=paths, **variables)


def command(*words, cwd, module="apportion", **variables):
    environment = {name: value for name, value in os.environ.items() if name not in CLEAN}
    environment |= {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb", **variables}
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        cwd=cwd,
        env=environment,
    )


def in_process(*words):
    return run(*words, app=experiments_app)


def test_version_and_help(tmp_path):
    assert command("version", cwd=tmp_path).stdout.strip() == apportion.__version__
    out = command("--help", cwd=tmp_path).stdout
    assert "diagnose" in out
    assert command(cwd=tmp_path).returncode == 2


def test_reproduce_writes_tables_and_goes_on(tmp_path, monkeypatch):
    done = reproduce(*SMALL, "--protocol", "all rows", "--jobs", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Table 1: XOR, all rows")
    assert "1.00(–)" in done.stdout
    assert "16 trials to run, 0 have a result already; about" in done.stderr.replace("\n", " ")
    out = tmp_path / "reproduction"
    for ending in ("txt", "md", "tex", "csv"):
        assert (out / f"tables.{ending}").stat().st_size > 100
    assert (out / "figures" / "accuracy-xor-all-rows.png").exists()
    assert [path.suffix for path in (out / "results").iterdir()] == [".parquet"]
    monkeypatch.chdir(tmp_path)
    again = in_process(*SMALL, "--protocol", "all rows", "--format", "csv")
    assert "all 16 trials have a result already" in again.stderr
    assert again.stdout.startswith("section,protocol,cell,method,mean")
    shown = in_process("--tables-only", "--format", "latex")
    assert r"\begin{tabular}" in shown.stdout
    assert shown.stdout.count("& LP-LLP & printed LP-LLP & bag majority") == 1
    fewer = in_process("--tables-only", "--method", "majority")
    assert "LP-LLP" not in fewer.stdout.partition("\n\n")[2].partition("Bold")[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--section", "nonsense"], "'nonsense' does not exist. Allowed: xor, half-kernel"),
        (["--method", "nonsense"], "Allowed: lp-llp, auto, lp-llp-threshold"),
        (["--format", "word"], "Allowed: text, markdown, latex, csv"),
        (["--repetitions", "0"], "--repetitions"),
        (["--sphere", "nowhere", "--section", "sphere-1"], "no recording was found in 'nowhere'"),
        (["--section", "sphere-1"], "needs --sphere FOLDER"),
        (["--section", "half-kernel-0.2", "--method", "em"], "have no trial"),
        (["--quick", "--repetitions", "3"], "--quick has its own number"),
        (["--tables-only"], "has no such result"),
    ],
)
def test_wrong_options_are_explained(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    for name in CLEAN:
        monkeypatch.delenv(name, raising=False)
    done = in_process(*words)
    assert done.exit_code != 0
    assert isinstance(done.exception, SystemExit)
    plain = " ".join(done.stderr.replace("│", " ").split())
    assert message in plain
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "reproduction" / "tables.txt").exists()


def test_without_the_data_the_other_tables_are_made(tmp_path):
    words = ["--method", "majority", "--repetitions", "1", "--jobs", "1", "--out", "a[b]"]
    done = reproduce(*words, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    said = " ".join(done.stderr.split())
    assert (tmp_path / "a[b]" / "tables.md").exists()
    assert "written: a[b]/tables.txt" in said
    assert "Table 2: Half-Kernel" in done.stdout
    assert "left out: Table 4: Sphere 2 (baseline), which needs --sphere FOLDER" in said
    assert "data.bris.ac.uk" in said
