"""The likelihood of a bag's count, if its rows are independent, and what it says of each row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit, logit

from apportion._utils.groups import Groups
from apportion._utils.typing import BoolArray, FloatArray, IntArray

EXACT_ROWS = 64
"""Counts of bags up to this size are exact; a bag of m rows costs m² operations. Beyond, the normal
approximation of a count is off by a few percent of a standard deviation."""

_BLOCK_BYTES = 2**25
"""The largest table of partial counts that is held at a time."""

_LEAST_VARIANCE = 1.0 / (2.0 * np.pi)
"""The least variance of a count's normal approximation, whose density is then at most 1, like the
probability of a count."""


class CountFit(NamedTuple):
    """How well counts fit independent rows.

    Attributes
    ----------
    log_likelihood : ndarray of shape (n_bags,)
        log P(count) of every bag.
    gradient : ndarray of shape (n_samples,)
        Its gradient with respect to the rows' logits; 0 for rows in no bag.
    """

    log_likelihood: FloatArray
    gradient: FloatArray


class CountLikelihood:
    """log P(Σ_i y_i = count) of every bag, for independent y_i with P(y_i = 1) = σ(logit_i).

    The sum of a bag is Poisson binomial. Up to `exact_rows` rows its probability is exact; its
    gradient with respect to a logit is r_i - p_i, with r_i = P(y_i = 1 | count). Beyond, it is that
    of N(Σ_i p_i, Σ_i p_i (1 - p_i) + between n² m (1 - m)), where m is the mean of the p_i. A count
    that is not a whole number is its two neighbors with weights: P is interpolated.

    Parameters
    ----------
    groups : Groups
        The rows by bag.
    counts : ndarray of shape (n_bags,)
        How many rows of each bag are 1.
    exact_rows : int
        The size of the largest bag that is treated exactly.
    between : float
        The variance between large bags that the rows do not explain, relative to m (1 - m).

    Examples
    --------
    >>> likelihood = CountLikelihood(Groups(np.array([0, 0]), 1), np.array([1.0]))
    >>> fit = likelihood(np.array([0.0, np.log(3.0)]))  # p = 1/2 and 3/4
    >>> np.exp(fit.log_likelihood).round(6), fit.gradient.round(6)
    (array([0.5]), array([-0.25,  0.  ]))
    """

    def __init__(
        self,
        groups: Groups,
        counts: FloatArray,
        *,
        exact_rows: int = EXACT_ROWS,
        between: float = 0.0,
    ) -> None:
        self._n_samples, self._n_bags = len(groups.codes), groups.n_groups
        self._between = between
        small = (groups.sizes > 0) & (groups.sizes <= exact_rows)
        self._small = list(_tables(groups, counts, small))
        self._large_bags = np.flatnonzero(groups.sizes > exact_rows)
        self._large_rows, self._large = groups.only(groups.sizes > exact_rows)
        self._large_counts = counts[self._large_bags]

    def __call__(self, logits: FloatArray) -> CountFit:
        """Return the likelihood of every bag's count, and its gradient."""
        log_likelihood, gradient = np.zeros(self._n_bags), np.zeros(self._n_samples)
        for table in self._small:
            z = table.arranged(logits)
            log_likelihood[table.bags], posterior = poisson_binomial(z, table.counts)
            inside = table.inside
            gradient[table.rows[inside]] = (table.sign * (posterior - expit(z)))[inside]
        if self._large_bags.size:
            fit = self._normal(logits[self._large_rows])
            log_likelihood[self._large_bags] = fit.log_likelihood
            gradient[self._large_rows] = fit.gradient
        return CountFit(log_likelihood, gradient)

    def _normal(self, logits: FloatArray) -> CountFit:
        """Return log N(count; Σ p, V) of the large bags, and its gradient."""
        groups, n = self._large, self._large.sizes
        p = expit(logits)
        noise = p * expit(-logits)
        mean = groups.sum(p) / n
        between = self._between * n**2
        variance = groups.sum(noise) + between * mean * (1.0 - mean) + _LEAST_VARIANCE
        excess = self._large_counts - n * mean
        log_likelihood = -0.5 * (excess**2 / variance + np.log(2.0 * np.pi * variance))
        by_variance = 0.5 * (excess**2 / variance - 1.0) / variance
        by_mean = excess / variance + by_variance * between * (1.0 - 2.0 * mean) / n
        by_row = groups.spread(by_mean) + groups.spread(by_variance) * (1.0 - 2.0 * p)
        return CountFit(log_likelihood, noise * by_row)


