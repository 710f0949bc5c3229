"""`apportion demo`: a week in a smart home, from files to labels, compared with the truth."""

# ruff: noqa: RUF009  (`option` and `argument` return fields)

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from apportion.cli.console import with_exit_codes
from apportion.cli.options import argument, option, with_groups


@dataclass(kw_only=True)
class DemoOptions:
    """The week to make up."""

    folder: Path = argument(Path("apportion-demo"), "Where the demo's files are written.")
    days: int = option(7, "Days to make up.", low=1)
    participants: int = option(3, "People to make up.", low=1)
    minutes: int = option(5, "Minutes a window lasts.", low=1)
    seed: int = option(0, "Seed of the made-up week.")
    force: bool = option(False, "Replace the files of an earlier demo.")


@with_exit_codes
@with_groups
def demo(options: DemoOptions) -> None:
    """Make up a week of people in a smart home, and label it.

    The labels come from their diaries. Writes windows.csv, diary.csv, truth.csv, labels.csv and
    report.html to FOLDER, shows the command that made the labels, and says how close these came to
    the truth, which that command never saw.
    """
    from apportion.cli.demo_week import label_week

    label_week(options)
