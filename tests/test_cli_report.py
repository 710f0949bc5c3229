"""`label --report` and `report`: one page from a run and from its files, and clear refusals."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from contextlib import chdir
from html import unescape
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.labeling._supervised import row_times
from command_line import (
    KNOWN,
    cells_of,
    day_files,
    done,
    files_of,
    refused,
    run,
    table,
    windows,
    write,
)

pytestmark = pytest.mark.slow

page_module = import_module("apportion.report._page")

DIARY = "participant,date,sleep,out\np1,2024-03-04,8,16\np1,2024-03-05,6,18\n"
BOTH = f"{DIARY}p2,2024-03-04,8,16\np2,2024-03-05,6,18\n"


@pytest.fixture(autouse=True)
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return day_files()


def document(path):
    """Return what the script of a page draws."""
    text = Path(path).read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def words(path):
    """Return the words of a page, without scripts and styles."""
    text = Path(path).read_text(encoding="utf-8")
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", text, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def verdict(path):
    text = Path(path).read_text(encoding="utf-8")
    found = re.search(r'<p id="verdict".*?</header>', text, re.DOTALL)[0]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", found)).split())


def report(readings, known, labels, *more, output="again.html"):
    """Return the page that `report` writes."""
    done("report", readings, *known, "--labels", labels, "-o", output, "--force", "-q", *more)
    return document(output)


def edited(source, target, change):
    """Write the rows of a CSV file again, changed."""
    found = cells_of(Path(source).read_text())
    change(found)
    return write(target, table(**{name: [row[name] for row in found] for name in found[0]}))


def labeled_diary(diary=BOTH, people=("p1", "p2"), *more):
    write("windows.csv", windows(people))
    write("diary.csv", diary)
    known = ["--diary", "diary.csv", *more]
    done("label", "windows.csv", *known, "-o", "labels.csv", "--report", "page.html", "-q")
    return known


# --- label --report ---


def test_the_page_of_a_run_is_what_the_run_found():
    result = done("label", "rows.csv", *KNOWN, "-o", "labels.csv", "--report", "page.html")
    assert "written: page.html, a report to open in a browser" in result.stderr
    answer = cells_of(Path("labels.csv").read_text())
    found = document("page.html")
    counts = Counter(row["label"] for row in answer)
    assert {one["name"]: one["rows"] for one in found["classes"]} == counts
    assert found["timeline"] is None
    assert found["bags"]["names"] == ["mon", "tue", "wed"]
    assert found["bags"]["assigned"] == found["bags"]["lower"] == [[4, 2], [2, 4], [3, 3]]
    (one,) = found["maps"]
    by_id = {row["id"]: row for row in answer}
    names = [found["classes"][h]["name"] for h in one["label"]]
    assert sorted(one["row"]) == sorted(by_id)
    for row, label, bag, masses in zip(one["row"], names, one["bag"], one["masses"], strict=True):
        assert label == by_id[row]["label"]
        assert bag == by_id[row]["day"]
        assert masses[1] == pytest.approx(100 * float(by_id[row]["mass_tv"]), abs=0.5)
    said = words("page.html")
    assert "Labels of rows.csv" in said
    for name in ("rows.csv", "totals.csv"):
        assert f"{name} {len(Path(name).read_bytes()):,} bytes, sha256" in said


def test_a_report_changes_nothing_else():
    plain = done("label", "rows.csv", *KNOWN)
    with_page = done("label", "rows.csv", *KNOWN, "--report", "page.html")
    assert with_page.stdout == plain.stdout
    made = Path("page.html").read_bytes()
    quiet = run("label", "rows.csv", *KNOWN, "--report", "page.html", "--force", "-q")
    assert (quiet.stderr, quiet.stdout) == ("", plain.stdout)
    assert Path("page.html").read_bytes() == made


def test_a_diary_has_days():
    labeled_diary()
    found, answer = document("page.html"), cells_of(Path("labels.csv").read_text())
    shown = found["timeline"]
    assert shown["participants"] == ["p1", "p2"]
    assert shown["days"] == ["Mon 2024-03-04", "Tue 2024-03-05"] * 2
    hours = Counter()
    for lane, start, end, label in zip(
        *(shown[name] for name in ("lane", "start", "end", "label")), strict=True
    ):
        whose = shown["participants"][shown["participant"][lane]]
        hours[whose, shown["days"][lane][4:], label] += (end - start) / 3600
    names = [one["name"] for one in found["classes"]]
    assert hours == Counter(
        (row["participant"], row["start"][:10], names.index(row["label"])) for row in answer
    )
    pieces = found["bags"]["pieces"]
    assert pieces["lane"] == [0, 1, 2, 3]
    assert [found["bags"]["names"][k] for k in pieces["bag"]] == [
        f"{who} 2024-03-0{day}" for who in ("p1", "p2") for day in (4, 5)
    ]


def test_a_diary_has_entries_and_a_table_of_totals_has_bags():
    labeled_diary()
    assert document("page.html")["words"] == {"bag": "entry", "bags": "entries"}
    assert "Rows by entry: given" in words("page.html")
    done("label", "rows.csv", *KNOWN, "--report", "page.html", "--force", "-q")
    assert document("page.html")["words"] == {"bag": "bag", "bags": "bags"}
    assert "Rows by bag: given" in words("page.html")


def test_a_day_begins_when_the_diary_says():
    labeled_diary(DIARY, ("p1",), "--day-start", "04:00")
    found = document("page.html")
    shown = found["timeline"]
    assert shown["days"] == ["Sun 2024-03-03", "Mon 2024-03-04", "Tue 2024-03-05"]
    pieces = found["bags"]["pieces"]
    assert [shown["days"][lane][4:] for lane in pieces["lane"]] == found["bags"]["names"]
    assert pieces["start"] == [4 * 3600, 4 * 3600]
    assert pieces["end"] == [28 * 3600, 24 * 3600]


def test_a_bag_lasts_as_long_as_its_labeled_rows(rows):
    when = [f"2024-03-0{4 + i // 6} 0{i % 6}:00" for i in range(18)]
    write("rows.csv", table(**{**rows, "x": ["", *rows["x"][1:]]}, start=when))
    done("label", "rows.csv", *KNOWN, "--missing", "drop", "--report", "page.html")
    assert document("page.html")["bags"]["pieces"]["start"] == [3600, 0, 0]


def test_a_table_of_bags_with_times_has_days_too(rows):
    when = [f"2024-03-0{4 + i // 6} 0{i % 6}:00" for i in range(18)]
    write("rows.csv", table(**rows, start=when))
    done("label", "rows.csv", *KNOWN, "-o", "labels.csv", "--report", "page.html")
    shown = document("page.html")["timeline"]
    assert shown["days"] == ["Mon 2024-03-04", "Tue 2024-03-05", "Wed 2024-03-06"]
    assert sum(shown["rows"]) == 18
    assert report("rows.csv", KNOWN, "labels.csv")["timeline"] == shown


@given(
    st.sampled_from(["start", "end", "participant"]),
    st.sampled_from(
        [
            [True] * 4, [[1]] * 4, [b"a"] * 4, [None] * 4, [1, None, 2, 3], [np.inf] * 4,
            [1e300] * 4, [{"a": 1}] * 4, ["noon"] * 4, [5.0] * 4, [-(2**62)] * 4, [2**62] * 4,
            ["2024-02-30"] * 4, ["2024-03-04", "2024-03-04T01+01:00", "5", ""],
        ]
    ),
)  # fmt: skip
def test_columns_that_are_called_like_times_and_are_none_do_no_harm(name, cells):
    times, _, problem = row_times(pa.table({"start": [0, 60, 120, 180], **{name: cells}}))
    assert (times is None) == bool(problem)
    assert times is None or len(times.starts) == 4


def test_nonwear_stays_without_a_label():
    lines = windows().splitlines()
    off = ["nonwear", *("yes" if i in (20, 21) else "no" for i in range(48))]
    write("windows.csv", "\n".join(f"{line},{one}" for line, one in zip(lines, off, strict=True)))
    known = ["--diary", write("diary.csv", DIARY)]
    done("label", "windows.csv", *known, "-o", "labels.csv", "--report", "page.html")
    found = document("page.html")
    shown = found["timeline"]
    white = [k for k, label in enumerate(shown["label"]) if label == -1]
    assert [(shown["start"][k], shown["end"][k], shown["rows"][k]) for k in white] == [
        (20 * 3600, 22 * 3600, 2)
    ]
    assert len(found["maps"][0]["row"]) == 46
    assert sum(one["rows"] for one in found["classes"]) == 46
    assert "46 of 48 rows have a label" in verdict("page.html")
    again = report("windows.csv", known, "labels.csv")
    assert {key: again[key] for key in again if key != "runs"} == {
        key: found[key] for key in found if key != "runs"
    }


# --- report: the same page from files ---


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("of", ["table", "diary", "diary each", "dropped"])
def test_a_report_from_files_is_that_of_the_run(of, kind, rows):
    write("windows.csv", windows(("p1", "p2")))
    write("diary.csv", BOTH)
    diary = ["--diary", "diary.csv"]
    readings, known, more = {
        "table": ("rows.csv", KNOWN, []),
        "diary": ("windows.csv", diary, ["--day-start", "04:00"]),
        "diary each": ("windows.csv", diary, ["--graphs", "each"]),
        "dropped": ("gaps.csv", KNOWN, ["--missing", "drop"]),
    }[of]
    write("gaps.csv", table(**{**rows, "x": ["", *rows["x"][1:9], "", *rows["x"][10:]]}))
    known = [*known, *more]
    result = done(
        "label", readings, *known, "-o", f"labels.{kind}", "--report", "page.html", "--json", "-q"
    )
    write("run.json", result.stdout)
    expected = document("page.html")
    found = report(readings, known, f"labels.{kind}")
    if kind == "csv":
        assert found["runs"] == []
        assert {**found, "runs": expected["runs"]} == expected
        found = report(readings, known, "labels.csv", "--summary", "run.json")
    assert found == expected
    assert verdict("again.html") == verdict("page.html")
    assert len(expected["runs"]) == (2 if of == "diary each" else 1)
    for part in ("How the models were fitted", "Settings of LPLLP"):
        one, other = (words(page).partition(part)[2][:300] for page in ("page.html", "again.html"))
        assert one == other != ""


def test_labels_corrected_by_hand_change_the_totals():
    done("label", "rows.csv", *KNOWN, "-o", "labels.csv", "--report", "page.html")
    flipped = {"mon0", "mon1", "tue3"}

    def correct(found):
        for row in found:
            if row["id"] in flipped:
                row["label"] = {"tv": "sleep", "sleep": "tv"}[row["label"]]
            if row["id"] == "wed5":
                row["label"] = ""

    found = report("rows.csv", KNOWN, edited("labels.csv", "mine.csv", correct))
    rows = cells_of(Path("mine.csv").read_text())
    for bag, n, assigned in zip(
        *(found["bags"][name] for name in ("names", "rows", "assigned")), strict=True
    ):
        mine = [row["label"] for row in rows if row["day"] == bag and row["label"]]
        assert n == len(mine)
        assert assigned == [mine.count("sleep"), mine.count("tv")]
    off = sum(
        abs(a - g) for bag in (0, 1, 2)
        for a, g in zip(found["bags"]["assigned"][bag], found["bags"]["lower"][bag], strict=True)
    ) / 2 / 17  # fmt: skip
    assert f"17 of 18 rows have a label, {off:.1%} of the rows in " in verdict("again.html")
    assert "keeps its totals" in verdict("page.html")


def test_a_report_from_files_counts_the_episodes_of_the_run():
    """Also where a label was corrected to an activity that the diary says never happened."""
    write("windows.csv", windows())
    days = "p1,2024-03-04,2 × 4h,16,0\np1,2024-03-05,6,18,0\n"
    write("diary.csv", f"participant,date,sleep,out,nap\n{days}")
    done("label", "windows.csv", "--diary", "diary.csv", "-o", "l.csv", "--report", "r.html", "-q")
    of_run = document("r.html")["bags"]
    assert of_run["said"] == [[None, 2], [None, None]]
    again = report("windows.csv", ("--diary", "diary.csv"), "l.csv")["bags"]
    assert (again["episodes"], again["said"]) == (of_run["episodes"], of_run["said"])
    corrected = cells_of(Path("l.csv").read_text())
    last = max(k for k, row in enumerate(corrected) if row["label"] == "out")
    corrected[last]["label"] = "nap"
    names = ("participant", "start", "label")
    write("c.csv", table(**{name: [row[name] for row in corrected] for name in names}))
    page = report("windows.csv", ("--diary", "diary.csv"), "c.csv")
    assert [one["name"] for one in page["classes"]] == ["nap", "out", "sleep"]
    assert page["bags"]["said"] == [[None, None, 2], [None, None, None]]
    assert [row[0] for row in page["bags"]["episodes"]] == [0, 1]


def test_a_file_of_labels_needs_nothing_but_labels(rows):
    done("label", "rows.csv", *KNOWN, "-o", "labels.csv", "--report", "page.html")
    answer = cells_of(Path("labels.csv").read_text())
    write("few.csv", table(label=[row["label"] for row in answer]))
    found, expected = report("rows.csv", KNOWN, "few.csv"), document("page.html")
    assert found["bags"] == expected["bags"]
    assert found["classes"] == expected["classes"]
    assert {tuple(sorted(one)) for one in found["maps"][0]["masses"]} == {(0, 100)}


@pytest.mark.parametrize("with_ids", [True, False])
def test_labels_in_another_order_find_their_rows(with_ids, rows):
    """By ids, or by the numbers that rows without ids got."""
    if not with_ids:
        write("rows.csv", table(**{name: cells for name, cells in rows.items() if name != "id"}))
    done("label", "rows.csv", *KNOWN, "-o", "labels.csv", "--report", "page.html")
    edited("labels.csv", "mixed.csv", lambda found: np.random.default_rng(0).shuffle(found))
    found, expected = report("rows.csv", KNOWN, "mixed.csv"), document("page.html")
    assert {**found, "runs": expected["runs"]} == expected


def test_rows_with_an_id_that_repeats_go_by_their_place(rows):
    write("rows.csv", table(**{**rows, "id": ["one", *rows["id"][1:-1], "one"]}))
    done("label", "rows.csv", *KNOWN, "-o", "labels.csv", "--report", "page.html")
    assert report("rows.csv", KNOWN, "labels.csv")["maps"] == document("page.html")["maps"]
    edited("labels.csv", "mixed.csv", lambda found: found.reverse())
    says = ["mixed.csv, line 3, column 'id': found 'wed4', where rows.csv, line 3 has 'mon1'"]
    refused("report", "rows.csv", *KNOWN, "--labels", "mixed.csv", "-o", "b.html", says=says)


def test_labels_of_more_rows_are_told():
    done("label", "rows.csv", *KNOWN, "-o", "labels.csv")
    lines = Path("rows.csv").read_text().splitlines()
    write("part.csv", "\n".join(lines[:13]) + "\n")
    write("totals.csv", "day,sleep,tv\nmon,4,2\ntue,2,4\n")
    result = done("report", "part.csv", *KNOWN, "--labels", "labels.csv", "-o", "b.html")
    assert "6 labels of labels.csv of other rows are not used" in result.stderr
    assert "written: b.html, 12 rows" in result.stderr


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_a_spreadsheet_would_take_for_formulas_comes_back(kind, rows):
    ids = ["=1+1", "-x", "@a", "+b", "-5", "\tc", *(f"n{i}" for i in range(12))]
    days = [{"mon": "=mon()"}.get(day, day) for day in rows["day"]]
    write("totals.csv", "day,=1+1,@tv\n=mon(),4,2\ntue,2,4\nwed,3,3\n")
    for columns in ({**rows, "id": ids, "day": days}, {"day": days, "x": rows["x"]}):
        write("rows.csv", table(**columns))
        name = f"labels.{kind}"
        words = ["-o", name, "--report", "page.html", "--force"]
        done("label", "rows.csv", *KNOWN, *words)
        found, expected = report("rows.csv", KNOWN, name), document("page.html")
        assert {one["name"] for one in found["classes"]} == {"=1+1", "@tv"}
        assert found["bags"]["names"][0] == "=mon()"
        assert {**found, "runs": expected["runs"]} == expected


def test_given_labels_in_a_column_called_label(rows):
    """The answer's own column `label` is not that of the rows."""
    plain = {name: cells for name, cells in rows.items() if name != "id"}
    write("rows.csv", table(**plain, label=["tv", "sleep", *[""] * 16]))
    known = [*KNOWN, "--given", "label"]
    done("label", "rows.csv", *known, "-o", "labels.csv", "--report", "page.html")
    found, expected = report("rows.csv", known, "labels.csv"), document("page.html")
    assert {**found, "runs": expected["runs"]} == expected
    assert sum("given" in one for one in found["maps"][0]["reason"]) == 2


