"""The files, settings and corrections of a folder, and what was understood of them."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from apportion._io.atomic_write import Outputs
from apportion._io.spreadsheet_safe import write_table
from apportion._utils.typing import BoolArray
from apportion.labeling._supervised import SupervisedTable
from apportion.labeling.rows import is_known
from apportion.labeling.settings import LabelSettings, write_settings
from apportion.studio import _corrections as corrections
from apportion.studio._problems import ProblemError
from apportion.studio._settings import label_settings
from apportion.studio._understanding import Reading, not_understood, read_inputs, understood
from apportion.studio._workspace import CORRECTIONS, SETTINGS, Workspace


class Read(NamedTuple):
    """What came of reading files.

    Attributes
    ----------
    key : str
        Tells which files were read, and with which settings.
    reading : Reading or None
        What was read; None if files are missing or cannot be used.
    understanding : dict or None
        What was understood, for the page; None if there is no file.
    """

    key: str
    reading: Reading | None
    understanding: dict[str, Any] | None


class Inputs:
    """What labels are found from, read once per change.

    Parameters
    ----------
    workspace : Workspace
        The folder.

    Attributes
    ----------
    reading_lock : lock
        Held while files are read or replaced. Who also needs `lock` takes it after this one.
    lock : lock
        Held while anything else changes.
    read : Read
        What came of reading files last.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.reading_lock, self.lock = threading.RLock(), threading.RLock()
        self.read = Read("", None, None)
        self._counts: dict[int, int] = {}

    def understood(self) -> Read:
        """Return what was understood; files are read if they or the settings have changed."""
        with self.reading_lock:
            with self.lock:
                key = self.reading_key()
            if key != self.read.key:
                self.read, self._counts = self._read_files(key), {}
                self._rewrite_corrections()
            return self.read

    def read_again(self) -> None:
        """Let files be read again, also if they are what the last reading, which failed, read."""
        self.read = self.read._replace(key="")

    def required_reading(self) -> Reading:
        """Return what was read; raise if it cannot be used."""
        read = self.understood()
        if read.reading is not None:
            return read.reading
        found = read.understanding or {"problem": "Choose files first.", "field": "readings"}
        raise ProblemError(found["problem"], found["field"])

    def settings(self) -> LabelSettings:
        """Return the settings of a run, with corrections among the given labels."""
        return label_settings(self._workspace, corrected=self._workspace.state.corrected)

    def task(self, reading: Reading) -> SupervisedTable:
        """Return the rows and what is known of them, corrections included.

        With corrections, files are read as the command line reads them: its labels are the same.
        """
        if not self._workspace.state.corrected:
            return reading.task
        self._workspace.require_own_files()
        if not self._workspace.is_there(CORRECTIONS):
            raise ProblemError(
                f"{CORRECTIONS} is gone, or is a link. Start the studio again: it then writes it "
                "again."
            )
        return self.settings().read()

    def records(self) -> list[dict[str, Any]]:
        """Return the corrections as the page shows them, with the number of rows of each."""
        records, reading = self._workspace.state.corrections, self.read.reading
        for record in records:
            if reading is not None and record["id"] not in self._counts:
                self._counts[record["id"]] = len(corrections.rows_of(record, reading.index))
        return [corrections.to_json(one, self._counts.get(one["id"], 0)) for one in records]

    def corrected(self, reading: Reading) -> corrections.Corrected:
        """Return what corrections say about each row."""
        records = self._workspace.state.corrections
        return corrections.expand(records, reading.index, reading.classes)

    def fixed(self, n_samples: int) -> BoolArray:
        """Return which rows have a label that was given, or a correction."""
        fixed, reading = np.zeros(n_samples, dtype=bool), self.read.reading
        if reading is None or reading.index.n_samples != n_samples:
            return fixed
        known = reading.task.supervision
        if known.given is not None:
            fixed |= is_known(known.given)
        if known.excluded is not None:
            fixed |= known.excluded.any(axis=1)
        return fixed | self.corrected(reading).rows

    def add(self, record: dict[str, Any], reading: Reading) -> None:
        """Add a correction; raise if given labels contradict it, or if no class is left."""
        _refuse_given_elsewhere(record, reading)
        state = self._workspace.state
        state.corrections = [*state.corrections, {"id": state.new_id(), **record}]
        corrections.require_possible(self.corrected(reading))

    @contextmanager
    def changing(self, *, read_again: bool) -> Iterator[Outputs]:
        """Change the state, and what follows from it: corrections.csv and settings.json.

        Parameters
        ----------
        read_again : bool
            Whether files will be read again; corrections are written after that.
        """
        with self._workspace.changing() as outputs:
            yield outputs
            if not read_again and self.read.reading is not None:
                self._write_corrections(outputs, self.read.reading)
            self._write_settings(outputs)

    def reading_key(self) -> str:
        """Return what the reading of files depends on."""
        state = self._workspace.state
        files = {role: file.key for role, file in sorted(state.files.items())}
        return json.dumps([files, state.settings], sort_keys=True)

    def corrections_key(self) -> str:
        """Return what all corrections say."""
        kept = ("participant", "start", "end", "at", "label", "exclude")
        records = self._workspace.state.corrections
        return json.dumps([[one[name] for name in kept] for one in records])

    def key(self) -> str:
        """Return a digest of all that labels depend on."""
        text = json.dumps([self.reading_key(), self.corrections_key()])
        return hashlib.sha256(text.encode()).hexdigest()

    def _read_files(self, key: str) -> Read:
        workspace = self._workspace
        files = workspace.state.files
        if not files:
            return Read(key, None, None)
        stored = {role: f"{role}{file.ending}" for role, file in files.items()}
        settings: LabelSettings | None = None
        try:
            workspace.require_own_files()
            if "readings" not in files:
                raise ProblemError("Choose the file of windows, too.")
            settings = label_settings(workspace, corrected=False)
            _require_totals(settings)
            settings.check()
            reading = read_inputs(settings)
            return Read(key, reading, understood(reading))
        except Exception as error:
            return Read(key, None, not_understood(error, settings, stored))

    def _write_settings(self, outputs: Outputs) -> None:
        workspace = self._workspace
        if "readings" in workspace.state.files:
            write_settings(self.settings(), workspace.folder / SETTINGS, outputs=outputs)
        else:
            workspace.remove(outputs, SETTINGS)

    def _write_corrections(self, outputs: Outputs, reading: Reading) -> None:
        """Write corrections as a table of given labels, or remove it if there are none."""
        corrected = self.corrected(reading)
        self._workspace.state.corrected = bool(corrected.rows.any())
        if self._workspace.state.corrected:
            table = corrections.given_table(corrected, reading.index, reading.classes)
            write_table(table, self._workspace.folder / CORRECTIONS, outputs)
        else:
            self._workspace.remove(outputs, CORRECTIONS)

    def _rewrite_corrections(self) -> None:
        """Write corrections again, if other files or settings change the rows they are about."""
        if self.read.reading is not None and self._workspace.state.corrections:
            with self.lock, self.changing(read_again=False):
                pass


def _refuse_given_elsewhere(record: dict[str, Any], reading: Reading) -> None:
    """Raise if the user's own given labels contradict a correction."""
    known, rows = reading.task.supervision, corrections.rows_of(record, reading.index)
    against = np.zeros(len(rows), dtype=bool)
    if known.given is not None:
        labels = known.given[rows]
        same = np.array([str(label) == record["label"] for label in labels.tolist()], dtype=bool)
        against |= is_known(labels) & (same if record["exclude"] else ~same)
    names = [str(label) for label in known.totals.classes.tolist()]
    if known.excluded is not None and not record["exclude"] and record["label"] in names:
        against |= known.excluded[rows, names.index(record["label"])]
    n = int(against.sum())
    if n:
        raise ProblemError(
            f"The known labels that you gave say otherwise for {n} of these windows. Correct them "
            "there, or remove them.",
            "given",
        )


def _require_totals(settings: LabelSettings) -> None:
    """Raise, in words for the page, if there is nothing that says how long or how many."""
    known = settings.known
    if known.diary is None and known.proportions is None:
        raise ProblemError("Choose a diary, or totals.")
    if known.diary is None and known.bags is None:
        raise ProblemError("Say which column of the windows is the bag that totals are of.", "bags")
