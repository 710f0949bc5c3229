"""How the energy fell."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from apportion._core.descent import Status
from apportion._utils.typing import FloatArray
from apportion.exceptions import counted
from apportion.plotting._palette import looks
from apportion.plotting.drawing import axes_for, fitted, tidy

_FEW = 60
"""Up to so many points are marked."""


class EnergyDisplay:
    """The energy minus the lowest energy, against the iteration.

    The lowest point has no place on the logarithmic scale.

    Create it by `from_estimator`.

    Parameters
    ----------
    energies : array of shape (n_iter + 1,)
        The energy at the start and after every iteration.
    status : Status
        How the run ended.

    Attributes
    ----------
    line_ : Line2D
        The line.
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
    >>> EnergyDisplay.from_estimator(model).ax_.get_title(loc="left")
    'converged after ... iterations'
    """

    line_: Any
    ax_: Any
    figure_: Any

    def __init__(self, energies: FloatArray, status: Status) -> None:
        self.energies = energies
        self.status = status

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> Self:
        """Plot how the energy of a fitted model fell.

        Parameters
        ----------
        model : LPLLP
            A fitted LPLLP; a pipeline or a search that ends in one.
        ax : Axes, optional
            Where to draw; by default on a new figure.

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
            Where to draw; by default on a new figure.

        Returns
        -------
        EnergyDisplay
            This display.
        """
        self.ax_ = axes_for(ax, 7.0, 4.0)
        self.figure_ = self.ax_.figure
        energies = np.asarray(self.energies, dtype=np.float64)
        above = energies - energies.min()
        iteration = np.flatnonzero(above > 0)
        marked = len(iteration) <= _FEW
        (self.line_,) = self.ax_.plot(
            iteration,
            above[iteration],
            color=looks(1)[0].color,
            marker="o" if marked else "",
            markersize=3.5,
            linewidth=1.3,
        )
        if iteration.size:
            self.ax_.set_yscale("log")
        self.ax_.set_xlim(-0.02 * len(energies), 1.02 * max(len(energies) - 1, 1))
        self.ax_.xaxis.get_major_locator().set_params(integer=True)
        tidy(self.ax_)
        self.ax_.grid(color="#DDDDDD", linewidth=0.6)
        self.ax_.set_axisbelow(True)
        self.ax_.set_xlabel("iteration", fontsize=9)
        self.ax_.set_ylabel("energy above the lowest", fontsize=9)
        words = f"{_in_few_words(self.status)} after {counted(len(energies) - 1, 'iteration')}"
        self.ax_.set_title(words, fontsize=10, loc="left")
        return self


def _in_few_words(status: Status) -> str:
    """Return how a run ended, without what to do about it.

    Examples
    --------
    >>> _in_few_words(Status.CONVERGED), _in_few_words(Status.STALLED)
    ('converged', 'not converged')
    """
    return status.value.partition(":")[0]
