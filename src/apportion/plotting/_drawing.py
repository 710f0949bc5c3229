"""What all displays share: axes, names, the fill of a class, the legend, the fitted model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.exceptions import InputError
from apportion.plotting._palette import NO_LABEL, ClassStyle, class_styles

LITERAL: dict[str, Any] = {"parse_math": False, "usetex": False}
"""Properties of a text that may contain any character, such as `$` and `_`."""

GRAY = "#555555"
PALE_GRAY = "#F1F1F1"
NO_LABEL_FILL = {"facecolor": NO_LABEL, "edgecolor": GRAY, "hatch": "", "linewidth": 0.6}

_LONGEST_NAME = 32
_LEGEND_LINE = 0.24
"""The height of a line of the legend, in inches."""


def axes_for(ax: Any, width: float, height: float) -> Any:
    """Return the given axes, or those of a new figure with this width and height in inches."""
    try:
        from matplotlib.axes import Axes
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("Plots need matplotlib: install apportion[plot].") from error
    if ax is None:
        from matplotlib import pyplot

        return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    if not isinstance(ax, Axes):
        kind = f"an object of type {type(ax).__name__}"
        raise InputError("", kind, "matplotlib's Axes, or None", "pass one Axes", parameter="ax")
    return ax


def short_name(name: Any) -> str:
    r"""Return a name in one line of printable characters, shortened if it is long.

    Examples
    --------
    >>> short_name("a_$b$"), short_name("two\nlines"), len(short_name("long" * 20))
    ('a_$b$', 'two lines', 32)
    """
    text = "".join(character if character.isprintable() else " " for character in str(name))
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


def fill_of(style: ClassStyle, *, pale: bool = False) -> dict[str, Any]:
    """Return how the areas of a class are filled: its color, and its pattern in another shade."""
    from matplotlib.colors import to_rgb

    color = np.array(to_rgb(style.color))
    brightness = color @ [0.299, 0.587, 0.114]  # luma of ITU-R BT.601
    face = (1.0 - 0.7) * color + 0.7 if pale else color  # 70 % white
    lines = color if pale else (1.0 - 0.55) * color + 0.55 * (brightness < 0.5)  # white or black
    return {"facecolor": face, "edgecolor": lines, "hatch": style.hatch, "linewidth": 0}


def class_fills(n_classes: int) -> list[dict[str, Any]]:
    """Return the fill of every class."""
    return [fill_of(style) for style in class_styles(n_classes)]


def add_legend(
    ax: Any, names: Iterable[Any], fills: Sequence[dict[str, Any]], title: str = ""
) -> Any:
    """Add a legend to the right of the axes, one fill per name, and return it."""
    from matplotlib.patches import Patch

    height = ax.get_window_extent().height / ax.figure.dpi
    lines = max(int(height / _LEGEND_LINE) - bool(title), 4)
    legend = ax.legend(
        [Patch(**fill) for fill in fills],
        [str(k) for k in range(len(fills))],
        title=title,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        borderaxespad=0.6,
        ncols=math.ceil(len(fills) / lines),
        frameon=False,
        fontsize=9,
        title_fontsize=9,
        alignment="left",
        handlelength=1.9,
        handleheight=1.2,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set(text=short_name(name), **LITERAL)
    _make_room(ax, legend)
    return legend


def legend_height(n_classes: int) -> float:
    """Return the height in inches that a figure needs for its legend; long ones have columns."""
    return min(max(2.5, 1.0 + _LEGEND_LINE * (n_classes + 2)), 4.5)


def tidy(ax: Any, grid: str = "") -> None:
    """Remove the spines that carry no information, and draw grid lines across some axes."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=9)
    if grid:
        ax.grid(axis=grid, color="#DDDDDD", linewidth=0.6)
        ax.set_axisbelow(True)


def fitted(model: Any, *attributes: str) -> Any:
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
                "fit an LPLLP, and plot it before it is saved",
                parameter="model",
            )
    return model


def fitted_labels(model: Any) -> tuple[AnyArray, IntArray, FloatArray]:
    """Return the classes, the label of each row as a position, and the soft labels."""
    model = fitted(model, "classes_", "transduction_", "label_distributions_")
    positions = {label: h for h, label in enumerate(model.classes_.tolist())}
    codes = np.array([positions[label] for label in model.transduction_.tolist()], dtype=np.intp)
    return model.classes_, codes, model.label_distributions_


def _make_room(ax: Any, legend: Any) -> None:
    """Narrow the axes so that legend and tick labels fit, if the figure has no layout engine."""
    figure = ax.get_figure()
    if figure.get_layout_engine() is not None:
        return
    total = figure.bbox.width
    right = (legend.get_window_extent().width + 0.1 * figure.dpi) / total
    left = max(0.0, 0.01 - (ax.yaxis.get_tightbbox().x0 - figure.bbox.x0) / total)
    box = ax.get_position()
    width = max(box.width - left - right, 0.2 * box.width)
    ax.set_position((box.x0 + left, box.y0, width, box.height))
