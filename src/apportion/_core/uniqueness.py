"""Whether the totals have one answer: components, a rank test, linear programs and probes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from apportion._core.decode import Quotas
from apportion._core.descent import Settings, Solution
from apportion._core.local import LocalEvaluator
from apportion._utils.arrays import to_numpy
from apportion._utils.groups import Groups
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.graphs import Graph, smoothest
from apportion.supervision.bags import Bags

# Two minimizers of the energy differ only by a constant per class on each connected component of
# the graph: ⟨F, (I - P)F⟩ is strictly convex in every other direction. Three tests, the
# cheapest first, tell whether such constants exist.
#
# 1. `constants_cancel`: constants must cancel in every bag of exact totals. If the table of rows
#    per bag and component has full rank, they are all 0 and the minimizer is unique.
# 2. `room`: intervals leave room, but no soft label may fall below 0 and no bag may leave its
#    bounds. The constants that are left form a polytope around 0; it is the point 0 alone, almost
#    surely, if a linear function with random coefficients is nowhere in it above or below 0.
#    Where it is not, all minimizers are known: some of them are compared, and the one whose labels
#    are the smoothest is kept.
# 3. `probe`: where that program would be too large, descents from random starts. Where another one
#    ends elsewhere, there are several answers, and again the smoothest is kept.

_MOST_COMPONENTS = 1000
"""With more components the rank test would cost more than a probe."""

_RANK_TOLERANCE = 1e-9
"""Singular values below this share of the scaled table's are 0."""

NO_ROOM: Literal[False] = False
"""No constants but 0."""

_ZERO = 1e-9
"""Constants that may move by less are fixed."""

_ROOM = 1e-5
"""A linear function that rises by less than this over the polytope is constant, to the accuracy of
the soft labels of a converged run and of the linear program."""

_LARGEST_PROGRAM = 20_000
"""Rows or columns of a linear program that is still solved: a second's work."""

_SHARE_OF_FIRST = 0.25
_CHEAP_CELLS = 2e7
"""All probes together may take as many iterations as the first run and this share of it for each
probe, 3 times the first run with 8 probes; and whatever the first run took, as many as change this
many soft labels: a few seconds' work, so that small problems are hardly ever cut off. The first
probe decides whether the answer is unique, and takes about as long as the first run did; the others
only look for a smoother one of several answers."""

_DECODED_CELLS = 2e5
"""Soft labels of all answers together that are decoded to compare them, two answers at least: rows
whose soft labels hardly differ take seconds to decode."""

_SAME = 1e-3
"""Converged runs whose soft labels differ by less, relative to their norm, ended at one point."""

_AVERAGINGS = 10
"""Propagations of the noise that a probe starts from."""


