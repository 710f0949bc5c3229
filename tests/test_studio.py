"""The studio's server: who may ask, what is kept, what is answered."""

from __future__ import annotations

import copy
import html
import json
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest

from apportion.exceptions import FileError
from apportion.studio import _studio as studio_module
from apportion.studio._jobs import Job
from apportion.studio._security import Guard
from apportion.studio._workspace import Workspace, ending_for, shown_name
from command_line import cells_of, day_files, done, refused, windows
from studio_tab import DIARY, OWN, PORT, TOKEN, Page


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


def test_only_the_own_page_is_answered(page):
    for path, headers, status in (
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
    ):
        answer = page.client.get(path, headers=headers)
        assert answer.status_code == status, (path, headers)
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


def test_time_that_is_not_covered_is_offered_where_there_is_some(page):
    full = "participant,date,sleep,tv,knitting,unknown\np1,2024-03-04,8h,16h,0,0\n"
    page.give("readings", windows())

    def offered():
        return [one["name"] for one in page.state["understanding"]["classes"]]

    page.give("diary", full)
    assert offered() == ["sleep", "tv", "knitting"]
    page.run()
    page.give("given", "row,label\n3,unknown\n")
    assert offered() == ["knitting", "sleep", "tv", "unknown"]
    page.run()
    assert cells_of(page.get("download/labels.csv").text)[3]["label"] == "unknown"
    page.give("given", "row,label\n3,knitting\n")
    assert offered() == ["knitting", "sleep", "tv"]
    page.run()
    assert page.get("api/questions").status_code == 200
    page.ask("DELETE", "api/files/given")
    page.give("diary", full.replace("16h,0,0", "14h,0,2h"))
    assert offered() == ["sleep", "tv", "unknown", "knitting"]
    page.give("diary", DIARY.replace("16h", "14h"))
    assert offered() == ["sleep", "tv", "unknown"]


def test_an_entry_needs_a_look_if_more_than_a_few_windows_are_missing(page):
    header, *lines = windows().splitlines()
    page.give("readings", "\n".join([header, *lines[:23], *lines[24:46]]) + "\n")  # 23 h, 22 h
    page.give("diary", DIARY)
    problems = {one["name"]: one["problem"] for one in page.state["understanding"]["entries"]}
    assert problems == {"2024-03-04": "", "2024-03-05": "it was recorded in part"}


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
    shown = [names[code] for code in labels_by_row(segments)]
    assert shown == [line["label"] for line in labels]
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


def test_a_participant_needs_a_look(page):
    page.give("readings", windows(("ann", "bob", "cleo")))
    lines = "".join(f"{name},2024-03-04,8h,16h\n" for name in ("ann", "bob"))
    page.give("diary", f"participant,date,sleep,tv\n{lines}bob,2031-01-01,8h,16h\n")
    assert {one["state"] for one in page.get("api/participants").json()} == {"not labeled"}
    page.ask("PUT", "api/settings", json={"graphs": "each"})
    page.run()
    ann, bob, cleo = page.get("api/participants").json()
    assert (ann["state"], ann["why"]) == ("labeled", "")
    assert (bob["state"], bob["why"]) == ("needs a look", "entries that do not fit: 1")
    assert (cleo["state"], cleo["windows"]) == ("not labeled", 48)
    assert "No entry" in cleo["why"]


def test_the_command_finds_the_same_bytes(week, tmp_path, monkeypatch):
    week.ask("PUT", "api/settings", json={"exclude": ["b"], "all_columns": True})
    assert week.state["run"]["files"] == []
    week.run()
    monkeypatch.chdir(tmp_path / "studio")
    done("label", "--settings", "settings.json", "-o", "again.csv", "--quiet")
    assert Path("again.csv").read_bytes() == week.get("download/labels.csv").content


def other_tab(page):
    other = copy.copy(page)
    other.tab = "two"
    return other


