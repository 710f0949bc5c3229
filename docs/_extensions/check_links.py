"""Check a built site: every link, anchor and picture exists, and nothing comes from elsewhere.

python docs/_extensions/check_links.py docs/_build/html
"""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src"}
"""Tags that a browser follows by itself. A `link` is loaded unless its `rel` only names a page."""

PAGES_ONLY = {"next", "prev", "search", "index", "author", "canonical", "copyright"}


class Page(HTMLParser):
    """The links, loaded files and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what the tag refers to and the names that it has."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if LOADED.get(tag, "") in values:
            self.loaded.append(values[LOADED[tag]])
        if "srcset" in values:
            self.loaded += [part.split()[0] for part in values["srcset"].split(",")]
        if tag == "link" and not PAGES_ONLY & {*values.get("rel", "").split()}:
            self.loaded.append(values.get("href", ""))


@cache
def _read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def pages_of(folder: Path) -> list[Path]:
    """Return the pages of a site, without the templates that come with the theme."""
    pages = folder.rglob("*.html")
    return sorted(path for path in pages if "_static" not in path.relative_to(folder).parts)


def problems_of(folder: Path) -> list[str]:
    """Return one line per broken link and per file that a page loads from elsewhere."""
    found = []
    for path in pages_of(folder):
        page = _read(path)
        where = path.relative_to(folder)
        found += [f"{where} loads {url}" for url in page.loaded if _is_foreign(url)]
        found += [
            f"{where}: no {url}"
            for url in dict.fromkeys([*page.links, *page.loaded])
            if not _is_foreign(url) and not _exists(path, url)
        ]
    return found


def _is_foreign(url: str) -> bool:
    parts = urlsplit(url)
    return bool(parts.netloc) or parts.scheme in ("http", "https", "mailto")


def _exists(page: Path, url: str) -> bool:
    """Whether a relative address is a file, and its fragment an anchor of that file."""
    parts = urlsplit(url)
    if parts.scheme:
        return parts.scheme in ("data", "javascript")
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_file():
        return False
    anchored = parts.fragment and target.suffix == ".html"
    return not anchored or unquote(parts.fragment) in _read(target).anchors | {"top"}


def main() -> int:
    """Print the problems and how many pages were read."""
    folder = Path(sys.argv[1]).resolve()
    found = problems_of(folder)
    print(*found, sep="\n", end="\n" if found else "")
    count = len(pages_of(folder))
    print(f"{count} pages, {len(found)} problems: {folder.name}/index.html")
    return int(bool(found) or not count)


if __name__ == "__main__":
    sys.exit(main())