def count_posterior(
    p: FloatArray, groups: Groups, counts: FloatArray, *, exact_rows: int = EXACT_ROWS
) -> FloatArray:
    """Return P(y_i = 1 | the bag's count) of every row, for independent rows with P(y_i = 1) = p_i.

    In bags up to `exact_rows` rows it is exact. In larger ones it is σ(logit p_i + λ), with the λ
    per bag at which the posteriors sum to the count: the limit of large bags. The posteriors of a
    bag sum to its count either way, if that is a whole number; of another count in a small bag they
    are those of its two neighbors, averaged by their probabilities. Rows in no bag keep their p_i.
    Of several classes, ask for each against the rest, and normalize.

    Examples
    --------
    >>> groups = Groups(np.array([0, 0, -1]), 1)
    >>> count_posterior(np.array([0.5, 0.75, 0.2]), groups, np.array([1.0])).round(6)
    array([0.25, 0.75, 0.2 ])
    """
    # The largest number below 1 keeps the logit finite; p = 0 is as good as 1e-300.
    logits = logit(np.clip(p, 1e-300, 1.0 - 2.0**-53))
    posterior = np.array(p, dtype=np.float64)
    small = groups.sizes <= exact_rows
    for table in _tables(groups, counts, small & (groups.sizes > 0)):
        z = table.arranged(logits)
        table.scatter(poisson_binomial(z, table.counts)[1], posterior)
    for table in _tables(groups, counts, ~small, partial_counts=False):
        z = table.arranged(logits)
        shifted = expit(z + shift_to_counts(z, table.counts, 1e-10))
        # Of a bag in which no row is counted, the shift would be infinite.
        table.scatter(np.where(table.counts > 0, shifted, 0.0), posterior)
    return posterior


