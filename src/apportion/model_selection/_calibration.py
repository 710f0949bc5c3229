"""Calibrate probabilities by the likelihood of totals that their model has not seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import log_ndtr, logsumexp, softmax, stdtr

from apportion._io.archive import Stored, numbers
from apportion._io.model_state import State, StateReader
from apportion._utils.arrays import row_softmax
from apportion._utils.groups import Groups
from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.supervision.bags import Bags

TEMPERATURES = np.array(
    [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1, 1.2, 1.5, 2, 2.5, 3, 4, 6]
)
"""Exponents of the probabilities that are compared. At 0 nothing is known but the class shares."""

DISPERSIONS = np.array([0.0, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3])
"""Between-bag variances that are compared, in units of share · (1 - share)."""

_LEAST = 1e-6
"""Probabilities below this are raised to it: none is certain without a label."""

_DETECTED = 3.0
"""Standard errors by which the features of bags must differ more than those of random bags."""

_LEAST_FREEDOM = 5
"""How many more bags than classes there must be to tell label shift from other differences."""

_FREEDOM = 4.0
"""The degrees of freedom of Student's distribution, for bags that are not random."""

_NEGLIGIBLE = 1e-3
"""Temperatures of less weight, relative to the likeliest one, are left out of averages."""

_STEPS, _SHARES_MET = 50, 1e-9


@dataclass(frozen=True)
class KnownTotals:
    """What is known of rows that were held out: the totals of their bags, and given labels.

    Attributes
    ----------
    rows : ndarray of int
        The rows that were held out.
    groups : Groups
        These rows by bag, without those whose label is given.
    lower, upper : ndarray of shape (n_bags, n_classes)
        Bounds of the class masses of their open rows.
    labeled, labels : ndarray of int
        The rows among `rows` that have a given label, and these labels.
    overall : ndarray of shape (n_classes,)
        The class shares of all rows.
    random_bags : bool
        Whether the bags look like random draws of rows.
    label_shift : bool
        Whether the bags differ only in how many rows of each class they have.
    """

    rows: IntArray
    groups: Groups
    lower: FloatArray
    upper: FloatArray
    labeled: IntArray
    labels: IntArray
    overall: FloatArray
    random_bags: bool
    label_shift: bool

    @property
    def n_known(self) -> int:
        """The number of bags with a known total, and of labeled rows."""
        sizes = self.groups.sizes[:, None]
        informative = ((self.upper - self.lower < sizes - 0.5) & (sizes > 0)).any(axis=1)
        return int(informative.sum()) + len(self.labeled)


def known_totals(bags: Bags, held_out: BoolArray, X: FloatArray) -> KnownTotals:
    """Return what is known of the rows that were held out; their bags are held out as a whole."""
    rows = np.flatnonzero(held_out)
    given = bags.given[rows]
    used = np.unique(bags.codes[rows][bags.codes[rows] >= 0])
    position = np.full(len(bags.ids) + 1, -1)
    position[used] = np.arange(len(used))
    codes = np.where(given >= 0, -1, position[bags.codes[rows]])
    labeled = np.flatnonzero(given >= 0)
    random = random_bags(X, bags.groups)
    return KnownTotals(
        rows,
        Groups(codes, len(used)),
        bags.open_lower[used],
        bags.open_upper[used],
        labeled,
        given[labeled],
        bags.overall,
        random,
        not random and _shares_explain(X, bags),
    )


