"""What goes in and comes out: forms of files, times in ISO 8601, given labels, uncertain rows."""

from __future__ import annotations

import gzip
import json
import re
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apportion.labeling._episodes import bag_codes
from apportion.labeling.rows import Supervision, label_rows
from apportion.supervision.totals import Totals
from command_line import KNOWN, cells_of, day_files, done, refused, table, windows, write

pytestmark = pytest.mark.slow

DIARY = "participant,date,sleep,out\np1,2024-03-04,8,16\np1,2024-03-05,6,18\n"
BY_DIARY = ("--diary", "diary.csv")
EPOCH = datetime(1970, 1, 1)


@pytest.fixture(autouse=True)
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("windows.csv", windows())
    write("diary.csv", DIARY)
    return day_files()


def labels(*words):
    return cells_of(done("label", *words, "-q").stdout)


def spreadsheet(name, rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(name)
    return name


# Times


def in_seconds(shift=0):
    """Write the windows with seconds since 1970, as of a clock so many hours ahead of UTC."""
    rows = cells_of(windows())
    for row in rows:
        for name in ("start", "end"):
            moment = datetime.fromisoformat(row[name]) - timedelta(hours=shift)
            row[name] = int((moment - EPOCH).total_seconds())
    write("seconds.csv", table(**{name: [row[name] for row in rows] for name in rows[0]}))


def test_seconds_since_1970_come_out_in_iso_form_in_the_zone_of_the_run():
    in_seconds(shift=1)
    expected = labels("windows.csv", *BY_DIARY)
    answer = labels("seconds.csv", *BY_DIARY, "--timezone", "Europe/Paris")
    for row, one in zip(answer, expected, strict=True):
        assert row["label"] == one["label"]
        for name in ("start", "end"):
            assert row[name] == f"{one[name]}+01:00"


def test_seconds_with_days_of_utc_come_out_in_utc_also_in_parquet():
    in_seconds()
    answer = labels("seconds.csv", *BY_DIARY)
    assert answer[8]["start"] == "2024-03-04T08:00:00+00:00"
    done("label", "seconds.csv", *BY_DIARY, "-o", "labels.parquet", "-q")
    start = pq.read_table("labels.parquet").column("start")
    assert start.type == pa.timestamp("us", "UTC")
    assert start[8].as_py().isoformat() == answer[8]["start"]


def test_seconds_of_a_diary_in_seconds_have_no_zone():
    in_seconds()
    first = int((datetime(2024, 3, 4) - EPOCH).total_seconds())
    days = [(first + k * 86400, first + (k + 1) * 86400, 8 - 2 * k, 16 + 2 * k) for k in range(2)]
    lines = "".join(f"p1,{start},{end},{a},{b}\n" for start, end, a, b in days)
    write("diary.csv", f"participant,start,end,sleep,out\n{lines}")
    assert labels("seconds.csv", *BY_DIARY)[8]["start"] == "2024-03-04T08:00:00"


def test_times_of_another_form_come_out_in_iso_form():
    text = windows()
    rows = cells_of(text)
    for row in rows:
        for name in ("start", "end"):
            row[name] = datetime.fromisoformat(row[name]).strftime("%d.%m.%Y %H:%M")
    write("german.csv", table(**{name: [row[name] for row in rows] for name in rows[0]}))
    more = ("--time-format", "%d.%m.%Y %H:%M")
    expected = cells_of(text)
    for row, one in zip(labels("german.csv", *BY_DIARY, *more), expected, strict=True):
        assert (row["start"], row["end"]) == (one["start"], one["end"])


def test_seconds_since_a_recording_began_stay_and_so_do_other_columns():
    rows = cells_of(windows())
    seconds = [3600 * k for k in range(len(rows))]
    columns = {name: [row[name] for row in rows] for name in ("a", "b")}
    write("rows.csv", table(start=seconds, epoch=[1709535600 + s for s in seconds], **columns))
    write("diary.csv", "start,end,sleep,out\n0,86400,8,16\n86400,172800,6,18\n")
    answer = labels("rows.csv", *BY_DIARY, "--window", "1h", "--all-columns")
    assert [row["start"] for row in answer] == [str(s) for s in seconds]
    assert [row["epoch"] for row in answer] == [str(1709535600 + s) for s in seconds]


@pytest.mark.parametrize("change", [str, lambda s: s.replace("T", " "), lambda s: f"{s}Z"])
def test_iso_times_stay_byte_for_byte(change):
    rows = cells_of(windows())
    for row in rows:
        row["start"], row["end"] = change(row["start"]), change(row["end"])
    write("windows.csv", table(**{name: [row[name] for row in rows] for name in rows[0]}))
    for more in ((), ("--timezone", "UTC")):
        answer = labels("windows.csv", *BY_DIARY, *more)
        assert [row["start"] for row in answer] == [row["start"] for row in rows]


def test_seconds_beside_a_column_of_bags_come_out_in_iso_form(rows):
    seconds = [1709535600 + 60 * k for k in range(18)]
    write("rows.csv", table(**rows, start=seconds))
    answer = labels("rows.csv", *KNOWN)
    assert answer[1]["start"] == "2024-03-04T07:01:00"
    done("label", "rows.csv", *KNOWN, "--model", "model.zip", "-o", "labels.csv", "-q")
    again = cells_of(done("predict", "model.zip", "rows.csv", "-q").stdout)
    assert again[1]["start"] == "2024-03-04T07:01:00"


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_report_of_labels_whose_times_were_seconds(form):
    in_seconds()
    done("label", "seconds.csv", *BY_DIARY, "-o", f"labels.{form}", "-q")
    words = ("--labels", f"labels.{form}", "-o", "report.html", "-q")
    done("report", "seconds.csv", *BY_DIARY, *words)
    Path("report.html").unlink()
    lines = Path("seconds.csv").read_text().splitlines()
    write("seconds.csv", "\n".join([lines[0], *reversed(lines[1:])]))
    refused("report", "seconds.csv", *BY_DIARY, *words[:-1], says="column 'start'")


# Given labels in a table


def given_of(answer):
    return {k: row["label"] for k, row in enumerate(answer) if "given" in row["reason"]}


def flipped(label):
    return "tv" if label == "sleep" else "sleep"


def test_a_table_of_given_labels_is_matched_by_id(rows):
    plain = labels("rows.csv", *KNOWN)
    wrong = flipped(plain[2]["label"])
    write("known.csv", f"label,id\n,mon1\n{wrong},mon2\n")
    expected = [""] * 18
    expected[2] = wrong
    write("column.csv", table(**rows, known=expected))
    by_column = labels("column.csv", *KNOWN, "--given", "known")
    by_table = labels("rows.csv", *KNOWN, "--given", "known.csv")
    assert given_of(by_table) == {2: wrong}
    assert [row["label"] for row in by_table] == [row["label"] for row in by_column]


@pytest.mark.parametrize("mark", ["given", "corrected", "Changed", "keep"])
@pytest.mark.parametrize("yes", ["yes", "1", "TRUE", "x"])
def test_our_own_labels_with_marks_are_given_labels(mark, yes):
    done("label", "rows.csv", *KNOWN, "-o", "labels.csv", "-q")
    answer = cells_of(Path("labels.csv").read_text())
    for row in answer:
        row[mark] = ""
    answer[5]["label"], answer[5][mark] = flipped(answer[5]["label"]), yes
    write("corrected.csv", table(**{name: [row[name] for row in answer] for name in answer[0]}))
    again = labels("rows.csv", *KNOWN, "--given", "corrected.csv")
    assert given_of(again) == {5: answer[5]["label"]}
    if mark == "given" and yes == "yes":
        done("diagnose", "rows.csv", *KNOWN, "--given", "corrected.csv")


def test_a_column_of_corrections_holds_the_labels():
    done("label", "rows.csv", *KNOWN, "-o", "labels.csv", "-q")
    answer = cells_of(Path("labels.csv").read_text())
    wrong = flipped(answer[5]["label"])
    corrections = ["" if k != 5 else wrong for k in range(18)]
    columns = {name: [row[name] for row in answer] for name in answer[0]}
    write("corrected.csv", table(**columns, corrected=corrections))
    assert given_of(labels("rows.csv", *KNOWN, "--given", "corrected.csv")) == {5: wrong}


def test_our_own_labels_without_marks_are_refused():
    done("label", "rows.csv", *KNOWN, "-o", "labels.csv", "-q")
    says = ["labels.csv: found labels of an earlier run, and no column", "add a column 'given'"]
    refused("label", "rows.csv", *KNOWN, "--given", "labels.csv", says=says)


@pytest.mark.parametrize("form", ["iso", "seconds", "zone", "row"])
def test_a_table_of_given_labels_is_matched_by_start_or_number(form):
    in_seconds()
    rows_file = "windows.csv" if form in ("iso", "row") else "seconds.csv"
    done("label", rows_file, *BY_DIARY, "-o", "labels.csv", "-q")
    answer = cells_of(Path("labels.csv").read_text())
    wrong = "out" if answer[3]["label"] == "sleep" else "sleep"
    when = answer[3]["start"] if form != "seconds" else str(1709510400 + 3 * 3600)
    key = {"row": [3]} if form == "row" else {"participant": ["p1"], "start": [when]}
    write("known.csv", table(label=[wrong], **key))
    assert given_of(labels(rows_file, *BY_DIARY, "--given", "known.csv")) == {3: wrong}


def test_given_labels_of_windows_that_were_not_worn_are_reported_as_not_used():
    rows = cells_of(windows())
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    write("windows.csv", table(**columns, nonwear=["yes" if k == 3 else "" for k in range(48)]))
    starts = [rows[k]["start"] for k in (2, 3)]
    write("known.csv", table(participant=["p1", "p1"], start=starts, label=["sleep", "sleep"]))
    said = done("label", "windows.csv", *BY_DIARY, "--given", "known.csv").stderr
    assert "1 given label not used, because the row is not labeled (non-wear)" in said


def test_participants_that_look_like_formulas_are_matched_as_we_write_them():
    write("windows.csv", windows(("=p1", "p2")))
    write("diary.csv", DIARY.replace("p1", "=p1") + DIARY.partition("\n")[2].replace("p1", "p2"))
    done("label", "windows.csv", *BY_DIARY, "-o", "labels.csv", "-q")
    answer = cells_of(Path("labels.csv").read_text())
    assert answer[3]["participant"] == "'=p1"
    columns = {name: [answer[3][name]] for name in ("participant", "start", "label")}
    write("known.csv", table(**columns))
    again = labels("windows.csv", *BY_DIARY, "--given", "known.csv")
    assert given_of(again) == {3: answer[3]["label"]}


def test_given_tables_of_all_forms_and_columns_go_together(rows):
    write("rows.csv", table(**rows, known=["tv", *[""] * 17]))
    cells = [["id", "label"], ["wed0", "tv"]]
    write("a.csv.gz", gzip.compress(b"id,label\nwed0,tv\n", mtime=0))
    pq.write_table(pa.table({"id": ["wed0"], "label": ["tv"]}), "b.parquet")
    spreadsheet("c.xlsx", cells)
    for name in ("a.csv.gz", "b.parquet", "c.xlsx"):
        answer = labels("rows.csv", *KNOWN, "--given", "known", "--given", name)
        assert given_of(answer) == {0: "tv", 12: "tv"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id,label\nmon0,tv\nsun9,tv\n", ["known.csv, line 3, column 'id'", "'sun9'", "no row"]),
        ("id,label\nmon0,radio\n", ["known.csv, line 2, column 'label'", "the label 'radio'"]),
        ("id,label\nmon0,tv\nmon0,tv\n", ["known.csv, line 2 and line 3", "two labels of 'mon0'"]),
        ("id,label\nmon0,\n", ["column 'label': found no label that counts"]),
        ("id,what\nmon0,tv\n", ["no column 'label' or 'given', only 'id', 'what'"]),
        ("name,label\nmon0,tv\n", ["no column that says which row a label is of"]),
        ("id,label,keep\nmon0,tv,yes\nmon1,tv,no\nmon9,tv,no\n,tv,yes\n", ["line 5", "no row"]),
        (
            "id,label,given\nmon0,tv,yes\nmon1,,yes\n",
            ["known.csv, line 3, column 'label'", "no label, in a line that is marked in column"],
        ),
    ],
)
def test_tables_of_given_labels_that_cannot_be_used(text, says):
    write("known.csv", text)
    refused("label", "rows.csv", *KNOWN, "--given", "known.csv", says=says)


