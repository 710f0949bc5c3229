"""The warnings of a fit, worded once for every back end.

They take counts, and the positions of rows where these are known: one machine lists some of the
rows, a cluster only counts them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from apportion._core.descent import Solution, Status
from apportion._core.uniqueness import unsupervised_rows
from apportion._utils.sequences import Sequences
from apportion._utils.typing import FloatArray, IntArray
from apportion.exceptions import (
    Advice,
    AmbiguousTotalsWarning,
    BagDesignWarning,
    DuplicateRowsWarning,
    EpisodesWarning,
    IsolatedRowsWarning,
    MissedNeighborsWarning,
    ScaleWarning,
    name_some,
    users_level,
)
from apportion.graphs import Graph, KNNGraph
from apportion.supervision.bags import Bags
from apportion.supervision.episode_limits import episodes_above, episodes_begun

_UNEQUAL = 100.0
"""Variances that differ by more than this are of units that nobody weighed against each other."""

_ROUNDING = 1e-12
"""The share of its mean that a constant feature may vary by."""


class Remedies(NamedTuple):
    """What can be done about rows and totals that say too little, as hints with parameters.

    Attributes
    ----------
    finer_graph : str
        What tells more rows apart.
    more_ties : str
        What ties rows to more rows.
    label_some, labels : str
        Labels of single rows, as a part of a hint and as a noun; empty where none can be given.
    """

    finer_graph: str
    more_ties: str
    label_some: str
    labels: str


ONE_MACHINE = Remedies(
    "use more neighbors ({n_neighbors})",
    "use a graph with more neighbors ({n_neighbors})",
    " label a row among them,",
    " {labels},",
)
CLUSTER = Remedies("raise {n_anchors}", "tie rows to more anchors (raise {n_nearest})", "", "")


def warn(category: type[Warning], facts: str, hint: str, rows: IntArray | None = None) -> None:
    """Issue a warning that points to the user's line; a warning about rows carries them."""
    fields = {} if rows is None else {"rows": rows.tolist()}
    warnings.warn(category(Advice(facts, hint), **fields), stacklevel=users_level())


def warn_of_design(findings: Sequence[str], remedies: Remedies = ONE_MACHINE) -> None:
    """Warn of classes that the totals cannot tell apart."""
    if findings:
        labels = f", or{remedies.labels}" if remedies.labels else ""
        hint = f"Totals in other proportions{labels} would tell them apart."
        warn(BagDesignWarning, " ".join(findings), hint)


def warn_of_equal_rows(facts: str, remedies: Remedies, rows: IntArray | None = None) -> None:
    """Warn of rows that the graph cannot tell apart."""
    warn(
        DuplicateRowsWarning,
        facts,
        "Add measurements that tell them apart (the time of recording seldom does), or "
        f"{remedies.finer_graph}.",
        rows,
    )


def warn_of_isolated_rows(
    n_isolated: int, n_alone: int, n_samples: int, remedies: Remedies, rows: IntArray | None = None
) -> None:
    """Warn of rows that are hardly tied to any other; `n_alone` are tied to none."""
    if n_isolated and n_samples > 1:
        warn(
            IsolatedRowsWarning,
            f"{n_isolated:,} of {n_samples:,} rows have almost no similar row, {n_alone:,} of them "
            f"none at all{_listed(rows)}: they stay near the shares of their totals.",
            f"Look for outliers and unscaled features, or {remedies.more_ties}.",
            rows,
        )


def warn_of_unreached_rows(
    n_unreached: int, n_samples: int, remedies: Remedies, rows: IntArray | None = None
) -> None:
    """Warn of rows that no label and no known total reaches."""
    if n_unreached:
        warn(
            IsolatedRowsWarning,
            f"{n_unreached:,} of {n_samples:,} rows are out of reach of any known total or label"
            f"{_listed(rows)}: they keep the overall class shares.",
            f"Give totals for them,{remedies.label_some} or {remedies.more_ties}.",
            rows,
        )


def warn_of_status(status: Status, n_iter: int, details: str = "") -> None:
    """Warn of a run that did not end where it should."""
    if status not in (Status.CONVERGED, Status.SETTLED):
        advice = status.value
        warn(
            ConvergenceWarning,
            f"LP-LLP {advice.facts}",
            f"{advice.hint} (after {n_iter} iterations{details}).",
        )


def warn_of_several_answers(facts: str, remedies: Remedies) -> None:
    """Warn of totals that admit, or may admit, several labelings."""
    more = f"{remedies.labels} or {remedies.more_ties}"
    hint = f"Add totals that differ more between bags,{more}."
    warn(AmbiguousTotalsWarning, facts, hint)


def warn_of_unknown_uniqueness(why: str, hint: str) -> None:
    """Warn that several labelings may be possible, because that could not be decided."""
    facts = f"Whether the totals admit several labelings is not known: {why}."
    warn(AmbiguousTotalsWarning, facts, hint)


