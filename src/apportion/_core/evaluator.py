"""What the algorithm asks of a back end: sums over rows.

The core works on small arrays: one row per bag or one row per anchor. Everything that is as long as
the table stays behind the protocols of this module. A back end decides where rows are and how
sums over them are taken: on one machine (`RowDual`, `LocalEvaluator`, `_Kinds`, `GraphLabels`), or
on the partitions of a cluster (`apportion._dask`). That of one machine works on NumPy arrays, in
blocks and threads, or on the tensors of a device: it takes its functions from the arrays' own
namespace (`_utils.arrays`). The small arrays are then on the device, too.

| protocol | asked by | what is evaluated |
|---|---|---|
| `DualEvaluator`, `DualPoint` | `dual.meet_totals` | the dual of the projection onto totals |
| `DescentEvaluator` | `descent.descend` | a projected gradient step |
| `QuotaEvaluator` | `quota_prices.search_prices` | softmax sums and counts at prices |
| `LabelEvaluator` | `refine.raise_agreement` | agreement of labels with neighbors |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

from apportion._utils.typing import BoolArray, FloatArray, IntArray

Point = TypeVar("Point")
Extrapolated = TypeVar("Extrapolated")
Labels = TypeVar("Labels")
Means = TypeVar("Means")


class DualEvaluator(Protocol):
    """Bags whose rows answer multipliers with soft labels."""

    def at(self, multipliers: FloatArray) -> DualPoint:
        """Return the dual at multipliers, one row per bag and one column per class.

        The back end keeps the soft labels of this evaluation. `meet_totals` evaluates every bag
        last at the multipliers that it returns, so that these soft labels are the projection.
        """


class DualPoint(DualEvaluator, Protocol):
    """The dual of some bags at their multipliers, as sums over the rows of each bag."""

    @property
    def sums(self) -> FloatArray:
        """Sums of the soft labels, of shape (n_bags, n_classes)."""

    @property
    def value(self) -> FloatArray:
        """Sums of the rows' values `max_g λ·g - distance(g, f)`, of shape (n_bags,)."""

    @property
    def magnitude(self) -> FloatArray:
        """Sums of the absolute values, which tell how exact `value` is, of shape (n_bags,)."""

    def hessian(self) -> FloatArray:
        """Return the derivatives of the sums, of shape (n_bags, n_classes, n_classes).

        It is asked for once per Newton step and not for the trials of a line search.
        """

    def only(self, keep: BoolArray) -> Self:
        """Return the same for some bags; the others stay where they were evaluated last."""


class DualSums(NamedTuple):
    """All that a `DualPoint` knows, as arrays: one row per bag."""

    sums: FloatArray
    value: FloatArray
    magnitude: FloatArray
    hessian: FloatArray


@dataclass
class DescentState(Generic[Point, Extrapolated]):
    """Where a descent is.

    Attributes
    ----------
    here : Point
        The last point that was accepted; opaque to the loop.
    ahead : Extrapolated
        The point `here` moved on by the momentum, where the next step begins.
    energies : list of float
        The energy at the start and after every iteration.
    size : float
        ‖F‖ at the start.
    t : float
        The sequence of Nesterov from which the momentum follows; 1 after a restart.
    gap : float
        The length of the last step, ‖F - Y‖ from the point Y where it began.
    slack : float
        How much too low the last energy may be.
    """

    here: Point
    ahead: Extrapolated
    energies: list[float]
    size: float
    t: float = 1.0
    gap: float = math.inf
    slack: float = 0.0


class Step(NamedTuple, Generic[Point]):
    """A projected gradient step.

    Attributes
    ----------
    point : Point
        Where it ends.
    energy : float
        The energy there.
    gap : float
        ‖F - Y‖ from the point Y where it began.
    onward : float
        ⟨F - Y, F - F before⟩: negative where momentum leads uphill.
    slack : float
        How much too low the energy may be.
    """

    point: Point
    energy: float
    gap: float
    onward: float
    slack: float = 0.0


class Leap(NamedTuple, Generic[Point]):
    """Newton's method on the whole, from one point of the descent to another.

    Attributes
    ----------
    point : Point
        Where it ends.
    energy : float
        The energy there.
    n_iter : int
        How many iterations it counts for.
    converged : bool
        Whether it ended at a minimizer.
    """

    point: Point
    energy: float
    n_iter: int
    converged: bool


class DescentEvaluator(Protocol[Point, Extrapolated]):
    """The energy and the set of feasible soft labels."""

    @property
    def lipschitz(self) -> float:
        """The Lipschitz constant of the gradient; steps have length 1 / lipschitz."""

    def extrapolated(self, point: Point, before: Point, momentum: float) -> Extrapolated:
        """Return point + momentum (point - before)."""

    def step(self, state: DescentState[Point, Extrapolated]) -> Step[Point]:
        """Return the projected gradient step from `state.ahead`."""

    def leap(
        self, state: DescentState[Point, Extrapolated], threshold: float, most: int
    ) -> Leap[Point] | None:
        """Return where Newton's method leads from `state.here`; None where there is none.

        It may take as many iterations as given, and ends early at the stationarity given.
        """

    def sharpened(self, point: Point) -> Point:
        """Return the point evaluated to full accuracy; the same object if it is already."""

    def stationarity(self, state: DescentState[Point, Extrapolated]) -> float:
        """Return how far `state.here` is from a minimizer, relative to ‖F‖."""


class QuotaEvaluator(Protocol):
    """Rows of some bags that choose their best class at prices."""

    def counts(self, prices: IntArray) -> tuple[IntArray, IntArray]:
        """Return prices, and how many rows of each bag take each class when these are added.

        They are the prices given. Where counts are a by-product of `softmax`, they may be others
        that were evaluated before and whose counts are nearer to the quotas.
        """

    def softmax(self, temperature: float) -> DualEvaluator:
        """Return the dual of the softmax of scores at a temperature."""

    def only(self, keep: BoolArray) -> Self:
        """Return the same for some bags."""


class LabelEvaluator(Protocol[Labels, Means]):
    """Labels that can be compared with those of neighbors, and decoded anew."""

    def agreement(self, labels: Labels) -> tuple[float, Means]:
        """Return the share of neighbors that agree with a row, and the neighbors' mean labels."""

    def decoded(self, labels: Labels, means: Means) -> Labels:
        """Return the labels of the same counts that follow from the neighbors' means."""
