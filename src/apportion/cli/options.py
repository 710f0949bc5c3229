"""The options that commands share, in groups."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import typer

Command = TypeVar("Command", bound=Callable[..., Any])

_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def with_groups(command: Command) -> Command:
    """Return a command whose parameters of a dataclass are one option for each of its fields."""
    hints = get_type_hints(command, include_extras=True)
    plain: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        kind = hints[name]
        if not is_dataclass(kind):
            plain.append(parameter.replace(annotation=kind, kind=_KEYWORD))
            continue
        groups[name] = kind
        inner = get_type_hints(kind, include_extras=True)
        plain += [
            inspect.Parameter(
                field.name, _KEYWORD, default=field.default, annotation=inner[field.name]
            )
            for field in fields(kind)
        ]

    @wraps(command)
    def flat(**given: Any) -> Any:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        return command(**given)

    flat.__signature__ = inspect.Signature(plain)  # type: ignore[attr-defined]
    flat.__annotations__ = {p.name: p.annotation for p in plain}
    return flat  # type: ignore[return-value]


def _option(panel: str, help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


_BAGS, _DIARY, _TIMES = "Bags", "Diary rules", "Times"
_FEATURES, _OUTPUT, _METHOD = "Features", "Output", "Method"


@dataclass
class KnownOptions:
    """Where bags and totals come from."""

    bags: Annotated[
        str | None, _option(_BAGS, "Column of bag ids; empty = in no bag.", metavar="COLUMN")
    ] = None
    proportions: Annotated[
        Path | None,
        _option(
            _BAGS,
            "Table of the bags' totals (CSV, Parquet, .xlsx): one line per bag and one column per "
            "class, or columns bag, class and share.",
            metavar="TABLE",
            readable=False,
        ),
    ] = None
    diary: Annotated[
        Path | None,
        _option(
            _BAGS,
            "Diary (CSV, Parquet, .xlsx): participant, date (or start and end, or period), then "
            "durations or shares: one column per activity, or columns activity and duration.",
            metavar="DIARY",
            readable=False,
        ),
    ] = None
    given: Annotated[
        list[str] | None,
        _option(
            _BAGS,
            "Labels that are known: a column of the rows (empty = not known), or a table (CSV, "
            "Parquet, .xlsx) with a column 'label' and the rows' ids or starts, such as corrected "
            "labels.csv with 'yes' in a column 'given' where a label counts; may be repeated.",
            metavar="COLUMN|TABLE",
        ),
    ] = None
    unit: Annotated[
        Literal["auto", "hours", "minutes", "seconds", "percent", "share", "count"],
        _option(
            _BAGS,
            "What numbers without a unit are. auto: shares or percentages where they sum to 1 or "
            "100; else hours in a diary, counts in a table of totals.",
        ),
    ] = "auto"
    uncovered: Annotated[
        Literal["unknown", "drop", "scale"],
        _option(
            _DIARY,
            "Time an entry does not cover: a class 'unknown'; the entry is left out; or durations "
            "are scaled up.",
        ),
    ] = "unknown"
    blank: Annotated[
        Literal["zero", "unknown"],
        _option(
            _DIARY,
            "An empty cell: the activity did not happen, or nothing is known.",
        ),
    ] = "zero"
    tolerance: Annotated[
        str,
        _option(
            _DIARY,
            "Minutes a duration may be off, to either side. auto: only what rounding explains.",
            metavar="MINUTES",
        ),
    ] = "auto"
    excess: Annotated[
        Literal["error", "scale"],
        _option(
            _DIARY,
            "Durations that exceed their period: an error, or scaled down.",
        ),
    ] = "error"
    part: Annotated[
        Literal["auto", "bounds", "scale", "drop"],
        _option(
            _DIARY,
            "A period recorded in part: durations hold within bounds; the part is like the whole; "
            "or it is left out below 95 %. auto: scale from 95 % on, bounds below.",
        ),
    ] = "auto"
    covers: Annotated[
        Literal["auto", "period", "recording"],
        _option(
            _DIARY,
            "What an entry accounts for: its whole period, or only what was recorded. auto: what "
            "the entries recorded in part sum to; the period where they do not say.",
        ),
    ] = "auto"
    graphs: Annotated[
        Literal["auto", "one", "each"],
        _option(
            _DIARY,
            "One graph of all participants, or one for each. auto: one for each where more than a "
            "twentieth of the time is 'unknown', which is something else for everybody.",
        ),
    ] = "auto"
    diary_column: Annotated[
        list[str] | None,
        _option(
            _DIARY,
            "Which column of the diary is the participant, date, start, end, period, activity, "
            "duration or note; may be repeated.",
            metavar="ROLE=COLUMN",
        ),
    ] = None
    participant: Annotated[
        str | None, _option(_TIMES, "Column of participants in the rows.", metavar="COLUMN")
    ] = None
    start: Annotated[
        str | None, _option(_TIMES, "Column of the windows' starts.", metavar="COLUMN")
    ] = None
    end: Annotated[
        str | None, _option(_TIMES, "Column of the windows' ends.", metavar="COLUMN")
    ] = None
    window: Annotated[
        str | None,
        _option(_TIMES, "Length of every window, such as 30s or 1min.", metavar="LENGTH"),
    ] = None
    nonwear: Annotated[
        str | None,
        _option(_TIMES, "Column that is true where the sensor was not worn.", metavar="COLUMN"),
    ] = None
    timezone: Annotated[
        str | None,
        _option(
            _TIMES,
            "Zone of clock times, such as Europe/London; gives the 23- and 25-hour day. "
            "Clock times are taken as they are if not given.",
            metavar="ZONE",
        ),
    ] = None
    day_start: Annotated[str, _option(_TIMES, "When a diary's day begins.", metavar="HH:MM")] = (
        "00:00"
    )
    date_format: Annotated[
        str | None,
        _option(
            _TIMES, "How dates are written, such as %d/%m/%Y. ISO if not given.", metavar="FORM"
        ),
    ] = None
    time_format: Annotated[
        str | None,
        _option(_TIMES, "How times are written. ISO or seconds if not given.", metavar="FORM"),
    ] = None
    encoding: Annotated[
        str | None,
        _option(_BAGS, "Encoding of text files that are not UTF-8.", metavar="NAME"),
    ] = None

    def files(self, readings: Path) -> tuple[Path, ...]:
        """Return the files that are read: the rows, what is known of their bags, and labels."""
        named = (readings, self.diary, self.proportions, *map(Path, self.given or ()))
        files = [path for path in named if path is not None]
        return tuple(path for k, path in enumerate(files) if k == 0 or path.is_file())


@dataclass
class FeatureOptions:
    """Which columns are features, and how."""

    features: Annotated[
        list[str] | None,
        _option(
            _FEATURES,
            "Column to use, by name or pattern such as 'acc_*'; may be repeated. If not given, all "
            "that are no ids or times.",
            metavar="PATTERN",
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        _option(_FEATURES, "Column not to use; may be repeated.", metavar="PATTERN"),
    ] = None
    categorical: Annotated[
        list[str] | None,
        _option(
            _FEATURES,
            "Column of categories, also where they are numbers; may be repeated.",
            metavar="COLUMN",
        ),
    ] = None
    missing: Annotated[
        Literal["median", "drop", "error"],
        _option(
            _FEATURES,
            "A missing cell: the column's median stands in; the row is not labeled; or an error.",
        ),
    ] = "median"
    scale: Annotated[
        bool,
        _option(_FEATURES, "Scale numbers to mean 0 and variance 1.", "--scale/--no-scale"),
    ] = True
    id: Annotated[
        str | None,
        _option(_FEATURES, "Column of row ids, which must differ.", metavar="COLUMN"),
    ] = None


@dataclass
class OutputOptions:
    """Where the answer goes."""

    output: Annotated[
        Path | None,
        _option(
            _OUTPUT,
            "File to write, .csv or .parquet. CSV on stdout if not given.",
            "--output",
            "-o",
            metavar="FILE",
            readable=False,
        ),
    ] = None
    force: Annotated[bool, _option(_OUTPUT, "Replace files that are there.", "--force")] = False
    all_columns: Annotated[
        bool,
        _option(_OUTPUT, "Keep every column of the rows, not only ids and times.", "--all-columns"),
    ] = False
    abstain_below: Annotated[
        float | None,
        _option(
            _OUTPUT,
            "Leave rows without a label, reason 'uncertain', whose confidence is below this number "
            "from 0 to 1. The confidence ranks rows; it is no probability.",
            metavar="P",
        ),
    ] = None
    json: Annotated[
        bool, _option(_OUTPUT, "Print a summary as JSON on stdout; needs --output.", "--json")
    ] = False
    quiet: Annotated[bool, _option(_OUTPUT, "Say only what went wrong.", "--quiet", "-q")] = False


@dataclass
class MethodOptions:
    """How labels are found."""

    graph: Annotated[
        Literal["auto", "knn", "anchor", "rbf"],
        _option(
            _METHOD,
            "Graph of similar rows; auto chooses by the number of rows.",
        ),
    ] = "auto"
    alpha: Annotated[float, _option(_METHOD, "How far labels travel, between 0 and 1.")] = 0.5
    decode: Annotated[
        Literal["quota", "threshold"],
        _option(
            _METHOD,
            "quota keeps every bag's totals; threshold takes every row's most likely class.",
        ),
    ] = "quota"
    neighbors: Annotated[
        int | None,
        _option(
            _METHOD,
            "Nearest rows that every row is tied to, 10 if not given; with --graph auto or knn.",
            min=1,
        ),
    ] = None
    prior: Annotated[
        Literal["meanmap", "invcal"] | None,
        _option(
            _METHOD,
            "Method that is fitted first; soft labels keep near its own. None if not given.",
        ),
    ] = None
    prior_weight: Annotated[
        float | None,
        _option(_METHOD, "How near they keep to it. 0.1 with --prior if not given.", min=0.0),
    ] = None
    probes: Annotated[
        int,
        _option(
            _METHOD,
            "The most random starts to compare where totals may admit several answers.",
            min=0,
        ),
    ] = 8
    max_iter: Annotated[int, _option(_METHOD, "The most iterations of a run.", min=1)] = 2000
    tol: Annotated[
        float, _option(_METHOD, "How exact soft labels are; larger is faster.", min=0.0)
    ] = 1e-8
    seed: Annotated[int, _option(_METHOD, "Seed of random starts.", min=0, max=2**32 - 1)] = 0
