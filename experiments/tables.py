"""The tables: ours and the printed figures side by side, as text, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.printed import NOTES, PRINTED, Printed, best_printed
from experiments.sections import Section
from experiments.summary import (
    SIGNIFICANT,
    Key,
    Score,
    direction,
    p_value,
    printed_for,
)
from experiments.trials import Method, cell_name

_ARROWS = {1: "▲", -1: "▼", 0: ""}
_LATEX_ARROWS = {"▲": r"$^{\uparrow}$", "▼": r"$^{\downarrow}$", "": ""}


@dataclass(frozen=True)
class Entry:
    """What stands in one place of a table: `text`, in bold or not, and the signs behind it."""

    text: str
    bold: bool = False
    arrow: str = ""
    notes: str = ""

    @property
    def plain(self) -> str:
        """The entry without emphasis."""
        return f"{self.text}{self.arrow}{self.notes}"


@dataclass(frozen=True)
class ResultTable:
    """A table to be written in one form or another.

    Attributes
    ----------
    title, caption : str
    columns : tuple of str
        Headings, that of the cells' names left out.
    rows : tuple of (str, tuple of Entry)
        Each cell's name and entries.
    """

    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]


def result_table(
    section: Section, protocol: str, scores: Mapping[Key, Score], methods: Mapping[str, Method]
) -> ResultTable | None:
    """Return one section's table under one protocol; None where it has no result yet."""
    there = {key[2:] for key in scores if key[:2] == (section.key, protocol)}
    cells = [
        cell
        for cell in (cell_name(*one) for one in section.cells)
        if any((cell, method) in there for method in methods)
    ]
    mine = [method for method in methods if any((cell, method) in there for cell in cells)]
    if not mine:
        return None
    columns: list[str] = []
    for method in mine:
        columns.append(methods[method].heading)
        if _has_printed_column(section, cells, method):
            columns.append(f"printed {methods[method].title}")
    rows = []
    for cell in cells:
        found = {method: scores.get((section.key, protocol, cell, method)) for method in mine}
        best = max(
            (
                round(score.mean, 2)
                for method, score in found.items()
                if score is not None and _may_win(score, methods[method])
            ),
            default=np.nan,
        )
        entries: list[Entry] = []
        for method, score in found.items():
            printed = printed_for(section.key, cell, method)
            entry = _entry(score, printed)
            if score is not None and _may_win(score, methods[method]):
                entry = replace(entry, bold=round(score.mean, 2) == best)
            entries.append(entry)
            if _has_printed_column(section, cells, method):
                entries.append(_printed_entry(printed))
        rows.append((cell, tuple(entries)))
    scored = _SCORED[protocol] if section.scored is None else section.scored
    sentences = (
        *(section.about, scored, _repetitions(scores, section, protocol)),
        *_against_best_printed(section, protocol, cells, scores),
    )
    title = f"{section.title}, {protocol}"
    return ResultTable(title, " ".join(sentences), tuple(columns), tuple(rows))


_SCORED = {
    "all rows": "All rows in three bags; accuracy on all rows.",
    "test bag": "Five sixths of the rows in three bags, one sixth in a test bag of known "
    "proportion; accuracy on the test bag.",
}


def _may_win(score: Score, method: Method) -> bool:
    """Whether a score may be the best: no label was seen, no repetition failed."""
    return not method.sees_labels and score.n > 0 and score.failed == 0


def _repetitions(scores: Mapping[Key, Score], section: Section, protocol: str) -> str:
    mine = [score for key, score in scores.items() if key[:2] == (section.key, protocol)]
    done = [score.n + score.failed for score in mine]
    failed = sum(score.failed for score in mine)
    text = f"{min(done)}" if min(done) == max(done) else f"{min(done)} to {max(done)}"
    return f"Mean(std) of {text} repetitions." + (f" {failed} trials failed." if failed else "")


def _against_best_printed(
    section: Section, protocol: str, cells: Sequence[str], scores: Mapping[Key, Score]
) -> list[str]:
    """Return a sentence that counts the cells in which LP-LLP beats all that was printed."""
    if section.key not in PRINTED:
        return []
    ours = [(cell, scores.get((section.key, protocol, cell, "lp-llp"))) for cell in cells]
    gaps = [
        round(round(score.mean, 2) - best_printed(section.key, cell), 2)
        for cell, score in ours
        if score is not None and score.n
    ]
    if not gaps:
        return []
    above, equal = sum(gap > 0 for gap in gaps), sum(gap == 0 for gap in gaps)
    return [
        f"Against the best printed figure of any method, LP-LLP is above in {above}, equal in "
        f"{equal} and below in {len(gaps) - above - equal} of {len(gaps)} cells."
    ]


def _has_printed_column(section: Section, cells: Sequence[str], method: str) -> bool:
    return method != "lp-llp-literal" and any(
        printed_for(section.key, cell, method) for cell in cells
    )


def _entry(score: Score | None, printed: Printed | None) -> Entry:
    if score is None:
        return Entry("")
    if not score.n:
        return Entry("failed")
    arrow = "" if printed is None else _ARROWS[direction(score, printed)]
    failed = f" {score.failed} failed" if score.failed else ""
    return Entry(mean_and_std(score.mean, score.std) + failed, arrow=arrow)


