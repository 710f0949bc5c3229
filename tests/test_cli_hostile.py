"""Wrong files, wrong options, a wrong world: one paragraph, an exit code, nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import chdir, contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apportion
from apportion._utils import signals as _signals
from apportion.cli.app import COMMANDS
from apportion.persistence import load_model, save_model
from command_line import (
    KNOWN,
    WAIT,
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

table_module = import_module("apportion.labeling.table")

PIECES = [
    b"", b",", b";", b"\n", b"\r", b'"', b"\0", b"\xff", b"\xef\xbb\xbf", b"%", b"-", b"=", b"0",
    b"-1", b"nan", b"inf", b"1e308", b"1,5", b"9" * 400, b"true", b"None", b"25:00",
    b"2024-03-04", b"mon",
]  # fmt: skip
DIARY = "participant,date,sleep,out\np1,2024-03-04,8,16\np1,2024-03-05,6,18\n"


@pytest.fixture(autouse=True)
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return day_files()


def text_of(**columns):
    return table(**{**day_rows(), **columns})


def with_line(line):
    return write("rows.csv", Path("rows.csv").read_text() + line + "\n")


# Columns that are not there


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["--bags", "dya", "--proportions", "totals.csv"], "day"),
        ([*KNOWN, "--features", "X"], "x"),
        ([*KNOWN, "--exclude", "yy"], "y"),
        ([*KNOWN, "--id", "ID"], "id"),
        ([*KNOWN, "--given", "dai"], "day"),
        ([*KNOWN, "--categorical", "xx"], "x"),
        (["--diary", "diary.csv", "--participant", "days"], "day"),
        (["--diary", "diary.csv", "--start", "idd"], "id"),
        (["--diary", "diary.csv", "--nonwear", "yy"], "y"),
        (["--diary", "diary.csv", "--diary-column", "date=dat"], "date"),
    ],
)
def test_a_wrong_column_is_answered_with_the_right_one(words, near):
    write("diary.csv", DIARY)
    refused("label", "rows.csv", *words, says=["found no column", f"did you mean '{near}'?"])


def test_a_pattern_that_no_column_matches_lists_the_columns():
    words = ["'acc_*'", "the columns 'id', 'day', 'x', 'y'", "name one of these"]
    refused("label", "rows.csv", *KNOWN, "--features", "acc_*", says=words)


def test_a_feature_that_plays_another_part():
    says = "column 'day': found a feature that is the bags"
    refused("label", "rows.csv", *KNOWN, "--features", "day", says=says)
    says = "--categorical, column 'day': found a column that is no feature: the bags"
    refused("label", "rows.csv", *KNOWN, "--categorical", "day", says=says)


# Options


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "Give --diary, or --bags with --proportions."),
        (["--bags", "day"], "go together"),
        (["--proportions", "totals.csv"], "go together"),
        ([*KNOWN, "--diary", "d.csv"], "not both"),
        ([*KNOWN, "--unit", "hours"], "--unit hours is for a diary"),
        ([*KNOWN, "--day-start", "04:00"], "--day-start is for a diary (--diary)"),
        ([*KNOWN, "--graphs", "each"], "--graphs is for a diary (--diary)"),
        (["--diary", "d.csv", "--unit", "count"], "--unit count is for --proportions"),
        (["--diary", "d.csv", "--tolerance", "much"], "--tolerance must be 'auto' or minutes"),
        (["--diary", "d.csv", "--tolerance", "-1"], "--tolerance must be 'auto' or minutes"),
        (["--diary", "d.csv", "--diary-column", "Tag"], "--diary-column must be ROLE=COLUMN"),
        ([*KNOWN, "--alpha", "1"], "--alpha must be above 0 and below 1"),
        ([*KNOWN, "--alpha", "nan"], "--alpha must be above 0 and below 1"),
        ([*KNOWN, "--json"], "name a file with --output"),
        ([*KNOWN, "--labels-only"], "name the file"),
        ([*KNOWN, "--model", "m.zip", "--graphs", "each"], "use --graphs one"),
        ([*KNOWN, "--model", "a.csv", "-o", "a.csv"], "name the same file"),
    ],
)
def test_options_that_do_not_go_together(words, says):
    message = refused("label", "rows.csv", *words, code=2, says=says)
    assert "'apportion label -h' lists the options" in message


@pytest.mark.parametrize(
    "words",
    [
        ["label"],
        ["label", "rows.csv", *KNOWN, "--seed", "-1"],
        ["label", "rows.csv", *KNOWN, "--missing", "zero"],
        ["label", "rows.csv", *KNOWN, "--color"],
        ["demo", "--days", "0"],
        ["nonsense"],
    ],
)
def test_what_typer_refuses(words):
    before = files_of(".")
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert files_of(".") == before


# Files that cannot be read


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("rows.ods", b"PK\3\4", "a .ods file"),
        ("rows.csv", b"PK\3\4xl", "a zip file, as spreadsheets are"),
        ("rows.csv", b"\x1f\x8b\x08", "a compressed file"),
        ("rows.csv", b"PAR1\x15\x04", "call it .parquet"),
        ("rows.parquet", b"id,day\n", "if it is text, call it .csv"),
        ("rows.parquet", b"", "an empty file"),
        ("rows.parquet", b"PAR1\x15\x04", "no whole Parquet file"),
        ("rows.csv", b"", "an empty file"),
        ("rows.csv", b"\n \n", "an empty file"),
        ("rows.csv", b"\xef\xbb\xbf", "an empty file"),
        ("rows.csv", b"id,day,x", "no row"),
        ("rows.csv", b"id,day,x\n\n", "no row"),
        ("rows.csv", b"id,day,x,x\n1,2,3,4\n", "columns 3 and 4: found the same name, 'x'"),
        ("rows.csv", b"id,day,x, x\n1,2,3,4\n", "columns 3 and 4: found the same name, 'x'"),
        ("rows.csv", b"id,day,,x\n1,2,3,4\n", "column 3: found no name in the header"),
        ("rows.csv", b"id,day,x\n1,mon,2\n\n2,mon\n", "line 4: found 2 cells. Allowed: 3"),
        ("rows.csv", b'id,day,x\n"a\nb",mon,2\n2,mon,3,4\n', "line 4: found 4 cells. Allowed: 3"),
        ("rows.csv", b'id,day,x\n1,"mon,2\n', "line 2: found 2 cells"),
        ("rows.csv", b"id,day,x\n1,m\0n,2\n", "line 2: found a zero byte"),
        ("rows.arff", b"@relation r\n@data\n1,2\n", "no line @attribute"),
        ("rows.arff", b"@attribute x numeric\n@data\n", "no row"),
        ("rows.arff", b"@attribute x numeric\n@data\n{0 1}\n", "sparse rows"),
        ("rows.arff", b"@attribute x real\n@attribute y real\n@data\n1,2\n3\n", "row 1: found 1 "),
    ],
)
def test_rows_that_cannot_be_read(name, content, says):
    refused("label", write(name, content), *KNOWN, says=[name, says])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "an empty file"),
        (b"day,sleep,tv\n", "no line below the header"),
        (b"day,sleep,sleep\nmon,1,2\n", "the same name, 'sleep'"),
        (b"day,,tv\nmon,1,2\n", "column 2: found no name"),
        (b"day,sleep,tv\nmon,1\n", "line 2: found 2 cells. Allowed: 3"),
        (b"day,sl\xfcep,tv\nmon,1,2\n", "line 1: found the byte 0xfc, which is not UTF-8"),
        (b"PAR1\x15\x04", "call it .parquet"),
    ],
)
@pytest.mark.parametrize("option", ["--proportions", "--diary"])
def test_tables_that_cannot_be_read(option, content, says):
    words = ["--bags", "day"] if option == "--proportions" else []
    refused("label", "rows.csv", *words, option, write("t.csv", content), says=["t.csv", says])


@pytest.mark.parametrize("words", [["--bags", "day", "--proportions"], ["--diary"]])
def test_paths_that_are_no_files(words):
    Path("folder").mkdir()
    refused("label", "none.csv", *KNOWN, says="none.csv: found no such file")
    refused("label", "folder", *KNOWN, says="folder: found a folder")
    refused("label", "rows.csv", *words, "none.csv", says="none.csv: found no such file")
    refused("label", "rows.csv", *words, "folder", says="folder: found a folder")
    refused("label", "rows.csv", *words, write("t.ods", b"PK\3\4"), says="a .ods file")


def test_a_truncated_parquet_file(rows):
    pq.write_table(pa.table(rows), "rows.parquet")
    done("label", "rows.parquet", *KNOWN)
    write("rows.parquet", Path("rows.parquet").read_bytes()[:-30])
    refused("label", "rows.parquet", *KNOWN, says="copy or export the file again")


# Encodings


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be-sig"])
def test_unicode_files_are_read(encoding):
    text = text_of(id=[f"Ü{i}" for i in range(18)])
    plain = done("label", write("rows.csv", text), *KNOWN).stdout
    assert plain.startswith('"id","day","label"')
    assert '\n"Ü0","mon"' in plain
    if encoding == "utf-16-be-sig":
        write("rows.csv", b"\xfe\xff" + text.encode("utf-16-be"))
    else:
        write("rows.csv", text, encoding)
    assert done("label", "rows.csv", *KNOWN).stdout == plain
    assert done("label", "rows.csv", *KNOWN, "--encoding", "latin-1").stdout == plain


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16-le"])
def test_other_encodings_must_be_named_and_hold_for_files_that_are_not_utf8(encoding):
    text = text_of(id=[f"Ü{i}" for i in range(18)])
    plain = done("label", write("rows.csv", text), *KNOWN).stdout
    write("rows.csv", text, encoding)
    refused("label", "rows.csv", *KNOWN, says=["rows.csv, line", "--encoding"])
    write("totals.csv", "day,sleep,Ütv\nmon,4,2\ntue,2,4\nwed,3,3\n")
    out = done("label", "rows.csv", *KNOWN, "--encoding", encoding).stdout
    assert out == plain.replace("mass_tv", "mass_Ütv").replace('"tv"', '"Ütv"')


def test_a_named_encoding_that_is_not_the_file_s():
    write("rows.csv", text_of(id=[f"Ü{i}" for i in range(18)]), "latin-1")
    says = "rows.csv, line 2: found the byte 0xdc, which is not ASCII"
    refused("label", "rows.csv", *KNOWN, "--encoding", "ascii", says=says)


def test_mixed_encodings_name_the_line():
    lines = Path("rows.csv").read_bytes().splitlines()
    lines[5] = "Ü,mon,1,2".encode()
    lines[9] = "Ü,mon,1,2".encode("latin-1")
    says = "rows.csv, line 10: found the byte 0xdc, which is not UTF-8"
    refused("label", write("rows.csv", b"\n".join(lines)), *KNOWN, says=says)


@pytest.mark.parametrize("name", ["klingon", "hex", "rot13", "undefined", ""])
def test_an_encoding_that_is_none(name):
    says = f"--encoding: found {name!r}"
    refused("label", "rows.csv", *KNOWN, "--encoding", name, says=says)


# Cells


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("z,,1e308,1", "line 20, column 'x': found 1e+308"),
        ("z,,-inf,1", "line 20, column 'x': found -inf"),
        ("z,,1,Infinity", "line 20, column 'y': found inf"),
        ("z,,much,1", "line 20, column 'x': found 'much'"),
        ('"z\nz",,1,1\nq,,"1,5",1', "line 22, column 'x': found '1,5'"),
        ("\n\nz,,n.a.,1", "line 22, column 'x': found 'n.a.'"),
    ],
)
def test_cells_that_are_no_numbers(line, says):
    refused("label", with_line(line), *KNOWN, says=says)


def test_text_after_the_first_megabyte():
    write("totals.csv", "day,sleep,tv\nmon,0.5,0.5\ntue,0.3,0.7\nwed,0.5,0.5\n")
    with_line("k,mon,0.123456789012345678901234567890,1\n" * 30_000)  # and an empty line
    assert Path("rows.csv").stat().st_size > 2**20
    says = ["line 30021, column 'x': found 'much'", "--categorical x"]
    refused("label", with_line("z,,much,1"), *KNOWN, says=says)


def test_an_empty_cell_where_none_is_allowed():
    says = "line 20, column 'y': found an empty cell"
    refused("label", with_line("z,,1,"), *KNOWN, "--missing", "error", says=says)


def test_ids_that_are_not_different():
    says = "rows.csv, line 20, column 'id': found the id 'mon0', which line 2 has too"
    refused("label", with_line("mon0,,1,1"), *KNOWN, "--id", "id", says=says)
    write("rows.csv", text_of())
    says = "line 20, column 'id': found no id"
    refused("label", with_line(",,1,1"), *KNOWN, "--id", "id", says=says)


def test_a_given_label_that_is_no_class():
    write("rows.csv", text_of(known=["", "", "TV"] + [""] * 15))
    says = "line 4, column 'known': found the label 'TV'. Allowed: the classes 'sleep', 'tv'"
    refused("label", "rows.csv", *KNOWN, "--given", "known", says=says)


@pytest.mark.parametrize("more", [[], ["--missing", "drop"]])
def test_given_labels_against_the_totals_name_the_line(more):
    write("rows.csv", text_of(y=["", *day_rows()["y"][1:]], known=["sleep"] * 18))
    says = "rows.csv, line 7 in bag 'mon': found the label 'sleep', given to"
    refused("label", "rows.csv", *KNOWN, "--given", "known", *more, says=says)


# Tables without features


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"x": [1] * 18}, "x (the same in every row)"),
        ({"x": [""] * 18}, "x (empty)"),
        ({"c": ["a"] * 18}, "c (the same in every row)"),
        ({"start": [f"2024-03-04 0{i % 9}:00" for i in range(18)]}, "start (a time)"),
        ({"when": [f"0{i % 9 + 1}.03.2024" for i in range(18)]}, "when (a time)"),
        ({"truth": [" Sleep", "TV "] * 9}, "truth (its values are the classes"),
        ({}, "id (an id, by its name), day (the bags)"),
    ],
)
def test_tables_without_a_feature(rows, columns, why):
    write("rows.csv", table(id=rows["id"], day=rows["day"], **columns))
    refused("label", "rows.csv", *KNOWN, says=["no column that can be a feature", why])


def test_one_row():
    write("rows.csv", "id,day,x\n1,mon,2\n")
    write("totals.csv", "day,sleep,tv\nmon,1,0\n")
    refused("label", "rows.csv", *KNOWN, says="x (the same in every row)")


# Files that may not be read


@contextmanager
def as_somebody_else():
    """Let files be read as by a user who owns none of them; root may read all."""
    if os.geteuid() == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(os.getuid())


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="Windows has no such modes")
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_files_that_may_not_be_read(monkeypatch, ending):
    done("label", "rows.csv", *KNOWN, "-q")  # all that is imported late
    name = f"secret{ending}"
    if ending == ".parquet":
        pq.write_table(pa.table(day_rows()), name)
    else:
        write(name, Path("rows.csv").read_text())
    Path(name).chmod(0)
    Path().chmod(0o755)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    monkeypatch.setattr("command_line.files_of", lambda folder: None)
    with as_somebody_else():
        refused("label", name, *KNOWN, code=1, says=["secret", "ermission denied"])
        refused("label", "rows.csv", *KNOWN[:3], name, code=1, says=["secret", "ermission denied"])
        refused("diagnose", name, *KNOWN, code=1, says=["secret", "ermission denied"])
        refused("predict", name, "rows.csv", code=1, says=["secret", "ermission denied"])


def test_click_does_not_judge_files():
    """It would call one that may not be read a wrong command line."""
    functions = [getattr(import_module(f"apportion.cli.{name}"), name) for name in COMMANDS]
    files = [
        (function.__name__, name, get_args(hint)[1].readable)
        for function in functions
        for name, hint in get_type_hints(function, include_extras=True).items()
        for kind in get_args(hint)[:1]
        if Path in (kind, *get_args(kind))
    ]
    assert len(files) > 20
    assert [name for name in files if name[2]] == []


def test_an_output_that_may_not_be_read_is_replaced(monkeypatch):
    write("labels.csv", "mine")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    done("label", "rows.csv", *KNOWN, "-o", "labels.csv", "--force")
    assert Path("labels.csv").read_text().startswith('"id","day","label"')


# Totals


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("day,sleep,tv\nmon,4,3\ntue,2,4\nwed,3,3\n", "line 2 (bag 'mon'): found counts that sum"),
        ("day,sleep,tv\nmon,4,2\ntue,2,\nwed,9,\n", "sum to 9. Allowed: at most 6, the bag's"),
        ("day,sleep,tv\nmon,0.6,0.4\ntue,0.6,0.3\n", "line 3: found totals that sum to 0.9"),
        ("day,sleep,tv\nmon,60,40\ntue,60,30.5\n", "line 3: found totals that sum to 90.5"),
        ("day,sleep,tv\nmon,1.2,-0.2\n", "line 2, column 'tv': found '-0.2'"),
        ("day,sleep,tv\nmon,8h,2h\n", "line 2, column 'sleep': found '8h'"),
        ("day,sleep,tv\nmon,inf,2\n", "line 2, column 'sleep': found 'inf'"),
        ("day,sleep,tv\nmon,60%,0.4\n", "column 'tv': found a number without a percent sign"),
        ("day,sleep,tv\nmon,0.6%,0.4%\n", "line 2 (bag 'mon'): found percentages that sum to 1"),
        ("day,sleep,tv\nmon,0.7,\ntue,1.2,\n", "line 2: found a total that is not known"),
        ("day,sleep,tv\nmon,,\ntue,,\n", "no number in any cell"),
        ("day,sleep,tv\nmon,1,0\n,1,0\n", "line 3, column 'day': found an empty cell"),
        ("day,sleep,tv\nmon,1,0\nmon,0,1\n", "line 2 and line 3: found the bag 'mon' twice"),
        ("day,class,share\nmon,a,1\nmon,a,1\nmon,b,0\n", "line 2 and line 3: found the class 'a'"),
        ("day,sleep\nmon,1\n", "at least two columns of classes"),
        ("day,class,share\nmon,sleep,1\n", "only one class, 'sleep'"),
        ("day,sleep,tv\nMon,1,0\n", "no id that the table of totals has; rows have 'mon'"),
    ],
)
def test_totals_that_cannot_be_used(text, says):
    write("totals.csv", text)
    refused("label", "rows.csv", *KNOWN, says=says)
    refused("diagnose", "rows.csv", *KNOWN, says=says)


@pytest.mark.parametrize(
    ("unit", "numbers", "says"),
    [
        ("share", "0.6,0.3", "shares that sum to 0.9. Allowed: a sum of 1"),
        ("share", "60,40", "shares that sum to 100"),
        ("share", "1.2,", "shares that sum to 1.2. Allowed: a sum of at most 1"),
        ("percent", "0.6,0.4", "percentages that sum to 1. Allowed: a sum of 100"),
        ("count", "60%,40%", "percentages. Allowed: counts, as --unit count says"),
    ],
)
def test_a_unit_that_the_numbers_are_not(unit, numbers, says):
    write("totals.csv", f"day,sleep,tv\nmon,{numbers}\n")
    refused("label", "rows.csv", *KNOWN, "--unit", unit, says=says)


# Diaries


@pytest.mark.parametrize(
    ("text", "more", "says"),
    [
        ("p1,2024-03-04,20,5", [], ["diary.csv, line 2", "25 h", "24 h"]),
        ("p1,2024-03-04,8,4", ["--timezone", "Europe/Lodnon"], ["Europe/London"]),
        ("p1,2024-03-04,8,4", ["--timezone", "../x"], ["the time zone"]),
        ("p1,2024-03-04,8,4\np1,2024-03-04,9,4", [], ["diary.csv, line 2 and line 3"]),
        ("p1,2024-03-04,eight,4", [], ["line 2, column 'sleep'", "'eight'"]),
        ("p1,2024-03-04,-8,4", [], ["line 2, column 'sleep'", "'-8'"]),
        ("p1,4.3.2024,8,4", [], ["line 2, column 'date'", "--date-format"]),
        ("p9,2024-03-04,8,4", [], ["no entry that any window falls into", "'p9 2024-03-04'"]),
        ("p1,2025-03-04,8,4", [], ["no entry that any window falls into"]),
        ("p1,2024-03-04,8,4", ["--window", "long"], ["the length of a window"]),
        ("p1,2024-03-04,8,4", ["--day-start", "25:00"], ["the start of the day"]),
    ],
)
def test_diaries_that_cannot_be_used(text, more, says):
    write("windows.csv", windows())
    write("diary.csv", f"participant,date,sleep,out\n{text}\n")
    refused("label", "windows.csv", "--diary", "diary.csv", *more, says=says)


def test_roles_that_a_diary_does_not_have():
    write("windows.csv", windows())
    write("diary.csv", "participant,date,sleep,out\np1,2024-03-04,8,4\n")
    words = ["label", "windows.csv", "--diary", "diary.csv", "--diary-column", "dat=date"]
    refused(*words, code=2, says="no role 'dat'. Allowed: participant, date,")


def test_entries_that_overlap():
    write("windows.csv", windows())
    periods = [
        "p1,2024-03-04T00:00,2024-03-04T12:00,8,4",
        "p1,2024-03-04T10:00,2024-03-04T20:00,1,9",
    ]
    write("diary.csv", "\n".join(["participant,start,end,sleep,out", *periods]) + "\n")
    says = ["line 2 and line 3", "overlap"]
    refused("label", "windows.csv", "--diary", "diary.csv", says=says)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (("p1,2024-03-04T05", ",2024-03-04T05"), "line 7, column 'participant': found no part"),
        (("p1,2024-03-04T05:00:00", "p1,five"), "line 7, column 'start': found 'five'"),
        (("p1,2024-03-04T05:00:00", "p1,"), "line 7, column 'start': found no time"),
    ],
)
def test_windows_that_cannot_be_used(wrong, says):
    write("windows.csv", windows().replace(*wrong))
    refused("label", "windows.csv", "--diary", write("diary.csv", DIARY), says=says)


# Outputs


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("labels.xlsx", "only .csv and .parquet files can"),
        ("labels", "only .csv and .parquet files can"),
        ("rows.csv", "rows.csv is an input of this command"),
        ("./totals.csv", "is an input of this command"),
        ("rows.csv/labels.csv", "cannot be written: not a directory"),
        ("/proc/labels.csv", "cannot be written"),
        ("nowhere/labels.csv", "there is no folder nowhere"),
        ("folder.csv", "folder.csv is a folder"),
        ("there.csv", "there.csv is there already. Name another file, or pass --force"),
        ("hanging.csv", "hanging.csv is there already"),
    ],
)
def test_outputs_that_cannot_be_written(path, says):
    Path("folder.csv").mkdir()
    Path("hanging.csv").symlink_to("nothing.csv")
    write("there.csv", "mine")
    refused("label", "rows.csv", *KNOWN, "-o", path, code=3, says=says)
    if path not in ("labels.xlsx", "labels"):
        refused("label", "rows.csv", *KNOWN, "--model", path, code=3, says=says)
    if path in ("rows.csv", "./totals.csv", "folder.csv"):
        refused("label", "rows.csv", *KNOWN, "-o", path, "--force", code=3, says=says)


def test_force_replaces_files_that_are_there():
    for name in ("labels.csv", "model.zip"):
        write(name, "mine")
    words = ["--output", "labels.csv", "--model", "model.zip"]
    refused("label", "rows.csv", *KNOWN, *words, code=3, says="labels.csv is there already")
    done("label", "rows.csv", *KNOWN, *words, "--force")
    assert Path("labels.csv").read_text().startswith('"id","day","label"')
    assert load_model("model.zip").contents == "18 training rows"
    assert sorted(path.name for path in Path().iterdir()) == [
        "labels.csv", "model.zip", "rows.csv", "totals.csv",
    ]  # fmt: skip


def test_a_file_that_appears_meanwhile_is_kept(monkeypatch):
    def slow(*args):
        write("labels.csv", "theirs")
        return label_rows(*args)

    label_rows = table_module.label_rows
    monkeypatch.setattr(table_module, "label_rows", slow)
    result = run("label", "rows.csv", *KNOWN, "-o", "labels.csv", "--model", "m.zip", "-q")
    assert result.exit_code == 3
    assert Path("labels.csv").read_text() == "theirs"
    assert not Path("m.zip").exists()


@pytest.mark.parametrize("output", ["labels.csv", "labels.parquet"])
@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(28, "No space left on device"), 3, "cannot be written: no space left on device"),
        (MemoryError(), 4, "not enough memory"),
        (RuntimeError("a b\nc"), 70, "a fault of this program: RuntimeError: a b c. Please report"),
    ],
)
def test_an_end_in_the_middle_of_writing(monkeypatch, output, error, code, says):
    def half(table, file, *_, **__):
        file.write(b"half")
        raise error

    monkeypatch.setattr("pyarrow.csv.write_csv", half)
    monkeypatch.setattr("pyarrow.parquet.write_table", half)
    write(output, "mine")
    words = ["--output", output, "--model", "model.zip", "--force"]
    refused("label", "rows.csv", *KNOWN, *words, code=code, says=says)


def test_a_model_that_cannot_be_saved_leaves_no_labels(monkeypatch):
    def full(file, *_, **__):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(table_module, "save_model", full)
    words = ["--output", "labels.csv", "--model", "model.zip"]
    refused("label", "rows.csv", *KNOWN, *words, code=3, says="model.zip cannot be written")


EVERY_OUTPUT = ["--output", "labels.csv", "--model", "model.zip", "--report", "report.html"]


@contextmanager
def small_disk(size):
    """Let no file become larger than that."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def all_there(force):
    """Write all outputs if `force`; return the words of a command that writes them."""
    if force:
        for name in EVERY_OUTPUT[1::2]:
            write(name, "mine")
    return ["label", "rows.csv", *KNOWN, *EVERY_OUTPUT, *["--force"] * force]


