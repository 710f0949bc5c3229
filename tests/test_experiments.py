"""Trials, their results on disk, and the tables and figures made of them."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import ttest_ind

from apportion._io.atomic_write import Outputs
from apportion.metrics import bag_proportion_error
from experiments import (
    METHODS,
    PROTOCOLS,
    SECTIONS,
    Method,
    ResultStore,
    Score,
    Section,
    Trial,
    current,
    remaining,
    result_table,
    run,
    run_trial,
    summarize,
    three_bags,
    to_csv,
    to_latex,
    to_markdown,
    to_text,
)
from experiments import figures as draw
from experiments.printed import NOTES, PRINTED, Printed, best_printed
from experiments.provenance import code_name
from experiments.reproduce import (
    ProblemSource,
    draw_figures,
    page,
    plan,
    quick_plan,
    write_tables,
)
from experiments.sphere_recipes import mean_around, standardized
from experiments.summary import direction, p_value
from sphere_folder import make_sphere_folder

pytestmark = pytest.mark.slow

POSE = ProblemSource(None, SECTIONS)
XOR = Trial("xor", 120, "A", "test bag", "majority", 0)


def give_up(X, bags, totals, seed):
    raise RuntimeError("no idea")


def all_ones(X, bags, totals, seed):
    return np.ones(len(X), dtype=int)


FEW = {
    "ones": Method("ones", all_ones),
    "broken": Method("broken", give_up),
    "majority": METHODS["majority"],
}


@pytest.mark.parametrize("section", ["xor", "half-kernel", "half-kernel-0.3"])
@pytest.mark.parametrize("n_samples", [120, 300])
@pytest.mark.parametrize("design", ["A", "B"])
def test_the_papers_bags(section, n_samples, design):
    shares = {"A": (0.6, 0.4, 0.5), "B": (0.85, 0.25, 0.4)}[design]
    whole = POSE(Trial(section, n_samples, design, "all rows", "lp-llp", 3))
    assert np.bincount(whole.bags).tolist() == [n_samples // 3] * 3
    np.testing.assert_allclose(whole.totals.lower[:, 1], shares)
    assert whole.scored.all()
    assert sorted(set(whole.folds)) == [0, 1, 2, 3, 4]
    tested = POSE(Trial(section, n_samples, design, "test bag", "lp-llp", 3))
    np.testing.assert_array_equal(tested.X, whole.X)
    assert tested.scored.sum() == n_samples // 6
    assert (tested.bags[tested.scored] == 3).all()
    assert tested.totals.lower[3].tolist() == [0.5, 0.5]
    np.testing.assert_allclose(tested.totals.lower[:3, 1], shares, atol=1 / 66)
    np.testing.assert_array_equal(tested.folds, np.where(tested.scored, 0, -1))
    for problem in (whole, tested):
        assert bag_proportion_error(problem.y, problem.bags, problem.totals) == 0
        assert problem.y.sum() * 2 == n_samples


def test_repetitions_differ_and_methods_see_the_same_rows():
    a, b = POSE(XOR), POSE(Trial("xor", 120, "A", "test bag", "lp-llp", 0))
    np.testing.assert_array_equal(a.X, b.X)
    np.testing.assert_array_equal(a.bags, b.bags)
    assert not np.array_equal(a.X, POSE(Trial("xor", 120, "A", "test bag", "majority", 1)).X)


def test_a_method_does_not_get_the_labels_unless_it_is_marked():
    problem = POSE(XOR)
    seen = []
    Method("blind", lambda *given: seen.extend(given))(problem, 7)
    assert [type(one).__name__ for one in seen] == ["ndarray", "ndarray", "Totals", "int"]
    assert not any(np.array_equal(one, problem.y) for one in seen[:2])
    assert not any(np.array_equal(column, problem.y) for column in seen[0].T)
    assert [key for key, method in METHODS.items() if method.sees_labels] == ["supervised"]


def test_the_supervised_method_never_learns_from_the_fold_it_labels():
    problem = POSE(Trial("xor", 120, "A", "all rows", "supervised", 0))
    wrong = problem.y.copy()
    wrong[problem.folds == 0] = 1 - wrong[problem.folds == 0]
    labels = METHODS["supervised"](replace(problem, y=wrong), 0)
    mine = problem.folds == 0
    assert (labels[mine] == problem.y[mine]).mean() > 0.9


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_labels_every_row(method):
    row = run_trial(Trial("half-kernel", 60, "B", "all rows", method, 0), POSE, METHODS)
    assert row["status"] == "done", row["message"]
    assert row["n_scored"] == 60
    assert row["accuracy"] >= 0.7


def test_a_failure_is_a_row():
    row = run_trial(Trial("xor", 120, "A", "test bag", "broken", 0), POSE, FEW)
    assert row["status"] == "failed"
    assert row["message"].startswith("RuntimeError: no idea (give_up, line")
    assert np.isnan(row["accuracy"])


def test_accuracy_is_that_of_the_scored_rows():
    row = run_trial(Trial("xor", 120, "A", "test bag", "ones", 0), POSE, FEW)
    assert (row["accuracy"], row["n_scored"]) == (0.5, 20)
    row = run_trial(Trial("xor", 120, "B", "test bag", "majority", 0), POSE, FEW)
    assert row["accuracy"] == 0.5  # that of all rows would be higher
    row = run_trial(Trial("xor", 120, "B", "all rows", "majority", 0), POSE, FEW)
    assert row["accuracy"] == pytest.approx((0.85 + 0.75 + 0.6) / 3)


def trials(methods=("ones", "broken"), repetitions=3):
    return [
        Trial("xor", 120, d, "test bag", m, r)
        for d in "AB"
        for m in methods
        for r in range(repetitions)
    ]


def test_an_interrupted_run_goes_on_without_repeating_or_losing(tmp_path):
    store = ResultStore(tmp_path / "results")
    running = run(trials(), POSE, store, methods=FEW, n_jobs=1)
    first = [next(running) for _ in range(5)]
    running.close()  # what becomes of it when the loop above is interrupted
    (tmp_path / "results" / "half.tmp").write_bytes(b"PAR1 half")
    os.utime(tmp_path / "results" / "half.tmp", (0, 0))
    again = ResultStore(tmp_path / "results")
    assert len(again.rows()) == 5
    assert len(remaining(trials(), POSE, again, methods=FEW)) == 7
    rest = list(run(trials(), POSE, again, methods=FEW, n_jobs=1))
    assert len(rest) == 7
    keys = {(r["design"], r["method"], r["repetition"]) for r in first + rest}
    assert len(keys) == 12
    (gathered,) = (tmp_path / "results").iterdir()
    assert gathered.name.startswith("rows-")
    assert not list(run(trials(), POSE, again, methods=FEW, n_jobs=1))


def test_failed_trials_run_again_only_when_asked(tmp_path):
    store = ResultStore(tmp_path)
    list(run(trials(), POSE, store, methods=FEW, n_jobs=1))
    assert not remaining(trials(), POSE, store, methods=FEW)
    again = remaining(trials(), POSE, store, methods=FEW, retry_failed=True)
    assert {trial.method for trial in again} == {"broken"}
    list(run(trials(), POSE, store, methods=FEW, n_jobs=1, retry_failed=True))
    assert len(store.rows()) == 12


def test_side_by_side_gives_the_same_figures(tmp_path):
    mine = plan([SECTIONS["half-kernel"]], ["lp-llp", "mean-map"], 1, ["all rows"])
    mine = [trial for trial in mine if trial.n_samples == 120]
    alone, together = ResultStore(tmp_path / "1"), ResultStore(tmp_path / "2")
    list(run(mine, POSE, alone, n_jobs=1))
    list(run(mine, POSE, together, n_jobs=2))
    assert {k: v.mean for k, v in summarize(alone.rows()).items()} == {
        k: v.mean for k, v in summarize(together.rows()).items()
    }


def test_a_killed_process_is_a_failure_and_the_others_go_on(tmp_path):
    def die(X, bags, totals, seed):
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)

    store = ResultStore(tmp_path)
    methods = {"ones": FEW["ones"], "deadly": Method("deadly", die)}
    mine = trials(("ones",)) + trials(("deadly",), 1)
    rows = list(run(mine, POSE, store, methods=methods, n_jobs=2))
    assert {row["method"]: row["status"] for row in rows} == {"ones": "done", "deadly": "failed"}
    assert len(rows) == len(store.rows()) == 8
    assert "the process died" in next(row["message"] for row in rows if row["method"] == "deadly")


def test_an_edited_method_runs_again(tmp_path):
    store = ResultStore(tmp_path)
    mine = trials(("ones",), 1)
    list(run(mine, POSE, store, methods=FEW, n_jobs=1))
    edited = {**FEW, "ones": Method("ones", lambda X, bags, totals, seed: bags % 2)}
    assert len(remaining(mine, POSE, store, methods=edited)) == 2
    list(run(mine, POSE, store, methods=edited, n_jobs=1))
    assert len(store.rows()) == 4
    assert len(current(store.rows(), FEW)) == len(current(store.rows(), edited)) == 2


def test_code_names_know_functions_and_what_is_bound_to_them():
    def scaled(factor, X, bags, totals, seed):
        return factor * X

    assert code_name(partial(scaled, 2)) == code_name(partial(scaled, 2))
    assert code_name(partial(scaled, 2)) != code_name(partial(scaled, 3))
    assert code_name(partial(scaled, 2)) != code_name(all_ones)
    assert code_name(partial(all_ones, give_up)) != code_name(partial(all_ones, all_ones))


def test_other_data_run_again(tmp_path, sphere):
    other = make_sphere_folder(tmp_path / "other", seconds=300, seed=1)
    store = ResultStore(tmp_path / "results")
    mine = [Trial("sphere-1", 60, "B", "all rows", "majority", 0)]
    list(run(mine, ProblemSource(sphere, SECTIONS), store, n_jobs=1))
    assert not remaining(mine, ProblemSource(sphere, SECTIONS), store)
    assert remaining(mine, ProblemSource(other, SECTIONS), store) == mine


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            lambda X, bags, totals, seed: np.ones((len(X), 1), dtype=int),
            "one label for each of 120",
        ),
        (lambda X, bags, totals, seed: np.array(["1"] * len(X)), "labels among"),
    ],
)
def test_odd_answers_are_failures(answer, message):
    row = run_trial(XOR, POSE, {"majority": Method("odd", answer)})
    assert row["status"] == "failed"
    assert message in row["message"]


def test_many_rows_are_gathered(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.store._MOST_PARTS", 4)
    store = ResultStore(tmp_path)
    for trial in trials():
        store.add(run_trial(trial, POSE, FEW))
        assert len(list(tmp_path.glob("part-*"))) < 4
    assert len(store.rows()) == 12


def test_two_runs_may_share_a_folder(tmp_path):
    """Reading or gathering beside a writing run removes nothing that it needs."""
    one, other = ResultStore(tmp_path), ResultStore(tmp_path)
    (tmp_path / "being-written.tmp").write_bytes(b"PAR1")
    one.add(run_trial(trials()[0], POSE, FEW))
    other.add(run_trial(trials()[0], POSE, FEW))
    other.add(run_trial(trials()[1], POSE, FEW))
    seen = list(tmp_path.glob("part-*"))
    other.gather()
    for path in seen:  # what the slower of two gathering runs leaves
        path.write_bytes(next(tmp_path.glob("rows-*")).read_bytes())
    one.gather()
    assert len(one.rows()) == len(other.rows()) == 2
    assert (tmp_path / "being-written.tmp").exists()


def test_an_unreadable_file_is_named(tmp_path):
    (tmp_path / "rows-1.parquet").write_bytes(b"not parquet")
    with pytest.raises(OSError, match=r"rows-1\.parquet cannot be read .* run again"):
        ResultStore(tmp_path).rows()


def test_printed_figures_are_the_papers():
    assert {key: len(cells) for key, cells in PRINTED.items()} == dict.fromkeys(
        ["xor", "half-kernel", "sphere-1", "sphere-2"], 8
    )
    assert PRINTED["xor"]["300A"]["inv-cal"] == Printed(0.88, 0.13, "a")
    assert PRINTED["sphere-2"]["240B"]["lp-llp"] == Printed(0.74, 0.12, "")
    slip = [
        PRINTED["xor"][c]["inv-cal"].mean == PRINTED["half-kernel"][c]["prop-svm"].mean
        for c in PRINTED["xor"]
    ]
    assert all(slip)
    assert best_printed("sphere-2", "180A") == 0.65
    used = {
        n
        for table in PRINTED.values()
        for row in table.values()
        for p in row.values()
        for n in p.notes
    }
    assert used == set(NOTES)
    for key, cells in PRINTED.items():
        assert [f"{n}{d}" for n, d in SECTIONS[key].cells] == list(cells)


def test_significance_is_welchs():
    ours = Score(1.0, 0.0, 25, 0, 0.1)
    assert direction(ours, Printed(0.91, 0.14)) == 1
    assert direction(Score(0.8, 0.1, 25, 0, 0.1), Printed(0.91, 0.02)) == -1
    assert direction(ours, Printed(1.0, 0.01)) == 0
    assert direction(Score(0.93, 0.1, 25, 0, 0.1), Printed(0.91, 0.14)) == 0
    assert p_value(ours, Printed(0.5, 0.0)) == 0.0
    assert p_value(Score(0.905, 0.001, 25, 0, 0.1), Printed(0.91, 0.0)) == 1.0
    assert np.isnan(p_value(Score(1.0, np.nan, 1, 0, 0.1), Printed(0.5, 0.1)))
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.6, 0.1, 25), rng.normal(0.7, 0.2, 25)
    got = p_value(Score(a.mean(), a.std(ddof=1), 25, 0, 0), Printed(b.mean(), b.std(ddof=1)))
    nearer = a + np.sign(b.mean() - a.mean()) * 0.005
    assert got == pytest.approx(ttest_ind(nearer, b, equal_var=False).pvalue)


def made_up(accuracies, method="lp-llp", section="xor", n_samples=120):
    return [
        {**vars(Trial(section, n_samples, "A", "test bag", method, r)), "accuracy": value}
        | {"status": "done" if value == value else "failed", "seconds": 1.0}
        for r, value in enumerate(accuracies)
    ]


def test_tables_in_every_form():
    rows = made_up([1.0] * 25) + made_up([0.6, 0.5, np.nan], "prop-svm")
    rows += made_up([0.99, 1.0, 1.0], "supervised") + made_up([np.nan] * 3, "em")
    found = summarize(rows)
    table = result_table(SECTIONS["xor"], "test bag", found, METHODS)
    assert result_table(SECTIONS["xor"], "all rows", found, METHODS) is None
    assert [name for name, _ in table.rows] == ["120A"]
    assert table.columns == (
        "LP-LLP",
        "printed LP-LLP",
        "∝SVM",
        "printed ∝SVM",
        "EMLLP",
        "supervised (sees labels)",
    )
    assert "4 trials failed" in table.caption
    assert "above in 1, equal in 0 and below in 0 of 1 cells" in table.caption
    text = to_text(table)
    assert "1.00(.00)▲" in text
    assert ".91(.14)" in text
    assert "failed" in text
    assert "\x1b[1m" not in text
    assert "\x1b[1m" in to_text(table, bold=True)
    markdown = to_markdown(table)
    assert "| **1.00(.00)**▲ | .91(.14) | .55(.07) 1 failed | .54(.19) | failed |" in markdown
    latex = to_latex(table)
    assert r"\textbf{1.00(.00)}$^{\uparrow}$ & .91(.14)" in latex
    assert latex.count("&") == 2 * len(table.columns)
    assert "∝" not in latex
    lines = list(csv.DictReader(io.StringIO(to_csv(found))))
    by_method = {line["method"]: line for line in lines}
    assert by_method["em"]["failed"] == "3"
    assert float(by_method["lp-llp"]["printed_mean"]) == 0.91
    # the supervised method is never the best
    assert markdown.endswith("| 1.00(.01) |")


def test_slips_are_marked_and_explained():
    found = summarize(made_up([0.8, 0.9], "inv-cal"))
    table = result_table(SECTIONS["xor"], "test bag", found, METHODS)
    assert "<sup>a</sup>" in to_markdown(table)
    for form in ("text", "markdown", "latex"):
        assert "same eight means" in page([table], found, form).replace("\n", " ")


def test_a_section_and_a_method_of_ones_own(tmp_path):
    def draw_line(n_samples, rng):
        x = rng.uniform(size=n_samples)
        y = np.zeros(n_samples, dtype=int)
        y[np.argsort(x)[n_samples // 2 :]] = 1
        return x[:, None], y

    section = Section(
        "line",
        "A line",
        "Points on a line.",
        ((60, "B"),),
        lambda trial, sphere: three_bags(draw_line, trial),
        ("all rows",),
    )
    methods = {"ones": FEW["ones"], "lp-llp": METHODS["lp-llp"]}
    store = ResultStore(tmp_path)
    pose = ProblemSource(None, {"line": section})
    list(run(plan([section], list(methods), 2), pose, store, methods=methods, n_jobs=2))
    table = result_table(section, "all rows", summarize(store.rows()), methods)
    assert "| 60B | .50(.00) | " in to_markdown(table)


def test_pages_and_figures_are_written(tmp_path):
    rows = made_up([1.0, 0.9]) + made_up([0.8, 0.9], "inv-cal") + made_up([1.0, 1.0], n_samples=300)
    found = summarize(rows)
    table = result_table(SECTIONS["xor"], "test bag", found, METHODS)
    with Outputs() as outputs:
        written = write_tables([table], found, tmp_path, outputs)
        drawn = draw_figures(found, tmp_path / "figures", outputs)
    assert [path.suffix for path in written] == [".txt", ".md", ".tex", ".csv"]
    assert sorted(path.name for path in drawn if path.suffix == ".png") == [
        "accuracy-xor-test-bag.png",
        "figure-1-procedure.png",
        "figure-2-synthetic.png",
    ]
    assert all(path.stat().st_size > 5000 for path in drawn)
    assert not list(tmp_path.rglob("*.tmp"))
    before = [path.read_bytes() for path in drawn if path.suffix == ".svg"]
    with Outputs(force=True) as outputs:
        draw_figures(found, tmp_path / "figures", outputs)
    assert before == [path.read_bytes() for path in drawn if path.suffix == ".svg"]
    mine = {"ones": FEW["ones"], "lp-llp": METHODS["lp-llp"]}
    (left, _) = draw.draw_accuracy(SECTIONS["xor"], "test bag", found, mine).axes
    assert [text.get_text() for text in left.figure.legends[0].get_texts()] == [
        "LP-LLP",
        "printed LP-LLP",
    ]


@pytest.fixture(scope="module")
def sphere(tmp_path_factory):
    return make_sphere_folder(tmp_path_factory.mktemp("sphere"), seconds=600)


@pytest.mark.parametrize("section", ["sphere-1", "sphere-1-context", "sphere-1-runs", "sphere-2"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_sphere_problems(sphere, section, protocol):
    problem = ProblemSource(sphere, SECTIONS)(Trial(section, 60, "B", protocol, "lp-llp", 0))
    assert problem.X.shape[0] == 60
    assert problem.y.sum() == 30
    assert np.isfinite(problem.X).all()
    assert np.abs(problem.X).max() <= 3.0
    if section == "sphere-1":
        row = run_trial(
            Trial(section, 60, "B", protocol, "lp-llp", 0), ProblemSource(sphere, SECTIONS), METHODS
        )
        assert row["accuracy"] > 0.9


def test_standardized_columns():
    X = np.array([[1.0, np.nan, 5.0], [3.0, 2.0, 5.0], [np.nan, 4.0, 5.0]])
    scaled = standardized(X)
    np.testing.assert_allclose(scaled, [[-1, 0, 0], [1, -1, 0], [0, 1, 0]])
    far = np.zeros((100, 1))
    far[0] = 1e6
    assert standardized(far).max() == 3.0


def test_the_quick_plan_is_part_of_the_full_one():
    full = set(plan(SECTIONS.values(), list(METHODS), 25))
    quick = quick_plan(SECTIONS.values(), list(METHODS))
    assert set(quick) <= full
    assert {trial.section for trial in quick} == set(SECTIONS) - {"sphere-activities"}


def test_means_around_stay_within_a_recording():
    values = np.array([[1.0], [3.0], [np.nan], [10.0], [20.0], [np.nan], [np.nan], [np.nan]])
    who = np.array(list("aaabbccc"))
    got = mean_around(values, who, 1).ravel()
    np.testing.assert_allclose(got, [2, 2, 3, 15, 15, np.nan, np.nan, np.nan])


def test_natural_bags(sphere):
    pose = ProblemSource(sphere, SECTIONS)
    problem = pose(Trial("sphere-activities", 0, "60 s", "all rows", "majority", 0))
    assert len(problem.X) == 1198
    assert len(problem.totals.ids) == 20
    assert problem.scored.all()
    assert len(set(zip(problem.bags, problem.folds, strict=True))) == 20  # one person a bag
    later = pose(Trial("sphere-activities", 0, "60 s", "all rows", "majority", 1))
    assert len(later.totals.ids) == 22
    for method in ("lp-llp", "lp-llp-threshold", "em", "majority", "supervised"):
        row = run_trial(
            Trial("sphere-activities", 0, "300 s", "all rows", method, 0), pose, METHODS
        )
        assert row["status"] == "done", row["message"]
