"""Take labels from random starts only where the totals support them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from apportion._core.decode import Decoding, Quotas
from apportion._core.held_out import HeldOut
from apportion._core.random_starts import (
    ManyQuotas,
    Raised,
    raise_together,
    random_starts,
    reason_against,
)
from apportion._core.refine import refine
from apportion._utils.progress import report_progress, several_runs
from apportion._utils.typing import FloatArray, IntArray
from apportion.graphs import Graph, smoothest
from apportion.supervision.bags import Bags

_CLEARLY = 0.01
"""How much smoother labels from a random start must be to be taken."""

_CONVERGED = 1e-4
"""Soft labels of converged runs differ by less than this."""

_FEW_BAGS = 5
"""With no more bags than this, one that is held out takes too much of what is known with it."""

_DRAWS = 8
"""How often totals are drawn at random."""

_MEANT = 0.3
"""How much of the smoothness that labels under drawn totals lack those under the given totals must
have. Chosen on Half-Kernel and XOR of 60 and 120 rows in three or four bags, where right labels
mostly had .27 to .6 and wrong ones, but for one of eight, at most .15; checked on eight tables in
two to four random bags, bags along a feature, and clusters: at most .22, but for one (.33) that
was right."""

_ANYTHING = 1e-6
"""Labels under drawn totals that lack less than this lack nothing, but for rounding."""

_SUPPORT = 3.0
"""How far the log-likelihood of held-out totals must lie above that of the class shares alone.

