"""Project soft labels onto the masses of bags."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from apportion._core.dual import (
    RowDual,
    SimplexResponse,
    SoftmaxResponse,
    meet_totals,
    onto_simplex,
)
from apportion._utils.arrays import (
    arange,
    as_float,
    beside,
    namespace,
    pseudo_inverses,
    to_numpy,
    zeros,
)
from apportion._utils.box_projection import shift_into_box
from apportion._utils.groups import GroupBlock
from apportion._utils.threads import block_rows, in_threads
from apportion._utils.typing import BoolArray, FloatArray
from apportion.exceptions import compared, counted, users_level
from apportion.supervision.bags import Bags

Method = Literal["nearest", "alternating"]

_SINGULAR = 1e-9
"""Eigenvalues below this share of a bag's largest are 0."""

_MET = 1e-8
"""Masses that are off by no more than this share of their bag are met."""


class MassProjection:
    """Project soft labels onto `C`: rows on the simplex, bag sums within their masses.

    `"nearest"` is `argmin_G ½ Σ_i m_i ‖g_i - f_i‖²` over C. `"alternating"` is the paper's
    alternating projections: rows onto the simplex, then bag sums onto their masses, in turn; it
    finds a point of C, not the nearest one.

    Of two classes, only the column of the second is worked on: see `to_columns`. Rows with given
    labels stay at them; rows in no bag are bound by the simplex alone. Soft labels in columns are
    where the weights are: in memory, or on a device.

    Parameters
    ----------
    bags : Bags
        The constraints.
    weights : ndarray of shape (n_samples,)
        The norm's row weights `m`; ignored by `"alternating"`, which is Euclidean.
    method : {"nearest", "alternating"}
        Which point of C.
    tol : float
        How far a bag's sum may be off, relative to its size.
    max_sweeps : int
        The most sweeps of `"alternating"`.
    """

    def __init__(
        self,
        bags: Bags,
        weights: FloatArray,
        method: Method = "nearest",
        *,
        tol: float = 1e-12,
        max_sweeps: int = 1000,
    ) -> None:
        self.bags = bags
        self.weights = weights
        self.method = method
        self.tol = tol
        self.max_sweeps = max_sweeps
        self.one_column = bags.n_classes == 2
        self.groups = bags.open_groups.beside(weights)
        self._lower = self.to_columns(bags.open_lower)
        self._upper = self.to_columns(bags.open_upper)
        fixed = np.flatnonzero(bags.given >= 0)
        self.fixed = beside(fixed, weights)
        self._labels = self.to_columns(np.eye(bags.n_classes)[bags.given[fixed]])
        self._loose = beside(np.flatnonzero(bags.open_groups.codes < 0), weights)
        self._multipliers = namespace(weights).zeros_like(self._lower)
        blocks = self.groups.blocks(block_rows(bags.n_samples, self._lower.shape[1]))
        self._blocks = [(block, weights[block.rows]) for block in blocks]

    def __call__(self, columns: FloatArray) -> FloatArray:
        """Return the projected soft labels, in columns."""
        if self.method == "alternating":
            projected = self._alternate(columns)
        else:
            projected = namespace(columns).empty_like(columns)
            in_threads(lambda block: self._nearest(block, columns, projected), self._blocks)
            projected[self._loose] = self._onto_simplex(columns[self._loose])
        projected[self.fixed] = self._labels
        return projected

    def to_columns(self, F: FloatArray) -> FloatArray:
        """Return the columns that are worked on: the second of two, else all of them."""
        return self.sent(np.ascontiguousarray(F[:, 1:]) if self.one_column else F)

    def from_columns(self, columns: FloatArray) -> FloatArray:
        """Return n × c soft labels in memory from the columns that were worked on."""
        columns = to_numpy(columns)
        return np.hstack([1.0 - columns, columns]) if self.one_column else columns

    def sent(self, F: FloatArray) -> FloatArray:
        """Return an array in memory where rows are worked on."""
        return beside(F, self.weights)

    def residual(self, columns: FloatArray) -> float:
        """Return the largest breach of a constraint: of a bag's sum, of a row's simplex."""
        xp, sums = namespace(columns), self.groups.sum(columns)
        size = xp.maximum(self.groups.sizes, 1.0)[:, None]
        breaches = [
            xp.maximum(self._lower - sums, sums - self._upper) / size,
            xp.maximum(-columns, columns - 1.0),
        ]
        if not self.one_column:
            breaches.append(xp.abs(columns.sum(axis=1) - 1.0))
        # NumPy's maximum, because Python's would lose a NaN.
        return float(np.max([0.0, *(float(xp.max(breach)) for breach in breaches if len(breach))]))

    def _nearest(
        self, block: tuple[GroupBlock, FloatArray], columns: FloatArray, projected: FloatArray
    ) -> None:
        """Write the nearest point for the bags of one block: one λ per bag and column.

        g_i = clip(f_i + λ_k / m_i, 0, 1) for one column, g_i = Π_simplex(f_i + λ_k / m_i) for more.
        """
        (rows, groups, span), weights = block
        f = columns[rows]
        lower, upper = self._lower[span], self._upper[span]
        start = self._multipliers[span]
        if self.one_column:
            totals = lower[:, 0], upper[:, 0], start[:, 0], self.tol
            box = f[:, 0], weights, 0.0, 1.0
            projected[rows, 0], start[:, 0] = shift_into_box(*box, groups, *totals)
        else:
            # Every evaluation writes its soft labels: side by side here, and only the last of them
            # to where the rows of the bags lie scattered.
            xp = namespace(f)
            labels = xp.empty_like(f)
            start[:], _ = meet_totals(
                RowDual(SimplexResponse(f, weights), groups, labels),
                lower,
                upper,
                groups.sizes,
                max_step=2.0 * xp.maximum(groups.greatest(weights), 1e-300),
                start=start,
                tol=self.tol,
            )
            projected[rows] = labels

    def held(self) -> BoolArray:
        """Return which totals bound the soft labels that were projected last."""
        held: BoolArray = (self._lower == self._upper) | (self._multipliers != 0)
        return held

    def _onto_simplex(self, columns: FloatArray) -> FloatArray:
        clip = namespace(columns).clip
        return clip(columns, 0.0, 1.0) if self.one_column else onto_simplex(columns)

    def _alternate(self, columns: FloatArray) -> FloatArray:
        """Rows onto the simplex, then bag sums onto their masses, until the two agree."""
        xp = namespace(columns)
        size = xp.maximum(self.groups.sizes, 1.0)[:, None]
        for _ in range(self.max_sweeps):
            on_simplex = self._onto_simplex(columns)
            sums = self.groups.sum(on_simplex)
            shift = (xp.clip(sums, self._lower, self._upper) - sums) / size
            if (xp.abs(shift) <= self.tol).all():
                return on_simplex
            columns = on_simplex + self.groups.spread(shift)
        return columns


