"""Given against assigned, bag by bag and class by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import narwhals.stable.v1 as nw
import numpy as np

from apportion._core.decode import Decoding
from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.metrics import rows_to_change
from apportion.supervision.bags import Bags

_SHOWN = 12


@dataclass(frozen=True)
class BagReport:
    """The bags' given totals beside what the labels add up to.

    Attributes
    ----------
    ids : tuple
        The bags.
    classes : ndarray of shape (n_classes,)
        The classes.
    sizes : ndarray of shape (n_bags,)
        Rows in each bag.
    lower, upper : ndarray of shape (n_bags, n_classes)
        Given class masses; equal where the total is exact.
    assigned : dict of str to ndarray of shape (n_bags, n_classes)
        How many rows each decoding labels with each class.
    decode : str
        The decoding in use.
    tied : dict of str to int
        How many rows' labels only a tie-break decided.
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
        """Return assigned minus given per bag and class, intervals from their nearer end."""
        counts = self.assigned[self.decode if decode is None else decode]
        return np.asarray(counts - np.clip(counts, self.lower, self.upper))

    def error(self, decode: str | None = None) -> float:
        """Return the share of bagged rows that would have to change class to meet the totals."""
        return float(rows_to_change(self.difference(decode)).sum() / max(int(self.sizes.sum()), 1))

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Return one line per bag and class, as a dataframe of pandas, polars or pyarrow."""
        K, c = self.lower.shape
        columns: dict[str, Any] = {
            "bag": [bag for bag in _of_one_kind(self.ids) for _ in range(c)],
            "class": _of_one_kind(self.classes.tolist()) * K,
            "rows": np.repeat(self.sizes, c).tolist(),
            "given_lower": self.lower.ravel().tolist(),
            "given_upper": self.upper.ravel().tolist(),
        }
        for name, counts in self.assigned.items():
            columns[f"assigned_{name}"] = counts.ravel().tolist()
            columns[f"difference_{name}"] = self.difference(name).ravel().tolist()
        try:
            return nw.from_dict(columns, backend=backend).to_native()
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"to_frame(backend={backend!r}) needs {backend}: install apportion[{backend}]."
            ) from error

    def __str__(self) -> str:
        header = ["bag", "rows", *(str(label) for label in self.classes.tolist())]
        counts = self.assigned[self.decode]
        lines = [header]
        for k in range(min(len(self.ids), _SHOWN)):
            cells = [
                f"{_span(self.lower[k, h], self.upper[k, h])} → {counts[k, h]}"
                for h in range(len(self.classes))
            ]
            lines.append([str(self.ids[k]), str(self.sizes[k]), *cells])
        widths = [max(len(line[j]) for line in lines) for j in range(len(header))]
        text = [
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
            for line in lines
        ]
        if len(self.ids) > _SHOWN:
            text.append(f"… and {len(self.ids) - _SHOWN} more bags")
        text.append(f"given → assigned rows, decode={self.decode!r}")
        summary = [
            f"{name}: {self.error(name):.1%} of the rows off their bag's totals, "
            f"{self.tied.get(name, 0)} rows decided by a tie-break"
            for name in self.assigned
        ]
        return "\n".join([*text, *summary])


def report_bags(bags: Bags, decodings: dict[str, Decoding], decode: str) -> BagReport:
    """Return the report of matched bags and the labels that each decoding gives."""
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
    """Return one report of bags that were reported apart, over the same classes."""
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


def _of_one_kind(items: Sequence[Any]) -> list[Any]:
    """Return the items as they are, or as text where a column could not hold them all."""
    kinds = {type(item) for item in items}
    return list(items) if len(kinds) == 1 and tuple not in kinds else [str(item) for item in items]


def _span(lower: float, upper: float) -> str:
    return f"{upper:g}" if upper - lower <= 1e-9 else f"{lower:g}…{upper:g}"