def test_reasons_that_are_no_codes_of_ours_do_no_harm():
    done("label", "rows.csv", *KNOWN, "-o", "labels.csv")
    for reasons in (["5"] * 18, ["I changed it; sorry", *[""] * 17], ["tie;tie", *[""] * 17]):

        def change(found, reasons=reasons):
            for row, one in zip(found, reasons, strict=True):
                row["reason"] = one

        found = report("rows.csv", KNOWN, edited("labels.csv", "mine.csv", change))
        assert sorted(found["maps"][0]["reason"]) == sorted(reasons)


def test_titles_and_commands_are_shown():
    done("label", "rows.csv", *KNOWN, "-o", "labels.parquet")
    report("rows.csv", KNOWN, "labels.parquet", "--title", "Week <1>")
    assert "Week <1>" in words("again.html")
    assert "Labels of rows.csv" not in words("again.html")


def test_files_of_one_name_are_both_told(rows):
    for folder in ("a", "b"):
        Path(folder).mkdir()
    write("a/data.csv", Path("rows.csv").read_text())
    write("b/data.csv", Path("totals.csv").read_text())
    known = ["--bags", "day", "--proportions", "b/data.csv"]
    done("label", "a/data.csv", *known, "--report", "page.html")
    assert words("page.html").count("sha256") == 2