def test_given_labels_that_contradict_each_other(rows):
    write("rows.csv", table(**rows, known=["tv", *[""] * 17]))
    write("known.csv", "id,label\nmon0,sleep\n")
    says = ["rows.csv, line 2", "the labels 'tv' and 'sleep'"]
    refused("label", "rows.csv", *KNOWN, "--given", "known", "--given", "known.csv", says=says)


def test_a_table_of_given_labels_is_not_written_over():
    write("known.csv", "id,label\nmon0,tv\n")
    words = ("label", "rows.csv", *KNOWN, "--given", "known.csv", "-o", "known.csv", "--force")
    refused(*words, code=3, says="is an input of this command")
    refused("label", "rows.csv", *KNOWN, "--given", "none.csv", says="no such file")


# Rows that are uncertain


def test_uncertain_rows_have_no_label_and_keep_their_masses(rows):
    write("rows.csv", table(**rows, known=["tv", *[""] * 17]))
    given = (*KNOWN, "--given", "known")
    plain = labels("rows.csv", *given)
    sure = np.array([float(row["confidence"]) for row in plain])
    below = float(np.median(sure))
    result = done(
        "label", "rows.csv", *given, "--abstain-below", repr(below), "--json", "-o", "l.csv"
    )
    answer = cells_of(Path("l.csv").read_text())
    for k, (row, one) in enumerate(zip(answer, plain, strict=True)):
        kept = sure[k] >= below or k == 0
        assert row["label"] == (one["label"] if kept else "")
        assert ("uncertain" in row["reason"].split(";")) == (not kept)
        assert row["confidence"] == one["confidence"]
        assert row["mass_tv"] == one["mass_tv"]
    n_kept = sum(bool(row["label"]) for row in answer)
    assert 0 < n_kept < 18
    assert f"{n_kept} of 18 rows keep a label ({n_kept / 18:.1%})" in result.stderr
    summary = json.loads(result.stdout)
    assert summary["labelled_share"] == n_kept / 18
    assert summary["abstain_below"] == below
    assert sum(summary["assigned"].values()) == n_kept
    assert sum(sum(bag["assigned"].values()) for bag in summary["bags"]) == 18


