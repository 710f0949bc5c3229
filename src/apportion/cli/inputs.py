"""What a command was given: the rows of a file, and what is known of their bags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from apportion._typing import AnyArray, BoolArray
from apportion.cli.options import FeatureOptions, KnownOptions
from apportion.cli.talk import talk
from apportion.diary import UNKNOWN, DiaryBags, DiaryRules, diary_bags
from apportion.diary.recording import WINDOW_ROLES
from apportion.exceptions import FileError, SupervisionError, name_some
from apportion.features import Recipe, choose_columns, learn_recipe
from apportion.files.read import no_column, place_in, read_columns
from apportion.files.sheet import read_sheet
from apportion.files.totals_table import read_totals
from apportion.labelling import Supervision
from apportion.tables import factorize, is_missing, plain_name

_MUCH_UNKNOWN = 0.05


@dataclass(frozen=True)
class Inputs:
    """Rows and what is known of them.

    Attributes
    ----------
    path : path
        The file of the rows.
    table : pyarrow.Table
        Its columns.
    known : Supervision
        Bags, totals and labels.
    roles : dict of str to str
        Columns that play a role, and which.
    rules : list of str
        The rules that were used, one a line.
    notes : list of str
        What was found and decided.
    """

    path: Path
    table: Any
    known: Supervision
    roles: dict[str, str]
    rules: list[str]
    notes: list[str]

    def place(self, row: int) -> str:
        """Return where a row stands, in words."""
        return place_in(self.path, row)


def read_inputs(readings: Path, options: KnownOptions) -> Inputs:
    """Return the rows and their supervision, after all checks."""
    _require_one_source(options)
    table = read_columns(readings, encoding=options.encoding)
    place: Callable[[int], str] = lambda row: place_in(readings, row)  # noqa: E731
    roles: dict[str, str] = {}
    for name, role in ((options.bags, "the bags"), (options.given, "the given labels")):
        if name is not None:
            _require_column(table, name, readings)
            roles[name] = role
    rules: list[str] = []
    groups = None
    left_out: dict[str, BoolArray] = {}
    if options.diary is not None:
        matched = _read_diary(table, options, place)
        for role in WINDOW_ROLES:
            column = _window_column(table, role, getattr(options, role))
            if column is not None:
                roles[column] = f"the {role}"
        bags, totals, notes = matched.bags, matched.totals, list(matched.notes)
        rules = [*_rules(options).describe(), *_more_rules(options)]
        left_out = {"non-wear": matched.left_out}
        groups, why = _groups(matched, options.graphs)
        rules.append(why)
    else:
        assert options.proportions is not None
        assert options.bags is not None
        sheet = read_sheet(options.proportions, encoding=options.encoding)
        unit: Any = options.unit
        totals, words = read_totals(sheet, options.bags, unit)
        bags, without = _bags_of(table, options.bags, totals.ids)
        bagged = sum(bag is not None for bag in bags.tolist())
        notes = [
            f"{sheet.name}: {len(totals.ids):,} bags, {len(totals.classes)} classes, read as "
            f"{words}: {name_some(totals.classes.tolist(), 12)}"
        ]
        if without:
            notes.append(
                f"{len(bags) - bagged:,} of {len(bags):,} rows are in no bag of the table: "
                f"{name_some(without, 3)}; they are labelled by their neighbours"
            )
    given = None
    if options.given is not None:
        given = _given(table, options.given, totals.classes, place)
        notes.append(f"{sum(one is not None for one in given.tolist()):,} labels are given")
    known = Supervision(bags, totals, given, groups, left_out)
    return Inputs(readings, table, known, roles, rules, notes)


def learn_features(inputs: Inputs, options: FeatureOptions) -> tuple[Recipe, list[str]]:
    """Return how columns become features, and what to say about it."""
    table = inputs.table
    roles = dict(inputs.roles)
    if options.id is not None:
        _require_column(table, options.id, inputs.path)
        _refuse_same_ids(table, options.id, inputs.place)
        roles[options.id] = "the id"
    for name in options.categorical or ():
        _require_column(table, name, inputs.path)
    names, left_out = choose_columns(
        table,
        features=options.features or (),
        exclude=options.exclude or (),
        roles=roles,
        classes=inputs.known.totals.classes.tolist(),
    )
    recipe, useless = learn_recipe(
        table,
        names,
        inputs.place,
        categorical=options.categorical or (),
        missing=options.missing,
        scale=options.scale,
    )
    categories = [feature.name for feature in recipe.features if feature.levels is not None]
    notes = [
        f"{inputs.path.name}: {table.num_rows:,} rows, {len(recipe.features)} features: "
        f"{name_some(recipe.names, 12)}"
    ]
    if categories:
        notes.append(f"categories: {name_some(categories, 12)}")
    others = [f"{name} ({why})" for name, why in {**left_out, **useless}.items()]
    if others:
        notes.append(f"not features: {name_some(others, 12)}")
    return recipe, notes


def id_column(table: Any, asked: str | None) -> str | None:
    """Return the column of row ids: the one asked for, or one called so."""
    if asked is not None:
        return asked
    folded = {name.strip().casefold(): name for name in reversed(table.column_names)}
    usual = ("id", "row_id", "window_id", "window", "unique_id", "uuid")
    return next((folded[name] for name in usual if name in folded), None)


def say(notes: list[str], quiet: bool, title: str = "") -> None:
    """Say what was found, one thing a line."""
    if quiet:
        return
    if title and notes:
        talk.print(title)
    for note in notes:
        talk.print(f"  {note}" if title else note)


def _require_one_source(options: KnownOptions) -> None:
    if options.diary is None and options.bags is None and options.proportions is None:
        raise typer.BadParameter("Give --diary DIARY, or --bags COLUMN with --proportions TABLE.")
    if options.diary is not None and (options.bags or options.proportions):
        raise typer.BadParameter("Give either --diary, or --bags with --proportions, not both.")
    if options.diary is None and (options.bags is None or options.proportions is None):
        raise typer.BadParameter("--bags COLUMN and --proportions TABLE go together.")
    if options.diary is not None and options.unit == "count":
        raise typer.BadParameter("--unit count is for --proportions, not for a diary.")
    if options.diary is None and options.unit in ("hours", "minutes", "seconds"):
        raise typer.BadParameter(f"--unit {options.unit} is for a diary, not for --proportions.")


def _rules(options: KnownOptions) -> DiaryRules:
    tolerance: Any = options.tolerance
    unit: Any = options.unit
    if tolerance != "auto":
        try:
            tolerance = float(tolerance)
        except ValueError:
            raise typer.BadParameter(
                f"--tolerance must be 'auto' or minutes. Got {options.tolerance!r}."
            ) from None
    return DiaryRules(
        unit=unit,
        uncovered=options.uncovered,
        blank=options.blank,
        tolerance=tolerance,
        excess=options.excess,
        part=options.part,
        covers=options.covers,
    )


def _more_rules(options: KnownOptions) -> list[str]:
    zone = options.timezone
    return [
        f"--timezone {zone}: clock times are of this zone"
        if zone
        else "no --timezone: clock times are taken as they are, days have 24 hours",
        f"--day-start {options.day_start}: when a diary's day begins",
    ]


def _read_diary(table: Any, options: KnownOptions, place: Callable[[int], str]) -> Any:
    columns = {}
    for pair in options.diary_column or ():
        role, sign, name = pair.partition("=")
        if not sign:
            raise typer.BadParameter(f"--diary-column must be ROLE=COLUMN. Got {pair!r}.")
        columns[role.strip()] = name.strip()
    assert options.diary is not None
    return diary_bags(
        table,
        read_sheet(options.diary, encoding=options.encoding),
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


def _groups(matched: DiaryBags, graphs: str) -> tuple[AnyArray | None, str]:
    """Return the participants where each has a graph of their own, and that rule in words."""
    shared = "one graph of all participants"
    apart = "every participant has a graph of their own"
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


def _window_column(table: Any, role: str, asked: str | None) -> str | None:
    folded = {name.strip().casefold(): name for name in reversed(table.column_names)}
    usual = (folded[name] for name in WINDOW_ROLES[role] if name in folded)
    return asked if asked is not None else next(usual, None)


def _bags_of(table: Any, column: str, ids: Any) -> tuple[AnyArray, list[str]]:
    """Return the rows' bags as text, None where the table has none, and which it lacks."""
    codes, found = factorize(table.column(column), "bag id")
    known = set(ids)
    names: list[str | None] = []
    without = []
    for one in found:
        name = plain_name(one)
        names.append(name if name in known else None)
        if name and name not in known:
            without.append(repr(name))
    if not any(name is not None for name in names):
        raise SupervisionError(
            f"column {column!r}",
            f"no id that the table of totals has; rows have {name_some(without, 3) or 'none'}",
            f"the bags {name_some(map(repr, ids), 3)}",
            "check the column and the table",
        )
    return np.array([*names, None], dtype=object)[codes], without


