"""`apportion demo`: a week in a smart home, from files to labels, held against the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from apportion.cli.label import label_file
from apportion.cli.options import FeatureOptions, KnownOptions, MethodOptions, OutputOptions
from apportion.cli.talk import talk, with_exit_codes
from apportion.datasets import SmartHome, make_smart_home
from apportion.files.read import read_columns


@with_exit_codes
def demo(
    folder: Annotated[Path, typer.Argument(help="Where the demo's files are written.")] = Path(
        "apportion-demo"
    ),
    days: Annotated[int, typer.Option(min=1, help="Days to make up.")] = 7,
    participants: Annotated[int, typer.Option(min=1, help="People to make up.")] = 3,
    minutes: Annotated[int, typer.Option(min=1, help="Minutes a window lasts.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the made-up week.")] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the files of an earlier demo.")
    ] = False,
) -> None:
    """Make up a week of people in a smart home and label it from their diaries.

    Writes windows.csv, diary.csv, truth.csv and labels.csv to FOLDER, shows the command that made
    the labels, and says how close these came to the truth, which that command never saw.
    """
    home = make_smart_home(days, participants, seed=seed, minutes=minutes)
    folder.mkdir(parents=True, exist_ok=True)
    files = home.write(folder, force=force)
    labels = folder / "labels.csv"
    talk.print(
        f"{participants} made-up people, {days} days, windows of {minutes} min: {files.windows}. Each "
        f"kept a diary of how long they did what, rounded and with gaps: {files.diary}.\n"
    )
    words = f"--diary {files.diary} --output {labels}{' --force' if force else ''}"
    talk.print(f"$ apportion label {files.windows} {words}\n")
    known, out = KnownOptions(diary=files.diary), OutputOptions(output=labels, force=force)
    label_file(files.windows, known, FeatureOptions(), MethodOptions(), out)
    _tell_truth(home, labels)


def _tell_truth(home: SmartHome, labels: Path) -> None:
    """Say how many labels are right, and how many a simpler rule would get right."""
    answer = read_columns(labels)
    found = np.array(answer.column("label").to_pylist(), dtype=object)
    reasons = np.array([reason or "" for reason in answer.column("reason").to_pylist()])
    labelled = np.array([one is not None for one in found.tolist()])
    right = found == home.reported
    unbagged = labelled & np.array(["unbagged" in reason for reason in reasons.tolist()])
    most = max(home.activities.tolist(), key=home.activities.tolist().count)
    talk.print("\nHeld against the truth, which no command above has read:")
    talk.print(f"  {right[labelled].mean():.1%} of {labelled.sum():,} labelled windows are right")
    talk.print(f"  {right[unbagged].mean():.1%} of {unbagged.sum():,} on days without an entry")
    talk.print(f"  {(home.reported == most)[labelled].mean():.1%} would be, were all {most!r}")
    for activity in dict.fromkeys(sorted(home.reported.tolist())):
        mine = labelled & (home.reported == activity)
        talk.print(f"  {activity:>10}: {right[mine].mean():6.1%} of {mine.sum():,}")
