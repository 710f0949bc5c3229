"""A report of given and assigned totals per bag and class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import narwhals.stable.v1 as nw
import numpy as np

from apportion._core.decode import Decoding
from apportion._utils.html_table import SHOWN_ROWS, HTMLTable, Marked, class_columns
from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.metrics import rows_to_change
from apportion.supervision.bags import Bags
from apportion.supervision.totals import interval


@dataclass(frozen=True)
class BagReport:
    """The given totals of the bags, and the totals of the assigned labels.

    Attributes
    ----------
    ids : tuple
        The bag ids.
    classes : ndarray of shape (n_classes,)
        The classes.
    sizes : ndarray of shape (n_bags,)
        The number of rows in each bag.
    lower, upper : ndarray of shape (n_bags, n_classes)
        Given class totals, in rows; equal if the total is exact.
    assigned : dict of str to ndarray of shape (n_bags, n_classes)
        The number of rows of each class, for each decoding.
    decode : str
        The decoding in use.
    tied : dict of str to int
        The number of rows whose label was decided by a tie-break, for each decoding.

    Examples
    --------
    >>> import numpy as np
    >>> from apportion import WeightedKNN
    >>> X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    >>> model = WeightedKNN().fit(X, bags=[0, 0, 0, 1, 1, 1], proportions=np.array([1 / 3, 2 / 3]))
    >>> report = model.bag_report_
    >>> report.assigned["quota"].tolist(), report.error()
    ([[2, 1], [1, 2]], 0.0)
    >>> print(str(report).splitlines()[1])
      0     3  2 → 2  1 → 1
    """

    ids: tuple[Any, ...]
    classes: AnyArray
    sizes: IntArray
    lower: FloatArray
    upper: FloatArray
    assigned: dict[str, IntArray]
    decode: str
    tied: dict[str, int] = field(default_factory=dict)

    def difference(self, decode: str | None = None) -> FloatArray:
        """Return assigned minus given totals, or minus the nearer end of an interval.

        Parameters
        ----------
        decode : {"quota", "threshold"}, optional
            The decoding, by default the one in use.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            The differences, in rows.
        """
        counts = self.assigned[self.decode if decode is None else decode]
        return np.asarray(counts - np.clip(counts, self.lower, self.upper))

    def error(self, decode: str | None = None) -> float:
        """Return the share of rows in bags that would have to change class to meet the totals.

        Parameters
        ----------
        decode : {"quota", "threshold"}, optional
            The decoding, by default the one in use.

        Returns
        -------
        float
            The share, from 0 to 1.
        """
        return float(rows_to_change(self.difference(decode)).sum() / max(int(self.sizes.sum()), 1))

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Return a dataframe with one row per bag and class.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
            The library of the dataframe.

        Returns
        -------
        dataframe
            Columns: bag, class, rows, given_lower, given_upper, and for each decoding
            `assigned_…` and `difference_…`.
        """
        K, c = self.lower.shape
        columns: dict[str, Any] = {
            "bag": [bag for bag in _of_one_type(self.ids) for _ in range(c)],
            "class": _of_one_type(self.classes.tolist()) * K,
            "rows": np.repeat(self.sizes, c).tolist(),
            "given_lower": self.lower.ravel().tolist(),
            "given_upper": self.upper.ravel().tolist(),
        }
        for name, counts in self.assigned.items():
            columns[f"assigned_{name}"] = counts.ravel().tolist()
            columns[f"difference_{name}"] = self.difference(name).ravel().tolist()
        return as_frame(columns, backend)

    def __str__(self) -> str:
        header = ["bag", "rows", *map(str, self.classes.tolist())]
        counts = self.assigned[self.decode]
        lines = [header]
        for k, bag in enumerate(self.ids[:SHOWN_ROWS]):
            totals = zip(self.lower[k], self.upper[k], counts[k], strict=True)
            cells = [f"{interval(lower, upper)} → {count}" for lower, upper, count in totals]
            lines.append([str(bag), str(self.sizes[k]), *cells])
        text = aligned(lines)
        if len(self.ids) > SHOWN_ROWS:
            text.append(f"… and {len(self.ids) - SHOWN_ROWS} more bags")
        text.append(f"given → assigned rows, decode={self.decode!r}")
        return "\n".join([*text, *self._summary()])

    def _summary(self) -> list[str]:
        return [
            f"{name}: {self.error(name):.1%} of the rows off their bag's totals, "
            f"{self.tied.get(name, 0)} rows decided by a tie-break"
            for name in self.assigned
        ]

    def _repr_html_(self) -> str:
        """Return a table for notebooks; totals that the labels miss by a row or more are bold."""
        names, n_shown = class_columns(self.classes.tolist())
        table = HTMLTable(
            f"Given → assigned rows, decode={self.decode!r}",
            ["bag", "rows", *names],
            [self._html_row(k, n_shown) for k in range(min(len(self.ids), SHOWN_ROWS))],
            n_left=max(len(self.ids) - SHOWN_ROWS, 0),
            row_word="bags",
            notes=self._summary(),
        )
        return str(table)

    def _html_row(self, k: int, n_shown: int) -> list[Any]:
        """Return the cells of a bag, one for each class that is shown."""
        cells: list[Any] = [self.ids[k], f"{self.sizes[k]:,}"]
        totals = zip(self.lower[k], self.upper[k], self.assigned[self.decode][k], strict=True)
        for lower, upper, count in list(totals)[:n_shown]:
            cell = f"{interval(lower, upper)} → {count}"
            cells.append(cell if lower - 1 < count < upper + 1 else Marked(cell))
        return [*cells, *["…"] * (len(self.classes) > n_shown)]


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of cells as text, with the cells of a column flush right.

    Examples
    --------
    >>> aligned([["bag", "rows"], ["a", "12"]])
    ['bag  rows', '  a    12']
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(map(str.rjust, line, widths)) for line in lines]