@dataclass(frozen=True)
class Calibration:
    """A posterior over temperatures and between-bag variances of one model's probabilities.

    Attributes
    ----------
    weights : ndarray of shape (n_temperatures, n_dispersions)
        The posterior, which sums to 1.
    shifts : ndarray of shape (n_temperatures, n_classes)
        The class shifts that make the mean probabilities the overall shares, by temperature.
    log_likelihood : float
        The log-likelihood of the held-out totals, averaged over the prior, minus that of a model
        that knows the class shares only.
    held_out : ndarray of shape (n_held_out, n_classes)
        Calibrated probabilities of the rows that were held out.
    accuracies : ndarray of shape (n_temperatures,)
        The mean of the largest probability of a held-out row, by temperature.
    temperatures : ndarray of shape (n_temperatures,)
        The temperatures.
    """

    weights: FloatArray
    shifts: FloatArray
    log_likelihood: float
    held_out: FloatArray
    accuracies: FloatArray
    temperatures: FloatArray = field(default_factory=lambda: TEMPERATURES)

    @property
    def temperature(self) -> float:
        """The posterior mean of the temperature."""
        return float(self.weights.sum(axis=1) @ self.temperatures)

    @property
    def dispersion(self) -> float:
        """The posterior mean of the between-bag variance."""
        return float(self.weights.sum(axis=0) @ DISPERSIONS)

    def with_shifts_for(self, probabilities: FloatArray, overall: FloatArray) -> Calibration:
        """Return the same calibration with shifts that meet the overall shares on these rows.

        Methods that did not see a bag may be biased on it. Their shifts would be wrong for a method
        that has seen all bags.
        """
        logs = np.log(np.clip(probabilities, _LEAST, None))
        shift = np.log(np.clip(overall, _LEAST, None))
        shifts = np.empty_like(self.shifts)
        for t, temperature in enumerate(self.temperatures):
            _, shift = meet_shares(temperature * logs, overall, shift)
            shifts[t] = shift
        return replace(self, shifts=shifts)

    def without_temperature(self, held_out: FloatArray) -> Calibration:
        """Return a calibration of the same likelihood that leaves probabilities as they are."""
        same = uncalibrated(held_out.shape[1])
        return replace(same, log_likelihood=self.log_likelihood, held_out=held_out)

    def __call__(self, probabilities: FloatArray) -> FloatArray:
        """Return the calibrated probabilities: their mean over the posterior."""
        weights = self.weights.sum(axis=1)[self.likely]
        calibrated = sum(w * P for w, P in zip(weights, self.tempered(probabilities), strict=True))
        return np.asarray(calibrated / np.sum(calibrated, axis=1, keepdims=True))

    @property
    def likely(self) -> IntArray:
        """The temperatures, as positions, that are not too unlikely to count."""
        weights = self.weights.sum(axis=1)
        return np.flatnonzero(weights > _NEGLIGIBLE * weights.max())

    def tempered(self, probabilities: FloatArray) -> Iterator[FloatArray]:
        """Yield the probabilities at each of the likely temperatures."""
        logs = np.log(np.clip(probabilities, _LEAST, None))
        for t in self.likely:
            yield np.asarray(row_softmax(self.temperatures[t] * logs + self.shifts[t]))

    def state(self) -> State:
        """Return what new probabilities need. Later versions may compare other temperatures."""
        keys = ("temperatures", "weights", "shifts")
        return State(arrays={key: getattr(self, key) for key in keys})

    @classmethod
    def from_state(cls, state: StateReader) -> Calibration:
        """Return the calibration of a file, without what is known of held-out rows."""
        temperatures = state.array("temperatures", Stored(("temperatures",), least=0.0, most=1e3))
        form = Stored(("temperatures", "dispersions"), least=0.0, most=1.0)
        weights = state.array("weights", form)
        if abs(float(weights.sum()) - 1.0) > 1e-6:
            state.refuse_array("weights", f"a sum of {weights.sum():g}", "weights that sum to 1")
        shifts = state.array("shifts", numbers("temperatures", "classes", size=1e9))
        none, unknown = np.zeros((0, shifts.shape[1])), np.full(len(weights), np.nan)
        return cls(weights, shifts, np.nan, none, unknown, temperatures)


