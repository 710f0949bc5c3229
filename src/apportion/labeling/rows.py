"""Label rows of features from what is known of their bags, each with a mass and a reason."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import clone

from apportion._core.decode import Decoding
from apportion._core.persistence import flicker_of
from apportion._core.uniqueness import unsupervised_rows
from apportion._io.identifiers import is_missing
from apportion._io.label_table import joined_codes
from apportion._utils.hashing import hash_ranks
from apportion._utils.progress import (
    INTERRUPTED,
    interrupted,
    keep_answer,
    keeping_answers,
    several_runs,
)
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.bag_report import BagReport, joined_reports, report_bags
from apportion.estimators import LPLLP
from apportion.estimators._base import BagClassifier
from apportion.estimators._graph import GraphClassifier
from apportion.exceptions import CandidateWarning, SupervisionError, message_of
from apportion.graphs import KNNGraph
from apportion.labeling._conflicts import totals_that_give_way
from apportion.labeling._exclusions import Exclusions, InTime
from apportion.labeling._methods import is_calibrated, resolved_method
from apportion.model_selection import AutoLLP
from apportion.model_selection._candidates import FAST
from apportion.model_selection._graph_of_model import graph_in
from apportion.model_selection._weighing import SEE_WARNINGS, WeighingClassifier
from apportion.supervision.bags import match_bags
from apportion.supervision.diagnosis import Diagnosis, diagnose_bags
from apportion.supervision.rows_in_time import rows_in_time
from apportion.supervision.totals import Totals

Fitted = tuple[BagClassifier, list[str]]
"""A fitted model, and notes about it."""

Conflict = Literal["error", "given"]
"""What becomes of totals that given labels contradict: they are an error, or they give way."""

REASONS = {
    "given": "the label was given",
    "tie": "only a tie-break decided the label",
    "isolated": "the row has almost no similar row",
    "unbagged": "no totals cover the row; similar rows alone decided",
    "out-of-reach": "no row that it is tied to, directly or through others, has a known total or a "
    "given label",
    "outside-interval": "more or fewer rows have this label than the totals allow",
    "uncertain": "not labeled: the confidence is below what was asked for",
    "missing-features": "the row has less than half of the features that rows usually have, the "
    "others being filled in; or, where rows with a missing cell are dropped, it lacks one and is "
    "not labeled",
    "unseen-category": "a feature of the row has a value that no fitted row has",
    "non-wear": "not labeled: the sensor was not worn",
    "no-totals": "not labeled: there are no totals for its participant",
    "unknown-row": "not labeled: the model, saved with labels only, does not know the row",
}
"""The reason codes, in the order in which they are listed, and what they mean."""


class RowsInTime(NamedTuple):
    """When rows were recorded.

    Attributes
    ----------
    times : ndarray of shape (n_samples,)
        The time of each row, as a number.
    recordings : ndarray of shape (n_samples,), or None
        The recording of each row; None if there is only one.
    """

    times: AnyArray
    recordings: AnyArray | None

    def of(self, rows: IntArray) -> RowsInTime:
        """Return the times of some rows."""
        return RowsInTime(
            self.times[rows], None if self.recordings is None else self.recordings[rows]
        )

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `fit` and `predict` of models that know time."""
        return {"times": self.times, "sequences": self.recordings}


