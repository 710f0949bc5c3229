"""Suggestions of rows and bags against their definition, and what they must never do."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest

from apportion import (
    LPLLP,
    AnchorGraph,
    AutoLLP,
    InputError,
    KNNGraph,
    MeanMap,
    RBFGraph,
    Totals,
    active,
    suggest_bags,
    suggest_rows,
)
from apportion._core import error_field
from apportion.labeling._features import learn_features
from apportion.labeling._supervision import supervised_table
from apportion.labeling.suggest import suggest_bags_in_table, suggest_in_table
from apportion.labeling.table import label_supervised
from reference import error_covariance, greedy_measurements

DENSE = RBFGraph(gamma=1.0)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def problem(seed=0, n=60, n_bags=4, n_classes=3):
    """Return rows of classes that overlap, labels, bags and exact totals."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    X = rng.normal(size=(n, 2)) + 2.5 * np.eye(n_classes, 2)[y]
    bags = rng.permutation(np.arange(n) % n_bags)
    return X, y, bags, Totals.from_labels(y, bags)


def fitted(seed=0, graph=DENSE, given=(), **options):
    """Return a fitted model, and the rows."""
    X, y, bags, totals = problem(seed, **options)
    labels = np.full(len(y), None, dtype=object)
    labels[list(given)] = y[list(given)]
    return LPLLP(graph, random_state=0).fit(X, labels, bags=bags, proportions=totals), X


def similarities(model):
    """Return W of a model's graph as a full matrix."""
    graph = model.graph_
    return graph.multiply(np.eye(graph.n_samples_))


def covariance_of(model):
    """Return the covariance of the definition."""
    report = model.bag_report_
    return error_covariance(
        similarities(model),
        model.label_distributions_,
        model.bag_codes_,
        report.upper - report.lower,
        model._given_rows,
        error_field.REACH,
    )


@pytest.fixture
def exact_solve(monkeypatch):
    """Solve to many digits, as the definition does."""
    monkeypatch.setattr(error_field, "_ACCURACY", 1e-10)


@pytest.mark.parametrize("graph", [DENSE, KNNGraph(6), AnchorGraph(20)], ids=lambda g: str(g)[:6])
@pytest.mark.parametrize("given", [(), (3, 17, 18, 40)], ids=["none given", "some given"])
def test_rows_are_those_of_the_definition(graph, given, exact_solve):
    model, _ = fitted(1, graph, given)
    chosen, gains = greedy_measurements(covariance_of(model), np.eye(60), 8)
    suggested = suggest_rows(model, n_rows=8)
    np.testing.assert_allclose(suggested.gains, gains, rtol=1e-4)
    assert suggested.rows.tolist() == chosen


def test_intervals_rule_out_less(exact_solve):
    X, _, bags, totals = problem(2)
    half = np.array([0.2, 0.1, 0.05])
    wide = Totals.from_intervals(
        dict(zip(totals.ids, np.maximum(totals.lower - half, 0).tolist(), strict=True)),
        dict(zip(totals.ids, np.minimum(totals.upper + half, 1).tolist(), strict=True)),
    )
    model = LPLLP(DENSE, random_state=0).fit(X, bags=bags, proportions=wide)
    assert (model.bag_report_.upper - model.bag_report_.lower).max() > 2
    chosen, gains = greedy_measurements(covariance_of(model), np.eye(60), 4)
    suggested = suggest_rows(model, n_rows=4)
    np.testing.assert_allclose(suggested.gains, gains, rtol=1e-6)
    assert suggested.rows.tolist() == chosen


