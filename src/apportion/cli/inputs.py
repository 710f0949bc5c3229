"""What a command was given: the rows of a file, and what is known of their bags."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from apportion._io.feature_columns import Clock, When, choose_columns, when_by_name, why_left_out
from apportion._io.feature_recipe import Recipe, learn_recipe
from apportion._io.identifiers import first_called, is_missing, plain_name
from apportion._io.read import place_in, read_columns
from apportion._io.values import delimiter_in, numbers_of, values_of
from apportion._utils.progress import report_progress
from apportion._utils.typing import AnyArray
from apportion.cli.console import in_options
from apportion.cli.given import Rows, read_given, require_given_columns, unused_notes
from apportion.cli.known import (
    known_from_diary,
    known_from_table,
    require_column,
    require_one_source,
)
from apportion.cli.options import FeatureOptions, KnownOptions
from apportion.exceptions import FileError, InputError, counted, name_some
from apportion.labeling.rows import Supervision
from apportion.plotting._window_times import Times, times_from
from apportion.supervision.diary.column_roles import WINDOW_ROLES, ColumnTable
from apportion.supervision.totals import Totals, sorted_classes

_USUAL_IDS = ("id", "row_id", "window_id", "window", "unique_id", "uuid")


@dataclass(frozen=True)
class Inputs:
    """Rows and what is known of them.

    Attributes
    ----------
    path : path
        The file of the rows.
    table : pyarrow.Table
        Its columns.
    place : callable
        Says where a row stands, for messages.
    known : Supervision
        Bags, totals and labels.
    roles : dict of str to str
        Columns that play a role, and which.
    rules : list of str
        The rules that were used, one a line.
    notes : list of str
        What was found and decided.
    times : Times or None
        When the rows were recorded, where that is known.
    bag_word : {"bag", "entry"}
        What the bags are called.
    never : tuple of str
        Names of classes that no bag has.
    time_format : str or None
        How times are written, where that is not ISO 8601.
    """

    path: Path
    table: Any
    place: Callable[[int], str]
    known: Supervision
    roles: dict[str, str]
    rules: list[str]
    notes: list[str]
    times: Times | None
    bag_word: str
    never: tuple[str, ...]
    time_format: str | None


def read_inputs(readings: Path, options: KnownOptions, ids: str | None = None) -> Inputs:
    """Return the rows and their supervision, after all checks; `ids` is the column of row ids."""
    require_one_source(options)
    report_progress("reading")
    table = read_columns(readings, encoding=options.encoding)
    place = partial(place_in, readings, encoding=options.encoding)
    asked = options.given or []
    require_given_columns(asked, table, readings.name)
    found = (
        known_from_table(table, readings, options, place)
        if options.diary is None
        else known_from_diary(table, readings, options, place)
    )
    given, roles, notes, totals = None, found.roles, found.notes, found.supervision.totals
    if asked:

        def rows() -> Rows:
            times, columns, _ = times_of(table, found.times, found.roles)
            row_ids = id_column(table, ids)
            return Rows(table, readings, place, row_ids, times, columns, options.time_format)

        names = [*totals.classes.tolist(), *found.never]
        given, more_roles, more = read_given(asked, rows, table, place, names, options.encoding)
        totals = with_named(totals, found.never, given)
        unused = unused_notes(given, found.supervision.left_out)
        roles, notes = {**roles, **more_roles}, [*notes, *more, *unused]
    return Inputs(
        readings,
        table,
        place,
        replace(found.supervision, given=given, totals=totals),
        roles,
        found.rules,
        notes,
        found.times,
        found.bag_word,
        found.never,
        options.time_format,
    )


def with_named(totals: Totals, never: Sequence[str], labels: AnyArray) -> Totals:
    """Return totals with the classes that no bag has, where labels name one of them."""
    if not set(never) & set(labels.tolist()):
        return totals
    return totals.with_classes(sorted_classes([*totals.classes.tolist(), *never])[0])


@dataclass(frozen=True)
class Features:
    """How columns become features, columns that tell rows apart, and what to say about it."""

    recipe: Recipe
    ids_and_times: list[str]
    notes: list[str]


def learn_features(inputs: Inputs, options: FeatureOptions) -> Features:
    """Return how the columns of the rows become features."""
    table, where = inputs.table, inputs.path.name
    roles, categorical = dict(inputs.roles), options.categorical or ()
    if options.id is not None:
        require_ids(table, options.id, where, inputs.place)
        roles[options.id] = "the id"
    for name in categorical:
        require_column(table, name, where)
    choice = choose_columns(
        table,
        features=options.features or (),
        exclude=options.exclude or (),
        roles=roles,
        classes=[*inputs.known.totals.classes.tolist(), *inputs.never],
    )
    recipe, useless = learn_recipe(
        table,
        choice.features,
        inputs.place,
        categorical=categorical,
        missing=options.missing,
        scale=options.scale,
    )
    says_when = _columns_that_say_when(inputs, recipe)
    asked = {*(options.features or ()), *categorical}
    dropped = {
        name: why
        for name, kind in says_when.items()
        if name not in asked and (why := why_left_out(kind)) is not None
    }
    kept = tuple(feature for feature in recipe.features if feature.name not in dropped)
    recipe = replace(recipe, features=kept)
    reasons = {**choice.left_out, **useless, **dropped}
    notes = feature_notes(where, counted(table.num_rows, "row"), recipe.names, reasons)
    for name in categorical:
        if name in reasons:
            raise FileError(
                f"column {name!r}",
                f"--categorical for a column that is no feature: {in_options(reasons[name])}",
                "columns that are features",
                "leave it out of --categorical",
            )
    categories = [
        f"{feature.name} ({counted(len(feature.levels), 'text')}: "
        f"{name_some(map(repr, feature.levels), 3)})"
        for feature in recipe.features
        if feature.levels is not None
    ]
    if categories:
        notes.insert(1, f"categories: {name_some(categories, 12)}")
    notes += when_notes(recipe.names, reasons, says_when)
    ids = id_column(table, None)
    if options.id is None and ids is not None and len(table.column(ids).unique()) < table.num_rows:
        notes.append(f"several rows have the same {ids!r}, or none; --id {ids} refuses that")
    return Features(recipe, choice.ids_and_times, notes)


def _columns_that_say_when(inputs: Inputs, recipe: Recipe) -> dict[str, When]:
    """Return the features that say when, by their numbers where times are known, or by name."""
    times, table = inputs.times, inputs.table
    clock = None if times is None else Clock(times.starts, times.participants, dated=times.dated)
    found: dict[str, When] = {}
    for feature in recipe.features:
        kind = when_by_name(feature.name)
        if clock is not None and feature.levels is None:
            cells, delimiter = values_of(table, feature.name), delimiter_in(table)
            numbers = numbers_of(cells, feature.name, inputs.place, delimiter=delimiter)
            kind = clock.when(numbers) or kind
        if kind is not None:
            found[feature.name] = kind
    return found


def when_notes(
    names: Sequence[str], left_out: Mapping[str, str], says_when: Mapping[str, When]
) -> list[str]:
    """Return what becomes of columns that say when, in sentences."""
    notes = []
    used = [name for name in names if name in says_when]
    unused = [
        name
        for name, why in left_out.items()
        if why == why_left_out(says_when.get(name) or when_by_name(name))
    ]
    if unused:
        notes.append(
            f"columns that say when, not what, are not used: {name_some(unused, 12)}; they keep "
            "windows of different days apart, and cost accuracy. To use them all the same, list "
            "all features in --features"
        )
    if used:
        listed = name_some((f"{name} ({says_when[name]})" for name in used), 12)
        without = " ".join(f"--exclude {shlex.quote(name)}" for name in used[:3])
        notes.append(
            f"columns that say when, not what, are used: {listed}; they help only where every day "
            f"has the same routine, so compare with {without}"
        )
    return notes


def feature_notes(
    where: str,
    rows: str,
    names: Sequence[str],
    left_out: Mapping[str, str],
    allowed: str = "numbers or categories that differ",
) -> list[str]:
    """Return which columns are features, and why others are none; raise where there is none."""
    others = name_some((f"{name} ({in_options(why)})" for name, why in left_out.items()), 12)
    if not names:
        raise FileError(
            where,
            f"no column that can be a feature: {others}",
            f"at least one column of {allowed}",
            "add one, or name it with --features",
        )
    found = f"{where}: {rows}, {counted(len(names), 'feature')}: {name_some(names, 12)}"
    return [found, *([f"not features: {others}"] if others else [])]


def id_column(table: Any, asked: str | None) -> str | None:
    """Return the column of row ids: the one asked for, or one called so."""
    if asked is not None:
        return asked
    return first_called(table.column_names, _USUAL_IDS)


def times_in(table: Any) -> tuple[Times | None, str]:
    """Return when the rows of a table were recorded, and why that cannot be told.

    Columns of the usual names say it. Where there is none, nobody asked for days.
    """
    columns, found = ColumnTable(table), columns_of_times(table)
    if "start" not in found:
        return None, ""
    times = {role: columns.values(name) for role, name in found.items()}
    try:
        who = columns[found["participant"]] if "participant" in found else None
        return times_from(times["start"], times.get("end"), participants=who), ""
    except InputError as error:
        return None, f"no days are shown, as times cannot be read: {error}"


def columns_of_times(table: Any, roles: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the columns of start, end and participant: those of these roles, or so called."""
    wanted = ("start", "end", "participant")
    if roles is not None:
        by_role = {role: column for column, role in roles.items()}
        return {role: by_role[f"the {role}"] for role in wanted if f"the {role}" in by_role}
    names = ColumnTable(table).names
    found = {role: first_called(names, WINDOW_ROLES[role]) for role in wanted}
    return {role: name for role, name in found.items() if name is not None}


def times_of(
    table: Any, times: Times | None = None, roles: Mapping[str, str] | None = None
) -> tuple[Times | None, dict[str, str], str]:
    """Return when rows were recorded, in which columns that stands, and why it is not known.

    It is what is known already, from columns of these roles, or what columns of the usual names
    say.
    """
    if times is not None:
        return times, columns_of_times(table, roles), ""
    times, why = times_in(table)
    return times, columns_of_times(table), why


def require_ids(table: Any, column: str, where: str, place: Callable[[int], str]) -> None:
    """Raise where a column is not there, or does not have a different id in every row."""
    require_column(table, column, where)
    first: dict[str, int] = {}
    for row, cell in enumerate(table.column(column).to_pylist()):
        name = "" if is_missing(cell) else plain_name(cell)
        if name and first.setdefault(name, row) == row:
            continue
        raise FileError(
            f"{place(row)}, column {column!r}",
            f"the id {name!r}, which {place(first[name]).rpartition(', ')[2]} has too"
            if name
            else "no id",
            "a different id in every row",
            "correct the ids, or name another column with --id",
        )
