"""How classes look: colours that colour-blind people tell apart, each with a pattern and a mark.

The first eight colours are those of Okabe and Ito but for black, the others are Tol's. Patterns and
marks say the same as colours, so that nothing is lost in greyscale.
"""

from __future__ import annotations

from typing import NamedTuple

_COLOURS = (
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
"""The colour of rows that have no label."""


class Look(NamedTuple):
    """How a class looks.

    Attributes
    ----------
    colour : str
        As `#RRGGBB`.
    pattern, symbol : str
        Plotly's names of a bar's pattern and a point's symbol.
    hatch, marker : str
        matplotlib's names of the same.
    """

    colour: str
    pattern: str
    symbol: str
    hatch: str
    marker: str


def looks(n_classes: int) -> list[Look]:
    """Return how each of so many classes looks; up to 96 of them differ.

    Examples
    --------
    >>> first, second = looks(2)
    >>> first.colour, first.hatch, second.colour, second.hatch
    ('#0072B2', '', '#E69F00', '//')
    """
    found = []
    for h in range(n_classes):
        shape = (h + h // len(_COLOURS)) % len(_PATTERNS)
        found.append(
            Look(
                _COLOURS[h % len(_COLOURS)],
                _PATTERNS[shape],
                _SYMBOLS[shape],
                _HATCHES[shape],
                _MARKERS[shape],
            )
        )
    return found
