"""`apportion windows`: events of sensors to windows, one row each."""

# ruff: noqa: RUF009  (`option` and `argument` return fields)

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from apportion._utils.progress import report_progress
from apportion.cli.console import print_notes, stages, with_exit_codes
from apportion.cli.options import OUTPUT, REQUIRED, WriteOptions, argument, option, with_groups

_column = partial(option, None, panel="Columns")


@dataclass(kw_only=True)
class EventOptions:
    """Events, and the windows to make of them."""

    events: Path = argument(
        REQUIRED,
        "The events: a CSV, Parquet or .xlsx file with a start, an end and a sensor.",
        "EVENTS",
    )
    every: str = option(REQUIRED, "Length of a window, such as 30s or 5min.", metavar="LENGTH")
    share: bool = OUTPUT(
        False, "Write the share of a window in which a sensor was on, not the seconds."
    )
    participant: str | None = _column("Column of participants.", metavar="COLUMN")
    start: str | None = _column("Column of starts.", metavar="COLUMN")
    end: str | None = _column(
        "Column of ends; an empty cell lasts until the sensor's next event.", metavar="COLUMN"
    )
    sensor: str | None = _column("Column of sensors.", metavar="COLUMN")
    timezone: str | None = _column("Zone of clock times, such as Europe/London.", metavar="ZONE")
    time_format: str | None = _column(
        "How times are written. ISO or seconds if not given.", metavar="FORM"
    )
    encoding: str | None = _column("Encoding of a text file that is not UTF-8.", metavar="NAME")


@with_exit_codes
@with_groups
def windows(events: EventOptions, out: WriteOptions) -> None:
    """Turn the EVENTS of sensors into windows, one row each.

    'apportion label' can read them. Every participant has one row for each window from the first
    event to the last, with two columns for each sensor: how long it was on, and how many of its
    events began.
    """
    from apportion._io.atomic_write import Outputs
    from apportion.cli.calls import check_files, write_output
    from apportion.labeling._output_tables import windows_table
    from apportion.labeling._outputs import is_parquet
    from apportion.labeling._source import source_table
    from apportion.supervision.diary.column_roles import EVENT_ROLES
    from apportion.supervision.diary.event_windows import windows_of_events

    check_files(out.output, inputs=[events.events], force=out.force)
    with stages(out.quiet):
        report_progress("reading")
        source = source_table(events.events, encoding=events.encoding)
        found = windows_of_events(
            source.table,
            events.every,
            columns={role: getattr(events, role) for role in EVENT_ROLES},
            timezone=events.timezone,
            time_format=events.time_format,
            place=source.place,
        )
    print_notes(found.notes, out.quiet)
    table = windows_table(found, share=events.share, typed=is_parquet(out.output))
    with Outputs(force=out.force) as outputs:
        written = write_output(table, out.output, outputs)
    print_notes(written, out.quiet)
