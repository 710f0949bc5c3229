"""What is known of the rows: from a column of bags and a table of totals, or from a diary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from apportion._io.identifiers import factorize, plain_name, plain_names, respelled
from apportion._io.read import no_column
from apportion._io.sheet import read_sheet
from apportion._utils.typing import AnyArray
from apportion.cli.console import CommandLineError, in_options
from apportion.cli.options import KnownOptions
from apportion.exceptions import FileError, SupervisionError, compared, counted, name_some
from apportion.labeling.rows import Supervision
from apportion.plotting._window_times import Times, times_of_diary
from apportion.supervision.diary import UNKNOWN, DiaryBags, DiaryRules, diary_bags
from apportion.supervision.diary.column_roles import DIARY_ROLES, WINDOW_ROLES
from apportion.supervision.totals_table import TotalsTable, read_totals

NONWEAR = "the marks of non-wear"
_MUCH_UNKNOWN = 0.05
_NOT_OF_DIARIES = ("bags", "proportions", "given", "unit", "encoding")
_UNIT_WORDS = {"share": "shares", "percent": "percentages", "count": "counts"}


@dataclass(frozen=True)
class Known:
    """What is known of the rows, and how it was found.

    Attributes
    ----------
    supervision : Supervision
        Bags and totals.
    roles : dict of str to str
        Columns that play a role, and which.
    notes : list of str
        What was found.
    times : Times or None
        When the rows were recorded, where that is known.
    rules : list of str
        The rules that were used, one a line.
    bag_word : {"bag", "entry"}
        What the bags are called.
    never : tuple of str
        Activities that take no time in any bag: no classes, unless a label is given.
    """

    supervision: Supervision
    roles: dict[str, str]
    notes: list[str]
    times: Times | None = None
    rules: list[str] = field(default_factory=list)
    bag_word: str = "bag"
    never: tuple[str, ...] = ()


def require_one_source(options: KnownOptions) -> None:
    """Raise where options name no source of totals, or two, or do not fit it."""
    bags, table, diary = options.bags, options.proportions, options.diary
    if bags is None and table is None and diary is None:
        raise CommandLineError("Give --diary DIARY, or --bags COLUMN with --proportions TABLE.")
    if diary is not None and (bags is not None or table is not None):
        raise CommandLineError("Give either --diary, or --bags with --proportions, not both.")
    if diary is None and (bags is None or table is None):
        raise CommandLineError("--bags COLUMN and --proportions TABLE go together.")
    if diary is not None and options.unit == "count":
        raise CommandLineError("--unit count is for --proportions, not for a diary.")
    if diary is None and options.unit in ("hours", "minutes", "seconds"):
        raise CommandLineError(f"--unit {options.unit} is for a diary, not for --proportions.")
    if diary is not None:
        _rules(options)
        _diary_columns(options)
        return
    for option in fields(options):
        if option.name not in _NOT_OF_DIARIES and getattr(options, option.name) != option.default:
            raise CommandLineError(f"--{option.name.replace('_', '-')} is for a diary (--diary).")


def require_column(table: Any, name: str, where: str) -> None:
    """Raise for a column that is not there."""
    if name not in table.column_names:
        raise no_column(name, table.column_names, where)


def known_from_table(
    table: Any, path: Path, options: KnownOptions, place: Callable[[int], str]
) -> Known:
    """Return what a table of totals says about the bags of a column."""
    assert options.bags is not None
    assert options.proportions is not None
    require_column(table, options.bags, path.name)
    sheet = read_sheet(options.proportions, encoding=options.encoding)
    unit: Any = options.unit
    read = read_totals(sheet, options.bags, unit)
    ids, classes = read.totals.ids, read.totals.classes
    bags, other = _bags_of(table, options.bags, [str(bag) for bag in ids], place)
    if read.unit == "count":
        _refuse_wrong_counts(bags, read)
    notes = [
        f"{sheet.name}: {counted(len(ids), 'bag')}, {counted(len(classes), 'class')}, read as "
        f"{_UNIT_WORDS[read.unit]}: {name_some(classes.tolist(), 12)}"
    ]
    n_outside = sum(bag is None for bag in bags.tolist())
    if n_outside:
        which = f": {name_some(other, 3)}" if other else ""
        notes.append(
            f"{n_outside:,} of {counted(len(bags), 'row')} are in no bag of {sheet.name}{which}; "
            "their neighbors alone decide"
        )
    seen = set(bags.tolist())
    unused = [repr(bag) for bag in ids if bag not in seen]
    if unused:
        notes.append(f"{counted(len(unused), 'bag')} without a row: {name_some(unused, 3)}")
    supervision = Supervision(bags, read.totals, None, None, {})
    return Known(supervision, {options.bags: "the bags"}, notes)


def known_from_diary(
    table: Any, path: Path, options: KnownOptions, place: Callable[[int], str]
) -> Known:
    """Return what a diary says about windows."""
    assert options.diary is not None
    for role in WINDOW_ROLES:
        asked = getattr(options, role)
        if asked is not None:
            require_column(table, asked, path.name)
    sheet = read_sheet(options.diary, encoding=options.encoding)
    columns = _diary_columns(options)
    for name in (name for names in columns.values() for name in names):
        if name not in sheet.columns:
            raise no_column(name, sheet.columns, sheet.name)
    matched = diary_bags(
        table,
        sheet,
        rules=_rules(options),
        participant=options.participant,
        start=options.start,
        end=options.end,
        nonwear=options.nonwear,
        window=options.window,
        timezone=options.timezone,
        day_start=options.day_start,
        diary_columns=columns,
        date_format=options.date_format,
        time_format=options.time_format,
        place=place,
    )
    roles = {
        column: NONWEAR if role == "nonwear" else f"the {role}"
        for role, column in matched.columns.items()
    }
    groups, why = _groups(matched, options.graphs)
    left_out = {"non-wear": matched.left_out}
    return Known(
        Supervision(matched.bags, matched.totals, None, groups, left_out),
        roles,
        [in_options(note) for note in matched.notes],
        times_of_diary(matched, options.day_start),
        [*map(in_options, matched.rules), *_more_rules(options), why],
        "entry",
        matched.never,
    )


def given_labels(
    table: Any, column: str, classes: Sequence[Any], place: Callable[[int], str]
) -> AnyArray:
    """Return the labels that a column gives; None where a cell is empty.

    What a spreadsheet would take for a formula may have the apostrophe that we write before it.
    """
    codes, found = factorize(table.column(column), "label")
    known = {plain_name(label): label for label in classes}
    written = {f"'{name}": label for name, label in known.items()}
    labels: list[Any] = []
    for code, one in enumerate(found):
        label = _lookup(one, {**written, **known})
        name = plain_name(one)
        if label is None and name:
            alike = respelled([name], known)
            raise FileError(
                f"{place(int(np.argmax(codes == code)))}, column {column!r}",
                f"the label {one!r}",
                f"the classes {name_some(map(repr, known), 12)}, or an empty cell",
                f"write it as the class {alike[name]!r}" if alike else "correct the cell",
            )
        labels.append(label)
    return np.array([*labels, None], dtype=object)[codes]


def _bags_of(
    table: Any, column: str, ids: Sequence[str], place: Callable[[int], str]
) -> tuple[AnyArray, list[str]]:
    """Return the rows' bags, None where the table of totals has none, and ids it does not have."""
    codes, found = factorize(table.column(column), "bag id")
    known = {bag: bag for bag in ids}
    bags = [_lookup(one, known) for one in found]
    names = plain_names(found, "bag", f"column {column!r}")
    other = [name for name, bag in zip(names, bags, strict=True) if bag is None]
    used = set(bags)
    alike = respelled(other, [bag for bag in ids if bag not in used])
    if alike:
        name, bag = next(iter(alike.items()))
        raise FileError(
            f"{place(int(np.argmax(codes == names.index(name))))}, column {column!r}",
            f"the bag {name!r}, which the table of totals has as {bag!r}",
            "ids that are written alike in both, because ids are text",
            "write both alike",
        )
    if len(other) == len(names):
        raise SupervisionError(
            f"column {column!r}",
            "no id that the table of totals has; rows have "
            f"{name_some(map(repr, other), 3) or 'none'}",
            f"the bags {name_some(map(repr, ids), 3)}",
            "check the column and the table",
        )
    return np.array([*bags, None], dtype=object)[codes], [repr(name) for name in other]


