"""The most episodes of each class in each bag: read from a table, and compared with labels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from apportion._io.class_tables import columns_for, read_table, refuse_duplicates
from apportion._utils.sequences import Sequences
from apportion._utils.typing import AnyArray, BoolArray, FloatArray, IntArray
from apportion.exceptions import SupervisionError, counted, name_some


def read_episodes(
    table: Any,
    ids: Sequence[Hashable],
    classes: AnyArray,
    lower: FloatArray,
    id_column: str | None = None,
) -> FloatArray | None:
    """Return the most episodes of each bag and class; None if none is known.

    Parameters
    ----------
    table : dataframe, mapping or array
        See `Totals.with_most_episodes`.
    ids : sequence
        The bags.
    classes : ndarray of shape (n_classes,)
        The classes.
    lower : ndarray of shape (n_bags, n_classes)
        The least mass or share of each class: a class that has some has an episode.
    id_column : str, optional
        The column of bag ids of a dataframe.

    Examples
    --------
    >>> read_episodes({"mon": {"tea": 2}}, ["mon"], np.array(["nap", "tea"]), np.zeros((1, 2)))
    array([[nan,  2.]])
    """
    names = classes.tolist()
    if isinstance(table, np.ndarray | list | tuple):
        if len(table) != len(ids):
            found, allowed = f"{len(table)} rows", f"{len(ids)}, one per bag of the totals"
            advice = "give a mapping from bag to numbers, if some are not known"
            raise SupervisionError("the table of episodes", found, allowed, advice)
        table = dict(zip(ids, table, strict=True))
    cells = read_table(table, names, id_column, absent=np.nan)
    refuse_duplicates(cells.ids)
    position = {bag: k for k, bag in enumerate(ids)}
    for bag in cells.ids:
        if bag not in position:
            allowed = f"the bags of the totals: {name_some(map(repr, ids))}"
            advice = "correct the id, or leave the bag out"
            raise SupervisionError("", "episodes, but no totals", allowed, advice, bag=bag)
    most = np.full(lower.shape, np.nan)
    rows = [position[bag] for bag in cells.ids]
    most[rows] = columns_for(names, cells.classes, cells.values, absent=np.nan)
    _refuse_impossible(most, lower, ids, names)
    return None if np.isnan(most).all() else most


def _refuse_impossible(
    most: FloatArray, lower: FloatArray, ids: Sequence[Hashable], names: list[Any]
) -> None:
    wrong = np.isfinite(most) & ((most < 0) | (most != np.rint(most)))
    for k, h in zip(*np.nonzero(wrong), strict=True):
        allowed = "whole numbers of 0 and more, or a missing cell for 'not known'"
        where, found = f"class {names[h]!r}", f"{most[k, h]:g} episodes"
        raise SupervisionError(where, found, allowed, "correct the cell", bag=ids[k])
    for k, h in zip(*np.nonzero((most == 0) & (lower > 1e-9)), strict=True):
        raise SupervisionError(
            f"class {names[h]!r}",
            f"0 episodes, and a total of at least {lower[k, h]:g}",
            "at least 1 episode of a class whose total is above 0",
            "correct the number or the total, or leave the cell missing if it is not known",
            bag=ids[k],
        )


def episodes_begun(
    labels: IntArray, bags: IntArray, sequences: Sequences, shape: tuple[int, int]
) -> IntArray:
    """Return how many episodes of each class begin in each bag.

    Parameters
    ----------
    labels, bags : ndarray of shape (n_samples,)
        Labels and bags, as positions; bag -1 = in no bag.
    sequences : Sequences
        The rows in the order of time. An episode ends with its sequence, and where more than one
        row is missing.
    shape : tuple of int
        The number of bags and of classes.

    Examples
    --------
    >>> along = Sequences.of(np.arange(5.0), np.zeros(5, dtype=int))
    >>> days, labels = np.array([0, 0, 1, 1, 1]), np.array([1, 0, 0, 1, 0])
    >>> episodes_begun(labels, days, along, (2, 2)).tolist()
    [[1, 1], [1, 1]]
    """
    along, bag = labels[sequences.order], bags[sequences.order]
    begins = sequences.breaks | (along != np.roll(along, 1))
    return count_begun(begins, along, bag, shape)


def count_begun(
    begins: BoolArray, labels: IntArray, bags: IntArray, shape: tuple[int, int]
) -> IntArray:
    """Return how many of the rows that begin an episode each bag has of each class."""
    rows = np.flatnonzero(begins & (bags >= 0))
    cells = bags[rows] * shape[1] + labels[rows]
    return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)


def episodes_above(
    begun: IntArray, most: FloatArray, ids: Sequence[Hashable], classes: AnyArray
) -> list[str]:
    """Return, in words, where more episodes begin than are allowed.

    Examples
    --------
    >>> episodes_above(np.array([[3, 1]]), np.array([[2.0, np.nan]]), ["mon"], np.array(["a", "b"]))
    ["bag 'mon' has 3 episodes of 'a' (at most 2 given)"]
    """
    names = classes.tolist()
    return [
        f"bag {ids[k]!r} has {counted(int(begun[k, h]), 'episode')} of {names[h]!r} (at most "
        f"{most[k, h]:.0f} given)"
        for k, h in zip(*np.nonzero(begun > most), strict=True)
    ]