@dataclass(frozen=True)
class Supervision:
    """What is known of the rows.

    Attributes
    ----------
    bags : ndarray of shape (n_samples,)
        Bag ids; None = in no bag.
    totals : Totals
        The totals of the bags.
    given : ndarray of shape (n_samples,), or None
        Labels that are known; None = not known.
    groups : ndarray of shape (n_samples,), or None
        Rows of different groups are labeled separately, each group on a graph of its own.
    left_out : dict of str to ndarray of bool
        Rows that are not labeled, by reason code.
    in_time : RowsInTime, optional
        When the rows were recorded, if that is to be used.
    conflict : {"error", "given"}, default="error"
        Whether totals that given labels contradict are an error, or give way to the labels.
    notes : tuple of str
        Which totals gave way.
    excluded : ndarray of bool, of shape (n_samples, n_classes), or None
        Labels that rows are known not to have.
    """

    bags: AnyArray
    totals: Totals
    given: AnyArray | None
    groups: AnyArray | None
    left_out: Mapping[str, BoolArray]
    in_time: RowsInTime | None = None
    conflict: Conflict = "error"
    notes: tuple[str, ...] = ()
    excluded: BoolArray | None = None

    @property
    def bagged(self) -> BoolArray:
        """Which rows are in a bag."""
        return is_known(self.bags)

    @property
    def labeled(self) -> BoolArray:
        """Which rows have a given label."""
        if self.given is None:
            return np.zeros(len(self.bags), dtype=bool)
        return np.array([not is_missing(label) for label in self.given.tolist()], dtype=bool)

    def by_group(self, chosen: BoolArray) -> Iterator[tuple[Any, IntArray, Supervision]]:
        """Yield each group, its chosen rows, and what is known of them.

        If some rows are not chosen, masses of whole bags become shares, which hold for the chosen
        rows of a bag too.
        """
        totals = self.totals
        # Rows that are left out, because the sensor was not worn or a cell is missing, are taken to
        # be like the rest of their bag. Counts would no longer sum to the rows that remain.
        if not chosen.all() and totals.unit == "mass":
            totals = _as_shares(totals, self.bags)
        n = len(self.bags)
        groups = np.full(n, None, dtype=object) if self.groups is None else self.groups
        names = list(dict.fromkeys(groups.tolist()))
        codes = positions(groups, names)
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(1, len(names)))
        for name, members in zip(names, np.split(order, ends), strict=True):
            rows = members[chosen[members]]
            given = None if self.given is None else self.given[rows]
            in_time = None if self.in_time is None else self.in_time.of(rows)
            excluded = None if self.excluded is None else self.excluded[rows]
            known = Supervision(
                self.bags[rows], totals, given, None, {}, in_time, self.conflict, (), excluded
            )
            yield name, rows, known.given_first() if self.conflict == "given" else known

    def given_first(self) -> Supervision:
        """Return the same with totals that give way to given labels, and notes about them."""
        if self.given is None:
            return self
        totals, notes = totals_that_give_way(self.totals, self.bags, self.given)
        return replace(self, totals=totals, notes=notes)


@dataclass(frozen=True)
class RowLabels:
    """Labels of rows.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        The classes.
    labels : ndarray of shape (n_samples,)
        A label, or None for a row that is not labeled.
    masses : ndarray of shape (n_samples, n_classes)
        Soft labels; NaN for a row that is not labeled, unless it is so because it is uncertain.
    confidence : ndarray of shape (n_samples,)
        The mass of the row's label, or of the one that an uncertain row would have; else NaN. It
        is a probability only if the method is calibrated.
    reasons : ndarray of shape (n_samples,)
        Codes of `REASONS`, joined by semicolons; empty where there is nothing to say.
    """

    classes: AnyArray
    labels: AnyArray
    masses: FloatArray
    confidence: FloatArray
    reasons: AnyArray


@dataclass(frozen=True)
class LabeledRows(RowLabels):
    """Labels of rows that were fitted.

    Attributes
    ----------
    report : BagReport
        Given against assigned totals.
    models : dict
        The fitted models, by group; the key is None if there is one.
    rows : dict
        The rows that each of them was fitted on.
    notes : tuple of str
        Warnings of the models, and why their graph is not one of nearest neighbors.
    """

    report: BagReport
    models: dict[Any, BagClassifier]
    rows: dict[Any, IntArray]
    notes: tuple[str, ...]

    @property
    def calibrated(self) -> bool:
        """Whether masses and confidence are probabilities, calibrated by held-out totals."""
        return all(map(is_calibrated, self.models.values()))


