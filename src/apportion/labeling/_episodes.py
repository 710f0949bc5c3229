"""How often activities happened: episodes that a diary tells of, and those that were found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.bag_report import BagReport
from apportion.estimators import LPLLP
from apportion.estimators._base import BagClassifier
from apportion.exceptions import name_some
from apportion.labeling._methods import name_of_method
from apportion.labeling._supervised import SupervisedTable
from apportion.labeling.rows import RowLabels, Supervision, is_known, places_among
from apportion.model_selection._weighing import WeighingClassifier
from apportion.plotting._segments import episodes_per_bag
from apportion.plotting._window_times import Times


@dataclass(frozen=True)
class EpisodeCounts:
    """The number of episodes of each class in each bag; those of one bag, or of all.

    An episode is a run of windows of one participant that follow each other and have one label. It
    belongs to the bag that it begins in. Rows without a label, as uncertain ones, are in none.

    Attributes
    ----------
    found : ndarray of shape (n_bags, n_classes)
        The number of episodes that were found.
    given : ndarray of shape (n_bags, n_classes)
        The number that a diary tells of; NaN = not said.

    Examples
    --------
    >>> counts = EpisodeCounts(np.array([[3, 1], [2, 0]]), np.array([[2.0, np.nan], [np.nan] * 2]))
    >>> counts.of_bag(0, ["tv", "meal"])
    {'episodes': {'tv': 3, 'meal': 1}, 'episodes_given': {'tv': 2}}
    >>> counts.of_all(["tv", "meal"])["episodes"]
    {'tv': 5, 'meal': 1}
    """

    found: IntArray
    given: FloatArray

    @property
    def said(self) -> BoolArray:
        """Where a diary tells of a number."""
        return np.isfinite(self.given)

    def of_bag(self, k: int, names: Sequence[str]) -> dict[str, dict[str, int]]:
        """Return the numbers of a bag, for its summary; given ones only where there are some."""
        found, given = self.found[k].tolist(), self.given[k]
        summary = {"episodes": dict(zip(names, found, strict=True))}
        if self.said[k].any():
            summary["episodes_given"] = {names[h]: int(given[h]) for h in _where(self.said[k])}
        return summary

    def of_all(self, names: Sequence[str]) -> dict[str, dict[str, int]]:
        """Return the numbers of all bags together, for a summary.

        Where only some bags have a given number of a class, `episodes_where_given` is what to
        compare it with: the episodes that were found in these bags.
        """
        found, given, there = (sums.tolist() for sums in self.sums())
        summary = {"episodes": dict(zip(names, found, strict=True))}
        said = _where(np.asarray(self.said.any(axis=0)))
        if said:
            summary["episodes_given"] = {names[h]: given[h] for h in said}
            summary["episodes_where_given"] = {names[h]: there[h] for h in said}
        return summary

    def sums(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return found, given, and found where given, of each class in all bags."""
        given = np.where(self.said, self.given, 0).sum(axis=0).astype(np.intp)
        return self.found.sum(axis=0), given, (self.found * self.said).sum(axis=0)


def count_episodes(
    times: Times | None,
    codes: IntArray,
    bags: IntArray,
    report: BagReport,
    given: FloatArray | None = None,
) -> EpisodeCounts | None:
    """Return the episodes of the bags of a report; None without times.

    Parameters
    ----------
    times : Times or None
        When the rows were recorded.
    codes, bags : ndarray of shape (n_samples,)
        The label and the bag of each row, as positions; -1 = none.
    report : BagReport
        The report on the bags.
    given : ndarray of shape (n_bags, n_classes), optional
        How often a diary says that each class happened in each bag; NaN = not said.
    """
    if times is None:
        return None
    shape = len(report.ids), len(report.classes)
    found = episodes_per_bag(times, codes, bags, shape)
    return EpisodeCounts(found, np.full(shape, np.nan) if given is None else given)


def episodes_in_table(
    labels: RowLabels, report: BagReport, task: SupervisedTable
) -> EpisodeCounts | None:
    """Return the episodes of a labeled table; None without times."""
    codes = places_among(labels.labels, labels.classes)
    bags = bag_codes(task.supervision.bags, labels, report)
    return count_episodes(task.row_times.times, codes, bags, report, given_episodes(report, task))


def given_episodes(report: BagReport, task: SupervisedTable) -> FloatArray | None:
    """Return what a diary says of the bags of a report; None if it says nothing of any."""
    most = task.totals.most_episodes
    if most is None:
        return None
    position = {bag: k for k, bag in enumerate(task.totals.ids)}
    with_none = np.vstack([most, np.full(most.shape[1], np.nan)])
    given: FloatArray = with_none[[position.get(bag, -1) for bag in report.ids]]
    return given


def choose_decoding(
    model: BagClassifier, known: Supervision
) -> tuple[BagClassifier, tuple[str, ...]]:
    """Return a model that decodes along time, if it is one that gains by it, and why, in words.

    In four made-up weeks and on WISDM, labels along time of `AutoLLP` are as often right as quota
    labels, or more often (WISDM: .83 against .80); where few labels flicker, they are the same.
    Quota labels of `LPLLP` with ties in time are better than its labels along time, also than those
    that keep to how often activities happened (.95 against .87 in three made-up weeks).

    Parameters
    ----------
    model : estimator
        A model that is not fitted, and decodes by quota.
    known : Supervision
        What is known of the rows.

    Returns
    -------
    estimator
        One that decodes along time, if it weighs methods and the times of the rows are used; else
        the model as it is.
    tuple of str
        Notes about it: none if the totals do not say how often.
    """
    along_time = isinstance(model, WeighingClassifier) and known.in_time is not None
    if along_time:
        model = clone(model).set_params(decode="sequence")
    totals = known.totals
    if totals.most_episodes is None:
        return model, ()
    said = np.isfinite(totals.most_episodes).any(axis=0)
    how_often = (
        f"the diary says how often for {name_some(map(repr, totals.classes[said].tolist()))}"
    )
    if along_time:
        return model, (f"decode: along time, and {how_often}",)
    reason = "no times are used"
    if known.in_time is not None:
        unless = " unless it is asked to" if isinstance(model, LPLLP) else ""
        reason = f"{name_of_method(model)} does not decode along time{unless}"
    return model, (f"decode: by quota, though {how_often}: {reason}",)


def bag_codes(bags: AnyArray, labels: RowLabels, report: BagReport) -> IntArray:
    """Return the bag of each row that the report counts, as a position in it; -1 = in none.

    It counts rows that have a label, or would have one if they were not uncertain.
    """
    position = {bag: k for k, bag in enumerate(report.ids)}
    codes = np.array([position.get(bag, -1) for bag in bags.tolist()], dtype=np.intp)
    return np.where(is_known(labels.labels) | np.isfinite(labels.confidence), codes, -1)


def _where(mask: BoolArray) -> list[int]:
    positions: list[int] = np.flatnonzero(mask).tolist()
    return positions
