"""What `apportion` raises and warns about, each kind with a name of its own to filter by."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

PARAMETERS = {
    "max_iter": "max_iter",
    "tol": "tol",
    "alpha": "alpha",
    "n_probes": "n_probes",
    "n_neighbors": "n_neighbors of KNNGraph",
    "n_nearest": "n_nearest",
    "n_anchors": "n_anchors",
    "labels": "some labels in `y`",
    "meet_totals": "Use projection='nearest', or metric='euclidean' if the rows' degrees differ by "
    "many orders of magnitude",
    "mean_map": "Standardise the features, raise max_iter or lower C.",
    "exact_search": "Use KNNGraph(recall=1), or rescale the features.",
    "shorter_walk": "Lower alpha, or end the walk after some steps (`order`).",
    "fewer_steps": "Lower alpha, or use graph='anchor', which takes no steps.",
}
"""What the remedies of `Advice` name, in words of Python. The command line has its own words."""


class Advice(str):
    """A message whose remedy names parameters, for whoever has other names for them.

    As text it speaks of Python parameters; the command line renders it with its options.

    Parameters
    ----------
    facts : str
        What is the case.
    remedy : str
        What to do about it, with names of `PARAMETERS` in braces.

    Examples
    --------
    >>> message = Advice("The iterations ran out.", "Raise {max_iter}.")
    >>> print(message)
    The iterations ran out. Raise max_iter.
    >>> print(message.rendered({"max_iter": "--max-iter"}))
    The iterations ran out. Raise --max-iter.
    """

    facts: str
    remedy: str

    def __new__(cls, facts: str, remedy: str) -> Advice:
        """Return the text in words of Python, with its parts kept."""
        self = super().__new__(cls, f"{facts} {remedy.format_map(PARAMETERS)}")
        self.facts, self.remedy = facts, remedy
        return self

    def __reduce__(self) -> tuple[type[Advice], tuple[str, str]]:
        return Advice, (self.facts, self.remedy)

    def rendered(self, names: Mapping[str, str]) -> str:
        """Return the text with other names of parameters."""
        return f"{self.facts} {self.remedy.format_map(names)}"


def message_of(warning: Warning | str, prefix: str = "") -> str:
    """Return what a warning says, after a prefix; advice remains advice."""
    text = warning.args[0] if isinstance(warning, Warning) and warning.args else warning
    if isinstance(text, Advice):
        return Advice(f"{prefix}{text.facts}", text.remedy)
    return f"{prefix}{text}"


class InputError(ValueError):
    """Something given that cannot be used as it is.

    Every message has one form: where, what was found, what is allowed, how to mend it.
    """

    def __init__(self, where: str, found: str, allowed: str, mend: str) -> None:
        stop = "" if mend.endswith("?") else "."
        super().__init__(f"{where}: found {found}. Allowed: {allowed}. To mend: {mend}{stop}")
        self.where = where
        self.found = found
        self.allowed = allowed
        self.mend = mend

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str, str]]:
        return type(self), (self.where, self.found, self.allowed, self.mend)


class SupervisionError(InputError):
    """Bags, totals or labels that cannot be used as they are."""


class GivenLabelError(SupervisionError):
    """Labels of single rows that contradict the totals of their bag.

    Attributes
    ----------
    row : int
        One of the rows.
    bag : object
        Its bag.
    """

    def __init__(self, row: int, bag: Any, found: str, allowed: str, mend: str) -> None:
        super().__init__(f"row {row} in bag {bag!r}", found, allowed, mend)
        self.row = row
        self.bag = bag

    def __reduce__(self) -> Any:
        return type(self), (self.row, self.bag, self.found, self.allowed, self.mend)

    def at(self, row: int) -> GivenLabelError:
        """Return the same error about a row that has another number."""
        return GivenLabelError(row, self.bag, self.found, self.allowed, self.mend)


class FileError(InputError):
    """A file that cannot be read, or whose cells cannot be used as they are."""


class DiaryError(InputError):
    """A diary, or times of windows, that cannot be used as they are."""


class SavedModelError(InputError):
    """A saved model that cannot be read, or a model that cannot be saved."""


class ClusterError(InputError):
    """A cluster that cannot do the work."""


class OutputError(OSError):
    """A file that cannot be written; nothing was changed."""


class BagDesignWarning(UserWarning):
    """The totals cannot tell some classes apart."""


class AmbiguousTotalsWarning(UserWarning):
    """The totals admit several equally smooth labellings."""


class IsolatedRowsWarning(UserWarning):
    """Some rows have no, or almost no, similar rows to learn from; `rows` are their positions."""

    def __init__(self, message: str, rows: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.rows = tuple(rows)


class MissedNeighboursWarning(UserWarning):
    """An approximate search finds fewer of the true neighbours than was asked for."""


class DuplicateRowsWarning(UserWarning):
    """So many rows are equal that the graph cannot tell their neighbourhoods apart."""


def users_level() -> int:
    """Return the `stacklevel` at which a warning points to the first line outside this package."""
    package = f"{Path(__file__).parent}{os.sep}"
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    return level


def name_some(items: Iterable[object], most: int = 5) -> str:
    """Return the first few items as text, and how many were left out."""
    listed = list(items)
    text = ", ".join(str(item) for item in listed[:most])
    return text if len(listed) <= most else f"{text} and {len(listed) - most} more"


def counted(n: int, word: str) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "class"), counted(2, "entry")
    ('1 row', '1,200 classes', '2 entries')
    """
    return f"1 {word}" if n == 1 else f"{n:,} {plural(word)}"


def plural(word: str) -> str:
    """Return the plural of a word."""
    if word.endswith(("ry", "ty")):
        return f"{word[:-1]}ies"
    return f"{word}{'es' if word.endswith('s') else 's'}"


def compared(*numbers: float, digits: int = 6) -> list[str]:
    """Return numbers as text, with as many digits as it takes to see which of them differ.

    Whole numbers are written in full.

    Examples
    --------
    >>> compared(4.0, 4.0 + 1 / 3600, digits=4)
    ['4', '4.0003']
    >>> compared(1234567, 1 / 3)
    ['1234567', '0.3333333']
    """
    digits = max(digits, *(len(f"{abs(number):.0f}") for number in numbers))
    while digits < 17:
        texts = [f"{number:.{digits}g}" for number in numbers]
        same = (math.isclose(a, b, rel_tol=1e-12) for a, b in pairwise(sorted(numbers)))
        if len(set(texts)) >= len(numbers) - sum(same):
            return texts
        digits += 1
    return [f"{number:.17g}" for number in numbers]
