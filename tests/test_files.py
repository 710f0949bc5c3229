"""Tables from files and into files."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import os
import sys
import tempfile
import zipfile
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion._io import csv_text, file_kinds, workbook
from apportion._io.atomic_write import Outputs, complete, replacing, require_writable
from apportion._io.csv_text import encoding_of, text_of
from apportion._io.file_kinds import refuse_bad_names
from apportion._io.read import no_column, place_in, read_columns
from apportion._io.sheet import read_sheet, sheet_of
from apportion._io.spreadsheet_safe import neutralized, write_table
from apportion._io.values import numbers_of, values_of
from apportion._io.workbook import read_lines
from apportion.exceptions import FileError, OutputError
from apportion.supervision.totals_table import read_totals

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.csv"


def in_file(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


# Reading


def test_a_text_file_is_text_and_spells_values(path):
    text = "i,f,t,b,d,when,code\n1,1.5,x,true,2024-03-04,2024-03-04T05:06:07,007\n,?,,NA,,,12\n"
    table = read_columns(in_file(path, text))
    cells = [line.split(",") for line in text.splitlines()]
    assert table.to_pylist() == [
        {name: cell or None for name, cell in zip(cells[0], line, strict=True)}
        for line in cells[1:]
    ]
    assert {name: values_of(table, name).to_pylist() for name in table.column_names} == {
        "i": [1, None],
        "f": [1.5, None],
        "t": ["x", None],
        "b": [True, None],
        "d": [dt.date(2024, 3, 4), None],
        "when": [dt.datetime(2024, 3, 4, 5, 6, 7), None],
        "code": ["007", "12"],
    }
    assert read_columns(path, ["t", "i"]).column_names == ["t", "i"]
    with pytest.raises(FileError, match="did you mean 'when'"):
        read_columns(path, ["then"])


def test_codes_far_down_are_kept(path, monkeypatch):
    monkeypatch.setattr(csv_text, "_BLOCK", 1000)
    rows = "".join(f"{i},{i}\n" for i in range(1000, 2000))
    table = read_columns(in_file(path, f"zip,n\n{rows}00042,7\n"))
    assert values_of(table, "zip").to_pylist()[-2:] == ["1999", "00042"]
    assert values_of(table, "n").type == pa.int64()


@pytest.mark.parametrize("point", [".", ","])
def test_numbers_that_turn_into_text_far_down(path, monkeypatch, point):
    monkeypatch.setattr(csv_text, "_BLOCK", 1000)
    rows = "".join(f"{i}{point}5;{i}\n" for i in range(1000))
    table = read_columns(in_file(path, f"x;n\n{rows}much;1\n"))
    assert values_of(table, "x").to_pylist()[-2:] == [f"999{point}5", "much"]
    assert values_of(table, "n").type == pa.int64()
    with pytest.raises(FileError, match="'much'"):
        numbers_of(table.column("x"), "x", str, delimiter=";")
    shorter = table.slice(0, 1000)
    assert values_of(shorter, "x").to_pylist() == [i + 0.5 for i in range(1000)]


@pytest.mark.parametrize("last", ["x", "x" * 50_000])
def test_cells_longer_than_a_block_or_of_several_lines(path, monkeypatch, last):
    monkeypatch.setattr(csv_text, "_BLOCK", 1000)
    rows = "".join(f'{i},"line\n{i}"\n' for i in range(1000))
    table = read_columns(in_file(path, f"n,t\n{rows}7,{last}\n"))
    assert table.column("t").to_pylist() == [*(f"line\n{i}" for i in range(1000)), last]
    assert place_in(path, 999) == "a.csv, line 2000"
    assert place_in(path, 1000) == "a.csv, line 2002"


@given(
    st.lists(
        st.tuples(st.integers(-9, 9), st.text("ab \n\"';,=é", min_size=1, max_size=5)),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_what_the_csv_module_writes_is_read_as_it_was(rows, delimiter, encoding):
    rows = [(i, f"_{text}_") for i, text in rows]
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(["number", "text"])
    writer.writerows(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = in_file(Path(folder, "a.csv"), out.getvalue(), encoding)
        table = read_columns(path)
        assert table.column("number").to_pylist() == [str(i) for i, _ in rows]
        assert table.column("text").to_pylist() == [text for _, text in rows]
        for row in range(len(rows)):
            line = int(place_in(path, row).rpartition(" ")[2])
            before = out.getvalue().replace("\r\n", "\n").split("\n")[: line - 1]
            assert len(list(csv.reader(before))) >= 1


def test_places(path, tmp_path):
    in_file(path, '\nid\n\n1\n"2\n3"\n4\n')
    assert read_columns(path).column("id").to_pylist() == ["1", "2\n3", "4"]
    assert [place_in(path, row) for row in range(3)] == [
        "a.csv, line 4", "a.csv, line 5", "a.csv, line 7",
    ]  # fmt: skip
    assert place_in(tmp_path / "a.parquet", 3) == "a.parquet, row 3"
    assert place_in(path, 99) == "a.csv, row 99"


def test_text_views_are_read(tmp_path):
    if not hasattr(pa, "string_view"):
        pytest.skip("this pyarrow has no views")
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": pa.array(["a", None], pa.string_view())}), file)
    table = read_columns(file)
    assert table.column("t").type == pa.large_string()
    assert table.column("t").to_pylist() == ["a", None]


def test_parquet_columns_that_are_not_there(tmp_path):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": ["a"], "u": [1]}), file)
    assert read_columns(file, ["u"]).column_names == ["u"]
    with pytest.raises(FileError, match="no column 'v'"):
        read_columns(file, ["v"])


@given(words, st.lists(words.filter(bool), min_size=1, unique=True))
def test_any_column_can_be_missed(name, columns):
    error = str(no_column(name, columns, "a.csv"))
    assert error.startswith(f"a.csv: found no column {name!r}")
    assert error.endswith(("?", "."))


@given(st.lists(words, max_size=6))
def test_bad_names_are_refused_and_only_these(names):
    good = all(names) and len(set(names)) == len(names)
    if good:
        refuse_bad_names(names, "a.csv")
    else:
        with pytest.raises(FileError):
            refuse_bad_names(names, "a.csv")


@given(st.binary(min_size=1, max_size=40))
def test_any_bytes_are_text_or_an_error(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.csv")
        path.write_bytes(content)
        try:
            encoding = encoding_of(path)
        except FileError:
            return
        path.read_text(encoding=encoding)
        with suppress(FileError):
            assert read_columns(path).num_rows


# Writing


@given(st.lists(st.one_of(words, st.text("=+-@\t\r\n1.,eE", max_size=6)), min_size=1))
def test_neutralized_text_starts_no_formula_and_is_not_lost(texts):
    table, changed = neutralized(pa.table({"t": pa.array(texts)}))
    for before, after in zip(texts, table.column("t").to_pylist(), strict=True):
        assert after in (before, f"'{before}")
        if after == before and after[:1] in set("=+-@\t\r\n"):
            float(after.replace(",", ".") or 0)
    assert changed == sum(
        before != after for before, after in zip(texts, table.column("t").to_pylist(), strict=True)
    )


@pytest.mark.parametrize(
    "number", ["-5", "+5", "-5.", "-.5", "-5,5", "+1e5", "-1.5E-3", "-", "--1", "-1-", "-1e"]
)
def test_only_numbers_may_begin_with_a_sign(number):
    table, changed = neutralized(pa.table({"t": [number]}))
    plain = number in ("-5", "+5", "-5.", "-.5", "-5,5", "+1e5", "-1.5E-3")
    assert changed == (not plain)
    assert table.column("t").to_pylist() == [number if plain else f"'{number}"]


def test_every_type_can_be_written(path):
    columns = {
        "text": pa.array(["=a", None]),
        "large": pa.array(["=a", None], pa.large_string()),
        "category": pa.array(["=a", None]).dictionary_encode(),
        "list": pa.array([[1, 2], None]),
        "struct": pa.array([{"a": 1}, None]),
        "bytes": pa.array([b"\xff\x00", None]),
        "fixed": pa.array([b"ab", None], pa.binary(2)),
        "number": pa.array([-1.5, None]),
        "decimal": pa.array([Decimal("-1.50"), None]),
        "date": pa.array([dt.date(2024, 3, 4), None]),
        "time": pa.array([dt.datetime(2024, 3, 4, 5), None]),
        "length": pa.array([dt.timedelta(seconds=5), None]),
        "yes": pa.array([True, None]),
        "=name": pa.array(["x", None]),
        "'=name": pa.array(["y", None]),
    }
    with Outputs() as outputs:
        assert write_table(pa.table(columns), path, outputs) == 4
    header, first, second = csv.reader(io.StringIO(path.read_text()))
    assert header[:-2] == [*columns][:-2]
    assert header[-2:] == ["'=name", "'=name"]
    assert first[:7] == ["'=a", "'=a", "'=a", "[1, 2]", "{'a': 1}", "ff00", "6162"]
    assert first[7:10] == ["-1.5", "-1.50", "2024-03-04"]
    assert second == [""] * len(columns)


def half_written(target, error, **options):
    with replacing(target, **options) as temporary:
        temporary.write_text("half")
        raise error


def test_nothing_is_left_of_what_fails(tmp_path):
    for error in (KeyboardInterrupt, ValueError, SystemExit):
        with pytest.raises(error):
            half_written(tmp_path / "a.csv", error)
        assert list(tmp_path.iterdir()) == []
    with pytest.raises(OutputError, match="no space left"):
        half_written(tmp_path / "a.csv", OSError(28, "No space left on device"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_only_by_force(tmp_path):
    target = tmp_path / "a.csv"
    target.write_text("mine")
    with pytest.raises(OutputError, match="or pass force"):
        half_written(target, AssertionError("the block must not run"))
    with pytest.raises(ValueError, match="halfway"):
        half_written(target, ValueError("halfway"), force=True)
    assert target.read_text() == "mine"
    with replacing(target, force=True) as temporary:
        temporary.write_text("yours")
    assert target.read_text() == "yours"
    assert list(tmp_path.iterdir()) == [target]


def test_long_names_can_be_written(tmp_path):
    target = tmp_path / ("x" * 240 + ".csv")
    require_writable(target, force=False)
    with replacing(target) as temporary:
        temporary.write_text("here")
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    "name",
    ["字" * 83 + ".csv", os.fsdecode(b"caf\xe9.csv"), "caf\u00e9.csv", "a\nb.csv"],
    ids=["long", "no UTF-8", "accent", "line"],
)
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other names")
def test_names_of_every_kind_can_be_written(tmp_path, name):
    target = tmp_path / name
    table = pa.table({"x": [1.5]})
    for path in (target, target.with_suffix(".parquet")) if len(name) < 80 else (target,):
        require_writable(path, force=False)
        with Outputs() as outputs:
            write_table(table, path, outputs)
        assert path.stat().st_size > 0


def test_a_name_that_is_too_long_is_refused_before_the_work(tmp_path):
    with pytest.raises(OutputError, match="cannot be written: file name too long"):
        require_writable(tmp_path / ("字" * 90 + ".csv"), force=False)


def three_files(folder, fails=None, **options):
    with Outputs(**options) as outputs:
        for name in ("a", "b", "c"):
            with outputs.writing(folder / name) as temporary:
                temporary.write_text("new")
        assert all((folder / name).read_text() == "old" for name in "ab" if options)
        if fails:
            raise fails


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def old_files(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("old")
    return tmp_path


def test_files_take_their_places_together(old_files):
    three_files(old_files, force=True)
    assert contents(old_files) == {"a": "new", "b": "new", "c": "new"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, OSError(28, "full")])
def test_none_takes_its_place_where_one_fails(old_files, error):
    with pytest.raises(type(error) if isinstance(error, OSError) else error):
        three_files(old_files, error, force=True)
    assert contents(old_files) == {"a": "old", "b": "old"}


@pytest.mark.parametrize("error", [OSError(30, "Read-only file system"), KeyboardInterrupt()])
@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("fails_at", range(3))
@pytest.mark.parametrize("after", [False, True])
def test_what_was_renamed_is_put_back(monkeypatch, old_files, error, links, fails_at, after):
    """Whatever stops the renaming, and whether before or after a file took its place."""
    replace, calls = os.replace, []

    def stops(source, target):
        calls.append(target)
        stop = len(calls) == fails_at + 1
        if stop and not after:
            raise error
        replace(source, target)
        if stop:
            raise error

    def no_links(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "replace", stops)
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    kind = OutputError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(kind):
        three_files(old_files, force=True)
    # The last rename decides: an interruption that comes after it finds all in place.
    done = after and fails_at == 2
    new = {"a": "new", "b": "new", "c": "new"}
    assert contents(old_files) == (new if done else {"a": "old", "b": "old"})


def test_what_cannot_be_put_back_is_named(monkeypatch, old_files):
    replace = os.replace

    def once(source, target):
        if Path(target).name != "a":
            raise OSError(30, "Read-only file system")
        replace(source, target)

    monkeypatch.setattr(os, "replace", once)
    with pytest.raises(OutputError, match=r"a could not be put back: read-only file") as error:
        three_files(old_files, force=True)
    kept = Path(str(error.value).split("What was there is in ")[1].rstrip("."))
    assert kept.read_text() == "old"
    assert "Nothing was changed" not in str(error.value)


@pytest.mark.parametrize("fails_at", range(4))
def test_a_journal_goes_when_renames_are_put_back(monkeypatch, old_files, fails_at):
    replace, calls = os.replace, []

    def fails(source, target):
        calls.append(target)
        if len(calls) == fails_at + 1:
            raise OSError(30, "Read-only file system")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OutputError):
        three_files(old_files, force=True, journal=old_files / "journal")
    assert contents(old_files) == {"a": "old", "b": "old"}


@pytest.mark.parametrize("done", range(4))
def test_a_journal_completes_the_renames_that_were_not_made(old_files, done):
    names = {"a": None}
    for k, name in enumerate(("b", "c")):
        names[name] = f".apportion-{k:032x}.tmp"
        (old_files / names[name]).write_text("new")
    (old_files / "journal").write_text(json.dumps(names))
    for name, temporary in list(names.items())[:done]:
        if temporary is None:
            (old_files / name).unlink()
        else:
            (old_files / temporary).replace(old_files / name)
    for _ in range(2):  # without a journal there is nothing to do
        complete(old_files / "journal")
        assert contents(old_files) == {"b": "new", "c": "new"}


def placed_early(folder):
    with Outputs(force=True) as outputs:
        outputs.make_folder(folder / "new" / "folder")
        for path in (folder / "a", folder / "new" / "folder" / "c"):
            with outputs.writing(path) as temporary:
                temporary.write_text("new")
        outputs.place()
        assert (folder / "a").read_text() == "new"
        raise ValueError("later")


def test_files_that_are_placed_early_are_put_back_too(old_files):
    with pytest.raises(ValueError, match="later"):
        placed_early(old_files)
    assert contents(old_files) == {"a": "old", "b": "old"}
    assert not (old_files / "new").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444, 0o755])
def test_a_file_keeps_the_mode_of_the_one_it_replaces(tmp_path, mode):
    target = tmp_path / "model.zip"
    target.write_text("old")
    target.chmod(mode)
    with replacing(target, force=True) as temporary:
        assert temporary.stat().st_mode & 0o777 & ~(mode | 0o600) == 0
        temporary.write_text("new")
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_new_file_has_the_usual_mode(tmp_path):
    (tmp_path / "usual").touch()
    with replacing(tmp_path / "new") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with a name")
def test_devices_and_pipes_are_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/null"), Path("/dev/stdout")):
        kind = path.lstat().st_mode
        with pytest.raises(OutputError, match="a device or a pipe, which is never replaced"):
            require_writable(path, force=True)
        with pytest.raises(OutputError, match="a device or a pipe, which is never replaced"):
            half_written(path, AssertionError("the block must not run"), force=True)
        assert path.lstat().st_mode == kind


def test_links_that_lead_nowhere_are_replaced_by_force(tmp_path):
    loop, hanging = tmp_path / "loop", tmp_path / "hanging"
    loop.symlink_to("loop")
    hanging.symlink_to("nothing")
    for path in (loop, hanging):
        with pytest.raises(OutputError, match="is there already"):
            require_writable(path, force=False)
        require_writable(path, force=True)
        with replacing(path, force=True) as temporary:
            temporary.write_text("new")
    assert contents(tmp_path) == {"loop": "new", "hanging": "new"}


def test_csv_and_parquet_hold_the_same(tmp_path):
    table = pa.table({"x": [1.5, None], "t": ["a", None]})
    with Outputs() as outputs:
        write_table(table, tmp_path / "a.csv", outputs)
        write_table(table, tmp_path / "a.parquet", outputs)
    assert pa_csv.read_csv(tmp_path / "a.csv").column("x").to_pylist() == [1.5, None]
    assert pq.read_table(tmp_path / "a.parquet").equals(table)


# Totals

SHARES = st.lists(st.integers(0, 100), min_size=2, max_size=4).filter(any)


@given(st.lists(SHARES.filter(lambda row: len(row) == 3), min_size=1, max_size=4))
def test_totals_in_wide_and_long_form_are_the_same(rows):
    names = ["a", "b", "c"]
    wide = [{"bag": f"k{k}", **dict(zip(names, row, strict=True))} for k, row in enumerate(rows)]
    long = [
        {"bag": f"k{k}", "class": name, "count": number}
        for k, row in enumerate(rows)
        for name, number in zip(names, row, strict=True)
    ]
    one = read_totals(sheet_of(wide, "wide"), "bag", "count")
    other = read_totals(sheet_of(long, "long"), "bag")
    assert one.unit == other.unit == "count"
    assert one.totals.ids == other.totals.ids
    assert one.totals.lower.tolist() == other.totals.lower.tolist() == rows
    assert list(one.places.values()) == [f"wide, row {k}" for k in range(len(rows))]


@pytest.mark.parametrize(
    ("cells", "unit", "share"),
    [
        ([(0.25, 0.75)], "share", 0.25),
        ([(25, 75)], "percent", 0.25),
        ([("25%", "75 %")], "percent", 0.25),
        ([("0%", "100%"), (0, "100%")], "percent", 0.0),
        ([(0.33, 0.66)], "share", 1 / 3),
        ([(1, 3)], "count", 1),
        ([(25, 75), (1, 1)], "count", 25),
        ([(1, 0), (0, 1)], "share", 1),
        ([(0.25, None)], "share", 0.25),
    ],
)
def test_what_numbers_are_read_as(cells, unit, share):
    rows = [{"bag": k, "a": a, "b": b} for k, (a, b) in enumerate(cells)]
    read = read_totals(sheet_of(rows, "t"), "bag")
    assert read.unit == unit
    assert read.totals.lower[0, 0] == pytest.approx(share)


def test_the_column_of_bags():
    for columns in (["Day", "a", "b"], ["a", "Bag", "b"], ["which", "a", "b"]):
        cells = {"a": 1, "b": 3}
        sheet = sheet_of([{name: cells.get(name, "mon") for name in columns}], "t")
        assert read_totals(sheet, "day").totals.ids == ("mon",)


def test_percentages_with_a_decimal_comma(tmp_path):
    file = tmp_path / "totals.csv"
    file.write_text("bag;tv;sleep\na;29,2%;70,8 %\nb;10%;90%\n")
    read = read_totals(read_sheet(file), "bag")
    assert read.totals.lower.tolist() == [[0.708, 0.292], [0.9, 0.1]]


# Files that unpack to far more than their size, and other files that would take forever


def zipped(path, sheet, strings=""):
    """Write a workbook whose first sheet is XML as it is given."""
    book = openpyxl.Workbook()
    book.active["A1"] = "text"
    book.save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    data = f'<worksheet xmlns="{main}"><sheetData>{sheet}</sheetData></worksheet>'
    members["xl/worksheets/sheet1.xml"] = data.encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def line(row, **cells):
    """Return a row of a sheet in XML."""
    inner = [
        f'<c r="{column}{row}" t="inlineStr"><is><t>{text}</t></is></c>'
        for column, text in cells.items()
    ]
    return f'<row r="{row}">{"".join(inner)}</row>'


HEADER = line(1, A="day", B="x")


@pytest.mark.parametrize(
    ("sheet", "says"),
    [
        (HEADER + line(200_000_000, A="mon"), "a row numbered 200,000,000"),
        (HEADER + line(1_048_577, A="mon"), "a row numbered 1,048,577"),
        (HEADER + line(2, A="mon", XFE="1"), "a cell in column XFE"),
        (HEADER + line(2, AAAAAAAA="1"), "a cell in column AAAAAAAA"),
        (HEADER + "<row>" + "<c/>" * 16_385 + "</row>", "a cell in column 16385"),
    ],
)
def test_rows_and_columns_that_no_sheet_has_are_damage(tmp_path, sheet, says):
    path = zipped(tmp_path / "t.xlsx", sheet)
    with pytest.raises(FileError, match=rf"t.xlsx: found {says}. Allowed: 1,048,576 rows and"):
        read_columns(path)


def test_a_far_row_and_a_far_column_are_read(tmp_path):
    path = zipped(tmp_path / "t.xlsx", HEADER + line(1_048_576, A="mon", B="3"))
    lines = read_lines(path, percent=False)
    assert lines == (["day", "x"], [["mon", "3"]], [1_048_576])
    far = "".join(line(row, A="mon", XFD=" ") for row in range(2, 1002))
    assert len(read_lines(zipped(path, HEADER + far), percent=False).rows) == 1000
    with pytest.raises(FileError, match="line 3: found 16,384 cells"):
        read_columns(zipped(path, HEADER + line(3, XFD="mon")))


def test_the_cells_of_a_sheet_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(workbook, "MOST_CELLS", 100)
    path = tmp_path / "t.xlsx"
    full = HEADER + "".join(line(row, A="mon", B="1") for row in range(2, 51))
    assert len(read_lines(zipped(path, full), percent=False).rows) == 49
    with pytest.raises(FileError, match="more than 100 cells"):
        read_columns(zipped(path, full + line(51, A="mon", B="1")))
    sparse = line(1, **{column: f"name {column}" for column in "ABCDEFGHIJ"})
    sparse += "".join(line(row, A="mon") for row in range(2, 20))
    with pytest.raises(FileError, match="more than 10 lines of 10 columns"):
        read_columns(zipped(path, sparse))


def csv_bomb(path):
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"day,x\n")
        for _ in range(30):
            file.write(b"mon,0000000000\n" * 70_000)


def xlsx_bomb(path):
    zipped(path, HEADER + line(2, A="m" * 30_000_000, B="1"))


def parquet_bomb(path):
    pq.write_table(pa.table({"day": pa.repeat("monday", 10_000_000)}), path)


@pytest.mark.parametrize(
    ("name", "make"), [("t.csv.gz", csv_bomb), ("t.xlsx", xlsx_bomb), ("t.parquet", parquet_bomb)]
)
def test_what_a_file_unpacks_to_is_limited(tmp_path, monkeypatch, name, make):
    path = tmp_path / name
    make(path)
    assert path.stat().st_size < 300_000
    monkeypatch.setattr(file_kinds, "_UNPACKED", 2e7)
    says = rf"{name}: found more than 0.02 GB once it is unpacked.*APPORTION_MAX_UNPACKED"
    for read in (read_columns, read_sheet):
        with pytest.raises(FileError, match=says):
            read(path)
    monkeypatch.setenv("APPORTION_MAX_UNPACKED", "25 MB")
    with pytest.raises(FileError, match=r"found more than 0\.025 GB"):
        read_columns(path)
    monkeypatch.setenv("APPORTION_MAX_UNPACKED", "1 GB")
    assert read_columns(path).num_rows


def test_a_file_may_unpack_to_many_times_its_size(tmp_path, monkeypatch):
    """Only what is far larger than the file is refused."""
    monkeypatch.setattr(file_kinds, "_UNPACKED", 1e4)
    numbers = np.random.default_rng(0).normal(size=3000)
    text = "x\n" + "\n".join(map(str, numbers))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert len(text) > 5e4
    assert read_columns(tmp_path / "t.csv.gz").num_rows == 3000


@pytest.mark.parametrize("size", ["much", "-1 GB", "8 XB", "1e400"])
def test_a_limit_that_is_no_size_is_refused(tmp_path, monkeypatch, size):
    csv_bomb(tmp_path / "t.csv.gz")
    monkeypatch.setenv("APPORTION_MAX_UNPACKED", size)
    with pytest.raises(FileError, match=r"APPORTION_MAX_UNPACKED: found .* such as '8 GB'"):
        read_columns(tmp_path / "t.csv.gz")


@pytest.mark.slow
def test_a_real_bomb_is_refused(tmp_path):
    path = tmp_path / "t.csv.gz"
    million = gzip.compress(b"mon,0000000000\n" * 70_000)
    path.write_bytes(gzip.compress(b"day,x\n") + 2860 * million)
    assert path.stat().st_size < 1e7
    with pytest.raises(FileError, match="more than 2 GB"):
        read_columns(path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".arff"])
def test_the_length_of_a_line_is_limited(tmp_path, monkeypatch, end, ending):
    monkeypatch.setattr(csv_text, "_CHUNK", 16)
    monkeypatch.setattr(csv_text, "_LONGEST_LINE", 50)
    path = tmp_path / f"t{ending}"
    pack = gzip.compress if ending.endswith("gz") else bytes
    header = ["@attribute x numeric", "@data"] if ending == ".arff" else ["x"]
    for length in (49, 50, 51, 200):
        lines = [*header, "1" * 20, "2" * length, *["3" * 30] * 20]
        path.write_bytes(pack(end.join([*lines, ""]).encode()))
        if length <= 50:
            assert text_of(path) == end.join([*lines, ""])
            continue
        number = rf"line {len(header) + 2 if end != chr(13) else 1}: found"
        with pytest.raises(FileError, match=f"{number} a line of more than 50 characters"):
            read_columns(path)


def test_the_number_of_columns_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_text, "_MOST_COLUMNS", 10_000)
    path = tmp_path / "t.csv"
    for n, extra in ((9_999, 0), (10_000, 0), (10_001, 1), (50_000, 1)):
        path.write_text(
            "\n" + ";".join(f"c{j}" for j in range(n)) + "\n" + ";".join("1" * n) + "\n"
        )
        if not extra:
            assert read_columns(path).num_columns == n
            continue
        with pytest.raises(FileError, match=f"about {n:,} columns. Allowed: up to 10,000"):
            read_columns(path)
