"""How Sphinx builds the documentation: `make docs`."""

from __future__ import annotations

import re
import sys
import warnings
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "apportion"
author = "The apportion developers"
project_copyright = author
release = installed_version("apportion")
version = ".".join(release.split(".")[:2])

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    # of this project, in _extensions/
    "api_links",
    "command_pages",
]
exclude_patterns = ["_build", "_templates", "_extensions", "**sg_execution_times.rst"]
templates_path = ["_templates"]
nitpicky = True
default_role = "code"  # docstrings write `names` in single backticks

# Docstrings
autodoc_typehints = "none"  # the Parameters section has the types, in words
autodoc_member_order = "groupwise"
autosummary_generate = True
autosummary_context = {
    "not_inherited_from": "object, dict, str, tuple, Exception, Warning, ValueError, OSError",
}
numpydoc_show_class_members = False  # the template lists them
numpydoc_validation_checks = {
    *("GL01", "GL03", "GL06", "GL07", "PR01", "PR02", "PR03", "PR10", "RT03", "SS01"),
}
numpydoc_validation_exclude = {
    r"(Error|Warning)$",  # all have the parameters of their base class
    r"Graph\.\w+$",  # what a graph answers is described once, by its base class
    r"\.(Bags\.\w+|SmartHome\.write_with|BagKFold\.get_n_splits)$",  # for other modules
    # results, which nobody constructs: they describe attributes
    r"\.(CandidateReport|WeighedCandidate|EstimatedAccuracy|Estimate|BagReport|Diagnosis|Bags)$",
    r"\.(RowSuggestions|BagSuggestions|LabelSettings)$",
    r"\.(DiaryBags|EventWindows|LabeledTable|PredictedTable|SavedModel|SmartHome|SphereWindows)$",
}
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
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

# Markdown
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_ambiguous"]

# The pages load nothing from the network: fonts, scripts and styles come with the theme.
html_theme = "pydata_sphinx_theme"
html_title = f"apportion {release}"
html_static_path = ["_static"]
html_css_files = ["apportion.css"]
html_favicon = "_static/icon.svg"
html_logo = "_static/icon.svg"
html_copy_source = False
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is set
html_theme_options = {
    "logo": {"text": "apportion", "alt_text": "apportion, start page"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
}
html_sidebars = {
    "index": [],
    "getting_started": [],
    "limits": [],
    "citing": [],
    "changelog": [],
}


def _skip(app, kind, name, member, skip, options):
    """Leave out what every estimator has from scikit-learn, such as `set_params`."""
    inherited = str(getattr(member, "__module__", "")).startswith("sklearn.")
    return True if inherited or re.fullmatch(r"set_\w+_request", name) else None


def setup(app):
    """Connect what no extension does."""
    app.connect("autodoc-skip-member", _skip)


warnings.filterwarnings("ignore", category=FutureWarning, module="apportion")
