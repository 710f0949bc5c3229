"""A run in JSON: what was found, and how; to print, to keep in Parquet, and to read again."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import apportion
from apportion._io.file_kinds import require_file
from apportion.cli.method import run_in_options
from apportion.exceptions import FileError
from apportion.labeling.rows import Answer, Labeled, kept_and_uncertain, reasons_of
from apportion.report import Run

_KEY = b"apportion"
_ALL = "all"


@dataclass(frozen=True)
class SavedRun:
    """How labels in a file were found, as far as that is known.

    Attributes
    ----------
    runs : dict of str to Run
        How the models were fitted, by group.
    decode : str
        How labels were decoded; empty where it is not known.
    command : str
        The command; empty where it is not known.
    notes : tuple of str
        What was told.
    """

    runs: dict[str, Run] = field(default_factory=dict)
    decode: str = ""
    command: str = ""
    notes: tuple[str, ...] = ()


def summary_of(
    found: Labeled,
    rules: list[str],
    notes: list[str],
    command: str,
    abstain_below: float | None = None,
) -> dict[str, Any]:
    """Return what was found, and how, for machines."""
    report = found.report
    classes = [str(label) for label in report.classes.tolist()]
    assigned = report.assigned[report.decode]
    return {
        "apportion": apportion.__version__,
        "command": command,
        "rows": len(found.labels),
        "classes": classes,
        "decode": report.decode,
        "assigned": dict(Counter(str(one) for one in found.labels.tolist() if one is not None)),
        **labelled_share(found, abstain_below),
        "bag_error": report.error(),
        "reasons": reasons_of(found),
        "bags": [
            {
                "bag": str(bag),
                "rows": int(report.sizes[k]),
                "given": {
                    name: [float(report.lower[k, h]), float(report.upper[k, h])]
                    for h, name in enumerate(classes)
                },
                "assigned": {name: int(assigned[k, h]) for h, name in enumerate(classes)},
            }
            for k, bag in enumerate(report.ids)
        ],
        "models": {
            _ALL if group is None else str(group): {
                **asdict(run_in_options(model)),
                "iterations": model.n_iter_,
                "information_index": model.diagnosis_.index,
            }
            for group, model in found.models.items()
        },
        "rules": rules,
        "notes": notes,
    }


def labelled_share(found: Answer, abstain_below: float | None) -> dict[str, Any]:
    """Return below which confidence rows have no label, and what share of them keeps one."""
    kept, uncertain = kept_and_uncertain(found)
    share = kept / max(kept + uncertain, 1)
    return {"abstain_below": abstain_below, "labelled_share": share}


def as_json(answer: dict[str, Any]) -> str:
    """Return an answer as JSON, with null for a number that is not finite."""
    text = json.dumps(_finite(answer), indent=2, ensure_ascii=False, allow_nan=False)
    # The name of a file may be no text: a lone surrogate is written as its escape.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def with_summary(table: Any, summary: dict[str, Any]) -> Any:
    """Return a table that tells, as Parquet, how it was found; all but what its bags have."""
    short = {key: value for key, value in summary.items() if key != "bags"}
    metadata = {**(table.schema.metadata or {}), _KEY: as_json(short).encode()}
    return table.replace_schema_metadata(metadata)


def summary_in(table: Any, path: Path) -> SavedRun:
    """Return how the labels of a table were found, if it was written to tell."""
    text = (table.schema.metadata or {}).get(_KEY)
    return SavedRun() if text is None else _saved_run(text, path.name)


def read_summary(path: Path) -> SavedRun:
    """Return how labels were found, from a file of what `--json` printed."""
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
        return SavedRun(
            runs, str(summary["decode"]), str(summary["command"]), tuple(map(str, summary["notes"]))
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise FileError(
            name,
            "no summary of a run",
            "what 'apportion label --json' prints",
            "name that file with --summary, or leave it out",
        ) from None


def _run(model: dict[str, Any]) -> Run:
    return Run(
        method=str(model["method"]),
        settings={str(key): str(value) for key, value in model["settings"].items()},
        graph=str(model["graph"]),
        status=str(model["status"]),
        success=bool(model["success"]),
        n_iter=None if model["n_iter"] is None else int(model["n_iter"]),
        energies=[float(one) for one in model["energies"]],
        stationarity=None if model["stationarity"] is None else float(model["stationarity"]),
        residual=None if model["residual"] is None else float(model["residual"]),
        unique=None if model["unique"] is None else bool(model["unique"]),
    )


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number in JSON")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
