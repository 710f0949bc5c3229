"""Labels that keep every bag's counts, also of bags that lie in several partitions.

A partition decodes the bags that lie in it alone. Of the others, prices per bag and class first
bring the counts near the quotas: they are found on a sample of rows. What is best at some prices is
optimal for its own counts, and shortest chains of moves, which keep it optimal, correct the counts;
the driver looks at no more rows of each pair of classes than have to be moved.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion._typing import IntArray
from apportion.decode import GRAIN
from apportion.distributed.cluster import Cluster
from apportion.distributed.part import (
    Candidates,
    cheapest,
    decided,
    joined,
    priced,
    probe,
    shortlists,
)
from apportion.transport import _exchange, _Kinds, _prices

_SAMPLE = 512


def decode(
    cluster: Cluster, parts: list[Any], scored: list[Any], quotas: IntArray
) -> tuple[list[Any], int]:
    """Return the futures of the partitions' labels, and how many rows the driver looked at.

    Parameters
    ----------
    cluster : Cluster
        Where the partitions are.
    parts, scored : lists of futures
        The partitions, and what their rows are worth in each class.
    quotas : ndarray of int, of shape (n_spanning, n_classes)
        How many rows of each spanning bag get each class.
    """
    n_spanning, c = quotas.shape
    prices = np.zeros((n_spanning, c), dtype=np.int64)
    moved = [(np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp))] * len(parts)
    looked = 0
    if n_spanning:
        numbers = list(range(len(parts)))
        most = cluster.send(np.full(n_spanning, -(-_SAMPLE // len(parts))))
        sample = cluster.total(
            cluster.on_each(probe, parts, scored, numbers, shared=(most,)), joined
        )
        prices = _prices_of(sample, quotas)
        sent = cluster.send(prices)
        counts = cluster.total(cluster.on_each(priced, parts, scored, shared=(sent,))).counts
        surplus = np.rint(counts).astype(np.int64) - quotas
        moves = np.maximum(surplus, 0).sum(axis=1)
        if moves.any():
            most = cluster.send(np.where(moves > 0, moves + 1, 0))
            lists = cluster.on_each(shortlists, parts, scored, numbers, shared=(sent, most))
            listed = cluster.total(lists, cheapest, most)
            looked = len(listed.bag)
            moved = _moved(listed, surplus, len(parts))
    else:
        sent = cluster.send(prices)
    places, labels = zip(*moved, strict=True)
    found = [
        cluster.client.submit(decided, part, one, sent, place, label, pure=False)
        for part, one, place, label in zip(parts, scored, places, labels, strict=True)
    ]
    return found, looked


def _prices_of(sample: Candidates, quotas: IntArray) -> IntArray:
    """Return prices, in grains, at which the sampled rows' best classes fill the quotas, nearly."""
    order = np.lexsort([sample.hash, sample.bag])
    codes = sample.bag[order]
    sizes = np.bincount(codes, minlength=len(quotas))
    share = sizes / np.maximum(quotas.sum(axis=1), 1)
    kinds = _Kinds(
        sample.scores[order],
        codes,
        np.ones(len(codes), dtype=np.int64),
        np.maximum(np.rint(quotas * share[:, None]), 0).astype(np.int64),
        GRAIN,
    )
    return np.rint(_prices(kinds) / GRAIN).astype(np.int64)


def _moved(listed: Candidates, surplus: IntArray, n_parts: int) -> list[tuple[IntArray, IntArray]]:
    """Return which rows of each partition get another label, and which."""
    shares = np.zeros(listed.scores.shape, dtype=np.int64)
    shares[np.arange(len(shares)), listed.label] = 1
    counts = np.zeros(surplus.shape, dtype=np.int64)
    np.add.at(counts, listed.bag, shares)
    ones = np.ones(len(shares), dtype=np.int64)
    kinds = _Kinds(listed.scores, listed.bag, ones, counts - surplus, GRAIN)
    after = np.argmax(_exchange(kinds, shares.copy()), axis=1)
    changed = after != listed.label
    found = []
    for number in range(n_parts):
        mine = changed & (listed.partition == number)
        found.append((listed.place[mine], after[mine]))
    return found
