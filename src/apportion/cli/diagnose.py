"""`apportion diagnose`: what the bags can tell apart, before anything is fitted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import apportion
from apportion.cli.console import print_notes, print_out, stages, with_exit_codes
from apportion.cli.inputs import read_inputs
from apportion.cli.options import KnownOptions, with_groups
from apportion.cli.summary import as_json
from apportion.exceptions import name_some
from apportion.report._glossary import Explanations
from apportion.supervision.diagnosis import Diagnosis
from apportion.supervision.diagnosis import diagnose as diagnosis_of


@with_exit_codes
@with_groups
def diagnose(
    readings: Annotated[
        Path,
        typer.Argument(
            help="The rows: a CSV (also .csv.gz), Parquet, .xlsx or ARFF file.",
            metavar="READINGS",
            show_default=False,
            readable=False,
        ),
    ],
    known: KnownOptions,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the findings only.")] = False,
) -> None:
    """Show which classes the totals, or the diary, of READINGS can and cannot tell apart.

    Nothing is labeled and no feature is looked at. An information index near 0 means that all
    bags, or the diary's entries, are alike; 1 that each of them holds one class only.
    """
    with stages(quiet):
        inputs = read_inputs(readings, known)
    explain = Explanations(inputs.bag_word)
    print_notes(explain.lines(inputs.bag_word), quiet or json)
    print_notes(inputs.rules, quiet, "rules, each an option:")
    print_notes(inputs.notes, quiet)
    found = diagnosis_of(inputs.known.bags, inputs.known.totals, y=inputs.known.given)
    if not json:
        print_out("\n".join(_in_words(found, explain)))
        return
    classes = [str(label) for label in found.classes.tolist()]
    pairs = [
        {"classes": [classes[g], classes[h]], "information_index": float(found.pairwise[g, h])}
        for g in range(len(classes))
        for h in range(g + 1, len(classes))
        if np.isfinite(found.pairwise[g, h])
    ]
    answer = {
        "apportion": apportion.__version__,
        "classes": classes,
        "information_index": found.index,
        "absent_classes": [str(label) for label in found.absent],
        "rank": found.rank,
        "smallest_singular_value": found.smallest_singular_value,
        "pairs": pairs,
        "uninformative": found.uninformative,
        "findings": list(found.findings),
        "rules": inputs.rules,
        "notes": inputs.notes,
    }
    print_out(as_json(answer))


def _in_words(found: Diagnosis, explain: Explanations) -> list[str]:
    """Return what the totals can tell apart, the plainest first."""
    lines = list(found.findings) or [
        f"No two classes stand in the same, or almost the same, ratio in every {explain.bag}."
    ]
    if len(found.classes) > 2 and found.hardest_pair is not None:
        index, one, other = found.hardest_pair
        lines.append(
            f"Hardest to tell apart: {one!r} and {other!r}, information index {index:.3f}"
            f"{explain('information index')}."
        )
    n_present = len(found.classes) - len(found.absent)
    lines.append(
        f"All classes: information index {found.index:.3f}{explain('information index')}, rank "
        f"{found.rank} of {n_present}{explain('rank')}, smallest singular value "
        f"{found.smallest_singular_value:.3g} (near 0, small errors in the totals do much harm)."
    )
    if found.absent:
        names = name_some(map(repr, found.absent), 12)
        lines.append(f"Not counted, because all their totals are 0: {names}.")
    return lines
