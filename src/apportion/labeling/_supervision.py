"""Read what is known of rows: from a column of bags and a table of totals, or from a diary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from apportion._io.identifiers import factorize, plain_names, respelled
from apportion._io.read import no_column
from apportion._io.sheet import Sheet, read_sheet, sheet_of
from apportion._utils.progress import report_progress
from apportion._utils.typing import AnyArray
from apportion.exceptions import (
    Advice,
    FileError,
    SupervisionError,
    compared,
    counted,
    hint,
    name_some,
)
from apportion.labeling._given import (
    is_column,
    meaning,
    read_given,
    unused_notes,
    with_exclusions,
)
from apportion.labeling._source import SourceTable, source_table
from apportion.labeling._supervised import NONWEAR, SupervisedTable
from apportion.labeling.rows import Conflict, Supervision
from apportion.plotting._window_times import times_of_diary
from apportion.supervision.diary import UNKNOWN, DiaryBags, diary_bags
from apportion.supervision.diary.column_roles import WINDOW_ROLES
from apportion.supervision.totals_table import TotalsTable, Unit, read_totals

Graphs = Literal["auto", "one", "each"]

_MUCH_UNKNOWN = 0.05
"""If more of the time than this is unknown, every participant has a graph of their own: what is
unknown is something else for everybody."""

_UNIT_WORDS = {"share": "shares", "percent": "percentages", "count": "counts"}


def supervised_table(
    rows: Any,
    *,
    bags: str | None = None,
    proportions: Any = None,
    diary: Any = None,
    given: Any = None,
    conflict: Conflict = "error",
    unit: Unit = "auto",
    graphs: Graphs = "auto",
    id: str | None = None,
    encoding: str | None = None,
    **diary_options: Any,
) -> SupervisedTable:
    """Read rows and what is known of their labels, and check that they go together.

    The parameters are those of `apportion.labeling.label_table`.
    """
    check_sources(bags, proportions, diary)
    if conflict not in ("error", "given"):
        raise ValueError(
            hint("{conflict} must be 'error' or 'given'. Got {found}.", found=repr(conflict))
        )
    if diary is None and diary_options:
        facts = f"{name_some(map(repr, diary_options))}: parameters of a diary, without one."
        raise ValueError(Advice(facts, "Give {diary}, or leave them out."))
    report_progress("reading")
    source = source_table(rows, encoding=encoding)
    sources = [given] if _is_single(given) else list(given or ())
    columns = [label for label in sources if is_column(label, source)]
    for column in columns:
        source.require(column)
    if bags is not None:
        task = _from_totals(source, bags, _sheet(proportions, "the totals", encoding), unit)
    else:
        task = _from_diary(source, _sheet(diary, "the diary", encoding), graphs, diary_options)
    task = replace(task, time_format=diary_options.get("time_format"), id=id)
    if not sources:
        return task
    found = read_given(sources, task, encoding)
    totals = task.totals_for(found.labels)
    labels, excluded = with_exclusions(found, totals.classes, source)
    unused = unused_notes(labels, task.supervision.left_out)
    supervision = replace(
        task.supervision, given=labels, totals=totals, conflict=conflict, excluded=excluded
    )
    return replace(
        task,
        supervision=supervision,
        roles={**task.roles, **dict.fromkeys(columns, "the given labels")},
        notes=(*task.notes, *found.notes, *unused),
    )


def check_sources(bags: Any, proportions: Any, diary: Any) -> None:
    """Raise if there is no source of totals, or if there are two."""
    if bags is None and proportions is None and diary is None:
        raise ValueError(hint("Give {diary}, or {bags} with {proportions}."))
    if diary is not None and (bags is not None or proportions is not None):
        raise ValueError(hint("Give either {diary}, or {bags} with {proportions}, not both."))
    if diary is None and (bags is None or proportions is None):
        raise ValueError(hint("{bags} and {proportions} go together."))


def _is_single(given: Any) -> bool:
    """Return whether given labels are one column, file or dataframe."""
    return isinstance(given, str | Path) or hasattr(given, "columns")


def _sheet(table: Any, name: str, encoding: str | None) -> Sheet:
    if isinstance(table, str | Path):
        return read_sheet(table, encoding=encoding)
    return sheet_of(table, name)


def _from_totals(rows: SourceTable, column: str, sheet: Sheet, unit: Unit) -> SupervisedTable:
    """Match the bags of a column with a table of totals."""
    rows.require(column)
    table = read_totals(sheet, column, unit)
    ids, classes = table.totals.ids, table.totals.classes
    bags, strangers = _bags_of(rows, column, [str(bag) for bag in ids])
    if table.unit == "count":
        _require_counts(bags, table)
    notes = [
        f"{sheet.name}: {counted(len(ids), 'bag')}, {counted(len(classes), 'class')}, read as "
        f"{_UNIT_WORDS[table.unit]}: {name_some(classes.tolist(), 12)}"
    ]
    sizes = Counter(bags.tolist())
    if sizes[None]:
        which = f": {name_some(strangers, 3)}" if strangers else ""
        notes.append(
            f"{sizes[None]:,} of {counted(len(bags), 'row')} are in no bag of {sheet.name}{which}; "
            "their neighbors alone decide"
        )
    unused = [repr(bag) for bag in ids if not sizes[bag]]
    if unused:
        notes.append(f"{counted(len(unused), 'bag')} without a row: {name_some(unused, 3)}")
    supervision = Supervision(bags, table.totals, None, None, {})
    return SupervisedTable(rows, supervision, {column: "the bags"}, tuple(notes))


def _bags_of(rows: SourceTable, column: str, ids: Sequence[str]) -> tuple[AnyArray, list[str]]:
    """Return the bag of each row, None if it has no totals, and the ids that have no totals."""
    codes, cells = factorize(rows.table.column(column), "bag id")
    known = {bag: bag for bag in ids}
    bags = [meaning(cell, known) for cell in cells]
    names = plain_names(cells, "bag", f"column {column!r}")
    strangers = [name for name, bag in zip(names, bags, strict=True) if bag is None]
    used = set(bags)
    alike = respelled(strangers, [bag for bag in ids if bag not in used])
    if alike:
        name, bag = next(iter(alike.items()))
        raise FileError(
            "",
            f"the bag {name!r}, which the table of totals has as {bag!r}",
            "ids that are written alike in both, because ids are text",
            "write both alike",
            place=rows.place(int(np.argmax(codes == names.index(name)))),
            column=column,
        )
    if len(strangers) == len(names):
        raise SupervisionError(
            "",
            "no id that the table of totals has; rows have "
            f"{name_some(map(repr, strangers), 3) or 'none'}",
            f"the bags {name_some(map(repr, ids), 3)}",
            "check the column and the table",
            column=column,
        )
    return np.array([*bags, None], dtype=object)[codes], [repr(name) for name in strangers]


def _require_counts(bags: AnyArray, table: TotalsTable) -> None:
    """Raise if the counts of a bag do not sum to its number of rows."""
    sizes, totals = Counter(bags.tolist()), table.totals
    for bag, lower, upper in zip(totals.ids, totals.lower, totals.upper, strict=True):
        n_samples = sizes[bag]
        if not n_samples or lower.sum() <= n_samples <= upper.sum():
            continue
        raise FileError(
            f"{table.places[str(bag)]} (bag {bag!r})",
            f"counts that sum to {compared(lower.sum(), n_samples)[0]}",
            f"{'at most ' * bool(np.isinf(upper).any())}{n_samples:,}, the bag's number of rows",
            "correct the counts, or give shares or percentages",
        )


def _from_diary(
    rows: SourceTable, sheet: Sheet, graphs: Graphs, options: dict[str, Any]
) -> SupervisedTable:
    """Match windows with the entries of a diary."""
    for role in WINDOW_ROLES:
        if options.get(role) is not None:
            rows.require(options[role])
    for names in (options.get("diary_columns") or {}).values():
        for name in [names] if isinstance(names, str) else names:
            if name not in sheet.columns:
                raise no_column(name, sheet.columns, sheet.name)
    matched = diary_bags(rows.table, sheet, place=rows.place, **options)
    groups, graphs_rule = _groups(matched, graphs)
    zone, day_start = options.get("timezone"), options.get("day_start", "00:00")
    zone_rule = (
        hint("{timezone:{zone}}: clock times are of this zone", zone=zone)
        if zone
        else hint(
            "no {timezone}: clock times without a zone are taken as they are, days have 24 hours"
        )
    )
    day_rule = hint("{day_start:{time}}: when a diary's day begins", time=day_start)
    return SupervisedTable(
        rows,
        Supervision(matched.bags, matched.totals, None, groups, {"non-wear": matched.left_out}),
        {
            column: NONWEAR if role == "nonwear" else f"the {role}"
            for role, column in matched.columns.items()
        },
        tuple(matched.notes),
        (*matched.rules, zone_rule, day_rule, graphs_rule),
        times_of_diary(matched, day_start),
        "entry",
        matched.never,
        remarks=matched.remarks,
    )


def _groups(matched: DiaryBags, graphs: Graphs) -> tuple[AnyArray | None, str]:
    """Return the participants if each has a graph of their own, and that rule in words."""
    together = "windows of all participants are compared with each other"
    apart = "every participant's windows are compared with their own only"
    if graphs == "each" and matched.participants is not None:
        return matched.participants, hint(f"{{graphs:each}}: {apart}")
    if graphs == "auto" and matched.participants is not None:
        hours = np.array([matched.recorded_hours[str(bag)] for bag in matched.totals.ids])
        unknown = matched.totals.classes == UNKNOWN
        share = float(hours @ matched.totals.lower[:, unknown].sum(axis=1) / hours.sum())
        if share > _MUCH_UNKNOWN and len(set(matched.participants.tolist())) > 1:
            return matched.participants, hint(
                f"{{graphs:auto}}: {apart}, because at least {share:.0%} of the time is "
                f"{UNKNOWN!r}, which is something else for everybody"
            )
    return None, hint(f"{{graphs:{graphs}}}: {together}")
