"""The method and its options, and that messages of the command line name them."""

from __future__ import annotations

import copy
import json
import pickle
import re
import warnings
from contextlib import chdir

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("typer")

from apportion import LPLLP, KNNGraph, MeanMap
from apportion._core.descent import Status
from apportion.cli.console import OPTIONS, in_options
from apportion.cli.options import MethodOptions
from apportion.exceptions import PARAMETERS, Advice, SettingsError, message_of
from apportion.labeling import label_table
from apportion.labeling._from_options import check_method, chosen_method, estimator_of
from apportion.labeling._methods import METHODS
from apportion.model_selection import _candidates
from command_line import KNOWN, cells_of, day_files, done, refused, run, table, write

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path):
    with chdir(tmp_path):
        day_files()
        yield


def settings_of(*words):
    found = json.loads(done("label", "rows.csv", *KNOWN, "-o", "l.csv", "--json", *words).stdout)
    return found["models"]["all"]


def test_every_remedy_names_what_the_commands_have():
    assert PARAMETERS.keys() <= OPTIONS.keys()
    named = set(re.findall(r"--[a-z-]+", " ".join(OPTIONS.values())))
    listed = run("label", "--help").stdout + run("cluster", "--help").stdout
    assert len(named) > 8
    assert {one for one in named if one not in listed} == set()


@pytest.mark.parametrize("status", Status, ids=lambda status: status.name)
def test_no_status_names_a_parameter_on_the_command_line(status):
    said = in_options(status.value)
    assert not re.search(r"max_iter|metric=|projection=|(?<!-)\btol\b", said)


def test_advice_stays_advice():
    advice = Advice("{all} ran out.", "Raise {max_iter}.")
    for again in (copy.deepcopy(advice), pickle.loads(pickle.dumps(advice))):
        assert again == advice == "{all} ran out. Raise max_iter."
        assert in_options(again) == "{all} ran out. Raise --max-iter."
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn(advice, UserWarning, stacklevel=1)
    assert (
        in_options(message_of(caught[0].message, "p1: ")) == "p1: {all} ran out. Raise --max-iter."
    )
    assert in_options(message_of(UserWarning("plain"), "p1: ")) == "p1: plain"


def test_iterations_that_run_out_are_said_in_options():
    words = ("-o", "l.csv", "--max-iter", "1", "--report", "page.html", "--json")
    result = done("label", "rows.csv", *KNOWN, *words)
    assert "Raise --max-iter, or --tol if the labels are good enough" in " ".join(
        result.stderr.split()
    )
    with open("page.html", encoding="utf-8") as page:
        assert "max_iter, or" not in page.read()
    assert "Raise --max-iter" in json.loads(result.stdout)["models"]["all"]["status"]
    assert "max_iter" not in result.stderr


def test_rows_that_are_equal_do_not_ask_for_the_hour_of_day():
    rows = {"day": ["mon"] * 30 + ["tue"] * 30, "x": [0] * 29 + [1] + [0] * 30}
    write("rows.csv", table(**rows))
    write("totals.csv", "day,sleep,tv\nmon,20,10\ntue,10,20\n")
    said = " ".join(done("label", "rows.csv", *KNOWN, "-o", "l.csv").stderr.split())
    assert "Add measurements that tell them apart" in said
    assert "the time of recording seldom does" in said
    assert "use more neighbors (--neighbors)" in said


def test_options_reach_the_estimator():
    options = MethodOptions(
        neighbors=3, prior="meanmap", prior_weight=0.2, probes=2, max_iter=50, tol=1e-6
    )
    model = estimator_of(options)
    assert isinstance(model.graph, KNNGraph)
    assert isinstance(model.prior, MeanMap)
    assert (model.graph.n_neighbors, model.prior_weight, model.n_probes) == (3, 0.2, 2)
    assert (model.max_iter, model.tol) == (50, 1e-6)


def test_without_options_the_estimator_is_the_usual_one():
    model = estimator_of(MethodOptions())
    assert model.get_params() == LPLLP(random_state=0).get_params()


