"""Given against assigned, on a terminal and as JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

import apportion
from apportion.bag_report import BagReport
from apportion.cli.talk import talk
from apportion.labelling import REASONS, Labelled

_MOST_BAGS = 12


def show_report(found: Labelled) -> None:
    """Print given against assigned rows, by class and by bag, and how many rows have a reason."""
    report = found.report
    talk.print()
    talk.print(_by_class(found))
    talk.print(_by_bag(report))
    if len(report.ids) > _MOST_BAGS:
        talk.print(f"… and {len(report.ids) - _MOST_BAGS:,} more bags; --json lists all")
    talk.print(f"{report.error():.1%} of the bagged rows are off their bag's totals")
    for code, count in reasons_of(found).items():
        talk.print(f"reason {code}: {count:,} rows: {REASONS[code]}")


def reasons_of(found: Labelled) -> dict[str, int]:
    """Return how many rows have each reason."""
    patterns = Counter(found.reasons.tolist())
    counts = Counter[str]()
    for pattern, count in patterns.items():
        counts.update({code: count for code in pattern.split(";") if code})
    return {code: counts[code] for code in REASONS if counts[code]}


def summary_of(found: Labelled, rules: list[str], notes: list[str]) -> dict[str, Any]:
    """Return the same for machines."""
    report = found.report
    classes = [str(label) for label in report.classes.tolist()]
    assigned = report.assigned[report.decode]
    return {
        "apportion": apportion.__version__,
        "rows": len(found.labels),
        "classes": classes,
        "assigned": dict(Counter(str(one) for one in found.labels.tolist() if one is not None)),
        "bag_error": report.error(),
        "reasons": reasons_of(found),
        "bags": [
            {
                "bag": str(bag),
                "rows": int(report.sizes[k]),
                "given": {
                    name: [float(report.lower[k, h]), float(report.upper[k, h])]
                    for h, name in enumerate(classes)
                },
                "assigned": {name: int(assigned[k, h]) for h, name in enumerate(classes)},
            }
            for k, bag in enumerate(report.ids)
        ],
        "models": {
            str(group or "all"): {
                "status": model.solution_.status.value,
                "iterations": model.n_iter_,
                "graph": model.graph_choice_,
                "information_index": model.diagnosis_.index,
            }
            for group, model in found.models.items()
        },
        "rules": rules,
        "notes": notes,
    }


def _by_class(found: Labelled) -> Table:
    report = found.report
    table = Table(box=box.SIMPLE_HEAD, title="rows by class, in bags", title_justify="left")
    for name in ("class", "given", "assigned", "share", "confidence"):
        table.add_column(name, justify="left" if name == "class" else "right")
    low, high = report.lower.sum(axis=0), report.upper.sum(axis=0)
    counts = report.assigned[report.decode].sum(axis=0)
    labels = found.labels.astype(str)
    for h, name in enumerate(report.classes.tolist()):
        mine = labels == str(name)
        sure = f"{np.mean(found.confidence[mine]):.2f}" if mine.any() else "–"
        share = counts[h] / max(int(report.sizes.sum()), 1)
        table.add_row(str(name), _span(low[h], high[h]), f"{counts[h]:,}", f"{share:.1%}", sure)
    return table


def _by_bag(report: BagReport) -> Table:
    """Return a line a bag: every class where that fits, else what is off."""
    classes = [str(label) for label in report.classes.tolist()]
    counts = report.assigned[report.decode]
    lines = [
        [
            f"{_span(report.lower[k, h], report.upper[k, h])} → {counts[k, h]:,}"
            for h in range(len(classes))
        ]
        for k in range(min(len(report.ids), _MOST_BAGS))
    ]
    names = [str(bag) for bag in report.ids[:_MOST_BAGS]]
    widths = [max(len(line[h]) for line in [classes, *lines]) + 2 for h in range(len(classes))]
    fits = sum(widths) + max(map(len, names)) + 12 <= talk.width
    title = "rows by bag, given → assigned"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    table.add_column("bag")
    table.add_column("rows", justify="right")
    for name in classes if fits else ("off totals", "farthest off"):
        table.add_column(name, justify="right")
    off = report.difference()
    for k, name in enumerate(names):
        h = int(np.argmax(np.abs(off[k])))
        most = f"{classes[h]} {off[k, h]:+.3g}" if abs(off[k, h]) >= 0.5 else "–"
        rest = lines[k] if fits else [f"{np.abs(off[k]).sum() / 2:.3g}", most]
        table.add_row(name, f"{report.sizes[k]:,}", *rest)
    return table


def _span(lower: float, upper: float) -> str:
    if upper - lower <= 1e-9 * max(upper, 1.0):
        return f"{upper:,.4g}" if upper < 1000 else f"{upper:,.0f}"
    return f"{lower:,.0f}…{upper:,.0f}"
