"""The words of the command line: plain ones, and every other one is explained once."""

import json
import re

import pytest

from apportion._utils.options import (
    AnswerOptions,
    FeatureOptions,
    KnownOptions,
    MethodOptions,
    options_of,
)
from apportion.datasets import make_smart_home
from apportion.report._glossary import Explanations, glossary
from command_line import cells_of, day_files, done, write

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def diary(folder):
    make_smart_home(3, 1, minutes=60).write(folder)
    return ["windows.csv", "--diary", "diary.csv"]


@pytest.fixture
def bags(folder):
    day_files()
    return ["rows.csv", "--bags", "day", "--proportions", "totals.csv"]


def explained(text, word):
    """Return which words of the glossary a text explains, in the words that people give bags."""
    flat = " ".join(text.split())
    return [term for term, clause in glossary(word).items() for _ in range(flat.count(clause))]


@pytest.mark.parametrize("command", ["label", "diagnose"])
@pytest.mark.parametrize("more", [[], ["--part", "drop", "--uncovered", "drop"]])
def test_commands_speak_of_the_entries_of_a_diary_and_not_of_bags(diary, command, more):
    more = [*more, "--graphs", "one"] if more else []
    result = done(command, *diary, *more)
    said = f"{result.stderr}\n{result.stdout if command == 'diagnose' else ''}"
    assert not re.search(r"\bbag(s|ged)?\b", said, re.IGNORECASE)
    assert re.search(r"\bentr(y|ies)\b", said)


def test_words_of_the_method_are_explained_once_where_they_first_appear(diary):
    said = done("label", *diary).stderr
    words = explained(said, "entry")
    assert len(words) == len(set(words))
    for term in ("entry", "confidence", "mass"):
        assert term in words
    assert said.index("entry: ") < said.index("rules, each an option")
    assert ("information index" in words) == ("information index" in said)
    assert ("off totals" in words) == ("off totals" in said)
    assert done("label", *diary, "--quiet").stderr == ""


def test_diagnose_says_the_plainest_first_and_explains_its_figures(diary, bags):
    for words, known in (("entry", diary), ("bag", bags)):
        result = done("diagnose", *known)
        assert re.match(r"No two classes stand|The totals (do not|hardly) tell", result.stdout)
        both = f"{result.stderr} {result.stdout}"
        assert sorted(explained(both, words)) == sorted([words, "information index", "rank"])


def test_classes_that_are_hard_to_place_are_named_once(bags):
    write("totals.csv", "day,sleep,tv,tea\nmon,4,1,1\ntue,1,4,1\nwed,3,3,0\n")
    sentence = "'tea' takes 2 rows in all: hard to place"
    assert done("diagnose", *bags).stdout.rstrip().endswith(f"{sentence}.")
    assert done("label", *bags).stderr.count(sentence) == 1
    (few,) = json.loads(done("diagnose", *bags, "--json").stdout)["hard_to_place"]
    assert few == {"class": "tea", "rows_at_most": 2.0, "bags": []}


def test_bags_stay_bags(bags):
    said = done("label", *bags).stderr
    assert said.startswith("bag: a group of rows")
    assert "rows in bags, by class" in said
    assert not re.search(r"\bentr(y|ies)\b", said)


def test_a_word_is_explained_only_once():
    explain = Explanations("entry")
    assert explain.lines("mass", "mass", "no such word") == [f"mass: {glossary()['mass']}"]
    assert explain("mass") == ""
    assert explain.used_in("mass and quota") == [("quota", glossary("entry")["quota"])]


def test_missing_cells_are_told_by_column_and_mark_few_rows(folder):
    """A code that all rows have says nothing about any of them."""
    home = make_smart_home(3, 1, minutes=30)
    n = len(home.activities)
    home.windows["heart"] = home.windows["acc_mean"].copy()
    home.windows["heart"][: n - 20] = float("nan")
    for name in ("acc_mean", "acc_std", "acc_peak", "acc_tilt", "light"):
        home.windows[name][5] = float("nan")
        home.windows[name][5::2] = float("nan")
    for name in ("pir_bedroom", "pir_kitchen", "pir_living", "pir_bathroom"):
        home.windows[name] = home.windows[name].astype(float)
        home.windows[name][5] = float("nan")
    home.write(folder)
    result = done("label", "windows.csv", "--diary", "diary.csv")
    marked = [row["window"] for row in cells_of(result.stdout) if "missing" in row["reason"]]
    assert marked == [home.windows["window"][5]]
    assert re.search(r"missing cells: heart 8\d%, acc_mean 4\d%, .*light 4\d%, ", result.stderr)
    assert "4 columns below 5%; filled" in result.stderr


@pytest.mark.parametrize("group", [KnownOptions, FeatureOptions, MethodOptions, AnswerOptions])
def test_no_help_has_brackets_which_the_terminal_would_swallow(group):
    helps = {item.name: str(item.facts.help) for item in options_of(group)}
    assert {name: text for name, text in helps.items() if "[" in text} == {}
