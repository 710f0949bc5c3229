"""The week of `apportion demo`: made up, written, labeled and compared with the truth."""

from __future__ import annotations

import shlex

import numpy as np

from apportion._io.atomic_write import Outputs, require_writable
from apportion._utils.typing import BoolArray
from apportion.cli.console import console
from apportion.cli.demo import DemoOptions
from apportion.cli.label import MoreFiles
from apportion.cli.label_file import end_if_cut_short, label_file, write_report
from apportion.cli.options import (
    FeatureOptions,
    KnownOptions,
    MethodOptions,
    OutputOptions,
)
from apportion.datasets import SmartHome, make_smart_home
from apportion.exceptions import counted
from apportion.labeling.rows import RowLabels, is_known
from apportion.labeling.settings import LabelSettings
from apportion.supervision.diary import UNKNOWN


def label_week(options: DemoOptions) -> None:
    """Make up a week, write and label it, and print how many labels are right."""
    folder, days, minutes, force = options.folder, options.days, options.minutes, options.force
    labels, report = folder / "labels.csv", folder / "report.html"
    participants = options.participants
    people = "1 made-up person" if participants == 1 else f"{participants} made-up people"
    with Outputs(force=force) as outputs:
        outputs.make_folder(folder)
        for name in ("windows.csv", "diary.csv", "truth.csv", "labels.csv", "report.html"):
            require_writable(folder / name, force=force)
        home = make_smart_home(days, participants, seed=options.seed, minutes=minutes)
        files = home.write_with(outputs, folder)
        outputs.place()  # they are read next, and go again if they cannot be labeled
        console.print(
            f"{people}, {counted(days, 'day')}, windows of {minutes} min: {files.windows}. Each "
            f"kept a diary of how long they did what, rounded and with gaps: {files.diary}.\n"
        )
        words = ["apportion", "label", files.windows, "--diary", files.diary, "--output", labels]
        command = shlex.join(map(str, [*words, "--report", report, *["--force"] * force]))
        console.print(f"$ {command}\n")
        known = KnownOptions(readings=files.windows, diary=files.diary)
        settings = LabelSettings(known, FeatureOptions(), MethodOptions())
        out = OutputOptions(output=labels, force=force)
        labeled, task = label_file(settings, out, MoreFiles(report=report), command)
    write_report(labeled, task, settings, out, report)
    _print_accuracy(home, labeled.labels)
    console.print(f"\nTo see the days, the totals and why each label: open {report} in a browser.")
    end_if_cut_short(labeled)


def _print_accuracy(home: SmartHome, labels: RowLabels) -> None:
    """Print how many labels are right, and how many a simpler rule would get right."""
    labeled = is_known(labels.labels)
    unbagged = labeled & np.array(["unbagged" in codes for codes in labels.reasons.tolist()])
    right = labels.labels == home.reported
    most = max(home.activities.tolist(), key=home.activities.tolist().count)
    console.print("\nCompared with the truth, which no command above has read:")
    console.print(f"  {_share(right, labeled)} labeled windows are right{_in_nights(home)}")
    if unbagged.any():
        console.print(f"  {_share(right, unbagged)} on days without an entry are right")
    console.print(
        f"  {_share(home.reported == most, labeled)} would be right if all were called {most!r}"
    )
    for activity in sorted(set(home.reported[labeled].tolist())):
        console.print(f"  {activity:>10}: {_share(right, labeled & (home.reported == activity))}")


def _in_nights(home: SmartHome) -> str:
    """Return what counts as right for time that a diary never reports."""
    if not (home.reported != home.activities).any():
        return ""
    return f", {UNKNOWN!r} being right in the nights that one person never reports"


def _share(right: BoolArray, among: BoolArray) -> str:
    return f"{right[among].mean():6.1%} of {among.sum():,}"
