"""`apportion cluster`: labels for a folder of Parquet files, on a Dask cluster."""

# ruff: noqa: RUF009  (`option` and `argument` return fields)

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from apportion._utils.progress import report_progress
from apportion.cli.console import (
    CommandLineError,
    in_options,
    print_log,
    print_notes,
    stages,
    with_exit_codes,
)
from apportion.cli.options import OUTPUT, REQUIRED, argument, option, with_groups
from apportion.exceptions import counted, message_of

_bags, _feature, _method, _cluster = (
    partial(option, panel=panel) for panel in ("Bags", "Features", "Method", "Cluster")
)


@dataclass(kw_only=True)
class ClusterOptions:
    """What to label, how and where."""

    folder: Path = argument(REQUIRED, "A folder of Parquet files; each is a partition.", "FOLDER")
    bags: str = _bags(REQUIRED, "Column of bag ids.", metavar="COLUMN")
    proportions: Path = _bags(
        REQUIRED, "Table of the bags' totals (CSV, Parquet).", metavar="TABLE"
    )
    output: Path = OUTPUT(
        REQUIRED,
        "Folder for the labels, a Parquet file for each that is read; workers must reach it.",
        "--output",
        "-o",
        metavar="FOLDER",
    )
    unit: Literal["auto", "share", "percent", "count"] = _bags("auto", "What the totals are.")
    features: list[str] | None = _feature(
        None,
        "Column to use, by name or pattern such as 'acc_*'; may be repeated. If not given, all "
        "numbers that are no ids or times.",
        metavar="PATTERN",
    )
    exclude: list[str] | None = _feature(
        None, "Column not to use; may be repeated.", metavar="PATTERN"
    )
    scale: bool = _feature(True, "Scale features to mean 0 and variance 1.", "--scale/--no-scale")
    keep: list[str] | None = OUTPUT(
        None, "Column to put beside the labels; may be repeated.", metavar="COLUMN"
    )
    scheduler: str | None = _cluster(
        None,
        "Address of a Dask scheduler, such as tcp://10.0.0.1:8786. A local cluster if not given.",
        metavar="ADDRESS",
    )
    workers: int | None = _cluster(None, "Processes of the local cluster; one a core.", low=1)
    checkpoint: Path | None = _cluster(
        None, "File to keep the run in: an interrupted run goes on from it.", metavar="FILE"
    )
    anchors: int | None = _method(None, "Number of anchors; by the number of rows.", low=1)
    nearest: int = _method(5, "Nearest anchors that every row is tied to.", low=1)
    alpha: float = _method(0.5, "How far labels travel, between 0 and 1.")
    refine: bool = _method(True, "Let neighbors agree more.")
    max_iter: int = _method(2000, "The most iterations.", low=1)
    tol: float = _method(1e-8, "How exact soft labels are; larger is faster.", low=0.0)
    force: bool = OUTPUT(False, "Replace labels that are there, all of them.")
    quiet: bool = OUTPUT(False, "Say only what went wrong.", "--quiet", "-q")


@with_exit_codes
@with_groups
def cluster(options: ClusterOptions) -> None:
    """Label the rows of a FOLDER of Parquet files on a Dask cluster.

    The same labels as one machine finds on a graph of anchors, for more rows than it can hold. Rows
    stay where they are read; the labels are written by the workers that hold them.
    """
    if options.scheduler is not None and options.workers is not None:
        raise CommandLineError("--workers is for a local cluster: leave out it or --scheduler.")
    if not 0 < options.alpha < 1:
        raise CommandLineError(f"--alpha must be above 0 and below 1. Got {options.alpha:g}.")
    from apportion._dask.cluster import started
    from apportion._dask.label_files import refuse_output
    from apportion._io.feature_columns import when_by_name
    from apportion._io.parquet import choose_features, read_footers, require_columns
    from apportion._io.sheet import read_sheet
    from apportion.cli.show import show_bags
    from apportion.distributed import LPLLP
    from apportion.labeling._features import feature_notes, time_notes
    from apportion.report._glossary import Explanations
    from apportion.supervision.totals_table import read_totals

    folder, bags, quiet = options.folder, options.bags, options.quiet
    keep, force = options.keep or (), options.force
    read = sorted(folder.glob("*.parquet"))
    totals = read_totals(read_sheet(options.proportions), bags, options.unit).totals
    classes = totals.classes.tolist()
    refuse_output(options.output, [file.name for file in read], read, keep, classes, force)
    footers = read_footers(folder)  # what is wrong with files, before all else
    chosen, left_out = choose_features(
        footers, bags, classes, options.features or (), options.exclude or ()
    )
    require_columns(footers, bags, chosen)
    n_samples = counted(sum(footer.n_samples for footer in footers), "row")
    n_samples = f"{n_samples} in {counted(len(footers), 'file')}"
    time_kinds = {name: kind for name in chosen if (kind := when_by_name(name)) is not None}
    print_notes(feature_notes(str(folder), n_samples, chosen, left_out, "numbers"), quiet)
    print_notes(time_notes(chosen, left_out, time_kinds), quiet)
    model = LPLLP(
        "auto" if options.anchors is None else options.anchors,
        options.nearest,
        options.alpha,
        refine=options.refine,
        tol=options.tol,
        max_iter=options.max_iter,
        scale=options.scale,
        checkpoint=options.checkpoint,
    )
    with started(options.scheduler, options.workers) as (client, where):
        # What goes wrong is said by what is raised, in one paragraph.
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        print_notes([where], quiet)
        with stages(quiet), print_log(quiet), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(folder, bags=bags, proportions=totals, features=chosen, client=client)
        print_notes([message_of(warning.message) for warning in caught], quiet)
        with stages(quiet):
            report_progress("writing labels")
            files = model.to_parquet(options.output, keep=keep, force=force)
        run = (
            f"{model.n_samples_:,} rows, {counted(len(files), 'partition')}, "
            f"{counted(model.n_spanning_, 'bag')} in several of them; "
            f"{counted(model.n_iter_, 'iteration')}, {model.n_requests_:,} requests of "
            f"{model.bytes_per_request_:,} bytes: {in_options(model.status_.value)}"
        )
        print_notes([run], quiet)
        if not quiet:
            show_bags(model.bag_report_, Explanations())
    print_notes([f"written: {options.output}, {counted(len(files), 'file')}"], quiet)