def poisson_binomial(logits: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log P(count) of bags, one per column, and every row's posterior given the count.

    Rows that only fill up a column have the logit -inf. The table of partial counts,
    A_j[s] = P(s among the first j rows), and that of the rest, B_j[s] = P(the count | s among the
    first j rows), have only nonnegative terms, so that no digits cancel. They could underflow where
    the count is unlikely. Therefore the logits of a bag are first shifted such that the count is
    about the mean. This leaves the posterior unchanged, because all rows that make up the count
    gain the same factor, and changes P(count) by a known factor.

    Parameters
    ----------
    logits : ndarray of shape (n_rows, n_bags)
    counts : ndarray of shape (n_bags,)

    Returns
    -------
    log_likelihood : ndarray of shape (n_bags,)
    posterior : ndarray of shape (n_rows, n_bags)
    """
    shift = shift_to_counts(logits, counts, 0.1)
    q, rest = expit(logits + shift), expit(-logits - shift)
    n_rows = len(q)
    target, log_unit = _target(counts, shift)
    first = np.zeros((n_rows + 1, *target.shape))
    first[0, 0] = 1.0
    for j in range(n_rows):
        np.multiply(first[j], rest[j], out=first[j + 1])
        first[j + 1, 1:] += first[j, :-1] * q[j]
    probability = (first[-1] * target).sum(axis=0)
    posterior = np.empty_like(q)
    last, one_more = target, np.zeros_like(target)
    for j in range(n_rows - 1, -1, -1):
        one_more[:-1] = last[1:]
        one_more *= q[j]
        posterior[j] = np.einsum("sk,sk->k", first[j], one_more)
        last = last * rest[j]
        last += one_more
    # P(count) = P'(count) exp(-shift · count) Π_i (1 - p_i) / (1 - p'_i)
    moved = np.where(np.isfinite(logits), logits, 0.0)
    factors = log_expit(-moved) - log_expit(-moved - shift)
    log_factor = np.where(np.isfinite(logits), factors, 0.0).sum(axis=0)
    log_likelihood = np.log(probability) + log_unit + log_factor
    return log_likelihood, np.minimum(posterior / probability, 1.0)


def _target(counts: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weights of the counts 0, 1, … by which P' is summed, and the log of their unit.

    They are exp(-shift · s) for the count s, in a unit in which the largest is 1.
    """
    low = np.floor(counts)
    part = counts - low
    states = np.arange(int(np.ceil(counts).max(initial=0.0)) + 1)[:, None]
    with np.errstate(divide="ignore"):
        logs = np.where(states == low, np.log1p(-part), -np.inf)
        logs = np.where(states == low + 1.0, np.log(part), logs) - shift * states
    unit = logs.max(axis=0)
    return np.exp(logs - unit), unit


def shift_to_counts(logits: FloatArray, counts: FloatArray, tol: float) -> FloatArray:
    """Return the shift λ of every column with Σ_i σ(logit_i + λ) = count, up to `tol` rows.

    Counts are kept half a row away from none and all, where λ would be infinite. Newton steps
    inside a shrinking bracket, all columns at once.
    """
    inside = np.isfinite(logits)
    n = inside.sum(axis=0)
    margin = np.minimum(0.5, 0.5 * n)
    wanted = np.clip(counts, margin, n - margin)
    level = logit(wanted / n)
    left = level - np.where(inside, logits, -np.inf).max(axis=0)
    right = level - np.where(inside, logits, np.inf).min(axis=0)
    shift = level - np.where(inside, logits, 0.0).sum(axis=0) / n
    for _ in range(100):
        q = expit(logits + shift)
        excess = q.sum(axis=0) - wanted
        if np.abs(excess).max(initial=0.0) <= tol:
            break
        left = np.where(excess < 0, shift, left)
        right = np.where(excess > 0, shift, right)
        slope = np.maximum((q * (1.0 - q)).sum(axis=0), 1e-300)
        newton = shift - excess / slope
        usable = (newton > left) & (newton < right)
        shift = np.where(usable, newton, 0.5 * (left + right))
    return shift


class _Table(NamedTuple):
    """Bags of similar size side by side, one per column.

    Attributes
    ----------
    rows : ndarray of shape (n_rows, n_bags)
        The rows of each bag; columns are filled up with -1.
    bags : ndarray of shape (n_bags,)
        The bags.
    sign : ndarray of shape (n_bags,)
        -1 where more than half of the rows are 1, so that those that are 0 are counted instead.
    counts : ndarray of shape (n_bags,)
        The counts, at most half of the rows.
    """

    rows: IntArray
    bags: IntArray
    sign: FloatArray
    counts: FloatArray

    @property
    def inside(self) -> BoolArray:
        """Where a row is."""
        return self.rows >= 0

    def arranged(self, logits: FloatArray) -> FloatArray:
        """Return the logits of what is counted, -inf where no row is."""
        return np.where(self.inside, self.sign * logits[self.rows], -np.inf)

    def scatter(self, posterior: FloatArray, target: FloatArray) -> None:
        """Write probabilities of what is counted to their rows, as probabilities of 1."""
        of_one = np.where(self.sign > 0, posterior, 1.0 - posterior)
        target[self.rows[self.inside]] = of_one[self.inside]


def _tables(
    groups: Groups, counts: FloatArray, chosen: BoolArray, *, partial_counts: bool = True
) -> Iterator[_Table]:
    """Yield the chosen bags in tables of sizes that differ by less than a factor of two.

    Tables are small enough for all partial counts of their bags, if these are needed.
    """
    by_bag = np.argsort(groups.codes, kind="stable")
    by_bag = np.append(by_bag[len(groups.codes) - int(groups.sizes.sum()) :], -1)
    sizes = groups.sizes.astype(np.intp)
    begins = np.cumsum(sizes) - sizes
    octave = np.where(chosen, np.ceil(np.log2(np.maximum(sizes, 1))), -1)
    for exponent in np.unique(octave[octave >= 0]):
        bags = np.flatnonzero(octave == exponent)
        m = int(sizes[bags].max())
        step = max(1, _BLOCK_BYTES // (8 * (m + 1) * (m // 2 + 2 if partial_counts else 1)))
        for block in np.split(bags, range(step, len(bags), step)):
            place = np.arange(m)[:, None]
            rows = by_bag[np.where(place < sizes[block], begins[block] + place, -1)]
            n, count = groups.sizes[block], np.clip(counts[block], 0.0, groups.sizes[block])
            many = count > 0.5 * n
            sign = np.where(many, -1.0, 1.0)
            yield _Table(rows, block, sign, np.where(many, n - count, count))
