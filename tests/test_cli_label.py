"""Labels from files: the same as from the library, in every form, and everything is said."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import apportion
from apportion import LPLLP, Totals
from apportion.cli import app
from apportion.cli.app import COMMANDS
from apportion.labeling.rows import REASONS
from apportion.persistence import load_model
from command_line import (
    KNOWN,
    cells_of,
    day_files,
    day_rows,
    done,
    files_of,
    refused,
    run,
    table,
    windows,
    write,
)

pytestmark = pytest.mark.slow

COUNTS = {"mon": [4, 2], "tue": [2, 4], "wed": [3, 3]}
DIARY = "participant,date,sleep,out\np1,2024-03-04,8,16\np1,2024-03-05,6,18\n"


@pytest.fixture(autouse=True)
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return day_files()


def labels(*words):
    return cells_of(done("label", *words, "-q").stdout)


def strict_json(text):
    def no(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=no)


# The answer


def test_labels_are_those_of_the_library(rows):
    X = np.column_stack([rows["x"], rows["y"]])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    totals = Totals.from_counts({day: {"sleep": n, "tv": m} for day, (n, m) in COUNTS.items()})
    model = LPLLP(random_state=0).fit(X, bags=rows["day"], proportions=totals)
    answer = labels("rows.csv", *KNOWN)
    assert [row["label"] for row in answer] == model.transduction_.tolist()
    masses = [[float(row["mass_sleep"]), float(row["mass_tv"])] for row in answer]
    np.testing.assert_allclose(masses, model.label_distributions_, atol=1e-12)
    sure = [float(row[f"mass_{row['label']}"]) for row in answer]
    assert [float(row["confidence"]) for row in answer] == sure
    assert [row["id"] for row in answer] == rows["id"]
    assert list(answer[0]) == [
        "id", "day", "label", "mass_sleep", "mass_tv", "confidence", "reason",
    ]  # fmt: skip


def test_every_bag_keeps_its_counts():
    counts = Counter((row["day"], row["label"]) for row in labels("rows.csv", *KNOWN))
    for day, (n_sleep, n_tv) in COUNTS.items():
        assert (counts[day, "sleep"], counts[day, "tv"]) == (n_sleep, n_tv)


def test_all_ways_to_write_agree():
    printed = done("label", "rows.csv", *KNOWN).stdout
    done("label", "rows.csv", *KNOWN, "-o", "labels.csv")
    done("label", "rows.csv", *KNOWN, "-o", "labels.parquet")
    assert Path("labels.csv").read_bytes().decode() == printed
    stored = pq.read_table("labels.parquet")
    written = cells_of(printed)
    assert stored.column_names == list(written[0])
    for name in ("id", "day", "label", "reason"):
        assert stored.column(name).to_pylist() == [row[name] for row in written]
    for name in ("mass_sleep", "mass_tv", "confidence"):
        assert stored.column(name).to_pylist() == [float(row[name]) for row in written]


def test_all_ways_to_read_agree(rows):
    expected = labels("rows.csv", *KNOWN)
    text = Path("rows.csv").read_text()
    swapped = text.replace(",", ";").replace(".", ",")
    attributes = "".join(f"@ATTRIBUTE '{name}' string\n" for name in rows)
    forms = {
        "a.csv": text.replace("\n", "\r\n"),
        "b.csv": text.replace("\n", "\r"),
        "c.csv": f"\n\n{text}\n",
        "d.csv": swapped,
        "e.tsv": text.replace(",", "\t"),
        "f.txt": text.replace(",", "|"),
        "g": text,
        "h.csv": "\n".join(f"{line}," for line in text.splitlines()),
        "i.csv": text.replace("id,day", '"id","day"').replace("mon0", '"mon0"'),
        "j.arff": f"% of days\n@relation rows\n{attributes}@data\n{text.partition(chr(10))[2]}",
    }
    for name, content in forms.items():
        assert labels(write(name, content), *KNOWN) == expected, name
    pq.write_table(pa.table(rows), "k.parquet")
    pq.write_table(pa.table({**rows, "day": pa.array(rows["day"]).dictionary_encode()}), "l.pq")
    for name in ("k.parquet", "l.pq"):
        assert labels(name, *KNOWN) == expected, name


@pytest.mark.parametrize(
    "text",
    [
        "day,sleep,tv\nmon,0.666667,0.333333\ntue,0.333333,0.666667\nwed,0.5,0.5\n",
        "day,sleep,tv\nmon,66.6667,33.3333\ntue,33.3333,66.6667\nwed,50,50\n",
        "day,sleep,tv\nmon,66.6667%,33.3333 %\ntue,33.3333%,66.6667%\nwed,50%,50%\n",
        "bag;tv;sleep\nwed;50;50\nmon;33,3333;66,6667\ntue;66,6667;33,3333\n",
        "bag,class,count\nmon,sleep,4\nmon,tv,2\ntue,sleep,2\ntue,tv,4\nwed,sleep,3\nwed,tv,3\n",
        "day,label,value\nmon,sleep,4\nmon,tv,2\ntue,sleep,2\ntue,tv,4\nwed,sleep,3\nwed,tv,3\n",
        "day,sleep,tv\nmon,4,\ntue,2,\nwed,3,\n",
    ],
)
def test_all_forms_of_totals_agree(text):
    expected = [row["label"] for row in labels("rows.csv", *KNOWN)]
    more = ["--unit", "count"] if ",\n" in text else []
    write("totals.csv", text)
    assert [row["label"] for row in labels("rows.csv", *KNOWN, *more)] == expected


def test_totals_from_parquet_agree():
    expected = labels("rows.csv", *KNOWN)
    counts = {"day": list(COUNTS), "sleep": [4, 2, 3], "tv": [2, 4, 3]}
    pq.write_table(pa.table(counts), "t.parquet")
    assert labels("rows.csv", "--bags", "day", "--proportions", "t.parquet") == expected


def test_rows_in_another_order_keep_their_labels(rows):
    order = np.random.default_rng(1).permutation(18)
    mixed = {name: [column[i] for i in order] for name, column in rows.items()}
    expected = {row["id"]: row["label"] for row in labels("rows.csv", *KNOWN)}
    write("rows.csv", table(**mixed))
    answer = labels("rows.csv", *KNOWN)
    assert [row["id"] for row in answer] == mixed["id"]
    assert {row["id"]: row["label"] for row in answer} == expected


def test_columns_that_the_answer_keeps(rows):
    write("rows.csv", table(day=rows["day"], label=rows["id"], x=rows["x"]))
    answer = labels("rows.csv", *KNOWN)
    assert list(answer[0])[:3] == ["row", "day", "label"]
    assert [row["row"] for row in answer] == [str(i) for i in range(18)]
    result = done("label", "rows.csv", *KNOWN, "--all-columns", "--features", "x")
    assert list(cells_of(result.stdout)[0])[:4] == ["row", "day", "x", "label"]
    assert "not kept, as the answer has columns called so: label" in result.stderr


def test_ids_and_times_are_kept(rows):
    when = [f"2024-03-04 0{i % 9}:00" for i in range(18)]
    write("rows.csv", table(**rows, when=when, subject_id=["p"] * 18))
    for more in ([], ["--features", "x"], ["--exclude", "*e*"]):
        answer = labels("rows.csv", *KNOWN, *more)
        assert list(answer[0])[:5] == ["id", "day", "when", "subject_id", "label"]


# Supervision


def test_given_labels_are_kept(rows):
    plain = [row["label"] for row in labels("rows.csv", *KNOWN)]
    known = [""] * 18
    known[0] = "sleep" if plain[0] == "tv" else "tv"
    known[17] = plain[17]
    write("rows.csv", table(**rows, known=known))
    answer = labels("rows.csv", *KNOWN, "--given", "known")
    assert [(i, row["label"]) for i, row in enumerate(answer) if "given" in row["reason"]] == [
        (0, known[0]),
        (17, known[17]),
    ]
    assert Counter(row["label"] for row in answer[:6]) == {"sleep": 4, "tv": 2}
    assert float(answer[0]["confidence"]) == 1.0


def test_rows_in_no_bag(rows):
    days = ["sun" if i in (3, 9) else "" if i == 15 else day for i, day in enumerate(rows["day"])]
    write("rows.csv", table(**{**rows, "day": days}))
    write("totals.csv", "day,sleep,tv\nmon,3,2\ntue,1,4\nwed,3,2\nthu,9,9\n")
    result = done("label", "rows.csv", *KNOWN)
    answer = cells_of(result.stdout)
    assert [i for i, row in enumerate(answer) if row["reason"] == "unbagged"] == [3, 9, 15]
    assert all(row["label"] for row in answer)
    assert "3 of 18 rows are in no bag of totals.csv: 'sun'; their neighbors" in result.stderr
    assert "1 bag without a row: 'thu'" in result.stderr
    assert "unbagged, 3 rows: no totals cover the row" in result.stderr


def test_threshold_says_where_a_bag_is_off(rows):
    write("totals.csv", "day,sleep,tv\nmon,1,5\ntue,5,1\nwed,3,3\n")
    wanted = {"mon": (1, 5), "tue": (5, 1), "wed": (3, 3)}
    assert not any("outside" in row["reason"] for row in labels("rows.csv", *KNOWN))
    answer = labels("rows.csv", *KNOWN, "--decode", "threshold")
    counts = Counter((row["day"], row["label"]) for row in answer)
    for row in answer:
        most_likely = max(("sleep", "tv"), key=lambda name: float(row[f"mass_{name}"]))
        assert row["label"] == most_likely
        total = wanted[row["day"]][("sleep", "tv").index(row["label"])]
        off = counts[row["day"], row["label"]] != total
        assert ("outside-interval" in row["reason"]) == off
    assert any("outside" in row["reason"] for row in answer)


@pytest.mark.parametrize("unit", ["count", "share"])
def test_missing_cells(rows, unit):
    if unit == "share":
        write("totals.csv", "day,sleep,tv\nmon,0.667,0.333\ntue,0.333,0.667\nwed,0.5,0.5\n")
    z = [str(i * i % 7) for i in range(18)]
    gaps = ["" if i in (3, 4) else one for i, one in enumerate(z)]
    median = np.median([float(one) for one in gaps if one])
    write("filled.csv", table(**rows, z=[one or median for one in gaps]))
    write("rows.csv", table(**rows, z=gaps))
    filled = labels("rows.csv", *KNOWN)
    assert not any(row["reason"] for row in filled)  # they have 2 of 3 features
    assert all(row["label"] for row in filled)
    dropped = labels("rows.csv", *KNOWN, "--missing", "drop")
    assert [i for i, row in enumerate(dropped) if not row["label"]] == [3, 4]
    assert set(dropped[3].values()) == {"mon3", "mon", "", "missing-features"}
    counts = Counter((row["day"], row["label"]) for row in dropped if row["label"])
    assert (counts["tue", "sleep"], counts["tue", "tv"]) == (2, 4)
    assert 2 <= counts["mon", "sleep"] <= 3
    assert "missing cells: z 11%; filled with" in done("label", "rows.csv", *KNOWN).stderr
    assert "see --missing" not in done("label", "filled.csv", *KNOWN).stderr


def test_reasons_are_counted_right(rows):
    days = ["" if i in (3, 9) else day for i, day in enumerate(rows["day"])]
    write("rows.csv", table(**{**rows, "day": days, "x": [*rows["x"][:-1], ""]}))
    write("totals.csv", "day,sleep,tv\nmon,3,2\ntue,2,3\nwed,3,3\n")
    result = done("label", "rows.csv", *KNOWN, "--json", "-o", "labels.csv")
    answer = cells_of(Path("labels.csv").read_text())
    counted = Counter(code for row in answer for code in row["reason"].split(";") if code)
    assert strict_json(result.stdout)["reasons"] == counted
    assert counted["unbagged"] == 2
    for code, count in counted.items():
        assert f"{code}, {count} row{'s' * (count != 1)}: {REASONS[code]}" in result.stderr


def test_an_only_row_of_a_class_far_away_is_isolated(rows):
    write("rows.csv", table(**{**rows, "x": [1e6, *rows["x"][1:]]}))
    answer = labels("rows.csv", *KNOWN, "--no-scale", "--graph", "rbf")
    assert "isolated" in answer[0]["reason"]


def test_one_class_that_fills_all_bags():
    write("totals.csv", "day,sleep,tv\nmon,1,0\ntue,1,0\nwed,1,0\n")
    assert {row["label"] for row in labels("rows.csv", *KNOWN)} == {"sleep"}


# Features


def test_features_by_name_pattern_and_exclusion(rows):
    write("rows.csv", table(**rows, acc_x=rows["x"], acc_y=rows["y"], noise=range(0, 180, 10)))
    expected = [row["label"] for row in labels("rows.csv", *KNOWN, "--features", "acc_*")]
    for more in (
        ["--features", "x", "--features", "y"],
        ["--features", "?"],
        ["--exclude", "noise", "--exclude", "acc_*"],
        ["--features", "acc_*", "--features", "noise", "--exclude", "noi*"],
    ):
        assert [row["label"] for row in labels("rows.csv", *KNOWN, *more)] == expected
    said = done("label", "rows.csv", *KNOWN, "--exclude", "acc_*").stderr
    assert "rows.csv: 18 rows, 3 features: x, y, noise" in said
    assert "acc_x (excluded), acc_y (excluded)" in said


def test_what_is_no_feature_is_said(rows):
    write(
        "rows.csv",
        table(
            **rows,
            truth=[" Sleep", "TV "] * 9,
            start=[f"2024-03-04T0{i % 9}:00" for i in range(18)],
            epoch=range(0, 18000, 1000),
            sensorID=["a", "b"] * 9,
            humid=range(0, 36, 2),
            grid=["a", "b", "c"] * 6,
        ),
    )
    said = done("label", "rows.csv", *KNOWN).stderr
    assert "18 rows, 4 features: x, y, humid, grid" in said
    assert "categories: grid" in said
    for one in (
        "id (an id, by its name)",
        "day (the bags)",
        "truth (its values are the classes; known labels are --given)",
        "start (a time)",
        "epoch (a time, by its name)",
        "sensorID (an id, by its name)",
    ):
        assert one in said


def test_a_column_of_classes_changes_nothing(rows):
    expected = labels("rows.csv", *KNOWN)
    for truth in (["tv", "sleep"] * 9, ["tv", ""] * 9, [" TV", "Sleep "] * 9):
        write("rows.csv", table(**rows, truth=truth))
        assert labels("rows.csv", *KNOWN) == expected
        assert labels("rows.csv", *KNOWN, "--features", "*") == expected
    kind = pa.array(["tv", "sleep"] * 9).dictionary_encode()
    pq.write_table(pa.table({**rows, "truth": kind}), "rows.parquet")
    assert labels("rows.parquet", *KNOWN) == expected


def test_numbers_that_are_the_classes_are_no_feature(rows):
    write("totals.csv", "day,0,1\nmon,4,2\ntue,2,4\nwed,3,3\n")
    expected = labels("rows.csv", *KNOWN)
    for truth in ([0, 1] * 9, ["0.0", "1.0"] * 9, ["1", ""] * 8 + ["0", "0"]):
        write("rows.csv", table(**rows, truth=truth))
        assert labels("rows.csv", *KNOWN) == expected


def test_a_thousand_categories_are_left_out():
    n = 2000
    rows = {"day": ["mon", "tue"] * (n // 2), "x": [i * 37 % 101 / 7 for i in range(n)]}
    write("totals.csv", "day,sleep,tv\nmon,0.7,0.3\ntue,0.4,0.6\n")
    write("plain.csv", table(**rows))
    write("rows.csv", table(**rows, c=[f"c{i % 1000}" for i in range(n)]))
    result = done("label", "rows.csv", *KNOWN)
    assert "c (1,000 different texts such as " in result.stderr
    assert result.stdout == done("label", "plain.csv", *KNOWN).stdout


def test_categories_and_codes(rows):
    codes = [f"00{i % 3}" for i in range(18)]
    write("rows.csv", table(**rows, code=codes, room=["kitchen", "bath", ""] * 6))
    result = done("label", "rows.csv", *KNOWN, "--all-columns", "--categorical", "code")
    answer = cells_of(result.stdout)
    assert [row["code"] for row in answer] == codes
    assert (
        "categories: code (3 texts: '000', '001', '002'), room (2 texts: 'bath', 'kitchen')"
        in result.stderr
    )
    assert "missing cells: room 33%; filled" in result.stderr


def test_ids_with_leading_zeros_fit_in_all_files(rows):
    codes = {"mon": "0001", "tue": "0002", "wed": "12"}
    write("rows.csv", table(**{**rows, "day": [codes[day] for day in rows["day"]]}))
    write("totals.csv", "day,sleep,tv\n0001,4,2\n0002,2,4\n12,3,3\n")
    answer = labels("rows.csv", *KNOWN)
    assert {row["day"] for row in answer} == set(codes.values())
    assert not any(row["reason"] for row in answer)


# Names that bite


NASTY = ["=cmd|' /C calc'!A0", "+1+1", "@SUM(A1)", "-2+3", "\tx", "＝1", "-5", "+4.5e-3", "a=b"]


def test_formulas_are_neutralized_in_csv_and_kept_in_parquet(rows):
    ids = NASTY + [f"n{i}" for i in range(9)]
    write("rows.csv", table(**{**rows, "id": ids}))
    write("totals.csv", "day,=sleep(),-7\nmon,4,2\ntue,2,4\nwed,3,3\n")
    result = done("label", "rows.csv", *KNOWN)
    answer = cells_of(result.stdout)
    safe = [f"'{one}" for one in NASTY[:6]] + NASTY[6:]
    assert [row["id"] for row in answer[:9]] == safe
    assert {row["label"] for row in answer} == {"'=sleep()", "-7"}
    n_sleep = sum(row["label"] == "'=sleep()" for row in answer)
    assert f"{6 + n_sleep} texts that a spreadsheet would take for formulas" in result.stderr
    done("label", "rows.csv", *KNOWN, "-o", "labels.parquet")
    stored = pq.read_table("labels.parquet")
    assert stored.column("id").to_pylist() == ids
    assert set(stored.column("label").to_pylist()) == {"=sleep()", "-7"}


def test_headers_are_neutralized_and_negative_numbers_stay(rows):
    write("rows.csv", table(**{**rows, "x": [-x for x in rows["x"]]}, **{"=y": rows["y"]}))
    answer = cells_of(done("label", "rows.csv", *KNOWN, "--all-columns").stdout)
    assert "'=y" in answer[0]
    assert [float(row["x"]) for row in answer] == [-x for x in rows["x"]]


@pytest.mark.parametrize(
    "names",
    [
        ("a, b", 'c "d"'),
        ("a\nb", "c\td"),
        ("寝る", "τηλεόραση"),
        ("[red]x[/red]", "[/]"),
        ("label", "confidence"),
        ("mass_a", "a"),
        ("\x1b[31mred", "%s {0}"),
    ],
)
def test_class_names_of_any_form(names):
    out = io.StringIO()
    csv.writer(out).writerows([["day", *names], *([day, *two] for day, two in COUNTS.items())])
    write("totals.csv", out.getvalue())
    expected = [row["label"] for row in labels("rows.csv", *KNOWN)]
    assert set(expected) == {name.strip() for name in names}
    result = done("label", "rows.csv", *KNOWN, "-o", "labels.csv", "--json")
    assert "\x1b" not in result.stderr
    assert [row["label"] for row in cells_of(Path("labels.csv").read_bytes().decode())] == expected
    assert sorted(strict_json(result.stdout)["classes"]) == sorted(set(expected))


def test_quoted_lines_and_long_cells(rows):
    ids = ['a "quoted"\nline', "x" * 3_000_000, *rows["id"][2:]]
    write("rows.csv", table(**{**rows, "id": ids}))
    done("label", "rows.csv", *KNOWN, "-o", "labels.parquet")
    assert pq.read_table("labels.parquet").column("id").to_pylist() == ids


# Diaries


def test_a_diary_gives_the_hours(rows):
    write("windows.csv", windows())
    result = done("label", "windows.csv", "--diary", write("diary.csv", DIARY))
    answer = cells_of(result.stdout)
    hours = Counter((row["start"][:10], row["label"]) for row in answer)
    assert hours == {
        ("2024-03-04", "sleep"): 8,
        ("2024-03-04", "out"): 16,
        ("2024-03-05", "sleep"): 6,
        ("2024-03-05", "out"): 18,
    }
    for rule in ("--unit auto:", "--uncovered unknown:", "no --timezone:", "--graphs auto:"):
        assert rule in result.stderr
    assert "participant (the participant), start (the start), end (the end)" in result.stderr


def test_a_graph_for_each_participant_is_a_run_for_each():
    people = ("00001", "00002")
    write("windows.csv", windows(people))
    write("diary.csv", "".join([
        "participant,date,sleep,out\n",
        *(f"{who},2024-03-0{4 + d},{8 - 2 * d},{16 + 2 * d}\n" for who in people for d in (0, 1)),
    ]))  # fmt: skip
    words = ["--diary", "diary.csv", "--no-scale"]
    together = labels("windows.csv", *words, "--graphs", "each")
    assert [row["participant"] for row in together] == ["00001"] * 48 + ["00002"] * 48
    apart = []
    for who in people:
        lines = windows(people).splitlines(keepends=True)
        mine = [line for line in lines if line.startswith((who, "participant"))]
        apart += labels(write("one.csv", "".join(mine)), *words)
    for one, other in zip(together, apart, strict=True):
        del one["row"], other["row"]
        assert one == other


def test_a_participant_without_entries_is_not_labeled():
    write("windows.csv", windows(("p1", "p2")))
    words = ["windows.csv", "--diary", write("diary.csv", DIARY)]
    answer = labels(*words, "--graphs", "each")
    assert {row["reason"] for row in answer[48:]} == {"no-totals"}
    assert {row["label"] for row in answer[48:]} == {""}
    assert all(row["label"] for row in answer[:48])
    assert all(row["label"] for row in labels(*words, "--graphs", "one"))


def test_windows_without_a_worn_sensor_are_not_labeled():
    lines = windows().splitlines()
    off = ["nonwear", *("yes" if i in (20, 21) else "no" for i in range(48))]
    write("windows.csv", "\n".join(f"{line},{one}" for line, one in zip(lines, off, strict=True)))
    answer = labels("windows.csv", "--diary", write("diary.csv", DIARY))
    assert [i for i, row in enumerate(answer) if row["reason"] == "non-wear"] == [20, 21]
    assert [i for i, row in enumerate(answer) if not row["label"]] == [20, 21]


def test_named_periods_are_no_features(rows):
    write("diary.csv", "Tag,sleep,tv\nmon,4h,2h\ntue,2h,4h\nwed,3h,3h\n")
    write("rows.csv", table(Tag=rows["day"], id=rows["id"], x=rows["x"], y=rows["y"]))
    words = ["--diary", "diary.csv", "--diary-column", "period=Tag", "--window", "1h"]
    result = done("label", "rows.csv", *words)
    assert "rows.csv: 18 rows, 2 features: x, y" in result.stderr
    assert "Tag (the period)" in result.stderr
    expected = [row["label"] for row in labels("rows.csv", "--bags", "Tag", "--proportions",
                write("totals.csv", "Tag,sleep,tv\nmon,4,2\ntue,2,4\nwed,3,3\n"))]  # fmt: skip
    assert [row["label"] for row in cells_of(result.stdout)] == expected


# Talk


def test_json_is_complete(rows):
    result = done("label", "rows.csv", *KNOWN, "--json", "--output", "labels.csv", "--quiet")
    assert result.stderr == ""
    found = strict_json(result.stdout)
    assert found["apportion"] == apportion.__version__
    assert found["rows"] == 18
    assert found["classes"] == ["sleep", "tv"]
    assert found["assigned"] == {"sleep": 9, "tv": 9}
    assert found["bag_error"] == 0
    assert [bag["bag"] for bag in found["bags"]] == list(COUNTS)
    for bag in found["bags"]:
        n_sleep, n_tv = COUNTS[bag["bag"]]
        assert bag["rows"] == 6
        assert bag["given"] == {"sleep": [n_sleep, n_sleep], "tv": [n_tv, n_tv]}
        assert bag["assigned"] == {"sleep": n_sleep, "tv": n_tv}
    assert set(found["models"]) == {"all"}
    assert found["models"]["all"]["status"].startswith("converged")
    assert any("2 features: x, y" in note for note in found["notes"])


def test_quiet_is_silent_and_data_are_on_stdout_only():
    loud = done("label", "rows.csv", *KNOWN, "--model", "model.zip")
    quiet = done("label", "rows.csv", *KNOWN, "--model", "m.zip", "--quiet")
    assert quiet.stderr == ""
    assert quiet.stdout == loud.stdout
    assert "18 training rows: share it as carefully as the data" in loud.stderr
    assert "rows in bags, by class" in loud.stderr
    assert "4 → 4" in loud.stderr
    assert done("predict", "model.zip", "rows.csv", "-q").stderr == ""
    assert done("diagnose", "rows.csv", *KNOWN, "-q").stderr == ""


def test_inputs_stay_as_they_are():
    before = files_of(".")
    done("label", "rows.csv", *KNOWN)
    done("diagnose", "rows.csv", *KNOWN)
    assert files_of(".") == before


def test_many_bags_and_classes_are_shown_in_part():
    n, bags, classes = 200, 20, 12
    days = [f"d{i % bags}" for i in range(n)]
    write("rows.csv", table(day=days, x=[i * i % 97 for i in range(n)]))
    lines = [",".join(["day", *(f"class number {h}" for h in range(classes))])]
    lines += [",".join([f"d{k}", *("10" if h == k % classes else "0" for h in range(classes))])
              for k in range(bags)]  # fmt: skip
    write("totals.csv", "\n".join(lines) + "\n")
    said = done("label", "rows.csv", *KNOWN).stderr
    assert "rows by bag, off the given totals" in said
    assert "… and 8 more bags; --json lists all" in said


def test_diagnose(rows):
    text = done("diagnose", "rows.csv", *KNOWN)
    assert text.stdout.startswith("No two classes stand in the same, or almost the same, ratio in")
    assert "3 bags, 2 classes, read as counts" in text.stderr
    found = strict_json(done("diagnose", "rows.csv", *KNOWN, "--json").stdout)
    assert found["classes"] == ["sleep", "tv"]
    assert [pair["classes"] for pair in found["pairs"]] == [["sleep", "tv"]]
    assert found["rank"] == 2
    write("totals.csv", "day,sleep,tv\nmon,3,3\ntue,3,3\nwed,3,3\n")
    found = strict_json(done("diagnose", "rows.csv", *KNOWN, "--json").stdout)
    assert found["uninformative"]
    assert "The totals do not tell 'sleep' from 'tv' apart" in found["findings"][0]


def test_advice_names_options_not_parameters():
    write("totals.csv", "day,sleep,tv\nmon,0.5,0.5\ntue,0.49,0.51\nwed,0.5,0.5\n")
    said = done("label", "rows.csv", *KNOWN).stderr
    assert "or some labels (--given), would tell them apart" in " ".join(said.split())
    assert "`y`" not in said


# Models


def saved(*more):
    return done("label", "rows.csv", *KNOWN, "--model", "model.zip", *more)


def test_predict_is_the_model_s_own_answer(rows):
    saved()
    model = load_model("model.zip").model
    X = np.column_stack([rows["x"], rows["y"]])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = model.predict_proba(X)
    answer = cells_of(done("predict", "model.zip", "rows.csv").stdout)
    assert [row["label"] for row in answer] == model.predict(X).tolist()
    masses = [[float(row["mass_sleep"]), float(row["mass_tv"])] for row in answer]
    np.testing.assert_allclose(masses, expected, atol=1e-12)
    assert [row["id"] for row in answer] == rows["id"]


def test_predict_takes_columns_in_any_order_and_any_form(rows):
    saved()
    expected = [row["label"] for row in cells_of(done("predict", "model.zip", "rows.csv").stdout)]
    write("new.csv", table(z=["?"] * 18, y=rows["y"], id=rows["id"], x=rows["x"]).replace(",", ";"))
    pq.write_table(pa.table({"y": rows["y"], "x": rows["x"]}), "new.parquet")
    for name in ("new.csv", "new.parquet"):
        done("predict", "model.zip", name, "-o", f"{name}.csv")
        answer = cells_of(Path(f"{name}.csv").read_text())
        assert [row["label"] for row in answer] == expected
    assert [row["row"] for row in answer] == [str(i) for i in range(18)]


def test_predict_with_unseen_categories_and_missing_cells(rows):
    write("rows.csv", table(**rows, room=["kitchen", "bath", "hall"] * 6))
    saved()
    write("new.csv", "id,room,x,y\n1,kitchen,0,0\n2,attic,0,0\n3,,0,0\n4, bath ,,\n")
    words = ["predict", "model.zip", "new.csv", "-o", "labels.csv", "--json"]
    result = done(*words)
    answer = cells_of(Path("labels.csv").read_text())
    assert [row["reason"] for row in answer] == [
        "", "unseen-category", "", "missing-features",
    ]  # fmt: skip
    assert all(row["label"] for row in answer)
    found = strict_json(result.stdout)
    assert found["reasons"] == {"missing-features": 1, "unseen-category": 1}
    assert found["rows"] == sum(found["assigned"].values()) == 4
    assert "1 row with a category that no fitted row has" in result.stderr
    assert "missing cells: x 25%, y 25%, room 25%; filled" in result.stderr
    assert "--missing" not in result.stderr  # an option of label alone


def test_a_model_that_drops_missing_cells_drops_them_again(rows):
    write("rows.csv", table(**{**rows, "x": ["", *rows["x"][1:]]}))
    saved("--missing", "drop")
    answer = cells_of(done("predict", "model.zip", "rows.csv").stdout)
    assert [row["label"] == "" for row in answer] == [True] + [False] * 17
    assert load_model("model.zip").contents == "17 training rows"


def test_numbers_as_categories_are_the_same_in_every_file(rows):
    write("rows.csv", table(**rows, room=[1, 2, 3] * 6))
    saved("--categorical", "room")
    expected = [row["label"] for row in cells_of(done("predict", "model.zip", "rows.csv").stdout)]
    write("new.csv", table(**rows, room=["1.0", "2.0", "3.0"] * 6))
    answer = cells_of(done("predict", "model.zip", "new.csv").stdout)
    assert [row["label"] for row in answer] == expected
    assert {row["reason"] for row in answer} == {""}


@pytest.mark.parametrize("form", ["{:03}", "{}", "w{}"])
def test_labels_only(rows, form):
    ids = [form.format(i) for i in range(18)]
    write("rows.csv", table(**{**rows, "id": ids, "x": ["", *rows["x"][1:]]}))
    result = saved("--labels-only", "--missing", "drop")
    assert "a model with no training rows, only ids and labels" in result.stderr
    assert load_model("model.zip").model is None
    answer = cells_of(result.stdout)
    write("new.csv", table(id=[*ids[9:5:-1], "new", ids[0]]))
    again = cells_of(done("predict", "model.zip", "new.csv").stdout)
    assert [row["label"] for row in again[:4]] == [answer[i]["label"] for i in (9, 8, 7, 6)]
    assert [row["mass_tv"] for row in again[:4]] == [answer[i]["mass_tv"] for i in (9, 8, 7, 6)]
    assert {(row["label"], row["reason"]) for row in again[4:]} == {("", "unknown-row")}


def test_a_model_of_a_diary_has_one_graph():
    write("windows.csv", windows(("p1", "p2")))
    write("diary.csv", DIARY)
    words = ["windows.csv", "--diary", "diary.csv", "--uncovered", "unknown"]
    result = done("label", *words, "--model", "model.zip", "--graphs", "one")
    assert "--graphs one: windows of all participants are compared with each other" in result.stderr
    assert len(cells_of(done("predict", "model.zip", "windows.csv").stdout)) == 96


def test_ids_that_repeat_are_told():
    rows = day_rows()
    write("same.csv", table(**{**rows, "id": ["one", *rows["id"][1:-1], "one"]}))
    words = ["--bags", "day", "--proportions", "totals.csv"]
    assert "several rows have the same 'id'" in done("label", "same.csv", *words).stderr
    assert "the same 'id'" not in done("label", "rows.csv", *words).stderr
    refused("label", "same.csv", *words, "--id", "id", says="the id 'one'")


def test_a_model_never_changes_the_labels_in_silence():
    """Where everybody would have a graph of their own, one graph must be asked for."""
    write("windows.csv", windows(("p1", "p2")))
    both = [line.replace("p1", who) for who in ("p1", "p2") for line in DIARY.splitlines()[1:]]
    night = [line.rsplit(",", 1)[0] + "," for line in both]
    write("diary.csv", "\n".join([DIARY.splitlines()[0], *night]) + "\n")
    words = ["label", "windows.csv", "--diary", "diary.csv"]
    assert "--graphs auto: every participant" in done(*words).stderr
    refused(*words, "--model", "model.zip", code=2, says="Pass --graphs one")


def test_predict_says_which_rows_are_off_and_which_are_alone():
    lines = windows().splitlines()
    marked = [f"{lines[0]},nonwear", *(f"{one},{int(k == 3)}" for k, one in enumerate(lines[1:]))]
    write("windows.csv", "\n".join(marked))
    write("diary.csv", DIARY)
    done("label", "windows.csv", "--diary", "diary.csv", "--model", "model.zip")
    far = "p1,2024-03-06T00:00:00,2024-03-06T01:00:00,1e9,1e9,0"
    write("new.csv", "\n".join([*marked[:6], far]))
    answer = cells_of(done("predict", "model.zip", "new.csv").stdout)
    assert [row["reason"] for row in answer] == ["", "", "", "non-wear", "", "isolated"]
    assert [bool(row["label"]) for row in answer] == [True, True, True, False, True, True]


# The demo


def test_the_demo_runs_from_files_to_labels():
    words = ["demo", "a folder", "--days", "2", "--participants", "1", "--minutes", "15"]
    result = done(*words)
    assert result.stdout == ""
    folder = Path("a folder")
    assert sorted(path.name for path in folder.iterdir()) == [
        "diary.csv", "labels.csv", "report.html", "truth.csv", "windows.csv",
    ]  # fmt: skip
    assert "1 made-up person, 2 days, windows of 15 min" in result.stderr
    assert "$ apportion label 'a folder/windows.csv' --diary 'a folder/diary.csv'" in result.stderr
    assert "labeled windows are right" in result.stderr
    assert "nan" not in result.stderr
    made = files_of(folder)
    assert run(*words).exit_code == 3
    assert files_of(folder) == made
    done(*words, "--force")
    told = {path: content.replace(b" --force", b"") for path, content in files_of(folder).items()}
    assert told == made
    again = ["label", folder / "windows.csv", "--diary", folder / "diary.csv"]
    assert done(*again, "-q").stdout == (folder / "labels.csv").read_text()


def test_help_names_every_option():
    for command in COMMANDS:
        result = run(command, "--help")
        assert result.exit_code == 0
        assert any(word in result.stdout for word in ("READINGS", "EVENTS", "FOLDER"))
    assert {command.name for command in app.registered_commands} == {*COMMANDS, None}


# Activities that never happen, and what entries account for

ZERO_DIARY = "participant,date,sleep,out,ski\np1,2024-03-04,8,16,0\np1,2024-03-05,6,18,0\n"


def with_column(text, name, cells):
    """Return CSV text with one more column."""
    lines = text.splitlines()
    return (
        "\n".join(f"{line},{cell}" for line, cell in zip(lines, [name, *cells], strict=True)) + "\n"
    )


def test_an_activity_that_never_happens_is_no_class_but_its_name_is_still_known():
    truth = ["sleep"] * 8 + ["out"] * 16 + ["sleep"] * 6 + ["out"] * 18 + ["ski"] * 24
    given = [""] * 71 + ["ski"]
    write("windows.csv", with_column(with_column(windows(days=3), "truth", truth), "hint", given))
    write("diary.csv", ZERO_DIARY)
    known = ("windows.csv", "--diary", "diary.csv", "--exclude", "hint", "--output")
    said = done("label", *known, "plain.csv").stderr
    assert "truth (its values are the classes" in " ".join(said.split())
    assert "are no classes: 'ski'" in " ".join(said.split())
    assert "mass_ski" not in Path("plain.csv").read_text()
    answer = labels("windows.csv", "--diary", "diary.csv", "--given", "hint")
    assert answer[-1]["label"] == "ski"
    assert "given" in answer[-1]["reason"]
    write("edited.csv", table(row=range(72), label=truth))
    done("report", *known[:-1], "--labels", "edited.csv", "--output", "page.html")


def test_diagnose_does_not_count_a_class_of_zeros():
    write("totals.csv", "day,sleep,tv,ski\nmon,4,2,0\ntue,2,4,0\nwed,3,3,0\n")
    said = done("diagnose", "rows.csv", *KNOWN).stdout
    assert "rank 2 of 2 (" in said
    assert "because all their totals are 0: 'ski'" in said
    assert strict_json(done("diagnose", "rows.csv", *KNOWN, "--json").stdout)["rank"] == 2


def test_the_rules_say_what_entries_were_found_to_account_for():
    rows = [line for line in windows(days=4).splitlines() if not re.search("T[12]", line)]
    write("windows.csv", "\n".join(rows) + "\n")
    lines = [f"p1,2024-03-0{day},{n},{9 - n}\n" for day, n in ((4, 8), (5, 6), (6, 8), (7, 6))]
    write("diary.csv", "participant,date,sleep,out\n" + "".join(lines))
    known = ("windows.csv", "--diary", "diary.csv")
    answer = strict_json(done("label", *known, "--output", "a.csv", "--json").stdout)
    (rule,) = (line for line in answer["rules"] if line.startswith("--covers auto"))
    assert "of 4 entries recorded in part, 4 sum to the recorded time" in rule
    by_hand = labels(*known, "--covers", "recording", "--excess", "scale")
    assert [row["label"] for row in cells_of(Path("a.csv").read_text())] == [
        row["label"] for row in by_hand
    ]
