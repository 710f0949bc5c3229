"""The descent on partitions: what `descend` and `meet_totals` evaluate on a cluster.

LP-LLP on anchors has a reduced form, whose state is as large as the anchors, not the rows. With
`P = (1-α)(I + α Z (Λ - α ZᵀZ)⁻¹ Zᵀ)`, a step of length 1/α from Y down the energy's gradient ends
in `Z B` with `B = (1-α)(Λ - α ZᵀZ)⁻¹ Zᵀ Y`: of Y only ZᵀY is left. The next soft labels, Π(Z B),
are therefore a function of B and of the bags' multipliers, and the driver needs ZᵀF of them, a few
sums, and nothing else. The iterates are those of one machine, up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from apportion._core.dual import meet_totals
from apportion._core.evaluator import DescentState, DualSums, Step
from apportion._core.propagation import Cholesky
from apportion._dask.cluster import Cluster
from apportion._dask.layout import Layout
from apportion._dask.partition import ReducedPoint, StepAnswer, StepSums, step_sums
from apportion._dask.sums import added
from apportion._utils.typing import BoolArray, FloatArray, IntArray
from apportion.exceptions import InputError

_TIGHT, _LOOSE, _SHARE = 1e-12, 1e-6, 1e-3
"""How far bags across partitions may be off their masses, relative to their size: a share of the
square of the last relative step, within bounds. Every Newton step is a request."""

_NEWTON_STEPS, _MAX_STEP = 60, 2.0
"""The most Newton steps of a projection, and the longest: rows of weight 1 move no farther."""

HALVINGS, PATIENCE = 20, 1
"""Every trial of a Newton step is a request to all partitions that hold rows of spanning bags, so
that a bag that one step does not bring nearer is left as it is."""

_NO_SUMS = DualSums(*[np.empty(0)] * 4)


@dataclass(frozen=True)
class PartitionDual:
    """The dual of bags whose rows are on partitions; a `DualPoint` once it was evaluated.

    Every evaluation is one request for all bags at once: bags that are left alone are sent with the
    multipliers of their last evaluation. A request that equals the last one is not repeated.

    Parameters
    ----------
    request : callable
        Returns the sums of all bags at their multipliers.
    multipliers : ndarray of shape (n_bags, n_classes)
        The multipliers of all bags.
    bags : ndarray of shape (n_some,), optional
        The bags that this is the dual of; by default all.
    answer : DualSums
        What the request returned.
    """

    request: Callable[[FloatArray], DualSums]
    multipliers: FloatArray
    bags: IntArray | None = None
    answer: DualSums = _NO_SUMS
    _last: list[PartitionDual] = field(default_factory=list)

    def at(self, multipliers: FloatArray) -> PartitionDual:
        """Return the dual at other multipliers."""
        every = self.multipliers.copy()
        every[self._positions] = multipliers
        if not self._last or not np.array_equal(self._last[0].multipliers, every):
            self._last[:] = [replace(self, multipliers=every, answer=self.request(every))]
        return replace(self._last[0], bags=self.bags)

    def only(self, keep: BoolArray) -> PartitionDual:
        """Return the dual of some bags."""
        return replace(self, bags=self._positions[keep])

    @property
    def _positions(self) -> IntArray:
        return np.arange(len(self.multipliers)) if self.bags is None else self.bags

    @property
    def sums(self) -> FloatArray:
        """Sums of the soft labels of each bag."""
        return self.answer.sums[self._positions]

    @property
    def value(self) -> FloatArray:
        """Sums of the rows' values."""
        return self.answer.value[self._positions]

    @property
    def magnitude(self) -> FloatArray:
        """Sums of the rows' absolute values."""
        return self.answer.magnitude[self._positions]

    def hessian(self) -> FloatArray:
        """Return the derivatives of the sums."""
        return self.answer.hessian[self._positions]


class DaskPoint(NamedTuple):
    """A point of the descent.

    Attributes
    ----------
    reduced : ReducedPoint
        What soft labels follow from.
    anchors : ndarray of shape (n_anchors, n_columns)
        Zᵀ F.
    residual : float
        How far bags across partitions are off their masses, relative to their size.
    sent : future, optional
        The reduced point, where it has been sent to the cluster.
    """

    reduced: ReducedPoint
    anchors: FloatArray
    residual: float
    sent: Any = None


class Extrapolation(NamedTuple):
    """The point here + momentum (here - before); partitions add up rows of both."""

    here: DaskPoint
    before: DaskPoint
    momentum: float


@dataclass
class DaskState(DescentState[DaskPoint, Extrapolation]):
    """All that the descent knows beside the partitions' soft labels: what a checkpoint holds.

    Attributes
    ----------
    rows_digest : str
        A digest of rows, bags and partitions, which tells others from these.
    """

    rows_digest: str = ""


