"""The report in a real browser: drawing, text, filters, sorting, printing and security."""

from __future__ import annotations

import io
import re
import unicodedata
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.preprocessing import scale

from apportion import LPLLP, InvCal, LabelPropagation
from apportion.bag_report import BagReport
from apportion.datasets import make_smart_home
from apportion.labeling.rows import RowLabels
from apportion.plotting._palette import class_styles
from apportion.plotting._window_times import SECOND, Times
from apportion.report import ReportData, Run, write_page, write_report
from apportion.report._row_map import RowMap
from browser import texts, until
from command_line import done, table, write

pytestmark = pytest.mark.slow

PLOTS = ("timeline", "totals", "bag-plot", "map-plot", "energy-plot")

HOSTILE = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    '"><svg onload=window.pwned=1>',
    "</script><script>window.pwned=1</script>",
    "' onfocus=window.pwned=1 autofocus '",
    '<a href="javascript:window.pwned=1">click</a>',
    "<b>bold</b><br>",
    "{{7*7}}{% raw %}",
    "%{x} %{customdata} %{meta}",
    r"$\alpha$ \(x\)",
    "&lt;i&gt; &amp; &#65;",
    "\u202eright to left\u202c \u05e9\u05dc\u05d5\u05dd",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "two\nlines\tand\u2028more",
    "with\0nul",
    "lone \udc80 surrogate",
    "__proto__",
    "long" * 200,
)


# Pages


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="session")
def week(folder):
    """Sixteen days of two people in windows of one hour, with gaps and a day without totals."""
    home = make_smart_home(days=16, participants=2, minutes=60)
    kept = np.ones(len(home.activities), dtype=bool)
    kept[[30, 31, 32, 400]] = False
    columns = {name: column[kept] for name, column in home.windows.items()}
    X = [column for name, column in columns.items() if name.startswith(("acc", "pir", "light"))]
    X = scale(np.nan_to_num(np.column_stack(X).astype(float)))
    days = columns["start"].astype("datetime64[D]").astype(str)
    bags = [f"{who} {day}" for who, day in zip(columns["participant"], days, strict=True)]
    bags = np.array(bags, dtype=object)
    truth = home.activities[kept]
    totals = {
        bag: {name: float(np.mean(truth[bags == bag] == name)) for name in sorted(set(truth))}
        for bag in dict.fromkeys(bags)
    }
    del totals["p1 2024-03-06"]
    bags[bags == "p1 2024-03-06"] = None
    model = LPLLP(random_state=0).fit(X, bags=bags, proportions=totals)
    times = {name: columns[name] for name in ("start", "end")}
    path = write_report(
        model,
        folder / "week.html",
        participants=columns["participant"],
        names=columns["window"],
        title="Sixteen days",
        notes=["A note of ours."],
        **times,
    )
    return SimpleNamespace(
        path=path, model=model, bags=bags, names=columns["window"], totals=totals,
        participants=columns["participant"], **times,
    )  # fmt: skip


@pytest.fixture(scope="session")
def commanded(folder):
    """A page of `apportion label --report`, from files whose columns have hostile names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        hostile = [name for name in HOSTILE if name.isprintable()]
        columns = dict(zip(hostile, np.random.default_rng(0).normal(size=(9, 9)), strict=False))
        columns["day"] = [hostile[k // 3] for k in range(9)]
        counts = "".join(f'"{hostile[k]}",{k},{3 - k}\n'.replace('""', '"') for k in (0, 1))
        write("rows <b>.csv", table(**columns))
        quoted = hostile[2].replace('"', '""')
        header = f'day,"{hostile[0]}","{quoted}"\n'
        write("totals.csv", f'{header}{counts}"{quoted}",2,1\n')
        done(
            "label", "rows <b>.csv", "--bags", "day", "--proportions", "totals.csv",
            "--output", "labels.csv", "--report", "commanded.html", "-q",
        )  # fmt: skip
    return SimpleNamespace(path=folder / "commanded.html", columns=hostile[:9])


@pytest.fixture(scope="session")
def hostile(folder):
    """A page whose classes, bags, participants, rows, title and notes are hostile names."""
    n = len(HOSTILE)
    names = np.array(HOSTILE, dtype=object)
    of_row = np.repeat(np.arange(n), 2)
    X = np.column_stack([of_row, np.random.default_rng(0).normal(0, 0.01, 2 * n)])
    counts = {names[k]: {names[k]: 1 / 2, names[(k + 1) % n]: 1 / 2} for k in range(n)}
    model = LPLLP(random_state=0).fit(X, bags=names[of_row], proportions=counts)
    path = write_report(
        model,
        folder / "hostile.html",
        start=np.arange(2 * n) * 600,
        participants=np.where(np.arange(2 * n) < 2 * n - 2, names[0], names[1]),
        names=names[of_row],
        title="".join(HOSTILE),
        notes=HOSTILE,
    )
    return SimpleNamespace(path=path, model=model)


def made_up(labels, bag_codes, *, classes=("awake", "asleep"), **more):
    """Return the data of a report on made-up labels."""
    labels, classes = np.array(labels), np.array(classes, dtype=object)
    bag_codes, n_bags = np.array(bag_codes), max(bag_codes, default=-1) + 1
    masses = np.eye(len(classes))[labels]
    one_hot = np.zeros((n_bags, len(classes)), dtype=np.intp)
    np.add.at(one_hot, (bag_codes, labels), 1)
    report = BagReport(
        ids=tuple(f"bag {k}" for k in range(n_bags)),
        classes=classes,
        sizes=one_hot.sum(axis=1),
        lower=one_hot.astype(float),
        upper=one_hot.astype(float),
        assigned={"quota": one_hot},
        decode="quota",
    )
    n = len(labels)
    answer = RowLabels(classes, classes[labels], masses, np.ones(n), np.full(n, "", dtype=object))
    return ReportData("Made up", answer, bag_codes, report, {}, {}, **more)


@pytest.fixture
def days(tabs, week):
    """The week, to be changed."""
    with tabs.opened(week.path) as found:
        yield found.page


@pytest.fixture(scope="session")
def look(tabs, week):
    """The week, to be looked at: no test changes what is drawn."""
    with tabs.opened(week.path) as found:
        yield found.page


# Segments, in a plain loop


def segments_of(week, participant):
    """Return the segments of a participant's days, by day: label, first start, last end, rows."""
    rows = [i for i, who in enumerate(week.participants) if who == participant]
    days = defaultdict(list)
    previous = None
    for i in sorted(rows, key=lambda i: week.start[i]):
        day, label = str(week.start[i].astype("datetime64[D]")), week.model.transduction_[i]
        start, end = week.start[i], week.end[i]
        if previous != (day, label, start):
            days[day].append([label, start, end, 0])
        days[day][-1][2] = end
        days[day][-1][3] += 1
        previous = (day, label, end)
    return days


