"""How classes look: colors that color-blind people tell apart, each with a pattern and a mark.

The first eight colors are those of Okabe and Ito but for black, the others are Tol's. Patterns and
marks say the same as colors, so that nothing is lost in grayscale.
"""

from __future__ import annotations

from typing import NamedTuple

_COLORS = (
    "#0072B2",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#D55E00",
    "#F0E442",
    "#CC79A7",
    "#7F7F7F",
    "#44AA99",
    "#332288",
    "#882255",
    "#999933",
)
_PATTERNS = ("", "/", ".", "x", "-", "\\", "|", "+")
_HATCHES = ("", "//", "..", "xx", "--", "\\\\", "||", "++")
_SYMBOLS = (
    "circle",
    "square",
    "diamond",
    "cross",
    "x",
    "triangle-up",
    "triangle-down",
    "star",
)
_MARKERS = ("o", "s", "D", "P", "X", "^", "v", "*")

NO_LABEL = "#FFFFFF"
"""The color of rows that have no label."""


class Look(NamedTuple):
    """How a class looks.

    Attributes
    ----------
    color : str
        As `#RRGGBB`.
    pattern, symbol : str
        Plotly's names of a bar's pattern and a point's symbol.
    hatch, marker : str
        matplotlib's names of the same.
    """

    color: str
    pattern: str
    symbol: str
    hatch: str
    marker: str


def looks(n_classes: int) -> list[Look]:
    """Return how each of so many classes looks; up to 96 of them differ.

    Examples
    --------
    >>> first, second = looks(2)
    >>> first.color, first.hatch, second.color, second.hatch
    ('#0072B2', '', '#E69F00', '//')
    """
    found = []
    for h in range(n_classes):
        shape = (h + h // len(_COLORS)) % len(_PATTERNS)
        found.append(
            Look(
                _COLORS[h % len(_COLORS)],
                _PATTERNS[shape],
                _SYMBOLS[shape],
                _HATCHES[shape],
                _MARKERS[shape],
            )
        )
    return found