def test_options_are_read():
    settings = settings_of("--neighbors", 3, "--probes", 2, "--tol", "1e-5", "--prior", "invcal")
    told = settings["settings"]
    assert told["graph"] == "KNNGraph(n_neighbors=3)"
    assert (told["n_probes"], told["tol"], told["prior"]) == ("2", "1e-05", "InvCal()")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--neighbors", 5, "--graph", "rbf"], "--neighbors is for --graph knn"),
        (["--tol", "inf"], "--tol must be a finite number. Got inf"),
        (["--alpha", "1"], "--alpha must be above 0 and below 1. Got 1"),
    ],
)
def test_values_that_are_not_allowed(words, says):
    refused("label", "rows.csv", *KNOWN, *words, code=2, says=says)


def test_a_prior_changes_soft_labels_and_keeps_totals():
    done("label", "rows.csv", *KNOWN, "-o", "with.csv", "--prior", "meanmap", "--prior-weight", 5)
    done("label", "rows.csv", *KNOWN, "-o", "without.csv")

    def masses(name):
        return np.genfromtxt(name, delimiter=",", names=True, dtype=None, encoding="utf-8")[
            "mass_tv"
        ]

    assert not np.allclose(masses("with.csv"), masses("without.csv"))
    np.testing.assert_allclose(masses("with.csv").reshape(3, 6).sum(axis=1), [2, 4, 3], atol=1e-6)


def test_an_alpha_too_near_to_1_is_refused_in_words_of_the_command_line():
    words = ("label", "rows.csv", *KNOWN, "--alpha", "0.99999999999")
    said = refused(*words, says="Allowed: alpha up to 1 - 1e-10. Lower --alpha.")
    assert "order" not in said


def test_a_weight_of_no_prior_is_refused():
    says = "--prior-weight is for --prior"
    refused("label", "rows.csv", *KNOWN, "--prior-weight", 0.5, code=2, says=says)


# --- Other methods than LPLLP.


@pytest.fixture
def weeks():
    """Write rows.csv and totals.csv: 160 rows of two classes in 16 random bags."""
    rng = np.random.default_rng(0)
    bags = np.arange(160) % 16
    tv = rng.integers(0, 2, 160)
    features = rng.normal(size=(160, 2)) + 3.0 * np.eye(2)[tv]
    days = [f"d{k}" for k in bags]
    ids = [f"r{i}" for i in range(160)]
    x, y = features.round(3).T.tolist()
    write("rows.csv", table(id=ids, day=days, x=x, y=y))
    counts = [np.bincount(tv[bags == k], minlength=2) for k in range(16)]
    lines = [f"d{k},{a},{b}\n" for k, (a, b) in enumerate(counts)]
    write("totals.csv", f"day,sleep,tv\n{''.join(lines)}")
    return np.array(["sleep", "tv"])[tv]


@pytest.fixture
def two_methods(monkeypatch):
    """Let `auto` weigh two methods, for speed."""
    monkeypatch.setattr(_candidates, "DEFAULT", ("mean-map", "count"))


def labeled(*words):
    """Label the rows, and return the summary, the written rows and what was said."""
    words = ("rows.csv", *KNOWN, "-o", "l.csv", "--json", *words)
    result = done("label", *words)
    with open("l.csv", encoding="utf-8") as file:
        rows = cells_of(file.read())
    return json.loads(result.stdout), rows, " ".join(result.stderr.split())


def test_auto_weighs_all_methods_and_says_how_right_it_is(weeks):
    summary, rows, said = labeled("--method", "auto")
    assert np.mean([row["label"] for row in rows] == weeks) > 0.9
    assert (summary["method"], summary["confidence"]) == ("auto", "probability")
    candidates = summary["candidates"]
    assert {one["name"] for one in candidates} == set(_candidates.DEFAULT)
    assert set(candidates[0]) == {"name", "weight", "log_likelihood", "temperature", "seconds"}
    assert sum(one["weight"] for one in candidates) == pytest.approx(1)
    estimate = summary["estimated_accuracy"]["fitted_rows"]
    assert set(estimate) == {"value", "low", "high", "reason"}
    assert 0.85 < estimate["low"] <= estimate["value"] <= estimate["high"] <= 1
    assert summary["models"]["all"]["estimated_accuracy"] == summary["estimated_accuracy"]
    assert f"estimated accuracy, labels in this table: {estimate['value']:.2f}" in said
    assert "confidence: the probability of the label that the row got" in said
    assert "not a probability" not in said
    assert candidates[0]["name"] in said


