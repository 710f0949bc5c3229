"""The gallery: every example is a page, runs without warnings, and draws labeled figures."""

from __future__ import annotations

import runpy
import shutil
import warnings
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("plot_*.py"))

SMALLER = {"plot_09_million": ("MOST_ROWS = 1_000_000", "MOST_ROWS = 30_000")}
"""What is changed in an example so that its test takes a second."""

LEAST_RIGHT = {
    "plot_01_xor": ("found by LPLLP: ", 99.0),
    "plot_02_wine": ("right: ", 95.0),
    "plot_03_digits": ("right: ", 95.0),
    "plot_04_diary": ("with time: ", 90.0),
    "plot_10_dask": (" districts lie in several files\n", 85.0),
}
"""The text before the share of right labels that an example prints, and the least percentage."""


def test_there_are_scripts_and_a_header():
    assert len(SCRIPTS) >= 9
    assert (
        (EXAMPLES / "GALLERY_HEADER.rst").read_text(encoding="utf-8").startswith("Gallery\n=====")
    )
    others = {path.name for path in EXAMPLES.glob("*.py")} - {path.name for path in SCRIPTS}
    assert not others, "files that are not called plot_… are no pages of the gallery"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_is_a_page_of_the_gallery(path):
    """It begins with a title, and has prose between its cells."""
    first, title, underline, blank, *rest = path.read_text(encoding="utf-8").splitlines()
    assert (first, blank) == ('"""', "")
    assert underline == "=" * len(title)
    cells = [rest[at + 1] for at, line in enumerate(rest) if line == "# %%"]
    assert len(cells) >= 2
    assert all(line.startswith("# ") for line in cells)


@pytest.mark.slow
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_runs(path, tmp_path, monkeypatch, capsys):
    """It runs in any folder without a warning, leaves nothing there, and labels its axes."""
    mpl = pytest.importorskip("matplotlib")
    mpl.use("agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    script = shutil.copy(path, tmp_path)
    if path.stem in SMALLER:
        before, after = SMALLER[path.stem]
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1
        Path(script).write_text(text.replace(before, after), encoding="utf-8")
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("error", DeprecationWarning)
        # Libraries may warn of each other; an example should not.
        warnings.filterwarnings("ignore", module=r"(distributed|dask|tornado)(\.|$)")
        plt.close("all")  # what other tests of this process have left
        try:
            runpy.run_path(str(script), run_name="__main__")
            figures = [plt.figure(number) for number in plt.get_fignums()]
            assert 1 <= len(figures) <= 3
            for figure in figures:
                assert any(ax.get_xlabel() or ax.images for ax in figure.axes)
        finally:
            plt.close("all")
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    printed = capsys.readouterr().out
    if path.stem in LEAST_RIGHT:
        text, least = LEAST_RIGHT[path.stem]
        assert float(printed.partition(text)[2].partition("%")[0]) >= least