@pytest.mark.parametrize("force", [False, True])
def test_a_disk_that_is_full_at_the_last_file_leaves_all_as_it_was(force, monkeypatch):
    def full(*_):
        raise OSError(27, "File too large")

    monkeypatch.setattr("pyarrow.csv.write_csv", full)
    says = "labels.csv cannot be written: file too large. Nothing was changed."
    refused(*all_there(force), code=3, says=says)


def check_only_the_report_is_missing():
    """Check that labels and model are those of a run without a report."""
    assert sorted(path.name for path in Path().iterdir() if path.is_file()) == [
        "labels.csv", "model.zip", "rows.csv", "totals.csv"
    ]  # fmt: skip
    Path("again").mkdir()
    done("label", "rows.csv", *KNOWN, "--output", "again/labels.csv", "--model", "again/model.zip")
    for name in ("labels.csv", "model.zip"):
        assert Path(name).read_bytes() == Path("again", name).read_bytes()


@pytest.mark.parametrize("force", [False, True])
def test_a_disk_that_is_full_at_the_report_costs_no_labels(force):
    """The report alone is larger than the limit. With --force the old one is of other labels."""
    with small_disk(100_000):
        result = run(*all_there(force), "-q")
    assert (result.exit_code, result.stdout) == (5, "")
    assert result.stderr == (
        "apportion: the labels are written, but not the report report.html: report.html cannot be "
        "written: file too large.\n"
    )
    check_only_the_report_is_missing()