def as_frame(columns: dict[str, Any], backend: Literal["pandas", "polars", "pyarrow"]) -> Any:
    """Return a dataframe of some library.

    Parameters
    ----------
    columns : dict of str to list
        The columns.
    backend : {"pandas", "polars", "pyarrow"}
        The library of the dataframe.

    Returns
    -------
    dataframe
    """
    try:
        return nw.from_dict(columns, backend=backend).to_native()
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"to_frame(backend={backend!r}) needs {backend}: install apportion[{backend}]."
        ) from error


def report_bags(bags: Bags, decodings: dict[str, Decoding], decode: str) -> BagReport:
    """Return the report of matched bags for the labels of each decoding.

    Parameters
    ----------
    bags : Bags
        The bags, matched with rows.
    decodings : dict of str to Decoding
        The labels of each decoding.
    decode : str
        The decoding in use.

    Returns
    -------
    BagReport
        The report.
    """
    one_hot = np.eye(bags.n_classes)
    return BagReport(
        ids=bags.ids,
        classes=bags.classes,
        sizes=bags.groups.sizes.astype(np.intp),
        lower=bags.lower,
        upper=bags.upper,
        assigned={
            name: np.rint(bags.groups.sum(one_hot[labels])).astype(np.intp)
            for name, (labels, _) in decodings.items()
        },
        decode=decode,
        tied={name: int(tied.sum()) for name, (_, tied) in decodings.items()},
    )


def joined_reports(reports: Sequence[BagReport]) -> BagReport:
    """Join reports of different bags over the same classes.

    Parameters
    ----------
    reports : sequence of BagReport
        The reports.

    Returns
    -------
    BagReport
        One report of all bags.
    """
    first = reports[0]
    return BagReport(
        ids=tuple(bag for report in reports for bag in report.ids),
        classes=first.classes,
        sizes=np.concatenate([report.sizes for report in reports]),
        lower=np.vstack([report.lower for report in reports]),
        upper=np.vstack([report.upper for report in reports]),
        assigned={
            name: np.vstack([report.assigned[name] for report in reports])
            for name in first.assigned
        },
        decode=first.decode,
        tied={name: sum(report.tied[name] for report in reports) for name in first.tied},
    )


def _of_one_type(items: Sequence[Any]) -> list[Any]:
    """Return the items, as text if a column could not hold them otherwise."""
    types = {type(item) for item in items}
    return list(items) if len(types) == 1 and tuple not in types else [str(item) for item in items]
