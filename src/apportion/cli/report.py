"""`apportion report`: the report of labels that are in a file already."""

# ruff: noqa: RUF009  (`option` and `argument` return fields)

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from apportion.cli.console import OPTIONS, print_notes, stages, with_exit_codes
from apportion.cli.options import (
    OUTPUT,
    REQUIRED,
    FeatureOptions,
    KnownOptions,
    option,
    with_groups,
)
from apportion.exceptions import counted


@dataclass(kw_only=True)
class ReportOptions:
    """Labels, and the report to write of them."""

    labels: Path = option(
        REQUIRED,
        "Their labels, as 'apportion label' wrote them, or corrected since: a CSV or Parquet file "
        "with a column 'label'.",
        metavar="FILE",
        panel="Bags",
    )
    output: Path = OUTPUT(
        REQUIRED, "The report to write, an .html file.", "--output", "-o", metavar="FILE"
    )
    summary: Path | None = option(
        None,
        "What 'apportion label --json' printed: convergence and settings of the run. Labels in "
        "Parquet have it inside.",
        metavar="FILE",
        panel="Bags",
    )
    title: str = OUTPUT("", "The report's heading.")
    force: bool = OUTPUT(False, "Replace a file that is there.")
    quiet: bool = OUTPUT(False, "Say only what went wrong.", "--quiet", "-q")


@with_exit_codes
@with_groups
def report(page: ReportOptions, known: KnownOptions, feature: FeatureOptions) -> None:
    """Write the report of labels that are in a file already.

    Nothing is labeled anew: given totals are compared with the labels as they are in the file, so
    that labels corrected by hand can be looked at too. Pass the options of bags and features that
    the labels were made with.
    """
    from apportion.cli.calls import check_files, command_line
    from apportion.labeling._from_options import read_features, read_supervised
    from apportion.labeling._saved_labels import match_labels
    from apportion.labeling._source import source_table
    from apportion.labeling._summary import read_summary, summary_in
    from apportion.report._labeled import contents_of_saved
    from apportion.report._write import write_page as write_contents

    read = [*known.files, page.labels]
    check_files(page=page.output, inputs=[*read, page.summary], force=page.force)
    with stages(page.quiet):
        task = read_supervised(known, feature.id)
        features = read_features(task, feature)
        saved = source_table(page.labels, encoding=known.encoding)
        task, labels = match_labels(saved, task)
        contents = contents_of_saved(
            labels,
            task,
            features,
            summary_in(saved) if page.summary is None else read_summary(page.summary),
            title=page.title,
            command=command_line(),
            files=read,
            names=OPTIONS,
        )
        write_contents(contents, page.output, force=page.force)
    n_unused = saved.n_samples - len(labels.labels)
    unused = f"{counted(n_unused, 'label')} of {page.labels.name} of other rows are not used"
    written = f"written: {page.output}, {counted(len(labels.labels), 'row')}"
    print_notes([*[unused] * (n_unused > 0), written], page.quiet)
