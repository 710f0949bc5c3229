"""The report at size: how large its page is, and how soon a browser has it ready.

Labels made-up windows of a minute from a diary, writes the report, opens it in a browser that is
installed (chromium), and waits until the page says that it is ready and answers the keyboard. Then
the same for windows whose labels change all the time, and for ten times as many, of which the
report must thin what it draws. With the SPHERE Challenge, also the half hour of its first
participant, from a diary line a minute. Needs `pip install --group test` and a browser
(`make browser`).

    python benchmarks/report.py [--sphere FOLDER]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, sync_playwright

from apportion import BagReport
from apportion._io.read import read_columns
from apportion.datasets import load_sphere, make_smart_home
from apportion.labeling.rows import RowLabels
from apportion.plotting._window_times import SECOND, Times
from apportion.report import ReportData, Run, write_page
from apportion.report._row_map import RowMap
from from_files import sphere_files

MINUTES_A_DAY = 1440


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=70, help="days of windows to label")
    parser.add_argument("--sphere", type=Path, help="folder of the SPHERE Challenge")
    parser.add_argument("--browser", default=shutil.which("chromium"), help="the browser to use")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        sync_playwright() as driver,
        driver.chromium.launch(executable_path=given.browser) as browser,
    ):
        print(f"chromium {browser.version}")
        page = Path(folder) / "report.html"
        if given.sphere:
            right = sphere(given.sphere, Path(folder), page)
            print(f"SPHERE, participant 1: {right:.1%} of the annotated seconds are right")
            tell(browser, page, "as labeled")
        files = make_smart_home(given.days, 1, seed=0, minutes=1).write(Path(folder), force=True)
        seconds = label(files.windows, files.diary, page)
        n = given.days * MINUTES_A_DAY
        print(f"{n:,} windows labeled and reported in {seconds:.0f} s")
        tell(browser, page, "as labeled")
        for n in (100_000, 1_000_000):
            started = time.perf_counter()
            write_page(restless(n), page, force=True)
            print(f"{n:,} windows of ever-changing labels: {time.perf_counter() - started:.1f} s")
            tell(browser, page, "ever changing")


def label(windows: Path, diary: Path, page: Path) -> float:
    """Label windows with a report beside the labels, and return how long that took."""
    labels = page.with_name("labels.parquet")
    words = ["--diary", diary, "--output", labels, "--report", page, "--force", "-q"]
    words += ["--method", "lpllp"]
    command = [sys.executable, "-m", "apportion", "label", windows, *words]
    started = time.perf_counter()
    subprocess.run(list(map(str, command)), check=True)
    return time.perf_counter() - started


def sphere(path: Path, folder: Path, page: Path) -> float:
    """Label the seconds of SPHERE's first participant; return how many labels are right."""
    truth, _, annotated, _, _ = sphere_files(load_sphere(path), folder, only="00001")
    label(folder / "windows.csv", folder / "diary.csv", page)
    labels = np.array(read_columns(page.with_name("labels.parquet"))["label"].to_pylist())
    return float((labels == truth)[annotated].mean())


def restless(n: int) -> ReportData:
    """Return a report of windows of a minute whose labels are drawn at random."""
    rng = np.random.default_rng(0)
    names = np.array([f"class {h}" for h in range(8)], dtype=object)
    labels = rng.integers(len(names), size=n)
    starts = np.arange(n) * 60 * SECOND + 20_000 * 24 * 3600 * SECOND
    bags = np.arange(n) // MINUTES_A_DAY
    counts = np.zeros((bags[-1] + 1, len(names)), dtype=np.intp)
    np.add.at(counts, (bags, labels), 1)
    masses = rng.dirichlet(np.full(len(names), 0.3), size=n)
    rows = rng.permutation(n)[:1500]
    return ReportData(
        title=f"{n:,} windows",
        answer=RowLabels(
            names,
            names[labels],
            masses,
            masses[np.arange(n), labels],
            np.full(n, "", dtype=object),
        ),
        bag_codes=bags,
        report=BagReport(
            tuple(f"day {k}" for k in range(len(counts))),
            names,
            counts.sum(axis=1),
            counts.astype(float),
            counts.astype(float),
            {"quota": counts},
            "quota",
        ),
        diagnoses={},
        runs={"": Run("LPLLP", {})},
        times=Times(starts, starts + 60 * SECOND),
        maps={
            "": RowMap(
                rows,
                rng.normal(size=(len(rows), 2)),
                rng.integers(n, size=(len(rows), 5)),
                np.full((len(rows), 5), 0.1),
                "drawn at random",
            )
        },
    )


def tell(browser: Browser, path: Path, name: str) -> None:
    """Open the page five times and say how long it takes until it answers."""
    ready, answers = [], []
    for _ in range(5):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        started = time.perf_counter()
        page.goto(path.as_uri(), wait_until="commit")
        page.wait_for_selector("#timeline .barlayer", state="attached", timeout=120_000)
        page.locator("#timeline").focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_selector("#timeline .shapelayer path", state="attached")
        answers.append(time.perf_counter() - started)
        page.wait_for_selector("html[data-ready=true]", state="attached", timeout=120_000)
        ready.append(time.perf_counter() - started)
        bars = page.locator("#timeline .point path").count()
        segments = page.evaluate("report.timeline.lane.length")
        note = page.locator("#timeline-thinned").text_content() or "nothing is thinned"
        verdict = page.locator("#verdict").text_content()
        page.close()
    print(
        f"  {name}: {path.stat().st_size / 1e6:.2f} MB, answers a key after "
        f"{np.median(answers):.2f} s (at most {max(answers):.2f}), all is drawn after "
        f"{np.median(ready):.2f} s; "
        f"{segments:,} segments, {bars:,} on the first page; {note}"
    )
    print(f"  {verdict}")


if __name__ == "__main__":
    main()
