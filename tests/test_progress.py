"""Progress: the reports of a fit, and that a callback changes nothing."""

from __future__ import annotations

import threading
from itertools import groupby

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from apportion import LPLLP, RBFGraph, Totals
from apportion._core import uniqueness
from apportion._utils.progress import (
    interrupted,
    keep_answer,
    keeping_answers,
    note_answer,
    progress_callback,
    report_progress,
    several_runs,
    with_progress,
)
from apportion.graphs import _neighbors as neighbors
from apportion.graphs import anchor
from apportion.labeling.rows import Supervision, label_rows


def some_bags(n=400, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 8)) + 4.0 * np.eye(3, 8)[y]
    bags = rng.integers(0, 12, n)
    return X, {"bags": bags, "proportions": Totals.from_labels(y, bags)}


def stages_and_shares(work):
    reports = []
    with progress_callback(lambda stage, done, detail: reports.append((stage, done))):
        work()
    return reports


def stages(reports):
    return [stage for stage, _ in groupby(reports, lambda report: report[0])]


def test_no_callback_is_needed():
    report_progress("working")
    report_progress("working", 0.5)
    assert list(with_progress("working", "abc")) == ["a", "b", "c"]


def test_the_share_of_items_is_reported_after_each():
    assert stages_and_shares(lambda: list(with_progress("working", [1, 2]))) == [
        ("working", 0.5),
        ("working", 1.0),
    ]
    assert stages_and_shares(lambda: list(with_progress("working", []))) == []


def test_the_inner_callback_replaces_the_outer_one_within_its_block():
    outer, inner = [], []
    with progress_callback(lambda stage, done, detail: outer.append(stage)):
        report_progress("one")
        with progress_callback(lambda stage, done, detail: inner.append(stage)):
            report_progress("two")
        report_progress("three")
    report_progress("four")
    assert (outer, inner) == (["one", "three"], ["two"])


def test_an_exception_of_a_callback_ends_the_work_and_restores_the_one_before():
    def refuse(stage, done, detail):
        raise KeyboardInterrupt(stage)

    reports = []
    with progress_callback(lambda stage, done, detail: reports.append(stage)):
        with pytest.raises(KeyboardInterrupt, match="one"), progress_callback(refuse):
            report_progress("one")
        report_progress("two")
    assert reports == ["two"]


def test_reports_of_other_threads_are_not_sent():
    def work():
        other = threading.Thread(target=report_progress, args=("elsewhere",))
        other.start()
        other.join()
        report_progress("here")

    assert stages_and_shares(work) == [("here", None)]


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ("knn", ["searching neighbors", "propagating", "decoding", "refining"]),
        (
            "anchor",
            ["choosing anchors", "tying rows to anchors", "propagating", "decoding", "refining"],
        ),
    ],
)
@pytest.mark.parametrize("solver", ["accelerated", "plain"])
def test_a_fit_reports_its_stages(monkeypatch, graph, expected, solver):
    monkeypatch.setattr(neighbors, "BLOCK_ROWS", 100)
    monkeypatch.setattr(anchor, "BLOCK_ROWS", 100)
    X, given = some_bags()
    model = LPLLP(graph, solver=solver, random_state=0)
    reports = stages_and_shares(lambda: model.fit(X, **given))
    assert model.solution_.n_starts == 1
    assert stages(reports) == expected
    for stage in expected:
        shares = [done for name, done in reports if name == stage and done is not None]
        assert shares == sorted(shares)
        assert all(0.0 <= share <= 1.0 for share in shares)
        if stage in ("searching neighbors", "tying rows to anchors", "propagating"):
            leaps = stage == "propagating" and solver == "accelerated"  # to the minimum, mostly
            assert len(set(shares)) >= (3 if leaps else 4)
            assert shares[-1] == 1.0


@pytest.mark.parametrize("graph", ["knn", "anchor", RBFGraph([0.05, 0.1])], ids=str)
def test_a_callback_changes_nothing(graph):
    X, given = some_bags(150)
    alone = LPLLP(graph, random_state=0).fit(X, **given)
    reporting = LPLLP(graph, random_state=0)
    assert stages_and_shares(lambda: reporting.fit(X, **given))
    np.testing.assert_array_equal(reporting.label_distributions_, alone.label_distributions_)
    np.testing.assert_array_equal(reporting.transduction_, alone.transduction_)


@pytest.mark.filterwarnings("ignore:LP-LLP not converged")
@pytest.mark.parametrize("tol", [0.0, 1e-8, 1.0])
def test_any_tolerance_can_be_approached(tol):
    X, given = some_bags(60)
    model = LPLLP(tol=tol, max_iter=20, n_probes=0)
    shares = [
        done
        for stage, done in stages_and_shares(lambda: model.fit(X, **given))
        if stage == "propagating" and done is not None
    ]
    assert shares == sorted(shares)
    assert all(0.0 <= share <= 1.0 for share in shares)