class Face:
    """Project directions onto those that stay on a face of C: the derivative of the projection.

    This is `argmin_d ½ Σ_i m_i ‖d_i - v_i‖²` over the directions d that keep soft labels of 0, the
    sum of every row, and the sums of bags that their totals bound.

    Parameters
    ----------
    project : MassProjection
        The projection.
    columns : ndarray of shape (n_samples, n_columns)
        Soft labels of C.
    held : ndarray of bool, of shape (n_bags, n_columns)
        The totals that bound them.
    """

    def __init__(self, project: MassProjection, columns: FloatArray, held: BoolArray) -> None:
        self._groups, self._one_column = project.groups, project.one_column
        xp = namespace(columns)
        free = (columns > 0) & (columns < 1)
        free[project.fixed] = False
        self._free = as_float(free)
        self._share = self._free / xp.maximum(self._free.sum(axis=1, keepdims=True), 1.0)
        self._weights = project.weights[:, None]
        self._bound = bool(held.any())
        hessian = self._hessian() * (held[:, :, None] & held[:, None, :])
        # Totals that follow from others, as the last class does, make it singular.
        self._inverse = pseudo_inverses(hessian, _SINGULAR)

    def __call__(self, direction: FloatArray) -> FloatArray:
        """Return the nearest direction that stays on the face."""
        direction = self._centered(direction)
        if not self._bound:
            return direction
        einsum = namespace(direction).einsum
        multipliers = einsum("kgh,kh->kg", self._inverse, self._groups.sum(direction))
        return direction - self._centered(self._groups.spread(multipliers) / self._weights)

    def _centered(self, direction: FloatArray) -> FloatArray:
        """Return a direction with what leaves a row's simplex taken out."""
        if self._one_column:
            return direction * self._free
        direction = direction * self._free
        direction -= self._share * namespace(direction).einsum("ih->i", direction)[:, None]
        return direction

    def _hessian(self) -> FloatArray:
        """Return the derivatives of the bags' sums by their multipliers."""
        c = self._free.shape[1]
        per_row = self._free / self._weights
        hessian = zeros((self._groups.n_groups, c, c), like=per_row)
        if not self._one_column:
            for h in range(c):
                hessian[:, h] = -self._groups.sum(self._share[:, h : h + 1] * per_row)
        every = arange(c, per_row)
        hessian[:, every, every] += self._groups.sum(per_row)
        return hessian


