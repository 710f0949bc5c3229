"""What a report tells, before it is a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from apportion._utils.typing import AnyArray, IntArray
from apportion.bag_report import BagReport
from apportion.estimators._base import BagClassifier
from apportion.estimators._graph import GraphClassifier
from apportion.exceptions import counted
from apportion.labeling._summary import Run
from apportion.labeling.rows import RowLabels, joined_codes, places_among, reasons_of
from apportion.plotting._row_map import MOST_ROWS, RowsMap, map_of_graph
from apportion.plotting._timeline_data import Times
from apportion.supervision.diagnosis import Diagnosis

MOST_MAPS = 6
_FEWEST_ROWS = 300


@dataclass(frozen=True)
class Contents:
    """All that a report tells.

    Attributes
    ----------
    title : str
        Its heading.
    answer : RowLabels
        Labels, masses, confidence and reasons of the rows.
    bag_codes : ndarray of shape (n_samples,)
        Each row's bag, as a position in `report.ids`; -1 = in none.
    report : BagReport
        Given against assigned.
    diagnoses : dict of str to Diagnosis
        What the bags tell apart, by group; one group has an empty name.
    runs : dict of str to Run
        How the models were fitted, by group.
    times : Times or None
        When the rows were recorded.
    maps : dict of str to RowsMap
        Maps of the rows, by group.
    names : ndarray of shape (n_samples,), or None
        Names of the rows; by default their numbers.
    no_map : str
        Why there is no map, or not of everybody.
    command : str
        The command that was run.
    facts : dict of str to str
        More to repeat the run by: files, versions.
    rules, notes : tuple of str
        Rules that were used; what was found and decided.
    bag_word : {"bag", "entry"}
        What the bags are called: those of a diary are its entries.
    """

    title: str
    answer: RowLabels
    bag_codes: IntArray
    report: BagReport
    diagnoses: Mapping[str, Diagnosis]
    runs: Mapping[str, Run]
    times: Times | None = None
    maps: Mapping[str, RowsMap] = field(default_factory=dict)
    names: AnyArray | None = None
    no_map: str = ""
    command: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    bag_word: str = "bag"

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return len(self.answer.labels)

    @property
    def places(self) -> IntArray:
        """Each row's label, as a position among the classes; -1 where there is none."""
        return places_among(self.answer.labels, self.answer.classes)

    @cached_property
    def reasons(self) -> dict[str, int]:
        """How many rows have each reason code."""
        return reasons_of(self.answer)

    @property
    def common_reasons(self) -> list[str]:
        """The reason codes that all rows have, and that say nothing about a single one."""
        return [code for code, count in self.reasons.items() if count == self.n_samples]


def answer_of(model: BagClassifier) -> RowLabels:
    """Return a fitted model's labels, and as much of their reasons as it keeps."""
    labels, masses = model.transduction_, model.label_distributions_
    place = places_among(labels, model.classes_)
    isolated = np.zeros(len(labels), dtype=bool)
    if isinstance(model, GraphClassifier):
        isolated[model.graph_.weak_rows()] = True
    reasons = joined_codes(
        {"tie": model.tied_, "isolated": isolated, "unbagged": model.bag_codes_ < 0}
    )
    confidence = masses[np.arange(len(labels)), place]
    return RowLabels(model.classes_, labels.astype(object), masses, confidence, reasons)


def maps_of(models: Mapping[Any, tuple[BagClassifier, IntArray]]) -> tuple[dict[str, RowsMap], str]:
    """Return maps of the rows of some models, and what is left out.

    Parameters
    ----------
    models : mapping of group to pair
        Fitted models on graphs, and which rows each was fitted on.
    """
    shown = list(models.items())[:MOST_MAPS]
    maps = {
        name_of(group): map_of_graph(model.graph_, rows_a_map(len(shown))).among(rows)
        for group, (model, rows) in shown
        if isinstance(model, GraphClassifier)
    }
    return maps, maps_left_out(len(models))


def rows_a_map(n_maps: int) -> int:
    """Return how many rows each of so many maps shows."""
    return max(MOST_ROWS // max(n_maps, 1), _FEWEST_ROWS)


def maps_left_out(n_groups: int) -> str:
    """Return how many groups have no map, in words."""
    left = n_groups - MOST_MAPS
    return f"Maps of {counted(left, 'more group')} are left out." if left > 0 else ""


def name_of(group: Any) -> str:
    """Return a group's name, empty where there is one group only."""
    return "" if group is None else str(group)
