"""Algorithm 2 of the paper: label propagation under label proportions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from apportion._core.decode import Decoding, Quotas
from apportion._core.descent import Settings, Solution
from apportion._core.refine import clearly_smoother, refine
from apportion._core.solve import solve
from apportion._core.uniqueness import unsupervised_rows
from apportion._utils.hashing import hash_ranks
from apportion._utils.progress import PROPAGATING, report_progress, several_runs
from apportion._utils.typing import FloatArray, IntArray
from apportion.estimators._base import all_or_nothing
from apportion.estimators._graph import (
    GraphClassifier,
    warn_of_graph,
    warn_of_solution,
    warn_of_unsupervised_rows,
)
from apportion.graphs import Graph
from apportion.supervision.bags import Bags

_WEIGHT_OF_LABELS = 0.1
_ROUGH_TOL = 1e-6
"""Soft labels of this stationarity are enough to compare the graphs of a grid."""


class LPLLP(GraphClassifier):
    """Label propagation for learning with label proportions (LP-LLP).

    Finds the soft labels F that are smoothest on a graph of similar rows,
    `argmin_F ½⟨F, (I - P)F⟩`, among those whose sums over every bag are the bag's class totals,
    where P is one step of label propagation; then gives every row one label.

    Parameters
    ----------
    graph : {"auto", "knn", "anchor", "rbf", "precomputed"} or Graph, default="auto"
        The graph of similar rows. `"auto"` is nearest neighbors, and anchors for more rows than
        can be searched or held; see `choose_graph`. `"rbf"` is the paper's dense graph
        with γ chosen for the smoothest labels. With `"precomputed"`, X is the matrix of
        similarities.
    alpha : float, default=0.5
        How far labels travel: the walk goes on with probability α, in (0, 1). On a sparse graph of
        more than 4,096 rows it is at most about 0.99999, because steps grow as 1 / √(1-α).
    decode : {"quota", "threshold"}, default="quota"
        `"quota"` gives every bag exactly its counts; `"threshold"` gives every row its most likely
        class. Prefer quota when totals are exact, threshold when they are rough or when the
        classes overlap so much that counts force wrong labels.
    refine : bool, default=True
        With quota decoding, go on exchanging labels within bags while that makes neighbors agree
        more. It sharpens the borders between classes that soft labels blur, looks at no label, and
        changes little where classes overlap. With two classes, exact totals of all rows, no prior
        and at most 1,000 rows, labels are looked for from random starts too; where neighbors agree
        clearly more in these, they are taken, and the soft labels are those near them. Not done by
        the literal solver.
    solver : {"accelerated", "plain", "literal"}, default="accelerated"
        `"plain"` is the paper's iteration, which ends in the same soft labels after more steps.
        `"literal"` is Algorithm 2 as printed, without the factor (1-α), with alternating Euclidean
        projections, kept for comparison.
    order : int, optional
        Stop the walk of one propagation after this many steps.
    metric : {"degree", "euclidean"}, default="degree"
        The norm of the projection and the energy.
    projection : {"nearest", "alternating"}, default="nearest"
        The nearest soft labels that keep the totals, or the paper's alternating projections,
        which go with the plain loop.
    prior : None, array of shape (n_samples, n_classes) or estimator, default=None
        What is known of the rows beforehand: soft labels, or an estimator with
        `fit(X, y, bags=, proportions=)` and `predict_proba`; reconciled with the bags. By default
        every row's bag proportions.
    prior_weight : float, optional
        μ, how much the answer keeps to the prior; by default 0 without a prior and 0.1 with one.
        With 0 the prior is only the start, and the answer does not depend on it.
    n_probes : int, default=8
        The most random starts to compare when the totals may admit several answers. Where they
        cannot, which is found out first, there is none. All of them together take at most
        (1 + n_probes / 4) times the iterations of the first run, or 2·10⁷ / (n_samples · n_classes)
        if that is more; if that stops them, a warning says so.
    stop : {"converged", "settled"}, default="converged"
        Go on until the soft labels have converged to `tol`, or only until the labels have settled:
        at two looks in a row, five iterations apart, no more than one quota label in 10,000 had
        changed. Faster, and the soft labels are less exact. Where the totals may admit several
        answers, runs are compared, and go on until they have converged.
    tol : float, default=1e-8
        The stationarity ‖F - Π(PF)‖ / ‖F‖, relative to the lipschitz slope of the energy, below
        which a run has converged.
    max_iter : int, default=2000
        The most outer iterations.
    random_state : int, RandomState or None, default=None
        Draws the starts of probes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        Soft labels; rows sum to 1, bags to their totals.
    transduction_ : ndarray of shape (n_samples,)
        A label for every fitted row.
    tied_ : ndarray of bool, of shape (n_samples,)
        The rows whose label only a tie-break decided.
    bag_report_ : BagReport
        Given against assigned per bag and class, for both decodings.
    diagnosis_ : Diagnosis
        What the totals can tell apart.
    solution_ : Solution
        Status, energies, residuals, and whether the answer is unique.
    graph_ : Graph
        The fitted graph.
    graph_choice_ : str
        Which graph it is, and why.
    n_iter_ : int
        Outer iterations.

    References
    ----------
    R. Poyiadzi, R. Santos-Rodriguez, N. Twomey, "Label Propagation for Learning with Label
    Proportions", IEEE MLSP 2018.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [5.0], [0.2], [5.1], [5.2]])
    >>> day = ["mon", "mon", "mon", "tue", "tue", "tue"]
    >>> hours = {"mon": {"sleep": 2 / 3, "tv": 1 / 3}, "tue": {"sleep": 1 / 3, "tv": 2 / 3}}
    >>> LPLLP(graph="rbf").fit(X, bags=day, proportions=hours).transduction_.tolist()
    ['sleep', 'sleep', 'tv', 'sleep', 'tv', 'tv']
    """

    def __init__(
        self,
        graph: str | Graph = "auto",
        alpha: float = 0.5,
        *,
        decode: str = "quota",
        refine: bool = True,
        solver: str = "accelerated",
        order: int | None = None,
        metric: str = "degree",
        projection: str = "nearest",
        prior: Any = None,
        prior_weight: float | None = None,
        n_probes: int = 8,
        stop: str = "converged",
        tol: float = 1e-8,
        max_iter: int = 2000,
        random_state: Any = None,
    ) -> None:
        self.graph = graph
        self.alpha = alpha
        self.decode = decode
        self.refine = refine
        self.solver = solver
        self.order = order
        self.metric = metric
        self.projection = projection
        self.prior = prior
        self.prior_weight = prior_weight
        self.n_probes = n_probes
        self.stop = stop
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, *, bags: Any = None, proportions: Any = None) -> Self:
        """Label the rows.

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
        LPLLP
            The fitted estimator.
        """
        settings = self._settings()
        asked = self._asked_graph()
        matched = self._matched(X, y, bags, proportions)
        X, graph = self._rows_and_graph(X, asked)
        self._warn_of_design(matched)
        seed = check_random_state(self.random_state).randint(2**31)
        prior = matched.prior()
        if self.prior is not None:
            report_progress("fitting the prior")
            with several_runs("fitting the prior"):
                prior = self._reconciled_prior("prior", X, y, bags, proportions, matched, seed)

        ranks = hash_ranks(X if graph.sees_features else None, matched.n_samples)
        decode = Quotas(matched, ranks)
        graph, solution, labels = _smoothest(graph, X, decode, settings, prior, ranks, seed)
        warn_of_graph(graph)
        warn_of_unsupervised_rows(graph, matched)
        warn_of_solution(solution, settings.tol)
        if self.refine and self.solver != "literal":
            labels = refine(graph, decode, solution.F, labels)
            other = None
            if self.prior is None:
                other = clearly_smoother(graph, decode, solution.F, labels.labels, ranks)
            if other is not None:
                labels = Decoding(other.labels, other.tied | labels.tied)
                solution = _near(labels, graph, matched, settings, ranks, seed)
        self.solution_ = solution
        self.n_iter_ = solution.n_iter
        self._keep(matched, graph, solution.F, labels)
        return self

    def _settings(self) -> Settings:
        self._require_number("alpha", 0.0, 1.0, open_=True)
        self._require_choice("decode", ("quota", "threshold"))
        if not isinstance(self.refine, bool | np.bool_):
            raise ValueError(
                f"The 'refine' parameter of LPLLP must be a bool. Got {self.refine!r} instead."
            )
        self._require_choice("solver", ("accelerated", "plain", "literal"))
        self._require_choice("metric", ("degree", "euclidean"))
        self._require_choice("projection", ("nearest", "alternating"))
        if self.order is not None:
            self._require_number("order", 1, whole=True)
        if self.prior_weight is not None:
            self._require_number("prior_weight", 0.0)
        self._require_number("n_probes", 0, whole=True)
        self._require_choice("stop", ("converged", "settled"))
        self._require_number("tol", 0.0)
        self._require_number("max_iter", 1, whole=True)
        if self.solver == "literal" and (self.prior is not None or self.prior_weight):
            raise ValueError(
                "The literal solver is the paper's Algorithm 2 as printed and takes no prior: "
                "leave out prior and prior_weight, or use solver='plain'."
            )
        default_weight = 0.0 if self.prior is None else 0.1
        return Settings(
            alpha=self.alpha,
            solver=self.solver,  # type: ignore[arg-type]
            order=self.order,
            metric=self.metric,  # type: ignore[arg-type]
            projection=self.projection,  # type: ignore[arg-type]
            prior_weight=default_weight if self.prior_weight is None else self.prior_weight,
            n_probes=self.n_probes,
            stop=self.stop,  # type: ignore[arg-type]
            tol=self.tol,
            max_iter=self.max_iter,
        )


def _near(
    labels: Decoding, graph: Graph, bags: Bags, settings: Settings, ranks: IntArray, seed: int
) -> Solution:
    """Return the smoothest soft labels that keep the totals and stay near these labels."""
    prior = np.eye(bags.n_classes)[labels.labels]
    held = replace(settings, prior_weight=_WEIGHT_OF_LABELS)
    rng = np.random.default_rng(seed)
    with several_runs("propagating again, near the refined labels"):
        return solve(graph, bags, held, prior=prior, ranks=ranks, rng=rng)


def _smoothest(
    graph: Graph,
    X: Any,
    decode: Quotas,
    settings: Settings,
    prior: FloatArray,
    ranks: IntArray,
    seed: int,
) -> tuple[Graph, Solution, Decoding]:
    """Return the graph, among the candidates of a grid, whose quota labels are smoothest on it.

    With it come its solution and these labels.

    This is the paper's choice of γ by the highest f̄ᵀSf̄. It looks at no label. Among equally
    smooth ones the first is taken, and nothing is smoother than 1. The candidates of a grid are
    compared after rough solutions.
    """
    bags = decode.bags
    rough = replace(settings, tol=max(settings.tol, _ROUGH_TOL)) if graph.has_grid else settings
    again = rough.tol > settings.tol
    best: tuple[float, Graph, Solution, Decoding] | None = None
    n_runs = graph.n_candidates + again
    with several_runs(PROPAGATING, "graph", n_runs, at_most=True) as next_run:
        for candidate in graph.candidates(X):
            next_run()
            rng = np.random.default_rng(seed)
            solution = solve(candidate, bags, rough, prior=prior, ranks=ranks, rng=rng)
            report_progress("decoding")
            labels = decode(solution.F)
            smoothness = candidate.label_smoothness(labels.labels, bags.n_classes)
            if best is None or smoothness > best[0] + 1e-9:
                best = (smoothness, candidate, solution, labels)
            if smoothness > 1.0 - 1e-9:
                break
        assert best is not None, "a graph has at least one candidate"
        _, chosen, solution, labels = best
        if again:
            next_run()
            solution = _finished(solution, chosen, bags, settings, prior, ranks, seed)
            report_progress("decoding")
            labels = decode(solution.F)
    return chosen, solution, labels


def _finished(
    rough: Solution,
    graph: Graph,
    bags: Bags,
    settings: Settings,
    prior: FloatArray,
    ranks: IntArray,
    seed: int,
) -> Solution:
    """Return the exact solution after a rough one, begun there where the end does not depend on it.

    Rows that nothing reaches stay where they begin, which is the prior.
    """
    rng = np.random.default_rng(seed)
    if settings.solver != "accelerated" or settings.projection != "nearest":
        return solve(graph, bags, settings, prior=prior, ranks=ranks, rng=rng)
    start = np.where(unsupervised_rows(graph, bags)[:, None], prior, rough.F)
    exact = solve(graph, bags, settings, prior=prior, start=start, ranks=ranks, rng=rng)
    return replace(
        exact,
        n_iter=rough.n_iter + exact.n_iter,
        energies=np.concatenate([rough.energies, exact.energies[1:]]),
    )
