"""The totals of bags that were held out: what was predicted, and what was given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion._utils.groups import Groups
from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.bag_report import BagReport

N_DEVIATIONS = 2.0
"""Standard deviations within which about 95 % of the totals should lie, if rows err independently
of each other."""


@dataclass(frozen=True)
class HeldOutTotals:
    """Predicted and given totals of the bags that were held out, in rows.

    Attributes
    ----------
    bags : ndarray of shape (n_held_out,)
        The bags that were held out, as positions in the report.
    predicted : ndarray of shape (n_held_out, n_classes)
        The sums of the probabilities p of their rows, which did not depend on their totals.
    deviation : ndarray of shape (n_held_out, n_classes)
        The standard deviations of the totals, if rows err independently: the roots of Σ p (1 - p).
    lower, upper : ndarray of shape (n_held_out, n_classes)
        The given totals; equal if they are exact.
    known : ndarray of shape (n_held_out, n_classes)
        Which totals say anything; others may have any value from 0 to the size of the bag.
    """

    bags: IntArray
    predicted: FloatArray
    deviation: FloatArray
    lower: FloatArray
    upper: FloatArray
    known: BoolArray

    @property
    def given(self) -> FloatArray:
        """The given totals; of an interval, the value nearest to the predicted one."""
        return np.clip(self.predicted, self.lower, self.upper)

    @property
    def n_known(self) -> int:
        """The number of totals that say anything."""
        return int(self.known.sum())

    @property
    def share_within(self) -> float:
        """The share of the totals within two standard deviations of the predicted ones."""
        far = np.abs(self.given - self.predicted) > N_DEVIATIONS * self.deviation + 1e-9
        return float(1.0 - far[self.known].mean()) if self.n_known else np.nan

    def thinned(self, most: int) -> HeldOutTotals:
        """Return about so many totals, evenly spread over the predicted totals of a class."""
        n_bags, n_classes = self.predicted.shape
        n_kept = max(most // max(n_classes, 1), 1)
        if n_bags <= n_kept:
            return self
        order = np.argsort(self.predicted[:, 0], kind="stable")
        kept = np.sort(order[np.linspace(0, n_bags - 1, n_kept).astype(np.intp)])
        return HeldOutTotals(
            self.bags[kept],
            self.predicted[kept],
            self.deviation[kept],
            self.lower[kept],
            self.upper[kept],
            self.known[kept],
        )


def held_out_totals(
    probabilities: FloatArray, bag_codes: IntArray, report: BagReport
) -> HeldOutTotals:
    """Return the totals of the bags all of whose rows were held out.

    Parameters
    ----------
    probabilities : ndarray of shape (n_samples, n_classes)
        Class probabilities by models that did not see the row's totals; NaN for other rows.
    bag_codes : ndarray of shape (n_samples,)
        The bag of each row, as a position in the report; -1 = in none.
    report : BagReport
        The given totals.

    Examples
    --------
    >>> P = np.array([[0.9, 0.1], [0.8, 0.2], [np.nan, np.nan]])
    >>> exact = np.array([[2.0, 0.0], [1.0, 0.0]])
    >>> report = BagReport(("mon", "tue"), np.array(["a", "b"]), np.array([2, 1]), exact, exact,
    ...                    {"quota": exact.astype(int)}, "quota")
    >>> totals = held_out_totals(P, np.array([0, 0, 1]), report)
    >>> totals.bags.tolist(), totals.predicted.round(2).tolist(), totals.given.tolist()
    ([0], [[1.7, 0.3]], [[2.0, 0.0]])
    """
    seen = np.asarray(np.isfinite(probabilities).all(axis=1))
    groups = Groups(np.where(seen, bag_codes, -1), len(report.ids))
    P = np.where(seen[:, None], probabilities, 0.0)
    bags = np.flatnonzero((groups.sizes > 0) & (groups.sizes == report.sizes))
    sizes = groups.sizes[bags, None]
    lower, upper = report.lower[bags], np.minimum(report.upper[bags], sizes)
    return HeldOutTotals(
        bags,
        groups.sum(P)[bags],
        np.sqrt(np.maximum(groups.sum(P * (1.0 - P)), 0.0))[bags],
        lower,
        upper,
        # As in the likelihood of held-out totals: what is known to less than a row more than
        # nothing says nothing.
        upper - lower < sizes - 0.5,
    )
