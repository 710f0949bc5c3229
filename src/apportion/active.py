"""Ask for the labels and totals that would tell most.

After a fit, some rows are uncertain. `suggest_rows` returns the rows whose label would reduce this
uncertainty most, over all rows that are like them. `suggest_bags` returns the bags for which the
totals of two halves would.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np
from scipy import sparse

from apportion._core.error_field import ErrorField, most_informative, single_rows
from apportion._utils.groups import Groups
from apportion._utils.hashing import hash_ranks, ranks_of
from apportion._utils.html_table import HTMLTable
from apportion._utils.threads import with_reproducible_sums
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.bag_report import aligned, as_frame
from apportion.estimators._base import BagClassifier
from apportion.exceptions import InputError, counted, hint
from apportion.graphs import Graph
from apportion.model_selection._graph_of_model import graph_in, graph_of
from apportion.supervision.bags import refuse_other_length
from apportion.supervision.rows_in_time import moments_of

__all__ = ["BagSuggestions", "RowSuggestions", "suggest_bags", "suggest_rows"]

_NUMBERS = 2**22
"""Rows times candidates that are compared: all rows of up to 2,048, of 16,384 only 256."""

_LEAST_CANDIDATES = 256
"""At least so many candidates are compared, however many rows there are, as far as they fit."""

_MOST_NUMBERS = 2**25
"""The largest number of rows times candidates (256 MB), unless more suggestions are wanted."""

_PER_SUGGESTION = 4
"""At least this many candidates are compared for each suggestion."""

_CERTAIN = 1e-9
"""A row whose soft label leaves less variance than this is certain."""

_DIGITS = 6
"""Digits of soft labels that order rows without features."""


@dataclass(frozen=True)
class RowSuggestions:
    """Rows whose label would tell most, best first.

    Attributes
    ----------
    rows : ndarray of int, of shape (n_suggestions,)
        Positions of the rows.
    gains : ndarray of shape (n_suggestions,)
        By how much each label is expected to reduce the uncertainty of all rows, if those before
        it are known. The uncertainty of a row is 1 - Σ_h p_h²: 1/2 if two classes are equally
        likely, 0 if one is certain.
    bags : tuple
        The bag of each row; None for a row in no bag.
    classes : ndarray of shape (n_suggestions, 2)
        The two likeliest classes of each row; one column if there is one class.
    probabilities : ndarray of shape (n_suggestions, 2)
        Their soft labels.

    Examples
    --------
    See `suggest_rows`.
    """

    rows: IntArray
    gains: FloatArray
    bags: tuple[Any, ...]
    classes: AnyArray
    probabilities: FloatArray

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Return a dataframe with one row per suggestion.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
            The library of the dataframe.

        Returns
        -------
        dataframe
            Columns: row, bag, gain, and `class_k` and `probability_k` of the likeliest classes.
        """
        columns: dict[str, Any] = {
            "row": self.rows.tolist(),
            "bag": list(self.bags),
            "gain": self.gains.tolist(),
        }
        for k in range(self.classes.shape[1]):
            columns[f"class_{k + 1}"] = self.classes[:, k].tolist()
            columns[f"probability_{k + 1}"] = self.probabilities[:, k].tolist()
        return as_frame(columns, backend)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return "\n".join(aligned([self._header, *self._cells()]))

    def _repr_html_(self) -> str:
        return str(HTMLTable("Rows to ask about", self._header, self._cells()))

    _header = ("row", "bag", "gain", "likeliest classes")

    def _cells(self) -> list[list[str]]:
        return [
            [
                str(row),
                "" if bag is None else str(bag),
                f"{gain:.3g}",
                ", ".join(f"{h} {p:.2f}" for h, p in zip(classes, probabilities, strict=True)),
            ]
            for row, bag, gain, classes, probabilities in zip(
                self.rows.tolist(),
                self.bags,
                self.gains.tolist(),
                self.classes.tolist(),
                self.probabilities.tolist(),
                strict=True,
            )
        ]