def _printed_entry(printed: Printed | None) -> Entry:
    if printed is None:
        return Entry("")
    return Entry(mean_and_std(printed.mean, printed.std), notes=printed.notes)


def mean_and_std(mean: float, std: float) -> str:
    """Return both to two decimals, without the zero before the point; – of one repetition.

    Examples
    --------
    >>> mean_and_std(0.976, 0.0), mean_and_std(1.0, float("nan"))
    ('.98(.00)', '1.00(–)')
    """
    return f"{_two_decimals(mean)}({_two_decimals(std)})"


def _two_decimals(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2f}".removeprefix("0")


LEGEND = (
    f"Bold: the best of the methods that see no label. ▲ ▼: significantly above or below the "
    f"printed mean of the method (Welch's test, p < {SIGNIFICANT:g})."
)


def notes_of(tables: Sequence[ResultTable]) -> dict[str, str]:
    """Return the notes that tables refer to, by their letters."""
    used = {letter for table in tables for _, row in table.rows for e in row for letter in e.notes}
    return {letter: NOTES[letter] for letter in sorted(used)}


def to_text(table: ResultTable, *, bold: bool = False) -> str:
    """Return a table for the terminal; with `bold`, best figures in the terminal's bold letters."""
    heads = [_two_lines(column) for column in table.columns]
    grid = [[entry.plain for entry in entries] for _, entries in table.rows]
    widths = [
        max(len(part) for part in (*head, *(line[j] for line in grid)))
        for j, head in enumerate(heads)
    ]
    first = max(len(name) for name, _ in table.rows)
    lines = [table.title, *textwrap.wrap(table.caption, 100), ""]
    for part in range(2):
        words = [head[part].rjust(width) for head, width in zip(heads, widths, strict=True)]
        lines.append("  ".join([" " * first, *words]))
    for name, entries in table.rows:
        words = [
            ("\x1b[1m{}\x1b[0m" if entry.bold and bold else "{}").format(entry.plain.rjust(width))
            for entry, width in zip(entries, widths, strict=True)
        ]
        lines.append("  ".join([name.rjust(first), *words]))
    return "\n".join(line.rstrip() for line in lines)


def _two_lines(heading: str) -> tuple[str, str]:
    first, _, second = heading.partition(" ")
    return (first, second) if second else ("", first)


def _marked(entry: Entry, bold: str, arrow: str, notes: str) -> str:
    """Return an entry with these forms of bold text and notes, where it has them."""
    text = bold.format(entry.text) if entry.bold else entry.text
    return text + arrow + (notes.format(entry.notes) if entry.notes else "")


def to_markdown(table: ResultTable) -> str:
    """Return a table for a Markdown page."""
    lines = [
        f"**{table.title}.** {table.caption}",
        "",
        "| | " + " | ".join(table.columns) + " |",
        "|---" * (len(table.columns) + 1) + "|",
    ]
    for name, entries in table.rows:
        words = [_marked(entry, "**{}**", entry.arrow, "<sup>{}</sup>") for entry in entries]
        lines.append(f"| {name} | " + " | ".join(words) + " |")
    return "\n".join(lines)


def to_latex(table: ResultTable) -> str:
    """Return a table for LaTeX, with the package `booktabs`."""
    lines = [
        r"\begin{table}",
        rf"  \caption{{{latex_text(f'{table.title}. {table.caption}')}}}",
        r"  \centering",
        rf"  \begin{{tabular}}{{l{'c' * len(table.columns)}}}",
        r"    \toprule",
        "    & " + " & ".join(latex_text(column) for column in table.columns) + r" \\",
        r"    \midrule",
    ]
    for name, entries in table.rows:
        words = [
            _marked(entry, r"\textbf{{{}}}", _LATEX_ARROWS[entry.arrow], "$^{{{}}}$")
            for entry in entries
        ]
        lines.append(f"    {latex_text(name)} & " + " & ".join(words) + r" \\")
    return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}"])


def latex_text(text: str) -> str:
    """Return text with the signs that LaTeX knows under other names."""
    signs = {
        **{"∝": r"$\propto$", "±": r"$\pm$", "–": "--", "▲": r"$\uparrow$", "▼": r"$\downarrow$"},
        **{sign: rf"\{sign}" for sign in "%_&#$"},
        **{"<": "$<$", ">": "$>$"},
    }
    return "".join(signs.get(letter, letter) for letter in text)


def to_csv(scores: Mapping[Key, Score]) -> str:
    """Return all scores and the printed ones, one line per cell and method."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        (
            *("section", "protocol", "cell", "method", "mean", "std", "repetitions", "failed"),
            *("seconds", "printed_mean", "printed_std", "p_value", "printed_notes"),
        )
    )
    for key, score in scores.items():
        section, protocol, cell, method = key
        printed = printed_for(section, cell, method)
        beside = (
            ["", "", "", ""]
            if printed is None
            else [printed.mean, printed.std, f"{p_value(score, printed):.3g}", printed.notes]
        )
        numbers = [f"{score.mean:.6f}", f"{score.std:.6f}", score.n, score.failed]
        writer.writerow(
            [section, protocol, cell, method, *numbers, f"{score.seconds:.3f}", *beside]
        )
    return out.getvalue()
