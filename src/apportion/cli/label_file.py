"""From options to a labeled file: what `apportion label` and `apportion demo` run."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from apportion._io.atomic_write import Outputs, replacing
from apportion._utils.progress import INTERRUPTED, keeping_answers
from apportion._utils.signals import first_interrupt_keeps
from apportion.cli import calls
from apportion.cli.console import (
    CUT_SHORT,
    OPTIONS,
    CommandLineError,
    keeping_labels,
    print_notes,
    print_out,
    stages,
)
from apportion.cli.label import MoreFiles
from apportion.cli.options import OutputOptions
from apportion.cli.show import show_report
from apportion.labeling._outputs import write_episodes
from apportion.labeling._summary import as_json
from apportion.labeling._supervised import SupervisedTable
from apportion.labeling.settings import LabelSettings
from apportion.labeling.table import (
    LabeledTable,
    check_savable,
    require_times,
)
from apportion.model_selection._candidates import MEMORY
from apportion.report import page_bytes
from apportion.report._glossary import Explanations
from apportion.report._labeled import contents_of_table

_IN_NOTES = ("information index", "stationarity", "residual", "energy")


def label_file(
    settings: LabelSettings,
    out: OutputOptions,
    more: MoreFiles,
    command: str,
    settings_file: Path | None = None,
) -> tuple[LabeledTable, SupervisedTable]:
    """Read rows, label them, write all but the report, and return the labels and what was read.

    The summary shows `command` as what was run. The file of the settings is not written over. A
    report that is to be replaced is removed with the labels that it is about: if a new one cannot
    be written, whatever ends the process, no old one is left beside other labels.
    """
    _check_options(settings, out, more, settings_file)
    with stages(out.quiet):
        task = settings.read()
        features = settings.features(task)
    _check_rows(task, more)
    explain = Explanations(task.bag_word)
    first_notes = [*task.notes, *features.notes]
    print_notes(explain.lines(task.bag_word), out.quiet)
    print_notes(task.rules, out.quiet, "rules, each an option:")
    print_notes(first_notes, out.quiet)
    print_notes(filter(None, [settings.memory_note(task, features)]), out.quiet)
    with first_interrupt_keeps(), keeping_answers(), stages(out.quiet):
        labeled = settings.label(task, features, command)
    notes = [note for note in labeled.notes[len(first_notes) :] if MEMORY not in note]
    doubts = [note for note in notes if INTERRUPTED in note]
    print_notes(doubts, quiet=False)
    print_notes([note for note in notes if note not in doubts], out.quiet)
    print_notes(explain.lines(*(term for term in _IN_NOTES if term in " ".join(notes))), out.quiet)
    if not out.quiet:
        show_report(labeled.labels, explain)
    with Outputs(force=out.force) as outputs:
        written = _write_more(labeled, more, outputs)
        if more.report is not None and out.force and os.path.lexists(more.report):
            outputs.remove(more.report)
        written = [*calls.write_labeled(labeled, out.output, outputs), *written]
        if out.json:
            print_out(as_json(labeled.summary, OPTIONS))
    print_notes(written, out.quiet)
    return labeled, task


def end_if_cut_short(labeled: LabeledTable) -> None:
    """End with a code of its own if Ctrl-C left methods out, once everything is written."""
    if any(INTERRUPTED in note for note in labeled.notes):
        raise typer.Exit(CUT_SHORT)


def write_report(
    labeled: LabeledTable,
    task: SupervisedTable,
    settings: LabelSettings,
    out: OutputOptions,
    path: Path,
) -> None:
    """Write the report of labels that are written already, so that it cannot cost them."""
    with keeping_labels(path):
        with stages(out.quiet):
            page = page_bytes(contents_of_table(labeled, task, files=settings.files, names=OPTIONS))
        with replacing(path, force=out.force) as temporary:
            temporary.write_bytes(page)
    print_notes([f"written: {path}, a report to open in a browser"], out.quiet)


def _check_options(
    settings: LabelSettings, out: OutputOptions, more: MoreFiles, settings_file: Path | None
) -> None:
    """Raise for options that do not go together, and for files that could not be written."""
    calls.check_output(out)
    if more.labels_only and more.model is None:
        raise CommandLineError("--labels-only says how --model FILE is saved: name the file.")
    if more.model is not None and settings.known.graphs == "each":
        raise CommandLineError("--model saves one model: use --graphs one.")
    settings.check()
    tables, others = (out.output, more.episodes), [more.model]
    read = (*settings.files, settings_file)
    calls.check_files(*tables, page=more.report, others=others, inputs=read, force=out.force)


def _check_rows(task: SupervisedTable, more: MoreFiles) -> None:
    """Raise, before the rows are labeled, if a file could not be made of them."""
    if more.model is not None:
        one_model = task.supervision.groups is None
        with calls.about_options():
            check_savable(task.rows, task.ids, one_model, labels_only=more.labels_only)
    if more.episodes is not None:
        require_times(task.rows, task.row_times)


def _write_more(labeled: LabeledTable, more: MoreFiles, outputs: Outputs) -> list[str]:
    """Write the model and the episodes, and return what to say once they are there."""
    written = []
    if more.model is not None:
        with outputs.writing(more.model) as path, path.open("wb") as file:
            contents = labeled.save(file, labels_only=more.labels_only)
        written.append(f"written: {more.model}, a model with {contents}")
    if more.episodes is not None:
        written += write_episodes(labeled, more.episodes, outputs)
    return written