def test_given_labels_never_abstain(rows):
    write("rows.csv", table(**rows, known=["tv", *[""] * 17]))
    answer = labels("rows.csv", *KNOWN, "--given", "known", "--abstain-below", "1")
    assert answer[0]["label"] == "tv"


def test_python_abstains_like_the_command():
    X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [2.6]])
    totals = Totals.from_counts({"mon": {"sleep": 2, "tv": 1}, "tue": {"sleep": 1, "tv": 1}})
    bags = np.array(["mon", "mon", "mon", "tue", "tue", None], dtype=object)
    known = Supervision(bags, totals, None, None, {})
    plain = label_rows(X, known)
    below = float(np.sort(plain.confidence)[2])
    found = label_rows(X, known, abstain_below=below)
    kept = plain.confidence >= below
    assert found.labels.tolist() == [
        one if keep else None for one, keep in zip(plain.labels.tolist(), kept, strict=True)
    ]
    with pytest.raises(ValueError, match=r"`abstain_below` must be from 0 to 1\. Got 2"):
        label_rows(X, known, abstain_below=2)


@pytest.mark.parametrize("share", ["-0.1", "1.5", "nan"])
def test_a_share_to_abstain_below(share):
    says = "--abstain-below must be from 0 to 1"
    refused("label", "rows.csv", *KNOWN, "--abstain-below", share, code=2, says=says)


