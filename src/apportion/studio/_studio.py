"""What the page works on: the folder, what was understood, the job that runs, and the labels.

The methods answer requests, and may be called from several threads; see `Inputs` for the locks.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from apportion._io.atomic_write import UNCHANGED, Outputs
from apportion.exceptions import FileError
from apportion.labeling._outputs import write_episodes, write_labeled
from apportion.labeling.relabel import relabel
from apportion.labeling.settings import LabelSettings
from apportion.report import page_bytes
from apportion.report._labeled import contents_of_table
from apportion.report._verdict import verdict_on
from apportion.studio import _corrections as corrections
from apportion.studio._inputs import Inputs
from apportion.studio._jobs import Job, Kind
from apportion.studio._problems import PAGE_NAMES, ProblemError, in_words
from apportion.studio._questions import Question, ask, ask_bags
from apportion.studio._settings import changed_settings, options_json
from apportion.studio._understanding import (
    MOST_ROWS,
    Reading,
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
    DOWNLOADS,
    EARLIER,
    EPISODES,
    LABELS,
    REPORT,
    ROLES,
    SETTINGS,
    StoredFile,
    Workspace,
    digest_of,
    ending_for,
    shown_name,
)

MOST_BYTES = 10**9
"""The largest file that is taken."""

COMMAND = f"apportion label --settings {SETTINGS} --output {LABELS}"
"""The command that finds the same labels, as the report shows it."""

_TAB_SECONDS = 20.0
"""A tab that has asked for nothing for so long is closed; open ones ask every 3 seconds."""
_LATE_SECONDS = 2.0
"""What a tab sent before it was closed may come in later; one that is loaded again asks again."""

_UNFINISHED = (
    "These labels have no report: the run was stopped before it was written. Find labels again to "
    "get one."
)
"""What the state says of labels until their report is written too."""

_BUSY = "Labels are being found. Wait until they are, or cancel."


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
        self._inputs = Inputs(workspace)
        self._lock = self._inputs.lock
        self._job: Job | None = None
        self._full: Labels | None = None
        self._shown: Labels | None = None
        self._before: Labels | None = None
        self._quick_run: dict[str, Any] | None = None
        self._labels_key = ""
        self._questions = _Asked((), [])
        self._tabs: dict[str, float] = {}
        self._left: dict[str, float] = {}
        self._options = options_json()

    # What the page shows

    def state(self, tab: str = "") -> dict[str, Any]:
        """Return all that the page shows; it waits for files to be read."""
        read = self._inputs.understood()
        self._shown_labels()
        with self._lock:
            state = self._workspace.state
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
                "corrections": self._inputs.records(),
                "asked": {name: len(rows) for name, rows in state.answers.items()},
            }

    def days(self, participant: str | None) -> dict[str, Any]:
        """Return the days of a participant with their labels."""
        labels = self._required_labels()
        if labels.index.times is None:
            raise ProblemError("The windows have no times, so that there are no days.", "start")
        return days_json(
            labels, self._before, self._inputs.fixed(labels.index.n_samples), participant
        )

    def rows(self, offset: int, bag: str | None) -> dict[str, Any]:
        """Return some rows with their labels."""
        return rows_json(self._required_labels(), offset, bag)

    def participants(self) -> list[dict[str, Any]]:
        """Return the participants and what is to be done about each."""
        reading, shown = self._inputs.required_reading(), self._shown_labels()
        with self._lock:
            records = self._workspace.state.corrections
            made = Counter(str(one["participant"] or "") for one in records)
            people = [one.place.get("participant") for one in self._questions.asked]
            asked = Counter(str(name or "") for name in people)
        return participants_json(shown, reading.index, asked, made)

    def questions(self) -> dict[str, Any]:
        """Return what to ask about the labels that are shown."""
        labels, reading = self._required_labels(), self._inputs.required_reading()
        asked = self._asked(labels, reading)
        return {
            "questions": [question.content for question in asked],
            "bags": ask_bags(labels, reading.features),
        }

    def report(self) -> bytes:
        """Return the report of the last run in full."""
        return self._content(
            REPORT, self._no_report() or "There is no report yet: find labels first."
        )

    def download(self, name: str) -> bytes:
        """Return a file of the folder.

        The labels, episodes and the report belong to the last run in full. While something has
        changed since, a correction, a setting, a file, they are offered under the names of
        `EARLIER` only. Quick answers are never written, because `settings.json` would not give
        them again.
        """
        self._inputs.understood()
        with self._lock:
            current, earlier = self._current_files(), self._earlier_files()
            if name in EARLIER.values() and name not in current:
                raise ProblemError(
                    f"{name} is not up to date: find labels in full first.", status=404
                )
            if name in EARLIER and name not in earlier:
                raise ProblemError(f"There is no {name} now.", status=404)
            return self._content(EARLIER.get(name, name), f"There is no {name} yet.")

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
        size, digest = received.stat().st_size, digest_of(received)
        with self._changing(revision, read_again=True) as outputs:
            state = self._workspace.state
            file = StoredFile(name, ending, size, state.new_id(), digest)
            before = state.files.get(role)
            self._workspace.accept(outputs, role, received, file)
            if role == "readings" and (before is None or before.key != file.key):
                self._forget_rows()
            self._inputs.read_again()

    def copy_file(self, role: str, path: Path) -> None:
        """Copy a file of the user into the folder as the one with a role."""
        ending, received = ending_for(path.name), self.new_file()
        if path.stat().st_size > MOST_BYTES:
            most = f"at most {MOST_BYTES / 1e6:,.0f} MB"
            raise FileError(str(path), "a larger file", most, "use `apportion label`")
        try:
            received.touch(mode=0o600, exist_ok=False)
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
        found = self._inputs.understood().understanding or {"columns": []}
        columns = [one["name"] for one in found["columns"]]
        with self._changing(revision, read_again=True):
            state = self._workspace.state
            folder = self._workspace.folder
            state.settings = changed_settings(state.settings, values, columns, folder)

    def correct(self, request: Any, revision: Any) -> None:
        """Note a correction."""
        if not isinstance(request, dict):
            raise ProblemError("A correction is an object.", status=400)
        reading = self._inputs.required_reading()
        with self._changing(revision):
            self._inputs.add(self._record(request), reading)

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
        reading = self._inputs.required_reading()
        kept = {"answer": "answered", "skip": "skipped", "unknown": "unknown"}.get(str(action))
        if kept is None:
            raise ProblemError("'action' must be answer, skip or unknown.", "action", 400)
        with self._changing(revision):
            if action == "answer":
                record = self._record({**question.place, "label": request.get("label")})
                self._inputs.add(record, reading)
            self._workspace.state.answers[kept].append(question.rows.tolist())

    # Work that takes long

    def run(self, kind: Kind, revision: Any) -> None:
        """Find labels, in full or from the last ones."""
        reading = self._inputs.required_reading()
        with self._lock:
            self.require_revision(revision)
            self._require_idle()
            if self._inputs.read.reading is not reading:
                raise ProblemError("The files are being read again. Try again.", status=409)
            if kind == "quick" and (
                self._full is None or self._labels_key != self._inputs.read.key
            ):
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

    def seen(self, tab: str) -> None:
        """Note that a tab shows the page.

        This is for the moment when its request comes in: until the answer, it may be closed.
        """
        now = time.monotonic()
        self._left = {name: at for name, at in self._left.items() if now - at < _LATE_SECONDS}
        self._tabs = {name: at for name, at in self._tabs.items() if now - at < _TAB_SECONDS}
        if tab and tab not in self._left:
            self._tabs[tab] = now

    def leave(self, tab: str) -> None:
        """Note that a tab was closed, so that others are not told of it."""
        self._left[tab] = time.monotonic()
        self._tabs.pop(tab, None)

    def close(self) -> None:
        """Stop the job, let a write that has begun end, and give the folder back."""
        if self._job is not None:
            self._job.cancel()
        self._workspace.close()

    def _find_labels(self, job: Job, reading: Reading) -> None:
        """Find labels in full and keep them, and then write their report."""
        key, n = self._inputs.key(), len(self._workspace.state.corrections)
        task = self._inputs.task(reading)
        settings = self._inputs.settings()
        labeled = settings.label(task, reading.features, command=COMMAND)
        labels = Labels(labeled, task, reading.index, reading.classes)
        with self._lock:
            job.require_running()
            with self._workspace.changing() as outputs:
                folder = self._workspace.folder
                write_labeled(labeled, folder / LABELS, outputs)
                self._workspace.remove(outputs, REPORT)
                if reading.index.times is None:
                    self._workspace.remove(outputs, EPISODES)
                else:
                    write_episodes(labeled, folder / EPISODES, outputs)
                run = run_json(labels, job.number, job.seconds, _now(), n)
                run |= {"verdict": None, "no_report": _UNFINISHED, "inputs": key}
                self._workspace.state.run = run
            self._full = self._shown = labels
            self._before, self._quick_run, self._labels_key = None, None, self._inputs.read.key
        job.report("writing the report", None)
        self._write_report(job, labels, settings)

    def _write_report(self, job: Job, labels: Labels, settings: LabelSettings) -> None:
        """Write the report of labels that are kept already, or say why it failed."""
        page, verdict, lacking = None, None, ""
        try:
            contents = contents_of_table(
                labels.labeled, labels.task, files=settings.files, names=PAGE_NAMES
            )
            verdict = asdict(verdict_on(contents))
            page = page_bytes(contents)
        except Exception as error:
            lacking = _failed(error)
        with self._lock:
            job.require_running()
            try:
                self._keep_report(page, verdict, lacking)
            except OSError as error:
                with suppress(OSError):  # on a full disk, a few words may still have a place
                    self._keep_report(None, verdict, _failed(error))
            job.finish()

    def _keep_report(
        self, page: bytes | None, verdict: dict[str, Any] | None, lacking: str
    ) -> None:
        """Write a report and its verdict, or why it is lacking."""
        with self._workspace.changing() as outputs:
            if page is not None:
                with outputs.writing(self._workspace.folder / REPORT) as path:
                    path.write_bytes(page)
            run = self._workspace.state.run
            assert run is not None  # only a job that is over lets others change the files
            self._workspace.state.run = {**run, "verdict": verdict, "no_report": lacking}

    def _relabel(self, job: Job, reading: Reading) -> None:
        """Find labels from the last ones and the corrections made since.

        It starts from the last run in full, not from the last quick answer: so that the same
        corrections give the same labels, in whatever order they were made or undone.
        """
        assert self._full is not None
        key, n = self._inputs.key(), len(self._workspace.state.corrections)
        task = self._inputs.task(reading)
        labeled = relabel(self._full.labeled, task, reading.features)
        labels = Labels(labeled, task, reading.index, reading.classes)
        before = self._shown or self._full
        corrected = self._inputs.corrected(reading)
        run = run_json(labels, job.number, job.seconds, _now(), n)
        run |= {"changed": changes(labels, before, corrected.rows), "inputs": key}
        with self._lock:
            job.require_running()
            self._workspace.state.revision += 1
            self._shown, self._before, self._quick_run = labels, before, run
            job.finish()

    # Small things

    @contextmanager
    def _changing(self, revision: Any, *, read_again: bool = False) -> Iterator[Outputs]:
        """Change the state, if the page shows the present one and no job runs."""
        with self._inputs.reading_lock, self._lock:
            self.require_revision(revision)
            self._require_idle()
            with self._inputs.changing(read_again=read_again) as outputs:
                yield outputs

    def _asked(self, labels: Labels, reading: Reading) -> list[Question]:
        """Return questions about labels, found once for them and for what was said since."""
        with self._lock:
            key = (
                id(labels),
                self._inputs.corrections_key(),
                json.dumps(self._workspace.state.answers),
            )
            answers = self._workspace.state.answers
            skipped = [*answers["skipped"], *answers["unknown"]]
        if key != self._questions.key:
            fixed = self._inputs.corrected(reading).rows
            skip = np.union1d(np.flatnonzero(fixed), np.concatenate([[], *skipped])).astype(np.intp)
            skip = skip[skip < labels.index.n_samples]
            self._questions = _Asked(key, ask(labels, reading.features, skip))
        return self._questions.asked

    def _record(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the record of a correction; raise if it cannot be made."""
        reading, labels = self._inputs.required_reading(), self._required_labels()
        return corrections.new_record(request, reading.index, reading.classes, labels.codes)

    def _required_labels(self) -> Labels:
        shown = self._shown_labels()
        if shown is None:
            raise ProblemError("There are no labels yet: find them first.", status=404)
        return shown

    def _shown_labels(self) -> Labels | None:
        """Return the labels in memory, unless files or settings now tell of other classes."""
        reading, shown = self._inputs.understood().reading, self._shown
        if reading is not None and shown is not None and shown.classes != reading.classes:
            self._full = self._shown = self._before = self._quick_run = None
        return self._shown

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

    def _current_files(self) -> list[str]:
        """Return the files of the last run in full, if nothing has changed since."""
        run = self._workspace.state.run
        if run is None or self._quick_run is not None or run["inputs"] != self._inputs.key():
            return []
        if self._inputs.read.reading is None:  # an input is not what it was
            return []
        return [name for name in DOWNLOADS if self._workspace.is_there(name)]

    def _earlier_files(self) -> list[str]:
        """Return the files of the last run in full, if something has changed since."""
        if self._workspace.state.run is None or self._current_files():
            return []
        return [name for name, file in EARLIER.items() if self._workspace.is_there(file)]

    def _run_json(self) -> dict[str, Any] | None:
        """Return the run whose labels are shown.

        `in_memory` is false after a restart: files can be downloaded, but days and relabeling need
        a run in full. `stale` says that files or settings have changed since, `open` that these or
        corrections have.
        """
        full = self._workspace.state.run
        run = self._quick_run or full
        if run is None:
            return None
        shown = {name: value for name, value in run.items() if name != "inputs"}
        return {
            **shown,
            "no_report": self._no_report(),
            "files": self._current_files(),
            "earlier": self._earlier_files(),
            "in_memory": self._shown is not None,
            "stale": self._shown is not None and self._labels_key != self._inputs.read.key,
            "open": run["inputs"] != self._inputs.key(),
        }

    def _no_report(self) -> str:
        """Return why the last run in full has no report; nothing if it has one."""
        run, job = self._workspace.state.run, self._job
        if run is None or not run.get("no_report"):
            return ""
        if job is not None and job.state == "running" and job.number == run["id"]:
            return "The report is being written."
        return str(run["no_report"])

    def _file_json(self, role: str) -> dict[str, Any] | None:
        file = self._workspace.state.files.get(role)
        if file is None:
            return None
        return {"name": file.name, "bytes": file.bytes, "kept": f"{role}{file.ending}"}

    def _content(self, name: str, otherwise: str) -> bytes:
        file = self._workspace.open_download(name)
        if file is None:
            raise ProblemError(otherwise, status=404)
        with file:
            return file.read()

    def _other_tabs(self, tab: str) -> int:
        """Return how many other tabs show this page."""
        now, tabs = time.monotonic(), self._tabs.copy()  # requests come in meanwhile
        return sum(now - at < _TAB_SECONDS for name, at in tabs.items() if name != tab)


def _failed(error: Exception) -> str:
    """Return what a run says of a report that failed."""
    why = in_words(error).removesuffix(UNCHANGED)  # but the labels were
    # The name of a folder need not be UTF-8, as the state must be.
    why = why.encode("utf-8", "backslashreplace").decode()
    return f"These labels have no report, because it failed. {why}"


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