@pytest.mark.parametrize("error", [ValueError("odd"), MemoryError(), ZeroDivisionError("no")])
def test_a_report_that_fails_costs_no_labels(monkeypatch, error):
    def fails(_):
        raise error

    monkeypatch.setattr("apportion.cli.label_file.page_bytes", fails)
    result = run(*all_there(True), "-q")
    assert (result.exit_code, result.stdout) == (5, "")
    assert "the labels are written, but not the report report.html: " in result.stderr
    assert (str(error) or "not enough memory") in result.stderr
    check_only_the_report_is_missing()
    labels = run("label", "rows.csv", *KNOWN, "--report", "new.html", "-q")
    assert labels.exit_code == 5
    assert labels.stdout.encode() == Path("labels.csv").read_bytes()


def test_a_report_that_another_program_wrote_meanwhile_is_kept(monkeypatch):
    monkeypatch.setattr("apportion.cli.label_file.calls.check_files", lambda *_, **__: None)
    write("report.html", "mine")
    result = run(*all_there(False), "-q")
    assert result.exit_code == 5
    assert "report.html is there already" in result.stderr
    assert Path("report.html").read_text() == "mine"
    Path("report.html").unlink()
    check_only_the_report_is_missing()


@pytest.mark.parametrize("force", [False, True])
def test_a_report_that_kills_the_process_costs_no_labels(force):
    code = """
import os
import apportion.cli.label_file as module

module.page_bytes = lambda _: os._exit(77)
"""
    running = process(*all_there(force), "-q", code=code)
    running.communicate(timeout=60)
    assert running.returncode == 77
    check_only_the_report_is_missing()