def _lookup(one: Any, known: dict[str, Any]) -> Any:
    """Return what a cell means; a truth value may be written in another way."""
    if isinstance(one, bool):
        known = {name.casefold(): what for name, what in known.items()}
        return known.get(str(one).casefold())
    return known.get(plain_name(one))


def _refuse_wrong_counts(bags: AnyArray, read: TotalsTable) -> None:
    rows, totals = Counter(bags.tolist()), read.totals
    for bag, lower, upper in zip(totals.ids, totals.lower, totals.upper, strict=True):
        n_samples = rows[bag]
        if not n_samples or lower.sum() <= n_samples <= upper.sum():
            continue
        raise FileError(
            f"{read.places[str(bag)]} (bag {bag!r})",
            f"counts that sum to {compared(lower.sum(), n_samples)[0]}",
            f"{'at most ' * bool(np.isinf(upper).any())}{n_samples:,}, the bag's number of rows",
            "correct the counts, or give shares or percentages",
        )


def _diary_columns(options: KnownOptions) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {}
    for pair in options.diary_column or ():
        role, sign, name = pair.partition("=")
        if not sign:
            raise CommandLineError(f"--diary-column must be ROLE=COLUMN. Got {pair!r}.")
        if role.strip() not in DIARY_ROLES:
            raise CommandLineError(
                f"--diary-column has no role {role.strip()!r}. Allowed: {', '.join(DIARY_ROLES)}."
            )
        columns.setdefault(role.strip(), []).append(name.strip())
    return columns