def test_what_a_run_notes_is_told_once():
    done("label", "rows.csv", *KNOWN, "-o", "labels.parquet")
    report("rows.csv", KNOWN, "labels.parquet")
    assert words("again.html").count("rows.csv: 18 rows, 2 features") == 1


# --- refusals, before any work ---


@pytest.fixture
def no_work(monkeypatch):
    """Fail where a file is read: an output that cannot be written is refused before."""
    monkeypatch.setattr(
        "apportion.labeling._from_options.supervised_table",
        lambda *_, **__: pytest.fail("work was done"),
    )


@pytest.mark.parametrize(
    ("path", "code", "says"),
    [
        ("page.pdf", 3, "a report is an .html file. Give it that ending."),
        ("page", 3, "a report is an .html file"),
        ("none/page.html", 3, "there is no folder none"),
        ("there.html", 3, "there.html is there already. Name another file, or pass --force."),
        ("folder.html", 3, "folder.html is a folder"),
        ("in.html", 3, "in.html is an input of this command. Name another file."),
    ],
)
@pytest.mark.parametrize("command", ["label", "report"])
def test_a_page_that_could_not_be_written_is_refused_at_once(command, path, code, says, no_work):
    write("there.html", "old")
    write("in.html", "day,sleep,tv\nmon,1,1\n")
    Path("folder.html").mkdir()
    known = ["--bags", "day", "--proportions", "in.html"]
    out = ["--report", path] if command == "label" else ["--labels", "labels.csv", "-o", path]
    refused(command, "rows.csv", *known, *out, code=code, says=says)


