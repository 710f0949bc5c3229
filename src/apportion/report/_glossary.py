"""The terms of the method in plain English, for the report and the console."""

from __future__ import annotations

import re

from apportion.exceptions import plural


def glossary(bag: str = "bag", *, calibrated: bool = False) -> dict[str, str]:
    """Return the terms that an analyst may not know, with their meanings.

    Parameters
    ----------
    bag : {"bag", "entry"}, default="bag"
        What a group of rows with known totals is called; the groups of a diary are its entries.
    calibrated : bool, default=False
        Whether soft labels are probabilities, because they were calibrated by held-out totals.

    Returns
    -------
    dict of str to str
        One clause per term.

    Examples
    --------
    >>> glossary("entry")["quota"]
    'every entry gets as many rows of each class as its totals say'
    """
    return {
        "bag": "a group of rows whose class totals were given",
        "entry": "what the diary says about one period, such as a day, and the rows recorded in it",
        "mass": "how much of a row belongs to a class, from 0 to 1, which ranks rows and is not a "
        "probability of being right",
        "probability": "of 100 rows with a probability of 0.8, about 80 should be right, as far as "
        "held-out totals tell",
        "confidence": f"the {'probability' if calibrated else 'mass'} of the label that the row "
        "got",
        "held out": f"the totals of some {plural(bag)} are kept from the methods, which predict "
        "them",
        "estimated accuracy": "the share of right labels, found without any true label: from how "
        "sure the methods are, once held-out totals have shown how far that can be trusted",
        "calibration": "probabilities are sharpened or flattened until they predict held-out "
        "totals best",
        "weight": "the part of a method in the average of all; the better it predicts held-out "
        "totals, the larger it is",
        "quota": f"every {bag} gets as many rows of each class as its totals say",
        "sequence": f"every {bag} gets its counts, and labels change as seldom as activities do",
        "threshold": "every row gets the class of its largest mass, whatever the totals say",
        "episode": "a run of rows that follow each other in time and have one label; it counts in "
        f"the {bag} that it begins in",
        "off totals": f"rows that would have to change class for their {bag} to meet its totals",
        "information index": "how well the totals tell classes apart, from 0, where they stand in "
        f"the same ratio in every {bag}, to 1, where no {bag} has more than one of them",
        "rank": "the largest number of classes that the totals could tell apart",
        "energy": "what the method minimizes, the disagreement between similar rows",
        "stationarity": "how far soft labels would still move in one more step, relative to their "
        "size",
        "residual": f"the largest error in a total of the soft labels, relative to its {bag}'s "
        "size",
    }


class Explanations:
    """Explain every term where it is first used, and only there.

    Parameters
    ----------
    bag : {"bag", "entry"}, default="bag"
        What a group of rows with known totals is called.
    calibrated : bool, default=False
        Whether soft labels are probabilities.

    Examples
    --------
    >>> explain = Explanations()
    >>> explain("confidence"), explain("confidence")
    (' (the mass of the label that the row got)', '')
    """

    def __init__(self, bag: str = "bag", *, calibrated: bool = False) -> None:
        self.bag = bag
        self._left = glossary(bag, calibrated=calibrated)

    def __call__(self, term: str) -> str:
        """Return the meaning in parentheses, or nothing if the term was explained before."""
        clause = self._left.pop(term, None)
        return f" ({clause})" if clause else ""

    def used_in(self, text: str) -> list[tuple[str, str]]:
        """Return the terms of a text that were not explained before, with their meanings."""
        words = set(re.findall(r"\w+", text))
        terms = [term for term in self._left if words.issuperset(term.split())]
        return [(term, self._left.pop(term)) for term in terms]

    def lines(self, *terms: str) -> list[str]:
        """Return the meanings of terms that were not explained before, one line per term."""
        return [f"{term}: {self._left.pop(term)}" for term in terms if term in self._left]