class DaskEvaluator:
    """The energy on partitions: see `DescentEvaluator`.

    Parameters
    ----------
    cluster : Cluster
        Where the partitions are.
    layout : Layout
        The partitions.
    alpha : float
        How far labels travel.

    Attributes
    ----------
    requests : list of int
        The number of requests of each iteration.
    bytes_per_request : int
        What the last request sent to a partition and brought back.
    """

    def __init__(self, cluster: Cluster, layout: Layout, alpha: float) -> None:
        self.cluster, self.layout, self.lipschitz = cluster, layout, alpha
        self._weight = 2.0 if len(layout.classes) == 2 else 1.0
        self._factor = Cholesky(np.diag(layout.masses) - alpha * layout.shared)
        self.requests: list[int] = []
        self.bytes_per_request = 0

    def start(self) -> DaskState:
        """Return the state at the soft labels nearest to the bags' shares."""
        lower = self.layout.spanning[0]
        point, sums = self._evaluated(np.zeros((0, 0)), np.zeros(lower.shape), _TIGHT)
        square = sums.square
        if self._weight == 2.0:  # of two classes, rows sum to 1, and so do their weights on anchors
            square += self.layout.n_samples - 2.0 * float(sums.anchors.sum()) + square
        return DaskState(
            here=point,
            ahead=self.extrapolated(point, point, 0.0),
            energies=[self._energy(sums)],
            size=math.sqrt(max(square, 1e-300)),
            rows_digest=self.layout.rows_digest,
        )

    def extrapolated(self, point: DaskPoint, before: DaskPoint, momentum: float) -> Extrapolation:
        """Return what follows from two points and the momentum; nothing is evaluated."""
        return Extrapolation(point, before, momentum)

    def step(self, state: DescentState[DaskPoint, Extrapolation]) -> Step[DaskPoint]:
        """Return the projected gradient step from `state.ahead`."""
        here, before, momentum = state.ahead
        Y = here.anchors + momentum * (here.anchors - before.anchors)
        B = (1.0 - self.lipschitz) * self._factor.solve(Y)
        tolerance = min(max(_SHARE * (state.gap / state.size) ** 2, _TIGHT), _LOOSE)
        lam = here.reduced.multipliers
        lam = lam + momentum * (lam - before.reduced.multipliers)
        futures = self._future(here), self._future(before), momentum
        self.requests.append(0)
        point, sums = self._evaluated(B, lam, tolerance, *futures)
        # Bags that are off their masses may lower the energy, by no more than this.
        largest = np.abs(point.reduced.multipliers).max(axis=1, initial=0.0)
        slack = 4.0 * tolerance * float(self.layout.spanning[2] @ largest)
        gap = math.sqrt(self._weight * sums.gap)
        return Step(point, self._energy(sums), gap, sums.onward, slack)

    def leap(
        self, state: DescentState[DaskPoint, Extrapolation], threshold: float, most: int
    ) -> None:
        """Return none: Newton's method would need a request for each of its many products."""

    def sharpened(self, point: DaskPoint) -> DaskPoint:
        """Return the point: propagation through anchors is exact."""
        return point

    def stationarity(self, state: DescentState[DaskPoint, Extrapolation]) -> float:
        """Return the relative length of the last step, which costs no request."""
        return self.lipschitz * state.gap / state.size

    def _future(self, point: DaskPoint) -> Any:
        return self.cluster.send(point.reduced) if point.sent is None else point.sent

    def _evaluated(
        self,
        B: FloatArray,
        lam: FloatArray,
        tolerance: float,
        here: Any = None,
        before: Any = None,
        momentum: float = 0.0,
    ) -> tuple[DaskPoint, StepSums]:
        """Return the projection of Z B, and its sums over rows.

        The first trial multipliers go to all partitions together with B; further ones only to those
        that hold rows of bags across partitions.
        """
        cluster = self.cluster
        others: list[Any] | None = None
        sent: Any = None
        answer: StepAnswer

        def request(trial: FloatArray) -> DualSums:
            nonlocal others, sent, answer
            if self.requests:  # the start is no iteration
                self.requests[-1] += 1
            sent = cluster.send(ReducedPoint(B, trial))
            question = sent, here, before, momentum
            holders = cluster.joined(cluster.on_each(step_sums, self.layout.holders, *question))
            if others is None:
                others = cluster.joined(cluster.on_each(step_sums, self.layout.others, *question))
            answer = added(cluster.gather([*holders, *others]))
            return DualSums(*answer.bags.of_all(len(trial)))

        lam, residual = meet_totals(
            PartitionDual(request, lam),
            *self.layout.spanning,
            max_step=_MAX_STEP,
            start=lam,
            tol=tolerance,
            max_iter=_NEWTON_STEPS,
            halvings=HALVINGS,
            patience=PATIENCE,
        )
        point = ReducedPoint(B, lam)
        self.bytes_per_request = _bytes((point, answer.rows, answer.bags.values))
        return DaskPoint(point, answer.rows.anchors, residual, sent), answer.rows

    def _energy(self, sums: StepSums) -> float:
        A, alpha = sums.anchors, self.lipschitz
        shared = float(np.vdot(A, self._factor.solve(A)))
        energy = 0.5 * self._weight * alpha * (sums.square - (1.0 - alpha) * shared)
        if not math.isfinite(energy + sums.gap):
            raise InputError(
                "the soft labels",
                f"an energy of {energy:g} and a step of {sums.gap:g}",
                "finite numbers",
                "look for features or totals that are far too large, and rescale them",
            )
        return energy


def _bytes(value: Any) -> int:
    """Return how many bytes the numbers of an answer take."""
    return sum(map(_bytes, value)) if isinstance(value, tuple) else np.asarray(value).nbytes