def n_bars(page):
    return page.locator("#timeline .barlayer .point path").count()


def shown_lanes(page):
    return texts(page, "#timeline .ytick text")


# Loading


def test_a_page_loads_from_disk_in_silence_and_asks_nobody(tabs, week):
    """So does every page below, on a machine that is not offline: `opened` looks after it."""
    with tabs.opened(week.path, offline=True) as found:
        for name in PLOTS:
            assert found.page.locator(f"#{name} .main-svg").count()
        found.page.select_option("#participant", label="p2")
        found.page.locator("#bag-plot").scroll_into_view_if_needed()
        found.page.wait_for_timeout(200)
        assert found.requests[0] == found.url
        assert found.foreign == []
        assert found.complaints == []


def test_no_button_sends_a_plot_away(look):
    names = look.eval_on_selector_all(
        ".modebar-btn", "all => all.map((one) => one.getAttribute('aria-label'))"
    )
    assert "Download plot as a PNG" in names
    assert not [name for name in names if re.search("share|cloud|edit|send", name, re.IGNORECASE)]


def test_a_script_that_the_page_did_not_bring_is_not_run(tabs, week, folder):
    text = week.path.read_text(encoding="utf-8")
    path = folder / "foreign.html"
    foreign = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1></main>"
    path.write_text(text.replace("</main>", foreign, 1), encoding="utf-8")
    context = tabs.browser.new_context()
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.evaluate("window.pwned") is None
    context.close()


# Days


def test_the_timeline_draws_as_many_bars_as_there_are_segments(week, days):
    for who in ("p1", "p2"):
        days.select_option("#participant", label=who)
        expected = segments_of(week, who)
        assert len(expected) == 16
        lanes = []
        while True:
            now = shown_lanes(days)
            assert n_bars(days) == sum(len(expected[lane.split()[1]]) for lane in now)
            lanes += now
            if days.is_disabled("#later"):
                break
            days.click("#later")
        assert [lane.split()[1] for lane in lanes] == sorted(expected)
        days.click("#earlier")
        assert len(shown_lanes(days)) == 14
        assert days.is_disabled("#earlier")


def test_a_bar_tells_its_label_its_times_and_its_windows(week, look):
    one = max(segments_of(week, "p1")["2024-03-04"], key=lambda one: one[2] - one[1])
    label, start, end, n = one
    words = f"{label}, Mon 2024-03-04, {clock(start)} to {clock(end)} ({n} h 00 min), {n} windows"
    bar = bar_of(look, words)
    box = bar.bounding_box()
    look.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    look.wait_for_selector("#timeline .hovertext")
    assert texts(look, "#timeline .hovertext text:not(.name)")[0].startswith(words)
    assert texts(look, "#timeline-detail")[0].startswith(words)
    inside = np.isin(week.start, np.arange(start, end, np.timedelta64(1, "h")))
    inside &= week.participants == "p1"
    sure = week.model.label_distributions_[inside, list(week.model.classes_).index(label)]
    assert (
        f"confidence {rounded(sure.mean())}, at least {rounded(sure.min())}"
        in texts(look, "#timeline-detail")[0]
    )


def clock(time):
    return str(time)[11:16]


def rounded(share):
    return f"{np.round(100 * share) / 100:.2f}"


OFFSETS = (*range(21), 0.01, 0.05, 0.099, 0.999, 9.999, -0.05, -1, -5, -9.999)


def days_from_offsets(lasting):
    """Two bars per day, each in its own bag; day k begins `OFFSETS[k]` seconds after midnight."""
    offsets = np.array([round(SECOND * one) for one in OFFSETS])
    midnight = (20_000 + np.arange(len(offsets))) * 24 * 3600 * SECOND
    starts = np.add.outer(midnight + offsets, [0, lasting * SECOND]).ravel()
    n = len(starts)
    times = Times(starts, starts + lasting * SECOND)
    return made_up(np.arange(n) % 2, np.arange(n), times=times)


def drawn_boxes(page, selector):
    """Return where on the screen each element ends: left and right, lane by lane."""
    boxes = page.eval_on_selector_all(
        selector,
        """all => all.map((one) => one.getBoundingClientRect())
            .map((box) => [Math.round((box.top + box.bottom) / 2), box.left, box.right])""",
    )
    return np.array(sorted(boxes))[:, 1:]


def seconds_of(page, plot, pixels):
    """Return the seconds after midnight at horizontal places of the screen, by the tick labels."""
    ticks = page.eval_on_selector_all(
        f"#{plot} .xtick text",
        """all => all.map((one) => [one.textContent, one.getBoundingClientRect()])
            .filter(([_, box]) => box.width)
            .map(([text, box]) => [(box.left + box.right) / 2, text])""",
    )
    (left, first), *_, (right, last) = [(x, clock_seconds(text)) for x, text in sorted(ticks)]
    first -= 24 * 3600 * (first > last)
    return first + (np.asarray(pixels) - left) * (last - first) / (right - left)


def clock_seconds(text):
    """Return the seconds after midnight of a clock."""
    return sum(float(part) * 60.0 ** (2 - k) for k, part in enumerate(text.split(":")))


