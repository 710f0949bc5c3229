"""The contents of a report on the rows of a table, just labeled or labeled before."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from apportion._io.identifiers import plain_name
from apportion.bag_report import BagReport
from apportion.exceptions import PARAMETERS, Names, rendered
from apportion.graphs import Graph, choose_graph
from apportion.labeling._episodes import bag_codes, given_episodes
from apportion.labeling._features import TableFeatures
from apportion.labeling._saved_labels import assess_saved
from apportion.labeling._summary import Run, SavedRun, fitted_run
from apportion.labeling._supervised import SupervisedTable
from apportion.labeling.rows import RowLabels
from apportion.labeling.table import LabeledTable
from apportion.model_selection._graph_of_model import graph_in
from apportion.report._reliability import (
    Reliability,
    no_graph_in_words,
    reliability_of,
)
from apportion.report._report_data import ReportData, maps_of, name_of
from apportion.report._row_map import RowMap
from apportion.supervision.diagnosis import Diagnosis


def contents_of_table(
    labeled: LabeledTable,
    task: SupervisedTable,
    *,
    files: Iterable[Path] = (),
    names: Names = PARAMETERS,
) -> ReportData:
    """Return the contents of a report on a table that was just labeled.

    Parameters
    ----------
    labeled : LabeledTable
        The labeled table.
    task : SupervisedTable
        What it was labeled from.
    files : iterable of path, optional
        The files that were read.
    names : Names, optional
        What parameters are called in notes, if not as in Python.
    """
    labels = labeled.labels
    models = labels.models
    runs = {name_of(group): fitted_run(model) for group, model in models.items()}
    is_given = np.array(["given" in codes.split(";") for codes in labels.reasons.tolist()])
    found = {
        name_of(group): reliability_of(model, int(is_given[labels.rows[group]].sum()), names)
        for group, model in models.items()
    }
    maps, left_out = maps_of(labels.rows, lambda group: graph_in(models[group]))
    if not maps:
        left_out = (
            f"{no_graph_in_words(next(iter(models.values())))}: there is no map, and the verdict "
            "does not say whether similar rows agree."
        )
    return _contents(
        labels,
        labels.report,
        {group: model.diagnosis_ for group, model in models.items()},
        {name: replace(run, status=rendered(run.status, names)) for name, run in runs.items()},
        (maps, left_out),
        task,
        reliability={name: part for name, part in found.items() if part is not None},
        command=labeled.summary["command"],
        files=files,
        notes=labeled.notes,
        names=names,
    )


def contents_of_saved(
    labels: RowLabels,
    task: SupervisedTable,
    features: TableFeatures,
    run: SavedRun,
    *,
    title: str = "",
    command: str = "",
    files: Iterable[Path] = (),
    names: Names = PARAMETERS,
) -> ReportData:
    """Return the contents of a report on labels that were found before.

    Parameters
    ----------
    labels : RowLabels
        The labels.
    task : SupervisedTable
        What is known of the rows.
    features : TableFeatures
        Their features, of which maps are drawn.
    run : SavedRun
        How the labels were found, as far as that is known.
    title : str, optional
        The heading.
    command : str, optional
        The command that writes the report, if that of the run is not known.
    files, names
        See `contents_of_table`.
    """
    assessment = assess_saved(labels, task, run.decode)
    X = features.encode(task.rows).rows

    def graph_of_group(group: Any) -> Graph:
        rows = assessment.rows[group]
        return choose_graph(len(rows), X.shape[1])[0].fit(X[rows])

    return _contents(
        labels,
        assessment.report,
        assessment.diagnoses,
        run.runs,
        maps_of(assessment.rows, graph_of_group),
        task,
        title=title,
        command=run.command or command,
        files=files,
        notes=[*task.notes, *features.notes, *run.notes],
        names=names,
    )


def _contents(
    labels: RowLabels,
    report: BagReport,
    diagnoses: Mapping[object, Diagnosis],
    runs: Mapping[str, Run],
    maps: tuple[Mapping[str, RowMap], str],
    task: SupervisedTable,
    *,
    reliability: Mapping[str, Reliability] | None = None,
    title: str = "",
    command: str,
    files: Iterable[Path],
    notes: Sequence[str],
    names: Names,
) -> ReportData:
    times, _, problem = task.row_times
    texts = [rendered(note, names) for note in notes] + [problem] * bool(problem)
    row_names = None
    if task.ids is not None:
        cells = task.rows.cells(task.ids)
        row_names = np.array([plain_name(cell) for cell in cells], dtype=object)
    return ReportData(
        title=title or f"Labels of {task.rows.name}",
        answer=labels,
        bag_word=task.bag_word,
        bag_codes=bag_codes(task.supervision.bags, labels, report),
        report=report,
        diagnoses={name_of(group): diagnosis for group, diagnosis in diagnoses.items()},
        runs=runs,
        times=times,
        maps=maps[0],
        no_map=maps[1],
        names=row_names,
        command=command,
        facts=_fingerprints(files),
        rules=tuple(rendered(rule, names) for rule in task.rules),
        notes=tuple(dict.fromkeys(texts)),
        reliability=reliability or {},
        given_episodes=given_episodes(report, task),
    )


def _fingerprints(files: Iterable[Path]) -> dict[str, str]:
    """Return the sizes and digests of files, by name, or by path if two have one name."""
    fingerprints: dict[str, str] = {}
    for path in files:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        name = str(path) if path.name in fingerprints else path.name
        fingerprints[name] = f"{path.stat().st_size:,} bytes, sha256 {digest}"
    return fingerprints