def unsupervised_rows(graph: Graph, bags: Bags) -> BoolArray:
    """Return the rows that no label and no known total reaches, over any number of ties.

    They keep the overall class shares.
    """
    n_components, component = graph.components()
    informative = (bags.upper - bags.lower).max(axis=1, initial=0.0) < bags.groups.sizes
    supervised = (bags.given >= 0) | np.append(informative, False)[bags.codes]
    reached = np.zeros(n_components, dtype=bool)
    reached[component[supervised]] = True
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

    Parameters
    ----------
    counts : sparse array of shape (n_bags, n_components)
        The rows of each bag of exact totals in each component.
    """
    n_bags, n_components = counts.shape
    if n_components > min(n_bags, _MOST_COMPONENTS):
        return True
    gram = (counts.T @ counts).toarray()
    scale = np.sqrt(np.maximum(np.diag(gram), 1.0))
    return bool(
        np.linalg.matrix_rank(gram / np.outer(scale, scale), tol=_RANK_TOLERANCE) < n_components
    )


def only_minimizer(F: FloatArray, graph: Graph, bags: Bags) -> bool:
    """Return whether F is the only minimizer, as far as linear programs of moderate size tell.

    Another one would differ by constants on each connected component, which sum to 0 over the
    classes, take no row's mass below 0 and keep all bags within their bounds. These constants are
    a polytope around 0; it is 0 alone if a linear function with random coefficients is nowhere in
    it above or below 0. Components that hold a given label, or that nothing reaches, have none.
    """
    return _room(F, graph, bags) is NO_ROOM


def _room(F: FloatArray, graph: Graph, bags: Bags) -> _Constants | Literal[False] | None:
    """Return the constants per component and class by which minimizers differ from F."""
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
    return room(Groups(component, n_components).least(F), held, counts, above, below)


def no_room(
    least: FloatArray, held: BoolArray, counts: Any, above: FloatArray, below: FloatArray
) -> bool:
    """Return whether 0 are the only constants that `room` allows, as far as this is known."""
    return room(least, held, counts, above, below) is NO_ROOM


def room(
    least: FloatArray, held: BoolArray, counts: Any, above: FloatArray, below: FloatArray
) -> _Constants | Literal[False] | None:
    """Return the constants on components that soft labels and bags allow.

    These are `NO_ROOM` where 0 are the only ones, and None where a linear program of moderate size
    does not tell.

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
        return NO_ROOM
    across = np.flatnonzero(pieces > 1)
    if max(len(across), n_components) * c > _LARGEST_PROGRAM:
        return None
    constants = _Constants(counts[across], above[across], below[across], fall, rise)
    direction = np.random.default_rng(0).standard_normal(fall.shape)
    for sign in (1.0, -1.0):
        farthest = constants.extreme(sign * direction)
        if farthest is None:
            return None
        if sign * np.vdot(direction, farthest) > _ROOM:
            return constants
    return NO_ROOM


class _Constants:
    """The polytope of constants per component and class that all bounds allow.

    Parameters
    ----------
    counts : sparse array of shape (n_bags, n_components)
        The rows of each bag in each component, of bags in several components.
    above, below : ndarray of shape (n_bags, n_classes)
        How far the sums of these bags may fall and rise.
    fall, rise : ndarray of shape (n_components, n_classes)
        How far each constant may fall and rise.
    """

    def __init__(
        self, counts: AnyArray, above: FloatArray, below: FloatArray, fall: FloatArray, rise: Any
    ) -> None:
        n_components, c = self._shape = fall.shape
        lines = sparse.kron(counts, sparse.eye_array(c))
        limits = np.concatenate([below.ravel(), above.ravel()])
        self._program = {
            "A_ub": sparse.vstack([lines, -lines]),
            "b_ub": np.maximum(limits, 0.0),
            "A_eq": sparse.kron(sparse.eye_array(n_components), np.ones((1, c))),
            "b_eq": np.zeros(n_components),
            "bounds": np.column_stack([-fall.ravel(), rise.ravel()]),
        }

    def extreme(self, direction: FloatArray) -> FloatArray | None:
        """Return the constants farthest in a direction; None where the program was not solved."""
        program = linprog(-direction.ravel(), **self._program)
        return np.asarray(program.x).reshape(self._shape) if program.status == 0 else None


def probe(
    first: Solution,
    run: Callable[[FloatArray, int], Solution],
    evaluator: LocalEvaluator,
    graph: Graph,
    bags: Bags,
    settings: Settings,
    ranks: IntArray,
    rng: np.random.Generator | None,
) -> Solution:
    """Test whether another start ends elsewhere; if so, keep the smoothest of several ends.

    Only converged runs are compared, by the smoothness of their quota labels, never by true labels.
    When the probes' iterations are spent, those that were not tried are counted in `probes_left`.
    """
    constants = _room(first.F, graph, bags) if first.converged else None
    if constants is NO_ROOM:
        return replace(first, unique=True)
    n_probes = settings.n_probes
    if n_probes == 0 or not first.converged:
        return first
    rng = np.random.default_rng(0) if rng is None else rng
    if constants:
        others = list(_other_minimizers(first, constants, graph, evaluator, n_probes, ranks, rng))
        # Room of less than the accuracy of soft labels is none.
        if all(_same_end(first, end, evaluator, settings.tol) for end in others):
            return replace(first, unique=True, n_starts=1 + len(others), n_probes=n_probes)
        first = replace(first, n_probes=n_probes)
        return _smoothest_end(first, [first, *others], graph, bags, ranks)
    unknown = unsupervised_rows(graph, bags)
    share = 1.0 + _SHARE_OF_FIRST * n_probes
    budget = int(max(share * first.n_iter, _CHEAP_CELLS / first.F.size))
    ends = [first]
    probes_left = 0
    for number in range(1, n_probes + 1):
        point = _random_start(evaluator, bags, ranks, rng)
        start = np.where(unknown[:, None], bags.prior(), point)
        end = run(start, min(settings.max_iter, budget))
        budget -= end.n_iter
        if end.converged:
            ends.append(end)
            if len(ends) == 2 and _same_end(first, end, evaluator, settings.tol):
                return replace(first, unique=True, n_starts=2, n_probes=number)
        if budget <= 0:
            probes_left = n_probes - number + (not end.converged)
            break
    first = replace(first, n_probes=n_probes - probes_left, probes_left=probes_left)
    if len(ends) == 1:
        return first
    return _smoothest_end(first, ends, graph, bags, ranks)


