"""Settings of a run: to JSON and back, and the same labels from options and from a file."""

from __future__ import annotations

import inspect
import json
import math
import os
from contextlib import chdir
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("typer")
pytest.importorskip("pyarrow")

from apportion._utils.options import REQUIRED
from apportion.cli.label import label
from apportion.exceptions import FileError, SettingsError
from apportion.labeling.settings import (
    LabelSettings,
    read_settings,
    settings_options,
    write_settings,
)
from command_line import KNOWN, day_files, done, refused, table, windows, write

DAY = {"readings": "rows.csv", "bags": "day", "proportions": "totals.csv"}
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\\\x00"), min_size=1).filter(
    lambda name: name not in (".", "..")
)


def value_of(item):
    """Return a strategy for the values that an option allows."""
    low, high = item.facts.low, item.facts.high
    if item.choices:
        return st.sampled_from(item.choices)
    return {
        "path": NAMES.map(lambda name: Path("data") / name),
        "text": st.text(),
        "texts": st.lists(NAMES),
        "flag": st.booleans(),
        "whole number": st.integers(
            None if low is None else int(low), None if high is None else int(high)
        ),
        "number": st.floats(low, high, allow_nan=False, allow_infinity=False),
    }[item.kind]


OPTIONS_OF_A_RUN = st.fixed_dictionaries(
    {item.name: value_of(item) for item in settings_options() if item.default is REQUIRED},
    optional={
        item.name: value_of(item) for item in settings_options() if item.default is not REQUIRED
    },
)


@settings(max_examples=60, deadline=None)
@given(OPTIONS_OF_A_RUN)
def test_settings_come_back_from_json_as_they_were(values):
    before = LabelSettings.from_values(values)
    written = json.loads(json.dumps(before.to_json(Path("data"))))
    again = LabelSettings.from_json(written, Path("data"))
    given_before, given_again = before.known.given, again.known.given
    before.known.given = again.known.given = None
    assert again == before
    # A given label that is a table is one of the folder; a column keeps its name.
    assert [Path(text).name for text in given_again or ()] == [
        Path(text).name for text in given_before or ()
    ]
    defaults = {item.name: item.default for item in settings_options()}
    assert all(before.values()[name] != defaults[name] for name in written if name != "given")


@pytest.fixture
def in_a_folder(tmp_path):
    with chdir(tmp_path):
        day_files()
        yield tmp_path


def save(name="settings.json", **options):
    return write(name, json.dumps({"apportion": "1", **DAY, **options}))


def test_options_and_a_settings_file_make_the_same_bytes(in_a_folder):
    words = ("--method", "lpllp", "--alpha", 0.7, "--exclude", "y", "--id", "id", "--all-columns")
    done("label", "rows.csv", *KNOWN, *words, "--abstain-below", 0.6, "-o", "typed.csv")
    options = {"method": "lpllp", "alpha": 0.7, "exclude": ["y"], "id": "id"}
    save(**options, all_columns=True, abstain_below=0.6)
    done("label", "--settings", "settings.json", "-o", "saved.csv")
    assert Path("saved.csv").read_bytes() == Path("typed.csv").read_bytes()
    assert b"uncertain" in Path("typed.csv").read_bytes()


def test_what_is_typed_wins(in_a_folder):
    save(alpha=0.7, exclude=["x"], missing="error")
    words = ("--settings", "settings.json", "--json", "-o", "labels.csv")
    summary = json.loads(done("label", *words).stdout)
    assert summary["models"]["all"]["settings"]["alpha"] == "0.7"
    # Also a value that is the default, and a list as a whole.
    typed = json.loads(done("label", *words, "--force", "--alpha", 0.5, "--exclude", "y").stdout)
    assert typed["models"]["all"]["settings"]["alpha"] == "0.5"
    excluded = next(note for note in typed["notes"] if note.startswith("not features"))
    assert "y (" in excluded
    assert "x (" not in excluded


def test_rows_of_the_file_or_of_the_command(in_a_folder):
    save(readings=None)
    refused("label", "--settings", "settings.json", code=2, says="READINGS is missing")
    refused("label", code=2, says="READINGS is missing")
    done("label", "rows.csv", "--settings", "settings.json", "-o", "labels.csv")
    save(readings="no.csv")
    refused("label", "--settings", "settings.json", says="no.csv")
    done("label", "rows.csv", "--settings", "settings.json", "-o", "labels.csv", "--force")


def test_paths_are_relative_to_the_settings_file(in_a_folder):
    Path("there").mkdir()
    for name in ("rows.csv", "totals.csv"):
        Path(name).rename(Path("there") / name)
    write("there/labels.csv", table(id=["mon0"], label=["sleep"]))
    save("there/settings.json", given=["labels.csv"], id="id")
    done("label", "--settings", "there/settings.json", "-o", "from_here.csv")
    with chdir("there"):
        done("label", "--settings", "settings.json", "-o", "from_there.csv")
    assert Path("from_here.csv").read_bytes() == Path("there/from_there.csv").read_bytes()
    assert b"given" in Path("from_here.csv").read_bytes()
    # Files outside the folder are named by the way to them.
    found = read_settings("there/settings.json")
    write_settings(found, "settings.json")
    moved = json.loads(Path("settings.json").read_text())
    assert moved["readings"] == "there/rows.csv"
    assert moved["given"] == ["there/labels.csv"]
    write_settings(found, "there/again.json")
    Path("elsewhere").mkdir()
    write_settings(found, "elsewhere/settings.json")
    assert json.loads(Path("elsewhere/settings.json").read_text())["readings"] == (
        "../there/rows.csv"
    )
    assert read_settings("there/again.json") == found
    done("label", "--settings", "elsewhere/settings.json", "-o", "from_outside.csv")
    assert Path("from_outside.csv").read_bytes() == Path("from_here.csv").read_bytes()


