"""Totals that give way to labels of single rows."""

from __future__ import annotations

from collections import Counter

import numpy as np

from apportion._io.identifiers import is_missing
from apportion._utils.typing import AnyArray, FloatArray, IntArray
from apportion.exceptions import counted
from apportion.supervision.total_bounds import contradicted, room_for
from apportion.supervision.totals import Totals, masses_for


def totals_that_give_way(
    totals: Totals, bags: AnyArray, given: AnyArray
) -> tuple[Totals, tuple[str, ...]]:
    """Return totals with room for all given labels, and a note for each that changed.

    Where more rows of a class are given than its total allows, the total rises to their number,
    and those of other classes fall in proportion, as little as needed.

    Parameters
    ----------
    totals : Totals
        The totals.
    bags : ndarray of shape (n_samples,)
        Bag ids; None = in no bag.
    given : ndarray of shape (n_samples,)
        Given labels; missing = not known.

    Examples
    --------
    >>> totals = Totals.from_counts({"mon": {"sleep": 2, "tv": 1}})
    >>> bags, given = np.array(["mon"] * 3), np.array(["tv", "tv", None], dtype=object)
    >>> changed, notes = totals_that_give_way(totals, bags, given)
    >>> print(notes[0])
    'mon': 2 rows were given the label 'tv', and the totals allow 1; the totals give way
    >>> changed.lower
    array([[1., 1.]])
    """
    sizes, taken, used = _counts(totals, bags, given)
    lower, upper = masses_for(totals, used, sizes)
    n_open = sizes - taken.sum(axis=1)
    too_many, too_few = contradicted(lower, upper, taken, n_open)
    changed = np.flatnonzero(too_many.any(axis=1) | too_few)
    if not changed.size:
        return totals, ()
    notes = tuple(
        _note(totals, used[k], too_many[k], taken[k], upper[k], n_open[k]) for k in changed
    )
    unit = sizes[changed, None] if totals.unit == "share" else 1.0
    low, high = room_for(lower[changed], upper[changed], taken[changed], n_open[changed])
    new_lower, new_upper = totals.lower.copy(), totals.upper.copy()
    new_lower[used[changed]], new_upper[used[changed]] = low / unit, high / unit
    return totals._replace(lower=new_lower, upper=new_upper), notes


def _counts(
    totals: Totals, bags: AnyArray, given: AnyArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return the sizes of the bags that have rows, their given labels, and which bags they are."""
    n_rows = Counter(bags.tolist())
    used = np.array([k for k, bag in enumerate(totals.ids) if n_rows[bag]], dtype=np.intp)
    sizes = np.array([n_rows[totals.ids[k]] for k in used], dtype=np.float64)
    pairs = Counter(
        pair for pair in zip(bags.tolist(), given.tolist(), strict=True) if not is_missing(pair[1])
    )
    classes = totals.classes.tolist()
    taken = np.array([[pairs[totals.ids[k], label] for label in classes] for k in used])
    return sizes, taken.reshape(len(used), len(classes)).astype(np.float64), used


def _note(
    totals: Totals,
    bag: int,
    too_many: AnyArray,
    taken: FloatArray,
    upper: FloatArray,
    n_open: float,
) -> str:
    """Return what gave way in a bag, in words."""
    classes = totals.classes.tolist()
    said = [
        f"{counted(int(taken[h]), 'row')} were given the label {classes[h]!r}, and the totals "
        f"allow {upper[h]:.4g}"
        for h in np.flatnonzero(too_many)
    ] or [f"given labels leave {counted(int(n_open), 'row')}, and the totals want more"]
    return f"{totals.ids[bag]!r}: {'; '.join(said)}; the totals give way"
