"""The pictures of the report and the plots in the README and the docs.

    python docs/pictures/screenshots.py docs/images [--sphere FOLDER]

Labels the demo's week, opens its report in a browser that is installed (`make browser`), and takes
pictures of it; with the SPHERE Challenge, also of a participant's half hour with a diary line a
minute. Needs `pip install --group test`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np
from playwright.sync_api import Page, sync_playwright
from sklearn.preprocessing import scale

from apportion import LPLLP
from apportion.__main__ import main as apportion
from apportion.datasets import load_sphere, make_bags, make_smart_home
from apportion.plotting import BagReportDisplay, EnergyDisplay, SoftLabelsDisplay, TimelineDisplay

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from from_files import sphere_files

FEATURES = ("acc_mean", "acc_std", "pir_bedroom", "pir_kitchen", "pir_living", "light", "hour")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", type=Path, help="folder of the pictures")
    parser.add_argument("--sphere", type=Path, help="folder of the SPHERE Challenge")
    parser.add_argument("--browser", default=shutil.which("chromium"), help="the browser to use")
    given = parser.parse_args()
    draw_plots(given.images / "plots.png")
    with tempfile.TemporaryDirectory() as folder:
        run("demo", Path(folder) / "demo")
        reports = {"report": Path(folder) / "demo" / "report.html"}
        if given.sphere:
            reports["report-sphere"] = label_sphere(given.sphere, Path(folder))
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=given.browser)
            for name, report in reports.items():
                page = browser.new_page(viewport={"width": 1280, "height": 940})
                page.goto(report.as_uri())
                page.wait_for_selector("html[data-ready=true]")
                page.screenshot(path=given.images / f"{name}.png")
                if name == "report":
                    picture_of_the_map(page, given.images / "report-map.png")
            browser.close()


def run(*words: object) -> None:
    """Run a command as the shell would."""
    sys.argv = ["apportion", *map(str, words)]
    try:
        apportion()
    except SystemExit as end:
        if end.code:
            raise


def label_sphere(path: Path, folder: Path) -> Path:
    """Label the first participant's seconds from a diary line a minute; return the report."""
    sphere_files(load_sphere(path), folder, only="00001")
    known = [folder / "windows.csv", "--diary", folder / "diary.csv"]
    run("label", *known, "-o", folder / "labels.csv", "--report", folder / "sphere.html")
    return folder / "sphere.html"


def picture_of_the_map(page: Page, path: Path) -> None:
    """Take a picture of the map with a row chosen, if possible one whose neighbors disagree."""
    page.evaluate(
        """() => {
          const shown = report.maps[0];
          const torn = atlas.items.find(({ at }) => {
            const near = neighborsOf(shown, at);
            return near.length === 5 && new Set(near.map((one) => one.label)).size > 1;
          }) ?? atlas.items[0];
          element("map").scrollIntoView();
          chooseRow(torn);
        }"""
    )
    page.locator("nav").evaluate("nav => { nav.style.position = 'static' }")
    page.locator("#map").screenshot(path=path)


def draw_plots(path: Path) -> None:
    """Draw the four displays of a made-up three days."""
    mpl.use("agg")
    from matplotlib.figure import Figure

    home = make_smart_home(days=3, participants=1, minutes=5)
    X = scale(np.column_stack([np.nan_to_num(home.windows[name]) for name in FEATURES]))
    bags, totals = make_bags(X, home.activities, n_bags=12, random_state=0)
    model = LPLLP(random_state=0).fit(X, bags=bags, proportions=totals)
    figure = Figure(figsize=(14, 8), layout="constrained")
    axes = figure.subplots(2, 2)
    TimelineDisplay.from_estimator(model, home.windows["start"], ax=axes[0, 0])
    BagReportDisplay.from_estimator(model, ax=axes[0, 1])
    SoftLabelsDisplay.from_estimator(model, ax=axes[1, 0])
    EnergyDisplay.from_estimator(model, ax=axes[1, 1])
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    main()
