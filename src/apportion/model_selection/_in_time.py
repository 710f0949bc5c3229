"""How activities last, learned from held-out totals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from apportion._core.persistence import Persistence, smooth_along_time
from apportion._io.archive import Stored
from apportion._io.model_state import State, StateReader
from apportion._utils.sequences import Sequences
from apportion._utils.typing import FloatArray
from apportion.model_selection._calibration import Calibration, KnownTotals, calibrate

_CHANGES = (0.5, 0.3, 0.1, 0.03, 0.01)
_TRUSTS = (1.0, 0.5)
"""The values of `Persistence` that are tried."""


@dataclass(frozen=True)
class InTime:
    """What the rows before and after say of a row.

    Attributes
    ----------
    persistence : Persistence
        How activities last.
    shares : ndarray of shape (n_classes,)
        The overall class shares.
    calibration : Calibration
        The calibration of the smoothed probabilities.
    """

    persistence: Persistence
    shares: FloatArray
    calibration: Calibration

    def smoothed(self, P: FloatArray, sequences: Sequences) -> FloatArray:
        """Return probabilities given all rows of the sequence, not calibrated."""
        return smooth_along_time(P, sequences, self.shares, self.persistence)

    def __call__(self, P: FloatArray, sequences: Sequences) -> FloatArray:
        """Return calibrated probabilities given all rows of the sequence."""
        return self.calibration(self.smoothed(P, sequences))

    def with_shifts_for(self, P: FloatArray, sequences: Sequences) -> InTime:
        """Return the same with class shifts for rows whose totals the methods saw."""
        smoothed = self.smoothed(P, sequences)
        return replace(self, calibration=self.calibration.with_shifts_for(smoothed, self.shares))

    def state(self) -> State:
        """Return what is saved."""
        arrays = {"persistence": np.array(self.persistence), "shares": self.shares}
        return State({}, arrays, {"calibration": self.calibration.state()})

    @classmethod
    def from_state(cls, state: StateReader) -> Self:
        """Return what was saved."""
        form = Stored(("persistence",), least=0.0, most=1.0)
        values = state.array("persistence", form)
        if len(values) != len(Persistence._fields):
            state.refuse(f"{len(values)} numbers", f"{len(Persistence._fields)}")
        shares = state.array("shares", Stored(("classes",), shares=True))
        calibration = Calibration.from_state(state.part("calibration"))
        return cls(Persistence(*values.tolist()), shares, calibration)


# Probabilities of held-out rows are smoothed with a few values each, and the totals decide, as they
# do between methods. That rows stay as they are is one of the values. At the edge of a bag, rows of
# another fold have a say, whose probabilities come from methods that saw this bag's totals.
def learn_persistence(
    final: Calibration, known: KnownTotals, sequences: Sequences
) -> tuple[InTime | None, str]:
    """Return how activities last, None if time does not help, and why, in words.

    Parameters
    ----------
    final : Calibration
        The calibration of the average, with the calibrated probabilities of held-out rows.
    known : KnownTotals
        What is known of these rows.
    sequences : Sequences
        Which rows follow each other.
    """
    P = np.tile(known.overall, (len(sequences.order), 1))
    P[known.rows] = final.held_out
    best: InTime | None = None
    best_likelihood = final.log_likelihood
    for trust in _TRUSTS:
        for change in _CHANGES:
            persistence = Persistence(change, trust)
            smoothed = smooth_along_time(P, sequences, known.overall, persistence)
            calibration = calibrate(smoothed[known.rows], known)
            if calibration.log_likelihood > best_likelihood:
                best = InTime(persistence, known.overall, calibration)
                best_likelihood = calibration.log_likelihood
    without = f"log-likelihood {final.log_likelihood:.1f} without time"
    if best is None:
        return None, f"held-out totals are no likelier if activities last: {without}"
    return best, (
        f"held-out totals are likelier if activities last: {without}, {best_likelihood:.1f} with "
        f"a change in {best.persistence.change:.0%} of the steps"
    )
