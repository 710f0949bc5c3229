"""`apportion windows`: events of sensors to windows, one row each."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from apportion._io.atomic_write import Outputs, require_writable
from apportion._io.read import place_in, read_columns
from apportion._io.spreadsheet_safe import require_ending
from apportion._utils.progress import report_progress
from apportion.cli.answer import TimeColumn, refuse_inputs, write_answer
from apportion.cli.console import print_notes, stages, with_exit_codes
from apportion.cli.options import OutputOptions
from apportion.plotting._window_times import SECOND, carries_dates
from apportion.supervision.diary import EventWindows, windows_of_events
from apportion.supervision.diary.column_roles import EVENT_ROLES

_COLUMNS, _OUTPUT = "Columns", "Output"


@with_exit_codes
def windows(
    events: Annotated[
        Path,
        typer.Argument(
            help="The events: a CSV, Parquet or .xlsx file with a start, an end and a sensor.",
            metavar="EVENTS",
            show_default=False,
            readable=False,
        ),
    ],
    every: Annotated[
        str, typer.Option(help="Length of a window, such as 30s or 5min.", metavar="LENGTH")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write, .csv or .parquet. CSV on stdout if not given.",
            metavar="FILE",
            rich_help_panel=_OUTPUT,
            readable=False,
        ),
    ] = None,
    share: Annotated[
        bool,
        typer.Option(
            "--share",
            help="Write the share of a window in which a sensor was on, not the seconds.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    participant: Annotated[
        str | None,
        typer.Option(help="Column of participants.", metavar="COLUMN", rich_help_panel=_COLUMNS),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(help="Column of starts.", metavar="COLUMN", rich_help_panel=_COLUMNS),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(
            help="Column of ends; an empty cell lasts until the sensor's next event.",
            metavar="COLUMN",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    sensor: Annotated[
        str | None,
        typer.Option(help="Column of sensors.", metavar="COLUMN", rich_help_panel=_COLUMNS),
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(
            help="Zone of clock times, such as Europe/London.",
            metavar="ZONE",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    time_format: Annotated[
        str | None,
        typer.Option(
            help="How times are written. ISO or seconds if not given.",
            metavar="FORM",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(
            help="Encoding of a text file that is not UTF-8.",
            metavar="NAME",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace a file that is there.", rich_help_panel=_OUTPUT),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Say only what went wrong.", rich_help_panel=_OUTPUT),
    ] = False,
) -> None:
    """Turn the EVENTS of sensors into windows that 'apportion label' can read.

    Every participant has one row for each window from the first event to the last, with two columns
    for each sensor: how long it was on, and how many of its events began.
    """
    if output is not None:
        require_ending(output)
        refuse_inputs(output, [events])
        require_writable(output, force=force)
    asked = {"participant": participant, "start": start, "end": end, "sensor": sensor}
    with stages(quiet):
        report_progress("reading")
        table = read_columns(events, encoding=encoding)
        found = windows_of_events(
            table,
            every,
            columns={role: asked[role] for role in EVENT_ROLES},
            timezone=timezone,
            time_format=time_format,
            place=partial(place_in, events, encoding=encoding),
        )
    print_notes(found.notes, quiet)
    out = OutputOptions(output=output, force=force, quiet=quiet)
    in_parquet = output is not None and output.suffix.lower() == ".parquet"
    with Outputs(force=force) as outputs:
        written = write_answer(_table(found, share, in_parquet), out, outputs)
    print_notes(written, quiet)


def _table(found: EventWindows, share: bool, in_parquet: bool) -> Any:
    """Return the windows as a table."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    if found.participants is not None:
        columns["participant"] = pa.array(found.participants.tolist(), pa.string())
    dated = not found.absolute or carries_dates(found.starts)
    zone = found.zone or ("UTC" if found.absolute else None)
    for name, moments in (("start", found.starts), ("end", found.ends)):
        columns[name] = (
            TimeColumn(moments, zone).cells(in_parquet) if dated else pa.array(moments / SECOND)
        )
    length = (found.ends - found.starts)[:1] / SECOND
    for k, sensor in enumerate(found.sensors):
        if found.seconds is not None and share:
            columns[f"{sensor}_share"] = np.asarray(found.seconds[:, k] / length)
        elif found.seconds is not None:
            columns[f"{sensor}_seconds"] = found.seconds[:, k]
        columns[f"{sensor}_events"] = found.counts[:, k]
    return pa.table(columns)
