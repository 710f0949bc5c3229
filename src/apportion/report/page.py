"""The page: a template filled with a report's contents, its styles and scripts inside."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.util import find_spec
from itertools import combinations
from typing import Any

import numpy as np

from apportion.exceptions import counted, plural
from apportion.labeling._summary import Run
from apportion.labeling.rows import REASONS
from apportion.plotting._glossary import Explanations
from apportion.report.contents import Contents
from apportion.report.document import document_of, shown_bags, window_hours
from apportion.report.verdict import verdict_on
from apportion.supervision.diagnosis import Diagnosis

_SCRIPTS = ("tools.js", "days.js", "bags.js", "map.js", "convergence.js", "page.js")
_LEVELS = {"sound": "Sound", "care": "With care", "doubt": "In doubt"}


def page_of(contents: Contents, facts: Mapping[str, str]) -> str:
    """Return the report as one HTML page.

    Whatever comes from outside reaches the page as text: in HTML by Jinja's escaping, in scripts as
    JSON without a sign that HTML knows. The page's policy allows the scripts written here, by their
    hashes, no others, and no network.
    """
    require_tools()
    templates = _environment()
    document = _json(document_of(contents))
    scripts = [_plotly(), "\n".join(_source(templates, name) for name in _SCRIPTS)]
    verdict, explain = verdict_on(contents), Explanations(contents.bag_word)
    # What a bag is always belongs to the verdict.
    said = " ".join([contents.bag_word, verdict.sentence, *verdict.concerns])
    return templates.get_template("report.html").render(
        title=contents.title,
        verdict=verdict,
        explain=explain,
        spoken=explain.used_in(said),
        bag=contents.bag_word,
        bags_word=plural(contents.bag_word),
        levels=_LEVELS,
        n_samples=contents.n_samples,
        policy=_policy(scripts),
        style=_source(templates, "report.css"),
        scripts=scripts,
        document=document,
        timeline=contents.times is not None,
        maps=contents.maps,
        no_map=contents.no_map,
        bags=_bag_table(contents),
        designs=[(name, _design(one)) for name, one in contents.diagnoses.items()],
        runs=contents.runs,
        settings=_settings(contents),
        reasons=_reasons(contents),
        common_reasons=[(code, REASONS[code]) for code in contents.common_reasons],
        command=contents.command,
        facts=facts,
        rules=contents.rules,
        notes=contents.notes,
    )


def require_tools() -> None:
    """Raise where what a page is made with is not installed."""
    for package in ("jinja2", "plotly"):
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"A report needs {package}: install apportion[report].")


def _environment() -> Any:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("apportion.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _source(templates: Any, name: str) -> str:
    text, _, _ = templates.loader.get_source(templates, name)
    return str(text)


def _json(document: Any) -> str:
    """Return JSON that may stand in a script element."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    # A lone surrogate is no text that a file could hold.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _policy(scripts: list[str]) -> str:
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'"
        for one in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _bag_table(contents: Contents) -> dict[str, Any]:
    """Return given against assigned, one line per bag."""
    report = contents.report
    chosen = shown_bags(report)
    assigned, off = report.assigned[report.decode], report.difference()
    lines = [
        {
            "name": str(report.ids[k]),
            "rows": int(report.sizes[k]),
            "off": float(np.abs(off[k]).sum() / 2),
            "cells": [
                {
                    "given": _span(report.lower[k, h], report.upper[k, h]),
                    "assigned": int(assigned[k, h]),
                    "off": bool(abs(off[k, h]) >= 1.0),
                }
                for h in range(len(report.classes))
            ],
        }
        for k in chosen.tolist()
    ]
    return {
        "classes": [str(one) for one in report.classes.tolist()],
        "lines": lines,
        "n": len(report.ids),
        "error": report.error(),
        "decode": report.decode,
        "row_lasts": _lasting(window_hours(contents)),
    }


def _lasting(hours: float | None) -> str:
    if hours is None:
        return ""
    if hours < 1 / 30:
        return f"{3600 * hours:.4g} s"
    return f"{60 * hours:.4g} min" if hours < 2 else f"{hours:.4g} h"


def _span(lower: float, upper: float) -> str:
    if not np.isfinite(upper):
        return f"at least {lower:,.4g}"
    if upper - lower <= 1e-9 * max(upper, 1.0):
        return f"{upper:,.4g}" if upper < 1000 else f"{upper:,.0f}"
    return f"{lower:,.4g} to {upper:,.4g}"


def _design(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return what the bags tell apart, as the page shows it."""
    labels = [str(one) for one in diagnosis.classes.tolist()]
    pairs = [
        (float(diagnosis.pairwise[g, h]), labels[g], labels[h])
        for g, h in combinations(range(len(labels)), 2)
        if np.isfinite(diagnosis.pairwise[g, h])
    ]
    return {
        "index": diagnosis.index,
        "rank": diagnosis.rank,
        "n_classes": len(labels) - len(diagnosis.absent),
        "findings": diagnosis.findings,
        "labels": labels,
        "pairwise": diagnosis.pairwise.tolist(),
        "hardest": min(pairs) if pairs else None,
    }


def _reasons(contents: Contents) -> list[tuple[str, str, str]]:
    """Return the reason codes that some rows have and others do not, and how many have them."""
    common = contents.common_reasons
    return [
        (code, counted(count, "row"), REASONS[code])
        for code, count in contents.reasons.items()
        if code not in common
    ]


def _settings(contents: Contents) -> list[tuple[str, Run]]:
    """Return the runs whose settings are to be shown: one where all were set up alike."""
    runs = list(contents.runs.items())
    if all(run.settings == runs[0][1].settings for _, run in runs):
        return [("", run) for _, run in runs[:1]]
    return [(f"{name}: " if name else "", run) for name, run in runs]
