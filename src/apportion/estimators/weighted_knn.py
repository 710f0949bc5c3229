"""Weighted k-nearest neighbors, the paper's comparison."""

from __future__ import annotations

from typing import Any, Self

from apportion._core.propagation import propagator
from apportion._core.warn import warn_of_graph
from apportion._utils.typing import FloatArray
from apportion.estimators._base import all_or_nothing
from apportion.estimators._graph import GraphClassifier
from apportion.graphs import Graph


class WeightedKNN(GraphClassifier):
    """Weighted k-nearest neighbors on bag proportions: `F = S F⁰`.

    Every row takes the weighted mean of its neighbors' bag proportions, S = D⁻¹W. It is the first
    term of the propagation that `LPLLP` repeats until nothing moves, and keeps no totals.

    Parameters
    ----------
    graph : {"auto", "knn", "anchor", "rbf", "precomputed"} or Graph, default="auto"
        The graph of similar rows; `"auto"` chooses by their number, `KNNGraph(k)` sets the
        number of neighbors.
    decode : {"quota", "threshold"}, default="quota"
        How the fitted rows are labeled: every bag exactly its counts, or every row its most likely
        class.
    random_state : int, RandomState or None, default=None
        Not used: nothing is drawn at random.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        Soft labels; rows sum to 1.
    transduction_ : ndarray of shape (n_samples,)
        A label for every fitted row.
    bag_report_ : BagReport
        Given against assigned per bag and class, for both decodings.
    diagnosis_ : Diagnosis
        What the totals can tell apart.
    graph_ : Graph
        The fitted graph.
    graph_choice_ : str
        Which graph it is, and why.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    >>> model = WeightedKNN().fit(X, bags=[0, 0, 0, 1, 1, 1], proportions=np.array([1 / 3, 2 / 3]))
    >>> model.transduction_.tolist()
    [0, 0, 1, 0, 1, 1]
    """

    def __init__(
        self, graph: str | Graph = "auto", *, decode: str = "quota", random_state: Any = None
    ) -> None:
        self.graph = graph
        self.decode = decode
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, *, bags: Any = None, proportions: Any = None) -> Self:
        """Average the bag proportions of neighbors.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; similarities of all pairs with a precomputed graph.
        y : array-like of shape (n_samples,), optional
            Labels of some rows; None or NaN = not known. They are kept.
        bags : array-like of shape (n_samples,), optional
            Bag ids, anything hashable; missing = in no bag.
        proportions : Totals, dataframe, mapping or array, optional
            The bags' totals: see `Totals`.

        Returns
        -------
        WeightedKNN
            The fitted estimator.
        """
        self._require_choice("decode", ("quota", "threshold"))
        asked = self._asked_graph()
        matched = self._matched(X, y, bags, proportions)
        X, graph = self._rows_and_graph(X, asked)
        self._warn_of_design(matched)
        graph = graph.fit(X)
        warn_of_graph(graph)
        self._prior = matched.prior()
        F = matched.with_given(propagator(graph, order=1)(self._prior))
        self.graph_ = graph
        self._keep(matched, graph, F, self._quota(X, F, matched))
        return self

    @property
    def _voices(self) -> FloatArray:
        """New rows, too, average bag proportions, not what was averaged already."""
        return self._prior
