"""The report of a command: what was read, found and run, as the contents of a page."""

from __future__ import annotations

import hashlib
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from apportion._io.identifiers import plain_name
from apportion._utils.typing import AnyArray, IntArray
from apportion.bag_report import BagReport
from apportion.cli.inputs import Inputs, times_of
from apportion.cli.method import run_in_options
from apportion.exceptions import OutputError
from apportion.labeling.rows import Answer, Labeled
from apportion.report import ReportData, Run, require_tools
from apportion.report._report_data import maps_of, name_of
from apportion.report._row_map import RowMap
from apportion.supervision.diagnosis import Diagnosis

_ENDINGS = (".html", ".htm")


def require_page(path: Path) -> None:
    """Raise, before any work, where a report could not be made."""
    if path.suffix.lower() not in _ENDINGS:
        raise OutputError(
            f"{path} cannot be written: a report is an .html file. Give it that ending."
        )
    require_tools()


def command_line() -> str:
    """Return the command that is running."""
    return shlex.join(["apportion", *sys.argv[1:]])


def contents_of_fit(
    found: Labeled,
    inputs: Inputs,
    *,
    ids: str | None,
    command: str,
    files: Iterable[Path | None],
    notes: Sequence[str],
) -> ReportData:
    """Return what there is to tell of rows that were just labeled."""
    maps, no_map = maps_of(found.rows, lambda group: found.models[group].graph_)
    return contents_of(
        found,
        found.report,
        {name_of(group): model.diagnosis_ for group, model in found.models.items()},
        {name_of(group): run_in_options(model) for group, model in found.models.items()},
        inputs,
        maps=maps,
        no_map=no_map,
        ids=ids,
        title="",
        command=command,
        files=files,
        notes=notes,
    )


def contents_of(
    answer: Answer,
    report: BagReport,
    diagnoses: Mapping[str, Diagnosis],
    runs: Mapping[str, Run],
    inputs: Inputs,
    *,
    maps: Mapping[str, RowMap],
    no_map: str,
    ids: str | None,
    title: str,
    command: str,
    files: Iterable[Path | None],
    notes: Sequence[str],
) -> ReportData:
    """Return what there is to tell of labeled rows."""
    times, _, why = times_of(inputs.table, inputs.times, inputs.roles)
    return ReportData(
        title=title or f"Labels of {inputs.path.name}",
        answer=answer,
        bag_word=inputs.bag_word,
        bag_codes=bag_codes(inputs.known.bags, answer, report),
        report=report,
        diagnoses=diagnoses,
        runs=runs,
        times=times,
        maps=maps,
        no_map=no_map,
        names=None if ids is None else _names(inputs.table, ids),
        command=command,
        facts=_fingerprints(path for path in files if path is not None),
        rules=tuple(inputs.rules),
        notes=(*notes, *[why] * bool(why)),
    )


def bag_codes(bags: AnyArray, answer: Answer, report: BagReport) -> IntArray:
    """Return the bag of each row that the report counts, as a position in it; -1 = in none.

    It counts rows that have a label, or would have one if they were not uncertain.
    """
    place = {bag: k for k, bag in enumerate(report.ids)}
    codes = np.array([place.get(bag, -1) for bag in bags.tolist()], dtype=np.intp)
    return np.where(np.isfinite(answer.confidence), codes, -1)


def _names(table: Any, ids: str) -> AnyArray:
    return np.array([plain_name(one) for one in table.column(ids).to_pylist()], dtype=object)


def _fingerprints(files: Iterable[Path]) -> dict[str, str]:
    """Return the sizes and digests of files, by name, or by path where two have one name."""
    found: dict[str, str] = {}
    for path in files:
        found[str(path) if path.name in found else path.name] = _fingerprint(path)
    return found


def _fingerprint(path: Path) -> str:
    """Return the size and the digest of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{path.stat().st_size:,} bytes, sha256 {digest}"
