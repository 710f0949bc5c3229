"""The data of a report, before it becomes a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from apportion._io.label_table import joined_codes
from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.bag_report import BagReport
from apportion.estimators._base import BagClassifier
from apportion.exceptions import counted, plural
from apportion.graphs import Graph
from apportion.labeling._episodes import EpisodeCounts, count_episodes
from apportion.labeling._summary import Run
from apportion.labeling.rows import RowLabels, places_among, reasons_of
from apportion.model_selection._graph_of_model import graph_in
from apportion.plotting._window_times import Times
from apportion.report._reliability import Reliability
from apportion.report._row_map import MOST_ROWS, RowMap, map_of_graph
from apportion.supervision.diagnosis import Diagnosis

MOST_MAPS = 6
_FEWEST_ROWS = 300


@dataclass(frozen=True)
class ReportData:
    """All that a report shows.

    Attributes
    ----------
    title : str
        The heading.
    answer : RowLabels
        Labels, masses, confidence and reason codes of the rows.
    bag_codes : ndarray of shape (n_samples,)
        The bag of each row, as a position in `report.ids`; -1 = in none.
    report : BagReport
        Given and assigned totals.
    diagnoses : dict of str to Diagnosis
        What the totals tell apart, by group; a single group has an empty name.
    runs : dict of str to Run
        How the models were fitted, by group.
    times : Times or None
        When the rows were recorded.
    maps : dict of str to RowMap
        Maps of the rows, by group.
    names : ndarray of shape (n_samples,), or None
        Names of the rows; by default their numbers.
    no_map : str
        Why there is no map, or not one of every group.
    command : str
        The command that was run.
    facts : dict of str to str
        Files and versions that are needed to repeat the run.
    rules, notes : tuple of str
        The rules that were used, and remarks on the input and the run.
    bag_word : {"bag", "entry"}
        What the bags are called: those of a diary are its entries.
    reliability : dict of str to Reliability
        What held-out totals say about the labels, by group; empty if none were held out.
    given_episodes : ndarray of shape (n_bags, n_classes), or None
        How often a diary says that each class happened in each bag; NaN = not said.
    """

    title: str
    answer: RowLabels
    bag_codes: IntArray
    report: BagReport
    diagnoses: Mapping[str, Diagnosis]
    runs: Mapping[str, Run]
    times: Times | None = None
    maps: Mapping[str, RowMap] = field(default_factory=dict)
    names: AnyArray | None = None
    no_map: str = ""
    command: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    bag_word: str = "bag"
    reliability: Mapping[str, Reliability] = field(default_factory=dict)
    given_episodes: FloatArray | None = None

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return len(self.answer.labels)

    @property
    def bag_plural(self) -> str:
        """What several bags are called."""
        return plural(self.bag_word)

    @property
    def calibrated(self) -> bool:
        """Whether soft labels are probabilities, because all were calibrated."""
        parts = self.reliability.values()
        return bool(parts) and all(reliability.calibrated for reliability in parts)

    @cached_property
    def label_codes(self) -> IntArray:
        """The label of each row as a position among the classes; -1 = none."""
        return places_among(self.answer.labels, self.answer.classes)

    @cached_property
    def episodes(self) -> EpisodeCounts | None:
        """The episodes that begin in each bag, found and given; None without times."""
        given = self.given_episodes
        return count_episodes(self.times, self.label_codes, self.bag_codes, self.report, given)

    @cached_property
    def reasons(self) -> dict[str, int]:
        """The number of rows with each reason code."""
        return reasons_of(self.answer)

    @property
    def common_reasons(self) -> list[str]:
        """The reason codes of all rows, which distinguish none of them."""
        return [code for code, count in self.reasons.items() if count == self.n_samples]


def answer_of(model: BagClassifier) -> RowLabels:
    """Return the labels of a fitted model, and the reason codes that it knows of."""
    labels, masses = model.transduction_, model.label_distributions_
    rows = np.arange(len(labels))
    graph = graph_in(model)
    weak: Any = () if graph is None else graph.weak_rows()
    reasons = joined_codes(
        {"tie": model.tied_, "isolated": np.isin(rows, weak), "unbagged": model.bag_codes_ < 0}
    )
    confidence = masses[rows, places_among(labels, model.classes_)]
    return RowLabels(model.classes_, labels.astype(object), masses, confidence, reasons)


def maps_of(
    groups: Mapping[Any, IntArray], graph_of_group: Callable[[Any], Graph | None]
) -> tuple[dict[str, RowMap], str]:
    """Return maps of the first groups, and a sentence on those that are left out.

    Parameters
    ----------
    groups : mapping of group to ndarray
        The rows of each group.
    graph_of_group : callable
        Returns the fitted graph of a group; None if it has none.

    Returns
    -------
    maps : dict of str to RowMap
        The maps, by the name of the group.
    left_out : str
        How many groups have no map though they have a graph, in words; empty if all have one.
    """
    drawn = list(groups)[:MOST_MAPS]
    most = rows_per_map(len(drawn))
    graphs = {group: graph_of_group(group) for group in drawn}
    maps = {
        name_of(group): map_of_graph(graph, groups[group], most)
        for group, graph in graphs.items()
        if graph is not None
    }
    if not maps:
        return {}, ""
    n_left = len(groups) - len(drawn)
    return maps, f"Maps of {counted(n_left, 'more group')} are left out." if n_left else ""


def rows_per_map(n_maps: int) -> int:
    """Return how many rows each of several maps shows."""
    return max(MOST_ROWS // max(n_maps, 1), _FEWEST_ROWS)


def name_of(group: Any) -> str:
    """Return the name of a group, empty if there is only one group."""
    return "" if group is None else str(group)
