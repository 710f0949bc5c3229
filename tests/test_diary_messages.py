"""Errors in a diary or its windows name the place, and how to fix them."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apportion
from apportion.exceptions import DiaryError, FileError
from apportion.supervision.diary import DiaryRules, diary_bags

DAY = "2024-03-04"
HOURS = np.arange("2024-03-04T00", "2024-03-05T00", dtype="M8[h]")
WINDOWS = {"start": HOURS}

CSV_CASES = {
    "a day twice": (
        "date,sleep\n2024-03-04,8h\n\n2024-03-04,7h\n",
        "diary.csv, line 2 and line 4",
        "two entries for '2024-03-04'",
        "drop one",
    ),
    "a day of a participant twice": (
        "participant,date,sleep\np1,2024-03-04,8h\np1,2024-03-04,7h\n",
        "line 2 and line 3",
        "two entries for '2024-03-04' of participant 'p1'",
        "drop one",
    ),
    "an activity twice": (
        "date,activity,hours\n2024-03-04,tv,1\n2024-03-04,sleep,8\n2024-03-04,tv,2\n",
        "line 2 and line 4",
        "two entries for 'tv' of '2024-03-04'",
        "join them",
    ),
    "a span twice": (
        "start,end,activity\n2024-03-04 08:00,2024-03-04 09:00,tv\n"
        "2024-03-04T08:00,2024-03-04T09:00,sleep\n",
        "line 2 and line 3",
        "two entries for '2024-03-04 08:00–09:00'",
        "drop one",
    ),
    "spans that overlap": (
        "start,end,activity\n2024-03-04 08:00,2024-03-04 09:00,tv\n"
        "2024-03-04 06:00,2024-03-04 08:30,sleep\n",
        "diary.csv, line 2 and line 3",
        "overlap",
        "correct the times",
    ),
    "a span within another": (
        "date,start,end,activity\n2024-03-04,08:00,12:00,tv\n2024-03-04,13:00,14:00,tv\n"
        "2024-03-04,09:00,10:00,tv\n",
        "line 2 and line 4",
        "overlap",
        "drop one of the two",
    ),
    "25 hours": (
        "date,sleep,tv\n2024-03-04,20h,5h\n",
        "diary.csv, line 2, entry '2024-03-04'",
        "25 h",
        "excess='scale'",
    ),
    "25 bare hours": (
        "date,sleep,tv\n2024-03-04,20,5\n",
        "line 2",
        "25 h",
        "not hours, give their unit with unit",
    ),
    "25 hours of many lines": (
        "date,activity,hours\n2024-03-04,tv,9\n2024-03-04,sleep,8\n2024-03-04,work,8\n",
        "diary.csv, lines 2, 3, 4, entry '2024-03-04'",
        "25 h",
        "correct the entry",
    ),
    "minutes taken for hours": (
        "date,sleep,tv\n2024-03-04,480,90\n",
        "line 2",
        "570 h",
        "unit",
    ),
    "text for a duration": (
        "date,sleep\n2024-03-04,well\n",
        "line 2, column 'sleep'",
        "'well'",
        "note=sleep",
    ),
    "long, but not so called": (
        "date,what,hours\n2024-03-04,tv,1\n",
        "line 2, column 'what'",
        "'tv'",
        "activity=what",
    ),
    "a negative duration": (
        "date,sleep\n2024-03-04,-3\n",
        "line 2, column 'sleep'",
        "'-3'",
        "correct the cell",
    ),
    "thousands or decimals": (
        'date,sleep (min)\n2024-03-04,"1,440"\n',
        "line 2, column 'sleep (min)'",
        "'1,440'",
        "correct",
    ),
    "no date": (
        "date,sleep\n2024-03-04,8h\n,7h\n",
        "line 3, column 'date'",
        "no date",
        "fill the cell",
    ),
    "another form of date": (
        "date,sleep\n04/03/2024,8h\n",
        "line 2, column 'date'",
        "'04/03/2024'",
        "date_format",
    ),
    "no column that says when": (
        "Tag,sleep\n2024-03-04,8h\n",
        "diary.csv",
        "no column that says when; its columns are 'Tag'",
        "diary_column='date=Tag'",
    ),
    "no activity": (
        "date,note\n2024-03-04,x\n",
        "diary.csv",
        "no column of an activity",
        "add them",
    ),
    "no duration": (
        "date,class\n2024-03-04,tv\n",
        "diary.csv",
        "activities in 'class' without durations",
        "'class' is itself an activity, rename",
    ),
    "activities that differ in capitals": (
        "date,activity,hours\n2024-03-04,tv,1\n2024-03-04,TV,1\n",
        "line 2 and line 3",
        "only in capitals, 'tv' and 'TV'",
        "rename or join",
    ),
    "columns of one activity": (
        "date,tv (h),tv (min)\n2024-03-04,1,1\n",
        "column 'tv (h)' and column 'tv (min)'",
        "the activity 'tv' twice",
        "join",
    ),
    "no participant in a line": (
        "participant,date,sleep\n,2024-03-04,8h\n",
        "line 2, column 'participant'",
        "no participant",
        "fill",
    ),
    "no activity in a line": (
        "date,activity,hours\n2024-03-04,,8\n",
        "line 2, column 'activity'",
        "no activity",
        "fill",
    ),
    "a period that ends before it begins": (
        "start,end,sleep\n2024-03-04 09:00,2024-03-04 08:00,1h\n",
        "diary.csv, line 2",
        "ends at 2024-03-04 08:00 and begins at 2024-03-04 09:00",
        "exchange",
    ),
    "clock times without a date": (
        "start,end,sleep\n09:00,10:00,1h\n",
        "diary.csv",
        "clock times in 'start' and 'end', but no",
        "diary_column='date",
    ),
    "a clock time that is none": (
        "date,start,end,sleep\n2024-03-04,09:00,10:00,1h\n2024-03-04,10:00,24:30,1h\n",
        "line 3, column 'end'",
        "'24:30'",
        "correct the cell",
    ),
    "a blank clock time": (
        "date,start,end,sleep\n2024-03-04,09:00,,1h\n",
        "line 2, column 'end'",
        "no time",
        "fill the cell",
    ),
    "a start at 24": (
        "date,start,end,sleep\n2024-03-04,24:00,01:00,1h\n",
        "line 2, column 'start'",
        "'24:00'",
        "corr",
    ),
    "one zone for two": (
        "start,end,sleep\n2024-03-04 09:00Z,2024-03-04 10:00,1h\n",
        "diary.csv, line 2, column 'end'",
        "times without a zone",
        "alike",
    ),
    "nothing matches": (
        "date,sleep\n2023-03-04,8h\n",
        "diary.csv",
        "its first is '2023-03-04'",
        "check dates",
    ),
    "nothing is said": (
        "date,sleep,tv\n2024-03-04,,\n",
        "diary.csv",
        "say nothing are left out (1 of 1): 2024-03-04",
        "fill in the diary",
    ),
    "nothing but a header": ("date,sleep\n", "diary.csv", "no line below the header", "right file"),
    "nothing": ("\n\n", "diary.csv", "nothing in it", "right file"),
    "too few cells": (
        "date,sleep\n2024-03-04\n",
        "diary.csv, line 2",
        "1 cell",
        "correct the line",
    ),
    "a name twice": (
        "date,tv,tv\n2024-03-04,1,1\n",
        "columns 2 and 3",
        "same name, 'tv'",
        "rename",
    ),
    "other people": (
        "participant,date,sleep\np1,2024-03-04,8h\np2,2024-03-04,8h\n",
        "the windows",
        "no participant, while the diary is of 2",
        "participant",
    ),
    "a zone beside none": (
        "start,end,sleep\n2024-03-04T09:00Z,2024-03-04T10:00Z,1h\n",
        "the windows",
        "times without a zone, while the diary's have one",
        "timezone",
    ),
    "a name of periods that windows lack": (
        "period,sleep\nnight,8h\n",
        "the windows",
        "no column 'period'",
        "dates or times",
    ),
}


@pytest.mark.parametrize("case", sorted(CSV_CASES))
def test_a_bad_diary_is_refused_with_its_line(case, tmp_path):
    text, where, found, hint = CSV_CASES[case]
    path = tmp_path / "diary.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises((DiaryError, FileError)) as caught:
        diary_bags(WINDOWS, path)
    assert where in str(caught.value).partition(": found ")[0]
    assert found in caught.value.found
    assert hint in caught.value.hint


LINE = [{"date": DAY, "sleep": "8h"}]
CASES = {
    "no windows": ({"start": []}, LINE, {}, "the windows", "no window"),
    "no columns": ({}, LINE, {}, "the windows", "no window"),
    "a list of windows": ([{"start": HOURS[0]}], LINE, {}, "the windows", "type list"),
    "a path of windows": ("windows.csv", LINE, {}, "the windows", "type str"),
    "columns of two lengths": (
        {"start": HOURS, "end": HOURS[1:]},
        LINE,
        {},
        "column 'end', in the windows",
        "23 cells",
    ),
    "one cell for a column": (
        {"start": HOURS, "participant": "p1"},
        LINE,
        {},
        "column 'participant'",
        "one cell, 'p1'",
    ),
    "no times": ({"x": [1, 2]}, LINE, {}, "the windows", "no column of times"),
    "no length": ({"start": HOURS[:1]}, LINE, {}, "the windows", "neither an end nor two starts"),
    "no start": (
        {"start": HOURS},
        LINE,
        {"start": "begin"},
        "the windows",
        "no column 'begin'",
    ),
    "an end before the start": (
        {"start": HOURS, "end": HOURS},
        LINE,
        {},
        "row 0 of the windows",
        "does not end after",
    ),
    "a blank start": (
        {"start": [HOURS[0].item(), None]},
        LINE,
        {},
        "row 1 of the windows, column 'start'",
        "no time",
    ),
    "zones of ends": (
        {"start": ["2024-03-04T00:00Z"], "end": ["2024-03-04T01:00"]},
        LINE,
        {},
        "row 0 of the windows, column 'end'",
        "times without a zone",
    ),
    "an odd mark of non-wear": (
        {"start": HOURS, "nonwear": [0.5] * 24},
        LINE,
        {},
        "row 0 of the windows, column 'nonwear'",
        "0.5",
    ),
    "never worn": (
        {"start": HOURS, "nonwear": ["yes"] * 24},
        LINE,
        {},
        "the windows",
        "sensor was worn",
    ),
    "nobody's window": (
        {"start": HOURS, "participant": ["p1"] * 23 + [""]},
        LINE,
        {},
        "row 23 of the windows, column 'participant'",
        "no participant",
    ),
    "nobody's diary": (
        {"start": HOURS, "participant": ["p1", "p2"] * 12},
        LINE,
        {},
        "the diary",
        "no participant",
    ),
    "a bad length": (WINDOWS, LINE, {"window": "long"}, "the length of a window", "'long'"),
    "a bad zone": (WINDOWS, LINE, {"timezone": "Europe/Lodnon"}, "the time zone", "Lodnon"),
    "a bad start of the day": (
        WINDOWS,
        LINE,
        {"day_start": "24:00"},
        "`day_start`, the start of the day",
        "24:00",
    ),
    "no start of the day": (WINDOWS, LINE, {"day_start": None}, "the start of the day", "None"),
    "a bad role": (WINDOWS, LINE, {"diary_columns": {"dag": "date"}}, "columns", "the role 'dag'"),
    "two dates": (
        WINDOWS,
        LINE,
        {"diary_columns": {"date": ["date", "sleep"]}},
        "columns",
        "2 for the date",
    ),
    "no such column": (
        WINDOWS,
        LINE,
        {"diary_columns": {"date": "Tag"}},
        "the diary",
        "no column 'Tag'",
    ),
    "no diary": (WINDOWS, [], {}, "the diary", "nothing in it"),
    "an empty frame": (WINDOWS, pd.DataFrame({"date": [], "a": []}), {}, "the diary", "no line"),
    "an array": (WINDOWS, np.zeros((2, 2)), {}, "the diary", "type ndarray"),
    "one line, not a list": (WINDOWS, LINE[0], {}, "the diary, column 'date'", "'2024-03-04'"),
    "ragged columns": (
        WINDOWS,
        {"date": [DAY], "a": [1, 2]},
        {},
        "the diary",
        "'date' has 1, 'a' 2",
    ),
    "no file": (WINDOWS, "/nowhere/diary.csv", {}, "/nowhere/diary.csv", "no such file"),
    "a folder": (WINDOWS, Path(__file__).parent, {}, "tests", "a folder"),
    "a missing date": (
        WINDOWS,
        pd.DataFrame({"date": [pd.NaT], "a": [1]}),
        {},
        "the diary, row 0, column 'date'",
        "no date",
    ),
    "a column twice": (
        WINDOWS,
        pd.DataFrame([[DAY, 1, 2]], columns=["date", "a", "a"]),
        {},
        "columns 2 and 3",
        "the same name, 'a'",
    ),
    "a true amount": (WINDOWS, [{"date": DAY, "a": True}], {}, "row 0, column 'a'", "True"),
    "the last day of the calendar": (
        WINDOWS,
        [{"date": "9999-12-31", "a": "1h"}],
        {"timezone": "Europe/London"},
        "the diary",
        "no entry that any window falls into",
    ),
    "names without durations": (
        {"period": ["a"]},
        [{"period": "a", "s": "1h"}],
        {},
        "the windows",
        "neither times nor a length",
    ),
    "durations longer than the named period": (
        {"period": ["a"]},
        [{"period": "a", "s": "1h"}],
        {"window": 60},
        "row 0, entry 'a'",
        "sum to 60 min",
    ),
    "24 hours of a day of 23": (
        {"start": ["2024-03-31T12:00"]},
        [{"date": "2024-03-31", "a": "24h"}],
        {"timezone": "Europe/London", "window": 60},
        "row 0, entry '2024-03-31'",
        "24 h",
    ),
    "an hour that was not": (
        {"start": ["2024-03-31T00:30", "2024-03-31T01:30"]},
        LINE,
        {"timezone": "Europe/London"},
        "row 1 of the windows",
        "2024-03-31 01:30, which no clock in Europe/London showed",
    ),
    "a diary of an hour that was not": (
        {"start": ["2024-03-31T00:30"]},
        [{"date": "2024-03-31", "start": "01:00", "end": "02:00", "a": "1h"}],
        {"timezone": "Europe/London", "window": 60},
        "the diary, row 0",
        "01:00, which no clock",
    ),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_bad_windows_and_options_are_refused(case):
    rows, lines, options, where, found = CASES[case]
    with pytest.raises((DiaryError, FileError)) as caught:
        diary_bags(rows, lines, **options)
    assert where in str(caught.value).partition(": found ")[0]
    assert found in caught.value.found


def test_other_spreadsheets_are_told_to_become_a_csv(tmp_path):
    (tmp_path / "diary.ods").write_bytes(b"PK\3\4\xff\xfe\0")
    with pytest.raises(FileError, match=r"a \.ods file.*save the table as CSV"):
        diary_bags(WINDOWS, tmp_path / "diary.ods")


def test_rows_are_called_as_the_caller_says():
    with pytest.raises(DiaryError, match=r"^my\.csv, line 3, column 'start'"):
        diary_bags({"start": ["2024-03-04", "x"]}, LINE, place=lambda i: f"my.csv, line {i + 2}")


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 50),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(["8h", "08:30", DAY, f"{DAY} 08:00", "24:00", "50%", "100", "p1", "NaT", "tv"]),
    st.dates(),
    st.datetimes(),
    st.times(),
    st.timedeltas(),
)
COLUMNS = [
    "participant",
    "date",
    "start",
    "end",
    "period",
    "activity",
    "hours",
    "note",
    "tv",
    "a (%)",
]


@given(
    columns=st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=5, unique=True),
    cells=st.lists(st.lists(JUNK, min_size=5, max_size=5), min_size=1, max_size=3),
    timezone=st.sampled_from([None, "Europe/London"]),
)
def test_junk_gives_an_answer_or_a_clean_error(columns, cells, timezone):
    lines = [dict(zip(columns, row, strict=False)) for row in cells]
    rows = {"participant": ["p1"] * 24, "start": HOURS, "period": ["p1"] * 24}
    try:
        found = diary_bags(rows, lines, timezone=timezone)
    except (DiaryError, FileError):
        return
    assert len(found.bags) == 24


def test_every_option_in_a_message_is_one_of_the_commands():
    options = pytest.importorskip("apportion.cli.options")
    known = {f"--{name.replace('_', '-')}" for name in options.KnownOptions.__dataclass_fields__}
    package = Path(apportion.__file__).parent
    events = package / "supervision" / "diary" / "event_windows.py"
    windows = pytest.importorskip("apportion.cli.windows").windows
    assert options_named([events]) <= {
        f"--{name.replace('_', '-')}" for name in inspect.signature(windows).parameters
    }
    sources = [
        *({*events.parent.glob("*.py")} - {events}),
        package / "_io" / "sheet.py",
        package / "_io" / "csv_text.py",
    ]
    named = options_named(sources)
    assert len(named) > 10
    assert named <= known


def options_named(sources):
    """Return the options in the messages of modules, and the parameters in their hints."""
    texts = [
        node.value
        for source in sources
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    options = {one for text in texts for one in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)}
    fields = {one for text in texts for one in re.findall(r"\{([a-z_]+)(?=[:}])", text)}
    values = {"column", "value", "words"}
    return options | {f"--{name.replace('_', '-')}" for name in fields - values}


def test_an_entry_that_is_left_out_is_not_said_to_be_used():
    starts = np.arange("2024-03-04T00", "2024-03-06T00", dtype="M8[h]")[:47]
    diary = {"date": ["2024-03-04", "2024-03-05"], "sleep": ["8h", "3h"], "out": ["16h", "4h"]}
    rules = DiaryRules(uncovered="drop", part="scale", covers="period")
    notes = diary_bags({"start": starts}, diary, rules=rules).notes
    naming = [note for note in notes if note.startswith("entries") and "2024-03-05" in note]
    assert len(naming) == 1
    assert "are left out" in naming[0]
