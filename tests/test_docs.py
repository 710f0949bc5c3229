"""The documentation: what pages print, what the API lists, and the site that is built of them."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import apportion
from apportion.cli.app import COMMANDS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = ("_build", "api", "commands", "gallery")
BLOCK = re.compile(r"```python\n(.*?)```\s*```text\n(.*?)```", re.DOTALL)

CONSTANTS = {"METRICS", "UNKNOWN", "AMBULATORY_OR_SEDENTARY", "FIVE_GROUPS"}
"""Public values that the page of the API mentions; they have no docstring to show."""

SHARED = {
    *("Advice", "ReportData", "Run", "page_bytes", "require_tools", "write_page"),
    *("smoothest", "smoothness_of", "weighted_neighbors"),
}
"""Names of public modules that are there for other modules, and that are not public."""


def pages() -> list[Path]:
    """Return the README and all pages of the documentation that are in git."""
    found = [
        path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in GENERATED
    ]
    return [ROOT / "README.md", *sorted(found)]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def public_objects() -> dict[int, str]:
    """Return the name of every public class and function, by its identity."""
    modules = ["apportion", *(f"apportion.{name}" for name in apportion._PUBLIC_MODULES)]
    found = {}
    for path in [*modules, "apportion.supervision.diary"]:
        module = importlib.import_module(path)
        for name in {*module.__all__} - CONSTANTS - SHARED - {"__version__"}:
            found.setdefault(id(getattr(module, name)), f"{path}.{name}")
    return found


def listed_names() -> list[str]:
    """Return the names in the tables of the page of the API."""
    tables = re.findall(r"autosummary::\n.*?```", (DOCS / "api.md").read_text("utf-8"), re.DOTALL)
    return [name for table in tables for name in re.findall(r"^   (apportion\.\S+)", table, re.M)]


def object_of(full_name: str) -> object:
    module, _, name = full_name.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [path for path in pages() if BLOCK.search(path.read_text("utf-8"))], ids=name_of
)
def test_pages_print_what_they_say(page, tmp_path):
    """Python blocks followed by a text block are run in order; the text is what they print."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    mark = "#-- next block --#"
    code = f"print({mark!r})\n".join(code for code, _ in blocks)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.check_output(
        [sys.executable, "-c", code], text=True, cwd=tmp_path, env=environment
    )
    for printed, (_, wanted) in zip(out.split(mark), blocks, strict=True):
        assert printed.strip() == wanted.strip()


def test_most_guide_pages_have_code_that_is_run():
    with_code = {name_of(path) for path in pages() if BLOCK.search(path.read_text("utf-8"))}
    assert {"README.md", "docs/getting_started.md", "docs/development/reproduction.md"} < with_code
    assert sum(name.startswith("docs/guide/") for name in with_code) >= 12


def test_the_api_lists_every_public_name_once():
    listed = [id(object_of(name)) for name in listed_names()]
    assert len(listed) == len({*listed})
    public = public_objects()
    assert [public[one] for one in {*public} - {*listed}] == []
    assert [name for name in listed_names() if id(object_of(name)) not in public] == []


def test_names_that_can_be_imported_from_the_top_are_listed_there():
    listed = {*listed_names()}
    top = {f"apportion.{name}" for name in apportion.__all__ if name != "__version__"}
    assert top - listed == set()


def test_links_of_pages_lead_to_files():
    missing = []
    for page in pages():
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
            target = page.parent / link
            if not target.exists() and "gallery" not in link:
                missing.append(f"{name_of(page)}: {link}")
    assert missing == []


@pytest.fixture
def check_links(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_extensions"))
    return importlib.import_module("check_links")


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="no.html">x</a>', "index.html: no no.html"),
        ('<a href="#no">x</a>', "index.html: no #no"),
        ('<a href="other.html#no">x</a>', "index.html: no other.html#no"),
        ('<img src="no.png">', "index.html: no no.png"),
        (
            '<script src="https://a.example/x.js"></script>',
            "index.html loads https://a.example/x.js",
        ),
        ('<link rel="stylesheet" href="//a.example/x.css">', "index.html loads //a.example/x.css"),
        ('<a href="other.html#here">x</a><a href="https://a.example">y</a>', None),
        ('<img src="data:image/png;base64,AA"><a href="#me" id="me">x</a>', None),
    ],
)
def test_broken_links_and_foreign_files_are_found(check_links, tmp_path, html, problem):
    (tmp_path / "index.html").write_text(html)
    (tmp_path / "other.html").write_text('<p id="here">')
    check_links._read.cache_clear()
    assert check_links.problems_of(tmp_path) == ([problem] if problem else [])


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(check_links, tmp_path):
    """Build it without running the examples of the gallery, which `make docs` does."""
    for module in ("sphinx", "myst_parser", "numpydoc", "pydata_sphinx_theme", "sphinx_gallery"):
        pytest.importorskip(module, reason="the group `docs` is not installed")
    unwanted = shutil.ignore_patterns("__pycache__", *GENERATED)
    for name in ("docs", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=unwanted)
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff"):
        shutil.copy(ROOT / name, tmp_path)
    options = ("-b", "html", "-W", "--keep-going", "-q", "-D", "plot_gallery=0")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, "docs", "html"],
        **{"cwd": tmp_path, "env": environment, "capture_output": True, "text": True},
    )
    assert built.stderr == ""
    assert built.returncode == 0
    site = tmp_path / "html"
    assert check_links.problems_of(site) == []
    assert len([*(site / "api").glob("apportion.*.html")]) == len(public_objects())
    assert {path.stem for path in (site / "commands").glob("*.html")} == {*COMMANDS}
