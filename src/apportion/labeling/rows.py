"""The whole job: rows and what is known of their bags in, a labeled row with a reason out."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from apportion._core.decode import Decoding
from apportion._core.uniqueness import unsupervised_rows
from apportion._io.tables import is_missing
from apportion._utils.progress import several_runs
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.bag_report import BagReport, joined_reports, report_bags
from apportion.estimators import LPLLP
from apportion.exceptions import InputError, SupervisionError, message_of
from apportion.graphs import KNNGraph
from apportion.supervision.bags import match_bags
from apportion.supervision.diagnosis import Diagnosis, diagnose_bags
from apportion.supervision.totals import Totals

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
    "others being filled in; or, with --missing drop, it lacks one and is not labeled",
    "unseen-category": "a feature of the row has a value that no fitted row has",
    "non-wear": "not labeled: the sensor was not worn",
    "no-totals": "not labeled: there are no totals for its participant",
    "unknown-row": "not labeled: the model, saved with labels only, does not know the row",
}
"""The reason codes, in the order in which they are listed, and what they mean."""


@dataclass(frozen=True)
class Supervision:
    """What is known of the rows.

    Attributes
    ----------
    bags : ndarray of shape (n_samples,)
        Bag ids; None = in no bag.
    totals : Totals
        The bags' totals.
    given : ndarray of shape (n_samples,), or None
        Labels that are known; None = not known.
    groups : ndarray of shape (n_samples,), or None
        Rows of different groups are labeled apart, each group on a graph of its own.
    left_out : dict of str to ndarray of bool
        Rows that are not labeled, by reason code.
    """

    bags: AnyArray
    totals: Totals
    given: AnyArray | None
    groups: AnyArray | None
    left_out: Mapping[str, BoolArray]


@dataclass(frozen=True)
class Answer:
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
        The mass of the row's label, or of the one that an uncertain row would have; else NaN.
    reasons : ndarray of shape (n_samples,)
        Codes of `REASONS`, joined by semicolons; empty where there is nothing to say.
    """

    classes: AnyArray
    labels: AnyArray
    masses: FloatArray
    confidence: FloatArray
    reasons: AnyArray


@dataclass(frozen=True)
class Labeled(Answer):
    """Labels of rows that were fitted.

    Attributes
    ----------
    report : BagReport
        Given against assigned.
    models : dict
        The fitted models, by group; the key is None where there is one.
    rows : dict
        Which rows each of them was fitted on.
    notes : tuple of str
        What the models warned of, and why their graph is not one of nearest neighbors.
    """

    report: BagReport
    models: dict[Any, LPLLP]
    rows: dict[Any, IntArray]
    notes: tuple[str, ...]


def label_rows(
    X: FloatArray,
    known: Supervision,
    model: LPLLP | None = None,
    marks: Mapping[str, BoolArray] | None = None,
    abstain_below: float | None = None,
) -> Labeled:
    """Return a label, its mass and a reason for every row.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    known : Supervision
        What is known of them.
    model : LPLLP, optional
        What to fit; a copy of it is.
    marks : mapping of str to ndarray of bool, optional
        More reason codes, and the rows they hold for.
    abstain_below : float, optional
        Rows whose confidence is below this get no label and the reason `uncertain`; labels that
        were given stay. The report still counts them: totals speak of all rows.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    >>> totals = Totals.from_counts({"mon": {"sleep": 2, "tv": 1}, "tue": {"sleep": 1, "tv": 1}})
    >>> bags = np.array(["mon", "mon", "mon", "tue", "tue", None], dtype=object)
    >>> found = label_rows(X, Supervision(bags, totals, None, None, {}))
    >>> found.labels.tolist(), found.reasons.tolist()
    (['sleep', 'sleep', 'tv', 'sleep', 'tv', 'tv'], ['', '', '', '', '', 'unbagged'])
    """
    model = LPLLP(random_state=0) if model is None else model
    n, classes = len(X), known.totals.classes
    marked = {code: np.zeros(n, dtype=bool) for code in REASONS}
    for code, which in {**known.left_out, **(marks or {})}.items():
        marked[code] |= which
    out = np.zeros(n, dtype=bool)
    for which in known.left_out.values():
        out |= which
    labels = np.full(n, None, dtype=object)
    masses = np.full((n, len(classes)), np.nan)
    models: dict[Any, LPLLP] = {}
    fitted_rows: dict[Any, IntArray] = {}
    notes: list[str] = []
    if out.any() and known.totals.unit == "mass":
        known = replace(known, totals=_shares_of(known.totals, known.bags))
    groups = _groups(known.groups, ~out)
    with several_runs("labeling", "participant", len(groups)) as next_run:
        for group, rows in groups:
            next_run()
            part = _Part(known, rows)
            if not part.has_supervision:
                marked["no-totals"][rows] = True
                continue
            try:
                fitted, told = part.fit(clone(model), X[rows] if len(rows) < n else X)
            except SupervisionError as error:
                raise _at_their_rows(error, rows) from None
            prefix = "" if group is None else f"{group}: "
            notes += [message_of(note, prefix) for note in told]
            models[group], fitted_rows[group] = fitted, rows
            labels[rows] = fitted.transduction_
            masses[rows] = fitted.label_distributions_
            for code, found in part.reasons(fitted).items():
                marked[code][rows[found]] = True
    if not models:
        raise SupervisionError(
            "the rows",
            "no row with a bag or a label that could be fitted",
            "at least one",
            "check bags, totals and which rows are left out",
        )
    report = joined_reports([fitted.bag_report_ for fitted in models.values()])
    place = places_among(labels, classes)
    confidence = np.where(place >= 0, masses[np.arange(n), place], np.nan)
    marked["uncertain"] = uncertain_rows(confidence, abstain_below) & ~marked["given"]
    labels[marked["uncertain"]] = None
    return Labeled(
        classes,
        labels,
        masses,
        confidence,
        joined_codes(marked),
        report,
        models,
        fitted_rows,
        tuple(notes),
    )