@pytest.mark.parametrize(("lasting", "zone"), [(30, "Asia/Tokyo"), (36_000, "America/New_York")])
def test_all_labeled_time_is_drawn_where_it_was_whenever_a_day_begins(tabs, folder, lasting, zone):
    """Plotly would take 1,000 to 9,999 for years, 10 to 99 too, and others for local time."""
    path = write_page(days_from_offsets(lasting), folder / "offsets.html", force=True)
    pixel = 2 * lasting / 500
    with tabs.opened(path, timezone_id=zone, width=1400) as found:
        page, left = found.page, np.array(OFFSETS)
        while True:
            n_lanes = len(shown_lanes(page))
            for plot, bars_a_bag in (("timeline", 1), ("totals", 2)):
                bars = drawn_boxes(page, f"#{plot} .barlayer .point path")
                assert len(bars) == 2 * n_lanes * bars_a_bag
                begin, end = seconds_of(page, plot, bars).reshape(-1, 2, 2).transpose(2, 0, 1)
                first = np.repeat(left[:n_lanes], bars_a_bag)
                assert begin == pytest.approx(np.add.outer(first, [0, lasting]), abs=pixel)
                assert (end - begin).sum(axis=1) == pytest.approx(2 * lasting, abs=2 * pixel)
            page.focus("#timeline")
            page.keyboard.press("Home")
            frame = drawn_boxes(page, "#timeline .shapelayer path")
            bars = drawn_boxes(page, "#timeline .barlayer .point path")
            assert frame == pytest.approx(bars[:1], abs=3)
            left = left[n_lanes:]
            if page.is_disabled("#later"):
                break
            page.click("#later")
    assert not left.size


def bar_of(page, words):
    """Return the bar of which something is detail."""
    place = page.evaluate(
        """(words) => {
            let before = 0;
            for (const trace of document.getElementById("timeline").data) {
                const at = trace.hovertext.findIndex((text) => text.startsWith(words));
                if (at >= 0) return before + at;
                before += trace.hovertext.length;
            }
        }""",
        words,
    )
    return page.locator("#timeline .barlayer .point path").nth(place)


def test_plots_keep_their_height_when_the_window_changes_and_after_printing(days):
    def sizes():
        return days.evaluate(
            "(all) => all.map((id) => document.querySelector(`#${id} .main-svg`).clientHeight)",
            list(PLOTS),
        )

    def change_width(width):
        days.set_viewport_size({"width": width, "height": 700})
        until(days, "innerWidth - document.querySelector('#bag-plot .main-svg').clientWidth < 99")
        days.wait_for_timeout(300)

    before = sizes()
    assert min(before) > 200
    change_width(900)
    assert sizes() == before
    days.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    days.evaluate("window.dispatchEvent(new Event('afterprint'))")
    days.wait_for_timeout(300)
    assert sizes() == before
    change_width(1100)
    assert sizes() == before


# Why this label?


def nearest_rows(week, row):
    """Return the lines that tell of a row's neighbors, from the graph."""
    W = week.model.graph_.affinity_.tocsr()
    similar = {int(j): float(W[row, j]) for j in W[[row]].indices}
    best = sorted(similar, key=lambda j: (-similar[j], j))[:5]
    whole = sum(similar.values())
    return [
        [
            week.names[j],
            week.model.transduction_[j],
            "–" if week.bags[j] is None else week.bags[j],
            rounded(similar[j] / whole),
        ]
        for j in best
    ]


def listed_neighbors(page):
    return page.eval_on_selector_all(
        "#map-detail tbody tr",
        "all => all.map((line) => [...line.cells].map((cell) => cell.textContent))",
    )


def test_a_point_of_the_map_tells_its_neighbors_and_their_bags(week, look):
    look.locator("#map-plot").scroll_into_view_if_needed()
    points = look.locator("#map-plot .scatterlayer .point")
    assert points.count() == len(week.names)
    seen = set()
    for at in (0, points.count() // 2, points.count() - 1):
        box = points.nth(at).bounding_box()
        look.mouse.move(0, 0)
        look.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=3)
        look.wait_for_selector("#map-plot .hovertext")
        look.wait_for_timeout(100)
        name = re.match(r"Row (\S+): ", texts(look, "#map-detail strong")[0])[1]
        row = list(week.names).index(name)
        lines = nearest_rows(week, row)
        assert listed_neighbors(look) == lines
        hover = texts(look, "#map-plot .hovertext text:not(.name)")[0]
        assert hover.startswith(f"row {name}: {week.model.transduction_[row]} ")
        for near, label, bag, share in lines:
            in_bag = "" if bag == "–" else f", bag {bag}"
            assert f"{share} {label}, row {near}{in_bag}" in hover
        seen.add(name)
    assert len(seen) > 1


def test_every_row_of_the_map_has_the_neighbors_of_the_graph(week, look):
    for row in (0, 50, 400, len(week.names) - 1):
        look.fill("#row-name", week.names[row])
        look.click("#find-row")
        assert texts(look, "#map-detail strong") == [
            f"Row {week.names[row]}: {week.model.transduction_[row]}"
        ]
        lines = nearest_rows(week, row)
        assert listed_neighbors(look) == lines
        same = sum(label == week.model.transduction_[row] for _, label, _, _ in lines)
        bag = "in no bag" if week.bags[row] is None else f"of bag {week.bags[row]}"
        detail = texts(look, "#map-detail p")[0]
        assert f"{same} of its 5 most similar rows have the same label." in detail
        assert f", {bag}." in detail


def test_a_row_that_is_not_there_is_not_found(look):
    look.fill("#row-name", "p9-00000")
    look.press("#row-name", "Enter")
    assert texts(look, "#map-detail") == ["Row p9-00000 is not on this map."]


# Filter


