"""The options of the method, and that messages of the command line name them."""

from __future__ import annotations

import copy
import json
import pickle
import re
import warnings
from contextlib import chdir

import numpy as np
import pytest

pytest.importorskip("typer")

from apportion import LPLLP, KNNGraph, MeanMap
from apportion._core.descent import Status
from apportion.cli.calls import estimator_of
from apportion.cli.console import OPTIONS, in_options
from apportion.cli.options import MethodOptions
from apportion.exceptions import PARAMETERS, Advice, message_of
from command_line import KNOWN, day_files, done, refused, run, table, write

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