def test_a_report_of_few_different_rows():
    """Its map killed the process."""
    days = [f"d{day}" for day in range(100)]
    lines = [(day, *point) for day in days for point in ((0, 0, 0), (5, 5, 5), (9, 0, 3))]
    many = [line for line in lines for _ in range(5)]
    columns = zip(*many, strict=True)
    write("few.csv", table(**dict(zip(("day", "x", "y", "z"), columns, strict=True))))
    write("few_totals.csv", table(day=days, a=[5] * 100, b=[5] * 100, c=[5] * 100))
    words = ["--bags", "day", "--proportions", "few_totals.csv", "--unit", "count"]
    running = process("label", "few.csv", *words, "-o", "few_labels.csv", "--report", "few.html")
    said = running.communicate(timeout=120)[1]
    assert running.returncode == 0, said
    assert "written: few.html" in said


def test_a_demo_that_cannot_be_finished_leaves_nothing(monkeypatch):
    def full(*_):
        raise OSError(27, "File too large")

    before = files_of(".")
    monkeypatch.setattr("apportion.cli.label_file.calls.write_labeled", full)
    result = run("demo", "new/demo", "--days", 1, "--participants", 1, "--minutes", 30)
    assert result.exit_code == 1
    assert "file too large" in result.stderr
    assert files_of(".") == before
    assert not Path("new").exists()


