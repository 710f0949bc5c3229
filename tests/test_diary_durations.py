"""How long something took, in every spelling: the right value or a clean refusal."""

from __future__ import annotations

import math
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apportion.exceptions import DiaryError
from apportion.supervision.diary.durations import UNITS, Amount, read_amount, unit_in_name
from apportion.supervision.diary.recording import window_seconds

SPACES = ["", " ", "  ", "\t", "\u00a0", "\u202f", "\u2009"]

SPELLINGS = {
    "8h30": lambda h, m, s, _: (f"{h}h{m:02}", (h, m, 0)),
    "8h5": lambda h, m, s, _: (f"{h}h{m}", (h, m, 0)),
    "8 h 30 min": lambda h, m, s, _: (f"{h}{_}h{_}{m}{_}min", (h, m, 0)),
    "8 hours 30": lambda h, m, s, _: (f"{h}{_}hours{_}{m}", (h, m, 0)),
    "8 hrs 30 mins 15 secs": lambda h, m, s, _: (f"{h}{_}hrs{_}{m}{_}mins{_}{s}{_}secs", (h, m, s)),
    "8H30M15S": lambda h, m, s, _: (f"{h}H{m}M{s}S", (h, m, s)),
    "8h15s": lambda h, m, s, _: (f"{h}h{_}{s}s", (h, 0, s)),
    "8 h": lambda h, m, s, _: (f"{h}{_}hour", (h, 0, 0)),
    "8,25 h": lambda h, m, s, _: (f"{h},25{_}h", (h, 15, 0)),
    "8.25 h": lambda h, m, s, _: (f"{h}.25{_}h", (h, 15, 0)),
    "90 min": lambda h, m, s, _: (f"{60 * h + m}{_}min", (h, m, 0)),
    "90'": lambda h, m, s, _: (f"{60 * h + m}{_}'", (h, m, 0)),
    "90 m 15 s": lambda h, m, s, _: (f"{60 * h + m}{_}m{_}{s}{_}s", (h, m, s)),
    "30.5 min": lambda h, m, s, _: (f"{m}.5{_}min", (0, m, 30)),
    "5415 s": lambda h, m, s, _: (f"{3600 * h + 60 * m + s}{_}s", (h, m, s)),
    "5415 seconds": lambda h, m, s, _: (f"{3600 * h + 60 * m + s}{_}seconds", (h, m, s)),
    "08:30": lambda h, m, s, _: (f"{h:02}:{m:02}", (h, m, 0)),
    "8:30": lambda h, m, s, _: (f"{h}:{m:02}", (h, m, 0)),
    "08:30:15": lambda h, m, s, _: (f"{h:02}:{m:02}:{s:02}", (h, m, s)),
}


@given(
    spelling=st.sampled_from(sorted(SPELLINGS)),
    hours=st.integers(0, 130),
    minutes=st.integers(0, 59),
    seconds=st.integers(0, 59),
    space=st.sampled_from(SPACES),
    around=st.sampled_from(SPACES),
)
@example(spelling="5415 s", hours=0, minutes=0, seconds=30, space="", around="")
@example(spelling="8h15s", hours=8, minutes=0, seconds=30, space="", around="")
def test_every_spelling_is_read_as_it_was_written(spelling, hours, minutes, seconds, space, around):
    text, (h, m, s) = SPELLINGS[spelling](hours, minutes, seconds, space)
    assert read_amount(f"{around}{text}{around}") == Amount("seconds", 3600.0 * h + 60 * m + s)


@given(st.decimals(0, 10**6, places=4), st.booleans(), st.sampled_from(["", "+"]))
def test_bare_numbers_keep_their_value(number, comma, sign):
    text = f"{sign}{number:f}"
    wanted = Amount("bare", float(number))
    assert read_amount(text.replace(".", ",") if comma else text) == wanted
    assert read_amount(float(number)) == read_amount(number) == wanted


@given(st.decimals(0, 1000, places=2), st.sampled_from(SPACES))
def test_percentages_are_shares(number, space):
    found = read_amount(f"{number:f}{space}%")
    assert found.kind == "share"
    assert found.value == pytest.approx(float(number) / 100, abs=1e-15)


@given(st.timedeltas(timedelta(), timedelta(days=3000)))
def test_time_deltas_of_every_maker_are_seconds(delta):
    microseconds = delta // timedelta(microseconds=1)
    for one in (delta, pd.Timedelta(delta), np.timedelta64(microseconds, "us")):
        found = read_amount(one)
        assert found.kind == "seconds"
        assert found.value == pytest.approx(delta.total_seconds(), rel=1e-12)