def test_models_and_reports_of_uncertain_rows():
    plain = labels("rows.csv", *KNOWN)
    below = float(np.median([float(row["confidence"]) for row in plain]))
    words = ("--abstain-below", repr(below), "-q")
    more = ("--report", "r.html", "-o", "l.csv")
    done("label", "rows.csv", *KNOWN, *words, *more, "--model", "m.zip")
    done("label", "rows.csv", *KNOWN, *words, "--model", "i.zip", "--labels-only", "-o", "l2.csv")
    assert "uncertain" in Path("r.html").read_text()
    assert any(not row["label"] for row in cells_of(Path("l.csv").read_text()))
    done("report", "rows.csv", *KNOWN, "--labels", "l.csv", "-o", "again.html", "-q")
    again = cells_of(done("predict", "i.zip", "rows.csv", "-q").stdout)
    assert [row["label"] for row in again] == [row["label"] for row in plain]
    fewer = cells_of(done("predict", "i.zip", "rows.csv", *words).stdout)
    for row, one in zip(fewer, plain, strict=True):
        assert (row["label"] == "") == (float(one["confidence"]) < below)
        assert row["reason"] == ("" if row["label"] else "uncertain")
    done("predict", "m.zip", "rows.csv", *words)


def test_a_report_counts_uncertain_rows_in_their_bags():
    known = Supervision(
        np.array(["mon"] * 3 + ["tue"] * 3, dtype=object),
        Totals.from_counts({"mon": {"sleep": 2, "tv": 1}, "tue": {"sleep": 1, "tv": 2}}),
        None,
        None,
        {"non-wear": np.arange(6) == 5},
    )
    X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    found = label_rows(X, known, abstain_below=1.0)
    assert bag_codes(known.bags, found, found.report).tolist() == [0, 0, 0, 1, 1, -1]
    assert any(one is None for one in found.labels[:5])


