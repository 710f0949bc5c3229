"""Best and average labelings of rows that follow each other in time.

All recordings together are one chain: where a recording begins, every change of class is free, so
that nothing passes from one to the next. The chain is folded into blocks of about √n rows that are
walked side by side, so that numpy has √n steps instead of n. What a block does to the messages that
enter it is a matrix (classes × classes); a short pass over these matrices finds the messages that
enter each block, and a second walk through all blocks uses them. The result is exact: that of the
walk from the first row to the last.

Entering another class costs the same from every class, so that a step costs O(c) per row and not
O(c²) (Felzenszwalb & Huttenlocher, 2006: "Efficient belief propagation for early vision"); the
matrices of blocks make it O(c²) once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion._utils.typing import AnyArray, FloatArray, IntArray


class Posterior(NamedTuple):
    """Probabilities of classes and of a fresh draw of the class, row by row; the log-likelihood."""

    classes: FloatArray
    fresh: FloatArray
    log_likelihood: float


class Chain:
    """Rows in the order of time, folded into blocks.

    Parameters
    ----------
    n_samples : int
        The number of rows.
    block_length : int, optional
        The rows of a block, by default about √n / 2: a step through all blocks takes a few times as
        long as the passage from one to the next. Results do not depend on it.
    """

    def __init__(self, n_samples: int, block_length: int | None = None) -> None:
        self.n_samples = n_samples
        self.length = block_length or max(int(np.sqrt(n_samples) / 2), 1)
        self.n_blocks = -(-n_samples // self.length)

    def best_path(self, scores: IntArray, costs: IntArray) -> IntArray:
        """Return the labels of largest Σ scores - Σ costs of changes (Viterbi, 1967).

        Among equally good labels the path changes as late as it can.

        Parameters
        ----------
        scores : ndarray of int, of shape (n_samples, n_classes)
            What each row is worth in each class.
        costs : ndarray of int, of shape (n_samples,)
            What it costs if a row's class is not that of the row before; 0 for the first row.
        """
        if not self.n_samples:
            return np.zeros(0, dtype=np.intp)
        S, w = self._fold(scores), self._fold(costs)
        stays, others, last, origins = self._walk(S, w, self._entering_values(S, w))
        state = self._ends(last, origins)
        path = np.empty((self.length, self.n_blocks), dtype=np.intp)
        blocks = np.arange(self.n_blocks)
        for t in range(self.length - 1, -1, -1):
            path[t] = state
            state = np.where(stays[t, state, blocks], state, others[t])
        return self._unfold(path)

    def posterior(
        self, likelihoods: FloatArray, stay: FloatArray, draw: FloatArray, shares: FloatArray
    ) -> Posterior:
        """Return the probabilities of classes by a pass forward and one backward.

        A row keeps the class of the row before it with weight `stay`; with weight `draw` its class
        is drawn from the `shares`, and may be the same again.

        Parameters
        ----------
        likelihoods : ndarray of shape (n_samples, n_classes)
            How likely each row is in each class, up to a factor per row.
        stay, draw : ndarray of shape (n_samples,)
            The weights; `stay` is 0 for the first row.
        shares : ndarray of shape (n_classes,)
            What fresh classes are drawn from.
        """
        if not self.n_samples:
            return Posterior(np.zeros_like(likelihoods), np.zeros(0), 0.0)
        E, pi = self._fold(likelihoods, 1.0), shares[:, None]
        keep, fresh = self._fold(stay), self._fold(draw, 1.0)
        alpha, beta = self._entering_messages(E, keep, fresh, pi)
        before, scale = np.empty_like(E), np.empty_like(keep)
        for t in range(self.length):
            before[t] = alpha
            alpha = E[t] * (keep[t] * alpha + fresh[t] * pi)
            scale[t] = alpha.sum(axis=0)
            alpha = alpha / scale[t]
        classes, renewed = np.empty_like(E), np.empty_like(keep)
        for t in range(self.length - 1, -1, -1):
            ahead = E[t] * beta
            kept, drawn = keep[t] * before[t] * ahead, fresh[t] * (pi * ahead)
            both = kept + drawn
            total = both.sum(axis=0)
            classes[t] = both / total
            renewed[t] = drawn.sum(axis=0) / total
            beta = keep[t] * ahead + fresh[t] * (pi * ahead).sum(axis=0)
            beta = beta / beta.max(axis=0)
        log_likelihood = float(np.log(scale).sum())
        return Posterior(self._unfold(classes), self._unfold(renewed), log_likelihood)

    def _fold(self, values: AnyArray, fill: float = 0) -> AnyArray:
        """Return the values as (step, …, block); rows beyond the last have the value `fill`.

        Blocks come last because numpy is fast along the last axis, and slow to reduce a short one.
        """
        shape = (self.n_blocks * self.length, *values.shape[1:])
        padded = np.full(shape, fill, dtype=values.dtype)
        padded[: self.n_samples] = values
        blocks = padded.reshape(self.n_blocks, self.length, *values.shape[1:])
        return np.ascontiguousarray(np.moveaxis(blocks, 0, -1))

    def _unfold(self, values: AnyArray) -> AnyArray:
        """Return the rows of (step, …, block)."""
        rows = np.moveaxis(values, -1, 0)
        return rows.reshape(-1, *values.shape[1:-1])[: self.n_samples]

    def _entering_values(self, S: IntArray, w: IntArray) -> IntArray:
        """Return the best values of paths that end just before each block, by their last class."""
        c = S.shape[1]
        across = S[0] - w[0] * (1 - np.eye(c, dtype=np.int64))[..., None]
        for t in range(1, self.length):
            other = across.max(axis=1) - w[t]
            np.maximum(across, other[:, None], out=across)
            across += S[t]
        enters = np.zeros((c, self.n_blocks), dtype=np.int64)
        for block in range(1, self.n_blocks):
            values = enters[:, block - 1, None] + across[:, :, block - 1]
            enters[:, block] = values.max(axis=0)
        return enters

    def _walk(
        self, S: IntArray, w: IntArray, enters: IntArray
    ) -> tuple[AnyArray, IntArray, IntArray, IntArray]:
        """Return how the best paths come to each row and class.

        They stay in their class where `stays[step, class, block]`, else they come from
        `others[step, block]`. Also returned are their values at the end of each block, and the
        class that they had before it.
        """
        stays = np.empty(S.shape, dtype=bool)
        others = np.empty((self.length, self.n_blocks), dtype=np.intp)
        blocks, value = np.arange(self.n_blocks), enters
        origin = np.tile(np.arange(S.shape[1])[:, None], self.n_blocks)
        for t in range(self.length):
            others[t] = np.argmax(value, axis=0)
            other = value[others[t], blocks] - w[t]
            stays[t] = value >= other
            origin = np.where(stays[t], origin, origin[others[t], blocks])
            value = np.maximum(value, other) + S[t]
        return stays, others, value, origin

    def _ends(self, last: IntArray, origins: IntArray) -> IntArray:
        """Return the class of the best path at the end of each block."""
        ends = np.empty(self.n_blocks, dtype=np.intp)
        ends[-1] = np.argmax(last[:, -1])
        for block in range(self.n_blocks - 1, 0, -1):
            ends[block - 1] = origins[ends[block], block]
        return ends

    def _entering_messages(
        self, E: FloatArray, keep: FloatArray, fresh: FloatArray, pi: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the messages that enter each block from before and from after it."""
        c = E.shape[1]
        across = np.tile(np.eye(c)[..., None], self.n_blocks)
        for t in range(self.length):
            drawn = fresh[t] * across.sum(axis=1)
            across *= keep[t]
            across += drawn[:, None] * pi
            across *= E[t]
            across /= across.max(axis=(0, 1))
        forward, backward = np.full((2, c, self.n_blocks), 1.0 / c)
        for block in range(1, self.n_blocks):
            message = forward[:, block - 1] @ across[:, :, block - 1]
            forward[:, block] = message / message.sum()
        for block in range(self.n_blocks - 1, 0, -1):
            message = across[:, :, block] @ backward[:, block]
            backward[:, block - 1] = message / message.max()
        return forward, backward
