"""Weighted k-nearest neighbors, the paper's comparison."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from apportion._core.propagation import propagator
from apportion._core.warn import warn_of_graph
from apportion.estimators._base import all_or_nothing
from apportion.estimators._graph import GraphClassifier
from apportion.graphs import Graph


class WeightedKNN(GraphClassifier):
    """Weighted k-nearest neighbors on bag proportions: `F = S F⁰`.

    Every row takes the weighted mean of its neighbors' bag proportions, with S = D⁻¹W. This is the
    first step of the propagation that `LPLLP` repeats until it converges. Totals are not kept.

    Parameters
    ----------
    graph : {"auto", "knn", "anchor", "rbf", "precomputed"} or Graph, default="auto"
        The graph of similar rows. `"auto"` chooses by the number of rows; `KNNGraph(k)` sets the
        number of neighbors.
    decode : {"quota", "threshold"}, default="quota"
        Give every bag exactly its counts, or every row its most likely class.
    random_state : int, RandomState or None, default=None
        Not used; accepted so that estimators can be exchanged.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        Soft labels; rows sum to 1.
    transduction_ : ndarray of shape (n_samples,)
        A label for every fitted row.
    bag_report_ : BagReport
        Given and assigned totals per bag and class, for both decodings.
    diagnosis_ : Diagnosis
        Which classes the totals can tell apart.
    graph_ : Graph
        The fitted graph.
    graph_choice_ : str
        The graph that was chosen, and why.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    >>> model = WeightedKNN().fit(X, bags=[0, 0, 0, 1, 1, 1], proportions=np.array([1 / 3, 2 / 3]))
    >>> model.transduction_.tolist()
    [0, 0, 1, 0, 1, 1]
    """

    _averages_soft_labels: ClassVar[bool] = False

    def __init__(
        self, graph: str | Graph = "auto", *, decode: str = "quota", random_state: Any = None
    ) -> None:
        self.graph = graph
        self.decode = decode
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, *, bags: Any = None, proportions: Any = None) -> Self:
        """Average the bag proportions of the neighbors.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows; with a precomputed graph, the similarities of all pairs of rows.
        y : array-like of shape (n_samples,), optional
            Labels of some rows, which are kept; None or NaN where unknown.
        bags : array-like of shape (n_samples,), optional
            Bag ids of any hashable type; missing for rows in no bag.
        proportions : Totals, dataframe, mapping or array, optional
            The totals of the bags; see `Totals`.

        Returns
        -------
        WeightedKNN
            The fitted estimator.
        """
        self._check_parameters()
        asked = self._asked_graph()
        matched = self._matched(X, y, bags, proportions)
        X, graph = self._rows_and_graph(X, asked)
        self._store_diagnosis(matched)
        self.graph_ = graph = graph.fit(X)
        warn_of_graph(graph)
        prior = matched.prior()
        F = matched.with_given(propagator(graph, order=1)(prior))
        # New rows average bag proportions, too, not soft labels that are averages already.
        self._keep(matched, graph, F, self._quota(X, F, matched), averaged=prior)
        return self
