"""Refinement: the same counts, never a lower smoothness."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import LPLLP, KNNGraph, Totals
from apportion._core.decode import Quotas, quota
from apportion._core.refine import _random_orders, clearly_smoother, refine
from apportion._utils.hashing import hash_ranks
from apportion.datasets import make_bags, make_half_kernel
from apportion.supervision.bags import match_bags


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


def test_random_starts_follow_the_rows_and_no_seed():
    X, _, bags, totals = blurred()
    model = LPLLP().fit(X, bags=bags, proportions=totals)
    order = np.random.default_rng(0).permutation(len(X))
    again = LPLLP(random_state=3).fit(X[order], bags=bags[order], proportions=totals)
    np.testing.assert_array_equal(again.transduction_, model.transduction_[order])


def test_random_starts_are_for_small_problems_of_exact_totals():
    X, y, codes, totals = blurred()
    graph, ranks = KNNGraph().fit(X), hash_ranks(X, len(X))
    wrong = (X[:, 0] > 0).astype(int)
    exact = match_bags(len(X), bags=codes, proportions=totals)
    found = clearly_smoother(graph, Quotas(exact, ranks), exact.prior(), wrong, ranks)
    np.testing.assert_array_equal(
        exact.groups.sum(np.eye(2)[found.labels]), exact.groups.sum(np.eye(2)[y])
    )
    assert clearly_smoother(graph, Quotas(exact, ranks), exact.prior(), found.labels, ranks) is None
    free = match_bags(len(X), bags=[None, *codes[1:].tolist()], proportions=totals)
    assert clearly_smoother(graph, Quotas(free, ranks), free.prior(), wrong, ranks) is None
    rough = Totals.from_intervals(totals.lower - 0.1, totals.lower + 0.1)
    rough = match_bags(len(X), bags=codes, proportions=rough)
    assert clearly_smoother(graph, Quotas(rough, ranks), rough.prior(), wrong, ranks) is None


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


def test_random_orders_do_not_rank_rounding_noise():
    X, _, _, graph, rng = in_components(0)
    order = rng.permutation(len(X))
    ranks = hash_ranks(X, len(X))
    plain = list(_random_orders(graph.fit(X), ranks))
    other = list(_random_orders(graph.fit(X[order]), ranks[order]))
    for a, b in zip(plain, other, strict=True):
        np.testing.assert_array_equal(b, a[order])
