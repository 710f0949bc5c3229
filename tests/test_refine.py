"""Refinement: the same counts, never a lower smoothness."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apportion import KNNGraph, Totals
from apportion.bags import match_bags
from apportion.decode import quota
from apportion.hashing import hash_ranks
from apportion.refine import refine


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
    end = refine(graph, bags, F, start, ranks)
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
    end = refine(KNNGraph(3).fit(X), bags, F, quota(F, bags, ranks), ranks)
    np.testing.assert_array_equal(bags.groups.sum(np.eye(2)[end.labels]), bags.lower)