def warn_of_episodes(labels: IntArray, bags: Bags, sequences: Sequences) -> None:
    """Warn of labels along time that have more episodes of a class than a bag may have."""
    if bags.most_episodes is None:
        return
    begun = episodes_begun(labels, bags.codes, sequences, bags.lower.shape)
    above = episodes_above(begun, bags.most_episodes, bags.ids, bags.classes)
    if above:
        facts = (
            "No labels were found that keep all given numbers of episodes and the totals, which "
            f"come first: {name_some(above, 3)}."
        )
        warn(EpisodesWarning, facts, "Check these numbers and the totals of these bags.")


def warn_of_scales(X: FloatArray, names: Sequence[str] | None) -> None:
    """Warn of features of very different variances, whose units decide about distances.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows between which distances are taken.
    names : sequence of str, optional
        The names of the features.
    """
    deviations = X.std(axis=0)
    varying = np.flatnonzero(deviations > _ROUNDING * np.abs(X.mean(axis=0)))
    if not varying.size:
        return
    least, most = varying[np.argsort(deviations[varying], kind="stable")[[0, -1]]]
    if deviations[most] <= np.sqrt(_UNEQUAL) * deviations[least]:
        return
    described = [
        f"{f'feature {j}' if names is None else repr(str(names[j]))} has {deviations[j]:.2g}"
        for j in (most, least)
    ]
    warn(
        ScaleWarning,
        f"Features have standard deviations of very different size: {' and '.join(described)}. "
        "Distances between rows hardly see the small ones.",
        "Scale the features first, with sklearn.preprocessing.StandardScaler, unless their units "
        "are meant to weigh.",
    )


def warn_of_missing_times(hint: str) -> None:
    """Warn of labels that are to be decoded along time, and are not."""
    facts = "decode='sequence' needs times: these labels keep the totals, but know no time."
    warn(UserWarning, facts, hint)


def _listed(rows: IntArray | None) -> str:
    return "" if rows is None else f" (rows {name_some(rows)})"


def warn_of_graph(graph: Graph) -> None:
    """Warn of rows that are hardly tied to any other, and of rows that equal too many others."""
    if isinstance(graph, KNNGraph) and graph.recall_ < graph.recall:
        warn(
            MissedNeighborsWarning,
            f"The search finds {graph.recall_:.1%} of the true neighbors of a sample, less than "
            f"the {graph.recall:.1%} asked for: groups of rows are too tight, for their distance "
            "from each other, for single precision.",
            "{exact_search}",
        )
    crowded, n_samples = graph.crowded_rows(), graph.n_samples_
    if crowded.size:
        facts = (
            f"{crowded.size:,} of {n_samples:,} rows equal all of their nearest neighbors"
            f"{_listed(crowded)}: distances say little about them."
        )
        warn_of_equal_rows(facts, ONE_MACHINE, crowded)
    weak = graph.weak_rows()
    n_alone = int((graph.strengths[weak] == 0).sum())
    warn_of_isolated_rows(weak.size, n_alone, n_samples, ONE_MACHINE, weak)


def warn_of_unsupervised_rows(graph: Graph, bags: Bags) -> None:
    """Warn of rows of a graph that no label and no known total reaches."""
    rows = np.flatnonzero(unsupervised_rows(graph, bags))
    warn_of_unreached_rows(rows.size, bags.n_samples, ONE_MACHINE, rows)


def warn_of_solution(solution: Solution, tol: float) -> None:
    """Warn of a run that did not converge, and of totals that admit several answers."""
    details = (
        f": stationarity {solution.stationarity:.1e}, constraint residual {solution.residual:.1e}, "
        f"tol {tol:g}"
    )
    warn_of_status(solution.status, solution.n_iter, details)
    if solution.propagation_residual > 1e-6:
        warn(
            ConvergenceWarning,
            "Propagation was solved only to a relative residual of "
            f"{solution.propagation_residual:.1e}: soft labels are that inexact.",
            "Lower {alpha}.",
        )
    n_starts = solution.n_probes + solution.probes_left
    stopped = (
        f"the comparison stopped after {solution.n_probes} of {n_starts} random starts, because "
        "they took much longer than the first run"
    )
    if solution.unique is False:
        also = f" ({stopped})" if solution.probes_left else ""
        warn_of_several_answers(
            f"The totals admit several labelings: {solution.n_starts} starts ended in different "
            f"soft labels of equal energy, and the one with the smoothest labels was kept{also}.",
            ONE_MACHINE,
        )
    elif solution.probes_left:
        warn_of_unknown_uniqueness(
            stopped,
            "Raise {n_probes} to let them take longer, or {tol} to let every run end sooner; with "
            "{n_probes} 0 nothing is compared.",
        )