def test_a_tab_that_is_closed_while_it_waits_for_an_answer_is_gone(week, monkeypatch):
    begun, closed, read = threading.Event(), threading.Event(), week.studio._inputs.understood

    def reading():
        begun.set()
        assert closed.wait(10)
        return read()

    with monkeypatch.context() as slow:
        slow.setattr(week.studio._inputs, "understood", reading)
        asking = threading.Thread(target=week.get, args=["api/state"])
        asking.start()
        assert begun.wait(10)
        week.client.post(f"/{TOKEN}/api/leave", headers={"X-Tab": week.tab}).raise_for_status()
        closed.set()
        asking.join(10)
    other = other_tab(week)
    assert other.get("api/state").json()["other_tabs"] == 0
    week.get("api/state")  # sent before it was closed, on another connection
    assert other.get("api/state").json()["other_tabs"] == 0
    monkeypatch.setattr(studio_module, "_LATE_SECONDS", 0)
    week.get("api/state")  # the tab was only loaded again
    assert other.get("api/state").json()["other_tabs"] == 1


def test_a_tab_with_an_older_state_is_told(week):
    other = other_tab(week)
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
    begun, go_on, went_on = threading.Event(), threading.Event(), threading.Event()

    def endless(job):
        begun.set()
        go_on.wait(30)
        job.report("counting", 0.5)
        went_on.set()

    job = Job(1, "full", endless, str)
    job.start()
    begun.wait(30)
    job.cancel()
    go_on.set()
    job.wait(30)
    assert job.state == "cancelled"
    assert not went_on.is_set()

    def broken(job):
        job.report("counting", 0.25)
        raise ValueError("no good")

    job = Job(2, "full", broken, str)
    job.start()
    job.wait(30)
    found = job.to_json()
    assert (found["state"], found["problem"], found["left"]) == ("failed", "no good", None)


# Corrections


def correct(page, start, end, label, status=200, **more):
    request = {"participant": "p1", "day": "Mon 2024-03-04", "start": start, "end": end}
    return page.ask("POST", "api/corrections", status, json={**request, "label": label, **more})


def labels_by_row(segments):
    """Return the label of each row, as a position; a participant's windows are in order."""
    spans = zip(segments["row_first"], segments["row_last"], segments["label"], strict=True)
    return [label for first, last, label in spans for _ in range(first, last + 1)]


def test_a_correction_becomes_a_given_label(week, tmp_path, monkeypatch):
    correct(week, 3 * 3600, 5 * 3600, "tv")
    record = week.state["corrections"][0]
    assert {name: record[name] for name in ("participant", "day", "start", "end", "words")} == {
        "participant": "p1",
        "day": "2024-03-04",
        "start": 10800,
        "end": 18000,
        "words": "2024-03-04 03:00 to 05:00",
    }
    assert (record["label"], record["rows"], record["was"]) == ("tv", 2, "sleep")
    lines = cells_of(week.get("download/corrections.csv").text)
    assert [(line["row"], line["label"], line["given"]) for line in lines] == [
        *(("3", "tv", "yes"), ("4", "tv", "yes"))
    ]
    assert lines[0]["when"] == "2024-03-04T03:00:00"
    assert week.state["run"]["open"]
    assert week.state["run"]["files"] == []
    given = week.get("api/days?participant=p1").json()["segments"]["given"]
    assert sum(given) == 1
    week.run()
    assert week.state["run"]["corrections"] == 1
    assert not week.state["run"]["open"]
    labels = cells_of(week.get("download/labels.csv").text)
    assert [line["label"] for line in labels[3:5]] == ["tv", "tv"]
    assert "given" in labels[3]["reason"]
    monkeypatch.chdir(tmp_path / "studio")
    done("label", "--settings", "settings.json", "-o", "again.csv", "--quiet")
    assert Path("again.csv").read_bytes() == week.get("download/labels.csv").content


def test_corrections_win_over_totals(week):
    correct(week, 0, 20 * 3600, "sleep")  # the diary says 8 h
    week.run()
    assert any("2024-03-04" in note for note in week.state["run"]["notes"])
    labels = cells_of(week.get("download/labels.csv").text)
    assert {line["label"] for line in labels[:20]} == {"sleep"}
    assert json.loads(week.get("download/settings.json").text)["conflict"] == "given"


