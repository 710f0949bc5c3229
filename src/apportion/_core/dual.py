"""One multiplier per bag (and class) that moves every bag's sums onto their totals.

Both problems solved here have the same shape: rows answer a price, λ of their bag, with soft labels
g(λ); the sums of a bag's answers must meet its totals. All bags are solved side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from apportion._utils.groups import Groups
from apportion._utils.typing import BoolArray, FloatArray, IntArray

_HALVINGS = 40

_IDLE_STEPS = 5
"""Steps in a row that neither lower the dual by more than rounding nor halve its gradient, after
which a group is left as it is: further steps would cost time and meet its totals no better."""


class Response(NamedTuple):
    """What rows answer to their bag's multipliers, and what the answers are worth."""

    labels: FloatArray
    value: FloatArray


class Curvature(NamedTuple):
    """The derivatives of rows' answers, `diag(straight) - crossed crossedᵀ` each."""

    straight: FloatArray
    crossed: FloatArray


@dataclass(frozen=True)
class SimplexResponse:
    """Nearest point of the simplex: argmax_g λ·g - w/2 ‖g - f‖², that is Π(f + λ/w)."""

    f: FloatArray
    weights: FloatArray

    def __call__(self, lam: FloatArray) -> Response:
        """Return the rows' answers to λ, one λ a row."""
        w = self.weights[:, None]
        labels = onto_simplex(self.f + lam / w)
        away = labels - self.f
        worth = np.einsum("ih,ih->i", lam, labels)
        return Response(labels, worth - 0.5 * self.weights * np.einsum("ih,ih->i", away, away))

    def curvature(self, answer: Response, rows: IntArray) -> Curvature:
        """Return the derivatives of some rows' answers."""
        support = (answer.labels[rows] > 0).astype(np.float64)
        w = self.weights[rows][:, None]
        return Curvature(support / w, support / np.sqrt(w * support.sum(axis=1, keepdims=True)))

    def take(self, rows: IntArray) -> SimplexResponse:
        """Return the same question for some rows."""
        return SimplexResponse(self.f[rows], self.weights[rows])


@dataclass(frozen=True)
class SoftmaxResponse:
    """Nearest point in relative entropy: argmax_g λ·g - KL(g ‖ softmax logits).

    A row that stands for several equal ones answers `multiplicity` times.
    """

    logits: FloatArray
    multiplicity: FloatArray

    def __call__(self, lam: FloatArray) -> Response:
        """Return the rows' answers to λ, one λ a row."""
        raised = self.logits + lam
        top = raised.max(axis=1, keepdims=True)
        labels = np.exp(raised - top)
        total = labels.sum(axis=1, keepdims=True)
        labels /= total
        times = self.multiplicity
        value = times * (top + np.log(total))[:, 0]
        return Response(times[:, None] * labels, value)

    def curvature(self, answer: Response, rows: IntArray) -> Curvature:
        """Return the derivatives of some rows' answers."""
        labels = answer.labels[rows]
        return Curvature(labels, labels / np.sqrt(self.multiplicity[rows])[:, None])

    def take(self, rows: IntArray) -> SoftmaxResponse:
        """Return the same question for some rows."""
        return SoftmaxResponse(self.logits[rows], self.multiplicity[rows])