def test_a_report_of_a_file_judges_uncertain_rows_as_the_report_of_the_run_does():
    rng = np.random.default_rng(0)
    right = rng.permutation(np.repeat([0, 1], 30))
    bags = np.repeat(["mon", "tue", "wed"], 20)
    x = right + 0.6 * rng.normal(size=60)
    write("mixed.csv", table(id=[f"r{i}" for i in range(60)], day=bags.tolist(), x=x.tolist()))
    counts = [[int(np.sum(right[bags == bag] == h)) for bag in dict.fromkeys(bags)] for h in (0, 1)]
    write("mixed_totals.csv", table(day=["mon", "tue", "wed"], sleep=counts[0], tv=counts[1]))
    known = ("--bags", "day", "--proportions", "mixed_totals.csv")
    sure = [float(row["confidence"]) for row in labels("mixed.csv", *known)]
    below = repr(float(np.median(sure)))
    words = ("--abstain-below", below, "-o", "l.csv", "--report", "run.html", "-q")
    done("label", "mixed.csv", *known, *words)
    done("report", "mixed.csv", *known, "--labels", "l.csv", "-o", "file.html", "-q")
    of_run, of_file = (Path(name).read_text() for name in ("run.html", "file.html"))
    kept = re.search(r"\d+ of 60 rows have a label, [^:]*:", of_run)
    assert kept is not None
    assert kept[0] in of_file


# Files