@given(st.times())
def test_a_clock_time_is_the_time_since_midnight(clock):
    since = timedelta(
        hours=clock.hour,
        minutes=clock.minute,
        seconds=clock.second,
        microseconds=clock.microsecond,
    )
    assert read_amount(clock) == Amount("seconds", since.total_seconds())


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        (8, 8.0), (np.int8(8), 8.0), (np.float32(0.5), 0.5), (np.uint64(3), 3.0),
        (Decimal("8.5"), 8.5), (Fraction(1, 4), 0.25), (0, 0.0), (-0.0, 0.0),
        ("8.", 8.0), (".5", 0.5), (",5", 0.5), ("1e2", 100.0), ("1,5E1", 15.0), ("0,125", 0.125),
        (np.str_("8,5"), 8.5),
    ],
)  # fmt: skip
def test_numbers_of_every_maker_are_bare(cell, value):
    assert read_amount(cell) == Amount("bare", value)


@pytest.mark.parametrize(
    "cell", [None, "", "  ", "\u00a0", math.nan, np.nan, pd.NA, pd.NaT, np.timedelta64("NaT")]
)
def test_blank_cells_say_nothing(cell):
    assert read_amount(cell) is None


@pytest.mark.parametrize(
    "cell",
    [
        "-3", "-3h", "−3", "-08:30", -1, -0.5, timedelta(-1), np.timedelta64(-1, "s"), "-5 %",
        "inf", "nan", "1e400", "1e13", math.inf, 10**400, "9" * 400 + "h", "9" * 400 + "%",
        "9" * 400 + ":00", "8h60", "8h 75 min", "25:61", "8:60", "8:5", "8:30:60", "08:30:15:00",
        "1 min 90 s", "8.5h30", "8,5 h 30 min", "30 8h", "30 min 8 h", "8h8h", "8 30", "8 30s",
        "½", "8½", "8 h ½", "²", "eight", "h", "min", "%", ":", "'", "8 %%", "8 h %", "8h30 %",
        "1,440", "12,000", "1,440 min", "1,234,567", "1 440", "8 days", "~8", "8-9", "8h–9h", "8?",
        True, False, np.True_, 1 + 2j, date(2024, 3, 4), [], {}, object(), np.array([1.0, 2.0]),
        np.timedelta64(1, "Y"),
    ],
    ids=lambda cell: repr(cell)[:20],
)  # fmt: skip
def test_what_is_no_duration_is_refused(cell):
    with pytest.raises(ValueError, match="no amount"):
        read_amount(cell)


@given(st.text(st.sampled_from("0123456789.,:%'hmsin eE+-½\u00a0"), max_size=9) | st.text())
def test_any_text_is_an_amount_or_blank_or_refused(text):
    try:
        found = read_amount(text)
    except ValueError:
        return
    if found is None:
        assert not text.strip()
        return
    assert 0 <= found.value < math.inf
    assert any(sign.isdigit() for sign in text)


@given(st.floats(1e-3, 1e5), st.sampled_from(["s", "sec", "min", "h"]))
def test_a_windows_length_is_read_like_a_duration_and_bare_numbers_are_seconds(number, unit):
    worth = {"s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0}[unit]
    assert window_seconds(f"{number:f} {unit}") == pytest.approx(float(f"{number:f}") * worth)
    assert window_seconds(number) == window_seconds(timedelta(0, 1)) * number


@pytest.mark.parametrize("length", ["0", 0, "50%", "", None, "x", -1, 1e-9, 1e300, math.inf, True])
def test_a_window_has_a_length(length):
    with pytest.raises(DiaryError, match="the length of a window"):
        window_seconds(length)


@given(
    name=st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=8),
    unit=st.sampled_from(
        [("h", "hours"), ("hours", "hours"), ("Min", "minutes"), ("min.", "minutes"),
         ("'", "minutes"), ("s", "seconds"), ("%", "percent"), ("Percent", "percent"),
         ("share", "share")]
    ),
    brackets=st.sampled_from(["()", "[]"]),
    space=st.sampled_from(SPACES),
)  # fmt: skip
def test_a_unit_in_brackets_is_taken_off_a_columns_name(name, unit, brackets, space):
    written = f"{space}{name}{space}{brackets[0]}{space}{unit[0]}{space}{brackets[1]}{space}"
    assert unit_in_name(written) == (name, unit[1])
    assert unit[1] in UNITS
    assert unit_in_name(f"{space}{name}{space}") == (name, None)


@pytest.mark.parametrize("name", ["(h)", "tv (indoors)", "tv (h) late", "h", "tv h"])
def test_other_names_are_whole(name):
    assert unit_in_name(name) == (name, None)