def test_a_callback_can_end_a_fit():
    def stop(stage, done, detail):
        if stage == "propagating":
            raise KeyboardInterrupt

    X, given = some_bags(60)
    model = LPLLP()
    with pytest.raises(KeyboardInterrupt), progress_callback(stop):
        model.fit(X, **given)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


# Several runs as one job


def reports_of(work):
    """Return all that was reported: stage, share and detail."""
    reports = []
    with progress_callback(lambda *report: reports.append(report)):
        work()
    return reports


def rises(reports, stage):
    """Return the shares that were reported of a stage, which is one, and whose share never falls.

    A stage that comes again after another would look as if it began again.
    """
    assert [name for name, _ in groupby(reports, lambda report: report[0])].count(stage) == 1
    shares = [done for name, done, _ in reports if name == stage and done is not None]
    assert shares == sorted(shares)
    assert 0.0 <= shares[0] <= shares[-1] <= 1.0
    return shares


def details(reports):
    return [detail for detail, _ in groupby(one[2] for one in reports)]


def islands(n=60, seed=0):
    """Return rows in two groups far apart, in one bag: any share may lie on either."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) + 1e3 * (np.arange(n) % 2)[:, None]
    return X, {"bags": [0] * n, "proportions": {0: {"a": 0.5, "b": 0.5}}}


def test_jobs_may_be_nested():
    def work():
        with several_runs("labeling", "participant", 2) as next_person:
            for _ in range(2):
                next_person()
                report_progress("searching", 1.0)
                with several_runs("propagating", "start", 2, at_most=True) as next_start:
                    for _ in range(2):
                        next_start()
                        report_progress("propagating", 0.0)
                        report_progress("propagating", 1.0)

    reports = reports_of(work)
    assert {stage for stage, _, _ in reports} == {"labeling"}
    shares = [done for _, done, _ in reports]
    assert shares == [0.0, 0.0, 0.25, 0.25, 0.5, 0.5, 0.5, 0.75, 0.75, 1.0]
    assert details(reports)[1] == "participant 1 of 2, propagating, start 1 of at most 2"


@pytest.mark.filterwarnings("ignore:The totals admit several")
def test_probes_of_several_answers_are_one_job(monkeypatch):
    monkeypatch.setattr(uniqueness, "_LARGEST_PROGRAM", 0)  # or other answers are known at once
    X, known = islands()
    model = LPLLP("knn", n_probes=4, refine=False, random_state=0)
    reports = reports_of(lambda: model.fit(X, **known))
    assert model.solution_.n_starts == 5
    assert len(set(rises(reports, "propagating"))) > 5
    assert [one for one in details(reports) if one] == [
        f"start {number} of at most 5" for number in range(1, 6)
    ]


@pytest.mark.filterwarnings("ignore:The totals")
def test_the_graphs_of_a_grid_are_one_job():
    X, known = some_bags(60)
    reports = reports_of(lambda: LPLLP(RBFGraph([0.01, 0.1, 1.0])).fit(X, **known))
    rises(reports, "propagating")
    assert any("graph 3 of at most 3" in detail for detail in details(reports))


def test_labels_that_are_refined_from_random_starts_do_not_begin_again():
    """Soft labels near the refined ones are found last, and that has a name of its own."""
    X = np.array([[0.0, 0.0], [0.0, 9.0], [9.0, 0.0], [9.0, 9.0]]).repeat(10, axis=0)
    X += np.random.default_rng(0).normal(size=X.shape)
    y = np.array([0, 1, 1, 0]).repeat(10)
    bags = np.random.default_rng(1).integers(0, 3, len(y))
    known = {"bags": bags, "proportions": Totals.from_labels(y, bags)}
    reports = reports_of(lambda: LPLLP(RBFGraph(0.05), random_state=0).fit(X, **known))
    rises(reports, "propagating")
    assert reports[-1] == ("propagating again, near the refined labels", 1.0, "")


def test_participants_are_one_job():
    X, known = some_bags(120)
    people = np.array(["p1", "p2", "p3"], dtype=object)[known["bags"] % 3]
    bags = known["bags"].astype(object)
    supervision = Supervision(bags, known["proportions"], None, people, {})
    reports = reports_of(lambda: label_rows(X, supervision, LPLLP(random_state=0)))
    assert {stage for stage, _, _ in reports} == {"labeling"}
    assert rises(reports, "labeling")[-1] == 1.0
    firsts = [detail.split(",")[0] for detail in details(reports)]
    assert [one for one, _ in groupby(firsts)] == [f"participant {i} of 3" for i in (1, 2, 3)]


def test_participants_count_with_their_rows():
    X, known = some_bags(120)
    people = np.array(["p1", "p2"], dtype=object)[(known["bags"] >= 9).astype(int)]
    supervision = Supervision(known["bags"].astype(object), known["proportions"], None, people, {})
    reports = reports_of(lambda: label_rows(X, supervision, LPLLP(random_state=0)))
    share = (known["bags"] < 9).mean()
    second = [done for _, done, detail in reports if detail.startswith("participant 2 of 2")]
    assert second[0] == (share if people[0] == "p1" else 1 - share)


def test_runs_count_with_what_they_cost():
    costs = [1.0, 3.0, 4.0]

    def work():
        with several_runs("labeling", "part", 3, costs=costs) as next_run:
            next_run()
            report_progress("propagating", 0.5)
            next_run(3)
            report_progress("propagating", 0.5)
            costs[2] = 0.0  # which would be less, had it not been more
            report_progress("propagating", 0.1)
            next_run(4)
            report_progress("labeling")

    shares = [done for _, done, _ in reports_of(work)]
    assert shares == [0.0625, 0.75, 1.0, 1.0]


# What the command line shows


def test_lines_say_how_far_a_job_is_and_how_long_it_will_take(monkeypatch):
    console = pytest.importorskip("apportion.cli.console")
    printed = []
    monkeypatch.setattr(console.console, "print", printed.append)
    now = [0.0]
    lines = console._Lines(clock=lambda: now[0])
    lines("reading", None)
    now[0] = 5.0
    lines("propagating", 0.0, "start 1 of at most 9")
    now[0] = 65.0
    lines("propagating", 0.25, "start 3 of at most 9")
    assert printed == ["    5.0 s  propagating, start 1 of at most 9"]
    assert lines.state() == "propagating, start 3 of at most 9: 25%, about 3 min left"


def test_it_is_said_once_that_ctrl_c_keeps_the_answer(monkeypatch):
    console = pytest.importorskip("apportion.cli.console")
    printed, shown, now = [], [], [0.0]
    monkeypatch.setattr(console.console, "print", printed.append)

    def show(*report):
        shown.append(report)

    with keeping_answers():
        callback = console._about_ctrl_c(show, clock=lambda: now[0])
        for seconds in (1.0, 31.0):  # there is no answer yet
            now[0] = seconds
            callback("weighing methods", 0.1)
        assert not printed
        note_answer()
        callback("weighing methods", 0.2)
        callback("weighing methods", 0.3)
        assert printed == ["Ctrl-C: stop here and keep the answer so far"]
        assert keep_answer("Interrupted: without trees.")
        callback("weighing methods", 1.0)
        callback("weighing methods", 1.0)
        assert printed[1:] == [
            "interrupted: the answer so far is completed; Ctrl-C again stops without it"
        ]
        assert not keep_answer("a second one")
        assert interrupted() == "Interrupted: without trees."
    assert len(shown) == 6
    assert not interrupted()


def test_nothing_is_said_of_ctrl_c_in_the_first_seconds(monkeypatch):
    console = pytest.importorskip("apportion.cli.console")
    printed = []
    monkeypatch.setattr(console.console, "print", printed.append)
    with keeping_answers():
        note_answer()
        console._about_ctrl_c(lambda *_: None, clock=lambda: 0.0)("weighing methods", 0.5)
    assert not printed


def test_a_line_is_printed_also_when_nothing_is_reported(monkeypatch):
    console = pytest.importorskip("apportion.cli.console")
    lines, enough = [], threading.Event()

    def note(line):
        lines.append(line)
        if sum(one.endswith(" s  factorizing") for one in lines) == 3:
            enough.set()

    monkeypatch.setattr(console.console, "print", note)
    monkeypatch.setattr(console, "_AT_LEAST_EVERY", 0.0)
    with console.stages():
        report_progress("factorizing")
        assert enough.wait(timeout=60)
    assert not any(one.name.endswith("(_keep_up)") for one in threading.enumerate())


def test_a_bar_goes_on_within_a_job():
    console = pytest.importorskip("apportion.cli.console")
    with console._bars() as bars:
        show = console._Bars(bars)
        show("propagating", 0.1, "start 1 of at most 9")
        show("propagating", 0.2, "start 2 of at most 9")
        (task,) = bars.tasks
        assert (task.description, task.completed) == ("propagating, start 2 of at most 9", 0.2)
        show("decoding", None)
        (task,) = bars.tasks
        assert (task.description, task.total) == ("decoding", None)