def drawn_classes(page):
    """Return the classes that each plot shows."""
    return page.evaluate(
        """(ids) => ids.map((id) => {
            const all = document.getElementById(id)._fullData;
            const mine = all.filter((one) => typeof one.meta === "number" && one.visible === true);
            return [...new Set(mine.map((one) => one.meta))].sort();
        })""",
        ["timeline", "totals", "bag-plot", "map-plot"],
    )


def n_drawn(page):
    places = ("#timeline .barlayer", "#totals .barlayer", "#bag-plot .scatterlayer")
    return [
        page.locator(f"{place} .point").count() for place in (*places, "#map-plot .scatterlayer")
    ]


def test_a_class_can_be_hidden_in_all_plots_and_brought_back(days):
    before, marks = drawn_classes(days), n_drawn(days)
    assert all(1 in shown for shown in before)
    check = days.locator("#classes input").nth(1)

    def press_space():
        tab_to(days, "#classes input", 1)
        days.keyboard.press("Space")

    for toggle in (check.click, press_space):
        toggle()
        assert not check.is_checked()
        assert drawn_classes(days) == [[one for one in shown if one != 1] for shown in before]
        assert all(now < then for now, then in zip(n_drawn(days), marks, strict=True))
        days.select_option("#participant", label="p2")
        assert all(1 not in shown for shown in drawn_classes(days))
        days.select_option("#participant", label="p1")
        toggle()
        assert check.is_checked()
        assert drawn_classes(days) == before
        assert n_drawn(days) == marks


def tab_to(page, selector, place=0):
    """Press Tab until an element has the focus."""
    target = page.locator(selector).nth(place)
    for _ in range(200):
        if target.evaluate("one => one === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab never reaches {selector}")


# Tables


def column(page, place):
    found = texts(page, f"#bag-table tbody tr > :nth-child({place + 1})")
    numbers = [re.sub(r".*→ | \d+ ×.*|,", "", text) for text in found]
    return list(map(float, numbers)) if place else found


def test_a_table_is_sorted_up_and_then_down(days):
    def press(place, by):
        if by == "mouse":
            days.locator("#bag-table thead button").nth(place).click()
            return
        tab_to(days, "#bag-table thead button", place)
        days.keyboard.press(by)

    def sorts():
        found = days.eval_on_selector_all(
            "#bag-table thead th", "all => all.map((one) => one.getAttribute('aria-sort'))"
        )
        return {place: how for place, how in enumerate(found) if how}

    assert sorts() == {}
    for place, by in ((0, "mouse"), (1, "Enter"), (4, "Space")):
        before = column(days, place)
        press(place, by)
        assert column(days, place) == sorted(before)
        assert sorts() == {place: "ascending"}
        press(place, by)
        assert column(days, place) == sorted(before, reverse=True)
        assert sorts() == {place: "descending"}


# Hostile names


def as_html(name):
    """Return what a page can hold of a name: no NUL, and lone surrogates written out."""
    text = name.replace("\0", "").encode("utf-8", "backslashreplace").decode("utf-8")
    return " ".join(text.split())


def as_script(name):
    """Return a name as the script has it; a lone surrogate has no other way to be detail."""
    return " ".join(name.encode("utf-16", "surrogatepass").decode("utf-16", "replace").split())


def shortened(name, most=60):
    return name if len(name) <= most else name[: most - 1] + "…"


def as_hover(name, most=60):
    """Return a name as a hover text shows it."""
    return as_script(re.sub(r"[\0-\x1f]+", " ", shortened(name, most)))


def no_script_ran(page):
    page.wait_for_timeout(100)
    assert page.evaluate("window.pwned") is None
    made = "b, i, a[href^=javascript], img, [onload], [onerror], [onfocus]"
    assert page.locator(made).count() == 0
    assert page.locator("script").count() == 3


def test_hostile_names_stay_text_in_headings_tables_and_lists(tabs, hostile):
    classes = [as_html(str(one)) for one in hostile.model.classes_]
    bags = [as_html(str(one)) for one in hostile.model.bag_report_.ids]
    with tabs.opened(hostile.path) as found:
        page = found.page
        assert texts(page, "h1") == [as_html("".join(HOSTILE))]
        assert " ".join(page.title().split()) == as_html("".join(HOSTILE).replace("\0", "\ufffd"))
        assert texts(page, "#bag-table tbody th") == bags
        headings = [shortened(str(one)) for one in hostile.model.classes_]
        assert texts(page, "#bag-table thead th")[3:] == [as_html(one) for one in headings]
        assert texts(page, ".pairs thead th") == [as_html(one) for one in headings]
        assert texts(page, ".pairs tbody th") == classes
        assert texts(page, "#run h3:text-is('Notes') + ul li") == [as_html(one) for one in HOSTILE]
        expected = [as_script(str(one)) for one in hostile.model.classes_]
        assert texts(page, "#classes label") == expected
        assert texts(page, "#participant option") == [as_script(one) for one in HOSTILE[:2]]
        no_script_ran(page)


def test_hostile_names_stay_text_in_plots(tabs, hostile):
    labels = {str(one) for one in hostile.model.transduction_[:-2]}
    assert len(labels) >= len(HOSTILE) - 2
    with tabs.opened(hostile.path) as found:
        page = found.page
        hovers = steps_through(page, "timeline", lambda text: text.split(", day 1")[0])
        assert set(hovers) == {as_script(name) for name in labels}
        for name in labels:
            assert hovers[as_script(name)].startswith(as_hover(name)), ascii(name)
        hovers = steps_through(page, "map", lambda text: text.split(": ")[0])
        assert set(hovers) == {f"Row {as_script(name)}" for name in HOSTILE}
        for name in HOSTILE:
            start = as_hover(f"row {name}: ", 80).rstrip("…")
            assert hovers[f"Row {as_script(name)}"].startswith(start), ascii(name)
        no_script_ran(page)


