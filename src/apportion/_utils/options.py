"""The options of a labeling run, in groups: what they are called, what they mean, what they allow.

They are read from the command line, from a settings file and from a page. A shell reads them at
every press of the Tab key, so that nothing slow to import may be imported here.
"""

# ruff: noqa: RUF009  (`option` and `argument` return fields)

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from functools import cache, partial
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from apportion._utils.method_names import METHODS
from apportion.exceptions import hint

REQUIRED: Any = MISSING
"""The default of an option or argument that must be given."""

Kind = Literal["path", "text", "texts", "choice", "flag", "whole number", "number"]
"""What values of an option are."""

_FACTS = "option"
_KINDS: dict[Any, Kind] = {
    Path: "path",
    str: "text",
    list[str]: "texts",
    bool: "flag",
    int: "whole number",
    float: "number",
}


class OptionFacts(NamedTuple):
    """What is known of an option beside its name, its type and its default.

    Attributes
    ----------
    help : str
        What it is for; advice if it names other options.
    panel : str or None
        The panel that lists it.
    metavar : str or None
        What its value is, in a word.
    names : tuple of str
        Its names on the command line, if not `--` and the name of the field.
    choices : tuple of str
        Values to suggest, if the type does not list those that are allowed.
    low, high : float or None
        The least and the largest number that is allowed.
    positional : bool
        Whether it is an argument of the command line, without a name.
    """

    help: str
    panel: str | None = None
    metavar: str | None = None
    names: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    positional: bool = False


class Option(NamedTuple):
    """An option of a group.

    Attributes
    ----------
    name : str
        The name of the field.
    type : type
        Its type.
    kind : str
        What its values are.
    default : object
        Its default, or `REQUIRED`.
    choices : tuple of str
        The values that are allowed; none are listed if others are too.
    facts : OptionFacts
        What else is known of it.
    """

    name: str
    type: Any
    kind: Kind
    default: Any
    choices: tuple[str, ...]
    facts: OptionFacts


def option(default: Any, help: str, *names: str, panel: str | None = None, **facts: Any) -> Any:
    """Return a field of a group that is an option.

    Parameters
    ----------
    default : object
        Its default, or `REQUIRED`.
    help : str
        What it is for.
    *names : str
        Its names on the command line, if not `--` and the name of the field.
    panel : str, optional
        The panel that lists it.
    **facts
        Further fields of `OptionFacts`.
    """
    return field(default=default, metadata={_FACTS: OptionFacts(help, panel, names=names, **facts)})


def argument(default: Any, help: str, metavar: str | None = None) -> Any:
    """Return a field of a group that is an argument of the command line."""
    facts = OptionFacts(help, metavar=metavar, positional=True)
    return field(default=default, metadata={_FACTS: facts})


@cache
def options_of(group: Any) -> tuple[Option, ...]:
    """Return the options of a group, in their order.

    Examples
    --------
    >>> missing = next(item for item in options_of(FeatureOptions) if item.name == "missing")
    >>> missing.kind, missing.default, missing.choices
    ('choice', 'median', ('median', 'drop', 'error'))
    """
    types = get_type_hints(group)
    return tuple(_option(item, types[item.name]) for item in fields(group))


def _option(item: Any, type: Any) -> Option:
    parts = get_args(type)
    only = next(one for one in parts if one is not NoneType) if NoneType in parts else type
    choices = get_args(only) if get_origin(only) is Literal else ()
    kind: Kind = "choice" if choices else _KINDS[only]
    return Option(item.name, type, kind, item.default, choices, item.metadata[_FACTS])


_bags, _rule, _times, _feature, OUTPUT, _method, _lp_llp = (
    partial(option, panel=panel)
    for panel in (
        *("Bags", "Diary rules", "Times", "Features", "Output", "Method"),
        "Method, if it is lpllp",
    )
)

READINGS = "The rows: a CSV (also .csv.gz), Parquet, .xlsx or ARFF file."