def test_a_page_must_not_be_another_file_of_the_command(no_work):
    write("rows.html", "x")
    both = "Two of --output, --model, --report and --episodes name the same file."
    words = ["label", "rows.csv", *KNOWN, "--model", "a.html", "--report", "./a.html"]
    refused(*words, code=2, says=both)
    refused("label", "rows.csv", *KNOWN, "-o", "a.csv", "--report", "a.csv", code=3)
    words = ["report", "rows.csv", *KNOWN, "--labels", "rows.html", "-o", "rows.html", "--force"]
    refused(*words, code=3, says="rows.html is an input of this command")
    words = ["report", "rows.csv", *KNOWN, "--labels", "labels.csv", "--summary", "rows.html"]
    refused(*words, "-o", "rows.html", "--force", code=3, says="is an input of this command")


@pytest.mark.parametrize("package", ["jinja2", "plotly"])
def test_a_missing_tool_is_told_at_once(package, monkeypatch, no_work):
    there = page_module.find_spec
    monkeypatch.setattr(
        page_module, "find_spec", lambda name: None if name == package else there(name)
    )
    says = f"A report needs {package}: install apportion[report]."
    refused("label", "rows.csv", *KNOWN, "--report", "a.html", says=says)
    refused("report", "rows.csv", *KNOWN, "--labels", "l.csv", "-o", "a.html", says=says)