def steps_through(page, plot, kind):
    """Step through a plot's items; return, for the first of every kind, the text at the mouse."""
    plot_id, state = ("timeline", "days") if plot == "timeline" else (f"{plot}-plot", "atlas")
    hovered = f"document.getElementById('{plot_id}')._hoverdata[0].customdata"
    page.focus(f"#{plot_id}")
    page.keyboard.press("Home")
    found, before = {}, None
    while (detail := texts(page, f"#{plot}-detail")[0]) != before:
        if kind(detail) not in found:
            until(page, f"{hovered} === {state}.items[{state}.chosen].at")  # Plotly takes its time
            found[kind(detail)] = texts(page, f"#{plot_id} .hovertext text:not(.name)")[0]
        before = detail
        page.keyboard.press("ArrowRight")
    return found


def test_hostile_names_stay_text_beside_axes(tabs, folder):
    """Names of runs are in a legend, and bags of a day may be named at an axis."""
    names = np.array(HOSTILE, dtype=object)
    codes = np.arange(len(HOSTILE)) % 2
    hours = np.arange(len(HOSTILE)) * 3600 * SECOND
    runs = {name: Run("LPLLP", {name: name}, energies=[3.0, 2.0, 1.0]) for name in HOSTILE}
    data = made_up(codes, codes, times=Times(hours, hours + 3600 * SECOND, names))
    data = replace(data, runs=runs, facts={name: name for name in HOSTILE})
    path = write_page(data, folder / "axes.html")
    with tabs.opened(path) as found:
        page = found.page
        legend = texts(page, "#energy-plot .legendtext")
        assert legend == [as_hover(name, 30) for name in HOSTILE]
        for place in range(len(HOSTILE)):
            page.select_option("#participant", index=place)
            assert n_bars(page) == 1
        no_script_ran(page)


def test_names_that_look_like_numbers_or_times_are_names(tabs, folder):
    """No axis is left to Plotly's guess, and nothing is counted that is a name."""
    names = np.array(["2021", "1e3", "10:30", "2021-03-04", "NaN"], dtype=object)
    n = len(names)
    hours = np.arange(2 * n) * 3600 * SECOND
    times = Times(hours, hours + 3600 * SECOND, np.repeat(names, 2))
    runs = {name: Run("LPLLP", {}, energies=[3.0, 2.0, 1.0]) for name in names}
    data = made_up(np.arange(2 * n) % n, np.arange(2 * n) % n, classes=names, times=times)
    report = replace(data.report, ids=tuple(names))
    data = replace(data, report=report, runs=runs, names=np.repeat(names, 2))
    with tabs.opened(write_page(data, folder / "numbers.html")) as found:
        page = found.page
        assert texts(page, "#participant option") == texts(page, "#classes label") == list(names)
        assert texts(page, "#bag-table tbody th") == list(names)
        assert texts(page, "#energy-plot .legendtext") == list(names)
        axes = page.evaluate(
            """() => [...plots.keys()].map((id) => document.getElementById(id).layout)
                .map((layout) => [layout.xaxis.type, layout.yaxis.type])"""
        )
        assert axes == [*2 * [["date", "linear"]], ["linear", "linear"], ["linear", "log"]]
        for place in range(n):
            page.select_option("#participant", index=place)
            assert n_bars(page) == 2
            assert page.locator("#totals .barlayer .point path").count() == 4
            assert page.locator("#bag-plot .scatterlayer .point").count() == n * n


def test_hostile_names_of_files_and_columns_stay_text(tabs, commanded):
    with tabs.opened(commanded.path) as found:
        page = found.page
        assert texts(page, "h1") == ["Labels of rows <b>.csv"]
        notes = " ".join(texts(page, "#run li"))
        for name in commanded.columns:
            assert name in notes
        assert texts(page, "#bag-table tbody th") == list(HOSTILE[:3])
        no_script_ran(page)


# Keyboard


def test_tab_reaches_every_control_shows_where_it_is_and_can_skip_to_the_report(days):
    n = days.evaluate(
        """() => {
            const all = "a[href], button, input, select, #timeline, #map-plot, .scroll";
            window.controls = [...document.querySelectorAll(all)].filter((one) => !one.disabled);
            return window.controls.length;
        }"""
    )
    on = focused_by(days, "Tab", n)
    assert on == list(range(n))
    back = focused_by(days, "Shift+Tab", n - 1)
    assert back == on[-2::-1]
    assert days.evaluate("document.activeElement.className") == "skip"
    assert days.locator(".skip").bounding_box()["x"] >= 0
    days.keyboard.press("Enter")
    days.keyboard.press("Tab")
    assert days.evaluate("document.activeElement.id") == "participant"


def focused_by(page, key, n):
    """Press a key so many times; return which control it leads to, always seen and outlined."""
    found = []
    for _ in range(n):
        page.keyboard.press(key)
        place, outlined, seen, what = page.evaluate(
            """() => {
                const one = document.activeElement;
                const box = one.getBoundingClientRect();
                const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
                const above = document.elementFromPoint(x, y);
                const tall = box.height > innerHeight / 2;
                const style = getComputedStyle(one);
                return [
                    window.controls.indexOf(one),
                    style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1,
                    tall || (above !== null && (one.contains(above) || above.contains(one))),
                    one.outerHTML.slice(0, 120),
                ];
            }"""
        )
        assert outlined, what
        assert seen, what
        found.append(place)
    return found


def test_the_tools_of_a_plot_show_when_they_have_the_focus(look):
    tab_to(look, "#bag-plot .modebar-btn")
    until(
        look, "getComputedStyle(document.querySelector('#bag-plot .modebar-group')).opacity === '1'"
    )


