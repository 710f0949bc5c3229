"""What all displays share: axes, names, the fill of a class, the legend, the fitted model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.exceptions import InputError
from apportion.plotting._palette import NO_LABEL, class_styles

Grid = Literal["both", "x"] | None

LITERAL: dict[str, Any] = {"parse_math": False, "usetex": False}
"""Properties of a text that may contain any character, such as `$` and `_`."""

GRAY = "#555555"
PALE_GRAY = "#F1F1F1"
NO_LABEL_FILL = {"facecolor": NO_LABEL, "edgecolor": GRAY, "hatch": "", "linewidth": 0.6}

_LONGEST_NAME = 32
_LEGEND_LINE = 0.24
"""The height of a line of the legend, in inches."""


class Display:
    """Base class of the displays: axes in one style, and a legend beside them.

    Attributes
    ----------
    ax_ : Axes
        The axes with the plot.
    figure_ : Figure
        The figure that contains the axes.
    legend_ : Legend
        The legend, if there is one.
    """

    ax_: Any
    figure_: Any
    legend_: Any

    def _set_axes(
        self, ax: Any, width: float, height: float, n_classes: int = 0, grid: Grid = None
    ) -> None:
        """Use the given axes, or those of a new figure.

        The figure has this width and height in inches, or more height if the legend of so many
        classes needs it. A long legend has several columns.
        """
        try:
            from matplotlib.axes import Axes
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("Plots need matplotlib: install apportion[plot].") from error
        if ax is None:
            from matplotlib import pyplot

            height = max(height, min(1.0 + _LEGEND_LINE * (n_classes + 2), 4.5), 2.5)
            ax = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
        if not isinstance(ax, Axes):
            found = f"an object of type {type(ax).__name__}"
            raise InputError("", found, "Axes of matplotlib, or None", "pass Axes", parameter="ax")
        self.ax_, self.figure_ = ax, ax.figure
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=9)
        if grid is not None:
            ax.grid(axis=grid, color="#DDDDDD", linewidth=0.6)
            ax.set_axisbelow(True)

    def _add_legend(
        self,
        names: Iterable[Any],
        fills: Sequence[dict[str, Any]] = (),
        title: str = "",
        handles: Sequence[Any] = (),
    ) -> None:
        """Add a legend to the right of the axes, with one fill or one drawn handle per name."""
        from matplotlib.patches import Patch

        handles = handles or [Patch(**fill) for fill in fills]
        height = self.ax_.get_window_extent().height / self.figure_.dpi
        lines = max(int(height / _LEGEND_LINE) - bool(title), 4)
        self.legend_ = self.ax_.legend(
            handles,
            [str(k) for k in range(len(handles))],
            title=title,
            loc="upper left",
            bbox_to_anchor=(1.0, 1.0),
            borderaxespad=0.6,
            ncols=math.ceil(len(handles) / lines),
            frameon=False,
            fontsize=9,
            title_fontsize=9,
            alignment="left",
            handlelength=1.9,
            handleheight=1.2,
        )
        for text, name in zip(self.legend_.get_texts(), names, strict=True):
            text.set(text=short_name(name), **LITERAL)
        figure, box = self.figure_, self.ax_.get_position()
        if figure.get_layout_engine() is None:  # which would make room for legend and tick labels
            total = figure.bbox.width
            right = (self.legend_.get_window_extent().width + 0.1 * figure.dpi) / total
            left = max(0.0, 0.01 - (self.ax_.yaxis.get_tightbbox().x0 - figure.bbox.x0) / total)
            width = max(box.width - left - right, 0.2 * box.width)
            self.ax_.set_position((box.x0 + left, box.y0, width, box.height))


def short_name(name: Any) -> str:
    r"""Return a name in one line of printable characters, shortened if it is long.

    Examples
    --------
    >>> short_name("a_$b$"), short_name("two\nlines"), len(short_name("long" * 20))
    ('a_$b$', 'two lines', 32)
    """
    text = "".join(character if character.isprintable() else " " for character in str(name))
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


def class_fills(n_classes: int, *, pale: bool = False) -> list[dict[str, Any]]:
    """Return how the areas of each class are filled: a color, and a pattern in another shade."""
    from matplotlib.colors import to_rgb

    fills = []
    for style in class_styles(n_classes):
        color = np.array(to_rgb(style.color))
        brightness = color @ [0.299, 0.587, 0.114]  # luma of ITU-R BT.601
        face, lines = color, (1.0 - 0.55) * color + 0.55 * (brightness < 0.5)  # white or black
        if pale:
            face, lines = (1.0 - 0.7) * color + 0.7, color
        fill = {"facecolor": face, "edgecolor": lines, "hatch": style.hatch, "linewidth": 0}
        fills.append(fill)
    return fills


def fitted(model: Any, *attributes: str, such_as: str = "an LPLLP") -> Any:
    """Return the fitted estimator with the attributes, which may be in a pipeline or a search."""
    while not all(hasattr(model, name) for name in attributes):
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif hasattr(model, "steps"):
            model = model[-1]
        else:
            break
    check_is_fitted(model)
    for name in attributes:
        if not hasattr(model, name):
            raise InputError(
                "",
                f"{type(model).__name__} without `{name}`",
                "a fitted estimator that has it",
                f"fit {such_as}, and plot it before it is saved",
                parameter="model",
            )
    return model


def fitted_labels(model: Any) -> tuple[AnyArray, IntArray, FloatArray]:
    """Return the classes, the label of each row as a position, and the soft labels."""
    model = fitted(model, "classes_", "transduction_", "label_distributions_")
    positions = {label: h for h, label in enumerate(model.classes_.tolist())}
    codes = np.array([positions[label] for label in model.transduction_.tolist()], dtype=np.intp)
    return model.classes_, codes, model.label_distributions_
