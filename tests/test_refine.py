"""Refinement: the same counts, never a lower smoothness, and random starts only with evidence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

from apportion import LPLLP, KNNGraph, MeanMap, RBFGraph, Totals
from apportion._core import evidence
from apportion._core import random_starts as starting
from apportion._core.decode import Quotas, quota
from apportion._core.evidence import Refinement, _drawn_counts
from apportion._core.held_out import HeldOut
from apportion._core.random_starts import (
    ManyQuotas,
    raise_together,
    random_starts,
    reason_against,
)
from apportion._core.refine import refine
from apportion._utils.hashing import hash_ranks
from apportion.datasets import make_bags, make_half_kernel
from apportion.supervision.bags import match_bags
from reference import count_log_likelihood, refined_labels


@given(seed=st.integers(0, 10**5), c=st.integers(2, 4))
def test_smoothness_never_falls_and_counts_stay(seed, c):
    """On random soft labels, which refinement can easily make worse if it does not look."""
    rng = np.random.default_rng(seed)
    n = 40
    X, codes = rng.normal(size=(n, 2)), rng.integers(0, 4, n)
    labels = rng.integers(0, c, n)
    y = [int(label) if rng.random() < 0.1 else None for label in labels]
    totals = Totals.from_labels(labels, codes, classes=list(range(c)))
    bags = match_bags(n, y=y, bags=codes, proportions=totals)
    graph, ranks = KNNGraph(int(rng.integers(1, 4))).fit(X), hash_ranks(X, n)
    F = bags.with_given(rng.dirichlet(np.ones(c), n))
    start = quota(F, bags, ranks)
    end = refine(graph, Quotas(bags, ranks), F, start)
    one_hot = np.eye(c)
    assert graph.smoothness(one_hot[end.labels]) >= graph.smoothness(one_hot[start.labels])
    np.testing.assert_array_equal(
        bags.groups.sum(one_hot[end.labels]), bags.groups.sum(one_hot[start.labels])
    )
    known = bags.given >= 0
    np.testing.assert_array_equal(end.labels[known], bags.given[known])


def test_isolated_rows_do_not_break_it():
    X = np.vstack([np.random.default_rng(0).normal(size=(19, 2)), [[1e6, 0.0]]])
    bags = match_bags(20, bags=np.arange(20) % 2, proportions=np.array([[0.3, 0.7], [0.6, 0.4]]))
    F = bags.prior()
    ranks = hash_ranks(X, 20)
    decode = Quotas(bags, ranks)
    end = refine(KNNGraph(3).fit(X), decode, F, decode(F))
    np.testing.assert_array_equal(bags.groups.sum(np.eye(2)[end.labels]), bags.lower)


def blurred(n_samples=120, seed=8):
    """Half circles in bags so alike that the convex answer cuts across both."""
    rng = np.random.RandomState(seed)
    X, y = make_half_kernel(n_samples, random_state=rng)
    order = rng.permutation(n_samples)
    X, y = X[order], y[order]
    bags, totals = make_bags(X, y, proportions=[0.6, 0.4, 0.5], random_state=rng)
    return X, y, bags, totals


def noise(n_samples=160, n_bags=8, seed=0):
    """Rows that know nothing of their classes, and so smoother labels that mean nothing."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n_samples, 3)), rng.integers(0, 2, n_samples)
    bags = np.arange(n_samples) % n_bags
    return X, y, bags, Totals.from_labels(y, bags, classes=[0, 1])


