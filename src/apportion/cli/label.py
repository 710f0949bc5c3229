"""`apportion label`: a label for every row of a file."""

# ruff: noqa: RUF009  (`option` and `argument` return fields)

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from apportion.cli.console import with_exit_codes
from apportion.cli.options import (
    OUTPUT,
    FeatureOptions,
    KnownOptions,
    MethodOptions,
    OutputOptions,
    SettingsOptions,
    with_groups,
)


@dataclass(kw_only=True)
class MoreFiles:
    """Files that `label` writes beside the labeled table."""

    model: Path | None = OUTPUT(
        None,
        "Also save the fitted model here, for 'apportion predict'. It contains training rows; it "
        "needs one graph of all participants (--graphs one).",
        metavar="FILE",
    )
    labels_only: bool = OUTPUT(
        False,
        "Save no rows in the model, only ids and labels: it knows these rows again, and no others.",
    )
    report: Path | None = OUTPUT(
        None,
        "Also write a report to look at, one HTML file: days, totals, a map of the rows with the "
        "neighbors that made their labels.",
        metavar="FILE",
    )
    episodes: Path | None = OUTPUT(
        None,
        "Also write episodes, .csv or .parquet: one line for windows of one label that follow each "
        "other, with start, end, minutes and mean confidence.",
        metavar="FILE",
    )


@with_exit_codes
@with_groups
def label(
    saved: SettingsOptions,
    known: KnownOptions,
    feature: FeatureOptions,
    method: MethodOptions,
    out: OutputOptions,
    more: MoreFiles,
) -> None:
    """Label every row of READINGS from its bags' totals or from a diary.

    Give --bags COLUMN and --proportions TABLE, or --diary DIARY, or --settings FILE. The answer has
    the rows' ids and times, a label, the mass of every class, the label's confidence and a reason
    code.
    """
    from apportion.cli.calls import command_line, settings_of
    from apportion.cli.label_file import end_if_cut_short, label_file, write_report

    settings = settings_of(known, feature, method, out)
    labeled, task = label_file(settings, out, more, command_line(), saved.settings)
    if more.report is not None:
        write_report(labeled, task, settings, out, more.report)
    end_if_cut_short(labeled)
