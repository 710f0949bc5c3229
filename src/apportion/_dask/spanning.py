"""Multipliers of bags that lie in several partitions, by Newton steps on sums from all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from apportion._core.dual import best_common_shift, dual_gradient, newton_step
from apportion._dask.bag_sums import BagSums
from apportion._utils.typing import BoolArray, FloatArray

_MOST_STEPS = 60
_REACH = 2.0
_HALVINGS = 20


@dataclass(frozen=True)
class SpanningBags:
    """The masses and sizes of the bags that lie in several partitions."""

    lower: FloatArray
    upper: FloatArray
    sizes: FloatArray

    def met(
        self,
        ask: Callable[[FloatArray], BagSums],
        lam: FloatArray,
        tol: float,
        most_steps: int = _MOST_STEPS,
        reach: float = _REACH,
    ) -> tuple[FloatArray, float]:
        """Return multipliers at which the bags' sums meet their masses: the last asked about.

        The same damped Newton steps as `meet_totals`, on sums instead of rows: every trial asks
        all partitions once. Bags that no step brings nearer are left as they are; with the
        multipliers comes how far off the bags are, relative to their size.
        """
        low, high, sizes = self.lower, self.upper, self.sizes
        scale = tol * np.maximum(sizes, 1.0)
        caution = np.full(len(sizes), 1e-3)
        stuck = np.zeros(len(sizes), dtype=bool)
        lam = best_common_shift(lam, low, high, sizes)
        here = ask(lam)
        for _ in range(most_steps):
            gradient = dual_gradient(lam, here.masses, low, high)
            wrong = (np.abs(gradient).max(axis=1, initial=0.0) > scale) & ~stuck
            if not wrong.any():
                break
            reaches = np.full(len(sizes), reach)
            direction = newton_step(
                here.hessian.copy(), sizes, lam, low, high, gradient, reaches, caution
            )
            lam, here, whole, good = self._searched(ask, lam, here, gradient, direction, wrong)
            stuck |= ~good
            caution = np.clip(caution * np.where(whole, 0.1, 10.0), 1e-12, 1e-2)
            shifted = best_common_shift(lam, low, high, sizes)
            if not np.array_equal(shifted, lam):
                lam = shifted
                here = ask(lam)
        gradient = dual_gradient(lam, here.masses, low, high)
        off = np.abs(gradient).max(axis=1, initial=0.0) / np.maximum(sizes, 1.0)
        return lam, float(off.max(initial=0.0))

    def _searched(
        self,
        ask: Callable[[FloatArray], BagSums],
        lam: FloatArray,
        here: BagSums,
        gradient: FloatArray,
        direction: FloatArray,
        wrong: BoolArray,
    ) -> tuple[FloatArray, BagSums, BoolArray, BoolArray]:
        """Return λ moved as far along the direction as the dual falls, bag by bag.

        With it come the answer, and which bags moved all the way, and which did well.
        """
        low, high = self.lower, self.upper
        interval = low < high
        side = np.where(lam != 0, np.sign(lam), -np.sign(gradient))
        value = here.value - _bound(lam, low, high)
        room = here.magnitude + np.abs(lam * high).sum(axis=1)
        steepness = np.abs(gradient).max(axis=1)
        length = np.where(wrong, 1.0, 0.0)
        for _ in range(_HALVINGS):
            trial = lam + length[:, None] * direction
            trial[interval & (trial * side < 0)] = 0.0
            tried = ask(trial)
            fall = ((trial - lam) * gradient).sum(axis=1)
            lowered = tried.value - _bound(trial, low, high)
            slope = np.abs(dual_gradient(trial, tried.masses, low, high)).max(axis=1)
            good = (fall < 0) & (lowered <= value + 1e-4 * fall)
            good |= (lowered <= value + 1e-13 * room) & (slope <= 0.5 * steepness)
            good |= ~wrong
            if good.all():
                break
            length = np.where(good, length, 0.5 * length)
        return trial, tried, length == 1.0, good


def _bound(lam: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    return np.asarray(np.where(lam > 0, lam * low, lam * high).sum(axis=1))
