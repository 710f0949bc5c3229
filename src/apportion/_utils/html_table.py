"""Tables that notebooks show: plain HTML, with all text escaped and long parts cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

SHOWN_ROWS = 12
"""The number of rows that are shown."""

SHOWN_COLUMNS = 12
"""The number of columns that are shown after the first ones."""

_SHOWN_CHARACTERS = 40
_TITLE_CHARACTERS = 400

# Colors come from the notebook, light or dark; lines are a gray that both backgrounds bear.
_STYLE = (
    ".apportion-table{border-collapse:collapse;color:inherit;font-variant-numeric:tabular-nums}"
    ".apportion-table caption{caption-side:top;text-align:left;font-weight:bold;"
    "padding:.3em 0;color:inherit}"
    ".apportion-table th,.apportion-table td{padding:.2em .7em;text-align:right;"
    "border-bottom:1px solid rgba(128,128,128,.4);color:inherit}"
    ".apportion-table td{white-space:nowrap}"
    ".apportion-table th:first-child,.apportion-table td[colspan]{text-align:left}"
    ".apportion-notes{margin:.4em 0 0;padding-left:1.2em;color:inherit}"
)


@dataclass(frozen=True)
class Marked:
    """A cell that should be noticed; it is printed in bold.

    Attributes
    ----------
    value : object
        What is in the cell.
    """

    value: Any


@dataclass(frozen=True)
class HTMLTable:
    """A table with a caption above it and notes below.

    Attributes
    ----------
    caption : str
        What the table shows.
    header : sequence
        The names of the columns. The first column names the rows.
    rows : iterable of sequences
        The cells that are shown, text or `Marked`.
    n_left : int
        The number of rows that are not shown.
    row_word : str
        What one of those rows is called, in the plural.
    notes : sequence of str
        Sentences below the table.
    """

    caption: str
    header: Sequence[Any]
    rows: Iterable[Sequence[Any]]
    n_left: int = 0
    row_word: str = "rows"
    notes: Sequence[str] = field(default_factory=tuple)

    def __str__(self) -> str:
        head = "".join(f'<th scope="col">{text(name)}</th>' for name in self.header)
        lines = [f"<tr>{_row(cells)}</tr>" for cells in self.rows]
        if self.n_left:
            left = f"… and {self.n_left:,} more {text(self.row_word)}"
            lines.append(f'<tr><td colspan="{len(self.header)}">{left}</td></tr>')
        notes = "".join(f"<li>{text(note, 10 * _TITLE_CHARACTERS)}</li>" for note in self.notes)
        return (
            f'<div style="overflow-x:auto"><style>{_STYLE}</style><table class="apportion-table">'
            f"<caption>{text(self.caption, _TITLE_CHARACTERS)}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
            + (f'<ul class="apportion-notes">{notes}</ul>' if notes else "")
            + "</div>"
        )


def text(value: Any, most: int = _SHOWN_CHARACTERS) -> str:
    """Return a value as HTML text that has its own direction, cut if it is long.

    Parameters
    ----------
    value : object
        What to show.
    most : int, default=40
        The most characters. The title, which shows where the mouse rests, has some more.

    Returns
    -------
    str

    Examples
    --------
    >>> text("<b> & 'c'")
    '<bdi>&lt;b&gt; &amp; &#x27;c&#x27;</bdi>'
    >>> text("sleeping", most=5)
    '<bdi title="sleeping">slee…</bdi>'
    """
    # Half of a surrogate pair is no Unicode text, and no notebook could save it.
    full = str(value).encode("utf-8", "replace").decode("utf-8")
    if len(full) <= most:
        return f"<bdi>{escape(full)}</bdi>"
    title = full if len(full) <= _TITLE_CHARACTERS else f"{full[: _TITLE_CHARACTERS - 1]}…"
    return f'<bdi title="{escape(title)}">{escape(full[: most - 1])}…</bdi>'


def class_columns(classes: Sequence[Any]) -> tuple[list[Any], int]:
    """Return the header of the classes that are shown, and how many they are.

    Parameters
    ----------
    classes : sequence
        All classes.

    Returns
    -------
    header : list
        Their names; if some are left out, a last one says how many.
    n_shown : int
        The number of classes that are shown.
    """
    n_left = len(classes) - SHOWN_COLUMNS
    return [*classes[:SHOWN_COLUMNS], *[f"… {n_left:,} more"] * (n_left > 0)], SHOWN_COLUMNS


def _row(cells: Sequence[Any]) -> str:
    first, *others = cells
    return f'<th scope="row">{text(first)}</th>' + "".join(map(_cell, others))


def _cell(cell: Any) -> str:
    if isinstance(cell, Marked):
        return f"<td><strong>{text(cell.value)}</strong></td>"
    return f"<td>{text(cell)}</td>"
