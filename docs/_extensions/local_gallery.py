"""The gallery of `examples/plot_*.py`, or a page that says so where there are none yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
HEADERS = ("GALLERY_HEADER.rst", "GALLERY_HEADER.md", "README.rst", "README.txt")
STUB = "# Gallery\n\nThere are no examples in `examples/` yet.\n"


def has_gallery() -> bool:
    """Whether there is an example and a header, without which sphinx-gallery stops."""
    header = any((EXAMPLES / name).exists() for name in HEADERS)
    return header and any(EXAMPLES.glob("plot_*.py"))


def setup(app: Any) -> dict[str, bool]:
    """Set up sphinx-gallery, or write the page that stands in for it."""
    stub = Path(app.srcdir) / "gallery" / "index.md"
    if has_gallery():
        stub.unlink(missing_ok=True)
        app.setup_extension("sphinx_gallery.gen_gallery")
    else:
        stub.parent.mkdir(exist_ok=True)
        stub.write_text(STUB, encoding="utf-8")
        app.add_config_value("plot_gallery", True, "html")  # of sphinx-gallery: `-D plot_gallery=0`
    return {"parallel_read_safe": True, "parallel_write_safe": True}


SETTINGS = {
    "examples_dirs": str(EXAMPLES),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(^|/)(?!plot_)[^/]*\.py$",  # scripts that draw pictures of the docs
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("apportion",),
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "download_all_examples": False,
    "image_srcset": ["2x"],
    "within_subsection_order": "FileNameSortKey",
}
