"""`apportion diagnose`: what the bags can tell apart, before anything is fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apportion.cli.console import OPTIONS, print_notes, print_out, stages, with_exit_codes
from apportion.cli.options import OUTPUT, KnownOptions, with_groups
from apportion.exceptions import name_some

if TYPE_CHECKING:
    from apportion.report._glossary import Explanations
    from apportion.supervision.diagnosis import Diagnosis


@dataclass(kw_only=True)
class PrintOptions:
    """How findings are printed."""

    json: bool = OUTPUT(False, "Print the findings as JSON.")
    quiet: bool = OUTPUT(False, "Print the findings only.", "--quiet", "-q")


@with_exit_codes
@with_groups
def diagnose(known: KnownOptions, out: PrintOptions) -> None:
    """Show which classes the totals, or the diary, tell apart.

    Nothing is labeled and no feature is looked at. An information index near 0 means that all
    bags, or the diary's entries, are alike; 1 that each of them holds one class only.
    """
    from apportion.labeling._from_options import read_supervised
    from apportion.labeling._summary import as_json, diagnosis_summary
    from apportion.report._glossary import Explanations
    from apportion.supervision.diagnosis import diagnose as diagnosis_of

    with stages(out.quiet):
        task = read_supervised(known)
    explain = Explanations(task.bag_word)
    print_notes(explain.lines(task.bag_word), out.quiet or out.json)
    print_notes(task.rules, out.quiet, "rules, each an option:")
    print_notes(task.notes, out.quiet)
    supervision = task.supervision
    diagnosis = diagnosis_of(supervision.bags, supervision.totals, y=supervision.given)
    if out.json:
        print_out(as_json(diagnosis_summary(diagnosis, task.rules, task.notes), OPTIONS))
    else:
        print_out("\n".join(_in_words(diagnosis, explain)))


def _in_words(diagnosis: Diagnosis, explain: Explanations) -> list[str]:
    """Return what the totals can tell apart, the plainest first."""
    from apportion.supervision.diagnosis import placing_sentences

    lines = list(diagnosis.findings) or [
        f"No two classes stand in the same, or almost the same, ratio in every {explain.bag}."
    ]
    if len(diagnosis.classes) > 2 and diagnosis.hardest_pair is not None:
        index, first, second = diagnosis.hardest_pair
        lines.append(
            f"Hardest to tell apart: {first!r} and {second!r}, information index {index:.3f}"
            f"{explain('information index')}."
        )
    n_present = len(diagnosis.classes) - len(diagnosis.absent)
    lines.append(
        f"All classes: information index {diagnosis.index:.3f}{explain('information index')}, rank "
        f"{diagnosis.rank} of {n_present}{explain('rank')}, smallest singular value "
        f"{diagnosis.smallest_singular_value:.3g} (near 0, small errors in the totals do much "
        "harm)."
    )
    if diagnosis.absent:
        names = name_some(map(repr, diagnosis.absent), 12)
        lines.append(f"Not counted, because all their totals are 0: {names}.")
    found = placing_sentences({"": diagnosis.hard_to_place})
    return lines + [f"{sentence[0].upper()}{sentence[1:]}." for sentence in found]