def islands(seed=0, n_bags=8):
    """Ten islands of one class each, whose totals tell which, and a chain of free riders."""
    rng = np.random.default_rng(seed)
    island = np.arange(160) % 10
    X = rng.normal(size=(160, 2)) + 6.0 * np.column_stack([island % 4, island // 4])
    y = rng.permutation(np.arange(10) % 2)[island]
    bags = rng.permutation(160) % n_bags
    return X, y, bags, Totals.from_labels(y, bags, classes=[0, 1])


# --- Random starts, all at once.


@given(seed=st.integers(0, 10**5))
def test_many_quotas_are_quotas(seed):
    """Also with ties, given labels, and bags of which one class has no row."""
    rng = np.random.default_rng(seed)
    n, n_bags = 30, int(rng.integers(1, 6))
    codes, labels = rng.integers(0, n_bags, n), rng.integers(0, 2, n)
    labels[codes == 0] = rng.integers(0, 2)
    y = [int(label) if rng.random() < 0.2 else None for label in labels]
    totals = Totals.from_labels(labels, codes, classes=[0, 1])
    bags = match_bags(n, y=y, bags=codes, proportions=totals)
    ranks = rng.permutation(n)
    scores = np.round(rng.normal(size=(n, 4)), int(rng.integers(0, 4)))
    scores[:, 0] = 0.0
    scores[0, 1] += 1e-12
    decode, many = Quotas(bags, ranks), ManyQuotas(bags, ranks)(scores)
    for column, scored in zip(many.T, scores.T, strict=True):
        both = np.column_stack([1.0 - scored, scored])
        np.testing.assert_array_equal(column, decode(both).labels)


@pytest.mark.parametrize("graph", [KNNGraph(3), RBFGraph(1.0)], ids=str)
def test_starts_end_together_where_they_end_alone(graph):
    X, _, codes, totals = blurred(60)
    graph, ranks = graph.fit(X), hash_ranks(X, len(X))
    bags = match_bags(len(X), bags=codes, proportions=totals)
    starts, decode, many = random_starts(graph, ranks), Quotas(bags, ranks), ManyQuotas(bags, ranks)
    together = raise_together(graph, many, starts)
    assert len({labels.tobytes() for labels in together.labels.T}) > 1
    for column, start in enumerate(starts.T):
        both = np.column_stack([1.0 - start, start])
        alone = refine(graph, decode, both, decode(both)).labels
        np.testing.assert_array_equal(together.labels[:, column], alone)
        smoothness = graph.label_smoothness(alone, 2)
        assert together.smoothness[column] == pytest.approx(smoothness, abs=1e-12)


@pytest.mark.parametrize("held_out", [None, 1])
def test_starts_end_where_the_literal_rounds_end(held_out):
    X, _, codes, totals = blurred(60)
    graph, ranks = KNNGraph(3).fit(X), hash_ranks(X, len(X))
    bags = match_bags(len(X), bags=codes, proportions=totals)
    starts, many = random_starts(graph, ranks)[:, ::9], ManyQuotas(bags, ranks)
    seen = None if held_out is None else codes != held_out
    together = raise_together(graph, many, starts, seen)
    W, counts = graph.affinity_.toarray(), many.counts
    for column, start in enumerate(starts.T):
        labels, smoothness = refined_labels(W, bags.codes, counts, ranks, start, seen)
        np.testing.assert_array_equal(together.labels[:, column], labels)
        assert together.smoothness[column] == pytest.approx(smoothness, abs=1e-12)


def test_starts_do_not_rank_rounding_noise():
    X, _, _, graph, rng = in_components(0)
    order = rng.permutation(len(X))
    ranks = hash_ranks(X, len(X))
    plain, other = (
        random_starts(graph.fit(X), ranks),
        random_starts(graph.fit(X[order]), ranks[order]),
    )
    np.testing.assert_array_equal(other, plain[order])


@pytest.mark.parametrize("n", [100, 256])
def test_starts_lie_between_the_units_of_scores(n):
    """With 256 rows, a tenth of (rank - ½) / n would lie just where rounding begins."""
    X = np.random.default_rng(0).normal(size=(n, 2))
    scores = 0.1 * random_starts(KNNGraph(3).fit(X), hash_ranks(X, n)) / 1e-9
    np.testing.assert_allclose(scores, np.rint(scores), atol=1e-3)


# --- When they are tried, and when they are taken.


def test_why_random_starts_are_not_tried(monkeypatch):
    X, y, codes, totals = blurred()
    graph = KNNGraph().fit(X)

    def reason(bags, totals):
        return reason_against(graph, match_bags(len(X), bags=bags, proportions=totals))

    assert reason(codes, totals) == ""
    assert "1 rows are in no bag" in reason([None, *codes[1:].tolist()], totals)
    rough = Totals.from_intervals(totals.lower - 0.1, totals.lower + 0.1)
    assert "3 bags have inexact totals" in reason(codes, rough)
    three = Totals.from_labels(np.arange(120) % 3, codes)
    assert "3 classes" in reason(codes, three)
    assert "1 bags" in reason(np.zeros(120, int), Totals.from_labels(y, np.zeros(120, int)))
    monkeypatch.setattr(starting, "_MOST_SIMILARITIES", 100)
    assert "at most 100" in reason(codes, totals)
    monkeypatch.setattr(starting, "_MOST_ROWS", 119)
    assert "120 rows; random starts are for at most 119" in reason(codes, totals)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (LPLLP(refine=False), "refine=False"),
        (LPLLP(solver="literal"), "literal"),
        (LPLLP(prior=MeanMap()), "prior"),
    ],
)
def test_the_reason_is_stored_where_nothing_is_tried(model, why):
    X, _, bags, totals = blurred()
    refinement = model.fit(X, bags=bags, proportions=totals).refinement_
    assert not refinement.taken
    assert why in refinement.why
    assert refinement.smoothness == refinement.log_likelihoods == {}