def test_compressed_text_is_read_like_text():
    expected = labels("windows.csv", *BY_DIARY)
    for name in ("windows.csv", "diary.csv", "totals.csv", "rows.csv"):
        write(f"{name}.gz", gzip.compress(Path(name).read_bytes(), mtime=0))
    assert labels("windows.csv.gz", "--diary", "diary.csv.gz") == expected
    expected = labels("rows.csv", *KNOWN)
    assert labels("rows.csv.gz", "--bags", "day", "--proportions", "totals.csv.gz") == expected
    write("wide.csv.gz", gzip.compress(Path("rows.csv").read_text().encode("utf-16"), mtime=0))
    assert labels("wide.csv.gz", *KNOWN) == expected
    write("broken.csv.gz", gzip.compress(b"id,day,x\nmon0,mon,1\nmon1,mon\n", mtime=0))
    refused("label", "broken.csv.gz", *KNOWN, says="broken.csv.gz, line 3: found 2 cells")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (gzip.compress(b"id,day\n" * 999, mtime=0)[:-20], "no whole gzip file"),
        (gzip.compress(b"id,day\n" * 999, mtime=0)[:20] + b"\xff" * 30, "no whole gzip file"),
        (b"id,day,x\n", "no whole gzip file"),
        (gzip.compress(b"", mtime=0), "an empty file"),
        (b"", "an empty file"),
        (gzip.compress(gzip.compress(b"id,day\n", mtime=0), mtime=0), "a compressed file"),
    ],
)
def test_damaged_compressed_text(content, says):
    write("rows.csv.gz", content)
    refused("label", "rows.csv.gz", *KNOWN, says=["rows.csv.gz: found", says])
    refused("label", "rows.csv", "--bags", "day", "--proportions", "rows.csv.gz", says=says)


def test_compressed_text_by_another_name():
    write("rows.csv", gzip.compress(Path("rows.csv").read_bytes(), mtime=0))
    refused("label", "rows.csv", *KNOWN, says="call it .csv.gz")


def test_spreadsheets_are_read_like_text(rows):
    expected = labels("rows.csv", *KNOWN)
    spreadsheet("rows.xlsx", [list(rows), *zip(*rows.values(), strict=True)])
    spreadsheet(
        "totals.xlsx", [["day", "sleep", "tv"], ["mon", 4, 2], ["tue", 2, 4], ["wed", 3, 3]]
    )
    answer = labels("rows.xlsx", "--bags", "day", "--proportions", "totals.xlsx")
    assert answer == expected


def test_dates_times_and_durations_of_a_spreadsheet():
    expected = labels("windows.csv", *BY_DIARY)
    lines = cells_of(windows())
    cells = [
        [row["participant"], *(datetime.fromisoformat(row[n]) for n in ("start", "end")),
         float(row["a"]), float(row["b"])]
        for row in lines
    ]  # fmt: skip
    spreadsheet("windows.xlsx", [["Participant", "Start time", "End_Time", "a", "b"], *cells])
    day = [datetime(2024, 3, 4).date(), datetime(2024, 3, 5).date()]
    eight, sixteen = timedelta(hours=8), timedelta(hours=16)
    spreadsheet(
        "diary.xlsx",
        [
            ["Participant ID", "Date", "sleep", "out"],
            ["p1", day[0], eight, sixteen],
            ["p1", day[1], eight - timedelta(hours=2), sixteen + timedelta(hours=2)],
        ],
    )
    answer = labels("windows.xlsx", "--diary", "diary.xlsx")
    assert [row["label"] for row in answer] == [row["label"] for row in expected]
    assert [row["Start time"] for row in answer] == [row["start"] for row in lines]


def test_ids_of_a_spreadsheet_are_text(rows):
    numbers = list(range(18))
    cells = [["id", "day", "x", "y", "flag"]]
    cells += [[k, *line, k % 2 == 0] for k, line in zip(
        numbers, zip(rows["day"], rows["x"], rows["y"], strict=True), strict=True)]  # fmt: skip
    spreadsheet("rows.xlsx", [[], *cells[:5], [None, None], *cells[5:]])
    answer = labels("rows.xlsx", *KNOWN, "--id", "id", "--all-columns")
    assert [row["id"] for row in answer] == [str(k) for k in numbers]
    assert answer[0]["flag"] == "true"
    cells[6][0] = 3
    spreadsheet("rows.xlsx", [[], *cells[:5], [None, None], *cells[5:]])
    refused("label", "rows.xlsx", *KNOWN, "--id", "id", says="rows.xlsx, line 9, column 'id'")


