"""The verdict of a report: whether the labels can be relied on, and what speaks against them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from apportion.exceptions import counted
from apportion.report._reliability import accuracy_in_words, overall_estimate
from apportion.report._report_data import ReportData

# The thresholds are rules of thumb. Totals that 1 % of the rows miss are worth a look, and a tenth
# means that totals and labels do not belong together. Reasons matter when they hold for more than
# 5 % of the rows. An agreement of less than 0.4, where 0 is chance and 1 is perfect (as Cohen's
# kappa, 1960), is commonly called poor to fair. If a quarter of the labels are wrong by the
# estimate from held-out totals, averages of many rows may still be used; if half are, nothing.
_OFF, _FAR_OFF = 0.01, 0.1
_MANY_ROWS = 0.05
_LOW_AGREEMENT = 0.4
_WRONG, _MOSTLY_WRONG = 0.25, 0.5

_ADVICE = {
    "sound": "nothing that shows without true labels speaks against them",
    "care": "look at the points below before you use them",
    "doubt": "do not rely on them before the points below are settled",
}
_CONCERNS = {
    "tie": "have a label that only a tie-break decided",
    "isolated": "have almost no similar row: look for outliers and unscaled features",
    "out-of-reach": "are out of reach of any total or given label",
    "missing-features": "have less than half of the features that rows usually have",
}
"""The reason codes that speak against labels if many rows have them."""


@dataclass(frozen=True)
class Verdict:
    """Whether labels can be relied on.

    Attributes
    ----------
    level : {"sound", "care", "doubt"}
        How far they can be relied on.
    sentence : str
        The verdict; it begins with the estimated accuracy, if there is one.
    concerns : tuple of str
        What speaks against the labels, the most serious first, and what would help.
    """

    level: Literal["sound", "care", "doubt"]
    sentence: str
    concerns: tuple[str, ...]


class Agreement(NamedTuple):
    """How often similar rows have the same label, and how often they would by chance."""

    share: float
    by_chance: float

    @property
    def beyond_chance(self) -> float:
        """The agreement on a scale where 0 is chance and 1 is perfect."""
        return (self.share - self.by_chance) / max(1.0 - self.by_chance, 1e-9)


def verdict_on(data: ReportData) -> Verdict:
    """Return whether the labels can be relied on, as far as this shows without true labels."""
    off, agreement = data.report.error(), agreement_of(data)
    doubts, concerns = _concerns_about_runs(data)
    more_doubts, more_concerns = _concerns_about_accuracy(data)
    doubts, concerns = [*more_doubts, *doubts], [*more_concerns, *concerns]
    if off > _OFF:
        (doubts if off > _FAR_OFF else concerns).append(
            f"{off:.1%} of the rows in {data.bag_plural} are off their {data.bag_word}'s totals: "
            f"see the table of {data.bag_plural}."
        )
    concerns += _concerns_about_rows(data, agreement)
    level: Literal["sound", "care", "doubt"]
    level = "doubt" if doubts else "care" if concerns else "sound"
    n_labeled = int((data.label_codes >= 0).sum())
    n = data.n_samples
    count = f"All {n:,}" if n_labeled == n else f"{n_labeled:,} of {n:,}"
    kept = f"{off:.1%} of the rows in {data.bag_plural} are off their totals"
    if off < 5e-4:  # 0.0% in print
        kept = f"every {data.bag_word} keeps its totals"
    similar = "" if agreement is None else f", and {agreement.share:.0%} of their neighbors agree"
    accuracy = accuracy_in_words(data.reliability, data.bag_word)
    sentence = f"{count} rows have a label, {kept}{similar}: {_ADVICE[level]}."
    return Verdict(level, f"{accuracy} {sentence}".lstrip(), (*doubts, *concerns))


def agreement_of(data: ReportData) -> Agreement | None:
    """Return how often the most similar rows of those on the maps have the same label.

    Neighbors are weighted by their similarity; rows without a label do not count. By chance, two
    rows agree with probability Σ p², where p are the shares of the classes.
    """
    codes = data.label_codes
    same = total = 0.0
    for row_map in data.maps.values():
        own, others = codes[row_map.rows][:, None], codes[row_map.neighbors]
        labeled = (row_map.neighbors >= 0) & (own >= 0) & (others >= 0)
        same += float(row_map.similarity[labeled & (others == own)].sum())
        total += float(row_map.similarity[labeled].sum())
    if total <= 0:
        return None
    shares = np.bincount(codes[codes >= 0]) / (codes >= 0).sum()
    return Agreement(same / total, float((shares**2).sum()))


def _concerns_about_accuracy(data: ReportData) -> tuple[list[str], list[str]]:
    """Return what the estimated accuracy says against the labels: doubts, and concerns.

    Too few bags to hold any out say nothing against the labels; totals that leave the accuracy
    open do.
    """
    estimate, _ = overall_estimate(data.reliability)
    if estimate is not None and estimate.value is not None:
        wrong = 1.0 - estimate.value
        text = [f"About {wrong:.0%} of the labels are wrong, as far as held-out totals tell."]
        return (text, []) if wrong > _MOSTLY_WRONG else ([], text if wrong > _WRONG else [])
    if not any(part.totals.n_known for part in data.reliability.values()):
        return [], []
    return [], [
        "The totals leave open how many labels are right: compare some with the truth, or give "
        f"totals of more {data.bag_plural}."
    ]


def _concerns_about_runs(data: ReportData) -> tuple[list[str], list[str]]:
    """Return what speaks against totals and runs: serious doubts, and concerns."""
    doubts: list[str] = []
    concerns: list[str] = []
    for group, diagnosis in data.diagnoses.items():
        prefix = f"{group}: " if len(data.diagnoses) > 1 else ""
        findings = [f"{prefix}{finding}" for finding in diagnosis.findings]
        (doubts if diagnosis.uninformative else concerns).extend(findings)
    for group, run in data.runs.items():
        prefix = f"{group}: " if len(data.runs) > 1 else ""
        if not run.success:
            doubts.append(f"{prefix}{run.method} {run.status}.")
        if run.unique is False:
            doubts.append(f"{prefix}The totals admit several labelings; the smoothest was kept.")
    return doubts, concerns


def _concerns_about_rows(data: ReportData, agreement: Agreement | None) -> list[str]:
    """Return what speaks against the labels of many rows."""
    n, concerns = data.n_samples, []
    for code, text in _CONCERNS.items():
        count = data.reasons.get(code, 0)
        if count > _MANY_ROWS * n:
            rows = "All rows" if count == n else f"{counted(count, 'row')} ({count / n:.0%})"
            concerns.append(f"{rows} {text}.")
    if agreement is not None and agreement.beyond_chance < _LOW_AGREEMENT:
        concerns.append(
            f"Similar rows often have different labels: {agreement.share:.0%} agree, and "
            f"{agreement.by_chance:.0%} would by chance. Classes overlap in these features, or "
            f"{data.bag_plural} are few or alike."
        )
    return concerns
