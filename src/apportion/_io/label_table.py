"""The columns of a table of labels: the label of each row, its masses, confidence and reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray


def label_column_names(classes: Iterable[Any]) -> list[str]:
    """Return the names of the columns of a table of labels.

    Examples
    --------
    >>> label_column_names(["sleep", "tv"])
    ['label', 'mass_sleep', 'mass_tv', 'confidence', 'reason']
    """
    return ["label", *(f"mass_{name}" for name in classes), "confidence", "reason"]


def label_columns(
    classes: Sequence[Any],
    positions: IntArray,
    masses: FloatArray,
    confidence: FloatArray,
    reasons: AnyArray,
) -> dict[str, Any]:
    """Return the columns of a table of labels, as Arrow arrays by name.

    Parameters
    ----------
    classes : sequence
        The classes, all of one type; the label column has this type.
    positions : ndarray of int, of shape (n_samples,)
        The label of each row, as a position among the classes; -1 = not labeled.
    masses : ndarray of shape (n_samples, n_classes)
        Soft labels.
    confidence : ndarray of shape (n_samples,)
        The mass of the label. NaN where it is not known: this cell and the masses of the row are
        empty then.
    reasons : ndarray of shape (n_samples,)
        Reason codes, see `joined_codes`.

    Returns
    -------
    dict of str to pyarrow.Array
    """
    import pyarrow as pa

    unknown = np.isnan(confidence)
    columns = [
        pa.array(classes).take(pa.array(positions, mask=positions < 0)),
        *(pa.array(mass, mask=unknown) for mass in masses.T),
        pa.array(confidence, mask=unknown),
        pa.array(reasons.tolist(), pa.string()),
    ]
    return dict(zip(label_column_names(classes), columns, strict=True))


def joined_codes(marked: Mapping[str, BoolArray]) -> AnyArray:
    """Return every row's codes, joined by semicolons.

    Parameters
    ----------
    marked : mapping of str to ndarray of bool, of shape (n_samples,)
        The codes, and the rows they hold for.

    Returns
    -------
    ndarray of shape (n_samples,)

    Examples
    --------
    >>> joined_codes({"tie": np.array([True, False]), "unbagged": np.array([True, False])})
    array(['tie;unbagged', ''], dtype=object)
    """
    # A row's codes are the bits of one integer, so that each of the few patterns that occur is
    # spelled once and not once per row.
    bits = np.zeros(len(next(iter(marked.values()))), dtype=np.int64)
    for position, rows in enumerate(marked.values()):
        bits |= rows.astype(np.int64) << position
    patterns, which = np.unique(bits, return_inverse=True)
    texts = [
        ";".join(code for position, code in enumerate(marked) if pattern >> position & 1)
        for pattern in patterns.tolist()
    ]
    return np.array(texts, dtype=object)[which]
