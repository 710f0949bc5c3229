"""The style of each class: a color that color-blind people can tell apart, a pattern, a marker.

Patterns and markers differ as the colors do, so that nothing is lost in grayscale.
"""

from __future__ import annotations

from typing import NamedTuple

# Okabe and Ito (2008), without black, and four of Paul Tol's qualitative schemes.
_OKABE_ITO = ("#0072B2", "#E69F00", "#56B4E9", "#009E73", "#D55E00", "#F0E442", "#CC79A7")
_TOL = ("#44AA99", "#332288", "#882255", "#999933")
_COLORS = (*_OKABE_ITO, "#7F7F7F", *_TOL)
_PATTERNS = ("", "/", ".", "x", "-", "\\", "|", "+")
_SYMBOLS = ["circle", "square", "diamond", "cross", "x", "triangle-up", "triangle-down", "star"]
_MARKERS = "osDPX^v*"

NO_LABEL = "#FFFFFF"
"""The color of rows without a label."""


class ClassStyle(NamedTuple):
    """The style of a class.

    Attributes
    ----------
    color : str
        As `#RRGGBB`.
    pattern, symbol : str
        Plotly's names of the pattern of a bar and the symbol of a point.
    hatch, marker : str
        Matplotlib's names of the same.
    """

    color: str
    pattern: str
    symbol: str
    hatch: str
    marker: str


def class_styles(n_classes: int) -> list[ClassStyle]:
    """Return one style per class; up to 96 of them differ.

    Parameters
    ----------
    n_classes : int
        The number of classes.

    Returns
    -------
    list of ClassStyle

    Examples
    --------
    >>> first, second = class_styles(2)
    >>> first.color, first.hatch, second.color, second.hatch
    ('#0072B2', '', '#E69F00', '//')
    """
    # There are 12 colors and 8 shapes. The shape moves on by one more each time the colors start
    # again, so that a pair of color and shape returns only after 12 * 8 classes.
    shapes = [(h + h // len(_COLORS)) % len(_PATTERNS) for h in range(n_classes)]
    return [
        ClassStyle(
            _COLORS[h % len(_COLORS)], _PATTERNS[k], _SYMBOLS[k], 2 * _PATTERNS[k], _MARKERS[k]
        )
        for h, k in enumerate(shapes)
    ]