def test_random_starts_find_the_smoothest_labels_where_soft_labels_are_blurred():
    X, y, bags, totals = blurred()
    without = LPLLP(refine=False).fit(X, bags=bags, proportions=totals)
    model = LPLLP().fit(X, bags=bags, proportions=totals)
    assert (without.transduction_ == y).mean() < 0.6
    np.testing.assert_array_equal(model.transduction_, y)
    # soft labels, and what is said of new rows, go with the labels
    np.testing.assert_array_equal(model.label_distributions_.argmax(axis=1), y)
    assert (model.predict(X + 0.01) == y).all()
    sums = [model.label_distributions_[bags == k, 1].mean() for k in range(3)]
    np.testing.assert_allclose(sums, totals.lower[:, 1], atol=1e-8)
    # and why they were taken is written down
    found = model.refinement_
    assert found.taken
    assert "the totals support them" in found.why
    assert found.smoothness["random starts"] > found.smoothness["solution"] + 0.01
    assert found.smoothness["random starts"] > found.smoothness["drawn totals"]


@pytest.mark.parametrize("n_bags", [4, 8])
def test_smoother_labels_that_mean_nothing_are_not_taken(n_bags, monkeypatch):
    X, _, bags, totals = noise(n_bags=n_bags)
    model = LPLLP().fit(X, bags=bags, proportions=totals)
    found = model.refinement_
    assert found.smoothness["random starts"] > found.smoothness["solution"] + 0.01
    assert not found.taken
    assert "do not support them" in found.why
    assert bool(found.log_likelihoods) == (n_bags > 5)
    monkeypatch.setattr(evidence, "reason_against", lambda graph, bags: "not now")
    without = LPLLP().fit(X, bags=bags, proportions=totals)
    np.testing.assert_array_equal(without.transduction_, model.transduction_)


def test_held_out_totals_support_labels_that_foretell_them(monkeypatch):
    """Labels of islands: as smooth as those of the solution, so that the margin must go."""
    monkeypatch.setattr(evidence, "_CLEARLY", -1.0)
    X, y, bags, totals = islands()
    model = LPLLP().fit(X, bags=bags, proportions=totals)
    found = model.refinement_.log_likelihoods
    assert model.refinement_.taken
    assert set(found) == {"class shares", "random starts", "solution"}
    assert found["random starts"] > found["class shares"] + 3
    assert (model.transduction_ == y).mean() > 0.95
    # not if the labels of the solution foretell them clearly better
    monkeypatch.setattr(evidence, "_NOT_WORSE", -100.0)
    found = LPLLP().fit(X, bags=bags, proportions=totals).refinement_
    assert not found.taken
    assert "the solution's foretell better" in found.why


def held_out_of(X, codes, totals, k=5):
    graph, ranks = KNNGraph(k).fit(X), hash_ranks(X, len(X))
    bags = match_bags(len(X), bags=codes, proportions=totals)
    return HeldOut(graph, ManyQuotas(bags, ranks), ranks), random_starts(graph, ranks)


def test_what_is_foretold_does_not_depend_on_held_out_totals():
    X, y, codes, totals = islands()
    held_out, starts = held_out_of(X, codes, totals)
    inside = held_out.folds[codes] == 0
    changed = np.where(inside, 1 - y, y)
    other, _ = held_out_of(X, codes, Totals.from_labels(changed, codes))
    np.testing.assert_array_equal(other.folds, held_out.folds)
    for a, b in ((held_out, other), (other, held_out)):
        np.testing.assert_array_equal(a.shares[inside], b.shares[inside])
    means = [h.means_of(lambda fold: starts) for h in (held_out, other)]
    np.testing.assert_array_equal(means[0][inside], means[1][inside])
    assert (means[0][~inside] != means[1][~inside]).any()
    kept = held_out.others(0)
    assert (kept.codes[inside] == -1).all()
    np.testing.assert_array_equal(kept.lower, held_out.bags.lower[held_out.folds != 0])


def test_the_likelihood_is_the_literal_one():
    X, _, codes, totals = noise(60, 6)
    held_out, _ = held_out_of(X, codes, totals)
    rng = np.random.default_rng(0)
    for means in (rng.random(60), rng.integers(0, 2, 60).astype(float), held_out.shares):
        literal = count_log_likelihood(
            means, held_out.shares, held_out.bags.codes, held_out.decode.counts
        )
        assert held_out.log_likelihood(means) == pytest.approx(literal, rel=1e-12)


