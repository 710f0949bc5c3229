"""The pictures of the studio in the docs.

    python docs/pictures/studio.py docs/images

Serves a studio with a made-up week, uses its page in a browser that is installed (`make browser`)
as a person would, and takes a picture of each step. Needs `pip install --group test`.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
from pathlib import Path
from queue import Queue

from playwright.sync_api import Locator, Page, sync_playwright

from apportion.datasets import make_smart_home
from apportion.studio import serve

PATIENCE = 300_000
"""Milliseconds that labels may take on a busy machine."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", type=Path, help="folder of the pictures")
    parser.add_argument("--browser", default=shutil.which("chromium"), help="the browser to use")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        week = make_smart_home(days=7, participants=3, minutes=10).write(Path(folder) / "week")
        address = served(Path(folder) / "my-study")
        browser = driver.chromium.launch(executable_path=given.browser)
        page = browser.new_page(viewport={"width": 1180, "height": 800})
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        give_files(page, week.windows, week.diary, given.images)
        find_labels(page, given.images)
        correct(page, given.images)
        answer(page, given.images)
        page.close()
        narrow = browser.new_page(viewport={"width": 400, "height": 860}, color_scheme="dark")
        narrow.goto(address)
        take(narrow, "#lanes-title", given.images / "studio-narrow.png", whole_screen=True)
        browser.close()


def served(folder: Path) -> str:
    """Serve a studio until this program ends, and return its address."""
    addresses: Queue[str] = Queue()
    settings = {"open_browser": False, "announce": addresses.put}
    threading.Thread(target=serve, args=(folder,), kwargs=settings, daemon=True).start()
    return addresses.get()


def give_files(page: Page, windows: Path, diary: Path, images: Path) -> None:
    page.set_input_files("#file-readings", windows)
    page.get_by_text("windows.csv was read").wait_for()
    take(page, "#files", images / "studio-files.png", whole_screen=True)
    page.set_input_files("#file-diary", diary)
    page.get_by_text("3 participants").first.wait_for()
    take(page, "#understanding", images / "studio-understood.png")


def find_labels(page: Page, images: Path) -> None:
    page.click("#run")
    page.get_by_text("left.").wait_for()
    take(page, "#labels", images / "studio-progress.png")
    page.locator("#progress").wait_for(state="hidden")  # the report is written after the labels
    page.locator(".bar").first.wait_for()


def correct(page: Page, images: Path) -> None:
    """Correct the shortest bar of the first day between two bars with the same label."""
    bar, label = page.evaluate(
        """days.bars.map((bar, at) => [bar, days.bars[at - 1], days.bars[at + 1]])
             .filter(([bar, before, after]) =>
               bar.lane === 0 && bar.label >= 0 &&
               before?.label >= 0 && before.label === after?.label)
             .map(([bar, before]) => [bar.number, before.label, bar.end - bar.start])
             .sort((a, b) => a[2] - b[2])[0]"""
    )[:2]
    page.locator(f'[data-bar="{bar}"]').click()
    take(page, "#days-box, #panel", images / "studio-days.png", whole_screen=True)
    page.click(f"#is-{label}")
    page.locator("#corrections tbody tr").wait_for()
    page.click("#relabel")
    page.locator("#changed:not(:empty)").wait_for()
    page.click("#close-panel")
    take(page, "#lanes-title", images / "studio-relabel.png", whole_screen=True)


def answer(page: Page, images: Path) -> None:
    page.click("#ask")
    page.locator("#question h4").wait_for()
    take(page, "#ask-title", images / "studio-ask.png", whole_screen=True)
    take(page, "#save", images / "studio-save.png")


def take(page: Page, selector: str, path: Path, *, whole_screen: bool = False) -> None:
    """Take a picture of an element, or of the screen with the element at its top."""
    shown: Locator = page.locator(selector).first
    shown.wait_for()
    shown.evaluate("one => one.scrollIntoView({ block: 'start' })")
    page.wait_for_timeout(300)  # until nothing scrolls any more
    if whole_screen:
        page.screenshot(path=path)
        return
    page.locator("header").evaluate("one => { one.style.position = 'static' }")
    shown.screenshot(path=path)
    page.locator("header").evaluate("one => { one.style.position = '' }")


if __name__ == "__main__":
    main()
