"""Algorithm 2 of the paper: label propagation under label proportions."""

from __future__ import annotations

import logging
import warnings
from dataclasses import fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from apportion._core.decode import Decoding, Quotas
from apportion._core.descent import Settings, Solution
from apportion._core.evidence import Refinement, refine_from_random_starts
from apportion._core.persistence import flicker_of
from apportion._core.projection import reconcile
from apportion._core.refine import refine
from apportion._core.sequence_decode import decode_along_time
from apportion._core.solve import solve
from apportion._core.warn import (
    warn_of_episodes,
    warn_of_graph,
    warn_of_solution,
    warn_of_unsupervised_rows,
)
from apportion._utils.device import DEVICES, out_of_memory_explained, torch_device
from apportion._utils.hashing import hash_ranks
from apportion._utils.parameters import BOOL, integer, one_of, real
from apportion._utils.progress import report_progress, several_runs
from apportion._utils.sequences import Sequences
from apportion._utils.typing import FloatArray, IntArray
from apportion.estimators._base import ALONG_TIME, BagClassifier, all_or_nothing, seed_of
from apportion.estimators._graph import GraphClassifier
from apportion.estimators._graph_choice import GraphChoice, rough_settings
from apportion.estimators._prepared import Prepared
from apportion.exceptions import Advice, DeviceWarning, users_level
from apportion.graphs import Graph
from apportion.supervision.bags import Bags
from apportion.supervision.rows_in_time import rows_in_time

_log = logging.getLogger("apportion")

_PRIOR_WEIGHT = 0.1
"""μ where soft labels are to stay near a prior."""

_HELD_OUT_TOL, _FEW_ITERATIONS = 1e-4, 200
"""Where to stop if bags are held out: enough to see what their totals would be."""


