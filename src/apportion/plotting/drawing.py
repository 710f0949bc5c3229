"""What all plots share: axes, names that stay text, the paint of a class, a legend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.exceptions import InputError
from apportion.plotting._palette import NO_LABEL, Look

PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}
"""Settings of a text that may hold any sign, such as `$` and `_`."""

GRAY = "#555555"
PALE_GRAY = "#F1F1F1"

_LONGEST_NAME = 32
_LEGEND_LINE = 0.24
"""The height of a line of the legend, in inches."""


def axes_for(ax: Any, width: float, height: float) -> Any:
    """Return the axes to draw on: those given, or those of a new figure of so many inches."""
    try:
        from matplotlib.axes import Axes
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("Plots need matplotlib: install apportion[plot].") from error
    if ax is None:
        from matplotlib import pyplot

        return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise InputError(
            "`ax`",
            f"an object of type {type(ax).__name__}",
            "matplotlib's Axes, or None",
            "pass one of the axes",
        )
    return ax


def shown(name: Any) -> str:
    r"""Return a name in one line of print, shortened where it is long.

    Examples
    --------
    >>> shown("a_$b$"), shown("two\nlines"), len(shown("long" * 20))
    ('a_$b$', 'two lines', 32)
    """
    text = "".join(sign if sign.isprintable() else " " for sign in str(name))
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


def paint(look: Look, *, pale: bool = False) -> dict[str, Any]:
    """Return how a class's areas are filled: its color, and its pattern in another shade."""
    color = _parts(look.color)
    face = _mixed(color, 1.0, 0.7) if pale else color
    lines = color if pale else _mixed(color, float(_brightness(color) < 0.5), 0.55)
    return {"facecolor": face, "edgecolor": lines, "hatch": look.hatch, "linewidth": 0}


def blank() -> dict[str, Any]:
    """Return how areas without a label are filled."""
    return {"facecolor": NO_LABEL, "edgecolor": GRAY, "hatch": "", "linewidth": 0.6}


def add_legend(
    ax: Any, names: Sequence[str], paints: Sequence[dict[str, Any]], title: str = ""
) -> Any:
    """Return the legend, which stands to the right of the axes."""
    from matplotlib.patches import Patch

    high = ax.get_window_extent().height / ax.figure.dpi
    lines = max(int(high / _LEGEND_LINE) - bool(title), 4)
    legend = ax.legend(
        [Patch(**one) for one in paints],
        [str(place) for place in range(len(names))],
        title=title,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        borderaxespad=0.6,
        ncols=math.ceil(len(names) / lines),
        frameon=False,
        fontsize=9,
        title_fontsize=9,
        alignment="left",
        handlelength=1.9,
        handleheight=1.2,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set(text=name, **PLAIN)
    _make_room(ax, legend)
    return legend


def height_of_legend(n_classes: int) -> float:
    """Return how many inches high a figure must be for its legend; long ones have columns."""
    return min(max(2.5, 1.0 + _LEGEND_LINE * (n_classes + 2)), 4.5)


def width_beside(ax: Any, legend: Any) -> float:
    """Return how many inches wide the axes are, or will be when the figure is laid out."""
    wide = ax.get_window_extent().width
    if ax.figure.get_layout_engine() is not None:
        wide -= legend.get_window_extent().width
    return float(wide) / ax.figure.dpi


def tidy(ax: Any) -> None:
    """Take away the lines around the axes that say nothing."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=9)


def fitted(model: Any, *attributes: str) -> Any:
    """Return the fitted estimator that has the attributes, in a pipeline or a search too."""
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
                "the model",
                f"{type(model).__name__} without `{name}`",
                "a fitted estimator that has it",
                "fit an LPLLP, and plot it before it is saved",
            )
    return model


def fitted_labels(model: Any) -> tuple[AnyArray, IntArray, FloatArray]:
    """Return the classes, each row's label as a position among them, and the soft labels."""
    model = fitted(model, "classes_", "transduction_", "label_distributions_")
    place = {label: h for h, label in enumerate(model.classes_.tolist())}
    labels = np.array([place[label] for label in model.transduction_.tolist()], dtype=np.intp)
    return model.classes_, labels, model.label_distributions_


def _make_room(ax: Any, legend: Any) -> None:
    """Narrow the axes for legend and names of lanes, where the figure does not see to it."""
    figure = ax.get_figure()
    if figure.get_layout_engine() is not None:
        return
    wide = figure.bbox.width
    right = (legend.get_window_extent().width + 0.1 * figure.dpi) / wide
    left = max(0.0, 0.01 - (ax.yaxis.get_tightbbox().x0 - figure.bbox.x0) / wide)
    box = ax.get_position()
    width = max(box.width - left - right, 0.2 * box.width)
    ax.set_position((box.x0 + left, box.y0, width, box.height))


def _parts(color: str) -> tuple[float, ...]:
    """Return how much red, green and blue is in `#RRGGBB`."""
    return tuple(int(color[k : k + 2], 16) / 255 for k in (1, 3, 5))


def _mixed(color: tuple[float, ...], gray: float, share: float) -> tuple[float, ...]:
    """Return a color mixed with a share of black (0) or white (1)."""
    return tuple((1.0 - share) * part + share * gray for part in color)


def _brightness(color: tuple[float, ...]) -> float:
    """Return how bright a color is in grayscale."""
    red, green, blue = color
    return 0.299 * red + 0.587 * green + 0.114 * blue
