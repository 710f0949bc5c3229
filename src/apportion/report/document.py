"""A report's contents as the plain lists and numbers that the page's script draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from apportion._typing import AnyArray, FloatArray, IntArray
from apportion.bag_report import BagReport
from apportion.report.contents import Contents
from apportion.views.looks import looks
from apportion.views.rows_map import RowsMap
from apportion.views.timeline import SECOND, Timeline, timeline_of

MOST_BAGS = 1000
"""Bags in the table: those farthest off their totals where there are more."""

_MOST_ENERGIES = 500
_LARGEST_WHOLE = 2**53


def document_of(contents: Contents) -> dict[str, Any]:
    """Return what the page's script draws."""
    answer, places = contents.answer, contents.places
    counts = np.bincount(places[places >= 0], minlength=len(answer.classes))
    bags = shown_bags(contents.report)
    shown = None
    if contents.times is not None:
        shown = timeline_of(contents.times, places, answer.confidence)
    return {
        "classes": [
            {
                "name": str(name),
                "rows": int(count),
                "colour": look.colour,
                "pattern": look.pattern,
                "symbol": look.symbol,
            }
            for name, count, look in zip(
                answer.classes.tolist(), counts, looks(len(counts)), strict=True
            )
        ],
        "timeline": None if shown is None else _timeline(shown, contents),
        "bags": _bags(contents, bags, shown),
        "maps": [_map(name, one, contents) for name, one in contents.maps.items()],
        "runs": [
            {"name": name, "energies": _thinned(run.energies)}
            for name, run in contents.runs.items()
            if len(run.energies) > 1
        ],
    }


def shown_bags(report: BagReport) -> IntArray:
    """Return the bags that are listed: all, or those farthest off their totals, in their order."""
    if len(report.ids) <= MOST_BAGS:
        return np.arange(len(report.ids))
    off = np.abs(report.difference()).sum(axis=1)
    return np.sort(np.argsort(-off, kind="stable")[:MOST_BAGS])


def window_hours(contents: Contents) -> float | None:
    """Return how long a row usually lasted; None where that is not known."""
    times = contents.times
    if times is None:
        return None
    return float(np.median(times.ends - times.starts)) / SECOND / 3600.0


def _timeline(shown: Timeline, contents: Contents) -> dict[str, Any]:
    assert contents.times is not None, "a timeline has times"
    return {
        "participants": shown.participants,
        "days": shown.days,
        "participant": shown.participant.tolist(),
        "slot": shown.slot.tolist() if shown.slot.any() else None,
        "dated": contents.times.dated,
        "lane": shown.lane.tolist(),
        "start": _rounded(shown.start, 3),
        "end": _rounded(shown.end, 3),
        "label": shown.label.tolist(),
        "rows": shown.n_rows.tolist(),
        "sure": _percent(shown.confidence),
        "lowest": _percent(shown.lowest),
    }


def _bags(contents: Contents, bags: IntArray, shown: Timeline | None) -> dict[str, Any]:
    report = contents.report
    lane, start, end = _when(contents, shown)
    return {
        "n": len(report.ids),
        "names": [str(report.ids[k]) for k in bags.tolist()],
        "rows": report.sizes[bags].tolist(),
        "lower": _rounded(report.lower[bags], 2),
        "upper": _rounded(report.upper[bags], 2),
        "assigned": report.assigned[report.decode][bags].tolist(),
        "lane": lane[bags].tolist(),
        "start": _rounded(start[bags], 3),
        "end": _rounded(end[bags], 3),
        "hours": window_hours(contents),
    }


def _when(contents: Contents, shown: Timeline | None) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return each bag's first lane, -1 without times, and when in it the bag begins and ends."""
    n_bags = len(contents.report.ids)
    lane = np.full(n_bags, -1, dtype=np.intp)
    start, end = np.full(n_bags, np.inf), np.full(n_bags, -np.inf)
    if shown is None or contents.times is None:
        return lane, start, end
    rows = np.flatnonzero(contents.bag_codes >= 0)
    bag, of_row = contents.bag_codes[rows], shown.lane_of_row[rows]
    first = np.full(n_bags, len(shown.days))
    np.minimum.at(first, bag, of_row)
    lane[bag] = first[bag]
    there = of_row == first[bag]
    rows, bag, midnight = rows[there], bag[there], shown.midnight[of_row[there]]
    np.minimum.at(start, bag, (contents.times.starts[rows] - midnight) / SECOND)
    np.maximum.at(end, bag, (contents.times.ends[rows] - midnight) / SECOND)
    return lane, start, end


def _map(name: str, one: RowsMap, contents: Contents) -> dict[str, Any]:
    answer, places = contents.answer, contents.places
    known = one.neighbours >= 0
    everybody = np.where(known, one.neighbours, 0)
    return {
        "name": name,
        "how": one.how,
        "x": _on_paper(one.places[:, 0]),
        "y": _on_paper(one.places[:, 1]),
        "row": _names(contents, one.rows),
        "label": places[one.rows].tolist(),
        "bag": _bag_names(contents, one.rows),
        "masses": _percent(answer.masses[one.rows]),
        "reason": answer.reasons[one.rows].tolist(),
        "near": _names(contents, everybody),
        "nearLabel": np.where(known, places[everybody], -2).tolist(),
        "nearBag": _bag_names(contents, everybody),
        "nearShare": _percent(one.similarity),
    }


def _names(contents: Contents, rows: AnyArray) -> Any:
    if contents.names is None:
        return rows.tolist()
    return np.vectorize(str, otypes=[object])(contents.names[rows]).tolist()


def _bag_names(contents: Contents, rows: AnyArray) -> Any:
    names = np.array([*map(str, contents.report.ids), None], dtype=object)
    return names[contents.bag_codes[rows]].tolist()


def _thinned(energies: list[float]) -> list[list[float]]:
    """Return iterations and energies; many, evenly thinned in the logarithm of the iteration."""
    n = len(energies)
    steps = np.arange(n)
    if n > _MOST_ENERGIES:
        steps = np.unique(np.rint(np.geomspace(1, n, _MOST_ENERGIES)).astype(int) - 1)
    return [[int(step), energies[step]] for step in steps]


def _on_paper(places: FloatArray) -> Any:
    """Return places, each in steps of a ten-thousandth of the axis or less, whatever their unit."""
    span = float(np.ptp(places)) or float(np.abs(places).max())
    return _rounded(places, min(4 - math.floor(math.log10(span)), 300) if span else 0)


def _rounded(values: FloatArray, digits: int) -> Any:
    """Return numbers in few digits, whole ones without a point, None where there is none."""
    finite = np.isfinite(values)
    numbers = np.round(np.where(finite, values, 0.0), digits)
    whole = (numbers == np.rint(numbers)) & (np.abs(numbers) < _LARGEST_WHOLE)
    cells = numbers.astype(object)
    cells[whole] = numbers[whole].astype(np.int64)
    cells[~finite] = None
    return cells.tolist()


def _percent(values: FloatArray) -> Any:
    return _rounded(100.0 * values, 0)