def test_arrow_keys_step_through_segments(week, look):
    tab_to(look, "#timeline")
    expected = segments_of(week, "p1")
    first = sorted(expected)[0]
    detail = []
    for key in ("Home", *["ArrowRight"] * (len(expected[first]) - 1)):
        look.keyboard.press(key)
        detail += texts(look, "#timeline-detail")
    assert [text.split(", ")[0] for text in detail] == [one[0] for one in expected[first]]
    until(look, "document.querySelectorAll('#timeline .hovertext').length === 1")
    look.keyboard.press("ArrowLeft")
    assert texts(look, "#timeline-detail") == detail[-2:-1]
    look.keyboard.press("Home")
    assert texts(look, "#timeline-detail") == detail[:1]
    look.keyboard.press("ArrowDown")
    assert f", Tue {sorted(expected)[1]}, 00:00 to" in texts(look, "#timeline-detail")[0]
    look.keyboard.press("ArrowUp")
    assert texts(look, "#timeline-detail") == detail[:1]
    look.keyboard.press("End")
    last = sorted(expected)[13]
    label, start, end, _ = expected[last][-1]
    words = f"{label}, Sun {last}, {clock(start)} to {clock(end)}"
    assert texts(look, "#timeline-detail")[0].startswith(words)


def test_arrow_keys_step_through_rows_of_the_map(look):
    tab_to(look, "#map-plot")
    detail = []
    for key in ("Home", "ArrowRight", "End", "Home"):
        look.keyboard.press(key)
        detail += texts(look, "#map-detail")
    assert len(set(detail)) == 3
    assert detail[0] == detail[3]
    look.keyboard.press("ArrowRight")
    assert texts(look, "#map-detail") == detail[1:2]


def test_enter_finds_a_row(week, look):
    tab_to(look, "#row-name")
    look.fill("#row-name", "")
    look.keyboard.type(week.names[7])
    look.keyboard.press("Enter")
    assert texts(look, "#map-detail strong")[0].startswith(f"Row {week.names[7]}: ")


# For everybody


