"""Given against assigned, bag by bag."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from apportion._utils.typing import FloatArray
from apportion.bag_report import BagReport
from apportion.exceptions import InputError, counted
from apportion.metrics import rows_to_change
from apportion.plotting._palette import Look, looks
from apportion.plotting.drawing import (
    GRAY,
    PLAIN,
    add_legend,
    axes_for,
    fitted,
    height_of_legend,
    paint,
    shown,
    tidy,
)

_MOST_BAGS = 30
_THICKNESS, _ASIDE = 0.34, 0.19
_HARDLY_OFF = 0.05
"""Totals are often fractions of a row: so little off is not worth a word."""


class BagReportDisplay:
    """Given totals above what the labels add up to, for every bag.

    Where the totals are intervals, a class has at least its solid part. What the lower bounds
    leave open is pale, and shared out in proportion to the widths of the intervals, so that every
    bar is as long as its bag has rows. How many rows would have to change class, because their
    bag has more or fewer than its totals allow, stands behind the bars.

    Create it by `from_estimator` or `from_report`.

    Parameters
    ----------
    report : BagReport
        Given against assigned.

    Attributes
    ----------
    bags_ : ndarray of shape (n_shown,)
        The bags that are shown, as positions in the report, from top to bottom.
    given_, open_, assigned_ : list of BarContainer
        For each class, the bars of its lower bounds, of what these leave open, and of the rows
        labeled so.
    legend_ : Legend
        The legend.
    ax_ : Axes
        The axes drawn on.
    figure_ : Figure
        The figure they belong to.

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
    legend_: Any
    ax_: Any
    figure_: Any

    def __init__(self, report: BagReport) -> None:
        self.report = report

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        decode: str | None = None,
        most_bags: int = _MOST_BAGS,
        ax: Any = None,
    ) -> Self:
        """Plot the bags of a fitted model.

        Parameters
        ----------
        model : estimator
            A fitted estimator; a pipeline or a search that ends in one.
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
            Given against assigned.
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
        """Draw two bars a bag.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default on a new figure.
        decode : {"quota", "threshold"}, optional
            Whose labels; by default those of the decoding in use.
        most_bags : int, default=30
            Of more bags than this, those farthest off their totals are shown.

        Returns
        -------
        BagReportDisplay
            This display.
        """
        report = self.report
        decode = report.decode if decode is None else decode
        if decode not in report.assigned:
            raise InputError(
                "`decode`", repr(decode), f"one of {', '.join(report.assigned)}", "correct it"
            )
        if not report.ids:
            raise InputError("the report", "no bag", "at least one bag", "fit with bags and totals")
        off = rows_to_change(report.difference(decode))
        some = len(off) > most_bags
        order = np.argsort(-off, kind="stable")[:most_bags] if some else np.arange(len(off))
        self.bags_ = order
        high = max(1.3 + 0.42 * len(order), height_of_legend(len(report.classes)))
        self.ax_ = axes_for(ax, 9.0, high)
        self.figure_ = self.ax_.figure
        styles = looks(len(report.classes))
        self._draw_bars(order, decode, styles)
        self._name_bags(order, off)
        title = f"given against assigned: {report.error(decode):.1%} of the rows are off"
        if some:
            title += f"\n{len(order)} of {counted(len(off), 'bag')}, those farthest off first"
        self.ax_.set_title(title, fontsize=10, loc="left")
        names, paints = self._legend_lines(styles)
        self.legend_ = add_legend(self.ax_, names, paints)
        return self

    def _draw_bars(self, order: Any, decode: str, styles: list[Look]) -> None:
        lower = self.report.lower[order]
        left_open = _shared_out(lower, self.report.upper[order], self.report.sizes[order])
        counts = self.report.assigned[decode][order]
        given_ends = np.cumsum(lower + left_open, axis=1)
        ends = np.cumsum(counts, axis=1)
        above, below = np.arange(len(order)) - _ASIDE, np.arange(len(order)) + _ASIDE
        self.given_, self.open_, self.assigned_ = [], [], []
        for h, look in enumerate(styles):
            begin = given_ends[:, h] - lower[:, h] - left_open[:, h]
            solid, pale = paint(look), paint(look, pale=True)
            self.given_.append(self.ax_.barh(above, lower[:, h], _THICKNESS, begin, **solid))
            self.open_.append(
                self.ax_.barh(above, left_open[:, h], _THICKNESS, begin + lower[:, h], **pale)
            )
            self.assigned_.append(
                self.ax_.barh(below, counts[:, h], _THICKNESS, ends[:, h] - counts[:, h], **solid)
            )

    def _name_bags(self, order: Any, off: FloatArray) -> None:
        ax, n = self.ax_, len(order)
        longest = float(max(self.report.sizes[order].max(), 1))
        ax.set_yticks(np.arange(n), [shown(self.report.ids[k]) for k in order], **PLAIN)
        aside = np.repeat(np.arange(n), 2) + np.tile([-_ASIDE, _ASIDE], n)
        ax.set_yticks(aside, ["given", "assigned"] * n, minor=True)
        tidy(ax)
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", which="both", length=0)
        ax.tick_params(axis="y", which="minor", labelsize=7, labelcolor=GRAY, pad=2)
        ax.tick_params(axis="y", which="major", pad=44)
        for place, k in enumerate(order):
            if off[k] > _HARDLY_OFF:
                end = float(self.report.sizes[k]) + 0.01 * longest
                words = f"{off[k]:.1f}".removesuffix(".0") + " off"
                ax.text(end, place, words, fontsize=8, color=GRAY, verticalalignment="center")
        ax.set_ylim(n - 0.4, -0.6)
        ax.set_xlim(0.0, longest * (1.1 if (off[order] > _HARDLY_OFF).any() else 1.02))
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.grid(axis="x", color="#DDDDDD", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.set_xlabel("rows", fontsize=9)

    def _legend_lines(self, styles: list[Look]) -> tuple[list[str], list[dict[str, Any]]]:
        names = [shown(name) for name in self.report.classes.tolist()]
        paints = [paint(look) for look in styles]
        if any(bar.get_width() > _HARDLY_OFF for bars in self.open_ for bar in bars):
            names.append("pale: left open")
            paints.append(paint(styles[0], pale=True))
        return names, paints


def _shared_out(lower: FloatArray, upper: FloatArray, sizes: Any) -> FloatArray:
    """Return what lower bounds leave open of each bag, by the widths of the intervals."""
    widths = np.maximum(upper - lower, 0.0)
    rest = np.maximum(sizes - lower.sum(axis=1), 0.0)[:, None]
    total = widths.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, rest * widths / np.where(total > 0, total, 1.0), 0.0))
