"""`apportion diagnose`: what the bags can tell apart, before anything is fitted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import apportion
from apportion.cli.inputs import read_inputs
from apportion.cli.options import KnownOptions, with_groups
from apportion.cli.summary import as_json
from apportion.cli.talk import print_out, say, stages, with_exit_codes
from apportion.diagnosis import diagnose as diagnosis_of


@with_exit_codes
@with_groups
def diagnose(
    readings: Annotated[
        Path,
        typer.Argument(
            help="The rows: a CSV, Parquet or ARFF file.",
            metavar="READINGS",
            show_default=False,
            readable=False,
        ),
    ],
    known: KnownOptions,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the findings only.")] = False,
) -> None:
    """Tell which classes the bags of READINGS can, and cannot, tell apart.

    Nothing is labelled and no feature is looked at. An information index near 0 means that all bags
    are alike, 1 that every bag holds one class.
    """
    with stages(quiet):
        inputs = read_inputs(readings, known)
    say(inputs.rules, quiet, "rules, each an option:")
    say(inputs.notes, quiet)
    found = diagnosis_of(inputs.known.bags, inputs.known.totals, y=inputs.known.given)
    if not json:
        print_out(str(found))
        if not found.findings:
            print_out("no two classes stand in the same, or almost the same, ratio in every bag")
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
        "rank": found.rank,
        "smallest_singular_value": found.smallest_singular_value,
        "pairs": pairs,
        "uninformative": found.uninformative,
        "findings": list(found.findings),
        "rules": inputs.rules,
        "notes": inputs.notes,
    }
    print_out(as_json(answer))