def uncertain_rows(confidence: FloatArray, abstain_below: float | None) -> BoolArray:
    """Return which rows have a confidence below a threshold; none where there is no threshold."""
    if abstain_below is None:
        return np.zeros(len(confidence), dtype=bool)
    if not 0 <= abstain_below <= 1:
        raise ValueError(f"`abstain_below` must be from 0 to 1. Got {abstain_below!r}.")
    return confidence < abstain_below


@dataclass(frozen=True)
class Judged:
    """What bags say of labels.

    Attributes
    ----------
    report : BagReport
        Given against assigned.
    diagnoses : dict
        What the bags tell apart, by group; the key is None where there is one.
    rows : dict
        Which rows are of each group.
    """

    report: BagReport
    diagnoses: dict[Any, Diagnosis]
    rows: dict[Any, IntArray]


def judge(labels: AnyArray, known: Supervision, decode: str) -> Judged:
    """Return what bags say of labels that were found before.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Labels; None = not labeled, and not counted in its bag.
    known : Supervision
        What is known of the rows.
    decode : str
        How labels were decoded.
    """
    classes = known.totals.classes
    labeled = np.array([one is not None for one in labels.tolist()], dtype=bool)
    totals = known.totals
    if not labeled.all() and totals.unit == "mass":
        totals = _shares_of(totals, known.bags)
    reports: list[BagReport] = []
    diagnoses: dict[Any, Diagnosis] = {}
    of_group: dict[Any, IntArray] = {}
    for group, mine in _groups(known.groups, labeled):
        part = _Part(known, mine)
        if not part.has_supervision:
            continue
        try:
            matched = match_bags(len(mine), part.given, part.bags, totals)
        except SupervisionError as error:
            raise _at_their_rows(error, mine) from None
        found = Decoding(places_among(labels[mine], classes), np.zeros(len(mine), dtype=bool))
        reports.append(report_bags(matched, {decode: found}, decode))
        diagnoses[group], of_group[group] = diagnose_bags(matched), mine
    if not reports:
        raise SupervisionError(
            "the labels", "none", "a label for at least one row", "check the file of labels"
        )
    return Judged(joined_reports(reports), diagnoses, of_group)


def _at_their_rows(error: SupervisionError, rows: IntArray) -> InputError:
    """Return an error about one of some rows as an error about that row among all."""
    return error if error.row is None else error.changed(row=int(rows[error.row]))


def joined_codes(marked: Mapping[str, BoolArray]) -> AnyArray:
    """Return every row's codes, joined by semicolons."""
    bits = np.zeros(len(next(iter(marked.values()))), dtype=np.int64)
    for place, rows in enumerate(marked.values()):
        bits |= rows.astype(np.int64) << place
    distinct, where = np.unique(bits, return_inverse=True)
    texts = [
        ";".join(code for place, code in enumerate(marked) if pattern >> place & 1)
        for pattern in distinct.tolist()
    ]
    return np.array(texts, dtype=object)[where]


