"""`apportion cluster`: labels for a folder of Parquet files, on a Dask cluster."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Annotated

import typer

from apportion._io.feature_columns import when_by_name
from apportion._io.sheet import read_sheet
from apportion._utils.progress import report_progress
from apportion.cli.console import (
    CommandLineError,
    in_options,
    print_log,
    print_notes,
    stages,
    with_exit_codes,
)
from apportion.cli.inputs import feature_notes, when_notes
from apportion.cli.show import show_bags
from apportion.exceptions import counted, message_of
from apportion.report._glossary import Explanations
from apportion.supervision.totals_table import Unit, read_totals


@with_exit_codes
def cluster(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A folder of Parquet files; each is a partition.",
            metavar="FOLDER",
            show_default=False,
            readable=False,
        ),
    ],
    bags: Annotated[str, typer.Option(help="Column of bag ids.", metavar="COLUMN")],
    proportions: Annotated[
        Path,
        typer.Option(
            help="Table of the bags' totals (CSV, Parquet).", metavar="TABLE", readable=False
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Folder for the labels, a Parquet file for each that is read; workers must reach "
            "it.",
            metavar="FOLDER",
            readable=False,
        ),
    ],
    unit: Annotated[Unit, typer.Option(help="What the totals are.")] = "auto",
    features: Annotated[
        list[str] | None,
        typer.Option(
            help="Column to use, by name or pattern such as 'acc_*'; may be repeated. If not "
            "given, all numbers that are no ids or times.",
            metavar="PATTERN",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="Column not to use; may be repeated.", metavar="PATTERN"),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Column to put beside the labels; may be repeated.", metavar="COLUMN"),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask scheduler, such as tcp://10.0.0.1:8786. A local cluster if not "
            "given.",
            metavar="ADDRESS",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes of the local cluster; one a core.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="File to keep the run in: an interrupted run goes on from it.",
            metavar="FILE",
            readable=False,
        ),
    ] = None,
    anchors: Annotated[
        int | None, typer.Option(min=1, help="Number of anchors; by the number of rows.")
    ] = None,
    nearest: Annotated[
        int, typer.Option(min=1, help="Nearest anchors that every row is tied to.")
    ] = 5,
    alpha: Annotated[float, typer.Option(help="How far labels travel, between 0 and 1.")] = 0.5,
    refine: Annotated[
        bool, typer.Option("--refine/--no-refine", help="Let neighbors agree more.")
    ] = True,
    max_iter: Annotated[int, typer.Option(min=1, help="The most iterations.")] = 2000,
    tol: Annotated[
        float, typer.Option(min=0.0, help="How exact soft labels are; larger is faster.")
    ] = 1e-8,
    force: Annotated[
        bool, typer.Option("--force", help="Replace labels that are there, all of them.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only what went wrong.")] = False,
) -> None:
    """Label the rows of a FOLDER of Parquet files on a Dask cluster.

    The same labels as one machine finds on a graph of anchors, for more rows than it can hold. Rows
    stay where they are read; the labels are written by the workers that hold them.
    """
    if scheduler is not None and workers is not None:
        raise CommandLineError("--workers is for a local cluster: leave out it or --scheduler.")
    if not 0 < alpha < 1:
        raise CommandLineError(f"--alpha must be above 0 and below 1. Got {alpha:g}.")
    from apportion._dask.cluster import started
    from apportion._dask.output import refuse_output
    from apportion._io.parquet import choose_features, read_footers, require_columns
    from apportion.distributed import LPLLP

    read = sorted(folder.glob("*.parquet"))
    totals = read_totals(read_sheet(proportions), bags, unit).totals
    names, classes = [file.name for file in read], totals.classes.tolist()
    refuse_output(output, names, read, keep or (), classes, force)
    footers = read_footers(folder)  # what is wrong with files, before all else
    chosen, left_out = choose_features(footers, bags, classes, features or (), exclude or ())
    require_columns(footers, bags, chosen)
    rows = counted(sum(footer.n_samples for footer in footers), "row")
    rows = f"{rows} in {counted(len(footers), 'file')}"
    says_when = {name: kind for name in chosen if (kind := when_by_name(name)) is not None}
    print_notes(feature_notes(str(folder), rows, chosen, left_out, "numbers"), quiet)
    print_notes(when_notes(chosen, left_out, says_when), quiet)
    n_anchors = "auto" if anchors is None else anchors
    model = LPLLP(
        n_anchors,
        nearest,
        alpha,
        refine=refine,
        tol=tol,
        max_iter=max_iter,
        checkpoint=checkpoint,
    )
    with started(scheduler, workers) as (client, where):
        # What goes wrong is said by what is raised, in one paragraph.
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        print_notes([where], quiet)
        with stages(quiet), print_log(quiet), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(folder, bags=bags, proportions=totals, features=chosen, client=client)
        print_notes([in_options(message_of(one.message)) for one in caught], quiet)
        with stages(quiet):
            report_progress("writing labels")
            files = model.to_parquet(output, keep=keep or (), force=force)
        print_notes(
            [
                f"{model.n_samples_:,} rows, {counted(len(files), 'partition')}, "
                f"{counted(model.n_spanning_, 'bag')} in several of them; "
                f"{counted(model.n_iter_, 'iteration')}, {model.n_requests_:,} requests of "
                f"{model.bytes_per_request_:,} bytes: {in_options(model.status_.value)}"
            ],
            quiet,
        )
        if not quiet:
            show_bags(model.bag_report_, Explanations())
    print_notes([f"written: {output}, {counted(len(files), 'file')}"], quiet)
