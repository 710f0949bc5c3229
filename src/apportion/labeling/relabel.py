"""A quick answer to corrections: the last labels, changed where corrections reach.

A full run weighs methods and takes minutes. Here its soft labels are the starting point. A
correction changes a row's soft labels by δ, and the change spreads along the graph of similar rows:
with F⁰ the soft labels of the full run, the change Δ is

    argmin_Δ Σ_ij W_ij ‖Δ_i - Δ_j‖² / 2 + w Σ_i d_i ‖Δ_i‖²    with Δ_i = δ_i in corrected rows,

soft labels that stay near F⁰ with weight w, like the prior of LPLLP. Bags that a change reaches are
reconciled with their totals and decoded anew; all other rows keep soft labels and labels. Without a
correction nothing changes.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from apportion._core.decode import Decoding, threshold
from apportion._utils.hashing import hash_ranks
from apportion._utils.progress import report_progress
from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.estimators import LPLLP
from apportion.estimators._base import BagClassifier
from apportion.estimators._graph import GraphClassifier
from apportion.exceptions import InputError
from apportion.graphs import Graph, KNNGraph
from apportion.labeling._exclusions import Exclusions, InTime
from apportion.labeling._features import TableFeatures
from apportion.labeling._supervised import SupervisedTable
from apportion.labeling.rows import (
    Fitted,
    Supervision,
    fit_known,
    label_groups,
    places_among,
    time_of,
)
from apportion.labeling.table import LabeledTable, labeled_by
from apportion.model_selection._accuracy import withheld
from apportion.model_selection._graph_of_model import graph_in
from apportion.model_selection._weighing import WeighingClassifier
from apportion.supervision.bags import Bags, match_bags

PRIOR_WEIGHT = 0.3
"""How near soft labels keep to those of the full run. On two made-up weeks and two draws of the
digits with `lpllp`, 20 and 50 true labels given, accuracies at 0.03, 0.1 and 1 (and a loyalty of
0.2) differ from this by less than .001: the data hardly decide it."""

TIME_WEIGHT = 2.0
"""How strongly rows that follow each other are tied on a graph that has no such ties: as much as so
many of ten neighbors. A guess: it matters only for labels along time, and was not compared."""

_LOYALTY = 0.5
"""Added to the soft label of a row's last label before it is decoded anew, so that a label changes
for a reason. On the same data, 0.05 costs up to .007 of the labels that were not corrected, because
labels of nearly equal value differ; 0.2 and 0.5 are alike."""

_REACHED = 0.01
"""Soft labels that change by less are not reached by a correction."""

_STEPS, _STILL = 200, 1e-4
"""The most steps of the spread, and the change of Δ at which it ends."""

_DOUBT = 1e-3
"""Added to soft labels before they are reconciled: their zeros are no proof."""

_QUICK = "withheld: this is the quick answer to corrections; label again to estimate it"


def relabel(labeled: LabeledTable, task: SupervisedTable, features: TableFeatures) -> LabeledTable:
    """Return the labels of a table after corrections, quickly.

    Parameters
    ----------
    labeled : LabeledTable
        The labels of the last full run.
    task : SupervisedTable
        The same rows, with all labels and exclusions that are given now.
    features : TableFeatures
        Their features.

    Returns
    -------
    LabeledTable
        The table with changed labels; `summary["quick"]` is True, and the accuracy is not
        estimated.
    """
    summary = labeled.summary
    was_given = np.array(["given" in codes.split(";") for codes in labeled.labels.reasons.tolist()])

    def quick(group: Any, X: FloatArray, known: Supervision) -> Fitted:
        model = labeled.models.get(group)
        if model is None:  # its first label or total
            return fit_known(LPLLP(n_probes=0), X, known)
        return _changed(model, X, known, was_given[labeled.labels.rows[group]])

    report_progress("spreading corrections")
    found = labeled_by(
        lambda X, known, marks: label_groups(X, known, quick, marks, summary["abstain_below"]),
        task,
        features,
        abstain_below=summary["abstain_below"],
        use_times=_used_times(labeled),
        all_columns=labeled.kept >= set(task.rows.table.column_names),
        command=summary["command"],
        method=summary["method"],
    )
    found.summary["quick"] = True
    return found


def _used_times(labeled: LabeledTable) -> bool:
    """Return whether the models used when rows were recorded."""
    return any(
        model.decode == "sequence"
        or getattr(model, "time_weight_", 0.0) > 0
        or bool(getattr(getattr(model, "candidate_report_", None), "about_time", ""))
        for model in labeled.models.values()
    )


def _changed(
    model: BagClassifier, X: FloatArray, known: Supervision, was_given: BoolArray
) -> Fitted:
    """Return a copy of a fitted model with the labels that corrections lead to."""
    if len(model.label_distributions_) != len(X):
        raise InputError(
            "the table",
            f"{len(X):,} rows to be labeled, while {len(model.label_distributions_):,} were",
            "the rows of the full run",
            "label them anew",
        )
    matched = match_bags(len(X), known.given, known.bags, known.totals)
    ranks = hash_ranks(X, len(X))
    in_time = time_of(model, known, ranks)
    before = places_among(model.transduction_, model.classes_)
    graph = _graph_of(model, X)
    if in_time is not None and not graph.time_weight and TIME_WEIGHT:
        graph = graph.tied_in_time(in_time.sequences, TIME_WEIGHT)
    F = _spread(model.label_distributions_, matched, known.excluded, graph, was_given)
    reached = np.abs(F - model.label_distributions_).max(axis=1) > _REACHED
    changed: Any = copy(model)
    if isinstance(model, WeighingClassifier):
        changed.estimated_accuracy_ = withheld(_QUICK)
    if not reached.any():
        return changed, []
    part, loyal = _part(matched, reached, before)
    rules = Exclusions(part, known.excluded, give_way=known.conflict == "given")
    soft = _reconciled(F, rules, loyal, model.label_distributions_)
    labels = _decoded(soft, rules, model, before, ranks, in_time)
    tied = np.where(loyal, model.tied_, labels.tied)
    final = Decoding(np.where(loyal, before, labels.labels), tied)
    decodings = {"quota": final, "threshold": threshold(soft, matched), model.decode: final}
    changed._store_labels(matched, soft, decodings)
    if isinstance(model, GraphClassifier):
        changed._prototype_labels = model.graph_.prototype_labels(soft)
    return changed, list(rules.notes)


def _graph_of(model: Any, X: FloatArray) -> Graph:
    """Return the graph of a model, or one of nearest neighbors that the model keeps from now on."""
    graph = graph_in(model)
    if graph is None:
        graph = getattr(model, "_graph_of_corrections", None)
    if graph is None:
        graph = model._graph_of_corrections = KNNGraph().fit(X)
    return graph


def _spread(
    F: FloatArray,
    matched: Bags,
    excluded: BoolArray | None,
    graph: Graph,
    was_given: BoolArray,
) -> FloatArray:
    """Return soft labels with the changes that given and excluded labels lead to."""
    given = matched.given >= 0
    target, fixed = matched.with_given(F.copy()), given.copy()
    if excluded is not None and excluded.any():
        some = excluded.any(axis=1) & ~given
        target[some] = _without_excluded(F[some], excluded[some])
        fixed |= some
    freed = was_given & ~fixed
    if freed.any():  # what is no longer given is as its neighbors are
        target[freed] = graph.neighbor_mean(F)[freed]
        fixed |= freed
    delta = np.where(fixed[:, None], target - F, 0.0)
    change, keep = delta, 1.0 / (1.0 + PRIOR_WEIGHT)
    for _ in range(_STEPS if np.abs(delta).max(initial=0.0) > _REACHED else 0):
        step = np.where(fixed[:, None], delta, keep * graph.neighbor_mean(change))
        moved = np.abs(step - change).max()
        change = step
        if moved < _STILL:
            break
    moved_to = np.clip(F + change, 0.0, None)
    return np.asarray(moved_to / moved_to.sum(axis=1, keepdims=True))


def _without_excluded(F: FloatArray, excluded: BoolArray) -> FloatArray:
    left = np.where(excluded, 0.0, F + 1e-12)
    return np.asarray(left / left.sum(axis=1, keepdims=True))


def _part(matched: Bags, reached: BoolArray, before: IntArray) -> tuple[Bags, BoolArray]:
    """Return the bags that are reached, and which rows keep their label.

    These are the rows of other bags, and rows in no bag that are not reached.
    """
    bags = np.unique(matched.codes[reached & (matched.codes >= 0)])
    inside = np.isin(matched.codes, bags)
    loyal = ~inside & ~reached & (matched.given < 0)
    position = np.full(len(matched.ids) + 1, -1)
    position[bags] = np.arange(len(bags))
    most = matched.most_episodes
    part = Bags(
        tuple(matched.ids[k] for k in bags),
        matched.classes,
        position[matched.codes],
        matched.lower[bags],
        matched.upper[bags],
        np.where(loyal, before, matched.given),
        None if most is None else most[bags],
    )
    return part, loyal


def _reconciled(
    F: FloatArray, rules: Exclusions, loyal: BoolArray, before: FloatArray
) -> FloatArray:
    """Return the soft labels under the totals of the bags that are reached."""
    doubtful = (F + _DOUBT) / (1.0 + _DOUBT * F.shape[1])
    return np.where(loyal[:, None], before, rules.soft_labels(doubtful))


def _decoded(
    F: FloatArray,
    rules: Exclusions,
    model: BagClassifier,
    before: IntArray,
    ranks: IntArray,
    in_time: InTime | None,
) -> Decoding:
    """Return labels decoded as the model does, with an advantage for the last ones."""
    if model.decode == "threshold":
        return threshold(F, rules.bags)
    scores = (F + _LOYALTY * np.eye(F.shape[1])[before]) / (1.0 + _LOYALTY)
    return rules.decode(F, model.decode, ranks, in_time, scores)[model.decode]