Two parameters are fitted, so that labels that know nothing gain more than 3 about once in 20 times.
Chosen on two draws of 14 tables in bags of 16 to 64 rows, in which wrong labels gained less and
right ones mostly more. Checked on three other draws of eight of them, bags of 32 and 64
(`benchmarks/random_starts.py --first 3`): mean accuracy .721 without random starts, .715 with all
that are smoother, .724 with those that are supported."""

_NOT_WORSE = 1.5
"""How far it may lie below that of the solution's labels: no rounding reaches this. Chosen on
spambase (0.8 below, but better) and on pima in bags along a feature (2.6 below, and worse)."""


@dataclass(frozen=True)
class Refinement:
    """Whether labels were taken from random starts, and why.

    Attributes
    ----------
    taken : bool
        Whether the labels come from a random start.
    why : str
        The reason, in words.
    smoothness : dict of str to float
        The smoothness of the labels from the "solution" and of the smoothest from "random starts";
        with up to five bags, the mean of the smoothest under "drawn totals". Empty if no random
        start was tried.
    log_likelihoods : dict of str to float
        The log-likelihood of the totals of held-out bags under labels that were found without
        them: from the "class shares" alone, from "random starts", and from the "solution". Only
        what was needed was computed.
    """

    taken: bool
    why: str
    smoothness: dict[str, float] = field(default_factory=dict)
    log_likelihoods: dict[str, float] = field(default_factory=dict)

    @property
    def much_smoother(self) -> bool:
        """Whether few bags admit much smoother labels than totals drawn at random would.

        False where this was not looked at, because there are more bags or classes.
        """
        return self.gain >= _MEANT

    @property
    def gain(self) -> float:
        """How much of the smoothness that labels under drawn totals lack the labels have.

        0 where this was not looked at.
        """
        if "drawn totals" not in self.smoothness:
            return 0.0
        reached = self.smoothness["random starts" if self.taken else "solution"]
        return _gain(reached, self.smoothness["drawn totals"])


def refine_from_random_starts(
    graph: Graph,
    decode: Quotas,
    F: FloatArray,
    labels: IntArray,
    ranks: IntArray,
    solve: Callable[[Bags], FloatArray],
) -> tuple[Decoding | None, Refinement]:
    """Return labels from random smooth starts, if they are smoother and the totals support them.

    The convex problem has one answer. Where its soft labels are blurred, as few bags of much the
    same proportions leave them, the labels taken from it can be far from the smoothest ones of the
    same counts. Here labels with every bag's counts are taken along random smooth orders of the
    rows, in both directions, and refined. Of equally smooth labels, those nearest to the soft
    labels F are taken.

    A smoother labeling is not a truer one where the graph knows little of the classes: the totals
    must support it. Some bags are held out, labels are found in the same way under the totals of
    the other bags, and the rows' neighbors foretell the totals of those held out. With few bags
    this leaves too little; there, labels must be smoother than under totals drawn at random.

    Parameters
    ----------
    graph : Graph
        A fitted graph.
    decode : Quotas
        Decodes soft labels under the totals.
    F : ndarray of shape (n_samples, n_classes)
        The solution's soft labels.
    labels : ndarray of shape (n_samples,)
        The solution's refined labels.
    ranks : ndarray of shape (n_samples,)
        An order of the rows; see `hash_ranks`.
    solve : callable
        Returns the soft labels of the convex problem for other bags of the same rows.

    Returns
    -------
    labels : Decoding or None
        The labels, or None if they are not to be taken.
    refinement : Refinement
        What was compared.
    """
    if reason := reason_against(graph, decode.bags):
        return None, Refinement(False, reason)
    report_progress("refining from random starts")
    near = graph.in_memory()  # so few rows are compared faster there
    starts, many = random_starts(near, ranks), ManyQuotas(decode.bags, ranks)
    raised = raise_together(near, many, starts)
    smoothness = {
        "solution": near.label_smoothness(labels, 2),
        "random starts": float(raised.smoothness.max()),
    }
    few_bags = len(decode.bags.ids) <= _FEW_BAGS
    if few_bags:
        smoothness["drawn totals"] = _smoothness_of_drawn_totals(near, many, ranks, starts)
    if smoothness["random starts"] <= smoothness["solution"] + _CLEARLY:
        why = f"no labels from random starts are smoother by {_CLEARLY:g}"
        return None, Refinement(False, why, smoothness)
    if few_bags:
        refinement = _against_drawn_totals(smoothness)
    else:
        held_out = HeldOut(near, many, ranks)
        refinement = _by_held_out_totals(held_out, starts, solve, smoothness)
    if not refinement.taken:
        return None, refinement
    start = starts[:, _nearest(raised, F)]
    both = np.column_stack([1.0 - start, start])
    return refine(graph, decode, both, decode(both)), refinement


def _nearest(raised: Raised, F: FloatArray) -> int:
    """Return the smoothest start; of equals that nearest to the soft labels, then the first."""
    best = smoothest(raised.smoothness)
    nearness = np.where(raised.labels[:, best], F[:, [1]], F[:, [0]]).mean(axis=0)
    return int(best[np.flatnonzero(nearness >= nearness.max() - _CONVERGED)[0]])


def _by_held_out_totals(
    held_out: HeldOut,
    starts: FloatArray,
    solve: Callable[[Bags], FloatArray],
    smoothness: dict[str, float],
) -> Refinement:
    """Return whether held-out totals support random starts; the solution is tried only if so."""
    shares = held_out.log_likelihood(held_out.shares)
    random = held_out.log_likelihood(held_out.means_of(lambda fold: starts))
    found = {"class shares": shares, "random starts": random}
    if random < shares + _SUPPORT:
        why = (
            "labels from random starts are smoother, but held-out totals do not support them: "
            f"log-likelihood {random:.1f}, class shares alone {shares:.1f}; {_SUPPORT:g} more are "
            "needed"
        )
        return Refinement(False, why, smoothness, found)
    with several_runs("solving without held-out bags", "fold", held_out.n_folds) as next_run:

        def solution(fold: int) -> FloatArray:
            next_run()
            return solve(held_out.others(fold))[:, 1:]

        convex = held_out.log_likelihood(held_out.means_of(solution))
    found["solution"] = convex
    taken = random >= convex - _NOT_WORSE
    verdict = "and held-out totals support them" if taken else "but the solution's foretell better"
    why = (
        f"labels from random starts are smoother, {verdict}: log-likelihood {random:.1f}, "
        f"solution {convex:.1f}, class shares alone {shares:.1f}"
    )
    return Refinement(taken, why, smoothness, found)


def _smoothness_of_drawn_totals(
    graph: Graph, many: ManyQuotas, ranks: IntArray, starts: FloatArray
) -> float:
    """Return the mean smoothness of the smoothest labels under totals drawn at random."""
    draws = _drawn_counts(many, ranks)
    raised = (raise_together(graph, many.with_counts(counts), starts) for counts in draws)
    return float(np.mean([labels.smoothness.max() for labels in raised]))


def _against_drawn_totals(smoothness: dict[str, float]) -> Refinement:
    """Return whether the given totals admit much smoother labels than totals drawn at random do."""
    reached, drawn = smoothness["random starts"], smoothness["drawn totals"]
    taken = _gain(reached, drawn) >= _MEANT
    verdict = "and the totals support them" if taken else "but the totals do not support them"
    why = (
        f"labels from random starts are smoother, {verdict}: smoothness {reached:.3f}, under "
        f"totals drawn at random {drawn:.3f}; at least {drawn + _MEANT * (1.0 - drawn):.3f} is "
        "needed"
    )
    return Refinement(taken, why, smoothness)


def _gain(reached: float, drawn: float) -> float:
    lacked = 1.0 - drawn
    return (reached - drawn) / lacked if lacked > _ANYTHING else 0.0


# Drawn totals must differ from bag to bag as much as the given ones, or bags of very different
# shares would seem to be meaningful by that alone. The given shares differ by chance and, perhaps,
# in earnest. The part that is in earnest is estimated by the method of moments, the shares are
# shrunk to it and dealt to the bags at random, and the counts are binomial draws from them.
# Draws are made for the rarer class and for bags in the order of their first rows, so that the
# order of classes and bags does not matter.
def _drawn_counts(many: ManyQuotas, ranks: IntArray) -> list[IntArray]:
    """Return counts of the second class in the bags, drawn at random."""
    order = np.argsort(many.bags.groups.least(ranks.astype(np.float64)))
    sizes = many.bags.open_groups.sizes.astype(np.intp)[order]
    counts = many.counts[order]
    other = sizes - counts
    swap = [counts.sum(), *counts] > [other.sum(), *other]
    rare = other if swap else counts
    overall = rare.sum() / max(sizes.sum(), 1)
    difference = rare / np.maximum(sizes, 1) - overall
    by_chance = (len(sizes) - 1) * overall * (1.0 - overall)
    in_earnest = max(0.0, 1.0 - by_chance / max((sizes * difference**2).sum(), 1e-12))
    shares = np.clip(overall + np.sqrt(in_earnest) * difference, 0.0, 1.0)
    rng = np.random.default_rng(0)
    draws = []
    for _ in range(_DRAWS):
        drawn = rng.binomial(sizes, shares[rng.permutation(len(sizes))])
        counts_of_second = np.empty_like(sizes)
        counts_of_second[order] = sizes - drawn if swap else drawn
        draws.append(counts_of_second)
    return draws
