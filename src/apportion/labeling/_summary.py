"""The summary of a run: what was found, and how; as JSON, in Parquet files, and read again."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from apportion._io.file_kinds import require_file
from apportion.estimators._base import BagClassifier
from apportion.exceptions import PARAMETERS, Advice, FileError, Names, counted, hint, rendered
from apportion.labeling._episodes import EpisodeCounts
from apportion.labeling._methods import (
    accuracy_of,
    candidates_in,
    mean_accuracy,
    mean_candidates,
    name_of_method,
)
from apportion.labeling._source import SourceTable
from apportion.labeling.rows import LabeledRows, RowLabels, kept_and_uncertain, reasons_of
from apportion.model_selection import EstimatedAccuracy, WeighedCandidate
from apportion.supervision.diagnosis import Diagnosis, placing_sentences

_KEY = b"apportion"
_ALL = "all"


@dataclass(frozen=True)
class Run:
    """How a model was fitted.

    Attributes
    ----------
    method : str
        The name of the estimator.
    settings : dict of str to str
        Its parameters, as Python writes them.
    graph : str
        Its graph, and why it was chosen; empty if there is none.
    status : str
        The status of the solver at the end; empty if the method has none.
    success : bool
        Whether the run ended as requested.
    n_iter : int or None
        The number of iterations.
    energies : list of float
        The energy at the start and after every iteration.
    stationarity, residual : float or None
        The distance from a minimum, and from the totals, at the end.
    unique : bool or None
        Whether the solution is unique; None if this was not examined.
    """

    method: str
    settings: dict[str, str]
    graph: str = ""
    status: str = ""
    success: bool = True
    n_iter: int | None = None
    energies: list[float] = field(default_factory=list)
    stationarity: float | None = None
    residual: float | None = None
    unique: bool | None = None


def fitted_run(model: BagClassifier) -> Run:
    """Return how a model was fitted."""
    settings = {name: repr(value) for name, value in model.get_params(deep=False).items()}
    n_iter = getattr(model, "n_iter_", None)
    run = Run(
        type(model).__name__,
        {name: t if len(t) <= 200 else f"{t[:200]} …" for name, t in settings.items()},
        getattr(model, "graph_choice_", ""),
        n_iter=None if n_iter is None else int(n_iter),
    )
    solution = getattr(model, "solution_", None)
    if solution is None:
        return run
    return replace(
        run,
        status=solution.status.value,
        success=solution.success,
        energies=[float(energy) for energy in solution.energies if np.isfinite(energy)],
        stationarity=float(solution.stationarity),
        residual=float(solution.residual),
        unique=solution.unique,
    )


@dataclass(frozen=True)
class SavedRun:
    """How labels in a file were found, as far as that is known.

    Attributes
    ----------
    runs : dict of str to Run
        How the models were fitted, by group.
    decode : str
        How labels were decoded; empty if it is not known.
    command : str
        The command; empty if it is not known.
    notes : tuple of str
        The notes of the run.
    """

    runs: dict[str, Run] = field(default_factory=dict)
    decode: str = ""
    command: str = ""
    notes: tuple[str, ...] = ()


PROBABILITY, MASS = "probability", "mass"
"""What confidence is, in summaries."""


def labels_summary(
    labels: RowLabels,
    notes: Sequence[str],
    abstain_below: float | None,
    *,
    calibrated: bool = False,
) -> dict[str, Any]:
    """Return what was found about the rows.

    `assigned` counts the labels in the table: without those of rows that are uncertain, if there is
    a threshold of confidence. In the `bags` of `run_summary`, `assigned` counts all rows of a bag,
    uncertain ones with the label that they would have, because totals are about all rows.
    """
    n_kept, n_uncertain = kept_and_uncertain(labels)
    return {
        "apportion": version("apportion"),
        "rows": len(labels.labels),
        "classes": [str(label) for label in labels.classes.tolist()],
        "assigned": dict(
            Counter(str(label) for label in labels.labels.tolist() if label is not None)
        ),
        "confidence": PROBABILITY if calibrated else MASS,
        "abstain_below": abstain_below,
        "labelled_share": n_kept / max(n_kept + n_uncertain, 1),
        "reasons": reasons_of(labels),
        "notes": list(notes),
    }


def run_summary(
    labels: LabeledRows,
    rules: Sequence[str],
    notes: Sequence[str],
    abstain_below: float | None = None,
    command: str = "",
    method: str = "",
    episodes: EpisodeCounts | None = None,
) -> dict[str, Any]:
    """Return what was found, and how: rows, bags, methods, models, rules and notes.

    If times are known, each of `bags` has the `episodes` that begin in it, by class, and the
    `episodes_given` that a diary tells of; beside `assigned` stand those of all bags together.

    With several participants, `candidates` and `estimated_accuracy` are about all of them; those
    of each are in `models`.
    """
    report, calibrated = labels.report, labels.calibrated
    of_rows = labels_summary(labels, notes, abstain_below, calibrated=calibrated)
    classes = [str(label) for label in report.classes.tolist()]
    assigned = report.assigned[report.decode]
    bags = [
        {
            "bag": str(bag),
            "rows": int(report.sizes[k]),
            "given": {
                name: [float(report.lower[k, h]), float(report.upper[k, h])]
                for h, name in enumerate(classes)
            },
            "assigned": {name: int(assigned[k, h]) for h, name in enumerate(classes)},
            **({} if episodes is None else episodes.of_bag(k, classes)),
        }
        for k, bag in enumerate(report.ids)
    ]
    models = {
        _ALL if group is None else str(group): {
            **asdict(fitted_run(model)),
            "iterations": getattr(model, "n_iter_", None),
            "information_index": model.diagnosis_.index,
            "candidates": [_candidate(one) for one in candidates_in(model)],
            "estimated_accuracy": _accuracy(accuracy_of(model)),
        }
        for group, model in labels.models.items()
    }
    n_open = open_rows_of(labels)
    return {
        "apportion": of_rows["apportion"],
        "command": command,
        "method": method or name_of_method(next(iter(labels.models.values()))),
        "candidates": [_candidate(one) for one in mean_candidates(labels.models, n_open)],
        "estimated_accuracy": _accuracy(mean_accuracy(labels.models, n_open)),
        "rows": of_rows["rows"],
        "classes": classes,
        "decode": report.decode,
        "assigned": of_rows["assigned"],
        **({} if episodes is None else episodes.of_all(classes)),
        "confidence": of_rows["confidence"],
        "abstain_below": abstain_below,
        "labelled_share": of_rows["labelled_share"],
        "bag_error": report.error(),
        "reasons": of_rows["reasons"],
        "bags": bags,
        "models": models,
        "rules": list(rules),
        "notes": list(notes),
    }


def open_rows_of(labels: LabeledRows) -> dict[Any, int]:
    """Return how many rows without a given label each model was fitted to."""
    given = np.array(["given" in codes.split(";") for codes in labels.reasons.tolist()], dtype=bool)
    return {group: int((~given[rows]).sum()) for group, rows in labels.rows.items()}


def _candidate(weighed: WeighedCandidate) -> dict[str, Any]:
    names = ("name", "weight", "log_likelihood", "temperature", "seconds")
    return {name: getattr(weighed, name) for name in names}


def _accuracy(accuracy: EstimatedAccuracy) -> dict[str, Any]:
    return {name: asdict(getattr(accuracy, name)) for name in ("fitted_rows", "new_rows")}


def method_notes(labels: LabeledRows) -> list[str]:
    """Return which classes are hard to place, and the estimated accuracy if there is one."""
    hard = placing_sentences(
        {
            "" if group is None else str(group): model.diagnosis_.hard_to_place
            for group, model in labels.models.items()
        }
    )
    if not any(map(candidates_in, labels.models.values())):
        return hard
    accuracy = mean_accuracy(labels.models, open_rows_of(labels))
    pairs = (("labels in this table", accuracy.fitted_rows), ("new rows", accuracy.new_rows))
    return [*hard, *(f"estimated accuracy, {what}: {estimate}" for what, estimate in pairs)]


def diagnosis_summary(
    diagnosis: Diagnosis, rules: Sequence[str], notes: Sequence[str]
) -> dict[str, Any]:
    """Return which classes the totals can tell apart."""
    classes = [str(label) for label in diagnosis.classes.tolist()]
    rows, columns = np.triu_indices(len(classes), 1)
    return {
        "apportion": version("apportion"),
        "classes": classes,
        "information_index": diagnosis.index,
        "absent_classes": [str(label) for label in diagnosis.absent],
        "rank": diagnosis.rank,
        "smallest_singular_value": diagnosis.smallest_singular_value,
        "pairs": [
            {
                "classes": [classes[g], classes[h]],
                "information_index": float(diagnosis.pairwise[g, h]),
            }
            for g, h in zip(rows.tolist(), columns.tolist(), strict=True)
            if np.isfinite(diagnosis.pairwise[g, h])
        ],
        "uninformative": diagnosis.uninformative,
        "findings": list(diagnosis.findings),
        "hard_to_place": [
            {"class": str(few.label), "rows_at_most": few.total, "bags": list(map(str, few.bags))}
            for few in diagnosis.hard_to_place
        ],
        "rules": list(rules),
        "notes": list(notes),
    }


def uncertain_notes(
    labels: RowLabels, abstain_below: float | None, *, calibrated: bool = False
) -> list[str]:
    """Return how many rows keep their labels, if uncertain ones get none."""
    if abstain_below is None:
        return []
    n_kept, n_uncertain = kept_and_uncertain(labels)
    n = n_kept + n_uncertain
    facts = (
        f"{n_kept:,} of {counted(n, 'row')} keep a label ({n_kept / max(n, 1):.1%}); the others "
        f"have a confidence below {abstain_below:g}"
    )
    meaning = "a probability" if calibrated else "a mass, which is not a probability"
    return [Advice(facts, "({abstain_below}); confidence is {meaning}", meaning=meaning)]


def as_json(summary: dict[str, Any], names: Names = PARAMETERS) -> str:
    """Return a summary as JSON, with null for a number that is not finite.

    Parameters
    ----------
    summary : dict
        The summary.
    names : Names, optional
        What parameters are called in its notes, if not as in Python.
    """
    text = json.dumps(_plain(summary, names), indent=2, ensure_ascii=False, allow_nan=False)
    # The name of a file may be no text: a lone surrogate is written as its escape.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def with_summary(table: Any, summary: dict[str, Any], names: Names = PARAMETERS) -> Any:
    """Return an Arrow table whose metadata hold a summary, without what it has of each bag.

    It is also without the times of the methods, so that equal runs write equal files.
    """
    short = _without_times({key: value for key, value in summary.items() if key != "bags"})
    models = summary["models"].items()
    short["models"] = {group: _without_times(model) for group, model in models}
    metadata = {**(table.schema.metadata or {}), _KEY: as_json(short, names).encode()}
    return table.replace_schema_metadata(metadata)


def _without_times(summary: dict[str, Any]) -> dict[str, Any]:
    """Return a summary without the seconds that methods took, which differ from run to run."""
    weighed = summary["candidates"]
    kept = [{key: item for key, item in one.items() if key != "seconds"} for one in weighed]
    return {**summary, "candidates": kept}


def summary_in(source: SourceTable) -> SavedRun:
    """Return how the labels of a table were found, if its metadata hold a summary."""
    text = (source.table.schema.metadata or {}).get(_KEY)
    return SavedRun() if text is None else _saved_run(text, source.name)


def read_summary(path: Path) -> SavedRun:
    """Return how labels were found, from a file that holds a summary as JSON."""
    require_file(path)
    return _saved_run(path.read_bytes(), path.name)


def _saved_run(text: bytes, name: str) -> SavedRun:
    try:
        summary = json.loads(text, parse_constant=_no_number)
        models = summary["models"]
        runs = {
            "" if list(models) == [_ALL] else str(group): _run(model)
            for group, model in models.items()
        }
        notes = tuple(map(str, summary["notes"]))
        return SavedRun(runs, str(summary["decode"]), str(summary["command"]), notes)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise FileError(
            name,
            "no summary of a run",
            "the summary, as JSON, of a run that labeled rows",
            hint("name that file with {summary}, or leave it out"),
        ) from None


def _run(model: dict[str, Any]) -> Run:
    return Run(
        method=str(model["method"]),
        settings={str(key): str(value) for key, value in model["settings"].items()},
        graph=str(model["graph"]),
        status=str(model["status"]),
        success=bool(model["success"] if "success" in model else model["as_asked"]),  # 0.1.0
        n_iter=None if model["n_iter"] is None else int(model["n_iter"]),
        energies=[float(energy) for energy in model["energies"]],
        stationarity=None if model["stationarity"] is None else float(model["stationarity"]),
        residual=None if model["residual"] is None else float(model["residual"]),
        unique=None if model["unique"] is None else bool(model["unique"]),
    )


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number in JSON")


def _plain(value: Any, names: Names) -> Any:
    """Return what JSON can hold."""
    if isinstance(value, dict):
        return {key: _plain(item, names) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, names) for item in value]
    if isinstance(value, Advice):
        return rendered(value, names)
    return None if isinstance(value, float) and not math.isfinite(value) else value