def test_a_demo_whose_report_fails_keeps_the_rest():
    with small_disk(100_000):
        result = run("demo", "new", "--days", 1, "--participants", 1, "--minutes", 30)
    assert result.exit_code == 5
    assert "not the report new/report.html" in " ".join(result.stderr.split())
    assert sorted(path.name for path in Path("new").iterdir()) == [
        "diary.csv", "labels.csv", "truth.csv", "windows.csv"
    ]  # fmt: skip


def test_what_is_written_is_said_when_it_is_there(monkeypatch):
    def refuses(source, target):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "replace", refuses)
    result = run("label", "rows.csv", *KNOWN, *EVERY_OUTPUT)
    assert result.exit_code == 3
    assert "written: " not in result.stderr.replace("cannot be written", "")
    assert sorted(path.name for path in Path().iterdir()) == ["rows.csv", "totals.csv"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other names")
@pytest.mark.parametrize("name", [b"caf\xe9", "字".encode() * 83], ids=["no UTF-8", "long"])
def test_outputs_of_any_name(name):
    outputs = [os.fsdecode(name + ending) for ending in (b".csv", b".zip", b".htm")]
    words = ["--output", outputs[0], "--model", outputs[1], "--report", outputs[2]]
    done("label", "rows.csv", *KNOWN, *words)
    assert {*outputs} <= {path.name for path in Path().iterdir()}
    if len(name) < 200:
        done("label", "rows.csv", *KNOWN, "--output", os.fsdecode(name + b".parquet"))


def test_a_circle_of_links_is_replaced_by_force_only():
    Path("labels.csv").symlink_to("labels.csv")
    words = ["label", "rows.csv", *KNOWN, "--output", "labels.csv"]
    refused(*words, code=3, says="labels.csv is there already")
    done(*words, "--force")
    assert Path("labels.csv").read_text().startswith('"id","day","label"')


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_model_that_only_its_owner_may_read_stays_so():
    write("model.zip", "mine")
    Path("model.zip").chmod(0o600)
    done("label", "rows.csv", *KNOWN, "--model", "model.zip", "--force")
    assert Path("model.zip").stat().st_mode & 0o777 == 0o600


def test_a_fault_shows_its_place_only_when_asked(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("twice")

    monkeypatch.setattr(table_module, "label_rows", broken)
    says = ["a fault of this program: ZeroDivisionError: twice", "APPORTION_DEBUG=1"]
    refused("label", "rows.csv", *KNOWN, code=70, says=says)
    monkeypatch.setenv("APPORTION_DEBUG", "1")
    assert isinstance(run("label", "rows.csv", *KNOWN).exception, ZeroDivisionError)


# Models


def saved(*more):
    done("label", "rows.csv", *KNOWN, "--model", "model.zip", "-q", *more)


def test_models_that_cannot_be_read():
    saved()
    whole = Path("model.zip").read_bytes()
    middle, spoiled = len(whole) // 2, bytes(200)
    for content, says in [
        (b"", "model.zip: found"),
        (b"id,day\n", "no zip file"),
        (whole[:-40], "no zip file, or only a part of one"),
        (whole[:middle] + spoiled + whole[middle + len(spoiled) :], "model.zip"),
    ]:
        refused("predict", write("model.zip", content), "rows.csv", says=says)
    Path("folder").mkdir()
    refused("predict", "none.zip", "rows.csv", says="none.zip: found no such file")
    refused("predict", "folder", "rows.csv", says="folder: found a folder")


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({}, "no recipe"),
        ({"recipe": None}, "no recipe"),
        ({"recipe": {"features": [], "missing": "median"}}, "no recipe"),
        ({"recipe": {"features": [{"name": "x"}], "missing": "median"}}, "no recipe"),
        ({"recipe": {"missing": "median"}}, "no recipe"),
    ],
)
def test_models_without_a_recipe(extra, says):
    saved()
    save_model("other.zip", load_model("model.zip").model, extra=extra)
    refused("predict", "other.zip", "rows.csv", says=says)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"mean": "much"}, "no recipe"),
        ({"scale": 0.0}, "no recipe"),
        ({"name": 3}, "no recipe"),
        ({"levels": []}, "no recipe"),
        ({"levels": ["a", 3]}, "no recipe"),
        ({"levels": ["a", "b"]}, "a recipe for 3 numbers a row. Allowed: 2"),
    ],
)
def test_models_with_a_wrong_recipe(change, says):
    saved()
    model = load_model("model.zip")
    recipe = model.extra["recipe"]
    recipe["features"][0] |= change
    save_model("other.zip", model.model, extra={"recipe": recipe})
    refused("predict", "other.zip", "rows.csv", says=says)


