"""Start an installed browser and open pages in it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
HOW = "`make browser` installs one on Debian; elsewhere APPORTION_BROWSER names one"


class NoBrowserError(Exception):
    """There is no browser, or nothing to drive it with."""


def find_browser() -> str:
    """Return the path of the browser in APPORTION_BROWSER, or of the first one installed."""
    named = os.environ.get("APPORTION_BROWSER")
    for name in [named] if named else NAMES:
        if path := shutil.which(name):
            return path
    raise NoBrowserError(f"no {named or ', '.join(NAMES)}: {HOW}")


@contextmanager
def started_browser() -> Iterator[object]:
    """Start the browser without a window, and close it at the end."""
    path = find_browser()
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        raise NoBrowserError("no playwright: `make test` installs it") from None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        try:
            yield browser
        finally:
            browser.close()


class Opened:
    """A page opened from a file or an address, with its requests, errors and warnings."""

    def __init__(self, context, path: Path | str) -> None:
        web = str(path).startswith("http:")
        self.url = str(path) if web else Path(path).resolve().as_uri()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page = context.new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._listen)
        self.page.goto(self.url)
        self.page.wait_for_selector("html[data-ready]", state="attached")

    def _listen(self, message) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    @property
    def foreign(self) -> list[str]:
        """The requests for anything outside the page."""
        inside = (self.url, "data:", "blob:")
        return [url for url in self.requests if not url.startswith(inside)]


@contextmanager
def opened(browser, path, *, width=1280, height=900, **options) -> Iterator[Opened]:
    """Open a file, and check at the end that it had no errors and no outside requests."""
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    try:
        found = Opened(context, path)
        yield found
        assert found.complaints == []
        assert found.foreign == []
    finally:
        context.close()


def until(page, expression, patience=30.0) -> None:
    """Wait until an expression is true; the page's policy forbids Playwright's own way."""
    end = time.monotonic() + patience
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)


def texts(page, selector) -> list[str]:
    """Return the text of every selected element, with white space collapsed, as valid Unicode."""
    found = page.eval_on_selector_all(
        selector, "all => all.map((one) => one.textContent.toWellFormed())"
    )
    return [" ".join(text.split()) for text in found]