def test_not_this_one(week, tmp_path, monkeypatch):
    correct(week, 3 * 3600, 5 * 3600, "sleep", exclude=True)
    lines = cells_of(week.get("download/corrections.csv").text)
    assert [(line["row"], line["label"], line["given"]) for line in lines] == [
        *(("3", "sleep", "not"), ("4", "sleep", "not"))
    ]
    week.run()
    labels = cells_of(week.get("download/labels.csv").text)
    assert [line["label"] for line in labels[3:5]] == ["tv", "tv"]
    assert [float(line["mass_sleep"]) for line in labels[3:5]] == [0, 0]
    monkeypatch.chdir(tmp_path / "studio")
    done("label", "--settings", "settings.json", "-o", "again.csv", "--quiet")
    assert Path("again.csv").read_bytes() == week.get("download/labels.csv").content
    answer = correct(week, 4 * 3600, 5 * 3600, "tv", status=422, exclude=True)
    assert "no class" in answer["problem"]
    correct(week, 4 * 3600, 5 * 3600, "sleep")  # wins over "not sleep"
    lines = cells_of(week.get("download/corrections.csv").text)
    assert [line["given"] for line in lines] == ["not", "yes"]
    correct(week, 4 * 3600, 5 * 3600, "sleep", exclude=True)  # and is taken back
    lines = cells_of(week.get("download/corrections.csv").text)
    assert [line["given"] for line in lines] == ["not", "not"]


def test_a_quick_answer_shows_what_changed(week, monkeypatch):
    def quick(labeled, task, features):
        """Give corrected rows their labels, and the row after them too."""
        labels = labeled.labels.labels.copy()
        rows = np.flatnonzero([label is not None for label in task.supervision.given])
        labels[rows] = task.supervision.given[rows]
        labels[rows.max() + 1] = labels[rows.max()]
        found = replace(labeled.labels, labels=labels)
        return replace(labeled, labels=found, summary={**labeled.summary, "quick": True})

    monkeypatch.setattr(studio_module, "relabel", quick)
    verdict = week.state["run"]["verdict"]
    assert verdict["sentence"] in html.unescape(week.get("report").text)
    full = week.get("api/days?participant=p1").json()["segments"]
    correct(week, 3 * 3600, 5 * 3600, "tv")
    week.run("relabel")
    run = week.state["run"]
    assert (run["kind"], run["corrections"], run["open"]) == ("quick", 1, False)
    assert run["changed"] == {"rows": 3, "corrected": 2, "beside": 1}
    assert run["estimated_accuracy"] is None
    days = week.get("api/days?participant=p1").json()
    assert days["before"] == full
    assert days["segments"]["label"] != full["label"]
    assert run["files"] == []  # until labels are found in full
    assert week.get("download/labels.csv").status_code == 404
    correct(week, 10 * 3600, 11 * 3600, "sleep")
    assert week.state["run"]["open"]
    week.run("relabel")
    before = week.get("api/days?participant=p1").json()["before"]
    assert labels_by_row(before) == labels_by_row(days["segments"])  # those of the quick answer
    assert labels_by_row(before) != labels_by_row(full)
    week.run()
    assert week.state["run"]["kind"] == "full"
    assert "labels.csv" in week.state["run"]["files"]
    assert week.get("api/days?participant=p1").json()["before"] is None


def test_undo_takes_a_correction_back(week):
    files = week.state["run"]["files"]
    correct(week, 3 * 3600, 5 * 3600, "tv")
    correct(week, 4 * 3600, 6 * 3600, "sleep")
    lines = cells_of(week.get("download/corrections.csv").text)
    assert [line["label"] for line in lines] == ["tv", "sleep", "sleep"]  # the later one wins
    first, second = (one["id"] for one in week.state["corrections"])
    week.ask("DELETE", f"api/corrections/{second}")
    lines = cells_of(week.get("download/corrections.csv").text)
    assert [line["label"] for line in lines] == ["tv", "tv"]
    week.ask("DELETE", f"api/corrections/{first}")
    assert week.get("download/corrections.csv").status_code == 404
    assert week.state["run"]["files"] == files  # all is as it was
    week.ask("DELETE", f"api/corrections/{first}", 404)


def test_corrections_that_make_no_sense_are_refused(week):
    for change, field in (
        ({"label": "chess"}, "label"),
        ({"label": 7}, "label"),
        ({"day": "2031-01-01"}, "day"),
        ({"participant": "zoe"}, "participant"),
        ({"start": "3"}, "start"),
        ({"start": 1e300}, "start"),
        ({"end": 0}, "end"),
        ({"exclude": "no"}, "exclude"),
        ({"rows": [48]}, "rows"),
        ({"rows": []}, "rows"),
        ({"rows": "all"}, "rows"),
    ):
        request = {"start": 0, "end": 3600, "label": "tv", **change}
        answer = correct(week, request.pop("start"), request.pop("end"), status=422, **request)
        assert answer["field"] == field
    assert week.get("api/state").json()["corrections"] == []