def label_rows(
    X: FloatArray,
    supervision: Supervision,
    model: BagClassifier | str | None = None,
    marks: Mapping[str, BoolArray] | None = None,
    abstain_below: float | None = None,
) -> LabeledRows:
    """Label every row of features, with its mass and a reason.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    supervision : Supervision
        What is known of them.
    model : estimator or str, optional
        An estimator of this library, of which a clone is fitted, or the name of a method; see
        `apportion.labeling.label_table`.
    marks : mapping of str to ndarray of bool, optional
        More reason codes, and the rows that they hold for.
    abstain_below : float, optional
        Rows whose confidence is below this number get no label and the reason `uncertain`; given
        labels stay. The report still counts these rows, because totals are about all rows.

    Returns
    -------
    LabeledRows

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    >>> totals = Totals.from_counts({"mon": {"sleep": 2, "tv": 1}, "tue": {"sleep": 1, "tv": 1}})
    >>> bags = np.array(["mon", "mon", "mon", "tue", "tue", None], dtype=object)
    >>> labeled = label_rows(X, Supervision(bags, totals, None, None, {}))
    >>> labeled.labels.tolist(), labeled.reasons.tolist()
    (['sleep', 'sleep', 'tv', 'sleep', 'tv', 'tv'], ['', '', '', '', '', 'unbagged'])
    """
    method, labeled = resolved_method(model), list[Any]()

    def fit(group: Any, rows: FloatArray, known: Supervision) -> Fitted:
        weighs = isinstance(method, AutoLLP) and method.candidates == "auto"
        can_be_quick = weighs and bool(labeled)
        said = f"{INTERRUPTED}only the fast methods were compared."
        try:
            if not (can_be_quick and interrupted()):
                found = fit_known(clone(method), rows, known)
                labeled.append(group)
                return found
        except KeyboardInterrupt:
            if not can_be_quick or not keep_answer(said):
                raise
        model, notes = fit_known(clone(method).set_params(candidates=FAST), rows, known)
        return model, [said, *notes]

    with keeping_answers():
        return label_groups(X, supervision, fit, marks, abstain_below)


def label_groups(
    X: FloatArray,
    supervision: Supervision,
    fit: Callable[[Any, FloatArray, Supervision], Fitted],
    marks: Mapping[str, BoolArray] | None = None,
    abstain_below: float | None = None,
) -> LabeledRows:
    """Label every row of features by the models that a function returns, group by group.

    Parameters
    ----------
    X, supervision, marks, abstain_below
        See `label_rows`.
    fit : callable
        Takes a group, its rows and what is known of them; returns a fitted model, and notes.
    """
    n, classes = len(X), supervision.totals.classes
    marked = {code: np.zeros(n, dtype=bool) for code in REASONS}
    for code, mask in {**supervision.left_out, **(marks or {})}.items():
        marked[code] |= mask
    chosen = ~np.any([np.zeros(n, dtype=bool), *supervision.left_out.values()], axis=0)
    labels = np.full(n, None, dtype=object)
    masses = np.full((n, len(classes)), np.nan)
    models: dict[Any, BagClassifier] = {}
    fitted_rows: dict[Any, IntArray] = {}
    notes: list[str] = []
    groups = list(supervision.by_group(chosen))
    costs = [float(len(rows)) for _, rows, _ in groups]
    with several_runs("labeling", "participant", len(groups), costs=costs) as next_run:
        for group, rows, known in groups:
            next_run()
            if not (known.bagged | known.labeled).any():
                marked["no-totals"][rows] = True
                continue
            with _errors_about(rows):
                fitted, group_notes = fit(group, X[rows] if len(rows) < n else X, known)
            prefix = "" if group is None else f"{group}: "
            notes += [message_of(note, prefix) for note in (*known.notes, *group_notes)]
            models[group], fitted_rows[group] = fitted, rows
            labels[rows] = fitted.transduction_
            masses[rows] = fitted.label_distributions_
            for code, reason_rows in _reason_rows(fitted, known).items():
                marked[code][rows[reason_rows]] = True
    if not models:
        raise SupervisionError(
            "the rows",
            "no row with a bag or a label that could be fitted",
            "at least one",
            "check bags, totals and which rows are left out",
        )
    report = joined_reports([fitted.bag_report_ for fitted in models.values()])
    confidence = confidence_of(labels, masses, classes)
    marked["uncertain"] = uncertain_rows(confidence, abstain_below) & ~marked["given"]
    labels[marked["uncertain"]] = None
    codes = joined_codes(marked)
    row_labels = (classes, labels, masses, confidence, codes)
    return LabeledRows(*row_labels, report, models, fitted_rows, tuple(notes))


