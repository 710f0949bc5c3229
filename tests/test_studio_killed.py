"""A studio that is killed in the middle of a change: what is there when it is started again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from apportion.exceptions import FileError, OutputError
from apportion.labeling.settings import LabelSettings
from apportion.studio import _studio as studio_module
from apportion.studio._studio import Studio
from apportion.studio._workspace import DOWNLOADS, Workspace
from command_line import windows
from studio_tab import DIARY, Page

CHANGES = ("rename", "replace", "link", "unlink", "remove", "rmdir", "fsync")


PAUSING = """
import os, sys, time
from pathlib import Path
from apportion.studio._studio import Studio
from apportion.studio._workspace import Workspace

folder, moment = Path(sys.argv[1]), sys.argv[2]
replace = os.replace

def pausing(source, target):
    if Path(target).name == moment:
        print("before", moment, flush=True)
        time.sleep(600)
    replace(source, target)

studio = Studio(Workspace(folder))
studio._inputs.understood()
os.replace = pausing
studio.run("full", str(studio._workspace.state.revision))
studio._job.wait()
"""
"""A process that finds labels, and stops before the first time that a file gets a name."""


class Killed(BaseException):
    """The process is gone."""


class Killing:
    """Let this process do nothing to files any more, before or after a number of changes to them.

    That is what is left of a process that gets SIGKILL there: no `finally` has an effect.
    """

    def __init__(self, monkeypatch, number, *, after):
        self.dead, self._left, self._after = False, number, after
        for name in CHANGES:
            monkeypatch.setattr(os, name, self._dying(getattr(os, name)))

    def _dying(self, change):
        def doing(*args, **more):
            if self.dead:
                raise Killed
            self._left -= 1
            self.dead = self._left == 0
            if self.dead and not self._after:
                raise Killed
            done = change(*args, **more)
            if self.dead:
                raise Killed
            return done

        return doing


def killed(folder, changes, monkeypatch, number, *, after):
    """Return whether changes of a folder were killed, and not done before."""
    studio = None
    with monkeypatch.context() as patch:
        killing = Killing(patch, number, after=after)
        with suppress(Killed):
            studio = Studio(Workspace(folder))
            for change in changes:
                change(studio)
                if killing.dead:  # in the thread of a job
                    break
    if studio is not None and killing.dead:
        os.close(studio._workspace._lock)  # which ends with the process
    elif studio is not None:
        studio.close()
    return killing.dead


def found(folder):
    """Open a folder, and return what it says, with the contents that belong to it."""
    workspace = Workspace(folder)
    try:
        workspace.require_own_files()
        state = workspace.state
        inputs = {role: (file.name, file.ending) for role, file in state.files.items()}
        contents = {role: workspace.path(role).read_bytes() for role in state.files}
        run = None if state.run is None else (state.run["id"], state.run["corrections"])
        of_run = {
            name: (folder / name).read_bytes() for name in DOWNLOADS if (folder / name).is_file()
        }
        lacks = None if state.run is None else bool(state.run["no_report"])
        assert lacks in (None, "report.html" not in of_run)
        names = {path.name for path in folder.iterdir()} - {"studio.lock", "state.json"}
        assert names == {workspace.path(role).name for role in inputs} | set(of_run)
        return inputs, contents, run, len(state.corrections), state.corrected, of_run
    finally:
        workspace.close()


def given(role, name):
    """Return a change that gives a file which is beside the folder."""
    return lambda studio: studio.copy_file(role, studio._workspace.folder.parent / name)


def labeled(studio):
    studio._inputs.understood()  # which writes corrections again
    revision = str(studio._workspace.state.revision)
    studio.run("full", revision)
    studio._job.wait(60)


def corrected(studio):
    place = {"participant": "p1", "day": "2024-03-04", "start": 3 * 3600, "end": 5 * 3600}
    revision = str(studio._workspace.state.revision)
    studio.correct({**place, "label": "tv"}, revision)


def by_lpllp(studio):
    studio.set_settings({"method": "lpllp"}, str(studio._workspace.state.revision))


def dropped(studio):
    studio.drop_file("readings", str(studio._workspace.state.revision))


def without_report(content):
    """Return what `found` returns between labels and their report, which are two changes."""
    *others, of_run = content
    return *others, {name: text for name, text in of_run.items() if name != "report.html"}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "old.csv").write_text(windows())
    (tmp_path / "new.csv").write_text(windows(days=3))
    (tmp_path / "new.tsv").write_text(windows(days=3).replace(",", "\t"))
    (tmp_path / "diary.csv").write_text(DIARY)
    return tmp_path


@pytest.fixture
def quickly(monkeypatch):
    """Find the same labels, and the same report, when they are asked for again."""
    found, last = {}, []
    label = LabelSettings.label

    def remembered(self, task, features, command=""):
        key = task.supervision.given is None
        if key not in found:
            found[key] = label(self, task, features, command)
        last[:] = [key]
        return found[key]

    monkeypatch.setattr(LabelSettings, "label", remembered)
    monkeypatch.setattr(studio_module, "page_bytes", lambda contents: f"report {last}".encode())


def done(folder, changes):
    studio = Studio(Workspace(folder))
    for change in changes:
        change(studio)
    studio.close()


GIVEN, DIARIES = given("readings", "old.csv"), given("diary", "diary.csv")
STORIES = {
    "the first file of a new folder": ([], GIVEN),
    "readings of the same ending": ([GIVEN], given("readings", "new.csv")),
    "readings of another ending": ([GIVEN, DIARIES, labeled], given("readings", "new.tsv")),
    "readings that are removed": ([GIVEN, DIARIES, labeled], dropped),
    "a first run in full": ([GIVEN, DIARIES], labeled),
    "a correction and another run": ([GIVEN, DIARIES], labeled, corrected, labeled),
}


@pytest.mark.parametrize("story", STORIES)
def test_a_killed_change_is_done_or_not_done(files, monkeypatch, quickly, story):
    before, *changes = STORIES[story]
    kept, folder = files / "kept", files / "studio"
    done(kept, before)
    allowed = [found(kept)]
    for n in range(len(changes)):
        done(folder, [*before, *changes[: n + 1]])
        done_so_far = found(folder)
        allowed += [without_report(done_so_far)] if changes[n] is labeled else []
        allowed.append(done_so_far)
        shutil.rmtree(folder)
    deaths = 0
    for after in (False, True):
        for number in count(1):
            shutil.rmtree(folder, ignore_errors=True)
            if before:
                shutil.copytree(kept, folder)
            if not killed(folder, changes, monkeypatch, number, after=after):
                break
            deaths += 1
            assert found(folder) in allowed, (number, after)
        assert found(folder) == allowed[-1]
    assert deaths >= 6


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
@pytest.mark.parametrize(
    ("moment", "new", "reported"),
    [
        (".apportion-journal.json", False, True),
        ("labels.csv", True, False),
        ("state.json", True, False),
        ("report.html", True, True),
    ],
)
def test_a_process_that_gets_sigkill_in_a_change(files, moment, new, reported):
    kept, folder = files / "kept", files / "studio"
    done(kept, [GIVEN, DIARIES, by_lpllp, labeled, corrected])
    shutil.copytree(kept, folder)
    states = {False: found(kept)}
    done(kept, [labeled])
    states[True] = found(kept)
    assert states[True][-1]["labels.csv"] != states[False][-1]["labels.csv"]
    words = [sys.executable, "-c", PAUSING, str(folder), moment]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == f"before {moment}\n"
        finally:
            os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    now = found(folder)
    assert without_report(now) == without_report(states[new])
    assert ("report.html" in now[-1]) == reported
    page = Page(folder)
    assert page.state["understanding"]["ok"]
    assert ("labels.csv" if new else "labels-before-changes.csv") in [
        *page.state["run"]["files"],
        *page.state["run"]["earlier"],
    ]
    page.close()


def test_a_start_that_is_killed_is_tried_again(files, monkeypatch, quickly):
    before, change = STORIES["readings of another ending"]
    kept, folder = files / "kept", files / "studio"
    done(kept, before)
    old = found(kept)
    done(folder, [*before, change])
    new = found(folder)
    halves = 0
    for number in count(1):
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        if not killed(folder, [change], monkeypatch, number, after=True):
            break
        half = files / "half"
        shutil.copytree(folder, half)
        again = 1
        while killed(folder, [], monkeypatch, again, after=again % 2):
            again += 1
        halves += again > 3
        assert found(folder) in (old, new)
        shutil.rmtree(half)
    assert halves


def test_a_change_that_cannot_be_put_back_is_completed_at_the_next_start(files, monkeypatch):
    folder = files / "studio"
    done(folder, [GIVEN])
    studio = Studio(Workspace(folder))
    replace = os.replace

    def once(source, target):
        if Path(target).name in ("state.json", "settings.json") or ".tmp" in str(target):
            raise OSError(30, "Read-only file system")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", once)
        with pytest.raises(OutputError, match="could not be put back"):
            given("readings", "new.csv")(studio)
    with pytest.raises(OutputError, match="start it again"):
        DIARIES(studio)
    studio.close()
    assert found(folder)[1]["readings"] == (files / "new.csv").read_bytes()


def test_a_journal_that_the_studio_did_not_write_is_refused(tmp_path):
    (tmp_path / "thesis.csv").write_text("mine")
    folder = tmp_path / "studio"
    folder.mkdir()
    for text in ("", "[]", '{"../thesis.csv": null}', '{"readings.csv": "../thesis.csv"}'):
        (folder / ".apportion-journal.json").write_text(text)
        with pytest.raises(FileError, match="journal"):
            Workspace(folder)
    assert (tmp_path / "thesis.csv").read_text() == "mine"


# Inputs are known by their content


def test_a_file_that_is_not_the_one_that_was_given_is_told(tmp_path):
    page = Page(tmp_path / "studio")
    page.give("readings", windows(), "windows.csv")
    page.give("diary", DIARY)
    page.run()
    labels = page.get("download/labels.csv").content
    page.close()
    readings = tmp_path / "studio" / "readings.csv"
    text = readings.read_text()
    for other in (text + "p1", text[:-3] + ("1" if text[-3] != "1" else "2") + text[-2:]):
        readings.write_text(other)
        page = Page(tmp_path / "studio")
        found = page.state["understanding"]
        assert (found["ok"], found["field"]) == (False, "readings")
        assert "not the file that was given" in found["problem"]
        assert page.state["run"]["files"] == []
        assert page.get("download/labels.csv").status_code == 404
        page.give("readings", text, "windows.csv")  # and all is as it was
        assert page.state["understanding"]["ok"]
        assert page.get("download/labels.csv").content == labels
        page.close()


def test_the_same_file_given_again_changes_nothing(tmp_path):
    page = Page(tmp_path / "studio")
    page.give("readings", windows())
    page.give("diary", DIARY)
    files = page.run()["run"]["files"]
    page.give("readings", windows(), "renamed.csv")
    assert page.state["files"]["readings"]["name"] == "renamed.csv"
    assert page.state["run"]["files"] == files
    page.give("readings", windows(days=3))
    assert page.state["run"] is None
    page.close()


def test_a_folder_of_the_version_before_opens(tmp_path):
    page = Page(tmp_path / "studio")
    page.give("readings", windows())
    page.give("diary", DIARY)
    page.run()
    page.studio._workspace.state.files = {
        role: replace(file, digest="") for role, file in page.studio._workspace.state.files.items()
    }
    key = page.studio._inputs.key()
    page.close()
    path = tmp_path / "studio" / "state.json"
    state = json.loads(path.read_bytes())
    for file in state["files"].values():
        del file["digest"]  # which that version did not know
    state["run"]["inputs"] = key
    path.write_text(json.dumps(state))
    again = Page(tmp_path / "studio")
    assert again.state["understanding"]["ok"]
    assert "labels.csv" in again.state["run"]["files"]
    again.close()
