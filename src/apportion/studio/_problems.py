"""What cannot be done, in words for the page."""

from __future__ import annotations

from apportion.exceptions import InputError, Names, OutputError, rendered


class ProblemError(Exception):
    """A request that cannot be carried out.

    Parameters
    ----------
    problem : str
        Why, in a sentence or two.
    field : str, optional
        The setting, or the role of the file, that it is about.
    status : int, default=422
        The HTTP status of the answer.
    """

    def __init__(self, problem: str, field: str | None = None, status: int = 422) -> None:
        super().__init__(problem)
        self.problem, self.field, self.status = problem, field, status


class _PageNames(Names):
    """The settings as the page calls them."""

    def __missing__(self, parameter: str) -> str:
        return f"“{setting_words(parameter)}”"

    def with_value(self, parameter: str, value: str) -> str:
        """Return a setting with a value."""
        return f"{self[parameter]}: {value}"

    def quoted(self, parameter: str) -> str:
        """Return a setting as it stands at the head of a message."""
        return self[parameter]


def setting_words(name: str) -> str:
    """Return what a setting is called on the page.

    Examples
    --------
    >>> setting_words("day_start")
    'Day start'
    """
    return name.replace("_", " ").capitalize()


PAGE_NAMES = _PageNames(
    readings="“Windows”",
    proportions="“Totals”",
    given="“Known labels”",
    n_probes="“Probes”",
    n_neighbors="“Neighbors”",
    labels="some labels (“Known labels”)",
    meet_totals="Look for rows that are far from all others, and leave them out",
    exact_search="Scale the features alike (“Scale”).",
    shorter_walk="Lower “Alpha”.",
    fewer_steps="Lower “Alpha”, or use “Graph”: anchor, which takes no steps.",
    mean_map="Scale the features alike (“Scale”), or take another “Prior”.",
)
"""The names of parameters on the page, if they are not the words for a setting."""


def in_words(error: BaseException) -> str:
    """Return what an error says to the user of the page.

    An error that is no input's fault is a fault of this program, and says so.
    """
    if isinstance(error, InputError):
        return error.rendered(PAGE_NAMES)
    if isinstance(error, ProblemError):
        return error.problem
    text = rendered(error.args[0], PAGE_NAMES) if error.args else ""
    if isinstance(error, OutputError | ValueError | ModuleNotFoundError):
        return text or "The input cannot be used."
    if isinstance(error, MemoryError):
        return text or "There is not enough memory for this."
    if isinstance(error, OSError):
        return f"A file cannot be used: {error.strerror or error}."
    return f"A fault of this program: {type(error).__name__}: {error}. Please report it."


def field_of(error: BaseException, stored: dict[str, str]) -> str | None:
    """Return the setting or the file that an error is about, if that is known.

    Parameters
    ----------
    error : exception
        The error.
    stored : dict of str to str
        The names of the stored files, by role.
    """
    if isinstance(error, ProblemError):
        return error.field
    if not isinstance(error, InputError):
        return None
    if error.parameter is not None:
        return error.parameter
    about = f"{error.place or ''} {error.where}"
    return next((role for role, name in stored.items() if name in about), None)
