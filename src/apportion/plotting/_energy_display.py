"""The energy during the iterations."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from apportion._core.descent import Status
from apportion._utils.typing import FloatArray
from apportion.exceptions import counted
from apportion.plotting._drawing import Display, fitted
from apportion.plotting._palette import class_styles

_MOST_MARKERS = 60
"""Up to this number of points have a marker."""


class EnergyDisplay(Display):
    """Plot of the energy above its minimum against the iteration.

    The minimum itself is not shown, because the scale is logarithmic. It is recommended to use
    `from_estimator` to create the display.

    Parameters
    ----------
    energies : ndarray of shape (n_iter + 1,)
        The energy at the start and after every iteration.
    status : Status
        The status of the solver at the end.

    Attributes
    ----------
    line_ : Line2D
        The line.
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
    >>> EnergyDisplay.from_estimator(model).ax_.get_title(loc="left")
    'converged after ... iterations'
    """

    line_: Any

    def __init__(self, energies: FloatArray, status: Status) -> None:
        self.energies = energies
        self.status = status

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> Self:
        """Plot the energy of a fitted model.

        Parameters
        ----------
        model : LPLLP
            A fitted LPLLP, or a pipeline or search that ends in one.
        ax : Axes, optional
            The axes to draw on; by default those of a new figure.

        Returns
        -------
        EnergyDisplay
        """
        solution = fitted(model, "solution_").solution_
        return cls(solution.energies, solution.status).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the line.

        Parameters
        ----------
        ax : Axes, optional
            The axes to draw on; by default those of a new figure.

        Returns
        -------
        EnergyDisplay
            This display.
        """
        self._set_axes(ax, 7.0, 4.0, grid="both")
        energies = np.asarray(self.energies, dtype=np.float64)
        above = energies - energies.min()
        iteration = np.flatnonzero(above > 0)
        (self.line_,) = self.ax_.plot(
            iteration,
            above[iteration],
            color=class_styles(1)[0].color,
            marker="o" if len(iteration) <= _MOST_MARKERS else "",
            markersize=3.5,
            linewidth=1.3,
        )
        if iteration.size:
            self.ax_.set_yscale("log")
        self.ax_.set_xlim(-0.02 * len(energies), 1.02 * max(len(energies) - 1, 1))
        self.ax_.xaxis.get_major_locator().set_params(integer=True)
        self.ax_.set_xlabel("iteration", fontsize=9)
        self.ax_.set_ylabel("energy above the lowest", fontsize=9)
        outcome = self.status.value.partition(":")[0]  # what to do about it follows the colon
        title = f"{outcome} after {counted(len(energies) - 1, 'iteration')}"
        self.ax_.set_title(title, fontsize=10, loc="left")
        return self
