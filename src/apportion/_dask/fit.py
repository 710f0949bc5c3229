"""The fit, stage by stage, on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion._core.decode import round_to_counts
from apportion._core.descent import Status, descend
from apportion._core.refine import raise_agreement
from apportion._dask.checks import check_design, check_rows, check_uniqueness
from apportion._dask.cluster import Cluster
from apportion._dask.evaluator import DaskEvaluator, DaskState
from apportion._dask.labels import (
    DecodingRound,
    Tally,
    agreement_sum,
    bag_sums,
    label_sums,
    of_scores,
    tallied,
)
from apportion._dask.layout import Layout
from apportion._dask.quota import QuotaSolver
from apportion._dask.sums import added
from apportion._utils.box_projection import nearest_totals
from apportion._utils.progress import PROPAGATING, report_progress
from apportion._utils.typing import FloatArray, IntArray
from apportion.supervision.diagnosis import Diagnosis


@dataclass(frozen=True)
class DaskFit:
    """The result of a fit: what labels follow from, and sums over them.

    Attributes
    ----------
    layout : Layout
        The partitions.
    state : DaskState
        Where the descent ended.
    status : Status
        How it ended.
    unique : bool or None
        Whether the totals have one answer; None if that is not known.
    diagnosis : Diagnosis
        What the totals can tell apart.
    point : future
        What soft labels follow from.
    rounds : list of futures
        What labels follow from.
    assigned : ndarray of shape (n_bags, n_classes)
        Rows by bag and label.
    n_tied : int
        Rows that only a tie-break decided.
    n_gathered : int
        Rows that the driver looked at to divide bags across partitions.
    requests : list of int
        The number of requests of each iteration of this run.
    bytes_per_request : int
        What a request sends to a partition and brings back.
    """

    layout: Layout
    state: DaskState
    status: Status
    unique: bool | None
    diagnosis: Diagnosis
    point: Any
    rounds: list[Any]
    assigned: IntArray
    n_tied: int
    n_gathered: int
    requests: list[int]
    bytes_per_request: int


def fit(
    cluster: Cluster,
    layout: Layout,
    *,
    alpha: float,
    tol: float,
    max_iter: int,
    refine: bool,
    resume: DaskState | None = None,
    accepted: Callable[[DaskState], bool | None] = lambda state: None,
) -> DaskFit:
    """Return the labels of all partitions."""
    evaluator = DaskEvaluator(cluster, layout, alpha)
    diagnosis = check_design(layout)
    components = check_rows(cluster, layout)
    report_progress(PROPAGATING, 0.0)
    state = resume or evaluator.start()
    status = descend(evaluator, state, tol, max_iter, accepted).checked(state.here.residual)

    report_progress("decoding")
    point = cluster.send(state.here.reduced)
    unique = check_uniqueness(cluster, layout, components, point, status)
    labels = DaskLabels(cluster, layout, point)
    rounds = labels.decoded([], None)
    if refine:
        rounds = raise_agreement(labels, rounds)
    tally: Tally = cluster.total(cluster.on_each(tallied, layout.parts, point, rounds))
    return DaskFit(
        layout=layout,
        state=state,
        status=status,
        unique=unique,
        diagnosis=diagnosis,
        point=point,
        rounds=rounds,
        assigned=tally.assigned,
        n_tied=tally.n_tied,
        n_gathered=labels.n_gathered,
        requests=evaluator.requests,
        bytes_per_request=evaluator.bytes_per_request,
    )


class DaskLabels:
    """Labels of partitions, which follow from a point and rounds: see `LabelEvaluator`."""

    def __init__(self, cluster: Cluster, layout: Layout, point: Any) -> None:
        self._cluster, self._layout, self._point = cluster, layout, point
        self._quota = QuotaSolver(self._counts())

    @property
    def n_gathered(self) -> int:
        """How many rows the driver has looked at."""
        return self._quota.n_gathered

    def agreement(self, rounds: list[Any]) -> tuple[float, FloatArray]:
        """Return the smoothness of labels, and the mean labels of the rows of every anchor."""
        sums = self._total(label_sums, rounds)
        prototypes = sums / self._layout.masses[:, None]
        agreement = self._total(agreement_sum, rounds, self._cluster.send(prototypes))
        return agreement / max(self._layout.n_samples, 1), prototypes

    def decoded(self, rounds: list[Any], means: FloatArray | None) -> list[Any]:
        """Return the rounds with one more, that follows from the means of anchors."""
        cluster = self._cluster
        context = self._point, rounds, cluster.send(means)

        def request(
            work: Callable[..., Any], *question: Any, join: Callable[..., Any] = added
        ) -> Any:
            task = work, cluster.send(question)
            answers = cluster.on_each(of_scores, self._layout.holders, *context, *task)
            return cluster.total(answers, join)

        return [*rounds, cluster.send(DecodingRound(means, self._quota(request)))]

    def _total(self, work: Callable[..., Any], *question: Any) -> Any:
        answers = self._cluster.on_each(work, self._layout.parts, self._point, *question)
        return self._cluster.total(answers)

    def _counts(self) -> IntArray:
        """Return how many rows of each bag across partitions get each class."""
        lower, upper, sizes = self._layout.spanning
        if not len(sizes):
            return np.zeros(lower.shape, dtype=np.intp)
        answers = self._cluster.on_each(bag_sums, self._layout.holders, self._point)
        (sums,) = self._cluster.total(answers).of_all(len(sizes))
        return round_to_counts(nearest_totals(sums, lower, upper, sizes), sizes, lower, upper)
