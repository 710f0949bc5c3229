"""The soft label of every row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.exceptions import InputError, counted
from apportion.plotting._drawing import Display, class_fills, fitted_labels

_MOST_COLUMNS = 400


class SoftLabelsDisplay(Display):
    """Plot of the mass of every class in every row.

    Rows are sorted by label, then by confidence. The mass of a row's own label is at the bottom,
    so that its height is the confidence of the label. If there are too many rows, adjacent rows
    with the same label are averaged. It is recommended to use `from_estimator` to create the
    display.

    Parameters
    ----------
    distributions : ndarray of shape (n_samples, n_classes)
        Soft labels.
    labels : ndarray of shape (n_samples,)
        Labels, as positions of classes.
    classes : array-like of shape (n_classes,)
        The names of the classes.

    Attributes
    ----------
    edges_ : ndarray of shape (n_columns + 1,)
        The edges of the columns of the plot, in numbers of sorted rows.
    masses_ : ndarray of shape (n_columns, n_classes)
        The mean masses of the rows of each column.
    areas_ : list of PolyCollection
        The area of each class.
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
    >>> display = SoftLabelsDisplay.from_estimator(model)
    >>> display.masses_.shape, len(display.areas_)
    ((178, 3), 3)
    """

    edges_: IntArray
    masses_: FloatArray
    areas_: list[Any]

    def __init__(
        self, distributions: FloatArray, labels: IntArray, classes: Sequence[Any] | AnyArray
    ) -> None:
        self.distributions = distributions
        self.labels = labels
        self.classes = classes

    @classmethod
    def from_estimator(
        cls, model: Any, *, most_columns: int = _MOST_COLUMNS, ax: Any = None
    ) -> Self:
        """Plot the soft labels of the rows of a fitted model.

        Parameters
        ----------
        model : estimator
            A fitted estimator, or a pipeline or search that ends in one.
        most_columns, ax
            As in `plot`.

        Returns
        -------
        SoftLabelsDisplay
        """
        classes, codes, distributions = fitted_labels(model)
        return cls(distributions, codes, classes).plot(ax, most_columns=most_columns)

    def plot(self, ax: Any = None, *, most_columns: int = _MOST_COLUMNS) -> Self:
        """Draw the masses.

        Parameters
        ----------
        ax : Axes, optional
            The axes to draw on; by default those of a new figure.
        most_columns : int, default=400
            If there are more rows than this, adjacent rows are averaged.

        Returns
        -------
        SoftLabelsDisplay
            This display.
        """
        n, c = self.distributions.shape
        if len(self.labels) != n or len(self.classes) != c:
            raise InputError(
                "the soft labels",
                f"{counted(n, 'row')} of {counted(c, 'mass')}, {counted(len(self.labels), 'label')}"
                f" and {counted(len(self.classes), 'class')}",
                "one label per row, and one class per mass",
                "pass those of one model",
            )
        n_averaged = max(1, -(-n // most_columns))
        label = self._average(n_averaged)
        self._set_axes(ax, 9.0, 4.0)
        tops = _stacked(self.masses_, label)
        fills = class_fills(c)
        # The last step is repeated, because there is one edge more than there are columns.
        last = np.minimum(np.arange(len(label) + 1), len(label) - 1)
        self.areas_ = [
            self.ax_.fill_between(
                self.edges_, (tops - self.masses_)[last, h], tops[last, h], step="post", **fill
            )
            for h, fill in enumerate(fills)
        ]
        borders = self.edges_[1:-1][np.diff(label) != 0]
        self.ax_.vlines(borders, 0.0, 1.0, color="white", linewidth=2.0)
        self.ax_.set(xlim=(0, n), ylim=(0.0, 1.0))
        xlabel = "rows, sorted by label, then by confidence"
        if n_averaged > 1:
            xlabel += f" (means of up to {n_averaged:,} neighbors)"
        self.ax_.set_xlabel(xlabel, fontsize=9)
        self.ax_.set_ylabel("mass, the row's label at the bottom", fontsize=9)
        self._add_legend(self.classes, fills)
        return self

    def _average(self, n_averaged: int) -> IntArray:
        """Store means over adjacent rows with one label, and return the label of each column."""
        n = len(self.labels)
        confidence = self.distributions[np.arange(n), self.labels]
        order = np.lexsort([-confidence, self.labels])
        sorted_labels = self.labels[order]
        within = np.arange(n) - np.searchsorted(sorted_labels, sorted_labels)
        first = np.flatnonzero(within % n_averaged == 0)
        self.edges_ = np.append(first, n)
        sums = np.add.reduceat(self.distributions[order], first, axis=0)
        self.masses_ = sums / np.diff(self.edges_)[:, None]
        return np.asarray(sorted_labels[first])


def _stacked(masses: FloatArray, label: IntArray) -> FloatArray:
    """Return the upper end of the mass of each class, stacked with the own label at the bottom."""
    order = np.argsort(np.arange(masses.shape[1]) != label[:, None], axis=1, kind="stable")
    heights = np.cumsum(np.take_along_axis(masses, order, axis=1), axis=1)
    tops = np.empty_like(heights)
    np.put_along_axis(tops, order, heights, axis=1)
    return tops
