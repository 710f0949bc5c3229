"""Which rows follow each other in time, from the arrays in which users have it."""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion._io.identifiers import factorize
from apportion._utils.sequences import Sequences
from apportion._utils.typing import FloatArray, IntArray
from apportion.exceptions import SupervisionError
from apportion.supervision.bags import refuse_other_length
from apportion.supervision.diary.instants import read_times


def rows_in_time(times: Any, sequences: Any, ranks: IntArray) -> Sequences | None:
    """Return the rows in the order of time, sequence by sequence; None if no times are given.

    Parameters
    ----------
    times : array-like of shape (n_samples,), Sequences or None
        When each row was: numbers, in any unit, date-times, with or without a zone, or ISO text.
        `Sequences` that are known already are returned.
    sequences : array-like of shape (n_samples,), or None
        The recording of each row, of any hashable type; None if all rows are of one recording. A
        row whose recording is missing follows no other row.
    ranks : ndarray of shape (n_samples,)
        The order of rows of one recording and time; see `hash_ranks`.

    Returns
    -------
    Sequences or None
    """
    if isinstance(times, Sequences):
        return times
    if times is None:
        if sequences is not None:
            raise SupervisionError(
                "sequences", "no times", "both or neither", "pass `times` as well"
            )
        return None
    n_samples = len(ranks)
    moments = moments_of(times)
    refuse_other_length("times", moments, n_samples)
    codes = np.zeros(n_samples, dtype=np.intp)
    if sequences is not None:
        codes, names = factorize(sequences, "sequence")
        refuse_other_length("sequences", codes, n_samples)
        alone = np.flatnonzero(codes < 0)
        codes = codes.astype(np.intp)
        codes[alone] = len(names) + np.arange(len(alone))
    return Sequences.of(moments, codes, ranks)


def moments_of(times: Any) -> FloatArray:
    """Return times as numbers, from numbers, date-times or ISO text."""
    values = np.asarray(times)
    if values.dtype.kind in "iuf" and values.ndim == 1:
        moments = values.astype(np.float64)
        if np.isfinite(moments).all():
            return moments
        row = int(np.argmin(np.isfinite(moments)))
        found, hint = f"{moments[row]}", "fill the cell, or drop the row"
        raise SupervisionError("times", found, "finite numbers or date-times", hint, row=row)
    return read_times(times, "times").values.astype(np.float64)