def confidence_of(labels: AnyArray, masses: FloatArray, classes: AnyArray) -> FloatArray:
    """Return the mass of each row's label; NaN where there is none."""
    codes = places_among(labels, classes)
    return np.where(codes >= 0, masses[np.arange(len(codes)), codes], np.nan)


def uncertain_rows(confidence: FloatArray, abstain_below: float | None) -> BoolArray:
    """Return which rows have a confidence below a threshold; none if there is no threshold."""
    if abstain_below is None:
        return np.zeros(len(confidence), dtype=bool)
    if not 0 <= abstain_below <= 1:
        raise ValueError(f"`abstain_below` must be from 0 to 1. Got {abstain_below!r}.")
    return confidence < abstain_below


@dataclass(frozen=True)
class BagAssessment:
    """Labels compared with the totals of their bags.

    Attributes
    ----------
    report : BagReport
        Given against assigned totals.
    diagnoses : dict
        Which classes the bags can tell apart, by group; the key is None if there is one.
    rows : dict
        The rows of each group.
    """

    report: BagReport
    diagnoses: dict[Any, Diagnosis]
    rows: dict[Any, IntArray]


def assess_labels(labels: AnyArray, supervision: Supervision, decode: str) -> BagAssessment:
    """Compare labels that were found before with the totals of their bags.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Labels; None = not labeled, and not counted in its bag.
    supervision : Supervision
        What is known of the rows.
    decode : str
        How the labels were decoded.
    """
    reports: list[BagReport] = []
    diagnoses: dict[Any, Diagnosis] = {}
    rows_of: dict[Any, IntArray] = {}
    for group, rows, known in supervision.by_group(is_known(labels)):
        if not (known.bagged | known.labeled).any():
            continue
        with _errors_about(rows):
            matched = match_bags(len(rows), known.given, known.bags, known.totals)
        codes = places_among(labels[rows], supervision.totals.classes)
        decoding = Decoding(codes, np.zeros(len(rows), dtype=bool))
        reports.append(report_bags(matched, {decode: decoding}, decode))
        diagnoses[group], rows_of[group] = diagnose_bags(matched), rows
    if not reports:
        raise SupervisionError(
            "the labels", "none", "a label for at least one row", "check the file of labels"
        )
    return BagAssessment(joined_reports(reports), diagnoses, rows_of)


@contextmanager
def _errors_about(rows: IntArray) -> Iterator[None]:
    """Let errors about one of some rows be about that row among all."""
    try:
        yield
    except SupervisionError as error:
        raise (error if error.row is None else error.changed(row=int(rows[error.row]))) from None


def is_known(values: AnyArray) -> BoolArray:
    """Return which values are not None."""
    return np.array([value is not None for value in values.tolist()], dtype=bool)


def reasons_of(labels: RowLabels) -> dict[str, int]:
    """Return how many rows have each reason."""
    counts = Counter[str]()
    for pattern, count in Counter(labels.reasons.tolist()).items():
        counts.update({code: count for code in pattern.split(";") if code})
    return {code: counts[code] for code in REASONS if counts[code]}


def kept_and_uncertain(labels: RowLabels) -> tuple[int, int]:
    """Return how many rows have a label, and how many have none because they are uncertain."""
    return int(is_known(labels.labels).sum()), reasons_of(labels).get("uncertain", 0)


def _as_shares(totals: Totals, bags: AnyArray) -> Totals:
    """Return the masses of whole bags as shares."""
    sizes = Counter(bags.tolist())
    used = [k for k, bag in enumerate(totals.ids) if sizes[bag]]
    ids = [totals.ids[k] for k in used]
    n_samples = np.array([[sizes[bag]] for bag in ids], dtype=np.float64)
    lower, upper = totals.lower[used] / n_samples, totals.upper[used] / n_samples
    shares = Totals.from_intervals(
        dict(zip(ids, lower.tolist(), strict=True)),
        dict(zip(ids, np.minimum(upper, 1.0).tolist(), strict=True)),
        classes=totals.classes.tolist(),
    )
    most = totals.most_episodes
    return shares if most is None else shares.with_most_episodes(most[used])