@pytest.mark.parametrize("words", [[], ["--labels", "a.csv"], ["-o", "a.html"]])
def test_what_typer_refuses(words):
    before = files_of(".")
    result = run("report", "rows.csv", *KNOWN, *words)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
    assert files_of(".") == before


# --- refusals: labels that do not fit ---


def test_labels_that_do_not_fit_are_refused_where_they_stand(rows):
    done("label", "rows.csv", *KNOWN, "-o", "labels.csv")
    good = cells_of(Path("labels.csv").read_text())

    def cell(column, value, row=3):
        def change(found):
            found[row][column] = value

        return edited("labels.csv", "mine.csv", change)

    def without(*columns):
        kept = [name for name in good[0] if name not in columns]
        return write("mine.csv", table(**{name: [row[name] for row in good] for name in kept}))

    def cut(n):
        return edited("labels.csv", "mine.csv", lambda found: found.__delitem__(slice(n, None)))

    def no(path, *says, known=KNOWN):
        words = ["report", "rows.csv", *known, "--labels", path, "-o", "page.html"]
        refused(*words, says=["mine.csv" if path != "none.csv" else path, *says])

    no("none.csv", "found no such file")
    no(write("mine.csv", ""), "an empty file")
    no(cell("label", "TV"), "mine.csv, line 5, column 'label': found the label 'TV'", "'sleep'")
    no(without("label"), "found no column 'label', only 'id', 'day', 'mass_sleep'")
    no(cut(16), "mine.csv, column 'id': found no label of 'wed4', 'wed5'", "18 rows of rows.csv")
    no(cell("id", "mon9"), "found no label of 'mon3'")
    no(cell("mass_tv", "much"), "mine.csv, line 5, column 'mass_tv': found 'much'", "from 0 to 1")
    no(cell("mass_tv", "-0.5"), "mine.csv, line 5, column 'mass_tv': found -0.5")
    no(cell("mass_sleep", "inf"), "mine.csv, line 5, column 'mass_sleep': found inf")
    no(write("mine.csv", table(id=rows["id"], label=[""] * 18)), "column 'label': found no label")
    write("rows.csv", table(**{name: cells for name, cells in rows.items() if name != "id"}))
    no(cut(16), "found 16 rows. Allowed: 18, as in rows.csv")
    no(
        cell("day", "sun"),
        "mine.csv, line 5, column 'day': found 'sun', where rows.csv, line 5 has 'mon'",
        "in their order",
    )


