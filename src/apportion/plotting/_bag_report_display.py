"""Given and assigned totals, one pair of bars per bag."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from apportion._utils.typing import FloatArray
from apportion.bag_report import BagReport
from apportion.exceptions import InputError, counted
from apportion.metrics import rows_to_change
from apportion.plotting._drawing import GRAY, LITERAL, Display, class_fills, fitted, short_name

_MOST_BAGS = 30
_THICKNESS, _OFFSET = 0.34, 0.19
_NEGLIGIBLE = 0.05
"""Totals are often fractions of a row; smaller deviations are not mentioned."""


class BagReportDisplay(Display):
    """Plot of the given totals above the assigned ones, for every bag.

    If totals are intervals, the solid part of a class is its lower bound. What the lower bounds
    leave open is pale, and divided in proportion to the widths of the intervals, so that every bar
    is as long as its bag has rows. The text behind the bars is the number of rows that would have
    to change class to meet the totals. It is recommended to use `from_estimator` or `from_report`
    to create the display.

    Parameters
    ----------
    report : BagReport
        Given and assigned totals.

    Attributes
    ----------
    bags_ : ndarray of shape (n_shown,)
        The bags that are shown, as positions in the report, from top to bottom.
    given_, open_, assigned_ : list of BarContainer
        For each class, the bars of its lower bounds, of what these leave open, and of the rows
        with its label.
    legend_ : Legend
        The legend.
    ax_ : Axes
        The axes with the plot.
    figure_ : Figure
        The figure that contains the axes.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from apportion import LPLLP
    >>> from apportion.datasets import make_bags
    >>> X, grower = load_wine(return_X_y=True)
    >>> crates, totals = make_bags(X, grower, n_bags=6, random_state=0)
    >>> model = LPLLP(random_state=0).fit(scale(X), bags=crates, proportions=totals)
    >>> display = BagReportDisplay.from_estimator(model)
    >>> [int(bar.get_width()) for bar in display.assigned_[0]]
    [13, 9, 13, 10, 8, 6]
    """

    bags_: Any
    given_: list[Any]
    open_: list[Any]
    assigned_: list[Any]

    def __init__(self, report: BagReport) -> None:
        self.report = report

    @classmethod
    def from_estimator(
        cls, model: Any, *, decode: str | None = None, most_bags: int = _MOST_BAGS, ax: Any = None
    ) -> Self:
        """Plot the bags of a fitted model.

        Parameters
        ----------
        model : estimator
            A fitted estimator, or a pipeline or search that ends in one.
        decode, most_bags, ax
            As in `plot`.

        Returns
        -------
        BagReportDisplay
        """
        report = fitted(model, "bag_report_").bag_report_
        return cls(report).plot(ax, decode=decode, most_bags=most_bags)

    @classmethod
    def from_report(
        cls,
        report: BagReport,
        *,
        decode: str | None = None,
        most_bags: int = _MOST_BAGS,
        ax: Any = None,
    ) -> Self:
        """Plot the bags of a report.

        Parameters
        ----------
        report : BagReport
            Given and assigned totals.
        decode, most_bags, ax
            As in `plot`.

        Returns
        -------
        BagReportDisplay
        """
        return cls(report).plot(ax, decode=decode, most_bags=most_bags)

    def plot(
        self, ax: Any = None, *, decode: str | None = None, most_bags: int = _MOST_BAGS
    ) -> Self:
        """Draw two bars per bag.

        Parameters
        ----------
        ax : Axes, optional
            The axes to draw on; by default those of a new figure.
        decode : {"quota", "threshold"}, optional
            The decoding of the labels; by default the one in use.
        most_bags : int, default=30
            If there are more bags, those that deviate most from their totals are shown.

        Returns
        -------
        BagReportDisplay
            This display.
        """
        report = self.report
        decode = report.decode if decode is None else decode
        if decode not in report.assigned:
            allowed = f"one of {', '.join(report.assigned)}"
            raise InputError("", repr(decode), allowed, "correct it", parameter="decode")
        if not report.ids:
            raise InputError("the report", "no bag", "at least one bag", "fit with bags and totals")
        off = rows_to_change(report.difference(decode))
        n_bags, n_classes = report.lower.shape
        self.bags_ = np.arange(n_bags)
        if n_bags > most_bags:
            self.bags_ = np.argsort(-off, kind="stable")[:most_bags]
        self._set_axes(ax, 9.0, 1.3 + 0.42 * len(self.bags_), n_classes, grid="x")
        self._draw_bars(decode)
        self._name_bags(off[self.bags_])
        title = f"given against assigned: {report.error(decode):.1%} of the rows are off"
        if n_bags > most_bags:
            title += f"\n{most_bags} of {counted(n_bags, 'bag')}, those farthest off first"
        self.ax_.set_title(title, fontsize=10, loc="left")
        names, fills = list(report.classes), class_fills(n_classes)
        if any(bar.get_width() > _NEGLIGIBLE for bars in self.open_ for bar in bars):
            names.append("pale: left open")
            fills += class_fills(1, pale=True)
        self._add_legend(names, fills)
        return self

    def _draw_bars(self, decode: str) -> None:
        report, bags = self.report, self.bags_
        lower, counts = report.lower[bags], report.assigned[decode][bags]
        left_open = _open_masses(lower, report.upper[bags], report.sizes[bags])
        given_ends, ends = np.cumsum(lower + left_open, axis=1), np.cumsum(counts, axis=1)
        rows = np.arange(len(lower))
        self.given_, self.open_, self.assigned_ = [], [], []
        solids, pales = (class_fills(lower.shape[1], pale=pale) for pale in (False, True))
        for h, (solid, pale) in enumerate(zip(solids, pales, strict=True)):
            start = given_ends[:, h] - lower[:, h] - left_open[:, h]
            for bars, y, width, left, fill in (
                (self.given_, rows - _OFFSET, lower[:, h], start, solid),
                (self.open_, rows - _OFFSET, left_open[:, h], start + lower[:, h], pale),
                (self.assigned_, rows + _OFFSET, counts[:, h], ends[:, h] - counts[:, h], solid),
            ):
                bars.append(self.ax_.barh(y, width, _THICKNESS, left, **fill))

    def _name_bags(self, off: FloatArray) -> None:
        ax, n = self.ax_, len(off)
        sizes = self.report.sizes[self.bags_]
        longest = float(max(sizes.max(), 1))
        names = [short_name(self.report.ids[k]) for k in self.bags_]
        ax.set_yticks(np.arange(n), names, **LITERAL)
        minor = np.repeat(np.arange(n), 2) + np.tile([-_OFFSET, _OFFSET], n)
        ax.set_yticks(minor, ["given", "assigned"] * n, minor=True)
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", which="both", length=0)
        ax.tick_params(axis="y", which="minor", labelsize=7, labelcolor=GRAY, pad=2)
        ax.tick_params(axis="y", which="major", pad=44)
        for y in np.flatnonzero(off > _NEGLIGIBLE):
            text = f"{off[y]:.1f}".removesuffix(".0") + " off"
            end = float(sizes[y]) + 0.01 * longest
            ax.text(end, y, text, fontsize=8, color=GRAY, verticalalignment="center")
        ax.set_ylim(n - 0.4, -0.6)
        ax.set_xlim(0.0, longest * (1.1 if (off > _NEGLIGIBLE).any() else 1.02))
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("rows", fontsize=9)


def _open_masses(lower: FloatArray, upper: FloatArray, sizes: Any) -> FloatArray:
    """Return what the lower bounds of each bag leave open, divided by the interval widths."""
    widths = np.maximum(upper - lower, 0.0)
    rest = np.maximum(sizes - lower.sum(axis=1), 0.0)[:, None]
    total = widths.sum(axis=1, keepdims=True)
    return np.asarray(rest * widths / np.where(total > 0, total, 1.0))
