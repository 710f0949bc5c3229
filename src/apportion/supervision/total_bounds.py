"""Arithmetic of bounds on class totals, one row per bag and one column per class."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from apportion._utils.typing import BoolArray, FloatArray
from apportion.exceptions import SupervisionError, compared


def tighten(
    lower: FloatArray, upper: FloatArray, size: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the tightest bounds that allow the same totals `t` with Σ_h t_h = size.

    A class can hold at most what the lower bounds of the others leave, and must hold at least what
    the upper bounds of the others cannot take.
    """
    size = size[:, None]
    most = size - (lower.sum(axis=1, keepdims=True) - lower)
    with np.errstate(invalid="ignore"):
        least = size - (upper.sum(axis=1, keepdims=True) - upper)
    # ∞ - ∞ is undefined: a class that is the only one without an upper bound takes what the others
    # leave; where another class has no upper bound, nothing is left to be taken.
    unbounded = ~np.isfinite(upper)
    others_unbounded = (unbounded.sum(axis=1, keepdims=True) - unbounded) > 0
    finite = np.where(unbounded, 0.0, upper).sum(axis=1, keepdims=True)
    least = np.where(others_unbounded, 0.0, np.where(unbounded, size - finite, least))
    tight_lower = np.maximum(lower, np.minimum(least, upper))
    return tight_lower, np.maximum(np.minimum(upper, most), tight_lower)


def refuse_infeasible(
    ids: Sequence[Hashable], lower: FloatArray, upper: FloatArray, size: FloatArray
) -> None:
    """Raise where the bounds of a bag cannot sum to its size."""
    slack = 1e-9 * np.maximum(size, 1.0)
    least, most = lower.sum(axis=1), upper.sum(axis=1)
    for k in np.flatnonzero((least > size + slack) | (most < size - slack)).tolist():
        too_high = least[k] > size[k]
        total, whole = compared(least[k] if too_high else most[k], size[k])
        side, relation = ("lower", "more") if too_high else ("upper", "less")
        found = f"{side} bounds that sum to {total}, {relation} than the whole of {whole}"
        allowed = f"lower bounds that sum to at most {whole}, upper bounds to at least {whole}"
        advice = f"{'lower' if too_high else 'raise'} the {side} bounds of this bag"
        raise SupervisionError("", found, allowed, advice, bag=ids[k])


def scaled_totals(values: FloatArray, size: FloatArray, ids: Sequence[Hashable]) -> FloatArray:
    """Return totals without unknown cells, scaled so that those of a bag sum to its size."""
    sums = values.sum(axis=1)
    for k in np.flatnonzero(sums <= 0).tolist():
        allowed = "totals with a positive sum where they are to be normalized"
        advice = "correct them, or leave the cells missing if they are not known"
        raise SupervisionError("", "totals that are all 0", allowed, advice, bag=ids[k])
    return values * (size / sums)[:, None]


def without_rounding_errors(
    lower: FloatArray, upper: FloatArray, sizes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds with masses a rounding error away from a whole number made whole.

    The bounds of a bag still allow masses that sum to its size. Rounding alone would not keep
    that: 0.3 + 0.6999999999 + 2.0000000001 rows are 3, but 0.3 + 0.6999999999 + 2 are not, and no
    projection could ever meet such masses.
    """
    low, high = _nearly_whole_rounded(lower), _nearly_whole_rounded(upper)
    exact = np.all(low == high, axis=1)
    low = _summing_to(sizes, low, exact | (low.sum(axis=1) > sizes))
    high = np.where(exact[:, None], low, _summing_to(sizes, high, high.sum(axis=1) < sizes))
    return low, np.maximum(low, high)


def room_for(
    lower: FloatArray, upper: FloatArray, taken: FloatArray, sizes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return bounds that give way to rows whose class is known, as little as needed.

    An upper bound rises to the number of these rows. If the lower bounds then want more rows than
    are left, they fall in proportion to what they want.

    Parameters
    ----------
    lower, upper : ndarray of shape (n_bags, n_classes)
        Bounds of the class masses of all rows of a bag.
    taken : ndarray of shape (n_bags, n_classes)
        How many rows of each class are known.
    sizes : ndarray of shape (n_bags,)
        The number of rows whose class is not known.

    Examples
    --------
    >>> exact = np.array([[2.9, 7.1]])
    >>> room_for(exact, exact, np.array([[3.0, 0.0]]), np.array([7.0]))
    (array([[2.9, 7. ]]), array([[3. , 7.1]]))
    """
    wanted = np.maximum(lower - taken, 0.0)
    total = wanted.sum(axis=1)
    scale = np.divide(sizes, total, out=np.ones_like(total), where=total > sizes)
    fallen = np.where((scale < 1.0)[:, None] & (wanted > 0), taken + wanted * scale[:, None], lower)
    return fallen, np.maximum(upper, taken)


def contradicted(
    lower: FloatArray, upper: FloatArray, taken: FloatArray, sizes: FloatArray
) -> tuple[BoolArray, BoolArray]:
    """Return which classes have too many known rows, and which bags too few rows for the rest.

    Totals that are no whole number of rows allow the next whole row: 3 rows where 2.9 fit.

    Parameters
    ----------
    lower, upper, taken, sizes
        As those of `room_for`.

    Returns
    -------
    ndarray of bool, of shape (n_bags, n_classes)
        The classes.
    ndarray of bool, of shape (n_bags,)
        The bags.
    """
    wanted = np.maximum(np.floor(lower + 1e-9) - taken, 0.0).sum(axis=1)
    return taken > np.ceil(upper - 1e-9), wanted > sizes


def _nearly_whole_rounded(masses: FloatArray) -> FloatArray:
    whole = np.rint(masses)
    return np.where(np.abs(masses - whole) <= 1e-9 * np.maximum(whole, 1.0), whole, masses)


def _summing_to(sizes: FloatArray, masses: FloatArray, bags: BoolArray) -> FloatArray:
    """Return the masses with the fractional ones of some bags scaled, so that all sum to a size."""
    fractional = (masses != np.rint(masses)) & bags[:, None]
    fraction = np.where(fractional, masses, 0.0).sum(axis=1)
    left = sizes - np.where(fractional, 0.0, masses).sum(axis=1)
    some = fractional.any(axis=1)
    scale = np.divide(left, fraction, out=np.ones_like(left), where=some)
    return np.where(fractional, masses * scale[:, None], masses)