def test_labels_of_another_recording_are_refused():
    known = labeled_diary(DIARY, ("p1",))
    text = Path("labels.csv").read_text()
    write("other.csv", text.replace("2024-03-05", "2024-03-06"))
    says = ["other.csv, line 26, column 'start': found '2024-03-06 00:00:00', where windows.csv,"]
    words = ["report", "windows.csv", *known, "--labels", "other.csv", "-o", "b.html"]
    refused(*words, says=says)
    write("other.csv", text.replace("p1", "p9"))
    refused(*words, says=["line 2, column 'participant': found 'p9', where windows.csv, line 2 ha"])


def test_times_that_a_spreadsheet_rewrote_are_let_pass():
    known = labeled_diary(DIARY, ("p1",))
    text = Path("labels.csv").read_text()
    write("other.csv", re.sub(r"2024-03-0(\d) (\d\d):00:00", r"0\1.03.2024 \2 Uhr", text))
    found, expected = report("windows.csv", known, "other.csv"), document("page.html")
    assert found["timeline"] == expected["timeline"]


def test_rows_and_labels_of_different_files_are_compared(rows):
    """Text of CSV and of Parquet is the same text, times in other units are the same times."""
    plain = {name: cells for name, cells in rows.items() if name != "id"}
    start = np.datetime64("2024-03-04T00:00", "us") + np.arange(18) * np.timedelta64(1, "h")
    day = pa.array(rows["day"], pa.large_string())
    pq.write_table(pa.table({**plain, "day": day, "start": start}), "rows.parquet")
    done("label", "rows.parquet", *KNOWN, "-o", "labels.csv", "--report", "page.html")
    found, expected = report("rows.parquet", KNOWN, "labels.csv"), document("page.html")
    assert {**found, "runs": expected["runs"]} == expected

    def change(found):
        found[7]["day"] = "wed"

    edited("labels.csv", "mine.csv", change)
    says = "mine.csv, line 9, column 'day': found 'wed', where rows.parquet, row 7 has 'tue'"
    refused("report", "rows.parquet", *KNOWN, "--labels", "mine.csv", "-o", "b.html", says=says)


RUN = {
    "method": "LPLLP", "settings": {}, "graph": "", "status": "", "success": True, "n_iter": 1,
    "energies": [2, 1], "stationarity": None, "residual": 0, "unique": None,
}  # fmt: skip