def test_percentages_of_a_spreadsheet():
    book = openpyxl.Workbook()
    for row in (["day", "sleep", "tv"], ["mon", 2 / 3, 1 / 3], ["tue", 1 / 3, 2 / 3]):
        book.active.append(row)
    book.active.append(["wed", 0.5, 0.5])
    for row in book.active["B2:C4"]:
        for cell in row:
            cell.number_format = "0%"
    book.save("t.xlsx")
    said = done("label", "rows.csv", "--bags", "day", "--proportions", "t.xlsx").stderr
    assert "read as percentages" in said


def hostile_sheet(kind):
    book = openpyxl.Workbook()
    sheet = book.active
    if kind == "merged":
        for row in (["amount", None, "tv"], ["mon", 4, 2]):
            sheet.append(row)
        sheet.merge_cells("A1:B1")
    elif kind == "title":
        for row in (["Diary of patient 7", None, None], ["day", "sleep", "tv"], ["mon", 4, 2]):
            sheet.append(row)
        sheet.merge_cells("A1:C1")
    elif kind == "header":
        sheet.append(["day", "sleep", "tv"])
    elif kind == "long":
        sheet.append(["day", "sleep", "tv"])
        sheet.append(["mon", 4, 2, None, "note"])
    elif kind == "twice":
        sheet.append(["day", "sleep", "sleep"])
        sheet.append(["mon", 4, 2])
    book.save("t.xlsx")
    data = Path("t.xlsx").read_bytes()
    forms = {
        "encrypted": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600,
        "nothing": b"",
        "text": b"day,sleep,tv\n",
        "cut": data[: len(data) // 2],
        "zip": b"PK\3\4" + b"\0" * 40,
    }
    write("t.xlsx", forms.get(kind, data))


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("title", "line 1: found one cell, 'Diary of patient 7', above lines of 3"),
        ("merged", "column 2: found no name in the header"),
        ("header", "t.xlsx: found no"),
        ("long", "t.xlsx, line 2: found 5 cells. Allowed: 3, as in the header"),
        ("twice", "the same name, 'sleep'"),
        ("empty", "an empty file"),
        ("nothing", "an empty file"),
        ("encrypted", "a spreadsheet that is encrypted, or of the older form .xls"),
        ("text", "what does not begin as a spreadsheet does"),
        ("cut", "no whole spreadsheet"),
        ("zip", "no whole spreadsheet"),
    ],
)
def test_spreadsheets_that_cannot_be_read(kind, says):
    hostile_sheet(kind)
    refused("label", "rows.csv", "--bags", "day", "--proportions", "t.xlsx", says=says)
    refused("label", "t.xlsx", *KNOWN, says=says)


def test_spreadsheets_without_openpyxl(monkeypatch):
    spreadsheet("t.xlsx", [["day", "sleep", "tv"], ["mon", 4, 2]])
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    refused("label", "t.xlsx", *KNOWN, says="install apportion[xlsx]")


@pytest.mark.parametrize("header", ["Start time,End time,Activity", "start_time,END-TIME,activity"])
def test_headers_of_a_diary_in_any_spelling(header):
    lines = "2024-03-04T00:00,2024-03-04T08:00,sleep\n2024-03-04T08:00,2024-03-05T00:00,out\n"
    write("diary.csv", f"start,end,activity\n{lines}")
    expected = labels("windows.csv", *BY_DIARY)
    write("diary.csv", f"{header}\n{lines}")
    assert labels("windows.csv", *BY_DIARY) == expected


# Episodes


