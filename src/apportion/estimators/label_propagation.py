"""Algorithm 1 of the paper: label propagation from labeled rows."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np

from apportion._core.propagation import propagator
from apportion._core.warn import warn_of_graph
from apportion._utils.parameters import integer, real
from apportion.estimators._base import BagClassifier, all_or_nothing
from apportion.estimators._graph import GraphClassifier
from apportion.exceptions import Advice, IsolatedRowsWarning, name_some, users_level
from apportion.graphs import Graph


class LabelPropagation(GraphClassifier):
    """Label propagation, `F* = (1-α)(I - αS)⁻¹ Y` (the paper's Algorithm 1).

    Y holds one-hot rows for labeled rows, the bag's proportions for other rows in a bag, and zeros
    elsewhere. The totals of the bags are not kept; use `LPLLP` to keep them.

    Parameters
    ----------
    graph : {"auto", "knn", "anchor", "rbf", "precomputed"} or Graph, default="auto"
        The graph of similar rows. `"auto"` takes nearest neighbors, or anchors if there are more
        rows than can be searched or held in memory; see `choose_graph`.
    alpha : float, default=0.5
        How much of a row's soft label comes from its neighbors, in (0, 1).
    order : int, optional
        Stop the random walk after this many steps; 1 is the weighted k-NN of the paper.
    decode : {"threshold", "quota"}, default="threshold"
        Give every row its most likely class, or every bag exactly its counts.

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
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> y = np.array(["low", None, None, None, None, "high"], dtype=object)
    >>> LabelPropagation(graph="rbf").fit(X, y).transduction_.tolist()
    ['low', 'low', 'low', 'high', 'high', 'high']
    """

    _allowed: ClassVar = {
        **BagClassifier._allowed,
        "alpha": real(low=0, high=1, ends="()"),
        "order": integer(1, None),
    }

    def __init__(
        self,
        graph: str | Graph = "auto",
        alpha: float = 0.5,
        *,
        order: int | None = None,
        decode: str = "threshold",
    ) -> None:
        self.graph = graph
        self.alpha = alpha
        self.order = order
        self.decode = decode

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, *, bags: Any = None, proportions: Any = None) -> Self:
        """Propagate labels, and bag proportions where there are any.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows; with a precomputed graph, the similarities of all pairs of rows.
        y : array-like of shape (n_samples,), optional
            Labels of some rows; None or NaN where unknown.
        bags : array-like of shape (n_samples,), optional
            Bag ids of any hashable type; missing for rows in no bag.
        proportions : Totals, dataframe, mapping or array, optional
            The totals of the bags; see `Totals`.

        Returns
        -------
        LabelPropagation
            The fitted estimator.
        """
        self._check_parameters()
        asked = self._asked_graph()
        matched = self._matched(X, y, bags, proportions)
        X, graph = self._rows_and_graph(X, asked)
        self.graph_ = graph = graph.fit(X)
        warn_of_graph(graph)

        Y = matched.prior()
        Y[(matched.given < 0) & (matched.codes < 0)] = 0.0
        F = np.maximum(propagator(graph, self.alpha, order=self.order)(Y), 0.0)
        mass = F.sum(axis=1, keepdims=True)
        unreached = np.flatnonzero(mass[:, 0] <= 1e-9)
        if unreached.size:
            message = Advice(
                f"{unreached.size} of {len(F)} rows are out of reach of any label (rows "
                f"{name_some(unreached)}): they get the overall class shares.",
                "Label a row among them, raise {alpha}, or use a graph with more neighbors "
                "({n_neighbors}).",
            )
            warnings.warn(message, IsolatedRowsWarning, stacklevel=users_level())
            F[unreached], mass[unreached] = matched.overall, 1.0
        self._store_diagnosis(matched)
        F /= mass
        self._keep(matched, graph, F, self._quota(X, F, matched))
        return self
