"""The data of a report as the plain lists and numbers that the scripts of the page draw."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from apportion._utils.typing import FloatArray, IntArray
from apportion.bag_report import BagReport
from apportion.plotting._palette import class_styles
from apportion.plotting._segments import Timeline, extents, timeline_of
from apportion.plotting._window_times import SECOND, Times
from apportion.report._reliability import Reliability
from apportion.report._report_data import ReportData
from apportion.report._row_map import RowMap

MOST_BAGS = 1000
"""Bags in the table."""

MOST_DRAWN = 4000
"""Bags that the scripts can draw."""

_MOST_ENERGIES = 500
_MOST_TOTALS, _FEWEST_TOTALS = 3000, 300
"""Held-out totals that are drawn, of all groups together, and at least of each."""
_LARGEST_WHOLE = 2**53


def plot_data(data: ReportData) -> dict[str, Any]:
    """Return what the scripts of the page draw, ready for JSON."""
    classes, codes, times, report = data.answer.classes, data.label_codes, data.times, data.report
    counts = np.bincount(codes[codes >= 0], minlength=len(classes)).tolist()
    names, bags = map(str, classes.tolist()), shown_bags(report, MOST_DRAWN)
    episodes, lanes, pieces = data.episodes, None, None
    said = None if episodes is None or not episodes.said.any() else episodes.given
    if times is not None:
        timeline = timeline_of(times, codes, data.answer.confidence)
        lanes, pieces = _timeline_data(timeline, times), _pieces(data, bags, timeline, times)
    return {
        "words": {"bag": data.bag_word, "bags": data.bag_plural},
        "classes": [
            {"name": name, "rows": n, "color": s.color, "pattern": s.pattern, "symbol": s.symbol}
            for name, n, s in zip(names, counts, class_styles(len(counts)), strict=True)
        ],
        "calibrated": data.calibrated,
        "heldOut": [
            _held_out_data(name, part, len(data.reliability))
            for name, part in data.reliability.items()
        ],
        "timeline": lanes,
        "bags": {
            "n": len(report.ids),
            "names": [str(report.ids[k]) for k in bags],
            "rows": report.sizes[bags].tolist(),
            "lower": numbers(report.lower[bags], 2),
            "upper": numbers(report.upper[bags], 2),
            "assigned": report.assigned[report.decode][bags].tolist(),
            "hours": window_hours(times),
            "pieces": pieces,
            "episodes": None if episodes is None else episodes.found[bags].tolist(),
            "said": None if said is None else numbers(said[bags], 0),
        },
        "maps": [_map_data(name, row_map, data) for name, row_map in data.maps.items()],
        "runs": [
            {"name": name, "energies": _thinned(run.energies)}
            for name, run in data.runs.items()
            if len(run.energies) > 1
        ],
    }


def shown_bags(report: BagReport, most: int = MOST_BAGS) -> IntArray:
    """Return all bags, or those that deviate most from their totals, in their order."""
    deviation = np.abs(report.difference()).sum(axis=1)
    return np.sort(np.argsort(-deviation, kind="stable")[:most])


def window_hours(times: Times | None) -> float | None:
    """Return the usual length of a window; None without times."""
    return None if times is None else float(np.median(times.ends - times.starts)) / SECOND / 3600.0


def _held_out_data(name: str, part: Reliability, n_groups: int) -> dict[str, Any]:
    """Return predicted and given totals of held-out bags; None for those that say nothing."""
    totals = part.totals.thinned(max(_MOST_TOTALS // n_groups, _FEWEST_TOTALS))
    positions = np.searchsorted(part.totals.bags, totals.bags)
    return {
        "name": name,
        "n": len(part.totals.bags),
        "bags": [str(part.names[k]) for k in positions],
        "predicted": numbers(np.where(totals.known, totals.predicted, np.nan), 2),
        "deviation": numbers(totals.deviation, 2),
        "lower": numbers(totals.lower, 2),
        "upper": numbers(totals.upper, 2),
    }


def _timeline_data(timeline: Timeline, times: Times) -> dict[str, Any]:
    return {
        "participants": timeline.participants,
        "days": timeline.days,
        "participant": timeline.participant.tolist(),
        "slot": timeline.slot.tolist() if timeline.slot.any() else None,
        "dated": times.dated,
        "lane": timeline.lane.tolist(),
        "start": numbers(timeline.start, 3),
        "end": numbers(timeline.end, 3),
        "label": timeline.label.tolist(),
        "rows": timeline.n_samples.tolist(),
        "sure": _percent(timeline.confidence),
        "lowest": _percent(timeline.lowest),
    }


def _pieces(data: ReportData, bags: IntArray, timeline: Timeline, times: Times) -> dict[str, Any]:
    """Return where each bag starts and ends in each lane, and the lanes of bags not in `bags`."""
    rows, n_bags = np.flatnonzero(data.bag_codes >= 0), len(data.report.ids)
    lane_of_row = timeline.lane_of_row[rows]
    keys, inverse = np.unique(lane_of_row * n_bags + data.bag_codes[rows], return_inverse=True)
    lane, bag = np.divmod(keys, max(n_bags, 1))
    midnight = timeline.midnight[lane_of_row]
    begins, ends = ((moments[rows] - midnight) / SECOND for moments in (times.starts, times.ends))
    start, end = extents(inverse, begins, ends, len(keys))
    position = np.full(n_bags, -1)
    position[bags] = np.arange(len(bags))
    listed = position[bag] >= 0
    return {
        "bag": position[bag[listed]].tolist(),
        "lane": lane[listed].tolist(),
        "start": numbers(start[listed], 3),
        "end": numbers(end[listed], 3),
        "unlisted": np.unique(lane[~listed]).tolist(),
    }


def _map_data(name: str, row_map: RowMap, data: ReportData) -> dict[str, Any]:
    rows, near, common = row_map.rows, np.maximum(row_map.neighbors, 0), data.common_reasons
    names = np.arange(data.n_samples) if data.names is None else data.names
    bags = np.array([*map(str, data.report.ids), None], dtype=object)[data.bag_codes]
    reasons = [codes.split(";") for codes in data.answer.reasons[rows].tolist()]
    return {
        "name": name,
        "how": row_map.layout,
        "x": _coordinates(row_map.coordinates[:, 0]),
        "y": _coordinates(row_map.coordinates[:, 1]),
        "row": names[rows].tolist(),
        "label": data.label_codes[rows].tolist(),
        "bag": bags[rows].tolist(),
        "masses": _percent(data.answer.masses[rows]),
        "reason": [";".join(code for code in codes if code not in common) for codes in reasons],
        "near": names[near].tolist(),
        "nearLabel": np.where(row_map.neighbors < 0, -2, data.label_codes[near]).tolist(),
        "nearBag": bags[near].tolist(),
        "nearShare": _percent(row_map.similarity),
    }


def _thinned(energies: list[float]) -> list[list[float]]:
    """Return pairs of iteration and energy; if many, evenly thinned in log(iteration)."""
    steps = np.arange(len(energies))
    if len(energies) > _MOST_ENERGIES:
        steps = np.rint(np.geomspace(1, len(energies), _MOST_ENERGIES)).astype(int) - 1
    return [[step, energies[step]] for step in np.unique(steps).tolist()]


def _coordinates(values: FloatArray) -> Any:
    """Return coordinates with an error of at most 1/10,000 of the axis, whatever their unit."""
    span = float(np.ptp(values)) or float(np.abs(values).max())
    return numbers(values, min(4 - math.floor(math.log10(span)), 300) if span else 0)


def numbers(values: FloatArray, digits: int) -> Any:
    """Return rounded numbers, whole ones without a decimal point, None if not finite."""
    finite = np.isfinite(values)
    rounded = np.round(np.where(finite, values, 0.0), digits)
    whole = (rounded == np.rint(rounded)) & (np.abs(rounded) < _LARGEST_WHOLE)
    cells = rounded.astype(object)
    cells[whole] = rounded[whole].astype(np.int64)
    cells[~finite] = None
    return cells.tolist()


def _percent(values: FloatArray) -> Any:
    return numbers(100.0 * values, 0)
