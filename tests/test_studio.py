"""The studio's server: who may ask, what is kept, what is answered."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx")

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # starlette's client prefers another name of httpx
    from starlette.testclient import TestClient

from apportion.exceptions import FileError
from apportion.studio import _studio as studio_module
from apportion.studio._jobs import Job
from apportion.studio._security import Guard
from apportion.studio._server import application
from apportion.studio._studio import Studio
from apportion.studio._workspace import Workspace, ending_for, shown_name
from command_line import cells_of, done, windows

TOKEN, PORT = "t0ken", 8765
OWN = f"http://127.0.0.1:{PORT}"
DIARY = "participant,date,sleep,tv\np1,2024-03-04,8h,16h\np1,2024-03-05,6h,18h\n"


class Page:
    """A tab that shows the page of a folder."""

    def __init__(self, folder, tab="one"):
        self.studio = Studio(Workspace(Path(folder)))
        self.client = TestClient(
            application(self.studio, TOKEN, PORT), base_url=OWN, raise_server_exceptions=False
        )
        self.tab = tab
        self.state = self.get("api/state").json()

    def get(self, path, **headers):
        return self.client.get(f"/{TOKEN}/{path}", headers={"X-Tab": self.tab, **headers})

    def ask(self, method, path, status=200, **more):
        """Send a change, and return the answer; the state is what it left."""
        headers = {"X-Tab": self.tab, "X-Revision": str(self.state["revision"])}
        answer = self.client.request(method, f"/{TOKEN}/{path}", headers=headers, **more)
        assert answer.status_code == status, (answer.status_code, answer.text)
        if status == 200:
            self.state = answer.json()
        return answer.json()

    def give(self, role, content, name="file.csv", status=200):
        content = content.encode() if isinstance(content, str) else content
        return self.ask("PUT", f"api/files/{role}", status, params={"name": name}, content=content)

    def wait(self):
        """Return the state once no job runs."""
        end = time.monotonic() + 20
        while self.state["job"]["state"] == "running":
            assert time.monotonic() < end, self.state["job"]
            time.sleep(0.01)
            self.state = self.get("api/state").json()
        return self.state

    def run(self, how="run"):
        self.ask("POST", f"api/{how}", json={})
        state = self.wait()
        assert state["job"]["state"] == "done", state["job"]
        return state

    def close(self):
        self.studio.close()


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


# Who may ask


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (f"/{TOKEN}/", {}, 200),
        (f"/{TOKEN}/api/state", {"Host": f"localhost:{PORT}"}, 200),
        (f"/{TOKEN}/api/state", {"Origin": OWN}, 200),
        (f"/{TOKEN}/api/state", {"Sec-Fetch-Site": "same-origin"}, 200),
        ("/", {}, 404),
        ("/api/state", {}, 404),
        (f"/{TOKEN}x/api/state", {}, 404),
        (f"/{TOKEN[:-1]}/api/state", {}, 404),
        ("/" + "ß" * 5 + "/api/state", {}, 404),
        (f"/{TOKEN}/api/state", {"Host": f"evil.example:{PORT}"}, 403),
        (f"/{TOKEN}/api/state", {"Host": "127.0.0.1"}, 403),
        (f"/{TOKEN}/api/state", {"Host": f"127.0.0.1:{PORT + 1}"}, 403),
        (f"/{TOKEN}/api/state", {"Origin": "http://evil.example"}, 403),
        (f"/{TOKEN}/api/state", {"Origin": "null"}, 403),
        (f"/{TOKEN}/api/state", {"Origin": f"http://127.0.0.1:{PORT + 1}"}, 403),
        (f"/{TOKEN}/api/state", {"Sec-Fetch-Site": "cross-site"}, 403),
        (f"/{TOKEN}/api/state", {"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_only_the_own_page_is_answered(page, path, headers, status):
    answer = page.client.get(path, headers=headers)
    assert answer.status_code == status
    if status != 200:
        assert answer.text == "Not here.\n"
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_an_address_without_its_slash_is_sent_on(page):
    answer = page.client.get(f"/{TOKEN}", follow_redirects=False)
    assert answer.headers["location"] == f"/{TOKEN}/"


def test_two_hosts_are_refused():
    guard = Guard(None, TOKEN, PORT)
    own = (b"host", f"127.0.0.1:{PORT}".encode())
    assert guard._is_ours([own])
    assert not guard._is_ours([own, own])
    assert not guard._is_ours([])


@pytest.mark.parametrize(
    "path",
    [
        "static/../_server.py",
        "static/%2e%2e/_server.py",
        "download/state.json",
        "download/..%2fstate.json",
        "download/readings.csv",
        "api/nothing",
        "api/files/other",
    ],
)
def test_only_listed_names_are_answered(page, path):
    answer = page.get(path)
    assert answer.status_code == 404
    assert set(answer.json()) == {"problem", "field"}


# What is kept


def test_a_file_is_stored_under_our_own_name(page, tmp_path):
    page.give("readings", windows(), "../../<b>evil\n.CSV")
    assert page.state["files"]["readings"]["name"] == "<b>evil .CSV"
    stored = tmp_path / "studio" / "readings.csv"
    assert stored.read_text() == windows()
    assert {path.name for path in tmp_path.rglob("*")} == {
        *("studio", "readings.csv", "state.json", "settings.json", "studio.lock")
    }


def test_another_ending_replaces_the_file(page, tmp_path):
    page.give("readings", windows(), "a.csv")
    page.give("readings", windows(), "a.txt")
    assert [path.name for path in (tmp_path / "studio").glob("readings*")] == ["readings.txt"]
    page.ask("DELETE", "api/files/readings")
    assert page.state["files"]["readings"] is None
    assert not list((tmp_path / "studio").glob("readings*"))


def test_names_of_files():
    assert ending_for("a.csv.GZ") == ".csv.gz"
    assert ending_for("a.parquet") == ".parquet"
    with pytest.raises(FileError, match=r"\.exe"):
        ending_for("a.exe")
    assert shown_name("C:\\data\\week.csv") == "week.csv"
    assert shown_name("a\x1b[31m.csv") == "a [31m.csv"


def test_a_file_of_another_kind_is_refused(page):
    answer = page.give("readings", b"MZ", "virus.exe", status=422)
    assert ".exe" in answer["problem"]
    assert page.get("api/state").json()["files"]["readings"] is None


def test_a_file_that_is_too_large_leaves_nothing(page, tmp_path, monkeypatch):
    monkeypatch.setattr("apportion.studio._server.MOST_BYTES", 100)
    answer = page.give("readings", b"x" * 101, status=413)
    assert "MB" in answer["problem"]

    def pieces():
        yield from [b"x" * 60] * 2  # no length is told

    page.ask("PUT", "api/files/readings", 413, content=pieces())
    assert not list((tmp_path / "studio").glob("readings*"))
    assert not list((tmp_path / "studio").glob("*.tmp"))
    assert page.get("api/state").json()["files"]["readings"] is None


def test_a_change_that_fails_leaves_the_state(page, monkeypatch):
    page.give("readings", windows(), "first.csv")
    before = page.state

    def full(self):
        raise OSError(28, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr("apportion.studio._workspace.State.to_bytes", full)
        page.give("readings", windows(days=3), "second.csv", status=422)
    after = page.get("api/state").json()
    assert after == {**before, "revision": after["revision"]}
    assert after["revision"] == before["revision"]


def test_bodies_are_limited_and_must_be_json(page):
    page.ask("PUT", "api/settings", 413, content=b" " * (2**20 + 1))
    page.ask("PUT", "api/settings", 400, content=b"{no")
    page.ask("PUT", "api/settings", 400, content=b'{"seed": NaN}')
    page.ask("PUT", "api/settings", 400, content=b"[1]")


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(FileError, match=r"thesis\.txt"):
        Workspace(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_is_open_once(tmp_path):
    first = Workspace(tmp_path / "studio")
    with pytest.raises(FileError, match=f"process {os.getpid()}"):
        Workspace(tmp_path / "studio")
    first.close()
    Workspace(tmp_path / "studio").close()


@pytest.mark.parametrize("text", ["", "[]", '{"apportion_studio": 1, "files": {"readings": 3}}'])
def test_a_damaged_state_is_told(tmp_path, text):
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(FileError, match="state"):
        Workspace(tmp_path)


def test_a_state_cannot_name_a_path(tmp_path):
    file = {"name": "x", "ending": "/../../secret.csv", "bytes": 1, "number": 1}
    state = {"apportion_studio": 1, "files": {"readings": file}}
    (tmp_path / "state.json").write_text(json.dumps(state))
    with pytest.raises(FileError, match="state"):
        Workspace(tmp_path)


def test_links_are_not_followed(week, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text(windows(days=1))
    folder = tmp_path / "studio"
    for name in ("labels.csv", "report.html", "corrections.csv"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(secret)
        assert week.get(f"download/{name}").status_code == 404
    assert week.get("report").status_code == 404
    week.close()
    (folder / "readings.csv").unlink()
    (folder / "readings.csv").symlink_to(secret)
    again = Page(folder)
    assert not again.state["understanding"]["ok"]
    assert again.state["understanding"]["field"] == "readings"
    again.close()


def test_settings_cannot_name_files(page, tmp_path):
    (tmp_path / "labels.csv").write_text("row,label\n0,tv\n")
    page.give("readings", windows())
    page.give("diary", DIARY)
    for name in ("readings", "diary", "proportions"):
        page.ask("PUT", "api/settings", 422, json={name: str(tmp_path / "labels.csv")})
    for name in (str(tmp_path / "labels.csv"), "../labels.csv", "diary.csv"):
        assert page.ask("PUT", "api/settings", 422, json={"given": [name]})["field"] == "given"


# What is answered


def test_what_was_understood(page):
    assert page.state["understanding"] is None
    page.give("readings", windows(("ann", "bob")), "windows.csv")
    assert "diary" in page.state["understanding"]["problem"]
    assert [one["name"] for one in page.state["understanding"]["columns"]][:2] == [
        *("participant", "start")
    ]
    diary = DIARY.replace("p1", "ann") + "bob,2024-03-04,8h,16h\nbob,2030-01-01,8h,16h\n"
    page.give("diary", diary, "diary.csv")
    found = page.state["understanding"]
    assert (found["ok"], found["problem"], found["rows"], found["bags"]) == (True, None, 96, 3)
    roles = {one["name"]: one["role"] for one in found["columns"]}
    assert roles == {
        "participant": "participant",
        **{"start": "start", "end": "end", "a": "feature", "b": "feature"},
    }
    assert found["participants"] == [
        {"name": "ann", "windows": 48, "days": 2},
        {"name": "bob", "windows": 48, "days": 2},
    ]
    entries = {one["name"]: one for one in found["entries"]}
    assert entries["ann 2024-03-04"]["totals"] == {"sleep": "8 h", "tv": "16 h"}
    assert entries["ann 2024-03-04"]["problem"] == ""
    late = entries["bob 2030-01-01"]
    assert "no window" in late["problem"]
    assert "date" in late["fix"]
    assert [one["name"] for one in found["classes"]] == ["sleep", "tv"]
    assert any("“Graphs”" in rule for rule in found["rules"])


def test_a_setting_changes_what_is_understood(page):
    page.give("readings", windows())
    page.give("diary", DIARY)
    page.ask("PUT", "api/settings", json={"exclude": ["b"], "timezone": "Europe/London"})
    roles = {one["name"]: one["role"] for one in page.state["understanding"]["columns"]}
    assert roles["b"] == "unused"
    assert page.state["settings"] == {"exclude": ["b"], "timezone": "Europe/London"}
    assert any("Europe/London" in rule for rule in page.state["understanding"]["rules"])
    page.ask("PUT", "api/settings", json={"exclude": None, "timezone": None})
    assert page.state["settings"] == {}
    assert page.ask("PUT", "api/settings", 422, json={"unit": "miles"})["field"] == "unit"
    assert page.ask("PUT", "api/settings", 422, json={"nothing": 1})["problem"]


def test_a_file_that_does_not_fit_is_told_and_can_be_replaced(page):
    page.give("readings", windows())
    page.give("diary", "participant,date,sleep\np1,2024-03-04,30h\n")
    found = page.state["understanding"]
    assert (found["ok"], found["field"]) == (False, "diary")
    assert "30 h" in found["problem"]
    assert "“Excess”" in found["problem"]
    assert found["columns"]
    assert page.ask("POST", "api/run", 422, json={})["field"] == "diary"
    page.give("diary", DIARY)
    assert page.state["understanding"]["ok"]


def test_too_many_rows_are_refused(page, monkeypatch):
    monkeypatch.setattr("apportion.studio._understanding.MOST_ROWS", 40)
    page.give("readings", windows())
    page.give("diary", DIARY)
    assert "48 rows" in page.state["understanding"]["problem"]
    assert page.state["understanding"]["field"] == "readings"


def test_options_are_those_of_the_command(page):
    options = {one["name"]: one for one in page.state["options"]}
    assert options["uncovered"]["choices"] == ["unknown", "drop", "scale"]
    assert options["start"]["kind"] == "column"
    assert options["exclude"]["kind"] == "columns"
    assert options["scale"]["kind"] == "flag"
    assert options["seed"]["kind"] == "number"
    assert "lpllp" in options["method"]["choices"]
    assert not {"readings", "diary", "proportions"} & set(options)


def test_the_whole_way(week, tmp_path, monkeypatch):
    run = week.state["run"]
    assert (run["kind"], run["corrections"], run["changed"]) == ("full", 0, None)
    assert run["in_memory"]
    assert run["files"] == ["labels.csv", "episodes.csv", "report.html", "settings.json"]
    labels = cells_of(week.get("download/labels.csv").text)
    days = week.get("api/days?participant=p1").json()
    assert [day["name"] for day in days["days"]] == ["Mon 2024-03-04", "Tue 2024-03-05"]
    segments, names = days["segments"], [c["name"] for c in week.state["understanding"]["classes"]]
    shown = np.empty(len(labels), dtype=object)
    for first, last, code in zip(
        segments["row_first"], segments["row_last"], segments["label"], strict=True
    ):
        shown[first : last + 1] = names[code]
    assert shown.tolist() == [line["label"] for line in labels]
    assert days["before"] is None
    assert not any(segments["given"])
    assert segments["end"][-1] == 86400
    report = week.get("report")
    assert "sandbox" in report.headers["content-security-policy"]
    assert "allow-same-origin" not in report.headers["content-security-policy"]
    assert b"<html" in report.content
    people = week.get("api/participants").json()
    assert people[0]["name"] == "p1"
    assert people[0]["windows"] == 48
    assert people[0]["state"] in ("labeled", "needs a look")


def test_the_command_finds_the_same_bytes(week, tmp_path, monkeypatch):
    week.ask("PUT", "api/settings", json={"exclude": ["b"], "all_columns": True})
    assert week.state["run"]["files"] == []
    week.run()
    monkeypatch.chdir(tmp_path / "studio")
    done("label", "--settings", "settings.json", "-o", "again.csv", "--quiet")
    assert Path("again.csv").read_bytes() == week.get("download/labels.csv").content


def test_a_tab_with_an_older_state_is_told(week):
    other = Page.__new__(Page)
    other.studio, other.client, other.tab, other.state = week.studio, week.client, "two", week.state
    assert other.get("api/state").json()["other_tabs"] == 1
    week.ask("PUT", "api/settings", json={"seed": 3})
    assert "another tab" in other.ask("PUT", "api/settings", 409, json={"seed": 4})["problem"]
    assert other.give("diary", DIARY, status=409)
    assert week.get("api/state").json()["settings"] == {"seed": 3}


def test_downloads_wait_for_a_run_in_full(week):
    week.ask("PUT", "api/settings", json={"seed": 3})
    assert week.state["run"]["files"] == []
    assert week.get("download/labels.csv").status_code == 404
    assert week.get("download/settings.json").status_code == 200
    week.ask("PUT", "api/settings", json={"seed": None})
    assert "labels.csv" in week.state["run"]["files"]


def test_a_restart_loses_nothing(week, tmp_path):
    before = week.state
    labels = week.get("download/labels.csv").content
    week.close()
    again = Page(tmp_path / "studio")
    assert again.state["run"] == {**before["run"], "in_memory": False}
    assert again.state["files"] == before["files"]
    assert again.get("download/labels.csv").content == labels
    assert again.get("api/days?participant=p1").status_code == 404
    assert "in full" in again.ask("POST", "api/relabel", 422, json={})["problem"]
    again.run()
    assert again.get("download/labels.csv").content == labels
    again.close()


def test_cancel_answers_at_once_and_keeps_what_was(week, monkeypatch):
    before, go_on = week.state["run"], threading.Event()
    found = studio_module.page_bytes

    def slow(*args, **kwargs):
        assert go_on.wait(20)
        return found(*args, **kwargs)

    monkeypatch.setattr(studio_module, "page_bytes", slow)
    week.ask("POST", "api/run", json={})
    assert week.state["job"]["state"] == "running"
    assert "wait" in week.ask("PUT", "api/settings", 423, json={"seed": 1})["problem"].lower()
    week.ask("POST", "api/run", 423, json={})
    week.ask("POST", "api/cancel", json={})
    assert week.state["job"]["state"] == "cancelled"
    week.ask("POST", "api/run", json={})  # which waits for the thread of the first
    assert week.state["job"]["state"] == "running"
    go_on.set()
    state = week.wait()
    assert state["job"]["state"] == "done"
    assert state["run"]["id"] == state["job"]["id"] != before["id"]


def test_a_job_ends_when_it_is_cancelled_and_says_why_it_failed():
    begun, go_on = threading.Event(), threading.Event()

    def endless(job):
        begun.set()
        go_on.wait(5)
        job.report("counting", 0.5)
        pytest.fail("it should have ended")

    job = Job(1, "full", endless, str)
    job.start()
    begun.wait(5)
    job.cancel()
    go_on.set()
    job.wait(5)
    assert job.state == "cancelled"

    def broken(job):
        job.report("counting", 0.25)
        raise ValueError("no good")

    job = Job(2, "full", broken, str)
    job.start()
    job.wait(5)
    found = job.to_json()
    assert (found["state"], found["problem"], found["left"]) == ("failed", "no good", None)
