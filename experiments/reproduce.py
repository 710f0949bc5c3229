"""The whole reproduction: which trials, what they are forecast to take, and what is written."""

from __future__ import annotations

import importlib.util
import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apportion._io.atomic_write import Outputs
from experiments import figures as draw
from experiments.methods import METHODS
from experiments.provenance import sphere_name
from experiments.sections import PROTOCOLS, SECTIONS, Section
from experiments.summary import Key, Score, summarize
from experiments.tables import (
    LEGEND,
    ResultTable,
    latex_text,
    notes_of,
    result_table,
    to_csv,
    to_latex,
    to_markdown,
    to_text,
)
from experiments.trials import Method, Problem, Trial


def require_extras() -> None:
    """Refuse to begin where a library is missing that would be needed in the end."""
    for name in ("pyarrow", "matplotlib"):
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"This needs {name}: install apportion[experiments].")


@dataclass(frozen=True)
class ProblemSource:
    """From a trial to its problem, by the trial's section.

    Attributes
    ----------
    sphere : path or None
        The folder of the SPHERE data.
    sections : mapping from str to Section
    """

    sphere: str | os.PathLike[str] | None
    sections: Mapping[str, Section]

    def __call__(self, trial: Trial) -> Problem:
        """Return the trial's problem."""
        return self.sections[trial.section].pose(trial, self.sphere)

    def data(self, section: str) -> str:
        """Return a name of the data that a section is drawn from; none where it is generated."""
        if self.sphere is None or not self.sections[section].needs_sphere:
            return ""
        return sphere_name(os.fspath(self.sphere))


def plan(
    sections: Iterable[Section],
    methods: Sequence[str],
    repetitions: int,
    protocols: Sequence[str] = PROTOCOLS,
) -> list[Trial]:
    """Return the trials of several sections."""
    return [
        trial for section in sections for trial in section.trials(methods, repetitions, protocols)
    ]


def quick_plan(
    sections: Iterable[Section], methods: Sequence[str], protocols: Sequence[str] = PROTOCOLS
) -> list[Trial]:
    """Return about a minute's trials: the smallest cells, three repetitions, one of slow methods.

    Sections that take all rows there are, are left out.
    """
    trials: list[Trial] = []
    for section in sections:
        smallest = min(n_samples for n_samples, _ in section.cells)
        trials += [
            trial
            for trial in section.trials(methods, 3, protocols)
            if trial.n_samples == smallest > 0
            and (trial.repetition == 0 or METHODS[trial.method].seconds < 1.0)
        ]
    return trials


def tables_of(
    rows: Iterable[Mapping[str, Any]],
    *,
    sections: Mapping[str, Section] = SECTIONS,
    methods: Mapping[str, Method] = METHODS,
) -> list[ResultTable]:
    """Return the tables of all results there are, protocol by protocol in every section."""
    scores = summarize(rows)
    tables = (
        result_table(section, protocol, scores, methods)
        for section in sections.values()
        for protocol in section.protocols
    )
    return [table for table in tables if table is not None]


def page(
    tables: Sequence[ResultTable],
    scores: Mapping[Key, Score],
    form: str,
    *,
    bold: bool = False,
) -> str:
    """Return all tables in one form: text, markdown, latex or csv."""
    notes = [f"{letter}: {text}" for letter, text in notes_of(tables).items()]
    if form == "csv":
        return to_csv(scores).rstrip("\n")
    if form == "latex":
        return "\n\n".join([*map(to_latex, tables), *map(latex_text, (LEGEND, *notes))])
    if form == "markdown":
        return "\n\n".join([*map(to_markdown, tables), LEGEND, *notes])
    foot = [textwrap.fill(line, 100) for line in (LEGEND, *notes)]
    return "\n\n".join([*(to_text(table, bold=bold) for table in tables), "\n".join(foot)])


def write_tables(
    tables: Sequence[ResultTable], scores: Mapping[Key, Score], folder: Path, outputs: Outputs
) -> list[Path]:
    """Write all tables as text, Markdown, LaTeX and CSV."""
    endings = {"txt": "text", "md": "markdown", "tex": "latex", "csv": "csv"}
    for ending, form in endings.items():
        with outputs.writing(folder / f"tables.{ending}") as temporary:
            temporary.write_text(f"{page(tables, scores, form)}\n", encoding="utf-8")
    return [folder / f"tables.{ending}" for ending in endings]


def draw_figures(
    scores: Mapping[Key, Score],
    folder: Path,
    outputs: Outputs,
    *,
    sections: Mapping[str, Section] = SECTIONS,
    methods: Mapping[str, Method] = METHODS,
) -> list[Path]:
    """Draw Scores 1 and 2, and accuracy against the number of rows where there are results."""
    written = draw.save(draw.draw_procedure(), folder / "figure-1-procedure", outputs)
    written += draw.save(draw.draw_synthetic(), folder / "figure-2-synthetic", outputs)
    for section in sections.values():
        several = len({n_samples for n_samples, _ in section.cells}) > 1
        for protocol in section.protocols:
            if several and any(key[:2] == (section.key, protocol) for key in scores):
                name = f"accuracy-{section.key}-{protocol.replace(' ', '-')}"
                drawn = draw.draw_accuracy(section, protocol, scores, methods)
                written += draw.save(drawn, folder / name, outputs)
    return written