def test_bags_are_those_of_the_definition(exact_solve):
    model, _ = fitted(3, KNNGraph(6), given=(5,), n_bags=5)
    times = np.random.default_rng(0).permutation(60)
    halves = []
    for k in range(5):
        rows = sorted(np.flatnonzero(model.bag_codes_ == k), key=lambda i: times[i])
        halves.append(np.isin(np.arange(60), rows[: len(rows) // 2]).astype(float))
    chosen, gains = greedy_measurements(covariance_of(model), halves, 3)
    suggested = suggest_bags(model, n_bags=3, times=times)
    assert suggested.bags == tuple(model.bag_report_.ids[k] for k in chosen)
    np.testing.assert_allclose(suggested.gains, gains, rtol=1e-4)
    for k, half, begin in zip(chosen, suggested.first_halves, suggested.second_begins, strict=True):
        assert half.tolist() == np.flatnonzero(halves[k]).tolist()
        later = (model.bag_codes_ == k) & (halves[k] == 0)
        assert times[begin] == times[later].min()


def test_a_rough_solve_is_near_the_definition():
    model, _ = fitted(4, KNNGraph(6))
    _, gains = greedy_measurements(covariance_of(model), np.eye(60), 8)
    np.testing.assert_allclose(suggest_rows(model, n_rows=8).gains, gains, rtol=0.05)


def test_given_and_skipped_rows_are_not_suggested():
    model, _ = fitted(5, given=(0, 1, 2))
    first = suggest_rows(model, n_rows=5)
    assert not {0, 1, 2} & {*first.rows.tolist()}
    again = suggest_rows(model, n_rows=5, skip=first.rows)
    assert not {*first.rows.tolist()} & {*again.rows.tolist()}
    mask = np.zeros(60, dtype=bool)
    mask[first.rows] = True
    assert suggest_rows(model, n_rows=5, skip=mask).rows.tolist() == again.rows.tolist()
    assert suggest_rows(model, n_rows=100, skip=np.arange(60)).rows.tolist() == []
    model.label_distributions_ = np.full((60, 3), 1 / 3)  # blurred, also where labels are given
    assert {*suggest_rows(model, n_rows=60).rows.tolist()} <= {*range(3, 60)}


def test_skipping_a_row_does_not_count_as_knowing_it():
    model, _ = fitted(5)
    best, second = suggest_rows(model, n_rows=2).rows
    assert suggest_rows(model, n_rows=1, skip=[best]).gains > suggest_rows(model, n_rows=2).gains[1]
    assert best != second


@pytest.mark.parametrize("graph", [DENSE, KNNGraph(6), "precomputed"], ids=lambda g: str(g)[:6])
def test_the_order_of_rows_does_not_matter(graph, monkeypatch):
    monkeypatch.setattr(active, "_NUMBERS", 30 * 60)
    monkeypatch.setattr(active, "_LEAST_CANDIDATES", 30)
    X, _, bags, totals = problem(6)
    times = np.random.default_rng(1).permutation(60)
    order = np.random.default_rng(2).permutation(60)

    def ask(rows):
        Z = X[rows]
        if graph == "precomputed":
            Z = np.exp(-np.square(Z[:, None] - Z).sum(axis=2))
        model = LPLLP(graph, random_state=0).fit(Z, bags=bags[rows], proportions=totals)
        by_time = suggest_bags(model, times=times[rows])
        halves = [{*rows[half].tolist()} for half in by_time.first_halves]
        found = suggest_rows(model)
        return rows[found.rows].tolist(), found.gains, by_time.bags, halves

    here, gains, bags_here, halves = ask(np.arange(60))
    there, other_gains, bags_there, other_halves = ask(order)
    assert len(here) == 10
    assert (here, bags_here, halves) == (there, bags_there, other_halves)
    np.testing.assert_allclose(gains, other_gains, rtol=1e-6)


def test_equal_gains_go_by_the_features():
    X = np.array([[0.0], [0.1], [9.0], [9.1], [20.0], [20.1], [31.0], [31.1]])
    found = []
    for order in (np.arange(8), np.arange(8)[::-1], np.array([3, 0, 7, 2, 5, 1, 6, 4])):
        model = LPLLP(DENSE).fit(X[order], bags=[0] * 8, proportions=[[0.5, 0.5]])
        model.label_distributions_ = np.full((8, 2), 0.5)
        found.append(X[order[suggest_rows(model, n_rows=3).rows], 0].tolist())
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(("seed", "n_bags", "least"), [(0, 1, 8), (0, 2, 6)])
def test_questions_are_spread_and_answers_help(seed, n_bags, least):
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(8), 25)
    y = group % 4
    X = rng.normal(scale=0.3, size=(200, 2)) + 6.0 * np.stack([group % 4, group // 4], axis=1)
    bags = rng.permutation(np.arange(200) % n_bags)
    totals = Totals.from_labels(y, bags)
    labels = np.full(200, None, dtype=object)
    model = LPLLP(KNNGraph(8), random_state=0).fit(X, bags=bags, proportions=totals)
    assert (model.transduction_ == y).mean() <= 0.5
    rows = suggest_rows(model, n_rows=8).rows
    assert len(set(group[rows].tolist())) >= least
    least_confident = np.argsort(model.label_distributions_.max(axis=1))[:8]
    assert len(set(group[least_confident].tolist())) == 1
    labels[rows] = y[rows]
    model = LPLLP(KNNGraph(8), random_state=0).fit(X, labels, bags=bags, proportions=totals)
    assert (model.transduction_ == y).all()


def test_more_rows_than_there_are():
    model, _ = fitted(9, n=12, n_bags=1)
    suggested = suggest_rows(model, n_rows=500)
    assert len(suggested) == len({*suggested.rows.tolist()}) <= 12
    # The totals leave one error fewer than there are rows.
    assert len(suggested) == 11


def test_nothing_uncertain_is_left():
    X, y, bags, totals = problem(10)
    sure = LPLLP(DENSE).fit(X, y, bags=bags, proportions=totals)
    assert suggest_rows(sure).rows.tolist() == []
    assert suggest_bags(sure).bags == ()
    assert "likeliest" in str(suggest_rows(sure))
    pure = LPLLP(DENSE).fit(X, bags=np.arange(60), proportions=np.eye(3)[y])
    assert len(suggest_rows(pure)) == len(suggest_bags(pure)) == 0


def test_halves_are_drawn_at_random_without_times():
    model, _ = fitted(11)
    suggested = suggest_bags(model)
    assert not suggested.in_time
    assert "at random" in str(suggested)
    for size, half in zip(suggested.sizes, suggested.first_halves, strict=True):
        assert len(half) == size // 2


def test_rows_of_one_time_stay_together():
    model, _ = fitted(12, n_bags=2)
    times = np.where(np.isin(model.bag_codes_, [1]), 5, np.arange(60) // 20)
    suggested = suggest_bags(model, times=times)
    assert suggested.bags == (model.bag_report_.ids[0],)
    first = suggested.first_halves[0]
    later = np.setdiff1d(np.flatnonzero(model.bag_codes_ == 0), first)
    assert times[first].max() < times[later].min() == times[suggested.second_begins[0]]


def test_dates_are_times():
    model, _ = fitted(13)
    minutes = np.datetime64("2026-03-02T00:00", "m") + np.arange(60)
    ours, numbers = (suggest_bags(model, times=t) for t in (minutes, np.arange(60)))
    assert ours.bags == numbers.bags
    assert [h.tolist() for h in ours.first_halves] == [h.tolist() for h in numbers.first_halves]


def test_a_model_without_a_graph_needs_the_rows():
    X, _, bags, totals = problem(14)
    model = MeanMap().fit(X, bags=bags, proportions=totals)
    with pytest.raises(InputError, match=r"`model`: found a MeanMap, which has no graph.*fit.*X"):
        suggest_rows(model)
    with pytest.raises(InputError, match=r"`X`: found 59 rows\. Allowed: the 60 rows"):
        suggest_rows(model, X[1:])
    assert len(suggest_rows(model, X, n_rows=4)) == 4
    assert len(suggest_bags(model, X)) == 4


def test_auto_llp_is_asked_like_any_other():
    X, _, bags, totals = problem(15, n_bags=6)
    candidates = ["mean-map"]
    model = AutoLLP(candidates, random_state=0).fit(X, bags=bags, proportions=totals)
    scaled = AutoLLP(candidates, random_state=0).fit(X * [1, 1024], bags=bags, proportions=totals)
    rows = suggest_rows(model, X, n_rows=5).rows.tolist()
    assert len(rows) == 5
    assert suggest_rows(scaled, X * [1, 1024], n_rows=5).rows.tolist() == rows
    with_graph = AutoLLP({"graph": LPLLP()}, random_state=0).fit(X, bags=bags, proportions=totals)
    assert len(suggest_rows(with_graph)) == 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_rows": 0}, "`n_rows`: found 0. Allowed: a whole number from 1 on"),
        ({"n_rows": 2.5}, "`n_rows`: found 2.5"),
        ({"n_rows": True}, "`n_rows`: found True"),
        ({"skip": [60]}, "`skip`: found the row 60. Allowed: positions of rows from 0 to 59"),
        ({"skip": [-1]}, "`skip`: found the row -1"),
        ({"skip": ["a"]}, "`skip`: found an array of <U1"),
        ({"skip": [True, False]}, "`skip`: found an array of bool of shape"),
    ],
)
def test_errors_say_what_is_wrong(arguments, words):
    model, _ = fitted()
    with pytest.raises(InputError) as error:
        suggest_rows(model, **arguments)
    assert words in str(error.value)


def test_errors_about_models_and_times():
    with pytest.raises(InputError, match="`model`: found a LPLLP that is not fitted here"):
        suggest_rows(LPLLP())
    with pytest.raises(InputError, match=r"`model`: found 3\. Allowed: a fitted estimator"):
        suggest_bags(3)
    model, _ = fitted()
    with pytest.raises(ValueError, match="`times` has 3 values"):
        suggest_bags(model, times=[1, 2, 3])
    with pytest.raises(InputError, match="`n_bags`"):
        suggest_bags(model, n_bags=-1)


def test_few_candidates_are_drawn_among_many_rows(monkeypatch):
    monkeypatch.setattr(active, "_NUMBERS", 0)
    monkeypatch.setattr(active, "_LEAST_CANDIDATES", 50)
    model, _ = fitted(16, KNNGraph(6), n=400, n_bags=8)
    seen = []
    field = error_field.ErrorField.__call__

    def spy(self, V):
        seen.append(V.shape)
        return field(self, V)

    monkeypatch.setattr(error_field.ErrorField, "__call__", spy)
    assert len(suggest_rows(model, n_rows=5)) == 5
    assert len(suggest_rows(model, n_rows=30)) == 30
    assert seen == [(400, 50), (400, 120)]


def test_suggestions_are_tables():
    model, _ = fitted(17)
    rows, bags = suggest_rows(model, n_rows=3), suggest_bags(model, n_bags=2)
    frame = rows.to_frame("pyarrow")
    assert frame.column_names[:4] == ["row", "bag", "gain", "class_1"]
    assert frame.column("row").to_pylist() == rows.rows.tolist()
    assert (rows.probabilities[:, 0] >= rows.probabilities[:, 1]).all()
    assert bags.to_frame("pyarrow").num_rows == 2
    assert len(str(rows).splitlines()) == 4
    assert str(rows.rows[0]) in rows._repr_html_()
    assert "Bags to split" in bags._repr_html_()


def test_a_row_in_no_bag_and_a_class_alone():
    X, y, bags, totals = problem(18)
    some = bags.astype(object)
    some[::7] = None
    totals = Totals.from_labels(y[some != None], some[some != None])  # noqa: E711
    model = LPLLP(DENSE, random_state=0).fit(X, bags=some, proportions=totals)
    suggested = suggest_rows(model, n_rows=60)
    assert None in suggested.bags
    assert {bag for bag in suggested.bags if bag is not None} == {0, 1, 2, 3}
    single = LPLLP(DENSE).fit(X, bags=[0] * 60, proportions={0: {"a": 1.0}})
    assert suggest_rows(single).classes.shape == (0, 1)


def participants():
    """Return two people's windows with diaries, labeled one by one."""
    X, y, _, _ = problem(19, n=80, n_bags=2, n_classes=2)
    who = np.repeat(["ann", "bob"], 40)
    start = np.tile(np.datetime64("2026-03-02T00:00", "s") + 36 * 60 * np.arange(40), 2)
    rows = pa.table({"participant": who, "start": start, "a": X[:, 0], "b": X[:, 1]})
    asleep = [int((y[who == name] == 0).sum()) for name in ("ann", "bob")]
    diary = {
        "participant": ["ann", "bob"],
        "date": ["2026-03-02"] * 2,
        "sleep": [f"{n * 36} min" for n in asleep],
        "awake": [f"{(40 - n) * 36} min" for n in asleep],
    }
    task = supervised_table(rows, diary=diary, graphs="each", timezone=None)
    features = learn_features(task)
    return task, features


def test_tables_are_asked_over_all_models():
    task, features = participants()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labeled = label_supervised(task, features, LPLLP(random_state=0))
    assert list(labeled.models) == ["ann", "bob"]
    found = suggest_in_table(labeled, task, features, n_rows=6)
    assert len(found) == 6
    assert (np.diff(found.gains) <= 0).all()
    best = {}
    for name, model in labeled.models.items():
        own = suggest_rows(model, n_rows=6)
        best |= dict(zip(labeled.labels.rows[name][own.rows].tolist(), own.gains, strict=True))
    assert found.rows.tolist() == sorted(best, key=lambda row: -best[row])[:6]
    again = suggest_in_table(labeled, task, features, n_rows=6, skip=found.rows)
    assert not {*found.rows.tolist()} & {*again.rows.tolist()}
    bags = suggest_bags_in_table(labeled, task, features)
    assert bags.in_time
    assert len(bags) == 2
    for half, begin in zip(bags.first_halves, bags.second_begins, strict=True):
        assert half.max() + 1 == begin
        assert half.tolist() == list(range(begin - 20, begin))


def test_tables_whose_models_have_no_graph():
    task, features = participants()
    labeled = label_supervised(task, features, MeanMap())
    assert len(suggest_in_table(labeled, task, features, n_rows=4)) == 4
    assert len(suggest_bags_in_table(labeled, task, features, n_bags=1)) == 1