def test_rows_that_a_model_cannot_predict():
    saved()
    for text, says in [
        ("id,x,z\n1,2,3\n", "the rows: found no column 'y', which the model was fitted to"),
        ("id,Y,x\n1,2,3\n", "did you mean 'Y'?"),
        ("id,x,y\n1,2,3\n2,a,3\n", "new.csv, line 3, column 'x': found 'a'"),
        ("id,x,y\n1,a,3\n2,b,3\n", "new.csv, line 2, column 'x': found 'a'"),
        ("id,x,y\n1,inf,3\n", "new.csv, line 2, column 'x': found inf"),
    ]:
        refused("predict", "model.zip", write("new.csv", text), says=says)
    refused("predict", "model.zip", "rows.csv", "--id", "idd", says="did you mean 'id'?")
    refused("predict", "model.zip", "rows.csv", "--json", code=2, says="--output")
    refused("predict", "model.zip", "rows.csv", "-o", "rows.csv", code=3, says="is an input")
    refused("predict", "model.zip", "rows.csv", "-o", "new.csv", code=3, says="there already")


def test_a_model_of_labels_only_knows_no_other_rows():
    saved("--labels-only")
    for text, says in [
        ("id,x\nsun1,2\n", "no id that the model knows"),
        ("ident,x\nmon1,2\n", "found no column 'id'"),
    ]:
        refused("predict", "model.zip", write("new.csv", text), says=says)


def test_labels_only_needs_ids_before_any_work(rows, monkeypatch):
    monkeypatch.setattr(table_module, "label_rows", None)
    words = [*KNOWN, "--model", "model.zip", "--labels-only", "-o", "labels.csv"]
    write("rows.csv", table(day=rows["day"], x=rows["x"]))
    refused("label", "rows.csv", *words, code=2, says="--labels-only needs row ids")
    write("rows.csv", table(**{**rows, "id": [1] * 18}))
    refused("label", "rows.csv", *words, says="which line 2 has too")


def test_demo_replaces_nothing():
    done("demo", "folder", "--days", "2", "--participants", "1", "--minutes", "30")
    for name in ("windows.csv", "diary.csv", "truth.csv"):
        Path("folder", name).unlink()
    before = files_of(".")
    for folder, says in [("folder", "there already"), ("rows.csv", "cannot be made a folder")]:
        result = run("demo", folder, "--days", "2", "--participants", "1")
        assert result.exit_code == 3
        assert says in result.stderr
        assert files_of(".") == before


# Damage