def _smoothest_end(
    first: Solution, ends: list[Solution], graph: Graph, bags: Bags, ranks: IntArray
) -> Solution:
    """Return the one of several answers whose quota labels are the smoothest.

    Of many rows, only those answers are decoded whose soft labels agree most between neighbors.
    """
    n_starts = len(ends)
    most = max(2, int(_DECODED_CELLS // first.F.size))
    if len(ends) > most:
        agreement = [-float(np.vdot(end.F, graph.neighbor_mean(end.F))) for end in ends]
        ends = [ends[k] for k in sorted(np.argsort(agreement, kind="stable")[:most])]
    decode = Quotas(bags, ranks, graph.device_)
    labels = [decode(end.F).labels for end in ends]
    smoothness = [graph.label_smoothness(codes, bags.n_classes) for codes in labels]
    best = ends[smoothest(smoothness)[0]]
    best = replace(best, n_probes=first.n_probes, probes_left=first.probes_left)
    return replace(best, unique=False, n_starts=n_starts)


def _other_minimizers(
    first: Solution,
    constants: _Constants,
    graph: Graph,
    evaluator: LocalEvaluator,
    n_probes: int,
    ranks: IntArray,
    rng: np.random.Generator,
) -> Iterator[Solution]:
    """Return minimizers at random places between the first one and random extreme ones.

    Minimizers differ by constants on components, which are known: no descent is needed. Each
    component gets the random numbers of its row of lowest rank, whatever the order of the rows.
    """
    n_components, component = graph.components()
    n, c = first.F.shape
    lowest = np.full(n_components, n)
    np.minimum.at(lowest, component, ranks)
    project = evaluator.project
    for _ in range(n_probes):
        extreme = constants.extreme(rng.standard_normal((n, c))[lowest])
        part = rng.random()
        if extreme is not None:
            F = project.to_columns(first.F + part * extreme[component])
            yield replace(first, F=project.from_columns(project(F)))


def _same_end(a: Solution, b: Solution, evaluator: LocalEvaluator, tol: float) -> bool:
    """Return whether two converged runs ended at one point, as far as their tolerance tells."""
    gap = evaluator.project.to_columns(a.F - b.F)
    scale = evaluator.norm(evaluator.project.to_columns(a.F))
    return evaluator.length(gap) <= max(np.sqrt(tol), _SAME) * scale


def _random_start(
    evaluator: LocalEvaluator, bags: Bags, ranks: IntArray, rng: np.random.Generator
) -> FloatArray:
    """Return random soft labels that vary along the graph, moved into C.

    Noise of single rows would average out over a component; a few propagations leave what the
    rows of a component share.
    """
    project = evaluator.project
    noise = project.sent(rng.standard_normal((bags.n_samples, bags.n_classes))[ranks])
    for _ in range(_AVERAGINGS):
        noise = evaluator.P(noise)
    noise = to_numpy(noise)
    spread = np.maximum(noise.std(axis=0), 1e-300)
    F = 0.5 + (noise - noise.mean(axis=0)) / spread
    return project.from_columns(project(project.to_columns(F)))
