"""Tables of every kind in, the labels of the command line out."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from apportion import LPLLP, AutoLLP, CalibratedLLP, InputError, MeanMap
from apportion.datasets import make_smart_home
from apportion.exceptions import GivenLabelError
from apportion.labeling import _methods, label_table, predict_table
from apportion.labeling._summary import as_json
from apportion.model_selection import Estimate
from apportion.supervision.diary import DiaryRules
from command_line import KNOWN, cells_of, day_files, day_rows, done, write

TOTALS = [
    {"day": "mon", "sleep": 4, "tv": 2},
    {"day": "tue", "sleep": 2, "tv": 4},
    {"day": "wed", "sleep": 3, "tv": 3},
]


@pytest.fixture(autouse=True)
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return day_files()


def frame(kind, columns):
    if kind == "arrow":
        return pa.table(columns)
    return pytest.importorskip(kind).DataFrame(columns)


def labels_of(table):
    return list(table["label"].to_pylist() if isinstance(table, pa.Table) else table["label"])


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_dataframes_come_back_as_they_came_with_the_labels_of_the_command(kind, rows):
    expected = cells_of(done("label", "rows.csv", *KNOWN).stdout)
    came = frame(kind, rows)
    labeled = label_table(
        came, bags="day", proportions=frame(kind, pa.Table.from_pylist(TOTALS).to_pydict())
    )
    assert type(labeled.table) is type(came)
    assert labels_of(labeled.table) == [row["label"] for row in expected]
    columns = labeled.table.column_names if kind == "arrow" else list(labeled.table.columns)
    assert columns == list(expected[0])
    np.testing.assert_array_equal(
        labeled.labels.confidence, [float(row["confidence"]) for row in expected]
    )


def test_the_index_of_pandas_stays(rows):
    pandas = pytest.importorskip("pandas")
    came = pandas.DataFrame(rows, index=range(100, 118))
    labeled = label_table(came, bags="day", proportions=TOTALS, all_columns=True)
    assert labeled.table.index.tolist() == came.index.tolist()
    assert labeled.table["x"].equals(came["x"])


@pytest.mark.parametrize("as_path", [str, Path])
def test_files_come_back_as_arrow_like_parquet_that_the_command_writes(as_path):
    done("label", "rows.csv", *KNOWN, "-o", "labels.parquet", "--all-columns")
    labeled = label_table(
        as_path("rows.csv"), bags="day", proportions=as_path("totals.csv"), all_columns=True
    )
    assert labeled.table.equals(pq.read_table("labels.parquet").replace_schema_metadata())


def test_the_summary_is_what_the_command_prints():
    printed = json.loads(done("label", "rows.csv", *KNOWN, "-o", "l.csv", "--json").stdout)
    labeled = label_table("rows.csv", bags="day", proportions="totals.csv")
    summary = json.loads(as_json(labeled.summary))
    assert {**summary, "command": printed["command"]} == printed
    assert list(summary) == list(printed)


def test_uncertain_rows_are_counted_in_their_bags_and_not_among_the_labels():
    plain = label_table("rows.csv", bags="day", proportions="totals.csv")
    below = float(np.median(plain.labels.confidence))
    labeled = label_table("rows.csv", bags="day", proportions="totals.csv", abstain_below=below)
    n_kept = sum(labeled.summary["assigned"].values())
    assert 0 < n_kept < 18
    assert sum(sum(bag["assigned"].values()) for bag in labeled.summary["bags"]) == 18


def test_a_diary_with_rules_and_one_graph_for_each(tmp_path):
    make_smart_home(3, 2, minutes=60).write(tmp_path)
    words = ("windows.csv", "--diary", "diary.csv", "--graphs", "each", "--uncovered", "scale")
    expected = cells_of(done("label", *words).stdout)
    labeled = label_table(
        "windows.csv", diary="diary.csv", graphs="each", rules=DiaryRules(uncovered="scale")
    )
    assert labels_of(labeled.table) == [row["label"] or None for row in expected]
    assert len(labeled.models) == 2
    assert any(str(rule).startswith("graphs='each': every participant") for rule in labeled.rules)
    assert labeled.episodes().column_names[-4:] == ["end", "label", "minutes", "confidence"]


def slow_episodes(table):
    """Count the episodes of hourly windows by day and label, row by row."""
    counts, before = Counter(), None
    for row in sorted(table.to_pylist(), key=lambda row: (row["participant"], row["start"])):
        goes_on = (
            before is not None
            and (before["participant"], before["label"]) == (row["participant"], row["label"])
            and row["start"] - before["end"] <= timedelta(hours=1)
        )
        if row["label"] is not None and not goes_on:
            counts[f"{row['participant']} {row['start']:%Y-%m-%d}", row["label"]] += 1
        before = row
    return counts


def test_the_summary_counts_episodes_beside_those_of_the_diary(tmp_path):
    home = make_smart_home(3, 2, minutes=60)
    home.write(tmp_path)
    windows, diary = pyarrow.csv.read_csv("windows.csv"), pyarrow.csv.read_csv("diary.csv")
    order = np.random.default_rng(0).permutation(windows.num_rows)
    windows = windows.take(order[: -windows.num_rows // 9])  # some hours are missing
    said = {"p1 2024-03-04": 4, "p2 2024-03-05": 2}
    entries = diary.to_pylist()
    for entry in entries:
        entry["tv times"] = said.get(f"{entry['participant']} {entry['date']}")
    labeled = label_table(windows, diary=entries, method="mean-map", abstain_below=0.2)
    summary, expected = labeled.summary, slow_episodes(labeled.to_arrow())
    assert any(label is None for label in labels_of(labeled.table))
    names = summary["classes"]
    for bag in summary["bags"]:
        assert bag["episodes"] == {name: expected[bag["bag"], name] for name in names}
        given = said.get(bag["bag"])
        assert bag.get("episodes_given") == (None if given is None else {"tv": given})
    bags = {bag["bag"] for bag in summary["bags"]}
    for name in names:
        assert summary["episodes"][name] == sum(expected[bag, name] for bag in bags)
    assert summary["episodes_given"] == {"tv": 6}
    assert summary["episodes_where_given"] == {"tv": sum(expected[b, "tv"] for b in said)}
    assert 0 < summary["episodes_where_given"]["tv"] < summary["episodes"]["tv"]


def test_rows_without_times_have_no_episodes(rows):
    summary = label_table(pa.table(rows), bags="day", proportions=TOTALS).summary
    assert not [key for key in (*summary, *summary["bags"][0]) if "episodes" in key]


def test_windows_and_a_diary_as_dataframes(tmp_path):
    home = make_smart_home(3, 1, minutes=60)
    home.write(tmp_path)
    from_files = label_table("windows.csv", diary="diary.csv")
    windows = pyarrow.csv.read_csv("windows.csv")
    diary = pyarrow.csv.read_csv("diary.csv")
    assert labels_of(label_table(windows, diary=diary).table) == labels_of(from_files.table)


def test_given_labels_as_column_file_and_dataframe(rows):
    known = {**rows, "known": ["tv", *[None] * 17]}
    write("more.csv", "id,label\nwed0,tv\n")
    labeled = label_table(
        pa.table(known),
        bags="day",
        proportions=TOTALS,
        given=["known", Path("more.csv"), pa.table({"id": ["wed1"], "label": ["tv"]})],
    )
    given = [k for k, codes in enumerate(labeled.labels.reasons) if "given" in codes]
    assert given == [0, 12, 13]
    assert "1 label given in 'the given labels'" in labeled.notes
    single = label_table(pa.table(known), bags="day", proportions=TOTALS, given="known")
    assert "given" in single.labels.reasons[0]


def test_an_estimator_and_a_model_for_new_rows(rows):
    estimator = LPLLP("rbf", random_state=0)
    labeled = label_table(pa.table(rows), bags="day", proportions=TOTALS, estimator=estimator)
    assert labeled.models[None].alpha == 0.5
    assert not hasattr(estimator, "graph_")
    with open("model.zip", "wb") as file:
        assert labeled.save(file).startswith("18 training rows")
    new = pa.table({name: day_rows(seed=1)[name] for name in ("id", "x", "y")})
    predicted = predict_table("model.zip", new)
    assert predicted.table.column_names[:2] == ["id", "label"]
    assert set(labels_of(predicted.table)) == {"sleep", "tv"}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "Give diary, or bags with proportions."),
        ({"bags": "day"}, "bags and proportions go together."),
        ({"bags": "day", "proportions": TOTALS, "diary": []}, "not both"),
        ({"bags": "day", "proportions": TOTALS, "window": "1h"}, "Give diary, or leave them out."),
        ({"bags": "dya", "proportions": TOTALS}, "the rows: found no column 'dya'.*mean 'day'?"),
        ({"bags": "day", "proportions": TOTALS, "categorical": ["day"]}, "^`categorical`, column"),
        (
            {"bags": "day", "proportions": TOTALS, "id": "day"},
            "the rows, row 1, column 'day': .*id$",
        ),
    ],
)
def test_messages_name_parameters(rows, parameters, message):
    with pytest.raises(ValueError, match=message.removesuffix("$")):
        label_table(pa.table(rows), **parameters)


def test_a_contradiction_has_its_row_and_bag_as_fields(rows):
    known = pa.table({**rows, "known": ["sleep"] * 18})
    with pytest.raises(GivenLabelError) as caught:
        label_table(known, bags="day", proportions=TOTALS, given="known")
    assert (caught.value.row, caught.value.bag) == (5, "mon")
    assert caught.value.place == "the rows, row 5"


@pytest.mark.parametrize("wrong", [3, None, [1, 2], pa.table({"x": pa.array([], pa.int64())})])
def test_what_is_no_table_is_refused(wrong):
    with pytest.raises(InputError, match="the rows: found"):
        label_table(wrong, bags="day", proportions=TOTALS)


def test_without_pyarrow_the_extra_is_named(rows, monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"install apportion\[cli\]"):
        label_table(pandas.DataFrame(rows), bags="day", proportions=TOTALS)


def test_numbers_of_a_text_file_are_parsed_once(monkeypatch):
    import apportion._io.values as values

    parsed = []
    cast = values._cast
    monkeypatch.setattr(values, "_cast", lambda texts: parsed.append(texts) or cast(texts))
    label_table("rows.csv", bags="day", proportions="totals.csv", exclude=["id"])
    x = [str(cell) for cell in day_rows()["x"]]
    assert sum(texts.to_pylist() == x for texts in parsed) == 1


def test_participants_are_weighed_apiece_and_their_accuracy_is_averaged(tmp_path):
    make_smart_home(9, 2, minutes=60).write(tmp_path)
    method = AutoLLP(["mean-map", "inv-cal"], cv=2, random_state=0)
    labeled = label_table("windows.csv", diary="diary.csv", graphs="each", method=method)
    summary, models = labeled.summary, labeled.summary["models"]
    assert len(models) == 2
    assert (summary["method"], summary["confidence"]) == ("auto", "probability")
    n_rows = np.array([len(rows) for rows in labeled.labels.rows.values()])
    for kind, mean in summary["estimated_accuracy"].items():
        each = [model["estimated_accuracy"][kind]["value"] for model in models.values()]
        if None in each:
            assert mean["value"] is None
            assert "it is not estimated for" in mean["reason"]
        else:
            assert mean["value"] == pytest.approx(n_rows @ each / n_rows.sum())
    weights = {one["name"]: one["weight"] for one in summary["candidates"]}
    assert sum(weights.values()) == pytest.approx(1)
    each = [
        next(one["weight"] for one in model["candidates"] if one["name"] == "inv-cal")
        for model in models.values()
    ]
    assert weights["inv-cal"] == pytest.approx(n_rows @ each / n_rows.sum())


def test_estimates_of_several_models_are_averaged_or_withheld():
    given, withheld = Estimate(0.8, 0.7, 0.9), Estimate(None, None, None, "few bags")
    mean = _methods._mean_estimate({"p": given, "q": Estimate(0.5, 0.4, 0.6)}, np.array([3, 1]))
    np.testing.assert_allclose([mean.value, mean.low, mean.high], [0.725, 0.625, 0.825])
    some = _methods._mean_estimate({"p": given, "q": withheld}, np.array([3, 1]))
    assert some.reason == "it is not estimated for 1 of 2 participants: q"
    assert _methods._mean_estimate({"p": withheld, "q": withheld}, np.array([3, 1])) == withheld


def test_reasons_of_a_graph_need_one(rows):
    known = {"bags": "day", "proportions": TOTALS, "scale": False}
    far = pa.table({**rows, "x": [1e6, *rows["x"][1:]]})
    weighed = AutoLLP({"rule": MeanMap(), "graph": LPLLP("rbf")}, random_state=0)
    for method, reason in (
        (LPLLP("rbf", random_state=0), "isolated"),
        (weighed, "isolated"),
        (CalibratedLLP(MeanMap()), ""),
        ("mean-map", ""),
    ):
        labeled = label_table(far, **known, method=method)
        assert labeled.labels.reasons[0] == reason
        assert labeled.summary["confidence"] == "mass"  # too few bags to calibrate


@pytest.mark.parametrize("wrong", ["magic", LPLLP, 3, object()])
def test_a_method_is_a_name_or_an_estimator(rows, wrong):
    with pytest.raises(ValueError, match=r"must be one of 'auto', .*or an estimator of apportion"):
        label_table(pa.table(rows), bags="day", proportions=TOTALS, method=wrong)


def test_a_method_is_given_once(rows):
    both = {"method": "gp", "estimator": LPLLP()}
    with pytest.raises(ValueError, match="pass one of them"):
        label_table(pa.table(rows), bags="day", proportions=TOTALS, **both)
