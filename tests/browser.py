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
    """A tab with a page from a file or an address, with its requests, errors and warnings."""

    def __init__(self, page, path: Path | str) -> None:
        web = str(path).startswith("http:")
        self.url = str(path) if web else Path(path).resolve().as_uri()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page = page
        self._listeners = {
            "request": lambda request: self.requests.append(request.url),
            "pageerror": lambda error: self.complaints.append(str(error)),
            "console": self._listen,
        }
        for event, listener in self._listeners.items():
            page.on(event, listener)
        page.goto(self.url)
        page.wait_for_selector("html[data-ready]", state="attached")

    def _listen(self, message) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def leave(self) -> None:
        """Leave the tab as if it were new."""
        self.page.goto("about:blank")
        self.page.emulate_media(media="null")
        self.page.mouse.move(0, 0)
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)

    @property
    def foreign(self) -> list[str]:
        """The requests for anything outside the page."""
        inside = (self.url, "data:", "blob:")
        return [url for url in self.requests if not url.startswith(inside)]


class Tabs:
    """Tabs for reports, each used again by the next test that needs no options of its own.

    A browser keeps the compiled scripts of an address that a tab shows again, and those of a report
    take a second. Every tab therefore shows copies, under one name.
    """

    def __init__(self, browser, folder: Path) -> None:
        self.browser = browser
        self._folder = folder
        self._idle: list[tuple[object, Path]] = []
        self._number = 0

    @contextmanager
    def opened(self, path, *, width=1280, height=900, **options) -> Iterator[Opened]:
        """Open a report, and check at the end that it had no errors and no outside requests."""
        size = {"width": width, "height": height}
        if options:
            context = self.browser.new_context(viewport=size, **options)
            try:
                with _checked(Opened(context.new_page(), path)) as found:
                    yield found
            finally:
                context.close()
            return
        page, name = self._idle.pop() if self._idle else self._new()
        page.set_viewport_size(size)
        with _checked(Opened(page, shutil.copy(path, name))) as found:
            yield found
        found.leave()
        self._idle.append((page, name))  # not after a test that failed

    def _new(self) -> tuple[object, Path]:
        self._number += 1
        return self.browser.new_context().new_page(), self._folder / f"tab-{self._number}.html"


@contextmanager
def _checked(found: Opened) -> Iterator[Opened]:
    yield found
    assert found.complaints == []
    assert found.foreign == []


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
