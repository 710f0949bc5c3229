"""What commands share: settings from options, and tables into files or to stdout."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apportion._io.atomic_write import Outputs, require_writable
from apportion._io.spreadsheet_safe import require_ending, write_csv
from apportion.cli.console import OPTIONS, CommandLineError, in_options, on_stdout
from apportion.cli.options import FeatureOptions, KnownOptions, MethodOptions, OutputOptions
from apportion.exceptions import InputError, OutputError
from apportion.labeling import _outputs
from apportion.labeling._outputs import changed_notes, covered_notes
from apportion.labeling.settings import LabelSettings, check_abstain_below, values_in
from apportion.labeling.table import PredictedTable
from apportion.report import require_tools


@contextmanager
def about_options() -> Iterator[None]:
    """Let errors about parameters be errors about options."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        raise CommandLineError(in_options(error.args[0])) from None


def with_settings(values: Mapping[str, Any], given: set[str]) -> dict[str, Any]:
    """Return the values of options, from the settings file unless the command line gave them.

    Parameters
    ----------
    values : mapping of str to object
        The values of all options of a command; `settings` is the file, or None.
    given : set of str
        The options that the command line gave.
    """
    saved = {} if values["settings"] is None else values_in(values["settings"])
    merged = {**values, **{name: saved[name] for name in saved if name not in given}}
    if merged["readings"] is None:
        raise CommandLineError(
            "READINGS is missing: name the file of the rows, here or in a settings file "
            "(--settings)."
        )
    return merged


def settings_of(
    known: KnownOptions, feature: FeatureOptions, method: MethodOptions, out: OutputOptions
) -> LabelSettings:
    """Return the settings that options are."""
    return LabelSettings(known, feature, method, out.abstain_below, out.all_columns)


def check_output(out: OutputOptions) -> None:
    """Raise for options of the output that are not allowed or do not go together."""
    check_abstain_below(out.abstain_below)
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


def write_labeled(labeled: PredictedTable, path: Path | None, outputs: Outputs) -> list[str]:
    """Write a labeled table to a file or to stdout, and return what to say once it is there."""
    if path is not None:
        return _outputs.write_labeled(labeled, path, outputs, OPTIONS)
    return [*covered_notes(labeled), *print_table(labeled.to_arrow(typed=False))]


def write_output(table: Any, path: Path | None, outputs: Outputs) -> list[str]:
    """Write a table to a file or to stdout, and return what to say once it is there."""
    return print_table(table) if path is None else _outputs.write_output(table, path, outputs)


def print_table(table: Any) -> list[str]:
    """Print a table as CSV, and return what to say then.

    Call it last: what is on stdout cannot be taken back.
    """
    n_changed = 0
    with on_stdout():  # which leaves the block if nobody reads on
        n_changed = write_csv(table, sys.stdout.buffer)
    return changed_notes(n_changed)


def command_line() -> str:
    """Return the command that is running."""
    return shlex.join(["apportion", *sys.argv[1:]])
