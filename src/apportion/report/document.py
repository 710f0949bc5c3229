"""A report's contents as the plain lists and numbers that the page's script draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.bag_report import BagReport
from apportion.exceptions import plural
from apportion.plotting._palette import looks
from apportion.plotting._row_map import RowsMap
from apportion.plotting._timeline_data import SECOND, Timeline, timeline_of
from apportion.report.contents import Contents

MOST_BAGS = 1000
"""Bags in the table: those farthest off their totals where there are more."""

MOST_DRAWN = 4000
"""Bags that the script knows."""

_MOST_ENERGIES = 500
_LARGEST_WHOLE = 2**53


def document_of(contents: Contents) -> dict[str, Any]:
    """Return what the page's script draws."""
    answer, places = contents.answer, contents.places
    counts = np.bincount(places[places >= 0], minlength=len(answer.classes))
    bags = shown_bags(contents.report, MOST_DRAWN)
    shown = None
    if contents.times is not None:
        shown = timeline_of(contents.times, places, answer.confidence)
    return {
        "words": {"bag": contents.bag_word, "bags": plural(contents.bag_word)},
        "classes": [
            {
                "name": str(name),
                "rows": int(count),
                "color": look.color,
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


def shown_bags(report: BagReport, most: int = MOST_BAGS) -> IntArray:
    """Return the bags that are shown: all, or those farthest off their totals, in their order."""
    if len(report.ids) <= most:
        return np.arange(len(report.ids))
    off = np.abs(report.difference()).sum(axis=1)
    return np.sort(np.argsort(-off, kind="stable")[:most])


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
        "rows": shown.n_samples.tolist(),
        "sure": _percent(shown.confidence),
        "lowest": _percent(shown.lowest),
    }


def _bags(contents: Contents, bags: IntArray, shown: Timeline | None) -> dict[str, Any]:
    report = contents.report
    return {
        "n": len(report.ids),
        "names": [str(report.ids[k]) for k in bags.tolist()],
        "rows": report.sizes[bags].tolist(),
        "lower": _rounded(report.lower[bags], 2),
        "upper": _rounded(report.upper[bags], 2),
        "assigned": report.assigned[report.decode][bags].tolist(),
        "hours": window_hours(contents),
        "pieces": None if shown is None else _pieces(contents, bags, shown),
    }


def _pieces(contents: Contents, bags: IntArray, shown: Timeline) -> dict[str, Any]:
    """Return when in which lane each bag begins and ends, and lanes of bags that are not listed."""
    assert contents.times is not None, "a timeline has times"
    rows = np.flatnonzero(contents.bag_codes >= 0)
    n_bags = len(contents.report.ids)
    keys = shown.lane_of_row[rows] * n_bags + contents.bag_codes[rows]
    pieces, of_row = np.unique(keys, return_inverse=True)
    lane, bag = np.divmod(pieces, max(n_bags, 1))
    start, end = np.full(len(pieces), np.inf), np.full(len(pieces), -np.inf)
    midnight = shown.midnight[shown.lane_of_row[rows]]
    np.minimum.at(start, of_row, (contents.times.starts[rows] - midnight) / SECOND)
    np.maximum.at(end, of_row, (contents.times.ends[rows] - midnight) / SECOND)
    place = np.full(n_bags, -1)
    place[bags] = np.arange(len(bags))
    listed = place[bag] >= 0
    return {
        "bag": place[bag[listed]].tolist(),
        "lane": lane[listed].tolist(),
        "start": _rounded(start[listed], 3),
        "end": _rounded(end[listed], 3),
        "unlisted": np.unique(lane[~listed]).tolist(),
    }


def _map(name: str, one: RowsMap, contents: Contents) -> dict[str, Any]:
    answer, places = contents.answer, contents.places
    known = one.neighbors >= 0
    everybody = np.where(known, one.neighbors, 0)
    return {
        "name": name,
        "how": one.how,
        "x": _on_paper(one.places[:, 0]),
        "y": _on_paper(one.places[:, 1]),
        "row": _names(contents, one.rows),
        "label": places[one.rows].tolist(),
        "bag": _bag_names(contents, one.rows),
        "masses": _percent(answer.masses[one.rows]),
        "reason": _own_reasons(contents, answer.reasons[one.rows]),
        "near": _names(contents, everybody),
        "nearLabel": np.where(known, places[everybody], -2).tolist(),
        "nearBag": _bag_names(contents, everybody),
        "nearShare": _percent(one.similarity),
    }


def _own_reasons(contents: Contents, reasons: AnyArray) -> list[str]:
    """Return rows' reason codes, without those that all rows have."""
    common = set(contents.common_reasons)
    return [
        ";".join(code for code in codes.split(";") if code not in common)
        for codes in reasons.tolist()
    ]


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
