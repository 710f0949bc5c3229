"""The studio: who may read its files, what it reads, and requests and states that are damaged."""

from __future__ import annotations

import copy
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import webbrowser
from pathlib import Path

import httpx
import pytest

from apportion.exceptions import FileError, SettingsError
from apportion.labeling.settings import LabelSettings
from apportion.studio import _server
from apportion.studio import _studio as studio_module
from apportion.studio._security import Guard
from apportion.studio._workspace import Workspace
from command_line import windows
from studio_tab import DIARY, PORT, TOKEN, Page

ADDRESS = "http://127.0.0.1:8765/t0ken/"
FULL_DISK = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
from apportion.cli import app
app()
"""
"""The command where no file can be larger than 1 MB, as on a disk that is full."""


@pytest.fixture
def page(tmp_path):
    page = Page(tmp_path / "studio")
    yield page
    page.close()


@pytest.fixture
def week(page):
    """Two days of windows with a diary, labeled."""
    page.give("readings", windows(), "windows.csv")
    page.give("diary", DIARY, "diary.csv")
    page.run()
    return page


def correct(page, status=200):
    place = {"participant": "p1", "day": "Mon 2024-03-04", "start": 3 * 3600, "end": 5 * 3600}
    return page.ask("POST", "api/corrections", status, json={**place, "label": "tv"})


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


# Who may read


def test_the_browser_is_started_without_the_token(tmp_path, monkeypatch):
    opened, answered = [], []

    class Server:
        def __init__(self, config):
            pass

        def run(self, sockets):
            (page,) = (tmp_path / "studio").glob("*.html")
            opened.append((page.as_uri(), page.read_text(), mode_of(page)))

    monkeypatch.setattr(_server.uvicorn, "Server", Server)
    monkeypatch.setattr(webbrowser, "open", answered.append)
    monkeypatch.setattr(_server.threading, "Thread", Now)
    said = []
    _server.serve(tmp_path / "studio", announce=said.append)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{40,}/", said[0])
    ((uri, text, mode),) = opened
    assert answered == [uri]
    assert uri.startswith("file://")
    assert said[0] in text
    if os.name == "posix":
        assert mode == 0o600
    assert not list((tmp_path / "studio").glob("*.html"))


class Now:
    """A thread whose work is done at once."""

    def __init__(self, target, args, daemon):
        self.start = lambda: target(*args)


def test_the_page_that_leads_to_the_address_goes_at_the_next_start(tmp_path):
    workspace = Workspace(tmp_path / "studio")
    opener = workspace.write_opener(ADDRESS)
    os.close(workspace._lock)  # the process is killed
    Workspace(tmp_path / "studio").close()
    assert not opener.exists()


def test_only_the_page_may_be_opened_from_elsewhere(page):
    opens = {
        **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        "Sec-Fetch-Dest": "document",
    }
    assert page.client.get(f"/{TOKEN}/", headers=opens).status_code == 200
    for path, change, status in (
        ("api/state", {}, 403),
        ("report", {}, 403),
        ("", {"Sec-Fetch-Dest": "iframe"}, 403),
        ("", {"Sec-Fetch-Mode": "no-cors"}, 403),
        ("", {"Origin": "http://evil.example"}, 403),
        ("", {"Host": f"evil.example:{PORT}"}, 403),
    ):
        answer = page.client.get(f"/{TOKEN}/{path}", headers={**opens, **change})
        assert answer.status_code == status, (path, change)
    assert page.client.get("/wrong/", headers=opens).status_code == 403
    assert page.client.post(f"/{TOKEN}/", headers=opens).status_code == 403
    assert not Guard(None, TOKEN, PORT)._is_ours(
        [(name.lower().encode(), value.encode()) for name, value in opens.items()]
    )


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_only_the_user_may_read_the_folder(tmp_path):
    mask = os.umask(0o022)
    try:
        (tmp_path / "windows.csv").write_text(windows())
        page = Page(tmp_path / "studio")
        page.studio.copy_file("readings", tmp_path / "windows.csv")
        page.state = page.get("api/state").json()
        page.give("diary", DIARY)
        page.run()
        correct(page)
        page.run()
        page.close()
        modes = {path.name: mode_of(path) for path in (tmp_path / "studio").iterdir()}
        assert "labels.csv" in modes
        assert "corrections.csv" in modes
        assert set(modes.values()) == {0o600}, modes
        assert mode_of(tmp_path / "studio") == 0o700
        for path in (tmp_path / "studio").iterdir():  # as an earlier version left them
            path.chmod(0o644)
        (tmp_path / "studio").chmod(0o755)
        Workspace(tmp_path / "studio").close()
        modes = {path.name: mode_of(path) for path in (tmp_path / "studio").iterdir()}
        assert {name for name in modes if modes[name] != 0o600} <= {"studio.lock"}
        assert mode_of(tmp_path / "studio") == 0o700
    finally:
        os.umask(mask)


# What is read


def set_in_state(folder, settings):
    path = folder / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "settings": settings}))


@pytest.mark.parametrize("name", ["../secret.csv", "labels.csv"])
def test_a_column_called_like_a_file_is_no_file(page, tmp_path, name):
    (tmp_path / "secret.csv").write_text("row,label\n0,sleep\n")
    page.give("readings", windows().replace("a,b", f"a,{name}"))
    page.give("diary", DIARY)
    if name == "labels.csv":  # it is there from a run
        page.run()
    assert page.ask("PUT", "api/settings", 422, json={"given": [name]})["field"] == "given"
    # ... or it was set where there was no such file yet.
    page.studio._workspace.state.settings["given"] = [name]
    page.studio._inputs.read_again()
    found = page.get("api/state").json()["understanding"]
    assert (found["ok"], found["field"]) == (False, "given")
    assert "not one that was given to the studio" in found["problem"]
    page.ask("POST", "api/run", 422, json={})
    page.ask("PUT", "api/settings", json={"given": None})
    assert page.state["understanding"]["ok"]


def test_a_state_cannot_name_files(page, tmp_path):
    (tmp_path / "secret.csv").write_text(DIARY)
    page.give("readings", windows())
    page.close()
    for name, value in (
        ("diary", str(tmp_path / "secret.csv")),
        ("proportions", "../secret.csv"),
        ("readings", "../secret.csv"),
    ):
        set_in_state(tmp_path / "studio", {name: value})
        with pytest.raises(FileError, match=name):
            Workspace(tmp_path / "studio")
    set_in_state(tmp_path / "studio", {"given": ["../secret.csv"]})
    again = Page(tmp_path / "studio")
    assert again.state["understanding"]["field"] == "given"
    again.close()


def test_a_link_in_place_of_the_corrections_is_not_read(week, tmp_path):
    correct(week)
    (tmp_path / "given.csv").write_text("row,label\n7,tv\n")
    corrections = tmp_path / "studio" / "corrections.csv"
    corrections.unlink()
    corrections.symlink_to(tmp_path / "given.csv")
    week.ask("POST", "api/run", json={})
    job = week.wait()["job"]
    assert job["state"] == "failed"
    assert "corrections.csv is gone, or is a link" in job["problem"]
    week.close()
    again = Page(tmp_path / "studio")  # which writes it again
    assert not corrections.is_symlink()
    assert again.state["understanding"]["ok"]
    again.run()
    again.close()


# What stays whole


@pytest.mark.parametrize(
    ("path", "method", "text"),
    [
        ("api/settings", "PUT", '{"timezone": "\\ud800"}'),
        ("api/settings", "PUT", '{"\\ud800": 1}'),
        ("api/settings", "PUT", '{"given": ["\\ud800"]}'),
        ("api/settings", "PUT", '{"alpha": 1e999}'),
        ("api/settings", "PUT", '{"tol": -1e999}'),
        ("api/settings", "PUT", '{"tol": 1%s}' % ("0" * 400)),
        ("api/settings", "PUT", '{"given": 5}'),
        ("api/settings", "PUT", '{"given": "a"}'),
        ("api/settings", "PUT", '{"given": [["a"]]}'),
        ("api/settings", "PUT", '{"given": {"a": 1}}'),
        ("api/corrections", "POST", '{"label": "\\ud800", "rows": [1]}'),
        ("api/corrections", "POST", '{"label": {}, "rows": [1]}'),
        ("api/corrections", "POST", '{"label": "tv", "participant": ["p1"], "start": 0}'),
    ],
)
def test_what_cannot_be_kept_is_refused_in_words(week, path, method, text):
    before = week.state
    answer = week.ask(method, path, 422, content=text.encode())
    assert answer["problem"]
    assert week.get("api/state").json() == before


@pytest.mark.parametrize("action", [["a"], {}, None, 3, "sing"])
def test_an_answer_that_is_none_is_refused(week, action):
    question = week.get("api/questions").json()["questions"][0]["id"]
    week.ask("POST", f"api/questions/{question}", 400, json={"action": action})


def test_a_number_that_is_too_long_is_refused(week):
    week.ask("DELETE", f"api/corrections/{'1' * 5000}", 400)


def test_settings_files_are_of_finite_numbers_and_whole_characters():
    for values in ({"alpha": float("inf")}, {"tol": 10**400}, {"timezone": "\ud800"}):
        with pytest.raises(SettingsError) as error:
            LabelSettings.from_json({"readings": "a.csv", **values}, Path())
        assert str(error.value).encode()


def damaged(state):
    """Yield copies of a state with every value replaced by values of other kinds, or left out."""
    others = [None, True, -1, 10**30, 0.5, float("inf"), "x", "\ud800", [], [[]], {}, {"a": 1}]

    def places(value, way=()):
        yield way
        inner = list(enumerate(value)) if isinstance(value, list) else []
        inner = list(value.items()) if isinstance(value, dict) else inner
        for name, one in inner:
            yield from places(one, (*way, name))

    for way in places(state):
        for other in (*others, ...):
            if not way:
                continue
            found = copy.deepcopy(state)
            place = found
            for name in way[:-1]:
                place = place[name]
            if other is ...:
                del place[way[-1]]
            else:
                place[way[-1]] = other
            yield way, other, found


GETS = ("state", "days?participant=p1", "rows", "participants", "questions")


def test_a_damaged_state_is_refused_or_does_no_harm(week, tmp_path):
    correct(week)
    week.ask("PUT", "api/settings", json={"seed": 3, "exclude": ["b"]})
    question = week.get("api/questions").json()["questions"][0]["id"]
    week.ask("POST", f"api/questions/{question}", json={"action": "skip"})
    week.run()
    labels = week.studio._shown
    week.close()
    path = tmp_path / "studio" / "state.json"
    state = json.loads(path.read_bytes())
    opened = 0
    for way, other, found in damaged(state):
        path.write_text(json.dumps(found))
        try:
            again = Page(tmp_path / "studio")
        except FileError as error:
            assert "nothing that the studio wrote" in str(error)  # noqa: PT017
            continue
        opened += 1
        again.studio._full = again.studio._shown = labels  # as after another run
        for get in GETS:
            answer = again.get(f"api/{get}")
            assert answer.status_code < 500, (way, other, get, answer.text)
        again.close()
    assert opened > 20
    path.write_text(json.dumps(state))


@pytest.mark.parametrize(
    "text",
    [
        '"corrections": [{}]',
        '"run": {}',
        '"settings": {"alpha": 1e999}',
        '"settings": {"given": 5}',
        '"settings": {"timezone": "\\ud800"}',
        '"answers": {}',
        '"revision": 1e3',
    ],
)
def test_a_state_with_nonsense_is_refused(tmp_path, text):
    (tmp_path / "state.json").write_text(f'{{"apportion_studio": 1, {text}}}')
    with pytest.raises(FileError, match="state"):
        Workspace(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limits")
def test_an_upload_on_a_full_disk_is_told(tmp_path):
    words = ["studio", "work", "--no-browser"]
    process = subprocess.Popen(
        [sys.executable, "-c", FULL_DISK, *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address = process.stdout.readline().strip()
        for name, words in (("big.csv", "too large"), ("virus.exe", ".exe")):
            answer = httpx.put(
                f"{address}api/files/readings",
                params={"name": name},
                content=b"x" * 50_000_000,
                headers={"X-Revision": "0"},
                timeout=60,
            )
            assert answer.status_code == 422, answer.text
            assert words in answer.json()["problem"]
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert "Traceback" not in said
    assert {path.name for path in (tmp_path / "work").iterdir()} == {"studio.lock"}


# What a report costs


def test_a_report_that_fails_costs_no_labels(week, tmp_path, monkeypatch):
    def fails(*_args, **_more):
        raise ZeroDivisionError(f"{tmp_path}/\udcff")

    correct(week)
    with monkeypatch.context() as patch:
        patch.setattr(studio_module, "contents_of_table", fails)
        run = week.run()["run"]
    assert (run["corrections"], run["verdict"]) == (1, None)
    assert "no report, because it failed. A fault of this program: Zero" in run["no_report"]
    assert run["files"] == ["labels.csv", "episodes.csv", "settings.json", "corrections.csv"]
    assert week.get("download/labels.csv").status_code == 200
    assert week.get("download/report.html").status_code == 404
    assert week.get("report").json()["problem"] == run["no_report"]
    assert week.get("api/days?participant=p1").status_code == 200
    week.close()
    again = Page(tmp_path / "studio")
    assert again.state["run"]["no_report"] == run["no_report"]
    run = again.run()["run"]
    assert (run["no_report"], "report.html" in run["files"]) == ("", True)
    assert run["verdict"]["sentence"]
    again.close()


@pytest.mark.parametrize(
    ("n_full", "words"), [(1, "cannot be written: no space left on device."), (2, "stopped before")]
)
def test_a_report_that_a_disk_has_no_place_for_costs_no_labels(week, monkeypatch, n_full, words):
    write, full = Path.write_bytes, []

    def fills(path, content):
        if content == b"large" or (full and len(full) < n_full):
            full.append(path)
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(studio_module, "page_bytes", lambda contents: b"large")
    monkeypatch.setattr(Path, "write_bytes", fills)
    run = week.run()["run"]
    assert words in run["no_report"]
    assert "Nothing was changed" not in run["no_report"]
    assert "labels.csv" in run["files"]
    assert "report.html" not in run["files"]


def test_a_run_that_is_cancelled_while_its_report_is_written_keeps_labels(week, monkeypatch):
    begun, cancelled = threading.Event(), threading.Event()

    def waits(contents):
        begun.set()
        assert cancelled.wait(60)
        return b"late"

    monkeypatch.setattr(studio_module, "page_bytes", waits)
    correct(week)
    week.ask("POST", "api/run", json={})
    assert begun.wait(60)
    state = week.get("api/state").json()
    assert (state["job"]["state"], state["job"]["stage"]) == ("running", "writing the report")
    assert state["run"]["no_report"] == "The report is being written."
    labels = week.get("download/labels.csv").content
    week.ask("POST", "api/cancel")
    cancelled.set()
    week.studio._job.wait(60)
    state = week.wait()
    assert state["job"]["state"] == "cancelled"
    assert state["run"]["id"] == state["job"]["id"]
    assert "stopped before" in state["run"]["no_report"]
    assert "report.html" not in state["run"]["files"]
    assert week.get("download/labels.csv").content == labels


# What can be saved after a correction


def test_labels_from_before_a_correction_can_be_saved_as_such(week):
    labels = week.get("download/labels.csv").content
    assert week.state["run"]["earlier"] == []
    assert week.get("download/labels-before-changes.csv").status_code == 404
    correct(week)
    assert week.state["run"]["files"] == []
    assert week.get("download/labels.csv").status_code == 404
    earlier = week.state["run"]["earlier"]
    assert earlier == [
        *("labels-before-changes.csv", "episodes-before-changes.csv"),
        "report-before-changes.html",
    ]
    for name in earlier:
        answer = week.get(f"download/{name}")
        assert answer.status_code == 200
        assert name in answer.headers["content-disposition"]
    assert week.get(f"download/{earlier[0]}").content == labels
    week.run("relabel")  # a quick answer is no file to save
    assert week.state["run"]["files"] == []
    assert week.get(f"download/{earlier[0]}").content == labels
    week.run()
    assert week.state["run"]["earlier"] == []
    assert week.get(f"download/{earlier[0]}").status_code == 404
    week.give("readings", windows(days=3))  # then there are no labels to these
    assert week.state["run"] is None
    assert week.get(f"download/{earlier[0]}").status_code == 404
