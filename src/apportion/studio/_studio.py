"""What the page works on: the folder, what was understood, the job that runs, and the labels.

The methods answer requests. They may be called from several threads: `_reading_lock` is held while
files are read or replaced, `_lock` while anything else changes, in this order.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from apportion._io.atomic_write import Outputs
from apportion._io.spreadsheet_safe import write_table
from apportion._utils.typing import BoolArray
from apportion.exceptions import FileError
from apportion.labeling._outputs import write_episodes, write_labeled
from apportion.labeling._supervised import SupervisedTable
from apportion.labeling.rows import is_known
from apportion.labeling.settings import LabelSettings, write_settings
from apportion.report import page_bytes
from apportion.report._labeled import contents_of_table
from apportion.studio import _corrections as corrections
from apportion.studio._jobs import Job, Kind
from apportion.studio._problems import PAGE_NAMES, ProblemError, in_words
from apportion.studio._questions import Question, ask, ask_bags
from apportion.studio._settings import changed_settings, label_settings, options_json
from apportion.studio._understanding import (
    MOST_ROWS,
    Reading,
    not_understood,
    read_inputs,
    understood,
)
from apportion.studio._views import (
    Labels,
    changes,
    days_json,
    participants_json,
    rows_json,
    run_json,
)
from apportion.studio._workspace import (
    CORRECTIONS,
    EPISODES,
    LABELS,
    REPORT,
    ROLES,
    SETTINGS,
    StoredFile,
    Workspace,
    ending_for,
    shown_name,
)

MOST_BYTES = 10**9
"""The largest file that is taken."""

COMMAND = f"apportion label --settings {SETTINGS} --output {LABELS}"
"""The command that finds the same labels, as the report shows it."""

_TAB_SECONDS = 20.0
"""A tab that has asked for nothing for so long is closed; open ones ask every 3 seconds."""

_BUSY = "Labels are being found. Wait until they are, or cancel."


class _Read(NamedTuple):
    """What came of reading the files, and of which files and settings."""

    key: str
    reading: Reading | None
    understanding: dict[str, Any] | None


class _Asked(NamedTuple):
    """Questions, and what they depend on."""

    key: tuple[Any, ...]
    asked: list[Question]


class Studio:
    """A folder and the work that is done in it.

    Parameters
    ----------
    workspace : Workspace
        The folder.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock, self._reading_lock = threading.RLock(), threading.RLock()
        self._read = _Read("", None, None)
        self._job: Job | None = None
        self._full: Labels | None = None
        self._shown: Labels | None = None
        self._before: Labels | None = None
        self._quick_run: dict[str, Any] | None = None
        self._labels_key = self._known_corrections = ""
        self._questions = _Asked((), [])
        self._tabs: dict[str, float] = {}
        self._options = options_json()

    # What the page shows

    def state(self, tab: str = "") -> dict[str, Any]:
        """Return all that the page shows; it waits for files to be read."""
        read = self._understood()
        with self._lock:
            state = self._workspace.state
            index = None if read.reading is None else read.reading.index
            return {
                "revision": state.revision,
                "folder": self._workspace.folder.name,
                "version": version("apportion"),
                "other_tabs": self._other_tabs(tab),
                "limits": {"file_bytes": MOST_BYTES, "rows": MOST_ROWS},
                "files": {role: self._file_json(role) for role in ROLES},
                "settings": state.settings,
                "options": self._options,
                "understanding": read.understanding,
                "job": None if self._job is None else self._job.to_json(),
                "run": self._run_json(),
                "corrections": [corrections.to_json(one, index) for one in state.corrections],
                "asked": {name: len(rows) for name, rows in state.answers.items()},
            }

    def days(self, participant: str | None) -> dict[str, Any]:
        """Return the days of a participant with their labels."""
        labels = self._required_labels()
        if labels.index.times is None:
            raise ProblemError("The windows have no times, so that there are no days.", "start")
        return days_json(labels, self._before, self._fixed(labels), participant)

    def rows(self, offset: int, bag: str | None) -> dict[str, Any]:
        """Return some rows with their labels."""
        return rows_json(self._required_labels(), offset, bag)

    def participants(self) -> list[dict[str, Any]]:
        """Return the participants and what is to be done about each."""
        reading = self._required_reading()
        with self._lock:
            records = self._workspace.state.corrections
            made = Counter(str(one["participant"] or "") for one in records)
            shown = self._shown
            people = [one.place.get("participant") for one in self._questions.asked]
            asked = Counter(str(name or "") for name in people)
        return participants_json(shown, reading.index, asked, made)

    def questions(self) -> dict[str, Any]:
        """Return what to ask about the labels that are shown."""
        labels, reading = self._required_labels(), self._required_reading()
        asked = self._asked(labels, reading)
        return {
            "questions": [question.content for question in asked],
            "bags": ask_bags(labels, reading.features),
        }

    def report(self) -> bytes:
        """Return the report of the last run in full."""
        return self._content(REPORT, "There is no report yet: find labels first.")

    def download(self, name: str) -> bytes:
        """Return a file of the folder.

        The labels, episodes and the report belong to the last run in full. They are not offered
        while something has changed since: a correction, a setting, a file. Quick answers are
        never written, because `settings.json` would not give them again.
        """
        if name in (LABELS, EPISODES, REPORT) and name not in self._current_files():
            raise ProblemError(f"{name} is not up to date: find labels in full first.", status=404)
        return self._content(name, f"There is no {name} yet.")

    # What the page changes

    def require_revision(self, revision: str | None) -> None:
        """Raise if the page does not show the present state."""
        if revision != str(self._workspace.state.revision):
            raise ProblemError(
                "Something was changed in another tab or by a run that ended. The page shows it "
                "now; do it again if it is still right.",
                status=409,
            )

    def new_file(self) -> Path:
        """Return the temporary name of a file that is being received."""
        return self._workspace.new_name()

    def keep_file(self, role: str, name: str, ending: str, received: Path, revision: Any) -> None:
        """Take a received file, whole, as the one with a role."""
        with self._changing(revision, read_again=True) as outputs:
            state = self._workspace.state
            size = received.stat().st_size
            file = StoredFile(name, ending, size, state.new_id())
            self._workspace.accept(outputs, role, received, file)
            if role == "readings":
                self._forget_rows()

    def copy_file(self, role: str, path: Path) -> None:
        """Copy a file of the user into the folder as the one with a role."""
        ending, received = ending_for(path.name), self.new_file()
        if path.stat().st_size > MOST_BYTES:
            most = f"at most {MOST_BYTES / 1e6:,.0f} MB"
            raise FileError(str(path), "a larger file", most, "use `apportion label`")
        try:
            shutil.copyfile(path, received)
            revision = str(self._workspace.state.revision)
            self.keep_file(role, shown_name(path.name), ending, received, revision)
        finally:
            received.unlink(missing_ok=True)

    def drop_file(self, role: str, revision: Any) -> None:
        """Remove the file with a role."""
        with self._changing(revision, read_again=True) as outputs:
            if role not in self._workspace.state.files:
                raise ProblemError("There is no such file.", role, 404)
            self._workspace.drop(outputs, role)
            if role == "readings":
                self._forget_rows()

    def set_settings(self, values: Any, revision: Any) -> None:
        """Change settings."""
        found = self._understood().understanding or {"columns": []}
        columns = [one["name"] for one in found["columns"]]
        with self._changing(revision, read_again=True):
            state = self._workspace.state
            folder = self._workspace.folder
            state.settings = changed_settings(state.settings, values, columns, folder)

    def correct(self, request: Any, revision: Any) -> None:
        """Note a correction."""
        if not isinstance(request, dict):
            raise ProblemError("A correction is an object.", status=400)
        reading = self._required_reading()
        with self._changing(revision):
            self._add(self._record(request), reading)

    def undo(self, number: int, revision: Any) -> None:
        """Take a correction back."""
        with self._changing(revision):
            state = self._workspace.state
            kept = [one for one in state.corrections if one["id"] != number]
            if len(kept) == len(state.corrections):
                raise ProblemError("There is no such correction.", status=404)
            state.corrections = kept

    def answer(self, name: str, request: Any, revision: Any) -> None:
        """Take the answer to a question: a label, which is a correction, or that there is none."""
        action = request.get("action") if isinstance(request, dict) else None
        question = next((one for one in self._questions.asked if one.id == name), None)
        if question is None:
            raise ProblemError("This is no longer asked. Ask for questions again.", status=404)
        reading = self._required_reading()
        kept = {"answer": "answered", "skip": "skipped", "unknown": "unknown"}.get(action or "")
        if kept is None:
            raise ProblemError("'action' must be answer, skip or unknown.", "action", 400)
        with self._changing(revision):
            if action == "answer":
                self._add(self._record({**question.place, "label": request.get("label")}), reading)
            self._workspace.state.answers[kept].append(question.rows.tolist())

    # Work that takes long

    def run(self, kind: Kind, revision: Any) -> None:
        """Find labels, in full or from the last ones."""
        reading = self._required_reading()
        with self._lock:
            self.require_revision(revision)
            self._require_idle()
            if self._read.reading is not reading:
                raise ProblemError("The files are being read again. Try again.", status=409)
            if kind == "quick" and (self._full is None or self._labels_key != self._read.key):
                raise ProblemError(
                    "Files or settings have changed, or the studio was started again: find labels "
                    "in full first.",
                )
            work = self._find_labels if kind == "full" else self._relabel
            number = self._workspace.state.new_id()
            before = self._job if self._job is not None and self._job.state == "cancelled" else None
            self._job = Job(number, kind, lambda job: work(job, reading), in_words, before)
            self._job.start()

    def cancel(self) -> None:
        """Stop the job that is running, if there is one."""
        with self._lock:
            if self._job is not None:
                self._job.cancel()

    def leave(self, tab: str) -> None:
        """Note that a tab was closed, so that others are not told of it."""
        with self._lock:
            self._tabs.pop(tab[:64], None)

    def close(self) -> None:
        """Stop the job, let a write that has begun end, and give the folder back."""
        if self._job is not None:
            self._job.cancel()
        self._workspace.close()

    def _find_labels(self, job: Job, reading: Reading) -> None:
        """Find labels in full, and write them with the report."""
        key, n = self._inputs_key(), len(self._workspace.state.corrections)
        known = self._corrections_key()
        task = self._task(reading)
        settings = label_settings(self._workspace, corrected=self._workspace.state.corrected)
        labeled = settings.label(task, reading.features, command=COMMAND)
        labels = Labels(labeled, task, reading.index, reading.classes)
        job.report("writing the report", None)
        page = page_bytes(contents_of_table(labeled, task, files=settings.files, names=PAGE_NAMES))
        with self._lock:
            job.require_running()
            with self._workspace.changing() as outputs:
                folder = self._workspace.folder
                write_labeled(labeled, folder / LABELS, outputs)
                with outputs.writing(folder / REPORT) as path:
                    path.write_bytes(page)
                if reading.index.times is None:
                    self._workspace.remove(outputs, EPISODES)
                else:
                    write_episodes(labeled, folder / EPISODES, outputs)
                run = run_json(labels, job.number, job.seconds, _now(), n)
                self._workspace.state.run = {**run, "inputs": key}
            self._full = self._shown = labels
            self._before, self._quick_run, self._labels_key = None, None, self._read.key
            self._known_corrections = known
            job.finish()

    def _relabel(self, job: Job, reading: Reading) -> None:
        """Find labels from the last ones and the corrections made since.

        It starts from the last run in full, not from the last quick answer: so that the same
        corrections give the same labels, in whatever order they were made or undone.
        """
        relabel = import_module("apportion.labeling.relabel").relabel
        assert self._full is not None
        n, known = len(self._workspace.state.corrections), self._corrections_key()
        task = self._task(reading)
        labeled = relabel(self._full.labeled, task, reading.features)
        labels = Labels(labeled, task, reading.index, reading.classes)
        before = self._shown or self._full
        corrected = corrections.expand(
            self._workspace.state.corrections, reading.index, reading.classes
        )
        run = run_json(labels, job.number, job.seconds, _now(), n)
        run["changed"] = changes(labels, before, corrected.rows)
        with self._lock:
            job.require_running()
            self._workspace.state.revision += 1
            self._shown, self._before, self._quick_run = labels, before, run
            self._known_corrections = known
            job.finish()

    # Files

    def _understood(self) -> _Read:
        """Return what was understood; files are read if they or the settings have changed."""
        with self._reading_lock:
            with self._lock:
                key = self._reading_key()
            if key != self._read.key:
                self._read = self._read_files(key)
                self._forget_unfit_labels()
                self._rewrite_corrections()
            return self._read

    def _read_files(self, key: str) -> _Read:
        workspace = self._workspace
        files = workspace.state.files
        if not files:
            return _Read(key, None, None)
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
            return _Read(key, reading, understood(reading))
        except Exception as error:
            return _Read(key, None, not_understood(error, settings, stored))

    def _task(self, reading: Reading) -> SupervisedTable:
        """Return the rows and what is known of them, corrections included."""
        if not self._workspace.state.corrected:
            return reading.task
        return label_settings(self._workspace, corrected=True).read()

    @contextmanager
    def _changing(self, revision: Any, *, read_again: bool = False) -> Iterator[Outputs]:
        """Change the state and what follows from it: settings.json and corrections.csv."""
        with self._reading_lock, self._lock:
            self.require_revision(revision)
            self._require_idle()
            with self._workspace.changing() as outputs:
                yield outputs
                if not read_again and self._read.reading is not None:
                    self._write_corrections(outputs, self._read.reading)
                self._write_settings(outputs)

    def _write_settings(self, outputs: Outputs) -> None:
        workspace = self._workspace
        if "readings" not in workspace.state.files:
            workspace.remove(outputs, SETTINGS)
            return
        settings = label_settings(workspace, corrected=self._workspace.state.corrected)
        write_settings(settings, workspace.folder / SETTINGS, outputs=outputs)

    def _write_corrections(self, outputs: Outputs, reading: Reading) -> None:
        """Write corrections as a table of given labels, or remove it if there are none."""
        records, path = self._workspace.state.corrections, self._workspace.folder / CORRECTIONS
        corrected = corrections.expand(records, reading.index, reading.classes)
        self._workspace.state.corrected = bool(corrected.rows.any())
        if self._workspace.state.corrected:
            table = corrections.given_table(corrected, reading.index, reading.classes)
            write_table(table, path, outputs)
        else:
            self._workspace.remove(outputs, CORRECTIONS)

    def _rewrite_corrections(self) -> None:
        """Write corrections again if other files or settings change the rows they are about."""
        reading = self._read.reading
        if reading is None or not self._workspace.state.corrections:
            return
        with self._lock, self._workspace.changing() as outputs:
            self._write_corrections(outputs, reading)
            self._write_settings(outputs)

    # Small things

    def _asked(self, labels: Labels, reading: Reading) -> list[Question]:
        """Return questions about labels, found once for them and for what was said since."""
        with self._lock:
            key = (id(labels), self._corrections_key(), json.dumps(self._workspace.state.answers))
            records, answers = self._workspace.state.corrections, self._workspace.state.answers
            skipped = [*answers["skipped"], *answers["unknown"]]
        if key != self._questions.key:
            fixed = corrections.expand(records, reading.index, reading.classes).rows
            skip = np.union1d(np.flatnonzero(fixed), np.concatenate([[], *skipped])).astype(np.intp)
            self._questions = _Asked(key, ask(labels, reading.features, skip))
        return self._questions.asked

    def _record(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the record of a correction; raise if it cannot be made."""
        reading, labels = self._required_reading(), self._required_labels()
        record = corrections.new_record(request, reading.index, reading.classes, labels.codes)
        self._refuse_given_elsewhere(record, reading)
        return record

    def _add(self, record: dict[str, Any], reading: Reading) -> None:
        """Add a correction to the state; raise if it leaves no class for a row."""
        state = self._workspace.state
        record = {"id": state.new_id(), **record}
        records = [*state.corrections, record]
        corrections.require_possible(corrections.expand(records, reading.index, reading.classes))
        state.corrections = records

    def _refuse_given_elsewhere(self, record: dict[str, Any], reading: Reading) -> None:
        """Raise if the user's own given labels contradict a correction."""
        given = reading.task.supervision.given
        if given is None:
            return
        rows = corrections.rows_of(record, reading.index)
        known = is_known(given[rows])
        same = np.array(
            [str(label) == record["label"] for label in given[rows].tolist()], dtype=bool
        )
        n = int((known & (same if record["exclude"] else ~same)).sum())
        if n:
            raise ProblemError(
                f"The known labels that you gave say otherwise for {n} of these windows. Correct "
                "them there, or remove them.",
                "given",
            )

    def _fixed(self, labels: Labels) -> BoolArray:
        """Return which rows have a label that was given, or a correction."""
        fixed = np.zeros(labels.index.n_samples, dtype=bool)
        reading = self._read.reading
        if reading is None or reading.index.n_samples != len(fixed):
            return fixed
        given = reading.task.supervision.given
        if given is not None:
            fixed |= is_known(given)
        records = self._workspace.state.corrections
        return fixed | corrections.expand(records, reading.index, reading.classes).rows

    def _required_reading(self) -> Reading:
        read = self._understood()
        if read.reading is not None:
            return read.reading
        found = read.understanding or {"problem": "Choose files first.", "field": "readings"}
        raise ProblemError(found["problem"], found["field"])

    def _required_labels(self) -> Labels:
        shown = self._shown
        if shown is None:
            raise ProblemError("There are no labels yet: find them first.", status=404)
        return shown

    def _require_idle(self) -> None:
        if self._job is not None and self._job.state == "running":
            raise ProblemError(_BUSY, status=423)

    def _forget_rows(self) -> None:
        """Forget what is about the rows of other readings."""
        self._full = self._shown = self._before = self._quick_run = None
        state = self._workspace.state
        state.run = None
        state.answers = {name: [] for name in state.answers}
        state.corrections = [
            one for one in state.corrections if one["at"] is None or one.get("by_id")
        ]

    def _forget_unfit_labels(self) -> None:
        """Forget labels in memory if the files or settings now say that there are other classes."""
        reading, shown = self._read.reading, self._shown
        if reading is not None and shown is not None and shown.classes != reading.classes:
            self._full = self._shown = self._before = self._quick_run = None

    def _reading_key(self) -> str:
        """Return what the reading of files depends on."""
        state = self._workspace.state
        files = {role: file.number for role, file in sorted(state.files.items())}
        return json.dumps([files, state.settings], sort_keys=True)

    def _inputs_key(self) -> str:
        """Return a digest of all that labels depend on."""
        text = json.dumps([self._reading_key(), self._corrections_key()])
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()

    def _corrections_key(self) -> str:
        """Return what all corrections say."""
        kept = ("participant", "start", "end", "at", "label", "exclude")
        records = self._workspace.state.corrections
        return json.dumps([[one[name] for name in kept] for one in records])

    def _current_files(self) -> list[str]:
        """Return the files of the last run in full, if nothing has changed since."""
        run = self._workspace.state.run
        if run is None or self._quick_run is not None or run["inputs"] != self._inputs_key():
            return []
        names = (LABELS, EPISODES, REPORT, SETTINGS, CORRECTIONS)
        return [name for name in names if self._workspace.is_there(name)]

    def _run_json(self) -> dict[str, Any] | None:
        """Return the run whose labels are shown.

        `in_memory` is false after a restart: files can be downloaded, but days and relabeling need
        a run in full. `stale` says that files or settings have changed since, and `open` that
        corrections have.
        """
        full = self._workspace.state.run
        run = self._quick_run or full
        if run is None:
            return None
        shown = {name: value for name, value in run.items() if name != "inputs"}
        return {
            **shown,
            "files": self._current_files(),
            "in_memory": self._shown is not None,
            "stale": self._shown is not None and self._labels_key != self._read.key,
            "open": self._shown is not None and self._known_corrections != self._corrections_key(),
        }

    def _file_json(self, role: str) -> dict[str, Any] | None:
        file = self._workspace.state.files.get(role)
        return None if file is None else {"name": file.name, "bytes": file.bytes}

    def _content(self, name: str, otherwise: str) -> bytes:
        file = self._workspace.open_download(name)
        if file is None:
            raise ProblemError(otherwise, status=404)
        with file:
            return file.read()

    def _other_tabs(self, tab: str) -> int:
        """Return how many other tabs show this page, and note that this one does."""
        now = time.monotonic()
        if tab:
            self._tabs[tab[:64]] = now
        self._tabs = {name: at for name, at in self._tabs.items() if now - at < _TAB_SECONDS}
        return len(self._tabs) - bool(tab)


def _require_totals(settings: LabelSettings) -> None:
    """Raise, in words for the page, if there is nothing that says how long or how many."""
    known = settings.known
    if known.diary is None and known.proportions is None:
        raise ProblemError("Choose a diary, or totals.")
    if known.diary is None and known.bags is None:
        raise ProblemError("Say which column of the windows is the bag that totals are of.", "bags")


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