def meet_totals(
    respond: SimplexResponse | SoftmaxResponse,
    groups: Groups,
    lower: FloatArray,
    upper: FloatArray,
    *,
    reach: FloatArray,
    start: FloatArray | None = None,
    tol: float = 1e-12,
    max_iter: int = 200,
) -> tuple[FloatArray, FloatArray]:
    """Find λ (n_groups × c) whose answers sum to totals within [lower, upper] in every group.

    λ minimizes the convex dual `Σ_i value_i(λ) - Σ_h (λ⁺ lower - λ⁻ upper)`: λ_kh is positive where
    the sum rests on its lower bound, negative on its upper, 0 between, free where both are equal.
    Regularized Newton steps with a line search per group, kept in the orthant they start in.

    Parameters
    ----------
    respond : SimplexResponse or SoftmaxResponse
        The rows' answers.
    groups : Groups
        The rows' groups; rows in no group answer λ = 0.
    lower, upper : ndarray of shape (n_groups, n_classes)
        The totals.
    reach : ndarray of shape (n_groups,)
        The longest step worth trying, for each group.
    start : ndarray of shape (n_groups, n_classes), optional
        Multipliers to start from.

    Returns
    -------
    labels : ndarray of shape (n_samples, n_classes)
    multipliers : ndarray of shape (n_groups, n_classes)
    """
    multipliers = np.zeros(lower.shape) if start is None else start.copy()
    labels = np.empty((len(groups.codes), lower.shape[1]))
    pending = np.arange(groups.n_groups)
    fell = np.ones(groups.n_groups, dtype=bool)
    reference = np.full(groups.n_groups, np.inf)
    idle = np.zeros(groups.n_groups, dtype=np.intp)
    rows = np.arange(len(groups.codes))
    part, inner = respond, groups
    scale = tol * np.maximum(groups.sizes, 1.0)
    caution = np.full(groups.n_groups, 1e-3)
    answer: Response | None = None
    for _ in range(max_iter):
        low, high = lower[pending], upper[pending]
        lam = best_common_shift(multipliers[pending], low, high, groups.sizes[pending])
        if answer is None or not np.array_equal(lam, multipliers[pending]):
            answer = part(inner.spread(lam))
        multipliers[pending] = lam
        labels[rows] = answer.labels
        gradient = dual_gradient(lam, inner.sum(answer.labels), low, high)
        steepness = np.abs(gradient).max(axis=1)
        better = fell[pending] | (steepness <= 0.5 * reference[pending])
        reference[pending] = np.where(better, steepness, reference[pending])
        idle[pending] = np.where(better, 0, idle[pending] + 1)
        wrong = (steepness > scale[pending]) & (idle[pending] < _IDLE_STEPS)
        if not wrong.any():
            break
        if not wrong.all():
            kept, inner = inner.only(wrong)
            rows, part, pending = rows[kept], part.take(kept), pending[wrong]
            lam, low, high = lam[wrong], low[wrong], high[wrong]
            gradient = gradient[wrong]
            answer = Response(*(piece[kept] for piece in answer))
        direction = newton_step(
            group_hessian(part, answer, inner),
            inner.sizes,
            lam,
            low,
            high,
            gradient,
            reach[pending],
            caution[pending],
        )
        multipliers[pending], whole, fell[pending], answer = _line_search(
            part, inner, lam, low, high, gradient, direction, answer
        )
        caution[pending] = np.clip(caution[pending] * np.where(whole, 0.1, 10.0), 1e-12, 1e-2)
    return labels, multipliers


def onto_simplex(V: FloatArray) -> FloatArray:
    """Return argmin_g ‖g - v‖ over the probability simplex, for every row v.

    Examples
    --------
    >>> onto_simplex(np.array([[2.0, 0.0, 0.0], [0.5, 0.5, 0.3]])).round(3)
    array([[1. , 0. , 0. ],
           [0.4, 0.4, 0.2]])
    """
    n_samples, c = V.shape
    if c == 2:
        second = np.clip(0.5 * (1.0 + V[:, 1] - V[:, 0]), 0.0, 1.0)
        return np.column_stack([1.0 - second, second])
    descending = -np.sort(-V, axis=1)
    levels = (np.cumsum(descending, axis=1) - 1.0) / np.arange(1, c + 1)
    last = (descending > levels).sum(axis=1) - 1
    return np.maximum(V - levels[np.arange(n_samples), last][:, None], 0.0)


