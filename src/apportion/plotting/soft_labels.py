"""Soft labels, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.exceptions import InputError, counted
from apportion.plotting._palette import looks
from apportion.plotting.drawing import add_legend, axes_for, fitted_labels, paint, shown, tidy

_MOST_COLUMNS = 400


class SoftLabelsDisplay:
    """The mass of every class in every row.

    Rows are sorted by label, then by confidence. The mass of a row's label lies at the bottom, so
    that its height is the label's confidence. Of more rows than fit, neighbors with the same label
    are averaged.

    Create it by `from_estimator`.

    Parameters
    ----------
    distributions : array of shape (n_samples, n_classes)
        Soft labels.
    labels : array of shape (n_samples,)
        Labels, as positions of classes.
    classes : array-like of shape (n_classes,)
        The names of the classes.

    Attributes
    ----------
    edges_ : ndarray of shape (n_columns + 1,)
        Where the columns of the picture begin and end, counted in sorted rows.
    masses_ : ndarray of shape (n_columns, n_classes)
        The mean masses of each column's rows.
    areas_ : list of PolyCollection
        The area of each class.
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
    >>> display = SoftLabelsDisplay.from_estimator(model)
    >>> display.masses_.shape, len(display.areas_)
    ((178, 3), 3)
    """

    edges_: IntArray
    masses_: FloatArray
    areas_: list[Any]
    legend_: Any
    ax_: Any
    figure_: Any

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
        """Plot the soft labels of a fitted model's rows.

        Parameters
        ----------
        model : estimator
            A fitted estimator; a pipeline or a search that ends in one.
        most_columns, ax
            As in `plot`.

        Returns
        -------
        SoftLabelsDisplay
        """
        classes, labels, F = fitted_labels(model)
        return cls(F, labels, classes).plot(ax, most_columns=most_columns)

    def plot(self, ax: Any = None, *, most_columns: int = _MOST_COLUMNS) -> Self:
        """Draw the masses.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default on a new figure.
        most_columns : int, default=400
            Of more rows than this, neighbors are averaged.

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
                "a label for each row, and a class for each mass",
                "pass those of one model",
            )
        together = max(1, -(-n // most_columns))
        own = self._average(together)
        self.ax_ = axes_for(ax, 9.0, 4.0)
        self.figure_ = self.ax_.figure
        tops = _stacked(self.masses_, own)
        self.areas_ = [
            self.ax_.fill_between(
                self.edges_,
                _to_the_end(tops[:, h] - self.masses_[:, h]),
                _to_the_end(tops[:, h]),
                step="post",
                **paint(look),
            )
            for h, look in enumerate(looks(c))
        ]
        borders = self.edges_[1:-1][np.diff(own) != 0]
        self.ax_.vlines(borders, 0.0, 1.0, color="white", linewidth=2.0)
        self.ax_.set(xlim=(0, n), ylim=(0.0, 1.0))
        tidy(self.ax_)
        words = "rows, sorted by label, then by confidence"
        if together > 1:
            words += f" (means of up to {together:,} neighbors)"
        self.ax_.set_xlabel(words, fontsize=9)
        self.ax_.set_ylabel("mass, the row's label at the bottom", fontsize=9)
        names = [shown(name) for name in self.classes]
        self.legend_ = add_legend(self.ax_, names, [paint(look) for look in looks(c)])
        return self

    def _average(self, together: int) -> IntArray:
        """Keep the means of so many neighbors of one label; return the label of each column."""
        n = len(self.labels)
        confidence = self.distributions[np.arange(n), self.labels]
        order = np.lexsort([-confidence, self.labels])
        sorted_labels = self.labels[order]
        within = np.arange(n) - np.searchsorted(sorted_labels, sorted_labels)
        first = np.flatnonzero(within % together == 0)
        self.edges_ = np.append(first, n)
        sums = np.add.reduceat(self.distributions[order], first, axis=0)
        self.masses_ = sums / np.diff(self.edges_)[:, None]
        return np.asarray(sorted_labels[first])


def _stacked(masses: FloatArray, own: IntArray) -> FloatArray:
    """Return where each class's mass ends, stacked upon those before it, the label's own first."""
    order = np.argsort(np.arange(masses.shape[1]) != own[:, None], axis=1, kind="stable")
    heights = np.cumsum(np.take_along_axis(masses, order, axis=1), axis=1)
    tops = np.empty_like(heights)
    np.put_along_axis(tops, order, heights, axis=1)
    return tops


def _to_the_end(steps: FloatArray) -> FloatArray:
    return np.append(steps, steps[-1])