def test_drawn_totals_follow_bags_and_classes():
    X, _, codes, _ = noise(60, 4)
    ranks = hash_ranks(X, 60)

    def drawn(codes, labels):
        bags = match_bags(60, bags=codes, proportions=Totals.from_labels(labels, codes))
        return np.array(_drawn_counts(ManyQuotas(bags, ranks), ranks))

    labels = (np.random.default_rng(1).random(60) < 0.3).astype(int)
    plain = drawn(codes, labels)
    sizes = np.bincount(codes)
    assert ((plain >= 0) & (plain <= sizes)).all()
    assert len(np.unique(plain, axis=0)) > 1
    np.testing.assert_array_equal(drawn(codes, 1 - labels), sizes - plain)
    np.testing.assert_array_equal(drawn(3 - codes, labels), plain[:, ::-1])


def test_drawn_totals_differ_as_much_as_the_given_ones():
    """Bags of one class each are drawn as bags of nearly one class each."""
    X, _, codes, _ = noise(80, 4)
    ranks = hash_ranks(X, 80)
    bags = match_bags(80, bags=codes, proportions=Totals.from_labels(codes % 2, codes))
    for counts in _drawn_counts(ManyQuotas(bags, ranks), ranks):
        np.testing.assert_allclose(np.sort(counts), [0, 0, 20, 20], atol=3)


# --- Neither rows, seeds, rounding nor threads matter.


PROBLEMS = {"blurred": blurred, "noise": noise, "few": lambda: noise(n_bags=4), "islands": islands}


@pytest.mark.parametrize("name", PROBLEMS)
def test_random_starts_follow_the_rows_and_no_seed(name, monkeypatch):
    monkeypatch.setattr(evidence, "_CLEARLY", 0.01 if name == "blurred" else -1.0)
    X, _, bags, totals = PROBLEMS[name]()
    model = LPLLP().fit(X, bags=bags, proportions=totals)
    order = np.random.default_rng(0).permutation(len(X))
    again = LPLLP(random_state=3).fit(X[order], bags=bags[order], proportions=totals)
    np.testing.assert_array_equal(again.transduction_, model.transduction_[order])
    assert_same(again.refinement_, model.refinement_)


@pytest.mark.parametrize("name", PROBLEMS)
def test_threads_change_no_digit(name, monkeypatch):
    monkeypatch.setattr(evidence, "_CLEARLY", 0.01 if name == "blurred" else -1.0)
    X, _, bags, totals = PROBLEMS[name]()
    models = []
    for n in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", n)
        with threadpool_limits(int(n)):
            models.append(LPLLP().fit(X, bags=bags, proportions=totals))
    np.testing.assert_array_equal(models[1].transduction_, models[0].transduction_)
    assert models[1].refinement_ == models[0].refinement_


def assert_same(a: Refinement, b: Refinement) -> None:
    assert a.taken == b.taken
    assert a.smoothness == pytest.approx(b.smoothness, abs=1e-9)
    assert a.log_likelihoods == pytest.approx(b.log_likelihoods, abs=1e-6)


def test_more_rows_than_before_are_tried():
    X, y = load_breast_cancer(return_X_y=True)
    X = np.vstack([scale(X), scale(X) + 0.01])
    codes = np.random.default_rng(0).integers(0, 40, len(X))
    model = LPLLP().fit(X, bags=codes, proportions=Totals.from_labels(np.tile(y, 2), codes))
    assert len(X) > 1000
    assert "random starts" in model.refinement_.smoothness


def in_components(seed, n=40):
    """Rows in separate components, whose labels the totals of a few bags leave open."""
    rng = np.random.default_rng(seed)
    n_components, n_bags = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    component = np.arange(n) % n_components
    X = rng.normal(size=(n, 2))
    X[:, 0] += 100 * component
    bags = np.concatenate([np.arange(n_bags), rng.integers(0, n_bags, n - n_bags)])
    share = np.where(rng.random(n_components) < 0.5, 0.2, 0.8)[component]
    totals = Totals.from_labels((rng.random(n) < share).astype(int), bags, classes=[0, 1])
    return X, bags, totals, KNNGraph(int(rng.integers(2, 6))), rng


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 38, 52, 141, 470])
def test_rounding_inside_components_decides_nothing(seed):
    """What averaging leaves of random numbers inside a component is noise, and no order."""
    X, bags, totals, graph, rng = in_components(seed)
    order = rng.permutation(len(X)) if seed % 2 == 0 else np.arange(len(X))[::-1]
    whole = LPLLP(graph, random_state=0).fit(X, bags=bags, proportions=totals)
    other = LPLLP(graph, random_state=0).fit(X[order], bags=bags[order], proportions=totals)
    np.testing.assert_array_equal(other.transduction_, whole.transduction_[order])
    np.testing.assert_allclose(
        other.label_distributions_, whole.label_distributions_[order], atol=1e-4
    )
