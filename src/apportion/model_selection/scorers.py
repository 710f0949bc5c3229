"""Scores of predictions from the totals of their bags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import _num_samples

from apportion._core.decode import quota
from apportion._core.projection import reconcile
from apportion._utils.hashing import hash_ranks
from apportion._utils.parameters import check_parameters, one_of
from apportion.exceptions import SupervisionError
from apportion.graphs import Graph, KNNGraph
from apportion.metrics import bag_deviances, bag_errors, soft
from apportion.supervision.bags import match_bags

METRICS = ("absolute_error", "deviance", "smoothness")
"""The metrics of `ProportionScorer`."""


class ProportionScorer(BaseEstimator):
    """A scorer that compares predictions with the totals of their bags and uses no labels.

    Parameters
    ----------
    metric : {"absolute_error", "deviance", "smoothness"} or callable, default="absolute_error"
        `"absolute_error"`: minus the mean share of a bag's rows whose predicted labels would have
        to change to meet the totals. `"deviance"`: minus the multinomial deviance per row of the
        bags' counts, given the mean probabilities; here it equals the Poisson deviance.
        `"smoothness"`: how often neighbors agree, at most 1, if every bag gets exactly its counts
        according to the probabilities. A callable is a function of
        (estimator, X, y, bags=, proportions=). A higher score is always better.
    graph : Graph, optional
        The graph of neighbors for `"smoothness"`, by default `KNNGraph()`. It is fitted to the
        rows as they are given to the scorer, before a pipeline scales them.

    Examples
    --------
    >>> import numpy as np
    >>> from apportion import MeanMap
    >>> X, bags = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]]), [0, 0, 0, 1, 1, 1]
    >>> totals = np.array([1 / 3, 2 / 3])
    >>> model = MeanMap().fit(X, bags=bags, proportions=totals)
    >>> score = ProportionScorer("absolute_error")
    >>> abs(round(score(model, X, bags=bags, proportions=totals), 3))
    0.0
    """

    __metadata_request__score = {  # noqa: RUF012
        "bags": True,
        "proportions": True,
        "estimator": UNUSED,
    }

    def __init__(self, metric: Any = "absolute_error", *, graph: Graph | None = None) -> None:
        self.metric = metric
        self.graph = graph

    def __call__(self, estimator: Any, X: Any, y: Any = None, **params: Any) -> float:
        """Return the score, as scikit-learn calls a scorer; see `score`."""
        return self.score(estimator, X, y, **params)

    def score(
        self, estimator: Any, X: Any, y: Any = None, *, bags: Any = None, proportions: Any = None
    ) -> float:
        """Return the score of a fitted estimator on rows in bags with known totals.

        Parameters
        ----------
        estimator : classifier
            A fitted classifier, with `predict` for the first metric, else with `predict_proba`.
        X : array-like of shape (n_samples, n_features)
            The rows.
        y : ignored
            Labels are not used.
        bags : array-like of shape (n_samples,)
            Bag ids of the rows.
        proportions : Totals, dataframe, mapping or array
            The totals of the bags.

        Returns
        -------
        float
            The score; higher is better.
        """
        check_parameters(self, {"metric": one_of(*METRICS, kind=Callable)})
        if callable(self.metric):
            return float(self.metric(estimator, X, y, bags=bags, proportions=proportions))
        if bags is None or proportions is None:
            raise SupervisionError(
                "the scorer",
                "no `bags` and `proportions`",
                "both",
                "pass them; in scikit-learn's searches, set_config(enable_metadata_routing=True)",
            )
        classes = np.asarray(estimator.classes_)
        matched = match_bags(_num_samples(X), None, bags, proportions, classes=classes)
        if self.metric == "absolute_error":
            return -float(bag_errors(soft(estimator.predict(X), classes), matched).mean())
        P = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        if self.metric == "deviance":
            return -float(bag_deviances(P, matched).sum() / max(matched.groups.sizes.sum(), 1.0))
        if self.graph is None and get_tags(estimator).input_tags.pairwise:
            raise ValueError(
                "The 'smoothness' of an estimator on precomputed similarities cannot be scored: X "
                "holds no features in which to find neighbors. Use 'deviance' instead."
            )
        X = np.asarray(X)
        graph = (KNNGraph() if self.graph is None else clone(self.graph)).fit(X)
        ranks = hash_ranks(X if graph.sees_features else None, len(P))
        labels = quota(reconcile(P, matched), matched, ranks).labels
        return graph.label_smoothness(labels, len(classes))
