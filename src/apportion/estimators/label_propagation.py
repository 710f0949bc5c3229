"""Algorithm 1 of the paper: label propagation from labeled rows."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np

from apportion._core.decode import quota
from apportion._core.propagation import propagator
from apportion._core.warn import warn_of_graph
from apportion._utils.hashing import hash_ranks
from apportion.estimators._base import all_or_nothing
from apportion.estimators._graph import GraphClassifier
from apportion.exceptions import Advice, IsolatedRowsWarning, name_some, users_level
from apportion.graphs import Graph


class LabelPropagation(GraphClassifier):
    """Label propagation, `F* = (1-α)(I - αS)⁻¹ Y` (the paper's Algorithm 1).

    Y holds one-hot rows for labeled rows, the bag's proportions for rows in a bag, and zeros
    elsewhere. Bag totals are not kept: that is what `LPLLP` is for.

    Parameters
    ----------
    graph : {"auto", "knn", "anchor", "rbf", "precomputed"} or Graph, default="auto"
        The graph of similar rows. `"auto"` is nearest neighbors, and anchors for more rows than
        can be searched or held; see `choose_graph`.
    alpha : float, default=0.5
        How much of a label comes from the neighbors, in (0, 1).
    order : int, optional
        Stop the walk after this many steps; 1 is the weighted k-NN of the paper.
    decode : {"threshold", "quota"}, default="threshold"
        The most likely class of each row, or labels that keep the bags' counts.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        Soft labels; rows sum to 1.
    transduction_ : ndarray of shape (n_samples,)
        A label for every fitted row.
    bag_report_ : BagReport
        Given against assigned, for both decodings.
    graph_ : Graph
        The fitted graph.
    graph_choice_ : str
        Which graph it is, and why.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> y = np.array(["low", None, None, None, None, "high"], dtype=object)
    >>> LabelPropagation(graph="rbf").fit(X, y).transduction_.tolist()
    ['low', 'low', 'low', 'high', 'high', 'high']
    """

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
            Rows; similarities of all pairs with a precomputed graph.
        y : array-like of shape (n_samples,), optional
            Labels; None or NaN = not known.
        bags : array-like of shape (n_samples,), optional
            Bag ids; missing = in no bag.
        proportions : Totals, dataframe, mapping or array, optional
            The bags' totals.

        Returns
        -------
        LabelPropagation
            The fitted estimator.
        """
        self._require_number("alpha", 0.0, 1.0, open_=True)
        if self.order is not None:
            self._require_number("order", 1, whole=True)
        self._require_choice("decode", ("threshold", "quota"))
        asked = self._asked_graph()
        matched = self._matched(X, y, bags, proportions)
        X, graph = self._rows_and_graph(X, asked)
        graph = graph.fit(X)
        warn_of_graph(graph)

        silent = (matched.given < 0) & (matched.codes < 0)
        Y = matched.prior()
        Y[silent] = 0.0
        F = np.maximum(propagator(graph, self.alpha, order=self.order)(Y), 0.0)
        mass = F.sum(axis=1, keepdims=True)
        unreached = np.flatnonzero(mass[:, 0] <= 1e-9)
        if unreached.size:
            warnings.warn(
                Advice(
                    f"{unreached.size} of {len(F)} rows are out of reach of any label (rows "
                    f"{name_some(unreached)}): they get the overall class shares.",
                    "Label a row among them, raise {alpha}, or use a graph with more neighbors "
                    "({n_neighbors}).",
                ),
                IsolatedRowsWarning,
                stacklevel=users_level(),
            )
            F[unreached], mass[unreached] = matched.overall, 1.0
        self._warn_of_design(matched)
        F /= mass
        ranks = hash_ranks(X if graph.sees_features else None, matched.n_samples)
        self._keep(matched, graph, F, quota(F, matched, ranks))
        return self
