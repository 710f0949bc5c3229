"""Tables of given against assigned totals, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich import box
from rich.table import Table

from apportion._utils.typing import FloatArray
from apportion.bag_report import BagReport
from apportion.cli.console import console, printable
from apportion.exceptions import counted, plural
from apportion.labeling._methods import mean_candidates
from apportion.labeling._summary import open_rows_of
from apportion.labeling.rows import REASONS, LabeledRows, places_among, reasons_of
from apportion.report._glossary import Explanations, glossary

_MOST_BAGS = 12
_LIKELIHOOD = (
    "log-likelihood: how well the method meets totals that were held out, above 0 if better than "
    "the class shares alone"
)


def show_report(labels: LabeledRows, explain: Explanations) -> None:
    """Print given against assigned rows, by class and by bag, and how many rows have a reason."""
    console.print()
    show_methods(labels)
    console.print(_by_class(labels, explain.bag))
    if labels.calibrated:
        meanings = glossary(explain.bag, calibrated=True)
        _print_lines([f"{term}: {meanings[term]}" for term in ("confidence", "probability")])
    else:
        _print_lines(explain.lines("confidence", "mass"))
    show_bags(labels.report, explain, "; --json lists all")
    for code, count in reasons_of(labels).items():
        console.print(f"{code}, {counted(count, 'row')}: {REASONS[code]}")


def show_methods(labels: LabeledRows) -> None:
    """Print the methods that were weighed, and what held-out totals say about them."""
    weighed = mean_candidates(labels.models, open_rows_of(labels))
    if len(weighed) < 2:
        return
    table = _table("methods, weighed", ("method", "weight", "log-likelihood", "seconds"))
    for one in weighed:
        likelihood = f"{one.log_likelihood:.1f}" if np.isfinite(one.log_likelihood) else "–"
        table.add_row(printable(one.name), f"{one.weight:.2f}", likelihood, f"{one.seconds:.1f}")
    console.print(table)
    if any(np.isfinite(one.log_likelihood) for one in weighed):
        _print_lines([_LIKELIHOOD])


def show_bags(report: BagReport, explain: Explanations, more: str = "") -> None:
    """Print given against assigned rows by bag, and how many are off."""
    bag = explain.bag
    table, terms = _by_bag(report, bag)
    console.print(table)
    if len(report.ids) > _MOST_BAGS:
        console.print(f"… and {len(report.ids) - _MOST_BAGS:,} more {plural(bag)}{more}")
    _print_lines(explain.lines(bag, *terms))
    console.print(
        f"{report.error():.1%} of the rows in {plural(bag)} would have to change class for every "
        f"{bag} to meet its totals"
    )


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        console.print(f"  {line}")


def _by_class(labels: LabeledRows, bag: str) -> Table:
    """Return one line per class."""
    report = labels.report
    table = _table(f"rows in {plural(bag)}, by class", ("class", "given", "assigned", "confidence"))
    low, high = report.lower.sum(axis=0), report.upper.sum(axis=0)
    counts = report.assigned[report.decode].sum(axis=0)
    codes = places_among(labels.labels, report.classes)
    for h, name in enumerate(map(str, report.classes.tolist())):
        rows = codes == h
        mean = f"{np.mean(labels.confidence[rows]):.2f}" if rows.any() else "–"
        table.add_row(printable(name), _span(low[h], high[h]), f"{counts[h]:,}", mean)
    return table


def _by_bag(report: BagReport, bag: str) -> tuple[Table, list[str]]:
    """Return one line per bag, and words to explain: every class if that fits, else what is off."""
    classes = [printable(str(label)) for label in report.classes.tolist()]
    names = [printable(str(bag)) for bag in report.ids[:_MOST_BAGS]]
    counts = report.assigned[report.decode]
    cells = [
        [
            f"{_span(report.lower[k, h], report.upper[k, h])} → {counts[k, h]:,}"
            for h in range(len(classes))
        ]
        for k in range(len(names))
    ]
    widths = [max(len(line[h]) for line in [classes, *cells]) + 3 for h in range(len(classes))]
    fits = sum(widths) + max(map(len, names)) + 12 <= console.width
    if fits:
        table = _table(f"rows by {bag}, given → assigned", (bag, "rows", *classes))
    else:
        table = _table(
            f"rows by {bag}, off the given totals", (bag, "rows", "off totals", "farthest off")
        )
        cells = [_farthest_off(off, classes) for off in report.difference()]
    for k, name in enumerate(names):
        table.add_row(name, f"{report.sizes[k]:,}", *cells[k])
    return table, [] if fits else ["off totals"]


def _farthest_off(off: FloatArray, classes: list[str]) -> list[str]:
    """Return how many rows of a bag are off its totals, and the class that is farthest off."""
    h = int(np.argmax(np.abs(off)))
    farthest = f"{classes[h]} {off[h]:+.1f}" if abs(off[h]) >= 0.5 else "–"
    return [f"{np.abs(off).sum() / 2:.1f}", farthest]


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for position, name in enumerate(columns):
        right = position > 0
        table.add_column(name, justify="right" if right else "left", no_wrap=right, overflow="fold")
    return table


def _span(lower: float, upper: float) -> str:
    if upper - lower <= 1e-9 * max(upper, 1.0):
        return f"{upper:,.4g}" if upper < 1000 else f"{upper:,.0f}"
    return f"{lower:,.0f}…{upper:,.0f}"