def test_corrections_against_labels_that_were_given_are_refused(week):
    week.give("given", "row,label\n3,sleep\n")
    week.run()
    assert correct(week, 3 * 3600, 4 * 3600, "tv", status=422)["field"] == "given"
    correct(week, 3 * 3600, 4 * 3600, "sleep")
    week.give("given", "row,label,given\n3,tv,not\n")
    assert correct(week, 3 * 3600, 4 * 3600, "tv", status=422)["field"] == "given"
    assert week.get("api/days?participant=p1").json()["segments"]["given"].count(True) == 1


def test_corrections_outlive_a_restart_and_other_readings(week, tmp_path):
    correct(week, 3 * 3600, 5 * 3600, "tv")
    week.close()
    again = Page(tmp_path / "studio")
    assert [one["rows"] for one in again.state["corrections"]] == [2]
    more = windows(days=3).splitlines(keepends=True)
    again.give("readings", "".join([more[0], *more[3:]]))  # without the first two windows
    assert again.state["run"] is None
    assert [one["rows"] for one in again.state["corrections"]] == [2]
    lines = cells_of(again.get("download/corrections.csv").text)
    assert [line["row"] for line in lines] == ["1", "2"]
    again.give("readings", windows(("zoe",)))
    assert not again.state["understanding"]["ok"]
    again.give("diary", DIARY.replace("p1", "zoe"))
    assert [one["rows"] for one in again.state["corrections"]] == [0]
    assert again.get("download/corrections.csv").status_code == 404
    again.close()


def test_hostile_names_stay_text(page, tmp_path, monkeypatch):
    name = "=cmd|'<script>alert(1)</script>"
    page.give("readings", windows((name,)).replace("a,b", "<i>a,b"), "<img src=x>.csv")
    page.give("diary", DIARY.replace("p1", f'"{name}"').replace("tv", "=tv"))
    page.run()
    assert page.state["understanding"]["participants"][0]["name"] == name
    request = {"participant": name, "day": "2024-03-04", "start": 0, "end": 3600}
    page.ask("POST", "api/corrections", json={**request, "label": "=tv"})
    lines = cells_of(page.get("download/corrections.csv").text)
    assert lines[0]["whose"] == f"'{name}"
    assert lines[0]["label"] == "'=tv"
    page.run()
    labels = cells_of(page.get("download/labels.csv").text)
    assert labels[0]["label"] == "'=tv"
    assert page.get("api/state").headers["content-type"] == "application/json"


# Tables without times


@pytest.fixture
def table_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    day_files()
    page.give("readings", Path("rows.csv").read_bytes(), "rows.csv")
    page.give("proportions", Path("totals.csv").read_bytes(), "totals.csv")
    assert page.state["understanding"]["field"] == "bags"
    page.ask("PUT", "api/settings", json={"bags": "day"})
    assert page.state["understanding"]["ok"], page.state["understanding"]["problem"]
    page.run()
    return page


def test_a_table_without_times(table_page):
    page = table_page
    found = page.state["understanding"]
    assert {one["name"]: one["role"] for one in found["columns"]} == {
        **{"id": "id", "day": "bag", "x": "feature", "y": "feature"}
    }
    assert found["bag_word"] == "bag"
    assert found["participants"] == []
    assert found["entries"][0]["totals"] == {"sleep": "4 rows", "tv": "2 rows"}
    assert page.state["run"]["files"] == ["labels.csv", "report.html", "settings.json"]
    assert page.get("api/days?participant=").json()["field"] == "start"
    everything = page.get("api/rows").json()
    assert (len(everything["rows"]), everything["total"]) == (18, 18)
    some = page.get("api/rows?bag=tue&offset=2").json()
    assert [one["id"] for one in some["rows"]] == ["tue2", "tue3", "tue4", "tue5"]
    assert some["total"] == 6
    labels = cells_of(page.get("download/labels.csv").text)
    names = [one["name"] for one in found["classes"]]
    assert [names[one["label"]] for one in everything["rows"]] == [one["label"] for one in labels]
    assert page.get("api/rows?offset=-1").status_code == 400


