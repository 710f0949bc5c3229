"""LP-LLP: propagate, project, repeat — the loop where the graph and the bags meet.

`F ← Π_C(P F)` is projected gradient descent with step 1 on the convex energy
`e(F) = ½⟨F, (I - P)F⟩_M` over the soft labels C that keep every bag's masses. The accelerated loop
takes the same steps with momentum; the literal one is the paper's Algorithm 2 as printed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from apportion._core.decode import Quotas
from apportion._core.projection import MassProjection, Method
from apportion._core.propagation import Metric, Propagated, Propagator, beyond, propagator
from apportion._utils.groups import Groups
from apportion._utils.progress import PROPAGATING, report_progress, several_runs
from apportion._utils.threads import blockwise, total
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.exceptions import Advice
from apportion.graphs import Graph, smoothest
from apportion.supervision.bags import Bags

Solver = Literal["accelerated", "plain", "literal"]
Stop = Literal["converged", "settled"]

_MOST_COMPONENTS = 1000
"""More components than this are asked about by a probe: deciding would cost more."""

_ZERO = 1e-9
_ROOM = 1e-5
_LARGEST_PROGRAM = 20_000

_SHARE_OF_FIRST = 0.25
_CHEAP_CELLS = 2e7
"""All probes together may take as many iterations as the first run and this share of it for each
probe, 3 times the first run with 8 probes; and whatever the first run took, as many as change this
many soft labels: a few seconds' work, so that small problems are hardly ever cut off. The first
probe decides whether the answer is unique, and takes about as long as the first run did; the others
only look for a smoother one of several answers."""

_LOOK_EVERY = 5
_QUIET_LOOKS = 2
_HARDLY_ANY = 1e-4

_DRIFT = 1e-12
"""What travels with P from step to step is known up to rounding; below this, P is found anew."""

_ROUNDING = 1e-11
"""Projections leave 1e-12 over: no step is exact beyond about this share of the soft labels."""

_INEXACT = 0.1
"""P of a step is found up to this share of the gradient that the step follows."""


class Status(Enum):
    """How a run ended; the value says what to do about it."""

    CONVERGED = "converged: a further step changes nothing and all totals are kept"
    SETTLED = "stopped early, as asked: the labels have settled, the soft labels not converged"
    MAX_ITER = Advice(
        "not converged: the iterations ran out.",
        "Raise {max_iter}, or {tol} if the labels are good enough",
    )
    INFEASIBLE = Advice("not converged: the projection does not meet all totals.", "{meet_totals}")
    STALLED = Advice(
        "not converged: rounding stops the descent before the tolerance is reached.",
        "Raise {tol}, or look for rows of very different degree",
    )


@dataclass(frozen=True)
class Solution:
    """Soft labels and how they were reached.

    Attributes
    ----------
    F : ndarray of shape (n_samples, n_classes)
        Soft labels.
    status : Status
        Whether the run converged, and what to try if not.
    n_iter : int
        Outer iterations: propagations followed by a projection.
    energies : ndarray of shape (n_iter + 1,)
        The energy at the start and after every iteration.
    stationarity : float
        ‖F - Π_C(PF)‖_M / ‖F‖_M, 0 at a minimizer.
    residual : float
        The largest breach of a bag's mass (relative to its size) or of a row's simplex.
    propagation_residual : float
        The largest relative residual of a propagation that was solved iteratively.
    unique : bool or None
        Whether the minimizer is unique; None when it was not asked.
    n_starts : int
        Converged runs that were compared.
    n_probes : int
        Random starts that were tried.
    probes_left : int
        Random starts that were not tried to the end, because the first ones took too long.
    """

    F: FloatArray
    status: Status
    n_iter: int
    energies: FloatArray
    stationarity: float
    residual: float
    propagation_residual: float = 0.0
    unique: bool | None = None
    n_starts: int = 1
    n_probes: int = 0
    probes_left: int = 0

    @property
    def converged(self) -> bool:
        """Whether the run reached its tolerance."""
        return self.status is Status.CONVERGED

    @property
    def success(self) -> bool:
        """Whether the run ended where it was asked to end."""
        return self.status in (Status.CONVERGED, Status.SETTLED)


@dataclass(frozen=True)
class Settings:
    """What to solve and how; see `LPLLP` for the meaning of each."""

    alpha: float = 0.5
    solver: Solver = "accelerated"
    order: int | None = None
    metric: Metric = "degree"
    projection: Method = "nearest"
    prior_weight: float = 0.0
    n_probes: int = 8
    stop: Stop = "converged"
    tol: float = 1e-8
    max_iter: int = 2000


class Problem:
    """The energy `e(F) = ½⟨F, (I - P)F⟩_M + μ/2 ‖F - F⁰‖²_M` and the set C it is minimized over.

    Soft labels travel as columns: see `MassProjection`.
    """

    def __init__(
        self, P: Propagator, project: MassProjection, prior: FloatArray, prior_weight: float = 0.0
    ) -> None:
        self.P = P
        self.project = project
        self.prior = prior
        self.mu = prior_weight
        # One column stands for two that differ alike, hence its weight.
        self.weights = P.weights[:, None] * (2.0 if project.one_column else 1.0)
        self.lipschitz = P.lipschitz + prior_weight

    def energy(self, F: FloatArray, PF: Propagated) -> float:
        """Return e(F), but for half the square of what PF leaves over."""
        energy = total(lambda w, f, p: (w * f * (f - p)).sum(), self.weights, F, PF.value)
        if PF.rest is not None:
            energy -= self.inner(PF.value, PF.rest)
        if self.mu > 0:
            energy += self.mu * self.length(F - self.prior) ** 2
        return 0.5 * energy

    def gradient(self, F: FloatArray, PF: Propagated) -> FloatArray:
        """Return the gradient of e at F in the norm of M."""
        gradient = F - PF.value
        if self.mu > 0:
            gradient += self.mu * (F - self.prior)
        return gradient

    def descended(self, F: FloatArray, PF: Propagated, step: float) -> FloatArray:
        """Return F after a step down the gradient, before it is projected."""
        if self.mu > 0:
            return F - step * self.gradient(F, PF)
        return blockwise(lambda f, p: f - step * (f - p), F, PF.value)

    def inner(self, A: FloatArray, B: FloatArray) -> float:
        """Return ⟨A, B⟩_M of differences between soft labels."""
        return total(lambda w, a, b: (w * a * b).sum(), self.weights, A, B)

    def length(self, step: FloatArray) -> float:
        """Return ‖step‖_M of a difference between soft labels."""
        return float(np.sqrt(self.inner(step, step)))

    def norm(self, F: FloatArray) -> float:
        """Return ‖F‖_M of soft labels, all columns counted."""
        square = self.inner(F, F)
        if self.project.one_column:
            square = 0.5 * (square + self.inner(1.0 - F, 1.0 - F))
        return max(float(np.sqrt(square)), 1e-300)

    def stationarity(self, F: FloatArray, PF: Propagated) -> float:
        """Return ‖F - Π_C(F - ∇e(F))‖_M / ‖F‖_M, which is 0 at a minimizer and only there."""
        stepped = self.project(self.descended(F, PF, 1.0))
        return self.length(F - stepped) / self.norm(F)

    def enough(self, tol: float) -> float:
        """Return the stationarity at which to stop: a flat energy moves little in a step.

        Where it is so flat that rounding moves soft labels farther, rounding is where to stop.
        """
        return max(tol * min(self.lipschitz, 1.0), min(tol, _ROUNDING))

    def solution(
        self, F: FloatArray, PF: Propagated, status: Status, energies: list[float]
    ) -> Solution:
        """Return the soft labels with everything measured at them."""
        PF = self.P.sharpened(F, PF)
        residual = self.project.residual(F)
        if status in (Status.CONVERGED, Status.SETTLED) and residual > 1e-8:
            status = Status.INFEASIBLE
        return Solution(
            F=self.project.from_columns(F),
            status=status,
            n_iter=len(energies) - 1,
            energies=np.array(energies),
            stationarity=self.stationarity(F, PF),
            residual=residual,
            propagation_residual=self.P.residual,
        )


class Settling:
    """Watches the labels that soft labels decode to, every few iterations."""

    def __init__(self, problem: Problem, decode: Quotas) -> None:
        self._problem = problem
        self._decode = decode
        self._iteration = 0
        self._quiet = 0
        self._labels: IntArray | None = None

    def __call__(self, columns: FloatArray) -> bool:
        """Return whether hardly a label changed between the last looks."""
        self._iteration += 1
        if self._iteration % _LOOK_EVERY:
            return False
        labels = self._decode(self._problem.project.from_columns(columns)).labels
        before, self._labels = self._labels, labels
        if before is None:
            return False
        still = np.count_nonzero(labels != before) <= _HARDLY_ANY * len(labels)
        self._quiet = self._quiet + 1 if still else 0
        return self._quiet >= _QUIET_LOOKS


Settled = Callable[[FloatArray], bool]


def _never(columns: FloatArray) -> bool:
    """Return that labels have not settled, without a look."""
    return False


class Approach:
    """Reports how far a run has come on its way to the stationarity that is enough.

    The way is measured in digits, from the first stationarity on; a step back does not count.
    """

    def __init__(self, enough: float) -> None:
        self._enough = max(enough, _DRIFT)  # where tol is 0, rounding is the end
        self._first = 0.0
        self._done = 0.0
        report_progress(PROPAGATING, self._done)

    def __call__(self, stationarity: float) -> None:
        """Report how far the run is that has come to this stationarity."""
        here = max(stationarity, self._enough)
        self._first = self._first or here
        way = math.log(self._first / self._enough)
        share = math.log(self._first / here) / way if way > 0 else 1.0
        self._done = max(share, self._done)
        report_progress(PROPAGATING, self._done)


def descend_plainly(
    problem: Problem, start: FloatArray, tol: float, max_iter: int, settled: Settled = _never
) -> Solution:
    """Repeat the paper's two steps, propagate and project, until nothing changes.

    The step is 1, and shorter only where the energy is too steep for it: with a heavy prior.
    """
    F = problem.project(start)
    PF = Propagated(problem.P(F))
    energies = [problem.energy(F, PF)]
    step = 1.0 if problem.lipschitz < 2.0 else 1.0 / problem.lipschitz
    enough = problem.enough(tol)
    approach = Approach(enough)
    status = Status.MAX_ITER
    for _ in range(max_iter):
        moved = problem.project(problem.descended(F, PF, step))
        gap, size = problem.length(moved - F), problem.norm(F)
        approach(gap / (step * size))
        if gap <= enough * step * size:
            status = Status.CONVERGED
            break
        F, PF = moved, Propagated(problem.P(moved))
        energies.append(problem.energy(F, PF))
        if settled(F):
            status = Status.SETTLED
            break
    return problem.solution(F, PF, status, energies)


def descend_with_momentum(
    problem: Problem, start: FloatArray, tol: float, max_iter: int, settled: Settled = _never
) -> Solution:
    """Minimize the energy by accelerated projected gradient steps of length 1/L.

    Momentum is dropped when it points uphill or the energy rises. P is linear, so that P of the
    extrapolated point comes from P of the two points it lies on. P of the point that a step leads
    to is found from P of the point where it began, and only up to a tenth of the gradient that the
    step follows; before a run is called converged, it is sharpened.
    """
    L = max(problem.lipschitz, 1e-12)
    F = problem.project(start)
    PF = Propagated(problem.P(F))
    energies = [problem.energy(F, PF)]
    size = problem.norm(F)
    rounding = 1e-12 * size**2
    enough = problem.enough(tol)
    approach = Approach(enough)
    Y, PY = F, PF
    t = 1.0
    status = Status.MAX_ITER
    leap: FloatArray | None = None
    for _ in range(max_iter):
        moved = problem.project(problem.descended(Y, PY, 1.0 / L))
        leap = blockwise(np.subtract, moved, Y, out=leap)
        gap = problem.length(leap)
        approach(L * gap / size)
        enough_here = _INEXACT * L * gap
        if enough_here > _DRIFT * size:
            P_moved = problem.P.near(moved, leap, PY, enough_here)
        else:
            P_moved = problem.P.sharpened(moved, Propagated(PY.value, leap))
        energy = problem.energy(moved, P_moved)
        rises = energy > energies[-1] + rounding
        if rises and t == 1.0 and PF.rest is None:
            # A plain step cannot raise the energy but by rounding: this is as low as it gets.
            small = problem.stationarity(F, PF) <= enough
            status = Status.CONVERGED if small else Status.STALLED
            break
        if rises:
            energies.append(energies[-1])
            PF = problem.P.sharpened(F, PF) if t == 1.0 else PF
            Y, PY, t = F, PF, 1.0
            continue
        onward = total(lambda w, a, m, f: (w * a * (m - f)).sum(), problem.weights, leap, moved, F)
        uphill = onward < 0
        t_next = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        momentum = 0.0 if uphill else (t - 1.0) / t_next
        t = 1.0 if uphill else t_next
        PY = P_moved.beyond(PF, momentum)
        Y = beyond(moved, F, momentum)
        F, PF = moved, P_moved
        energies.append(energy)
        if L * gap <= enough * size:
            PF = problem.P.sharpened(F, PF)
            if problem.stationarity(F, PF) <= enough:
                status = Status.CONVERGED
                break
        if settled(F):
            status = Status.SETTLED
            break
    return problem.solution(F, PF, status, energies)


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
        The order in which random numbers are handed to rows and ties are broken.
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
        graph,
        settings.alpha,
        order=settings.order,
        metric="degree" if literal else settings.metric,
        floor=0.0 if literal else 1e-2,
        literal=literal,
        accuracy=min(1e-10, 1e-2 * settings.alpha * settings.tol),
    )
    method: Method = "alternating" if literal else settings.projection
    project = MassProjection(bags, P.weights, method)
    problem = Problem(
        P, project, project.to_columns(prior), 0.0 if literal else settings.prior_weight
    )
    # Momentum needs the nearest point: alternating projections are no gradient step.
    momentum = settings.solver == "accelerated" and method == "nearest"
    descend = descend_with_momentum if momentum else descend_plainly

    ranks = np.arange(bags.n_samples) if ranks is None else ranks
    compared = not (literal or settings.prior_weight > 0)
    settles = settings.stop == "settled"
    ambiguous = (compared or settles) and may_be_ambiguous(graph, bags)
    early = settles and not ambiguous
    decode = Quotas(bags, ranks) if early else None

    probed = compared and ambiguous
    n_probes = settings.n_probes if probed else 0
    with several_runs(PROPAGATING, "start", 1 + n_probes, at_most=True) as next_run:

        def run(point: FloatArray, max_iter: int) -> Solution:
            next_run()
            settled = _never if decode is None else Settling(problem, decode)
            return descend(problem, project.to_columns(point), settings.tol, max_iter, settled)

        solution = run(prior if start is None else start, settings.max_iter)
        if probed:
            return _probe(solution, run, problem, graph, bags, settings, ranks, rng)
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
    """Solve with similar rows standing together, which memory rewards, and put them back."""
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


def unsupervised_rows(graph: Graph, bags: Bags) -> BoolArray:
    """Return the rows that no label and no known total reaches, over any number of ties.

    Nothing is known of them: they keep the overall class shares.
    """
    n_components, component = graph.components()
    says_something = (bags.upper - bags.lower).max(axis=1, initial=0.0) < bags.groups.sizes
    known = (bags.given >= 0) | np.append(says_something, False)[bags.codes]
    reached = np.zeros(n_components, dtype=bool)
    reached[component[known]] = True
    return ~reached[component]


def may_be_ambiguous(graph: Graph, bags: Bags) -> bool:
    """Return whether several minimizers are possible at all.

    Two minimizers can differ only by a constant on each connected component, and only if the
    constants cancel in every exact bag. Where no such constants exist, the minimizer is unique.
    Components that nothing reaches are left aside, and ties too weak to matter do not connect.
    """
    _, component = graph.components()
    pinned = np.isin(component, component[bags.given >= 0])
    free = ~pinned & ~unsupervised_rows(graph, bags)
    columns, column = np.unique(component[free], return_inverse=True)
    exact = np.flatnonzero(bags.exact)
    line = np.full(len(bags.ids) + 1, -1)
    line[exact] = np.arange(len(exact))
    lines = line[bags.open_groups.codes[free]]
    inside = lines >= 0
    return constants_cancel(
        sparse.csr_array(
            (np.ones(int(inside.sum())), (lines[inside], column[inside])),
            shape=(len(exact), len(columns)),
        )
    )


def constants_cancel(counts: Any) -> bool:
    """Return whether constants on components may cancel in every bag, not all of them 0.

    Given are the rows of each exact bag, as a sparse array, in each component.
    """
    n_bags, n_components = counts.shape
    if n_components > min(n_bags, _MOST_COMPONENTS):
        return True
    gram = (counts.T @ counts).toarray()
    scale = np.sqrt(np.maximum(np.diag(gram), 1.0))
    return bool(np.linalg.matrix_rank(gram / np.outer(scale, scale), tol=1e-9) < n_components)


def stands_alone(F: FloatArray, graph: Graph, bags: Bags) -> bool:
    """Return whether no other minimizer is possible beside F, as far as that is easily told.

    Another one would differ by constants on each connected component, which sum to 0 over the
    classes, take no row's mass below 0 and keep all bags within their bounds. These constants are
    a polytope around 0; it is 0 alone if a linear function with random coefficients is nowhere in
    it above or below 0. Components that hold a given label, or that nothing reaches, have none.
    """
    n_components, component = graph.components()
    held = np.zeros(n_components, dtype=bool)
    held[component[(bags.given >= 0) | unsupervised_rows(graph, bags)]] = True
    groups = bags.open_groups
    inside = np.flatnonzero(groups.codes >= 0)
    counts = sparse.coo_array(
        (np.ones(len(inside)), (groups.codes[inside], component[inside])),
        shape=(groups.n_groups, n_components),
    ).tocsr()
    sums = groups.sum(F)
    above, below = sums - bags.open_lower, bags.open_upper - sums
    return no_room(Groups(component, n_components).least(F), held, counts, above, below)


def no_room(
    least: FloatArray, held: BoolArray, counts: Any, above: FloatArray, below: FloatArray
) -> bool:
    """Return whether 0 are the only constants on components that soft labels and bags allow.

    Parameters
    ----------
    least : ndarray of shape (n_components, n_classes)
        The least soft label of every component's rows.
    held : ndarray of bool, of shape (n_components,)
        The components that have no constant.
    counts : sparse array of shape (n_bags, n_components)
        The rows of each bag in each component.
    above, below : ndarray of shape (n_bags, n_classes)
        How far the bags' sums are above their lower and below their upper masses.
    """
    n_components, c = least.shape
    fall, rise = least.copy(), np.ones_like(least)
    pieces = np.diff(counts.indptr)
    within = np.flatnonzero(pieces == 1)
    where, size = counts[within].indices, counts[within].data[:, None]
    np.minimum.at(fall, where, above[within] / size)
    np.minimum.at(rise, where, below[within] / size)
    fall, rise = (np.where(held[:, None], 0.0, np.maximum(room, 0.0)) for room in (fall, rise))
    if not ((fall > _ZERO).any(axis=1) & (rise > _ZERO).any(axis=1)).any():
        return True
    across = np.flatnonzero(pieces > 1)
    if max(len(across), n_components) * c > _LARGEST_PROGRAM:
        return False
    return _only_zero(counts[across], above[across], below[across], fall, rise)


def _only_zero(
    counts: AnyArray, above: FloatArray, below: FloatArray, fall: FloatArray, rise: FloatArray
) -> bool:
    """Return whether 0 are the only constants per component and class that all bounds allow."""
    n_components, c = fall.shape
    lines = sparse.kron(counts, sparse.eye_array(c))
    whole = sparse.kron(sparse.eye_array(n_components), np.ones((1, c)))
    some = np.random.default_rng(0).standard_normal(fall.size)
    for direction in (some, -some):
        found = linprog(
            -direction,
            A_ub=sparse.vstack([lines, -lines]),
            b_ub=np.maximum(np.concatenate([below.ravel(), above.ravel()]), 0.0),
            A_eq=whole,
            b_eq=np.zeros(n_components),
            bounds=np.column_stack([-fall.ravel(), rise.ravel()]),
        )
        if found.status != 0 or -found.fun > _ROOM:
            return False
    return True


def _probe(
    first: Solution,
    run: Callable[[FloatArray, int], Solution],
    problem: Problem,
    graph: Graph,
    bags: Bags,
    settings: Settings,
    ranks: IntArray,
    rng: np.random.Generator | None,
) -> Solution:
    """Ask whether another start ends elsewhere; if so, keep the smoothest of several ends.

    Only converged runs are compared, by the smoothness of their quota labels, never by labels.
    When the probes' iterations are spent, those that were not tried are counted in `probes_left`.
    """
    if first.converged and stands_alone(first.F, graph, bags):
        return replace(first, unique=True)
    if settings.n_probes == 0 or not first.converged:
        return first
    rng = np.random.default_rng(0) if rng is None else rng
    unknown = unsupervised_rows(graph, bags)
    share = 1.0 + _SHARE_OF_FIRST * settings.n_probes
    budget = int(max(share * first.n_iter, _CHEAP_CELLS / first.F.size))
    ends = [first]
    probes_left = 0
    for number in range(1, settings.n_probes + 1):
        point = _random_start(problem, bags, ranks, rng)
        start = np.where(unknown[:, None], bags.prior(), point)
        end = run(start, min(settings.max_iter, budget))
        budget -= end.n_iter
        if end.converged:
            ends.append(end)
            if len(ends) == 2 and _same(first, end, problem, settings.tol):
                return replace(first, unique=True, n_starts=2, n_probes=number)
        if budget <= 0:
            probes_left = settings.n_probes - number + (not end.converged)
            break
    first = replace(first, n_probes=settings.n_probes - probes_left, probes_left=probes_left)
    if len(ends) == 1:
        return first
    decode = Quotas(bags, ranks)
    labels = [decode(end.F).labels for end in ends]
    smoothness = [graph.label_smoothness(codes, bags.n_classes) for codes in labels]
    best = ends[smoothest(smoothness)[0]]
    return replace(
        best,
        unique=False,
        n_starts=len(ends),
        n_probes=first.n_probes,
        probes_left=first.probes_left,
    )


def _same(a: Solution, b: Solution, problem: Problem, tol: float) -> bool:
    """Return whether two converged runs ended at one point, as far as their tolerance tells."""
    gap = problem.project.to_columns(a.F - b.F)
    scale = problem.norm(problem.project.to_columns(a.F))
    return problem.length(gap) <= max(np.sqrt(tol), 1e-3) * scale


def _random_start(
    problem: Problem, bags: Bags, ranks: IntArray, rng: np.random.Generator
) -> FloatArray:
    """Return random soft labels that vary along the graph, moved into C.

    Noise of single rows would average out over a component; a few propagations leave the part
    that components share.
    """
    noise: FloatArray = rng.standard_normal((bags.n_samples, bags.n_classes))[ranks]
    for _ in range(10):
        noise = problem.P(noise)
    spread = np.maximum(noise.std(axis=0), 1e-300)
    F = 0.5 + (noise - noise.mean(axis=0)) / spread
    return problem.project.from_columns(problem.project(problem.project.to_columns(F)))