def _rules(options: KnownOptions) -> DiaryRules:
    tolerance: Any = options.tolerance
    unit: Any = options.unit
    try:
        return DiaryRules(
            unit=unit,
            uncovered=options.uncovered,
            blank=options.blank,
            tolerance=tolerance if tolerance == "auto" else float(tolerance),
            excess=options.excess,
            part=options.part,
            covers=options.covers,
        )
    except ValueError:
        raise CommandLineError(
            f"--tolerance must be 'auto' or minutes of 0 and more. Got {options.tolerance!r}."
        ) from None


def _more_rules(options: KnownOptions) -> list[str]:
    zone = options.timezone
    return [
        f"--timezone {zone}: clock times are of this zone"
        if zone
        else "no --timezone: clock times without a zone are taken as they are, days have 24 hours",
        f"--day-start {options.day_start}: when a diary's day begins",
    ]


def _groups(matched: DiaryBags, graphs: str) -> tuple[AnyArray | None, str]:
    """Return the participants where each has a graph of their own, and that rule in words."""
    shared = "windows of all participants are compared with each other"
    apart = "every participant's windows are compared with their own only"
    if graphs == "one" or matched.participants is None:
        return None, f"--graphs {graphs}: {shared}"
    if graphs == "each":
        return matched.participants, f"--graphs each: {apart}"
    hours = np.array([matched.recorded_hours[str(bag)] for bag in matched.totals.ids])
    unknown = matched.totals.classes == UNKNOWN
    share = float(hours @ matched.totals.lower[:, unknown].sum(axis=1) / hours.sum())
    if share <= _MUCH_UNKNOWN or len(set(matched.participants.tolist())) == 1:
        return None, f"--graphs auto: {shared}"
    return matched.participants, (
        f"--graphs auto: {apart}, because at least {share:.0%} of the time is {UNKNOWN!r}, which "
        "is something else for everybody"
    )
