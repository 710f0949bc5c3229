"""The release: one version, lower bounds, what is in the wheel, and targets that are called."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import warnings
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import apportion
from tools.lowest_versions import lowest, requirements
from tools.release_check import supported

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]


def numbers(text):
    """Return the numbers of a version, without what marks it as one in development."""
    return tuple(int(part) for part in text.removesuffix(".dev0").split("."))


def headings():
    """Return the headings of the sections of the changelog, the newest first."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return re.findall(r"^## (.*)$", text, flags=re.MULTILINE)


def test_there_is_one_version():
    stale = "the installed metadata are those of another version: install again (make test)"
    assert version("apportion") == PROJECT["version"], stale
    assert apportion.__version__ == PROJECT["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == PROJECT["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev0)?", PROJECT["version"])


def test_the_changelog_leads_up_to_the_version():
    unreleased, *released = headings()
    assert unreleased == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+( - \d{4}-\d\d-\d\d)?", title) for title in released)
    versions = [numbers(title.split(" ")[0]) for title in released]
    assert versions == sorted(set(versions), reverse=True)
    if PROJECT["version"].endswith(".dev0"):
        assert numbers(PROJECT["version"]) > versions[0]
    else:
        assert numbers(PROJECT["version"]) == versions[0]


@pytest.mark.parametrize("name", apportion._RENAMED)
def test_old_names_go_in_the_release_that_was_announced(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(apportion, name)
    announced = re.search(r"removed in ([\d.]+)\.$", str(caught[0].message))[1]
    assert numbers(PROJECT["version"]) < numbers(announced)


def test_every_dependency_has_one_lower_bound():
    bounds = lowest(requirements(PROJECT))
    named = {re.match(r"[\w-]+", item)[0] for item in requirements(PROJECT)}
    assert {line.split("==")[0] for line in bounds} == named - {"tzdata"}
    tests = [item for item in PYPROJECT["dependency-groups"]["test"] if isinstance(item, str)]
    assert lowest([*requirements(PROJECT), *tests])  # the tests ask for the same versions


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        (["numpy"], "'numpy' has no lower bound"),
        (["numpy<3"], "'numpy<3' has no lower bound"),
        (["rich>=13.0", "rich>=14.0"], "rich has two lower bounds: 13.0 and 14.0"),
    ],
)
def test_a_missing_or_second_bound_is_an_error(listed, reason):
    with pytest.raises(ValueError, match=reason):
        lowest(listed)


def test_bounds_are_pinned_without_extras_and_markers():
    listed = ["b>=2.0", "a[x,y] >= 1; python_version < '4'", "c; sys_platform == 'win32'"]
    assert lowest(listed) == ["a==1", "b==2.0"]


def workflow():
    """Return the jobs of the workflow."""
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    return yaml.safe_load(text)["jobs"]


def targets_in(text):
    """Return the make targets that a text calls."""
    return set(re.findall(r"\bmake ([a-z-]+)", text))


def test_targets_that_are_called_or_described_exist():
    steps = [step for job in workflow().values() for step in job["steps"]]
    called = targets_in(" ".join(step.get("run", "") for step in steps))
    assert called >= {"check", "coverage", "docs", "test-lowest", "release-check"}
    pages = [*ROOT.glob("*.md"), ROOT / "docs" / "development" / "releases.md"]
    for page in pages:
        called |= targets_in(" ".join(re.findall(r"`make .*?`", page.read_text(encoding="utf-8"))))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert called - set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)) == set()


def test_the_workflow_runs_every_supported_python():
    assert workflow()["test"]["strategy"]["matrix"]["python"] == supported()
    assert PROJECT["requires-python"] == f">={supported()[0]}"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The names in the wheel, and those in the sdist below its folder."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ((wheel,), (sdist,)) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = archive.namelist()
    with tarfile.open(sdist) as archive:
        in_sdist = [name.partition("/")[2] for name in archive.getnames()]
    return wheel, in_wheel, in_sdist


@pytest.mark.slow
def test_the_wheel_has_the_package_and_nothing_else(built):
    wheel, names, _ = built
    information = f"apportion-{PROJECT['version']}.dist-info/"
    source = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "apportion").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {name for name in names if not name.startswith(information)} == source
    assert {Path(name).suffix for name in source} == {".py", ".typed", ".html", ".css", ".js"}
    assert "apportion/py.typed" in names
    assert f"{information}licenses/LICENSE" in names
    assert wheel.name == f"apportion-{PROJECT['version']}-py3-none-any.whl"
    assert wheel.stat().st_size < 1_000_000


@pytest.mark.slow
def test_the_sdist_has_what_builds_and_tests_the_package(built):
    _, in_wheel, in_sdist = built
    source = {f"src/{name}" for name in in_wheel if name.startswith("apportion/")}
    assert source <= set(in_sdist)
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO"} <= set(in_sdist)
    assert {"tests/test_release.py", "tools/release_check.py", "Makefile"} <= set(in_sdist)
    generated = {".venv", "build", "dist", "apportion-demo", ".coverage", "__pycache__"}
    assert [name for name in in_sdist if generated & set(name.split("/"))] == []