def test_a_single_method_by_name(weeks):
    summary, rows, said = labeled("--method", "mean-map", "--seed", 3)
    assert np.mean([row["label"] for row in rows] == weeks) > 0.9
    assert (summary["method"], summary["confidence"]) == ("mean-map", "mass")
    assert summary["models"]["all"]["settings"]["random_state"] == "3"
    assert summary["candidates"] == []
    accuracy = summary["estimated_accuracy"]
    assert accuracy["fitted_rows"] == accuracy["new_rows"]
    assert accuracy["new_rows"]["value"] is None
    assert accuracy["new_rows"]["reason"] == "MeanMap does not estimate it, auto does"
    assert "not a probability" in said
    assert "estimated accuracy" not in said


@pytest.mark.default_method
def test_auto_is_the_default_and_options_of_lpllp_imply_it(weeks, two_methods):
    assert chosen_method(MethodOptions()) == "auto"
    assert chosen_method(MethodOptions(alpha=0.7)) == "lpllp"
    assert chosen_method(MethodOptions(method="gp")) == "gp"
    assert labeled()[0]["method"] == "auto"
    assert labeled("--alpha", 0.7, "--force")[0]["method"] == "lpllp"
    table = label_table("rows.csv", bags="day", proportions="totals.csv")
    assert table.summary["method"] == "auto"


def test_lpllp_by_name_is_that_of_its_options(weeks):
    by_name, rows, _ = labeled("--method", "lpllp")
    done("label", "rows.csv", *KNOWN, "--alpha", 0.5, "--graph", "knn", "-o", "plain.csv")
    with open("plain.csv", encoding="utf-8") as file:
        assert cells_of(file.read()) == rows
    assert by_name["models"]["all"]["method"] == "LPLLP"


def test_every_method_labels_rows_and_keeps_totals(weeks, two_methods):
    for name in METHODS:
        estimator = estimator_of(MethodOptions(method=name, decode="threshold", seed=5))
        assert estimator.decode == "threshold"
        assert estimator.get_params().get("random_state", 5) == 5
        if name not in ("trees", "gp-trees"):  # which take a second
            found = label_table("rows.csv", bags="day", proportions="totals.csv", method=name)
            assert found.summary["bag_error"] == 0, name
            assert found.summary["method"] == name


def test_options_of_lpllp_do_not_go_with_other_methods(weeks):
    words = ("--method", "auto", "--alpha", 0.7, "--prior", "meanmap", "--max-iter", 5)
    says = "--alpha, --prior, --max-iter: for --method lpllp, and --method is auto. Leave them out"
    refused("label", "rows.csv", *KNOWN, *words, code=2, says=says)
    given = {"graph": "rbf", "alpha": 0.7, "neighbors": 3, "prior": "invcal", "prior_weight": 1.0}
    given |= {"probes": 1, "max_iter": 3, "tol": 0.1}
    for name, value in given.items():
        with pytest.raises(SettingsError) as error:
            check_method(MethodOptions(method="gp", **{name: value}))
        assert error.value.parameter == name
        said = f"{OPTIONS[name]}: for --method lpllp, and --method is gp. Leave it out."
        assert error.value.rendered(OPTIONS) == said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--method", "magic"], "--method must be one of auto, gp, "),
        (["--fast"], "--fast is for --method auto, and --method is lpllp"),
    ],
)
def test_methods_and_options_that_do_not_exist(words, says):
    refused("label", "rows.csv", *KNOWN, *words, code=2, says=says)


def test_few_bags_withhold_the_estimate_and_leave_masses(two_methods):
    summary, _, said = labeled("--method", "auto")
    assert summary["confidence"] == "mass"
    for estimate in summary["estimated_accuracy"].values():
        assert estimate["value"] is None
        assert estimate["reason"] == "3 bags are too few to hold any out"
    assert summary["candidates"][0]["log_likelihood"] is None
    assert "not estimated: 3 bags are too few to hold any out" in said
    assert "which ranks rows and is not a probability" in said


