"""Options turned into calls of the library, and its tables into files."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from apportion._io.atomic_write import Outputs, require_writable
from apportion._io.spreadsheet_safe import require_ending, write_csv, write_table
from apportion._utils.context import ROWS_AROUND
from apportion._utils.method_names import AUTO, LP_LLP, METHODS
from apportion.cli.console import OPTIONS, CommandLineError, in_options, on_stdout
from apportion.cli.options import FeatureOptions, KnownOptions, MethodOptions, OutputOptions
from apportion.estimators import LPLLP, InvCal, MeanMap
from apportion.estimators._base import BagClassifier
from apportion.exceptions import InputError, OutputError, counted, name_some
from apportion.graphs import KNNGraph
from apportion.labeling._features import TableFeatures, learn_features
from apportion.labeling._methods import method_named
from apportion.labeling._summary import with_summary
from apportion.labeling._supervised import SupervisedTable
from apportion.labeling._supervision import check_sources, supervised_table
from apportion.labeling.table import LabeledTable, PredictedTable
from apportion.report import require_tools
from apportion.supervision.diary import DiaryRules
from apportion.supervision.diary.column_roles import DIARY_ROLES

_WITHOUT_DIARY = ("readings", "bags", "proportions", "given", "unit", "encoding")
_RULES = ("unit", "uncovered", "blank", "excess", "part", "covers")
_DIARY = (
    *("participant", "start", "end", "nonwear", "window", "timezone"),
    *("day_start", "date_format", "time_format"),
)
_PRIORS = {"meanmap": MeanMap, "invcal": InvCal}


@contextmanager
def about_options() -> Iterator[None]:
    """Let errors about parameters be errors about options."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        raise CommandLineError(in_options(error.args[0])) from None


def read_supervised(known: KnownOptions, id: str | None = None) -> SupervisedTable:
    """Read rows and what is known of them, as options say."""
    with about_options():
        check_sources(known.bags, known.proportions, known.diary)
    options: dict[str, Any] = {"unit": known.unit}
    if known.diary is not None:
        options = {name: getattr(known, name) for name in _DIARY}
        options |= {"rules": _diary_rules(known), "diary_columns": _diary_columns(known)}
        options["graphs"] = known.graphs
    elif known.unit in ("hours", "minutes", "seconds"):
        raise CommandLineError(f"--unit {known.unit} is for a diary, not for --proportions.")
    for item in fields(known) if known.diary is None else ():
        if item.name not in _WITHOUT_DIARY and getattr(known, item.name) != item.default:
            raise CommandLineError(f"{OPTIONS[item.name]} is for a diary (--diary).")
    return supervised_table(
        known.readings,
        bags=known.bags,
        proportions=known.proportions,
        diary=known.diary,
        given=known.given,
        id=id,
        encoding=known.encoding,
        **options,
    )


def _diary_rules(known: KnownOptions) -> DiaryRules:
    if known.unit == "count":
        raise CommandLineError("--unit count is for --proportions, not for a diary.")
    rules: dict[str, Any] = {name: getattr(known, name) for name in _RULES}
    try:
        tolerance = known.tolerance
        return DiaryRules(**rules, tolerance="auto" if tolerance == "auto" else float(tolerance))
    except ValueError:
        raise CommandLineError(
            f"--tolerance must be 'auto' or minutes of 0 and more. Got {known.tolerance!r}."
        ) from None


def _diary_columns(known: KnownOptions) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {}
    for pair in known.diary_column or ():
        role, sign, name = (text.strip() for text in pair.partition("="))
        if not sign:
            raise CommandLineError(f"--diary-column must be ROLE=COLUMN. Got {pair!r}.")
        if role not in DIARY_ROLES:
            allowed = ", ".join(DIARY_ROLES)
            raise CommandLineError(f"--diary-column has no role {role!r}. Allowed: {allowed}.")
        columns.setdefault(role, []).append(name)
    return columns


def read_features(task: SupervisedTable, options: FeatureOptions) -> TableFeatures:
    """Choose the features of the rows, as options say."""
    return learn_features(
        task, **{name: value for name, value in vars(options).items() if name != "id"}
    )


def check_method(method: MethodOptions) -> None:
    """Raise for values that are not allowed, and for options that do not go together."""
    if method.name not in METHODS:
        raise CommandLineError(
            f"--method must be one of {', '.join(METHODS)}. Got {method.name!r}."
        )
    if method.of_lp_llp and method.name != LP_LLP:
        names = [OPTIONS[name] for name in method.of_lp_llp]
        raise CommandLineError(
            f"{', '.join(names)}: for --method {LP_LLP}, and --method is {method.name}. Leave "
            f"{'it' if len(names) == 1 else 'them'} out."
        )
    if method.jobs is not None and method.name != AUTO:
        raise CommandLineError(f"--jobs is for --method {AUTO}, and --method is {method.name}.")
    if not 0 < method.alpha < 1:
        raise CommandLineError(f"--alpha must be above 0 and below 1. Got {method.alpha:g}.")
    for name in ("tol", "prior_weight", "time_weight"):
        value = getattr(method, name)
        if value is not None and not math.isfinite(value):
            raise CommandLineError(f"{OPTIONS[name]} must be a finite number. Got {value:g}.")
    if method.decode == "sequence" and (method.no_time or method.name not in (AUTO, LP_LLP)):
        raise CommandLineError(
            f"--decode sequence needs times, and --method {AUTO} or {LP_LLP}. Use --decode quota."
        )
    if method.context != "0":
        _check_context(method)
    if method.time_weight is not None and method.no_time:
        raise CommandLineError("--time-weight and --no-time contradict each other: give one.")
    if method.prior_weight is not None and method.prior is None:
        raise CommandLineError("--prior-weight is for --prior: name a method with --prior.")
    if method.neighbors is not None and method.graph not in ("auto", "knn"):
        raise CommandLineError(
            f"--neighbors is for --graph knn, and --graph is {method.graph}. Leave out one of them."
        )


