"""What is public, and what becomes of old names."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path

import pytest

import apportion

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", apportion._RENAMED)
def test_old_names_work_with_a_warning(name):
    with pytest.warns(FutureWarning, match=f"apportion.{name} is called apportion"):
        old = getattr(apportion, name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert old is getattr(apportion, apportion._RENAMED[name])


def test_old_names_are_not_listed():
    assert not {*apportion._RENAMED} & {*dir(apportion), *apportion.__all__}


def test_the_page_of_the_api_names_every_public_module():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert [name for name in apportion._PUBLIC_MODULES if f"`apportion.{name}`" not in page] == []


def test_folders_without_an_underscore_are_public_or_a_front_end():
    package = Path(apportion.__file__).parent
    names = {path.stem for path in package.iterdir() if path.is_dir() or path.suffix == ".py"}
    public = {name for name in names if not name.startswith("_")}
    assert public - {"py", "cli", "studio", "bag_report"} == {*apportion._PUBLIC_MODULES}


@pytest.mark.parametrize("name", apportion._PUBLIC_MODULES)
def test_public_modules_say_what_they_offer(name):
    module = importlib.import_module(f"apportion.{name}")
    assert module.__doc__
    assert [one for one in module.__all__ if not hasattr(module, one)] == []
