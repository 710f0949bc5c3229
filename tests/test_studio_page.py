"""The page of the studio in a real browser: from two files to labels that are saved."""

from __future__ import annotations

import csv
import io
import threading
import time
from contextlib import contextmanager
from itertools import groupby

import pytest
import uvicorn

from apportion._utils.progress import report_progress
from apportion.datasets import make_smart_home
from apportion.labeling.settings import LabelSettings
from apportion.studio import _studio as studio_module
from apportion.studio._security import new_token
from apportion.studio._server import _listening, application
from apportion.studio._studio import Studio
from apportion.studio._workspace import Workspace
from browser import Opened, texts, until

pytestmark = pytest.mark.slow

WRONG = "[aria-invalid]"
PROBLEMS = "#wrong-timezone, #understood-problem"
READY = "document.documentElement.dataset.ready"


class Server:
    """A studio that serves its page from this process."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.studio = Studio(Workspace(folder))
        listener = _listening(0)
        port, token = listener.getsockname()[1], new_token()
        self.address = f"http://127.0.0.1:{port}/{token}/"
        app = application(self.studio, token, port)
        config = uvicorn.Config(app, log_level="warning", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        self.studio.close()


@contextmanager
def served(folder):
    server = Server(folder)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def tab(browser, server, *, width=1280, height=900, refusals=0, **options):
    """Open the page, and check at the end that nothing went wrong and no request went elsewhere.

    A browser writes a line to the console for every answer that refuses something.
    """
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    try:
        found = Opened(context.new_page(), server.address)
        yield found.page
        assert len([text for text in found.complaints if "status of 4" in text]) == refusals
        assert [text for text in found.complaints if "status of 4" not in text] == []
        assert found.foreign == []
        assert [url for url in found.requests if "/static/" in url]
    finally:
        context.close()


@pytest.fixture(scope="session")
def week(tmp_path_factory):
    """Three days of two people in windows of half an hour."""
    home = make_smart_home(days=3, participants=2, minutes=30)
    return home.write(tmp_path_factory.mktemp("week"))


@pytest.fixture(scope="session")
def server(tmp_path_factory, week):
    """A studio with labels, which tests may correct if they undo it."""
    with served(tmp_path_factory.mktemp("studio") / "study") as server:
        server.studio.copy_file("readings", week.windows)
        server.studio.copy_file("diary", week.diary)
        server.studio.set_settings({"method": "lpllp"}, revision_of(server))
        run(server)
        yield server


def revision_of(server):
    return str(server.studio.state()["revision"])


def run(server, kind="full"):
    server.studio.run(kind, revision_of(server))
    end = time.monotonic() + 60
    while (job := server.studio.state()["job"])["state"] == "running":
        assert time.monotonic() < end, job
        time.sleep(0.02)
    assert job["state"] == "done", job


@pytest.fixture
def corrected(server):
    """The studio, whose corrections and settings are undone at the end."""
    yield server
    changed = dict.fromkeys(server.studio.state()["settings"])
    server.studio.set_settings({**changed, "method": "lpllp"}, revision_of(server))
    for one in server.studio.state()["corrections"]:
        server.studio.undo(one["id"], revision_of(server))
    if server.studio.state()["run"]["kind"] == "quick":
        run(server)


def text_of(page, selector):
    return texts(page, selector)[0]


def wait_for(page, selector, words):
    """Wait until an element says something."""
    until(page, f"document.querySelector({selector!r})?.textContent.includes({words!r})")


def find_labels(page):
    """Find the first labels of a folder, and wait for their report, too."""
    page.click("#run")
    until(page, "state.job?.state === 'done'")


def wait_for_lanes(page):
    until(page, "document.querySelectorAll('.bar').length > 0")


def bars_of(page, name):
    """Return the bars of a participant, as the page has them."""
    page.click(f'[data-person="{name}"]')
    wait_for(page, "#lanes-title", f"Days of {name}")
    page.evaluate(f"fetchDays({name!r})")  # if they were shown already, these come later
    return page.evaluate(
        "days.bars.map(({ lane, start, end, label }) => [lane, start, end, className(label)])"
    )


def seconds(time):
    hours, minutes, *rest = time[11:].split(":")
    return 3600 * int(hours) + 60 * int(minutes) + sum(map(int, rest))


def segments_in(labels, name):
    """Return the runs of windows with one label in a file of labels: day, start, end, label."""
    lines = [line for line in csv.DictReader(io.StringIO(labels)) if line["participant"] == name]
    days = sorted({line["start"][:10] for line in lines})
    found = []
    for (day, label), part in groupby(lines, lambda line: (line["start"][:10], line["label"])):
        part = list(part)
        end = seconds(part[-1]["end"]) or 86400
        found.append([days.index(day), seconds(part[0]["start"]), end, label or "no label"])
    return found


# The whole way


def test_from_two_files_to_labels_that_are_saved(browser, tmp_path, week):
    with served(tmp_path / "study") as server, tab(browser, server) as page:
        assert "choose a table of windows" in text_of(page, "#next")
        page.set_input_files("#file-readings", week.windows)
        wait_for(page, "#next", "choose a diary")
        assert page.locator("#run").is_disabled()
        page.set_input_files("#file-diary", week.diary)
        wait_for(page, "#next", "find labels")
        assert "288 rows, 2 participants, 5 entries." in text_of(page, "#understood-summary")
        roles = dict(zip(texts(page, "#columns tbody th"), roles_of(page), strict=True))
        assert roles["participant"] == "participant"
        assert (roles["start"], roles["acc_mean"]) == ("start", "feature")
        page.select_option("#setting-method", "lpllp")
        until(page, "state.settings.method === 'lpllp'")
        find_labels(page)
        wait_for_lanes(page)
        assert "Labels were found" in text_of(page, "#run-result")
        with page.expect_download() as download:
            page.click("#downloads a[download='labels.csv']")
        labels = download.value.path().read_text(encoding="utf-8")
        assert labels == (server.folder / "labels.csv").read_text(encoding="utf-8")
        for name in ("p1", "p2"):
            assert bars_of(page, name) == segments_in(labels, name)
        assert texts(page, "#downloads a") == [
            "labels.csv", "episodes.csv", "report.html", "settings.json",
        ]  # fmt: skip
        page.click("#report-box summary")
        frame = page.frame_locator("#report-box iframe")
        frame.locator("html[data-ready]").wait_for(state="attached")
        assert "288 rows have a label" in frame.locator("#verdict").text_content()


def test_the_file_that_the_browser_is_started_with_leads_to_the_page(browser, corrected):
    opener = corrected.studio._workspace.write_opener(corrected.address)
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(opener.as_uri())
        page.wait_for_url(corrected.address)
        until(page, READY)
        page.reload()
        until(page, READY)
        assert text_of(page, "#folder") == corrected.folder.name
    finally:
        context.close()
        opener.unlink()


def test_labels_from_before_a_correction_are_saved_as_such(browser, tmp_path, week):
    with served(tmp_path / "study") as server, tab(browser, server) as page:
        page.set_input_files("#file-readings", week.windows)
        page.set_input_files("#file-diary", week.diary)
        wait_for(page, "#next", "find labels")
        page.select_option("#setting-method", "lpllp")
        until(page, "state.settings.method === 'lpllp'")
        find_labels(page)
        wait_for_lanes(page)
        page.locator('[data-bar="0"]').click()
        page.click("#panel .labels:not(.not) button >> nth=0")
        until(page, "state.corrections.length === 1")
        assert texts(page, "#downloads a") == [
            *("settings.json", "corrections.csv", "labels-before-changes.csv"),
            *("episodes-before-changes.csv", "report-before-changes.html"),
        ]
        assert "does not know what has changed since" in text_of(page, "#downloads")
        with page.expect_download() as download:
            page.click("#downloads a[download='labels-before-changes.csv']")
        assert download.value.suggested_filename == "labels-before-changes.csv"
        labels = download.value.path().read_text(encoding="utf-8")
        assert labels == (server.folder / "labels.csv").read_text(encoding="utf-8")


def test_a_report_that_fails_is_told_beside_the_labels(browser, corrected, monkeypatch):
    def fails(contents):
        raise ValueError("No map can be drawn.")

    with tab(browser, corrected) as page:
        wait_for_lanes(page)
        page.click("#report-box summary")
        page.wait_for_selector("#report-box iframe")
        with monkeypatch.context() as patch:
            patch.setattr(studio_module, "page_bytes", fails)
            page.click("#run")
            wait_for(page, "#run-doubt", "no report, because it failed. No map can be drawn.")
        wait_for(page, "#report-note", "No map can be drawn.")
        assert page.locator("#report-box iframe").count() == 0
        assert "labels.csv" in texts(page, "#downloads a")
        assert "report.html" not in texts(page, "#downloads a")
        page.click("#run")
        page.wait_for_selector("#report-box iframe")
        assert "no report" not in text_of(page, "#run-doubt") + text_of(page, "#report-note")


def roles_of(page):
    return page.eval_on_selector_all("#columns select", "all => all.map((one) => one.value)")


def test_a_role_and_a_setting_can_be_changed_and_what_is_wrong_is_beside_it(browser, corrected):
    with tab(browser, corrected) as page:
        light = texts(page, "#columns tbody th").index("light")
        page.select_option(f"#role-{light}", "unused")
        until(page, "state.settings.exclude?.includes('light')")
        assert roles_of(page)[light] == "unused"
        page.select_option(f"#role-{light}", "feature")
        until(page, "!('exclude' in state.settings)")
        page.fill("#setting-timezone", "Atlantis")
        page.press("#setting-timezone", "Tab")
        until(page, f"document.querySelector('#setting-timezone').matches('{WRONG}')")
        assert page.input_value("#setting-timezone") == "Atlantis"
        assert all("Atlantis" in text for text in texts(page, PROBLEMS))
        page.fill("#setting-timezone", "")
        page.press("#setting-timezone", "Tab")
        until(page, "!('timezone' in state.settings) && state.understanding.ok")
        assert texts(page, PROBLEMS) == ["", ""]


def test_a_file_that_does_not_fit_is_explained(browser, tmp_path, week):
    with served(tmp_path / "study") as server, tab(browser, server) as page:
        page.set_input_files("#file-readings", week.windows)
        nobody = {"name": "diary.csv", "mimeType": "text/csv", "buffer": b"who,when\nx,y\n"}
        page.set_input_files("#file-diary", nobody)
        wait_for(page, "#next", "something does not fit")
        assert text_of(page, "#understood-problem")
        assert set(roles_of(page)) == {""}  # no column is said to be unused
        assert page.locator("#run").is_disabled()
        page.set_input_files("#file-diary", week.diary)
        wait_for(page, "#next", "find labels")
        assert page.locator("#understood-problem").is_hidden()


# Corrections


def test_a_correction_is_kept_by_relabeling_and_can_be_undone(browser, corrected):
    with tab(browser, corrected) as page:
        wait_for_lanes(page)
        bars = bars_of(page, "p1")
        number = next(k for k, bar in enumerate(bars) if bar[3] == "tv" and bar[2] - bar[1] > 7200)
        lane, start, end, _ = bars[number]
        page.locator(f'[data-bar="{number}"]').click()
        assert text_of(page, "#chosen-words").startswith("Mon 2024-03-04" if lane == 0 else "")
        assert "tv, confidence" in text_of(page, "#chosen-words")
        page.click("#panel .labels:not(.not) button:has-text('desk')")
        wait_for(page, "#corrections", "desk")
        assert texts(page, "#corrections td")[:2] == ["desk", "tv"]
        page.click("#relabel")
        wait_for(page, "#changed", "changed")
        n = round((end - start) / 1800)
        changed = page.evaluate("state.run.changed")
        assert changed["corrected"] == n
        words = f"{changed['rows']} rows changed, {changed['beside']} of them other"
        assert words in text_of(page, "#changed")
        wait_for(page, "#chosen-words", "desk, confidence 1.00, after your correction")
        assert page.evaluate("document.activeElement.id") == "changed"
        until(page, f"days.bars.some((bar) => bar.lane === {lane} && bar.given)")
        inside = [bar for bar in bars_of(page, "p1") if bar[0] == lane and start <= bar[1] < end]
        assert {bar[3] for bar in inside} == {"desk"}
        assert page.is_checked("#show-before")
        labels = [bar[3] for bar in bars if bar[3] != "no label"]
        assert page.locator("#lanes rect.labeled:not(.bar)").count() == len(labels)
        assert "quick answer" in text_of(page, "#save-warning")
        page.click("#corrections button")
        page.locator("#corrections-none").wait_for()
        until(page, "document.activeElement.id === 'corrections-title'")
        assert not texts(page, "#corrections tbody tr")


def test_a_range_is_dragged_and_not_this_one_is_kept(browser, corrected):
    with tab(browser, corrected) as page:
        wait_for_lanes(page)
        bars_of(page, "p2")
        page.locator("#lanes").scroll_into_view_if_needed()
        box = page.locator("#lanes").bounding_box()
        place = page.evaluate("[days.place.x(36000), days.place.x(50400), days.place.top(1) + 20]")
        left, right, y = box["x"] + place[0], box["x"] + place[1], box["y"] + place[2]
        page.mouse.move(left, y)
        page.mouse.down()
        page.mouse.move((left + right) / 2, y)
        page.mouse.move(right, y)
        page.mouse.up()
        assert "10:00 to 14:00 (4 h 00 min)" in text_of(page, "#chosen-words")
        excluded = page.locator("#panel .not button").first
        name = excluded.text_content().removeprefix("not ")
        excluded.click()
        wait_for(page, "#corrections", f"not {name}")
        page.click("#relabel")
        wait_for(page, "#changed", "changed")
        until(page, "!running() && state.run.kind === 'quick'")
        wait_for_lanes(page)
        left = [bar for bar in bars_of(page, "p2") if bar[0] == 1 and 36000 <= bar[1] < 50400]
        assert left
        assert name not in {bar[3] for bar in left}


def test_everything_works_by_keyboard_alone(browser, corrected):
    with tab(browser, corrected) as page:
        wait_for_lanes(page)
        order = []
        for _ in range(200):
            page.keyboard.press("Tab")
            order.append(page.evaluate("document.activeElement.id"))
            if order[-1] == "lanes":
                break
        places = [order.index(one) for one in ("file-readings", "setting-timezone", "run", "lanes")]
        assert places == sorted(places)
        page.keyboard.press("Home")
        first = page.evaluate("({ ...choice })")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("choice.start") == first["end"]
        page.keyboard.press("Shift+ArrowRight")
        assert page.evaluate("choice.start") == first["end"]
        assert page.evaluate("choice.end - days.bars[1].end") > 0
        page.keyboard.press("ArrowDown")
        assert page.evaluate("choice.day") == 1
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.closest('#panel') !== null")
        label = page.evaluate("document.activeElement.textContent")
        page.keyboard.press("Enter")
        wait_for(page, "#corrections", label)
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.id") == "lanes"
        page.focus("#relabel")
        page.keyboard.press("Enter")
        wait_for(page, "#changed", "changed")


def test_a_question_is_answered_skipped_or_not_known(browser, corrected):
    with tab(browser, corrected) as page:
        wait_for_lanes(page)
        page.click("#ask")
        wait_for(page, "#question", "Question 1 of")
        assert page.evaluate("document.activeElement.closest('#question') !== null")
        page.click("#show-in-days")
        times = page.evaluate("[asking.questions[0].start, asking.questions[0].end]")
        until(page, f"choice?.start === {times[0]} && choice.end === {times[1]}")
        assert page.evaluate("isDay(asking.questions[0].day, choice.day)")
        assert page.locator("#question figure path.signal").count()
        page.click("#skip")
        wait_for(page, "#question", "Question 2 of")
        page.click("#unknown")
        wait_for(page, "#question", "Question 3 of")
        label = text_of(page, "#question .labels button")
        page.click("#question .labels button >> nth=0")
        wait_for(page, "#corrections", label)
        assert text_of(page, "#asked") == "1 answered, 1 skipped, 1 not known"


def test_rows_without_times_are_corrected_in_a_list(browser, tmp_path):
    lines = [f"r{k},b{k // 6},{k % 6},{k}" for k in range(12)]
    readings = "\n".join(["id,bag,x,y", *lines]) + "\n"
    totals = "bag,low,high\nb0,3,3\nb1,2,4\n"
    with served(tmp_path / "study") as server, tab(browser, server) as page:
        for role, text in (("readings", readings), ("proportions", totals)):
            file = {"name": f"{role}.csv", "mimeType": "text/csv", "buffer": text.encode()}
            page.set_input_files(f"#file-{role}", file)
            wait_for(page, f"#name-{role}", f"{role}.csv")
        page.select_option(f"#role-{texts(page, '#columns tbody th').index('bag')}", "bag")
        until(page, "state.understanding.ok")
        page.select_option("#setting-method", "lpllp")
        until(page, "state.settings.method === 'lpllp'")
        find_labels(page)
        page.locator("#rows tbody tr").first.wait_for()
        assert texts(page, "#rows tbody th") == [f"r{k}" for k in range(12)]
        page.select_option("#bag", "b1")
        until(page, "document.querySelectorAll('#rows tbody tr').length === 6")
        page.check("#row-7")
        page.locator("#row-9").click(modifiers=["Shift"])
        assert text_of(page, "#chosen-words").startswith("3 rows: ")
        page.click("#panel .labels:not(.not) button:has-text('high')")
        wait_for(page, "#corrections", "high")
        page.click("#relabel")
        wait_for(page, "#changed", "changed")
        wait_for(page, "#rows-shown", "of 6")
        # The rows come after the words, and as many were high before.
        until(page, "rows.shown.slice(1, 4).every(({ label }) => className(label) === 'high')")
        labels = page.evaluate("rows.shown.map(({ label }) => className(label))")
        assert labels[1:4] == ["high"] * 3
        assert labels.count("high") == 4


# Runs, tabs, reloads


def test_a_run_shows_its_progress_and_can_be_cancelled(browser, server, monkeypatch):
    begun = threading.Event()

    def endless(*_args, **_more):
        begun.set()
        for share in range(1, 10_000):
            report_progress("weighing methods", min(share / 1000, 0.9))
            time.sleep(0.01)

    with tab(browser, server) as page:
        wait_for_lanes(page)
        before = server.studio.state()["run"]
        monkeypatch.setattr(LabelSettings, "label", endless)
        page.click("#run")
        assert begun.wait(30)
        wait_for(page, "#progress-words", "left")
        assert "Weighing methods" in text_of(page, "#progress-words")
        assert page.evaluate("document.activeElement.id") == "cancel"
        page.click("#cancel")
        wait_for(page, "#run-problem", "Cancelled")
        assert page.locator("#progress").is_hidden()
        assert server.studio.state()["run"] == before


def test_a_reload_loses_nothing_and_is_no_other_tab(browser, corrected):
    with tab(browser, corrected) as page:
        wait_for_lanes(page)
        page.locator('[data-bar="2"]').click()
        page.click("#is-0")
        until(page, "state.corrections.length === 1")
        shown = ("#corrections td, #corrections th", "#columns td", "#next")
        # A browser that closes a tab need not tell the studio; tabs of other tests then count 20 s.
        until(page, "!state.other_tabs")
        before, name = [texts(page, one) for one in shown], page.evaluate("TAB")
        page.reload()
        until(page, READY)
        wait_for_lanes(page)
        assert [texts(page, one) for one in shown] == before
        assert page.evaluate("TAB") == name
        assert text_of(page, "#other-tabs") == ""


def test_a_second_tab_is_told_and_what_it_did_is_not_overwritten(browser, corrected):
    with tab(browser, corrected, refusals=1) as first, tab(browser, corrected) as second:
        wait_for(second, "#other-tabs", "another tab")
        wait_for_lanes(first)
        wait_for_lanes(second)
        first.evaluate("clearTimeout(waiting), globalThis.pollSoon = () => {}")
        second.locator('[data-bar="2"]').click()
        second.click("#is-0")
        until(second, "state.corrections.length === 1")
        first.locator('[data-bar="3"]').click()
        first.click("#is-1")
        wait_for(first, "#panel-problem", "another tab")
        assert len(corrected.studio.state()["corrections"]) == 1
        assert first.evaluate("state.corrections.length") == 1


def test_a_studio_that_stopped_is_told(browser, tmp_path):
    server = Server(tmp_path / "study")
    context = browser.new_context()
    page = Opened(context.new_page(), server.address).page
    server.stop()
    page.evaluate("refresh()")
    wait_for(page, "#banner", "The studio has stopped")
    assert "start it again with “apportion studio study”" in text_of(page, "#banner")
    context.close()


# Names, sizes, colors


HOSTILE = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    '"><svg onload=window.pwned=1>',
    "' onfocus=window.pwned=1 autofocus '",
    "url(#fill-0)",
    "__proto__",
    "long" * 60,
)


def test_hostile_names_stay_text(browser, tmp_path):
    def quoted(text):
        return '"' + text.replace('"', '""') + '"'

    who, activity = HOSTILE[1], [quoted(name) for name in HOSTILE]
    hours = [f"2024-03-04T{hour:02d}:00" for hour in range(24)] + ["2024-03-05T00:00"]
    lines = [f"{quoted(who)},{hours[k]},{hours[k + 1]},{k % len(HOSTILE)},{k}" for k in range(24)]
    header = f"participant,start,end,{activity[0]},{activity[2]}"
    readings = "\n".join([header, *lines]) + "\n"
    durations = ",".join(["4h"] * 5 + ["2h"] * 2)
    diary = f"participant,date,{','.join(activity)}\n{quoted(who)},2024-03-04,{durations}\n"
    with served(tmp_path / "<b>study") as server, tab(browser, server) as page:
        for role, text in (("readings", readings), ("diary", diary)):
            name = f"{HOSTILE[1]}.csv"
            file = {"name": name, "mimeType": "text/csv", "buffer": text.encode()}
            page.set_input_files(f"#file-{role}", file)
            wait_for(page, f"#name-{role}", name)
        page.select_option("#setting-method", "lpllp")
        until(page, "state.settings.method === 'lpllp'")
        find_labels(page)
        wait_for_lanes(page)
        page.locator(".bar").first.click()
        page.click("#is-0")
        wait_for(page, "#corrections", page.evaluate("classesOf()[0].name"))
        assert set(texts(page, "#legend li")) == {*HOSTILE, "no label"}
        assert who in text_of(page, "#lanes-title")
        assert "<b>study" in page.title()
        assert page.evaluate("window.pwned") is None
        assert page.locator("img, script:not([src]), b").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_narrow_screen(browser, server, scheme):
    with tab(browser, server, width=400, color_scheme=scheme) as page:
        wait_for_lanes(page)
        page.locator('[data-bar="1"]').click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") == (scheme == "light")


def test_a_long_recording_is_drawn_as_slots_that_zooming_opens(browser, server):
    """Nothing is asked of the server: the days are made up in the page."""
    with tab(browser, server) as page:
        wait_for_lanes(page)
        page.evaluate(
            """() => {
              const n = 20000, at = [...Array(n).keys()];
              const items = {
                day: at.map((i) => Math.floor(i / 2880)), start: at.map((i) => (i % 2880) * 30),
                end: at.map((i) => (i % 2880) * 30 + 30), label: at.map((i) => (i * 7) % 5),
                confidence: at.map(() => 0.5), row_first: at, row_last: at,
                given: at.map(() => false),
              };
              days.names = [...Array(7).keys()].map((day) => `day ${day}`);
              days.byDay = segmentsByDay(items, 7);
              days.whole = [0, 86400];
              [days.from, days.to] = days.whole;
              showPage(0);
            }"""
        )
        assert page.locator(".bar").count() <= 3000
        assert page.locator("#lanes-thinned").is_visible()
        page.focus("#lanes")
        for _ in range(5):
            page.keyboard.press("+")
        assert page.locator("#lanes-thinned").is_hidden()
        assert 0 < page.locator(".bar").count() <= 3000