def _check_context(method: MethodOptions) -> None:
    """Raise if the rows around are no number, or are for no method that sees them."""
    digits = method.context.isdecimal() and len(method.context) < 10
    if method.context != "auto" and not (digits and int(method.context) in ROWS_AROUND):
        raise CommandLineError(f"--context must be auto or {ROWS_AROUND}. Got {method.context!r}.")
    if method.name != AUTO:
        raise CommandLineError(f"--context is for --method {AUTO}, and --method is {method.name}.")
    if method.no_time:
        raise CommandLineError("--context and --no-time contradict each other: give one.")


def estimator_of(method: MethodOptions) -> BagClassifier:
    """Return the estimator that options ask for, not fitted.

    With `--decode auto` it decodes by quota, until it is known what the diary says.
    """
    decode = "quota" if method.decode == "auto" else method.decode
    if method.name != LP_LLP:
        return method_named(
            method.name,
            decode=decode,
            context=method.context if method.context == "auto" else int(method.context),
            n_jobs=method.jobs,
            random_state=method.seed,
        )
    return LPLLP(
        method.graph if method.neighbors is None else KNNGraph(method.neighbors),
        method.alpha,
        decode=decode,
        prior=None if method.prior is None else _PRIORS[method.prior](),
        prior_weight=method.prior_weight,
        time_weight="auto" if method.time_weight is None else method.time_weight,
        n_probes=method.probes,
        tol=method.tol,
        max_iter=method.max_iter,
        random_state=method.seed,
    )


def check_output(out: OutputOptions) -> None:
    """Raise for options of the output that are not allowed or do not go together."""
    if out.abstain_below is not None and not 0 <= out.abstain_below <= 1:
        raise CommandLineError(f"--abstain-below must be from 0 to 1. Got {out.abstain_below:g}.")
    if out.json and out.output is None:
        raise CommandLineError("--json prints a summary on stdout: name a file with --output.")


def check_files(
    *tables: Path | None,
    page: Path | None = None,
    others: Iterable[Path | None] = (),
    inputs: Iterable[Path | None],
    force: bool,
) -> None:
    """Raise, before any work, if a file could not be written.

    Parameters
    ----------
    *tables : path or None
        Tables to write.
    page : path or None
        A report to write.
    others : iterable of path or None
        Other files to write.
    inputs : iterable of path or None
        The files that are read.
    force : bool
        Whether files that are there are replaced.
    """
    for table in filter(None, tables):
        require_ending(table)
    if page is not None:
        if page.suffix.lower() not in (".html", ".htm"):
            raise OutputError(
                f"{page} cannot be written: a report is an .html file. Give it that ending."
            )
        require_tools()
    outputs = [path for path in (*tables, *others, page) if path is not None]
    real = os.path.realpath  # survives links in a circle
    if len({real(path) for path in outputs}) < len(outputs):
        raise CommandLineError(
            "Two of --output, --model, --report and --episodes name the same file."
        )
    read = {real(path) for path in inputs if path is not None}
    for path in outputs:
        if real(path) in read:
            raise OutputError(f"{path} is an input of this command. Name another file.")
        require_writable(path, force=force)


def is_parquet(path: Path | None) -> bool:
    """Return whether a table goes into a Parquet file, where columns have types."""
    return path is not None and path.suffix.lower() == ".parquet"


def write_labeled(labeled: PredictedTable, path: Path | None, outputs: Outputs) -> list[str]:
    """Write a labeled table, with the summary of a run inside if it is Parquet."""
    table = labeled.to_arrow(typed=is_parquet(path))
    if isinstance(labeled, LabeledTable):
        table = with_summary(table, labeled.summary, OPTIONS)
    covered = name_some(labeled.covered_columns)
    lost = f"not kept, as the answer has columns called so: {covered}"
    return [lost] * bool(covered) + write_output(table, path, outputs)


def write_output(table: Any, path: Path | None, outputs: Outputs) -> list[str]:
    """Write a table to a file or to stdout, and return what to say once it is in its place.

    Call it last: what is on stdout cannot be taken back.
    """
    n_changed, written = 0, []
    if path is None:
        with on_stdout():  # which leaves the block if nobody reads on
            n_changed = write_csv(table, sys.stdout.buffer)
    else:
        n_changed = write_table(table, path, outputs)
        written = [f"written: {path}, {counted(table.num_rows, 'row')}"]
    note = (
        f"{counted(n_changed, 'text')} that a spreadsheet would take for formulas got an "
        "apostrophe before them; Parquet output keeps them as they are"
    )
    return [note] * bool(n_changed) + written


def command_line() -> str:
    """Return the command that is running."""
    return shlex.join(["apportion", *sys.argv[1:]])
