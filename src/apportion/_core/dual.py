"""One multiplier per bag and class that moves the sums of the bag onto its totals.

Both problems solved here have the same shape: rows respond to the multipliers λ of their bag with
soft labels g(λ), and the sums of the responses must meet the totals of the bag. All bags are solved
side by side. Rows are behind the protocol `DualEvaluator`; `RowDual` is the one of one machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from apportion._core.evaluator import DualEvaluator, DualPoint
from apportion._utils.arrays import arange, as_float, copied, full, namespace, zeros
from apportion._utils.groups import Groups
from apportion._utils.typing import BoolArray, FloatArray, IntArray

_HALVINGS = 40
"""Halvings of a step before a bag stays where it is in this step: shorter ones are rounding."""

_IDLE_STEPS = 5
"""Steps in a row that neither lower the dual by more than rounding nor halve its gradient, after
which a bag is left as it is: further steps would cost time and meet its totals no better."""

_SUFFICIENT_DECREASE = 1e-4
"""The share of the predicted decrease that a step must achieve (Armijo's rule)."""

_DUAL_ROUNDING = 1e-13
"""Changes of the dual below this share of its magnitude are rounding."""

_FIRST_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-3, 1e-12, 1e-2
"""Multiples of the mean curvature that are added to the Hessian: a tenth of the last one after a
whole step, ten times as much after a shortened one."""


class Response(NamedTuple):
    """Soft labels of rows at their bag's multipliers, and their values in the dual."""

    labels: FloatArray
    value: FloatArray


_NO_RESPONSE = Response(np.empty((0, 0)), np.empty(0))


@dataclass(frozen=True)
class SimplexResponse:
    """Nearest point of the simplex: argmax_g λ·g - w/2 ‖g - f‖², that is Π(f + λ/w)."""

    f: FloatArray
    weights: FloatArray

    def __call__(self, lam: FloatArray) -> Response:
        """Return the rows' responses to λ, given as one λ per row."""
        w = self.weights[:, None]
        labels = onto_simplex(self.f + lam / w)
        away = labels - self.f
        einsum = namespace(labels).einsum
        worth = einsum("ih,ih->i", lam, labels)
        return Response(labels, worth - 0.5 * self.weights * einsum("ih,ih->i", away, away))

    def curvature(self, response: Response, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return d and u of some rows: the derivative of each response is `diag(d) - u uᵀ`."""
        support, size = _support(response.labels[rows])
        w = self.weights[rows]
        return support / w[:, None], support / ((w * size) ** 0.5)[:, None]

    def take(self, rows: IntArray) -> SimplexResponse:
        """Return the same for some rows."""
        return SimplexResponse(self.f[rows], self.weights[rows])


@dataclass(frozen=True)
class SoftmaxResponse:
    """Nearest point in relative entropy: argmax_g λ·g - KL(g ‖ softmax logits).

    A row that stands for several equal ones responds `multiplicity` times.
    """

    logits: FloatArray
    multiplicity: FloatArray

    def __call__(self, lam: FloatArray) -> Response:
        """Return the rows' responses to λ, given as one λ per row."""
        xp = namespace(self.logits)
        raised = self.logits + lam
        top = xp.max(raised, axis=1)[:, None]
        labels = xp.exp(raised - top)
        total = labels.sum(axis=1, keepdims=True)
        labels /= total
        times = self.multiplicity
        value = times * (top + xp.log(total))[:, 0]
        return Response(times[:, None] * labels, value)

    def curvature(self, response: Response, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return d and u of some rows: the derivative of each response is `diag(d) - u uᵀ`."""
        labels = response.labels[rows]
        return labels, labels / (self.multiplicity[rows] ** 0.5)[:, None]

    def take(self, rows: IntArray) -> SoftmaxResponse:
        """Return the same for some rows."""
        return SoftmaxResponse(self.logits[rows], self.multiplicity[rows])


@dataclass(frozen=True)
class RowDual:
    """The dual of bags of one machine's rows; a `DualPoint` once it was evaluated.

    Parameters
    ----------
    respond : SimplexResponse or SoftmaxResponse
        The rows' responses.
    groups : Groups
        The rows' bags; rows in no bag respond to λ = 0.
    out : ndarray of shape (n, n_classes), optional
        Where the soft labels of every evaluation are written.
    rows : ndarray, optional
        The rows' positions in `out`; by default all of it.
    response : Response, optional
        The responses to the multipliers of the last evaluation.
    """

    respond: SimplexResponse | SoftmaxResponse
    groups: Groups
    out: FloatArray | None = None
    rows: IntArray | None = None
    response: Response = _NO_RESPONSE

    def at(self, multipliers: FloatArray) -> RowDual:
        """Return the dual at other multipliers."""
        response = self.respond(self.groups.spread(multipliers))
        if self.out is not None:
            self.out[... if self.rows is None else self.rows] = response.labels
        return replace(self, response=response)

    def only(self, keep: BoolArray) -> RowDual:
        """Return the dual of some bags."""
        rows, groups = self.groups.only(keep)
        return RowDual(
            self.respond.take(rows),
            groups,
            self.out,
            rows if self.rows is None else self.rows[rows],
            Response(*(field[rows] for field in self.response)),
        )

    @cached_property
    def sums(self) -> FloatArray:
        """Sums of the soft labels of each bag."""
        return self.groups.sum(self.response.labels)

    @cached_property
    def value(self) -> FloatArray:
        """Sums of the rows' values."""
        return self.groups.sum(self.response.value)

    @property
    def magnitude(self) -> FloatArray:
        """Sums of the rows' absolute values."""
        return self.groups.sum(abs(self.response.value))

    def hessian(self) -> FloatArray:
        """Return the derivatives of the sums; rows with one class at a vertex have none."""
        labels = self.response.labels
        c = labels.shape[1]
        mixed = namespace(labels).flatnonzero(_support(labels)[1] > 1)
        diagonal, crossed = self.respond.curvature(self.response, mixed)
        groups = Groups(self.groups.codes[mixed], self.groups.n_groups)
        hessian = zeros((groups.n_groups, c, c), like=labels)
        for h in range(c):
            hessian[:, h] = -groups.sum(crossed[:, h : h + 1] * crossed)
        every = arange(c, labels)
        hessian[:, every, every] += groups.sum(diagonal)
        return hessian


class _BagTotals(NamedTuple):
    """Totals and sizes of some bags, and the longest step to try in each."""

    lower: FloatArray
    upper: FloatArray
    sizes: FloatArray
    max_step: FloatArray

    def only(self, keep: BoolArray | IntArray) -> _BagTotals:
        return _BagTotals(*(field[keep] for field in self))

    @property
    def interval(self) -> BoolArray:
        """Which totals are intervals, so that their multiplier has a kink at 0."""
        return self.lower < self.upper


# Semismooth Newton for the multipliers.
#
# The dual `Σ_i value_i(λ) - Σ_h (λ⁺ lower - λ⁻ upper)` is convex and piecewise smooth: its gradient
# is the sums of the responses less the totals, and has kinks where a row's soft label reaches 0 and
# where a multiplier of an interval changes sign. Newton's method with an element of the generalized
# Hessian converges locally all the same (Qi & Sun, 1993; for projections onto a simplex with
# column constraints: Li, Sun & Toh, 2020). Five safeguards make it global:
#
# 1. Damping. A multiple of the mean curvature, no more than the relative size of the gradient, is
#    added to the Hessian, which is singular where all rows of a bag rest at a vertex.
# 2. Orthants. A multiplier of an interval stops at 0 instead of changing its sign within a step
#    (projected Newton, Bertsekas 1982).
# 3. The maximum step. Where the dual is nearly linear, Newton's step would be far too long.
# 4. A line search per bag by halving. Near the end, rounding hides the decrease of the dual but not
#    that of the gradient; a step that halves the gradient is therefore accepted as well.
# 5. Bags that no step brings nearer are left as they are: see `_IDLE_STEPS` and `_HALVINGS`.
def meet_totals(
    dual: DualEvaluator,
    lower: FloatArray,
    upper: FloatArray,
    sizes: FloatArray,
    *,
    max_step: FloatArray | float,
    start: FloatArray | None = None,
    tol: float = 1e-12,
    max_iter: int = 200,
    halvings: int = _HALVINGS,
    patience: int = _IDLE_STEPS,
) -> tuple[FloatArray, float]:
    """Find multipliers λ at which the sums of every bag are within [lower, upper].

    λ minimizes the convex dual `Σ_i value_i(λ) - Σ_h (λ⁺ lower - λ⁻ upper)`: λ_kh is positive where
    the sum rests on its lower bound, negative on its upper, 0 between, free where both are equal.

    Parameters
    ----------
    dual : DualEvaluator
        The rows. The last evaluation of every bag is at the multipliers that are returned.
    lower, upper : ndarray of shape (n_bags, n_classes)
        The totals.
    sizes : ndarray of shape (n_bags,)
        The number of rows of each bag.
    max_step : float or ndarray of shape (n_bags,)
        The longest step worth trying.
    start : ndarray of shape (n_bags, n_classes), optional
        Multipliers to start from.
    tol : float
        How far sums may be off their totals, relative to the size of the bag.
    max_iter : int
        The most Newton steps.
    halvings, patience : int
        Trials of a line search, and idle steps in a row after which a bag is left as it is; fewer
        where a trial is expensive.

    Returns
    -------
    multipliers : ndarray of shape (n_bags, n_classes)
    residual : float
        The largest distance of a sum from its totals, relative to the size of its bag.
    """
    xp, n_bags = namespace(sizes), len(sizes)
    multipliers = xp.zeros_like(lower) if start is None else copied(start)
    longest = max_step + xp.zeros_like(sizes)
    totals = _BagTotals(lower, upper, sizes, longest)
    damping = full(n_bags, _FIRST_DAMPING, sizes)
    reference, steepness = full(n_bags, np.inf, sizes), xp.zeros_like(sizes)
    idle, fell = full(n_bags, 0, sizes), full(n_bags, True, sizes)
    pending = arange(n_bags, sizes)
    point: DualPoint | None = None
    for iteration in range(max_iter + 1):
        lam, shift = multipliers[pending], _no_shift(totals)
        if iteration < max_iter:
            lam, shift = best_common_shift(lam, totals)
        if point is None:
            point, shift = dual.at(lam), _no_shift(totals)
        multipliers[pending] = lam
        gradient = dual_gradient(lam, point.sums, totals.lower, totals.upper)
        steepness[pending] = steep = xp.max(xp.abs(gradient), axis=1)
        better = fell[pending] | (steep <= 0.5 * reference[pending])
        reference[pending] = xp.where(better, steep, reference[pending])
        idle[pending] = xp.where(better, 0, idle[pending] + 1)
        wrong = steep > tol * xp.maximum(totals.sizes, 1.0)
        wrong &= idle[pending] < patience
        if iteration == max_iter or not wrong.any():
            break
        if not wrong.all():
            point, totals, pending = point.only(wrong), totals.only(wrong), pending[wrong]
            lam, gradient, shift = lam[wrong], gradient[wrong], shift[wrong]
        direction = newton_step(point.hessian(), totals, lam, gradient, damping[pending])
        # A common shift changes no soft label and raises the value of each row by itself: what
        # was evaluated before it still holds.
        value = _dual(point, lam, totals) + totals.sizes * shift
        searched = _line_search(point, totals, lam, gradient, direction, value, halvings)
        multipliers[pending], fell[pending] = searched.multipliers, searched.fell
        last = damping[pending]
        changed = xp.where(searched.whole, 0.1 * last, 10.0 * last)
        damping[pending] = xp.clip(changed, _LEAST_DAMPING, _MOST_DAMPING)
        dual, point = point, searched.point
    residual = steepness / xp.maximum(sizes, 1.0)
    return multipliers, float(xp.max(residual)) if n_bags else 0.0


def _no_shift(totals: _BagTotals) -> FloatArray:
    return zeros(len(totals.sizes), like=totals.sizes)


def _support(labels: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return 1 where soft labels are positive and 0 elsewhere, and the sum of every row."""
    support = as_float(labels > 0)
    return support, namespace(labels).einsum("ih->i", support)


def onto_simplex(V: FloatArray) -> FloatArray:
    """Return argmin_g ‖g - v‖ over the probability simplex, for every row v.

    Examples
    --------
    >>> onto_simplex(np.array([[2.0, 0.0, 0.0], [0.5, 0.5, 0.3]])).round(3)
    array([[1. , 0. , 0. ],
           [0.4, 0.4, 0.2]])
    """
    xp, c = namespace(V), V.shape[1]
    if c == 2:
        second = xp.clip(0.5 * (1.0 + V[:, 1:] - V[:, :1]), 0.0, 1.0)
        return xp.hstack([1.0 - second, second])
    # Of the thresholds that leave the k largest a sum of 1, the highest is that of the right k.
    # Columns are added one by one, because NumPy is slow with sums and maxima of short rows.
    ascending = xp.sort(V, axis=1)
    total = ascending[:, -1]
    threshold = total - 1.0
    for k in range(2, c + 1):
        total = total + ascending[:, -k]
        threshold = xp.maximum(threshold, (total - 1.0) / k)
    return xp.maximum(V - threshold[:, None], 0.0)


def dual_gradient(
    lam: FloatArray, sums: FloatArray, lower: FloatArray, upper: FloatArray
) -> FloatArray:
    """Return the gradient of the dual, on the side of 0 that a step would take; 0 where λ rests."""
    xp = namespace(lam)
    between = xp.where(sums < lower, sums - lower, xp.where(sums > upper, sums - upper, 0.0))
    return xp.where(lam > 0, sums - lower, xp.where(lam < 0, sums - upper, between))


def best_common_shift(lam: FloatArray, totals: _BagTotals) -> tuple[FloatArray, FloatArray]:
    """Return λ with one number added to each bag's, where the dual is least, and these numbers.

    A common shift changes no soft label, so that the dual is piecewise linear along it; its corners
    are where a multiplier of an interval reaches 0.
    """
    xp = namespace(lam)
    interval = totals.interval
    some = xp.flatnonzero(interval.any(axis=1))
    shift = _no_shift(totals)
    if not len(some):
        return lam, shift
    corners = xp.where(interval[some], -lam[some], 0.0)
    shifted = lam[some][:, None, :] + corners[:, :, None]
    lower, upper = totals.lower[some][:, None], totals.upper[some][:, None]
    bound = xp.where(shifted > 0, shifted * lower, shifted * upper)
    dual = totals.sizes[some][:, None] * corners - bound.sum(axis=2)
    best = xp.argmin(dual, axis=1)
    shift[some] = corners[arange(len(some), lam), best]
    lam = lam + shift[:, None]
    touched = interval[some, best]
    lam[some[touched], best[touched]] = 0.0
    return lam, shift


def newton_step(
    hessian: FloatArray,
    totals: _BagTotals,
    lam: FloatArray,
    gradient: FloatArray,
    damping: FloatArray,
) -> FloatArray:
    """Return the damped Newton step of each bag over the multipliers that may move.

    A multiplier of an interval that is near 0 and heads for it goes there (`homing`); one that
    rests at 0 moves only to the side to which the dual falls. The Hessian is changed.
    """
    xp, c = namespace(lam), lam.shape[1]
    every = arange(c, lam)
    size = xp.maximum(totals.sizes, 1.0)
    # A bag whose rows all rest at vertices has no curvature: 1e-6 of it then stands in.
    curvature = xp.einsum("kii->k", hessian) / c
    curvature = xp.maximum(curvature, 1e-6 * size / totals.max_step)
    steepness = xp.max(xp.abs(gradient), axis=1)
    shift = curvature * xp.minimum(damping, xp.maximum(steepness / size, _LEAST_DAMPING))
    hessian[:, every, every] += shift[:, None]

    interval = totals.interval
    near = xp.minimum(1e-2 * totals.max_step, steepness / curvature)[:, None]
    homing = interval & (lam * gradient > 0) & (xp.abs(lam) <= near)
    fixed = homing | (interval & (gradient == 0) & (lam == 0))
    side = -xp.sign(gradient)
    for _ in range(c):
        step = _solve_free(hessian, gradient, ~fixed, curvature)
        backwards = interval & ~fixed & (lam == 0) & (step * side < 0)
        if not backwards.any():
            break
        fixed |= backwards
    step = xp.where(homing, -lam, step)
    longest = xp.max(xp.abs(step), axis=1)
    return step * xp.minimum(totals.max_step / xp.maximum(longest, 1e-300), 1.0)[:, None]


def _solve_free(
    hessian: FloatArray, gradient: FloatArray, free: BoolArray, curvature: FloatArray
) -> FloatArray:
    """Return the Newton step of the free multipliers; the others stay.

    Where all are free, a common shift of a bag's multipliers changes no soft label: the step
    without such a shift is taken.
    """
    xp, c = namespace(gradient), gradient.shape[1]
    system = hessian * (free[:, :, None] & free[:, None, :])
    system += (free.all(axis=1) * curvature / c)[:, None, None]
    every = arange(c, gradient)
    system[:, every, every] += ~free * curvature[:, None]
    return -xp.linalg.solve(system, xp.where(free, gradient, 0.0)[:, :, None])[:, :, 0]


class _Searched(NamedTuple):
    """The result of a line search, one entry per bag.

    Attributes
    ----------
    multipliers : ndarray of shape (n_bags, n_classes)
        The multipliers after the step.
    whole, fell : ndarray of bool, of shape (n_bags,)
        Whether the whole step was taken, and whether the dual fell by more than rounding.
    point : DualPoint or None
        The dual there, where it is known without another evaluation.
    """

    multipliers: FloatArray
    whole: BoolArray
    fell: BoolArray
    point: DualPoint | None


def _line_search(
    point: DualPoint,
    totals: _BagTotals,
    lam: FloatArray,
    gradient: FloatArray,
    direction: FloatArray,
    value: FloatArray,
    halvings: int,
) -> _Searched:
    """Move λ along the direction as far as the dual falls enough, or the gradient by half.

    `value` is the dual at λ.
    """
    xp = namespace(lam)
    side = xp.where(lam != 0, xp.sign(lam), -xp.sign(gradient))
    rounding = _DUAL_ROUNDING * (point.magnitude + xp.abs(lam * totals.upper).sum(axis=1))
    steepness = xp.max(xp.abs(gradient), axis=1)
    moved, length = copied(lam), full(len(lam), 1.0, lam)
    fell = full(len(lam), False, lam)
    pending = arange(len(lam), lam)
    inner: DualPoint = point
    for _ in range(halvings):
        some = totals.only(pending)
        trial = lam[pending] + length[pending, None] * direction[pending]
        trial[some.interval & (trial * side[pending] < 0)] = 0.0
        tried = inner.at(trial)
        fall = ((trial - lam[pending]) * gradient[pending]).sum(axis=1)
        before, lowered = value[pending], _dual(tried, trial, some)
        gradient_there = dual_gradient(trial, tried.sums, some.lower, some.upper)
        slope = xp.max(xp.abs(gradient_there), axis=1)
        good = (fall < 0) & (lowered <= before + _SUFFICIENT_DECREASE * fall)
        fell[pending] = good & (lowered < before - rounding[pending])
        level = lowered <= before + rounding[pending]
        good |= level & (slope <= 0.5 * steepness[pending])
        moved[pending[good]] = trial[good]
        if good.all():
            evaluated = tried if inner is point else None
            return _Searched(moved, length == 1.0, fell, evaluated)
        inner, pending = tried.only(~good), pending[~good]
        length[pending] *= 0.5
    return _Searched(moved, length == 1.0, fell, None)


def _dual(point: DualPoint, lam: FloatArray, totals: _BagTotals) -> FloatArray:
    bound = namespace(lam).where(lam > 0, lam * totals.lower, lam * totals.upper)
    return point.value - bound.sum(axis=1)