# Probabilities P of rows whose totals the model has not seen become P_t ∝ exp(t log P + s). The
# shifts s make their mean the overall class shares. What remains is the temperature t: is a model
# sure because it knows, or by mistake? If rows are independent given P_t, the count of class h in a
# bag has mean Σ p_ih and variance Σ p_ih (1 - p_ih). A model that is too sure misses the counts by
# more than that, one that is not sure enough by less. Rows of one bag may also err together, which
# adds ρ n (n-1) m (1-m), as in a beta-binomial; m is the predicted share. The likelihood is that of
# a normal variable that falls within half a row of the total, or of the interval that is known, so
# that unknown cells say nothing. Where bags are people or days, some are misjudged altogether; a
# Student distribution keeps these few from deciding about all others (WISDM by user: accuracy
# .73, estimated .61 with a normal and .76 with a Student distribution). Counts of c classes have
# c - 1 degrees of freedom, therefore the factor (c - 1) / c.
def calibrate(probabilities: FloatArray, known: KnownTotals) -> Calibration:
    """Return the posterior of temperature and between-bag variance given held-out totals.

    Parameters
    ----------
    probabilities : ndarray of shape (n_held_out, n_classes)
        Class probabilities of the rows `known.rows`, by models that did not see their totals.
    known : KnownTotals
        What is known of these rows.
    """
    logs = np.log(np.clip(probabilities, _LEAST, None))
    dispersions = DISPERSIONS[:1] if known.random_bags else DISPERSIONS
    shift = np.log(np.clip(known.overall, _LEAST, None))
    log_likelihoods = np.full((len(TEMPERATURES), len(DISPERSIONS)), -np.inf)
    shifts, accuracies, tempered = [], [], []
    for t, temperature in enumerate(TEMPERATURES):
        P, shift = meet_shares(temperature * logs, known.overall, shift)
        labels = _log_likelihood_of_labels(P, known)
        for r, dispersion in enumerate(dispersions):
            of_totals = bag_log_likelihoods(P, known, dispersion).sum()
            log_likelihoods[t, r] = of_totals + labels
        shifts.append(shift)
        accuracies.append(P.max(axis=1).mean())
        tempered.append(P)
    prior = _log_prior(known.random_bags)
    weights = softmax((log_likelihoods + prior).ravel()).reshape(log_likelihoods.shape)
    null = logsumexp((log_likelihoods + prior)[0] - logsumexp(prior[0]))
    return Calibration(
        weights,
        np.array(shifts),
        float(logsumexp(log_likelihoods + prior) - null),
        np.tensordot(weights.sum(axis=1), tempered, axes=1),
        np.array(accuracies),
    )


def uncalibrated(n_classes: int) -> Calibration:
    """Return the calibration that leaves probabilities as they are."""
    weights = np.zeros((len(TEMPERATURES), len(DISPERSIONS)))
    weights[TEMPERATURES == 1.0, 0] = 1.0
    shifts, none = np.zeros((len(TEMPERATURES), n_classes)), np.zeros((0, n_classes))
    return Calibration(weights, shifts, np.nan, none, np.full(len(TEMPERATURES), np.nan))


# Totals of random bags fix the temperature well, and all values are equally likely before. Between
# bags that are not random, the errors of a method vary, and the temperature is known less: it is
# then taken to be near 1, within a factor of 1.6 either way.
def _log_prior(random: bool) -> FloatArray:
    """Return the logarithms of the prior of temperatures and between-bag variances."""
    prior = np.zeros((len(TEMPERATURES), len(DISPERSIONS)))
    if random:
        prior[:, 1:] = -np.inf
    else:
        logs = np.log(np.maximum(TEMPERATURES, TEMPERATURES[1]))
        prior -= 0.5 * (logs[:, None] / np.log(1.6)) ** 2
    return np.asarray(prior - logsumexp(prior))


