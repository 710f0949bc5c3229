"""Predicted against given totals of the bags that were held out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from apportion._utils.typing import AnyArray
from apportion.exceptions import InputError, counted
from apportion.plotting._drawing import GRAY, Display, fitted
from apportion.plotting._held_out import N_DEVIATIONS, HeldOutTotals, held_out_totals
from apportion.plotting._palette import class_styles

_MOST_POINTS = 2000


class CalibrationDisplay(Display):
    """Plot of predicted against given totals, one point per held-out bag and class.

    The predicted total of a class is the sum of its probabilities over the rows of a bag, by models
    that did not see the totals of that bag. Upright bars reach two standard deviations
    `√Σ p (1 - p)` up and down: about 95 % of them cross the diagonal if the probabilities are
    calibrated and rows err independently of each other. Level bars are intervals of given totals.
    It is recommended to use `from_estimator` to create the display.

    Parameters
    ----------
    totals : HeldOutTotals
        Predicted and given totals of the bags that were held out.
    classes : ndarray of shape (n_classes,)
        The classes.

    Attributes
    ----------
    totals_ : HeldOutTotals
        The totals that are drawn.
    diagonal_ : Line2D
        The line on which predicted and given totals are equal.
    points_ : list of ErrorbarContainer
        For each class, its points and bars.
    legend_ : Legend
        The legend.
    ax_ : Axes
        The axes with the plot.
    figure_ : Figure
        The figure that contains the axes.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from apportion import AutoLLP
    >>> from apportion.datasets import make_bags
    >>> X, grower = load_wine(return_X_y=True)
    >>> crates, totals = make_bags(X, grower, n_bags=12, random_state=0)
    >>> model = AutoLLP(["mean-map", "gp"], random_state=0)
    >>> model = model.fit(X, bags=crates, proportions=totals)
    >>> display = CalibrationDisplay.from_estimator(model)
    >>> display.totals_.predicted.shape, len(display.points_)
    ((12, 3), 3)
    """

    totals_: HeldOutTotals
    diagonal_: Any
    points_: list[Any]

    def __init__(self, totals: HeldOutTotals, classes: AnyArray) -> None:
        self.totals = totals
        self.classes = classes

    @classmethod
    def from_estimator(cls, model: Any, *, most_points: int = _MOST_POINTS, ax: Any = None) -> Self:
        """Plot the held-out bags of a fitted model.

        Parameters
        ----------
        model : AutoLLP, CalibratedLLP or another estimator with `held_out_proba_`
            A fitted estimator, or a pipeline or search that ends in one.
        most_points, ax
            As in `plot`.

        Returns
        -------
        CalibrationDisplay
        """
        attributes = ("held_out_proba_", "bag_report_", "bag_codes_")
        model = fitted(model, *attributes, such_as="an AutoLLP or CalibratedLLP")
        report, P = model.bag_report_, model.held_out_proba_
        if P is None:  # EMLLP that was not cross-fitted
            P = np.full_like(model.label_distributions_, np.nan)
        totals = held_out_totals(P, model.bag_codes_, report)
        return cls(totals, report.classes).plot(ax, most_points=most_points)

    def plot(self, ax: Any = None, *, most_points: int = _MOST_POINTS) -> Self:
        """Draw the points, and the line on which predicted and given totals are equal.

        Parameters
        ----------
        ax : Axes, optional
            The axes to draw on; by default those of a new figure.
        most_points : int, default=2000
            If there are more points, bags that spread evenly over the predicted totals are shown.

        Returns
        -------
        CalibrationDisplay
            This display.
        """
        if not self.totals.n_known:
            raise InputError(
                "the model",
                "no bag that was held out",
                "at least one bag with totals",
                "fit AutoLLP or CalibratedLLP to 5 bags or more",
            )
        self.totals_ = self.totals.thinned(most_points)
        self._set_axes(ax, 6.6, 5.0, len(self.classes), grid="both")
        self._draw_points()
        self._name_axes()
        self._add_legend(self.classes, handles=[points.lines[0] for points in self.points_])
        return self

    def _draw_points(self) -> None:
        totals, self.points_ = self.totals_, []
        given, spread = totals.given, N_DEVIATIONS * totals.deviation
        most = float(max(given[totals.known].max(), totals.predicted[totals.known].max(), 1.0))
        (self.diagonal_,) = self.ax_.plot([0.0, most], [0.0, most], color=GRAY, linewidth=1.0)
        for h, style in enumerate(class_styles(len(self.classes))):
            drawn = totals.known[:, h]
            x, y = given[drawn, h], totals.predicted[drawn, h]
            points = self.ax_.errorbar(
                x,
                y,
                # Probabilities cannot sum to less than no row.
                yerr=[np.minimum(spread[drawn, h], y), spread[drawn, h]],
                xerr=[x - totals.lower[drawn, h], totals.upper[drawn, h] - x],
                linestyle="none",
                marker=style.marker,
                markersize=5.0,
                color=style.color,
                markeredgecolor="black",
                markeredgewidth=0.5,
                elinewidth=0.7,
                zorder=3.0,
            )
            for bars in points.lines[2]:
                bars.set_alpha(0.5)
            self.points_.append(points)

    def _name_axes(self) -> None:
        totals, n_bags = self.totals_, len(self.totals.bags)
        ax = self.ax_
        ax.set_xlim(left=min(0.0, ax.get_xlim()[0]))
        ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
        ax.set_xlabel("given total (rows)", fontsize=9)
        ax.set_ylabel("predicted total ± 2 standard deviations", fontsize=9)
        title = (
            f"{self.totals.share_within:.0%} of the totals of {counted(n_bags, 'held-out bag')} "
            "are within\ntwo standard deviations of the predicted ones (about 95% expected)"
        )
        if len(totals.bags) < n_bags:
            title += f"\n{len(totals.bags)} of the bags are shown"
        ax.set_title(title, fontsize=10, loc="left")