@dataclass(frozen=True)
class BagSuggestions:
    """Bags for which the totals of two halves would tell most, best first.

    Attributes
    ----------
    bags : tuple
        The bag ids.
    gains : ndarray of shape (n_suggestions,)
        By how much the totals of the two halves are expected to reduce the uncertainty of all
        rows, as in `RowSuggestions`, if those of the bags before are known.
    sizes : ndarray of int, of shape (n_suggestions,)
        The number of rows of each bag.
    first_halves : tuple of ndarray of int
        The positions of the rows of each first half.
    second_begins : ndarray of int, of shape (n_suggestions,)
        The position of a row with which each second half begins.
    in_time : bool
        Whether bags are split at their median time, or at random.

    Examples
    --------
    See `suggest_bags`.
    """

    bags: tuple[Any, ...]
    gains: FloatArray
    sizes: IntArray
    first_halves: tuple[IntArray, ...]
    second_begins: IntArray
    in_time: bool

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Return a dataframe with one row per suggestion.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
            The library of the dataframe.

        Returns
        -------
        dataframe
            Columns: bag, rows, gain, first_half (its number of rows), second_begins.
        """
        columns: dict[str, Any] = {
            "bag": list(self.bags),
            "rows": self.sizes.tolist(),
            "gain": self.gains.tolist(),
            "first_half": [len(half) for half in self.first_halves],
            "second_begins": self.second_begins.tolist(),
        }
        return as_frame(columns, backend)

    def __len__(self) -> int:
        return len(self.bags)

    def __str__(self) -> str:
        return "\n".join([*aligned([self._header, *self._cells()]), self._note])

    def _repr_html_(self) -> str:
        return str(HTMLTable("Bags to split", self._header, self._cells(), notes=[self._note]))

    _header = ("bag", "rows", "gain", "first half")

    @property
    def _note(self) -> str:
        return (
            "halves are before and from the median time of the bag"
            if self.in_time
            else "halves are drawn at random, because no times are given"
        )

    def _cells(self) -> list[list[str]]:
        return [
            [str(bag), str(size), f"{gain:.3g}", counted(len(half), "row")]
            for bag, size, gain, half in zip(
                self.bags, self.sizes.tolist(), self.gains.tolist(), self.first_halves, strict=True
            )
        ]


@with_reproducible_sums
def suggest_rows(
    model: BagClassifier, X: Any = None, *, n_rows: int = 10, skip: Any = None
) -> RowSuggestions:
    """Suggest the rows whose label would reduce uncertainty most.

    The errors of the soft labels are modeled as a Gaussian field: a row varies by
    `1 - Σ_h p_h²`, rows that are alike on the model's graph err alike, and the known totals of a
    bag rule out errors that its rows have in common. Knowing the label of row i reduces the
    variances of all rows by `‖C_i‖² / C_ii`, where C is the covariance. Rows are chosen one after
    the other, each given those before it, so that they differ from each other.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this library, such as `LPLLP` or `AutoLLP`.
    X : array-like of shape (n_samples, n_features), optional
        The rows that the model was fitted to; needed if the model has no graph of them.
    n_rows : int, default=10
        The largest number of rows to suggest. There are fewer if fewer are uncertain.
    skip : array-like, optional
        Rows that are not to be suggested, as positions or as one bool per row: those that were
        skipped, or whose label nobody knows. They stay uncertain. Rows whose label was given to
        `fit` are never suggested.

    Returns
    -------
    RowSuggestions
        The rows, best first.

    See Also
    --------
    suggest_bags : Suggest bags whose totals should be known for two halves.

    Notes
    -----
    A few hundred candidates are compared, drawn in proportion to their variances by a hash of the
    features. The same rows are suggested whatever the order of the rows.

    References
    ----------
    M. Ji, J. Han, "A Variance Minimization Criterion to Active Learning on Graphs", AISTATS 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from apportion import LPLLP, suggest_rows
    >>> X = np.array([[0.0], [0.1], [5.0], [2.4], [0.2], [5.1], [5.2], [2.6]])
    >>> day = ["mon"] * 4 + ["tue"] * 4
    >>> hours = {"mon": {"sleep": 0.75, "tv": 0.25}, "tue": {"sleep": 0.25, "tv": 0.75}}
    >>> model = LPLLP(graph="rbf").fit(X, bags=day, proportions=hours)
    >>> suggested = suggest_rows(model, n_rows=2)
    >>> print(suggested)
    row  bag    gain    likeliest classes
      2  mon   0.102  tv 0.60, sleep 0.40
      4  tue  0.0578  sleep 0.59, tv 0.41

    The answers go into the next fit. Here they leave nothing to ask:

    >>> y = np.full(8, None, dtype=object)
    >>> y[suggested.rows] = ["tv", "sleep"]
    >>> model = LPLLP(graph="rbf").fit(X, y, bags=day, proportions=hours)
    >>> len(suggest_rows(model))
    0
    """
    _check_number("n_rows", n_rows)
    fitted = _FittedRows(model, X)
    candidates = fitted.candidates(row_positions(skip, fitted.n_samples), int(n_rows))
    best = most_informative(
        fitted.field,
        single_rows(candidates, fitted.n_samples),
        int(n_rows),
        fitted.ranks[candidates],
    )
    rows, F = candidates[best.chosen], model.label_distributions_
    likeliest = np.argsort(-F[rows], axis=1, kind="stable")[:, :2]
    ids = model.bag_report_.ids
    return RowSuggestions(
        rows,
        best.gains,
        tuple(None if code < 0 else ids[code] for code in model.bag_codes_[rows]),
        model.classes_[likeliest],
        np.take_along_axis(F[rows], likeliest, axis=1),
    )


@with_reproducible_sums
def suggest_bags(
    model: BagClassifier, X: Any = None, *, n_bags: int = 5, times: Any = None
) -> BagSuggestions:
    """Suggest the bags for which the totals of two halves would reduce uncertainty most.

    With times, the halves of a bag are its rows before and from its median time, as in a diary that
    says more of the entry. Without times, they are drawn at random by a hash of the features: the
    gain is that of bags of half the size.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this library, such as `LPLLP` or `AutoLLP`.
    X : array-like of shape (n_samples, n_features), optional
        The rows that the model was fitted to; needed if the model has no graph of them.
    n_bags : int, default=5
        The largest number of bags to suggest. There are fewer if fewer can be split.
    times : array-like of shape (n_samples,), optional
        When each row was: numbers, date-times or ISO text. A bag whose rows are all of one time is
        not suggested.

    Returns
    -------
    BagSuggestions
        The bags, best first.

    See Also
    --------
    suggest_rows : Suggest single rows, and how their gain is computed.

    Examples
    --------
    >>> import numpy as np
    >>> from apportion import LPLLP, suggest_bags
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> day = ["mon"] * 4 + ["tue"] * 2
    >>> hours = {"mon": {"sleep": 0.5, "tv": 0.5}, "tue": {"sleep": 0.0, "tv": 1.0}}
    >>> model = LPLLP(graph="rbf").fit(X, bags=day, proportions=hours)
    >>> suggested = suggest_bags(model, times=np.arange(6))
    >>> suggested.bags, suggested.first_halves[0].tolist()
    (('mon',), [0, 1])
    """
    _check_number("n_bags", n_bags)
    fitted = _FittedRows(model, X)
    codes = model.bag_codes_
    moments = fitted.ranks.astype(np.float64) if times is None else moments_of(times)
    refuse_other_length("times", moments, fitted.n_samples)
    split = _Halves.of(codes, moments, fitted.ranks, len(model.bag_report_.ids))
    candidates = fitted.candidate_bags(split, int(n_bags))
    best = most_informative(
        fitted.field, split.measurements(candidates), int(n_bags), np.arange(len(candidates))
    )
    chosen = candidates[best.chosen]
    return BagSuggestions(
        tuple(model.bag_report_.ids[k] for k in chosen),
        best.gains,
        np.asarray(model.bag_report_.sizes)[chosen],
        tuple(np.flatnonzero(split.first & (codes == k)) for k in chosen),
        split.second_begins[chosen],
        times is not None,
    )


class _FittedRows:
    """The rows of a fitted model: their graph, their order, and the field of their errors."""

    def __init__(self, model: Any, X: Any) -> None:
        _check_model(model)
        F = model.label_distributions_
        self.n_samples = len(F)
        graph = _graph(model, X)
        # A graph of given similarities knows no features.
        self.ranks = (
            ranks_of(graph.hashes())
            if graph.sees_features
            else hash_ranks(F.round(_DIGITS), self.n_samples)
        )
        self.given: BoolArray = model._given_rows
        variances = 1.0 - np.square(F).sum(axis=1)
        self.variances: FloatArray = np.where(self.given | (variances < _CERTAIN), 0.0, variances)
        self.bags = Groups(model.bag_codes_, len(model.bag_report_.ids))
        report = model.bag_report_
        known = _known_share(self.bags.sum(self.variances), report.upper - report.lower)
        self.field = ErrorField(graph, self.variances, self.given, self.bags, known)

    # Weighted sampling without replacement: the smallest of -log(u) / v, with u uniform (Efraimidis
    # and Spirakis, 2006). The most uncertain rows alone would all be of one border between classes,
    # while a group of rows should be represented as its variances count in the sum.
    def candidates(self, skip: IntArray, n_rows: int) -> IntArray:
        """Return the rows to compare, drawn in proportion to their variances."""
        variances = self.variances.copy()
        variances[skip] = 0.0
        rows = np.flatnonzero(variances)
        uniform = (self.ranks[rows] + 0.5) / self.n_samples
        keys = -np.log(uniform) / variances[rows]
        return rows[np.lexsort((self.ranks[rows], keys))[: self._n_candidates(n_rows)]]

    def candidate_bags(self, split: _Halves, n_bags: int) -> IntArray:
        """Return the bags to compare: those with the largest sum of variances."""
        sums = np.where(split.possible, self.bags.sum(self.variances), 0.0)
        order = np.argsort(-sums, kind="stable")[: self._n_candidates(n_bags)]
        return order[sums[order] > 0]

    def _n_candidates(self, n_suggestions: int) -> int:
        n_samples = max(self.n_samples, 1)
        many = max(_NUMBERS // n_samples, _LEAST_CANDIDATES)
        return max(min(many, _MOST_NUMBERS // n_samples), _PER_SUGGESTION * n_suggestions)


@dataclass(frozen=True)
class _Halves:
    """The rows of every bag in two halves.

    Attributes
    ----------
    codes : ndarray of int, of shape (n_samples,)
        The bag of each row; -1 = none.
    first : ndarray of bool, of shape (n_samples,)
        The rows of the first halves.
    second_begins : ndarray of int, of shape (n_bags,)
        The row with which the second half of each bag begins; -1 for an empty bag.
    possible : ndarray of bool, of shape (n_bags,)
        The bags that have two halves.
    """

    codes: IntArray
    first: BoolArray
    second_begins: IntArray
    possible: BoolArray

    @classmethod
    def of(cls, codes: IntArray, moments: FloatArray, ranks: IntArray, n_bags: int) -> _Halves:
        """Split every bag at the moment of its middle row."""
        order = np.lexsort((ranks, moments, codes))
        inside = codes[codes >= 0]
        sizes = np.bincount(inside, minlength=n_bags)
        starts = len(codes) - len(inside) + np.cumsum(sizes) - sizes
        middle = np.full(n_bags, -1)
        middle[sizes > 0] = order[(starts + sizes // 2)[sizes > 0]]
        first = (codes >= 0) & (moments < moments[middle][codes])
        # Of rows at the median itself, the second half begins with the first.
        edge = np.bincount(codes[first], minlength=n_bags)
        middle[sizes > 0] = order[(starts + edge)[sizes > 0]]
        return cls(codes, first, middle, edge > 0)

    def measurements(self, bags: IntArray) -> Any:
        """Return the sums over the first halves of some bags, one column per bag."""
        column = np.full(len(self.second_begins) + 1, -1)
        column[bags] = np.arange(len(bags))
        rows = np.flatnonzero(self.first & (column[self.codes] >= 0))
        cells = np.ones(len(rows)), (rows, column[self.codes[rows]])
        return sparse.csc_array(cells, shape=(len(self.codes), len(bags)))


def _known_share(variances: FloatArray, widths: FloatArray) -> FloatArray:
    """Return how much of the error of each bag's totals is ruled out: 1 if they are exact.

    A total anywhere in an interval of width w has the variance w² / 12; the errors of the rows,
    if they were independent, would sum up to one of the given variance.
    """
    left = np.square(np.where(widths > 1e-9, widths, 0.0)).sum(axis=1) / 12.0
    total = variances + left
    return np.divide(variances, total, out=np.zeros_like(total), where=total > 0)


def _graph(model: Any, X: Any) -> Graph:
    """Return the graph of the fitted rows: that of the model, or one of X."""
    graph, n_samples = graph_in(model), len(model.label_distributions_)
    if graph is not None:
        return graph
    if X is None:
        raise InputError(
            "",
            f"a {type(model).__name__}, which has no graph of similar rows, and no `X`",
            "a model with a graph, or its rows",
            hint("pass the rows of `fit` as {X}"),
            parameter="model",
        )
    X = model._checked_new_rows(X)
    if len(X) != n_samples:
        raise InputError(
            "",
            counted(len(X), "row"),
            f"the {n_samples} rows that the model was fitted to",
            "pass them in the same order",
            parameter="X",
        )
    return graph_of(model, X)


def _check_model(model: Any) -> None:
    if isinstance(model, BagClassifier) and hasattr(model, "_given_rows"):
        return
    found = (
        f"a {type(model).__name__} that is not fitted here"
        if isinstance(model, BagClassifier)
        else f"{model!r}"
    )
    raise InputError(
        "",
        found,
        "a fitted estimator of apportion, such as LPLLP or AutoLLP",
        "fit it first; a model that was loaded from a file does not know its rows",
        parameter="model",
    )


def _check_number(name: str, value: Any) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < 1:
        raise InputError("", repr(value), "a whole number from 1 on", "ask for one", parameter=name)


def row_positions(skip: Any, n_samples: int) -> IntArray:
    """Return rows to skip, given as positions or as one bool per row, as positions."""
    if skip is None:
        return np.empty(0, dtype=np.intp)
    rows = np.asarray(skip)
    if rows.dtype == bool and rows.shape == (n_samples,):
        return np.flatnonzero(rows)
    allowed = f"positions of rows from 0 to {n_samples - 1}, or one bool per row"
    if rows.size == 0:
        return np.empty(0, dtype=np.intp)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        found = f"an array of {rows.dtype} of shape {rows.shape}"
        raise InputError("", found, allowed, "correct it", parameter="skip")
    outside = (rows < 0) | (rows >= n_samples)
    if outside.any():
        found = f"the row {rows[outside][0]}"
        raise InputError("", found, allowed, "leave it out", parameter="skip")
    return rows.astype(np.intp)
