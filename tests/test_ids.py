"""Ids, names and classes are text, byte for byte, in every reader and writer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apportion import LPLLP, Totals
from apportion._io.feature_recipe import Feature, Recipe
from apportion._io.file_kinds import refuse_bad_names
from apportion._io.identifiers import as_vector
from apportion._io.read import read_columns
from apportion._io.sheet import read_sheet
from apportion._io.values import numbers_of, values_of
from apportion.datasets import make_bags
from apportion.exceptions import FileError, SupervisionError
from apportion.supervision.bags import match_bags
from apportion.supervision.diary import durations
from apportion.supervision.diary.durations import unit_in_name
from command_line import cells_of, done, refused, write

KNOWN = ("--bags", "bag", "--proportions", "totals.csv")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def labeled(ids, totals, *more, x=None, **columns):
    """Label rows of two clear kinds, and return the answer's lines."""
    n = len(ids)
    x = [float(10 * (i % 2)) + i / 100 for i in range(n)] if x is None else x
    names = ["bag", "x", *columns]
    rows = zip(ids, x, *columns.values(), strict=True)
    write("rows.csv", "\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]))
    write("totals.csv", totals)
    return cells_of(done("label", "rows.csv", *KNOWN, *more).stdout)


def test_bags_that_are_the_same_number_stay_two():
    answer = labeled(["1.1", "1.10"] * 10, "bag,a,b\n1.1,1,0\n1.10,0,1\n")
    assert [row["label"] for row in answer] == ["a", "b"] * 10
    assert [row["bag"] for row in answer] == ["1.1", "1.10"] * 10


@pytest.mark.parametrize("name", ["NA", "None", "?", "null", "nan", "true", "3E5", "007", "+5"])
def test_a_bag_may_have_any_name(name):
    answer = labeled([name, "other"] * 6, f"bag,a,b\n{name},1,0\nother,0,1\n")
    assert [row["label"] for row in answer] == ["a", "b"] * 6
    assert {row["bag"].removeprefix("'") for row in answer} == {name, "other"}


def test_an_empty_cell_is_the_missing_bag_and_no_other_is():
    answer = labeled(["m", "n", "", "NA"] * 4, "bag,a,b\nm,1,0\nn,0,1\n")
    assert [row["reason"] for row in answer] == ["", "", "unbagged", "unbagged"] * 4
    assert [row["bag"] for row in answer] == ["m", "n", "", "NA"] * 4


@pytest.mark.parametrize("known", ["None", "N/A", "nan", "1e2"])
def test_given_labels_that_look_missing_are_classes(known):
    given = [known, "", "b", ""] * 3
    answer = labeled(
        ["m"] * 12, f"bag,{known},b\nm,0.5,0.5\n", "--given", "g", x=range(12), g=given
    )
    assert [row["label"] for row in answer][::4] == [known] * 3
    assert [row["reason"] == "given" for row in answer] == [bool(one) for one in given]


def test_a_given_label_that_is_another_spelling_of_a_class():
    write("rows.csv", "bag,x,g\nm,1,1.0\nm,2,\nm,3,\n")
    write("totals.csv", "bag,1,2\nm,0.5,0.5\n")
    refused("label", "rows.csv", *KNOWN, "--given", "g", says=["'1.0'", "the class '1'"])


IDS = ["3E5", "300000", "+5", "5", "12345678901234567890", "12345678901234567891", "NA", "0.10"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_ids_come_out_as_they_went_in(ending):
    write("rows.csv", "\n".join(["key,bag,x", *(f"{key},m,{i}" for i, key in enumerate(IDS))]))
    write("totals.csv", "bag,a,b\nm,0.5,0.5\n")
    out = f"labels.{ending}"
    done("label", "rows.csv", *KNOWN, "--id", "key", "--all-columns", "--output", out)
    table = read_columns(Path(out))
    assert table.column("key").to_pylist() == IDS
    x = [str(i) for i in range(len(IDS))]
    assert table.column("x").to_pylist() == (x if ending == "csv" else list(map(int, x)))


def test_ids_of_labels_only_models_are_text():
    write("rows.csv", "\n".join(["key,bag,x", *(f"{key},m,{i}" for i, key in enumerate(IDS))]))
    write("totals.csv", "bag,a,b\nm,0.5,0.5\n")
    words = ("--id", "key", "--model", "model.zip", "--labels-only", "--output", "labels.csv")
    done("label", "rows.csv", *KNOWN, *words)
    labels = {row["key"]: row["label"] for row in cells_of(Path("labels.csv").read_text())}
    write("new.csv", "key,x\n5,0\n5.0,0\n,0\nNone,0\nNA,0\n")
    answer = cells_of(done("predict", "model.zip", "new.csv", "--id", "key").stdout)
    assert [row["label"] for row in answer] == [labels["5"], "", "", "", labels["NA"]]


def test_another_spelling_of_a_number_is_a_hint_and_no_match():
    write("rows.csv", "bag,x\n1.0,1\n1.0,2\n2,3\n2,4\n")
    write("totals.csv", "bag,a,b\n1,0.5,0.5\n2,0.5,0.5\n")
    says = ["rows.csv, line 2, column 'bag'", "'1.0'", "the table of totals has as '1'"]
    refused("label", "rows.csv", *KNOWN, says=says)
    refused("diagnose", "rows.csv", *KNOWN, says=says)


def test_typed_ids_match_text_as_they_print():
    pq.write_table(pa.table({"bag": [1, 1, 2, 2], "x": [0.0, 0.1, 5.0, 5.1]}), "rows.parquet")
    write("totals.csv", "bag,a,b\n1,1,0\n2,0,1\n")
    done("label", "rows.parquet", *KNOWN, "--output", "labels.parquet")
    table = read_columns(Path("labels.parquet"))
    assert table.column("label").to_pylist() == ["a", "a", "b", "b"]
    assert table.column("bag").to_pylist() == [1, 1, 2, 2]


def hours(who):
    return "".join(f"{who},2024-03-04T{h:02d}:00,{h * 7 % 24}\n" for h in range(24))


def test_participants_that_are_the_same_number_stay_two():
    write("rows.csv", f"participant,start,x\n{hours('1e2')}{hours('100')}")
    write("diary.csv", "participant,date,a,b\n1e2,2024-03-04,24,0\n100,2024-03-04,0,24\n")
    answer = cells_of(done("label", "rows.csv", "--diary", "diary.csv").stdout)
    assert [row["label"] for row in answer] == ["a"] * 24 + ["b"] * 24
    assert [row["participant"] for row in answer] == ["1e2"] * 24 + ["100"] * 24
    write("diary.csv", "participant,date,a,b\n1e2,2024-03-04,24,0\n100.0,2024-03-04,0,24\n")
    says = ["participant '100.0'", "the windows have as '100'"]
    refused("label", "rows.csv", "--diary", "diary.csv", says=says)


def test_periods_are_text_also_behind_semicolons():
    rows = "".join(f"{name};{i}\n" for i, name in enumerate(["1,5", "1,50"] * 6))
    write("rows.csv", f"period;x\n{rows}")
    write("diary.csv", "period;a;b\n1,5;100,0%;0%\n1,50;0%;100,0%\n")
    answer = cells_of(done("label", "rows.csv", "--diary", "diary.csv", "--window", "1h").stdout)
    assert [row["label"] for row in answer] == ["a", "b"] * 6
    assert read_sheet(Path("diary.csv")).column("period") == ["1,5", "1,50"]


def test_arff_has_a_missing_value_of_its_own():
    write(
        "rows.arff", "@relation r\n@attribute bag string\n@attribute x numeric\n@data\nNA,1\n?,?\n"
    )
    table = read_columns(Path("rows.arff"))
    assert table.column("bag").to_pylist() == ["NA", None]
    assert values_of(table, "x").to_pylist() == [1, None]


def test_a_report_reads_labels_back_as_text():
    pytest.importorskip("plotly")
    write("rows.csv", "\n".join(["key,bag,x", *(f"{key},m,{i}" for i, key in enumerate(IDS))]))
    write("totals.csv", "bag,NA,None\nm,0.5,0.5\n")
    for out in ("labels.csv", "labels.parquet"):
        done("label", "rows.csv", *KNOWN, "--id", "key", "--output", out)
        words = ("--labels", out, "--id", "key", "--output", f"{out}.html")
        done("report", "rows.csv", *KNOWN, *words)


# Numbers


@pytest.mark.parametrize(
    ("delimiter", "cells"),
    [
        (",", ["1,234", "2,345", "12"]),
        (",", ["0,5", "1,5", "2,5"]),
        (",", ["1.234,56", "12,5", "7"]),
        (";", ["1.234,56", "12,5", "7"]),
        (";", ["1.234", "12,5", "7"]),
        (";", ["1.234", "12.345", "999"]),
        (",", ["1 234", "12 345", "999"]),
        (",", ["1'234.5", "12'345.0", "999"]),
        (",", ["35%", "40 %", "7%"]),
    ],
)
def test_localized_numbers_are_refused(delimiter, cells):
    rows = [f'm{delimiter}"{cell}"{delimiter}{i}' for i, cell in enumerate(cells * 4)]
    write("rows.csv", "\n".join([delimiter.join(["bag", "x", "z"]), *rows]))
    write("totals.csv", "bag,a,b\nm,0.5,0.5\n")
    says = ["column 'x'", "thousands separators", "1234.56", "--categorical x"]
    refused("label", "rows.csv", *KNOWN, says=says)
    done("label", "rows.csv", *KNOWN, "--categorical", "x")


@pytest.mark.parametrize(
    ("delimiter", "cells", "numbers"),
    [
        (";", ["1,5", "-2", "3,25e2", ""], [1.5, -2.0, 325.0, np.nan]),
        ("\t", ["1.234", "12,5", "x"], None),
        ("\t", ["1.234", "12.345", "999"], [1.234, 12.345, 999.0]),
        (";", ["1.234", "12.5", "999"], [1.234, 12.5, 999.0]),
        (";", ["1.234", "12.345", "99.123"], [1.234, 12.345, 99.123]),
        (",", ["1.234", "+5", " 7 ", "NA", "1e3"], [1.234, 5.0, 7.0, np.nan, 1000.0]),
    ],
)
def test_clear_numbers_are_read(tmp_path, delimiter, cells, numbers):
    rows = [f"a{delimiter}{cell}" for cell in cells]
    write("rows.csv", "\n".join([f"k{delimiter}x", *rows]))
    table = read_columns(tmp_path / "rows.csv")
    if numbers is None:
        with pytest.raises(FileError, match=r"'1\.234'"):
            numbers_of(values_of(table, "x"), "x", str, delimiter=delimiter)
        return
    found = numbers_of(values_of(table, "x"), "x", str, delimiter=delimiter)
    np.testing.assert_array_equal(found, numbers)


def test_it_is_said_what_text_columns_hold():
    write("rows.csv", "bag,x,c\n" + "".join(f"m,{i},{'ab'[i % 2]} kg\n" for i in range(12)))
    write("totals.csv", "bag,a,b\nm,0.5,0.5\n")
    result = done("label", "rows.csv", *KNOWN)
    assert "categories: c (2 texts: 'a kg', 'b kg')" in result.stderr


# Classes


def test_classes_that_differ_in_a_zero_character_stay_two():
    totals = Totals.from_proportions({"m": {"a": 0.5, "a\0": 0.5}})
    assert totals.classes.tolist() == ["a", "a\0"]
    X = np.array([[0.0], [0.1], [5.0], [5.1]])
    model = LPLLP().fit(X, ["a", None, "a\0", None], bags=["m"] * 4, proportions=totals)
    assert model.transduction_.tolist() == ["a", "a", "a\0", "a\0"]
    assert model.predict(X).tolist() == ["a", "a", "a\0", "a\0"]
    assert as_vector(["a", "b"]).dtype.kind == "U"
    bags, dealt = make_bags(None, ["a", "a\0"] * 4, proportions=[[1, 0], [0, 1]], random_state=0)
    assert bags.tolist() == [0, 1] * 4
    assert dealt.classes.tolist() == ["a", "a\0"]


MISSING = [None, float("nan"), np.float64("nan"), pd.NaT, pd.NA]


@pytest.mark.parametrize("missing", MISSING)
def test_a_missing_value_is_no_class(missing):
    table = pd.DataFrame([[0.5, 0.5]], index=["m"], columns=pd.Index(["a", missing], dtype=object))
    given = [
        lambda: Totals.from_proportions(table),
        lambda: Totals.from_proportions({"m": {"a": 0.5, missing: 0.5}}),
        lambda: Totals.from_proportions({"m": [0.5, 0.5]}, classes=["a", missing]),
        lambda: Totals.from_counts({"m": {"a": 1, missing: 2}}),
        lambda: Totals.from_labels(["a", "a"], ["m", "m"], classes=["a", missing]),
        lambda: Totals.from_labels([[1.0, 0.0]], ["m"], classes=["a", missing]),
        lambda: match_bags(2, bags=["m", "m"], proportions={"m": {"a": 0.5, missing: 0.5}}),
    ]
    for make in given:
        with pytest.raises(SupervisionError, match="stands for a label that is not known"):
            make()


# Many columns


class Counted(str):
    """A name that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Counted.compared += 1
        return str.__eq__(self, other)


def test_names_are_compared_once_each():
    Counted.compared = 0
    refuse_bad_names([Counted(i) for i in range(2000)], "rows.csv")
    assert Counted.compared <= 2000


def test_encoding_asks_for_the_columns_once():
    n = 300
    recipe = Recipe(tuple(Feature(f"f{i}") for i in range(n)))
    table = pa.table({f"f{i}": [1.0, 2.0] for i in range(n)})
    asked = []

    class Spied:
        schema = table.schema
        num_rows = table.num_rows
        column = staticmethod(table.column)

        @property
        def column_names(self):
            asked.append(1)
            return table.column_names

    assert recipe.encode(Spied(), str).rows.shape == (2, n)
    assert len(asked) == 1


def test_headers_and_cells_with_many_blanks(tmp_path):
    blanks = " " * 100_000
    assert unit_in_name(f"a{blanks}b") == (f"a{blanks}b", None)
    assert unit_in_name(f"a{blanks}(min)") == ("a", "minutes")
    assert unit_in_name(f"a({blanks}(h") == (f"a({blanks}(h", None)
    assert durations.read_amount(f"8{blanks}h{blanks}30") == durations.read_amount("8h30")
    with pytest.raises(ValueError, match="no amount"):
        durations.read_amount(f"8 h{blanks}x")
    write("sheet.csv", f"a;b\n1,5{blanks}x;2\n")
    assert read_sheet(tmp_path / "sheet.csv").amounts("a") == [f"1,5{blanks}x"]


@pytest.mark.parametrize(
    ("column", "what", "text"),
    [
        ("day", "bag", "day,x\nmon,1\n\"mon \",2\ntue,3\n"),
        ("participant", "participant", "participant,start,x\np1,2024-03-04T00:00,1\n"
         "\" p1\",2024-03-04T01:00,2\n"),
    ],
)  # fmt: skip
def test_names_that_differ_in_blanks_alone_do_not_merge(column, what, text):
    write("rows.csv", text)
    write("totals.csv", "day,a,b\nmon,1,0\ntue,0,1\n")
    write("diary.csv", "participant,date,a,b\np1,2024-03-04,12,12\n")
    known = ["--bags", "day", "--proportions", "totals.csv"]
    known = known if what == "bag" else ["--diary", "diary.csv"]
    says = [f"column '{column}': found the {what}s", "which differ in blanks alone"]
    refused("label", "rows.csv", *known, says=says)
