"""The figures printed in the paper, as data to show beside ours; nothing is tuned to them."""

from __future__ import annotations

from typing import NamedTuple


class Printed(NamedTuple):
    """A printed mean and standard deviation of 25 repetitions, and the notes that go with it."""

    mean: float
    std: float
    notes: str = ""


REPETITIONS = 25

NOTES = {
    "a": "Table 1's InvCal column and Table 2's ∝SVM column are the same eight means: one of the "
    "two was pasted into the other's place.",
    "b": "A constant prediction: both designs have one half of each class in all.",
    "c": "So large a deviation means that repetitions are right or wrong as a whole: the classes "
    "are found, and in some repetitions their names are exchanged.",
    "d": "The paper says that ∝SVM did not converge on this table.",
}
"""Known slips, and what some printed figures mean, by the letter that marks them."""

_COLUMNS = ("prop-svm", "inv-cal", "lp-llp")

_TABLES: dict[str, str] = {
    "xor": """
        120A  .54 .19 -   .81 .08 a   .91 .14 -
        120B  .66 .46 c   .73 .05 a   .97 .04 -
        180A  .50 .04 -   .83 .08 a   .88 .18 -
        180B  .42 .09 -   .73 .06 a   .97 .03 -
        300A  .49 .06 -   .88 .13 a   .92 .12 -
        300B  .56 .07 -   .73 .04 a  1.00 .01 -
        600A  .45 .43 c   .94 .04 a   .99 .01 -
        600B  .67 .46 c   .69 .04 a   .99 .01 -
    """,
    "half-kernel": """
        120A  .81 .08 a   .46 .26 -   .58 .16 -
        120B  .73 .05 a   .56 .31 -   .74 .18 -
        180A  .83 .08 a   .63 .06 -   .59 .13 -
        180B  .73 .06 a   .50 .50 c   .93 .13 -
        300A  .88 .08 a   .67 .08 -   .84 .19 -
        300B  .73 .04 a   .50 .50 c   .96 .08 -
        600A  .94 .04 a   .70 .08 -   .96 .05 -
        600B  .69 .04 a   .74 .05 -  1.00 .00 -
    """,
    "sphere-1": """
         60A  .50 .00 bd  .58 .29 -   .76 .39 c
         60B  .50 .00 bd  .50 .00 b   .88 .29 -
        120A  .50 .00 bd  .54 .28 -   .59 .45 c
        120B  .50 .00 bd  .50 .00 b  1.00 .00 -
        180A  .52 .05 d   .56 .26 -   .80 .26 -
        180B  .50 .00 bd  .50 .00 b  1.00 .01 -
        240A  .50 .00 bd  .62 .19 -   .78 .16 -
        240B  .50 .00 bd  .50 .00 b   .98 .01 -
    """,
    "sphere-2": """
         60A  .48 .03 -   .54 .09 -   .53 .09 -
         60B  .47 .04 -   .54 .07 -   .50 .09 -
        120A  .47 .11 -   .47 .12 -   .50 .13 -
        120B  .44 .09 -   .57 .10 -   .58 .12 -
        180A  .60 .11 -   .65 .14 -   .60 .16 -
        180B  .51 .10 -   .57 .13 -   .65 .16 -
        240A  .68 .16 -   .58 .19 -   .56 .20 -
        240B  .34 .19 -   .54 .10 -   .74 .12 -
    """,
}


def _parse(text: str) -> dict[str, dict[str, Printed]]:
    rows: dict[str, dict[str, Printed]] = {}
    for line in text.split("\n"):
        if not line.strip():
            continue
        cell, *words = line.split()
        triples = zip(words[0::3], words[1::3], words[2::3], strict=True)
        rows[cell] = {
            method: Printed(float(mean), float(std), notes.replace("-", ""))
            for method, (mean, std, notes) in zip(_COLUMNS, triples, strict=True)
        }
    return rows


PRINTED: dict[str, dict[str, dict[str, Printed]]] = {
    section: _parse(text) for section, text in _TABLES.items()
}
"""Printed figures by section, cell (such as `"120A"`) and method."""


def best_printed(section: str, cell: str) -> float:
    """Return the best printed mean of any method."""
    return max(figure.mean for figure in PRINTED[section][cell].values())
