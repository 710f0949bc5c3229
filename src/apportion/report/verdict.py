"""The verdict: in one sentence, whether the labels can be relied on, and why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from apportion.exceptions import counted, plural
from apportion.report.contents import Contents

Level = Literal["sound", "care", "doubt"]

_OFF, _FAR_OFF = 0.01, 0.1
_SOME = 0.05
_LITTLE_AGREEMENT = 0.4


@dataclass(frozen=True)
class Verdict:
    """Whether labels can be relied on.

    Attributes
    ----------
    level : {"sound", "care", "doubt"}
        How far.
    sentence : str
        The verdict.
    concerns : tuple of str
        What speaks against the labels, the gravest first, and what would help.
    """

    level: Level
    sentence: str
    concerns: tuple[str, ...]


def verdict_on(contents: Contents) -> Verdict:
    """Return whether the labels can be relied on, as far as can be told without the truth."""
    grave, light = _bags(contents), _rows(contents)
    doubts = [text for is_grave, text in grave if is_grave]
    cares = [text for is_grave, text in grave if not is_grave] + light
    level: Level = "doubt" if doubts else "care" if cares else "sound"
    return Verdict(level, _sentence(contents, level), (*doubts, *cares))


def _sentence(contents: Contents, level: Level) -> str:
    n = int((contents.places >= 0).sum())
    who = "All" if n == contents.n_samples else f"{n:,} of"
    off = contents.report.error()
    kept = (
        f"every {contents.bag_word} keeps its totals"
        if off < 5e-4
        else f"{off:.1%} of the rows in {plural(contents.bag_word)} are off their totals"
    )
    agreement = agreement_of(contents)
    similar = "" if agreement is None else f", and {agreement.share:.0%} of their neighbors agree"
    words = {
        "sound": "nothing that shows without true labels speaks against them",
        "care": "look at the points below before you use them",
        "doubt": "do not rely on them before the points below are settled",
    }
    return f"{who} {contents.n_samples:,} rows have a label, {kept}{similar}: {words[level]}."


class Agreement(NamedTuple):
    """How often similar rows have one label, and how often they would by chance."""

    share: float
    by_chance: float

    @property
    def beyond_chance(self) -> float:
        """0: as often as by chance, 1: always."""
        return (self.share - self.by_chance) / max(1.0 - self.by_chance, 1e-9)


def agreement_of(contents: Contents) -> Agreement | None:
    """Return how far the most similar rows of those on the maps have their label.

    Rows without a label neither agree nor disagree.
    """
    places = contents.places
    same = everything = 0.0
    for one in contents.maps.values():
        own, others = places[one.rows][:, None], places[one.neighbors]
        labeled = (one.neighbors >= 0) & (own >= 0) & (others >= 0)
        alike = labeled & (others == own)
        same += float(one.similarity[alike].sum())
        everything += float(one.similarity[labeled].sum())
    if everything <= 0:
        return None
    shares = np.bincount(places[places >= 0]) / (places >= 0).sum()
    return Agreement(same / everything, float((shares**2).sum()))


def _bags(contents: Contents) -> list[tuple[bool, str]]:
    """Return what is wrong with bags and runs, and whether that is grave."""
    bag = contents.bag_word
    found: list[tuple[bool, str]] = []
    several = len(contents.diagnoses) > 1
    for group, diagnosis in contents.diagnoses.items():
        where = f"{group}: " if several else ""
        found += [(diagnosis.uninformative, f"{where}{text}") for text in diagnosis.findings]
    for group, run in contents.runs.items():
        where = f"{group}: " if len(contents.runs) > 1 else ""
        if not run.success:
            found.append((True, f"{where}{run.method} {run.status}."))
        if run.unique is False:
            found.append(
                (True, f"{where}The totals admit several labelings; the smoothest was kept.")
            )
    off = contents.report.error()
    if off > _OFF:
        text = (
            f"{off:.1%} of the rows in {plural(bag)} are off their {bag}'s totals: "
            f"see the table of {plural(bag)}."
        )
        found.append((off > _FAR_OFF, text))
    return found


def _rows(contents: Contents) -> list[str]:
    """Return what is wrong with many rows."""
    n, found = contents.n_samples, []
    counts = contents.reasons
    for code, text in (
        ("tie", "have a label that only a tie-break decided"),
        ("isolated", "have almost no similar row: look for outliers and unscaled features"),
        ("out-of-reach", "are out of reach of any total or given label"),
        ("missing-features", "have less than half of the features that rows usually have"),
    ):
        count = counts.get(code, 0)
        if count > _SOME * n:
            who = "All rows" if count == n else f"{counted(count, 'row')} ({count / n:.0%})"
            found.append(f"{who} {text}.")
    agreement = agreement_of(contents)
    if agreement is not None and agreement.beyond_chance < _LITTLE_AGREEMENT:
        found.append(
            f"Similar rows often have different labels: {agreement.share:.0%} agree, and "
            f"{agreement.by_chance:.0%} would by chance. Classes overlap in these features, or "
            f"{plural(contents.bag_word)} are few or alike."
        )
    return found
