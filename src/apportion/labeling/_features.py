"""Choose the columns of a table that are features, and turn them into numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from apportion._io.feature_columns import Clock, When, choose_columns, when_by_name, why_left_out
from apportion._io.feature_recipe import Encoded, Missing, Recipe, learn_recipe
from apportion._io.values import delimiter_in, numbers_of, values_of
from apportion._utils.progress import report_progress
from apportion.exceptions import Advice, FileError, counted, hint, name_some
from apportion.labeling._source import SourceTable
from apportion.labeling._supervised import SupervisedTable

_OFTEN = 0.05
"""Columns that are missing in at least this share of the rows are named."""

_MOST_NAMED = 8


@dataclass(frozen=True)
class TableFeatures:
    """The features of a table.

    Attributes
    ----------
    recipe : Recipe
        How columns become numbers.
    columns : pyarrow.Table
        These columns, parsed.
    ids_and_times : list of str
        Columns that are no features because they hold ids or times.
    notes : tuple of str
        Which columns are features, and why others are not.
    left_out : mapping of str to str
        The columns that are no features, and why.
    """

    recipe: Recipe
    columns: Any
    ids_and_times: list[str]
    notes: tuple[str, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)

    def encode(self, rows: SourceTable) -> Encoded:
        """Return the rows as numbers."""
        report_progress("reading features")
        return self.recipe.encode(self.columns, rows.place)


def learn_features(
    task: SupervisedTable,
    *,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    missing: Missing = "median",
    scale: bool = True,
) -> TableFeatures:
    """Choose the columns that are features, and learn how they become numbers.

    The parameters are those of `apportion.labeling.label_table`.
    """
    features, exclude, categorical = features or (), exclude or (), categorical or ()
    rows, roles = task.rows, dict(task.roles)
    if task.id is not None:
        rows.require_ids(task.id)
        roles[task.id] = "the id"
    for name in categorical:
        rows.require(name)
    table = _parsed(rows.table, categorical)
    choice = choose_columns(
        table, features=features, exclude=exclude, roles=roles, classes=task.all_classes
    )
    recipe, useless = learn_recipe(
        table, choice.features, rows.place, categorical=categorical, missing=missing, scale=scale
    )
    time_kinds = _time_columns(table, recipe, task)
    dropped = {
        name: why
        for name, kind in time_kinds.items()
        if name not in {*features, *categorical} and (why := why_left_out(kind)) is not None
    }
    kept = tuple(feature for feature in recipe.features if feature.name not in dropped)
    recipe = replace(recipe, features=kept)
    reasons = {**choice.left_out, **useless, **dropped}
    notes = feature_notes(rows.name, counted(rows.n_samples, "row"), recipe.names, reasons)
    for name in categorical:
        if name in reasons:
            raise FileError(
                "",
                f"a column that is no feature: {reasons[name]}",
                "columns that are features",
                hint("leave it out of {categorical}"),
                parameter="categorical",
                column=name,
            )
    categories = [
        f"{feature.name} ({counted(len(feature.levels), 'text')}: "
        f"{name_some(map(repr, feature.levels), 3)})"
        for feature in recipe.features
        if feature.levels is not None
    ]
    if categories:
        notes.insert(1, f"categories: {name_some(categories, 12)}")
    notes += time_notes(recipe.names, reasons, time_kinds)
    ids = rows.usual_ids
    if task.id is None and ids and len(rows.table.column(ids).unique()) < rows.n_samples:
        facts = f"several rows have the same {ids!r}, or none;"
        notes.append(Advice(facts, "{id:{column}} refuses that", column=ids))
    columns = table.select(recipe.names)
    return TableFeatures(recipe, columns, choice.ids_and_times, tuple(notes), reasons)


def _parsed(table: Any, categorical: Sequence[str]) -> Any:
    """Return a table whose columns of text are numbers or times where all their cells are.

    Categories stay the text that they are written as. The result remembers the delimiter of the
    text file, by which the cells of a column that is text in part are read.
    """
    if delimiter_in(table) is None:
        return table
    # Choosing features, learning their means, recognizing columns of times and encoding all need
    # the numbers: cells are parsed here, once, and `values_of` returns parsed columns as they are.
    for k, name in enumerate(table.column_names):
        if name not in categorical:
            table = table.set_column(k, name, values_of(table, name))
    return table


def _time_columns(table: Any, recipe: Recipe, task: SupervisedTable) -> dict[str, When]:
    """Return the features that tell the time, by their numbers if times are known, or by name."""
    times = task.times
    clock = None if times is None else Clock(times.starts, times.participants, dated=times.dated)
    kinds: dict[str, When] = {}
    for feature in recipe.features:
        kind = when_by_name(feature.name)
        if clock is not None and feature.levels is None:
            cells, delimiter = values_of(table, feature.name), delimiter_in(table)
            numbers = numbers_of(cells, feature.name, task.rows.place, delimiter=delimiter)
            kind = clock.when(numbers) or kind
        if kind is not None:
            kinds[feature.name] = kind
    return kinds


def time_notes(
    names: Sequence[str], left_out: Mapping[str, str], time_kinds: Mapping[str, When]
) -> list[str]:
    """Return what becomes of columns that tell the time, in sentences.

    Parameters
    ----------
    names : sequence of str
        The features.
    left_out : mapping of str to str
        Other columns, and why they are no features.
    time_kinds : mapping of str to str
        Columns that tell the time, and which time.
    """
    notes: list[str] = []
    used = [name for name in names if name in time_kinds]
    unused = [
        name
        for name, why in left_out.items()
        if why == why_left_out(time_kinds.get(name) or when_by_name(name))
    ]
    if unused:
        facts = (
            f"columns that say when, not what, are not used: {name_some(unused, 12)}; they keep "
            "windows of different days apart, and cost accuracy."
        )
        notes.append(Advice(facts, "To use them all the same, list all features in {features}"))
    if used:
        listed = name_some((f"{name} ({time_kinds[name]})" for name in used), 12)
        facts = (
            f"columns that say when, not what, are used: {listed}; they help only where every day "
            "has the same routine,"
        )
        without = {f"column_{k}": name for k, name in enumerate(used[:3])}
        excluded = " ".join(f"{{exclude:{{{field}}}}}" for field in without)
        notes.append(Advice(facts, f"so compare with {excluded}", **without))
    return notes


def feature_notes(
    where: str,
    n_samples: str,
    names: Sequence[str],
    left_out: Mapping[str, str],
    allowed: str = "numbers or categories that differ",
) -> list[str]:
    """Return which columns are features, and why others are not; raise if there is none."""
    others = _with_reasons(left_out)
    if not names:
        raise FileError(
            where,
            f"no column that can be a feature: {others}",
            f"at least one column of {allowed}",
            hint("add one, or name it with {features}"),
        )
    listed = f"{where}: {n_samples}, {counted(len(names), 'feature')}: {name_some(names, 12)}"
    return [listed, *([Advice("not features:", others.hint, **others.values)] if left_out else [])]


def _with_reasons(left_out: Mapping[str, str]) -> Advice:
    """Return names of columns, each with the reason why it is left out, which may be advice."""
    pairs = list(left_out.items())
    fields = [f"{{name_{i}}} ({{why_{i}}})" for i in range(len(pairs))]
    values = {f"name_{i}": name for i, (name, _) in enumerate(pairs)}
    return hint(
        name_some(fields, 12), **values, **{f"why_{i}": w for i, (_, w) in enumerate(pairs)}
    )


def missing_notes(recipe: Recipe, encoded: Encoded, why: str = "") -> list[str]:
    """Return how much of each column is missing, what became of it, and why: by the parameter."""
    shares = sorted(encoded.missing.items(), key=lambda item: -item[1])
    often = [f"{name} {share:.0%}" for name, share in shares if share >= _OFTEN]
    n_seldom = sum(0 < share < _OFTEN for _, share in shares)
    if not often and not n_seldom:
        return []
    seldom = [f"{counted(n_seldom, 'column')} below {_OFTEN:.0%}"] * bool(n_seldom)
    listed = ", ".join([name_some(often, _MOST_NAMED)] * bool(often) + seldom)
    what = "filled with the column's median, or no category"
    if recipe.missing == "drop":
        what = f"{counted(int(encoded.lacking.sum()), 'row')} with such a cell not labeled"
    return [
        Advice(f"missing cells: {listed}; {what}", f"({why or f'{{missing:{recipe.missing}}}'})")
    ]
