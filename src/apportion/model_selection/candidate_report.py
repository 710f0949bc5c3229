"""A report of the methods that were weighed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from apportion._utils.html_table import HTMLTable
from apportion.bag_report import aligned, as_frame

_SHOWN = 25
"""The number of methods that a notebook shows: all that have names, and some more."""


@dataclass(frozen=True)
class WeighedCandidate:
    """A method, and what held-out totals say about it.

    Attributes
    ----------
    name : str
        The name of the candidate.
    weight : float
        Its weight in the average.
    log_likelihood : float
        The log-likelihood of the held-out totals under its calibrated probabilities, minus that of
        a model that knows the class shares only; NaN if nothing could be held out.
    temperature : float
        The exponent of its probabilities: below 1 if it is too sure, above if not sure enough, 0
        if it knows nothing.
    dispersion : float
        The between-bag variance of its errors.
    seconds : float
        The time of all its fits.
    notes : tuple of str
        What it warned of.
    """

    name: str
    weight: float
    log_likelihood: float
    temperature: float
    dispersion: float
    seconds: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CandidateReport:
    """The methods that were weighed, best first, and those that were left out.

    Attributes
    ----------
    candidates : tuple of WeighedCandidate
        The methods that were weighed, by weight.
    n_held_out : int
        The number of bags, and of labeled rows, whose totals were held out.
    reason : str
        Where the weights come from, if nothing was held out.
    left_out : dict of str to str
        The methods that were not weighed, and why.
    calibrated : bool
        Whether held-out totals tell how sure the methods may be, so that soft labels are
        probabilities.
    about_time : str
        Whether activities last, and how that is known; empty without times.
    about_graph : str
        Why the average is smoothed on a graph; empty if it is not.

    Examples
    --------
    >>> report = CandidateReport((WeighedCandidate("gp", 1.0, 12.5, 0.9, 0.0, 0.3),), 40)
    >>> print(report)
    method  weight  log-likelihood  temperature  dispersion  seconds
        gp    1.00            12.5         0.90       0.000      0.3
    log-likelihood: of 40 held-out bags, above that of the class shares alone
    """

    candidates: tuple[WeighedCandidate, ...]
    n_held_out: int
    reason: str = ""
    left_out: dict[str, str] = field(default_factory=dict)
    calibrated: bool = False
    about_time: str = ""
    about_graph: str = ""

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Return a dataframe with one row per method.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
            The library of the dataframe.

        Returns
        -------
        dataframe
            Columns: method, weight, log_likelihood, temperature, dispersion, seconds, notes.
        """
        columns: dict[str, list[Any]] = {
            "method": [c.name for c in self.candidates],
            "weight": [c.weight for c in self.candidates],
            "log_likelihood": [c.log_likelihood for c in self.candidates],
            "temperature": [c.temperature for c in self.candidates],
            "dispersion": [c.dispersion for c in self.candidates],
            "seconds": [c.seconds for c in self.candidates],
            "notes": ["; ".join(c.notes) for c in self.candidates],
        }
        return as_frame(columns, backend)

    def __str__(self) -> str:
        return "\n".join([*aligned(self._cells()), *self._notes()])

    def _cells(self) -> list[list[str]]:
        """Return the header and one row per method."""
        lines = [["method", "weight", "log-likelihood", "temperature", "dispersion", "seconds"]]
        for c in self.candidates:
            cells = [f"{c.weight:.2f}", f"{c.log_likelihood:.1f}", f"{c.temperature:.2f}"]
            lines.append([c.name, *cells, f"{c.dispersion:.3f}", f"{c.seconds:.1f}"])
        return lines

    def _notes(self) -> list[str]:
        """Return where the weights come from, and which methods were left out."""
        text = [
            f"log-likelihood: of {self.n_held_out} held-out bags, above that of the class shares "
            "alone"
            if self.n_held_out
            else self.reason
        ]
        text += [f"left out: {name}, {reason}" for name, reason in self.left_out.items()]
        text += [f"time: {self.about_time}"] if self.about_time else []
        text += [f"graph: {self.about_graph}"] if self.about_graph else []
        return text

    def _repr_html_(self) -> str:
        """Return a table for notebooks, one row per method."""
        header, *rows = self._cells()
        table = HTMLTable(
            "Methods by weight",
            header,
            rows[:_SHOWN],
            n_left=max(len(rows) - _SHOWN, 0),
            row_word="methods",
            notes=[note for note in self._notes() if note],
        )
        return str(table)