_ROUGHLY: dict[str, Any] = {"n_probes": 0, "tol": 1e-4, "max_iter": 100}
"""Of soft labels that only have to be about right."""


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
        sparse graph of more than 4,096 rows, and on a GPU, it is at most about 0.99999, because the
        number of steps grows as 1 / √(1-α).
    decode : {"quota", "threshold", "sequence"}, default="quota"
        `"quota"` gives every bag exactly its counts; `"threshold"` gives every row its most likely
        class; `"sequence"`, which needs times, keeps the counts and pays for every change of label
        within a recording, the more the longer activities last. Prefer quota when totals
        are exact, threshold when they are rough or when the classes overlap so much that counts
        force wrong labels.
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
    time_weight : "auto" or float, default="auto"
        How strongly rows that follow each other in time are tied, if `fit` is given times: the row
        before counts as much as that many of ten neighbors. `"auto"` follows from labels that are
        found without such ties: how often two of them agree that are one step apart, and two steps,
        tells how often the activity changes and how many labels flicker. The more they flicker, the
        stronger the ties; up to 50,000 rows a third and a tenth of this weight are tried, too, and
        the labels are taken that agree most. There are no ties if hardly any label flickers, and
        with `decode="sequence"`, which knows time by itself.
    n_probes : int, default=8
        The largest number of other solutions to compare if the totals may admit several. If the
        solution is known to be unique, none is. Most are known without another descent; where the
        problem is too large for that, random starts are tried, which together take at most
        (1 + n_probes / 4) times the iterations of the first run, or 2·10⁷ / (n_samples · n_classes)
        if that is more. A warning is given if this limit stops them.
    stop : {"converged", "settled"}, default="converged"
        Stop when the soft labels have converged to `tol`, or as soon as the labels have settled:
        at two checks in a row, five iterations apart, at most one quota label in 10,000 changed.
        `"settled"` is faster with the plain solver and with a prior, but the soft labels are less
        exact; other runs mostly converge before. If the totals may admit several
        solutions, runs are compared, and they always converge.
    tol : float, default=1e-8
        A run has converged when the stationarity ‖F - Π(PF)‖ / ‖F‖, relative to the Lipschitz
        constant of the energy's gradient, is below this.
    max_iter : int, default=2000
        The largest number of outer iterations.
    random_state : int, RandomState or None, default=None
        The seed of the random starts.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to work: `"cuda"` is a GPU, through torch (install `apportion[gpu]`), `"auto"` a GPU
        if there is one and it has the memory. Neighbors are then exact, and graph, propagation,
        projection, decoding and refinement are on the GPU. Labels are those of the processor with
        exact neighbors, except where rounding decides. It takes the place of the graph's own
        `device`, unless it is `"cpu"`.

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
    time_weight_ : float
        The weight of ties in time that was used; 0 without times.
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
        "decode": ALONG_TIME,
        "alpha": real(low=0, high=1, ends="()"),
        "refine": BOOL,
        "solver": one_of("accelerated", "plain", "literal"),
        "metric": one_of("degree", "euclidean"),
        "projection": one_of("nearest", "alternating"),
        "order": integer(1, None),
        "prior_weight": real(None, low=0),
        "time_weight": real("auto", low=0),
        "n_probes": integer(0),
        "stop": one_of("converged", "settled"),
        "tol": real(low=0),
        "max_iter": integer(1),
        "device": DEVICES,
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
        time_weight: float | str = "auto",
        n_probes: int = 8,
        stop: str = "converged",
        tol: float = 1e-8,
        max_iter: int = 2000,
        random_state: Any = None,
        device: str = "cpu",
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
        self.time_weight = time_weight
        self.n_probes = n_probes
        self.stop = stop
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.device = device

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        bags: Any = None,
        proportions: Any = None,
        times: Any = None,
        sequences: Any = None,
    ) -> Self:
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
        times : array-like of shape (n_samples,), optional
            When each row was: numbers, date-times or ISO text. Rows that follow each other are then
            tied, as `time_weight` says; the tie weakens with the gap between them.
        sequences : array-like of shape (n_samples,), optional
            The recording of each row, of any hashable type; used with `times`. Rows of different
            recordings are not tied. By default, all rows are of one.

        Returns
        -------
        LPLLP
            The fitted estimator.
        """
        self._check_parameters()
        asked = self._asked_graph()
        matched = self._matched(X, y, bags, proportions)
        X, graph = self._rows_and_graph(X, asked)
        if self.device != "cpu":
            graph.device = self.device
        ranks = hash_ranks(X if graph.sees_features else None, matched.n_samples)
        in_time = rows_in_time(times, sequences, ranks)
        self._require_times(in_time)
        self._store_diagnosis(matched)
        seed = seed_of(self)
        prior = matched.prior()
        if self.prior is not None:
            report_progress("fitting the prior")
            with several_runs("fitting the prior"):
                prior = self._reconciled_prior("prior", X, y, bags, proportions, matched, seed)

        def label(graph: Graph) -> None:
            device = torch_device(graph.device, quiet=True)
            with out_of_memory_explained(
                matched.n_samples,
                lambda n_rows: graph.device_bytes(n_rows, X.shape[1], matched.n_classes),
                device,
                graph.instead_of_device,
            ):
                self._label(graph, X, matched, prior, ranks, in_time, seed, device)

        try:
            label(graph)
            return self
        except MemoryError as error:
            advice = error.args[0] if error.args else None
            if self.device != "auto" or not isinstance(advice, Advice):
                raise
            facts = f"{advice.facts} The processor is used instead."
        warnings.warn(DeviceWarning(facts), stacklevel=users_level())
        graph = self._chosen_graph(X, "cpu") if asked is None else clone(asked)
        graph.device = "cpu"
        label(graph)
        return self

    def prepare(self, X: Any) -> Prepared:
        """Return rows for `solve`: their graph is then made once.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            The rows, as numbers.

        Returns
        -------
        Prepared
            The rows.
        """
        return Prepared(X)

    def solve(
        self, prepared: Prepared, bags: Bags, start: FloatArray | None = None, seed: int = 0
    ) -> FloatArray:
        """Return soft labels of prepared rows, which `predict_proba` averages afterwards.

        This is `fit` without labels, reports, random starts and exact convergence.

        Parameters
        ----------
        prepared : Prepared
            The rows.
        bags : Bags
            What is known of them.
        start : ndarray of shape (n_samples, n_classes), optional
            The prior; by default the shares of the bags.
        seed : int
            Not used.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The soft labels.
        """
        X = prepared.X
        self.graph_choice_, graph, ranks = self._graph_of(prepared)
        prior = bags.prior() if start is None else reconcile(start, bags)
        F = solve(graph, bags, replace(self._settings(), **_ROUGHLY), prior=prior, ranks=ranks).F
        self.n_features_in_ = X.shape[1]
        self.label_distributions_ = F
        self._restore(bags.classes, graph, graph.prototype_labels(F), bags.overall)
        return F

    def _graph_of(self, prepared: Prepared) -> tuple[str, Graph, IntArray]:
        """Return the graph of prepared rows, why it is this one, and an order of the rows."""
        key = "graph", repr(self.graph), self.device
        return prepared.once(key, lambda: self._prepared_graph(prepared.X))

    def _prepared_graph(self, X: Any) -> tuple[str, Graph, IntArray]:
        asked = self._asked_graph()
        graph = self._chosen_graph(X, self.device) if asked is None else asked
        choice = self.graph_choice_ if asked is None else f"{type(asked).__name__}: as asked for"
        return choice, graph.fit(X), hash_ranks(X, len(X))

    def _label(
        self,
        graph: Graph,
        X: Any,
        matched: Bags,
        prior: FloatArray,
        ranks: IntArray,
        in_time: Sequences | None,
        seed: int,
        device: Any,
    ) -> None:
        """Fit the graph, find labels, and store them."""
        decode = Quotas(matched, ranks, device)
        settings = self._settings()

        def run(graph: Graph, settings: Settings, **options: Any) -> Solution:
            rng = np.random.default_rng(seed)
            options = {"prior": prior, "ranks": ranks, "rng": rng, **options}
            return solve(graph, matched, settings, **options)

        choice = GraphChoice(run, decode, settings, prior)
        if in_time is None:
            graph, solution, labels = choice.of_grid(graph, X)
        else:
            # Ties and the cost of changes would count the same evidence twice.
            twice = self.time_weight == "auto" and self.decode == "sequence"
            weight = 0.0 if twice else self.time_weight
            graph, solution, labels = choice.in_time(graph, X, in_time, weight)
        self.time_weight_ = graph.time_weight
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
        along_time = None
        if self.decode == "sequence" and in_time is not None:
            report_progress("decoding along time")
            cost = flicker_of(labels.labels, in_time).cost
            most = matched.most_episodes
            along_time = decode_along_time(solution.F, matched, ranks, in_time, cost, most)
            warn_of_episodes(along_time.labels, matched, in_time)
        self._keep(matched, graph, solution.F, labels, along_time=along_time)

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
        rough = rough_settings(self._settings(), _HELD_OUT_TOL, _FEW_ITERATIONS)

        def solve_roughly(bags: Bags) -> FloatArray:
            return solve(graph, bags, rough, ranks=ranks).F

        return refine_from_random_starts(graph, decode, F, labels, ranks, solve_roughly)

    def _settings(self) -> Settings:
        settings = Settings(**{field.name: getattr(self, field.name) for field in fields(Settings)})
        if self.prior_weight is not None:
            return settings
        return replace(settings, prior_weight=0.0 if self.prior is None else _PRIOR_WEIGHT)
