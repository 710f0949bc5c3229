"""LP-LLP: propagate, project, repeat — where the graph and the bags meet.

The accelerated solver is `descent.descend`; the plain one repeats the paper's two steps; the
literal one is the paper's Algorithm 2 as printed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from apportion._core.decode import Quotas
from apportion._core.descent import Settings, Settling, Solution, descend, never
from apportion._core.local import LocalEvaluator, descend_plainly
from apportion._core.projection import MassProjection, Method
from apportion._core.propagation import propagator
from apportion._core.uniqueness import may_be_ambiguous, probe
from apportion._utils.progress import PROPAGATING, report_progress, several_runs
from apportion._utils.typing import FloatArray, IntArray
from apportion.graphs import Graph
from apportion.supervision.bags import Bags


def solve(
    graph: Graph,
    bags: Bags,
    settings: Settings | None = None,
    *,
    prior: FloatArray | None = None,
    start: FloatArray | None = None,
    ranks: IntArray | None = None,
    rng: np.random.Generator | None = None,
) -> Solution:
    """Return the soft labels of LP-LLP on a graph, under the masses of the bags.

    Parameters
    ----------
    graph : Graph
        A fitted graph.
    bags : Bags
        The rows' bags and their masses.
    settings : Settings, optional
        What to solve and how.
    prior : ndarray of shape (n_samples, n_classes), optional
        F⁰, by default the bags' proportions.
    start : ndarray of shape (n_samples, n_classes), optional
        Where to start, by default at the prior. It does not change where a converged run ends,
        unless the totals admit several answers or the solver is no gradient descent.
    ranks : ndarray of shape (n_samples,), optional
        The order in which rows get random numbers and ties are broken.
    rng : Generator, optional
        Draws the starts of probes.
    """
    report_progress(PROPAGATING)
    settings = settings or Settings()
    prior = bags.prior() if prior is None else prior
    if graph.locality is not None:
        return _solve_arranged(graph, bags, settings, prior, start, ranks, rng)
    literal = settings.solver == "literal"
    P = propagator(
        graph.products(),
        settings.alpha,
        order=settings.order,
        metric="degree" if literal else settings.metric,
        floor=0.0 if literal else 1e-2,
        literal=literal,
        accuracy=min(1e-10, 1e-2 * settings.alpha * settings.tol),
    )
    method: Method = "alternating" if literal else settings.projection
    project = MassProjection(bags, P.weights, method)
    mu = 0.0 if literal else settings.prior_weight
    evaluator = LocalEvaluator(P, project, project.to_columns(prior), mu)
    # Momentum needs the nearest point: alternating projections are no gradient step.
    momentum = settings.solver == "accelerated" and method == "nearest"

    ranks = np.arange(bags.n_samples) if ranks is None else ranks
    compared = not (literal or settings.prior_weight > 0)
    settles = settings.stop == "settled"
    ambiguous = (compared or settles) and may_be_ambiguous(graph, bags)
    early = settles and not ambiguous
    decode = Quotas(bags, ranks, graph.device_) if early else None

    probed = compared and ambiguous
    n_probes = settings.n_probes if probed else 0
    with several_runs(PROPAGATING, "start", 1 + n_probes, at_most=True) as next_run:

        def run(point: FloatArray, max_iter: int) -> Solution:
            next_run()
            settled = never if decode is None else Settling(decode, evaluator.soft_labels)
            state = evaluator.start(project.to_columns(point))
            minimize = descend if momentum else descend_plainly
            status = minimize(evaluator, state, settings.tol, max_iter, settled)
            return evaluator.solution(state, status)

        solution = run(prior if start is None else start, settings.max_iter)
        if probed:
            return probe(solution, run, evaluator, graph, bags, settings, ranks, rng)
    return solution if literal else replace(solution, unique=True)


def _solve_arranged(
    graph: Graph,
    bags: Bags,
    settings: Settings,
    prior: FloatArray,
    start: FloatArray | None,
    ranks: IntArray | None,
    rng: np.random.Generator | None,
) -> Solution:
    """Solve with similar rows next to each other, which uses the cache, and restore the order."""
    rows = graph.locality
    assert rows is not None
    solution = solve(
        graph.arranged(),
        bags.take(rows, np.arange(len(bags.ids))),
        settings,
        prior=prior[rows],
        start=None if start is None else start[rows],
        ranks=rows if ranks is None else ranks[rows],
        rng=rng,
    )
    F = np.empty_like(solution.F)
    F[rows] = solution.F
    return replace(solution, F=F)