@dataclass(kw_only=True)
class KnownOptions:
    """Where bags and totals come from."""

    readings: Path = argument(REQUIRED, READINGS, "READINGS")
    bags: str | None = _bags(None, "Column of bag ids; empty = in no bag.", metavar="COLUMN")
    proportions: Path | None = _bags(
        None,
        "Table of the bags' totals (CSV, Parquet, .xlsx): one line per bag and one column per "
        "class, or columns bag, class and share.",
        metavar="TABLE",
    )
    diary: Path | None = _bags(
        None,
        "Diary (CSV, Parquet, .xlsx): participant, date (or start and end, or period), then "
        "durations or shares: one column per activity, or columns activity and duration.",
        metavar="DIARY",
    )
    given: list[str] | None = _bags(
        None,
        "Labels that are known: a column of the rows (empty = not known), or a table (CSV, "
        "Parquet, .xlsx) with a column 'label' and the rows' ids or starts, such as corrected "
        "labels.csv with 'yes' in a column 'given' where a label counts, and 'not' where the row "
        "does not have it; may be repeated.",
        metavar="COLUMN|TABLE",
    )
    conflict: Literal["error", "given"] = _bags(
        "error",
        "Totals that given labels contradict: an error, or they give way to the labels, as little "
        "as needed.",
    )
    unit: Literal["auto", "hours", "minutes", "seconds", "percent", "share", "count"] = _bags(
        "auto",
        "What numbers without a unit are. auto: shares or percentages where they sum to 1 or "
        "100; else hours in a diary, counts in a table of totals.",
    )
    uncovered: Literal["unknown", "drop", "scale"] = _rule(
        "unknown",
        "Time an entry does not cover: a class 'unknown'; the entry is left out; or durations "
        "are scaled up.",
    )
    blank: Literal["zero", "unknown"] = _rule(
        "zero", "An empty cell: the activity did not happen, or nothing is known."
    )
    tolerance: str = _rule(
        "auto",
        "Minutes a duration may be off, to either side. auto: only what rounding explains.",
        metavar="MINUTES",
    )
    excess: Literal["error", "scale"] = _rule(
        "error", "Durations that exceed their period: an error, or scaled down."
    )
    part: Literal["auto", "bounds", "scale", "drop"] = _rule(
        "auto",
        "A period recorded in part: durations hold within bounds; the part is like the whole; "
        "or it is left out below 95 %. auto: scale from 95 % on, bounds below.",
    )
    covers: Literal["auto", "period", "recording"] = _rule(
        "auto",
        "What an entry accounts for: its whole period, or only what was recorded. auto: what "
        "the entries recorded in part sum to; the period where they do not say.",
    )
    graphs: Literal["auto", "one", "each"] = _rule(
        "auto",
        "One graph of all participants, or one for each. auto: one for each where more than a "
        "twentieth of the time is 'unknown', which is something else for everybody.",
    )
    diary_column: list[str] | None = _rule(
        None,
        "Which column of the diary is the participant, date, start, end, period, activity, "
        "duration, episodes (how often) or note; may be repeated.",
        metavar="ROLE=COLUMN",
    )
    participant: str | None = _times(None, "Column of participants in the rows.", metavar="COLUMN")
    start: str | None = _times(None, "Column of the windows' starts.", metavar="COLUMN")
    end: str | None = _times(None, "Column of the windows' ends.", metavar="COLUMN")
    window: str | None = _times(
        None, "Length of every window, such as 30s or 1min.", metavar="LENGTH"
    )
    nonwear: str | None = _times(
        None, "Column that is true where the sensor was not worn.", metavar="COLUMN"
    )
    timezone: str | None = _times(
        None,
        "Zone of clock times, such as Europe/London; gives the 23- and 25-hour day. Clock times "
        "are taken as they are if not given.",
        metavar="ZONE",
    )
    day_start: str = _times("00:00", "When a diary's day begins.", metavar="HH:MM")
    date_format: str | None = _times(
        None, "How dates are written, such as %d/%m/%Y. ISO if not given.", metavar="FORM"
    )
    time_format: str | None = _times(
        None, "How times are written. ISO or seconds if not given.", metavar="FORM"
    )
    encoding: str | None = _bags(None, "Encoding of text files that are not UTF-8.", metavar="NAME")

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are read: the rows, what is known of their bags, and labels."""
        others = (self.diary, self.proportions, *map(Path, self.given or ()))
        return (self.readings, *(path for path in others if path is not None and path.is_file()))


@dataclass(kw_only=True)
class FeatureOptions:
    """Which columns are features, and how."""

    features: list[str] | None = _feature(
        None,
        "Column to use, by name or pattern such as 'acc_*'; may be repeated. If not given, all "
        "that are no ids or times.",
        metavar="PATTERN",
    )
    exclude: list[str] | None = _feature(
        None, "Column not to use; may be repeated.", metavar="PATTERN"
    )
    categorical: list[str] | None = _feature(
        None,
        "Column of categories, also where they are numbers; may be repeated.",
        metavar="COLUMN",
    )
    missing: Literal["median", "drop", "error"] = _feature(
        "median",
        "A missing cell: the column's median stands in; the row is not labeled; or an error.",
    )
    scale: bool = _feature(True, "Scale numbers to mean 0 and variance 1.")
    id: str | None = _feature(None, "Column of row ids, which must differ.", metavar="COLUMN")


@dataclass(kw_only=True)
class MethodOptions:
    """How labels are found."""

    method: str | None = _method(
        None,
        "auto: several methods, weighed by how well they meet the totals of bags that were held "
        f"out; it also estimates its accuracy. Or one of {', '.join(METHODS[1:])}. If not given: "
        "auto, or lpllp if one of its options is given.",
        metavar="METHOD",
        choices=METHODS,
    )
    fast: bool = _method(
        False,
        hint(
            "Weigh only methods of {method:auto} that take little time: those that are solved in "
            "closed form, count-rbf and lpllp."
        ),
    )
    decode: Literal["auto", "quota", "threshold", "sequence"] = _method(
        "auto",
        hint(
            "quota keeps every bag's totals; threshold takes every row's most likely class; "
            "sequence keeps the totals, lets labels change as seldom as activities do, and keeps "
            "to how often they happened, where the diary says it ({method:auto} and lpllp). auto: "
            "sequence with {method:auto} and times, else quota."
        ),
    )
    no_time: bool = _method(
        False,
        "Do not use when windows were recorded. If not given, labels that flicker are smoothed "
        "along time.",
    )
    seed: int = _method(0, "Seed of random starts.", low=0, high=2**32 - 1)
    graph: Literal["auto", "knn", "anchor", "rbf"] = _lp_llp(
        "auto", "Graph of similar rows; auto chooses by the number of rows."
    )
    alpha: float = _lp_llp(0.5, "How far labels travel, between 0 and 1.")
    neighbors: int | None = _lp_llp(
        None,
        hint("Nearest rows that every row is tied to, 10 if not given; with {graph:auto} or knn."),
        low=1,
    )
    prior: Literal["meanmap", "invcal"] | None = _lp_llp(
        None, "Method that is fitted first; soft labels keep near its own. None if not given."
    )
    prior_weight: float | None = _lp_llp(
        None, hint("How near they keep to it. 0.1 with {prior} if not given."), low=0.0
    )
    time_weight: float | None = _lp_llp(
        None,
        "How strongly windows that follow each other are tied: as much as so many of ten "
        "neighbors. If not given, it follows from how labels flicker.",
        low=0.0,
    )
    probes: int = _lp_llp(
        8, "The most random starts to compare where totals may admit several answers.", low=0
    )
    max_iter: int = _lp_llp(2000, "The most iterations of a run.", low=1)
    tol: float = _lp_llp(1e-8, "How exact soft labels are; larger is faster.", low=0.0)
    device: Literal["cpu", "cuda", "auto"] = _lp_llp(
        "cpu", "Where to work: cuda is a GPU, through the extra gpu; auto is a GPU if there is one."
    )

    @property
    def of_lp_llp(self) -> dict[str, Any]:
        """The options that belong to LPLLP alone and were given."""
        common = ("method", "fast", "decode", "no_time", "seed")
        return {
            item.name: getattr(self, item.name)
            for item in fields(self)
            if item.name not in common and getattr(self, item.name) != item.default
        }


@dataclass(kw_only=True)
class AnswerOptions:
    """What the labeled table holds."""

    all_columns: bool = OUTPUT(False, "Keep every column of the rows, not only ids and times.")
    abstain_below: float | None = OUTPUT(
        None,
        hint(
            "Leave rows without a label, reason 'uncertain', whose confidence is below this number "
            "from 0 to 1. The confidence is a probability if rows were labeled with "
            "{method:auto}, and bags were enough to hold some out; else it is a mass, which ranks "
            "rows."
        ),
        metavar="P",
    )
