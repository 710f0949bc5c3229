"""Project values onto a box and onto bounds of the sums of groups, all groups at once."""

from __future__ import annotations

import numpy as np

from apportion._utils.arrays import arange, copied, full, namespace, zeros
from apportion._utils.groups import Groups
from apportion._utils.typing import FloatArray, IntArray


def shift_into_box(
    f: FloatArray,
    weights: FloatArray,
    low: FloatArray | float,
    high: FloatArray | float,
    groups: Groups,
    lower: FloatArray,
    upper: FloatArray,
    start: FloatArray | None = None,
    tol: float = 1e-12,
) -> tuple[FloatArray, FloatArray]:
    """Find λ with Σ_{i in k} clip(f_i + λ_k / w_i, low_i, high_i) in [lower_k, upper_k].

    This is `argmin_g ½ Σ w_i (g_i - f_i)²` over the box and the groups' sums. λ_k is 0 where the
    clipped values already fit. Newton steps inside a shrinking bracket, all groups at once.

    Returns
    -------
    g : ndarray of shape (n_samples,)
    multipliers : ndarray of shape (n_groups,)
    """
    xp = namespace(f)
    free = xp.clip(f, low, high)
    sums = groups.sum(free)
    target = xp.clip(sums, lower, upper)
    scale = tol * xp.maximum(groups.sizes, 1.0)
    wrong = xp.abs(sums - target) > scale
    n_wrong = int(wrong.sum())
    multipliers: FloatArray = zeros(groups.n_groups, like=f)
    if not n_wrong:
        return free, multipliers
    guess = multipliers if start is None else start
    if n_wrong == groups.n_groups and groups.covers_all_rows:
        multipliers = _bracketed_newton(f, 1.0 / weights, low, high, groups, target, scale, guess)
        return xp.clip(f + groups.spread(multipliers) / weights, low, high), multipliers
    rows, active = groups.only(wrong)
    box = f[rows], 1.0 / weights[rows], _bounds(low, rows), _bounds(high, rows)
    lam = _bracketed_newton(*box, active, target[wrong], scale[wrong], guess[wrong])
    multipliers[wrong] = lam
    free[rows] = xp.clip(box[0] + active.spread(lam) * box[1], *box[2:])
    return free, multipliers


def _sums_of(bound: FloatArray | float, groups: Groups) -> FloatArray:
    """Return the groups' sums where every row is at its bound."""
    return bound * groups.sizes if isinstance(bound, float) else groups.sum(bound)


def _bounds(bound: FloatArray | float, rows: IntArray) -> FloatArray | float:
    """Return the bounds of some rows; one bound for all stays."""
    return bound if isinstance(bound, float) else bound[rows]


def nearest_totals(
    wanted: FloatArray, lower: FloatArray, upper: FloatArray, sizes: FloatArray
) -> FloatArray:
    """Return argmin_t ‖t - wanted‖ for every row t, within its bounds and with its sum."""
    K, c = lower.shape
    cells = Groups(np.repeat(np.arange(K), c), K)
    flat = wanted.ravel(), np.ones(K * c), lower.ravel(), upper.ravel()
    return shift_into_box(*flat, cells, sizes, sizes)[0].reshape(K, c)


def _bracketed_newton(
    f: FloatArray,
    inverse_weights: FloatArray,
    low: FloatArray | float,
    high: FloatArray | float,
    groups: Groups,
    target: FloatArray,
    scale: FloatArray,
    guess: FloatArray,
) -> FloatArray:
    """Solve Σ clip(f + λ inverse_weights, low, high) = target for every group, from a guess.

    The sum is a piecewise linear, nondecreasing function of λ. Newton's step ends the search within
    the right piece; outside of the bracket, or when it does not halve the excess, the bracket is
    halved instead (Press et al., Numerical Recipes, 9.4).
    """
    xp = namespace(f)
    left = groups.least((low - f) / inverse_weights)
    right = groups.greatest((high - f) / inverse_weights)
    answer = xp.clip(guess, left, right)
    # Newton's steps do not reach the ends, where every row is at a bound; these are known.
    answer = xp.where(target - _sums_of(low, groups) <= scale, left, answer)
    answer = xp.where(_sums_of(high, groups) - target <= scale, right, answer)
    pending = arange(groups.n_groups, f)
    lam, last = copied(answer), full(groups.n_groups, np.inf, f)
    for _ in range(200):
        moved = lam[groups.codes]
        moved *= inverse_weights
        moved += f
        inside = (moved > low) & (moved < high)
        excess = groups.sum(xp.clip(moved, low, high, out=moved)) - target
        slope = groups.sum(xp.multiply(inverse_weights, inside, out=moved))
        done = (xp.abs(excess) <= scale) | (right - left <= 0)
        n_done = int(done.sum())
        # Without a mask as index, for which a device would have to be waited for.
        answer[pending] = xp.where(done, lam, answer[pending])
        if n_done == len(done):
            break
        left = xp.where(excess < 0, xp.maximum(left, lam), left)
        right = xp.where(excess > 0, xp.minimum(right, lam), right)
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = lam - excess / slope
        slow = xp.abs(excess) > 0.5 * last
        usable = (newton > left) & (newton < right) & ~slow
        middle = 0.5 * (left + right)
        stuck = (middle <= left) | (middle >= right)
        lam = xp.where(done, lam, xp.where(usable, newton, middle))
        last = xp.abs(excess)
        left = xp.where(stuck & ~done, right, left)
        if n_done > len(done) // 2:
            rows, groups = groups.only(~done)
            f, inverse_weights, low, high = (
                f[rows],
                inverse_weights[rows],
                _bounds(low, rows),
                _bounds(high, rows),
            )
            keep = ~done
            pending, lam, last = pending[keep], lam[keep], last[keep]
            left, right, target, scale = left[keep], right[keep], target[keep], scale[keep]
    else:
        answer[pending] = lam
    return answer