def summary(**changes):
    made = {"models": {"all": RUN}, "decode": "quota", "command": "c", "notes": []}
    return json.dumps({**made, **changes})


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", "nonsense", "\xff", "[" * 100_000, '{"models": {}}', "null", "7",
        summary(models=[]), summary(models={"all": None}), summary(models={"all": {}}),
        summary(notes=7), summary(notes=None),
        summary(models={"all": {**RUN, "energies": [1, float("nan")]}}),
        summary(models={"all": {**RUN, "n_iter": float("inf")}}),
        summary(models={"all": {**RUN, "energies": ["much"]}}),
        summary(models={"all": {**RUN, "settings": []}}),
        summary(models={"all": {key: RUN[key] for key in RUN if key != "residual"}}),
    ],
)  # fmt: skip
def test_a_broken_summary_is_refused(text):
    done("label", "rows.csv", *KNOWN, "-o", "labels.csv", "-q")
    write("run.json", text, "latin-1")
    words = ["report", "rows.csv", *KNOWN, "--labels", "labels.csv", "--summary", "run.json"]
    refused(*words, "-o", "page.html", says="run.json: found no summary of a run")
    stored = pq.read_table(_parquet())
    pq.write_table(stored.replace_schema_metadata({b"apportion": text.encode("latin-1")}), "l.pq")
    words = ["report", "rows.csv", *KNOWN, "--labels", "l.pq", "-o", "page.html"]
    refused(*words, says="l.pq: found no summary of a run")


def _parquet():
    done("label", "rows.csv", *KNOWN, "-o", "labels.parquet", "-q", "--force")
    return "labels.parquet"


def test_a_summary_that_is_whole_is_read():
    done("label", "rows.csv", *KNOWN, "-o", "labels.csv", "-q")
    write("run.json", summary(models={"all": {**RUN, "status": "went well", "n_iter": 77}}))
    found = report("rows.csv", KNOWN, "labels.csv", "--summary", "run.json")
    assert found["runs"] == [{"name": "", "energies": [[0, 2.0], [1, 1.0]]}]
    assert "went well" in words("again.html")
    write("run.json", summary(models={"all": RUN, "p2": {**RUN, "success": False}}))
    found = report("rows.csv", KNOWN, "labels.csv", "--summary", "run.json")
    assert [one["name"] for one in found["runs"]] == ["all", "p2"]
    assert "p2: LPLLP" in verdict("again.html")


def test_a_participant_called_all_is_one_of_them():
    known = labeled_diary(BOTH.replace("p1", "all"), ("all", "p2"), "--graphs", "each")
    done("label", "windows.csv", *known, "-o", "labels.parquet")
    found = report("windows.csv", known, "labels.parquet")
    assert found == document("page.html")
    assert [one["name"] for one in found["runs"]] == ["all", "p2"]


@given(
    st.lists(
        st.sampled_from(
            ["", ",", ";", "\n", '"', "label", "tv", "sleep", "mass_tv", "id", "mon0", "1", "nan"]
        ),
        max_size=30,
    )
)
@settings(max_examples=40)
def test_whatever_is_in_a_file_of_labels_one_paragraph_says_so(pieces):
    with TemporaryDirectory() as folder, chdir(folder):
        day_files()
        write("labels.csv", "".join(pieces))
        before = files_of(".")
        words = ["--labels", "labels.csv", "-o", "page.html", "-q"]
        result = run("report", "rows.csv", *KNOWN, *words)
        assert result.exit_code == 1, result.stderr
        assert re.fullmatch(r"apportion: [^\n]+[.?]\n", result.stderr), result.stderr
        assert files_of(".") == before


def test_a_name_that_is_no_text_does_no_harm(monkeypatch):
    """A file's name in other bytes than UTF-8 comes as lone surrogates, also in the command."""
    monkeypatch.setattr(sys, "argv", ["apportion", "label", "--report", "r\udce9.html"])
    result = done("label", "rows.csv", *KNOWN, "-o", "l.parquet", "--report", "p.html", "--json")
    assert json.loads(result.stdout)["command"].endswith("'r\udce9.html'")
    assert r"r\udce9.html" in words("p.html")
    report("rows.csv", KNOWN, "l.parquet")
    assert r"r\udce9.html" in words("again.html")