def slow_episodes(answer):
    """Return runs of labels of hourly windows, by a walk through the rows in time."""
    found = []
    for row in sorted(answer, key=lambda row: (row["participant"], row["start"])):
        last = found[-1] if found else None
        if last and row["label"] and last[:2] == [row["participant"], row["label"]]:
            away = datetime.fromisoformat(row["start"]) - datetime.fromisoformat(last[3])
            if away <= timedelta(hours=1):
                last[3] = row["end"]
                last[4].append(float(row["confidence"]))
                continue
        sure = [float(row["confidence"] or 0)]
        found.append([row["participant"], row["label"], row["start"], row["end"], sure])
    return [one for one in found if one[1]]


def test_episodes_are_those_of_a_slow_walk_through_the_rows():
    rows = cells_of(windows(("p2", "p1")))
    kept = [row for k, row in enumerate(rows) if k % 24 not in (3, 4, 12)]
    order = np.random.default_rng(0).permutation(len(kept))
    mixed = [kept[k] for k in order]
    write("windows.csv", table(**{name: [row[name] for row in mixed] for name in rows[0]}))
    write("diary.csv", DIARY + DIARY.partition("\n")[2].replace("p1", "p2"))
    words = (*BY_DIARY, "--abstain-below", "0.6", "-o", "labels.csv", "--episodes", "episodes.csv")
    said = done("label", "windows.csv", *words).stderr
    answer = cells_of(Path("labels.csv").read_text())
    expected = slow_episodes(answer)
    episodes = cells_of(Path("episodes.csv").read_text())
    names = ["participant", "start", "end", "label", "minutes", "confidence"]
    assert list(episodes[0]) == names
    assert f"written: episodes.csv, {len(expected)} episodes" in said
    key = {(one[0], one[2]): one for one in expected}
    assert len(episodes) == len(key) == len(expected)
    for row in episodes:
        who, label, start, end, sure = key[row["participant"], row["start"]]
        assert (row["participant"], row["label"], row["end"]) == (who, label, end)
        lasted = datetime.fromisoformat(end) - datetime.fromisoformat(start)
        assert float(row["minutes"]) == lasted.total_seconds() / 60
        assert float(row["confidence"]) == pytest.approx(np.mean(sure))
    assert any(row["start"][:10] != row["end"][:10] for row in episodes)


def test_episodes_have_the_zone_of_the_run():
    in_seconds(shift=1)
    more = ("--timezone", "Europe/Paris", "-o", "labels.csv", "--episodes", "episodes.csv", "-q")
    done("label", "seconds.csv", *BY_DIARY, *more)
    first = cells_of(Path("episodes.csv").read_text())[0]
    assert first["start"] == "2024-03-04T00:00:00+01:00"
    done("label", "seconds.csv", *BY_DIARY, *more[:2], "--episodes", "e.parquet", "-q")
    assert pq.read_table("e.parquet").column("start").type == pa.timestamp("us", "Europe/Paris")


def test_episodes_need_times():
    says = ["rows.csv: found no column of times", "leave out --episodes"]
    refused("label", "rows.csv", *KNOWN, "--episodes", "e.csv", says=says)
    refused("label", "rows.csv", *KNOWN, "--episodes", "e.txt", code=3, says="only .csv and")
    words = ("-o", "e.csv", "--episodes", "e.csv")
    refused("label", "rows.csv", *KNOWN, *words, code=2, says="name the same file")


def test_labels_that_contradict_an_entry_are_an_error_about_the_entry():
    """A diary of which an activity takes no time on a day, and a window of it that is given."""
    write("windows.csv", windows(days=2))
    write("diary.csv", "participant,date,sleep,out\np1,2024-03-04,24,0\np1,2024-03-05,6,18\n")
    write("more.csv", "participant,start,label\np1,2024-03-04T00:00:00,out\n")
    says = [
        "windows.csv, line 2 in entry '2024-03-04': found the label 'out', given to 1 row of it",
        "Allowed: exactly 0 of them",
        "with --tolerance",
    ]
    refused("label", "windows.csv", "--diary", "diary.csv", "--given", "more.csv", says=says)
