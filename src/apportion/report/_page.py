"""The HTML page of a report: a template filled with the data, with styles and scripts inside."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

from apportion.exceptions import counted
from apportion.labeling._summary import Run
from apportion.labeling.rows import REASONS
from apportion.report._glossary import Explanations
from apportion.report._plot_data import plot_data, shown_bags, window_hours
from apportion.report._reliability import estimate_in_words, method_in_words
from apportion.report._report_data import ReportData
from apportion.report._verdict import verdict_on

_SCRIPTS = (
    "common.js", "tools.js", "accuracy.js", "days.js",
    "bags.js", "map.js", "convergence.js", "page.js",
)  # fmt: skip


def page_of(data: ReportData, facts: Mapping[str, str]) -> str:
    """Return a report as one HTML page.

    Text from outside remains text: Jinja escapes it in HTML, and in scripts it is JSON without any
    character that is special in HTML. The content security policy of the page allows its own
    scripts, by their hashes, no others, and no network.

    Parameters
    ----------
    data : ReportData
        What the report shows.
    facts : mapping of str to str
        Files and versions; the version of apportion must be among them.

    Returns
    -------
    str
    """
    require_tools()
    import jinja2
    from plotly.offline import get_plotlyjs

    loader = jinja2.PackageLoader("apportion.report")
    templates = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sources = {name: loader.get_source(templates, name)[0] for name in (*_SCRIPTS, "report.css")}
    scripts = [str(get_plotlyjs()), "\n".join(sources[name] for name in _SCRIPTS)]
    verdict = verdict_on(data)
    explain = Explanations(data.bag_word, calibrated=data.calibrated)
    # The header always explains what a bag is.
    header = " ".join([data.bag_word, verdict.sentence, *verdict.concerns])
    return templates.get_template("report.html").render(
        data=data,
        report=data.report,
        bags=shown_bags(data.report),
        difference=np.abs(data.report.difference()),
        episodes=data.episodes,
        verdict=verdict,
        explain=explain,
        header_terms=explain.used_in(header),
        counted=counted,
        reason_texts=REASONS,
        settings=_settings(data),
        row_duration=_duration(window_hours(data.times)),
        interval=interval,
        held_out=any(part.totals.n_known for part in data.reliability.values()),
        weighed=any(len(part.methods.candidates) > 1 for part in data.reliability.values()),
        estimate_in_words=estimate_in_words,
        method_in_words=method_in_words,
        facts=facts,
        policy=_policy(scripts),
        style=sources["report.css"],
        scripts=scripts,
        plot_data=_json(plot_data(data)),
    )


def require_tools() -> None:
    """Raise if a package that the page needs is not installed."""
    for package in ("jinja2", "plotly"):
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"A report needs {package}: install apportion[report].")


def _json(document: Any) -> str:
    """Return JSON that is safe in a script element."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # A file cannot contain a lone surrogate.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _policy(scripts: list[str]) -> str:
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _duration(hours: float | None) -> str:
    if hours is None:
        return ""
    if hours < 1 / 30:
        return f"{3600 * hours:.4g} s"
    return f"{60 * hours:.4g} min" if hours < 2 else f"{hours:.4g} h"


def interval(lower: float, upper: float) -> str:
    """Return the bounds of a total in words."""
    if not np.isfinite(upper):
        return f"at least {lower:,.4g}"
    if upper - lower <= 1e-9 * max(upper, 1.0):
        return f"{upper:,.4g}" if upper < 1000 else f"{upper:,.0f}"
    return f"{lower:,.4g} to {upper:,.4g}"


def _settings(data: ReportData) -> list[tuple[str, Run]]:
    """Return the runs with their headings; only the first if all have the same settings."""
    runs = list(data.runs.items())
    if all(run.settings == runs[0][1].settings for _, run in runs):
        return [("", run) for _, run in runs[:1]]
    return [(f"{name}: " if name else "", run) for name, run in runs]