def test_a_page_has_a_language_a_title_and_headings_in_their_order(look):
    assert look.get_attribute("html", "lang") == "en"
    assert look.title() == "Sixteen days"
    levels = look.eval_on_selector_all(
        "h1, h2, h3, h4, h5, h6", "all => all.map((one) => +one.tagName[1])"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_every_control_has_a_name(look):
    nameless = look.evaluate(
        """() => [...document.querySelectorAll("a[href], button, input, select, [tabindex], .plot")]
            .filter((one) => {
                const by = one.getAttribute("aria-labelledby");
                const words = [
                    one.getAttribute("aria-label"),
                    by && document.getElementById(by).textContent,
                    ...[...(one.labels || [])].map((label) => label.textContent),
                    one.matches("a, button") ? one.textContent : "",
                ];
                return !words.some((text) => text && text.trim());
            })
            .map((one) => one.outerHTML.slice(0, 100))"""
    )
    assert nameless == []


def test_ids_are_unique_and_those_that_are_named_are_there(look):
    twice, missing = look.evaluate(
        """() => {
            const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
            const named = ["aria-labelledby", "aria-describedby", "href"].flatMap((name) =>
                [...document.querySelectorAll(`[${name}]`)].map((one) => one.getAttribute(name)));
            const inside = named.map((one) => one.replace(/^#/, ""));
            return [
                ids.filter((one, at) => ids.indexOf(one) !== at),
                inside.filter((one) => !one.includes(":") && !ids.includes(one)),
            ];
        }"""
    )
    assert twice == []
    assert missing == []


def test_text_stands_out_from_what_is_behind_it(look):
    look.focus("#map-plot")
    look.keyboard.press("Home")
    colors = look.evaluate(
        """() => {
            const canvas = document.createElement("canvas");
            const brush = canvas.getContext("2d", { willReadFrequently: true });
            const rgb = (colors) => {
                for (const color of ["white", ...colors]) {
                    brush.fillStyle = color;
                    brush.fillRect(0, 0, 1, 1);
                }
                return [...brush.getImageData(0, 0, 1, 1).data].slice(0, 3);
            };
            const found = [];
            for (const one of document.querySelectorAll("body *:not(script, noscript)")) {
                const own = [...one.childNodes].filter((node) => node.nodeType === 3);
                if (!own.some((node) => node.data.trim())) continue;
                if (one.closest("svg, :disabled, option")) continue;
                const behind = [];
                for (let at = one; at; at = at.parentElement) {
                    behind.unshift(getComputedStyle(at).backgroundColor);
                }
                const ink = rgb([...behind, getComputedStyle(one).color]);
                found.push([ink, rgb(behind), one.outerHTML]);
            }
            return found;
        }"""
    )
    assert len(colors) > 100
    for ink, paper, what in colors:
        assert contrast(ink, paper) >= 4.5, (contrast(ink, paper), what[:100])
    everything = " ".join(what for _, _, what in colors)
    for some in ('class="note"', "<caption", "<legend", 'id="verdict"', "<dt>"):
        assert some in everything


def contrast(one, other):
    def light(color):
        parts = [part / 255 for part in color]
        parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def test_classes_differ_by_more_than_color(look):
    styles_of = look.evaluate(
        """() => {
            const of = (id, take) => document.getElementById(id)._fullData
                .filter((one) => one.meta >= 0).map((one) => [one.meta, take(one.marker)]);
            return [of("timeline", (m) => m.pattern.shape), of("map-plot", (m) => m.symbol)];
        }"""
    )
    for shapes in styles_of:
        assert len(shapes) == 8
        assert len({shape for _, shape in shapes}) == 8
    drawn = look.eval_on_selector_all("#classes path", "all => all.map((o) => o.getAttribute('d'))")
    assert len(set(drawn)) == len(drawn) == 8
    fills = look.eval_on_selector_all(
        "#timeline .barlayer .trace.bars",
        "all => all.map((one) => getComputedStyle(one.querySelector('.point path')).fill)",
    )
    assert len(set(fills)) == 8
    assert sum("url(" in fill for fill in fills) == 7


def test_96_classes_differ_by_color_and_pattern():
    found = class_styles(96)
    assert len({(look.color, look.pattern) for look in found}) == 96
    assert len({(look.color, look.symbol) for look in found}) == 96
    assert (
        len({look.pattern for look in found[:8]}) == len({look.symbol for look in found[:8]}) == 8
    )


def test_a_narrow_screen_scrolls_only_downwards(tabs, week, hostile):
    for page_of in (week, hostile):
        with tabs.opened(page_of.path, width=400, height=800) as found:
            page = found.page
            page.focus("#map-plot")
            page.keyboard.press("Home")
            assert page.evaluate("document.documentElement.scrollWidth") <= 400
            wide = page.evaluate(
                """() => [...document.querySelectorAll("body *")]
                    .filter((one) => one.getBoundingClientRect().right > 401)
                    .filter((one) => !one.closest(".scroll, svg, fieldset, .hoverlayer"))
                    .map((one) => one.outerHTML.slice(0, 100))"""
            )
            assert wide == []


# Paper


def test_paper_has_all_words_no_controls_and_nothing_beyond_its_edges(tabs, week):
    pypdf = pytest.importorskip("pypdf")
    with tabs.opened(week.path) as found:
        pdf = found.page.pdf(prefer_css_page_size=True, print_background=True)
        verdict = texts(found.page, "#verdict")[0]
        headings = texts(found.page, "h1, h2, h3")
        require_fit(found.page)
    pages = pypdf.PdfReader(io.BytesIO(pdf)).pages
    placed = [placed_texts(page) for page in pages]
    words = [squeezed("".join(text for *_, text in page)) for page in placed]

    assert len(headings) > 8
    printed = "Printed here: participant p1 (1 of 2); days Mon 2024-03-04 to Sun 2024-03-17."
    for wanted in (verdict, *headings, *week.totals, *week.model.classes_, printed, "A note"):
        assert squeezed(wanted) in "".join(words), wanted
    for control in (
        "Earlier",
        "Later",
        "Find row",
        "Skip to",
        "arrow keys",
        "chosen",
        "↕",
        "Press",
    ):
        assert squeezed(control) not in "".join(words), control

    for page, inside in zip(pages, placed, strict=True):
        width, height = float(page.mediabox.width), float(page.mediabox.height)
        assert (round(width), round(height)) == (842, 595)
        for x, y, size, text in inside:
            assert 20 <= x <= width - 25, text
            assert 20 <= y <= height - 20, text
            assert size >= 6, text

    with_bags = [text for text in words if "24 0.0".replace(" ", "") in text and "→" in text]
    assert len(with_bags) > 1
    assert all("BagRowsOff" in text for text in with_bags), "a table that goes on has its headings"


def squeezed(text):
    """Return a text without spaces, and without the ligatures of paper."""
    return re.sub(r"\s+", "", unicodedata.normalize("NFKC", text))


def require_fit(page):
    """Lay a page out as on paper, A4 on its side: nothing is wider, no plot higher than it."""
    width, height = (int((side - 24) * 96 / 25.4) for side in (297, 210))
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for name in PLOTS:
        box = page.locator(f"#{name} .main-svg").first.bounding_box()
        assert box["x"] + box["width"] <= width
        assert box["height"] <= height
    controls = page.locator("button:visible, input:visible, select:visible")
    assert controls.count() == page.locator("thead button").count()


def placed_texts(page):
    """Return the places, sizes and words of all text that is not rotated."""
    found = []

    def visit(text, cm, tm, _font, size):
        if text.strip():
            matrix = np.array([[*tm[:2], 0], [*tm[2:4], 0], [*tm[4:], 1]]) @ np.array(
                [[*cm[:2], 0], [*cm[2:4], 0], [*cm[4:], 1]]
            )
            found.append((matrix[2, 0], matrix[2, 1], size * np.hypot(*matrix[0, :2]), text))

    page.extract_text(visitor_text=visit)
    return found


# Without some parts


def test_a_page_without_times_and_map_says_so(tabs, folder):
    X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    counts = {"mon": {"sleep": 2 / 3, "tv": 1 / 3}, "tue": {"sleep": 1 / 3, "tv": 2 / 3}}
    model = InvCal().fit(X, bags=["mon"] * 3 + ["tue"] * 3, proportions=counts)
    with tabs.opened(write_report(model, folder / "plain.html")) as found:
        assert found.page.locator("#days, #map-plot, a[href='#days']").count() == 0
        assert "pass X for a map" in found.page.inner_text("#map")
        assert found.page.locator("#bag-plot .main-svg").count()
        found.page.locator("#classes input").first.click()
        assert "without" not in found.page.inner_text("#convergence")
    with tabs.opened(write_report(model, folder / "plain.html", X=X)) as found:
        assert found.page.locator("#map-plot .point").count() == 6


def test_a_page_of_one_row_and_one_class(tabs, folder):
    times = Times(np.array([0]), np.array([60 * SECOND]))
    data = made_up([0], [0], classes=("only",), times=times)
    with tabs.opened(write_page(data, folder / "one.html")) as found:
        page = found.page
        assert n_bars(page) == 1
        page.focus("#timeline")
        page.keyboard.press("ArrowDown")
        assert texts(page, "#timeline-detail") == [
            "only, day 1, 00:00 to 00:01 (60 s), 1 window, confidence 1.00, at least 1.00"
        ] or texts(page, "#timeline-detail")[0].startswith("only, ")
        page.locator("#classes input").click()
        assert n_bars(page) == 0


def test_a_page_without_bags(tabs, folder):
    X = np.array([[0.0, 0], [0.1, 0], [5, 5], [5.1, 5], [0.2, 0], [5.2, 5]])
    model = LabelPropagation().fit(X, np.array(["a", None, "b", None, None, None], dtype=object))
    path = write_report(model, folder / "unbagged.html", start=np.arange(6) * 60)
    with tabs.opened(path) as found:
        page = found.page
        assert "There is no bag" in page.inner_text("#bags")
        assert page.locator("#bag-table, #bag-plot").count() == 0
        assert n_bars(page) == 4
        page.focus("#map-plot")
        page.keyboard.press("Home")
        assert ", in no bag." in page.inner_text("#map-detail")


def large():
    """1,200 bags, of which 1,000 are off, in a day with more changes than can be drawn."""
    sizes = 1 + 7 * np.arange(1200) % 12
    codes = np.repeat(np.arange(1200), sizes)
    seconds = np.arange(len(codes)) * SECOND
    data = made_up(np.arange(len(codes)) % 2, codes, times=Times(seconds, seconds + SECOND))
    for given in (data.report.lower, data.report.upper):
        given[200:] += 5.0
    return data


def test_of_many_bags_the_farthest_off_are_listed_and_a_crowded_day_is_cut(tabs, folder):
    with tabs.opened(write_page(large(), folder / "large.html")) as found:
        page = found.page
        listed = "Of 1,200 bags, the 1,000 farthest off their totals are listed."
        assert listed in page.inner_text("#bags")
        assert texts(page, "#bag-table tbody th") == [f"bag {k}" for k in range(200, 1200)]
        page.locator("#bag-table thead button").nth(1).click()
        sizes = column(page, 1)
        assert sizes == sorted(sizes)
        assert {9, 10} <= set(sizes)
        for _ in range(2):
            page.locator("#bag-table thead button").first.click()
        assert texts(page, "#bag-table tbody th")[:2] == ["bag 1199", "bag 1198"]
        assert page.locator("#timeline-thinned").is_visible()
        assert "1 of 1 days have too many changes to draw: they are cut into slots of 3.9 s" in (
            page.inner_text("#timeline-thinned")
        )
        assert 0 < n_bars(page) <= 2000


def test_bags_that_last_beyond_a_day_go_on_in_the_next(tabs, folder):
    hours = np.arange(48) * 3600 * SECOND
    times = Times(hours, hours + 3600 * SECOND)
    whole = write_page(made_up([0] * 48, [0] * 48, times=times), folder / "whole.html")
    with tabs.opened(whole) as found:
        assert texts(found.page, "#totals .annotation-text") == ["the bag above goes on"]
        assert found.page.locator("#totals .barlayer .point path").count() == 2
    noons = np.repeat([0, 1, 2], [12, 24, 12])
    torn = write_page(made_up([0] * 48, noons, times=times), folder / "torn.html")
    with tabs.opened(torn) as found:
        page = found.page
        assert page.locator("#days.several").count() == 1
        bars = page.locator("#totals .barlayer .point path")
        assert bars.count() == 2 * 4
        assert page.evaluate("report.bags.pieces.start") == [0, 12 * 3600, 0, 12 * 3600]


def test_plots_of_a_diary_speak_of_entries(tabs, folder):
    """No plot, hover text or detail says "bag"."""
    hours = np.arange(48) * 3600 * SECOND
    times = Times(hours, hours + 3600 * SECOND)
    near = np.arange(48)[:, None] - 1
    plan = RowMap(np.arange(48), np.eye(2)[np.arange(48) % 2], near, np.ones((48, 1)), "by hand")
    for k, bags in enumerate(([0] * 48, np.repeat([0, 1, 2], [12, 24, 12]))):
        data = made_up([0] * 48, bags, times=times, maps={"": plan}, bag_word="entry")
        path = folder / f"entries-{k}.html"
        report = replace(data.report, ids=("x", "y", "z")[: len(set(bags))])
        data = replace(data, report=report)
        with tabs.opened(write_page(data, path)) as found:
            page = found.page
            page.focus("#map-plot")
            page.keyboard.press("End")
            hover = page.evaluate("[...plots.values()].flat().flatMap((it) => it.hovertext || [])")
            detail = [*texts(page, "main"), *hover]
            assert "of entry " in detail[0]
            assert any("entry x" in text for text in hover)
            assert not [text for text in detail if re.search(r"\bbag", text, re.IGNORECASE)]


def test_episodes_stand_beside_what_the_diary_says(tabs, folder):
    """Two days of hours: asleep goes on over midnight, and counts in the first."""
    hours = np.arange(48) * 3600 * SECOND
    times = Times(hours, hours + 3600 * SECOND)
    labels = np.repeat([1, 0, 1, 0, 1, 0], [6, 4, 2, 8, 10, 18])
    said = np.array([[np.nan, 2.0], [3.0, 0.0]])
    bags = np.repeat([0, 1], 24)
    data = made_up(labels, bags, times=times, given_episodes=said, bag_word="entry")
    with tabs.opened(write_page(data, folder / "episodes.html")) as found:
        page = found.page
        assert texts(page, "#bag-table tbody td .episodes") == ["2 ×", "3 ×, said 2", "1 ×, said 3"]
        assert texts(page, "#bag-table tbody td")[3] == "12 → 12 3 ×, said 2"
        table = [texts(page, f"#episode-table tbody tr:nth-child({k}) > *") for k in (1, 2)]
        assert table == [["awake", "3", "3", "1"], ["asleep", "3", "2", "3"]]
        hover = page.evaluate("plots.get('totals').flatMap((trace) => trace.hovertext)")
        assert "bag 0, asleep: given 12 h, assigned 12 h<br>3 episodes (said 2)" in hover
        assert "bag 0, awake: given 12 h, assigned 12 h<br>2 episodes" in hover
        assert "bag 1, awake: given 18 h, assigned 18 h<br>1 episode (said 3)" in hover
        assert not found.complaints
    nothing_said = replace(data, given_episodes=None)
    with tabs.opened(write_page(nothing_said, folder / "found.html")) as found:
        assert texts(found.page, "#episode-table thead th") == ["Class", "Found"]
        assert "said" not in texts(found.page, "#bags")[0]
    with tabs.opened(write_page(replace(data, times=None), folder / "no.html")) as found:
        assert found.page.locator("#episode-table, .episodes").count() == 0


def test_the_chosen_bar_has_a_frame(days):
    days.focus("#timeline")
    frames = days.locator("#timeline .shapelayer path")
    assert frames.count() == 0
    days.keyboard.press("ArrowRight")
    assert frames.count() == 1
    before = frames.bounding_box()
    days.keyboard.press("ArrowRight")
    assert frames.count() == 1
    assert frames.bounding_box()["x"] > before["x"]
    days.keyboard.press("End")
    assert frames.count() == 1