@given(st.data())
def test_damaged_files_are_read_or_refused_and_never_a_fault(data):
    """Whatever stands in a file, the command ends well and silently, or with one paragraph."""
    with TemporaryDirectory() as folder, chdir(folder):
        day_files()
        write("windows.csv", windows())
        write("diary.csv", DIARY)
        name = data.draw(st.sampled_from(["rows.csv", "totals.csv", "windows.csv", "diary.csv"]))
        content = Path(name).read_bytes()
        first = data.draw(st.integers(0, len(content)))
        last = first + data.draw(st.sampled_from([0, 1, 2, 5, 30]))
        piece = data.draw(st.sampled_from(PIECES) | st.text(max_size=3).map(str.encode))
        write(name, content[:first] + piece + content[last:])
        of_days = name in ("rows.csv", "totals.csv")
        words = ["rows.csv", *KNOWN] if of_days else ["windows.csv", "--diary", "diary.csv"]
        before = files_of(".")
        result = run("label", *words, "--quiet")
        assert files_of(".") == before
        assert result.exit_code in (0, 1), result.stderr
        good = "" if result.exit_code == 0 else r"apportion: [^\n]+[.?]\n"
        assert re.fullmatch(good, result.stderr), result.stderr


# A whole process


def process(*words, out=subprocess.PIPE, code="", **variables):
    environment = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "TERM": "dumb", **variables}
    run_it = f"{code}\nfrom apportion.__main__ import main\nmain()"
    if words[0] == "label" and "--method" not in words:
        words = (*words, "--method", "lpllp")  # the default takes seconds
    return subprocess.Popen(
        [sys.executable, "-c", run_it, *map(str, words)],
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=environment,
    )


SLOW = f"""
import sys, time
import apportion.labeling.table as module

def slow(*_):
    {WAIT}

module.label_rows = slow
"""


def test_ctrl_c_leaves_nothing():
    before = files_of(".")
    words = ["--output", "labels.csv", "--model", "model.zip", "-q"]
    running = process("label", "rows.csv", *KNOWN, *words, code=SLOW)
    assert running.stderr.readline() == "slow now\n"
    running.send_signal(signal.SIGINT)
    out, said = running.communicate(timeout=30)
    assert (running.returncode, out) == (130, "")
    assert said == "apportion: interrupted; no file is left half written.\n"
    assert files_of(".") == before


SLOW_METHOD = f"""
import sys, time
from apportion.model_selection import _candidates, _weighing
from apportion.model_selection._forests import TaughtTrees

_candidates.DEFAULT = {{methods}}

def slow(*_):
    {WAIT}

def deaf(*_):
    try:
        slow()
    except KeyboardInterrupt:
        deaf()

TaughtTrees.held_out = slow
if {{again}}:
    _weighing.weigh_candidates = deaf
"""


def week_files():
    """Write rows of eight days, two classes well apart, and their totals."""
    generator = np.random.default_rng(0)
    tv = generator.random(160) < np.repeat(generator.uniform(0.1, 0.9, 8), 20)
    days = np.repeat(np.arange(8), 20)
    x = (4 * tv + generator.normal(size=160)).round(3)
    write("week.csv", table(day=days.tolist(), x=x.tolist()))
    counts = [int(tv[days == day].sum()) for day in range(8)]
    write("week_totals.csv", table(day=range(8), sleep=[20 - k for k in counts], tv=counts))


def compared(
    *words, methods=("gp", "mean-map", "taught", "trees"), again=False, sent=signal.SIGINT, code=""
):
    """Return a command that was sent a signal while it compares methods."""
    week_files()
    known = ["--bags", "day", "--proportions", "week_totals.csv", "--method", "auto"]
    code += SLOW_METHOD.format(methods=tuple(methods), again=again)
    running = process("label", "week.csv", *known, *words, code=code)
    assert any(line == "slow now\n" for line in running.stderr)
    running.send_signal(sent)
    return running


def test_ctrl_c_while_methods_are_compared_writes_the_answer_so_far():
    words = ["--output", "labels.csv", "--report", "report.html", "--model", "model.zip"]
    running = compared(*words)
    out, said = running.communicate(timeout=60)
    assert (running.returncode, out) == (6, "")
    heeded, first = [line for line in said.splitlines() if "nterrupted" in line]
    assert heeded.startswith("interrupted: the answer so far is completed")
    says = "Interrupted: the answer is that of the methods so far, without taught, trees."
    assert first == says
    assert said.splitlines().index(first) < 4  # before all that is said of the labels
    rows = cells_of(Path("labels.csv").read_text())
    assert len([row for row in rows if row["label"] in ("sleep", "tv")]) == 160
    assert Path("report.html").exists()
    assert Path("model.zip").exists()


def test_ctrl_c_is_said_even_by_the_quiet():
    running = compared("--output", "labels.csv", "--quiet")
    _, said = running.communicate(timeout=60)
    assert running.returncode == 6
    assert said.startswith("Interrupted: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("sent", "methods", "code"),
    [
        (signal.SIGINT, ["taught", "gp"], 130),
        (signal.SIGTERM, ["gp", "taught"], 143),
    ],
)
def test_what_ends_the_comparison_of_methods_leaves_nothing(sent, methods, code):
    """Ctrl-C before any method is complete, and other signals at any time."""
    running = compared("-o", "labels.csv", "-q", methods=methods, sent=sent, code=PARTS)
    out, said = running.communicate(timeout=60)
    assert (running.returncode, out) == (code, "registered\n")
    why = "interrupted" if sent == signal.SIGINT else "told to stop"
    assert said == f"apportion: {why}; no file is left half written.\n"
    assert not list(Path().glob("*labels*"))


def test_a_second_ctrl_c_stops_the_command():
    """Also where a library swallows interrupts."""
    running = compared("-o", "labels.csv", "-q", again=True)
    assert running.stderr.readline() == "slow now\n"
    running.send_signal(signal.SIGINT)
    out, said = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert said == "apportion: interrupted; no file is left half written.\n"
    assert not list(Path().glob("*labels*"))


SLOW_WRITING = f"""
import sys, time
from pyarrow import csv

def slow(table, file):
    file.write(b"half")
    {WAIT}

csv.write_csv = slow
"""


SIGNALS = [one for one in signal.Signals if one.name in ("SIGINT", "SIGTERM", "SIGHUP")]


@pytest.mark.parametrize("sent", SIGNALS)
def test_a_stop_in_the_middle_of_writing_leaves_nothing(sent):
    before = files_of(".")
    words = ["--output", "labels.csv", "--model", "model.zip", "-q"]
    running = process("label", "rows.csv", *KNOWN, *words, code=SLOW_WRITING)
    assert running.stderr.readline() == "slow now\n"
    assert len(files_of(".")) == len(before) + 2
    running.send_signal(sent)
    out, said = running.communicate(timeout=30)
    assert (running.returncode, out) == (128 + sent, "")
    why = "interrupted" if sent == signal.SIGINT else "told to stop"
    assert said == f"apportion: {why}; no file is left half written.\n"
    assert files_of(".") == before


