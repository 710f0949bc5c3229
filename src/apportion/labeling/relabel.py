"""A quick answer to corrections: the last labels, changed where corrections reach.

A full run weighs methods and takes minutes. Here its soft labels F⁰ are the prior of LP-LLP on the
graph of similar rows,

    S(y) = argmin_F ½⟨F, (I - P)F⟩ + μ/2 ‖F - F⁰‖²    under the totals, given the labels y.

The soft labels move by S(y) - S(y⁰), with the labels y⁰ that the full run knew: what corrections
change, and nothing of what smoothing would change anyway. Bags that they reach are reconciled with
their totals and decoded anew; all other rows keep soft labels and labels. Without a correction
nothing changes.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from apportion._core.decode import Decoding, threshold
from apportion._core.descent import Settings
from apportion._core.solve import solve
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

PRIOR_WEIGHT = 0.03
"""μ: how near soft labels keep to those of the full run. Chosen among 0.1, 0.03 and 0.01 on SPHERE,
segment and digits, the sets of `benchmarks/relabel.py`: 50 answers at random teach about as much
with the last two, and clearly less with the first."""

TIME_WEIGHT = 2.0
"""How strongly rows that follow each other are tied on a graph that has no such ties: as much as so
many of ten neighbors. A guess: it matters only for labels along time, and was not compared."""

_LOYALTY = 0.02
"""A label changes if the soft labels of another moved past it by more than this."""

_REACHED = 0.01
"""Soft labels that change by less are not reached by a correction."""

_TOLERANCE, _MOST_ITERATIONS = 1e-3, 100
"""How exact S is, and the most iterations that it takes."""

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

    def quick(group: Any, X: FloatArray, known: Supervision) -> Fitted:
        model = labeled.models.get(group)
        if model is None:  # its first label or total
            return fit_known(LPLLP(n_probes=0), X, known)
        return _changed(model, X, known)

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


def _changed(model: BagClassifier, X: FloatArray, known: Supervision) -> Fitted:
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
    graph = _graph_of(model, X, in_time)
    F = _moved(model, matched, known.excluded, graph, ranks)
    reached = np.abs(F - model.label_distributions_).max(axis=1) > _REACHED
    reached |= matched.given != _given_before(model)
    if known.excluded is not None:
        reached |= known.excluded.any(axis=1)
    changed: Any = copy(model)
    if isinstance(model, WeighingClassifier):
        changed.estimated_accuracy_ = withheld(_QUICK)
    if not reached.any():
        return changed, []
    part, loyal = _part(matched, reached, before)
    rules = Exclusions(part, known.excluded, give_way=known.conflict == "given")
    soft = _reconciled(F, rules, loyal, model.label_distributions_)
    labels = _decoded(soft, rules, model, before, ranks)
    tied = np.where(loyal, model.tied_, labels.tied)
    final = Decoding(np.where(loyal, before, labels.labels), tied)
    decodings = {"quota": final, "threshold": threshold(soft, matched), model.decode: final}
    changed._store_labels(matched, soft, decodings)
    if isinstance(model, GraphClassifier):
        changed._prototype_labels = model.graph_.prototype_labels(soft)
    return changed, list(rules.notes)


def _graph_of(model: Any, X: FloatArray, in_time: InTime | None) -> Graph:
    """Return the graph on which corrections spread, which the model keeps from now on."""
    graph = getattr(model, "_graph_of_corrections", None)
    if graph is None:
        graph = graph_in(model) or KNNGraph().fit(X)
        if in_time is not None and not graph.time_weight:
            graph = graph.tied_in_time(in_time.sequences, TIME_WEIGHT)
        model._graph_of_corrections = graph
    return graph


def _given_before(model: Any) -> IntArray:
    """Return the labels that were given to the full run, as positions in the classes; else -1."""
    labels = places_among(model.transduction_, model.classes_)
    return np.where(model._given_rows, labels, -1)


def _moved(
    model: Any, matched: Bags, excluded: BoolArray | None, graph: Graph, ranks: IntArray
) -> FloatArray:
    """Return the soft labels of a model, moved by what is given or excluded now."""
    F, known_before = model.label_distributions_, _given_before(model)
    excludes = excluded is not None and bool(excluded.any())
    if not excludes and (known_before == matched.given).all():
        return np.asarray(F)
    settings = Settings(
        prior_weight=PRIOR_WEIGHT, tol=_TOLERANCE, max_iter=_MOST_ITERATIONS, n_probes=0
    )
    first = getattr(model, "_before_corrections", None)
    if first is None:
        # With the totals of the full run: they may have given way to corrections since.
        report = model.bag_report_
        bags = replace(matched, given=known_before, lower=report.lower, upper=report.upper)
        first = model._before_corrections = solve(graph, bags, settings, prior=F, ranks=ranks).F
    prior = F
    if excluded is not None and excludes:
        some = excluded.any(axis=1)
        prior = F.copy()
        prior[some] = _without_excluded(F[some], excluded[some])
    last = solve(graph, matched, settings, prior=prior, start=first, ranks=ranks).F
    graph.leave_device()
    moved = np.clip(prior + last - first, 0.0, None)
    return np.asarray(matched.with_given(moved / moved.sum(axis=1, keepdims=True)))


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
    F: FloatArray, rules: Exclusions, model: BagClassifier, before: IntArray, ranks: IntArray
) -> Decoding:
    """Return labels under the totals, which change only where soft labels moved."""
    if model.decode == "threshold":
        return threshold(F, rules.bags)
    # Totals, refinement and time led to labels that are not the likeliest of their rows. What such
    # a label lacks is added to it: then the last labels are the best for the last soft labels, and
    # other labels are better only by what corrections moved. Labels along time stay as long as they
    # were, except where they change.
    last, rows = model.label_distributions_, np.arange(len(before))
    lacks = last.max(axis=1) - last[rows, before] + _LOYALTY
    scores = F.copy()
    scores[rows, before] += lacks
    return rules.decode(F, "quota", ranks, scores=scores)["quota"]