def test_a_path_that_is_not_utf_8_comes_back(tmp_path):
    name = os.fsdecode(b"caf\xe9.csv")
    settings = LabelSettings.from_json({"readings": name}, tmp_path)
    write_settings(settings, tmp_path / "settings.json")
    assert read_settings(tmp_path / "settings.json") == settings


def test_a_given_column_stays_a_column(in_a_folder):
    known = LabelSettings.from_json({**DAY, "given": ["truth", "labels.csv"]}, Path("there"))
    assert known.known.given == ["truth", str(Path("there") / "labels.csv")]
    assert known.to_json(Path("there"))["given"] == ["truth", "labels.csv"]


def test_the_settings_file_is_not_written_over(in_a_folder):
    save("settings.csv")
    words = ("label", "--settings", "settings.csv", "-o", "settings.csv", "--force")
    refused(*words, code=3, says="is an input of this command")


def test_a_diary_from_settings(tmp_path):
    with chdir(tmp_path):
        write("rows.csv", windows())
        write("diary.csv", "participant,date,sleep\np1,2024-03-04,8\np1,2024-03-05,6\n")
        options = {"readings": "rows.csv", "diary": "diary.csv", "tolerance": "15"}
        write("settings.json", json.dumps({**options, "timezone": "UTC", "method": "lpllp"}))
        words = ("--diary", "diary.csv", "--tolerance", "15", "--timezone", "UTC")
        done("label", "rows.csv", *words, "--method", "lpllp", "-o", "typed.csv")
        done("label", "--settings", "settings.json", "-o", "saved.csv")
        assert Path("saved.csv").read_bytes() == Path("typed.csv").read_bytes()
        settings = read_settings("settings.json")
        task = settings.read()
        labeled = settings.label(task, settings.features(task))
        assert labeled.summary["rows"] == 48
        assert settings.files == (Path("rows.csv"), Path("diary.csv"))


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("colour", "red", ("the option 'colour', which there is not", "such as 'readings'")),
        ("day-start", "04:00", "call it 'day_start'"),
        ("alpha", "0.5", ('--alpha, settings.json: found "0.5"', "a number")),
        ("alpha", True, "--alpha, settings.json: found true"),
        ("seed", 1.5, ("--seed, settings.json: found 1.5", "a whole number of 0 or more")),
        ("seed", -1, "--seed, settings.json: found -1"),
        ("probes", 1.5, "a whole number of 0 or more"),
        ("jobs", 2, "the option 'jobs', which there is not"),
        ("context", "5", "the option 'context', which there is not"),
        ("scale", 1, ("--scale, settings.json: found 1", "true or false")),
        ("missing", "zero", ('found "zero"', "one of 'median', 'drop', 'error'")),
        ("exclude", "y", "a list of texts"),
        ("exclude", ["y", 1], "a list of texts"),
        ("readings", ["rows.csv"], "the path of a file"),
        ("timezone", 1, "a text"),
    ],
)
def test_settings_that_are_not_allowed(in_a_folder, option, value, says):
    save(**{option: value})
    message = refused("label", "--settings", "settings.json", says=says)
    assert "settings.json" in message
    with pytest.raises(SettingsError):
        read_settings("settings.json")


@pytest.mark.parametrize("text", ["", "{", "[]", '"rows.csv"', "\xff", "[" * 100_000])
def test_files_that_hold_no_settings(in_a_folder, text):
    write("settings.json", text, "latin-1")
    message = refused("label", "--settings", "settings.json", says="settings: a JSON object")
    assert "settings.json" in message
    with pytest.raises(FileError):
        read_settings("settings.json")


def test_a_settings_file_that_is_not_there(in_a_folder):
    refused("label", "--settings", "no.json", says="no.json: found no such file")
    refused("label", "--settings", ".", says="a folder")


def test_settings_that_do_not_go_together_are_told_apart_by_name(in_a_folder):
    save(method="gp", fast=True)
    says = "--fast is for --method auto, and --method is gp"
    refused("label", "--settings", "settings.json", code=2, says=says)
    with pytest.raises(SettingsError) as error:
        read_settings("settings.json").check()
    assert error.value.parameter == "fast"
    assert str(error.value) == "fast is for method='auto', and method is gp."
    for options, name in (
        ({"abstain_below": math.nan}, "abstain_below"),
        ({"diary": "diary.csv"}, "diary"),
        ({"day_start": "04:00"}, "day_start"),
    ):
        with pytest.raises(SettingsError) as error:
            LabelSettings.from_json({**DAY, **options}, Path()).check()
        assert error.value.parameter == name


def test_settings_need_rows():
    with pytest.raises(SettingsError, match="readings") as error:
        LabelSettings.from_json({"bags": "day"}, Path())
    assert error.value.parameter == "readings"


def test_every_option_of_label_is_a_setting_or_about_files():
    about_files = {"settings", "output", "force", "quiet", "json", "model", "report"}
    about_files |= {"labels_only", "episodes", "typer_context"}
    options = inspect.signature(label).parameters.keys() - about_files
    assert options == {item.name for item in settings_options()}