def dual_gradient(
    lam: FloatArray, sums: FloatArray, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Return the dual's gradient, on the side of 0 that a step would take; 0 where λ rests."""
    between = np.where(sums < low, sums - low, np.where(sums > high, sums - high, 0.0))
    return np.where(lam > 0, sums - low, np.where(lam < 0, sums - high, between))


def best_common_shift(
    lam: FloatArray, low: FloatArray, high: FloatArray, size: FloatArray
) -> FloatArray:
    """Return λ with one number added to each group's multipliers, where the dual is least.

    A common shift changes no answer, so that the dual is piecewise linear along it; its corners
    are where a multiplier with an interval reaches 0.
    """
    interval = low < high
    some = np.flatnonzero(interval.any(axis=1))
    if not some.size:
        return lam
    corners = np.where(interval[some], -lam[some], 0.0)
    shifted = lam[some][:, None, :] + corners[:, :, None]
    bound = np.where(shifted > 0, shifted * low[some][:, None], shifted * high[some][:, None])
    dual = size[some][:, None] * corners - bound.sum(axis=2)
    best = np.argmin(dual, axis=1)
    lam = lam.copy()
    lam[some] += corners[np.arange(len(some)), best][:, None]
    touched = interval[some, best]
    lam[some[touched], best[touched]] = 0.0
    return lam


def group_hessian(
    respond: SimplexResponse | SoftmaxResponse, answer: Response, groups: Groups
) -> FloatArray:
    """Return the derivatives of each group's sums: the second derivatives of the dual."""
    c = answer.labels.shape[1]
    mixed = np.flatnonzero((answer.labels > 0).sum(axis=1) > 1)
    straight, crossed = respond.curvature(answer, mixed)
    some = Groups(groups.codes[mixed], groups.n_groups)
    hessian = np.empty((groups.n_groups, c, c))
    for h in range(c):
        hessian[:, h] = -some.sum(crossed[:, [h]] * crossed)
    diagonal = np.arange(c)
    hessian[:, diagonal, diagonal] += some.sum(straight)
    return hessian


def newton_step(
    hessian: FloatArray,
    sizes: FloatArray,
    lam: FloatArray,
    low: FloatArray,
    high: FloatArray,
    gradient: FloatArray,
    reach: FloatArray,
    caution: FloatArray,
) -> FloatArray:
    """Return the regularized Newton step of each group over the multipliers that may move.

    The Hessian is changed.
    """
    c = lam.shape[1]
    diagonal = np.arange(c)
    size = np.maximum(sizes, 1.0)
    curvature = np.maximum(np.trace(hessian, axis1=1, axis2=2) / c, 1e-6 * size / reach)
    steepness = np.abs(gradient).max(axis=1)
    damping = curvature * np.minimum(caution, np.maximum(steepness / size, 1e-12))
    hessian[:, diagonal, diagonal] += damping[:, None]

    interval = low < high
    near = np.minimum(1e-2 * reach, steepness / curvature)[:, None]
    heading_home = interval & (lam * gradient > 0) & (np.abs(lam) <= near)
    fixed = heading_home | (interval & (gradient == 0) & (lam == 0))
    side = -np.sign(gradient)
    for _ in range(c):
        step = _solve_free(hessian, gradient, ~fixed, curvature)
        backwards = interval & ~fixed & (lam == 0) & (step * side < 0)
        if not backwards.any():
            break
        fixed |= backwards
    step = np.where(heading_home, -lam, step)
    longest = np.abs(step).max(axis=1)
    return step * np.minimum(1.0, reach / np.maximum(longest, 1e-300))[:, None]


def _solve_free(
    hessian: FloatArray, gradient: FloatArray, free: BoolArray, curvature: FloatArray
) -> FloatArray:
    """Return the Newton step of the free multipliers; the others stay.

    Where all are free, a common shift of a group's multipliers changes no answer: the step that
    has none is taken.
    """
    c = gradient.shape[1]
    system = hessian * (free[:, :, None] & free[:, None, :])
    system += (free.all(axis=1) * curvature / c)[:, None, None]
    diagonal = np.arange(c)
    system[:, diagonal, diagonal] += ~free * curvature[:, None]
    return -np.linalg.solve(system, np.where(free, gradient, 0.0)[:, :, None])[:, :, 0]


def _line_search(
    respond: SimplexResponse | SoftmaxResponse,
    groups: Groups,
    lam: FloatArray,
    low: FloatArray,
    high: FloatArray,
    gradient: FloatArray,
    direction: FloatArray,
    answer: Response,
) -> tuple[FloatArray, BoolArray, BoolArray, Response | None]:
    """Return λ moved along the direction while the dual falls.

    With it come which groups moved all the way, in which the dual fell by more than rounding, and
    the answer to the new λ where it is known without asking again. A group in which no step along
    the direction is acceptable stays where it is.

    A step is taken when the dual falls enough, or when the gradient shrinks by half: near the
    end, rounding hides the fall of the dual but not that of the gradient.
    """
    interval = low < high
    side = np.where(lam != 0, np.sign(lam), -np.sign(gradient))
    value = _dual(answer, groups, lam, low, high)
    magnitude = groups.sum(np.abs(answer.value)) + np.abs(lam * high).sum(axis=1)
    steepness = np.abs(gradient).max(axis=1)
    moved = lam.copy()
    length = np.ones(len(lam))
    fell = np.zeros(len(lam), dtype=bool)
    pending = np.arange(len(lam))
    part, inner = respond, groups
    for _ in range(_HALVINGS):
        trial = lam[pending] + length[pending, None] * direction[pending]
        crossing = interval[pending] & (trial * side[pending] < 0)
        trial[crossing] = 0.0
        tried = part(inner.spread(trial))
        fall = ((trial - lam[pending]) * gradient[pending]).sum(axis=1)
        lowered = _dual(tried, inner, trial, low[pending], high[pending])
        slope = dual_gradient(trial, inner.sum(tried.labels), low[pending], high[pending])
        rounding = 1e-13 * magnitude[pending]
        good = (fall < 0) & (lowered <= value[pending] + 1e-4 * fall)
        fell[pending] = good & (lowered < value[pending] - rounding)
        level = lowered <= value[pending] + rounding
        good |= level & (np.abs(slope).max(axis=1) <= 0.5 * steepness[pending])
        moved[pending[good]] = trial[good]
        if good.all():
            return moved, length == 1.0, fell, tried if part is respond else None
        rows, inner = inner.only(~good)
        part, pending = part.take(rows), pending[~good]
        length[pending] *= 0.5
    return moved, length == 1.0, fell, None


def _dual(
    answer: Response, groups: Groups, lam: FloatArray, low: FloatArray, high: FloatArray
) -> FloatArray:
    bound = np.where(lam > 0, lam * low, lam * high)
    return groups.sum(answer.value) - bound.sum(axis=1)