def meet_shares(
    logits: FloatArray, shares: FloatArray, shift: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return softmax(logits + shift) whose mean over rows is `shares`, and the shift, by Newton.

    `argmin_s mean_i log Σ_h exp(l_ih + s_h) - Σ_h shares_h s_h`, which is convex.
    """
    for _ in range(_STEPS):
        P = np.asarray(row_softmax(logits + shift))
        mean = P.mean(axis=0)
        gradient = shares - mean
        if np.abs(gradient).max() <= _SHARES_MET:
            break
        hessian = np.diag(mean) - P.T @ P / len(P)
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-10)[0]
        shift = shift + np.clip(step - step.mean(), -2.0, 2.0)
    return P, shift


def bag_log_likelihoods(
    P: FloatArray, known: KnownTotals, dispersion: float | np.floating
) -> FloatArray:
    """Return the log-likelihood of every bag's totals."""
    n, c = known.groups.sizes[:, None], P.shape[1]
    mean, variance = known.groups.sum(P), known.groups.sum(P * (1.0 - P))
    share = mean / np.maximum(n, 1.0)
    variance = variance + dispersion * n * np.maximum(n - 1.0, 0.0) * share * (1.0 - share)
    deviation = np.sqrt(variance + _LEAST)
    low = (known.lower - 0.5 - mean) / deviation
    high = (known.upper + 0.5 - mean) / deviation
    between = _log_normal_between if known.random_bags else _log_student_between
    return np.asarray((c - 1) / c * between(low, high).sum(axis=1))


def _log_likelihood_of_labels(P: FloatArray, known: KnownTotals) -> float:
    return float(np.log(np.clip(P[known.labeled, known.labels], _LEAST, None)).sum())


def _log_normal_between(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return log(Φ(high) - Φ(low)) for low < high, accurately in both tails."""
    mirrored = low > 0
    below = log_ndtr(np.where(mirrored, -high, low))
    above = log_ndtr(np.where(mirrored, -low, high))
    return np.asarray(above + np.log1p(-np.exp(np.minimum(below - above, -1e-12))))


def _log_student_between(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the same for Student's distribution."""
    mirrored = low > 0
    below = stdtr(_FREEDOM, np.where(mirrored, -high, low))
    above = stdtr(_FREEDOM, np.where(mirrored, -low, high))
    return np.asarray(np.log(np.maximum(above - below, 1e-300)))


# If rows were dealt to bags at random, rows of one bag err independently, and a between-bag
# variance would only be fitted to noise. If bags differ only in how many rows of each class they
# have (label shift), a class looks alike in every bag, as mean maps assume, and the share of a
# class among rows of equal features differs from bag to bag. Both are tested by the features alone:
# the ratio F of their variance between bags, as far as the design does not explain it, to that
# within bags has mean 1 and variance 2 / df if the design explains all. The mean ratio over d
# features has the variance of `d_effective` independent ones, (Σλ)² / Σλ² for the eigenvalues λ of
# the features' covariance.
def random_bags(X: FloatArray, groups: Groups) -> bool:
    """Return whether bags look like random draws of rows: their feature means differ no more."""
    return _explains(np.ones((groups.n_groups, 1)), X, groups)


def _shares_explain(X: FloatArray, bags: Bags) -> bool:
    """Return whether the feature means of bags differ as their class shares do, and no more."""
    # With hardly more bags than classes, class shares explain any features.
    enough = len(bags.ids) >= bags.n_classes + _LEAST_FREEDOM
    return enough and _explains(bags.shares, X, bags.groups)


def _explains(design: FloatArray, X: FloatArray, groups: Groups) -> bool:
    """Return whether the feature means of bags are linear in a design, but for chance."""
    inside, present = groups.codes >= 0, groups.sizes > 0
    design, n = design[present], int(inside.sum())
    freedom = len(design) - int(np.linalg.matrix_rank(design)) if len(design) else 0
    spread = X[inside].std(axis=0) if n else np.zeros(X.shape[1])
    if freedom < 1 or n <= len(design) or not (spread > 0).any():
        return True
    rows = X[inside][:, spread > 0]
    rows = (rows - rows.mean(axis=0)) / spread[spread > 0]
    codes = (np.cumsum(present) - 1)[groups.codes[inside]]
    in_bags = Groups(codes, len(design))
    roots = np.sqrt(in_bags.sizes)[:, None]
    means = in_bags.sum(rows) / roots
    coefficients = np.linalg.lstsq(roots * design, means, rcond=1e-10)[0]
    between = ((means - roots * design @ coefficients) ** 2).sum(axis=0)
    within = n - (means**2).sum(axis=0)
    ratio = between / freedom / np.maximum(within / (n - len(design)), 1e-12)
    correlations = rows.T @ rows / n
    d_effective = np.trace(correlations) ** 2 / (correlations**2).sum()
    return bool(ratio.mean() < 1.0 + _DETECTED * np.sqrt(2.0 / freedom / d_effective))