def test_rows_are_corrected_by_their_ids(table_page):
    page = table_page
    row = page.get("api/rows?bag=tue").json()["rows"][0]
    other = 1 - row["label"]
    page.ask("POST", "api/corrections", json={"rows": [row["row"]], "label": other})
    record = page.state["corrections"][0]
    assert (record["words"], record["start"], record["rows"]) == (f"row {row['id']}", None, 1)
    assert cells_of(page.get("download/corrections.csv").text)[0]["id"] == row["id"]
    page.run()
    assert page.get("api/rows?bag=tue").json()["rows"][0]["label"] == other


# Questions


def test_questions_are_answered_skipped_and_not_known(week):
    found = week.get("api/questions").json()
    assert 1 < len(found["questions"]) <= 10
    rows = set()
    for question in found["questions"]:
        first, last = question["rows"]
        assert not rows & set(range(first, last + 1))  # nothing is asked twice
        rows |= set(range(first, last + 1))
        assert question["end"] - question["start"] <= 2 * 3600
        assert len(question["likely"]) == 2
        signal = question["signal"]
        assert {len(one["values"]) for one in signal["series"]} == {len(signal["times"])}
        assert signal["from"] == question["start"]
    assert {bag["bag"] for bag in found["bags"]} <= {"2024-03-04", "2024-03-05"}
    first, second, *_ = found["questions"]
    week.ask("POST", f"api/questions/{first['id']}", json={"action": "answer", "label": 1})
    assert week.state["corrections"][0]["words"] == first["words"]
    assert week.state["corrections"][0]["label"] == "tv"
    week.ask("POST", f"api/questions/{second['id']}", json={"action": "skip"})
    assert week.state["asked"] == {"answered": 1, "skipped": 1, "unknown": 0}
    asked = {one["id"] for one in week.get("api/questions").json()["questions"]}
    assert not {first["id"], second["id"]} & asked
    third = sorted(asked)[0]
    week.ask("POST", f"api/questions/{third}", json={"action": "unknown"})
    assert third not in {one["id"] for one in week.get("api/questions").json()["questions"]}
    week.ask("POST", "api/questions/r9999", 404, json={"action": "skip"})
    week.ask("POST", f"api/questions/{sorted(asked)[1]}", 400, json={"action": "sing"})
    people = week.get("api/participants").json()
    assert people[0]["corrections"] == 1


def test_questions_about_a_table_without_times(table_page):
    questions = table_page.get("api/questions").json()["questions"]
    if questions:  # rows may all be certain
        assert questions[0]["words"].startswith("row ")
        assert questions[0]["signal"] is None
        assert [one["name"] for one in questions[0]["cells"]] == ["x", "y"]


# The command


@pytest.mark.slow
def test_ctrl_c_stops_the_command_while_it_runs(tmp_path):
    (tmp_path / "windows.csv").write_text(windows(days=30))
    lines = [f"p1,2024-03-{day:02},8h,16h" for day in range(4, 32)]
    (tmp_path / "diary.csv").write_text("\n".join(["participant,date,sleep,tv", *lines]) + "\n")
    words = ["studio", "work", "--no-browser", "--readings", "windows.csv", "--diary", "diary.csv"]
    process = subprocess.Popen(
        [sys.executable, "-m", "apportion", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{40,}/", address)
        state = httpx.get(f"{address}api/state", timeout=30).json()
        assert state["understanding"]["ok"], state["understanding"]["problem"]
        assert httpx.get(address.rsplit("/", 2)[0]).status_code == 404
        headers = {"X-Revision": str(state["revision"])}
        answer = httpx.post(f"{address}api/run", json={}, headers=headers, timeout=30)
        assert answer.json()["job"]["state"] == "running"
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=15)[1]
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert "no file is left half written" in said
    assert "Traceback" not in said
    names = {path.name for path in (tmp_path / "work").iterdir()}
    assert {"state.json", "readings.csv", "diary.csv"} <= names
    assert not [name for name in names if name.endswith(".tmp")]
    Workspace(tmp_path / "work").close()  # it can be opened again


def test_the_command_refuses_a_folder_of_other_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    day_files()
    assert "other files" in refused("studio", ".")
    assert "no such file" in refused("studio", "new", "--readings", "nothing.csv")