def _given(table: Any, column: str, classes: AnyArray, place: Callable[[int], str]) -> AnyArray:
    codes, found = factorize(table.column(column), "label")
    known = {plain_name(label): label for label in classes.tolist()}
    labels: list[Any] = []
    for code, one in enumerate(found):
        name = plain_name(one)
        if name and name not in known:
            raise FileError(
                f"{place(int(np.argmax(codes == code)))}, column {column!r}",
                f"the label {one!r}",
                f"the classes {name_some(map(repr, known), 12)}, or an empty cell",
                "correct it",
            )
        labels.append(known.get(name))
    return np.array([*labels, None], dtype=object)[codes]


def _require_column(table: Any, name: str, path: Path) -> None:
    if name not in table.column_names:
        raise no_column(name, table.column_names, path.name)


def _refuse_same_ids(table: Any, column: str, place: Callable[[int], str]) -> None:
    ids = table.column(column).to_pylist()
    first: dict[Any, int] = {}
    for row, one in enumerate(ids):
        if is_missing(one) or one in first:
            raise FileError(
                f"{place(row)}, column {column!r}",
                "no id"
                if is_missing(one)
                else f"the id {one!r}, which {place(first[one]).rpartition(', ')[2]} has too",
                "a different id in every row",
                "correct the ids, or name another column with --id",
            )
        first[one] = row