def test_fast_weighs_the_fast_methods(weeks):
    fast = {"gp", "gp-trees", "inv-cal", "inv-cal-rbf", "count-rbf", "lpllp"}
    summary, rows, _ = labeled("--method", "auto", "--fast")
    weighed = {one["name"] for one in summary["candidates"]}
    assert weighed <= fast
    assert weighed >= fast - {"lpllp"}  # which may be given up
    assert np.mean([row["label"] for row in rows] == weeks) > 0.9
    table = label_table("rows.csv", bags="day", proportions="totals.csv", method="auto", fast=True)
    assert table.labels.labels.tolist() == [row["label"] for row in rows]
    assert estimator_of(MethodOptions(method="auto", fast=True)).candidates == "fast"
    assert estimator_of(MethodOptions(method="auto")).candidates == "auto"
    with pytest.raises(ValueError, match="`fast` is for the method 'auto', and the method is 'gp'"):
        label_table("rows.csv", bags="day", proportions="totals.csv", method="gp", fast=True)


def test_what_takes_much_memory_is_said_beforehand(weeks, monkeypatch):
    monkeypatch.setattr(_candidates, "DEFAULT", ("gp", "mean-map"))
    monkeypatch.setattr(_candidates, "free_bytes", lambda: 2**20)
    said = labeled("--method", "auto")[2]
    says = f"Memory: comparing methods on {len(weeks)} rows of 2 features takes about "
    assert said.count(says) == said.count("Memory: ") == 1
    assert "1.0 MiB are free. Use --method lpllp, which takes a tenth of it, or fewer rows." in said
    assert said.index(says) < said.index("estimated accuracy")
    assert "Memory:" not in labeled("--method", "mean-map", "--force")[2]
    monkeypatch.setattr(_candidates, "free_bytes", lambda: 2**40)
    assert "Memory:" not in labeled("--method", "auto", "--force")[2]


def test_abstention_says_what_confidence_is(weeks, two_methods):
    said = labeled("--method", "auto", "--abstain-below", 0.9)[2]
    assert "(--abstain-below); confidence is a probability" in said
    said = labeled("--abstain-below", 0.9, "--force")[2]
    assert "(--abstain-below); confidence is a mass, which is not a probability" in said


def test_parquet_has_the_methods_without_their_times(weeks, two_methods):
    words = ("rows.csv", *KNOWN, "--method", "auto", "--quiet")
    for name in ("a.parquet", "b.parquet"):
        done("label", *words, "-o", name)
    schemas = [pq.read_schema(name) for name in ("a.parquet", "b.parquet")]
    first, second = (json.loads(schema.metadata[b"apportion"]) for schema in schemas)
    assert {**first, "command": ""} == {**second, "command": ""}
    assert set(first["candidates"][0]) == {"name", "weight", "log_likelihood", "temperature"}
    assert first["estimated_accuracy"]["new_rows"]["value"] > 0.8
    done("report", "rows.csv", *KNOWN, "--labels", "a.parquet", "-o", "a.html")


@pytest.mark.parametrize(("method", "meaning"), [("auto", "probability"), ("mean-map", "mass")])
def test_a_saved_model_predicts_and_says_what_its_confidence_is(
    weeks, two_methods, method, meaning
):
    labeled("--method", method, "--model", "model.zip")
    words = ("predict", "model.zip", "rows.csv", "-o", "new.csv", "--abstain-below", 0.7, "--json")
    result = done(*words)
    assert json.loads(result.stdout)["confidence"] == meaning
    assert f"confidence is a {meaning}" in " ".join(result.stderr.split())
    with open("new.csv", encoding="utf-8") as file:
        rows = cells_of(file.read())
    assert len(rows) == 160
    right = [row["label"] in ("", truth) for row, truth in zip(rows, weeks, strict=True)]
    assert np.mean(right) > 0.9


def test_a_report_of_a_method_without_a_graph(weeks):
    words = ("rows.csv", *KNOWN, "-o", "l.csv", "--method", "mean-map")
    done("label", *words, "--report", "page.html")
    with open("page.html", encoding="utf-8") as page:
        assert "MeanMap" in page.read()