PARTS = """
import atexit, os, sys

class Part:
    def __del__(self, write=os.write):
        write(2, b"taken apart")

sys.part = Part()
atexit.register(print, "registered")
"""


def test_a_stop_runs_what_is_registered_and_takes_nothing_apart():
    """Threads of other libraries may still use the interpreter."""
    running = process("label", "rows.csv", *KNOWN, "-o", "labels.csv", code=PARTS + SLOW)
    for said in running.stderr:
        if said == "slow now\n":
            break
    running.send_signal(signal.SIGTERM)
    out, said = running.communicate(timeout=30)
    assert (running.returncode, out) == (143, "registered\n")
    assert said == "apportion: told to stop; no file is left half written.\n"


SIGNAL_IN_THE_SEARCH = """
import os, threading, time
from apportion.graphs._neighbors import ListSearch

search = ListSearch.nearest

def nearest(self, X, k):
    if self._index is self._lists or len(X) < 10_000:
        return search(self, X, k)
    threading.Timer({seconds}, os.kill, (os.getpid(), {number})).start()
    found = search(self, X, k)
    [time.sleep(0.1) for _ in range(600)]
    return found

ListSearch.nearest = nearest
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_in_the_search_for_neighbors_is_no_crash(sent):
    """Threads of faiss are at work, which could not stand an exception from Python."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(33_000, 12)).round(3)
    names = [f"x{j}" for j in range(12)]
    columns = {"day": np.arange(33_000) % 50, **dict(zip(names, X.T, strict=True))}
    pq.write_table(pa.table(columns), "many.parquet")
    write("many_totals.csv", table(day=range(50), a=[330] * 50, b=[330] * 50))
    before = files_of(".")
    words = ["--bags", "day", "--proportions", "many_totals.csv"]
    for seconds in (0.05, 0.2):
        code = SIGNAL_IN_THE_SEARCH.format(seconds=seconds, number=int(sent))
        running = process("label", "many.parquet", *words, "-o", "labels.csv", "-q", code=code)
        out, said = running.communicate(timeout=300)
        why = "interrupted" if sent == signal.SIGINT else "told to stop"
        assert said == f"apportion: {why}; no file is left half written.\n"
        assert (running.returncode, out) == (128 + sent, "")
        assert files_of(".") == before


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no SIGHUP")
def test_nohup_is_obeyed():
    code = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + SLOW_WRITING
    words = ["--output", "labels.csv", "-q"]
    running = process("label", "rows.csv", *KNOWN, *words, code=code)
    assert running.stderr.readline() == "slow now\n"
    running.send_signal(signal.SIGHUP)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=30)
    assert running.returncode == 130


@pytest.mark.parametrize("module", ["numpy", "typer"])
def test_ctrl_c_during_the_imports(tmp_path, module):
    """The first is imported once the command is known, the second before."""
    write(f"{module}.py", f"import sys, time\n{WAIT}\n")
    paths = [str(tmp_path), str(Path(apportion.__file__).parents[1])]
    running = subprocess.Popen(
        [sys.executable, "-m", "apportion", "label", "rows.csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert running.stderr.readline() == "slow now\n"
    running.send_signal(signal.SIGINT)
    out, said = running.communicate(timeout=30)
    assert (running.returncode, out) == (130, "")
    assert said == "apportion: interrupted; no file is left half written.\n"


@pytest.mark.parametrize(
    ("argv", "orig_argv", "is_command"),
    [
        (["-m", "label"], ["python", "-X", "dev", "-m", "apportion", "label"], True),
        (["/bin/apportion", "label"], ["python", "/bin/apportion", "label"], True),
        (["mine.py", "apportion"], ["python", "mine.py", "apportion"], False),
        (["-c", "apportion"], ["python", "-c", "import apportion", "apportion"], False),
        (["/bin/apportion"], ["python", "-c", "from multiprocessing…", "--fork"], False),
        ([""], ["python"], False),
    ],
)
def test_only_the_command_handles_signals(monkeypatch, argv, orig_argv, is_command):
    """A program that imports the library is left alone, and so are the command's own workers."""
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", orig_argv)
    assert _signals._is_command() == is_command


SMALL_DISK = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))"


@pytest.mark.parametrize("output", ["labels.csv", "labels.parquet"])
def test_a_full_disk_leaves_nothing(output):
    pytest.importorskip("resource")
    before = files_of(".")
    running = process("label", "rows.csv", *KNOWN, "-o", output, "-q", code=SMALL_DISK)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 3, said
    assert said == f"apportion: {output} cannot be written: file too large. Nothing was changed.\n"
    assert files_of(".") == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_stdout():
    before = files_of(".")
    with open("/dev/full", "w") as full:
        running = process("label", "rows.csv", *KNOWN, "--model", "model.zip", "-q", out=full)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 3
    assert said == "apportion: stdout cannot be written: no space left on device.\n"
    assert files_of(".") == before


def test_a_reader_that_has_had_enough():
    lines = Path("rows.csv").read_text().splitlines(keepends=True)
    write("rows.csv", lines[0] + "".join(lines[1:]) * 300)
    write("totals.csv", "day,sleep,tv\nmon,0.6,0.4\ntue,0.4,0.6\nwed,0.5,0.5\n")
    running = process("label", "rows.csv", *KNOWN, "--model", "model.zip", "-q")
    assert running.stdout.readline().startswith('"id","day","label"')
    running.stdout.close()
    said = running.stderr.read()
    assert (running.wait(timeout=60), said) == (0, "")
    assert load_model("model.zip").contents == "5,400 training rows"


def test_a_narrow_terminal_without_color():
    name = "a class with a rather long name"
    write("totals.csv", f"day,sleep,{name}\nmon,4,2\ntue,2,4\nwed,3,3\n")
    words = ["label", "rows.csv", *KNOWN, "--output", "labels.csv"]
    running = process(*words, COLUMNS="40", NO_COLOR="1")
    out, said = running.communicate(timeout=60)
    assert (running.returncode, out) == (0, "")
    assert "\x1b" not in said
    tables = [line for line in said.splitlines() if "→" in line or "─" in line]
    assert tables
    assert max(map(len, tables)) <= 40
    assert "assigned   confidence" in said
    assert "…" not in said
