"""Algorithm 2 of the paper: label propagation under label proportions."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state

from apportion._core.decode import Decoding, Quotas
from apportion._core.descent import Settings, Solution
from apportion._core.evidence import Refinement, refine_from_random_starts
from apportion._core.refine import refine
from apportion._core.solve import solve
from apportion._core.uniqueness import unsupervised_rows
from apportion._core.warn import warn_of_graph, warn_of_solution, warn_of_unsupervised_rows
from apportion._utils.hashing import hash_ranks
from apportion._utils.parameters import BOOL, integer, one_of, real
from apportion._utils.progress import PROPAGATING, report_progress, several_runs
from apportion._utils.typing import FloatArray, IntArray
from apportion.estimators._base import BagClassifier, all_or_nothing
from apportion.estimators._graph import GraphClassifier
from apportion.graphs import Graph
from apportion.supervision.bags import Bags

_log = logging.getLogger("apportion")

_PRIOR_WEIGHT = 0.1
"""μ where soft labels are to stay near a prior."""

_ROUGH_TOL = 1e-6
"""Soft labels of this stationarity are enough to compare the graphs of a grid."""

_HELD_OUT_TOL, _HELD_OUT_ITERATIONS = 1e-4, 200
"""Where to stop if bags are held out: enough to see what their totals would be."""

_EQUALLY_SMOOTH = 1e-9
"""Smoothness that differs by no more than this is equal."""


class LPLLP(GraphClassifier):
    """Label propagation for learning with label proportions (LP-LLP).

    It finds the soft labels F that are smoothest on a graph of similar rows,
    `argmin_F ½⟨F, (I - P)F⟩`, among those whose sums over every bag are the bag's class totals.
    P is one step of label propagation. Then it gives every row one label.

    Parameters
    ----------
    graph : {"auto", "knn", "anchor", "rbf", "precomputed"} or Graph, default="auto"
        The graph of similar rows. `"auto"` takes nearest neighbors, or anchors if there are more
        rows than can be searched or held in memory; see `choose_graph`. `"rbf"` is the paper's
        dense graph, with γ chosen for the smoothest labels. With `"precomputed"`, X is the matrix
        of similarities.
    alpha : float, default=0.5
        How far labels travel, in (0, 1): the probability that the random walk continues. On a
        sparse graph of more than 4,096 rows it is at most about 0.99999, because the number of
        steps grows as 1 / √(1-α).
    decode : {"quota", "threshold"}, default="quota"
        `"quota"` gives every bag exactly its counts; `"threshold"` gives every row its most likely
        class. Prefer quota when totals are exact, threshold when they are rough or when the
        classes overlap so much that counts force wrong labels.
    refine : bool, default=True
        After quota decoding, exchange labels within bags as long as this makes neighbors agree
        more. This sharpens the borders between classes, which soft labels blur, and changes little
        if the classes overlap. No true label is used. With two classes, exact totals of all rows,
        no prior and at most 5,000 rows, labels are also searched from random starts. They are
        taken, with the soft labels near them, if neighbors agree clearly more in them and if the
        totals support them: such labels, found without some bags, foretell the totals of these
        bags, or, with up to five bags, are smoother than under totals drawn at random; see
        `refinement_`. The literal solver does not refine.
    solver : {"accelerated", "plain", "literal"}, default="accelerated"
        `"plain"` is the paper's iteration, which reaches the same soft labels in more steps.
        `"literal"` is Algorithm 2 as printed, for comparison: without the factor (1-α) and with
        alternating Euclidean projections.
    order : int, optional
        Stop the walk of one propagation after this many steps.
    metric : {"degree", "euclidean"}, default="degree"
        The norm of the projection and the energy.
    projection : {"nearest", "alternating"}, default="nearest"
        The nearest soft labels that keep the totals, or the paper's alternating projections,
        which need the plain solver.
    prior : None, array of shape (n_samples, n_classes) or estimator, default=None
        Prior knowledge of the rows: soft labels, or an estimator with
        `fit(X, y, bags=, proportions=)` and `predict_proba`. It is reconciled with the bags. By
        default it is the proportions of every row's bag.
    prior_weight : float, optional
        The weight μ of the prior; by default 0 without a prior and 0.1 with one. With 0, the prior
        is only the start, and the solution does not depend on it.
    n_probes : int, default=8
        The largest number of random starts to compare if the totals may admit several solutions.
        If the solution is known to be unique, no start is tried. All starts together take at most
        (1 + n_probes / 4) times the iterations of the first run, or 2·10⁷ / (n_samples · n_classes)
        if that is more. A warning is given if this limit stops them.
    stop : {"converged", "settled"}, default="converged"
        Stop when the soft labels have converged to `tol`, or as soon as the labels have settled:
        at two checks in a row, five iterations apart, at most one quota label in 10,000 changed.
        `"settled"` is faster, but the soft labels are less exact. If the totals may admit several
        solutions, runs are compared, and they always converge.
    tol : float, default=1e-8
        A run has converged when the stationarity ‖F - Π(PF)‖ / ‖F‖, relative to the Lipschitz
        constant of the energy's gradient, is below this.
    max_iter : int, default=2000
        The largest number of outer iterations.
    random_state : int, RandomState or None, default=None
        The seed of the random starts.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        Soft labels; rows sum to 1, bags to their totals.
    transduction_ : ndarray of shape (n_samples,)
        A label for every fitted row.
    tied_ : ndarray of bool, of shape (n_samples,)
        The rows whose label was decided by a tie-break.
    bag_report_ : BagReport
        Given and assigned totals per bag and class, for both decodings.
    diagnosis_ : Diagnosis
        Which classes the totals can tell apart.
    solution_ : Solution
        Status, energies, residuals, and whether the solution is unique.
    refinement_ : Refinement
        Whether labels were taken from random starts (`taken`), why (`why`), the `smoothness` that
        was compared, and the `log_likelihoods` of the totals of held-out bags.
    graph_ : Graph
        The fitted graph.
    graph_choice_ : str
        The graph that was chosen, and why.
    n_iter_ : int
        The number of outer iterations.

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

    _allowed: ClassVar = {
        **BagClassifier._allowed,
        "alpha": real(low=0, high=1, ends="()"),
        "refine": BOOL,
        "solver": one_of("accelerated", "plain", "literal"),
        "metric": one_of("degree", "euclidean"),
        "projection": one_of("nearest", "alternating"),
        "order": integer(1, None),
        "prior_weight": real(None, low=0),
        "n_probes": integer(0),
        "stop": one_of("converged", "settled"),
        "tol": real(low=0),
        "max_iter": integer(1),
    }

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
            The rows; with a precomputed graph, the similarities of all pairs of rows.
        y : array-like of shape (n_samples,), optional
            Labels of some rows, which are kept; None or NaN where unknown.
        bags : array-like of shape (n_samples,), optional
            Bag ids of any hashable type; missing for rows in no bag.
        proportions : Totals, dataframe, mapping or array, optional
            The totals of the bags; see `Totals`.

        Returns
        -------
        LPLLP
            The fitted estimator.
        """
        self._check_parameters()
        asked = self._asked_graph()
        matched = self._matched(X, y, bags, proportions)
        X, graph = self._rows_and_graph(X, asked)
        self._store_diagnosis(matched)
        seed = check_random_state(self.random_state).randint(2**31)
        prior = matched.prior()
        if self.prior is not None:
            report_progress("fitting the prior")
            with several_runs("fitting the prior"):
                prior = self._reconciled_prior("prior", X, y, bags, proportions, matched, seed)

        ranks = hash_ranks(X if graph.sees_features else None, matched.n_samples)
        decode = Quotas(matched, ranks)
        settings = self._settings()

        def run(graph: Graph, settings: Settings, **options: Any) -> Solution:
            rng = np.random.default_rng(seed)
            options = {"prior": prior, "ranks": ranks, "rng": rng, **options}
            return solve(graph, matched, settings, **options)

        graph, solution, labels = _smoothest_graph(graph, X, decode, settings, prior, run)
        warn_of_graph(graph)
        warn_of_unsupervised_rows(graph, matched)
        warn_of_solution(solution, settings.tol)
        if self.refine and self.solver != "literal":
            labels = refine(graph, decode, solution.F, labels)
        smoother, self.refinement_ = self._from_random_starts(
            graph, decode, solution.F, labels.labels, ranks
        )
        _log.info("refinement: %s", self.refinement_.why)
        if smoother is not None:
            # The soft labels must go with the labels: the smoothest that stay near them.
            labels = Decoding(smoother.labels, smoother.tied | labels.tied)
            near = replace(settings, prior_weight=_PRIOR_WEIGHT)
            with several_runs("propagating again, near the refined labels"):
                solution = run(graph, near, prior=np.eye(matched.n_classes)[labels.labels])
        self.solution_ = solution
        self.n_iter_ = solution.n_iter
        self._keep(matched, graph, solution.F, labels)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.solver == "literal" and (self.prior is not None or self.prior_weight):
            raise ValueError(
                "The literal solver is the paper's Algorithm 2 as printed and takes no prior: "
                "leave out prior and prior_weight, or use solver='plain'."
            )

    def _from_random_starts(
        self, graph: Graph, decode: Quotas, F: FloatArray, labels: IntArray, ranks: IntArray
    ) -> tuple[Decoding | None, Refinement]:
        """Return labels from random starts if they are to be taken, and why they are or are not."""
        if not self.refine or self.solver == "literal":
            reason = "refine=False" if not self.refine else "the literal solver does not refine"
            return None, Refinement(False, reason)
        if self.prior is not None:
            reason = "there is a prior, near which the labels stay"
            return None, Refinement(False, reason)
        rough = replace(
            self._settings(),
            n_probes=0,
            stop="converged",
            tol=max(self.tol, _HELD_OUT_TOL),
            max_iter=min(self.max_iter, _HELD_OUT_ITERATIONS),
        )

        def solve_roughly(bags: Bags) -> FloatArray:
            return solve(graph, bags, rough, ranks=ranks).F

        return refine_from_random_starts(graph, decode, F, labels, ranks, solve_roughly)

    def _settings(self) -> Settings:
        settings = Settings(**{field.name: getattr(self, field.name) for field in fields(Settings)})
        if self.prior_weight is not None:
            return settings
        return replace(settings, prior_weight=0.0 if self.prior is None else _PRIOR_WEIGHT)


def _smoothest_graph(
    graph: Graph,
    X: Any,
    decode: Quotas,
    settings: Settings,
    prior: FloatArray,
    run: Callable[..., Solution],
) -> tuple[Graph, Solution, Decoding]:
    """Return the graph of a grid whose quota labels are smoothest on it, its solution and labels.

    This is the paper's choice of γ by the highest f̄ᵀSf̄, which does not look at any label. Among
    equally smooth graphs the first is taken. The search ends early at a smoothness of 1, the
    largest possible. The graphs of a grid are compared after rough solutions.
    """
    bags = decode.bags
    tol = max(settings.tol, _ROUGH_TOL) if graph.n_candidates > 1 else settings.tol
    rough = replace(settings, tol=tol)
    again = rough.tol > settings.tol
    best: tuple[float, Graph, Solution, Decoding] | None = None
    n_runs = graph.n_candidates + again
    with several_runs(PROPAGATING, "graph", n_runs, at_most=True) as next_run:
        for candidate in graph.candidates(X):
            next_run()
            solution = run(candidate, rough)
            report_progress("decoding")
            labels = decode(solution.F)
            smoothness = candidate.label_smoothness(labels.labels, bags.n_classes)
            if best is None or smoothness > best[0] + _EQUALLY_SMOOTH:
                best = (smoothness, candidate, solution, labels)
            if smoothness > 1.0 - _EQUALLY_SMOOTH:
                break
        assert best is not None, "a graph has at least one candidate"
        _, chosen, solution, labels = best
        if again:
            next_run()
            solution = _continued(solution, chosen, bags, settings, prior, run)
            report_progress("decoding")
            labels = decode(solution.F)
    return chosen, solution, labels


def _continued(
    rough: Solution,
    graph: Graph,
    bags: Bags,
    settings: Settings,
    prior: FloatArray,
    run: Callable[..., Solution],
) -> Solution:
    """Return the exact solution, started at a rough one if the result does not depend on the start.

    Rows that no total and no label reaches keep their start, which must be the prior.
    """
    if settings.solver != "accelerated" or settings.projection != "nearest":
        return run(graph, settings)
    start = np.where(unsupervised_rows(graph, bags)[:, None], prior, rough.F)
    exact = run(graph, settings, start=start)
    return replace(
        exact,
        n_iter=rough.n_iter + exact.n_iter,
        energies=np.concatenate([rough.energies, exact.energies[1:]]),
    )
