"""Weighted k-NN against its definition."""

from __future__ import annotations

import numpy as np

from apportion import KNNGraph, LabelPropagation, WeightedKNN
from apportion.supervision.bags import match_bags
from reference import knn_similarities, nearest_neighbors_vote
from test_inv_cal import clouds


def test_every_row_is_its_neighbors_mean():
    X, _, bags, totals = clouds(0)
    model = WeightedKNN(KNNGraph(5)).fit(X, bags=bags, proportions=totals)
    prior = match_bags(80, None, bags, totals).prior()
    wanted = nearest_neighbors_vote(knn_similarities(X, 5), prior)
    np.testing.assert_allclose(model.label_distributions_, wanted, atol=1e-8)


def test_it_is_the_first_term_of_the_propagation():
    X, _, bags, totals = clouds(1)
    ours = WeightedKNN().fit(X, bags=bags, proportions=totals)
    first = LabelPropagation(order=1).fit(X, bags=bags, proportions=totals)
    np.testing.assert_allclose(ours.label_distributions_, first.label_distributions_)


def test_new_rows_average_bag_proportions_too():
    X, _, bags, totals = clouds(2)
    model = WeightedKNN(KNNGraph(5)).fit(X, bags=bags, proportions=totals)
    new = X[:6] + 0.05
    weights, _ = model.graph_.affinities(new)
    weights = weights.toarray()
    prior = match_bags(80, None, bags, totals).prior()
    np.testing.assert_allclose(
        model.predict_proba(new), weights @ prior / weights.sum(axis=1, keepdims=True)
    )