def reasons_of(found: Answer) -> dict[str, int]:
    """Return how many rows have each reason."""
    counts = Counter[str]()
    for pattern, count in Counter(found.reasons.tolist()).items():
        counts.update({code: count for code in pattern.split(";") if code})
    return {code: counts[code] for code in REASONS if counts[code]}


def kept_and_uncertain(found: Answer) -> tuple[int, int]:
    """Return how many rows have a label, and how many have none because they are uncertain."""
    n_kept = sum(one is not None for one in found.labels.tolist())
    return n_kept, reasons_of(found).get("uncertain", 0)


def _shares_of(totals: Totals, bags: AnyArray) -> Totals:
    """Return masses of whole bags as shares, which hold where some of the rows are left out too."""
    sizes = Counter(bags.tolist())
    used = [k for k, bag in enumerate(totals.ids) if sizes[bag]]
    rows = np.array([[sizes[totals.ids[k]]] for k in used], dtype=np.float64)
    ids = [totals.ids[k] for k in used]
    low, high = totals.lower[used] / rows, np.minimum(totals.upper[used] / rows, 1.0)
    return Totals.from_intervals(
        dict(zip(ids, low.tolist(), strict=True)),
        dict(zip(ids, high.tolist(), strict=True)),
        classes=totals.classes.tolist(),
    )


def places_among(labels: AnyArray, classes: AnyArray) -> IntArray:
    """Return each label's position among the classes; -1 where there is none."""
    place = {label: h for h, label in enumerate(classes.tolist())}
    return np.array([place.get(label, -1) for label in labels.tolist()], dtype=np.intp)


def _groups(groups: AnyArray | None, labeled: BoolArray) -> list[tuple[Any, AnyArray]]:
    if groups is None:
        return [(None, np.flatnonzero(labeled))]
    names = list(dict.fromkeys(groups.tolist()))
    place = {name: g for g, name in enumerate(names)}
    codes = np.array([place[name] for name in groups.tolist()])
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(names) + 1))
    parts = [order[ends[g] : ends[g + 1]] for g in range(len(names))]
    return [(name, rows[labeled[rows]]) for name, rows in zip(names, parts, strict=True)]


class _Part:
    """The rows that are labeled together."""

    def __init__(self, known: Supervision, rows: AnyArray) -> None:
        self.bags = known.bags[rows]
        self.totals = known.totals
        self.given = None if known.given is None else known.given[rows]
        self.bagged = np.array([bag is not None for bag in self.bags.tolist()], dtype=bool)

    @property
    def has_supervision(self) -> bool:
        """Whether any row is in a bag or has a label."""
        return bool(self.bagged.any() or self._labeled.any())

    @property
    def _labeled(self) -> BoolArray:
        if self.given is None:
            return np.zeros(len(self.bags), dtype=bool)
        return np.array([not is_missing(one) for one in self.given.tolist()], dtype=bool)

    def fit(self, model: LPLLP, X: FloatArray) -> tuple[LPLLP, list[str]]:
        """Return the fitted model, and what it told."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, self.given, bags=self.bags, proportions=self.totals)
        approximate = [] if isinstance(model.graph_, KNNGraph) else [model.graph_choice_]
        return model, [*approximate, *(message_of(one.message) for one in caught)]

    def reasons(self, model: LPLLP) -> dict[str, BoolArray]:
        """Return which rows have which reason."""
        graph = model.graph_
        isolated = np.zeros(len(self.bags), dtype=bool)
        isolated[graph.weak_rows()] = True
        matched = match_bags(len(self.bags), self.given, self.bags, self.totals)
        report = model.bag_report_
        off = np.abs(report.difference()) >= 1.0
        label = places_among(model.transduction_, model.classes_)
        wrong = np.zeros(len(self.bags), dtype=bool)
        inside = matched.codes >= 0
        wrong[inside] = off[matched.codes[inside], label[inside]]
        return {
            "given": self._labeled,
            "tie": model.tied_,
            "isolated": isolated,
            "unbagged": ~self.bagged & ~self._labeled,
            "out-of-reach": unsupervised_rows(graph, matched),
            "outside-interval": wrong,
        }