def reconcile(
    probabilities: FloatArray,
    bags: Bags,
    *,
    excluded: BoolArray | None = None,
    floor: float = 1e-12,
    tol: float = 1e-10,
) -> FloatArray:
    """Return the class probabilities shifted, bag by bag, so that they sum to the bags' masses.

    This is `argmin_G Σ_i KL(g_i ‖ p_i)` over C: one shift of the logits per bag and class. A class
    of mass 0 gets probability 0 exactly, and so do classes that are excluded for a row. Bags whose
    masses are missed are reported by a warning.
    """
    groups = bags.open_groups
    empty = groups.spread((bags.open_upper <= 0).astype(np.float64)) > 0
    if excluded is not None:
        empty |= excluded
    logits = np.where(empty, -np.inf, np.log(np.clip(probabilities, floor, None)))
    lower = np.where(groups.sizes[:, None] > 0, bags.open_lower, 0.0)
    shifted = np.empty_like(logits)
    dual = RowDual(SoftmaxResponse(logits, np.ones(len(logits))), groups, shifted)
    meet_totals(dual, lower, bags.open_upper, groups.sizes, max_step=10.0, tol=tol)
    _warn_of_missed_totals(groups.sum(shifted), bags)
    return bags.with_given(shifted)


def _warn_of_missed_totals(sums: FloatArray, bags: Bags) -> None:
    """Warn where the class masses of a bag's open rows are off their bounds."""
    size = np.maximum(bags.open_groups.sizes, 1.0)[:, None]
    off = np.maximum(bags.open_lower - sums, sums - bags.open_upper) / size
    worst = off.max(axis=1, initial=0.0)
    missed = np.flatnonzero(worst > _MET)
    if missed.size:
        k = int(missed[np.argmax(worst[missed])])
        h = int(np.argmax(off[k]))
        mass, least, most = compared(sums[k, h], bags.open_lower[k, h], bags.open_upper[k, h])
        warnings.warn(
            f"{counted(missed.size, 'bag')} of {len(bags.ids)} could not be reconciled with their "
            f"totals, the worst of them {bags.ids[k]!r}: its soft labels of class "
            f"{bags.classes.tolist()[h]!r} sum to {mass} where its totals allow "
            f"{least} to {most}. Correct the totals, or "
            "give probabilities that are less sure.",
            ConvergenceWarning,
            stacklevel=users_level(),
        )