def places_among(labels: AnyArray, classes: AnyArray) -> IntArray:
    """Return the position of each label among the classes; -1 where there is none."""
    return positions(labels, classes.tolist())


def positions(values: AnyArray, names: list[Any]) -> IntArray:
    """Return the position of each value among some names; -1 if it is none of them."""
    position = {name: k for k, name in enumerate(names)}
    return np.array([position.get(value, -1) for value in values.tolist()], dtype=np.intp)


def fit_known(model: BagClassifier, X: FloatArray, known: Supervision) -> Fitted:
    """Return the fitted model, and what there is to say about it."""
    fitted: Any = model
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        knows_time = isinstance(model, WeighingClassifier | LPLLP)
        when = known.in_time.arguments() if knows_time and known.in_time is not None else {}
        fitted.fit(X, known.given, bags=known.bags, proportions=known.totals, **when)
    notes = [message_of(warning.message) for warning in caught]
    if isinstance(model, GraphClassifier) and not isinstance(model.graph_, KNNGraph):
        notes.insert(0, model.graph_choice_)
    if isinstance(model, WeighingClassifier):
        report = model.candidate_report_
        left_out = {name: why for name, why in report.left_out.items() if why != SEE_WARNINGS}
        notes += [f"{name} was left out: it {why}" for name, why in left_out.items()]
        if not any(isinstance(warning.message, CandidateWarning) for warning in caught):
            notes += [report.reason] * bool(report.reason)
        notes += [f"time: {report.about_time}"] * bool(report.about_time)
        notes += [f"graph: {report.about_graph}"] * bool(report.about_graph)
    if isinstance(model, LPLLP) and when:
        notes.append(
            f"time: rows that follow each other are tied with weight {model.time_weight_:g}"
        )
    if known.excluded is not None and known.excluded.any():
        notes += keep_exclusions(model, X, known)
    return model, notes


def keep_exclusions(model: BagClassifier, X: FloatArray, known: Supervision) -> tuple[str, ...]:
    """Let a fitted model's answer have no excluded label, and return notes about that.

    Its soft labels are the nearest without them that keep the totals; its labels are decoded anew,
    as the model decodes.
    """
    matched = match_bags(len(X), known.given, known.bags, known.totals)
    rules = Exclusions(matched, known.excluded, give_way=known.conflict == "given")
    ranks = hash_ranks(X, len(X))
    in_time = time_of(model, known, ranks)
    F = rules.soft_labels(model.label_distributions_)
    model._store_labels(matched, F, rules.decode(F, model.decode, ranks, in_time))
    if isinstance(model, LPLLP):
        model._prototype_labels = model.graph_.prototype_labels(F)
    return rules.notes


def time_of(model: BagClassifier, known: Supervision, ranks: IntArray) -> InTime | None:
    """Return the rows in time, and what changes cost, if a fitted model decodes along time."""
    if model.decode != "sequence" or known.in_time is None:
        return None
    sequences = rows_in_time(known.in_time.times, known.in_time.recordings, ranks)
    assert sequences is not None
    labels = places_among(model.transduction_, model.classes_)
    return InTime(sequences, flicker_of(labels, sequences).cost)


def _reason_rows(model: BagClassifier, known: Supervision) -> dict[str, BoolArray]:
    """Return which rows have which reason; those that a graph gives only if there is one."""
    n = len(known.bags)
    isolated, unreached, off_totals = np.zeros((3, n), dtype=bool)
    matched = match_bags(n, known.given, known.bags, known.totals)
    graph = graph_in(model)
    if graph is not None:
        isolated[graph.weak_rows()] = True
        unreached = unsupervised_rows(graph, matched)
    class_is_off = np.abs(model.bag_report_.difference()) >= 1.0
    codes = places_among(model.transduction_, model.classes_)
    inside = matched.codes >= 0
    off_totals[inside] = class_is_off[matched.codes[inside], codes[inside]]
    return {
        "given": known.labeled,
        "tie": model.tied_,
        "isolated": isolated,
        "unbagged": ~known.bagged & ~known.labeled,
        "out-of-reach": unreached,
        "outside-interval": off_totals,
    }
